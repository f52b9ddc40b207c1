"""From one budget's panel and the plan to arrays: benefit, cost, their estimates, summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pcer import metrics
from pcer.auditing.file import NullPicture, Plan, Summary
from pcer.auditing.null import SplitLuck, draw_differences, split_luck, split_luck_of_rates
from pcer.errors import PlanError
from pcer.metrics import Counts, FloatArray
from pcer.release import GAP, PROXIES, Panel, carried_costs
from pcer.statistics import bootstrap_sums, generator, percentile_interval

ColumnKey = tuple[object, ...]
"""What is summarised over seeds: a quantity's name, and the group, pair or floor it is of."""
Pair = tuple[int, int]

OVER_SEEDS, OVER_SPLITS, NULL_DRAWS = range(3)
"""What a stream of random numbers is for."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A per-group quantity and its standard error; arrays over the group."""

    value: FloatArray
    standard_error: FloatArray


@dataclass(frozen=True, kw_only=True)
class SplitMeans:
    """Per-split means of one budget: what the tests are computed from."""

    cost: FloatArray
    """(split, group) cost with the luck of the split taken off its mean."""
    variance: FloatArray
    """(group,) variance of one split's cost if only the split is random."""
    benefit: FloatArray
    """(split, group)."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One budget as arrays; what the release cannot give is None, with the reason."""

    panel: Panel
    benefit: FloatArray
    """(seed, group)."""
    n_benefit: FloatArray
    """(group,) mean number of test records behind the benefit."""
    cost: FloatArray
    """(seed, group) signed; NaN where not released."""
    luck: SplitLuck | None
    """Moments of the accuracy difference, (seed, group)."""
    means: SplitMeans | None
    estimate: Estimate | None
    reason: str | None
    """Why there is no estimate."""


def measure_panel(panel: Panel, plan: Plan) -> Measured:
    """Compute what the plan asks of one budget."""
    benefit, weight = _benefit(panel, plan)
    luck = _luck(panel) if panel.has_sizes else None
    cost = _signed_cost(panel, plan)
    means, reason = _split_means(panel, plan, benefit, luck)
    if means is not None and not np.isfinite(benefit).all():
        means, reason = None, f"{plan.benefit} is not defined for some group in some run"
    return Measured(
        panel=panel,
        benefit=benefit,
        n_benefit=weight.mean(axis=0),
        cost=cost,
        luck=luck,
        means=means,
        estimate=None if means is None else cost_estimate(means),
        reason=reason,
    )


def measure_costs(panels: Sequence[Panel], plan: Plan) -> dict[str, list[Measured]]:
    """The same for every cost that the release has, by name: all other things equal."""
    costs = dict.fromkeys([GAP.name, *carried_costs(panels)])
    plans = {cost: plan.model_copy(update={"cost": cost}) for cost in costs}
    return {cost: [measure_panel(panel, one) for panel in panels] for cost, one in plans.items()}


def require_available(panels: tuple[Panel, ...], plan: Plan) -> None:
    """Raise PlanError where the release does not carry what the plan names."""
    first = panels[0]
    costs = sorted({GAP.name, *carried_costs(panels)})
    if plan.cost not in costs:
        needs = f"; {plan.cost} needs {PROXIES[plan.cost].needs}" if plan.cost in PROXIES else ""
        raise PlanError(
            f"cost {plan.cost!r} is not in this release; it carries {', '.join(costs)}{needs}."
        )
    if plan.benefit != "positive_rate" and first.test is None:
        raise PlanError(
            f"benefit {plan.benefit!r} needs confusion counts, and this release has only rates; "
            "use positive_rate or ask the trainer for counts."
        )
    if plan.reference_group not in (None, *first.group_names):
        raise PlanError(
            f"reference group {plan.reference_group!r} is not a group of this release; its groups "
            f"are {', '.join(first.group_names)}."
        )


def pairs_of(panels: tuple[Panel, ...], plan: Plan) -> tuple[Pair, ...]:
    """Which groups are compared: reference first. Two groups: the paper's order by default."""
    names = panels[0].group_names
    if plan.reference_group is not None:
        reference = names.index(plan.reference_group)
    elif len(names) == 2:
        reference = 0
    else:
        sizes = np.concatenate([panel.n_train + panel.n_test for panel in panels]).mean(axis=0)
        reference = 0 if np.isnan(sizes).any() else int(np.argmax(sizes))
    return tuple((reference, other) for other in range(len(names)) if other != reference)


def summarise(
    columns: Mapping[ColumnKey, FloatArray], plan: Plan, *, epsilon: float
) -> dict[ColumnKey, Summary]:
    """Mean, standard deviation and bootstrap interval of every column over seeds.

    One resampling serves all columns. A column with a NaN has no summary; one seed no interval.
    """
    values = np.stack(list(columns.values()), axis=1)
    n_seeds = len(values)
    mean, std, ci = values.mean(axis=0), None, None
    if n_seeds > 1:
        std = values.std(axis=0, ddof=1)
        rng = generator(plan.rng, purpose=OVER_SEEDS, epsilon=epsilon)
        draws = bootstrap_sums(values, resamples=plan.resamples, rng=rng) / n_seeds
        ci = percentile_interval(draws, confidence_level=plan.confidence_level)
    return {
        key: Summary(
            mean=number(mean[k]),
            std=None if std is None else number(std[k]),
            ci=None if ci is None else interval(ci[:, k]),
        )
        for k, key in enumerate(columns)
    }


def pooled_disparity(
    measured: Measured, pair: Pair, plan: Plan
) -> tuple[float | None, tuple[float, float] | None]:
    """Disparity of pooled rate over pooled cost, with a bootstrap interval over splits."""
    if measured.means is None:
        return None, None
    weight = _benefit(measured.panel, plan)[1]
    share = by_split(
        np.stack([measured.benefit * weight, weight]).swapaxes(0, 1), measured.panel.split
    )
    cost, n_splits = measured.means.cost, len(measured.means.cost)
    if n_splits != len(share):
        share = share.mean(axis=0, keepdims=True)
    parts = np.stack([share[:, 0], share[:, 1], cost], axis=1)

    def disparity(sums: FloatArray) -> FloatArray:
        rate = sums[..., 0, :] / sums[..., 1, :]
        ratio = metrics.pcer(rate, sums[..., 2, :] / n_splits, floor=plan.floor)
        return np.asarray(ratio[..., pair[0]] - ratio[..., pair[1]])

    value = number(disparity(parts.sum(axis=0)))
    if n_splits < 2:
        return value, None
    rng = generator(plan.rng, purpose=OVER_SPLITS, epsilon=measured.panel.epsilon)
    draws = disparity(bootstrap_sums(parts, resamples=plan.resamples, rng=rng))
    return value, interval(percentile_interval(draws, confidence_level=plan.confidence_level))


@dataclass(frozen=True, kw_only=True)
class NullDraws:
    """Means over seeds if nothing was memorised, one per draw."""

    gap: FloatArray
    """(draw, group)."""
    disparity: FloatArray
    """(draw, pair)."""

    def gap_picture(self, group: int, plan: Plan) -> NullPicture:
        """Mean and interval of a group's mean gap."""
        return _picture(self.gap[:, group], plan)

    def disparity_picture(self, pair: int, plan: Plan) -> NullPicture:
        """Mean and interval of a pair's mean disparity."""
        return _picture(self.disparity[:, pair], plan)


def draw_null(measured: Measured, pairs: tuple[Pair, ...], plan: Plan) -> NullDraws | None:
    """Draw what the gap and the disparity would be without memorisation, rates as observed.

    Runs of one split share its draw, so that many runs of one split are not taken for many
    splits. Only a cost from counts has such a picture.
    """
    panel, luck = measured.panel, measured.luck
    known = plan.proxy.is_from_counts and bool(
        np.isfinite(measured.benefit).all() and np.isfinite(measured.cost).all()
    )
    if luck is None or not known:
        return None
    rng = generator(plan.rng, purpose=NULL_DRAWS, epsilon=panel.epsilon)
    n_groups = len(panel.group_names)
    luck_of_split: dict[int, FloatArray] = {}
    gap = np.zeros((plan.null_draws, n_groups))
    disparity = np.zeros((plan.null_draws, len(pairs)))
    first, second = [i for i, _ in pairs], [j for _, j in pairs]
    for seed, split in enumerate(panel.split.tolist()):
        mean, scale = luck.mean[seed], np.sqrt(luck.variance[seed])
        if split not in luck_of_split:
            uniforms = rng.random((2, plan.null_draws, n_groups))
            difference = draw_differences(*_tables_of(panel, seed), uniforms=uniforms)
            luck_of_split[split] = _standardise(difference - mean, scale)
        drawn = np.maximum(mean + scale * luck_of_split[split], 0.0)
        ratio = metrics.pcer(measured.benefit[seed], drawn, floor=plan.floor)
        gap += drawn
        disparity += ratio[:, first] - ratio[:, second]
    return NullDraws(gap=gap / len(panel.seeds), disparity=disparity / len(panel.seeds))


def number(value: float | FloatArray) -> float | None:
    """A finite Python float, or None."""
    return float(value) if np.isfinite(value) else None


def interval(bounds: FloatArray) -> tuple[float, float] | None:
    """Two finite floats, or None."""
    return (float(bounds[0]), float(bounds[1])) if np.isfinite(bounds).all() else None


def _benefit(panel: Panel, plan: Plan) -> tuple[FloatArray, FloatArray]:
    """Benefit and the number of test records behind it, (seed, group)."""
    if panel.test is None or plan.benefit == "positive_rate":
        return panel.positive_rate, panel.n_test
    if plan.benefit == "true_positive_rate":
        return metrics.true_positive_rate(panel.test), panel.test.tp + panel.test.fn
    return metrics.precision(panel.test), panel.test.tp + panel.test.fp


def _signed_cost(panel: Panel, plan: Plan) -> FloatArray:
    shape = panel.train_accuracy.shape
    if plan.proxy.is_from_counts:
        return metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
    if plan.cost in panel.exposure:
        return panel.exposure[plan.cost].value
    if plan.cost in panel.pooled:
        return np.broadcast_to(panel.pooled[plan.cost].value, shape)
    return np.full(shape, np.nan)


def _split_means(
    panel: Panel, plan: Plan, benefit: FloatArray, luck: SplitLuck | None
) -> tuple[SplitMeans | None, str | None]:
    """Per-split means for the tests, or why there are none."""
    if luck is None:
        return None, "group sizes (n) are not in the release"
    if plan.proxy.is_from_counts:
        difference = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
        if not np.isfinite(difference).all():
            return None, "some group's accuracy is withheld in some model"
        return _averaged(panel, difference - luck.mean, luck.variance, benefit), None
    if plan.cost in panel.pooled:
        pooled = panel.pooled[plan.cost]
        means = SplitMeans(
            cost=pooled.value[None],
            variance=pooled.standard_error**2,
            benefit=benefit.mean(axis=0, keepdims=True),
        )
    elif plan.cost in panel.exposure:
        exposure = panel.exposure[plan.cost]
        means = _averaged(panel, exposure.value, exposure.standard_error**2, benefit)
    else:
        return None, f"{plan.cost} is not released for this budget"
    if not (np.isfinite(means.cost).all() and np.isfinite(means.variance).all()):
        return None, f"{plan.cost} lacks a value or a standard error for some group"
    return means, None


def _averaged(
    panel: Panel, cost: FloatArray, variance: FloatArray, benefit: FloatArray
) -> SplitMeans:
    return SplitMeans(
        cost=by_split(cost, panel.split),
        variance=by_split(variance, panel.split).mean(axis=0),
        benefit=by_split(benefit, panel.split),
    )


def _luck(panel: Panel) -> SplitLuck:
    """By label where a table has counts; of rates, with one stratum for the whole group."""
    rates = split_luck_of_rates(
        panel.train_accuracy, panel.test_accuracy, panel.n_train, panel.n_test
    )
    if panel.train is None or panel.test is None:
        return rates
    counts = split_luck(panel.train, panel.test)
    known = np.isfinite(counts.variance)
    return SplitLuck(*(np.where(known, *both) for both in zip(counts, rates, strict=True)))


def _tables_of(panel: Panel, seed: int) -> tuple[Counts, Counts]:
    """One run's counts; of rates the nearest whole numbers, as one stratum."""
    tables = (panel.n_train, panel.train_accuracy), (panel.n_test, panel.test_accuracy)
    train, test = (_one_stratum(n[seed], rate[seed]) for n, rate in tables)
    if panel.train is not None and panel.test is not None:
        known = np.isfinite(panel.train.n[seed] + panel.test.n[seed])
        counts = ((panel.train, train), (panel.test, test))
        train, test = (
            Counts(*(np.where(known, a[seed], b) for a, b in zip(have, rest, strict=True)))
            for have, rest in counts
        )
    return train, test


def _one_stratum(n: FloatArray, rate: FloatArray) -> Counts:
    right, none = np.rint(n * rate), np.zeros_like(n)
    return Counts(tp=right, fp=none, tn=none, fn=n - right)


def _standardise(deviation: FloatArray, scale: FloatArray) -> FloatArray:
    return np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0)


def _picture(draws: FloatArray, plan: Plan) -> NullPicture:
    low, high = percentile_interval(draws, confidence_level=plan.confidence_level)
    return NullPicture(mean=float(draws.mean()), interval=(float(low), float(high)))


def by_split(values: FloatArray, split: npt.NDArray[np.int64]) -> FloatArray:
    """Average the runs of each split: (seed, ...) -> (split, ...)."""
    sums = np.zeros((int(split.max()) + 1, *values.shape[1:]))
    np.add.at(sums, split, values)
    runs = np.bincount(split).reshape(-1, *([1] * (values.ndim - 1)))
    return np.asarray(sums / runs)


def cost_estimate(means: SplitMeans) -> Estimate:
    """Mean cost over distinct splits; the error is never below the closed form."""
    variance = at_least_sample_variance(means.variance, means.cost)
    return Estimate(
        value=means.cost.mean(axis=0), standard_error=np.sqrt(variance / len(means.cost))
    )


def at_least_sample_variance(closed: FloatArray, per_split: FloatArray) -> FloatArray:
    """The closed form, or the spread over splits (first axis) where that is larger."""
    if len(per_split) < 2:
        return np.asarray(closed)
    return np.asarray(np.maximum(closed, per_split.var(axis=0, ddof=1)))
