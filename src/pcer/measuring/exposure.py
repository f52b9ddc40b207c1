"""What are exposure and benefit of one setting by one attack, and with which errors?

From one setting's panel and the plan to a ``Measured``: ``measure_panel``, and of every
attack ``measure_attacks``. Called by the audit, the planner, comparisons and checks.
What tests need of an exposure is an ``Exposed``, made from one of three sources:

    from counts      the gap: the luck of the split is known, and so is what people add
                     at most
    over all models  LiRA, RMIA, paired attacks: their error holds their people
    of every run     AUC, threshold: their error is about these records

To add a source: a function that returns a ``_Source`` or the reason why there is none,
and a line in ``_exposed``. Symbols are those of ``variances``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from pcer import metrics
from pcer.measuring import exact, variances
from pcer.measuring.exact import SMALLEST_P, Strata
from pcer.measuring.outcomes import Received, benefit_of, received_of
from pcer.measuring.plan import POSITIVE_RATE, Plan
from pcer.measuring.variances import by_split
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import GAP, AttackKind, attack_kind
from pcer.release.panel import Panel, carried_attacks
from pcer.statistics import upper_p

# Records of a group from which on an attack over all models says something about it.
LEAST_RECORDS = 50
Pair = tuple[int, int]
NO_SIZES = "group sizes (n) are not in the release"
LIMIT_STEPS = 8  # after which a bound and its error agree to a hundredth of the error
# Variance factor: training on one record changes predictions for others, which a single
# sweep cannot measure. In the interval of one group's exposure that counts at least as
# much as what records add themselves; in a difference of groups only the share of it
# that they do not have in common (``separation``).
MUTUAL = 2.0
# Where records change each other alike, an exposure is a mean over pairs: each record
# moves it twice, as itself and as a neighbour, and its variance is 4 times what records
# show. Noise of models has no part in that: 1 + 3 r^3 for a ``reliability`` r. The
# power is of made-up worlds (``benchmarks.forests``).
OF_PAIRS, RELIABLE_POWER = 3.0, 3
LIKE_FORESTS = 0.82  # forests have more, boosted and single trees have less

# The people's part P at an exposure c of N people: (c, N) -> P.
PeoplePart: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]


def _auc_part(advantage: FloatArray, n: FloatArray) -> FloatArray:
    """P = 2a (1 - 2a) / N of a = AUC - 1/2: a record counts twice in an AUC."""
    return variances.people_part(2 * advantage, n)


def _balanced_part(advantage: FloatArray, n: FloatArray) -> FloatArray:
    """P = a (1 - 2a) / (2N) of a, half a difference of rates."""
    return variances.people_part(2 * advantage, n) / 4


# The people's part of an attack that is measured in each run, by its scale.
PEOPLE_PARTS: dict[attack_kinds.Scale, PeoplePart] = {
    attack_kinds.ACCURACY: variances.people_part,
    attack_kinds.AUC: _auc_part,
    attack_kinds.BALANCED: _balanced_part,
}


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """Exposure by one attack in one setting, as tests need it; arrays over the group.

    ``n`` and ``n_test`` are records, or as many as clumps of them are worth.
    """

    # (split, group) exposure without the luck of the split; one over all models counts
    # as one split.
    per_split: FloatArray
    null_variance: FloatArray  # of the mean over splits if nothing was memorised
    one_split: FloatArray  # w: variance of one split's exposure, for people like these
    n: FloatArray
    n_test: FloatArray  # in one test part
    # None: people are in the whole variance of one split.
    people: PeoplePart | None
    covariance: FloatArray  # of exposure and benefit in one split; NaN where unknown
    is_counted: bool  # from counts, where people may add to the covariance
    # What records alone make of the variance of a value over all models; else NaN.
    of_records: FloatArray
    mutual: FloatArray  # by how much that is multiplied in the interval of one group

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
        """V(c) of the value."""
        return self.variance_at(self.value)

    @cached_property
    def interval_variance(self) -> FloatArray:
        """Variance in the interval of one group's value, with all of ``mutual``."""
        return np.fmax(self.variance, self.mutual * self.of_records)

    def people_part(self, exposure: FloatArray) -> FloatArray:
        """P at this exposure."""
        return self.one_split if self.people is None else self.people(exposure, self.n)

    def variance_at(
        self, exposure: FloatArray, *, more: FloatArray | float = 0.0
    ) -> FloatArray:
        """V(c) of the value with P taken at some exposure, and ``more`` added to w."""
        return variances.exposure_variance(
            self.per_split,
            one_split=self.one_split + more,
            people=self.people_part(exposure),
        )

    def limit(self, *, z: float) -> FloatArray:
        """Largest exposure c that the data allow: c = max(value, 0) + z sqrt(V(c)).

        The error at the value is too small for exposures above it; above 1/2 it is the
        larger one. Found by repetition. From counts, a larger exposure means as many
        more people wrong out of training, which adds to w.
        """
        start = np.maximum(self.value, 0.0)
        variance = self.interval_variance
        more = np.zeros_like(self.value)
        for _ in range(LIMIT_STEPS):
            limit = start + z * np.sqrt(variance)
            if self.is_counted:
                wrong = variances.rate_variance(
                    np.stack([limit, self.value]), self.n_test
                )
                more = wrong[0] - wrong[1]
            at_limit = self.variance_at(limit, more=np.maximum(more, 0.0))
            variance = np.fmax(at_limit, self.interval_variance)
        return np.asarray(start + z * np.sqrt(variance))

    def only(self, groups: IntArray) -> Exposed:
        """Some groups, or (side, pair) both sides of every pair."""
        return replace(
            self,
            per_split=self.per_split[:, groups],
            null_variance=self.null_variance[groups],
            one_split=self.one_split[groups],
            n=self.n[groups],
            n_test=self.n_test[groups],
            covariance=self.covariance[groups],
            of_records=self.of_records[groups],
            mutual=self.mutual[groups],
        )


def mutual_factor(reliability: FloatArray | float) -> FloatArray:
    """max(2, 1 + 3 r^3): what training records change about each other.

    >>> mutual_factor(np.array([0.0, 0.5, 1.0]))
    array([2., 2., 4.])
    """
    of_pairs = 1 + OF_PAIRS * np.power(reliability, RELIABLE_POWER)
    return np.asarray(np.maximum(MUTUAL, of_pairs))


def may_be_too_narrow(reliability: float | None) -> bool:
    """Whether records remember as those of forests do, whose intervals fell short."""
    return (reliability or 0.0) >= LIKE_FORESTS


def difference_factor(mutual: FloatArray, separation: FloatArray | float) -> FloatArray:
    """1 + rho + (M - 2) rho^2: what is left of a factor M in a difference of groups.

    From 1 for mixed groups to M for groups that share nothing. What M is above 2 counts
    by the square, which was enough in made-up worlds (``benchmarks.forests``).
    """
    of_pairs = (mutual - MUTUAL) * np.square(separation)
    return np.asarray(1 + separation + of_pairs)


def strata_of(panel: Panel) -> Strata:
    """Records by (label, run, group), as the exact tests need them.

    Of a table without counts, rates and sizes give one stratum, with the nearest whole
    numbers; where other tables have two labels, the second one is empty.
    """
    hits = np.rint(panel.train_accuracy * panel.n_train)
    spared = np.rint(panel.test_accuracy * panel.n_test)
    total = panel.n_train + panel.n_test
    parts = [total, panel.n_train, hits + spared, hits]
    rates = Strata(*[np.asarray(part)[None] for part in parts])
    if panel.train is None or panel.test is None:
        return rates
    counts = exact.strata_of_counts(panel.train, panel.test)
    is_known = np.isfinite(counts.total).all(axis=0)
    # The second label of what comes from rates is empty.
    of_rates = np.pad(np.stack(rates), ((0, 0), (0, 1), (0, 0), (0, 0)))
    return Strata(*np.where(is_known, np.stack(counts), of_rates))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One setting and one attack as arrays; what is not released is NaN or None."""

    panel: Panel
    attack_kind: AttackKind
    floor: float  # the plan's, or the attack's own where that is larger
    benefit: FloatArray  # (seed, group)
    exposure: FloatArray  # (seed, group) signed; NaN where not released
    is_pooled: bool  # one number for all seeds, with no spread over them
    # Of the gap, of each split's first run; None where something is withheld.
    strata: Strata | None
    # (group,) by how much clumps of records multiply a variance
    variance_inflation: FloatArray
    received: Received
    exposed: Exposed | None
    has_enough_records: BoolArray  # (group,) whether they suffice for this attack
    reason: str | None  # why there is no estimate

    def below_floor(self, pairs: Sequence[Pair]) -> BoolArray:
        """(pair,) whether both exposures are below the floor; False if not known."""
        if self.exposed is None:
            return np.zeros(len(pairs), dtype=np.bool_)
        is_below = self.exposed.value < self.floor
        return np.asarray(is_below[np.array(pairs, dtype=np.int64)].all(axis=1))

    def exposed_by_split(self) -> Exposed | None:
        """Exposure split by split, with people's part of its error alone.

        None if it is not released so. Records make LiRA's error V over M models:
        V = P + (D - P) / M, thus P = (V - D / M) M / (M - 1). P is what people add; D
        is the variance by records in one model, the rest of which the spread over
        splits shows. For attacks that do not calibrate, that spread misses what
        records change about each other (``mutual``).
        """
        exposed = self.exposed
        panel = self.panel
        runs = panel.shadowed.get(self.attack_kind.name)
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
        separation = panel.pooled[self.attack_kind.name].separation
        return replace(
            exposed,
            per_split=by_split(runs.value, panel.split),
            one_split=difference_factor(exposed.mutual, separation) * people,
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
            hidden = exact.hidden_exposure_limit(
                self.strata, confidence_level=one_level
            )
            limit = np.fmax(limit, hidden)
        return np.minimum(limit, self.attack_kind.scale.largest)


def measure_panel(
    panel: Panel,
    plan: Plan,
    attack: str,
    *,
    variance_inflation: FloatArray | None = None,
) -> Measured:
    """Compute one attack's exposure of one setting, and the plan's benefit.

    ``variance_inflation`` (group,) says by how much clumps of records multiply a
    variance; None: not at all.
    """
    kind = attack_kind(attack)
    if variance_inflation is None:
        variance_inflation = np.ones(len(panel.group_names))
    enough = _has_enough_records(panel, attack)
    benefit = benefit_of(panel, plan)
    exposure_by_seed, is_pooled = _exposures(panel, kind)
    exposed, reason = _exposed(panel, plan, kind, variance_inflation, enough)
    return Measured(
        panel=panel,
        attack_kind=kind,
        floor=max(plan.floor, kind.floor),
        benefit=benefit.rate,
        exposure=exposure_by_seed,
        is_pooled=is_pooled,
        strata=_strata_of_splits(panel) if kind is GAP else None,
        variance_inflation=variance_inflation,
        received=received_of(panel, benefit, variance_inflation),
        exposed=exposed,
        has_enough_records=enough,
        reason=reason,
    )


def _has_enough_records(panel: Panel, attack: str) -> BoolArray:
    """(group,) whether an attack over all models has enough; True for all others."""
    if attack not in panel.pooled:
        return np.ones(len(panel.group_names), dtype=np.bool_)
    stated = panel.pooled[attack].n_records
    n_records = np.where(np.isnan(stated), panel.mean_n, stated)
    return np.asarray(~(n_records < LEAST_RECORDS))


def _exposures(panel: Panel, kind: AttackKind) -> tuple[FloatArray, bool]:
    """Exposure (seed, group), NaN where not given; whether it is one for all seeds."""
    if kind is GAP:
        gap = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
        return gap, False
    values = np.full(panel.train_accuracy.shape, np.nan)
    if kind.name in panel.exposure:
        values = panel.exposure[kind.name].value
    if kind.name in panel.pooled and not np.isfinite(values).all():
        pooled = panel.pooled[kind.name].value
        return np.broadcast_to(pooled, values.shape), True
    return values, False


def _strata_of_splits(panel: Panel) -> Strata | None:
    """The strata of each split's first run; None where something is withheld."""
    runs = exact.lowest_seeds(panel.split)
    parts = [part[:, runs] for part in strata_of(panel)]
    is_complete = all(np.isfinite(part).all() for part in parts)
    return Strata(*parts) if is_complete else None


def measure_attacks(
    panels: Sequence[Panel], plan: Plan, *, variance_inflation: FloatArray | None = None
) -> dict[str, list[Measured]]:
    """Every attack that the release has, by name: one entry per setting."""
    measured = {}
    for attack in dict.fromkeys([GAP.name, *carried_attacks(panels)]):
        measured[attack] = [
            measure_panel(panel, plan, attack, variance_inflation=variance_inflation)
            for panel in panels
        ]
    return measured


class _Source(NamedTuple):
    """What an attack's numbers give for an ``Exposed``, whose names these are."""

    per_split: FloatArray
    one_split: FloatArray
    one_split_null: FloatArray  # variance of one split if nothing was memorised
    people: PeoplePart | None
    covariance: FloatArray
    of_records: FloatArray
    mutual: FloatArray | float = MUTUAL


def _exposed(
    panel: Panel,
    plan: Plan,
    kind: AttackKind,
    variance_inflation: FloatArray,
    enough: BoolArray,
) -> tuple[Exposed | None, str | None]:
    """What the tests of an attack need, or why there are none.

    Groups without ``enough`` records may lack numbers.
    """
    name = kind.name
    if kind is GAP:
        source = _from_counts(panel, plan, variance_inflation)
    elif name in panel.pooled:
        source = _over_all_models(panel, plan, name, variance_inflation)
    elif name in panel.exposure:
        source = _of_every_run(panel, kind, variance_inflation)
    elif not (panel.exposure or panel.pooled):
        source = "this setting tells of outcomes alone"
    else:
        source = f"{name} is not released for this setting"
    if isinstance(source, str):
        return None, source

    exposed = Exposed(
        per_split=source.per_split,
        null_variance=source.one_split_null / len(source.per_split),
        one_split=source.one_split,
        n=panel.mean_n / variance_inflation,
        n_test=panel.n_test.mean(axis=0) / variance_inflation,
        people=source.people,
        covariance=source.covariance,
        is_counted=kind is GAP,
        of_records=source.of_records,
        mutual=source.mutual * np.ones_like(source.of_records),
    )
    if not (np.isfinite(exposed.value + exposed.one_split) | ~enough).all():
        return None, f"{name} lacks a value or a standard error for some group"
    if not (np.isfinite(exposed.variance) | ~enough).all():
        return None, NO_SIZES
    return exposed, None


def _from_counts(
    panel: Panel, plan: Plan, variance_inflation: FloatArray
) -> _Source | str:
    """The gap less the luck of the split; w = max(v, u)."""
    train_accuracy = panel.train_accuracy
    test_accuracy = panel.test_accuracy
    if not panel.has_sizes:
        return NO_SIZES
    if not np.isfinite(train_accuracy - test_accuracy).all():
        return "some group's accuracy is withheld in some model"

    luck, luck_variance = variances.split_luck(strata_of(panel))
    v = by_split(luck_variance, panel.split).mean(axis=0) * variance_inflation
    by_run = variances.record_variance(
        train_accuracy,
        test_accuracy,
        panel.n_train / variance_inflation,
        panel.n_test / variance_inflation,
    )
    u = by_split(by_run, panel.split).mean(axis=0)
    difference = metrics.accuracy_difference(train_accuracy, test_accuracy)
    covariance = np.full(len(variance_inflation), np.nan)
    if panel.test is not None:
        benefit = benefit_of(panel, plan).rate
        both = variances.split_covariance(panel.test, benefit, plan.benefit_kind)
        covariance = both.mean(axis=0) * variance_inflation
    return _Source(
        per_split=by_split(difference - luck, panel.split),
        one_split=np.maximum(v, u),
        one_split_null=v,
        people=variances.people_part,
        covariance=covariance,
        of_records=np.full(len(variance_inflation), np.nan),
    )


def _over_all_models(
    panel: Panel, plan: Plan, name: str, variance_inflation: FloatArray
) -> _Source:
    """A value over all models, with the error that the release gives.

    At least what records alone make of it, and, as far as groups do not share that
    (``separation``), what records change about each other.
    """
    pooled = panel.pooled[name]
    of_records = pooled.null_error**2 * variance_inflation
    mutual = mutual_factor(pooled.reliability)
    least = difference_factor(mutual, pooled.separation) * of_records
    one_split = np.fmax(pooled.standard_error**2 * variance_inflation, least)
    covariance = np.full(len(variance_inflation), np.nan)
    if plan.benefit == POSITIVE_RATE:  # the release gives no other covariance
        covariance = pooled.benefit_covariance * variance_inflation
    return _Source(
        per_split=pooled.value[None],
        one_split=one_split,
        one_split_null=np.where(np.isnan(of_records), one_split, of_records),
        people=None,
        covariance=covariance,
        of_records=of_records,
        mutual=mutual,
    )


def _of_every_run(
    panel: Panel, kind: AttackKind, variance_inflation: FloatArray
) -> _Source:
    """Values of runs; nulls vary at least as much as the values do over splits."""
    exposure = panel.exposure[kind.name]
    per_split = by_split(exposure.value, panel.split)
    squared_error = by_split(exposure.standard_error**2, panel.split)
    one_split = squared_error.mean(axis=0) * variance_inflation
    one_split_null = one_split
    if len(per_split) > 1:
        one_split_null = np.maximum(one_split, per_split.var(axis=0, ddof=1))
    unknown = np.full(len(variance_inflation), np.nan)
    return _Source(
        per_split=per_split,
        one_split=one_split,
        one_split_null=one_split_null,
        people=PEOPLE_PARTS.get(kind.scale),
        covariance=unknown,
        of_records=unknown,
    )
