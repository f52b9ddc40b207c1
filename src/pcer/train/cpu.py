"""A block of models on a CPU: tables, schedules, noise, and the compiled kernels around them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from pcer.errors import OutputError
from pcer.train import cpu_kernels as kernels
from pcer.train.config import NO_DP, TrainConfig
from pcer.train.engine import Device, Fleet, train_block
from pcer.train.fleet import Float32Array, Model, TrainingData
from pcer.train.step import FleetState, gaussian

CHUNK = 512  # records predicted at a time, or whose norms are computed
LOT = 8  # steps whose noise is drawn at a time


class CpuDevice(Device):
    """One core of this machine."""

    def room(self, n_rows: int, width: int) -> Tensor:
        """Zeros from numpy, which asks for huge pages: rows are read at random."""
        return torch.from_numpy(np.zeros((n_rows, width), dtype=np.float32))

    def fill(
        self, features: Tensor, labels: Tensor, train: Tensor | None, part: Tensor
    ) -> None:
        """Write a split's records into its part of the table."""
        n = features.shape[1]
        given = features.numpy()
        mean = np.zeros(n)
        spread = np.ones(n)
        if train is not None:
            mean, spread = kernels.scale_of(given, train.numpy())
        kernels.fill_table(given, mean, spread, labels.numpy(), part.numpy())

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block to the last step."""
        *_, last = self.states(fleet)
        return last

    def states(self, fleet: Fleet) -> Iterator[FleetState]:
        """The state after each step, which the next one overwrites; gaps collect unread noise."""
        state = FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone())
        weights = state.weights.numpy()
        velocity = state.velocity.numpy()
        table = fleet.table.numpy()
        watch = fleet.watch
        noise = noise_of(fleet)
        rule = kernels.Rule.of(fleet.rule, table.dtype)
        clip = fleet.rule.clip.view(-1).numpy()
        none = np.empty((0, 0), table.dtype)
        bounds = kernels.Bounds(  # views of what the rule of the block overwrites
            none if watch.bounds is None else watch.bounds.numpy(),
            none.astype(np.int32) if watch.until is None else watch.until.numpy(),
            watch.firsts.numpy(),
        )
        batches = fleet.schedule.rows.numpy()
        sizes = fleet.schedule.sizes.numpy()
        room = kernels.Room.of(fleet.layout, batches.shape[2], table.dtype)
        for at, (rows, size) in enumerate(zip(batches, sizes, strict=True)):
            for due in watch.due(at):
                watch.refresh(due, at, self.norm_bins(fleet, state, due.models))
            kernels.advance(
                table,
                rows,
                size,
                rule,
                clip,
                next(noise),
                weights,
                velocity,
                room,
                bounds,
                at,
            )
            yield state

    def norm_bins(self, fleet: Fleet, state: FleetState, models: Tensor) -> Tensor:
        """Norm bins (model, training record) of some private models."""
        table = fleet.table.numpy()
        room = kernels.Room.of(fleet.layout, CHUNK, table.dtype)
        rule = kernels.Rule.of(fleet.rule, table.dtype)
        records = fleet.watch.records.numpy()
        bins = np.empty((len(models), records.shape[1]), dtype=np.uint8)
        firsts = fleet.watch.firsts.tolist()
        clip = fleet.rule.clip.view(-1).numpy()
        for model, out in zip(models.tolist(), bins, strict=True):
            weights = state.weights[model].numpy()
            rows = records[model] + firsts[model]
            kernels.norm_bins(table, rows, rule, clip[model], weights, room, out)
        return torch.from_numpy(bins)

    def predict(self, fleet: Fleet, state: FleetState) -> Float32Array:
        """Logits (model, record) of every model on all records."""
        table = fleet.table.numpy()
        firsts = fleet.watch.firsts.tolist()
        room = kernels.Room.of(fleet.layout, CHUNK, table.dtype)
        logits = np.empty((len(firsts), fleet.watch.n_records), dtype=table.dtype)
        for first, weights, out in zip(firsts, state.weights, logits, strict=True):
            kernels.predict(table, first, weights.numpy(), room, out)
        return logits


def noise_of(fleet: Fleet) -> Iterator[Float32Array]:
    """Noise (model, parameter) on the mean gradients of each step; zero without privacy."""
    words = np.empty((LOT, len(fleet.noise), fleet.layout.width // 2), dtype=np.uint64)
    noise = torch.zeros(LOT, *fleet.start.weights.shape, dtype=fleet.std.dtype)
    while True:
        for model, stream in enumerate(fleet.noise):
            words[:, model] = stream.random_raw(words[:, model].size).reshape(LOT, -1)
        bits = torch.from_numpy(words.view(np.int32))
        gaussian(
            bits, fleet.std / fleet.rule.expected_batch, noise[:, : len(fleet.noise)]
        )
        yield from noise.numpy()


def compile_kernels() -> None:
    """Compile every kernel, or load what was compiled before, by training two tiny models."""
    table = np.ones((8, 2), dtype=np.float32)
    labels = np.arange(8) % 2
    data = TrainingData.of(table, labels, {0: np.arange(6)})
    config = TrainConfig(hidden=(2,), epochs=1, expected_batch=3, rule="held")
    try:
        models = [Model(0, 1.0, 1.0), Model(0, NO_DP, 0.0)]
        train_block(data, models, config, device=CpuDevice())
    except OSError as error:
        raise OutputError(
            f"{error.filename or 'the compiled training step'} cannot be written "
            f"({error.strerror or error}); make room, or name another folder for compiled code in "
            "the environment variable NUMBA_CACHE_DIR."
        ) from None
