"""How many splits are enough: a rule by precision alone.

The smallest overfitting gap that would be resolved follows from how often the models are right,
in training and in test together. The test of the gap takes just that as given, and asks how the
right answers fall on the two parts; so splits may be added for as long as it takes without
favouring any verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcer.errors import InputError, require_at_least, require_positive
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.splits import Splits
from pcer.statistics import detectable

ADDED = 2.0
"""People added to those right and to those wrong: nobody is always right about few."""


def smallest_gap(
    right: Sequence[BoolArray],
    member: BoolArray,
    cells: IntArray,
    *,
    inflation: FloatArray,
) -> float:
    """The smallest gap that would be resolved 4 times in 5, in every group of every setting.

    Args:
        right: for each setting (split, record), whether the answer is right.
        member: (split, record) who is trained on.
        cells: (record,) 2 x group + label, negative for records of no group.
        inflation: (group,) by how much people with several records multiply the variance.
    """
    n_splits, n_groups = len(member), len(inflation)
    known = cells >= 0
    sizes = np.bincount(cells[known], minlength=2 * n_groups).astype(np.float64)
    share = float(member[:, known].mean())
    errors = []
    for one in right:
        n_right = np.bincount(cells[known], one[:, known].mean(axis=0), minlength=2 * n_groups)
        rate = (n_right + ADDED) / (sizes + 2 * ADDED)
        spread = (sizes * rate * (1 - rate)).reshape(n_groups, 2).sum(axis=1)
        people = sizes.reshape(n_groups, 2).sum(axis=1)
        variance = inflation * spread / people**2 / (share * (1 - share)) / n_splits
        errors.append(np.sqrt(variance))
    n_tests = n_groups * len(right)
    return float(detectable(np.array(errors), n_tests=n_tests).max())


def enough_splits(n_splits: int, smallest: float, *, target: float) -> int:
    """Splits after which the target would show, if nothing but their number changes.

    >>> enough_splits(20, 0.01, target=0.005), enough_splits(20, 0.004, target=0.005)
    (80, 20)
    """
    return max(n_splits, math.ceil(n_splits * (smallest / target) ** 2 * (1 - 1e-12)))


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """How many splits are made: so many, or more until a small exposure would show."""

    first: int
    most: int
    target: float | None

    @classmethod
    def of(cls, splits: Splits, n_splits: int, target: float | None, most: int) -> StopRule:
        """The rule that the arguments make."""
        if not math.isinf(splits.most):
            if target is not None:
                raise InputError(
                    "until_detectable adds random splits, and cv gives a fixed number of them; "
                    "leave one of the two out."
                )
            return cls(first=int(splits.most), most=int(splits.most), target=None)
        require_at_least(1, n_splits=n_splits)
        if target is None:
            return cls(first=n_splits, most=n_splits, target=None)
        require_positive(until_detectable=target)
        require_at_least(n_splits, max_splits=most)
        return cls(first=n_splits, most=most, target=target)

    def next(self, n_splits: int, smallest: float) -> int:
        """How many splits there should be, when so many see gaps from ``smallest`` on."""
        if self.target is None:
            return n_splits
        return min(self.most, enough_splits(n_splits, smallest, target=self.target))

    def note(self, n_splits: int, smallest: float) -> tuple[str, ...]:
        """What a reader must know of how the number of splits came about."""
        if self.target is None:
            return ()
        reached = "until" if smallest <= self.target else "but not far enough that"
        return (
            f"Splits were added, by precision alone, {reached} an overfitting gap of "
            f"{self.target:g} would show 4 times in 5: after {n_splits} splits the smallest is "
            f"{smallest:.2g}.",
        )
