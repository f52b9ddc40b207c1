"""What a training run cost each of its records, and what of that is a bound.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pcer.errors import InputError, require_at_least, require_open_unit, require_positive
from pcer.metrics import BoolArray, FloatArray
from pcer.train.fleet import Float32Array, StepCounts
from pcer.train.renyi import ORDERS, conversion, epsilon_of, step_costs
from pcer.train.rules import N_BINS

N_LEVELS = 24
LEVEL_RATIO = 0.86
"""Levels below the promised epsilon, and each as a share of the next: from 86 % down to 3 %. More
levels round less but share delta among more; receipts are lowest, on average, about here. What was
folded by one ladder means nothing by another: these two stay as they are."""

RUNG_BITS = 6
RUNG_MASK = 2**RUNG_BITS - 1
"""Bits of the float32 that name the rung; 17 remain, so that ``realised`` is rounded up by less
than one part in 100,000."""

LOT = 8192  # records that are folded at a time, for memory

SLACK = 1e-12
"""Share by which divergences are raised on a device, where sums are taken in another order: a sum
of 201 products rounds by less than 1e-13, so that no number is below the CPU's."""


class Level(NamedTuple):
    """A budget of divergence at one order, fixed before training."""

    epsilon: float  # what keeping it is worth, at the delta it was made for
    order: float
    divergence: float  # how much may be spent


class Allowance(NamedTuple):
    """What keeps a person within a budget: a step is joined while spent + cost <= budget."""

    cost: FloatArray  # (bin,) divergence of one step; 0 in bin 0
    budget: float  # divergence that a record may spend in all


@dataclass(frozen=True)
class Terms:
    """What is settled before training about every record of a model: promise and levels."""

    noise_multiplier: float  # standard deviation of the noise in units of the clip norm
    sampling_rate: float  # chance of a record to join a step
    n_steps: int  # of the training
    dp_delta: float  # of promise and receipts

    def __post_init__(self) -> None:
        require_at_least(1, n_steps=self.n_steps)
        require_open_unit(dp_delta=self.dp_delta)

    @property
    def costs(self) -> FloatArray:
        """(bin, order) divergence of one step."""
        return step_costs(self.noise_multiplier, self.sampling_rate)

    @property
    def nominal(self) -> float:
        """The promise, by the accountant of the receipts: clipped at every step."""
        return _nominal(self)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels, lowest first; those too low for any order are left out."""
        return _levels(self)

    @property
    def ladder(self) -> FloatArray:
        """Epsilons of the rungs: 0 for gradient zero at every step, the levels, the promise."""
        return np.array([0.0, *(level.epsilon for level in self.levels), self.nominal])

    def realised(self, kept: Float32Array) -> FloatArray:
        """``realised_of`` with the ladder of these terms."""
        return realised_of(kept, self.ladder)

    def receipt(self, kept: Float32Array) -> FloatArray:
        """``receipt_of`` with the ladder of these terms."""
        return receipt_of(kept, self.ladder)


def realised_of(kept: Float32Array, ladder: FloatArray) -> FloatArray:
    """``realised`` from what ``fold`` kept, by its terms' ladder; NaN where not trained on."""
    value = (_bits(kept) & ~np.uint32(RUNG_MASK)).view(np.float32)
    return np.asarray(np.minimum(value.astype(np.float64), ladder[-1]))


def receipt_of(kept: Float32Array, ladder: FloatArray) -> FloatArray:
    """The receipts from what ``fold`` kept, by its terms' ladder; NaN where not trained on."""
    rung = np.minimum(_bits(kept) & np.uint32(RUNG_MASK), len(ladder) - 1)
    return np.where(np.isnan(kept), np.nan, ladder[rung])


def _bits(values: Float32Array) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)


def fold(
    steps_per_bin: StepCounts, *, noise_multiplier: float, sampling_rate: float, dp_delta: float
) -> Float32Array:
    """Four bytes per record (record,), from which ``Terms`` reads ``realised`` and ``receipt``.

    ``steps_per_bin`` (record, bin) counts steps whose clipped gradient norm, in 200ths of the clip
    norm, lies in (bin - 1, bin]; bin 0 is gradient zero.
    """
    terms = Terms(noise_multiplier, sampling_rate, _n_steps(steps_per_bin), dp_delta)
    costs = terms.costs[:, _wanted_orders(terms)]
    kept = []
    for at in range(0, len(steps_per_bin), LOT):
        lot = steps_per_bin[at : at + LOT]
        spent = torch.from_numpy(lot.astype(np.float64) @ costs)
        kept.append(_packed(spent, torch.from_numpy(lot[:, 0] == terms.n_steps), terms))
    folded: Float32Array = torch.cat(kept).numpy()
    return folded


def fold_on_device(
    steps_per_bin: Tensor, *, noise_multiplier: float, sampling_rate: float, dp_delta: float
) -> Tensor:
    """``fold`` on the device where the counts lie, (record, bin) float64.

    A GPU would otherwise hand 201 counts per record to the host, which takes longer than to train.
    """
    terms = Terms(noise_multiplier, sampling_rate, _n_steps(steps_per_bin), dp_delta)
    costs = torch.tensor(terms.costs[:, _wanted_orders(terms)], device=steps_per_bin.device)
    spent = (steps_per_bin @ costs).mul_(1 + SLACK)
    return _packed(spent, steps_per_bin[:, 0] == terms.n_steps, terms)


def _n_steps(steps_per_bin: StepCounts | Tensor) -> int:
    """Steps of the training; every record must have them all."""
    shape = tuple(steps_per_bin.shape)
    if len(shape) != 2 or shape[1] != 1 + N_BINS or not shape[0]:
        raise ValueError(f"steps_per_bin must have shape (record, {1 + N_BINS}), but has {shape}.")
    totals = steps_per_bin.sum(1)
    least, most = int(totals.min()), int(totals.max())
    if least != most:
        raise ValueError(
            f"steps_per_bin must count every step of every record, but rows add up to {least} to "
            f"{most}."
        )
    return most


def _wanted_orders(terms: Terms) -> BoolArray:
    """(order,) which can give less than the promise, by what each adds, and those of the levels."""
    levels = np.isin(ORDERS, [level.order for level in terms.levels])
    return np.asarray((conversion(terms.dp_delta) <= terms.nominal) | levels)


def _packed(spent: Tensor, untouched: Tensor, terms: Terms) -> Tensor:
    """Realised epsilons rounded up to floats whose last bits are free, and the rungs in those.

    Divergences (record, wanted order) are overwritten; untouched had no gradient at any step.
    """
    rungs = _rungs(spent, untouched, terms)
    hidden = spent.amin(dim=1) < float(-np.log1p(-(terms.dp_delta**2)))  # see ``epsilon_of``
    added = torch.tensor(conversion(terms.dp_delta)[_wanted_orders(terms)], device=spent.device)
    realised = spent.add_(added).amin(dim=1).clamp_(0, terms.nominal).masked_fill_(hidden, 0)
    value = realised.float()
    value = torch.where(value < realised, value.nextafter(value.new_tensor(torch.inf)), value)
    raised = (value.view(torch.int32) + RUNG_MASK) & ~RUNG_MASK
    packed: Tensor = (raised | rungs.int()).view(torch.float32)
    return packed


def _rungs(spent: Tensor, untouched: Tensor, terms: Terms) -> Tensor:
    """(record,) the lowest rung that holds; the last one always does."""
    orders = ORDERS[_wanted_orders(terms)]
    columns = orders.searchsorted([level.order for level in terms.levels])
    budgets = spent.new_tensor([level.divergence for level in terms.levels])
    last = 1 + len(terms.levels)
    holds = spent[:, columns.tolist()] <= budgets
    rung = torch.arange(1, last, device=spent.device).where(holds, last)
    lowest = torch.cat([rung, rung.new_full((len(rung), 1), last)], dim=1).amin(dim=1)
    return lowest.masked_fill_(untouched, 0)


def allowance(
    epsilon: float, *, noise_multiplier: float, sampling_rate: float, n_steps: int, dp_delta: float
) -> Allowance:
    """The filter that keeps every record's loss within ``epsilon``, whatever its gradients are.

    Its one order is settled beforehand, like that of a level.

    Raises:
        InputError: no order can hold so small a budget.
    """
    require_positive(budget_per_person=epsilon)
    terms = Terms(noise_multiplier, sampling_rate, n_steps, dp_delta)
    best = _level(epsilon, terms, dp_delta)
    if best is None:
        least = float(conversion(dp_delta).min())
        raise InputError(
            f"budget_per_person must be above {least:.3g} at delta {dp_delta:g}, but {epsilon!r} "
            "was given."
        )
    column = int(np.flatnonzero(best.order == ORDERS)[0])
    return Allowance(terms.costs[:, column].copy(), best.divergence)


@lru_cache(maxsize=1024)
def _nominal(terms: Terms) -> float:
    return float(epsilon_of(terms.n_steps * terms.costs[N_BINS], dp_delta=terms.dp_delta))


@lru_cache(maxsize=1024)
def _levels(terms: Terms) -> tuple[Level, ...]:
    wanted = [terms.nominal * LEVEL_RATIO**power for power in range(N_LEVELS, 0, -1)]
    found = (_level(epsilon, terms, terms.dp_delta / N_LEVELS) for epsilon in wanted)
    return tuple(level for level in found if level is not None)


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
