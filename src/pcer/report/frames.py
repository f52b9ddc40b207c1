"""The numbers of an audit as data frames of whichever library is installed, through narwhals."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from pcer.auditing import Audit, BudgetResult
from pcer.errors import InputError

BACKENDS = ("pandas", "polars", "pyarrow")
"""What a frame can be made with; the first that is installed, unless another is named."""

Fields = dict[str, Any]


def to_frame(audit: Audit, what: str = "groups", backend: str | None = None) -> Any:
    """A native data frame, a row for each of ``what``; see ``Audit.to_frame``."""
    import narwhals as nw

    if what not in FRAMES:
        raise InputError(f"to_frame gives {', '.join(FRAMES)}, and nothing called {what!r}.")
    rows = [dict(_flat("", row)) for row in FRAMES[what](audit)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return nw.from_dict(columns, backend=_backend(backend)).to_native()


def _groups(audit: Audit) -> Iterator[Fields]:
    for one in audit.budgets:
        for name, group in one.groups.items():
            yield {**_setting(one), "group": name, **group.model_dump()}


def _pairs(audit: Audit) -> Iterator[Fields]:
    for one in audit.budgets:
        for pair in one.pairs:
            first, second = pair.groups
            rest = pair.model_dump(exclude=LEFT_OUT)
            yield {**_setting(one), "first": first, "second": second, **_with_flips(rest)}


def _settings(audit: Audit) -> Iterator[Fields]:
    for one in audit.budgets:
        rest = one.model_dump(exclude={"model", "epsilon", "groups", "pairs"})
        yield {**_setting(one), "worse_off": one.worse_off, **rest, "verdict": one.verdict.value}


def _costs(audit: Audit) -> Iterator[Fields]:
    for story in audit.costs:
        yield story.model_dump()


FRAMES = {"groups": _groups, "pairs": _pairs, "settings": _settings, "costs": _costs}


def _setting(one: BudgetResult) -> Fields:
    return {"model": one.model, "epsilon": one.budget}


def _with_flips(pair: Fields) -> Fields:
    """Fields of records that not every audit has, so that all frames have the same columns."""
    for name, fields in OPTIONAL.items():
        pair[name] = pair[name] or dict.fromkeys(fields)
    return pair


LEFT_OUT: Any = {"groups": True, "floors": True, "exposure_answer": {"placebo"}}
"""Fields of a pair that have their own columns, or whose columns the frame has already."""
OPTIONAL = {
    "equivalence": ("margin", "p_value", "shown"),
    "coin_flips": (
        "n_draws",
        "n_shown",
        "n_double",
        "n_exposure",
        "permutation_p",
        "permutation_p_within_labels",
        "exposure_p",
        "exposure_p_within_labels",
    ),
}
ENDS = ("interval", "ci")
"""How fields end that hold two numbers, or nothing."""


def _flat(prefix: str, fields: Fields) -> Iterator[tuple[str, Any]]:
    """Nested fields under joined names, intervals as two numbers, lists of names as text."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if key == "null_gap":
            yield from _flat(f"{name}_", value or {"mean": None, "interval": None})
        elif isinstance(value, dict):
            yield from _flat(f"{name}_", value)
        elif key.endswith(ENDS):
            low, high = value or (None, None)
            yield from ((f"{name}_low", low), (f"{name}_high", high))
        else:
            yield name, ", ".join(value) if isinstance(value, list) else value


def _backend(named: str | None) -> Any:
    """The library, named or the first that is installed."""
    if named is not None and named not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, and not {named!r}.")
    found = [one for one in BACKENDS if importlib.util.find_spec(one) is not None]
    wanted = named or next(iter(found), None)
    if wanted not in found:
        raise InputError(
            f"to_frame needs {named or 'pandas, polars or pyarrow'}, which is not installed; "
            "install it, or read the same numbers with to_tree()."
        )
    return wanted
