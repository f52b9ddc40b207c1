"""Tell numbers from text in one column, and refuse what is neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.data.readers import arrow_columns
from pcer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from pcer.data.task import Column

MISSING_MARKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA_NUMBER = r"^\s*[+-]?\d+,\d+\s*$"


def typed(
    column: pa.ChunkedArray, *, as_text: bool, missing: tuple[str, ...], where: str
) -> Column:
    """Numbers (NaN: missing) where every value is one, else text (None: missing).

    Args:
        column: of numbers, booleans or text; anything else is refused.
        as_text: give text even where every value is a number.
        missing: texts that stand for a missing value.
        where: file and column, the beginning of every error.
    """
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_boolean(kind) and as_text:
        return _texts(column.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        values = _finite(column.cast(kind), where)
        return _plain_text(values) if as_text else values
    if not _is_text(kind):
        raise InputError(f"{where} holds {kind}, neither numbers nor text; leave it out (drop).")
    text = _marked(column.cast(pa.string()), missing)
    return _texts(text) if as_text else _numbers_or_text(text, where)


def _numbers_or_text(text: pa.ChunkedArray, where: str) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    known = text.drop_null()
    n_numbers = pc.sum(pc.match_substring_regex(known, _NUMBER)).as_py() or 0
    if n_numbers == len(known) > 0:
        return _finite(pc.cast(pc.utf8_trim_whitespace(text), pa.float64()), where)
    if len(known) and pc.all(pc.match_substring_regex(known, _COMMA_NUMBER)).as_py():
        raise InputError(f"{where} holds numbers with decimal commas; write them with points.")
    if n_numbers:
        raise InputError(
            f"{where} mixes {n_numbers:,} numbers and {len(known) - n_numbers:,} other values; "
            "name what stands for a missing value (missing), take all of them as categories "
            "(categories), or leave the column out (drop)."
        )
    return _texts(text)


def _finite(column: pa.ChunkedArray, where: str) -> Column:
    import pyarrow as pa

    values = arrow_columns(pa.table({"values": column}))["values"]
    if np.isinf(values).any():
        raise InputError(f"{where} holds infinite numbers; make them missing.")
    return values


def _marked(text: pa.ChunkedArray, missing: tuple[str, ...]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_mark = pc.is_in(pc.utf8_trim_whitespace(text), value_set=pa.array(missing, pa.string()))
    return pc.if_else(is_mark, pa.scalar(None, pa.string()), text)


def _texts(text: pa.ChunkedArray) -> Column:
    return np.asarray(text.to_numpy(zero_copy_only=False), dtype=object)


def _plain_text(values: Column) -> Column:
    """Numbers as a person writes them: 1 for 1.0, None for NaN."""
    texts = [None if value != value else f"{value:.15g}" for value in values.tolist()]
    return np.array(texts, dtype=object)


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")
