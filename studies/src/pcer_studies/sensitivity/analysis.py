"""How far is every reading from the paper, and from pcer's own?

``sensitivity.run`` calls ``analyse`` with the values of all trained variants; the
result is ``sensitivity.json``, from which ``page`` writes ``sensitivity.md``. To add a
measure: a row of MEASURES.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.statistics import (
    SIGNIFICANCE,
    bootstrap_sums,
    generator,
    holm,
    percentile_interval,
)
from pcer_studies.protocol import NO_DP, configuration
from pcer_studies.published import PrintedFigure, key_at, own_cell
from pcer_studies.sensitivity.observed import (
    Observed,
    ObservedRow,
    Series,
    SeriesKey,
    series_key,
)
from pcer_studies.sensitivity.records import (
    FORMAT,
    VERSION,
    Closest,
    Paired,
    Sensitivity,
    Skipped,
    VariantNumber,
    VariantResult,
    VariantRow,
)
from pcer_studies.sensitivity.variants import OpenQuestion, Variant

RESAMPLES = 5000
LEAST_SEEDS = 5
"""Fewer seeds are described, not tested."""

LEVEL = 0.95
SIGNIFICANT = 6
"""Digits of everything that is computed from the values."""

MEASURES = ("accuracy", "demographic_parity_gap", "equalized_odds_gap")
"""What the distance from the paper is made of.

Overfitting gaps and disparities are left out: most of their published means are no
larger than their deviations over seeds.
"""

_INTERVAL, _CLOSEST = 1, 2
"""Purposes of random streams."""


def analyse(
    observed: Sequence[Observed],
    *,
    made_with: Sequence[Mapping[str, Any]],
    skipped: Sequence[tuple[str, str]] = (),
) -> Sensitivity:
    """Everything that follows from the values.

    Args:
        observed: what was trained.
        made_with: the environments that trained it.
        skipped: variants that were not trained, each with the reason.

    Raises:
        InputError: a variant without its baseline.
    """
    by_name = {trained.variant.name: trained for trained in observed}
    for trained in observed:
        needed = trained.variant.baseline
        if needed is not None and needed not in by_name:
            raise InputError(
                f"{trained.variant.name} needs {needed}; train it as well."
            )

    readings = []
    uncontradicted = []
    for trained in observed:
        if trained.variant.question is OpenQuestion.FEATURES:
            readings.append(trained)
            if not trained.variant.contradicts:
                uncontradicted.append(trained)
    results = []
    for trained in observed:
        baseline = by_name.get(str(trained.variant.baseline))
        results.append(_result(trained, baseline))
    not_trained = [Skipped(name=name, reason=reason) for name, reason in skipped]
    return Sensitivity(
        format=FORMAT,
        version=VERSION,
        made_with=list(map(dict, made_with)),
        skipped=not_trained,
        closest=_closest(readings),
        closest_uncontradicted=_closest(uncontradicted),
        results=results,
    )


def _result(observed: Observed, baseline: Observed | None) -> VariantResult:
    """One variant beside the paper and, if it has one, beside its baseline."""
    cells = _distance_cells([observed])
    from_paper = None
    if cells.published.size:
        means = cells.values[0].mean(axis=0)
        from_paper = _rounded(float(distance(means, cells.published, cells.std)))
    same_splits = None
    same_streams = None
    if baseline is not None:
        same_splits = _same_splits(observed, baseline)
        same_streams = _same_streams(observed)
    variant = observed.variant
    return VariantResult(
        name=variant.name,
        question=str(variant.question),
        dataset=variant.dataset,
        baseline=variant.baseline,
        change=variant.change,
        support=variant.support,
        contradicts=list(variant.contradicts),
        n_features=observed.n_features,
        seeds=list(observed.splits),
        splits=list(observed.splits.values()),
        same_splits=same_splits,
        same_streams=same_streams,
        distance=from_paper,
        n_cells=cells.published.size,
        rows=_variant_rows(observed, baseline),
    )


def _same_splits(observed: Observed, baseline: Observed) -> bool:
    """Whether the seeds that both have gave the same splits."""
    common = set(observed.splits) & set(baseline.splits)
    return all(observed.splits[seed] == baseline.splits[seed] for seed in common)


def _same_streams(observed: Observed) -> bool:
    """Whether models start from the same weights and draw the same batches and noise.

    Streams are named by seed and budget, so they do unless another budget was trained.
    """
    return all(row.epsilon == row.trained_epsilon for row in observed.rows)


def _variant_rows(observed: Observed, baseline: Observed | None) -> list[VariantRow]:
    """The rows with means, published figures and paired differences."""
    pairs = {} if baseline is None else _paired_differences(observed, baseline)
    rows = []
    for row in observed.rows:
        numbers = []
        for series, interval in zip(row.series, _intervals(row), strict=True):
            paired = pairs.get(series_key(row, series))
            cell = _published(observed.variant, row, series)
            numbers.append(_number(series, cell, interval, paired))
        rows.append(_variant_row(row, numbers))
    return rows


def _variant_row(row: ObservedRow, numbers: list[VariantNumber]) -> VariantRow:
    return VariantRow(
        attribute=row.attribute,
        epsilon=None if row.epsilon == NO_DP else row.epsilon,
        trained_epsilon=None if row.trained_epsilon == NO_DP else row.trained_epsilon,
        noise_multiplier=row.noise_multiplier,
        epsilon_spent=row.epsilon_spent,
        numbers=numbers,
    )


def _number(
    series: Series,
    cell: PrintedFigure | None,
    interval: list[float] | None,
    paired: Paired | None,
) -> VariantNumber:
    """A series by its mean, beside the published cell."""
    values = np.array(series.values)
    error = None
    if len(values) > 1:
        error = _rounded(float(values.std(ddof=1)) / math.sqrt(len(values)))
    return VariantNumber(
        quantity=series.quantity,
        group=series.group,
        mean=_rounded(float(values.mean())),
        standard_error=error,
        interval=interval,
        published=None if cell is None else cell.value,
        published_std=None if cell is None else cell.std,
        paired=paired,
        values=list(series.values),
    )


def _published(
    variant: Variant, row: ObservedRow, series: Series
) -> PrintedFigure | None:
    """The cell of the paper's table of this dataset and attribute."""
    which = configuration(variant.dataset, row.attribute)
    return own_cell(key_at(which, row.epsilon, series.quantity, group=series.group))


def _intervals(row: ObservedRow) -> list[list[float] | None]:
    """Percentile bootstrap of the means over seeds, as the paper makes its intervals.

    All series of a row share the draws of seeds.
    """
    values = np.array([series.values for series in row.series], dtype=np.float64).T
    if len(values) < 2:
        return [None] * len(row.series)
    rng = generator(0, purpose=_INTERVAL, epsilon=row.epsilon)
    means = bootstrap_sums(values, resamples=RESAMPLES, rng=rng) / len(values)
    ends = percentile_interval(means, confidence_level=LEVEL)
    return [[_rounded(low), _rounded(high)] for low, high in ends.T.tolist()]


def _paired_differences(
    observed: Observed, baseline: Observed
) -> dict[SeriesKey, Paired]:
    """Every number minus the baseline's, p-values adjusted over all of them (Holm)."""
    baseline_series = baseline.series_by_key()
    pairs = {}
    for key, series in observed.series_by_key().items():
        ours = observed.by_seed(series)
        theirs = baseline.by_seed(baseline_series[key])
        common = [seed for seed in ours if seed in theirs]
        pairs[key] = paired_difference([ours[seed] - theirs[seed] for seed in common])

    alone = [math.nan if p.p_value is None else p.p_value for p in pairs.values()]
    for key, p_value in zip(pairs, holm(np.array(alone)).tolist(), strict=True):
        adjusted = None if math.isnan(p_value) else _rounded(p_value)
        pairs[key] = pairs[key].model_copy(update={"p_value": adjusted})
    return pairs


def paired_difference(differences: Sequence[float]) -> Paired:
    """Mean difference, its standard error, and the p-value of a paired t-test.

    With n differences d: error = std(d) / sqrt(n), t = |mean(d)| / error, and the
    two-sided p is twice the lower tail of Student's distribution with n - 1 degrees of
    freedom at -t. There is no p-value below ``LEAST_SEEDS``: rates of few seeds tie,
    and ties look like certainty.

    >>> print(paired_difference([1.0, 1.0, 4.0, 1.0, 1.0, 4.0]))
    difference=2.0 standard_error=0.632456 p_value=0.025031
    """
    from scipy.special import stdtr

    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return Paired(difference=_rounded(mean), standard_error=None, p_value=None)
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    p_value = None
    if n >= LEAST_SEEDS:
        t = _t_statistic(mean, error)
        p_value = _rounded(2 * float(stdtr(n - 1, -t)))
    return Paired(
        difference=_rounded(mean), standard_error=_rounded(error), p_value=p_value
    )


def _t_statistic(mean: float, error: float) -> float:
    if error != 0:
        return abs(mean) / error
    return 0.0 if mean == 0 else math.inf


class Moved(NamedTuple):
    """A number that differs from the baseline's, and the row it stands in."""

    row: VariantRow
    number: VariantNumber


def moved(result: VariantResult) -> list[Moved]:
    """What differs from the baseline beyond chance, over all numbers of the variant."""
    beyond_chance = []
    for row in result.rows:
        for number in row.numbers:
            p_value = None if number.paired is None else number.paired.p_value
            if p_value is not None and p_value <= SIGNIFICANCE:
                beyond_chance.append(Moved(row, number))
    return beyond_chance


def distance(means: FloatArray, published: FloatArray, std: FloatArray) -> FloatArray:
    """How far means are from the published ones, over the last axis.

    sqrt(mean(((means - published) / std)^2)), where ``std`` are the published
    deviations over seeds. 1 means: as far from the paper's means as one of the paper's
    own models usually is.

    >>> means, published = np.array([3.0, 1.0]), np.array([1.0, 1.0])
    >>> float(distance(means, published, np.array([1.0, 5.0])))
    1.4142135623730951
    """
    return np.asarray(np.sqrt(np.mean(np.square((means - published) / std), axis=-1)))


class _DistanceCells(NamedTuple):
    """The cells that the distance is made of."""

    values: list[FloatArray]  # of each variant (seed, cell)
    published: FloatArray  # (cell,) means
    std: FloatArray  # (cell,) deviations over seeds


def _distance_cells(variants: Sequence[Observed]) -> _DistanceCells:
    """The cells of several variants; their published figures are the same."""
    measured = [_measured(observed) for observed in variants]
    values = []
    for cells in measured:
        by_cell = [series.values for series, _ in cells]
        values.append(np.array(by_cell, dtype=np.float64).T)
    figures = [figure for _, figure in measured[0]]
    published = np.array([figure.value for figure in figures])
    std = np.array([figure.std for figure in figures])
    return _DistanceCells(values, published, std)


def _measured(observed: Observed) -> list[tuple[Series, PrintedFigure]]:
    """The series that have a published mean and deviation to be held against."""
    cells = []
    for row in observed.rows:
        for series in row.series:
            if series.quantity not in MEASURES:
                continue
            figure = _published(observed.variant, row, series)
            if figure is not None and figure.value is not None and figure.std:
                cells.append((series, figure))
    return cells


def _closest(readings: Sequence[Observed]) -> Closest | None:
    """The nearest reading, and in which share of resamples of the seeds it is that."""
    if not readings:
        return None
    cells = _distance_cells(readings)
    distances = []
    resampled = []
    for values in cells.values:
        mean = values.mean(axis=0)
        distances.append(float(distance(mean, cells.published, cells.std)))
        rng = generator(0, purpose=_CLOSEST, epsilon=NO_DP)
        means = bootstrap_sums(values, resamples=RESAMPLES, rng=rng) / len(values)
        resampled.append(distance(means, cells.published, cells.std))
    best = int(np.argmin(distances))
    nearest = np.argmin(np.stack(resampled), axis=0)
    return Closest(
        name=readings[best].variant.name,
        distance=_rounded(distances[best]),
        share_of_resamples=_rounded(float(np.mean(nearest == best))),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT}g}") + 0.0  # + 0.0: no negative zero
