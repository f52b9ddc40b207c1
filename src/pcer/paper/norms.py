"""Which setting does each norm of fairness prefer, of those that the paper names?

``norms`` is made of a finished audit when it is asked for (``found.norms()``, the
paper's view, the page). A norm is one loss of a setting's numbers: how far apart two
groups are, or how badly off the worst-off group is. Each number is the mean over
splits; its variance V is for people like these, with what training moves. A norm
prefers setting k where k beats every other l,

    loss_l - loss_k > 1.96 sqrt(V_k + V_l),

as if settings were independent: errors of paired settings go to 0 with more splits of
the same people, and would then prefer falsely. Else settings are tied; a number that is
missing or says nothing cannot be compared. ``docs/norms.md`` explains what each norm
asks. To add a norm: a row of ``MEASURES``, and its words in ``words.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from pcer.measuring.checks.arrays import ReleaseArrays, is_random
from pcer.measuring.exposure import Measured, measure_panel
from pcer.measuring.group_differences import compare_pairs
from pcer.measuring.outcomes import Benefit, benefit_of, received_of
from pcer.measuring.plan import BENEFIT_KINDS, POSITIVE_RATE, Plan
from pcer.measuring.training_variance import half_width
from pcer.measuring.variances import by_split
from pcer.metrics import FloatArray
from pcer.paper import disparity
from pcer.paper.disparity import Groups
from pcer.release.attack_kinds import GAP
from pcer.release.panel import Panel, panels
from pcer.wording import SettingName, say

if TYPE_CHECKING:
    from pcer.auditing.record import Audit

TAIL: Final = 0.025  # beyond each end of an interval
BEATS: Final = 1.96  # errors of the difference by which a setting beats another
Answer = Literal["prefers", "tied", "cannot_tell", "not_defined"]
WRONG = BENEFIT_KINDS["false_positive_rate"]._replace(
    name="error_rate", counted=("fp", "fn"), among=("tp", "fp", "tn", "fn")
)


class NormNumber(NamedTuple):
    """What a norm looks at in one setting: of the two groups, or group, that decide."""

    setting: SettingName
    groups: tuple[str, ...]
    value: float | None  # of two groups: first minus second
    error: float | None
    interval: tuple[float, float] | None
    why: str | None  # why the number cannot be compared


class Norm(NamedTuple):
    """A norm, its numbers, and which setting it prefers."""

    key: str
    name: str  # of the norm; several measures share one
    measure: str
    numbers: list[NormNumber]
    answer: Answer
    settings: list[SettingName]  # the preferred one, or those that are tied
    why: str | None  # why nothing is preferred


class _Candidates(NamedTuple):
    """All pairs, or all groups, of one setting, of which the worst counts."""

    groups: Groups
    value: FloatArray
    v_now: FloatArray
    v_train: FloatArray
    degrees_of_freedom: float
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """One setting of the audited release, measured as a norm may ask."""

    panel: Panel
    plan: Plan
    attack: str
    inflation: FloatArray
    why_nothing: str | None  # why no number of the release counts
    why_no_exposure: str | None
    is_beyond_null: bool  # Delta PCER of some pair

    @property
    def pairs(self) -> Groups:
        """All pairs of groups."""
        return [*combinations(range(len(self.panel.group_names)), 2)]

    @property
    def each(self) -> Groups:
        """All groups, one by one."""
        return [(group,) for group in range(len(self.panel.group_names))]

    @cached_property
    def gap(self) -> Measured:
        """By the paper's attack."""
        return self.measured(GAP.name)

    def measured(self, attack: str) -> Measured:
        """By an attack."""
        return measure_panel(
            self.panel, self.plan, attack, variance_inflation=self.inflation
        )

    def benefit(self, name: str) -> Benefit:
        """A rate by the name of its kind; of ``WRONG`` from accuracies."""
        if name != WRONG.name:
            return benefit_of(
                self.panel, self.plan.model_copy(update={"benefit": name})
            )
        panel = self.panel
        n = panel.n_train + panel.n_test
        n_right = panel.train_accuracy * panel.n_train
        n_right = n_right + panel.test_accuracy * panel.n_test
        return Benefit(1 - panel.test_accuracy, panel.n_test, n, 1 - n_right / n, WRONG)


# What the norms look at


def _of_rates(setting: _Setting, name: str, groups: Groups) -> _Candidates:
    """Rates of groups, or their differences."""
    benefit = setting.benefit(name)
    received = received_of(setting.panel, benefit, setting.inflation)
    rates = disparity.combination(groups)
    mean = by_split(benefit.rate, setting.panel.split).mean(axis=0)
    return _Candidates(
        groups,
        rates.of(mean),
        received.variance_now(rates),
        received.variance_train(rates),
        received.degrees_of_freedom,
        setting.why_nothing,
    )


def _odds(setting: _Setting) -> _Candidates:
    """Differences of true and of false positive rates: the larger is the odds gap."""
    parts = [
        _of_rates(setting, name, setting.pairs)
        for name in ("true_positive_rate", "false_positive_rate")
    ]
    first, second = parts
    if setting.panel.test is None:  # without counts there is no such rate
        return first._replace(value=np.full(len(setting.pairs), np.nan))
    return _Candidates(
        [*first.groups, *second.groups],
        np.append(first.value, second.value),
        np.append(first.v_now, second.v_now),
        np.append(first.v_train, second.v_train),
        first.degrees_of_freedom,
        first.why,
    )


def _exposure_gap(setting: _Setting, attack: str) -> _Candidates:
    """Differences of exposures by an attack."""
    measured = setting.measured(attack)
    pairs = [(first, second) for first, second in setting.pairs]
    found = compare_pairs(measured, tuple(pairs)).exposure
    return _without_training(setting, setting.pairs, -found.value, found.variance_now)


def _exposures(setting: _Setting) -> _Candidates:
    """Exposures by the attack whose numbers people see."""
    measured = setting.measured(setting.attack)
    unknown = np.full(len(setting.each), np.nan)
    if measured.exposed is None:
        return _without_training(setting, setting.each, unknown, unknown)
    is_enough = measured.has_enough_records
    value = np.where(is_enough, measured.exposed.value, np.nan)
    return _without_training(
        setting, setting.each, value, measured.exposed.interval_variance
    )


def _without_training(
    setting: _Setting,
    groups: Groups,
    value: FloatArray,
    variance: FloatArray,
) -> _Candidates:
    why = setting.why_no_exposure
    return _Candidates(groups, value, variance, np.zeros_like(value), np.inf, why)


def _ratios(setting: _Setting, groups: Groups) -> _Candidates:
    """PCER of groups, or Delta PCER of pairs, by the gap, with its error."""
    found = disparity.ratios_of(setting.gap, groups)
    why = setting.why_no_exposure or _why_no_ratio(setting)
    return _Candidates(groups, *found, why)


def _why_no_ratio(setting: _Setting) -> str | None:
    """Why Delta PCER says nothing about exposures here."""
    pairs = [(first, second) for first, second in setting.pairs]
    if setting.gap.below_floor(pairs).all():
        return say("norm", "at_the_floor")
    if not setting.is_beyond_null:
        return say("norm", "inside_null")
    return None


# The norms


class _Measure(NamedTuple):
    """What a norm looks at, and by which sign a larger value is worse.

    ``worse`` is 0 where distance from 0 is what counts, "outcome" where it is 1 for a
    harm and -1 for a benefit.
    """

    key: str
    of: Callable[[_Setting], _Candidates]
    worse: Literal[-1, 0, 1, "outcome"]


MEASURES: Final = (
    _Measure("parity", lambda s: _of_rates(s, POSITIVE_RATE, s.pairs), 0),
    _Measure("odds", _odds, 0),
    _Measure("gap_apart", lambda s: _exposure_gap(s, GAP.name), 0),
    _Measure("attack_apart", lambda s: _exposure_gap(s, s.attack), 0),
    _Measure("compensation", lambda s: _ratios(s, s.pairs), 0),
    _Measure("worst_rate", lambda s: _of_rates(s, s.plan.benefit, s.each), "outcome"),
    _Measure("worst_error", lambda s: _of_rates(s, WRONG.name, s.each), 1),
    _Measure("worst_exposure", _exposures, 1),
    _Measure("worst_ratio", lambda s: _ratios(s, s.each), -1),
)


def norms(audit: Audit) -> list[Norm]:
    """Every norm, with its numbers in every setting, and which setting it prefers.

    The attack's row is left out where the attack is the gap, which has its own.
    """
    settings = _settings(audit)
    found = [_norm(measure, audit, settings) for measure in MEASURES]
    if audit.attack != GAP.name:
        return found
    return [norm for norm in found if norm.key != "attack_apart"]


def _settings(audit: Audit) -> list[_Setting]:
    release = audit.sources[0]
    inflation = release.kept(ReleaseArrays).variance_inflation
    if inflation is None:
        inflation = np.ones(len(release.subject.groups))
    why_nothing = None
    if any(finding.caps_verdict for finding in audit.declarations):
        why_nothing = say("norm", "contradicted")
    why_no_exposure = None if is_random(release) else say("norm", "not_random")
    return [
        _Setting(
            panel=panel,
            plan=audit.plan,
            attack=audit.attack,
            inflation=inflation,
            why_nothing=why_nothing,
            why_no_exposure=why_nothing or why_no_exposure,
            is_beyond_null=is_beyond_null,
        )
        for panel, is_beyond_null in zip(panels(release), _beyond(audit), strict=True)
    ]


def _beyond(audit: Audit) -> list[bool]:
    """By setting, whether Delta PCER of some pair is outside its null."""
    published = [setting for model in audit.published for setting in model.settings]
    return [
        any(pair.pcer_disparity.is_beyond_null for pair in setting.pairs)
        for setting in published
    ]


def _norm(measure: _Measure, audit: Audit, settings: Sequence[_Setting]) -> Norm:
    is_harm = audit.plan.outcome_of(audit.subject.prediction_is) == "harm"
    worse = _sign(measure, is_harm=is_harm)
    names = [name.name for name in audit.settings]
    numbers = []
    for setting, name in zip(settings, names, strict=True):
        numbers.append(_number(measure.of(setting), worse, setting.panel, name))
    preferred = _preferred(numbers, worse)
    if measure.key == "worst_ratio" and is_harm:
        preferred = _Preferred("not_defined", [], say("norm", "harm"))
    return Norm(
        key=measure.key,
        name=say("norm_names", measure.key),
        measure=say("norm_measures", measure.key),
        numbers=numbers,
        answer=preferred.answer,
        settings=[names[place] for place in preferred.places],
        why=preferred.why,
    )


def _sign(measure: _Measure, *, is_harm: bool) -> int:
    if measure.worse != "outcome":
        return measure.worse
    return 1 if is_harm else -1


def _loss(value: FloatArray, worse: int) -> FloatArray:
    """What is worse is larger; 0 stands for the distance from 0."""
    return np.abs(value) if worse == 0 else worse * value


def _number(
    found: _Candidates, worse: int, panel: Panel, name: SettingName
) -> NormNumber:
    """The worst of all pairs or groups of a setting."""
    if not np.isfinite(found.value).all():
        why = found.why or say("norm", "not_given")
        return NormNumber(name, (), None, None, None, why)
    worst = int(_loss(found.value, worse).argmax())
    groups = tuple(panel.group_names[group] for group in found.groups[worst])
    value = float(found.value[worst])
    v_now = found.v_now[worst]
    v_train = found.v_train[worst]
    if not np.isfinite(v_now + v_train):
        why = found.why or say("norm", "no_error")
        return NormNumber(name, groups, value, None, None, why)
    half = float(
        half_width(
            v_now, v_train, tail=TAIL, degrees_of_freedom=found.degrees_of_freedom
        )
    )
    error = float(np.sqrt(v_now + v_train))
    return NormNumber(
        name, groups, value, error, (value - half, value + half), found.why
    )


class _Preferred(NamedTuple):
    """An answer, the settings it is about by position, and why it prefers none."""

    answer: Answer
    places: list[int]
    why: str | None


def _preferred(numbers: Sequence[NormNumber], worse: int) -> _Preferred:
    """The setting with the least loss, if it beats all others."""
    if len(numbers) == 1:
        return _Preferred("cannot_tell", [], say("norm", "one_setting"))
    for number in numbers:
        if number.why is not None:
            where = number.setting.in_sentence
            return _Preferred("cannot_tell", [], f"{where} {number.why}")
    loss = _loss(np.array([number.value for number in numbers]), worse)
    error = np.array([number.error for number in numbers])
    best = int(loss.argmin())
    is_beaten = loss - loss[best] > BEATS * np.hypot(error, error[best])
    places = np.flatnonzero(~is_beaten).tolist()
    return _Preferred("prefers" if places == [best] else "tied", places, None)
