"""How does a block train on a CUDA device? A captured step is replayed.

``devices`` imports this where a CUDA device was asked for, and nothing else does:
torch's CUDA builds bring triton. Noise bits come from a kernel that computes Philox
4x64-10 by counter, the bits of numpy's generator. Networks with two hidden layers take
a step in three kernels and two products, the arithmetic of ``step``, fused: what a
record needs between the first layer's product and its gradient stays in registers;
noise, momentum and weights are one pass. Others take the plain path. To add a kernel: a
function here, and its twin in ``step``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from pcer.errors import InputError
from pcer.train import engine
from pcer.train.engine import NORM_CHUNK, Device, Fleet, step
from pcer.train.rules import N_BINS
from pcer.train.step import CLIP_MARGIN, FleetState

# Before the capture, so that libraries allocate what they need outside of it.
WARM_UP_STEPS = 3

COUNTERS = 256  # Philox blocks one program computes

# Pairs of Philox blocks one program turns into noise for 16 parameters each.
UPDATE_COUNTERS = 64

# Of a batch that a program holds at once; batches are padded to a multiple of it.
RECORDS = 16

# Programs that share the batch of a model; their sums are added in one order.
SHARES = 3
NORM_SHARES = 16  # programs that share the records of a model whose norms are computed
WARPS = 2  # warps of a program with hidden layers
HIDDEN_UNITS = (16, 32, 64, 128)  # layer widths that the fused kernels take

_MARGIN = tl.constexpr(CLIP_MARGIN)
_BINS = tl.constexpr(N_BINS)
_TWO_TO_MINUS_31 = tl.constexpr(2.0**-31)
_ANGLE = tl.constexpr(3.141592653589793 * 2.0**-31)


class CudaDevice(Device):
    """One GPU."""

    def words(self, bits: np.random.Philox) -> Callable[[int], Tensor]:
        """The words of a stream that nobody has drawn from, computed on the device."""
        keys = philox_keys([bits]).to(self.place)
        start = torch.zeros(1, dtype=torch.int64, device=self.place)
        return lambda n_words: philox_words(keys, start, n_words)[0]

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block by replaying a captured step, the usual or the wide one."""
        require_full_precision()
        with torch.cuda.device(fleet.table.device):
            loop = CudaStep(fleet)
            widths = fleet.schedule.widths
            usual = loop.captured(widths.usual)
            wide = loop.captured(widths.full)
            loop.reset()
            needs_more = (fleet.schedule.sizes > widths.usual).any(dim=1)
            is_wide = needs_more.tolist()  # the CPU waits for the device
            for step_index, takes_wide in enumerate(is_wide):
                for due in fleet.watch.due(step_index):
                    bins = loop.norm_bins(due.models)
                    fleet.watch.refresh(due, step_index, bins)
                (wide if takes_wide else usual).replay()
            torch.cuda.synchronize()  # the CPU waits for the device
        return loop.state


def philox_words(keys: Tensor, step: Tensor, n_words: int) -> Tensor:
    """64-bit words (model, n_words) that streams with ``keys`` give at a step (1,).

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
    keys = np.array(words, dtype=np.uint64).reshape(-1, 2)
    return torch.from_numpy(keys.view(np.int64))


class CudaStep:
    """The tensors that a captured step, fused where it can be, reads and overwrites."""

    def __init__(self, fleet: Fleet) -> None:
        device = fleet.table.device
        self.fleet = fleet
        self.state = FleetState(
            fleet.start.weights.clone(), fleet.start.velocity.clone()
        )
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
        weights = self.state.weights
        rows = fleet.schedule.rows.index_select(0, self.counter)[0]
        words = philox_words(self.keys, self.counter, fleet.layout.width // 2)
        total = engine.batch_sum(fleet, weights, rows[:, :width], self.counter)
        after = step(fleet, self.state, total, words.view(torch.int32))
        weights.copy_(after.weights)
        self.state.velocity.copy_(after.velocity)


def require_full_precision() -> None:
    """Raise InputError if products may be rounded to TF32 or bf16."""
    if torch.get_float32_matmul_precision() != "highest":
        raise InputError(
            "Products must not be rounded below float32 (rounding could exceed the "
            "sensitivity), but torch.get_float32_matmul_precision() is "
            f"{torch.get_float32_matmul_precision()!r}; set it to 'highest'."
        )


@triton.jit
def philox(key0, key1, counter):  # type: ignore[no-untyped-def]
    """Four 64-bit words of Philox 4x64-10 for every counter.

    They are in the order of numpy's generator. Salmon, Moraes, Dror and Shaw 2011: ten
    rounds of two products, with multipliers m0 and m1, and keys that grow by w0 and w1.
    """
    zero = counter ^ counter
    key0 = key0 + zero
    key1 = key1 + zero
    c0 = counter
    c1 = zero
    c2 = zero
    c3 = zero
    m0 = zero + 0xD2E7470EE14C6C93
    m1 = zero + 0xCA5A826395121157
    w0 = zero + 0x9E3779B97F4A7C15
    w1 = zero + 0xBB67AE8584CAA73B
    for _ in tl.static_range(10):
        high0 = tl.umulhi(m0, c0)
        high1 = tl.umulhi(m1, c2)
        low0 = m0 * c0
        low1 = m1 * c2
        c0 = high1 ^ c1 ^ key0
        c1 = low1
        c2 = high0 ^ c3 ^ key1
        c3 = low0
        key0 += w0
        key1 += w1
    return c0, c1, c2, c3


@triton.jit
def philox_kernel(keys, step, out, counters_per_row, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write four 64-bit words for every counter of a row (a model) at a step."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = block < counters_per_row
    key0 = tl.load(keys + 2 * row).to(tl.uint64, bitcast=True)
    key1 = tl.load(keys + 2 * row + 1).to(tl.uint64, bitcast=True)
    counter = (tl.load(step) * counters_per_row + block + 1).to(tl.uint64)
    c0, c1, c2, c3 = philox(key0, key1, counter)
    place = out + (row * counters_per_row + block) * 4
    tl.store(place, c0.to(tl.int64, bitcast=True), mask=inside)
    tl.store(place + 1, c1.to(tl.int64, bitcast=True), mask=inside)
    tl.store(place + 2, c2.to(tl.int64, bitcast=True), mask=inside)
    tl.store(place + 3, c3.to(tl.int64, bitcast=True), mask=inside)


@triton.jit
def gather_kernel(  # type: ignore[no-untyped-def]
    table,
    rows,
    step,
    out,
    n_models,
    full,
    n_columns,
    width,
    R: tl.constexpr,
    C: tl.constexpr,
):
    """Copy the records of every model's batch at a step from the table."""
    model = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    record = tile * R + tl.arange(0, R)
    column = tl.arange(0, C)
    inside = (record < n_columns)[:, None] & (column < width)[None, :]
    line = rows + (tl.load(step) * n_models + model) * full
    source = tl.load(line + record, mask=record < n_columns, other=0).to(tl.int64)
    values = tl.load(table + source[:, None] * width + column[None, :], mask=inside)
    place = (model * n_columns + record)[:, None] * width + column[None, :]
    tl.store(out + place, values, mask=inside)


@triton.jit
def both_ways(  # type: ignore[no-untyped-def]
    hidden1, matrix, bias, last, last_bias, drawn, input_square, label
):
    """From the first layer's activations to signals and squared norms.

    Those of ``step``: ``matrix`` and ``bias`` are the second layer, ``last`` and
    ``last_bias`` the third; ``drawn`` is 0 for padding, and ``input_square`` is the
    squared norm of a record and a 1.
    """
    hidden2 = tl.dot(hidden1, matrix, input_precision="ieee") + bias[None, :]
    hidden2 = tl.maximum(hidden2, 0.0)
    logit = tl.sum(hidden2 * last[None, :], axis=1) + last_bias
    residual = (1.0 / (1.0 + libdevice.exp(-logit)) - label) * drawn
    signal2 = tl.where(hidden2 > 0, residual[:, None] * last[None, :], 0.0)
    signal1 = tl.dot(signal2, tl.trans(matrix), input_precision="ieee")
    signal1 = tl.where(hidden1 > 0, signal1, 0.0)
    square = tl.sum(signal1 * signal1, axis=1) * input_square
    square += (tl.sum(hidden1 * hidden1, axis=1) + 1) * tl.sum(
        signal2 * signal2, axis=1
    )
    square += (tl.sum(hidden2 * hidden2, axis=1) + 1) * residual * residual
    return hidden2, residual, signal2, signal1, square


@triton.jit
def norm_kernel(  # type: ignore[no-untyped-def]
    batch, first, weights, clip, bins,
    n_columns, width, n_inputs, n_parameters, start2, start3, bins_per_model,
    H1: tl.constexpr, H2: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """From the first layer's product to the bins of clipped gradient norms."""
    model = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    unit1 = tl.arange(0, H1)
    unit2 = tl.arange(0, H2)
    lane = tl.arange(0, R)
    parameters = weights + model * n_parameters
    matrix = tl.load(parameters + start2 + unit1[:, None] * H2 + unit2[None, :])
    bias = tl.load(parameters + start2 + H1 * H2 + unit2)
    last = tl.load(parameters + start3 + unit2)
    last_bias = tl.load(parameters + start3 + H2)
    limit = tl.load(clip + model)
    for start in range(share * R, n_columns, R * tl.num_programs(1)):
        column = start + lane
        inside = column < n_columns
        record = model * n_columns + column
        after_inputs = batch + record * width + n_inputs
        drawn = tl.load(after_inputs, mask=inside, other=0.0)
        input_square = tl.load(after_inputs + 1, mask=inside, other=0.0)
        label = tl.load(after_inputs + 2, mask=inside, other=0.0)
        place = first + record[:, None] * H1 + unit1[None, :]
        hidden1 = tl.maximum(tl.load(place, mask=inside[:, None], other=0.0), 0.0)
        _hidden2, _residual, _signal2, _signal1, square = both_ways(
            hidden1, matrix, bias, last, last_bias, drawn, input_square, label
        )
        norm = tl.sqrt_rn(square)
        clipped = norm * tl.minimum(limit / (norm + _MARGIN), 1.0)
        rounded = tl.ceil(clipped.to(tl.float64) * _BINS / limit.to(tl.float64))
        # What is no number counts as clipped.
        rounded = tl.where(rounded <= _BINS, rounded, _BINS)
        out = bins + model * bins_per_model + column
        tl.store(out, rounded.to(tl.int32).to(tl.uint8), mask=inside)


@triton.jit
def hidden_kernel(  # type: ignore[no-untyped-def]
    batch, first, weights, clip, tail,
    n_columns, width, n_inputs, n_parameters, start2, start3,
    H1: tl.constexpr, H2: tl.constexpr, R: tl.constexpr, CLIP_PER_RECORD: tl.constexpr,
):  # fmt: skip
    """From the first layer's product to the clipped signals of every record.

    Overwrites ``first`` with the first layer's signals, scaled by the clip factor, and
    writes the clipped sums of the other two layers to ``tail``. A program has some
    records of one model. ``clip`` has a bound for each model, or, with
    ``CLIP_PER_RECORD``, for each record of the batches.
    """
    model = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    unit1 = tl.arange(0, H1)
    unit2 = tl.arange(0, H2)
    lane = tl.arange(0, R)
    parameters = weights + model * n_parameters
    matrix = tl.load(parameters + start2 + unit1[:, None] * H2 + unit2[None, :])
    bias = tl.load(parameters + start2 + H1 * H2 + unit2)
    last = tl.load(parameters + start3 + unit2)
    last_bias = tl.load(parameters + start3 + H2)
    limit = tl.load(clip + model)
    sum2 = tl.zeros((H1, H2), tl.float32)
    bias2 = tl.zeros((H2,), tl.float32)
    sum3 = tl.zeros((H2,), tl.float32)
    bias3 = tl.zeros((R,), tl.float32)
    for start in range(share * R, n_columns, R * tl.num_programs(1)):
        record = model * n_columns + start + lane
        after_inputs = batch + record * width + n_inputs
        drawn = tl.load(after_inputs)
        input_square = tl.load(after_inputs + 1)
        label = tl.load(after_inputs + 2)
        place = first + record[:, None] * H1 + unit1[None, :]
        hidden1 = tl.maximum(tl.load(place), 0.0)
        hidden2, residual, signal2, signal1, square = both_ways(
            hidden1, matrix, bias, last, last_bias, drawn, input_square, label
        )
        bound = tl.load(clip + record) if CLIP_PER_RECORD else limit
        factor = tl.minimum(bound / (tl.sqrt_rn(square) + _MARGIN), 1.0)
        tl.store(place, signal1 * factor[:, None])
        signal2 = signal2 * factor[:, None]
        residual = residual * factor
        sum2 += tl.dot(tl.trans(hidden1), signal2, input_precision="ieee")
        bias2 += tl.sum(signal2, axis=0)
        sum3 += tl.sum(hidden2 * residual[:, None], axis=0)
        bias3 += residual
    out = tail + (share * tl.num_programs(0) + model) * (n_parameters - start2)
    tl.store(out + unit1[:, None] * H2 + unit2[None, :], sum2)
    tl.store(out + H1 * H2 + unit2, bias2)
    tl.store(out + start3 - start2 + unit2, sum3)
    tl.store(out + start3 - start2 + H2, tl.sum(bias3, axis=0))


@triton.jit
def numbers(c0, c1, c2, c3, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The words' 32-bit halves as signed numbers, in the order of memory."""
    words = tl.join(tl.join(c0, c2), tl.join(c1, c3)).reshape(SIZE * 4)
    halves = tl.join(words, words >> 32).reshape(SIZE * 8)
    return halves.to(tl.uint32).to(tl.int32, bitcast=True).to(tl.float32)


@triton.jit
def move(  # type: ignore[no-untyped-def]
    weights, velocity, head, tail, place, inside, noise, n_parameters, start2,
    tail_stride, momentum, scale, rate, SHARES: tl.constexpr,
):  # fmt: skip
    """Momentum and weight of the parameters at some places, from their noisy sums.

    The sums of the first layer are in ``head``, and the others', one for each share,
    in ``tail``.
    """
    total = noise + tl.load(head + place, mask=inside & (place < start2), other=0.0)
    for share in tl.static_range(SHARES):
        part = tail + share * tail_stride + place - start2
        total += tl.load(part, mask=inside & (place >= start2), other=0.0)
    speed = tl.load(velocity + place, mask=inside) * momentum + total * scale
    tl.store(velocity + place, speed, mask=inside)
    weight = tl.load(weights + place, mask=inside) - rate * speed
    tl.store(weights + place, weight, mask=inside)


@triton.jit
def update_kernel(  # type: ignore[no-untyped-def]
    weights, velocity, head, tail, keys, std, step, n_private, n_parameters, start2,
    momentum, scale, rate, SHARES: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Noise by Box and Muller as in ``step.gaussian``, momentum, weights.

    Half of a row has the cosines, the other half the sines.
    """
    model = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1).to(tl.int64) * SIZE
    per_half = n_parameters // 16
    weights += model * n_parameters
    velocity += model * n_parameters
    head += model * start2
    tail += model * (n_parameters - start2)
    tail_stride = tl.num_programs(0) * (n_parameters - start2)
    private = model < n_private
    key0 = tl.load(keys + 2 * model, mask=private, other=0).to(tl.uint64, bitcast=True)
    key1 = tl.load(keys + 2 * model + 1, mask=private, other=0).to(
        tl.uint64, bitcast=True
    )
    spread = tl.load(std + model, mask=private, other=0.0)
    counter = tl.load(step) * (2 * per_half) + first + tl.arange(0, SIZE) + 1
    c0, c1, c2, c3 = philox(key0, key1, counter.to(tl.uint64))
    uniform = (tl.abs(numbers(c0, c1, c2, c3, SIZE)) + 0.5) * _TWO_TO_MINUS_31
    c0, c1, c2, c3 = philox(key0, key1, (counter + per_half).to(tl.uint64))
    angle = numbers(c0, c1, c2, c3, SIZE) * _ANGLE
    radius = tl.sqrt_rn(libdevice.log(uniform) * (-2 * spread * spread))
    place = first * 8 + tl.arange(0, SIZE * 8)
    inside = place < n_parameters // 2
    move(weights, velocity, head, tail, place, inside,
         radius * libdevice.cos(angle), n_parameters, start2, tail_stride,
         momentum, scale, rate, SHARES)  # fmt: skip
    move(weights, velocity, head, tail, place + n_parameters // 2, inside,
         radius * libdevice.sin(angle), n_parameters, start2, tail_stride,
         momentum, scale, rate, SHARES)  # fmt: skip


def can_fuse(fleet: Fleet) -> bool:
    """Whether the networks have two hidden layers of widths that the kernels take."""
    _, *hidden, _ = fleet.layout.sizes
    return len(hidden) == 2 and all(units in HIDDEN_UNITS for units in hidden)


def gather_batch(
    table: Tensor, rows: Tensor, counter: Tensor, n_columns: int
) -> Tensor:
    """Records (model, column, table column) of a step, from ``rows`` of all steps."""
    _, n_models, _ = rows.shape
    width = table.shape[1]
    batch = table.new_empty(n_models, n_columns, width)
    columns = triton.next_power_of_2(width)
    records = max(1, 4096 // columns)
    grid = (n_models, triton.cdiv(n_columns, records))
    gather_kernel[grid](
        table, rows, counter, batch, n_models, rows.stride(1), n_columns, width,
        R=records, C=columns,
    )  # fmt: skip
    return batch


def fused_norm_bins(fleet: Fleet, weights: Tensor, models: Tensor) -> Tensor:
    """Norm bins (model, training record) uint8 of some private models."""
    watch = fleet.watch
    weights = weights.index_select(0, models)
    rows = (watch.records[models] + watch.firsts[models, None]).int()
    clip = fleet.rule.clip.reshape(-1).index_select(0, models)
    bins = torch.empty(rows.shape, dtype=torch.uint8, device=rows.device)
    # The rows are those of one step.
    step = torch.zeros(1, dtype=torch.int64, device=rows.device)
    n_inputs, h1, h2, _ = fleet.layout.sizes
    _, start2, start3, _ = fleet.layout.starts
    matrix = fleet.layout.layers(weights)[0]
    for start in range(0, rows.shape[1], NORM_CHUNK):
        part = rows[:, start : start + NORM_CHUNK]
        n_models, n_columns = part.shape
        batch = gather_batch(fleet.table, part[None], step, n_columns)
        norm_kernel[(n_models, NORM_SHARES)](
            batch, torch.bmm(batch[..., : n_inputs + 1], matrix), weights, clip,
            bins[:, start:], n_columns, batch.shape[2], n_inputs, weights.shape[1],
            start2, start3, bins.stride(0), H1=h1, H2=h2, R=RECORDS, num_warps=WARPS,
        )  # fmt: skip
    return bins


class FusedStep:
    """The tensors that a fused step reads and overwrites."""

    def __init__(self, fleet: Fleet, keys: Tensor) -> None:
        self.fleet = fleet
        self.keys = keys
        self.std = fleet.std.reshape(-1).contiguous()
        self.clip = fleet.rule.clip.reshape(-1).contiguous()
        # Room for the sums of the later layers; the gaps between layers stay zero.
        width = fleet.layout.width - fleet.layout.starts[1]
        weights = fleet.start.weights
        self.tail = weights.new_zeros(SHARES, len(weights), width)

    def advance(self, state: FleetState, counter: Tensor, n_columns: int) -> None:
        """One step of every model, in place, with so many columns of the batches."""
        fleet = self.fleet
        rule = fleet.rule
        weights = state.weights
        n_models, n_parameters = weights.shape
        n_inputs, h1, h2, _ = fleet.layout.sizes
        _, start2, start3, _ = fleet.layout.starts
        batch = gather_batch(fleet.table, fleet.schedule.rows, counter, n_columns)
        inputs = batch[..., : n_inputs + 1]
        signal = torch.bmm(inputs, fleet.layout.layers(weights)[0])
        clip = self.clip  # of every model (model,), or of every record (model, column)
        if fleet.watch.bounds is not None:
            rows = fleet.schedule.rows.index_select(0, counter)[0, :, :n_columns]
            clip = fleet.watch.limits(rows, counter)[..., 0].contiguous()

        # The product becomes clipped signals, the tail sums.
        hidden_kernel[(n_models, SHARES)](
            batch, signal, weights, clip, self.tail,
            n_columns, batch.shape[2], n_inputs, n_parameters, start2, start3,
            H1=h1, H2=h2, R=RECORDS, CLIP_PER_RECORD=clip.ndim == 2, num_warps=WARPS,
        )  # fmt: skip

        head = torch.bmm(inputs.mT, signal)
        grid = (n_models, triton.cdiv(n_parameters // 16, UPDATE_COUNTERS))
        update_kernel[grid](
            weights, state.velocity, head, self.tail, self.keys, self.std, counter,
            len(self.keys), n_parameters, start2,
            rule.momentum, 1 / rule.expected_batch, rule.learning_rate,
            SHARES=SHARES, SIZE=UPDATE_COUNTERS,
        )  # fmt: skip
