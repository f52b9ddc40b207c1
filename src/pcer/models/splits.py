"""Random splits, drawn here or by a splitter of scikit-learn, and what a release says of them.

Every test of exposure needs random splits; others are refused. A release says what was
divided (records or people) and what was balanced.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcer.errors import InputError, require_at_least
from pcer.files import write_files
from pcer.metrics import BoolArray, IntArray
from pcer.models.options import Options
from pcer.release.records import StratifiedBy
from pcer.store.blocks import owned
from pcer.store.secret import SECRET_BYTES, read_secret

PERSON = "person"  # the unit of a split that keeps all records of a person together
TRAINING_STREAM, SPLIT_STREAM = range(2)  # what random numbers are for; see ``stream``
LEAST_SECRET = 2**64  # smaller random states can be guessed by trying
GUESSED = (
    "can be guessed, and with it who was in which split; leave it out, or say "
    "Options(public_data=True) if anybody may have the records."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """Splits by number, from 0, and how they were drawn."""

    train: Sequence[IntArray]  # by split the rows of its training part
    identity: dict[str, Any]  # everything that determines them, as plain JSON
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


def state_of(random_state: int | None, options: Options) -> int:
    """The state behind all random numbers; for private records one that cannot be guessed."""
    if random_state is None and not options.public_data:
        secret = options.secret or secrets.token_bytes(SECRET_BYTES)
        store = options.store
        if store is not None and not options.secret:
            kept = (
                Path(store) / "splits.secret"
            )  # the same call resumes with the same splits
            with owned(kept.parent):
                if not kept.exists():
                    write_files({kept: secret}, private=True)
                secret = read_secret(kept)
        return int.from_bytes(
            hmac.digest(secret, b"pcer splits", "sha256")[:16], "little"
        )
    state = 0 if random_state is None else random_state
    require_at_least(0, random_state=state)
    if state < LEAST_SECRET and not options.public_data:
        raise InputError(f"random_state {state} {GUESSED}", field="random_state")
    return state


def stream(random_state: int, purpose: int, split: int) -> np.random.Generator:
    """Random numbers of one split for one purpose, whatever other splits there are."""
    seed = np.random.SeedSequence(random_state, spawn_key=(purpose, split))
    return np.random.Generator(np.random.PCG64(seed))


def random_splits(
    n_splits: int,
    n_records: int,
    persons: IntArray | None,
    test_size: float,
    random_state: int,
) -> Splits:
    """Independent random splits of records or people; adding splits changes no earlier one."""
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
        identity={"test_size": test_size},
        config={"splits": "random", "test_size": test_size},
        stratified_by="nothing",
        unit=None if persons is None else PERSON,
    )


# Splitters whose splits are random, if they are shuffled; by name they stratify or keep
# groups. StratifiedGroupKFold is not among them: it moves people to balance labels.
KNOWN = (
    *("ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit"),
    *(
        "KFold",
        "RepeatedKFold",
        "StratifiedKFold",
        "RepeatedStratifiedKFold",
        "GroupKFold",
    ),
)


def given_splits(
    options: Options, classes: IntArray, persons: IntArray | None, random_state: int
) -> Splits:
    """All splits of one of scikit-learn's random splitters, ``options.cv``."""
    from sklearn import model_selection

    cv = options.cv
    kind = type(options.cv).__name__
    # exactly this class, as a subclass may do anything
    is_known = kind in KNOWN and getattr(model_selection, kind) is type(cv)
    if not is_known or not getattr(cv, "shuffle", True):
        raise InputError(
            f"cv must split at random: one of {', '.join(KNOWN)}, with shuffle=True where it has "
            f"that, not {kind}; or score other splits yourself, and use "
            "release_from_predictions.",
            field="cv",
        )
    if kind.startswith("Group") != (persons is not None):
        raise InputError(
            f"cv={kind} divides {'records' if persons is not None else 'people'}: give person_id "
            "with GroupShuffleSplit or GroupKFold(shuffle=True), and with no other splitter; or "
            "leave cv out.",
            field="person_id",
        )
    drawn = copy.deepcopy(cv)  # a splitter with a random stream must not be advanced
    if getattr(drawn, "random_state", None) is None:
        bits = stream(
            random_state, SPLIT_STREAM, 0
        ).bit_generator  # a number could be guessed
        drawn.random_state = np.random.RandomState(bits)
    elif not options.public_data:
        raise InputError(f"the random_state of cv={kind}(...) {GUESSED}", field="cv")
    n = len(classes)
    digest = hashlib.sha256()
    notes = []
    pairs = [*drawn.split(np.zeros((n, 1)), classes, persons)]
    for train, _ in pairs:
        digest.update(np.asarray(train, dtype=np.int64).tobytes() + b"|")
    if left_out := max(n - len(np.union1d(*pair)) for pair in pairs):
        notes.append(
            f"Up to {left_out:,} records are in neither part of a split; they count as held out."
        )
    if kind.endswith("KFold"):
        n_sets = int(getattr(cv, "n_repeats", 1))
        folds = f"{len(pairs) // n_sets} folds" + (
            f", drawn {n_sets} times" if n_sets > 1 else ""
        )
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
