"""Slow, obvious twins of the training engine: one model, one record, one number at a time."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from pcer.train import TrainConfig

MASK = 2**64 - 1


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
        low, high = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(high >> 64) ^ c[1] ^ k0, high & MASK, (low >> 64) ^ c[3] ^ k1, low & MASK]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c


def box_muller(radius_bits: int, angle_bits: int) -> tuple[float, float]:
    """Two normal variables from two signed 32-bit whole numbers."""
    uniform = (abs(radius_bits) + 0.5) / 2**31
    radius, angle = (
        math.sqrt(-2 * math.log(min(uniform, 1.0))),
        math.pi * angle_bits / 2**31,
    )
    return radius * math.cos(angle), radius * math.sin(angle)


def norm_bin(norm: float, clip: float, *, n_bins: int = 200) -> int:
    """The bin of a clipped norm: (b - 1) clip / 200 < s <= b clip / 200."""
    kept = norm * min(1.0, clip / (norm + 1e-6))
    return math.ceil(kept * n_bins / clip)


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
    """DP-SGD in place, with every gradient of every record at every step, and noise by shape.

    Norms of every so many steps count: of the first of them where they are held, which
    is also what the record is clipped at, else of the middle one (and of fewer steps at
    first). With costs, a record is out for good before the first step that it cannot
    pay. Gives how many steps each record spent in each bin.
    """
    (features, labels), clip = records, config.clip_norm
    n = len(features)
    counts = np.zeros((n, 201), dtype=int)
    velocity = [torch.zeros_like(p) for p in module.parameters()]
    bins, bounds, spent, is_out = [0] * n, [clip] * n, [0.0] * n, [False] * n
    seen: list[list[int]] = []
    for step, batch in enumerate(drawn):
        gradients = [record_gradient(module, features[i], labels[i]) for i in range(n)]
        norms = [
            math.sqrt(sum(float(g.square().sum()) for g in one)) for one in gradients
        ]
        seen.append([norm_bin(norm, clip) for norm in norms])
        if step % every == 0:
            bins = [norm_bin(norm, clip) for norm in norms]
            bounds = [b * clip / 200 if is_held else clip for b in bins]
        for i in range(n):
            cost = 0.0 if costs is None else costs[bins[i]]
            is_out[i] = is_out[i] or spent[i] + cost > budget
            spent[i] += 0.0 if is_out[i] else cost
            counts[i, 0 if is_out[i] else bins[i]] += 1
        total = [torch.zeros_like(p) for p in module.parameters()]
        for i in batch:
            factor = 0.0 if is_out[i] else min(1.0, bounds[i] / (norms[i] + 1e-6))
            total = [t + factor * g for t, g in zip(total, gradients[i], strict=True)]
        with torch.no_grad():
            for p, v, t in zip(module.parameters(), velocity, total, strict=True):
                shift = torch.from_numpy(noise(tuple(p.shape)))
                v.copy_(config.momentum * v + (t + shift) / expected_batch)
                p -= config.learning_rate * v
    return counts if is_held else counts_from_the_middle(seen, every)


def counts_from_the_middle(seen: list[list[int]], every: int) -> np.ndarray:
    """Steps of each record in each bin, each step counted as the middle one of its lot.

    A lot has as many steps as there were before it, and not more than ``every``.
    """
    counts, at = np.zeros((len(seen[0]), 201), dtype=int), 0
    while at < len(seen):
        lot = seen[at : at + min(max(at, 1), every)]
        at += len(lot)
        for record, b in enumerate(lot[len(lot) // 2]):
            counts[record, b] += len(lot)
    return counts
