"""What do the p-values of an audit show together, after Holm?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

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
from pcer.release.records import Outcome
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE, holm, upper_p


class PlaceboCheck(Record):
    """What the release says of placebo groups and permuted labels, for a pair and one attack."""

    n_draws: int
    n_exposure: int | None  # placebo groups whose exposures differ
    n_ratio: int | None
    n_double: int | None
    n_any: int | None  # exposure or ratio, in any setting and pair
    exposure_p: float | None
    exposure_p_within_labels: float | None
    ratio_p: float | None
    ratio_p_within_labels: float | None


Statement = Literal["exposure", "outcomes", "double", "ratio"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """p-values and what follows from them; NaN where a test cannot be made.

    Arrays are (setting, group) or (setting, pair). One or two attacks decide. Values
    and errors are those of the first, the ratio is by the first, and whether exposures
    are detected or differ is decided by the attack with the smallest p-value. What
    p-values are adjusted over stands beside them; those alone are adjusted over the
    attacks alone.
    """

    cost_p: FloatArray  # attacks, settings and groups
    cost_p_alone: FloatArray
    resolved: BoolArray
    detected_by: IntArray  # (setting, group) which attack has the smallest p-value
    exposure: (
        PairDifference  # attacks, settings and pairs, with four fifths of the level
    )
    benefit: PairDifference  # settings and pairs
    # likewise, with one fifth; what one does not need, the other gets
    cross: PairDifference
    decided_by: IntArray  # (setting, pair) which attack has the smallest p-value
    more_exposed: (
        IntArray  # (setting, pair) the group that this attack finds more exposed
    )
    # (attack, setting, pair) finds that group more exposed, too, beyond chance
    agree: BoolArray
    contradicted: (
        BoolArray  # another attack finds the other group more exposed, beyond chance
    )
    double_p: FloatArray  # the larger of those of exposure and benefit
    double_p_alone: FloatArray
    exposures_differ: BoolArray
    benefits_differ: BoolArray
    ratios_differ: BoolArray
    double: IntArray  # the doubly disadvantaged group, -1 for none
    equal_p: (
        FloatArray  # of "equal within the margin", settings and pairs; NaN without one
    )
    # By setting, pair and statement, why it does not count although its p-value is
    # small.
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
    def smallest_p(self) -> tuple[float, float]:
        """The smallest adjusted p-value of exposures and ratios, and of benefits; 1 if none."""
        families = (self.exposure.p_value, self.cross.p_value), self.benefit.p_value
        exposures_and_ratios, benefits = (
            float(np.nanmin([*np.ravel(p), 1.0])) for p in families
        )
        return exposures_and_ratios, benefits


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A release with every test of its costs made, before it is judged.

    Where its counts contradict what it says about its splits, nothing follows from the
    p-values.
    """

    release: Release
    plan: Plan
    panels: tuple[Panel, ...]
    pairs: tuple[Pair, ...]
    findings: Sequence[DeclarationFinding]
    attacks: tuple[
        str, ...
    ]  # those that decide; the first is the one whose numbers people see
    measured: Mapping[str, Sequence[Measured]]
    tests: Mapping[str, AttackTests]
    # What the gap of a setting would be by chance alone; drawn once, when asked.
    chance: Callable[[int], Any]

    @property
    def cost(self) -> str:
        """The attack whose numbers people see."""
        return self.attacks[0]

    @property
    def contradiction(self) -> str | None:
        """What in the release contradicts its own counts, so that nothing can be told of it."""
        return next(
            (found.sentence for found in self.findings if found.caps_verdict), None
        )

    @cached_property
    def evidence(self) -> Mapping[tuple[str, ...], Evidence]:
        """What the deciding attacks show together, and what each carried attack shows alone."""
        outcome = self.plan.outcome_of(self.release.subject.outcome)
        evidence = {}
        for attacks in dict.fromkeys((self.attacks, *((cost,) for cost in self.tests))):
            tests = [self.tests[attack] for attack in attacks]
            found = decide(tests, self.pairs, outcome=outcome, margin=self.plan.margin)
            if self.contradiction is not None:
                statements = (
                    "resolved",
                    "ratios_differ",
                    "exposures_differ",
                    "benefits_differ",
                )
                none = {
                    name: np.zeros_like(getattr(found, name)) for name in statements
                }
                found = replace(found, double=np.full_like(found.double, -1), **none)
            evidence[attacks] = found
        return evidence

    def placebo(self, setting: int, attack: str, pair: int) -> PlaceboCheck | None:
        """What the release says of placebo groups for a setting, an attack and a pair."""
        # Ratios and double disadvantages were tried with the positive rate, with no
        # other benefit.
        panel = self.panels[setting]
        is_of_rates = self.plan.benefit == "positive_rate"
        names = {panel.group_names[group] for group in self.pairs[pair]}
        for row in self.release.placebo:
            key = row.model, row.epsilon, row.proxy
            if key == (panel.model, stated_epsilon(panel), attack) and names == set(
                row.groups
            ):
                n_ratio = row.n_shown if row.n_ratio is None else row.n_ratio
                return PlaceboCheck(
                    n_draws=row.n_draws,
                    n_exposure=row.n_exposure,
                    n_double=row.n_double if is_of_rates else None,
                    n_any=row.n_any if is_of_rates else None,
                    n_ratio=n_ratio if is_of_rates else None,
                    exposure_p=row.exposure_p_value,
                    exposure_p_within_labels=row.exposure_p_value_within_labels,
                    ratio_p=row.p_value if is_of_rates else None,
                    ratio_p_within_labels=row.p_value_within_labels
                    if is_of_rates
                    else None,
                )
        return None


def decide(
    attacks: Sequence[AttackTests],
    pairs: tuple[Pair, ...],
    *,
    outcome: Outcome,
    margin: float | None = None,
) -> Evidence:
    """Adjust every p-value of the deciding attacks for the whole audit, and draw conclusions."""
    memorised = np.stack([p for p, _ in attacks])
    exposures = np.stack([tests.exposure.p_alone for _, tests in attacks])
    exposure, benefit, cross = attacks[0][1]
    cost_p, cost_p_alone, detected_by = _smallest(holm(memorised), memorised)
    parts = exposures.ravel(), cross.p_alone.ravel()
    shares = zip(parts, (EXPOSURE_SHARE, 1 - EXPOSURE_SHARE), strict=True)
    weights = [
        np.full(len(p), share / max(1, np.isfinite(p).sum())) for p, share in shares
    ]
    adjusted = holm(np.concatenate(parts), weights=np.concatenate(weights))
    all_exposure_p = adjusted[: exposures.size].reshape(exposures.shape)
    cross_p = adjusted[exposures.size :].reshape(cross.p_alone.shape)
    exposure_p, exposure_p_alone, decided_by = _smallest(all_exposure_p, exposures)
    benefit_p = holm(benefit.p_alone)
    resolved = cost_p <= SIGNIFICANCE
    # positive: the second group is the more exposed one, by the attack that decided
    found = np.stack([tests.exposure.value for _, tests in attacks])
    sign = np.take_along_axis(found, decided_by[None], axis=0)[0]
    opposite = (all_exposure_p <= SIGNIFICANCE) & (found * sign < 0)
    first, second = np.array(pairs, dtype=np.int64).T
    more_exposed = np.where(sign > 0, second, first)
    is_detected = np.take_along_axis(resolved, more_exposed, axis=1)
    worse = benefit.value if outcome == "harm" else -benefit.value
    both_p = ((exposure_p, benefit_p), (exposure_p_alone, benefit.p_alone))
    double_p, double_p_alone = (
        np.maximum(np.maximum(*p), np.where(sign * worse > 0, 0.0, 1.0)) for p in both_p
    )
    equal_p = np.full_like(exposure.value, np.nan)
    if margin is not None:  # two one-sided tests; nothing is shown where nothing varied
        p = upper_p(margin - np.abs(exposure.value), exposure.error)
        equal_p = holm(np.where(np.isfinite(exposure_p_alone), p, np.nan))
    return Evidence(
        cost_p=cost_p,
        cost_p_alone=cost_p_alone,
        resolved=resolved,
        detected_by=detected_by,
        exposure=exposure._replace(p_value=exposure_p, p_alone=exposure_p_alone),
        benefit=benefit._replace(p_value=benefit_p),
        cross=cross._replace(p_value=cross_p),
        decided_by=decided_by,
        more_exposed=more_exposed,
        agree=(all_exposure_p <= SIGNIFICANCE) & (found * sign > 0),
        contradicted=opposite.any(axis=0) & (exposure_p <= SIGNIFICANCE),
        double_p=double_p,
        double_p_alone=double_p_alone,
        exposures_differ=(exposure_p <= SIGNIFICANCE) & is_detected,
        benefits_differ=benefit_p <= SIGNIFICANCE,
        ratios_differ=(cross_p <= SIGNIFICANCE)
        & (resolved[:, first] | resolved[:, second]),
        double=np.where((double_p <= SIGNIFICANCE) & is_detected, more_exposed, -1),
        equal_p=equal_p,
    )


def _smallest(
    adjusted: FloatArray, alone: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Smallest p-value over the attacks (first axis): adjusted, over attacks alone, and whose."""
    by = np.argmin(np.where(np.isnan(alone), np.inf, alone), axis=0)
    least, own = (np.take_along_axis(p, by[None], axis=0)[0] for p in (adjusted, alone))
    return least, np.minimum(own * np.isfinite(alone).sum(axis=0), 1.0), by
