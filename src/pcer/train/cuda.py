"""The training loop on a CUDA device: a captured step, replayed.

The noise bits come from a kernel that computes Philox 4x64-10 by counter, the same bits numpy's
generator gives in order; so the schedules are those of the CPU and the weights agree to rounding.
Import this only where there is a CUDA device: torch's CUDA builds bring triton, the others do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import triton
from torch import Tensor

from pcer.errors import InputError
from pcer.train import engine
from pcer.train.cuda_step import COUNTERS, FusedStep, can_fuse, fused_norm_bins, philox_kernel
from pcer.train.engine import Fleet, step
from pcer.train.step import FleetState

WARM_UP_STEPS = 3  # before the capture, so that libraries allocate what they need outside of it


@dataclass(frozen=True)
class CudaDevice:
    """One GPU: an ``engine.Device``."""

    place: torch.device

    fill = staticmethod(engine.fill_plainly)
    predict = staticmethod(engine.predict_plainly)

    def room(self, n_rows: int, width: int) -> Tensor:
        """Zeros for the table of records."""
        return torch.zeros(n_rows, width, device=self.place)

    def words(self, bits: np.random.Philox) -> Callable[[int], Tensor]:
        """The words of a stream that nobody has drawn from, computed on the device."""
        keys = philox_keys([bits]).to(self.place)
        start = torch.zeros(1, dtype=torch.int64, device=self.place)
        return lambda n_words: philox_words(keys, start, n_words)[0]

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block by replaying a captured step, the usual or the wide one."""
        require_full_precision()
        with torch.cuda.device(fleet.table.device):
            loop, widths = CudaStep(fleet), fleet.schedule.widths
            usual, wide = (loop.captured(width) for width in (widths.usual, widths.full))
            loop.reset()
            for at, is_wide in enumerate(fleet.schedule.wide_steps()):
                for due in fleet.watch.due(at):
                    fleet.watch.refresh(due, at, loop.norm_bins(due.models))
                (wide if is_wide else usual).replay()
            torch.cuda.synchronize()  # the CPU waits for the device
        return loop.state


def philox_words(keys: Tensor, step: Tensor, n_words: int) -> Tensor:
    """64-bit words (model, n_words) that streams with keys (model, 2) give at a step (1,).

    ``n_words`` is a multiple of 4, and so many were drawn at each step before.
    """
    out = torch.empty(len(keys), n_words, dtype=torch.int64, device=keys.device)
    if len(keys):
        grid = (len(keys), triton.cdiv(n_words // 4, COUNTERS))
        philox_kernel[grid](keys, step, out, n_words // 4, SIZE=COUNTERS)
    return out


def philox_keys(generators: list[np.random.Philox]) -> Tensor:
    """The keys (model, 2) of some streams, as int64."""
    words = [generator.state["state"]["key"] for generator in generators]
    return torch.from_numpy(np.array(words, dtype=np.uint64).reshape(-1, 2).view(np.int64))


class CudaStep:
    """The tensors that a captured step reads and overwrites; fused where the network allows it."""

    def __init__(self, fleet: Fleet) -> None:
        device = fleet.table.device
        self.fleet = fleet
        self.state = FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone())
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        self.keys = philox_keys(fleet.noise).to(device)
        self.fused = FusedStep(fleet, self.keys) if can_fuse(fleet) else None

    def reset(self) -> None:
        """Go back to the start, in place."""
        self.state.weights.copy_(self.fleet.start.weights)
        self.state.velocity.copy_(self.fleet.start.velocity)
        self.counter.zero_()

    def norm_bins(self, models: Tensor) -> Tensor:
        """Norm bins (model, training record) of some private models."""
        bins = engine.norm_bins_plainly if self.fused is None else fused_norm_bins
        return bins(self.fleet, self.state.weights, models)

    def captured(self, width: int) -> torch.cuda.CUDAGraph:
        """A step of so many columns, to be replayed."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(min(WARM_UP_STEPS, len(self.fleet.schedule.rows))):
                self.advance(width)
            self.reset()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.advance(width)
        return graph

    def advance(self, width: int) -> None:
        """One step of every model, in place, with so many columns of the batches."""
        if self.fused is not None:
            self.fused.advance(self.state, self.counter, width)
        else:
            self.advance_plainly(width)
        self.counter.add_(1)

    def advance_plainly(self, width: int) -> None:
        """Change the state as a step does, for a network of any shape."""
        fleet = self.fleet
        rows = fleet.schedule.rows.index_select(0, self.counter)[0]
        bits = philox_words(self.keys, self.counter, fleet.layout.width // 2).view(torch.int32)
        total = engine.batch_sum(fleet, self.state.weights, rows[:, :width], self.counter)
        after = step(fleet, self.state, total, bits)
        self.state.weights.copy_(after.weights)
        self.state.velocity.copy_(after.velocity)


def require_full_precision() -> None:
    """Raise InputError if products may be rounded to TF32 or bf16."""
    if torch.get_float32_matmul_precision() != "highest":
        raise InputError(
            "Products must not be rounded below float32 (rounding could exceed the sensitivity), "
            "but torch.get_float32_matmul_precision() is "
            f"{torch.get_float32_matmul_precision()!r}; set it to 'highest'."
        )
