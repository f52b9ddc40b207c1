"""The command line; ``pcer.cli.parts`` has what verbs of other distributions share."""

from __future__ import annotations

from pcer.cli.app import main

__all__ = ["main"]
