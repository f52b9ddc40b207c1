"""The plan of an audit: what is fixed before looking."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, field_validator

from pcer.auditing.verdict import GUARDED
from pcer.files import Record, canonical_json
from pcer.metrics import DEFAULT_FLOOR, FLOOR_GRID
from pcer.release.format import Name

SHARPEST: Final = "sharpest"  # not an attack, but the strongest that a release carries for everyone

if TYPE_CHECKING:  # a checker cannot follow the list
    GuardedVerdict: TypeAlias = str
else:
    GuardedVerdict = Literal[tuple(verdict.value for verdict in GUARDED)]

Benefit = Literal["positive_rate", "true_positive_rate", "precision"]
Floor = Annotated[float, Field(gt=0, le=1)]
Tolerated = Annotated[float, Field(ge=0)]
Draws = Annotated[int, Field(ge=1, le=100_000)]


class Policy(Record):
    """What is tolerated: rules that an audit holds or breaks (``docs/reports.md``).

    Args:
        strict: ask for random splits with names, for the number of records of every rate, for at
            least ``min_splits`` splits, and for words that the numbers do not contradict.
        min_splits: fewest splits of every setting; None: 8 where strict, else any number.
        required_costs: costs that the release must carry.
        largest_exposure: most that any group's cost may be, by its upper limit.
        largest_difference: most by which costs of two groups may differ, by the upper limit.
        largest_detectable: largest "smallest detectable cost", so that data which can show nothing
            do not pass.
        fail_on: verdicts that no setting may have.

    >>> Policy(strict=True).min_splits is None
    True
    """

    strict: bool = False
    min_splits: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    required_costs: Annotated[list[Name], Field(max_length=50)] = Field(default_factory=list)
    largest_exposure: Tolerated | None = None
    largest_difference: Tolerated | None = None
    largest_detectable: Tolerated | None = None
    fail_on: list[GuardedVerdict] = Field(default_factory=list)


class Plan(Record):
    """What is fixed before looking: everything besides the release that decides a number.

    Args:
        floors: the grid of Algorithm 1, sorted and without repetition.
        floor: the smallest cost that counts in the main numbers.
        confidence_level: of every interval.
        resamples: bootstrap resamples.
        null_draws: random splits drawn for the null's picture.
        rng: seed of both.
        benefit: what a group receives.
        cost: what it pays: a cost that the release carries, or ``sharpest`` of those.
        reference_group: the group that others are compared with. Default: of two groups the
            first, of more the largest.
        margin: difference of costs up to which two groups count as equal; None: none does.
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
    benefit: Benefit = "positive_rate"
    cost: Name = SHARPEST
    reference_group: Name | None = None
    margin: Annotated[float, Field(gt=0, le=1)] | None = None
    policy: Policy | None = None

    @field_validator("floors")
    @classmethod
    def _sorted_once(cls, floors: list[float]) -> list[float]:
        return sorted(set(floors))

    @property
    def sha256(self) -> str:
        """Digest of the plan, so that an edited plan never verifies."""
        return hashlib.sha256(canonical_json(self.model_dump()).encode()).hexdigest()
