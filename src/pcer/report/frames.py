"""How are the numbers of an audit a data frame?

``Audit.to_frame`` calls this file. A frame has a row for each of what was asked for,
nested fields under joined names, and is made with whichever library is installed.

To add a frame: a function that yields its rows, and a row of ``FRAMES``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pcer.auditing.record import Audit, BudgetResult
from pcer.errors import InputError

# What a frame can be made with; the first that is installed, unless another is named.
BACKENDS = ("pandas", "polars", "pyarrow")
# Records that not every row has; a frame has their columns where one row does.
OPTIONAL = {"null_gap", "allowed", "equivalence", "placebo"}

Fields = dict[str, Any]


class Frame(NamedTuple):
    """The rows of a data frame, and the ten of their columns that most need."""

    rows: Callable[[Audit], Iterator[Fields]]
    few: tuple[str, ...]


def to_frame(audit: Audit, what: str, backend: str | None, *, full: bool) -> Any:
    """A native data frame, a row for each of ``what``; see ``Audit.to_frame``."""
    import narwhals as nw

    if what not in FRAMES:
        raise InputError(
            f"to_frame gives {', '.join(FRAMES)}, and nothing called {what!r}."
        )
    frame = FRAMES[what]
    chosen_backend: Any = _installed(backend)
    rows = [dict(_flat("", row)) for row in frame.rows(audit)]
    names = _names_of(rows)
    if not full:
        names = [name for name in frame.few if name in names] or names
    columns = {}
    for name in names:
        columns[name] = [row.get(name) for row in rows]
    return nw.from_dict(columns, backend=chosen_backend).to_native()


def _names_of(rows: Iterable[Fields]) -> list[str]:
    """Names of all columns: a row may lack what is optional."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return list(names)


def _installed(backend: str | None) -> str:
    """A backend that is installed: the one that was named, or the first."""
    installed = []
    for name in BACKENDS:
        if importlib.util.find_spec(name) is not None:
            installed.append(name)
    if backend is None and installed:
        return installed[0]
    wanted = "pandas, polars or pyarrow" if backend is None else backend
    if wanted not in installed:
        raise InputError(
            f"to_frame needs {wanted} as backend, which is not installed or not one of "
            f"{', '.join(BACKENDS)}; install one, or read the same numbers with "
            "to_tree().",
            field="backend",
        )
    return wanted


def _group_rows(audit: Audit) -> Iterator[Fields]:
    for setting in audit.budgets:
        for name, group in setting.groups.items():
            yield {**_key_of(setting), "group": name, **group.model_dump()}


def _pair_rows(audit: Audit) -> Iterator[Fields]:
    # Fields that have columns of their own, or whose columns another field has already.
    left_out: Any = {"groups": True, "floors": True, "exposure": {"placebo"}}
    for setting in audit.budgets:
        for pair in setting.pairs:
            first, second = pair.groups
            names = {"first": first, "second": second}
            yield {**_key_of(setting), **names, **pair.model_dump(exclude=left_out)}


def _setting_rows(audit: Audit) -> Iterator[Fields]:
    left_out = {"model", "epsilon", "groups", "pairs"}
    for setting in audit.budgets:
        fields = setting.model_dump(exclude=left_out)
        fields["verdict"] = setting.verdict.value
        yield {**_key_of(setting), "groups": setting.named, **fields}


def _key_of(setting: BudgetResult) -> Fields:
    return {"model": setting.model, "epsilon": setting.budget}


def _attack_rows(audit: Audit) -> Iterator[Fields]:
    for story in audit.costs:
        yield story.model_dump()


def _flat(prefix: str, fields: Fields) -> Iterator[tuple[str, Any]]:
    """Nested fields under joined names, intervals as two numbers, lists as text."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if value is None and key in OPTIONAL:
            continue
        if isinstance(value, dict):
            yield from _flat(f"{name}_", value)
        elif key.endswith(("interval", "ci")):
            low, high = (None, None) if value is None else value
            yield f"{name}_low", low
            yield f"{name}_high", high
        elif isinstance(value, list):
            yield name, ", ".join(map(str, value))
        else:
            yield name, value


FRAMES = {
    "groups": Frame(
        _group_rows,
        (
            "model",
            "epsilon",
            "group",
            "n_train",
            "positive_rate_mean",
            "cost_value",
            "cost_upper_bound",
            "detectable_cost",
            "p_value",
            "resolved",
        ),
    ),
    "pairs": Frame(
        _pair_rows,
        (
            "model",
            "epsilon",
            "first",
            "second",
            "verdict",
            "exposure_answer",
            "exposure_difference_value",
            "exposure_p_value",
            "outcomes_answer",
            "outcomes_difference_value",
        ),
    ),
    "settings": Frame(
        _setting_rows,
        (
            "model",
            "epsilon",
            "groups",
            "n_splits",
            "accuracy_mean",
            "demographic_parity_gap_mean",
            "equalized_odds_gap_mean",
            "pcer_spread_mean",
            "verdict",
            "headline",
        ),
    ),
    "costs": Frame(
        _attack_rows,
        (
            "cost",
            "n_cells",
            "n_resolved",
            "more_exposed",
            "lower_ratio",
            "double_disadvantage",
            "p_value",
            "p_value_over_costs",
            "ratio_p_over_costs",
            "detected_in",
        ),
    ),
}
