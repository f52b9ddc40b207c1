"""Which other setting exposes less, and what does its accuracy cost?

``auditing.audit`` asks it once for the setting that the headline is about; the next
step of every output is made from ``NextSetting``. A setting counts where it lowers the
highest exposure beyond chance, and where its accuracy is clearly above that of always
guessing the majority. To add a condition: a line of the loop in ``next_setting``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from pcer.files import Record
from pcer.measuring.bounds import Tails, accuracy_bounds, accuracy_by_split
from pcer.measuring.exposure import Measured
from pcer.measuring.release_changes import Contrast
from pcer.measuring.variances import bonferroni_z
from pcer.release.panel import Panel
from pcer.statistics import SIGNIFICANCE

# Errors of a paired difference below which two accuracies are alike.
ALIKE: Final = 1.64


class NextSetting(Record):
    """A setting that exposes less; numbers are of 100, accuracy is of these records."""

    place: int  # of the setting in the audit
    # By how much the accuracy falls, over the splits that both settings share.
    accuracy_lost: tuple[float, float]


class _Candidate(NamedTuple):
    place: int
    panel: Panel
    accuracy: float


class _Highest(NamedTuple):
    value: float
    variance: float


def next_setting(
    measured: Sequence[Measured], main: int, *, majority: float, margin: float
) -> NextSetting | None:
    """The most accurate setting that exposes less than the main one; None without any.

    Settings whose accuracies are alike go to the smaller epsilon.

    Args:
        measured: every setting, by the attack whose numbers people see.
        main: the place of the setting that the headline is about.
        majority: how often of 100 the commoner label would be right.
        margin: points of 100 by which an accuracy must exceed it.
    """
    if len(measured) < 2:
        return None
    candidates = []
    for place, other in enumerate(measured):
        if place == main or not _exposes_less(other, measured[main], len(measured) - 1):
            continue
        bounds = accuracy_bounds(other.panel, Tails(0.025, 0.025))
        if bounds.lower[0] >= majority + margin:
            candidate = _Candidate(place, other.panel, float(bounds.value[0]))
            candidates.append(candidate)
    if not candidates:
        return None

    best = max(candidates, key=lambda candidate: candidate.accuracy)
    alike = [one for one in candidates if _are_alike(best.panel, one.panel)]
    chosen = min(alike, key=lambda candidate: candidate.panel.epsilon)
    lost = accuracy_lost(measured[main].panel, chosen.panel)
    half_width = float(lost.half_width(SIGNIFICANCE / 2)[0])
    value = float(lost.value[0])
    if not math.isfinite(value + half_width):
        return None
    ends = (value - half_width, value + half_width)
    return NextSetting(place=chosen.place, accuracy_lost=ends)


def _exposes_less(other: Measured, main: Measured, n_others: int) -> bool:
    """Whether the highest exposure is lower, by errors of both, for all others."""
    now = _highest(main)
    then = _highest(other)
    if now is None or then is None:
        return False
    z = bonferroni_z(n_limits=n_others, confidence_level=1 - SIGNIFICANCE)
    return now.value - then.value > z * math.sqrt(now.variance + then.variance)


def _highest(measured: Measured) -> _Highest | None:
    """The most exposed of the groups with enough records."""
    exposed = measured.exposed
    if exposed is None:
        return None
    is_known = measured.has_enough_records & np.isfinite(exposed.interval_variance)
    values = np.where(is_known, exposed.value, -np.inf)
    group = int(np.argmax(values))
    if not np.isfinite(values[group]):
        return None
    variance = float(exposed.interval_variance[group])
    return _Highest(float(values[group]), variance)


def _are_alike(best: Panel, other: Panel) -> bool:
    if other is best:
        return True
    lost = accuracy_lost(best, other)
    return bool(lost.value[0] < ALIKE * np.sqrt(lost.variance[0]))


def accuracy_lost(before: Panel, after: Panel) -> Contrast:
    """By how many points of 100 accuracy falls, with the error of splits.

    Split by split where both settings have the same seeds, so that what splits share
    cancels; otherwise the errors of both are added. NaN where accuracies are unknown.
    """
    right_before = accuracy_by_split(before)
    right_after = accuracy_by_split(after)
    if before.seeds == after.seeds and np.array_equal(before.split, after.split):
        return Contrast.of((right_before - right_after)[:, None], np.zeros(1))
    one = Contrast.of(right_before[:, None], np.zeros(1))
    two = Contrast.of(right_after[:, None], np.zeros(1))
    return Contrast.of((one.value - two.value)[None], one.variance + two.variance)
