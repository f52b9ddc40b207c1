"""Algorithm 1 over budgets and floors, and PCER beside the outcome-only measures.

Works on the finished budgets of an audit: nothing here looks at a run again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from pcer.auditing.file import (
    Algorithm1,
    Audit,
    BudgetResult,
    EquitableBudget,
    PairResult,
    PublishedBudget,
)
from pcer.auditing.plan import Plan
from pcer.auditing.verdict import GridVerdict, Verdict
from pcer.files import Record
from pcer.metrics import BoolArray, FloatArray

TIE_TOLERANCE = 1e-12
"""Budgets whose values differ by less than this share are tied: rounding, not preference."""

AS_PUBLISHED = "as published; not a recommendation"
RESOLVED_CHOICE = "as published; every cost at the chosen budgets is resolved"

Budgets = Sequence[BudgetResult]
Measure = Callable[[BudgetResult], float | None]


class Ranking(Record):
    """Budgets from smallest to largest gap, by one measure."""

    measure: str
    budgets: list[float | None]
    best: list[float | None]


class DirectionDisagreement(Record):
    """A budget and pair whose disparity and rate difference have opposite signs."""

    epsilon: float | None
    groups: tuple[str, str]


class EqualGapClaim(Record):
    """What passing both audits would claim (Proposition 3): equal costs. Can it be refuted?"""

    epsilon: float | None
    groups: tuple[str, str]
    cost_difference: float
    standard_error: float
    p_value: float
    refuted: bool


class Correlation(Record):
    """Pearson r over budgets between disparity and rate difference. Descriptive only."""

    groups: tuple[str, str]
    n_budgets: int
    r: float | None
    n_budgets_from_1: int
    r_from_1: float | None


class Comparison(Record):
    """PCER beside demographic parity and equalized odds, over the budgets of one model."""

    model: str | None
    rankings: list[Ranking]
    ranking_disagreement: dict[str, bool | None]
    direction_disagreement: list[DirectionDisagreement]
    equal_gap_claims: list[EqualGapClaim]
    correlations: list[Correlation]


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


def comparisons(audit: Audit) -> list[Comparison]:
    """PCER beside demographic parity and equalized odds, for each model of an audit."""
    return [
        _comparison([one for one in audit.budgets if one.model == model], model)
        for model in audit.models
    ]


def _comparison(budgets: Budgets, model: str | None) -> Comparison:
    """Rankings, disagreements, the equal-gap claim and correlations."""
    rankings = [
        _ranking("pcer_disparity", budgets, disparity_size),
        _ranking("demographic_parity_gap", budgets, lambda b: b.demographic_parity_gap.mean),
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
        equal_gap_claims=[claim for budget in budgets for claim in _claims(budget)],
        correlations=[_correlation(budgets, k) for k in range(len(budgets[0].pairs))],
    )


def _claims(budget: BudgetResult) -> list[EqualGapClaim]:
    """Proposition 3: passing both audits claims equal costs; these are the tests of it.

    What placebo groups speak against is refuted all the same: the claim is about these groups.
    """
    return [
        EqualGapClaim(
            epsilon=budget.epsilon,
            groups=pair.groups,
            cost_difference=difference.value,
            standard_error=difference.standard_error,
            p_value=difference.p_value,
            refuted=pair.more_exposed is not None or pair.exposure_answer.downgraded is not None,
        )
        for pair in budget.pairs
        if (difference := pair.exposure).p_value is not None
        and difference.value is not None
        and difference.standard_error is not None
    ]


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
