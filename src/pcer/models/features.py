"""Which columns of a user's table are features, and which say who is in which group?

``estimator`` and ``synthetic`` call this module before anything is drawn. To add a way
to name a column: a case of ``named_features``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcer.errors import InputError
from pcer.release import columns as convert


def named_features(X: Any, features: Any, *, drop_sensitive: bool) -> tuple[Any, Any]:
    """X, perhaps without the sensitive features, and these by name or as given."""
    import narwhals as nw

    columns = dict[str, Any]()
    if nw.dependencies.is_into_dataframe(X):
        columns = convert.columns_of(X) or {}
    names = [features] if isinstance(features, str) else None
    if columns and isinstance(features, list | tuple) and len(features) != len(X):
        names = [*features]
    if names is None and drop_sensitive:
        raise InputError(
            "drop_sensitive needs names of columns of X as sensitive_features; give "
            "these, or leave it out.",
            field="drop_sensitive",
        )
    if names is None:
        return X, features

    _require_columns(names, columns)
    if drop_sensitive:
        X = nw.from_native(X, eager_only=True).drop(names).to_native()
    return X, {name: columns[name] for name in names}


def _require_columns(names: Sequence[str], columns: Mapping[str, Any]) -> None:
    has = "X has no columns with names"
    if columns:
        has = f"X has {', '.join([*columns][:10])}"
    for name in names:
        if name not in columns:
            raise InputError(
                f"sensitive_features names {name!r}, but {has}; name a column of a "
                "data frame X, or give the group of each record.",
                field="sensitive_features",
            )


def require_index(**columns: Any) -> None:
    """Raise InputError where the indexes of pandas objects differ.

    Rows are taken by position everywhere: objects of another order would be mixed up.
    """
    indexes = {}
    for name, column in columns.items():
        package = type(column).__module__.partition(".")[0]
        if package == "pandas" and hasattr(column, "index"):
            indexes[name] = column.index
    if not indexes:
        return
    first, *others = indexes
    for name in others:
        is_as_long = len(indexes[name]) == len(indexes[first])
        if is_as_long and not indexes[name].equals(indexes[first]):
            raise InputError(
                f"{name} and {first} have different pandas indexes, so it is unclear "
                f"which rows belong together; sort both alike, then give "
                f"{name}.reset_index(drop=True) and {first}.reset_index(drop=True).",
                field=name,
            )
