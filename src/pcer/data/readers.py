"""How is a table opened: named columns of a benchmark, or a user's whole table?

``pcer.data`` reads what it trains on, ``pcer.tables`` what it makes releases of. A
column is an array of numbers with NaN, or of text with None, for missing values. To add
a file format: its ending here, and a case where columns and tables are opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from glob import escape, glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
MOST_RECORDS = 10_000_000  # a table is held in memory
MOST_NAMED = 30  # columns that an error names


def read_columns(source: Path | IO[bytes], columns: Iterable[str]) -> Columns:
    """Named columns of a Parquet file, or of CSV with a header (also ``.gz``)."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    names = list(columns)
    file = getattr(source, "name", "")
    try:
        if file.endswith(PARQUET_ENDINGS):
            table = parquet.read_table(source, columns=names)
        else:
            options = csv.ConvertOptions(include_columns=names)
            parsing = csv.ParseOptions(newlines_in_values=True)
            table = csv.read_csv(source, convert_options=options, parse_options=parsing)
        return {name: as_array(table.column(name)) for name in names}
    except (pa.ArrowException, KeyError, OSError) as error:
        where = source if isinstance(source, Path) else file
        raise InputError(
            f"{where} cannot be read as a table with the columns {', '.join(names)}; "
            "fetch it again."
        ) from error


def as_array(column: pa.ChunkedArray) -> Column:
    """An Arrow column as an array: float64 for numbers and booleans, text otherwise."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return np.asarray(numbers, dtype=np.float64)
    texts = column.cast(pa.string()).to_numpy(zero_copy_only=False)
    return np.asarray(texts, dtype=object)


def open_table(table: Any) -> tuple[pa.Table, str]:
    """A user's whole table (path or data frame) in memory, and its name for errors."""
    if not isinstance(table, str | os.PathLike):
        return frame_content(table), "the table"
    import ibis

    as_text = {"header": True, "all_varchar": True}
    opened, path = open_file(table, ibis.duckdb.connect(), as_text)
    content = executed(opened.limit(MOST_RECORDS + 1), file=path)
    if content.num_rows > MOST_RECORDS:
        raise InputError(
            f"{path} has more than the {MOST_RECORDS:,} records that a sweep holds in "
            "memory; train on a random sample of them."
        )
    return content, path


def frame_content(frame: Any) -> pa.Table:
    """A data frame of any library as an arrow table."""
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True).to_arrow()
    except TypeError:
        raise InputError(
            f"a table must be a path, or a pandas, polars or pyarrow table, but "
            f"{type(frame).__name__} was given."
        ) from None


def open_file(
    path: str | os.PathLike[str], connection: Any, csv_options: Mapping[str, Any]
) -> tuple[ir.Table, str]:
    """An Ibis table of CSV or Parquet files, nothing of it read yet, and their name."""
    name = require_readable(path)
    # A file may be called a[1].csv.
    pattern = escape(name) if Path(name).exists() else name
    if name.lower().endswith(CSV_ENDINGS):
        read = partial(connection.read_csv, pattern, **csv_options)
    else:
        read = partial(connection.read_parquet, pattern)
    return _readable(name, read), name


def executed(table: ir.Table, *, file: str) -> pa.Table:
    """Run the expression on its backend, and return its rows as an arrow table."""
    return _readable(file, table.to_pyarrow)


def _readable(file: str, read: Callable[[], Any]) -> Any:
    """The result of ``read``; errors never quote the database, which quotes records."""
    import duckdb

    try:
        return read()
    except duckdb.Error as error:
        line = re.search(r"Line: (\d+)", str(error))
        where = f" (line {line.group(1)})" if line else ""
        reason = "it has no regular form"
        if "utf-8" in str(error).lower():
            reason = "it is not UTF-8 text"
        remedy = "write it again"
        if file.lower().endswith(CSV_ENDINGS):
            remedy = "save it again as a CSV file in UTF-8"
        raise InputError(f"{file} cannot be read{where}: {reason}; {remedy}.") from None


def require_readable(table: str | os.PathLike[str]) -> str:
    """The path of a table that can be one; addresses are taken as given."""
    name = os.fspath(table)
    path = Path(table)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} has a name that is not UTF-8, which no database opens; rename it."
        ) from None
    if path.is_dir():
        raise InputError(
            f"{name} is a folder; name its files, such as {path / '*.parquet'}."
        )
    if not name.lower().endswith(CSV_ENDINGS + PARQUET_ENDINGS):
        raise InputError(
            f"{name} is neither .csv (.tsv, .txt, .gz) nor .parquet; convert it."
        )
    if "://" in name:
        return name
    files = [path]
    if any(mark in name for mark in "*?[") and not path.exists():  # a pattern
        files = [Path(match) for match in glob(name, recursive=True)]
    if not files:
        raise InputError(f"no file matches {path}; check the pattern.")
    for file in files:
        _require_file(file)
    return name


def _require_file(file: Path) -> None:
    """Raise InputError unless this is a file, and not an empty one."""
    if not file.exists():
        raise InputError(f"{file} does not exist; check the name.")
    if not file.is_file():
        raise InputError(f"{file} is a pipe or a device; save what it gives to a file.")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty; a table needs a header and records.")


def require_columns(names: Iterable[str], present: list[str], *, file: str) -> None:
    """Raise InputError unless every name is a column."""
    absent = [repr(name) for name in names if name not in present]
    if not absent:
        return
    if len(present) == 1:
        hint = (
            "the separator was not recognised, so give every line as many fields as "
            "the header"
        )
    else:
        hint = f"it has: {', '.join(present[:MOST_NAMED])}"
        if len(present) > MOST_NAMED:
            hint += ", ..."
    listed = ", ".join(dict.fromkeys(absent))
    raise InputError(f"{file} has no column {listed}; {hint}.")
