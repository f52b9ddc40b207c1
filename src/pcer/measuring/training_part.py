"""How far do a group's own training records move its rates, for people like these?

A rate has an error because other people would be counted (``benefit_variance``) and
because other people would have trained the model. This is the second part, taken from
counts of random splits: on each, the rate in the test part and the rate over all of a
group's records, test and training part together. Who fell into which part cancels from
the second; what training moves remains.

    w           weights of group rates: (1, -1) a difference, (1,) one rate,
                (c_j, -c_i) the cross product of ratios
    d_s, D_s    the weighted test rates and rates over everybody on split s
    f           share of everybody that is trained on
    a, b        what one record adds through the test part, and through training
    N, S        people, splits

With random splits Var_s(D) = (1 - f)/f Var(b)/N, and Var_s(D) - Cov_s(d, D) is
Cov(a, b)/N. The variance for people like these is that of a + b, so that beside
Var(a)/N stands

    V_train = f/(1 - f) Var_s(D) + 2 max(0, Var_s(D) - Cov_s(d, D))

Training noise (start values, batches, privacy) is in Var_s(D) and is no part of people:
where splits were trained on more than once, the variance within splits is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.metrics import FloatArray, IntArray

# From so many splits on their spread is an estimate; below, an answer is about these
# models alone.
LEAST_SPLITS = 3
# ln(p / 2) between which p-values are sought, and in how many halvings: the rest is
# below a float's precision.
SMALLEST_LOG_TAIL = -600.0
HALVINGS = 64


class SplitRates(NamedTuple):
    """One rate of every group in every run: arrays (run, group), NaN where unknown."""

    tested: FloatArray  # among test records
    everybody: FloatArray  # over test and training records together


class Spread(NamedTuple):
    """Covariances between groups of one source of luck: arrays (group, group)."""

    everybody: FloatArray  # of D_i and D_j
    crossed: FloatArray  # of d_i and D_j


@dataclass(frozen=True, kw_only=True)
class TrainingPart:
    """Spread of rates over splits, from which every combination takes its V_train."""

    over_splits: Spread  # of means over the runs of a split
    noise: Spread  # how much of it training noise makes
    share_trained: float  # f
    n_splits: int  # S
    is_noise_known: bool  # False: training noise is counted as people

    @property
    def degrees_of_freedom(self) -> int:
        """S - 1, of Student's distribution."""
        return self.n_splits - 1

    def variance(self, weights: FloatArray) -> FloatArray:
        """V_train of weighted rates; weights (group, combination)."""
        spread = _quadratic(self.over_splits.everybody, weights)
        shared = _quadratic(self.over_splits.crossed, weights)
        noise = _quadratic(self.noise.everybody, weights)
        shared_noise = _quadratic(self.noise.crossed, weights)
        of_training = np.maximum(spread - noise, 0.0)
        together = np.maximum(of_training - (shared - shared_noise), 0.0)
        odds = self.share_trained / (1 - self.share_trained)
        return odds * of_training + 2 * together


def _quadratic(matrix: FloatArray, weights: FloatArray) -> FloatArray:
    """The number w' M w for each combination w, a column of the weights."""
    return np.asarray(np.einsum("gk,gh,hk->k", weights, matrix, weights))


def training_part(
    rates: SplitRates, split: IntArray, *, share_trained: float
) -> TrainingPart | None:
    """The spread of rates over splits; None below ``LEAST_SPLITS`` of them.

    Args:
        rates: of every run and group.
        split: (run,) which split each run used, from 0.
        share_trained: f, of the records that the rate is a share of.
    """
    n_splits = int(split.max()) + 1
    if n_splits < LEAST_SPLITS:
        return None
    n_runs = np.bincount(split)
    tested = _means(rates.tested, split)
    everybody = _means(rates.everybody, split)
    over_splits = _spread(
        tested - tested.mean(axis=0),
        everybody - everybody.mean(axis=0),
        degrees_of_freedom=n_splits - 1,
    )
    n_repeats = len(split) - n_splits
    noise = _nothing(rates.tested.shape[1])
    if n_repeats:
        within = _spread(
            rates.tested - tested[split],
            rates.everybody - everybody[split],
            degrees_of_freedom=n_repeats,
        )
        per_mean = float((1 / n_runs).mean())  # of one run's noise in a split's mean
        noise = Spread(per_mean * within.everybody, per_mean * within.crossed)
    return TrainingPart(
        over_splits=over_splits,
        noise=noise,
        share_trained=share_trained,
        n_splits=n_splits,
        is_noise_known=n_repeats > 0,
    )


def _means(values: FloatArray, split: IntArray) -> FloatArray:
    """Means over the runs of each split: (run, group) -> (split, group)."""
    sums = np.zeros((int(split.max()) + 1, values.shape[1]))
    np.add.at(sums, split, values)
    return np.asarray(sums / np.bincount(split)[:, None])


def _spread(
    tested: FloatArray, everybody: FloatArray, *, degrees_of_freedom: int
) -> Spread:
    """Covariances of deviations; of d and D the part that w' M w sees."""
    crossed = tested.T @ everybody
    return Spread(
        everybody=np.asarray(everybody.T @ everybody / degrees_of_freedom),
        crossed=np.asarray((crossed + crossed.T) / 2 / degrees_of_freedom),
    )


def _nothing(n_groups: int) -> Spread:
    return Spread(np.zeros((n_groups, n_groups)), np.zeros((n_groups, n_groups)))


def half_width(
    v_now: FloatArray, v_train: FloatArray, *, tail: float, degrees_of_freedom: int
) -> FloatArray:
    """Half of an interval: sqrt(z^2 V_now + t^2 V_train), each tail having ``tail``."""
    from scipy.special import ndtri, stdtrit

    z = float(-ndtri(tail))
    t = float(-stdtrit(degrees_of_freedom, tail))
    return np.asarray(np.sqrt(z**2 * v_now + t**2 * v_train))


def two_sided_p(
    value: FloatArray,
    v_now: FloatArray,
    v_train: FloatArray,
    *,
    degrees_of_freedom: int,
) -> FloatArray:
    """The p at which value^2 = z_p^2 V_now + t_p^2 V_train; 1 where the value is 0.

    The right side falls as p rises, so ln(p / 2) is halved in on. A p below e^-600 is
    given as that; NaN where value or variance is NaN, 1 where all three are 0.
    """
    from scipy.special import ndtri_exp, stdtrit

    square, v_now, v_train = np.broadcast_arrays(np.square(value), v_now, v_train)
    low = np.full(square.shape, SMALLEST_LOG_TAIL)
    high = np.full(square.shape, np.log(0.5))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        z = ndtri_exp(middle)
        t = stdtrit(degrees_of_freedom, np.exp(middle))
        is_smaller = z**2 * v_now + t**2 * v_train < square
        high = np.where(is_smaller, middle, high)
        low = np.where(is_smaller, low, middle)
    p = np.minimum(2 * np.exp(high), 1.0)
    return np.where(np.isnan(square + v_now + v_train), np.nan, p)
