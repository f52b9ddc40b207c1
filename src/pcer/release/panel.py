"""What are a release's numbers as arrays? One panel for each setting.

Everything that computes (``measuring``, ``paper``, ``auditing``) starts from panels. A
setting is a model and a budget. Panels are ordered by model, unnamed first, then by
budget; their arrays by seed and group. To add an array: a field of ``Panel``, filled in
``_panel``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any

import numpy as np

from pcer.metrics import Counts, FloatArray, IntArray
from pcer.release.attack_kinds import SPENT, attack_kind
from pcer.release.file import Release
from pcer.release.records import (
    Confusion,
    Exposure,
    GroupTables,
    PooledExposure,
    Run,
    SplitKind,
    StratifiedBy,
    TrainingNoise,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposures:
    """One attack's signed exposures and standard errors; NaN where not released."""

    value: FloatArray
    standard_error: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledExposures(Exposures):
    """One attack's exposures over all models of a setting: arrays over the group.

    Attributes:
        null_error: the standard error if nothing were memorised.
        benefit_covariance: covariance with the group's positive rate.
        n_records: records behind the value.
        separation: share of the luck of training records that groups do not share; 0
            where not released.
        reliability: share of what records differ by that is no luck of the models; 0
            where not released.
    """

    null_error: FloatArray
    benefit_covariance: FloatArray
    n_records: FloatArray
    separation: FloatArray | float = 0.0
    reliability: FloatArray | float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """All runs of one setting. Arrays are (seed, group) unless said otherwise.

    Attributes:
        split: (seed,) which of the setting's distinct splits each run used, from 0.
        train: counts of the training split, NaN where a table has no counts; None where
            no table of the release has.
        test: the same of the test split.
        exposure: by attack, exposures of single models.
        pooled: by attack, exposures over all models: arrays over the group alone.
        model: name of the model or training rule.
        split_kind: as declared, and so the next two.
        stratified_by: what splits are balanced by.
        clumps: records per unit, where people have several and splits take them apart.
        training_noise: by rate, from models that were trained again on one split.
        shadowed: exposures of single models by attacks that ``pooled`` has and that the
            setting's other models calibrate: for comparisons, never for audits.
        n_splits: number of distinct splits.
        has_sizes: whether every group's number of records is known in every run.
        mean_n: (group,) records on average over runs.
    """

    epsilon: float
    seeds: tuple[int, ...]
    group_names: tuple[str, ...]
    split: IntArray
    train: Counts | None
    test: Counts | None
    train_accuracy: FloatArray
    test_accuracy: FloatArray
    positive_rate: FloatArray
    n_train: FloatArray
    n_test: FloatArray
    exposure: dict[str, Exposures]
    pooled: dict[str, PooledExposures]
    model: str | None = None
    split_kind: SplitKind | None = "random"
    stratified_by: StratifiedBy | None = None
    clumps: float = 1.0
    training_noise: dict[str, TrainingNoise] = field(default_factory=dict)
    shadowed: dict[str, Exposures] = field(default_factory=dict)
    n_splits: int = field(init=False)
    has_sizes: bool = field(init=False)
    mean_n: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        n = self.n_train + self.n_test
        object.__setattr__(self, "n_splits", int(self.split.max()) + 1)
        object.__setattr__(self, "has_sizes", bool(np.isfinite(n).all()))
        object.__setattr__(self, "mean_n", np.asarray(n.mean(axis=0)))


def panels(release: Release) -> tuple[Panel, ...]:
    """Split a release into its settings, by model and then epsilon; computed once.

    No differential privacy comes last. Runs are ordered by seed, so that their order in
    the file does not matter.
    """
    return release.kept(_panels)


def carried_attacks(panels: Iterable[Panel]) -> list[str]:
    """Names of the attacks that a release carries, except the gap (from its counts)."""
    names: set[str] = set()
    for panel in panels:
        names |= panel.exposure.keys() | panel.pooled.keys()
    return sorted(names)


def _panels(release: Release) -> tuple[Panel, ...]:
    runs = sorted(release.runs, key=lambda run: (run.model or "", run.budget, run.seed))
    pooled: dict[tuple[str | None, float | None], list[PooledExposure]] = {}
    for row in (*release.pooled_exposure, *_mean_receipts(release)):
        pooled.setdefault((row.model, row.epsilon), []).append(row)

    noise: dict[tuple[str | None, float | None], dict[str, TrainingNoise]] = {}
    for repeated in release.training_noise:
        of_rates = noise.setdefault((repeated.model, repeated.epsilon), {})
        of_rates[repeated.rate] = repeated

    names = tuple(release.subject.groups)
    has_counts = _has_counts(release)
    made = []
    for setting, of_setting in groupby(runs, key=lambda run: (run.model, run.epsilon)):
        rows = pooled.get(setting, [])
        panel = _panel(names, list(of_setting), rows, has_counts=has_counts)
        if release.subject.published is not None:
            # A model that learned from a table has no gap that would tell of the table.
            panel = replace(
                panel, train_accuracy=np.full_like(panel.train_accuracy, np.nan)
            )
        panel = replace(
            panel,
            split_kind=release.training.split_kind,
            stratified_by=release.training.stratified_by,
            clumps=_clumps(release, panel),
            training_noise=noise.get(setting, {}),
        )
        made.append(panel)
    return tuple(made)


def _clumps(release: Release, panel: Panel) -> float:
    """Records per unit, the most of any group, where splits take units apart."""
    training = release.training
    if training.unit_of_split not in (None, "record"):
        return 1.0
    units = training.effective_units or {}
    per_unit = [1.0]
    for name, n_records in zip(panel.group_names, panel.mean_n, strict=True):
        if name in units and np.isfinite(n_records):
            per_unit.append(float(n_records / units[name]))
    return max(per_unit)


def _mean_receipts(release: Release) -> list[PooledExposure]:
    """Mean receipts of groups, as rows like those of attacks."""
    shared = {"model", "epsilon", "group", "standard_error", "n_records"}
    rows = []
    for bound in release.bounds:
        if bound.kind == "receipt" and bound.label is None:
            key = bound.model_dump(include=shared)
            rows.append(PooledExposure(attack=SPENT.name, value=bound.mean, **key))
    return rows


def _has_counts(release: Release) -> bool:
    """Whether any table of any model is a confusion table."""
    for run in release.runs:
        for tables in run.groups.values():
            if Confusion in (type(tables.train), type(tables.test)):
                return True
    return False


def _panel(
    names: tuple[str, ...],
    runs: list[Run],
    rows: list[PooledExposure],
    *,
    has_counts: bool,
) -> Panel:
    """The panel of one setting: its runs, by seed, and its rows over all models."""
    tables = []
    train = []
    test = []
    for run in runs:
        groups = [run.groups[name] for name in names]
        tables.append(groups)
        train.append([group.train for group in groups])
        test.append([group.test for group in groups])

    of_models = _exposures(tables)
    attacks = sorted({row.attack for row in rows})
    shadowed = {}
    for name in attacks:
        if name in of_models and attack_kind(name).is_calibrated:
            shadowed[name] = of_models.pop(name)

    pooled = {name: _pooled(rows, name, names) for name in attacks}
    return Panel(
        epsilon=runs[0].budget,
        seeds=tuple(run.seed for run in runs),
        group_names=names,
        split=_split_codes(runs),
        train=_counts(train) if has_counts else None,
        test=_counts(test) if has_counts else None,
        train_accuracy=_array(train, "accuracy"),
        test_accuracy=_array(test, "accuracy"),
        positive_rate=_array(test, "positive_rate"),
        n_train=_array(train, "n"),
        n_test=_array(test, "n"),
        exposure=of_models,
        pooled=pooled,
        model=runs[0].model,
        shadowed=shadowed,
    )


def _exposures(tables: list[list[GroupTables]]) -> dict[str, Exposures]:
    """By attack, the exposures of single models: of the groups of every run."""
    attacks: set[str] = set()
    for run in tables:
        attacks.update(*(group.exposure for group in run))
    return {name: _exposures_by(name, tables) for name in sorted(attacks)}


def _exposures_by(attack: str, tables: list[list[GroupTables]]) -> Exposures:
    rows: list[list[Exposure | None]] = []
    for run in tables:
        rows.append([group.exposure.get(attack) for group in run])
    return Exposures(
        value=_array(rows, "value"), standard_error=_array(rows, "standard_error")
    )


def _split_codes(runs: list[Run]) -> IntArray:
    """(seed,) a number for each distinct split; runs without an id count as one split.

    A split named 1 and one named "1" are two.
    """
    codes: dict[tuple[type, str], int] = {}
    of_runs = []
    for run in runs:
        key = (type(run.split), str(run.split))
        of_runs.append(codes.setdefault(key, len(codes)))
    return np.array(of_runs, np.int64)


def _counts(tables: Sequence[Sequence[Any]]) -> Counts:
    return Counts(*(_array(tables, name) for name in Counts._fields))


def _pooled(
    rows: list[PooledExposure], attack: str, names: tuple[str, ...]
) -> PooledExposures:
    """One attack's rows as arrays over the groups; NaN for a group without a row."""
    by_group = {row.group: row for row in rows if row.attack == attack}
    in_order = [by_group.get(name) for name in names]
    arrays = {}
    for of_pool in fields(PooledExposures):
        arrays[of_pool.name] = _array([in_order], of_pool.name)[0]
    for share in ("separation", "reliability"):
        arrays[share] = np.nan_to_num(arrays[share])
    return PooledExposures(**arrays)


def _array(records: Sequence[Sequence[Any]], name: str) -> FloatArray:
    """(seed, group) numbers of one field; NaN where there is none."""
    numbers = []
    for row in records:
        numbers.append([getattr(record, name, None) for record in row])
    array = np.array(numbers, dtype=np.float64)
    array.flags.writeable = False  # every audit of the release sees the same
    return array
