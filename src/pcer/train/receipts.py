"""How much privacy did a training run spend of each record? A bound, and an estimate.

Clipped norms are rounded up to 200ths of the bound; a loss is steps in each bin times
that of one step, as Renyi divergences add up, also where a norm depends on earlier
steps (Feldman and Zrnic 2021). Neighbouring data sets: the record has gradient zero
instead; of the two directions the one with the record above is kept, the larger at
every order (Mironov, Talwar and Zhang 2019, Theorem 5). ``realised`` is that sum as an
epsilon, by the order that gives the least: as the order is chosen afterwards, it is no
bound. ``receipt`` is the bound: the lowest of a ladder of levels, fixed before
training, each with an order and a share of delta, whose budget was not exceeded, or the
promise. Each level is a filter that never had to drop the record: this run's loss is
below it, except with probability delta.

The engine makes a ``Watch`` for each block. Every so many steps a device computes the
norms of all training records, rounded up to bins (``due``, ``refresh``); the rule then
decides on new bounds, a filter on who is left out (``allowance``), and a book counts.
What a step reads (``limits``) is overwritten in place, so that a captured step sees it.
The engine folds the steps of a model into four bytes per record (``fold``), sweeps read
them (``unfolded``). Rules are in ``rules``. To add what a rule may see: a field of
``rules.Refresh``, filled by ``refresh``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from pcer.errors import InputError, require_positive
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.renyi import ORDERS, conversion, epsilon_of, sampled_gaussian
from pcer.train.config import ReceiptMode, TrainConfig
from pcer.train.fleet import Float32Array, Model, TrainingData
from pcer.train.rules import N_BINS, Refresh

# Refreshes that are kept as they are, one byte per record each; more are added up as
# 201 counts per record. One refresh an epoch stays below it.
KEPT_REFRESHES = 128

# Levels below the promised epsilon, and each as a share of the next: from 86% down to
# 3%. More levels round less but share delta among more; about here receipts are lowest
# on average. Folded numbers depend on the ladder, so these two must not change.
N_LEVELS = 24
LEVEL_RATIO = 0.86

# Bits of the float32 that name the rung; 17 remain, so that ``realised`` is rounded up
# by less than one part in 100,000.
RUNG_BITS = 6
RUNG_MASK = 2**RUNG_BITS - 1
LOT = 8192  # records that are folded at a time, for memory

# Share by which divergences are raised on a GPU, which adds in another order: a sum of
# 201 products rounds by less than 1e-13, so no number is below the CPU's.
SLACK = 1e-12

# Where the accountant is inverted.
MU_GRID: FloatArray = np.geomspace(1e-6, 100.0, 20_000)

# Parts into which many records are condensed: an error below 1e-4.
MOST_QUANTILES = 512


@lru_cache(maxsize=256)
def step_costs(noise_multiplier: float, sampling_rate: float) -> FloatArray:
    """Renyi divergence (bin, order) that one step spends of a record.

    A record of bin b has a clipped gradient of norm b C / 200 at most, which noise of
    deviation sigma C (``noise_multiplier`` sigma) hides as noise of 200 sigma / b hides
    a norm of 1; bin 0 spends nothing.
    """
    require_positive(noise_multiplier=noise_multiplier)
    noise = noise_multiplier * N_BINS / np.arange(1, N_BINS + 1)
    costs = np.zeros((1 + N_BINS, len(ORDERS)))
    costs[1:] = sampled_gaussian(noise, sampling_rate)
    costs.flags.writeable = False
    return costs


class Level(NamedTuple):
    """A budget of divergence at one order, fixed before training."""

    epsilon: float  # what keeping it is worth, at the delta that it was made for
    order: float
    divergence: float  # how much may be spent


@dataclass(frozen=True)
class Terms:
    """Promise and levels of a model's records, fixed before training."""

    noise_multiplier: float  # standard deviation of the noise in units of the clip norm
    sampling_rate: float  # chance of a record to join a step
    n_steps: int  # of the training
    dp_delta: float  # of promise and receipts

    @property
    def costs(self) -> FloatArray:
        """(bin, order) divergence of one step."""
        return step_costs(self.noise_multiplier, self.sampling_rate)

    @cached_property
    def nominal(self) -> float:
        """The promise, by the accountant of the receipts: clipped at every step."""
        return float(
            epsilon_of(self.n_steps * self.costs[N_BINS], dp_delta=self.dp_delta)
        )

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels, lowest first; those too low for any order are left out."""
        levels = []
        for power in range(N_LEVELS, 0, -1):
            epsilon = self.nominal * LEVEL_RATIO**power
            level = _level(epsilon, self, self.dp_delta / N_LEVELS)
            if level is not None:
                levels.append(level)
        return tuple(levels)

    @cached_property
    def ladder(self) -> FloatArray:
        """Epsilons of the rungs: 0 for no gradient, the levels, then the promise."""
        return np.array([0.0, *(level.epsilon for level in self.levels), self.nominal])

    @cached_property
    def used_orders(self) -> BoolArray:
        """(order,) whether it is of a level, or can give less than the promise."""
        is_of_level = np.isin(ORDERS, [level.order for level in self.levels])
        can_be_less = conversion(self.dp_delta) <= self.nominal
        return np.asarray(can_be_less | is_of_level)


# Levels take milliseconds: they are made once for all blocks.
shared_terms = lru_cache(maxsize=1024)(Terms)


def unfolded(kept: Float32Array, ladder: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``realised`` and ``receipt`` from what ``fold`` kept; NaN if not trained on."""
    bits = np.ascontiguousarray(kept, dtype=np.float32).view(np.uint32)
    value = (bits & ~np.uint32(RUNG_MASK)).view(np.float32)
    rung = np.minimum(bits & np.uint32(RUNG_MASK), len(ladder) - 1)
    realised = np.minimum(value.astype(np.float64), ladder[-1])
    receipt = np.where(np.isnan(kept), np.nan, ladder[rung])
    return realised, receipt


def fold(steps_per_bin: Tensor, terms: Terms, *, on_host: bool = True) -> Tensor:
    """Four bytes per record (record,), which ``unfolded`` reads with the terms' ladder.

    ``steps_per_bin`` (record, bin) has how many steps had a clipped gradient norm in
    (bin - 1, bin], in 200ths of the clip norm; times ``step_costs`` it is the
    divergence spent at each order. A GPU computes where the steps lie (not
    ``on_host``).
    """
    n_records = len(steps_per_bin)
    has_all_bins = steps_per_bin.shape[1:] == (1 + N_BINS,) and n_records > 0
    if not has_all_bins or bool((steps_per_bin.sum(1) != terms.n_steps).any()):
        raise ValueError(
            f"steps_per_bin must count the {terms.n_steps} steps of every record in "
            f"{1 + N_BINS} bins, but does not; its shape is "
            f"{tuple(steps_per_bin.shape)}."
        )
    costs = torch.tensor(terms.costs[:, terms.used_orders], device=steps_per_bin.device)
    slack = 1 if on_host else 1 + SLACK
    packed = []
    for lot in torch.split(steps_per_bin, LOT if on_host else n_records):
        divergence = (lot.double() @ costs).mul_(slack)
        packed.append(_packed(divergence, lot[:, 0], terms))
    return torch.cat(packed)


def _packed(divergence: Tensor, steps_without_gradient: Tensor, terms: Terms) -> Tensor:
    """Realised epsilons, rungs in their last bits; overwrites ``divergence``."""
    has_no_gradient = steps_without_gradient == terms.n_steps
    rungs = _rungs(divergence, terms).masked_fill_(has_no_gradient, 0)
    realised = _realised(divergence, terms)
    value = realised.float()
    above = value.nextafter(value.new_tensor(torch.inf))
    value = torch.where(value < realised, above, value)
    raised = (value.view(torch.int32) + RUNG_MASK) & ~RUNG_MASK
    packed: Tensor = (raised | rungs.int()).view(torch.float32)
    return packed


def _realised(divergence: Tensor, terms: Terms) -> Tensor:
    """The least epsilon over orders (record,); overwrites ``divergence``."""
    # Below this divergence at any order, the total variation is below delta.
    least = float(-np.log1p(-(terms.dp_delta**2)))
    is_hidden = divergence.amin(dim=1) < least
    added = conversion(terms.dp_delta)[terms.used_orders]
    by_order = divergence.add_(torch.tensor(added, device=divergence.device))
    return by_order.amin(dim=1).clamp_(0, terms.nominal).masked_fill_(is_hidden, 0)


def _rungs(divergence: Tensor, terms: Terms) -> Tensor:
    """(record,) the lowest rung above 0 that holds; the last one always does."""
    orders = [level.order for level in terms.levels]
    columns = ORDERS[terms.used_orders].searchsorted(orders)
    budgets = divergence.new_tensor([level.divergence for level in terms.levels])
    holds = divergence[:, columns.tolist()] <= budgets

    last = 1 + len(terms.levels)
    rung = torch.arange(1, last, device=divergence.device).where(holds, last)
    last_rung = rung.new_full((len(rung), 1), last)
    return torch.cat([rung, last_rung], dim=1).amin(dim=1)


def allowance(epsilon: float, terms: Terms) -> tuple[FloatArray, float]:
    """Divergence of a step (bin,), and how much of it keeps losses within ``epsilon``.

    A filter: a record joins steps while what it spent and the next step's fit.
    """
    level = _level(epsilon, terms, terms.dp_delta)
    if level is None:
        least = float(conversion(terms.dp_delta).min())
        raise InputError(
            f"budget_per_person must be above {least:.3g} at delta "
            f"{terms.dp_delta:g}, but {epsilon!r} was given."
        )
    column = int(np.flatnonzero(level.order == ORDERS)[0])
    return terms.costs[:, column].copy(), level.divergence


def _level(epsilon: float, terms: Terms, dp_delta: float) -> Level | None:
    """None where no order can hold the epsilon; else the order for the largest norm."""
    allowed = epsilon - conversion(dp_delta)
    whole_run = terms.n_steps * terms.costs.T  # (order, bin), growing along bins
    n_fitting = (whole_run <= allowed[:, None]).sum(axis=1)  # bins, 0 among them
    next_bin = np.clip(n_fitting, 1, N_BINS)
    following = whole_run[np.arange(len(ORDERS)), next_bin]
    largest_norm = n_fitting + np.clip(allowed / following, 0, 1)
    best = int(np.where(allowed > 0, largest_norm, -1).argmax())
    if allowed[best] <= 0:
        return None
    return Level(epsilon, float(ORDERS[best]), float(allowed[best]))


def mu_of(epsilon: FloatArray, *, dp_delta: float) -> FloatArray:
    """Parameter mu of the Gaussian mechanism that has this epsilon at delta.

    Its Renyi divergence of order a is a mu^2 / 2; this inverts the epsilon that the
    accountant gives from it by a table, linear in mu^2.
    """
    square = np.interp(epsilon, _epsilons_of_mu(dp_delta), MU_GRID**2)
    nothing = np.where(np.isnan(epsilon), np.nan, 0)
    return np.where(np.asarray(epsilon) > 0, np.sqrt(square), nothing)


@lru_cache(maxsize=16)
def _epsilons_of_mu(dp_delta: float) -> FloatArray:
    return epsilon_of(MU_GRID[:, None] ** 2 * ORDERS / 2, dp_delta=dp_delta)


def allowed_advantage(mu: FloatArray) -> float:
    """AUC minus 1/2 of an attacker who sees every step and pools likelihood ratios.

    An estimate. LiRA's AUC compares people: the score of a member, normal with mean
    mu_i^2/2 and variance mu_i^2, is above that of another person, with mean -mu_j^2/2,
    with probability Phi(sqrt(mu_i^2 + mu_j^2)/2); this is its mean over all pairs. Many
    records are condensed into parts of about equal size, which share their mean mu^2.
    """
    ordered = np.sort(np.asarray(mu, dtype=np.float64) ** 2)
    n_parts = min(len(ordered), MOST_QUANTILES)
    starts = np.arange(n_parts) * len(ordered) // n_parts
    sizes = np.diff(np.append(starts, len(ordered)))
    square = np.add.reduceat(ordered, starts) / sizes
    weight = sizes / len(ordered)
    chance = ndtr(np.sqrt(square[:, None] + square) / 2)
    return float(weight @ chance @ weight) - 0.5


# While a block trains


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
