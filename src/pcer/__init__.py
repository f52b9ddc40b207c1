"""pcer audits who pays for privacy: benefit and privacy cost per group, with honest errors.

The auditor's half: ``read_release``, ``audit``, ``Audit.to_json``. It works without torch,
scikit-learn or pandas.
"""

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from pcer import metrics
from pcer._version import __version__
from pcer.auditing.audit import audit
from pcer.auditing.compare import compare
from pcer.auditing.compare_words import Changes
from pcer.auditing.file import Audit, write_audit
from pcer.auditing.plan import Plan, Policy
from pcer.auditing.planner import Outlook, detectable
from pcer.auditing.verdict import Verdict
from pcer.errors import InputError, OutputError, PcerError, PlanError
from pcer.models import Options, release_from_predictions, releases_from_predictions
from pcer.release.format import Release, Shown, read_release, write_release

if TYPE_CHECKING:
    from pcer.models import release_from_estimator

__all__ = [
    "Audit",
    "Changes",
    "InputError",
    "Options",
    "Outlook",
    "OutputError",
    "PcerError",
    "Plan",
    "PlanError",
    "Policy",
    "Release",
    "Verdict",
    "__version__",
    "audit",
    "compare",
    "detectable",
    "metrics",
    "read_release",
    "release_from_estimator",
    "release_from_predictions",
    "releases_from_predictions",
    "write_audit",
    "write_release",
]


# What draws audits and releases: loaded when the first of them is looked at.
Shown.drawings = partial(importlib.import_module, "pcer.report")


def __getattr__(name: str) -> Any:
    """Load what belongs to the trainer's half when it is first asked for."""
    if name == "data":
        return importlib.import_module("pcer.data")
    if name == "release_from_estimator":
        return importlib.import_module("pcer.models").release_from_estimator
    raise AttributeError(f"module 'pcer' has no attribute {name!r}")
