"""Audits as Markdown, LaTeX and JUnit: the audit's own sentences, then every table."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from pcer.auditing import Audit, BudgetResult, Verdict, setting_name
from pcer.files import as_shown
from pcer.report.hero import hero_svg
from pcer.report.table import latex_text, markdown_text, to_latex, to_markdown
from pcer.report.tables import advice, facts, floors_table, headline, subject_name, tables
from pcer.report.terminal import finding_table


def to_markdown_page(audits: Sequence[Audit]) -> str:
    """Audits as one Markdown page."""
    parts = []
    for audit in map(as_shown, audits):
        parts.append(f"## {markdown_text(headline(audit))}\n")
        parts.append(f"{markdown_text(audit.headline)}\n")
        parts.append(f"{_picture(audit)}\n")
        parts.append(to_markdown(finding_table(audit)))
        for title, lines in (
            *([("Policy", audit.policy_lines)] if audit.policy_lines else []),
            ("In plain words", audit.account),
            ("Can it be trusted?", [audit.choice, *audit.trust]),
            ("What can be done", audit.next_steps),
            ("Advice", advice(audit)),
            ("What was audited", facts(audit)),
        ):
            items = "\n".join(f"- {markdown_text(line)}" for line in lines)
            parts.append(f"### {title}\n\n{items}\n")
        parts += [to_markdown(table) for table in tables(audit)]
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


def _picture(audit: Audit) -> str:
    """The finding's picture as an image that carries itself, told by its headline."""
    data = base64.b64encode(hero_svg(audit).encode()).decode()
    return f"![{markdown_text(audit.headline)}](data:image/svg+xml;base64,{data})"


def to_latex_tables(audits: Sequence[Audit]) -> str:
    """Audits as LaTeX: the account as text, then booktabs tables."""
    parts = ["% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"]
    for audit in map(as_shown, audits):
        parts.append(rf"\paragraph{{{latex_text(headline(audit))}.}}")
        first = [audit.headline, *audit.policy_lines, *audit.account]
        told = [*first, audit.choice, *audit.trust, *audit.next_steps]
        parts.append(latex_text(" ".join([*told, *advice(audit)])) + "\n")
        parts += [to_latex(table) for table in (finding_table(audit), *tables(audit))]
    return "\n".join(parts)


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test per budget and one for the floor grid.

    Args:
        audits: what was audited.
        fail_on: outcomes that count as a failure, of ``FailOn``.
    """
    root = Xml.Element("testsuites")
    for audit in map(as_shown, audits):
        _suite(root, audit, fail_on)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _suite(root: Xml.Element, audit: Audit, fail_on: Sequence[str]) -> None:
    name = f"pcer {subject_name(audit)}"
    policy = audit.plan.policy
    fail_on = [*fail_on, *(policy.fail_on if policy is not None else ())]
    cases = [*_budget_cases(audit, fail_on), *_grid_cases(audit, fail_on), *_rule_cases(audit)]
    failed = sum(case.failure is not None for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}
    suite = Xml.SubElement(root, "testsuite", {"name": name, **counts})
    properties = Xml.SubElement(suite, "properties")
    for key, value in (("verdict", audit.verdict.value), ("worse off", ", ".join(audit.worse_off))):
        Xml.SubElement(properties, "property", {"name": key, "value": value})
    for case in cases:
        _add(suite, name, case)
    output = Xml.SubElement(suite, "system-out")
    first = [audit.headline, *audit.policy_lines, *audit.account]
    told = [*first, audit.choice, *audit.trust, *audit.next_steps]
    shown = [to_markdown(table) for table in (finding_table(audit), floors_table(audit))]
    output.text = "\n".join([*told, "", *shown])


class _Case(NamedTuple):
    name: str
    failure: str | None
    text: str


def _budget_cases(audit: Audit, fail_on: Sequence[str]) -> list[_Case]:
    return [
        _Case(
            setting_name(budget.model, budget.epsilon),
            _failure(budget, fail_on),
            f"{budget.reason}. {budget.advice}" if budget.reason else budget.advice,
        )
        for budget in audit.budgets
    ]


def _grid_cases(audit: Audit, fail_on: Sequence[str]) -> list[_Case]:
    cases = []
    for one in audit.published:
        found = one.algorithm1.verdict
        failure = found.words if found is Verdict.FLOOR_SENSITIVE and found in fail_on else None
        of_model = f", {one.model}" if one.model is not None else ""
        text = found.advice(audit.subject.outcome)
        cases.append(_Case(f"Algorithm 1 over the floor grid{of_model}", failure, text))
    return cases


def _rule_cases(audit: Audit) -> list[_Case]:
    """One failure for each rule of the policy that is broken; one success where it holds."""
    if audit.plan.policy is None:
        return []
    broken = [_Case(f"Policy: {o.rule}", o.sentence, o.sentence) for o in audit.broken_rules]
    return broken or [_Case("Policy", None, audit.policy_lines[0])]


def _add(suite: Xml.Element, suite_name: str, one: _Case) -> None:
    case = Xml.SubElement(suite, "testcase", {"classname": suite_name, "name": one.name})
    if one.failure:
        Xml.SubElement(case, "failure", {"message": one.failure}).text = one.text


def _failure(budget: BudgetResult, fail_on: Sequence[str]) -> str | None:
    """What a guard meets: the verdict, with the groups that it names."""
    if budget.verdict.value not in fail_on:
        return None
    named = f": {', '.join(budget.worse_off)}" if budget.worse_off else ""
    return f"{budget.verdict.words}{named}"
