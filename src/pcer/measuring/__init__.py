"""What do the numbers of a release show, with which errors and p-values?

Called by the rooms below: ``attacks`` (alarms of made-up groups), ``paper``,
``auditing`` and ``deciding``. Arrays in, arrays out; sentences of a finding are made in
``auditing``.
"""

from __future__ import annotations

from pcer.measuring.plan import Plan, Policy, Verdict

__all__ = ["Plan", "Policy", "Verdict"]
