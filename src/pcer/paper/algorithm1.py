"""Which budget does the paper's Algorithm 1 choose, and is that robust to the floor?

``as_published`` is part of every audit. Algorithm 1 chooses the budget with the
smallest disparity, at every floor of a grid; the audit repeats it over the floors that
say something about exposures. ``comparisons`` uses ``spread`` and ``smallest`` too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pcer.measuring.evidence import Tested
from pcer.measuring.verdict import GridVerdict, Verdict
from pcer.paper import records
from pcer.paper.records import AsPublished, EquitableBudget
from pcer.release.attack_kinds import GAP

# Budgets whose values differ by less than this share are tied: rounding, not
# preference.
TIE_TOLERANCE = 1e-12
AS_PUBLISHED = "as published; not a recommendation"
RESOLVED_CHOICE = "as published; every exposure at the chosen budgets is detected"


def as_published(
    tested: Tested, budgets: Sequence[records.PublishedBudget]
) -> list[AsPublished]:
    """Part II of the paper's Algorithm 1 for each model.

    ``budgets`` are the paper's numbers of every setting, in the release's order.
    """
    published = []
    for model in dict.fromkeys(panel.model for panel in tested.panels):
        settings = [k for k, panel in enumerate(tested.panels) if panel.model == model]
        of_model = [budgets[k] for k in settings]
        published.append(
            AsPublished(
                model=model,
                cost=GAP.name,
                budgets=of_model,
                algorithm1=_algorithm1(tested, settings, of_model),
            )
        )
    return published


def _algorithm1(
    tested: Tested, settings: Sequence[int], budgets: Sequence[records.PublishedBudget]
) -> records.Algorithm1:
    """Over the whole grid, and again over the informative floors.

    A floor is informative below the largest detected gap: one above every gap makes the
    disparities a copy of the differences of rates.
    """
    chosen = [
        _equitable_budget(budgets, number, floor)
        for number, floor in enumerate(tested.plan.floors)
    ]
    largest = _largest_detected(tested, settings)
    informative = [row for row in chosen if row.floor < largest]
    is_resolved = _is_resolved(tested, settings, budgets, _budgets_of(chosen))
    return records.Algorithm1(
        equitable_budget=chosen,
        verdict=_grid_verdict(chosen),
        informative_floors=[row.floor for row in informative],
        informative_verdict=_grid_verdict(informative),
        label=RESOLVED_CHOICE if is_resolved else AS_PUBLISHED,
    )


def _equitable_budget(
    budgets: Sequence[records.PublishedBudget], number: int, floor: float
) -> EquitableBudget:
    """The budgets of smallest disparity at one floor, by its number on the grid."""
    sizes = []
    repeats = True
    for budget in budgets:
        rows = [pair.floors[number] for pair in budget.pairs]
        sizes.append(spread([row.mean for row in rows]))
        repeats = repeats and all(row.floor_dominated_share == 1.0 for row in rows)
    return EquitableBudget(
        floor=floor,
        budgets=smallest([budget.epsilon for budget in budgets], sizes),
        repeats_demographic_parity=repeats,
    )


def _largest_detected(tested: Tested, settings: Sequence[int]) -> float:
    """The largest gap that is detected in some group; minus infinity if none is."""
    resolved = tested.evidence[GAP.name,].resolved
    detected = [-math.inf]
    for k in settings:
        exposed = tested.measured[GAP.name][k].exposed
        if exposed is not None:
            detected += exposed.value[resolved[k]].tolist()
    return max(detected)


def _is_resolved(
    tested: Tested,
    settings: Sequence[int],
    budgets: Sequence[records.PublishedBudget],
    chosen: set[float | None],
) -> bool:
    """Whether every group's gap is detected at every chosen budget; one must be."""
    resolved = tested.evidence[GAP.name,].resolved
    at_chosen = [
        resolved[k].all()
        for k, budget in zip(settings, budgets, strict=True)
        if budget.epsilon in chosen
    ]
    return bool(at_chosen) and all(at_chosen)


def _grid_verdict(chosen: Sequence[EquitableBudget]) -> GridVerdict | None:
    """Robust if one budget is chosen at all of these floors; None if none is."""
    n_budgets = len(_budgets_of(chosen))
    if n_budgets == 0:
        return None
    return Verdict.FLOOR_ROBUST if n_budgets == 1 else Verdict.FLOOR_SENSITIVE


def _budgets_of(chosen: Sequence[EquitableBudget]) -> set[float | None]:
    return set().union(*[row.budgets for row in chosen])


def spread(disparities: Sequence[float | None]) -> float | None:
    """How far apart groups are, of their disparities to the first.

    None if one of them is not known.
    """
    values = [value for value in disparities if value is not None]
    if len(values) < len(disparities):
        return None
    return max(0.0, *values) - min(0.0, *values)


def smallest(
    budgets: Sequence[float | None], values: Sequence[float | None]
) -> list[float | None]:
    """All budgets tied for the smallest value; those without a value are left out."""
    ranked = [
        (value, epsilon)
        for value, epsilon in zip(values, budgets, strict=True)
        if value is not None
    ]
    slack = TIE_TOLERANCE * max((abs(value) for value, _ in ranked), default=0.0)
    least = min((value for value, _ in ranked), default=0.0)
    return [epsilon for value, epsilon in ranked if value <= least + slack]
