"""Settings x seeds through training into releases: durable and resumable."""

from __future__ import annotations

from pcer.sweep.run import Sweep, begun_with, is_finished, run_sweep

__all__ = ["Sweep", "begun_with", "is_finished", "run_sweep"]
