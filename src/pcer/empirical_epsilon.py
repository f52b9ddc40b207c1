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

from pcer.attacks import BoolArray
from pcer.errors import require_open_unit
from pcer.lira import other_models, require_enough_models
from pcer.metrics import FloatArray
from pcer.resolution import SIGNIFICANCE, holm

GUESSED_SHARE = 0.05
"""Share of records guessed "in", and as many "out": the clearest ones. Fixed before looking."""

LARGEST_EPSILON = 30.0
"""Odds of 10^13: no number of guesses tells larger bounds apart."""

STEPS = 30
"""Halvings of the search for the bound."""

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
        lower_bound: epsilon below which so many right guesses are implausible (95 %).
        p_value: chance of so many right guesses if the claim holds; after ``weigh`` Holm-adjusted.
            NaN without differential privacy: there is no claim to refute.
        guesses: the counts behind it.
        alarm: whether the claim is refuted; None before ``weigh``.
    """

    epsilon: float
    group: str
    lower_bound: float
    p_value: float
    guesses: Guesses
    alarm: bool | None = None


def audit_guesses(scaled_logit: FloatArray, member: BoolArray) -> Guesses:
    """Guess the records of one group in the second half of the models, calibrated by the first.

    The halves are apart because guesses must not depend on the membership they are counted
    against: among models that calibrate each other, right guesses come in clusters.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
    """
    require_enough_models(len(member))
    half = len(member) // 2
    scores = _against(scaled_logit[:half], member[:half], scaled_logit[half:])
    counts = [_count(row, inside) for row, inside in zip(scores, member[half:], strict=True)]
    return Guesses(*(int(total) for total in np.sum(counts, axis=0)))


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

    def chance(level: float) -> float:
        return worst_case_p(guesses, epsilon=level, inclusion=inclusion, dp_delta=dp_delta)

    return EpsilonBound(
        epsilon=epsilon,
        group=group,
        lower_bound=_least_plausible(chance),
        p_value=math.nan if math.isinf(epsilon) else chance(epsilon),
        guesses=guesses,
    )


def worst_case_p(guesses: Guesses, *, epsilon: float, inclusion: float, dp_delta: float) -> float:
    """Largest chance of at least so many right guesses under (epsilon, delta)-privacy.

    The sum of two binomials bounds the pure part; delta adds 2 m delta max_i (f(v - i) - f(v))/i,
    with m candidates, v right guesses and f the pure part's tail (their Appendix D, where p is
    1/2; that the same term serves for other p is taken over, not proved here).
    """
    if epsilon >= LARGEST_EPSILON or guesses.n_right == 0:
        return 1.0
    tail = _tail(guesses, epsilon, inclusion)
    found = tail[guesses.n_right]
    steps = np.arange(1, guesses.n_right + 1)
    rise = ((tail[guesses.n_right - steps] - found) / steps).max()
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


def _against(shadow: FloatArray, member: BoolArray, targets: FloatArray) -> FloatArray:
    """How far each target lies above the shadow models, in and out alike, in deviations."""
    nobody = np.zeros((1, shadow.shape[1]))  # left out as the target: all others are shadow models
    others = other_models(np.vstack([nobody, shadow]), np.vstack([nobody > 0, member]))
    centre = (others.mean_in + others.mean_out)[0] / 2
    return np.asarray((targets - centre) / others.deviation[0])


def _least_plausible(chance: Callable[[float], float]) -> float:
    """The epsilon from which on the guesses are plausible, by halving; rounded down."""
    low, high = 0.0, LARGEST_EPSILON
    if chance(low) > SIGNIFICANCE:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) > SIGNIFICANCE else (middle, high)
    return low


def _count(score: FloatArray, member: BoolArray) -> tuple[int, int, int, int]:
    """Guessed in, guessed out, right, candidates for one model."""
    known = np.flatnonzero(np.isfinite(score))
    n = int(GUESSED_SHARE * len(known))
    order = known[np.argsort(score[known], kind="stable")]
    right = int(member[order[len(order) - n :]].sum()) + int((~member[order[:n]]).sum())
    return n, n, right, len(known)


def _tail(guesses: Guesses, epsilon: float, inclusion: float) -> FloatArray:
    """P[right guesses >= v] for v = 0, 1, ..., at the most that epsilon allows."""
    from scipy.signal import fftconvolve
    from scipy.stats import binom

    odds = np.exp(epsilon) * np.array([inclusion / (1 - inclusion), (1 - inclusion) / inclusion])
    right_in, right_out = odds / (1 + odds)
    law = fftconvolve(
        binom.pmf(np.arange(guesses.n_in + 1), guesses.n_in, right_in),
        binom.pmf(np.arange(guesses.n_out + 1), guesses.n_out, right_out),
    )
    return np.asarray(np.minimum(np.cumsum(np.maximum(law, 0.0)[::-1])[::-1], 1.0))
