"""By how much did exposure change from one release to another, with which error?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from pcer.errors import PlanError
from pcer.measuring import exposure, measure
from pcer.measuring.exposure import Exposed
from pcer.measuring.measure import Measured
from pcer.measuring.plan import Plan
from pcer.measuring.variances import cost_in_tests, pooled_cost
from pcer.metrics import FloatArray, IntArray, quotient

CONFIDENCE: Final = 0.95  # that all upper bounds of one kind hold together
LEAST_PAIRED: Final = (
    8  # splits from which on the spread of their changes is a reliable error
)


@dataclass(frozen=True)
class BothExposed:
    """One setting's exposure as audits measure it, old and new, the same groups in one order."""

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
        """New plus ``way`` times old, (split, group), and the variance that splits do not show.

        ``way`` is -1 for the change and 1 for the sum; ``least``, old and new, are the
        least costs at which people's part is taken: of two alike, the one that came out
        low must not have the smaller error, neither beside the other group nor beside
        the other release.

        The same people add most to a change if others of them are remembered, and to a
        sum if the same are. With shares s and t remembered, the correlation of who it
        is, is at least -sqrt(s t / ((1 - s) (1 - t))) and at most 1.
        """
        old = self.old
        new = self.new
        middle = (old.value + new.value) / 2
        costs = [
            cost_in_tests(side.value, np.maximum(middle, floor))
            for side, floor in zip((old, new), least, strict=True)
        ]
        people = old.people_part(costs[0]), new.people_part(costs[1])
        shared: FloatArray | float = 0.0
        if self.same_people:
            s, t = (np.clip(cost / self.largest, 0.0, 1.0) for cost in costs)
            odds = quotient(s * t, (1 - s) * (1 - t), otherwise=1.0)
            correlation = np.sqrt(np.minimum(1.0, odds)) if way < 0 else 1.0
            shared = 2 * correlation * np.sqrt(people[0] * people[1])
        if self.is_paired:
            return new.per_split + way * old.per_split, people[0] + people[1] + shared
        variance = old.variance_at(costs[0]) + new.variance_at(costs[1])
        return (new.value + way * old.value)[None], variance + shared


class Contrast(NamedTuple):
    """A change, or a sum, with its error: Student's t, the normal where freedom is infinite."""

    value: FloatArray
    variance: FloatArray
    freedom: FloatArray

    @classmethod
    def of(cls, per_split: FloatArray, lasting: FloatArray) -> Contrast:
        """Split error as (split, ...) varies, and as many degrees of freedom (Satterthwaite).

        One row has its split error in ``lasting`` already.
        """
        n = len(per_split)
        value = np.asarray(per_split.mean(axis=0))
        of_splits = per_split.var(axis=0, ddof=1) / n if n > 1 else np.zeros_like(value)
        variance = of_splits + lasting
        share = quotient(of_splits, variance, otherwise=0.0)
        freedom = quotient(n - 1.0, share**2, otherwise=np.inf)
        return cls(value, variance, freedom)

    def upper_p(self, sign: FloatArray | float = 1.0) -> FloatArray:
        """One-sided p-value of sign times value against 0; 1 where the error is 0."""
        from scipy.special import stdtr

        error = np.sqrt(self.variance)
        scaled = quotient(sign * self.value, error, otherwise=-np.inf)
        return np.where(
            np.isfinite(self.value + error), stdtr(self.freedom, -scaled), np.nan
        )

    def half_width(self, tail: float) -> FloatArray:
        """Distance to an upper bound that fails with probability ``tail``."""
        from scipy.special import stdtrit

        return np.asarray(-stdtrit(self.freedom, tail) * np.sqrt(self.variance))


COLUMNS: Final = (
    *("old", "new", "change", "standard_error", "most"),
    *("p_worse_alone", "p_improved_alone"),
)
# By the name of a field of ``Change``: what is said of each group, or of each pair.
Rows = dict[str, FloatArray]


def group_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of every group's exposure.

    What records change about each other is not the same in two sweeps, so it counts
    here as in the interval of one group (``MUTUAL``); a difference of groups has what
    they do not share.
    """
    per_split, lasting = both.per_split_and_lasting(-1.0)
    mutual = exposure.MUTUAL * (both.old.of_records + both.new.of_records)
    change = Contrast.of(per_split, np.fmax(lasting, mutual))
    values = both.old.value, both.new.value, change.value, np.sqrt(change.variance)
    most = np.maximum(change.value + change.half_width(tail), 0.0)
    return dict(
        zip(
            COLUMNS,
            (*values, most, change.upper_p(), change.upper_p(-1.0)),
            strict=True,
        )
    )


def pair_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of the differences between two groups; arrays of ``both`` are (side, pair)."""
    sides = (both.old, both.new)
    contrasts = []
    pooled = [pooled_cost(side.value, side.n) for side in sides]
    for way in (-1.0, 1.0):
        per_split, lasting = both.per_split_and_lasting(way, pooled)
        apart = per_split[:, 0] - per_split[:, 1]  # what splits share cancels
        contrasts.append(Contrast.of(apart, lasting.sum(axis=0)))
    old, new = (side.value[0] - side.value[1] for side in sides)
    return size_rows(old, new, *contrasts, tail=tail)


def size_rows(
    old: FloatArray, new: FloatArray, change: Contrast, total: Contrast, *, tail: float
) -> Rows:
    """Whether differences grew or shrank in size, whichever group is the more exposed.

    |new| > |old| says two things: with the sign of the new, it is above the old and above its
    opposite. Both must be shown, and either sign could have come: twice the larger p-value.
    The bound: |new| - |old| is at most the larger of (new - t old) and (-new - t old) for either
    sign t; the old difference's own sign is taken, and both signs are paid for.
    """
    sign = np.where(old < 0, -1.0, 1.0)
    same = sign * (new - old) + change.half_width(tail / 2)
    turned = -sign * (new + old) + total.half_width(tail / 2)

    def p(sign: FloatArray, way: float) -> FloatArray:
        both = np.maximum(change.upper_p(sign * way), total.upper_p(sign))
        return np.asarray(np.minimum(1.0, 2 * both))

    values = old, new, np.abs(new) - np.abs(old), np.sqrt(change.variance)
    most = np.maximum(np.maximum(same, turned), 0.0)
    p_values = p(np.sign(new), 1.0), p(np.sign(old), -1.0)
    return dict(zip(COLUMNS, (*values, most, *p_values), strict=True))


def changed_rows(
    measured: Sequence[Measured],
    common: tuple[IntArray, IntArray] | None,
    *,
    n_settings: int,
) -> tuple[Rows, int | None]:
    """One setting's groups, pairs and outcomes, and how many splits were compared one by one.

    ``common`` are the splits that both releases have; None where people are not the
    same.
    """
    before, after = measured
    if before.exposed is None or after.exposed is None:
        which, silent = ("old", before) if before.exposed is None else ("new", after)
        raise PlanError(f"the {which} release cannot be compared: {silent.reason}.")
    names = before.panel.group_names
    order = np.array([after.panel.group_names.index(name) for name in names])
    old = before.exposed
    new = after.exposed
    is_paired = False
    by_split = before.exposed_by_split(), after.exposed_by_split()
    if (
        common is not None
        and len(common[0]) >= LEAST_PAIRED
        and by_split[0]
        and by_split[1]
    ):
        is_paired = True
        old = replace(by_split[0], per_split=by_split[0].per_split[common[0]])
        new = replace(by_split[1], per_split=by_split[1].per_split[common[1]])
    largest = before.proxy.scale.largest
    same_people = common is not None
    both = BothExposed(
        old, new.only(order), same_people, largest=largest, is_paired=is_paired
    )
    pairs = np.array(measure.pairs_of((before.panel,), Plan()), dtype=np.int64).T
    fails = (1 - CONFIDENCE) / n_settings
    of_groups = group_rows(both, tail=fails / len(names))
    of_pairs = pair_rows(both.only(pairs), tail=fails / len(pairs[0]))
    # Outcome rates in the form of exposures, with all of their error in one number.
    rates = [
        replace(
            side,
            per_split=at.received.mean(axis=0)[None],
            one_split=at.received_variance,
        )
        for at, side in zip(measured, (before.exposed, after.exposed), strict=True)
    ]
    old, new = (replace(rate, people=None) for rate in rates)
    served = BothExposed(
        old, new.only(order), same_people, largest=1.0, is_paired=False
    )
    of_outcomes = pair_rows(served.only(pairs), tail=fails / len(pairs[0]))
    enough = before.enough & after.enough[order]
    is_enough = np.concatenate(
        [enough, enough[pairs].all(axis=0), [True] * len(pairs[0])]
    )
    parts = (of_groups, of_pairs, of_outcomes)
    return {
        name: np.where(
            is_enough, np.concatenate([part[name] for part in parts]), np.nan
        )
        for name in COLUMNS
    }, both.old.n_splits if is_paired else None
