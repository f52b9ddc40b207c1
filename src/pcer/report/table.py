"""What is a table before it is written: its cells, its marks, and names made safe?

A ``Table`` knows no format: the files of ``tables`` make it, those of ``formats``
render it, and escape names, which are other people's. A line break in a cell is kept
where the format can show it; a soft hyphen or a zero-width space marks where only a
narrow terminal may break. To add a mark: its sign here, and in ``LAYOUT``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from pcer.auditing.sentences.rows import Row

SOFT_HYPHEN = "\u00ad"
MAY_BREAK = "\u200b"
ISOLATES = "\u2068\u2069"  # around a name that runs from right to left
# What our own cells hold besides text.
LAYOUT = f"\n{SOFT_HYPHEN}{MAY_BREAK}{ISOLATES}"
# An interval, a budget, a number with its error or its unit: never on two lines.
TOGETHER = re.compile(
    r"\[[^][ ]+ [^][ ]+\]|ε = \S+|\S+ ± \S+|[\d.,]+ (%|of \d+|in 100)"
)
BIDI_CONTROLS = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
)
RIGHT_TO_LEFT = ("R", "AL", "AN")  # classes of letters and digits in Unicode


@dataclass(frozen=True)
class Table:
    """A titled table of text."""

    title: str
    columns: tuple[str, ...]  # their heads
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1  # columns at the left, which are no numbers
    note: str = ""


class Lines(NamedTuple):
    """Sentences under a title."""

    title: str
    sentences: list[str]


class Six(NamedTuple):
    """The six answers of a first screen.

    Where they are brief, a format leaves out as many figures as it has no room for.
    """

    rows: Sequence[Row]
    is_brief: bool


Part = Lines | Table | Six


def pair_name(groups: Sequence[str]) -> str:
    """A pair as its signed numbers read: first minus second."""
    return " − ".join(isolated(name) for name in groups)


def isolated(name: str) -> str:
    """A name that cannot turn the text around it, nor break its line."""
    one_line = name.replace("\u2028", " ").replace("\u2029", " ")
    directions = set(map(unicodedata.bidirectional, one_line))
    if directions.isdisjoint(RIGHT_TO_LEFT) and BIDI_CONTROLS.isdisjoint(one_line):
        return one_line
    return f"{ISOLATES[0]}{one_line}{ISOLATES[1]}"


def template(name: str) -> str:
    """The text of a file of ``templates``: words, looks, forms."""
    path = resources.files("pcer.report").joinpath("templates", name)
    return path.read_text(encoding="utf-8")
