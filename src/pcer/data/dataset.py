"""What does training need of records, and which of them does a seed train on?

Benchmarks (``pcer.data.task``) and users' tables (``pcer.data.own_table``) become a
``GroupedDataset``; ``pcer.sweep`` splits and trains it. To add what training must know
of a record: a field, and its check in ``_faults``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError, require_at_least
from pcer.metrics import BoolArray, IntArray
from pcer.release.records import Outcome, require_phrases

Features = npt.NDArray[np.float32]
UNKNOWN_GROUP = -1
# "pcersplt": keeps split draws apart from other uses of a seed.
SPLIT_KEY = 0x70636572_73706C74
HELD_OUT = 0.3  # share of the records that a split does not train on
APART = 2  # in place of a label, for records that are in no table


@dataclass(frozen=True, kw_only=True, eq=False)
class ProtectedAttribute:
    """Which group each record belongs to.

    Args:
        name: what the attribute is called, such as ``sex``.
        group_names: at least two names; the order is the order of every array over
            groups.
        codes: position of each record's group in ``group_names``; -1 where it is not
            known.
        declared: those of the names that the data's owner has given, which are no
            person's words: they stay where small groups are joined.
    """

    name: str
    group_names: tuple[str, ...]
    codes: IntArray
    declared: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", _frozen(self.codes, np.int64))
        if len(set(self.group_names)) < max(2, len(self.group_names)):
            raise InputError(
                f"attribute {self.name!r} must have two or more different group names, "
                f"but has {list(self.group_names)}; choose an attribute that divides "
                "the records."
            )
        if not np.isin(self.codes, range(-1, len(self.group_names))).all():
            raise InputError(
                f"attribute {self.name!r}: codes must be positions in group_names."
            )

    @property
    def n_missing(self) -> int:
        """Records without a known group; they are trained on, in no table."""
        return int((self.codes == UNKNOWN_GROUP).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedDataset:
    """Everything a trainer needs, checked once; the arrays are read-only.

    Args:
        name: short name, goes into the release.
        features: shape (records, features); NaN is a missing value, see
            ``standardise``.
        feature_names: one per column of ``features``.
        labels: 0 or 1 per record.
        attributes: one or several divisions of the records into groups.
        outcome: whether being predicted positive helps or harms a person.
        positive_label: what label 1 means, in words.
        people: whom the records are about, a plural noun; ``positive_means`` says what
            of them.
        record_ids: strictly increasing; the split depends on these and the labels
            alone.
        trained: on what, as it follows "A network trained": "on the COMPAS data".
        membership_means: what being in it says of a person: "you were arrested in
            2013".
        notes: what readers must know; they travel into every release.
        public: whether the records are public. Only then may a release hold plain
            digests and cells of a few people.
    """

    name: str
    features: Features
    feature_names: tuple[str, ...]
    labels: IntArray
    attributes: tuple[ProtectedAttribute, ...]
    outcome: Outcome
    positive_label: str
    record_ids: IntArray
    people: str | None = None
    positive_means: str | None = None
    trained: str | None = None
    membership_means: str | None = None
    notes: tuple[str, ...] = ()
    public: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _frozen(self.features, np.float32))
        object.__setattr__(self, "labels", _frozen(self.labels, np.int64))
        object.__setattr__(self, "record_ids", _frozen(self.record_ids, np.int64))
        for fault in _faults(self):
            raise InputError(f"dataset {self.name!r}: {fault}.")
        require_phrases(
            people=self.people,
            positive_means=self.positive_means,
            membership_means=self.membership_means,
        )

    def is_apart(self, attributes: Sequence[str] | None = None) -> BoolArray:
        """(record,) whether a private record lacks an attribute: all, or those named.

        Public records are in the tables of all attributes that they have.
        """
        chosen = self.attributes
        if attributes is not None:
            chosen = tuple(map(self.attribute, attributes))
        lacks = [attribute.codes == UNKNOWN_GROUP for attribute in chosen]
        return np.asarray(np.any(lacks, axis=0)) & (not self.public)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.labels.size)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ids, labels, groups and features with their names.

        Numbers enter as little-endian bytes, so that the digest is the same on every
        machine for the same values. Notes do not enter. Who knows all records but one
        could guess the last from it, so it stays with the owner, who publishes
        ``published_digest``.
        """
        plain = np.where(np.isnan(self.features), np.float32(np.nan), self.features)
        parts = [
            repr((self.features.shape, self.feature_names)).encode(),
            self.record_ids.astype("<i8").tobytes(),
            self.labels.astype("u1").tobytes(),
        ]
        for attribute in self.attributes:
            parts.append(repr((attribute.name, attribute.group_names)).encode())
            parts.append(attribute.codes.astype("<i8").tobytes())
        parts.append((plain + np.float32(0)).astype("<f4").tobytes())  # -0 becomes 0
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def published_digest(self, secret: bytes) -> str:
        """The digest that a release may hold: keyed with a secret, if there is one."""
        if not secret:
            return f"sha256:{self.digest}"
        return f"hmac-sha256:{_keyed(secret, 'data', self.digest.encode())}"

    def attribute(self, name: str) -> ProtectedAttribute:
        """The protected attribute of that name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        names = ", ".join(attribute.name for attribute in self.attributes)
        raise InputError(
            f"dataset {self.name!r} has no attribute {name!r}; choose one of: {names}."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Which records are trained on, and which are held out."""

    train: IntArray  # positions of the records, increasing
    test: IntArray  # of all others
    id: str  # the split's name


def split(
    dataset: GroupedDataset,
    *,
    seed: int,
    secret: bytes = b"",
    attributes: Sequence[str] | None = None,
) -> Split:
    """Divide the records 70/30 at random within each label, alike on every machine.

    Every record draws one 64-bit number from PCG64 seeded with (``SPLIT_KEY``,
    ``seed``, label), in order of record id; the 70% of a label with the smallest
    numbers (halves rounded up) train. Only the raw stream of the bit generator is used,
    which numpy keeps fixed across versions.

    Private records that lack one of the ``attributes`` (all of them, unless named) are
    in no table. They are divided apart, so that no total of the tables tells of them:
    70% train whatever their labels, but never all or none; of a single one the secret
    tosses a coin, the same for every seed.

    Without a secret, anyone who knows the order of the records and their labels can
    repeat the draw. A secret enters the draw and the split's name, which then reveal
    nothing.

    >>> from pcer.data import load
    >>> compas = load("compas")
    >>> chosen = split(compas, seed=0)
    >>> chosen.train.size, chosen.test.size
    (4320, 1852)
    """
    require_at_least(0, seed=seed)
    secret_words = []
    if secret:
        secret_key = bytes.fromhex(_keyed(secret, "split", b""))
        secret_words = np.frombuffer(secret_key, "<u8").tolist()
    is_train = np.zeros(dataset.n_records, dtype=bool)
    is_apart = dataset.is_apart(attributes)
    for label in (0, 1):
        members = np.flatnonzero((dataset.labels == label) & ~is_apart)
        n_train = _n_trained(members.size)
        key = (SPLIT_KEY, seed, label, *secret_words)
        is_train[draw(members, n_train, key=key)] = True
    apart = np.flatnonzero(is_apart)
    n_train = min(max(_n_trained(apart.size), 1), apart.size - 1)
    if apart.size == 1:
        coin = draw(np.arange(10), 1, key=(SPLIT_KEY, APART, *secret_words))
        n_train = int(coin[0] < 7)
    if apart.size:
        key = (SPLIT_KEY, seed, APART, *secret_words)
        is_train[draw(apart, n_train, key=key)] = True
    train = np.flatnonzero(is_train)
    test = np.flatnonzero(~is_train)
    # A name that is the same for the same records in training and in test.
    train_ids = dataset.record_ids[train].astype("<i8").tobytes()
    test_ids = dataset.record_ids[test].astype("<i8").tobytes()
    both = train_ids + b"|" + test_ids
    name = hashlib.sha256(both).hexdigest()
    if secret:
        name = _keyed(secret, "split id", both)
    return Split(train=train, test=test, id=name[:16])


def _n_trained(n_records: int) -> int:
    """70% of them, halves rounded up."""
    return (7 * n_records + 5) // 10


def draw(items: IntArray, n: int, *, key: tuple[int, ...]) -> IntArray:
    """The ``n`` items with the smallest random numbers, in their order in ``items``."""
    numbers = np.random.PCG64(np.random.SeedSequence(key)).random_raw(items.size)
    return items[np.sort(np.argsort(numbers, kind="stable")[:n])]


def standardise(features: Features, *, train: IntArray) -> Features:
    """Scale every column to mean 0 and standard deviation 1 over training records.

    | column | becomes |
    |---|---|
    | missing value (NaN) | 0, the training mean |
    | constant among the training records | difference from that constant |
    | never known among the training records | 0 |

    Args:
        features: shape (records, features).
        train: positions of the training records.
    """
    fitted = features[train].astype(np.float64)
    is_known = ~np.isnan(fitted)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    mean = np.where(is_known, fitted, 0).sum(axis=0) / n_known
    variance = np.square(np.where(is_known, fitted - mean, 0)).sum(axis=0) / n_known
    scale = np.where(variance > 0, np.sqrt(variance), 1)
    never_known = ~is_known.any(axis=0)
    scaled = (features.astype(np.float64) - mean) / scale
    return np.where(np.isnan(scaled) | never_known, 0, scaled).astype(np.float32)


def _frozen(values: npt.NDArray[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    array = np.array(values, dtype=kind, order="C")
    array.flags.writeable = False
    return array


def _faults(dataset: GroupedDataset) -> Iterator[str]:
    """What keeps a dataset from being trained on."""
    shape = (dataset.n_records, len(dataset.feature_names))
    if dataset.features.shape != shape:
        yield f"features must have shape {shape}, but have {dataset.features.shape}"
    if dataset.n_records == 0:
        yield "there are no records; check the filter or the file"
    if set(np.unique(dataset.labels)) != {0, 1}:
        yield "labels must be 0 and 1, and both must occur"
    ids = dataset.record_ids
    if ids.shape != dataset.labels.shape or not (np.diff(ids) > 0).all():
        yield "record_ids must be strictly increasing, one per record"
    if np.isinf(dataset.features).any():
        yield "features must be finite or NaN"
    yield from _attribute_faults(dataset)


def _attribute_faults(dataset: GroupedDataset) -> Iterator[str]:
    if not dataset.attributes:
        yield "at least one protected attribute is needed"
    for attribute in dataset.attributes:
        if attribute.codes.shape != dataset.labels.shape:
            yield f"attribute {attribute.name!r} must have one code per record"


def _keyed(secret: bytes, purpose: str, content: bytes) -> str:
    """HMAC-SHA256 for one purpose; without the secret it reveals nothing."""
    message = f"pcer {purpose} ".encode() + content
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
