"""The three figures of the findings: gaps against noise, exposure by group, verdicts by cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pcer.auditing import Verdict
from pcer.release import proxies
from pcer.report import Spec, complete, drawn, legend, series
from pcer_studies.evidence_table import COSTS, CostRow, GapRow, standing_out_from
from pcer_studies.noise import CLIPPED_MEAN, CLIPPED_STD
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, SEEDS, budget_label

if TYPE_CHECKING:
    import altair as alt

ChartRow = dict[str, Any]
NORMAL_95 = 1.96
BUDGET_LABELS = [budget_label(e) for e in sorted(BUDGETS)]
SMALL_CELL, LOW_CELL = 150, 110
PUBLISHED, OURS = "published", "ours"
MATRIX_CELL = 34
SIGNAL = {True: "stands out from split luck", False: "does not"}
LOWEST_RATIO = 0.5
VERDICT_COLOURS = {
    Verdict.DISPARITY_SHOWN: "var(--series-1)",
    Verdict.NO_DISPARITY_SHOWN: "var(--band)",
    Verdict.FLOOR_DOMINATED: "var(--series-4)",
    Verdict.NOT_RESOLVED: "var(--shade)",
    Verdict.INSUFFICIENT_DATA: "white",
}
GROUPS = list(dict.fromkeys(name for one in CONFIGURATIONS for name in one.groups))
EXPOSURE_COST = proxies.PAIRED_CONFIDENCE.name


def finding_figures(gaps: Sequence[GapRow], costs: Sequence[CostRow]) -> dict[str, bytes]:
    """SVG files by name; a figure without rows is left out."""
    rows = {
        "findings-gaps": gap_points(gaps),
        "findings-exposure": exposure_points(costs),
        "findings-verdicts": verdict_cells(costs),
    }
    draw = {
        "findings-gaps": _gap_spec,
        "findings-exposure": _exposure_spec,
        "findings-verdicts": _verdict_spec,
    }
    return {
        f"{name}.svg": drawn(complete(draw[name](found), {"rows": found}))["svg"]
        for name, found in rows.items()
        if found
    }


def gap_points(gaps: Sequence[GapRow]) -> list[ChartRow]:
    """Two rows per gap: the published one and ours, over its noise level if it has one."""
    rows = []
    for row in gaps:
        published, panel = row.published, f"{row.configuration.name}: {row.group}"
        for name, gap, noise, signal in (
            (PUBLISHED, published.value, published.noise_level, published.stands_out),
            (OURS, row.gap, row.noise_level, row.resolved),
        ):
            if noise:
                point = {"source": name, "ratio": gap / noise, "signal": SIGNAL[signal]}
                rows.append(_at(row.epsilon, panel=panel, **point))
    return rows


def exposure_points(costs: Sequence[CostRow]) -> list[ChartRow]:
    """One row per group and budget: what being trained on changes, with its interval."""
    return [
        _at(
            row.epsilon,
            panel=row.configuration.name,
            group=name,
            value=row.value[g],
            low=row.value[g] - NORMAL_95 * row.error[g],
            high=row.value[g] + NORMAL_95 * row.error[g],
            signal=SIGNAL[row.resolved[g]],
            place=g,
        )
        for row in costs
        if row.cost == EXPOSURE_COST
        for g, name in enumerate(row.configuration.groups)
        if math.isfinite(row.value[g]) and math.isfinite(row.error[g])
    ]


def verdict_cells(costs: Sequence[CostRow]) -> list[ChartRow]:
    """One row per setting and cost: the verdict, and who is the more exposed."""
    return [
        _at(
            row.epsilon,
            panel=COSTS[row.cost],
            setting=row.configuration.name,
            verdict=row.verdict.words,
            told=_told(row),
        )
        for row in costs
    ]


def _told(row: CostRow) -> str:
    names = dict(zip(row.configuration.groups, row.configuration.short, strict=True))
    exposed = names[row.more_exposed] if row.more_exposed else ""
    return f"{exposed}●" if row.double else exposed


def _at(epsilon: float, **fields: Any) -> ChartRow:
    return {"budget": budget_label(epsilon), **fields}


def _gap_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    half = NORMAL_95 * CLIPPED_STD / CLIPPED_MEAN / len(SEEDS) ** 0.5
    ends = [min(LOWEST_RATIO, *_ratios(rows)), max(_ratios(rows)) * 1.2]
    scale = alt.Scale(type="log", domain=ends, nice=False)
    axis = alt.Axis(values=[0.5, 1, 2, 5, 10, 20, 40], format="~g")
    y = alt.Y("ratio:Q", title="mean gap ÷ noise level", scale=scale, axis=axis)
    once = alt.Chart().transform_aggregate(n="count()")
    layers = alt.layer(
        once.mark_rect(style="shade").encode(y=alt.datum(1 - half), y2=alt.datum(1 + half)),
        once.mark_rule(style="zero").encode(y=alt.datum(1)),
        once.mark_rule(style="chosen").encode(y=alt.datum(standing_out_from(len(rows) // 2))),
        alt.Chart()
        .mark_point(style="mean", size=40)
        .encode(
            x=_budgets(),
            xOffset=alt.XOffset("source:N", sort=[PUBLISHED, OURS]),
            y=y,
            color=alt.Color(
                "source:N", title=None, scale=series([PUBLISHED, OURS]), legend=legend()
            ),
            shape=_signal_shape(),
        ),
        data=alt.NamedData("rows"),
    )
    return _facets(layers, _panels_of_groups(), columns=4)


def _ratios(rows: Sequence[ChartRow]) -> list[float]:
    return [row["ratio"] for row in rows]


def _signal_shape() -> alt.Shape:
    """A circle for what stands out from split luck, a cross for what does not."""
    import altair as alt

    scale = alt.Scale(domain=list(SIGNAL.values()), range=["circle", "cross"])
    return alt.Shape("signal:N", title=None, scale=scale, legend=legend())


def _panels_of_groups() -> list[str]:
    return [f"{one.name}: {name}" for one in CONFIGURATIONS for name in one.groups]


def _exposure_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    x, offset = _budgets(), alt.XOffset("place:N")
    names = [name for name in GROUPS if name in {row["group"] for row in rows}]
    colour = alt.Color("group:N", title=None, scale=series(names), legend=legend())
    layers = alt.layer(
        alt.Chart().transform_aggregate(n="count()").mark_rule(style="zero").encode(y=alt.datum(0)),
        alt.Chart()
        .mark_rule(style="interval")
        .encode(x=x, xOffset=offset, y=alt.Y("low:Q", title="exposure"), y2="high:Q", color=colour),
        alt.Chart()
        .mark_point(style="mean", size=40)
        .encode(x=x, xOffset=offset, y=alt.Y("value:Q"), color=colour, shape=_signal_shape()),
        data=alt.NamedData("rows"),
    )
    panels = [one.name for one in CONFIGURATIONS]
    return _facets(layers, panels, columns=3, independent={"y": "independent"})


def _verdict_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    there = {row["verdict"] for row in rows}
    shown = {v.words: colour for v, colour in VERDICT_COLOURS.items() if v.words in there}
    colour = alt.Color(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=list(shown), range=list(shown.values())),
        legend=legend(),
    )
    y = alt.Y("setting:N", title=None, sort=[one.name for one in CONFIGURATIONS])
    layers = alt.layer(
        alt.Chart().mark_rect(stroke="white").encode(x=_budgets(), y=y, color=colour),
        alt.Chart().mark_text(fontSize=11).encode(x=_budgets(), y=y, text="told:N"),
        data=alt.NamedData("rows"),
    )
    size = {"width": MATRIX_CELL * len(BUDGETS), "height": 20 * len(CONFIGURATIONS)}
    return _facets(layers, list(COSTS.values()), columns=2, size=size)


def _budgets() -> alt.X:
    import altair as alt

    axis = alt.Axis(labelAngle=0, labelOverlap=False)
    return alt.X("budget:N", title="privacy budget ε", sort=BUDGET_LABELS, axis=axis)


def _facets(
    layers: alt.LayerChart | alt.FacetChart,
    names: Sequence[str],
    *,
    columns: int,
    independent: dict[str, str] | None = None,
    size: dict[str, int] | None = None,
) -> Spec:
    """A panel for every name, in this order."""
    import altair as alt

    cells = layers.properties(**(size or {"width": SMALL_CELL + 40, "height": LOW_CELL}))
    chart = cells.facet(facet=alt.Facet("panel:N", title=None, sort=list(names)), columns=columns)
    spec: Spec = chart.to_dict(validate=False)
    if independent:
        spec["resolve"] = {"scale": independent}
    return {key: value for key, value in spec.items() if key not in ("config", "$schema")}
