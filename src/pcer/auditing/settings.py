"""What does an audit say of one setting: of each group, of every pair, of all?

``audit`` asks ``setting_result`` once a setting. Numbers come ready from ``judge``
(measuring/tested.py) and from the room paper; here they fill records. The four answers
about a pair follow from ``Evidence``, which stands after every downgrade.

To add a verdict: a member of ``Verdict`` (measuring/plan.py), a line of
``PairResult.statements`` (record.py), and a badge in ``words.toml``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcer import metrics
from pcer.auditing import record
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.evidence import Evidence, Statement
from pcer.measuring.exposure import LEAST_RECORDS, Measured
from pcer.measuring.outcomes import benefit_of
from pcer.measuring.plan import Plan, Verdict
from pcer.measuring.tested import Amounts, Judged, PlaceboCheck, Tested
from pcer.measuring.variances import by_split
from pcer.metrics import FloatArray
from pcer.paper.numbers import OVER_SPLITS, SettingNumbers, interval_or_none
from pcer.paper.records import PublishedPair
from pcer.statistics import (
    SIGNIFICANCE,
    bootstrap_sums,
    finite_or_none,
    generator,
    percentile_interval,
)
from pcer.wording import say


class InSetting(NamedTuple):
    """A release's numbers, seen from one of its settings."""

    tested: Tested
    judged: Judged
    evidence: Evidence  # what holds, after every downgrade
    measured: Measured  # by the attack whose numbers people see
    setting_index: int


def setting_result(
    tested: Tested, judged: Judged, paper: SettingNumbers, index: int
) -> record.SettingResult:
    """One setting by the deciding attacks, beside the paper's numbers."""
    measured = tested.measured[tested.attack][index]
    here = InSetting(tested, judged, judged.evidence, measured, index)
    pooled_ratio = _pooled_ratios(measured, tested.plan)
    pairs = []
    for pair_index, (first, second) in enumerate(tested.pairs):
        compared = ComparedPair(here, (index, pair_index), first, second)
        pairs.append(_pair_result(compared, pooled_ratio, paper.pairs[pair_index]))

    panel = measured.panel
    summaries = paper.summaries
    return record.SettingResult(
        model=panel.model,
        epsilon=stated_epsilon(panel),
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=summaries.accuracy,
        demographic_parity_gap=summaries.demographic_parity_gap,
        equalized_odds_gap=summaries.equalized_odds_gap,
        groups=_group_results(here, paper),
        pairs=pairs,
        pcer_spread=summaries.attacks[tested.attack].spread,
        verdict=record.strongest(pair.verdict for pair in pairs),
        reason=_reason(here),
        headline="",  # follows, by ``conclude``
    )


def _reason(here: InSetting) -> str | None:
    """Why nothing can be told, or else why the first alarm was downgraded."""
    reason = _cannot_tell(here)
    if reason is not None:
        return reason
    for (setting_index, _, _), downgraded in here.evidence.reasons.items():
        if setting_index == here.setting_index:
            return downgraded
    return None


def _cannot_tell(here: InSetting) -> str | None:
    """Why exposures of a setting cannot be told; None where some pair's can."""
    measured = here.measured
    if measured.exposed is None:
        return measured.reason
    if here.tested.release.training.split_kind != "random":
        return say("reason", "not_random")
    contradiction = here.tested.contradiction
    if contradiction is not None:
        return f"{contradiction[0].lower()}{contradiction[1:].rstrip('.')}"

    has_group = np.isfinite(here.evidence.detection_p_alone[here.setting_index]).any()
    has_pair = np.isfinite(here.evidence.exposure.p_value[here.setting_index]).any()
    if has_group and has_pair:
        return None
    names = measured.panel.group_names
    few = [names[group] for group in np.flatnonzero(~measured.has_enough_records)]
    if not few:
        return say("reason", "nothing_varies")
    return say("reason", "too_few", names=", ".join(few), least=LEAST_RECORDS)


def _estimate_fields(amounts: Amounts, place: tuple[int, int]) -> dict[str, Any]:
    """Fields of ``Estimate``: a value with its error, interval and bounds."""
    low = finite_or_none(amounts.low[place])
    high = finite_or_none(amounts.high[place])
    return {
        "value": finite_or_none(amounts.value[place]),
        "standard_error": finite_or_none(amounts.error[place]),
        "interval": None if low is None or high is None else (low, high),
        "upper_bound": finite_or_none(amounts.limit_together[place]),
        "upper_bound_pointwise": finite_or_none(amounts.limit[place]),
    }


# Groups


def _group_results(
    here: InSetting, paper: SettingNumbers
) -> dict[str, record.GroupResult]:
    """Every group's numbers, by name."""
    tested = here.tested
    evidence = here.evidence
    exposures = here.judged.exposures
    panel = here.measured.panel
    summaries = paper.summaries
    groups = {}
    for group, name in enumerate(panel.group_names):
        place = here.setting_index, group
        detected_by = None
        if np.isfinite(evidence.detection_p_alone[place]):
            detected_by = tested.attacks[evidence.detected_by[place]]
        groups[name] = record.GroupResult(
            n_train=finite_or_none(panel.n_train[:, group].mean()),
            n_test=finite_or_none(panel.n_test[:, group].mean()),
            positive_rate=summaries.positive_rate[group],
            true_rate=summaries.true_rate[group],
            true_positive_rate=summaries.true_positive_rate[group],
            false_positive_rate=summaries.false_positive_rate[group],
            benefit=summaries.benefit[group],
            overfitting_gap=summaries.overfitting_gap[group],
            accuracy_difference=summaries.accuracy_difference[group],
            exposure=record.Estimate(**_estimate_fields(exposures, place)),
            noise_level=finite_or_none(here.judged.noise_level[place]),
            detectable=finite_or_none(exposures.detectable[place]),
            p_value=finite_or_none(evidence.detection_p[place]),
            p_value_alone=finite_or_none(evidence.detection_p_alone[place]),
            detected_by=detected_by,
            detected=bool(evidence.detected[place]),
            too_few=not bool(here.measured.has_enough_records[group]),
            null_gap=None if paper.null is None else paper.null.gaps[group],
            pcer=summaries.pcer[tested.attack][group],
            allowed=_allowed(here, name),
        )
    return groups


def _allowed(here: InSetting, group: str) -> record.GroupBound | None:
    """What training allows; None without receipts and promises to groups."""
    panel = here.measured.panel
    place = (panel.model, stated_epsilon(panel), group)
    rows = [
        row
        for row in here.tested.release.bounds
        if (row.model, row.epsilon, row.group) == place and row.label is None
    ]
    by_kind = {row.kind: row for row in rows}
    promise = by_kind.get("promise")
    receipt = by_kind.get("receipt")
    main = receipt or promise
    if main is None:
        return None
    # The advantage that goes with a receipt may stand in the row of what was realised.
    advantages = [row.allowed_advantage for row in (main, *rows)]
    known = [advantage for advantage in advantages if advantage is not None]
    advantage = known[0] if known else None
    copied = {"mode", "accountant", "nominal", "standard_error", "quantiles"}
    return record.GroupBound(
        **main.model_dump(include=copied),
        promised=None if promise is None else promise.mean,
        spent=None if receipt is None else receipt.mean,
        advantage=advantage,
    )


# Pairs


class ComparedPair(NamedTuple):
    """Two groups in one setting."""

    here: InSetting
    place: tuple[int, int]  # of the pair in arrays (setting, pair)
    first: int  # position of the reference group
    second: int

    @property
    def group_places(self) -> tuple[int, list[int]]:
        """Where both groups stand in arrays (setting, group)."""
        return self.here.setting_index, [self.first, self.second]

    @property
    def lower_ratio(self) -> int:
        """The group of lower ratio: the second where the cross product is positive."""
        is_second = self.here.evidence.cross.value[self.place] > 0
        return self.second if is_second else self.first

    def name(self, group: int) -> str:
        """A group's name, by its position."""
        return self.here.measured.panel.group_names[group]

    def downgraded(self, statement: Statement) -> str | None:
        """Why a statement does not count although its p-value is small."""
        return self.here.evidence.reasons.get((*self.place, statement))

    def placebo(self, attack: str) -> PlaceboCheck | None:
        """What the release says of made-up groups by an attack."""
        setting_index, pair_index = self.place
        return self.here.tested.placebos.get((setting_index, attack, pair_index))


def _pair_result(
    compared: ComparedPair, pooled_ratio: FloatArray | None, published: PublishedPair
) -> record.PairResult:
    result = record.PairResult(
        verdict=Verdict.INSUFFICIENT_DATA,  # until its statements are known
        exposure=_exposure(compared),
        outcomes=_outcomes(compared),
        double_disadvantage=_double_disadvantage(compared),
        ratio=_ratio(compared),
        equivalence=_equivalence(compared),
        sign_holds_below_floor=_sign_limit(compared),
        pooled=_pooled_disparity(compared, pooled_ratio),
        **dict(published),
    )
    return result.model_copy(update={"verdict": Verdict(result.statements[0])})


def _difference(compared: ComparedPair, amounts: Amounts) -> record.Difference:
    return record.Difference(
        **_estimate_fields(amounts, compared.place),
        detectable=finite_or_none(amounts.detectable[compared.place]),
    )


def _exposure(compared: ComparedPair) -> record.ExposureAnswer:
    """Who is easier to recognise?"""
    tested = compared.here.tested
    evidence = compared.here.evidence
    place = compared.place
    p_value = evidence.exposure.p_value[place]
    attack = tested.attacks[evidence.decided_by[place]]
    by_attack = tested.tests[attack].pairs.exposure.value[place]

    is_tested = np.isfinite(p_value) and tested.contradiction is None
    group_p = evidence.detection_p_alone[compared.group_places]
    group: str | None = None
    shown_by: list[str] = []
    answer: record.AboutExposure = "cannot_tell"
    if evidence.exposures_differ[place]:
        answer = "differs"
        group = compared.name(evidence.more_exposed[place])
        agreeing = np.flatnonzero(evidence.agree[:, *place])
        shown_by = [tested.attacks[index] for index in agreeing]
    elif is_tested and np.isfinite(group_p).any():
        is_detected = evidence.detected[compared.group_places].any()
        answer = "no_difference_shown" if is_detected else "none_detected"

    return record.ExposureAnswer(
        answer=answer,
        group=group,
        attack=attack,
        attack_difference=finite_or_none(-by_attack + 0.0),  # + 0.0: no negative zero
        difference=_difference(compared, compared.here.judged.exposure_differences),
        p_value=finite_or_none(p_value),
        p_value_alone=finite_or_none(evidence.exposure.p_alone[place]),
        shown_by=shown_by,
        contradicted=bool(evidence.contradicted[place]),
        downgraded=compared.downgraded("exposure"),
        placebo=compared.placebo(attack),
    )


def _outcomes(compared: ComparedPair) -> record.OutcomesAnswer:
    """Who is worse served? Test counts suffice, however the records were split."""
    tested = compared.here.tested
    evidence = compared.here.evidence
    place = compared.place

    answer: record.AboutOutcomes = "no_difference_shown"
    differs = bool(evidence.benefits_differ[place])
    if tested.contradiction is not None:
        answer = "cannot_tell"
    elif np.isnan(evidence.benefit.p_value[place]):
        answer = "not_given"
    elif differs:
        answer = "differ"

    benefit = evidence.benefit
    is_harm = tested.plan.outcome_of(tested.release.subject.outcome) == "harm"
    second_has_more = benefit.value[place] > 0
    worse = compared.second if second_has_more == is_harm else compared.first
    received = compared.here.measured.received
    training = received.training
    return record.OutcomesAnswer(
        answer=answer,
        group=compared.name(worse) if differs else None,
        difference=_difference(compared, compared.here.judged.outcome_differences),
        about=received.estimand,
        lack=received.lack,
        people_variance=finite_or_none(benefit.variance_now[place]),
        training_variance=finite_or_none(benefit.variance_train[place]),
        degrees_of_freedom=None if training is None else training.degrees_of_freedom,
        is_noise_known=None if training is None else training.is_noise_known,
        p_value=finite_or_none(evidence.benefit.p_value[place]),
        p_value_alone=finite_or_none(evidence.benefit.p_alone[place]),
        downgraded=compared.downgraded("outcomes"),
    )


def _double_disadvantage(compared: ComparedPair) -> record.DoubleDisadvantage:
    """Who is both easier to recognise and worse served?"""
    evidence = compared.here.evidence
    place = compared.place
    group = int(evidence.double_disadvantage[place])
    return record.DoubleDisadvantage(
        group=compared.name(group) if group >= 0 else None,
        p_value=finite_or_none(evidence.double_p[place]),
        p_value_alone=finite_or_none(evidence.double_p_alone[place]),
        downgraded=compared.downgraded("double"),
    )


def _ratio(compared: ComparedPair) -> record.RatioAnswer:
    """Whose ratio of outcome to exposure is lower, and what makes it so?"""
    tested = compared.here.tested
    cross = compared.here.evidence.cross
    place = compared.place

    answer: record.AboutRatio = "no_difference_shown"
    differs = bool(compared.here.evidence.ratios_differ[place])
    if np.isnan(cross.p_value[place]) or tested.contradiction is not None:
        answer = "cannot_tell"
    elif compared.here.judged.below_floor[place]:
        answer = "floor_dominated"
    elif differs:
        answer = "differs"

    return record.RatioAnswer(
        answer=answer,
        group=compared.name(compared.lower_ratio) if differs else None,
        attack=tested.attack,
        driven_by=_driver(compared) if differs else None,
        cross_product=finite_or_none(cross.value[place]),
        standard_error=finite_or_none(cross.error[place]),
        p_value=finite_or_none(cross.p_value[place]),
        p_value_alone=finite_or_none(cross.p_alone[place]),
        downgraded=compared.downgraded("ratio"),
        placebo=compared.placebo(tested.attack),
    )


def _driver(compared: ComparedPair) -> record.Driver:
    """Which difference makes the ratio of a group the lower one.

    A difference that is shown lowers this ratio (1) or raises it (-1), and then the
    other one must be what lowers it; one that is not shown counts 0.
    """
    evidence = compared.here.evidence
    place = compared.place
    lower = compared.lower_ratio

    by_outcomes = 0
    if evidence.benefits_differ[place]:
        second_has_fewer = evidence.benefit.value[place] < 0
        fewer = compared.second if second_has_fewer else compared.first
        by_outcomes = 1 if fewer == lower else -1
    by_exposure = 0
    if evidence.exposures_differ[place]:
        by_exposure = 1 if evidence.more_exposed[place] == lower else -1

    if by_outcomes > by_exposure:
        return "outcomes"
    if by_exposure > by_outcomes:
        return "exposure"
    return "both" if by_outcomes == 1 else "together"


def _equivalence(compared: ComparedPair) -> record.Equivalence | None:
    """Are the exposures equal within the plan's margin? None without a margin."""
    tested = compared.here.tested
    if tested.plan.margin is None:
        return None
    p_value = compared.here.evidence.equal_p[compared.place]
    is_shown = bool(p_value <= SIGNIFICANCE) and tested.contradiction is None
    return record.Equivalence(
        margin=tested.plan.margin, p_value=finite_or_none(p_value), shown=is_shown
    )


def _sign_limit(compared: ComparedPair) -> float | None:
    """The floor above which the disparity has the other sign; None where it keeps it.

    With rates R and exposures c, of the group with the lower ratio (l) and the higher
    (h), the ratios are equal at the floor c_l R_h / R_l. That is above c_h, so that the
    sign turns, where R_l > R_h: the group with the lower ratio has the higher rate.
    """
    here = compared.here
    exposed = here.measured.exposed
    lower = compared.lower_ratio
    higher = compared.first if lower == compared.second else compared.second
    rate = here.measured.received.value
    if exposed is None or not here.evidence.detected[here.setting_index, lower]:
        return None
    if not rate[lower] > rate[higher]:
        return None
    return float(exposed.value[lower] * rate[higher] / rate[lower])


# The disparity of pooled ratios


def _pooled_disparity(
    compared: ComparedPair, ratio: FloatArray | None
) -> record.PooledDisparity:
    """First minus second of ``_pooled_ratios``, with an interval over the draws."""
    here = compared.here
    both = bool(here.evidence.detected[compared.group_places].all())
    if ratio is None:
        return record.PooledDisparity(disparity=None, ci=None, exposures_detected=both)
    disparity = ratio[:, compared.first] - ratio[:, compared.second]
    interval = None
    if len(disparity) > 1:
        level = here.tested.plan.confidence_level
        ends = percentile_interval(disparity[1:], confidence_level=level)
        interval = interval_or_none(ends)
    return record.PooledDisparity(
        disparity=finite_or_none(disparity[0]), ci=interval, exposures_detected=both
    )


def _pooled_ratios(measured: Measured, plan: Plan) -> FloatArray | None:
    """Pooled rate over pooled exposure (draw, group).

    The first row is as observed, the others are bootstrap draws of splits; there are
    none with one split. None where a rate or an exposure is not given.
    """
    exposed = measured.exposed
    if exposed is None or np.isnan(measured.received.value).any():
        return None
    n_records = benefit_of(measured.panel, plan).n_test
    parts = np.stack([measured.benefit * n_records, n_records])  # (part, seed, group)
    shares = by_split(parts.swapaxes(0, 1), measured.panel.split)
    if exposed.n_splits != len(shares):  # an exposure over all models
        shares = shares.mean(axis=0, keepdims=True)
    parts = np.stack([shares[:, 0], shares[:, 1], exposed.per_split], axis=1)

    sums = parts.sum(axis=0, keepdims=True)
    if exposed.n_splits > 1:
        panel = measured.panel
        rng = generator(
            plan.rng, purpose=OVER_SPLITS, epsilon=panel.epsilon, model=panel.model
        )
        draws = bootstrap_sums(parts, resamples=plan.resamples, rng=rng)
        sums = np.concatenate([sums, draws])
    received = sums[:, 0]
    exposure = sums[:, 2]
    rate = received / sums[:, 1]
    return metrics.pcer(rate, exposure / exposed.n_splits, floor=measured.floor)
