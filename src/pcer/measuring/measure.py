"""What are exposure and benefit of one setting by one attack, as arrays?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pcer import metrics
from pcer.errors import PlanError
from pcer.measuring import exact, variances
from pcer.measuring.exact import SMALLEST_P, Strata
from pcer.measuring.exposure import (
    MUTUAL,
    Exposed,
    Pair,
    benefit_of,
    by_split,
    measure_exposure,
    strata_of,
)
from pcer.measuring.plan import SHARPEST, Plan
from pcer.metrics import FloatArray, IntArray
from pcer.release.attack_kinds import GAP, PROXIES, Proxy, attack_named, proxy_named
from pcer.release.panel import Panel, carried_costs
from pcer.statistics import upper_p

LEAST_RECORDS = (
    50  # of a group from which on an attack over all models tells something about it
)


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
    exposed, reason = measure_exposure(panel, plan, proxy, clumps, enough)
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
