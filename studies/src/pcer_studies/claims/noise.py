"""How large a gap the luck of the split alone gives, and which published gaps exceed it.

A model that memorises nothing has an accuracy difference X of mean 0 that is nearly
normal; its clipped gap max(0, X) has mean s/sqrt(2 pi) and standard deviation s
sqrt(1/2 - 1/(2 pi)), s being the standard deviation of X. The splits of a study share
records, but given the records they are drawn independently, so the mean gap over n
splits errs by one n-th of the variance. What a study's splits cannot tell is how other
people's records would have fared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

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
"""A dataset whose size is this close to the paper's, in proportion, has the paper's groups."""
GRID = 2**15
WIDTH = 12.0
"""Standard errors above its mean that the grid of a sum reaches; beyond lies less than 1e-20."""


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
    """Probability that the mean of n gaps max(0, X), X normal around 0, is ``mean`` or more.

    The sum's distribution is that of one gap on a fine grid, multiplied n times in
    Fourier space: the normal approximation would be too sure of the upper tail.

    >>> round(tail_of_mean(0.0, spread=1.0, n=3), 6)
    1.0
    """
    from scipy.special import ndtr

    top = n * CLIPPED_MEAN + WIDTH * math.sqrt(n) * CLIPPED_STD
    step = top / GRID
    threshold = n * mean / spread
    if threshold >= top:
        return 0.0
    upper = ndtr((np.arange(GRID) + 0.5) * step)
    chances = np.diff(upper, prepend=0.0)
    total = np.fft.irfft(np.fft.rfft(chances) ** n, GRID)
    above = total[np.arange(GRID) * step >= threshold - step / 2].sum()
    return float(min(1.0, max(0.0, above)))


def published_gaps(
    study: Study, source: SpreadSource = SpreadSource.COUNTS, *, rounding: int = 0
) -> tuple[PrintedGap, ...]:
    """Every printed mean gap of the configurations that the study has, in the paper's order.

    Args:
        study: gives group sizes, labels and correct counts.
        source: where the spread comes from; gaps without one (no standard deviation is
            printed for ACS, or group sizes are not released) are left out.
        rounding: -1, 0 or 1: take each gap half a digit lower, as printed, or higher.
    """
    found = [
        (one, epsilon, group, mean, spread)
        for one in study.configurations
        for epsilon in BUDGETS
        for group, name in enumerate(one.groups)
        for figure in figures_at(key_at(one, epsilon, "overfitting_gap", group=name))[
            :1
        ]
        if (mean := _rounded(figure, rounding)) is not None
        and (spread := _SPREADS[source](study, one, epsilon, group, figure)) is not None
        and math.isfinite(spread)
        and spread > 0
    ]
    p = np.array([tail_of_mean(mean, spread=s, n=len(SEEDS)) for *_, mean, s in found])
    return tuple(
        PrintedGap(
            configuration=one,
            epsilon=epsilon,
            group=one.groups[group],
            value=mean,
            spread=spread,
            p_value=float(raw),
            adjusted_p=float(adjusted),
        )
        for (one, epsilon, group, mean, spread), raw, adjusted in zip(
            found, p, holm(p), strict=True
        )
    )


def difference_p(first: PrintedGap, second: PrintedGap) -> float:
    """Two-sided p-value of two groups' gaps differing by more than their noise levels do.

    1 where, noise levels taken off, the other group has the larger gap: then the
    printed difference is not of that direction at all.
    """
    excess = [gap.value - gap.noise_level for gap in (first, second)]
    difference = excess[0] - excess[1]
    error = math.hypot(first.error, second.error)
    if difference * (first.value - second.value) <= 0:
        return 1.0
    return float(two_sided_p(np.array(difference), np.array(error)))


def split_spread(panel: Panel) -> FloatArray:
    """(group,) standard deviation of the accuracy difference over random splits.

    Within a split the labels' composition is known, over splits it is not: the closed
    form's variance, and the second moment of its mean over the panel's splits.
    """
    mean, variance = split_luck(strata_of(panel))
    return np.asarray(np.sqrt(variance.mean(axis=0) + (mean**2).mean(axis=0)))


def spread_of_accuracy(accuracy: float, n_records: float) -> float:
    """The same from one accuracy and a group's size: s^2 = p(1-p)(1/n_train + 1/n_test).

    >>> round(spread_of_accuracy(0.5, 2100), 6)
    0.02381
    """
    sizes = 1 / (TRAIN_SHARE * n_records) + 1 / ((1 - TRAIN_SHARE) * n_records)
    return math.sqrt(accuracy * (1 - accuracy) * sizes)


def papers_group_sizes(study: Study, one: Configuration) -> tuple[float, float]:
    """How many records each group has in the paper's data: its number, our shares."""
    panel = study.panel(one.dataset, one.attribute, BUDGETS[0])
    sizes = (panel.n_train + panel.n_test).mean(axis=0)
    first, second = sizes / sizes.sum() * PAPER_RECORDS[one.dataset]
    return float(first), float(second)


def _from_counts(
    study: Study, one: Configuration, epsilon: float, group: int, figure: PrintedFigure
) -> float | None:
    if not _has_papers_size(study, one):
        return _from_accuracy(study, one, epsilon, group, figure)
    panel = study.panel(one.dataset, one.attribute, epsilon)
    return float(split_spread(panel)[group])


def _from_accuracy(
    study: Study, one: Configuration, epsilon: float, group: int, figure: PrintedFigure
) -> float | None:
    """By the paper's accuracy; where it prints none (ACS), by ours."""
    size = papers_group_sizes(study, one)[group]
    for printed in figures_at(key_at(one, epsilon, "accuracy")):
        if printed.value is not None:
            return spread_of_accuracy(printed.value, size)
    panel = study.panel(one.dataset, one.attribute, epsilon)
    accuracy = (panel.test_accuracy * panel.n_test).sum() / panel.n_test.sum()
    return spread_of_accuracy(float(accuracy), size)


def _from_printed(
    study: Study, one: Configuration, epsilon: float, group: int, figure: PrintedFigure
) -> float | None:
    return None if figure.std is None else figure.std / CLIPPED_STD


_SPREADS = {
    SpreadSource.COUNTS: _from_counts,
    SpreadSource.ACCURACY: _from_accuracy,
    SpreadSource.PRINTED: _from_printed,
}


def _rounded(figure: PrintedFigure, way: int) -> float | None:
    return None if figure.value is None else figure.value + way * figure.half_digit


def _has_papers_size(study: Study, one: Configuration) -> bool:
    """Whether our groups are as large as the paper's (always asked of the whole dataset)."""
    records = study.release(one.dataset, one.attribute).subject.n_records
    return (
        records is not None
        and abs(records / PAPER_RECORDS[one.dataset] - 1) <= SAME_SIZE
    )
