"""Our number under any key of the paper's: the one way from a study to a number with its error.

Means, deviations and intervals are the audit's, over the study's seeds; what no audit
holds is computed from single models: numbers of seeds, the attack's AUC, and the
disparity by the attack, which the paper divides seed by seed (an audit divides by the
mean AUC of all models).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcer import metrics
from pcer.auditing.record import BudgetResult, GroupResult
from pcer.errors import InputError
from pcer.metrics import Counts, FloatArray
from pcer.paper.records import Summary
from pcer.release.panel import Panel
from pcer.statistics import bootstrap_sums, sign_test
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    DATASETS,
    DEFAULT_FLOOR,
    Configuration,
    budget_label,
)
from pcer_studies.published import FigureKey, key_at
from pcer_studies.results import AUC, Study

INTERVAL_WIDTH = 2 * 1.96
"""A 95 % interval is so many standard errors wide."""


@dataclass(frozen=True, kw_only=True)
class OurNumber:
    """A number of the study."""

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
        value, error = study_figure(study, key.quantity, key.budgets)
        return OurNumber(value=value, standard_error=error)
    find = _QUANTITIES[key.quantity]
    if key.over == "all":
        return find(_Asked(study, key.configuration, key))
    parts = [replace(key, budgets=(epsilon,), over="each") for epsilon in key.budgets]
    return _over_budgets(
        [find(_Asked(study, key.configuration, part)) for part in parts], key.over
    )


def standard_error(std: float | None, n: int) -> float | None:
    """Of a mean over ``n`` seeds.

    >>> standard_error(0.5, 25)
    0.1
    """
    return None if std is None else std / math.sqrt(n)


def error_of_interval(ci: tuple[float, float]) -> float:
    """Standard error behind a 95 % interval."""
    return (ci[1] - ci[0]) / INTERVAL_WIDTH


def error_of_count(count: float, n: int) -> float:
    """Standard error of a number of seeds out of ``n``.

    Binomial, with two seeds added on either side (Agresti and Coull), so that 50 of 50
    is not taken for certainty.

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


def best_budgets(study: Study, one: Configuration, quantity: str) -> tuple[float, ...]:
    """Budgets whose mean is smallest in size, once rounded as the paper prints it."""
    means = {e: our_number(study, key_at(one, e, quantity)).value for e in BUDGETS}
    return smallest(means, digits=PRINTED_DIGITS[quantity])


PRINTED_DIGITS = {"demographic_parity_gap": 3, "pcer_disparity": 0}


def smallest(values: Mapping[float, float | None], *, digits: int) -> tuple[float, ...]:
    """Budgets of the smallest size once rounded; several are a tie, unknown ones take no part.

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
    study: Study, one: Configuration, *, floor: float
) -> tuple[float, ...]:
    """Budgets whose interval excludes 0 on one side, at the default floor and at ``floor``."""
    found = []
    for epsilon in BUDGETS:
        keys = (
            key_at(one, epsilon, "pcer_disparity", floor=f)
            for f in (DEFAULT_FLOOR, floor)
        )
        if {side(our_number(study, key).ci) for key in keys} in ({1}, {-1}):
            found.append(epsilon)
    return tuple(found)


@dataclass(frozen=True)
class _Asked:
    """A key, and the study it is put to."""

    study: Study
    one: Configuration
    key: FigureKey

    @property
    def floor(self) -> float:
        return DEFAULT_FLOOR if self.key.floor is None else self.key.floor

    def budget(self) -> BudgetResult:
        return self.study.budget(
            self.one.dataset, self.one.attribute, self.key.budgets[0]
        )

    @property
    def group(self) -> GroupResult:
        return self.budget().groups[str(self.key.group)]

    def seeds(self, quantity: str) -> FloatArray:
        """(seed,) of single models."""
        group = self.key.group
        floor = self.floor
        return study_seeds(
            self.study,
            self.one,
            self.key.budgets[0],
            quantity,
            group=group,
            floor=floor,
        )


def _of_budget(
    find: Callable[[BudgetResult], Summary],
) -> Callable[[_Asked], OurNumber]:
    return lambda asked: _over_seeds(find(asked.budget()), asked.budget().n_seeds)


def _of_group(find: Callable[[GroupResult], Summary]) -> Callable[[_Asked], OurNumber]:
    return lambda asked: _over_seeds(find(asked.group), asked.budget().n_seeds)


def _over_seeds(summary: Summary, n: int) -> OurNumber:
    return OurNumber(
        value=summary.mean,
        std=summary.std,
        ci=summary.ci,
        standard_error=standard_error(summary.std, n),
        n_seeds=n,
    )


def _disparity(asked: _Asked) -> OurNumber:
    """A disparity's error comes from its interval, as the paper prints it."""
    budget = asked.budget()
    for row in budget.pairs[0].floors:
        if row.floor == asked.floor:
            error = None if row.ci is None else error_of_interval(row.ci)
            return replace(_over_seeds(row, budget.n_seeds), standard_error=error)
    raise InputError(
        f"floor {asked.floor:g} is not in the audit's grid; choose one that is."
    )


def _by_attack(asked: _Asked) -> OurNumber:
    values = asked.seeds(asked.key.quantity)
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


def _n_seeds(sign: int) -> Callable[[_Asked], OurNumber]:
    """Seeds on one side of 0."""

    def find(asked: _Asked) -> OurNumber:
        values = asked.seeds("pcer_disparity")
        count = int((sign * values > 0).sum())
        n = len(values)
        return OurNumber(
            value=count, standard_error=error_of_count(count, n), n_seeds=n
        )

    return find


def _sign_test_p(asked: _Asked) -> OurNumber:
    values = asked.seeds("pcer_disparity")
    p = sign_test(int((values > 0).sum()), int((values < 0).sum()))
    return OurNumber(value=p, n_seeds=len(values))


def _n_records(asked: _Asked) -> OurNumber:
    n = asked.study.release(asked.one.dataset, asked.one.attribute).subject.n_records
    return OurNumber(value=n, standard_error=0.0)


def _best(quantity: str) -> Callable[[_Asked], OurNumber]:
    return lambda asked: OurNumber(
        words=_words(best_budgets(asked.study, asked.one, quantity))
    )


def _floor_robust(asked: _Asked) -> OurNumber:
    found = robust_budgets(asked.study, asked.one, floor=asked.floor)
    if not found:
        return OurNumber(words="No")
    return OurNumber(
        words="Yes (all budgets)" if found == BUDGETS else f"Yes ({_words(found)})"
    )


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
    values = [one.value for one in numbers if one.value is not None]
    if len(values) < len(numbers):
        return OurNumber()
    if over in ("smallest", "largest"):
        return numbers[values.index(min(values) if over == "smallest" else max(values))]
    errors = [one.standard_error for one in numbers if one.standard_error is not None]
    error = sum(errors) / len(errors) if len(errors) == len(numbers) else None
    return OurNumber(value=sum(values) / len(values), standard_error=error)


_QUANTITIES: dict[str, Callable[[_Asked], OurNumber]] = {
    "accuracy": _of_budget(lambda budget: budget.accuracy),
    "demographic_parity_gap": _of_budget(lambda budget: budget.demographic_parity_gap),
    "equalized_odds_gap": _of_budget(lambda budget: budget.equalized_odds_gap),
    "overfitting_gap": _of_group(lambda group: group.overfitting_gap),
    "positive_rate": _of_group(lambda group: group.positive_rate),
    "pcer": _of_group(lambda group: group.pcer),
    "attack_auc": _by_attack,
    "pcer_disparity": _disparity,
    "pcer_disparity_auc": _by_attack,
    "n_positive_seeds": _n_seeds(1),
    "n_negative_seeds": _n_seeds(-1),
    "sign_test_p": _sign_test_p,
    "n_records": _n_records,
    "best_demographic_parity_gap": _best("demographic_parity_gap"),
    "best_pcer": _best("pcer_disparity"),
    "floor_robust": _floor_robust,
}


CHANCE = 0.5
"""AUC of an attack that only guesses."""


def study_seeds(
    study: Study,
    one: Configuration,
    epsilon: float,
    quantity: str,
    *,
    group: str | None = None,
    floor: float = DEFAULT_FLOOR,
) -> FloatArray:
    """(seed,) a quantity of a budget's models; InputError names the release that lacks it."""
    panel = study.panel(one.dataset, one.attribute, epsilon)
    try:
        return seed_values(panel, quantity, group=group, floor=floor)
    except InputError as error:
        raise InputError(f"{study.folder / one.file_name}: {error}") from None


def seed_values(
    panel: Panel,
    quantity: str,
    *,
    group: str | None = None,
    floor: float = DEFAULT_FLOOR,
) -> FloatArray:
    """(seed,) a quantity of every model, with its ``group`` and ``floor`` where it has them."""
    if quantity in _OF_GROUP:
        return _OF_GROUP[quantity](panel)[:, panel.group_names.index(str(group))]
    if quantity in _COSTS:
        ratio = metrics.pcer(panel.positive_rate, _COSTS[quantity](panel), floor=floor)
        return metrics.pcer_disparity(ratio)[:, 0]
    return _OF_MODEL[quantity](panel)


def _accuracy(panel: Panel) -> FloatArray:
    return metrics.accuracy(Counts(*(part.sum(axis=-1) for part in _tested(panel))))


def _parity_gap(panel: Panel) -> FloatArray:
    return metrics.demographic_parity_gap(panel.positive_rate)


def _odds_gap(panel: Panel) -> FloatArray:
    test = _tested(panel)
    return metrics.equalized_odds_gap(
        metrics.true_positive_rate(test), metrics.false_positive_rate(test)
    )


def _gap(panel: Panel) -> FloatArray:
    return metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)


def _advantage(panel: Panel) -> FloatArray:
    if AUC not in panel.exposure:
        raise InputError(
            f"no run carries {AUC}, which the paper's attack tables need; train the "
            "release with pcer reproduce or pcer train."
        )
    return panel.exposure[AUC].value


def _tested(panel: Panel) -> Counts:
    if panel.test is None:
        raise InputError(
            "a release without counts cannot be compared; train it with pcer."
        )
    return panel.test


_OF_MODEL: dict[str, Callable[[Panel], FloatArray]] = {
    "accuracy": _accuracy,
    "demographic_parity_gap": _parity_gap,
    "equalized_odds_gap": _odds_gap,
}
_OF_GROUP: dict[str, Callable[[Panel], FloatArray]] = {
    "overfitting_gap": _gap,
    "positive_rate": lambda panel: panel.positive_rate,
    "auc_advantage": _advantage,
    "attack_auc": lambda panel: CHANCE + _advantage(panel),
}
_COSTS: dict[str, Callable[[Panel], FloatArray]] = {
    "pcer_disparity": _gap,
    "pcer_disparity_auc": _advantage,
}
"""What each disparity takes for the cost."""


RESAMPLES = 2_000
STREAM = 7
"""First word of the seed of every stream here."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """Means over seeds; a first axis may hold resamples."""

    gap: FloatArray
    advantage: FloatArray
    by_gap: FloatArray
    by_attack: FloatArray


FIGURES: Mapping[str, Callable[[Means], FloatArray]] = {
    "auc_advantage_mean": lambda means: means.advantage.mean(axis=(-3, -2, -1)),
    "auc_advantage_largest": lambda means: means.advantage.max(axis=(-3, -2, -1)),
    "gap_advantage_correlation": lambda means: _pearson(
        means.gap.reshape(*means.gap.shape[:-3], -1),
        means.advantage.reshape(*means.gap.shape[:-3], -1),
    ),
    "overfitting_gap_mean": lambda means: means.gap.mean(axis=(-3, -2, -1)),
    "sign_agreements": lambda means: np.sum(np.prod(_flat(means), axis=0) > 0, axis=-1),
    "disparity_correlation": lambda means: _pearson(*_flat(means)),
    "share_understated": lambda means: np.mean(
        np.greater_equal(*np.abs(_flat(means))[::-1]), axis=-1
    ),
    "median_ratio": lambda means: np.median(
        np.divide(*np.abs(_flat(means))[::-1]), axis=-1
    ),
}
"""Over configurations and budgets (and groups): how far the attack agrees with the gap."""


def study_means(study: Study) -> tuple[Means, Means | None]:
    """Means of a complete study, and of every resample of its seeds.

    Seeds are drawn anew for every dataset; its attributes and budgets share their
    splits, so they share the draw. One seed alone cannot be resampled.
    """
    parts = []
    drawn = []
    for index, dataset in enumerate(DATASETS):
        values = np.stack(
            [
                _of_seeds(study, k)
                for k, c in enumerate(CONFIGURATIONS)
                if c.dataset == dataset
            ],
            1,
        )
        parts.append(values.mean(axis=0))
        if len(values) > 1:
            rng = np.random.default_rng([STREAM, index])
            drawn.append(
                bootstrap_sums(values, resamples=RESAMPLES, rng=rng) / len(values)
            )
    means = _named(np.concatenate(parts, axis=0))
    return means, _named(np.concatenate(drawn, axis=1)) if len(drawn) == len(
        parts
    ) else None


def study_figure(
    study: Study, quantity: str, budgets: tuple[float, ...]
) -> tuple[float | None, float | None]:
    """One figure of a complete study over some budgets, and its error; None where not known."""
    means, resampled = study.keep("means", lambda: study_means(study))
    return figure(means, resampled, quantity, budgets)


def figure(
    means: Means, resampled: Means | None, quantity: str, budgets: tuple[float, ...]
) -> tuple[float | None, float | None]:
    """One figure over some budgets, and its error; None where models or seeds cannot tell."""
    compute = FIGURES[quantity]
    value = float(compute(_only(means, budgets)))
    if not math.isfinite(value):
        return None, None
    if resampled is None:
        return value, None
    return value, float(compute(_only(resampled, budgets)).std(ddof=1))


def _of_seeds(study: Study, index: int) -> FloatArray:
    """(seed, budget, 6): gap, advantage of both groups, and the two disparities."""
    one = CONFIGURATIONS[index]
    wanted = [
        *(
            (cost, group)
            for cost in ("overfitting_gap", "auc_advantage")
            for group in one.groups
        ),
        *((disparity, None) for disparity in ("pcer_disparity", "pcer_disparity_auc")),
    ]
    return np.stack(
        [
            np.stack(
                [
                    study_seeds(study, one, e, what, group=group)
                    for what, group in wanted
                ],
                1,
            )
            for e in BUDGETS
        ],
        axis=1,
    )


def _named(values: FloatArray) -> Means:
    return Means(
        gap=values[..., 0:2],
        advantage=values[..., 2:4],
        by_gap=values[..., 4],
        by_attack=values[..., 5],
    )


def _only(means: Means, budgets: tuple[float, ...]) -> Means:
    rows = [BUDGETS.index(epsilon) for epsilon in budgets]
    return Means(
        gap=means.gap[..., rows, :],
        advantage=means.advantage[..., rows, :],
        by_gap=means.by_gap[..., rows],
        by_attack=means.by_attack[..., rows],
    )


def _flat(means: Means) -> tuple[FloatArray, FloatArray]:
    lead = means.by_gap.shape[:-2]
    return means.by_gap.reshape(*lead, -1), means.by_attack.reshape(*lead, -1)


def _pearson(x: FloatArray, y: FloatArray) -> FloatArray:
    """Over the last axis."""
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    return np.asarray((x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)))
