"""What does the paper compute for a pair of groups?"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcer import metrics, statistics
from pcer.measuring.checks.arrays import is_random
from pcer.measuring.evidence import Tested
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import Measured, number
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray
from pcer.paper import records
from pcer.paper.null import OVER_SEEDS, Null
from pcer.statistics import bootstrap_sums, generator, percentile_interval

# (seed,) each, by what it is: a quantity's name, its cost, and the group, or pair and
# floor.
Columns = dict[tuple[object, ...], FloatArray]
Summaries = dict[tuple[object, ...], records.Summary]


def published_pair(
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
        records.FloorRow(
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
        "pcer_disparity": records.Disparity(
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


def seed_columns(
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


def summarise(columns: Columns, main: Measured, gap: Measured, plan: Plan) -> Summaries:
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
        summaries[key] = records.Summary(
            mean=number(mean[k]),
            std=number(std[k]) if has_spread else None,
            ci=interval_or_none(ends[:, k])
            if ends is not None and has_spread
            else None,
        )
    return summaries


def interval_or_none(ends: FloatArray) -> tuple[float, float] | None:
    """Both ends as Python floats; None where one is not finite."""
    return (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else None
