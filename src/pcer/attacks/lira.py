"""LiRA and RMIA, with the other models of the sweep as shadow models.

To attack one target model, everything (means, variances, exclusions) comes from the
other models of the setting: anything that includes the target leaks its membership into
the score. Sums over all models minus the target's value give that in one pass. No score
depends on groups.
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
ROUNDING = (
    1e-12  # a sum of squares below this share of its terms is rounding, not spread
)
EQUAL = 1e-9  # relative distance of scores that count as equal
SINGLE_PRECISION = 1e-6  # relative error of log odds that were kept in single precision
TRIMMED = 0.05  # share of records trimmed at either end for the typical difference
DECIMALS = 6  # of a score; scores that differ by less share a rank
# Quantile of the distances from 0 or 1: twice the distance at which probabilities are
# cut.
CUT_QUANTILE = 0.01
CUT_WITHOUT = 0.02  # the same where every probability is 0 or 1


class Others(NamedTuple):
    """Counts, means and spreads of the other models' scores, as arrays (target, record)."""

    n_in: FloatArray
    n_out: FloatArray
    mean_in: FloatArray
    mean_out: FloatArray
    squares_in: FloatArray  # sum of squared deviations from ``mean_in``
    squares_out: FloatArray

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation common to in and out; NaN where it is unknown or 0."""
        squares = self.squares_in + self.squares_out
        return np.sqrt(variance_of(squares, self.n_in + self.n_out - 1))


def rmia_ratio(confidence: FloatArray, others: Others) -> FloatArray:
    """Ratio of the target's probability to the other models' average, in and out weighted alike."""
    # Zarifzadeh et al. rank it among other records: the AUC within one model is the
    # same.
    return quotient(confidence, (others.mean_in + others.mean_out) / 2)


def largest_log_odds(values: npt.NDArray[np.floating[Any]]) -> float:
    """Where LiRA cuts the log odds of one setting's probabilities; infinite if none is 0 or 1.

    >>> round(largest_log_odds(log_odds(np.array([0.0, 0.5, 1.0]))), 6)
    1.098612
    """
    # A large number in place of a 1's log odds would dominate a record's variance: all
    # are cut to [h/2, 1 - h/2], h being the 1% quantile of distances from 0 or 1 of
    # those neither 0 nor 1.
    from scipy.special import expit

    size = np.abs(values)
    is_sure = size >= log_odds(np.ones(1)) * (1 - SINGLE_PRECISION)
    if not is_sure.any():
        return math.inf
    inner = expit(-size[~is_sure].astype(np.float64))
    h = np.quantile(inner, CUT_QUANTILE) if inner.size else CUT_WITHOUT
    return float(log_odds(np.asarray(1 - h / 2)))


def other_models(values: FloatArray, member: BoolArray, split: IntArray) -> Others:
    """Counts, means and squared deviations over models of other splits; NaN where there are none.

    Models of the target's own split resemble it where it had a record in: they would
    leak that.
    """
    centred = values - values[0]  # a shift per record: constant scores become exactly 0
    n_in, mean_in, squares_in = _without_own(centred, member, split)
    n_out, mean_out, squares_out = _without_own(centred, ~member, split)
    shift = values - centred
    return Others(
        n_in, n_out, mean_in + shift, mean_out + shift, squares_in, squares_out
    )


def of_others(values: npt.NDArray[Any], split: IntArray) -> FloatArray:
    """(model, record) sums over the models of other splits."""
    if len(np.unique(split)) == len(split):
        return np.asarray(np.subtract(values.sum(axis=0), values, dtype=np.float64))
    return np.array(
        [values[split != own].sum(axis=0) for own in split], dtype=np.float64
    )


def _without_own(
    values: FloatArray, chosen: BoolArray, split: IntArray
) -> tuple[FloatArray, ...]:
    """Count, mean and squared deviations of the chosen models of other splits."""
    own = values * chosen
    n = of_others(chosen, split)
    mean = quotient(of_others(own, split), n)
    own *= own
    squares = of_others(own, split)
    rounding = ROUNDING * squares.max(axis=0)
    squares -= n * mean**2
    return n, mean, np.where(squares > rounding, squares, 0.0)


def ratio_parts(values: FloatArray, others: Others) -> tuple[FloatArray, FloatArray]:
    """The target's position, and the difference between in and out, both in deviations."""
    # The difference is NaN where the others do not vary, or all had the record in, or
    # all out. The position then is the score: infinite where in and out are two
    # different constants, else 0.
    n_in, n_out, inside, outside = others[:4]
    deviation = others.deviation
    difference = (inside - outside) / deviation
    standing = (values - (n_in * inside + n_out * outside) / (n_in + n_out)) / deviation
    apart = inside - outside
    beyond = values - (inside + outside) / 2
    largest = np.abs(values) + np.abs(inside) + np.abs(outside)
    differs = np.minimum(np.abs(apart), np.abs(beyond)) > EQUAL * largest  # not of NaN
    certain = np.where(differs, np.copysign(np.inf, apart * beyond), 0.0)
    return np.where(np.isnan(difference), certain, standing), difference


def shrunk_ratio(
    standing: FloatArray,
    difference: FloatArray,
    n_in: npt.NDArray[Any],
    n_out: npt.NDArray[Any],
) -> FloatArray:
    """Log likelihood ratio over the typical difference of each target, from ``ratio_parts``."""
    # With tens of models a record's difference is mostly noise, and the plain ratio
    # spends its power on guessing its sign. The prior gives differences a mean and a
    # spread equal to their typical size over all records, noise removed; with many
    # models the plain ratio remains.
    noise = quotient(np.ones(1), n_in) + quotient(
        np.ones(1), n_out
    )  # variance of noise
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
    """Root of the mean surplus over records, trimmed by 5% at either end; 0 if negative."""
    finite = surplus[np.isfinite(surplus)]
    n = len(finite)
    n_cut = int(TRIMMED * len(finite))
    if not n:
        return 0.0
    middle = np.partition(finite, (n_cut, n - 1 - n_cut))[n_cut : n - n_cut]
    return math.sqrt(max(middle.mean(), 0.0))


def offline_ratio(values: FloatArray, others: Others) -> FloatArray:
    """How far the target lies above the other models without the record, in deviations."""
    # Infinite where two or more of these agree exactly and the target does not; 0 where
    # it does.
    deviation = np.sqrt(variance_of(others.squares_out, others.n_out))
    score = np.asarray((values - others.mean_out) / deviation)
    alike = np.isnan(score) & (others.n_out > 1)
    beyond = values - others.mean_out
    differs = np.abs(beyond) > EQUAL * (np.abs(values) + np.abs(others.mean_out))
    return np.where(alike, np.where(differs, np.copysign(np.inf, beyond), 0.0), score)


def variance_of(squares: FloatArray, n: FloatArray) -> FloatArray:
    """Sample variance from squared deviations; NaN where there is none, or no spread."""
    return quotient(squares, np.where(squares > 0, n - 1, 0))
