"""How is a table written as HTML?

The page calls ``to_html`` with an ``id`` and styles what it gets by its own sheet.
Notebooks call it without one: then every style is an attribute, so that nothing around
the table is styled. To add what a cell may hold: a case of ``_cell``.
"""

from __future__ import annotations

import html

from pcer.errors import printable
from pcer.report.table import LAYOUT, MAY_BREAK, Table, isolated

NEW_LINE = "\n"


def to_html(
    table: Table, *, id: str = "", within: str = "", stacks: bool = False
) -> str:
    """The table as HTML, with ids in our page.

    In a table that ``stacks`` each number carries the head of its column, so that a
    telephone can show a row as lines.
    """
    is_inline = not id
    head = _row(table, table.columns, is_inline=is_inline)
    lines = []
    for row in table.rows:
        lines.append(_row(table, row, is_inline=is_inline, stacks=stacks))
    body = f"<thead>{head}</thead>\n<tbody>\n{NEW_LINE.join(lines)}\n</tbody></table>"
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


def _row(
    table: Table, row: tuple[str, ...], *, is_inline: bool, stacks: bool = False
) -> str:
    """A row of cells; those of the first column, and of the head, are headers."""
    is_head = row is table.columns
    cells = []
    for index, text in enumerate(row):
        is_label = index < table.n_labels
        scope = "row" if index == 0 else ""
        if is_head:
            scope = "col"
        attributes = ""
        if is_inline:
            attributes = _inline_style(is_left=is_label)
        elif is_label and scope != "row":  # the sheet aligns headers of rows by itself
            attributes = ' class="label"'
        if stacks and not scope:
            attributes += f' data-head="{_one_line(table.columns[index])}"'
        cells.append(_cell(text, scope, attributes))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str, scope: str, attributes: str) -> str:
    """A cell, which is a header if it has a scope."""
    written = _escaped(text)
    if not scope:
        return f"<td{attributes}>{written}</td>"
    return f'<th scope="{scope}"{attributes}>{written}</th>'


def _inline_style(*, is_left: bool) -> str:
    side = "left" if is_left else "right"
    return f' style="text-align:{side};padding:.1em .6em;vertical-align:bottom"'


def _one_line(text: str) -> str:
    """A head as an attribute has it."""
    return _escaped(text.replace("\n", " ").replace(MAY_BREAK, ""))


def _escaped(text: str) -> str:
    return html.escape(isolated(printable(text, keep=LAYOUT))).replace("\n", "<br>")
