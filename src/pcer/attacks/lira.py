"""Attacks that calibrate each record by the other models of the sweep: LiRA and RMIA, for free.

The models of one budget are each other's shadow models. To attack target model t, everything
(means, variances, who is left out) comes from the other models alone: whatever includes the target
leaks its membership into the score. Sums over all models minus the target's own value give that
in one pass, record block by record block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.metrics import BoolArray, FloatArray
from pcer.release import proxies

LEAST_MODELS = proxies.LIRA.least_models

BLOCK = 2048
"""Records scored at a time: memory does not grow with their number."""

ROUNDING = 1e-12
"""A sum of squares that is this small a share of what it was taken from is rounding, not spread."""


class Others(NamedTuple):
    """What the other models say about each record, as arrays (target, record)."""

    n_in: FloatArray
    n_out: FloatArray
    mean_in: FloatArray
    mean_out: FloatArray
    squares_in: FloatArray
    """Sum of squared deviations from ``mean_in``."""
    squares_out: FloatArray

    @property
    def freedom(self) -> FloatArray:
        """Degrees of freedom of the common variance."""
        return self.n_in + self.n_out - 2

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation common to in and out; NaN where it cannot be had, or is 0."""
        squares = self.squares_in + self.squares_out
        return np.sqrt(quotient(squares, np.where(squares > 0, self.freedom, 0)))


def rmia_ratio(confidence: FloatArray, member: BoolArray) -> FloatArray:
    """Ratio of the target's probability to the other models' average, in and out weighted alike.

    The attack of Zarifzadeh et al. ranks this ratio among those of other records. A rank keeps
    the order, so within one model the AUC of the ratio is the AUC of the attack.

    Args:
        confidence: (model, record) probability of the true label.
        member: (model, record).
    """
    mean_in, mean_out = other_means(confidence, member)
    mean_in += mean_out
    mean_in /= 2
    return quotient(confidence, mean_in)


def require_enough_models(n_models: int) -> None:
    """Raise ValueError where the models are too few to be each other's shadow models."""
    if n_models < LEAST_MODELS:
        raise ValueError(
            f"LiRA and RMIA need at least {LEAST_MODELS} models of one budget to calibrate each "
            f"record, but {n_models} were given; train more seeds or use the paired cost."
        )


def other_models(values: FloatArray, member: BoolArray) -> Others:
    """Counts, means and squared deviations over the other models; NaN where there are none."""
    centred = values - values[0]  # a shift per record: what never differs becomes exactly 0
    n_in, mean_in, squares_in = _without_own(centred, member)
    n_out, mean_out, squares_out = _without_own(centred, ~member)
    shift = values - centred
    mean_in += shift
    mean_out += shift
    return Others(n_in, n_out, mean_in, mean_out, squares_in, squares_out)


def other_means(values: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Means over the other models, in and out, as ``other_models`` gives them."""
    centred = values - values[0]
    shift = values - centred
    means = [_mean_without_own(centred, chosen)[1] + shift for chosen in (member, ~member)]
    return means[0], means[1]


def _without_own(
    values: FloatArray, chosen: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Count, mean and squared deviations of the chosen models, the target's own left out."""
    n, mean, own = _mean_without_own(values, chosen)
    own *= own
    squares = own.sum(axis=0) - own
    rounding = ROUNDING * squares.max(axis=0)
    squares -= n * mean**2
    return n, mean, np.where(squares > rounding, squares, 0.0)


def _mean_without_own(
    values: FloatArray, chosen: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Count and mean of the chosen models, the target's own left out; and the chosen values."""
    own = values * chosen
    n = np.subtract(chosen.sum(axis=0), chosen, dtype=np.float64)
    return n, quotient(own.sum(axis=0) - own, n), own


class RatioParts(NamedTuple):
    """What the shrunk ratio is made of; arrays (target, record)."""

    standing: FloatArray
    """The target's distance from the mean of the others, in their standard deviations."""
    difference: FloatArray
    """Mean of the others in minus mean of those out, in standard deviations."""
    noise: FloatArray
    """Variance of that difference if there is none."""
    lean: FloatArray
    """One half minus the share of the others that had the record in."""


def ratio_parts(values: FloatArray, others: Others) -> RatioParts:
    """Bring what the other models say into standard deviations."""
    n = others.n_in + others.n_out
    deviation = others.deviation
    centre = (others.n_in * others.mean_in + others.n_out * others.mean_out) / n
    return RatioParts(
        standing=(values - centre) / deviation,
        difference=(others.mean_in - others.mean_out) / deviation,
        noise=quotient(np.ones(1), others.n_in) + quotient(np.ones(1), others.n_out),
        lean=0.5 - others.n_in / n,
    )


def surplus_of(evidence: RatioParts) -> FloatArray:
    """(target, record) squared difference of in and out beyond what noise explains."""
    # A difference over an estimated deviation is Student's: its variance is larger by this.
    freedom = len(evidence.noise) - 3
    found = evidence.difference**2
    found -= evidence.noise * (freedom / (freedom - 2))
    return found


def typical_difference(surpluses: Iterable[FloatArray]) -> FloatArray:
    """(target,) root of the mean surplus over all records of some blocks; 0 where it is noise."""
    total, n = np.zeros(1), np.zeros(1)
    for found in surpluses:
        known = np.isfinite(found)
        total = total + (found if known.all() else np.where(known, found, 0.0)).sum(axis=1)
        n = n + known.sum(axis=1)
    return np.sqrt(np.maximum(total / np.maximum(n, 1), 0.0))


def shrunk_ratio(evidence: RatioParts, size: FloatArray) -> FloatArray:
    """Log likelihood ratio over ``size``, the typical difference, which may vary by record.

    A sweep of tens of models needs it: a record's own difference between in and out is then
    mostly noise, and the plain ratio spends its power on guessing its sign. The prior says that
    differences (in standard deviations) have mean and spread equal to their root mean square over
    all records, noise taken off: with many models, or strong memorisation, the prior fades and
    the plain ratio with a common variance remains.
    """
    weight = size * evidence.difference
    weight += evidence.noise
    weight /= size**2 + evidence.noise
    score = size * weight
    score *= evidence.lean
    np.subtract(evidence.standing, score, out=score)
    score *= weight
    return score


def offline_ratio(values: FloatArray, others: Others) -> FloatArray:
    """How far the target lies above the other models that had the record out, in deviations."""
    deviation = np.sqrt(variance_of(others.squares_out, others.n_out))
    return np.asarray((values - others.mean_out) / deviation)


def variance_of(squares: FloatArray, n: FloatArray) -> FloatArray:
    """Sample variance from squared deviations; NaN where there is none, or no spread."""
    return quotient(squares, np.where(squares > 0, n - 1, 0))


def quotient(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Numerator over denominator; NaN where the denominator is not above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out = numerator / denominator
    positive = denominator > 0
    return out if positive.all() else np.where(positive, out, np.nan)


def blocks(
    values: npt.NDArray[np.floating[Any]], member: BoolArray
) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
    """Records a few at a time: which, their values, their membership."""
    for first in range(0, values.shape[1], BLOCK):
        block = slice(first, first + BLOCK)
        yield block, np.asarray(values[:, block], dtype=np.float64), member[:, block]
