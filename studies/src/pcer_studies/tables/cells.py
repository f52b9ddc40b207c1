"""Published beside ours: every figure of the paper, our number, and whether they agree.

The rule. Two studies of one protocol on the same records differ only by the luck of
splits and training. So a difference counts as within the joint uncertainty if its size
is at most

    1.96 * sqrt(published error^2 + our error^2) + half a unit of the last printed digit.

The published error is the width of the printed 95 % interval / 3.92, else the printed
standard deviation / sqrt(50), else the one printed beside the same number in another
table; ours is made likewise from our seeds. A number of seeds has a binomial error.
Where the paper prints none, ours stands alone, and two equally exact studies agree less
often: see ``EXPECTED``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.table import Table
from pcer.wording import NOTHING, budget_name, yes_no
from pcer_studies.numbers import (
    OurNumber,
    error_of_count,
    error_of_interval,
    our_number,
    standard_error,
)
from pcer_studies.protocol import DATASETS, OUR_READING, SEEDS, budget_label
from pcer_studies.published import (
    FigureKey,
    PrintedFigure,
    figures_at,
    published_figures,
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
class Compared:
    """A published figure with our number beside it."""

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
        if (
            self.difference is None
            or self.ours is None
            or self.ours.standard_error is None
        ):
            return None
        errors = [
            self.ours.standard_error,
            *([] if self.error is None else [self.error]),
        ]
        return WIDTH * math.hypot(*errors) + self.published.half_digit

    @property
    def within(self) -> bool | None:
        """Whether the difference is within the joint uncertainty; for words, whether the same."""
        if self.published.value is None:
            return self._same_words()
        if self.difference is None or self.allowed is None:
            return None
        return abs(self.difference) <= self.allowed

    def _same_words(self) -> bool | None:
        known = (
            self.published.key.quantity in WORDS
            and self.published.printed != NOT_APPLICABLE
        )
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
                ours=_our_number(study, figure),
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
    for other in figures_at(
        one.key
    ):  # tables that print the same number, perhaps with its error
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


def _our_number(study: Study, figure: PrintedFigure) -> OurNumber | None:
    """Our number; None where it was not run."""
    one = figure.key.configuration
    if not (
        study.is_complete if one is None else study.has(one.dataset, one.attribute)
    ):
        return None
    number = our_number(study, figure.key)
    return _of_fifty(number) if figure.key.quantity in COUNTS else number


def _of_fifty(number: OurNumber) -> OurNumber:
    """A number of seeds as if there were as many as in the paper."""
    if number.value is None or number.standard_error is None or number.n_seeds is None:
        return number
    scale = len(SEEDS) / number.n_seeds
    return replace(
        number, value=number.value * scale, standard_error=number.standard_error * scale
    )


def _note(study: Study, figure: PrintedFigure) -> str:
    one = figure.key.configuration
    if one is None:
        if not study.is_complete:
            return "needs all six configurations"
        notes = [study.data_note(c.dataset, c.attribute) for c in study.configurations]
        return (
            "part of the records are not the paper's (ACS, Bios)" if any(notes) else ""
        )
    if not study.has(one.dataset, one.attribute):
        return "not run in this study"
    return study.data_note(one.dataset, one.attribute) or ""


COLUMNS = (
    *(
        "place",
        "key",
        "dataset",
        "attribute",
        "epsilon",
        "quantity",
        "group",
        "floor",
        "over",
    ),
    *("published", "published_std", "published_ci_low", "published_ci_high"),
    *("published_error_from", "ours", "ours_std", "ours_ci_low", "ours_ci_high"),
    *("difference", "joint_uncertainty", "within", "note"),
)

RULE = (
    "A difference is **within** the joint uncertainty if its size is at most 1.96 × "
    "√(published error² + our error²) + half a unit of the last printed digit. The "
    "published error is the width of the printed 95 % interval / 3.92, else the "
    "printed standard deviation / √50, else the one printed beside the same number in "
    "another table; ours is made likewise from our seeds. A number of seeds has a "
    "binomial error. The same seeds of the paper do not mean the same splits: its "
    "random generator is not known, so two runs of one protocol are two samples of the "
    "same luck, and nothing more can be asked than that they agree within it."
)
SHARE = (
    "If nothing but luck differs, 95 % of the cells with a published error are "
    "expected within, and {without:.0f} % of those without one, since there our error "
    "stands for both (a study with the same error would differ by √2 of it). Cells of "
    "one configuration share their splits, so they fall inside or outside together: "
    "the shares describe, and are no test."
)


def to_csv(comparisons: Iterable[Compared]) -> str:
    """One line per figure; numbers with six significant digits."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows(_csv_row(one) for one in comparisons)
    return text.getvalue()


def to_page(comparisons: Sequence[Compared]) -> str:
    """The same for people: the summary first, then every figure by its table."""
    parts = [
        "# Published beside ours",
        f"{_counted(comparisons)} `cells.csv` holds the same lines for programs.",
        RULE,
        SHARE.format(without=100 * EXPECTED[False]),
        *_notes(comparisons),
        to_markdown(by_records(comparisons)),
        to_markdown(by_quantity(comparisons)),
        *(to_markdown(table) for table in compas_limits(comparisons)),
    ]
    places = dict.fromkeys(
        one.published.place for one in comparisons if one.published.in_table
    )
    parts += [to_markdown(_table_of(place, comparisons)) for place in places]
    parts.append(to_markdown(_text_table(comparisons)))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def by_records(comparisons: Iterable[Compared]) -> Table:
    """How many cells are within, by dataset."""
    cells = [one for one in comparisons if one.published.in_table]
    rows = [
        (name, _whose(part), *_counts(part))
        for name in DATASETS
        if (part := [one for one in cells if one.published.key.dataset == name])
    ]
    return Table(
        "Cells within the joint uncertainty, by dataset",
        ("dataset", "records", *COUNTED),
        (*rows, ("all", "", *_counts(cells))),
        n_labels=2,
    )


def by_quantity(comparisons: Iterable[Compared]) -> Table:
    """How many cells are within, by table and quantity."""
    cells = [one for one in comparisons if one.published.in_table]
    keys = dict.fromkeys(
        (one.published.place, one.published.key.quantity) for one in cells
    )
    rows = [
        (place, _words(quantity), *_counts(part))
        for place, quantity in keys
        if (
            part := [
                one
                for one in cells
                if (one.published.place, one.published.key.quantity)
                == (place, quantity)
            ]
        )
    ]
    return Table(
        "Cells within the joint uncertainty, by table and quantity",
        ("table", "quantity", *COUNTED),
        tuple(rows),
        n_labels=2,
    )


COUNTED = ("cells", "compared", "within", "outside", "share within", "expected")


def _counts(part: Sequence[Compared]) -> tuple[str, ...]:
    compared = [one for one in part if one.within is not None]
    within = sum(one.within is True for one in compared)
    if not compared:
        return (str(len(part)), "0", "0", "0", NOTHING, NOTHING)
    expected = sum(EXPECTED[one.error is not None] for one in compared) / len(compared)
    return (
        str(len(part)),
        str(len(compared)),
        str(within),
        str(len(compared) - within),
        f"{100 * within / len(compared):.0f} %",
        f"{100 * expected:.0f} %",
    )


def _counted(comparisons: Sequence[Compared]) -> str:
    cells = [one for one in comparisons if one.published.in_table]
    compared = [one for one in cells if one.within is not None]
    within = sum(one.within is True for one in compared)
    other = len(comparisons) - len(cells)
    return (
        f"All {len(cells)} cells of the paper's tables and {other} figures that stand "
        f"only in its text or in Table S2. Of the cells, {len(compared)} are compared "
        f"and {within} are within the joint uncertainty."
    )


def _notes(comparisons: Iterable[Compared]) -> list[str]:
    """Whose records differ, once per dataset; the rows say which they are."""
    notes: dict[str, str] = {}
    for one in comparisons:
        if one.note and one.published.key.dataset:
            notes.setdefault(one.published.key.dataset, one.note)
    lines = [
        f"- **{name}**: {markdown_text(note)}."
        for name, note in {**OUR_READING, **notes}.items()
    ]
    return ["\n".join(lines)] if lines else []


def _table_of(place: str, comparisons: Iterable[Compared]) -> Table:
    part = [
        one
        for one in comparisons
        if one.published.in_table and one.published.place == place
    ]
    rows = tuple(_labelled(one) for one in part)
    return Table(place, ("data", "ε", "quantity", *NUMBERS), rows, n_labels=3)


def _text_table(comparisons: Iterable[Compared]) -> Table:
    part = [one for one in comparisons if not one.published.in_table]
    return Table(
        "Figures that stand only in the text or in Table S2",
        ("place", "data", "ε", "quantity", *NUMBERS),
        tuple((one.published.place, *_labelled(one)) for one in part),
        n_labels=4,
        note=(
            "Floor robust: the budgets whose interval excludes 0 on the same side at "
            "floors 0.001 and 0.01. Best: the budgets of the smallest size once "
            "rounded as the paper prints."
        ),
    )


def _labelled(one: Compared) -> tuple[str, ...]:
    key = one.published.key
    data = f"{key.dataset} ({key.attribute})" if key.dataset else "all six"
    return (data, _budgets(key), _what(key), *_numbers(one))


NAMES = {
    "attack_auc": "attack AUC",
    "best_demographic_parity_gap": "budget of the smallest demographic parity gap",
    "best_pcer": "budget of the smallest PCER disparity",
    "n_negative_seeds": "seeds below 0",
    "n_positive_seeds": "seeds above 0",
    "n_records": "records",
    "pcer": "PCER",
    "pcer_disparity": "PCER disparity",
    "pcer_disparity_auc": "PCER disparity by the attack",
    "sign_test_p": "p of the sign test",
}
NUMBERS = ("published", "ours", "difference", "joint uncertainty", "within", "records")


def _numbers(one: Compared) -> tuple[str, ...]:
    digits = _digits(one.published)
    return (
        _published(one.published),
        _ours(one),
        _fixed(one.difference, digits, sign=True),
        _fixed(one.allowed, digits),
        yes_no(one.within),
        _whose([one]),
    )


def _published(one: PrintedFigure) -> str:
    if one.value is None or not one.in_table:
        return one.printed
    spread = "" if one.std is None else f" ± {one.std:g}"
    return f"{_fixed(one.value, one.digits)}{spread}{_bounds(one.ci, 0)}"


def _ours(one: Compared) -> str:
    if one.ours is None:
        return NOTHING
    if one.ours.value is None:
        return one.ours.words or NOTHING
    digits = _digits(one.published)
    ci = one.ours.ci if one.published.ci is not None else None
    std = "" if one.ours.std is None else f" ± {_fixed(one.ours.std, digits)}"
    return _fixed(one.ours.value, digits) + std + _bounds(ci, 1)


def _digits(one: PrintedFigure) -> int:
    """Decimals of our number: one more than printed, none for a whole number."""
    return 0 if one.key.quantity in (*COUNTS, "n_records") else one.digits + 1


def _bounds(ci: tuple[float, float] | None, digits: int) -> str:
    return f" [{_fixed(ci[0], digits)}, {_fixed(ci[1], digits)}]" if ci else ""


def _whose(part: Iterable[Compared]) -> str:
    notes = {one.note for one in part}
    if notes == {""}:
        return "the paper's"
    if any(note.startswith(("not run", "needs")) for note in notes):
        return "not run"
    return "not the paper's"


def _what(one: FigureKey) -> str:
    parts = [_words(one.quantity)]
    parts += [f"of {one.group}"] if one.group else []
    parts += [f"at floor {one.floor:g}"] if one.floor else []
    parts += [f"({one.over} over budgets)"] if one.over not in ("each", "all") else []
    return " ".join(parts)


def _words(quantity: str) -> str:
    return NAMES.get(quantity, quantity.replace("_", " "))


def _budgets(one: FigureKey, separator: str = ", ") -> str:
    return separator.join(map(budget_label, one.budgets))


def _fixed(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None:
        return NOTHING
    rounded = (
        round(value, digits) + 0.0
    )  # a minus before nothing but zeros would say something
    return f"{rounded:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def _csv_row(one: Compared) -> tuple[str, ...]:
    published = one.published
    key = one.published.key
    ours = one.ours
    low, high = published.ci or (None, None)
    our_low, our_high = (ours.ci if ours else None) or (None, None)
    return (
        published.place,
        published.name,
        key.dataset or "",
        key.attribute or "",
        _budgets(key, " "),
        key.quantity,
        key.group or "",
        _plain(key.floor),
        "" if key.over == "each" else key.over,
        published.printed if published.value is None else _as_printed(published),
        _plain(published.std),
        _plain(low),
        _plain(high),
        one.error_from,
        (ours.words or _plain(ours.value)) if ours else "",
        _plain(ours.std if ours else None),
        _plain(our_low),
        _plain(our_high),
        _plain(one.difference),
        _plain(one.allowed),
        "" if one.within is None else yes_no(one.within),
        one.note,
    )


def _as_printed(one: PrintedFigure) -> str:
    return f"{one.value:.{one.digits}f}"


def _plain(value: float | None) -> str:
    """Six digits; what only another machine's rounding would tell from 0 is 0."""
    return "" if value is None else f"{round(value, 12) + 0.0:.6g}"


ACCURACY, ACCURACY_AT_STRONGEST = 0.01, 0.02
PARITY_GAP = 0.02
NEAR_INTERVAL = 25.0
STRONGEST, LEAST_BUDGET = 0.1, 0.5


@dataclass(frozen=True)
class Limit:
    """One cell, how far it is off, and how far it may be."""

    comparison: Compared
    distance: float
    allowed: float
    rule: str

    @property
    def is_met(self) -> bool:
        """Whether the distance is allowed."""
        return self.distance <= self.allowed


def compas_limits(comparisons: Iterable[Compared]) -> list[Table]:
    """The table of limits, where COMPAS was run."""
    rows = [_row(limit) for limit in find_limits(comparisons)]
    if not rows:
        return []
    return [
        Table(
            "COMPAS, held to fixed limits",
            ("ε", "quantity", "distance taken", "distance", "allowed", "met"),
            tuple(rows),
            n_labels=3,
            note=(
                "COMPAS has the paper's records and features, so it is held to limits "
                "fixed before the run. No-DP counts as a budget above 0.5."
            ),
        )
    ]


def find_limits(comparisons: Iterable[Compared]) -> list[Limit]:
    """Every cell of the paper's COMPAS table that has a limit."""
    cells = [one for one in comparisons if one.published.name == "tab:compas-race"]
    return [limit for one in cells if (limit := _limit(one)) is not None]


def _limit(one: Compared) -> Limit | None:
    """None where a cell has no limit, or either side is not known."""
    if one.difference is None:
        return None
    epsilon = one.published.key.budgets[0]
    off = abs(one.difference)
    if one.published.key.quantity == "accuracy":
        allowed = ACCURACY_AT_STRONGEST if epsilon == STRONGEST else ACCURACY
        return Limit(one, off, allowed, "from the published mean")
    if one.published.key.quantity == "demographic_parity_gap":
        return Limit(one, off, PARITY_GAP, "from the published mean")
    if one.published.key.quantity == "pcer_disparity" and epsilon >= LEAST_BUDGET:
        outside = _outside(one)
        if outside is not None:
            return Limit(one, outside, NEAR_INTERVAL, "from the published interval")
    return None


def _outside(one: Compared) -> float | None:
    """How far our mean lies outside the published interval; 0 inside."""
    if one.ours is None or one.ours.value is None or one.published.ci is None:
        return None
    low, high = one.published.ci
    return max(low - one.ours.value, one.ours.value - high, 0.0)


def _row(limit: Limit) -> tuple[str, ...]:
    epsilon = limit.comparison.published.key.budgets[0]
    digits = 1 if limit.allowed >= 1 else 4
    return (
        budget_name(None if math.isinf(epsilon) else epsilon),
        limit.comparison.published.key.quantity.replace("_", " ").replace(
            "pcer", "PCER"
        ),
        limit.rule,
        f"{limit.distance:.{digits}f}",
        f"{limit.allowed:g}",
        yes_no(limit.is_met),
    )
