"""Audits as Markdown and LaTeX pages; account, advice and every table, in reading order."""

from __future__ import annotations

from collections.abc import Sequence

from pcer.audit_file import Audit
from pcer.summary import advice, facts, headline, tables
from pcer.table import latex_text, markdown_text, to_latex, to_markdown


def to_markdown_page(audits: Sequence[Audit]) -> str:
    """Audits as one Markdown page."""
    parts = []
    for audit in audits:
        parts.append(f"## {markdown_text(headline(audit))}\n")
        for title, lines in (
            ("In plain words", audit.account),
            ("Advice", advice(audit)),
            ("What was audited", facts(audit)),
        ):
            items = "\n".join(f"- {markdown_text(line)}" for line in lines)
            parts.append(f"### {title}\n\n{items}\n")
        parts += [to_markdown(table) for table in tables(audit)]
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


def to_latex_tables(audits: Sequence[Audit]) -> str:
    """Audits as LaTeX: the account as text, then booktabs tables."""
    parts = ["% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"]
    for audit in audits:
        parts.append(rf"\paragraph{{{latex_text(headline(audit))}.}}")
        parts.append(latex_text(" ".join([*audit.account, *advice(audit)])) + "\n")
        parts += [to_latex(table) for table in tables(audit)]
    return "\n".join(parts)
