"""Bootstrap intervals, the sign test, normal tests and Holm: pure functions of arrays.

Resampling a unit is choosing how often it counts, so one matrix of counts serves every
quantity of a budget at once: means of all resamples are one product.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pcer.errors import require_at_least, require_open_unit
from pcer.metrics import FloatArray, quotient

BLOCK_ENTRIES = 2_000_000  # entries of the (resample, unit) matrix that are held at once
SIGNIFICANCE = 0.05
EXPOSURE_SHARE = 0.8  # of that level, for differences of exposures; ratios get the rest
POWER_QUANTILE = 0.84  # normal quantile of 80 % power, as the design rounds it


def bootstrap_sums(values: FloatArray, *, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Sum of ``values`` (unit, ...) over every bootstrap resample of the units, (resample, ...).

    Draws indices the way scipy.stats.bootstrap does, so that one generator state gives both the
    same distribution. Works in blocks: memory stays flat however many units there are.
    """
    n = len(values)
    require_at_least(1, n_units=n, resamples=resamples)
    sums, rows = [], max(1, BLOCK_ENTRIES // n)
    for done in range(0, resamples, rows):
        block = min(rows, resamples - done)
        index = rng.integers(0, n, (block, n)) + np.arange(block)[:, None] * n
        counts = np.bincount(index.ravel(), minlength=block * n).reshape(block, n)
        # einsum without BLAS, whose result would depend on the machine's kernels and threads
        sums.append(np.einsum("ru,uq->rq", counts.astype(np.float64), values.reshape(n, -1)))
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
    from scipy.special import bdtr

    n = n_positive + n_negative
    return min(1.0, 2.0 * float(bdtr(min(n_positive, n_negative), n, 0.5))) if n else 1.0


def generator(
    seed: int, *, purpose: int, epsilon: float, model: str | None = None
) -> np.random.Generator:
    """A stream of its own for each setting and purpose, whatever other settings there are."""
    bits: npt.NDArray[np.uint32] = np.array([epsilon], dtype=np.float64).view(np.uint32)
    name = () if model is None else tuple(model.encode())
    key = (purpose, int(bits[0]), int(bits[1]), *name)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def upper_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """One-sided p-value of value / error against 0; 1 where the error is 0."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-_z(value, standard_error, without=-np.inf)))


def two_sided_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """Two-sided p-value of value / error against 0; 1 where the error is 0."""
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(_z(value, standard_error, without=0.0))))


def holm(p_values: FloatArray, *, weights: FloatArray | None = None) -> FloatArray:
    """Holm-adjusted p-values over all finite entries; NaN stays NaN and does not count.

    Args:
        p_values: of any shape.
        weights: share of the level that each gets, of the same shape; all alike if None. What a
            rejected hypothesis leaves goes to the others in proportion.

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
    left = np.cumsum(w[order][::-1])[::-1]  # the level that is still to be shared at each step
    p[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * (left / w[order])))
    adjusted[tested] = p
    return adjusted


def detectable(
    standard_error: FloatArray, *, n_tests: int, level: float = SIGNIFICANCE
) -> FloatArray:
    """Smallest number that one-sided tests at a level, shared alike, find in 80 % of releases."""
    from scipy.special import ndtri

    z_holm = float(-ndtri(level / max(n_tests, 1)))
    return np.asarray((z_holm + POWER_QUANTILE) * standard_error)


def _z(value: FloatArray, standard_error: FloatArray, *, without: float) -> FloatArray:
    is_known = ~np.isnan(value) & ~np.isnan(standard_error)
    return quotient(value, standard_error, otherwise=np.where(is_known, without, np.nan))


def interval_quantile(confidence_level: float) -> float:
    """Normal quantile of a two-sided interval.

    >>> round(interval_quantile(0.95), 2)
    1.96
    """
    from scipy.special import ndtri

    require_open_unit(confidence_level=confidence_level)
    return float(ndtri(0.5 + confidence_level / 2))


def student_weight(freedom: int) -> float:
    """Square of Student's quantile over the normal one, of a two-sided interval of 95 %.

    >>> [round(student_weight(freedom), 2) for freedom in (1, 4, 19)]
    [42.03, 2.01, 1.14]
    """
    from scipy.special import stdtrit

    require_at_least(1, freedom=freedom)
    ratio = float(stdtrit(freedom, 1 - SIGNIFICANCE / 2)) / interval_quantile(1 - SIGNIFICANCE)
    return ratio**2
