"""What does an audit say of two groups in one setting?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pcer import metrics, statistics
from pcer.auditing import record
from pcer.measuring import exposure
from pcer.measuring.evidence import Evidence, Tested
from pcer.measuring.exposure import by_split
from pcer.measuring.measure import number
from pcer.measuring.variances import limit_quantile
from pcer.measuring.verdict import Verdict
from pcer.paper.null import OVER_SPLITS
from pcer.paper.numbers import interval_or_none
from pcer.statistics import SIGNIFICANCE, bootstrap_sums, generator, percentile_interval


def estimate_fields(
    value: float, error: float, limits: Sequence[float], largest: float, level: float
) -> dict[str, Any]:
    """Fields of a value with its error, interval and limits, alone and with all of the audit."""
    reach = statistics.interval_quantile(level) * error
    is_known = bool(np.isfinite(value + error))
    ends = float(max(-largest, value - reach)), float(min(largest, value + reach))
    return {
        "value": number(value),
        "standard_error": number(error),
        "interval": ends if is_known else None,
        "upper_bound": number(limits[1]) if is_known else None,
        "upper_bound_pointwise": number(limits[0]) if is_known else None,
    }


def pair_result(
    tested: Tested, evidence: Evidence, k: int, pair: int, **paper: Any
) -> record.PairResult:
    """What the tests say about two groups, beside the paper's numbers."""
    measured = tested.measured[tested.cost][k]
    (i, j) = tested.pairs[pair]
    names = measured.panel.group_names
    margin = tested.plan.margin
    doubled = int(evidence.double[k, pair])
    double = record.DoubleDisadvantage(
        group=names[doubled] if doubled >= 0 else None,
        p_value=number(evidence.double_p[k, pair]),
        p_value_alone=number(evidence.double_p_alone[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "double")),
    )
    equal = None
    p = evidence.equal_p[k, pair]
    if margin is not None:
        is_equal = bool(p <= SIGNIFICANCE) and tested.contradiction is None
        equal = record.Equivalence(margin=margin, p_value=number(p), shown=is_equal)
    # the sign turns above some floor where the group with the lower ratio has the
    # higher rate
    higher, lower = (i, j) if evidence.cross.value[k, pair] > 0 else (j, i)
    rate = measured.received.mean(axis=0)
    turns_at = None
    if (
        measured.exposed is not None
        and evidence.resolved[k, lower]
        and rate[lower] > rate[higher]
    ):
        turns_at = float(measured.exposed.value[lower] * rate[higher] / rate[lower])
    found = record.PairResult(
        verdict=Verdict.INSUFFICIENT_DATA,  # until its statements are known
        exposure=_exposure(tested, evidence, k, pair),
        outcomes=_outcomes(tested, evidence, k, pair),
        double_disadvantage=double,
        ratio=_ratio(tested, evidence, k, pair),
        equivalence=equal,
        sign_holds_below_floor=turns_at,
        **paper,
    )
    return found.model_copy(update={"verdict": Verdict(found.statements[0])})


def _difference(
    tested: Tested,
    evidence: Evidence,
    k: int,
    pair: int,
    what: Literal["exposure", "benefit"],
) -> record.Difference:
    """Exposures or benefits, first minus second; no rate or advantage differs by more than 1."""
    level = tested.plan.confidence_level
    kind = getattr(evidence, what)
    n = max(1, int(np.isfinite(kind.error).sum()))
    value = -kind.value[k, pair] + 0.0
    error = kind.error[k, pair]
    n_tests = n
    level_of_tests = SIGNIFICANCE
    largest = 1.0
    if what == "exposure":
        n_tests = n * len(tested.attacks)
        level_of_tests = SIGNIFICANCE * statistics.EXPOSURE_SHARE
        largest = max(1.0, tested.measured[tested.cost][k].proxy.scale.largest)
    quantiles = [limit_quantile(n_limits=m, confidence_level=level) for m in (1, n)]
    limits = [np.minimum(np.abs(value) + z * error, largest) for z in quantiles]
    return record.Difference(
        **estimate_fields(value, error, limits, largest, level),
        detectable=number(
            statistics.detectable(error, n_tests=2 * n_tests, level=level_of_tests)
        ),
    )


def _exposure(
    tested: Tested, evidence: Evidence, k: int, pair: int
) -> record.ExposureAnswer:
    """Who is easier to recognise?"""
    attack = tested.attacks[evidence.decided_by[k, pair]]
    groups = [*tested.pairs[pair]]
    is_tested = (
        np.isfinite(evidence.exposure.p_value[k, pair]) and tested.contradiction is None
    )
    group: str | None = None
    answer: record.AboutExposure = "cannot_tell"
    if evidence.exposures_differ[k, pair]:
        group = tested.panels[k].group_names[evidence.more_exposed[k, pair]]
        answer = "differs"
    elif is_tested and np.isfinite(evidence.cost_p_alone[k, groups]).any():
        is_detected = evidence.resolved[k, groups].any()
        answer = "no_difference_shown" if is_detected else "none_detected"
    agree = zip(tested.attacks, evidence.agree[:, k, pair], strict=True)
    return record.ExposureAnswer(
        answer=answer,
        group=group,
        attack=attack,
        attack_difference=number(
            -tested.tests[attack][1].exposure.value[k, pair] + 0.0
        ),
        difference=_difference(tested, evidence, k, pair, "exposure"),
        p_value=number(evidence.exposure.p_value[k, pair]),
        p_value_alone=number(evidence.exposure.p_alone[k, pair]),
        shown_by=[name for name, does in agree if does and group is not None],
        contradicted=bool(evidence.contradicted[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "exposure")),
        placebo=tested.placebo(k, attack, pair),
    )


def _outcomes(
    tested: Tested, evidence: Evidence, k: int, pair: int
) -> record.OutcomesAnswer:
    """Who is worse served? Test counts suffice, however the records were split."""
    (i, j) = tested.pairs[pair]
    value = evidence.benefit.value[k, pair]
    outcome = tested.plan.outcome_of(tested.release.subject.outcome)
    worse = j if (value > 0) == (outcome == "harm") else i
    differ = bool(evidence.benefits_differ[k, pair])
    answer: record.AboutOutcomes = "differ" if differ else "no_difference_shown"
    if tested.contradiction is not None:
        answer = "cannot_tell"
    elif np.isnan(evidence.benefit.p_value[k, pair]):
        answer = "not_given"
    return record.OutcomesAnswer(
        answer=answer,
        group=tested.panels[k].group_names[worse] if differ else None,
        difference=_difference(tested, evidence, k, pair, "benefit"),
        p_value=number(evidence.benefit.p_value[k, pair]),
        p_value_alone=number(evidence.benefit.p_alone[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "outcomes")),
    )


def _ratio(tested: Tested, evidence: Evidence, k: int, pair: int) -> record.RatioAnswer:
    """Whose ratio of outcome to exposure is lower, and what makes it so?"""
    (i, j) = tested.pairs[pair]
    value = evidence.cross.value[k, pair]
    p = evidence.cross.p_value[k, pair]
    differs = bool(evidence.ratios_differ[k, pair])
    answer: record.AboutRatio = "differs" if differs else "no_difference_shown"
    if np.isnan(p) or tested.contradiction is not None:
        answer = "cannot_tell"
    elif tested.measured[tested.cost][k].is_below_floor((i, j)):
        answer = "floor_dominated"
    lower = j if value > 0 else i
    # 1 where a difference that is shown lowers this ratio; -1 where it raises it, so
    # that the other one must be what lowers it
    fewer = j if evidence.benefit.value[k, pair] < 0 else i
    exposed = evidence.more_exposed[k, pair]
    by_outcomes = int(evidence.benefits_differ[k, pair]) * (1 if fewer == lower else -1)
    by_exposure = int(evidence.exposures_differ[k, pair]) * (
        1 if exposed == lower else -1
    )
    driver: record.Driver = "both" if by_outcomes == by_exposure == 1 else "together"
    if by_outcomes > by_exposure:
        driver = "outcomes"
    elif by_exposure > by_outcomes:
        driver = "exposure"
    return record.RatioAnswer(
        answer=answer,
        group=tested.panels[k].group_names[lower] if differs else None,
        attack=tested.cost,
        driven_by=driver if differs else None,
        cross_product=number(value),
        standard_error=number(evidence.cross.error[k, pair]),
        p_value=number(p),
        p_value_alone=number(evidence.cross.p_alone[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "ratio")),
        placebo=tested.placebo(k, tested.cost, pair),
    )


def pooled_disparities(
    tested: Tested, evidence: Evidence, k: int
) -> list[record.PooledDisparity]:
    """Disparity of pooled rate over pooled cost of every pair, with one bootstrap over splits."""
    measured = tested.measured[tested.cost][k]
    plan = tested.plan
    resolved = [bool(evidence.resolved[k, list(pair)].all()) for pair in tested.pairs]
    if measured.exposed is None or np.isnan(measured.received).any():
        return [
            record.PooledDisparity(disparity=None, ci=None, costs_resolved=r)
            for r in resolved
        ]
    panel = measured.panel
    weight = exposure.benefit_of(measured.panel, plan)[1]
    share = by_split(
        np.stack([measured.benefit * weight, weight]).swapaxes(0, 1), panel.split
    )
    cost = measured.exposed.per_split
    n_splits = measured.exposed.n_splits
    if n_splits != len(share):  # a cost over all models
        share = share.mean(axis=0, keepdims=True)
    parts = np.stack([share[:, 0], share[:, 1], cost], axis=1)  # (split, part, group)
    sums = parts.sum(axis=0, keepdims=True)
    if n_splits > 1:
        rng = generator(
            plan.rng, purpose=OVER_SPLITS, epsilon=panel.epsilon, model=panel.model
        )
        sums = np.concatenate(
            [sums, bootstrap_sums(parts, resamples=plan.resamples, rng=rng)]
        )
    ratio = metrics.pcer(
        sums[:, 0] / sums[:, 1], sums[:, 2] / n_splits, floor=measured.floor
    )
    found = []
    level = plan.confidence_level
    for (i, j), both in zip(tested.pairs, resolved, strict=True):
        value, draws = np.split(ratio[:, i] - ratio[:, j], [1])
        ends = (
            interval_or_none(percentile_interval(draws, confidence_level=level))
            if len(draws)
            else None
        )
        found.append(
            record.PooledDisparity(
                disparity=number(value[0]), ci=ends, costs_resolved=both
            )
        )
    return found
