"""What does an attack find in one group by one model?

``rank`` sorts one model's scores, once for all groups; ``attack`` calls it, and hands
the ranks of each group to the statistics below, which are those of
``scorers.ATTACKS``. Higher scores mean more likely a member. Every advantage is signed
and 0 at chance. Errors describe the luck of the split; they are never 0 unless the
value is. Sorting and summing release Python's lock, so that threads help.

To add a statistic: a function like ``auc_advantage``, named by a row of ``ATTACKS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.sums import Groups
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient

# Relative distance within which a loss lies on the threshold: a mean of equal numbers
# is rounded.
TIE_TOLERANCE = 1e-12
# Smallest distance of a probability from 0 or 1: log odds of about 37.
SMALLEST_PROBABILITY = 2.0**-53
# Silverman's rate: how fast the window of a density narrows with the number of records.
WINDOW_POWER = -0.2
# Non-members that must exceed a threshold before so small a rate can be estimated.
TAIL_NONMEMBERS = 10


class Ranked:
    """One model's scores of one group's records, ascending; ties as in the records."""

    def __init__(
        self, order: IntArray, member: FloatArray, starts: IntArray | None
    ) -> None:
        self.order = order  # positions of the records
        self.member = member  # in that order, 1.0 for a member and 0.0 for another
        # Positions where a new score begins; None where all differ.
        self._starts = starts
        self.n_members = int(member.sum())
        self.n_nonmembers = len(order) - self.n_members

    @property
    def is_onesided(self) -> bool:
        """Whether members or non-members are missing: nothing can be compared."""
        return min(self.n_members, self.n_nonmembers) == 0

    @cached_property
    def auc(self) -> float:
        """Probability that a member scores above a non-member, ties counting half."""
        # There must be both. Of all ordered pairs, those of two non-members and twice
        # the pairs that a member does not win are taken away.
        everyone = len(self.order) ** 2
        among_nonmembers = self.n_nonmembers**2
        won = everyone - among_nonmembers - float(self._members_below.sum())
        return won / (2 * self.n_members * self.n_nonmembers)

    def parts(self) -> FloatArray:
        """Each record's influence on the AUC, in this order.

        (p - mean p of its side)/n of its side, where p is the share of non-members
        below a member, or of members above a non-member.
        """
        members = self.n_members
        nonmembers = self.n_nonmembers
        for_nonmembers = 2 * members * (1 - self.auc)
        parts = self._twice_below(np.arange(1.0, len(self.order) + 1), 1.0)
        parts -= 2 * nonmembers * self.auc + for_nonmembers
        parts *= self.member
        parts -= self._members_below
        parts += for_nonmembers
        parts *= 1 / (2 * members * nonmembers)
        return parts

    def above(self, place: int) -> tuple[int, int]:
        """Numbers of members and non-members from a position on."""
        members = self.n_members - (int(self._members[place - 1]) if place else 0)
        return members, len(self.order) - place - members

    def end_of_tie(self, nonmember: int) -> int:
        """The position after all scores that equal a non-member's, counted from 0."""
        end = int(np.flatnonzero(self.member == 0)[nonmember]) + 1
        if self._starts is None:
            return end
        later = self._starts[np.searchsorted(self._starts, end) :]
        return int(later[0]) if later.size else len(self.order)

    @cached_property
    def _members(self) -> FloatArray:  # up to and including each position
        # Whole numbers add up ten times as fast as others, and to the same.
        return np.cumsum(self.member.astype(np.int64)).astype(np.float64)

    @cached_property
    def _members_below(self) -> FloatArray:  # twice, ties counting half
        return self._twice_below(self._members, self.member)

    def _twice_below(self, up_to: FloatArray, own: FloatArray | float) -> FloatArray:
        """Twice the number below each position, from counts ``up_to`` and with it."""
        before = up_to - own
        if self._starts is None:
            return before + up_to
        lasts = np.append(self._starts[1:], len(up_to)) - 1
        return np.repeat(before[self._starts] + up_to[lasts], lasts - self._starts + 1)


def rank(
    score: FloatArray, member: BoolArray, divisions: Sequence[Groups]
) -> dict[Groups, list[Ranked]]:
    """For each division and group, the ranks of the records whose score is not NaN."""
    score = np.asarray(score, dtype=np.float64)
    order, ascending = _stable_order(score)
    has_ties = bool((ascending[1:] == ascending[:-1]).any())
    ranked: dict[Groups, list[Ranked]] = {}
    for groups in divisions:
        places = groups.places[order]
        ranked[groups] = []
        for k in range(groups.n):
            # Positions, then records: choosing by a mask takes five times as long.
            of_group = order[np.flatnonzero(places == k)]
            starts = _starts(score[of_group]) if has_ties else None
            inside = member[of_group].astype(np.float64)
            ranked[groups].append(Ranked(of_group, inside, starts))
    return ranked


def _starts(ascending: FloatArray) -> IntArray | None:
    starts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    return starts if len(starts) < len(ascending) else None


def _stable_order(score: FloatArray) -> tuple[IntArray, FloatArray]:
    """Records from the lowest score up, ties in order, without NaN; and scores."""
    # A score and its record are packed into one 64-bit number: a plain sort is about
    # five times as fast as a stable one, which would make attacks a tenth to a half
    # slower. The few records that lost digits misplace are sorted again.
    unknown = np.isnan(score)
    # Adding 0 makes -0 and 0 one number; NaN comes last.
    bits = np.where(unknown, np.nan, score + 0.0).view(np.int64)
    bits ^= (bits >> np.int64(63)) | np.int64(np.iinfo(np.int64).min)
    places = np.uint64(2 ** len(score).bit_length() - 1)
    keys = (bits.view(np.uint64) & ~places) | np.arange(len(score), dtype=np.uint64)
    keys.sort()
    order = (keys & places)[: len(score) - unknown.sum()].astype(np.int64)
    ascending = score[order]
    if (ascending[1:] < ascending[:-1]).any():
        order = order[np.argsort(ascending, kind="stable")]
        ascending = score[order]
    return order, ascending


class Advantage(NamedTuple):
    """One attack on one group of one model."""

    value: float  # NaN where members, or others, are missing
    standard_error: float | None  # None with fewer than two on a side
    n_members: int
    n_nonmembers: int
    # Each record's influence on the value, in the order of the ranks: they sum to 0 on
    # each side, their squares to the variance. None for attacks that are not averaged
    # over models.
    parts: FloatArray | None = None
    variance: float = math.nan  # over new samples of records


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
    references say removes that.

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

    ``falling`` are the losses of a group's records, in the order of the ranks.
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
    return with_errors(ranked, (tpr - fpr) / 2, parts, math.sqrt(variance) / 2)


def _slope(ranked: Ranked, falling: FloatArray, threshold: float) -> float:
    """Slope of the advantage at the threshold, from a window around it."""
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
    within = threshold + TIE_TOLERANCE * abs(threshold)
    return int(np.searchsorted(falling[::-1], within, side="right"))


class Shares(NamedTuple):
    """Shares that an attacker takes for members."""

    members: float
    nonmembers: float


def _shares(ranked: Ranked, n_guessed: int) -> Shares:
    members, nonmembers = ranked.above(len(ranked.order) - n_guessed)
    return Shares(members / ranked.n_members, nonmembers / ranked.n_nonmembers)


def auc_advantage(ranked: Ranked, score: FloatArray | None = None) -> Advantage:
    """AUC minus 1/2, with the error of DeLong, DeLong and Clarke-Pearson."""
    if ranked.is_onesided:
        return Advantage(math.nan, None, ranked.n_members, ranked.n_nonmembers)
    return with_errors(ranked, ranked.auc - 0.5, ranked.parts())


def with_errors(
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


def error_at_chance(n_members: FloatArray, n_nonmembers: FloatArray) -> FloatArray:
    """Error of an AUC if members are like others (Mann, Whitney); NaN of none."""
    n = n_members + n_nonmembers
    return np.sqrt(quotient(n + 1, 12 * n_members * n_nonmembers))


def reference_advantage(ranked: Ranked, score: FloatArray) -> Advantage:
    """AUC minus 1/2 of one model; DeLong's error, if above that at chance."""
    found = auc_advantage(ranked)
    if found.standard_error is None:
        return found
    sizes = np.array([found.n_members, found.n_nonmembers], dtype=np.float64)
    least = float(error_at_chance(*sizes))
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
