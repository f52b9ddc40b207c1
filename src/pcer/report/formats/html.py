"""How is a table written as HTML?

The page calls ``to_html`` with an ``id`` and styles what it gets by its own sheet.
Notebooks call it without one: then every style is an attribute, so that nothing around
the table is styled. To add what a cell may hold: a case of ``_cell``.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import partial
from typing import Literal

from pcer.errors import printable
from pcer.report.table import LAYOUT, Table, isolated

Scope = Literal["col", "row"]  # what a header cell is the header of


def to_html(
    table: Table,
    *,
    id: str = "",
    within: str = "",
    marks: Mapping[str, str] | None = None,
) -> str:
    """The table as HTML, with ids in our page; ``marks`` are classes by text."""
    is_inline = not id
    cell = partial(_cell, is_inline=is_inline, marks=marks or {})
    rows = []
    for row in (table.columns, *table.rows):
        cells = []
        for index, text in enumerate(row):
            scope: Scope | None = "row" if index == 0 else None
            if row is table.columns:
                scope = "col"
            cells.append(cell(text, scope, is_left=index < table.n_labels))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    lines = "\n".join(rows[1:])
    body = f"<thead>{rows[0]}</thead>\n<tbody>\n{lines}\n</tbody></table>"
    title = _escaped(table.title)
    if is_inline:
        style = 'style="border-collapse:collapse;margin:.8em 0 .2em"'
        caption = f'<caption style="text-align:left">{title}</caption>'
        written = f"<table {style}>{caption}\n{body}"
        note = '<p style="margin:.3em 0"><small>{}</small></p>'
    else:
        names = f"{id} {within}".strip()
        region = f'role="region" tabindex="0" aria-labelledby="{names}"'
        caption = f'<caption id="{id}">{title}</caption>'
        written = f'<div class="table" {region}>\n<table>{caption}\n{body}\n</div>'
        note = '<p class="note">{}</p>'
    if not table.note:
        return written
    return f"{written}\n{note.format(_escaped(table.note))}"


def _cell(
    text: str,
    scope: Scope | None,
    *,
    is_left: bool,
    is_inline: bool,
    marks: Mapping[str, str],
) -> str:
    """A cell, which is a header if it has a scope."""
    written = _escaped(text)
    if text in marks:
        written = f'<span class="{marks[text]}">{written}</span>'
    if is_inline:
        side = "left" if is_left else "right"
        attribute = (
            f' style="text-align:{side};padding:.1em .6em;vertical-align:bottom"'
        )
    else:
        # the sheet aligns headers of rows by itself
        attribute = ' class="label"' if is_left and scope != "row" else ""
    if scope is None:
        return f"<td{attribute}>{written}</td>"
    return f'<th scope="{scope}"{attribute}>{written}</th>'


def _escaped(text: str) -> str:
    return html.escape(isolated(printable(text, keep=LAYOUT))).replace("\n", "<br>")
