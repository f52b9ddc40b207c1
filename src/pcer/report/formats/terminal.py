"""How are views and tables written for a terminal?

The command line and results in Python print with this file; other formats write text
``without_marks``. Whatever the width, no line is too long and no number breaks. To add
a kind of part: a case of ``terminal_parts``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TextIO

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pcer.auditing.sentences.rows import Row, shortened
from pcer.errors import printable
from pcer.report.table import (
    ISOLATES,
    LAYOUT,
    MAY_BREAK,
    SOFT_HYPHEN,
    TOGETHER,
    Part,
    Six,
    Table,
)

WIDTH = 80
NARROWEST = 24  # in fewer columns the terminal itself breaks lines
MOST_LINES = 31  # of a first screen, before a hint
UNBROKEN = 10_000  # columns where lines are not to be broken
INDENT = 2  # of sentences under a title
BETWEEN = 2  # spaces between the columns of a table
MOST_PARTS = 2  # of a table, one below the other
LONGEST_WORD = 24  # a longer one may be cut: names are of others' making
# Stands for a space where a line must not break; of no script, so in nobody's text.
UNBROKEN_SPACE = "\ue000"


def terminal_text(shown: Iterable[Part], width: int = WIDTH) -> str:
    """What a terminal shows, as text."""
    parts = []
    for title, body in terminal_parts(shown, width):
        parts.append(f"{title}\n{body}".strip("\n"))
    return "\n\n".join(parts)


def terminal_parts(shown: Iterable[Part], width: int) -> list[tuple[str, str]]:
    """Title and body of each part, in lines that fit; the first is not indented.

    A brief first screen is one part, of as few lines as a screen has.
    """
    shown = [*shown]
    if any(isinstance(part, Six) and part.is_brief for part in shown):
        return [_screen(shown, width)]
    parts = []
    indent = 0
    for part in shown:
        if isinstance(part, Table):
            parts.append((wrapped(part.title, width), _table_body(part, width)))
            continue
        if isinstance(part, Six):
            parts.append(("", "\n".join(_row_lines(part.rows, width))))
            continue
        lines = [wrapped(line, width, indent=indent) for line in part.sentences]
        parts.append((wrapped(part.title, width), "\n".join(lines)))
        indent = INDENT
    return parts


def _screen(shown: Sequence[Part], width: int) -> tuple[str, str]:
    """Header and the rest of a first screen, without figures that have no room.

    Its parts stand apart where every answer keeps a figure so.
    """
    first, *rest = shown
    title = wrapped(getattr(first, "title", ""), width)
    most = MOST_LINES * WIDTH // width - title.count("\n") - 1
    body, fits = _fitted([first, *rest], width, most)
    if not fits:
        # The six answers stay; what stands beside them is in every longer view.
        six_alone = [_without_beside(part) for part in rest]
        body, _ = _fitted([first, *six_alone], width, most)
    return title, body


def _fitted(shown: Sequence[Part], width: int, most: int) -> tuple[str, bool]:
    """The parts below a header, apart where there is room, and whether they fit."""
    for gap in ("\n\n", "\n"):
        body, has_figures = _screen_body(shown, width, gap, most)
        if has_figures and body.count("\n") < most:
            break
    return body, body.count("\n") < most


def _without_beside(part: Part) -> Part:
    if not isinstance(part, Six):
        return part
    return part._replace(rows=[row for row in part.rows if row.n_open is None])


def _screen_body(
    shown: Sequence[Part], width: int, gap: str, most: int
) -> tuple[str, bool]:
    """All parts below the header, and whether each of the six has a figure."""

    def text(rows: Sequence[Row]) -> str:
        bodies = []
        for part in shown:
            if isinstance(part, Six):
                bodies.append("\n".join(_row_lines(rows, width)))
            elif isinstance(part, Table):
                title = wrapped(part.title, width)
                bodies.append(f"{title}\n{_plain_table(part, width)}")
            else:
                lines = [wrapped(line, width) for line in part.sentences]
                bodies.append("\n".join(lines))
        return gap.join(bodies)

    (six,) = (part for part in shown if isinstance(part, Six))
    rows = shortened(six.rows, lambda rows: text(rows).count("\n") < most)
    has_figures = all(
        short.figures or not row.figures
        for short, row in zip(rows, six.rows, strict=True)
    )
    return text(rows), has_figures


def _row_lines(rows: Sequence[Row], width: int) -> list[str]:
    """Every question with its answer and figures, as a paragraph."""
    return [wrapped(row.text, width, hanging=INDENT) for row in rows]


def _plain_table(table: Table, width: int) -> str:
    """The rows of a table, or each as a list; no line under its heads."""
    parts = _parts_that_fit(table, width)
    if len(parts) != 1:
        return _stack(table, width)
    lines = _grid(table, width).split("\n")
    return "\n".join(line for line in lines if line.strip("─ "))


def _table_body(table: Table, width: int) -> str:
    """Columns; too wide, in two parts below each other; else every row as a list."""
    parts = _parts_that_fit(table, width)
    grids = [_grid(part, width) for part in parts] or [_stack(table, width)]
    body = "\n\n".join(grids)
    return f"{body}\n{wrapped(table.note, width)}" if table.note else body


def wrapped(text: str, width: int, *, indent: int = 0, hanging: int = 0) -> str:
    r"""Text in lines that fit, broken at spaces; only a word longer than a line is cut.

    >>> wrapped("cost: 1.5 [1.2, 1.9]", 16, indent=2, hanging=2)
    '  cost: 1.5\n    [1.2, 1.9]'
    """
    lines: list[str] = []
    for paragraph in without_marks(text).split("\n"):
        bound = TOGETHER.sub(lambda it: it[0].replace(" ", UNBROKEN_SPACE), paragraph)
        first, *rest = _broken(bound, width - indent)
        lines.append(f"{'':{indent}}{first}")
        if rest:
            below = bound[len(first) :].strip()
            for line in _broken(below, width - indent - hanging):
                lines.append(f"{'':{indent + hanging}}{line}")
    return "\n".join(lines).replace(UNBROKEN_SPACE, " ")


def _broken(text: str, room: int) -> list[str]:
    """Text in lines of so many columns, without spaces at their ends."""
    width = max(room, 1)
    lines = [line.plain.rstrip() for line in Text(text).wrap(_console(width), width)]
    return lines or [""]


def _parts_that_fit(table: Table, width: int) -> list[Table]:
    """The table, or its columns in two parts that fit, each with all labels; or []."""
    labels = list(range(table.n_labels))
    parts = []
    columns = labels
    for column in range(table.n_labels, len(table.columns)):
        wider = [*columns, column]
        if columns != labels and not _widths(_picked(table, wider), width):
            parts.append(_picked(table, columns))
            wider = [*labels, column]
        columns = wider
    parts.append(_picked(table, columns))
    fits = len(parts) <= MOST_PARTS and all(_widths(part, width) for part in parts)
    return parts if fits else []


def _picked(table: Table, columns: Sequence[int]) -> Table:
    heads = tuple(table.columns[column] for column in columns)
    rows = []
    for row in table.rows:
        rows.append(tuple(row[column] for column in columns))
    return replace(table, columns=heads, rows=tuple(rows))


def _widths(table: Table, width: int) -> list[int]:
    """Widths of the columns, words narrowed until all fit; empty if they never do."""
    min_widths = []
    widths = []
    for column, name in enumerate(table.columns):
        cells = [row[column] for row in table.rows]
        min_width = _min_width(name, cells, is_label=column < table.n_labels)
        min_widths.append(min_width)
        widths.append(max(min_width, *map(_longest_line, (name, *cells))))
    room = width - BETWEEN * (len(widths) - 1)
    if sum(min_widths) > room:
        return []
    while sum(widths) > room:
        narrowable = [k for k, least in enumerate(min_widths) if widths[k] > least]
        widest = max(narrowable, key=widths.__getitem__)  # the first of several
        widths[widest] -= 1
    return widths


def _min_width(name: str, cells: Sequence[str], *, is_label: bool) -> int:
    """How narrow a column can be: words may stand below each other, numbers not."""
    has_digits = any(character.isdigit() for character in "".join(cells))
    longest_part = _longest_word if is_label or not has_digits else _longest_line
    return max([_longest_word(name), *map(longest_part, cells)])


def _longest_word(text: str) -> int:
    words = without_marks(text, narrow=True).split()
    return min(max(map(cell_len, words), default=1), LONGEST_WORD)


def _longest_line(text: str) -> int:
    return max(map(cell_len, without_marks(text, narrow=True).split("\n")))


def _grid(table: Table, width: int) -> str:
    """The table in columns that fit; a setting is named in the first of its rows."""
    grid = rich.table.Table(
        box=rich.box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, BETWEEN - 1, 0, 0),
        show_edge=False,
    )
    widths = _widths(table, width)
    for index, name in enumerate(table.columns):
        side: Literal["left", "right"] = "left" if index < table.n_labels else "right"
        grid.add_column(_cell(name), justify=side, overflow="fold", width=widths[index])
    above = None
    for first, *rest in table.rows:
        # The only label of a table stands in every row.
        is_repeated = table.n_labels > 1 and first == above
        grid.add_row(*map(_cell, ["" if is_repeated else first, *rest]))
        above = first
    text = io.StringIO()
    _console(width, text).print(grid)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


def _cell(text: str) -> Text:
    return Text(without_marks(text, narrow=True))


def _stack(table: Table, width: int) -> str:
    """Every row as a list: its labels, then cells with the names of their columns."""
    has_numbers = table.n_labels < len(table.columns)
    n_heads = min(table.n_labels, 2) if has_numbers else 1
    names = [name.rstrip("?") for name in table.columns[n_heads:]]
    lines = []
    for row in table.rows:
        head = ", ".join(row[:n_heads]).replace("\n", " ")
        lines.append(wrapped(head, width))
        for name, cell in zip(names, row[n_heads:], strict=True):
            line = f"{name}: {cell}".replace("\n", " ")
            lines.append(wrapped(line, width, indent=INDENT, hanging=INDENT))
    return "\n".join(lines)


def _console(width: int, text: TextIO | None = None) -> Console:
    """Plain text; also in a notebook, where rich would rather show than write."""
    return Console(
        width=width,
        file=text,
        color_system=None,
        legacy_windows=False,
        force_jupyter=False,
    )


def without_marks(text: str, *, narrow: bool = False) -> str:
    """Text without the marks of our layout; narrow text breaks wherever it may."""
    marks = dict.fromkeys(map(ord, ISOLATES), "")  # only a browser heeds them
    marks[ord(SOFT_HYPHEN)] = "-\n" if narrow else ""
    marks[ord(MAY_BREAK)] = "\n" if narrow else ""
    return printable(text, keep=LAYOUT).translate(marks)
