"""What an attacker learns about one group from one model: pure functions of that group's records.

Scores are higher where a record looks more like a member; ``member`` says who was trained on.
Every advantage is signed and 0 at chance. Errors describe the luck of the split; they are never
0 unless the value is, see ``least_error``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pcer.errors import require_open_unit
from pcer.metrics import FloatArray

BoolArray: TypeAlias = npt.NDArray[np.bool_]

TIE_TOLERANCE = 1e-12
"""Losses this close (as a share) to the threshold lie on it: a mean of equal numbers is rounded."""

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


def true_label_logit(
    logits: npt.NDArray[np.floating[Any]], labels: npt.NDArray[np.int64]
) -> FloatArray:
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
    return np.logaddexp(0.0, -scaled_logit)


def confidence_of(scaled_logit: FloatArray) -> FloatArray:
    """Probability of the true label from its log odds."""
    from scipy.special import expit

    return np.asarray(expit(scaled_logit))


def gap_attack(correct: BoolArray, member: BoolArray) -> Advantage:
    """The guess "member if classified correctly": its balanced advantage is half the gap, exactly.

    >>> gap_attack(np.array([True, True, True, False]), np.array([True, True, False, False])).value
    0.25
    """
    return _two_shares(correct, member)


def loss_threshold_attack(loss: FloatArray, member: BoolArray) -> Advantage:
    """The attacker of Yeom et al.: "member if the loss is at most the mean training loss".

    The value is balanced accuracy minus 1/2 at that fixed threshold. The paper claims that it is
    at most the overfitting gap (Proposition 1); it is not, in general: a model that is right about
    everyone but confident on members only has gap 0 and is found out completely.

    >>> loss_threshold_attack(np.array([0.1, 0.1, 0.6]), np.array([True, True, False])).value
    0.5
    """
    threshold = float(loss[member].mean()) if member.any() else math.nan
    return _two_shares(loss <= threshold + TIE_TOLERANCE * abs(threshold), member)


def attack_auc(score: FloatArray, member: BoolArray) -> float:
    """Chance that a member scores above a non-member, ties counting half; NaN without both.

    >>> attack_auc(np.array([3.0, 2.0, 2.0]), np.array([True, True, False]))
    0.75
    """
    return auc_influence(score, member).auc


def auc_advantage(score: FloatArray, member: BoolArray) -> Advantage:
    """AUC minus 1/2 with the error of DeLong, DeLong and Clarke-Pearson."""
    n_members, n_nonmembers = _sides(member)
    found = auc_influence(score, member)
    value, smaller = found.auc - 0.5, min(n_members, n_nonmembers)
    error = None
    if smaller > 1:
        bessel = np.where(member, n_members / (n_members - 1), n_nonmembers / (n_nonmembers - 1))
        error = least_error(math.sqrt(float((bessel * found.parts**2).sum())), value, smaller)
    return Advantage(value, error, n_members, n_nonmembers)


def tpr_at_fpr(score: FloatArray, member: BoolArray, *, fpr: float) -> float | None:
    """Share of members above a threshold that at most ``fpr`` of the non-members exceed.

    None where non-members are fewer than 10/fpr: so few cannot show so small a rate.
    """
    tail = _tail(score, member, fpr=fpr)
    return None if tail is None else tail[0]


def tpr_excess(score: FloatArray, member: BoolArray, *, fpr: float) -> Advantage | None:
    """``tpr_at_fpr`` minus what chance gives at that threshold; None where that is None.

    Chance is (k + 1)/(n + 1) with k of n non-members above the threshold, which is itself a
    non-member's score. The error allows for a threshold set by few non-members: the slope of
    the curve there is at most TPR/FPR if the curve is concave, and that bound is used.
    """
    require_open_unit(fpr=fpr)
    tail = _tail(score, member, fpr=fpr)
    if tail is None:
        return None
    tpr, chance = tail
    n_members, n_nonmembers = _sides(member)
    slope = max(1.0, tpr / chance)
    variance = _share_variance(tpr, n_members) + slope**2 * _share_variance(chance, n_nonmembers)
    return Advantage(tpr - chance, math.sqrt(variance), n_members, n_nonmembers)


def auc_influence(score: FloatArray, member: BoolArray) -> Influence:
    """The AUC and every record's part in it: its placement among the other side, centred.

    A member's placement is the share of non-members below it, a non-member's the share of
    members above it, ties counting half. One sort.
    """
    n_members, n_nonmembers = _sides(member)
    if min(n_members, n_nonmembers) == 0:
        return Influence(math.nan, np.zeros(len(score)))
    order = np.argsort(score, kind="stable")
    ranked, inside = score[order], member[order]
    tie = np.cumsum(np.concatenate([[True], ranked[1:] != ranked[:-1]])) - 1
    members, nonmembers = np.bincount(tie, inside), np.bincount(tie, ~inside)
    below = (np.cumsum(nonmembers) - nonmembers / 2) / n_nonmembers
    above = (n_members - np.cumsum(members) + members / 2) / n_members
    auc = float(members @ below) / n_members
    parts = np.empty(len(score))
    parts[order] = np.where(
        inside, (below[tie] - auc) / n_members, (above[tie] - auc) / n_nonmembers
    )
    return Influence(auc, parts)


def clustered_auc(scores: FloatArray, member: BoolArray) -> PooledAdvantage:
    """AUC minus 1/2 averaged over models, with an error that knows that models share records.

    A record's parts are summed over the models before they are squared: its scores in different
    models depend on each other, because each is measured against the others, and treating the
    models as independent gives an error that is much too small.

    Args:
        scores: (model, record); NaN where a record could not be scored for that model.
        member: (model, record).
    """
    known = np.isfinite(scores)
    found = [_influence_of_known(*row) for row in zip(scores, member, known, strict=True)]
    found = [one for one in found if math.isfinite(one.auc)]
    n_records, n_excluded = int(known.any(axis=0).sum()), int((~known.all(axis=0)).sum())
    if not found:
        return PooledAdvantage(math.nan, None, n_records, n_excluded)
    value = math.fsum(one.auc for one in found) / len(found) - 0.5
    parts = sum(one.parts for one in found) / len(found)
    error = _clustered_error(np.asarray(parts), value, n_records)
    return PooledAdvantage(value, error, n_records, n_excluded)


def least_error(error: float, value: float, n: int) -> float:
    """The error, or at least what one record of ``n`` at chance would have made of it.

    Without this, an attack that finds everybody would have an error of exactly 0.
    """
    return max(error, abs(value) / n)


def _influence_of_known(score: FloatArray, member: BoolArray, known: BoolArray) -> Influence:
    if known.all():
        return auc_influence(score, member)
    found = auc_influence(score[known], member[known])
    parts = np.zeros(len(score))
    parts[known] = found.parts
    return Influence(found.auc, parts)


def _clustered_error(parts: FloatArray, value: float, n_records: int) -> float | None:
    if n_records < 2:
        return None
    variance = float((parts**2).sum()) * n_records / (n_records - 1)
    return least_error(math.sqrt(variance), value, n_records)


def _two_shares(guessed: BoolArray, member: BoolArray) -> Advantage:
    """Balanced advantage of yes/no guesses: half of (share guessed among members - others)."""
    n_members, n_nonmembers = _sides(member)
    if min(n_members, n_nonmembers) == 0:
        return Advantage(math.nan, None, n_members, n_nonmembers)
    caught, false = float(guessed[member].mean()), float(guessed[~member].mean())
    value, error = (caught - false) / 2, None
    if min(n_members, n_nonmembers) > 1:
        variance = _share_variance(caught, n_members) + _share_variance(false, n_nonmembers)
        error = least_error(math.sqrt(variance) / 2, value, min(n_members, n_nonmembers))
    return Advantage(value, error, n_members, n_nonmembers)


def _tail(score: FloatArray, member: BoolArray, *, fpr: float) -> tuple[float, float] | None:
    """TPR above the strictest admissible threshold, and what chance would give there."""
    require_open_unit(fpr=fpr)
    n_members, n_nonmembers = _sides(member)
    if n_members == 0 or n_nonmembers < TAIL_NONMEMBERS / fpr:
        return None
    allowed = math.floor(fpr * n_nonmembers * (1 + TIE_TOLERANCE))
    others = score[~member]
    threshold = np.partition(others, n_nonmembers - allowed - 1)[n_nonmembers - allowed - 1]
    chance = (int((others > threshold).sum()) + 1) / (n_nonmembers + 1)
    return float((score[member] > threshold).mean()), chance


def _share_variance(share: float, n: int) -> float:
    return share * (1 - share) / n


def _sides(member: BoolArray) -> tuple[int, int]:
    n_members = int(member.sum())
    return n_members, member.size - n_members
