"""How small an exposure or difference would a planned study show?

A planned study is a ``Design``: so many people, so many splits, and the error of the
exposure. A ``Question`` asks about one group (is anything memorised about these
records? More splits lower the error) or two (do they differ, for people like these? In
the end only more people do). Power is that of the audit's tests, at the first step of
Holm over its family.

Called by ``deciding.planner`` and by the advice of an audit. To add an error: a class
with ``largest`` and ``variances``, as ``CountsError``. Symbols as in ``variances``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from pcer.measuring import variances
from pcer.measuring.exposure import PEOPLE_PARTS, Exposed, Measured, PeoplePart
from pcer.measuring.group_differences import compare_pairs
from pcer.metrics import FloatArray
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE
from pcer.wording import listed, points, say

POWER: Final = 0.8
# In a group, so that there is someone to train on and someone to hold out.
FEWEST_PEOPLE: Final = 4
MOST_PEOPLE: Final = 10**15
MOST_SPLITS: Final = 10_000  # nobody trains more
MOST_GROWTH: Final = 1e9  # times as many people: nobody has more
# So small an exposure is none: with endless splits any is shown.
NEGLIGIBLE: Final = 1e-12
# Steps to a threshold; each leaves at most half of what is missing.
REPETITIONS: Final = 12
FINEST: Final = 2**40  # steps of an interval in which an amount is searched for
# A search may be off by a hair; 1,600 is not 1,601 because of it.
HAIR: Final = 1e-9
# A test takes the spread over splits where that happens to be large: so many of its
# deviations.
CHANCE_SPREAD: Final = 0.6


class Variances(NamedTuple):
    """What a test takes an exposure or a difference for, and what it is."""

    tested: float
    actual: float


@dataclass(frozen=True, kw_only=True)
class CountsError:
    """Error of the overfitting gap, which follows from sizes and accuracies."""

    accuracy: FloatArray  # (group,) for people the model was not trained on
    train_share: float

    @property
    def largest(self) -> FloatArray:
        """(group,) largest exposure: all whom the model gets wrong are memorised."""
        return 1 - self.accuracy

    def variances(
        self, design: Design, groups: Sequence[int], exposure: FloatArray, z: float
    ) -> Variances:
        """Variances at some exposures (group,) of one group or two.

        With f the share trained on, q and p the accuracies in and out of training, and
        m = f q + (1 - f) p, of one split of N people:

            as if nothing was memorised   v = m (1 - m) / (f (1 - f) N)
            as it is                      (q (1 - q) / f + p (1 - p) / (1 - f)) / N

        ``z`` is the threshold of the test, in errors.
        """
        f = self.train_share
        n = design.people[[*groups]]
        out = self.accuracy[[*groups]]
        into = np.minimum(out + exposure, 1.0)
        mixed = f * into + (1 - f) * out
        split = _OneSplit(
            n_splits=design.n_splits,
            null=mixed * (1 - mixed) / (f * (1 - f) * n),
            actual=(into * (1 - into) / f + out * (1 - out) / (1 - f)) / n,
        )
        if len(groups) == 1:
            tested = _exact_error(split, mixed[0], f, n[0], z) ** 2
            return Variances(tested, split.actual[0] / design.n_splits)
        of_records = variances.record_variance(into, out, f * n, (1 - f) * n)
        people = exposure * (1 - exposure) / n
        return Variances(
            _tested_difference(split, of_records, exposure, n, z),
            split.over_splits(split.actual, people),
        )


class _OneSplit(NamedTuple):
    """Variances of one split's exposures (group,), and how many splits there are."""

    n_splits: float
    null: FloatArray
    actual: FloatArray

    def over_splits(self, one_split: FloatArray, people: FloatArray) -> float:
        """The variance of a difference: the sum over groups of w/S + (1 - 1/S) P."""
        lasting = (1 - 1 / self.n_splits) * people
        return float((one_split / self.n_splits + lasting).sum())


def _exact_error(
    split: _OneSplit, accuracy: float, f: float, n: float, z: float
) -> float:
    """Error by which the exact test's threshold is z errors away.

    sqrt(v/S), and what comes from whole numbers (half a count) and skewness (the first
    Cornish-Fisher term), in units of f (1 - f) N S.
    """
    units = f * (1 - f) * n * split.n_splits
    skewness = (1 - 2 * accuracy) * (1 - 2 * f)
    from_counts = (skewness * (z - 1 / z) / 6 + 0.5 / z) / units
    return math.sqrt(split.null[0] / split.n_splits) + from_counts


def _tested_difference(
    split: _OneSplit,
    of_records: FloatArray,
    exposure: FloatArray,
    n: FloatArray,
    z: float,
) -> float:
    """What the test of a difference takes its variance for: P at the exposures it sees.

    Where the difference seen is just the threshold, z errors, the smaller group is off
    by the larger part: found by repetition.
    """
    chance = math.sqrt((1 - 1 / split.n_splits) / split.n_splits)
    one_split = np.maximum(split.null, of_records) * (1 + CHANCE_SPREAD * chance)
    part = np.array([1.0, -1.0]) * n[::-1] / n.sum()
    seen = exposure
    for _ in range(REPETITIONS):
        own_exposure = variances.exposure_in_tests(
            seen, variances.weighted_exposure(seen, n)
        )
        tested = split.over_splits(one_split, variances.people_part(own_exposure, n))
        missing = exposure[1] - exposure[0] - z * math.sqrt(tested)
        seen = exposure + part * missing
    return tested


@dataclass(frozen=True, kw_only=True)
class MeasuredError:
    """Errors of an attack (paired, LiRA) in the audit of an earlier release.

    No error says which part of it more splits would lower: the people's part is taken
    as large as it can be where splits are added, and as 0 where some are taken away.
    """

    # (group, group) of a difference; on the diagonal that by which an exposure is
    # detected.
    variance: FloatArray
    people: PeoplePart
    largest: FloatArray
    n_people: FloatArray
    n_splits: int

    def variances(
        self, design: Design, groups: Sequence[int], exposure: FloatArray, z: float
    ) -> Variances:
        """Upper bound (P + r (V - P)) / g of the variance, given twice.

        r is how many times fewer splits the design has, g how many times more people
        in the group that grows least.
        """
        n = self.n_people[[*groups]]
        ratio = self.n_splits / design.n_splits
        variance = float(self.variance[groups[0], groups[-1]])
        people = float(self.people(exposure, n).sum())
        lasting = 0.0 if ratio > 1 else min(variance, people)
        growth = float((design.people[[*groups]] / n).min())
        bound = (lasting + ratio * (variance - lasting)) / growth
        return Variances(tested=bound, actual=bound)


@dataclass(frozen=True, kw_only=True)
class Design:
    """The study that is planned."""

    group_names: tuple[str, ...]
    people: FloatArray
    n_splits: float  # infinity: as many as one likes
    # Of exposures, and of differences: attacks times settings times groups, or pairs.
    n_tests: Sequence[int]
    error: CountsError | MeasuredError


@dataclass(frozen=True, kw_only=True)
class Question:
    """Would an exposure of one group be detected, or a difference between two be shown?

    Of two groups the less exposed comes first; ``base`` is its exposure.
    """

    groups: tuple[int, ...]
    base: float = 0.0

    @property
    def is_difference(self) -> bool:
        """Whether it asks about two groups."""
        return len(self.groups) > 1

    def largest(self, design: Design) -> float:
        """Largest exposure, or difference, there can be."""
        return float(design.error.largest[self.groups[-1]]) - self.base

    def words(self, design: Design, amount: float) -> str:
        """The amount as a sentence names it."""
        groups = listed([design.group_names[group] for group in self.groups])
        kind = "difference" if self.is_difference else "exposure"
        return say("plan", kind, points=points(amount), groups=groups)

    def power(self, design: Design, amount: float) -> float:
        """Chance that so much is detected, or shown, at the first step of Holm.

        Phi((amount - z sqrt(tested)) / sqrt(actual)), z being the threshold. A
        difference is tested either way; benefits are taken as equal and known.
        """
        from scipy.special import ndtr

        if self.is_difference:
            n_tests = 2 * design.n_tests[1]
            level = SIGNIFICANCE * EXPOSURE_SHARE
            exposure = np.array([self.base, self.base + amount])
        else:
            n_tests = design.n_tests[0]
            level = SIGNIFICANCE
            exposure = np.array([amount])
        z = variances.bonferroni_z(n_limits=max(1, n_tests), confidence_level=1 - level)
        variance = design.error.variances(design, self.groups, exposure, z)
        beyond = amount - z * math.sqrt(variance.tested)
        if variance.actual > 0:
            return float(ndtr(beyond / math.sqrt(variance.actual)))
        return float(beyond > 0)


def shown_amount(design: Design, question: Question) -> float | None:
    """The smallest that would be shown; 0 where any would, None where none would."""
    amount = smallest(design, question)
    if math.isnan(amount):
        return None
    return amount if amount > NEGLIGIBLE else 0.0


def smallest(design: Design, question: Question) -> float:
    """Smallest exposure or difference that shows in 80% of studies; NaN if none."""
    largest = question.largest(design)
    if not largest > 0 or question.power(design, largest) < POWER:
        return math.nan
    return largest * _reached(lambda share: question.power(design, share * largest))


def splits_for(design: Design, question: Question, target: float) -> int | None:
    """Fewest splits that would show the target; None where no number would."""

    def power(n_splits: int) -> float:
        return question.power(replace(design, n_splits=n_splits), target)

    if power(MOST_SPLITS) < POWER:
        return None
    return 1 + bisect_left(
        range(1, MOST_SPLITS), 1, key=lambda n_splits: power(n_splits) >= POWER
    )


def people_for(design: Design, question: Question, target: float) -> FloatArray | None:
    """People (group,) who would show the target, all groups growing alike.

    None where no number of people would.
    """

    def people(share: float) -> FloatArray:
        return np.asarray(design.people * MOST_GROWTH ** (2 * share - 1))

    def power(share: float) -> float:
        return question.power(replace(design, people=people(share)), target)

    if power(1.0) < POWER:
        return None
    return np.ceil(people(_reached(power)) * (1 - HAIR))


def _reached(power: Callable[[float], float]) -> float:
    """The share, from 0 to 1, at which power reaches POWER, which it has at 1."""
    step = bisect_left(range(FINEST), POWER, key=lambda step: power(step / FINEST))
    return step / FINEST


def design_of_measured(measured: Measured, n_tests: Sequence[int]) -> Design | None:
    """One setting and one attack as a study to repeat; None if it shows no errors."""
    panel = measured.panel
    exposed = measured.exposed
    if exposed is None or not measured.has_enough_records.all():
        return None
    if not (exposed.one_split > 0).all():
        return None
    error: CountsError | MeasuredError
    if exposed.is_counted:
        n_records = (panel.n_train + panel.n_test).mean()
        error = CountsError(
            accuracy=panel.test_accuracy.mean(axis=0),
            train_share=float(panel.n_train.mean() / n_records),
        )
    else:
        error = _measured_error(measured, exposed)
    return Design(
        group_names=panel.group_names,
        people=exposed.n,
        n_splits=panel.n_splits,
        n_tests=n_tests,
        error=error,
    )


def _measured_error(measured: Measured, exposed: Exposed) -> MeasuredError:
    """Errors of differences are those of ``compare_pairs``, as in an audit."""
    scale = measured.attack_kind.scale
    n_groups = len(exposed.value)
    first, second = np.triu_indices(n_groups, 1)
    pairs = tuple(zip(first.tolist(), second.tolist(), strict=True))
    of_pairs = compare_pairs(measured, pairs).exposure.error ** 2
    variance = np.diag(exposed.null_variance)
    variance[first, second] = of_pairs
    variance[second, first] = of_pairs
    return MeasuredError(
        variance=variance,
        people=PEOPLE_PARTS.get(scale, variances.people_part),
        largest=np.full(n_groups, min(1.0, scale.largest)),
        n_people=exposed.n,
        n_splits=measured.panel.n_splits,
    )
