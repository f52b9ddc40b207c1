"""How far do the attack and the gap agree, over all configurations of a study?

``numbers`` asks for the paper's figures that are about no single configuration.

To add such a figure: a function of ``Means``, and a row of ``FIGURES``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.metrics import FloatArray
from pcer.statistics import bootstrap_sums
from pcer_studies.model_values import study_seeds
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, DATASETS, Configuration
from pcer_studies.results import Study

RESAMPLES = 2_000
STREAM = 7
"""First word of the seed of every stream here."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """Means over seeds; a first axis may hold resamples.

    Attributes:
        gap: (configuration, budget, group) overfitting gap.
        advantage: (configuration, budget, group) advantage of the threshold attack.
        by_gap: (configuration, budget) PCER disparity by the gap.
        by_attack: (configuration, budget) PCER disparity by the attack.
    """

    gap: FloatArray
    advantage: FloatArray
    by_gap: FloatArray
    by_attack: FloatArray


class Estimate(NamedTuple):
    """A figure over several configurations, and its standard error; None: not known."""

    value: float | None
    error: float | None


def study_figure(study: Study, quantity: str, budgets: tuple[float, ...]) -> Estimate:
    """One figure of a complete study over some budgets."""
    means, resampled = study.keep("means", lambda: study_means(study))
    return figure(means, resampled, quantity, budgets)


def figure(
    means: Means, resampled: Means | None, quantity: str, budgets: tuple[float, ...]
) -> Estimate:
    """One figure over some budgets; its error is the deviation over resamples."""
    compute = FIGURES[quantity]
    value = float(compute(_at_budgets(means, budgets)))
    if not math.isfinite(value):
        return Estimate(None, None)
    if resampled is None:
        return Estimate(value, None)
    drawn = compute(_at_budgets(resampled, budgets))
    return Estimate(value, float(drawn.std(ddof=1)))


def study_means(study: Study) -> tuple[Means, Means | None]:
    """Means of a complete study, and of every resample of its seeds.

    Seeds are drawn again for every dataset; its attributes and budgets share their
    splits, so they share the draw. One seed alone cannot be resampled.
    """
    means = []
    resampled = []
    for index, dataset in enumerate(DATASETS):
        values = _dataset_values(study, dataset)
        means.append(values.mean(axis=0))
        if len(values) > 1:
            rng = np.random.default_rng([STREAM, index])
            sums = bootstrap_sums(values, resamples=RESAMPLES, rng=rng)
            resampled.append(sums / len(values))
    of_study = _means_of(np.concatenate(means, axis=0))
    if len(resampled) < len(means):
        return of_study, None
    return of_study, _means_of(np.concatenate(resampled, axis=1))


def _dataset_values(study: Study, dataset: str) -> FloatArray:
    """(seed, configuration, budget, 6) of the configurations of one dataset."""
    values = [
        _configuration_values(study, configuration)
        for configuration in CONFIGURATIONS
        if configuration.dataset == dataset
    ]
    return np.stack(values, 1)


def _configuration_values(study: Study, configuration: Configuration) -> FloatArray:
    """(seed, budget, 6): gap and advantage of both groups, and the two disparities."""
    wanted: list[tuple[str, str | None]] = []
    for attack in ("overfitting_gap", "auc_advantage"):
        wanted += [(attack, group) for group in configuration.groups]
    wanted += [("pcer_disparity", None), ("pcer_disparity_auc", None)]

    by_budget = []
    for epsilon in BUDGETS:
        columns = [
            study_seeds(study, configuration, epsilon, quantity, group=group)
            for quantity, group in wanted
        ]
        by_budget.append(np.stack(columns, 1))
    return np.stack(by_budget, axis=1)


def _means_of(values: FloatArray) -> Means:
    """The six columns of ``_configuration_values`` by their names."""
    return Means(
        gap=values[..., 0:2],
        advantage=values[..., 2:4],
        by_gap=values[..., 4],
        by_attack=values[..., 5],
    )


def _at_budgets(means: Means, budgets: tuple[float, ...]) -> Means:
    places = [BUDGETS.index(epsilon) for epsilon in budgets]
    return Means(
        gap=means.gap[..., places, :],
        advantage=means.advantage[..., places, :],
        by_gap=means.by_gap[..., places],
        by_attack=means.by_attack[..., places],
    )


def _gap_correlation(means: Means) -> FloatArray:
    """Of gap and advantage, over configurations, budgets and groups."""
    return _pearson(_flat(means.gap, n_axes=3), _flat(means.advantage, n_axes=3))


def _disparity_correlation(means: Means) -> FloatArray:
    return _pearson(_flat(means.by_gap, n_axes=2), _flat(means.by_attack, n_axes=2))


def _sign_agreements(means: Means) -> FloatArray:
    """How many disparities by gap and by attack have the same sign."""
    product = _flat(means.by_gap, n_axes=2) * _flat(means.by_attack, n_axes=2)
    n_agreements: FloatArray = np.sum(product > 0, axis=-1)
    return n_agreements


def _share_understated(means: Means) -> FloatArray:
    """Share of disparities that are at least as large by the attack as by the gap."""
    by_gap = np.abs(_flat(means.by_gap, n_axes=2))
    by_attack = np.abs(_flat(means.by_attack, n_axes=2))
    share: FloatArray = np.mean(by_attack >= by_gap, axis=-1)
    return share


def _median_ratio(means: Means) -> FloatArray:
    """Median size of a disparity by the attack divided by its size by the gap."""
    by_gap = np.abs(_flat(means.by_gap, n_axes=2))
    by_attack = np.abs(_flat(means.by_attack, n_axes=2))
    ratio: FloatArray = np.median(by_attack / by_gap, axis=-1)
    return ratio


FIGURES: Mapping[str, Callable[[Means], FloatArray]] = {
    "auc_advantage_mean": lambda means: means.advantage.mean(axis=(-3, -2, -1)),
    "auc_advantage_largest": lambda means: means.advantage.max(axis=(-3, -2, -1)),
    "gap_advantage_correlation": _gap_correlation,
    "overfitting_gap_mean": lambda means: means.gap.mean(axis=(-3, -2, -1)),
    "sign_agreements": _sign_agreements,
    "disparity_correlation": _disparity_correlation,
    "share_understated": _share_understated,
    "median_ratio": _median_ratio,
}
"""By the name of the paper's figure."""


def _flat(values: FloatArray, *, n_axes: int) -> FloatArray:
    """The same values with their last axes as one."""
    return values.reshape(*values.shape[:-n_axes], -1)


def _pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Pearson's correlation over the last axis.

    r = sum((x - mean x)(y - mean y)) / sqrt(sum((x - mean x)^2) * sum((y - mean y)^2))
    """
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    return np.asarray((x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)))
