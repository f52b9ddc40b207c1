"""One setting on its way into the audit file: verdict, groups, pairs, and the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pcer import metrics, statistics
from pcer.auditing import file, measure
from pcer.auditing.checks import is_random, stated_epsilon
from pcer.auditing.exact import Strata
from pcer.auditing.measure import Measured, Pair, by_split, number
from pcer.auditing.plan import Plan
from pcer.auditing.tests import Evidence, Tested
from pcer.auditing.variances import draw_differences, limit_quantile, split_luck
from pcer.auditing.verdict import Verdict, strongest
from pcer.auditing.words import say
from pcer.metrics import FloatArray
from pcer.release.format import Bound
from pcer.release.proxies import GAP
from pcer.statistics import SIGNIFICANCE, bootstrap_sums, generator, percentile_interval

OVER_SEEDS, OVER_SPLITS, NULL_DRAWS = range(3)  # what a stream of random numbers is for

# (seed,) each, by what it is: a quantity's name, its cost, and the group, or pair and
# floor.
Columns = dict[tuple[object, ...], FloatArray]
Summaries = dict[tuple[object, ...], file.Summary]
# If nothing was memorised: mean gaps of groups, mean disparities of pairs, and those of
# every floor of the plan (floor, pair).
Null = tuple[list[file.NullPicture], list[file.NullPicture], FloatArray]


def setting_result(
    tested: Tested, evidence: Evidence, k: int
) -> tuple[file.BudgetResult, file.PublishedBudget]:
    """Setting ``k`` by the deciding attacks, and the paper's numbers, the gap being the cost."""
    main = tested.measured[tested.cost][k]
    gap = tested.measured[GAP.name][k]
    panel = main.panel
    names = main.panel.group_names
    n_pairs = range(len(tested.pairs))
    epsilon = stated_epsilon(panel)
    columns = _columns(main, gap, tested.pairs, tested.plan)
    summaries = _summarise(columns, main, gap, tested.plan)
    null: Null | None = tested.chance(k)
    by_main, by_gap = (
        [
            _published(measured, tested, pair, columns, summaries, null)
            for pair in n_pairs
        ]
        for measured in (main, gap)
    )
    parts = zip(n_pairs, by_main, _pooled_disparities(tested, evidence, k), strict=True)
    pairs = [
        _pair(tested, evidence, k, at, **paper, pooled=pooled)
        for at, paper, pooled in parts
    ]
    verdict = strongest(pair.verdict for pair in pairs)
    downgraded = (
        reason for (setting, *_), reason in evidence.reasons.items() if setting == k
    )
    result = file.BudgetResult(
        model=panel.model,
        epsilon=epsilon,
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=summaries["accuracy",],
        demographic_parity_gap=summaries["parity",],
        equalized_odds_gap=summaries["odds",],
        groups=_groups(tested, evidence, k, summaries, null),
        pairs=pairs,
        pcer_spread=summaries["spread", tested.cost],
        verdict=verdict,
        reason=_cannot_tell(tested, evidence, k) or next(downgraded, None),
        headline="",
    )
    return result, file.PublishedBudget(
        epsilon=epsilon,
        pcer={name: summaries["pcer", GAP.name, g] for g, name in enumerate(names)},
        pairs=[file.PublishedPair(**paper) for paper in by_gap],
    )


def _cannot_tell(tested: Tested, evidence: Evidence, k: int) -> str | None:
    """Why exposures of a setting cannot be told; None where some pair's can."""
    measured = tested.measured[tested.cost][k]
    contradiction = tested.contradiction
    if measured.exposed is None:
        return measured.reason
    if tested.release.training.split_kind != "random":
        return say("reason", "not_random")
    if contradiction is not None:
        return f"{contradiction[0].lower()}{contradiction[1:].rstrip('.')}"
    if all(
        np.isfinite(p[k]).any()
        for p in (evidence.cost_p_alone, evidence.exposure.p_value)
    ):
        return None
    few = [measured.panel.group_names[g] for g in np.flatnonzero(~measured.enough)]
    form = "too_few" if few else "nothing_varies"
    least = measure.LEAST_RECORDS
    return say("reason", form, names=", ".join(few), least=least)


# Groups


def _groups(
    tested: Tested, evidence: Evidence, k: int, summaries: Summaries, null: Null | None
) -> dict[str, file.GroupResult]:
    measured = tested.measured[tested.cost][k]
    plan = tested.plan
    attacks = tested.attacks
    exposed = measured.exposed
    panel = measured.panel
    level = plan.confidence_level
    groups = {}
    values = errors = np.full(len(measured.enough), np.nan)
    if exposed is not None:
        is_known = measured.enough & np.isfinite(exposed.variance)
        values = exposed.value
        errors = np.where(is_known, np.sqrt(exposed.alone), np.nan)
    n_limits = max(1, evidence.cost_p_alone.size)
    limits = [measured.upper_limit(level=level, n_limits=n) for n in (1, n_limits)]
    setting = panel.model, stated_epsilon(panel)
    bounds = [
        row for row in tested.release.bounds if (row.model, row.epsilon) == setting
    ]
    for g, name in enumerate(panel.group_names):
        noise, smallest = None, None
        if exposed is not None and measured.enough[g] and exposed.null_variance[g] > 0:
            variance = exposed.null_variance[g]
            # the mean of max(0, noise): the "gap" of a model that memorises nothing
            noise = math.sqrt(variance * exposed.n_splits / (2 * math.pi))
            n_tests = len(attacks) * evidence.n_cost_tests
            smallest = number(statistics.detectable(np.sqrt(variance), n_tests=n_tests))
        is_tested = np.isfinite(evidence.cost_p_alone[k, g])
        largest = measured.proxy.scale.largest
        own_limits = [limit[g] for limit in limits]
        groups[name] = file.GroupResult(
            n_train=number(panel.n_train[:, g].mean()),
            n_test=number(panel.n_test[:, g].mean()),
            positive_rate=summaries["rate", g],
            true_rate=summaries["true", g],
            true_positive_rate=summaries["tpr", g],
            false_positive_rate=summaries["fpr", g],
            benefit=summaries["benefit", g],
            overfitting_gap=summaries["gap", g],
            accuracy_difference=summaries["difference", g],
            cost=file.Estimate(
                **_estimate(values[g], errors[g], own_limits, largest, level)
            ),
            noise_level=noise,
            detectable_cost=smallest,
            p_value=number(evidence.cost_p[k, g]),
            p_value_alone=number(evidence.cost_p_alone[k, g]),
            detected_by=attacks[evidence.detected_by[k, g]] if is_tested else None,
            resolved=bool(evidence.resolved[k, g]),
            too_few=not bool(measured.enough[g]),
            null_gap=null[0][g] if null is not None else None,
            pcer=summaries["pcer", tested.cost, g],
            allowed=_bound([row for row in bounds if row.group == name]),
        )
    return groups


def _estimate(
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


def _bound(rows: Sequence[Bound]) -> file.GroupBound | None:
    """What training allows about one group; None without receipts and promises to groups."""
    whole = {row.kind: row for row in rows if row.label is None}
    promise = whole.get("promise")
    receipt = whole.get("receipt")
    first = receipt or promise
    if first is None:
        return None
    # the advantage that goes with a receipt may stand in the row of what was realised
    beside = [row.allowed_advantage for row in (first, *rows) if row.label is None]
    copied = {"mode", "accountant", "nominal", "standard_error", "quantiles"}
    return file.GroupBound(
        **first.model_dump(include=copied),
        promised=None if promise is None else promise.mean,
        spent=None if receipt is None else receipt.mean,
        advantage=next((value for value in beside if value is not None), None),
    )


# Pairs


def _pair(
    tested: Tested, evidence: Evidence, k: int, pair: int, **paper: Any
) -> file.PairResult:
    """What the tests say about two groups, beside the paper's numbers."""
    measured = tested.measured[tested.cost][k]
    (i, j) = tested.pairs[pair]
    names = measured.panel.group_names
    margin = tested.plan.margin
    doubled = int(evidence.double[k, pair])
    double = file.DoubleDisadvantage(
        group=names[doubled] if doubled >= 0 else None,
        p_value=number(evidence.double_p[k, pair]),
        p_value_alone=number(evidence.double_p_alone[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "double")),
    )
    equal = None
    p = evidence.equal_p[k, pair]
    if margin is not None:
        is_equal = bool(p <= SIGNIFICANCE) and tested.contradiction is None
        equal = file.Equivalence(margin=margin, p_value=number(p), shown=is_equal)
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
    found = file.PairResult(
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
) -> file.Difference:
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
    return file.Difference(
        **_estimate(value, error, limits, largest, level),
        detectable=number(
            statistics.detectable(error, n_tests=2 * n_tests, level=level_of_tests)
        ),
    )


def _exposure(
    tested: Tested, evidence: Evidence, k: int, pair: int
) -> file.ExposureAnswer:
    """Who is easier to recognise?"""
    attack = tested.attacks[evidence.decided_by[k, pair]]
    groups = [*tested.pairs[pair]]
    is_tested = (
        np.isfinite(evidence.exposure.p_value[k, pair]) and tested.contradiction is None
    )
    group: str | None = None
    answer: file.AboutExposure = "cannot_tell"
    if evidence.exposures_differ[k, pair]:
        group = tested.panels[k].group_names[evidence.more_exposed[k, pair]]
        answer = "differs"
    elif is_tested and np.isfinite(evidence.cost_p_alone[k, groups]).any():
        is_detected = evidence.resolved[k, groups].any()
        answer = "no_difference_shown" if is_detected else "none_detected"
    agree = zip(tested.attacks, evidence.agree[:, k, pair], strict=True)
    return file.ExposureAnswer(
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
) -> file.OutcomesAnswer:
    """Who is worse served? Test counts suffice, however the records were split."""
    (i, j) = tested.pairs[pair]
    value = evidence.benefit.value[k, pair]
    outcome = tested.plan.outcome_of(tested.release.subject.outcome)
    worse = j if (value > 0) == (outcome == "harm") else i
    differ = bool(evidence.benefits_differ[k, pair])
    answer: file.AboutOutcomes = "differ" if differ else "no_difference_shown"
    if tested.contradiction is not None:
        answer = "cannot_tell"
    elif np.isnan(evidence.benefit.p_value[k, pair]):
        answer = "not_given"
    return file.OutcomesAnswer(
        answer=answer,
        group=tested.panels[k].group_names[worse] if differ else None,
        difference=_difference(tested, evidence, k, pair, "benefit"),
        p_value=number(evidence.benefit.p_value[k, pair]),
        p_value_alone=number(evidence.benefit.p_alone[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "outcomes")),
    )


def _ratio(tested: Tested, evidence: Evidence, k: int, pair: int) -> file.RatioAnswer:
    """Whose ratio of outcome to exposure is lower, and what makes it so?"""
    (i, j) = tested.pairs[pair]
    value = evidence.cross.value[k, pair]
    p = evidence.cross.p_value[k, pair]
    differs = bool(evidence.ratios_differ[k, pair])
    answer: file.AboutRatio = "differs" if differs else "no_difference_shown"
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
    driver: file.Driver = "both" if by_outcomes == by_exposure == 1 else "together"
    if by_outcomes > by_exposure:
        driver = "outcomes"
    elif by_exposure > by_outcomes:
        driver = "exposure"
    return file.RatioAnswer(
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


def _published(
    measured: Measured,
    tested: Tested,
    pair: int,
    columns: Columns,
    summaries: Summaries,
    null: Null | None,
) -> dict[str, Any]:
    """What the paper computes for a pair of groups, by one cost: fields of its record."""
    plan = tested.plan
    groups = tested.pairs[pair]
    key = ("disparity", measured.proxy.name, pair)
    costs = measured.cost[:, groups]
    values = columns[*key, measured.floor]
    by_seed = bool(np.isfinite(values).all()) and not measured.is_pooled
    mean = summaries[*key, measured.floor].mean
    positive = int((values > 0).sum()) if by_seed else None
    negative = int((values < 0).sum())
    sign_p = None if positive is None else statistics.sign_test(positive, negative)
    picture, is_beyond = None, None
    # one seed, or records that were not split at random, have no null to be held
    # against
    if null is not None and measured.proxy.is_from_counts and len(values) > 1:
        picture = null[1][pair] if is_random(tested.release) else None
    if picture is not None and mean is not None:
        is_beyond = not picture.interval[0] <= mean <= picture.interval[1]
    dominated = [
        float(metrics.floor_dominated(costs, floor=f).mean()) for f in plan.floors
    ]
    floors = [
        file.FloorRow(
            **dict(summaries[*key, floor]),
            floor=floor,
            n_positive_seeds=int((columns[*key, floor] > 0).sum()) if by_seed else None,
            floor_dominated_share=share if np.isfinite(costs).all() else None,
            null_mean=None
            if picture is None or null is None
            else float(null[2][k, pair]),
        )
        for k, (floor, share) in enumerate(zip(plan.floors, dominated, strict=True))
    ]
    # least-squares slope of log |mean disparity| against log floor; -1 is all floor
    slope = None
    means = [abs(row.mean) for row in floors if row.mean]
    if len(means) == len(floors) > 1:
        x = np.log(plan.floors)
        y = np.log(means)
        x = x - x.mean()
        slope = float((x * (y - y.mean())).sum() / (x * x).sum())
    return {
        "groups": tuple(measured.panel.group_names[group] for group in groups),
        "pcer_disparity": file.Disparity(
            **dict(summaries[*key, measured.floor]),
            n_positive_seeds=positive,
            sign_test_p=sign_p,
            null_mean=None if picture is None else picture.mean,
            null_interval=None if picture is None else picture.interval,
            is_beyond_null=is_beyond,
        ),
        "normalised_disparity": summaries["normalised", measured.proxy.name, pair],
        "floors": floors,
        "floor_slope": slope,
    }


# Summaries over seeds: means, bootstrap intervals, null distribution


def _columns(
    main: Measured, gap: Measured, pairs: tuple[Pair, ...], plan: Plan
) -> Columns:
    """Every published quantity by seed; first what no cost enters into."""
    panel = main.panel
    true = tpr = fpr = np.full(panel.positive_rate.shape, np.nan)
    if panel.test is not None:
        tpr = metrics.true_positive_rate(panel.test)
        fpr = metrics.false_positive_rate(panel.test)
        true = (panel.test.tp + panel.test.fn) / panel.n_test
    accuracies = panel.train_accuracy, panel.test_accuracy
    columns: Columns = {
        ("accuracy",): (panel.test_accuracy * panel.n_test).sum(axis=1)
        / panel.n_test.sum(axis=1),
        ("parity",): metrics.demographic_parity_gap(panel.positive_rate),
        ("odds",): metrics.equalized_odds_gap(tpr, fpr),
    }
    of_groups: Columns = {
        ("rate",): panel.positive_rate,
        ("true",): true,
        ("tpr",): tpr,
        ("fpr",): fpr,
        ("benefit",): main.benefit,
        ("gap",): metrics.overfitting_gap(*accuracies),
        ("difference",): metrics.accuracy_difference(*accuracies),
    }
    for measured in (main, gap):
        cost = measured.proxy.name
        (benefit, costs) = (measured.benefit, measured.cost)
        ratio = of_groups["pcer", cost] = metrics.pcer(
            benefit, costs, floor=measured.floor
        )
        columns["spread", cost] = metrics.pcer_spread(ratio)
        for k, pair in enumerate(pairs):
            columns["normalised", cost, k] = metrics.normalised_disparity(
                ratio[:, pair]
            )[:, 0]
            for floor in (measured.floor, *plan.floors):
                at_floor = metrics.pcer(benefit[:, pair], costs[:, pair], floor=floor)
                columns["disparity", cost, k, floor] = metrics.pcer_disparity(at_floor)[
                    :, 0
                ]
    for key, values in of_groups.items():
        columns |= {(*key, g): values[:, g] for g in range(len(panel.group_names))}
    return columns


def _summarise(
    columns: Columns, main: Measured, gap: Measured, plan: Plan
) -> Summaries:
    """Mean, standard deviation and bootstrap interval over seeds of every column.

    One seed has no interval, and neither has what a cost enters into that has no spread
    over them.
    """
    pooled = {each.proxy.name for each in (main, gap) if each.is_pooled}
    values = np.stack(list(columns.values()), axis=1)
    n_seeds = len(values)
    summaries = {}
    mean = values.mean(axis=0)
    std = np.full(len(columns), np.nan)
    ends = None
    if n_seeds > 1:
        std = values.std(axis=0, ddof=1)
        panel = main.panel
        rng = generator(
            plan.rng, purpose=OVER_SEEDS, epsilon=panel.epsilon, model=panel.model
        )
        draws = bootstrap_sums(values, resamples=plan.resamples, rng=rng) / n_seeds
        ends = percentile_interval(draws, confidence_level=plan.confidence_level)
    for k, key in enumerate(columns):
        has_spread = ends is not None and not (len(key) > 1 and key[1] in pooled)
        summaries[key] = file.Summary(
            mean=number(mean[k]),
            std=number(std[k]) if has_spread else None,
            ci=_interval(ends[:, k]) if ends is not None and has_spread else None,
        )
    return summaries


def _pooled_disparities(
    tested: Tested, evidence: Evidence, k: int
) -> list[file.PooledDisparity]:
    """Disparity of pooled rate over pooled cost of every pair, with one bootstrap over splits."""
    measured = tested.measured[tested.cost][k]
    plan = tested.plan
    resolved = [bool(evidence.resolved[k, list(pair)].all()) for pair in tested.pairs]
    if measured.exposed is None or np.isnan(measured.received).any():
        return [
            file.PooledDisparity(disparity=None, ci=None, costs_resolved=r)
            for r in resolved
        ]
    panel = measured.panel
    weight = measure.benefit_of(measured.panel, plan)[1]
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
            _interval(percentile_interval(draws, confidence_level=level))
            if len(draws)
            else None
        )
        found.append(
            file.PooledDisparity(
                disparity=number(value[0]), ci=ends, costs_resolved=both
            )
        )
    return found


def draw_null(
    measured: Measured, pairs: tuple[Pair, ...], plan: Plan, *, n_settings: int
) -> Null | None:
    """Draw what the gap and the disparity would be without memorisation, rates as observed.

    Runs of one split share its draw. Intervals of gaps are pointwise, those of
    disparities simultaneous over the audit's settings and pairs.
    """
    panel = measured.panel
    is_complete = bool(
        np.isfinite(measured.benefit).all() and np.isfinite(measured.cost).all()
    )
    if not (measured.proxy.is_from_counts and panel.has_sizes and is_complete):
        return None
    strata = measure.strata_of(panel)
    luck, variance = split_luck(strata)
    rng = generator(
        plan.rng, purpose=NULL_DRAWS, epsilon=panel.epsilon, model=panel.model
    )
    n_groups = len(panel.group_names)
    floors = (plan.floor, *plan.floors)
    sums = np.zeros((plan.null_draws, n_groups + len(pairs)))  # gaps, then disparities
    at_floors = np.zeros((len(plan.floors), len(pairs)))
    (first, second) = np.array(pairs).T
    scale = np.sqrt(variance)
    for split in range(panel.n_splits):
        seeds = np.flatnonzero(panel.split == split)
        run = Strata(*(part[:, seeds[0]] for part in strata))
        uniforms = rng.random((2, plan.null_draws, n_groups))
        off = draw_differences(run, uniforms=uniforms) - luck[seeds[0]]
        off = metrics.quotient(off, scale[seeds[0]], otherwise=0.0)
        for seed in seeds:
            drawn = np.maximum(luck[seed] + scale[seed] * off, 0.0)
            ratios = [
                metrics.pcer(measured.benefit[seed], drawn, floor=floor)
                for floor in floors
            ]
            apart = [ratio[:, first] - ratio[:, second] for ratio in ratios]
            sums += np.concatenate([drawn, apart[0]], axis=1)
            at_floors += [each.mean(axis=0) for each in apart[1:]]
    pictures = []
    together = 1 - (1 - plan.confidence_level) / (n_settings * len(pairs))
    levels = [plan.confidence_level] * n_groups + [together] * len(pairs)
    for draws, level in zip(sums.T / len(panel.seeds), levels, strict=True):
        low, high = percentile_interval(draws, confidence_level=level)
        mean = float(draws.mean())
        interval = (float(low), float(high))
        pictures.append(file.NullPicture(mean=mean, interval=interval))
    return pictures[:n_groups], pictures[n_groups:], at_floors / len(panel.seeds)


def _interval(ends: FloatArray) -> tuple[float, float] | None:
    return (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else None


# Every cost alone


def cost_stories(tested: Tested, alone: dict[str, Evidence]) -> list[file.CostStory]:
    """Every carried attack with its remaining alarms: deciding ones first, then by name."""
    names = [*tested.attacks, *sorted(set(alone) - set(tested.attacks))]
    gaps = (m for m in tested.measured[GAP.name] if m.panel.has_sizes)
    if tested.cost != GAP.name and not any(np.isfinite(m.cost).any() for m in gaps):
        names.remove(GAP.name)  # no counts, no gap
    found = [alone[name] for name in names]
    kinds = [(each.exposure.p_value, each.cross.p_value, each.cost_p) for each in found]
    smallest = np.array(
        [[np.nanmin([*np.ravel(p), np.inf]) for p in each] for each in kinds]
    ).T
    smallest[np.isinf(smallest)] = np.nan
    over_costs = np.stack([statistics.holm(p) for p in smallest]).T
    first, second = np.array(tested.pairs, dtype=np.int64).T
    stories = []
    for k, (name, (exposure_p, ratio_p, _)) in enumerate(
        zip(names, over_costs, strict=True)
    ):
        evidence = alone[name]
        groups = tested.panels[0].group_names
        # what Holm over attacks makes of the smallest p-value, it makes of all of the
        # attack
        share = metrics.quotient(
            smallest[:, k], over_costs[k], otherwise=1 / len(names)
        )
        is_detected = evidence.resolved & (evidence.cost_p <= SIGNIFICANCE * share[2])
        differs = evidence.exposures_differ & (
            evidence.exposure.p_value <= SIGNIFICANCE * share[0]
        )
        by_ratio = evidence.ratios_differ & (
            evidence.cross.p_value <= SIGNIFICANCE * share[1]
        )
        lower = np.where(evidence.cross.value > 0, second, first)
        exposed = differs if exposure_p <= SIGNIFICANCE else evidence.exposures_differ
        chosen = {
            "more_exposed": evidence.more_exposed[exposed],
            "lower_ratio": lower[
                by_ratio if ratio_p <= SIGNIFICANCE else evidence.ratios_differ
            ],
            "double_disadvantage": evidence.double[exposed & (evidence.double >= 0)],
        }
        stories.append(
            file.CostStory(
                cost=name,
                n_cells=evidence.n_cost_tests,
                n_resolved=int(evidence.resolved.sum()),
                p_value=number(smallest[0, k]),
                p_value_over_costs=number(exposure_p),
                ratio_p_over_costs=number(ratio_p),
                detected_in=np.flatnonzero(is_detected.any(axis=1)).tolist(),
                differs_in=np.flatnonzero(differs.any(axis=1)).tolist(),
                **{
                    what: [groups[g] for g in np.unique(of)]
                    for what, of in chosen.items()
                },
            )
        )
    return stories
