"""How are views and tables written as LaTeX?

``pcer audit --latex`` and ``Audit.paper().to_latex()`` call this file. The paper's
study typesets names with ``latex_text``. To add a sign: a row of ``LATEX_SIGNS``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.auditing.record import Audit
from pcer.files import as_shown
from pcer.report.formats.terminal import without_marks
from pcer.report.table import ISOLATES, Six, Table, template
from pcer.report.views import View, view_of

PACKAGES = "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"
LATEX_SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
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


def to_latex_tables(audits: Sequence[Audit], view: View = "full") -> str:
    """Audits as LaTeX: sentences as paragraphs, booktabs tables."""
    parts = [PACKAGES]
    for audit in map(as_shown, audits):
        for part in view_of(audit, view):
            if isinstance(part, Table):
                parts.append(to_latex(part))
                continue
            if isinstance(part, Six):
                parts += [latex_text(row.text) + "\n" for row in part.rows]
                continue
            if part.title:
                parts.append(rf"\paragraph{{{latex_text(part.title)}.}}")
            parts.append(latex_text(" ".join(part.sentences)) + "\n")
    return "\n".join(parts)


def to_latex(table: Table) -> str:
    """The table as booktabs, in the paper's shape; made smaller until it fits."""
    align = "l" * table.n_labels + "c" * (len(table.columns) - table.n_labels)
    head = _latex_row(table.columns)
    body = "\n".join(_latex_row(row) for row in table.rows)
    title = table.title if table.title.endswith("?") else f"{table.title}."
    caption = latex_text(f"{title} {table.note}".strip())
    return template("table.tex") % (caption, align, head, body)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


def latex_text(text: str) -> str:
    """Text that LaTeX typesets as it is; the signs of this field become mathematics."""
    characters = without_marks(text)
    return "".join(LATEX_SIGNS.get(character, character) for character in characters)
