"""How is a table written as HTML?

The page calls ``to_html`` with an ``id`` and styles what it gets by its own sheet.
Notebooks call it without one: then every style is an attribute, so that nothing around
the table is styled.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pcer.errors import printable
from pcer.report.table import LAYOUT, Table, isolated

Scope = Literal["col", "row"]  # what a header cell is the header of


class CellLook(NamedTuple):
    """How cells are styled: by attributes or by classes, some by their text."""

    is_inline: bool
    marks: Mapping[str, str]


def to_html(
    table: Table,
    *,
    id: str = "",
    within: str = "",
    marks: Mapping[str, str] | None = None,
) -> str:
    """The table as HTML: a caption, column and row headers, every cell escaped.

    In our page it has an ``id`` and is a region that scrolls by keyboard; ``within`` is
    the id of what tells it from others of its caption. ``marks`` are classes of cells
    by their text.
    """
    look = CellLook(is_inline=not id, marks=marks or {})
    head = _row(table, table.columns, look, is_head=True)
    rows = "\n".join(_row(table, row, look) for row in table.rows)
    body = f"<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table>"
    title = _escaped(table.title)
    if look.is_inline:
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


def _row(
    table: Table, texts: Sequence[str], look: CellLook, *, is_head: bool = False
) -> str:
    """A row, whose first cell is its header; in the head all are."""
    cells = []
    for index, text in enumerate(texts):
        scope: Scope | None = "row" if index == 0 else None
        if is_head:
            scope = "col"
        is_left = index < table.n_labels
        cells.append(_cell(text, scope, look, is_left=is_left))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str, scope: Scope | None, look: CellLook, *, is_left: bool) -> str:
    """A cell, which is a header if it has a scope."""
    written = _escaped(text)
    if text in look.marks:
        written = f'<span class="{look.marks[text]}">{written}</span>'
    if look.is_inline:
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
