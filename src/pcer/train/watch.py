"""A training rule at work on a block: clip bounds of every record, and counts of its norms.

Every so many steps a device computes the norms of all training records, rounded up to
bins; the rule then decides on new bounds, a filter on who is left out, and the book
counts. Everything is torch on the block's device, and what a step reads is overwritten
in place, so that a captured step sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcer.metrics import FloatArray
from pcer.train.config import ReceiptMode, TrainConfig
from pcer.train.fleet import Model
from pcer.train.receipts import allowance, shared_terms
from pcer.train.rules import N_BINS, Refresh

# Refreshes that are kept as they are, one byte per record each; more are added up as
# 201 counts per record. One refresh an epoch stays below it.
KEPT_REFRESHES = 128


class StepBook:
    """How many steps each training record of each private model spent in each norm bin."""

    def __init__(
        self, n_models: int, n_train: int, n_steps: int, place: torch.device
    ) -> None:
        self.shape = (n_models, n_train, N_BINS + 1)
        self.kind = torch.int16 if n_steps < 2**15 else torch.int32
        self.place = place
        self.kept: list[tuple[Tensor, Tensor | int, int]] = []
        self.sums: Tensor | None = None

    def add(self, bins: Tensor, joined: Tensor | int, n_steps: int) -> None:
        """Book the next steps in bins (private model, training record), bin 0 if not joined."""
        self.kept.append((bins.clone(), joined, n_steps))
        if len(self.kept) > KEPT_REFRESHES:
            if self.sums is None:
                self.sums = torch.zeros(self.shape, dtype=self.kind, device=self.place)
            self._count_kept(self.sums, slice(None))
            self.kept.clear()

    def counts(self, models: Tensor, kind: torch.dtype = torch.float64) -> Tensor:
        """Steps of some models, (model, training record, bin), where the norms lie."""
        shape = (len(models), *self.shape[1:])
        counts = torch.zeros(shape, dtype=kind, device=self.place)
        if self.sums is not None:
            counts += self.sums[models]
        self._count_kept(counts, models)
        return counts

    def _count_kept(self, counts: Tensor, models: Tensor | slice) -> None:
        """Add the uncounted refreshes to (model, training record, bin)."""
        for bins, joined, n_steps in self.kept:
            mine = bins[models].long()[..., None]
            if isinstance(joined, int):
                counts.scatter_add_(
                    -1, mine, counts.new_full((), joined).expand(mine.shape)
                )
            else:
                own = joined[models].to(counts.dtype)
                counts.scatter_add_(-1, mine, own[..., None])
                counts[..., 0] += n_steps - own


class PersonFilter:
    """A Renyi filter: a record whose budget a step would exceed joins no more steps."""

    # The order is fixed beforehand, every record is checked before every step, sampled
    # or not, and what it has spent depends only on earlier steps.

    def __init__(
        self,
        allowances: Sequence[tuple[FloatArray, float]],
        n_train: int,
        place: torch.device,
    ) -> None:
        costs = np.array([cost for cost, _ in allowances]).reshape(-1, N_BINS + 1)
        self.costs = torch.from_numpy(costs).to(place)
        budgets = [[most] for _, most in allowances]
        self.budget = torch.tensor(budgets, dtype=torch.float64, device=place).view(
            -1, 1
        )
        self.spent = torch.zeros(
            len(allowances), n_train, dtype=torch.float64, device=place
        )
        self.is_open = torch.ones_like(self.spent, dtype=torch.bool)

    def admit(self, bins: Tensor, n_steps: int) -> Tensor:
        """How many of the next steps each record joins, its bin unchanged; they are booked."""
        # As with a check before each step: a record joins while it can afford the next
        # step, and is out for good once it cannot.
        cost = self.costs.gather(1, bins.long())
        can_pay = ((self.budget - self.spent) / cost).nan_to_num_(
            nan=n_steps, posinf=n_steps
        )
        joined = can_pay.floor_().clamp_(0, n_steps)
        joined -= (
            self.spent + joined * cost > self.budget
        ).double()  # the quotient was rounded up
        joined = joined.clamp_(min=0).mul_(self.is_open)
        self.spent += joined * cost
        self.is_open &= joined == n_steps
        return joined.int()


@dataclass(frozen=True)
class Round:
    """Private models of a block whose norms are computed at the same steps."""

    due: Mapping[
        int, int
    ]  # before which steps, and how many steps each time stands for
    models: Tensor  # their places in the block, ascending
    book: StepBook | None  # of their steps, in this order, where they are counted


def due_steps(n_steps: int, every: int, *, before: bool) -> dict[int, int]:
    """Before which steps norms are computed, and how many (at most ``every``) each stands for.

    Not ``before`` the steps they stand for: in their middle, and more often at first,
    where models learn fast.

    >>> due_steps(10, 4, before=True), due_steps(10, 4, before=False)
    ({0: 4, 4: 4, 8: 2}, {0: 1, 1: 1, 3: 2, 6: 4, 9: 2})
    """
    due = {}
    start = 0
    while start < n_steps:
        n = min(every if before else min(every, max(1, start)), n_steps - start)
        due[start if before else start + n // 2] = n
        start += n
    return due


class Watch:
    """What a rule needs and decides while a block trains; private models come first."""

    def __init__(
        self,
        config: TrainConfig,
        private: Sequence[Model],
        *,
        # (model, 1, 1), the largest bound of each model, infinite without privacy
        clip: Tensor,
        shares: Tensor
        | None,  # (private model, training record) of it, if the rule settles them
        records: Tensor,  # (private model, training record), rows of the data
        # (model,) the first row of each model's split in the table of records
        firsts: Tensor,
        n_records: int,  # of one split in the table
    ) -> None:
        sampling = config.sampling(records.shape[1])
        place = clip.device
        self.rule = config.training_rule
        self.largest_clip = config.clip_norm
        self.clip = clip
        self.records = records
        self.firsts = firsts
        self.n_records = n_records
        self.n_steps = sampling.n_steps
        self.has_book = config.receipts is not ReceiptMode.NONE
        shape = (len(clip), n_records + 1)  # one more, for padding
        self.settled = None if shares is None else shares * self.largest_clip
        has_bounds = self.rule.adapts or (
            shares is not None and bool((shares < 1).any())
        )
        self.bounds = clip.view(-1, 1).repeat(1, shape[1]) if has_bounds else None
        if self.bounds is not None and self.settled is not None:
            self._place(self.bounds, self.settled)
        self.until, self.filter = None, None  # only where bounds are, too
        rate = sampling.sample_rate
        delta = config.dp_delta
        noises = {m.noise_multiplier for m in private}
        self.terms = {
            noise: shared_terms(noise, rate, self.n_steps, delta) for noise in noises
        }
        if (most := config.budget_per_person) is not None:
            allowances = [
                allowance(most, self.terms[m.noise_multiplier]) for m in private
            ]
            self.filter = PersonFilter(allowances, sampling.n_train, place)
            self.until = torch.full(
                shape, self.n_steps, dtype=torch.int32, device=place
            )
        every = [
            config.refresh_steps(sampling.n_train, m.noise_multiplier) for m in private
        ]
        self.rounds = []
        for steps in sorted({steps for steps in every if steps is not None}):
            models = [i for i, mine in enumerate(every) if mine == steps]
            size = (len(models), sampling.n_train, self.n_steps)
            book = StepBook(*size, place) if self.has_book else None
            due = due_steps(self.n_steps, steps, before=self.rule.adapts)
            self.rounds.append(Round(due, torch.tensor(models, device=place), book))

    def due(self, step: int) -> list[Round]:
        """Whose norms are wanted before a step."""
        return [each for each in self.rounds if step in each.due]

    def refresh(self, due: Round, step: int, bins: Tensor) -> None:
        """Book the steps that norms (model, training record) stand for, and let the rule decide."""
        n_steps = due.due[step]
        spent = bins
        if self.bounds is not None:
            if self.settled is None:
                clips = self.rule.refresh(
                    Refresh(step, bins, self.records, self.largest_clip)
                )
                self._place(self.bounds, clips.clamp(0, self.largest_clip))
            else:
                clips = self.settled[due.models]
            # A record contributes its norm, or its bound if that is less; no number is
            # the last bin
            bound = clips.double().mul(N_BINS / self.largest_clip).ceil()
            bound = bound.nan_to_num_(nan=N_BINS).clamp_(0, N_BINS)
            spent = torch.minimum(bins, bound.to(torch.uint8))
        joined = n_steps if self.filter is None else self.filter.admit(spent, n_steps)
        if due.book is not None:
            due.book.add(spent, joined, n_steps)
        if self.until is not None and not isinstance(joined, int):
            self._place(self.until, joined + step)

    def limits(self, rows: Tensor, step: Tensor | int) -> Tensor:
        """The clip bound (model, column or 1, 1) of a step's batches, rows (model, column)."""
        if self.bounds is None:
            return self.clip
        place = (rows - self.firsts[:, None]).clamp_(max=self.n_records).long()
        limits = self.bounds.gather(1, place)
        if self.until is not None:
            limits = limits.masked_fill(self.until.gather(1, place) <= step, 0)
        return limits[..., None]

    def _place(self, held: Tensor, values: Tensor) -> None:
        held[: len(values)].scatter_(1, self.records, values.to(held.dtype))
