"""Tables of predictions of any size, counted by their database."""

from __future__ import annotations

from pcer.release.build import ReleaseFacts
from pcer.tables.release import releases_from_table
from pcer.tables.source import PredictionColumns

__all__ = ["PredictionColumns", "ReleaseFacts", "releases_from_table"]
