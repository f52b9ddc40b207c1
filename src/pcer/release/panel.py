"""A release as arrays: one panel per setting, ordered (seed, group).

A setting is a model and a budget: models by name, unnamed first, and budgets ascending.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from pcer.metrics import Counts, FloatArray, IntArray
from pcer.release.attack_kinds import BY_SHADOWS, SPENT
from pcer.release.columns import SPLITS
from pcer.release.file import Release
from pcer.release.records import Confusion, PooledExposure, Run


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposures:
    """One attack's exposures: signed values and standard errors, NaN where not released."""

    value: FloatArray
    standard_error: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledExposures(Exposures):
    """One attack's exposures over all models of a setting: arrays over the group."""

    null_error: FloatArray  # if nothing were memorised
    benefit_covariance: FloatArray  # with the positive rate
    n_records: FloatArray  # behind the value
    # Share of the luck of training records that groups do not share; 0 where not
    # released.
    separation: FloatArray | float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """All runs of one setting. Arrays are (seed, group) unless said otherwise."""

    epsilon: float
    seeds: tuple[int, ...]
    group_names: tuple[str, ...]
    split: (
        IntArray  # (seed,) which of the setting's distinct splits each run used, from 0
    )
    train: Counts | None  # NaN where a table has no counts; None where none has
    test: Counts | None
    train_accuracy: FloatArray
    test_accuracy: FloatArray
    positive_rate: FloatArray
    n_train: FloatArray
    n_test: FloatArray
    exposure: dict[str, Exposures]
    pooled: dict[str, PooledExposures]  # by proxy, arrays over the group alone
    model: str | None = None  # name of the model or training rule
    # LiRA and RMIA of single models where ``pooled`` has them: for comparisons, never
    # for audits.
    shadowed: dict[str, Exposures] = field(default_factory=dict)

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


def panels(release: Release) -> tuple[Panel, ...]:
    """Split a release into its settings, by model and then epsilon; computed once.

    No differential privacy comes last. Runs are ordered by seed, so that their order in
    the file does not matter.
    """
    return release.kept(_panels)


def carried_costs(panels: Iterable[Panel]) -> list[str]:
    """Names of the attacks that a release carries besides the gap, which is in its counts."""
    return sorted(
        {name for panel in panels for name in (*panel.exposure, *panel.pooled)}
    )


def _panels(release: Release) -> tuple[Panel, ...]:
    runs = sorted(release.runs, key=lambda run: (run.model or "", run.budget, run.seed))
    settings = groupby(runs, key=lambda run: (run.model, run.epsilon))
    rows: dict[tuple[str | None, float | None], list[PooledExposure]] = {}
    for row in (*release.pooled_exposure, *_spent(release)):
        rows.setdefault((row.model, row.epsilon), []).append(row)
    return tuple(
        _panel(release, [*own], rows.get(setting, [])) for setting, own in settings
    )


def _spent(release: Release) -> list[PooledExposure]:
    """Mean receipts of groups, as rows like those of attacks."""
    shared = {"model", "epsilon", "group", "standard_error", "n_records"}
    return [
        PooledExposure(
            proxy=SPENT.name, value=row.mean, **row.model_dump(include=shared)
        )
        for row in release.bounds
        if (row.kind, row.label) == ("receipt", None)
    ]


def _panel(release: Release, runs: list[Run], pooled: list[PooledExposure]) -> Panel:
    names = tuple(release.subject.groups)
    whole = (run.groups.values() for run in release.runs)
    parts = (
        part for groups in whole for own in groups for part in (own.train, own.test)
    )
    has_counts = any(isinstance(part, Confusion) for part in parts)
    tables = [[run.groups[name] for name in names] for run in runs]
    train, test = (
        [[getattr(g, part) for g in row] for row in tables] for part in SPLITS
    )
    split_codes: dict[
        tuple[str, str], int
    ] = {}  # runs without an id count as one split
    splits = [(type(run.split).__name__, str(run.split)) for run in runs]
    measured = sorted(
        {cost for row in tables for group in row for cost in group.exposure}
    )
    by_attack = {
        cost: [[g.exposure.get(cost) for g in row] for row in tables]
        for cost in measured
    }
    found = {
        cost: Exposures(**_arrays(own, ("value", "standard_error")))
        for cost, own in by_attack.items()
    }
    in_rows = {row.proxy for row in pooled}  # what has no row keeps its old meaning
    shadowed = {
        x.name: found.pop(x.name)
        for x in BY_SHADOWS
        if x.name in found.keys() & in_rows
    }
    by_key = {(row.proxy, row.group): row for row in pooled}
    return Panel(
        epsilon=runs[0].budget,
        seeds=tuple(run.seed for run in runs),
        group_names=names,
        split=np.array(
            [split_codes.setdefault(s, len(split_codes)) for s in splits], np.int64
        ),
        train=Counts(*_arrays(train, Counts._fields).values()) if has_counts else None,
        test=Counts(*_arrays(test, Counts._fields).values()) if has_counts else None,
        train_accuracy=_array(train, "accuracy"),
        test_accuracy=_array(test, "accuracy"),
        positive_rate=_array(test, "positive_rate"),
        n_train=_array(train, "n"),
        n_test=_array(test, "n"),
        exposure=found,
        pooled={
            cost: _pooled([by_key.get((cost, name)) for name in names])
            for cost in sorted(in_rows)
        },
        model=runs[0].model,
        shadowed=shadowed,
    )


def _pooled(rows: list[PooledExposure | None]) -> PooledExposures:
    arrays = _arrays([rows], [each.name for each in fields(PooledExposures)])
    by_group = {name: array[0] for name, array in arrays.items()}
    return PooledExposures(
        **by_group | {"separation": np.nan_to_num(by_group["separation"])}
    )


def _arrays(
    records: Sequence[Sequence[Any]], names: Iterable[str]
) -> dict[str, FloatArray]:
    return {name: _array(records, name) for name in names}


def _array(records: Sequence[Sequence[Any]], name: str) -> FloatArray:
    """(seed, group) numbers of one field; NaN where there is none."""
    numbers = [[getattr(record, name, None) for record in row] for row in records]
    array = np.array(numbers, dtype=np.float64)
    array.flags.writeable = False  # every audit of the release sees the same
    return array
