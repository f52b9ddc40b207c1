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

from pcer.errors import InputError
from pcer.files import read_regular
from pcer.store.blocks import refused_as

FEWEST_BYTES, MOST_BYTES = 16, 64
FEWEST_DISTINCT = 8
FEWEST_TURNS = 0.4  # per letter of base 64, where 0.6 is usual
LARGEST_FILE = 1_000_000
MAKE_ONE = "head -c 32 /dev/urandom"
_HEXADECIMAL = re.compile("[0-9a-fA-F]+")
_BASE_64 = re.compile("[A-Za-z0-9+/_-]{22,}={0,2}")
SECRET_BYTES = 32  # length of a secret that is made here


def state_folder() -> Path:
    """``$XDG_STATE_HOME/pcer``, or ``~/.local/state/pcer``."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "pcer"


def secret_name(secret: bytes) -> str:
    """What names a secret and tells nothing about it; empty for none."""
    return hashlib.sha256(b"pcer secret " + secret).hexdigest() if secret else ""


def new_secret() -> bytes:
    """Fresh random bytes, kept in the state folder under their own name; or OutputError."""
    secret = secrets.token_bytes(SECRET_BYTES)
    keep_secret(secret, secret_path(secret_name(secret)))
    return secret


def secret_path(name: str) -> Path:
    """Where a secret of this name is kept."""
    return state_folder() / f"{name[:32]}.secret"


def read_secret(path: Path) -> bytes:
    """A secret from its file; InputError where it is too short or too long, or could be guessed."""
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
    try:
        text = secret.decode().strip()
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        return len(set(secret)) >= FEWEST_DISTINCT
    digits = text.replace("-", "")
    if _HEXADECIMAL.fullmatch(digits):
        n_steps = sum(abs(ord(a) - ord(b)) <= 1 for a, b in pairwise(digits))
        is_long = len(digits) >= 2 * FEWEST_BYTES
        return is_long and 2 * n_steps < len(digits) and len(set(digits)) >= FEWEST_DISTINCT
    # Small letters, capital letters and others rarely take turns in words.
    n_turns = sum(a != b for a, b in pairwise((c.islower(), c.isupper()) for c in text))
    return _BASE_64.fullmatch(text) is not None and n_turns >= FEWEST_TURNS * len(text)


def keep_secret(secret: bytes, path: Path) -> None:
    """Write a secret that nobody else may read; never over another."""
    remedy = (
        "make room there, set XDG_STATE_HOME to a folder of yours, or name a secret of your own"
    )
    with refused_as(f"a secret cannot be kept in {path.parent}", remedy):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(secret)
            stream.flush()
            os.fsync(stream.fileno())
