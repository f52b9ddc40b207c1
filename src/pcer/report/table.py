"""An immutable table, and one function per format that renders it: text, Markdown, LaTeX, HTML.

Cells are plain text; a line break in a cell is kept where the format can show it, and a
soft hyphen or a zero-width space marks where only a narrow terminal may break. Names in
cells come from files of other people: every renderer escapes them.
"""

from __future__ import annotations

import html
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Literal, TextIO

import rich.box
import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pcer.errors import shown


@dataclass(frozen=True)
class Table:
    """A titled table of text.

    ``columns`` are headers; the first ``n_labels`` are left-aligned.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1
    note: str = ""


SOFT_HYPHEN, MAY_BREAK, ISOLATES = "\u00ad", "\u200b", "\u2068\u2069"
# What our own cells hold besides text: breaks, and the bounds of names from right to
# left.
LAYOUT = f"\n{SOFT_HYPHEN}{MAY_BREAK}{ISOLATES}"
# An interval, a budget, a number with its error or its unit: never on two lines.
TOGETHER = re.compile(
    r"\[[^][ ]+ [^][ ]+\]|ε = \S+|\S+ ± \S+|[\d.,]+ (%|of \d+|in 100)"
)
# Stands for a space where a line must not break; of no script, so in nobody's text.
UNBROKEN_SPACE = "\ue000"
BIDI_CONTROLS = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
)


def isolated(name: str) -> str:
    """A name that cannot turn the direction of the text around it, nor break its line."""
    name = name.replace("\u2028", " ").replace("\u2029", " ")
    turns = any(
        character in BIDI_CONTROLS
        or unicodedata.bidirectional(character) in ("R", "AL", "AN")
        for character in name
    )
    return f"{ISOLATES[0]}{name}{ISOLATES[1]}" if turns else name


def template(name: str) -> str:
    """A file of the room that is no Python: words, looks, forms."""
    return (
        resources.files("pcer.report")
        .joinpath("templates", name)
        .read_text(encoding="utf-8")
    )


def pair_name(groups: Sequence[str]) -> str:
    """A pair as its signed numbers read: first minus second."""
    return " − ".join(isolated(name) for name in groups)


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
    for part in _plain(text).split("\n"):
        bound = TOGETHER.sub(lambda found: found[0].replace(" ", UNBROKEN_SPACE), part)
        found = Text(bound).wrap(_console(width), max(width - indent - hanging, 1))
        for k, line in enumerate(found):
            lines.append(" " * (indent + (hanging if k else 0)) + line.plain.rstrip())
    return "\n".join(lines).replace(UNBROKEN_SPACE, " ")


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


def to_latex(table: Table) -> str:
    """The table as a booktabs ``table`` environment, in the shape of the paper's tables.

    One that is wider than the page is made smaller (with graphicx) until it fits.
    """
    align = "l" * table.n_labels + "c" * (len(table.columns) - table.n_labels)
    every = (table.columns, *table.rows)
    head, *body = (" & ".join(map(latex_text, row)) + r" \\" for row in every)
    title = table.title if table.title.endswith("?") else f"{table.title}."
    caption = f"{title} {table.note}".strip()
    return LATEX_TABLE % (latex_text(caption), align, head, "\n".join(body))


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


def markdown_text(text: str) -> str:
    """Text that Markdown (and the HTML inside it) shows as it is."""
    safe = _plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~$!{}])", r"\\\1", safe).replace("\n", " ")


def latex_text(text: str) -> str:
    """Text that LaTeX typesets as it is; the signs of this field become mathematics."""
    return "".join(_LATEX.get(character, character) for character in _plain(text))


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
        max(map(cell_len, _plain(text, narrow=True).split()), default=1), LONGEST_WORD
    )


def _longest_line(text: str) -> int:
    return max(map(cell_len, _plain(text, narrow=True).split("\n")))


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
        head = Text(_plain(name, narrow=True))
        shown.add_column(head, justify=side, overflow="fold", width=size)
    above = None
    for first, *rest in table.rows:
        # A setting is named in the first of its rows only.
        named = "" if table.n_labels > 1 and first == above else first
        shown.add_row(*(Text(_plain(cell, narrow=True)) for cell in (named, *rest)))
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


def _plain(text: str, *, narrow: bool = False) -> str:
    """Text without the marks of our layout; where it is narrow, broken wherever it may."""
    marks = dict.fromkeys(map(ord, ISOLATES), "")  # only a browser heeds them
    marks |= {ord(SOFT_HYPHEN): "-\n" * narrow, ord(MAY_BREAK): "\n" * narrow}
    return shown(text, keep=LAYOUT).translate(marks)


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


LATEX_TABLE = r"""\begin{table*}[t]
\caption{%s}
\small\centering
\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%%
\begin{tabular}{%s}
\toprule
%s
\midrule
%s
\bottomrule
\end{tabular}}
\end{table*}
"""
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "\n": " ",
    "±": r"$\pm$",
    "−": r"$-$",
    "ε": r"$\varepsilon$",
    "Δ": r"$\Delta$",
    "δ": r"$\delta$",
    "≥": r"$\ge$",
    "·": r"$\cdot$",
    "—": "---",
    "–": "--",
    **dict.fromkeys(ISOLATES, ""),
}
