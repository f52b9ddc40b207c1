"""What does a release declare, and what are its counts, as arrays?

``ReleaseArrays`` is made once a release (``release.kept(ReleaseArrays)``): the checks
of ``logic`` look at it, and the audit takes effective numbers of units from it.
``Splits`` is what the checks of ``chance`` look at: the distinct splits of a release
that says that they are random. To add what checks look at: an attribute of one of the
two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pcer.measuring import hypergeometric
from pcer.measuring.exact import SMALLEST_P, Strata, lowest_seeds
from pcer.measuring.exposure import strata_of
from pcer.measuring.hypergeometric import SplitCounts
from pcer.metrics import FloatArray
from pcer.release import Release, panels
from pcer.release.panel import Panel
from pcer.release.records import Run, StratifiedBy
from pcer.wording import say, setting_name

# Probability that a release with true declarations is contradicted, over all checks.
LEVEL: Final = 0.01
SHARE_OF_REPEATS: Final = 0.32  # of that, for splits that are an earlier one
RECORD: Final = "record"
LABELS: Final = ("negative label", "positive label")
# As the file has it: 1 and "1" are two names, None is no name.
SplitName: TypeAlias = str | int | None


class Finding(NamedTuple):
    """A sentence: what the release declares, what contradicts it, and what to change.

    The p-value is adjusted within the check, None where logic decides. A finding that
    caps the verdict undermines the audit's tests; None: as the check says.
    """

    sentence: str
    p_value: float | None = None
    caps_verdict: bool | None = None


def finding(
    template: str,
    p_value: float | None = None,
    /,
    *,
    caps_verdict: bool | None = None,
    **values: object,
) -> Finding:
    """A finding by its template in ``words.toml``, which may name the ``chance``."""
    if p_value is not None:
        is_smallest = p_value <= SMALLEST_P
        values["chance"] = f"below {SMALLEST_P:g}" if is_smallest else f"{p_value:.2g}"
    return Finding(say("checks", template, **values), p_value, caps_verdict)


def is_random(release: Release) -> bool:
    """Whether the split is declared random, which every test of an audit needs."""
    return release.training.split_kind == "random"


def stated_epsilon(panel: Panel) -> float | None:
    """The budget as files have it: None without differential privacy."""
    return None if math.isinf(panel.epsilon) else panel.epsilon


def split_words(name: SplitName) -> str:
    """A split as part of a sentence."""
    return "the unnamed split" if name is None else f"split {name!r}"


class Setting(NamedTuple):
    """One setting of a release; its runs in the order of the panel's seeds."""

    name: str
    panel: Panel
    runs: list[Run]


class ReleaseArrays:
    """What a release declares, and its counts as arrays over all runs."""

    def __init__(self, release: Release) -> None:
        by_setting = panels(release)
        unit = release.training.unit_of_split
        self.release = release
        self.groups = tuple(release.subject.groups)
        self.settings = _settings(release, by_setting)
        # Positions of each split's runs, splits in the order of their first runs.
        self.runs_by_split = _runs_by_split(self.settings)
        # By group alone; None where some are not released.
        self.sizes = _sizes(by_setting)
        # NaN of a run without counts; None where no run has any.
        self.cells = _cells(by_setting)
        self.labelled: SplitCounts | None = None
        if self.cells is not None:
            # (part, label, run, group) -> (part, run, group, label)
            self.labelled = SplitCounts(*self.cells.sum(axis=2).transpose(0, 2, 3, 1))
        # Whether the epsilon is that of the unit that splits exchange.
        self.protects_unit = unit in (None, RECORD, release.subject.unit_of_privacy)
        # (group,) how many units the records are worth; None: not said.
        self.effective_units = _effective_units(release)
        # (group,) by which clumps of records multiply a variance; None: not known.
        self.variance_inflation = _inflation(release, self.sizes, self.effective_units)


def _settings(release: Release, by_setting: Sequence[Panel]) -> list[Setting]:
    runs = sorted(release.runs, key=lambda run: (run.model or "", run.budget, run.seed))
    settings = []
    start = 0
    for panel in by_setting:
        end = start + len(panel.seeds)
        name = setting_name(panel.model, stated_epsilon(panel))
        settings.append(Setting(name, panel, runs[start:end]))
        start = end
    return settings


def _runs_by_split(settings: Sequence[Setting]) -> dict[SplitName, list[int]]:
    positions: dict[SplitName, list[int]] = {}
    position = 0
    for setting in settings:
        for run in setting.runs:
            positions.setdefault(run.split, []).append(position)
            position += 1
    return positions


def _sizes(by_setting: Sequence[Panel]) -> SplitCounts | None:
    """(run, group, 1) records of both parts."""
    if not all(panel.has_sizes for panel in by_setting):
        return None
    train = np.concatenate([panel.n_train for panel in by_setting])
    test = np.concatenate([panel.n_test for panel in by_setting])
    return SplitCounts(train[:, :, None], test[:, :, None])


def _cells(by_setting: Sequence[Panel]) -> FloatArray | None:
    """Confusion tables (part, label, predicted, run, group) of training and test."""
    tables = []
    for panel in by_setting:
        if panel.train is not None and panel.test is not None:
            parts = (panel.train, panel.test)
            tables.append([[[part.tn, part.fp], [part.fn, part.tp]] for part in parts])
    return np.asarray(np.concatenate(tables, axis=3)) if tables else None


def _effective_units(release: Release) -> FloatArray | None:
    units = release.training.effective_units
    names = release.subject.groups
    if units is None or not all(name in units for name in names):
        return None
    return np.array([float(units[name]) for name in names])


def _inflation(
    release: Release, sizes: SplitCounts | None, effective_units: FloatArray | None
) -> FloatArray | None:
    """Records over effective units; 1 where the unit of the split is the record."""
    if release.training.unit_of_split in (None, RECORD):
        return np.ones(len(release.subject.groups))
    if effective_units is None or sizes is None:
        return None
    records = sizes.total[0].sum(axis=1)
    return np.asarray(np.maximum(1.0, records / effective_units))


def named_cuts(arrays: ReleaseArrays) -> SplitCounts | None:
    """Every split once, by name; runs without a name count as one split.

    By group and label if some run of each split gives its labels, else by group alone;
    None without sizes.
    """
    by_name = arrays.runs_by_split.values()
    if arrays.labelled is not None:
        train = [_first_known(arrays.labelled.train[runs]) for runs in by_name]
        test = [_first_known(arrays.labelled.test[runs]) for runs in by_name]
        cuts = SplitCounts(np.stack(train), np.stack(test))
        if np.isfinite(cuts).all():
            return cuts
    if arrays.sizes is None:
        return None
    return arrays.sizes.only([runs[0] for runs in by_name])


def _first_known(table: FloatArray) -> FloatArray:
    """Each group's first whole row among runs of one split (run, group, label)."""
    first = np.isfinite(table).all(axis=2).argmax(axis=0)
    return np.asarray(table[first, np.arange(len(first))])


class CorrectRecords(NamedTuple):
    """What one run of each split gets right in one setting; the names of the splits."""

    setting: str
    strata: Strata
    splits: list[SplitName]


class Splits:
    """The distinct splits of a release.

    Names that are, beyond chance, one split count once (``repeats``, by position);
    ``names``, ``cuts`` and ``measured`` are of the splits that are left.
    """

    def __init__(
        self, arrays: ReleaseArrays, cuts: SplitCounts, variance_inflation: FloatArray
    ) -> None:
        names = list(arrays.runs_by_split)
        self.arrays = arrays
        self.variance_inflation = variance_inflation
        self.stratified_by: StratifiedBy = (
            arrays.release.training.stratified_by or "nothing"
        )
        chance = _chance_of_repeats(cuts, self.stratified_by, variance_inflation)
        self.repeats_p = max(SMALLEST_P, chance)  # of so many that are an earlier one
        is_beyond_chance = self.repeats_p <= SHARE_OF_REPEATS * LEVEL
        self.repeats = hypergeometric.repeats(cuts) if is_beyond_chance else {}
        left = [split for split in range(len(names)) if split not in self.repeats]
        self.names = [names[split] for split in left]
        self.cuts = cuts.only(left)
        every = [_correct_records(setting) for setting in arrays.settings]
        self.measured = [correct for correct in every if correct.splits]


def _chance_of_repeats(
    cuts: SplitCounts, stratified_by: StratifiedBy, variance_inflation: FloatArray
) -> float:
    """Chance of so many splits that cut all groups and labels as an earlier one does.

    Whole people are of one group, but a person's records may have any labels: where
    each has one of both, labels add no way to cut a group. So of clumps the chance is
    that of groups alone, which is at least that of groups and labels.
    """
    strata = _strata_of_repeats(cuts, stratified_by)
    if (variance_inflation == 1).all() or not hypergeometric.repeats(cuts):
        return hypergeometric.chance_of_repeats(cuts, strata, variance_inflation)
    groups = SplitCounts(*[part.sum(axis=2, keepdims=True) for part in cuts])
    by_group: StratifiedBy = "group" if strata in ("group", "both") else "nothing"
    return hypergeometric.chance_of_repeats(groups, by_group, variance_inflation)


def _strata_of_repeats(cuts: SplitCounts, stratified_by: StratifiedBy) -> StratifiedBy:
    """Within which strata repeats are tested: within what happens to be balanced.

    Given its numbers in the strata a random split is random within them.
    """
    rounded: tuple[StratifiedBy, ...] = ("label", "group")
    if stratified_by == "nothing" and cuts.has_labels:
        for strata in rounded:
            if hypergeometric.is_rounded(cuts, strata):
                return strata
    return stratified_by


def _correct_records(setting: Setting) -> CorrectRecords:
    """The lowest-numbered seed is a split's run, if it has every group's accuracy."""
    panel = setting.panel
    strata = strata_of(panel)
    n = panel.n_train
    if panel.train is not None and panel.test is not None:
        n = panel.train.n + panel.test.n
    numbers = strata.hits + strata.correct + n
    is_known = np.asarray(np.isfinite(numbers).all(axis=(0, 2)))
    runs = [run for run in lowest_seeds(panel.split).tolist() if is_known[run]]
    of_runs = Strata(*[part[:, runs] for part in strata])
    splits = [setting.runs[run].split for run in runs]
    return CorrectRecords(setting.name, of_runs, splits)
