"""What are the findings made of? Settings, gaps beside their noise, and every attack.

Called by ``findings``, ``charts`` and the sections of the page. To add a column: a
field of a row here, and its cell in ``people`` or ``method``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pcer.auditing.record import Audit, GroupResult, PairResult, SettingResult
from pcer.measuring.plan import Verdict
from pcer.release import attack_kinds
from pcer.statistics import SIGNIFICANCE
from pcer_studies.claims.evidence import SHARPER, more_exposed
from pcer_studies.claims.judgement import Judged
from pcer_studies.claims.noise import (
    CLIPPED_MEAN,
    PrintedGap,
    published_gaps,
    tail_of_mean,
)
from pcer_studies.claims.our_run import OurRun
from pcer_studies.protocol import BUDGETS, NO_DP, OUR_READING, SEEDS, Configuration
from pcer_studies.published import NotThere
from pcer_studies.results import GAP, OTHER_DATA, OTHER_FEATURES, Study

ATTACKS = {GAP: "overfitting gap", **SHARPER}
"""Attacks that the findings compare, as they are called in print."""


@dataclass(frozen=True, kw_only=True)
class GapRow:
    """One group at one budget: two mean gaps, each beside its noise level.

    Attributes:
        published: the paper's.
        gap: ours.
        noise_level: the mean of ours if nothing were memorised.
        detected: whether the audit detects ours.
    """

    published: PrintedGap
    gap: float
    noise_level: float
    detected: bool

    @property
    def configuration(self) -> Configuration:
        """Dataset and attribute."""
        return self.published.configuration

    @property
    def epsilon(self) -> float:
        """The budget."""
        return self.published.epsilon

    @property
    def group(self) -> str:
        """Name of the group."""
        return self.published.group

    @property
    def private(self) -> bool:
        """Whether the models were trained with differential privacy."""
        return self.epsilon != NO_DP


@dataclass(frozen=True, kw_only=True)
class AttackRow:
    """What the audit by one attack says about one setting."""

    attack: str
    configuration: Configuration
    epsilon: float
    detected: tuple[bool, bool]
    statements: tuple[str, ...]
    more_exposed: str | None

    @property
    def private(self) -> bool:
        """Whether the models were trained with differential privacy."""
        return self.epsilon != NO_DP


@dataclass(frozen=True, kw_only=True)
class GroupCell:
    """One group in one setting, by the attack whose numbers people see.

    Attributes:
        name: of the group.
        outcome: its mean outcome rate.
        found: its exposure, and ``error`` the error of that.
        detected: whether the exposure is detected.
        at_most: the upper bound of the exposure.
        allowed: what training allows an attacker to find.
        spent: the budget that its people spent on average, of the one ``promised``.
    """

    name: str
    outcome: float
    found: float
    error: float
    detected: bool
    at_most: float | None
    allowed: float | None = None
    spent: float | None = None
    promised: float | None = None


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """What the audit as ``pcer audit`` makes it says about one setting.

    Attributes:
        title: the configuration, and the reading if it is the second.
        closest: whether it is the second reading of Adult.
        attack: the one whose numbers people see.
        statements: the audit's statements about the two groups.
        easier: the group that is easier to spot.
        worse_served: the group that has the worse outcome.
        driven_by: what makes the ratio differ.
        difference: the upper bound of the difference of exposures.
        placebo: made-up groups with an alarm, and how many were drawn.
        downgraded: why an alarm was downgraded.
        predicted: what is predicted of whom, in a sentence.
    """

    title: str
    configuration: Configuration
    closest: bool
    epsilon: float
    attack: str
    verdict: Verdict
    statements: tuple[str, ...]
    easier: str | None
    worse_served: str | None
    driven_by: str | None
    groups: tuple[GroupCell, GroupCell]
    difference: float | None
    placebo: tuple[int, int] | None
    downgraded: str | None
    predicted: str

    @property
    def private(self) -> bool:
        """Whether the models were trained with differential privacy."""
        return self.epsilon != NO_DP

    @property
    def on_attack_scale(self) -> bool:
        """Whether its exposure is an AUC minus one half, as what training allows is."""
        return self.attack in ON_ATTACK_SCALE


ON_ATTACK_SCALE = (
    attack_kinds.RMIA.name,
    attack_kinds.LIRA.name,
    attack_kinds.AUC_ADVANTAGE.name,
)
CLOSEST_TITLE = "closest reading"


@dataclass(frozen=True)
class Background:
    """All that the page of findings is written from."""

    study: Study
    settings: Sequence[SettingRow]
    gaps: Sequence[GapRow]
    attacks: Sequence[AttackRow]
    judged: Sequence[Judged]

    def attacks_by(self, attack: str) -> list[AttackRow]:
        """The settings by one attack."""
        return [row for row in self.attacks if row.attack == attack]

    @property
    def titles(self) -> list[str]:
        """Configurations, and second readings, in order."""
        return list(dict.fromkeys(row.title for row in self.settings))

    def titled(self, title: str) -> list[SettingRow]:
        """The settings of one of them, from no privacy to the strongest."""
        rows = [row for row in self.settings if row.title == title]
        return sorted(rows, key=lambda row: -row.epsilon)

    def title_of(self, row: SettingRow) -> str:
        """The title of a setting, marked where its data may not be the paper's."""
        if row.closest:
            return row.title
        name = row.configuration.name
        return row.title.replace(name, self.name_of(row.configuration))

    def name_of(self, configuration: Configuration) -> str:
        """The name of a configuration, marked likewise."""
        dataset = configuration.dataset
        if self.study.data_note(dataset, configuration.attribute):
            return f"{configuration.name} {OTHER_DATA}"
        if dataset in OUR_READING:
            return f"{configuration.name} {OTHER_FEATURES}"
        return configuration.name


def background_of(study: Study, judged: Sequence[Judged]) -> Background:
    """A study, read for its page; ``judged`` are the claims."""
    return Background(
        study, setting_rows(study), gap_rows(study), attack_rows(study), judged
    )


def gap_rows(study: Study) -> list[GapRow]:
    """All gaps of the study's configurations, in the paper's order."""
    run = OurRun(study)
    return [_gap_row(run, gap) for gap in published_gaps(study)]


def _gap_row(run: OurRun, published: PrintedGap) -> GapRow:
    configuration = published.configuration
    group = configuration.groups.index(published.group)
    result = run.group(configuration, published.epsilon, group)
    return GapRow(
        published=published,
        gap=_or_nan(result.overfitting_gap.mean),
        noise_level=run.noise_level(configuration, published.epsilon, group),
        detected=result.detected,
    )


def attack_rows(study: Study) -> list[AttackRow]:
    """Every setting by every attack that its release carries."""
    run = OurRun(study)
    rows: list[AttackRow] = []
    for attack in ATTACKS:
        for configuration in study.configurations:
            try:
                budgets_of = more_exposed(run, configuration, attack)
            except NotThere:
                continue
            for epsilon in BUDGETS:
                setting = run.setting(configuration, epsilon, attack)
                ahead = [name for name in budgets_of if epsilon in budgets_of[name]]
                rows.append(_attack_row(configuration, attack, setting, ahead))
    return rows


def _attack_row(
    configuration: Configuration,
    attack: str,
    setting: SettingResult,
    ahead: Sequence[str],
) -> AttackRow:
    """A setting by one attack; ``ahead`` is the more exposed group, if there is one."""
    first, second = (setting.groups[name] for name in configuration.groups)
    return AttackRow(
        attack=attack,
        configuration=configuration,
        epsilon=setting.budget,
        detected=(first.detected, second.detected),
        statements=tuple(setting.pairs[0].statements),
        more_exposed=ahead[0] if ahead else None,
    )


def setting_rows(study: Study) -> list[SettingRow]:
    """Every setting of every configuration, then of the second reading of Adult."""
    rows: list[SettingRow] = []
    for configuration in study.configurations:
        audit = study.verdicts[configuration.dataset, configuration.attribute]
        rows += _rows_of_audit(configuration, audit, configuration.name)
    if study.closest is None:
        return rows
    for configuration in study.configurations:
        key = (configuration.dataset, configuration.attribute)
        if key in study.second:
            title = f"{configuration.name}, {CLOSEST_TITLE}"
            audit = study.closest.verdicts[key]
            rows += _rows_of_audit(configuration, audit, title, closest=True)
    return rows


def _rows_of_audit(
    configuration: Configuration, audit: Audit, title: str, *, closest: bool = False
) -> Iterator[SettingRow]:
    subject = audit.subject
    people = subject.people or "people"
    outcome = subject.positive_means or "get a positive prediction"
    for setting in audit.settings:
        pair = setting.pairs[0]
        first, second = (
            _group_cell(name, setting.groups[name]) for name in configuration.groups
        )
        yield SettingRow(
            title=title,
            configuration=configuration,
            closest=closest,
            epsilon=setting.budget,
            attack=audit.attack,
            verdict=setting.verdict,
            statements=tuple(pair.statements),
            easier=pair.exposure.group,
            worse_served=pair.outcomes.group,
            driven_by=pair.ratio.driven_by,
            groups=(first, second),
            difference=pair.exposure.difference.upper_bound,
            placebo=_placebo(pair),
            downgraded=_downgraded(pair),
            predicted=f"Outcome: {people} {outcome} (a {subject.outcome}).",
        )


def _placebo(pair: PairResult) -> tuple[int, int] | None:
    """Made-up groups with an alarm, and how many were drawn; None without the check."""
    check = pair.exposure.placebo or pair.ratio.placebo
    if check is None:
        return None
    counts = (check.n_any, check.n_exposure, check.n_ratio, check.n_double)
    return max(count or 0 for count in counts), check.n_draws


def _downgraded(pair: PairResult) -> str | None:
    """Why an alarm was downgraded: the reason of the first answer that has one."""
    for answer in (pair.double_disadvantage, pair.exposure, pair.ratio, pair.outcomes):
        if answer.downgraded:
            return answer.downgraded
    return None


def _group_cell(name: str, group: GroupResult) -> GroupCell:
    cell = GroupCell(
        name=name,
        outcome=_or_nan(group.benefit.mean),
        found=_or_nan(group.exposure.value),
        error=_or_nan(group.exposure.standard_error),
        detected=group.detected,
        at_most=group.exposure.upper_bound,
    )
    bound = group.allowed
    if bound is None:
        return cell
    return replace(
        cell, allowed=bound.advantage, spent=bound.spent, promised=bound.nominal
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def standing_out_from(n_tests: int, *, n: int = len(SEEDS)) -> float:
    """How large a gap must be, in noise levels, to stand out.

    The largest of ``n_tests`` mean gaps over n splits, found by bisection.

    >>> 1.6 < standing_out_from(72) < 1.9
    True
    """
    low = 1.0
    high = 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        p = tail_of_mean(middle * CLIPPED_MEAN, spread=1.0, n=n)
        if p <= SIGNIFICANCE / n_tests:
            high = middle
        else:
            low = middle
    return high
