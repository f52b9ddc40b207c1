"""Area under the ROC curve from counts per score: exact integers, DeLong's error, a bin bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pcer.metrics import FloatArray, IntArray

_SAFE_PAIRS = 2**61  # above this, twice the pairs no longer fit a 64-bit integer


@dataclass(frozen=True, kw_only=True)
class Auc:
    """How well a score tells members from non-members.

    Args:
        value: chance that a member scores above a non-member, ties counting half.
        standard_error: DeLong's; None with fewer than two members or non-members.
        bound: the exact value lies within ``value`` plus or minus this; 0 where it is exact.
        n_members: scored members.
        n_nonmembers: scored non-members.
    """

    value: float
    standard_error: float | None
    bound: float
    n_members: int
    n_nonmembers: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreCounts:
    """Members and non-members per score, or per bin of scores from ``low`` to ``high``."""

    low: FloatArray
    high: FloatArray
    members: IntArray
    nonmembers: IntArray


def auc_from_counts(parts: list[ScoreCounts]) -> Auc | None:
    """AUC of all parts together; None where there are no members or no non-members.

    The pairs of a member above a non-member are counted in whole numbers. Pairs within one bin
    could fall either way; counting them half is off by at most half of them, and that share is
    the bound. It is a bound, not an estimate: no distribution of scores breaks it. Bins must not
    overlap, and must be the same in all parts.

    >>> scores = np.array([0.1, 0.5, 0.7])
    >>> auc_from_counts([ScoreCounts(
    ...     low=scores, high=scores, members=np.array([0, 1, 2]), nonmembers=np.array([2, 1, 0])
    ... )]).value
    0.9444444444444444
    """
    whole = _merged(parts)
    n_members, n_nonmembers = int(whole.members.sum()), int(whole.nonmembers.sum())
    pairs = n_members * n_nonmembers
    if pairs == 0:
        return None
    kind = np.int64 if pairs < _SAFE_PAIRS else object
    members, nonmembers = whole.members.astype(kind), whole.nonmembers.astype(kind)
    beaten_twice = 2 * np.cumsum(nonmembers) - nonmembers
    won_twice = 2 * (n_members - np.cumsum(members)) + members
    value = int((members * beaten_twice).sum()) / (2 * pairs)
    unsure = int((members * nonmembers)[whole.low < whole.high].sum())
    variance = _delong(members, beaten_twice / (2 * n_nonmembers), value)
    variance += _delong(nonmembers, won_twice / (2 * n_members), value)
    return Auc(
        value=value,
        standard_error=variance**0.5 if min(n_members, n_nonmembers) > 1 else None,
        bound=unsure / (2 * pairs),
        n_members=n_members,
        n_nonmembers=n_nonmembers,
    )


def _merged(parts: list[ScoreCounts]) -> ScoreCounts:
    """One row per distinct score or bin, in increasing order; bins are told apart by overlap."""
    low, high, members, nonmembers = (
        np.concatenate([getattr(part, field) for part in parts])
        for field in ("low", "high", "members", "nonmembers")
    )
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    reach = np.maximum.accumulate(high)
    starts = np.flatnonzero(np.r_[True, low[1:] > reach[:-1]])
    return ScoreCounts(
        low=low[starts],
        high=np.maximum.reduceat(high, starts),
        members=np.add.reduceat(members[order], starts),
        nonmembers=np.add.reduceat(nonmembers[order], starts),
    )


def _delong(counts: npt.NDArray[np.generic], placements: IntArray, value: float) -> float:
    """Variance of one side's mean placement."""
    weights, places = counts.astype(np.float64), placements.astype(np.float64)
    n = weights.sum()
    return float((weights * (places - value) ** 2).sum() / max(n - 1, 1) / n)
