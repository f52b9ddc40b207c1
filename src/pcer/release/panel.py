"""A release as arrays: one panel per setting, ordered (seed, group).

A setting is a model and a budget: models by name, unnamed first, and budgets ascending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np

from pcer.metrics import Counts, FloatArray, IntArray
from pcer.release.format import (
    Confusion,
    Exposure,
    GroupTables,
    PooledExposure,
    Release,
    Run,
    TestRates,
    TrainRates,
)
from pcer.release.proxies import SPENT

Entry = TypeVar("Entry")


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposures:
    """One proxy's cost: signed values and their standard errors, NaN where not released."""

    value: FloatArray
    standard_error: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledExposures(Exposures):
    """The same over all models of a setting: arrays over the group."""

    null_error: FloatArray
    """If nothing was remembered; NaN where not released."""
    benefit_covariance: FloatArray
    """With the positive rate; NaN where not released."""
    n_records: FloatArray
    """Records behind the value; NaN where not released."""
    separation: FloatArray | float = 0.0
    """Share of the luck of training records that stays within a group; 0 where not released."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """All runs of one setting. Arrays are (seed, group) unless said otherwise."""

    epsilon: float
    seeds: tuple[int, ...]
    group_names: tuple[str, ...]
    split: IntArray
    """(seed,) which of the setting's distinct splits each run used, from 0."""
    train: Counts | None
    """NaN where a table has no counts; None where none has."""
    test: Counts | None
    train_accuracy: FloatArray
    test_accuracy: FloatArray
    positive_rate: FloatArray
    n_train: FloatArray
    n_test: FloatArray
    exposure: dict[str, Exposures]
    pooled: dict[str, PooledExposures]
    """By proxy, arrays over the group alone."""
    model: str | None = None
    """Name of the model or training rule."""

    @property
    def n_splits(self) -> int:
        """Number of distinct splits."""
        return int(self.split.max()) + 1

    @cached_property
    def has_sizes(self) -> bool:
        """Whether every group's number of records is known in every run."""
        return bool(np.isfinite(self.n_train).all() and np.isfinite(self.n_test).all())

    @cached_property
    def mean_n(self) -> FloatArray:
        """(group,) records on average over runs."""
        return np.asarray((self.n_train + self.n_test).mean(axis=0))

    @cached_property
    def mean_n_test(self) -> FloatArray:
        """(group,) those of them in the test part."""
        return np.asarray(self.n_test.mean(axis=0))


def panels(release: Release) -> tuple[Panel, ...]:
    """Split a release into its settings: models by name, budgets ascending; made once.

    No differential privacy is the last budget. Runs are ordered by seed, so that their order in
    the file changes nothing.
    """
    return release.kept(_panels)


def _panels(release: Release) -> tuple[Panel, ...]:
    by_setting: dict[tuple[str, float], list[Run]] = {}
    for run in sorted(release.runs, key=lambda run: (*_setting(run), run.seed)):
        by_setting.setdefault(_setting(run), []).append(run)
    rows: dict[tuple[str | None, float | None], list[PooledExposure]] = {}
    for row in (*release.pooled_exposure, *_spent(release)):
        rows.setdefault((row.model, row.epsilon), []).append(row)
    return tuple(
        _panel(release, runs, rows.get((runs[0].model, runs[0].epsilon), []))
        for runs in by_setting.values()
    )


def _setting(run: Run) -> tuple[str, float]:
    return run.model or "", run.budget


def carried_costs(panels: Iterable[Panel]) -> list[str]:
    """Names of the costs that a release carries besides the gap, which is in its counts."""
    return sorted({name for panel in panels for name in (*panel.exposure, *panel.pooled)})


def _panel(release: Release, runs: list[Run], pooled: list[PooledExposure]) -> Panel:
    names = tuple(release.subject.groups)
    cells = [[run.groups[name] for name in names] for run in runs]
    train = _counts(cells, "train") if release.has_counts else None
    test = _counts(cells, "test") if release.has_counts else None
    return Panel(
        epsilon=runs[0].budget,
        seeds=tuple(run.seed for run in runs),
        group_names=names,
        split=_codes(run.split for run in runs),
        train=train,
        test=test,
        train_accuracy=_array(cells, lambda cell: _accuracy(cell.train)),
        test_accuracy=_array(cells, lambda cell: _accuracy(cell.test)),
        positive_rate=_array(cells, lambda cell: _positive_rate(cell.test)),
        n_train=_array(cells, lambda cell: cell.train.n),
        n_test=_array(cells, lambda cell: cell.test.n),
        exposure=_exposures(cells),
        pooled=_pooled(pooled, names),
        model=runs[0].model,
    )


def _exposures(cells: list[list[GroupTables]]) -> dict[str, Exposures]:
    proxies = sorted({proxy for row in cells for cell in row for proxy in cell.exposure})
    return {
        proxy: _exposure([[cell.exposure.get(proxy) for cell in row] for row in cells])
        for proxy in proxies
    }


def _pooled(rows: list[PooledExposure], names: tuple[str, ...]) -> dict[str, PooledExposures]:
    by_key = {(row.proxy, row.group): row for row in rows}
    return {
        proxy: _pooled_exposure([by_key.get((proxy, name)) for name in names])
        for proxy in sorted({proxy for proxy, _ in by_key})
    }


def _spent(release: Release) -> Iterator[PooledExposure]:
    """What groups spent by their receipts, as a cost like any other."""
    for row in release.bounds:
        if (row.kind, row.label) == ("receipt", None):
            yield PooledExposure(
                model=row.model,
                epsilon=row.epsilon,
                group=row.group,
                proxy=SPENT.name,
                value=row.mean,
                standard_error=row.standard_error,
                n_records=row.n_records,
            )


def _pooled_exposure(cells: Sequence[PooledExposure | None]) -> PooledExposures:
    def column(field: str) -> FloatArray:
        array = _array([cells], lambda cell: None if cell is None else getattr(cell, field))
        return np.asarray(array[0])

    return PooledExposures(
        value=column("value"),
        standard_error=column("standard_error"),
        null_error=column("null_error"),
        benefit_covariance=column("benefit_covariance"),
        n_records=column("n_records"),
        separation=np.nan_to_num(column("separation")),
    )


def _exposure(cells: Sequence[Sequence[Exposure | None]]) -> Exposures:
    return Exposures(
        value=_array(cells, lambda cell: None if cell is None else cell.value),
        standard_error=_array(cells, lambda cell: None if cell is None else cell.standard_error),
    )


def _counts(cells: list[list[GroupTables]], split: Literal["train", "test"]) -> Counts:
    def column(field: str) -> FloatArray:
        return _array(cells, lambda cell: getattr(getattr(cell, split), field, None))

    return Counts(tp=column("tp"), fp=column("fp"), tn=column("tn"), fn=column("fn"))


def _accuracy(table: Confusion | TrainRates | TestRates) -> float | None:
    return (table.tp + table.tn) / table.n if isinstance(table, Confusion) else table.accuracy


def _positive_rate(table: Confusion | TestRates) -> float | None:
    return (table.tp + table.fp) / table.n if isinstance(table, Confusion) else table.positive_rate


def _array(cells: Sequence[Sequence[Entry]], value: Callable[[Entry], float | None]) -> FloatArray:
    array = np.stack([_floats(value(cell) for cell in row) for row in cells])
    array.flags.writeable = False  # every audit of the release sees the same
    return array


def _floats(values: Iterable[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _codes(splits: Iterable[str | int | None]) -> IntArray:
    """Number the splits from 0. Runs without an id count as one split: the private reading."""
    known: dict[tuple[str, str], int] = {}
    keys = ((type(split).__name__, str(split)) for split in splits)
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
