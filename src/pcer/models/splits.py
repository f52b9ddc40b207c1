"""Who is trained on: splits drawn here, or by a splitter of scikit-learn, and what they may claim.

Every test of an audit rests on how the splits were drawn, so a release claims no more of them than
is known: what was divided (records or people), whether by chance, and what was balanced.
"""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.release.format import SplitKind, StratifiedBy

PERSON = "person"
"""The unit of a split that keeps all records of a person together."""
TRAINING_STREAM, SPLIT_STREAM = range(2)
"""What random numbers are for; see ``stream``."""


@dataclass(frozen=True, kw_only=True)
class SplitClaim:
    """What a release may say of how its splits were drawn.

    Attributes:
        kind: whether by chance.
        stratified_by: what was balanced; None where that is not known.
        unit: what was divided, where that is not the record.
        notes: sentences for the reader.
        config: for ``training.config``.
    """

    kind: SplitKind
    config: dict[str, Any]
    stratified_by: StratifiedBy | None = None
    unit: str | None = None
    notes: tuple[str, ...] = ()


class Splits(Protocol):
    """Splits by number, from 0."""

    @property
    def claim(self) -> SplitClaim:
        """What may be said of them."""

    @property
    def identity(self) -> dict[str, Any]:
        """What makes them these and no others, as plain JSON."""

    @property
    def most(self) -> float:
        """How many there are; infinite where there are as many as one likes."""

    def train(self, split: int) -> IntArray:
        """Rows of a split's training part."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomSplits:
    """Independent random splits, each by its number alone: further ones change none before.

    Attributes:
        units: (record,) what is divided: each record, or its person, numbered from 0.
        is_by_person: which of the two.
        test_size: share of the units in the test part, rounded up.
        random_state: of the draws.
    """

    units: IntArray
    is_by_person: bool
    test_size: float
    random_state: int
    most: float = math.inf

    @property
    def claim(self) -> SplitClaim:
        """They are random, and balanced on nothing."""
        return SplitClaim(
            kind="random",
            stratified_by="nothing",
            unit=PERSON if self.is_by_person else None,
            config={"splits": "random", "test_size": self.test_size},
        )

    @property
    def identity(self) -> dict[str, Any]:
        """How they are drawn; whom the units are is the data's own matter."""
        return {"test_size": self.test_size, "random_state": self.random_state}

    def train(self, split: int) -> IntArray:
        """Rows of a split's training part."""
        n_units = int(self.units.max()) + 1
        n_test = math.ceil(self.test_size * n_units)
        order = stream(self.random_state, SPLIT_STREAM, split).permutation(n_units)
        inside = np.ones(n_units, dtype=bool)
        inside[order[:n_test]] = False
        return np.flatnonzero(inside[self.units])


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenSplits:
    """The splits of a splitter, all drawn at once."""

    trained: tuple[IntArray, ...]
    claim: SplitClaim

    @property
    def identity(self) -> dict[str, Any]:
        """A digest of who is in training, split by split."""
        digest = hashlib.sha256()
        for rows in self.trained:
            digest.update(np.asarray(rows, dtype=np.int64).tobytes() + b"|")
        return {"splits": digest.hexdigest()}

    @property
    def most(self) -> float:
        """As many as the splitter gave."""
        return len(self.trained)

    def train(self, split: int) -> IntArray:
        """Rows of a split's training part."""
        return self.trained[split]


def stream(random_state: int, purpose: int, split: int) -> np.random.Generator:
    """Random numbers of one split for one purpose, whatever other splits there are."""
    seed = np.random.SeedSequence(random_state, spawn_key=(purpose, split))
    return np.random.Generator(np.random.PCG64(seed))


def members(splits: Splits, n_splits: int, n_records: int) -> BoolArray:
    """(split, record) who is trained on."""
    inside = np.zeros((n_splits, n_records), dtype=bool)
    for split in range(n_splits):
        inside[split, splits.train(split)] = True
    return inside


def effective_units(persons: IntArray, group: IntArray, names: Sequence[str]) -> dict[str, float]:
    """By group how many independent people its records are worth: (sum m)^2 / sum m^2, by Kish.

    >>> effective_units(np.array([0, 0, 1, 2]), np.array([0, 0, 0, 1]), ["a", "b"])
    {'a': 1.8, 'b': 1.0}
    """
    sizes = [np.bincount(persons[group == k]) for k in range(len(names))]
    return {
        name: float(m.sum() ** 2 / (m**2).sum())
        for name, m in zip(names, sizes, strict=True)
        if m.sum()
    }


def random_splits(
    n_records: int, persons: IntArray | None, *, test_size: float, random_state: int
) -> RandomSplits:
    """Splits of the records, or of the people who have several, drawn here."""
    if not 0 < test_size < 1:
        raise InputError(
            f"test_size must lie between 0 and 1, but {test_size!r} was given; 0.3 holds out 30 % "
            "of the records."
        )
    units = np.arange(n_records) if persons is None else persons
    n_units = int(units.max()) + 1
    if math.ceil(test_size * n_units) >= n_units:
        raise InputError(
            f"test_size {test_size} leaves nobody of {n_units} to train on; make it smaller."
        )
    return RandomSplits(
        units=units,
        is_by_person=persons is not None,
        test_size=test_size,
        random_state=random_state,
    )


def given_splits(
    cv: Any, classes: IntArray, persons: IntArray | None, *, random_state: int
) -> GivenSplits:
    """All splits of a splitter, or of an iterable of (train, test) rows, checked.

    Args:
        cv: the splitter; without a ``random_state`` of its own it is given one.
        classes: (record,) labels as numbers.
        persons: (record,) who has the record, numbered from 0; None where nobody has several.
        random_state: of what the splitter leaves to chance.
    """
    known = _known(cv)
    _require_fitting(cv, known, persons)
    pairs = _pairs(cv, known, classes, persons, random_state)
    if not pairs:
        raise InputError(f"cv={_name(cv)} gives no split; let it give two or more.")
    n, left_out = len(classes), 0
    for number, (train, test) in enumerate(pairs, start=1):
        _require_parts(number, train, test, n, persons)
        left_out = max(left_out, n - len(np.union1d(train, test)))
    claim = _claim(cv, known, persons is not None, len(pairs), left_out)
    return GivenSplits(trained=tuple(train for train, _ in pairs), claim=claim)


class _Known(NamedTuple):
    """A splitter of scikit-learn whose splits are known to be random, if they are shuffled."""

    stratified_by: StratifiedBy
    by_person: bool = False
    in_folds: bool = False


KNOWN = {
    "ShuffleSplit": _Known("nothing"),
    "StratifiedShuffleSplit": _Known("label"),
    "GroupShuffleSplit": _Known("nothing", by_person=True),
    "KFold": _Known("nothing", in_folds=True),
    "RepeatedKFold": _Known("nothing", in_folds=True),
    "StratifiedKFold": _Known("label", in_folds=True),
    "RepeatedStratifiedKFold": _Known("label", in_folds=True),
    "GroupKFold": _Known("nothing", by_person=True, in_folds=True),
}
"""By class name. StratifiedGroupKFold is not among them: it moves people to balance labels."""


def _known(cv: Any) -> _Known | None:
    """What is known of a splitter: by its very class, as a subclass may do anything."""
    from sklearn import model_selection

    name = type(cv).__name__
    ours = getattr(model_selection, name, None) is type(cv)
    return KNOWN.get(name) if ours and getattr(cv, "shuffle", True) else None


def _require_fitting(cv: Any, known: _Known | None, persons: IntArray | None) -> None:
    if isinstance(cv, int):
        raise InputError(
            f"cv={cv} would be folds in the order of the rows, from which nothing can be tested; "
            f"give n_splits={cv}, or a splitter such as KFold({cv}, shuffle=True)."
        )
    if not hasattr(cv, "split") and not isinstance(cv, Iterable):
        raise InputError(
            f"cv must be a splitter of scikit-learn or pairs of (train, test) rows, but "
            f"{type(cv).__name__} was given; leave it out for random splits."
        )
    if known is not None and known.by_person and persons is None:
        raise InputError(f"cv={_name(cv)} keeps people together; say with person_id who is who.")
    if known is not None and not known.by_person and persons is not None:
        raise InputError(
            f"cv={_name(cv)} divides records, and person_id asks that a person's records stay "
            "together; use GroupShuffleSplit or GroupKFold(shuffle=True), or leave cv out."
        )


def _pairs(
    cv: Any, known: _Known | None, classes: IntArray, persons: IntArray | None, random_state: int
) -> list[tuple[IntArray, IntArray]]:
    if not hasattr(cv, "split"):
        return [(_rows(train), _rows(test)) for train, test in cv]
    drawn = copy.deepcopy(cv)  # one that keeps a stream of its own must not be moved on
    if known is not None and getattr(drawn, "random_state", None) is None:
        drawn.random_state = int(stream(random_state, SPLIT_STREAM, 0).integers(2**31))
    with warnings.catch_warnings():  # most splitters remark that they pass over people
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        found = drawn.split(np.zeros((len(classes), 1)), classes, persons)
        return [(_rows(train), _rows(test)) for train, test in found]


def _rows(rows: Any) -> IntArray:
    array = np.asarray(rows)
    return np.flatnonzero(array) if array.dtype == np.bool_ else array.astype(np.int64)


def _require_parts(
    number: int, train: IntArray, test: IntArray, n: int, persons: IntArray | None
) -> None:
    both = np.concatenate([train, test])
    if not len(train) or not len(test) or both.min() < 0 or both.max() >= n:
        raise InputError(
            f"split {number} of cv must have a training and a test part with rows from 0 to "
            f"{n - 1}; make cv for these {n:,} records."
        )
    if len(np.intersect1d(train, test)):
        raise InputError(
            f"split {number} of cv has records in both parts; a record is trained on or held out."
        )
    if persons is not None:
        outside = np.setdiff1d(np.arange(n), train)
        if len(np.intersect1d(persons[train], persons[outside])):
            raise InputError(
                f"split {number} of cv puts records of one person into both parts; use "
                "GroupShuffleSplit or GroupKFold(shuffle=True), or leave cv out."
            )


def _claim(
    cv: Any, known: _Known | None, by_person: bool, n_splits: int, left_out: int
) -> SplitClaim:
    notes = [_left_out_note(left_out)] if left_out else []
    unit, config = PERSON if by_person else None, {"splits": _name(cv)}
    if known is None:
        return SplitClaim(kind="other", unit=unit, config=config, notes=tuple(notes))
    if known.in_folds:
        n_sets = int(getattr(cv, "n_repeats", 1))
        notes.append(_fold_note(n_splits // n_sets, n_sets))
    return SplitClaim(
        kind="random",
        stratified_by=known.stratified_by,
        unit=unit,
        config=config,
        notes=tuple(notes),
    )


def _fold_note(n_folds: int, n_sets: int) -> str:
    drawn = f"{n_folds} folds" + (f", drawn {n_sets} times" if n_sets > 1 else "")
    return (
        f"Cross-validation: {drawn}. The test parts of one set of folds do not overlap, so its "
        "splits depend on each other: where nothing is memorised their mean varies less than that "
        "of independent splits, and errors that take them as independent are upper bounds."
    )


def _left_out_note(n: int) -> str:
    return f"Up to {n:,} records are in neither part of a split; they count as held out."


def _name(cv: Any) -> str:
    return type(cv).__name__ if hasattr(cv, "split") else "an iterable of rows"
