"""One owner a folder, on every system."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pcer.errors import InputError, OutputError

LOCK = ".lock"
OWNERS_FOLDER, OWNERS_FILE = 0o700, 0o600
"""Modes of what nobody else may read; systems without modes pass over them."""


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; it is free again when the process ends, however it ends.

    The system drops the lock. A file system without locks gets a file with the owner's process
    number instead, which does not count once that process is gone.

    Nobody else can read the folder, nor what lies in it; what an older version left open to others
    is closed to them.
    """
    with warnings.catch_warnings():  # filelock remarks on systems without locks
        warnings.filterwarnings("ignore", message=".*soft ?file ?lock", category=UserWarning)
        from filelock import FileLock, Timeout

        try:
            folder.mkdir(parents=True, exist_ok=True, mode=OWNERS_FOLDER)
            lock = FileLock(folder / LOCK, timeout=0, mode=OWNERS_FILE)
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
    try:
        for path in (folder, *folder.iterdir()):
            with suppress(OSError):
                if path == folder or (path.is_file() and not path.is_symlink()):
                    path.chmod(OWNERS_FOLDER if path == folder else OWNERS_FILE)
        yield
    finally:
        lock.release()
