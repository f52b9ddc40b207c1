"""How is a table written as HTML?

The page calls ``to_html`` with an ``id`` and styles what it gets by its own sheet.
Notebooks call it without one: then every style is an attribute, so that nothing around
the table is styled.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pcer.errors import printable
from pcer.report.table import LAYOUT, Table, isolated

Scope = Literal["col", "row"]  # what a header cell is the header of


@dataclass(frozen=True)
class CellLook:
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

    Args:
        table: what is written.
        id: of the table in our own page, where it is a region that scrolls by keyboard.
        within: the id of what tells the table from others of its caption.
        marks: classes of cells by their text.
    """
    look = CellLook(is_inline=not id, marks=marks or {})
    head = _head_row(table, look)
    rows = "\n".join(_body_row(table, row, look) for row in table.rows)
    body = f"<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table>"
    if look.is_inline:
        written = _styled_table(table, body)
        note = '<p style="margin:.3em 0"><small>{}</small></p>'
    else:
        written = _region(table, body, id=id, within=within)
        note = '<p class="note">{}</p>'
    if not table.note:
        return written
    return f"{written}\n{note.format(_escaped(table.note))}"


def _styled_table(table: Table, body: str) -> str:
    style = 'style="border-collapse:collapse;margin:.8em 0 .2em"'
    caption = f'<caption style="text-align:left">{_escaped(table.title)}</caption>'
    return f"<table {style}>{caption}\n{body}"


def _region(table: Table, body: str, *, id: str, within: str) -> str:
    names = f"{id} {within}".strip()
    region = f'role="region" tabindex="0" aria-labelledby="{names}"'
    caption = f'<caption id="{id}">{_escaped(table.title)}</caption>'
    return f'<div class="table" {region}>\n<table>{caption}\n{body}\n</div>'


def _head_row(table: Table, look: CellLook) -> str:
    cells = []
    for index, name in enumerate(table.columns):
        is_left = index < table.n_labels
        cells.append(_cell(name, "col", look, is_left=is_left))
    return f"<tr>{''.join(cells)}</tr>"


def _body_row(table: Table, row: Sequence[str], look: CellLook) -> str:
    """A row, whose first cell is its header."""
    cells = []
    for index, text in enumerate(row):
        scope: Scope | None = "row" if index == 0 else None
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
