"""One setting on its way into the audit file: verdict, groups, pairs, and the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pcer import metrics, statistics
from pcer.auditing import file, measure
from pcer.auditing.checks import stated_epsilon
from pcer.auditing.exact import Strata
from pcer.auditing.measure import Measured, Pair, by_split, number
from pcer.auditing.plan import Plan
from pcer.auditing.tests import Evidence, Tested
from pcer.auditing.variances import draw_differences, limit_quantile, split_luck
from pcer.auditing.verdict import BudgetVerdict, Verdict
from pcer.metrics import FloatArray
from pcer.release.format import Bound
from pcer.release.proxies import GAP
from pcer.statistics import SIGNIFICANCE, bootstrap_sums, generator, percentile_interval

NOT_RANDOM = "the release does not say that the split was random, which every test here needs"
NOTHING_VARIES = (
    "nobody was classified wrong, or everybody was, so that remembering a record would change "
    "nothing that was counted"
)
NO_BENEFIT = "what the groups receive is not given, so that no ratio can be formed"

OVER_SEEDS, OVER_SPLITS, NULL_DRAWS = range(3)  # what a stream of random numbers is for

# (seed,) each, by what it is: a quantity's name, its cost, and the group, or pair and floor.
Columns = dict[tuple[object, ...], FloatArray]
Summaries = dict[tuple[object, ...], file.Summary]
# Mean gaps of groups and mean disparities of pairs if nothing was memorised.
Null = tuple[list[file.NullPicture], list[file.NullPicture]]


def setting_result(
    tested: Tested, evidence: Evidence, k: int
) -> tuple[file.BudgetResult, file.PublishedBudget]:
    """Setting ``k`` by the deciding attacks, and the paper's numbers, the gap being the cost."""
    main, gap = tested.measured[tested.cost][k], tested.measured[GAP.name][k]
    panel, names, n_pairs = main.panel, main.panel.group_names, range(len(tested.pairs))
    epsilon = stated_epsilon(panel)
    columns = _columns(main, gap, tested.pairs, tested.plan)
    summaries = _summarise(columns, main, gap, tested.plan)
    null: Null | None = tested.chance(k)
    verdict, reason = judge(tested, evidence, k)
    by_main, by_gap = (
        [_published(measured, tested, pair, columns, summaries, null) for pair in n_pairs]
        for measured in (main, gap)
    )
    parts = zip(n_pairs, by_main, _pooled_disparities(tested, evidence, k), strict=True)
    pairs = [
        file.PairResult(**_pair(tested, evidence, k, pair), **paper, pooled=pooled)
        for pair, paper, pooled in parts
    ]
    doubled = evidence.double[k]
    outcome = tested.release.subject.outcome
    twice = [names[group] for group in np.unique(doubled[doubled >= 0]).tolist()]
    # where positive predictions harm, a lower ratio may mean more exposure or less harm
    is_disparity = verdict is Verdict.DISPARITY_SHOWN and outcome == "benefit"
    lower = [pair.lower_ratio for pair in pairs if pair.lower_ratio is not None and is_disparity]
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
        worse_off=twice if verdict is Verdict.DOUBLE_DISADVANTAGE else list(dict.fromkeys(lower)),
        reason=reason,
        advice=verdict.advice(outcome),
        double_disadvantage=twice,
    )
    return result, file.PublishedBudget(
        epsilon=epsilon,
        pcer={name: summaries["pcer", GAP.name, g] for g, name in enumerate(names)},
        pairs=[file.PublishedPair(**paper) for paper in by_gap],
    )


def judge(tested: Tested, evidence: Evidence, k: int) -> tuple[BudgetVerdict, str | None]:
    """The verdict of a setting, and its reason where something is missing or speaks against it."""
    measured = tested.measured[tested.cost][k]
    if measured.exposed is None:
        return Verdict.INSUFFICIENT_DATA, measured.reason
    if tested.release.training.split_kind != "random":
        return Verdict.NOT_RESOLVED, NOT_RANDOM
    contradicted = next((each.sentence for each in tested.findings if each.caps_verdict), None)
    if contradicted is not None:
        return Verdict.NOT_RESOLVED, f"{contradicted[0].lower()}{contradicted[1:].rstrip('.')}"
    if not np.isfinite(evidence.cost_p_alone[k]).any():
        few = f"every group has fewer than {measure.LEAST_RECORDS} records"
        return Verdict.INSUFFICIENT_DATA, NOTHING_VARIES if measured.enough.any() else few
    if np.isnan(measured.received).any():
        return Verdict.INSUFFICIENT_DATA, NO_BENEFIT
    is_shown = evidence.shown[k].any()
    if (evidence.double[k] >= 0).any():
        return Verdict.DOUBLE_DISADVANTAGE, None
    if not is_shown and (evidence.equal_p[k] <= SIGNIFICANCE).all():
        return Verdict.EQUAL_WITHIN_MARGIN, None
    if not evidence.resolved[k].any():
        return Verdict.NOT_RESOLVED, None
    if measured.is_below_floor:
        return Verdict.FLOOR_DOMINATED, None
    if is_shown:
        return Verdict.DISPARITY_SHOWN, None
    reasons = (reason for (setting, *_), reason in evidence.reasons.items() if setting == k)
    return Verdict.NO_DISPARITY_SHOWN, next(reasons, None)


# Groups


def _groups(
    tested: Tested, evidence: Evidence, k: int, summaries: Summaries, null: Null | None
) -> dict[str, file.GroupResult]:
    measured, plan, attacks = tested.measured[tested.cost][k], tested.plan, tested.attacks
    exposed, panel, level, groups = measured.exposed, measured.panel, plan.confidence_level, {}
    values = errors = np.full(len(measured.enough), np.nan)
    if exposed is not None:
        is_known, values = measured.enough & np.isfinite(exposed.variance), exposed.value
        errors = np.where(is_known, np.sqrt(exposed.alone), np.nan)
    n_limits = max(1, evidence.cost_p_alone.size)
    limits = [measured.upper_limit(level=level, n_limits=n) for n in (1, n_limits)]
    setting = panel.model, stated_epsilon(panel)
    bounds = [row for row in tested.release.bounds if (row.model, row.epsilon) == setting]
    for g, name in enumerate(panel.group_names):
        noise, smallest = None, None
        if exposed is not None and measured.enough[g] and exposed.null_variance[g] > 0:
            variance = exposed.null_variance[g]
            # the mean of max(0, noise): the "gap" of a model that memorises nothing
            noise = math.sqrt(variance * exposed.n_splits / (2 * math.pi))
            n_tests = len(attacks) * evidence.n_cost_tests
            smallest = number(statistics.detectable(np.sqrt(variance), n_tests=n_tests))
        is_tested = np.isfinite(evidence.cost_p_alone[k, g])
        largest, own_limits = measured.proxy.scale.largest, [limit[g] for limit in limits]
        groups[name] = file.GroupResult(
            n_train=number(panel.n_train[:, g].mean()),
            n_test=number(panel.n_test[:, g].mean()),
            positive_rate=summaries["rate", g],
            benefit=summaries["benefit", g],
            overfitting_gap=summaries["gap", g],
            accuracy_difference=summaries["difference", g],
            cost=file.CostValue(**_estimate(values[g], errors[g], own_limits, largest, level)),
            noise_level=noise,
            detectable_cost=smallest,
            p_value=number(evidence.cost_p[k, g]),
            p_value_alone=number(evidence.cost_p_alone[k, g]),
            detected_by=attacks[evidence.detected_by[k, g]] if is_tested else None,
            resolved=bool(evidence.resolved[k, g]),
            too_few=not bool(measured.enough[g]),
            null_gap=null[0][g] if null is not None and measured.proxy.is_from_counts else None,
            pcer=summaries["pcer", tested.cost, g],
            allowed=_bound([row for row in bounds if row.group == name]),
        )
    return groups


def _estimate(
    value: float, error: float, limits: Sequence[float], largest: float, level: float
) -> dict[str, Any]:
    """Fields of a value with its error, interval and limits, alone and with all of the audit."""
    reach, is_known = statistics.interval_quantile(level) * error, bool(np.isfinite(value + error))
    ends = float(max(-largest, value - reach)), float(min(largest, value + reach))
    return {
        "value": number(value),
        "standard_error": number(error),
        "interval": ends if is_known else None,
        "upper_limit": number(limits[0]) if is_known else None,
        "upper_limit_together": number(limits[1]) if is_known else None,
    }


def _bound(rows: Sequence[Bound]) -> file.GroupBound | None:
    """What training allows about one group; None without receipts."""
    receipts = [row for row in rows if row.kind == "receipt"]
    whole = next((row for row in receipts if row.label is None), None)
    if whole is None:
        return None
    # the advantage that goes with a receipt may stand in the row of what was realised
    beside = [row.allowed_advantage for row in (whole, *rows) if row.label is None]
    copied = {"mode", "accountant", "nominal", "standard_error", "quantiles"}
    return file.GroupBound(
        **whole.model_dump(include=copied),
        spent=whole.mean,
        by_label={str(row.label): row.mean for row in receipts if row.label is not None},
        advantage=next((value for value in beside if value is not None), None),
    )


# Pairs


def _pair(tested: Tested, evidence: Evidence, k: int, pair: int) -> dict[str, Any]:
    """What the tests say about two groups: fields of their record."""
    measured, (i, j) = tested.measured[tested.cost][k], tested.pairs[pair]
    names, margin = measured.panel.group_names, tested.plan.margin
    sign = 1 if tested.release.subject.outcome == "benefit" else -1
    answer, shown = _exposure_answer(tested, evidence, k, pair), bool(evidence.shown[k, pair])
    doubled, benefits_differ = int(evidence.double[k, pair]), evidence.benefits_differ[k, pair]
    better = j if sign * evidence.benefit.value[k, pair] > 0 else i
    value, error, p_value, p_alone = (number(part[k, pair]) for part in evidence.cross)
    driver: file.Driver = "benefits" if benefits_differ else "together"
    if answer.group is not None:
        driver = "both" if benefits_differ else "exposures"
    reasons = (evidence.reasons.get((k, pair, what)) for what in ("exposure", "double", "ratio"))
    equal, p = None, evidence.equal_p[k, pair]
    if margin is not None:
        equal = file.Equivalence(margin=margin, p_value=number(p), shown=bool(p <= SIGNIFICANCE))
    # the sign turns above some floor where the worse-off group has the higher rate
    higher, lower = (i, j) if evidence.cross.value[k, pair] > 0 else (j, i)
    rate, turns_at = measured.received.mean(axis=0), None
    if measured.exposed is not None and evidence.resolved[k, lower] and rate[lower] > rate[higher]:
        turns_at = float(measured.exposed.value[lower] * rate[higher] / rate[lower])
    return {
        "exposure": _difference(tested, evidence, k, pair, "exposure"),
        "benefit": _difference(tested, evidence, k, pair, "benefit"),
        "cross_product": file.CrossProduct(
            value=value, standard_error=error, p_value=p_value, p_value_alone=p_alone
        ),
        "disparity_shown": shown,
        "lower_ratio": names[lower] if shown else None,
        "more_exposed": answer.group,
        "exposure_answer": answer,
        "better_off": names[better] if benefits_differ else None,
        "driven_by": driver if shown else None,
        "double_disadvantage": names[doubled] if doubled >= 0 else None,
        "double_disadvantage_p": number(evidence.double_p[k, pair]),
        "double_disadvantage_p_alone": number(evidence.double_p_alone[k, pair]),
        "equivalence": equal,
        "coin_flips": _coin_flips(tested, k, tested.cost, pair),
        "capped": next((reason for reason in reasons if reason is not None), None),
        "sign_holds_below_floor": turns_at,
    }


def _difference(
    tested: Tested, evidence: Evidence, k: int, pair: int, what: Literal["exposure", "benefit"]
) -> file.GroupDifference:
    """Exposures or benefits, first minus second; no rate or advantage differs by more than 1."""
    level, n = tested.plan.confidence_level, max(1, evidence.n_pair_tests)
    kind = evidence.exposure if what == "exposure" else evidence.benefit
    value, error, p_value, p_alone = (part[k, pair] for part in kind)
    value, n_tests, level_of_tests, largest = -value + 0.0, n, SIGNIFICANCE, 1.0
    if what == "exposure":
        n_tests, level_of_tests = n * len(tested.attacks), SIGNIFICANCE * statistics.EXPOSURE_SHARE
        largest = max(1.0, tested.measured[tested.cost][k].proxy.scale.largest)
    quantiles = [limit_quantile(n_limits=m, confidence_level=level) for m in (1, n)]
    limits = [np.minimum(np.abs(value) + z * error, largest) for z in quantiles]
    return file.GroupDifference(
        **_estimate(value, error, limits, largest, level),
        detectable=number(statistics.detectable(error, n_tests=2 * n_tests, level=level_of_tests)),
        p_value=number(p_value),
        p_value_alone=number(p_alone),
    )


def _exposure_answer(tested: Tested, evidence: Evidence, k: int, pair: int) -> file.ExposureAnswer:
    attack = tested.attacks[evidence.decided_by[k, pair]]
    group: str | None = None
    answer: file.Answer = "cannot_tell"
    if evidence.exposures_differ[k, pair]:
        group, answer = tested.panels[k].group_names[evidence.more_exposed[k, pair]], "differs"
    elif np.isfinite(evidence.exposure.p_value[k, pair]):
        is_detected = evidence.resolved[k, list(tested.pairs[pair])].any()
        answer = "no_difference_shown" if is_detected else "none_detected"
    return file.ExposureAnswer(
        answer=answer,
        group=group,
        attack=attack,
        p_value=number(evidence.exposure.p_value[k, pair]),
        p_value_alone=number(evidence.exposure.p_alone[k, pair]),
        contradicted=bool(evidence.contradicted[k, pair]),
        downgraded=evidence.reasons.get((k, pair, "exposure")),
        placebo=_coin_flips(tested, k, attack, pair),
    )


def _coin_flips(tested: Tested, k: int, attack: str, pair: int) -> file.CoinFlips | None:
    row = tested.placebo(k, attack, pair)
    if row is None:
        return None
    return file.CoinFlips(
        **row.model_dump(include={"n_draws", "n_shown", "n_double", "n_exposure"}),
        permutation_p=row.p_value,
        permutation_p_within_labels=row.p_value_within_labels,
        exposure_p=row.exposure_p_value,
        exposure_p_within_labels=row.exposure_p_value_within_labels,
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
    plan, groups, key = tested.plan, tested.pairs[pair], ("disparity", measured.proxy.name, pair)
    costs, values = measured.cost[:, groups], columns[*key, measured.floor]
    by_seed = bool(np.isfinite(values).all()) and not measured.is_pooled
    positive, negative = int((values > 0).sum()) if by_seed else None, int((values < 0).sum())
    sign_p = None if positive is None else statistics.sign_test(positive, negative)
    picture = null[1][pair] if null is not None and measured.proxy.is_from_counts else None
    floors = []
    for floor in plan.floors:
        dominated = float(metrics.floor_dominated(costs, floor=floor).mean())
        floors.append(
            file.FloorRow(
                **dict(summaries[*key, floor]),
                floor=floor,
                n_positive_seeds=int((columns[*key, floor] > 0).sum()) if by_seed else None,
                floor_dominated_share=dominated if np.isfinite(costs).all() else None,
            )
        )
    # least-squares slope of log |mean disparity| against log floor; -1 is all floor
    slope, means = None, [abs(row.mean) for row in floors if row.mean]
    if len(means) == len(floors) > 1:
        x, y = np.log(plan.floors), np.log(means)
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
        ),
        "normalised_disparity": summaries["normalised", measured.proxy.name, pair],
        "floors": floors,
        "floor_slope": slope,
    }


# Over seeds and splits: means, bootstrap intervals, and the picture of no memory


def _columns(main: Measured, gap: Measured, pairs: tuple[Pair, ...], plan: Plan) -> Columns:
    """Every published quantity by seed; first what no cost enters into."""
    panel, odds = main.panel, np.full(len(main.panel.seeds), np.nan)
    if panel.test is not None:
        odds = metrics.equalized_odds_gap(
            metrics.true_positive_rate(panel.test), metrics.false_positive_rate(panel.test)
        )
    accuracies = panel.train_accuracy, panel.test_accuracy
    columns: Columns = {
        ("accuracy",): (panel.test_accuracy * panel.n_test).sum(axis=1) / panel.n_test.sum(axis=1),
        ("parity",): metrics.demographic_parity_gap(panel.positive_rate),
        ("odds",): odds,
    }
    of_groups: Columns = {
        ("rate",): panel.positive_rate,
        ("benefit",): main.benefit,
        ("gap",): metrics.overfitting_gap(*accuracies),
        ("difference",): metrics.accuracy_difference(*accuracies),
    }
    for measured in (main, gap):
        cost, (benefit, costs) = measured.proxy.name, (measured.benefit, measured.cost)
        ratio = of_groups["pcer", cost] = metrics.pcer(benefit, costs, floor=measured.floor)
        columns["spread", cost] = metrics.pcer_spread(ratio)
        for k, pair in enumerate(pairs):
            columns["normalised", cost, k] = metrics.normalised_disparity(ratio[:, pair])[:, 0]
            for floor in (measured.floor, *plan.floors):
                at_floor = metrics.pcer(benefit[:, pair], costs[:, pair], floor=floor)
                columns["disparity", cost, k, floor] = metrics.pcer_disparity(at_floor)[:, 0]
    for key, values in of_groups.items():
        columns |= {(*key, g): values[:, g] for g in range(len(panel.group_names))}
    return columns


def _summarise(columns: Columns, main: Measured, gap: Measured, plan: Plan) -> Summaries:
    """Mean, standard deviation and bootstrap interval over seeds of every column.

    One resampling serves all columns. A column with a NaN has no summary; one seed no interval,
    and neither does what a cost enters into that is one number for all seeds.
    """
    pooled = {each.proxy.name for each in (main, gap) if each.is_pooled}
    values = np.stack(list(columns.values()), axis=1)
    n_seeds, summaries = len(values), {}
    mean, std, ends = values.mean(axis=0), np.full(len(columns), np.nan), None
    if n_seeds > 1:
        std, panel = values.std(axis=0, ddof=1), main.panel
        rng = generator(plan.rng, purpose=OVER_SEEDS, epsilon=panel.epsilon, model=panel.model)
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


def _pooled_disparities(tested: Tested, evidence: Evidence, k: int) -> list[file.PooledDisparity]:
    """Disparity of pooled rate over pooled cost of every pair, with one bootstrap over splits."""
    measured, plan = tested.measured[tested.cost][k], tested.plan
    resolved = [bool(evidence.resolved[k, list(pair)].all()) for pair in tested.pairs]
    if measured.exposed is None or np.isnan(measured.received).any():
        return [file.PooledDisparity(disparity=None, ci=None, costs_resolved=r) for r in resolved]
    panel, weight = measured.panel, measure.benefit_of(measured.panel, plan)[1]
    share = by_split(np.stack([measured.benefit * weight, weight]).swapaxes(0, 1), panel.split)
    cost, n_splits = measured.exposed.per_split, measured.exposed.n_splits
    if n_splits != len(share):  # a cost over all models
        share = share.mean(axis=0, keepdims=True)
    parts = np.stack([share[:, 0], share[:, 1], cost], axis=1)  # (split, part, group)
    sums = parts.sum(axis=0, keepdims=True)
    if n_splits > 1:
        rng = generator(plan.rng, purpose=OVER_SPLITS, epsilon=panel.epsilon, model=panel.model)
        sums = np.concatenate([sums, bootstrap_sums(parts, resamples=plan.resamples, rng=rng)])
    ratio = metrics.pcer(sums[:, 0] / sums[:, 1], sums[:, 2] / n_splits, floor=measured.floor)
    found, level = [], plan.confidence_level
    for (i, j), both in zip(tested.pairs, resolved, strict=True):
        value, draws = np.split(ratio[:, i] - ratio[:, j], [1])
        ends = _interval(percentile_interval(draws, confidence_level=level)) if len(draws) else None
        found.append(file.PooledDisparity(disparity=number(value[0]), ci=ends, costs_resolved=both))
    return found


def draw_null(measured: Measured, pairs: tuple[Pair, ...], plan: Plan) -> Null | None:
    """Draw what the gap and the disparity would be without memorisation, rates as observed.

    Runs of one split share its draw, so that many runs of one split are not taken for many
    splits. Only a cost from counts has such a picture.
    """
    panel = measured.panel
    is_complete = bool(np.isfinite(measured.benefit).all() and np.isfinite(measured.cost).all())
    if not (measured.proxy.is_from_counts and panel.has_sizes and is_complete):
        return None
    strata = measure.strata_of(panel)
    luck, variance = split_luck(strata)
    rng = generator(plan.rng, purpose=NULL_DRAWS, epsilon=panel.epsilon, model=panel.model)
    n_groups = len(panel.group_names)
    gap = np.zeros((plan.null_draws, n_groups))
    disparity = np.zeros((plan.null_draws, len(pairs)))
    (first, second), scale = np.array(pairs).T, np.sqrt(variance)
    for split in range(panel.n_splits):
        seeds = np.flatnonzero(panel.split == split)
        run = Strata(*(part[:, seeds[0]] for part in strata))
        uniforms = rng.random((2, plan.null_draws, n_groups))
        off = draw_differences(run, uniforms=uniforms) - luck[seeds[0]]
        off = metrics.quotient(off, scale[seeds[0]], otherwise=0.0)
        for seed in seeds:
            drawn = np.maximum(luck[seed] + scale[seed] * off, 0.0)
            ratio = metrics.pcer(measured.benefit[seed], drawn, floor=plan.floor)
            gap += drawn
            disparity += ratio[:, first] - ratio[:, second]
    pictures = []
    for draws in (*gap.T / len(panel.seeds), *disparity.T / len(panel.seeds)):
        low, high = percentile_interval(draws, confidence_level=plan.confidence_level)
        mean, interval = float(draws.mean()), (float(low), float(high))
        pictures.append(file.NullPicture(mean=mean, interval=interval))
    return pictures[:n_groups], pictures[n_groups:]


def _interval(ends: FloatArray) -> tuple[float, float] | None:
    return (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else None


# Every cost alone


def cost_stories(tested: Tested, alone: dict[str, Evidence]) -> list[file.CostStory]:
    """Every carried attack by what is left of its own alarms: deciding ones first, then by name."""
    names = [*tested.attacks, *sorted(set(alone) - set(tested.attacks))]
    is_tested = [np.isfinite(alone[name].exposure.p_value).any() for name in names]
    p_values = np.where(is_tested, [alone[name].smallest_p for name in names], np.nan)
    first, second = np.array(tested.pairs, dtype=np.int64).T
    stories = []
    for name, p, over_costs in zip(names, p_values, statistics.holm(p_values), strict=True):
        evidence = alone[name]
        chosen = {
            "more_exposed": evidence.more_exposed[evidence.exposures_differ],
            "lower_ratio": np.where(evidence.cross.value > 0, second, first)[evidence.shown],
            "double_disadvantage": evidence.double[evidence.double >= 0],
        }
        groups = tested.panels[0].group_names
        stories.append(
            file.CostStory(
                cost=name,
                is_main=name == tested.cost,
                n_cells=evidence.n_cost_tests,
                n_resolved=int(evidence.resolved.sum()),
                p_value=number(p),
                p_value_over_costs=number(over_costs),
                **{what: [groups[g] for g in np.unique(of)] for what, of in chosen.items()},
            )
        )
    return stories
