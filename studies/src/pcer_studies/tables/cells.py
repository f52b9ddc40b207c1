"""How do ``cells.md`` and ``cells.csv`` show every figure of the paper beside ours?

``tables.folder`` writes both from the comparisons of ``comparison.compare``, and puts
``by_records`` into the README. To add a column: a head, and its cell in ``_table_of``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.table import Table
from pcer.wording import NOTHING, yes_no
from pcer_studies.numbers import OurNumber
from pcer_studies.protocol import DATASETS, OUR_READING, budget_label
from pcer_studies.published import FigureKey, PrintedFigure
from pcer_studies.tables.comparison import COUNTS, EXPECTED_WITHOUT_ERROR, Comparison
from pcer_studies.tables.limits import compas_limits

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


def to_csv(comparisons: Iterable[Comparison]) -> str:
    """One line per figure; numbers with six significant digits."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_CsvRow._fields)
    lines.writerows(_csv_row(comparison) for comparison in comparisons)
    return text.getvalue()


def to_page(comparisons: Sequence[Comparison]) -> str:
    """The same for people: the summary first, then every figure by its table."""
    parts = [
        "# Published beside ours",
        f"{_counted(comparisons)} `cells.csv` holds the same lines for programs.",
        RULE,
        SHARE.format(without=100 * EXPECTED_WITHOUT_ERROR),
        *_notes(comparisons),
        to_markdown(by_records(comparisons)),
        to_markdown(by_quantity(comparisons)),
        *(to_markdown(table) for table in compas_limits(comparisons)),
    ]
    places = dict.fromkeys(
        comparison.published.place
        for comparison in comparisons
        if comparison.published.in_table
    )
    parts += [to_markdown(_table_of(place, comparisons)) for place in places]
    parts.append(to_markdown(_text_table(comparisons)))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def by_records(comparisons: Iterable[Comparison]) -> Table:
    """How many cells are within, by dataset."""
    cells = [comparison for comparison in comparisons if comparison.published.in_table]
    rows = []
    for dataset in DATASETS:
        part = [cell for cell in cells if cell.published.key.dataset == dataset]
        if part:
            rows.append((dataset, _whose(part), *_counts(part), *_plain_counts(part)))
    return Table(
        "Cells within the joint uncertainty, by dataset",
        ("dataset", "records", *COUNTED, *PLAIN),
        (*rows, ("all", "", *_counts(cells), *_plain_counts(cells))),
        n_labels=2,
        note="The joint rule allows for the errors of both studies: agreement by it is "
        "no agreement of intervals. The last two columns are plain counts: ours within "
        "the published standard deviation over seeds, and inside the published "
        "interval of a mean.",
    )


def by_quantity(comparisons: Iterable[Comparison]) -> Table:
    """How many cells are within, by table and quantity."""
    parts: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.published.in_table:
            place = comparison.published.place
            quantity = comparison.published.key.quantity
            parts.setdefault((place, quantity), []).append(comparison)
    rows = []
    for (place, quantity), part in parts.items():
        rows.append((place, _words(quantity), *_counts(part)))
    return Table(
        "Cells within the joint uncertainty, by table and quantity",
        ("table", "quantity", *COUNTED),
        tuple(rows),
        n_labels=2,
    )


PLAIN = ("within published deviation", "inside published interval")


def _plain_counts(part: Sequence[Comparison]) -> tuple[str, ...]:
    """The columns ``PLAIN``: without any error of ours."""
    answers = (
        [comparison.within_deviation for comparison in part],
        [comparison.inside_interval for comparison in part],
    )
    return tuple(map(n_agreeing, answers))


def n_agreeing(answers: Sequence[bool | None]) -> str:
    """How many are so, of those that are known.

    >>> n_agreeing([True, None, False])
    '1 of 2'
    """
    known = [answer for answer in answers if answer is not None]
    return f"{sum(known)} of {len(known)}"


COUNTED = ("cells", "compared", "within", "outside", "share within", "expected")


def _counts(part: Sequence[Comparison]) -> tuple[str, ...]:
    """The columns ``COUNTED`` of some cells."""
    compared = [comparison for comparison in part if comparison.within is not None]
    within = sum(comparison.within is True for comparison in compared)
    if not compared:
        return (str(len(part)), "0", "0", "0", NOTHING, NOTHING)
    expected = sum(comparison.expected for comparison in compared) / len(compared)
    return (
        str(len(part)),
        str(len(compared)),
        str(within),
        str(len(compared) - within),
        f"{100 * within / len(compared):.0f} %",
        f"{100 * expected:.0f} %",
    )


def _counted(comparisons: Sequence[Comparison]) -> str:
    cells = [comparison for comparison in comparisons if comparison.published.in_table]
    compared = [comparison for comparison in cells if comparison.within is not None]
    within = sum(comparison.within is True for comparison in compared)
    other = len(comparisons) - len(cells)
    return (
        f"All {len(cells)} cells of the paper's tables and {other} figures that stand "
        f"only in its text or in Table S2. Of the cells, {len(compared)} are compared "
        f"and {within} are within the joint uncertainty."
    )


def _notes(comparisons: Iterable[Comparison]) -> list[str]:
    """Whose records differ, once per dataset; the rows say which they are."""
    notes: dict[str, str] = {}
    for comparison in comparisons:
        dataset = comparison.published.key.dataset
        if comparison.note and dataset:
            notes.setdefault(dataset, comparison.note)
    lines = []
    for name, note in {**OUR_READING, **notes}.items():
        lines.append(f"- **{name}**: {markdown_text(note)}.")
    return ["\n".join(lines)] if lines else []


def _table_of(place: str, comparisons: Iterable[Comparison]) -> Table:
    """Every figure of one of the paper's tables."""
    rows = []
    for comparison in comparisons:
        if comparison.published.in_table and comparison.published.place == place:
            rows.append(_labelled(comparison))
    return Table(place, ("data", "ε", "quantity", *NUMBERS), tuple(rows), n_labels=3)


def _text_table(comparisons: Iterable[Comparison]) -> Table:
    rows = []
    for comparison in comparisons:
        if not comparison.published.in_table:
            rows.append((comparison.published.place, *_labelled(comparison)))
    return Table(
        "Figures that stand only in the text or in Table S2",
        ("place", "data", "ε", "quantity", *NUMBERS),
        tuple(rows),
        n_labels=4,
        note=(
            "Floor robust: the budgets whose interval excludes 0 on the same side at "
            "floors 0.001 and 0.01. Best: the budgets of the smallest size once "
            "rounded as the paper prints."
        ),
    )


def _labelled(comparison: Comparison) -> tuple[str, ...]:
    """What a figure is about, and the columns ``NUMBERS``."""
    key = comparison.published.key
    data = f"{key.dataset} ({key.attribute})" if key.dataset else "all six"
    return (data, _budgets(key), _what(key), *_numbers(comparison))


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


def _numbers(comparison: Comparison) -> tuple[str, ...]:
    """The columns ``NUMBERS`` of one figure."""
    digits = _digits(comparison.published)
    return (
        _published(comparison.published),
        _ours(comparison),
        _fixed(comparison.difference, digits, sign=True),
        _fixed(comparison.allowed, digits),
        yes_no(comparison.within),
        _whose([comparison]),
    )


def _published(published: PrintedFigure) -> str:
    if published.value is None or not published.in_table:
        return published.printed
    spread = "" if published.std is None else f" ± {published.std:g}"
    return (
        f"{_fixed(published.value, published.digits)}{spread}{_ends(published.ci, 0)}"
    )


def _ours(comparison: Comparison) -> str:
    ours = comparison.ours
    if ours is None:
        return NOTHING
    if ours.value is None:
        return ours.words or NOTHING
    digits = _digits(comparison.published)
    words = _fixed(ours.value, digits)
    if ours.std is not None:
        words += f" ± {_fixed(ours.std, digits)}"
    if comparison.published.ci is not None:
        words += _ends(ours.ci, 1)
    return words


def _digits(published: PrintedFigure) -> int:
    """Decimals of our number: one more than printed, none for a whole number."""
    is_whole = published.key.quantity in (*COUNTS, "n_records")
    return 0 if is_whole else published.digits + 1


def _ends(ci: tuple[float, float] | None, digits: int) -> str:
    if ci is None:
        return ""
    return f" [{_fixed(ci[0], digits)}, {_fixed(ci[1], digits)}]"


def _whose(part: Iterable[Comparison]) -> str:
    """Whose records some figures are of."""
    notes = {comparison.note for comparison in part}
    if notes == {""}:
        return "the paper's"
    if any(note.startswith(("not run", "needs")) for note in notes):
        return "not run"
    return "not the paper's"


def _what(key: FigureKey) -> str:
    """The quantity of a key, with its group, floor and budgets."""
    parts = [_words(key.quantity)]
    if key.group:
        parts.append(f"of {key.group}")
    if key.floor:
        parts.append(f"at floor {key.floor:g}")
    if key.over not in ("each", "all"):
        parts.append(f"({key.over} over budgets)")
    return " ".join(parts)


def _words(quantity: str) -> str:
    return NAMES.get(quantity, quantity.replace("_", " "))


def _budgets(key: FigureKey, separator: str = ", ") -> str:
    return separator.join(map(budget_label, key.budgets))


def _fixed(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None:
        return NOTHING
    # A minus before nothing but zeros would say something, so 0.0 is added.
    rounded = round(value, digits) + 0.0
    text = f"{rounded:+.{digits}f}" if sign else f"{rounded:.{digits}f}"
    return text.replace("-", "−")


class _CsvRow(NamedTuple):
    """One line of ``cells.csv``; its fields are the columns."""

    place: str
    key: str
    dataset: str
    attribute: str
    epsilon: str
    quantity: str
    group: str
    floor: str
    over: str
    published: str
    published_std: str
    published_ci_low: str
    published_ci_high: str
    published_error_from: str
    ours: str
    ours_std: str
    ours_ci_low: str
    ours_ci_high: str
    difference: str
    joint_uncertainty: str
    within: str
    note: str


def _csv_row(comparison: Comparison) -> _CsvRow:
    published = comparison.published
    key = published.key
    ours = comparison.ours or OurNumber()
    low, high = published.ci or (None, None)
    our_low, our_high = ours.ci or (None, None)
    return _CsvRow(
        place=published.place,
        key=published.name,
        dataset=key.dataset or "",
        attribute=key.attribute or "",
        epsilon=_budgets(key, " "),
        quantity=key.quantity,
        group=key.group or "",
        floor=_plain(key.floor),
        over="" if key.over == "each" else key.over,
        published=_as_printed(published),
        published_std=_plain(published.std),
        published_ci_low=_plain(low),
        published_ci_high=_plain(high),
        published_error_from=comparison.error_from,
        ours=ours.words or _plain(ours.value),
        ours_std=_plain(ours.std),
        ours_ci_low=_plain(our_low),
        ours_ci_high=_plain(our_high),
        difference=_plain(comparison.difference),
        joint_uncertainty=_plain(comparison.allowed),
        within="" if comparison.within is None else yes_no(comparison.within),
        note=comparison.note,
    )


def _as_printed(published: PrintedFigure) -> str:
    if published.value is None:
        return published.printed
    return f"{published.value:.{published.digits}f}"


def _plain(value: float | None) -> str:
    """Six digits; what only another machine's rounding would tell from 0 is 0."""
    return "" if value is None else f"{round(value, 12) + 0.0:.6g}"
