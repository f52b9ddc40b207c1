"""The values of single models that variants are compared by, from releases or from the file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pcer import metrics
from pcer.errors import InputError
from pcer.metrics import Counts, FloatArray
from pcer.release import Panel, Release, panels
from pcer_studies.protocol import DEFAULT_FLOOR, NO_DP
from pcer_studies.sensitivity_file import Row, Sensitivity
from pcer_studies.variants import Variant, variant

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
    """All models of one budget, seen by one attribute.

    Attributes:
        attribute: protected attribute.
        epsilon: the paper's budget that it stands for.
        trained_epsilon: the budget it was trained with; another one only for ``Noise.OPACUS``.
        noise_multiplier: None without differential privacy.
        epsilon_spent: by PLD, or None.
        series: the quantities.
    """

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


def observe(one: Variant, releases: Mapping[str, Release], *, n_features: int) -> Observed:
    """The values of single models, from one release per attribute."""
    first = next(iter(releases.values()))
    return Observed(
        variant=one,
        n_features=n_features,
        splits={run.seed: str(run.split) for run in sorted(first.runs, key=lambda run: run.seed)},
        rows=tuple(row for name in one.attributes for row in _rows(one, releases[name])),
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
        raise InputError(f"{one.name} must have {len(one.budgets)} budgets, not {len(found)}.")
    by_budget = {run.budget: run for run in release.runs}
    for epsilon, panel in sorted(zip(sorted(one.budgets), found, strict=True), key=_papers_order):
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
    test = panel.test
    if test is None:
        raise InputError("a release without counts cannot be compared; train it with pcer.")
    gap = metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)
    ratio = metrics.pcer(panel.positive_rate, gap, floor=DEFAULT_FLOOR)
    odds = (metrics.true_positive_rate(test), metrics.false_positive_rate(test))
    whole = Counts(*(part.sum(axis=-1) for part in test))
    yield _one("accuracy", None, metrics.accuracy(whole))
    yield _one("demographic_parity_gap", None, metrics.demographic_parity_gap(panel.positive_rate))
    yield _one("equalized_odds_gap", None, metrics.equalized_odds_gap(*odds))
    yield _one("pcer_disparity", None, metrics.pcer_disparity(ratio)[:, 0])
    for index, group in enumerate(panel.group_names):
        yield _one("overfitting_gap", group, gap[:, index])
        yield _one("positive_rate", group, panel.positive_rate[:, index])


def _one(quantity: str, group: str | None, values: FloatArray) -> Series:
    decimals = DECIMALS.get(quantity, RATE_DECIMALS)
    rounded = tuple(round(float(value), decimals) + 0.0 for value in values)
    return Series(quantity=quantity, group=group, values=rounded)


def _observed_row(row: Row) -> ObservedRow:
    return ObservedRow(
        attribute=row.attribute,
        epsilon=NO_DP if row.epsilon is None else row.epsilon,
        trained_epsilon=NO_DP if row.trained_epsilon is None else row.trained_epsilon,
        noise_multiplier=row.noise_multiplier,
        epsilon_spent=row.epsilon_spent,
        series=tuple(
            Series(quantity=n.quantity, group=n.group, values=tuple(n.values)) for n in row.numbers
        ),
    )
