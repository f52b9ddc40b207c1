"""The terms of a report, each explained where it first stands, and all of them in the appendix."""

from __future__ import annotations

import html
import re
import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple


class Term(NamedTuple):
    """A term, the words it stands under, and what it means."""

    name: str
    words: str
    meaning: str

    @property
    def id(self) -> str:
        """Of its entry in the glossary."""
        return "term-" + re.sub(r"[^a-z]+", "-", self.name.lower()).strip("-")


@cache
def glossary() -> tuple[Term, ...]:
    """Every term, in the order of the appendix."""
    file = resources.files("pcer.report").joinpath("templates", "glossary.toml")
    return tuple(Term(**one) for one in tomllib.loads(file.read_text(encoding="utf-8"))["term"])


@cache
def term_pattern() -> re.Pattern[str]:
    """Finds the words of any term; the name of the group that matched ends with its number."""
    return re.compile("|".join(rf"(?P<t{k}>\b{t.words}\b)" for k, t in enumerate(glossary())))


def explained(text: str, known: set[str]) -> str:
    """Text as HTML, each term marked where it first stands.

    Args:
        text: plain; all of it is escaped.
        known: names of terms that were marked before; those that are marked are added.

    >>> explained("no-DP & <b>", set())
    '<dfn tabindex="0" aria-describedby="term-differential-privacy">no-DP</dfn> &amp; &lt;b&gt;'
    """
    parts, end = [], 0
    for match in term_pattern().finditer(text):
        term = glossary()[int(str(match.lastgroup)[1:])]
        if term.name in known:
            continue
        known.add(term.name)
        mark = f'<dfn tabindex="0" aria-describedby="{term.id}">{html.escape(match[0])}</dfn>'
        parts += [html.escape(text[end : match.start()]), mark]
        end = match.end()
    return "".join([*parts, html.escape(text[end:])])
