"""An audit in a terminal: the finding first, one sharp table, then how sure and what to do.

Made for 80 columns and fewer. The sentences are the audit's own. What people read without asking
for more counts people out of 100; the raw numbers come with everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pcer.auditing import NOTHING, Audit, BudgetResult, Verdict, decimals, setting_name
from pcer.report import tables as summary
from pcer.report.table import Table, table_body, wrapped

WIDTH = 80
NARROWEST = 24
"""In fewer columns the terminal itself breaks lines."""
MOST_ROWS = 24
"""In a table that is read without asking for everything."""
UNSURE = (Verdict.NOT_RESOLVED, Verdict.INSUFFICIENT_DATA)
"""Where nothing is said about anyone's exposure."""

RECEIVED = {
    "positive_rate": "predicted\npositive,\nof 100",
    "true_positive_rate": "predicted\npositive, of 100\nwho qualify",
    "precision": "qualify, of 100\npredicted\npositive",
}


class Part(NamedTuple):
    """Lines under a title; both fit."""

    title: str
    body: str = ""

    def __str__(self) -> str:
        return f"{self.title}\n{self.body}".strip("\n")


def finding(audit: Audit) -> tuple[str, str, str]:
    """The finding in three lines: what was found about what, the headline, how sure."""
    return summary.headline(audit), audit.headline, " ".join(audit.trust[:2])


def finding_table(audit: Audit, *, most_rows: int | None = None) -> Table:
    """Per setting and group what it receives and how exposed it is, in people out of 100.

    Args:
        audit: whose numbers are shown.
        most_rows: where there would be more, only the setting that the headline is about, and of
            its groups first those that are worse off or most exposed.
    """
    settings = _settings(audit, most_rows)
    several = len(settings) > 1
    rows = [
        ((_name(one),) if several else ()) + _row(audit, one, name)
        for one in settings
        for name in _names(audit, one, most_rows)
    ]
    level = f"{100 * audit.plan.confidence_level:g}"
    return Table(
        "Who receives what, and who is exposed" + ("" if several else f": {_name(settings[0])}"),
        (
            *(("setting",) if several else ()),
            "group",
            RECEIVED[audit.plan.benefit],
            f"{audit.proxy.scale.column}\n[{level} % interval]",
            "at\nmost",
            "shown?",
        ),
        tuple(rows),
        n_labels=1 + several,
        note=_note(audit, n_rows=len(rows)),
    )


def short_parts(audit: Audit, width: int) -> list[Part]:
    """What a terminal shows unasked."""
    told = " ".join([audit.choice, *audit.trust[2:]])
    return [
        *brief_parts(audit, width),
        _lines("Can it be trusted?", [told], width),
        _lines("What can be done", audit.next_steps, width),
    ]


def brief_parts(audit: Audit, width: int) -> list[Part]:
    """The finding and the sharp table."""
    title, *told = finding(audit)
    return [
        Part(wrapped(title, width), "\n".join(wrapped(line, width) for line in told)),
        *_policy(audit, width),
        _table(finding_table(audit, most_rows=MOST_ROWS), width),
    ]


def full_parts(audit: Audit, width: int) -> list[Part]:
    """Everything: the account, the advice, what was audited, every table with raw numbers."""
    title, *told = finding(audit)
    return [
        Part(wrapped(title, width), "\n".join(wrapped(line, width) for line in told)),
        *_policy(audit, width),
        _table(finding_table(audit), width),
        _lines("In plain words", audit.account, width),
        _lines("Can it be trusted?", [audit.choice, *audit.trust], width),
        _lines("What can be done", audit.next_steps, width),
        _lines("Advice", summary.advice(audit), width),
        _lines("What was audited", summary.facts(audit), width),
        *(_table(table, width) for table in summary.tables(audit)),
    ]


def overview_part(audits: Sequence[Audit], width: int) -> Part:
    """One row for every release."""
    return _table(summary.summary_table(audits), width)


def to_terminal(audit: Audit, *, width: int = WIDTH) -> str:
    """The finding and the sharp table as plain text."""
    return "\n\n".join(map(str, brief_parts(audit, width)))


def shown_word(budget: BudgetResult, name: str) -> str:
    """Whether a group's exposure is shown, and whether the setting's verdict names the group."""
    group = budget.groups[name]
    if group.too_few:
        return "too few"
    if not group.resolved or budget.verdict in UNSURE:
        return "no"
    if name not in budget.worse_off:
        return "yes"
    is_double = budget.verdict is Verdict.DOUBLE_DISADVANTAGE
    return "yes, doubly disadvantaged" if is_double else "yes, worse off"


def exposure_amount(audit: Audit, cost: float | None) -> str:
    """A cost in people out of 100 or its own unit, all of one audit with the same decimals."""
    if cost is None:
        return NOTHING
    scale = audit.proxy.scale
    costs = [group.cost.value or 0.0 for one in audit.budgets for group in one.groups.values()]
    is_coarse = scale.is_advantage or scale.per_unit * max(map(abs, costs)) >= 1
    return decimals(50 * scale.is_advantage + scale.per_unit * cost, 1 if is_coarse else 2)


def _row(audit: Audit, budget: BudgetResult, name: str) -> tuple[str, ...]:
    group = budget.groups[name]
    received, cost = group.benefit.mean, group.cost
    ends = ", ".join(exposure_amount(audit, end) for end in cost.interval or ())
    exposure = exposure_amount(audit, cost.value) + (f" [{ends}]" if ends else "")
    return (
        name,
        NOTHING if received is None else f"{round(100 * received)}",
        exposure,
        exposure_amount(audit, cost.upper_limit),
        shown_word(budget, name),
    )


def _settings(audit: Audit, most_rows: int | None) -> list[BudgetResult]:
    n_rows = len(audit.budgets) * len(audit.subject.groups)
    return audit.budgets if most_rows is None or n_rows <= most_rows else [audit.told]


def _names(audit: Audit, budget: BudgetResult, most_rows: int | None) -> list[str]:
    names = audit.subject.groups
    first = sorted(names, key=lambda name: (name not in budget.worse_off, -_cost(budget, name)))
    return [name for name in names if name in first[:most_rows]]


def _cost(budget: BudgetResult, name: str) -> float:
    return budget.groups[name].cost.value or 0.0


def _name(budget: BudgetResult) -> str:
    return setting_name(budget.model, budget.epsilon)


def _note(audit: Audit, *, n_rows: int) -> str:
    weight = "a benefit" if audit.subject.outcome == "benefit" else "a harm"
    chance = "; guessing gives 50" if audit.proxy.scale.is_advantage else ""
    text = (
        f"A positive prediction is {weight}. Exposure: {audit.proxy.label}{chance}. Shown: beyond "
        "chance. At most: with 95 % confidence, each alone."
    )
    left_out = len(audit.budgets) * len(audit.subject.groups) - n_rows
    return text + (f" {left_out} further rows are in the full table." if left_out else "")


def _policy(audit: Audit, width: int) -> list[Part]:
    lines = audit.policy_lines
    return [_lines("Policy", lines, width)] if lines else []


def _lines(title: str, lines: Sequence[str], width: int) -> Part:
    return Part(title, "\n".join(wrapped(line, width, indent=2) for line in lines))


def _table(table: Table, width: int) -> Part:
    return Part(wrapped(table.title, width), table_body(table, width))
