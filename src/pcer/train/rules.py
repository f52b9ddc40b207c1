"""Rules of training: what a step clips, samples and adds, and what of it is accounted.

The paper's DP-SGD is one rule among others. A rule decides three things for every training record,
as tensors that every device understands: the bound its gradient is clipped at, how often it joins
a batch, and, through the largest bound, the noise. It may decide anew every so many steps, from the
norms of the records' gradients.

No bound exceeds the largest, and no record is drawn more often than the config says. One more thing
a rule must keep itself: what it decides for a record may depend on that record and on the weights,
never on another record, or one person would move everybody's bounds, which no noise hides. Then
the calibrated epsilon holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcer.metrics import FloatArray, IntArray

N_BINS = 200  # of the grid to which clipped norms are rounded up, from 0 to the largest clip bound


@dataclass(frozen=True)
class Refresh:
    """What a rule sees when it decides.

    Bins are the norm of each record's gradient, clipped at the largest bound, and rounded up to a
    whole number of ``N_BINS``-ths of that bound.
    """

    step: int  # the first that the decision is for
    bins: Tensor  # (private model, training record) uint8
    records: Tensor  # (private model, training record), rows of the data
    largest_clip: float


@dataclass(frozen=True)
class DpSgd:
    """The paper's rule, and what others are made from: one clip bound and one sample rate for all.

    Attributes:
        name: as in ``TrainConfig.rule``.
        adapts: whether ``refresh`` is called, before the first step and every so many steps.
    """

    name: str = "dp-sgd"
    adapts: bool = False

    def sample_shares(self, records: IntArray) -> FloatArray | None:
        """How often each training record joins a step, as a share of the sample rate, in [0, 1].

        None is 1 for all. Given the rows of a split's training records.
        """
        return None

    def refresh(self, seen: Refresh) -> Tensor:
        """The clip bound of every training record (private model, training record).

        Decided for each record by itself, on the device where the tensors lie.
        """
        return torch.full(seen.bins.shape, seen.largest_clip, device=seen.bins.device)


@dataclass(frozen=True)
class Held(DpSgd):
    """Each record is clipped at its last seen norm, rounded up: what is booked is what it spent."""

    name: str = "held"
    adapts: bool = True

    def refresh(self, seen: Refresh) -> Tensor:
        """The upper end of every record's bin."""
        return seen.bins.double().mul_(seen.largest_clip / N_BINS)


RULES = {rule.name: rule for rule in (DpSgd(), Held())}
