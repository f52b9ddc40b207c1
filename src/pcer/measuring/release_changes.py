"""By how much did exposure change from one release to another, with which error?

``deciding.compare`` calls ``changed_rows`` once a setting, after it has found the same
attack, groups and splits in both releases; ``deciding.candidates`` uses ``Contrast``.

Every change is about people like these. For the same splits, split error is estimated
from how the changes vary over splits (Student's t). The models may memorise the same
people or others: counts do not say which, so others are taken. Symbols are those of
``variances``; arrays are over the group, or (side, pair) over both groups of a pair. To
add a kind of change: a function that gives ``Rows``, as ``pair_rows`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from pcer.errors import PlanError
from pcer.measuring import exposure
from pcer.measuring.choose_attacks import pairs_of
from pcer.measuring.exposure import Exposed, Measured
from pcer.measuring.plan import Plan
from pcer.measuring.variances import exposure_in_tests, weighted_exposure
from pcer.metrics import FloatArray, IntArray, quotient

CONFIDENCE: Final = 0.95  # that all upper bounds of one kind hold together
# Splits from which on the spread of their changes is a reliable error.
LEAST_PAIRED: Final = 8
# What a combination of new and old takes of the old: the change, and the sum.
CHANGE: Final = -1.0
SUM: Final = 1.0


@dataclass(frozen=True)
class BothExposed:
    """One setting's exposure, old and new, of the same groups in one order."""

    old: Exposed
    new: Exposed
    same_people: bool
    largest: float  # the most that such an exposure can be
    is_paired: bool  # whether both have the same splits, in the same order

    def only(self, groups: IntArray) -> BothExposed:
        """Some groups, or (side, pair) both sides of every pair."""
        return replace(self, old=self.old.only(groups), new=self.new.only(groups))

    def per_split_and_lasting(
        self, way: float, least: Sequence[FloatArray | float] = (0.0, 0.0)
    ) -> tuple[FloatArray, FloatArray]:
        """New plus ``way`` times old, by split, and the variance splits do not show.

        One row of all splits if their error is in that variance, too. People's part is
        taken at no less than ``least``, of old and new: of two alike, the one that came
        out low must not have the smaller error, beside the other group or release.
        """
        old = self.old
        new = self.new
        middle = (old.value + new.value) / 2
        old_exposure = exposure_in_tests(old.value, np.maximum(middle, least[0]))
        new_exposure = exposure_in_tests(new.value, np.maximum(middle, least[1]))
        shared = self._shared_variance(way, old_exposure, new_exposure)
        if self.is_paired:
            people = old.people_part(old_exposure) + new.people_part(new_exposure)
            return new.per_split + way * old.per_split, people + shared
        variance = old.variance_at(old_exposure) + new.variance_at(new_exposure)
        return (new.value + way * old.value)[None], variance + shared

    def _shared_variance(
        self, way: float, old_exposure: FloatArray, new_exposure: FloatArray
    ) -> FloatArray | float:
        """The most, 2 r sqrt(P_old P_new), that the same people add to the variance.

        They add most to a change if others of them are remembered, and to a sum if the
        same are. With shares s and t remembered, the correlation r of who it is, is at
        least -sqrt(s t / ((1 - s) (1 - t))) and at most 1. Other people share nothing.
        """
        if not self.same_people:
            return 0.0
        people = self.old.people_part(old_exposure) * self.new.people_part(new_exposure)
        correlation: FloatArray | float = 1.0
        if way < 0:
            s = np.clip(old_exposure / self.largest, 0.0, 1.0)
            t = np.clip(new_exposure / self.largest, 0.0, 1.0)
            odds = quotient(s * t, (1 - s) * (1 - t), otherwise=1.0)
            correlation = np.sqrt(np.minimum(1.0, odds))
        return 2 * correlation * np.sqrt(people)


class Contrast(NamedTuple):
    """A change, or a sum, with its error: Student's t with ``freedom`` degrees."""

    value: FloatArray
    variance: FloatArray
    freedom: FloatArray

    @classmethod
    def of(cls, per_split: FloatArray, lasting: FloatArray) -> Contrast:
        """Mean over splits, with V = s^2/S + L of the S splits and the lasting part L.

        Degrees of freedom (Satterthwaite): (S - 1) / (share of s^2/S in V)^2. One row
        has its split error in L already.
        """
        n_splits = len(per_split)
        value = np.asarray(per_split.mean(axis=0))
        split_variance = np.zeros_like(value)
        if n_splits > 1:
            split_variance = per_split.var(axis=0, ddof=1) / n_splits
        variance = split_variance + lasting
        share = quotient(split_variance, variance, otherwise=0.0)
        freedom = quotient(n_splits - 1.0, share**2, otherwise=np.inf)
        return cls(value, variance, freedom)

    def upper_p(self, sign: FloatArray | float = 1.0) -> FloatArray:
        """One-sided p-value of sign times value against 0; 1 where the error is 0."""
        from scipy.special import stdtr

        error = np.sqrt(self.variance)
        t = quotient(sign * self.value, error, otherwise=-np.inf)
        is_known = np.isfinite(self.value + error)
        return np.where(is_known, stdtr(self.freedom, -t), np.nan)

    def half_width(self, tail: float) -> FloatArray:
        """Distance to an upper bound that fails with probability ``tail``."""
        from scipy.special import stdtrit

        return np.asarray(-stdtrit(self.freedom, tail) * np.sqrt(self.variance))


class Rows(NamedTuple):
    """What is said of every group, or of every pair, by the names of ``Change``."""

    old: FloatArray
    new: FloatArray
    change: FloatArray
    standard_error: FloatArray
    most: FloatArray
    p_worse_alone: FloatArray
    p_improved_alone: FloatArray


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, one part after the other."""
    columns = zip(*parts, strict=True)
    return Rows(*[np.concatenate(column) for column in columns])


class ChangedRows(NamedTuple):
    """One setting's groups, pairs and outcomes, in this order."""

    rows: Rows
    n_paired: int | None  # splits that were compared one by one; None: not possible


def changed_rows(
    measured: Sequence[Measured],
    common: tuple[IntArray, IntArray] | None,
    *,
    n_settings: int,
) -> ChangedRows:
    """What changed in one setting, old and new release by the same attack.

    ``common`` are the splits that both have, None where people are not the same; upper
    bounds hold for all ``n_settings`` together.
    """
    before, after = measured
    old = _require_exposed("old", before)
    new = _require_exposed("new", after)
    names = before.panel.group_names
    order = np.array([after.panel.group_names.index(name) for name in names])
    pairs = np.array(pairs_of((before.panel,), Plan()), dtype=np.int64).T
    n_pairs = len(pairs[0])
    both = BothExposed(
        old,
        new.only(order),
        same_people=common is not None,
        largest=before.attack_kind.scale.largest,
        is_paired=False,
    )
    served = BothExposed(
        _served(before, old),
        _served(after, new).only(order),
        same_people=both.same_people,
        largest=1.0,
        is_paired=False,
    )
    if common is not None and len(common[0]) >= LEAST_PAIRED:
        both = _paired(both, measured, common, order)

    tail = (1 - CONFIDENCE) / n_settings
    rows = joined(
        [
            group_rows(both, tail=tail / len(names)),
            pair_rows(both.only(pairs), tail=tail / n_pairs),
            pair_rows(served.only(pairs), tail=tail / n_pairs),
        ]
    )
    enough = before.has_enough_records & after.has_enough_records[order]
    is_known = np.concatenate([enough, enough[pairs].all(axis=0), [True] * n_pairs])
    known_rows = Rows(*[np.where(is_known, column, np.nan) for column in rows])
    return ChangedRows(known_rows, both.old.n_splits if both.is_paired else None)


def _require_exposed(which: str, measured: Measured) -> Exposed:
    if measured.exposed is None:
        raise PlanError(f"the {which} release cannot be compared: {measured.reason}.")
    return measured.exposed


def _served(measured: Measured, exposed: Exposed) -> Exposed:
    """Outcome rates in the form of an exposure, all of their error in one number."""
    return replace(
        exposed,
        per_split=measured.received.mean(axis=0)[None],
        one_split=measured.received_variance,
        people=None,
    )


def _paired(
    both: BothExposed,
    measured: Sequence[Measured],
    common: tuple[IntArray, IntArray],
    order: IntArray,  # the new release's groups in the order of the old one's
) -> BothExposed:
    """Exposures in the common splits; as they were where one is not known by split."""
    before, after = measured
    old = before.exposed_by_split()
    new = after.exposed_by_split()
    if old is None or new is None:
        return both
    old = replace(old, per_split=old.per_split[common[0]])
    new = replace(new, per_split=new.per_split[common[1]])
    return replace(both, old=old, new=new.only(order), is_paired=True)


def group_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of every group's exposure.

    What records change about each other is not the same in two sweeps, so it counts
    here as in the interval of one group (``MUTUAL``).
    """
    per_split, lasting = both.per_split_and_lasting(CHANGE)
    mutual = exposure.MUTUAL * (both.old.of_records + both.new.of_records)
    change = Contrast.of(per_split, np.fmax(lasting, mutual))
    return Rows(
        old=both.old.value,
        new=both.new.value,
        change=change.value,
        standard_error=np.sqrt(change.variance),
        most=np.maximum(change.value + change.half_width(tail), 0.0),
        p_worse_alone=change.upper_p(),
        p_improved_alone=change.upper_p(-1.0),
    )


def pair_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of the difference between both groups of a pair, (side, pair)."""
    old = both.old.value
    new = both.new.value
    return size_rows(
        old[0] - old[1],
        new[0] - new[1],
        _difference(both, CHANGE),
        _difference(both, SUM),
        tail=tail,
    )


def _difference(both: BothExposed, way: float) -> Contrast:
    """First minus second group of a change, or of a sum; what splits share cancels."""
    pooled = [weighted_exposure(side.value, side.n) for side in (both.old, both.new)]
    per_split, lasting = both.per_split_and_lasting(way, pooled)
    return Contrast.of(per_split[:, 0] - per_split[:, 1], lasting.sum(axis=0))


def size_rows(
    old: FloatArray, new: FloatArray, change: Contrast, total: Contrast, *, tail: float
) -> Rows:
    """Whether differences grew or shrank in size, whichever group is the more exposed.

    ``change`` is new - old, ``total`` is new + old. |new| > |old| says two things: with
    s the sign of new, s (new - old) > 0 and s (new + old) > 0. Both must be shown, and
    either sign could have come, so p is twice the larger one-sided p-value. |new| <
    |old| says the same with the sign of old, s (old - new) > 0 and s (old + new) > 0.

    The bound ``most``: |new| - |old| is at most the larger of s (new - old) and
    -s (new + old), with s the sign of old; each fails with half of ``tail``.
    """

    def p(sign: FloatArray, direction: float) -> FloatArray:
        by_change = change.upper_p(sign * direction)
        larger = np.maximum(by_change, total.upper_p(sign))
        return np.asarray(np.minimum(1.0, 2 * larger))

    sign = np.where(old < 0, -1.0, 1.0)
    same = sign * (new - old) + change.half_width(tail / 2)
    turned = -sign * (new + old) + total.half_width(tail / 2)
    return Rows(
        old=old,
        new=new,
        change=np.abs(new) - np.abs(old),
        standard_error=np.sqrt(change.variance),
        most=np.maximum(np.maximum(same, turned), 0.0),
        p_worse_alone=p(np.sign(new), 1.0),
        p_improved_alone=p(np.sign(old), -1.0),
    )
