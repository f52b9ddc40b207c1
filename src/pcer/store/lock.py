"""One owner a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pcer.errors import InputError, OutputError

LOCK = ".lock"


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system drops it when the process ends, however it ends."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder} is in use by another sweep; wait for it, or choose another folder."
        ) from None
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made ({error.strerror}); choose a folder that you may write to."
        ) from None
    try:
        yield
    finally:
        lock.release()
