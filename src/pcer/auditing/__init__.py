"""What does a release show, and how is it said?

``audit.py`` leads from released statistics to an ``Audit`` (record.py). Numbers come
from the rooms measuring and paper; settings fills the records, attacks_compared says
what the other attacks show, sentences has the words, policy the rules that are broken.
The room report draws what is found here.
"""

from __future__ import annotations

from pcer.auditing.policy import read_plan, read_policy
from pcer.auditing.record import (
    Audit,
    SettingResult,
    read_audit,
    write_audit,
)

__all__ = [
    "Audit",
    "SettingResult",
    "read_audit",
    "read_plan",
    "read_policy",
    "write_audit",
]
