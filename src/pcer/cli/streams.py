"""Standard output and standard error as a command line needs them.

A reader may leave early, as ``head`` does: then the rest goes nowhere, and the exit code still says
what was found. A full disk is one sentence. What the system's encoding lacks is written plainly: a
minus sign stays a minus.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any, TextIO

from pcer.errors import OutputError

LEFT = (errno.EPIPE, errno.ESHUTDOWN, *([errno.EINVAL] if os.name == "nt" else []))
"""What a system answers who writes into a pipe that nobody reads any more."""

COLUMNS, NARROWEST, WIDEST = "COLUMNS", 20, 100_000

PLAIN = {"─": "-", "−": "-", "–": "-", "—": "-", "±": "+-", "ε": "e", "…": "..."}
"""Signs of our tables for encodings that lack them."""


class _Pipe(io.FileIO):
    """A file or a pipe that stops taking part once it could not be written to."""

    is_gone = False

    def write(self, data: Any) -> int:
        """Write, or drop what nobody can receive."""
        if not self.is_gone:
            try:
                return super().write(data)
            except OSError as error:
                self.is_gone = True
                if error.errno not in LEFT:
                    raise OutputError(
                        f"standard output cannot be written ({error.strerror}); name a file on a "
                        "disk with room."
                    ) from None
        return memoryview(data).nbytes


def steady(stream: TextIO | None) -> TextIO:
    """One of the interpreter's own streams, made steady; a stream that is closed goes nowhere."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper) or stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    codecs.register_error("plainly", _plainly)
    if stream.isatty():
        stream.reconfigure(errors="plainly")
        return stream
    buffer = io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        buffer, stream.encoding, "plainly", line_buffering=stream.line_buffering
    )


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """What to write for characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in lacking), error.end


def require_width() -> None:
    """Forget a width that no terminal has, which would leave pages empty."""
    width = os.environ.get(COLUMNS, str(NARROWEST))
    if not (width.isdecimal() and NARROWEST <= int(width) < WIDEST):
        del os.environ[COLUMNS]


def require_stdout() -> None:
    """Raise OutputError where standard output was closed before we began."""
    if sys.__stdout__ is None:
        raise OutputError("standard output is closed; name a file instead of -.")
