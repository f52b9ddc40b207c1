"""What a release declares about its splits, and the counts beside it, as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pcer.auditing.composition import Composition
from pcer.auditing.exact import Strata, lowest_seeds, strata_of_counts, strata_of_rates
from pcer.auditing.words import setting_name
from pcer.metrics import Counts, FloatArray
from pcer.release.format import Placebo, Release, Run, StratifiedBy
from pcer.release.panel import Panel, panels

SplitName: TypeAlias = str | int | None
"""As the file has it: 1 and "1" are two names, None is no name."""
RECORD = "record"
"""The unit of split that needs no correction."""


@dataclass(frozen=True, kw_only=True)
class PrintedRates:
    """A rate of one setting with the number of records it is of: arrays (run, group)."""

    setting: str
    what: str
    value: FloatArray
    n: FloatArray


@dataclass(frozen=True, kw_only=True)
class SplitSpread:
    """Correct records of one setting, of one run for each of its splits, and their names."""

    setting: str
    strata: Strata
    splits: tuple[SplitName, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SettingClaims:
    """What is said of one setting beside its splits.

    Attributes:
        name: as it is printed.
        model: name of the model, where it has one.
        epsilon: infinite without differential privacy.
        seeds: of its runs, ascending.
        splits: names of the runs' splits.
        cells: (run, cell) every count of both parts; NaN where a table is no confusion table.
        noise: noise multipliers that are named.
        dp_delta: deltas that are named.
        spent: by accountant, the most that a run is said to have spent.
        n_train: the most records that a run was trained on; NaN where not given.
    """

    name: str
    model: str | None
    epsilon: float
    seeds: tuple[int, ...]
    splits: tuple[SplitName, ...]
    cells: FloatArray
    noise: tuple[float, ...]
    dp_delta: tuple[float, ...]
    spent: Mapping[str, float]
    n_train: float


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a release declares, and the counts that may contradict it.

    Attributes:
        random: whether the split is declared random; else only logic is checked.
        stratified_by: what it was balanced on; None where the release does not say.
        unit_of_split: what was put into one part as a whole: "record", "person", ...
        effective_units: (group,) Kish's effective number of units; None where not given.
        is_complete: whether every record is known to be in some group's table.
        group_names: the groups.
        split_names: of every run; None where the run names none.
        runs: records of every run by group and label, NaN where labels are not released.
        sizes: the same by group alone (one label); None where sizes are not released.
        rates: what should be whole when multiplied by the number of records.
        spreads: what every setting gets right in each of its splits.
        settings: what is said of every setting.
        n_records: how many records there are said to be.
        n_missing_group: how many of them are in no group's table.
        mechanism: how models were trained.
        config: the trainer's settings.
        placebo: what made-up groups gave.
    """

    random: bool
    stratified_by: StratifiedBy | None
    unit_of_split: str
    effective_units: FloatArray | None
    is_complete: bool
    group_names: tuple[str, ...]
    split_names: tuple[SplitName, ...]
    runs: Composition | None
    sizes: Composition | None
    rates: tuple[PrintedRates, ...]
    spreads: tuple[SplitSpread, ...]
    settings: tuple[SettingClaims, ...] = ()
    n_records: int | None = None
    n_missing_group: int | None = None
    mechanism: str = "unknown"
    config: Mapping[str, Any] = field(default_factory=dict)
    placebo: tuple[Placebo, ...] = ()

    @property
    def records(self) -> FloatArray | None:
        """Records of each group, as the first run counts them; None without sizes."""
        return None if self.sizes is None else np.asarray(self.sizes.total[0].sum(axis=1))

    @property
    def inflation(self) -> FloatArray | None:
        """By how much clumps multiply the variance of each group's split: N / effective units.

        None where units are not records and their effective number is not given.
        """
        if self.unit_of_split == RECORD:
            return np.ones(len(self.group_names))
        if self.effective_units is None or self.records is None:
            return None
        return np.maximum(1.0, self.records / self.effective_units)


def claims_of(release: Release) -> Claims:
    """Read a release's declarations and counts."""
    by_budget, said = panels(release), release.training
    names = tuple(release.subject.groups)
    sizes, split_names = _sizes(by_budget), _split_names(release, by_budget)
    return Claims(
        random=said.split_kind == "random",
        stratified_by=said.stratified_by,
        unit_of_split=said.unit_of_split or RECORD,
        effective_units=_per_group(said.effective_units, names),
        is_complete=_is_complete(release, sizes),
        group_names=names,
        split_names=tuple(name for names in split_names for name in names),
        runs=_labelled(by_budget),
        sizes=sizes,
        rates=tuple(rates for panel in by_budget for rates in _rates(panel)),
        spreads=tuple(
            _spread(panel, names)
            for panel, names in zip(by_budget, split_names, strict=True)
            if panel.has_sizes
        ),
        settings=_settings(release, by_budget),
        n_records=release.subject.n_records,
        n_missing_group=release.subject.n_missing_group,
        mechanism=said.mechanism,
        config=said.config or {},
        placebo=tuple(release.placebo),
    )


def kish(unit_sizes: FloatArray) -> float:
    """Effective number of units that hold so many records each: (sum m)^2 / sum m^2.

    One of two records beside two of one: 16/6 instead of 3.

    >>> round(kish(np.array([1.0, 1.0, 2.0])), 3)
    2.667
    """
    return float(unit_sizes.sum() ** 2 / (unit_sizes**2).sum())


def distinct_splits(claims: Claims) -> tuple[tuple[SplitName, ...], Composition] | None:
    """Every split once, by name; runs without a name count as one split. None without sizes.

    By group and label if some run of each split gives its labels, else by group alone.
    """
    by_name = runs_by_name(claims.split_names)
    names = tuple(by_name)
    if claims.runs is not None:
        train, test = (
            np.stack([_first_known(table[runs]) for runs in by_name.values()])
            for table in (claims.runs.train, claims.runs.test)
        )
        if np.isfinite(train).all() and np.isfinite(test).all():
            return names, Composition(train=train, test=test)
    if claims.sizes is None:
        return None
    return names, claims.sizes.only([runs[0] for runs in by_name.values()])


def runs_by_name(names: Sequence[SplitName]) -> dict[SplitName, list[int]]:
    """Positions of the runs of each split, in the order in which splits first occur."""
    found: dict[SplitName, list[int]] = {}
    for run, name in enumerate(names):
        found.setdefault(name, []).append(run)
    return found


def _first_known(runs: FloatArray) -> FloatArray:
    """(group, label) of a split's runs: per group from the first that gives labels."""
    first = np.isfinite(runs).all(axis=2).argmax(axis=0)
    return np.asarray(runs[first, np.arange(runs.shape[1])])


def _per_group(values: Mapping[str, float] | None, names: tuple[str, ...]) -> FloatArray | None:
    if values is None or any(name not in values for name in names):
        return None
    return np.array([values[name] for name in names], dtype=np.float64)


def _is_complete(release: Release, sizes: Composition | None) -> bool:
    subject = release.subject
    if subject.n_missing_group is not None:
        return subject.n_missing_group == 0
    return sizes is not None and subject.n_records == sizes.total[0].sum()


def _split_names(
    release: Release, by_budget: tuple[Panel, ...]
) -> tuple[tuple[SplitName, ...], ...]:
    """Of every run of every setting, in the order of the panels."""
    named = {(run.model, run.budget, run.seed): run.split for run in release.runs}
    return tuple(
        tuple(named[panel.model, panel.epsilon, seed] for seed in panel.seeds)
        for panel in by_budget
    )


def _sizes(by_budget: tuple[Panel, ...]) -> Composition | None:
    if not all(panel.has_sizes for panel in by_budget):
        return None
    train, test = (
        np.concatenate([getattr(panel, part)[:, :, None] for panel in by_budget])
        for part in ("n_train", "n_test")
    )
    return Composition(train=train, test=test)


def _labelled(by_budget: tuple[Panel, ...]) -> Composition | None:
    if any(panel.train is None or panel.test is None for panel in by_budget):
        return None
    train, test = (
        np.concatenate([_labels(getattr(panel, part)) for panel in by_budget])
        for part in ("train", "test")
    )
    return Composition(train=train, test=test)


def _labels(counts: Counts) -> FloatArray:
    """(run, group, label), negative first."""
    return np.stack([counts.tn + counts.fp, counts.tp + counts.fn], axis=2)


def _rates(panel: Panel) -> tuple[PrintedRates, ...]:
    columns = (
        ("training accuracy", panel.train_accuracy, panel.n_train),
        ("test accuracy", panel.test_accuracy, panel.n_test),
        ("positive rate", panel.positive_rate, panel.n_test),
    )
    if panel.train is not None:
        return ()
    setting = _setting(panel)
    return tuple(
        PrintedRates(setting=setting, what=what, value=value, n=n) for what, value, n in columns
    )


def _spread(panel: Panel, names: Sequence[SplitName]) -> SplitSpread:
    """The lowest-numbered seed speaks for its split, if it tells the accuracy of every group."""
    known = np.isfinite(panel.train_accuracy) & np.isfinite(panel.test_accuracy)
    if panel.train is not None and panel.test is not None:
        known &= np.isfinite(panel.train.n) & np.isfinite(panel.test.n)
    runs = lowest_seeds(panel.split)
    told = runs[known[runs].all(axis=1)]
    return SplitSpread(
        setting=_setting(panel),
        strata=_strata(panel, told),
        splits=tuple(names[run] for run in told.tolist()),
    )


def _strata(panel: Panel, runs: npt.NDArray[np.int64]) -> Strata:
    if panel.train is not None and panel.test is not None:
        train, test = (Counts(*(part[runs] for part in one)) for one in (panel.train, panel.test))
        return strata_of_counts(train, test)
    rates = (panel.train_accuracy, panel.test_accuracy, panel.n_train, panel.n_test)
    return strata_of_rates(*(part[runs] for part in rates))


def _setting(panel: Panel) -> str:
    return setting_name(panel.model, None if math.isinf(panel.epsilon) else panel.epsilon)


def _settings(release: Release, by_budget: tuple[Panel, ...]) -> tuple[SettingClaims, ...]:
    by_setting: dict[tuple[str | None, float], list[Run]] = {}
    for run in sorted(release.runs, key=lambda run: run.seed):
        by_setting.setdefault((run.model, run.budget), []).append(run)
    return tuple(
        _setting_claims(panel, by_setting[panel.model, panel.epsilon]) for panel in by_budget
    )


def _setting_claims(panel: Panel, runs: Sequence[Run]) -> SettingClaims:
    spent: dict[str, float] = {}
    for run in runs:
        for accountant, epsilon in (run.epsilon_by_accountant or {}).items():
            spent[accountant] = max(epsilon, spent.get(accountant, 0.0))
    return SettingClaims(
        name=_setting(panel),
        model=panel.model,
        epsilon=panel.epsilon,
        seeds=panel.seeds,
        splits=tuple(run.split for run in runs),
        cells=_cells(panel),
        noise=_known(run.noise_multiplier for run in runs),
        dp_delta=_known(run.dp_delta for run in runs),
        spent=spent,
        n_train=float(panel.n_train.sum(axis=1).max()),
    )


def _known(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(sorted({value for value in values if value is not None}))


def _cells(panel: Panel) -> FloatArray:
    """(run, cell) of both parts and all groups."""
    if panel.train is None or panel.test is None:
        return np.full((len(panel.seeds), 1), np.nan)
    return np.concatenate([part for one in (panel.train, panel.test) for part in one], axis=1)
