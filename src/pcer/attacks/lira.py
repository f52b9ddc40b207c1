"""Attacks that calibrate each record by the other models of the sweep: LiRA and RMIA, for free.

The models of one budget are each other's shadow models. To attack target model t, everything
(means, variances, who is left out) comes from the other models alone: whatever includes the target
leaks its membership into the score. Sums over all models minus the target's own value give that
in one pass, record block by record block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
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


class Form(StrEnum):
    """Which likelihood ratio is taken; all are LiRA."""

    SHRUNK = "shrunk"
    """In and out Gaussians whose difference is shrunk to the size seen over records (default)."""
    PLAIN = "plain"
    """In and out Gaussians exactly as each record's other models give them (Carlini et al.)."""
    FIXED = "fixed"
    """The same with one variance in and one out for all records, as they advise for few models."""
    OFFLINE = "offline"
    """Only the out Gaussian: how far above it the target lies."""


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
        return np.sqrt(_quotient(squares, np.where(squares > 0, self.freedom, 0)))


Ratio = Callable[[FloatArray, Others], FloatArray]
"""The score of a block of records, (target, record), from what the other models say."""


def lira_scores(
    scaled_logit: FloatArray, member: BoolArray, *, form: Form = Form.SHRUNK
) -> FloatArray:
    """Log likelihood ratio of "was trained on" for every (target model, record).

    NaN marks a pair that is left out: a record that the other models all had in training, or all
    had not, or on which they do not differ at all, is not guessed.

    ``Form.SHRUNK`` is what a sweep of tens of models needs. A record's own difference between in
    and out is then mostly noise, and the plain ratio spends its power on guessing its sign. The
    prior says that differences (in standard deviations) have mean and spread equal to their root
    mean square over all records, noise taken off: with many models, or strong memorisation, the
    prior fades and the plain ratio with a common variance remains.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
        form: which ratio.

    Raises:
        ValueError: fewer than 8 models.
    """
    require_enough_models(len(member))
    ratio = _ratio(scaled_logit, member, form)
    scores = np.empty(scaled_logit.shape)
    for block, values, inside in blocks(scaled_logit, member):
        scores[:, block] = ratio(values, other_models(values, inside))
    return scores


def rmia_scores(confidence: FloatArray, member: BoolArray) -> FloatArray:
    """Ratio of the target's probability to the other models' average, in and out weighted alike.

    The attack of Zarifzadeh et al. ranks this ratio among those of other records. A rank keeps
    the order, so within one model the AUC of the ratio is the AUC of the attack.

    Args:
        confidence: (model, record) probability of the true label.
        member: (model, record).
    """
    require_enough_models(len(member))
    scores = np.empty(confidence.shape)
    for block, values, inside in blocks(confidence, member):
        scores[:, block] = rmia_ratio(values, inside)
    return scores


def rmia_ratio(confidence: FloatArray, member: BoolArray) -> FloatArray:
    """``rmia_scores`` of one block of records."""
    mean_in, mean_out = other_means(confidence, member)
    mean_in += mean_out
    mean_in /= 2
    return _quotient(confidence, mean_in)


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
    return n, _quotient(own.sum(axis=0) - own, n), own


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
        noise=_quotient(np.ones(1), others.n_in) + _quotient(np.ones(1), others.n_out),
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
    """Log likelihood ratio over ``size``, the typical difference, which may vary by record."""
    weight = size * evidence.difference
    weight += evidence.noise
    weight /= size**2 + evidence.noise
    score = size * weight
    score *= evidence.lean
    np.subtract(evidence.standing, score, out=score)
    score *= weight
    return score


def _ratio(values: FloatArray, member: BoolArray, form: Form) -> Ratio:
    """How one form scores a block; what it shares over all records is taken beforehand."""
    if form is Form.SHRUNK:
        every = blocks(values, member)
        found = (ratio_parts(part, other_models(part, inside)) for _, part, inside in every)
        size = typical_difference(map(surplus_of, found))[:, None]
        return lambda part, others: shrunk_ratio(ratio_parts(part, others), size)
    if form is Form.FIXED:
        spread_in, spread_out = _common_variances(values, member)
        return partial(_fixed_ratio, spread_in=spread_in, spread_out=spread_out)
    return _plain_ratio if form is Form.PLAIN else offline_ratio


def _common_variances(values: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """(target, 1) variances of the other models around each record's mean, in and out."""
    squares, freedom = np.zeros((2, len(values))), np.zeros((2, len(values)))
    for _, part, inside in blocks(values, member):
        others = other_models(part, inside)
        for side, (square, n) in enumerate(
            ((others.squares_in, others.n_in), (others.squares_out, others.n_out))
        ):
            squares[side] += square.sum(axis=1)
            freedom[side] += np.maximum(n - 1, 0).sum(axis=1)
    variance = _quotient(squares, np.where(squares > 0, freedom, 0))
    return variance[0][:, None], variance[1][:, None]


def _plain_ratio(values: FloatArray, others: Others) -> FloatArray:
    spread_in = _variance(others.squares_in, others.n_in)
    spread_out = _variance(others.squares_out, others.n_out)
    inside = _log_density(values, others.mean_in, spread_in)
    return inside - _log_density(values, others.mean_out, spread_out)


def _fixed_ratio(
    values: FloatArray, others: Others, spread_in: FloatArray, spread_out: FloatArray
) -> FloatArray:
    inside = _log_density(values, others.mean_in, spread_in)
    ratio = inside - _log_density(values, others.mean_out, spread_out)
    return np.where(others.squares_in + others.squares_out > 0, ratio, np.nan)


def offline_ratio(values: FloatArray, others: Others) -> FloatArray:
    """How far the target lies above the other models that had the record out, in deviations."""
    deviation = np.sqrt(_variance(others.squares_out, others.n_out))
    return np.asarray((values - others.mean_out) / deviation)


def _log_density(values: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (np.log(variance) + (values - mean) ** 2 / variance))


def _variance(squares: FloatArray, n: FloatArray) -> FloatArray:
    return _quotient(squares, np.where(squares > 0, n - 1, 0))


def _quotient(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """NaN where the denominator is not above 0."""
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
