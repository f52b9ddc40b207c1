"""What an attacker learns about one group from one model: pure functions of that group's records.

Scores are higher where a record looks more like a member; ``member`` says who was trained on.
Every advantage is signed and 0 at chance. Errors describe the luck of the split; they are never
0 unless the value is, see ``least_error``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.ranking import Ranked, Ranker
from pcer.errors import require_open_unit
from pcer.metrics import BoolArray, FloatArray, IntArray

TIE_TOLERANCE = 1e-12
"""Losses this close (as a share) to the threshold lie on it: a mean of equal numbers is rounded."""

SMALLEST_PROBABILITY = 2.0**-53
"""Distance from 0 or 1 that a rounded probability may have had: log odds of about 37."""

WINDOW_POWER = -0.2
"""Of the number of records: how fast the window of a density narrows (Silverman's rate)."""

TAIL_NONMEMBERS = 10
"""Non-members that must lie beyond a threshold before a rate so small can be estimated."""


class Advantage(NamedTuple):
    """One attack on one group of one model. The error is None with fewer than two on a side."""

    value: float
    standard_error: float | None
    n_members: int
    n_nonmembers: int


class Influence(NamedTuple):
    """A group's number in one model, and what every record adds to it.

    The parts are in the order of the ranks and sum to 0 on each side. Each side's loss of a degree
    of freedom is made good, so that their squares sum to ``variance``, which the number has when
    records are drawn anew; it is NaN with fewer than two on a side.
    """

    value: float
    parts: FloatArray
    variance: float


class Cut(NamedTuple):
    """Where the threshold attacker cuts a group's losses, which fall with the ranks."""

    falling: FloatArray
    threshold: float
    n_guessed: int


def true_label_logit(logits: npt.NDArray[np.floating[Any]], labels: IntArray) -> FloatArray:
    """Log odds that the model gives the true label: the scaled logit of LiRA.

    Args:
        logits: (..., record) log odds of label 1.
        labels: (record,) 0 or 1.

    >>> true_label_logit(np.array([2.0, 2.0]), np.array([1, 0]))
    array([ 2., -2.])
    """
    return np.asarray(logits * (2.0 * labels - 1.0), dtype=np.float64)


def loss_of(scaled_logit: FloatArray) -> FloatArray:
    """Cross-entropy loss from the log odds of the true label.

    >>> loss_of(np.array([0.0])).round(6)
    array([0.693147])
    """
    return np.log1p(np.exp(-np.abs(scaled_logit))) + np.maximum(-scaled_logit, 0.0)


def confidence_of(scaled_logit: FloatArray) -> FloatArray:
    """Probability of the true label from its log odds."""
    from scipy.special import expit

    return np.asarray(expit(scaled_logit))


def log_odds(probability: FloatArray) -> FloatArray:
    """Log odds of a probability; 0 and 1 count as the least that can be told from them.

    >>> log_odds(np.array([0.5, 0.75])).round(6)
    array([0.      , 1.098612])
    """
    inner = np.clip(probability, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    return np.asarray(np.log(inner) - np.log1p(-inner))


def beyond_reference(
    scaled_logit: FloatArray, reference: FloatArray, is_positive: BoolArray
) -> FloatArray:
    """Log odds of the true label beyond what models say that never saw the record.

    Some records are easy for every model, trained on them or not; that is no trace of training,
    and is taken off (offline LiRA's mean, RMIA's average of probabilities).

    Args:
        scaled_logit: (record,) log odds that the model gives the true label.
        reference: (record, model) probabilities of the positive label by reference models.
        is_positive: (record,) whether the label is the positive one.

    >>> beyond_reference(np.array([2.0]), np.array([[0.4, 0.6]]), np.array([True]))
    array([2.])
    """
    usual = log_odds(reference.mean(axis=1))
    return np.asarray(scaled_logit - np.where(is_positive, usual, -usual))


def gap_attack(correct: BoolArray, member: BoolArray) -> Advantage:
    """The guess "member if classified correctly": its balanced advantage is half the gap, exactly.

    >>> gap_attack(np.array([True, True, True, False]), np.array([True, True, False, False])).value
    0.25
    """
    n_members = int(member.sum())
    caught, false = int((correct & member).sum()), int((correct & ~member).sum())
    return _two_shares((caught, false), (n_members, member.size - n_members))


def loss_threshold_attack(loss: FloatArray, member: BoolArray) -> Advantage:
    """The attacker of Yeom et al.: "member if the loss is at most the mean training loss".

    The value is balanced accuracy minus 1/2 at that fixed threshold. The paper claims that it is
    at most the overfitting gap (Proposition 1); it is not, in general: a model that is right about
    everyone but confident on members only has gap 0 and is found out completely.

    >>> loss_threshold_attack(np.array([0.1, 0.1, 0.6]), np.array([True, True, False])).value
    0.5
    """
    return ranked_loss_threshold(_ranked(-loss, member), loss)


def ranked_loss_threshold(ranked: Ranked, loss: FloatArray) -> Advantage:
    """The same for records in the order of falling loss; ``loss`` is of all records."""
    if ranked.is_onesided:
        return Advantage(math.nan, None, ranked.n_members, ranked.n_nonmembers)
    cut = _cut(ranked, loss)
    guessed = ranked.above(len(cut.falling) - cut.n_guessed)
    return _two_shares(guessed, (ranked.n_members, ranked.n_nonmembers))


def _cut(ranked: Ranked, loss: FloatArray) -> Cut:
    """Cut at the mean loss of the members."""
    falling = loss[ranked.order]
    threshold = float((falling * ranked.member).sum()) / ranked.n_members
    return Cut(falling, threshold, _n_within(falling, threshold))


def threshold_influence(ranked: Ranked, loss: FloatArray) -> Influence:
    """That advantage, and every record's part: its own guess, and how a member moves the threshold.

    A member's loss moves the mean by (loss - mean)/n, and the mean moves the advantage by the
    slope of "advantage at a threshold", which is 0 where members look like the others. Needs
    members and others.
    """
    cut = _cut(ranked, loss)
    members, nonmembers = ranked.n_members, ranked.n_nonmembers
    guessed = np.zeros(len(cut.falling))
    guessed[len(guessed) - cut.n_guessed :] = 1.0
    caught, false = _shares(ranked, cut.n_guessed)
    of_members = (guessed - caught) / (2 * members)
    slope = _slope(ranked, cut)
    if slope:
        of_members += slope * (cut.falling - cut.threshold) / members
    parts = np.where(ranked.member > 0, of_members, (false - guessed) / (2 * nonmembers))
    return _influence((caught - false) / 2, parts, ranked)


def _slope(ranked: Ranked, cut: Cut) -> float:
    """Change of the advantage with the threshold, from a window that narrows as records grow."""
    falling, threshold, _ = cut
    spread = float((((falling - threshold) ** 2) * ranked.member).sum()) / ranked.n_members
    width = math.sqrt(spread) * float(len(falling)) ** WINDOW_POWER
    if not width > 0:
        return 0.0
    low, high = (_shares(ranked, _n_within(falling, threshold + w)) for w in (-width, width))
    return float(((high[0] - high[1]) - (low[0] - low[1])) / (4 * width))


def _n_within(falling: FloatArray, threshold: float) -> int:
    """How many losses are at most the threshold."""
    within = threshold + TIE_TOLERANCE * abs(threshold)
    return int(np.searchsorted(falling[::-1], within, side="right"))


def _shares(ranked: Ranked, n_guessed: int) -> tuple[float, float]:
    """Shares of the members and of the others among the last ranks."""
    members, nonmembers = ranked.above(len(ranked.order) - n_guessed)
    return members / ranked.n_members, nonmembers / ranked.n_nonmembers


def attack_auc(score: FloatArray, member: BoolArray) -> float:
    """Chance that a member scores above a non-member, ties counting half; NaN without both.

    >>> attack_auc(np.array([3.0, 2.0, 2.0]), np.array([True, True, False]))
    0.75
    """
    ranked = _ranked(score, member)
    return math.nan if ranked.is_onesided else ranked.auc


def auc_advantage(score: FloatArray, member: BoolArray) -> Advantage:
    """AUC minus 1/2 with the error of DeLong, DeLong and Clarke-Pearson."""
    return ranked_auc_advantage(_ranked(score, member))


def ranked_auc_advantage(ranked: Ranked) -> Advantage:
    """The same for records in the order of their scores."""
    if ranked.is_onesided:
        return Advantage(math.nan, None, ranked.n_members, ranked.n_nonmembers)
    n_members, n_nonmembers = ranked.n_members, ranked.n_nonmembers
    found, smaller, error = auc_influence(ranked), min(n_members, n_nonmembers), None
    value = found.value - 0.5
    if smaller > 1:
        error = least_error(math.sqrt(found.variance), value, smaller)
    return Advantage(value, error, n_members, n_nonmembers)


def auc_influence(ranked: Ranked) -> Influence:
    """The AUC and every record's part in it; needs members and others."""
    return _influence(ranked.auc, ranked.parts(), ranked)


def error_at_chance(n_members: int, n_nonmembers: int) -> float:
    """Standard error of an AUC where members are like the others (Mann and Whitney).

    >>> error_at_chance(1, 1)
    0.5
    """
    return math.sqrt((n_members + n_nonmembers + 1) / (12 * n_members * n_nonmembers))


def ranked_reference_advantage(ranked: Ranked) -> Advantage:
    """AUC minus 1/2 of one model; its error never below that of chance.

    One model has few records on a side sooner than many have, and DeLong's error of a dozen
    records is now and then far too small.
    """
    found = ranked_auc_advantage(ranked)
    if found.standard_error is None:
        return found
    least = error_at_chance(found.n_members, found.n_nonmembers)
    return found._replace(standard_error=max(found.standard_error, least))


def tpr_at_fpr(score: FloatArray, member: BoolArray, *, fpr: float) -> float | None:
    """Share of members above a threshold that at most ``fpr`` of the non-members exceed.

    None where non-members are fewer than 10/fpr: so few cannot show so small a rate.
    """
    tail = _tail(_ranked(score, member), fpr=fpr)
    return None if tail is None else tail[0]


def ranked_tpr_excess(ranked: Ranked, *, fpr: float) -> Advantage | None:
    """``tpr_at_fpr`` minus what chance gives at that threshold; None where that is None.

    Chance is (k + 1)/(n + 1) with k of n non-members above the threshold, which is itself a
    non-member's score. The error allows for a threshold set by few non-members: the slope of
    the curve there is at most TPR/FPR if the curve is concave, and that bound is used.
    """
    tail = _tail(ranked, fpr=fpr)
    if tail is None:
        return None
    tpr, chance = tail
    slope = max(1.0, tpr / chance)
    variance = _share_variance(tpr, ranked.n_members)
    variance += slope**2 * _share_variance(chance, ranked.n_nonmembers)
    return Advantage(tpr - chance, math.sqrt(variance), ranked.n_members, ranked.n_nonmembers)


def least_error(error: float, value: float, n: int) -> float:
    """The error, or at least what one record of ``n`` at chance would have made of it.

    Without this, an attack that finds everybody would have an error of exactly 0.
    """
    return max(error, abs(value) / n)


def _ranked(score: FloatArray, member: BoolArray) -> Ranked:
    whole = np.zeros(len(score), dtype=np.int64)
    return Ranker([whole], [1]).rank(np.asarray(score, dtype=np.float64), member)[0][0]


def _influence(value: float, parts: FloatArray, ranked: Ranked) -> Influence:
    members, nonmembers = ranked.n_members, ranked.n_nonmembers
    if min(members, nonmembers) < 2:
        return Influence(value, parts, math.nan)
    squares = parts**2
    of_members = float((squares * ranked.member).sum())
    of_nonmembers = float(squares.sum()) - of_members
    variance = of_members * members / (members - 1)
    variance += of_nonmembers * nonmembers / (nonmembers - 1)
    scale, other = (math.sqrt(n / (n - 1)) for n in (members, nonmembers))
    return Influence(value, parts * ((scale - other) * ranked.member + other), variance)


def _two_shares(guessed: tuple[int, int], sides: tuple[int, int]) -> Advantage:
    """Balanced advantage of guesses, from how many of the members and of the others were named."""
    n_members, n_nonmembers = sides
    if min(sides) == 0:
        return Advantage(math.nan, None, n_members, n_nonmembers)
    caught, false = guessed[0] / n_members, guessed[1] / n_nonmembers
    value, error = (caught - false) / 2, None
    if min(sides) > 1:
        variance = _share_variance(caught, n_members) + _share_variance(false, n_nonmembers)
        error = least_error(math.sqrt(variance) / 2, value, min(sides))
    return Advantage(value, error, n_members, n_nonmembers)


def _tail(ranked: Ranked, *, fpr: float) -> tuple[float, float] | None:
    """TPR above the strictest admissible threshold, and what chance would give there."""
    require_open_unit(fpr=fpr)
    n_members, n_nonmembers = ranked.n_members, ranked.n_nonmembers
    if n_members == 0 or n_nonmembers < TAIL_NONMEMBERS / fpr:
        return None
    allowed = math.floor(fpr * n_nonmembers * (1 + TIE_TOLERANCE))
    members, nonmembers = ranked.above(ranked.end_of_tie(n_nonmembers - allowed - 1))
    return members / n_members, (nonmembers + 1) / (n_nonmembers + 1)


def _share_variance(share: float, n: int) -> float:
    return share * (1 - share) / n
