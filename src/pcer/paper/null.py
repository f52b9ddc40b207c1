"""What would gap and disparity be if nothing were memorised?

The audit draws a ``Null`` once a setting, when it is asked for; ``numbers`` holds the
paper's disparities against it, and group results show its gaps. For drawing only: no
test of the audit uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pcer import metrics
from pcer.measuring import exposure
from pcer.measuring.exact import Strata
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import Measured
from pcer.measuring.plan import Plan
from pcer.measuring.variances import draw_differences, split_luck
from pcer.metrics import FloatArray
from pcer.paper import records
from pcer.release.panel import Panel
from pcer.statistics import generator, percentile_interval

# What a stream of random numbers is for.
OVER_SEEDS = 0
OVER_SPLITS = 1
NULL_DRAWS = 2


class Null(NamedTuple):
    """Means over seeds if nothing was memorised, the rates being as observed."""

    gaps: list[records.NullPicture]  # by group
    disparities: list[records.NullPicture]  # by pair, at the plan's floor
    disparity_by_floor: FloatArray  # (floor, pair), for every floor of the grid


def draw_null(
    measured: Measured, pairs: tuple[Pair, ...], plan: Plan, *, n_settings: int
) -> Null | None:
    """Draw what the gap and the disparity would be without memorisation.

    Intervals of gaps are pointwise, those of disparities simultaneous over the audit's
    settings and pairs. None where counts are missing.
    """
    if not _has_null(measured):
        return None
    panel = measured.panel
    n_seeds = len(panel.seeds)
    gap_sums = np.zeros((plan.null_draws, len(panel.group_names)))
    disparity_sums = np.zeros((plan.null_draws, len(pairs)))
    floor_sums = np.zeros((len(plan.floors), len(pairs)))
    for seed, gap in _drawn_gaps(panel, plan):
        rate = measured.benefit[seed]
        gap_sums += gap
        disparity_sums += _disparities(rate, gap, pairs, plan.floor)
        for k, floor in enumerate(plan.floors):
            floor_sums[k] += _disparities(rate, gap, pairs, floor).mean(axis=0)

    together = 1 - (1 - plan.confidence_level) / (n_settings * len(pairs))
    return Null(
        gaps=_pictures(gap_sums / n_seeds, plan.confidence_level),
        disparities=_pictures(disparity_sums / n_seeds, together),
        disparity_by_floor=floor_sums / n_seeds,
    )


def _has_null(measured: Measured) -> bool:
    """Whether the luck of the split is known: of the gap, where nothing is withheld."""
    if not (measured.proxy.is_from_counts and measured.panel.has_sizes):
        return False
    parts = (measured.benefit, measured.cost)
    return all(np.isfinite(part).all() for part in parts)


def _drawn_gaps(panel: Panel, plan: Plan) -> Iterator[tuple[int, FloatArray]]:
    """Every seed with its gaps, (draw, group).

    A gap is max(0, mean + deviation z), with mean and deviation of the seed's accuracy
    difference by the luck of its split (``split_luck``). z is drawn once a split, from
    its first run, for all of its runs.
    """
    rng = generator(
        plan.rng, purpose=NULL_DRAWS, epsilon=panel.epsilon, model=panel.model
    )
    strata = exposure.strata_of(panel)
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
