"""The audit: from released statistics to verdicts, tests and words."""

from __future__ import annotations

from pcer.auditing.compare import Changes, ChangeVerdict, Trend
from pcer.auditing.file import (
    Audit,
    BudgetResult,
    audit_schema,
    read_audit,
    write_audit,
)
from pcer.auditing.plan import Plan, Policy
from pcer.auditing.planner import Outlook, detectable
from pcer.auditing.policy import read_policy
from pcer.auditing.recommend import Recommendation
from pcer.auditing.verdict import Verdict

__all__ = [
    "Audit",
    "BudgetResult",
    "ChangeVerdict",
    "Changes",
    "Outlook",
    "Plan",
    "Policy",
    "Recommendation",
    "Trend",
    "Verdict",
    "audit_schema",
    "detectable",
    "read_audit",
    "read_policy",
    "write_audit",
]
