"""What could be shown: the smallest exposure and difference, and what a smaller one would take.

Two questions, two errors, as in the audit. "Is anything memorised about these records?" meets split
error alone where the cost comes from counts, and that falls with every further split. "Do the
groups differ?" is about people like these: who they happen to be adds an error that only more
people lower. Power is that of the audit's own tests, at the first step of Holm over its family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from pcer.auditing.people import cost_in_tests, people_part, pooled_cost, record_variance
from pcer.errors import require_at_least, require_open_unit, require_positive
from pcer.metrics import FloatArray
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE

POWER: Final = 0.8
MOST_SPLITS: Final = 10_000
"""Nobody trains more."""
MOST_GROWTH: Final = 1e9
"""Times as many people: nobody has more."""
N_SPREADS: Final = 24
"""Values, equally likely, that stand for the spread that splits may happen to show."""
REPETITIONS: Final = 12
"""Steps to a threshold; each leaves at most half of what is missing."""
MOST_STEPS: Final = 100
ENOUGH: Final = 1e-10
"""Distance from the power asked for, in normal quantiles, at which a search ends."""
CERTAIN: Final = 8.0
"""Normal quantile of a power that is as good as 1."""


@dataclass(frozen=True, kw_only=True)
class CountsError:
    """Error of the overfitting gap from confusion counts; arrays over the group.

    Attributes:
        accuracy: (group,) or (group, label), for people the model was not trained on.
        train_share: of the records.
        label_share: (group, label), where accuracy is by label.
    """

    accuracy: FloatArray
    train_share: float
    label_share: FloatArray | None = None

    def __post_init__(self) -> None:
        require_open_unit(train_share=self.train_share)
        if (self.label_share is None) != (self.accuracy.ndim == 1):
            raise ValueError("accuracy by label needs label_share of the same shape, and only it.")

    @property
    def largest(self) -> FloatArray:
        """Largest cost: everybody whom the model gets wrong is memorised."""
        return np.asarray(1 - (self._shares * self._by_label).sum(axis=1))

    def null(self, cost: FloatArray) -> FloatArray:
        """Variance of one split's gap for one person as if nothing was memorised: v."""
        f = self.train_share
        right = self._grown(f * cost)
        return np.asarray((self._shares * right * (1 - right)).sum(axis=1) / (f * (1 - f)))

    def actual(self, cost: FloatArray) -> FloatArray:
        """The same with so much memorised, whoever it is about: u, within labels."""
        f, test, train = self.train_share, self._by_label, self._grown(cost)
        parts = train * (1 - train) / f + test * (1 - test) / (1 - f)
        return np.asarray((self._shares * parts).sum(axis=1))

    def tested(self, cost: FloatArray, n: FloatArray) -> FloatArray:
        """Variance of one split's gap that the audit would take for groups of n: max(v, u)."""
        f, shares = self.train_share, self._shares
        train, test = ((shares * part).sum(axis=1) for part in (self._grown(cost), self._by_label))
        u = record_variance(train, test, f * n, (1 - f) * n)
        return np.asarray(np.maximum(self.null(cost) / n, u))

    def people(self, cost: FloatArray) -> FloatArray:
        """The most that people can differ in what is memorised about them."""
        return cost * (1 - cost)

    def skewness(self) -> FloatArray:
        """Skewness of the correct training records of one person in one split."""
        f, p = self.train_share, self._by_label
        second = (self._shares * p * (1 - p)).sum(axis=1) * f * (1 - f)
        third = (self._shares * p * (1 - p) * (1 - 2 * p)).sum(axis=1)
        return _over(third * f * (1 - f) * (1 - 2 * f), second**1.5)

    @property
    def _by_label(self) -> FloatArray:
        return self.accuracy if self.accuracy.ndim == 2 else self.accuracy[:, None]

    @property
    def _shares(self) -> FloatArray:
        return np.ones((len(self.accuracy), 1)) if self.label_share is None else self.label_share

    def _grown(self, cost: FloatArray) -> FloatArray:
        """Accuracy (group, label) with so many more right, the same share of each label's wrong."""
        memorised = np.minimum(1.0, _over(cost, self.largest))
        return np.asarray(self._by_label + (1 - self._by_label) * memorised[:, None])


@dataclass(frozen=True, kw_only=True)
class MeasuredError:
    """Errors of an attack (paired, LiRA) in the audit of an earlier release.

    With as many splits they are taken as they are, whatever amount is asked for. No error says
    which part of it more splits would lower. So the people's part is taken as large as it can be
    where splits are added, and as 0 where some are taken away.

    Attributes:
        exposure: (group,) variance by which the audit judges whether anything is memorised.
        difference: (group, group) variance by which it compares two groups.
        people: of an exposure and a number of people, the most that people can add to a variance.
        largest: (group,) largest exposure there can be.
        n_people: (group,) records in that release.
        n_splits: splits of that release.
    """

    exposure: FloatArray
    difference: FloatArray
    people: Callable[[FloatArray, FloatArray], FloatArray]
    largest: FloatArray
    n_people: FloatArray
    n_splits: int

    def __post_init__(self) -> None:
        require_at_least(1, n_splits=self.n_splits)

    def of_exposure(self, cost: FloatArray, study: Design) -> FloatArray:
        """At most the variance (group,) with the study's splits and people."""
        people = self.people(cost, self.n_people)
        now = self._with_splits(self.exposure, people, study.n_splits)
        return np.asarray(now * self.n_people / study.people)

    def of_difference(
        self, pair: tuple[int, int], costs: tuple[float, float], study: Design
    ) -> FloatArray:
        """The same of the difference of two groups, which have grown alike."""
        n = self.n_people[list(pair)]
        people = self.people(np.array(costs), n).sum()
        now = self._with_splits(self.difference[pair], people, study.n_splits)
        return np.asarray(now * (n / study.people[list(pair)]).max())

    def _with_splits(self, variance: FloatArray, people: FloatArray, n_splits: float) -> FloatArray:
        lasting, ratio = np.minimum(variance, people), self.n_splits / n_splits
        return np.asarray(ratio * variance if ratio > 1 else lasting + ratio * (variance - lasting))


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is to be audited.

    Attributes:
        group_names: the groups.
        people: (group,) records, training and test together.
        n_splits: distinct splits; infinite for as many as one likes.
        n_cost_tests: settings times groups, the family of "is anything memorised?".
        n_pair_tests: settings times pairs, the family of "do the groups differ?".
        error: of the cost.
        n_attacks: attacks that decide together, by which both families are multiplied.
    """

    group_names: tuple[str, ...]
    people: FloatArray
    n_splits: float
    n_cost_tests: int
    n_pair_tests: int
    error: CountsError | MeasuredError
    n_attacks: int = 1

    def __post_init__(self) -> None:
        families = {"n_cost_tests": self.n_cost_tests, "n_pair_tests": self.n_pair_tests}
        require_at_least(1, **families, n_attacks=self.n_attacks)
        if not self.n_splits >= 1:
            raise ValueError(f"n_splits must be at least 1, but {self.n_splits!r} was given.")
        for name, people in zip(self.group_names, self.people, strict=True):
            require_positive(**{f"people[{name!r}]": float(people)})

    @property
    def cost_quantile(self) -> float:
        """How many errors an exposure must have to be resolved: the first step of Holm."""
        return _upper_quantile(SIGNIFICANCE / (self.n_attacks * self.n_cost_tests))

    @property
    def pair_quantile(self) -> float:
        """The same of a difference, either way."""
        return _upper_quantile(
            SIGNIFICANCE * EXPOSURE_SHARE / (2 * self.n_attacks * self.n_pair_tests)
        )


@dataclass(frozen=True, kw_only=True)
class ExposureOf:
    """Would an exposure of one group be resolved?"""

    group: int

    def largest(self, study: Design) -> float:
        """Largest exposure there can be."""
        return float(study.error.largest[self.group])

    def power(self, study: Design, exposure: float) -> float:
        """Chance that so large an exposure is resolved."""
        return float(power_resolved(study, np.full(len(study.people), exposure))[self.group])

    def words(self, study: Design, amount: float) -> str:
        """The exposure as a sentence names it."""
        return f"an exposure of {_in_100(amount)} in {study.group_names[self.group]}"

    def smallest_group(self, study: Design) -> int:
        """Whose people a sentence counts."""
        return self.group


@dataclass(frozen=True, kw_only=True)
class DifferenceBetween:
    """Would a difference between two groups be shown? ``base`` is the exposure of the lower."""

    lower: int
    higher: int
    base: float = 0.0

    def largest(self, study: Design) -> float:
        """Largest difference there can be."""
        return float(study.error.largest[self.higher]) - self.base

    def power(self, study: Design, difference: float) -> float:
        """Chance that so large a difference is shown."""
        costs = (self.base, self.base + difference)
        return power_shown(study, (self.lower, self.higher), costs)

    def words(self, study: Design, amount: float) -> str:
        """The difference as a sentence names it."""
        first, second = study.group_names[self.lower], study.group_names[self.higher]
        return f"a difference of {_in_100(amount)} between {first} and {second}"

    def smallest_group(self, study: Design) -> int:
        """Whose people a sentence counts."""
        return min(self.lower, self.higher, key=lambda g: float(study.people[g]))


Question = ExposureOf | DifferenceBetween


def power_resolved(study: Design, cost: FloatArray) -> FloatArray:
    """Chance (group,) that exposures of so much are resolved.

    From counts it is the exact test: its own variance, skewness and whole numbers.
    """
    from scipy.special import ndtr

    z, error = study.cost_quantile, study.error
    if isinstance(error, MeasuredError):
        return np.asarray(ndtr(_quotient(cost, np.sqrt(error.of_exposure(cost, study))) - z))
    trials = study.people * study.n_splits
    z_skew = z + error.skewness() / np.sqrt(trials) * (z**2 - 1) / 6
    half_a_count = 0.5 / (trials * error.train_share * (1 - error.train_share))
    threshold = z_skew * np.sqrt(error.null(cost) / trials) + half_a_count
    return np.asarray(ndtr(_quotient(cost - threshold, np.sqrt(error.actual(cost) / trials))))


def power_shown(study: Design, pair: tuple[int, int], costs: tuple[float, float]) -> float:
    """Chance that two groups' exposures are told apart, where the second one's is larger.

    The benefits are taken as equal and known; then the cross product asks the same.
    """
    from scipy.special import ndtr

    if isinstance(study.error, MeasuredError):
        deviation = np.sqrt(study.error.of_difference(pair, costs, study))
        return float(
            ndtr(_quotient(np.array(costs[1] - costs[0]), deviation) - study.pair_quantile)
        )
    cost = np.zeros(len(study.people))
    cost[list(pair)] = costs
    variance = _variance(study, study.error, cost)[list(pair)]
    beyond = costs[1] - costs[0] - _thresholds(study, study.error, pair, cost, variance)
    return float(ndtr(_quotient(beyond, np.sqrt(variance.sum()))).mean())


def _thresholds(
    study: Design,
    error: CountsError,
    pair: tuple[int, int],
    cost: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """Differences from which on the test would show one, (spread, spread).

    The test takes the people's part at the costs it sees. Where the difference seen is just the
    threshold, each group is off by its share of the variance: found by repetition.
    """
    (low, high), seen = pair, cost.copy()
    share = _over(variance, np.full(2, variance.sum()))
    for _ in range(REPETITIONS):
        pooled = pooled_cost(seen[low], seen[high], study.people[low], study.people[high])
        tested = _tested_variances(study, error, cost, cost_in_tests(seen, pooled))
        thresholds = study.pair_quantile * np.sqrt(np.add.outer(tested[low], tested[high]))
        off = cost[high] - cost[low] - thresholds.mean()
        seen[low], seen[high] = cost[low] + share[0] * off, cost[high] - share[1] * off
    return np.asarray(thresholds)


def _variance(study: Design, error: CountsError, cost: FloatArray) -> FloatArray:
    """Variance (group,) of an estimate about people like these."""
    n_splits = study.n_splits
    lasting = (1 - 1 / n_splits) * error.people(cost)
    return np.asarray((error.actual(cost) / n_splits + lasting) / study.people)


def _tested_variances(
    study: Design, error: CountsError, cost: FloatArray, assumed: FloatArray
) -> FloatArray:
    """Variances (group, spread) that the test may take, as splits happen to spread.

    The audit takes the closed form or the spread over splits with all of the people's part,
    whichever is larger; ``assumed`` is the cost at which it takes that part.
    """
    n_splits, n = study.n_splits, study.people
    people = people_part(assumed, n)
    closed = error.tested(cost, n) / n_splits + (1 - 1 / n_splits) * people
    given_people = np.maximum(error.actual(cost) - error.people(cost), 0.0) / (n_splits * n)
    shown = given_people[:, None] * _spreads(n_splits) + people[:, None]
    return np.asarray(np.maximum(closed[:, None], shown if n_splits > 1 else 0.0))


def _upper_quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(level))


@cache
def _spreads(n_splits: float) -> FloatArray:
    """Sample variance over true variance, at equal steps of probability."""
    from scipy.special import gammaincinv

    if n_splits < 2 or math.isinf(n_splits):
        return np.ones(1)
    steps = (np.arange(N_SPREADS) + 0.5) / N_SPREADS
    half = (n_splits - 1) / 2
    return np.asarray(gammaincinv(half, steps) / half)


def smallest(study: Design, question: Question) -> float:
    """Smallest exposure or difference that would show in 80 % of such studies; NaN if none.

    >>> error = CountsError(accuracy=np.array([0.8, 0.8]), train_share=0.7)
    >>> study = Design(
    ...     group_names=("a", "b"), people=np.array([10_000.0, 10_000.0]), n_splits=1,
    ...     n_cost_tests=2, n_pair_tests=1, error=error,
    ... )
    >>> round(smallest(study, ExposureOf(group=0)), 4)
    0.0241
    """
    largest = question.largest(study)
    if not largest > 0 or question.power(study, largest) < POWER:
        return math.nan
    return _least(lambda amount: question.power(study, amount), 0.0, largest)


def splits_for(study: Design, question: Question, target: float) -> int | None:
    """Fewest splits that would show the target; None where no number of splits would."""

    def power(n_splits: float) -> float:
        return question.power(replace(study, n_splits=n_splits), target)

    if power(MOST_SPLITS) < POWER:
        return None
    low, high = 0, MOST_SPLITS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def people_for(study: Design, question: Question, target: float) -> FloatArray | None:
    """People (group,) who would show the target with these splits, all groups growing alike.

    None where even MOST_GROWTH times as many would not.
    """

    def power(growth: float) -> float:
        return question.power(replace(study, people=study.people * math.exp(growth)), target)

    if power(math.log(MOST_GROWTH)) < POWER:
        return None
    low = -math.log(MOST_GROWTH)
    return np.ceil(study.people * math.exp(_least(power, low, math.log(MOST_GROWTH))))


def advice(study: Design, question: Question, *, target: float | None = None) -> str:
    """One sentence: what it would take to show the target.

    Says so where splits cannot help, and how many people could.

    Args:
        study: what was audited.
        question: whose exposure, or between whom a difference.
        target: amount that should show; by default half of what would show now.
    """
    now = smallest(study, question)
    if math.isnan(now) and target is None:
        largest = question.words(study, question.largest(study))
        return f"Not even {largest}, the largest there can be, would show; {_SHARPER}."
    wanted = now / 2 if target is None else target
    what = question.words(study, wanted)
    if wanted >= now:
        return f"{what[0].upper()}{what[1:]} would show already, 4 times in 5."
    n_splits = splits_for(study, question, wanted)
    if n_splits is not None:
        more = n_splits - study.n_splits
        return f"{more:,.0f} more split{'s' if more > 1 else ''} would show {what}{_now(now)}."
    return _more_people(study, question, wanted, now)


_SHARPER: Final = "use more people, or a sharper cost (paired confidence or LiRA)"


def _more_people(study: Design, question: Question, wanted: float, now: float) -> str:
    """Where splits cannot help: how far they reach, and how many people would do."""
    what = question.words(study, wanted)
    limit = smallest(replace(study, n_splits=math.inf), question)
    reach = "" if math.isnan(limit) else f" (their limit is {_in_100(limit)})"
    people = people_for(study, question, wanted)
    if people is None:
        return f"No number of splits would show {what}{reach}; {_SHARPER}."
    g = question.smallest_group(study)
    return (
        f"No number of splits would show {what}{reach}; about {_rounded(people[g])} people in "
        f"{study.group_names[g]} would (now {study.people[g]:,.0f})."
    )


def _least(power: Callable[[float], float], low: float, high: float) -> float:
    """Where power reaches POWER between low, where it does not, and high, where it does.

    By false position (Illinois): seen as a normal quantile, power is nearly straight.
    """
    below, above, last = _beyond(power(low)), _beyond(power(high)), 0.0
    for _ in range(MOST_STEPS):
        middle = (low * above - high * below) / (above - below)
        value = _beyond(power(middle))
        if abs(value) < ENOUGH:
            return middle
        if value > 0:
            high, above, below = middle, value, below / (2 if last > 0 else 1)
        else:
            low, below, above = middle, value, above / (2 if last < 0 else 1)
        last = value
    return high


def _beyond(power: float) -> float:
    """How far a power lies above POWER, in normal quantiles; as good as certain is certain."""
    from scipy.special import ndtri

    return float(np.clip(ndtri(power), -CERTAIN, CERTAIN) - ndtri(POWER))


def _now(now: float) -> str:
    return "" if math.isnan(now) else f" (now {_in_100(now)})"


def _in_100(amount: float) -> str:
    return f"{100 * amount:.2g} in 100"


def _rounded(people: float) -> str:
    """Two significant digits, upwards."""
    unit = 10.0 ** max(0, math.floor(math.log10(people)) - 1)
    return f"{math.ceil(people / unit) * unit:,.0f}"


def _over(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _quotient(numerator: FloatArray, deviation: FloatArray) -> FloatArray:
    """Numerator in deviations; without any, certain to be above 0 or not."""
    certain = np.where(numerator > 0, np.inf, -np.inf)
    return np.divide(numerator, deviation, out=certain, where=deviation > 0)
