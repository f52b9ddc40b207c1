"""What may stop a command: signals, its streams, the limits of the machine?

SIGTERM or SIGHUP becomes an exception in the main thread, so that workers end, locks
are released and staged files removed; if that takes long, the process ends without it.
The reader of standard output may leave early, as ``head`` does. Characters that an
encoding lacks get plain substitutes. ``cli.app`` and ``outputs`` call this file. To add
a signal: a row of ``SIGNALS``.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO

from pcer.errors import OutputError, printable

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
GRACE_SECONDS = 3.0  # time for cleaning up
SIGNALLED = 128  # added to a signal's number for the exit code, as shells do
PIPE_CLOSED = (
    errno.EPIPE,
    errno.ESHUTDOWN,
    *([errno.EINVAL] if os.name == "nt" else []),
)
# Substitutes for encodings that lack these characters.
PLAIN = dict.fromkeys("─−–—·", "-") | {
    "±": "+-",
    "ε": "e",
    "…": "...",
    "Δ": "D",
    "δ": "d",
}
# Patterns of system errors, by what the machine lacks.
LACKS = {
    "memory": r"allocate memory|out of memory|failed to map segment|bad.alloc",
    "processes or threads": r"can't start new thread|resource temporarily unavailable",
    "open files": r"too many open files",
    "room on the disk": r"no space left on device",
}

# What running commands keep, in words for a stopped command; the innermost last.
KEPT: list[Callable[[], str]] = []


class Stopped(BaseException):
    """A signal asked us to stop; carries what is kept. Only ``main`` catches it."""

    def __init__(self, signal_number: int, kept: str = "") -> None:
        super().__init__(signal_number, kept)
        self.exit_code = SIGNALLED + signal_number
        self.kept = kept
        self._is_shown = False

    def tell(self) -> None:
        """Say on stderr, once, that we were stopped and what is kept."""
        if not self._is_shown:
            self._is_shown = True
            sentence = "pcer: stopped"
            if self.kept:
                sentence += f"; {self.kept}; run the same command again to resume"
            print(printable(f"{sentence}."), file=sys.stderr, flush=True)


def listen() -> None:
    """Handle the signals from now on, but for those ignored at the start (nohup)."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    # It often comes twice: to us and to our group.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    stopped = Stopped(number, KEPT[-1]() if KEPT else "")
    backstop = threading.Timer(GRACE_SECONDS, _leave, [stopped])
    backstop.daemon = True
    backstop.start()
    raise stopped


def _leave(stopped: Stopped) -> None:
    """End at once, wherever the main thread is."""
    stopped.tell()
    os._exit(stopped.exit_code)


class _Pipe(io.FileIO):
    """A file or a pipe that drops everything after a failed write."""

    is_gone = False

    def write(self, data: Any) -> int:
        """Write, or drop what cannot be received."""
        if not self.is_gone:
            try:
                return super().write(data)
            except OSError as error:
                self.is_gone = True
                if error.errno not in PIPE_CLOSED:
                    raise OutputError(
                        f"standard output cannot be written ({error.strerror}); name "
                        "a file on a disk with room."
                    ) from None
        return memoryview(data).nbytes


def steady(stream: TextIO | None) -> TextIO:
    """Wrap stdout or stderr so that writing cannot fail; a closed one drops all."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper) or stream not in (
        sys.__stdout__,
        sys.__stderr__,
    ):
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
    """Substitutes for characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in lacking), error.end


def require_width() -> None:
    """Ignore an impossible width, which would leave pages empty."""
    width = os.environ.get("COLUMNS", "80")
    if not (width.isdecimal() and 20 <= int(width) < 100_000):
        del os.environ["COLUMNS"]


def require_stdout() -> None:
    """Raise OutputError where standard output was closed before we began."""
    if sys.__stdout__ is None:
        raise OutputError("standard output is closed; name a file instead of -.")


def what_lacks(error: BaseException) -> str | None:
    """What the machine ran out of, if that is what an error says; else None.

    Every library says it in other words.

    >>> what_lacks(OSError(24, "Too many open files"))
    'open files'
    """
    if isinstance(error, MemoryError):
        return "memory"
    text = f"{type(error).__name__} {error} {error.__cause__}".lower()
    for what, words in LACKS.items():
        if re.search(words, text):
            return what
    return None
