"""One owner a folder, on every system."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pcer.errors import InputError, OutputError

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; it is free again when the process ends, however it ends.

    The system drops the lock. A file system without locks gets a file with the owner's process
    number instead, which does not count once that process is gone.
    """
    lock = _locked(folder)
    try:
        yield
    finally:
        lock.release()


def _locked(folder: Path) -> BaseFileLock:
    with warnings.catch_warnings():  # filelock remarks on systems without locks
        warnings.filterwarnings("ignore", message=".*soft ?file ?lock", category=UserWarning)
        from filelock import FileLock, Timeout

        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / LOCK, timeout=0)
            lock.acquire()
        except Timeout:
            raise InputError(
                f"{folder} is in use by another process; wait for it, or choose another folder."
            ) from None
        except OSError as error:
            raise OutputError(
                f"{folder} cannot be made ({error.strerror}); choose a folder that you may write "
                "to."
            ) from None
    return lock
