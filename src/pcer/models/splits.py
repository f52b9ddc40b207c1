"""Who is trained on: splits drawn here, or by a splitter of scikit-learn, and what they may claim.

Every test of an audit rests on how the splits were drawn: by chance, or they are refused. A release
says what was divided (records or people), and what was balanced.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.release.format import StratifiedBy

PERSON = "person"  # the unit of a split that keeps all records of a person together
TRAINING_STREAM, SPLIT_STREAM = range(2)  # what random numbers are for; see ``stream``


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """Splits by number, from 0, and what a release may say of how they were drawn."""

    train: Sequence[IntArray]  # by split the rows of its training part
    identity: dict[str, Any]  # what makes them these and no others, as plain JSON
    config: dict[str, Any]  # for training.config
    stratified_by: StratifiedBy  # what was balanced
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
    n_splits: int, n_records: int, persons: IntArray | None, test_size: float, random_state: int
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
        stratified_by="nothing",
        unit=None if persons is None else PERSON,
    )


# Splitters whose splits are random, if they are shuffled; by name they stratify or keep groups.
# StratifiedGroupKFold is not among them: it moves people to balance labels.
KNOWN = (
    *("ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit"),
    *("KFold", "RepeatedKFold", "StratifiedKFold", "RepeatedStratifiedKFold", "GroupKFold"),
)


def given_splits(cv: Any, classes: IntArray, persons: IntArray | None, random_state: int) -> Splits:
    """All splits of one of scikit-learn's random splitters."""
    from sklearn import model_selection

    kind = type(cv).__name__
    # by its very class, as a subclass may do anything
    is_known = kind in KNOWN and getattr(model_selection, kind) is type(cv)
    if not is_known or not getattr(cv, "shuffle", True):
        raise InputError(
            f"cv must divide at random, or no test could say anything: one of {', '.join(KNOWN)}, "
            f"with shuffle=True where it has that, not {kind}; or score other splits yourself, and "
            "use release_from_predictions.",
            field="cv",
        )
    if kind.startswith("Group") != (persons is not None):
        raise InputError(
            f"cv={kind} divides {'records' if persons is not None else 'people'}: give person_id "
            "with GroupShuffleSplit or GroupKFold(shuffle=True), and with no other splitter; or "
            "leave cv out.",
            field="person_id",
        )
    drawn = copy.deepcopy(cv)  # one that keeps a stream of its own must not be moved on
    if getattr(drawn, "random_state", None) is None:
        drawn.random_state = int(stream(random_state, SPLIT_STREAM, 0).integers(2**31))
    n, digest, notes = len(classes), hashlib.sha256(), []
    pairs = [*drawn.split(np.zeros((n, 1)), classes, persons)]
    for train, _ in pairs:
        digest.update(np.asarray(train, dtype=np.int64).tobytes() + b"|")
    if left_out := max(n - len(np.union1d(*pair)) for pair in pairs):
        notes.append(
            f"Up to {left_out:,} records are in neither part of a split; they count as held out."
        )
    if kind.endswith("KFold"):
        n_sets = int(getattr(cv, "n_repeats", 1))
        folds = f"{len(pairs) // n_sets} folds" + (f", drawn {n_sets} times" if n_sets > 1 else "")
        notes.append(
            f"Cross-validation: {folds}. The test parts of one set of folds do not overlap, so its "
            "splits depend on each other: where nothing is memorised their mean varies less than "
            "that of independent splits, and errors that take them as independent are upper bounds."
        )
    return Splits(
        train=[train for train, _ in pairs],
        identity={"splits": digest.hexdigest()},
        config={"splits": kind},
        stratified_by="label" if "Stratified" in kind else "nothing",
        unit=None if persons is None else PERSON,
        notes=tuple(notes),
    )
