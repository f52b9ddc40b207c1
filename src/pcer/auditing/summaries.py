"""What is told of seeds and splits: means, bootstrap intervals, and the picture of no memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pcer import metrics
from pcer.auditing.file import NullPicture, Summary
from pcer.auditing.measure import (
    Measured,
    Pair,
    benefit_of,
    by_split,
    interval,
    is_pooled,
    luck_of,
    number,
)
from pcer.auditing.plan import Plan
from pcer.auditing.variances import draw_differences
from pcer.metrics import Counts, FloatArray
from pcer.release.panel import Panel
from pcer.statistics import bootstrap_sums, generator, percentile_interval

ColumnKey = tuple[object, ...]
"""What is summarised over seeds: a quantity's name, and the group, pair or floor it is of."""

OVER_SEEDS, OVER_SPLITS, NULL_DRAWS = range(3)
"""What a stream of random numbers is for."""


def summarise(
    columns: Mapping[ColumnKey, FloatArray], plan: Plan, *, panel: Panel
) -> dict[ColumnKey, Summary]:
    """Mean, standard deviation and bootstrap interval of every column over seeds.

    One resampling serves all columns. A column with a NaN has no summary; one seed no interval,
    and neither does what a cost enters into that is one number for all seeds.
    """
    values = np.stack(list(columns.values()), axis=1)
    n_seeds = len(values)
    mean, std, ci = values.mean(axis=0), None, None
    pooled = {key for key in columns if len(key) > 1 and is_pooled(panel, str(key[1]))}
    if n_seeds > 1:
        std = values.std(axis=0, ddof=1)
        rng = _stream(plan, OVER_SEEDS, panel)
        draws = bootstrap_sums(values, resamples=plan.resamples, rng=rng) / n_seeds
        ci = percentile_interval(draws, confidence_level=plan.confidence_level)
    return {
        key: Summary(
            mean=number(mean[k]),
            std=None if std is None or key in pooled else number(std[k]),
            ci=None if ci is None or key in pooled else interval(ci[:, k]),
        )
        for k, key in enumerate(columns)
    }


@dataclass(frozen=True, kw_only=True)
class PooledSums:
    """Sums over splits that pooled disparities are made of, for all groups at once.

    Attributes:
        whole: (part, group) over all splits: what was received, people, and cost.
        drawn: (resample, part, group) over bootstrap resamples of the splits; None for one split.
        n_splits: number of splits.
    """

    whole: FloatArray
    drawn: FloatArray | None
    n_splits: int

    def disparity(self, sums: FloatArray, pair: Pair, floor: float) -> FloatArray:
        """Pooled rate over pooled cost, first minus second."""
        sums = sums[..., list(pair)]
        rate = sums[..., 0, :] / sums[..., 1, :]
        ratio = metrics.pcer(rate, sums[..., 2, :] / self.n_splits, floor=floor)
        return np.asarray(ratio[..., 0] - ratio[..., 1])


def pooled_sums(measured: Measured, plan: Plan) -> PooledSums | None:
    """One bootstrap of the splits, shared by all pairs; None where no ratio can be formed."""
    if measured.exposed is None or measured.received is None:
        return None
    weight = benefit_of(measured.panel, plan)[1]
    share = by_split(
        np.stack([measured.benefit * weight, weight]).swapaxes(0, 1), measured.panel.split
    )
    cost, n_splits = measured.exposed.per_split, measured.exposed.n_splits
    if n_splits != len(share):
        share = share.mean(axis=0, keepdims=True)
    parts = np.stack([share[:, 0], share[:, 1], cost], axis=1)
    drawn = None
    if n_splits > 1:
        rng = _stream(plan, OVER_SPLITS, measured.panel)
        drawn = bootstrap_sums(parts, resamples=plan.resamples, rng=rng)
    return PooledSums(whole=parts.sum(axis=0), drawn=drawn, n_splits=n_splits)


def pooled_disparity(
    sums: PooledSums | None, pair: Pair, plan: Plan
) -> tuple[float | None, tuple[float, float] | None]:
    """Disparity of pooled rate over pooled cost, with a bootstrap interval over splits."""
    if sums is None:
        return None, None
    value = number(sums.disparity(sums.whole, pair, plan.floor))
    if sums.drawn is None:
        return value, None
    draws = sums.disparity(sums.drawn, pair, plan.floor)
    return value, interval(percentile_interval(draws, confidence_level=plan.confidence_level))


@dataclass(frozen=True, kw_only=True)
class NullDraws:
    """Means over seeds if nothing was memorised, one per draw."""

    gap: FloatArray
    """(draw, group)."""
    disparity: FloatArray
    """(draw, pair)."""

    def gap_picture(self, group: int, plan: Plan) -> NullPicture:
        """Mean and interval of a group's mean gap."""
        return _picture(self.gap[:, group], plan)

    def disparity_picture(self, pair: int, plan: Plan) -> NullPicture:
        """Mean and interval of a pair's mean disparity."""
        return _picture(self.disparity[:, pair], plan)


def draw_null(measured: Measured, pairs: tuple[Pair, ...], plan: Plan) -> NullDraws | None:
    """Draw what the gap and the disparity would be without memorisation, rates as observed.

    Runs of one split share its draw, so that many runs of one split are not taken for many
    splits. Only a cost from counts has such a picture.
    """
    panel = measured.panel
    known = bool(np.isfinite(measured.benefit).all() and np.isfinite(measured.cost).all())
    if not (measured.proxy.is_from_counts and panel.has_sizes and known):
        return None
    luck = luck_of(panel)
    rng = _stream(plan, NULL_DRAWS, panel)
    n_groups = len(panel.group_names)
    luck_of_split: dict[int, FloatArray] = {}
    n_runs = Counter(panel.split.tolist())
    gap = np.zeros((plan.null_draws, n_groups))
    disparity = np.zeros((plan.null_draws, len(pairs)))
    first, second = [i for i, _ in pairs], [j for _, j in pairs]
    for seed, split in enumerate(panel.split.tolist()):
        mean, scale = luck.mean[seed], np.sqrt(luck.variance[seed])
        if split not in luck_of_split:
            uniforms = rng.random((2, plan.null_draws, n_groups))
            difference = draw_differences(*_tables_of(panel, seed), uniforms=uniforms)
            luck_of_split[split] = _standardise(difference - mean, scale)
        n_runs[split] -= 1  # the draws of a split are kept only while other runs need them
        kept = luck_of_split[split] if n_runs[split] else luck_of_split.pop(split)
        drawn = np.maximum(mean + scale * kept, 0.0)
        ratio = metrics.pcer(measured.benefit[seed], drawn, floor=plan.floor)
        gap += drawn
        disparity += ratio[:, first] - ratio[:, second]
    return NullDraws(gap=gap / len(panel.seeds), disparity=disparity / len(panel.seeds))


def _stream(plan: Plan, purpose: int, panel: Panel) -> np.random.Generator:
    return generator(plan.rng, purpose=purpose, epsilon=panel.epsilon, model=panel.model)


def _tables_of(panel: Panel, seed: int) -> tuple[Counts, Counts]:
    """One run's counts; of rates the nearest whole numbers, as one stratum."""
    tables = (panel.n_train, panel.train_accuracy), (panel.n_test, panel.test_accuracy)
    train, test = (_one_stratum(n[seed], rate[seed]) for n, rate in tables)
    if panel.train is not None and panel.test is not None:
        have = [Counts(*(cells[seed] for cells in part)) for part in (panel.train, panel.test)]
        known = np.isfinite(have[0].n + have[1].n)
        train, test = (
            Counts(*(np.where(known, a, b) for a, b in zip(one, rest, strict=True)))
            for one, rest in zip(have, (train, test), strict=True)
        )
    return train, test


def _one_stratum(n: FloatArray, rate: FloatArray) -> Counts:
    right, none = np.rint(n * rate), np.zeros_like(n)
    return Counts(tp=right, fp=none, tn=none, fn=n - right)


def _standardise(deviation: FloatArray, scale: FloatArray) -> FloatArray:
    return np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0)


def _picture(draws: FloatArray, plan: Plan) -> NullPicture:
    low, high = percentile_interval(draws, confidence_level=plan.confidence_level)
    return NullPicture(mean=float(draws.mean()), interval=(float(low), float(high)))
