"""What a training run cost each of its records, and what of that is a bound.

A record whose clipped gradient has norm s is hidden by noise of sigma C / s, in units of that norm.
Norms are rounded up to a grid of C/200, so that a table of 200 rows holds every cost there is, and
what a training run cost a record is its number of steps in each row times the table.

Divergences of order a (Renyi) add up over steps, also where the norm of a step depends on what the
steps before gave (Feldman and Zrnic 2021). Neighbouring data sets: the record is replaced by one
that joins batches with gradient zero. Of the two directions the one that puts the record above is
the larger at every order (Mironov, Talwar and Zhang 2019, Theorem 5), so it is the one kept.
dp-accounting computes these rows one by one, in some seconds for a table; it is the witness in the
tests.

Two numbers of a record, both from its number of steps in each bin of gradient norms:

* ``realised``: its divergences, added up, as an epsilon at delta, by the order that gives least.
  Papers print it. The order is chosen after the fact, so it describes, and bounds nothing.
* ``receipt``: the bound. Before training a ladder of levels is fixed, each with one order and a
  share of delta; the receipt is the lowest level whose budget of divergence was not exceeded, or
  the promised epsilon where no level below it was kept. Each level is a filter that would have
  left the record out in time and never had to (Feldman and Zrnic 2021): so the loss of this run
  stays below the receipt, but for the chance delta.

Both follow from the settings and the bins alone. Of a finished model four bytes per record are
kept: ``realised`` as a float32 whose last bits name the rung of the ladder.

Many steps of DP-SGD together look like one Gaussian mechanism of parameter mu (Dong, Roth and Su
2022): with everything in sight, "was trained on" and "was not" are two normal laws of one deviation
and a distance of mu deviations. That turns an epsilon into what attacks are measured in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import gammaln, logsumexp, ndtr, xlog1py
from torch import Tensor

from pcer.errors import InputError, require_positive
from pcer.metrics import BoolArray, FloatArray
from pcer.train.fleet import Float32Array
from pcer.train.rules import N_BINS

# Orders of the divergences: those of dp-accounting's own accountant, so that both agree.
ORDERS: FloatArray = np.array(
    [*(1 + tenths / 10 for tenths in range(1, 100)), *range(11, 64), 128, 256, 512, 1024]
)
REACH = 12.0  # standard deviations beyond which a Gaussian law is below 1e-31
DENSITY = 8.0  # points of an integral per standard deviation; the error is below 1e-16 then

# Levels below the promised epsilon, and each as a share of the next: from 86 % down to 3 %. More
# levels round less but share delta among more; receipts are lowest, on average, about here. What
# was folded by one ladder means nothing by another: these two stay as they are.
N_LEVELS = 24
LEVEL_RATIO = 0.86

# Bits of the float32 that name the rung; 17 remain, so that ``realised`` is rounded up by less than
# one part in 100,000.
RUNG_BITS = 6
RUNG_MASK = 2**RUNG_BITS - 1
LOT = 8192  # records that are folded at a time, for memory

# Share by which divergences are raised on a device, where sums are taken in another order: a sum of
# 201 products rounds by less than 1e-13, so that no number is below the CPU's.
SLACK = 1e-12

MU_GRID: FloatArray = np.geomspace(1e-6, 100.0, 20_000)  # where the accountant is turned around
MOST_QUANTILES = 512  # of mu, above which neighbours share their mean: an error below 1e-4


@lru_cache(maxsize=256)
def step_costs(noise_multiplier: float, sampling_rate: float) -> FloatArray:
    """Renyi divergence (bin, order) that one step costs a record; bin 0 costs nothing."""
    require_positive(noise_multiplier=noise_multiplier)
    noise = noise_multiplier * N_BINS / np.arange(1, N_BINS + 1)
    whole = np.floor(ORDERS) == ORDERS
    log_moments = np.empty((N_BINS, len(ORDERS)))
    for column in np.flatnonzero(whole):
        log_moments[:, column] = _whole_order(noise, sampling_rate, int(ORDERS[column]))
    for row, own in enumerate(noise):
        log_moments[row, ~whole] = _broken_orders(float(own), sampling_rate, ORDERS[~whole])
    costs = np.zeros((1 + N_BINS, len(ORDERS)))
    costs[1:] = np.maximum(log_moments, 0) / (ORDERS - 1)  # below 0 is rounding
    costs.flags.writeable = False
    return costs


def conversion(dp_delta: float) -> FloatArray:
    """What each order adds to a divergence to make an epsilon at ``dp_delta``.

    Proposition 12 of Canonne, Kamath and Steinke 2020, as in dp-accounting.
    """
    return np.asarray(np.log1p(-1 / ORDERS) - np.log(dp_delta * ORDERS) / (ORDERS - 1))


def epsilon_of(divergence: FloatArray, *, dp_delta: float) -> FloatArray:
    """The least epsilon over orders, from divergences (..., order), as dp-accounting gives it."""
    best = (divergence + conversion(dp_delta)).min(axis=-1)
    # Below this at any order, the total variation is below delta.
    hidden = divergence.min(axis=-1) < -math.log1p(-(dp_delta**2))
    return np.where(hidden, 0.0, np.maximum(best, 0.0))


def _whole_order(noise: FloatArray, rate: float, order: int) -> FloatArray:
    """Log moment E_Q[(P/Q)^order] by the binomial formula, for every noise."""
    k = np.arange(order + 1)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    weight = choose + k * math.log(rate) + xlog1py(order - k, -rate)
    return np.asarray(logsumexp(weight + (k * k - k) / (2 * noise[:, None] ** 2), axis=1))


def _broken_orders(noise: float, rate: float, orders: FloatArray) -> FloatArray:
    """Log moments at orders between whole ones, as an integral over the noise."""
    # The sum over an even grid is as good as exact: the integrand is smooth up to a distance of
    # pi x noise from the line.
    step = min(1.0, 4 * noise) / DENSITY
    x = np.arange(-REACH, REACH + orders.max() / noise, step)
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    log_ratio = np.logaddexp(log_rest, math.log(rate) + x / noise - 1 / (2 * noise**2))
    density = -(x**2) / 2
    return np.asarray(logsumexp(orders[:, None] * log_ratio + density, axis=1) - logsumexp(density))


class Level(NamedTuple):
    """A budget of divergence at one order, fixed before training."""

    epsilon: float  # what keeping it is worth, at the delta it was made for
    order: float
    divergence: float  # how much may be spent


@dataclass(frozen=True)
class Terms:
    """What is settled before training about every record of a model: promise and levels."""

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
        return float(epsilon_of(self.n_steps * self.costs[N_BINS], dp_delta=self.dp_delta))

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


shared_terms = lru_cache(maxsize=1024)(Terms)  # levels take milliseconds, once for all blocks


def unfolded(kept: Float32Array, ladder: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``realised`` and ``receipt`` from what ``fold`` kept, by its terms' ladder.

    NaN where a record was not trained on.
    """
    bits = np.ascontiguousarray(kept, dtype=np.float32).view(np.uint32)
    value = (bits & ~np.uint32(RUNG_MASK)).view(np.float32)
    rung = np.minimum(bits & np.uint32(RUNG_MASK), len(ladder) - 1)
    realised = np.minimum(value.astype(np.float64), ladder[-1])
    return realised, np.where(np.isnan(kept), np.nan, ladder[rung])


def fold(steps_per_bin: Tensor, terms: Terms, *, on_host: bool = True) -> Tensor:
    """Four bytes per record (record,), which ``unfolded`` reads with the ladder of its terms.

    ``steps_per_bin`` (record, bin) counts steps whose clipped gradient norm, in 200ths of the clip
    norm, lies in (bin - 1, bin]; bin 0 is gradient zero. It is folded where it lies, on a CPU
    (the host) or not: a GPU would take longer to hand 201 counts per record over than to train.
    """
    is_whole = steps_per_bin.shape[1:] == (1 + N_BINS,) and len(steps_per_bin) > 0
    if not is_whole or bool((steps_per_bin.sum(1) != terms.n_steps).any()):
        raise ValueError(
            f"steps_per_bin must count the {terms.n_steps} steps of every record in {1 + N_BINS} "
            f"bins, but does not; its shape is {tuple(steps_per_bin.shape)}."
        )
    costs = torch.tensor(terms.costs[:, terms.wanted], device=steps_per_bin.device)
    kept = [
        _packed((lot.double() @ costs).mul_(1 if on_host else 1 + SLACK), lot[:, 0], terms)
        for lot in torch.split(steps_per_bin, LOT if on_host else len(steps_per_bin))
    ]
    return torch.cat(kept)


def _packed(spent: Tensor, without_gradient: Tensor, terms: Terms) -> Tensor:
    """Realised epsilons rounded up to floats whose last bits are free, and the rungs in those.

    Divergences (record, wanted order) are overwritten.
    """
    rungs = _rungs(spent, terms).masked_fill_(without_gradient == terms.n_steps, 0)
    hidden = spent.amin(dim=1) < float(-np.log1p(-(terms.dp_delta**2)))  # see ``epsilon_of``
    added = torch.tensor(conversion(terms.dp_delta)[terms.wanted], device=spent.device)
    realised = spent.add_(added).amin(dim=1).clamp_(0, terms.nominal).masked_fill_(hidden, 0)
    value = realised.float()
    value = torch.where(value < realised, value.nextafter(value.new_tensor(torch.inf)), value)
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

    Gives the divergence of one step (bin,), and how much a record may spend: it joins a step while
    spent + cost <= budget. The one order is settled beforehand, like that of a level.

    Raises:
        InputError: no order can hold so small a budget.
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
    """The order at which a record of one norm at all steps may have the largest norm.

    None where every order adds more than epsilon by itself.
    """
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
    """Parameter of the Gaussian mechanism that the Renyi accountant gives this epsilon at delta.

    An epsilon of 0 gives 0; NaN stays NaN.
    """
    square = np.interp(epsilon, _epsilons_of_mu(dp_delta), MU_GRID**2)  # linear in mu^2
    nothing = np.where(np.isnan(epsilon), np.nan, 0)
    return np.where(np.asarray(epsilon) > 0, np.sqrt(square), nothing)


@lru_cache(maxsize=16)
def _epsilons_of_mu(dp_delta: float) -> FloatArray:
    return epsilon_of(MU_GRID[:, None] ** 2 * ORDERS / 2, dp_delta=dp_delta)


def allowed_advantage(mu: FloatArray) -> float:
    """AUC minus 1/2 that the likelihood ratios of these people, pooled, would give an attacker.

    LiRA's AUC compares different people: the score of one who was trained on, normal with mean
    mu_i^2/2 and variance mu_i^2, and that of another who was not, with mean -mu_j^2/2. The first is
    larger with chance Phi(sqrt(mu_i^2 + mu_j^2)/2); this is its mean over all pairs. An estimate:
    for an attacker who sees every step.

    >>> round(allowed_advantage(np.array([1.0])), 4)  # Phi(sqrt(2)/2) - 1/2
    0.2602
    """
    ordered = np.sort(np.asarray(mu, dtype=np.float64) ** 2)
    n_parts = min(len(ordered), MOST_QUANTILES)
    starts = np.arange(n_parts) * len(ordered) // n_parts  # of parts of about equal size
    sizes = np.diff(np.append(starts, len(ordered)))
    square, weight = np.add.reduceat(ordered, starts) / sizes, sizes / len(ordered)
    chance = ndtr(np.sqrt(square[:, None] + square) / 2)
    return float(weight @ chance @ weight) - 0.5
