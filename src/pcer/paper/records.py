"""Which of the paper's numbers does an audit file hold?

Made in ``numbers``, ``null`` and ``rankings``; read by the report and the study. To
add a number: a field here, which becomes one of the audit file and its schema.
"""

from __future__ import annotations

from pcer.files import Record
from pcer.measuring.plan import GridVerdict


class Summary(Record):
    """A quantity over seeds: mean, sample deviation, bootstrap interval of the mean."""

    mean: float | None
    std: float | None
    ci: tuple[float, float] | None


class NullPicture(Record):
    """What the mean over seeds would be if nothing was memorised: for drawing only."""

    mean: float
    interval: tuple[float, float]


class Disparity(Summary):
    """The paper's number for a pair, with its sign test and its null."""

    n_positive_seeds: int | None
    sign_test_p: float | None
    null_mean: float | None
    null_interval: tuple[float, float] | None
    # Outside the null's interval, simultaneous over settings and pairs; None: no null.
    is_beyond_null: bool | None


class FloorRow(Summary):
    """The disparity at one floor of the grid."""

    floor: float
    n_positive_seeds: int | None
    floor_dominated_share: float | None
    null_mean: float | None  # if nothing were memorised


class PublishedPair(Record):
    """The paper's numbers for two groups, the gap being the cost."""

    groups: tuple[str, str]
    pcer_disparity: Disparity
    normalised_disparity: Summary
    floors: list[FloorRow]
    floor_slope: float | None


class PublishedSetting(Record):
    """The paper's numbers at one budget."""

    epsilon: float | None
    pcer: dict[str, Summary]
    pairs: list[PublishedPair]


class EquitableBudget(Record):
    """The budgets of smallest disparity at one floor; more than one is a tie."""

    floor: float
    budgets: list[float | None]
    repeats_demographic_parity: bool


class Algorithm1(Record):
    """The paper's Algorithm 1 as published, and over the informative floors only."""

    equitable_budget: list[EquitableBudget]
    verdict: GridVerdict | None  # None where no disparity is known
    informative_floors: list[float]
    informative_verdict: GridVerdict | None
    label: str


class AsPublished(Record):
    """What the paper computes for one model: the gap is the cost, whatever the plan."""

    model: str | None
    attack: str
    settings: list[PublishedSetting]
    algorithm1: Algorithm1
