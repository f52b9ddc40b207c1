"""How are views and tables written as Markdown?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat

from pcer.auditing.record import Audit
from pcer.files import as_shown
from pcer.report.formats.terminal import without_marks
from pcer.report.table import Table
from pcer.report.views import View, view_of


def to_markdown_page(
    audits: Sequence[Audit], view: View = "brief", also: Sequence[Sequence[str]] = ()
) -> str:
    """Audits as one Markdown page that GitHub shows; in the brief view at most 400 words each."""
    parts = []
    for audit, lines in zip(map(as_shown, audits), also or repeat(()), strict=False):
        first, *rest = view_of(audit, view, lines)
        head, *more = map(markdown_text, first.sentences)  # type: ignore[union-attr]
        parts += [
            f"## {markdown_text(first.title)}\n",
            f"**{head}**\n",
            *(f"{m}\n" for m in more),
        ]
        for shown in rest:
            if isinstance(shown, Table):
                parts.append(to_markdown(shown))
                continue
            items = "\n".join(f"- {markdown_text(line)}" for line in shown.sentences)
            parts.append(f"### {shown.title}\n\n{items}\n")
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


def to_markdown(table: Table) -> str:
    """The table as a Markdown pipe table under a heading."""
    return f"### {markdown_text(table.title)}\n\n{pipe_table(table)}"


def pipe_table(table: Table) -> str:
    """The table in Markdown without its title, its note below it."""
    marks = [
        ":--" if index < table.n_labels else "--:"
        for index in range(len(table.columns))
    ]
    cells = [
        [markdown_text(cell) for cell in row] for row in (table.columns, *table.rows)
    ]
    lines = [f"| {' | '.join(row)} |" for row in (cells[0], marks, *cells[1:])]
    note = f"\n\n{markdown_text(table.note)}" if table.note else ""
    return "\n".join(lines) + note + "\n"


def markdown_text(text: str) -> str:
    """Text that Markdown (and the HTML inside it) shows as it is."""
    safe = (
        without_marks(text)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    return re.sub(r"([\\`*_\[\]|#~$!{}])", r"\\\1", safe).replace("\n", " ")
