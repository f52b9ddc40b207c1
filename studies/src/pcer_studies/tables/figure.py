"""How is the paper's Figure 1 drawn from the study?

Two panels show the outcome gap and the disparity against the budget. ``tables.folder``
writes it as SVG and PNG.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pcer.measuring.verdict import Verdict
from pcer.report.figures import OLIVE, PURPLE, Spec, complete, drawn
from pcer_studies import protocol
from pcer_studies.numbers import our_number
from pcer_studies.protocol import BUDGETS, Configuration, budget_label
from pcer_studies.published import key_at
from pcer_studies.results import Study

if TYPE_CHECKING:
    import altair as alt

PANELS = (("a", "adult", "race"), ("b", "compas", "race"))
WIDTH = 340
HEIGHT = 250
APART = 4
"""By how many pixels the points of either axis stand beside their budget."""
SHADED = 0.1
"""The budget that the paper shades as floor-dominated."""

ORDER = (*sorted(epsilon for epsilon in BUDGETS if not math.isinf(epsilon)), math.inf)
PARITY, DISPARITY = "DP-Gap (left axis)", "PCER disparity (right axis)"
NONE_DETECTED = "PCER disparity, nothing detected"
MARKS = {
    PARITY: (PURPLE, "circle"),
    DISPARITY: (OLIVE, "circle"),
    NONE_DETECTED: (OLIVE, "cross"),
}


def figure1(study: Study) -> dict[str, bytes]:
    """``figure1.svg`` and ``figure1.png``; nothing if neither panel's data were run."""
    spec = figure_spec(study)
    if spec is None:
        return {}
    pictures = drawn(spec)
    return {f"figure1.{kind}": pictures[kind] for kind in ("svg", "png")}


def figure_spec(study: Study) -> Spec | None:
    """The complete specification with its rows."""
    panels = []
    rows = {}
    for mark, dataset, attribute in PANELS:
        if study.has(dataset, attribute):
            configuration = protocol.configuration(dataset, attribute)
            name = f"panel-{mark}"
            panels.append(_panel(name, f"({mark}) {configuration.name}"))
            rows[name] = _rows(study, configuration)
    if not panels:
        return None
    return complete({"hconcat": panels, "spacing": 40}, rows)


def _rows(study: Study, configuration: Configuration) -> list[dict[str, Any]]:
    """Two rows a budget: the outcome gap and the disparity, each with its interval."""
    rows = []
    for epsilon in ORDER:
        verdict = study.budget(*configuration.key, epsilon).verdict
        is_undetected = verdict is Verdict.NONE_DETECTED
        quantities = {
            PARITY: "demographic_parity_gap",
            NONE_DETECTED if is_undetected else DISPARITY: "pcer_disparity",
        }
        for series, quantity in quantities.items():
            number = our_number(study, key_at(configuration, epsilon, quantity))
            low, high = number.ci or (None, None)
            rows.append(
                {
                    "budget": budget_label(epsilon),
                    "axis": "left" if series == PARITY else "right",
                    "series": series,
                    "mean": number.value,
                    "low": low,
                    "high": high,
                }
            )
    return rows


def _panel(name: str, title: str) -> Spec:
    """Two vertical axes over one axis of budgets."""
    import altair as alt

    shade = (
        alt.Chart(alt.NamedData(name))
        .transform_filter(
            f"datum.budget == '{budget_label(SHADED)}' && datum.axis == 'left'"
        )
        .mark_rect(color="#fff3bf")
        .encode(x=_budgets())
    )
    layers = alt.layer(
        shade,
        _curve(name, "left", "DP-Gap", PURPLE),
        _curve(name, "right", "PCER disparity", OLIVE),
    ).resolve_scale(y="independent")
    chart = layers.properties(width=WIDTH, height=HEIGHT, title=title)
    spec: Spec = chart.to_dict(validate=False)
    return {
        key: value for key, value in spec.items() if key not in ("config", "$schema")
    }


def _budgets() -> alt.X:
    import altair as alt

    axis = alt.Axis(labelAngle=0)
    return alt.X(
        "budget:N", title="ε", sort=[budget_label(e) for e in ORDER], axis=axis
    )


def _curve(
    name: str, side: Literal["left", "right"], title: str, colour: str
) -> alt.LayerChart | alt.FacetChart:
    """Means joined by a line, with intervals; the two sides stand a little apart."""
    import altair as alt

    base = alt.Chart(alt.NamedData(name)).transform_filter(f"datum.axis == '{side}'")
    axis = alt.Axis(
        title=title,
        titleColor=colour,
        labelColor=colour,
        orient=side,
        grid=False,
    )
    y = alt.Y("mean:Q", axis=axis, scale=alt.Scale(zero=True))
    offset = -APART if side == "left" else APART
    look: dict[str, Any] = {"color": colour, "xOffset": offset}
    zero = base.mark_rule(color=colour, strokeDash=[3, 3], strokeWidth=0.8)
    line = base.mark_line(strokeWidth=1.2, **look)
    interval = base.transform_filter("isValid(datum.low)").mark_rule(
        strokeWidth=1.5, **look
    )
    points = base.mark_point(filled=True, size=60, opacity=1, xOffset=offset)
    return alt.layer(
        zero.encode(y=alt.datum(0)),
        line.encode(x=_budgets(), y=y),
        interval.encode(x=_budgets(), y=alt.Y("low:Q"), y2="high:Q"),
        points.encode(x=_budgets(), y=y, **_series_marks()),
    )


def _series_marks() -> dict[str, Any]:
    """Colour and shape of every series, with one legend."""
    import altair as alt

    names = list(MARKS)
    colours = [colour for colour, _ in MARKS.values()]
    shapes = [shape for _, shape in MARKS.values()]
    legend = alt.Legend(orient="bottom", title=None, labelLimit=220, columns=1)
    colour_scale = alt.Scale(domain=names, range=colours)
    shape_scale = alt.Scale(domain=names, range=shapes)
    return {
        "color": alt.Color("series:N", scale=colour_scale, legend=legend),
        "shape": alt.Shape("series:N", scale=shape_scale, legend=legend),
    }
