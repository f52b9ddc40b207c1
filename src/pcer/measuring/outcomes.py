"""What do groups receive in one setting, and with which errors?

From a panel and a plan to the rates of the plan's benefit, ``benefit_of``, and to what
tests need of them, a ``Received``. Called by ``exposure.measure_panel``, whose
``Measured`` carries it to ``group_differences``, bounds and comparisons.

An answer about people like these needs what training records move
(``training_variance``), and that needs random splits that are not balanced by group,
counts of both parts, the same records on every split, and three splits. Where one of
these lacks (``Lack``), the answer is about these models alone. Symbols are those of
``variances``. To add a lack: a member of ``Lack``, its line in ``_lack``, and its words
in ``words.toml``, section ``lack``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pcer import metrics
from pcer.measuring import training_variance, variances
from pcer.measuring.plan import BENEFITS, POSITIVE_RATE, BenefitKind, Plan
from pcer.measuring.training_variance import (
    LEAST_SPLITS,
    Combination,
    SplitRates,
    Spread,
    TrainingPart,
)
from pcer.measuring.variances import by_split
from pcer.metrics import Counts, FloatArray
from pcer.release.panel import Panel

PRECISION = "precision"  # the one benefit whose denominator is predicted, too


class Estimand(StrEnum):
    """Whom an answer about outcomes is about."""

    PEOPLE = "people_like_these"
    MODELS = "these_models"
    MODEL = "this_model"


class Lack(StrEnum):
    """Why an answer about outcomes is of these models alone."""

    NOT_RANDOM = "not_random"  # or not said to be
    BALANCED_BY_GROUP = "balanced_by_group"
    NO_COUNTS = "no_counts"
    OTHER_RECORDS = "other_records"  # runs of other records, or of other numbers
    FEW_SPLITS = "few_splits"


class Benefit(NamedTuple):
    """What groups receive; arrays (seed, group), NaN where not given."""

    rate: FloatArray
    n_test: FloatArray  # records of the test part that the rate is a share of
    n: FloatArray  # the same of both parts
    everybody: FloatArray  # the rate over both parts
    kind: BenefitKind


@dataclass(frozen=True, kw_only=True)
class Received:
    """A benefit as tests need it; all NaN where it is not given for some group."""

    per_split: FloatArray  # (split, group) test rates
    variance: FloatArray  # (group,) V(R), without what training moves
    lasting: FloatArray  # (group,) R(1-R)/N: what no number of splits lowers
    training: TrainingPart | None
    lack: Lack | None  # why there is no training part
    n_runs: int

    @property
    def estimand(self) -> Estimand:
        """Whom an answer is about."""
        if self.training is not None:
            return Estimand.PEOPLE
        return Estimand.MODEL if self.n_runs == 1 else Estimand.MODELS

    @cached_property
    def value(self) -> FloatArray:
        """(group,) mean rate over distinct splits."""
        return np.asarray(self.per_split.mean(axis=0))

    def variance_now(self, rates: Combination) -> FloatArray:
        """V_now of combinations of rates.

        max(sum of w^2 V(R), sum of w^2 R(1-R)/N + Var_s(d)/S), from three splits on.
        """
        closed = rates.variance(self.variance)
        if len(self.per_split) < LEAST_SPLITS:
            return closed
        people = rates.variance(self.lasting)
        return variances.at_least_spread(closed, rates.of(self.per_split), people)

    def variance_train(self, rates: Combination) -> FloatArray:
        """V_train of combinations of rates; 0 where it is not known."""
        if self.training is None:
            return np.zeros(rates.groups.shape[1])
        return self.training.variance(rates)

    def variance_lasting(self, rates: Combination) -> FloatArray:
        """What more splits of the same people leave of a combination's variance."""
        return rates.variance(self.lasting) + self.variance_train(rates)

    @property
    def degrees_of_freedom(self) -> float:
        """S - 1 of Student's distribution; infinite where training is not counted."""
        if self.training is None:
            return np.inf
        return float(self.training.degrees_of_freedom)


def benefit_of(panel: Panel, plan: Plan) -> Benefit:
    """The plan's benefit; without a training part, the test part is all there is."""
    train = panel.train
    test = panel.test
    kind = plan.benefit_kind
    if test is None or train is None:
        n = np.nan_to_num(panel.n_train) + panel.n_test
        unknown = np.full_like(panel.positive_rate, np.nan)
        return Benefit(panel.positive_rate, panel.n_test, n, unknown, kind)
    benefit = _benefit_of_counts(kind, train, test)
    if plan.benefit != POSITIVE_RATE:
        return benefit
    # Tables without counts may give this rate, too.
    n = np.nan_to_num(panel.n_train) + panel.n_test
    return benefit._replace(rate=panel.positive_rate, n_test=panel.n_test, n=n)


def share_of(panel: Panel, kind: BenefitKind) -> Benefit:
    """Any rate, from counts; NaN where there are none."""
    if panel.test is None or panel.train is None:
        unknown = np.full_like(panel.positive_rate, np.nan)
        return Benefit(unknown, unknown, unknown, unknown, kind)
    return _benefit_of_counts(kind, panel.train, panel.test)


def _benefit_of_counts(kind: BenefitKind, train: Counts, test: Counts) -> Benefit:
    n_test = kind.among_in(test)
    n_train = kind.among_in(train)
    counted = kind.counted_in(test)
    return Benefit(
        rate=metrics.quotient(counted, n_test),
        n_test=n_test,
        n=n_test + np.nan_to_num(n_train),
        everybody=metrics.quotient(counted + kind.counted_in(train), n_test + n_train),
        kind=kind,
    )


def noise_of_repeats(train: Counts, test: Counts) -> dict[str, Spread]:
    """Training noise of every rate, from trainings on one split; arrays (run, group).

    A rate that some group lacks, since nobody of it is counted, is left out.
    """
    spreads = {}
    for kind in BENEFITS:
        tested, everybody = _split_rates(_benefit_of_counts(kind, train, test))
        if np.isfinite(tested + everybody).all():
            spreads[kind.name] = training_variance.spread_of(
                tested - tested.mean(axis=0),
                everybody - everybody.mean(axis=0),
                degrees_of_freedom=len(tested) - 1,
            )
    return spreads


def received_of(
    panel: Panel, benefit: Benefit, variance_inflation: FloatArray
) -> Received:
    """What groups receive, with its errors.

    ``variance_inflation`` (group,) says by how much clumps of records multiply a
    variance.
    """
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
    lack = _lack(panel, benefit)
    return Received(
        per_split=per_split,
        variance=variance,
        lasting=variances.rate_variance(rate, n),
        training=_training_part(panel, benefit) if lack is None else None,
        lack=lack,
        n_runs=len(panel.seeds),
    )


def _lack(panel: Panel, benefit: Benefit) -> Lack | None:
    """Why counts do not show what training moves; None where they do."""
    if panel.split_kind != "random":
        return Lack.NOT_RANDOM
    if panel.stratified_by in ("group", "both"):
        return Lack.BALANCED_BY_GROUP
    if not np.isfinite(benefit.rate + benefit.everybody).all():
        return Lack.NO_COUNTS
    n_records = panel.n_train + panel.n_test
    if not (n_records == n_records[0]).all():
        return Lack.OTHER_RECORDS
    return Lack.FEW_SPLITS if panel.n_splits < LEAST_SPLITS else None


def _training_part(panel: Panel, benefit: Benefit) -> TrainingPart | None:
    """What training moves of the benefit."""
    return training_variance.training_part(
        _split_rates(benefit),
        panel.split,
        share_trained=float(1 - benefit.n_test.sum() / benefit.n.sum()),
        repeats=_stated_noise(panel, benefit.kind),
        clumps=panel.clumps,
    )


def _split_rates(benefit: Benefit) -> SplitRates:
    """The rates whose spread over splits is taken.

    Of precision, whose denominator moves, too: to first order, P + (k - P m) / (mean
    of m) with k people counted among m, and P all k over all m.
    """
    if benefit.kind.name != PRECISION:
        return SplitRates(benefit.rate, benefit.everybody)
    parts = []
    for rate, among in ((benefit.rate, benefit.n_test), (benefit.everybody, benefit.n)):
        n_mean = among.mean(axis=0)
        precision = metrics.quotient((rate * among).mean(axis=0), n_mean)
        surplus = among * (rate - precision)
        parts.append(precision + metrics.quotient(surplus, n_mean))
    return SplitRates(*parts)


def _stated_noise(panel: Panel, kind: BenefitKind) -> Spread | None:
    """Training noise of one run, from runs that the release has repeated."""
    noise = panel.training_noise.get(kind.name)
    if noise is None:
        return None
    return Spread(
        everybody=np.array(noise.everybody),
        crossed=np.array(noise.crossed),
        degrees_of_freedom=noise.degrees_of_freedom,
    )
