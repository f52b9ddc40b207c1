"""The numbers behind the charts: small rows, taken from an audit and its release.

A page carries them once per release; every chart names the rows it draws.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from pcer.auditing import (
    Audit,
    BudgetResult,
    Exposed,
    GroupResult,
    Measured,
    PairResult,
    Plan,
    Summary,
    measure_costs,
    rate_difference,
    rounded,
    setting_name,
    short_budget,
    short_setting,
)
from pcer.release import Release, panels, proxy_named

Datum = dict[str, Any]

MOST_PAIRS = 5
"""More would not be told apart in a chart; the tables show all."""

BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"
STEPS_BETWEEN_FLOORS = 9
OUTCOME_MEASURES = ("demographic parity", "equalized odds")
"""What outcome-only audits look at, as charts call it."""


def chart_data(audit: Audit, release: Release) -> dict[str, list[Datum]]:
    """Everything the charts draw, by name. Numbers have the digits of the audit file."""
    measured = measure_costs(panels(release), audit.plan)
    names = {
        "runs": _runs(audit, measured[audit.cost]),
        "keys": _keys(audit),
        "pairs": _pairs(audit),
        "budgets": [_budget(audit, budget) for budget in audit.budgets],
        "outcomes": _outcomes(audit),
        "groups": _groups(audit),
        "proxies": _proxies(audit, measured),
    }
    return {name: rounded(rows) for name, rows in names.items()}


def shown_pairs(audit: Audit) -> list[tuple[int, int]]:
    """The pairs of groups that charts show, as positions in the subject's list of groups."""
    groups = audit.subject.groups
    pairs = audit.budgets[0].pairs[:MOST_PAIRS]
    return [(groups.index(pair.groups[0]), groups.index(pair.groups[1])) for pair in pairs]


def shown_groups(audit: Audit) -> list[int]:
    """The groups that charts show, in the subject's order."""
    return sorted({group for pair in shown_pairs(audit) for group in pair})


def slider_floors(plan: Plan) -> list[float]:
    """Every place of the floor slider: the audit's floors, and steps between them.

    >>> len(slider_floors(Plan())), slider_floors(Plan())[10]
    (31, 0.001)
    """
    audited = audit_floors(plan)
    floors = set(audited)
    for low, high in pairwise(audited):
        steps = np.geomspace(low, high, STEPS_BETWEEN_FLOORS + 2)[1:-1]
        floors |= {float(f"{step:.3g}") for step in steps}
    return sorted(floors)


def audit_floors(plan: Plan) -> list[float]:
    """The floors at which the audit has intervals, ascending."""
    return sorted({*plan.floors, plan.floor})


def budget_labels(audit: Audit) -> list[str]:
    """What budgets are called on an axis: short, and distinct even where they nearly agree."""
    short = [short_setting(one.model, one.epsilon) for one in audit.budgets]
    if len(set(short)) == len(short):
        return [isolated(label) for label in short]
    return ["no-DP" if budget.epsilon is None else repr(budget.epsilon) for budget in audit.budgets]


def isolated(name: str) -> str:
    """A name that cannot turn the direction of the text around it, nor break its line.

    Line separators would also end a string in Vega's expressions.

    >>> isolated("women")
    'women'
    """
    name = name.replace("\u2028", " ").replace("\u2029", " ")
    turns = any(
        character in BIDI_CONTROLS or unicodedata.bidirectional(character) in ("R", "AL", "AN")
        for character in name
    )
    return f"{FIRST_STRONG_ISOLATE}{name}{POP_ISOLATE}" if turns else name


def pair_name(groups: Sequence[str]) -> str:
    """A pair as its signed numbers read: first minus second."""
    return " − ".join(isolated(name) for name in groups)


def status(budget: BudgetResult) -> str:
    """The label without which a budget's disparity must not be shown; empty if it needs none."""
    return budget.verdict.words if budget.verdict.voids else ""


def with_status(budget: BudgetResult) -> str:
    """A budget's name with the label that it needs."""
    label = status(budget)
    name = setting_name(budget.model, budget.epsilon)
    return name + (f" ({label})" if label else "")


def _runs(audit: Audit, measured: Sequence[Measured]) -> list[Datum]:
    """One row per model: benefit b and signed cost c of every shown group, by position.

    A cost that is one number for all seeds gives one row, with the mean benefit.
    """
    groups = shown_groups(audit)
    rows = []
    for label, one in zip(budget_labels(audit), measured, strict=True):
        seeds: Sequence[int | None] = [None] if one.is_pooled else one.panel.seeds
        benefit = one.benefit.mean(axis=0, keepdims=True) if one.is_pooled else one.benefit
        for k, seed in enumerate(seeds):
            row: Datum = {"budget": label, "seed": seed}
            for g in groups:
                row[f"b{g}"] = _finite(benefit[k, g])
                row[f"c{g}"] = _finite(one.cost[k, g])
            rows.append(row)
    return rows


def _keys(audit: Audit) -> list[Datum]:
    """Names of pairs and groups by the short keys that transforms use."""
    names = [isolated(name) for name in audit.subject.groups]
    pairs = [
        {"key": f"d{k}", "name": f"{names[i]} − {names[j]}"}
        for k, (i, j) in enumerate(shown_pairs(audit))
    ]
    return [*pairs, *({"key": f"c{g}", "name": names[g]} for g in shown_groups(audit))]


def _pairs(audit: Audit) -> list[Datum]:
    """One row per budget, pair and audited floor: the disparity and its interval."""
    return [
        _pair(audit, (label, budget), (pair, floor, found))
        for label, budget in zip(budget_labels(audit), audit.budgets, strict=True)
        for pair in budget.pairs[:MOST_PAIRS]
        for floor, found in _at_floors(audit.plan, pair)
    ]


def _pair(
    audit: Audit, at: tuple[str, BudgetResult], row: tuple[PairResult, float, Summary]
) -> Datum:
    (label, budget), (pair, floor, found) = at, row
    rate = rate_difference(budget, pair)
    explains = floor == audit.plan.floor and status(budget)
    null = pair.pcer_disparity.null_interval if explains else None
    return {
        "budget": label,
        "line": with_status(budget),
        "pair": pair_name(pair.groups),
        "status": status(budget),
        "floor": floor,
        **_interval("", found.mean, found.ci),
        **_sizes(found),
        "law": None if rate is None else abs(rate) / floor,
        "null_low": null[0] if null else None,
        "null_high": null[1] if null else None,
    }


def _sizes(found: Summary) -> Datum:
    """The interval on a logarithmic axis: without sign; one that holds 0 has no lower end."""
    mean, ci = found.mean, found.ci
    low, high = sorted(map(abs, ci)) if ci else (None, None)
    holds_zero = bool(ci and ci[0] <= 0 <= ci[1])
    return {
        "size": abs(mean) if mean else None,
        "sign": ("below 0" if mean < 0 else "above 0") if mean else None,
        "size_low": None if holds_zero else low,
        "size_high": high,
    }


def _at_floors(plan: Plan, pair: PairResult) -> list[tuple[float, Summary]]:
    rows: dict[float, Summary] = {row.floor: row for row in pair.floors}
    rows.setdefault(plan.floor, pair.pcer_disparity)
    return sorted(rows.items())


def _budget(audit: Audit, budget: BudgetResult) -> Datum:
    label = budget_labels(audit)[audit.budgets.index(budget)]
    return {"budget": label, "status": status(budget)}


def _outcomes(audit: Audit) -> list[Datum]:
    rows = []
    for label, budget in zip(budget_labels(audit), audit.budgets, strict=True):
        gaps = (budget.demographic_parity_gap, budget.equalized_odds_gap)
        for name, found in zip(OUTCOME_MEASURES, gaps, strict=True):
            rows.append({"budget": label, "measure": name, **_interval("", found.mean, found.ci)})
    return rows


def _groups(audit: Audit) -> list[Datum]:
    """One row per budget and group: gap, null band, cost estimate and benefit with intervals."""
    return [
        {
            "id": f"{label}|c{g}",
            "budget": label,
            "model": "" if budget.model is None else isolated(budget.model),
            "epsilon": short_budget(budget.epsilon),
            "order": k,
            "group": isolated(audit.subject.groups[g]),
            "resolved": _resolved(budget.groups[audit.subject.groups[g]].resolved),
            **_group(budget.groups[audit.subject.groups[g]], audit),
        }
        for k, (label, budget) in enumerate(zip(budget_labels(audit), audit.budgets, strict=True))
        for g in shown_groups(audit)
    ]


def _group(group: GroupResult, audit: Audit) -> Datum:
    null = group.null_gap
    noise = group.noise_level if audit.proxy.is_from_counts else None  # drawn beside the gap
    error = group.cost.standard_error
    return {
        **_interval("gap_", group.overfitting_gap.mean, group.overfitting_gap.ci),
        "noise": null.mean if null else noise,
        "null_low": null.interval[0] if null else None,
        "null_high": null.interval[1] if null else None,
        **_estimate("cost_", group.cost.value, error, audit.plan),
        **_interval("benefit_", group.benefit.mean, group.benefit.ci),
    }


def _proxies(audit: Audit, measured: Mapping[str, Sequence[Measured]]) -> list[Datum]:
    """Cost estimates of every proxy that the release carries, not only of the plan's."""
    rows = []
    for k, label in enumerate(budget_labels(audit)):
        for proxy, by_budget in measured.items():
            if (exposed := by_budget[k].exposed) is not None:
                of_budget = {"budget": label, "proxy": isolated(proxy_named(proxy).label)}
                rows += [{**of_budget, **row} for row in _proxy(audit, exposed)]
    return rows


def _proxy(audit: Audit, exposed: Exposed) -> list[Datum]:
    value, error = exposed.value, np.sqrt(exposed.alone)
    return [
        {
            "group": isolated(audit.subject.groups[g]),
            **_estimate("", _finite(value[g]), _finite(error[g]), audit.plan),
        }
        for g in shown_groups(audit)
    ]


def _interval(prefix: str, mean: float | None, ci: tuple[float, float] | None) -> Datum:
    low, high = ci or (None, None)
    return {f"{prefix}mean": mean, f"{prefix}low": low, f"{prefix}high": high}


def _estimate(prefix: str, value: float | None, error: float | None, plan: Plan) -> Datum:
    """A normal interval at the plan's confidence level."""
    if value is None or error is None:
        return _interval(prefix, value, None)
    reach = NormalDist().inv_cdf(0.5 + plan.confidence_level / 2) * error
    return _interval(prefix, value, (value - reach, value + reach))


def _resolved(resolved: bool) -> str:
    return "resolved" if resolved else "not resolved"


def _finite(value: float | np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None
