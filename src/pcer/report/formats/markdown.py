"""How are views and tables written as Markdown?

``pcer audit --markdown`` calls ``to_markdown_page``; the opinion, model cards and the
paper's study write their tables and names with the functions below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import cast

from pcer.auditing.record import Audit
from pcer.files import as_shown
from pcer.report.formats.terminal import without_marks
from pcer.report.table import Lines, Table
from pcer.report.views import View, view_of


def to_markdown_page(
    audits: Sequence[Audit], view: View = "brief", also: Sequence[Sequence[str]] = ()
) -> str:
    """Audits as one Markdown page that GitHub shows.

    Args:
        audits: one after the other; in the brief view each takes at most 400 words.
        view: what is shown of each.
        also: for each audit sentences that stand after its headline.
    """
    parts: list[str] = []
    for audit, lines in zip(map(as_shown, audits), also or repeat(()), strict=False):
        first, *rest = view_of(audit, view, lines)
        parts += _finding(cast("Lines", first))  # with which every view begins
        for part in rest:
            parts.append(to_markdown(part) if isinstance(part, Table) else _list(part))
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


def _finding(lines: Lines) -> Iterator[str]:
    """The first sentence in bold, under what was audited, and then the others."""
    headline, *rest = map(markdown_text, lines.sentences)
    yield f"## {markdown_text(lines.title)}\n"
    yield f"**{headline}**\n"
    for sentence in rest:
        yield f"{sentence}\n"


def _list(lines: Lines) -> str:
    items = "\n".join(f"- {markdown_text(line)}" for line in lines.sentences)
    return f"### {lines.title}\n\n{items}\n"


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
