"""Read named columns of a CSV or Parquet file: numbers with NaN, or text with None."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pcer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from pcer.data.task import Column, Columns


def read_csv(source: Path | IO[bytes], columns: Iterable[str]) -> Columns:
    """Named columns of a comma-separated file with a header; ``.gz`` is unpacked."""
    import pyarrow as pa
    from pyarrow import csv

    names = list(columns)
    options = csv.ConvertOptions(include_columns=names)
    parsing = csv.ParseOptions(newlines_in_values=True)
    try:
        table = csv.read_csv(source, convert_options=options, parse_options=parsing)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise InputError(_unreadable(source, names)) from error
    return arrow_columns(table)


def read_parquet(source: Path, columns: Iterable[str]) -> Columns:
    """Named columns of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    names = list(columns)
    try:
        table = parquet.read_table(source, columns=names)
    except (pa.ArrowException, OSError) as error:
        raise InputError(_unreadable(source, names)) from error
    if table.column_names != names:
        raise InputError(_unreadable(source, names))
    return arrow_columns(table)


def arrow_columns(table: pa.Table) -> Columns:
    """Arrow columns as arrays: float64 for numbers and booleans, text otherwise."""
    return {name: _as_array(table.column(name)) for name in table.column_names}


def concatenated(parts: Iterable[Columns]) -> Columns:
    """Tables with the same columns, one under the other."""
    tables = list(parts)
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _as_array(column: Any) -> Column:
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)


def _unreadable(source: Path | IO[bytes], names: list[str]) -> str:
    name = source if isinstance(source, Path) else getattr(source, "name", "the file")
    return f"{name} cannot be read as a table with the columns {', '.join(names)}; fetch it again."
