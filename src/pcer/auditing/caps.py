"""What takes an alarm back: coin flips that alarm as well, permuted labels, and other attributes.

The p-value of an alarm stays as it is, so that anyone can recompute it; but it does not become a
verdict where something that has nothing to do with the groups would have raised it too. Nor is a
group called more exposed there: what takes the alarm of two groups back takes that back as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.auditing.inference import Evidence
from pcer.auditing.measure import Measured, Pair
from pcer.metrics import BoolArray, IntArray
from pcer.release import Placebo, Release
from pcer.statistics import SIGNIFICANCE

TOO_MANY = 0.01
"""Coin flips that alarm so often that alarms of 5 % have at most this chance are too many: 19 of
200."""

BELOW_FLOOR = "every cost lies below the floor, so that the ratios only repeat the rates"

Reasons = dict[tuple[int, int], str]
"""By setting and pair."""


@dataclass(frozen=True, kw_only=True)
class Capped:
    """Evidence, and what is left of its alarms and of differences of exposures."""

    evidence: Evidence
    shown: BoolArray
    double: IntArray
    exposures_differ: BoolArray
    reasons: Reasons


class FamilyP(NamedTuple):
    """Smallest p-values of a release by one cost, Holm over the releases of its family."""

    alarms: float
    exposures: float


def cap_alarms(
    release: Release,
    measured: Sequence[Measured],
    pairs: tuple[Pair, ...],
    evidence: Evidence,
    *,
    family: FamilyP | None = None,
    floor: float = 0.0,
) -> Capped:
    """Take back alarms that coin flips, permutations, the family or the floor speak against."""
    rows = coin_flips(release, measured, pairs)
    shown, double = evidence.shown.copy(), evidence.double.copy()
    differ = evidence.exposures_differ & (family is None or family.exposures <= SIGNIFICANCE)
    reasons: Reasons = {}
    for key in zip(*np.nonzero(shown | (double >= 0) | differ), strict=True):
        k, pair = int(key[0]), int(key[1])
        row, alarmed = rows.get((k, pair)), bool(shown[key] or double[key] >= 0)
        no_shown, no_double = _why_not(row, None if family is None else family.alarms)
        against = [no_shown] * bool(shown[key]) + [no_double] * bool(double[key] >= 0)
        differ[key] &= _is_believed(row) and not any(against)
        no_shown = no_shown or _below(floor, measured[k])
        reason = (no_shown if shown[key] else None) or (no_double if double[key] >= 0 else None)
        shown[key] &= no_shown is None
        double[key] = double[key] if no_double is None else -1
        if alarmed and reason is not None:
            reasons[k, pair] = reason
    return Capped(
        evidence=evidence, shown=shown, double=double, exposures_differ=differ, reasons=reasons
    )


def _is_believed(row: Placebo | None) -> bool:
    """Whether coin flips alarm no more often by this cost than they should."""
    return row is None or not any(_is_too_many(n, row.n_draws) for n in (row.n_shown, row.n_double))


def coin_flips(
    release: Release, measured: Sequence[Measured], pairs: tuple[Pair, ...]
) -> dict[tuple[int, int], Placebo]:
    """The release's rows about this cost, by setting and pair."""
    by_key: dict[tuple[object, ...], Placebo] = {
        (row.model, row.epsilon, row.proxy, frozenset(row.groups)): row for row in release.placebo
    }
    found = {}
    for k, one in enumerate(measured):
        names, panel = one.panel.group_names, one.panel
        epsilon = None if np.isinf(panel.epsilon) else panel.epsilon
        for pair, (i, j) in enumerate(pairs):
            key = (panel.model, epsilon, one.proxy.name, frozenset((names[i], names[j])))
            if key in by_key:
                found[k, pair] = by_key[key]
    return found


def _why_not(row: Placebo | None, family_p: float | None) -> tuple[str | None, str | None]:
    """Why a disparity, and why a double disadvantage, does not count; None if it does."""
    if family_p is not None and family_p > SIGNIFICANCE:
        reason = (
            "judged together with the other attributes of the same records it is within chance "
            f"(p = {family_p:.2g})"
        )
        return reason, reason
    if row is None:
        return None, None
    return _spoken_against(row, row.n_shown), _spoken_against(row, row.n_double)


def _below(floor: float, one: Measured) -> str | None:
    """Unequal ratios are none where every cost counts as the floor."""
    return BELOW_FLOOR if one.largest_cost < floor else None


def _spoken_against(row: Placebo, n_alarms: int) -> str | None:
    if row.p_value is not None and row.p_value > SIGNIFICANCE:
        return (
            f"groups drawn by lot among the same people differ as much (permutation p = "
            f"{row.p_value:.2g})"
        )
    if _is_too_many(n_alarms, row.n_draws):
        return f"{n_alarms} of {row.n_draws} coin-flip attributes raise this alarm, too"
    return None


def _is_too_many(n_alarms: int, n_draws: int) -> bool:
    from scipy.special import bdtrc

    return n_alarms > 0 and float(bdtrc(n_alarms - 1, n_draws, SIGNIFICANCE)) < TOO_MANY
