"""What are exposure and benefit of one setting by one attack, as arrays?

From one setting's panel and the plan to a ``Measured``: benefit, exposure, and what
tests need. Called by the audit, the planner, comparisons and the checks
(``measure_costs``, ``measure_panel``); before that, ``require_available`` says what a
plan names that the release lacks, and ``pairs_of`` which groups are compared.

To add an attack: see ``exposure``, where its errors are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pcer import metrics
from pcer.errors import PlanError
from pcer.measuring import exact, variances
from pcer.measuring.exact import SMALLEST_P, Strata
from pcer.measuring.exposure import (
    MUTUAL,
    Benefit,
    Exposed,
    Pair,
    benefit_of,
    by_split,
    measure_exposure,
    strata_of,
)
from pcer.measuring.plan import SHARPEST, Plan
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.attack_kinds import (
    ATTACK_KINDS,
    GAP,
    AttackKind,
    attack_kind,
    attack_named,
)
from pcer.release.panel import Panel, carried_costs
from pcer.statistics import upper_p

# Records of a group from which on an attack over all models says something about it.
LEAST_RECORDS = 50


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One setting and one attack as arrays; what is not released is NaN or None.

    Of ``received`` a NaN of one group makes all of it NaN.
    """

    panel: Panel
    proxy: AttackKind
    floor: float  # the plan's, or the attack's own where that is larger
    benefit: FloatArray  # (seed, group)
    cost: FloatArray  # (seed, group) signed; NaN where not released
    is_pooled: bool  # the cost is one number for all seeds, with no spread over them
    # Of the gap, what each split's first run gets right; None where something is
    # withheld.
    strata: Strata | None
    variance_inflation: (
        FloatArray  # (group,) by how much clumps of records multiply a variance
    )
    received: FloatArray  # (split, group) benefit
    received_variance: FloatArray  # (group,) of the mean benefit, for people like these
    # (group,) the part of it that no number of splits lowers.
    received_lasting: FloatArray
    exposed: Exposed | None
    has_enough_records: (
        BoolArray  # (group,) whether its records suffice for this attack
    )
    reason: str | None  # why there is no estimate

    def is_below_floor(self, groups: Pair) -> bool:
        """Whether both groups' exposures are below the floor; False if not known."""
        if self.exposed is None:
            return False
        return bool((self.exposed.value[[*groups]] < self.floor).all())

    def exposed_by_split(self) -> Exposed | None:
        """Exposure split by split, with people's part of its error alone.

        None if it is not released so. Records make LiRA's error V over M models:
        V = P + (D - P) / M, thus P = (V - D / M) M / (M - 1). P is what people add; D
        is the variance by records in one model, the rest of which the spread over
        splits shows. For attacks that do not calibrate, that spread misses what
        records change about each other (``MUTUAL``).
        """
        exposed = self.exposed
        panel = self.panel
        runs = panel.shadowed.get(self.proxy.name)
        if exposed is None or exposed.n_splits == panel.n_splits:
            return exposed
        if runs is None:
            return None

        n_models = len(runs.value)
        one_model = (runs.standard_error**2).mean(axis=0) * self.variance_inflation
        lasting = np.maximum(exposed.of_records - one_model / n_models, 0.0)
        people = lasting * n_models / (n_models - 1)
        is_same = np.isclose(runs.value.mean(axis=0), exposed.value)
        is_known = is_same & np.isfinite(people)
        if not (is_known | ~self.has_enough_records).all():
            return None
        mutual = 1 + (MUTUAL - 1) * panel.pooled[self.proxy.name].separation
        return replace(
            exposed,
            per_split=by_split(runs.value, panel.split),
            one_split=mutual * people,
            of_records=people,
        )

    def memorised_p(self, groups: IntArray | None = None) -> FloatArray:
        """Unadjusted p-values of "is anything memorised about these records?".

        NaN where it is not known. Of counts by the exact test; where records come in
        clumps by the normal of its excess, whose variance the clumps multiply.
        """
        chosen = np.arange(len(self.has_enough_records)) if groups is None else groups
        if self.exposed is None:
            return np.full(len(chosen), np.nan)
        if self.strata is None:
            null = self.exposed.null_variance[chosen]
            normal_p = upper_p(self.exposed.value[chosen], np.sqrt(null))
            p = np.where(null > 0, np.maximum(normal_p, SMALLEST_P), np.nan)
        else:
            parts = [part[..., chosen] for part in self.strata]
            memorised = exact.memorised(Strata(*parts))
            variance_inflation = self.variance_inflation[chosen]
            error = np.sqrt(memorised.variance * variance_inflation)
            normal_p = upper_p(memorised.excess, error)
            is_exact = np.isnan(memorised.p_value) | (variance_inflation == 1.0)
            clumped_p = np.maximum(normal_p, SMALLEST_P)
            p = np.where(is_exact, memorised.p_value, clumped_p)
        return np.where(self.has_enough_records[chosen], p, np.nan)

    def upper_limit(self, *, level: float, n_limits: int) -> FloatArray:
        """Most that each group's exposure can be, all limits together at this level."""
        if self.exposed is None:
            return np.full(len(self.has_enough_records), np.nan)
        z = variances.bonferroni_z(n_limits=n_limits, confidence_level=level)
        limit = self.exposed.limit(z=z)
        if self.strata is not None:  # where nothing can vary: at least what could hide
            one_level = 1 - (1 - level) / n_limits
            hidden = exact.hidden_cost_limit(self.strata, confidence_level=one_level)
            limit = np.fmax(limit, hidden)
        return np.minimum(limit, self.proxy.scale.largest)


def measure_panel(
    panel: Panel, plan: Plan, cost: str, *, variance_inflation: FloatArray | None = None
) -> Measured:
    """Compute one attack's exposure of one setting, and the plan's benefit.

    Args:
        panel: the setting.
        plan: names the benefit and the floor.
        cost: the attack's name.
        variance_inflation: (group,) by how much clumps of records multiply a variance;
            None: not at all.
    """
    proxy = attack_kind(cost)
    if variance_inflation is None:
        variance_inflation = np.ones(len(panel.group_names))
    enough = _has_enough_records(panel, cost)
    benefit = benefit_of(panel, plan)
    received = _received(panel, benefit, variance_inflation)
    costs = _costs(panel, proxy)
    exposed, reason = measure_exposure(panel, plan, proxy, variance_inflation, enough)
    return Measured(
        panel=panel,
        proxy=proxy,
        floor=max(plan.floor, proxy.floor),
        benefit=benefit.rate,
        cost=costs.value,
        is_pooled=costs.is_pooled,
        strata=_strata_of_splits(panel) if proxy.is_from_counts else None,
        variance_inflation=variance_inflation,
        received=received.per_split,
        received_variance=received.variance,
        received_lasting=received.lasting,
        exposed=exposed,
        has_enough_records=enough,
        reason=reason,
    )


def _has_enough_records(panel: Panel, cost: str) -> BoolArray:
    """(group,) whether an attack over all models has enough; True for all others."""
    if cost not in panel.pooled:
        return np.ones(len(panel.group_names), dtype=np.bool_)
    stated = panel.pooled[cost].n_records
    n_records = np.where(np.isnan(stated), panel.mean_n, stated)
    return np.asarray(~(n_records < LEAST_RECORDS))


class _Received(NamedTuple):
    """A benefit with its errors; all NaN where it is not given for some group."""

    per_split: FloatArray
    variance: FloatArray
    lasting: FloatArray


def _received(
    panel: Panel, benefit: Benefit, variance_inflation: FloatArray
) -> _Received:
    n = benefit.n.mean(axis=0) / variance_inflation
    n_test = benefit.n_test.mean(axis=0) / variance_inflation
    per_split = by_split(benefit.rate, panel.split)
    is_given = np.isfinite(per_split).all() and np.isfinite(n).all()
    if not (is_given and (n_test > 0).all()):
        per_split = per_split * np.nan
        n = n_test = n * np.nan
    rate = per_split.mean(axis=0)
    variance = variances.benefit_variance(
        rate, n=n, n_test=n_test, n_splits=len(per_split)
    )
    return _Received(per_split, variance, variances.rate_variance(rate, n))


class _Costs(NamedTuple):
    value: FloatArray  # (seed, group)
    is_pooled: bool


def _costs(panel: Panel, proxy: AttackKind) -> _Costs:
    """Exposure seed by seed; else one number for all seeds; else NaN."""
    if proxy.is_from_counts:
        gap = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
        return _Costs(gap, is_pooled=False)
    shape = panel.train_accuracy.shape
    if proxy.name in panel.exposure:
        values = panel.exposure[proxy.name].value
    else:
        values = np.full(shape, np.nan)
    if proxy.name in panel.pooled and not np.isfinite(values).all():
        pooled = panel.pooled[proxy.name].value
        return _Costs(np.broadcast_to(pooled, values.shape), is_pooled=True)
    return _Costs(values, is_pooled=False)


def _strata_of_splits(panel: Panel) -> Strata | None:
    """The strata of each split's first run; None where something is withheld."""
    runs = exact.lowest_seeds(panel.split)
    parts = [part[:, runs] for part in strata_of(panel)]
    is_complete = all(np.isfinite(part).all() for part in parts)
    return Strata(*parts) if is_complete else None


def measure_costs(
    panels: Sequence[Panel], plan: Plan, *, variance_inflation: FloatArray | None = None
) -> dict[str, list[Measured]]:
    """Every attack that the release has, by name: one entry per setting."""
    measured = {}
    for cost in dict.fromkeys([GAP.name, *carried_costs(panels)]):
        measured[cost] = [
            measure_panel(panel, plan, cost, variance_inflation=variance_inflation)
            for panel in panels
        ]
    return measured


def require_available(panels: tuple[Panel, ...], plan: Plan) -> Plan:
    """The plan, its attack by the release's name; PlanError for what is missing."""
    first = panels[0]
    costs = sorted({GAP.name, *carried_costs(panels)})
    plan = plan.model_copy(update={"cost": attack_named(plan.cost, costs)})
    if plan.cost not in (SHARPEST, *costs):
        kind = ATTACK_KINDS.get(plan.cost)
        needs = ""
        if kind is not None:
            needs = f"; {kind.name} needs {kind.basis.format(n=kind.least_models)}"
        raise PlanError(
            f"cost {plan.cost!r} is not in this release; it carries "
            f"{', '.join(costs)}{needs}."
        )
    if plan.benefit != "positive_rate" and first.test is None:
        raise PlanError(
            f"benefit {plan.benefit!r} needs confusion counts, and this release has "
            "only rates; use positive_rate or ask the trainer for counts."
        )
    if plan.reference_group not in (None, *first.group_names):
        raise PlanError(
            f"reference group {plan.reference_group!r} is not a group of this release; "
            f"its groups are {', '.join(first.group_names)}."
        )
    return plan


def pairs_of(panels: tuple[Panel, ...], plan: Plan) -> tuple[Pair, ...]:
    """Which groups are compared, the reference first.

    The reference is the group that the plan names; else of two groups the first, as in
    the paper, and of more the largest.
    """
    names = panels[0].group_names
    if plan.reference_group is not None:
        reference = names.index(plan.reference_group)
    elif len(names) == 2:
        reference = 0
    else:
        sizes = [panel.n_train + panel.n_test for panel in panels]
        mean_size = np.concatenate(sizes).mean(axis=0)
        reference = 0 if np.isnan(mean_size).any() else int(np.argmax(mean_size))
    others = [group for group in range(len(names)) if group != reference]
    return tuple((reference, other) for other in others)


def finite_or_none(value: float | FloatArray) -> float | None:
    """A finite Python float, or None."""
    return float(value) if np.isfinite(value) else None
