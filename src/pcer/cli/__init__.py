"""The command line."""

from __future__ import annotations

from pcer.cli.app import main
from pcer.cli.train import require_training

__all__ = ["main", "require_training"]
