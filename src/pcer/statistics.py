"""Bootstrap, sign test, normal tests, Holm, Renyi divergences: pure functions of arrays.

A bootstrap resample is a vector of counts per unit: one matrix gives every mean of a
setting.
"""

from __future__ import annotations

import importlib
import math
from functools import partial

import numpy as np
import numpy.typing as npt

from pcer.errors import require_at_least, require_open_unit
from pcer.metrics import FloatArray, quotient

_special = partial(
    importlib.import_module, "scipy.special"
)  # `import pcer` does not wait for it
BLOCK_ENTRIES = (
    2_000_000  # entries of the (resample, unit) matrix that are held at once
)
SIGNIFICANCE = 0.05
EXPOSURE_SHARE = 0.8  # of that level, for differences of exposures; ratios get the rest
POWER_QUANTILE = 0.84  # normal quantile of 80 % power, as the design rounds it


def bootstrap_sums(
    values: FloatArray, *, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Sum of ``values`` (unit, ...) over every bootstrap resample of the units, (resample, ...).

    Draws indices as scipy.stats.bootstrap does, so that one generator state gives both
    the same distribution. Works in blocks, so memory does not grow with the number of
    units.
    """
    n = len(values)
    require_at_least(1, n_units=n, resamples=resamples)
    sums = []
    rows = max(1, BLOCK_ENTRIES // n)
    for done in range(0, resamples, rows):
        block = min(rows, resamples - done)
        index = rng.integers(0, n, (block, n)) + np.arange(block)[:, None] * n
        counts = np.bincount(index.ravel(), minlength=block * n).reshape(block, n)
        # einsum without BLAS, whose result would depend on the machine's kernels and
        # threads
        sums.append(
            np.einsum("ru,uq->rq", counts.astype(np.float64), values.reshape(n, -1))
        )
    return np.concatenate(sums).reshape(resamples, *values.shape[1:])


def percentile_interval(draws: FloatArray, *, confidence_level: float) -> FloatArray:
    """Lower and upper percentile over the first axis, stacked on a new first axis."""
    require_open_unit(confidence_level=confidence_level)
    tail = (1 - confidence_level) / 2
    return np.asarray(np.quantile(draws, [tail, 1 - tail], axis=0))


def sign_test(n_positive: int, n_negative: int) -> float:
    """Exact two-sided sign test; ties are left out by the caller. 1.0 without any seed.

    >>> round(sign_test(28, 22), 3)
    0.48
    """
    n = n_positive + n_negative
    fewer = min(n_positive, n_negative)
    return min(1.0, 2.0 * float(_special().bdtr(fewer, n, 0.5))) if n else 1.0


def generator(
    seed: int, *, purpose: int, epsilon: float, model: str | None = None
) -> np.random.Generator:
    """An independent random stream for a setting and purpose, whatever other settings there are."""
    bits: npt.NDArray[np.uint32] = np.array([epsilon], dtype=np.float64).view(np.uint32)
    key = (purpose, *bits.tolist(), *(model or "").encode())
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))
    )


def upper_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """One-sided p-value of value / error against 0; 1 where the error is 0."""
    return np.asarray(_special().ndtr(-_z(value, standard_error, without=-np.inf)))


def two_sided_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """Two-sided p-value of value / error against 0; 1 where the error is 0."""
    return np.asarray(
        2 * _special().ndtr(-np.abs(_z(value, standard_error, without=0.0)))
    )


def holm(p_values: FloatArray, *, weights: FloatArray | None = None) -> FloatArray:
    """Holm-adjusted p-values over all finite entries; NaN stays NaN and does not count.

    Args:
        p_values: of any shape.
        weights: each one's share of the level, of the same shape; equal if None. The
            share of a rejected hypothesis goes to the others in proportion.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(12)
    array([0.03, 0.06, 0.06])
    >>> holm(np.array([0.01, 0.04]), weights=np.array([0.8, 0.2])).round(12)
    array([0.0125, 0.04  ])
    """
    adjusted = np.array(p_values, dtype=np.float64)
    tested = np.isfinite(adjusted)
    p = adjusted[tested]
    w = np.ones(len(p)) if weights is None else weights[tested]
    order = np.argsort(p / w, kind="stable")
    left = np.cumsum(w[order][::-1])[::-1]  # the share that is left at each step
    p[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * (left / w[order])))
    adjusted[tested] = p
    return adjusted


def detectable(
    standard_error: FloatArray, *, n_tests: int, level: float = SIGNIFICANCE
) -> FloatArray:
    """Smallest value that one-sided tests with equal shares of the level find in 80%."""
    z_holm = float(-_special().ndtri(level / max(n_tests, 1)))
    return np.asarray((z_holm + POWER_QUANTILE) * standard_error)


def _z(value: FloatArray, standard_error: FloatArray, *, without: float) -> FloatArray:
    is_known = ~np.isnan(value) & ~np.isnan(standard_error)
    return quotient(
        value, standard_error, otherwise=np.where(is_known, without, np.nan)
    )


def interval_quantile(confidence_level: float) -> float:
    """Normal quantile of a two-sided interval.

    >>> round(interval_quantile(0.95), 2)
    1.96
    """
    require_open_unit(confidence_level=confidence_level)
    return float(_special().ndtri(0.5 + confidence_level / 2))


# Renyi divergences of DP-SGD, which add up over steps and models; the last axis is the
# order.

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
DENSITY = (
    8.0  # points of an integral per standard deviation; the error is below 1e-16 then
)


def sampled_gaussian(noise: FloatArray, rate: float) -> FloatArray:
    """Divergence (noise, order) of one Gaussian step on a Poisson sample of this rate."""
    whole = np.floor(ORDERS) == ORDERS
    log_moments = np.empty((len(noise), len(ORDERS)))
    for column in np.flatnonzero(whole):
        log_moments[:, column] = _whole_order(noise, rate, int(ORDERS[column]))
    for row, own in enumerate(noise):
        log_moments[row, ~whole] = _broken_orders(float(own), rate, ORDERS[~whole])
    return np.asarray(np.maximum(log_moments, 0) / (ORDERS - 1))  # below 0 is rounding


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
    log_factorial = _special().gammaln
    choose = (
        log_factorial(order + 1) - log_factorial(k + 1) - log_factorial(order - k + 1)
    )
    weight = choose + k * math.log(rate) + _special().xlog1py(order - k, -rate)
    exponent = weight + (k * k - k) / (2 * noise[:, None] ** 2)
    return np.asarray(_special().logsumexp(exponent, axis=1))


def _broken_orders(noise: float, rate: float, orders: FloatArray) -> FloatArray:
    """Log moments at orders between whole ones, as an integral over the noise."""
    # The integrand is smooth up to pi x noise from the line: an even grid is as good as
    # exact.
    step = min(1.0, 4 * noise) / DENSITY
    x = np.arange(-REACH, REACH + orders.max() / noise, step)
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    log_ratio = np.logaddexp(log_rest, math.log(rate) + x / noise - 1 / (2 * noise**2))
    density = -(x**2) / 2
    log_sum = _special().logsumexp
    return np.asarray(
        log_sum(orders[:, None] * log_ratio + density, axis=1) - log_sum(density)
    )
