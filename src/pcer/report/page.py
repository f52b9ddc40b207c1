"""A report as an immutable description: what each part of the page says, before rendering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pcer.auditing import (
    NOTHING,
    Audit,
    BudgetResult,
    both_p,
    bounds,
    short_setting,
)
from pcer.release import PROXIES, Release, carried_costs, panels, proxies
from pcer.report import tables as summary
from pcer.report.card import Fact, card
from pcer.report.charts import Chart, charts
from pcer.report.published import published_tables, verdict_header
from pcer.report.rows import Datum, budget_labels, chart_data, isolated, pair_name, shown_pairs
from pcer.report.story import Screen, screens
from pcer.report.table import Table

FLOOR_CHARTS = ("disparity", "floors")
"""Charts that follow the floor, in its section."""
SCALES = {isolated(proxy.label): proxy.scale for proxy in PROXIES.values()}
"""By the name that rows of charts have for a cost."""


@dataclass(frozen=True, kw_only=True)
class LiveRow:
    """One line of the table that follows the floor slider."""

    budget: str
    pair: str
    key: int
    mean: float | None
    interval: str
    floored: str
    verdict: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Appendix:
    """What a specialist looks up, folded."""

    facts: list[str]
    advice: list[str]
    signal: list[Table]
    costs: list[Table]
    charts: list[Chart]
    floor_charts: list[Chart]
    live: list[LiveRow]
    floors: Table
    published: list[Table]
    comparison: list[Table]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One release in the page: two screens, and a folded appendix."""

    id: str
    audit: Audit
    title: str
    screens: list[Screen]
    card: list[Fact]
    appendix: Appendix
    rows: dict[str, list[Datum]]

    @property
    def screen(self) -> Screen:
        """Of the audit's own cost."""
        return self.screens[0]


def section(
    audit: Audit, release: Release, number: int, family: Sequence[Release] | None
) -> Section:
    """Describe one release; with a family, by every cost that it carries."""
    rows = chart_data(audit, release)
    return Section(
        id=f"release-{number}",
        audit=audit,
        title=summary.subject_name(audit),
        screens=screens(audit, release, family),
        card=card(audit, release),
        appendix=_appendix(audit, release, rows),
        rows=rows,
    )


def _appendix(audit: Audit, release: Release, rows: dict[str, list[Datum]]) -> Appendix:
    drawn = charts(audit, rows)
    return Appendix(
        facts=summary.facts(audit),
        advice=summary.advice(audit),
        signal=[
            summary.resolution_table(audit),
            _with_verdicts(summary.pairs_table(audit), audit),
            double_table(audit),
        ],
        costs=_cost_tables(audit, release, rows),
        charts=[chart for chart in drawn if chart.name not in FLOOR_CHARTS],
        floor_charts=[chart for chart in drawn if chart.name in FLOOR_CHARTS],
        live=live_rows(audit, rows),
        floors=replace(
            _with_verdicts(summary.floors_table(audit), audit),
            title="Disparity at every floor of the grid",
        ),
        published=[*published_tables(audit), *summary.algorithm_tables(audit)],
        comparison=[*summary.rankings_tables(audit), *summary.norms_tables(audit)],
    )


def _cost_tables(audit: Audit, release: Release, rows: dict[str, list[Datum]]) -> list[Table]:
    """What the other carried costs say, where there are any."""
    found = [summary.costs_table(audit)] if len(audit.costs) > 1 else []
    found += [proxies_table(audit, rows)] if carried_costs(panels(release)) else []
    return [*found, *([summary.agreement_table(audit.agreement)] if audit.agreement else [])]


def live_rows(audit: Audit, rows: dict[str, list[Datum]]) -> list[LiveRow]:
    """The disparities at the plan's floor, as the slider table starts."""
    return [
        LiveRow(
            budget=label,
            pair=pair_name(pair.groups),
            key=k,
            mean=pair.pcer_disparity.mean,
            interval=bounds(pair.pcer_disparity.ci),
            floored=_floored(audit, rows["runs"], label, k),
            verdict=budget.verdict.value,
            label=budget.verdict.words,
        )
        for label, budget in zip(budget_labels(audit), audit.budgets, strict=True)
        for k, pair in enumerate(budget.pairs[: len(shown_pairs(audit))])
    ]


def double_table(audit: Audit) -> Table:
    """Who has both the higher cost and the worse predictions, and the test of it."""
    rows = [
        (
            short_setting(budget.model, budget.epsilon),
            pair_name(pair.groups),
            _cost(audit, budget, pair.groups[0]),
            _cost(audit, budget, pair.groups[1]),
            _benefit(budget, pair.groups[0]),
            _benefit(budget, pair.groups[1]),
            both_p(pair.double_disadvantage_p, pair.double_disadvantage_p_alone),
            pair.double_disadvantage or "not shown",
        )
        for budget, pair in summary.budget_pairs(audit)
    ]
    worse = "lower" if audit.subject.outcome == "benefit" else "higher"
    return Table(
        "Cost and rate of both groups of a pair",
        (
            "ε",
            "groups",
            "cost ± error\nfirst",
            "cost ± error\nsecond",
            "rate\nfirst",
            "rate\nsecond",
            "p",
            "doubly dis-\nadvantaged",
        ),
        tuple(rows),
        2,
        f"A group with a higher cost and a {worse} rate, both beyond chance, its cost resolved. "
        "p: the larger of the two tests, Holm-adjusted. n.r.: cost not resolved. Rates of 100 "
        "people; costs in hundredths or their own unit.",
    )


def proxies_table(audit: Audit, rows: dict[str, list[Datum]]) -> Table:
    """What each attack finds in every group, at every budget."""
    found: dict[tuple[str, str], list[Datum]] = {}
    for row in rows["proxies"]:
        found.setdefault((row["budget"], row["proxy"]), []).append(row)
    lines = [
        (budget, proxy, "\n".join(_proxy_cost(row) for row in group))
        for (budget, proxy), group in found.items()
    ]
    return Table(
        "Cost by every proxy",
        ("ε", "proxy", f"cost [{100 * audit.plan.confidence_level:g} % interval]"),
        tuple(lines),
        3,
        "Each proxy measures another side of exposure, on its own scale, in hundredths; the spent "
        "epsilon as it is. Intervals do not tell who is more exposed: the tests above do.",
    )


def plan_table(audit: Audit) -> Table:
    """What was fixed before looking."""
    values: dict[str, Any] = audit.plan.model_dump()
    rows = tuple((name.replace("_", " "), _plain(value)) for name, value in values.items())
    return Table("Plan: fixed before looking", ("setting", "value"), rows, 2)


def provenance_table(audits: Sequence[Audit], releases: Sequence[Release]) -> Table:
    """Digests, and where each release says it comes from."""
    rows = [
        (
            summary.subject_name(audit),
            audit.release_sha256,
            release.training.mechanism,
            _plain(release.provenance.pcer_version),
            _commit(release),
            _plain(release.provenance.data_digest),
        )
        for audit, release in zip(audits, releases, strict=True)
    ]
    columns = ("release", "SHA-256", "mechanism", "pcer", "source commit", "data digest")
    return Table("Releases", columns, tuple(rows), 6)


def _with_verdicts(table: Table, audit: Audit) -> Table:
    """Put each budget's verdict before its numbers: no disparity without its label."""
    n = table.n_labels
    rows = zip(table.rows, summary.budget_pairs(audit), strict=True)
    labelled = tuple((*row[:n], budget.verdict.words, *row[n:]) for row, (budget, _) in rows)
    columns = (*table.columns[:n], verdict_header(audit), *table.columns[n:])
    return replace(table, columns=columns, rows=labelled, n_labels=n + 1)


def _floored(audit: Audit, runs: list[Datum], label: str, k: int) -> str:
    """Share of a budget's seeds in which both costs of a pair are below the plan's floor."""
    costs = [
        [row[f"c{g}"] for g in shown_pairs(audit)[k]] for row in runs if row["budget"] == label
    ]
    if any(cost is None for pair in costs for cost in pair):
        return NOTHING
    share = sum(max(pair) < audit.plan.floor for pair in costs) / len(costs)
    return f"{100 * share:.0f} %"


def _cost(audit: Audit, budget: BudgetResult, name: str) -> str:
    group = budget.groups[name]
    label = "" if group.resolved or group.cost.value is None else " (n.r.)"
    return summary.with_error(audit.proxy.scale, group) + label


def _benefit(budget: BudgetResult, name: str) -> str:
    found = budget.groups[name].benefit
    people = proxies.ACCURACY
    return f"{summary.amount(people, found.mean)}\n{summary.amounts(people, found.ci)}"


def _proxy_cost(row: Datum) -> str:
    scale = SCALES.get(row["proxy"], proxies.UNKNOWN)
    ends = summary.amounts(scale, (row["low"], row["high"])) if row["low"] is not None else ""
    return f"{row['group']}: {summary.amount(scale, row['mean'])} {ends}"


def _commit(release: Release) -> str:
    dirty = " (with changes)" if release.provenance.source_dirty else ""
    return _plain(release.provenance.source_commit) + dirty


def _plain(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, dict):
        told = [f"{k.replace('_', ' ')} {_plain(v)}" for k, v in value.items() if v or v == 0]
        return "; ".join(told)
    return f"{value:g}" if isinstance(value, float) else str(value)
