"""Outcomes of an audit, each with its advice: what it means and what to look at next."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar


class Verdict(StrEnum):
    """What one budget's numbers show, and Algorithm 1's two answers over the floor grid."""

    INSUFFICIENT_DATA = "insufficient_data"
    NOT_RESOLVED = "not_resolved"
    FLOOR_DOMINATED = "floor_dominated"
    DISPARITY_SHOWN = "disparity_shown"
    NO_DISPARITY_SHOWN = "no_disparity_shown"
    FLOOR_ROBUST = "floor_robust"
    FLOOR_SENSITIVE = "floor_sensitive"

    def advice(self, outcome: str) -> str:
        """One sentence for the reader, in the words of a "benefit" or a "harm"."""
        return _ADVICE[self].format(outcome=outcome)

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        return self.value.replace("_", " ")


BUDGET_VERDICTS = (
    Verdict.DISPARITY_SHOWN,
    Verdict.NO_DISPARITY_SHOWN,
    Verdict.FLOOR_DOMINATED,
    Verdict.NOT_RESOLVED,
    Verdict.INSUFFICIENT_DATA,
)
"""What a budget can get, strongest first."""


class FailOn(StrEnum):
    """What ``--fail-on`` accepts: every budget's verdict, and two flags."""

    DISPARITY_SHOWN = "disparity_shown"
    NO_DISPARITY_SHOWN = "no_disparity_shown"
    FLOOR_DOMINATED = "floor_dominated"
    NOT_RESOLVED = "not_resolved"
    INSUFFICIENT_DATA = "insufficient_data"
    DOUBLE_DISADVANTAGE = "double_disadvantage"
    FLOOR_SENSITIVE = "floor_sensitive"


_ADVICE = {
    Verdict.INSUFFICIENT_DATA: (
        "The release lacks what is needed to tell signal from the luck of the split; ask the "
        "trainer for confusion counts, or at least for group sizes."
    ),
    Verdict.NOT_RESOLVED: (
        "No group's privacy cost can be told from the luck of the split, so no ratio of {outcome} "
        "to cost is evidence here; use more splits, more records or a sharper cost, and compare "
        "the detectable cost with what would matter."
    ),
    Verdict.FLOOR_DOMINATED: (
        "Costs are real but all below the floor, so the ratio only repeats the positive rates; "
        "read the demographic parity gap, or plan a lower floor before looking again."
    ),
    Verdict.DISPARITY_SHOWN: (
        "The groups receive unequal {outcome} in proportion to their privacy cost, beyond what "
        "split luck explains; look at which group has the lower ratio, below which floor the "
        "sign holds, and whether the cost or the rate drives it."
    ),
    Verdict.NO_DISPARITY_SHOWN: (
        "A privacy cost is resolved but unequal ratios are not shown; this is not proof of "
        "equality, so compare the detectable cost with what would matter."
    ),
    Verdict.FLOOR_ROBUST: (
        "One budget has the smallest disparity at every floor of the grid; it is the paper's "
        "choice, and a recommendation only if that budget's costs are resolved."
    ),
    Verdict.FLOOR_SENSITIVE: (
        "Which budget has the smallest disparity depends on the floor; read the floor table, and "
        "only its informative floors."
    ),
}


AnyVerdict = TypeVar("AnyVerdict", bound=Verdict)


def strongest(verdicts: Iterable[AnyVerdict]) -> AnyVerdict:
    """The overall verdict: the strongest over budgets.

    >>> strongest([Verdict.NOT_RESOLVED, Verdict.FLOOR_DOMINATED]).value
    'floor_dominated'
    """
    return min(verdicts, key=BUDGET_VERDICTS.index)
