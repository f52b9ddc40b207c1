"""What is one step of DP-SGD, for a block of models? Pure functions of tensors.

The engine and its devices call them; a device's kernels do the same arithmetic. The
first axis is the model, the second the record. Gradients of single records are never
formed: that of a linear layer with input a and signal s is the outer product of (a, 1)
and s, so its squared norm is (|a|^2 + 1)|s|^2, and the sum of clipped gradients is a
product of the inputs with the signals scaled by the clip factor. To add a part of a
step: a function here, called by ``engine``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from pcer.train.rules import N_BINS

# Added to a gradient's norm before dividing by it, as in Opacus: a clipped norm stays
# below the clip, and a zero gradient causes no division by zero.
CLIP_MARGIN = 1e-6

# Elements a CPU kernel handles at once. Every model's share of a tensor is a multiple
# of it, so that no model falls into the remainder loop, which may round differently.
LANES = 32

# Floats in 64 bytes, where each layer starts: matrix products may round by it.
ALIGNMENT = 16

# A signal is 0 where its unit is 0.
relu_backward = torch.ops.aten.threshold_backward.grad_input


@dataclass(frozen=True)
class Layout:
    """Where the layers lie in a model's row of the flat parameters (model, width)."""

    # Inputs of the first layer, then outputs of every layer; the last is 1.
    sizes: tuple[int, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First element of each layer; one more, the end of the last."""
        starts = [0]
        for inputs, outputs in pairwise(self.sizes):
            starts.append(round_up(starts[-1] + (inputs + 1) * outputs, ALIGNMENT))
        return tuple(starts)

    @property
    def width(self) -> int:
        """Elements of a row, the gaps between layers included."""
        return round_up(self.starts[-1], 2 * LANES)

    def layers(self, flat: Tensor) -> list[Tensor]:
        """Views (model, inputs + 1, outputs) of parameters; biases are the last row."""
        views = []
        for start, (inputs, outputs) in zip(
            self.starts, pairwise(self.sizes), strict=False
        ):
            end = start + (inputs + 1) * outputs
            views.append(flat[:, start:end].view(-1, inputs + 1, outputs))
        return views


@dataclass(frozen=True)
class Batch:
    """The records of one step; a padded record is all zeros and has no effect."""

    # (model, record, feature + 1); at the end 1 (it meets the bias), 0 for padding.
    inputs: Tensor
    input_square: Tensor  # (model, record, 1), squared norm of the inputs and that 1
    label: Tensor  # (model, record, 1), 0 or 1


@dataclass(frozen=True)
class FleetState:
    """Parameters and momentum of a block of models, both (model, width)."""

    weights: Tensor
    velocity: Tensor


@dataclass(frozen=True)
class StepRule:
    """What a step needs besides state, batch and noise."""

    clip: Tensor  # (model, 1, 1), infinite without privacy
    learning_rate: float
    momentum: float
    # Divides the noisy sum: the size that was drawn depends on the records.
    expected_batch: int


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is not below ``number``."""
    return -(-number // multiple) * multiple


def activations(layers: list[Tensor], inputs: Tensor) -> list[Tensor]:
    """Inputs, hidden activations and logits (model, record, units), in this order.

    a_(l+1) = relu(a_l W_l + b_l), without the relu for the logits; biases of the first
    layer meet the 1 at the end of ``inputs``.
    """
    outputs = [inputs, torch.bmm(inputs, layers[0])]
    for layer in layers[1:]:
        hidden = outputs[-1].relu_()
        outputs.append(torch.bmm(hidden, layer[:, :-1]).add_(layer[:, -1:]))
    return outputs


def signals(
    layers: list[Tensor], outputs: list[Tensor], residual: Tensor
) -> list[Tensor]:
    """Derivatives s_l of each record's loss by each layer's output, first layer first.

    The last is ``residual``, and s_l = (s_(l+1) W^T) where the unit is above 0.
    """
    backs = [residual]
    for layer, hidden in zip(layers[:0:-1], outputs[-2:0:-1], strict=True):
        back = torch.bmm(backs[-1], layer[:, :-1].mT)
        backs.append(relu_backward(back, hidden, 0, grad_input=back))
    return backs[::-1]


def square(values: Tensor) -> Tensor:
    """Squared norm over the last axis, which is kept."""
    norm: Tensor = torch.linalg.vector_norm(values, dim=-1, keepdim=True)
    return norm.square_()


def clip_factor(squared_norm: Tensor, clip: Tensor) -> Tensor:
    """Factor min(1, clip / norm) of a gradient; ``squared_norm`` is overwritten."""
    return clip.div(squared_norm.sqrt_().add_(CLIP_MARGIN)).clamp_(max=1.0)


def clipped_sum(layout: Layout, weights: Tensor, batch: Batch, clip: Tensor) -> Tensor:
    """Sum over the batch of every record's clipped gradient, (model, width).

    ``clip`` (model, record or 1, 1) is infinite without privacy.
    """
    outputs, backs = _both_ways(layout, weights, batch)
    factor = clip_factor(squared_norm(batch, outputs, backs), clip)
    total = torch.zeros_like(weights)
    first, *others = layout.layers(total)
    first.copy_(_product_sum(batch.inputs, backs[0].mul_(factor)))
    for layer, hidden, signal in zip(others, outputs[1:], backs[1:], strict=False):
        layer[:, :-1].copy_(_product_sum(hidden, signal.mul_(factor)))
        torch.sum(signal, dim=1, keepdim=True, out=layer[:, -1:])
    return total


def _both_ways(
    layout: Layout, weights: Tensor, batch: Batch
) -> tuple[list[Tensor], list[Tensor]]:
    """Activations and signals of every layer, of cross entropy of logit z and label y.

    Its derivative by z, ``residual``, is sigmoid(z) - y; it is 0 for padding.
    """
    layers = layout.layers(weights)
    outputs = activations(layers, batch.inputs)
    is_drawn = batch.inputs[..., -1:]
    residual = outputs[-1].sigmoid().sub_(batch.label).mul_(is_drawn)
    return outputs, signals(layers, outputs, residual)


def norm_bins(layout: Layout, weights: Tensor, batch: Batch, clip: Tensor) -> Tensor:
    """Each record's clipped norm in units of clip / ``N_BINS``, rounded up, uint8."""
    outputs, backs = _both_ways(layout, weights, batch)
    squares = squared_norm(batch, outputs, backs)
    norm = squares.sqrt()
    clipped = norm * clip_factor(squares, clip)
    bins = clipped.double().mul_(N_BINS).div_(clip.double()).ceil_()
    # What is no number counts as clipped.
    return bins[..., 0].nan_to_num_(nan=N_BINS).clamp_(0, N_BINS).to(torch.uint8)


def squared_norm(batch: Batch, outputs: list[Tensor], backs: list[Tensor]) -> Tensor:
    """Squared norm of each record's gradient, (model, record, 1).

    The sum of (|a|^2 + 1)|s|^2 over layers of activations a and signals s; that of the
    first layer's inputs, (|a|^2 + 1), comes with the batch.
    """
    total = square(backs[0]).mul_(batch.input_square)
    for hidden, signal in zip(outputs[1:], backs[1:], strict=False):
        total.add_(square(hidden).add_(1).mul_(square(signal)))
    return total


def _product_sum(inputs: Tensor, signal: Tensor) -> Tensor:
    """Sum over records of outer products, (model, inputs, outputs)."""
    # One output is cheaper as a row times a matrix.
    if signal.shape[2] == 1:
        return torch.bmm(signal.mT, inputs).mT
    return torch.bmm(inputs.mT, signal)


def momentum_step(state: FleetState, noisy_sum: Tensor, rule: StepRule) -> FleetState:
    """SGD with momentum on the mean gradient, as in ``torch.optim.SGD``.

    velocity = momentum velocity + noisy_sum / expected_batch, weights -= learning_rate
    velocity.
    """
    velocity = state.velocity.mul(rule.momentum)
    velocity.add_(noisy_sum, alpha=1 / rule.expected_batch)
    weights = state.weights.add(velocity, alpha=-rule.learning_rate)
    return FleetState(weights, velocity)


def gaussian(bits: Tensor, std: Tensor, out: Tensor | None = None) -> Tensor:
    """Normal variables of deviation ``std`` (model, 1) from random int32 bits.

    By Box and Muller: radius = std sqrt(-2 log u), and noise is the radius times the
    cosine and the sine of an angle. The first half of a row of ``bits`` (..., model,
    width) gives the radius, the second the angle. The radius reads its 32 bits as a
    signed number and drops the sign, so that small uniforms keep their precision: the
    tail reaches 6.6 deviations.
    """
    noise = std.new_empty(bits.shape) if out is None else out
    half = bits.shape[-1] // 2
    uniform = bits[..., :half].to(std.dtype).abs_().add_(0.5).mul_(2.0**-31)
    radius = uniform.log_().mul_(-2 * std.square()).sqrt_()
    angle = bits[..., half:].to(std.dtype).mul_(math.pi * 2.0**-31)
    torch.cos(angle, out=noise[..., :half]).mul_(radius)
    torch.sin(angle, out=noise[..., half:]).mul_(radius)
    return noise
