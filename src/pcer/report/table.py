"""An immutable table, and one function per format that renders it: text, Markdown, LaTeX, HTML.

Cells are plain text; a line break in a cell is kept where the format can show it, and a
soft hyphen or a zero-width space marks where only a narrow terminal may break. Names in
cells come from files of other people: every renderer escapes them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple


@dataclass(frozen=True)
class Table:
    """A titled table of text.

    ``columns`` are headers; the first ``n_labels`` are left-aligned.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1
    note: str = ""


SOFT_HYPHEN, MAY_BREAK, ISOLATES = "\u00ad", "\u200b", "\u2068\u2069"
# What our own cells hold besides text: breaks, and the bounds of names from right to
# left.
LAYOUT = f"\n{SOFT_HYPHEN}{MAY_BREAK}{ISOLATES}"
# An interval, a budget, a number with its error or its unit: never on two lines.
TOGETHER = re.compile(
    r"\[[^][ ]+ [^][ ]+\]|ε = \S+|\S+ ± \S+|[\d.,]+ (%|of \d+|in 100)"
)
BIDI_CONTROLS = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
)


def isolated(name: str) -> str:
    """A name that cannot turn the direction of the text around it, nor break its line."""
    name = name.replace("\u2028", " ").replace("\u2029", " ")
    turns = any(
        character in BIDI_CONTROLS
        or unicodedata.bidirectional(character) in ("R", "AL", "AN")
        for character in name
    )
    return f"{ISOLATES[0]}{name}{ISOLATES[1]}" if turns else name


def template(name: str) -> str:
    """A file of the room that is no Python: words, looks, forms."""
    return (
        resources.files("pcer.report")
        .joinpath("templates", name)
        .read_text(encoding="utf-8")
    )


def pair_name(groups: Sequence[str]) -> str:
    """A pair as its signed numbers read: first minus second."""
    return " − ".join(isolated(name) for name in groups)


class Lines(NamedTuple):
    """Sentences under a title."""

    title: str
    sentences: list[str]
