"""What goes into training and what comes out: the data, the models, the blocks, the predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.train.accounting import Budget
from pcer.train.config import NO_DP, TrainConfig
from pcer.train.streams import Purpose, stream

Float32Array = NDArray[np.float32]
StepCounts = NDArray[np.signedinteger[Any]]  # (training record, norm bin) steps in each bin


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Records, labels and one random split per seed, checked; make it with ``of``.

    Attributes:
        features: (record, feature), finite or, where that was allowed, NaN for a missing value.
        labels: (record,), 0 or 1.
        train_rows: for each seed the rows of its training records, ascending; equally many each.
    """

    features: Float32Array
    labels: Float32Array
    train_rows: Mapping[int, IntArray]

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        train_rows: Mapping[int, ArrayLike],
        *,
        allow_missing: bool = False,
    ) -> TrainingData:
        """Convert and check once, where data enters.

        With ``allow_missing``, NaN is a missing value, which standardising sets to the mean.
        """
        with np.errstate(over="ignore"):  # what is too large for float32 is refused as infinite
            table = np.array(features, dtype=np.float32, order="C")
        target = np.asarray(labels)
        if table.ndim != 2 or not table.size:
            raise InputError(
                f"features must be a table (record, feature), but its shape is {table.shape}."
            )
        if target.shape != (len(table),) or not np.isin(target, (0, 1)).all():
            raise InputError(
                f"labels must hold one 0 or 1 for each of the {len(table)} records, but its shape "
                f"is {target.shape} and its values start with {target.ravel()[:5].tolist()}."
            )
        broken = np.isinf(table) if allow_missing else ~np.isfinite(table)
        if broken.any():
            rows, columns = (np.flatnonzero(broken.any(axis=axis)) for axis in (1, 0))
            allowed = ", or NaN for a missing value" if allow_missing else ""
            raise InputError(
                f"features must be finite and fit float32{allowed}, but {rows.size} records are "
                f"not (the first is record {rows[0]}), in {columns.size} columns (the first is "
                f"column {columns[0]}); drop these records or fill the values in."
            )
        splits = {int(s): np.sort(np.asarray(r, dtype=np.int64)) for s, r in train_rows.items()}
        _check_rows(splits, len(table))
        return cls(features=table, labels=target.astype(np.float32), train_rows=splits)

    @property
    def n_records(self) -> int:
        """Training and test records together."""
        return len(self.features)

    @property
    def n_train(self) -> int:
        """Training records of every seed."""
        return len(next(iter(self.train_rows.values())))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that have a split, in the order given."""
        return tuple(self.train_rows)

    @property
    def member(self) -> BoolArray:
        """(seed, record), whether the record is a training record of that seed."""
        member = np.zeros((len(self.train_rows), self.n_records), dtype=np.bool_)
        for index, rows in enumerate(self.train_rows.values()):
            member[index, rows] = True
        return member

    def only(self, seeds: Iterable[int]) -> TrainingData:
        """The records, with the splits of some seeds alone."""
        rows = {seed: self.train_rows[seed] for seed in seeds}
        return TrainingData(features=self.features, labels=self.labels, train_rows=rows)


@dataclass(frozen=True)
class Model:
    """One model to train: its seed, its budget and the noise that keeps it."""

    seed: int
    epsilon: float
    noise_multiplier: float

    @property
    def is_private(self) -> bool:
        """Whether gradients are clipped and noised."""
        return self.epsilon != NO_DP

    def stream(self, purpose: Purpose, secret: bytes) -> np.random.Philox:
        """The bit generator of this model for one purpose."""
        return stream(seed=self.seed, epsilon=self.epsilon, purpose=purpose, secret=secret)


@dataclass(frozen=True)
class BlockResult:
    """What a block of models gives: logits on all records, and what each person spent.

    Receipts (model, training record) are in the order of the split's rows, infinite without
    privacy, and None where nobody counted.
    """

    models: tuple[Model, ...]
    logits: Float32Array  # (model, record)
    receipts: Float32Array | None = None


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What the trained models say about every record, and which records each was trained on.

    Attributes:
        budgets: the budgets, with the noise used and the epsilon spent.
        seeds: the seeds.
        logits: (budget, seed, record), float32; the model predicts 1 from 0 on.
        member: (seed, record), whether the record was in the training split.
        receipts: (budget, seed, training record), as in ``BlockResult``; None where nobody counted.
    """

    budgets: tuple[Budget, ...]
    seeds: tuple[int, ...]
    logits: Float32Array
    member: BoolArray
    receipts: Float32Array | None = None


def plan_models(budgets: Sequence[Budget], seeds: Sequence[int]) -> list[Model]:
    """One model for each budget and seed; seed by seed, so that a block holds few splits."""
    return [Model(s, b.epsilon, b.noise_multiplier) for s in seeds for b in budgets]


def cut_blocks(models: Sequence[Model], *, block_size: int) -> tuple[tuple[Model, ...], ...]:
    """Models in their order, cut into as few blocks as the size allows, all about equal."""
    n_blocks = -(-len(models) // block_size)
    cuts = [len(models) * i // max(1, n_blocks) for i in range(n_blocks + 1)]
    return tuple(tuple(models[a:b]) for a, b in pairwise(cuts))


def require_sound(models: Sequence[Model], sound: BoolArray, config: TrainConfig) -> None:
    """Raise InputError, naming a model, unless all are sound: have finite weights and logits."""
    if sound.all():
        return
    diverged = [model for model, is_sound in zip(models, sound, strict=True) if not is_sound]
    first, others = diverged[0], f" and {len(diverged) - 1} more" * (len(diverged) > 1)
    budget = f"at epsilon {first.epsilon:g}" if first.is_private else "without privacy"
    raise InputError(
        f"The training of seed {first.seed} {budget}{others} diverged: weights or predictions are "
        f"no longer finite numbers, and none are kept; lower learning_rate (now "
        f"{config.learning_rate:g}), or scale the features."
    )


def gather_predictions(
    results: Iterable[BlockResult],
    *,
    budgets: Sequence[Budget],
    seeds: Sequence[int],
    member: BoolArray,
) -> Predictions:
    """Put the logits and receipts of all blocks in their places; blocks may come in any order.

    A model that no block holds has NaN for both.
    """
    place = {b.epsilon: i for i, b in enumerate(budgets)}
    row = {seed: i for i, seed in enumerate(seeds)}
    logits = np.full((len(budgets), *member.shape), np.nan, dtype=np.float32)
    receipts = None
    for result in results:
        where = [place[m.epsilon] for m in result.models], [row[m.seed] for m in result.models]
        logits[where] = result.logits
        if result.receipts is not None:
            if receipts is None:
                shape = (*logits.shape[:2], *result.receipts.shape[1:])
                receipts = np.full(shape, np.nan, dtype=np.float32)
            receipts[where] = result.receipts
    return Predictions(
        budgets=tuple(budgets), seeds=tuple(seeds), logits=logits, member=member, receipts=receipts
    )


def _check_rows(train_rows: Mapping[int, IntArray], n_records: int) -> None:
    sizes = sorted({len(rows) for rows in train_rows.values()})
    if len(sizes) != 1:
        raise InputError(
            "train_rows must hold the split of at least one seed, and the same number of training "
            f"records for every seed, but has {sizes or 'none'}; split with one test_share."
        )
    for seed, rows in train_rows.items():
        inside = rows.size and rows[0] >= 0 and rows[-1] < n_records
        if not inside or (np.diff(rows) == 0).any():
            raise InputError(
                f"train_rows of seed {seed} must be different row numbers from 0 to "
                f"{n_records - 1}; it names one twice, one outside, or none."
            )
