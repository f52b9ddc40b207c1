"""Privacy that a training run spent of each record: a bound (receipt) and a description.

A record whose clipped gradient has norm s is hidden by noise of sigma C / s, in units
of that norm. Norms are rounded up to a grid of C/200, so a table of 200 rows holds the
loss of any step, and a record's loss over the run is its number of steps in each row
times the table.

Divergences of order a (Renyi) add up over steps, also where the norm of a step depends
on what the steps before gave (Feldman and Zrnic 2021). Neighbouring data sets: the
record is replaced by one that joins batches with gradient zero. Of the two directions
the one that puts the record above is the larger at every order (Mironov, Talwar and
Zhang 2019, Theorem 5), so it is the one kept. dp-accounting computes the same rows one
by one, slowly; tests compare with it.

Two numbers of a record, both from its number of steps in each bin of gradient norms:

* ``realised``: its summed divergences as an epsilon at delta, by the order that gives
  the least. Papers print it. The order is chosen after the fact, so it describes and is
  no bound.
* ``receipt``: the bound. Before training a ladder of levels is fixed, each with one
  order and a share of delta; the receipt is the lowest level whose budget of divergence
  was not exceeded, or the promised epsilon where no level below it was kept. Each level
  is a filter that would have dropped the record in time and never had to (Feldman and
  Zrnic 2021): so the loss of this run stays below the receipt, except with probability
  delta.

Both follow from the settings and the bins alone. Of a finished model four bytes per
record are kept: ``realised`` as a float32 whose last bits name the rung of the ladder.

Many steps of DP-SGD together resemble one Gaussian mechanism of parameter mu (Dong,
Roth and Su 2022): to an attacker who sees everything, "in" and "out" are two normal
distributions mu deviations apart. That turns an epsilon into the unit of attacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from pcer.errors import InputError, require_positive
from pcer.metrics import BoolArray, FloatArray
from pcer.renyi import ORDERS, conversion, epsilon_of, sampled_gaussian
from pcer.train.fleet import Float32Array
from pcer.train.rules import N_BINS

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

MU_GRID: FloatArray = np.geomspace(
    1e-6, 100.0, 20_000
)  # where the accountant is inverted
MOST_QUANTILES = (
    512  # of mu, above which neighbours share their mean: an error below 1e-4
)


@lru_cache(maxsize=256)
def step_costs(noise_multiplier: float, sampling_rate: float) -> FloatArray:
    """Renyi divergence (bin, order) that one step spends of a record; bin 0 spends nothing."""
    require_positive(noise_multiplier=noise_multiplier)
    noise = noise_multiplier * N_BINS / np.arange(1, N_BINS + 1)
    costs = np.zeros((1 + N_BINS, len(ORDERS)))
    costs[1:] = sampled_gaussian(noise, sampling_rate)
    costs.flags.writeable = False
    return costs


class Level(NamedTuple):
    """A budget of divergence at one order, fixed before training."""

    epsilon: float  # what keeping it is worth, at the delta it was made for
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
        wanted = [self.nominal * LEVEL_RATIO**power for power in range(N_LEVELS, 0, -1)]
        levels = (_level(epsilon, self, self.dp_delta / N_LEVELS) for epsilon in wanted)
        return tuple(level for level in levels if level is not None)

    @cached_property
    def ladder(self) -> FloatArray:
        """Epsilons of the rungs: 0 for gradient zero at every step, the levels, the promise."""
        return np.array([0.0, *(level.epsilon for level in self.levels), self.nominal])

    @cached_property
    def wanted(self) -> BoolArray:
        """(order,) whether it can give less than the promise by what it adds, or is of a level."""
        levels = np.isin(ORDERS, [level.order for level in self.levels])
        return np.asarray((conversion(self.dp_delta) <= self.nominal) | levels)


shared_terms = lru_cache(maxsize=1024)(
    Terms
)  # levels take milliseconds, once for all blocks


def unfolded(kept: Float32Array, ladder: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``realised`` and ``receipt`` from what ``fold`` kept; NaN for a record not trained on."""
    bits = np.ascontiguousarray(kept, dtype=np.float32).view(np.uint32)
    value = (bits & ~np.uint32(RUNG_MASK)).view(np.float32)
    rung = np.minimum(bits & np.uint32(RUNG_MASK), len(ladder) - 1)
    realised = np.minimum(value.astype(np.float64), ladder[-1])
    return realised, np.where(np.isnan(kept), np.nan, ladder[rung])


def fold(steps_per_bin: Tensor, terms: Terms, *, on_host: bool = True) -> Tensor:
    """Four bytes per record (record,), which ``unfolded`` reads with the ladder of its terms."""
    # ``steps_per_bin`` (record, bin) counts steps whose clipped gradient norm, in
    # 200ths of the clip norm, lies in (bin - 1, bin]; bin 0 is gradient zero. It is
    # folded where it lies: a GPU would take longer to hand 201 counts per record over
    # than to train.
    is_whole = steps_per_bin.shape[1:] == (1 + N_BINS,) and len(steps_per_bin) > 0
    if not is_whole or bool((steps_per_bin.sum(1) != terms.n_steps).any()):
        raise ValueError(
            f"steps_per_bin must count the {terms.n_steps} steps of every record in {1 + N_BINS} "
            f"bins, but does not; its shape is {tuple(steps_per_bin.shape)}."
        )
    costs = torch.tensor(terms.costs[:, terms.wanted], device=steps_per_bin.device)
    kept = [
        _packed(
            (lot.double() @ costs).mul_(1 if on_host else 1 + SLACK), lot[:, 0], terms
        )
        for lot in torch.split(steps_per_bin, LOT if on_host else len(steps_per_bin))
    ]
    return torch.cat(kept)


def _packed(spent: Tensor, without_gradient: Tensor, terms: Terms) -> Tensor:
    """Realised epsilons rounded up, the rungs in their last bits; ``spent`` is overwritten."""
    rungs = _rungs(spent, terms).masked_fill_(without_gradient == terms.n_steps, 0)
    hidden = spent.amin(dim=1) < float(
        -np.log1p(-(terms.dp_delta**2))
    )  # see ``epsilon_of``
    added = torch.tensor(conversion(terms.dp_delta)[terms.wanted], device=spent.device)
    realised = (
        spent.add_(added).amin(dim=1).clamp_(0, terms.nominal).masked_fill_(hidden, 0)
    )
    value = realised.float()
    value = torch.where(
        value < realised, value.nextafter(value.new_tensor(torch.inf)), value
    )
    raised = (value.view(torch.int32) + RUNG_MASK) & ~RUNG_MASK
    packed: Tensor = (raised | rungs.int()).view(torch.float32)
    return packed


def _rungs(spent: Tensor, terms: Terms) -> Tensor:
    """(record,) the lowest rung above 0 that holds; the last one always does."""
    columns = ORDERS[terms.wanted].searchsorted([level.order for level in terms.levels])
    budgets = spent.new_tensor([level.divergence for level in terms.levels])
    last = 1 + len(terms.levels)
    holds = spent[:, columns.tolist()] <= budgets
    rung = torch.arange(1, last, device=spent.device).where(holds, last)
    return torch.cat([rung, rung.new_full((len(rung), 1), last)], dim=1).amin(dim=1)


def allowance(epsilon: float, terms: Terms) -> tuple[FloatArray, float]:
    """The filter that keeps every record's loss within ``epsilon``, whatever its gradients are.

    Gives the divergence of one step (bin,) and a budget: a record joins while spent +
    cost fit it.
    """
    best = _level(epsilon, terms, terms.dp_delta)
    if best is None:
        least = float(conversion(terms.dp_delta).min())
        raise InputError(
            f"budget_per_person must be above {least:.3g} at delta {terms.dp_delta:g}, but "
            f"{epsilon!r} was given."
        )
    column = int(np.flatnonzero(best.order == ORDERS)[0])
    return terms.costs[:, column].copy(), best.divergence


def _level(epsilon: float, terms: Terms, dp_delta: float) -> Level | None:
    """The order at which a record of one norm at all steps may have the largest norm, if any."""
    allowed = epsilon - conversion(dp_delta)
    whole = terms.n_steps * terms.costs.T  # (order, bin), growing along bins
    fits = (whole <= allowed[:, None]).sum(axis=1)  # bins that fit, 0 among them
    following = whole[np.arange(len(ORDERS)), np.clip(fits, 1, N_BINS)]
    reach = fits + np.clip(allowed / following, 0, 1)
    best = int(np.where(allowed > 0, reach, -1).argmax())
    if allowed[best] <= 0:
        return None
    return Level(epsilon, float(ORDERS[best]), float(allowed[best]))


def mu_of(epsilon: FloatArray, *, dp_delta: float) -> FloatArray:
    """Parameter of the Gaussian mechanism that the Renyi accountant gives this epsilon at delta."""
    square = np.interp(epsilon, _epsilons_of_mu(dp_delta), MU_GRID**2)  # linear in mu^2
    nothing = np.where(np.isnan(epsilon), np.nan, 0)
    return np.where(np.asarray(epsilon) > 0, np.sqrt(square), nothing)


@lru_cache(maxsize=16)
def _epsilons_of_mu(dp_delta: float) -> FloatArray:
    return epsilon_of(MU_GRID[:, None] ** 2 * ORDERS / 2, dp_delta=dp_delta)


def allowed_advantage(mu: FloatArray) -> float:
    """AUC minus 1/2, estimated, of an attacker who sees every step and pools likelihood ratios."""
    # LiRA's AUC compares different people: the score of one who was trained on, normal
    # with mean mu_i^2/2 and variance mu_i^2, and that of another who was not, with mean
    # -mu_j^2/2. The first is larger with probability Phi(sqrt(mu_i^2 + mu_j^2)/2); this
    # is its mean over all pairs.
    ordered = np.sort(np.asarray(mu, dtype=np.float64) ** 2)
    n_parts = min(len(ordered), MOST_QUANTILES)
    starts = (
        np.arange(n_parts) * len(ordered) // n_parts
    )  # of parts of about equal size
    sizes = np.diff(np.append(starts, len(ordered)))
    square = np.add.reduceat(ordered, starts) / sizes
    weight = sizes / len(ordered)
    chance = ndtr(np.sqrt(square[:, None] + square) / 2)
    return float(weight @ chance @ weight) - 0.5
