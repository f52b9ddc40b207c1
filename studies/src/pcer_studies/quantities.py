"""Our number for any of the paper's: mean, spread and error over the study's seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pcer import metrics
from pcer.auditing import Audit, BudgetResult, FloorRow, Summary, short_budget
from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.statistics import sign_test
from pcer_studies.protocol import BUDGETS, DEFAULT_FLOOR, SEEDS, Configuration
from pcer_studies.results import Study

INTERVAL_WIDTH = 2 * 1.96
"""A 95 % interval is so many standard errors wide."""

GAP, AUC = "overfitting_gap", "auc_advantage"
CHANCE = 0.5


@dataclass(frozen=True, kw_only=True)
class Ours:
    """A number of the study.

    Attributes:
        value: the number; None for words.
        std: standard deviation over seeds.
        ci: 95 % bootstrap interval of the mean over seeds.
        standard_error: of ``value``; None where seeds cannot tell, 0 for an exact count.
        words: the answer where it is not a number.
    """

    value: float | None = None
    std: float | None = None
    ci: tuple[float, float] | None = None
    standard_error: float | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which number: a quantity of one configuration at one budget."""

    configuration: Configuration
    epsilon: float
    quantity: str
    group: str | None = None
    floor: float | None = None


def ours(study: Study, wanted: Wanted) -> Ours:
    """The study's number; InputError where the study lacks its configuration or budget."""
    return _QUANTITIES[wanted.quantity](study, wanted)


def budget_of(audit: Audit, epsilon: float) -> BudgetResult:
    """The budget's part of an audit."""
    for budget in audit.budgets:
        if budget.budget == epsilon:
            return budget
    name = f"{audit.subject.dataset} ({audit.subject.attribute})"
    raise InputError(
        f"the release of {name} has no models of epsilon {epsilon:g}; train the paper's budgets."
    )


def floor_row(budget: BudgetResult, floor: float) -> FloorRow:
    """The disparity of the two groups at a floor of the grid."""
    return next(row for row in budget.pairs[0].floors if row.floor == floor)


def seed_disparities(
    study: Study, one: Configuration, epsilon: float, *, floor: float, cost: str = GAP
) -> FloatArray:
    """(seed,) PCER disparity of single models."""
    panel = study.panel(one.dataset, one.attribute, epsilon)
    paid = seed_gaps(study, one, epsilon) if cost == GAP else exposure(study, one, epsilon, cost)
    ratio = metrics.pcer(panel.positive_rate, paid, floor=floor)
    return metrics.pcer_disparity(ratio)[:, 0]


def seed_gaps(study: Study, one: Configuration, epsilon: float) -> FloatArray:
    """(seed, group) overfitting gap of single models."""
    panel = study.panel(one.dataset, one.attribute, epsilon)
    return metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)


def exposure(study: Study, one: Configuration, epsilon: float, proxy: str = AUC) -> FloatArray:
    """(seed, group) what an attack found of single models; InputError where it was not run."""
    panel = study.panel(one.dataset, one.attribute, epsilon)
    if proxy not in panel.exposure:
        raise InputError(
            f"{study.folder / one.file_name}: no run carries {proxy}, which the paper's attack "
            "tables need; train the release with pcer reproduce or pcer train."
        )
    return panel.exposure[proxy].value


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

    Binomial, with two seeds added on either side (Agresti and Coull), so that 50 of 50 is not
    taken for certainty.

    >>> round(error_of_count(25, 50), 2), round(error_of_count(50, 50), 2)
    (3.54, 1.34)
    """
    share = (count + 2) / (n + 4)
    return math.sqrt(n * share * (1 - share))


def best_budgets(values: Mapping[float, float | None], *, digits: int) -> tuple[float, ...]:
    """Budgets of the smallest size once rounded as printed; several are a tie.

    >>> best_budgets({0.1: -0.104, 5.0: 0.0914, 10.0: 0.0911}, digits=3)
    (5.0, 10.0)
    """
    rounded = {
        epsilon: round(abs(value), digits) for epsilon, value in values.items() if value is not None
    }
    return tuple(e for e, value in rounded.items() if value == min(rounded.values()))


def budget_words(budgets: Sequence[float]) -> str:
    """Budgets in print.

    >>> budget_words((5.0, 10.0)), budget_words((math.inf,))
    ('5, 10', 'no-DP')
    """
    return ", ".join(short_budget(None if math.isinf(e) else e) for e in budgets)


def robust_budgets(audit: Audit, *, floor: float) -> tuple[float, ...]:
    """Budgets whose interval excludes 0 on one side, at the default floor and at ``floor``."""
    found = []
    for epsilon in BUDGETS:
        budget = budget_of(audit, epsilon)
        signs = {_side(floor_row(budget, f).ci) for f in (DEFAULT_FLOOR, floor)}
        if signs in ({1}, {-1}):
            found.append(epsilon)
    return tuple(found)


def _side(ci: tuple[float, float] | None) -> int:
    """1 or -1 for an interval on one side of 0, else 0."""
    if ci is None or ci[0] <= 0 <= ci[1]:
        return 0
    return 1 if ci[0] > 0 else -1


def _audit(study: Study, wanted: Wanted, cost: str = GAP) -> Audit:
    return study.audit(wanted.configuration.dataset, wanted.configuration.attribute, cost)


def _budget(study: Study, wanted: Wanted, cost: str = GAP) -> BudgetResult:
    return budget_of(_audit(study, wanted, cost), wanted.epsilon)


def _from(summary: Summary, n: int) -> Ours:
    return Ours(
        value=summary.mean,
        std=summary.std,
        ci=summary.ci,
        standard_error=standard_error(summary.std, n),
    )


def _of_budget(field: str) -> Callable[[Study, Wanted], Ours]:
    def find(study: Study, wanted: Wanted) -> Ours:
        budget = _budget(study, wanted)
        return _from(getattr(budget, field), budget.n_seeds)

    return find


def _of_group(field: str) -> Callable[[Study, Wanted], Ours]:
    def find(study: Study, wanted: Wanted) -> Ours:
        budget = _budget(study, wanted)
        return _from(getattr(budget.groups[str(wanted.group)], field), budget.n_seeds)

    return find


def _disparity(cost: str) -> Callable[[Study, Wanted], Ours]:
    """A disparity's error comes from its interval, as the paper prints it."""

    def find(study: Study, wanted: Wanted) -> Ours:
        budget = _budget(study, wanted, cost)
        row = floor_row(budget, wanted.floor or DEFAULT_FLOOR)
        error = None if row.ci is None else error_of_interval(row.ci)
        return Ours(value=row.mean, std=row.std, ci=row.ci, standard_error=error)

    return find


def _attack_auc(study: Study, wanted: Wanted) -> Ours:
    one = wanted.configuration
    g = one.groups.index(str(wanted.group))
    values = CHANCE + exposure(study, one, wanted.epsilon)[:, g]
    std = float(values.std(ddof=1)) if len(values) > 1 else None
    return Ours(
        value=float(values.mean()), std=std, standard_error=standard_error(std, len(values))
    )


def _seeds(sign: int) -> Callable[[Study, Wanted], Ours]:
    """Seeds on one side of 0, as a number out of the paper's 50."""

    def find(study: Study, wanted: Wanted) -> Ours:
        floor = wanted.floor or DEFAULT_FLOOR
        values = seed_disparities(study, wanted.configuration, wanted.epsilon, floor=floor)
        scale = len(SEEDS) / len(values)
        count = int((sign * values > 0).sum())
        return Ours(value=count * scale, standard_error=scale * error_of_count(count, len(values)))

    return find


def _sign_test_p(study: Study, wanted: Wanted) -> Ours:
    floor = wanted.floor or DEFAULT_FLOOR
    values = seed_disparities(study, wanted.configuration, wanted.epsilon, floor=floor)
    return Ours(value=sign_test(int((values > 0).sum()), int((values < 0).sum())))


def _n_records(study: Study, wanted: Wanted) -> Ours:
    one = wanted.configuration
    n = study.release(one.dataset, one.attribute).subject.n_records
    return Ours(value=n, standard_error=0.0)


def _best_parity(study: Study, wanted: Wanted) -> Ours:
    audit = _audit(study, wanted)
    gaps = {e: budget_of(audit, e).demographic_parity_gap.mean for e in BUDGETS}
    return Ours(words=budget_words(best_budgets(gaps, digits=3)))


def _best_pcer(study: Study, wanted: Wanted) -> Ours:
    audit = _audit(study, wanted)
    means = {e: budget_of(audit, e).pairs[0].pcer_disparity.mean for e in BUDGETS}
    return Ours(words=budget_words(best_budgets(means, digits=0)))


def _floor_robust(study: Study, wanted: Wanted) -> Ours:
    found = robust_budgets(_audit(study, wanted), floor=wanted.floor or DEFAULT_FLOOR)
    if not found:
        return Ours(words="No")
    return Ours(words="Yes (all budgets)" if found == BUDGETS else f"Yes ({budget_words(found)})")


_QUANTITIES: dict[str, Callable[[Study, Wanted], Ours]] = {
    "accuracy": _of_budget("accuracy"),
    "demographic_parity_gap": _of_budget("demographic_parity_gap"),
    "equalized_odds_gap": _of_budget("equalized_odds_gap"),
    "overfitting_gap": _of_group("overfitting_gap"),
    "positive_rate": _of_group("positive_rate"),
    "pcer": _of_group("pcer"),
    "attack_auc": _attack_auc,
    "pcer_disparity": _disparity(GAP),
    "pcer_disparity_auc": _disparity(AUC),
    "n_positive_seeds": _seeds(1),
    "n_negative_seeds": _seeds(-1),
    "sign_test_p": _sign_test_p,
    "n_records": _n_records,
    "best_demographic_parity_gap": _best_parity,
    "best_pcer": _best_pcer,
    "floor_robust": _floor_robust,
}
