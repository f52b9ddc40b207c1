"""How far may PCER and Delta PCER err, for people like these?

By the gap, the paper's attack. Called by ``norms``, and by those who hold Delta PCER
against a user's limit (``auditing.policy``, ``deciding.candidates``). The error is of
the mean over splits: its spread over them, what people add, and what training moves.
With A = mean of 1 / max(c, floor) and B = mean of R / c^2 where c is above the floor,
people add, to first order,

    A^2 R(1-R)/N + B^2 P + 2 A B R c / N   of each group.

To add a number of this kind: its weights of groups, in ``combination``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from pcer import metrics
from pcer.measuring.bounds import Bounds, Tails
from pcer.measuring.exposure import Exposed, Measured
from pcer.measuring.training_variance import Combination, half_width
from pcer.measuring.variances import by_split, people_covariance
from pcer.metrics import BoolArray, FloatArray
from pcer.statistics import SIGNIFICANCE, holm

Groups: TypeAlias = Sequence[tuple[int, ...]]  # pairs, or single groups


class Ratios(NamedTuple):
    """PCER of groups, or of pairs first minus second; NaN: not known."""

    value: FloatArray
    v_now: FloatArray
    v_train: FloatArray
    degrees_of_freedom: float


class _Slopes(NamedTuple):
    """How PCER moves, on average over splits; arrays over the group."""

    rate: FloatArray  # A: with the rate
    exposure: FloatArray  # B: with the exposure, downwards


def combination(groups: Groups) -> Combination:
    """The first rate minus the second, or the rate alone."""
    of_sides = np.array(groups, dtype=np.int64).T
    signs = np.array([[1.0], [-1.0]])[: len(of_sides)]
    return Combination(of_sides, np.repeat(signs, len(groups), axis=1))


def ratios_of(gap: Measured, groups: Groups) -> Ratios:
    """Mean ratios with both parts of their variance; NaN variances of one split."""
    signed = combination(groups)
    ratio = metrics.pcer(gap.benefit, gap.exposure, floor=gap.floor)
    per_split = signed.of(by_split(ratio, gap.panel.split))
    value = per_split.mean(axis=0)
    if gap.exposed is None or len(per_split) == 1:
        unknown = np.full_like(value, np.nan)
        return Ratios(value, unknown, np.zeros_like(value), np.inf)
    slopes = _slopes(gap)
    rates = signed._replace(weights=signed.weights * slopes.rate[signed.groups])
    people = signed.variance(_people(gap, gap.exposed, slopes))
    return Ratios(
        value=value,
        v_now=per_split.var(axis=0, ddof=1) / len(per_split) + people,
        v_train=gap.received.variance_train(rates),
        degrees_of_freedom=gap.received.degrees_of_freedom,
    )


def _slopes(gap: Measured) -> _Slopes:
    slope = 1 / np.maximum(gap.exposure, gap.floor)
    is_above = gap.exposure > gap.floor
    fall = np.where(is_above, gap.benefit * slope**2, 0.0)
    split = gap.panel.split
    return _Slopes(
        rate=by_split(slope, split).mean(axis=0),
        exposure=by_split(fall, split).mean(axis=0),
    )


def _people(gap: Measured, exposed: Exposed, slopes: _Slopes) -> FloatArray:
    """(group,) what people add to the variance of PCER."""
    a, b = slopes
    exposure = np.maximum(exposed.value, 0.0)
    covariance = people_covariance(gap.received.value, exposure, exposed.n)
    return np.asarray(
        a**2 * gap.received.lasting
        + b**2 * exposed.people_part(exposure)
        - 2 * a * b * covariance
    )


def disparity_bounds(gap: Measured, pairs: Groups, tails: Tails) -> Bounds:
    """(pair,) the size of Delta PCER; NaN where not both exposures are detected.

    Without memorisation Delta PCER is the difference of outcomes over noise: then no
    bound of it says anything about exposures.
    """
    found = ratios_of(gap, pairs)
    size = np.abs(found.value)
    half_widths = [
        half_width(
            found.v_now,
            found.v_train,
            tail=tail,
            degrees_of_freedom=found.degrees_of_freedom,
        )
        for tail in (tails.lower, tails.upper)
    ]
    is_shown = _are_detected(gap)[np.array(pairs, dtype=np.int64)].all(axis=1)
    bounds = Bounds(
        value=size,
        error=np.sqrt(found.v_now + found.v_train),
        lower=size - half_widths[0],
        upper=size + half_widths[1],
    )
    return Bounds(*[np.where(is_shown, numbers, np.nan) for numbers in bounds])


def _are_detected(gap: Measured) -> BoolArray:
    """(group,) whether the gap detects memorisation, Holm over the setting's groups."""
    if gap.panel.split_kind != "random":
        return np.zeros(len(gap.panel.group_names), dtype=np.bool_)
    return np.asarray(holm(gap.memorised_p()) <= SIGNIFICANCE)
