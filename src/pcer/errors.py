"""Which errors does pcer raise, and how is text from others printed safely?

Every room raises these errors, and checks arguments with the ``require_`` functions.
Every message is one sentence that names the file or argument, the field and the remedy.
Text that others may have written (names of files, fields, columns, groups) goes through
``printable``. To add an error: a subclass of ``PcerError`` that a caller would catch by
itself.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

# Invisible but harmless: names in many scripts, and many emoji, contain them.
JOINERS = "\u200c\u200d"
LONGEST_CODE = 60  # characters of a value in a call
LONGEST_SENTENCE = 2_000  # characters of a message; a file may hold a name of millions


def printable(text: str, *, keep: str = "") -> str:
    r"""Text from others, safe for any output: invisible characters are spelt out.

    Control characters, direction marks, line separators, lone surrogates and unassigned
    characters become ``\u`` and their number. Spaces, joiners and characters in
    ``keep`` stay.

    >>> printable("a\x1b[31m \u202e b")
    'a\\u001b[31m \\u202e b'
    """
    if text.isascii() and text.isprintable():
        return text
    letters = set(text) - {*JOINERS, *keep}
    unseen = [letter for letter in letters if not _is_seen(letter)]
    if not unseen:
        return text
    return text.translate({ord(letter): escaped(letter) for letter in unseen})


def clipped(text: str, longest: int = 60) -> str:
    """The beginning of a long text."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def escaped(character: str) -> str:
    """A character by its number, as JSON writes it: beyond 16 bits as two halves."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return re.sub("....", r"\\u\g<0>", units)


def normalised(name: str) -> str:
    """A name as a reader sees it: equal for two that look the same.

    It is in NFKC and lower case, without invisible characters, with single spaces; it
    is empty if nothing is visible.
    """
    if not (name.isascii() and name.isprintable()):  # fast path: almost all names
        name = unicodedata.normalize("NFKC", "".join(filter(_is_seen, name))).casefold()
        name = unicodedata.normalize("NFKC", name)
    return " ".join(name.casefold().split())


def confusable(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that look the same, or None."""
    seen: dict[str, str] = {}
    for name in names:
        for form in {f"seen: {normalised(name)}", f"shown: {printable(name)}"}:
            other = seen.setdefault(form, name)
            if other != name:
                return other, name
    return None


def _is_seen(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


class PcerError(Exception):
    """Anything pcer refuses; the command line prints one sentence and exits with 2.

    Attributes:
        field: the argument, option or path to a field of a file (``runs[3].seed``) that
            is wrong; None where there is none.
    """

    def __init__(self, sentence: object = "", *, field: str | None = None) -> None:
        super().__init__(printable(clipped(str(sentence), LONGEST_SENTENCE)))
        self.field = field


class InputError(PcerError, ValueError):
    """A file, a table or an argument that was given cannot be used as it is."""


class FetchError(InputError):
    """A dataset could not be downloaded; the cache is unchanged."""


class PlanError(PcerError, ValueError):
    """The plan asks for something that this release does not carry."""


class OutputError(PcerError):
    """A result could not be written; no partial file is left."""


def as_code(value: object) -> str:
    """A value as one would type it; dots for what is long, or an object."""
    is_plain = isinstance(value, str | int | float | dict | list | None)
    text = repr(value) if is_plain else "..."
    return text if len(text) <= LONGEST_CODE else "..."


@contextmanager
def refused_as(fault: str, remedy: str) -> Iterator[None]:
    """Tell in one OutputError what the system refuses."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{fault} ({error.strerror or error}); {remedy}.") from None


def not_installed(name: str, *, extra: str, needed_by: str) -> InputError:
    """An error with the command that installs a missing package of an extra."""
    command = f'in a clone of pcer run: pip install ".[{extra}]"'
    return InputError(f"{needed_by} needs {name}, which is not installed; {command}")


def require_positive(**arguments: float) -> None:
    """Raise InputError unless every named argument is a finite number above 0."""
    _require("be a finite number above 0", lambda n: 0 < n < math.inf, arguments)


def require_open_unit(**arguments: float) -> None:
    """Raise InputError unless every named argument lies strictly between 0 and 1."""
    _require("lie strictly between 0 and 1", lambda n: 0 < n < 1, arguments)


def require_at_least(minimum: int, **arguments: int) -> None:
    """Raise InputError unless every named argument is an int, ``minimum`` or more."""
    rule = f"be a whole number of at least {minimum}"
    _require(rule, lambda n: type(n) is int and n >= minimum, arguments)


def _require(
    rule: str, holds: Callable[[Any], bool], arguments: Mapping[str, float]
) -> None:
    """Raise InputError about the first named argument for which the rule fails."""
    for name, value in arguments.items():
        with suppress(TypeError):  # of what is no number
            if holds(value):
                continue
        raise InputError(
            f"{name} must {rule}, but {value!r:.60} was given.", field=name
        )
