"""Does PCER rank budgets as demographic parity and equalized odds do?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pcer import metrics
from pcer.measuring.checks.arrays import Facts
from pcer.measuring.measure import Measured, measure_costs
from pcer.metrics import FloatArray
from pcer.paper.algorithm1 import TIE_TOLERANCE, smallest, spread
from pcer.paper.records import AsPublished
from pcer.release import panels
from pcer.release.attack_kinds import GAP, proxy_named
from pcer.statistics import SIGNIFICANCE, holm, upper_p

if TYPE_CHECKING:
    from pcer.auditing.record import Audit, BudgetResult


class Ranking(NamedTuple):
    """Budgets from smallest to largest gap, by one measure; several may be best."""

    measure: str
    budgets: list[float | None]
    best: list[float | None]


class EqualGapClaim(NamedTuple):
    """What passing both audits would claim (Proposition 3): equal costs.

    Is it refuted?
    """

    epsilon: float | None
    groups: tuple[str, str]
    cost_difference: float
    refuted: bool


class Comparison(NamedTuple):
    """PCER beside demographic parity and equalized odds, over the budgets of one model."""

    model: str | None
    rankings: list[Ranking]
    ranking_disagreement: dict[str, bool | None]
    # Budgets and pairs whose disparity and rate difference have opposite signs.
    opposite: list[tuple[float | None, tuple[str, str]]]
    equal_gap_claims: list[EqualGapClaim]
    # By pair, Pearson's r over budgets of disparity and rate difference.
    correlations: dict[tuple[str, str], float | None]


def comparisons(audit: Audit) -> list[Comparison]:
    """PCER by the gap beside demographic parity and equalized odds, for each model of an audit."""
    return [
        _comparison([b for b in audit.budgets if b.model == published.model], published)
        for published in audit.published
    ]


def _comparison(budgets: Sequence[BudgetResult], published: AsPublished) -> Comparison:
    outcome_only = ("demographic_parity_gap", "equalized_odds_gap")
    found = [
        [pair.pcer_disparity for pair in budget.pairs] for budget in published.budgets
    ]
    measures = {
        "pcer_disparity": [spread([each.mean for each in pairs]) for pairs in found],
        "pcer_disparity_null": [
            spread([each.null_mean for each in pairs]) for pairs in found
        ],
        **{
            gap: [getattr(budget, gap).mean for budget in budgets]
            for gap in outcome_only
        },
    }
    rankings = []
    for name, values in measures.items():
        both = zip(values, budgets, strict=True)
        ranked = sorted(
            (v, each.budget, each.epsilon) for v, each in both if v is not None
        )
        best = smallest([budget.epsilon for budget in budgets], values)
        rankings.append(Ranking(name, [epsilon for *_, epsilon in ranked], best))
    ours = set(rankings[0].best)
    claims = []
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    opposite: list[tuple[float | None, tuple[str, str]]] = []
    by_gap = (each.mean for pairs in found for each in pairs)
    for budget, pair in ((each, pair) for each in budgets for pair in each.pairs):
        first, second = (budget.groups[name].benefit.mean for name in pair.groups)
        disparity = next(by_gap)
        known_points = points.setdefault(pair.groups, [])
        if disparity is not None and first is not None and second is not None:
            known_points.append((disparity, first - second))
            if disparity * (first - second) < 0:
                opposite.append((budget.epsilon, pair.groups))
        group = pair.exposure.group
        difference = pair.exposure.difference.value
        if pair.exposure.p_value is not None and difference is not None:
            claims.append(
                EqualGapClaim(budget.epsilon, pair.groups, difference, bool(group))
            )
    return Comparison(
        model=published.model,
        rankings=rankings,
        ranking_disagreement={
            other.measure: ours.isdisjoint(other.best) if ours and other.best else None
            for other in rankings[1:]
        },
        opposite=opposite,
        equal_gap_claims=claims,
        correlations={
            pair: pearson(*np.array(xy).reshape(-1, 2).T) for pair, xy in points.items()
        },
    )


def pearson(x: FloatArray, y: FloatArray) -> float | None:
    """Pearson r where both are known; None for fewer than three, or if one varies by rounding."""
    is_known = np.isfinite(x) & np.isfinite(y)
    columns = x[is_known], y[is_known]
    if is_known.sum() < 3 or any(
        np.ptp(x) <= TIE_TOLERANCE * np.abs(x).max() for x in columns
    ):
        return None
    return float(np.corrcoef(*columns)[0, 1])


class ProxyAgreement(NamedTuple):
    """One attack beside the overfitting gap: correlations of costs and disparities, and counts."""

    proxy: str
    correlation: float | None
    n_settings: int
    n_same_sign: int
    n_larger_disparity: int
    disparity_correlation: float | None
    # Proposition 1 as a measurement: cells in which the advantage is above the gap,
    # those of them beyond the errors of both (one-sided, Holm), and all; None for a
    # cost that is no advantage.
    exceeding: tuple[int, int, int] | None


def agreement(audit: Audit) -> list[ProxyAgreement]:
    """Every attack that the audited release has beside the gap."""
    release = audit.sources[0]
    names = audit.subject.groups
    inflation = release.kept(Facts).inflation
    by_cost = measure_costs(panels(release), audit.plan, inflation=inflation)
    # By the audit's own names, which may be spelt otherwise than in the release: see
    # ``as_shown``.
    pairs = [
        [names.index(name) for name in pair.groups] for pair in audit.budgets[0].pairs
    ]
    gap_cost, gap_error, ours = _costs_and_disparities(by_cost.pop(GAP.name), pairs)
    found = []
    for name in sorted(by_cost):
        cost, error, theirs = _costs_and_disparities(by_cost[name], pairs)
        exceeding = None
        if proxy_named(name).scale.is_advantage:
            excess = cost - gap_cost
            p = holm(upper_p(excess, np.hypot(error, gap_error)))
            counts = (
                (excess > 0).sum(),
                (p <= SIGNIFICANCE).sum(),
                np.isfinite(excess).sum(),
            )
            exceeding = int(counts[0]), int(counts[1]), int(counts[2])
        found.append(
            ProxyAgreement(
                proxy=name,
                correlation=pearson(gap_cost, cost),
                n_settings=int(np.isfinite(ours * theirs).sum()),
                n_same_sign=int((ours * theirs > 0).sum()),
                n_larger_disparity=int((np.abs(theirs) >= np.abs(ours)).sum()),
                disparity_correlation=pearson(ours, theirs),
                exceeding=exceeding,
            )
        )
    return found


def _costs_and_disparities(
    measured: Sequence[Measured], pairs: Sequence[Sequence[int]]
) -> list[FloatArray]:
    """Over budgets: mean costs of groups, their standard errors, mean disparities of pairs."""
    rows = []
    (first, second) = np.array(pairs).T
    for setting in measured:
        # The gap is clipped as published, all else signed; NaN where there is none.
        clipped = (
            np.maximum(setting.cost, 0.0) if setting.proxy == GAP else setting.cost
        )
        unknown = np.full(setting.cost.shape[1], np.nan)
        error = (
            unknown if setting.exposed is None else np.sqrt(setting.exposed.variance)
        )
        ratio = metrics.pcer(setting.benefit, setting.cost, floor=setting.floor).mean(
            axis=0
        )
        disparity = np.where(setting.is_pooled, np.nan, ratio[first] - ratio[second])
        rows.append((clipped.mean(axis=0), error, disparity))
    return [np.stack(part) for part in zip(*rows, strict=True)]
