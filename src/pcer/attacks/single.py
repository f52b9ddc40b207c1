"""What does an attack find in one group by one model?

Pure functions of that group's records: the statistics of ``scorers.ATTACKS``. Higher
scores mean more likely a member. Every advantage is signed and 0 at chance. Errors
describe the luck of the split; they are never 0 unless the value is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.ranking import Ranked
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.records import Exposure

# Relative distance within which a loss lies on the threshold: a mean of equal numbers
# is rounded.
TIE_TOLERANCE = 1e-12
# Smallest distance of a probability from 0 or 1: log odds of about 37.
SMALLEST_PROBABILITY = 2.0**-53
# Silverman's rate: how fast the window of a density narrows with the number of records.
WINDOW_POWER = -0.2
# Non-members that must exceed a threshold before so small a rate can be estimated.
TAIL_NONMEMBERS = 10


class Advantage(NamedTuple):
    """One attack on one group of one model.

    Attributes:
        value: NaN where members, or others, are missing.
        standard_error: None with fewer than two on a side.
        n_members: records that the model was trained on.
        n_nonmembers: the others.
        parts: each record's influence on the value, in the order of the ranks; they sum
            to 0 on each side, their squares to the variance. None for attacks that are
            not averaged over models.
        variance: over new samples of records; NaN with fewer than two on a side.
    """

    value: float
    standard_error: float | None
    n_members: int
    n_nonmembers: int
    parts: FloatArray | None = None
    variance: float = math.nan

    def exposure(self, n_excluded: int | None = None) -> Exposure:
        """As a release has it."""
        error = self.standard_error
        return Exposure(
            value=float(self.value),
            standard_error=None if error is None else float(error),
            n_members=self.n_members,
            n_nonmembers=self.n_nonmembers,
            n_excluded=n_excluded,
        )


# A result, or None, from one model's ranks of one group and everybody's (record,)
# scores.
Attack = Callable[[Ranked, FloatArray], Advantage | None]


def true_label_logit(
    logits: npt.NDArray[np.floating[Any]], labels: IntArray
) -> FloatArray:
    """Log odds that the model gives the true label: the scaled logit of LiRA."""
    return np.asarray(logits * (2.0 * labels - 1.0), dtype=np.float64)


def loss_of(scaled_logit: FloatArray) -> FloatArray:
    """Cross-entropy loss from the log odds of the true label."""
    return np.log1p(np.exp(-np.abs(scaled_logit))) + np.maximum(-scaled_logit, 0.0)


def confidence_of(scaled_logit: FloatArray) -> FloatArray:
    """Probability of the true label from its log odds."""
    from scipy.special import expit

    return np.asarray(expit(scaled_logit))


def log_odds(probability: FloatArray) -> FloatArray:
    """Log odds of a probability; 0 and 1 count as the nearest other number.

    >>> log_odds(np.array([0.5, 0.75])).round(6)
    array([0.      , 1.098612])
    """
    inner = np.clip(probability, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    return np.asarray(np.log(inner) - np.log1p(-inner))


def beyond_reference(
    scaled_logit: FloatArray, reference: FloatArray, is_positive: BoolArray
) -> FloatArray:
    """Log odds of the true label beyond those of models that never saw the record.

    Records that are easy for every model would look like members; subtracting what the
    references say removes that (offline LiRA's mean, on RMIA's average of
    probabilities).

    Args:
        scaled_logit: (record,) log odds that the model gives the true label.
        reference: (record, model) probabilities of the positive label by reference
            models.
        is_positive: (record,) whether the label is the positive one.

    >>> beyond_reference(np.array([2.0]), np.array([[0.4, 0.6]]), np.array([True]))
    array([2.])
    """
    usual = log_odds(reference.mean(axis=1))
    return np.asarray(scaled_logit - np.where(is_positive, usual, -usual))


def loss_attack(ranked: Ranked, scaled_logit: FloatArray) -> Advantage:
    """``loss_threshold`` from (record,) log odds of the true label."""
    return loss_threshold(ranked, loss_of(scaled_logit[ranked.order]))


def loss_threshold(ranked: Ranked, falling: FloatArray) -> Advantage:
    """Balanced accuracy minus 1/2 of Yeom et al.: a member has at most the mean loss.

    With TPR the share of members whose loss is at most the threshold t, the mean loss
    of members, and FPR that of the others, the advantage is (TPR - FPR)/2, and its
    variance (TPR (1 - TPR)/n_members + FPR (1 - FPR)/n_nonmembers)/4.

    The paper claims that the advantage is at most the overfitting gap (Proposition 1),
    which does not hold in general: a model that is right about everyone but confident
    on members only has gap 0, and the attack finds everybody.

    Args:
        ranked: the records of one group, the largest loss first.
        falling: their losses, in the order of the ranks.
    """
    # A record's influence is its own guess and, for a member, how it moves the
    # threshold: its loss moves the mean by (loss - mean)/n, and the mean the advantage
    # by its slope at the threshold.
    n_members = ranked.n_members
    n_nonmembers = ranked.n_nonmembers
    if ranked.is_onesided:
        return Advantage(math.nan, None, n_members, n_nonmembers)
    threshold = float((falling * ranked.member).sum()) / n_members
    n_guessed = _n_within(falling, threshold)
    tpr, fpr = _shares(ranked, n_guessed)
    variance = _share_variance(tpr, n_members) + _share_variance(fpr, n_nonmembers)

    guessed = np.zeros(len(falling))
    guessed[len(guessed) - n_guessed :] = 1.0
    of_members = (guessed - tpr) / (2 * n_members)
    slope = _slope(ranked, falling, threshold)
    if slope:
        of_members += slope * (falling - threshold) / n_members
    of_nonmembers = (fpr - guessed) / (2 * n_nonmembers)
    parts = np.where(ranked.member > 0, of_members, of_nonmembers)
    return _with_errors(ranked, (tpr - fpr) / 2, parts, math.sqrt(variance) / 2)


def _slope(ranked: Ranked, falling: FloatArray, threshold: float) -> float:
    """Slope of the advantage at the threshold, from a window around it.

    The window narrows with more records, by Silverman's rate.
    """
    squares = ((falling - threshold) ** 2) * ranked.member
    spread = float(squares.sum()) / ranked.n_members
    width = math.sqrt(spread) * float(len(falling)) ** WINDOW_POWER
    if not width > 0:
        return 0.0
    low = _shares(ranked, _n_within(falling, threshold - width))
    high = _shares(ranked, _n_within(falling, threshold + width))
    rise = (high.members - high.nonmembers) - (low.members - low.nonmembers)
    return float(rise / (4 * width))


def _n_within(falling: FloatArray, threshold: float) -> int:
    """Number of losses at most the threshold."""
    within = threshold + TIE_TOLERANCE * abs(threshold)
    return int(np.searchsorted(falling[::-1], within, side="right"))


class Shares(NamedTuple):
    """Shares of the members, and of the others, that an attacker takes for members."""

    members: float
    nonmembers: float


def _shares(ranked: Ranked, n_guessed: int) -> Shares:
    """Shares of the members and of the others among the last ranks."""
    members, nonmembers = ranked.above(len(ranked.order) - n_guessed)
    return Shares(members / ranked.n_members, nonmembers / ranked.n_nonmembers)


def auc_advantage(ranked: Ranked, score: FloatArray | None = None) -> Advantage:
    """AUC minus 1/2 (the ranks are enough).

    The error is that of DeLong, DeLong and Clarke-Pearson, from each record's influence
    on the AUC (``Ranked.parts``).
    """
    if ranked.is_onesided:
        return Advantage(math.nan, None, ranked.n_members, ranked.n_nonmembers)
    return _with_errors(ranked, ranked.auc - 0.5, ranked.parts())


def _with_errors(
    ranked: Ranked, value: float, parts: FloatArray, error: float | None = None
) -> Advantage:
    """An advantage; its error is that of the parts unless one is given.

    The variance is the sum over members of parts^2 x n_members/(n_members - 1), and the
    same of the others; the parts that are returned have that factor's root.
    """
    n_members = ranked.n_members
    n_nonmembers = ranked.n_nonmembers
    fewest = min(n_members, n_nonmembers)
    if fewest < 2:
        return Advantage(value, None, n_members, n_nonmembers, parts)
    squares = parts**2
    of_members = float((squares * ranked.member).sum())
    of_nonmembers = float(squares.sum()) - of_members
    variance = of_members * n_members / (n_members - 1)
    variance += of_nonmembers * n_nonmembers / (n_nonmembers - 1)

    scale = math.sqrt(n_members / (n_members - 1))
    other = math.sqrt(n_nonmembers / (n_nonmembers - 1))
    parts = parts * ((scale - other) * ranked.member + other)
    if error is None:
        error = math.sqrt(variance)
    least = abs(value) / fewest  # the effect of one record at chance: never 0
    return Advantage(value, max(error, least), n_members, n_nonmembers, parts, variance)


def error_at_chance(n_members: int, n_nonmembers: int) -> float:
    """Standard error of an AUC where members are like the others (Mann and Whitney)."""
    return math.sqrt((n_members + n_nonmembers + 1) / (12 * n_members * n_nonmembers))


def reference_advantage(ranked: Ranked, score: FloatArray) -> Advantage:
    """AUC minus 1/2 of one model, with at least the error at chance.

    DeLong's error can be too small.
    """
    found = auc_advantage(ranked)
    if found.standard_error is None:
        return found
    least = error_at_chance(found.n_members, found.n_nonmembers)
    return found._replace(standard_error=max(found.standard_error, least))


def tpr_excess(
    ranked: Ranked, score: FloatArray | None = None, *, fpr: float
) -> Advantage | None:
    """Share of members above a threshold that few others exceed, beyond chance.

    The threshold is the score of a non-member that at most ``fpr`` of the n others
    exceed. With k others above it, chance is (k + 1)/(n + 1), and the value TPR -
    chance. Its error allows for few of them: the slope of a concave curve at the
    threshold is at most s = TPR/FPR (and at least 1), so the variance is that of TPR
    plus s^2 times that of chance. None with too few others.
    """
    n_members = ranked.n_members
    n_nonmembers = ranked.n_nonmembers
    if n_members == 0 or n_nonmembers < TAIL_NONMEMBERS / fpr:
        return None
    allowed = math.floor(fpr * n_nonmembers * (1 + TIE_TOLERANCE))
    members, nonmembers = ranked.above(ranked.end_of_tie(n_nonmembers - allowed - 1))
    tpr = members / n_members
    chance = (nonmembers + 1) / (n_nonmembers + 1)
    slope = max(1.0, tpr / chance)
    of_chance = _share_variance(chance, n_nonmembers)
    variance = _share_variance(tpr, n_members) + slope**2 * of_chance
    return Advantage(tpr - chance, math.sqrt(variance), n_members, n_nonmembers)


def _share_variance(share: float, n: int) -> float:
    return share * (1 - share) / n
