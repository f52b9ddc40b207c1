"""A block of models that step together: its tensors, and what a device does with them.

Every tensor of a block is made once, from the data, the models and their streams; then
the device loops over rows, clipped sum, noise, momentum. Nothing depends on a model's
position in its block. The device is an argument: this file knows none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from pcer.errors import InputError
from pcer.train.config import TrainConfig
from pcer.train.fleet import (
    BlockResult,
    Float32Array,
    Model,
    TrainingData,
    require_sound,
)
from pcer.train.receipts import fold
from pcer.train.schedule import Drawer, Schedule, Widths, thin_rows
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
from pcer.train.streams import Purpose, first_words, initial_weights
from pcer.train.watch import Watch

CHUNK = 8192  # records that a GPU predicts at a time
MOST_FOLDED = 2**20  # records whose steps a GPU folds at a time: about 4 GB
NORM_CHUNK = 2048  # records of every model whose norms a GPU computes at a time

EXTRA_COLUMNS = (
    3  # of the table of records, after the features: a 1, the squared norm, the label
)

# Largest squared norm of a record: its products with weights and signals must fit
# float32 too, whose largest number is 3.4e38.
LARGEST_SQUARE = 1e30


@dataclass(frozen=True)
class Fleet:
    """Everything that a block of models trains with; private models come first."""

    layout: Layout
    start: FleetState  # before the first step
    rule: StepRule
    # (private model, 1), standard deviation of the noise on the sum of gradients
    std: Tensor
    # (split x record + 1, column): the records of every split, then the padding
    table: Tensor
    schedule: Schedule  # which rows of the table every step sees
    noise: list[np.random.Philox]  # the stream of each private model
    watch: Watch


class Device:
    """Where and how a block trains; all devices draw the same numbers and agree to rounding."""

    def __init__(self, place: str = "cpu") -> None:
        self.place = torch.device(place)

    def room(self, n_rows: int, width: int) -> Tensor:
        """Zeros (n_rows, width) for the table of records."""
        return torch.zeros(n_rows, width, device=self.place)

    def fill(
        self, features: Tensor, labels: Tensor, train: Tensor | None, part: Tensor
    ) -> None:
        """Write a split's records into its part of the table, standardised by ``train``."""
        n = features.shape[1]
        scaled = features if train is None else standardised(features, train)
        part[:, :n] = scaled
        part[:, n] = 1
        part[:, n + 1] = square(scaled)[:, 0] + 1
        part[:, n + 2] = labels

    def words(self, bits: np.random.Philox) -> Callable[[int], Tensor]:
        """A function that gives the first so many words of an unused stream."""
        return first_words(bits)

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block to the last step, by its rule."""
        raise NotImplementedError

    def predict(self, fleet: Fleet, state: FleetState) -> Float32Array:
        """Logits (model, record) of every model on all records, as standardised for its split."""
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
    """Train a block of models together: logits (model, record) on all records, and receipts."""
    order = sorted(range(len(models)), key=lambda i: not models[i].is_private)
    company = [models[i] for i in order]
    with torch.no_grad(), one_thread():
        fleet = assemble(data, company, config, device=device, secret=secret)
        state = device.fit(fleet)
        logits = device.predict(fleet, state)
        sound = state.weights.isfinite().all(dim=1).cpu().numpy() & np.isfinite(
            logits
        ).all(axis=1)
        require_sound(company, sound, config)
        receipts = folded(fleet.watch, company, on_host=device.place.type == "cpu")
    back = np.argsort(order)
    return BlockResult(
        tuple(models), logits[back], None if receipts is None else receipts[back]
    )


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
    place = device.place
    weights = torch.zeros(len(models), layout.width)
    for index, model in enumerate(models):
        matrices = initial_weights(
            model.stream(Purpose.INITIAL, secret), sizes=layout.sizes
        )
        for layer, matrix in zip(layout.layers(weights), matrices, strict=True):
            layer[index].copy_(torch.from_numpy(matrix))
    weights = weights.to(place)
    private = [model for model in models if model.is_private]
    std = [[model.noise_multiplier * config.clip_norm] for model in private]
    seeds = list(dict.fromkeys(model.seed for model in models))
    firsts = [seeds.index(model.seed) * data.n_records for model in models]
    clips = [config.clip_norm if model.is_private else float("inf") for model in models]
    clip = torch.tensor(clips, device=place).view(-1, 1, 1)
    expected = config.sampling(data.n_train).expected_batch
    records = np.array(
        [data.train_rows[model.seed] for model in private], dtype=np.int64
    )
    records = records.reshape(-1, data.n_train)
    shares = config.training_rule.shares(data.groups)
    return Fleet(
        layout=layout,
        start=FleetState(weights, torch.zeros_like(weights)),  # no momentum yet
        rule=StepRule(clip, config.learning_rate, config.momentum, expected),
        std=torch.tensor(std, device=place).view(-1, 1),
        table=record_table(data, seeds, config, device),
        schedule=draw_schedule(data, models, firsts, config, device, secret),
        noise=[model.stream(Purpose.NOISE, secret) for model in private],
        watch=Watch(
            config,
            private,
            clip=clip,
            shares=None
            if shares is None
            else torch.from_numpy(shares[0, records]).to(place),
            records=torch.from_numpy(records).to(place),
            firsts=torch.tensor(firsts, device=place),
            n_records=data.n_records,
        ),
    )


def folded(
    watch: Watch, models: Sequence[Model], *, on_host: bool
) -> Float32Array | None:
    """The folded steps of every record, (model, training record); infinite without privacy."""
    # On the device that counted them, on a GPU for several models of one noise
    # together.
    if not watch.has_book:
        return None
    n_train = watch.records.shape[1]
    receipts = np.full((len(models), n_train), np.inf, dtype=np.float32)
    size = 1 if on_host else max(1, MOST_FOLDED // n_train)
    for due in watch.rounds:
        assert due.book is not None
        places = due.models.cpu().numpy()
        kind = due.book.kind if on_host else torch.float64
        noises = np.array([models[place].noise_multiplier for place in places])
        for noise in set(noises.tolist()):
            for rows in torch.split(
                torch.from_numpy(np.flatnonzero(noises == noise)), size
            ):
                steps = due.book.counts(rows.to(due.book.place), kind)
                kept = fold(steps.flatten(0, 1), watch.terms[noise], on_host=on_host)
                own = kept.view(len(rows), -1).cpu()  # the CPU waits for the device
                receipts[places[rows.numpy()]] = own.numpy()
    return receipts


def record_table(
    data: TrainingData, seeds: Sequence[int], config: TrainConfig, device: Device
) -> Tensor:
    """The records of each seed's split (features, 1, squared norm, label), then a row of zeros."""
    if not config.standardise and np.isnan(data.features).any():
        raise InputError(
            "Missing features need config.standardise, which fills them in."
        )
    n_records, n = data.features.shape
    width = round_up(n + EXTRA_COLUMNS, LANES // 2)
    table = device.room(len(seeds) * n_records + 1, width)
    place = device.place
    given, labels = (
        torch.from_numpy(x).to(place) for x in (data.features, data.labels)
    )
    for seed, part in zip(
        seeds, table[:-1].view(len(seeds), n_records, width), strict=True
    ):
        train = (
            torch.from_numpy(data.train_rows[seed]).to(place)
            if config.standardise
            else None
        )
        device.fill(given, labels, train, part)
    is_large = ~(table[:-1, n + 1] <= LARGEST_SQUARE)
    if bool(is_large.any()):  # the CPU waits for the device
        large = is_large.view(len(seeds), -1).cpu().numpy()
        split = int(large.any(axis=1).argmax())
        remedy = "scale the features, or set config.standardise"
        if config.standardise:
            remedy = "a feature that is constant among the training records is only shifted: drop "
            remedy += "it, or those records"
        raise InputError(
            f"features must be below about {LARGEST_SQUARE**0.5:.0e} as they are trained on, but "
            f"those of {large[split].sum()} records in the split of seed {seeds[split]} are not "
            f"(the first is record {large[split].argmax()}); {remedy}."
        )
    return table


def standardised(features: Tensor, train: Tensor) -> Tensor:
    """Mean 0 and deviation 1 over the training records, constants only shifted; missing is 0."""
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
    firsts: Sequence[int],  # the row of the table where each one's split begins
    config: TrainConfig,
    device: Device,
    secret: bytes,
) -> Schedule:
    """Draw every model's Poisson samples; the same on every device."""
    sampling = config.sampling(data.n_train)
    place = device.place
    widths = Widths.of(sampling)
    padding = max(firsts) + data.n_records
    shape = (sampling.n_steps, len(models), widths.full)
    rows = torch.full(shape, padding, dtype=torch.int32, device=place)
    drawer = Drawer(sampling, place)
    sizes = []
    rule = config.training_rule
    settled = config.training_rule.shares(data.groups)
    records = {
        s: torch.from_numpy(r).to(place, torch.int32)
        for s, r in data.train_rows.items()
    }
    for index, model in enumerate(models):
        own = records[model.seed] + firsts[index]
        words = device.words(model.stream(Purpose.SAMPLING, secret))
        drawn = drawer.fill(rows[:, index], words, own)
        shares = rule.sample_shares(data.train_rows[model.seed])
        if settled is not None:
            shares = settled[1, data.train_rows[model.seed]]
        if shares is not None and (shares < 1).any() and model.is_private:
            bits = model.stream(Purpose.THINNING, secret)
            drawn = thin_rows(rows[:, index], drawn, own, shares, bits, padding=padding)
        sizes.append(drawn)
    return Schedule(rows, torch.stack(sizes, dim=1), widths)


def gather(fleet: Fleet, rows: Tensor) -> Batch:
    """The records of a step, from rows (model, column) of the table."""
    n_models, n_columns = rows.shape
    values = fleet.table.index_select(0, rows.reshape(-1)).view(n_models, n_columns, -1)
    n = fleet.layout.sizes[0] + 1
    return Batch(values[..., :n], values[..., n : n + 1], values[..., n + 1 : n + 2])


def step(fleet: Fleet, state: FleetState, total: Tensor, bits: Tensor) -> FleetState:
    """One step of every model from the clipped sum of its batch: noise, then momentum."""
    total[: len(bits)].add_(gaussian(bits, fleet.std))
    return momentum_step(state, total, fleet.rule)


def batch_sum(
    fleet: Fleet, weights: Tensor, rows: Tensor, at: Tensor | int = 0
) -> Tensor:
    """Clipped sum of the batch of every model, from rows (model, column) of the table."""
    clip = fleet.watch.limits(rows, at)  # rules may leave records out from a step on
    return clipped_sum(fleet.layout, weights, gather(fleet, rows), clip)


def norm_bins_plainly(fleet: Fleet, weights: Tensor, models: Tensor) -> Tensor:
    """Norm bins (model, training record) of some private models, wherever the tensors lie."""
    watch = fleet.watch
    rows = watch.records[models] + watch.firsts[models, None]
    mine = weights[models]
    parts = [
        norm_bins(fleet.layout, mine, gather(fleet, part), fleet.rule.clip[models])
        for part in torch.split(rows, NORM_CHUNK, dim=1)
    ]
    return torch.cat(parts, dim=1)


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
