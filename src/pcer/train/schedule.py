"""Which records does each step of each model see? Exact Poisson samples, padded.

Every record joins every step independently with the same probability: over all pairs
(step, record) the gap from one joining record to the next is geometric, so that a
sample takes one draw per joining record. Batches are padded, never cut: a batch that
does not fit is an error, rarer than once in 10^12 trainings.

``engine`` draws the batches of a block here, ``opacus`` those of a module.
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

# Probability that any batch of a training is wider than the padding.
OVERFLOW_CHANCE = 1e-12

# Share of the batches wider than the usual width. A GPU has a wide step for all its
# models, so that few steps should need it; a CPU computes no padding at all.
WIDE_SHARE = 1e-4

# Draws beyond the expected number, in standard deviations. A training that needs more,
# once in 10^9, draws again from the start of the same stream.
SPARE_DRAWS = 6.0

SHARE_BITS = 53  # of the probability with which a drawn record stays


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
        """Widths for the batches of a sampling, from the tail of the binomial law."""
        from scipy.stats import binom  # takes half a second to import

        law = binom(sampling.n_train, sampling.sample_rate)
        full = int(law.isf(OVERFLOW_CHANCE / sampling.n_steps))
        usual = int(law.isf(WIDE_SHARE))
        return cls(round_up(usual, LANES), round_up(full, LANES))


@dataclass(frozen=True)
class Schedule:
    """The padded batches of a block.

    Attributes:
        rows: (step, model, column) int32, a row of the block's table of records.
        sizes: (step, model), how many records each batch has; the rest is padding.
        widths: how many columns there are, and how many are usually needed.
    """

    rows: Tensor
    sizes: Tensor
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
        """Write one model's batches into ``rows`` (step, column), from the left.

        ``train_rows`` (training record,) are the rows of the table that may join. Gives
        the sizes (step,) of the batches.
        """
        n_steps = len(rows)
        positions = self.positions(words)
        steps = torch.arange(n_steps + 1, device=rows.device)
        ends = torch.searchsorted(positions, steps * len(train_rows))
        sizes = ends.diff()
        _require_fit(sizes, rows.shape[1])

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
        """A model's drawn pairs, each as step * n_train + record, ascending.

        ``words`` gives the first so many words of the model's stream.
        """
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


def _require_fit(sizes: Tensor, width: int) -> None:
    """Refuse batches that are wider than their padding."""
    largest = int(sizes.max())  # the CPU waits for the device
    if largest > width:
        raise PcerError(
            f"A batch of {largest} records does not fit the {width} padded columns; "
            "this should never happen: train with another seed and report it."
        )


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

    A record drawn with probability q stays with probability s, so it joins with s q,
    rounded down to 2^-53 of q. Each drawn record takes a word of the stream, in order.
    Removed records become padding, and the others move to the left.

    Args:
        rows: (step, column), the drawn batches.
        sizes: (step,), how many records each has.
        train_rows: (training record,), rows of the table, ascending.
        shares: (training record,), s in [0, 1].
        bits: a stream that nobody has drawn from.
        padding: the row of the table that pads.

    Returns:
        The remaining sizes (step,).
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
