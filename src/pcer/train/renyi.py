"""What one step of DP-SGD costs a record, by the norm of its own clipped gradient.

A record whose clipped gradient has norm s is hidden by noise of sigma C / s, in units of that norm.
Norms are rounded up to a grid of C/200, so that a table of 200 rows holds every cost there is, and
what a training run cost a record is its number of steps in each row times the table.

Divergences of order a (Renyi) add up over steps, also where the norm of a step depends on what the
steps before gave (Feldman and Zrnic 2021). Neighbouring data sets: the record is replaced by one
that joins batches with gradient zero. Of the two directions the one that puts the record above is
the larger at every order (Mironov, Talwar and Zhang 2019, Theorem 5), so it is the one kept.

dp-accounting computes the same row by row, in some seconds for a table; it is the witness in the
tests.

Many steps of DP-SGD together look like one Gaussian mechanism of parameter mu (Dong, Roth and Su
2022): with everything in sight, "was trained on" and "was not" are two normal laws of one deviation
and a distance of mu deviations. That turns an epsilon into what attacks are measured in.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, xlog1py

from pcer.errors import require_positive
from pcer.metrics import FloatArray
from pcer.train.rules import N_BINS

ORDERS: FloatArray = np.array(
    [*(1 + tenths / 10 for tenths in range(1, 100)), *range(11, 64), 128, 256, 512, 1024]
)
"""Orders of the divergences: those of dp-accounting's own accountant, so that both agree."""

REACH = 12.0  # standard deviations beyond which a Gaussian law is below 1e-31
DENSITY = 8.0  # points of an integral per standard deviation; the error is below 1e-16 then

LEAST_MU, LARGEST_MU, N_MU = 1e-6, 100.0, 20_000
"""Grid on which the accountant is turned around; it is even in log mu."""

MOST_QUANTILES = 512
"""Above so many records, neighbours in mu are compared by their means: an error below 1e-4."""


@lru_cache(maxsize=256)
def step_costs(noise_multiplier: float, sampling_rate: float) -> FloatArray:
    """Renyi divergence (bin, order) that one step costs a record; bin 0 costs nothing."""
    require_positive(noise_multiplier=noise_multiplier)
    if not 0 < sampling_rate <= 1:
        raise ValueError(f"sampling_rate must lie in (0, 1], but {sampling_rate!r} was given.")
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


def mu_of(epsilon: FloatArray, *, dp_delta: float) -> FloatArray:
    """Parameter of the Gaussian mechanism that the Renyi accountant gives this epsilon at delta.

    An epsilon of 0 gives 0; NaN stays NaN.
    """
    grid, accounted = _accounted(dp_delta)
    square = np.interp(epsilon, accounted, grid**2)  # epsilon is linear in mu^2 between orders
    nothing = np.where(np.isnan(epsilon), np.nan, 0)
    return np.where(np.asarray(epsilon) > 0, np.sqrt(square), nothing)


def allowed_advantage(mu: FloatArray) -> float:
    """AUC minus 1/2 that the likelihood ratios of these people, pooled, would give an attacker.

    LiRA's AUC compares different people: the score of one who was trained on, normal with mean
    mu_i^2/2 and variance mu_i^2, and that of another who was not, with mean -mu_j^2/2. The first is
    larger with chance Phi(sqrt(mu_i^2 + mu_j^2)/2); this is its mean over all pairs. An estimate:
    for an attacker who sees every step.

    >>> round(allowed_advantage(np.array([1.0])), 4)  # Phi(sqrt(2)/2) - 1/2
    0.2602
    """
    if not len(mu):
        raise ValueError("mu must hold at least one record.")
    square, weight = _condensed(np.sort(np.asarray(mu, dtype=np.float64) ** 2))
    chance = ndtr(np.sqrt(square[:, None] + square) / 2)
    return float(weight @ chance @ weight) - 0.5


def _condensed(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of neighbours in so many parts of about equal size, and their shares."""
    n_parts = min(len(ordered), MOST_QUANTILES)
    starts = np.arange(n_parts) * len(ordered) // n_parts
    sizes = np.diff(np.append(starts, len(ordered)))
    return np.add.reduceat(ordered, starts) / sizes, sizes / len(ordered)


@lru_cache(maxsize=16)
def _accounted(dp_delta: float) -> tuple[FloatArray, FloatArray]:
    """Parameters, and the epsilon that the accountant gives each; both grow."""
    mu = np.geomspace(LEAST_MU, LARGEST_MU, N_MU)
    epsilon = epsilon_of(mu[:, None] ** 2 * ORDERS / 2, dp_delta=dp_delta)
    return mu, epsilon


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
