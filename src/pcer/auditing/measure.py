"""From one setting's panel and the plan to arrays: benefit, cost, and what tests need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pcer import metrics
from pcer.auditing.exact import (
    SMALLEST_P,
    Strata,
    hidden_cost_limit,
    lowest_seeds,
    memorised,
    strata_of_counts,
    strata_of_rates,
)
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.variances import (
    SplitLuck,
    auc_people_part,
    balanced_people_part,
    benefit_variance,
    cost_limit,
    cost_variance,
    luck_of_strata,
    people_part,
    rate_covariance,
    rate_variance,
    record_variance,
    subset_covariance,
)
from pcer.errors import PlanError
from pcer.metrics import Counts, FloatArray, IntArray
from pcer.release import proxies
from pcer.release.panel import Panel, carried_costs
from pcer.release.proxies import GAP, PROXIES, Proxy, proxy_named
from pcer.statistics import upper_p

Pair = tuple[int, int]

NO_SIZES = "group sizes (n) are not in the release"

LIMIT_STEPS = 8
"""Repetitions after which a limit and its own error agree to a hundredth of the error."""

MUTUAL = 2.0
"""Variance factor: training on one record changes predictions for others, which a single sweep
cannot measure. In the interval of one group's exposure that counts as much as what records add
themselves; in a difference of groups only the share of it that they do not have in common
(``separation``)."""

LEAST_RECORDS = 50
"""Records of a group from which on an attack over all models tells something about it."""

PEOPLE_PARTS: dict[proxies.Scale, Callable[[FloatArray, FloatArray], FloatArray]] = {
    proxies.ACCURACY: people_part,
    proxies.AUC: auc_people_part,
    proxies.BALANCED: balanced_people_part,
}
"""What people add to the variance of a cost that is measured in each run, by its scale."""

ADVANTAGES = (proxies.RMIA, proxies.LIRA, proxies.REFERENCE, proxies.AUC_ADVANTAGE)
PAIRED = (proxies.PAIRED_CONFIDENCE, proxies.PAIRED_GAP)
"""Attacks that may decide, strongest first: one of each. An advantage near its ceiling cannot show
differences, and a paired attack misses weak ones that concern everybody."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """Mean benefit and its variance for people like these; arrays over the group."""

    value: FloatArray
    variance: FloatArray
    lasting: FloatArray
    """The part of the variance that no number of splits lowers."""
    per_split: FloatArray
    """(split, group)."""

    def only(self, groups: IntArray) -> Received:
        """Some groups, or one side of every pair."""
        return Received(
            value=self.value[groups],
            variance=self.variance[groups],
            lasting=self.lasting[groups],
            per_split=self.per_split[:, groups],
        )


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """One cost of one setting, as the tests need it; arrays over the group.

    A cost over all models is one split with all of its error.
    """

    per_split: FloatArray
    """(split, group) cost with the luck of the split taken off its mean."""
    null_variance: FloatArray
    """Of the mean over splits if nothing was memorised; of other costs than the gap, as given."""
    one_split: FloatArray
    """Variance of one split's cost for people drawn anew."""
    n: FloatArray
    """Records, or as many as clumps of them are worth."""
    n_test: FloatArray
    """Those of one test part, counted alike."""
    people: Callable[[FloatArray, FloatArray], FloatArray] | None
    """What people add to the variance at a cost; None: as much as one split's whole variance."""
    covariance: FloatArray
    """Of cost and benefit in one split; NaN where unknown."""
    is_counted: bool
    """Whether it is from counts, where people may add to the covariance."""
    of_records: FloatArray
    """What records alone make of a value over all models; NaN of other costs and where unknown."""

    @cached_property
    def value(self) -> FloatArray:
        """Mean cost over distinct splits."""
        return np.asarray(self.per_split.mean(axis=0))

    @property
    def n_splits(self) -> int:
        """Splits that the error is divided by."""
        return len(self.per_split)

    @cached_property
    def variance(self) -> FloatArray:
        """Of the value, for people like these."""
        return self.variance_at(self.value)

    @cached_property
    def alone(self) -> FloatArray:
        """Variance of one group's value by itself, as its interval has it."""
        return self._with_others(self.variance)

    def _with_others(self, variance: FloatArray) -> FloatArray:
        """At least what records add to each other's, see ``MUTUAL``."""
        return np.fmax(variance, MUTUAL * self.of_records)

    def people_part(self, cost: FloatArray) -> FloatArray:
        """What people add to the variance if that is the cost."""
        if self.people is None:
            return self.one_split
        return self.people(cost, self.n)

    def variance_at(self, cost: FloatArray) -> FloatArray:
        """Of the value, its people's part taken at some cost."""
        return cost_variance(
            self.per_split, one_split=self.one_split, people=self.people_part(cost)
        )

    def limit(self, *, z: float) -> FloatArray:
        """Largest cost that the data allow: z of the errors that it would have away from the value.

        The error at the value is too small for the costs above it, the more so the further out;
        above 1/2 it is the larger one.
        """
        limit = cost_limit(self.value, np.sqrt(self.alone), z=z)
        for _ in range(LIMIT_STEPS):
            variance = np.maximum(self._variance_if(limit), self.alone)
            limit = cost_limit(self.value, np.sqrt(variance), z=z)
        return limit

    def _variance_if(self, cost: FloatArray) -> FloatArray:
        """Of the value if the cost was so much larger: as many more people wrong out of training.

        A bound: at least as many as the value says are wrong there already.
        """
        more: FloatArray | float = 0.0
        if self.is_counted:
            more = people_part(cost, self.n_test) - people_part(self.value, self.n_test)
        one_split = self.one_split + np.maximum(more, 0.0)
        people = self.people_part(cost)
        return self._with_others(cost_variance(self.per_split, one_split=one_split, people=people))

    def only(self, groups: IntArray) -> Exposed:
        """Some groups, or one side of every pair."""
        return replace(
            self,
            n_test=self.n_test[groups],
            per_split=self.per_split[:, groups],
            null_variance=self.null_variance[groups],
            one_split=self.one_split[groups],
            n=self.n[groups],
            covariance=self.covariance[groups],
            of_records=self.of_records[groups],
        )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One setting and one cost as arrays; what the release cannot give is None, with the reason."""

    panel: Panel
    proxy: Proxy
    benefit: FloatArray
    """(seed, group)."""
    cost: FloatArray
    """(seed, group) signed; NaN where not released."""
    strata: Strata | None
    """What each split's first run gets right; None where sizes or accuracies are withheld."""
    inflation: FloatArray
    """(group,) by how much clumps of records multiply a variance."""
    received: Received | None
    exposed: Exposed | None
    told: npt.NDArray[np.bool_]
    """(group,) whether this cost tells anything about a group of its size."""
    reason: str | None
    """Why there is no estimate."""

    @property
    def is_pooled(self) -> bool:
        """Whether the cost is one number for all seeds, and so has no spread over them."""
        return is_pooled(self.panel, self.proxy.name)

    @property
    def largest_cost(self) -> float:
        """Of all groups; NaN where there is no estimate."""
        return float("nan") if self.exposed is None else float(np.nanmax(self.exposed.value))

    def memorised_p(self, groups: IntArray | None = None) -> FloatArray:
        """Unadjusted p-values of "is anything memorised about these records?" by group.

        Exact from counts; NaN where it cannot be told. Groups: all, or those asked for.
        """
        chosen = np.arange(len(self.told)) if groups is None else groups
        if self.exposed is None:
            return np.full(len(chosen), np.nan)
        p = self._counted_p(chosen) if self.exposed.is_counted else self._normal_p(chosen)
        return np.where(self.told[chosen], p, np.nan)

    def hidden_limit(self, confidence_level: float) -> FloatArray:
        """Largest cost (group,) that could hide where nothing can vary; NaN elsewhere."""
        if self.strata is None or self.exposed is None or not self.exposed.is_counted:
            return np.full(len(self.told), np.nan)
        return hidden_cost_limit(self.strata, confidence_level=confidence_level)

    def _normal_p(self, groups: IntArray) -> FloatArray:
        part = self._exposed.only(groups)
        p = np.maximum(upper_p(part.value, np.sqrt(part.null_variance)), SMALLEST_P)
        return np.where(part.null_variance > 0, p, np.nan)

    def _counted_p(self, groups: IntArray) -> FloatArray:
        if self.strata is None:
            return np.full(len(groups), np.nan)
        found = memorised(Strata(*(part[..., groups] for part in self.strata)))
        clumps = self.inflation[groups]
        p = np.maximum(upper_p(found.excess, np.sqrt(found.variance * clumps)), SMALLEST_P)
        return np.where(np.isnan(found.p_value) | (clumps == 1.0), found.p_value, p)

    @property
    def _exposed(self) -> Exposed:
        assert self.exposed is not None
        return self.exposed


def measure_panel(
    panel: Panel, plan: Plan, cost: str, *, inflation: FloatArray | None = None
) -> Measured:
    """Compute what the plan asks of one setting.

    Args:
        panel: the setting.
        plan: which benefit.
        cost: which cost.
        inflation: (group,) by how much clumps of records multiply variances; 1 by default.
    """
    return _measured(
        panel, plan, cost, _received(panel, plan, _clumps(panel, inflation)), inflation
    )


def _measured(
    panel: Panel,
    plan: Plan,
    cost: str,
    received: Received | None,
    inflation: FloatArray | None,
) -> Measured:
    """The same beside a benefit that all costs share."""
    proxy, clumps = proxy_named(cost), _clumps(panel, inflation)
    benefit, _ = benefit_of(panel, plan)
    strata = strata_of(panel) if proxy.is_from_counts else None
    exposed, reason = _exposed(panel, plan, proxy, clumps)
    return Measured(
        panel=panel,
        proxy=proxy,
        benefit=benefit,
        cost=_signed_cost(panel, proxy),
        strata=strata,
        inflation=clumps,
        received=received,
        exposed=exposed,
        told=_told(panel, proxy),
        reason=reason,
    )


def measure_costs(
    panels: Sequence[Panel], plan: Plan, *, inflation: FloatArray | None = None
) -> dict[str, list[Measured]]:
    """The same for every cost that the release has, by name: all other things equal."""
    costs = dict.fromkeys([GAP.name, *carried_costs(panels)])
    beside = [(one, _received(one, plan, _clumps(one, inflation))) for one in panels]
    return {
        cost: [_measured(panel, plan, cost, received, inflation) for panel, received in beside]
        for cost in costs
    }


def deciding_attacks(panels: Sequence[Panel], plan: Plan) -> tuple[str, ...]:
    """The plan's attack; or the strongest advantage and the strongest paired attack.

    Each has an error for every setting and every group of eligible size. Where there is neither,
    the gap from counts. Which fields are there decides, never their values.
    """
    if plan.cost != SHARPEST:
        return (plan.cost,)
    firsts = (
        next((one.name for one in kind if is_carried(panels, plan, one)), None)
        for kind in (ADVANTAGES, PAIRED)
    )
    return tuple(name for name in firsts if name is not None) or (proxies.GAP.name,)


def is_carried(panels: Sequence[Panel], plan: Plan, cost: Proxy) -> bool:
    """Whether every setting has it, with errors, for every group that is large enough."""
    if cost is proxies.GAP:
        return True
    found = [measure_panel(panel, plan, cost.name) for panel in panels]
    return all(one.exposed is not None and bool(one.told.any()) for one in found)


def require_available(panels: tuple[Panel, ...], plan: Plan) -> None:
    """Raise PlanError where the release does not carry what the plan names."""
    first = panels[0]
    costs = sorted({GAP.name, *carried_costs(panels)})
    if plan.cost not in (SHARPEST, *costs):
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


def number(value: float | FloatArray) -> float | None:
    """A finite Python float, or None."""
    return float(value) if np.isfinite(value) else None


def interval(bounds: FloatArray) -> tuple[float, float] | None:
    """Two finite floats, or None."""
    return (float(bounds[0]), float(bounds[1])) if np.isfinite(bounds).all() else None


def benefit_of(panel: Panel, plan: Plan) -> tuple[FloatArray, FloatArray]:
    """Benefit and the number of test records behind it, (seed, group)."""
    if panel.test is None or plan.benefit == "positive_rate":
        return panel.positive_rate, panel.n_test
    return _rate_of(panel.test, plan), _behind(panel.test, plan)


def strata_of(panel: Panel) -> Strata | None:
    """Each split's first run as strata, by label where it has counts; None where withheld."""
    if not panel.has_sizes:
        return None
    runs = lowest_seeds(panel.split)
    strata = Strata(*(part[:, runs] for part in _all_strata(panel)))
    return strata if np.isfinite(strata.hits + strata.correct).all() else None


def _all_strata(panel: Panel) -> Strata:
    """(label, run, group); a table without counts is one stratum, and one that is empty."""
    rates = strata_of_rates(panel.train_accuracy, panel.test_accuracy, panel.n_train, panel.n_test)
    if panel.train is None or panel.test is None:
        return rates
    counts = strata_of_counts(panel.train, panel.test)
    known = np.isfinite(counts.total).all(axis=0)
    parts = zip(counts, rates, strict=True)
    return Strata(
        *(np.where(known, have, np.concatenate([one, np.zeros_like(one)])) for have, one in parts)
    )


def _rate_of(counts: Counts, plan: Plan) -> FloatArray:
    if plan.benefit == "true_positive_rate":
        return metrics.true_positive_rate(counts)
    return metrics.precision(counts)


def _behind(counts: Counts, plan: Plan) -> FloatArray:
    """Records in the benefit's denominator."""
    if plan.benefit == "true_positive_rate":
        return np.asarray(counts.tp + counts.fn)
    return np.asarray(counts.tp + counts.fp)


def _clumps(panel: Panel, inflation: FloatArray | None) -> FloatArray:
    return np.ones(len(panel.group_names)) if inflation is None else inflation


def _received(panel: Panel, plan: Plan, clumps: FloatArray) -> Received | None:
    """The benefit's mean and variance; None where it is not given for some group."""
    benefit, n_test = benefit_of(panel, plan)
    if not (panel.has_sizes and np.isfinite(benefit).all()):
        return None
    n = panel.n_train + panel.n_test
    if panel.test is not None and plan.benefit != "positive_rate":
        n = n_test if panel.train is None else n_test + _behind(panel.train, plan)
    per_split = by_split(benefit, panel.split)
    value = per_split.mean(axis=0)
    people, tested = n.mean(axis=0) / clumps, n_test.mean(axis=0) / clumps
    if not (np.isfinite(people).all() and (tested > 0).all()):
        return None
    return Received(
        value=value,
        variance=benefit_variance(value, n=people, n_test=tested, n_splits=len(per_split)),
        lasting=rate_variance(value, people),
        per_split=per_split,
    )


def _told(panel: Panel, proxy: Proxy) -> npt.NDArray[np.bool_]:
    """Whether a group has records enough for a cost over all models."""
    told = np.ones(len(panel.group_names), dtype=np.bool_)
    if proxy.name not in panel.pooled:
        return told
    n = panel.mean_n
    behind = panel.pooled[proxy.name].n_records
    return np.asarray(~(np.where(np.isnan(behind), n, behind) < LEAST_RECORDS))


def _signed_cost(panel: Panel, proxy: Proxy) -> FloatArray:
    shape = panel.train_accuracy.shape
    if proxy.is_from_counts:
        return metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
    if is_pooled(panel, proxy.name):
        return np.broadcast_to(panel.pooled[proxy.name].value, shape)
    if proxy.name in panel.exposure:
        return panel.exposure[proxy.name].value
    return np.full(shape, np.nan)


def is_pooled(panel: Panel, cost: str) -> bool:
    """Whether a cost has one number over all models and none of each."""
    by_run = cost in panel.exposure and np.isfinite(panel.exposure[cost].value).all()
    return cost in panel.pooled and not by_run


def _exposed(
    panel: Panel, plan: Plan, proxy: Proxy, clumps: FloatArray
) -> tuple[Exposed | None, str | None]:
    """What the tests of a cost need, or why there are none."""
    if proxy.is_from_counts:
        return _counted(panel, plan, clumps)
    if proxy.name in panel.pooled:
        exposed = _over_models(panel, plan, proxy, clumps)
    elif proxy.name in panel.exposure:
        exposed = _of_runs(panel, proxy, clumps)
    else:
        return None, f"{proxy.name} is not released for this setting"
    known, told = np.isfinite(exposed.value) & np.isfinite(exposed.one_split), _told(panel, proxy)
    if not (known | ~told).all():
        return None, f"{proxy.name} lacks a value or a standard error for some group"
    if not (np.isfinite(exposed.variance) | ~told).all():
        return None, NO_SIZES
    return exposed, None


def _counted(panel: Panel, plan: Plan, clumps: FloatArray) -> tuple[Exposed | None, str | None]:
    """The gap: the luck of the split is known, and so is what people add at most."""
    if not panel.has_sizes:
        return None, NO_SIZES
    difference = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
    if not np.isfinite(difference).all():
        return None, "some group's accuracy is withheld in some model"
    luck = luck_of(panel)
    null = by_split(luck.variance, panel.split).mean(axis=0) * clumps
    n_train, n_test = panel.n_train / clumps, panel.n_test / clumps
    records = record_variance(panel.train_accuracy, panel.test_accuracy, n_train, n_test)
    per_split = by_split(difference - luck.mean, panel.split)
    exposed = Exposed(
        per_split=per_split,
        null_variance=null / len(per_split),
        one_split=np.maximum(null, by_split(records, panel.split).mean(axis=0)),
        n=(n_train + n_test).mean(axis=0),
        n_test=n_test.mean(axis=0),
        people=people_part,
        covariance=_counted_covariance(panel, plan) * clumps,
        is_counted=True,
        of_records=np.full(len(null), np.nan),
    )
    return exposed, None


def _counted_covariance(panel: Panel, plan: Plan) -> FloatArray:
    """Of gap and benefit in one split, (group,); NaN without counts."""
    if panel.test is None:
        return np.full(len(panel.group_names), np.nan)
    if plan.benefit == "positive_rate":
        return np.asarray(rate_covariance(panel.test).mean(axis=0))
    benefit, _ = benefit_of(panel, plan)
    return np.asarray(subset_covariance(benefit, panel.n_test).mean(axis=0))


def _over_models(panel: Panel, plan: Plan, proxy: Proxy, clumps: FloatArray) -> Exposed:
    """A cost over all models of a setting, with an error that holds its people."""
    pooled = panel.pooled[proxy.name]
    variance, null = pooled.standard_error**2 * clumps, pooled.null_error**2 * clumps
    variance = np.fmax(variance, (1 + (MUTUAL - 1) * pooled.separation) * null)
    unknown = plan.benefit != "positive_rate"
    return Exposed(
        per_split=pooled.value[None],
        null_variance=np.where(np.isnan(null), variance, null),
        one_split=variance,
        n=panel.mean_n / clumps,
        n_test=panel.mean_n_test / clumps,
        people=None,
        covariance=pooled.benefit_covariance * (np.nan if unknown else clumps),
        is_counted=False,
        of_records=null,
    )


def _of_runs(panel: Panel, proxy: Proxy, clumps: FloatArray) -> Exposed:
    """A cost of every run, whose error is about the records of that run."""
    exposure = panel.exposure[proxy.name]
    per_split = by_split(exposure.value, panel.split)
    one = by_split(exposure.standard_error**2, panel.split).mean(axis=0) * clumps
    return Exposed(
        per_split=per_split,
        null_variance=_at_least_spread(one, per_split) / len(per_split),
        one_split=one,
        n=panel.mean_n / clumps,
        n_test=panel.mean_n_test / clumps,
        people=PEOPLE_PARTS.get(proxy.scale),
        covariance=np.full(len(one), np.nan),
        is_counted=False,
        of_records=np.full(len(one), np.nan),
    )


def _at_least_spread(closed: FloatArray, per_split: FloatArray) -> FloatArray:
    """The closed form, or the spread over splits (first axis) where that is larger."""
    if len(per_split) < 2:
        return np.asarray(closed)
    return np.asarray(np.maximum(closed, per_split.var(axis=0, ddof=1)))


def luck_of(panel: Panel) -> SplitLuck:
    """By label where a table has counts; of rates, with one stratum for the whole group."""
    return luck_of_strata(_all_strata(panel))


def by_split(values: FloatArray, split: npt.NDArray[np.int64]) -> FloatArray:
    """Average the runs of each split: (seed, ...) -> (split, ...)."""
    sums = np.zeros((int(split.max()) + 1, *values.shape[1:]))
    np.add.at(sums, split, values)
    runs = np.bincount(split).reshape(-1, *([1] * (values.ndim - 1)))
    return np.asarray(sums / runs)
