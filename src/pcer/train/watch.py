"""What does a rule decide while a block trains, and what did each record spend?

Every so many steps a device computes the norms of all training records, rounded up to
bins; the rule then decides on new bounds, a filter on who is left out, and the book
counts. What a step reads is overwritten in place, so that a captured step sees it. The
engine makes a ``Watch`` for each block; devices ask it which norms are ``due``,
``refresh`` it with them, and read the ``limits`` of a step. Rules are in ``rules``. To
add what a rule may see: a field of ``rules.Refresh``, filled by ``refresh``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcer.metrics import IntArray
from pcer.train.config import ReceiptMode, TrainConfig
from pcer.train.fleet import Model, TrainingData
from pcer.train.receipts import Terms, allowance, shared_terms
from pcer.train.rules import N_BINS, Refresh

# Refreshes that are kept as they are, one byte per record each; more are added up as
# 201 counts per record. One refresh an epoch stays below it.
KEPT_REFRESHES = 128


class StepBook:
    """How many steps each record of each private model spent in each norm bin."""

    def __init__(
        self, n_models: int, n_train: int, n_steps: int, place: torch.device
    ) -> None:
        self.shape = (n_models, n_train, N_BINS + 1)
        self.kind = torch.int16 if n_steps < 2**15 else torch.int32
        self.place = place
        # bins, how many steps each record joined, or all did, of how many
        self.uncounted: list[tuple[Tensor, Tensor | int, int]] = []
        self.sums: Tensor | None = None

    def add(self, bins: Tensor, n_joined: Tensor | int, n_steps: int) -> None:
        """Book steps in bins (private model, training record), those missed in 0."""
        self.uncounted.append((bins.clone(), n_joined, n_steps))
        if len(self.uncounted) > KEPT_REFRESHES:
            if self.sums is None:
                self.sums = torch.zeros(self.shape, dtype=self.kind, device=self.place)
            self._count(self.sums, slice(None))
            self.uncounted.clear()

    def counts(self, models: Tensor, kind: torch.dtype = torch.float64) -> Tensor:
        """Steps of some models, (model, training record, bin), where the norms lie."""
        shape = (len(models), *self.shape[1:])
        counts = torch.zeros(shape, dtype=kind, device=self.place)
        if self.sums is not None:
            counts += self.sums[models]
        self._count(counts, models)
        return counts

    def _count(self, counts: Tensor, models: Tensor | slice) -> None:
        """Add what is not counted to ``counts`` (model, training record, bin)."""
        for bins, n_joined, n_steps in self.uncounted:
            places = bins[models].long()[..., None]
            if isinstance(n_joined, int):
                steps = counts.new_full((), n_joined).expand(places.shape)
                counts.scatter_add_(-1, places, steps)
            else:
                joined = n_joined[models].to(counts.dtype)
                counts.scatter_add_(-1, places, joined[..., None])
                counts[..., 0] += n_steps - joined


class PersonFilter:
    """A Renyi filter: a record whose budget a step would exceed joins no more steps."""

    # The order is fixed beforehand, every record is checked before every step, sampled
    # or not, and what it has spent depends only on earlier steps.

    def __init__(self, epsilon: float, terms: Sequence[Terms], records: Tensor) -> None:
        allowances = [allowance(epsilon, of_model) for of_model in terms]
        costs = np.array([cost for cost, _ in allowances]).reshape(-1, N_BINS + 1)
        budgets = np.array([[budget] for _, budget in allowances], dtype=np.float64)
        place = records.device
        self.costs = torch.from_numpy(costs).to(place)  # (model, bin)
        self.budget = torch.from_numpy(budgets.reshape(-1, 1)).to(place)
        self.spent = torch.zeros(records.shape, dtype=torch.float64, device=place)
        self.is_open = torch.ones_like(self.spent, dtype=torch.bool)

    def admit(self, bins: Tensor, n_steps: int) -> Tensor:
        """How many of the next steps each record joins, and book them."""
        cost = self.costs.gather(1, bins.long())
        affordable = (self.budget - self.spent) / cost
        affordable = affordable.nan_to_num_(nan=n_steps, posinf=n_steps)
        n_joined = affordable.floor_().clamp_(0, n_steps)

        # Where the quotient was rounded up, it is a step too many.
        n_joined -= (self.spent + n_joined * cost > self.budget).double()
        n_joined = n_joined.clamp_(min=0).mul_(self.is_open)

        self.spent += n_joined * cost
        self.is_open &= n_joined == n_steps
        return n_joined.int()


@dataclass(frozen=True)
class Round:
    """Private models of a block whose norms are computed at the same steps."""

    n_steps_at: Mapping[int, int]  # see ``due_steps``
    models: Tensor  # their places in the block, ascending
    book: StepBook | None  # of their steps, in this order, where they are counted


def due_steps(n_steps: int, every: int, *, before: bool) -> dict[int, int]:
    """Before which steps norms are computed, and for how many (``every`` at most).

    Either ``before`` the steps that they stand for, or in their middle, and then more
    often at first, where models learn fast.

    >>> due_steps(10, 4, before=True), due_steps(10, 4, before=False)
    ({0: 4, 4: 4, 8: 2}, {0: 1, 1: 1, 3: 2, 6: 4, 9: 2})
    """
    due = {}
    start = 0
    while start < n_steps:
        n = every if before else min(every, max(1, start))
        n = min(n, n_steps - start)
        step = start if before else start + n // 2
        due[step] = n
        start += n
    return due


def _rounds(
    config: TrainConfig, private: Sequence[Model], n_train: int, place: torch.device
) -> list[Round]:
    """The rounds of a block's private models, most frequent first."""
    n_steps = config.sampling(n_train).n_steps
    models_by_period: dict[int, list[int]] = {}
    for index, model in enumerate(private):
        period = config.refresh_steps(n_train, model.noise_multiplier)
        if period is not None:
            models_by_period.setdefault(period, []).append(index)

    rounds = []
    for period, models in sorted(models_by_period.items()):
        n_steps_at = due_steps(n_steps, period, before=config.training_rule.adapts)
        book = None
        if config.receipts is not ReceiptMode.NONE:
            book = StepBook(len(models), n_train, n_steps, place)
        rounds.append(Round(n_steps_at, torch.tensor(models, device=place), book))
    return rounds


class Watch:
    """What a rule needs and decides while a block trains; private models come first."""

    def __init__(
        self,
        data: TrainingData,
        private: Sequence[Model],
        config: TrainConfig,
        *,
        clip: Tensor,  # (model, 1, 1), the largest bounds, infinite without privacy
        firsts: Sequence[int],  # (model,) rows of the table where their splits begin
    ) -> None:
        place = clip.device
        train_rows = [data.train_rows[model.seed] for model in private]
        rows = np.array(train_rows, dtype=np.int64).reshape(-1, data.n_train)
        # (private model, training record), rows of the data
        self.records = torch.from_numpy(rows).to(place)
        self.firsts = torch.tensor(firsts, device=place)
        self.n_records = data.n_records
        self.rule = config.training_rule
        self.largest_clip = config.clip_norm
        self.clip = clip

        # (private model, training record), bounds that the rule settles for good
        self.settled: Tensor | None = None
        # (model, record + 1), of each record of a model's split, the last for padding;
        # None where all have the model's bound
        self.bounds: Tensor | None = None
        self._settle(data, rows)

        sampling = config.sampling(data.n_train)
        self.terms = {}  # by noise multiplier, what receipts and filters rest on
        for noise in {model.noise_multiplier for model in private}:
            rate = sampling.sample_rate
            terms = shared_terms(noise, rate, sampling.n_steps, config.dp_delta)
            self.terms[noise] = terms
        self.filter: PersonFilter | None = None
        # (model, record + 1), the first step that a record misses
        self.until: Tensor | None = None
        if config.budget_per_person is not None:
            budget = config.budget_per_person
            terms_of = [self.terms[model.noise_multiplier] for model in private]
            self.filter = PersonFilter(budget, terms_of, self.records)
            shape = (len(clip), self.n_records + 1)
            self.until = torch.full(
                shape, sampling.n_steps, dtype=torch.int32, device=place
            )
        self.has_book = config.receipts is not ReceiptMode.NONE
        self.rounds = _rounds(config, private, data.n_train, place)

    def _settle(self, data: TrainingData, rows: IntArray) -> None:
        """Make the bounds, of a rule that settles them or changes them later."""
        has_lower = False
        settled = self.rule.shares(data.groups)
        if settled is not None:
            clip_shares, _ = settled
            shares = torch.from_numpy(clip_shares[rows]).to(self.clip.device)
            self.settled = shares * self.largest_clip
            has_lower = bool((shares < 1).any())
        if self.rule.adapts or has_lower:
            self.bounds = self.clip.view(-1, 1).repeat(1, self.n_records + 1)
            if self.settled is not None:
                self._write(self.bounds, self.settled)

    def due(self, step: int) -> list[Round]:
        """Whose norms are wanted before a step."""
        return [each for each in self.rounds if step in each.n_steps_at]

    def refresh(self, due: Round, step: int, bins: Tensor) -> None:
        """Book the steps that norms (model, training record) stand for."""
        n_steps = due.n_steps_at[step]
        if self.bounds is not None:
            if self.settled is None:
                seen = Refresh(step, bins, self.records, self.largest_clip)
                clips = self.rule.refresh(seen)
                self._write(self.bounds, clips.clamp(0, self.largest_clip))
            else:
                clips = self.settled[due.models]
            # A record contributes its norm, or its bound if that is less: as bins,
            # rounded up; what is no number is the last one.
            most = clips.double().mul(N_BINS / self.largest_clip).ceil()
            most = most.nan_to_num_(nan=N_BINS).clamp_(0, N_BINS)
            bins = torch.minimum(bins, most.to(torch.uint8))
        n_joined: Tensor | int = n_steps
        if self.filter is not None:
            n_joined = self.filter.admit(bins, n_steps)
        if due.book is not None:
            due.book.add(bins, n_joined, n_steps)
        if self.until is not None and not isinstance(n_joined, int):
            self._write(self.until, n_joined + step)

    def limits(self, rows: Tensor, step: Tensor | int) -> Tensor:
        """Clip bounds of a step's batches, (model, column or 1, 1)."""
        if self.bounds is None:
            return self.clip
        records = (rows - self.firsts[:, None]).clamp_(max=self.n_records).long()
        limits = self.bounds.gather(1, records)
        if self.until is not None:
            is_out = self.until.gather(1, records) <= step
            limits = limits.masked_fill(is_out, 0)
        return limits[..., None]

    def _write(self, table: Tensor, values: Tensor) -> None:
        """Write values (private model, training record) into (model, record + 1)."""
        table[: len(values)].scatter_(1, self.records, values.to(table.dtype))
