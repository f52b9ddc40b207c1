"""The figures of the findings: every verdict, found beside allowed, gaps against noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pcer.measuring.verdict import Verdict
from pcer.report.figures import Spec, complete, drawn, legend, series
from pcer.report.pictures.axis import LIGHT
from pcer_studies.claims.facts import GapRow, SettingRow, standing_out_from
from pcer_studies.claims.noise import CLIPPED_MEAN, CLIPPED_STD
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, SEEDS, budget_label

if TYPE_CHECKING:
    import altair as alt

ChartRow = dict[str, Any]
NORMAL_95 = 1.96
TITLE = "AUC − ½"
BUDGET_LABELS = [budget_label(e) for e in sorted(BUDGETS)]
SMALL_CELL, LOW_CELL = 150, 110
PUBLISHED, OURS = "published", "ours"
MATRIX_CELL, ROW_HEIGHT = 76, 26
SIGNAL = {True: "told from chance", False: "within chance"}
LOWEST_RATIO = 0.5
VERDICT_COLOURS = {
    Verdict.DOUBLE_DISADVANTAGE: "#7a1f3d",
    Verdict.EXPOSURE_DIFFERS: "#b3475f",
    Verdict.RATIO_DIFFERS: LIGHT["series-1"],
    Verdict.EQUAL_WITHIN_MARGIN: LIGHT["series-3"],
    Verdict.NO_DIFFERENCE_SHOWN: LIGHT["band"],
    Verdict.FLOOR_DOMINATED: LIGHT["series-4"],
    Verdict.NONE_DETECTED: LIGHT["shade"],
    Verdict.INSUFFICIENT_DATA: "white",
}
GROUPS = list(dict.fromkeys(name for one in CONFIGURATIONS for name in one.groups))
EASIER, WORSE_SERVED = "▲", "▼"
FOUND, ALLOWED = "found by LiRA", "allowed by training"


def finding_figures(
    gaps: Sequence[GapRow], settings: Sequence[SettingRow]
) -> dict[str, bytes]:
    """SVG files by name; a figure without rows is left out."""
    rows = {
        "findings-verdicts": verdict_cells(settings),
        "findings-allowed": allowed_points(settings),
        "findings-gaps": gap_points(gaps),
    }
    draw = {
        "findings-verdicts": _verdict_spec,
        "findings-allowed": _allowed_spec,
        "findings-gaps": _gap_spec,
    }
    return {
        f"{name}.svg": drawn(complete(draw[name](found), {"rows": found}))["svg"]
        for name, found in rows.items()
        if found
    }


def has_allowed(row: SettingRow) -> bool:
    """Whether what was found and what training allows stand on one scale for both groups."""
    known = all(
        g.allowed is not None and math.isfinite(g.found + g.error) for g in row.groups
    )
    return row.private and row.on_attack_scale and known


def gap_points(gaps: Sequence[GapRow]) -> list[ChartRow]:
    """Two rows per gap: the published one and ours, over its noise level if it has one."""
    rows = []
    for row in gaps:
        published = row.published
        panel = f"{row.configuration.name}: {row.group}"
        for name, gap, noise, signal in (
            (PUBLISHED, published.value, published.noise_level, published.stands_out),
            (OURS, row.gap, row.noise_level, row.resolved),
        ):
            if noise:
                point = {"source": name, "ratio": gap / noise, "signal": SIGNAL[signal]}
                rows.append(_at(row.epsilon, panel=panel, **point))
    return rows


def allowed_points(settings: Sequence[SettingRow]) -> list[ChartRow]:
    """Two rows per group and private setting: what was found, and what training allows."""
    rows = []
    for row in settings:
        for g, group in enumerate(row.groups if has_allowed(row) else ()):
            at = {"panel": row.title, "group": group.name, "place": g}
            low, high = (
                group.found + sign * NORMAL_95 * group.error for sign in (-1, 1)
            )
            rows.append(
                _at(
                    row.epsilon, **at, kind=FOUND, value=group.found, low=low, high=high
                )
            )
            rows.append(_at(row.epsilon, **at, kind=ALLOWED, value=group.allowed))
    return rows


def verdict_cells(settings: Sequence[SettingRow]) -> list[ChartRow]:
    """One row per setting: the verdict and both answers."""
    return [
        _at(row.epsilon, setting=row.title, verdict=row.verdict.words, told=_told(row))
        for row in settings
    ]


def _told(row: SettingRow) -> str:
    """Who is easier to recognise, and who is worse served, each behind its triangle."""
    names = dict(zip(row.configuration.groups, row.configuration.short, strict=True))
    if row.easier and row.easier == row.worse_served:
        return f"{EASIER}{WORSE_SERVED}{names[row.easier]}"
    answers = ((EASIER, row.easier), (WORSE_SERVED, row.worse_served))
    return " ".join(f"{mark}{names[name]}" for mark, name in answers if name)


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
        once.mark_rect(style="shade").encode(
            y=alt.datum(1 - half), y2=alt.datum(1 + half)
        ),
        once.mark_rule(style="zero").encode(y=alt.datum(1)),
        once.mark_rule(style="chosen").encode(
            y=alt.datum(standing_out_from(len(rows) // 2))
        ),
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
    """A circle for what is told from chance, a cross for what does not."""
    import altair as alt

    scale = alt.Scale(domain=list(SIGNAL.values()), range=["circle", "cross"])
    return alt.Shape("signal:N", title=None, scale=scale, legend=legend())


def _panels_of_groups() -> list[str]:
    return [f"{one.name}: {name}" for one in CONFIGURATIONS for name in one.groups]


def _allowed_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    x = _budgets()
    offset = alt.XOffset("place:N")
    names = [name for name in GROUPS if name in {row["group"] for row in rows}]
    colour = alt.Color("group:N", title=None, scale=series(names), legend=legend())
    scale = alt.Scale(type="symlog", constant=0.01, domain=[-0.01, 0.5], clamp=True)
    axis = alt.Axis(
        values=[0, 0.01, 0.03, 0.1, 0.3, 0.5], format="~g", labelOverlap=False
    )
    y, low = (
        alt.Y(f"{name}:Q", title=TITLE, scale=scale, axis=axis)
        for name in ("value", "low")
    )
    kind = alt.Scale(domain=[FOUND, ALLOWED], range=["circle", "triangle-down"])
    found = f"datum.kind === '{FOUND}'"
    layers = alt.layer(
        alt.Chart()
        .transform_aggregate(n="count()")
        .mark_rule(style="zero")
        .encode(y=alt.datum(0)),
        alt.Chart()
        .transform_filter(found)
        .mark_rule(style="interval")
        .encode(x=x, xOffset=offset, y=low, y2="high:Q", color=colour),
        alt.Chart()
        .mark_point(style="mean", size=46)
        .encode(
            x=x,
            xOffset=offset,
            y=y,
            color=colour,
            shape=alt.Shape("kind:N", title=None, scale=kind, legend=legend()),
        ),
        data=alt.NamedData("rows"),
    )
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    size = {"width": SMALL_CELL + 60, "height": SMALL_CELL}
    return _facets(layers, panels, columns=3, size=size)


def _verdict_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    there = {row["verdict"] for row in rows}
    shown = {
        v.words: colour for v, colour in VERDICT_COLOURS.items() if v.words in there
    }
    colour = alt.Color(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=list(shown), range=list(shown.values())),
        legend=legend(),
    )
    alarm = " || ".join(f"datum.verdict === '{v.words}'" for v in Verdict if v.is_alarm)
    ink = alt.condition(alarm, alt.value("white"), alt.value("#1b2733"))
    titles = list(dict.fromkeys(row["setting"] for row in rows))
    y = alt.Y("setting:N", title=None, sort=titles, axis=alt.Axis(labelLimit=260))
    layers = alt.layer(
        alt.Chart()
        .mark_rect(stroke="white", strokeWidth=2)
        .encode(x=_budgets(), y=y, color=colour),
        alt.Chart()
        .mark_text(fontSize=12)
        .encode(x=_budgets(), y=y, text="told:N", color=ink),
        data=alt.NamedData("rows"),
    ).properties(width=MATRIX_CELL * len(BUDGETS), height=ROW_HEIGHT * len(titles))
    spec: Spec = layers.to_dict(validate=False)
    return {
        key: value for key, value in spec.items() if key not in ("config", "$schema")
    }


def _budgets() -> alt.X:
    import altair as alt

    axis = alt.Axis(labelAngle=0, labelOverlap=False)
    return alt.X("budget:N", title="privacy budget ε", sort=BUDGET_LABELS, axis=axis)


def _facets(
    layers: alt.LayerChart | alt.FacetChart,
    names: Sequence[str],
    *,
    columns: int,
    size: dict[str, int] | None = None,
) -> Spec:
    """A panel for every name, in this order."""
    import altair as alt

    cells = layers.properties(
        **(size or {"width": SMALL_CELL + 40, "height": LOW_CELL})
    )
    chart = cells.facet(
        facet=alt.Facet("panel:N", title=None, sort=list(names)), columns=columns
    )
    spec: Spec = chart.to_dict(validate=False)
    return {
        key: value for key, value in spec.items() if key not in ("config", "$schema")
    }
