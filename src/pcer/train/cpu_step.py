"""One step of a block on a CPU, in place, over buffers that are made once.

The same arithmetic as ``dpsgd``, whose functions this agrees with to rounding. A step makes neither
tensors nor views, and the product that sums a layer's clipped gradients carries the momentum too,
so that a step costs little more than its products.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pcer.train.dpsgd import CLIP_MARGIN, FleetState, Layer, clipped_sum, relu_backward
from pcer.train.engine import Fleet, gather


class _Unit:
    """A layer of every model: views of its parameters and momentum, and room for its records."""

    def __init__(self, inputs: Tensor, layer: Layer, speed: Layer, *, first: bool) -> None:
        """Make the views and the room.

        Args:
            inputs: (model, column, input); the first layer's carry the 1 that meets the bias.
            layer: the parameters.
            speed: their momentum.
            first: whether this is the first layer.
        """
        n_models, n_columns, _ = inputs.shape
        n_outputs = layer.matrix.shape[2]
        self.inputs = inputs
        self.weight = layer.matrix if first else layer.weight
        self.bias = None if first else layer.bias
        self.output = inputs.new_empty(n_models, n_columns, n_outputs)
        self.signal = torch.empty_like(self.output)
        self.turned = self.weight.mT
        self.square, self.signal_square = (
            inputs.new_empty(n_models, n_columns, 1) for _ in range(2)
        )
        sums = speed.matrix if first else speed.weight
        if n_outputs == 1:  # a row times a matrix is cheaper
            self.sums, self.product = sums.mT, (self.signal.mT, inputs)
        else:
            self.sums, self.product = sums, (inputs.mT, self.signal)
        self.bias_speed = speed.bias
        self.bias_sum = inputs.new_empty(n_models, 1, n_outputs)

    def forward(self) -> None:
        """The layer's output before the activation."""
        torch.bmm(self.inputs, self.weight, out=self.output)
        if self.bias is not None:
            self.output.add_(self.bias)

    def backward(self, above: _Unit) -> None:
        """The signal, from that of the layer above."""
        torch.bmm(above.signal, above.turned, out=self.signal)
        relu_backward(self.signal, self.output, 0, grad_input=self.signal)

    def add_sum(self, factor: Tensor, momentum: float, scale: float) -> None:
        """Momentum times the old, plus the scaled sum of the clipped gradients."""
        self.signal.mul_(factor)
        self.sums.baddbmm_(*self.product, beta=momentum, alpha=scale)
        if self.bias is not None:
            torch.sum(self.signal, dim=1, keepdim=True, out=self.bias_sum)
            self.bias_speed.mul_(momentum).add_(self.bias_sum, alpha=scale)


class _Noise:
    """Room for random bits, and for the radius and the angle of pairs of normal variables."""

    def __init__(self, fleet: Fleet, velocity: Tensor) -> None:
        n, half = len(fleet.noise), fleet.layout.width // 2
        self.streams = fleet.noise
        self.words = np.empty((n, half), dtype=np.uint64)
        bits = torch.from_numpy(self.words.view(np.int32))
        self.radius_bits, self.angle_bits = bits[:, :half], bits[:, half:]
        self.radius, self.angle, self.cosine = (velocity.new_empty(n, half) for _ in range(3))
        self.first, self.second = velocity[:n, :half], velocity[:n, half:]
        self.spread = (fleet.std / fleet.rule.expected_batch).square_().mul_(-2)

    def add(self) -> None:
        """Add every private model's next noise to its momentum, as ``dpsgd.gaussian`` draws it."""
        for row, stream in zip(self.words, self.streams, strict=True):
            row[:] = stream.random_raw(len(row))
        radius = self.radius.copy_(self.radius_bits).abs_().add_(0.5).mul_(2.0**-31)
        radius.log_().mul_(self.spread).sqrt_()
        angle = self.angle.copy_(self.angle_bits).mul_(math.pi * 2.0**-31)
        self.first.add_(torch.cos(angle, out=self.cosine).mul_(radius))
        self.second.add_(angle.sin_().mul_(radius))


class CpuStep:
    """The state of a block, and the step that overwrites it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.state = FleetState(fleet.start.weights.clone(), fleet.start.velocity.clone())
        n = fleet.layout.sizes[0] + 1
        n_models, usual = len(fleet.slots), fleet.schedule.widths.usual
        self.records = fleet.table.new_empty(n_models * usual, fleet.table.shape[1])
        columns = self.records.view(n_models, usual, -1)
        self.drawn, self.square = columns[..., n - 1 : n], columns[..., n : n + 1]
        self.label = columns[..., n + 1 : n + 2]
        self.units = self._units(columns[..., :n])
        self.factor = self.units[0].square
        self.noise = _Noise(fleet, self.state.velocity)

    def _units(self, inputs: Tensor) -> list[_Unit]:
        layout, units = self.fleet.layout, list[_Unit]()
        layers, speeds = layout.layers(self.state.weights), layout.layers(self.state.velocity)
        for layer, speed in zip(layers, speeds, strict=True):
            given = units[-1].output if units else inputs
            units.append(_Unit(given, layer, speed, first=not units))
        return units

    def advance(self, rows: Tensor, wide: list[int]) -> None:
        """One step of every model.

        The gaps between layers collect noise that nothing reads.

        Args:
            rows: (model, column), the padded batches as rows of the table.
            wide: the models that have more than the usual columns.
        """
        rule, usual = self.fleet.rule, self.fleet.schedule.widths.usual
        scale = 1 / rule.expected_batch
        rest = self.rest_sum(rows[:, usual:], wide) if wide else None
        torch.index_select(self.fleet.table, 0, rows[:, :usual].reshape(-1), out=self.records)
        self.forward_and_back()
        self.clip()
        for unit in self.units:
            unit.add_sum(self.factor, rule.momentum, scale)
        if rest is not None:
            self.state.velocity.index_add_(0, *rest, alpha=scale)
        self.noise.add()
        self.state.weights.add_(self.state.velocity, alpha=-rule.learning_rate)

    def rest_sum(self, rows: Tensor, wide: list[int]) -> tuple[Tensor, Tensor]:
        """The few models that have unusual columns, and the clipped sums of these columns.

        One model takes a neighbour along (whose rest is padding, an exact zero): a product of one
        matrix rounds differently from a product of several.
        """
        both = wide if len(wide) > 1 else [wide[0], (wide[0] + 1) % len(rows)]
        chosen = torch.tensor(both)
        batch, weights = gather(self.fleet, rows[chosen]), self.state.weights[chosen]
        clip = self.fleet.rule.clip[chosen]
        return chosen, clipped_sum(self.fleet.layout, weights, batch, clip)

    def forward_and_back(self) -> None:
        """Every layer's activations and signals."""
        for unit in self.units[:-1]:
            unit.forward()
            unit.output.relu_()
        last = self.units[-1]
        last.forward()
        torch.sigmoid(last.output, out=last.signal).sub_(self.label).mul_(self.drawn)
        for above, below in pairwise(self.units[::-1]):
            below.backward(above)

    def clip(self) -> None:
        """What each record's signals are multiplied by, from the norm of its gradient."""
        first, *others = self.units
        total = _squared(first.signal, first.square).mul_(self.square)
        for unit in others:
            inputs = _squared(unit.inputs, unit.square).add_(1)
            total.addcmul_(inputs, _squared(unit.signal, unit.signal_square))
        norm = total.sqrt_().add_(CLIP_MARGIN)
        torch.div(self.fleet.rule.clip, norm, out=self.factor).clamp_(max=1.0)


def _squared(values: Tensor, room: Tensor) -> Tensor:
    """Squared norm over the last axis, which is kept."""
    norm: Tensor = torch.linalg.vector_norm(values, dim=-1, keepdim=True, out=room)
    return norm.square_()
