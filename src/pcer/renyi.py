"""How much privacy do training steps spend? Rényi divergences of DP-SGD.

They add up over steps and models; the last axis of every array is the order. Called by
``train`` (receipts) and ``deciding`` (the price of choosing). scipy is imported inside
the functions, so that ``import pcer`` does not wait for it. To add a mechanism: a
function that gives its divergences by order, as ``sampled_gaussian``.
"""

from __future__ import annotations

import math

import numpy as np

from pcer.metrics import FloatArray

# Orders of the divergences: those of dp-accounting, so that both agree.
ORDERS: FloatArray = np.array(
    [
        *(1 + tenths / 10 for tenths in range(1, 100)),
        *range(11, 64),
        128,
        256,
        512,
        1024,
    ]
)
REACH = 12.0  # standard deviations beyond which a Gaussian law is below 1e-31
# Points of an integral per standard deviation; the error is below 1e-16 then.
DENSITY = 8.0


def sampled_gaussian(noise: FloatArray, rate: float) -> FloatArray:
    """Divergence (noise, order) of one Gaussian step on a Poisson sample.

    Of order a, with noise sigma and sampling rate q (Mironov, Talwar and Zhang 2019):

        Q = N(0, sigma^2), P = (1 - q) Q + q N(1, sigma^2)
        D_a(P || Q) = log E_Q[(P/Q)^a] / (a - 1)

    Args:
        noise: (noise,) multiples of the clip norm.
        rate: chance of a record to join a step, in (0, 1].
    """
    is_whole = np.floor(ORDERS) == ORDERS
    log_moments = np.empty((len(noise), len(ORDERS)))
    for column in np.flatnonzero(is_whole):
        log_moments[:, column] = _whole_order(noise, rate, int(ORDERS[column]))
    broken = ORDERS[~is_whole]
    for row, sigma in enumerate(noise):
        log_moments[row, ~is_whole] = _broken_orders(float(sigma), rate, broken)
    return np.asarray(np.maximum(log_moments, 0) / (ORDERS - 1))  # below 0 is rounding


def conversion(dp_delta: float) -> FloatArray:
    """What each order adds to a divergence to make an epsilon at ``dp_delta``.

    Of order a, at delta (Proposition 12 of Canonne, Kamath and Steinke 2020, as in
    dp-accounting):

        log(1 - 1/a) - log(delta a) / (a - 1)
    """
    return np.asarray(np.log1p(-1 / ORDERS) - np.log(dp_delta * ORDERS) / (ORDERS - 1))


def epsilon_of(divergence: FloatArray, *, dp_delta: float) -> FloatArray:
    """The least epsilon over orders, as dp-accounting gives it.

    Args:
        divergence: (..., order).
        dp_delta: the delta of the epsilon.
    """
    best = (divergence + conversion(dp_delta)).min(axis=-1)
    # Below this at any order, the total variation is below delta.
    is_hidden = divergence.min(axis=-1) < -math.log1p(-(dp_delta**2))
    return np.where(is_hidden, 0.0, np.maximum(best, 0.0))


def _whole_order(noise: FloatArray, rate: float, order: int) -> FloatArray:
    """(noise,) log moments log E_Q[(P/Q)^a] at a whole order a: the binomial formula.

    With noise sigma and sampling rate q, as in ``sampled_gaussian``:

        log sum_k exp(weight_k + (k^2 - k) / (2 sigma^2)), for k = 0, ..., a
        weight_k = log C(a, k) + k log q + (a - k) log(1 - q)
    """
    from scipy.special import gammaln, logsumexp, xlog1py

    k = np.arange(order + 1)
    log_choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    weight = log_choose + k * math.log(rate) + xlog1py(order - k, -rate)
    exponent = weight + (k * k - k) / (2 * noise[:, None] ** 2)
    return np.asarray(logsumexp(exponent, axis=1))


def _broken_orders(noise: float, rate: float, orders: FloatArray) -> FloatArray:
    """(order,) log moments log E_Q[(P/Q)^a] between whole orders, as an integral.

    With noise sigma, sampling rate q as in ``sampled_gaussian``, over x from N(0, 1):

        E[ratio(x)^a], ratio(x) = 1 - q + q exp(x / sigma - 1 / (2 sigma^2))
    """
    from scipy.special import logsumexp

    # The integrand is smooth up to pi x noise from the line: an even grid is as good as
    # exact.
    step = min(1.0, 4 * noise) / DENSITY
    x = np.arange(-REACH, REACH + orders.max() / noise, step)
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    log_ratio = np.logaddexp(log_rest, math.log(rate) + x / noise - 1 / (2 * noise**2))
    log_density = -(x**2) / 2  # but for a constant, which the second sum has, too
    log_moments = logsumexp(orders[:, None] * log_ratio + log_density, axis=1)
    return np.asarray(log_moments - logsumexp(log_density))
