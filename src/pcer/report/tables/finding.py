"""Which tables tell the finding and the numbers behind it?

``finding_table`` is the table of the page, the terminal, Markdown and the opinion.
"""

from __future__ import annotations

from functools import partial

from pcer import wording
from pcer.auditing.record import Audit, BudgetResult, GroupResult
from pcer.auditing.sentences import telling
from pcer.release import attack_kinds
from pcer.report.table import Table
from pcer.report.tables.background import (
    Column,
    GroupRow,
    amount_text,
    further_rows,
    group_rows,
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
    n_all = len(audit.budgets) * len(audit.subject.groups)
    is_whole = most_rows is None or n_all <= most_rows
    settings = least_private_first(audit) if is_whole else [audit.told]
    rows: list[GroupRow] = []
    for setting in settings:
        rows += _rows_of(audit, setting, most_rows)

    rates = wording.templates()[audit.plan.benefit]["head"]
    exposures = f"{audit.proxy.scale.column}\n{interval_head(audit)}"
    columns: list[Column] = [
        ("group", lambda row: row.name),
        (rates, partial(_outcome, with_bar=bars)),
        (exposures, partial(_exposure, audit)),
        ("at\nmost", lambda row: exposure_text(audit, row.group.cost.upper_bound)),
        ("detected", lambda row: detected_text(row.setting, row.group)),
    ]
    where = f": {setting_of(settings[0])}"
    n_labels = 1
    if len(settings) > 1:
        columns.insert(0, ("setting", lambda row: setting_of(row.setting)))
        where = ""
        n_labels = 2
    more = f" {wording.say('paper', 'detected')}{further_rows(n_all - len(rows))}"
    coin = audit.proxy.scale.coin
    return table_of(
        audit, "finding", columns, rows, n_labels, at=where, chance=coin, more=more
    )


def _rows_of(
    audit: Audit, setting: BudgetResult, most_rows: int | None
) -> list[GroupRow]:
    """Groups in the subject's order; of too many the named and the most exposed."""
    exposures = {
        name: group.cost.value or 0.0 for name, group in setting.groups.items()
    }
    by_interest = sorted(
        audit.subject.groups,
        key=lambda name: (name not in setting.named, -exposures[name]),
    )
    shown = by_interest[:most_rows]
    return [
        GroupRow(setting, name, setting.groups[name])
        for name in audit.subject.groups
        if name in shown
    ]


def _outcome(row: GroupRow, *, with_bar: bool) -> str:
    rate = row.group.benefit.mean
    text = amount_text(attack_kinds.ACCURACY, rate, 0)
    if rate is None or not with_bar:
        return text
    return f"{BAR * round(10 * rate)} {text}"


def _exposure(audit: Audit, row: GroupRow) -> str:
    value = exposure_text(audit, row.group.cost.value)
    if row.group.cost.interval is None:
        return value
    ends = [exposure_text(audit, end) for end in row.group.cost.interval]
    return f"{value} [{', '.join(ends)}]"


def interval_head(audit: Audit) -> str:
    """The head of a column of intervals."""
    return f"[{100 * audit.plan.confidence_level:g}% interval]"


def detected_text(setting: BudgetResult, group: GroupResult) -> str:
    """Whether a group is detected, in a table's words."""
    if telling.answer_of(setting, "exposure") == "cannot_tell":
        return "cannot tell"
    return "too few" if group.too_few else wording.yes_no(group.resolved)


def exposure_text(audit: Audit, cost: float | None, digits: int | None = None) -> str:
    """An exposure in people out of 100, or in its own unit.

    Without ``digits`` all exposures of one audit have as many decimals.
    """
    if cost is None:
        return wording.NOTHING
    scale = audit.proxy.scale
    if digits is None:
        largest = max(abs(row.group.cost.value or 0.0) for row in group_rows(audit))
        is_coarse = scale.is_advantage or scale.per_unit * largest >= 1
        digits = 1 if is_coarse else 2
    coin = 50 if scale.is_advantage else 0
    return wording.decimals(coin + scale.per_unit * cost, digits)


def numbers_table(audit: Audit) -> Table:
    """The numbers behind the pictures, with more digits than they print."""
    rows = []
    for row in group_rows(audit):
        exposure = row.group.cost
        low, high = exposure.interval or (None, None)
        cells = [amount_text(attack_kinds.ACCURACY, row.group.benefit.mean, 4)]
        for value in (exposure.value, low, high, exposure.upper_bound):
            cells.append(exposure_text(audit, value, 4))
        # with the minus sign that other programs read
        plain = [cell.replace("−", "-") for cell in cells]
        detected = wording.yes_no(row.group.resolved)
        rows.append((setting_of(row.setting), row.name, *plain, detected))
    heads = ("setting", "group", "outcome, of 100", "exposure, of 100")
    more = ("low", "high", "at most", "detected")
    return Table("Numbers of the pictures", (*heads, *more), tuple(rows), 2)
