"""Where does every random number of a training come from, and whom does a step see?

A stream is named by (seed, budget, purpose), under a secret by what is trained too,
never by a position: a model draws the same alone and in any block. Streams are counter
based (Philox 4x64, 10 rounds, as in numpy), so that a GPU computes the same bits. Every
record joins every step independently: over all pairs (step, record) the gap from one to
the next is geometric, one draw per joining record. Batches are padded, never cut.
``fleet.Model.stream`` names streams; ``engine`` and ``opacus`` draw batches. To add
something random: a member of ``Purpose``.
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

from pcer.errors import PcerError, require_at_least
from pcer.metrics import FloatArray
from pcer.train.config import Sampling
from pcer.train.step import LANES, round_up

KEY_BYTES = 16  # length of a Philox 4x64 key
WORD_BITS = 64  # random bits that one draw uses
KEYED_STREAMS = "pcer/2"  # how streams under a secret are named

# Probability that any batch of a training is wider than the padding.
OVERFLOW_CHANCE = 1e-12

# Share of the batches wider than the usual width. A GPU has a wide step for all its
# models, so that few steps should need it; a CPU computes no padding at all.
WIDE_SHARE = 1e-4

# Draws beyond the expected number, in standard deviations. A training that needs more,
# once in 10^9, draws again from the start of the same stream.
SPARE_DRAWS = 6.0

SHARE_BITS = 53  # of the probability with which a drawn record stays


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

    Who knows seed, budget and secret can remove the noise. The digest is of settings
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
    within 2^-64; only integers are computed, so every device finds the same gaps. By
    Walker's alias method (1977): column c of 2^bits has gap c + 1. The low bits of a
    word choose the column, and the others choose the column's gap or its alias.
    """

    threshold: NDArray[np.int64]  # (column,), how many words keep the column's gap
    alias: NDArray[np.int64]  # (column,), the column whose gap the other words give
    bits: int  # of a word that choose the column

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

    A word drawn at random says how many records are skipped before the next one of a
    batch. A gap is above g with probability (1 - 1/m)^g: ``tail`` in units of 2^-128,
    ``left`` in words of 2^-64, both rounded down.
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

    A column with too few words is filled up with those of a gap that has too many, and
    that may have too few afterwards.
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
    """Each layer's matrix (inputs + 1, outputs), its biases last, as torch.nn.Linear.

    Weights and biases are uniform within 1 / sqrt(inputs).
    """
    generator = np.random.Generator(bits)
    matrices = []
    for inputs, outputs in pairwise(sizes):
        bound = 1 / math.sqrt(inputs)
        drawn = generator.uniform(-bound, bound, (inputs + 1, outputs))
        matrices.append(drawn.astype(np.float32))
    return matrices


@dataclass(frozen=True)
class Widths:
    """Columns of a padded batch, fixed by the sampling, never by a block's models.

    Products of one shape round alike, and padding adds exact zeros. A GPU always
    computes the usual columns, and all of them only where a batch needs it.
    """

    usual: int
    full: int

    @classmethod
    def of(cls, sampling: Sampling) -> Widths:
        """From the tail of the binomial law."""
        from scipy.stats import binom  # takes half a second to import

        law = binom(sampling.n_train, sampling.sample_rate)
        full = int(law.isf(OVERFLOW_CHANCE / sampling.n_steps))
        usual = int(law.isf(WIDE_SHARE))
        return cls(round_up(usual, LANES), round_up(full, LANES))


@dataclass(frozen=True)
class Schedule:
    """The padded batches of a block."""

    rows: Tensor  # (step, model, column) int32, a row of the block's table of records
    sizes: Tensor  # (step, model), how many are records; the rest is padding
    widths: Widths


class Drawer:
    """Draws the samples of one model after the other, on the rows' device."""

    def __init__(self, sampling: Sampling, place: torch.device) -> None:
        table = GapTable.of(sampling.steps_per_epoch)
        self.sampling = sampling
        self.bits = table.bits
        self.threshold = torch.from_numpy(table.threshold).to(place)
        self.alias = torch.from_numpy(table.alias).to(place)

    def fill(
        self, rows: Tensor, words: Callable[[int], Tensor], train_rows: Tensor
    ) -> Tensor:
        """Write batches of ``train_rows`` into ``rows`` (step, column); their sizes."""
        n_steps = len(rows)
        positions = self.positions(words)
        steps = torch.arange(n_steps + 1, device=rows.device)
        ends = torch.searchsorted(positions, steps * len(train_rows))
        sizes = ends.diff()
        largest = int(sizes.max())  # the CPU waits for the device
        if largest > rows.shape[1]:
            raise PcerError(
                f"A batch of {largest} records does not fit the {rows.shape[1]} padded "
                "columns; this should never happen: train with another seed and report "
                "it."
            )

        n_pairs = len(positions)
        step = steps[:-1].repeat_interleave(sizes, output_size=n_pairs)
        record = positions - step * len(train_rows)
        start = ends.index_select(0, step)  # of the step among all pairs
        column = torch.arange(n_pairs, device=rows.device) - start

        # Other models' columns may lie between two rows.
        stride = rows.stride(0)
        flat = rows.as_strided(((n_steps - 1) * stride + rows.shape[1],), (1,))
        flat.scatter_(0, step * stride + column, train_rows.index_select(0, record))
        return sizes

    def positions(self, words: Callable[[int], Tensor]) -> Tensor:
        """Drawn pairs, step * n_train + record, ascending, from ``words``."""
        n_pairs = self.sampling.n_steps * self.sampling.n_train
        expected = n_pairs * self.sampling.sample_rate
        spare = SPARE_DRAWS
        while True:
            n_words = max(16, round_up(int(expected + spare * math.sqrt(expected)), 4))
            positions = self.gaps(words(n_words)).cumsum(dim=0).sub_(1)
            # The CPU waits for the device.
            n_drawn = int(torch.searchsorted(positions, n_pairs))
            if n_drawn < n_words:
                return positions[:n_drawn]
            spare += SPARE_DRAWS

    def gaps(self, words: Tensor) -> Tensor:
        """The geometric gap that each word stands for, by a ``GapTable``."""
        column = words.bitwise_and(2**self.bits - 1)
        rest = (words >> self.bits).bitwise_and_(2 ** (WORD_BITS - self.bits) - 1)
        keeps = rest < self.threshold.index_select(0, column)
        return torch.where(keeps, column, self.alias.index_select(0, column)).add_(1)


def thin_rows(
    rows: Tensor,
    sizes: Tensor,
    train_rows: Tensor,
    shares: FloatArray,
    bits: np.random.Philox,
    *,
    padding: int,
) -> Tensor:
    """Keep each drawn record of one model with its own probability, in place.

    A record drawn with probability q stays with probability s (``shares``), so it joins
    with s q, rounded down to 2^-53 of q. Each drawn record of ``rows`` (step, column)
    takes a word of the unused stream ``bits``, in order; removed ones become the row
    ``padding`` of the table, and the others move to the left. Gives the remaining
    ``sizes`` (step,).
    """
    is_drawn = torch.arange(rows.shape[1], device=rows.device) < sizes[:, None]
    words = bits.random_raw(int(sizes.sum())) >> np.uint64(WORD_BITS - SHARE_BITS)
    draws = torch.from_numpy(words.view(np.int64)).to(rows.device)
    limits = np.floor(shares * 2.0**SHARE_BITS).astype(np.int64)
    limit = torch.from_numpy(limits).to(rows.device)
    first, last = train_rows[[0, -1]].tolist()  # the CPU waits for the device
    limit_of_row = limit.new_zeros(last - first + 1)
    limit_of_row.index_copy_(0, train_rows.long() - first, limit)

    stays = torch.zeros_like(is_drawn)
    stays[is_drawn] = draws < limit_of_row[rows[is_drawn] - first]
    thinned = torch.where(stays, rows, padding)
    order = torch.sort(stays.logical_not().to(torch.uint8), dim=1, stable=True).indices
    rows.copy_(thinned.gather(1, order))
    return stays.sum(dim=1)
