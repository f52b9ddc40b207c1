"""Slow, obvious twins of the training engine: one model, one record, one number."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from pcer.train import TrainConfig

MASK = 2**64 - 1
N_BINS = 200


def mlp(sizes: tuple[int, ...]) -> nn.Sequential:
    """The network of the engine as a plain torch module."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, dtype=torch.float64), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def load_matrices(module: nn.Module, values: list[np.ndarray]) -> None:
    """Set each linear layer to (inputs + 1, outputs), the last row the bias."""
    linear = [layer for layer in module if isinstance(layer, nn.Linear)]
    for layer, matrix in zip(linear, values, strict=True):
        layer.weight.data = torch.from_numpy(matrix[:-1].T.copy()).double()
        layer.bias.data = torch.from_numpy(matrix[-1].copy()).double()


def matrices(module: nn.Module) -> list[Tensor]:
    """What ``load_matrices`` sets."""
    linear = [layer for layer in module if isinstance(layer, nn.Linear)]
    return [torch.cat([layer.weight.data.T, layer.bias.data[None]]) for layer in linear]


def record_gradient(module: nn.Module, features: Tensor, label: Tensor) -> list[Tensor]:
    """Gradient of one record's loss by autograd."""
    loss = nn.functional.binary_cross_entropy_with_logits(
        module(features[None])[0, 0], label
    )
    return list(torch.autograd.grad(loss, list(module.parameters())))


def philox_4x64(key: tuple[int, int], counter: int) -> list[int]:
    """One block of Philox 4x64-10 (Salmon et al. 2011) in Python's whole numbers."""
    k0, k1 = key
    c = [counter & MASK, counter >> 64, 0, 0]
    for _ in range(10):
        low = 0xD2E7470EE14C6C93 * c[0]
        high = 0xCA5A826395121157 * c[2]
        c = [(high >> 64) ^ c[1] ^ k0, high & MASK, (low >> 64) ^ c[3] ^ k1, low & MASK]
        k0 = (k0 + 0x9E3779B97F4A7C15) & MASK
        k1 = (k1 + 0xBB67AE8584CAA73B) & MASK
    return c


def box_muller(radius_bits: int, angle_bits: int) -> tuple[float, float]:
    """Two normal variables from two signed 32-bit whole numbers."""
    uniform = (abs(radius_bits) + 0.5) / 2**31
    radius = math.sqrt(-2 * math.log(min(uniform, 1.0)))
    angle = math.pi * angle_bits / 2**31
    return radius * math.cos(angle), radius * math.sin(angle)


def norm_bin(norm: float, clip: float) -> int:
    """The bin of a clipped norm: (b - 1) clip / 200 < s <= b clip / 200."""
    clipped = norm * min(1.0, clip / (norm + 1e-6))
    return math.ceil(clipped * N_BINS / clip)


@dataclass
class Record:
    """What a rule knows of a record, and what the record has spent."""

    bound: float  # that its gradient is clipped at
    bin: int = 0  # of its norm, when that was last computed
    spent: float = 0.0
    is_out: bool = False

    def spend(self, costs: list[float] | None, budget: float) -> int:
        """Spend the next step, or be out for good; the bin that the step counts in."""
        cost = 0.0 if costs is None else costs[self.bin]
        self.is_out = self.is_out or self.spent + cost > budget
        if self.is_out:
            return 0
        self.spent += cost
        return self.bin


def train_by_rule(
    module: nn.Module,
    records: tuple[Tensor, Tensor],
    drawn: list[list[int]],
    config: TrainConfig,
    *,
    expected_batch: int,
    every: int = 1,
    is_held: bool = False,
    costs: list[float] | None = None,
    budget: float = math.inf,
    noise: Callable[[tuple[int, ...]], np.ndarray] = np.zeros,
) -> np.ndarray:
    """DP-SGD in place, every gradient of every record at every step; noise by shape.

    Norms of every so many steps count: of the first of them where they are held, which
    is also what the record is clipped at, else of the middle one (and of fewer steps at
    first). With costs, a record is out for good before the first step that it cannot
    pay. Gives how many steps each record spent in each bin.
    """
    features, labels = records
    clip = config.clip_norm
    known = [Record(bound=clip) for _ in features]
    counts = np.zeros((len(known), N_BINS + 1), dtype=int)
    velocity = [torch.zeros_like(p) for p in module.parameters()]
    bins_by_step = []
    for step, batch in enumerate(drawn):
        gradients = [
            record_gradient(module, x, y) for x, y in zip(features, labels, strict=True)
        ]
        norms = [norm_of(gradient) for gradient in gradients]
        bins_by_step.append([norm_bin(norm, clip) for norm in norms])
        for i, record in enumerate(known):
            if step % every == 0:
                record.bin = bins_by_step[step][i]
                record.bound = record.bin * clip / N_BINS if is_held else clip
            counts[i, record.spend(costs, budget)] += 1
        total = clipped_sum([(known[i], norms[i], gradients[i]) for i in batch], module)
        momentum_step(module, velocity, total, config, expected_batch, noise)
    return counts if is_held else counts_from_the_middle(bins_by_step, every)


def norm_of(gradient: list[Tensor]) -> float:
    """Euclidean norm over all layers."""
    return math.sqrt(sum(float(part.square().sum()) for part in gradient))


def clipped_sum(
    batch: list[tuple[Record, float, list[Tensor]]], module: nn.Module
) -> list[Tensor]:
    """The sum of a batch's gradients, each clipped at its record's bound."""
    total = [torch.zeros_like(p) for p in module.parameters()]
    for record, norm, gradient in batch:
        factor = 0.0 if record.is_out else min(1.0, record.bound / (norm + 1e-6))
        total = [t + factor * g for t, g in zip(total, gradient, strict=True)]
    return total


def momentum_step(
    module: nn.Module,
    velocity: list[Tensor],
    total: list[Tensor],
    config: TrainConfig,
    expected_batch: int,
    noise: Callable[[tuple[int, ...]], np.ndarray],
) -> None:
    """SGD with momentum on the noisy mean gradient, in place."""
    with torch.no_grad():
        for p, v, t in zip(module.parameters(), velocity, total, strict=True):
            shift = torch.from_numpy(noise(tuple(p.shape)))
            v.copy_(config.momentum * v + (t + shift) / expected_batch)
            p -= config.learning_rate * v


def counts_from_the_middle(bins_by_step: list[list[int]], every: int) -> np.ndarray:
    """Steps of each record in each bin, each step counted as the middle one of its lot.

    A lot has as many steps as there were before it, and not more than ``every``.
    """
    counts = np.zeros((len(bins_by_step[0]), N_BINS + 1), dtype=int)
    start = 0
    while start < len(bins_by_step):
        lot = bins_by_step[start : start + min(max(start, 1), every)]
        start += len(lot)
        for record, counted_bin in enumerate(lot[len(lot) // 2]):
            counts[record, counted_bin] += len(lot)
    return counts
