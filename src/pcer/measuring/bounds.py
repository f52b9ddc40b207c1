"""Between which bounds does a number of one setting lie?

Policies (``auditing.policy``) and recommendations (``deciding.candidates``) hold these
bounds against a user's limits, so that one limit means one thing in both. Numbers are
of 100, except for epsilons. To add a bounded number: a function here that gives
``Bounds``, and who holds it against a limit.

Exposure, differences and outcomes are about people like these; accuracy is of these
records; what is spent is by receipts, at most what was promised.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.exposure import Measured, Pair, measure_panel
from pcer.measuring.group_differences import PairDifference, compare_pairs
from pcer.measuring.plan import Plan
from pcer.measuring.release_changes import Contrast
from pcer.measuring.variances import bonferroni_z, by_split
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import GAP
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.release.records import Bound

COIN = 50.0  # right answers of 100 of an attacker who guesses


class Tails(NamedTuple):
    """Chances with which one bound fails: the upper, and the lower one."""

    upper: float
    lower: float


class Bounds(NamedTuple):
    """Numbers (group or pair,) with errors and one-sided bounds; NaN: not known."""

    value: FloatArray
    error: FloatArray
    lower: FloatArray
    upper: FloatArray


def normal_quantile(tail: float) -> float:
    """The z that a standard normal exceeds with the chance ``tail``."""
    return bonferroni_z(confidence_level=1 - tail)


def exposure_bounds(measured: Measured, tails: Tails) -> Bounds:
    """(group,) right answers of 100 of an attacker; NaN of too few records."""
    points = points_of(measured)
    largest = measured.upper_limit(level=1 - tails.upper, n_limits=1)
    value = np.full_like(largest, np.nan)
    error = value
    if measured.exposed is not None:
        value = COIN + points * measured.exposed.value
        error = points * np.sqrt(measured.exposed.interval_variance)
    bounds = Bounds(
        value=value,
        error=error,
        lower=value - normal_quantile(tails.lower) * error,
        upper=COIN + points * largest,
    )
    enough = measured.has_enough_records
    return Bounds(*[np.where(enough, numbers, np.nan) for numbers in bounds])


def difference_bounds(
    measured: Measured, pairs: tuple[Pair, ...], tails: Tails
) -> Bounds:
    """(pair,) by how many right answers of 100 the exposures of two groups differ."""
    difference = compare_pairs(measured, pairs).exposure
    largest = max(1.0, measured.attack_kind.scale.largest)
    return apart(difference, points_of(measured), largest, tails)


def outcome_bounds(measured: Measured, pairs: tuple[Pair, ...], tails: Tails) -> Bounds:
    """(pair,) by how many of 100 the outcomes of two groups differ."""
    return apart(compare_pairs(measured, pairs).benefit, 100.0, 1.0, tails)


def odds_bounds(
    panel: Panel,
    pairs: tuple[Pair, ...],
    tails: Tails,
    variance_inflation: FloatArray | None = None,
) -> Bounds:
    """(pair,) the larger difference of true or of false positive rates, of 100.

    NaN where the release has no counts.
    """
    if panel.test is None:
        return Bounds(*np.full((4, len(pairs)), np.nan))
    found = []
    for rate in ("true_positive_rate", "false_positive_rate"):
        measured = measure_panel(
            panel, Plan(benefit=rate), GAP.name, variance_inflation=variance_inflation
        )
        found.append(outcome_bounds(measured, pairs, tails))
    first, second = found
    is_first = first.value >= second.value
    return Bounds(
        value=np.maximum(first.value, second.value),
        error=np.where(is_first, first.error, second.error),
        lower=np.maximum(first.lower, second.lower),
        upper=np.maximum(first.upper, second.upper),
    )


def apart(
    difference: PairDifference, points: float, largest: float, tails: Tails
) -> Bounds:
    """The size of differences in points, whichever group has more."""
    size = points * np.abs(difference.value)
    upper = size + points * difference.half_width(tails.upper)
    return Bounds(
        value=size,
        error=points * difference.error,
        lower=size - points * difference.half_width(tails.lower),
        upper=np.minimum(upper, points * largest),
    )


def spent_bounds(release: Release, panel: Panel, tails: Tails) -> Bounds:
    """(group,) mean epsilon by receipts, at most what is promised to the group.

    A rule may promise groups less than the setting's epsilon. A refreshed receipt is an
    estimate, which bounds nothing. Infinite where nothing is promised.
    """
    rows = rows_of_setting(release, panel)
    promises = {row.group: row.mean for row in rows if row.kind == "promise"}
    receipts = {
        row.group: row
        for row in rows
        if row.kind == "receipt" and row.mode != "refreshed"
    }
    by_group = []
    for name in panel.group_names:
        promised = min(panel.epsilon, promises.get(name, math.inf))
        receipt = receipts.get(name)
        if receipt is None:
            by_group.append((promised, 0.0, 0.0, promised))
            continue
        value = min(receipt.mean, promised)
        error = receipt.standard_error or 0.0
        lower = value - normal_quantile(tails.lower) * error
        upper = value + normal_quantile(tails.upper) * error
        by_group.append((value, error, lower, min(upper, promised)))
    return Bounds(*np.array(by_group).T)


def rows_of_setting(release: Release, panel: Panel) -> list[Bound]:
    """What training says of the epsilon that the setting's groups spent."""
    setting = panel.model, stated_epsilon(panel)
    return [
        row
        for row in release.bounds
        if (row.model, row.epsilon) == setting and row.label is None
    ]


def accuracy_bounds(panel: Panel, tails: Tails) -> Bounds:
    """(1,) accuracy on test records, of 100, by Student's t over splits.

    Runs of one split are averaged first. One split does not tell its luck.
    """
    right = accuracy_by_split(panel)
    if len(right) < 2:
        return Bounds(*np.full((4, 1), np.nan))
    accuracy = Contrast.of(right[:, None], np.zeros(1))
    return Bounds(
        value=accuracy.value,
        error=np.sqrt(accuracy.variance),
        lower=accuracy.value - accuracy.half_width(tails.lower),
        upper=accuracy.value + accuracy.half_width(tails.upper),
    )


def accuracy_by_split(panel: Panel) -> FloatArray:
    """(split,) accuracy on test records of all groups, of 100."""
    n_right = (panel.test_accuracy * panel.n_test).sum(axis=1)
    return by_split(100 * (n_right / panel.n_test.sum(axis=1)), panel.split)


def points_of(measured: Measured) -> float:
    """Right answers of 100 that an exposure of 1 adds; NaN where that is not known."""
    per_success = measured.attack_kind.scale.per_success
    return math.nan if per_success is None else per_success
