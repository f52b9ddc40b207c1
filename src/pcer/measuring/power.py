"""How small an exposure or difference would a planned study show?"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pcer.measuring import exposure as exposure_module
from pcer.measuring import variances as variances_module
from pcer.measuring.measure import Measured
from pcer.measuring.pair_tests import compare_pairs
from pcer.metrics import FloatArray
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE
from pcer.wording import listed, points, say

POWER: Final = 0.8
FEWEST_PEOPLE: Final = (
    4  # in a group, so that there is someone to train on and someone to hold out
)
MOST_PEOPLE: Final = 10**15
MOST_SPLITS: Final = 10_000  # nobody trains more
MOST_GROWTH: Final = 1e9  # times as many people: nobody has more
NEGLIGIBLE: Final = (
    1e-12  # so small an exposure is none: with endless splits any is shown
)
REPETITIONS: Final = (
    12  # steps to a threshold; each leaves at most half of what is missing
)
FINEST: Final = 2**40  # steps of an interval in which an amount is searched for
# A test takes the spread over splits where that happens to be large: so many of its
# deviations.
CHANCE_SPREAD: Final = 0.6


@dataclass(frozen=True, kw_only=True)
class CountsError:
    """Error of the overfitting gap, which follows from sizes and accuracies."""

    accuracy: FloatArray  # (group,) for people the model was not trained on
    train_share: float

    @property
    def largest(self) -> FloatArray:
        """(group,) largest exposure: everybody whom the model gets wrong is memorised."""
        return 1 - self.accuracy

    def variances(
        self, design: Design, groups: Sequence[int], exposure: FloatArray, z: float
    ) -> tuple[float, float]:
        """Variance of an exposure or a difference: what a test takes it for, and what it is.

        The test of a difference takes the people's part at the exposures it sees. Where
        the difference seen is just the threshold, z errors, the smaller group is off by
        the larger part: found by repetition.
        """
        f = self.train_share
        n_splits = design.n_splits
        test = self.accuracy[[*groups]]
        n = design.people[[*groups]]
        train = np.minimum(test + exposure, 1.0)
        both = f * train + (1 - f) * test
        null = both * (1 - both) / (f * (1 - f) * n)  # as if nothing was memorised
        actual = (train * (1 - train) / f + test * (1 - test) / (1 - f)) / n
        if (
            len(groups) == 1
        ):  # an exact test: of whole numbers, and skewed (Cornish and Fisher)
            units = f * (1 - f) * n[0] * n_splits
            lean = (1 - 2 * both[0]) * (1 - 2 * f)
            error = (
                math.sqrt(null[0] / n_splits)
                + (lean * (z - 1 / z) / 6 + 0.5 / z) / units
            )
            return error**2, actual[0] / n_splits
        one_split = np.maximum(
            null, variances_module.record_variance(train, test, f * n, (1 - f) * n)
        )
        one_split *= 1 + CHANCE_SPREAD * math.sqrt((1 - 1 / n_splits) / n_splits)
        off = np.array([1.0, -1.0]) * n[::-1] / n.sum()
        seen = exposure
        for _ in range(REPETITIONS):
            cost = variances_module.cost_in_tests(
                seen, variances_module.pooled_cost(seen, n)
            )
            people = variances_module.people_part(cost, n)
            tested = float((one_split / n_splits + (1 - 1 / n_splits) * people).sum())
            seen = exposure + off * (exposure[1] - exposure[0] - z * math.sqrt(tested))
        people = exposure * (1 - exposure) / n
        return tested, float((actual / n_splits + (1 - 1 / n_splits) * people).sum())


@dataclass(frozen=True, kw_only=True)
class MeasuredError:
    """Errors of an attack (paired, LiRA) in the audit of an earlier release.

    No error says which part of it more splits would lower: the people's part is taken
    as large as it can be where splits are added, and as 0 where some are taken away.
    """

    # (group, group) of a difference; on the diagonal that by which an exposure is
    # detected.
    variance: FloatArray
    people: Callable[[FloatArray, FloatArray], FloatArray]
    largest: FloatArray
    n_people: FloatArray
    n_splits: int

    def variances(
        self, design: Design, groups: Sequence[int], exposure: FloatArray, z: float
    ) -> tuple[float, float]:
        """Upper bound of the variance with the design's splits and people, given twice."""
        n = self.n_people[[*groups]]
        ratio = self.n_splits / design.n_splits
        variance = float(self.variance[groups[0], groups[-1]])
        lasting = (
            0.0 if ratio > 1 else min(variance, float(self.people(exposure, n).sum()))
        )
        growth = float((design.people[[*groups]] / n).min())
        variance = (lasting + ratio * (variance - lasting)) / growth
        return variance, variance


@dataclass(frozen=True, kw_only=True)
class Design:
    """The study that is planned; its families are attacks times settings times groups, or pairs."""

    group_names: tuple[str, ...]
    people: FloatArray
    n_splits: float  # infinity: as many as one likes
    n_tests: Sequence[int]  # of exposures, and of differences
    error: CountsError | MeasuredError


@dataclass(frozen=True, kw_only=True)
class Question:
    """Would an exposure of one group be detected, or a difference between two be shown?

    Of two groups the less exposed comes first; ``base`` is its exposure.
    """

    groups: tuple[int, ...]
    base: float = 0.0

    def largest(self, design: Design) -> float:
        """Largest exposure, or difference, there can be."""
        return float(design.error.largest[self.groups[-1]]) - self.base

    def words(self, design: Design, amount: float) -> str:
        """The amount as a sentence names it."""
        groups = listed([design.group_names[g] for g in self.groups])
        kind = "exposure" if len(self.groups) == 1 else "difference"
        return say("plan", kind, points=points(amount), groups=groups)

    def power(self, design: Design, amount: float) -> float:
        """Chance that so much is detected, or shown, at the first step of Holm.

        A difference is tested either way; benefits are taken as equal and known.
        """
        from scipy.special import ndtr

        n_tests = design.n_tests[0]
        level = SIGNIFICANCE
        exposure = np.array([amount])
        if len(self.groups) > 1:
            n_tests = 2 * design.n_tests[1]
            level = SIGNIFICANCE * EXPOSURE_SHARE
            exposure = np.array([self.base, self.base + amount])
        z = variances_module.limit_quantile(
            n_limits=max(1, n_tests), confidence_level=1 - level
        )
        tested, actual = design.error.variances(design, self.groups, exposure, z)
        beyond = amount - z * math.sqrt(tested)
        return float(ndtr(beyond / math.sqrt(actual)) if actual > 0 else beyond > 0)


def smallest(design: Design, question: Question) -> float:
    """Smallest exposure or difference that would show in 80% of such studies; NaN if none."""
    largest = question.largest(design)
    if not largest > 0 or question.power(design, largest) < POWER:
        return math.nan
    return largest * _reached(lambda share: question.power(design, share * largest))


def splits_for(design: Design, question: Question, target: float) -> int | None:
    """Fewest splits that would show the target; None where no number of splits would."""

    def is_shown(n_splits: int) -> bool:
        return question.power(replace(design, n_splits=n_splits), target) >= POWER

    if not is_shown(MOST_SPLITS):
        return None
    return 1 + bisect_left(range(1, MOST_SPLITS), True, key=is_shown)


def people_for(design: Design, question: Question, target: float) -> FloatArray | None:
    """People (group,) who would show the target, all groups growing alike; None if none would."""

    def people(share: float) -> FloatArray:
        return np.asarray(design.people * MOST_GROWTH ** (2 * share - 1))

    def power(share: float) -> float:
        return question.power(replace(design, people=people(share)), target)

    if power(1.0) < POWER:
        return None
    # 1,600 is not 1,601 because the search is off by a hair.
    return np.ceil(people(_reached(power)) * (1 - 1e-9))


def _reached(power: Callable[[float], float]) -> float:
    """The share, from 0 to 1, at which power reaches POWER, which it has at 1."""
    return (
        bisect_left(range(FINEST), POWER, key=lambda step: power(step / FINEST))
        / FINEST
    )


def design_of_measured(measured: Measured, n_tests: Sequence[int]) -> Design | None:
    """One setting and one attack as a study to repeat; None where nothing can be learnt from it."""
    panel = measured.panel
    exposed = measured.exposed
    if (
        exposed is None
        or not measured.enough.all()
        or not (exposed.one_split > 0).all()
    ):
        return None
    if exposed.is_counted:
        error: CountsError | MeasuredError = CountsError(
            accuracy=panel.test_accuracy.mean(axis=0),
            train_share=float(
                panel.n_train.mean() / (panel.n_train + panel.n_test).mean()
            ),
        )
    else:  # errors of differences as ``compare_pairs`` has them in an audit
        n = len(exposed.value)
        first, second = np.triu_indices(n, 1)
        pairs = tuple(zip(first.tolist(), second.tolist(), strict=True))
        variance = np.diag(exposed.null_variance)
        of_pairs = compare_pairs(measured, pairs).exposure.error ** 2
        variance[first, second] = variance[second, first] = of_pairs
        error = MeasuredError(
            variance=variance,
            people=exposure_module.PEOPLE_PARTS.get(
                measured.proxy.scale, variances_module.people_part
            ),
            largest=np.full(n, min(1.0, measured.proxy.scale.largest)),
            n_people=exposed.n,
            n_splits=panel.n_splits,
        )
    return Design(
        group_names=panel.group_names,
        people=exposed.n,
        n_splits=panel.n_splits,
        n_tests=n_tests,
        error=error,
    )


def shown_amount(design: Design, question: Question) -> float | None:
    """The smallest that would be shown; 0 where any would, None where none would."""
    amount = smallest(design, question)
    return None if math.isnan(amount) else amount if amount > NEGLIGIBLE else 0.0
