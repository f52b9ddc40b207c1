"""What does the paper compute? Its numbers, its nulls, Algorithm 1 and comparisons.

Called by ``auditing`` (the paper's part of an audit file), ``report`` (its tables) and
the study. Descriptive: seeds and budgets share records, so counts over settings are no
independent votes.
"""

from __future__ import annotations

from pcer.paper.rankings import agreement, as_published

__all__ = ["agreement", "as_published"]
