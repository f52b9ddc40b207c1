"""Open a person's own table, from a file or a data frame, as columns of numbers or text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
MOST_RECORDS = 10_000_000
"""Of a table that is held in memory, and trained on many times."""
_MANY = "*?["  # characters that make a path a pattern


def open_table(table: Any) -> tuple[pa.Table, str]:
    """The whole table in memory, and the name that errors call it by.

    Args:
        table: path of a CSV file (separator, quotes and byte-order mark are recognised; every
            column is read as text) or of a Parquet file; or a pandas, polars or pyarrow table.
    """
    if not isinstance(table, str | os.PathLike):
        return _from_frame(table), "the table"
    path = require_readable(table)
    return (_from_csv(path) if is_csv(path) else _from_parquet(path)), path


def require_readable(table: str | os.PathLike[str]) -> str:
    """The path, or one sentence saying why it cannot be a table; addresses are taken as given."""
    name, path = os.fspath(table), Path(table)
    if not _is_unicode(name):
        raise InputError(
            f"{name} has a name that is not UTF-8, which no database opens; rename it."
        )
    if path.is_dir():
        raise InputError(f"{name} is a folder; name its files, such as {path / '*.parquet'}.")
    if not name.lower().endswith(CSV_ENDINGS + PARQUET_ENDINGS):
        raise InputError(f"{name} is neither .csv (.tsv, .txt, .gz) nor .parquet; convert it.")
    if "://" not in name:
        _require_file(path)
    return name


def _is_unicode(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


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
    if any(mark in str(path) for mark in _MANY) and not path.exists():
        found = glob(str(path), recursive=True)
        if not found:
            raise InputError(f"no file matches {path}; check the pattern.")
        for one in found:
            _require_file(Path(one))
    elif not path.exists():
        raise InputError(f"{path} does not exist; check the name.")
    elif not path.is_file():
        raise InputError(f"{path} is a pipe or a device; save what it gives to a file.")
    elif path.stat().st_size == 0:
        raise InputError(f"{path} is empty; a table needs a header and records.")


def _held(relation: Any, path: str) -> pa.Table:
    """A table in memory, or one sentence where it has more records than that can be."""
    table = relation.limit(MOST_RECORDS + 1).to_arrow_table()
    if table.num_rows > MOST_RECORDS:
        raise InputError(
            f"{path} has more than the {MOST_RECORDS:,} records that a sweep holds in memory; "
            "train on a random sample of them."
        )
    return table


def _from_csv(path: str) -> pa.Table:
    import duckdb

    try:
        with duckdb.connect() as connection:
            found = connection.read_csv(as_pattern(path), all_varchar=True, header=True)
            return _held(found, path)
    except duckdb.Error as error:
        raise unreadable(path, error) from None


def _from_parquet(path: str) -> pa.Table:
    import duckdb

    try:
        with duckdb.connect() as connection:
            return _held(connection.read_parquet(as_pattern(path)), path)
    except duckdb.Error as error:
        raise unreadable(path, error) from None


def _from_frame(frame: Any) -> pa.Table:
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True).to_arrow()
    except TypeError:
        raise InputError(
            f"a table must be a path, or a pandas, polars or pyarrow table, but "
            f"{type(frame).__name__} was given."
        ) from None
