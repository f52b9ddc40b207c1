"""What is one attack's exposure in one setting, with the errors that tests need?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pcer import metrics
from pcer.measuring import exact, variances
from pcer.measuring.exact import Strata
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray, IntArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import Proxy
from pcer.release.panel import Panel

Pair = tuple[int, int]
NO_SIZES = "group sizes (n) are not in the release"
LIMIT_STEPS = 8  # after which a bound and its error agree to a hundredth of the error
# Variance factor: training on one record changes predictions for others, which a single
# sweep cannot measure. In the interval of one group's exposure that counts as much as
# what records add themselves; in a difference of groups only the share of it that they
# do not have in common (``separation``).
MUTUAL = 2.0
# The people's part in the variance of an attack that is measured in each run, by its
# scale.
PEOPLE_PARTS: dict[
    attack_kinds.Scale, Callable[[FloatArray, FloatArray], FloatArray]
] = {
    attack_kinds.ACCURACY: variances.people_part,
    # a = AUC - 1/2, in which a record counts as a member and among the others: 2a (1 -
    # 2a) / N
    attack_kinds.AUC: lambda advantage, n: variances.people_part(2 * advantage, n),
    # half a difference of rates: a (1 - 2a) / (2N)
    attack_kinds.BALANCED: lambda advantage, n: (
        variances.people_part(2 * advantage, n) / 4
    ),
}


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


def measure_exposure(
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
