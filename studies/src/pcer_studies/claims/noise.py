"""How large a gap does the luck of a split give, and which published gaps exceed it?

A model that memorises nothing has an accuracy difference X of mean 0 that is nearly
normal; its clipped gap max(0, X) has mean s/sqrt(2 pi) and standard deviation s
sqrt(1/2 - 1/(2 pi)), s being the standard deviation of X. The splits of a study share
records, but given the records they are drawn independently, so the mean gap over n
splits errs by one n-th of the variance. What a study's splits cannot tell is how other
people's records would have fared.

Called by ``views`` (the paper's errors and evidence), ``facts`` and ``findings``. To
add a reading of the spread: a member of SpreadSource and its function in _SPREADS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from pcer.measuring.exposure import strata_of
from pcer.measuring.variances import split_luck
from pcer.metrics import FloatArray
from pcer.release.panel import Panel
from pcer.statistics import SIGNIFICANCE, holm, two_sided_p
from pcer_studies.protocol import BUDGETS, PAPER_RECORDS, SEEDS, Configuration
from pcer_studies.published import PrintedFigure, figures_at, key_at
from pcer_studies.results import Study

CLIPPED_MEAN = 1 / math.sqrt(2 * math.pi)
"""Mean of max(0, Z), Z standard normal."""
CLIPPED_STD = math.sqrt(0.5 - 1 / (2 * math.pi))
"""Standard deviation of max(0, Z)."""

TRAIN_SHARE = 0.7
SAME_SIZE = 0.01
"""How close, in proportion, a dataset's size is to the paper's if it has its groups."""
GRID = 2**15
"""Points at which the distribution of a sum is computed."""
WIDTH = 12.0
"""How many standard errors above its mean the grid of a sum ends.

Beyond lies less than 1e-20.
"""


class SpreadSource(StrEnum):
    """Where the spread of an accuracy difference without memorisation is read from."""

    COUNTS = "labels and correct counts of our run, group by group"
    ACCURACY = "the accuracy that the paper prints, the same for both groups"
    PRINTED = "the standard deviation that the paper prints beside the gap"


@dataclass(frozen=True, kw_only=True)
class PrintedGap:
    """One of the paper's mean gaps beside what no memorisation would give."""

    configuration: Configuration
    epsilon: float
    group: str
    value: float
    spread: float
    p_value: float
    adjusted_p: float

    @property
    def noise_level(self) -> float:
        """The mean gap that no memorisation would give."""
        return CLIPPED_MEAN * self.spread

    @property
    def error(self) -> float:
        """Standard error of the mean gap without memorisation."""
        return CLIPPED_STD * self.spread / math.sqrt(len(SEEDS))

    @property
    def stands_out(self) -> bool:
        """Whether it can be told from split luck."""
        return self.adjusted_p <= SIGNIFICANCE


def tail_of_mean(mean: float, *, spread: float, n: int) -> float:
    """Probability that the mean of n gaps max(0, X), X normal around 0, is this large.

    P(max(0, X_1) + ... + max(0, X_n) >= n mean). The sum's distribution is that of one
    gap on a fine grid, multiplied n times in Fourier space: the normal approximation
    would be too sure of the upper tail.

    Args:
        mean: the observed mean of the gaps.
        spread: the standard deviation of X.
        n: of how many gaps it is the mean.

    >>> round(tail_of_mean(0.0, spread=1.0, n=3), 6)
    1.0
    """
    from scipy.special import ndtr

    grid_end = n * CLIPPED_MEAN + WIDTH * math.sqrt(n) * CLIPPED_STD
    step = grid_end / GRID
    threshold = n * mean / spread
    if threshold >= grid_end:
        return 0.0
    distribution = ndtr((np.arange(GRID) + 0.5) * step)
    of_one_gap = np.diff(distribution, prepend=0.0)
    of_sum = np.fft.irfft(np.fft.rfft(of_one_gap) ** n, GRID)
    p = of_sum[np.arange(GRID) * step >= threshold - step / 2].sum()
    return float(min(1.0, max(0.0, p)))


def published_gaps(
    study: Study, source: SpreadSource = SpreadSource.COUNTS, *, rounding: int = 0
) -> tuple[PrintedGap, ...]:
    """Every printed mean gap of the study's configurations, in the paper's order.

    Args:
        study: gives group sizes, labels and correct counts.
        source: where the spread comes from; gaps without one (no standard deviation is
            printed for ACS, or group sizes are not released) are left out.
        rounding: -1, 0 or 1: take each gap half a digit lower, as printed, or higher.
    """
    gaps = []
    for printed in _printed_means(study):
        value = _rounded(printed.figure, rounding)
        if value is None:
            continue
        spread = _SPREADS[source](study, printed)
        if spread is None or not math.isfinite(spread) or spread <= 0:
            continue
        p = tail_of_mean(value, spread=spread, n=len(SEEDS))
        gap = PrintedGap(
            configuration=printed.configuration,
            epsilon=printed.epsilon,
            group=printed.configuration.groups[printed.group],
            value=value,
            spread=spread,
            p_value=p,
            adjusted_p=p,  # until all are known
        )
        gaps.append(gap)

    adjusted = holm(np.array([gap.p_value for gap in gaps]))
    return tuple(
        replace(gap, adjusted_p=float(p)) for gap, p in zip(gaps, adjusted, strict=True)
    )


class _PrintedMean(NamedTuple):
    """A mean gap as the paper prints it, and which group's it is."""

    configuration: Configuration
    epsilon: float
    group: int
    figure: PrintedFigure


def _printed_means(study: Study) -> Iterator[_PrintedMean]:
    """Every mean gap, from the first place that prints it."""
    for configuration in study.configurations:
        for epsilon in BUDGETS:
            for group, name in enumerate(configuration.groups):
                key = key_at(configuration, epsilon, "overfitting_gap", group=name)
                figures = figures_at(key)
                if figures:
                    yield _PrintedMean(configuration, epsilon, group, figures[0])


def _rounded(figure: PrintedFigure, direction: int) -> float | None:
    """A figure as printed, or moved by what rounding may have done to it."""
    if figure.value is None:
        return None
    return figure.value + direction * figure.half_digit


def difference_p(first: PrintedGap, second: PrintedGap) -> float:
    """Two-sided p-value of two groups' gaps differing beyond their noise levels.

    d = (g1 - n1) - (g2 - n2) against 0 with error sqrt(e1^2 + e2^2), where g are the
    gaps, n their noise levels and e their errors. 1 where d has not the sign of
    g1 - g2: then the printed difference is not of that direction at all.
    """
    excess = first.value - first.noise_level
    other_excess = second.value - second.noise_level
    difference = excess - other_excess
    error = math.hypot(first.error, second.error)
    if difference * (first.value - second.value) <= 0:
        return 1.0
    return float(two_sided_p(np.array(difference), np.array(error)))


def split_spread(panel: Panel) -> FloatArray:
    """(group,) standard deviation of the accuracy difference over random splits.

    The root of mean(v) + mean(m^2) over the panel's splits, where m and v are mean and
    variance (split, group) that the closed form gives for the labels of a split:
    within a split their composition is known, over splits it is not.
    """
    mean, variance = split_luck(strata_of(panel))
    return np.asarray(np.sqrt(variance.mean(axis=0) + (mean**2).mean(axis=0)))


def spread_of_accuracy(accuracy: float, n_records: float) -> float:
    """The same from an accuracy and a group's size: s² = p(1-p)(1/n_train + 1/n_test).

    >>> round(spread_of_accuracy(0.5, 2100), 6)
    0.02381
    """
    sizes = 1 / (TRAIN_SHARE * n_records) + 1 / ((1 - TRAIN_SHARE) * n_records)
    return math.sqrt(accuracy * (1 - accuracy) * sizes)


def papers_group_sizes(
    study: Study, configuration: Configuration
) -> tuple[float, float]:
    """How many records each group has in the paper's data: its number, our shares."""
    panel = study.panel(configuration.dataset, configuration.attribute, BUDGETS[0])
    sizes = (panel.n_train + panel.n_test).mean(axis=0)
    first, second = sizes / sizes.sum() * PAPER_RECORDS[configuration.dataset]
    return float(first), float(second)


def _from_counts(study: Study, printed: _PrintedMean) -> float | None:
    """By our labels and counts, where our groups are as large as the paper's."""
    if not _has_papers_size(study, printed.configuration):
        return _from_accuracy(study, printed)
    return float(split_spread(_panel(study, printed))[printed.group])


def _from_accuracy(study: Study, printed: _PrintedMean) -> float | None:
    """By the paper's accuracy; where it prints none (ACS), by ours."""
    size = papers_group_sizes(study, printed.configuration)[printed.group]
    key = key_at(printed.configuration, printed.epsilon, "accuracy")
    for figure in figures_at(key):
        if figure.value is not None:
            return spread_of_accuracy(figure.value, size)
    panel = _panel(study, printed)
    accuracy = (panel.test_accuracy * panel.n_test).sum() / panel.n_test.sum()
    return spread_of_accuracy(float(accuracy), size)


def _from_printed(_: Study, printed: _PrintedMean) -> float | None:
    """By the deviation that stands beside the gap."""
    std = printed.figure.std
    return None if std is None else std / CLIPPED_STD


_SPREADS: dict[SpreadSource, Callable[[Study, _PrintedMean], float | None]] = {
    SpreadSource.COUNTS: _from_counts,
    SpreadSource.ACCURACY: _from_accuracy,
    SpreadSource.PRINTED: _from_printed,
}


def _panel(study: Study, printed: _PrintedMean) -> Panel:
    configuration = printed.configuration
    return study.panel(configuration.dataset, configuration.attribute, printed.epsilon)


def _has_papers_size(study: Study, configuration: Configuration) -> bool:
    """Whether our groups are as large as the paper's.

    Always asked of the whole dataset.
    """
    release = study.release(configuration.dataset, configuration.attribute)
    n_records = release.subject.n_records
    if n_records is None:
        return False
    n_papers = PAPER_RECORDS[configuration.dataset]
    return abs(n_records / n_papers - 1) <= SAME_SIZE
