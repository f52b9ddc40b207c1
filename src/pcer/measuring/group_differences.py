"""By how much do two groups differ, with which error and p-value?

``attack_tests`` makes every test of one attack, unadjusted, for ``evidence.decide``:
"is anything memorised about these records?" meets the luck of the split alone
(``Measured.memorised_p``), "do the groups differ?" is about people like these
(``compare_pairs``, which bounds and ``power`` take errors from, too). Arrays are
(setting, group) or (setting, pair). To add a comparison: a field of ``PairTests``, and
what ``evidence.decide`` concludes from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.measuring import variances
from pcer.measuring.exposure import Exposed, Measured, Pair
from pcer.measuring.outcomes import Received
from pcer.measuring.training_variance import (
    Combination,
    difference_of,
    half_width,
    two_part_p,
)
from pcer.metrics import BoolArray, FloatArray, IntArray


class PairDifference(NamedTuple):
    """Second minus first group of every pair, for people like these.

    What training moves is estimated from few splits: the degrees of freedom are of
    Student's distribution for that part, infinite where there is none.
    """

    value: FloatArray
    variance_now: FloatArray  # of people and parts
    variance_train: FloatArray  # of what training records move (``training_variance``)
    degrees_of_freedom: FloatArray
    p_value: FloatArray  # adjusted for the whole audit, once that is known
    p_alone: FloatArray  # adjusted over the attacks alone

    @property
    def error(self) -> FloatArray:
        """The square root of both variances together."""
        return np.sqrt(self.variance_now + self.variance_train)

    def half_width(self, tail: float) -> FloatArray:
        """Distance to a bound that fails with the chance ``tail``."""
        return half_width(
            self.variance_now,
            self.variance_train,
            tail=tail,
            degrees_of_freedom=self.degrees_of_freedom,
        )


class PairTests(NamedTuple):
    """Comparisons of one setting (pair), or of all (setting, pair)."""

    exposure: PairDifference
    benefit: PairDifference
    # L = R_i c_j - R_j c_i; positive: the second group has the lower ratio R / c.
    cross: PairDifference


class AttackTests(NamedTuple):
    """One attack's unadjusted tests in every setting."""

    memorised_p: FloatArray  # (setting, group)
    pairs: PairTests  # (setting, pair)


def attack_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, random: bool
) -> AttackTests:
    """Test one attack in every setting; without a random split only the benefits."""
    tests = stacked_tests(measured, pairs)
    memorised_p = np.stack([setting.memorised_p() for setting in measured])
    if random:
        return AttackTests(memorised_p, tests)
    unknown = np.full_like(tests.cross.value, np.nan)
    without_p = PairTests(
        exposure=tests.exposure._replace(p_value=unknown, p_alone=unknown),
        benefit=tests.benefit,
        cross=tests.cross._replace(p_value=unknown, p_alone=unknown),
    )
    return AttackTests(np.full_like(memorised_p, np.nan), without_p)


def stacked_tests(measured: Sequence[Measured], pairs: tuple[Pair, ...]) -> PairTests:
    """The comparisons of all settings, arrays (setting, pair)."""
    settings = [compare_pairs(setting, pairs) for setting in measured]
    by_kind = zip(*settings, strict=True)
    return PairTests(*[_stacked(kind) for kind in by_kind])


def rate_differences(
    received: Sequence[Received], pairs: tuple[Pair, ...], *, among: BoolArray
) -> PairDifference:
    """Unadjusted comparisons (setting, pair) of one rate that counts give.

    NaN where a group is not ``among`` (setting, group) those that are compared.
    """
    groups = np.array(pairs, dtype=np.int64).T  # (side, pair)
    settings = []
    for rates, compared in zip(received, among, strict=True):
        difference = _of_rates(rates, difference_of(groups))
        settings.append(_only(compared[groups].all(axis=0), difference))
    return _stacked(settings)


def _stacked(settings: Sequence[PairDifference]) -> PairDifference:
    parts = zip(*settings, strict=True)
    return PairDifference(*[np.stack(part) for part in parts])


def compare_pairs(measured: Measured, pairs: tuple[Pair, ...]) -> PairTests:
    """Unadjusted comparisons of one setting: exposures, benefits, and ratios.

    Ratios R / c are compared by the cross product L = R_i c_j - R_j c_i, so that
    without memorisation L is 0 whatever the rates. Exposures are NaN where there is no
    estimate or a group has too few records.
    """
    groups = np.array(pairs, dtype=np.int64).T  # (side, pair)
    benefits = _of_rates(measured.received, difference_of(groups))
    if measured.exposed is None:
        unknown = np.full(len(pairs), np.nan)
        nothing = _difference(unknown, unknown)
        return PairTests(nothing, benefits, nothing)

    exposed = measured.exposed.only(groups)
    exposure = exposed.value
    exposure_in_tests = variances.exposure_in_tests(
        exposure, variances.weighted_exposure(exposure, exposed.n)
    )
    sides = _Sides(
        groups=groups,
        exposed=exposed,
        benefit=measured.received.value[groups],
        benefit_variance=measured.received.variance[groups],
        exposure_in_tests=exposure_in_tests,
        exposure_variance=exposed.variance_at(exposure_in_tests),
    )
    exposures = _difference(
        exposure[1] - exposure[0], sides.exposure_variance.sum(axis=0)
    )
    rates = Combination(groups, np.stack([exposure[1], -exposure[0]]))
    crosses = _difference(
        rates.of(measured.received.value),
        _cross_variance(measured, sides),
        measured.received.variance_train(rates),
        measured.received.degrees_of_freedom,
    )
    enough = np.asarray(measured.has_enough_records[groups].all(axis=0))
    return PairTests(_only(enough, exposures), benefits, _only(enough, crosses))


class _Sides(NamedTuple):
    """Both groups of every pair: arrays (side, pair), side 0 being the first group."""

    groups: IntArray  # numbers of the groups
    exposed: Exposed  # its value is c
    benefit: FloatArray  # R
    benefit_variance: FloatArray  # V(R)
    exposure_in_tests: FloatArray  # the c at which the people's part is taken
    exposure_variance: FloatArray  # V(c)


def _cross_variance(measured: Measured, sides: _Sides) -> FloatArray:
    """V(L) of every pair: to first order, and no less than L varies over splits.

    Counts of several splits show how L varies over them; the people's part is added to
    that, as for an exposure (``variances.at_least_spread``).
    """
    exposed = sides.exposed
    closed = variances.cross_variance(
        sides.benefit,
        exposed.value,
        sides.benefit_variance,
        sides.exposure_variance,
        _covariance(sides),
    )
    if not exposed.is_counted or exposed.n_splits == 1:
        return closed

    exposure = exposed.per_split  # (split, side, pair), and so is the benefit
    benefit = measured.received.per_split[:, sides.groups]
    per_split = benefit[:, 0] * exposure[:, 1] - benefit[:, 1] * exposure[:, 0]
    people = variances.cross_variance(
        sides.benefit,
        exposed.value,
        measured.received.lasting[sides.groups],
        exposed.people_part(sides.exposure_in_tests),
        _people_covariance(sides),
    )
    return variances.at_least_spread(closed, per_split, people)


def _covariance(sides: _Sides) -> FloatArray:
    """Cov(R, c) of the means over S splits; NaN where it is not known.

    From counts: Cov_1/S + (1 - 1/S) Cov_people, with Cov_1 that of one split. Else as
    the release gives it, but not beyond what the variances allow.
    """
    exposed = sides.exposed
    n_splits = exposed.n_splits
    if exposed.is_counted:
        lasting = (1 - 1 / n_splits) * _people_covariance(sides)
        return exposed.covariance / n_splits + lasting
    largest = np.sqrt(sides.benefit_variance * sides.exposure_variance)
    return np.clip(exposed.covariance, -largest, largest)


def _people_covariance(sides: _Sides) -> FloatArray:
    return variances.people_covariance(
        sides.benefit, sides.exposed.value, sides.exposed.n
    )


def _of_rates(received: Received, rates: Combination) -> PairDifference:
    """Combinations of outcome rates, with both parts of their variance."""
    return _difference(
        rates.of(received.value),
        received.variance_now(rates),
        received.variance_train(rates),
        received.degrees_of_freedom,
    )


def _difference(
    value: FloatArray,
    variance: FloatArray,
    variance_train: FloatArray | float = 0.0,
    degrees_of_freedom: float = np.inf,
) -> PairDifference:
    """Estimate over error; p is 1 where the error is 0."""
    v_now = np.maximum(variance, 0.0)  # rounding may leave less than 0
    v_train = np.broadcast_to(variance_train, value.shape)
    freedom = np.full(value.shape, degrees_of_freedom)
    p = two_part_p(value, v_now, v_train, degrees_of_freedom=freedom)
    return PairDifference(value, v_now, v_train, freedom, p, p)


def _only(is_known: BoolArray, difference: PairDifference) -> PairDifference:
    return PairDifference(*[np.where(is_known, part, np.nan) for part in difference])
