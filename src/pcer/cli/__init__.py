"""The command line; ``options``, ``outputs`` and ``progress`` hold what verbs share."""

from __future__ import annotations

from pcer.cli.app import main

__all__ = ["main"]
