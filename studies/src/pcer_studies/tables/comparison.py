"""Does our number agree with each published one?

``tables.folder`` calls ``compare``, which puts our number beside every figure of the
paper; ``cells`` and ``limits`` read the result.

The rule. Two studies of one protocol on the same records differ only by the luck of
splits and training. So a difference counts as within the joint uncertainty if its size
is at most

    1.96 * sqrt(published error^2 + our error^2) + half a unit of the last digit printed

The published error is the width of the printed 95 % interval / 3.92, else the printed
standard deviation / sqrt(50), else the one printed beside the same number in another
table; ours is made likewise from our seeds. A number of seeds has a binomial error.
Where the paper prints none, ours stands alone, and two equally exact studies agree less
often: see ``EXPECTED_WITHOUT_ERROR``. To add a verdict: a case of ``compare``, counted
in COUNTS and said in WORDS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from pcer_studies.numbers import (
    OurNumber,
    error_of_count,
    error_of_interval,
    our_number,
    standard_error,
)
from pcer_studies.protocol import SEEDS
from pcer_studies.published import PrintedFigure, figures_at, published_figures
from pcer_studies.results import Study

WIDTH = 1.96
"""Standard errors that 95 % of a normal distribution lie within."""

COUNTS = ("n_positive_seeds", "n_negative_seeds")
WORDS = ("best_demographic_parity_gap", "best_pcer")
NOT_APPLICABLE = "N/A"
UNNAMED_WHY = {
    "compas": "N/A: the smallest disparity is at ε = 0.1, which is floor-dominated",
    "acs": "N/A: intervals contain 0 at every budget",
}
"""Why Table S2 names no best budget by PCER."""
NO_ERROR = "none printed"
EXACT = "exact"

EXPECTED_WITH_ERROR = 0.95
"""Share within the rule if nothing but luck differs, with a published error."""
EXPECTED_WITHOUT_ERROR = math.erf(WIDTH / 2)
"""The same without one: a difference of two equally exact means has sqrt(2) times our
error."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A published figure with our number beside it.

    Attributes:
        published: the figure.
        ours: our number; None where it was not run.
        error: standard error of the published figure; None where it is not known.
        error_from: what ``error`` was taken from.
        note: how our records differ from the paper's, or why there is no number.
    """

    published: PrintedFigure
    ours: OurNumber | None
    error: float | None
    error_from: str
    note: str

    @property
    def expected(self) -> float:
        """The chance to be within the joint uncertainty if nothing but luck differs."""
        return EXPECTED_WITHOUT_ERROR if self.error is None else EXPECTED_WITH_ERROR

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        if self.ours is None or self.ours.value is None or self.published.value is None:
            return None
        return self.ours.value - self.published.value

    @property
    def allowed(self) -> float | None:
        """The joint uncertainty: the largest difference within it.

        1.96 * sqrt(published error^2 + our error^2) + half a unit of the last digit
        """
        if self.difference is None or self.ours is None:
            return None
        our_error = self.ours.standard_error
        if our_error is None:
            return None
        joint_error = our_error
        if self.error is not None:
            joint_error = math.hypot(our_error, self.error)
        return WIDTH * joint_error + self.published.half_digit

    @property
    def within(self) -> bool | None:
        """Whether the difference is within the joint uncertainty.

        For words: whether they are the same. None where it is not known.
        """
        if self.published.value is None:
            return self._same_words()
        if self.difference is None or self.allowed is None:
            return None
        return abs(self.difference) <= self.allowed

    @property
    def within_deviation(self) -> bool | None:
        """Whether ours is within the printed standard deviation; None: none printed."""
        if self.difference is None or self.published.std is None:
            return None
        return abs(self.difference) <= self.published.std

    @property
    def inside_interval(self) -> bool | None:
        """Whether ours is inside the printed interval; None where none is printed."""
        if self.difference is None or self.published.ci is None or self.ours is None:
            return None
        low, high = self.published.ci
        return low <= (self.ours.value or 0.0) <= high

    def _same_words(self) -> bool | None:
        if self.ours is None or self.published.printed == NOT_APPLICABLE:
            return None
        if self.published.key.quantity not in WORDS:
            return None
        return self.ours.words == self.published.printed


def compare(study: Study) -> tuple[Comparison, ...]:
    """All 448 cells and every figure outside the tables, in the paper's order."""
    comparisons = []
    for published in published_figures():
        error = _published_error(published)
        comparisons.append(
            Comparison(
                published=published,
                ours=_our_number(study, published),
                error=error.value,
                error_from=error.source,
                note=_note(study, published),
            )
        )
    return tuple(comparisons)


class _PrintedError(NamedTuple):
    """A standard error, and what it was taken from."""

    value: float | None
    source: str


def _published_error(published: PrintedFigure) -> _PrintedError:
    """The standard error of a published figure."""
    quantity = published.key.quantity
    if quantity == "n_records":
        return _PrintedError(0.0, EXACT)
    if quantity in COUNTS and published.value is not None:
        return _PrintedError(error_of_count(published.value, len(SEEDS)), "binomial")
    beside = _error_beside(published)
    if beside.value is not None or not published.in_table:
        return beside

    # Other tables print the same number, perhaps with its error.
    for other in figures_at(published.key):
        error = _error_beside(other)
        if error.value is not None and other.in_table:
            return _PrintedError(error.value, f"{error.source} in {other.place}")
    return _PrintedError(None, NO_ERROR)


def _error_beside(published: PrintedFigure) -> _PrintedError:
    """The error by the interval or deviation that is printed beside a figure."""
    if published.ci is not None:
        return _PrintedError(error_of_interval(published.ci), "interval")
    if published.std is not None:
        error = standard_error(published.std, len(SEEDS))
        return _PrintedError(error, "standard deviation")
    return _PrintedError(None, NO_ERROR)


def _our_number(study: Study, published: PrintedFigure) -> OurNumber | None:
    """Our number; None where it was not run."""
    configuration = published.key.configuration
    if configuration is None:
        was_run = study.is_complete
    else:
        was_run = study.has(*configuration.key)
    if not was_run:
        return None
    number = our_number(study, published.key)
    return _of_fifty(number) if published.key.quantity in COUNTS else number


def _of_fifty(number: OurNumber) -> OurNumber:
    """A number of seeds as if there were as many as in the paper."""
    if number.value is None or number.standard_error is None or number.n_seeds is None:
        return number
    scale = len(SEEDS) / number.n_seeds
    return replace(
        number, value=number.value * scale, standard_error=number.standard_error * scale
    )


def _note(study: Study, published: PrintedFigure) -> str:
    """How our records differ from the paper's, or why there is no number."""
    configuration = published.key.configuration
    if configuration is not None:
        if not study.has(*configuration.key):
            return "not run in this study"
        note = study.data_note(*configuration.key) or ""
        if published.printed == NOT_APPLICABLE:
            return "; ".join(filter(None, [UNNAMED_WHY[configuration.dataset], note]))
        return note
    if not study.is_complete:
        return "needs all six configurations"
    if any(study.data_note(*known.key) for known in study.configurations):
        return "part of the records are not the paper's (ACS, Bios)"
    return ""
