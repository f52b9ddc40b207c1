"""The errors pcer raises, the checks of arguments that raise them, and other people's words.

Every message is one sentence that names the file or argument, the field and the remedy. What
somebody else may have written (names of files, fields, columns and groups) is shown by ``shown``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Invisible, and harmless: names in many scripts, and many emoji, are written with them.
JOINERS = "\u200c\u200d"
LONGEST_SENTENCE = 2_000  # characters of a message; a file may hold a name of millions


def shown(text: str, *, keep: str = "") -> str:
    r"""Other people's words as any output can show them: what cannot be seen is spelt out.

    Control characters, marks that turn the direction of text, line separators, halves of
    characters and characters that do not exist become ``\u`` and their number. Spaces of every
    width, what joins letters, and characters to ``keep`` (our own layout's) stay.

    >>> shown("a\x1b[31m \u202e b")
    'a\\u001b[31m \\u202e b'
    """
    if text.isascii() and text.isprintable():
        return text
    unseen = [letter for letter in set(text) - {*JOINERS, *keep} if not _is_seen(letter)]
    return text.translate({ord(letter): spelt(letter) for letter in unseen}) if unseen else text


def clipped(text: str, longest: int = 60) -> str:
    """The beginning of a long text.

    >>> clipped("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def spelt(character: str) -> str:
    r"""A character by its number, as JSON writes it: those beyond 16 bits as two halves.

    >>> spelt("\u202e"), spelt("\U000e0041")
    ('\\u202e', '\\udb40\\udc41')
    """
    return re.sub("....", r"\\u\g<0>", character.encode("utf-16-be", "surrogatepass").hex())


def alike(name: str) -> str:
    r"""What a reader sees of a name: equal for two that can be taken for each other.

    Unicode's compatible forms (NFKC) in small letters, without what is invisible, spaces as one;
    empty where there is nothing to see.

    >>> alike(" Wo\u00admen ") == alike("\uff37omen")
    True
    """
    if not (name.isascii() and name.isprintable()):  # almost all are, and this takes long
        name = unicodedata.normalize("NFKC", "".join(filter(_is_seen, name))).casefold()
        name = unicodedata.normalize("NFKC", name)
    return " ".join(name.casefold().split())


def confusable(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that read alike, or None.

    >>> confusable(["men", "women", "Men"])
    ('men', 'Men')
    """
    seen: dict[str, str] = {}
    for name in names:
        for form in {f"seen: {alike(name)}", f"shown: {shown(name)}"}:
            other = seen.setdefault(form, name)
            if other != name:
                return other, name
    return None


def _is_seen(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


class PcerError(Exception):
    """Anything pcer refuses; the command line prints it as one sentence and exits with 2.

    Attributes:
        field: what is wrong: the name of an argument or option, or the path to a field of a file,
            such as ``runs[3].seed``; None where it is nothing of the kind.
    """

    def __init__(self, sentence: object = "", *, field: str | None = None) -> None:
        super().__init__(shown(clipped(str(sentence), LONGEST_SENTENCE)))
        self.field = field


class InputError(PcerError, ValueError):
    """A file, a table or an argument that was given cannot be used as it is."""


class FetchError(InputError):
    """A dataset could not be had from its publisher; the cache was left as it was."""


class PlanError(PcerError, ValueError):
    """The plan asks for something that this release does not carry."""


class OutputError(PcerError):
    """A result could not be written; nothing was left behind half-written."""


def not_installed(name: str, *, extra: str, needed_by: str) -> InputError:
    """One sentence with the command to type where a package of an extra is missing.

    >>> str(not_installed("torch", extra="train", needed_by="training"))
    'training needs torch, which is not installed; in a clone of pcer run: pip install ".[train]"'
    """
    return InputError(
        f"{needed_by} needs {name}, which is not installed; in a clone of pcer run: "
        f'pip install ".[{extra}]"'
    )


def require_positive(**arguments: float) -> None:
    """Raise InputError unless every named argument is a finite number above 0."""
    _require("be a finite number above 0", lambda v: 0 < v < math.inf, arguments)


def require_open_unit(**arguments: float) -> None:
    """Raise InputError unless every named argument lies strictly between 0 and 1."""
    _require("lie strictly between 0 and 1", lambda v: 0 < v < 1, arguments)


def require_at_least(minimum: int, **arguments: int) -> None:
    """Raise InputError unless every named argument is an integer of at least ``minimum``."""
    rule = f"be a whole number of at least {minimum}"
    _require(rule, lambda v: type(v) is int and v >= minimum, arguments)


def _require(rule: str, holds: Callable[[Any], bool], arguments: Mapping[str, float]) -> None:
    for name, value in arguments.items():
        if not holds(value):
            raise InputError(f"{name} must {rule}, but {value!r} was given.", field=name)
