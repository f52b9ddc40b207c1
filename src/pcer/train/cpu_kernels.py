"""The arithmetic of a model on a CPU, compiled: forward, back, clip, sum, update.

The same as ``step``, which these kernels agree with to rounding. One model is taken at
a time, so that all it touches stays in the cache of a core, and nothing depends on its
company. Units are rows and records are columns: every loop over records is a loop over
neighbours, and no batch is padded. Products go to scipy's BLAS. What is standardised
before the first step is last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pcer.train.rules import N_BINS
from pcer.train.step import CLIP_MARGIN, Layout, StepRule

Array = NDArray[Any]


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for this CPU, and keep the machine code beside the bytecode where that can be."""
    # Sums may be taken in another order and products fused; infinities stay what they
    # are.
    settings: dict[str, Any] = {
        "fastmath": {"contract", "reassoc"},
        "error_model": "numpy",
    }
    try:
        return njit(cache=True, **settings)(function)
    except RuntimeError:  # no folder to keep it in
        return njit(**settings)(function)


class Room(NamedTuple):
    """The shape of a network, and what a batch fills, for as many records as it may have."""

    sizes: NDArray[
        np.int64
    ]  # of the layers; as arrays: other tuples would be compiled anew
    starts: NDArray[np.int64]  # where each layer starts in a row of parameters
    inputs: Array  # (record x input,)
    outputs: Array  # (record x unit,) activations, layer after layer
    signals: Array  # (record x unit,) derivatives of the loss by the layers' outputs
    square: (
        Array  # (record,) squared norm of a record, the 1 that meets the bias included
    )
    label: Array  # (record,)
    limit: Array  # (record,) the bound that a gradient is clipped at
    norm: Array  # (record,) squared norm of a gradient, then the clip factor
    side: Array  # (2, record) squared norms of a layer's input and signal
    total: Array  # (parameter,) the clipped sum

    @classmethod
    def of(cls, layout: Layout, n_records: int, dtype: Any) -> Room:
        """Room for a network and a number of records."""
        inputs, *units = (size * n_records for size in layout.sizes)
        lengths = (inputs, sum(units), sum(units), *4 * [n_records])
        shapes = [*((length,) for length in lengths), (2, n_records), (layout.width,)]
        shape_of_network = np.array(layout.sizes), np.array(layout.starts[:-1])
        return cls(*shape_of_network, *(np.empty(shape, dtype) for shape in shapes))


class Rule(NamedTuple):
    """SGD settings, as numbers of the table's type."""

    learning_rate: np.floating[Any]
    momentum: np.floating[Any]
    share: np.floating[Any]  # one over the expected batch
    margin: np.floating[Any]  # added to a norm before dividing by it

    @classmethod
    def of(cls, rule: StepRule, dtype: Any) -> Rule:
        """The rule of a step, from its settings."""
        numbers = (
            rule.learning_rate,
            rule.momentum,
            1 / rule.expected_batch,
            CLIP_MARGIN,
        )
        return cls(*(np.dtype(dtype).type(number) for number in numbers))


class Bounds(NamedTuple):
    """What a rule of training has decided for single records; (0, 0) where it decides nothing."""

    clip: Array  # (model, record of the split) the bound of each
    until: (
        Array  # (model, record of the split) int32, the first step that leaves it out
    )
    firsts: Array  # (model,) int64, the first row of each model's split in the table


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
    """One step of every model, in place; without privacy the clip is infinite, the noise zero."""
    # Rows (model, column) of the table (features, 1, squared norm, label) are batches
    # from the left, of so many records (model,); the noise (model, parameter) is on the
    # mean gradient.
    for model in range(len(weights)):
        batch = rows[model, : sizes[model]]
        _limit(batch, clip[model], model, bounds, step, room.limit)
        clipped_sum(table, batch, rule, weights[model], room)
        _update(room.total, noise[model], rule, weights[model], velocity[model])


@compiled
def clipped_sum(
    table: Array, rows: Array, rule: Rule, weights: Array, room: Room
) -> None:
    """The sum of a model's gradients into ``room.total``, each clipped at its ``room.limit``."""
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
    """The norm of every row's gradient, clipped and rounded up to a bin; a roomful at a time."""
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
    """What is no number counts as clipped."""
    norm = np.sqrt(square)
    kept = norm if norm + margin <= clip else norm * (clip / (norm + margin))
    steps = np.ceil(np.float64(kept) * N_BINS / np.float64(clip))
    return int(steps) if steps <= N_BINS else N_BINS


@compiled
def _limit(
    rows: Array, clip: Any, model: int, bounds: Bounds, step: int, limit: Array
) -> None:
    """The clip bound of every record of a batch."""
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
    """Outputs and signals of every layer, of the records that were gathered."""
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
    """The logits of one model on the records from row ``first`` on, a roomful at a time."""
    n_room = len(room.label)
    for start in range(0, len(logits), n_room):
        n = min(n_room, len(logits) - start)
        inputs = _gather(table, np.arange(first + start, first + start + n), room)
        forward(weights, inputs, room)
        logits[start : start + n] = _last(room, n, room.outputs)


@compiled
def _gather(table: Array, rows: Array, room: Room) -> Array:
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
    """The signals of every layer, from the residual in the last."""
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
    """The squared norm of every record's gradient."""
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
    """Scale every record's signals so that its gradient's norm is at most its limit."""
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
    """SGD with momentum on the noisy mean gradient."""
    for p in range(len(total)):
        velocity[p] = rule.momentum * velocity[p] + rule.share * total[p] + noise[p]
        weights[p] -= rule.learning_rate * velocity[p]


@compiled
def _weight(room: Room, layer: int, flat: Array) -> Array:
    """(input, output)."""
    start = room.starts[layer]
    n_in = room.sizes[layer]
    n_out = room.sizes[layer + 1]
    return flat[start : start + n_in * n_out].reshape(n_in, n_out)


@compiled
def _bias(room: Room, layer: int, flat: Array) -> Array:
    """(output,)."""
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
    """Mean (NaN if unknown) and deviation (1 if constant) of features over training records."""
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
    """Standardised features, 1, squared norm and label of every record; what is missing is 0."""
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
