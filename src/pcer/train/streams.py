"""Where every random number of a training run comes from.

A stream is named by (seed, budget, purpose), never by a position: a model draws the
same numbers alone and in any block. Under a secret, what is trained is part of the name
too: two trainings that share only the secret share no draw. Streams are counter based
(Philox 4x64, 10 rounds, as in numpy), so that a GPU can compute the same bits as a CPU
without reading them in order.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pcer.errors import require_at_least

KEY_BYTES = 16  # length of a Philox 4x64 key
WORD_BITS = 64  # random bits that one draw uses
KEYED_STREAMS = "pcer/2"  # how streams under a secret are named


class Purpose(StrEnum):
    """What a stream is for; two purposes never share a draw."""

    INITIAL = "initial weights"
    SAMPLING = "poisson sampling"
    NOISE = "gradient noise"
    THINNING = "thinning of samples"
    LAYERS = "layers that draw"


def stream(
    *,
    seed: int,
    epsilon: float,
    purpose: Purpose,
    secret: bytes = b"",
    digest: str = "",
) -> np.random.Philox:
    """The bit generator of one model and one purpose; the secret has up to 64 bytes.

    Anyone who knows seed, budget and secret can compute and remove the noise:
    differential privacy holds only against people who do not.
    """
    require_at_least(0, seed=seed)
    # The digest is of settings and records: two models with equal noise would show how
    # their gradients differ.
    names = f"{KEYED_STREAMS}|{digest}" if secret else "pcer/1"
    name = f"{names}|seed={seed}|epsilon={float(epsilon).hex()}|{purpose}"
    key = hashlib.blake2b(name.encode(), digest_size=KEY_BYTES, key=secret).digest()
    return np.random.Philox(key=int.from_bytes(key, "little"))


def first_words(bits: np.random.Philox) -> Callable[[int], Tensor]:
    """A function that gives the first so many 64-bit words of a stream (int64)."""
    start = bits.state

    def words(n_words: int) -> Tensor:
        bits.state = start
        return torch.from_numpy(bits.random_raw(n_words).view(np.int64))

    return words


@dataclass(frozen=True)
class GapTable:
    """From a 64-bit word to the gap before the next head of a coin, by Walker's alias method."""

    # Each gap has a whole number of the 2^64 words, so its probability is geometric to
    # within 2^-64; only integers are computed, so every device finds the same gaps.
    # Column c of 2^bits has gap c + 1, and the low bits of a word choose the column.
    threshold: NDArray[
        np.int64
    ]  # (column,) the number of words that keep the column's own gap
    alias: NDArray[
        np.int64
    ]  # (column,) the position of the gap that its other words give
    bits: int

    @classmethod
    @functools.cache
    def of(cls, m: int) -> GapTable:
        """The table of a coin that shows heads once in ``m`` throws."""
        masses = _gap_masses(m)
        bits = max(2, (len(masses) - 1).bit_length())
        masses += [0] * (2**bits - len(masses))
        return cls(*_alias_columns(masses, capacity=2 ** (WORD_BITS - bits)), bits)


def _gap_masses(m: int) -> list[int]:
    """How many of the 2^64 words give gap 1, 2, ...; the last takes what is left."""
    # tail: probability of no head yet, in 2^-128
    total = 2**WORD_BITS
    tail = 2 ** (2 * WORD_BITS)
    masses = []
    left = total
    while left > 1:
        tail = tail * (m - 1) // m
        masses.append(left - (tail >> WORD_BITS))
        left -= masses[-1]
    if left:
        masses.append(left)
    return masses


def _alias_columns(
    masses: list[int], *, capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Fill columns of one capacity, each with at most two gaps."""
    rest = list(masses)
    keep = [capacity] * len(masses)
    alias = list(range(len(masses)))
    small = [k for k, mass in enumerate(rest) if mass < capacity]
    large = [k for k, mass in enumerate(rest) if mass > capacity]
    while small:
        low = small.pop()
        high = large[-1]
        keep[low] = rest[low]
        alias[low] = high
        rest[high] -= capacity - rest[low]
        if rest[high] <= capacity:
            large.pop()
            if rest[high] < capacity:
                small.append(high)
    return np.array(keep, dtype=np.int64), np.array(alias, dtype=np.int64)


def initial_weights(
    bits: np.random.BitGenerator, *, sizes: tuple[int, ...]
) -> list[NDArray[np.float32]]:
    """Each layer's matrix (inputs + 1, outputs), the last row its bias."""
    generator = np.random.Generator(bits)
    matrices = []
    for inputs, outputs in pairwise(sizes):
        bound = 1 / math.sqrt(
            inputs
        )  # of weight and bias alike, as in ``torch.nn.Linear``
        drawn = generator.uniform(-bound, bound, (inputs + 1, outputs))
        matrices.append(drawn.astype(np.float32))
    return matrices
