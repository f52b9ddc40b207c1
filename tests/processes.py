"""Processes of this machine as the kernel lists them: who started whom, and who is left."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")  # every thread has its own
    below = {int(each) for path in threads for each in _read(path).split()}
    return below.union(*map(descendants, below))


def title(pid: int) -> str:
    """The command line; empty for a process that has ended."""
    return _read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode()


def marked(mark: str) -> set[int]:
    """Living processes whose environment holds a text."""
    processes = [p for p in Path("/proc").glob("[0-9]*") if mark.encode() in _read(p / "environ")]
    return alive({int(path.name) for path in processes})


def _read(path: Path) -> bytes:
    """A file of the kernel; nothing where its process has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if title(pid)}


def until(found: Callable[[], object], running: subprocess.Popen[str]) -> object:
    """Wait for something while a process runs; ask often."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.005)
    raise AssertionError("it never happened")


def require_gone(left: Callable[[], set[int]], *, within: float = 90) -> None:
    """Wait until no process is left."""
    deadline = time.monotonic() + within
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [title(pid) for pid in left()]
