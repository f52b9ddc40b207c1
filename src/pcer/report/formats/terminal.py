"""How are views and tables written for a terminal?"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TextIO

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pcer.errors import shown
from pcer.report.table import (
    ISOLATES,
    LAYOUT,
    MAY_BREAK,
    SOFT_HYPHEN,
    TOGETHER,
    Lines,
    Table,
)

WIDTH = 80
NARROWEST = 24  # in fewer columns the terminal itself breaks lines
UNBROKEN = 10_000  # columns where lines are not to be broken


def terminal_parts(
    shown: Iterable[Lines | Table], width: int
) -> Iterator[tuple[str, str]]:
    """Title and body of each, which fit; of sentences only the first are not indented."""
    for k, each in enumerate(shown):
        if isinstance(each, Table):
            body = table_body(each, width)
        else:
            body = "\n".join(
                wrapped(line, width, indent=2 * (k > 0)) for line in each.sentences
            )
        yield wrapped(each.title, width), body


def terminal_text(shown: Iterable[Lines | Table], width: int = WIDTH) -> str:
    """What a terminal shows, as text."""
    parts = terminal_parts(shown, width)
    return "\n\n".join(f"{title}\n{body}".strip("\n") for title, body in parts)


# Stands for a space where a line must not break; of no script, so in nobody's text.
UNBROKEN_SPACE = "\ue000"


def table_body(table: Table, width: int) -> str:
    """The table for a terminal without its title: readable without colour, no line too wide.

    Where it is too wide its columns stand below each other in two parts, and where that
    does not do either every row becomes a list. Nothing is cut, and a number never
    breaks.
    """
    body = [
        _grid(part, width) if part else _stack(table, width)
        for part in _parts(table, width)
    ]
    note = [wrapped(table.note, width)] if table.note else []
    return "\n".join(["\n\n".join(body), *note])


def wrapped(text: str, width: int, *, indent: int = 0, hanging: int = 0) -> str:
    r"""Text in lines that fit, broken at spaces; only a word longer than a line is cut.

    >>> wrapped("cost: 1.5 [1.2, 1.9]", 16, indent=2, hanging=2)
    '  cost: 1.5\n    [1.2, 1.9]'
    """
    lines: list[str] = []
    for part in without_marks(text).split("\n"):
        bound = TOGETHER.sub(lambda found: found[0].replace(" ", UNBROKEN_SPACE), part)
        found = Text(bound).wrap(_console(width), max(width - indent - hanging, 1))
        for k, line in enumerate(found):
            lines.append(" " * (indent + (hanging if k else 0)) + line.plain.rstrip())
    return "\n".join(lines).replace(UNBROKEN_SPACE, " ")


BETWEEN = 2  # spaces between the columns of a terminal's table
MOST_PARTS = 2
# A longer one may be cut, so that a name of another's making does not take all the
# room.
LONGEST_WORD = 24


def _parts(table: Table, width: int) -> Iterator[Table | None]:
    """The table, or its columns in few parts that fit; None once where neither does."""
    parts = []
    columns = list(range(table.n_labels))
    for k in range(table.n_labels, len(table.columns)):
        if len(columns) > table.n_labels and not _widths(
            _picked(table, [*columns, k]), width
        ):
            parts.append(columns)
            columns = list(range(table.n_labels))
        columns = [*columns, k]
    picked = [_picked(table, part) for part in [*parts, columns]]
    fit = len(picked) <= MOST_PARTS and all(_widths(part, width) for part in picked)
    yield from picked if fit else [None]


def _picked(table: Table, columns: Sequence[int]) -> Table:
    rows = tuple(tuple(row[k] for k in columns) for row in table.rows)
    return replace(table, columns=tuple(table.columns[k] for k in columns), rows=rows)


def _longest_word(text: str) -> int:
    return min(
        max(map(cell_len, without_marks(text, narrow=True).split()), default=1),
        LONGEST_WORD,
    )


def _longest_line(text: str) -> int:
    return max(map(cell_len, without_marks(text, narrow=True).split("\n")))


def _widths(table: Table, width: int) -> list[int]:
    """Widths of the columns, words narrowed until all fit; empty where they never do."""
    least = []
    widths = []
    for k, name in enumerate(table.columns):
        cells = [row[k] for row in table.rows]
        is_words = k < table.n_labels or not any(map(str.isdigit, "".join(cells)))
        measure = _longest_word if is_words else _longest_line  # a number never breaks
        least.append(max([_longest_word(name), *map(measure, cells)]))
        widths.append(max([least[-1], *map(_longest_line, (name, *cells))]))
    room = width - BETWEEN * (len(widths) - 1)
    if sum(least) > room:
        return []
    while sum(widths) > room:
        widest = max(
            range(len(widths)), key=lambda k: (widths[k] > least[k], widths[k])
        )
        widths[widest] -= 1
    return widths


def _grid(table: Table, width: int) -> str:
    shown = rich.table.Table(
        box=rich.box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, BETWEEN - 1, 0, 0),
        show_edge=False,
    )
    for index, (name, size) in enumerate(
        zip(table.columns, _widths(table, width), strict=True)
    ):
        side: Literal["left", "right"] = "left" if index < table.n_labels else "right"
        head = Text(without_marks(name, narrow=True))
        shown.add_column(head, justify=side, overflow="fold", width=size)
    above = None
    for first, *rest in table.rows:
        # A setting is named in the first of its rows only.
        named = "" if table.n_labels > 1 and first == above else first
        shown.add_row(
            *(Text(without_marks(cell, narrow=True)) for cell in (named, *rest))
        )
        above = first
    text = io.StringIO()
    _console(width, text).print(shown)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")


def _stack(table: Table, width: int) -> str:
    """Every row as a list of its cells, each with the name of its column."""
    n_heads = min(table.n_labels, 2) if table.n_labels < len(table.columns) else 1
    lines = []
    for row in table.rows:
        lines.append(wrapped(", ".join(row[:n_heads]).replace("\n", " "), width))
        for name, cell in zip(table.columns[n_heads:], row[n_heads:], strict=True):
            line = f"{name.rstrip('?')}: {cell}".replace("\n", " ")
            lines.append(wrapped(line, width, indent=2, hanging=2))
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
    """Text without the marks of our layout; where it is narrow, broken wherever it may."""
    marks = dict.fromkeys(map(ord, ISOLATES), "")  # only a browser heeds them
    marks |= {ord(SOFT_HYPHEN): "-\n" * narrow, ord(MAY_BREAK): "\n" * narrow}
    return shown(text, keep=LAYOUT).translate(marks)
