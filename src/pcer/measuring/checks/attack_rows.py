"""Do an attack's numbers over all models fit the counts, and its numbers of each run?

Rows over all models (``pooled_exposure``) decide most audits: too few records, another
value or too large an error would hide what they found. ``CHECKS`` of this room calls
``unlikely_rows``. To add a check: a row of ``_faults``, its sentence in ``words.toml``.

Over M runs whose exposures x have the errors e, the mean of x has at most the variance
of one run by its records, and of models, with Student's factor for few (``pooled``):

    V <= mean(e^2) + (t/z)^2 var(x)/M

Where runs do not say, ``null_error`` stands for the first term, and the spread of the
gap, which every release shows, for the second; twice the root is then allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from pcer.measuring.checks.arrays import (
    Finding,
    ReleaseArrays,
    Setting,
    finding,
    stated_epsilon,
)
from pcer.metrics import BoolArray, FloatArray
from pcer.release.attack_kinds import SHADOWS, SPENT, attack_kind
from pcer.release.panel import Exposures, Panel
from pcer.statistics import SIGNIFICANCE, interval_quantile

ROUNDED: Final = 1e-6  # relative difference of numbers that count as equal
# Standard errors by which a value may be off the mean of its runs: others may pool
# differently.
MOST_OFF: Final = 3.0
# Beside the gap's spread: at most 1.4 in 100 sets of 8 to 20 models that we tried.
MOST_BESIDE_GAP: Final = 2.0


class _Fault(NamedTuple):
    """A sentence's form, the groups that it is true of, and what it names of them."""

    form: str
    holds: BoolArray
    numbers: dict[str, FloatArray]


def unlikely_rows(arrays: ReleaseArrays) -> Iterator[Finding]:
    """At most one fault for each attack of a setting, with the first group of it."""
    for setting in arrays.settings:
        for attack in setting.panel.pooled:
            if attack == SPENT.name:  # the mean of receipts, which is no row
                continue
            for form, holds, numbers in _faults(arrays, setting, attack):
                if not holds.any():
                    continue
                group = int(holds.argmax())
                named = {name: array[group] for name, array in numbers.items()}
                yield finding(
                    form,
                    at=setting.name,
                    attack=attack_kind(attack).phrase,
                    group=arrays.groups[group],
                    **named,
                )
                break


def _faults(arrays: ReleaseArrays, setting: Setting, attack: str) -> Iterator[_Fault]:
    panel = setting.panel
    row = panel.pooled[attack]
    used = row.n_records + _excluded(arrays, panel, attack)
    yield _Fault(
        "few_records",
        used < panel.mean_n * (1 - ROUNDED),
        {"n": row.n_records, "records": panel.mean_n},
    )

    error = row.standard_error
    runs = _of_runs(panel, attack)
    if runs is not None:
        mean = runs.value.mean(axis=0)
        yield _Fault(
            "other_value",
            np.abs(row.value - mean) > MOST_OFF * error,
            {"value": row.value, "mean": mean},
        )
    # Not even one record, at chance, leaves a value without an error.
    smallest = np.fmin(error, row.null_error)
    yield _Fault("no_error", (smallest == 0) & (row.value != 0), {"value": row.value})
    yield _Fault(
        "large_null_error",
        row.null_error > error * (1 + ROUNDED),
        {"error": error, "null_error": row.null_error},
    )
    allowed = _largest_error(panel, attack, runs)
    yield _Fault(
        "large_error",
        error > allowed * (1 + ROUNDED),
        {"error": error, "allowed": allowed},
    )


def _excluded(arrays: ReleaseArrays, panel: Panel, attack: str) -> FloatArray:
    """(group,) records that the attack left out, as it says; 0 where it does not."""
    of_setting = (panel.model, stated_epsilon(panel))
    excluded = np.zeros(len(arrays.groups))
    for row in arrays.release.pooled_exposure:
        is_of_setting = (row.model, row.epsilon) == of_setting
        if is_of_setting and row.attack == attack and row.group in arrays.groups:
            excluded[arrays.groups.index(row.group)] = row.n_excluded or 0
    return excluded


def _of_runs(panel: Panel, attack: str) -> Exposures | None:
    """The attack's numbers of each run; None where some run has none of a group."""
    runs = panel.shadowed.get(attack) or panel.exposure.get(attack)
    if runs is None or len(panel.seeds) < 2:
        return None
    is_whole = np.isfinite(runs.value + runs.standard_error).all()
    return runs if is_whole else None


def _largest_error(panel: Panel, attack: str, runs: Exposures | None) -> FloatArray:
    """(group,) that runs, or the counts, allow; infinite where neither says."""
    if runs is not None:
        of_records = (runs.standard_error**2).mean(axis=0)
        return np.asarray(np.sqrt(of_records + _of_models(runs.value)))
    unlimited = np.full(len(panel.group_names), np.inf)
    is_bounded = attack_kind(attack).scale.per_success is not None
    if panel.n_splits < SHADOWS or not is_bounded:
        return unlimited
    gap = panel.train_accuracy - panel.test_accuracy
    # Of values from 0 to 1 the variance is at most 1/4.
    at_most = (1 / panel.n_train + 1 / panel.n_test).mean(axis=0) / 4
    null_variance = panel.pooled[attack].null_error ** 2
    of_records = np.where(np.isfinite(null_variance), null_variance, at_most)
    allowed = MOST_BESIDE_GAP * np.sqrt(of_records + _of_models(gap))
    return np.where(np.isfinite(allowed), allowed, unlimited)


def _of_models(by_run: FloatArray) -> FloatArray:
    """(t/z)^2 var/M of values (run, group)."""
    from scipy.special import stdtrit

    n = len(by_run)
    student = stdtrit(n - 1, 1 - SIGNIFICANCE / 2)
    factor = student / interval_quantile(1 - SIGNIFICANCE)
    return np.asarray(factor**2 * by_run.var(axis=0, ddof=1) / n)
