"""Audits as text: for a terminal, as Markdown, LaTeX and JUnit.

The sentences are the audit's own. A terminal shows the finding first, one sharp table, then how
sure it is and what to do, in 80 columns and fewer; the raw numbers come with everything else.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from pcer.auditing.file import Audit
from pcer.auditing.verdict import Verdict
from pcer.files import as_shown
from pcer.report import tables
from pcer.report.pictures import finding_svg
from pcer.report.table import (
    Table,
    latex_text,
    markdown_text,
    table_body,
    to_latex,
    to_markdown,
    wrapped,
)

WIDTH = 80
NARROWEST = 24  # in fewer columns the terminal itself breaks lines


class Part(NamedTuple):
    """Lines under a title; both fit."""

    title: str
    body: str = ""

    def __str__(self) -> str:
        return f"{self.title}\n{self.body}".strip("\n")


def lines_part(title: str, lines: Iterable[str], width: int, *, indent: int = 2) -> Part:
    """Sentences under a title."""
    body = "\n".join(wrapped(line, width, indent=indent) for line in lines)
    return Part(wrapped(title, width), body)


def table_part(table: Table, width: int) -> Part:
    """A table under its title."""
    return Part(wrapped(table.title, width), table_body(table, width))


def finding(audit: Audit) -> tuple[str, str, str]:
    """The finding in three lines: what was found about what, the headline, how sure."""
    return audit.title, audit.headline, " ".join(audit.trust[:2])


def brief_parts(
    audit: Audit, width: int, *, most_rows: int | None = tables.MOST_ROWS
) -> list[Part]:
    """The finding and the sharp table."""
    title, *lines = finding(audit)
    return [
        lines_part(title, lines, width, indent=0),
        *([lines_part("Policy", audit.policy_lines, width)] if audit.policy_lines else []),
        table_part(tables.finding_table(audit, most_rows=most_rows), width),
    ]


def short_parts(audit: Audit, width: int) -> list[Part]:
    """What a terminal shows unasked."""
    return [
        *brief_parts(audit, width),
        lines_part("Can it be trusted?", [" ".join([audit.choice, *audit.trust[2:]])], width),
        lines_part("What can be done", audit.next_steps, width),
    ]


def full_parts(audit: Audit, width: int) -> list[Part]:
    """Everything: the account, the advice, what was audited, every table with raw numbers."""
    return [
        *brief_parts(audit, width, most_rows=None),
        *(lines_part(title, lines, width) for title, lines in _sections(audit).items()),
        *(table_part(table, width) for table in tables.tables(audit)),
    ]


def overview_part(audits: Sequence[Audit], width: int) -> Part:
    """One row for every release."""
    return table_part(tables.summary_table(audits), width)


def to_markdown_page(audits: Sequence[Audit]) -> str:
    """Audits as one Markdown page."""
    parts = []
    for audit in map(as_shown, audits):
        # The picture carries itself; its words are the headline.
        picture = base64.b64encode(finding_svg(audit).encode()).decode()
        words = markdown_text(audit.headline)
        parts += [f"## {markdown_text(audit.title)}\n", f"{words}\n"]
        parts.append(f"![{words}](data:image/svg+xml;base64,{picture})\n")
        parts.append(to_markdown(tables.finding_table(audit)))
        policy = {"Policy": audit.policy_lines} if audit.policy_lines else {}
        for title, lines in (policy | _sections(audit)).items():
            items = "\n".join(f"- {markdown_text(line)}" for line in lines)
            parts.append(f"### {title}\n\n{items}\n")
        parts += [to_markdown(table) for table in tables.tables(audit)]
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


def to_latex_tables(audits: Sequence[Audit]) -> str:
    """Audits as LaTeX: the account as text, then booktabs tables."""
    parts = ["% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"]
    for audit in map(as_shown, audits):
        parts.append(rf"\paragraph{{{latex_text(audit.title)}.}}")
        parts.append(latex_text(" ".join([*_sentences(audit), *tables.advice(audit)])) + "\n")
        every = (tables.finding_table(audit), *tables.tables(audit))
        parts += [to_latex(table) for table in every]
    return "\n".join(parts)


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test per setting and one for the floor grid.

    Args:
        audits: what was audited.
        fail_on: outcomes that count as a failure, of ``FailOn``.
    """
    suites = []
    for audit in map(as_shown, audits):
        properties = {"verdict": audit.verdict.value, "worse off": ", ".join(audit.worse_off)}
        shown = (tables.finding_table(audit), tables.floors_table(audit))
        output = "\n".join([*_sentences(audit), "", *map(to_markdown, shown)])
        name = f"pcer {tables.subject_name(audit)}"
        suites.append((name, properties, list(_cases(audit, fail_on, name)), output))
    return junit_text(suites)


class Case(NamedTuple):
    """One test of a suite; it failed where there is a failure."""

    suite: str
    name: str
    failure: str | None
    text: str


def junit_text(suites: Iterable[tuple[str, dict[str, str], list[Case], str]]) -> str:
    """JUnit XML of suites: name, properties, tests, and what a person would read."""
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


def _cases(audit: Audit, fail_on: Sequence[str], suite: str) -> Iterator[Case]:
    """Every setting, Algorithm 1 of every model, and every broken rule of the policy."""
    policy = audit.plan.policy
    failing = {*fail_on, *(policy.fail_on if policy is not None else ())}
    for budget in audit.budgets:
        worse = f": {', '.join(budget.worse_off)}" if budget.worse_off else ""
        failure = f"{budget.verdict.words}{worse}" if budget.verdict.value in failing else None
        text = f"{budget.reason}. {budget.advice}" if budget.reason else budget.advice
        yield Case(suite, tables.setting_of(budget), failure, text)
    for published in audit.published:
        found = published.algorithm1.verdict
        failure = found.words if found is Verdict.FLOOR_SENSITIVE and found in failing else None
        of_model = f", {published.model}" if published.model is not None else ""
        text = found.advice(audit.subject.outcome)
        yield Case(suite, f"Algorithm 1 over the floor grid{of_model}", failure, text)
    for broken in audit.broken_rules:
        yield Case(suite, f"Policy: {broken.rule}", broken.sentence, broken.sentence)
    if policy is not None and not audit.broken_rules:
        yield Case(suite, "Policy", None, audit.policy_lines[0])


def _sections(audit: Audit) -> dict[str, list[str]]:
    """Everything that is said below the finding, by its title."""
    return {
        "In plain words": audit.account,
        "Can it be trusted?": [audit.choice, *audit.trust],
        "What can be done": audit.next_steps,
        "Advice": tables.advice(audit),
        "What was audited": tables.facts(audit),
    }


def _sentences(audit: Audit) -> list[str]:
    first = [audit.headline, *audit.policy_lines, *audit.account]
    return [*first, audit.choice, *audit.trust, *audit.next_steps]
