"""Columns of every dataframe library: the values that were given, and no others."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pcer.errors import InputError
from pcer.release.columns import column_of, numbers_of, seeds_of

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


LARGE = 2**60  # as a float, the next whole number is 2**60 + 256
PAIR = [LARGE, LARGE + 1]
SEEDS = [
    *(
        PAIR,
        np.array(PAIR, dtype=object),
        np.array(PAIR, dtype=np.uint64),
        pl.Series(PAIR),
    ),
    *(pd.Series(PAIR, dtype="Int64"), pd.Series(PAIR, dtype="int64[pyarrow]")),
    *(
        pa.chunked_array([PAIR]),
        pa.array(map(Decimal, PAIR)),
        [str(seed) for seed in PAIR],
    ),
]
ONE_SEED = [
    *((seed, seed) for seed in (-(2**63), LARGE + 1, 2**63 - 1)),
    *(
        (float(2**53 - 1), 2**53 - 1),
        (np.full(2, 2**24 - 1, dtype=np.float32), 2**24 - 1),
    ),
    *(
        (seed, 3)
        for seed in (np.uint8(3), np.float32(3), np.str_("3"), pa.scalar(3), "3")
    ),
]
BAD_SEEDS = [
    *(
        2**63,
        -(2**63) - 1,
        [10**5000] * 2,
        [0, 2**64],
        "1e999999999",
        None,
        object(),
        [0, None],
    ),
    *(
        np.array([2**63] * 2, dtype=np.uint64),
        float(2**53),
        [0.0, -float(2**53)],
        "zero",
    ),
    *(np.full(2, 2**24, dtype=np.float32), 0.5, math.inf, "inf", math.nan, [[0]] * 2),
    np.array([0] * 2, "M8[ns]"),
]


def test_seeds_are_exact_whole_numbers_or_refused():
    for seeds in SEEDS:
        assert seeds_of(seeds, 2).tolist() == PAIR
    for seed, number in ONE_SEED:  # stands for all records
        assert seeds_of(seed, 2).tolist() == [number] * 2
    for seed in BAD_SEEDS:
        with pytest.raises(InputError) as caught:
            seeds_of(seed, 2)
        assert caught.value.field == "seed", seed
