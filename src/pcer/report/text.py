"""Audits as Markdown and LaTeX pages; account, advice and every table, in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from pcer.auditing import DOUBLE_DISADVANTAGE, Audit, BudgetResult, Verdict, budget_name
from pcer.report.table import latex_text, markdown_text, to_latex, to_markdown
from pcer.report.tables import advice, facts, floors_table, headline, subject_name, tables


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


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test per budget and one for the floor grid.

    Args:
        audits: what was audited.
        fail_on: outcomes that count as a failure, of ``FailOn``.
    """
    root = Xml.Element("testsuites")
    for audit in audits:
        _suite(root, audit, fail_on)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _suite(root: Xml.Element, audit: Audit, fail_on: Sequence[str]) -> None:
    failures = [_budget_failure(budget, fail_on) for budget in audit.budgets]
    found = audit.algorithm1.verdict
    grid = found.value if found is Verdict.FLOOR_SENSITIVE and found in fail_on else None
    failed = sum(name is not None for name in (*failures, grid))
    name = f"pcer {subject_name(audit)}"
    counts = {"tests": str(len(failures) + 1), "failures": str(failed), "errors": "0"}
    suite = Xml.SubElement(root, "testsuite", {"name": name, **counts})
    for budget, failure in zip(audit.budgets, failures, strict=True):
        _case(suite, name, budget_name(budget.epsilon), failure, budget.advice)
    _case(
        suite,
        name,
        "Algorithm 1 over the floor grid",
        grid,
        audit.algorithm1.verdict.advice(audit.subject.outcome),
    )
    output = Xml.SubElement(suite, "system-out")
    output.text = "\n".join([*audit.account, "", to_markdown(floors_table(audit))])


def _case(suite: Xml.Element, suite_name: str, name: str, failure: str | None, text: str) -> None:
    case = Xml.SubElement(suite, "testcase", {"classname": suite_name, "name": name})
    if failure:
        Xml.SubElement(case, "failure", {"message": failure.replace("_", " ")}).text = text


def _budget_failure(budget: BudgetResult, fail_on: Sequence[str]) -> str | None:
    if budget.verdict.value in fail_on:
        return budget.verdict.value
    doubled = budget.double_disadvantage and DOUBLE_DISADVANTAGE in fail_on
    return DOUBLE_DISADVANTAGE if doubled else None
