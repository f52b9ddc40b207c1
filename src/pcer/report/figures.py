"""Charts for papers, through Altair (extra ``figures``): ``Audit.plot`` and ``--figures``.

A chart is a function of an audit and its release, and a line in ``CHARTS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from pcer.auditing.record import Audit, rounded
from pcer.deciding.planner import Outlook, OutlookPoint
from pcer.errors import InputError, not_installed
from pcer.files import as_shown
from pcer.release.file import Release
from pcer.report.pictures.axis import LIGHT, N_SERIES
from pcer.report.table import isolated, pair_name, template
from pcer.report.tables import attacks as attacks_module
from pcer.report.tables import background
from pcer.report.tables.decisions import hardest
from pcer.wording import listed

try:
    import altair as alt
except ImportError:
    raise not_installed("altair", extra="figures", needed_by="drawing charts") from None

AnyChart = alt.LayerChart | alt.FacetChart | alt.ConcatChart
Spec = dict[str, Any]
# A chart, the rows that it draws, and what it shows in few words.
Drawing = tuple[AnyChart, list[dict[str, Any]], str]
VEGA_LITE = (
    "6.4"  # the Vega-Lite that specifications are written for, in vl-convert's spelling
)
WIDTH, HEIGHT, CELL = 380, 230, 210
SCALE = 2.0
LONGEST_NAME, LONGEST_LABEL, MOST_LABELS = 60, 150, 24
HUNDREDTHS = "replace(format(100 * datum.value, '~g'), '-', '−')"
# Marks of groups in their order, so that no chart needs colour.
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down")
PARITY, DISPARITY, NULL = "DP-Gap (left)", "Δ PCER (right)", "if nothing memorised"
# Colours of measures, which are none of the first groups'.
PURPLE = LIGHT["series-5"]
OLIVE = LIGHT["series-4"]
GREY, FLOORED = "#7a7a7a", "#fff3bf"
READING = "Hollow: no evidence, within its null. Yellow: floor-dominated."
# Colour, mark and shift to the side of every curve of Figure 1.
CURVES = {
    PARITY: (PURPLE, "circle", -6),
    DISPARITY: (OLIVE, "square", 0),
    NULL: (GREY, "diamond", 6),
}
OUTLOOK = "outlook"  # what a planner's picture is called in files
EVERY, ANY = "exposure, in every group", "difference, between any two"
MOST_LINES = 6  # with more groups, one line stands for all
ROWS = alt.NamedData("rows")
# Names that every object of JavaScript has, which Vega trips over; a space that nobody
# sees helps.
OF_OBJECTS = re.compile(
    r'(?<=")(__\w+__|constructor|\w+(Of|String|Property|Enumerable))(?=\\?")'
)


def draw_figures(
    audits: Sequence[Audit], releases: Sequence[Release]
) -> dict[str, bytes]:
    """File contents by file name; same input, same bytes."""
    files: dict[str, bytes] = {}
    pairs = zip(map(as_shown, audits), map(as_shown, releases), strict=True)
    for number, (audit, release) in enumerate(pairs, start=1):
        prefix = f"{number:02d}-" if len(audits) > 1 else ""
        for name in CHARTS:
            if (spec := chart_spec(audit, release, name)) is not None:
                stem = f"{prefix}{file_name(audit)}-{name}"
                files |= {f"{stem}.{kind}": data for kind, data in drawn(spec).items()}
    return files


def chart_spec(audit: Audit, release: Release, name: str) -> Spec | None:
    """The complete specification of one chart; None where it has nothing to draw."""
    if name not in CHARTS:
        raise InputError(
            f"plot draws {', '.join(CHARTS)}, and nothing called {name!r}."
        )
    found = CHARTS[name](audit, release)
    if found is None:
        return None
    chart, rows, what = found
    n = len(audit.budgets)
    description = f"{what}, {n} setting{'s' * (n > 1)}. The numbers are in the tables."
    return _described(chart, description, {"rows": rounded(rows)})


def spec_chart(spec: Spec) -> Any:
    """A complete specification as an Altair chart."""
    spec["config"]["legend"].pop(
        "layout", None
    )  # Vega takes it; Altair's schema does not know it
    return alt.Chart.from_dict(spec)


def file_name(audit: Audit) -> str:
    """Dataset and attribute in letters that any file system takes."""
    words = f"{audit.subject.dataset} {audit.subject.attribute}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:LONGEST_NAME] or "release"


def drawn(spec: Spec) -> dict[str, bytes]:
    """The figure in every format, by its ending."""
    try:
        import vl_convert
    except ImportError:
        raise not_installed(
            "vl-convert", extra="figures", needed_by="drawing figures"
        ) from None
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return {
        "svg": svg.encode(),
        "png": vl_convert.svg_to_png(svg, scale=SCALE),
        "pdf": vl_convert.svg_to_pdf(svg),
    }


def complete(spec: Spec, rows: dict[str, Any]) -> Spec:
    """What Vega-Lite draws, with its rows and its look: fonts, colours by role, kinds of marks."""
    named = re.compile(r"var\(--([a-z0-9-]+)\)")
    look = json.loads(named.sub(lambda m: LIGHT[m[1]], template("figures.json")))
    return {**spec, "config": look, "background": "white", "datasets": rows}


def _described(chart: AnyChart, description: str, rows: dict[str, Any]) -> Spec:
    spec: Spec = chart.to_dict(validate=False)
    spec = {
        key: value for key, value in spec.items() if key not in ("config", "$schema")
    }
    whole = complete(spec | {"description": description}, rows)
    return dict(json.loads(OF_OBJECTS.sub(r"\g<0> ", json.dumps(whole))))


def series(names: Sequence[str], places: Sequence[int] | None = None) -> alt.Scale:
    """A colour for every name, by its place: a group's among all groups is the page's colour."""
    of_names = range(len(names)) if places is None else places
    colours = [LIGHT[f"series-{k % N_SERIES}"] for k in of_names]
    return alt.Scale(domain=list(names), range=colours)


def legend() -> alt.Legend:
    """A legend above its chart, names in full."""
    return alt.Legend(orient="top", columns=2, labelLimit=150, symbolLimit=0)


def figure1(audit: Audit, release: Release) -> Drawing:
    """The paper's Figure 1, a panel for each pair: DP-Gap and Δ PCER by the gap over the budgets.

    Settings whose gaps are below the floor in most seeds are shaded, as in the paper.
    Beside Δ PCER stands what it would be if nothing were memorised; it is filled only
    where it is beyond that.
    """
    names = [
        pair_name(pair.groups)
        for pair in audit.budgets[0].pairs[: background.MOST_PAIRS]
    ]
    labels = background.setting_labels(audit)
    rows = []
    for budget, pair, published in background.pair_rows(audit):
        setting = labels[audit.budgets.index(budget)]
        shares = dict[float, float | None]()
        shares |= {row.floor: row.floor_dominated_share for row in published.floors}
        is_floored = (shares.get(audit.plan.floor) or 0.0) > 0.5
        at = {"setting": setting, "pair": pair_name(pair.groups), "floored": is_floored}
        gap = budget.demographic_parity_gap
        found = published.pcer_disparity
        for name, mean, ends, filled in (
            (PARITY, gap.mean, gap.ci, True),
            (DISPARITY, found.mean, found.ci, found.is_beyond_null is True),
            (NULL, found.null_mean, found.null_interval, False),
        ):
            rows.append(at | {"series": name, "filled": filled} | _interval(mean, ends))
    # Vega-Lite has no panels of two axes by a field, so each pair is a separate chart.
    panels = []
    for name in names:
        base = alt.Chart(ROWS).transform_filter(f"datum.pair == {json.dumps(name)}")
        shade = base.transform_filter("datum.floored").mark_rect(color=FLOORED)
        right = alt.layer(*(_curve(audit, base, each) for each in (NULL, DISPARITY)))
        layers = alt.layer(
            shade.encode(x=_settings_axis(audit)), _curve(audit, base, PARITY), right
        ).resolve_scale(y="independent")
        title = alt.TitleParams(name, subtitle=READING)
        panels.append(layers.properties(width=WIDTH, height=HEIGHT, title=title))
    chart = alt.concat(*panels, columns=2) if len(panels) > 1 else panels[0]
    return (
        chart,
        rows,
        "Parity gap and Δ PCER with intervals, and Δ PCER if nothing were memorised",
    )


def _curve(audit: Audit, base: alt.Chart, series: str) -> AnyChart:
    """Means joined by a line, with intervals; the curves stand a little apart."""
    side = "left" if series == PARITY else "right"
    colours, shapes, shifts = (
        {name: look[k] for name, look in CURVES.items()} for k in range(3)
    )
    colour: Any = colours[series]
    shift: dict[str, Any] = {"xOffset": shifts[series]}
    base = base.transform_filter(f"datum.series == '{series}' && isValid(datum.mean)")
    title = PARITY if series == PARITY else DISPARITY
    ink: Any = colours[title]
    axis = alt.Axis(
        title=title,
        titleColor=ink,
        labelColor=ink,
        orient=side,  # type: ignore[arg-type]
        grid=False,
    )
    x = _settings_axis(audit)
    low = alt.Y("low:Q")
    y = alt.Y("mean:Q", axis=axis, scale=alt.Scale(zero=True))
    look: dict[str, Any] = {"title": None, "legend": legend()}
    scale = alt.Scale(domain=list(CURVES), range=list(colours.values()))
    marks = alt.Scale(domain=list(CURVES), range=list(shapes.values()))
    return alt.layer(
        base.mark_rule(color=ink, strokeDash=[3, 3]).encode(y=alt.datum(0)),
        base.mark_line(color=colour, strokeWidth=1.2, **shift).encode(x=x, y=y),
        base.mark_rule(color=colour, strokeWidth=1.5, **shift).encode(
            x=x, y=low, y2="high:Q"
        ),
        base.mark_point(
            filled=True, size=60, strokeWidth=1.6, opacity=1, **shift
        ).encode(
            x=x,
            y=y,
            color=alt.Color("series:N", scale=scale, **look),
            stroke=alt.Stroke("series:N", scale=scale, **look),
            shape=alt.Shape("series:N", scale=marks, **look),
            fillOpacity=alt.when("datum.filled")
            .then(alt.value(1))
            .otherwise(alt.value(0)),
        ),
    )


def costs_chart(audit: Audit, release: Release) -> Drawing | None:
    """Exposure with intervals, a panel for every attack that the release carries."""
    rows = [
        {"setting": setting, "group": isolated(group), "attack": proxy.label}
        | _interval(value, interval)
        for setting, proxy, group, value, interval in attacks_module.cost_estimates(
            audit, release
        )
    ]
    if not rows:
        return None
    places = background.shown_groups(audit)
    names = [isolated(audit.subject.groups[g]) for g in places]
    shapes = alt.Scale(domain=names, range=[SHAPES[g % len(SHAPES)] for g in places])
    look: dict[str, Any] = {"title": None, "legend": legend()}
    colour = alt.Color("group:N", scale=series(names, places), **look)
    stroke = alt.Stroke("group:N", scale=series(names, places), **look)
    at = {"x": _settings_axis(audit), "xOffset": alt.XOffset("group:N", sort=names)}
    axis = alt.Axis(labelExpr=HUNDREDTHS, tickCount=5)
    low = alt.Y("low:Q", title="hundredths of its unit, above chance", axis=axis)
    shape = alt.Shape("group:N", scale=shapes, **look)
    mean = alt.Y("mean:Q")
    base = alt.Chart()
    layers = alt.layer(
        base.mark_rule(style="zero").encode(y=alt.datum(0)),
        base.mark_rule(style="interval").encode(y=low, y2="high:Q", color=colour, **at),
        base.mark_point(style="point").encode(
            y=mean, color=colour, stroke=stroke, shape=shape, **at
        ),
        data=ROWS,
    )
    what = "Exposure with intervals"
    attacks = list(dict.fromkeys(r["attack"] for r in rows))
    if len(attacks) == 1:
        return layers.properties(width=WIDTH, height=HEIGHT), rows, what
    width = CELL if len(audit.budgets) <= MOST_LABELS // 3 else 2 * CELL
    facet = alt.Facet("attack:N", title=None, sort=attacks)
    chart = layers.properties(width=width, height=CELL).facet(facet=facet, columns=3)
    return chart.resolve_scale(y="independent"), rows, what


# By the name of their file, in reading order.
CHARTS: dict[str, Callable[[Audit, Release], Drawing | None]] = {
    "figure1": figure1,
    "costs": costs_chart,
}


def _interval(mean: float | None, ci: tuple[float, float] | None) -> dict[str, Any]:
    low, high = ci or (None, None)
    return {"mean": mean, "low": low, "high": high}


def _settings_axis(audit: Audit) -> alt.X:
    """Settings in ascending order, no-DP last."""
    labels = background.setting_labels(audit)
    many = any(budget.model is not None for budget in audit.budgets)
    crowded = len(labels) > MOST_LABELS
    axis = alt.Axis(
        labelAngle=-90 if many else 0, labelOverlap=crowded, labelLimit=LONGEST_LABEL
    )
    title = "model and privacy budget ε" if many else "privacy budget ε"
    return alt.X("setting:N", title=title, sort=labels, axis=axis)


def outlook_spec(outlook: Outlook) -> Spec:
    """The curve over splits: a specification with its rows in it."""
    outlook = as_shown(outlook)
    rows = [
        rounded({"splits": point.n_splits, "line": line, "amount": amount})
        for point in outlook.over_splits
        for line, amount in _curves(outlook, point)
        if amount is not None
    ]
    names = list(dict.fromkeys(row["line"] for row in rows))
    x = alt.X(
        "splits:Q", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~g")
    )
    title = "smallest that would be shown, in 100"
    log = alt.Scale(type="log")
    axis = alt.Axis(labelExpr="format(100 * datum.value, '~g')", tickCount=5)
    y = alt.Y("amount:Q", title=title, scale=log, axis=axis)
    look: dict[str, Any] = {"title": None, "legend": legend()}
    colour = alt.Color("line:N", scale=series(names), **look)
    # Exposures are whole lines and differences broken ones, so that no colour is
    # needed.
    dashes = [[5, 3] if name.startswith("difference") else [1, 0] for name in names]
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), **look)
    base = alt.Chart(alt.NamedData(OUTLOOK))
    own = base.transform_filter(f"datum.splits == {outlook.n_splits:g}")
    chart = alt.layer(
        base.mark_line(style="path").encode(x=x, y=y, color=colour, strokeDash=dash),
        base.mark_point(style="point").encode(x=x, y=y, color=colour),
        own.transform_aggregate(splits="max(splits)")
        .mark_rule(style="chosen")
        .encode(x=x),
    ).properties(width=WIDTH, height=WIDTH * 3 // 5)
    return _described(
        chart, f"{outlook.title}. {' '.join(outlook.sentences)}", {OUTLOOK: rows}
    )


def draw_outlook(outlook: Outlook) -> dict[str, bytes]:
    """The picture in every format, by file name."""
    return {
        f"{OUTLOOK}.{kind}": data for kind, data in drawn(outlook_spec(outlook)).items()
    }


def _curves(outlook: Outlook, point: OutlookPoint) -> list[tuple[str, Any]]:
    if len(outlook.groups) + len(outlook.pairs) > MOST_LINES:
        return list(zip((EVERY, ANY), hardest(point), strict=True))
    both = [listed([isolated(name) for name in pair.groups]) for pair in outlook.pairs]
    return [
        *(
            (f"exposure, {isolated(name)}", amount)
            for name, amount in point.exposure.items()
        ),
        *((f"difference, {b}", x) for b, x in zip(both, point.difference, strict=True)),
    ]
