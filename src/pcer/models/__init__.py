"""Releases of any model.

What fits estimators also attacks them, and is loaded when it is first asked for: an auditor needs
neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcer.models.arrays import release_from_predictions, releases_from_predictions
from pcer.models.labels import folder_first, object_named
from pcer.models.options import Options

if TYPE_CHECKING:
    from pcer.models.estimator import release_from_estimator

__all__ = [
    "Options",
    "folder_first",
    "object_named",
    "release_from_estimator",
    "release_from_predictions",
    "releases_from_predictions",
]


def __getattr__(name: str) -> Any:
    if name == "release_from_estimator":
        from pcer.models.estimator import release_from_estimator

        return release_from_estimator
    raise AttributeError(f"module 'pcer.models' has no attribute {name!r}")
