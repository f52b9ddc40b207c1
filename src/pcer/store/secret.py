"""Secrets of private records: made once, kept outside any folder that is handed over.

They lie in the user's state folder, readable by their owner only, each under a name that follows
from the secret itself. A folder or release that holds that name finds its secret again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from pcer.errors import InputError, OutputError

FEWEST_BYTES, MOST_BYTES = 16, 64
SECRET_BYTES = 32
"""Of a secret that is made here."""


def state_folder() -> Path:
    """``$XDG_STATE_HOME/pcer``, or ``~/.local/state/pcer``."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "pcer"


def secret_name(secret: bytes) -> str:
    """What names a secret and tells nothing about it; empty for none."""
    return hashlib.sha256(b"pcer secret " + secret).hexdigest() if secret else ""


def new_secret() -> bytes:
    """Fresh random bytes, kept in the state folder under their own name.

    Raises:
        OutputError: there is no place to keep it.
    """
    secret = secrets.token_bytes(SECRET_BYTES)
    keep_secret(secret, secret_path(secret_name(secret)))
    return secret


def secret_path(name: str) -> Path:
    """Where a secret of this name is kept."""
    return state_folder() / f"{name[:32]}.secret"


def read_secret(path: Path) -> bytes:
    """A secret from its file.

    Raises:
        InputError: it cannot be read, or is too short or too long.
    """
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"the secret {path} cannot be read ({error.strerror}); check the path."
        ) from None
    if not FEWEST_BYTES <= len(secret) <= MOST_BYTES:
        raise InputError(
            f"the secret {path} must hold {FEWEST_BYTES} to {MOST_BYTES} bytes, but holds "
            f"{len(secret)}."
        )
    return secret


def keep_secret(secret: bytes, path: Path) -> None:
    """Write a secret that nobody else may read; never over another."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(secret)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise OutputError(
            f"a secret cannot be kept in {path.parent} ({error.strerror}); make room there, set "
            "XDG_STATE_HOME to a folder of yours, or name a secret of your own."
        ) from None
