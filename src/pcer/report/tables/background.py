"""What must a reader know beside the tables, and how are their cells written?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pcer import wording
from pcer.auditing import record
from pcer.auditing.record import Audit, BudgetResult
from pcer.release import attack_kinds
from pcer.release.attack_kinds import GAP
from pcer.report.table import Table, isolated

MOST_PAIRS = 5  # pairs that charts show; the tables have all
LONGEST_HEADER = 12
HUNDREDTHS = 100.0


def subject_name(audit: Audit) -> str:
    """Dataset and attribute."""
    return f"{audit.subject.dataset} ({audit.subject.attribute})"


def isolate_names(text: str, audit: Audit) -> str:
    """A sentence that names which run from right to left do not turn around."""
    subject = audit.subject
    for name in sorted({*subject.groups, subject.dataset, subject.attribute}, key=len):
        text = text.replace(name, isolated(name))
    return text


def facts(audit: Audit) -> list[str]:
    """What a reader must know to read the numbers: outcome, split, sizes, notes."""
    subject = audit.subject
    weight = "helps" if subject.outcome == "benefit" else "harms"
    seeds = sorted({budget.n_seeds for budget in audit.budgets})
    splits = sorted({budget.n_splits for budget in audit.budgets})
    sizes = []
    for name, group in audit.budgets[0].groups.items():
        is_known = group.n_train is not None and group.n_test is not None
        size = f"{group.n_train:,.0f} + {group.n_test:,.0f}" if is_known else "not said"
        sizes.append(f"{name} {size}")
    lines = [
        f"A positive prediction {weight} the person. Mechanism: {subject.mechanism}. "
        f"Split {subject.split_kind or 'not said to be random'}.",
        f"Records per run, train + test: {', '.join(sizes)}.",
        f"Settings: {len(audit.budgets)}; seeds of each: {wording.number_range(seeds)}; "
        f"distinct splits of each: {wording.number_range(splits)}.",
    ]
    return [*lines, *left_out(audit), *subject.notes]


def left_out(audit: Audit) -> list[str]:
    """How many people have no group and are in no number; nothing where everybody has one."""
    n = audit.subject.n_missing_group
    return [wording.say("how_sure", "missing", n=f"{n:,}")] if n else []


def advice(audit: Audit) -> list[str]:
    """The advice of every verdict that occurs, strongest first, with reasons."""
    budgets = sorted(
        audit.budgets, key=lambda budget: budget.verdict is not audit.verdict
    )
    by_text: dict[str, list[str]] = {}
    for budget in budgets:
        text = budget.verdict.words + (
            f". Reason: {budget.reason}." if budget.reason else "."
        )
        by_text.setdefault(text, []).append(setting_of(budget))
    return [f"{', '.join(names)} — {text}" for text, names in by_text.items()]


Column = tuple[
    str, Callable[..., str]
]  # its head, and what makes a cell of what a row is about


def table_of(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    items: Iterable[Any],
    n: int,
    **values: str,
) -> Table:
    """A row for every item, the first ``n`` columns being labels."""
    rows = [tuple(cell(*item) for _, cell in columns) for item in items]
    return titled_table(audit, name, [head for head, _ in columns], rows, n, **values)


def titled_table(
    audit: Audit,
    name: str,
    heads: Sequence[str],
    rows: Iterable[Any],
    n: int,
    **values: Any,
) -> Table:
    """Cells under the title and over the note that they have in ``words.toml``."""
    level = f"{100 * audit.plan.confidence_level:g}"
    unit = audit.proxy.scale.points
    found = {"audit": audit, "gap": GAP, "level": level, "unit": unit}
    title, note = (
        text.format(**found, **values) for text in wording.templates()[name].values()
    )
    return Table(title, tuple(heads), tuple(rows), n, note)


def further_rows(n: int) -> str:
    """How many rows a short table leaves out; empty for none."""
    return f" {n} more rows: full table." if n else ""


Ends = tuple[float, float]


def least_private_first(audit: Audit) -> list[BudgetResult]:
    """Settings in the order in which people read them, model by model."""
    return sorted(audit.budgets, key=lambda b: (audit.models.index(b.model), -b.budget))


def shown_groups(audit: Audit) -> list[int]:
    """Positions of the groups that charts show: those of the first few pairs."""
    shown = {
        name for pair in audit.budgets[0].pairs[:MOST_PAIRS] for name in pair.groups
    }
    return [g for g, name in enumerate(audit.subject.groups) if name in shown]


def setting_labels(audit: Audit) -> list[str]:
    """What settings are called on an axis: short, and distinct even where they nearly agree."""
    short = [short_name_of(budget) for budget in audit.budgets]
    if len(set(short)) == len(short):
        return [isolated(label) for label in short]
    return [
        "no-DP" if budget.epsilon is None else repr(budget.epsilon)
        for budget in audit.budgets
    ]


def setting_of(budget: BudgetResult) -> str:
    """The name of a setting."""
    return wording.setting_name(budget.model, budget.epsilon)


def short_name_of(budget: BudgetResult) -> str:
    """The name of a setting in a narrow table."""
    return wording.short_setting(budget.model, budget.epsilon)


def amount_text(scale: attack_kinds.Scale, cost: float | None, digits: int = 2) -> str:
    """A cost or a difference of two in hundredths, or in its own unit."""
    if cost is None or scale.per_unit != HUNDREDTHS:
        return wording.decimals(cost, 4)
    return wording.decimals(HUNDREDTHS * cost, digits)


def amount_texts(scale: attack_kinds.Scale, ci: Ends | None) -> str:
    """An interval of costs as a table has it."""
    return (
        f"[{amount_text(scale, ci[0])}, {amount_text(scale, ci[1])}]"
        if ci
        else "[no interval]"
    )


def difference_text(scale: attack_kinds.Scale, found: record.Difference) -> str:
    """A signed difference above its interval."""
    sign = "+" if found.value is not None and found.value > 0 else ""
    return f"{sign}{amount_text(scale, found.value)}\n{amount_texts(scale, found.interval)}"
