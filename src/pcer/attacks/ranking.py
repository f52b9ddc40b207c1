"""Ranks of members among non-members of their group, from one sort per model.

Sorting and summing release Python's lock, so that threads help.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pcer.attacks.sums import Groups
from pcer.metrics import BoolArray, FloatArray, IntArray


class Ranked:
    """One model's scores of one group's records, ascending; ties in the order of records."""

    def __init__(
        self, order: IntArray, member: FloatArray, starts: IntArray | None
    ) -> None:
        # positions, lowest first; 1.0 for a member, or 0.0
        self.order = order
        self.member = member
        self._starts = (
            starts  # positions where a new score begins; None where all differ
        )
        self.n_members = int(member.sum())
        self.n_nonmembers = len(order) - self.n_members

    @property
    def is_onesided(self) -> bool:
        """Whether members or non-members are missing, so that nothing can be compared."""
        return min(self.n_members, self.n_nonmembers) == 0

    @cached_property
    def auc(self) -> float:
        """Probability that a member scores above a non-member, ties counting half; needs both."""
        everyone = len(self.order) ** 2
        among_nonmembers = self.n_nonmembers**2
        won = everyone - among_nonmembers - float(self._members_below.sum())
        return won / (2 * self.n_members * self.n_nonmembers)

    def parts(self) -> FloatArray:
        """Each record's influence on the AUC, in this order: centred placement over its side."""
        # A placement: the share of non-members below a member, or of members above a
        # non-member.
        members = self.n_members
        nonmembers = self.n_nonmembers
        for_nonmembers = 2 * members * (1 - self.auc)
        parts = self._twice_below(np.arange(1.0, len(self.order) + 1), 1.0)
        parts -= 2 * nonmembers * self.auc + for_nonmembers
        parts *= self.member
        parts -= self._members_below
        parts += for_nonmembers
        parts *= 1 / (2 * members * nonmembers)
        return parts

    def above(self, place: int) -> tuple[int, int]:
        """Numbers of members and non-members from a position on."""
        members = self.n_members - (int(self._members[place - 1]) if place else 0)
        return members, len(self.order) - place - members

    def end_of_tie(self, nonmember: int) -> int:
        """The position after all scores equal to that of the n-th lowest non-member (from 0)."""
        end = int(np.flatnonzero(self.member == 0)[nonmember]) + 1
        if self._starts is None:
            return end
        later = self._starts[np.searchsorted(self._starts, end) :]
        return int(later[0]) if later.size else len(self.order)

    @cached_property
    def _members(self) -> FloatArray:
        """Number of members up to and including each position."""
        return np.cumsum(self.member)

    @cached_property
    def _members_below(self) -> FloatArray:
        return self._twice_below(self._members, self.member)

    def _twice_below(self, up_to: FloatArray, own: FloatArray | float) -> FloatArray:
        """Twice the number below each position, ties counting half, from inclusive counts."""
        before = up_to - own
        if self._starts is None:
            return before + up_to
        lasts = np.append(self._starts[1:], len(up_to)) - 1
        return np.repeat(before[self._starts] + up_to[lasts], lasts - self._starts + 1)


def rank(
    score: FloatArray, member: BoolArray, divisions: Sequence[Groups]
) -> dict[Groups, list[Ranked]]:
    """For each division and group, the ranks of the records whose score is not NaN."""
    score = np.asarray(score, dtype=np.float64)
    order, ascending = stable_order(score)
    has_ties = (ascending[1:] == ascending[:-1]).any()
    found: dict[Groups, list[Ranked]] = {groups: [] for groups in divisions}
    for groups, ranked in found.items():
        places = groups.places[order]
        for own in (order[places == k] for k in range(groups.n)):
            starts = None
            if has_ties:
                starts = np.flatnonzero(
                    np.append(True, score[own[1:]] != score[own[:-1]])
                )
                starts = starts if len(starts) < len(own) else None
            ranked.append(Ranked(own, member[own].astype(np.float64), starts))
    return found


def stable_order(score: FloatArray) -> tuple[IntArray, FloatArray]:
    """Records from the lowest score up, ties in their order, NaN left out; and their scores."""
    # A score and its record are packed into one 64-bit number, since a plain sort is
    # several times faster than a stable one; the few records that lost digits misplace
    # are sorted again.
    unknown = np.isnan(score)
    bits = np.where(unknown, np.nan, score + 0.0).view(
        np.int64
    )  # 0 and -0 are one; NaN is last
    bits ^= (bits >> np.int64(63)) | np.int64(np.iinfo(np.int64).min)
    places = np.uint64(2 ** len(score).bit_length() - 1)
    keys = (bits.view(np.uint64) & ~places) | np.arange(len(score), dtype=np.uint64)
    keys.sort()
    order = (keys & places)[: len(score) - unknown.sum()].astype(np.int64)
    ascending = score[order]
    if (ascending[1:] < ascending[:-1]).any():
        order = order[np.argsort(ascending, kind="stable")]
        ascending = score[order]
    return order, ascending
