"""What can an audit say of a pair, a setting and a release? Verdicts, strongest first.

Used by the audit, the report and the cards. To add a verdict: a member of ``Verdict``
in its place, a line of ``PairResult.statements``, and its words in ``words.toml``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias


class Verdict(StrEnum):
    """What a setting's numbers show, strongest first; last, Algorithm 1's own."""

    DOUBLE_DISADVANTAGE = "double_disadvantage"
    EXPOSURE_DIFFERS = "exposure_differs"
    RATIO_DIFFERS = "ratio_differs"
    NO_DIFFERENCE_SHOWN = "no_difference_shown"
    EQUAL_WITHIN_MARGIN = "equal_within_margin"
    FLOOR_DOMINATED = "floor_dominated"
    NONE_DETECTED = "none_detected"
    INSUFFICIENT_DATA = "insufficient_data"
    FLOOR_ROBUST = "floor_robust"
    FLOOR_SENSITIVE = "floor_sensitive"

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        return self.value.replace("_", " ")

    @property
    def is_alarm(self) -> bool:
        """Whether it says that groups differ."""
        return self in BUDGET_VERDICTS[:3]

    @property
    def severity(self) -> str:
        """The colour of its badge: red, amber, blue or grey."""
        if self.is_alarm:
            return "amber" if self is Verdict.RATIO_DIFFERS else "red"
        is_told = self in (Verdict.NO_DIFFERENCE_SHOWN, Verdict.EQUAL_WITHIN_MARGIN)
        return "blue" if is_told else "grey"


# What Algorithm 1 can say over the floor grid.
GRID_VERDICTS = (Verdict.FLOOR_ROBUST, Verdict.FLOOR_SENSITIVE)
# What a setting can get, strongest first.
BUDGET_VERDICTS = tuple(verdict for verdict in Verdict if verdict not in GRID_VERDICTS)
# What a guard can fail on: statements that hold in some pair, and one of Algorithm 1.
GUARDED = (*map(str, BUDGET_VERDICTS), "outcomes_differ", str(Verdict.FLOOR_SENSITIVE))
# Names of earlier versions, and what they are called now.
RENAMED = {
    "disparity_shown": Verdict.RATIO_DIFFERS,
    "no_disparity_shown": Verdict.NO_DIFFERENCE_SHOWN,
    "not_resolved": Verdict.NONE_DETECTED,
}

if TYPE_CHECKING:  # a checker cannot follow the lists
    BudgetVerdict: TypeAlias = Verdict
    GridVerdict: TypeAlias = Verdict
else:
    BudgetVerdict = Literal[BUDGET_VERDICTS]
    GridVerdict = Literal[GRID_VERDICTS]
