"""How does a block of models train on one core of this machine?

``CpuDevice`` hands the tensors of a block to the compiled kernels of ``cpu_kernels``,
as numpy arrays that share their memory. ``devices.choose_device`` makes it, and
``run.prepare`` compiles the kernels beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcer.errors import OutputError
from pcer.train import cpu_kernels as kernels
from pcer.train.config import NO_DP, TrainConfig
from pcer.train.cpu_kernels import Array
from pcer.train.engine import Device, Fleet, train_block
from pcer.train.fleet import Float32Array, Model, TrainingData
from pcer.train.step import FleetState, gaussian
from pcer.train.watch import Watch

CHUNK = 512  # records predicted at a time, or whose norms are computed
LOT = 8  # steps whose noise is drawn at a time


class CpuDevice(Device):
    """One core of this machine."""

    def zero_table(self, n_rows: int, width: int) -> Tensor:
        """Zeros from numpy, which asks for huge pages: rows are read at random."""
        return torch.from_numpy(np.zeros((n_rows, width), dtype=np.float32))

    def fill(
        self, features: Tensor, labels: Tensor, train: Tensor | None, part: Tensor
    ) -> None:
        """Write a split's records into its part of the table."""
        raw = features.numpy()
        mean = np.zeros(raw.shape[1])
        spread = np.ones(raw.shape[1])
        if train is not None:
            mean, spread = kernels.scale_of(raw, train.numpy())
        kernels.fill_table(raw, mean, spread, labels.numpy(), part.numpy())

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block to the last step."""
        *_, last = self.states(fleet)
        return last

    def states(self, fleet: Fleet) -> Iterator[FleetState]:
        """The state after each step, which the next one overwrites.

        Gaps between layers, which nothing reads, collect noise.
        """
        state = FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone())
        advance = _compiled_step(fleet, state)
        noise = noise_of(fleet)
        batches = fleet.schedule.rows.numpy()
        sizes = fleet.schedule.sizes.numpy()
        for step, (rows, n_records) in enumerate(zip(batches, sizes, strict=True)):
            for due in fleet.watch.due(step):
                bins = self.norm_bins(fleet, state, due.models)
                fleet.watch.refresh(due, step, bins)
            advance(rows, n_records, next(noise), step)
            yield state

    def norm_bins(self, fleet: Fleet, state: FleetState, models: Tensor) -> Tensor:
        """Norm bins (model, training record) of some private models."""
        table = fleet.table.numpy()
        room = kernels.Room.of(fleet.layout, CHUNK, table.dtype)
        rule = kernels.Rule.of(fleet.rule, table.dtype)
        clip = fleet.rule.clip.view(-1).numpy()
        rows = fleet.watch.records[models] + fleet.watch.firsts[models, None]
        bins = np.empty(rows.shape, dtype=np.uint8)
        for index, model in enumerate(models.tolist()):
            weights = state.weights[model].numpy()
            own_rows = rows[index].numpy()
            kernels.norm_bins(
                table, own_rows, rule, clip[model], weights, room, bins[index]
            )
        return torch.from_numpy(bins)

    def predict(self, fleet: Fleet, state: FleetState) -> Float32Array:
        """Logits (model, record) of every model on all records."""
        table = fleet.table.numpy()
        room = kernels.Room.of(fleet.layout, CHUNK, table.dtype)
        firsts = fleet.watch.firsts.tolist()
        logits = np.empty((len(firsts), fleet.watch.n_records), dtype=table.dtype)
        for first, weights, out in zip(firsts, state.weights, logits, strict=True):
            kernels.predict(table, first, weights.numpy(), room, out)
        return logits


def _compiled_step(
    fleet: Fleet, state: FleetState
) -> Callable[[Array, Array, Array, int], None]:
    """A function that takes a step of every model, in place.

    It takes the step's rows (model, column), how many of them are records (model,), the
    noise (model, parameter), and which step it is.
    """
    table = fleet.table.numpy()
    weights = state.weights.numpy()
    velocity = state.velocity.numpy()
    rule = kernels.Rule.of(fleet.rule, table.dtype)
    clip = fleet.rule.clip.view(-1).numpy()
    room = kernels.Room.of(fleet.layout, fleet.schedule.rows.shape[2], table.dtype)
    bounds = _bounds(fleet.watch, table.dtype)

    def advance(rows: Array, n_records: Array, noise: Array, step: int) -> None:
        kernels.advance(
            table,
            rows,
            n_records,
            rule,
            clip,
            noise,
            weights,
            velocity,
            room,
            bounds,
            step,
        )

    return advance


def _bounds(watch: Watch, dtype: np.dtype[Any]) -> kernels.Bounds:
    """Views of what the rule of the block overwrites while it trains."""
    clip = np.empty((0, 0), dtype)
    until = np.empty((0, 0), np.int32)
    if watch.bounds is not None:
        clip = watch.bounds.numpy()
    if watch.until is not None:
        until = watch.until.numpy()
    return kernels.Bounds(clip, until, watch.firsts.numpy())


def noise_of(fleet: Fleet) -> Iterator[Float32Array]:
    """Noise (model, parameter) on the mean gradients, step by step.

    Zero without privacy. Each array is overwritten after ``LOT`` steps.
    """
    n_private = len(fleet.noise)
    std = fleet.std / fleet.rule.expected_batch
    words = np.empty((LOT, n_private, fleet.layout.width // 2), dtype=np.uint64)
    noise = torch.zeros(LOT, *fleet.start.weights.shape, dtype=fleet.std.dtype)
    while True:
        for model, stream in enumerate(fleet.noise):
            words[:, model] = stream.random_raw(words[:, model].size).reshape(LOT, -1)
        bits = torch.from_numpy(words.view(np.int32))
        gaussian(bits, std, noise[:, :n_private])
        yield from noise.numpy()


def compile_kernels() -> None:
    """Compile every kernel, or load its code, by training two tiny models."""
    features = np.ones((8, 2), dtype=np.float32)
    labels = np.arange(8) % 2
    data = TrainingData.of(features, labels, {0: np.arange(6)})
    config = TrainConfig(hidden=(2,), epochs=1, expected_batch=3, rule="held")
    try:
        models = [Model(0, 1.0, 1.0), Model(0, NO_DP, 0.0)]
        train_block(data, models, config, device=CpuDevice())
    except OSError as error:
        raise OutputError(
            f"{error.filename or 'the compiled training step'} cannot be written "
            f"({error.strerror or error}); make room, or name another folder for "
            "compiled code in the environment variable NUMBA_CACHE_DIR."
        ) from None
