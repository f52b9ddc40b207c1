"""Open tables: named columns of a benchmark's files, or the whole of a person's own table.

A column is an array of numbers with NaN, or of text with None, for missing values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import escape, glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pcer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from pcer.data.task import Column, Columns

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
MOST_RECORDS = 10_000_000
"""Of a table that is held in memory, and trained on many times."""


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
        raise _without_columns(source, names) from error
    return arrow_columns(table)


def read_parquet(source: Path, columns: Iterable[str]) -> Columns:
    """Named columns of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    names = list(columns)
    try:
        table = parquet.read_table(source, columns=names)
    except (pa.ArrowException, OSError) as error:
        raise _without_columns(source, names) from error
    if table.column_names != names:
        raise _without_columns(source, names)
    return arrow_columns(table)


def arrow_columns(table: pa.Table) -> Columns:
    """Arrow columns as arrays: float64 for numbers and booleans, text otherwise."""
    return {name: _as_array(table.column(name)) for name in table.column_names}


def concatenated(parts: Iterable[Columns]) -> Columns:
    """Tables with equal columns, one under the other."""
    tables = list(parts)
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def open_table(table: Any) -> tuple[pa.Table, str]:
    """A person's whole table in memory, and the name that errors call it by.

    Args:
        table: path of a CSV file (separator, quotes and byte-order mark are recognised; every
            column is read as text) or of a Parquet file; or a pandas, polars or pyarrow table.
    """
    if isinstance(table, str | os.PathLike):
        path = require_readable(table)
        return _from_file(path), path
    import narwhals as nw

    try:
        return nw.from_native(table, eager_only=True).to_arrow(), "the table"
    except TypeError:
        raise InputError(
            f"a table must be a path, or a pandas, polars or pyarrow table, but "
            f"{type(table).__name__} was given."
        ) from None


def require_readable(table: str | os.PathLike[str]) -> str:
    """The path, or one sentence saying why it cannot be a table; addresses are taken as given."""
    name, path = os.fspath(table), Path(table)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} has a name that is not UTF-8, which no database opens; rename it."
        ) from None
    if path.is_dir():
        raise InputError(f"{name} is a folder; name its files, such as {path / '*.parquet'}.")
    if not name.lower().endswith(CSV_ENDINGS + PARQUET_ENDINGS):
        raise InputError(f"{name} is neither .csv (.tsv, .txt, .gz) nor .parquet; convert it.")
    if "://" not in name:
        _require_file(path)
    return name


def as_pattern(path: str) -> str:
    """The path as a pattern that matches it: a file that is there may be called a[1].csv."""
    return escape(path) if Path(path).exists() else path


def is_csv(name: str) -> bool:
    """Whether the name of the file says that it is text with separators."""
    return name.lower().endswith(CSV_ENDINGS)


def require_columns(names: Iterable[str], present: list[str], *, file: str) -> None:
    """Raise InputError unless every name is a column, and name the columns that there are."""
    for name in names:
        if name not in present:
            hint = (
                "the separator was not recognised, so give every line as many fields as the header"
                if len(present) == 1
                else f"it has: {', '.join(present[:30])}{', ...' if len(present) > 30 else ''}"
            )
            raise InputError(f"{file} has no column {name!r}; {hint}.")


def unreadable(path: str, error: Exception) -> InputError:
    """One sentence for a file that cannot be parsed; never quotes a line of it."""
    line = re.search(r"Line: (\d+)", str(error))
    where = f" (line {line.group(1)})" if line else ""
    reason = "it is not UTF-8 text" if "utf-8" in str(error).lower() else "it has no regular form"
    remedy = "save it again as a CSV file in UTF-8" if is_csv(path) else "write it again"
    return InputError(f"{path} cannot be read{where}: {reason}; {remedy}.")


def _require_file(path: Path) -> None:
    if any(mark in str(path) for mark in "*?[") and not path.exists():
        matches = glob(str(path), recursive=True)
        if not matches:
            raise InputError(f"no file matches {path}; check the pattern.")
        for match in matches:
            _require_file(Path(match))
    elif not path.exists():
        raise InputError(f"{path} does not exist; check the name.")
    elif not path.is_file():
        raise InputError(f"{path} is a pipe or a device; save what it gives to a file.")
    elif path.stat().st_size == 0:
        raise InputError(f"{path} is empty; a table needs a header and records.")


def _from_file(path: str) -> pa.Table:
    import duckdb

    pattern = as_pattern(path)
    try:
        with duckdb.connect() as database:
            table = (
                database.read_csv(pattern, all_varchar=True, header=True)
                if is_csv(path)
                else database.read_parquet(pattern)
            )
            content = table.limit(MOST_RECORDS + 1).to_arrow_table()
    except duckdb.Error as error:
        raise unreadable(path, error) from None
    if content.num_rows > MOST_RECORDS:
        raise InputError(
            f"{path} has more than the {MOST_RECORDS:,} records that a sweep holds in memory; "
            "train on a random sample of them."
        )
    return content


def _as_array(column: Any) -> Column:
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)


def _without_columns(source: Path | IO[bytes], names: list[str]) -> InputError:
    name = source if isinstance(source, Path) else getattr(source, "name", "the file")
    return InputError(
        f"{name} cannot be read as a table with the columns {', '.join(names)}; fetch it again."
    )
