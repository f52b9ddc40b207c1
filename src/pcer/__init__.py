"""pcer audits who pays for privacy: exposure and outcomes of groups, honest errors.

The auditor's half: ``read_release``, ``audit``, ``Audit.to_json``. It works without
torch, scikit-learn or pandas.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pcer import metrics
from pcer._version import __version__
from pcer.auditing.audit import assert_within, audit
from pcer.auditing.record import Audit, write_audit
from pcer.deciding.compare import Changes, compare
from pcer.deciding.planner import Outlook, detectable
from pcer.deciding.recommend import Recommendation, recommend
from pcer.deciding.trend import Trend, trend
from pcer.errors import InputError, OutputError, PcerError, PlanError
from pcer.measuring.plan import Plan, Policy, Verdict
from pcer.models import About, release_from_predictions, releases_from_predictions
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release, read_release, write_release

if TYPE_CHECKING:
    from pcer.models.estimator import release_from_estimator, release_from_training
    from pcer.models.signals import release_from_signals

__all__ = [
    "About",
    "Audit",
    "Changes",
    "Disclosure",
    "InputError",
    "Outlook",
    "OutputError",
    "PcerError",
    "Plan",
    "PlanError",
    "Policy",
    "Recommendation",
    "Release",
    "Trend",
    "Verdict",
    "__version__",
    "assert_within",
    "audit",
    "compare",
    "detectable",
    "metrics",
    "read_release",
    "recommend",
    "release_from_estimator",
    "release_from_predictions",
    "release_from_signals",
    "release_from_training",
    "releases_from_predictions",
    "trend",
    "write_audit",
    "write_release",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Load the trainer's half on first use."""
    if name == "data":
        return importlib.import_module("pcer.data")
    if name in ("release_from_estimator", "release_from_training"):
        return getattr(importlib.import_module("pcer.models.estimator"), name)
    if name == "release_from_signals":
        return importlib.import_module("pcer.models.signals").release_from_signals
    raise AttributeError(f"module 'pcer' has no attribute {name!r}")
