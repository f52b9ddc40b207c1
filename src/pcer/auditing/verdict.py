"""Outcomes of an audit, each with its advice: what it means and what to look at next."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias


class Verdict(StrEnum):
    """What one setting's numbers show, strongest first; last Algorithm 1's over the floor grid."""

    DOUBLE_DISADVANTAGE = "double_disadvantage"
    DISPARITY_SHOWN = "disparity_shown"
    EQUAL_WITHIN_MARGIN = "equal_within_margin"
    NO_DISPARITY_SHOWN = "no_disparity_shown"
    FLOOR_DOMINATED = "floor_dominated"
    NOT_RESOLVED = "not_resolved"
    INSUFFICIENT_DATA = "insufficient_data"
    FLOOR_ROBUST = "floor_robust"
    FLOOR_SENSITIVE = "floor_sensitive"

    def advice(self, outcome: str) -> str:
        """One sentence for the reader, in the words of a "benefit" or a "harm"."""
        return _ADVICE[self].format(outcome=outcome)

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        return self.value.replace("_", " ")

    @property
    def is_alarm(self) -> bool:
        """Whether it says that some group is worse off."""
        return self in (Verdict.DOUBLE_DISADVANTAGE, Verdict.DISPARITY_SHOWN)

    @property
    def voids(self) -> bool:
        """Whether a setting's disparity must not be read as one: never shown without this label."""
        weakest_told = BUDGET_VERDICTS.index(Verdict.NO_DISPARITY_SHOWN)
        return self in BUDGET_VERDICTS[weakest_told + 1 :]


# What Algorithm 1 can say over the floor grid.
GRID_VERDICTS = (Verdict.FLOOR_ROBUST, Verdict.FLOOR_SENSITIVE)
# What a setting can get, strongest first.
BUDGET_VERDICTS = tuple(verdict for verdict in Verdict if verdict not in GRID_VERDICTS)
# What a guard can fail on: every setting's verdict, and one flag.
GUARDED = (*BUDGET_VERDICTS, Verdict.FLOOR_SENSITIVE)

if TYPE_CHECKING:  # a checker cannot follow the lists
    BudgetVerdict: TypeAlias = Verdict
    GridVerdict: TypeAlias = Verdict
    FailOn: TypeAlias = StrEnum
else:
    BudgetVerdict, GridVerdict = Literal[BUDGET_VERDICTS], Literal[GRID_VERDICTS]
    FailOn = StrEnum("FailOn", [(str(verdict).upper(), str(verdict)) for verdict in GUARDED])

_ADVICE = {
    Verdict.DOUBLE_DISADVANTAGE: (
        "One group is worse off in both ways: its members are easier to recognise, and they get "
        "the worse predictions; look at why the model remembers them, and whether a smaller "
        "budget, more of their data or a simpler model changes it."
    ),
    Verdict.DISPARITY_SHOWN: (
        "The groups receive unequal {outcome} for their privacy cost; look at who receives less, "
        "and whether the predictions or the exposures cause it."
    ),
    Verdict.EQUAL_WITHIN_MARGIN: (
        "The groups' privacy costs are equal within the margin that the plan names; whether that "
        "margin is small enough is for those affected to say."
    ),
    Verdict.NO_DISPARITY_SHOWN: (
        "A privacy cost is there, but unequal ratios are not shown; this is not proof of "
        "equality, so compare the upper limit of the difference with what would matter."
    ),
    Verdict.FLOOR_DOMINATED: (
        "Costs are real but all below the floor, so the ratio only repeats the positive rates; "
        "read the demographic parity gap, or plan a lower floor before looking again."
    ),
    Verdict.NOT_RESOLVED: (
        "No privacy cost is shown for any group, so no ratio of {outcome} to cost is evidence "
        "here; compare the upper limits with what would matter, and use more splits, more records "
        "or a sharper cost if they are too large."
    ),
    Verdict.INSUFFICIENT_DATA: (
        "The release lacks what is needed to tell memory from chance; ask the trainer for "
        "confusion counts, for more test records, or for a sharper cost."
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


def strongest(verdicts: Iterable[Verdict]) -> Verdict:
    """The overall verdict: the strongest over settings.

    >>> strongest([Verdict.NOT_RESOLVED, Verdict.FLOOR_DOMINATED]).value
    'floor_dominated'
    """
    return min(verdicts, key=BUDGET_VERDICTS.index)
