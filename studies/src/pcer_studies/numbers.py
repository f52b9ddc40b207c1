"""What is our number under a key of the paper's, and how exact is it?

``our_number`` is the one way from a study to a number with its error; tables, claims
and the figure ask it. Means, deviations and intervals are the audit's, over the study's
seeds. What no audit holds is computed here from single models: numbers of seeds, the
attack's AUC, and the disparity by the attack, which the paper divides seed by seed (an
audit divides by the mean AUC of all models).

To add a quantity: a row of ``_QUANTITIES``; a figure over all configurations:
``agreement``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcer.auditing.record import GroupResult, SettingResult
from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.paper.records import Summary
from pcer.statistics import sign_test
from pcer_studies.agreement import study_figure
from pcer_studies.model_values import CHANCE as CHANCE
from pcer_studies.model_values import study_seeds as study_seeds
from pcer_studies.protocol import (
    BUDGETS,
    DEFAULT_FLOOR,
    Configuration,
    budget_label,
)
from pcer_studies.published import FigureKey, key_at
from pcer_studies.results import Study

INTERVAL_WIDTH = 2 * 1.96
"""A 95 % interval is so many standard errors wide."""


@dataclass(frozen=True, kw_only=True)
class OurNumber:
    """A number of the study; what is None is not known.

    Attributes:
        value: the number, or the mean over seeds.
        std: standard deviation over seeds.
        ci: 95 % interval of the mean.
        standard_error: of ``value``.
        n_seeds: seeds behind it.
        words: what stands in place of a number.
    """

    value: float | None = None
    std: float | None = None
    ci: tuple[float, float] | None = None
    standard_error: float | None = None
    n_seeds: int | None = None
    words: str = ""

    @property
    def summary(self) -> Summary:
        """Mean, deviation and interval, as the library writes them."""
        return Summary(mean=self.value, std=self.std, ci=self.ci)


def our_number(study: Study, key: FigureKey) -> OurNumber:
    """The study's number under a key; several budgets become one as ``key.over`` says.

    Raises:
        InputError: the study lacks the configuration, the budget or what was to be
            measured.
    """
    if key.configuration is None:
        estimate = study_figure(study, key.quantity, key.budgets)
        return OurNumber(value=estimate.value, standard_error=estimate.error)
    find = _QUANTITIES[key.quantity]
    if key.over == "all":
        return find(_Request(study, key.configuration, key))
    numbers = []
    for epsilon in key.budgets:
        part = replace(key, budgets=(epsilon,), over="each")
        numbers.append(find(_Request(study, key.configuration, part)))
    return _over_budgets(numbers, key.over)


def standard_error(std: float | None, n: int) -> float | None:
    """Of a mean over ``n`` seeds: std / sqrt(n).

    >>> standard_error(0.5, 25)
    0.1
    """
    return None if std is None else std / math.sqrt(n)


def error_of_interval(ci: tuple[float, float]) -> float:
    """Standard error behind a 95 % interval: its width / 3.92."""
    return (ci[1] - ci[0]) / INTERVAL_WIDTH


def error_of_count(count: float, n: int) -> float:
    """Standard error of a number of seeds out of ``n``.

    Binomial: sqrt(n * share * (1 - share)). The share has two seeds added on either
    side (Agresti and Coull), so that 50 of 50 is not taken for certainty.

    >>> round(error_of_count(25, 50), 2), round(error_of_count(50, 50), 2)
    (3.54, 1.34)
    """
    share = (count + 2) / (n + 4)
    return math.sqrt(n * share * (1 - share))


def side(ci: tuple[float, float] | None) -> int:
    """1 for an interval above 0, -1 for one below, 0 if it holds 0 or there is none.

    >>> side((-135.0, -2.0)), side((-17.0, 152.0))
    (-1, 0)
    """
    if ci is None or ci[0] <= 0 <= ci[1]:
        return 0
    return 1 if ci[0] > 0 else -1


def best_budgets(
    study: Study, configuration: Configuration, quantity: str
) -> tuple[float, ...]:
    """Budgets whose mean is smallest in size, once rounded as the paper prints it."""
    means = {}
    for epsilon in BUDGETS:
        key = key_at(configuration, epsilon, quantity)
        means[epsilon] = our_number(study, key).value
    return smallest(means, digits=PRINTED_DIGITS[quantity])


PRINTED_DIGITS = {"demographic_parity_gap": 3, "pcer_disparity": 0}


def smallest(values: Mapping[float, float | None], *, digits: int) -> tuple[float, ...]:
    """Budgets of the smallest size once rounded.

    Several are a tie; budgets of unknown size take no part.

    >>> smallest({0.1: -0.104, 1.0: None, 5.0: 0.0914, 10.0: 0.0911}, digits=3)
    (5.0, 10.0)
    """
    rounded = {
        epsilon: round(abs(value), digits)
        for epsilon, value in values.items()
        if value is not None
    }
    return tuple(e for e, value in rounded.items() if value == min(rounded.values()))


def robust_budgets(
    study: Study, configuration: Configuration, *, floor: float
) -> tuple[float, ...]:
    """Budgets at which the finding survives another floor.

    Their intervals exclude 0 on the same side at the default floor and at ``floor``.
    """
    robust = []
    for epsilon in BUDGETS:
        sides = set()
        for tried in (DEFAULT_FLOOR, floor):
            key = key_at(configuration, epsilon, "pcer_disparity", floor=tried)
            sides.add(side(our_number(study, key).ci))
        if sides in ({1}, {-1}):
            robust.append(epsilon)
    return tuple(robust)


@dataclass(frozen=True)
class _Request:
    """A key of one configuration, and the study that is to answer it."""

    study: Study
    configuration: Configuration
    key: FigureKey

    @property
    def floor(self) -> float:
        return DEFAULT_FLOOR if self.key.floor is None else self.key.floor

    @property
    def setting(self) -> SettingResult:
        """The audit's result at the key's first budget."""
        return self.study.setting(*self.configuration.key, self.key.budgets[0])

    @property
    def group(self) -> GroupResult:
        return self.setting.groups[str(self.key.group)]

    def seeds(self, quantity: str) -> FloatArray:
        """(seed,) of single models."""
        return study_seeds(
            self.study,
            self.configuration,
            self.key.budgets[0],
            quantity,
            group=self.key.group,
            floor=self.floor,
        )


Finder = Callable[[_Request], OurNumber]
"""How a quantity is found."""


def _of_budget(summary_of: Callable[[SettingResult], Summary]) -> Finder:
    def find(request: _Request) -> OurNumber:
        budget = request.setting
        return _over_seeds(summary_of(budget), budget.n_seeds)

    return find


def _of_group(summary_of: Callable[[GroupResult], Summary]) -> Finder:
    def find(request: _Request) -> OurNumber:
        return _over_seeds(summary_of(request.group), request.setting.n_seeds)

    return find


def _over_seeds(summary: Summary, n: int) -> OurNumber:
    return OurNumber(
        value=summary.mean,
        std=summary.std,
        ci=summary.ci,
        standard_error=standard_error(summary.std, n),
        n_seeds=n,
    )


def _disparity(request: _Request) -> OurNumber:
    """A disparity's error comes from its interval, as the paper prints it."""
    budget = request.setting
    for row in budget.pairs[0].floors:
        if row.floor == request.floor:
            error = None if row.ci is None else error_of_interval(row.ci)
            return replace(_over_seeds(row, budget.n_seeds), standard_error=error)
    raise InputError(
        f"floor {request.floor:g} is not in the audit's grid; choose one that is."
    )


def _mean_of_models(request: _Request) -> OurNumber:
    """What the audit does not hold: mean and deviation of single models' values."""
    values = request.seeds(request.key.quantity)
    n = len(values)
    if not np.isfinite(values).all():
        return OurNumber(n_seeds=n)
    std = float(values.std(ddof=1)) if n > 1 else None
    return OurNumber(
        value=float(values.mean()),
        std=std,
        standard_error=standard_error(std, n),
        n_seeds=n,
    )


def _n_seeds(sign: int) -> Finder:
    """Seeds whose disparity lies on one side of 0."""

    def find(request: _Request) -> OurNumber:
        values = request.seeds("pcer_disparity")
        count = int((sign * values > 0).sum())
        n = len(values)
        return OurNumber(
            value=count, standard_error=error_of_count(count, n), n_seeds=n
        )

    return find


def _sign_test_p(request: _Request) -> OurNumber:
    values = request.seeds("pcer_disparity")
    p = sign_test(int((values > 0).sum()), int((values < 0).sum()))
    return OurNumber(value=p, n_seeds=len(values))


def _n_records(request: _Request) -> OurNumber:
    release = request.study.release(*request.configuration.key)
    return OurNumber(value=release.subject.n_records, standard_error=0.0)


def _best(quantity: str) -> Finder:
    def find(request: _Request) -> OurNumber:
        best = best_budgets(request.study, request.configuration, quantity)
        return OurNumber(words=_words(best))

    return find


def _floor_robust(request: _Request) -> OurNumber:
    robust = robust_budgets(request.study, request.configuration, floor=request.floor)
    if not robust:
        return OurNumber(words="No")
    if robust == BUDGETS:
        return OurNumber(words="Yes (all budgets)")
    return OurNumber(words=f"Yes ({_words(robust)})")


def _words(budgets: Sequence[float]) -> str:
    return ", ".join(map(budget_label, budgets))


def _over_budgets(numbers: Sequence[OurNumber], over: str) -> OurNumber:
    """One number of several budgets.

    An end of a range has the error of the budget that attains it. A mean has the mean
    of the errors, as if budgets, which share their splits, went up and down together.
    Where a budget is unknown, so is what it is part of.
    """
    if over == "each":
        return numbers[0]
    values = [number.value for number in numbers if number.value is not None]
    if len(values) < len(numbers):
        return OurNumber()
    if over == "smallest":
        return numbers[values.index(min(values))]
    if over == "largest":
        return numbers[values.index(max(values))]

    mean = sum(values) / len(values)
    errors = [n.standard_error for n in numbers if n.standard_error is not None]
    if len(errors) < len(numbers):
        return OurNumber(value=mean)
    return OurNumber(value=mean, standard_error=sum(errors) / len(errors))


_QUANTITIES: dict[str, Finder] = {
    "accuracy": _of_budget(lambda budget: budget.accuracy),
    "demographic_parity_gap": _of_budget(lambda budget: budget.demographic_parity_gap),
    "equalized_odds_gap": _of_budget(lambda budget: budget.equalized_odds_gap),
    "overfitting_gap": _of_group(lambda group: group.overfitting_gap),
    "positive_rate": _of_group(lambda group: group.positive_rate),
    "pcer": _of_group(lambda group: group.pcer),
    "attack_auc": _mean_of_models,
    "pcer_disparity": _disparity,
    "pcer_disparity_auc": _mean_of_models,
    "n_positive_seeds": _n_seeds(1),
    "n_negative_seeds": _n_seeds(-1),
    "sign_test_p": _sign_test_p,
    "n_records": _n_records,
    "best_demographic_parity_gap": _best("demographic_parity_gap"),
    "best_pcer": _best("pcer_disparity"),
    "floor_robust": _floor_robust,
}
