"""What charts are made of: colours by role, axes, legends, panels, the look of marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pcer.auditing import Audit
from pcer.report.rows import (
    budget_labels,
    isolated,
    pair_name,
    shown_groups,
    shown_pairs,
    with_status,
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
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
SMALL = 11


def source(name: str) -> alt.Chart:
    """A chart of the rows that a page or figure carries under this name."""
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def budget_axis(audit: Audit) -> alt.X:
    """Budgets in ascending order, no-DP last."""
    import altair as alt

    axis = alt.Axis(labelAngle=0, labelOverlap=False)
    return alt.X("budget:N", title="privacy budget ε", sort=budget_labels(audit), axis=axis)


def facets(
    layers: alt.LayerChart | alt.FacetChart, field: str, names: Sequence[str]
) -> alt.LayerChart | alt.FacetChart:
    """One panel that fills its place, or one per name."""
    import altair as alt

    if len(set(names)) < 2:
        return layers
    cells = layers.properties(width=CELL, height=CELL)
    facet = alt.Facet(f"{field}:N", title=None, sort=list(dict.fromkeys(names)))
    return cells.facet(facet=facet, columns=3)


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


def line_colour(audit: Audit) -> alt.Color:
    """Colour by budget, its label beside it."""
    import altair as alt

    lines = [with_status(budget) for budget in audit.budgets]
    return alt.Color("line:N", title=None, scale=series(lines), legend=legend())


def pair_style(audit: Audit) -> dict[str, Any]:
    """Colour and place of a pair where there are several; one pair needs neither."""
    import altair as alt

    names = pair_names(audit)
    if len(names) == 1:
        return {}
    colour = alt.Color("pair:N", title=None, scale=series(names), legend=legend())
    return {"color": colour, "xOffset": alt.XOffset("pair:N", sort=names)}


def resolved_shape() -> alt.Shape:
    """A circle for a resolved cost, a cross for one that is not."""
    import altair as alt

    scale = alt.Scale(domain=["resolved", "not resolved"], range=["circle", "cross"])
    return alt.Shape("resolved:N", title=None, scale=scale, legend=legend())


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
            "status": {
                "color": muted,
                "fontSize": 10,
                "angle": 270,
                "align": "right",
                "baseline": "middle",
            },
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
            "law": {"strokeDash": [4, 3], "strokeWidth": 1, "opacity": 0.7},
            "path": {"strokeWidth": 1.5},
            "chosen": {"color": muted, "strokeDash": [2, 2]},
            "ratio": {"color": "var(--band)", "strokeWidth": 1},
            "ratio-label": {"color": muted, "fontSize": 9, "dy": -5},
        },
    }
