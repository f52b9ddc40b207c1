"""How are the paper's tables written as Markdown and as LaTeX?

``tables.folder`` writes both pages from the descriptions of ``layout.paper_tables``. To
add a sign: a row of LATEX_SIGNS.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.report.formats.latex import latex_text
from pcer.report.formats.markdown import markdown_text
from pcer_studies.protocol import PAPER
from pcer_studies.tables.layout import Bold, CellText, PaperTable, TableRow

FIGURE_CAPTION = (
    "DP-Gap (left axis) and PCER disparity (right axis) against the budget, mean over "
    "seeds with 95% bootstrap interval; no-DP on the right. Shaded as in the paper: "
    "epsilon 0.1, called floor-dominated. A cross marks a disparity at a budget where "
    "no group's exposure is detected."
)
PREAMBLE = r"""% Written by pcer reproduce. Compile where figure1.png lies beside it.
\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,booktabs,graphicx,multirow,textcomp}
\usepackage[a4paper,landscape,margin=1.5cm]{geometry}
\setlength{\belowcaptionskip}{4pt}
\begin{document}
"""
LATEX_SIGNS = {"†": r"\textsuperscript{\dag}", "n₊": "$n_+$", "√": r"$\surd$"}


def to_markdown_tables(tables: Sequence[PaperTable], *, figure: bool) -> str:
    """One page with every table."""
    parts = [
        "# The paper's tables, from our runs",
        f"The layout is that of {markdown_text(PAPER)}; every number is ours. "
        "[cells.md](cells.md) puts the published ones beside them.",
    ]
    if figure:
        parts.append(f"## Figure 1\n\n![Figure 1](figure1.svg)\n\n{FIGURE_CAPTION}")
    parts += [_markdown_table(table) for table in tables]
    return "\n\n".join(parts) + "\n"


def to_latex_document(tables: Sequence[PaperTable], *, figure: bool) -> str:
    """A document that compiles by itself."""
    parts = [
        PREAMBLE,
        latex_text(f"Tables in the layout of {PAPER}; every number is ours."),
    ]
    if figure:
        parts.append(_latex_figure())
    parts += [_latex_table(table) for table in tables]
    return "\n\n".join(part.strip("\n") for part in [*parts, r"\end{document}"]) + "\n"


def _markdown_table(table: PaperTable) -> str:
    marks = [":--" if letter == "l" else "--:" for letter in table.align]
    lines = [_pipes([markdown_text(name) for name in _plain_heads(table)])]
    lines.append(_pipes(marks))
    for block in table.blocks:
        for row in block:
            lines.append(_pipes([_markdown_cell(cell) for cell in row]))
    rows = "\n".join(lines)
    return f"## {table.name}\n\n{markdown_text(table.caption)}\n\n{rows}"


def _plain_heads(table: PaperTable) -> list[str]:
    """The heads in one line each: what spans a head stands before it."""
    heads = [head.plain for head in table.head]
    if not table.spans:
        return heads
    spanning: list[str] = []
    for text, width in table.spans:
        spanning += [text] * width
    names = []
    for above, head in zip(spanning, heads, strict=True):
        names.append(f"{above}: {head}" if above else head)
    return names


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: CellText) -> str:
    if isinstance(cell, Bold):
        return f"**{markdown_text(cell.text)}**"
    return markdown_text(cell)


def _latex_figure() -> str:
    return "\n".join(
        [
            r"\begin{figure}[h]",
            r"\centering",
            r"\includegraphics[width=\textwidth]{figure1.png}",
            rf"\caption{{{latex_text(FIGURE_CAPTION)}}}",
            r"\end{figure}",
        ]
    )


def _latex_table(table: PaperTable) -> str:
    number = table.name.removeprefix("Table ")
    return "\n".join(
        [
            r"\begin{table}[p]",
            rf"\renewcommand{{\thetable}}{{{number}}}",
            rf"\caption{{{_latex(table.caption)}}}",
            rf"\label{{{table.label}}}",
            r"\small\centering",
            rf"\begin{{tabular}}{{{table.align}}}",
            r"\toprule",
            *_latex_spans(table),
            " & ".join(head.latex for head in table.head) + r" \\",
            r"\midrule",
            *_latex_blocks(table),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _latex_spans(table: PaperTable) -> list[str]:
    """The head above the head, with a rule under every part of it."""
    if not table.spans:
        return []
    cells = []
    rules = []
    first = 1
    for text, width in table.spans:
        last = first + width - 1
        if text:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(text)}}}")
            rules.append(rf"\cmidrule(lr){{{first}-{last}}}")
        else:
            cells.append("")
        first = last + 1
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _latex_blocks(table: PaperTable) -> list[str]:
    lines: list[str] = []
    for block_index, block in enumerate(table.blocks):
        if block_index > 0:
            lines.append(r"\midrule")
        for row_index, row in enumerate(block):
            cells = _latex_cells(table, block, row, row_index)
            lines.append(" & ".join(cells) + r" \\")
    return lines


def _latex_cells(
    table: PaperTable, block: Sequence[TableRow], row: TableRow, index: int
) -> list[str]:
    cells = [_latex_cell(cell) for cell in row]
    if table.merged:
        first = rf"\multirow{{{len(block)}}}{{*}}{{{cells[0]}}}"
        cells[0] = first if index == 0 else ""
    return cells


def _latex_cell(cell: CellText) -> str:
    if isinstance(cell, Bold):
        return rf"\textbf{{{_latex(cell.text)}}}"
    return _latex(cell)


def _latex(text: str) -> str:
    """Text with what LaTeX reads otherwise escaped, and signs as it writes them."""
    for sign, code in LATEX_SIGNS.items():
        if sign in text:
            return code.join(_latex(part) for part in text.split(sign))
    return latex_text(text)
