"""Tables of predictions of any size, counted by their database."""

from __future__ import annotations

from pcer.release.build import ReleaseFacts
from pcer.tables.release import PredictionColumns, releases_from_table

__all__ = ["PredictionColumns", "ReleaseFacts", "releases_from_table"]
