"""The command line; ``options`` and ``outputs`` hold what verbs share."""

from __future__ import annotations

from pcer.cli.app import main

__all__ = ["main"]
