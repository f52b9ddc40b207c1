"""What would gap and disparity be if nothing were memorised?"""

from __future__ import annotations

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
from pcer.statistics import generator, percentile_interval

OVER_SEEDS, OVER_SPLITS, NULL_DRAWS = range(3)  # what a stream of random numbers is for
# If nothing was memorised: mean gaps of groups, mean disparities of pairs, and those of
# every floor of the plan (floor, pair).
Null = tuple[list[records.NullPicture], list[records.NullPicture], FloatArray]


def draw_null(
    measured: Measured, pairs: tuple[Pair, ...], plan: Plan, *, n_settings: int
) -> Null | None:
    """Draw what the gap and the disparity would be without memorisation, rates as observed.

    Runs of one split share its draw. Intervals of gaps are pointwise, those of
    disparities simultaneous over the audit's settings and pairs.
    """
    panel = measured.panel
    is_complete = bool(
        np.isfinite(measured.benefit).all() and np.isfinite(measured.cost).all()
    )
    if not (measured.proxy.is_from_counts and panel.has_sizes and is_complete):
        return None
    strata = exposure.strata_of(panel)
    luck, variance = split_luck(strata)
    rng = generator(
        plan.rng, purpose=NULL_DRAWS, epsilon=panel.epsilon, model=panel.model
    )
    n_groups = len(panel.group_names)
    floors = (plan.floor, *plan.floors)
    sums = np.zeros((plan.null_draws, n_groups + len(pairs)))  # gaps, then disparities
    at_floors = np.zeros((len(plan.floors), len(pairs)))
    (first, second) = np.array(pairs).T
    scale = np.sqrt(variance)
    for split in range(panel.n_splits):
        seeds = np.flatnonzero(panel.split == split)
        run = Strata(*(part[:, seeds[0]] for part in strata))
        uniforms = rng.random((2, plan.null_draws, n_groups))
        off = draw_differences(run, uniforms=uniforms) - luck[seeds[0]]
        off = metrics.quotient(off, scale[seeds[0]], otherwise=0.0)
        for seed in seeds:
            drawn = np.maximum(luck[seed] + scale[seed] * off, 0.0)
            ratios = [
                metrics.pcer(measured.benefit[seed], drawn, floor=floor)
                for floor in floors
            ]
            apart = [ratio[:, first] - ratio[:, second] for ratio in ratios]
            sums += np.concatenate([drawn, apart[0]], axis=1)
            at_floors += [each.mean(axis=0) for each in apart[1:]]
    pictures = []
    together = 1 - (1 - plan.confidence_level) / (n_settings * len(pairs))
    levels = [plan.confidence_level] * n_groups + [together] * len(pairs)
    for draws, level in zip(sums.T / len(panel.seeds), levels, strict=True):
        low, high = percentile_interval(draws, confidence_level=level)
        mean = float(draws.mean())
        interval = (float(low), float(high))
        pictures.append(records.NullPicture(mean=mean, interval=interval))
    return pictures[:n_groups], pictures[n_groups:], at_floors / len(panel.seeds)
