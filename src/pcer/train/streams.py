"""Where every random number of a training run comes from.

A stream is named by (seed, budget, purpose), never by a position: a model draws the same numbers
alone and in any block. Streams are counter based (Philox 4x64, 10 rounds, as in numpy), so that a
GPU can compute the same bits as a CPU without reading them in order.
"""

from __future__ import annotations

import hashlib
import math
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pcer.errors import require_at_least

KEY_BYTES = 16
"""Length of a Philox 4x64 key."""


class Purpose(StrEnum):
    """What a stream is for; two purposes never share a draw."""

    INITIAL = "initial weights"
    SAMPLING = "poisson sampling"
    NOISE = "gradient noise"


def stream(*, seed: int, epsilon: float, purpose: Purpose, secret: bytes = b"") -> np.random.Philox:
    """The bit generator of one model and one purpose.

    Args:
        seed: the model's seed, at least 0.
        epsilon: the model's budget, ``math.inf`` for none.
        purpose: what the numbers are for.
        secret: up to 64 bytes that only the trainer knows. Whoever knows seed, budget and secret
            can compute the noise and take it out again: differential privacy holds only against
            people who do not.
    """
    require_at_least(0, seed=seed)
    name = f"pcer/1|seed={seed}|epsilon={float(epsilon).hex()}|{purpose}"
    digest = hashlib.blake2b(name.encode(), digest_size=KEY_BYTES, key=secret).digest()
    return np.random.Philox(key=int.from_bytes(digest, "little"))


def poisson_positions(
    bits: np.random.BitGenerator, *, sample_rate: float, n_trials: int
) -> NDArray[np.int64]:
    """Which of ``n_trials`` independent coins, heads with chance ``sample_rate``, show heads.

    The gap from one head to the next is geometric, the ceiling of an exponential variable divided
    by -log(1 - sample_rate): one draw per head instead of one per coin, and nothing is truncated.
    """
    rate = math.inf if sample_rate >= 1 else -math.log1p(-sample_rate)
    generator = np.random.Generator(bits)
    last, parts = -1, []
    while last < n_trials:
        missing = (n_trials - last) * sample_rate
        waits = generator.standard_exponential(int(missing + 5 * math.sqrt(missing)) + 16)
        parts.append(last + np.cumsum(np.floor(waits / rate).astype(np.int64) + 1))
        last = int(parts[-1][-1])
    positions = np.concatenate(parts)
    return positions[: np.searchsorted(positions, n_trials)]


def initial_weights(
    bits: np.random.BitGenerator, *, sizes: tuple[int, ...]
) -> list[NDArray[np.float32]]:
    """Each layer's matrix (inputs + 1, outputs), the last row its bias.

    Uniform in +-1/sqrt(inputs), weight and bias alike, as in ``torch.nn.Linear``.
    """
    generator = np.random.Generator(bits)
    matrices = []
    for inputs, outputs in pairwise(sizes):
        bound = 1 / math.sqrt(inputs)
        drawn = generator.uniform(-bound, bound, (inputs + 1, outputs))
        matrices.append(drawn.astype(np.float32))
    return matrices
