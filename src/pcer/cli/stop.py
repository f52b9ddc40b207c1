"""Asked to stop by the system (SIGTERM) or left by its terminal (SIGHUP): one sentence and out.

The first such signal becomes an exception in the main thread, so that workers are ended, locks
given back and staged files removed on the way out. Should that take long, the process ends without
it: nothing depends on it, as workers die with their parent and files are written whole or not at
all.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pcer.errors import shown

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Windows has no SIGHUP."""

GRACE_SECONDS = 3.0
"""How long the way out may take."""

SIGNALLED = 128
"""Exit codes of what a signal ended begin here, as shells count them."""


_kept: list[Callable[[], str]] = []
"""What running commands keep, the innermost last; a process has one set of signals."""


class Stopped(BaseException):
    """A signal asks us to stop; only ``main`` catches it.

    Attributes:
        signal_number: which.
        is_told: whether the reader knows.
    """

    def __init__(self, signal_number: int, kept: str = "") -> None:
        super().__init__(signal_number, kept)
        self.signal_number, self.kept = signal_number, kept
        self.is_told = False

    @property
    def exit_code(self) -> int:
        """143 for SIGTERM, 129 for SIGHUP."""
        return SIGNALLED + self.signal_number

    def tell(self) -> None:
        """Say so on stderr, once."""
        if not self.is_told:
            self.is_told = True
            kept = f"; {self.kept}; run the same command again to go on" if self.kept else ""
            print(shown(f"pcer: stopped{kept}."), file=sys.stderr, flush=True)


@contextmanager
def keeping(words: Callable[[], str]) -> Iterator[None]:
    """While something runs, what to tell who stops it.

    Args:
        words: what would not be lost now.
    """
    _kept.append(words)
    try:
        yield
    finally:
        _kept.pop()


def listen() -> None:
    """From now on the signals stop us; one that we were started to ignore (nohup) stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for one in SIGNALS:  # often it comes twice: to us, and to our group
        signal.signal(one, signal.SIG_IGN)
    stopped = Stopped(number, _kept[-1]() if _kept else "")
    backstop = threading.Timer(GRACE_SECONDS, _leave, [stopped])
    backstop.daemon = True
    backstop.start()
    raise stopped


def _leave(stopped: Stopped) -> None:
    """End at once, wherever the main thread is."""
    stopped.tell()
    os._exit(stopped.exit_code)
