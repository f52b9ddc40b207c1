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
from collections.abc import Iterator
from dataclasses import dataclass

from pcer_studies.attack_agreement import FIGURES, figure, study_means
from pcer_studies.protocol import SEEDS, Configuration, configuration
from pcer_studies.published import TABLE_NAMES, TEXT_FIGURES, Cell, TextFigure, published_cells
from pcer_studies.quantities import (
    Ours,
    Wanted,
    error_of_count,
    error_of_interval,
    ours,
    standard_error,
)
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
class Published:
    """A published figure, wherever it stands.

    Attributes:
        place: table as printed, or section.
        key: label of the table, or our name of a figure in the text.
        dataset: of one dataset, or None for all.
        attribute: of one attribute, or None for all.
        budgets: which it is about.
        quantity: what it is.
        group: of which group, or None.
        floor: of PCER, or None.
        over: how several budgets become one number; see ``TextFigure``.
        printed: the words of a figure that is no number.
        value: the number.
        std: standard deviation, where printed.
        ci: interval, where printed.
        digits: decimals that were printed.
    """

    place: str
    key: str
    dataset: str | None
    attribute: str | None
    budgets: tuple[float, ...]
    quantity: str
    group: str | None
    floor: float | None
    over: str
    printed: str
    value: float | None
    std: float | None
    ci: tuple[float, float] | None
    digits: int

    @property
    def is_cell(self) -> bool:
        """Whether it stands in a table of numbers."""
        return self.key.startswith("tab:")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A published figure with ours.

    Attributes:
        published: what the paper says.
        ours: what the study says; None where it was not run.
        error: the published standard error; None where none is printed.
        error_from: what that error was taken from.
        note: whose records they are, or why there is no comparison.
    """

    published: Published
    ours: Ours | None
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
        joint = math.hypot(self.error or 0.0, self.ours.standard_error)
        return WIDTH * joint + 0.5 * 10.0**-self.published.digits

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
        known = self.published.quantity in WORDS and self.published.printed != NOT_APPLICABLE
        if self.ours is None or not known:
            return None
        return self.ours.words == self.published.printed


def compare(study: Study) -> tuple[Comparison, ...]:
    """All 448 cells and every figure outside the tables, in the paper's order."""
    whole = study_means(study) if study.is_complete else None
    found = []
    for one in (*_from_cells(), *_from_text()):
        error, source = _published_error(one)
        if one.quantity in FIGURES:
            number = None if whole is None else figure(*whole, one.quantity, one.budgets)
        else:
            number = _of_configuration(study, one)
        found.append(
            Comparison(
                published=one, ours=number, error=error, error_from=source, note=_note(study, one)
            )
        )
    return tuple(found)


def _from_cells() -> Iterator[Published]:
    order = list(TABLE_NAMES)
    for cell in sorted(published_cells(), key=lambda cell: order.index(cell.table)):
        yield Published(
            place=cell.table_name,
            key=cell.table,
            dataset=cell.dataset,
            attribute=cell.attribute,
            budgets=(cell.epsilon,),
            quantity=cell.quantity,
            group=cell.group,
            floor=cell.floor,
            over="each",
            printed="",
            value=cell.value,
            std=cell.std,
            ci=_interval(cell),
            digits=cell.digits,
        )


def _from_text() -> Iterator[Published]:
    for text in TEXT_FIGURES:
        yield Published(
            place="Table S2" if text.place == "tab:summary" else text.place,
            key=text.key,
            dataset=text.dataset,
            attribute=text.attribute,
            budgets=text.budgets,
            quantity=text.quantity,
            group=text.group,
            floor=text.floor,
            over=text.over,
            printed=text.printed,
            value=text.value,
            std=text.std,
            ci=_interval(text),
            digits=text.digits,
        )


def _interval(one: Cell | TextFigure) -> tuple[float, float] | None:
    return None if one.ci_low is None or one.ci_high is None else (one.ci_low, one.ci_high)


def _published_error(one: Published) -> tuple[float | None, str]:
    """The standard error of a published figure, and what it was taken from."""
    if one.quantity == "n_records":
        return 0.0, EXACT
    if one.quantity in COUNTS and one.value is not None:
        return error_of_count(one.value, len(SEEDS)), "binomial"
    if one.ci is not None:
        return error_of_interval(one.ci), "interval"
    if one.std is not None:
        return standard_error(one.std, len(SEEDS)), "standard deviation"
    for cell in _same_number(one):
        if (ci := _interval(cell)) is not None:
            return error_of_interval(ci), f"interval in {cell.table_name}"
        if cell.std is not None:
            return standard_error(cell.std, len(SEEDS)), f"standard deviation in {cell.table_name}"
    return None, NO_ERROR


def _same_number(one: Published) -> tuple[Cell, ...]:
    """Cells of other tables that print the same number, perhaps with its error."""
    if not one.is_cell:
        return ()
    return published_cells(
        dataset=one.dataset,
        attribute=one.attribute,
        epsilon=one.budgets[0],
        quantity=one.quantity,
        group=one.group,
        floor=one.floor,
    )


def _of_configuration(study: Study, one: Published) -> Ours | None:
    """Our number for a figure about one configuration; None where it was not run."""
    if not study.has(str(one.dataset), str(one.attribute)):
        return None
    which = configuration(str(one.dataset), str(one.attribute))
    if one.over == "all":
        return ours(study, _wanted(one, which, one.budgets[0]))
    numbers = [ours(study, _wanted(one, which, epsilon)) for epsilon in one.budgets]
    return _over_budgets(numbers, one.over)


def _wanted(one: Published, which: Configuration, epsilon: float) -> Wanted:
    return Wanted(
        configuration=which,
        epsilon=epsilon,
        quantity=one.quantity,
        group=one.group,
        floor=one.floor,
    )


def _over_budgets(numbers: list[Ours], over: str) -> Ours:
    """One number of several budgets.

    An end of a range has the error of the budget that attains it. A mean has the mean of the
    errors, as if budgets, which share their splits, went up and down together.
    """
    if over == "each":
        return numbers[0]
    if over in ("smallest", "largest"):
        choose = min if over == "smallest" else max
        return choose(numbers, key=lambda one: one.value or 0.0)
    values = [one.value or 0.0 for one in numbers]
    errors = [one.standard_error for one in numbers if one.standard_error is not None]
    error = sum(errors) / len(errors) if len(errors) == len(numbers) else None
    return Ours(value=sum(values) / len(values), standard_error=error)


def _note(study: Study, one: Published) -> str:
    if one.dataset is None:
        if not study.is_complete:
            return "needs all six configurations"
        notes = [study.data_note(c.dataset, c.attribute) for c in study.configurations]
        return "part of the records are not the paper's (ACS, Bios)" if any(notes) else ""
    if not study.has(one.dataset, str(one.attribute)):
        return "not run in this study"
    return study.data_note(one.dataset, str(one.attribute)) or ""
