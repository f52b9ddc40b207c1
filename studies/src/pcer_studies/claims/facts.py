"""What the findings are made of: all 72 gaps beside their noise, both answers by every attack."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcer.auditing.file import Audit, BudgetResult, GroupResult
from pcer.auditing.verdict import Verdict
from pcer.release import proxies
from pcer.statistics import SIGNIFICANCE
from pcer_studies.claims.evidence import SHARPER, more_exposed
from pcer_studies.claims.noise import (
    CLIPPED_MEAN,
    PrintedGap,
    published_gaps,
    tail_of_mean,
)
from pcer_studies.claims.our_run import OurRun
from pcer_studies.protocol import BUDGETS, NO_DP, SEEDS, Configuration
from pcer_studies.published import NotThere
from pcer_studies.results import GAP, Study

COSTS = {GAP: "overfitting gap", **SHARPER}
"""Attacks that the findings compare, as they are called in print."""


@dataclass(frozen=True, kw_only=True)
class GapRow:
    """One group at one budget: the published mean gap and ours, each beside its noise level."""

    published: PrintedGap
    gap: float
    noise_level: float
    resolved: bool

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
class CostRow:
    """What the audit by one attack says about one setting."""

    cost: str
    configuration: Configuration
    epsilon: float
    resolved: tuple[bool, bool]
    statements: tuple[str, ...]
    more_exposed: str | None

    @property
    def private(self) -> bool:
        """Whether the models were trained with differential privacy."""
        return self.epsilon != NO_DP


def gap_rows(study: Study) -> list[GapRow]:
    """All gaps of the study's configurations, in the paper's order."""
    run = OurRun(study)
    return [_gap_row(run, gap) for gap in published_gaps(study)]


def _gap_row(run: OurRun, published: PrintedGap) -> GapRow:
    one = published.configuration
    epsilon = published.epsilon
    group = one.groups.index(published.group)
    result = run.group(one, epsilon, group)
    return GapRow(
        published=published,
        gap=_known(result.overfitting_gap.mean),
        noise_level=run.noise_level(one, epsilon, group),
        resolved=result.resolved,
    )


def cost_rows(study: Study) -> list[CostRow]:
    """Every setting by every attack that its release carries."""
    run = OurRun(study)
    rows: list[CostRow] = []
    for cost in COSTS:
        for one in study.configurations:
            try:
                exposed = more_exposed(run, one, cost)
            except NotThere:
                continue
            rows += [_cost_row(run, one, e, cost, exposed) for e in BUDGETS]
    return rows


def _cost_row(
    run: OurRun,
    one: Configuration,
    epsilon: float,
    cost: str,
    exposed: dict[str, list[float]],
) -> CostRow:
    budget = run.budget(one, epsilon, cost)
    first, second = (budget.groups[name] for name in one.groups)
    return CostRow(
        cost=cost,
        configuration=one,
        epsilon=epsilon,
        resolved=(first.resolved, second.resolved),
        statements=tuple(budget.pairs[0].statements),
        more_exposed=next(
            (name for name, where in exposed.items() if epsilon in where), None
        ),
    )


@dataclass(frozen=True, kw_only=True)
class GroupCell:
    """One group in one setting, by the attack whose numbers people see."""

    name: str
    outcome: float
    found: float
    error: float
    resolved: bool
    at_most: float | None
    allowed: float | None
    spent: float | None
    promised: float | None


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """What the audit as ``pcer audit`` makes it says about one setting."""

    title: str
    configuration: Configuration
    closest: bool
    epsilon: float
    cost: str
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
        return self.cost in ON_ATTACK_SCALE


ON_ATTACK_SCALE = (proxies.RMIA.name, proxies.LIRA.name, proxies.AUC_ADVANTAGE.name)
CLOSEST_TITLE = "closest reading"


def setting_rows(study: Study) -> list[SettingRow]:
    """Every setting of every configuration, then those of the second reading of Adult."""
    rows = [
        _setting_row(
            one, study.verdicts[one.dataset, one.attribute], budget, closest=False
        )
        for one in study.configurations
        for budget in study.verdicts[one.dataset, one.attribute].budgets
    ]
    if study.closest is None:
        return rows
    second = study.closest.verdicts
    return rows + [
        _setting_row(one, second[one.dataset, one.attribute], budget, closest=True)
        for one in study.configurations
        if (one.dataset, one.attribute) in study.second
        for budget in second[one.dataset, one.attribute].budgets
    ]


def _setting_row(
    one: Configuration, audit: Audit, budget: BudgetResult, *, closest: bool
) -> SettingRow:
    pair = budget.pairs[0]
    check = pair.exposure.placebo or pair.ratio.placebo
    subject = audit.subject
    placebo = None
    if check is not None:
        counts = (check.n_any, check.n_exposure, check.n_ratio, check.n_double)
        placebo = (max(n or 0 for n in counts), check.n_draws)
    answers = (pair.double_disadvantage, pair.exposure, pair.ratio, pair.outcomes)
    about = f"{subject.people or 'people'} {subject.positive_means or 'get a positive prediction'}"
    first, second = (_group_cell(name, budget.groups[name]) for name in one.groups)
    return SettingRow(
        title=f"{one.name}, {CLOSEST_TITLE}" if closest else one.name,
        configuration=one,
        closest=closest,
        epsilon=budget.budget,
        cost=audit.cost,
        verdict=budget.verdict,
        statements=tuple(pair.statements),
        easier=pair.exposure.group,
        worse_served=pair.outcomes.group,
        driven_by=pair.ratio.driven_by,
        groups=(first, second),
        difference=pair.exposure.difference.upper_bound,
        placebo=placebo,
        downgraded=next((one.downgraded for one in answers if one.downgraded), None),
        predicted=f"Outcome: {about} (a {subject.outcome}).",
    )


def _group_cell(name: str, group: GroupResult) -> GroupCell:
    bound = group.allowed
    return GroupCell(
        name=name,
        outcome=_known(group.benefit.mean),
        found=_known(group.cost.value),
        error=_known(group.cost.standard_error),
        resolved=group.resolved,
        at_most=group.cost.upper_bound,
        allowed=None if bound is None else bound.advantage,
        spent=None if bound is None else bound.spent,
        promised=None if bound is None else bound.nominal,
    )


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def standing_out_from(n_tests: int, *, n: int = len(SEEDS)) -> float:
    """How many times its noise level the largest of ``n_tests`` mean gaps must be to stand out.

    >>> 1.6 < standing_out_from(72) < 1.9
    True
    """
    low, high = 1.0, 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        p = tail_of_mean(middle * CLIPPED_MEAN, spread=1.0, n=n)
        low, high = (low, middle) if p <= SIGNIFICANCE / n_tests else (middle, high)
    return high
