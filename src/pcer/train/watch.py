"""What does a rule decide while a block trains, and what did each record spend?

Every so many steps a device computes the norms of all training records, rounded up to
bins; the rule then decides on new bounds, a filter on who is left out, and the book
counts. What a step reads is overwritten in place, so that a captured step sees it. The
engine makes a ``Watch`` for each block; devices ask it which norms are ``due``,
``refresh`` it with them, and read the ``limits`` of a step. Rules are in ``rules``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcer.train.config import ReceiptMode, TrainConfig
from pcer.train.fleet import Model
from pcer.train.receipts import Allowance, Terms, allowance, shared_terms
from pcer.train.rules import N_BINS, Refresh

# Refreshes that are kept as they are, one byte per record each; more are added up as
# 201 counts per record. One refresh an epoch stays below it.
KEPT_REFRESHES = 128


class Refreshed(NamedTuple):
    """What one computation of norms says about the steps that it stands for."""

    bins: Tensor  # (private model, training record)
    n_joined: Tensor | int  # of the steps: for each record, or for all
    n_steps: int


class StepBook:
    """How many steps each record of each private model spent in each norm bin."""

    def __init__(
        self, n_models: int, n_train: int, n_steps: int, place: torch.device
    ) -> None:
        self.shape = (n_models, n_train, N_BINS + 1)
        self.kind = torch.int16 if n_steps < 2**15 else torch.int32
        self.place = place
        self.uncounted: list[Refreshed] = []
        self.sums: Tensor | None = None

    def add(self, bins: Tensor, n_joined: Tensor | int, n_steps: int) -> None:
        """Book steps in bins (private model, training record), those missed in 0."""
        self.uncounted.append(Refreshed(bins.clone(), n_joined, n_steps))
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

    def __init__(
        self,
        allowances: Sequence[Allowance],  # of each model
        n_train: int,
        place: torch.device,
    ) -> None:
        n_models = len(allowances)
        costs = np.array([cost for cost, _ in allowances]).reshape(-1, N_BINS + 1)
        budgets = [budget for _, budget in allowances]
        self.costs = torch.from_numpy(costs).to(place)  # (model, bin)
        self.budget = torch.tensor(budgets, dtype=torch.float64, device=place)
        self.budget = self.budget.view(-1, 1)  # (model, 1)
        self.spent = torch.zeros(n_models, n_train, dtype=torch.float64, device=place)
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

    def __init__(  # noqa: PLR0913 # what a fleet's tables are
        self,
        config: TrainConfig,
        private: Sequence[Model],
        *,
        # (model, 1, 1), the largest bound of each model, infinite without privacy
        clip: Tensor,
        # (private model, training record) of it, if the rule settles them
        shares: Tensor | None,
        records: Tensor,  # (private model, training record), rows of the data
        # (model,) the first row of each model's split in the table of records
        firsts: Tensor,
        n_records: int,  # of one split in the table
    ) -> None:
        n_train = records.shape[1]
        self.rule = config.training_rule
        self.largest_clip = config.clip_norm
        self.clip = clip
        self.records = records
        self.firsts = firsts
        self.n_records = n_records
        self.n_steps = config.sampling(n_train).n_steps
        self.has_book = config.receipts is not ReceiptMode.NONE
        self.settled = None if shares is None else shares * self.largest_clip
        # (model, record + 1) of each record of a model's split, the last for padding;
        # None where all have the model's bound.
        self.bounds = self._first_bounds(shares)
        self.terms = _terms(config, private, n_train)
        self.filter = self._filter(config, private)
        self.until = None  # (model, record + 1), the first step that a record misses
        if self.filter is not None:
            shape = (len(clip), n_records + 1)
            self.until = torch.full(
                shape, self.n_steps, dtype=torch.int32, device=clip.device
            )
        self.rounds = _rounds(config, private, n_train, clip.device)

    def due(self, step: int) -> list[Round]:
        """Whose norms are wanted before a step."""
        return [each for each in self.rounds if step in each.n_steps_at]

    def refresh(self, due: Round, step: int, bins: Tensor) -> None:
        """Book the steps that norms (model, training record) stand for."""
        n_steps = due.n_steps_at[step]
        if self.bounds is not None:
            clips = self._clips(due, step, bins)
            if self.settled is None:
                self._write(self.bounds, clips.clamp(0, self.largest_clip))
            # A record contributes its norm, or its bound if that is less.
            bins = torch.minimum(bins, self._bins_of(clips))
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

    def _first_bounds(self, shares: Tensor | None) -> Tensor | None:
        """None where bounds never differ within a model."""
        is_shared = shares is not None and bool((shares < 1).any())
        if not self.rule.adapts and not is_shared:
            return None
        bounds = self.clip.view(-1, 1).repeat(1, self.n_records + 1)
        if self.settled is not None:
            self._write(bounds, self.settled)
        return bounds

    def _filter(
        self, config: TrainConfig, private: Sequence[Model]
    ) -> PersonFilter | None:
        budget = config.budget_per_person
        if budget is None:
            return None
        allowances = [
            allowance(budget, self.terms[model.noise_multiplier]) for model in private
        ]
        return PersonFilter(allowances, self.records.shape[1], self.clip.device)

    def _clips(self, due: Round, step: int, bins: Tensor) -> Tensor:
        if self.settled is not None:
            return self.settled[due.models]
        return self.rule.refresh(Refresh(step, bins, self.records, self.largest_clip))

    def _bins_of(self, clips: Tensor) -> Tensor:
        """Clip bounds as bins, rounded up; what is no number is the last bin."""
        bins = clips.double().mul(N_BINS / self.largest_clip).ceil()
        return bins.nan_to_num_(nan=N_BINS).clamp_(0, N_BINS).to(torch.uint8)

    def _write(self, table: Tensor, values: Tensor) -> None:
        """Write values (private model, training record) into (model, record + 1)."""
        table[: len(values)].scatter_(1, self.records, values.to(table.dtype))


def _terms(
    config: TrainConfig, private: Sequence[Model], n_train: int
) -> dict[float, Terms]:
    sampling = config.sampling(n_train)
    rate = sampling.sample_rate
    terms = {}
    for noise in {model.noise_multiplier for model in private}:
        terms[noise] = shared_terms(noise, rate, sampling.n_steps, config.dp_delta)
    return terms
