"""In which attributes are subgroups searched?

``estimator`` and ``arrays`` take ``subgroups``: columns by name, or names of columns
that the call has anyway. ``traits_of`` checks them and writes their values as texts,
from which rules are made that readers understand. To add a form: a branch of
``_columns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.release import columns as convert

MOST_ATTRIBUTES = 8
MOST_VALUES = 30  # of an attribute: more are numbers, which need bands
NOT_RECORDED = "not recorded"
Traits = dict[str, npt.NDArray[np.str_]]


def traits_of(given: Any, n_records: int, *tables: Any) -> Traits:
    """(record,) values by attribute; empty where no subgroups were asked for.

    Args:
        given: columns by name (a frame or a dict), or names of columns.
        n_records: rows that every column must have.
        tables: where named columns are looked up, the first that has them.
    """
    if given is None:
        return {}
    columns = _columns(given, tables)
    if not 1 <= len(columns) <= MOST_ATTRIBUTES:
        raise InputError(
            f"subgroups names {len(columns)} attributes; name 1 to {MOST_ATTRIBUTES}.",
            field="subgroups",
        )
    traits = {}
    for name, values in columns.items():
        column = convert.column_of(values, name)
        if len(column.codes) != n_records:
            raise InputError(
                f"subgroups: {name!r} has {len(column.codes):,} values for "
                f"{n_records:,} records; give one a record.",
                field="subgroups",
            )
        if len(column.names) > MOST_VALUES:
            raise InputError(
                f"subgroups: {name!r} has {len(column.names):,} different values, more "
                f"than {MOST_VALUES}; give bands, such as '25-44'.",
                field="subgroups",
            )
        texts = np.array([*column.names, NOT_RECORDED])
        traits[name] = texts[column.codes]
    return traits


def _columns(given: Any, tables: tuple[Any, ...]) -> Mapping[str, Any]:
    named = convert.columns_of(given)
    if named is not None:
        return named
    names = [given] if isinstance(given, str) else [*given]
    found: dict[str, Any] = {}
    for name in names:
        for table in tables:
            columns = convert.columns_of(table) or {}
            if name in columns:
                found.setdefault(name, columns[name])
        if name not in found:
            raise InputError(
                f"subgroups names {name!r}, which is no column here; give columns by "
                "name: subgroups={'age_band': [...]}.",
                field="subgroups",
            )
    return found
