"""What a benchmark task is: data. One frozen literal says everything, one function builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pcer.data.dataset import UNKNOWN_GROUP, Features, GroupedDataset, ProtectedAttribute, draw
from pcer.data.fetch import DataFile
from pcer.data.readers import Column, Columns, read_columns
from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.release.format import Outcome

Condition = tuple[str, Callable[[Any, Any], Any], Any]  # column, comparison, constant
Encoded = tuple[tuple[str, ...], Features]

MISSING = "(missing)"
SAMPLE_KEY = 0x70636572_73616D70  # "pcersamp": keeps task samples apart from splits
REST = None  # in a GroupRule: every value that no other group names


class FeatureRule(Protocol):
    """How one column of a table becomes columns of features."""

    @property
    def column(self) -> str:
        """Name of the column in the table."""

    def encode(self, columns: Columns) -> Encoded:
        """Names and values, shape (records, names)."""


@dataclass(frozen=True)
class Number:
    """A numeric column as it is; missing values stay missing and get an indicator beside them."""

    column: str

    def encode(self, columns: Columns) -> Encoded:
        """One column, and ``column=(missing)`` where a value is missing."""
        with np.errstate(over="ignore"):  # told below
            values = columns[self.column].astype(np.float32)
        if np.isinf(values).any():
            raise InputError(
                f"column {self.column!r} holds numbers beyond {np.finfo(np.float32).max:.1e}, "
                "which no model here can take; rescale it, or leave it out."
            )
        missing = np.isnan(values)
        if not missing.any():
            return (self.column,), values[:, None]
        names = (self.column, f"{self.column}={MISSING}")
        return names, np.column_stack([values, missing.astype(np.float32)])


@dataclass(frozen=True)
class Category:
    """One indicator per value; two values give one. Missing values are a value of their own."""

    column: str
    values: tuple[Any, ...]

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``column=value``."""
        values = columns[self.column]
        missing = is_missing(values)
        hits = {str(value): ~missing & (values == value) for value in self.values}
        return _indicators(self.column, hits, missing)


@dataclass(frozen=True)
class Bands:
    """One indicator per named range of whole codes; missing codes have their own.

    Bands are written as ``"1 low, 10 high, 20"``: the first code of each, and after the last.
    """

    column: str
    bands: str

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``column=band``."""
        codes = columns[self.column].astype(np.float64)
        parts = (band.partition(" ") for band in self.bands.split(", "))
        starts = [(int(code), name) for code, _, name in parts]
        hits = {name: (codes >= low) & (codes < end) for (low, name), (end, _) in pairwise(starts)}
        return _indicators(self.column, hits, np.isnan(codes))


@dataclass(frozen=True)
class GroupRule:
    """Groups by the values of a column, in order; ``REST`` takes what no other group names."""

    column: str
    groups: tuple[tuple[str, tuple[Any, ...] | None], ...]

    @classmethod
    def of_each(cls, column: str, values: Iterable[str] | Mapping[str, Any]) -> GroupRule:
        """A group for each value, under its own name or the one that it has in a mapping."""
        named = values if isinstance(values, Mapping) else {value: value for value in values}
        return cls(column, tuple((name, (value,)) for name, value in named.items()))


@dataclass(frozen=True, kw_only=True)
class DatasetTask:
    """One benchmark task, completely; a file that is no CSV needs a reader of its own."""

    name: str  # what ``pcer.data.load`` and the command line call it
    title: str  # one line for people
    files: tuple[DataFile, ...]  # where the records lie, one file after another
    read: Callable[[Path, Iterable[str]], Columns] = read_columns  # those columns of a file
    features: tuple[FeatureRule, ...]  # the protected attributes are never among them
    label: Condition  # a record is positive where this holds
    attributes: Mapping[str, GroupRule]
    keep: tuple[Condition, ...] = ()  # a record is kept where all of these hold
    balance: bool = False  # draw as many records of the larger label as the smaller one has
    subsample: int | None = None  # draw so many of the records that are kept; None: all
    n_records: int | None = None  # of the task; None where only the copy at hand decides
    outcome: Outcome  # whether being predicted positive helps or harms
    positive_label: str  # what a positive label means
    source: str  # who published the records, and where
    licence: str
    caution: str  # what the data is, for whoever uses it
    notes: tuple[str, ...] = ()  # travel into every release

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the files that the task needs."""
        rules: tuple[FeatureRule | GroupRule, ...] = (*self.features, *self.attributes.values())
        conditions = (self.label, *self.keep)
        names = [*(rule.column for rule in rules), *(condition[0] for condition in conditions)]
        return tuple(dict.fromkeys(names))


def build(task: DatasetTask, columns: Columns) -> GroupedDataset:
    """Filter, sample, encode: the task's literal applied to the columns of its table.

    A record's id is its position in the table before anything was filtered.
    """
    positive, kept = holds(columns, task.label), holds(columns, *task.keep)
    chosen = _sampled(task, np.flatnonzero(kept), positive)
    part = {name: values[chosen] for name, values in columns.items()}
    names, features = encode(task.features, part)
    dataset = GroupedDataset(
        name=task.name,
        features=features,
        feature_names=names,
        labels=positive[chosen].astype(np.int64),
        attributes=tuple(divide(name, rule, part) for name, rule in task.attributes.items()),
        outcome=task.outcome,
        positive_label=task.positive_label,
        record_ids=chosen,
        notes=task.notes,
        public=True,
    )
    if task.n_records is not None and dataset.n_records != task.n_records:
        raise InputError(
            f"dataset {task.name!r} must have {task.n_records:,} records, but the files give "
            f"{dataset.n_records:,}; remove them and fetch them again."
        )
    return dataset


def encode(rules: tuple[FeatureRule, ...], columns: Columns) -> Encoded:
    """All rules side by side."""
    parts = [rule.encode(columns) for rule in rules]
    names = tuple(name for part, _ in parts for name in part)
    return names, np.concatenate([values for _, values in parts], axis=1)


def divide(name: str, rule: GroupRule, columns: Columns) -> ProtectedAttribute:
    """The protected attribute a group rule describes; a missing value belongs to no group."""
    values = columns[rule.column]
    codes = np.full(values.size, UNKNOWN_GROUP, dtype=np.int64)
    ordered = sorted(enumerate(rule.groups), key=lambda group: group[1][1] is not REST)
    for position, (_, members) in ordered:  # the rest first: the others take theirs from it
        taken = ~is_missing(values) if members is REST else np.isin(values, list(members))
        codes[taken] = position
    names = tuple(group for group, _ in rule.groups)
    return ProtectedAttribute(name=name, group_names=names, codes=codes)


def is_missing(values: Column) -> BoolArray:
    """Where a column has no value: NaN in numbers, None in text."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnan(values)


def holds(columns: Columns, *conditions: Condition) -> BoolArray:
    """Where all conditions are met."""
    met = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for column, compare, constant in conditions:
        met &= np.asarray(compare(columns[column], constant), dtype=bool)
    return met


def _sampled(task: DatasetTask, kept: IntArray, positive: BoolArray) -> IntArray:
    if task.balance:
        sides = [kept[~positive[kept]], kept[positive[kept]]]
        n = min(side.size for side in sides)
        drawn = [draw(side, n, key=(SAMPLE_KEY, label)) for label, side in enumerate(sides)]
        kept = np.sort(np.concatenate(drawn))
    if task.subsample is not None and kept.size > task.subsample:
        kept = draw(kept, task.subsample, key=(SAMPLE_KEY, 2))
    return kept


def _indicators(column: str, hits: dict[str, Column], missing: Column) -> Encoded:
    """One column for each value, or for the first of two."""
    unknown = ~np.logical_or.reduce([missing, *hits.values()])
    if unknown.any():
        raise InputError(
            f"column {column!r} holds {unknown.sum()} values that the task does not know; "
            "use the file that the task names."
        )
    if missing.any():
        hits = {**hits, MISSING: missing}
    values = list(hits)[:1] if len(hits) == 2 else list(hits)
    names = tuple(f"{column}={value}" for value in values)
    return names, np.column_stack([hits[value] for value in values]).astype(np.float32)
