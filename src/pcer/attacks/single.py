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

TAIL_NONMEMBERS = 10
"""Non-members that must lie beyond a threshold before a rate so small can be estimated."""


class Advantage(NamedTuple):
    """One attack on one group of one model. The error is None with fewer than two on a side."""

    value: float
    standard_error: float | None
    n_members: int
    n_nonmembers: int


class PooledAdvantage(NamedTuple):
    """One attack on one group over all models of a budget, with an error clustered by record."""

    value: float
    standard_error: float | None
    n_records: int
    n_excluded: int


class Influence(NamedTuple):
    """An AUC and what every record adds to it; the squares of the parts sum to its variance."""

    auc: float
    parts: FloatArray


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
    falling = loss[ranked.order]
    threshold = float((falling * ranked.member).sum()) / ranked.n_members
    within = threshold + TIE_TOLERANCE * abs(threshold)
    n_guessed = int(np.searchsorted(falling[::-1], within, side="right"))
    guessed = ranked.above(len(falling) - n_guessed)
    return _two_shares(guessed, (ranked.n_members, ranked.n_nonmembers))


def attack_auc(score: FloatArray, member: BoolArray) -> float:
    """Chance that a member scores above a non-member, ties counting half; NaN without both.

    >>> attack_auc(np.array([3.0, 2.0, 2.0]), np.array([True, True, False]))
    0.75
    """
    return auc_influence(score, member).auc


def auc_advantage(score: FloatArray, member: BoolArray) -> Advantage:
    """AUC minus 1/2 with the error of DeLong, DeLong and Clarke-Pearson."""
    return ranked_auc_advantage(_ranked(score, member))


def ranked_auc_advantage(ranked: Ranked) -> Advantage:
    """The same for records in the order of their scores."""
    n_members, n_nonmembers = ranked.n_members, ranked.n_nonmembers
    if ranked.is_onesided:
        return Advantage(math.nan, None, n_members, n_nonmembers)
    value, smaller, error = ranked.auc - 0.5, min(n_members, n_nonmembers), None
    if smaller > 1:
        squares = ranked.parts() ** 2
        of_members = float((squares * ranked.member).sum())
        of_nonmembers = float(squares.sum()) - of_members
        variance = of_members * n_members / (n_members - 1)
        variance += of_nonmembers * n_nonmembers / (n_nonmembers - 1)
        error = least_error(math.sqrt(variance), value, smaller)
    return Advantage(value, error, n_members, n_nonmembers)


def tpr_at_fpr(score: FloatArray, member: BoolArray, *, fpr: float) -> float | None:
    """Share of members above a threshold that at most ``fpr`` of the non-members exceed.

    None where non-members are fewer than 10/fpr: so few cannot show so small a rate.
    """
    tail = _tail(_ranked(score, member), fpr=fpr)
    return None if tail is None else tail[0]


def tpr_excess(score: FloatArray, member: BoolArray, *, fpr: float) -> Advantage | None:
    """``tpr_at_fpr`` minus what chance gives at that threshold; None where that is None.

    Chance is (k + 1)/(n + 1) with k of n non-members above the threshold, which is itself a
    non-member's score. The error allows for a threshold set by few non-members: the slope of
    the curve there is at most TPR/FPR if the curve is concave, and that bound is used.
    """
    return ranked_tpr_excess(_ranked(score, member), fpr=fpr)


def ranked_tpr_excess(ranked: Ranked, *, fpr: float) -> Advantage | None:
    """The same for records in the order of their scores."""
    tail = _tail(ranked, fpr=fpr)
    if tail is None:
        return None
    tpr, chance = tail
    slope = max(1.0, tpr / chance)
    variance = _share_variance(tpr, ranked.n_members)
    variance += slope**2 * _share_variance(chance, ranked.n_nonmembers)
    return Advantage(tpr - chance, math.sqrt(variance), ranked.n_members, ranked.n_nonmembers)


def auc_influence(score: FloatArray, member: BoolArray) -> Influence:
    """The AUC and every record's part in it; NaN and zeros without both sides.

    Records whose score is NaN are left out; their part is 0.
    """
    ranked = _ranked(score, member)
    parts = np.zeros(len(score))
    if ranked.is_onesided:
        return Influence(math.nan, parts)
    parts[ranked.order] = ranked.parts()
    return Influence(ranked.auc, parts)


def clustered_auc(scores: FloatArray, member: BoolArray) -> PooledAdvantage:
    """AUC minus 1/2 averaged over models, with an error that knows that models share records.

    A record's parts are summed over the models before they are squared: its scores in different
    models depend on each other, because each is measured against the others, and treating the
    models as independent gives an error that is much too small.

    Args:
        scores: (model, record); NaN where a record could not be scored for that model.
        member: (model, record).
    """
    whole = np.zeros(scores.shape[1], dtype=np.int64)
    pool = AucPool(whole, n_groups=1)
    ranker = Ranker([whole], [1])
    for score, inside in zip(scores, member, strict=True):
        pool.add(score, ranker.rank(score, inside)[0])
    return pool.results()[0]


class AucPool:
    """Collects the AUC of one model after the other, group by group, for ``clustered_auc``.

    Args:
        codes: (record,) a group's number, -1 for none.
        n_groups: how many groups.
    """

    def __init__(self, codes: IntArray, *, n_groups: int) -> None:
        self._codes, self._n_groups = codes, n_groups
        self._parts = np.zeros(len(codes))
        self._aucs: list[list[float]] = [[] for _ in range(n_groups)]
        self._ever = np.zeros(len(codes), dtype=bool)
        self._always = np.ones(len(codes), dtype=bool)

    def add(self, score: FloatArray, ranked: list[Ranked]) -> None:
        """Take in one model: its scores and their ranks within each group."""
        known = np.isfinite(score)
        self._ever |= known
        self._always &= known
        parts = np.zeros(len(score))
        for aucs, one in zip(self._aucs, ranked, strict=True):
            if not one.is_onesided:
                aucs.append(one.auc)
                parts[one.order] = one.parts()
        self._parts += parts

    def results(self) -> list[PooledAdvantage]:
        """What was found for every group; NaN where no model had both sides."""
        return [self._result(k) for k in range(self._n_groups)]

    def _result(self, k: int) -> PooledAdvantage:
        chosen, aucs = self._codes == k, self._aucs[k]
        n_records = int((self._ever & chosen).sum())
        n_excluded = int((~self._always & chosen).sum())
        if not aucs:
            return PooledAdvantage(math.nan, None, n_records, n_excluded)
        value = math.fsum(aucs) / len(aucs) - 0.5
        error = _clustered_error(self._parts[chosen] / len(aucs), value, n_records)
        return PooledAdvantage(value, error, n_records, n_excluded)


def least_error(error: float, value: float, n: int) -> float:
    """The error, or at least what one record of ``n`` at chance would have made of it.

    Without this, an attack that finds everybody would have an error of exactly 0.
    """
    return max(error, abs(value) / n)


def _ranked(score: FloatArray, member: BoolArray) -> Ranked:
    whole = np.zeros(len(score), dtype=np.int64)
    return Ranker([whole], [1]).rank(np.asarray(score, dtype=np.float64), member)[0][0]


def _clustered_error(parts: FloatArray, value: float, n_records: int) -> float | None:
    if n_records < 2:
        return None
    variance = float((parts**2).sum()) * n_records / (n_records - 1)
    return least_error(math.sqrt(variance), value, n_records)


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


def paired_differences(values: FloatArray | BoolArray, member: BoolArray) -> FloatArray:
    """Per record, the mean over models that trained on it minus the mean over the others.

    NaN for a record that was always in, or never.

    Args:
        values: (model, record), such as correctness or the probability of the true label.
        member: (model, record).

    >>> always = np.array([[True, True], [False, True]])
    >>> paired_differences(np.array([[1.0, 1.0], [0.0, 1.0]]), always)
    array([ 1., nan])
    """
    n_in = member.sum(axis=0)
    n_out = len(member) - n_in
    total_in = (values * member).sum(axis=0)
    total_out = (values * ~member).sum(axis=0)
    out = np.full(values.shape[1], np.nan)
    known = (n_in > 0) & (n_out > 0)
    out[known] = total_in[known] / n_in[known] - total_out[known] / n_out[known]
    return out


def paired_cost(values: FloatArray, member: BoolArray) -> PooledAdvantage:
    """Mean of the paired differences of a group, with an error from their spread over records.

    If nothing was memorised every record's difference has mean exactly 0, because its splits
    were drawn without looking: the estimate is centred at 0 with no correction.
    """
    return mean_difference(paired_differences(values, member))


def mean_difference(differences: FloatArray) -> PooledAdvantage:
    """The paired cost of a group from its records' differences, NaN where there is none."""
    known = differences[np.isfinite(differences)]
    n, n_excluded = len(known), len(differences) - len(known)
    if n == 0:
        return PooledAdvantage(math.nan, None, 0, n_excluded)
    value, error = float(known.mean()), None
    if n > 1:
        error = least_error(float(known.std(ddof=1)) / math.sqrt(n), value, n)
    return PooledAdvantage(value, error, n, n_excluded)
