"""How is a table written as HTML?"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from pcer.errors import shown
from pcer.report.table import LAYOUT, Table, isolated


def to_html(
    table: Table,
    *,
    id: str = "",
    within: str = "",
    marks: Mapping[str, str] | None = None,
) -> str:
    """The table as HTML: a caption, column and row headers, every cell escaped.

    With an ``id`` it is a region of our own page that scrolls by keyboard, ``within``
    is the id of what tells it from others of its caption, and ``marks`` are the classes
    of cells by their text. Without one every style is an attribute: for notebooks.
    """
    every = (table.columns, *table.rows)
    head, *rows = (_html_row(table, row, marks or {}, inline=not id) for row in every)
    body = f"<thead>{head}</thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody></table>"
    caption, note = (_html_lines(text) for text in (table.title, table.note))
    if not id:
        note = f'\n<p style="margin:.3em 0"><small>{note}</small></p>' if note else ""
        style = 'style="border-collapse:collapse;margin:.8em 0 .2em"'
        return f'<table {style}><caption style="text-align:left">{caption}</caption>\n{body}{note}'
    names = f"{id} {within}".strip()
    return (
        f'<div class="table" role="region" tabindex="0" aria-labelledby="{names}">\n'
        f'<table><caption id="{id}">{caption}</caption>\n{body}\n</div>'
        + (f'\n<p class="note">{note}</p>' if note else "")
    )


def _html_row(
    table: Table, row: Sequence[str], marks: Mapping[str, str], *, inline: bool
) -> str:
    """Headers for every column, or one row whose first cell is its header."""
    cells = []
    scope = "col" if row is table.columns else "row"
    for index, cell in enumerate(row):
        side = "left" if index < table.n_labels else "right"
        style = f' style="text-align:{side};padding:.1em .6em;vertical-align:bottom"'
        label = ' class="label"' if side == "left" and (index or scope == "col") else ""
        text = _html_lines(cell)
        if cell in marks:
            text = f'<span class="{marks[cell]}">{text}</span>'
        tag, scoped = (
            ("th", f' scope="{scope}"') if scope == "col" or not index else ("td", "")
        )
        cells.append(f"<{tag}{scoped}{style if inline else label}>{text}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def _html_lines(text: str) -> str:
    return html.escape(isolated(shown(text, keep=LAYOUT))).replace("\n", "<br>")
