"""How do members rank among the non-members of their group, from one sort per model?

``attack`` ranks every model's scores here, for the statistics of ``single``. Sorting
and summing release Python's lock, so that threads help.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pcer.attacks.sums import Groups
from pcer.metrics import BoolArray, FloatArray, IntArray


class Ranked:
    """One model's scores of one group's records, ascending; ties in order of records.

    Attributes:
        order: positions of the records, the lowest score first.
        member: in that order, 1.0 for a member and 0.0 for another.
        n_members: how many members there are.
        n_nonmembers: how many others.
    """

    def __init__(
        self, order: IntArray, member: FloatArray, starts: IntArray | None
    ) -> None:
        self.order = order
        self.member = member
        # Positions where a new score begins; None where all differ.
        self._starts = starts
        self.n_members = int(member.sum())
        self.n_nonmembers = len(order) - self.n_members

    @property
    def is_onesided(self) -> bool:
        """Whether members or non-members are missing: nothing can be compared."""
        return min(self.n_members, self.n_nonmembers) == 0

    @cached_property
    def auc(self) -> float:
        """Probability that a member scores above a non-member, ties counting half.

        There must be both. Of all ordered pairs, ``everyone``, those of two non-members
        and twice the pairs that a member does not win are taken away.
        """
        everyone = len(self.order) ** 2
        among_nonmembers = self.n_nonmembers**2
        won = everyone - among_nonmembers - float(self._members_below.sum())
        return won / (2 * self.n_members * self.n_nonmembers)

    def parts(self) -> FloatArray:
        """Each record's influence on the AUC, in this order.

        It is the centred placement over the size of the record's side. A placement is
        the share of non-members below a member, or of members above a non-member.
        """
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
        """The position after all scores that equal a non-member's, counted from 0."""
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
        """Twice the number of members below each position, ties counting half."""
        return self._twice_below(self._members, self.member)

    def _twice_below(self, up_to: FloatArray, own: FloatArray | float) -> FloatArray:
        """Twice the number below each position, ties counting half.

        ``up_to`` are counts up to and including each position, ``own`` what the
        position itself counts.
        """
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
    has_ties = bool((ascending[1:] == ascending[:-1]).any())
    ranked: dict[Groups, list[Ranked]] = {}
    for groups in divisions:
        places = groups.places[order]
        ranked[groups] = []
        for k in range(groups.n):
            of_group = order[places == k]
            starts = _starts(score[of_group]) if has_ties else None
            inside = member[of_group].astype(np.float64)
            ranked[groups].append(Ranked(of_group, inside, starts))
    return ranked


def _starts(ascending: FloatArray) -> IntArray | None:
    """Positions where a new score begins; None where all differ."""
    starts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    return starts if len(starts) < len(ascending) else None


def stable_order(score: FloatArray) -> tuple[IntArray, FloatArray]:
    """Records from the lowest score up, without NaN; and their scores.

    Ties are in the order of the records. A score and its record are packed into one
    64-bit number, since a plain sort is several times faster than a stable one; the few
    records that lost digits misplace are sorted again.
    """
    unknown = np.isnan(score)
    # Adding 0 makes -0 and 0 one number; NaN comes last.
    bits = np.where(unknown, np.nan, score + 0.0).view(np.int64)
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
