"""LiRA and RMIA: how do a setting's other models calibrate a record's score?

``scorers`` calls these functions for blocks of records. The other models of the sweep
are the shadow models. To attack one target model, everything (means, variances,
exclusions) comes from the other models of the setting: anything that includes the
target leaks its membership into the score. Sums over all models minus the target's
value give that in one pass. No score depends on groups.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.single import log_odds
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient
from pcer.release import attack_kinds

LEAST_MODELS = attack_kinds.LIRA.least_models
# A sum of squares below this share of its terms is rounding, not spread.
ROUNDING = 1e-12
EQUAL = 1e-9  # relative distance of scores that count as equal
# Relative error of log odds that were kept in single precision.
SINGLE_PRECISION = 1e-6
TRIMMED = 0.05  # share of records trimmed at either end for the typical difference
DECIMALS = 6  # of a score; scores that differ by less share a rank
# Quantile of the distances from 0 or 1: twice the distance at which probabilities are
# cut.
CUT_QUANTILE = 0.01
CUT_WITHOUT = 0.02  # the same where every probability is 0 or 1


class Others(NamedTuple):
    """What the other models of a target score: arrays (target, record).

    ``in`` are those that were trained on the record, ``out`` the rest; ``squares`` are
    sums of squared deviations from the mean.
    """

    n_in: FloatArray
    n_out: FloatArray
    mean_in: FloatArray
    mean_out: FloatArray
    squares_in: FloatArray
    squares_out: FloatArray

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation common to in and out; NaN where it is unknown or 0."""
        squares = self.squares_in + self.squares_out
        return np.sqrt(variance_of(squares, self.n_in + self.n_out - 1))


def rmia_ratio(confidence: FloatArray, others: Others) -> FloatArray:
    """The target's probability over the other models' average.

    p / ((mean_in + mean_out)/2): in and out weigh alike. Zarifzadeh et al. rank this
    ratio among other records; the AUC within one model is the same.
    """
    return quotient(confidence, (others.mean_in + others.mean_out) / 2)


def largest_log_odds(values: npt.NDArray[np.floating[Any]]) -> float:
    """Where LiRA cuts the log odds of one setting's probabilities.

    A large number in place of a 1's log odds would dominate a record's variance: all
    are cut to those of [h/2, 1 - h/2], with h the 1% quantile of distances from 0 or 1
    of those neither 0 nor 1. Infinite if none is 0 or 1.

    >>> round(largest_log_odds(log_odds(np.array([0.0, 0.5, 1.0]))), 6)
    1.098612
    """
    from scipy.special import expit

    size = np.abs(values)
    is_sure = size >= log_odds(np.ones(1)) * (1 - SINGLE_PRECISION)
    if not is_sure.any():
        return math.inf
    inner = expit(-size[~is_sure].astype(np.float64))
    h = np.quantile(inner, CUT_QUANTILE) if inner.size else CUT_WITHOUT
    return float(log_odds(np.asarray(1 - h / 2)))


def other_models(values: FloatArray, member: BoolArray, split: IntArray) -> Others:
    """Counts, means and squared deviations over models of other splits.

    Means are NaN where there is no such model. Models of the target's own split
    resemble it where it had a record in: they would leak that.
    """
    centred = values - values[0]  # a shift per record: constant scores become exactly 0
    inside = _without_own(centred, member, split)
    outside = _without_own(centred, ~member, split)
    shift = values - centred
    return Others(
        n_in=inside.n,
        n_out=outside.n,
        mean_in=inside.mean + shift,
        mean_out=outside.mean + shift,
        squares_in=inside.squares,
        squares_out=outside.squares,
    )


def of_others(values: npt.NDArray[Any], split: IntArray) -> FloatArray:
    """(model, record) sums over the models of other splits."""
    if len(np.unique(split)) == len(split):
        return np.asarray(np.subtract(values.sum(axis=0), values, dtype=np.float64))
    sums = [values[split != of_target].sum(axis=0) for of_target in split]
    return np.array(sums, dtype=np.float64)


class Side(NamedTuple):
    """Count, mean and squared deviations (target, record) of some other models."""

    n: FloatArray
    mean: FloatArray
    squares: FloatArray


def _without_own(values: FloatArray, chosen: BoolArray, split: IntArray) -> Side:
    """The chosen models of other splits."""
    of_chosen = values * chosen
    n = of_others(chosen, split)
    mean = quotient(of_others(of_chosen, split), n)
    of_chosen *= of_chosen
    squares = of_others(of_chosen, split)
    rounding = ROUNDING * squares.max(axis=0)
    squares -= n * mean**2
    return Side(n, mean, np.where(squares > rounding, squares, 0.0))


class RatioParts(NamedTuple):
    """What a record's log likelihood ratio is made of: arrays (target, record)."""

    standing: FloatArray
    difference: FloatArray


def ratio_parts(values: FloatArray, others: Others) -> RatioParts:
    """The target's position, and the difference between in and out, both in deviations.

    With the other models' common deviation s, the difference is d = (mean_in -
    mean_out)/s, and the position z = (value - m)/s, where m is their overall mean. The
    difference is NaN where the others do not vary, or all had the record in, or all
    out. The position then is the score itself: infinite where in and out are two
    different constants, else 0.
    """
    n_in, n_out, mean_in, mean_out = others[:4]
    deviation = others.deviation
    apart = mean_in - mean_out
    difference = apart / deviation
    mean = (n_in * mean_in + n_out * mean_out) / (n_in + n_out)
    standing = (values - mean) / deviation
    certain = _certain(values, apart, others)
    return RatioParts(np.where(np.isnan(difference), certain, standing), difference)


def _certain(values: FloatArray, apart: FloatArray, others: Others) -> FloatArray:
    """The score where in and out are constants: infinite, above 0 on the side of in."""
    beyond = values - (others.mean_in + others.mean_out) / 2
    largest = np.abs(values) + np.abs(others.mean_in) + np.abs(others.mean_out)
    differs = np.minimum(np.abs(apart), np.abs(beyond)) > EQUAL * largest  # not of NaN
    return np.where(differs, np.copysign(np.inf, apart * beyond), 0.0)


def shrunk_ratio(
    standing: FloatArray,
    difference: FloatArray,
    n_in: npt.NDArray[Any],
    n_out: npt.NDArray[Any],
) -> FloatArray:
    """Log likelihood ratio over the typical difference of each target.

    With tens of models a record's difference is mostly noise, and the plain ratio
    spends its power on guessing its sign. The prior gives differences a mean and a
    spread equal to their typical size D over all records, noise removed. With z and d
    of ``ratio_parts``, the variance of noise v = 1/n_in + 1/n_out and the weight w = (D
    d + v)/(D^2 + v), the score is w (z - D w (1/2 - n_in/(n_in + n_out))). With many
    models the plain ratio remains.
    """
    noise = quotient(np.ones(1), n_in) + quotient(np.ones(1), n_out)
    # Over an estimated deviation a difference is Student's: its variance grows by this
    # factor.
    freedom = n_in + n_out - 2
    surplus = difference**2 - noise * (freedom / (freedom - 2))
    typical = [typical_difference(row) for row in np.atleast_2d(surplus)]
    size = np.reshape(typical, (*surplus.shape[:-1], 1))
    weight = (size * difference + noise) / (size**2 + noise)
    score = weight * (standing - size * weight * (0.5 - n_in / (n_in + n_out)))
    return np.where(np.isnan(difference), standing, score.round(DECIMALS))


def typical_difference(surplus: FloatArray) -> float:
    """Root of the mean surplus over records, trimmed by 5% at either end.

    0 if the mean is negative, or there is nothing finite.
    """
    finite = surplus[np.isfinite(surplus)]
    n = len(finite)
    if not n:
        return 0.0
    n_cut = int(TRIMMED * n)
    middle = np.partition(finite, (n_cut, n - 1 - n_cut))[n_cut : n - n_cut]
    return math.sqrt(max(middle.mean(), 0.0))


def offline_ratio(values: FloatArray, others: Others) -> FloatArray:
    """How far the target lies above the other models without the record, in deviations.

    Infinite where two or more of these agree exactly and the target does not; 0 where
    it does.
    """
    deviation = np.sqrt(variance_of(others.squares_out, others.n_out))
    beyond = values - others.mean_out
    score = np.asarray(beyond / deviation)
    do_agree = np.isnan(score) & (others.n_out > 1)
    differs = np.abs(beyond) > EQUAL * (np.abs(values) + np.abs(others.mean_out))
    certain = np.where(differs, np.copysign(np.inf, beyond), 0.0)
    return np.where(do_agree, certain, score)


def variance_of(squares: FloatArray, n: FloatArray) -> FloatArray:
    """Sample variance from squared deviations; NaN without any, or without spread."""
    return quotient(squares, np.where(squares > 0, n - 1, 0))
