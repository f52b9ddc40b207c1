"""Which declarations of a release do its own numbers contradict for certain?

Each check takes the ``ReleaseArrays`` of a release and yields a ``Finding`` for each
contradiction; no chance is involved. ``CHECKS`` in the front of
this room lists them and says how to add one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from pcer.measuring.checks.arrays import (
    LABELS,
    RECORD,
    Finding,
    ReleaseArrays,
    Setting,
    finding,
    is_random,
)
from pcer.measuring.exact import lowest_seeds
from pcer.metrics import BoolArray, FloatArray
from pcer.release import Release
from pcer.release.attack_kinds import attack_kind
from pcer.release.records import Run, Training
from pcer.wording import setting_name, some_of

FINEST_DECIMALS: Final = 7
# Rounding of a rate that was computed in single, or in double precision.
SINGLE_PRECISION: Final = 1e-7
DOUBLE_PRECISION: Final = 1e-12
# People in the third largest cell of a table, below which equal tables say little.
LEAST_RICH: Final = 5
ROUNDED: Final = 1e-6  # relative difference of numbers of one file that count as equal
# Standard errors by which the quick attack on made-up groups may differ from the exact
# one.
MOST_OFF: Final = 0.5
LEAST_EXACT: Final = 5  # exactly attacked made-up groups that this check needs
LARGEST_EXPONENT: Final = 600.0  # e to that is a number
MOST_NAMED: Final = 5  # things that are missing, in a sentence


# Names and numbers


def conflicting_names(arrays: ReleaseArrays) -> Iterator[Finding]:
    """One name, two cuts: the same split cannot have both."""
    tables = [table for table in (arrays.labelled, arrays.sizes) if table is not None]
    for name, runs in arrays.runs_by_split.items():
        n_cuts = 1
        for table in tables:
            cuts = np.stack([sizes[runs] for sizes in table], axis=1)
            cuts = cuts.reshape(len(runs), -1)
            whole = cuts[np.isfinite(cuts).all(axis=1)]
            n_cuts = max(n_cuts, len(np.unique(whole, axis=0)))
        if n_cuts > 1:
            form = "no_names" if name is None else "one_name"
            yield finding(
                form,
                n=len(runs),
                name=name,
                n_cuts=n_cuts,
                caps_verdict=name is not None,
            )


def broken_numbers(arrays: ReleaseArrays) -> Iterator[Finding]:
    """A share of n people is a whole number out of n."""
    for name, panel, _ in arrays.settings:
        if panel.train is not None:
            continue  # of counts, rates are computed here
        rates = (
            ("training accuracy", panel.train_accuracy, panel.n_train),
            ("test accuracy", panel.test_accuracy, panel.n_test),
            ("positive rate", panel.positive_rate, panel.n_test),
        )
        for what, value, n in rates:
            broken = not_whole(value, n)
            if not broken.any():
                continue
            run, group = np.argwhere(broken)[0]
            rate = value[run, group]
            people = n[run, group]
            yield finding(
                "broken_number",
                at=name,
                what=what,
                group=arrays.groups[group],
                rate=rate,
                people=people,
                product=rate * people,
                of=broken.size,
                n=broken.sum(),
            )


def not_whole(value: FloatArray, n: FloatArray) -> BoolArray:
    """Where a rate, but for half of its last decimal, is no whole number of n."""
    is_known = np.isfinite(value) & np.isfinite(n) & (n > 0)
    value = np.where(is_known, value, 0.0)
    n = np.where(is_known, n, 1.0)
    half_unit = np.full(value.shape, SINGLE_PRECISION)
    for decimals in range(FINEST_DECIMALS, 0, -1):
        is_printed = np.abs(value - np.round(value, decimals)) < DOUBLE_PRECISION
        rounding = 0.5 * 10.0**-decimals + DOUBLE_PRECISION
        half_unit[is_printed] = max(rounding, SINGLE_PRECISION)
    return np.asarray(is_known & (np.abs(value - np.rint(value * n) / n) > half_unit))


def copied_tables(arrays: ReleaseArrays) -> Iterator[Finding]:
    """Different seeds, and different settings, that have the same tables throughout."""
    earlier: dict[bytes, Setting] = {}
    for setting in arrays.settings:
        cells = _rich_cells(setting)
        if cells is None:
            continue
        name, panel, runs = setting
        of_first = lowest_seeds(panel.split)[panel.split]  # first run of a run's split
        if panel.n_splits < len(runs) and (cells == cells[:, of_first]).all():
            yield finding("copied_seeds", at=name, n=len(runs))
        first = earlier.setdefault(cells.tobytes(), setting)
        is_another = first is not setting and first.panel.seeds == panel.seeds
        if is_another and len(runs) > 1:
            yield finding("copied_settings", first=first.name, second=name, n=len(runs))


def _rich_cells(setting: Setting) -> FloatArray | None:
    """Tables (cell of both parts, run, group); None of nearly constant predictions."""
    panel = setting.panel
    if panel.train is None or panel.test is None:
        return None
    cells = np.stack([*panel.train, *panel.test])
    by_part = cells.reshape(2, 4, *cells.shape[1:])
    third_largest = np.sort(by_part, axis=1)[:, 1]
    if np.isnan(cells).any() or (third_largest.max(axis=(0, 2)) < LEAST_RICH).any():
        return None
    return cells


# Runs that are left out


def missing_runs(arrays: ReleaseArrays) -> Iterator[Finding]:
    """Seeds and splits that are left out, and settings with fewer runs than others."""
    for setting in arrays.settings:
        yield from _missing_of_series(setting)
    most = max(len(runs) for _, _, runs in arrays.settings)
    fewer = [
        f"{name} has {len(runs)}"
        for name, _, runs in arrays.settings
        if len(runs) < most
    ]
    if fewer:
        named = some_of(fewer, MOST_NAMED)
        yield finding("fewer_runs", most=most, fewer=named)


def _missing_of_series(setting: Setting) -> Iterator[Finding]:
    name, panel, runs = setting
    for what, numbers in (("seed", [*panel.seeds]), ("split", split_numbers(runs))):
        missing = missing_numbers(numbers)
        if missing:
            yield finding(
                "missing_numbers" if len(missing) > 1 else "missing_number",
                at=name,
                what=what,
                first=min(numbers),
                last=max(numbers),
                gone=some_of(missing, MOST_NAMED),
            )
            return


def missing_numbers(numbers: Iterable[int]) -> list[int]:
    """Numbers left out of a series, of which at least half must be there."""
    present = set(numbers)
    if len(present) < 2:
        return []
    series = range(min(present), max(present) + 1)
    if len(series) > 2 * len(present):
        return []
    return [number for number in series if number not in present]


def split_numbers(runs: Sequence[Run]) -> list[int]:
    """Numbers of splits that are numbered behind one word ("split 1"); else none."""
    matches = [re.fullmatch(r"(\D*)(\d{1,9})", str(run.split)) for run in runs]
    numbered = [match for match in matches if match]
    words = {match[1] for match in numbered}
    is_series = len(numbered) == len(runs) and len(words) == 1
    return [int(match[2]) for match in numbered] if is_series else []


# Promises of an epsilon


def broken_promises(arrays: ReleaseArrays) -> Iterator[Finding]:
    """Everything that contradicts an epsilon; it touches no test of the audit."""
    training = arrays.release.training
    private = [
        setting for setting in arrays.settings if math.isfinite(setting.panel.epsilon)
    ]
    if private and training.mechanism == "none":
        yield finding("no_mechanism", at=private[0].name)
    if private and not arrays.protects_unit:
        unit = training.unit_of_split
        yield finding("other_unit", at=private[0].name, unit=unit)
    for setting in private:
        delta = max(run.dp_delta or 0.0 for run in setting.runs)
        yield from _too_little_noise(arrays, setting, delta)
        yield from _more_spent(training, setting)
        yield from _too_large_delta(arrays, setting, delta)


def _too_little_noise(
    arrays: ReleaseArrays, setting: Setting, delta: float
) -> Iterator[Finding]:
    """No noise, or less than one step of DP-SGD needs at the delta that is promised."""
    name, panel, runs = setting
    multipliers = [
        run.noise_multiplier for run in runs if run.noise_multiplier is not None
    ]
    if not multipliers:
        return
    noise = min(multipliers)
    if noise == 0:
        yield finding("no_noise", at=name)
        return
    rate = _sample_rate(arrays.release)
    if not delta or panel.model is not None or rate is None:
        return
    needed = delta_of_one_step(panel.epsilon, noise, rate)
    if needed > delta * (1 + ROUNDED):
        yield finding(
            "little_noise", at=name, delta=delta, noise=noise, rate=rate, needed=needed
        )


def _more_spent(training: Training, setting: Setting) -> Iterator[Finding]:
    """More than promised, by the accountant that the config names, or the kindest."""
    spent = dict[str, float]()  # by accountant, the most of all runs
    for run in setting.runs:
        for accountant, epsilon in (run.epsilon_by_accountant or {}).items():
            spent[accountant] = max(epsilon, spent.get(accountant, 0.0))
    if not spent:
        return
    named = (training.config or {}).get("accountant")
    if not isinstance(named, str) or named not in spent:
        named = min(spent, key=lambda accountant: spent[accountant])
    if spent[named] > setting.panel.epsilon * (1 + ROUNDED):
        yield finding(
            "more_spent", at=setting.name, accountant=named, spent=spent[named]
        )


def _too_large_delta(
    arrays: ReleaseArrays, setting: Setting, delta: float
) -> Iterator[Finding]:
    n_train = float(setting.panel.n_train.sum(axis=1).max())
    people = n_train if math.isfinite(n_train) else arrays.release.subject.n_records
    if people and delta > (1 + ROUNDED) / people:
        yield finding("large_delta", at=setting.name, delta=delta, people=people)


def _sample_rate(release: Release) -> float | None:
    """The least chance of a record to be in a step of DP-SGD; None if not known."""
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
    """Proved: the least delta of one step of DP-SGD at this epsilon.

    More steps need no less. At the rate q a record moves a sum with normal noise s by
    1. The chance of a sum above a threshold with it, less e^epsilon times that without
    it, is largest where likelihoods have that ratio:

        threshold = 1/2 + s^2 (log(e^epsilon - 1 + q) - log q).
    """
    from scipy.special import log_ndtr, ndtr

    if epsilon > LARGEST_EXPONENT:
        return 0.0
    log_ratio = math.log(math.expm1(epsilon) + rate) - math.log(rate)
    threshold = 0.5 + noise * noise * log_ratio
    moved = ndtr((1 - threshold) / noise)
    unmoved = ndtr(-threshold / noise)
    within = rate * moved + (1 - rate) * unmoved
    return float(within - math.exp(epsilon + log_ndtr(-threshold / noise)))


# Made-up groups


def far_placebos(arrays: ReleaseArrays) -> Iterator[Finding]:
    """Made-up groups whose quick attack is far from the exact one check no alarms."""
    checked = [
        row for row in arrays.release.placebo if (row.n_exact or 0) >= LEAST_EXACT
    ]
    far = [row for row in checked if (row.exact_difference or 0.0) > MOST_OFF]
    if not far:
        return
    farthest = max(far, key=lambda row: row.exact_difference or 0.0)
    yield finding(
        "far_placebos",
        at=setting_name(farthest.model, farthest.epsilon),
        attack=attack_kind(farthest.attack).phrase,
        row=farthest,
        n=len(far),
        of=len(checked),
        allowed=MOST_OFF,
    )


# Totals


def changed_totals(arrays: ReleaseArrays) -> Iterator[Finding]:
    """One data set has one number of records, in all and of every group and label.

    Of runs of as many records; a run's unknown cells are never at fault.
    """
    sizes = arrays.sizes
    if sizes is None or not is_random(arrays.release):
        return
    n_by_run = sizes.total.sum(axis=(1, 2))
    yield from _other_total(arrays.release, n_by_run)
    total = (arrays.labelled or sizes).total
    for n in np.unique(n_by_run):
        lowest = np.nan_to_num(np.fmin.reduce(total[n_by_run == n], axis=0))
        highest = np.nan_to_num(np.fmax.reduce(total[n_by_run == n], axis=0))
        changed = np.argwhere(lowest < highest)
        if not len(changed):
            continue
        group, label = changed[0]
        yield finding(
            "changed_size",
            group=arrays.groups[group],
            what=f" with a {LABELS[label]}" if total.shape[2] > 1 else "",
            fewest=lowest[group, label],
            most=highest[group, label],
            caps_verdict=_uses_every_record(arrays.release, n_by_run),
        )
        return


def _other_total(release: Release, n_by_run: FloatArray) -> Iterator[Finding]:
    n_records = release.subject.n_records
    missing = release.subject.n_missing_group
    if n_records is None:
        return
    most = n_by_run.max()
    too_few = missing is not None and most < n_records - missing
    if most > n_records or too_few:
        without = f", {missing:,} of them in no group" if missing else ""
        yield finding("other_total", n=n_records, without=without, total=most)


def _uses_every_record(release: Release, n_by_run: FloatArray) -> bool:
    """Whether every run is said to use every record that has a group."""
    n_records = release.subject.n_records
    if n_records is None:
        return False
    missing = release.subject.n_missing_group or 0
    return bool((n_by_run == n_records - missing).all())


def unit_without_number(arrays: ReleaseArrays) -> Iterator[Finding]:
    """Units that are not records need their effective number in every group."""
    unit = arrays.release.training.unit_of_split
    sizes = arrays.sizes
    effective = arrays.effective_units
    if not is_random(arrays.release) or unit in (None, RECORD) or sizes is None:
        return
    if effective is None:
        yield finding("unknown_units", unit=unit)
        return
    records = sizes.total[0].sum(axis=1)
    for group in np.flatnonzero(effective > records * (1 + SINGLE_PRECISION)):
        yield finding(
            "many_units",
            unit=unit,
            group=arrays.groups[group],
            n=effective[group],
            records=records[group],
        )
