"""The audit: from released statistics to verdicts, tests and words."""

from __future__ import annotations

from pcer.auditing.policy import read_policy
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
    "read_policy",
    "write_audit",
]
