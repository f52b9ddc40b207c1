"""What the numbers would be if nothing had been memorised.

If a model memorised nothing and the split was random, membership is exchangeable among a
group's records of one label. Which of the correct ones fell into the training part is then a
draw without replacement, so the accuracy difference has a known mean and variance, and the
clipped gap a positive mean: the noise level. All of it is conditional on the released totals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pcer.auditing.exact import Strata, strata_of_counts, strata_of_rates
from pcer.metrics import Counts, FloatArray, IntArray

SUPPORT_WIDTH = 10.0
"""Standard deviations each side of the mode that a draw can reach; beyond lies below 1e-22."""
LARGEST_SPREAD = 100.0
"""Standard deviation up to which a draw's whole distribution is written down. Beyond it the normal
quantile with its skewness is nearer to the exact one than a hundredth of a deviation, and takes no
longer for 10^15 people than for 10^5."""


class SplitLuck(NamedTuple):
    """Mean and variance of the accuracy difference when only the split is random."""

    mean: FloatArray
    variance: FloatArray


def luck_of_strata(strata: Strata) -> SplitLuck:
    """Moments of the accuracy difference under a random split, exact given each label's totals."""
    trained, tested = strata.trained.sum(axis=0), (strata.total - strata.trained).sum(axis=0)
    scale = 1 / trained + 1 / tested
    hits, spared = strata.hits.sum(axis=0), (strata.correct - strata.hits).sum(axis=0)
    difference = hits / trained - spared / tested
    return SplitLuck(
        mean=np.asarray(difference - strata.excess.sum(axis=0) * scale),
        variance=np.asarray(strata.variance.sum(axis=0) * scale**2),
    )


def split_luck(train: Counts, test: Counts) -> SplitLuck:
    """The same from confusion tables, for every group and leading axis."""
    return luck_of_strata(strata_of_counts(train, test))


def split_luck_of_rates(
    train_accuracy: FloatArray, test_accuracy: FloatArray, n_train: FloatArray, n_test: FloatArray
) -> SplitLuck:
    """The same without labels: one stratum holds the whole group, so the mean is 0."""
    return luck_of_strata(strata_of_rates(train_accuracy, test_accuracy, n_train, n_test))


GRID_SLACK = 1e-6
"""Of a grid's step: more than rounding can move a number."""


def noise_level(variance: FloatArray) -> FloatArray:
    """Mean of max(0, noise): the "gap" that a model shows which memorises nothing.

    >>> noise_level(np.array([2 * np.pi])).round(12)
    array([1.])
    """
    return np.sqrt(np.asarray(variance) / (2 * math.pi))


def draw_differences(train: Counts, test: Counts, *, uniforms: FloatArray) -> FloatArray:
    """Accuracy differences that random splits of the same records would have shown.

    Args:
        train: counts of one run, arrays over the group.
        test: the same of the test part.
        uniforms: (2, draw, group) numbers in [0, 1), one per label, draw and group.

    Returns:
        (draw, group) accuracy differences.
    """
    right = np.zeros_like(uniforms[0])
    parts = ((train.tp, train.fn, test.tp, test.fn), (train.tn, train.fp, test.tn, test.fp))
    for label, (hit, miss, test_hit, test_miss) in enumerate(parts):
        for group in range(right.shape[-1]):
            right[:, group] += hypergeometric(
                good=int(hit[group] + test_hit[group]),
                bad=int(miss[group] + test_miss[group]),
                sampled=int(hit[group] + miss[group]),
                uniforms=uniforms[label, :, group],
            )
    correct = train.tp + train.tn + test.tp + test.tn
    return np.asarray(right / train.n - (correct - right) / test.n)


def hypergeometric(*, good: int, bad: int, sampled: int, uniforms: FloatArray) -> FloatArray:
    """Hypergeometric draws by inversion: how many good ones are among ``sampled``.

    numpy's and scipy's own samplers are slower at the sizes of a sweep, and their streams may
    change between releases; this one uses only products and sums, so a seed gives the same
    draws everywhere. Beyond a deviation of 100 it is the normal's quantile.

    >>> hypergeometric(good=1, bad=1, sampled=1, uniforms=np.array([0.2, 0.7]))
    array([0., 1.])
    """
    low, high = max(0, sampled - bad), min(good, sampled)
    total = good + bad
    if total == 0 or low == high:
        return np.full(len(uniforms), float(low))
    deviation = math.sqrt(_one_variance(good, total, sampled))
    if deviation > LARGEST_SPREAD:
        skewness = _one_skewness(good, total, sampled, deviation)
        drawn = good * sampled / total + deviation * _quantiles(uniforms, skewness)
        return np.clip(np.rint(drawn), low, high)
    mode = (good + 1) * (sampled + 1) // (total + 2)
    width = math.ceil(SUPPORT_WIDTH * deviation + 1)
    low, high = max(low, mode - width), min(high, mode + width)
    weights = _weights(low, mode, high, good=good, bad=bad, sampled=sampled)
    cumulative = np.cumsum(weights)
    return np.asarray(low + _n_at_most(cumulative, uniforms), dtype=np.float64)


def _n_at_most(cumulative: FloatArray, uniforms: FloatArray) -> IntArray:
    """How many of the ascending sums are at most each uniform's share of the last.

    What ``searchsorted`` gives, in a quarter of its time for numbers in no order: it starts from
    where an even grid of numbers ends up, and few need more than a step from there.
    """
    last = cumulative[-1]
    share = np.minimum(uniforms * last, np.nextafter(last, 0))
    n_grid = max(256, 2 * len(cumulative))
    grid = (np.arange(n_grid) - GRID_SLACK) * (last / n_grid)  # never beyond what it stands for
    nearest = np.minimum((share * (n_grid / last)).astype(np.int64), n_grid - 1)
    found = np.searchsorted(cumulative, grid, side="right")[nearest]
    found += cumulative[found] <= share
    far = np.flatnonzero(cumulative[found] <= share)
    found[far] = np.searchsorted(cumulative, share[far], side="right")
    return np.asarray(found, dtype=np.int64)


def _quantiles(uniforms: FloatArray, skewness: float) -> FloatArray:
    """Normal quantiles, corrected for skewness (the first Cornish-Fisher term)."""
    from scipy.special import ndtri

    z = np.clip(ndtri(uniforms), -SUPPORT_WIDTH, SUPPORT_WIDTH)
    return np.asarray(z + skewness / 6 * (z**2 - 1))


def _weights(low: int, mode: int, high: int, *, good: int, bad: int, sampled: int) -> FloatArray:
    """Probabilities of low..high relative to the mode's, by the ratio of neighbours."""
    below = np.arange(low, mode, dtype=np.float64)
    above = np.arange(mode, high, dtype=np.float64)

    def ratio(k: FloatArray) -> FloatArray:
        return (good - k) * (sampled - k) / ((k + 1) * (bad - sampled + k + 1))

    down = np.cumprod(1 / ratio(below[::-1]))[::-1]
    return np.concatenate([down, [1.0], np.cumprod(ratio(above))])


def _one_variance(good: int, total: int, sampled: int) -> float:
    if total < 2:
        return 0.0
    return sampled * good * (total - good) * (total - sampled) / (total**2 * (total - 1))


def _one_skewness(good: int, total: int, sampled: int, deviation: float) -> float:
    return (total - 2 * good) * (total - 2 * sampled) / (total * (total - 2)) / deviation
