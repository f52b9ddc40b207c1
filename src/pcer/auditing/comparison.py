"""Algorithm 1 over budgets and floors, and PCER beside the outcome-only measures.

Works on the finished budgets of an audit: nothing here looks at a run again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from pcer.auditing.file import (
    Algorithm1,
    BudgetResult,
    Comparison,
    Correlation,
    DirectionDisagreement,
    EqualGapClaim,
    EquitableBudget,
    NormChoice,
    PairResult,
    PublishedBudget,
    Ranking,
)
from pcer.auditing.plan import Plan
from pcer.auditing.verdict import GridVerdict, Verdict
from pcer.metrics import BoolArray, FloatArray
from pcer.release import Outcome

TIE_TOLERANCE = 1e-12
"""Budgets whose values differ by less than this share are tied: rounding, not preference."""

AS_PUBLISHED = "as published; not a recommendation"
RESOLVED_CHOICE = "as published; every cost at the chosen budgets is resolved"

Budgets = Sequence[BudgetResult]
Measure = Callable[[BudgetResult], float | None]


def algorithm1(
    budgets: Sequence[PublishedBudget],
    plan: Plan,
    *,
    costs: Sequence[FloatArray],
    resolved: BoolArray,
) -> Algorithm1:
    """Part II of the paper's Algorithm 1, and the same over the informative floors.

    Args:
        budgets: one model's, the gap being the cost.
        plan: the floors.
        costs: per budget the cost estimates of its groups.
        resolved: (budget, group) whether they are.
    """
    chosen = [_equitable_budget(budgets, k, floor) for k, floor in enumerate(plan.floors)]
    told = [float(cost) for cost in np.array(costs)[resolved]]
    informative = [floor for floor in plan.floors if told and floor < max(told)]
    return Algorithm1(
        equitable_budget=chosen,
        verdict=_grid_verdict(chosen),
        informative_floors=informative,
        informative_verdict=(
            _grid_verdict([row for row in chosen if row.floor in informative])
            if informative
            else None
        ),
        label=_label(budgets, chosen, resolved),
    )


def compare(
    budgets: Budgets, claims: list[EqualGapClaim], outcome: Outcome, *, model: str | None = None
) -> Comparison:
    """Rankings, disagreements, the equal-gap claim, correlations and the norms' choices."""
    rankings = [
        _ranking("pcer_disparity", budgets, disparity_size),
        _ranking("demographic_parity_gap", budgets, _parity),
        _ranking("equalized_odds_gap", budgets, lambda b: b.equalized_odds_gap.mean),
    ]
    ours = set(rankings[0].best)
    return Comparison(
        model=model,
        rankings=rankings,
        ranking_disagreement={
            other.measure: ours.isdisjoint(other.best) if ours and other.best else None
            for other in rankings[1:]
        },
        direction_disagreement=_directions(budgets),
        equal_gap_claims=claims,
        correlations=[_correlation(budgets, k) for k in range(len(budgets[0].pairs))],
        norms=_norms(budgets, outcome),
    )


def disparity_size(budget: BudgetResult) -> float | None:
    """How far apart the groups' mean PCERs are at the plan's floor; of two groups |disparity|."""
    return _size([pair.pcer_disparity.mean for pair in budget.pairs])


def budgets_of_smallest(budgets: Budgets, measure: Measure) -> list[float | None]:
    """All budgets tied for the smallest value; those without a value do not take part."""
    return _smallest([(measure(budget), budget.epsilon) for budget in budgets])


def _smallest(values: Sequence[tuple[float | None, float | None]]) -> list[float | None]:
    known = [(value, epsilon) for value, epsilon in values if value is not None]
    if not known:
        return []
    least = min(value for value, _ in known)
    slack = TIE_TOLERANCE * max(abs(value) for value, _ in known)
    return [epsilon for value, epsilon in known if value <= least + slack]


def rate_difference(budget: BudgetResult, pair: PairResult) -> float | None:
    """Mean benefit of the pair's first group minus that of its second."""
    first, second = (budget.groups[name].benefit.mean for name in pair.groups)
    return None if first is None or second is None else first - second


def _size(disparities: Sequence[float | None]) -> float | None:
    known = [value for value in disparities if value is not None]
    if len(known) < len(disparities):
        return None
    return max(0.0, *known) - min(0.0, *known)


def _parity(budget: BudgetResult) -> float | None:
    return budget.demographic_parity_gap.mean


def _equitable_budget(budgets: Sequence[PublishedBudget], k: int, floor: float) -> EquitableBudget:
    shares = [pair.floors[k].floor_dominated_share for budget in budgets for pair in budget.pairs]
    sizes = [(_size([pair.floors[k].mean for pair in one.pairs]), one.epsilon) for one in budgets]
    return EquitableBudget(
        floor=floor,
        budgets=_smallest(sizes),
        repeats_demographic_parity=all(share == 1.0 for share in shares),
    )


def _grid_verdict(chosen: Sequence[EquitableBudget]) -> GridVerdict:
    distinct = {epsilon for row in chosen for epsilon in row.budgets}
    return Verdict.FLOOR_ROBUST if len(distinct) == 1 else Verdict.FLOOR_SENSITIVE


def _label(
    budgets: Sequence[PublishedBudget], chosen: Sequence[EquitableBudget], resolved: BoolArray
) -> str:
    named = {epsilon for row in chosen for epsilon in row.budgets}
    told = [
        bool(row.all()) for one, row in zip(budgets, resolved, strict=True) if one.epsilon in named
    ]
    return RESOLVED_CHOICE if told and all(told) else AS_PUBLISHED


def _all_resolved(budget: BudgetResult) -> bool:
    return all(group.resolved for group in budget.groups.values())


def _ranking(name: str, budgets: Budgets, measure: Measure) -> Ranking:
    known = [(value, budget) for budget in budgets if (value := measure(budget)) is not None]
    ordered = sorted(known, key=lambda item: (item[0], item[1].budget))
    return Ranking(
        measure=name,
        budgets=[budget.epsilon for _, budget in ordered],
        best=budgets_of_smallest(budgets, measure),
    )


def _directions(budgets: Budgets) -> list[DirectionDisagreement]:
    return [
        DirectionDisagreement(epsilon=budget.epsilon, groups=pair.groups)
        for budget in budgets
        for pair in budget.pairs
        if (rate := rate_difference(budget, pair)) is not None
        and (mean := pair.pcer_disparity.mean) is not None
        and mean * rate < 0
    ]


def _correlation(budgets: Budgets, k: int) -> Correlation:
    points = [
        (budget.budget, pair.pcer_disparity.mean, rate)
        for budget in budgets
        if (pair := budget.pairs[k]).pcer_disparity.mean is not None
        and (rate := rate_difference(budget, pair)) is not None
    ]
    late = [point for point in points if point[0] >= 1]
    return Correlation(
        groups=budgets[0].pairs[k].groups,
        n_budgets=len(points),
        r=pearson([(x, y) for _, x, y in points]),
        n_budgets_from_1=len(late),
        r_from_1=pearson([(x, y) for _, x, y in late]),
    )


def pearson(points: list[tuple[float, float]]) -> float | None:
    """Pearson r; None for fewer than three points, or where one side varies by rounding only."""
    if len(points) < 3:
        return None
    columns = [np.array(column) for column in zip(*points, strict=True)]
    if any(np.ptp(column) <= TIE_TOLERANCE * np.abs(column).max() for column in columns):
        return None
    x, y = (column - column.mean() for column in columns)
    scale = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    return max(-1.0, min(1.0, float((x * y).sum()) / scale)) if scale > 0 else None


def _norms(budgets: Budgets, outcome: Outcome) -> list[NormChoice]:
    sign = -1.0 if outcome == "benefit" else 1.0
    rule = "largest smallest benefit" if outcome == "benefit" else "smallest largest harm rate"
    table: list[tuple[str, str, Measure, bool]] = [
        ("equal outcomes", "smallest demographic parity gap", _parity, False),
        ("equal exposure", "smallest difference of cost estimates", _cost_spread, True),
        ("worst-off group best off", rule, lambda b: _worst_off(b, sign), False),
        ("compensatory (PCER)", "smallest PCER disparity", disparity_size, True),
    ]
    choices = []
    for norm, rule, measure, needs_costs in table:
        best = budgets_of_smallest(budgets, measure)
        resolved = [_all_resolved(b) for b in budgets if b.epsilon in best]
        choices.append(
            NormChoice(
                norm=norm,
                rule=rule,
                budgets=best,
                costs_resolved=bool(resolved) and all(resolved) if needs_costs else None,
            )
        )
    return choices


def _cost_spread(budget: BudgetResult) -> float | None:
    values = [group.cost.value for group in budget.groups.values()]
    known = [value for value in values if value is not None]
    return max(known) - min(known) if len(known) == len(values) else None


def _worst_off(budget: BudgetResult, sign: float) -> float | None:
    rates = [group.benefit.mean for group in budget.groups.values()]
    known = [sign * rate for rate in rates if rate is not None]
    return max(known) if len(known) == len(rates) else None
