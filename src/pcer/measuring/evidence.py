"""What do all tests of an audit show together: p-values adjusted, and conclusions?

``decide`` adjusts the p-values of the attacks that decide (``group_differences``) by
Holm and draws the conclusions: ``Evidence``. Families, each of all settings:

    detected      attacks x settings x groups
    differences   exposures (attacks x settings x pairs) have ``EXPOSURE_SHARE`` of the
                  level, ratios (settings x pairs) the rest; what one does not need goes
                  to the other
    outcomes      benefits, settings x pairs

``alarms`` does the same for many families of made-up groups (``attacks.placebo``).
Called by ``tested``, the planner, comparisons and the benchmarks. Arrays are (setting,
group) or (setting, pair); those of several attacks have the attack as first axis. To
add a comparison: a field of ``PairTests``, and what ``decide`` concludes from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from pcer.measuring.exposure import Measured, Pair, measure_panel
from pcer.measuring.group_differences import (
    AttackTests,
    PairDifference,
    PairTests,
    stacked_tests,
)
from pcer.measuring.plan import Plan
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.panel import Panel
from pcer.release.records import Outcome
from pcer.statistics import (
    EXPOSURE_SHARE,
    SIGNIFICANCE,
    holm,
    holm_by_family,
    upper_p,
)

Statement = Literal["exposure", "outcomes", "double", "ratio"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """p-values and the conclusions from them; NaN where a test cannot be made.

    Values and errors are those of the first attack, and so is the ratio. Whether
    exposures are detected, or differ, is decided by the attack with the smallest
    p-value. P-values are adjusted over their family; those called ``alone`` over the
    attacks only.
    """

    detection_p: FloatArray
    detection_p_alone: FloatArray
    detected: BoolArray
    detected_by: IntArray  # (setting, group) the attack with the smallest p-value
    exposure: PairDifference
    benefit: PairDifference
    cross: PairDifference
    decided_by: IntArray  # (setting, pair) the attack with the smallest p-value
    more_exposed: IntArray  # (setting, pair) the group that this attack finds so
    p_by_attack: FloatArray  # (attack, setting, pair) of exposures, adjusted
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
    equal_p: FloatArray  # of "equal within the margin"; NaN without a margin
    # By setting, pair and statement: why it does not count though its p-value is small.
    reasons: Mapping[tuple[int, int, Statement], str] = field(default_factory=dict)

    @property
    def n_detection_tests(self) -> int:
        """Settings and groups that are tested for memorisation."""
        return int(np.isfinite(self.detection_p_alone).sum())

    @property
    def n_pair_tests(self) -> int:
        """Settings and pairs that are compared."""
        return int(np.isfinite(self.exposure.p_alone).sum())

    @property
    def smallest_p(self) -> tuple[float, float]:
        """The smallest adjusted p-value of exposures and ratios, and of outcomes.

        1 where there are none.
        """
        exposures_and_ratios = (self.exposure.p_value, self.cross.p_value)
        return (
            float(np.nanmin([*np.ravel(exposures_and_ratios), 1.0])),
            float(np.nanmin([*np.ravel(self.benefit.p_value), 1.0])),
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
    disadvantage is the same group in both, exposure and outcome. Of ``attacks``, one or
    two, people see the numbers of the first; ``pairs`` have the reference first. Groups
    count as equal up to ``margin``.
    """
    main = attacks[0].pairs
    memorised_p = np.stack([attack.memorised_p for attack in attacks])
    detection = _smallest_p(holm(memorised_p), memorised_p)
    detected = detection.p_value <= SIGNIFICANCE
    differences = _differences(attacks)
    exposure = main.exposure._replace(
        p_value=differences.exposure.p_value, p_alone=differences.exposure.p_alone
    )
    benefit = main.benefit._replace(p_value=holm(main.benefit.p_alone))
    worse = benefit.value if outcome == "harm" else -benefit.value
    is_same_group = differences.sign * worse > 0
    double_p = _larger_p(exposure.p_value, benefit.p_value, is_same_group)

    first, second = np.array(pairs, dtype=np.int64).T
    more_exposed = np.where(differences.sign > 0, second, first)
    is_detected = np.take_along_axis(detected, more_exposed, axis=1)
    is_double = (double_p <= SIGNIFICANCE) & is_detected
    return Evidence(
        detection_p=detection.p_value,
        detection_p_alone=detection.p_alone,
        detected=detected,
        detected_by=detection.attack,
        exposure=exposure,
        benefit=benefit,
        cross=main.cross._replace(p_value=differences.ratio_p),
        decided_by=differences.exposure.attack,
        more_exposed=more_exposed,
        p_by_attack=differences.p_by_attack,
        agree=differences.agree,
        contradicted=differences.contradicted,
        double_p=double_p,
        double_p_alone=_larger_p(exposure.p_alone, benefit.p_alone, is_same_group),
        exposures_differ=(exposure.p_value <= SIGNIFICANCE) & is_detected,
        benefits_differ=benefit.p_value <= SIGNIFICANCE,
        ratios_differ=(differences.ratio_p <= SIGNIFICANCE)
        & (detected[:, first] | detected[:, second]),
        double_disadvantage=np.where(is_double, more_exposed, -1),
        equal_p=_equal_p(exposure, margin),
    )


class _SmallestP(NamedTuple):
    """The smallest p-value of every test over the attacks."""

    p_value: FloatArray  # adjusted for the whole audit
    p_alone: FloatArray  # adjusted over the attacks: times how many of them tested
    attack: IntArray  # which attack has it


def _smallest_p(adjusted: FloatArray, unadjusted: FloatArray) -> _SmallestP:
    """Choose the attack (first axis) with the smallest unadjusted p-value.

    ``adjusted`` holds for the whole audit already (Holm over attacks, too);
    ``unadjusted`` is multiplied by the number of attacks that tested.
    """
    is_unknown = np.isnan(unadjusted)
    attack = np.argmin(np.where(is_unknown, np.inf, unadjusted), axis=0)
    p_value = np.take_along_axis(adjusted, attack[None], axis=0)[0]
    p_alone = np.take_along_axis(unadjusted, attack[None], axis=0)[0]
    n_attacks = np.isfinite(unadjusted).sum(axis=0)
    return _SmallestP(p_value, np.minimum(p_alone * n_attacks, 1.0), attack)


class _Differences(NamedTuple):
    """Exposures and ratios of all pairs, adjusted together; arrays (setting, pair)."""

    exposure: _SmallestP
    p_by_attack: FloatArray  # (attack, setting, pair)
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
        p_by_attack=adjusted_exposure_p,
        ratio_p=adjusted[exposure_p.size :].reshape(ratio_p.shape),
        sign=sign,
        agree=is_beyond & (value * sign > 0),
        contradicted=is_opposite & (smallest.p_value <= SIGNIFICANCE),
    )


def _larger_p(
    exposure_p: FloatArray, benefit_p: FloatArray, is_same_group: BoolArray
) -> FloatArray:
    """The larger p-value; 1 where both answers name different groups."""
    at_least = np.where(is_same_group, 0.0, 1.0)
    return np.maximum(np.maximum(exposure_p, benefit_p), at_least)


def _weights(p_values: FloatArray, share: float) -> FloatArray:
    """A share of the level, divided equally among the tests that can be made."""
    n_tests = max(1, np.isfinite(p_values).sum())
    return np.full(p_values.size, share / n_tests)


def _equal_p(exposure: PairDifference, margin: float | None) -> FloatArray:
    """Two one-sided tests of |difference| < margin, after Holm; NaN without."""
    if margin is None:
        return np.full_like(exposure.value, np.nan)
    p = upper_p(margin - np.abs(exposure.value), exposure.error)
    return holm(np.where(np.isfinite(exposure.p_alone), p, np.nan))


# Alarms of many families


class Alarms(NamedTuple):
    """What would be said about pairs: arrays (setting, pair)."""

    exposures_differ: BoolArray
    benefits_differ: BoolArray
    ratios_differ: BoolArray
    double_disadvantage: IntArray  # the doubly disadvantaged group, -1 for none


def alarms(  # noqa: PLR0913 # front door of the room
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    plan: Plan,
    *,
    attack: str,
    outcome: Outcome,
    n_families: int = 1,
    variance_inflation: FloatArray | None = None,
    only_double: bool = False,
) -> Alarms:
    """What audits of many families of pairs would say by one attack: fast.

    ``pairs`` are of all families, in blocks of equal size, each of which is audited
    alone; ``variance_inflation`` is as in ``measure_panel``. Who wants double
    disadvantages only gets the rest where some outcomes differ.
    """
    outcome = plan.outcome_of(outcome)
    measured = [
        measure_panel(panel, plan, attack, variance_inflation=variance_inflation)
        for panel in panels
    ]
    tests = stacked_tests(measured, pairs)
    shape = tests.cross.value.shape
    none = np.zeros(shape, dtype=np.bool_)
    raised = Alarms(none, none.copy(), none.copy(), np.full(shape, -1))
    n_pairs = len(pairs) // n_families
    starts = range(0, len(pairs), n_pairs)
    families = [slice(start, start + n_pairs) for start in starts]
    raised.benefits_differ[:] = _benefits_differ(tests, n_families)
    may_alarm = _may_alarm(tests, n_families)
    if only_double:
        by_family = raised.benefits_differ.reshape(shape[0], n_families, -1)
        may_alarm &= by_family.any(axis=(0, 2))
    for number in np.flatnonzero(may_alarm):
        family = families[number]
        family_pairs = np.array(pairs[family])
        found = _family_alarms(
            measured, _pairs_of(tests, family), family_pairs, outcome
        )
        raised.exposures_differ[:, family] = found.exposures_differ
        raised.ratios_differ[:, family] = found.ratios_differ
        raised.double_disadvantage[:, family] = found.double_disadvantage
    return raised


def _benefits_differ(tests: PairTests, n_families: int) -> BoolArray:
    """(setting, pair) whether outcomes differ, by Holm within every family."""
    p = tests.benefit.p_alone
    by_family = p.reshape(len(p), n_families, -1).swapaxes(0, 1)
    adjusted = holm_by_family(by_family.reshape(n_families, -1))
    do_differ = (adjusted <= SIGNIFICANCE).reshape(by_family.shape)
    return do_differ.swapaxes(0, 1).reshape(p.shape)


def _may_alarm(tests: PairTests, n_families: int) -> BoolArray:
    """Families (family,) in which some exposure or ratio passes Bonferroni.

    The others say nothing, so their exact p-values of memorisation, which take long,
    are not needed.
    """
    n_settings = len(tests.cross.value)
    may_alarm = np.zeros(n_families, dtype=np.bool_)
    for kind in (tests.exposure, tests.cross):
        p = kind.p_alone.reshape(n_settings, n_families, -1)
        n_tests = np.maximum(np.isfinite(p).sum(axis=(0, 2)), 1)
        may_alarm |= (p <= (SIGNIFICANCE / n_tests)[:, None]).any(axis=(0, 2))
    return may_alarm


def _pairs_of(tests: PairTests, family: slice) -> PairTests:
    kinds = []
    for kind in tests:
        kinds.append(PairDifference(*[part[:, family] for part in kind]))
    return PairTests(*kinds)


def _family_alarms(
    measured: Sequence[Measured],
    tests: PairTests,
    pairs: IntArray,
    outcome: Outcome,
) -> Alarms:
    """The alarms of one family: only its own groups, (pair, side), are tested."""
    groups, numbers = np.unique(pairs, return_inverse=True)
    memorised_p = np.stack([setting.memorised_p(groups) for setting in measured])
    renumbered = tuple((int(i), int(j)) for i, j in numbers.reshape(-1, 2))
    found = decide([AttackTests(memorised_p, tests)], renumbered, outcome=outcome)
    return Alarms(
        exposures_differ=found.exposures_differ,
        benefits_differ=found.benefits_differ,
        ratios_differ=found.ratios_differ,
        double_disadvantage=np.where(
            found.double_disadvantage >= 0, groups[found.double_disadvantage], -1
        ),
    )
