"""Releases of any model, from predictions, estimators, functions or signals.

``pcer.models.estimator`` and what calls it need attacks; loaded on first use.
"""

from __future__ import annotations

from pcer.models.about import About
from pcer.models.arrays import release_from_predictions, releases_from_predictions
from pcer.models.training import folder_first, object_named

__all__ = [
    "About",
    "folder_first",
    "object_named",
    "release_from_predictions",
    "releases_from_predictions",
]
