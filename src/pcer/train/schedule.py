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

WIDE_SHARE = {"cpu": 0.03, "cuda": 1e-4}
"""Share of the batches wider than the usual width. A CPU computes the rest of these few models
alone; a GPU has a wide step for all its models, so that few steps should need it."""


@dataclass(frozen=True)
class Widths:
    """Columns of a padded batch: the usual ones are always computed, the rest only if needed.

    Both are fixed by the sampling and the kind of device, never by the models of a block: products
    of one shape round alike, and padding adds exact zeros, so that on a CPU a model's weights do
    not depend on its company.
    """

    usual: int
    full: int

    @classmethod
    def of(cls, sampling: Sampling, kind: str = "cpu") -> Widths:
        """Widths for the batches of a sampling, from the tail of the binomial distribution."""
        law = binom(sampling.n_train, sampling.sample_rate)
        full = int(law.isf(OVERFLOW_CHANCE / sampling.n_steps))
        usual = int(law.isf(WIDE_SHARE[kind]))
        return cls(round_up(usual, LANES), round_up(full, LANES))


@dataclass(frozen=True)
class Schedule:
    """The padded batches of a block.

    Attributes:
        rows: (step, model, column) int32, a row of the block's table of records.
        widths: the usual and the full number of columns.
        wide: for each step, the models that need more than the usual columns.
    """

    rows: Tensor
    widths: Widths
    wide: list[list[int]]


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


def wide_models(sizes: Tensor, usual: int) -> list[list[int]]:
    """For each step the models whose batch, of sizes (model, step), exceeds the usual width."""
    wide: list[list[int]] = [[] for _ in range(sizes.shape[1])]
    for step, model in (sizes > usual).T.nonzero().tolist():  # the CPU waits for the device
        wide[step].append(model)
    return wide
