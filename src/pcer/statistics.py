"""Which statistics does pcer compute: bootstrap, sign test, normal tests, Holm?

Pure functions of arrays, for ``measuring``, ``paper`` and ``attacks``. scipy is
imported inside the functions, so that ``import pcer`` does not wait for it. To add a
statistic: a function here, with an independent check in its test.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pcer.errors import require_at_least, require_open_unit
from pcer.metrics import FloatArray, quotient

# Entries of the (resample, unit) matrix that are held at once.
BLOCK_ENTRIES = 2_000_000
SIGNIFICANCE = 0.05
EXPOSURE_SHARE = 0.8  # of that level, for differences of exposures; ratios get the rest
POWER_QUANTILE = 0.84  # normal quantile of 80 % power, as the design rounds it


def bootstrap_sums(
    values: FloatArray, *, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Sums over every bootstrap resample of the units, (resample, ...).

    A resample r is a vector of counts n_ru per unit u, so one matrix gives every sum of
    a setting:

        sum_r = n_r1 values_1 + n_r2 values_2 + ...

    Draws indices as scipy.stats.bootstrap does, so that one generator state gives both
    the same distribution. Works in blocks, so memory does not grow with the number of
    units.

    Args:
        values: (unit, ...).
        resamples: how many, at least 1.
        rng: where the indices come from.
    """
    n_units = len(values)
    require_at_least(1, n_units=n_units, resamples=resamples)
    sums = []
    rows = max(1, BLOCK_ENTRIES // n_units)
    for done in range(0, resamples, rows):
        block = min(rows, resamples - done)
        first = np.arange(block)[:, None] * n_units  # of each resample's counts
        index = rng.integers(0, n_units, (block, n_units)) + first
        counts = np.bincount(index.ravel(), minlength=block * n_units)
        n = counts.reshape(block, n_units).astype(np.float64)
        # einsum without BLAS, whose result would depend on the machine's kernels and
        # threads
        sums.append(np.einsum("ru,uq->rq", n, values.reshape(n_units, -1)))
    return np.concatenate(sums).reshape(resamples, *values.shape[1:])


def percentile_interval(draws: FloatArray, *, confidence_level: float) -> FloatArray:
    """Lower and upper percentile over the first axis, stacked on a new first axis.

    The quantiles at tail and 1 - tail, where tail = (1 - confidence level) / 2.
    """
    require_open_unit(confidence_level=confidence_level)
    tail = (1 - confidence_level) / 2
    return np.asarray(np.quantile(draws, [tail, 1 - tail], axis=0))


def sign_test(n_positive: int, n_negative: int) -> float:
    """Exact two-sided sign test; 1.0 without any seed.

    Ties are left out by the caller. Of n signs, with the rarer one k times:

        p = min(1, 2 P(X <= k)) for X ~ Binomial(n, 1/2)

    >>> round(sign_test(28, 22), 3)
    0.48
    """
    from scipy.special import bdtr

    n = n_positive + n_negative
    k = min(n_positive, n_negative)
    if n == 0:
        return 1.0
    return min(1.0, 2.0 * float(bdtr(k, n, 0.5)))


def generator(
    seed: int, *, purpose: int, epsilon: float, model: str | None = None
) -> np.random.Generator:
    """A random stream for a setting and purpose, independent of all others."""
    bits: npt.NDArray[np.uint32] = np.array([epsilon], dtype=np.float64).view(np.uint32)
    key = (purpose, *bits.tolist(), *(model or "").encode())
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))
    )


def upper_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """One-sided p-value against 0: Phi(-value / error); 1 where the error is 0."""
    from scipy.special import ndtr

    z = _z(value, standard_error, without=-np.inf)
    return np.asarray(ndtr(-z))


def two_sided_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """Two-sided p-value against 0: 2 Phi(-|value / error|); 1 where the error is 0."""
    from scipy.special import ndtr

    z = _z(value, standard_error, without=0.0)
    return np.asarray(2 * ndtr(-np.abs(z)))


def _z(value: FloatArray, standard_error: FloatArray, *, without: float) -> FloatArray:
    """Value / error; ``without`` where the error is 0, NaN where one is unknown."""
    is_known = ~np.isnan(value) & ~np.isnan(standard_error)
    return quotient(
        value, standard_error, otherwise=np.where(is_known, without, np.nan)
    )


def holm(p_values: FloatArray, *, weights: FloatArray | None = None) -> FloatArray:
    """Holm-adjusted p-values over all finite entries; NaN stays NaN and does not count.

    With p_1, p_2, ... in order of p / w (Holm 1979, with weights w):

        adjusted_i = max over j <= i of min(1, p_j (w_j + w_(j+1) + ...) / w_j)

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
    is_tested = np.isfinite(adjusted)
    p = adjusted[is_tested]
    w = np.ones(len(p)) if weights is None else weights[is_tested]
    order = np.argsort(p / w, kind="stable")
    left = np.cumsum(w[order][::-1])[::-1]  # the share that is left at each step
    p[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * (left / w[order])))
    adjusted[is_tested] = p
    return adjusted


def holm_by_family(p_values: FloatArray) -> FloatArray:
    """``holm`` of every row (family, test), alone and with equal weights.

    >>> holm_by_family(np.array([[0.01, 0.04, 0.03], [0.5, np.nan, 0.02]])).round(12)
    array([[0.03, 0.06, 0.06],
           [0.5 ,  nan, 0.04]])
    """
    p = np.where(np.isfinite(p_values), p_values, np.inf)
    order = np.argsort(p, axis=1, kind="stable")
    n_left = np.isfinite(p).sum(axis=1, keepdims=True) - np.arange(p.shape[1])
    # Those that are not tested come last, and no number of tests is left for them.
    raised = np.take_along_axis(p, order, axis=1) * np.maximum(n_left, 1)
    raised = np.maximum.accumulate(np.minimum(1.0, raised), axis=1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, raised, axis=1)
    return np.where(np.isfinite(p), adjusted, np.nan)


def detectable(
    standard_error: FloatArray, *, n_tests: int, level: float = SIGNIFICANCE
) -> FloatArray:
    """Smallest value that one-sided tests with equal shares of the level find in 80%.

    (z_holm + z_power) error, where z_holm is the normal quantile of 1 - level / tests.
    """
    from scipy.special import ndtri

    z_holm = float(-ndtri(level / max(n_tests, 1)))
    return np.asarray((z_holm + POWER_QUANTILE) * standard_error)


def interval_quantile(confidence_level: float) -> float:
    """Normal quantile of a two-sided interval.

    >>> round(interval_quantile(0.95), 2)
    1.96
    """
    from scipy.special import ndtri

    require_open_unit(confidence_level=confidence_level)
    return float(ndtri(0.5 + confidence_level / 2))


def finite_or_none(value: float | FloatArray) -> float | None:
    """A finite Python float, or None."""
    return float(value) if np.isfinite(value) else None
