"""What does a release declare, and what are its counts, as arrays over runs and splits?"""

from __future__ import annotations

import math
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
from pcer.wording import setting_name

# Probability that a release with true declarations is contradicted, over all checks.
LEVEL: Final = 0.01
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


def is_random(release: Release) -> bool:
    """Whether the split is declared random, which every test of an audit needs."""
    return release.training.split_kind == "random"


def stated_epsilon(panel: Panel) -> float | None:
    """The budget as files have it: None without differential privacy."""
    return None if math.isinf(panel.epsilon) else panel.epsilon


class Setting(NamedTuple):
    """One setting of a release; its runs in the order of the panel's seeds."""

    name: str
    panel: Panel
    runs: list[Run]


class Facts:
    """What a release declares, and its counts as arrays over the runs of all settings."""

    def __init__(self, release: Release) -> None:
        by_setting = panels(release)
        units = release.training.effective_units
        runs = iter(
            sorted(
                release.runs, key=lambda run: (run.model or "", run.budget, run.seed)
            )
        )
        self.release = release
        self.groups = tuple(release.subject.groups)
        self.settings = [
            Setting(
                setting_name(p.model, stated_epsilon(p)),
                p,
                [next(runs) for _ in p.seeds],
            )
            for p in by_setting
        ]
        # Positions of the runs of each split, splits in the order they first occur.
        self.runs_by_split: dict[SplitName, list[int]] = {}
        for k, run in enumerate(
            run for setting in self.settings for run in setting.runs
        ):
            self.runs_by_split.setdefault(run.split, []).append(k)
        self.sizes: SplitCounts | None = (
            None  # without labels; None where some are not released
        )
        if all(panel.has_sizes for panel in by_setting):
            parts = (
                [panel.n_train for panel in by_setting],
                [panel.n_test for panel in by_setting],
            )
            self.sizes = SplitCounts(
                *(np.concatenate(part)[:, :, None] for part in parts)
            )
        # Tables (part, label, predicted, run, group), NaN where one has no counts; None
        # without.
        self.cells: FloatArray | None = None
        self.labelled: SplitCounts | None = None  # of them, by label alone
        if tables := [
            [[[part.tn, part.fp], [part.fn, part.tp]] for part in (p.train, p.test)]
            for p in by_setting
            if p.train is not None and p.test is not None
        ]:
            self.cells = np.concatenate(tables, axis=3)
            self.labelled = SplitCounts(*self.cells.sum(axis=2).transpose(0, 2, 3, 1))
        # Whether the epsilon is that of the unit that splits exchange.
        protected = (None, RECORD, release.subject.unit_of_privacy)
        self.protects_unit = release.training.unit_of_split in protected
        self.effective_units: FloatArray | None = None
        if units is not None and all(name in units for name in self.groups):
            self.effective_units = np.array(
                [float(units[name]) for name in self.groups]
            )
        # N / effective units of each group, which multiplies its variance; None where
        # not known.
        self.inflation: FloatArray | None = None
        if release.training.unit_of_split in (None, RECORD):
            self.inflation = np.ones(len(self.groups))
        elif self.effective_units is not None and self.sizes is not None:
            records = self.sizes.total[0].sum(axis=1)
            self.inflation = np.maximum(1.0, records / self.effective_units)


class Splits:
    """The distinct splits of a release; names that are one split beyond chance count once."""

    def __init__(self, facts: Facts, cuts: SplitCounts, inflation: FloatArray) -> None:
        names = list(facts.runs_by_split)
        repeats = hypergeometric.repeats(cuts)
        self.facts = facts
        self.inflation = inflation
        self.stratified_by = strata = facts.release.training.stratified_by or "nothing"
        if strata == "nothing" and cuts.has_labels:
            # Given its numbers in the strata a random split is random within them, so
            # repeats can always be tested within what happens to be balanced.
            rounded: tuple[StratifiedBy, ...] = ("label", "group")
            strata = next(
                (by for by in rounded if hypergeometric.is_rounded(cuts, by)), strata
            )
        self.repeats_p = max(
            SMALLEST_P, hypergeometric.chance_of_repeats(cuts, strata, inflation)
        )
        # Splits that are, beyond chance, an earlier one; by position.
        self.repeats = repeats if self.repeats_p <= SHARE_OF_REPEATS * LEVEL else {}
        kept = [s for s in range(len(names)) if s not in self.repeats]
        self.names = [names[split] for split in kept]
        self.cuts = cuts.only(kept)
        # Settings, the correct records of one run for each of their splits, and names
        # of these.
        self.measured = [row for row in map(_correct_records, facts.settings) if row[2]]


def named_cuts(facts: Facts) -> SplitCounts | None:
    """Every split once, by name; runs without a name count as one split.

    None without sizes.

    By group and label if some run of each split gives its labels, else by group alone.
    """
    by_name = facts.runs_by_split.values()
    cuts = []
    for part in facts.labelled or ():
        tables = [part[runs] for runs in by_name]
        first = [
            np.isfinite(table).all(axis=2).argmax(axis=0) for table in tables
        ]  # by group
        rows = zip(tables, first, strict=True)
        cuts.append(np.stack([table[row, np.arange(len(row))] for table, row in rows]))
    if cuts and np.isfinite(cuts).all():
        return SplitCounts(*cuts)
    return (
        None if facts.sizes is None else facts.sizes.only([runs[0] for runs in by_name])
    )


def _correct_records(setting: Setting) -> tuple[str, Strata, list[SplitName]]:
    """The lowest-numbered seed represents its split, if it has the accuracy of every group."""
    panel = setting.panel
    strata = strata_of(setting.panel)
    n = (
        panel.n_train
        if panel.train is None or panel.test is None
        else panel.train.n + panel.test.n
    )
    is_known = np.asarray(
        np.isfinite(strata.hits + strata.correct + n).all(axis=(0, 2))
    )
    runs = [run for run in lowest_seeds(panel.split).tolist() if is_known[run]]
    names = [setting.runs[run].split for run in runs]
    return setting.name, Strata(*(part[:, runs] for part in strata)), names


SHARE_OF_REPEATS: Final = 0.37


def split_words(name: SplitName) -> str:
    """A split as part of a sentence."""
    return "the unnamed split" if name is None else f"split {name!r}"
