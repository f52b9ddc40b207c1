"""What follows for a choice: comparisons, trends, plans, recommendations."""

from __future__ import annotations

from pcer.deciding.compare import Changes, ChangeVerdict
from pcer.deciding.planner import Outlook, detectable
from pcer.deciding.recommend import Recommendation
from pcer.deciding.trend import Trend

__all__ = [
    "ChangeVerdict",
    "Changes",
    "Outlook",
    "Recommendation",
    "Trend",
    "detectable",
]
