"""Columns of every dataframe library: the values that were given, and no others."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pcer.release.columns import column_of, numbers_of

FIRST = 2**53 + 1
"""The least whole number that a floating-point number cannot be."""
GAPPY = [FIRST, None, FIRST + 1, FIRST]
COLUMNS = {
    "polars": lambda: pl.Series("g", GAPPY),
    "polars, unsigned": lambda: pl.Series("g", GAPPY, dtype=pl.UInt64),
    "pyarrow": lambda: pa.array(GAPPY),
    "pyarrow, chunks": lambda: pa.chunked_array([GAPPY[:2], GAPPY[2:]]),
    "pandas, nullable": lambda: pd.Series(GAPPY, dtype="Int64"),
    "pandas, arrow": lambda: pd.Series(GAPPY, dtype="int64[pyarrow]"),
    "a list": lambda: GAPPY,
}


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_whole_numbers_with_gaps_stay_exact(make):
    """A gap once made floating points of a column, and one group of two."""
    column = column_of(make(), "g")
    assert column.names == [str(FIRST), str(FIRST + 1)]
    assert column.codes.tolist() == [0, -1, 1, 0]


def test_a_column_of_gaps_alone():
    column = column_of(pl.Series("g", [None, None], dtype=pl.Int64), "g")
    assert (column.names, column.codes.tolist()) == ([], [-1, -1])
    assert str(numbers_of(pl.Series("x", [1, None]), 2, name="x")) == "[ 1. nan]"
