"""A benchmark task: one frozen literal describes it, one function builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pcer.data.dataset import (
    UNKNOWN_GROUP,
    Features,
    GroupedDataset,
    ProtectedAttribute,
    draw,
)
from pcer.data.fetch import DataFile
from pcer.data.readers import Column, Columns, read_columns
from pcer.errors import InputError
from pcer.metrics import BoolArray
from pcer.release.records import Outcome

Condition = tuple[str, Callable[[Any, Any], Any], Any]  # column, comparison, constant
Encoded = tuple[tuple[str, ...], Features]
MISSING = "(missing)"
SAMPLE_KEY = 0x70636572_73616D70  # "pcersamp": keeps task samples apart from splits
REST = None  # in a GroupRule: every value that no other group names
# What a task says of its people, which the dataset takes over as it is.
WORDS = ("name", "outcome", "people", "positive_means", "positive_label", "notes")


@dataclass(frozen=True)
class FeatureRule:
    """How one column of a table becomes columns of features."""

    column: str

    def encode(self, columns: Columns) -> Encoded:
        """Names and values, shape (records, names)."""
        raise NotImplementedError


class Number(FeatureRule):
    """A numeric column as it is; missing values stay missing and get an indicator beside them."""

    def encode(self, columns: Columns) -> Encoded:
        """One column, and ``column=(missing)`` where a value is missing."""
        with np.errstate(over="ignore"):  # checked below
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
class Category(FeatureRule):
    """One indicator per value; two values give one.

    Missing values count as one more value.
    """

    values: tuple[Any, ...]

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``column=value``."""
        values = columns[self.column]
        missing = is_missing(values)
        hits = {str(value): ~missing & (values == value) for value in self.values}
        return _indicators(self.column, hits, missing)


@dataclass(frozen=True)
class Bands(FeatureRule):
    """One indicator per named range of whole codes; missing codes have their own."""

    bands: (
        str  # such as "1 low, 10 high, 20": the first code of each, and after the last
    )

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``column=band``."""
        codes = columns[self.column].astype(np.float64)
        parts = (band.partition(" ") for band in self.bands.split(", "))
        starts = [(int(code), name) for code, _, name in parts]
        hits = {
            name: (codes >= low) & (codes < end)
            for (low, name), (end, _) in pairwise(starts)
        }
        return _indicators(self.column, hits, np.isnan(codes))


@dataclass(frozen=True)
class GroupRule:
    """Groups by the values of a column, in order; ``REST`` takes what no other group names."""

    column: str
    groups: tuple[tuple[str, tuple[Any, ...] | None], ...]

    @classmethod
    def of_each(
        cls, column: str, values: Iterable[str] | Mapping[str, Any]
    ) -> GroupRule:
        """A group for each value, under its own name or the one that it has in a mapping."""
        named = (
            values
            if isinstance(values, Mapping)
            else {value: value for value in values}
        )
        return cls(column, tuple((name, (value,)) for name, value in named.items()))


@dataclass(frozen=True, kw_only=True)
class DatasetTask:
    """One benchmark task, completely; files other than CSV need ``read``."""

    name: str  # what ``pcer.data.load`` and the command line call it
    title: str  # one line for people
    files: tuple[DataFile, ...]  # where the records lie, one file after another
    read: Callable[[Path, Iterable[str]], Columns] = (
        read_columns  # those columns of a file
    )
    features: tuple[FeatureRule, ...]  # the protected attributes are never among them
    label: Condition  # a record is positive where this holds
    attributes: Mapping[str, GroupRule]
    keep: tuple[Condition, ...] = ()  # a record is kept where all of these hold
    balance: bool = (
        False  # draw as many records of the larger label as the smaller one has
    )
    subsample: int | None = None  # draw so many of the records that are kept; None: all
    n_records: int | None = (
        None  # of the task; None where only the copy at hand decides
    )
    outcome: Outcome  # whether being predicted positive helps or harms
    people: str | None = None  # a plural noun for those behind the records
    positive_means: str | None = None  # of them: "are predicted to be charged again"
    positive_label: str  # what a positive label means
    source: str  # who published the records, and where
    licence: str
    caution: str  # what users should know about the people
    notes: tuple[str, ...] = ()  # travel into every release

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the files that the task needs."""
        rules: tuple[FeatureRule | GroupRule, ...] = (
            *self.features,
            *self.attributes.values(),
        )
        conditions = (self.label, *self.keep)
        names = [
            *(rule.column for rule in rules),
            *(condition[0] for condition in conditions),
        ]
        return tuple(dict.fromkeys(names))


def build(task: DatasetTask, columns: Columns) -> GroupedDataset:
    """Filter, sample, encode; a record's id is its position in the table before the filter."""
    positive = holds(columns, task.label)
    chosen = np.flatnonzero(holds(columns, *task.keep))
    if task.balance:
        sides = [chosen[~positive[chosen]], chosen[positive[chosen]]]
        n = min(side.size for side in sides)
        drawn = [
            draw(side, n, key=(SAMPLE_KEY, label)) for label, side in enumerate(sides)
        ]
        chosen = np.sort(np.concatenate(drawn))
    if task.subsample is not None and chosen.size > task.subsample:
        chosen = draw(chosen, task.subsample, key=(SAMPLE_KEY, 2))
    part = {name: values[chosen] for name, values in columns.items()}
    names, features = encode(task.features, part)
    words: Any = {name: getattr(task, name) for name in WORDS}
    dataset = GroupedDataset(
        features=features,
        feature_names=names,
        labels=positive[chosen].astype(np.int64),
        attributes=tuple(
            divide(name, rule, part) for name, rule in task.attributes.items()
        ),
        record_ids=chosen,
        public=True,
        **words,
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
    for position, (_, members) in ordered:  # the rest first: the others overwrite it
        taken = (
            ~is_missing(values) if members is REST else np.isin(values, list(members))
        )
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
