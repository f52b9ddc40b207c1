"""Audits as JUnit XML, so that a CI system shows each budget as a test."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from pcer.audit_file import Audit, BudgetResult
from pcer.notation import budget_name
from pcer.summary import floors_table, subject_name
from pcer.table import to_markdown
from pcer.verdict import Verdict


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test per budget and one for the floor grid.

    Args:
        audits: what was audited.
        fail_on: outcomes that count as a failure, as for ``--fail-on``.
    """
    root = Xml.Element("testsuites")
    for audit in audits:
        _suite(root, audit, fail_on)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _suite(root: Xml.Element, audit: Audit, fail_on: Sequence[str]) -> None:
    failures = [_budget_failure(budget, fail_on) for budget in audit.budgets]
    sensitive = audit.algorithm1.verdict is Verdict.FLOOR_SENSITIVE
    grid = "floor_sensitive" if sensitive and "floor_sensitive" in fail_on else None
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
    doubled = budget.double_disadvantage and "double_disadvantage" in fail_on
    return "double_disadvantage" if doubled else None
