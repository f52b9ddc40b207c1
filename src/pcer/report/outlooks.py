"""What could be shown, for people: sentences, tables and a picture of both curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pcer.auditing import NOTHING, Outlook, OutlookPoint, listed, rounded
from pcer.files import as_shown
from pcer.report.figures import WIDTH as PANEL
from pcer.report.figures import complete
from pcer.report.marks import Spec, legend, series, unchecked
from pcer.report.rows import Datum, isolated
from pcer.report.table import Table, table_body, wrapped
from pcer.report.terminal import Part

if TYPE_CHECKING:
    import altair as alt

OUTLOOK = "outlook"
"""What the picture is called in files."""
EVERY, ANY = "exposure, in every group", "difference, between any two"
MOST_LINES = 6
"""More groups would not be told apart: then one line stands for all."""
HUNDREDTHS = "format(100 * datum.value, '~g')"


def outlook_parts(outlook: Outlook, width: int) -> list[Part]:
    """What a terminal shows: the answer in words, then the numbers."""
    outlook = as_shown(outlook)
    told = "\n".join(wrapped(line, width) for line in outlook.sentences)
    tables = outlook_tables(outlook)
    return [
        Part(wrapped(outlook.title, width), told),
        *(Part(wrapped(table.title, width), table_body(table, width)) for table in tables),
    ]


def outlook_tables(outlook: Outlook) -> list[Table]:
    """Who could be shown how much; and both curves."""
    return [_amounts(outlook), *_curves(outlook)]


def outlook_spec(outlook: Outlook) -> Spec:
    """Both curves side by side: a specification with its rows in it."""
    import altair as alt

    outlook = as_shown(outlook)
    rows = _rows(outlook)
    names = list(dict.fromkeys(row["line"] for row in rows))
    with unchecked():
        panels = [
            _panel(names, "splits", "splits", outlook.n_splits, with_legend=True),
            _panel(names, "people", "times as many people", 1.0, with_legend=False),
        ]
        chart = alt.hconcat(*panels, spacing=30).resolve_scale(color="shared", y="shared")
        spec: Spec = chart.to_dict(validate=False)
    spec = {key: value for key, value in spec.items() if key not in ("config", "$schema")}
    spec["description"] = f"{outlook.title}. {' '.join(outlook.sentences)}"
    return complete(spec, {OUTLOOK: rows})


def outlook_chart(outlook: Outlook) -> Any:
    """The same as an Altair chart."""
    import altair as alt

    spec = outlook_spec(outlook)
    spec["config"]["legend"].pop("layout", None)  # Vega takes it; Altair's schema does not know it
    return alt.Chart.from_dict(spec)


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
    target = outlook.target
    more = (
        ()
        if target is None
        else (f"splits to\nshow {in_100(target)}", f"people to\nshow {in_100(target)}")
    )
    now = f"with {outlook.n_splits:,}\nsplit{'s' if outlook.n_splits > 1 else ''}"
    return Table(
        "Smallest that would be shown 4 times in 5, in 100",
        ("", "people", now, "with any\nnumber", *more),
        (*_group_rows(outlook), *_pair_rows(outlook)),
        note=_note(outlook),
    )


def _group_rows(outlook: Outlook) -> Iterator[tuple[str, ...]]:
    for one in outlook.groups:
        row = (f"exposure in {one.group}", f"{one.n_people:,.0f}")
        found = (in_100(one.smallest), in_100(one.limit))
        people = NOTHING if one.people_for_target is None else _people([one.people_for_target])
        yield *row, *found, *_asked(outlook, one.splits_for_target, people)


def _pair_rows(outlook: Outlook) -> Iterator[tuple[str, ...]]:
    sizes = {one.group: one.n_people for one in outlook.groups}
    for one in outlook.pairs:
        first, second = one.groups
        row = (f"difference of {first} and {second}", _people(sizes[name] for name in one.groups))
        found = (in_100(one.smallest), in_100(one.limit))
        people = NOTHING if one.people_for_target is None else _people(one.people_for_target)
        yield *row, *found, *_asked(outlook, one.splits_for_target, people)


def _people(counts: Iterable[float]) -> str:
    return "\n".join(f"{n:,.0f}" for n in counts)


def _asked(outlook: Outlook, n_splits: int | None, people: str) -> tuple[str, ...]:
    if outlook.target is None:
        return ()
    return (NOTHING if n_splits is None else f"{n_splits:,}", people)


def _note(outlook: Outlook) -> str:
    of_cost = f"Exposure: {outlook.proxy.label}, {outlook.proxy.scale.unit}."
    at = "" if outlook.setting is None else f" Setting: {outlook.setting}."
    family = outlook.n_settings
    tests = f" {family} settings are audited together." if family > 1 else ""
    base = max((one.base for one in outlook.pairs), default=0.0)
    lower = f" The less exposed group has {in_100(base)} in 100." if base > 0 else ""
    dash = "A dash: not even the largest there can be; or no number is enough."
    return f"{of_cost}{at}{tests}{lower} {_about(outlook)} {dash}"


def _about(outlook: Outlook) -> str:
    if outlook.proxy.is_from_counts:
        return "An exposure is asked about these records, a difference about people like these."
    return (
        "Both are asked about people like these. For other numbers of splits these are upper "
        "limits: a release does not say which part of its error splits cause."
    )


def _curves(outlook: Outlook) -> Iterator[Table]:
    columns = ("an exposure,\nin every group", "a difference,\nbetween any two")
    yield Table(
        "With other numbers of splits, in 100",
        ("splits", *columns),
        tuple((f"{one.n_splits:,}", *_hardest(one)) for one in outlook.over_splits),
    )
    yield Table(
        "With other numbers of people, in 100",
        ("times as\nmany people", *columns),
        tuple((f"{one.growth:g}", *_hardest(one)) for one in outlook.over_people),
    )


def _hardest(point: OutlookPoint) -> tuple[str, str]:
    return in_100(_largest(point.exposure.values())), in_100(_largest(point.difference))


def _largest(amounts: Iterable[float | None]) -> float | None:
    """The largest of all; None where one of them is not to be had, or there is none."""
    known = list(amounts)
    found = [amount for amount in known if amount is not None]
    return max(found) if found and len(found) == len(known) else None


def _rows(outlook: Outlook) -> list[Datum]:
    """One row for each line and place of a curve."""
    curves = (("splits", outlook.over_splits), ("people", outlook.over_people))
    return [
        rounded({"curve": curve, "at": _place(curve, point), "line": line, "amount": amount})
        for curve, points in curves
        for point in points
        for line, amount in _lines(outlook, point)
        if amount is not None
    ]


def _place(curve: str, point: OutlookPoint) -> float:
    return float(point.n_splits) if curve == "splits" else point.growth


def _lines(outlook: Outlook, point: OutlookPoint) -> list[tuple[str, float | None]]:
    if len(outlook.groups) + len(outlook.pairs) > MOST_LINES:
        return [(EVERY, _largest(point.exposure.values())), (ANY, _largest(point.difference))]
    pairs = zip(outlook.pairs, point.difference, strict=True)
    return [
        *((f"exposure, {isolated(name)}", amount) for name, amount in point.exposure.items()),
        *((f"difference, {_both(pair.groups)}", amount) for pair, amount in pairs),
    ]


def _both(groups: Sequence[str]) -> str:
    return listed([isolated(name) for name in groups])


def _panel(
    names: Sequence[str], curve: str, title: str, own: float, *, with_legend: bool
) -> alt.LayerChart | alt.FacetChart:
    import altair as alt

    log = alt.Scale(type="log", nice=False)
    x = alt.X("at:Q", title=title, scale=log, axis=alt.Axis(format="~g", tickCount=5))
    y = alt.Y(
        "amount:Q",
        title="smallest that would be shown, in 100",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(labelExpr=HUNDREDTHS, tickCount=5),
    )
    shown = legend() if with_legend else None
    colour = alt.Color("line:N", title=None, scale=series(names), legend=shown)
    dash = alt.StrokeDash("line:N", title=None, scale=_dashes(names), legend=shown)
    told = "datum.line + ': ' + format(100 * datum.amount, '.2~g') + ' in 100'"
    base = alt.Chart(alt.NamedData(OUTLOOK)).transform_filter(f"datum.curve == '{curve}'")
    return alt.layer(
        base.mark_line(style="path").encode(x=x, y=y, color=colour, strokeDash=dash),
        base.transform_calculate(told=told)
        .mark_point(style="point")
        .encode(x=x, y=y, color=colour, tooltip=alt.Tooltip("told:N", title="would be shown")),
        base.transform_filter(f"datum.at == {own:g}")
        .transform_aggregate(at="max(at)")
        .mark_rule(style="chosen")
        .encode(x=alt.X("at:Q", scale=log)),
    ).properties(width=PANEL * 3 // 4, height=PANEL * 3 // 5)


def _dashes(names: Sequence[str]) -> alt.Scale:
    """Exposures as whole lines and differences as broken ones, so that no colour is needed."""
    import altair as alt

    return alt.Scale(
        domain=list(names),
        range=[[5, 3] if name.startswith("difference") else [1, 0] for name in names],
    )
