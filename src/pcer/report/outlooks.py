"""What an audit could show, before anything is trained: sentences and tables."""

from __future__ import annotations

from collections.abc import Iterable

from pcer.auditing.planner import Outlook, OutlookPoint
from pcer.auditing.words import NOTHING, largest
from pcer.files import as_shown
from pcer.report.changes import quantity
from pcer.report.table import Table
from pcer.report.text import Lines


def outlook_view(outlook: Outlook) -> list[Lines | Table]:
    """The answer in words, who could be shown how much, and the curve over splits."""
    outlook = as_shown(outlook)
    heads = ("splits", "an exposure,\nin every group", "a difference,\nbetween any two")
    curve = outlook.over_splits
    rows = tuple(
        (f"{point.n_splits:,}", *map(in_100, hardest(point))) for point in curve
    )
    splits = Table("With other numbers of splits, in points", heads, rows)
    return [Lines(outlook.title, outlook.sentences), _amounts(outlook), splits]


def in_100(amount: float | None) -> str:
    """An exposure or difference in hundredths; a dash where none would be shown.

    >>> in_100(0.01234), in_100(0.256), in_100(0.0), in_100(None)
    ('1.2', '26', 'any', '–')
    """
    if not amount:
        return NOTHING if amount is None else "any"
    value = 100 * amount
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _amounts(outlook: Outlook) -> Table:
    """Groups, then pairs; where a target is named, two more columns say what it takes."""

    def counts(numbers: Iterable[float | None]) -> str:
        return "\n".join(NOTHING if n is None else f"{n:,.0f}" for n in numbers)

    rows = [
        (
            quantity(row.groups),
            counts(row.n_people),
            in_100(row.smallest),
            in_100(row.limit),
            counts([row.splits_for_target]),
            counts(row.people_for_target or [None]),
        )
        for row in (*outlook.groups, *outlook.pairs)
    ]
    heads = [
        "",
        "people",
        f"with {outlook.n_splits:,}\nsplit{'s' if outlook.n_splits > 1 else ''}",
    ]
    heads.append("with any\nnumber")
    if outlook.target is not None:
        heads += [
            f"{what} to\nshow {in_100(outlook.target)}" for what in ("splits", "people")
        ]
    cells = tuple(row[: len(heads)] for row in rows)
    title = "Smallest that would be seen 4 times in 5, in points"
    return Table(title, tuple(heads), cells, note=_note(outlook))


def _note(outlook: Outlook) -> str:
    cost = f"Exposure: {outlook.proxy.label}, {outlook.proxy.scale.unit}."
    at = "" if outlook.setting is None else f" Setting: {outlook.setting}."
    family = outlook.n_settings
    tests = f" {family} settings are audited together." if family > 1 else ""
    base = max((pair.base for pair in outlook.pairs), default=0.0)
    lower = f" The less exposed group has {in_100(base)} points." if base > 0 else ""
    about = (
        "An exposure is asked about these records, a difference about people like these."
        if outlook.proxy.is_from_counts
        else "Both are asked about people like these. For other numbers of splits these are upper "
        "bounds: a release does not say which part of its error splits cause."
    )
    dash = "A dash: not even the largest there can be; or no number is enough."
    return f"{cost}{at}{tests}{lower} {about} {dash}"


def hardest(point: OutlookPoint) -> tuple[float | None, float | None]:
    """The largest exposure and difference; None where one is not to be had, or there is none."""
    return largest([*point.exposure.values()]), largest(point.difference)
