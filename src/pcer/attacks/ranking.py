"""Where members stand among non-members of their group: exact counts from one sort per model.

A score, its record, its group and whether it is a member's are packed into one 64-bit number, so
that a plain sort of numbers (several times faster than sorting positions) does it all. What does
not fit of a score's last digits is compared afterwards: the order is that of a stable sort.
Sorting and the sums around it release Python's lock, so that threads help.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pcer.metrics import BoolArray, FloatArray, IntArray

Keys: TypeAlias = npt.NDArray[np.uint64]

KEY_BITS = 64
SIGN = np.int64(np.iinfo(np.int64).min)
ONE = np.uint64(1)
MOST_PARTED = 8
"""Groups up to which taking them out of one sorted whole is faster than sorting them anew."""


class Ranked:
    """One model's scores of one group's records, ascending; ties stand in the order of records.

    Attributes:
        order: (record,) positions of the records, lowest score first.
        member: (record,) 1.0 for a member and 0.0 for others, in that order.
        n_members: how many were trained on.
        n_nonmembers: how many were not.
    """

    def __init__(self, order: IntArray, member: FloatArray, first: BoolArray | None) -> None:
        self.order, self.member = order, member
        self._first = first
        self.n_members = int(member.sum())
        self.n_nonmembers = len(order) - self.n_members

    @property
    def is_onesided(self) -> bool:
        """Whether members or non-members are missing, so that nothing can be compared."""
        return min(self.n_members, self.n_nonmembers) == 0

    @cached_property
    def auc(self) -> float:
        """Chance that a member scores above a non-member, ties counting half; needs both."""
        everyone, among_nonmembers = len(self.order) ** 2, self.n_nonmembers**2
        won = everyone - among_nonmembers - float(self._members_below.sum())
        return won / (2 * self.n_members * self.n_nonmembers)

    def parts(self) -> FloatArray:
        """What each record adds to the AUC, in this order: its placement, centred, over its side.

        A member's placement is the share of non-members below it, a non-member's the share of
        members above it, ties counting half.
        """
        members, nonmembers = self.n_members, self.n_nonmembers
        for_nonmembers = 2 * members * (1 - self.auc)
        for_members = -2 * nonmembers * self.auc
        parts = self._below + (for_members - for_nonmembers)
        parts *= self.member
        parts -= self._members_below
        parts += for_nonmembers
        parts *= 1 / (2 * members * nonmembers)
        return parts

    def above(self, place: int) -> tuple[int, int]:
        """Members and non-members from a place in the order on."""
        members = self.n_members - self._members_before(place)
        return members, len(self.order) - place - members

    def end_of_tie(self, nonmember: int) -> int:
        """The place after all scores equal to that of the n-th lowest non-member (from 0)."""
        places = range(len(self.order) + 1)
        end = bisect_left(places, nonmember + 1, key=lambda at: at - self._members_before(at))
        if self._first is None:
            return end
        later = np.flatnonzero(self._first[end:])
        return end + int(later[0]) if later.size else len(self.order)

    def _members_before(self, place: int) -> int:
        return int(self._members[place - 1]) if place else 0

    @cached_property
    def _members(self) -> FloatArray:
        """Members up to and with each place."""
        return np.cumsum(self.member)

    @cached_property
    def _runs(self) -> tuple[IntArray, IntArray]:
        """First and last place of every run of equal scores."""
        starts = np.flatnonzero(np.asarray(self._first))
        return starts, np.append(starts[1:], len(self.order)) - 1

    @cached_property
    def _members_below(self) -> FloatArray:
        """Twice the number of members below each place, ties counting half."""
        if self._first is None:
            return 2 * self._members - self.member
        starts, lasts = self._runs
        twice = self._members[starts] - self.member[starts] + self._members[lasts]
        return np.repeat(twice, lasts - starts + 1)

    @cached_property
    def _below(self) -> FloatArray:
        """Twice the number of records below each place, ties counting half."""
        if self._first is None:
            return np.arange(1.0, 2.0 * len(self.order), 2.0)
        starts, lasts = self._runs
        return np.repeat((starts + lasts + 1).astype(np.float64), lasts - starts + 1)


class Ranker:
    """Ranks the scores of one model after the other within groups, for several divisions at once.

    Args:
        codes: for each division of the records into groups, (record,) a group's number; -1 for
            records that belong to no group.
        n_groups: for each division, how many groups there are.
    """

    def __init__(self, codes: Sequence[IntArray], n_groups: Sequence[int]) -> None:
        n_records = len(codes[0])
        self._codes, self._n_groups = tuple(codes), tuple(n_groups)
        self._sizes = [_sizes(*both) for both in zip(codes, n_groups, strict=True)]
        group_bits = max(n_groups).bit_length()
        record_bits = max(n_records - 1, 1).bit_length()
        self._group_bits, self._low = np.uint64(group_bits), np.uint64(record_bits + 1)
        self._low_mask = np.uint64(2 ** (record_bits + 1) - 1)
        shift = np.uint64(KEY_BITS - group_bits)
        self._nowhere = np.uint64(2**group_bits - 1) << shift
        self._record = np.arange(n_records, dtype=np.uint64) << ONE
        self._labels = [
            np.where(code < 0, self._nowhere, code.astype(np.uint64) << shift) for code in codes
        ]
        self._names = [np.arange(n, dtype=np.uint64) << shift for n in n_groups]

    def rank(self, score: FloatArray, member: BoolArray) -> list[list[Ranked]]:
        """For each division and group, the ranks of the records whose score is not NaN."""
        missing = np.isnan(score)
        base = _ascending(score) >> self._group_bits
        base &= ~self._low_mask
        base |= self._record | member
        if len(self._labels) > 1:
            base.sort()
        ranked = []
        for division, labels in enumerate(self._labels):
            sizes = self._sizes[division]
            if missing.any():
                labels = np.where(missing, self._nowhere, labels)
                sizes = _sizes(self._codes[division][~missing], self._n_groups[division])
            keys = self._parted(base, labels, self._names[division])
            ranked.append(list(self._cut(keys[: sizes.sum()], sizes, score)))
        return ranked

    def _parted(self, base: Keys, labels: Keys, names: Keys) -> Keys:
        """Keys by group and score, those of no group last or left out."""
        if len(self._labels) == 1 or len(names) > MOST_PARTED:
            keys = base | (labels if len(self._labels) == 1 else labels[self._records(base)])
            keys.sort()
            return keys
        own = labels[self._records(base)]
        parts = [base[own == name] | name for name in names]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _cut(self, keys: Keys, sizes: IntArray, score: FloatArray) -> Iterator[Ranked]:
        """Take sorted keys apart again, group by group."""
        first = self._settle(keys, score)
        order, member = self._records(keys), (keys & ONE).astype(np.float64)
        for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
            place = slice(start, start + size)
            new = None if first is None or first[place].all() else first[place]
            yield Ranked(order[place], member[place], new)

    def _settle(self, keys: Keys, score: FloatArray) -> BoolArray | None:
        """Order what the keys could not tell apart, in place; where a new score begins, if ties."""
        prefix = keys >> self._low
        alike = np.flatnonzero(prefix[1:] == prefix[:-1])
        if not alike.size:
            return None
        lower, upper = (score[self._records(keys[alike + step])] for step in (0, 1))
        if (lower > upper).any():
            places = np.union1d(alike, alike + 1)
            found = keys[places]
            keys[places] = found[np.lexsort((score[self._records(found)], prefix[places]))]
            lower, upper = (score[self._records(keys[alike + step])] for step in (0, 1))
        first = np.ones(len(keys), dtype=bool)
        first[alike + 1] = lower != upper
        return first

    def _records(self, keys: Keys) -> IntArray:
        return ((keys & self._low_mask) >> ONE).astype(np.int64)


def _ascending(score: FloatArray) -> Keys:
    """Numbers without sign in the order of the scores; 0 and -0 are one."""
    bits = (score + 0.0).view(np.int64)
    bits ^= (bits >> np.int64(KEY_BITS - 1)) | SIGN
    return bits.view(np.uint64)


def _sizes(codes: IntArray, n_groups: int) -> IntArray:
    return np.bincount(codes[codes >= 0], minlength=n_groups).astype(np.int64)
