"""Every test of an audit, made over all settings at once so that Holm sees the whole family.

Two questions, two errors. "Is anything memorised about these records?" meets the luck
of the split alone. "Do the groups differ?" is about people like these. Arrays are
(setting, group) or (setting, pair); pairs may come in families of their own, as those
of placebo attributes do.

An alarm is downgraded where something that has nothing to do with the groups would have
raised it too: placebo groups, permuted groups, other attributes, the floor. Its p-value
stays as it is, so that anyone can recompute it. Each statement is held against its own
check only: exposures against permuted exposures, ratios against permuted ratios. A
double disadvantage rests on the difference of exposures. In a harm task the group with
the worse rate and the higher exposure may well have the same ratio, so the check of
ratios says nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from pcer.auditing import variances
from pcer.auditing.checks import stated_epsilon
from pcer.auditing.file import DeclarationFinding, PlaceboCheck
from pcer.auditing.measure import Measured, Pair, measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.words import p_words
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.format import Outcome, Release
from pcer.release.panel import Panel
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE, holm, two_sided_p, upper_p

# Placebo groups are too many where alarms of 5 % have at most this chance: from 19 of
# 200 on.
TOO_MANY = 0.01
TOGETHER = (
    "within chance when judged together with the other attributes of the same records"
)
Statement = Literal["exposure", "outcomes", "double", "ratio"]


class PairDifference(NamedTuple):
    """Second minus first of every pair, the error for people like these, and its p-values."""

    value: FloatArray
    error: FloatArray
    p_value: FloatArray  # adjusted for the whole audit, once that is known
    p_alone: FloatArray  # adjusted over the attacks alone


class PairTests(NamedTuple):
    """Tests of pairs: one setting's, or those of all with the setting as first axis."""

    exposure: PairDifference
    benefit: PairDifference
    # l = R_i c_j - R_j c_i; positive: the second group has the lower ratio
    cross: PairDifference


# One attack's unadjusted tests: p-values (setting, group) of "is anything memorised
# about these records?", and comparisons (setting, pair).
AttackTests = tuple[FloatArray, PairTests]


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


class Alarms(NamedTuple):
    """What would be said about pairs: arrays (setting, pair)."""

    exposures_differ: BoolArray
    benefits_differ: BoolArray
    ratios_differ: BoolArray
    double: IntArray  # the doubly disadvantaged group, -1 for none


def attack_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, random: bool
) -> AttackTests:
    """Make the tests of one attack in every setting; without a random split only of benefits."""
    tests = _stacked(measured, pairs)
    memorised = np.stack([each.memorised_p() for each in measured])
    if random:
        return memorised, tests
    nothing = np.full_like(tests.cross.value, np.nan)
    unknown = {"p_value": nothing, "p_alone": nothing}
    exposure, cross = (
        kind._replace(**unknown) for kind in (tests.exposure, tests.cross)
    )
    return np.full_like(memorised, np.nan), PairTests(exposure, tests.benefit, cross)


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


def downgrade(
    tested: Tested,
    attacks: tuple[str, ...],
    *,
    family_p: tuple[float, float] | None = None,
) -> Evidence:
    """The evidence of some attacks without alarms that placebos, the family or the floor refute.

    ``family_p`` is of the release's strongest comparison of exposures or ratios, and of
    benefits, among all releases of the same records; None for one release alone.
    """
    strict = (
        tested.plan.policy is not None and tested.plan.policy.strict
    )  # believes no placebo
    evidence = tested.evidence[attacks]
    reasons = dict[tuple[int, int, Statement], str]()
    double = evidence.double.copy()
    differ: dict[Statement, BoolArray] = {
        "exposure": evidence.exposures_differ.copy(),
        "outcomes": evidence.benefits_differ.copy(),
        "ratio": evidence.ratios_differ.copy(),
    }
    within: list[str | None] = [
        None if p <= SIGNIFICANCE else f"{TOGETHER} ({p_words(p)})"
        for p in family_p or (0.0, 0.0)
    ]
    for key in zip(*np.nonzero(np.any([*differ.values()], axis=0)), strict=True):
        k = int(key[0])
        pair = int(key[1])
        by = attacks[evidence.decided_by[key]], attacks[0]
        exposure, ratio = (
            None if strict else tested.placebo(k, name, pair) for name in by
        )
        against: dict[Statement, str | None] = {
            "exposure": within[0] or _reason(exposure, "exposure_p", "n_exposure"),
            "outcomes": within[1],
            "ratio": within[0] or _reason(ratio, "ratio_p", "n_ratio"),
        }
        against = {what: against[what] for what in differ if differ[what][key]}
        if double[key] >= 0:  # it stands only where both answers do
            own = _reason(exposure, "exposure_p", "n_double")
            against["double"] = (
                against.get("exposure") or against.get("outcomes") or own
            )
        reasons |= {
            (k, pair, what): why for what, why in against.items() if why is not None
        }
        for what, of_pairs in differ.items():
            of_pairs[key] &= against.get(what) is None
        if tested.measured[attacks[0]][k].is_below_floor(tested.pairs[pair]):
            differ["ratio"][key] = False
        if against.get("double") is not None:
            double[key] = -1
    return replace(
        evidence,
        exposures_differ=differ["exposure"],
        benefits_differ=differ["outcomes"],
        ratios_differ=differ["ratio"],
        double=double,
        reasons=reasons,
    )


def _reason(check: PlaceboCheck | None, p_name: str, n_name: str) -> str | None:
    """Why an alarm does not count by the release's placebo groups; None if it does."""
    from scipy.special import bdtrc

    if check is None:
        return None
    p_value = getattr(check, p_name)
    n_alarms = getattr(check, n_name)
    if p_value is not None and p_value > SIGNIFICANCE:
        return f"randomly drawn groups differ as much (permutation {p_words(p_value)})"
    # the chance of so many alarms, or more, if each has the chance of 5 % that a test
    # may have
    if n_alarms and float(bdtrc(n_alarms - 1, check.n_draws, SIGNIFICANCE)) < TOO_MANY:
        return f"{n_alarms} of {check.n_draws} made-up groups raise this alarm, too"
    return None


def alarms(
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    plan: Plan,
    *,
    cost: str,
    outcome: Outcome,
    n_families: int = 1,
    inflation: FloatArray | None = None,
) -> Alarms:
    """What audits of each family of pairs, in equal blocks, would say by one attack: fast."""
    outcome = plan.outcome_of(outcome)
    measured = [
        measure_panel(panel, plan, cost, inflation=inflation) for panel in panels
    ]
    tests = _stacked(measured, pairs)
    raised = Alarms(
        *(np.full(tests.cross.value.shape, what) for what in (False, False, False, -1))
    )
    n_pairs = len(pairs) // n_families
    for first in range(0, len(pairs), n_pairs):
        own = slice(first, first + n_pairs)
        raised.benefits_differ[:, own] = (
            holm(tests.benefit.p_alone[:, own]) <= SIGNIFICANCE
        )
    # A family in which no p-value passes Bonferroni says nothing, so its exact p-values
    # of memorisation, which take long, are not needed.
    hopeful = np.zeros(n_families, dtype=np.bool_)
    for kind in (tests.exposure, tests.cross):
        by_family = kind.p_alone.reshape(len(panels), n_families, n_pairs)
        n = np.maximum(np.isfinite(by_family).sum(axis=(0, 2)), 1)
        hopeful |= (by_family <= (SIGNIFICANCE / n)[:, None]).any(axis=(0, 2))
    for start in np.flatnonzero(hopeful) * n_pairs:
        family = slice(start, start + n_pairs)
        groups, inverse = np.unique(np.array(pairs[family]), return_inverse=True)
        kept = (PairDifference(*(part[:, family] for part in kind)) for kind in tests)
        memorised = np.stack([each.memorised_p(groups) for each in measured])
        numbered = tuple((int(i), int(j)) for i, j in inverse.reshape(-1, 2))
        found = decide([(memorised, PairTests(*kept))], numbered, outcome=outcome)
        raised.exposures_differ[:, family] = found.exposures_differ
        raised.ratios_differ[:, family] = found.ratios_differ
        raised.double[:, family] = np.where(found.double >= 0, groups[found.double], -1)
    return raised


def compare_pairs(measured: Measured, pairs: tuple[Pair, ...]) -> PairTests:
    """Unadjusted comparisons of one setting: exposures, benefits, and the cross product."""
    sides = np.array(pairs, dtype=np.int64).T  # (side, pair)
    benefit = measured.received.mean(axis=0)[sides]
    of_benefit = measured.received_variance[sides]
    benefits = _difference(benefit[1] - benefit[0], of_benefit.sum(axis=0))
    if measured.exposed is None:
        nothing = PairDifference(*np.full((4, len(pairs)), np.nan))
        return PairTests(nothing, benefits, nothing)
    exposed = measured.exposed.only(sides)
    cost = exposed.value
    n = exposed.n
    n_splits = exposed.n_splits
    tested = variances.cost_in_tests(cost, variances.pooled_cost(cost, n))
    of_cost = exposed.variance_at(tested)
    covariance = exposed.covariance
    if exposed.is_counted:
        people = variances.people_covariance(benefit, cost, n)
        covariance = covariance / n_splits + (1 - 1 / n_splits) * people
    else:  # as a release has it, but not beyond what the variances allow
        covariance = np.clip(
            covariance, *(np.sqrt(of_benefit * of_cost) * [[[-1.0]], [[1.0]]])
        )
    # cross-multiplied, so that without memorisation both products are 0 whatever the
    # rates
    cross = benefit[0] * cost[1] - benefit[1] * cost[0]
    of_cross = variances.cross_variance(benefit, cost, of_benefit, of_cost, covariance)
    if exposed.is_counted and n_splits > 1:
        per_split = exposed.per_split
        received = measured.received[:, sides]
        products = received[:, 0] * per_split[:, 1] - received[:, 1] * per_split[:, 0]
        lasting = measured.received_lasting[sides], exposed.people_part(tested)
        of_people = variances.cross_variance(benefit, cost, *lasting, people)
        of_cross = variances.at_least_spread(of_cross, products, of_people)
    enough = measured.enough[sides].all(axis=0)
    exposures = _difference(cost[1] - cost[0], of_cost.sum(axis=0))
    kinds = (exposures, _difference(cross, of_cross))
    exposures, crosses = (
        PairDifference(*np.where(enough, kind, np.nan)) for kind in kinds
    )
    return PairTests(exposures, benefits, crosses)


def _difference(value: FloatArray, variance: FloatArray) -> PairDifference:
    """Estimate over error; p is 1 where the error is 0."""
    error = np.sqrt(np.maximum(variance, 0.0))  # rounding may leave less than 0
    p = two_sided_p(value, error)
    return PairDifference(value, error, p, p)


def _stacked(measured: Sequence[Measured], pairs: tuple[Pair, ...]) -> PairTests:
    """The comparisons of all settings, arrays (setting, pair)."""
    kinds = zip(*(compare_pairs(setting, pairs) for setting in measured), strict=True)
    return PairTests(
        *(PairDifference(*map(np.stack, zip(*kind, strict=True))) for kind in kinds)
    )
