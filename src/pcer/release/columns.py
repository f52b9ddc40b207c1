"""Columns of any dataframe library, converted to numpy arrays and codes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.disclosure import LEAST_PEOPLE

SPLITS = ("train", "test")
CROSSING = " & "  # between the parts of a crossed name


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
    return {
        text_of(name): frame[:, k].to_native() for k, name in enumerate(frame.columns)
    }


def named_columns(features: Any, attribute: str | None) -> dict[str, Any]:
    """Attributes by name, from a dataframe, a dict, a column or an array; "group" without one."""
    if (columns := columns_of(features)) is not None:
        return columns
    name = str(attribute or getattr(features, "name", None) or "group")
    if getattr(features, "ndim", 1) != 2:
        return {name: features}
    several = features.shape[1] > 1
    return {
        f"{name} {k + 1}" if several else name: own for k, own in enumerate(features.T)
    }


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
    crossed = columns[0]
    for other in columns[1:]:
        if len(crossed.codes) != len(other.codes):
            raise InputError(
                "sensitive_features must have one length.", field="sensitive_features"
            )
        is_gap = (crossed.codes < 0) | (other.codes < 0)
        codes = np.where(is_gap, -1, crossed.codes * len(other.names) + other.codes)
        used = np.unique(codes[~is_gap])
        names = [CROSSING.join((a, b)) for a in crossed.names for b in other.names]
        codes = np.where(is_gap, -1, np.searchsorted(used, codes))
        crossed = Coded([names[code] for code in used], codes)
    return crossed


def required_column(values: Any, *, name: str, n: IntArray | None = None) -> Coded:
    """A column in which nothing may be missing; each row may stand for ``n`` records."""
    column = column_of(values, name)
    is_gap = column.codes < 0
    if gaps := int(is_gap.sum() if n is None else n[is_gap].sum()):
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
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~missing] = np.array([position[text] for text in texts], dtype=np.int64)[
        inverse
    ]
    return Coded(names, codes)


def _distinct(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], IntArray]:
    """Distinct values and the code of each row; objects, which may not sort, in given order."""
    if array.dtype == object:
        return array, np.arange(len(array))
    return np.unique(array, return_inverse=True)


def values_of(values: Any, *, name: str) -> tuple[npt.NDArray[Any], BoolArray]:
    """A column as a numpy array and where it is missing."""
    import narwhals as nw

    if nw.dependencies.is_into_series(values):
        series = nw.from_native(values, series_only=True)
        missing = series.is_null().to_numpy()
        if (
            missing.any() and series.dtype.is_integer()
        ):  # a gap would turn all into floats
            series = series.fill_null(0)
        array = series.to_numpy()
    else:
        items = values.to_pylist() if hasattr(values, "to_pylist") else values
        items = (
            np.asarray(items) if hasattr(items, "__array__") else items
        )  # torch, jax
        try:
            array = (
                items
                if isinstance(items, np.ndarray)
                else np.fromiter(items, dtype=object)
            )
        except TypeError:
            raise InputError(
                f"{name} must be one column, a value for each record, no {type(values).__name__}.",
                field=name,
            ) from None
        array = array.reshape(len(array)) if array.shape[1:] == (1,) else array
        missing = np.zeros(array.shape, dtype=bool)
    if array.ndim != 1:
        fault = f"{name} must be one column, but has shape {array.shape}"
        raise InputError(
            f"{fault}; choose one of them, such as {name}[:, 1].", field=name
        )
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    elif array.dtype == object:
        gaps = [v is None or (isinstance(v, float) and math.isnan(v)) for v in array]
        missing = missing | np.array(gaps, dtype=bool)
    return array, np.asarray(missing, dtype=bool)


def numbers_of(value: Any, n: int, *, name: str) -> FloatArray:
    """A column of numbers, or one number for all ``n`` records; NaN where missing."""
    array, missing = values_of(spread(value, n), name=name)
    try:
        return np.asarray(np.where(missing, np.nan, array).astype(np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers.", field=name) from None


def seeds_of(value: Any, n: int) -> IntArray:
    """A column of seeds, or one seed for all ``n`` records, none missing; see ``seed_of``."""
    array, missing = values_of(spread(value, n), name="seed")
    if missing.any():
        raise InputError(
            f"seed is missing in {int(missing.sum()):,} records; number the models.",
            field="seed",
        )
    values, inverse = _distinct(array)
    return np.array([seed_of(seed) for seed in values], dtype=np.int64)[inverse]


def seed_of(value: object) -> int:
    """A seed as the whole number it is: exact, or refused with one sentence.

    | given | taken as |
    |---|---|
    | a whole number, or its text | itself, from -2^63 to 2^63 - 1, which is what a release holds |
    | a float that is whole | itself while floats are exact (64 bits: below 2^53); then refused |
    | anything else | refused |

    >>> seed_of(2**60 + 1) - 2**60
    1
    """
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
        "seed must hold whole numbers from -2^63 to 2^63 - 1, as floating-point numbers only "
        "while these are exact; number the models from 0.",
        field="seed",
    )


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


def positive_name(
    values: Sequence[str],
    positive: object,
    *,
    where: str,
    n: Sequence[int] | IntArray = (),
) -> str:
    """Which of the sorted labels, of ``n`` records each, is positive; unless named, 1 or True.

    >>> positive_name(["bad", "fair", "good"], "good", where="y")
    'good'
    """
    if positive is None:
        for pair in (("0", "1"), ("False", "True")):
            if set(values) <= set(pair):
                return pair[1]
    else:
        name = text_of(positive)
        if set(values) <= {"False", "True"}:
            name = (
                name.capitalize()
            )  # databases and people write booleans in small letters
        if name in values or len(values) < 2:
            return name
    what = f"{len(values):,} different labels"
    fix = " the positive one"
    if len(values) == len(n) == 2 and min(n) >= LEAST_PEOPLE:
        what = "{!r} and {!r}".format(*values)
        fix = "{1!r} or {0!r}".format(*values)
    what += "" if positive is None else f", not {text_of(positive)!r}"
    reason = f"contain{'s' * (' and ' not in where)} {what}; pass positive_label={fix}"
    if where != "y":  # where there may be scores
        reason += "; probabilities go into y_score"
    raise InputError(f"{where} {reason}.", field="positive_label")
