"""Secrets of private records: made once, kept outside any folder that is handed over.

They lie in the user's state folder, readable by their owner only, each under a name that follows
from the secret itself. A folder or release that holds that name finds its secret again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from itertools import pairwise
from pathlib import Path

from pcer.errors import InputError, OutputError
from pcer.files import read_regular

FEWEST_BYTES, MOST_BYTES = 16, 64
FEWEST_DISTINCT = 8
FEWEST_TURNS = 0.4
"""Per letter of base 64, where 0.6 is usual."""
LARGEST_FILE = 1_000_000
MAKE_ONE = "head -c 32 /dev/urandom"
_HEXADECIMAL = re.compile("[0-9a-fA-F]+")
_BASE_64 = re.compile("[A-Za-z0-9+/_-]{22,}={0,2}")
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
        InputError: it cannot be read, is too short or too long, or could be guessed.
    """
    try:
        secret = read_regular(path, max_bytes=LARGEST_FILE)
    except InputError as error:
        raise InputError(f"the secret: {error}") from None
    if not FEWEST_BYTES <= len(secret) <= MOST_BYTES:
        raise InputError(
            f"the secret {path} must hold {FEWEST_BYTES} to {MOST_BYTES} bytes, but holds "
            f"{len(secret)}; make one with: {MAKE_ONE} > {path.name}"
        )
    if not _is_random(secret):
        raise InputError(
            f"the secret {path} looks like words or a pattern, which can be guessed, and a release "
            f"holds its digest; make a random one with: {MAKE_ONE} > {path.name}"
        )
    return secret


def _is_random(secret: bytes) -> bool:
    """Whether it can be the work of a random generator, in bytes, hexadecimal or base 64.

    Text in any other form counts as words. Bytes and hexadecimal are hardly ever taken for such
    (once in a million); base 64 now and then (once in fifty), which costs its owner one command.
    """
    text = _text_of(secret)
    if text is None:
        return len(set(secret)) >= FEWEST_DISTINCT
    digits = text.replace("-", "")
    if _HEXADECIMAL.fullmatch(digits):
        steps = sum(abs(ord(one) - ord(other)) <= 1 for one, other in pairwise(digits))
        is_long = len(digits) >= 2 * FEWEST_BYTES
        return is_long and 2 * steps < len(digits) and len(set(digits)) >= FEWEST_DISTINCT
    return _BASE_64.fullmatch(text) is not None and _turns(text) >= FEWEST_TURNS * len(text)


def _text_of(secret: bytes) -> str | None:
    """The text that a secret is, if it is one."""
    try:
        text = secret.decode().strip()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _turns(text: str) -> int:
    """How often small letters, capital letters and others take turns: rarely in words."""
    kinds = [(letter.islower(), letter.isupper()) for letter in text]
    return sum(one != other for one, other in pairwise(kinds))


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
