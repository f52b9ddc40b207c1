"""The folding of receipts where the steps were counted: the same as ``receipts.fold``, in torch.

A GPU would otherwise hand 201 counts per record to the host, which takes longer than to train; so
only what is kept of a record leaves it. Sums are taken in another order there than on a CPU and so
round differently: they are raised by more than that, and no number is below the CPU's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pcer.metrics import FloatArray
from pcer.train.receipts import RUNG_BITS, Terms, wanted_orders
from pcer.train.renyi import ORDERS, conversion
from pcer.train.rules import N_BINS

SLACK = 1e-12
"""Share by which divergences are raised: a sum of 201 products rounds by less than 1e-13."""


def fold_there(
    steps_per_bin: Tensor, *, noise_multiplier: float, sampling_rate: float, dp_delta: float
) -> Tensor:
    """Four bytes per record (record,) float32, as ``receipts.fold``, on the device of the counts.

    Args:
        steps_per_bin: (record, bin) float64, whole numbers.
        noise_multiplier: standard deviation of the noise in units of the clip norm.
        sampling_rate: chance of a record to join a step.
        dp_delta: the delta of promise and receipts.
    """
    terms = Terms(noise_multiplier, sampling_rate, _checked_steps(steps_per_bin), dp_delta)
    wanted = wanted_orders(terms)
    spent = steps_per_bin @ _there(terms.costs[:, wanted], steps_per_bin)
    spent.mul_(1 + SLACK)
    untouched = steps_per_bin[:, 0] == terms.n_steps
    rungs = _rungs(spent, untouched, ORDERS[wanted], terms)
    hidden = spent.amin(dim=1) < -math.log1p(-(dp_delta**2))
    added = _there(conversion(dp_delta)[wanted], spent)
    realised = spent.add_(added).amin(dim=1).clamp_(0, terms.nominal).masked_fill_(hidden, 0)
    return _packed(realised, rungs)


def _checked_steps(steps_per_bin: Tensor) -> int:
    """Steps of the training; every record must have them all."""
    if steps_per_bin.ndim != 2 or steps_per_bin.shape[1] != 1 + N_BINS or not len(steps_per_bin):
        raise ValueError(
            f"steps_per_bin must have shape (record, {1 + N_BINS}), but has "
            f"{tuple(steps_per_bin.shape)}."
        )
    least, most = (int(total) for total in steps_per_bin.sum(dim=1).aminmax())
    if least != most:
        raise ValueError(
            f"steps_per_bin must count every step of every record, but rows add up to {least} to "
            f"{most}."
        )
    return most


def _rungs(spent: Tensor, untouched: Tensor, orders: FloatArray, terms: Terms) -> Tensor:
    """(record,) the lowest rung that holds; the last one always does."""
    columns = orders.searchsorted([level.order for level in terms.levels])
    budgets = [level.divergence for level in terms.levels]
    last = 1 + len(budgets)
    holds = spent[:, columns.tolist()] <= spent.new_tensor(budgets)
    rung = torch.arange(1, last, device=spent.device).where(holds, last)
    lowest = torch.cat([rung, rung.new_full((len(rung), 1), last)], dim=1).amin(dim=1)
    return lowest.masked_fill_(untouched, 0)


def _packed(realised: Tensor, rung: Tensor) -> Tensor:
    """Epsilons rounded up to floats whose last bits are free, and the rungs in those bits."""
    mask = 2**RUNG_BITS - 1
    value = realised.float()
    value = torch.where(value < realised, value.nextafter(value.new_tensor(math.inf)), value)
    raised = (value.view(torch.int32) + mask) & ~mask
    packed: Tensor = (raised | rung.int()).view(torch.float32)
    return packed


def _there(values: FloatArray, like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device)
