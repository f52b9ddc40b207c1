"""What every way from a model to a release asks first: which label is positive, what may leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray
from pcer.release.columns import Coded, positive_name, text_of
from pcer.release.disclosure import DisclosureRule, SmallGroups


def disclosure_rule_of(public: bool, least: int, small: str, certain: bool) -> DisclosureRule:
    """The rule that four arguments make."""
    known = [rule.value for rule in SmallGroups]
    if small not in known:
        raise InputError(f"small_groups must be {known[0]!r} or {known[1]!r}, not {small!r}.")
    return DisclosureRule(
        public=public, least_people=least, small_groups=SmallGroups(small), certain_cells=certain
    )


def positive_of(names: Sequence[str], positive: object, *, where: str) -> str:
    """Which label is the positive one, as text; of more than two it has to be named.

    >>> positive_of(["bad", "fair", "good"], "good", where="y")
    'good'
    """
    if len(names) <= 2:
        return positive_name(names, positive, where=where)
    shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    if positive is None:
        raise InputError(
            f"{where} must have two values between them, or the positive one must be named, but "
            f"have {len(names)} ({shown}); say positive_label={names[0]!r}, for example."
        )
    if text_of(positive) not in names:
        raise InputError(f"{where} hold {shown}, and {text_of(positive)!r} is not among them.")
    return text_of(positive)


def is_named(column: Coded, name: str) -> BoolArray:
    """(record,) whether a column holds that value."""
    return np.array([text == name for text in column.names], dtype=bool)[column.codes]


def require_one_index(**columns: Any) -> None:
    """Raise InputError where pandas objects name their rows differently: nobody guesses an order.

    Rows are taken by position everywhere, so objects of different order would be mixed up.
    """
    indexes = {
        name: column.index
        for name, column in columns.items()
        if type(column).__module__.partition(".")[0] == "pandas"
    }
    first = next(iter(indexes), "")
    for name, index in indexes.items():
        if len(index) == len(indexes[first]) and not index.equals(indexes[first]):
            raise InputError(
                f"{name} and {first} name their rows differently (their pandas index), so it is "
                f"not known which belong together; sort both alike, then give "
                f"{name}.reset_index(drop=True) and {first}.reset_index(drop=True)."
            )
