"""Do our cells of COMPAS keep the limits that were fixed before the run?

COMPAS alone has the paper's records and features. ``cells.to_page`` shows the table.

To add a limit: a case of ``_limit``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pcer.report.table import Table
from pcer.wording import budget_name, yes_no
from pcer_studies.tables.comparison import Comparison

ACCURACY = 0.01
ACCURACY_AT_STRONGEST = 0.02
PARITY_GAP = 0.02
NEAR_INTERVAL = 25.0
"""Largest distance that a cell of COMPAS may have."""
STRONGEST = 0.1
"""The strongest protection of the paper."""
LEAST_BUDGET = 0.5
"""From here on the disparity of COMPAS is held to a limit."""


@dataclass(frozen=True)
class Limit:
    """One cell, how far it is off, and how far it may be.

    Attributes:
        comparison: the cell.
        distance: how far our number is off.
        allowed: how far it may be off.
        rule: from what the distance is taken.
    """

    comparison: Comparison
    distance: float
    allowed: float
    rule: str

    @property
    def is_met(self) -> bool:
        """Whether the distance is allowed."""
        return self.distance <= self.allowed


def compas_limits(comparisons: Iterable[Comparison]) -> list[Table]:
    """The table of limits, where COMPAS was run."""
    rows = [_row(limit) for limit in find_limits(comparisons)]
    if not rows:
        return []
    return [
        Table(
            "COMPAS, held to fixed limits",
            ("ε", "quantity", "distance taken", "distance", "allowed", "met"),
            tuple(rows),
            n_labels=3,
            note=(
                "COMPAS has the paper's records and features, so it is held to limits "
                "fixed before the run. No-DP counts as a budget above 0.5."
            ),
        )
    ]


def find_limits(comparisons: Iterable[Comparison]) -> list[Limit]:
    """Every cell of the paper's COMPAS table that has a limit."""
    limits = []
    for comparison in comparisons:
        if comparison.published.name != "tab:compas-race":
            continue
        limit = _limit(comparison)
        if limit is not None:
            limits.append(limit)
    return limits


def _limit(comparison: Comparison) -> Limit | None:
    """None where a cell has no limit, or either side is not known."""
    if comparison.difference is None:
        return None
    epsilon = comparison.published.key.budgets[0]
    quantity = comparison.published.key.quantity
    distance = abs(comparison.difference)
    if quantity == "accuracy":
        allowed = ACCURACY_AT_STRONGEST if epsilon == STRONGEST else ACCURACY
        return Limit(comparison, distance, allowed, "from the published mean")
    if quantity == "demographic_parity_gap":
        return Limit(comparison, distance, PARITY_GAP, "from the published mean")
    if quantity == "pcer_disparity" and epsilon >= LEAST_BUDGET:
        outside = _outside(comparison)
        if outside is not None:
            return Limit(
                comparison, outside, NEAR_INTERVAL, "from the published interval"
            )
    return None


def _outside(comparison: Comparison) -> float | None:
    """How far our mean lies outside the published interval; 0 inside."""
    value = None if comparison.ours is None else comparison.ours.value
    ci = comparison.published.ci
    if value is None or ci is None:
        return None
    low, high = ci
    return max(low - value, value - high, 0.0)


def _row(limit: Limit) -> tuple[str, ...]:
    key = limit.comparison.published.key
    epsilon = key.budgets[0]
    digits = 1 if limit.allowed >= 1 else 4
    return (
        budget_name(None if math.isinf(epsilon) else epsilon),
        key.quantity.replace("_", " ").replace("pcer", "PCER"),
        limit.rule,
        f"{limit.distance:.{digits}f}",
        f"{limit.allowed:g}",
        yes_no(limit.is_met),
    )
