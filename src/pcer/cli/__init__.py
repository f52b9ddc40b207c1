"""The command line, and the parts of it that other distributions' verbs share."""

from __future__ import annotations

from pcer.cli.app import main
from pcer.cli.parts import (
    TRAINING,
    Display,
    display,
    from_options,
    log_run,
    require_packages,
    say,
    working,
)
from pcer.cli.process import peak_memory, processor

__all__ = [
    "TRAINING",
    "Display",
    "display",
    "from_options",
    "log_run",
    "main",
    "peak_memory",
    "processor",
    "require_packages",
    "say",
    "working",
]
