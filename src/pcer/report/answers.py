"""The first screen of a report: is there a disparity, for whom, can it be trusted?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pcer.auditing import (
    BUDGET_VERDICTS,
    Audit,
    BudgetResult,
    Verdict,
    decimals,
    listed,
    setting_name,
)

MOST_BUDGETS_NAMED = 6


class Answer(NamedTuple):
    """A question of the reader, a short answer and what stands behind it."""

    question: str
    short: str
    long: str


def answers(audit: Audit) -> list[Answer]:
    """The three questions, answered for one release."""
    return [_is_there(audit), _for_whom(audit), _can_it_be_trusted(audit)]


def _is_there(audit: Audit) -> Answer:
    short = {
        Verdict.DOUBLE_DISADVANTAGE: "Yes, a double disadvantage is shown",
        Verdict.DISPARITY_SHOWN: "Yes, a disparity is shown",
        Verdict.EQUAL_WITHIN_MARGIN: "No: the costs are equal within the margin",
        Verdict.NO_DISPARITY_SHOWN: "None is shown",
        Verdict.FLOOR_DOMINATED: "It cannot be told at this floor",
        Verdict.NOT_RESOLVED: "It cannot be told",
        Verdict.INSUFFICIENT_DATA: "It cannot be told from this release",
    }[audit.verdict]
    parts = [
        f"{verdict.words} at {_having(audit.budgets, verdict)}"
        for verdict in BUDGET_VERDICTS
        if any(budget.verdict is verdict for budget in audit.budgets)
    ]
    return Answer("Is there a disparity?", short, _sentence("; ".join(parts)))


def _for_whom(audit: Audit) -> Answer:
    """The doubly disadvantaged first: where positives harm, a lower ratio alone harms nobody."""
    question = "For whom?"
    lower = _names(pair.lower_ratio for b in audit.budgets for pair in b.pairs)
    doubled = _names(name for b in audit.budgets for name in b.double_disadvantage)
    helps = audit.subject.outcome == "benefit"
    worse = "fewer positive" if helps else "more harmful"
    ratio = f"In proportion to privacy cost, {listed(lower)}: " if lower else ""
    ratio += ("less benefit." if helps else "fewer positive predictions.") if lower else ""
    if doubled:
        told = f"A higher privacy cost and also {worse} predictions, both beyond chance."
        return Answer(question, listed(doubled), f"{told} {ratio}".strip())
    none = f"No group is shown to have both a higher cost and {worse} predictions."
    if lower:
        alone = (
            "" if helps else " Here a positive harms, so a lower ratio alone is no disadvantage."
        )
        return Answer(question, listed(lower), f"{ratio} {none}{alone}")
    return Answer(question, "No group can be named", f"Compared: {listed(audit.subject.groups)}.")


def _can_it_be_trusted(audit: Audit) -> Answer:
    resolved = [b for b in audit.budgets if any(g.resolved for g in b.groups.values())]
    total = len(audit.budgets)
    short = {
        Verdict.DOUBLE_DISADVANTAGE: "Beyond chance, yes",
        Verdict.DISPARITY_SHOWN: "Beyond chance, yes",
        Verdict.EQUAL_WITHIN_MARGIN: "Within the margin, yes",
        Verdict.NO_DISPARITY_SHOWN: "The cost, yes; equality is not proved",
        Verdict.FLOOR_DOMINATED: "Only the positive rates",
    }.get(audit.verdict, "No number here is evidence of a disparity")
    out = "stand out from" if resolved else "do not stand out from"
    at = f" at {len(resolved)} of {total} budgets" if resolved and total > 1 else ""
    parts = [f"costs {out} the luck of the split{at}"]
    parts += [f"smallest cost that would have been seen: {_detectable(audit)}"]
    if audit.subject.split_kind != "random":
        parts.insert(0, "the split is not said to be random")
    return Answer("Can it be trusted?", short, _sentence("; ".join(parts)))


def _detectable(audit: Audit) -> str:
    limits = [
        group.detectable_cost
        for budget in audit.budgets
        for group in budget.groups.values()
        if group.detectable_cost is not None
    ]
    if not limits:
        return "unknown"
    return f"{decimals(min(limits), 4)} to {decimals(max(limits), 4)}"


def _having(budgets: Sequence[BudgetResult], verdict: Verdict) -> str:
    names = [setting_name(b.model, b.epsilon) for b in budgets if b.verdict is verdict]
    if len(names) == len(budgets) > 1:
        return f"all {len(names)} settings"
    if len(names) > MOST_BUDGETS_NAMED:
        return f"{len(names)} of {len(budgets)} settings"
    return listed(names)


def _names(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
