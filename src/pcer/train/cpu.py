"""A block of models on a CPU: tables, schedules, noise, and the compiled kernels around them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pcer.errors import OutputError
from pcer.train import cpu_kernels as kernels
from pcer.train.config import NO_DP, TrainConfig
from pcer.train.engine import Fleet, train_block
from pcer.train.fleet import Float32Array, Model, TrainingData
from pcer.train.step import FleetState, gaussian
from pcer.train.streams import first_words

CHUNK = 512  # records predicted at a time, or whose norms are computed
LOT = 8  # steps whose noise is drawn at a time


class CpuDevice:
    """One core of this machine: an ``engine.Device``."""

    place = torch.device("cpu")
    words = staticmethod(first_words)

    def room(self, n_rows: int, width: int) -> Tensor:
        """Zeros from numpy, which asks for huge pages: rows are read at random."""
        return torch.from_numpy(np.zeros((n_rows, width), dtype=np.float32))

    def fill(self, features: Tensor, labels: Tensor, train: Tensor | None, part: Tensor) -> None:
        """Write a split's records into its part of the table."""
        n, given = features.shape[1], features.numpy()
        mean, spread = np.zeros(n), np.ones(n)
        if train is not None:
            mean, spread = kernels.scale_of(given, train.numpy())
        kernels.fill_table(given, mean, spread, labels.numpy(), part.numpy())

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block to the last step."""
        loop = CpuStep(fleet)
        for rows, sizes in zip(fleet.schedule.rows, fleet.schedule.sizes, strict=True):
            loop.advance(rows, sizes)
        return loop.state

    def norm_bins(self, fleet: Fleet, state: FleetState, models: Tensor) -> Tensor:
        """Norm bins (model, training record) of some private models."""
        table = fleet.table.numpy()
        room = kernels.Room.of(fleet.layout, CHUNK, table.dtype)
        rule = kernels.Rule.of(fleet.rule, table.dtype)
        records = fleet.watch.records.numpy()
        bins = np.empty((len(models), records.shape[1]), dtype=np.uint8)
        firsts, clip = fleet.watch.firsts.tolist(), fleet.rule.clip.view(-1).numpy()
        for model, out in zip(models.tolist(), bins, strict=True):
            weights, rows = state.weights[model].numpy(), records[model] + firsts[model]
            kernels.norm_bins(table, rows, rule, clip[model], weights, room, out)
        return torch.from_numpy(bins)

    def predict(self, fleet: Fleet, state: FleetState) -> Float32Array:
        """Logits (model, record) of every model on all records."""
        table = fleet.table.numpy()
        room = kernels.Room.of(fleet.layout, CHUNK, table.dtype)
        logits = np.empty((len(fleet.slots), fleet.n_records), dtype=table.dtype)
        for slot, weights, out in zip(fleet.slots.tolist(), state.weights, logits, strict=True):
            kernels.predict(table, slot * fleet.n_records, weights.numpy(), room, out)
        return logits


def compile_kernels() -> None:
    """Compile every kernel, or load what was compiled before, by training two tiny models."""
    table, labels = np.ones((8, 2), dtype=np.float32), np.arange(8) % 2
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


class CpuStep:
    """The state of a block, and the step that overwrites it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.state = FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone())
        self.table = fleet.table.numpy()
        none, watch = np.empty((0, 0), self.table.dtype), fleet.watch
        self.rule = kernels.Rule.of(fleet.rule, self.table.dtype)
        self.bounds = kernels.Bounds(  # views of what the rule of the block overwrites
            none if watch.bounds is None else watch.bounds.numpy(),
            none.astype(np.int32) if watch.until is None else watch.until.numpy(),
            watch.firsts.numpy(),
        )
        self.clip = fleet.rule.clip.reshape(-1).numpy()
        self.words = np.empty((LOT, len(fleet.noise), fleet.layout.width // 2), dtype=np.uint64)
        self.noise = torch.zeros(LOT, *self.state.weights.shape, dtype=fleet.std.dtype)
        self.std, self.n_done = fleet.std / fleet.rule.expected_batch, 0
        n_columns = fleet.schedule.rows.shape[2]
        self.room = kernels.Room.of(fleet.layout, n_columns, self.table.dtype)

    def advance(self, rows: Tensor, sizes: Tensor) -> None:
        """One step of every model, with the norms before it where they are wanted.

        Batches (model, column) are rows of the table, so many (model,) from the left. The gaps
        between layers collect noise that nothing reads.
        """
        for due in self.fleet.watch.due(self.n_done):
            bins = CpuDevice().norm_bins(self.fleet, self.state, due.models)
            self.fleet.watch.refresh(due, self.n_done, bins)
        if self.n_done % LOT == 0:
            self._draw_noise()
        kernels.advance(
            self.table, rows.numpy(), sizes.numpy(), self.rule, self.clip,
            self.noise[self.n_done % LOT].numpy(), self.state.weights.numpy(),
            self.state.velocity.numpy(), self.room, self.bounds, self.n_done,
        )  # fmt: skip
        self.n_done += 1

    def _draw_noise(self) -> None:
        """Every private model's noise on its mean gradient, of the next steps."""
        n_steps, n_models, half = self.words.shape
        for model, stream in enumerate(self.fleet.noise):
            self.words[:, model] = stream.random_raw(n_steps * half).reshape(n_steps, half)
        bits = torch.from_numpy(self.words.view(np.int32))
        gaussian(bits, self.std, self.noise[:, :n_models])
