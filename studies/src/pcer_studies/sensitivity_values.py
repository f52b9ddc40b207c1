"""The values of single models that variants are compared by, from releases or from the file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pcer.errors import InputError
from pcer.release import Panel, Release, panels
from pcer_studies.protocol import NO_DP
from pcer_studies.seeds import seed_values
from pcer_studies.sensitivity_file import Sensitivity, VariantRow
from pcer_studies.variants import Variant, variant

OF_MODELS = ("accuracy", "demographic_parity_gap", "equalized_odds_gap", "pcer_disparity")
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
            Series(quantity=n.quantity, group=n.group, values=tuple(n.values)) for n in row.numbers
        ),
    )
