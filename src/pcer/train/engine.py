"""The training loop for a block of models that step together.

Every tensor of a block is made once, from the data, the models and their streams; then the loop
reads rows, clipped sum, noise, momentum. Nothing depends on where in a block a model stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch import device as Device

from pcer.errors import InputError, not_installed
from pcer.train.config import Sampling, TrainConfig
from pcer.train.fleet import FloatArray, Model, TrainingData
from pcer.train.schedule import Draw, Drawer, Schedule, Widths
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
    round_up,
    square,
)
from pcer.train.streams import Purpose, initial_weights, stream

CHUNK = 8192
"""Records that a GPU predicts at a time."""

EXTRA_COLUMNS = 3
"""What the table of records holds besides the features: a 1, the squared norm, the label."""


@dataclass(frozen=True)
class Fleet:
    """All that a block of models trains with; private models come first.

    Attributes:
        layout: where the layers lie in a row of parameters.
        start: parameters and momentum before the first step.
        rule: clip norms and SGD settings.
        std: (private model, 1), standard deviation of the noise on the sum of gradients.
        table: (split x record + 1, column): the records of every split, then the padding.
        schedule: which rows of the table every step sees.
        slots: for each model, the split it trains on.
        noise: for each private model, the stream of its noise.
    """

    layout: Layout
    start: FleetState
    rule: StepRule
    std: Tensor
    table: Tensor
    schedule: Schedule
    slots: Tensor
    noise: list[np.random.Philox]

    @property
    def n_records(self) -> int:
        """Records of one split in the table."""
        return (len(self.table) - 1) // (int(self.slots.max()) + 1)


def train_block(
    data: TrainingData,
    models: Sequence[Model],
    config: TrainConfig,
    *,
    device: str = "cpu",
    secret: bytes = b"",
) -> FloatArray:
    """Train a block of models together and give their logits (model, record) on all records."""
    order = sorted(range(len(models)), key=lambda i: not models[i].is_private)
    company = [models[i] for i in order]
    with torch.no_grad(), one_thread():
        fleet = assemble(data, company, config, device=Device(device), secret=secret)
        logits = predict(fleet, fit(fleet))
    return logits[np.argsort(order)]


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
    private = [model for model in models if model.is_private]
    std = [[model.noise_multiplier * config.clip_norm] for model in private]
    seeds = list(dict.fromkeys(model.seed for model in models))
    slots = [seeds.index(model.seed) for model in models]
    return Fleet(
        layout=layout,
        start=initial_state(layout, models, device, secret),
        rule=step_rule(models, config, config.sampling(data.n_train).expected_batch, device),
        std=torch.tensor(std, device=device).view(-1, 1),
        table=record_table(data, seeds, config, device),
        schedule=draw_schedule(data, models, slots, config, device, secret),
        slots=torch.tensor(slots, device=device),
        noise=[_stream(model, Purpose.NOISE, secret) for model in private],
    )


def record_table(
    data: TrainingData, seeds: Sequence[int], config: TrainConfig, device: Device
) -> Tensor:
    """The records of each seed's split (features, 1, squared norm, label), then a row of zeros."""
    if not config.standardise and np.isnan(data.features).any():
        raise InputError("Missing features need config.standardise, which fills them in.")
    n_records, n = data.features.shape
    width = round_up(n + EXTRA_COLUMNS, LANES // 2)
    table = _zeros(len(seeds) * n_records + 1, width, device)
    given, labels = (torch.from_numpy(x).to(device) for x in (data.features, data.labels))
    for seed, part in zip(seeds, table[:-1].view(len(seeds), n_records, width), strict=True):
        train = torch.from_numpy(data.train_rows[seed]).to(device) if config.standardise else None
        _fill_part(given, labels, train, part)
    return table


def _fill_part(features: Tensor, labels: Tensor, train: Tensor | None, part: Tensor) -> None:
    """Write a split's records into its part of the table, standardised if ``train`` is given."""
    if not part.is_cuda:
        from pcer.train.cpu import fill_on_cpu

        fill_on_cpu(features, labels, train, part)
        return
    n = features.shape[1]
    found = features if train is None else standardised(features, train)
    part[:, :n] = found
    part[:, n] = 1
    part[:, n + 1] = square(found)[:, 0] + 1
    part[:, n + 2] = labels


def standardised(features: Tensor, train: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1 over the training records; a missing value becomes 0.

    A feature that is constant among the training records is only shifted.
    """
    seen = features[train].double()
    n_known = seen.isnan().logical_not_().sum(dim=0)
    mean = seen.nansum(dim=0) / n_known.clamp(min=1)
    spread = seen.sub_(mean).square_().nansum(dim=0).div_(n_known.clamp(min=1)).sqrt_()
    spread[spread == 0] = 1
    scaled = features.double().sub_(mean).div_(spread).float()
    scaled[:, n_known == 0] = 0
    return scaled.nan_to_num_(nan=0.0)


def initial_state(
    layout: Layout, models: Sequence[Model], device: Device, secret: bytes
) -> FleetState:
    """Each model's initial weights from its own stream, and no momentum."""
    weights = torch.zeros(len(models), layout.width)
    layers = layout.layers(weights)
    for index, model in enumerate(models):
        matrices = initial_weights(_stream(model, Purpose.INITIAL, secret), sizes=layout.sizes)
        for layer, matrix in zip(layers, matrices, strict=True):
            layer.matrix[index].copy_(torch.from_numpy(matrix))
    weights = weights.to(device)
    return FleetState(weights, torch.zeros_like(weights))


def step_rule(
    models: Sequence[Model], config: TrainConfig, expected_batch: int, device: Device
) -> StepRule:
    """Clip and SGD settings; without privacy the clip is infinite."""
    clips = [config.clip_norm if model.is_private else float("inf") for model in models]
    clip = torch.tensor(clips, device=device).view(-1, 1, 1)
    return StepRule(clip, config.learning_rate, config.momentum, expected_batch)


def draw_schedule(
    data: TrainingData,
    models: Sequence[Model],
    slots: Sequence[int],
    config: TrainConfig,
    device: Device,
    secret: bytes,
) -> Schedule:
    """Draw every model's Poisson samples; the same on every device."""
    sampling = config.sampling(data.n_train)
    widths = Widths.of(sampling)
    padding = (max(slots) + 1) * data.n_records
    shape = (sampling.n_steps, len(models), widths.full)
    rows = torch.full(shape, padding, dtype=torch.int32, device=device)
    draw, sizes = _draw_with(device, sampling), []
    records = {s: torch.from_numpy(r).to(device, torch.int32) for s, r in data.train_rows.items()}
    for index, model in enumerate(models):
        own = records[model.seed] + slots[index] * data.n_records
        sizes.append(draw(_stream(model, Purpose.SAMPLING, secret), own, rows[:, index]))
    return Schedule(rows, torch.stack(sizes, dim=1), widths)


def _draw_with(device: Device, sampling: Sampling) -> Draw:
    """How one model's samples are drawn on a device; all draw the same."""
    if device.type == "cpu":
        from pcer.train.cpu import draw_on_cpu

        return partial(draw_on_cpu, sampling)
    from pcer.train.cuda import draw_on_cuda

    return partial(draw_on_cuda, Drawer.on(device, sampling))


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


def batch_sum(fleet: Fleet, weights: Tensor, rows: Tensor) -> Tensor:
    """Clipped sum of the batch of every model, from rows (model, column) of the table."""
    return clipped_sum(fleet.layout, weights, gather(fleet, rows), fleet.rule.clip)


def fit(fleet: Fleet) -> FleetState:
    """Train the block to the last step."""
    if fleet.table.is_cuda:
        from pcer.train.cuda import fit_on_cuda

        return fit_on_cuda(fleet)
    from pcer.train.cpu import fit_on_cpu

    return fit_on_cpu(fleet)


def predict(fleet: Fleet, state: FleetState) -> FloatArray:
    """Logits (model, record) of every model on all records, as standardised for its split."""
    if not fleet.table.is_cuda:
        from pcer.train.cpu import predict_on_cpu

        return predict_on_cpu(fleet, state)
    layers = fleet.layout.layers(state.weights)
    records = torch.arange(fleet.n_records, device=fleet.table.device)
    logits = []
    for part in torch.split(records, CHUNK):
        rows = fleet.slots[:, None] * fleet.n_records + part
        logits.append(activations(layers, gather(fleet, rows).inputs)[-1][..., 0])
    return torch.cat(logits, dim=1).cpu().numpy()


def require_device(device: str) -> None:
    """Raise InputError unless the device can be used here."""
    if device == "cpu" and find_spec("numba") is None:
        raise not_installed("numba", extra="train", needed_by="training on a CPU")
    if device != "cpu" and not torch.cuda.is_available():
        raise InputError(
            f"device {device!r} was asked for, but no CUDA device can be used here; use 'cpu'."
        )


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


def _zeros(n_rows: int, width: int, device: Device) -> Tensor:
    """On a CPU from numpy, which asks for huge pages: rows are read at random."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros((n_rows, width), dtype=np.float32))
    return torch.zeros(n_rows, width, device=device)


def _stream(model: Model, purpose: Purpose, secret: bytes) -> np.random.Philox:
    return stream(seed=model.seed, epsilon=model.epsilon, purpose=purpose, secret=secret)
