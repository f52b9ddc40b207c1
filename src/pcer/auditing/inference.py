"""Every test of an audit, made over all settings at once so that Holm sees the whole family.

Two questions, two errors. "Is anything memorised about these records?" meets the luck of the split
alone. "Do the groups differ?" is about people like these. Arrays are (setting, group) or (setting,
pair); pairs may come in families of their own, as those of coin-flip attributes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from pcer.auditing.measure import Exposed, Measured, Pair, Received, measure_panel
from pcer.auditing.people import (
    OneSide,
    at_least_spread,
    cost_in_tests,
    covariance_over_splits,
    cross_product,
    cross_variance,
    double_p,
    people_covariance,
    pooled_cost,
)
from pcer.auditing.plan import Plan
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import Outcome, Panel
from pcer.statistics import SIGNIFICANCE, holm, two_sided_p


class PairDifference(NamedTuple):
    """Of every pair, second minus first, its error for people like these, and its p-value."""

    value: FloatArray
    error: FloatArray
    p_value: FloatArray

    @classmethod
    def of(cls, value: FloatArray, variance: FloatArray) -> PairDifference:
        """Estimate over error; p is 1 where the error is 0."""
        error = np.sqrt(variance)
        return cls(value, error, two_sided_p(value, error))

    @classmethod
    def unknown(cls, n_pairs: int) -> PairDifference:
        """Where there is nothing to compare."""
        return cls(*(np.full(n_pairs, np.nan) for _ in range(3)))


class PairTests(NamedTuple):
    """Unadjusted tests of one setting's pairs."""

    exposure: PairDifference
    benefit: PairDifference
    cross: PairDifference
    """L = R_i c_j - R_j c_i; positive: the second group has the lower ratio."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """p-values and what follows from them; NaN where a test cannot be made.

    Arrays are (setting, group) or (setting, pair); of one setting the first axis is dropped.
    Adjusted p-values are Holm's: over settings and groups; over settings, pairs and both kinds of
    alarm; and over settings and pairs for each kind of difference.
    """

    cost_p: FloatArray
    cost_p_alone: FloatArray
    resolved: BoolArray
    exposure: FloatArray
    exposure_error: FloatArray
    exposure_p: FloatArray
    exposure_p_alone: FloatArray
    benefit: FloatArray
    benefit_error: FloatArray
    benefit_p: FloatArray
    benefit_p_alone: FloatArray
    cross: FloatArray
    cross_error: FloatArray
    cross_p: FloatArray
    cross_p_alone: FloatArray
    double_p: FloatArray
    double_p_alone: FloatArray
    shown: BoolArray
    double: IntArray
    """Index of the doubly disadvantaged group, -1 for none."""
    exposures_differ: BoolArray
    benefits_differ: BoolArray

    def of_setting(self, k: int) -> Evidence:
        """The part that concerns one setting."""
        return Evidence(**{one.name: getattr(self, one.name)[k] for one in fields(self)})

    def taken_back(self) -> Evidence:
        """The same p-values, from which nothing follows."""
        return replace(
            self,
            resolved=np.zeros_like(self.resolved),
            shown=np.zeros_like(self.shown),
            double=np.full_like(self.double, -1),
            exposures_differ=np.zeros_like(self.exposures_differ),
            benefits_differ=np.zeros_like(self.benefits_differ),
        )

    @property
    def n_cost_tests(self) -> int:
        """Settings and groups that are tested for memorisation."""
        return int(np.isfinite(self.cost_p_alone).sum())

    @property
    def n_pair_tests(self) -> int:
        """Settings and pairs that are compared."""
        return int(np.isfinite(self.exposure_p_alone).sum())

    @property
    def smallest_alarm_p(self) -> float:
        """The smallest adjusted p-value of all comparisons that could raise an alarm; 1 if none."""
        return min(_smallest(part) for part in (self.cross_p, self.double_p))

    @property
    def smallest_exposure_p(self) -> float:
        """The smallest adjusted p-value of all comparisons of exposures; 1 if none."""
        return _smallest(self.exposure_p)


def _smallest(p: FloatArray) -> float:
    return float(np.nanmin([*p.ravel(), 1.0]))


class Alarms(NamedTuple):
    """What would be said about pairs: arrays (setting, pair)."""

    shown: BoolArray
    double: IntArray
    """Index of the doubly disadvantaged group, -1 for none."""


def make_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, outcome: Outcome, random: bool
) -> Evidence:
    """Make every test of the audit, over all settings at once.

    Without a random split no test has a meaning: estimates stay, p-values are NaN.
    """
    usable = 1.0 if random else np.nan
    tests = [compare_pairs(one, pairs) for one in measured]
    exposure, benefit, cross = (_stacked(tests, name, usable) for name in PairTests._fields)
    double_alone = _double_p(exposure, benefit, outcome)
    cross_p, doubled_p = np.split(holm(np.concatenate([cross.p_value, double_alone])), 2)
    alone = np.stack([one.memorised_p() for one in measured]) * usable
    cost_p, exposure_p, benefit_p = map(holm, (alone, exposure.p_value, benefit.p_value))
    resolved = cost_p <= SIGNIFICANCE
    return Evidence(
        cost_p=cost_p,
        cost_p_alone=alone,
        resolved=resolved,
        exposure=exposure.value,
        exposure_error=exposure.error,
        exposure_p=exposure_p,
        exposure_p_alone=exposure.p_value,
        benefit=benefit.value,
        benefit_error=benefit.error,
        benefit_p=benefit_p,
        benefit_p_alone=benefit.p_value,
        cross=cross.value,
        cross_error=cross.error,
        cross_p=cross_p,
        cross_p_alone=cross.p_value,
        double_p=doubled_p,
        double_p_alone=double_alone,
        shown=(cross_p <= SIGNIFICANCE) & _worse_resolved(cross.value, resolved, pairs),
        double=np.where(
            doubled_p <= SIGNIFICANCE,
            _doubled(exposure.value, benefit.value, resolved, pairs, outcome),
            -1,
        ),
        exposures_differ=exposure_p <= SIGNIFICANCE,
        benefits_differ=benefit_p <= SIGNIFICANCE,
    )


def alarms(
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    plan: Plan,
    *,
    cost: str,
    outcome: Outcome,
    n_families: int = 1,
    inflation: FloatArray | None = None,
) -> Alarms:
    """What an audit of each family of pairs would say, and nothing else: fast for many families.

    Args:
        panels: one per setting.
        pairs: of all families, in equal blocks.
        plan: which benefit.
        cost: which cost.
        outcome: whether a positive prediction is a benefit or a harm.
        n_families: divisions of the records that are audited each for itself.
        inflation: (group,) by how much clumps of records multiply variances.
    """
    measured = [measure_panel(panel, plan, cost, inflation=inflation) for panel in panels]
    tests = [compare_pairs(one, pairs) for one in measured]
    exposure, benefit, cross = (_stacked(tests, name, 1.0) for name in PairTests._fields)
    doubled = _double_p(exposure, benefit, outcome)
    shown = np.zeros(cross.value.shape, dtype=np.bool_)
    double = np.full(cross.value.shape, -1)
    known = None if measured[0].proxy.is_from_counts else _memorised_p(measured, None)
    for family in np.split(np.arange(len(pairs)), n_families):
        both = holm(np.concatenate([cross.p_value[:, family], doubled[:, family]])) <= SIGNIFICANCE
        if not both.any():
            continue
        own = tuple(pairs[k] for k in family)
        resolved = _resolved_of(measured, own, known)
        first, second = np.split(both, 2)
        shown[:, family] = first & _worse_resolved(cross.value[:, family], resolved, own)
        who = _doubled(exposure.value[:, family], benefit.value[:, family], resolved, own, outcome)
        double[:, family] = np.where(second, who, -1)
    return Alarms(shown, double)


def compare_pairs(one: Measured, pairs: tuple[Pair, ...]) -> PairTests:
    """Unadjusted comparisons of one setting: exposures, benefits, and the cross product."""
    nothing = PairDifference.unknown(len(pairs))
    first, second = np.array(pairs, dtype=np.int64).T
    told = one.told[first] & one.told[second]
    benefit = nothing if one.received is None else _benefits(one.received, first, second)
    if one.exposed is None:
        return PairTests(nothing, benefit, nothing)
    sides = one.exposed.only(first), one.exposed.only(second)
    pooled = pooled_cost(sides[0].value, sides[1].value, sides[0].n, sides[1].n)
    tested = [cost_in_tests(side.value, pooled) for side in sides]
    variances = [side.variance_at(cost) for side, cost in zip(sides, tested, strict=True)]
    exposure = PairDifference.of(sides[1].value - sides[0].value, variances[0] + variances[1])
    cross = nothing
    if one.received is not None:
        received = one.received.only(first), one.received.only(second)
        cross = _cross(sides, received, tested)
    return PairTests(_where(told, exposure), benefit, _where(told, cross))


def _benefits(received: Received, first: IntArray, second: IntArray) -> PairDifference:
    variance = received.variance[first] + received.variance[second]
    return PairDifference.of(received.value[second] - received.value[first], variance)


def _cross(
    exposed: tuple[Exposed, Exposed],
    received: tuple[Received, Received],
    tested: Sequence[FloatArray],
) -> PairDifference:
    """R_i c_j - R_j c_i with the errors of all four, and at least its spread over splits.

    Cross-multiplied, so that without memorisation both products are 0 whatever the rates.
    """
    whole = [_whole(*side) for side in zip(exposed, received, tested, strict=True)]
    closed, value = cross_variance(*whole), cross_product(*whole)
    one, other = exposed
    if not one.is_counted or one.n_splits < 2:
        return PairDifference.of(value, closed)
    lasting = [_lasting(*side) for side in zip(exposed, received, tested, strict=True)]
    products = received[0].per_split * other.per_split - received[1].per_split * one.per_split
    return PairDifference.of(value, at_least_spread(closed, products, cross_variance(*lasting)))


def _whole(exposed: Exposed, received: Received, tested: FloatArray) -> OneSide:
    covariance = exposed.covariance
    if exposed.is_counted:
        people = people_covariance(received.value, exposed.value, exposed.n)
        covariance = covariance_over_splits(covariance, people, n_splits=exposed.n_splits)
    return OneSide(
        benefit=received.value,
        cost=exposed.value,
        benefit_variance=received.variance,
        cost_variance=exposed.variance_at(tested),
        covariance=covariance,
    )


def _lasting(exposed: Exposed, received: Received, tested: FloatArray) -> OneSide:
    """The people's part alone, which no number of splits lowers."""
    return OneSide(
        benefit=received.value,
        cost=exposed.value,
        benefit_variance=received.lasting,
        cost_variance=exposed.people_part(tested),
        covariance=people_covariance(received.value, exposed.value, exposed.n),
    )


def _where(told: BoolArray, difference: PairDifference) -> PairDifference:
    return PairDifference(*(np.where(told, part, np.nan) for part in difference))


def _stacked(tests: Sequence[PairTests], name: str, usable: float) -> PairDifference:
    """One comparison of all settings, arrays (setting, pair)."""
    rows = [getattr(one, name) for one in tests]
    value, error, p = (np.stack(part) for part in zip(*rows, strict=True))
    return PairDifference(value, error, p * usable)


def _resolved_of(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], known: FloatArray | None
) -> BoolArray:
    """Whether groups of one family are resolved in each setting; others are not looked at.

    Args:
        measured: the settings.
        pairs: of the family.
        known: (setting, group) p-values; None: only the family's are worked out, as exact ones
            take long.
    """
    groups = np.unique(np.array(pairs, dtype=np.int64))
    p = _memorised_p(measured, groups) if known is None else known[:, groups]
    resolved = np.zeros((len(measured), len(measured[0].told)), dtype=np.bool_)
    resolved[:, groups] = holm(p) <= SIGNIFICANCE
    return resolved


def _memorised_p(measured: Sequence[Measured], groups: IntArray | None) -> FloatArray:
    return np.stack([one.memorised_p(groups) for one in measured])


def _worse_resolved(cross: FloatArray, resolved: BoolArray, pairs: tuple[Pair, ...]) -> BoolArray:
    """Whether the group of lower ratio is resolved."""
    first, second = np.array(pairs, dtype=np.int64).T
    return np.asarray(np.where(cross > 0, resolved[:, second], resolved[:, first]))


def _double_p(exposure: PairDifference, benefit: PairDifference, outcome: Outcome) -> FloatArray:
    """The larger of two p-values; 1 where the more exposed group is the better off."""
    worse = benefit.value if outcome == "harm" else -benefit.value
    both = double_p(exposure.p_value, benefit.p_value)
    return np.where(exposure.value * worse > 0, both, np.where(np.isnan(both), np.nan, 1.0))


def _doubled(
    exposure: FloatArray,
    benefit: FloatArray,
    resolved: BoolArray,
    pairs: tuple[Pair, ...],
    outcome: Outcome,
) -> IntArray:
    """Which group of each pair has both the higher cost and the worse rate; -1 for none."""
    first, second = np.array(pairs, dtype=np.int64).T
    worse = benefit if outcome == "harm" else -benefit
    on_second = (exposure > 0) & (worse > 0) & resolved[:, second]
    on_first = (exposure < 0) & (worse < 0) & resolved[:, first]
    return np.where(on_second, second, np.where(on_first, first, -1))
