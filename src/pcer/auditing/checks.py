"""Checks of a release: do its own numbers contradict what it declares?

Every test of exposure rests on what the trainer declares: the split was random, its
unit was the record, these names are different splits. Counts can contradict that.
Logical contradictions need no test; all others share one level per release, so that a
true release is rarely accused.
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
from pcer.auditing.measure import measure_costs, strata_of
from pcer.auditing.plan import Plan
from pcer.auditing.words import listed, say, setting_name
from pcer.metrics import BoolArray, FloatArray
from pcer.release import Release, panels, proxies
from pcer.release.disclosure import LEAST_PEOPLE, given_away
from pcer.release.format import Run, StratifiedBy
from pcer.release.panel import Panel
from pcer.release.proxies import AUC_ADVANTAGE, GAP, LIRA, SPENT, proxy_named
from pcer.statistics import holm, upper_p

# Probability that a release with true declarations is contradicted, over all checks.
LEVEL: Final = 0.01
FINEST_DECIMALS: Final = 7
SINGLE_PRECISION: Final = 1e-7
# Rounding of a rate that was computed in single, or in double precision.
DOUBLE_PRECISION: Final = 1e-12
# People in the third largest cell of a table, below which equal tables say little.
LEAST_RICH: Final = 5
ROUNDED: Final = 1e-6  # relative difference of numbers of one file that count as equal
# Standard errors by which the quick attack on placebo groups may differ from the exact
# one.
MOST_OFF: Final = 0.5
LEAST_EXACT: Final = 5  # exactly attacked placebo groups that this check needs
# Share of the plain attack's advantage that LiRA keeps even where eight models
# calibrate it badly.
LEAST_LIRA: Final = 0.5
# By scale, how many times (p - q) / 2 an attack's mean can be: an AUC once, a
# difference twice.
ADVANTAGES: Final = {proxies.AUC: 1, proxies.ACCURACY: 2, proxies.PROBABILITY: 2}
LARGEST_EXPONENT: Final = 600.0  # e to that is a number
MOST_NAMED: Final = 5  # things that are missing, in a sentence
MOST_GROUPS: Final = 3  # small groups that are named in a sentence
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


class Check(NamedTuple):
    """A name as in ``declarations[].check``, and a test of ``Facts`` or, by chance, of ``Splits``.

    ``shares`` are those of ``LEVEL``, with one split and with several; None where logic
    decides.
    """

    name: str
    test: Callable[..., Iterable[Finding]]
    shares: tuple[float, float] | None = None
    caps_verdict: bool = True


def check_release(release: Release) -> list[DeclarationFinding]:
    """All contradictions between numbers and declarations; none for most releases.

    Logic is always checked; chance only where the split is declared random, sizes are
    released and the effective number of units is known, all at ``LEVEL`` together.
    """
    facts = release.kept(Facts)
    rows = list[tuple[Check, Finding, float]]()
    cuts = _named_cuts(facts)
    inflation = facts.inflation
    splits = None
    if is_random(release) and cuts is not None and inflation is not None:
        splits = Splits(facts, cuts, inflation)
    for check in CHECKS:
        if check.shares is None:
            rows += [(check, finding, 1.0) for finding in check.test(facts)]
        elif splits is not None:
            share = check.shares[len(facts.runs_by_split) > 1]
            rows += [
                (check, finding, share) for finding in check.test(splits, share * LEVEL)
            ]
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


def adjusted_over_checks(
    rows: Sequence[tuple[Check, Finding, float]],
) -> list[float | None]:
    """Each p-value adjusted over all checks: Holm's steps, weighted by the checks' shares.

    Compared with ``LEVEL``. The first step divides by the check's share of the level; a
    finding leaves its share to the others. A row is a check, its finding and its share.
    """
    adjusted: list[float | None] = [None] * len(rows)
    weighed = {
        k: max(SMALLEST_P, finding.p_value) / share
        for k, (_, finding, share) in enumerate(rows)
        if finding.p_value is not None
    }
    left = 1.0
    largest = 0.0
    open_to = dict[str, float]()
    for k in sorted(weighed, key=lambda k: weighed[k]):
        name = rows[k][0].name
        share = rows[k][2]
        if name not in open_to:
            open_to[name] = left
            left = max(0.0, left - share)
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


def _named_cuts(facts: Facts) -> SplitCounts | None:
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


# Logic: names, rates, copies, runs, promises, placebos, totals, units


def conflicting_names(facts: Facts) -> Iterator[Finding]:
    """One name, two cuts: the same split cannot have both."""
    tables = [table for table in (facts.labelled, facts.sizes) if table is not None]
    for name, runs in facts.runs_by_split.items():
        n_cuts = 1
        for table in tables:  # one that does not give every number is left out
            parts = np.stack(table, axis=1)[runs].reshape(len(runs), -1)
            n_cuts = max(
                n_cuts, len(np.unique(parts[np.isfinite(parts).all(axis=1)], axis=0))
            )
        if n_cuts > 1:
            form = "no_names" if name is None else "one_name"
            sentence = say("checks", form, n=len(runs), name=name, n_cuts=n_cuts)
            yield Finding(sentence, caps_verdict=name is not None)


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
                rate = value[run, group]
                people = n[run, group]
                found = {
                    "at": name,
                    "what": what,
                    "group": facts.groups[group],
                    "rate": rate,
                }
                found |= {"people": people, "product": rate * people, "of": broken.size}
                yield Finding(say("checks", "broken_number", **found, n=broken.sum()))


def not_whole(value: FloatArray, n: FloatArray) -> BoolArray:
    """Where a rate, as finely as it is printed, is no whole number out of n, if both are known."""
    is_known = np.isfinite(value) & np.isfinite(n) & (n > 0)
    value = np.where(is_known, value, 0.0)
    n = np.where(is_known, n, 1.0)
    half_unit = np.full(
        value.shape, SINGLE_PRECISION
    )  # of the last decimal that is printed
    for decimals in range(FINEST_DECIMALS, 0, -1):
        is_printed = np.abs(value - np.round(value, decimals)) < DOUBLE_PRECISION
        half_unit[is_printed] = max(
            0.5 * 10.0**-decimals + DOUBLE_PRECISION, SINGLE_PRECISION
        )
    return np.asarray(is_known & (np.abs(value - np.rint(value * n) / n) > half_unit))


def copied_tables(facts: Facts) -> Iterator[Finding]:
    """Different seeds, and different settings, that have the same tables throughout."""
    first: dict[bytes, Setting] = {}
    for setting in facts.settings:
        name, panel, runs = setting
        if panel.train is None or panel.test is None:
            continue
        cells = np.stack(
            [*panel.train, *panel.test]
        )  # (cell of both parts, run, group)
        third = np.sort(cells.reshape(2, 4, *cells.shape[1:]), axis=1)[:, 1]
        if np.isnan(cells).any() or (third.max(axis=(0, 2)) < LEAST_RICH).any():
            continue  # models with constant predictions fill two cells only
        of_first = lowest_seeds(panel.split)[
            panel.split
        ]  # the first run of each run's split
        if panel.n_splits < len(runs) and (cells == cells[:, of_first]).all():
            yield Finding(say("checks", "copied_seeds", at=name, n=len(runs)))
        earlier = first.setdefault(cells.tobytes(), setting)
        if (
            earlier is not setting
            and earlier.panel.seeds == panel.seeds
            and len(runs) > 1
        ):
            both = {"first": earlier.name, "second": name}
            yield Finding(say("checks", "copied_settings", **both, n=len(runs)))


def missing_runs(facts: Facts) -> Iterator[Finding]:
    """Seeds and splits that are left out, and settings with fewer runs than others."""
    for name, panel, runs in facts.settings:
        for what, numbers in (("seed", [*panel.seeds]), ("split", split_numbers(runs))):
            if gone := missing_numbers(numbers):
                form = "missing_numbers" if len(gone) > 1 else "missing_number"
                ends = {"first": min(numbers), "last": max(numbers)}
                named = some_of(gone, MOST_NAMED)
                yield Finding(
                    say("checks", form, at=name, what=what, **ends, gone=named)
                )
                break
    most = max(len(runs) for _, _, runs in facts.settings)
    if fewer := [
        f"{name} has {len(runs)}"
        for name, _, runs in facts.settings
        if len(runs) < most
    ]:
        yield Finding(
            say("checks", "fewer_runs", most=most, fewer=some_of(fewer, MOST_NAMED))
        )


def missing_numbers(numbers: Iterable[int]) -> list[int]:
    """Numbers left out of a series; none where fewer than half are there, which is no series."""
    given = set(numbers)
    if len(given) < 2 or max(given) - min(given) + 1 > 2 * len(given):
        return []
    return [k for k in range(min(given), max(given) + 1) if k not in given]


def split_numbers(runs: Sequence[Run]) -> list[int]:
    """Numbers of splits that are named by numbers behind one word ("split 1"); else none."""
    matches = [re.fullmatch(r"(\D*)(\d{1,9})", str(run.split)) for run in runs]
    numbered = [match for match in matches if match]
    is_series = (
        len(numbered) == len(runs) and len({match[1] for match in numbered}) == 1
    )
    return [int(match[2]) for match in numbered] if is_series else []


def some_of(names: Sequence[object], most: int) -> str:
    """Names in a sentence: so many, and how many more there are."""
    more = f" (and {len(names) - most} more)" if len(names) > most else ""
    return listed([*map(str, names[:most])]) + more


def broken_promises(facts: Facts) -> Iterator[Finding]:
    """Everything that contradicts an epsilon.

    None of it touches the tests of the audit.
    """
    training = facts.release.training
    private = [
        setting for setting in facts.settings if math.isfinite(setting.panel.epsilon)
    ]
    if private and training.mechanism == "none":
        yield Finding(say("checks", "no_mechanism", at=private[0].name))
    if private and not facts.protects_unit:
        at = private[0].name
        unit = training.unit_of_split
        yield Finding(say("checks", "other_unit", at=at, unit=unit))
    for name, panel, runs in private:
        n_train = float(panel.n_train.sum(axis=1).max())
        people = n_train if math.isfinite(n_train) else facts.release.subject.n_records
        delta = max(run.dp_delta or 0.0 for run in runs)
        noise = min(
            (n for run in runs if (n := run.noise_multiplier) is not None), default=None
        )
        if noise == 0:
            yield Finding(say("checks", "no_noise", at=name))
        elif (
            noise
            and delta
            and panel.model is None
            and (rate := _sample_rate(facts.release))
        ):
            needed = delta_of_one_step(panel.epsilon, noise, rate)
            if needed > delta * (1 + ROUNDED):
                found = {"delta": delta, "noise": noise, "rate": rate, "needed": needed}
                yield Finding(say("checks", "little_noise", at=name, **found))
        # The most that a run spent, by the accountant that the config names or the
        # kindest.
        spent: dict[str, float] = {}
        for own in (run.epsilon_by_accountant or {} for run in runs):
            spent |= {each: max(own[each], spent.get(each, 0.0)) for each in own}
        named = (training.config or {}).get("accountant")
        by, most = min(
            spent.items(), key=lambda row: (row[0] != named, row[1]), default=("", 0.0)
        )
        if most > panel.epsilon * (1 + ROUNDED):
            yield Finding(
                say("checks", "more_spent", at=name, accountant=by, spent=most)
            )
        if people and delta > (1 + ROUNDED) / people:
            yield Finding(
                say("checks", "large_delta", at=name, delta=delta, people=people)
            )


def _sample_rate(release: Release) -> float | None:
    """The least chance of a record to be in a step of DP-SGD; None where it is not known."""
    config = release.training.config or {}
    n = release.subject.n_records
    rate = config.get("sample_rate")
    batch = config.get("expected_batch")
    if rate is None and n and isinstance(batch, int) and batch > 0:
        rate = 1 / -(-n // batch)
    if not isinstance(rate, int | float) or release.training.mechanism != "dp-sgd":
        return None
    return rate if 0 < rate <= 1 else None


def delta_of_one_step(epsilon: float, noise: float, rate: float) -> float:
    """Proved: the least delta of one step of DP-SGD at this epsilon; more steps need no less.

    At the rate a record moves a sum with normal noise by 1. The chance of a sum above a
    threshold with it, less e^epsilon times that without it, is largest where
    likelihoods have that ratio.
    """
    from scipy.special import log_ndtr, ndtr

    if epsilon > LARGEST_EXPONENT:
        return 0.0
    threshold = 0.5 + noise * noise * (
        math.log(math.expm1(epsilon) + rate) - math.log(rate)
    )
    within = rate * ndtr((1 - threshold) / noise) + (1 - rate) * ndtr(
        -threshold / noise
    )
    return float(within - math.exp(epsilon + log_ndtr(-threshold / noise)))


def far_placebos(facts: Facts) -> Iterator[Finding]:
    """Placebo groups whose quick attack is far from the exact one cannot check alarms."""
    checked = [
        row for row in facts.release.placebo if (row.n_exact or 0) >= LEAST_EXACT
    ]
    if far := [row for row in checked if (row.exact_difference or 0.0) > MOST_OFF]:
        row = max(far, key=lambda row: row.exact_difference or 0.0)
        at = setting_name(row.model, row.epsilon)
        attack = proxy_named(row.proxy).phrase
        found = {
            "at": at,
            "attack": attack,
            "row": row,
            "n": len(far),
            "of": len(checked),
        }
        yield Finding(say("checks", "far_placebos", **found, allowed=MOST_OFF))


def changed_totals(facts: Facts) -> Iterator[Finding]:
    """One data set has one number of records, in all and of every group and label."""
    if not is_random(facts.release) or (sizes := facts.sizes) is None:
        return
    subject = facts.release.subject
    n_records = subject.n_records
    missing = subject.n_missing_group
    in_all = sizes.total.sum(axis=(1, 2))
    if n_records is not None:
        # The run with most records has all but those without a group.
        too_few = missing is not None and in_all.max() < n_records - missing
        if in_all.max() > n_records or too_few:
            without = f", {missing:,} of them in no group" if missing else ""
            found = {"n": n_records, "without": without, "total": in_all.max()}
            yield Finding(say("checks", "other_total", **found))
    total = (facts.labelled or sizes).total
    for n in np.unique(in_all):
        same = total[in_all == n]  # a run's unknown cells are never at fault
        lowest, highest = (
            np.nan_to_num(f.reduce(same, axis=0)) for f in (np.fmin, np.fmax)
        )
        if (lowest < highest).any():
            group, label = np.argwhere(lowest < highest)[0]
            what = f" with a {LABELS[label]}" if total.shape[2] > 1 else ""
            # Caps where every run is said to use every record that has a group.
            caps = (
                n_records is not None and (in_all == n_records - (missing or 0)).all()
            )
            ends = {"fewest": lowest[group, label], "most": highest[group, label]}
            sentence = say(
                "checks", "changed_size", group=facts.groups[group], what=what, **ends
            )
            yield Finding(sentence, caps_verdict=bool(caps))
            return


def unit_without_number(facts: Facts) -> Iterator[Finding]:
    """Units that are not records need their effective number in every group."""
    unit = facts.release.training.unit_of_split
    sizes = facts.sizes
    effective = facts.effective_units
    if not is_random(facts.release) or unit in (None, RECORD) or sizes is None:
        return
    if effective is None:
        yield Finding(say("checks", "unknown_units", unit=unit))
        return
    records = sizes.total[0].sum(axis=1)
    for g in np.flatnonzero(effective > records * (1 + SINGLE_PRECISION)):
        found = {"group": facts.groups[g], "n": effective[g], "records": records[g]}
        yield Finding(say("checks", "many_units", unit=unit, **found))


# Chance: repeated splits, repeated tables, balance, mixes, spreads, signs


def repeated_splits(splits: Splits, level: float) -> Iterator[Finding]:
    """Different random splits rarely cut every group and label alike."""
    if splits.repeats and splits.repeats_p <= level:
        names = list(splits.facts.runs_by_split)
        n = len(splits.names)
        p = splits.repeats_p
        again, first = next(iter(splits.repeats.items()))
        found = {"names": len(names), "n": n, "s": "s" * (n > 1), "chance": _chance(p)}
        found |= {"first": names[first], "again": names[again]}
        yield Finding(say("checks", "repeated_splits", **found), p)


def repeated_tables(splits: Splits, level: float) -> Iterator[Finding]:
    """Different splits rarely give the same confusion tables, even where they cut groups alike.

    A model that is the same in all splits has the most equal tables: given its right
    and wrong records, those in training are hypergeometric within each label and group.
    """
    if splits.repeats or not splits.measured:
        return
    every = []
    p_values = []
    for _, strata, _ in splits.measured:
        by_split = (
            np.moveaxis(part, 1, 0).reshape(part.shape[1], -1) for part in strata
        )
        total, trained, correct, hits = by_split
        train = np.stack([trained - hits, hits], axis=2)
        every.append(
            SplitCounts(train, np.stack([total - correct, correct], axis=2) - train)
        )
        inflation = np.tile(splits.inflation, len(strata.total))
        p_values.append(hypergeometric.chance_of_repeats(every[-1], "group", inflation))
    adjusted = holm(np.array(p_values))
    for (name, _, names), p, tables in zip(
        splits.measured, adjusted, every, strict=True
    ):
        if p <= level:
            again, first = next(iter(hypergeometric.repeats(tables).items()))
            alike = listed([_split_words(names[split]) for split in (first, again)])
            found = {"at": name, "alike": alike, "chance": _chance(p)}
            yield Finding(say("checks", "repeated_tables", **found), p)


def balance(splits: Splits, level: float) -> Iterator[Finding]:
    """Declared strata must be balanced, and others may not be so in every split.

    Units of several records cannot be balanced exactly, so they are not checked; nor
    are labels where records without a group, or without labels, may balance the others.
    """
    facts = splits.facts
    cuts = splits.cuts
    strata = splits.stratified_by
    subject = facts.release.subject
    sizes = facts.sizes
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
            s, stratum = np.unravel_index(
                int((missed - allowed).argmax()), missed.shape
            )
            found = {
                "split": _split_words(splits.names[s]),
                "n": f"{missed[s, stratum]:,.0f}",
            }
            found |= {"stratum": _stratum_words(splits, int(stratum))}
            by = "label and group" if strata == "both" else strata
            yield Finding(say("checks", "not_balanced", **found, by=by))


def _undeclared_balance(splits: Splits, level: float) -> Iterator[Finding]:
    cuts = splits.cuts
    possible: tuple[StratifiedBy, ...] = (
        ("label", "group") if cuts.has_labels else ("group",)
    )
    p_values = {
        strata: min(1.0, len(possible) * hypergeometric.chance_rounded(cuts, strata))
        for strata in possible
        if hypergeometric.is_rounded(cuts, strata)
    }
    if balanced := [strata for strata, p in p_values.items() if p <= level]:
        p = max(p_values[strata] for strata in balanced)
        is_denied = splits.facts.release.training.stratified_by is not None
        found = {
            "n": len(cuts.train),
            "by": " and ".join(balanced),
            "chance": _chance(p),
        }
        found |= {"declare": balanced[0] if len(balanced) == 1 else "both"}
        form = "balance_denied" if is_denied else "balance_unsaid"
        yield Finding(say("checks", form, **found), p, caps_verdict=is_denied)


def _stratum_words(splits: Splits, stratum: int) -> str:
    if splits.stratified_by == "label":
        return f"the {LABELS[stratum]}"
    n_labels = splits.cuts.train.shape[2] if splits.stratified_by == "both" else 1
    group, label = divmod(stratum, n_labels)
    name = f"group {splits.facts.groups[group]!r}"
    return name if n_labels == 1 else f"{name} with the {LABELS[label]}"


def label_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts have the same mix of labels in every group, but for luck."""
    cuts = splits.cuts
    strata = splits.stratified_by
    if cuts.has_labels and strata != "both":
        yield from _drifts(splits, level, cuts, strata, "label_mix")


def group_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts take the same share of every group; by label, that is in the label mix."""
    cuts = splits.cuts
    strata = splits.stratified_by
    if strata == "nothing" or (strata == "label" and not cuts.has_labels):
        groups = SplitCounts(*(part.sum(axis=2, keepdims=True) for part in cuts))
        yield from _drifts(splits, level, groups, "label", "group_mix")


def _drifts(
    splits: Splits, level: float, cuts: SplitCounts, strata: StratifiedBy, form: str
) -> Iterator[Finding]:
    chances = hypergeometric.label_chances(cuts, strata, splits.inflation)
    whole = (
        2 if cuts.has_labels else 1
    )  # of what the shares are: a group, or all groups
    shares = [
        100 * part / np.maximum(part.sum(axis=whole, keepdims=True), 1) for part in cuts
    ]
    n = len(splits.names)
    independent = hypergeometric.n_fold_sets(splits.cuts) == 0
    combined = [hypergeometric.combine(own, independent=independent) for own in chances]
    p_values = holm(np.array(combined))
    over = f" over {n} splits" if n > 1 else ""
    for g in np.flatnonzero(p_values <= level).tolist():
        # worst split
        p = float(p_values[g])
        s = int(chances[g].argmin()) * n // len(chances[g])
        found = {
            "group": splits.facts.groups[g],
            "split": _split_words(splits.names[s]),
        }
        found |= dict(
            zip(("train", "test"), (part[s, g, -1] for part in shares), strict=True)
        )
        yield Finding(say("checks", form, **found, chance=_chance(p), over=over), p)


def overdispersion(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracy differences that vary more over splits than random splits of such units do.

    Models that memorise unequally vary more, too: a significant mean explains it. Folds
    of one set are negatively correlated: K of them vary K / (K - 1) times as much.
    """
    n = len(splits.cuts.train)
    sets = hypergeometric.n_fold_sets(splits.cuts)
    inflation = splits.inflation * (n / (n - sets))
    several = [
        (name, strata) for name, strata, names in splits.measured if len(names) > 1
    ]
    spreads = [dispersion(strata, inflation=inflation) for _, strata in several]
    if not spreads:
        return
    is_plain = np.stack([spread.mean_p_value for spread in spreads]) < PLAIN_MEAN
    p_values = holm(
        np.where(is_plain, 1, np.stack([spread.p_value for spread in spreads]))
    )
    for k, g in np.argwhere(p_values <= level):
        (name, strata) = several[k]
        p = p_values[k, g]
        unit = splits.facts.release.training.unit_of_split or RECORD
        found = {
            "at": name,
            "group": splits.facts.groups[g],
            "n": strata.total.shape[1],
        }
        yield Finding(
            say("checks", "dispersion", **found, unit=unit, chance=_chance(p)), p
        )


def below_zero(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracies that are far lower in training than out of it, which memorisation only raises."""
    every = [strata for _, strata, _ in splits.measured]
    tails = [hypergeometric.lower_tails(strata, splits.inflation) for strata in every]
    p_values = holm(np.array(tails))
    if (p_values <= level).any():
        k, g = np.unravel_index(int(np.nanargmin(p_values)), p_values.shape)
        at = splits.measured[k][0]
        group = splits.facts.groups[g]
        p = p_values[k, g]
        yield Finding(
            say("checks", "below_zero", at=at, group=group, chance=_chance(p)), p
        )


def impossible_attacks(splits: Splits, level: float) -> Iterator[Finding]:
    """Attacks below chance, LiRA far below the plain attack, and more than an epsilon allows.

    Attacks differ in strength, so that no other two contradict each other. Splits have
    fixed sizes: to exchange a record is one step between neighbours that replace one,
    else two. An AUC compares two people, who in splits balanced on labels need two
    exchanges if their labels differ.
    """
    facts = splits.facts
    rows = list[tuple[str, FloatArray, FloatArray]]()
    training = facts.release.training
    replaces = str((training.config or {}).get("adjacency")).startswith("replace")
    by_label = training.stratified_by not in ("nothing", "group")
    measured = measure_costs(
        [s.panel for s in facts.settings], Plan(), inflation=splits.inflation
    )
    cells = {
        (cost, k): (
            np.where(each.enough, exposed.value, np.nan),
            np.sqrt(exposed.alone),
        )
        for cost, by_setting in measured.items()
        for k, each in enumerate(by_setting)
        if (exposed := each.exposed) is not None and cost != SPENT.name
    }
    for (cost, k), (value, error) in cells.items():
        proxy = proxy_named(cost)
        (name, panel, runs) = facts.settings[k]
        finds = f"At {name} {proxy.phrase} finds"
        times = ADVANTAGES.get(proxy.scale)
        if proxy is not GAP:  # which has an exact check
            rows.append(
                (f"{finds} members less often than a coin would", -value, error)
            )
        if proxy is LIRA and (AUC_ADVANTAGE.name, k) in cells:
            plain, more = (LEAST_LIRA * part for part in cells[AUC_ADVANTAGE.name, k])
            less = f"{finds} less than half of what the plain AUC of losses shows"
            rows.append((less, plain - value, np.hypot(error, more)))
        if times and facts.protects_unit:
            delta = max(run.dp_delta or 0.0 for run in runs)
            n = 1 if replaces else 2
            n *= 2 if by_label and proxy.scale is proxies.AUC else 1
            most = times * largest_advantage(panel.epsilon, delta, n_steps=n)
            allowed = f"more than such an epsilon allows ({proxy.scale.hundredths(most)} of 100)"
            rows.append((f"{finds} {allowed}", value - most, error))
    excess, error = (np.array([row[k] for row in rows]) for k in (1, 2))
    p_values = holm(
        np.maximum(upper_p(excess, np.maximum(error, SMALLEST_P)), SMALLEST_P)
    )
    for k, g in np.argwhere(p_values <= level)[:1]:
        found = {"what": rows[k][0], "group": facts.groups[g]}
        p = p_values[k, g]
        yield Finding(say("checks", "impossible", **found, chance=_chance(p)), p)


def largest_advantage(epsilon: float, delta: float, *, n_steps: int) -> float:
    """Half of the most by which chances p and q of one event differ, so many neighbours apart.

    Proved: a step gives p <= min(e^epsilon q + delta, 1 - e^-epsilon (1 - q - delta)).
    That is its own mirror image, so p - q is largest where p = 1 - q: half of the steps
    lead up to 1/2.
    """
    shrink = math.exp(-epsilon)
    q = (1 - delta) * shrink / (1 + shrink) if n_steps % 2 else 0.5
    for _ in range(n_steps // 2):
        q = (q - delta) * shrink
    return 0.5 - max(q, 0.0)


SHARE_OF_REPEATS: Final = 0.37
# Every check, in the order of findings. With one split most of the level goes to the
# drift of a group's labels, for which it has the least evidence; from two splits on
# drift is easy to find, and two names for one split of small groups are not. Invented
# numbers are easier still.
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
    Check("label_mix", label_mix, shares=(0.94, 0.41)),
    Check("group_mix", group_mix, shares=(0.02, 0.05)),
    Check("dispersion", overdispersion, shares=(0.0, 0.08)),
    Check("below_zero", below_zero, shares=(0.01, 0.01)),
    Check("attacks", impossible_attacks, shares=(0.01, 0.02), caps_verdict=False),
)


def _chance(p: float) -> str:
    return f"below {SMALLEST_P:g}" if p <= SMALLEST_P else f"{p:.2g}"


def _split_words(name: SplitName) -> str:
    return "the unnamed split" if name is None else f"split {name!r}"


# What a release reveals about single people


def disclosed(release: Release) -> Iterator[str]:
    """Sentences about small cells and certain memberships; none for public or coarse records."""
    cells = release.kept(Facts).cells
    stated = release.disclosure
    if cells is None or (stated is not None and stated.public_data):
        return
    few = (cells.sum(axis=2) < LEAST_PEOPLE).any(axis=(0, 1, 2))
    if small := [release.subject.groups[g] for g in np.flatnonzero(few)]:
        more = (
            f" and {len(small) - MOST_GROUPS} more" if len(small) > MOST_GROUPS else ""
        )
        groups = ", ".join(small[:MOST_GROUPS]) + more
        yield say("checks", "few_people", least=LEAST_PEOPLE, groups=groups)
    known = np.where(np.isnan(cells).any(axis=(0, 1, 2)), 0, cells).astype(np.int64)
    given = given_away(known.transpose(3, 0, 4, 1, 2))
    if given.any():
        yield say("checks", "given_away", most=given.max(), n=given.sum())
    # The file's own count of certain memberships is checked.
    if (
        stated is not None
        and stated.memberships is not None
        and stated.memberships < given.sum()
    ):
        yield say("checks", "fewer_declared", n=stated.memberships)
