"""``sensitivity.json``: what it holds, and how it is read."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcer.errors import InputError
from pcer.files import Record, canonical_json, parse_record, read_json, require_format
from pcer.metrics import FloatArray
from pcer.release.file import Release
from pcer.release.panel import Panel, panels
from pcer.statistics import (
    SIGNIFICANCE,
    bootstrap_sums,
    generator,
    holm,
    percentile_interval,
)
from pcer_studies.model_values import seed_values
from pcer_studies.protocol import NO_DP, configuration
from pcer_studies.published import PrintedFigure, key_at, own_cell
from pcer_studies.sensitivity.variants import VARIANTS, OpenQuestion, Variant, variant

FORMAT, VERSION = "pcer-sensitivity", 1
_NUMBERS = re.compile(r"\[\n[-+.\de,\s]+\]")  # no string of JSON holds a line break


class Paired(Record):
    """Variant minus baseline over the same seeds; the p-value is adjusted over the variant."""

    difference: float
    standard_error: float | None
    p_value: float | None


class VariantNumber(Record):
    """One quantity with what is published and what the baseline has."""

    quantity: str
    group: str | None
    mean: float
    standard_error: float | None
    interval: list[float] | None
    published: float | None
    published_std: float | None
    paired: Paired | None
    values: list[float]


class VariantRow(Record):
    """One attribute and budget of a variant; ``epsilon`` null is no differential privacy."""

    attribute: str
    epsilon: float | None
    trained_epsilon: float | None
    noise_multiplier: float | None
    epsilon_spent: float | None
    numbers: list[VariantNumber]

    @property
    def budget(self) -> float:
        """The paper's budget that it stands for."""
        return NO_DP if self.epsilon is None else self.epsilon

    def number(self, quantity: str, group: str | None = None) -> VariantNumber | None:
        """One of its numbers, or None."""
        wanted = (quantity, group)
        return next((n for n in self.numbers if (n.quantity, n.group) == wanted), None)


class VariantResult(Record):
    """One variant."""

    name: str
    question: str
    dataset: str
    baseline: str | None
    change: str
    support: str
    contradicts: list[str]
    n_features: int
    seeds: list[int]
    splits: list[str]
    same_splits: bool | None
    same_streams: bool | None
    distance: float | None
    n_cells: int
    rows: list[VariantRow]

    def has_budget(self, epsilon: float) -> bool:
        """Whether it was trained at this budget of the paper."""
        return any(row.budget == epsilon for row in self.rows)

    def row(self, attribute: str, epsilon: float) -> VariantRow | None:
        """Its models of one budget, seen by one attribute; None where they were not trained."""
        wanted = (attribute, epsilon)
        return next(
            (row for row in self.rows if (row.attribute, row.budget) == wanted), None
        )

    def number(
        self, attribute: str, epsilon: float, quantity: str, group: str | None = None
    ) -> VariantNumber | None:
        """One of their numbers, or None."""
        row = self.row(attribute, epsilon)
        return None if row is None else row.number(quantity, group)


class Closest(Record):
    """The reading of Adult with the smallest distance, and how sure that is."""

    name: str
    distance: float
    share_of_resamples: float


class Skipped(Record):
    """A variant that was not trained, and why."""

    name: str
    reason: str


class Sensitivity(Record):
    """The whole file."""

    format: str
    version: int
    made_with: list[dict[str, Any]]
    skipped: list[Skipped]
    closest: Closest | None
    closest_uncontradicted: Closest | None
    results: list[VariantResult]

    def to_json(self) -> str:
        """Canonical text, with a list of numbers on one line."""
        return _NUMBERS.sub(_one_line, canonical_json(self.model_dump()))

    def result(self, name: str) -> VariantResult | None:
        """A variant by name; None where it was skipped."""
        return next((one for one in self.results if one.name == name), None)


def _one_line(found: re.Match[str]) -> str:
    return "[" + " ".join(found.group()[1:-1].split()) + "]"


def read_sensitivity(path: str | os.PathLike[str]) -> Sensitivity:
    """Read ``sensitivity.json``, strictly."""
    data = read_json(path)
    require_format(data, file=str(path), name=FORMAT, version=VERSION)
    found = parse_record(Sensitivity, data, file=str(path))
    known = {one.name for one in VARIANTS}
    for one in found.results:
        if one.name not in known:
            raise InputError(f"{path}: there is no variant {one.name!r}; run it again.")
    return found


OF_MODELS = (
    "accuracy",
    "demographic_parity_gap",
    "equalized_odds_gap",
    "pcer_disparity",
)
OF_GROUPS = ("overfitting_gap", "positive_rate")
DECIMALS = {"pcer_disparity": 2}
RATE_DECIMALS = 6


@dataclass(frozen=True, kw_only=True)
class Series:
    """One quantity of one attribute and budget: a value per seed."""

    quantity: str
    group: str | None
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ObservedRow:
    """All models of one budget, seen by one attribute."""

    attribute: str
    epsilon: float
    trained_epsilon: float
    noise_multiplier: float | None
    epsilon_spent: float | None
    series: tuple[Series, ...]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What was trained of one variant."""

    variant: Variant
    n_features: int
    splits: Mapping[int, str]
    rows: tuple[ObservedRow, ...]


def observe(
    one: Variant, releases: Mapping[str, Release], *, n_features: int
) -> Observed:
    """The values of single models, from one release per attribute."""
    first = next(iter(releases.values()))
    return Observed(
        variant=one,
        n_features=n_features,
        splits={
            run.seed: str(run.split)
            for run in sorted(first.runs, key=lambda run: run.seed)
        },
        rows=tuple(
            row for name in one.attributes for row in _rows(one, releases[name])
        ),
    )


def observed_of(found: Sensitivity) -> list[Observed]:
    """The values behind a file, as they were given to ``analyse``."""
    return [
        Observed(
            variant=variant(one.name),
            n_features=one.n_features,
            splits=dict(zip(one.seeds, one.splits, strict=True)),
            rows=tuple(_observed_row(row) for row in one.rows),
        )
        for one in found.results
    ]


def _rows(one: Variant, release: Release) -> Iterator[ObservedRow]:
    found = panels(release)
    if len(found) != len(one.budgets):
        raise InputError(
            f"{one.name} must have {len(one.budgets)} budgets, not {len(found)}."
        )
    by_budget = {run.budget: run for run in release.runs}
    for epsilon, panel in sorted(
        zip(sorted(one.budgets), found, strict=True), key=_papers_order
    ):
        run = by_budget[panel.epsilon]
        yield ObservedRow(
            attribute=release.subject.attribute,
            epsilon=epsilon,
            trained_epsilon=panel.epsilon,
            noise_multiplier=None if epsilon == NO_DP else run.noise_multiplier,
            epsilon_spent=(run.epsilon_by_accountant or {}).get("pld"),
            series=tuple(_series(panel)),
        )


def _papers_order(pair: tuple[float, Panel]) -> float:
    return -math.inf if pair[0] == NO_DP else pair[0]


def _series(panel: Panel) -> Iterator[Series]:
    wanted = [
        *((quantity, None) for quantity in OF_MODELS),
        *((quantity, group) for group in panel.group_names for quantity in OF_GROUPS),
    ]
    for quantity, group in wanted:
        decimals = DECIMALS.get(quantity, RATE_DECIMALS)
        values = seed_values(panel, quantity, group=group).tolist()
        rounded = tuple(round(value, decimals) + 0.0 for value in values)
        yield Series(quantity=quantity, group=group, values=rounded)


def _observed_row(row: VariantRow) -> ObservedRow:
    return ObservedRow(
        attribute=row.attribute,
        epsilon=row.budget,
        trained_epsilon=NO_DP if row.trained_epsilon is None else row.trained_epsilon,
        noise_multiplier=row.noise_multiplier,
        epsilon_spent=row.epsilon_spent,
        series=tuple(
            Series(quantity=n.quantity, group=n.group, values=tuple(n.values))
            for n in row.numbers
        ),
    )


RESAMPLES = 5000
LEAST_SEEDS = 5
"""Fewer seeds are described, not tested."""

LEVEL = 0.95
SIGNIFICANT = 6
"""Digits of everything that is computed from the values."""

MEASURES = ("accuracy", "demographic_parity_gap", "equalized_odds_gap")
"""What the distance from the paper is made of.

Overfitting gaps and disparities are left out:
most of their published means are no larger than their deviations over seeds."""

_INTERVAL, _CLOSEST = 1, 2
"""Purposes of random streams."""


def analyse(
    observed: Sequence[Observed],
    *,
    made_with: Sequence[Mapping[str, Any]],
    skipped: Sequence[tuple[str, str]] = (),
) -> Sensitivity:
    """Everything that follows from the values; variants without their baseline are refused."""
    by_name = {one.variant.name: one for one in observed}
    for one in observed:
        if one.variant.baseline not in {None, *by_name}:
            raise InputError(
                f"{one.variant.name} needs {one.variant.baseline}; train it as well."
            )
    readings = [
        one for one in observed if one.variant.question is OpenQuestion.FEATURES
    ]
    plain = [one for one in readings if not one.variant.contradicts]
    return Sensitivity(
        format=FORMAT,
        version=VERSION,
        made_with=[dict(one) for one in made_with],
        skipped=[Skipped(name=name, reason=reason) for name, reason in skipped],
        closest=_closest(readings),
        closest_uncontradicted=_closest(plain),
        results=[
            _result(one, by_name.get(str(one.variant.baseline))) for one in observed
        ],
    )


def distance(means: FloatArray, published: FloatArray, std: FloatArray) -> FloatArray:
    """Root mean square over the last axis of (mean - published) / published deviation over seeds.

    1 means: as far from the paper's means as one of the paper's own models usually is.

    >>> float(distance(np.array([3.0, 1.0]), np.array([1.0, 1.0]), np.array([1.0, 5.0])))
    1.4142135623730951
    """
    return np.asarray(np.sqrt(np.mean(np.square((means - published) / std), axis=-1)))


def _result(one: Observed, baseline: Observed | None) -> VariantResult:
    means, published, std = _cells([one])
    far = (
        float(distance(means[0].mean(axis=0), published, std))
        if published.size
        else None
    )
    return VariantResult(
        name=one.variant.name,
        question=str(one.variant.question),
        dataset=one.variant.dataset,
        baseline=one.variant.baseline,
        change=one.variant.change,
        support=one.variant.support,
        contradicts=list(one.variant.contradicts),
        n_features=one.n_features,
        seeds=list(one.splits),
        splits=list(one.splits.values()),
        same_splits=None if baseline is None else _same_splits(one, baseline),
        same_streams=None if baseline is None else _same_streams(one),
        distance=_short(far),
        n_cells=published.size,
        rows=_judged(one, baseline),
    )


def _same_splits(one: Observed, baseline: Observed) -> bool:
    common = set(one.splits) & set(baseline.splits)
    return all(one.splits[seed] == baseline.splits[seed] for seed in common)


def _same_streams(one: Observed) -> bool:
    """Whether models start from the same weights and draw the same batches and unit noise.

    Streams are named by seed and budget, so they do unless another budget was trained.
    """
    return all(row.epsilon == row.trained_epsilon for row in one.rows)


def _judged(one: Observed, baseline: Observed | None) -> list[VariantRow]:
    """The rows with means, published figures and paired differences."""
    rows = [
        [
            _number(one, row, series, interval)
            for series, interval in zip(row.series, _intervals(row), strict=True)
        ]
        for row in one.rows
    ]
    if baseline is not None:
        rows = _with_pairs(one, baseline, rows)
    return [_row(row, numbers) for row, numbers in zip(one.rows, rows, strict=True)]


def _with_pairs(
    one: Observed, baseline: Observed, rows: Sequence[Sequence[VariantNumber]]
) -> list[list[VariantNumber]]:
    """The numbers with their paired differences, p-values adjusted over all of them."""
    pairs = [
        _paired(one, baseline, row, series) for row in one.rows for series in row.series
    ]
    raw = np.array([math.nan if p.p_value is None else p.p_value for p in pairs])
    final = iter(zip(pairs, holm(raw).tolist(), strict=True))
    return [
        [
            number.model_copy(update={"paired": _adjusted(*next(final))})
            for number in numbers
        ]
        for numbers in rows
    ]


def _adjusted(pair: Paired, p: float) -> Paired:
    return pair.model_copy(update={"p_value": None if math.isnan(p) else _known(p)})


def _row(row: ObservedRow, numbers: list[VariantNumber]) -> VariantRow:
    return VariantRow(
        attribute=row.attribute,
        epsilon=None if row.epsilon == NO_DP else row.epsilon,
        trained_epsilon=None if row.trained_epsilon == NO_DP else row.trained_epsilon,
        noise_multiplier=row.noise_multiplier,
        epsilon_spent=row.epsilon_spent,
        numbers=numbers,
    )


def _number(
    one: Observed, row: ObservedRow, series: Series, interval: list[float] | None
) -> VariantNumber:
    values = np.array(series.values)
    cell = _published(one.variant, row, series)
    error = (
        float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    )
    return VariantNumber(
        quantity=series.quantity,
        group=series.group,
        mean=_known(float(values.mean())),
        standard_error=_short(error),
        interval=interval,
        published=None if cell is None else cell.value,
        published_std=None if cell is None else cell.std,
        paired=None,
        values=list(series.values),
    )


def _intervals(row: ObservedRow) -> list[list[float] | None]:
    """Percentile bootstrap of the means over seeds, as the paper makes its intervals."""
    values = np.array([series.values for series in row.series], dtype=np.float64).T
    if len(values) < 2:
        return [None] * len(row.series)
    rng = generator(0, purpose=_INTERVAL, epsilon=row.epsilon)
    means = bootstrap_sums(values, resamples=RESAMPLES, rng=rng) / len(values)
    ends = percentile_interval(means, confidence_level=LEVEL)
    return [[_known(low), _known(high)] for low, high in ends.T.tolist()]


def _paired(
    one: Observed, baseline: Observed, row: ObservedRow, series: Series
) -> Paired:
    other = next(
        s
        for r in baseline.rows
        if (r.attribute, r.epsilon) == (row.attribute, row.epsilon)
        for s in r.series
        if (s.quantity, s.group) == (series.quantity, series.group)
    )
    ours = dict(zip(one.splits, series.values, strict=True))
    theirs = dict(zip(baseline.splits, other.values, strict=True))
    return paired_difference([ours[s] - theirs[s] for s in ours if s in theirs])


def paired_difference(differences: Sequence[float]) -> Paired:
    """Mean difference, its standard error, and the two-sided p-value of a paired t-test.

    No p-value below ``LEAST_SEEDS``: rates of few seeds tie, and ties look like
    certainty.

    >>> print(paired_difference([1.0, 1.0, 4.0, 1.0, 1.0, 4.0]))
    difference=2.0 standard_error=0.632456 p_value=0.025031
    """
    from scipy.special import stdtr

    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return Paired(difference=_known(mean), standard_error=None, p_value=None)
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    steps = abs(mean) / error if error else (math.inf if mean else 0.0)
    p = None if n < LEAST_SEEDS else _known(2 * float(stdtr(n - 1, -steps)))
    return Paired(difference=_known(mean), standard_error=_known(error), p_value=p)


def moved(result: VariantResult) -> list[tuple[VariantRow, VariantNumber]]:
    """What differs from the baseline by more than chance, over all numbers of the variant."""
    return [
        (row, number)
        for row in result.rows
        for number in row.numbers
        if number.paired
        and number.paired.p_value is not None
        and number.paired.p_value <= SIGNIFICANCE
    ]


def _published(one: Variant, row: ObservedRow, series: Series) -> PrintedFigure | None:
    """The cell of the paper's table of this dataset and attribute."""
    which = configuration(one.dataset, row.attribute)
    return own_cell(key_at(which, row.epsilon, series.quantity, group=series.group))


def _cells(
    several: Sequence[Observed],
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """Per variant (seed, cell), and the published means and deviations of the cells."""
    found = [_measured(one) for one in several]
    arrays = [
        np.array([values for values, _, _ in cells], dtype=np.float64).T
        for cells in found
    ]
    means, std = ([cell[k] for cell in found[0]] for k in (1, 2))
    return arrays, np.array(means), np.array(std)


def _measured(one: Observed) -> list[tuple[tuple[float, ...], float, float]]:
    """The cells that the distance is made of: our values, published mean and deviation."""
    return [
        (series.values, cell.value, cell.std)
        for row in one.rows
        for series in row.series
        if series.quantity in MEASURES
        and (cell := _published(one.variant, row, series)) is not None
        and cell.value is not None
        and cell.std
    ]


def _closest(choices: Sequence[Observed]) -> Closest | None:
    """The nearest of several variants, and in which share of resamples of the seeds it is."""
    if not choices:
        return None
    arrays, published, std = _cells(choices)
    distances = [float(distance(a.mean(axis=0), published, std)) for a in arrays]
    drawn = []
    for values in arrays:
        rng = generator(0, purpose=_CLOSEST, epsilon=NO_DP)
        means = bootstrap_sums(values, resamples=RESAMPLES, rng=rng) / len(values)
        drawn.append(distance(means, published, std))
    best = int(np.argmin(distances))
    share = float(np.mean(np.argmin(np.stack(drawn), axis=0) == best))
    return Closest(
        name=choices[best].variant.name,
        distance=_known(distances[best]),
        share_of_resamples=_known(share),
    )


def _known(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT}g}") + 0.0  # + 0.0: no negative zero


def _short(value: float | None) -> float | None:
    return None if value is None else _known(value)
