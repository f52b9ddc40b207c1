"""Before anything is trained: what could an audit show? ``detectable(sizes or release, ...)``.

A planned study is a ``Design``: so many people, so many splits, and the error of the
exposure. Two questions, two errors, as in the audit. "Is anything memorised about these
records?" meets split error only where the exposure comes from counts, and that falls
with every further split. "Do the groups differ?" is about people like these, which adds
an error that only more people lower. Power is that of the audit's tests, at the first
step of Holm over its family.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from pcer.auditing import measure, variances
from pcer.auditing.checks import Facts, is_random, stated_epsilon
from pcer.auditing.file import BudgetResult, Result
from pcer.auditing.measure import Measured, Pair
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.tests import Evidence, Tested, attack_tests, compare_pairs, decide
from pcer.auditing.verdict import Verdict
from pcer.auditing.words import capital, listed, points, say, setting_called
from pcer.errors import InputError, PlanError, door
from pcer.files import Record
from pcer.metrics import FloatArray
from pcer.release.format import Release, Shown, read_release, release_files
from pcer.release.panel import panels
from pcer.release.proxies import GAP, attack_named
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE

ACCURACY: Final = 0.8
TEST_SIZE: Final = 0.3
N_SPLITS: Final = 20
POWER: Final = 0.8
SPLIT_GRID: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
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
# Where a difference may be there.
OPEN: Final = (Verdict.NO_DIFFERENCE_SHOWN, Verdict.FLOOR_DOMINATED)

# An exposure or a difference; None where none would be shown.
Amount = Annotated[float, Field(ge=0)] | None


class OutlookRow(Record):
    """What could be shown of one group's exposure, or of a difference, whichever is the larger.

    Attributes:
        groups: one name, or the two of a pair.
        n_people: of each of them, training and test together.
        base: exposure of the less exposed group of a pair.
        smallest: exposure or difference that would be shown; None where not even the
            largest would.
        limit: the smallest with any number of splits.
        splits_for_target: fewest that would show the target; None where none would.
        people_for_target: of each of them, all groups growing alike, with the splits as
            they are.
    """

    groups: tuple[str, ...]
    n_people: tuple[float, ...]
    base: float
    smallest: Amount
    limit: Amount
    splits_for_target: int | None
    people_for_target: tuple[float, ...] | None


class OutlookPoint(Record):
    """What would be shown with so many splits: exposures by group, differences as the pairs are."""

    n_splits: int
    exposure: dict[str, Amount]
    difference: list[Amount]


class Outlook(Result):
    """The result of ``pcer.detectable``: what could be shown, and what a target would take.

    Attributes:
        release_sha256: of the earlier release that it was made from; None: from sizes
            alone.
        subject: what the release is about; None without one.
        setting: the release's setting that it is about.
        cost: what exposure is measured by.
        n_settings: settings that are audited together.
        target: exposure or difference that should be shown; None where none was named.
        groups: the exposure of each group.
        pairs: the difference of each pair that an audit compares.
        over_splits: the curve over splits, people as they are.
        sentences: the answer in words.
    """

    format: Literal["pcer-outlook"] = "pcer-outlook"
    version: Literal[1] = 1
    release_sha256: str | None
    subject: str | None
    setting: str | None
    cost: str
    n_splits: int
    n_settings: int
    target: float | None
    groups: list[OutlookRow]
    pairs: list[OutlookRow]
    over_splits: list[OutlookPoint]
    sentences: list[str]

    @property
    def title(self) -> str:
        """What would be audited."""
        n = self.n_splits
        of = f" of {self.subject}" if self.subject else ""
        people = ", ".join(
            f"{row.groups[0]} {row.n_people[0]:,.0f}" for row in self.groups[:4]
        )
        more = (
            f" and {len(self.groups) - 4} more groups" if len(self.groups) > 4 else ""
        )
        return f"What {n:,} split{'s' if n > 1 else ''}{of} could show: {people}{more}"

    def plot(self) -> Any:
        """The curve over splits as an Altair chart."""
        return Shown.drawings().to_chart(self, "outlook")


def release_file(path: str | PathLike[str]) -> Path:
    """A file as it is named, or the only release of a folder."""
    first, *more = release_files([path])
    if more:
        names = ", ".join(file.name for file in (first, *more))
        raise InputError(f"{path} holds {1 + len(more)} releases; name one: {names}.")
    return first


def release_at(given: Release | str | PathLike[str]) -> Release:
    """A release as it is, that of a file, or the only one of a folder."""
    if isinstance(given, str | PathLike):
        return read_release(release_file(given))
    if not isinstance(given, Release):
        kind = type(given).__name__
        raise InputError(
            f"give one or two releases, not this {kind}; or paths of their files."
        )
    return given


@door()
def detectable(
    of: Mapping[str, int] | Release | str | PathLike[str],
    *,
    accuracy: float | Mapping[str, float] | None = None,
    test_size: float | None = None,
    n_splits: int | None = None,
    n_settings: int | None = None,
    cost: str | None = None,
    exposure: float | None = None,
    target: float | None = None,
    setting: str | float | None = None,
) -> Outlook:
    """Smallest exposure and difference that an audit would show in 80% of such studies.

    Power is that of the audit's tests at the first step of Holm over their families.
    From sizes it is that of the gap, whose error follows from them. What a stronger
    attack can show depends on how stable the models are, which a release of a few
    splits reveals.

    Args:
        of: people in each group, training and test together; or an earlier release or
            its path, which gives the sizes, accuracies, splits and errors.
        accuracy: for people the model was not trained on; one number or one for each
            group (0.8).
        test_size: share of the records that a split holds out (0.3).
        n_splits: distinct splits (20, or as many as the release has).
        n_settings: models or budgets that are audited together (1, or as in the
            release).
        cost: "gap"; of a release any attack that it carries, by default the strongest.
        exposure: of the less exposed group of every pair (0, or what the release
            shows).
        target: exposure or difference to show; asks for splits and people.
        setting: of a release with several, the one to plan with; the first by default.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> sizes = {"women": 1200, "men": 3400}
    >>> round(detectable(sizes, n_splits=20).groups[0].smallest, 4)
    0.0156
    """
    for name, n in (("n_splits", n_splits), ("n_settings", n_settings)):
        if n is not None and not (type(n) is int and 1 <= n <= MOST_PEOPLE):
            raise InputError(
                f"{name} must be a whole number from 1 to 10^15, not {n!r:.60}."
            )
    _require_share(test_size=test_size, target=target, exposure=exposure)
    if isinstance(of, Release | str | PathLike):
        if accuracy is not None or test_size is not None:
            raise InputError(
                "a release has its own accuracies and test size; leave yours out."
            )
        design, bases, about = _of_release(release_at(of), cost, setting, n_settings)
    else:
        if setting is not None:
            raise InputError(
                "setting chooses among those of a release; sizes have none."
            )
        given = ACCURACY if accuracy is None else accuracy
        design, bases, about = _of_sizes(
            of, given, test_size or TEST_SIZE, cost, n_settings or 1
        )
    if exposure is not None:
        bases = dict.fromkeys(bases, exposure)
    return _outlook(
        replace(design, n_splits=n_splits or design.n_splits), bases, target, about
    )


def more_would_show(
    tested: Tested, evidence: Evidence, k: int, budget: BudgetResult
) -> str | None:
    """How many more splits or people would show how much in setting k; None where unknown."""
    measured = tested.measured[tested.cost][k]
    difference = np.abs(evidence.exposure.value[k])
    exposed = measured.exposed
    n_tests = (evidence.n_cost_tests, evidence.n_pair_tests)
    if exposed is None or budget.reason is not None:
        return None
    if budget.verdict is Verdict.NONE_DETECTED:
        question = Question(groups=(int(np.argmax(exposed.null_variance)),))
    elif budget.verdict in OPEN and np.isfinite(difference).any():
        pair = tested.pairs[int(np.nanargmax(difference))]
        lower, higher = sorted(pair, key=lambda g: float(exposed.value[g]))
        question = Question(
            groups=(lower, higher), base=max(0.0, float(exposed.value[lower]))
        )
    else:
        return None
    design = design_of_measured(measured, [len(tested.attacks) * n for n in n_tests])
    return None if design is None else advice(design, question)


# What is planned, and the error of its exposures


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
            null, variances.record_variance(train, test, f * n, (1 - f) * n)
        )
        one_split *= 1 + CHANCE_SPREAD * math.sqrt((1 - 1 / n_splits) / n_splits)
        off = np.array([1.0, -1.0]) * n[::-1] / n.sum()
        seen = exposure
        for _ in range(REPETITIONS):
            cost = variances.cost_in_tests(seen, variances.pooled_cost(seen, n))
            people = variances.people_part(cost, n)
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


# Questions and the power of their tests


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
        z = variances.limit_quantile(
            n_limits=max(1, n_tests), confidence_level=1 - level
        )
        tested, actual = design.error.variances(design, self.groups, exposure, z)
        beyond = amount - z * math.sqrt(tested)
        return float(ndtr(beyond / math.sqrt(actual)) if actual > 0 else beyond > 0)


# The smallest amount, the fewest splits, the fewest people


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


def advice(design: Design, question: Question, *, target: float | None = None) -> str:
    """What it would take to show the target; by default half of what shows now."""
    now = smallest(design, question)
    most = question.largest(design)
    if math.isnan(now) and (target is None or target > most):
        return say("plan", "impossible", what=question.words(design, most))
    wanted = now / 2 if target is None else target
    what = question.words(design, wanted)
    if wanted >= now:
        return say("plan", "already", what=capital(what))
    if (n_splits := splits_for(design, question, wanted)) is not None:
        more = int(n_splits - design.n_splits)
        at = "" if math.isnan(now) else say("plan", "now", points=points(now))
        return say(
            "plan", "splits", n=f"{more:,}", s="s" * (more > 1), what=what, now=at
        )
    g = min(question.groups, key=lambda g: float(design.people[g]))
    who = {"group": design.group_names[g], "people": f"{design.people[g]:,.0f}"}
    limit = smallest(replace(design, n_splits=math.inf), question)
    hidden = "hidden" if limit >= wanted else "hopeless"
    things = "exposures" if len(question.groups) == 1 else "differences"
    first = say(
        "plan", hidden, things=things, limit=points(limit), n=f"{MOST_SPLITS:,}", **who
    )
    people = people_for(design, question, wanted)
    needed = "stronger"
    if people is not None:
        unit = 10.0 ** max(
            0, math.floor(math.log10(people[g])) - 1
        )  # two digits, upwards
        needed = "people"
        who["people"] = f"{math.ceil(people[g] / unit) * unit:,.0f}"
    return f"{first} {say('plan', needed, what=what, points=points(wanted), **who)}"


# Designs: from sizes, from a release, from what an audit has measured

# With the lower exposure of each pair, and further fields of ``Outlook``.
Planned = tuple[Design, dict[Pair, float], dict[str, Any]]


def _of_sizes(
    groups: Any, accuracy: Any, test_size: float, cost: str | None, n_settings: int
) -> Planned:
    if not isinstance(groups, Mapping) or len(groups) < 2:
        raise InputError(
            "groups must name at least two groups with their people, such as "
            "{'women': 1200, 'men': 3400}; or give a release."
        )
    for name, n in groups.items():
        is_whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if not is_whole or not FEWEST_PEOPLE <= n <= MOST_PEOPLE:
            raise InputError(
                f"group {str(name)!r} must have a whole number of people, at least "
                f"{FEWEST_PEOPLE}, not {n!r}."
            )
    if cost is not None and attack_named(cost) not in (SHARPEST, GAP.name):
        raise InputError(
            f"sizes alone tell what the {GAP.name} can show, but not what {cost!r} can; give a "
            "release of a few splits that carries it."
        )
    names = [*map(str, groups)]
    people = np.array([*groups.values()], dtype=np.float64)
    given = (
        accuracy if isinstance(accuracy, Mapping) else dict.fromkeys(names, accuracy)
    )
    if set(map(str, given)) != set(names):
        raise InputError(
            f"accuracy must be one number, or one for each of {', '.join(names)}; it names "
            f"{', '.join(map(str, given)) or 'none'}."
        )
    _require_share(**{f"accuracy of {name}": value for name, value in given.items()})
    right = np.array([float(given[name]) for name in names])
    reference = 0 if len(people) == 2 else int(np.argmax(people))
    bases = {(reference, g): 0.0 for g in range(len(people)) if g != reference}
    design = Design(
        group_names=tuple(names),
        people=people,
        n_splits=N_SPLITS,
        n_tests=(n_settings * len(people), n_settings * len(bases)),
        error=CountsError(accuracy=right, train_share=1 - test_size),
    )
    about = dict.fromkeys(("release_sha256", "subject", "setting"))
    return design, bases, about | {"cost": GAP.name, "n_settings": n_settings}


def _of_release(
    release: Release,
    cost: str | None,
    setting: str | float | None,
    n_settings: int | None,
) -> Planned:
    by_setting = panels(release)
    plan = measure.require_available(
        by_setting, Plan(cost=SHARPEST if cost is None else cost)
    )
    if not is_random(release):
        raise InputError(
            "the release does not say that its splits are random, so none can plan."
        )
    facts = release.kept(Facts)
    names = [each.name for each in facts.settings]
    keys = [(panel.model, stated_epsilon(panel)) for panel in by_setting]
    chosen = 0 if setting is None else setting_called(setting, keys)
    if chosen is None:
        raise InputError(
            f"the release has no setting {setting!r}; it has {', '.join(names)}."
        )
    pairs = measure.pairs_of(by_setting, plan)
    attacks = measure.deciding_attacks(by_setting, plan)
    by_cost = measure.measure_costs(by_setting, plan, inflation=facts.inflation)
    measured = [by_cost[attack] for attack in attacks]
    if n_settings is not None:
        n_tests = n_settings * len(release.subject.groups), n_settings * len(pairs)
    else:  # the family of the audit's tests
        tests = [attack_tests(each, pairs, random=True) for each in measured]
        evidence = decide(tests, pairs, outcome=release.subject.outcome)
        n_tests = evidence.n_cost_tests, evidence.n_pair_tests
    first = measured[0][chosen]
    design = design_of_measured(first, [len(attacks) * n for n in n_tests])
    if design is None or first.exposed is None:
        reason = first.reason or "nobody, or everybody, is right in some group"
        raise PlanError(
            f"{attacks[0]} of this release cannot be planned with: {reason}."
        )
    value = np.maximum(first.exposed.value, 0.0)
    about = {
        "release_sha256": release.sha256,
        "subject": f"{release.subject.dataset} ({release.subject.attribute})",
        "setting": names[chosen] if len(names) > 1 else None,
        "cost": attacks[0],
        "n_settings": n_settings or len(names),
    }
    return design, {(i, j): float(min(value[i], value[j])) for i, j in pairs}, about


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
            people=measure.PEOPLE_PARTS.get(
                measured.proxy.scale, variances.people_part
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


def _require_share(**given: Any) -> None:
    for name, value in given.items():
        lowest = 0.0 if name == "exposure" else math.ulp(0.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and lowest <= value < 1):
            raise InputError(f"{name} must be a number between 0 and 1, not {value!r}.")


# The outlook of a design


def _outlook(
    design: Design,
    bases: Mapping[Pair, float],
    target: float | None,
    about: Mapping[str, Any],
) -> Outlook:
    names = design.group_names
    exposures = [Question(groups=(g,)) for g in range(len(names))]
    differences = [
        _hardest(
            design,
            [Question(groups=groups, base=base) for groups in (pair, pair[::-1])],
        )
        for pair, base in bases.items()
    ]
    rows = []
    for groups, question in zip(
        [*((g,) for g in range(len(names))), *bases],
        exposures + differences,
        strict=True,
    ):
        needed = None if target is None else people_for(design, question, target)
        rows.append(
            OutlookRow(
                groups=tuple(names[g] for g in groups),
                n_people=tuple(design.people[[*groups]].tolist()),
                base=question.base,
                smallest=_amount(design, question),
                limit=_amount(replace(design, n_splits=math.inf), question),
                splits_for_target=None
                if target is None
                else splits_for(design, question, target),
                people_for_target=None
                if needed is None
                else tuple(needed[[*groups]].tolist()),
            )
        )
    curve = [
        replace(design, n_splits=n) for n in sorted({*SPLIT_GRID, int(design.n_splits)})
    ]
    return Outlook(
        n_splits=int(design.n_splits),
        target=target,
        groups=rows[: len(names)],
        pairs=rows[len(names) :],
        over_splits=[
            OutlookPoint(
                n_splits=int(at.n_splits),
                exposure={
                    names[g]: _amount(at, question)
                    for g, question in enumerate(exposures)
                },
                difference=[_amount(at, question) for question in differences],
            )
            for at in curve
        ],
        sentences=[
            advice(design, _hardest(design, questions), target=target)
            for questions in (exposures, differences)
        ],
        **about,
    )


def _hardest(design: Design, questions: Sequence[Question]) -> Question:
    return max(
        questions, key=lambda asked: np.nan_to_num(smallest(design, asked), nan=np.inf)
    )


def _amount(design: Design, question: Question) -> float | None:
    """The smallest that would be shown; 0 where any would, None where none would."""
    amount = smallest(design, question)
    return None if math.isnan(amount) else amount if amount > NEGLIGIBLE else 0.0
