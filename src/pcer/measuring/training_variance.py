"""What do training records move, and how is a number tested that they moved?

A group's own training records move its predictions: with other people the model would
have been another. Counts of random splits show by how much. On each split stand the
rate in the test part and the rate over all of a group's records, test and training part
together; who fell into which part cancels from the second, and what training moves
remains.

    w           weights of group rates: (-1, 1) a difference, (1,) one rate,
                (c_j, -c_i) the cross product of ratios (``Combination``)
    d_s, D_s    the weighted test rates, and rates over everybody, on split s
    f           share of everybody that is trained on
    a, b        what one record adds through the test part, and through training
    N           records of everybody

Var_s(D) is (1 - f)/f Var(b)/N, and Var_s(D) - Cov_s(d, D) is Cov(a, b)/N. For people
like these the variance of a + b is wanted, so that beside Var(a)/N, which is V_now,
stands

    V_train = f/(1 - f) Var_s(D) + 2 max(0, Var_s(D) - Cov_s(d, D))

Training noise (start values, batches, privacy) is in Var_s(D) and is no part of people:
where splits were trained on more than once, the variance within splits is taken out.

Called by ``outcomes``, ``group_differences`` and ``release_changes``;
``benchmarks/mirror.py`` counts what V_train mends. To add a combination of rates: its
weights, where it is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pcer.measuring.variances import by_split
from pcer.metrics import FloatArray, IntArray
from pcer.statistics import two_sided_p

# From so many splits on their spread is an estimate; below, an answer is about these
# models alone.
LEAST_SPLITS = 3
# ln(p / 2) between which p-values are sought, and in how many halvings: the rest is
# below a float's precision.
SMALLEST_LOG_TAIL = -600.0
HALVINGS = 64


class Combination(NamedTuple):
    """Weighted sums of group rates: arrays (side, combination).

    A difference of two groups has two sides, one rate has one.
    """

    groups: IntArray  # numbers of the groups
    weights: FloatArray

    def of(self, rates: FloatArray) -> FloatArray:
        """The sums of w x: from (..., group) to (..., combination)."""
        return np.asarray((self.weights * rates[..., self.groups]).sum(axis=-2))

    def variance(self, variances: FloatArray) -> FloatArray:
        """The sums of w^2 V, for groups that are independent; V (group,)."""
        return np.asarray((self.weights**2 * variances[self.groups]).sum(axis=0))

    def quadratic(self, covariances: FloatArray) -> FloatArray:
        """The numbers w' M w; M (group, group)."""
        of_sides = covariances[self.groups[:, None], self.groups[None]]
        sums = np.einsum("ik,ijk,jk->k", self.weights, of_sides, self.weights)
        return np.asarray(sums)


def difference_of(groups: IntArray) -> Combination:
    """The second rate minus the first of every pair; groups (side, pair)."""
    weights = np.repeat([[-1.0], [1.0]], groups.shape[1], axis=1)
    return Combination(groups, weights)


class SplitRates(NamedTuple):
    """One rate of every group in every run: arrays (run, group), NaN where unknown."""

    tested: FloatArray  # among test records
    everybody: FloatArray  # over test and training records together


class Spread(NamedTuple):
    """Covariances between groups of one source of luck: arrays (group, group)."""

    everybody: FloatArray  # of D_i and D_j
    crossed: FloatArray  # of d_i and D_j, the mean of both orders
    degrees_of_freedom: int

    def times(self, factor: float) -> Spread:
        """This luck, multiplied."""
        return self._replace(
            everybody=factor * self.everybody, crossed=factor * self.crossed
        )


@dataclass(frozen=True, kw_only=True)
class TrainingPart:
    """Rates split by split, from which every combination takes its V_train."""

    by_split: SplitRates  # (split, group) means over the runs of a split
    noise: Spread  # what training noise makes of their spread
    share_trained: float  # f
    is_noise_known: bool  # False: training noise is counted as people
    # Records per unit, where people have several and splits take them apart.
    clumps: float = 1.0

    @property
    def n_splits(self) -> int:
        """S."""
        return len(self.by_split.tested)

    @property
    def degrees_of_freedom(self) -> int:
        """S - 1, of Student's distribution."""
        return self.n_splits - 1

    @cached_property
    def over_splits(self) -> Spread:
        """How rates vary over splits."""
        tested, everybody = self.by_split
        return spread_of(
            tested - tested.mean(axis=0),
            everybody - everybody.mean(axis=0),
            degrees_of_freedom=self.degrees_of_freedom,
        )

    def variance(self, rates: Combination) -> FloatArray:
        """V_train of every combination of rates."""
        spread = rates.quadratic(self.over_splits.everybody)
        shared = rates.quadratic(self.over_splits.crossed)
        noise = rates.quadratic(self.noise.everybody)
        shared_noise = rates.quadratic(self.noise.crossed)
        of_training = np.maximum(spread - noise, 0.0)
        together = np.maximum(of_training - (shared - shared_noise), 0.0)
        odds = self.share_trained / (1 - self.share_trained)
        return np.asarray(self.clumps * (odds * of_training + 2 * together))

    def at(self, splits: IntArray, groups: IntArray) -> TrainingPart:
        """Some splits and groups, in this order."""
        tested, everybody = self.by_split
        place = np.ix_(splits, groups)
        both = np.ix_(groups, groups)
        noise = self.noise._replace(
            everybody=self.noise.everybody[both], crossed=self.noise.crossed[both]
        )
        by_split = SplitRates(tested[place], everybody[place])
        return replace(self, by_split=by_split, noise=noise)

    def beside(self, other: TrainingPart) -> TrainingPart:
        """The groups of two sweeps over the same splits, one after the other."""
        tested = np.hstack([self.by_split.tested, other.by_split.tested])
        everybody = np.hstack([self.by_split.everybody, other.by_split.everybody])
        return TrainingPart(
            by_split=SplitRates(tested, everybody),
            noise=_apart(self.noise, other.noise),
            share_trained=max(self.share_trained, other.share_trained),
            is_noise_known=self.is_noise_known and other.is_noise_known,
            clumps=max(self.clumps, other.clumps),
        )


def training_part(
    rates: SplitRates,
    split: IntArray,
    *,
    share_trained: float,
    repeats: Spread | None = None,
    clumps: float = 1.0,
) -> TrainingPart | None:
    """The spread of rates over splits; None below ``LEAST_SPLITS`` of them.

    Args:
        rates: of every run and group.
        split: (run,) which split each run used, from 0.
        share_trained: f, of the records that the rate is a share of.
        repeats: training noise of one run, from further runs of some split.
        clumps: by how much people with several records multiply the variance.
    """
    n_splits = int(split.max()) + 1
    if n_splits < LEAST_SPLITS:
        return None
    tested = by_split(rates.tested, split)
    everybody = by_split(rates.everybody, split)
    of_one_run = [] if repeats is None else [repeats]
    n_repeated = len(split) - n_splits
    if n_repeated:
        within = spread_of(
            rates.tested - tested[split],
            rates.everybody - everybody[split],
            degrees_of_freedom=n_repeated,
        )
        of_one_run.append(within)
    n_groups = rates.tested.shape[1]
    per_mean = float((1 / np.bincount(split)).mean())  # of a run's noise in a mean
    return TrainingPart(
        by_split=SplitRates(tested, everybody),
        noise=_together(of_one_run, n_groups).times(per_mean),
        share_trained=share_trained,
        is_noise_known=bool(of_one_run),
        clumps=clumps,
    )


def spread_of(
    tested: FloatArray, everybody: FloatArray, *, degrees_of_freedom: int
) -> Spread:
    """Covariances of deviations; of d and D the part that w' M w sees."""
    crossed = tested.T @ everybody
    return Spread(
        everybody=np.asarray(everybody.T @ everybody / degrees_of_freedom),
        crossed=np.asarray((crossed + crossed.T) / 2 / degrees_of_freedom),
        degrees_of_freedom=degrees_of_freedom,
    )


def _apart(first: Spread, second: Spread) -> Spread:
    """Two sources of luck that share nothing, of other groups each."""
    from scipy.linalg import block_diag

    return Spread(
        everybody=block_diag(first.everybody, second.everybody),
        crossed=block_diag(first.crossed, second.crossed),
        degrees_of_freedom=min(first.degrees_of_freedom, second.degrees_of_freedom),
    )


def _together(parts: Sequence[Spread], n_groups: int) -> Spread:
    """Estimates of one luck, weighted by their degrees of freedom; none: 0."""
    nothing = np.zeros((n_groups, n_groups))
    freedom = sum(part.degrees_of_freedom for part in parts)
    total = Spread(nothing, nothing, freedom)
    for part in parts:
        share = part.times(part.degrees_of_freedom / freedom)
        total = total._replace(
            everybody=total.everybody + share.everybody,
            crossed=total.crossed + share.crossed,
        )
    return total


def half_width(
    v_now: FloatArray,
    v_train: FloatArray,
    *,
    tail: float,
    degrees_of_freedom: FloatArray | float,
) -> FloatArray:
    """Half of an interval: sqrt(z^2 V_now + t^2 V_train), each tail having ``tail``.

    Where V_train is 0 it is z times the error.
    """
    from scipy.special import ndtri, stdtrit

    z = float(-ndtri(tail))
    t = -stdtrit(degrees_of_freedom, tail)
    both = np.sqrt(z**2 * v_now + t**2 * v_train)
    return np.where(np.asarray(v_train) == 0, z * np.sqrt(v_now), both)


def two_part_p(
    value: FloatArray,
    v_now: FloatArray,
    v_train: FloatArray,
    *,
    degrees_of_freedom: FloatArray | float,
) -> FloatArray:
    """The p at which value^2 = z_p^2 V_now + t_p^2 V_train; 1 where the value is 0.

    The right side falls as p rises, so ln(p / 2) is halved in on. A p below e^-600 is
    given as that; NaN where value or variance is NaN, 1 where all three are 0. Where
    V_train is 0, it is the normal's.
    """
    from scipy.special import ndtri_exp, stdtrit

    normal_p = two_sided_p(value, np.sqrt(np.maximum(v_now, 0.0)))
    if not np.any(np.asarray(v_train) > 0):
        return np.where(np.isnan(v_train), np.nan, normal_p)
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
    p = np.where(v_train > 0, np.minimum(2 * np.exp(high), 1.0), normal_p)
    return np.where(np.isnan(square + v_now + v_train), np.nan, p)
