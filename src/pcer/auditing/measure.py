"""From one setting's panel and the plan to arrays: benefit, exposure, and what tests need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pcer import metrics
from pcer.auditing import exact, variances
from pcer.auditing.exact import SMALLEST_P, Strata
from pcer.auditing.plan import SHARPEST, Plan
from pcer.errors import PlanError
from pcer.metrics import FloatArray, IntArray
from pcer.release import proxies
from pcer.release.panel import Panel, carried_costs
from pcer.release.proxies import GAP, PROXIES, Proxy, attack_named, proxy_named
from pcer.statistics import upper_p

Pair = tuple[int, int]

NO_SIZES = "group sizes (n) are not in the release"
LIMIT_STEPS = 8  # after which a bound and its error agree to a hundredth of the error
LEAST_RECORDS = (
    50  # of a group from which on an attack over all models tells something about it
)
# Variance factor: training on one record changes predictions for others, which a single
# sweep cannot measure. In the interval of one group's exposure that counts as much as
# what records add themselves; in a difference of groups only the share of it that they
# do not have in common (``separation``).
MUTUAL = 2.0
# The people's part in the variance of an attack that is measured in each run, by its
# scale.
PEOPLE_PARTS: dict[proxies.Scale, Callable[[FloatArray, FloatArray], FloatArray]] = {
    proxies.ACCURACY: variances.people_part,
    # a = AUC - 1/2, in which a record counts as a member and among the others: 2a (1 -
    # 2a) / N
    proxies.AUC: lambda advantage, n: variances.people_part(2 * advantage, n),
    # half a difference of rates: a (1 - 2a) / (2N)
    proxies.BALANCED: lambda advantage, n: variances.people_part(2 * advantage, n) / 4,
}

ADVANTAGES = (proxies.RMIA, proxies.LIRA, proxies.REFERENCE, proxies.AUC_ADVANTAGE)
# Attacks that may decide, strongest first: one of each. An advantage near its ceiling
# cannot show differences, and a paired attack misses weak ones that concern everybody.
PAIRED = (proxies.PAIRED_CONFIDENCE, proxies.PAIRED_GAP)


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """Exposure by one attack in one setting, as the tests need it; arrays over the group."""

    # (split, group) cost without the luck of the split; one over all models counts as
    # one split.
    per_split: FloatArray
    null_variance: FloatArray  # of the mean over splits if nothing was memorised
    one_split: FloatArray  # variance of one split's cost for people drawn anew
    n: FloatArray  # records, or as many as clumps of them are worth
    n_test: FloatArray  # those of one test part, counted alike
    # The people's part in the variance at an exposure; None: one split's whole
    # variance.
    people: Callable[[FloatArray, FloatArray], FloatArray] | None
    covariance: FloatArray  # of cost and benefit in one split; NaN where unknown
    is_counted: bool  # from counts, where people may add to the covariance
    of_records: (
        FloatArray  # what records alone make of a value over all models; else NaN
    )

    @cached_property
    def value(self) -> FloatArray:
        """Mean exposure over distinct splits."""
        return np.asarray(self.per_split.mean(axis=0))

    @property
    def n_splits(self) -> int:
        """Splits that the error is divided by."""
        return len(self.per_split)

    @cached_property
    def variance(self) -> FloatArray:
        """Variance of the value, for people like these."""
        return self.variance_at(self.value)

    @cached_property
    def alone(self) -> FloatArray:
        """Variance of one group's value by itself, as its interval has it: see ``MUTUAL``."""
        return np.fmax(self.variance, MUTUAL * self.of_records)

    def people_part(self, cost: FloatArray) -> FloatArray:
        """The people's part in the variance at this exposure."""
        return self.one_split if self.people is None else self.people(cost, self.n)

    def variance_at(
        self, cost: FloatArray, *, more: FloatArray | float = 0.0
    ) -> FloatArray:
        """Variance of the value, its people's part taken at some cost, and more in one split."""
        one_split = self.one_split + more
        people = self.people_part(cost)
        return variances.cost_variance(
            self.per_split, one_split=one_split, people=people
        )

    def limit(self, *, z: float) -> FloatArray:
        """Largest cost that the data allow: z of the errors that it would have away from the value.

        The error at the value is too small for costs above it; above 1/2 it is the
        larger one.
        """
        start = np.maximum(self.value, 0.0)
        variance = self.alone
        more = np.zeros_like(self.value)
        for _ in range(LIMIT_STEPS):
            limit = start + z * np.sqrt(variance)
            if (
                self.is_counted
            ):  # a larger cost: as many more people wrong out of training
                wrong = variances.rate_variance(
                    np.stack([limit, self.value]), self.n_test
                )
                more = wrong[0] - wrong[1]
            variance = np.fmax(
                self.variance_at(limit, more=np.maximum(more, 0.0)), self.alone
            )
        return np.asarray(start + z * np.sqrt(variance))

    def only(self, groups: IntArray) -> Exposed:
        """Some groups, or (side, pair) both sides of every pair."""
        names = (
            "null_variance",
            "one_split",
            "n",
            "n_test",
            "covariance",
            "of_records",
        )
        chosen = {name: getattr(self, name)[groups] for name in names}
        return replace(self, per_split=self.per_split[:, groups], **chosen)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One setting and one cost as arrays; what the release cannot give is NaN or None."""

    panel: Panel
    proxy: Proxy
    floor: float  # the plan's, or the cost's own where that is larger
    benefit: FloatArray  # (seed, group)
    cost: FloatArray  # (seed, group) signed; NaN where not released
    is_pooled: (
        bool  # the cost is one number for all seeds, and so has no spread over them
    )
    # Of the gap, what each split's first run gets right; None where something is
    # withheld.
    strata: Strata | None
    inflation: FloatArray  # (group,) by how much clumps of records multiply a variance
    # (split, group) benefit; NaN where it is not given for some group, and so below.
    received: FloatArray
    received_variance: FloatArray  # (group,) of the mean benefit, for people like these
    received_lasting: (
        FloatArray  # (group,) the part of it that no number of splits lowers
    )
    exposed: Exposed | None
    enough: npt.NDArray[np.bool_]  # (group,) whether its records suffice for this cost
    reason: str | None  # why there is no estimate

    def is_below_floor(self, groups: Pair) -> bool:
        """Whether both groups' costs are below the floor; False without an estimate."""
        exposed = self.exposed
        return exposed is not None and bool(
            (exposed.value[[*groups]] < self.floor).all()
        )

    def exposed_by_split(self) -> Exposed | None:
        """Exposure split by split, with people's part of its error alone; None if not released so.

        Records make LiRA's error V over M models: V = P + (D - P) / M. P is what people
        add; D is the variance by records in one model, the rest of which the spread
        over splits shows. For attacks that do not calibrate, that spread misses what
        records change about each other.
        """
        exposed = self.exposed
        panel = self.panel
        runs = self.panel.shadowed.get(self.proxy.name)
        if exposed is None or exposed.n_splits == panel.n_splits:
            return exposed
        if runs is None:
            return None
        n = len(runs.value)
        of_one = (runs.standard_error**2).mean(axis=0) * self.inflation
        people = np.maximum(exposed.of_records - of_one / n, 0.0) * n / (n - 1)
        is_told = np.isclose(runs.value.mean(axis=0), exposed.value) & np.isfinite(
            people
        )
        if not (is_told | ~self.enough).all():
            return None
        apart = 1 + (MUTUAL - 1) * panel.pooled[self.proxy.name].separation
        per_split = by_split(runs.value, panel.split)
        return replace(
            exposed, per_split=per_split, one_split=apart * people, of_records=people
        )

    def memorised_p(self, groups: IntArray | None = None) -> FloatArray:
        """Unadjusted p-values of "is anything memorised about these records?", NaN if unknown."""
        chosen = np.arange(len(self.enough)) if groups is None else groups
        if self.exposed is None:
            return np.full(len(chosen), np.nan)
        if self.strata is not None:
            found = exact.memorised(
                Strata(*(part[..., chosen] for part in self.strata))
            )
            clumps = self.inflation[chosen]
            normal = upper_p(found.excess, np.sqrt(found.variance * clumps))
            is_exact = np.isnan(found.p_value) | (clumps == 1.0)
            p = np.where(is_exact, found.p_value, np.maximum(normal, SMALLEST_P))
        else:
            null = self.exposed.null_variance[chosen]
            p = np.maximum(
                upper_p(self.exposed.value[chosen], np.sqrt(null)), SMALLEST_P
            )
            p = np.where(null > 0, p, np.nan)
        return np.where(self.enough[chosen], p, np.nan)

    def upper_limit(self, *, level: float, n_limits: int) -> FloatArray:
        """Most that each group's cost can be, with this confidence for all limits together."""
        if self.exposed is None:
            return np.full(len(self.enough), np.nan)
        z = variances.limit_quantile(n_limits=n_limits, confidence_level=level)
        limit = self.exposed.limit(z=z)
        if self.strata is not None:  # where nothing can vary: at least what could hide
            each = 1 - (1 - level) / n_limits
            limit = np.fmax(
                limit, exact.hidden_cost_limit(self.strata, confidence_level=each)
            )
        return np.minimum(limit, self.proxy.scale.largest)


def measure_panel(
    panel: Panel, plan: Plan, cost: str, *, inflation: FloatArray | None = None
) -> Measured:
    """Compute one cost of one setting, and the plan's benefit."""
    proxy = proxy_named(cost)
    enough = np.ones(len(panel.group_names), dtype=np.bool_)
    values = np.full(panel.train_accuracy.shape, np.nan)
    is_pooled = False
    strata = None
    if cost in panel.pooled:
        behind = panel.pooled[cost].n_records
        enough = ~(np.where(np.isnan(behind), panel.mean_n, behind) < LEAST_RECORDS)
    clumps = np.ones(len(enough)) if inflation is None else inflation
    benefit, n_test, n = benefit_of(panel, plan)
    people = n.mean(axis=0) / clumps
    tested = n_test.mean(axis=0) / clumps
    received = by_split(benefit, panel.split)  # NaN: not given
    if not (
        np.isfinite(received).all() and np.isfinite(people).all() and (tested > 0).all()
    ):
        received = received * np.nan
        people = people * np.nan
        tested = people
    rate = received.mean(axis=0)
    variance = variances.benefit_variance(
        rate, n=people, n_test=tested, n_splits=len(received)
    )
    exposed, reason = _exposed(panel, plan, proxy, clumps, enough)
    if proxy.is_from_counts:
        values = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
        parts = [part[:, exact.lowest_seeds(panel.split)] for part in strata_of(panel)]
        strata = (
            Strata(*parts) if all(np.isfinite(part).all() for part in parts) else None
        )
    else:
        values = panel.exposure[cost].value if cost in panel.exposure else values
        is_pooled = cost in panel.pooled and not np.isfinite(values).all()
        values = (
            np.broadcast_to(panel.pooled[cost].value, values.shape)
            if is_pooled
            else values
        )
    return Measured(
        panel=panel,
        proxy=proxy,
        floor=max(plan.floor, proxy.floor),
        benefit=benefit,
        cost=values,
        is_pooled=is_pooled,
        strata=strata,
        inflation=clumps,
        received=received,
        received_variance=variance,
        received_lasting=variances.rate_variance(rate, people),
        exposed=exposed,
        enough=np.asarray(enough),
        reason=reason,
    )


def measure_costs(
    panels: Sequence[Panel], plan: Plan, *, inflation: FloatArray | None = None
) -> dict[str, list[Measured]]:
    """Every cost that the release has, by name: one entry per setting, all other things equal."""
    return {
        cost: [
            measure_panel(panel, plan, cost, inflation=inflation) for panel in panels
        ]
        for cost in dict.fromkeys([GAP.name, *carried_costs(panels)])
    }


def deciding_attacks(panels: Sequence[Panel], plan: Plan) -> tuple[str, ...]:
    """The plan's attack; or the strongest carried advantage and paired attack, else the gap.

    Which fields are there decides, never their values.
    """
    if plan.cost != SHARPEST:
        return (plan.cost,)
    own = [
        proxy_named(name)
        for name in carried_costs(panels)
        if name.endswith(proxies.OWN)
    ]
    firsts = (
        next((proxy.name for proxy in kind if is_carried(panels, plan, proxy)), None)
        for kind in ((*ADVANTAGES[:-1], *own, ADVANTAGES[-1]), PAIRED)
    )
    return tuple(name for name in firsts if name is not None) or (GAP.name,)


def is_carried(panels: Sequence[Panel], plan: Plan, cost: Proxy) -> bool:
    """Whether every setting has it, with errors, for every group that is large enough."""
    each = (measure_panel(panel, plan, cost.name) for panel in panels)
    return cost is GAP or all(
        m.exposed is not None and bool(m.enough.any()) for m in each
    )


def require_available(panels: tuple[Panel, ...], plan: Plan) -> Plan:
    """The plan, attacks by their names in this release; PlanError where it lacks what is named."""
    first = panels[0]
    costs = sorted({GAP.name, *carried_costs(panels)})
    plan = plan.model_copy(update={"cost": attack_named(plan.cost, costs)})
    if plan.cost not in (SHARPEST, *costs):
        own = PROXIES.get(plan.cost)
        needs = (
            f"; {own.name} needs {own.basis.format(n=own.least_models)}" if own else ""
        )
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
    return plan


def pairs_of(panels: tuple[Panel, ...], plan: Plan) -> tuple[Pair, ...]:
    """Which groups are compared: reference first.

    Two groups: the paper's order by default.
    """
    names = panels[0].group_names
    if plan.reference_group is not None:
        reference = names.index(plan.reference_group)
    elif len(names) == 2:
        reference = 0
    else:
        sizes = np.concatenate([panel.n_train + panel.n_test for panel in panels]).mean(
            axis=0
        )
        reference = 0 if np.isnan(sizes).any() else int(np.argmax(sizes))
    return tuple(
        (reference, other) for other in range(len(names)) if other != reference
    )


def number(value: float | FloatArray) -> float | None:
    """A finite Python float, or None."""
    return float(value) if np.isfinite(value) else None


def benefit_of(panel: Panel, plan: Plan) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Benefit (seed, group), and the records that it is a share of: of the test part, and all."""
    # Where the training part is not given, the test part is all: benefits need nothing
    # else.
    if panel.test is None or panel.train is None or plan.benefit == "positive_rate":
        return (
            panel.positive_rate,
            panel.n_test,
            np.nan_to_num(panel.n_train) + panel.n_test,
        )
    is_recall = plan.benefit == "true_positive_rate"
    rate, beside = (
        (metrics.true_positive_rate, "fn") if is_recall else (metrics.precision, "fp")
    )
    n_test, n_train = (
        part.tp + getattr(part, beside) for part in (panel.test, panel.train)
    )
    return rate(panel.test), n_test, n_test + np.nan_to_num(n_train)


def strata_of(panel: Panel) -> Strata:
    """(label, run, group); a table without counts is one stratum, and one that is empty."""
    hits = np.rint(panel.train_accuracy * panel.n_train)  # the nearest whole counts
    spared = np.rint(panel.test_accuracy * panel.n_test)
    sizes = panel.n_train + panel.n_test, panel.n_train
    rates = Strata(*(np.asarray(part)[None] for part in (*sizes, hits + spared, hits)))
    if panel.train is None or panel.test is None:
        return rates
    counts = exact.strata_of_counts(panel.train, panel.test)
    is_known = np.isfinite(counts.total).all(axis=0)
    padded = np.pad(
        np.stack(rates), ((0, 0), (0, 1), (0, 0), (0, 0))
    )  # the empty stratum
    return Strata(*np.where(is_known, np.stack(counts), padded))


def by_split(values: FloatArray, split: npt.NDArray[np.int64]) -> FloatArray:
    """Average the runs of each split: (seed, ...) -> (split, ...)."""
    sums = np.zeros((int(split.max()) + 1, *values.shape[1:]))
    np.add.at(sums, split, values)
    runs = np.bincount(split).reshape(-1, *([1] * (values.ndim - 1)))
    return np.asarray(sums / runs)


def _exposed(
    panel: Panel,
    plan: Plan,
    proxy: Proxy,
    clumps: FloatArray,
    enough: npt.NDArray[np.bool_],
) -> tuple[Exposed | None, str | None]:
    """What the tests of a cost need, or why there are none."""
    # Of the gap, the luck of the split is known, and so is what people add at most. The
    # error of a cost over all models holds its people; that of a cost of every run is
    # about its records.
    name = proxy.name
    people = PEOPLE_PARTS.get(proxy.scale)
    is_rate = plan.benefit == "positive_rate"
    covariance = np.full(len(clumps), np.nan)
    of_records = covariance
    if proxy.is_from_counts:
        accuracies = (panel.train_accuracy, panel.test_accuracy)
        people = variances.people_part
        if not panel.has_sizes:
            return None, NO_SIZES
        if not np.isfinite(accuracies[0] - accuracies[1]).all():
            return None, "some group's accuracy is withheld in some model"
        luck, luck_variance = variances.split_luck(strata_of(panel))
        null = by_split(luck_variance, panel.split).mean(axis=0) * clumps
        sizes = panel.n_train / clumps, panel.n_test / clumps
        records = variances.record_variance(*accuracies, *sizes)
        one_split = np.maximum(null, by_split(records, panel.split).mean(axis=0))
        per_split = by_split(
            metrics.accuracy_difference(*accuracies) - luck, panel.split
        )
        if panel.test is not None:
            benefit = benefit_of(panel, plan)[0]
            both = variances.split_covariance(panel.test, benefit, is_rate=is_rate)
            covariance = both.mean(axis=0) * clumps
    elif name in panel.pooled:
        pooled = panel.pooled[name]
        people = None
        per_split = pooled.value[None]
        of_records = pooled.null_error**2 * clumps
        least = (1 + (MUTUAL - 1) * pooled.separation) * of_records
        one_split = np.fmax(pooled.standard_error**2 * clumps, least)
        null = np.where(np.isnan(of_records), one_split, of_records)
        if is_rate:  # the release gives no other covariance
            covariance = pooled.benefit_covariance * clumps
    elif name in panel.exposure:
        exposure = panel.exposure[name]
        per_split = by_split(exposure.value, panel.split)
        null = one_split = (
            by_split(exposure.standard_error**2, panel.split).mean(axis=0) * clumps
        )
        if len(per_split) > 1:
            null = np.maximum(one_split, per_split.var(axis=0, ddof=1))
    else:
        return None, f"{name} is not released for this setting"
    exposed = Exposed(
        per_split=per_split,
        null_variance=null / len(per_split),
        one_split=one_split,
        n=panel.mean_n / clumps,
        n_test=panel.n_test.mean(axis=0) / clumps,
        people=people,
        covariance=covariance,
        is_counted=proxy.is_from_counts,
        of_records=of_records,
    )
    if not (np.isfinite(exposed.value + exposed.one_split) | ~enough).all():
        return None, f"{name} lacks a value or a standard error for some group"
    if not (np.isfinite(exposed.variance) | ~enough).all():
        return None, NO_SIZES
    return exposed, None
