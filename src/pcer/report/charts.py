"""Vega-Lite charts through Altair, nothing drawn by hand.

A chart is a specification that names its rows (``chart_data``) and its colours: in a page the
colours are CSS variables, so that light, dark and print need no second drawing; in a figure
file they are the light ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pcer.auditing import Audit, PairResult, number_range
from pcer.report.exposures import spread_claim
from pcer.report.marks import (
    CELL,
    Spec,
    budget_axis,
    cell_width,
    facets,
    finish,
    group_marks,
    group_names,
    hundredths,
    legend,
    pair_colour,
    pair_style,
    series,
    sign_shape,
    source,
    tip,
    told,
    unchecked,
)
from pcer.report.rows import (
    OUTCOME_MEASURES,
    Datum,
    audit_floors,
    pair_name,
    shown_pairs,
    status,
    with_status,
)

if TYPE_CHECKING:
    import altair as alt

HOLLOW = "Hollow: not to be read as a disparity."
HOLLOW_COST = "Hollow: exposure not shown."
DISPARITY_TOLD = "datum.pair + ', ' + datum.budget + ': ' + format(datum.mean, '+.3~g')"
FLOOR_TOLD = "datum.pair + ', floor ' + datum.floor + ': ' + format(datum.mean, '+.3~g')"

JITTER = "(datum.seed * 0.6180339887 % 1 + 1) % 1"
"""Spreads the dots of one budget over its width, the same way every time."""

Rows = Mapping[str, list[Datum]]
"""What charts draw, by name; see ``rows.datasets``."""


@dataclass(frozen=True)
class Chart:
    """A chart with its words. ``spec`` draws rows that are not in it: add ``datasets``.

    Attributes:
        name: in files and in the page.
        title: a claim.
        caption: how to read it.
        spec: what Vega-Lite draws.
        rows: name of the rows that hold its numbers.
    """

    name: str
    title: str
    caption: str
    spec: Spec
    rows: str = "groups"


def disparity_chart(audit: Audit, rows: Rows) -> Chart:
    """Disparity with its interval against the budget; the left half of the paper's Figure 1."""
    import altair as alt

    x = budget_axis(audit, with_status=True)
    y = alt.Y("mean:Q", title="PCER disparity")
    runs = _disparities(audit)
    at_floor = source("pairs").transform_filter("abs(datum.floor / floor - 1) < 1e-9")
    style = pair_style(audit)
    place = {key: value for key, value in style.items() if key == "xOffset"}
    layers = [
        at_floor.transform_filter("isValid(datum.null_low)")
        .mark_bar(style="band")
        .encode(x=x, **place, y=alt.Y("null_low:Q"), y2="null_high:Q"),
        alt.Chart(alt.NamedData("budgets")).mark_rule(style="zero").encode(y=alt.datum(0)),
        runs.transform_filter("isValid(datum.seed)")
        .transform_calculate(jitter=JITTER)
        .mark_circle(style="seed")
        .encode(x=x, y=alt.Y("value:Q"), **(style or {"xOffset": alt.XOffset("jitter:Q")})),
        at_floor.mark_rule(style="interval").encode(x=x, y=alt.Y("low:Q"), y2="high:Q", **style),
        runs.transform_aggregate(mean="mean(value)", groupby=["budget", "pair"])
        .transform_lookup("budget", from_=_statuses())
        .transform_calculate(told=DISPARITY_TOLD)
        .mark_point(style="mean")
        .encode(x=x, y=y, tooltip=tip("PCER disparity"), fillOpacity=_hollow(), **style),
    ]
    readable = sum(not status(budget) for budget in audit.budgets)
    large = (
        "Large points: mean over seeds at the chosen floor; lines: interval; small dots: single "
    )
    large += "seeds."
    if all(row["seed"] is None for row in rows["runs"]):
        phrase = audit.proxy.phrase
        large = f"At the chosen floor; {phrase} is one number for all seeds: no interval over them."
    return Chart(
        "disparity",
        f"A disparity can be read in {readable} of {len(audit.budgets)} settings",
        f"{_pairs_told(audit)} {large} {_hollow_told(audit)}",
        finish(
            alt.layer(*layers).resolve_scale(xOffset="independent"),
            audit,
            _told(audit, "PCER disparity with interval"),
        ),
        "pairs",
    )


def outcome_chart(audit: Audit, rows: Rows) -> Chart:
    """Demographic parity and equalized odds gaps; the right half of the paper's Figure 1."""
    import altair as alt

    x = budget_axis(audit)
    colour = alt.Color("measure:N", title=None, scale=series(OUTCOME_MEASURES), legend=legend())
    offset = alt.XOffset("measure:N")
    shapes = alt.Scale(domain=list(OUTCOME_MEASURES), range=["circle", "square"])
    shape = alt.Shape("measure:N", title=None, scale=shapes, legend=legend())
    base = source("outcomes").transform_filter("isValid(datum.mean)")
    layers = [
        base.mark_rule(style="interval").encode(
            x=x,
            xOffset=offset,
            y=alt.Y("low:Q", title="difference of outcomes, people in 100", axis=hundredths()),
            y2="high:Q",
            color=colour,
        ),
        base.transform_calculate(told=told("measure"))
        .mark_point(style="mean")
        .encode(
            x=x,
            xOffset=offset,
            y=alt.Y("mean:Q", scale=alt.Scale(zero=True)),
            color=colour,
            shape=shape,
            tooltip=tip("outcome gap"),
        ),
    ]
    return Chart(
        "outcomes",
        _outcome_claim(audit),
        "The same settings by what outcome-only audits look at: the demographic parity gap and the "
        "equalized odds gap, mean over seeds with interval. No privacy cost is in them.",
        finish(alt.layer(*layers), audit, _told(audit, "Demographic parity and odds gap")),
        "outcomes",
    )


def gap_chart(audit: Audit, rows: Rows) -> Chart:
    """Each group's gap beside the gap that no memorisation at all would show."""
    import altair as alt

    x, offset = budget_axis(audit), alt.XOffset("group:N", sort=group_names(audit))
    marks = group_marks(audit)
    title = "more right in training, people in 100"
    base = source("groups")
    layers = [
        base.transform_filter("isValid(datum.null_low)")
        .mark_bar(style="band")
        .encode(
            x=x,
            xOffset=offset,
            y=alt.Y("null_low:Q", title=title, axis=hundredths()),
            y2="null_high:Q",
        ),
        base.mark_tick(style="noise").encode(x=x, xOffset=offset, y=alt.Y("noise:Q")),
        base.mark_rule(style="interval").encode(
            x=x, xOffset=offset, y=alt.Y("gap_low:Q"), y2="gap_high:Q", color=marks["color"]
        ),
        base.transform_calculate(told=told("group", "gap_"))
        .mark_point(style="point")
        .encode(x=x, xOffset=offset, y=alt.Y("gap_mean:Q"), tooltip=tip("gap"), **marks),
    ]
    grey = (
        "Grey: where it would lie if nothing was memorised, with its mean as a tick. A point "
        "inside its grey bar is no sign of memory; a hollow point is a cost that is not resolved."
    )
    if not audit.proxy.is_from_counts:
        grey = f"The cost of this audit is another, {audit.proxy.phrase}: hollow, not resolved."
    return Chart(
        "gaps",
        _resolved_claim(audit),
        f"Points: mean overfitting gap of each group with interval. {grey}",
        finish(alt.layer(*layers), audit, _told(audit, "Gap of each group and its null band")),
        "groups",
    )


def cost_chart(audit: Audit, rows: Rows) -> Chart | None:
    """Cost estimates with intervals, a panel for every proxy that the release carries."""
    proxies = list(dict.fromkeys(row["proxy"] for row in rows["proxies"]))
    if not proxies:
        return None
    import altair as alt

    x, offset = budget_axis(audit), alt.XOffset("group:N", sort=group_names(audit))
    marks = {key: one for key, one in group_marks(audit).items() if key != "fillOpacity"}
    y = alt.Y("low:Q", title="hundredths of its unit, beyond chance", axis=hundredths())
    layers = alt.layer(
        alt.Chart().mark_rule(style="zero").encode(y=alt.datum(0)),
        alt.Chart()
        .mark_rule(style="interval")
        .encode(x=x, xOffset=offset, y=y, y2="high:Q", color=marks["color"]),
        alt.Chart()
        .transform_calculate(told=told("group"))
        .mark_point(style="point")
        .encode(x=x, xOffset=offset, y=alt.Y("mean:Q"), tooltip=tip("cost"), **marks),
        data=alt.NamedData("proxies"),
    )
    shown = facets(layers, "proxy", proxies, cell_width(audit))
    if len(proxies) > 1:
        shown = shown.resolve_scale(y="independent")
    telling = sum(one.n_resolved > 0 for one in audit.costs)
    return Chart(
        "costs",
        f"{telling} of {len(audit.costs)} costs show memory of someone's record",
        "What being in the training data changes, with what chance alone gives taken off, and its "
        f"{100 * audit.plan.confidence_level:g} % interval, for people like these. Whether "
        "anything is memorised, and whether groups differ, is tested; the tables say so.",
        finish(shown, audit, _told(audit, "Cost estimates with intervals")),
        "proxies",
    )


def floor_chart(audit: Audit, rows: Rows) -> Chart:
    """Size of the disparity against the floor on logarithmic axes, a panel per setting."""
    import altair as alt

    floors = audit_floors(audit.plan)
    ticks = alt.Axis(format="~g", values=floors, labelAngle=0)
    scale = alt.Scale(type="log", domain=[min(floors) / 1.4, max(floors) * 1.4], nice=False)
    x = alt.X("floor:Q", title="floor", scale=scale, axis=ticks)
    powers = alt.Axis(format="~g", values=[10.0**power for power in range(-6, 7)])
    y = alt.Y("size:Q", title="size of the disparity", scale=alt.Scale(type="log"), axis=powers)
    colour = pair_colour(audit)
    known = alt.Chart().transform_filter("isValid(datum.size) && datum.size > 0")
    layers = alt.layer(
        alt.Chart()
        .transform_filter("datum.law > 0")
        .mark_line(style="law")
        .encode(x=x, y=alt.Y("law:Q"), detail="pair:N"),
        alt.Chart()
        .transform_filter("isValid(datum.size_low) && datum.size_low > 0")
        .mark_rule(style="interval")
        .encode(x=x, y=alt.Y("size_low:Q"), y2="size_high:Q", **colour),
        known.mark_line(style="path").encode(x=x, y=y, detail="pair:N", **colour),
        known.transform_calculate(told=FLOOR_TOLD)
        .mark_point(style="mean")
        .encode(
            x=x, y=y, shape=sign_shape(), fillOpacity=_hollow(), tooltip=tip("at floor"), **colour
        ),
        alt.Chart()
        .transform_calculate(chosen="floor")
        .transform_aggregate(chosen="max(chosen)")
        .mark_rule(style="chosen")
        .encode(x=alt.X("chosen:Q")),
        data=alt.NamedData("pairs"),
    )
    shown = facets(layers, "line", [with_status(budget) for budget in audit.budgets])
    return Chart(
        "floors",
        _floor_claim(audit),
        "How the mean disparity moves with the floor; the triangle points to its sign. Dashed: the "
        "rate difference divided by the floor, which is all that is left where every cost is below "
        f"the floor. No interval line: the interval holds 0, or there is none. {HOLLOW}",
        finish(shown, audit, _told(audit, "Size of the disparity against the floor")),
        "pairs",
    )


def balance_chart(audit: Audit, rows: Rows) -> Chart | None:
    """What each group receives against its exposure, from the smallest budget to the largest."""
    known = [row for row in rows["groups"] if None not in (row["cost_mean"], row["benefit_mean"])]
    if not known:
        return None
    import altair as alt

    close = alt.Scale(zero=False, padding=24)
    title = audit.plan.benefit.replace("_", " ")
    x = alt.X(
        "cost_mean:Q",
        title=f"exposure, hundredths ({audit.proxy.scale.unit})",
        scale=close,
        axis=hundredths(6),
    )
    y = alt.Y("benefit_mean:Q", title=f"{title}, of 100", scale=close, axis=hundredths(6))
    marks = group_marks(audit)
    base = alt.Chart().transform_filter("isValid(datum.cost_mean)")
    texts = [
        base.transform_filter(f"indexof({json.dumps(ids)}, datum.id) >= 0")
        .transform_calculate(text="datum.group + ', ' + datum.epsilon")
        .mark_text(style=style)
        .encode(x=x, y=y, text="text:N")
        for style, ids in _ends_of_ways(known).items()
    ]
    layers = alt.layer(
        base.mark_line(style="way").encode(x=x, y=y, color=marks["color"], order="order:O"),
        base.mark_rule(style="interval").encode(
            x=alt.X("cost_low:Q"), x2="cost_high:Q", y=y, color=marks["color"]
        ),
        base.mark_rule(style="interval").encode(
            x=x, y=alt.Y("benefit_low:Q"), y2="benefit_high:Q", color=marks["color"]
        ),
        base.transform_calculate(told=told("group", "cost_"))
        .mark_point(style="point")
        .encode(x=x, y=y, tooltip=tip("exposure"), **marks),
        *texts,
        data=alt.NamedData("groups"),
    )
    models = [row["model"] for row in known]
    return Chart(
        "balance",
        spread_claim(audit),
        "One point per group and setting, with intervals; a line joins the settings of a group in "
        "the order of the budget. To the right: more exposed. Up: more positive predictions. "
        f"{HOLLOW_COST}",
        finish(
            facets(layers, "model", models, 2 * CELL),
            audit,
            _told(audit, "Benefit against exposure of each group"),
        ),
        "groups",
    )


def _ends_of_ways(rows: list[Datum]) -> dict[str, list[str]]:
    """The first and the last setting of each group and model, by the style of their names."""
    ways: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        ways.setdefault((row["model"], row["group"]), []).append(row["id"])
    first = [way[0] for way in ways.values() if len(way) > 1]
    return {"first": first, "last": [way[-1] for way in ways.values()]}


def _outcome_claim(audit: Audit) -> str:
    gaps = [one.demographic_parity_gap.mean for one in audit.budgets]
    known = sorted(round(100 * gap) for gap in gaps if gap is not None)
    if not known:
        return "Outcome gaps are not known"
    return f"Positive predictions differ by {number_range(sorted({known[0], known[-1]}))} in 100"


def _resolved_claim(audit: Audit) -> str:
    groups = [group for one in audit.budgets for group in one.groups.values()]
    found = sum(group.resolved for group in groups)
    return f"Exposure is shown for {found} of {len(groups)} groups and settings"


def _floor_claim(audit: Audit) -> str:
    """In how many settings the choice of the floor decides who is ahead."""
    turned = sum(any(_turns(pair) for pair in one.pairs) for one in audit.budgets)
    return f"The floor decides who is ahead in {turned} of {len(audit.budgets)} settings"


def _turns(pair: PairResult) -> bool:
    means = [row.mean for row in pair.floors if row.mean]
    return bool(means) and min(means) < 0 < max(means)


def _statuses() -> alt.LookupData:
    import altair as alt

    return alt.LookupData(alt.NamedData("budgets"), "budget", ["status"])


def _hollow() -> Any:
    """Hollow where a disparity must not be read as one."""
    import altair as alt

    return alt.when("datum.status != ''").then(alt.value(0)).otherwise(alt.value(1))


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


def _pairs_told(audit: Audit) -> str:
    first = pair_name(audit.budgets[0].pairs[0].groups)
    told = f"{first}: above 0 the first group has the higher ratio."
    more = len(audit.budgets[0].pairs) - len(shown_pairs(audit))
    return told + (f" {more} further pairs are in the tables." if more else "")


def _hollow_told(audit: Audit) -> str:
    if not any(status(budget) for budget in audit.budgets):
        return ""
    return (
        f"{HOLLOW} The label below says why; the grey bar is where the mean would lie at the "
        "plan's floor if nothing was memorised."
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
    with unchecked():
        return [chart for draw in CHARTS if (chart := draw(audit, rows)) is not None]
