"""Which declarations of a release do its own numbers contradict for certain?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from pcer.measuring.checks.arrays import (
    LABELS,
    RECORD,
    Facts,
    Finding,
    Setting,
    is_random,
)
from pcer.measuring.exact import lowest_seeds
from pcer.metrics import BoolArray, FloatArray
from pcer.release import Release
from pcer.release.attack_kinds import proxy_named
from pcer.release.records import Run
from pcer.wording import say, setting_name, some_of

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
LARGEST_EXPONENT: Final = 600.0  # e to that is a number
MOST_NAMED: Final = 5  # things that are missing, in a sentence


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
