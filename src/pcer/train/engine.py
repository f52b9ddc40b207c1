"""How does a block of models train together, whatever the device?

Every tensor of a block is made once (``assemble``), from the data, the models and their
streams; then the device loops over rows, clipped sum, noise, momentum. Nothing depends
on a model's position in its block. ``run`` calls ``train_block``. To add a device: a
subclass of ``Device`` with its own ``fit``, and a case in ``devices.choose_device``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from pcer.errors import InputError
from pcer.metrics import FloatArray, IntArray
from pcer.train.config import TrainConfig
from pcer.train.fleet import (
    BlockResult,
    Float32Array,
    Model,
    TrainingData,
    require_sound,
)
from pcer.train.receipts import StepBook, Terms, Watch, fold
from pcer.train.rules import DpSgd
from pcer.train.step import (
    LANES,
    Batch,
    FleetState,
    Layout,
    StepRule,
    activations,
    clipped_sum,
    gaussian,
    momentum_step,
    norm_bins,
    round_up,
    square,
)
from pcer.train.streams import (
    Drawer,
    Purpose,
    Schedule,
    Widths,
    first_words,
    initial_weights,
    thin_rows,
)

CHUNK = 8192  # records that a GPU predicts at a time
MOST_FOLDED = 2**20  # records whose steps a GPU folds at a time: about 4 GB
NORM_CHUNK = 2048  # records of every model whose norms a GPU computes at a time

# Of the table of records, after the features: a 1, the squared norm, the label.
EXTRA_COLUMNS = 3

# Largest squared norm of a record: its products with weights and signals must fit
# float32 too, whose largest number is 3.4e38.
LARGEST_SQUARE = 1e30


@dataclass(frozen=True)
class Fleet:
    """Everything that a block of models trains with; private models come first."""

    layout: Layout  # of a model's parameters
    start: FleetState  # weights and momentum before the first step
    rule: StepRule
    std: Tensor  # (private model, 1), deviation of the noise on the sum of gradients
    table: Tensor  # (split x record + 1, column); see ``record_table``
    schedule: Schedule  # which rows of the table every step sees
    noise: list[np.random.Philox]  # of each private model
    watch: Watch  # what the training rule decides for single records


class Device:
    """Where and how a block trains; all draw the same numbers and agree to rounding."""

    def __init__(self, place: str = "cpu") -> None:
        self.place = torch.device(place)

    def zero_table(self, n_rows: int, width: int) -> Tensor:
        """Zeros (n_rows, width) for the table of records."""
        return torch.zeros(n_rows, width, device=self.place)

    def fill(
        self, features: Tensor, labels: Tensor, train: Tensor | None, part: Tensor
    ) -> None:
        """Write a split, standardised by the records ``train``, into the table."""
        n_features = features.shape[1]
        scaled = features if train is None else standardised(features, train)
        part[:, :n_features] = scaled
        part[:, n_features] = 1
        part[:, n_features + 1] = square(scaled)[:, 0] + 1
        part[:, n_features + 2] = labels

    def words(self, bits: np.random.Philox) -> Callable[[int], Tensor]:
        """A function that gives the first so many words of an unused stream."""
        return first_words(bits)

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block to the last step, by its rule."""
        raise NotImplementedError

    def predict(self, fleet: Fleet, state: FleetState) -> Float32Array:
        """Logits (model, record) of all records, as standardised for their split."""
        layers = fleet.layout.layers(state.weights)
        records = torch.arange(fleet.watch.n_records, device=fleet.table.device)
        logits = []
        for part in torch.split(records, CHUNK):
            rows = fleet.watch.firsts[:, None] + part
            logits.append(activations(layers, gather(fleet, rows).inputs)[-1][..., 0])
        return torch.cat(logits, dim=1).cpu().numpy()


def train_block(
    data: TrainingData,
    models: Sequence[Model],
    config: TrainConfig,
    *,
    device: Device,
    secret: bytes = b"",
) -> BlockResult:
    """Train a block of models together: logits on all records, and receipts."""
    private_first = sorted(range(len(models)), key=lambda i: not models[i].is_private)
    ordered = [models[index] for index in private_first]
    with torch.no_grad(), one_thread():
        fleet = assemble(data, ordered, config, device=device, secret=secret)
        state = device.fit(fleet)
        logits = device.predict(fleet, state)
        has_finite_weights = state.weights.isfinite().all(dim=1).cpu().numpy()
        has_finite_logits = np.isfinite(logits).all(axis=1)
        require_sound(ordered, has_finite_weights & has_finite_logits, config)
        receipts = folded(fleet.watch, ordered, on_host=device.place.type == "cpu")
    as_given = np.argsort(private_first)
    if receipts is not None:
        receipts = receipts[as_given]
    return BlockResult(tuple(models), logits[as_given], receipts)


def assemble(
    data: TrainingData,
    models: Sequence[Model],
    config: TrainConfig,
    *,
    device: Device,
    secret: bytes,
) -> Fleet:
    """Make every tensor of a block; private models must come first."""
    layout = Layout((data.features.shape[1], *config.hidden, 1))
    weights = _starting_weights(layout, models, secret).to(device.place)
    private = [model for model in models if model.is_private]
    std = [[model.noise_multiplier * config.clip_norm] for model in private]
    seeds = list(dict.fromkeys(model.seed for model in models))
    firsts = [seeds.index(model.seed) * data.n_records for model in models]
    clips = [config.clip_norm if model.is_private else math.inf for model in models]
    clip = torch.tensor(clips, device=device.place).view(-1, 1, 1)
    expected = config.sampling(data.n_train).expected_batch
    return Fleet(
        layout=layout,
        start=FleetState(weights, torch.zeros_like(weights)),  # no momentum yet
        rule=StepRule(clip, config.learning_rate, config.momentum, expected),
        std=torch.tensor(std, device=device.place).view(-1, 1),
        table=record_table(data, seeds, config, device),
        schedule=draw_schedule(data, models, firsts, config, device, secret),
        noise=[model.stream(Purpose.NOISE, secret) for model in private],
        watch=Watch(data, private, config, clip=clip, firsts=firsts),
    )


def _starting_weights(layout: Layout, models: Sequence[Model], secret: bytes) -> Tensor:
    """Weights (model, width) before the first step, each model's from its stream."""
    weights = torch.zeros(len(models), layout.width)
    for index, model in enumerate(models):
        initial = model.stream(Purpose.INITIAL, secret)
        matrices = initial_weights(initial, sizes=layout.sizes)
        for layer, matrix in zip(layout.layers(weights), matrices, strict=True):
            layer[index].copy_(torch.from_numpy(matrix))
    return weights


def folded(
    watch: Watch, models: Sequence[Model], *, on_host: bool
) -> Float32Array | None:
    """Folded steps (model, training record), infinite without privacy, from a watch."""
    if not watch.has_book:
        return None
    n_train = watch.records.shape[1]
    receipts = np.full((len(models), n_train), np.inf, dtype=np.float32)
    for due in watch.rounds:
        assert due.book is not None
        places = due.models.cpu().numpy()
        noises = np.array([models[place].noise_multiplier for place in places])
        for noise in set(noises.tolist()):
            rows = np.flatnonzero(noises == noise)
            terms = watch.terms[noise]
            receipts[places[rows]] = _folded_alike(due.book, rows, terms, on_host)
    return receipts


def _folded_alike(
    book: StepBook, rows: IntArray, terms: Terms, on_host: bool
) -> Float32Array:
    """Those of models of one noise (rows of a book): a GPU folds several at once."""
    n_train = book.shape[1]
    n_at_once = 1 if on_host else max(1, MOST_FOLDED // n_train)
    kind = book.kind if on_host else torch.float64
    receipts = []
    for part in torch.split(torch.from_numpy(rows), n_at_once):
        steps = book.counts(part.to(book.place), kind)
        kept = fold(steps.flatten(0, 1), terms, on_host=on_host)
        receipts.append(kept.view(len(part), -1).cpu())  # the CPU waits for the device
    return torch.cat(receipts).numpy()


def record_table(
    data: TrainingData, seeds: Sequence[int], config: TrainConfig, device: Device
) -> Tensor:
    """The records of each seed's split, then a row of zeros, which pads batches.

    A record is a row: its features x, a 1 (it meets the bias), the squared norm |x|^2 +
    1, its label, and zeros up to a width that rounds alike everywhere.
    """
    if not config.standardise and np.isnan(data.features).any():
        raise InputError(
            "Missing features need config.standardise, which fills them in."
        )
    n_records, n_features = data.features.shape
    width = round_up(n_features + EXTRA_COLUMNS, LANES // 2)
    table = device.zero_table(len(seeds) * n_records + 1, width)
    parts = table[:-1].view(len(seeds), n_records, width)
    features = torch.from_numpy(data.features).to(device.place)
    labels = torch.from_numpy(data.labels).to(device.place)
    for seed, part in zip(seeds, parts, strict=True):
        train = None
        if config.standardise:
            train = torch.from_numpy(data.train_rows[seed]).to(device.place)
        device.fill(features, labels, train, part)
    _require_small(parts[:, :, n_features + 1], seeds, config)
    return table


def _require_small(squares: Tensor, seeds: Sequence[int], config: TrainConfig) -> None:
    is_large = ~(squares <= LARGEST_SQUARE)
    if not bool(is_large.any()):  # the CPU waits for the device
        return
    large = is_large.cpu().numpy()
    split = int(large.any(axis=1).argmax())
    if config.standardise:
        remedy = (
            "a feature that is constant among the training records is only shifted: "
            "drop it, or those records"
        )
    else:
        remedy = "scale the features, or set config.standardise"
    raise InputError(
        f"features must be below about {LARGEST_SQUARE**0.5:.0e} as they are trained "
        f"on, but those of {large[split].sum()} records in the split of seed "
        f"{seeds[split]} are not (the first is record {large[split].argmax()}); "
        f"{remedy}."
    )


def standardised(features: Tensor, train: Tensor) -> Tensor:
    """Mean 0 and deviation 1 over the training records; what is missing is 0.

    Each feature x becomes (x - mean) / spread, in float64, then float32. The spread is
    the root of the mean squared distance from the mean; a constant is only shifted.
    """
    seen = features[train].double()
    n_known = seen.isnan().logical_not_().sum(dim=0)
    mean = seen.nansum(dim=0) / n_known.clamp(min=1)
    spread = seen.sub_(mean).square_().nansum(dim=0).div_(n_known.clamp(min=1)).sqrt_()
    spread[spread == 0] = 1
    scaled = features.double().sub_(mean).div_(spread).float()
    scaled[:, n_known == 0] = 0
    return scaled.nan_to_num_(nan=0.0)


def draw_schedule(
    data: TrainingData,
    models: Sequence[Model],
    firsts: Sequence[int],
    config: TrainConfig,
    device: Device,
    secret: bytes,
) -> Schedule:
    """Every model's Poisson samples; its split begins at row ``firsts`` (model,)."""
    sampling = config.sampling(data.n_train)
    widths = Widths.of(sampling)
    padding = max(firsts) + data.n_records
    rows = torch.full(
        (sampling.n_steps, len(models), widths.full),
        padding,
        dtype=torch.int32,
        device=device.place,
    )
    drawer = Drawer(sampling, device.place)
    sample_shares = _sample_shares(data, config.training_rule)
    sizes = []
    for index, model in enumerate(models):
        batches = rows[:, index]
        records = torch.from_numpy(data.train_rows[model.seed])
        split = records.to(device.place, torch.int32) + firsts[index]
        bits = model.stream(Purpose.SAMPLING, secret)
        drawn = drawer.fill(batches, device.words(bits), split)
        shares = sample_shares[model.seed]
        if model.is_private and shares is not None and (shares < 1).any():
            bits = model.stream(Purpose.THINNING, secret)
            drawn = thin_rows(batches, drawn, split, shares, bits, padding=padding)
        sizes.append(drawn)
    return Schedule(rows, torch.stack(sizes, dim=1), widths)


def _sample_shares(data: TrainingData, rule: DpSgd) -> dict[int, FloatArray | None]:
    """By seed, how often each training record joins, as a share of the sample rate."""
    settled = rule.shares(data.groups)
    splits = data.train_rows.items()
    if settled is None:
        return {seed: rule.sample_shares(rows) for seed, rows in splits}
    _, sample_shares = settled
    return {seed: sample_shares[rows] for seed, rows in splits}


def gather(fleet: Fleet, rows: Tensor) -> Batch:
    """The records of a step, from rows (model, column) of the table."""
    values = fleet.table.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)
    n_inputs = fleet.layout.sizes[0] + 1  # the 1 that meets the bias included
    return Batch(
        inputs=values[..., :n_inputs],
        input_square=values[..., n_inputs : n_inputs + 1],
        label=values[..., n_inputs + 1 : n_inputs + 2],
    )


def step(fleet: Fleet, state: FleetState, total: Tensor, bits: Tensor) -> FleetState:
    """One step of every model from its batch's clipped sum: noise, then momentum."""
    total[: len(bits)].add_(gaussian(bits, fleet.std))
    return momentum_step(state, total, fleet.rule)


def batch_sum(
    fleet: Fleet, weights: Tensor, rows: Tensor, at: Tensor | int = 0
) -> Tensor:
    """Clipped sum of every model's batch, from rows (model, column) of the table."""
    clip = fleet.watch.limits(rows, at)  # rules may leave records out from a step on
    return clipped_sum(fleet.layout, weights, gather(fleet, rows), clip)


def norm_bins_plainly(fleet: Fleet, weights: Tensor, models: Tensor) -> Tensor:
    """Norm bins (model, training record) of some private models, on any device."""
    rows = fleet.watch.records[models] + fleet.watch.firsts[models, None]
    weights = weights[models]
    clip = fleet.rule.clip[models]
    bins = []
    for part in torch.split(rows, NORM_CHUNK, dim=1):
        bins.append(norm_bins(fleet.layout, weights, gather(fleet, part), clip))
    return torch.cat(bins, dim=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one core: products split over threads could round differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
