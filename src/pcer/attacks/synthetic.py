"""Whose records shine through a table that was made from them?

An attacker holds a synthetic table and a person's record, and asks whether the record
was in the half that the table was made from. ``density_signals`` says how much denser
the table is at a record than the other real people are; ``own_auc`` compares, for each
person, tables made with them and without; ``one_table_residual`` makes do with one
table. ``models/synthetic`` makes releases of them. To add a kind of column: a class
such as ``NumberColumn``, and its line in ``Space.from_people``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, quotient
from pcer.release import columns as convert
from pcer.wording import some_of

REAL = "X"  # what errors call the real table
SYNTHETIC = "the synthetic table"
N_NEIGHBOURS = 5  # the nearest of them sets a record's bandwidth
BANDWIDTH = 0.5  # of the distance to that neighbour
FLOOR = 0.1  # of the median bandwidth, and of the smallest positive distance
NEIGHBOURHOODS = (5, 20)  # real neighbours that a regression knows of
BLOCK = 256  # records that are compared at a time: a block stays in a core's cache
# A square below this share of the two records' own squares is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers: distance from the mean, in deviations of audited people.

    A second coordinate is 1 where the number is missing. A column in which all people
    are alike says nothing: 0.
    """

    mean: float
    deviation: float

    @classmethod
    def from_people(cls, values: Any, name: str) -> NumberColumn:
        """The column's mean and deviation over everybody who has a number."""
        numbers = _finite(values, name, REAL)
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return cls(0.0, 0.0)
        return cls(float(known.mean()), float(known.std()))

    def encode(self, values: Any, name: str, table: str) -> FloatArray:
        """(record, 2) coordinates."""
        numbers = _finite(values, name, table)
        is_gap = np.isnan(numbers)
        scaled = np.zeros(len(numbers))
        if self.deviation > 0:
            scaled = np.where(is_gap, 0.0, numbers - self.mean) / self.deviation
        return np.stack([scaled, is_gap], axis=1)


@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """A column of categories: two different ones are at distance 1.

    One-hot over the root of 2. A missing value is one more level, and so is any
    value that none of the audited people has.
    """

    levels: Mapping[str, int]

    @classmethod
    def from_people(cls, values: Any, name: str) -> CategoryColumn:
        """The levels that people have."""
        names = convert.column_of(values, name).names
        return cls({level: place for place, level in enumerate(names)})

    def encode(self, values: Any, name: str, table: str) -> FloatArray:
        """(record, level) coordinates; the last two: of no known level, missing."""
        column = convert.column_of(values, f"{name} of {table}")
        unknown = len(self.levels)
        places = [self.levels.get(level, unknown) for level in column.names]
        places.append(unknown + 1)  # where the code is -1
        one_hot = np.eye(unknown + 2)[np.array(places)[column.codes]]
        return np.asarray(one_hot / np.sqrt(2))


def _finite(values: Any, name: str, table: str) -> FloatArray:
    """Numbers, NaN where one is missing; InputError for texts and infinite ones."""
    if is_date(values):
        values = np.asarray(values).astype("datetime64[s]").astype(np.float64)
    numbers = convert.numbers_of(values, 0, name=f"{name} of {table}")
    if np.isinf(numbers).any():
        raise InputError(
            f"{name} of {table} must be finite; replace infinite numbers.", field=name
        )
    return numbers


def is_date(values: Any) -> bool:
    """Whether a column holds dates as numpy keeps them."""
    return getattr(getattr(values, "dtype", None), "kind", "") == "M"


def holds_numbers(values: Any, name: str) -> bool:
    """Whether a column is of numbers (or dates); yes and no are categories."""
    array, missing = convert.values_of(values, name=name)
    if array.dtype != object:
        return array.dtype.kind in "iufM"
    known = array[~missing]
    are_numbers = (
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
        for value in known
    )
    return len(known) > 0 and all(are_numbers)


@dataclass(frozen=True, eq=False)
class Space:
    """Where records lie: scales and levels of everybody who is audited.

    >>> space = Space.from_people({"age": [30, 50], "sex": ["f", "m"]})
    >>> space.encode({"age": [50], "sex": ["f"]}).round(2).tolist()
    [[1.0, 0.0, 0.71, 0.0, 0.0, 0.0]]
    """

    columns: Mapping[str, NumberColumn | CategoryColumn]
    is_named: bool = True  # whether columns have names; else they go by position

    @classmethod
    def from_people(cls, X: Any) -> Space:
        """The space of the audited people's table, never of a part of them."""
        named = table_columns(X, REAL)
        columns: dict[str, NumberColumn | CategoryColumn] = {}
        for name, values in named.items():
            kind: Any = CategoryColumn
            if holds_numbers(values, name):
                kind = NumberColumn
            columns[name] = kind.from_people(values, name)
        return cls(columns, is_named=convert.columns_of(X) is not None)

    def encode(self, table: Any, called: str = SYNTHETIC) -> FloatArray:
        """(record, coordinate) of a table of the same columns, in any order."""
        named = self._columns_in(table, called)
        parts = []
        for name, column in self.columns.items():
            parts.append(column.encode(named[name], name, called))
        n_rows = {len(part) for part in parts}
        if n_rows == {0}:
            raise InputError(f"{called} is empty; it must hold rows.", field="make")
        if len(n_rows) > 1:
            raise InputError(
                f"the columns of {called} differ in length; give each a value for "
                "every row.",
                field="make",
            )
        return np.concatenate(parts, axis=1)

    def _columns_in(self, table: Any, called: str) -> dict[str, Any]:
        """The table's columns by our names; by position where one side has none."""
        named = table_columns(table, called)
        is_by_position = not self.is_named or convert.columns_of(table) is None
        if is_by_position and len(named) != len(self.columns):
            raise InputError(
                f"{called} has {len(named)} columns and {REAL} has "
                f"{len(self.columns)}; they must have the same columns.",
                field="make",
            )
        if is_by_position:
            return dict(zip(self.columns, named.values(), strict=True))
        absent = [name for name in self.columns if name not in named]
        if absent:
            raise InputError(
                f"{called} lacks {some_of(absent, convert.MOST_COLUMNS)}, "
                f"which {REAL} has; they must have the same columns.",
                field="make",
            )
        return named


def table_columns(table: Any, called: str) -> dict[str, Any]:
    """The columns of a dataframe, a dict or a two-dimensional array, by name."""
    named = convert.columns_of(table)
    if named is None and getattr(table, "ndim", 0) == 2:
        columns = np.asarray(table).T
        named = {f"column {n}": column for n, column in enumerate(columns, start=1)}
    if not named:
        raise InputError(
            f"{called} must be a table with columns (pandas, polars, arrow or a numpy "
            f"array of two dimensions), not {type(table).__name__}.",
            field="make",
        )
    return named


def density_signals(real: FloatArray, synthetic: FloatArray) -> FloatArray:
    """(record,) how much denser a synthetic table is at each real record than people.

    Args:
        real: (record, coordinate) all audited people, see ``Space``.
        synthetic: (row, coordinate) the table.
    """
    return Neighbourhood.of(real).signals(synthetic)


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """How dense the other real people are at each record; the same for all tables.

    With h the bandwidth of record x and N(y) = exp(-|x - y|^2 / (2 h^2)),

        signal(x) = log mean of N over the synthetic rows
                    - log mean of N over the other real people,

    h is half the distance from x to its 5th nearest other real person, and at least a
    tenth of the median of these: one bandwidth for all would compare groups that live
    at different densities. The record itself is left out: a density that held it would
    fall wherever the table is smooth.
    """

    real: FloatArray  # (record, coordinate)
    bandwidth: FloatArray  # (record,)
    log_density: FloatArray  # (record,) of the other real people

    @classmethod
    def of(cls, real: FloatArray) -> Neighbourhood:
        """The neighbourhood of every real record."""
        bandwidth = bandwidths(real)
        return cls(real, bandwidth, log_densities(real, real, bandwidth, is_own=True))

    def signals(self, synthetic: FloatArray) -> FloatArray:
        """(record,) the signals of one synthetic table."""
        found = log_densities(self.real, synthetic, self.bandwidth)
        return np.asarray(found - self.log_density)


def bandwidths(real: FloatArray) -> FloatArray:
    """(record,) half the distance to the 5th nearest other record, with a floor."""
    nearest = nearest_distances(real, real, N_NEIGHBOURS, is_own=True)
    width = BANDWIDTH * nearest[:, -1]
    floor = FLOOR * float(np.median(width))
    if floor == 0:  # most records have five twins
        positive = width[width > 0]
        floor = float(positive.min()) if len(positive) else 1.0
    return np.maximum(width, floor)


def log_densities(
    at: FloatArray, centres: FloatArray, bandwidth: FloatArray, *, is_own: bool = False
) -> FloatArray:
    """(record,) log of the mean Gaussian kernel over the centres.

    Exponents are one product of matrices in single precision: with a = -1/(2 h^2), a
    |x - y|^2 is (a x, a |x|^2, a) times (-2 y, 1, |y|^2).

    Args:
        at: (record, coordinate) where.
        centres: (row, coordinate).
        bandwidth: (record,) the kernel's, of each record.
        is_own: whether the centres are the records, each of which leaves itself out.
    """
    scale = -0.5 / bandwidth**2
    left = np.column_stack([at, (at**2).sum(axis=1), np.ones(len(at))])
    left = (left * scale[:, None]).astype(np.float32)
    right = [-2 * centres, np.ones(len(centres)), (centres**2).sum(axis=1)]
    of_centres = np.column_stack(right).astype(np.float32).T
    densities = np.empty(len(at))
    for block in _blocks(len(at)):
        exponents = left[block] @ of_centres
        np.minimum(exponents, 0.0, out=exponents)
        if is_own:
            own = np.arange(block.start, block.stop)
            exponents[own - block.start, own] = -np.inf
        largest = exponents.max(axis=1)
        exponents -= largest[:, None]
        total = np.exp(exponents, out=exponents).sum(axis=1, dtype=np.float64)
        densities[block] = largest + np.log(total)
    return np.asarray(densities - np.log(len(centres) - is_own))


def nearest_distances(
    at: FloatArray, others: FloatArray, n: int, *, is_own: bool = False
) -> FloatArray:
    """(record, n) distances to the nearest others, in order; fewer where there are few.

    Args:
        at: (record, coordinate).
        others: (row, coordinate).
        n: how many.
        is_own: whether the others are the records, each of which leaves itself out.
    """
    n = min(n, len(others) - is_own)
    square_at = (at**2).sum(axis=1)
    square_others = (others**2).sum(axis=1)
    nearest = np.empty((len(at), n))
    for block in _blocks(len(at)):
        both = square_at[block, None] + square_others
        squares = both - 2 * (at[block] @ others.T)
        squares[squares < ROUNDING * both] = 0.0
        if is_own:
            own = np.arange(block.start, block.stop)
            squares[own - block.start, own] = np.inf
        nearest[block] = np.partition(squares, n - 1, axis=1)[:, :n]
    return np.sqrt(np.sort(nearest, axis=1))


def _blocks(n: int) -> Iterator[slice]:
    for first in range(0, n, BLOCK):
        yield slice(first, min(first + BLOCK, n))


def copied_rows(real: FloatArray, synthetic: FloatArray) -> BoolArray:
    """(record,) whether a synthetic row is the record in every coordinate."""
    rows = {row.tobytes() for row in synthetic + 0.0}  # -0 and 0 are the same
    return np.array([row.tobytes() in rows for row in real + 0.0], dtype=bool)


def own_ranks(signals: npt.NDArray[Any]) -> FloatArray:
    """(table, person) ranks of a person's signals over the number of tables.

    Their mean over tables made with the person, less that over the others, is
    ``own_auc``: (R/n_in - R'/n_out)/n for n tables, with R' the sum of the other ranks.
    """
    from scipy.stats import rankdata

    return np.asarray(rankdata(signals, axis=0) / len(signals))


def own_auc(signals: npt.NDArray[Any], member: BoolArray) -> FloatArray:
    """(person,) AUC minus 1/2 of tables made with a person against those made without.

    With R the sum of the ranks of the signals of the n_in tables made with the person,
    among those of all tables (ties share ranks), the AUC is

        (R - n_in (n_in + 1) / 2) / (n_in n_out).

    Only the order of a person's own signals counts. NaN of those who were in all
    tables, or in none.

    Args:
        signals: (table, person).
        member: (table, person) whether the table was made with the person.

    >>> own_auc(np.array([[3.0], [1.0], [2.0]]), np.array([[True], [False], [True]]))
    array([0.5])
    """
    from scipy.stats import rankdata

    ranks = rankdata(signals, axis=0)
    n_in = member.sum(axis=0)
    n_pairs = n_in * (len(member) - n_in)
    beaten = (ranks * member).sum(axis=0) - n_in * (n_in + 1) / 2
    return np.asarray(quotient(beaten, n_pairs) - 0.5)


def one_table_residual(real: FloatArray, synthetic: FloatArray) -> FloatArray:
    """(record,) how much closer one table lies than the real neighbours let expect.

    Minus the residual, so that higher means a likelier member, of a regression by least
    squares over all audited people, members or not: the log mean distance to the 5
    nearest synthetic rows on the log mean distances to the 5 and the 20 nearest other
    real people, and their squares. Distances are floored at a tenth of the smallest
    positive one.

    Args:
        real: (record, coordinate) all audited people, see ``Space``.
        synthetic: (row, coordinate) the table.
    """
    to_table = _log_means(nearest_distances(real, synthetic, N_NEIGHBOURS))
    to_people = nearest_distances(real, real, max(NEIGHBOURHOODS), is_own=True)
    terms = [np.ones(len(real))]
    for n in NEIGHBOURHOODS:
        of_people = _log_means(to_people[:, :n])
        terms += [of_people, of_people**2]
    design = np.stack(terms, axis=1)
    weights = np.linalg.lstsq(design, to_table, rcond=None)[0]
    return np.asarray(design @ weights - to_table)


def _log_means(distances: FloatArray) -> FloatArray:
    """(record,) log of the mean of floored distances; 0 where none is positive."""
    positive = distances[distances > 0]
    if not len(positive):
        return np.zeros(len(distances))
    floored = np.maximum(distances, FLOOR * positive.min())
    return np.asarray(np.log(floored.mean(axis=1)))
