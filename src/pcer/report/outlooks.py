"""What an audit could show, before anything is trained: sentences and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pcer.auditing.planner import Outlook, OutlookPoint
from pcer.auditing.words import NOTHING
from pcer.files import as_shown
from pcer.report.table import Table, wrapped
from pcer.report.text import Part, table_part


def outlook_parts(outlook: Outlook, width: int) -> list[Part]:
    """What a terminal shows: the answer in words, then the numbers."""
    outlook = as_shown(outlook)
    told = "\n".join(wrapped(line, width) for line in outlook.sentences)
    parts = [table_part(table, width) for table in outlook_tables(outlook)]
    return [Part(wrapped(outlook.title, width), told), *parts]


def outlook_tables(outlook: Outlook) -> list[Table]:
    """Who could be shown how much; and the curve over splits."""
    columns = ("an exposure,\nin every group", "a difference,\nbetween any two")
    over_splits = tuple(
        (f"{point.n_splits:,}", *map(in_100, hardest(point))) for point in outlook.over_splits
    )
    return [
        _amounts(outlook),
        Table("With other numbers of splits, in 100", ("splits", *columns), over_splits),
    ]


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
    target = in_100(outlook.target)
    asked = outlook.target is not None
    more = (f"splits to\nshow {target}", f"people to\nshow {target}") if asked else ()
    now = f"with {outlook.n_splits:,}\nsplit{'s' if outlook.n_splits > 1 else ''}"
    rows = [row if asked else row[:-2] for row in _amount_rows(outlook)]
    return Table(
        "Smallest that would be shown 4 times in 5, in 100",
        ("", "people", now, "with any\nnumber", *more),
        tuple(rows),
        note=_note(outlook),
    )


def _amount_rows(outlook: Outlook) -> Iterator[tuple[str, ...]]:
    """Groups, then pairs; the last two cells answer what the target takes."""
    sizes = {group.group: group.n_people for group in outlook.groups}
    for group in outlook.groups:
        wanted = group.people_for_target
        people = NOTHING if wanted is None else _people([wanted])
        row = (f"exposure in {group.group}", f"{group.n_people:,.0f}")
        found = (in_100(group.smallest), in_100(group.limit))
        yield *row, *found, _splits(group.splits_for_target), people
    for pair in outlook.pairs:
        both = pair.people_for_target
        first, second = pair.groups
        row = (f"difference of {first} and {second}", _people(sizes[name] for name in pair.groups))
        found = (in_100(pair.smallest), in_100(pair.limit))
        people = NOTHING if both is None else _people(both)
        yield *row, *found, _splits(pair.splits_for_target), people


def _people(counts: Iterable[float]) -> str:
    return "\n".join(f"{n:,.0f}" for n in counts)


def _splits(n_splits: int | None) -> str:
    return NOTHING if n_splits is None else f"{n_splits:,}"


def _note(outlook: Outlook) -> str:
    cost = f"Exposure: {outlook.proxy.label}, {outlook.proxy.scale.unit}."
    at = "" if outlook.setting is None else f" Setting: {outlook.setting}."
    family = outlook.n_settings
    tests = f" {family} settings are audited together." if family > 1 else ""
    base = max((pair.base for pair in outlook.pairs), default=0.0)
    lower = f" The less exposed group has {in_100(base)} in 100." if base > 0 else ""
    about = (
        "An exposure is asked about these records, a difference about people like these."
        if outlook.proxy.is_from_counts
        else "Both are asked about people like these. For other numbers of splits these are upper "
        "limits: a release does not say which part of its error splits cause."
    )
    dash = "A dash: not even the largest there can be; or no number is enough."
    return f"{cost}{at}{tests}{lower} {about} {dash}"


def hardest(point: OutlookPoint) -> tuple[float | None, float | None]:
    """The largest exposure and difference; None where one is not to be had, or there is none."""

    def largest(amounts: Iterable[float | None]) -> float | None:
        every = list(amounts)
        known = [amount for amount in every if amount is not None]
        return max(known) if known and len(known) == len(every) else None

    return largest(point.exposure.values()), largest(point.difference)
