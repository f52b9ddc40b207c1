"""Every test of an audit, made over all settings at once so that Holm sees the whole family.

Two questions, two errors. "Is anything memorised about these records?" meets the luck of the split
alone. "Do the groups differ?" is about people like these. Arrays are (setting, group) or (setting,
pair); pairs may come in families of their own, as those of placebo attributes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from pcer.auditing.measure import Exposed, Measured, Pair, Received, measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.variances import (
    OneSide,
    at_least_spread,
    cost_in_tests,
    covariance_over_splits,
    cross_product,
    cross_variance,
    people_covariance,
    pooled_cost,
)
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.format import Outcome
from pcer.release.panel import Panel
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE, holm, two_sided_p


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
    """Unadjusted tests of pairs: of one setting, or of all with the setting as first axis."""

    exposure: PairDifference
    benefit: PairDifference
    cross: PairDifference
    """L = R_i c_j - R_j c_i; positive: the second group has the lower ratio."""


class AttackTests(NamedTuple):
    """One attack's unadjusted tests over all settings."""

    memorised_p: FloatArray
    """(setting, group) of "is anything memorised about these records?"."""
    pairs: PairTests
    """Arrays (setting, pair)."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """p-values and what follows from them; NaN where a test cannot be made.

    Arrays are (setting, group) or (setting, pair); of one setting the first axis is dropped. One or
    two attacks decide. Values and errors are those of the first, the ratio is by the first, and
    whether exposures are detected or differ is decided by the attack with the smallest p-value,
    Holm over the attacks included.

    =================  ==========================================================================
    p-value            adjusted over
    =================  ==========================================================================
    ``cost_p``         attacks, settings and groups
    ``exposure_p``     attacks, settings and pairs, with four fifths of the level
    ``cross_p``        settings and pairs, with one fifth; what one does not need, the other gets
    ``benefit_p``      settings and pairs
    ``double_p``       the larger of ``exposure_p`` and ``benefit_p``
    ``..._p_alone``    the attacks alone
    =================  ==========================================================================
    """

    cost_p: FloatArray
    cost_p_alone: FloatArray
    resolved: BoolArray
    detected_by: IntArray
    """(setting, group) which attack has the smallest p-value."""
    exposure: FloatArray
    exposure_error: FloatArray
    exposure_p: FloatArray
    exposure_p_alone: FloatArray
    decided_by: IntArray
    """(setting, pair) which attack has the smallest p-value."""
    more_exposed: IntArray
    """(setting, pair) index of the group that this attack finds more exposed."""
    contradicted: BoolArray
    """Whether another attack finds the other group more exposed, both beyond chance."""
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

    def cleared(self) -> Evidence:
        """A copy with all decisions cleared; p-values unchanged."""
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
    def smallest_p(self) -> float:
        """The smallest adjusted p-value of exposures and ratios; 1 if there is none."""
        return float(np.nanmin([*self.exposure_p.ravel(), *self.cross_p.ravel(), 1.0]))


class Alarms(NamedTuple):
    """What would be said about pairs: arrays (setting, pair)."""

    shown: BoolArray
    double: IntArray
    """Index of the doubly disadvantaged group, -1 for none."""
    differ: BoolArray
    """Whether exposures differ."""


def make_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, outcome: Outcome, random: bool
) -> Evidence:
    """Make every test of one attack, and decide by it alone."""
    return decide([attack_tests(measured, pairs, random=random)], pairs, outcome=outcome)


def attack_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, random: bool
) -> AttackTests:
    """Make the tests of one attack in every setting.

    Without a random split no test of exposure has a meaning: estimates stay, p-values are NaN.
    """
    tests = _stacked([compare_pairs(one, pairs) for one in measured])
    memorised = np.stack([one.memorised_p() for one in measured])
    if random:
        return AttackTests(memorised, tests)
    unknown = (kind._replace(p_value=np.full_like(kind.p_value, np.nan)) for kind in tests)
    return AttackTests(np.full_like(memorised, np.nan), PairTests(*unknown))


def decide(
    attacks: Sequence[AttackTests], pairs: tuple[Pair, ...], *, outcome: Outcome
) -> Evidence:
    """Adjust every p-value for the whole audit, and draw the conclusions.

    Args:
        attacks: those that decide, the one whose numbers people see first.
        pairs: of groups.
        outcome: whether a positive prediction is a benefit or a harm.
    """
    memorised = np.stack([one.memorised_p for one in attacks])
    exposures = np.stack([one.pairs.exposure.p_value for one in attacks])
    exposure, benefit, cross = attacks[0].pairs
    cost_p, detected_by = _smallest(holm(memorised), memorised)
    all_exposure_p, cross_p = share_level(exposures, cross.p_value)
    exposure_p, decided_by = _smallest(all_exposure_p, exposures)
    benefit_p, resolved = holm(benefit.p_value), cost_p <= SIGNIFICANCE
    # positive: the second group is the more exposed one, by the attack that decided
    found = np.stack([one.pairs.exposure.value for one in attacks])
    sign = np.take_along_axis(found, decided_by[None], axis=0)[0]
    opposite = (all_exposure_p <= SIGNIFICANCE) & (found * sign < 0)
    first, second = np.array(pairs, dtype=np.int64).T
    more_exposed = np.where(sign > 0, second, first)
    is_detected = np.take_along_axis(resolved, more_exposed, axis=1)
    differ = (exposure_p <= SIGNIFICANCE) & is_detected
    worse = benefit.value if outcome == "harm" else -benefit.value
    alone = _smallest_alone(exposures)
    double_p, double_alone = (
        np.where(sign * worse > 0, both, np.where(np.isnan(both), np.nan, 1.0))
        for both in (np.maximum(exposure_p, benefit_p), np.maximum(alone, benefit.p_value))
    )
    return Evidence(
        cost_p=cost_p,
        cost_p_alone=_smallest_alone(memorised),
        resolved=resolved,
        detected_by=detected_by,
        exposure=exposure.value,
        exposure_error=exposure.error,
        exposure_p=exposure_p,
        exposure_p_alone=alone,
        decided_by=decided_by,
        more_exposed=more_exposed,
        contradicted=opposite.any(axis=0) & (exposure_p <= SIGNIFICANCE),
        benefit=benefit.value,
        benefit_error=benefit.error,
        benefit_p=benefit_p,
        benefit_p_alone=benefit.p_value,
        cross=cross.value,
        cross_error=cross.error,
        cross_p=cross_p,
        cross_p_alone=cross.p_value,
        double_p=double_p,
        double_p_alone=double_alone,
        shown=(cross_p <= SIGNIFICANCE) & (resolved[:, first] | resolved[:, second]),
        double=np.where((double_p <= SIGNIFICANCE) & is_detected, more_exposed, -1),
        exposures_differ=differ,
        benefits_differ=benefit_p <= SIGNIFICANCE,
    )


def share_level(exposure_p: FloatArray, cross_p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted Holm over exposures, with four fifths of the level, and ratios, with one fifth."""
    parts = exposure_p.ravel(), cross_p.ravel()
    weights = [
        np.full(len(part), share / max(1, np.isfinite(part).sum()))
        for part, share in zip(parts, (EXPOSURE_SHARE, 1 - EXPOSURE_SHARE), strict=True)
    ]
    adjusted = holm(np.concatenate(parts), weights=np.concatenate(weights))
    exposure, cross = np.split(adjusted, [len(parts[0])])
    return exposure.reshape(exposure_p.shape), cross.reshape(cross_p.shape)


def _smallest(adjusted: FloatArray, alone: FloatArray) -> tuple[FloatArray, IntArray]:
    """Smallest p-value over the attacks (first axis), NaN where no attack has one; and whose."""
    by = np.argmin(np.where(np.isnan(alone), np.inf, alone), axis=0)
    return np.take_along_axis(adjusted, by[None], axis=0)[0], by


def _smallest_alone(p_values: FloatArray) -> FloatArray:
    """The same adjusted over the attacks alone."""
    n = np.isfinite(p_values).sum(axis=0)
    return np.asarray(np.minimum(_smallest(p_values, p_values)[0] * n, 1.0))


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
    """What an audit of each family of pairs would say by one attack: fast for many families.

    Args:
        panels: one per setting.
        pairs: of all families, in equal blocks.
        plan: which benefit.
        cost: which attack.
        outcome: whether a positive prediction is a benefit or a harm.
        n_families: divisions of the records that are audited each for itself.
        inflation: (group,) by how much clumps of records multiply variances.
    """
    measured = [measure_panel(panel, plan, cost, inflation=inflation) for panel in panels]
    tests = _stacked([compare_pairs(one, pairs) for one in measured])
    said = Alarms(*(np.full(tests.cross.value.shape, what) for what in (False, -1, False)))
    known = None if measured[0].proxy.is_from_counts else _memorised_p(measured, None)
    n_pairs = len(pairs) // n_families
    # A family in which no p-value passes Bonferroni says nothing, so its exact p-values of
    # memorisation, which take long, are not needed.
    hopeful = np.zeros(n_families, dtype=np.bool_)
    for kind in (tests.exposure, tests.cross):
        by_family = kind.p_value.reshape(len(panels), n_families, n_pairs)
        n = np.maximum(np.isfinite(by_family).sum(axis=(0, 2)), 1)
        hopeful |= (by_family <= (SIGNIFICANCE / n)[:, None]).any(axis=(0, 2))
    for start in np.flatnonzero(hopeful) * n_pairs:
        family = slice(start, start + n_pairs)
        groups, own = np.unique(np.array(pairs[family]), return_inverse=True)
        kept = (PairDifference(*(part[:, family] for part in kind)) for kind in tests)
        p_memorised = _memorised_p(measured, groups) if known is None else known[:, groups]
        numbered = tuple((int(i), int(j)) for i, j in own.reshape(-1, 2))
        found = decide([AttackTests(p_memorised, PairTests(*kept))], numbered, outcome=outcome)
        said.shown[:, family] = found.shown
        said.double[:, family] = np.where(found.double >= 0, groups[found.double], -1)
        said.differ[:, family] = found.exposures_differ
    return said


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


def _stacked(tests: Sequence[PairTests]) -> PairTests:
    """The comparisons of all settings, arrays (setting, pair)."""
    kinds = zip(*tests, strict=True)
    return PairTests(*(PairDifference(*map(np.stack, zip(*kind, strict=True))) for kind in kinds))


def _memorised_p(measured: Sequence[Measured], groups: IntArray | None) -> FloatArray:
    return np.stack([one.memorised_p(groups) for one in measured])
