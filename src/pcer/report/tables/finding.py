"""Which tables tell the finding and the numbers behind it?"""

from __future__ import annotations

from pcer import wording
from pcer.auditing.record import Audit, BudgetResult, GroupResult
from pcer.auditing.sentences import telling
from pcer.release import attack_kinds
from pcer.report.table import Table
from pcer.report.tables.background import (
    Column,
    amount_text,
    further_rows,
    least_private_first,
    setting_of,
    table_of,
)

MOST_ROWS = 24  # in a table that is read without asking for everything
FEW_ROWS = 4  # where words are counted
BAR = "█"  # a tenth of a group


def finding_table(
    audit: Audit, *, most_rows: int | None = None, bars: bool = False
) -> Table:
    """Per setting and group the outcome rate and the exposure, in people out of 100.

    Of more than ``most_rows`` only those of the setting that the headline is about are
    shown, and of its groups first those that it names and the most exposed. ``bars``
    draw outcome rates.
    """
    names = audit.subject.groups
    n_all = len(audit.budgets) * len(names)
    received = wording.templates()[audit.plan.benefit]["head"]
    is_whole = most_rows is None or n_all <= most_rows
    settings = least_private_first(audit) if is_whole else [audit.told]
    several = len(settings) > 1
    items = list[tuple[BudgetResult, str, GroupResult]]()
    for budget in settings:
        cost = {name: group.cost.value or 0.0 for name, group in budget.groups.items()}
        first = sorted(names, key=lambda name: (name not in budget.named, -cost[name]))
        shown = (name for name in names if name in first[:most_rows])
        items += [(budget, name, budget.groups[name]) for name in shown]

    def outcome(_: BudgetResult, __: str, group: GroupResult) -> str:
        rate = group.benefit.mean
        bar = "" if rate is None or not bars else f"{BAR * round(10 * rate)} "
        return bar + amount_text(attack_kinds.ACCURACY, rate, 0)

    def exposure(_: BudgetResult, __: str, group: GroupResult) -> str:
        ends = ", ".join(exposure_text(audit, end) for end in group.cost.interval or ())
        return exposure_text(audit, group.cost.value) + (f" [{ends}]" if ends else "")

    columns: list[Column] = [
        ("setting", lambda budget, *_: setting_of(budget)),
        ("group", lambda _, name, group: name),
        (received, outcome),
        (f"{audit.proxy.scale.column}\n{interval_head(audit)}", exposure),
        ("at\nmost", lambda *at: exposure_text(audit, at[2].cost.upper_bound)),
        ("detected", detected_text),
    ]
    values = {
        "at": "" if several else f": {setting_of(settings[0])}",
        "chance": audit.proxy.scale.coin,
        "more": f" {wording.say('paper', 'detected')}{further_rows(n_all - len(items))}",
    }
    return table_of(
        audit, "finding", columns[not several :], items, 1 + several, **values
    )


def interval_head(audit: Audit) -> str:
    """The head of a column of intervals."""
    return f"[{100 * audit.plan.confidence_level:g}% interval]"


def detected_text(budget: BudgetResult, _: str, group: GroupResult) -> str:
    """Whether a group is detected, in a table's words."""
    if telling.answer_of(budget, "exposure") == "cannot_tell":
        return "cannot tell"
    return "too few" if group.too_few else wording.yes_no(group.resolved)


def exposure_text(audit: Audit, cost: float | None, digits: int | None = None) -> str:
    """An exposure in people out of 100 or its own unit, all of one audit with the same decimals."""
    if cost is None:
        return wording.NOTHING
    scale = audit.proxy.scale
    if digits is None:
        costs = (
            g.cost.value or 0.0
            for budget in audit.budgets
            for g in budget.groups.values()
        )
        is_coarse = scale.is_advantage or scale.per_unit * max(map(abs, costs)) >= 1
        digits = 1 if is_coarse else 2
    return wording.decimals(50 * scale.is_advantage + scale.per_unit * cost, digits)


def numbers_table(audit: Audit) -> Table:
    """The numbers behind the pictures, in people of 100, with more digits than they print."""
    rows = []
    for budget in audit.budgets:
        for name, group in budget.groups.items():
            ends = group.cost.interval or (None, None)
            received = group.benefit.mean
            costs = (group.cost.value, *ends, group.cost.upper_bound)
            cells = [
                amount_text(attack_kinds.ACCURACY, received, 4),
                *(exposure_text(audit, c, 4) for c in costs),
            ]
            plain = (
                cell.replace("−", "-") for cell in cells
            )  # as other programs read them
            rows.append(
                (setting_of(budget), name, *plain, wording.yes_no(group.resolved))
            )
    columns = (
        "outcome, of 100",
        "exposure, of 100",
        "low",
        "high",
        "at most",
        "detected",
    )
    return Table(
        "Numbers of the pictures", ("setting", "group", *columns), tuple(rows), 2
    )
