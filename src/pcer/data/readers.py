"""Open tables: named columns of a benchmark's files, or the whole of a person's own table.

A column is an array of numbers with NaN, or of text with None, for missing values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from glob import escape, glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
MOST_RECORDS = 10_000_000
"""A table is held in memory, and trained on many times."""


def read_csv(source: Path | IO[bytes], columns: Iterable[str]) -> Columns:
    """Named columns of a comma-separated file with a header; ``.gz`` is unpacked."""
    from pyarrow import csv

    names = list(columns)
    options = csv.ConvertOptions(include_columns=names)
    parsing = csv.ParseOptions(newlines_in_values=True)
    return _columns(
        lambda: csv.read_csv(source, convert_options=options, parse_options=parsing), source, names
    )


def read_parquet(source: Path, columns: Iterable[str]) -> Columns:
    """Named columns of a Parquet file."""
    from pyarrow import parquet

    names = list(columns)
    return _columns(lambda: parquet.read_table(source, columns=names), source, names)


def _columns(read: Callable[[], pa.Table], source: Path | IO[bytes], names: list[str]) -> Columns:
    import pyarrow as pa

    try:
        table = read()
        return {name: as_array(table.column(name)) for name in names}
    except (pa.ArrowException, KeyError, OSError) as error:
        file = source if isinstance(source, Path) else getattr(source, "name", "the file")
        raise InputError(
            f"{file} cannot be read as a table with the columns {', '.join(names)}; fetch it again."
        ) from error


def as_array(column: pa.ChunkedArray) -> Column:
    """An Arrow column as an array: float64 for numbers and booleans, text otherwise."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)


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
    if "://" in name:
        return name
    is_pattern = any(mark in name for mark in "*?[") and not path.exists()
    files = [Path(match) for match in glob(name, recursive=True)] if is_pattern else [path]
    if not files:
        raise InputError(f"no file matches {path}; check the pattern.")
    for file in files:
        if not file.exists():
            raise InputError(f"{file} does not exist; check the name.")
        if not file.is_file():
            raise InputError(f"{file} is a pipe or a device; save what it gives to a file.")
        if file.stat().st_size == 0:
            raise InputError(f"{file} is empty; a table needs a header and records.")
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
