"""The command line; ``pcer.cli.parts`` holds what its verbs share."""

from __future__ import annotations

from pcer.cli.app import main

__all__ = ["main"]
