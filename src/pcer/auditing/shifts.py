"""Is the new one worse than the old? The errors of changes, as arrays over the group or the pair.

Both are about people like these, as every comparison of an audit is. Of the same splits, split
error is that of each split's own change, seen from how changes vary over splits (Student's t for
the part that is estimated). Of the same people, who they are need not be the same error twice: the
models may remember the same of them, or others. Counts do not tell, so it is taken at its worst,
which is that they remember others; a change is then as uncertain as for two sets of people, and a
little more. `python -m benchmarks.comparisons` has the alarms where nothing got worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.auditing.measure import MUTUAL, Exposed
from pcer.auditing.people import cost_in_tests, pooled_cost
from pcer.metrics import FloatArray, IntArray

LEAST_PAIRED = 8
"""Splits from which on the spread of their changes is an error to rely on."""


@dataclass(frozen=True, kw_only=True)
class BothExposed:
    """One cost of one setting, old and new, the groups of both in the same order.

    Attributes:
        old: as the audit measures it.
        new: likewise.
        same_people: whether both are about the same records.
        largest: the most that such a cost can be.
        matched: positions of the splits that both have, in the old and in the new; None where
            they are too few, or the cost is not one of splits.
    """

    old: Exposed
    new: Exposed
    same_people: bool
    largest: float
    matched: tuple[IntArray, IntArray] | None = None

    def only(self, groups: IntArray) -> BothExposed:
        """Some groups, or one side of every pair."""
        return BothExposed(
            old=self.old.only(groups),
            new=self.new.only(groups),
            same_people=self.same_people,
            largest=self.largest,
            matched=self.matched,
        )

    @property
    def values(self) -> tuple[FloatArray, FloatArray]:
        """Old and new cost, over the splits that count."""
        if self.matched is None:
            return self.old.value, self.new.value
        old, new = self.per_split
        return np.asarray(old.mean(axis=0)), np.asarray(new.mean(axis=0))

    @property
    def per_split(self) -> tuple[FloatArray, FloatArray]:
        """(split, group) old and new cost of the same splits."""
        assert self.matched is not None
        return self.old.per_split[self.matched[0]], self.new.per_split[self.matched[1]]


class Contrast(NamedTuple):
    """A change, or a sum, with its error: the normal's where ``freedom`` is infinite."""

    value: FloatArray
    variance: FloatArray
    freedom: FloatArray

    def upper_p(self, sign: FloatArray | float = 1.0) -> FloatArray:
        """One-sided p-value of sign times value against 0; 1 where the error is 0."""
        error = np.sqrt(self.variance)
        scaled = np.divide(
            sign * self.value, error, out=np.full_like(error, -np.inf), where=error > 0
        )
        return np.where(np.isfinite(self.value + error), _upper_tail(scaled, self.freedom), np.nan)

    def half_width(self, tail: float) -> FloatArray:
        """Distance from the value to a one-sided limit that fails with probability ``tail``."""
        from scipy.special import ndtri, stdtrit

        finite = np.where(np.isinf(self.freedom), 1.0, self.freedom)
        t = np.where(np.isinf(self.freedom), -ndtri(tail), -stdtrit(finite, tail))
        return np.asarray(t * np.sqrt(self.variance))


class GroupShifts(NamedTuple):
    """Of every group: old and new cost, and the change."""

    old: FloatArray
    new: FloatArray
    change: Contrast

    @property
    def p_worse(self) -> FloatArray:
        """Of "the exposure rose"."""
        return self.change.upper_p()

    @property
    def p_improved(self) -> FloatArray:
        """Of "the exposure fell"."""
        return self.change.upper_p(-1.0)

    def most(self, tail: float) -> FloatArray:
        """Most that the exposure may have risen by, at least 0."""
        return np.asarray(np.maximum(self.change.value + self.change.half_width(tail), 0.0))


class PairShifts(NamedTuple):
    """Of every pair, first minus second: the old and the new difference, change and sum.

    Whether the new one is larger in size is asked twice, as |new| > |old| says two things: with
    the sign of the new, it is above the old and above its opposite. Both must be shown, and either
    sign could have come: twice the larger p-value.
    """

    old: FloatArray
    new: FloatArray
    change: Contrast
    total: Contrast

    @property
    def p_worse(self) -> FloatArray:
        """Of "the difference grew", whoever is the more exposed."""
        return self._p(np.sign(self.new), 1.0)

    @property
    def p_improved(self) -> FloatArray:
        """Of "the difference shrank"."""
        return self._p(np.sign(self.old), -1.0)

    def most(self, tail: float) -> FloatArray:
        """Most that the size of the difference may have grown by, at least 0.

        |new| - |old| is at most the larger of (new - t old) and (-new - t old) for either sign t;
        the old difference's own sign is taken, and both signs are paid for.
        """
        sign = np.where(self.old < 0, -1.0, 1.0)
        apart, along = (one.half_width(tail / 2) for one in (self.change, self.total))
        same = sign * (self.new - self.old) + apart
        turned = -sign * (self.new + self.old) + along
        return np.asarray(np.maximum(np.maximum(same, turned), 0.0))

    def _p(self, sign: FloatArray, way: float) -> FloatArray:
        apart, along = self.change.upper_p(sign * way), self.total.upper_p(sign)
        return np.asarray(np.minimum(1.0, 2 * np.maximum(apart, along)))


def group_shifts(both: BothExposed) -> GroupShifts:
    """The change of every group's exposure.

    What records change about each other is not the same in two sweeps, so it counts here as in
    the interval of one group (``MUTUAL``); a difference of groups has what they do not share.
    """
    old, new = both.values
    middle = (old + new) / 2
    tested = cost_in_tests(old, middle), cost_in_tests(new, middle)
    parts = _parts(both, tested, -1.0)
    mutual = MUTUAL * (both.old.of_records + both.new.of_records)
    return GroupShifts(old, new, parts._replace(known=np.fmax(parts.known, mutual)).whole())


def pair_shifts(first: BothExposed, second: BothExposed) -> PairShifts:
    """The change of the differences between two groups, ``first`` minus ``second``."""
    sides = first, second
    tested = _tested(first, second)
    change, total = (
        _between(*(_parts(side, costs, way) for side, costs in zip(sides, tested, strict=True)))
        for way in (-1.0, 1.0)
    )
    (old_i, new_i), (old_j, new_j) = first.values, second.values
    return PairShifts(old_i - old_j, new_i - new_j, change, total)


def _tested(first: BothExposed, second: BothExposed) -> list[tuple[FloatArray, FloatArray]]:
    """Costs at which people's parts are taken: for each side, old and new.

    Where two are alike, the one that came out low must not have the smaller error: not beside the
    other group, and not beside the other release.
    """
    pooled = [
        pooled_cost(i, j, n, m)
        for i, j, n, m in zip(
            first.values,
            second.values,
            (first.old.n, first.new.n),
            (second.old.n, second.new.n),
            strict=True,
        )
    ]
    out = []
    for side in (first, second):
        middle = (side.values[0] + side.values[1]) / 2
        old, new = (
            cost_in_tests(own, np.maximum(middle, beside))
            for own, beside in zip(side.values, pooled, strict=True)
        )
        out.append((old, new))
    return out


class _Parts(NamedTuple):
    """A contrast of one group: its value, its value in each split, and what is known of its error.

    ``per_split`` is None where split error is in ``known`` already.
    """

    value: FloatArray
    per_split: FloatArray | None
    known: FloatArray

    def whole(self) -> Contrast:
        """With split error as splits vary, and as many degrees of freedom (Satterthwaite)."""
        if self.per_split is None:
            return Contrast(self.value, self.known, np.full_like(self.known, np.inf))
        n = len(self.per_split)
        of_splits = self.per_split.var(axis=0, ddof=1) / n
        variance = of_splits + self.known
        share = np.divide(of_splits, variance, out=np.zeros_like(of_splits), where=variance > 0)
        freedom = np.divide(n - 1.0, share**2, out=np.full_like(of_splits, np.inf), where=share > 0)
        return Contrast(self.value, variance, freedom)


def _between(first: _Parts, second: _Parts) -> Contrast:
    """The same contrast of two groups, one minus the other; what their splits share cancels."""
    per_split = None
    if first.per_split is not None and second.per_split is not None:
        per_split = first.per_split - second.per_split
    return _Parts(first.value - second.value, per_split, first.known + second.known).whole()


def _parts(both: BothExposed, tested: tuple[FloatArray, FloatArray], way: float) -> _Parts:
    """New plus ``way`` times old: -1 for the change, 1 for the sum."""
    old, new = both.values
    people = both.old.people_part(tested[0]), both.new.people_part(tested[1])
    shared = _shared(both, people, tested, way)
    if both.matched is None:
        own = both.old.variance_at(tested[0]) + both.new.variance_at(tested[1])
        return _Parts(new + way * old, None, own + shared)
    before, after = both.per_split
    return _Parts(new + way * old, after + way * before, people[0] + people[1] + shared)


def _shared(
    both: BothExposed,
    parts: tuple[FloatArray, FloatArray],
    tested: tuple[FloatArray, FloatArray],
    way: float,
) -> FloatArray:
    """What the same people add at most: to a change if others are remembered, to a sum if not.

    With shares s and t of the people remembered, the correlation of who it is, is at least
    -sqrt(s t / ((1 - s) (1 - t))) and at most 1.
    """
    if not both.same_people:
        return np.zeros_like(parts[0])
    shares = [np.clip(cost / both.largest, 0.0, 1.0) for cost in tested]
    odds = [_odds(share) for share in shares]
    correlation = np.minimum(1.0, np.sqrt(odds[0] * odds[1])) if way < 0 else 1.0
    return np.asarray(2 * correlation * np.sqrt(parts[0] * parts[1]))


def _odds(share: FloatArray) -> FloatArray:
    return np.divide(share, 1 - share, out=np.full_like(share, np.inf), where=share < 1)


def _upper_tail(scaled: FloatArray, freedom: FloatArray) -> FloatArray:
    """Chance of a larger value, Student's or the normal's."""
    from scipy.special import ndtr, stdtr

    student = stdtr(np.where(np.isinf(freedom), 1.0, freedom), -scaled)
    return np.asarray(np.where(np.isinf(freedom), ndtr(-scaled), student))
