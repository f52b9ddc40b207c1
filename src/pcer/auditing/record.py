"""What is in an audit file: numbers, the plan behind them, and the words?

``audit`` makes an ``Audit``; every output reads it; ``write_audit`` and ``read_audit``
are its file. Same release and same plan give the same bytes. To add a number: a field
of the record that it is about, filled in settings.py. Frames, schema and verification
follow; docs/format.md describes it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pcer import files
from pcer.auditing.answers import (
    Answers,
    DoubleDisadvantage,
    Estimate,
    ExposureAnswer,
    OutcomesAnswer,
    PairAnswer,
    RatioAnswer,
    TailAnswer,
    WronglyAnswer,
)
from pcer.display import Shown, ShownAudit
from pcer.errors import InputError, escaped
from pcer.files import MAX_BYTES, Record, require_format
from pcer.measuring.checks import DeclarationFinding
from pcer.measuring.next_setting import NextSetting
from pcer.measuring.plan import GUARDED, SETTING_VERDICTS, Plan, SettingVerdict, Verdict
from pcer.measuring.sizes import Level
from pcer.metrics import NO_DP
from pcer.paper.records import AsPublished, Disparity, FloorRow, NullPicture, Summary
from pcer.release.attack_kinds import SPENT, AttackKind, attack_kind
from pcer.release.file import Release
from pcer.release.records import (
    AccuracyLoss,
    Copies,
    LeftOutPeople,
    Outcome,
    PublishedAs,
    SplitKind,
    SubgroupSearch,
)
from pcer.statistics import SIGNIFICANCE
from pcer.wording import SettingName

FORMAT: Final = "pcer-audit"
VERSION: Final = 4
SIGNIFICANT_DIGITS = 12  # so few that another machine's rounding does not show
AUDIT_AGAIN: Final = "audit the release again"  # instead of reading an older file


class GroupBound(Record):
    """What training itself allows about a group's people, by the release's bounds."""

    # Where the norms of gradients come from; "refreshed" ones are an estimate.
    mode: str
    accountant: str  # of every epsilon here but ``promised``
    # To everyone of the group, where a rule promises groups different epsilons.
    promised: float | None
    nominal: float | None  # the promise
    # Mean receipt, a bound of each person's own epsilon; None without receipts.
    spent: float | None
    standard_error: float | None  # of ``spent``, over people and seeds
    quantiles: dict[str, float]  # of receipts
    # What an attacker who sees every step could reach; an estimate.
    advantage: float | None


class GroupResult(Record):
    """One group in one setting."""

    n_train: float | None
    n_test: float | None
    positive_rate: Summary
    true_rate: Summary  # share whose label is positive, on the test split
    true_positive_rate: Summary
    false_positive_rate: Summary
    benefit: Summary
    overfitting_gap: Summary
    accuracy_difference: Summary
    accuracy: float | None  # mean over seeds, on test records
    exposure: Estimate
    noise_level: float | None
    detectable: float | None
    p_value: float | None  # of "is anything memorised about these records?", adjusted
    p_value_alone: float | None  # over the deciding attacks only
    detected_by: str | None  # the attack that this p-value is of
    detected: bool
    too_few: bool  # for this attack to tell anything
    null_gap: NullPicture | None
    pcer: Summary
    allowed: GroupBound | None

    @property
    def is_clear(self) -> bool:
        """Whether it is detected, and its interval excludes a coin, too."""
        if self.exposure.interval is None:
            return self.detected
        low, _ = self.exposure.interval
        return self.detected and low > 0


class PooledDisparity(Record):
    """Difference of pooled ratios. Meaningless unless both exposures are detected."""

    disparity: float | None
    ci: tuple[float, float] | None
    exposures_detected: bool


class Equivalence(Record):
    """Are exposures equal within the plan's margin? Two one-sided tests, adjusted."""

    equal_within: float  # points of an attacker's success of 100
    p_value: float | None
    shown: bool


class PairResult(Record):
    """Two groups in one setting, of which the first is the reference.

    Signed numbers are first minus second.
    """

    groups: tuple[str, str]
    verdict: SettingVerdict  # the first of the statements
    exposure: ExposureAnswer
    outcomes: OutcomesAnswer
    wrongly: WronglyAnswer  # the error that harms
    missed: WronglyAnswer  # the other error, in no statement
    double_disadvantage: DoubleDisadvantage
    ratio: RatioAnswer
    equivalence: Equivalence | None
    pcer_disparity: Disparity
    normalised_disparity: Summary
    pooled: PooledDisparity
    floors: list[FloorRow]
    floor_slope: float | None
    sign_holds_below_floor: float | None

    @property
    def answers(self) -> dict[str, PairAnswer]:
        """The four answers by the names of their fields."""
        return {
            "exposure": self.exposure,
            "double_disadvantage": self.double_disadvantage,
            "ratio": self.ratio,
            "outcomes": self.outcomes,
        }

    @property
    def statements(self) -> list[str]:
        """All that holds, as ``--fail-on`` calls it; the first is the verdict."""
        exposure = self.exposure.answer
        is_doubled = self.double_disadvantage.group is not None
        is_equal = self.equivalence is not None and self.equivalence.shown
        holds = {
            "insufficient_data": exposure == "cannot_tell",
            "double_disadvantage": is_doubled,
            "exposure_differs": exposure == "differs",
            "ratio_differs": self.ratio.answer == "differs",
            "equal_within_margin": is_equal,
            "none_detected": exposure == "none_detected",
            "floor_dominated": self.ratio.answer == "floor_dominated",
            "no_difference_shown": exposure == "no_difference_shown",
            "outcomes_differ": self.outcomes.answer == "differ",
            "wrongly_differs": self.wrongly.answer == "differ",
        }
        return [statement for statement, is_true in holds.items() if is_true]


class SettingResult(Record):
    """Everything about one setting: a model, where it has a name, and a budget."""

    model: str | None
    epsilon: float | None
    n_seeds: int
    n_splits: int
    accuracy: Summary
    majority: float | None  # how often always guessing the commoner outcome is right
    demographic_parity_gap: Summary
    equalized_odds_gap: Summary
    groups: dict[str, GroupResult]
    pairs: list[PairResult]
    pcer_spread: Summary
    verdict: SettingVerdict  # the strongest of its pairs
    level: Level  # of exposure
    answers: Answers | None  # the six; None while the audit is made
    tail: TailAnswer | None  # whom an attacker spots almost surely; enters no verdict
    reason: str | None  # why nothing can be told, or why an alarm was downgraded
    copies: list[Copies]  # of real records in a synthetic table
    accuracy_loss: list[AccuracyLoss]  # of what was trained on it
    headline: str  # at most 30 words: the exposure sentence, then the outcome sentence

    @property
    def budget(self) -> float:
        """The privacy budget; infinite without differential privacy."""
        return NO_DP if self.epsilon is None else self.epsilon

    @property
    def name(self) -> SettingName:
        """The setting in print: ``name.full``, ``name.in_sentence``, ``name.title``."""
        return SettingName(self.model, self.epsilon)

    def pair_of(self, groups: Collection[str]) -> PairResult:
        """The pair of these two groups, in whichever order."""
        return next(pair for pair in self.pairs if {*pair.groups} == {*groups})

    @property
    def is_detected(self) -> bool:
        """Whether exposure is detected in some group."""
        return any(group.detected for group in self.groups.values())

    @property
    def named(self) -> list[str]:
        """The groups that the verdict names, each once."""
        if self.verdict is Verdict.EXPOSURE_DIFFERS:
            return self.named_by("exposure")
        if self.verdict is Verdict.RATIO_DIFFERS:
            return self.named_by("ratio")
        return self.named_by("double_disadvantage")

    def named_by(self, answer: str) -> list[str]:
        """The groups that one of the four answers names in any pair, each once."""
        groups = [pair.answers[answer].group for pair in self.pairs]
        return list(dict.fromkeys(group for group in groups if group is not None))

    @property
    def highest_exposure(self) -> float:
        """The most exposed group's; minus infinity where none is known."""
        exposures = [group.exposure.value for group in self.groups.values()]
        return max(
            (exposure for exposure in exposures if exposure is not None),
            default=-math.inf,
        )


class AttackStory(Record):
    """One carried attack put to the same tests; groups are named for any setting.

    p-values are its smallest of each kind. Those "over attacks" are adjusted over all
    attacks, too; where such a one is at most .05, groups are named only where they
    stand after that adjustment.
    """

    attack: str
    n_cells: int  # settings and groups that it could be tested in
    n_detected: int
    more_exposed: list[str]
    lower_ratio: list[str]
    double_disadvantage: list[str]
    p_value: float | None  # of a difference of exposures, adjusted within this attack
    p_value_over_attacks: float | None
    ratio_p_over_attacks: float | None
    # Settings, by position, where something is memorised, adjusted over all attacks.
    detected_in: list[int]
    differs_in: list[int]  # likewise, where exposures differ
    # Share of what records differ by that other models would show again: the largest.
    reliability: float | None = None

    @property
    def statements(self) -> list[str]:
        """What it shows after correction for all attacks, as ``--fail-on`` calls it."""
        if self.attack == SPENT.name:  # what training allows is no attack
            return []
        exposure_holds = (self.p_value_over_attacks or 0.0) <= SIGNIFICANCE
        ratio_holds = (self.ratio_p_over_attacks or 0.0) <= SIGNIFICANCE
        holds = {
            "double_disadvantage": exposure_holds and bool(self.double_disadvantage),
            "exposure_differs": exposure_holds and bool(self.more_exposed),
            "ratio_differs": ratio_holds and bool(self.lower_ratio),
        }
        return [statement for statement, is_true in holds.items() if is_true]


class BrokenRule(Record):
    """A rule of the plan's policy that the audit breaks, in one sentence."""

    rule: str
    sentence: str


class AuditSubject(Record):
    """What the release says about itself, so that an audit can be read alone."""

    dataset: str
    attribute: str
    groups: list[str]
    outcome: Outcome | None  # None where nothing is predicted
    published: PublishedAs | None  # what was made of the records; None: a model
    people: str | None
    positive_means: str | None
    model: str | None  # what was trained
    membership_means: str | None  # of a member: "you were arrested in 2013"
    mechanism: str
    split_kind: SplitKind | None
    n_records: int | None
    n_missing_group: int | None
    left_out: list[LeftOutPeople]
    notes: list[str]

    @property
    def prediction_is(self) -> Outcome:
        """What a positive prediction is; where nothing is predicted, either will do."""
        return self.outcome or "benefit"

    @property
    def n_audited(self) -> int | None:
        """How many people the tables are about, as far as it is known."""
        if self.n_records is None:
            return None
        return self.n_records - (self.n_missing_group or 0)


class Result(Shown):
    """What a function of pcer finds; its file begins with format and version."""

    if TYPE_CHECKING:  # each has this field, at its own place in the file
        attack: str

    @property
    def attack_kind(self) -> AttackKind:
        """What is known of the attack of that name."""
        return attack_kind(self.attack)

    def to_tree(self) -> dict[str, Any]:
        """Plain objects, numbers rounded as they are written."""
        tree: dict[str, Any] = rounded(self.model_dump(mode="json"))
        return tree

    def to_json(self) -> str:
        """Canonical text: the same question gives the same bytes."""
        return result_json(self.to_tree())

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """JSON Schema of such a file."""
        name = cls.model_fields["format"].default
        version = cls.model_fields["version"].default
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **cls.model_json_schema(),
            "title": f"{name.replace('-', ' ')}, version {version}",
            "required": list(cls.model_fields),
        }


class Audit(Result, ShownAudit):
    """The result of ``pcer.audit``: numbers, verdicts and the plain-language account.

    Attributes:
        family: digests of the releases that were judged together, sorted.
        family_p: of this release's strongest difference of exposures or ratios,
            adjusted over the family; None for one release.
        family_p_outcomes: of its strongest difference of outcomes, likewise.
        family_p_wrongly: of its strongest difference of wrong judgements, likewise.
        family_p_missed: of the other error, likewise.
        attack: what everything but ``published`` and ``attacks`` is about.
        choice: why that attack.
        stronger_attack: one that was possible and is absent without a reason; None:
            none is.
        broken_rules: of the plan's policy; empty where it holds, or where there is
            none.
        declarations: what the numbers say against the release's own words.
        subgroups: searches for the subgroup that is hit hardest; they enter no verdict.
        verdict: the strongest over settings; every output says this one.
        main_setting: place of the setting that ``headline`` and ``account`` are about.
        if_in_data: what people should know who may be in the data.
        account: what training allows, and what was not looked at.
        next_steps: one thing to do next, then what more data would show.
        next_setting: that exposes less, at the least loss of accuracy; None: none is.
    """

    format: Literal["pcer-audit"] = FORMAT
    version: Literal[4] = VERSION
    release_sha256: str
    plan_sha256: str
    family: list[str]
    family_p: float | None
    family_p_outcomes: float | None
    family_p_wrongly: float | None
    family_p_missed: float | None
    subject: AuditSubject
    plan: Plan
    attack: str
    choice: str
    stronger_attack: str | None
    verdict: SettingVerdict
    main_setting: int
    headline: str
    if_in_data: str
    account: list[str]
    trust: list[str]
    next_steps: list[str]
    next_setting: NextSetting | None
    settings: list[SettingResult]
    attacks: list[AttackStory]
    declarations: list[DeclarationFinding]
    broken_rules: list[BrokenRule]
    subgroups: list[SubgroupSearch]
    published: list[AsPublished]

    @property
    def title(self) -> str:
        """What was audited, and the verdict."""
        subject = self.subject
        return f"{subject.dataset} ({subject.attribute}): {self.verdict.words}"

    @property
    def policy_lines(self) -> list[str]:
        """Whether the policy holds, and each broken rule; empty without a policy."""
        if self.plan.policy is None:
            return []
        if not self.broken_rules:
            return ["The policy holds."]
        first = f"The policy is broken: {len(self.broken_rules)} of its rules."
        return [first, *(rule.sentence for rule in self.broken_rules)]

    @property
    def told(self) -> SettingResult:
        """The setting that the sentences are about."""
        return self.settings[self.main_setting]

    def to_tree(self) -> dict[str, Any]:
        """Plain objects, numbers rounded as they are written; the plan's as given."""
        return {**super().to_tree(), "plan": self.plan.model_dump()}

    def statements(self) -> dict[str, list[int | str]]:
        """What a guard can meet, and where.

        A place is a setting by its position, or an attack that does not decide by its
        name. A statement holds in a setting where it does in any pair, also behind a
        stronger verdict; by an attack, where it does after Holm over all attacks. One
        of Algorithm 1 has no place.
        """
        places: dict[str, list[int | str]] = {}
        for index, setting in enumerate(self.settings):
            for pair in setting.pairs:
                for statement in pair.statements:
                    places.setdefault(statement, []).append(index)
        for story in self.attacks:
            for statement in story.statements:
                places.setdefault(statement, []).append(story.attack)
        for published in self.published:
            verdict = str(published.algorithm1.verdict)
            if verdict in GUARDED:
                places[verdict] = []
        return places

    @cached_property
    def sources(self) -> list[Release]:
        """The release, then the rest of its family; empty where they are not known."""
        return []

    def with_sources(self, release: Release, family: Sequence[Release] = ()) -> Self:
        """Remember what the audit is of, to draw itself; its file stays the same."""
        self.sources[:] = [release, *family]
        return self


def result_json(tree: Any) -> str:
    """Canonical text that no browser takes for a page."""
    return files.canonical_json(tree).replace("<", escaped("<"))


def strongest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a setting over its pairs, and of an audit over its settings.

    Equal within the margin is only what all of them are; else it is passed over.
    """
    equal = Verdict.EQUAL_WITHIN_MARGIN
    others = [verdict for verdict in verdicts if verdict is not equal]
    return min(others, key=SETTING_VERDICTS.index, default=equal)


def rounded(tree: Any) -> Any:
    """Round every float in plain objects to the digits that files carry."""
    if isinstance(tree, float):
        return float(f"{tree:.{SIGNIFICANT_DIGITS}g}") + 0.0  # + 0.0: no negative zero
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(item) for item in tree]
    return tree.value if isinstance(tree, Enum) else tree


def read_audit(
    path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES
) -> list[Any]:
    """Read an audit file: plain objects, one per audited release; plans are checked."""
    data = files.read_json(path, max_bytes=max_bytes)
    audits = data if isinstance(data, list) else [data]
    for audit in audits:
        require_format(
            audit, file=str(path), name=FORMAT, version=VERSION, if_older=AUDIT_AGAIN
        )
        parse_plan(audit.get("plan"), file=f"{path}: plan")
    if not audits:
        raise InputError(f"{path} holds no audit; write it again with pcer audit.")
    return audits


def parse_plan(data: Any, *, file: str) -> Plan:
    """Check plain objects against the plan; errors name ``file``."""
    return files.parse_record(Plan, data, file=file)


def write_audit(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write an audit: atomically, the same bytes for the same audit."""
    files.write_files({path: audit.to_json()})
