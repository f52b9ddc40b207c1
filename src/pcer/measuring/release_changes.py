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
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pcer.errors import PlanError
from pcer.measuring.choose_attacks import pairs_of
from pcer.measuring.exposure import Exposed, Measured
from pcer.measuring.outcomes import Received
from pcer.measuring.plan import Plan
from pcer.measuring.training_variance import (
    LEAST_SPLITS,
    Combination,
    TrainingPart,
    difference_of,
    half_width,
    two_part_p,
)
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
        shares = [old_exposure / self.largest, new_exposure / self.largest]
        return 2 * _largest_correlation(way, *shares) * np.sqrt(people)


def _largest_correlation(
    way: float, old_share: FloatArray, new_share: FloatArray
) -> FloatArray | float:
    """The most that two shares s and t of the same people can vary together.

    In a sum 1; in a change, where they vary against each other,
    sqrt(s t / ((1 - s) (1 - t))), but no more than 1.
    """
    if way > 0:
        return 1.0
    s = np.clip(old_share, 0.0, 1.0)
    t = np.clip(new_share, 0.0, 1.0)
    odds = quotient(s * t, (1 - s) * (1 - t), otherwise=1.0)
    return np.sqrt(np.minimum(1.0, odds))


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


class RateContrast(NamedTuple):
    """A change, or a sum, of outcomes: the error has what training moves, too.

    As for a difference of groups (``training_variance``): the normal's quantile for
    people and parts, Student's with ``freedom`` degrees for what training moves.
    """

    value: FloatArray
    variance_now: FloatArray
    variance_train: FloatArray
    freedom: float

    @property
    def variance(self) -> FloatArray:
        """Both parts."""
        return np.asarray(self.variance_now + self.variance_train)

    def upper_p(self, sign: FloatArray | float = 1.0) -> FloatArray:
        """One-sided p-value of sign times value against 0."""
        two_sided = two_part_p(
            self.value,
            self.variance_now,
            self.variance_train,
            degrees_of_freedom=self.freedom,
        )
        is_above = sign * self.value > 0
        return np.where(is_above, two_sided / 2, 1 - two_sided / 2)

    def half_width(self, tail: float) -> FloatArray:
        """Distance to an upper bound that fails with probability ``tail``."""
        return half_width(
            self.variance_now,
            self.variance_train,
            tail=tail,
            degrees_of_freedom=self.freedom,
        )


AnyContrast: TypeAlias = Contrast | RateContrast


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
    served = BothReceived(before.received, after.received, order, common)
    if common is not None and len(common[0]) >= LEAST_PAIRED:
        both = _paired(both, measured, common, order)

    tail = (1 - CONFIDENCE) / n_settings
    rows = joined(
        [
            group_rows(both, tail=tail / len(names)),
            pair_rows(both.only(pairs), tail=tail / n_pairs),
            outcome_rows(served, pairs, tail=tail / n_pairs),
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
    here as in the interval of one group (``mutual``).
    """
    per_split, lasting = both.per_split_and_lasting(CHANGE)
    of_old = both.old.mutual * both.old.of_records
    mutual = of_old + both.new.mutual * both.new.of_records
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


@dataclass(frozen=True)
class BothReceived:
    """One setting's outcomes, old and new."""

    old: Received
    new: Received
    order: IntArray  # the new release's groups in the order of the old one's
    common: tuple[IntArray, IntArray] | None  # splits of the same records

    @cached_property
    def training(self) -> TrainingPart | None:
        """What training moves in both: the new groups after the old ones.

        None where the splits are not the same, so that the errors of both are added.
        """
        old = self.old.training
        new = self.new.training
        if old is None or new is None or self.common is None:
            return None
        old_splits, new_splits = self.common
        if len(old_splits) < LEAST_SPLITS:
            return None
        every_group = np.arange(len(self.order))
        return old.at(old_splits, every_group).beside(new.at(new_splits, self.order))

    def contrast(self, pairs: IntArray, way: float) -> RateContrast:
        """First minus second of new plus ``way`` times old; pairs (side, pair)."""
        old = _first_minus_second(pairs)
        new = _first_minus_second(self.order[pairs])
        value = new.of(self.new.value) + way * old.of(self.old.value)
        variance_now = self.old.variance_now(old) + self.new.variance_now(new)
        if self.common is not None:
            variance_now = variance_now + self._shared_variance(way)[pairs].sum(axis=0)
        training = self.training
        if training is None:
            variance_train = self.old.variance_train(old) + self.new.variance_train(new)
            freedom = min(self.old.degrees_of_freedom, self.new.degrees_of_freedom)
            return RateContrast(value, variance_now, variance_train, freedom)
        both = Combination(
            groups=np.concatenate([old.groups, old.groups + len(self.order)]),
            weights=np.concatenate([way * old.weights, new.weights]),
        )
        variance_train = training.variance(both)
        freedom = float(training.degrees_of_freedom)
        return RateContrast(value, variance_now, variance_train, freedom)

    def _shared_variance(self, way: float) -> FloatArray:
        """(group,) the most that the same people add to the variance."""
        people = self.old.variance * self.new.variance[self.order]
        shares = [self.old.value, self.new.value[self.order]]
        return np.asarray(2 * _largest_correlation(way, *shares) * np.sqrt(people))


def _first_minus_second(pairs: IntArray) -> Combination:
    return difference_of(pairs[::-1])


def outcome_rows(both: BothReceived, pairs: IntArray, *, tail: float) -> Rows:
    """The change of the difference in outcomes between both groups of a pair."""
    return size_rows(
        _first_minus_second(pairs).of(both.old.value),
        _first_minus_second(both.order[pairs]).of(both.new.value),
        both.contrast(pairs, CHANGE),
        both.contrast(pairs, SUM),
        tail=tail,
    )


def size_rows(
    old: FloatArray,
    new: FloatArray,
    change: AnyContrast,
    total: AnyContrast,
    *,
    tail: float,
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
