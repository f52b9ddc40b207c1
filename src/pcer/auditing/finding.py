"""What the checks of a release's own words find, and how chance is shared among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pcer.auditing.exact import SMALLEST_P

Check = Literal[
    "split_names",
    "label_mix",
    "group_mix",
    "stratified_by",
    "unit_of_split",
    "whole_numbers",
    "dispersion",
    "totals",
    "same_tables",
    "too_even",
    "below_zero",
    "too_steady",
    "missing_runs",
    "epsilon",
    "placebo_exact",
]

LEVEL: Final = 0.01
"""Chance that a release whose declarations are true is contradicted, over all checks."""
LEVELS_OF_ONE_SPLIT: Final[dict[str, float]] = {
    "label_mix": 0.95 * LEVEL,
    "group_mix": 0.02 * LEVEL,
    "stratified_by": 0.02 * LEVEL,
    "below_zero": 0.01 * LEVEL,
}
"""Most goes to the drift of a group's labels, of which one split gives the least evidence."""
LEVELS_OF_SEVERAL: Final[dict[str, float]] = {
    "label_mix": 0.4 * LEVEL,
    "group_mix": 0.05 * LEVEL,
    "stratified_by": 0.05 * LEVEL,
    "split_names": 0.37 * LEVEL,
    "dispersion": 0.08 * LEVEL,
    "same_tables": 0.01 * LEVEL,
    "too_even": 0.02 * LEVEL,
    "below_zero": 0.01 * LEVEL,
    "too_steady": 0.01 * LEVEL,
}
"""Drift is plain from two splits on; two names for one split of small groups are not. What an
invented number gives away is plainer still, so those checks need little."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that the release says and its own numbers contradict, or call for.

    Attributes:
        check: which check found it.
        declared: what the release says.
        found: what the numbers say.
        remedy: what to change.
        p_value: chance of numbers like these if the release's words are true, adjusted within the
            check; None where logic decides.
        level: the check's part of the level of all; None where logic decides.
        caps_verdict: whether it leaves the audit's tests without ground.
    """

    check: Check
    declared: str
    found: str
    remedy: str
    p_value: float | None = None
    level: float | None = None
    caps_verdict: bool

    @property
    def sentence(self) -> str:
        """The finding for a reader."""
        return f"{self.declared[0].upper()}{self.declared[1:]}, but {self.found}; {self.remedy}."


def adjusted_over_checks(findings: Sequence[Finding]) -> list[float | None]:
    """Each finding's p-value adjusted over all checks: Holm's steps, weighted by their levels.

    Held against ``LEVEL``. The first step divides by the check's share of the level; what was
    found before leaves its share to the others.
    """
    adjusted: list[float | None] = [None] * len(findings)
    by_chance = [k for k, one in enumerate(findings) if one.p_value is not None]
    left, largest, open_to = 1.0, 0.0, dict[str, float]()
    for k in sorted(by_chance, key=lambda k: _weighed(findings[k])):
        check = findings[k].check
        if check not in open_to:
            open_to[check] = left
            left = max(0.0, left - (findings[k].level or LEVEL) / LEVEL)
        largest = max(largest, min(1.0, _weighed(findings[k]) * open_to[check]))
        adjusted[k] = largest
    return adjusted


def chance_words(p: float) -> str:
    """A chance as sentences print it."""
    return f"below {SMALLEST_P:g}" if p <= SMALLEST_P else f"{p:.2g}"


def _weighed(finding: Finding) -> float:
    return (finding.p_value or SMALLEST_P) * LEVEL / (finding.level or LEVEL)
