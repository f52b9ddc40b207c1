"""Where does every random number of a training run come from?

A stream is named by (seed, budget, purpose), never by a position: a model draws the
same numbers alone and in any block. Under a secret, what is trained is part of the name
too: two trainings that share only the secret share no draw. Streams are counter based
(Philox 4x64, 10 rounds, as in numpy), so that a GPU can compute the same bits as a CPU
without reading them in order.

``fleet.Model.stream`` names the streams of a model; ``engine`` and ``schedule`` turn
them into initial weights, batches and noise.

To add something random: a member of ``Purpose``.
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
    differential privacy holds only against people who do not. The digest is of settings
    and records: two models with equal noise would show how their gradients differ.
    """
    require_at_least(0, seed=seed)
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
    """From a 64-bit word to a coin's gap before its next head.

    Each gap has a whole number of the 2^64 words, so its probability is geometric to
    within 2^-64; only integers are computed, so every device finds the same gaps.
    By Walker's alias method (1977): column c of 2^bits has gap c + 1. The low bits of a
    word choose the column, and the others choose the column's gap or its alias.

    Attributes:
        threshold: (column,), how many words keep the column's gap.
        alias: (column,), the column whose gap the other words give.
        bits: of a word that choose the column.
    """

    threshold: NDArray[np.int64]
    alias: NDArray[np.int64]
    bits: int

    @classmethod
    @functools.cache
    def of(cls, m: int) -> GapTable:
        """The table of a coin that shows heads once in ``m`` throws."""
        masses = _gap_masses(m)
        bits = max(2, (len(masses) - 1).bit_length())
        masses += [0] * (2**bits - len(masses))
        threshold, alias = _alias_columns(masses, capacity=2 ** (WORD_BITS - bits))
        return cls(threshold, alias, bits)


def _gap_masses(m: int) -> list[int]:
    """How many of the 2^64 words give gap 1, 2, ...; the last takes what is left.

    A gap is above g with probability (1 - 1/m)^g: here the words ``left``, from
    ``tail``, which is in units of 2^-128 and rounded down.
    """
    tail = 2 ** (2 * WORD_BITS)
    left = 2**WORD_BITS
    masses = []
    while left > 1:
        tail = tail * (m - 1) // m
        mass = left - (tail >> WORD_BITS)
        masses.append(mass)
        left -= mass
    if left > 0:
        masses.append(left)
    return masses


def _alias_columns(
    masses: list[int], *, capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Threshold and alias of columns of one capacity, each with at most two gaps.

    A column whose gap has too few words is filled up with words of a gap that has too
    many; this one may have too few afterwards.
    """
    words = list(masses)  # of each gap, without those in other gaps' columns
    threshold = [capacity] * len(masses)
    alias = list(range(len(masses)))
    small = [gap for gap, mass in enumerate(masses) if mass < capacity]
    large = [gap for gap, mass in enumerate(masses) if mass > capacity]
    while small:
        low = small.pop()
        high = large[-1]
        threshold[low] = words[low]
        alias[low] = high
        words[high] -= capacity - words[low]
        if words[high] <= capacity:
            large.pop()
        if words[high] < capacity:
            small.append(high)
    return np.array(threshold, dtype=np.int64), np.array(alias, dtype=np.int64)


def initial_weights(
    bits: np.random.BitGenerator, *, sizes: tuple[int, ...]
) -> list[NDArray[np.float32]]:
    """Each layer's matrix (inputs + 1, outputs), the last row its bias.

    Weights and biases are uniform within 1 / sqrt(inputs), as in ``torch.nn.Linear``.
    """
    generator = np.random.Generator(bits)
    matrices = []
    for inputs, outputs in pairwise(sizes):
        bound = 1 / math.sqrt(inputs)
        drawn = generator.uniform(-bound, bound, (inputs + 1, outputs))
        matrices.append(drawn.astype(np.float32))
    return matrices
