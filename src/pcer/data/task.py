"""What is a benchmark task? One frozen literal describes it, one function builds it.

The files beside this one hold the literals, which ``benchmarks`` builds. To add a kind
of feature: one more class with a ``column`` and an ``encode``.
"""

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
from pcer.data.readers import Column, Columns, read_columns
from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.release.records import Outcome

Condition = tuple[str, Callable[[Any, Any], Any], Any]  # column, comparison, constant
Encoded = tuple[tuple[str, ...], Features]
MISSING = "(missing)"
SAMPLE_KEY = 0x70636572_73616D70  # "pcersamp": keeps task samples apart from splits
REST = None  # in a GroupRule: every value that no other group names


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a dataset."""

    name: str  # in the wheel, in the folder ``PCER_DATA`` and in the cache
    sha256: str | None = None  # None where the publisher promises no fixed bytes
    url: str | None = None  # of its publisher; None: it cannot be downloaded
    check: Callable[[Path], None] | None = None  # raises InputError for another shape


@dataclass(frozen=True)
class FeatureRule:
    """How one column of a table becomes columns of features."""

    column: str

    def encode(self, columns: Columns) -> Encoded:
        """Names and values, shape (records, names)."""
        raise NotImplementedError


class Number(FeatureRule):
    """A numeric column as it is, and an indicator of missing values beside it."""

    def encode(self, columns: Columns) -> Encoded:
        """One column, and ``column=(missing)`` where a value is missing."""
        with np.errstate(over="ignore"):  # checked below
            values = columns[self.column].astype(np.float32)
        if np.isinf(values).any():
            raise InputError(
                f"column {self.column!r} holds numbers beyond "
                f"{np.finfo(np.float32).max:.1e}, which no model here can take; "
                "rescale it, or leave it out."
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

    # Such as "1 low, 10 high, 20": the first code of each, and after the last.
    bands: str

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``column=band``."""
        codes = columns[self.column].astype(np.float64)
        starts = []
        for band in self.bands.split(", "):
            code, _, name = band.partition(" ")
            starts.append((int(code), name))
        hits = {}
        for (first, name), (end, _) in pairwise(starts):
            hits[name] = (codes >= first) & (codes < end)
        return _indicators(self.column, hits, np.isnan(codes))


@dataclass(frozen=True)
class GroupRule:
    """Groups by the values of a column, in order."""

    column: str
    # Names and values; ``REST`` takes what no other group names.
    groups: tuple[tuple[str, tuple[Any, ...] | None], ...]

    @classmethod
    def of_each(
        cls, column: str, values: Iterable[str] | Mapping[str, Any]
    ) -> GroupRule:
        """A group for each value, named after it; or for each name of a mapping."""
        if not isinstance(values, Mapping):
            values = {value: value for value in values}
        return cls(column, tuple((name, (value,)) for name, value in values.items()))


@dataclass(frozen=True, kw_only=True)
class DatasetTask:
    """One benchmark task, completely; files other than CSV need ``read``."""

    name: str  # what ``pcer.data.load`` and the command line call it
    title: str  # one line for people
    files: tuple[DataFile, ...]  # where the records lie, one file after another
    read: Callable[[Path, Iterable[str]], Columns] = read_columns
    features: tuple[FeatureRule, ...]  # the protected attributes are never among them
    label: Condition  # a record is positive where this holds
    attributes: Mapping[str, GroupRule]
    keep: tuple[Condition, ...] = ()  # a record is kept where all of these hold
    # Draw as many records of the larger label as the smaller one has.
    balance: bool = False
    subsample: int | None = None  # draw so many of the records that are kept; None: all
    n_records: int | None = None  # of the task; None: as many as the files at hand give
    outcome: Outcome  # whether being predicted positive helps or harms
    people: str | None = None  # a plural noun for those behind the records
    positive_means: str | None = None  # of them: "are predicted to be charged again"
    positive_label: str  # what a positive label means
    trained: str | None = None  # follows "A network trained": "on the COMPAS data"
    membership_means: str | None = None  # of a member: "you were arrested in 2013"
    source: str  # who published the records, and where
    licence: str
    caution: str  # what users should know about the people
    notes: tuple[str, ...] = ()  # travel into every release

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the files that the task needs."""
        named = dict.fromkeys(rule.column for rule in self.features)
        named |= dict.fromkeys(rule.column for rule in self.attributes.values())
        named |= dict.fromkeys(column for column, _, _ in (self.label, *self.keep))
        return tuple(named)


def build(task: DatasetTask, columns: Columns) -> GroupedDataset:
    """Filter, sample and encode.

    A record's id is its position in the table before the filter.
    """
    positive = holds(columns, task.label)
    record_ids = _sampled(task, columns, positive)
    chosen = {name: values[record_ids] for name, values in columns.items()}
    feature_names, features = encode(task.features, chosen)
    attributes = []
    for name, rule in task.attributes.items():
        attributes.append(divide(name, rule, chosen))
    dataset = GroupedDataset(
        name=task.name,
        features=features,
        feature_names=feature_names,
        labels=positive[record_ids].astype(np.int64),
        attributes=tuple(attributes),
        outcome=task.outcome,
        people=task.people,
        positive_means=task.positive_means,
        positive_label=task.positive_label,
        trained=task.trained,
        membership_means=task.membership_means,
        notes=task.notes,
        record_ids=record_ids,
        public=True,
    )
    if task.n_records is not None and dataset.n_records != task.n_records:
        raise InputError(
            f"dataset {task.name!r} must have {task.n_records:,} records, but the "
            f"files give {dataset.n_records:,}; remove them and fetch them again."
        )
    return dataset


def _sampled(task: DatasetTask, columns: Columns, positive: BoolArray) -> IntArray:
    """Positions of the records that the task keeps and draws."""
    kept = np.flatnonzero(holds(columns, *task.keep))
    if task.balance:
        by_label = [kept[~positive[kept]], kept[positive[kept]]]
        n = min(records.size for records in by_label)
        drawn = [
            draw(records, n, key=(SAMPLE_KEY, label))
            for label, records in enumerate(by_label)
        ]
        kept = np.sort(np.concatenate(drawn))
    if task.subsample is not None and kept.size > task.subsample:
        kept = draw(kept, task.subsample, key=(SAMPLE_KEY, 2))
    return kept


def encode(rules: tuple[FeatureRule, ...], columns: Columns) -> Encoded:
    """The features of all rules, side by side."""
    names: list[str] = []
    values = []
    for rule in rules:
        own_names, own_values = rule.encode(columns)
        names += own_names
        values.append(own_values)
    return tuple(names), np.concatenate(values, axis=1)


def divide(name: str, rule: GroupRule, columns: Columns) -> ProtectedAttribute:
    """The protected attribute that a rule describes; in no group where missing."""
    values = columns[rule.column]
    codes = np.full(values.size, UNKNOWN_GROUP, dtype=np.int64)
    for code, (_, members) in enumerate(rule.groups):
        if members is REST:
            codes[~is_missing(values)] = code
    # After the rest, of which they take their own.
    for code, (_, members) in enumerate(rule.groups):
        if members is not REST:
            codes[np.isin(values, list(members))] = code
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
            f"column {column!r} holds {unknown.sum()} values that the task does not "
            "know; use the file that the task names."
        )
    if missing.any():
        hits = {**hits, MISSING: missing}
    values = list(hits)[:1] if len(hits) == 2 else list(hits)
    names = tuple(f"{column}={value}" for value in values)
    return names, np.column_stack([hits[value] for value in values]).astype(np.float32)


def require_count(path: Path, n_found: int, n_published: int, what: str) -> None:
    """Raise InputError unless a file holds the published number of records.

    For files whose publisher promises no fixed bytes.
    """
    if n_found != n_published:
        raise InputError(
            f"{path} holds {n_found:,} {what} instead of the {n_published:,} "
            "published; remove it and fetch it again."
        )
