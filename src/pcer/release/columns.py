"""Columns of any dataframe library as numpy arrays and codes: the kind edge of a strict inside."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray

SPLITS = ("train", "test")
CROSSING = " & "
"""Between the parts of a crossed name."""


@dataclass(frozen=True)
class Coded:
    """A column as whole numbers into sorted names; -1 where the value is missing."""

    names: list[str]
    codes: IntArray


def named_columns(features: Any, attribute: str | None) -> dict[str, Any]:
    """Protected attributes by name, from a dataframe, a dict or one column."""
    import narwhals as nw

    if isinstance(features, Mapping):
        return {str(name): values for name, values in features.items()}
    if nw.dependencies.is_into_dataframe(features):
        frame = nw.from_native(features, eager_only=True)
        return {name: frame[name].to_native() for name in frame.columns}
    name = attribute or getattr(features, "name", None)
    if not name:
        raise InputError("Name the protected attribute: attribute='sex', for example.")
    return {str(name): features}


def attribute_views(names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Each attribute alone and, where there are several, their crossing: positions by name.

    >>> attribute_views(["sex", "age"])
    {'sex': (0,), 'age': (1,), 'sex & age': (0, 1)}
    """
    views: dict[str, tuple[int, ...]] = {name: (i,) for i, name in enumerate(names)}
    if len(names) > 1:
        views[CROSSING.join(names)] = tuple(range(len(names)))
    return views


def cross(columns: list[Coded]) -> Coded:
    """Groups of one attribute, or of several crossed; missing in one is missing."""
    crossed = columns[0]
    for other in columns[1:]:
        if len(crossed.codes) != len(other.codes):
            raise InputError("All sensitive_features must have one length.")
        names = [CROSSING.join((a, b)) for a in crossed.names for b in other.names]
        codes = np.where(
            (crossed.codes < 0) | (other.codes < 0),
            -1,
            crossed.codes * len(other.names) + other.codes,
        )
        used = np.unique(codes[codes >= 0])
        crossed = Coded([names[code] for code in used], _index_of(codes, used))
    return crossed


def recode(column: Coded, names: Sequence[str]) -> IntArray:
    """Codes into ``names`` instead; -1 where a value is missing or not among them."""
    position = {name: index for index, name in enumerate(names)}
    lookup = [position.get(name, -1) for name in column.names]
    return np.array([*lookup, -1], dtype=np.int64)[column.codes]


def _index_of(codes: IntArray, used: IntArray) -> IntArray:
    return np.where(codes < 0, -1, np.searchsorted(used, codes))


def required_column(values: Any, *, name: str) -> Coded:
    """A column in which nothing may be missing."""
    column = column_of(values, name)
    gaps = int((column.codes < 0).sum())
    if gaps:
        raise InputError(f"{name} is missing in {gaps:,} records; leave them out or fill them in.")
    return column


def column_of(values: Any, name: str) -> Coded:
    """Any column as codes into its sorted names."""
    array, missing = values_of(values, name=name)
    present = array[~missing]
    uniques, inverse = (
        _unique_objects(present)
        if array.dtype == object
        else np.unique(present, return_inverse=True)
    )
    texts = [text_of(value) for value in uniques.tolist()]
    names = sorted(set(texts))
    position = {text: index for index, text in enumerate(names)}
    order = np.array([position[text] for text in texts], dtype=np.int64)
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~missing] = order[inverse] if len(order) else 0
    return Coded(names, codes)


def _unique_objects(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], IntArray]:
    """np.unique for values that need not compare with each other."""
    known: dict[str, int] = {}
    inverse = np.array([known.setdefault(text_of(v), len(known)) for v in array], dtype=np.int64)
    return np.array(list(known), dtype=object), inverse


def values_of(values: Any, *, name: str) -> tuple[npt.NDArray[Any], BoolArray]:
    """A column as a numpy array and where it is missing."""
    import narwhals as nw

    if nw.dependencies.is_into_series(values):
        series = nw.from_native(values, series_only=True)
        missing = series.is_null().to_numpy()
        if missing.any() and series.dtype.is_integer():  # a gap would make floating points of all
            series = series.fill_null(0)
        array = series.to_numpy()
    else:
        array = values if isinstance(values, np.ndarray) else _from_sequence(values, name)
        missing = np.zeros(array.shape, dtype=bool)
    if array.ndim != 1:
        raise InputError(f"{name} must be one column, but has {array.ndim} dimensions.")
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    elif array.dtype == object:
        missing = missing | np.array([_is_gap(value) for value in array], dtype=bool)
    return array, np.asarray(missing, dtype=bool)


def _from_sequence(values: Any, name: str) -> npt.NDArray[Any]:
    try:
        items = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    except TypeError:
        kind = type(values).__name__
        raise InputError(f"{name} must be one column, but a single {kind} was given.") from None
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _is_gap(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def numbers_of(value: Any, n: int, *, name: str) -> FloatArray:
    """A column of numbers, or one number for all ``n`` records; NaN where missing."""
    array, missing = values_of(spread(value, n), name=name)
    try:
        numbers = np.where(missing, np.nan, array).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers.") from None
    return np.asarray(numbers)


def seeds_of(value: Any, n: int) -> IntArray:
    """A column of seeds, or one seed for all ``n`` records, none missing; see ``seed_of``."""
    array, missing = values_of(spread(value, n), name="seed")
    if missing.any():
        raise InputError(f"seed is missing in {int(missing.sum()):,} records; number the models.")
    values, inverse = _distinct(array)
    return np.array([seed_of(one, where="seed") for one in values], dtype=np.int64)[inverse]


def _distinct(array: npt.NDArray[Any]) -> tuple[Sequence[Any], IntArray]:
    """Every value once, as it is, and which of them stands where."""
    if array.dtype != object:
        values, inverse = np.unique(array, return_inverse=True)
        return list(values), inverse
    known: dict[Any, int] = {}
    try:
        inverse = np.array([known.setdefault(v, len(known)) for v in array], dtype=np.int64)
    except TypeError:  # a list or the like has no hash, and is no seed
        return list(array), np.arange(len(array))
    return list(known), inverse


def seed_of(value: object, *, where: str) -> int:
    """A seed as the whole number it is: exact, or refused with one sentence.

    | given | taken as |
    |---|---|
    | a whole number, or its text | itself, from -2^63 to 2^63 - 1, which is what a release holds |
    | a float that is whole | itself while floats are exact (64 bits: below 2^53); then refused |
    | anything else | refused |

    >>> seed_of(2**60 + 1, where="seed") - 2**60
    1
    """
    number, shown = _decimal(value), value.item() if isinstance(value, np.generic) else value
    if number is None or not number.is_finite() or number != number.to_integral_value():
        raise InputError(f"{where} must hold whole numbers, not {shown!r:.60}; number the models.")
    if isinstance(value, float | np.floating) and abs(number) >= _first_inexact(value):
        raise InputError(
            f"{where} holds {shown!r} as a floating-point number, and at that size these skip "
            "whole numbers; give a column of integers, or smaller seeds."
        )
    if not -(2**63) <= number < 2**63:
        raise InputError(
            f"{where} must lie between -2^63 and 2^63 - 1, but holds {number:.20g}; number the "
            "models from 0."
        )
    return int(number)


def _first_inexact(value: float | np.floating[Any]) -> int:
    """The least number that a float of this kind may mean although another was written."""
    return int(2 ** (np.finfo(type(value)).nmant + 1))


def _decimal(value: object) -> Decimal | None:
    """A number, or the text of one, without rounding; None for everything else."""
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if not isinstance(value, int | float | str | Decimal):
        return None
    try:
        return Decimal(value)
    except InvalidOperation:
        return None


def spread(value: Any, n: int) -> Any:
    """One value for all records, or the column as given."""
    value = value.as_py() if hasattr(value, "as_py") else value
    if value is None or isinstance(value, str | int | float | np.generic):
        return np.full(n, np.nan if value is None else value)
    return value


def text_of(value: object) -> str:
    """A value's name: whole floats as integers, since pandas stores a gappy 1 as 1.0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def require_splits(found: Collection[str], *, where: str) -> None:
    """Raise InputError unless a column of splits holds "train" and "test", and nothing else."""
    unknown = sorted(set(found) - set(SPLITS))
    if unknown:
        raise InputError(
            f"{where} must hold 'train' or 'test', but holds {unknown[0]!r}; recode it."
        )
    if len(set(found)) < 2:
        raise InputError(
            f"{where} holds only {next(iter(found))!r}, and the privacy cost needs both; predict "
            "the training records and the test records with the same model."
        )


def positive_name(values: Sequence[str], positive: object, *, where: str) -> str:
    """Which of at most two labels is the positive one, as text.

    Args:
        values: the labels that occur, sorted.
        positive: the positive one; None if labels are 0 and 1, or booleans.
        where: what errors call the labels.
    """
    if len(values) > 2:
        shown = ", ".join(repr(value) for value in values[:5])
        raise InputError(
            f"{where} must have two values between them, but have {len(values)} "
            f"({shown}{', ...' if len(values) > 5 else ''}); keep two, or join some."
        )
    if positive is not None:
        return _known_positive(values, text_of(positive), where)
    for zero, one in (("0", "1"), ("False", "True")):
        if set(values) <= {zero, one}:
            return one
    raise InputError(f"{where} hold {', '.join(values)}; say which of these labels is positive.")


def _known_positive(values: Sequence[str], name: str, where: str) -> str:
    if set(values) <= {"False", "True"}:
        name = name.capitalize()  # databases and people write booleans in small letters
    if name not in values and len(values) == 2:
        raise InputError(f"{where} hold {', '.join(values)}, and {name!r} is not among them.")
    return name
