"""What does an audit say of two groups in one setting?

``setting_result`` (settings.py) asks ``pair_result`` for every pair that the plan
compares. The four answers (who is easier to recognise, who is worse served, both, and
whose ratio is lower) follow from ``Evidence``, which stands after every downgrade;
values are those of the attack whose numbers people see.

To add a verdict: a member of ``Verdict`` (measuring/plan.py), a line of
``PairResult.statements`` (record.py), and a badge in ``words.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pcer import metrics
from pcer.auditing import record
from pcer.measuring.evidence import Evidence, Statement
from pcer.measuring.exposure import Exposed, Measured, Pair, benefit_of, by_split
from pcer.measuring.plan import Verdict
from pcer.measuring.tested import Amounts, Judged, Tested
from pcer.metrics import FloatArray
from pcer.paper.numbers import OVER_SPLITS, interval_or_none
from pcer.paper.records import PublishedPair
from pcer.statistics import (
    SIGNIFICANCE,
    bootstrap_sums,
    finite_or_none,
    generator,
    percentile_interval,
)


@dataclass(frozen=True)
class ComparedPair:
    """Two groups in one setting, with the tests that were made of them."""

    tested: Tested
    judged: Judged
    setting_index: int
    pair_index: int

    @property
    def evidence(self) -> Evidence:
        """What stands after every downgrade."""
        return self.judged.evidence

    @property
    def place(self) -> tuple[int, int]:
        """Where the pair stands in arrays (setting, pair)."""
        return self.setting_index, self.pair_index

    @property
    def groups(self) -> Pair:
        """Positions of both groups; the first is the reference."""
        return self.tested.pairs[self.pair_index]

    @property
    def measured(self) -> Measured:
        """The setting by the attack whose numbers people see."""
        return self.tested.measured[self.tested.cost][self.setting_index]

    def name(self, group: int) -> str:
        """A group's name, by its position."""
        return self.measured.panel.group_names[group]

    @property
    def group_places(self) -> tuple[int, list[int]]:
        """Where both groups stand in arrays (setting, group)."""
        return self.setting_index, [*self.groups]

    def downgraded(self, statement: Statement) -> str | None:
        """Why a statement does not count although its p-value is small."""
        return self.evidence.reasons.get((*self.place, statement))


def pair_result(
    compared: ComparedPair, pooled: record.PooledDisparity, published: PublishedPair
) -> record.PairResult:
    """What the tests say about two groups, beside the paper's numbers."""
    result = record.PairResult(
        verdict=Verdict.INSUFFICIENT_DATA,  # until its statements are known
        exposure=_exposure(compared),
        outcomes=_outcomes(compared),
        double_disadvantage=_double_disadvantage(compared),
        ratio=_ratio(compared),
        equivalence=_equivalence(compared),
        sign_holds_below_floor=_sign_limit(compared),
        pooled=pooled,
        **dict(published),
    )
    return result.model_copy(update={"verdict": Verdict(result.statements[0])})


# The four answers


def _exposure(compared: ComparedPair) -> record.ExposureAnswer:
    """Who is easier to recognise?"""
    tested = compared.tested
    evidence = compared.evidence
    place = compared.place
    p_value = evidence.exposure.p_value[place]
    attack = tested.attacks[evidence.decided_by[place]]
    by_attack = tested.tests[attack][1].exposure.value[place]

    is_tested = np.isfinite(p_value) and tested.contradiction is None
    group_p = evidence.cost_p_alone[compared.group_places]
    group: str | None = None
    shown_by: list[str] = []
    answer: record.AboutExposure = "cannot_tell"
    if evidence.exposures_differ[place]:
        answer = "differs"
        group = compared.name(evidence.more_exposed[place])
        agrees = evidence.agree[:, *place]
        shown_by = [
            name
            for name, does_agree in zip(tested.attacks, agrees, strict=True)
            if does_agree
        ]
    elif is_tested and np.isfinite(group_p).any():
        is_detected = evidence.resolved[compared.group_places].any()
        answer = "no_difference_shown" if is_detected else "none_detected"

    return record.ExposureAnswer(
        answer=answer,
        group=group,
        attack=attack,
        attack_difference=finite_or_none(-by_attack + 0.0),  # + 0.0: no negative zero
        difference=_difference(compared.judged.exposure_differences, place),
        p_value=finite_or_none(p_value),
        p_value_alone=finite_or_none(evidence.exposure.p_alone[place]),
        shown_by=shown_by,
        contradicted=bool(evidence.contradicted[place]),
        downgraded=compared.downgraded("exposure"),
        placebo=tested.placebos.get(
            (compared.setting_index, attack, compared.pair_index)
        ),
    )


def _outcomes(compared: ComparedPair) -> record.OutcomesAnswer:
    """Who is worse served? Test counts suffice, however the records were split."""
    tested = compared.tested
    benefit = compared.evidence.benefit
    place = compared.place

    answer: record.AboutOutcomes = "no_difference_shown"
    differs = bool(compared.evidence.benefits_differ[place])
    if tested.contradiction is not None:
        answer = "cannot_tell"
    elif np.isnan(benefit.p_value[place]):
        answer = "not_given"
    elif differs:
        answer = "differ"

    first, second = compared.groups
    is_harm = tested.plan.outcome_of(tested.release.subject.outcome) == "harm"
    second_has_more = benefit.value[place] > 0
    worse = second if second_has_more == is_harm else first
    return record.OutcomesAnswer(
        answer=answer,
        group=compared.name(worse) if differs else None,
        difference=_difference(compared.judged.outcome_differences, place),
        p_value=finite_or_none(benefit.p_value[place]),
        p_value_alone=finite_or_none(benefit.p_alone[place]),
        downgraded=compared.downgraded("outcomes"),
    )


def _double_disadvantage(compared: ComparedPair) -> record.DoubleDisadvantage:
    """Who is both easier to recognise and worse served?"""
    evidence = compared.evidence
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
    tested = compared.tested
    cross = compared.evidence.cross
    place = compared.place

    answer: record.AboutRatio = "no_difference_shown"
    differs = bool(compared.evidence.ratios_differ[place])
    if np.isnan(cross.p_value[place]) or tested.contradiction is not None:
        answer = "cannot_tell"
    elif compared.judged.below_floor[place]:
        answer = "floor_dominated"
    elif differs:
        answer = "differs"

    lower = _lower_ratio(compared)
    return record.RatioAnswer(
        answer=answer,
        group=compared.name(lower) if differs else None,
        attack=tested.cost,
        driven_by=_driver(compared, lower) if differs else None,
        cross_product=finite_or_none(cross.value[place]),
        standard_error=finite_or_none(cross.error[place]),
        p_value=finite_or_none(cross.p_value[place]),
        p_value_alone=finite_or_none(cross.p_alone[place]),
        downgraded=compared.downgraded("ratio"),
        placebo=tested.placebos.get(
            (compared.setting_index, tested.cost, compared.pair_index)
        ),
    )


def _lower_ratio(compared: ComparedPair) -> int:
    """The group of lower ratio: the second where the cross product is positive."""
    first, second = compared.groups
    return second if compared.evidence.cross.value[compared.place] > 0 else first


def _driver(compared: ComparedPair, lower: int) -> record.Driver:
    """Which difference makes the ratio of a group the lower one.

    A difference that is shown lowers this ratio (1) or raises it (-1), and then the
    other one must be what lowers it; one that is not shown counts 0.
    """
    evidence = compared.evidence
    place = compared.place
    first, second = compared.groups

    by_outcomes = 0
    if evidence.benefits_differ[place]:
        fewer = second if evidence.benefit.value[place] < 0 else first
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
    margin = compared.tested.plan.margin
    if margin is None:
        return None
    p_value = compared.evidence.equal_p[compared.place]
    is_shown = bool(p_value <= SIGNIFICANCE) and compared.tested.contradiction is None
    return record.Equivalence(
        margin=margin, p_value=finite_or_none(p_value), shown=is_shown
    )


def _sign_limit(compared: ComparedPair) -> float | None:
    """The floor above which the disparity has the other sign; None where it keeps it.

    With rates R and exposures c, of the group with the lower ratio (l) and the higher
    (h), the ratios are equal at the floor c_l R_h / R_l. That is above c_h, so that the
    sign turns, where R_l > R_h: the group with the lower ratio has the higher rate.
    """
    exposed = compared.measured.exposed
    lower = _lower_ratio(compared)
    first, second = compared.groups
    higher = first if lower == second else second
    rate = compared.measured.received.mean(axis=0)
    if exposed is None or not compared.evidence.resolved[compared.setting_index, lower]:
        return None
    if not rate[lower] > rate[higher]:
        return None
    return float(exposed.value[lower] * rate[higher] / rate[lower])


# Amounts with their errors


def estimate_fields(amounts: Amounts, place: tuple[int, int]) -> dict[str, Any]:
    """Fields of ``Estimate``: a value with its error, interval and limits."""
    low = finite_or_none(amounts.low[place])
    high = finite_or_none(amounts.high[place])
    return {
        "value": finite_or_none(amounts.value[place]),
        "standard_error": finite_or_none(amounts.error[place]),
        "interval": None if low is None or high is None else (low, high),
        "upper_bound": finite_or_none(amounts.limit_together[place]),
        "upper_bound_pointwise": finite_or_none(amounts.limit[place]),
    }


def _difference(amounts: Amounts, place: tuple[int, int]) -> record.Difference:
    return record.Difference(
        **estimate_fields(amounts, place),
        detectable=finite_or_none(amounts.detectable[place]),
    )


# The disparity of pooled ratios


def pooled_disparities(
    tested: Tested, evidence: Evidence, setting_index: int
) -> list[record.PooledDisparity]:
    """Disparity of pooled rate over pooled exposure, of every pair of a setting.

    One bootstrap over splits is shared by all pairs.
    """
    measured = tested.measured[tested.cost][setting_index]
    ratio = _pooled_ratios(tested, measured)
    disparities = []
    for first, second in tested.pairs:
        resolved = bool(evidence.resolved[setting_index, [first, second]].all())
        value: float | None = None
        ends: tuple[float, float] | None = None
        if ratio is not None:
            difference = ratio[:, first] - ratio[:, second]
            value = finite_or_none(difference[0])
            ends = _interval(difference[1:], level=tested.plan.confidence_level)
        disparities.append(
            record.PooledDisparity(disparity=value, ci=ends, costs_resolved=resolved)
        )
    return disparities


def _pooled_ratios(tested: Tested, measured: Measured) -> FloatArray | None:
    """Pooled rate over pooled exposure (draw, group).

    The first row is as observed, the others are bootstrap draws of splits; there are
    none with one split. None where a rate or an exposure is not given.
    """
    if measured.exposed is None or np.isnan(measured.received).any():
        return None
    parts = _parts_by_split(tested, measured, measured.exposed)
    sums = parts.sum(axis=0, keepdims=True)
    n_splits = measured.exposed.n_splits
    if n_splits > 1:
        rng = generator(
            tested.plan.rng,
            purpose=OVER_SPLITS,
            epsilon=measured.panel.epsilon,
            model=measured.panel.model,
        )
        draws = bootstrap_sums(parts, resamples=tested.plan.resamples, rng=rng)
        sums = np.concatenate([sums, draws])
    received = sums[:, 0]
    n_records = sums[:, 1]
    exposure = sums[:, 2]
    return metrics.pcer(received / n_records, exposure / n_splits, floor=measured.floor)


def _parts_by_split(tested: Tested, measured: Measured, exposed: Exposed) -> FloatArray:
    """What is summed over splits: received, records, exposure (split, part, group)."""
    n_records = benefit_of(measured.panel, tested.plan)[1]
    received = measured.benefit * n_records
    shares = by_split(
        np.stack([received, n_records]).swapaxes(0, 1), measured.panel.split
    )
    if exposed.n_splits != len(shares):  # an exposure over all models
        shares = shares.mean(axis=0, keepdims=True)
    return np.stack([shares[:, 0], shares[:, 1], exposed.per_split], axis=1)


def _interval(draws: FloatArray, *, level: float) -> tuple[float, float] | None:
    """The bootstrap interval; None without draws, or where they are not finite."""
    if not len(draws):
        return None
    return interval_or_none(percentile_interval(draws, confidence_level=level))
