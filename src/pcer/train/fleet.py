"""Input and output of training: the data, the models, the blocks, the predictions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.store.blocks import record_digest, settings_digest
from pcer.train.accounting import Budget, calibrate
from pcer.train.config import ADDED_SETTINGS, NO_DP, TrainConfig
from pcer.train.rules import Names
from pcer.train.streams import Purpose, stream

# Standard deviations at which noise ends: Box-Muller radius of the smallest uniform,
# 2^-32.
NOISE_REACH = math.sqrt(64 * math.log(2))

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Records, labels and one random split per seed, checked; make it with ``of``.

    Attributes:
        features: (record, feature), finite or, where that was allowed, NaN for a
            missing value.
        labels: (record,), 0 or 1.
        train_rows: for each seed the rows of its training records, ascending; equally
            many each.
        groups: by attribute each record's group, for rules that decide by it.
    """

    features: Float32Array
    labels: Float32Array
    train_rows: Mapping[int, IntArray]
    groups: Mapping[str, Names] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        train_rows: Mapping[int, ArrayLike],
        *,
        allow_missing: bool = False,
        groups: Mapping[str, ArrayLike] | None = None,
    ) -> TrainingData:
        """Convert and check once, where data enters.

        With ``allow_missing``, NaN is a missing value, which standardising sets to the
        mean.
        """
        with np.errstate(over="ignore"):  # overflow becomes infinite, which is refused
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
        splits = {
            int(s): np.sort(np.asarray(r, dtype=np.int64))
            for s, r in train_rows.items()
        }
        _check_rows(splits, len(table))
        named = {
            name: np.asarray(own, dtype=np.str_) for name, own in (groups or {}).items()
        }
        if any(own.shape != target.shape for own in named.values()):
            raise InputError(
                f"groups must hold one name for each of the {len(table)} records."
            )
        known = target.astype(np.float32)
        return cls(features=table, labels=known, train_rows=splits, groups=named)

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
        return replace(self, train_rows={seed: self.train_rows[seed] for seed in seeds})


@dataclass(frozen=True)
class Model:
    """One model to train: its seed, its budget and the noise that keeps it."""

    seed: int
    epsilon: float
    noise_multiplier: float
    digest: str = ""  # see ``stream_digests``
    name: str | None = None  # of its configuration, where there are several

    @property
    def is_private(self) -> bool:
        """Whether gradients are clipped and noised."""
        return self.epsilon != NO_DP

    def stream(self, purpose: Purpose, secret: bytes) -> np.random.Philox:
        """The bit generator of this model for one purpose."""
        own: dict[str, Any] = {
            "seed": self.seed,
            "epsilon": self.epsilon,
            "digest": self.digest,
        }
        return stream(**own, purpose=purpose, secret=secret)


@dataclass(frozen=True)
class BlockResult:
    """Results of a block of models: logits on all records, and receipts if they were counted."""

    models: tuple[Model, ...]
    logits: Float32Array  # (model, record)
    # (model, training record) in the order of the split's rows, infinite without
    # privacy
    receipts: Float32Array | None = None


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Scores of every record by the trained models, and which records each was trained on.

    Attributes:
        budgets: the budgets, with the noise used and the epsilon spent.
        seeds: the seeds.
        logits: (budget, seed, record), float32; the model predicts 1 from 0 on.
        member: (seed, record), whether the record was in the training split.
        receipts: (budget, seed, training record), as in ``BlockResult``; None if not
            counted.
    """

    budgets: tuple[Budget, ...]
    seeds: tuple[int, ...]
    logits: Float32Array
    member: BoolArray
    receipts: Float32Array | None = None


def plan_models(
    budgets: Sequence[Budget],
    seeds: Sequence[int],
    digests: Any = None,
    name: str | None = None,
) -> list[Model]:
    """One model for each budget and seed; seed by seed, so that a block holds few splits."""
    own = digests or {}
    noises = [(b.epsilon, b.noise_multiplier) for b in budgets]
    return [Model(s, *noise, own.get(s, ""), name) for s in seeds for noise in noises]


def stream_digests(
    data: TrainingData, config: TrainConfig, *, module: str = ""
) -> dict[int, str]:
    """By seed, a digest of what is trained: settings, module and records, with their split."""
    # Budgets, other seeds and the device do not enter: a training can be extended.
    settings = settings_digest(config.to_dict(), added=ADDED_SETTINGS)
    arrays: dict[str, NDArray[Any]] = {"features": data.features, "labels": data.labels}
    if (attribute := config.training_rule.attribute) is not None:
        arrays["groups"] = data.groups[attribute]
    same = {
        name: hashlib.sha256(own.tobytes()).hexdigest() for name, own in arrays.items()
    }
    same |= {"settings": settings, "module": module}
    rows = {
        s: hashlib.sha256(own.tobytes()).hexdigest()
        for s, own in data.train_rows.items()
    }
    return {seed: record_digest({**same, "rows": own}) for seed, own in rows.items()}


def noise_tail(noise_multiplier: float, *, n_weights: int, inclusions: float) -> float:
    """Upper bound of the probability that noise reveals a person: values beyond its end."""
    # Noise comes in pairs within ``NOISE_REACH``; inside, it is like noise with
    # infinite tails. Steps that include the person count; the gradient is spread over
    # all pairs, or lies in one.
    from scipy.stats import ncx2  # takes half a second to import

    edge = (
        NOISE_REACH * math.exp(-(NOISE_REACH**2) / 2) / math.pi
    )  # per length of a short way out
    spread = math.sqrt(n_weights / 2) * edge / noise_multiplier
    return inclusions * (
        spread + float(ncx2.sf(NOISE_REACH**2, 2, noise_multiplier**-2))
    )


def calibrated(
    epsilons: Iterable[float],
    data: TrainingData,
    config: TrainConfig,
    *,
    module: Any = None,
) -> list[Budget]:
    """Budgets with their noise; InputError for a small delta that the finite noise cannot keep."""
    # Noise on modules reaches further, and the default delta is always accepted.
    budgets = [calibrate(e, n_train=data.n_train, config=config) for e in epsilons]
    sizes = (data.features.shape[1], *config.hidden, 1)
    sampling = config.sampling(data.n_train)
    n_weights = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    inclusions = sampling.n_steps * sampling.sample_rate
    for noise in {b.noise_multiplier for b in budgets if module is None} - {0.0}:
        tail = noise_tail(noise, n_weights=n_weights, inclusions=inclusions)
        if config.dp_delta < min(tail, TrainConfig.dp_delta):
            raise InputError(
                f"dp_delta must be at least {min(1.05 * tail, TrainConfig.dp_delta):.2g} here, as "
                f"noise ends at {NOISE_REACH:.3g} standard deviations, but {config.dp_delta:g} was "
                "given; use a larger one.",
                field="dp_delta",
            )
    return budgets


def cut_blocks(
    models: Sequence[Model], *, block_size: int
) -> tuple[tuple[Model, ...], ...]:
    """Models in their order, cut into as few blocks as the size allows, all about equal."""
    n_blocks = -(-len(models) // block_size)
    cuts = [len(models) * i // max(1, n_blocks) for i in range(n_blocks + 1)]
    return tuple(tuple(models[a:b]) for a, b in pairwise(cuts))


def require_sound(
    models: Sequence[Model], sound: BoolArray, config: TrainConfig
) -> None:
    """Raise InputError, naming a model, unless all are sound: have finite weights and logits."""
    if sound.all():
        return
    diverged = [
        model for model, is_sound in zip(models, sound, strict=True) if not is_sound
    ]
    first = diverged[0]
    others = f" and {len(diverged) - 1} more" * (len(diverged) > 1)
    budget = f"at epsilon {first.epsilon:g}" if first.is_private else "without privacy"
    budget += f" ({first.name})" if first.name else ""
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
    """Logits and receipts of all blocks, in any order; NaN for a model that no block holds."""
    place = {b.epsilon: i for i, b in enumerate(budgets)}
    row = {seed: i for i, seed in enumerate(seeds)}
    logits = np.full((len(budgets), *member.shape), np.nan, dtype=np.float32)
    receipts = None
    for result in results:
        where = (
            [place[m.epsilon] for m in result.models],
            [row[m.seed] for m in result.models],
        )
        logits[where] = result.logits
        if result.receipts is not None:
            if receipts is None:
                shape = (*logits.shape[:2], *result.receipts.shape[1:])
                receipts = np.full(shape, np.nan, dtype=np.float32)
            receipts[where] = result.receipts
    return Predictions(
        budgets=tuple(budgets),
        seeds=tuple(seeds),
        logits=logits,
        member=member,
        receipts=receipts,
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
