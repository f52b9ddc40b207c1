"""COMPAS held to fixed limits: the dataset whose records and features are certainly the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pcer.auditing import budget_name, yes_no
from pcer.report import Table
from pcer_studies.compare import Compared

ACCURACY, ACCURACY_AT_STRONGEST = 0.01, 0.02
PARITY_GAP = 0.02
NEAR_INTERVAL = 25.0
STRONGEST, LEAST_BUDGET = 0.1, 0.5


@dataclass(frozen=True)
class Limit:
    """One cell, how far it is off, and how far it may be."""

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
                "COMPAS has the paper's records and features, so it is held to limits fixed before "
                "the run. No-DP counts as a budget above 0.5."
            ),
        )
    ]


def find_limits(comparisons: Iterable[Compared]) -> list[Limit]:
    """Every cell of the paper's COMPAS table that has a limit."""
    cells = [one for one in comparisons if one.published.name == "tab:compas-race"]
    return [limit for one in cells if (limit := _limit(one)) is not None]


def _limit(one: Compared) -> Limit | None:
    """None where a cell has no limit, or either side is not known."""
    if one.difference is None:
        return None
    epsilon, off = one.published.key.budgets[0], abs(one.difference)
    if one.published.key.quantity == "accuracy":
        allowed = ACCURACY_AT_STRONGEST if epsilon == STRONGEST else ACCURACY
        return Limit(one, off, allowed, "from the published mean")
    if one.published.key.quantity == "demographic_parity_gap":
        return Limit(one, off, PARITY_GAP, "from the published mean")
    if one.published.key.quantity == "pcer_disparity" and epsilon >= LEAST_BUDGET:
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
    epsilon = limit.comparison.published.key.budgets[0]
    digits = 1 if limit.allowed >= 1 else 4
    return (
        budget_name(None if math.isinf(epsilon) else epsilon),
        limit.comparison.published.key.quantity.replace("_", " ").replace("pcer", "PCER"),
        limit.rule,
        f"{limit.distance:.{digits}f}",
        f"{limit.allowed:g}",
        yes_no(limit.is_met),
    )
