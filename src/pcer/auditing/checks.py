"""Checks of a release: do its own numbers contradict what it declares?

Every test of an audit rests on what the trainer says: the split was random, records were what was
split, these names are different splits. Counts can contradict it. Contradictions in logic need no
chance; all others share one level per release, so that a true release is rarely accused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pcer.auditing import hypergeometric
from pcer.auditing.exact import PLAIN_MEAN, SMALLEST_P, Strata, dispersion, lowest_seeds
from pcer.auditing.file import DeclarationFinding
from pcer.auditing.hypergeometric import SplitCounts
from pcer.auditing.measure import strata_of
from pcer.auditing.words import listed, setting_name
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import Release, panels
from pcer.release.disclosure import LEAST_PEOPLE, given_away
from pcer.release.format import Run, StratifiedBy
from pcer.release.panel import Panel
from pcer.release.proxies import proxy_named
from pcer.statistics import holm

# Chance that a release whose declarations are true is contradicted, over all checks.
LEVEL: Final = 0.01
FINEST_DECIMALS: Final = 7
SINGLE_PRECISION: Final = 1e-7
# What a rate may have lost where it was computed in single, or in double precision.
DOUBLE_PRECISION: Final = 1e-12
# People in the third largest cell of a table, below which equal tables say little.
LEAST_RICH: Final = 5
ROUNDED: Final = 1e-6  # share by which numbers of one file may differ and still be the same
# Standard errors by which the quick attack on placebo groups may differ from the exact one.
MOST_OFF: Final = 0.5
LEAST_EXACT: Final = 5  # placebo groups to be attacked exactly before that can be told
MOST_NAMED: Final = 5  # things that are missing, in a sentence
MOST_GROUPS: Final = 3  # small groups that are named in a sentence
RECORD: Final = "record"
LABELS: Final = ("negative label", "positive label")

# As the file has it: 1 and "1" are two names, None is no name.
SplitName: TypeAlias = str | int | None


class Finding(NamedTuple):
    """A sentence: what the release says, what its numbers say against it, and what to change.

    The p-value is adjusted within the check, None where logic decides. What caps the verdict leaves
    the audit's tests without ground; None: as the check has it.
    """

    sentence: str
    p_value: float | None = None
    caps_verdict: bool | None = None


class Check(NamedTuple):
    """A name as in ``declarations[].check``, and a test of ``Facts`` or, by chance, of ``Splits``.

    ``shares`` are those of ``LEVEL``, with one split and with several; None where logic decides.
    """

    name: str
    test: Callable[..., Iterable[Finding]]
    shares: tuple[float, float] | None = None
    caps_verdict: bool = True


def check_release(release: Release) -> list[DeclarationFinding]:
    """Everything the numbers say against what is declared; nothing for most releases.

    Logic is always checked. Chance is only where the split is declared random, sizes are
    released, and the effective number of units is known; all of it at ``LEVEL`` together.
    """
    facts, rows = release.kept(Facts), list[tuple[Check, Finding, float]]()
    cuts, inflation, splits = _named_cuts(facts), facts.inflation, None
    if is_random(release) and cuts is not None and inflation is not None:
        splits = Splits(facts, cuts, inflation)
    for check in CHECKS:
        if check.shares is None:
            rows += [(check, finding, 1.0) for finding in check.test(facts)]
        elif splits is not None:
            share = check.shares[len(facts.runs_by_split) > 1]
            rows += [(check, finding, share) for finding in check.test(splits, share * LEVEL)]
    return [
        DeclarationFinding(
            check=check.name,
            sentence=sentence,
            p_value=adjusted,
            p_value_alone=None if p is None else max(SMALLEST_P, float(p)),
            caps_verdict=check.caps_verdict if caps is None else caps,
        )
        for (check, (sentence, p, caps), _), adjusted in zip(
            rows, adjusted_over_checks(rows), strict=True
        )
    ]


def is_random(release: Release) -> bool:
    """Whether the split is declared random, which every test of an audit needs."""
    return release.training.split_kind == "random"


def stated_epsilon(panel: Panel) -> float | None:
    """The budget as files have it: None without differential privacy."""
    return None if math.isinf(panel.epsilon) else panel.epsilon


def variance_inflation(release: Release) -> FloatArray | None:
    """N / effective units of each group, which multiplies its variance; None where not known."""
    return release.kept(Facts).inflation


def adjusted_over_checks(rows: Sequence[tuple[Check, Finding, float]]) -> list[float | None]:
    """Each p-value adjusted over all checks: Holm's steps, weighted by the checks' shares.

    Held against ``LEVEL``. The first step divides by the check's share of the level; what was
    found before leaves its share to the others. A row is a check, its finding and its share.
    """
    adjusted: list[float | None] = [None] * len(rows)
    weighed = {
        k: max(SMALLEST_P, finding.p_value) / share
        for k, (_, finding, share) in enumerate(rows)
        if finding.p_value is not None
    }
    left, largest, open_to = 1.0, 0.0, dict[str, float]()
    for k in sorted(weighed, key=lambda k: weighed[k]):
        name, share = rows[k][0].name, rows[k][2]
        if name not in open_to:
            open_to[name], left = left, max(0.0, left - share)
        adjusted[k] = largest = max(largest, min(1.0, weighed[k] * open_to[name]))
    return adjusted


# What the checks read


class Setting(NamedTuple):
    """One setting of a release; its runs in the order of the panel's seeds."""

    name: str
    panel: Panel
    runs: list[Run]


class Facts:
    """What a release declares, and its counts as arrays over the runs of all settings."""

    def __init__(self, release: Release) -> None:
        by_setting, units = panels(release), release.training.effective_units
        runs: dict[tuple[str | None, float], list[Run]] = {}
        for run in sorted(release.runs, key=lambda run: run.seed):
            runs.setdefault((run.model, run.budget), []).append(run)
        self.release, self.groups = release, tuple(release.subject.groups)
        self.settings = [
            Setting(setting_name(p.model, stated_epsilon(p)), p, runs[p.model, p.epsilon])
            for p in by_setting
        ]
        # Positions of the runs of each split, splits in the order they first occur.
        self.runs_by_split = _positions([run.split for s in self.settings for run in s.runs])
        self.sizes: SplitCounts | None = None  # without labels; None where some are not released
        if all(panel.has_sizes for panel in by_setting):
            parts = [panel.n_train for panel in by_setting], [panel.n_test for panel in by_setting]
            self.sizes = SplitCounts(*(np.concatenate(part)[:, :, None] for part in parts))
        self.labelled: SplitCounts | None = None  # NaN where a table has no labels
        if tables := _tables_by_label(by_setting):
            self.labelled = SplitCounts(*map(np.concatenate, zip(*tables, strict=True)))
        self.effective_units: FloatArray | None = None
        if units is not None and all(name in units for name in self.groups):
            self.effective_units = np.array([float(units[name]) for name in self.groups])
        self.inflation: FloatArray | None = None
        if release.training.unit_of_split in (None, RECORD):
            self.inflation = np.ones(len(self.groups))
        elif self.effective_units is not None and self.sizes is not None:
            records = self.sizes.total[0].sum(axis=1)
            self.inflation = np.maximum(1.0, records / self.effective_units)


def _tables_by_label(by_setting: Sequence[Panel]) -> list[list[FloatArray]]:
    """For every setting, records (run, group, label) of both parts; empty without counts."""
    return [
        [np.stack([part.tn + part.fp, part.tp + part.fn], axis=2) for part in (p.train, p.test)]
        for p in by_setting
        if p.train is not None and p.test is not None
    ]


def _positions(names: Sequence[SplitName]) -> dict[SplitName, list[int]]:
    positions: dict[SplitName, list[int]] = {}
    for k, name in enumerate(names):
        positions.setdefault(name, []).append(k)
    return positions


class Splits:
    """The distinct splits of a release: where names are one split beyond chance, every cut once.

    What chance is asked about; ``measured`` are settings with the correct records of one run for
    each of their splits, and their names.
    """

    def __init__(self, facts: Facts, cuts: SplitCounts, inflation: FloatArray) -> None:
        names, first = list(facts.runs_by_split), hypergeometric.first_alike(cuts)
        self.facts, self.inflation = facts, inflation
        self.stratified_by = strata = facts.release.training.stratified_by or "nothing"
        if strata == "nothing" and cuts.has_labels:
            # Given its numbers in the strata a random split is random within them, so that judging
            # repeats within what happens to be balanced is always fair.
            rounded: tuple[StratifiedBy, ...] = ("label", "group")
            strata = next((by for by in rounded if hypergeometric.is_rounded(cuts, by)), strata)
        self.repeats_p = hypergeometric.chance_of_repeats(cuts, strata, inflation)
        self.repeats_p = max(SMALLEST_P, self.repeats_p)
        self.alike: tuple[SplitName, SplitName] | None = None  # of one split beyond chance
        kept = list(range(len(names)))
        if self.repeats_p <= SHARE_OF_REPEATS * LEVEL:
            self.alike, kept = _first_repeat(first, names), sorted(set(first))
        self.names, self.cuts = [names[split] for split in kept], cuts.only(kept)
        measured = map(_correct_records, facts.settings)
        self.measured = [row for row in measured if row[2]]


def _first_repeat(first: Sequence[int], names: Sequence[SplitName]) -> tuple[SplitName, SplitName]:
    """Names of a split and of the first that is cut alike; ``first_alike`` found some."""
    return next((names[k], names[split]) for split, k in enumerate(first) if k != split)


def _named_cuts(facts: Facts) -> SplitCounts | None:
    """Every split once, by name; runs without a name count as one split. None without sizes.

    By group and label if some run of each split gives its labels, else by group alone.
    """
    by_name, cuts = facts.runs_by_split.values(), []
    for part in facts.labelled or ():
        tables = [part[runs] for runs in by_name]
        first = [np.isfinite(table).all(axis=2).argmax(axis=0) for table in tables]  # by group
        rows = zip(tables, first, strict=True)
        cuts.append(np.stack([table[row, np.arange(len(row))] for table, row in rows]))
    if cuts and np.isfinite(cuts).all():
        return SplitCounts(*cuts)
    return None if facts.sizes is None else facts.sizes.only([runs[0] for runs in by_name])


def _correct_records(setting: Setting) -> tuple[str, Strata, list[SplitName]]:
    """The lowest-numbered seed speaks for its split, if it tells the accuracy of every group."""
    panel, strata = setting.panel, strata_of(setting.panel)
    n = panel.n_train if panel.train is None or panel.test is None else panel.train.n + panel.test.n
    is_known = np.asarray(np.isfinite(strata.hits + strata.correct + n).all(axis=(0, 2)))
    runs = [run for run in lowest_seeds(panel.split).tolist() if is_known[run]]
    names = [setting.runs[run].split for run in runs]
    return setting.name, Strata(*(part[:, runs] for part in strata)), names


# Logic: names, rates, copies, runs, promises, placebos, totals, units


def conflicting_names(facts: Facts) -> Iterator[Finding]:
    """One name, two cuts: the same split cannot have both."""
    tables = [table for table in (facts.labelled, facts.sizes) if table is not None]
    for name, runs in facts.runs_by_split.items():
        n_cuts = 1
        for table in tables:  # one that does not give every number is left out
            parts = np.stack(table, axis=1)[runs].reshape(len(runs), -1)
            n_cuts = max(n_cuts, len(np.unique(parts[np.isfinite(parts).all(axis=1)], axis=0)))
        ways = f"but they cut the groups in {n_cuts} different ways"
        if n_cuts > 1 and name is None:
            yield Finding(
                f"{len(runs)} runs name no split and count as one, {ways}; name the split of every "
                "run (runs[].split), so that each counts.",
                caps_verdict=False,
            )
        elif n_cuts > 1:
            yield Finding(
                f"{len(runs)} runs name split {name!r}, {ways}, and one split has one; give every "
                "split a name of its own."
            )


def broken_numbers(facts: Facts) -> Iterator[Finding]:
    """A share of n people is a whole number out of n."""
    for name, panel, _ in facts.settings:
        for what, value, n in (
            ("training accuracy", panel.train_accuracy, panel.n_train),
            ("test accuracy", panel.test_accuracy, panel.n_test),
            ("positive rate", panel.positive_rate, panel.n_test),
        ):
            if panel.train is None and (broken := not_whole(value, n)).any():
                run, group = np.argwhere(broken)[0]
                rate, people = value[run, group], n[run, group]
                yield Finding(
                    f"At {name} the {what} of group {facts.groups[group]!r} is {rate:.12g} of "
                    f"{people:,.0f} records, but that is {rate * people:.6g} records, no whole "
                    f"number within rounding (so for {int(broken.sum())} of {broken.size} such "
                    "rates); give every run its own rates, and the number of records they are of."
                )


def not_whole(value: FloatArray, n: FloatArray) -> BoolArray:
    """Where a rate, as finely as it is printed, is no whole number out of n.

    A rate that is not given, or not of a known number, is never at fault.

    >>> not_whole(np.array([0.67, 0.66, 0.6667]), np.array([3.0, 3.0, 4.0])).tolist()
    [False, True, True]
    """
    is_known = np.isfinite(value) & np.isfinite(n) & (n > 0)
    value, n = np.where(is_known, value, 0.0), np.where(is_known, n, 1.0)
    half_unit = np.full(value.shape, SINGLE_PRECISION)  # of the last decimal that is printed
    for decimals in range(FINEST_DECIMALS, 0, -1):
        is_printed = np.abs(value - np.round(value, decimals)) < DOUBLE_PRECISION
        half_unit[is_printed] = max(0.5 * 10.0**-decimals + DOUBLE_PRECISION, SINGLE_PRECISION)
    return np.asarray(is_known & (np.abs(value - np.rint(value * n) / n) > half_unit))


def copied_tables(facts: Facts) -> Iterator[Finding]:
    """Different seeds, and different settings, that have the same tables throughout."""
    first: dict[bytes, Setting] = {}
    for setting in facts.settings:
        name, panel, runs = setting
        if panel.train is None or panel.test is None:
            continue
        cells = np.stack([*panel.train, *panel.test])  # (cell of both parts, run, group)
        third = np.sort(cells.reshape(2, 4, *cells.shape[1:]), axis=1)[:, 1]
        if np.isnan(cells).any() or (third.max(axis=(0, 2)) < LEAST_RICH).any():
            continue  # models that say the same of everybody fill two cells: the labels
        by_split = _positions([run.split for run in runs]).values()
        several = [rows for rows in by_split if len(rows) > 1]
        if several and all((cells[:, rows] == cells[:, rows[:1]]).all() for rows in several):
            yield Finding(
                f"At {name} {len(runs)} models were trained with their own seeds, but those of one "
                "split have the same confusion tables to the last record; release a model once, "
                "and give every further one a split of its own."
            )
        earlier = first.setdefault(cells.tobytes(), setting)
        if earlier is not setting and earlier.panel.seeds == panel.seeds and len(runs) > 1:
            yield Finding(
                f"The settings {earlier.name} and {name} are said to be two, but all {len(runs)} "
                "of their runs have the same confusion tables to the last record; release every "
                "model under its own setting, once."
            )


def missing_runs(facts: Facts) -> Iterator[Finding]:
    """Seeds and splits that are left out, and settings with fewer runs than others."""
    for name, panel, runs in facts.settings:
        for what, numbers in (("seed", [*panel.seeds]), ("split", split_numbers(runs))):
            if gone := missing_numbers(numbers):
                several = "s {} are" if len(gone) > 1 else " {} is"
                yield Finding(
                    f"At {name} runs are numbered by {what} from {min(numbers)} to {max(numbers)}, "
                    f"but {what}{several.format(some_of(gone, MOST_NAMED))} missing; release every "
                    "run that was made, or say why one is left out (subject.notes)."
                )
                break
    most = max(len(runs) for _, _, runs in facts.settings)
    fewer = [f"{name} has {len(runs)}" for name, _, runs in facts.settings if len(runs) < most]
    if fewer:
        yield Finding(
            f"The release holds up to {most} runs for a setting, but {some_of(fewer, MOST_NAMED)}; "
            "release as many for each, or say why runs are left out (subject.notes)."
        )


def missing_numbers(numbers: Iterable[int]) -> list[int]:
    """Numbers left out of a series; none where fewer than half are there, which is no series.

    >>> missing_numbers([0, 1, 3, 4]), missing_numbers([7, 1234])
    ([2], [])
    """
    given = set(numbers)
    if len(given) < 2 or max(given) - min(given) + 1 > 2 * len(given):
        return []
    return [k for k in range(min(given), max(given) + 1) if k not in given]


def split_numbers(runs: Sequence[Run]) -> list[int]:
    """Numbers of splits that are named by numbers behind one word ("split 1"); else none."""
    matches = [re.fullmatch(r"(\D*)(\d{1,9})", str(run.split)) for run in runs]
    numbered = [match for match in matches if match]
    is_series = len(numbered) == len(runs) and len({match[1] for match in numbered}) == 1
    return [int(match[2]) for match in numbered] if is_series else []


def some_of(names: Sequence[object], most: int) -> str:
    """Names in a sentence: so many, and how many more there are."""
    more = f" (and {len(names) - most} more)" if len(names) > most else ""
    return listed([*map(str, names[:most])]) + more


def broken_promises(facts: Facts) -> Iterator[Finding]:
    """Everything that contradicts an epsilon. None of it touches the tests of the audit."""
    training = facts.release.training
    private = [setting for setting in facts.settings if math.isfinite(setting.panel.epsilon)]
    if private and training.mechanism == "none":
        yield Finding(
            f'The release promises {private[0].name}, but the mechanism is said to be "none"; name '
            "the mechanism (training.mechanism), or write null for a model without privacy."
        )
    for name, panel, runs in private:
        promise = f"The release promises {name}"
        if any(run.noise_multiplier == 0 for run in runs):
            yield Finding(
                f"{promise}, but the noise multiplier is 0, with which no epsilon holds; state the "
                "noise that was added, or write null for a model without privacy."
            )
        # The most that a run spent, by the accountant that the config names or the kindest.
        spent: dict[str, float] = {}
        for own in (run.epsilon_by_accountant or {} for run in runs):
            spent |= {name: max(own[name], spent.get(name, 0.0)) for name in own}
        named = (training.config or {}).get("accountant")
        by, most = min(spent.items(), key=lambda row: (row[0] != named, row[1]), default=("", 0.0))
        if most > panel.epsilon * (1 + ROUNDED):
            yield Finding(
                f"{promise}, but by its own accountant ({by}) the training spent {most:.4g}; state "
                "the epsilon that was spent."
            )
        n_train = float(panel.n_train.sum(axis=1).max())
        people = n_train if math.isfinite(n_train) else facts.release.subject.n_records
        delta = max(run.dp_delta or 0.0 for run in runs)
        if people and delta > (1 + ROUNDED) / people:
            yield Finding(
                f"{promise} at delta {delta:g}, but that is more than one over the {people:,.0f} "
                "records it was trained on, with which a mechanism may publish somebody's record "
                "whole; state an epsilon at a smaller delta."
            )


def far_placebos(facts: Facts) -> Iterator[Finding]:
    """Placebo groups whose quick attack is far from the exact one cannot vouch for alarms."""
    checked = [row for row in facts.release.placebo if (row.n_exact or 0) >= LEAST_EXACT]
    far = [row for row in checked if (row.exact_difference or 0.0) > MOST_OFF]
    if far:
        row = max(far, key=lambda row: row.exact_difference or 0.0)
        yield Finding(
            f"At {setting_name(row.model, row.epsilon)} made-up groups were put through a quick "
            f"form of {proxy_named(row.proxy).phrase}, but where {row.n_exact} of them met the "
            f"attack itself, their differences were {row.exact_difference:.2g} standard errors "
            f"away on average, and {MOST_OFF:g} is allowed (so for {len(far)} of {len(checked)} "
            "such checks); hold alarms about exposure by this attack against paired confidence."
        )


def changed_totals(facts: Facts) -> Iterator[Finding]:
    """One data set has one number of records, in all and of every group and label."""
    if not is_random(facts.release) or (sizes := facts.sizes) is None:
        return
    subject = facts.release.subject
    n_records, missing = subject.n_records, subject.n_missing_group
    in_all = sizes.total.sum(axis=(1, 2))
    if n_records is not None:
        # The run with most records has all but those without a group.
        too_few = missing is not None and in_all.max() < n_records - missing
        if in_all.max() > n_records or too_few:
            without = f", {missing:,} of them in no group" if missing else ""
            yield Finding(
                f"The release is said to be of {n_records:,} records{without}, but its tables add "
                f"up to {in_all.max():,.0f}; correct subject.n_records and "
                "subject.n_missing_group, or the tables."
            )
    total = (facts.labelled or sizes).total
    for n in np.unique(in_all):
        same = total[in_all == n]  # a run's unknown cells are never at fault
        lowest, highest = (np.nan_to_num(f.reduce(same, axis=0)) for f in (np.fmin, np.fmax))
        if (lowest < highest).any():
            group, label = np.argwhere(lowest < highest)[0]
            what = f" with a {LABELS[label]}" if total.shape[2] > 1 else ""
            # Caps where every run is said to use every record that has a group.
            caps = n_records is not None and (in_all == n_records - (missing or 0)).all()
            yield Finding(
                f"All runs are of the same records, but group {facts.groups[group]!r} has "
                f"{lowest[group, label]:,.0f} records{what} in one run and "
                f"{highest[group, label]:,.0f} in another; release runs of other records as a "
                "release of their own, or say in subject.n_records of how many records every run "
                "uses a part.",
                caps_verdict=bool(caps),
            )
            return


def unit_without_number(facts: Facts) -> Iterator[Finding]:
    """Units that are not records need their effective number in every group."""
    unit = facts.release.training.unit_of_split
    sizes, effective = facts.sizes, facts.effective_units
    if not is_random(facts.release) or unit in (None, RECORD) or sizes is None:
        return
    if effective is None:
        yield Finding(
            f"The unit of the split is the {unit}, but the release does not say how many of them "
            "each group's records come from; give each group's effective number "
            "(training.effective_units): (Σm)²/Σm² over its units of m records."
        )
        return
    records = sizes.total[0].sum(axis=1)
    for g in np.flatnonzero(effective > records * (1 + SINGLE_PRECISION)):
        yield Finding(
            f"Group {facts.groups[g]!r} is said to be worth {effective[g]:,.6g} units ({unit}), "
            f"but it has only {records[g]:,.0f} records; give Kish's effective number, "
            "(Σm)²/Σm² over units of m records."
        )


# Chance: repeated splits, repeated tables, balance, mixes, spreads, signs


def repeated_splits(splits: Splits, level: float) -> Iterator[Finding]:
    """Different random splits rarely cut every group and label alike."""
    if splits.alike is not None and splits.repeats_p <= level:
        n, (first, second) = len(splits.names), splits.alike
        yield Finding(
            f"The release names {len(splits.facts.runs_by_split)} different random splits, but "
            f"they cut the groups and labels in only {n} way{'s' if n > 1 else ''} ({first!r} and "
            f"{second!r} alike), which has chance {_chance(splits.repeats_p)}; give one split one "
            "name, or declare training.stratified_by if groups and labels were balanced.",
            splits.repeats_p,
        )


def repeated_tables(splits: Splits, level: float) -> Iterator[Finding]:
    """Different splits rarely give the same confusion tables, even where they cut groups alike.

    A model that is the same in all splits has the most equal ones: given its right and wrong
    records, those in training are hypergeometric within each label and group.
    """
    if splits.alike is not None or not splits.measured:
        return
    every, p_values = [], []
    for _, strata, _ in splits.measured:
        by_split = (np.moveaxis(part, 1, 0).reshape(part.shape[1], -1) for part in strata)
        total, trained, correct, hits = by_split
        train = np.stack([trained - hits, hits], axis=2)
        every.append(SplitCounts(train, np.stack([total - correct, correct], axis=2) - train))
        inflation = np.tile(splits.inflation, len(strata.total))
        p_values.append(hypergeometric.chance_of_repeats(every[-1], "group", inflation))
    adjusted = holm(np.array(p_values))
    for (name, _, names), p, tables in zip(splits.measured, adjusted, every, strict=True):
        if p <= level:
            repeat = _first_repeat(hypergeometric.first_alike(tables), names)
            alike = [_split_words(split) for split in repeat]
            yield Finding(
                f"At {name} every split is said to be another random one, but models of "
                f"{listed(alike)} have the same confusion tables to the last record, which has "
                f"chance {_chance(p)}; release the tables that each model gave.",
                p,
            )


def balance(splits: Splits, level: float) -> Iterator[Finding]:
    """Declared strata must be balanced, and others may not be so in every split.

    Units of several records cannot be divided to the last one, so of those nothing is asked; nor
    of labels where records without a group, or without labels, may balance the others.
    """
    facts, cuts, strata = splits.facts, splits.cuts, splits.stratified_by
    subject, sizes = facts.release.subject, facts.sizes
    if facts.release.training.unit_of_split not in (None, RECORD):
        return
    if strata == "nothing":
        yield from _undeclared_balance(splits, level)
        return
    n_missing = subject.n_missing_group
    if n_missing is None and subject.n_records is not None and sizes is not None:
        n_missing = subject.n_records - int(sizes.total[0].sum())
    if strata != "label" or (cuts.has_labels and n_missing == 0):
        missed, allowed = hypergeometric.misses(cuts, strata)
        if (missed > allowed).any():
            s, stratum = np.unravel_index(int((missed - allowed).argmax()), missed.shape)
            by = "label and group" if strata == "both" else strata
            yield Finding(
                f"The split is said to be balanced by {by}, but {_split_words(splits.names[s])} "
                f"misses the training share of {_stratum_words(splits, int(stratum))} by "
                f"{missed[s, stratum]:,.0f} records, which rounding cannot; declare what the split "
                "was balanced on."
            )


def _undeclared_balance(splits: Splits, level: float) -> Iterator[Finding]:
    cuts = splits.cuts
    possible: tuple[StratifiedBy, ...] = ("label", "group") if cuts.has_labels else ("group",)
    p_values = {
        strata: min(1.0, len(possible) * hypergeometric.chance_rounded(cuts, strata))
        for strata in possible
        if hypergeometric.is_rounded(cuts, strata)
    }
    balanced = [strata for strata, p in p_values.items() if p <= level]
    if balanced:
        p = max(p_values[strata] for strata in balanced)
        is_denied = splits.facts.release.training.stratified_by is not None
        silent = "The release does not say what its random splits were balanced on"
        yield Finding(
            f"{'The split is said to be balanced on nothing' if is_denied else silent}, but all "
            f"{len(cuts.train)} are balanced by {' and '.join(balanced)} to the last record, which "
            f"has chance {_chance(p)}; declare training.stratified_by "
            f'"{balanced[0] if len(balanced) == 1 else "both"}".',
            p,
            caps_verdict=is_denied,
        )


def _stratum_words(splits: Splits, stratum: int) -> str:
    strata, n_labels = splits.stratified_by, splits.cuts.train.shape[2]
    if strata == "label":
        return f"the {LABELS[stratum]}"
    group, label = divmod(stratum, 1 if strata == "group" else n_labels)
    name = f"group {splits.facts.groups[group]!r}"
    return name if strata == "group" or n_labels == 1 else f"{name} with the {LABELS[label]}"


def label_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts have the same mix of labels in every group, but for luck."""
    cuts, strata = splits.cuts, splits.stratified_by
    if cuts.has_labels and strata != "both":
        chances = hypergeometric.label_chances(cuts, strata, splits.inflation)
        shares = [100 * part[:, :, -1] / np.maximum(part.sum(axis=2), 1) for part in cuts]
        counted = (
            "{:.1f} % of the training records of group {group!r} have a positive label in {split} "
            "and {:.1f} % of its test records"
        )
        yield from _drifts(splits, chances, level, shares, counted)


def group_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts take the same share of every group, but for luck.

    Balanced by label, groups are part of the label mix, unless labels are not released.
    """
    cuts, strata = splits.cuts, splits.stratified_by
    if strata == "nothing" or (strata == "label" and not cuts.has_labels):
        chances = hypergeometric.group_chances(cuts, float(splits.inflation.max()))
        shares = [100 * part.sum(axis=2) / part.sum(axis=(1, 2))[:, None] for part in cuts]
        counted = (
            "group {group!r} is {:.1f} % of the training records in {split} and {:.1f} % of the "
            "test records"
        )
        yield from _drifts(splits, chances, level, shares, counted)


def _drifts(
    splits: Splits,
    chances: Sequence[FloatArray],
    level: float,
    shares: Sequence[FloatArray],
    counted: str,
) -> Iterator[Finding]:
    n, independent = len(splits.names), hypergeometric.n_fold_sets(splits.cuts) == 0
    combined = [hypergeometric.combine(own, independent=independent) for own in chances]
    p_values, over = holm(np.array(combined)), f" over {n} splits" if n > 1 else ""
    for g in np.flatnonzero(p_values <= level).tolist():
        p, s = float(p_values[g]), int(chances[g].argmin()) * n // len(chances[g])  # worst split
        where = {"group": splits.facts.groups[g], "split": _split_words(splits.names[s])}
        yield Finding(
            "The split is said to be random, but "
            f"{counted.format(*(part[s, g] for part in shares), **where)}, which has chance "
            f'{_chance(p)}{over}; declare training.split_kind "other" if the parts differ by time '
            "or place, or training.unit_of_split if records of one person were kept together.",
            p,
        )


def overdispersion(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracy differences that vary more over splits than random splits of such units do.

    Models that memorise unequally spread too: where the mean is plain, that explains it. Folds of
    one set repel each other: K of them spread K / (K - 1) times as much.
    """
    n, sets = len(splits.cuts.train), hypergeometric.n_fold_sets(splits.cuts)
    inflation = splits.inflation * (n / (n - sets))
    several = [(name, strata) for name, strata, names in splits.measured if len(names) > 1]
    spreads = [dispersion(strata, inflation=inflation) for _, strata in several]
    if not spreads:
        return
    is_plain = np.stack([spread.mean_p_value for spread in spreads]) < PLAIN_MEAN
    p_values = holm(np.where(is_plain, 1, np.stack([spread.p_value for spread in spreads])))
    for k, g in np.argwhere(p_values <= level):
        name, strata = several[k]
        unit = splits.facts.release.training.unit_of_split or RECORD
        yield Finding(
            f"The unit of the split is said to be the {unit}, but at {name} the accuracy "
            f"difference of group {splits.facts.groups[g]!r} varies more over "
            f"{strata.total.shape[1]} splits than such splits allow (chance "
            f"{_chance(p_values[k, g])}); declare training.unit_of_split and "
            "training.effective_units if records of one person, household or place were kept "
            "together.",
            p_values[k, g],
        )


def below_zero(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracies that are far lower in training than out of it.

    Memory only raises them, so the lower tail of the Mantel-Haenszel test needs no more than a
    random split.
    """
    tails = [
        hypergeometric.lower_tails(strata, splits.inflation) for _, strata, _ in splits.measured
    ]
    p_values = holm(np.array(tails))
    if (p_values <= level).any():
        k, g = np.unravel_index(int(np.nanargmin(p_values)), p_values.shape)
        yield Finding(
            f"The split is said to be random, but at {splits.measured[k][0]} the models are less "
            f"often right about group {splits.facts.groups[g]!r} in training than out of it, by "
            f"more than chance gives (chance {_chance(p_values[k, g])}), and memory only adds; "
            "check that the parts are not exchanged, and that the tables are of the same models.",
            p_values[k, g],
        )


SHARE_OF_REPEATS: Final = 0.37
# Every check, in the order in which findings are told. With one split most of the level goes to the
# drift of a group's labels, of which it gives the least evidence. Drift is plain from two splits
# on; two names for one split of small groups are not. What an invented number gives away is plainer
# still, so those checks need little.
CHECKS: Final = (
    Check("split_names", conflicting_names),
    Check("whole_numbers", broken_numbers),
    Check("same_tables", copied_tables, caps_verdict=False),
    Check("missing_runs", missing_runs, caps_verdict=False),
    Check("epsilon", broken_promises, caps_verdict=False),
    Check("placebo_exact", far_placebos, caps_verdict=False),
    Check("totals", changed_totals),
    Check("unit_of_split", unit_without_number),
    Check("split_names", repeated_splits, shares=(0.0, SHARE_OF_REPEATS)),
    Check("same_tables", repeated_tables, shares=(0.0, 0.01)),
    Check("stratified_by", balance, shares=(0.02, 0.05)),
    Check("label_mix", label_mix, shares=(0.95, 0.43)),
    Check("group_mix", group_mix, shares=(0.02, 0.05)),
    Check("dispersion", overdispersion, shares=(0.0, 0.08)),
    Check("below_zero", below_zero, shares=(0.01, 0.01)),
)


def _chance(p: float) -> str:
    return f"below {SMALLEST_P:g}" if p <= SMALLEST_P else f"{p:.2g}"


def _split_words(name: SplitName) -> str:
    return "the unnamed split" if name is None else f"split {name!r}"


# What a release gives away about single people, whoever wrote it


def disclosed(release: Release) -> Iterator[str]:
    """Sentences about small cells and certain memberships; none for public or coarse records."""
    by_setting, stated = panels(release), release.disclosure
    tables = _tables_by_label(by_setting)
    if not tables or (stated is not None and stated.public_data):
        return
    few = (np.concatenate([part for parts in tables for part in parts]) < LEAST_PEOPLE).any((0, 2))
    if small := [release.subject.groups[g] for g in np.flatnonzero(few)]:
        more = f" and {len(small) - MOST_GROUPS} more" if len(small) > MOST_GROUPS else ""
        yield (
            f"This file rests on few people: fewer than {LEAST_PEOPLE} of one label in training or "
            f"in test in {', '.join(small[:MOST_GROUPS])}{more}; who knows a person's label and "
            "prediction can often tell whether they were in training."
        )
    given = [given_away(_five_way(panel)) for panel in by_setting]
    memberships = sum(s.memberships for s in given)
    if memberships:
        yield (
            f"To someone who knows their label and prediction it tells with certainty whether "
            f"people were in training: up to {max(s.most_in_one_model for s in given):,} "
            f"people in one model, {memberships:,} times over all models."
        )
    # What the file itself says of certain memberships is not believed.
    if stated is not None and stated.memberships is not None and stated.memberships < memberships:
        n = f"{stated.memberships:,}"
        yield f"The file says that it tells {n} such memberships, which is too few."


def _five_way(panel: Panel) -> IntArray:
    """(model, part, group, label, predicted) counts; 0 where a table has none."""
    parts = [part for part in (panel.train, panel.test) if part is not None]
    cells = np.array([[[part.tn, part.fp], [part.fn, part.tp]] for part in parts])
    cells = np.where(np.isnan(cells).any(axis=(0, 1, 2)), 0, cells).astype(np.int64)
    return np.asarray(cells.transpose(3, 0, 4, 1, 2))
