"""How are the findings drawn? Every verdict, found beside allowed, gaps over noise.

Called by ``findings``. Each figure has its rows (plain data) and a chart that draws
them. To add a figure: both, and a row in ``finding_figures``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
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
FIGURES = "figures"
"""Folder of the figures, beside the page."""
NORMAL_95 = 1.96
TITLE = "AUC − ½"
BUDGET_LABELS = [budget_label(epsilon) for epsilon in sorted(BUDGETS)]
GAP_PANEL = {"width": 190, "height": 110}
ALLOWED_PANEL = {"width": 210, "height": 150}
MATRIX_CELL = 76
ROW_HEIGHT = 26
PUBLISHED = "published"
OURS = "ours"
SIGNAL = {True: "told from chance", False: "within chance"}
LOWEST_RATIO = 0.5
"""Where the axis of gaps begins, at least."""
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
GROUPS = [*dict.fromkeys(chain.from_iterable(one.groups for one in CONFIGURATIONS))]
EASIER = "▲"
WORSE_SERVED = "▼"
FOUND = "found by LiRA"
ALLOWED = "allowed by training"


def finding_figures(
    gaps: Sequence[GapRow], settings: Sequence[SettingRow]
) -> dict[str, bytes]:
    """SVG files by name; a figure without rows is left out."""
    figures = (
        ("findings-verdicts.svg", verdict_cells(settings), _verdict_spec),
        ("findings-allowed.svg", allowed_points(settings), _allowed_spec),
        ("findings-gaps.svg", gap_points(gaps), _gap_spec),
    )
    drawings = {}
    for name, rows, make_spec in figures:
        if rows:
            spec = complete(make_spec(rows), {"rows": rows})
            drawings[name] = drawn(spec)["svg"]
    return drawings


def has_allowed(row: SettingRow) -> bool:
    """Whether found and allowed stand on one scale for both groups of a setting."""
    if not row.private or not row.on_attack_scale:
        return False
    return all(
        group.allowed is not None and math.isfinite(group.found + group.error)
        for group in row.groups
    )


# The rows of each figure.


def gap_points(gaps: Sequence[GapRow]) -> list[ChartRow]:
    """Two rows per gap, published and ours, each over its noise level if it has one."""
    points = []
    for row in gaps:
        gap = row.published
        if gap.noise_level:
            ratio = gap.value / gap.noise_level
            points.append(_gap_point(row, PUBLISHED, ratio, gap.stands_out))
        if row.noise_level:
            ratio = row.gap / row.noise_level
            points.append(_gap_point(row, OURS, ratio, row.resolved))
    return points


def _gap_point(row: GapRow, source: str, ratio: float, is_signal: bool) -> ChartRow:
    return {
        "budget": budget_label(row.epsilon),
        "panel": f"{row.configuration.name}: {row.group}",
        "source": source,
        "ratio": ratio,
        "signal": SIGNAL[is_signal],
    }


def allowed_points(settings: Sequence[SettingRow]) -> list[ChartRow]:
    """Two rows per group and private setting: what was found, and what is allowed."""
    points = []
    for row in settings:
        if not has_allowed(row):
            continue
        for place, group in enumerate(row.groups):
            shared = {
                "budget": budget_label(row.epsilon),
                "panel": row.title,
                "group": group.name,
                "place": place,
            }
            half_width = NORMAL_95 * group.error
            interval = {
                "low": group.found - half_width,
                "high": group.found + half_width,
            }
            points.append({**shared, "kind": FOUND, "value": group.found, **interval})
            points.append({**shared, "kind": ALLOWED, "value": group.allowed})
    return points


def verdict_cells(settings: Sequence[SettingRow]) -> list[ChartRow]:
    """One row per setting: the verdict and both answers.

    The drawing names the fields to screen readers.
    """
    return [
        {
            "budget": budget_label(row.epsilon),
            "setting": row.title,
            "verdict": row.verdict.words,
            "told": _answers(row),
        }
        for row in settings
    ]


def _answers(row: SettingRow) -> str:
    """Who is easier to recognise, and who is worse served, each behind its triangle."""
    configuration = row.configuration
    short = dict(zip(configuration.groups, configuration.short, strict=True))
    if row.easier and row.easier == row.worse_served:
        return f"{EASIER}{WORSE_SERVED}{short[row.easier]}"
    answers = []
    if row.easier:
        answers.append(f"{EASIER}{short[row.easier]}")
    if row.worse_served:
        answers.append(f"{WORSE_SERVED}{short[row.worse_served]}")
    return " ".join(answers)


# The chart of each figure.


def _gap_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    ratios = [row["ratio"] for row in rows]
    ends = [min(LOWEST_RATIO, *ratios), max(ratios) * 1.2]
    y = alt.Y(
        "ratio:Q",
        title="mean gap ÷ noise level",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=alt.Axis(values=[0.5, 1, 2, 5, 10, 20, 40], format="~g"),
    )
    sources = [PUBLISHED, OURS]
    colour = alt.Color("source:N", title=None, scale=series(sources), legend=legend())
    points = (
        alt.Chart()
        .mark_point(style="mean", size=40)
        .encode(
            x=_budgets(),
            xOffset=alt.XOffset("source:N", sort=sources),
            y=y,
            color=colour,
            shape=_signal_shape(),
        )
    )
    layers = alt.layer(
        *_noise_marks(n_gaps=len(rows) // 2), points, data=alt.NamedData("rows")
    )
    panels = []
    for configuration in CONFIGURATIONS:
        panels += [f"{configuration.name}: {name}" for name in configuration.groups]
    return _facets(layers, panels, columns=4, size=GAP_PANEL)


def _noise_marks(n_gaps: int) -> list[alt.Chart]:
    """Where means lie if nothing is memorised, and from where a gap stands out."""
    import altair as alt

    half_width = NORMAL_95 * CLIPPED_STD / CLIPPED_MEAN / len(SEEDS) ** 0.5
    once = alt.Chart().transform_aggregate(n="count()")
    return [
        once.mark_rect(style="shade").encode(
            y=alt.datum(1 - half_width), y2=alt.datum(1 + half_width)
        ),
        once.mark_rule(style="zero").encode(y=alt.datum(1)),
        once.mark_rule(style="chosen").encode(y=alt.datum(standing_out_from(n_gaps))),
    ]


def _signal_shape() -> alt.Shape:
    """A circle for what is told from chance, a cross for what is not."""
    import altair as alt

    scale = alt.Scale(domain=list(SIGNAL.values()), range=["circle", "cross"])
    return alt.Shape("signal:N", title=None, scale=scale, legend=legend())


def _allowed_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    x = _budgets()
    offset = alt.XOffset("place:N")
    names = {row["group"] for row in rows}
    colours = series([name for name in GROUPS if name in names])
    colour = alt.Color("group:N", title=None, scale=colours, legend=legend())
    kinds = alt.Scale(domain=[FOUND, ALLOWED], range=["circle", "triangle-down"])
    kind = alt.Shape("kind:N", title=None, scale=kinds, legend=legend())
    zero = (
        alt.Chart()
        .transform_aggregate(n="count()")
        .mark_rule(style="zero")
        .encode(y=alt.datum(0))
    )
    intervals = (
        alt.Chart()
        .transform_filter(f"datum.kind === '{FOUND}'")
        .mark_rule(style="interval")
        .encode(x=x, xOffset=offset, y=_exposure("low"), y2="high:Q", color=colour)
    )
    points = (
        alt.Chart()
        .mark_point(style="mean", size=46)
        .encode(x=x, xOffset=offset, y=_exposure("value"), color=colour, shape=kind)
    )
    layers = alt.layer(zero, intervals, points, data=alt.NamedData("rows"))
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    return _facets(layers, panels, columns=3, size=ALLOWED_PANEL)


def _exposure(field: str) -> alt.Y:
    """A field of the rows on the axis of exposures."""
    import altair as alt

    scale = alt.Scale(type="symlog", constant=0.01, domain=[-0.01, 0.5], clamp=True)
    axis = alt.Axis(
        values=[0, 0.01, 0.03, 0.1, 0.3, 0.5], format="~g", labelOverlap=False
    )
    return alt.Y(f"{field}:Q", title=TITLE, scale=scale, axis=axis)


def _verdict_spec(rows: Sequence[ChartRow]) -> Spec:
    import altair as alt

    titles = list(dict.fromkeys(row["setting"] for row in rows))
    y = alt.Y("setting:N", title=None, sort=titles, axis=alt.Axis(labelLimit=260))
    cells = (
        alt.Chart()
        .mark_rect(stroke="white", strokeWidth=2)
        .encode(x=_budgets(), y=y, color=_verdict_colour(rows))
    )
    answers = (
        alt.Chart()
        .mark_text(fontSize=12)
        .encode(x=_budgets(), y=y, text="told:N", color=_ink())
    )
    layers = alt.layer(cells, answers, data=alt.NamedData("rows"))
    size = {"width": MATRIX_CELL * len(BUDGETS), "height": ROW_HEIGHT * len(titles)}
    return _bare(layers.properties(**size))


def _verdict_colour(rows: Sequence[ChartRow]) -> alt.Color:
    """The colour of each verdict that the rows have."""
    import altair as alt

    verdicts = {row["verdict"] for row in rows}
    colours = {
        verdict.words: colour
        for verdict, colour in VERDICT_COLOURS.items()
        if verdict.words in verdicts
    }
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color("verdict:N", title=None, scale=scale, legend=legend())


def _ink() -> Any:
    """White on an alarm, which is dark, and dark on any other verdict."""
    import altair as alt

    alarms = [verdict for verdict in Verdict if verdict.is_alarm]
    test = " || ".join(f"datum.verdict === '{verdict.words}'" for verdict in alarms)
    return alt.condition(test, alt.value("white"), alt.value("#1b2733"))


def _budgets() -> alt.X:
    import altair as alt

    axis = alt.Axis(labelAngle=0, labelOverlap=False)
    return alt.X("budget:N", title="privacy budget ε", sort=BUDGET_LABELS, axis=axis)


def _facets(
    layers: alt.LayerChart | alt.FacetChart,
    names: Sequence[str],
    *,
    columns: int,
    size: dict[str, int],
) -> Spec:
    """A panel for every name, in this order."""
    import altair as alt

    facet = alt.Facet("panel:N", title=None, sort=list(names))
    return _bare(layers.properties(**size).facet(facet=facet, columns=columns))


def _bare(chart: alt.LayerChart | alt.FacetChart) -> Spec:
    """A chart as plain data, without what every figure has in common."""
    spec: Spec = chart.to_dict(validate=False)
    common = ("config", "$schema")
    return {key: value for key, value in spec.items() if key not in common}
