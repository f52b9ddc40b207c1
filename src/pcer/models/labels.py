"""Names that users give, and whether the columns of a call belong together.

The other modules of this room call the first three functions, ``cli`` and ``train`` the
last two, for names such as ``package.module:Name``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pcer.errors import InputError, clipped
from pcer.metrics import BoolArray
from pcer.release.columns import Coded


def is_named(column: Coded, name: str) -> BoolArray:
    """(record,) whether a column holds that value."""
    return np.array([text == name for text in column.names], dtype=bool)[column.codes]


def require_one_length(**columns: Any) -> None:
    """Raise InputError unless all columns have as many records; None is no column."""
    lengths = {
        name: column.shape[0] if hasattr(column, "shape") else len(column)
        for name, column in columns.items()
        if column is not None
    }
    first, *_ = lengths.values()
    for name, length in lengths.items():
        if length != first:
            listed = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
            raise InputError(
                f"Columns must have one length, but they have: {listed}.", field=name
            )


def require_one_index(**columns: Any) -> None:
    """Raise InputError where the indexes of pandas objects differ.

    Rows are taken by position everywhere, so objects of different order would be mixed
    up.
    """
    indexes = {}
    for name, column in columns.items():
        package = type(column).__module__.partition(".")[0]
        if package == "pandas" and hasattr(column, "index"):
            indexes[name] = column.index
    first = None
    for name, index in indexes.items():
        if first is None:
            first = name
        is_as_long = len(index) == len(indexes[first])
        if is_as_long and not index.equals(indexes[first]):
            raise InputError(
                f"{name} and {first} have different pandas indexes, so it is unclear "
                f"which rows belong together; sort both alike, then give "
                f"{name}.reset_index(drop=True) and {first}.reset_index(drop=True).",
                field=name,
            )


@contextmanager
def folder_first(folder: Path) -> Iterator[None]:
    """Import from a folder before all others, as ``python -m`` does with its own."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def object_named(name: str, *, folder: Path, example: str) -> Any:
    """The callable that ``package.module:Name`` names, installed or in the folder.

    Raises:
        InputError: there is no such module, it cannot be imported, or has nothing to
            call.

    >>> object_named("math:sqrt", folder=Path(), example="a:b")(9.0)
    3.0
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(
            f"the name must be package.module:Name, such as {example}, not {name!r}."
        )
    importlib.invalidate_caches()  # the folder may have changed just now
    try:
        with folder_first(folder):
            named = getattr(importlib.import_module(module), attribute, None)
    except (Exception, SystemExit) as error:  # user code may fail in any way
        fault = clipped(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{module} cannot be imported ({fault}); install it, or go to its folder, "
            "and check that it can be imported in Python."
        ) from error
    if named is None:
        raise InputError(
            f"{module} has no {attribute}; check the name after the colon."
        )
    if not callable(named):
        raise InputError(
            f"{name} is {type(named).__name__} and cannot be called; name a class or a "
            "function."
        )
    return named
