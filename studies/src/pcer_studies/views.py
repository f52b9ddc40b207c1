"""Two views with one set of questions: what the paper printed, and what our run measured.

A claim is a question to a view, so that the same code asks whether it follows from the paper's
own figures and whether it holds in our run. What a view cannot answer raises ``NotThere``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

import numpy as np

from pcer.auditing import Audit, BudgetResult, GroupResult, PairResult, budget_name
from pcer.release import Panel
from pcer.statistics import SIGNIFICANCE, holm
from pcer_studies.noise import PrintedGap, difference_p, published_gaps
from pcer_studies.numbers import OurNumber, our_number
from pcer_studies.protocol import DEFAULT_FLOOR, NO_DP, SEEDS, Configuration
from pcer_studies.published import FigureKey, NotThere, PrintedFigure, figures_at, key_at
from pcer_studies.results import AUC, GAP, Study
from pcer_studies.seeds import CHANCE

FULL_PRECISION = ("tab:mia-full", "tab:mia-full-b")
"""Tables that repeat gaps and disparities, the disparities with a digit more."""
ATTACKED = ("attack_auc", "pcer_disparity_auc")
"""Quantities whose cost is the attack's advantage."""
NO_ROUNDING = 12
"""Decimals within which a difference of two decimals is theirs, not the machine's."""

Known = TypeVar("Known")


class View(ABC):
    """What a claim can ask. Groups are counted 0 and 1; a disparity is of group 0 minus 1."""

    n_seeds: int

    @abstractmethod
    def number(self, key: FigureKey) -> PrintedFigure | OurNumber:
        """What the view has under a key; NotThere where it has nothing."""

    def accuracy(self, one: Configuration, epsilon: float) -> float:
        """Mean test accuracy."""
        return self._mean(one, epsilon, "accuracy")

    def parity(self, one: Configuration, epsilon: float) -> float:
        """Mean demographic parity gap."""
        return self._mean(one, epsilon, "demographic_parity_gap")

    def parity_std(self, one: Configuration, epsilon: float) -> float:
        """Its standard deviation over seeds."""
        return self._std(one, epsilon, "demographic_parity_gap")

    def odds(self, one: Configuration, epsilon: float) -> float:
        """Mean equalized odds gap."""
        return self._mean(one, epsilon, "equalized_odds_gap")

    def rate(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean positive rate."""
        return self._mean(one, epsilon, "positive_rate", group=one.groups[group])

    def gap(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean overfitting gap."""
        return self._mean(one, epsilon, "overfitting_gap", group=one.groups[group])

    def disparity(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> float:
        """Mean PCER disparity, the gap being the cost."""
        return self._mean(one, epsilon, "pcer_disparity", floor=floor)

    def disparity_std(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> float:
        """Its standard deviation over seeds."""
        return self._std(one, epsilon, "pcer_disparity", floor=floor)

    def interval(self, one: Configuration, epsilon: float) -> tuple[float, float]:
        """Bootstrap interval of the mean disparity at the default floor."""
        found = self.number(key_at(one, epsilon, "pcer_disparity"))
        return known(found.ci, "an interval (one seed)", one)

    def n_positive(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """Seeds whose disparity is above 0."""
        return int(self._mean(one, epsilon, "n_positive_seeds", floor=floor))

    def n_negative(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """Seeds whose disparity is below 0."""
        return int(self._mean(one, epsilon, "n_negative_seeds", floor=floor))

    def advantage(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean AUC of the threshold attack, minus one half."""
        auc = self._mean(one, epsilon, "attack_auc", group=one.groups[group])
        return round(auc - CHANCE, NO_ROUNDING)

    def attack_disparity(self, one: Configuration, epsilon: float) -> float:
        """Mean PCER disparity, the attack's advantage being the cost."""
        return self._mean(one, epsilon, "pcer_disparity_auc")

    def gap_disparity(self, one: Configuration, epsilon: float) -> float:
        """Mean PCER disparity as it stands beside the attack's."""
        return self.disparity(one, epsilon)

    @abstractmethod
    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """The mean gap that no memorisation would give."""

    @abstractmethod
    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """Whether the group's gap can be told from the luck of the split."""

    @abstractmethod
    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """Whether the disparity, with its sign, is more than rates divided by split luck."""

    @abstractmethod
    def costs_differ(self, one: Configuration, epsilon: float) -> bool:
        """Whether the groups' costs differ beyond split luck, in the direction of the gaps."""

    def _mean(
        self,
        one: Configuration,
        epsilon: float,
        quantity: str,
        *,
        group: str | None = None,
        floor: float = DEFAULT_FLOOR,
    ) -> float:
        found = self.number(key_at(one, epsilon, quantity, group=group, floor=floor))
        return known(found.value, f"the {quantity.replace('_', ' ')}", one)

    def _std(
        self, one: Configuration, epsilon: float, quantity: str, *, floor: float = DEFAULT_FLOOR
    ) -> float:
        found = self.number(key_at(one, epsilon, quantity, floor=floor))
        return known(found.std, "a deviation (one seed)", one)


class Paper(View):
    """What the paper printed, with the noise level of its gaps."""

    n_seeds = len(SEEDS)

    def __init__(self, gaps: tuple[PrintedGap, ...]) -> None:
        self._gaps = {(gap.configuration, gap.epsilon, gap.group): gap for gap in gaps}
        settings = [
            (one, epsilon)
            for one, epsilon in dict.fromkeys((gap.configuration, gap.epsilon) for gap in gaps)
            if all((one, epsilon, name) in self._gaps for name in one.groups)
        ]
        p = [difference_p(self._gap(*at, 0), self._gap(*at, 1)) for at in settings]
        adjusted = holm(np.array(p)).tolist()
        self._difference_p = dict(zip(settings, adjusted, strict=True))

    @classmethod
    def beside(cls, study: Study) -> Paper:
        """The paper's figures, their noise levels by the study's group sizes."""
        return cls(published_gaps(study))

    def number(self, key: FigureKey) -> PrintedFigure:
        """As printed: in the configuration's own table, else in another, else in the text."""
        if found := figures_at(key):
            return found[0]
        name = "the study" if key.configuration is None else key.configuration.name
        what = key.quantity.replace("_", " ")
        raise NotThere(f"{what} of {name} at {_budget(key.budgets[0])} is not printed")

    def n_negative(self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR) -> int:
        """All seeds that are not printed as positive: the paper mentions no ties."""
        return self.n_seeds - self.n_positive(one, epsilon, floor)

    def gap_disparity(self, one: Configuration, epsilon: float) -> float:
        """As printed in Tables S5 and S6."""
        for figure in figures_at(key_at(one, epsilon, "pcer_disparity")):
            if figure.name in FULL_PRECISION:
                return known(figure.value, "the disparity", one)
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
        for group in (0, 1):
            self._gap(one, epsilon, group)
        return bool(self._difference_p[one, epsilon] <= SIGNIFICANCE)

    def _gap(self, one: Configuration, epsilon: float, group: int) -> PrintedGap:
        try:
            return self._gaps[one, epsilon, one.groups[group]]
        except KeyError:
            raise NotThere(f"the study has no group sizes of {one.name}") from None


class OurRun(View):
    """What our run measured, by the audit with the overfitting gap as cost."""

    def __init__(self, study: Study) -> None:
        self.study = study
        seeds = {len({run.seed for run in one.runs}) for one in study.releases.values()}
        self.n_seeds = max(seeds)

    def number(self, key: FigureKey) -> OurNumber:
        """Over the study's seeds."""
        if key.configuration is not None:
            for epsilon in key.budgets:
                self.budget(key.configuration, epsilon, AUC if key.quantity in ATTACKED else GAP)
        return our_number(self.study, key)

    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean of the gaps that splits like ours would give without memorisation."""
        picture = self.group(one, epsilon, group).null_gap
        return known(None if picture is None else picture.mean, "the noise level", one)

    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """Resolved by the audit."""
        return self.group(one, epsilon, group).resolved

    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """Shown by the audit, with the disparity's sign."""
        pair = self.pair(one, epsilon)
        lower = pair.groups[1 if self.disparity(one, epsilon) > 0 else 0]
        return pair.disparity_shown and pair.lower_ratio == lower

    def costs_differ(self, one: Configuration, epsilon: float) -> bool:
        """Equal costs are refuted by the audit, in the direction of the mean gaps."""
        claims = self.audit(one).comparisons[0].equal_gap_claims
        at_budget = (c for c in claims if c.epsilon == self.budget(one, epsilon).epsilon)
        claim = known(next(at_budget, None), "a test of equal costs", one)
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
        raise NotThere(f"our release of {one.name} has no models at {_budget(epsilon)}")

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

    def floored_share(self, one: Configuration, epsilon: float) -> float:
        """Share of seeds whose gaps are both below the default floor."""
        rows = {row.floor: row for row in self.pair(one, epsilon).floors}
        return known(rows[DEFAULT_FLOOR].floor_dominated_share, "the share below the floor", one)


def known(value: Known | None, what: str, one: Configuration) -> Known:
    """The value; NotThere where there is none."""
    if value is None:
        raise NotThere(f"{what} of {one.name} is not there")
    return value


def _costs(study: Study, one: Configuration) -> set[str]:
    release = study.release(one.dataset, one.attribute)
    pooled = {row.proxy for row in release.pooled_exposure}
    return pooled | {name for cell in release.runs[0].groups.values() for name in cell.exposure}


def _budget(epsilon: float) -> str:
    return budget_name(None if epsilon == NO_DP else epsilon)
