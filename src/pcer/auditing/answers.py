"""What is answered of two groups, and of a setting's six questions? Records.

``settings`` fills the answers about two groups, ``six`` the six of a setting from them;
``record`` puts both into the audit, and every output reads them there. Exposures and
rates are shares of 1 here, as in the rest of the file; an attacker's success, sizes and
margins are points of 100. To add a figure to one of the six: a field of its record,
filled in ``six``.
"""

from __future__ import annotations

from typing import Literal

from pcer.files import Record
from pcer.measuring.outcomes import Estimand, Lack
from pcer.measuring.sizes import Level, Size
from pcer.measuring.tested import PlaceboCheck

AboutExposure = Literal[
    "differs", "no_difference_shown", "none_detected", "cannot_tell"
]
AboutOutcomes = Literal["differ", "no_difference_shown", "not_given", "cannot_tell"]
AboutErrors = Literal[
    "differ", "no_difference_shown", "too_few", "not_given", "cannot_tell"
]
AboutRatio = Literal["differs", "no_difference_shown", "floor_dominated", "cannot_tell"]
Driver = Literal["outcomes", "exposure", "both", "together"]
Interval = tuple[float, float]


class Estimate(Record):
    """A group's exposure: its error, interval and bound are for people like these."""

    value: float | None
    standard_error: float | None
    # Two-sided, simultaneous over its family: the one that is printed.
    interval: Interval | None
    upper_bound: float | None  # its upper end; of a difference, the farther end
    upper_bound_pointwise: float | None  # one-sided, of this number alone


# Answers about two groups


class Difference(Estimate):
    """First group minus second, for people like these; bounds hold either way."""

    detectable: float | None  # smallest that 80% of such releases would show


class AttackDifference(Record):
    """What one of the deciding attacks says of two groups, in its own unit."""

    attack: str
    exposures: tuple[float | None, float | None]  # of the first group, of the second
    difference: Difference
    p_value: float | None  # adjusted over all that decide
    shown: bool  # beyond chance, for the group that the answer names
    p_value_within_labels: float | None  # among people with the same true outcome


class PairAnswer(Record):
    """What each answer about two groups has, after every downgrade."""

    group: str | None  # the one that the answer names, where the groups differ
    p_value: float | None  # adjusted over its family
    p_value_alone: float | None  # over the deciding attacks only
    downgraded: str | None  # why a difference that was shown does not count


class SizedAnswer(PairAnswer):
    """An answer whose difference has a size; None where no difference is shown."""

    size: Size | None
    difference: Difference  # of exposure by the attack whose numbers people see


class ExposureAnswer(SizedAnswer):
    """Who of two groups is easier to spot? ``group`` is the more exposed one."""

    answer: AboutExposure
    # The attack that decided first: the one with the smallest p-value.
    by_attack: list[AttackDifference]
    contradicted: bool  # the other attack shows the other group to be more exposed
    placebo: PlaceboCheck | None  # of the attack that decided

    @property
    def attack(self) -> str:
        """The attack that decided."""
        return self.by_attack[0].attack

    @property
    def attack_difference(self) -> float | None:
        """The difference by that attack."""
        return self.by_attack[0].difference.value

    @property
    def shown_by(self) -> list[str]:
        """The deciding attacks that show a difference that stands."""
        return [found.attack for found in self.by_attack if self.group and found.shown]


class RateAnswer(SizedAnswer):
    """Is a rate worse for one of two groups? ``group`` is that one."""

    about: Estimand
    lack: Lack | None  # why it is about these models alone
    # Its squared error: of people and of parts, and what training records move, with
    # the degrees of freedom of Student's distribution for the second.
    people_variance: float | None
    training_variance: float | None
    degrees_of_freedom: int | None
    # Whether training noise is taken out of what training moves; None: no such part.
    is_noise_known: bool | None
    n_made_up: int | None  # made-up groups whose rates differ, of ``n_draws``
    n_draws: int | None


class OutcomesAnswer(RateAnswer):
    """Who of two groups gets fewer benefits, or more harm: the plan's benefit."""

    answer: AboutOutcomes


class WronglyAnswer(RateAnswer):
    """Is one of two groups judged wrongly more often, by this error?"""

    answer: AboutErrors
    error: str  # the rate that harms people: false_positive_rate, ...
    permutation_p: float | None  # of the real groups among permuted ones


class RatioAnswer(PairAnswer):
    """The paper's ratio of outcome to exposure; ``group`` has the lower one."""

    answer: AboutRatio
    attack: str  # its exposure is the ratio's denominator
    driven_by: Driver | None  # "together": neither difference is shown alone
    # R_i c_j - R_j c_i, of rates R and exposures c; positive: the second group has the
    # lower ratio.
    cross_product: float | None
    standard_error: float | None
    placebo: PlaceboCheck | None


class DoubleDisadvantage(PairAnswer):
    """The group that is both easier to spot and predicted so more often."""


# The six answers of a setting


class Spotted(Record):
    """How well an attacker picks the training member out of two people of a group."""

    group: str
    success: float | None  # right answers of 100, a coin having 50
    interval: Interval | None  # of 100, simultaneous over settings and groups
    detected: bool


class SpottingAnswer(Record):
    """Can an attacker tell who was in the training data?"""

    answer: Level
    # Why nothing can be told: the setting's ``reason``, an attack that is missing, a
    # bound that excludes too little, an attack that says nothing of an attacker.
    why: Literal["reason", "stronger_attack", "bound", "unit"] | None
    attack: str  # of all figures
    stronger_attack: str | None  # that was possible and is absent without a reason
    groups: list[Spotted]  # of eligible size, the lowest first
    is_ranked: bool  # some difference is shown, so that groups may be named in order
    open_groups: list[str]  # not detected, yet perhaps above 55 of 100
    too_few: list[str]  # groups that are too small for this attack


class EasierPair(Record):
    """Is one of two groups easier to spot?"""

    groups: tuple[str, str]  # the one that is easier to spot first, or the reference
    answer: AboutExposure
    size: Size | None
    by_attack: list[AttackDifference]  # signed as in the pair, the deciding one first
    p_value: float | None
    contradicted: bool
    downgraded: str | None


class EasierAnswer(Record):
    """Is one group easier to spot?

    "no" is equality within a margin that the plan names.
    """

    answer: Literal["yes", "no", "not_shown", "none_detected", "cannot_tell"]
    # Why a difference that is not shown may still be there.
    why: Literal["reason", "stronger_attack", "bound"] | None
    main_attack: str  # whose intervals give the sizes
    pairs: list[EasierPair]  # those that differ first, the largest first


class Served(Record):
    """What one group gets, as shares of 1; None where it is not given."""

    group: str
    wrongly: float | None  # the harmful error, among those it can meet
    missed: float | None  # the other error, among the others
    rate: float | None  # of the plan's benefit
    positive_rate: float | None
    were: float | None  # share whose true outcome is positive
    right: float | None


class ServedPair(Record):
    """Is one of two groups worse served, by one rate?"""

    groups: tuple[str, str]  # the one that is worse served first, or the reference
    answer: AboutErrors
    size: Size | None
    difference: Difference  # signed as in the pair
    p_value: float | None
    downgraded: str | None


class ServedAnswer(Record):
    """Is one group worse served? By errors first, then by rate."""

    error: str  # the harmful error: "wrongly"
    other_error: str  # "missed"
    benefit: str  # the plan's: "rate"
    wrongly: list[ServedPair]  # those that differ first, the largest first
    missed: list[ServedPair]  # by the other error
    rates: list[ServedPair]
    groups: list[Served]  # in the release's order


class BothPair(Record):
    """Is it the same of two groups in both?"""

    groups: tuple[str, str]
    answer: Literal["yes", "no", "not_shown", "not_given", "cannot_tell"]
    # Of a "no": other groups, or exposures that are equal within the named margin.
    why: Literal["different_groups", "equal_within_margin"] | None
    group: str | None
    not_shown: list[Literal["exposure", "outcomes"]]  # which half
    exposure_size: Size | None
    outcomes_size: Size | None
    downgraded: str | None


class BothAnswer(Record):
    """Is it the same group in both? The paper's double disadvantage, by rates."""

    answer: Literal["yes", "no", "not_shown", "not_given", "cannot_tell"]
    pairs: list[BothPair]  # those with "yes" first


AboutPaper = Literal[
    "memorised_not_whose",  # outside its null, and somebody is detected
    "nothing_detected",  # outside its null, and nobody is
    "outcomes_alone",  # unequal predictions alone give as large a value or larger
    "cannot_tell",  # without a null
    "not_defined",  # without predictions
]


class PaperPair(Record):
    """Delta PCER of two groups by the paper's own cost, and its null."""

    groups: tuple[str, str]
    answer: AboutPaper
    value: float | None
    interval: Interval | None
    null_mean: float | None
    null_interval: Interval | None


class PaperAnswer(Record):
    """Does the paper's number, Delta PCER, add evidence about privacy?"""

    answer: AboutPaper
    attack: str  # the cost: the overfitting gap
    pairs: list[PaperPair]


Finding = Literal["wrongly", "outcomes", "exposure", "spotting"]


class FoundSize(Record):
    """A finding that a headline can state, with its size."""

    finding: Finding
    group: str | None
    size: Size | None
    is_alarm: bool


class MadeUp(Record):
    """How many made-up groups raise a finding."""

    finding: Finding | Literal["any"]
    attack: str | None
    n: int
    n_draws: int
    n_expected: int  # up to so many may


class Withdrawn(Record):
    """A finding about two groups that was withdrawn."""

    finding: str
    groups: tuple[str, str]
    reason: str


class TrustAnswer(Record):
    """How far can this be trusted?"""

    answer: Literal[
        "contradicted", "downgraded", "chance_unlikely", "unchecked", "no_finding"
    ]
    made_up: MadeUp | None  # of the finding that the headline states first
    withdrawn: list[Withdrawn]
    contradictions: list[str]  # sentences of the checks
    # What rests on the trainer's word alone.
    on_word: list[Literal["random_splits", "nothing_left_out"]]


# Beside the verdict: whom an attacker spots almost surely


class TailGroup(Record):
    """Shares of one group; None where too few people are picked to be shown."""

    group: str
    picked: float | None  # of people, by models that do not verify them
    picked_error: float | None
    by_chance: float | None  # the same share if nobody were memorised
    right: float | None  # of pairs of models, one of them trained with the person
    right_error: float | None
    is_beyond_chance: bool  # right more often than a coin, corrected for the groups


class TailPair(Record):
    """Are more people of one of two groups spotted almost surely?"""

    groups: tuple[str, str]  # the one with more first
    answer: Literal["differs", "no_difference_shown"]
    p_value: float  # adjusted over settings and pairs
    p_value_alone: float
    p_value_within_labels: float | None
    n_made_up: int | None  # made-up groups that differ, of ``n_draws``
    n_draws: int | None
    downgraded: str | None


class TailAnswer(Record):
    """Whom does an attacker spot almost surely? It enters no verdict."""

    n_models: int
    threshold: float
    groups: list[TailGroup]  # in the release's order
    pairs: list[TailPair]  # those that differ first


class Answers(Record):
    """The six answers of a setting, always all of them."""

    spotting: SpottingAnswer
    easier: EasierAnswer
    served: ServedAnswer
    both: BothAnswer
    paper: PaperAnswer
    trust: TrustAnswer
    found: list[FoundSize]  # what is shown, the largest first: the headline's order

    @property
    def alarms(self) -> list[Finding]:
        """What may have the one alarm colour: no other row, cell or badge may."""
        return [one.finding for one in self.found if one.is_alarm]
