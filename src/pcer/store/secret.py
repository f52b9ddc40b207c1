"""How are the secrets of private records made, kept and checked?

``pcer train`` and the estimators' releases make one for private records, or read one.
It is kept in the user's state folder, outside any folder that is handed over, readable
by its owner only, under a name derived from it, by which a folder finds it again. To
add a form of secrets: a case of ``read_secret``.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from pcer.errors import InputError, refused_as
from pcer.files import read_regular

FEWEST_BYTES = 16
MOST_BYTES = 64
FEWEST_DISTINCT = 8
FEWEST_DIGITS = 6  # of the ten, in a number
FEWEST_TURNS = 0.4  # per letter of base 64, where 0.6 is usual
LARGEST_FILE = 1_000_000
MAKE_ONE = "head -c 32 /dev/urandom"
_HEXADECIMAL = re.compile("[0-9a-fA-F]+")
_BASE_64 = re.compile("[A-Za-z0-9+/_-]{22,}={0,2}")
SECRET_BYTES = 32  # length of a secret that is made here


def state_folder() -> Path:
    """``$XDG_STATE_HOME/pcer``, or ``~/.local/state/pcer``."""
    named = os.environ.get("XDG_STATE_HOME")
    folder = Path(named) if named else Path.home() / ".local" / "state"
    return folder / "pcer"


def secret_name(secret: bytes) -> str:
    """A name derived from a secret that reveals nothing about it; empty for none."""
    return hashlib.sha256(b"pcer secret " + secret).hexdigest() if secret else ""


def new_secret() -> bytes:
    """Fresh random bytes, kept in the state folder; OutputError if they cannot be."""
    secret = secrets.token_bytes(SECRET_BYTES)
    keep_secret(secret, secret_path(secret_name(secret)))
    return secret


def secret_path(name: str) -> Path:
    """Where a secret of this name is kept."""
    return state_folder() / f"{name[:32]}.secret"


def read_secret(path: Path) -> bytes:
    """A secret from its file; InputError unless ``require_random`` accepts it."""
    try:
        secret = read_regular(path, max_bytes=LARGEST_FILE)
    except InputError as error:
        raise InputError(f"the secret: {error}") from None
    require_random(secret, f"the secret {path}", make=f"{MAKE_ONE} > {path.name}")
    return secret


def require_random(secret: bytes, name: str, *, make: str) -> None:
    """Raise InputError where a secret is too short or too long, or could be guessed."""
    if not FEWEST_BYTES <= len(secret) <= MOST_BYTES:
        n = len(secret)
        fault = f"must hold {FEWEST_BYTES} to {MOST_BYTES} bytes, but holds {n}"
    elif not _is_random(secret):
        fault = (
            "looks like words or a pattern, can be guessed, and a release holds its "
            "digest"
        )
    else:
        return
    raise InputError(f"{name} {fault}; make one with: {make}", field="secret")


def _is_random(secret: bytes) -> bool:
    """Whether it looks random as bytes, hexadecimal or base 64; other text is words."""
    # A random one is refused about once in a million in bytes or hexadecimal, in fifty
    # in base 64.
    try:
        text = secret.decode().strip()
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        return len(set(secret)) >= FEWEST_DISTINCT
    digits = text.replace("-", "")
    if _HEXADECIMAL.fullmatch(digits):
        return _are_random_digits(digits)
    if _BASE_64.fullmatch(text) is None:
        return False
    # Lower case, upper case and others alternate more than in words.
    kinds = [(letter.islower(), letter.isupper()) for letter in text]
    n_turns = sum(a != b for a, b in pairwise(kinds))
    return n_turns >= FEWEST_TURNS * len(text)


def is_random_number(number: int) -> bool:
    """Whether a number from 2^64 on shows no pattern in either way of writing it.

    >>> is_random_number(2**64), is_random_number(10**30), is_random_number(7**30)
    (False, False, True)
    """
    digits = f"{number:x}"
    is_long = len(digits) >= FEWEST_BYTES
    differ = len(set(digits)) >= FEWEST_DISTINCT
    return is_long and differ and len(set(str(number))) >= FEWEST_DIGITS


def _are_random_digits(digits: str) -> bool:
    """Whether hexadecimal digits are enough, differ, and do not count up or down."""
    n_steps = sum(abs(ord(a) - ord(b)) <= 1 for a, b in pairwise(digits))
    is_long = len(digits) >= 2 * FEWEST_BYTES
    differs = len(set(digits)) >= FEWEST_DISTINCT
    return is_long and differs and 2 * n_steps < len(digits)


def keep_secret(secret: bytes, path: Path) -> None:
    """Write a secret for its owner only, whole or not at all; an existing one stays."""
    remedy = (
        "free space there, set XDG_STATE_HOME to your own folder, or name your own "
        "secret file"
    )
    with refused_as(f"a secret cannot be kept in {path.parent}", remedy):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}."
        ) as stream:
            stream.write(secret)
            stream.flush()
            os.fsync(stream.fileno())
            with suppress(FileExistsError):  # another process was first
                os.link(stream.name, path)
