"""Which features has Adult in each reading of the paper?

``run`` and ``sensitivity.run`` load a reading by name. Some need UCI's whole files: the
package carries only the columns of our reading. The whole table is read from a folder
(default: the one named by ``PCER_DATA``) that holds ``adult.data`` and ``adult.test``
as UCI publishes them, or the same compressed as ``.gz``.

To add a reading: a row of ``READINGS``, and a variant of the same name.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pcer.data import GroupedDataset, standardise
from pcer.data.benchmarks import locate
from pcer.data.bundled import ADULT
from pcer.data.readers import Columns
from pcer.data.task import Category, DataFile, Encoded, FeatureRule, Number, build
from pcer.errors import InputError

WHOLE = (
    ("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
    ("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
)
"""The files of the whole table, each with the SHA-256 digest of its plain text."""

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
"""In the files' order."""

NUMBERS = (
    "age",
    "fnlwgt",
    "education_num",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
)
CAPITAL = ("capital_gain", "capital_loss")
PROTECTED = ("race", "sex")


class Indicators(FeatureRule):
    """One indicator per value that occurs; two values give one."""

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``column=value``, in alphabetical order."""
        values = tuple(sorted(set(columns[self.column])))
        return Category(self.column, values).encode(columns)


class Positions(FeatureRule):
    """A category as one number: its value's place in alphabetical order, from 0."""

    def encode(self, columns: Columns) -> Encoded:
        """One column of that name."""
        column = columns[self.column]
        place = {value: i for i, value in enumerate(sorted(set(column)))}
        values = np.array([place[value] for value in column], dtype=np.float32)
        return (self.column,), values[:, None]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to make features of the Adult table.

    Attributes:
        features: the rules of its columns.
        whole: whether it needs columns that the package does not carry.
        scale_indicators: whether indicators are standardised as numbers are.
    """

    features: tuple[FeatureRule, ...]
    whole: bool = False
    scale_indicators: bool = True


def _named(**instead: FeatureRule) -> tuple[FeatureRule, ...]:
    """The features that the paper names, some by another rule."""
    names = ("age", "education_num", "occupation", "hours_per_week", *CAPITAL)
    plain = {
        name: Indicators(name) if name == "occupation" else Number(name)
        for name in names
    }
    return tuple({**plain, **instead}.values())


def _all_but(
    left_out: tuple[str, ...], category: Callable[[str], FeatureRule]
) -> tuple[FeatureRule, ...]:
    """Every column of the table but some; categories by one rule."""
    wanted = [name for name in COLUMNS[:-1] if name not in left_out]
    return tuple(Number(name) if name in NUMBERS else category(name) for name in wanted)


READINGS: Mapping[str, Reading] = {
    "adult-named": Reading(features=ADULT.features),
    "adult-education-indicators": Reading(
        features=_named(education_num=Indicators("education_num"))
    ),
    "adult-occupation-number": Reading(
        features=_named(occupation=Positions("occupation"))
    ),
    "adult-plain-indicators": Reading(features=ADULT.features, scale_indicators=False),
    "adult-protected-inside": Reading(
        features=(*ADULT.features, *(Indicators(name) for name in PROTECTED))
    ),
    "adult-all-indicators": Reading(
        features=_all_but(PROTECTED, Indicators), whole=True
    ),
    "adult-all-numbers": Reading(features=_all_but(PROTECTED, Positions), whole=True),
    "adult-all-numbers-no-capital": Reading(
        features=_all_but((*PROTECTED, *CAPITAL), Positions), whole=True
    ),
    "adult-all-numbers-no-capital-protected": Reading(
        features=_all_but(CAPITAL, Positions), whole=True
    ),
}
"""By name; the first is the one of ``pcer.data.load("adult")``."""


def missing_files(name: str, *, folder: Path | None = None) -> str | None:
    """What a reading lacks on this machine, in a sentence; None if nothing."""
    if not READINGS[name].whole or _located(folder) is not None:
        return None
    return _lacking(name)


def load_reading(name: str, *, folder: Path | None = None) -> GroupedDataset:
    """Adult with the features of one reading.

    Records, labels, groups and splits are those of ``pcer.data.load("adult")``.

    Raises:
        InputError: the whole table is needed and is not here, or is not UCI's.

    >>> len(load_reading("adult-named").feature_names)
    19
    """
    reading = READINGS[name]
    columns = read_whole(folder=folder) if reading.whole else bundled_columns()
    dataset = build(replace(ADULT, name=name, features=reading.features), columns)
    return dataset if reading.scale_indicators else _numbers_scaled(dataset)


def read_whole(*, folder: Path | None = None) -> Columns:
    """All 48,842 records with all columns: ``adult.data``, then ``adult.test``."""
    paths = _located(folder)
    if paths is None:
        raise InputError(_lacking("the whole Adult table"))
    rows = []
    for path in paths:
        rows += _rows(path)
    table = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    return {
        name: np.array(values, dtype=np.float64 if name in NUMBERS else object)
        for name, values in table.items()
    }


def _lacking(what: str) -> str:
    files = " and ".join(name for name, _ in WHOLE)
    return (
        f"{what} needs columns that the package does not carry; put UCI's {files} "
        "(plain or .gz) into a folder and name it in the environment variable "
        "PCER_DATA."
    )


def bundled_columns() -> Columns:
    """The columns of Adult that the package carries."""
    path = locate(ADULT.files[0])
    if path is None:
        raise InputError("the package's own Adult file is gone; install pcer again.")
    return ADULT.read(path, ADULT.columns)


def _located(folder: Path | None) -> tuple[Path, ...] | None:
    """The files of the whole table; None where one is not here."""
    paths = []
    for name, _ in WHOLE:
        path = _plain_or_packed(name, folder)
        if path is None:
            return None
        paths.append(path)
    return tuple(paths)


def _plain_or_packed(name: str, folder: Path | None) -> Path | None:
    for file in (name, f"{name}.gz"):
        path = locate(DataFile(name=file), folder=folder)
        if path is not None:
            return path
    return None


def _rows(path: Path) -> list[list[str]]:
    """The records of one file.

    ``adult.test`` has one more line on top, and a stop after each label.
    """
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    expected = dict(WHOLE)[path.name.removesuffix(".gz")]
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError(
            f"{path} is not the file that UCI publishes; replace it, or remove it."
        )
    lines = content.decode("ascii").splitlines()
    rows = csv.reader(lines, skipinitialspace=True)
    return [
        [*row[:-1], row[-1].rstrip(".")] for row in rows if len(row) == len(COLUMNS)
    ]


def _numbers_scaled(dataset: GroupedDataset) -> GroupedDataset:
    """The dataset with its numbers standardised over all records; indicators stay."""
    everyone = np.arange(dataset.n_records)
    scaled = standardise(dataset.features, train=everyone)
    is_number = np.array(["=" not in name for name in dataset.feature_names])
    return replace(dataset, features=np.where(is_number, scaled, dataset.features))
