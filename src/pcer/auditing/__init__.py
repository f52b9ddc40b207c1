"""What does a release show, and how is it said?

``audit.py`` leads from released statistics to an ``Audit``, the record of every number,
verdict and sentence (record.py). On the way: family (who is judged together), settings
and pairs (what is found), attacks_compared (what the other attacks say), policy (which
rules are broken), sentences (the words). Numbers come from the room measuring, the
paper's own from the room paper; the room report draws what is found here.
"""

from __future__ import annotations

from pcer.auditing.policy import read_plan, read_policy
from pcer.auditing.record import (
    Audit,
    BudgetResult,
    audit_schema,
    read_audit,
    write_audit,
)

__all__ = [
    "Audit",
    "BudgetResult",
    "audit_schema",
    "read_audit",
    "read_plan",
    "read_policy",
    "write_audit",
]
