"""What would gap and disparity be if nothing were memorised? The null of Delta PCER.

``numbers`` calls ``draw_null`` once a setting: the luck of the split is drawn, rates
stay as observed. The null is for drawing only: no test of the audit uses it. To
add a quantity: a field of ``Null``, drawn in ``draw_null``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pcer import metrics
from pcer.measuring.exact import Strata
from pcer.measuring.exposure import Measured, Pair, strata_of
from pcer.measuring.plan import Plan
from pcer.measuring.tested import Tested
from pcer.measuring.variances import split_luck
from pcer.metrics import FloatArray, IntArray
from pcer.paper import records
from pcer.release.panel import Panel
from pcer.statistics import generator, percentile_interval

NULL_DRAWS = 2  # what the stream of random numbers is for; others are in ``numbers``
# Standard deviations each side of the mode that are computed; beyond, less than 1e-22
# remains.
SUPPORT_WIDTH = 10.0
# Standard deviation up to which the whole distribution is computed. Beyond it the
# normal quantile with a skewness term is within a hundredth of a deviation, at a cost
# that does not grow.
LARGEST_SPREAD = 100.0


class Null(NamedTuple):
    """Means over seeds if nothing was memorised, the rates being as observed."""

    gaps: list[records.NullPicture]  # by group
    disparities: list[records.NullPicture]  # by pair, at the plan's floor
    disparity_by_floor: FloatArray  # (floor, pair), for every floor of the grid


def draw_null(gap: Measured, tested: Tested) -> Null | None:
    """Draw what the gap and the disparity would be without memorisation.

    Intervals of gaps are pointwise, those of disparities simultaneous over the audit's
    settings and pairs. None where counts are missing.
    """
    has_values = np.isfinite(gap.benefit).all() and np.isfinite(gap.exposure).all()
    if not (gap.panel.has_sizes and has_values):
        return None
    plan = tested.plan
    pairs = tested.pairs
    panel = gap.panel
    n_seeds = len(panel.seeds)
    gap_sums = np.zeros((plan.null_draws, len(panel.group_names)))
    disparity_sums = np.zeros((plan.null_draws, len(pairs)))
    floor_sums = np.zeros((len(plan.floors), len(pairs)))
    for seed, drawn in _drawn_gaps(panel, plan):
        rate = gap.benefit[seed]
        gap_sums += drawn
        disparity_sums += _disparities(rate, drawn, pairs, plan.floor)
        for k, floor in enumerate(plan.floors):
            floor_sums[k] += _disparities(rate, drawn, pairs, floor).mean(axis=0)

    n_intervals = len(tested.panels) * len(pairs)
    together = 1 - (1 - plan.confidence_level) / n_intervals
    return Null(
        gaps=_pictures(gap_sums / n_seeds, plan.confidence_level),
        disparities=_pictures(disparity_sums / n_seeds, together),
        disparity_by_floor=floor_sums / n_seeds,
    )


def _drawn_gaps(panel: Panel, plan: Plan) -> Iterator[tuple[int, FloatArray]]:
    """Every seed with its gaps, (draw, group).

    A gap is max(0, mean + deviation z), with mean and deviation of the seed's accuracy
    difference by the luck of its split (``split_luck``). z is drawn once a split, from
    its first run, for all of its runs.
    """
    rng = generator(
        plan.rng, purpose=NULL_DRAWS, epsilon=panel.epsilon, model=panel.model
    )
    strata = strata_of(panel)
    mean, variance = split_luck(strata)  # (seed, group)
    deviation = np.sqrt(variance)
    for split in range(panel.n_splits):
        seeds = np.flatnonzero(panel.split == split).tolist()
        first = seeds[0]
        run = Strata(*[part[:, first] for part in strata])
        uniforms = rng.random((2, plan.null_draws, len(panel.group_names)))
        off = draw_differences(run, uniforms=uniforms) - mean[first]
        z = metrics.quotient(off, deviation[first], otherwise=0.0)
        for seed in seeds:
            yield seed, np.maximum(mean[seed] + deviation[seed] * z, 0.0)


def _disparities(
    rate: FloatArray, gap: FloatArray, pairs: tuple[Pair, ...], floor: float
) -> FloatArray:
    """First minus second ratio, (draw, pair); rates (group,) and gaps (draw, group)."""
    first, second = np.array(pairs).T
    ratio = metrics.pcer(rate, gap, floor=floor)
    return ratio[:, first] - ratio[:, second]


def _pictures(draws: FloatArray, level: float) -> list[records.NullPicture]:
    """Mean and interval of every column of draws."""
    pictures = []
    for column in draws.T:
        low, high = percentile_interval(column, confidence_level=level)
        mean = float(column.mean())
        interval = (float(low), float(high))
        pictures.append(records.NullPicture(mean=mean, interval=interval))
    return pictures


def draw_differences(strata: Strata, *, uniforms: FloatArray) -> FloatArray:
    """Accuracy differences (draw, group) that random splits of the records would show.

    Strata are of one run, (label, group); uniforms in [0, 1), (label, draw, group).
    """
    hits = np.zeros_like(uniforms[0])
    for label, group in np.ndindex(strata.total.shape):
        n = int(strata.total[label, group])
        good = int(strata.correct[label, group])
        hits[:, group] += hypergeometric(
            good=good,
            bad=n - good,
            sampled=int(strata.trained[label, group]),
            uniforms=uniforms[label, :, group],
        )
    total = strata.total.sum(axis=0)
    trained = strata.trained.sum(axis=0)
    correct = strata.correct.sum(axis=0)
    return np.asarray(hits / trained - (correct - hits) / (total - trained))


def hypergeometric(
    *, good: int, bad: int, sampled: int, uniforms: FloatArray
) -> FloatArray:
    """Hypergeometric draws by inversion: how many good ones are among ``sampled``.

    Up to a deviation of ``LARGEST_SPREAD`` by the whole distribution, beyond by a
    normal quantile. numpy's and scipy's own samplers are slower at the sizes of a
    sweep, and their streams may change between releases; this one uses only products
    and sums, so a seed gives the same draws everywhere.
    """
    total = good + bad
    fewest = max(0, sampled - bad)
    highest = min(good, sampled)
    if fewest == highest:
        return np.full(len(uniforms), float(fewest))
    deviation = math.sqrt(
        sampled * good * bad * (total - sampled) / (total**2 * (total - 1))
    )
    if deviation > LARGEST_SPREAD:
        skewness = (
            (bad - good) * (total - 2 * sampled) / (total * (total - 2)) / deviation
        )
        mean = good * sampled / total
        drawn = mean + deviation * _skewed_quantiles(uniforms, skewness)
        return np.clip(np.rint(drawn), fewest, highest)

    mode = (good + 1) * (sampled + 1) // (total + 2)
    width = math.ceil(SUPPORT_WIDTH * deviation + 1)
    low = max(fewest, mode - width)
    high = min(highest, mode + width)

    def ratio(k: FloatArray) -> FloatArray:  # probability of k + 1 over that of k
        return (good - k) * (sampled - k) / ((k + 1) * (bad - sampled + k + 1))

    # Probabilities over that of the mode, by ratios of neighbours outwards from it.
    below = np.arange(low, mode, dtype=np.float64)
    above = np.arange(mode, high, dtype=np.float64)
    down = np.cumprod(1 / ratio(below[::-1]))[::-1]
    weights = np.concatenate([down, [1.0], np.cumprod(ratio(above))])
    return np.asarray(low + _inverted(weights, uniforms), dtype=np.float64)


def _skewed_quantiles(uniforms: FloatArray, skewness: float) -> FloatArray:
    """Normal quantiles with the first Cornish-Fisher term: z + skewness/6 (z^2 - 1)."""
    from scipy.special import ndtri

    z = np.clip(ndtri(uniforms), -SUPPORT_WIDTH, SUPPORT_WIDTH)
    return np.asarray(z + skewness / 6 * (z**2 - 1))


def _inverted(weights: FloatArray, uniforms: FloatArray) -> IntArray:
    """The place of each uniform among cumulated weights, as whole numbers from 0."""
    cumulative = np.cumsum(weights)
    share = np.minimum(uniforms * cumulative[-1], np.nextafter(cumulative[-1], 0))
    places = np.searchsorted(cumulative, share, side="right")
    return np.asarray(places, dtype=np.int64)
