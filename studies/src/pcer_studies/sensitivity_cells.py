"""Numbers of ``sensitivity.json`` found and written for its page."""

from __future__ import annotations

from pcer.auditing import NOTHING, signed
from pcer_studies.protocol import NO_DP
from pcer_studies.published import published_cells
from pcer_studies.sensitivity_file import Number, Result, Row


def has_budget(one: Result, epsilon: float) -> bool:
    """Whether the variant was trained at this budget of the paper."""
    return any(budget_of(row) == epsilon for row in one.rows)


def find_row(one: Result, epsilon: float, attribute: str) -> Row | None:
    """The variant's models of one budget, seen by one attribute."""
    found = (r for r in one.rows if r.attribute == attribute and budget_of(r) == epsilon)
    return next(found, None)


def budget_of(row: Row) -> float:
    """The paper's budget that a row stands for."""
    return NO_DP if row.epsilon is None else row.epsilon


def find_number(one: Result, epsilon: float, attribute: str, quantity: str) -> Number | None:
    """A quantity of no single group, or None where it was not trained."""
    row = find_row(one, epsilon, attribute)
    return None if row is None else number_of(row, quantity)


def number_of(row: Row, quantity: str) -> Number | None:
    """A row's quantity of no single group."""
    return next((n for n in row.numbers if n.quantity == quantity and n.group is None), None)


def is_of(number: Number, quantity: str, group: str) -> bool:
    """Whether a number is this quantity of this group."""
    return (number.quantity, number.group) == (quantity, group)


def published(
    epsilon: float,
    attribute: str,
    quantity: str,
    dataset: str = "adult",
    group: str | None = None,
) -> str:
    """A cell of the dataset's own table, as printed there."""
    cells = [
        cell
        for cell in published_cells(
            dataset=dataset,
            attribute=attribute,
            epsilon=epsilon,
            quantity=quantity,
            group=group,
        )
        if cell.table == f"tab:{dataset}-{attribute}"
    ]
    if not cells:
        return NOTHING
    cell = cells[0]
    if cell.ci_low is not None and cell.ci_high is not None:
        return f"{signed(cell.value)} [{signed(cell.ci_low)}, {signed(cell.ci_high)}]"
    return f"{cell.value:.{cell.digits}f} ± {cell.std or 0:.{cell.digits}f}"


def group_gap(row: Row | None, group: str) -> str:
    """A group's overfitting gap, mean ± standard error."""
    numbers = () if row is None else row.numbers
    for number in numbers:
        if is_of(number, "overfitting_gap", group):
            error = number.standard_error
            return f"{number.mean:.4f}" + ("" if error is None else f" ± {error:.4f}")
    return NOTHING


def compared(number: Number | None) -> str:
    """Mean ± standard error, with the paired difference in brackets."""
    if number is None:
        return NOTHING
    error = "" if number.standard_error is None else f" ± {number.standard_error:.3f}"
    return f"{number.mean:.3f}{error} {in_brackets(number)}".strip()


def in_brackets(number: Number | None) -> str:
    """The paired difference in brackets; nothing for a baseline."""
    if number is None or number.paired is None:
        return ""
    return f"({difference(number)})"


def difference(number: Number | None) -> str:
    """The paired difference ± its standard error."""
    if number is None or number.paired is None:
        return NOTHING
    digits = 0 if number.quantity == "pcer_disparity" else 4
    text = f"{number.paired.difference:+.{digits}f}".replace("-", "−")
    error = number.paired.standard_error
    return text if error is None else f"{text} ± {error:.{digits}f}"


def with_interval(number: Number | None) -> str:
    """Mean and interval."""
    if number is None:
        return NOTHING
    if number.interval is None:
        return signed(number.mean)
    low, high = number.interval
    return f"{signed(number.mean)} [{signed(low)}, {signed(high)}]"


def noise(row: Row) -> str:
    """The noise multiplier."""
    return NOTHING if row.noise_multiplier is None else f"{row.noise_multiplier:.3f}"


def spent(row: Row) -> str:
    """Epsilon that the noise really spends."""
    return NOTHING if row.epsilon_spent is None else f"{row.epsilon_spent:.4f}"


def budget(epsilon: float) -> str:
    """A budget in print.

    >>> budget(0.5), budget(NO_DP)
    ('ε = 0.5', 'no-DP')
    """
    return "no-DP" if epsilon == NO_DP else f"ε = {epsilon:g}"
