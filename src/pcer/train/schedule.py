"""Which records each step of each model sees: exact Poisson samples, padded to one width.

Every record joins every step independently with the same probability: over all pairs
(step, record) the gap from one joining record to the next is geometric, so that a
sample takes one draw per joining record. Batches are padded, never cut: a batch that
does not fit is an error, rarer than once in 10^12 trainings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcer.errors import PcerError
from pcer.metrics import FloatArray
from pcer.train.config import Sampling
from pcer.train.step import LANES, round_up
from pcer.train.streams import WORD_BITS, GapTable

OVERFLOW_CHANCE = (
    1e-12  # probability that any batch of a training is wider than the padding
)

# Share of the batches wider than the usual width. A GPU has a wide step for all its
# models, so that few steps should need it; a CPU computes no padding at all.
WIDE_SHARE = 1e-4

# Draws beyond the expected number, in standard deviations. A training that needs more,
# once in 10^9, draws again from the start of the same stream.
SPARE_DRAWS = 6.0


@dataclass(frozen=True)
class Widths:
    """Columns of a padded batch: a GPU always computes the usual ones, the rest only if needed."""

    # Both are fixed by the sampling, never by the models of a block: products of one
    # shape round alike, and padding adds exact zeros.
    usual: int
    full: int

    @classmethod
    def of(cls, sampling: Sampling) -> Widths:
        """Widths for the batches of a sampling, from the tail of the binomial distribution."""
        from scipy.stats import binom  # takes half a second to import

        law = binom(sampling.n_train, sampling.sample_rate)
        full = int(law.isf(OVERFLOW_CHANCE / sampling.n_steps))
        usual = int(law.isf(WIDE_SHARE))
        return cls(round_up(usual, LANES), round_up(full, LANES))


@dataclass(frozen=True)
class Schedule:
    """The padded batches of a block."""

    rows: Tensor  # (step, model, column) int32, a row of the block's table of records
    sizes: Tensor  # (step, model), how many records each batch has; the rest is padding
    widths: Widths


class Drawer:
    """Draws the samples of one model after the other, on the rows' device."""

    def __init__(self, sampling: Sampling, place: torch.device) -> None:
        table = GapTable.of(sampling.steps_per_epoch)
        self.sampling = sampling
        self.bits = table.bits
        self.threshold = torch.from_numpy(table.threshold).to(place)
        self.alias = torch.from_numpy(table.alias).to(place)

    def gaps(self, words: Tensor) -> Tensor:
        """The geometric gap that each word stands for."""
        column = words.bitwise_and(2**self.bits - 1)
        rest = (words >> self.bits).bitwise_and_(2 ** (WORD_BITS - self.bits) - 1)
        keeps = rest < self.threshold.index_select(0, column)
        return torch.where(keeps, column, self.alias.index_select(0, column)).add_(1)

    def positions(self, words: Callable[[int], Tensor]) -> Tensor:
        """A model's drawn (step, record) pairs, each as step * n_train + record, ascending."""
        n_trials = self.sampling.n_steps * self.sampling.n_train
        spare = SPARE_DRAWS
        expected = n_trials * self.sampling.sample_rate
        while True:
            n_words = max(16, round_up(int(expected + spare * math.sqrt(expected)), 4))
            positions = self.gaps(words(n_words)).cumsum(dim=0).sub_(1)
            n_found = int(
                torch.searchsorted(positions, n_trials)
            )  # the CPU waits for the device
            if n_found < n_words:
                return positions[:n_found]
            spare += SPARE_DRAWS

    def fill(
        self, rows: Tensor, words: Callable[[int], Tensor], train_rows: Tensor
    ) -> Tensor:
        """Write one model's batches into ``rows`` (step, column), from the left; their sizes."""
        n_steps, width = rows.shape
        positions = self.positions(words)
        steps = torch.arange(n_steps + 1, device=rows.device)
        ends = torch.searchsorted(positions, steps * len(train_rows))
        sizes = ends.diff()
        largest = int(sizes.max())  # the CPU waits for the device
        if largest > width:
            raise PcerError(
                f"A batch of {largest} records does not fit the {width} padded columns; "
                "this should never happen: train with another seed and report it."
            )
        n = len(positions)
        steps = steps[:-1]
        record = positions - (steps * len(train_rows)).repeat_interleave(
            sizes, output_size=n
        )
        place = (steps * rows.stride(0) - ends[:-1]).repeat_interleave(
            sizes, output_size=n
        )
        place += torch.arange(n, device=rows.device)
        line = rows.as_strided(((n_steps - 1) * rows.stride(0) + width,), (1,))
        line.scatter_(0, place, train_rows.index_select(0, record))
        return sizes


def thin_rows(
    rows: Tensor,
    sizes: Tensor,
    train_rows: Tensor,
    shares: FloatArray,
    bits: np.random.Philox,
    *,
    padding: int,
) -> Tensor:
    """Keep each drawn record of one model with its own probability; gives the remaining sizes."""
    # A record drawn with probability q stays with probability s, so it joins with s q,
    # rounded down to 2^-53 of q. Each takes a word of the stream, in order; removed
    # records become padding.
    drawn = torch.arange(rows.shape[1], device=rows.device) < sizes[:, None]
    words = torch.from_numpy(
        (bits.random_raw(int(sizes.sum())) >> np.uint64(11)).view(np.int64)
    )
    most = torch.from_numpy(np.floor(shares * 2.0**53).astype(np.int64)).to(rows.device)
    first, last = train_rows[[0, -1]].tolist()  # the CPU waits for the device
    by_row = most.new_zeros(last - first + 1).index_copy_(
        0, train_rows.long() - first, most
    )
    stays = torch.zeros_like(drawn)
    stays[drawn] = words.to(rows.device) < by_row[rows[drawn] - first]
    kept = torch.where(stays, rows, padding)
    order = torch.sort(stays.logical_not().to(torch.uint8), dim=1, stable=True).indices
    rows.copy_(kept.gather(1, order))
    return stays.sum(dim=1)
