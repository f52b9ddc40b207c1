"""How do the pages write numbers, and which numbers stand for words such as "flat"?

Called by every module of claims that prints or judges. To add a threshold: a row of
``thresholds.csv``, which the ledger prints at its end.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from pcer.wording import decimals
from pcer_studies.protocol import NO_DP, budget_label

Writer = Callable[[float], str]
"""How a number is printed."""


class Threshold(NamedTuple):
    """A number that stands for a word, and what it means."""

    value: float
    meaning: str


def budget_words(budgets: Iterable[float]) -> str:
    """Budgets in print.

    >>> budget_words((5.0, 10.0)), budget_words((NO_DP,))
    ('ε 5, 10', 'no-DP')
    """
    names = [budget_label(epsilon) for epsilon in budgets]
    if not names:
        return "no budget"
    listed = ", ".join(names)
    return listed if names[0] == budget_label(NO_DP) else f"ε {listed}"


def gap_words(*values: float) -> str:
    """Gaps as the paper writes them.

    >>> gap_words(0.0074, 0.0099)
    '.0074/.0099'
    """
    return "/".join(decimals(value, 4).replace("0.", ".", 1) for value in values)


def rate_words(value: float) -> str:
    """A rate or an outcome gap as the paper writes it.

    >>> rate_words(0.127)
    '.127'
    """
    return decimals(value, 3).replace("0.", ".", 1)


def share_words(value: float) -> str:
    """A share in per cent.

    >>> share_words(0.14)
    '+14 %'
    """
    return f"{100 * value:+.0f} %".replace("-", "−")


def r_words(value: float) -> str:
    """A correlation, or another plain number, in print.

    >>> r_words(-0.8)
    '−0.80'
    """
    return f"{value:+.2f}".replace("-", "−")


def range_words(values: Sequence[float], write: Writer) -> str:
    """Smallest to largest, or the one value that all share.

    >>> range_words((0.228, 0.229), rate_words)
    '.228 to .229'
    """
    low = write(min(values))
    high = write(max(values))
    return low if low == high else f"{low} to {high}"


def threshold(name: str) -> float:
    """The number that stands for a word; KeyError for a word that has none.

    >>> threshold("flat")
    0.1
    """
    return _thresholds()[name].value


def threshold_meanings() -> dict[str, Threshold]:
    """Every threshold with its meaning, in the file's order."""
    return dict(_thresholds())


@cache
def _thresholds() -> dict[str, Threshold]:
    file = resources.files("pcer_studies.claims").joinpath("thresholds.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return {row["name"]: Threshold(float(row["value"]), row["meaning"]) for row in rows}
