"""Commands that start quickly where Jupyter is installed too."""

from __future__ import annotations

import sys

UNUSED = "rfc3987_syntax"
"""Builds a grammar of web addresses when it is imported, which takes seconds. Jupyter installs it,
jsonschema imports it where it is, and altair imports jsonschema. No chart has such addresses."""


def leave_out() -> None:
    """Let libraries take it for not installed, in this process.

    Only for a command's own process: where pcer is a library, the process is somebody else's.
    """
    sys.modules.setdefault(UNUSED, None)  # type: ignore[arg-type]


def let_in() -> None:
    """Take that back, for code that is not ours."""
    if sys.modules.get(UNUSED, UNUSED) is None:
        del sys.modules[UNUSED]
