"""Which settings can be chosen, and which bounds does each of their numbers have?

Called by ``recommend``, which holds the bounds against the user's limits; by
``answers``, which says what that shows of a setting; and by ``price``, for what
choosing costs.

Numbers are of 100, except for epsilons. Exposure and outcomes are about people like
these; accuracy is of these records. Every number has two bounds. The one that must be
inside the limit fails with ``Levels.hold``, the one that must be outside for the
setting to break the limit with ``Levels.breaks``.

To add a limit: a field of ``Policy``, a name here and in ``LIMITS``, an argument of
``recommend``, its numbers in ``Candidate.numbers``, and its words in ``words.toml``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, NamedTuple

import numpy as np

from pcer.deciding.matching import usable_inflation
from pcer.errors import InputError
from pcer.files import Record
from pcer.measuring import exposure, variances
from pcer.measuring.checks.arrays import ReleaseArrays, Setting, SplitName
from pcer.measuring.contrasts import Contrast
from pcer.measuring.evidence import compare_pairs
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.release.records import Bound
from pcer.statistics import finite_or_none
from pcer.wording import SettingName

EXPOSURE: Final = "largest_exposure"
DIFFERENCE: Final = "largest_difference"
OUTCOMES: Final = "largest_outcome_gap"
SPENT: Final = "most_spent"
ACCURACY: Final = "least_accuracy"
# In the order in which outputs name them; the first two are held against every deciding
# attack.
LIMITS: Final = (EXPOSURE, DIFFERENCE, OUTCOMES, SPENT, ACCURACY)
Answer = Literal["holds", "breaks", "open"]


class Margin(NamedTuple):
    """How far inside its limit a number is; below 0 it is outside."""

    errors: float  # in standard errors
    share: float  # of the limit


UNKNOWN_MARGIN: Final = Margin(-math.inf, -math.inf)


class Checked(Record):
    """One number of a setting, its bounds and its limit.

    None stands for a number that is not known, and for a limit that is not asked for.
    The bound that must be inside the limit has the level to hold, the other that to
    break.
    """

    what: str
    groups: tuple[str, ...]
    attack: str | None
    value: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None
    limit: float | None

    @property
    def sign(self) -> int:
        """1 where the limit is the most that is allowed, -1 where it is the least."""
        return -1 if self.what == ACCURACY else 1

    @property
    def answer(self) -> Answer:
        """Whether the bound is inside the limit, or outside the other way."""
        if self.lower is None or self.upper is None:
            # Without privacy nothing bounds what is spent.
            is_boundless = self.what == SPENT and self.value is None
            return "breaks" if is_boundless else "open"
        limit = 0.0 if self.limit is None else self.limit
        beyond = [self.sign * (end - limit) for end in (self.lower, self.upper)]
        if max(beyond) <= 0:
            return "holds"
        if min(beyond) > 0:
            return "breaks"
        return "open"

    @property
    def inside(self) -> Margin:
        """How far inside its limit it is; farthest out where that is not known."""
        if self.value is None or self.standard_error is None or self.limit is None:
            return UNKNOWN_MARGIN
        margin = (self.limit - self.value) * self.sign
        error = max(self.standard_error, math.ulp(0.0))
        scale = 1.0 if self.limit == 0 else self.limit
        return Margin(margin / error, margin / scale)


def answer_of(numbers: Sequence[Checked]) -> Answer:
    """A setting breaks where any number does, and holds where every number does."""
    answers = {checked.answer for checked in numbers if checked.limit is not None}
    if "breaks" in answers:
        return "breaks"
    return "open" if "open" in answers else "holds"


class Levels(NamedTuple):
    """Chances that one bound fails, to hold and to break; the deciding attacks."""

    hold: float
    breaks: float
    attacks: Sequence[str]

    @property
    def z_hold(self) -> float:
        """Standard errors from a value to its bound that must be inside the limit."""
        return normal_quantile(self.hold)

    @property
    def z_break(self) -> float:
        """Standard errors from a value to its bound that would be outside the limit."""
        return normal_quantile(self.breaks)


def normal_quantile(tail: float) -> float:
    """The z that a standard normal exceeds with the chance ``tail``."""
    return variances.bonferroni_z(confidence_level=1 - tail)


class Estimate(NamedTuple):
    """A number with its standard error and both bounds; NaN where it is not known."""

    value: float
    error: float
    lower: float
    upper: float

    @classmethod
    def of(cls, value: float, error: float, levels: Levels) -> Estimate:
        """Normal bounds of a number that must be below its limit."""
        lower = value - levels.z_break * error
        return cls(value, error, lower, value + levels.z_hold * error)


UNKNOWN: Final = Estimate(math.nan, math.nan, math.nan, math.nan)


def _checked(
    what: str, groups: tuple[str, ...], attack: str | None, estimate: Estimate
) -> Checked:
    """A number as files have it, without a limit yet."""
    return Checked(
        what=what,
        groups=groups,
        attack=attack,
        value=finite_or_none(estimate.value),
        standard_error=finite_or_none(estimate.error),
        lower=finite_or_none(estimate.lower),
        upper=finite_or_none(estimate.upper),
        limit=None,
    )


@dataclass(frozen=True, eq=False)
class Candidate:
    """A setting of a release; accuracy is of 100, by the name of the split."""

    model: str | None
    epsilon: float | None
    release: Release
    panel: Panel
    variance_inflation: FloatArray | None
    accuracy: Mapping[SplitName, float]

    @property
    def name(self) -> SettingName:
        """The setting's name in print."""
        return SettingName(self.model, self.epsilon)

    @property
    def bounds(self) -> list[Bound]:
        """What training says of the epsilon that the setting's groups spent."""
        return [
            bound
            for bound in self.release.bounds
            if SettingName(bound.model, bound.epsilon) == self.name
            and bound.label is None
        ]

    def numbers(self, levels: Levels) -> Iterator[Checked]:
        """Every number that a limit may be about; accuracy comes last."""
        by_attack = [self.measured(attack) for attack in levels.attacks]
        for measured in by_attack:
            yield from self._exposures(measured, levels)
            yield from self._exposure_differences(measured, levels)
        yield from self._outcome_gaps(by_attack[0], levels)
        yield from self._spent(levels)
        yield self._accuracy(levels)

    def measured(self, attack: str) -> exposure.Measured:
        """Exposure by one attack, and outcomes."""
        return exposure.measure_panel(
            self.panel, Plan(), attack, variance_inflation=self.variance_inflation
        )

    def mean_accuracy(self) -> Contrast:
        """Mean over splits, with the error of splits."""
        by_split = np.array([*self.accuracy.values()])
        return Contrast.of(by_split[:, None], np.zeros(1))

    def accuracy_above(self, other: Candidate) -> Contrast:
        """By how much this setting is more accurate than another.

        Split by split where both have two splits or more of the same names, so that
        what splits share cancels. Otherwise the errors of both are added.
        """
        shared = [split for split in self.accuracy if split in other.accuracy]
        if len(shared) < 2:
            own = self.mean_accuracy()
            theirs = other.mean_accuracy()
            variance = own.variance + theirs.variance
            return Contrast.of((own.value - theirs.value)[None], variance)
        by_split = np.array([self.accuracy[s] - other.accuracy[s] for s in shared])
        return Contrast.of(by_split[:, None], np.zeros(1))

    def _exposures(
        self, measured: exposure.Measured, levels: Levels
    ) -> Iterator[Checked]:
        """For each group, how many answers of 100 an attacker gets right (coin: 50)."""
        points = _points_of_100(measured)
        exposed = measured.exposed
        largest = measured.upper_limit(level=1 - levels.hold, n_limits=1)
        for group, name in enumerate(self.panel.group_names):
            estimate = UNKNOWN
            if exposed is not None and measured.has_enough_records[group]:
                value = 50 + points * exposed.value[group]
                error = points * math.sqrt(exposed.interval_variance[group])
                lower = value - levels.z_break * error
                upper = 50 + points * largest[group]
                estimate = Estimate(value, error, lower, upper)
            yield _checked(EXPOSURE, (name,), measured.proxy.name, estimate)

    def _exposure_differences(
        self, measured: exposure.Measured, levels: Levels
    ) -> Iterator[Checked]:
        """For each pair, by how many right answers of 100 the exposures differ."""
        points = _points_of_100(measured)
        attack = measured.proxy.name
        differences = compare_pairs(measured, self._pairs).exposure
        for names, value, error in zip(
            self._pair_names, differences.value, differences.error, strict=True
        ):
            estimate = Estimate.of(points * abs(value), points * error, levels)
            yield _checked(DIFFERENCE, names, attack, estimate)

    def _outcome_gaps(
        self, measured: exposure.Measured, levels: Levels
    ) -> Iterator[Checked]:
        """For each pair, by how many of 100 outcomes differ, whatever the attack."""
        gaps = compare_pairs(measured, self._pairs).benefit
        for names, value, error in zip(
            self._pair_names, gaps.value, gaps.error, strict=True
        ):
            estimate = Estimate.of(100 * abs(value), 100 * error, levels)
            yield _checked(OUTCOMES, names, None, estimate)

    def _spent(self, levels: Levels) -> Iterator[Checked]:
        """For each group, mean epsilon by receipts, at most what is promised to it.

        A refreshed receipt is an estimate, which bounds nothing.
        """
        receipts = {
            bound.group: bound
            for bound in self.bounds
            if bound.kind == "receipt" and bound.mode != "refreshed"
        }
        promises = {
            bound.group: bound.mean for bound in self.bounds if bound.kind == "promise"
        }
        promised_to_all = math.inf if self.epsilon is None else self.epsilon
        for name in self.panel.group_names:
            promised = min(promised_to_all, promises.get(name, math.inf))
            estimate = Estimate(promised, 0.0, 0.0, promised)
            receipt = receipts.get(name)
            if receipt is not None:
                value = min(receipt.mean, promised)
                by_receipt = Estimate.of(value, receipt.standard_error or 0.0, levels)
                upper = min(by_receipt.upper, promised)
                estimate = by_receipt._replace(upper=upper)
            yield _checked(SPENT, (name,), None, estimate)

    def _accuracy(self, levels: Levels) -> Checked:
        """Accuracy on test records; its lower bound must be inside the limit."""
        accuracy = self.mean_accuracy()
        value = float(accuracy.value[0])
        error = math.sqrt(accuracy.variance[0])
        lower = value - float(accuracy.half_width(levels.hold)[0])
        upper = value + float(accuracy.half_width(levels.breaks)[0])
        return _checked(ACCURACY, (), None, Estimate(value, error, lower, upper))

    @property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(combinations(range(len(self.panel.group_names)), 2))

    @property
    def _pair_names(self) -> list[tuple[str, str]]:
        return [*combinations(self.panel.group_names, 2)]


def _points_of_100(measured: exposure.Measured) -> float:
    """What an exposure of 1 adds to an attacker's 50 right answers of 100."""
    points = measured.proxy.scale.per_success
    assert points is not None  # every deciding attack has it
    return points


def candidates(releases: Sequence[Release]) -> list[Candidate]:
    """Settings in the order of the files; InputError unless all can be compared."""
    found: dict[SettingName, Candidate] = {}
    for release in releases:
        variance_inflation = usable_inflation(release, release.title)
        _require_same_subject(releases[0], release)
        for name, setting in _settings_of(release).items():
            if name in found:
                raise _unusable(
                    name, "is in two releases; give one another runs[].model"
                )
            accuracy = _accuracy_by_split(name, setting)
            found[name] = Candidate(
                *name, release, setting.panel, variance_inflation, accuracy
            )
    if len(found) < 2:
        raise InputError(
            "there is one setting only; give several to choose among.", field="runs"
        )
    return [*found.values()]


def _require_same_subject(first: Release, release: Release) -> None:
    """Raise InputError unless both are about the same groups of the same records."""
    theirs = _subject(first)
    for field, value in _subject(release).items():
        if value != theirs[field]:
            raise InputError(
                f"releases to choose among must share {field}.", field=field
            )


def _subject(release: Release) -> dict[str, str]:
    """What releases to choose among must share, by field."""
    return {
        "subject.attribute": release.subject.attribute,
        "subject.groups": str(release.subject.groups),
        "provenance.data_digest": str(release.provenance.data_digest),
    }


def _settings_of(release: Release) -> dict[SettingName, Setting]:
    """A release's settings by name, in the order in which its runs come."""
    settings = {}
    for setting in release.kept(ReleaseArrays).settings:
        name = SettingName(setting.panel.model, setting.runs[0].epsilon)
        settings[name] = setting
    names = dict.fromkeys(SettingName(run.model, run.epsilon) for run in release.runs)
    return {name: settings[name] for name in names}


def _accuracy_by_split(name: SettingName, setting: Setting) -> dict[SplitName, float]:
    """Accuracy of 100 on the test records of each split; InputError where one lacks."""
    panel = setting.panel
    if panel.n_splits < 2:
        fault = "has one split; train on several, to know its luck"
        raise _unusable(name, fault, field="runs.split")
    n_right = (panel.test_accuracy * panel.n_test).sum(axis=1)
    accuracy = n_right / panel.n_test.sum(axis=1)
    if not np.isfinite(accuracy).all():
        fault = (
            "lacks accuracies or sizes of test records, by which settings are chosen"
        )
        raise _unusable(name, fault, field="runs.groups.test.accuracy")
    splits = dict.fromkeys(run.split for run in setting.runs)
    by_split = exposure.by_split(100 * accuracy, panel.split)
    return dict(zip(splits, by_split, strict=True))


def _unusable(name: SettingName, fault: str, *, field: str = "runs") -> InputError:
    """A setting that cannot be chosen among, and why."""
    return InputError(f"{name.full} {fault}.", field=field)
