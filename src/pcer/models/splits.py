"""Who is trained on: splits drawn here, or by a splitter of scikit-learn, and what they may claim.

Every test of an audit rests on how the splits were drawn, so a release claims no more of them than
is known: what was divided (records or people), whether by chance, and what was balanced.
"""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.release.format import SplitKind, StratifiedBy

PERSON = "person"
"""The unit of a split that keeps all records of a person together."""
TRAINING_STREAM, SPLIT_STREAM = range(2)
"""What random numbers are for; see ``stream``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """Splits by number, from 0, and what a release may say of how they were drawn."""

    train: Sequence[IntArray]  # by split the rows of its training part
    identity: dict[str, Any]  # what makes them these and no others, as plain JSON
    config: dict[str, Any]  # for training.config
    kind: SplitKind  # whether they were drawn by chance
    stratified_by: StratifiedBy | None  # what was balanced; None where that is not known
    unit: str | None  # what was divided, where that is not the record
    notes: tuple[str, ...] = ()  # sentences for the reader

    def members(self, n_records: int) -> BoolArray:
        """(split, record) who is trained on."""
        inside = np.zeros((len(self.train), n_records), dtype=bool)
        for split, rows in enumerate(self.train):
            inside[split, rows] = True
        return inside


def stream(random_state: int, purpose: int, split: int) -> np.random.Generator:
    """Random numbers of one split for one purpose, whatever other splits there are."""
    seed = np.random.SeedSequence(random_state, spawn_key=(purpose, split))
    return np.random.Generator(np.random.PCG64(seed))


def random_splits(
    n_splits: int,
    n_records: int,
    persons: IntArray | None,
    *,
    test_size: float,
    random_state: int,
) -> Splits:
    """Independent random splits of records, or of people: further ones change none before.

    Persons are (record,) numbers from 0; None where nobody has several records.
    """
    units = np.arange(n_records) if persons is None else persons
    n_units = int(units.max()) + 1
    n_test = math.ceil(test_size * n_units)
    if n_test >= n_units:
        raise InputError(
            f"test_size {test_size} leaves nobody of {n_units} to train on; make it smaller.",
            field="test_size",
        )
    train = []
    for split in range(n_splits):
        order = stream(random_state, SPLIT_STREAM, split).permutation(n_units)
        inside = np.ones(n_units, dtype=bool)
        inside[order[:n_test]] = False
        train.append(np.flatnonzero(inside[units]))
    return Splits(
        train=train,
        identity={"test_size": test_size, "random_state": random_state},
        config={"splits": "random", "test_size": test_size},
        kind="random",
        stratified_by="nothing",
        unit=None if persons is None else PERSON,
    )


KNOWN = (
    *("ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit"),
    *("KFold", "RepeatedKFold", "StratifiedKFold", "RepeatedStratifiedKFold", "GroupKFold"),
)
"""Splitters whose splits are random, if they are shuffled; by name they stratify or keep groups.

StratifiedGroupKFold is not among them: it moves people to balance labels."""


def given_splits(cv: Any, classes: IntArray, persons: IntArray | None, random_state: int) -> Splits:
    """All splits of a splitter, checked."""
    from sklearn import model_selection

    kind = type(cv).__name__
    # by its very class, as a subclass may do anything
    known = kind in KNOWN and getattr(model_selection, kind) is type(cv)
    known = known and getattr(cv, "shuffle", True)
    if not hasattr(cv, "split"):
        raise InputError(
            "cv must be a splitter of scikit-learn, such as KFold(5, shuffle=True), or "
            f"PredefinedSplit for your own, but {kind} was given; leave it out for random splits.",
            field="cv",
        )
    if known and kind.startswith("Group") != (persons is not None):
        raise InputError(
            f"cv={kind} divides {'records' if persons is not None else 'people'}: give person_id "
            "with GroupShuffleSplit or GroupKFold(shuffle=True), and with no other splitter; or "
            "leave cv out.",
            field="person_id",
        )
    drawn = copy.deepcopy(cv)  # one that keeps a stream of its own must not be moved on
    if known and getattr(drawn, "random_state", None) is None:
        drawn.random_state = int(stream(random_state, SPLIT_STREAM, 0).integers(2**31))
    with warnings.catch_warnings():  # most splitters remark that they pass over people
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        pairs = [*drawn.split(np.zeros((len(classes), 1)), classes, persons)]
    if not pairs:
        raise InputError(f"cv={kind} gives no split; let it give two or more.", field="cv")
    digest = hashlib.sha256()
    for number, (train, test) in enumerate(pairs, start=1):
        _require_parts(number, train, test, len(classes), persons)
        digest.update(np.asarray(train, dtype=np.int64).tobytes() + b"|")
    balanced: StratifiedBy = "label" if "Stratified" in kind else "nothing"
    return Splits(
        train=[train for train, _ in pairs],
        identity={"splits": digest.hexdigest()},
        config={"splits": kind},
        kind="random" if known else "other",
        stratified_by=balanced if known else None,
        unit=None if persons is None else PERSON,
        notes=tuple(_notes(pairs, len(classes), cv if known else None)),
    )


def _notes(pairs: Sequence[tuple[IntArray, IntArray]], n: int, known: Any) -> Iterator[str]:
    """What a reader must know of splits, the splitter of which is known, or None."""
    if left_out := max(n - len(np.union1d(*pair)) for pair in pairs):
        yield f"Up to {left_out:,} records are in neither part of a split; they count as held out."
    if type(known).__name__.endswith("KFold"):
        n_sets = int(getattr(known, "n_repeats", 1))
        folds = f"{len(pairs) // n_sets} folds" + (f", drawn {n_sets} times" if n_sets > 1 else "")
        yield (
            f"Cross-validation: {folds}. The test parts of one set of folds do not overlap, so its "
            "splits depend on each other: where nothing is memorised their mean varies less than "
            "that of independent splits, and errors that take them as independent are upper bounds."
        )


def _require_parts(
    number: int, train: IntArray, test: IntArray, n: int, persons: IntArray | None
) -> None:
    both = np.concatenate([train, test])
    outside = np.setdiff1d(np.arange(n), train)
    if not len(train) or not len(test) or both.min() < 0 or both.max() >= n:
        fault = f"must have a training and a test part with rows from 0 to {n - 1}; make cv for "
        fault += f"these {n:,} records"
    elif len(np.intersect1d(train, test)):
        fault = "has records in both parts; a record is trained on or held out"
    elif persons is not None and len(np.intersect1d(persons[train], persons[outside])):
        fault = "puts records of one person into both parts; use GroupShuffleSplit or "
        fault += "GroupKFold(shuffle=True), or leave cv out"
    else:
        return
    raise InputError(f"split {number} of cv {fault}.", field="cv")
