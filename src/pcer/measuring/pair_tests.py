"""By how much do two groups differ, with which error and which p-value?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.measuring import variances
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import Measured
from pcer.metrics import FloatArray
from pcer.statistics import two_sided_p


class PairDifference(NamedTuple):
    """Second minus first of every pair, the error for people like these, and its p-values."""

    value: FloatArray
    error: FloatArray
    p_value: FloatArray  # adjusted for the whole audit, once that is known
    p_alone: FloatArray  # adjusted over the attacks alone


class PairTests(NamedTuple):
    """Tests of pairs: one setting's, or those of all with the setting as first axis."""

    exposure: PairDifference
    benefit: PairDifference
    # l = R_i c_j - R_j c_i; positive: the second group has the lower ratio
    cross: PairDifference


# One attack's unadjusted tests: p-values (setting, group) of "is anything memorised
# about these records?", and comparisons (setting, pair).
AttackTests = tuple[FloatArray, PairTests]


def attack_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, random: bool
) -> AttackTests:
    """Make the tests of one attack in every setting; without a random split only of benefits."""
    tests = stacked_tests(measured, pairs)
    memorised = np.stack([each.memorised_p() for each in measured])
    if random:
        return memorised, tests
    nothing = np.full_like(tests.cross.value, np.nan)
    unknown = {"p_value": nothing, "p_alone": nothing}
    exposure, cross = (
        kind._replace(**unknown) for kind in (tests.exposure, tests.cross)
    )
    return np.full_like(memorised, np.nan), PairTests(exposure, tests.benefit, cross)


def compare_pairs(measured: Measured, pairs: tuple[Pair, ...]) -> PairTests:
    """Unadjusted comparisons of one setting: exposures, benefits, and the cross product."""
    sides = np.array(pairs, dtype=np.int64).T  # (side, pair)
    benefit = measured.received.mean(axis=0)[sides]
    of_benefit = measured.received_variance[sides]
    benefits = _difference(benefit[1] - benefit[0], of_benefit.sum(axis=0))
    if measured.exposed is None:
        nothing = PairDifference(*np.full((4, len(pairs)), np.nan))
        return PairTests(nothing, benefits, nothing)
    exposed = measured.exposed.only(sides)
    cost = exposed.value
    n = exposed.n
    n_splits = exposed.n_splits
    tested = variances.cost_in_tests(cost, variances.pooled_cost(cost, n))
    of_cost = exposed.variance_at(tested)
    covariance = exposed.covariance
    if exposed.is_counted:
        people = variances.people_covariance(benefit, cost, n)
        covariance = covariance / n_splits + (1 - 1 / n_splits) * people
    else:  # as a release has it, but not beyond what the variances allow
        covariance = np.clip(
            covariance, *(np.sqrt(of_benefit * of_cost) * [[[-1.0]], [[1.0]]])
        )
    # cross-multiplied, so that without memorisation both products are 0 whatever the
    # rates
    cross = benefit[0] * cost[1] - benefit[1] * cost[0]
    of_cross = variances.cross_variance(benefit, cost, of_benefit, of_cost, covariance)
    if exposed.is_counted and n_splits > 1:
        per_split = exposed.per_split
        received = measured.received[:, sides]
        products = received[:, 0] * per_split[:, 1] - received[:, 1] * per_split[:, 0]
        lasting = measured.received_lasting[sides], exposed.people_part(tested)
        of_people = variances.cross_variance(benefit, cost, *lasting, people)
        of_cross = variances.at_least_spread(of_cross, products, of_people)
    enough = measured.enough[sides].all(axis=0)
    exposures = _difference(cost[1] - cost[0], of_cost.sum(axis=0))
    kinds = (exposures, _difference(cross, of_cross))
    exposures, crosses = (
        PairDifference(*np.where(enough, kind, np.nan)) for kind in kinds
    )
    return PairTests(exposures, benefits, crosses)


def _difference(value: FloatArray, variance: FloatArray) -> PairDifference:
    """Estimate over error; p is 1 where the error is 0."""
    error = np.sqrt(np.maximum(variance, 0.0))  # rounding may leave less than 0
    p = two_sided_p(value, error)
    return PairDifference(value, error, p, p)


def stacked_tests(measured: Sequence[Measured], pairs: tuple[Pair, ...]) -> PairTests:
    """The comparisons of all settings, arrays (setting, pair)."""
    kinds = zip(*(compare_pairs(setting, pairs) for setting in measured), strict=True)
    return PairTests(
        *(PairDifference(*map(np.stack, zip(*kind, strict=True))) for kind in kinds)
    )
