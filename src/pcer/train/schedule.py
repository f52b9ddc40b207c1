"""Which records each step of each model sees: exact Poisson samples, padded to one width.

Every record joins every step independently with the same chance. Batches are padded, never cut:
a batch that does not fit is an error, and the width makes that rarer than once in 10^12 trainings.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.stats import binom
from torch import Tensor

from pcer.errors import PcerError
from pcer.train.config import Sampling
from pcer.train.dpsgd import LANES, round_up
from pcer.train.fleet import IntArray
from pcer.train.streams import Purpose, poisson_positions, stream

OVERFLOW_CHANCE = 1e-12
"""Chance that any batch of a training is wider than the padding."""

USUAL_SHARE = 1e-3
"""Share of the batches that are wider than the usual width."""


@dataclass(frozen=True)
class Widths:
    """Columns of a padded batch: the usual ones are always computed, the rest only if needed.

    Both are fixed by the sampling alone, never by the models of a block: products of one shape
    round alike, and padding adds exact zeros, so a model's weights do not depend on its company.
    """

    usual: int
    full: int

    @classmethod
    def of(cls, sampling: Sampling) -> Widths:
        """Widths for the batches of a sampling, from the tail of the binomial distribution."""
        law = binom(sampling.n_train, sampling.sample_rate)
        full = int(law.isf(OVERFLOW_CHANCE / sampling.n_steps))
        return cls(round_up(int(law.isf(USUAL_SHARE)), LANES), round_up(full, LANES))


@dataclass(frozen=True)
class Schedule:
    """The padded batches of a block.

    Attributes:
        rows: (step, model, column) int32, a row of the block's table of records.
        widths: the usual and the full number of columns.
        is_wide: for each step, whether any model needs more than the usual columns.
    """

    rows: Tensor
    widths: Widths
    is_wide: list[bool]


def sampled_positions(seed: int, epsilon: float, sampling: Sampling, secret: bytes) -> IntArray:
    """The drawn (step, record) pairs of a model, each as step * n_train + record, ascending."""
    bits = stream(seed=seed, epsilon=epsilon, purpose=Purpose.SAMPLING, secret=secret)
    n_trials = sampling.n_steps * sampling.n_train
    return poisson_positions(bits, sample_rate=sampling.sample_rate, n_trials=n_trials)


def fill_rows(rows: Tensor, positions: Tensor, train_rows: Tensor) -> Tensor:
    """Write one model's batches into ``rows`` (step, column) and give their sizes.

    Args:
        rows: to be filled from the left; what stays is padding.
        positions: from ``sampled_positions``.
        train_rows: table row of each training record.
    """
    n_steps, width = rows.shape
    step = positions // len(train_rows)
    sizes = torch.bincount(step, minlength=n_steps)
    if int(sizes.max()) > width:  # the CPU waits for the device
        raise PcerError(
            f"A batch of {int(sizes.max())} records does not fit the {width} padded columns; "
            "this should never happen: train with another seed and report it."
        )
    first = sizes.cumsum(0) - sizes
    column = torch.arange(len(step), device=step.device) - first[step]
    rows[step, column] = train_rows[positions - step * len(train_rows)]
    return sizes
