"""The paper's own view of an audit: Algorithm 1, rankings beside parity, attacks beside the gap.

``algorithm1`` is part of every audit; ``comparisons`` and ``agreement`` are made of a finished one
when they are asked for. Descriptive: seeds and budgets share records, so counts over settings are
no independent votes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer import metrics
from pcer.auditing.checks import variance_inflation
from pcer.auditing.file import (
    Algorithm1,
    Audit,
    BudgetResult,
    EquitableBudget,
    PairResult,
    PublishedBudget,
)
from pcer.auditing.measure import Measured, Pair, measure_costs
from pcer.auditing.plan import Plan
from pcer.auditing.verdict import GridVerdict, Verdict
from pcer.metrics import BoolArray, FloatArray
from pcer.release import panels
from pcer.release.proxies import GAP, proxy_named
from pcer.statistics import SIGNIFICANCE, holm, upper_p

TIE_TOLERANCE = 1e-12
"""Budgets whose values differ by less than this share are tied: rounding, not preference."""
AS_PUBLISHED = "as published; not a recommendation"
RESOLVED_CHOICE = "as published; every cost at the chosen budgets is resolved"


# Algorithm 1


def algorithm1(
    budgets: Sequence[PublishedBudget],
    plan: Plan,
    *,
    costs: Sequence[FloatArray],
    resolved: BoolArray,
) -> Algorithm1:
    """Part II of the paper's Algorithm 1 for one model, and the same over the informative floors.

    ``costs`` has each budget's groups, and ``resolved`` (budget, group) whether they are.
    """
    chosen = []
    for k, floor in enumerate(plan.floors):
        at_floor = [[pair.floors[k] for pair in budget.pairs] for budget in budgets]
        sizes = [spread([row.mean for row in rows]) for rows in at_floor]
        shares = [row.floor_dominated_share for rows in at_floor for row in rows]
        chosen.append(
            EquitableBudget(
                floor=floor,
                budgets=smallest([budget.epsilon for budget in budgets], sizes),
                repeats_demographic_parity=all(share == 1.0 for share in shares),
            )
        )
    largest = max(np.array(costs)[resolved].tolist(), default=-math.inf)
    informative = [row for row in chosen if row.floor < largest]
    named = {epsilon for row in chosen for epsilon in row.budgets}
    is_resolved = [
        bool(row.all())
        for budget, row in zip(budgets, resolved, strict=True)
        if budget.epsilon in named
    ]
    return Algorithm1(
        equitable_budget=chosen,
        verdict=_grid_verdict(chosen),
        informative_floors=[row.floor for row in informative],
        informative_verdict=_grid_verdict(informative) if informative else None,
        label=RESOLVED_CHOICE if is_resolved and all(is_resolved) else AS_PUBLISHED,
    )


def _grid_verdict(chosen: Sequence[EquitableBudget]) -> GridVerdict:
    distinct = {epsilon for row in chosen for epsilon in row.budgets}
    return Verdict.FLOOR_ROBUST if len(distinct) == 1 else Verdict.FLOOR_SENSITIVE


def spread(disparities: Sequence[float | None]) -> float | None:
    """How far apart groups are, of their disparities to the first; None if one is not known."""
    values = [value for value in disparities if value is not None]
    return max(0.0, *values) - min(0.0, *values) if len(values) == len(disparities) else None


def smallest(budgets: Sequence[float | None], values: Sequence[float | None]) -> list[float | None]:
    """All budgets tied for the smallest value; those without a value do not take part."""
    ranked = [(v, epsilon) for v, epsilon in zip(values, budgets, strict=True) if v is not None]
    if not ranked:
        return []
    slack = TIE_TOLERANCE * max(abs(value) for value, _ in ranked)
    least = min(value for value, _ in ranked)
    return [epsilon for value, epsilon in ranked if value <= least + slack]


# PCER beside the outcome-only measures


class Ranking(NamedTuple):
    """Budgets from smallest to largest gap, by one measure; several may be best."""

    measure: str
    budgets: list[float | None]
    best: list[float | None]


class EqualGapClaim(NamedTuple):
    """What passing both audits would claim (Proposition 3): equal costs. Is it refuted?"""

    epsilon: float | None
    groups: tuple[str, str]
    cost_difference: float
    refuted: bool


class Comparison(NamedTuple):
    """PCER beside demographic parity and equalized odds, over the budgets of one model."""

    model: str | None
    rankings: list[Ranking]
    ranking_disagreement: dict[str, bool | None]
    opposite: list[tuple[float | None, tuple[str, str]]]
    """Budgets and pairs whose disparity and rate difference have opposite signs."""
    equal_gap_claims: list[EqualGapClaim]
    correlations: dict[tuple[str, str], float | None]
    """By pair, Pearson's r over budgets of disparity and rate difference."""


def comparisons(audit: Audit) -> list[Comparison]:
    """PCER beside demographic parity and equalized odds, for each model of an audit."""
    return [
        _comparison([budget for budget in audit.budgets if budget.model == model], model)
        for model in audit.models
    ]


def _comparison(budgets: Sequence[BudgetResult], model: str | None) -> Comparison:
    disparities = [spread([pair.pcer_disparity.mean for pair in b.pairs]) for b in budgets]
    rankings = [
        _ranking("pcer_disparity", budgets, disparities),
        *(
            _ranking(gap, budgets, [getattr(budget, gap).mean for budget in budgets])
            for gap in ("demographic_parity_gap", "equalized_odds_gap")
        ),
    ]
    ours = set(rankings[0].best)
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    opposite: list[tuple[float | None, tuple[str, str]]] = []
    claims = []
    for budget in budgets:
        for pair in budget.pairs:
            disparity, rate = pair.pcer_disparity.mean, rate_difference(budget, pair)
            known = points.setdefault(pair.groups, [])
            if disparity is not None and rate is not None:
                known.append((disparity, rate))
                opposite += [(budget.epsilon, pair.groups)] if disparity * rate < 0 else []
            cost, answer = pair.exposure, pair.exposure_answer
            if cost.p_value is not None and cost.value is not None:
                # What placebo groups speak against is refuted all the same: it is about these.
                refuted = pair.more_exposed is not None or answer.downgraded is not None
                claims.append(EqualGapClaim(budget.epsilon, pair.groups, cost.value, refuted))
    return Comparison(
        model=model,
        rankings=rankings,
        ranking_disagreement={
            other.measure: ours.isdisjoint(other.best) if ours and other.best else None
            for other in rankings[1:]
        },
        opposite=opposite,
        equal_gap_claims=claims,
        correlations={groups: pearson(known) for groups, known in points.items()},
    )


def _ranking(name: str, budgets: Sequence[BudgetResult], values: Sequence[float | None]) -> Ranking:
    known = [(v, budget) for v, budget in zip(values, budgets, strict=True) if v is not None]
    ordered = sorted(known, key=lambda item: (item[0], item[1].budget))
    best = smallest([budget.epsilon for budget in budgets], values)
    return Ranking(name, [budget.epsilon for _, budget in ordered], best)


def rate_difference(budget: BudgetResult, pair: PairResult) -> float | None:
    """Mean benefit of the pair's first group minus that of its second."""
    first, second = (budget.groups[name].benefit.mean for name in pair.groups)
    return None if first is None or second is None else first - second


def pearson(points: Sequence[tuple[float, float]]) -> float | None:
    """Pearson r; None for fewer than three points, or where one side varies by rounding only."""
    if len(points) < 3:
        return None
    columns = [np.array(column) for column in zip(*points, strict=True)]
    if any(np.ptp(column) <= TIE_TOLERANCE * np.abs(column).max() for column in columns):
        return None
    x, y = (column - column.mean() for column in columns)
    scale = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    return max(-1.0, min(1.0, float((x * y).sum()) / scale)) if scale > 0 else None


# The attacks beside the gap


class ProxyAgreement(NamedTuple):
    """One attack beside the overfitting gap: correlations of costs and disparities, and counts."""

    proxy: str
    correlation: float | None
    n_settings: int
    n_same_sign: int
    n_larger_disparity: int
    disparity_correlation: float | None
    exceeding: tuple[int, int, int] | None
    """Proposition 1 as a measurement: cells in which the advantage is above the gap, those of them
    beyond the errors of both (one-sided, Holm), and all; None for a cost that is no advantage."""


def agreement(audit: Audit) -> list[ProxyAgreement]:
    """Every attack that the audited release has beside the gap."""
    release, plan = audit.sources[0], audit.plan
    by_setting = panels(release)
    by_cost = measure_costs(by_setting, plan, inflation=variance_inflation(release))
    # By the audit's own names, which may be spelt otherwise than in the release: see ``as_shown``.
    names = audit.subject.groups
    pairs = [
        (names.index(a), names.index(b)) for a, b in (p.groups for p in audit.budgets[0].pairs)
    ]
    gap = _costs_and_disparities(by_cost[GAP.name], pairs)
    return [
        _beside(gap, _costs_and_disparities(by_cost[name], pairs), name)
        for name in sorted(by_cost.keys() - {GAP.name})
    ]


def _costs_and_disparities(
    measured: Sequence[Measured], pairs: Sequence[Pair]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Over budgets: mean costs of groups, their standard errors, mean disparities of pairs.

    The gap is clipped as published, all else signed; NaN where there is none.
    """
    costs, errors, disparities = [], [], []
    first, second = np.array(pairs).T
    for one in measured:
        clipped = np.maximum(one.cost, 0.0) if one.proxy == GAP else one.cost
        costs.append(clipped.mean(axis=0))
        unknown = np.full(one.cost.shape[1], np.nan)
        errors.append(unknown if one.exposed is None else np.sqrt(one.exposed.variance))
        ratio = metrics.pcer(one.benefit, one.cost, floor=one.floor).mean(axis=0)
        disparities.append(np.where(one.is_pooled, np.nan, ratio[first] - ratio[second]))
    return np.stack(costs), np.stack(errors), np.stack(disparities)


def _beside(
    gap: tuple[FloatArray, FloatArray, FloatArray],
    attack: tuple[FloatArray, FloatArray, FloatArray],
    name: str,
) -> ProxyAgreement:
    disparities = _both(gap[2], attack[2])
    ours, theirs = np.array(disparities).reshape(-1, 2).T
    exceeding = None
    if proxy_named(name).scale.is_advantage:
        excess = attack[0] - gap[0]
        p = holm(upper_p(excess, np.hypot(attack[1], gap[1])))
        counts = (excess > 0).sum(), (p <= SIGNIFICANCE).sum(), np.isfinite(excess).sum()
        exceeding = int(counts[0]), int(counts[1]), int(counts[2])
    return ProxyAgreement(
        proxy=name,
        correlation=pearson(_both(gap[0], attack[0])),
        n_settings=len(disparities),
        n_same_sign=int((ours * theirs > 0).sum()),
        n_larger_disparity=int((np.abs(theirs) >= np.abs(ours)).sum()),
        disparity_correlation=pearson(disparities),
        exceeding=exceeding,
    )


def _both(first: FloatArray, second: FloatArray) -> list[tuple[float, float]]:
    """Where both are known, as pairs of numbers."""
    known = np.isfinite(first) & np.isfinite(second)
    return list(zip(first[known].tolist(), second[known].tolist(), strict=True))
