"""How numbers and budgets are written for people, in every format."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcer.auditing.file import Summary

NOTHING = "–"


def budget_name(epsilon: float | None) -> str:
    """How a budget is called in print.

    >>> budget_name(0.5), budget_name(None)
    ('ε = 0.5', 'no-DP')
    """
    return "no-DP" if epsilon is None else f"ε = {epsilon:g}"


def setting_name(model: str | None, epsilon: float | None) -> str:
    """How a setting is called in print: its model, where it has a name, and its budget.

    >>> setting_name(None, 0.5), setting_name("forest", None)
    ('ε = 0.5', 'forest, no-DP')
    """
    return budget_name(epsilon) if model is None else f"{model}, {budget_name(epsilon)}"


def in_setting(model: str | None, epsilon: float | None) -> str:
    """A setting as part of a sentence.

    >>> in_setting(None, 0.5), in_setting("forest", None)
    ('at ε = 0.5', 'in forest without differential privacy')
    """
    budget = "without differential privacy" if epsilon is None else f"at {budget_name(epsilon)}"
    return budget if model is None else f"in {model} {budget}"


def short_setting(model: str | None, epsilon: float | None) -> str:
    """A setting in a table."""
    return short_budget(epsilon) if model is None else f"{model}, {short_budget(epsilon)}"


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


def both_p(adjusted: float | None, alone: float | None) -> str:
    """A p-value adjusted over all tests, and the test's own in brackets where it prints otherwise.

    >>> both_p(0.2, 0.004), both_p(0.0001, 0.00001)
    ('0.200 (0.004)', '<.001')
    """
    first, second = p_value(adjusted), p_value(alone)
    return first if first == second or alone is None else f"{first} ({second})"


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


def listed(parts: Sequence[str]) -> str:
    """Names or amounts as a sentence lists them; at least one."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
