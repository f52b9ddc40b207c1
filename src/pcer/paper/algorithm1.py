"""Which budget does the paper's Algorithm 1 choose, and is that robust to the floor?"""

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
    """Part II of the paper's Algorithm 1 for each model, and again over the informative floors."""
    resolved = tested.evidence[GAP.name,].resolved
    published = []
    for model in dict.fromkeys(panel.model for panel in tested.panels):
        settings = [k for k, panel in enumerate(tested.panels) if panel.model == model]
        own = [budgets[k] for k in settings]
        chosen = []
        detected = list[float]()
        for at, floor in enumerate(tested.plan.floors):
            rows = [[pair.floors[at] for pair in budget.pairs] for budget in own]
            sizes = [spread([row.mean for row in of_pairs]) for of_pairs in rows]
            tied = smallest([budget.epsilon for budget in own], sizes)
            repeats = all(
                row.floor_dominated_share == 1.0
                for of_pairs in rows
                for row in of_pairs
            )
            chosen.append(
                EquitableBudget(
                    floor=floor, budgets=tied, repeats_demographic_parity=repeats
                )
            )
        for k in settings:
            if (exposed := tested.measured[GAP.name][k].exposed) is not None:
                detected += exposed.value[resolved[k]].tolist()
        informative = [
            row for row in chosen if row.floor < max(detected, default=-math.inf)
        ]
        named = {epsilon for row in chosen for epsilon in row.budgets}
        is_resolved = [
            resolved[k].all() for k in settings if budgets[k].epsilon in named
        ]
        found = records.Algorithm1(
            equitable_budget=chosen,
            verdict=_grid_verdict(chosen),
            informative_floors=[row.floor for row in informative],
            informative_verdict=_grid_verdict(informative),
            label=RESOLVED_CHOICE if is_resolved and all(is_resolved) else AS_PUBLISHED,
        )
        published.append(
            AsPublished(model=model, cost=GAP.name, budgets=own, algorithm1=found)
        )
    return published


def _grid_verdict(chosen: Sequence[EquitableBudget]) -> GridVerdict | None:
    distinct = {epsilon for row in chosen for epsilon in row.budgets}
    verdict = Verdict.FLOOR_ROBUST if len(distinct) == 1 else Verdict.FLOOR_SENSITIVE
    return verdict if distinct else None


def spread(disparities: Sequence[float | None]) -> float | None:
    """How far apart groups are, of their disparities to the first; None if one is not known."""
    values = [value for value in disparities if value is not None]
    return (
        max(0.0, *values) - min(0.0, *values)
        if len(values) == len(disparities)
        else None
    )


def smallest(
    budgets: Sequence[float | None], values: Sequence[float | None]
) -> list[float | None]:
    """All budgets tied for the smallest value; those without a value do not take part."""
    ranked = [
        (v, epsilon)
        for v, epsilon in zip(values, budgets, strict=True)
        if v is not None
    ]
    slack = TIE_TOLERANCE * max((abs(value) for value, _ in ranked), default=0.0)
    least = min((value for value, _ in ranked), default=0.0)
    return [epsilon for value, epsilon in ranked if value <= least + slack]
