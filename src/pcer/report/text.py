"""Audits as Markdown, LaTeX and JUnit: the audit's own sentences, then every table."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from pcer.auditing import Audit, Verdict, setting_name
from pcer.files import as_shown
from pcer.report.pictures import finding_svg
from pcer.report.table import latex_text, markdown_text, to_latex, to_markdown
from pcer.report.tables import advice, facts, finding_table, floors_table, subject_name, tables


def to_markdown_page(audits: Sequence[Audit]) -> str:
    """Audits as one Markdown page."""
    parts = []
    for audit in map(as_shown, audits):
        # The picture carries itself; its words are the headline.
        picture = base64.b64encode(finding_svg(audit).encode()).decode()
        words = markdown_text(audit.headline)
        parts.append(f"## {markdown_text(audit.title)}\n")
        parts.append(f"{words}\n")
        parts.append(f"![{words}](data:image/svg+xml;base64,{picture})\n")
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


def to_latex_tables(audits: Sequence[Audit]) -> str:
    """Audits as LaTeX: the account as text, then booktabs tables."""
    parts = ["% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"]
    for audit in map(as_shown, audits):
        parts.append(rf"\paragraph{{{latex_text(audit.title)}.}}")
        parts.append(latex_text(" ".join([*_sentences(audit), *advice(audit)])) + "\n")
        parts += [to_latex(table) for table in (finding_table(audit), *tables(audit))]
    return "\n".join(parts)


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test per setting and one for the floor grid.

    Args:
        audits: what was audited.
        fail_on: outcomes that count as a failure, of ``FailOn``.
    """
    return junit_text([_suite(audit, fail_on) for audit in map(as_shown, audits)])


class Case(NamedTuple):
    """One test of a suite; it failed where there is a failure."""

    suite: str
    name: str
    failure: str | None
    text: str


class Suite(NamedTuple):
    """Tests with their properties, and what a person would read."""

    name: str
    properties: dict[str, str]
    cases: list[Case]
    output: str


def junit_text(suites: Iterable[Suite]) -> str:
    """JUnit XML."""
    root = Xml.Element("testsuites")
    for name, properties, cases, output in suites:
        failed = sum(case.failure is not None for case in cases)
        counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}
        suite = Xml.SubElement(root, "testsuite", {"name": name, **counts})
        holder = Xml.SubElement(suite, "properties")
        for key, value in properties.items():
            Xml.SubElement(holder, "property", {"name": key, "value": value})
        for case in cases:
            found = Xml.SubElement(suite, "testcase", {"classname": case.suite, "name": case.name})
            if case.failure:
                Xml.SubElement(found, "failure", {"message": case.failure}).text = case.text
        Xml.SubElement(suite, "system-out").text = output
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _suite(audit: Audit, fail_on: Sequence[str]) -> Suite:
    policy = audit.plan.policy
    name = f"pcer {subject_name(audit)}"
    cases = _cases(audit, [*fail_on, *(policy.fail_on if policy is not None else ())])
    shown = [to_markdown(table) for table in (finding_table(audit), floors_table(audit))]
    return Suite(
        name,
        {"verdict": audit.verdict.value, "worse off": ", ".join(audit.worse_off)},
        [Case(name, *case) for case in cases],
        "\n".join([*_sentences(audit), "", *shown]),
    )


def _cases(audit: Audit, fail_on: Sequence[str]) -> Iterable[tuple[str, str | None, str]]:
    """Every setting, Algorithm 1 of every model, and every broken rule of the policy."""
    for budget in audit.budgets:
        worse = f": {', '.join(budget.worse_off)}" if budget.worse_off else ""
        failure = f"{budget.verdict.words}{worse}" if budget.verdict.value in fail_on else None
        text = f"{budget.reason}. {budget.advice}" if budget.reason else budget.advice
        yield setting_name(budget.model, budget.epsilon), failure, text
    for one in audit.published:
        found = one.algorithm1.verdict
        failure = found.words if found is Verdict.FLOOR_SENSITIVE and found in fail_on else None
        of_model = f", {one.model}" if one.model is not None else ""
        text = found.advice(audit.subject.outcome)
        yield f"Algorithm 1 over the floor grid{of_model}", failure, text
    for broken in audit.broken_rules:
        yield f"Policy: {broken.rule}", broken.sentence, broken.sentence
    if audit.plan.policy is not None and not audit.broken_rules:
        yield "Policy", None, audit.policy_lines[0]


def _sentences(audit: Audit) -> list[str]:
    first = [audit.headline, *audit.policy_lines, *audit.account]
    return [*first, audit.choice, *audit.trust, *audit.next_steps]
