"""What do the p-values of an audit show together, after Holm?

``auditing.audit`` collects every test of a release in a ``Tested``; ``decide`` adjusts
the p-values of the attacks that decide and draws the conclusions (``Evidence``);
``refutations`` then withdraws alarms that something else explains. The planner and the
benchmarks call ``decide`` as well.

All settings are tested at once, so that Holm sees a whole family. There are three:

    detected      "is anything memorised about these records?", attacks x settings x
                  groups
    differences   "do the groups differ?", about people like these: exposures (attacks x
                  settings x pairs) have ``EXPOSURE_SHARE`` of the level, ratios
                  (settings x pairs) the rest; what one does not need goes to the other
    outcomes      benefits, settings x pairs

Arrays are (setting, group) or (setting, pair); those of several attacks have the attack
as first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from pcer.files import Record
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.checks.table import DeclarationFinding
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import Measured
from pcer.measuring.pair_tests import AttackTests, PairDifference
from pcer.measuring.plan import Plan
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.release.records import Outcome, Placebo
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE, holm, upper_p

Statement = Literal["exposure", "outcomes", "double", "ratio"]


class SmallestP(NamedTuple):
    """A release's smallest adjusted p-values; 1 where there are none."""

    exposures_and_ratios: float
    outcomes: float


class PlaceboCheck(Record):
    """What a release says of made-up groups, for one setting, attack and pair.

    Counts are of made-up groups that raise an alarm; p-values are of permuted groups.
    """

    n_draws: int
    n_exposure: int | None  # made-up groups whose exposures differ
    n_ratio: int | None
    n_double: int | None
    n_any: int | None  # exposure or ratio, in any setting and pair
    exposure_p: float | None
    exposure_p_within_labels: float | None
    ratio_p: float | None
    ratio_p_within_labels: float | None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """p-values and the conclusions from them; NaN where a test cannot be made.

    Arrays are (setting, group) or (setting, pair). One or two attacks decide. Values
    and errors are those of the first attack, and so is the ratio. Whether exposures are
    detected, or differ, is decided by the attack with the smallest p-value. A comment
    says over what a p-value is adjusted; those called ``alone`` are adjusted over the
    attacks only.
    """

    cost_p: FloatArray  # attacks, settings and groups
    cost_p_alone: FloatArray
    resolved: BoolArray
    detected_by: IntArray  # (setting, group) the attack with the smallest p-value
    # Attacks, settings and pairs, with four fifths of the level.
    exposure: PairDifference
    benefit: PairDifference  # settings and pairs
    # Settings and pairs, with one fifth of the level.
    cross: PairDifference
    decided_by: IntArray  # (setting, pair) the attack with the smallest p-value
    # (setting, pair) the group that this attack finds more exposed.
    more_exposed: IntArray
    # (attack, setting, pair) finds the same group more exposed, beyond chance.
    agree: BoolArray
    # Another attack finds the other group more exposed, beyond chance.
    contradicted: BoolArray
    double_p: FloatArray  # the larger p-value of exposure and benefit
    double_p_alone: FloatArray
    exposures_differ: BoolArray
    benefits_differ: BoolArray
    ratios_differ: BoolArray
    double_disadvantage: IntArray  # the doubly disadvantaged group, -1 for none
    # Of "equal within the margin", settings and pairs; NaN without a margin.
    equal_p: FloatArray
    # By setting, pair and statement: why it does not count though its p-value is small.
    reasons: Mapping[tuple[int, int, Statement], str] = field(default_factory=dict)

    @property
    def n_cost_tests(self) -> int:
        """Settings and groups that are tested for memorisation."""
        return int(np.isfinite(self.cost_p_alone).sum())

    @property
    def n_pair_tests(self) -> int:
        """Settings and pairs that are compared."""
        return int(np.isfinite(self.exposure.p_alone).sum())

    @property
    def smallest_p(self) -> SmallestP:
        """The smallest adjusted p-value of each family of differences."""
        exposures_and_ratios = (self.exposure.p_value, self.cross.p_value)
        return SmallestP(
            float(np.nanmin([*np.ravel(exposures_and_ratios), 1.0])),
            float(np.nanmin([*np.ravel(self.benefit.p_value), 1.0])),
        )


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A release with every test of its attacks made, before it is judged.

    Where its counts contradict what it says about its splits, nothing follows from the
    p-values.
    """

    release: Release
    plan: Plan
    panels: tuple[Panel, ...]
    pairs: tuple[Pair, ...]
    findings: Sequence[DeclarationFinding]
    # Those that decide; people see the numbers of the first.
    attacks: tuple[str, ...]
    measured: Mapping[str, Sequence[Measured]]
    tests: Mapping[str, AttackTests]
    # The null of a setting's gap and disparity; drawn once, when asked for.
    draw_null: Callable[[int], Any]

    @property
    def cost(self) -> str:
        """The attack whose numbers people see."""
        return self.attacks[0]

    @property
    def contradiction(self) -> str | None:
        """What in the release contradicts its own counts, so that no test counts."""
        for finding in self.findings:
            if finding.caps_verdict:
                return finding.sentence
        return None

    @cached_property
    def evidence(self) -> Mapping[tuple[str, ...], Evidence]:
        """What the deciding attacks show together, and each carried attack alone."""
        alone = [(attack,) for attack in self.tests]
        return {
            attacks: self._evidence_of(attacks)
            for attacks in dict.fromkeys((self.attacks, *alone))
        }

    def _evidence_of(self, attacks: tuple[str, ...]) -> Evidence:
        evidence = decide(
            [self.tests[attack] for attack in attacks],
            self.pairs,
            outcome=self.plan.outcome_of(self.release.subject.outcome),
            margin=self.plan.margin,
        )
        if self.contradiction is None:
            return evidence
        return replace(
            evidence,
            resolved=np.zeros_like(evidence.resolved),
            exposures_differ=np.zeros_like(evidence.exposures_differ),
            benefits_differ=np.zeros_like(evidence.benefits_differ),
            ratios_differ=np.zeros_like(evidence.ratios_differ),
            double_disadvantage=np.full_like(evidence.double_disadvantage, -1),
        )

    def placebo(self, setting: int, attack: str, pair: int) -> PlaceboCheck | None:
        """What the release says of made-up groups for a setting, attack and pair."""
        panel = self.panels[setting]
        key = (panel.model, stated_epsilon(panel), attack)
        names = {panel.group_names[group] for group in self.pairs[pair]}
        for row in self.release.placebo:
            is_same = (row.model, row.epsilon, row.proxy) == key
            if is_same and set(row.groups) == names:
                return _placebo_check(row, self.plan)
        return None


def _placebo_check(row: Placebo, plan: Plan) -> PlaceboCheck:
    """A release's row; without ratios where the plan has another benefit."""
    exposures_alone = PlaceboCheck(
        n_draws=row.n_draws,
        n_exposure=row.n_exposure,
        n_ratio=None,
        n_double=None,
        n_any=None,
        exposure_p=row.exposure_p_value,
        exposure_p_within_labels=row.exposure_p_value_within_labels,
        ratio_p=None,
        ratio_p_within_labels=None,
    )
    # Ratios and double disadvantages were tried with the positive rate only.
    if plan.benefit != "positive_rate":
        return exposures_alone
    n_ratio = row.n_shown if row.n_ratio is None else row.n_ratio
    return exposures_alone.model_copy(
        update={
            "n_ratio": n_ratio,
            "n_double": row.n_double,
            "n_any": row.n_any,
            "ratio_p": row.p_value,
            "ratio_p_within_labels": row.p_value_within_labels,
        }
    )


def decide(
    attacks: Sequence[AttackTests],
    pairs: tuple[Pair, ...],
    *,
    outcome: Outcome,
    margin: float | None = None,
) -> Evidence:
    """Adjust the p-values of the deciding attacks for the whole audit, and conclude.

    Groups differ in exposure where the difference is beyond chance and the more exposed
    group is detected; in their ratio where either group is detected. Double
    disadvantage is the same group in both, exposure and outcome: its p-value is the
    larger of the two, or 1 where they name different groups.

    Args:
        attacks: one or two, the first being the one whose numbers people see.
        pairs: groups as numbers, the reference first.
        outcome: whether more of the benefit is good or bad for people.
        margin: difference of exposures up to which groups count as equal.
    """
    main = attacks[0].pairs
    memorised_p = np.stack([attack.memorised_p for attack in attacks])
    detection = _smallest_p(holm(memorised_p), memorised_p)
    resolved = detection.p_value <= SIGNIFICANCE
    differences = _differences(attacks)
    smallest = differences.exposure
    exposure = main.exposure._replace(
        p_value=smallest.p_value, p_alone=smallest.p_alone
    )
    benefit = main.benefit._replace(p_value=holm(main.benefit.p_alone))
    double = _double(differences, benefit, outcome)

    first, second = np.array(pairs, dtype=np.int64).T
    more_exposed = np.where(differences.sign > 0, second, first)
    is_detected = np.take_along_axis(resolved, more_exposed, axis=1)
    is_either_detected = resolved[:, first] | resolved[:, second]
    is_double = (double.p_value <= SIGNIFICANCE) & is_detected
    return Evidence(
        cost_p=detection.p_value,
        cost_p_alone=detection.p_alone,
        resolved=resolved,
        detected_by=detection.attack,
        exposure=exposure,
        benefit=benefit,
        cross=main.cross._replace(p_value=differences.ratio_p),
        decided_by=smallest.attack,
        more_exposed=more_exposed,
        agree=differences.agree,
        contradicted=differences.contradicted,
        double_p=double.p_value,
        double_p_alone=double.p_alone,
        exposures_differ=(exposure.p_value <= SIGNIFICANCE) & is_detected,
        benefits_differ=benefit.p_value <= SIGNIFICANCE,
        ratios_differ=(differences.ratio_p <= SIGNIFICANCE) & is_either_detected,
        double_disadvantage=np.where(is_double, more_exposed, -1),
        equal_p=_equal_p(exposure, margin),
    )


class _SmallestP(NamedTuple):
    """The smallest p-value of every test over the attacks."""

    p_value: FloatArray  # adjusted for the whole audit
    p_alone: FloatArray  # adjusted over the attacks: times how many of them tested
    attack: IntArray  # which attack has it


def _smallest_p(adjusted: FloatArray, unadjusted: FloatArray) -> _SmallestP:
    """Choose the attack (first axis) with the smallest unadjusted p-value."""
    is_unknown = np.isnan(unadjusted)
    attack = np.argmin(np.where(is_unknown, np.inf, unadjusted), axis=0)
    p_value = np.take_along_axis(adjusted, attack[None], axis=0)[0]
    p_alone = np.take_along_axis(unadjusted, attack[None], axis=0)[0]
    n_attacks = np.isfinite(unadjusted).sum(axis=0)
    return _SmallestP(p_value, np.minimum(p_alone * n_attacks, 1.0), attack)


class _Differences(NamedTuple):
    """Exposures and ratios of all pairs, adjusted together; arrays (setting, pair)."""

    exposure: _SmallestP
    ratio_p: FloatArray
    # Of the deciding attack's difference; positive: the second group is more exposed.
    sign: FloatArray
    # (attack, setting, pair) has that sign, beyond chance.
    agree: BoolArray
    # Some attack has the opposite sign, beyond chance.
    contradicted: BoolArray


def _differences(attacks: Sequence[AttackTests]) -> _Differences:
    """Weighted Holm: exposures of all attacks, and the first attack's ratios."""
    value = np.stack([attack.pairs.exposure.value for attack in attacks])
    exposure_p = np.stack([attack.pairs.exposure.p_alone for attack in attacks])
    ratio_p = attacks[0].pairs.cross.p_alone

    p = np.concatenate([exposure_p.ravel(), ratio_p.ravel()])
    weights = np.concatenate(
        [
            _weights(exposure_p, EXPOSURE_SHARE),
            _weights(ratio_p, 1 - EXPOSURE_SHARE),
        ]
    )
    adjusted = holm(p, weights=weights)
    adjusted_exposure_p = adjusted[: exposure_p.size].reshape(exposure_p.shape)
    smallest = _smallest_p(adjusted_exposure_p, exposure_p)

    sign = np.take_along_axis(value, smallest.attack[None], axis=0)[0]
    is_beyond = adjusted_exposure_p <= SIGNIFICANCE
    is_opposite = (is_beyond & (value * sign < 0)).any(axis=0)
    return _Differences(
        exposure=smallest,
        ratio_p=adjusted[exposure_p.size :].reshape(ratio_p.shape),
        sign=sign,
        agree=is_beyond & (value * sign > 0),
        contradicted=is_opposite & (smallest.p_value <= SIGNIFICANCE),
    )


class _Double(NamedTuple):
    """Whether the more exposed group is worse served, too; arrays (setting, pair)."""

    p_value: FloatArray
    p_alone: FloatArray


def _double(
    differences: _Differences, benefit: PairDifference, outcome: Outcome
) -> _Double:
    """The larger p-value of both answers; 1 where they name different groups."""
    worse = benefit.value if outcome == "harm" else -benefit.value
    at_least = np.where(differences.sign * worse > 0, 0.0, 1.0)
    exposure = differences.exposure
    adjusted = np.maximum(exposure.p_value, benefit.p_value)
    alone = np.maximum(exposure.p_alone, benefit.p_alone)
    return _Double(np.maximum(adjusted, at_least), np.maximum(alone, at_least))


def _weights(p_values: FloatArray, share: float) -> FloatArray:
    """A share of the level, divided equally among the tests that can be made."""
    n_tests = max(1, np.isfinite(p_values).sum())
    return np.full(p_values.size, share / n_tests)


def _equal_p(exposure: PairDifference, margin: float | None) -> FloatArray:
    """Two one-sided tests of |difference| < margin, after Holm; NaN without a margin.

    Nothing is shown where nothing varied.
    """
    if margin is None:
        return np.full_like(exposure.value, np.nan)
    p = upper_p(margin - np.abs(exposure.value), exposure.error)
    return holm(np.where(np.isfinite(exposure.p_alone), p, np.nan))
