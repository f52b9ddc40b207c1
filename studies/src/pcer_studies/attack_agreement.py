"""How far the overfitting gap and the direct attack agree over all six configurations.

The paper's validation (sec:mia-validation) from the seeds of a study, each figure with the
standard error that a bootstrap over seeds gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pcer.metrics import FloatArray
from pcer.statistics import bootstrap_sums
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, DATASETS
from pcer_studies.results import Study
from pcer_studies.seeds import study_seeds

RESAMPLES = 2_000
STREAM = 7
"""First word of the seed of every stream here."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """Means over seeds; a first axis may hold resamples.

    Attributes:
        gap: (..., configuration, budget, group) overfitting gap.
        advantage: the same shape, AUC of the attack minus 1/2.
        by_gap: (..., configuration, budget) disparity with the gap as cost.
        by_attack: the same with the advantage as cost.
    """

    gap: FloatArray
    advantage: FloatArray
    by_gap: FloatArray
    by_attack: FloatArray


def auc_advantage_mean(means: Means) -> FloatArray:
    """Mean advantage over configurations, budgets and groups."""
    return np.asarray(means.advantage.mean(axis=(-3, -2, -1)))


def auc_advantage_largest(means: Means) -> FloatArray:
    """Largest advantage."""
    return np.asarray(means.advantage.max(axis=(-3, -2, -1)))


def overfitting_gap_mean(means: Means) -> FloatArray:
    """Mean gap over configurations, budgets and groups."""
    return np.asarray(means.gap.mean(axis=(-3, -2, -1)))


def gap_advantage_correlation(means: Means) -> FloatArray:
    """Pearson's r of gap and advantage over all groups."""
    lead = means.gap.shape[:-3]
    return _pearson(means.gap.reshape(*lead, -1), means.advantage.reshape(*lead, -1))


def disparity_correlation(means: Means) -> FloatArray:
    """Pearson's r of the two disparities over configurations and budgets."""
    return _pearson(*_flat(means))


def sign_agreements(means: Means) -> FloatArray:
    """In how many configurations and budgets both disparities have one sign."""
    first, second = _flat(means)
    return np.asarray((first * second > 0).sum(axis=-1), dtype=np.float64)


def share_understated(means: Means) -> FloatArray:
    """Share in which the attack's disparity is at least as large as the gap's."""
    first, second = _flat(means)
    return np.asarray((np.abs(second) >= np.abs(first)).mean(axis=-1))


def median_ratio(means: Means) -> FloatArray:
    """Median of the attack's disparity over the gap's, in size."""
    first, second = _flat(means)
    return np.asarray(np.median(np.abs(second) / np.abs(first), axis=-1))


FIGURES: Mapping[str, Callable[[Means], FloatArray]] = {
    "auc_advantage_mean": auc_advantage_mean,
    "auc_advantage_largest": auc_advantage_largest,
    "gap_advantage_correlation": gap_advantage_correlation,
    "overfitting_gap_mean": overfitting_gap_mean,
    "sign_agreements": sign_agreements,
    "disparity_correlation": disparity_correlation,
    "share_understated": share_understated,
    "median_ratio": median_ratio,
}


def study_means(study: Study) -> tuple[Means, Means | None]:
    """Means of a complete study, and of every resample of its seeds.

    Seeds are drawn anew for every dataset; its attributes and budgets share their splits, so
    they share the draw. One seed alone cannot be resampled.
    """
    parts, drawn = [], []
    for index, dataset in enumerate(DATASETS):
        values = np.stack(
            [_of_seeds(study, k) for k, c in enumerate(CONFIGURATIONS) if c.dataset == dataset], 1
        )
        parts.append(values.mean(axis=0))
        if len(values) > 1:
            rng = np.random.default_rng([STREAM, index])
            drawn.append(bootstrap_sums(values, resamples=RESAMPLES, rng=rng) / len(values))
    means = _named(np.concatenate(parts, axis=0))
    return means, _named(np.concatenate(drawn, axis=1)) if len(drawn) == len(parts) else None


def study_figure(
    study: Study, quantity: str, budgets: tuple[float, ...]
) -> tuple[float | None, float | None]:
    """One figure of a complete study over some budgets, and its error; None where not known."""
    means, resampled = study.keep("means", lambda: study_means(study))
    return figure(means, resampled, quantity, budgets)


def figure(
    means: Means, resampled: Means | None, quantity: str, budgets: tuple[float, ...]
) -> tuple[float | None, float | None]:
    """One figure over some budgets, and its error; None where models or seeds cannot tell."""
    compute = FIGURES[quantity]
    value = float(compute(_only(means, budgets)))
    if not math.isfinite(value):
        return None, None
    if resampled is None:
        return value, None
    return value, float(compute(_only(resampled, budgets)).std(ddof=1))


def _of_seeds(study: Study, index: int) -> FloatArray:
    """(seed, budget, 6): gap, advantage of both groups, and the two disparities."""
    one = CONFIGURATIONS[index]
    wanted = [
        *((cost, group) for cost in ("overfitting_gap", "auc_advantage") for group in one.groups),
        *((disparity, None) for disparity in ("pcer_disparity", "pcer_disparity_auc")),
    ]
    return np.stack(
        [
            np.stack([study_seeds(study, one, e, what, group=group) for what, group in wanted], 1)
            for e in BUDGETS
        ],
        axis=1,
    )


def _named(values: FloatArray) -> Means:
    return Means(
        gap=values[..., 0:2],
        advantage=values[..., 2:4],
        by_gap=values[..., 4],
        by_attack=values[..., 5],
    )


def _only(means: Means, budgets: tuple[float, ...]) -> Means:
    rows = [BUDGETS.index(epsilon) for epsilon in budgets]
    return Means(
        gap=means.gap[..., rows, :],
        advantage=means.advantage[..., rows, :],
        by_gap=means.by_gap[..., rows],
        by_attack=means.by_attack[..., rows],
    )


def _flat(means: Means) -> tuple[FloatArray, FloatArray]:
    lead = means.by_gap.shape[:-2]
    return means.by_gap.reshape(*lead, -1), means.by_attack.reshape(*lead, -1)


def _pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Over the last axis."""
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    return np.asarray((x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)))
