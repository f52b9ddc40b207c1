"""Is it signal? Cost estimates with honest errors, and the three tests built on them.

Runs of one split are averaged first: many training seeds on one split share its luck. The
error of a cost is the larger of the closed form and the spread seen over splits. All tests
are normal tests of an estimate over its standard error, Holm-adjusted over their family.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pcer.metrics import FloatArray

SIGNIFICANCE = 0.05
POWER_QUANTILE = 0.84
"""Normal quantile of 80 % power, as the design rounds it."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A per-group quantity and its standard error; arrays over the group."""

    value: FloatArray
    standard_error: FloatArray


@dataclass(frozen=True, kw_only=True)
class SplitMeans:
    """Per-split means of one budget: what the tests are computed from."""

    cost: FloatArray
    """(split, group) cost with the luck of the split taken off its mean."""
    variance: FloatArray
    """(group,) variance of one split's cost if only the split is random."""
    benefit: FloatArray
    """(split, group)."""


def by_split(values: FloatArray, split: npt.NDArray[np.int64]) -> FloatArray:
    """Average the runs of each split: (seed, ...) -> (split, ...)."""
    sums = np.zeros((int(split.max()) + 1, *values.shape[1:]))
    np.add.at(sums, split, values)
    runs = np.bincount(split).reshape(-1, *([1] * (values.ndim - 1)))
    return np.asarray(sums / runs)


def cost_estimate(means: SplitMeans) -> Estimate:
    """Mean cost over distinct splits; the error is never below the closed form."""
    variance = _at_least_sample_variance(means.variance, means.cost)
    return Estimate(
        value=means.cost.mean(axis=0), standard_error=np.sqrt(variance / len(means.cost))
    )


def cross_product(means: SplitMeans, i: int, j: int) -> tuple[float, float]:
    """L = R_i c_j - R_j c_i and its standard error. Positive: group j has the lower ratio.

    Cross-multiplied, so that without memorisation both products are 0 whatever the rates.
    """
    benefit, cost = means.benefit.mean(axis=0), means.cost.mean(axis=0)
    per_split = means.benefit[:, i] * means.cost[:, j] - means.benefit[:, j] * means.cost[:, i]
    closed = benefit[i] ** 2 * means.variance[j] + benefit[j] ** 2 * means.variance[i]
    variance = _at_least_sample_variance(closed, per_split)
    value = benefit[i] * cost[j] - benefit[j] * cost[i]
    return float(value), float(np.sqrt(variance / len(per_split)))


def upper_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """One-sided p-value of value / error against 0; 1 where the error is 0."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-_z(value, standard_error, without=-np.inf)))


def two_sided_p(value: FloatArray, standard_error: FloatArray) -> FloatArray:
    """Two-sided p-value of value / error against 0; 1 where the error is 0."""
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(_z(value, standard_error, without=0.0))))


def holm(p_values: FloatArray) -> FloatArray:
    """Holm-adjusted p-values over all finite entries; NaN stays NaN and does not count.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(12)
    array([0.03, 0.06, 0.06])
    """
    adjusted = np.array(p_values, dtype=np.float64)
    tested = np.isfinite(adjusted)
    p = adjusted[tested]
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    p[order] = np.maximum.accumulate(steps)
    adjusted[tested] = p
    return adjusted


def detectable(standard_error: FloatArray, *, n_tests: int) -> FloatArray:
    """Smallest cost that would be resolved in 80 % of releases like this one."""
    from scipy.special import ndtri

    z_holm = float(-ndtri(SIGNIFICANCE / max(n_tests, 1)))
    return np.asarray((z_holm + POWER_QUANTILE) * standard_error)


def _z(value: FloatArray, standard_error: FloatArray, *, without: float) -> FloatArray:
    value, error = np.asarray(value, float), np.asarray(standard_error, float)
    out = np.where(np.isnan(value) | np.isnan(error), np.nan, without)
    np.divide(value, error, out=out, where=error > 0)
    return out


def _at_least_sample_variance(closed: FloatArray, per_split: FloatArray) -> FloatArray:
    if len(per_split) < 2:
        return np.asarray(closed)
    return np.asarray(np.maximum(closed, per_split.var(axis=0, ddof=1)))
