"""pcer audits who pays for privacy: exposure and outcomes of groups, honest errors.

The auditor's half: ``read_release``, ``audit``, ``Audit.to_json``. It works without
torch, scikit-learn or pandas. ``import pcer`` itself loads next to nothing: a name is
loaded from its home when it is first used. To add one: its row of ``HOMES``, its place
in ``__all__``, and its import for type checkers.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, Final

from pcer._version import __version__

if TYPE_CHECKING:
    from pcer import metrics
    from pcer.auditing.audit import assert_within, audit
    from pcer.auditing.record import Audit, write_audit
    from pcer.deciding.compare import Changes, compare
    from pcer.deciding.planner import Outlook, detectable
    from pcer.deciding.recommend import Recommendation, recommend
    from pcer.deciding.trend import Trend, trend
    from pcer.errors import InputError, OutputError, PcerError, PlanError
    from pcer.measuring.plan import Plan, Policy, Verdict
    from pcer.models import (
        About,
        release_from_predictions,
        releases_from_predictions,
    )
    from pcer.models.estimator import release_from_estimator, release_from_training
    from pcer.models.signals import release_from_signals
    from pcer.models.synthetic import (
        release_from_synthesizer,
        release_from_synthetic,
    )
    from pcer.release.disclosure import Disclosure
    from pcer.release.file import Release, read_release, write_release

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
    "release_from_synthesizer",
    "release_from_synthetic",
    "release_from_training",
    "releases_from_predictions",
    "trend",
    "write_audit",
    "write_release",
]


# Where the public names are at home.
HOMES: Final = {
    "About": "models",
    "Audit": "auditing.record",
    "Changes": "deciding.compare",
    "Disclosure": "release.disclosure",
    "InputError": "errors",
    "Outlook": "deciding.planner",
    "OutputError": "errors",
    "PcerError": "errors",
    "Plan": "measuring.plan",
    "PlanError": "errors",
    "Policy": "measuring.plan",
    "Recommendation": "deciding.recommend",
    "Release": "release.file",
    "Trend": "deciding.trend",
    "Verdict": "measuring.plan",
    "assert_within": "auditing.audit",
    "audit": "auditing.audit",
    "compare": "deciding.compare",
    "detectable": "deciding.planner",
    "read_release": "release.file",
    "recommend": "deciding.recommend",
    "release_from_estimator": "models.estimator",
    "release_from_predictions": "models",
    "release_from_signals": "models.signals",
    "release_from_synthesizer": "models.synthetic",
    "release_from_synthetic": "models.synthetic",
    "release_from_training": "models.estimator",
    "releases_from_predictions": "models",
    "trend": "deciding.trend",
    "write_audit": "auditing.record",
    "write_release": "release.file",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Load a public name, or a room of the package, on first use."""
    if name in HOMES:
        found = getattr(importlib.import_module(f"pcer.{HOMES[name]}"), name)
        globals()[name] = found
        return found
    if not name.startswith("_") and importlib.util.find_spec(f"pcer.{name}"):
        return importlib.import_module(f"pcer.{name}")
    raise AttributeError(f"module 'pcer' has no attribute {name!r}")
