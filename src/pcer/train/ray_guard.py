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
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 30  # how long to go on while something of the node is still there
LOOK_SECONDS = 0.05
PROCESSES = Path("/proc")  # as Linux lists them; elsewhere Ray's own helpers end by themselves


def main() -> None:
    """Wait for the driver, then end every process of the node and remove its folder."""
    folder, driver = sys.argv[1], int(sys.argv[2])
    for name in ("SIGHUP", "SIGINT", "SIGTERM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.stdin.buffer.read()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        living = {int(p.name) for p in PROCESSES.glob("[0-9]*") if _is_of_node(p, folder)}
        if not living - {driver, os.getpid()}:  # the driver may live on
            break
        for pid in living - {driver, os.getpid()}:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _is_of_node(process: Path, folder: str) -> bool:
    """Whether a living process names the folder or holds one of its files open."""
    with suppress(OSError):  # somebody else's, or gone
        if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False  # only a record that its parent has not read yet
        if os.fsencode(folder) in (process / "cmdline").read_bytes():
            return True
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(link).startswith(f"{folder}/"):
                    return True
    return False


if __name__ == "__main__":
    main()
