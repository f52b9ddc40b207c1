"""An alarm, not a cost: does an attack do better than the claimed epsilon allows?

One-run auditing (Steinke, Nasr and Jagielski) with the true chance p of being trained on. If a
model is (epsilon, delta)-private, a guess "in" is right with odds of at most e^epsilon p/(1-p), a
guess "out" with at most e^epsilon (1-p)/p, so the number of right guesses has a known worst case.
More right guesses than that refute the claim. They say little about how exposed a group is: the
bound grows with the number of records, so it is never compared between groups.

Approximate: splits of a fixed size are not quite independent draws with chance p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pcer.attacks.lira import ROUNDING, require_enough_models
from pcer.attacks.ranking import Ranked, Ranker
from pcer.errors import require_open_unit
from pcer.metrics import BoolArray, FloatArray
from pcer.statistics import SIGNIFICANCE, holm

GUESSED_SHARE = 0.05
"""Share of records guessed "in", and as many "out": the clearest ones. Fixed before looking."""

LARGEST_EPSILON = 30.0
"""Odds of 10^13: no number of guesses tells larger bounds apart."""

STEPS = 30
"""Halvings of the search for the bound."""

WIDE, LEAST_REACH = 12.0, 40
"""Standard deviations, and numbers more, beyond which a binomial law is below 1e-30."""

BROKEN = "the guarantee or its assumptions are broken (preprocessing included)"


class Guesses(NamedTuple):
    """How many records were guessed in and out over all audited models, and how many rightly."""

    n_in: int
    n_out: int
    n_right: int
    n_candidates: int
    """Records times models that could have been guessed."""


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """What the guesses on one group say about epsilon. Approximate; not comparable over groups.

    Attributes:
        epsilon: the claimed budget; infinite without differential privacy.
        group: whose records were guessed.
        p_value: chance of so many right guesses if the claim holds; after ``weigh`` Holm-adjusted.
            NaN without differential privacy: there is no claim to refute.
        guesses: the counts behind it.
        inclusion: chance of a record to be trained on.
        dp_delta: the claimed delta.
        alarm: whether the claim is refuted; None before ``weigh``.
    """

    epsilon: float
    group: str
    p_value: float
    guesses: Guesses
    inclusion: float
    dp_delta: float
    alarm: bool | None = None

    @property
    def lower_bound(self) -> float:
        """Epsilon below which so many right guesses are implausible (95 %); searched when asked."""
        return _least_plausible(
            lambda level: worst_case_p(
                self.guesses, epsilon=level, inclusion=self.inclusion, dp_delta=self.dp_delta
            )
        )


def audit_guesses(scaled_logit: FloatArray, member: BoolArray) -> Guesses:
    """Guess the records of one group in the second half of the models, calibrated by the first.

    The halves are apart because guesses must not depend on the membership they are counted
    against: among models that calibrate each other, right guesses come in clusters.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
    """
    half = len(member) // 2
    stick = yardstick(scaled_logit[:half], member[:half], n_models=len(member))
    ranker = Ranker([np.zeros(member.shape[1], dtype=np.int64)], [1])
    later = zip(scaled_logit[half:], member[half:], strict=True)
    return total([count_guesses(ranker.rank(stick.score(x), m)[0][0]) for x, m in later])


class Yardstick(NamedTuple):
    """What the calibrating models say about each record."""

    centre: FloatArray
    deviation: FloatArray

    def score(self, scaled_logit: FloatArray) -> FloatArray:
        """How far a model lies above them, in deviations; NaN where they cannot tell."""
        return np.asarray((scaled_logit - self.centre) / self.deviation)


def yardstick(scaled_logit: FloatArray, member: BoolArray, *, n_models: int) -> Yardstick:
    """Middle of in and out, and the deviation around them, over the first half of the models.

    Args:
        scaled_logit: (model, record) of that half.
        member: (model, record) of that half.
        n_models: how many models there are in all.
    """
    require_enough_models(n_models)
    means, squares = [], np.zeros(member.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        for chosen in (member, ~member):
            own, n = scaled_logit * chosen, chosen.sum(axis=0)
            means.append(own.sum(axis=0) / n)
            raw = (own * own).sum(axis=0)
            left = raw - n * means[-1] ** 2
            squares += np.where(left > ROUNDING * raw, left, 0.0)
        variance = np.where(squares > 0, squares, np.nan) / (len(member) - 2)
    return Yardstick((means[0] + means[1]) / 2, np.sqrt(variance))


def count_guesses(ranked: Ranked) -> Guesses:
    """Guess the clearest records of one model in and out, and count who was right."""
    n = int(GUESSED_SHARE * len(ranked.order))
    right_in, _ = ranked.above(len(ranked.order) - n)
    right_out = ranked.n_nonmembers - ranked.above(n)[1]
    return Guesses(n, n, right_in + right_out, len(ranked.order))


def total(counted: Sequence[Guesses]) -> Guesses:
    """The guesses of several models together."""
    return Guesses(*(sum(counts) for counts in zip(*counted, strict=True)))


def bound_epsilon(
    guesses: Guesses, *, inclusion: float, dp_delta: float, epsilon: float, group: str
) -> EpsilonBound:
    """Lower bound on epsilon from counted guesses, and the p-value of the claimed one.

    Args:
        guesses: from ``audit_guesses``.
        inclusion: chance of a record to be trained on, such as 0.7.
        dp_delta: the claimed delta; 0 for pure differential privacy.
        epsilon: the claimed epsilon, infinite without differential privacy.
        group: name of the group.
    """
    require_open_unit(inclusion=inclusion)
    if not 0 <= dp_delta < 1:
        raise ValueError(f"dp_delta must lie in [0, 1), but {dp_delta!r} was given.")

    p_value = math.nan
    if not math.isinf(epsilon):
        p_value = worst_case_p(guesses, epsilon=epsilon, inclusion=inclusion, dp_delta=dp_delta)
    return EpsilonBound(
        epsilon=epsilon,
        group=group,
        p_value=p_value,
        guesses=guesses,
        inclusion=inclusion,
        dp_delta=dp_delta,
    )


def worst_case_p(guesses: Guesses, *, epsilon: float, inclusion: float, dp_delta: float) -> float:
    """Largest chance of at least so many right guesses under (epsilon, delta)-privacy.

    The sum of two binomials bounds the pure part; delta adds 2 m delta max_i (f(v - i) - f(v))/i,
    with m candidates, v right guesses and f the pure part's tail (their Appendix D, where p is
    1/2; that the same term serves for other p is taken over, not proved here).
    """
    if epsilon >= LARGEST_EPSILON or guesses.n_right == 0:
        return 1.0
    lowest, tail = _tail(guesses, epsilon, inclusion)
    if guesses.n_right <= lowest:
        return 1.0
    place = min(guesses.n_right - lowest, len(tail) - 1)
    found = tail[place]
    # Further down the tail is 1, and a longer step makes the rise smaller.
    steps = guesses.n_right - lowest - np.arange(place)
    rise = ((tail[:place] - found) / steps).max()
    return float(min(1.0, found + 2 * guesses.n_candidates * dp_delta * rise))


def weigh(bounds: Sequence[EpsilonBound]) -> list[EpsilonBound]:
    """Holm-adjust the p-values over all budgets and groups, and say where the alarm goes off."""
    adjusted = holm(np.array([bound.p_value for bound in bounds]))
    return [
        replace(bound, p_value=float(p), alarm=bool(p <= SIGNIFICANCE))
        for bound, p in zip(bounds, adjusted, strict=True)
    ]


def alarm_notes(bounds: Sequence[EpsilonBound]) -> list[str]:
    """One sentence for every alarm, for the notes of a release; empty if there is none."""
    return [
        f"Alarm: records of group {bound.group} are recognised more often than epsilon = "
        f"{bound.epsilon:g} allows (approximate lower bound {bound.lower_bound:.2f}): {BROKEN}."
        for bound in bounds
        if bound.alarm
    ]


def _least_plausible(chance: Callable[[float], float]) -> float:
    """The epsilon from which on the guesses are plausible, by halving; rounded down."""
    low, high = 0.0, LARGEST_EPSILON
    if chance(low) > SIGNIFICANCE:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) > SIGNIFICANCE else (middle, high)
    return low


def _tail(guesses: Guesses, epsilon: float, inclusion: float) -> tuple[int, FloatArray]:
    """P[right guesses >= v] at the most that epsilon allows, for v from a first one on.

    Below the first v the chance is 1, beyond the last it is 0, both to far more digits than kept.
    """
    from scipy.signal import fftconvolve

    odds = np.exp(epsilon) * np.array([inclusion / (1 - inclusion), (1 - inclusion) / inclusion])
    chances = odds / (1 + odds)
    (first_in, law_in), (first_out, law_out) = (
        _binomial(n, float(chance))
        for n, chance in zip((guesses.n_in, guesses.n_out), chances, strict=True)
    )
    law = fftconvolve(law_in, law_out)
    tail = np.cumsum(np.maximum(law, 0.0)[::-1])[::-1]
    return first_in + first_out, np.append(np.minimum(tail, 1.0), 0.0)


def _binomial(n: int, chance: float) -> tuple[int, FloatArray]:
    """A binomial law from a first number on, as far as it can be told from 0."""
    from scipy.stats import binom

    reach = WIDE * math.sqrt(n * chance * (1 - chance)) + LEAST_REACH
    first = max(0, math.floor(n * chance - reach))
    last = min(n, math.ceil(n * chance + reach))
    return first, np.asarray(binom.pmf(np.arange(first, last + 1), n, chance))
