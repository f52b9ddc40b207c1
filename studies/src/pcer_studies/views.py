"""Two views with one set of questions: what the paper printed, and what our run measured.

A claim is a question to a view, so that the same code asks whether it follows from the paper's
own figures and whether it holds in our run. What a view cannot answer raises ``NotThere``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np

from pcer import metrics
from pcer.auditing import Audit, BudgetResult, FloorRow, GroupResult, PairResult, budget_name
from pcer.release import Panel
from pcer.statistics import SIGNIFICANCE, holm
from pcer_studies.noise import PublishedGap, difference_p, published_gaps
from pcer_studies.protocol import DEFAULT_FLOOR, NO_DP, SEEDS, Configuration
from pcer_studies.published import Cell, TextFigure, published_cells, text_figures
from pcer_studies.results import Study

GAP, AUC = "overfitting_gap", "auc_advantage"
CHANCE = 0.5
FULL_PRECISION = ("tab:mia-full", "tab:mia-full-b")
"""Tables that repeat gaps and disparities, the disparities with a digit more."""

Value = TypeVar("Value")


class NotThere(LookupError):
    """A figure that was not printed, or that the study does not have; says which."""


class View(Protocol):
    """What a claim can ask. Groups are counted 0 and 1; a disparity is of group 0 minus 1."""

    n_seeds: int

    def accuracy(self, one: Configuration, epsilon: float) -> float:
        """Mean test accuracy."""

    def parity(self, one: Configuration, epsilon: float) -> float:
        """Mean demographic parity gap."""

    def parity_std(self, one: Configuration, epsilon: float) -> float:
        """Its standard deviation over seeds."""

    def odds(self, one: Configuration, epsilon: float) -> float:
        """Mean equalized odds gap."""

    def rate(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean positive rate."""

    def gap(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean overfitting gap."""

    def disparity(self, one: Configuration, epsilon: float, floor: float = ...) -> float:
        """Mean PCER disparity, the gap being the cost."""

    def disparity_std(self, one: Configuration, epsilon: float, floor: float = ...) -> float:
        """Its standard deviation over seeds."""

    def interval(self, one: Configuration, epsilon: float) -> tuple[float, float]:
        """Bootstrap interval of the mean disparity at the default floor."""

    def n_positive(self, one: Configuration, epsilon: float, floor: float = ...) -> int:
        """Seeds whose disparity is above 0."""

    def n_negative(self, one: Configuration, epsilon: float, floor: float = ...) -> int:
        """Seeds whose disparity is below 0."""

    def advantage(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean AUC of the threshold attack, minus one half."""

    def attack_disparity(self, one: Configuration, epsilon: float) -> float:
        """Mean PCER disparity, the attack's advantage being the cost."""

    def gap_disparity(self, one: Configuration, epsilon: float) -> float:
        """Mean PCER disparity as it stands beside the attack's."""

    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """The mean gap that no memorisation would give."""

    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """Whether the group's gap can be told from the luck of the split."""

    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """Whether the disparity, with its sign, is more than rates divided by split luck."""

    def costs_differ(self, one: Configuration, epsilon: float) -> bool:
        """Whether the groups' costs differ beyond split luck, in the direction of the gaps."""


class Paper:
    """What the paper printed, with the noise level of its gaps."""

    n_seeds = len(SEEDS)

    def __init__(self, gaps: tuple[PublishedGap, ...]) -> None:
        self._gaps = {(gap.configuration, gap.epsilon, gap.group): gap for gap in gaps}
        settings = list(dict.fromkeys((gap.configuration, gap.epsilon) for gap in gaps))
        p = [difference_p(self._gap(*at, 0), self._gap(*at, 1)) for at in settings]
        adjusted = holm(np.array(p)).tolist()
        self._difference_p = dict(zip(settings, adjusted, strict=True))

    @classmethod
    def beside(cls, study: Study) -> Paper:
        """The paper's figures, their noise levels by the study's group sizes."""
        return cls(published_gaps(study))

    def accuracy(self, one: Configuration, epsilon: float) -> float:
        """As printed."""
        return _main(one, epsilon, "accuracy").value

    def parity(self, one: Configuration, epsilon: float) -> float:
        """As printed."""
        return _main(one, epsilon, "demographic_parity_gap").value

    def parity_std(self, one: Configuration, epsilon: float) -> float:
        """As printed."""
        return _there(
            _main(one, epsilon, "demographic_parity_gap").std, "its standard deviation", one
        )

    def odds(self, one: Configuration, epsilon: float) -> float:
        """As printed; ACS has none."""
        return _main(one, epsilon, "equalized_odds_gap").value

    def rate(self, one: Configuration, epsilon: float, group: int) -> float:
        """As the text says; the tables have none."""
        for figure in text_figures(quantity="positive_rate", group=one.groups[group], over="each"):
            if (figure.dataset, figure.budgets) == (one.dataset, (epsilon,)):
                return _there(figure.value, "the positive rate", one)
        raise NotThere(f"positive rates of {one.name} are not printed")

    def gap(self, one: Configuration, epsilon: float, group: int) -> float:
        """As printed."""
        return _main(one, epsilon, GAP, group=one.groups[group]).value

    def disparity(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> float:
        """As printed in the main tables, in Table S1, or in the text."""
        return _there(_disparity(one, epsilon, floor).value, "the disparity", one)

    def disparity_std(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> float:
        """As printed."""
        return _there(_disparity(one, epsilon, floor).std, "its standard deviation", one)

    def interval(self, one: Configuration, epsilon: float) -> tuple[float, float]:
        """As printed in the main tables."""
        cell = _main(one, epsilon, "pcer_disparity")
        return (
            _there(cell.ci_low, "the interval", one),
            _there(cell.ci_high, "the interval", one),
        )

    def n_positive(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """As printed in Table S1."""
        return int(_cell(one, epsilon, "n_positive_seeds", floor=floor).value)

    def n_negative(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """All seeds that are not printed as positive: the paper mentions no ties."""
        return self.n_seeds - self.n_positive(one, epsilon, floor)

    def advantage(self, one: Configuration, epsilon: float, group: int) -> float:
        """The printed AUC, which has three decimals, minus one half."""
        auc = _cell(one, epsilon, "attack_auc", group=one.groups[group]).value
        return round(auc - CHANCE, 6)

    def attack_disparity(self, one: Configuration, epsilon: float) -> float:
        """As printed in Tables S5 and S6."""
        return _cell(one, epsilon, "pcer_disparity_auc").value

    def gap_disparity(self, one: Configuration, epsilon: float) -> float:
        """As printed in Tables S5 and S6."""
        for table in FULL_PRECISION:
            for cell in _cells(one, epsilon, "pcer_disparity", table=table):
                return cell.value
        raise NotThere(f"Tables S5 and S6 have no disparity of {one.name}")

    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """By group sizes."""
        return self._gap(one, epsilon, group).noise_level

    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """By the test of ``published_gaps``: Holm over all printed gaps."""
        return self._gap(one, epsilon, group).stands_out

    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """What printed figures can say: the gap of the group with the lower ratio stands out."""
        lower = 1 if self.disparity(one, epsilon) > 0 else 0
        return self.stands_out(one, epsilon, lower)

    def costs_differ(self, one: Configuration, epsilon: float) -> bool:
        """Each group's noise level taken off; Holm over all settings."""
        self._gap(one, epsilon, 0)
        return bool(self._difference_p[one, epsilon] <= SIGNIFICANCE)

    def _gap(self, one: Configuration, epsilon: float, group: int) -> PublishedGap:
        try:
            return self._gaps[one, epsilon, one.groups[group]]
        except KeyError:
            raise NotThere(f"the study has no group sizes of {one.name}") from None


class Run:
    """What our run measured, by the audit with the overfitting gap as cost."""

    def __init__(self, study: Study) -> None:
        self.study = study
        seeds = {len({run.seed for run in one.runs}) for one in study.releases.values()}
        self.n_seeds = max(seeds)

    def accuracy(self, one: Configuration, epsilon: float) -> float:
        """Mean over seeds."""
        return _there(self.budget(one, epsilon).accuracy.mean, "the accuracy", one)

    def parity(self, one: Configuration, epsilon: float) -> float:
        """Mean over seeds."""
        return _there(self.budget(one, epsilon).demographic_parity_gap.mean, "the gap", one)

    def parity_std(self, one: Configuration, epsilon: float) -> float:
        """Over seeds."""
        return _there(self.budget(one, epsilon).demographic_parity_gap.std, "a deviation", one)

    def odds(self, one: Configuration, epsilon: float) -> float:
        """Mean over seeds."""
        return _there(self.budget(one, epsilon).equalized_odds_gap.mean, "the odds gap", one)

    def rate(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean over seeds."""
        return _there(self.group(one, epsilon, group).positive_rate.mean, "the rate", one)

    def gap(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean over seeds."""
        return _there(self.group(one, epsilon, group).overfitting_gap.mean, "the gap", one)

    def disparity(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> float:
        """Mean over seeds."""
        return _there(self.floor_row(one, epsilon, floor).mean, "the disparity", one)

    def disparity_std(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> float:
        """Over seeds."""
        return _there(self.floor_row(one, epsilon, floor).std, "a deviation (one seed)", one)

    def interval(self, one: Configuration, epsilon: float) -> tuple[float, float]:
        """Of the mean disparity at the default floor."""
        return _there(self.pair(one, epsilon).pcer_disparity.ci, "an interval (one seed)", one)

    def n_positive(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """Seeds above 0."""
        return self.floor_row(one, epsilon, floor).n_positive_seeds

    def n_negative(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """Seeds below 0."""
        panel = self.panel(one, epsilon)
        gap = metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)
        ratio = metrics.pcer(panel.positive_rate, gap, floor=floor)
        return int((metrics.pcer_disparity(ratio)[:, 0] < 0).sum())

    def advantage(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean over seeds."""
        value = self.group(one, epsilon, group, cost=AUC).cost.value
        return _there(value, "the attack's advantage", one)

    def attack_disparity(self, one: Configuration, epsilon: float) -> float:
        """Mean over seeds at the default floor."""
        return _there(self.pair(one, epsilon, cost=AUC).pcer_disparity.mean, "the disparity", one)

    def gap_disparity(self, one: Configuration, epsilon: float) -> float:
        """Mean over seeds at the default floor."""
        return self.disparity(one, epsilon)

    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean of the gaps that splits like ours would give without memorisation."""
        picture = self.group(one, epsilon, group).null_gap
        return _there(None if picture is None else picture.mean, "the noise level", one)

    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """Resolved by the audit."""
        return self.group(one, epsilon, group).resolved

    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """Shown by the audit, with the disparity's sign."""
        pair = self.pair(one, epsilon)
        lower = pair.groups[1 if (pair.pcer_disparity.mean or 0.0) > 0 else 0]
        return pair.disparity_shown and pair.lower_ratio == lower

    def costs_differ(self, one: Configuration, epsilon: float) -> bool:
        """Equal costs are refuted by the audit, in the direction of the mean gaps."""
        claim = next(
            claim
            for claim in self.audit(one).comparison.equal_gap_claims
            if claim.epsilon == self.budget(one, epsilon).epsilon
        )
        gaps = self.gap(one, epsilon, 0) - self.gap(one, epsilon, 1)
        return claim.refuted and claim.cost_difference * gaps > 0

    def audit(self, one: Configuration, cost: str = GAP) -> Audit:
        """The audit of a configuration."""
        if not self.study.has(one.dataset, one.attribute):
            raise NotThere(f"the study has no {one.name}")
        if cost != GAP and cost not in _costs(self.study, one):
            raise NotThere(f"our release of {one.name} carries no {cost.replace('_', ' ')}")
        return self.study.audit(one.dataset, one.attribute, cost=cost)

    def budget(self, one: Configuration, epsilon: float, cost: str = GAP) -> BudgetResult:
        """One budget of it."""
        for budget in self.audit(one, cost).budgets:
            if budget.budget == epsilon:
                return budget
        name = budget_name(None if epsilon == NO_DP else epsilon)
        raise NotThere(f"our release of {one.name} has no models at {name}")

    def group(self, one: Configuration, epsilon: float, group: int, cost: str = GAP) -> GroupResult:
        """One group at a budget."""
        return self.budget(one, epsilon, cost).groups[one.groups[group]]

    def pair(self, one: Configuration, epsilon: float, cost: str = GAP) -> PairResult:
        """The two groups at a budget."""
        return self.budget(one, epsilon, cost).pairs[0]

    def panel(self, one: Configuration, epsilon: float) -> Panel:
        """All models of a budget as arrays."""
        self.budget(one, epsilon)
        return self.study.panel(one.dataset, one.attribute, epsilon)

    def floor_row(self, one: Configuration, epsilon: float, floor: float) -> FloorRow:
        """The disparity at a floor of the grid."""
        for row in self.pair(one, epsilon).floors:
            if row.floor == floor:
                return row
        raise NotThere(f"floor {floor:g} is not in the audit's grid")


def _costs(study: Study, one: Configuration) -> set[str]:
    release = study.release(one.dataset, one.attribute)
    pooled = {row.proxy for row in release.pooled_exposure}
    return pooled | {name for cell in release.runs[0].groups.values() for name in cell.exposure}


@cache
def _index() -> dict[tuple[str, str, float, str], list[Cell]]:
    """The printed cells by what most questions ask for."""
    found: dict[tuple[str, str, float, str], list[Cell]] = {}
    for cell in published_cells():
        key = (cell.dataset, cell.attribute, cell.epsilon, cell.quantity)
        found.setdefault(key, []).append(cell)
    return found


def _cells(one: Configuration, epsilon: float, quantity: str, **wanted: Any) -> list[Cell]:
    near = _index().get((one.dataset, one.attribute, epsilon, quantity), [])
    return [cell for cell in near if all(getattr(cell, k) == v for k, v in wanted.items())]


def _cell(one: Configuration, epsilon: float, quantity: str, **wanted: Any) -> Cell:
    found = _cells(one, epsilon, quantity, **wanted)
    if not found:
        name = budget_name(None if epsilon == NO_DP else epsilon)
        raise NotThere(f"{quantity.replace('_', ' ')} of {one.name} at {name} is not printed")
    return found[0]


def _main(one: Configuration, epsilon: float, quantity: str, **wanted: Any) -> Cell:
    return _cell(one, epsilon, quantity, table=one.table, **wanted)


def _disparity(one: Configuration, epsilon: float, floor: float) -> Cell | TextFigure:
    """A cell, or a figure of the text, that has the mean disparity at a floor."""
    if floor == DEFAULT_FLOOR:
        return _main(one, epsilon, "pcer_disparity")
    for figure in text_figures(quantity="pcer_disparity", floor=floor, over="each"):
        if (figure.dataset, figure.attribute) == (one.dataset, one.attribute) and (
            figure.budgets == (epsilon,)
        ):
            return figure
    return _cell(one, epsilon, "pcer_disparity", floor=floor)


def _there(value: Value | None, what: str, one: Configuration) -> Value:
    if value is None:
        raise NotThere(f"{what} of {one.name} is not there")
    return value
