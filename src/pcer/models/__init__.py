"""Releases of any model, from predictions, estimators, functions or signals.

``pcer.models.estimator`` and what calls it need attacks; loaded on first use.
"""

from __future__ import annotations

from pcer.errors import door
from pcer.models import arrays
from pcer.models.labels import folder_first, object_named
from pcer.models.options import Options, option_remedies

__all__ = [
    "Options",
    "folder_first",
    "object_named",
    "release_from_predictions",
    "releases_from_predictions",
]

release_from_predictions = door(option_remedies)(arrays.release_from_predictions)
releases_from_predictions = door(option_remedies)(arrays.releases_from_predictions)
