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
from pcer.train.cuda_step import COUNTERS, FusedNorms, FusedStep, can_fuse, philox_kernel
from pcer.train.engine import (
    Fleet,
    batch_sum,
    fill_plainly,
    norm_bins_plainly,
    predict_plainly,
    step,
)
from pcer.train.step import FleetState

WARM_UP_STEPS = 3  # before the capture, so that libraries allocate what they need outside of it


@dataclass(frozen=True)
class CudaDevice:
    """One GPU: an ``engine.Device``."""

    place: torch.device

    fill = staticmethod(fill_plainly)
    predict = staticmethod(predict_plainly)

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
            held, widths = _hold(fleet), fleet.schedule.widths
            usual, wide = (_capture(fleet, held, width) for width in (widths.usual, widths.full))
            held.reset(fleet.start)
            for at, is_wide in enumerate(fleet.schedule.wide_steps()):
                for due in fleet.watch.due(at):
                    fleet.watch.refresh(due, at, _norm_bins(fleet, held, due.models))
                (wide if is_wide else usual).replay()
            torch.cuda.synchronize()  # the CPU waits for the device
        return held.state


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


@dataclass(frozen=True)
class _Replayed:
    """The tensors a captured step reads and overwrites; fused where the network allows it."""

    state: FleetState
    counter: Tensor
    keys: Tensor
    fused: FusedStep | None
    norms: FusedNorms | None

    def reset(self, start: FleetState) -> None:
        self.state.weights.copy_(start.weights)
        self.state.velocity.copy_(start.velocity)
        self.counter.zero_()


def _norm_bins(fleet: Fleet, held: _Replayed, models: Tensor) -> Tensor:
    if held.norms is None:
        return norm_bins_plainly(fleet, held.state.weights, models)
    return held.norms.bins(held.state.weights, models)


def _hold(fleet: Fleet) -> _Replayed:
    device = fleet.table.device
    keys = philox_keys(fleet.noise).to(device)
    return _Replayed(
        FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone()),
        torch.zeros(1, dtype=torch.int64, device=device),
        keys,
        FusedStep.of(fleet, keys) if can_fuse(fleet) else None,
        FusedNorms.of(fleet) if can_fuse(fleet) and fleet.watch.rounds else None,
    )


def require_full_precision() -> None:
    """Raise InputError if products may be rounded to TF32 or bf16."""
    if torch.get_float32_matmul_precision() != "highest":
        raise InputError(
            "Products must not be rounded below float32 (rounding could exceed the sensitivity), "
            "but torch.get_float32_matmul_precision() is "
            f"{torch.get_float32_matmul_precision()!r}; set it to 'highest'."
        )


def _capture(fleet: Fleet, held: _Replayed, width: int) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(min(WARM_UP_STEPS, len(fleet.schedule.rows))):
            _advance(fleet, held, width)
        held.reset(fleet.start)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _advance(fleet, held, width)
    return graph


def _advance(fleet: Fleet, held: _Replayed, width: int) -> None:
    if held.fused is not None:
        held.fused.advance(held.state, held.counter, width)
    else:
        _advance_plainly(fleet, held, width)
    held.counter.add_(1)


def _advance_plainly(fleet: Fleet, held: _Replayed, width: int) -> None:
    rows = fleet.schedule.rows.index_select(0, held.counter)[0]
    bits = philox_words(held.keys, held.counter, fleet.layout.width // 2).view(torch.int32)
    total = batch_sum(fleet, held.state.weights, rows[:, :width], held.counter)
    after = step(fleet, held.state, total, bits)
    held.state.weights.copy_(after.weights)
    held.state.velocity.copy_(after.velocity)
