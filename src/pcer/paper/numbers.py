"""What does the paper compute for a setting: over seeds, of groups and of pairs?

``auditing.settings`` calls ``seed_columns``, ``summarise`` and ``published_pair``, once
for the attack whose numbers people see and once for the gap, which is the paper's own
cost. To add a quantity: a field of ``Quantities``, its values in ``seed_columns``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from pcer import metrics, statistics
from pcer.measuring.checks.arrays import is_random
from pcer.measuring.evidence import Tested
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import Measured, finite_or_none
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray
from pcer.paper import records
from pcer.paper.null import OVER_SEEDS, Null
from pcer.statistics import bootstrap_sums, generator, percentile_interval

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, kw_only=True)
class PairQuantities(Generic[T]):
    """A pair's numbers by one attack."""

    normalised: T
    disparity: dict[float, T]  # by floor: the attack's, and those of the grid

    def map(self, function: Callable[[T], U]) -> PairQuantities[U]:
        """Each quantity changed alike, in the order of the fields."""
        return PairQuantities(
            normalised=function(self.normalised),
            disparity={floor: function(x) for floor, x in self.disparity.items()},
        )


@dataclass(frozen=True, kw_only=True)
class AttackQuantities(Generic[T]):
    """A setting's numbers by one attack."""

    spread: T  # of the ratio over groups
    pairs: list[PairQuantities[T]]

    def map(self, function: Callable[[T], U]) -> AttackQuantities[U]:
        """Each quantity changed alike, in the order of the fields."""
        return AttackQuantities(
            spread=function(self.spread),
            pairs=[pair.map(function) for pair in self.pairs],
        )


@dataclass(frozen=True, kw_only=True)
class Quantities(Generic[T]):
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

    def map(self, function: Callable[[T], U]) -> Quantities[U]:
        """Each quantity changed alike, in the order of the fields."""

        def by_group(quantities: list[T]) -> list[U]:
            return [function(quantity) for quantity in quantities]

        def by_attack() -> dict[str, AttackQuantities[U]]:
            return {name: own.map(function) for name, own in self.attacks.items()}

        return Quantities(
            accuracy=function(self.accuracy),
            demographic_parity_gap=function(self.demographic_parity_gap),
            equalized_odds_gap=function(self.equalized_odds_gap),
            attacks=by_attack(),
            positive_rate=by_group(self.positive_rate),
            true_rate=by_group(self.true_rate),
            true_positive_rate=by_group(self.true_positive_rate),
            false_positive_rate=by_group(self.false_positive_rate),
            benefit=by_group(self.benefit),
            overfitting_gap=by_group(self.overfitting_gap),
            accuracy_difference=by_group(self.accuracy_difference),
            pcer={name: by_group(ratios) for name, ratios in self.pcer.items()},
        )


Columns: TypeAlias = Quantities[FloatArray]  # (seed,) each
Summaries: TypeAlias = Quantities[records.Summary]


def seed_columns(
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
        name = measured.proxy.name
        ratios[name] = _ratio(measured)
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


def _ratio(measured: Measured) -> FloatArray:
    """PCER (seed, group)."""
    return metrics.pcer(measured.benefit, measured.cost, floor=measured.floor)


def _attack_columns(
    measured: Measured, ratio: FloatArray, pairs: tuple[Pair, ...], plan: Plan
) -> AttackQuantities[FloatArray]:
    by_pair = []
    for pair in pairs:
        benefit = measured.benefit[:, pair]
        cost = measured.cost[:, pair]
        disparity = {}
        for floor in (measured.floor, *plan.floors):
            at_floor = metrics.pcer(benefit, cost, floor=floor)
            disparity[floor] = metrics.pcer_disparity(at_floor)[:, 0]
        normalised = metrics.normalised_disparity(ratio[:, pair])[:, 0]
        by_pair.append(PairQuantities(normalised=normalised, disparity=disparity))
    return AttackQuantities(spread=metrics.pcer_spread(ratio), pairs=by_pair)


def summarise(columns: Columns, main: Measured, gap: Measured, plan: Plan) -> Summaries:
    """Mean, standard deviation and bootstrap interval over seeds of every column.

    One seed has no interval, and neither has what an attack enters into that has no
    spread over them.
    """
    flat = list[FloatArray]()
    columns.map(flat.append)
    summaries = iter(_summaries(np.stack(flat, axis=1), main, plan))
    summarised = columns.map(lambda _column: next(summaries))
    attacks = dict(summarised.attacks)
    pcer = dict(summarised.pcer)
    for measured in (main, gap):
        if measured.is_pooled:
            name = measured.proxy.name
            attacks[name] = attacks[name].map(_without_spread)
            pcer[name] = [_without_spread(ratio) for ratio in pcer[name]]
    return replace(summarised, attacks=attacks, pcer=pcer)


def _summaries(
    values: FloatArray, measured: Measured, plan: Plan
) -> list[records.Summary]:
    """Summaries of every column of values (seed, column)."""
    n_seeds = len(values)
    mean = values.mean(axis=0)
    if n_seeds == 1:
        return [
            records.Summary(mean=finite_or_none(x), std=None, ci=None) for x in mean
        ]
    std = values.std(axis=0, ddof=1)
    panel = measured.panel
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


def published_pair(
    measured: Measured,
    tested: Tested,
    pair: int,
    columns: Columns,
    summaries: Summaries,
    null: Null | None,
) -> records.PublishedPair:
    """What the paper computes for a pair of groups, by one attack.

    Args:
        measured: the setting by that attack.
        tested: its release.
        pair: number of the pair.
        columns: quantities by seed.
        summaries: the same over seeds.
        null: if nothing were memorised; None where it is not known.
    """
    attack = measured.proxy.name
    column = columns.attacks[attack].pairs[pair]
    summary = summaries.attacks[attack].pairs[pair]
    if not _is_held_against_null(measured, tested):
        null = None
    groups = tested.pairs[pair]
    floors = []
    for k, floor in enumerate(tested.plan.floors):
        null_mean = None if null is None else float(null.disparity_by_floor[k, pair])
        row = _floor_row(measured, groups, floor, column, summary, null_mean)
        floors.append(row)
    names = measured.panel.group_names
    picture = None if null is None else null.disparities[pair]
    return records.PublishedPair(
        groups=(names[groups[0]], names[groups[1]]),
        pcer_disparity=_disparity(measured, column, summary, picture),
        normalised_disparity=summary.normalised,
        floors=floors,
        floor_slope=_slope(floors),
    )


def _is_held_against_null(measured: Measured, tested: Tested) -> bool:
    """Not one seed, nor records that were not split at random."""
    has_several = len(measured.cost) > 1
    return measured.proxy.is_from_counts and has_several and is_random(tested.release)


def _disparity(
    measured: Measured,
    column: PairQuantities[FloatArray],
    summary: PairQuantities[records.Summary],
    picture: records.NullPicture | None,
) -> records.Disparity:
    """The disparity at the attack's floor, with its sign test and its null."""
    values = column.disparity[measured.floor]
    summarised = summary.disparity[measured.floor]
    positive = _n_positive(measured, values, values)
    negative = int((values < 0).sum())
    sign_p = None if positive is None else statistics.sign_test(positive, negative)
    is_beyond = None
    if picture is not None and summarised.mean is not None:
        low, high = picture.interval
        is_beyond = not low <= summarised.mean <= high
    return records.Disparity(
        **dict(summarised),
        n_positive_seeds=positive,
        sign_test_p=sign_p,
        null_mean=None if picture is None else picture.mean,
        null_interval=None if picture is None else picture.interval,
        is_beyond_null=is_beyond,
    )


def _n_positive(
    measured: Measured, values: FloatArray, main_values: FloatArray
) -> int | None:
    """Seeds above 0; None where the attack has no values by seed.

    ``main_values`` are those at the attack's own floor.
    """
    if measured.is_pooled or not np.isfinite(main_values).all():
        return None
    return int((values > 0).sum())


def _floor_row(
    measured: Measured,
    pair: Pair,
    floor: float,
    column: PairQuantities[FloatArray],
    summary: PairQuantities[records.Summary],
    null_mean: float | None,
) -> records.FloorRow:
    """The disparity at one floor of the grid."""
    cost = measured.cost[:, pair]
    share = float(metrics.floor_dominated(cost, floor=floor).mean())
    main_values = column.disparity[measured.floor]
    return records.FloorRow(
        **dict(summary.disparity[floor]),
        floor=floor,
        n_positive_seeds=_n_positive(measured, column.disparity[floor], main_values),
        floor_dominated_share=share if np.isfinite(cost).all() else None,
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
