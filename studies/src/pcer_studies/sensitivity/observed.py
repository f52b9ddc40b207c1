"""What did the models of a variant give, one value per seed?

``sensitivity.run`` reads the values of trained releases by ``observe``; ``analysis``
takes them. ``observed_of`` takes them from a written file instead. To add a value: a
row of OF_MODELS or OF_GROUPS.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pcer.errors import InputError
from pcer.release.file import Release
from pcer.release.panel import Panel, panels
from pcer_studies.model_values import seed_values
from pcer_studies.protocol import NO_DP
from pcer_studies.sensitivity import variants
from pcer_studies.sensitivity.records import Sensitivity, VariantRow
from pcer_studies.sensitivity.variants import Variant

OF_MODELS = (
    "accuracy",
    "demographic_parity_gap",
    "equalized_odds_gap",
    "pcer_disparity",
)
OF_GROUPS = ("overfitting_gap", "positive_rate")
DECIMALS = {"pcer_disparity": 2}
RATE_DECIMALS = 6
"""Decimals of the quantities that ``DECIMALS`` does not name."""


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
        trained_epsilon: the budget that was trained, which Opacus' noise changes.
        noise_multiplier: of the models; None without differential privacy.
        epsilon_spent: by PLD.
        series: of every quantity.
    """

    attribute: str
    epsilon: float
    trained_epsilon: float
    noise_multiplier: float | None
    epsilon_spent: float | None
    series: tuple[Series, ...]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What was trained of one variant.

    Attributes:
        variant: which.
        n_features: columns of its features.
        splits: name of the split of every seed, in the order of the values of series.
        rows: one for each attribute and budget.
    """

    variant: Variant
    n_features: int
    splits: Mapping[int, str]
    rows: tuple[ObservedRow, ...]

    def series_by_key(self) -> dict[SeriesKey, Series]:
        """Every series, in the order of the rows."""
        series_by_key = {}
        for row in self.rows:
            for series in row.series:
                series_by_key[series_key(row, series)] = series
        return series_by_key

    def by_seed(self, series: Series) -> dict[int, float]:
        """The values of one of its series."""
        return dict(zip(self.splits, series.values, strict=True))


class SeriesKey(NamedTuple):
    """By what series of two variants are paired."""

    attribute: str
    epsilon: float
    quantity: str
    group: str | None


def series_key(row: ObservedRow, series: Series) -> SeriesKey:
    """The key of a series of a row."""
    return SeriesKey(row.attribute, row.epsilon, series.quantity, series.group)


def observe(
    variant: Variant, releases: Mapping[str, Release], *, n_features: int
) -> Observed:
    """The values of single models, from one release per attribute."""
    first = next(iter(releases.values()))
    runs = sorted(first.runs, key=lambda run: run.seed)
    rows: list[ObservedRow] = []
    for attribute in variant.attributes:
        rows += _rows(variant, releases[attribute])
    return Observed(
        variant=variant,
        n_features=n_features,
        splits={run.seed: str(run.split) for run in runs},
        rows=tuple(rows),
    )


def observed_of(sensitivity: Sensitivity) -> list[Observed]:
    """The values behind a file, as ``analyse`` took them."""
    return [
        Observed(
            variant=variants.variant(result.name),
            n_features=result.n_features,
            splits=dict(zip(result.seeds, result.splits, strict=True)),
            rows=tuple(map(_observed_row, result.rows)),
        )
        for result in sensitivity.results
    ]


def _rows(variant: Variant, release: Release) -> Iterator[ObservedRow]:
    """The models of one release by budget, in the paper's order."""
    found = panels(release)
    if len(found) != len(variant.budgets):
        raise InputError(
            f"{variant.name} must have {len(variant.budgets)} budgets, not "
            f"{len(found)}."
        )
    # Trained budgets may differ from the paper's, but have the same order.
    panel_of = dict(zip(sorted(variant.budgets), found, strict=True))
    run_of = {run.budget: run for run in release.runs}
    for epsilon in sorted(panel_of, key=_place_in_paper):
        panel = panel_of[epsilon]
        run = run_of[panel.epsilon]
        yield ObservedRow(
            attribute=release.subject.attribute,
            epsilon=epsilon,
            trained_epsilon=panel.epsilon,
            noise_multiplier=None if epsilon == NO_DP else run.noise_multiplier,
            epsilon_spent=(run.epsilon_by_accountant or {}).get("pld"),
            series=tuple(_series(panel)),
        )


def _place_in_paper(epsilon: float) -> float:
    """Sorts no differential privacy first, then the smaller budgets."""
    return -math.inf if epsilon == NO_DP else epsilon


def _series(panel: Panel) -> Iterator[Series]:
    """Every quantity of the models of one budget."""
    wanted: list[tuple[str, str | None]] = [(quantity, None) for quantity in OF_MODELS]
    for group in panel.group_names:
        wanted += [(quantity, group) for quantity in OF_GROUPS]
    for quantity, of_group in wanted:
        decimals = DECIMALS.get(quantity, RATE_DECIMALS)
        values = seed_values(panel, quantity, group=of_group).tolist()
        rounded = tuple(round(value, decimals) + 0.0 for value in values)
        yield Series(quantity=quantity, group=of_group, values=rounded)


def _observed_row(row: VariantRow) -> ObservedRow:
    series = [
        Series(
            quantity=number.quantity, group=number.group, values=tuple(number.values)
        )
        for number in row.numbers
    ]
    return ObservedRow(
        attribute=row.attribute,
        epsilon=row.budget,
        trained_epsilon=NO_DP if row.trained_epsilon is None else row.trained_epsilon,
        noise_multiplier=row.noise_multiplier,
        epsilon_spent=row.epsilon_spent,
        series=tuple(series),
    )
