"""The epsilon that DP-SGD spends, from noise, sampling rate and steps alone.

What a step tells about a record is a privacy loss; losses of steps add up. On a grid their law is a
Fourier transform to the power of the steps (Koskela, Jalko and Honkela 2020). Losses are put on the
grid point below and their mean is restored at the end, so that the answer is close rather than a
bound; dp-accounting's bound is the witness in the tests.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pcer.metrics import FloatArray

N_POINTS = 2**17
"""Of the grid."""
REACH = 12.0
"""Standard deviations of the sum, and of one step's noise, that the grid holds each side."""


@lru_cache(maxsize=1024)
def epsilon_of_steps(noise: float, sample_rate: float, n_steps: int, dp_delta: float) -> float:
    """The epsilon at ``dp_delta`` of so many Gaussian steps on Poisson samples.

    For the larger direction: the record is there, or it is not. Infinite without noise.

    Args:
        noise: standard deviation in units of the clip norm.
        sample_rate: chance of a record to join a step.
        n_steps: steps.
        dp_delta: above 0.

    >>> round(epsilon_of_steps(1.0, 1.0, 1, 1e-5), 2)
    4.38
    """
    if noise <= 0:
        return math.inf
    losses, chances = _sum_of_losses(noise, sample_rate, n_steps)
    return _epsilon(losses, chances, dp_delta)


def _sum_of_losses(noise: float, rate: float, n_steps: int) -> tuple[FloatArray, FloatArray]:
    """Grid of the total loss, ascending, and its chances."""
    x = np.linspace(-REACH * noise, 1 + REACH * noise, 20_001)
    weight = np.diff(_cdf(x, noise, rate))
    loss = _loss((x[1:] + x[:-1]) / 2, noise, rate)
    mean = float((weight * loss).sum())
    spread = math.sqrt(n_steps * float((weight * (loss - mean) ** 2).sum()))
    largest = float(_loss(1 + REACH * noise, noise, rate))
    width = max(2 * REACH * spread, 2 * largest, 1e-9)
    step = width / N_POINTS
    start = math.floor(math.log1p(-rate) / step) if rate < 1 else -math.ceil(largest / step)
    n_edges = min(N_POINTS, math.ceil(largest / step) - start + 2)
    edges = np.arange(start, start + n_edges, dtype=np.float64) * step
    one = np.diff(_cdf(_noise_of(edges, noise, rate), noise, rate))
    return _composed(one, edges, step, n_steps, mean)


def _composed(
    one: FloatArray, edges: FloatArray, step: float, n_steps: int, mean: float
) -> tuple[FloatArray, FloatArray]:
    """The law of the sum, on a circle about its mean, with its mean restored."""
    lost = mean - float((one * edges[:-1]).sum())
    law = np.fft.irfft(np.fft.rfft(one, N_POINTS) ** n_steps, N_POINTS)
    centre = round(n_steps * mean / step)
    index = np.arange(centre - N_POINTS // 2, centre + N_POINTS // 2)
    offset = n_steps * round(float(edges[0] / step))
    losses = index.astype(np.float64) * step + n_steps * lost
    return losses, np.maximum(law[(index - offset) % N_POINTS], 0.0)


def _epsilon(losses: FloatArray, chances: FloatArray, dp_delta: float) -> float:
    """Where the chance of larger losses, less what epsilon forgives, is delta."""
    low, high = 0.0, max(0.0, float(losses[-1]))
    for _ in range(60):
        middle = (low + high) / 2
        above = losses > middle
        found = float((chances[above] * -np.expm1(middle - losses[above])).sum())
        low, high = (middle, high) if found > dp_delta else (low, middle)
    return high


def _loss(x: FloatArray | float, noise: float, rate: float) -> FloatArray:
    exponent = (2 * np.asarray(x) - 1) / (2 * noise**2)
    rest = math.log1p(-rate) if rate < 1 else -math.inf
    return np.asarray(np.logaddexp(rest, math.log(rate) + exponent))


def _noise_of(loss: FloatArray, noise: float, rate: float) -> FloatArray:
    """The noise with that loss; minus infinity where no noise has so small a one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.log((np.expm1(loss) + rate) / rate)
    return np.where(np.isnan(inside), -np.inf, noise**2 * inside + 0.5)


def _cdf(x: FloatArray, noise: float, rate: float) -> FloatArray:
    """Of what a step shows if the record is there."""
    from scipy.special import ndtr

    return np.asarray((1 - rate) * ndtr(x / noise) + rate * ndtr((x - 1) / noise))
