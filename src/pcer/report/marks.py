"""What charts are made of: colours by role, axes, legends, panels, the look of marks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pcer.auditing import Audit
from pcer.report.rows import (
    budget_labels,
    isolated,
    pair_name,
    shown_groups,
    shown_pairs,
    status,
)

if TYPE_CHECKING:
    import altair as alt

Spec = dict[str, Any]

PALETTE = {
    "ink": ("#1f2933", "#e6e9ec"),
    "muted": ("#52606d", "#a9b4c0"),
    "line": ("#c9d1d9", "#3e4c59"),
    "shade": ("#eceff2", "#232d37"),
    "band": ("#c3ccd5", "#46545f"),
    "series-0": ("#0072b2", "#56b4e9"),
    "series-1": ("#c14f00", "#f0a860"),
    "series-2": ("#00805d", "#3fcf9f"),
    "series-3": ("#a8497e", "#eda3cb"),
    "series-4": ("#6f6100", "#e3d34a"),
    "series-5": ("#5d4fb3", "#b3a8f5"),
}
"""Colours by role, for light and for dark; told apart with any colour vision."""

N_SERIES = 6
CELL = 210
HEIGHT = 230
LONGEST_LABEL, MOST_LABELS = 150, 24
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down")
"""Of groups in their order, so that no chart needs colour."""
ENDS = ("mean", "low", "high")
HUNDREDTHS = "replace(format(100 * datum.value, '~g'), '-', '−')"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
SMALL = 11


def source(name: str) -> alt.Chart:
    """A chart of the rows that a page or figure carries under this name."""
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def budget_axis(audit: Audit, *, with_status: bool = False) -> alt.X:
    """Budgets in ascending order, no-DP last; below each the label that it needs, if asked."""
    import altair as alt

    labels = budget_labels(audit)
    many = any(one.model is not None for one in audit.budgets)
    words = {name: status(one).split() for name, one in zip(labels, audit.budgets, strict=True)}
    crowded = len(labels) > MOST_LABELS
    axis = alt.Axis(labelAngle=-90 if many else 0, labelOverlap=crowded, labelLimit=LONGEST_LABEL)
    if with_status:
        axis.labelExpr = f"{json.dumps(_labelled(words))}[datum.label]"
    title = "model and privacy budget ε" if many else "privacy budget ε"
    return alt.X("budget:N", title=title, sort=labels, axis=axis)


def _labelled(words: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [name, *more] for name, more in words.items()}


def hundredths(n_ticks: int = 5) -> alt.Axis:
    """An axis that counts people in 100."""
    import altair as alt

    return alt.Axis(labelExpr=HUNDREDTHS, tickCount=n_ticks)


def told(name: str, prefix: str = "") -> str:
    """An expression that says a mark in words: whose, where, how many hundredths, the interval."""
    mean, low, high = (f"format(100 * datum.{prefix}{end}, '.2~f')" for end in ENDS)
    interval = f"isValid(datum.{prefix}low) ? ' (' + {low} + ' to ' + {high} + ')' : ''"
    return f"datum.{name} + ', ' + datum.budget + ': ' + {mean} + ({interval}) + ' hundredths'"


def tip(title: str) -> alt.Tooltip:
    """What a mark says when it is pointed at."""
    import altair as alt

    return alt.Tooltip("told:N", title=title)


def facets(
    layers: alt.LayerChart | alt.FacetChart, field: str, names: Sequence[str], width: int = CELL
) -> alt.LayerChart | alt.FacetChart:
    """One panel that fills its place, or one per name."""
    import altair as alt

    if len(set(names)) < 2:
        return layers
    cells = layers.properties(width=width, height=CELL)
    facet = alt.Facet(f"{field}:N", title=None, sort=list(dict.fromkeys(names)))
    return cells.facet(facet=facet, columns=3)


def cell_width(audit: Audit) -> int:
    """Of a panel that has every setting side by side."""
    return CELL if len(audit.budgets) <= MOST_LABELS // 3 else 2 * CELL


def unchecked() -> AbstractContextManager[None]:
    """Altair does not look up every mark in its schema, which takes seconds; the tests do."""
    from altair.utils.schemapi import debug_mode

    return debug_mode(False)


def finish(chart: alt.LayerChart | alt.FacetChart, audit: Audit, description: str) -> Spec:
    """The specification: the floor as a parameter, the words, the size."""
    import altair as alt

    floor = alt.param(name="floor", value=audit.plan.floor)
    spec: Spec = chart.add_params(floor).to_dict(validate=False)
    spec = {key: value for key, value in spec.items() if key not in ("config", "$schema")}
    spec.update(description=description, background="transparent")
    if "facet" not in spec:
        spec.update(
            width="container", height=HEIGHT, autosize={"type": "fit-x", "contains": "padding"}
        )
    return spec


def group_names(audit: Audit) -> list[str]:
    """Shown groups as they are written in charts."""
    return [isolated(audit.subject.groups[g]) for g in shown_groups(audit)]


def pair_names(audit: Audit) -> list[str]:
    """Shown pairs as they are written in charts."""
    return [pair_name(pair.groups) for pair in audit.budgets[0].pairs[: len(shown_pairs(audit))]]


def series(names: Sequence[str]) -> alt.Scale:
    """A colour for every name."""
    import altair as alt

    colours = [f"var(--series-{k % N_SERIES})" for k in range(len(names))]
    return alt.Scale(domain=list(names), range=colours)


def legend() -> alt.Legend:
    """A legend above its chart, names in full."""
    import altair as alt

    return alt.Legend(orient="top", columns=2, labelLimit=150, symbolLimit=0)


def group_colour(audit: Audit) -> alt.Color:
    """Colour by group."""
    import altair as alt

    return alt.Color("group:N", title=None, scale=series(group_names(audit)), legend=legend())


def pair_style(audit: Audit) -> dict[str, Any]:
    """Colour and place of a pair where there are several; one pair needs neither."""
    import altair as alt

    names = pair_names(audit)
    if len(names) == 1:
        return {}
    colour = alt.Color("pair:N", title=None, scale=series(names), legend=legend())
    return {"color": colour, "xOffset": alt.XOffset("pair:N", sort=names)}


def pair_colour(audit: Audit) -> dict[str, Any]:
    """Colour of a pair where there are several."""
    return {key: one for key, one in pair_style(audit).items() if key == "color"}


def group_marks(audit: Audit) -> dict[str, Any]:
    """Shape and colour of a group; filled only where its cost is resolved."""
    import altair as alt

    names = group_names(audit)
    scale = alt.Scale(domain=names, range=[SHAPES[k % len(SHAPES)] for k in range(len(names))])
    return {
        "color": group_colour(audit),
        "stroke": alt.Stroke("group:N", title=None, scale=series(names), legend=legend()),
        "shape": alt.Shape("group:N", title=None, scale=scale, legend=legend()),
        "fillOpacity": alt.when("datum.resolved == 'not resolved'")
        .then(alt.value(0))
        .otherwise(alt.value(1)),
    }


def sign_shape() -> alt.Shape:
    """A triangle that points to the sign."""
    import altair as alt

    scale = alt.Scale(domain=["above 0", "below 0"], range=["triangle-up", "triangle-down"])
    return alt.Shape("sign:N", title=None, scale=scale, legend=legend())


def config() -> Spec:
    """Fonts, colours by role, and the look of every kind of mark."""
    ink, muted, line = "var(--ink)", "var(--muted)", "var(--line)"
    text = {"labelColor": ink, "titleColor": muted, "labelFontSize": SMALL, "titleFontSize": SMALL}
    return {
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "titleFontWeight": "normal",
            "gridColor": line,
            "gridOpacity": 0.6,
            "domainColor": line,
            "tickColor": line,
            "gridWidth": 0.5,
        },
        "axisX": {"grid": False},
        "legend": {
            **text,
            "symbolBaseFillColor": ink,
            "symbolBaseStrokeColor": ink,
            "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 4}},
        },
        "header": {**text, "labelFontWeight": "bold", "labelLimit": CELL},
        "style": {
            "shade": {"color": "var(--shade)"},
            "band": {"color": "var(--band)", "opacity": 0.75},
            "zero": {"color": muted, "strokeWidth": 1},
            "noise": {"color": ink, "thickness": 1.5},
            "seed": {"color": ink, "opacity": 0.28, "size": 12},
            "interval": {"color": ink, "strokeWidth": 2},
            "mean": {
                "color": ink,
                "stroke": ink,
                "strokeWidth": 0.8,
                "size": 70,
                "filled": True,
                "opacity": 1,
            },
            "point": {"color": ink, "strokeWidth": 1.8, "size": 65, "filled": True, "opacity": 1},
            "law": {"color": muted, "strokeDash": [4, 3], "strokeWidth": 1.2},
            "path": {"color": ink, "strokeWidth": 1.5},
            "chosen": {"color": muted, "strokeDash": [2, 2]},
            "way": {"strokeWidth": 1.2, "opacity": 0.55},
            "first": {"color": ink, "fontSize": SMALL, "dx": 8, "dy": -9, "align": "left"},
            "last": {"color": ink, "fontSize": SMALL, "dx": -9, "dy": -10, "align": "right"},
        },
    }
