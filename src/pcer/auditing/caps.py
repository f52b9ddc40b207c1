"""When an alarm is downgraded: placebo groups, permuted groups, other attributes, the floor.

The p-value of an alarm stays as it is, so that anyone can recompute it; but it does not become a
verdict where something that has nothing to do with the groups would have raised it too. Each
statement is held against its own check only: exposures against permuted exposures, ratios against
permuted ratios. A double disadvantage rests on the difference of exposures. In a harm task the
group with the worse rate and the higher exposure may well have the same ratio, so the check of
ratios says nothing about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pcer.auditing.measure import Pair
from pcer.auditing.tests import Evidence
from pcer.metrics import BoolArray, IntArray
from pcer.release.format import Placebo, Release
from pcer.release.panel import Panel
from pcer.statistics import SIGNIFICANCE

TOO_MANY = 0.01
"""Placebo groups that alarm so often that alarms of 5 % have at most this chance are too many: 19
of 200."""

BELOW_FLOOR = "every cost lies below the floor, so that the ratios only repeat the rates"

Statement = Literal["exposure", "double", "ratio"]
STATEMENTS: tuple[Statement, ...] = ("exposure", "double", "ratio")
Reasons = dict[tuple[int, int, Statement], str]
"""By setting, pair and statement."""


@dataclass(frozen=True, kw_only=True)
class Capped:
    """Evidence, and what is left of its alarms and of differences of exposures."""

    evidence: Evidence
    shown: BoolArray
    double: IntArray
    exposures_differ: BoolArray
    reasons: Reasons


class Placebos:
    """The placebo rows of a release, by setting, attack and pair.

    Args:
        release: may have none.
        panels: its settings.
        pairs: of groups.
    """

    def __init__(self, release: Release, panels: Sequence[Panel], pairs: Sequence[Pair]) -> None:
        self._rows = {
            (row.model, row.epsilon, row.proxy, frozenset(row.groups)): row
            for row in release.placebo
        }
        self._panels, self._pairs = panels, pairs

    def row(self, setting: int, attack: str, pair: int) -> Placebo | None:
        """What the release says, or None."""
        panel, groups = self._panels[setting], self._pairs[pair]
        epsilon = None if np.isinf(panel.epsilon) else panel.epsilon
        names = frozenset(panel.group_names[group] for group in groups)
        return self._rows.get((panel.model, epsilon, attack, names))


def cap_alarms(
    placebos: Placebos,
    attacks: Sequence[str],
    evidence: Evidence,
    *,
    family_p: float | None = None,
    is_below_floor: Sequence[bool],
) -> Capped:
    """Downgrade alarms that placebo groups, permutations, the family or the floor speak against.

    Args:
        placebos: of the release.
        attacks: that decide, as ``decide`` had them.
        evidence: what they decided.
        family_p: of the release's strongest comparison, among all releases of the same records.
        is_below_floor: of every setting, whether all of its costs are.
    """
    shown, double = evidence.shown.copy(), evidence.double.copy()
    differ, reasons = evidence.exposures_differ.copy(), Reasons()
    for key in zip(*np.nonzero(shown | differ), strict=True):
        k, pair = int(key[0]), int(key[1])
        by = placebos.row(k, attacks[evidence.decided_by[key]], pair)
        against: list[tuple[Statement, bool, str | None]] = [
            ("exposure", bool(differ[key]), _against_exposure(by)),
            ("double", bool(double[key] >= 0), _against_double(by)),
            ("ratio", bool(shown[key]), _against_ratio(placebos.row(k, attacks[0], pair))),
        ]
        if is_below_floor[k] and against[2][2] is None:
            against[2] = ("ratio", against[2][1], BELOW_FLOOR)
        if family_p is not None and family_p > SIGNIFICANCE:
            against = [(what, is_said, _within_family(family_p)) for what, is_said, _ in against]
        for what, is_said, reason in against:
            if is_said and reason is not None:
                reasons[k, pair, what] = reason
        differ[key] &= (k, pair, "exposure") not in reasons
        shown[key] &= (k, pair, "ratio") not in reasons
        if not differ[key] or (k, pair, "double") in reasons:
            double[key] = -1
    return Capped(
        evidence=evidence, shown=shown, double=double, exposures_differ=differ, reasons=reasons
    )


def _against_exposure(row: Placebo | None) -> str | None:
    """Why a difference of exposures does not count; None if it does."""
    return None if row is None else _reason(row.exposure_p_value, row.n_exposure, row.n_draws)


def _against_ratio(row: Placebo | None) -> str | None:
    return None if row is None else _reason(row.p_value, row.n_shown, row.n_draws)


def _against_double(row: Placebo | None) -> str | None:
    return None if row is None else _reason(row.exposure_p_value, row.n_double, row.n_draws)


def _reason(p_value: float | None, n_alarms: int | None, n_draws: int) -> str | None:
    if p_value is not None and p_value > SIGNIFICANCE:
        return f"randomly drawn groups differ as much (permutation p = {p_value:.2g})"
    if n_alarms is not None and is_too_many(n_alarms, n_draws):
        return f"{n_alarms} of {n_draws} made-up groups raise this alarm, too"
    return None


def _within_family(family_p: float) -> str:
    return (
        "judged together with the other attributes of the same records it is within chance "
        f"(p = {family_p:.2g})"
    )


def is_too_many(n_alarms: int, n_draws: int) -> bool:
    """Whether placebo groups alarm more often than a test at 5 % may.

    >>> is_too_many(18, 200), is_too_many(19, 200)
    (False, True)
    """
    from scipy.special import bdtrc

    return n_alarms > 0 and float(bdtrc(n_alarms - 1, n_draws, SIGNIFICANCE)) < TOO_MANY
