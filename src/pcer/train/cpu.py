"""How does a block of models train on one core of this machine?

``devices`` makes the ``CpuDevice``, which hands tensors to compiled kernels as numpy
arrays that share their memory. They compute the same as ``step``, to rounding, one
model at a time, so that all it touches stays in the cache; units are rows and records
columns, and no batch is padded. In loops r is a record, u a unit of a layer, k a
feature, p a parameter. The order of additions is part of the result: change it, and no
model is the same bit for bit. To add a kernel: a function here, named in
``compile_kernels``, and its twin in ``step``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from pcer.errors import OutputError
from pcer.train.config import NO_DP, TrainConfig
from pcer.train.engine import Device, Fleet, train_block
from pcer.train.fleet import Float32Array, Model, TrainingData
from pcer.train.receipts import Watch
from pcer.train.rules import N_BINS
from pcer.train.step import CLIP_MARGIN, FleetState, Layout, StepRule, gaussian

Array = NDArray[Any]

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
            mean, spread = scale_of(raw, train.numpy())
        fill_table(raw, mean, spread, labels.numpy(), part.numpy())

    def fit(self, fleet: Fleet) -> FleetState:
        """Train the block to the last step."""
        *_, last = self.states(fleet)
        return last

    def states(self, fleet: Fleet) -> Iterator[FleetState]:
        """The state after each step, which the next one overwrites."""
        state = FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone())
        weights = state.weights.numpy()
        velocity = state.velocity.numpy()
        table = fleet.table.numpy()
        rule = Rule.of(fleet.rule, table.dtype)
        clip = fleet.rule.clip.view(-1).numpy()
        room = Room.of(fleet.layout, fleet.schedule.rows.shape[2], table.dtype)
        bounds = Bounds.of(fleet.watch, table.dtype)
        batches = fleet.schedule.rows.numpy()
        sizes = fleet.schedule.sizes.numpy()
        noise = noise_of(fleet)
        for step, rows in enumerate(batches):
            for due in fleet.watch.due(step):
                bins = self.norm_bins(fleet, state, due.models)
                fleet.watch.refresh(due, step, bins)
            advance(
                table,
                rows,
                sizes[step],
                rule,
                clip,
                next(noise),
                weights,
                velocity,
                room,
                bounds,
                step,
            )
            yield state

    def norm_bins(self, fleet: Fleet, state: FleetState, models: Tensor) -> Tensor:
        """Norm bins (model, training record) of some private models."""
        table = fleet.table.numpy()
        room = Room.of(fleet.layout, CHUNK, table.dtype)
        rule = Rule.of(fleet.rule, table.dtype)
        clip = fleet.rule.clip.view(-1).numpy()
        rows = fleet.watch.records[models] + fleet.watch.firsts[models, None]
        bins = np.empty(rows.shape, dtype=np.uint8)
        for index, model in enumerate(models.tolist()):
            weights = state.weights[model].numpy()
            own_rows = rows[index].numpy()
            norm_bins(table, own_rows, rule, clip[model], weights, room, bins[index])
        return torch.from_numpy(bins)

    def predict(self, fleet: Fleet, state: FleetState) -> Float32Array:
        """Logits (model, record) of every model on all records."""
        table = fleet.table.numpy()
        room = Room.of(fleet.layout, CHUNK, table.dtype)
        firsts = fleet.watch.firsts.tolist()
        logits = np.empty((len(firsts), fleet.watch.n_records), dtype=table.dtype)
        for first, weights, out in zip(firsts, state.weights, logits, strict=True):
            predict(table, first, weights.numpy(), room, out)
        return logits


def noise_of(fleet: Fleet) -> Iterator[Float32Array]:
    """Noise (model, parameter) on the mean gradients of each step, 0 if not private."""
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


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for this CPU; the machine code is kept where there is a folder for it."""
    settings: dict[str, Any] = {
        "fastmath": {"contract", "reassoc"},
        "error_model": "numpy",
    }
    try:
        return njit(cache=True, **settings)(function)
    except RuntimeError:  # no folder to keep it in
        return njit(**settings)(function)


class Room(NamedTuple):
    """The shape of a network, and room for what a batch fills."""

    # Of the layers, inputs first; an array, as each tuple would be compiled.
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]  # where each layer starts in a row of parameters
    inputs: Array  # (record x input,)
    outputs: Array  # (record x unit,), activations, layer after layer
    signals: Array  # (record x unit,), derivatives of the loss by the layers' outputs
    square: Array  # (record,), squared norm of a record and the 1 that meets the bias
    label: Array  # (record,)
    limit: Array  # (record,), the bound that a gradient is clipped at
    norm: Array  # (record,), squared norm of a gradient, then the clip factor
    side: Array  # (2, record), squared norms of a layer's input and signal
    total: Array  # (parameter,), the clipped sum

    @classmethod
    def of(cls, layout: Layout, n_records: int, dtype: Any) -> Room:
        """Room for a network and a number of records."""
        n_inputs, *n_units = layout.sizes
        n_outputs = sum(n_units)
        return cls(
            sizes=np.array(layout.sizes),
            starts=np.array(layout.starts[:-1]),
            inputs=np.empty(n_inputs * n_records, dtype),
            outputs=np.empty(n_outputs * n_records, dtype),
            signals=np.empty(n_outputs * n_records, dtype),
            square=np.empty(n_records, dtype),
            label=np.empty(n_records, dtype),
            limit=np.empty(n_records, dtype),
            norm=np.empty(n_records, dtype),
            side=np.empty((2, n_records), dtype),
            total=np.empty(layout.width, dtype),
        )


class Rule(NamedTuple):
    """SGD settings, as numbers of the table's type."""

    learning_rate: np.floating[Any]
    momentum: np.floating[Any]
    share: np.floating[Any]  # one over the expected batch
    margin: np.floating[Any]  # added to a norm before dividing by it

    @classmethod
    def of(cls, rule: StepRule, dtype: Any) -> Rule:
        """The rule of a step, from its settings."""
        number = np.dtype(dtype).type
        return cls(
            learning_rate=number(rule.learning_rate),
            momentum=number(rule.momentum),
            share=number(1 / rule.expected_batch),
            margin=number(CLIP_MARGIN),
        )


class Bounds(NamedTuple):
    """What a training rule has decided for single records of (model, record)."""

    clip: Array  # the bound of each; (0, 0) where the rule decides none
    until: Array  # the first step that leaves it out; (0, 0) where none ever does
    firsts: Array  # (model,) int64, the first row of each model's split in the table

    @classmethod
    def of(cls, watch: Watch, dtype: Any) -> Bounds:
        """Views of what the rule of the block overwrites while it trains."""
        clip = np.empty((0, 0), dtype)
        until = np.empty((0, 0), np.int32)
        if watch.bounds is not None:
            clip = watch.bounds.numpy()
        if watch.until is not None:
            until = watch.until.numpy()
        return cls(clip, until, watch.firsts.numpy())


@compiled
def advance(
    table: Array,
    rows: Array,
    sizes: Array,
    rule: Rule,
    clip: Array,
    noise: Array,
    weights: Array,
    velocity: Array,
    room: Room,
    bounds: Bounds,
    step: int,
) -> None:
    """One step of every model, in place, on its batch: ``sizes`` (model,) of ``rows``.

    The table has a row (features, 1, squared norm, label) for each record. ``clip``
    (model,) is infinite and ``noise`` (model, parameter) on the mean gradient zero
    without privacy; ``bounds`` may clip records lower.
    """
    for model in range(len(weights)):
        batch = rows[model, : sizes[model]]
        _limit(batch, clip[model], model, bounds, step, room.limit)
        clipped_sum(table, batch, rule, weights[model], room)
        _update(room.total, noise[model], rule, weights[model], velocity[model])


@compiled
def clipped_sum(
    table: Array, rows: Array, rule: Rule, weights: Array, room: Room
) -> None:
    """The sum of a model's clipped gradients, into ``room.total``.

    The gradient of a record by a layer with inputs (a, 1) and signal s is their outer
    product, so the sum over records is a product of matrices, once ``_clip`` has scaled
    each s by the record's clip factor. Each record has its bound in ``room.limit``.
    """
    room.total[:] = 0
    n = len(rows)
    if n == 0:
        return
    inputs = _gather(table, rows, room)
    _signals(weights, inputs, room)
    _clip(rule, n, room)
    n_layers = len(room.sizes) - 1
    first = _units(room, 0, n, room.signals)
    np.dot(inputs.T, first.T, _weight(room, 0, room.total))
    _row_sums(first, _bias(room, 0, room.total))
    for layer in range(1, n_layers):
        signal = _units(room, layer, n, room.signals)
        below = _units(room, layer - 1, n, room.outputs)
        np.dot(below, signal.T, _weight(room, layer, room.total))
        _row_sums(signal, _bias(room, layer, room.total))


@compiled
def norm_bins(
    table: Array,
    rows: Array,
    rule: Rule,
    clip: Any,
    weights: Array,
    room: Room,
    bins: Array,
) -> None:
    """Each row's gradient norm, clipped and rounded up to a bin, into ``bins``."""
    n_room = len(room.label)
    for start in range(0, len(rows), n_room):
        n = min(n_room, len(rows) - start)
        inputs = _gather(table, rows[start : start + n], room)
        _signals(weights, inputs, room)
        _square_norms(n, room)
        for r in range(n):
            bins[start + r] = _bin_of(room.norm[r], clip, rule.margin)


@compiled
def _bin_of(square: Any, clip: Any, margin: Any) -> int:
    """The clipped norm in ``N_BINS``-ths, rounded up; what is no number is clipped."""
    norm = np.sqrt(square)
    kept = norm if norm + margin <= clip else norm * (clip / (norm + margin))
    steps = np.ceil(np.float64(kept) * N_BINS / np.float64(clip))
    return int(steps) if steps <= N_BINS else N_BINS


@compiled
def _limit(
    rows: Array, clip: Any, model: int, bounds: Bounds, step: int, limit: Array
) -> None:
    """The clip bound of every record of a batch, 0 for those that are left out."""
    first = bounds.firsts[model]
    limit[: len(rows)] = clip
    if len(bounds.clip):
        for r in range(len(rows)):
            limit[r] = bounds.clip[model, rows[r] - first]
    if len(bounds.until):
        for r in range(len(rows)):
            if step >= bounds.until[model, rows[r] - first]:
                limit[r] = 0


@compiled
def _signals(weights: Array, inputs: Array, room: Room) -> None:
    """Outputs and signals of every layer, for the records that were gathered.

    The last layer's signal is the derivative of the log loss by the logit z, for the
    label y: 1 / (1 + exp(-z)) - y.
    """
    n = len(inputs)
    forward(weights, inputs, room)
    logit = _last(room, n, room.outputs)
    residual = _last(room, n, room.signals)
    label = room.label
    for r in range(n):
        residual[r] = 1 / (1 + np.exp(-logit[r])) - label[r]
    _back(weights, n, room)


@compiled
def forward(weights: Array, inputs: Array, room: Room) -> None:
    """Activations of every layer, and the logits, of inputs (record, input)."""
    n = len(inputs)
    n_layers = len(room.sizes) - 1
    units = _units(room, 0, n, room.outputs)
    np.dot(_weight(room, 0, weights).T, inputs.T, units)
    _add_bias(units, _bias(room, 0, weights), n_layers > 1)
    for layer in range(1, n_layers):
        below = units
        units = _units(room, layer, n, room.outputs)
        np.dot(_weight(room, layer, weights).T, below, units)
        _add_bias(units, _bias(room, layer, weights), layer < n_layers - 1)


@compiled
def predict(
    table: Array, first: int, weights: Array, room: Room, logits: Array
) -> None:
    """The logits (record,) of one model on the records from row ``first`` on."""
    n_room = len(room.label)
    for start in range(0, len(logits), n_room):
        n = min(n_room, len(logits) - start)
        inputs = _gather(table, np.arange(first + start, first + start + n), room)
        forward(weights, inputs, room)
        logits[start : start + n] = _last(room, n, room.outputs)


@compiled
def _gather(table: Array, rows: Array, room: Room) -> Array:
    """Inputs (record, input) of some rows; their squared norms and labels, too."""
    n = room.sizes[0]
    inputs = room.inputs[: len(rows) * n].reshape(len(rows), n)
    for r in range(len(rows)):
        record = table[rows[r]]
        mine = inputs[r]
        for k in range(n):
            mine[k] = record[k]
        room.square[r] = record[n + 1]
        room.label[r] = record[n + 2]
    return inputs


@compiled
def _back(weights: Array, n: int, room: Room) -> None:
    """The signals of every layer, from the last; 0 where its unit is 0 (ReLU)."""
    zero = weights.dtype.type(0)
    for layer in range(len(room.sizes) - 2, 0, -1):
        signal = _units(room, layer, n, room.signals)
        below = _units(room, layer - 1, n, room.signals)
        np.dot(_weight(room, layer, weights), signal, below)
        active = _units(room, layer - 1, n, room.outputs)
        for u in range(len(below)):
            row = below[u]
            other = active[u]
            for r in range(n):
                row[r] = row[r] if other[r] > zero else zero


@compiled
def _square_norms(n: int, room: Room) -> None:
    """Into ``room.norm`` sums over layers of (|a|^2 + 1) |s|^2, inputs a, signals s."""
    norm = room.norm[:n]
    inside = room.side[0, :n]
    outside = room.side[1, :n]
    _add_squares(_units(room, 0, n, room.signals), 0, norm)
    for r in range(n):
        norm[r] *= room.square[r]
    for layer in range(1, len(room.sizes) - 1):
        _add_squares(_units(room, layer - 1, n, room.outputs), 1, inside)
        _add_squares(_units(room, layer, n, room.signals), 0, outside)
        for r in range(n):
            norm[r] += inside[r] * outside[r]


@compiled
def _clip(rule: Rule, n: int, room: Room) -> None:
    """Scale each record's signals by min(limit / (norm + margin), 1)."""
    _square_norms(n, room)
    norm = room.norm[:n]
    limit = room.limit[:n]
    one = room.norm.dtype.type(1)
    for r in range(n):
        norm[r] = min(limit[r] / (np.sqrt(norm[r]) + rule.margin), one)
    for layer in range(len(room.sizes) - 1):
        signal = _units(room, layer, n, room.signals)
        for u in range(len(signal)):
            row = signal[u]
            for r in range(n):
                row[r] *= norm[r]


@compiled
def _add_squares(values: Array, start: int, total: Array) -> None:
    """Squared norm of every column of (unit, record), on top of a number."""
    total[:] = start
    for u in range(len(values)):
        row = values[u]
        for r in range(len(total)):
            total[r] += row[r] * row[r]


@compiled
def _add_bias(values: Array, bias: Array, is_hidden: bool) -> None:
    """Add each unit's bias to (unit, record); a hidden unit keeps what is above 0."""
    least = values.dtype.type(0 if is_hidden else -np.inf)
    for u in range(len(values)):
        row = values[u]
        shift = bias[u]
        for r in range(len(row)):
            row[r] = max(row[r] + shift, least)


@compiled
def _row_sums(values: Array, sums: Array) -> None:
    for u in range(len(values)):
        row = values[u]
        total = values.dtype.type(0)
        for r in range(len(row)):
            total += row[r]
        sums[u] = total


@compiled
def _update(
    total: Array, noise: Array, rule: Rule, weights: Array, velocity: Array
) -> None:
    """V <- m v + total / expected batch + noise; w <- w - learning rate v, in place."""
    for p in range(len(total)):
        velocity[p] = rule.momentum * velocity[p] + rule.share * total[p] + noise[p]
        weights[p] -= rule.learning_rate * velocity[p]


@compiled
def _weight(room: Room, layer: int, flat: Array) -> Array:
    """The weights of a layer (input, output)."""
    start = room.starts[layer]
    n_in = room.sizes[layer]
    n_out = room.sizes[layer + 1]
    return flat[start : start + n_in * n_out].reshape(n_in, n_out)


@compiled
def _bias(room: Room, layer: int, flat: Array) -> Array:
    """The biases of a layer (output,)."""
    n_out = room.sizes[layer + 1]
    start = room.starts[layer] + room.sizes[layer] * n_out
    return flat[start : start + n_out]


@compiled
def _units(room: Room, layer: int, n: int, flat: Array) -> Array:
    """A layer's values (unit, record) for ``n`` records."""
    before = 0
    for earlier in range(layer):
        before += room.sizes[earlier + 1]
    n_units = room.sizes[layer + 1]
    return flat[before * n : (before + n_units) * n].reshape(n_units, n)


@compiled
def _last(room: Room, n: int, flat: Array) -> Array:
    """The last layer's values (record,)."""
    last: Array = _units(room, len(room.sizes) - 2, n, flat)[0]
    return last


@compiled
def scale_of(features: Array, train: Array) -> tuple[Array, Array]:
    """Mean and deviation (feature,) of every feature over the training records.

    The deviation is the root of the mean squared distance from the mean, 1 for a
    constant. What is missing in all has the mean NaN.
    """
    n = features.shape[1]
    n_known = np.zeros(n)
    mean = np.zeros(n)
    spread = np.zeros(n)
    for row in train:
        record = features[row]
        for k in range(n):
            is_known = record[k] == record[k]
            n_known[k] += 1.0 if is_known else 0.0
            mean[k] += record[k] if is_known else 0.0
    mean /= n_known
    for row in train:
        record = features[row]
        for k in range(n):
            distance = record[k] - mean[k]
            spread[k] += distance * distance if distance == distance else 0.0
    for k in range(n):
        spread[k] = np.sqrt(spread[k] / n_known[k])
        spread[k] = spread[k] if spread[k] > 0 else 1.0
    return mean, spread


@compiled
def fill_table(
    features: Array, mean: Array, spread: Array, labels: Array, table: Array
) -> None:
    """Standardised features (0 if missing), 1, squared norm, label, into ``table``."""
    n = features.shape[1]
    for r in range(len(features)):
        record = features[r]
        row = table[r]
        square = 1.0
        for k in range(n):
            value = (record[k] - mean[k]) / spread[k]
            row[k] = value if value == value else 0.0
            square += row[k] * row[k]
        row[n] = 1.0
        row[n + 1] = square
        row[n + 2] = labels[r]
