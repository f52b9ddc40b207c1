"""Which random splits are there: drawn here, or by a splitter of scikit-learn?

Every test of exposure needs random splits; others are refused. A release says what was
divided (records or people) and what was balanced. ``estimator`` calls this module.

To add a splitter of scikit-learn: its name in KNOWN, if all its splits are random.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pcer.errors import InputError, require_at_least, require_open_unit
from pcer.files import write_files
from pcer.metrics import DEFAULT_SPLITS, BoolArray, IntArray
from pcer.release.disclosure import Disclosure
from pcer.release.population import Attribute
from pcer.release.records import StratifiedBy
from pcer.store.blocks import owned
from pcer.store.secret import SECRET_BYTES, is_random_number, read_secret

TEST_SIZE = 0.3
NO_COIN = "people have several records, and made-up groups are drawn record by record"
PERSON = "person"  # the unit of a split that keeps all records of a person together
# What random numbers are for; see ``stream``.
TRAINING_STREAM, SPLIT_STREAM, APART_STREAM, SCORED_STREAM = range(4)
# Smaller random states can be guessed by trying, and larger ones that have a pattern.
LEAST_SECRET = 2**64
GUESSED = (
    "can be guessed, and with it who was in which split; leave it out, or say "
    "disclosure=pcer.Disclosure(public_data=True) if anybody may have the records."
)

# Splitters whose splits are random, if they are shuffled; by name they stratify or keep
# groups. StratifiedGroupKFold is not among them: it moves people to balance labels.
KNOWN = (
    "ShuffleSplit",
    "StratifiedShuffleSplit",
    "GroupShuffleSplit",
    "KFold",
    "RepeatedKFold",
    "StratifiedKFold",
    "RepeatedStratifiedKFold",
    "GroupKFold",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitPlan:
    """How the splits are drawn."""

    n_splits: int = DEFAULT_SPLITS
    test_size: float = TEST_SIZE  # share of records, or people, that is held out
    cv: Any = None  # a splitter of scikit-learn, instead
    random_state: int | None = None

    def __post_init__(self) -> None:
        require_at_least(1, n_splits=self.n_splits)
        require_open_unit(test_size=self.test_size)


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


def state_of(
    random_state: int | None, disclosure: Disclosure, store: Path | None
) -> int:
    """The state behind all random numbers; of private records one nobody can guess.

    A store keeps its own secret, drawn once: the same call finds the same splits.
    """
    if random_state is None and not disclosure.public_data:
        secret = disclosure.secret
        if not secret and store is not None:
            path = store / "splits.secret"
            with owned(store):
                if not path.exists():
                    write_files({path: secrets.token_bytes(SECRET_BYTES)}, private=True)
                secret = read_secret(path)
        if not secret:
            secret = secrets.token_bytes(SECRET_BYTES)
        digest = hmac.digest(secret, b"pcer splits", "sha256")
        return int.from_bytes(digest[:16], "little")
    state = 0 if random_state is None else random_state
    require_at_least(0, random_state=state)
    can_be_guessed = state < LEAST_SECRET or not is_random_number(state)
    if can_be_guessed and not disclosure.public_data:
        raise InputError(f"random_state {state} {GUESSED}", field="random_state")
    return state


def stream(random_state: int, purpose: int, split: int) -> np.random.Generator:
    """Random numbers of one split for one purpose, whatever other splits there are."""
    seed = np.random.SeedSequence(random_state, spawn_key=(purpose, split))
    return np.random.Generator(np.random.PCG64(seed))


def splits_of(
    plan: SplitPlan,
    classes: IntArray,
    persons: IntArray | None,
    random_state: int,
    *,
    is_public: bool,
    is_apart: BoolArray | None = None,
) -> Splits:
    """The splits of records with these labels and owners.

    Those who are in no table, ``is_apart``, are divided apart, so that no total of the
    tables tells of them; a person with a record in a table is not.
    """
    outside = np.zeros(len(classes), dtype=bool)
    if is_apart is not None and not is_public:
        outside = is_apart
    if persons is not None:
        outside = ~np.isin(persons, persons[~outside])
    inside = np.flatnonzero(~outside)
    owners = None
    if persons is not None:
        owners = np.unique(persons[inside], return_inverse=True)[1]
    if plan.cv is None:
        splits = random_splits(
            plan.n_splits, len(inside), owners, plan.test_size, random_state
        )
    else:
        splits = _given_splits(
            plan.cv, classes[inside], owners, random_state, is_public=is_public
        )
    if not outside.any():
        return splits
    return _with_others(splits, inside, np.flatnonzero(outside), persons, random_state)


def _with_others(
    splits: Splits,
    inside: IntArray,
    apart: IntArray,
    persons: IntArray | None,
    random_state: int,
) -> Splits:
    """The splits with the records ``apart``: a coin of each person decides."""
    owners = apart if persons is None else persons[apart]
    units, unit = np.unique(owners, return_inverse=True)
    train = []
    for split, rows in enumerate(splits.train):
        share = len(rows) / len(inside)
        coins = stream(random_state, APART_STREAM, split).random(len(units)) < share
        train.append(np.sort(np.concatenate([inside[rows], apart[coins[unit]]])))
    digest = hashlib.sha256(apart.astype(np.int64).tobytes()).hexdigest()
    return replace(splits, train=train, identity={**splits.identity, "apart": digest})


def random_splits(
    n_splits: int,
    n_records: int,
    persons: IntArray | None,
    test_size: float,
    random_state: int,
) -> Splits:
    """Independent random splits; drawing more of them changes no earlier one."""
    units = np.arange(n_records) if persons is None else persons
    n_units = int(units.max()) + 1
    n_test = math.ceil(test_size * n_units)
    if n_test >= n_units:
        raise InputError(
            f"test_size {test_size} leaves nobody of {n_units} to train on; make it "
            "smaller.",
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


def are_divided(persons: IntArray, part: IntArray) -> bool:
    """Whether people were divided, not records: nobody has records in both parts."""
    n_sides = np.unique([persons, part], axis=1).shape[1]
    return bool(len(np.unique(persons)) == n_sides)


def effective_people(attribute: Attribute, persons: IntArray) -> dict[str, float]:
    """Kish's effective number of people by group: (sum m)^2 / sum m^2.

    m is how many records each of them has in the group.
    """
    effective = {}
    for group, name in enumerate(attribute.groups):
        m = np.bincount(persons[attribute.codes == group])
        # With its digits the number would tell of one person with many records.
        effective[name] = float(max(1, round(m.sum() ** 2 / (m**2).sum())))
    return effective


def _given_splits(
    cv: Any,
    classes: IntArray,
    persons: IntArray | None,
    random_state: int,
    *,
    is_public: bool,
) -> Splits:
    """All splits of ``cv``, one of scikit-learn's random splitters."""
    kind = type(cv).__name__
    _require_random(cv)
    if kind.startswith("Group") != (persons is not None):
        divided = "people" if persons is None else "records"
        raise InputError(
            f"cv={kind} divides {divided}: give person_id with GroupShuffleSplit or "
            "GroupKFold(shuffle=True), and with no other splitter; or leave cv out.",
            field="person_id",
        )
    splitter = copy.deepcopy(cv)  # one with a random stream must not be advanced
    if getattr(splitter, "random_state", None) is None:
        # A stream's bits, as a number could be guessed.
        bits = stream(random_state, SPLIT_STREAM, 0).bit_generator
        splitter.random_state = np.random.RandomState(bits)
    elif not is_public:
        raise InputError(f"the random_state of cv={kind}(...) {GUESSED}", field="cv")

    pairs = [*splitter.split(np.zeros((len(classes), 1)), classes, persons)]
    digest = hashlib.sha256()
    for train, _ in pairs:
        digest.update(np.asarray(train, dtype=np.int64).tobytes() + b"|")
    return Splits(
        train=[train for train, _ in pairs],
        identity={"splits": digest.hexdigest()},
        config={"splits": kind},
        stratified_by="label" if "Stratified" in kind else "nothing",
        unit=None if persons is None else PERSON,
        notes=_notes(cv, pairs, len(classes)),
    )


def _require_random(cv: Any) -> None:
    from sklearn import model_selection

    kind = type(cv).__name__
    # exactly this class, as a subclass may do anything
    is_known = kind in KNOWN and getattr(model_selection, kind) is type(cv)
    if not is_known or not getattr(cv, "shuffle", True):
        raise InputError(
            f"cv must split at random: one of {', '.join(KNOWN)}, with shuffle=True "
            f"where it has that, not {kind}; or score other splits yourself, and use "
            "release_from_predictions.",
            field="cv",
        )


def _notes(
    cv: Any, pairs: Sequence[tuple[IntArray, IntArray]], n_records: int
) -> tuple[str, ...]:
    """What a reader must know of the splits."""
    notes = []
    left_out = max(n_records - len(np.union1d(*pair)) for pair in pairs)
    if left_out:
        notes.append(
            f"Up to {left_out:,} records are in neither part of a split; they count as "
            "held out."
        )
    if type(cv).__name__.endswith("KFold"):
        n_sets = int(getattr(cv, "n_repeats", 1))
        folds = f"{len(pairs) // n_sets} folds"
        if n_sets > 1:
            folds += f", drawn {n_sets} times"
        notes.append(
            f"Cross-validation: {folds}. The test parts of one set of folds do not "
            "overlap, so its splits depend on each other: where nothing is memorised "
            "their mean varies less than that of independent splits, and errors that "
            "take them as independent are upper bounds."
        )
    return tuple(notes)
