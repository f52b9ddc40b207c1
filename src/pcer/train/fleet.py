"""What goes into training and what comes out? Data, models, blocks, predictions.

``run.train_seeds`` and ``sweep.run`` check their data here (``TrainingData.of``), turn
budgets into models (``calibrated``, ``plan_models``), cut these into blocks, and put
the results together (``gather_predictions``). Devices share ``Model`` and its result.
To add a result: a field of ``BlockResult``, put together in ``gather_predictions``.
"""

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
from pcer.store.blocks import Key, record_digest
from pcer.train.accounting import Budget, calibrate
from pcer.train.config import NO_DP, TrainConfig
from pcer.train.rules import Names
from pcer.train.streams import Purpose, stream

# Standard deviations at which noise ends: the radius that Box and Muller give for the
# smallest uniform, 2^-32.
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
        """Convert and check; with ``allow_missing``, NaN stands for a missing value."""
        table = _feature_table(features)
        target = _checked_labels(labels, n_records=len(table))
        _require_finite(table, allow_missing=allow_missing)
        return cls(
            features=table,
            labels=target.astype(np.float32),
            train_rows=_checked_splits(train_rows, n_records=len(table)),
            groups=_checked_groups(groups or {}, n_records=len(table)),
        )

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
        """This data with the splits of some seeds only."""
        return replace(self, train_rows={seed: self.train_rows[seed] for seed in seeds})


@dataclass(frozen=True)
class Model:
    """One model to train."""

    seed: int  # names its split, and its random numbers
    epsilon: float  # ``NO_DP`` without privacy
    noise_multiplier: float
    digest: str = ""  # of what it is trained on, by ``stream_digests``, under a secret
    name: str | None = None  # of its configuration, where there are several

    @property
    def is_private(self) -> bool:
        """Whether gradients are clipped and noised."""
        return self.epsilon != NO_DP

    @property
    def key(self) -> Key:
        """Names its row in a block of scores; the name ends with the budget."""
        budget = float(self.epsilon).hex()
        return budget if self.name is None else f"{self.name}, {budget}", self.seed

    def stream(self, purpose: Purpose, secret: bytes) -> np.random.Philox:
        """The bit generator of this model for one purpose."""
        return stream(
            seed=self.seed,
            epsilon=self.epsilon,
            purpose=purpose,
            secret=secret,
            digest=self.digest,
        )


@dataclass(frozen=True)
class BlockResult:
    """Results of a block of models, in their order."""

    models: tuple[Model, ...]
    logits: Float32Array  # (model, record), of all records
    # (model, training record) in the order of the split's rows, infinite without
    # privacy; None if not counted.
    receipts: Float32Array | None = None


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Scores of every record by the trained models, and who was in their training.

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

    def at(self, seeds: slice) -> Predictions:
        """Scores of some seeds alone."""
        receipts = self.receipts
        return replace(
            self,
            seeds=self.seeds[seeds],
            logits=self.logits[:, seeds],
            member=self.member[seeds],
            receipts=None if receipts is None else receipts[:, seeds],
        )


def plan_models(
    budgets: Sequence[Budget],
    seeds: Sequence[int],
    digests: Mapping[int, str] | None = None,
    name: str | None = None,
) -> list[Model]:
    """One model for each budget and seed: neighbours share a split; see ``digests``."""
    models = []
    for seed in seeds:
        digest = "" if digests is None else digests.get(seed, "")
        for budget in budgets:
            noise = budget.noise_multiplier
            models.append(Model(seed, budget.epsilon, noise, digest, name))
    return models


def stream_digests(
    data: TrainingData, config: TrainConfig, *, module: str = ""
) -> dict[int, str]:
    """By seed, a digest of what is trained, without budgets, other seeds, device."""
    common = {
        "features": _digest(data.features),
        "labels": _digest(data.labels),
        "settings": record_digest(config.to_dict()),
        "module": module,
    }
    attribute = config.training_rule.attribute
    if attribute is not None:
        common["groups"] = _digest(data.groups[attribute])
    return {
        seed: record_digest({**common, "rows": _digest(rows)})
        for seed, rows in data.train_rows.items()
    }


def _digest(values: NDArray[Any]) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def calibrated(
    epsilons: Iterable[float],
    data: TrainingData,
    config: TrainConfig,
    *,
    module: object | None = None,
) -> list[Budget]:
    """Budgets with their noise; refuses a delta that finite noise cannot keep.

    The default delta is always accepted, and so is any delta of a module, whose noise
    reaches further.
    """
    budgets = []
    for epsilon in epsilons:
        budgets.append(calibrate(epsilon, n_train=data.n_train, config=config))
    if module is not None:
        return budgets

    layers = pairwise((data.features.shape[1], *config.hidden, 1))
    n_weights = sum((inputs + 1) * outputs for inputs, outputs in layers)
    sampling = config.sampling(data.n_train)
    inclusions = sampling.n_steps * sampling.sample_rate
    for noise in {budget.noise_multiplier for budget in budgets} - {0.0}:
        tail = noise_tail(noise, n_weights=n_weights, inclusions=inclusions)
        if config.dp_delta < min(tail, TrainConfig.dp_delta):
            sufficient = min(1.05 * tail, TrainConfig.dp_delta)
            raise InputError(
                f"dp_delta must be at least {sufficient:.2g} here, as noise ends at "
                f"{NOISE_REACH:.3g} standard deviations, but {config.dp_delta:g} was "
                "given; use a larger one.",
                field="dp_delta",
            )
    return budgets


def noise_tail(noise_multiplier: float, *, n_weights: int, inclusions: float) -> float:
    """Upper bound of the probability that noise reveals a person by where it ends.

    Noise comes in pairs within a radius r, ``NOISE_REACH``; inside, it is like noise
    with infinite tails. A gradient that carries a pair out of the radius reveals the
    person. In units of the noise a clipped gradient has length 1 / sigma, sigma being
    the noise multiplier. Over all d / 2 pairs (d weights) it carries one out with a
    probability of at most sqrt(d / 2) e / sigma, where e = r exp(-r^2 / 2) / pi is that
    per length of a short way out; in one pair, with the probability that a noncentral
    chi squared variable of two degrees of freedom and noncentrality 1 / sigma^2 exceeds
    r^2. The sum of both is taken times the expected number of steps with the person.
    """
    from scipy.stats import ncx2  # takes half a second to import

    edge = NOISE_REACH * math.exp(-(NOISE_REACH**2) / 2) / math.pi
    in_all_pairs = math.sqrt(n_weights / 2) * edge / noise_multiplier
    in_one_pair = float(ncx2.sf(NOISE_REACH**2, 2, noise_multiplier**-2))
    return inclusions * (in_all_pairs + in_one_pair)


def cut_blocks(
    models: Sequence[Model], *, block_size: int
) -> tuple[tuple[Model, ...], ...]:
    """Models in their order, in as few blocks as the size allows, all about equal."""
    n_blocks = -(-len(models) // block_size)
    cuts = [len(models) * i // max(1, n_blocks) for i in range(n_blocks + 1)]
    return tuple(tuple(models[start:end]) for start, end in pairwise(cuts))


def require_sound(
    models: Sequence[Model], sound: BoolArray, config: TrainConfig
) -> None:
    """Raise InputError, naming a model, unless all are ``sound`` (model,)."""
    if sound.all():
        return
    unsound = np.flatnonzero(~sound)
    first = models[unsound[0]]
    budget = f"at epsilon {first.epsilon:g}" if first.is_private else "without privacy"
    named = f"seed {first.seed} {budget}"
    if first.name:
        named += f" ({first.name})"
    if len(unsound) > 1:
        named += f" and {len(unsound) - 1} more"
    raise InputError(
        f"The training of {named} diverged: weights or predictions are no longer "
        "finite numbers, and none are kept; lower learning_rate (now "
        f"{config.learning_rate:g}), or scale the features."
    )


def gather_predictions(
    results: Iterable[BlockResult],
    *,
    budgets: Sequence[Budget],
    seeds: Sequence[int],
    member: BoolArray,
) -> Predictions:
    """Logits and receipts of all blocks, in any order; NaN for a missing model."""
    epsilons = [budget.epsilon for budget in budgets]
    shape = (len(budgets), len(member))
    logits = np.full((*shape, member.shape[1]), np.nan, dtype=np.float32)
    receipts = None
    for result in results:
        at_budgets = [epsilons.index(model.epsilon) for model in result.models]
        at_seeds = [seeds.index(model.seed) for model in result.models]
        logits[at_budgets, at_seeds] = result.logits
        if result.receipts is None:
            continue
        if receipts is None:
            n_train = result.receipts.shape[1]
            receipts = np.full((*shape, n_train), np.nan, dtype=np.float32)
        receipts[at_budgets, at_seeds] = result.receipts
    return Predictions(
        budgets=tuple(budgets),
        seeds=tuple(seeds),
        logits=logits,
        member=member,
        receipts=receipts,
    )


def _feature_table(features: ArrayLike) -> Float32Array:
    """(record, feature); what does not fit float32 becomes infinite."""
    with np.errstate(over="ignore"):
        table = np.array(features, dtype=np.float32, order="C")
    if table.ndim != 2 or not table.size:
        raise InputError(
            "features must be a table (record, feature), but its shape is "
            f"{table.shape}."
        )
    return table


def _checked_labels(labels: ArrayLike, *, n_records: int) -> NDArray[Any]:
    target = np.asarray(labels)
    if target.shape != (n_records,) or not np.isin(target, (0, 1)).all():
        raise InputError(
            f"labels must hold one 0 or 1 for each of the {n_records} records, but its "
            f"shape is {target.shape} and its values start with "
            f"{target.ravel()[:5].tolist()}."
        )
    return target


def _require_finite(table: Float32Array, *, allow_missing: bool) -> None:
    is_broken = np.isinf(table) if allow_missing else ~np.isfinite(table)
    if not is_broken.any():
        return
    rows = np.flatnonzero(is_broken.any(axis=1))
    columns = np.flatnonzero(is_broken.any(axis=0))
    exception = ", or NaN for a missing value" if allow_missing else ""
    raise InputError(
        f"features must be finite and fit float32{exception}, but {rows.size} records "
        f"are not (the first is record {rows[0]}), in {columns.size} columns (the "
        f"first is column {columns[0]}); drop these records or fill the values in."
    )


def _checked_splits(
    train_rows: Mapping[int, ArrayLike], *, n_records: int
) -> dict[int, IntArray]:
    """By seed the rows of its training records, ascending."""
    splits = {}
    for seed, rows in train_rows.items():
        splits[int(seed)] = np.sort(np.asarray(rows, dtype=np.int64))
    sizes = sorted({len(rows) for rows in splits.values()})
    if len(sizes) != 1:
        raise InputError(
            "train_rows must hold the split of at least one seed, and the same number "
            "of training records for every seed, but has "
            f"{sizes or 'none'}; split with one test_share."
        )
    for seed, rows in splits.items():
        is_inside = rows.size > 0 and rows[0] >= 0 and rows[-1] < n_records
        if not is_inside or (np.diff(rows) == 0).any():
            raise InputError(
                f"train_rows of seed {seed} must be different row numbers from 0 to "
                f"{n_records - 1}; it names one twice, one outside, or none."
            )
    return splits


def _checked_groups(
    groups: Mapping[str, ArrayLike], *, n_records: int
) -> dict[str, Names]:
    names_by_attribute = {}
    for attribute, groups_of_records in groups.items():
        names = np.asarray(groups_of_records, dtype=np.str_)
        names_by_attribute[attribute] = names
        if names.shape != (n_records,):
            raise InputError(
                f"groups must hold one name for each of the {n_records} records."
            )
    return names_by_attribute
