"""What an audit could show, before anything is trained: sentences, tables and the curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pcer.auditing import NOTHING, Outlook, OutlookPoint, listed, rounded
from pcer.files import as_shown
from pcer.report.figures import WIDTH, Spec, complete, legend, require_altair, series, to_spec
from pcer.report.table import Table, isolated, wrapped
from pcer.report.terminal import Part, table_part

OUTLOOK = "outlook"
"""What the picture is called in files."""
EVERY, ANY = "exposure, in every group", "difference, between any two"
MOST_LINES = 6
"""More groups would not be told apart: then one line stands for all."""


def outlook_parts(outlook: Outlook, width: int) -> list[Part]:
    """What a terminal shows: the answer in words, then the numbers."""
    outlook = as_shown(outlook)
    told = "\n".join(wrapped(line, width) for line in outlook.sentences)
    parts = [table_part(table, width) for table in outlook_tables(outlook)]
    return [Part(wrapped(outlook.title, width), told), *parts]


def outlook_tables(outlook: Outlook) -> list[Table]:
    """Who could be shown how much; and the curve over splits."""
    columns = ("an exposure,\nin every group", "a difference,\nbetween any two")
    over_splits = tuple((f"{one.n_splits:,}", *_hardest(one)) for one in outlook.over_splits)
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
    sizes = {one.group: one.n_people for one in outlook.groups}
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
    base = max((one.base for one in outlook.pairs), default=0.0)
    lower = f" The less exposed group has {in_100(base)} in 100." if base > 0 else ""
    about = (
        "An exposure is asked about these records, a difference about people like these."
        if outlook.proxy.is_from_counts
        else "Both are asked about people like these. For other numbers of splits these are upper "
        "limits: a release does not say which part of its error splits cause."
    )
    dash = "A dash: not even the largest there can be; or no number is enough."
    return f"{cost}{at}{tests}{lower} {about} {dash}"


def _hardest(point: OutlookPoint) -> tuple[str, str]:
    return in_100(_largest(point.exposure.values())), in_100(_largest(point.difference))


def _largest(amounts: Iterable[float | None]) -> float | None:
    """The largest of all; None where one of them is not to be had, or there is none."""
    known = list(amounts)
    found = [amount for amount in known if amount is not None]
    return max(found) if found and len(found) == len(known) else None


def outlook_spec(outlook: Outlook) -> Spec:
    """The curve over splits: a specification with its rows in it."""
    require_altair()
    import altair as alt

    outlook = as_shown(outlook)
    rows = [
        rounded({"splits": point.n_splits, "line": line, "amount": amount})
        for point in outlook.over_splits
        for line, amount in _curves(outlook, point)
        if amount is not None
    ]
    names = list(dict.fromkeys(row["line"] for row in rows))
    x = alt.X("splits:Q", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~g"))
    y = alt.Y(
        "amount:Q",
        title="smallest that would be shown, in 100",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(labelExpr="format(100 * datum.value, '~g')", tickCount=5),
    )
    colour = alt.Color("line:N", title=None, scale=series(names), legend=legend())
    # Exposures are whole lines and differences broken ones, so that no colour is needed.
    dashes = [[5, 3] if name.startswith("difference") else [1, 0] for name in names]
    dash = alt.StrokeDash(
        "line:N", title=None, scale=alt.Scale(domain=names, range=dashes), legend=legend()
    )
    base = alt.Chart(alt.NamedData(OUTLOOK))
    own = base.transform_filter(f"datum.splits == {outlook.n_splits:g}")
    chart = alt.layer(
        base.mark_line(style="path").encode(x=x, y=y, color=colour, strokeDash=dash),
        base.mark_point(style="point").encode(x=x, y=y, color=colour),
        own.transform_aggregate(splits="max(splits)").mark_rule(style="chosen").encode(x=x),
    ).properties(width=WIDTH, height=WIDTH * 3 // 5)
    spec = to_spec(chart, f"{outlook.title}. {' '.join(outlook.sentences)}")
    return complete(spec, {OUTLOOK: rows})


def _curves(outlook: Outlook, point: OutlookPoint) -> list[tuple[str, Any]]:
    if len(outlook.groups) + len(outlook.pairs) > MOST_LINES:
        return [(EVERY, _largest(point.exposure.values())), (ANY, _largest(point.difference))]
    both = [listed([isolated(name) for name in pair.groups]) for pair in outlook.pairs]
    return [
        *((f"exposure, {isolated(name)}", amount) for name, amount in point.exposure.items()),
        *((f"difference, {b}", x) for b, x in zip(both, point.difference, strict=True)),
    ]
