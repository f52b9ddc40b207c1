"""Releases of any model."""

from __future__ import annotations

from pcer.models.arrays import release_from_predictions, releases_from_predictions

__all__ = ["release_from_predictions", "releases_from_predictions"]
