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
from pcer_studies.tables.comparison import Compared

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

    comparison: Compared
    distance: float
    allowed: float
    rule: str

    @property
    def is_met(self) -> bool:
        """Whether the distance is allowed."""
        return self.distance <= self.allowed


def compas_limits(comparisons: Iterable[Compared]) -> list[Table]:
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


def find_limits(comparisons: Iterable[Compared]) -> list[Limit]:
    """Every cell of the paper's COMPAS table that has a limit."""
    limits = []
    for one in comparisons:
        limit = _limit(one) if one.published.name == "tab:compas-race" else None
        if limit is not None:
            limits.append(limit)
    return limits


def _limit(one: Compared) -> Limit | None:
    """None where a cell has no limit, or either side is not known."""
    if one.difference is None:
        return None
    epsilon = one.published.key.budgets[0]
    quantity = one.published.key.quantity
    distance = abs(one.difference)
    if quantity == "accuracy":
        allowed = ACCURACY_AT_STRONGEST if epsilon == STRONGEST else ACCURACY
        return Limit(one, distance, allowed, "from the published mean")
    if quantity == "demographic_parity_gap":
        return Limit(one, distance, PARITY_GAP, "from the published mean")
    if quantity == "pcer_disparity" and epsilon >= LEAST_BUDGET:
        outside = _outside(one)
        if outside is not None:
            return Limit(one, outside, NEAR_INTERVAL, "from the published interval")
    return None


def _outside(one: Compared) -> float | None:
    """How far our mean lies outside the published interval; 0 inside."""
    if one.ours is None or one.ours.value is None or one.published.ci is None:
        return None
    low, high = one.published.ci
    return max(low - one.ours.value, one.ours.value - high, 0.0)


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
