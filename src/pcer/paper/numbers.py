"""What does the paper compute for a setting: over seeds, and if nothing were memorised?

``auditing`` calls ``paper_numbers`` once an audit: summaries over seeds, by the attack
whose numbers people see and by the gap, which is the paper's own cost, and what gap and
disparity would be without memorisation (``null``). To add a quantity: a field of
``Quantities``, its values in ``_seed_columns``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from pcer import metrics, statistics
from pcer.measuring.checks.arrays import is_random, stated_epsilon
from pcer.measuring.exposure import Measured, Pair
from pcer.measuring.plan import Plan
from pcer.measuring.tested import Tested
from pcer.metrics import FloatArray
from pcer.paper import records
from pcer.paper.null import Null, draw_null
from pcer.release.attack_kinds import GAP
from pcer.release.panel import Panel
from pcer.statistics import (
    bootstrap_sums,
    finite_or_none,
    generator,
    percentile_interval,
)

# What a stream of random numbers is for.
OVER_SEEDS = 0
OVER_SPLITS = 1

T = TypeVar("T")


class PairQuantities(NamedTuple, Generic[T]):
    """A pair's numbers by one attack."""

    normalised: T
    disparity: dict[float, T]  # by floor: the attack's, and those of the grid


class AttackQuantities(NamedTuple, Generic[T]):
    """A setting's numbers by one attack."""

    spread: T  # of the ratio over groups
    pairs: list[PairQuantities[T]]


class Quantities(NamedTuple, Generic[T]):
    """Every published quantity of a setting; lists are by group.

    The order of the fields is that of the columns that are resampled, and so is part of
    the last digit of their intervals.
    """

    accuracy: T
    demographic_parity_gap: T
    equalized_odds_gap: T
    attacks: dict[str, AttackQuantities[T]]
    positive_rate: list[T]
    true_rate: list[T]
    true_positive_rate: list[T]
    false_positive_rate: list[T]
    benefit: list[T]
    overfitting_gap: list[T]
    accuracy_difference: list[T]
    pcer: dict[str, list[T]]  # by attack


Columns: TypeAlias = Quantities[FloatArray]  # (seed,) each
Summaries: TypeAlias = Quantities[records.Summary]


def _mapped(quantities: Any, function: Callable[[Any], Any]) -> Any:
    """Tuples, lists and dicts with each quantity changed, in their order."""
    if isinstance(quantities, dict):
        return {key: _mapped(part, function) for key, part in quantities.items()}
    if isinstance(quantities, list):
        return [_mapped(part, function) for part in quantities]
    if isinstance(quantities, tuple):
        return type(quantities)(*[_mapped(part, function) for part in quantities])
    return function(quantities)


class SettingNumbers(NamedTuple):
    """What the paper computes for one setting."""

    summaries: Summaries
    null: Null | None
    pairs: list[records.PublishedPair]  # by the attack whose numbers people see
    published: records.PublishedSetting  # by the gap


def paper_numbers(tested: Tested) -> list[SettingNumbers]:
    """The paper's numbers of every setting, in the release's order."""
    return [_setting_numbers(tested, index) for index in range(len(tested.panels))]


def _setting_numbers(tested: Tested, setting_index: int) -> SettingNumbers:
    main = tested.measured[tested.attack][setting_index]
    gap = tested.measured[GAP.name][setting_index]
    columns = _seed_columns(main, gap, tested.pairs, tested.plan)
    summaries = _summarise(columns, main, gap, tested.plan)
    null = draw_null(gap, tested)
    ratios = dict(zip(gap.panel.group_names, summaries.pcer[GAP.name], strict=True))
    published = records.PublishedSetting(
        epsilon=stated_epsilon(gap.panel),
        pcer=ratios,
        pairs=_published_pairs(gap, tested, columns, summaries, null),
    )
    pairs = _published_pairs(main, tested, columns, summaries, null)
    return SettingNumbers(summaries, null, pairs, published)


# Over seeds


def _seed_columns(
    main: Measured, gap: Measured, pairs: tuple[Pair, ...], plan: Plan
) -> Columns:
    """Every published quantity by seed, by the main attack and by the gap."""
    panel = main.panel
    train_accuracy = panel.train_accuracy
    test_accuracy = panel.test_accuracy
    true = tpr = fpr = np.full(panel.positive_rate.shape, np.nan)
    if panel.test is not None:
        tpr = metrics.true_positive_rate(panel.test)
        fpr = metrics.false_positive_rate(panel.test)
        true = (panel.test.tp + panel.test.fn) / panel.n_test
    n_right = (test_accuracy * panel.n_test).sum(axis=1)
    ratios = {}
    attacks = {}
    for measured in (main, gap):
        name = measured.attack_kind.name
        ratios[name] = metrics.pcer(
            measured.benefit, measured.exposure, floor=measured.floor
        )
        attacks[name] = _attack_columns(measured, ratios[name], pairs, plan)
    return Quantities(
        accuracy=n_right / panel.n_test.sum(axis=1),
        demographic_parity_gap=metrics.demographic_parity_gap(panel.positive_rate),
        equalized_odds_gap=metrics.equalized_odds_gap(tpr, fpr),
        attacks=attacks,
        positive_rate=[*panel.positive_rate.T],
        true_rate=[*true.T],
        true_positive_rate=[*tpr.T],
        false_positive_rate=[*fpr.T],
        benefit=[*main.benefit.T],
        overfitting_gap=[*metrics.overfitting_gap(train_accuracy, test_accuracy).T],
        accuracy_difference=[
            *metrics.accuracy_difference(train_accuracy, test_accuracy).T
        ],
        pcer={name: [*ratio.T] for name, ratio in ratios.items()},
    )


def _attack_columns(
    measured: Measured, ratio: FloatArray, pairs: tuple[Pair, ...], plan: Plan
) -> AttackQuantities[FloatArray]:
    by_pair = []
    for pair in pairs:
        benefit = measured.benefit[:, pair]
        exposure = measured.exposure[:, pair]
        disparity = {}
        for floor in (measured.floor, *plan.floors):
            at_floor = metrics.pcer(benefit, exposure, floor=floor)
            disparity[floor] = metrics.pcer_disparity(at_floor)[:, 0]
        normalised = metrics.normalised_disparity(ratio[:, pair])[:, 0]
        by_pair.append(PairQuantities(normalised=normalised, disparity=disparity))
    return AttackQuantities(spread=metrics.pcer_spread(ratio), pairs=by_pair)


def _summarise(
    columns: Columns, main: Measured, gap: Measured, plan: Plan
) -> Summaries:
    """Mean, standard deviation and bootstrap interval over seeds of every column.

    One seed has no interval, and neither has what an attack enters into that has no
    spread over them.
    """
    flat = list[FloatArray]()
    _mapped(columns, flat.append)
    in_order = iter(_summaries(np.stack(flat, axis=1), main.panel, plan))
    summaries: Summaries = _mapped(columns, lambda _column: next(in_order))
    for measured in (main, gap):
        if measured.is_pooled:
            for by_attack in (summaries.attacks, summaries.pcer):
                name = measured.attack_kind.name
                by_attack[name] = _mapped(by_attack[name], _without_spread)
    return summaries


def _summaries(values: FloatArray, panel: Panel, plan: Plan) -> list[records.Summary]:
    """Summaries of every column of values (seed, column)."""
    n_seeds = len(values)
    mean = values.mean(axis=0)
    if n_seeds == 1:
        return [
            records.Summary(mean=finite_or_none(x), std=None, ci=None) for x in mean
        ]
    std = values.std(axis=0, ddof=1)
    rng = generator(
        plan.rng, purpose=OVER_SEEDS, epsilon=panel.epsilon, model=panel.model
    )
    draws = bootstrap_sums(values, resamples=plan.resamples, rng=rng) / n_seeds
    ends = percentile_interval(draws, confidence_level=plan.confidence_level)
    return [
        records.Summary(
            mean=finite_or_none(mean[k]),
            std=finite_or_none(std[k]),
            ci=interval_or_none(ends[:, k]),
        )
        for k in range(values.shape[1])
    ]


def _without_spread(summary: records.Summary) -> records.Summary:
    return records.Summary(mean=summary.mean, std=None, ci=None)


def interval_or_none(ends: FloatArray) -> tuple[float, float] | None:
    """Both ends as Python floats; None where one is not finite."""
    return (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else None


# Of pairs


def _published_pairs(
    measured: Measured,
    tested: Tested,
    columns: Columns,
    summaries: Summaries,
    null: Null | None,
) -> list[records.PublishedPair]:
    """What the paper computes for every pair, by one attack.

    One seed, and records that were not split at random, have no null.
    """
    attack = measured.attack_kind.name
    has_several = len(measured.exposure) > 1
    if not (measured.attack_kind is GAP and has_several and is_random(tested.release)):
        null = None
    names = measured.panel.group_names
    published = []
    for index, (first, second) in enumerate(tested.pairs):
        column = columns.attacks[attack].pairs[index].disparity
        summary = summaries.attacks[attack].pairs[index]
        picture = None if null is None else null.disparities[index]
        rows = []
        for k, floor in enumerate(tested.plan.floors):
            null_mean = None
            if null is not None:
                null_mean = float(null.disparity_by_floor[k, index])
            exposure = measured.exposure[:, (first, second)]
            row = _floor_row(measured, exposure, floor, column, summary, null_mean)
            rows.append(row)
        published.append(
            records.PublishedPair(
                groups=(names[first], names[second]),
                pcer_disparity=_disparity(
                    measured, column, summary.disparity[measured.floor], picture
                ),
                normalised_disparity=summary.normalised,
                floors=rows,
                floor_slope=_slope(rows),
            )
        )
    return published


def _disparity(
    measured: Measured,
    column: dict[float, FloatArray],
    summary: records.Summary,
    picture: records.NullPicture | None,
) -> records.Disparity:
    """The disparity at the attack's floor, with its sign test and its null."""
    values = column[measured.floor]
    positive = _n_positive(measured, values, values)
    negative = int((values < 0).sum())
    sign_p = None if positive is None else statistics.sign_test(positive, negative)
    is_beyond = None
    if picture is not None and summary.mean is not None:
        low, high = picture.interval
        is_beyond = not low <= summary.mean <= high
    return records.Disparity(
        **dict(summary),
        n_positive_seeds=positive,
        sign_test_p=sign_p,
        null_mean=None if picture is None else picture.mean,
        null_interval=None if picture is None else picture.interval,
        is_beyond_null=is_beyond,
    )


def _n_positive(
    measured: Measured, values: FloatArray, main_values: FloatArray
) -> int | None:
    """Seeds above 0; None where the attack has no values by seed, at its own floor."""
    if measured.is_pooled or not np.isfinite(main_values).all():
        return None
    return int((values > 0).sum())


def _floor_row(
    measured: Measured,
    exposure: FloatArray,
    floor: float,
    column: dict[float, FloatArray],
    summary: PairQuantities[records.Summary],
    null_mean: float | None,
) -> records.FloorRow:
    """The disparity of a pair at one floor of the grid; its costs are (seed, side)."""
    share = float(metrics.floor_dominated(exposure, floor=floor).mean())
    return records.FloorRow(
        **dict(summary.disparity[floor]),
        floor=floor,
        n_positive_seeds=_n_positive(measured, column[floor], column[measured.floor]),
        floor_dominated_share=share if np.isfinite(exposure).all() else None,
        null_mean=null_mean,
    )


def _slope(floors: list[records.FloorRow]) -> float | None:
    """Least-squares slope of log |mean disparity| against log floor; -1 is all floor.

    None where a mean is 0 or not known, and for one floor.
    """
    means = [abs(row.mean) for row in floors if row.mean]
    if len(floors) < 2 or len(means) < len(floors):
        return None
    x = np.log([row.floor for row in floors])
    y = np.log(means)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())
