"""What is fixed before looking? Verdicts, benefits, a policy, an audit's plan.

Users make a ``Plan`` (``pcer.Plan``, options of ``pcer audit``, a TOML file); every
room below takes it as it is. To add a rule of a policy: a field of ``Policy``, and a
row of ``auditing.policy.LIMITS``. To add a benefit: a row of ``BENEFITS``. To add a
verdict: a member of ``Verdict`` in its place, a line of ``PairResult.statements``, and
its words in ``words.toml``.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pcer.files import Record, canonical_json
from pcer.metrics import DEFAULT_FLOOR, FLOOR_GRID, Counts, FloatArray
from pcer.release.attack_kinds import attack_named
from pcer.release.records import Name, Outcome

# Not an attack, but the strongest that a release carries for everyone.
SHARPEST: Final = "sharpest"


class Verdict(StrEnum):
    """What a setting's numbers show, strongest first; last, Algorithm 1's own."""

    DOUBLE_DISADVANTAGE = "double_disadvantage"
    EXPOSURE_DIFFERS = "exposure_differs"
    RATIO_DIFFERS = "ratio_differs"
    NO_DIFFERENCE_SHOWN = "no_difference_shown"
    EQUAL_WITHIN_MARGIN = "equal_within_margin"
    FLOOR_DOMINATED = "floor_dominated"
    NONE_DETECTED = "none_detected"
    INSUFFICIENT_DATA = "insufficient_data"
    FLOOR_ROBUST = "floor_robust"
    FLOOR_SENSITIVE = "floor_sensitive"

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        return self.value.replace("_", " ")

    @property
    def is_alarm(self) -> bool:
        """Whether it says that groups differ."""
        return self in SETTING_VERDICTS[:3]


# What Algorithm 1 can say over the floor grid.
GRID_VERDICTS = (Verdict.FLOOR_ROBUST, Verdict.FLOOR_SENSITIVE)
# What a setting can get, strongest first.
SETTING_VERDICTS = tuple(verdict for verdict in Verdict if verdict not in GRID_VERDICTS)
# What a guard can fail on: statements that hold in some pair, and one of Algorithm 1.
GUARDED = (
    *map(str, SETTING_VERDICTS),
    "outcomes_differ",
    "wrongly_differs",
    str(Verdict.FLOOR_SENSITIVE),
)
# Names of earlier versions, and what they are called now.
RENAMED = {
    "disparity_shown": Verdict.RATIO_DIFFERS,
    "no_disparity_shown": Verdict.NO_DIFFERENCE_SHOWN,
    "not_resolved": Verdict.NONE_DETECTED,
}

if TYPE_CHECKING:  # a checker cannot follow the lists
    SettingVerdict: TypeAlias = Verdict
    GridVerdict: TypeAlias = Verdict
else:
    SettingVerdict = Literal[SETTING_VERDICTS]
    GridVerdict = Literal[GRID_VERDICTS]


def _of_today(statement: object) -> object:
    if isinstance(statement, str) and statement in RENAMED:
        raise ValueError(f"must be '{RENAMED[statement]}', which is its name now")
    return statement


if TYPE_CHECKING:  # a checker cannot follow the list
    Statement: TypeAlias = str
else:
    Statement = Annotated[Literal[GUARDED], BeforeValidator(_of_today)]

# An attack by any name that outputs print; the plan has its name in files.
Attack = Annotated[Name, AfterValidator(attack_named)]


class BenefitKind(NamedTuple):
    """A rate that a group can receive, and its words: a row of ``BENEFITS``.

    The rate is people in the cells ``counted`` among those in the cells ``among``, of a
    table of tp, fp, tn and fn.
    """

    name: str
    counted: tuple[str, ...]
    among: tuple[str, ...]
    more_is: Outcome | None  # None: whatever a positive prediction is for people
    head: str  # of a column of a table
    share: str  # the rate in a sentence, and in a note below a table

    def counted_in(self, counts: Counts) -> FloatArray:
        """How many people the rate counts."""
        return _in_cells(counts, self.counted)

    def among_in(self, counts: Counts) -> FloatArray:
        """How many people the rate is a share of."""
        return _in_cells(counts, self.among)


def _in_cells(counts: Counts, cells: tuple[str, ...]) -> FloatArray:
    by_cell: dict[str, FloatArray] = counts._asdict()
    return np.asarray(sum(by_cell[cell] for cell in cells))


POSITIVE_RATE: Final = "positive_rate"  # the one that releases give without counts
BENEFITS: Final = (
    BenefitKind(
        name=POSITIVE_RATE,
        counted=("tp", "fp"),
        among=("tp", "fp", "tn", "fn"),
        more_is=None,
        head="predicted\npositive,\nof 100",
        share="predicted positive",
    ),
    BenefitKind(
        name="true_positive_rate",
        counted=("tp",),
        among=("tp", "fn"),
        more_is=None,
        head="predicted\npositive, of 100\nwho qualify",
        share="predicted positive, of those who qualify",
    ),
    BenefitKind(
        name="precision",
        counted=("tp",),
        among=("tp", "fp"),
        more_is="benefit",  # to be flagged rightly is never a harm
        head="qualify, of 100\npredicted\npositive",
        share="qualify, of those predicted positive",
    ),
    BenefitKind(
        name="false_positive_rate",
        counted=("fp",),
        among=("fp", "tn"),
        more_is="harm",  # to be judged wrongly is never a benefit
        head="predicted\npositive, of 100\nwith a\nnegative label",
        share="predicted positive, of those with a negative label",
    ),
    BenefitKind(
        name="false_negative_rate",
        counted=("fn",),
        among=("tp", "fn"),
        more_is="harm",
        head="predicted\nnegative, of 100\nwith a\npositive label",
        share="predicted negative, of those with a positive label",
    ),
)
BENEFIT_KINDS: Final = {kind.name: kind for kind in BENEFITS}
if TYPE_CHECKING:  # a checker cannot follow the list
    Benefit: TypeAlias = str
else:
    Benefit = Literal[tuple(BENEFIT_KINDS)]

LEAST_FLOOR: Final = 1e-9  # a smaller one makes ratios that no number can hold
Floor = Annotated[float, Field(ge=LEAST_FLOOR, le=1)]
Success = Annotated[float, Field(ge=0, le=100)]  # right answers of an attacker in 100
Points = Annotated[float, Field(gt=0, le=100)]  # of 100, by which groups differ
# A smaller limit is an advantage, as earlier versions had them.
LEAST_POINTS: Final = 0.1


class Unit(NamedTuple):
    """What a limit is written in."""

    coin: int  # what guessing has
    least: float  # the smallest limit above 0
    words: str


SUCCESS: Final = Unit(50, 50.0, "an attacker's success of 100, at least a coin's 50")
# By limit; of others the unit is an attacker's success.
UNITS: Final = {
    "largest_difference": Unit(
        0, LEAST_POINTS, "points of an attacker's success of 100"
    ),
    "largest_outcome_gap": Unit(0, LEAST_POINTS, "points of 100"),
    "largest_odds_gap": Unit(0, LEAST_POINTS, "points of 100"),
    "largest_wrongly_gap": Unit(0, LEAST_POINTS, "points of 100"),
    "least_accuracy": Unit(0, 1.0, "right answers of 100"),
}
# The name of earlier versions, for which users look.
NO_MARGIN: Final = (
    "margin is called equal_within now, in points of an attacker's success of 100: a "
    "margin of 0.02 is equal_within = 2 of an advantage, and 1 of a gap"
)
Draws = Annotated[int, Field(ge=1, le=100_000)]


class Policy(Record):
    """What is tolerated: rules that an audit holds or breaks (``docs/reports.md``).

    Args:
        strict: ask for random splits with names, for the number of records of every
            rate, for at least ``min_splits`` splits, and for words that the numbers do
            not contradict.
        min_splits: fewest splits of every setting; None: 8 where strict, else any
            number.
        required_attacks: attacks that the release must carry, with their errors.
        largest_exposure: most that any group's exposure may be, as an attacker's
            success of 100 (coin: 50), by the upper bound of any attack.
        largest_difference: most by which exposures of two groups may differ, in points
            of it.
        largest_detectable: largest "smallest detectable exposure", as a success of 100,
            so that data which can show nothing do not pass.
        largest_outcome_gap: most by which outcomes of two groups may differ, in points
            of 100.
        largest_odds_gap: the same among people with the same true outcome.
        largest_disparity: most that the size of Delta PCER may be, by the gap; not
            known where not both exposures are detected.
        largest_wrongly_gap: likewise of wrong judgements, by the upper bound.
        least_accuracy: least accuracy on test records, of 100.
        most_spent: most epsilon that a group's people may have spent on average, by
            receipts.
        fail_on: statements that may hold of no pair in any setting.

    >>> Policy(largest_exposure=52, fail_on=["exposure_differs"]).largest_exposure
    52.0
    """

    strict: bool = False
    min_splits: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    required_attacks: Annotated[list[Attack], Field(max_length=50)] = Field(
        default_factory=list
    )
    largest_exposure: Success | None = None
    largest_difference: Success | None = None
    largest_detectable: Success | None = None
    largest_outcome_gap: Success | None = None
    largest_odds_gap: Success | None = None
    largest_disparity: Annotated[float, Field(ge=0, le=1e9)] | None = None
    largest_wrongly_gap: Success | None = None
    least_accuracy: Success | None = None
    most_spent: Annotated[float, Field(gt=0, le=1e4)] | None = None
    fail_on: list[Statement] = Field(default_factory=list)

    @field_validator(
        *("largest_exposure", "largest_difference", "largest_detectable"),
        *("largest_outcome_gap", "largest_odds_gap", "largest_wrongly_gap"),
        "least_accuracy",
    )
    @classmethod
    def _is_of_100(cls, limit: float | None, field: ValidationInfo) -> float | None:
        unit = UNITS.get(str(field.field_name), SUCCESS)
        if limit is None or (limit >= unit.coin and not 0 < limit < unit.least):
            return limit
        example = ""
        if limit < 1:  # perhaps a share, or an advantage over a coin
            example = f" ({100 * limit:g} for {limit:g})"
            is_success = "attacker" in unit.words
            if is_success and not 0 < unit.coin <= 100 * limit:
                success = unit.coin + 100 * limit
                example = f" ({success:g} for an advantage of {limit:g})"
        raise ValueError(f"must be {unit.words}{example}")


class Plan(Record):
    """What is fixed before looking: all besides the release that decides a number.

    Args:
        floors: the grid of Algorithm 1, sorted and without repetition.
        floor: the smallest exposure that counts in the main numbers.
        confidence_level: of every interval.
        resamples: bootstrap resamples.
        null_draws: random splits drawn for the null's picture.
        rng: seed of both.
        benefit: what a group receives; of the two error rates, less is better.
        attack: what measures exposure: one that the release carries, or ``sharpest``.
        reference_group: the group that others are compared with. Default: of two groups
            the first, of more the largest.
        exposure_margin: points of an attacker's success of 100 from which on a
            difference of exposures is clear; up to it, it is slight.
        outcome_margin: points of 100, likewise, of outcomes and of wrong judgements.
        equal_within: points of an attacker's success of 100 up to which two groups
            count as equally exposed; None: no groups do.
        policy: what is tolerated; None: nothing is asked.

    >>> Plan(floor=0.01).floors
    [0.0001, 0.001, 0.01, 0.1]
    """

    floors: Annotated[list[Floor], Field(min_length=1, max_length=20)] = Field(
        default=list(FLOOR_GRID)
    )
    floor: Floor = DEFAULT_FLOOR
    confidence_level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    resamples: Draws = 5_000
    null_draws: Draws = 2_000
    rng: Annotated[int, Field(ge=0, lt=2**63)] = 0
    benefit: Benefit = POSITIVE_RATE
    attack: Attack = SHARPEST
    reference_group: Name | None = None
    exposure_margin: Points = 2.0
    outcome_margin: Points = 5.0
    equal_within: Points | None = None
    policy: Policy | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_no_margin(cls, given: object) -> object:
        if isinstance(given, dict) and "margin" in given:
            raise ValueError(NO_MARGIN)
        return given

    @field_validator("floors")
    @classmethod
    def _sorted_once(cls, floors: list[float]) -> list[float]:
        return sorted(set(floors))

    @property
    def benefit_kind(self) -> BenefitKind:
        """The row of its benefit."""
        return BENEFIT_KINDS[self.benefit]

    def outcome_of(self, outcome: Outcome) -> Outcome:
        """Whether more of the plan's benefit is good for people."""
        return self.benefit_kind.more_is or outcome

    @property
    def sha256(self) -> str:
        """Digest of the plan, so that an edited plan never verifies."""
        return hashlib.sha256(canonical_json(self.model_dump()).encode()).hexdigest()
