"""How are views and tables written as LaTeX?"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.auditing.record import Audit
from pcer.files import as_shown
from pcer.report.formats.terminal import without_marks
from pcer.report.table import ISOLATES, Table
from pcer.report.views import View, view_of


def to_latex_tables(audits: Sequence[Audit], view: View = "full") -> str:
    """Audits as LaTeX: sentences as paragraphs, booktabs tables."""
    parts = ["% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"]
    for shown in (
        each for audit in map(as_shown, audits) for each in view_of(audit, view)
    ):
        if isinstance(shown, Table):
            parts.append(to_latex(shown))
        else:
            parts.append(rf"\paragraph{{{latex_text(shown.title)}.}}")
            parts.append(latex_text(" ".join(shown.sentences)) + "\n")
    return "\n".join(parts)


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


def latex_text(text: str) -> str:
    """Text that LaTeX typesets as it is; the signs of this field become mathematics."""
    return "".join(
        _LATEX.get(character, character) for character in without_marks(text)
    )


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
