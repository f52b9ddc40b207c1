"""How do columns of any dataframe library become numpy arrays and codes?

Everything that takes a user's data (``models``, ``tables``, ``data``) converts it here,
once. A column of names becomes ``Coded``: whole numbers into sorted names. To add a
kind of column: a function here, whose errors name the column.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.wording import some_of

MOST_COLUMNS = 3  # of a table, in a sentence

SPLITS = ("train", "test")
CROSSING = " & "  # between the parts of a crossed name
# The labels of which the second is positive without being named.
USUAL_LABELS = (("0", "1"), ("False", "True"))


@dataclass(frozen=True)
class Coded:
    """A column as whole numbers into sorted names; -1 where the value is missing."""

    names: list[str]
    codes: IntArray


def columns_of(table: Any) -> dict[str, Any] | None:
    """The columns of a dataframe or a dict by name; None where it is neither."""
    import narwhals as nw

    if isinstance(table, Mapping):
        return {str(name): values for name, values in table.items()}
    if not nw.dependencies.is_into_dataframe(table):
        return None
    frame = nw.from_native(table, eager_only=True)
    columns = {}
    for position, name in enumerate(frame.columns):
        columns[text_of(name)] = frame[:, position].to_native()
    return columns


def named_columns(features: Any, attribute: str | None) -> dict[str, Any]:
    """Attributes by name; what has none is called ``attribute``, or else "group"."""
    columns = columns_of(features)
    if columns is not None:
        return columns
    name = str(attribute or getattr(features, "name", None) or "group")
    if getattr(features, "ndim", 1) != 2:
        return {name: features}
    if features.shape[1] == 1:
        return {name: features[:, 0]}
    return {f"{name} {n}": column for n, column in enumerate(features.T, start=1)}


def attribute_views(
    names: Sequence[str], columns: Collection[str]
) -> dict[str, list[str]]:
    """The columns that make up each attribute: one of its name, or those of a crossing.

    >>> attribute_views(["sex", "sex & age"], ["sex", "age"])
    {'sex': ['sex'], 'sex & age': ['sex', 'age']}
    """
    return {name: [name] if name in columns else name.split(CROSSING) for name in names}


def cross(columns: list[Coded]) -> Coded:
    """Groups of one attribute, or of several crossed; missing in one is missing."""
    return reduce(_crossed, columns)


def _crossed(first: Coded, second: Coded) -> Coded:
    """The combinations that occur, in the order of their names."""
    if len(first.codes) != len(second.codes):
        raise InputError(
            "sensitive_features must have one length.", field="sensitive_features"
        )
    is_gap = (first.codes < 0) | (second.codes < 0)
    whole = np.where(is_gap, -1, first.codes * len(second.names) + second.codes)
    used = np.unique(whole[~is_gap])
    codes = np.where(is_gap, -1, np.searchsorted(used, whole))
    pairs = list(product(first.names, second.names))
    return Coded([CROSSING.join(pairs[code]) for code in used], codes)


def required_column(values: Any, *, name: str, n: IntArray | None = None) -> Coded:
    """A column in which nothing may be missing; a row may stand for ``n`` records."""
    column = column_of(values, name)
    is_gap = column.codes < 0
    gaps = int(is_gap.sum() if n is None else n[is_gap].sum())
    if gaps:
        raise InputError(
            f"{name} is missing in {gaps:,} records; leave them out or fill them in.",
            field=name,
        )
    return column


def column_of(values: Any, name: str) -> Coded:
    """Any column as codes into its sorted names; one that is coded stays as it is."""
    if isinstance(values, Coded):
        return values
    array, missing = values_of(values, name=name)
    distinct, inverse = _distinct(array[~missing])
    texts = [text_of(v.item() if isinstance(v, np.generic) else v) for v in distinct]
    names = sorted(set(texts))
    position = {text: index for index, text in enumerate(names)}
    code_of_distinct = np.array([position[text] for text in texts], dtype=np.int64)
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~missing] = code_of_distinct[inverse]
    return Coded(names, codes)


def _distinct(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], IntArray]:
    """Distinct values and each row's code; objects, which may not sort, as given."""
    if array.dtype == object:
        return array, np.arange(len(array))
    return np.unique(array, return_inverse=True)


def values_of(values: Any, *, name: str) -> tuple[npt.NDArray[Any], BoolArray]:
    """A column as a numpy array and where it is missing."""
    import narwhals as nw

    if nw.dependencies.is_into_series(values):
        series = nw.from_native(values, series_only=True)
        missing = series.is_null().to_numpy()
        if missing.any() and series.dtype.is_integer():
            series = series.fill_null(0)  # a gap would turn all into floats
        array = series.to_numpy()
    else:
        array = _of_items(values, name)
        missing = np.zeros(array.shape, dtype=bool)
    if array.ndim != 1:
        columns = [str(column) for column in getattr(values, "columns", ())]
        has = f"has shape {array.shape}"
        chosen = f"{name}[:, 1]"
        if columns:
            has = f"is a table of {some_of(columns, MOST_COLUMNS)}"
            chosen = f"{name}[{columns[-1]!r}]"
        raise InputError(
            f"{name} must be one column, but {has}; choose one of them, such as "
            f"{chosen}, and make a release of each.",
            field=name,
        )
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    elif array.dtype == object:
        gaps = [v is None or (isinstance(v, float) and math.isnan(v)) for v in array]
        missing = missing | np.array(gaps, dtype=bool)
    return array, np.asarray(missing, dtype=bool)


def _of_items(values: Any, name: str) -> npt.NDArray[Any]:
    """The values of a list, array or tensor; one column of a table loses its axis."""
    items = values.to_pylist() if hasattr(values, "to_pylist") else values
    if hasattr(items, "__array__"):  # torch, jax
        items = np.asarray(items)
    try:
        is_array = isinstance(items, np.ndarray)
        array = items if is_array else np.fromiter(items, dtype=object)
    except TypeError:
        raise InputError(
            f"{name} must be one column, a value for each record, no "
            f"{type(values).__name__}.",
            field=name,
        ) from None
    return array.reshape(len(array)) if array.shape[1:] == (1,) else array


def numbers_of(value: Any, n: int, *, name: str) -> FloatArray:
    """A column of numbers, or one number for all ``n`` records; NaN where missing."""
    array, missing = values_of(spread(value, n), name=name)
    try:
        return np.asarray(np.where(missing, np.nan, array).astype(np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers.", field=name) from None


def seeds_of(value: Any, n: int) -> IntArray:
    """A column of seeds, or one for all ``n`` records; none may be missing."""
    array, missing = values_of(spread(value, n), name="seed")
    if missing.any():
        raise InputError(
            f"seed is missing in {int(missing.sum()):,} records; number the models.",
            field="seed",
        )
    distinct, inverse = _distinct(array)
    seeds = np.array([seed_of(seed) for seed in distinct], dtype=np.int64)
    return np.asarray(seeds[inverse])


def seed_of(value: object) -> int:
    """A whole number or its text; a float only while floats are exact (below 2^53)."""
    given = value.item() if isinstance(value, np.generic) else value
    least = -(2**63)
    most = 2**63 - 1
    if isinstance(value, float | np.floating):
        most = 2 ** (np.finfo(type(value)).nmant + 1) - 1
        least = -most
    if isinstance(value, int | float | str | Decimal | np.number | np.bool_):
        with suppress(InvalidOperation, TypeError):
            number = Decimal(given)  # type: ignore[arg-type]  # without rounding
            if number == number.to_integral_value() and least <= number <= most:
                return int(number)
    raise InputError(
        "seed must hold whole numbers from -2^63 to 2^63 - 1, as floating-point "
        "numbers only while these are exact; number the models from 0.",
        field="seed",
    )


def spread(value: Any, n: int) -> Any:
    """One value for all records, or the column as given."""
    value = value.as_py() if hasattr(value, "as_py") else value
    if value is None or isinstance(value, str | int | float | np.generic):
        return np.full(n, np.nan if value is None else value)
    return value


def text_of(value: object) -> str:
    """A value's name: whole floats as integers, since pandas makes 1.0 of a gappy 1."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def positive_name(
    values: Sequence[str],
    positive: object,
    *,
    where: str,
    n: Sequence[int] | IntArray = (),
) -> str:
    """Which of the sorted labels is positive; unless named, 1 or True.

    Errors name the argument ``where`` they are, and show labels only if each has enough
    records, of ``n``.
    """
    if positive is None:
        for pair in USUAL_LABELS:
            if set(values) <= set(pair):
                return pair[1]
    else:
        name = text_of(positive)
        if set(values) <= {"False", "True"}:
            # Databases and people write booleans in small letters.
            name = name.capitalize()
        if name in values or len(values) < 2:
            return name

    what = f"{len(values):,} different labels"
    fix = " the positive one"
    if len(values) == len(n) == 2 and min(n) >= LEAST_PEOPLE:
        first, second = values
        what = f"{first!r} and {second!r}"
        fix = f"{second!r} or {first!r}"
    if positive is not None:
        what += f", not {text_of(positive)!r}"
    raise _positive_is_not_known(where, what, fix)


def _positive_is_not_known(where: str, what: str, fix: str) -> InputError:
    contain = "contain" if " and " in where else "contains"
    sentence = f"{where} {contain} {what}; pass positive_label={fix}"
    if where != "y":  # where there may be scores
        sentence += "; probabilities go into y_score"
    return InputError(f"{sentence}.", field="positive_label")


def is_named(column: Coded, name: str) -> BoolArray:
    """(record,) whether a column holds that value."""
    return np.array([text == name for text in column.names], dtype=bool)[column.codes]


def require_one_length(**columns: Any) -> None:
    """Raise InputError unless all columns have as many records; None is no column."""
    lengths = {
        name: column.shape[0] if hasattr(column, "shape") else len(column)
        for name, column in columns.items()
        if column is not None
    }
    first, *_ = lengths.values()
    for name, length in lengths.items():
        if length != first:
            listed = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
            raise InputError(
                f"Columns must have one length, but they have: {listed}.", field=name
            )
