"""An immutable table, and one function per format that renders it.

Cells are plain text; a line break in a cell is kept where the format can show it, and a soft
hyphen or a zero-width space marks where only a narrow terminal may break. Names in cells come
from files of other people: every renderer escapes them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import rich.box
import rich.table
from rich.text import Text


@dataclass(frozen=True)
class Table:
    """A titled table of text. ``columns`` are headers; the first ``n_labels`` are left-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"Every row of {self.title!r} must have {len(self.columns)} cells.")


SOFT_HYPHEN, MAY_BREAK = "\u00ad", "\u200b"


def to_rich(table: Table) -> rich.table.Table:
    """The table for a terminal: readable without colour."""
    shown = rich.table.Table(
        title=Text(table.title, style="bold"),
        caption=Text(table.note) if table.note else None,
        title_justify="left",
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        collapse_padding=True,
    )
    for index, name in enumerate(table.columns):
        side: Literal["left", "right"] = "left" if index < table.n_labels else "right"
        shown.add_column(_terminal(name), justify=side, overflow="fold")
    for row in table.rows:
        shown.add_row(*(_terminal(cell) for cell in row))
    return shown


def to_markdown(table: Table) -> str:
    """The table as a Markdown pipe table under a heading."""
    marks = [":--" if index < table.n_labels else "--:" for index in range(len(table.columns))]
    lines = [_markdown_row(table.columns), "| " + " | ".join(marks) + " |"]
    lines += [_markdown_row(row) for row in table.rows]
    note = f"\n\n{markdown_text(table.note)}" if table.note else ""
    return f"### {markdown_text(table.title)}\n\n" + "\n".join(lines) + note + "\n"


def to_latex(table: Table) -> str:
    """The table as a booktabs ``table`` environment, in the shape of the paper's tables.

    One that is wider than the page is made smaller (with graphicx) until it fits.
    """
    count = len(table.columns)
    align = "l" * table.n_labels + "c" * (count - table.n_labels)
    body = [" & ".join(latex_text(cell) for cell in row) + r" \\" for row in table.rows]
    title = table.title if table.title.endswith("?") else f"{table.title}."
    caption = f"{title} {table.note}".strip()
    return "\n".join(
        [
            r"\begin{table*}[t]",
            rf"\caption{{{latex_text(caption)}}}",
            r"\small\centering",
            r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            " & ".join(latex_text(name) for name in table.columns) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
            "",
        ]
    )


def to_html(table: Table, *, id: str, marks: Mapping[str, str] | None = None) -> str:
    """The table as HTML: a caption, column and row headers, a region that scrolls by keyboard.

    Args:
        table: what to show; every cell is escaped.
        id: of the caption, unique in the page.
        marks: by a cell's text, the class that it gets.
    """
    head = "".join(
        f'<th scope="col"{_html_side(index, table.n_labels)}>{_html_lines(name)}</th>'
        for index, name in enumerate(table.columns)
    )
    body = "\n".join(_html_row(row, table.n_labels, marks or {}) for row in table.rows)
    note = f'\n<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-labelledby="{html.escape(id)}">\n'
        f'<table><caption id="{html.escape(id)}">{html.escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n</div>{note}"
    )


def markdown_text(text: str) -> str:
    r"""Text that Markdown (and the HTML inside it) shows as it is.

    >>> markdown_text("a|b <b>*x*</b>")
    'a\\|b &lt;b&gt;\\*x\\*&lt;/b&gt;'
    """
    safe = _unbroken(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~$!{}])", r"\\\1", safe).replace("\n", " ")


def latex_text(text: str) -> str:
    r"""Text that LaTeX typesets as it is; the signs of this field become mathematics.

    >>> latex_text("50% ± 2_x")
    '50\\% $\\pm$ 2\\_x'
    """
    return "".join(_LATEX.get(character, character) for character in _unbroken(text))


def _terminal(text: str) -> Text:
    return Text(text.replace(SOFT_HYPHEN, "-\n").replace(MAY_BREAK, "\n"))


def _unbroken(text: str) -> str:
    return text.replace(SOFT_HYPHEN, "").replace(MAY_BREAK, "")


def _html_row(row: Sequence[str], n_labels: int, marks: Mapping[str, str]) -> str:
    cells = []
    for index, cell in enumerate(row):
        text = _html_lines(cell)
        if cell in marks:
            text = f'<span class="{marks[cell]}">{text}</span>'
        if index == 0:
            cells.append(f'<th scope="row">{text}</th>')
        else:
            cells.append(f"<td{_html_side(index, n_labels)}>{text}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _html_side(index: int, n_labels: int) -> str:
    return ' class="label"' if index < n_labels else ""


def _html_lines(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_text(cell) for cell in cells) + " |"


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
    "≥": r"$\ge$",
    "·": r"$\cdot$",
    "—": "---",
    "–": "--",
}
