"""Published beside ours: every figure of the paper, our number, and whether they agree.

The rule. Two studies of one protocol on the same records differ only by the luck of splits and
training. So a difference counts as within the joint uncertainty if its size is at most

    1.96 * sqrt(published error^2 + our error^2) + half a unit of the last printed digit.

The published error is the width of the printed 95 % interval / 3.92, else the printed standard
deviation / sqrt(50), else the one printed beside the same number in another table; ours is made
likewise from our seeds. A number of seeds has a binomial error. Where the paper prints none, ours
stands alone, and two equally exact studies agree less often: see ``EXPECTED``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
NO_ERROR = "none printed"
EXACT = "exact"

EXPECTED = {True: 0.95, False: math.erf(WIDTH / 2)}
"""Share within the rule if nothing but luck differs: with a published error, and without.

Without one, a difference of two equally exact means has sqrt(2) times our error.
"""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A published figure with our number beside it.

    Attributes:
        published: what the paper says.
        ours: what the study says; None where it was not run.
        error: the published standard error; None where none is printed.
        error_from: what that error was taken from.
        note: whose records they are, or why there is no comparison.
    """

    published: PrintedFigure
    ours: OurNumber | None
    error: float | None
    error_from: str
    note: str

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        if self.ours is None or self.ours.value is None or self.published.value is None:
            return None
        return self.ours.value - self.published.value

    @property
    def allowed(self) -> float | None:
        """The joint uncertainty: the largest difference within it."""
        if self.difference is None or self.ours is None or self.ours.standard_error is None:
            return None
        errors = [self.ours.standard_error, *([] if self.error is None else [self.error])]
        return WIDTH * math.hypot(*errors) + self.published.half_digit

    @property
    def within(self) -> bool | None:
        """Whether the difference is within the joint uncertainty; for words, whether the same."""
        if self.published.value is None:
            return self._same_words()
        if self.difference is None or self.allowed is None:
            return None
        return abs(self.difference) <= self.allowed

    @property
    def is_papers_data(self) -> bool:
        """Whether our records are the paper's."""
        return not self.note

    def _same_words(self) -> bool | None:
        known = self.published.key.quantity in WORDS and self.published.printed != NOT_APPLICABLE
        if self.ours is None or not known:
            return None
        return self.ours.words == self.published.printed


def compare(study: Study) -> tuple[Compared, ...]:
    """All 448 cells and every figure outside the tables, in the paper's order."""
    found = []
    for figure in published_figures():
        error, source = _published_error(figure)
        found.append(
            Compared(
                published=figure,
                ours=_ours(study, figure),
                error=error,
                error_from=source,
                note=_note(study, figure),
            )
        )
    return tuple(found)


def _published_error(one: PrintedFigure) -> tuple[float | None, str]:
    """The standard error of a published figure, and what it was taken from."""
    if one.key.quantity == "n_records":
        return 0.0, EXACT
    if one.key.quantity in COUNTS and one.value is not None:
        return error_of_count(one.value, len(SEEDS)), "binomial"
    error, source = _printed_error(one)
    if error is not None or not one.in_table:
        return error, source
    for other in figures_at(one.key):  # tables that print the same number, perhaps with its error
        error, source = _printed_error(other)
        if error is not None and other.in_table:
            return error, f"{source} in {other.place}"
    return None, NO_ERROR


def _printed_error(one: PrintedFigure) -> tuple[float | None, str]:
    if one.ci is not None:
        return error_of_interval(one.ci), "interval"
    if one.std is not None:
        return standard_error(one.std, len(SEEDS)), "standard deviation"
    return None, NO_ERROR


def _ours(study: Study, figure: PrintedFigure) -> OurNumber | None:
    """Our number; None where it was not run."""
    one = figure.key.configuration
    if not (study.is_complete if one is None else study.has(one.dataset, one.attribute)):
        return None
    number = our_number(study, figure.key)
    return _of_fifty(number) if figure.key.quantity in COUNTS else number


def _of_fifty(number: OurNumber) -> OurNumber:
    """A number of seeds as if there were as many as in the paper."""
    if number.value is None or number.standard_error is None or number.n_seeds is None:
        return number
    scale = len(SEEDS) / number.n_seeds
    return replace(number, value=number.value * scale, standard_error=number.standard_error * scale)


def _note(study: Study, figure: PrintedFigure) -> str:
    one = figure.key.configuration
    if one is None:
        if not study.is_complete:
            return "needs all six configurations"
        notes = [study.data_note(c.dataset, c.attribute) for c in study.configurations]
        return "part of the records are not the paper's (ACS, Bios)" if any(notes) else ""
    if not study.has(one.dataset, one.attribute):
        return "not run in this study"
    return study.data_note(one.dataset, one.attribute) or ""
