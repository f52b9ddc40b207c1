"""How numbers and budgets are written for people, in every format."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from pcer.auditing.file import AuditSubject, BudgetResult, Plan, Summary
from pcer.auditing.verdict import Verdict, strongest

NOTHING = "–"


def budget_name(epsilon: float | None) -> str:
    """How a budget is called in print.

    >>> budget_name(0.5), budget_name(None)
    ('ε = 0.5', 'no-DP')
    """
    return "no-DP" if epsilon is None else f"ε = {epsilon:g}"


def plus_minus(summary: Summary) -> str:
    """Mean ± standard deviation of a disparity; without one the mean alone."""
    spread = "" if summary.std is None else f" ± {signed(summary.std).lstrip('+')}"
    return signed(summary.mean) + spread


def rate_plus_minus(summary: Summary, digits: int) -> str:
    """The same for a rate, written as the paper writes it: .682±.008.

    >>> rate_plus_minus(Summary(mean=0.6821, std=0.0081, ci=None), 3)
    '.682±.008'
    """
    if summary.mean is None:
        return NOTHING
    spread = "" if summary.std is None else f"±{_no_zero(summary.std, digits)}"
    return _no_zero(summary.mean, digits) + spread


def bounds(ci: tuple[float, float] | None) -> str:
    """An interval, or what stands for none."""
    return f"[{signed(ci[0])}, {signed(ci[1])}]" if ci else "[no interval]"


def rate_bounds(ci: tuple[float, float] | None, digits: int) -> str:
    """The interval of a rate, in the spelling of ``rate_plus_minus``.

    >>> rate_bounds((0.6801, 0.6842), 3)
    '[.680, .684]'
    """
    if ci is None:
        return "[no interval]"
    return f"[{_no_zero(ci[0], digits)}, {_no_zero(ci[1], digits)}]"


def decimals(value: float | None, digits: int) -> str:
    """A number with fixed decimals and a true minus sign; what rounds to 0 has none.

    >>> decimals(-0.01234, 3), decimals(-0.0000123, 4)
    ('−0.012', '0.0000')
    """
    return NOTHING if value is None else f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float | None) -> str:
    """A number with its sign and about three significant digits.

    >>> signed(-169.2), signed(0.0234), signed(-0.0), signed(None)
    ('−169', '+0.0234', '+0', '–')
    """
    if value is None:
        return NOTHING
    text = f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+z.3g}"
    return text.replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value as it is printed."""
    if value is None:
        return NOTHING
    return "<.001" if value < 0.001 else f"{value:.3f}"


def _no_zero(value: float, digits: int) -> str:
    return re.sub(r"^(−?)0\.", r"\1.", decimals(value, digits))


def short_budget(epsilon: float | None) -> str:
    """A budget in a table."""
    return "no-DP" if epsilon is None else f"{epsilon:g}"


def budget_list(budgets: Sequence[float | None]) -> str:
    """Budgets tied for a choice."""
    tie = " (tie)" if len(budgets) > 1 else ""
    return (", ".join(short_budget(epsilon) for epsilon in budgets) or NOTHING) + tie


def yes_no(value: bool | None) -> str:
    """A truth value, or what stands for none."""
    return NOTHING if value is None else "yes" if value else "no"


def number_range(values: list[int]) -> str:
    """Sorted whole numbers as one of them or a range."""
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


MOST_GROUPS_IN_A_SENTENCE = 4


def account(budgets: Sequence[BudgetResult], subject: AuditSubject, plan: Plan) -> list[str]:
    """Tell what was found, for whom, and what was not looked at."""
    verdict = strongest(budget.verdict for budget in budgets)
    telling = [budget for budget in budgets if budget.verdict is verdict]
    budget = max(telling, key=_largest_cost)
    sentences = [_outcomes(budgets, subject, plan), _privacy(budget, verdict, plan)]
    if verdict in (Verdict.DISPARITY_SHOWN, Verdict.NO_DISPARITY_SHOWN):
        sentences.append(_balance(budgets, budget, subject))
    return [*sentences, _not_measured(subject)]


def _outcomes(budgets: Sequence[BudgetResult], subject: AuditSubject, plan: Plan) -> str:
    what = {
        "positive_rate": "receive a positive prediction",
        "true_positive_rate": "are predicted positive, counted among those who qualify,",
        "precision": "are rightly predicted positive, counted among all so predicted,",
    }[plan.benefit]
    weight = "a benefit" if subject.outcome == "benefit" else "a harm"
    parts = [f"{_out_of_100(budgets, name)} in {name}" for name in _named(subject.groups)]
    more = len(subject.groups) - MOST_GROUPS_IN_A_SENTENCE
    rest = f" (and {more} further groups)" if more > 0 else ""
    return f"Out of 100 people, about {listed(parts)}{rest} {what} (here {weight})."


def _privacy(budget: BudgetResult, verdict: Verdict, plan: Plan) -> str:
    if verdict is Verdict.INSUFFICIENT_DATA:
        return (
            "Whether the model remembers anyone's record cannot be told from what was released"
            f" ({budget.reason})."
        )
    if budget.reason is not None:
        return f"Whether the model remembers anyone's record cannot be told: {budget.reason}."
    if verdict is Verdict.NOT_RESOLVED:
        return (
            "Whether the model remembers anyone's record cannot be told: what was seen is no more "
            f"than the luck of who was put into training gives, and {_unseen(budget, plan)}."
        )
    found = [
        f"{_amount(plan, group.cost.value)} in {name}"
        for name, group in budget.groups.items()
        if group.resolved and group.cost.value is not None
    ]
    unclear = "; for the other groups this could not be told"
    return (
        f"At {budget_name(budget.epsilon)}, {_told(plan, listed(found))}"
        f"{unclear if len(found) < len(budget.groups) else ''}."
    )


def _told(plan: Plan, found: str) -> str:
    """What was found, in the words of the cost."""
    return plan.proxy.scale.told.format(label=plan.proxy.label, found=found)


def _unseen(budget: BudgetResult, plan: Plan) -> str:
    """An effect too small for this release to show, in the words of the cost."""
    limits = [group.detectable_cost for group in budget.groups.values()]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return "how small an effect would have gone unseen is not known"
    effect = plan.proxy.scale.unseen.format(amount=_amount(plan, max(known)))
    return f"{effect} would probably have gone unseen"


def _amount(plan: Plan, cost: float) -> str:
    """A cost in hundredths; of an attacker, how often out of 100 he is right."""
    guesses = plan.proxy.scale.is_advantage
    return f"{50 + 100 * cost:z.1f}" if guesses else f"{100 * cost:z.2g}"


def _balance(budgets: Sequence[BudgetResult], budget: BudgetResult, subject: AuditSubject) -> str:
    lower = sorted({pair.lower_ratio for pair in budget.pairs if pair.lower_ratio})
    good = "benefit" if subject.outcome == "benefit" else "positive predictions"
    if not lower:
        return f"It is not shown that {good} and this cost stand in unequal proportion."
    text = f"In proportion to their privacy cost, {listed(lower)} {_verb(lower)} "
    text += "less benefit" if subject.outcome == "benefit" else "fewer positive predictions"
    if subject.outcome == "harm":
        text += " (which here are a harm, so a lower ratio alone is no disadvantage)"
    doubled = sorted({name for one in budgets for name in one.double_disadvantage})
    if doubled:
        worse = "fewer positive" if subject.outcome == "benefit" else "more harmful"
        text += f"; {listed(doubled)} {_verb(doubled, 'bears', 'bear')} both a higher cost and "
        text += f"{worse} predictions"
    return text + "."


def _not_measured(subject: AuditSubject) -> str:
    missing = subject.n_missing_group
    people = f"the {missing:,} people whose group is not recorded, " if missing else ""
    return (
        "Not measured: stronger attacks than this proxy, what follows for a person whose "
        f"record is recognised, whether a prediction is right for an individual, {people}and "
        "whether those affected find the trade acceptable."
    )


def _largest_cost(budget: BudgetResult) -> float:
    costs = [group.cost.value for group in budget.groups.values()]
    return max((cost for cost in costs if cost is not None), default=-math.inf)


def _named(groups: list[str]) -> list[str]:
    return groups[:MOST_GROUPS_IN_A_SENTENCE]


def _out_of_100(budgets: Sequence[BudgetResult], name: str) -> str:
    means = [budget.groups[name].benefit.mean for budget in budgets]
    counts = [round(100 * mean) for mean in means if mean is not None]
    if not counts:
        return "an unknown number"
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def listed(parts: Sequence[str]) -> str:
    """Names or amounts as a sentence lists them; at least one."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _verb(names: Sequence[str], one: str = "receives", many: str = "receive") -> str:
    return one if len(names) == 1 else many
