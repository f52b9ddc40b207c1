"""Vega-Lite charts through Altair, nothing drawn by hand.

A chart is a specification that names its rows (``chart_data``) and its colours: in a page the
colours are CSS variables, so that light, dark and print need no second drawing; in a figure
file they are the light ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcer.auditing import Audit
from pcer.report.marks import (
    Spec,
    budget_axis,
    facets,
    finish,
    group_colour,
    group_names,
    legend,
    line_colour,
    pair_names,
    pair_style,
    resolved_shape,
    series,
    sign_shape,
    source,
)
from pcer.report.rows import (
    OUTCOME_MEASURES,
    Datum,
    audit_floors,
    budget_labels,
    pair_name,
    shown_groups,
    shown_pairs,
    status,
    with_status,
)

if TYPE_CHECKING:
    import altair as alt

JITTER = "(datum.seed * 0.6180339887 % 1 + 1) % 1"
"""Spreads the dots of one budget over its width, the same way every time."""

ESTIMATES = (
    "cost_mean",
    "cost_low",
    "cost_high",
    "benefit_mean",
    "benefit_low",
    "benefit_high",
)


Rows = Mapping[str, list[Datum]]
"""What charts draw, by name; see ``rows.datasets``."""


@dataclass(frozen=True)
class Chart:
    """A chart with its words. ``spec`` draws rows that are not in it: add ``datasets``."""

    name: str
    title: str
    caption: str
    spec: Spec


def disparity_chart(audit: Audit, rows: Rows) -> Chart:
    """Disparity with its interval against the budget; the left half of the paper's Figure 1."""
    import altair as alt

    x = budget_axis(audit)
    y = alt.Y("mean:Q", title="PCER disparity")
    runs = _disparities(audit)
    at_floor = source("pairs").transform_filter("abs(datum.floor / floor - 1) < 1e-9")
    style = pair_style(audit)
    place = {key: value for key, value in style.items() if key == "xOffset"}
    layers = [
        *_shading(audit),
        at_floor.transform_filter("isValid(datum.null_low)")
        .mark_bar(style="band")
        .encode(x=x, **place, y=alt.Y("null_low:Q"), y2="null_high:Q"),
        alt.Chart(alt.NamedData("budgets")).mark_rule(style="zero").encode(y=alt.datum(0)),
        runs.transform_calculate(jitter=JITTER)
        .mark_circle(style="seed")
        .encode(x=x, y=alt.Y("value:Q"), **(style or {"xOffset": alt.XOffset("jitter:Q")})),
        at_floor.mark_rule(style="interval").encode(x=x, y=alt.Y("low:Q"), y2="high:Q", **style),
        runs.transform_aggregate(mean="mean(value)", groupby=["budget", "pair"])
        .mark_point(style="mean")
        .encode(x=x, y=y, **style),
    ]
    return Chart(
        "disparity",
        "Disparity against budget",
        f"{_pairs_told(audit)} Large points: mean over seeds at the chosen floor; lines: interval; "
        f"small dots: single seeds. {_shaded_told(audit)}",
        finish(
            alt.layer(*layers).resolve_scale(xOffset="independent"),
            audit,
            _told(audit, "PCER disparity with interval"),
        ),
    )


def outcome_chart(audit: Audit, rows: Rows) -> Chart:
    """Demographic parity and equalized odds gaps; the right half of the paper's Figure 1."""
    import altair as alt

    x = budget_axis(audit)
    colour = alt.Color("measure:N", title=None, scale=series(OUTCOME_MEASURES), legend=legend())
    offset = alt.XOffset("measure:N")
    shape = alt.Shape("measure:N", title=None, legend=None)
    base = source("outcomes").transform_filter("isValid(datum.mean)")
    layers = [
        base.mark_rule(style="interval").encode(
            x=x,
            xOffset=offset,
            y=alt.Y("low:Q", title="gap in outcomes"),
            y2="high:Q",
            color=colour,
        ),
        base.mark_point(style="mean").encode(
            x=x,
            xOffset=offset,
            y=alt.Y("mean:Q", scale=alt.Scale(zero=True)),
            color=colour,
            shape=shape,
        ),
    ]
    return Chart(
        "outcomes",
        "Outcome gaps against budget",
        "The same budgets by what outcome-only audits look at: the demographic parity gap and the "
        "equalized odds gap, mean over seeds with interval. No privacy cost is in them.",
        finish(alt.layer(*layers), audit, _told(audit, "Demographic parity and odds gap")),
    )


def gap_chart(audit: Audit, rows: Rows) -> Chart:
    """Each group's gap beside the gap that no memorisation at all would show."""
    import altair as alt

    x, offset = budget_axis(audit), alt.XOffset("group:N", sort=group_names(audit))
    colour = group_colour(audit)
    base = source("groups")
    layers = [
        base.transform_filter("isValid(datum.null_low)")
        .mark_bar(style="band")
        .encode(
            x=x, xOffset=offset, y=alt.Y("null_low:Q", title="overfitting gap"), y2="null_high:Q"
        ),
        base.mark_tick(style="noise").encode(x=x, xOffset=offset, y=alt.Y("noise:Q")),
        base.mark_rule(style="interval").encode(
            x=x, xOffset=offset, y=alt.Y("gap_low:Q"), y2="gap_high:Q", color=colour
        ),
        base.mark_point(style="mean").encode(
            x=x, xOffset=offset, y=alt.Y("gap_mean:Q"), color=colour, shape=resolved_shape()
        ),
    ]
    title, grey = (
        "Is there signal? Gap against noise level",
        "Grey: where it would lie if nothing was memorised, with its mean as a tick. A point "
        "inside its grey bar is no signal; a cross is a cost that is not resolved.",
    )
    if not audit.proxy.is_from_counts:
        cost = audit.proxy.label
        title = "Overfitting gap of each group"
        grey = f"The cost of this audit is another, the {cost}: a cross is one not resolved."
    return Chart(
        "gaps",
        title,
        f"Points: mean overfitting gap of each group with interval. {grey}",
        finish(alt.layer(*layers), audit, _told(audit, "Gap of each group and its null band")),
    )


def cost_chart(audit: Audit, rows: Rows) -> Chart | None:
    """Cost estimates with intervals, a panel for every proxy that the release carries."""
    proxies = list(dict.fromkeys(row["proxy"] for row in rows["proxies"]))
    if not proxies:
        return None
    import altair as alt

    x, offset = budget_axis(audit), alt.XOffset("group:N", sort=group_names(audit))
    colour = group_colour(audit)
    layers = alt.layer(
        alt.Chart().mark_rule(style="zero").encode(y=alt.datum(0)),
        alt.Chart()
        .mark_rule(style="interval")
        .encode(x=x, xOffset=offset, y=alt.Y("low:Q", title="cost"), y2="high:Q", color=colour),
        alt.Chart()
        .mark_point(style="mean")
        .encode(x=x, xOffset=offset, y=alt.Y("mean:Q"), color=colour),
        data=alt.NamedData("proxies"),
    )
    shown = facets(layers, "proxy", proxies)
    if len(proxies) > 1:
        shown = shown.resolve_scale(y="independent")
    return Chart(
        "costs",
        "Cost estimates",
        "What being in the training data changes, with the luck of the split taken off, and its "
        f"{100 * audit.plan.confidence_level:g} % interval. An interval that reaches 0 or below "
        "is compatible with no memorisation.",
        finish(shown, audit, _told(audit, "Cost estimates with intervals")),
    )


def floor_chart(audit: Audit, rows: Rows) -> Chart:
    """Size of the disparity against the floor on logarithmic axes, a line per budget."""
    import altair as alt

    floors = audit_floors(audit.plan)
    ticks = alt.Axis(format="~g", values=floors)
    scale = alt.Scale(type="log", domain=[min(floors) / 1.2, max(floors) * 1.2], nice=False)
    x = alt.X("floor:Q", title="floor", scale=scale, axis=ticks)
    powers = alt.Axis(format="~g", values=[10.0**power for power in range(-6, 7)])
    y = alt.Y("size:Q", title="|PCER disparity|", scale=alt.Scale(type="log"), axis=powers)
    colour = line_colour(audit)
    known = alt.Chart().transform_filter("isValid(datum.size) && datum.size > 0")
    layers = alt.layer(
        alt.Chart()
        .transform_filter("datum.law > 0")
        .mark_line(style="law")
        .encode(x=x, y=alt.Y("law:Q"), color=colour),
        alt.Chart()
        .transform_filter("isValid(datum.size_low) && datum.size_low > 0")
        .mark_rule(style="interval")
        .encode(x=x, y=alt.Y("size_low:Q"), y2="size_high:Q", color=colour),
        known.mark_line(style="path").encode(x=x, y=y, color=colour),
        known.mark_point(style="mean").encode(x=x, y=y, color=colour, shape=sign_shape()),
        alt.Chart()
        .transform_calculate(chosen="floor")
        .transform_aggregate(chosen="max(chosen)")
        .mark_rule(style="chosen")
        .encode(x=alt.X("chosen:Q")),
        data=alt.NamedData("pairs"),
    )
    shown = facets(layers, "pair", pair_names(audit))
    return Chart(
        "floors",
        "Disparity against floor",
        "How the mean disparity moves with the floor; the triangle points to its sign. Dashed: the "
        "rate difference divided by the floor, which is all that is left where every cost is below "
        "the floor. No interval line: the interval holds 0, or there is none.",
        finish(shown, audit, _told(audit, "Size of the disparity against the floor")),
    )


def balance_chart(audit: Audit, rows: Rows) -> Chart:
    """Benefit against cost per group, with lines of equal ratio and a dot per seed."""
    import altair as alt

    x = alt.X("cost:Q", title="cost")
    y = alt.Y("benefit:Q", title=audit.plan.benefit.replace("_", " "))
    colour, fields = group_colour(audit), ["group", "panel", "resolved", *ESTIMATES]
    means = alt.Chart().transform_aggregate(
        [alt.AggregatedFieldDef(op="mean", field=name, **{"as": name}) for name in ESTIMATES],
        groupby=["group", "resolved"],
    )
    ratios = alt.Chart(alt.NamedData("ratios"))
    layers = alt.layer(
        ratios.mark_line(style="ratio").encode(x="x:Q", y="y:Q", detail="ratio:N"),
        ratios.mark_text(style="ratio-label").encode(x="x:Q", y="y:Q", text="end:N"),
        alt.Chart().mark_circle(style="seed").encode(x=x, y=y, color=colour),
        means.mark_rule(style="interval").encode(
            x=alt.X("cost_low:Q"), x2="cost_high:Q", y=alt.Y("benefit_mean:Q"), color=colour
        ),
        means.mark_rule(style="interval").encode(
            x=alt.X("cost_mean:Q"), y=alt.Y("benefit_low:Q"), y2="benefit_high:Q", color=colour
        ),
        means.mark_point(style="mean").encode(
            x=alt.X("cost_mean:Q"), y="benefit_mean:Q", color=colour, shape=resolved_shape()
        ),
        data=alt.NamedData("runs"),
    )
    shown = facets(layers, "panel", [with_status(budget) for budget in audit.budgets])
    shown = (
        shown.transform_fold([f"c{g}" for g in shown_groups(audit)], as_=["key", "cost"])
        .transform_calculate(benefit="datum['b' + substring(datum.key, 1)]")
        .transform_calculate(id="datum.budget + '|' + datum.key")
        .transform_lookup("id", from_=alt.LookupData(alt.NamedData("groups"), "id", fields))
    )
    return Chart(
        "balance",
        "Benefit against cost",
        "Large points: benefit and cost estimate of each group with intervals; small dots: single "
        "seeds. Groups on one grey line have the same ratio of benefit to cost (the number at its "
        "end). A cross is a cost that is not resolved: its ratio means nothing.",
        finish(shown, audit, _told(audit, "Benefit against cost of each group")),
    )


def _disparities(audit: Audit) -> alt.Chart:
    """One row per model and pair with its disparity at the floor that the page has chosen."""
    import altair as alt

    runs = source("runs")
    for k, (i, j) in enumerate(shown_pairs(audit)):
        ratios = (f"datum.b{g} / max(datum.c{g}, floor)" for g in (i, j))
        runs = runs.transform_calculate(**{f"d{k}": " - ".join(ratios)})
    keys: list[str | alt.FieldName] = [f"d{k}" for k in range(len(shown_pairs(audit)))]
    names = alt.LookupData(alt.NamedData("keys"), "key", ["name"])
    return (
        runs.transform_fold(keys, as_=["key", "value"])
        .transform_filter("isValid(datum.value)")
        .transform_lookup("key", from_=names)
        .transform_calculate(pair="datum.name")
    )


def _shading(audit: Audit) -> list[alt.Chart]:
    """Budgets whose disparity must not be read without a label: a shade, and the label."""
    import altair as alt

    untrusted = source("budgets").transform_filter("datum.status != ''")
    band = alt.X("budget:N", sort=budget_labels(audit), bandPosition=0.12)
    return [
        untrusted.mark_rect(style="shade").encode(x=budget_axis(audit)),
        untrusted.mark_text(style="status").encode(x=band, y=alt.value(4), text="status:N"),
    ]


def _pairs_told(audit: Audit) -> str:
    first = pair_name(audit.budgets[0].pairs[0].groups)
    told = f"{first}: above 0 the first group has the higher ratio."
    more = len(audit.budgets[0].pairs) - len(shown_pairs(audit))
    return told + (f" {more} further pairs are in the tables." if more else "")


def _shaded_told(audit: Audit) -> str:
    labels = dict.fromkeys(status(budget) for budget in audit.budgets if status(budget))
    if not labels:
        return ""
    return (
        f"Shaded, not to be read as a disparity: {' or '.join(labels)}; the grey bar there is "
        "where the mean would lie at the plan's floor if nothing was memorised."
    )


def _told(audit: Audit, what: str) -> str:
    """The text alternative of a chart: what it shows and what it is about."""
    n = len(audit.budgets)
    labelled = sum(bool(status(budget)) for budget in audit.budgets)
    return (
        f"{what}, {n} privacy budget{'s' if n > 1 else ''}, of which {labelled} "
        f"floor dominated, not resolved or insufficient. The numbers are in the tables."
    )


CHARTS: list[Callable[[Audit, Rows], Chart | None]] = [
    disparity_chart,
    outcome_chart,
    gap_chart,
    cost_chart,
    floor_chart,
    balance_chart,
]
"""In reading order. A new chart is a function of an audit and its rows, and a line here."""


def charts(audit: Audit, rows: Rows) -> list[Chart]:
    """Every chart of an audit that has something to draw."""
    return [chart for draw in CHARTS if (chart := draw(audit, rows)) is not None]
