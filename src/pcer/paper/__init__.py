"""What does the paper compute? Its numbers, its nulls, Algorithm 1 and comparisons.

Called by ``auditing`` (the paper's part of an audit file), ``report`` (its tables) and
the study. Descriptive: seeds and budgets share records, so counts over settings are no
independent votes.
"""

from __future__ import annotations

from pcer.paper.algorithm1 import as_published
from pcer.paper.comparisons import agreement

__all__ = ["agreement", "as_published"]
