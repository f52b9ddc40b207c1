"""What a command ran on: the kind of processor, and how much memory all its processes took."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

MIB = 2**20


def processor() -> str:
    """The kind of processor.

    >>> bool(processor())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


LACKS = {
    "memory": (
        "allocate memory",
        "out of memory",
        "failed to map segment",
        "bad allocation",
        "bad_alloc",
    ),
    "processes or threads": ("can't start new thread", "resource temporarily unavailable"),
    "open files": ("too many open files",),
    "room on the disk": ("no space left on device",),
}
"""What a system calls it, by what it lacks."""


def what_lacks(error: BaseException) -> str | None:
    """What the machine ran out of, if that is what an error says; every library says it otherwise.

    >>> what_lacks(OSError(24, "Too many open files"))
    'open files'
    """
    told = f"{type(error).__name__} {error} {error.__cause__}".lower()
    if isinstance(error, MemoryError):
        return "memory"
    return next((what for what, words in LACKS.items() if any(one in told for one in words)), None)


def peak_memory() -> float | None:
    """MiB: the sum of the peaks of this process and of its children, alive or gone.

    An upper bound, since peaks need not coincide. Where the system lists no children, those
    that have ended count with the largest of them. None where the system does not tell (Windows).
    """
    try:
        import resource
    except ImportError:
        return None
    unit = 1024 if sys.platform != "darwin" else 1
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    alive = sum(_peak_of(pid) for pid in _children(os.getpid()))
    gone = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    return float(own + max(alive, gone)) / MIB


def _children(pid: int) -> list[int]:
    """Processes below this one, on Linux."""
    try:
        text = " ".join(
            path.read_text("ascii") for path in Path(f"/proc/{pid}/task").glob("*/children")
        )
    except OSError:
        return []
    direct = [int(word) for word in text.split()]
    return direct + [below for child in direct for below in _children(child)]


def _peak_of(pid: int) -> int:
    """Bytes; 0 for a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
