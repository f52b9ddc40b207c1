"""A report as an immutable description: what each part of the page says, before rendering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pcer.auditing import (
    NOTHING,
    Audit,
    BudgetResult,
    Summary,
    bounds,
    decimals,
    plus_minus,
    rate_bounds,
    rate_plus_minus,
    short_setting,
)
from pcer.auditing import p_value as printed_p
from pcer.release import Release, carried_costs, panels
from pcer.report import tables as summary
from pcer.report.answers import Answer, answers
from pcer.report.charts import Chart, charts
from pcer.report.rows import (
    Datum,
    budget_labels,
    chart_data,
    isolated,
    pair_name,
    shown_pairs,
)
from pcer.report.table import Table


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
class Section:
    """One release in the page."""

    id: str
    audit: Audit
    title: str
    verdict: str
    advice: list[str]
    answers: list[Answer]
    facts: list[str]
    budgets: Table
    signal: list[Table]
    charts: list[Chart]
    rows: dict[str, list[Datum]]
    live: list[LiveRow]
    floors: list[Table]
    comparison: list[Table]
    double: Table
    proxies: Table | None
    agreement: Table | None


def section(audit: Audit, release: Release, number: int) -> Section:
    """Describe one release."""
    rows = chart_data(audit, release)
    return Section(
        id=f"release-{number}",
        audit=audit,
        title=summary.subject_name(audit),
        verdict=audit.headline,
        advice=summary.advice(audit),
        answers=answers(audit),
        facts=summary.facts(audit),
        budgets=budget_table(audit),
        signal=[summary.resolution_table(audit), _with_verdicts(summary.pairs_table(audit), audit)],
        charts=charts(audit, rows),
        rows=rows,
        live=live_rows(audit, rows),
        floors=[
            replace(
                _with_verdicts(summary.floors_table(audit), audit),
                title="Disparity at every floor of the grid",
            ),
            *summary.algorithm_tables(audit),
        ],
        comparison=[*summary.rankings_tables(audit), *summary.norms_tables(audit)],
        double=double_table(audit),
        proxies=proxies_table(audit, rows) if carried_costs(panels(release)) else None,
        agreement=summary.agreement_table(audit.agreement) if audit.agreement else None,
    )


def budget_table(audit: Audit) -> Table:
    """The paper's columns with an interval under every number, resolution and verdict."""
    names = audit.subject.groups[: summary.MOST_GAP_COLUMNS]
    if len(audit.subject.groups) > len(names):
        names = []
    several = len(audit.subject.groups) > 2
    rows = [
        (
            short_setting(budget.model, budget.epsilon),
            *([pair_name(pair.groups)] if several else []),
            budget.verdict.words,
            _rate(budget.accuracy, 3),
            _rate(budget.demographic_parity_gap, 3),
            _rate(budget.equalized_odds_gap, 3),
            *(_rate(budget.groups[name].overfitting_gap, 4) for name in names),
            f"{plus_minus(pair.pcer_disparity)}\n{bounds(pair.pcer_disparity.ci)}",
            _resolved(budget),
        )
        for budget, pair in summary.budget_pairs(audit)
    ]
    columns = (
        "ε",
        *(["groups"] if several else []),
        _verdict_header(audit),
        "accuracy",
        "DP gap",
        "EO gap",
        *(f"gap\n{name}" for name in names),
        "PCER\ndisparity",
        "groups\nresolved",
    )
    note = (
        f"Mean ± standard deviation over seeds, and the {100 * audit.plan.confidence_level:g} % "
        f"interval of the mean; floor {audit.plan.floor:g}. DP gap: demographic parity; EO gap: "
        "equalized odds. Read a disparity only with its verdict."
    )
    return Table("As published, and resolved", columns, tuple(rows), 2 + several, note)


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
            _cost(budget, pair.groups[0]),
            _cost(budget, pair.groups[1]),
            _benefit(budget, pair.groups[0]),
            _benefit(budget, pair.groups[1]),
            printed_p(pair.double_disadvantage_p),
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
        "p: the larger of the two tests, Holm-adjusted. n.r.: cost not resolved.",
    )


def proxies_table(audit: Audit, rows: dict[str, list[Datum]]) -> Table:
    """Which group each proxy finds to pay more, at every budget."""
    found: dict[tuple[str, str], list[Datum]] = {}
    for row in rows["proxies"]:
        found.setdefault((row["budget"], row["proxy"]), []).append(row)
    lines = [
        (budget, proxy, "\n".join(_proxy_cost(row) for row in group), _highest(group))
        for (budget, proxy), group in found.items()
    ]
    return Table(
        "Cost by every proxy",
        ("ε", "proxy", f"cost [{100 * audit.plan.confidence_level:g} % interval]", "highest cost"),
        tuple(lines),
        4,
        "Each proxy measures another side of exposure, on its own scale. A highest cost whose "
        "interval overlaps another's is not named.",
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


def with_isolated_names(text: str, audit: Audit) -> str:
    """Keep names that run from right to left from turning the sentence around them."""
    subject = audit.subject
    for name in sorted({*subject.groups, subject.dataset, subject.attribute}, key=len):
        if isolated(name) != name:
            text = text.replace(name, isolated(name))
    return text


def _with_verdicts(table: Table, audit: Audit) -> Table:
    """Put each budget's verdict before its numbers: no disparity without its label."""
    n = table.n_labels
    rows = zip(table.rows, summary.budget_pairs(audit), strict=True)
    labelled = tuple((*row[:n], budget.verdict.words, *row[n:]) for row, (budget, _) in rows)
    columns = (*table.columns[:n], _verdict_header(audit), *table.columns[n:])
    return replace(table, columns=columns, rows=labelled, n_labels=n + 1)


def _verdict_header(audit: Audit) -> str:
    """Of several pairs, the verdict is the budget's and not each pair's."""
    return "verdict" if len(audit.subject.groups) == 2 else "verdict of\nthe budget"


def _rate(found: Summary, digits: int) -> str:
    return f"{rate_plus_minus(found, digits)}\n{rate_bounds(found.ci, digits)}"


def _floored(audit: Audit, runs: list[Datum], label: str, k: int) -> str:
    """Share of a budget's seeds in which both costs of a pair are below the plan's floor."""
    costs = [
        [row[f"c{g}"] for g in shown_pairs(audit)[k]] for row in runs if row["budget"] == label
    ]
    if any(cost is None for pair in costs for cost in pair):
        return NOTHING
    share = sum(max(pair) < audit.plan.floor for pair in costs) / len(costs)
    return f"{100 * share:.0f} %"


def _resolved(budget: BudgetResult) -> str:
    return f"{sum(g.resolved for g in budget.groups.values())} of {len(budget.groups)}"


def _cost(budget: BudgetResult, name: str) -> str:
    group = budget.groups[name]
    label = "" if group.resolved or group.cost.value is None else " (n.r.)"
    return summary.with_error(group) + label


def _benefit(budget: BudgetResult, name: str) -> str:
    found = budget.groups[name].benefit
    return f"{decimals(found.mean, 3)}\n{rate_bounds(found.ci, 3)}"


def _proxy_cost(row: Datum) -> str:
    ends = (
        f"[{decimals(row['low'], 4)}, {decimals(row['high'], 4)}]" if row["low"] is not None else ""
    )
    return f"{row['group']}: {decimals(row['mean'], 4)} {ends}"


def _highest(group: list[Datum]) -> str:
    known = [row for row in group if row["low"] is not None]
    if len(known) < 2:
        return NOTHING
    first, second = sorted(known, key=lambda row: row["mean"], reverse=True)[:2]
    return str(first["group"]) if first["low"] > second["high"] else "not told apart"


def _commit(release: Release) -> str:
    dirty = " (with changes)" if release.provenance.source_dirty else ""
    return _plain(release.provenance.source_commit) + dirty


def _plain(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
