"""An audit in a terminal: the finding first, one sharp table, then how sure and what to do.

Made for 80 columns and fewer. The sentences are the audit's own. What people read without asking
for more counts people out of 100; the raw numbers come with everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pcer.auditing import Audit
from pcer.report import tables
from pcer.report.table import Table, table_body, wrapped

WIDTH = 80
NARROWEST = 24
"""In fewer columns the terminal itself breaks lines."""


class Part(NamedTuple):
    """Lines under a title; both fit."""

    title: str
    body: str = ""

    def __str__(self) -> str:
        return f"{self.title}\n{self.body}".strip("\n")


def finding(audit: Audit) -> tuple[str, str, str]:
    """The finding in three lines: what was found about what, the headline, how sure."""
    return audit.title, audit.headline, " ".join(audit.trust[:2])


def brief_parts(audit: Audit, width: int) -> list[Part]:
    """The finding and the sharp table."""
    return _finding_parts(audit, tables.finding_table(audit, most_rows=tables.MOST_ROWS), width)


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
        *_finding_parts(audit, tables.finding_table(audit), width),
        lines_part("In plain words", audit.account, width),
        lines_part("Can it be trusted?", [audit.choice, *audit.trust], width),
        lines_part("What can be done", audit.next_steps, width),
        lines_part("Advice", tables.advice(audit), width),
        lines_part("What was audited", tables.facts(audit), width),
        *(table_part(table, width) for table in tables.tables(audit)),
    ]


def overview_part(audits: Sequence[Audit], width: int) -> Part:
    """One row for every release."""
    return table_part(tables.summary_table(audits), width)


def to_terminal(audit: Audit, *, width: int = WIDTH) -> str:
    """The finding and the sharp table as plain text."""
    return "\n\n".join(map(str, brief_parts(audit, width)))


def lines_part(title: str, lines: Sequence[str], width: int) -> Part:
    """Sentences under a title."""
    return Part(title, "\n".join(wrapped(line, width, indent=2) for line in lines))


def table_part(table: Table, width: int) -> Part:
    """A table under its title."""
    return Part(wrapped(table.title, width), table_body(table, width))


def _finding_parts(audit: Audit, table: Table, width: int) -> list[Part]:
    title, *lines = finding(audit)
    policy = audit.policy_lines
    return [
        Part(wrapped(title, width), "\n".join(wrapped(line, width) for line in lines)),
        *([lines_part("Policy", policy, width)] if policy else []),
        table_part(table, width),
    ]
