"""How are views and tables written as Markdown?

``pcer audit --markdown`` calls ``to_markdown_page``; the opinion, model cards and the
study write tables with the rest. To add a kind of part: a branch of
``_part_as_markdown``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat
from typing import Final, cast

from pcer.auditing.record import Audit
from pcer.auditing.sentences.rows import Row, shortened
from pcer.files import as_shown
from pcer.report.formats.terminal import without_marks
from pcer.report.table import Lines, Part, Six, Table
from pcer.report.views import View, view_of

MOST_WORDS: Final = 400  # of a brief screen
MARKUP: Final = re.compile(r"\||-|#+|:?-+:?")  # of a table, a list or a title


# Views and tables


def to_markdown_page(
    audits: Sequence[Audit], view: View = "short", also: Sequence[Sequence[str]] = ()
) -> str:
    """Audits as one Markdown page that GitHub shows.

    Args:
        audits: one after the other; in the short view each takes at most 400 words.
        view: what is shown of each.
        also: for each audit sentences that stand after its headline.
    """
    parts: list[str] = []
    for audit, lines in zip(map(as_shown, audits), also or repeat(()), strict=False):
        first, *rest = view_of(audit, view, lines)
        finding = cast("Lines", first)  # with which every view begins
        headline, *others = map(markdown_text, finding.sentences)
        parts += [f"## {markdown_text(finding.title)}\n", f"**{headline}**\n"]
        parts += [f"{sentence}\n" for sentence in others]
        digest = f"Release digest (SHA-256): `{audit.release_sha256}`\n"
        n_above = n_words([*parts[-len(others) - 2 :], digest])
        parts += _rest_as_markdown(rest, n_above)
        parts.append(digest)
    return "\n".join(parts)


def _rest_as_markdown(shown: Sequence[Part], n_above: int) -> list[str]:
    """All below the headline; a brief screen has at most 400 words, those above in."""

    def written(rows: Sequence[Row]) -> list[str]:
        return [_part_as_markdown(part, rows) for part in shown]

    def fits(rows: Sequence[Row]) -> bool:
        return n_above + n_words(written(rows)) <= MOST_WORDS

    rows: Sequence[Row] = ()
    for part in shown:
        if isinstance(part, Six):
            rows = shortened(part.rows, fits) if part.is_brief else part.rows
    return written(rows)


def _part_as_markdown(part: Part, rows: Sequence[Row]) -> str:
    """A part of a view; of the six answers ``rows``, which may be shorter."""
    if isinstance(part, Six):
        return _rows_as_markdown(rows)
    if isinstance(part, Table):
        return to_markdown(part)
    if part.title:
        items = "\n".join(f"- {markdown_text(line)}" for line in part.sentences)
        return f"### {markdown_text(part.title)}\n\n{items}\n"
    return "\n".join(f"{markdown_text(line)}\n" for line in part.sentences)


def _rows_as_markdown(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        figures = markdown_text(" ".join(row.figures))
        question = markdown_text(row.question)
        lines.append(f"- {question} **{markdown_text(row.answer)}.** {figures}".strip())
    return "\n".join(lines) + "\n"


def n_words(parts: Sequence[str]) -> int:
    """Words of what is shown, split at white space; signs of Markdown are none."""
    words = " ".join(parts).split()
    return sum(not MARKUP.fullmatch(word) for word in words)


def to_markdown(table: Table) -> str:
    """The table as a Markdown pipe table under a heading."""
    return f"### {markdown_text(table.title)}\n\n{pipe_table(table)}"


def pipe_table(table: Table) -> str:
    """The table in Markdown without its title, its note below it."""
    n_numbers = len(table.columns) - table.n_labels
    sides = [":--"] * table.n_labels + ["--:"] * n_numbers
    rows = [_pipe_row(row) for row in table.rows]
    lines = [_pipe_row(table.columns), f"| {' | '.join(sides)} |", *rows]
    note = f"\n\n{markdown_text(table.note)}" if table.note else ""
    return "\n".join(lines) + note + "\n"


def _pipe_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def markdown_text(text: str) -> str:
    """Text that Markdown (and the HTML inside it) shows as it is."""
    no_html = without_marks(text).replace("&", "&amp;")
    no_html = no_html.replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|#~$!{}])", r"\\\1", no_html)
    return escaped.replace("\n", " ")
