"""Ends a Ray node that pcer started, and removes its folder, once its driver is gone.

Ray's own helpers may live on for a minute after a kill, with a token on the disk. So this file runs
as a process of its own, with the standard library only: its standard input ends when the driver
closes it, or ends in any way. What belongs to the node is found by the folder's name, which no
other process has in its command line or among its open files.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE_SECONDS = 30
"""How long to go on while something of the node is still there."""

LOOK_SECONDS = 0.05

PROCESSES = Path("/proc")
"""Where Linux lists processes; elsewhere Ray's own helpers end by themselves."""


def main() -> None:
    """Wait for the driver, then clear up."""
    folder, driver = sys.argv[1], int(sys.argv[2])
    for name in ("SIGHUP", "SIGINT", "SIGTERM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear(folder, spare=driver)


def clear(folder: str, *, spare: int) -> None:
    """End every process of the node, and remove its folder.

    Args:
        folder: the node's own.
        spare: the driver, which may live on.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := [*_of_node(folder, spare)]) and time.monotonic() < deadline:
        for pid in found:
            _kill(pid)
        time.sleep(LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _of_node(folder: str, spare: int) -> Iterator[int]:
    """Living processes that name the folder or hold one of its files open."""
    for path in PROCESSES.glob("[0-9]*"):
        pid = int(path.name)
        if pid not in (spare, os.getpid()) and _names(path, folder) and _is_alive(path):
            yield pid


def _names(process: Path, folder: str) -> bool:
    try:
        if os.fsencode(folder) in (process / "cmdline").read_bytes():
            return True
        links = list((process / "fd").iterdir())
    except OSError:  # somebody else's, or gone
        return False
    return any(_target(link).startswith(f"{folder}/") for link in links)


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _is_alive(process: Path) -> bool:
    """Whether it is more than a record that its parent has not read yet."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


if __name__ == "__main__":
    main()
