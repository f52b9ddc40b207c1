"""Two views with one set of questions: what the paper printed, and what our run measured.

A claim is a question to a view, so that the same code asks whether it follows from the
paper's own figures and whether it holds in our run. What a view cannot answer raises
``NotThere``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar
from zlib import crc32

import numpy as np

from pcer.auditing.record import Audit, BudgetResult, GroupResult, PairResult
from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.paper.comparisons import comparisons
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.statistics import SIGNIFICANCE, holm
from pcer.wording import budget_name
from pcer_studies.claims.noise import PrintedGap, difference_p, published_gaps
from pcer_studies.numbers import (
    CHANCE,
    error_of_count,
    error_of_interval,
    our_number,
    study_seeds,
)
from pcer_studies.protocol import DEFAULT_FLOOR, NO_DP, SEEDS, Configuration
from pcer_studies.published import (
    FigureKey,
    NotThere,
    PrintedFigure,
    figures_at,
    key_at,
)
from pcer_studies.results import GAP, Study

FULL_PRECISION = ("tab:mia-full", "tab:mia-full-b")
"""Tables that repeat gaps and disparities, the disparities with a digit more."""
NO_ROUNDING = 12
"""Decimals within which a difference of two decimals is theirs, not the machine's."""

COUNTED = ("n_positive_seeds", "n_negative_seeds")
N_DRAWS = 1_000
STREAM = 17
"""First word of the seed of every stream here."""
LEAST_SEEDS = 2

Known = TypeVar("Known")


class View(ABC):
    """What a claim can ask.

    Groups are counted 0 and 1; a disparity is of group 0 minus 1.

    Every number is an array (1 + draws,): first as it is, then as it would have been on
    other splits, so that whatever is computed from numbers has an error, too.
    """

    n_seeds: int

    @abstractmethod
    def drawn(self, key: FigureKey) -> FloatArray:
        """(1 + draws,) what the view has under a key; NotThere where it has nothing."""

    @abstractmethod
    def spread(
        self,
        one: Configuration,
        epsilon: float,
        quantity: str = "pcer_disparity",
        floor: float = DEFAULT_FLOOR,
    ) -> FloatArray:
        """(1 + draws,) standard deviation over seeds."""

    @abstractmethod
    def interval(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> tuple[float, float]:
        """95 % interval of the mean disparity, as the tables have it."""

    def accuracy(self, one: Configuration, epsilon: float) -> FloatArray:
        """Mean test accuracy."""
        return self.drawn(key_at(one, epsilon, "accuracy"))

    def parity(self, one: Configuration, epsilon: float) -> FloatArray:
        """Mean demographic parity gap."""
        return self.drawn(key_at(one, epsilon, "demographic_parity_gap"))

    def odds(self, one: Configuration, epsilon: float) -> FloatArray:
        """Mean equalized odds gap."""
        return self.drawn(key_at(one, epsilon, "equalized_odds_gap"))

    def rate(self, one: Configuration, epsilon: float, group: int) -> FloatArray:
        """Mean positive rate."""
        return self.drawn(
            key_at(one, epsilon, "positive_rate", group=one.groups[group])
        )

    def gap(self, one: Configuration, epsilon: float, group: int) -> FloatArray:
        """Mean overfitting gap."""
        return self.drawn(
            key_at(one, epsilon, "overfitting_gap", group=one.groups[group])
        )

    def disparity(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """Mean PCER disparity, the gap being the cost."""
        return self.drawn(key_at(one, epsilon, "pcer_disparity", floor=floor))

    def n_positive(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """Seeds whose disparity is above 0."""
        return self.drawn(key_at(one, epsilon, "n_positive_seeds", floor=floor))

    def n_negative(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """Seeds whose disparity is below 0."""
        return self.drawn(key_at(one, epsilon, "n_negative_seeds", floor=floor))

    def advantage(self, one: Configuration, epsilon: float, group: int) -> FloatArray:
        """Mean AUC of the threshold attack, minus one half."""
        auc = self.drawn(key_at(one, epsilon, "attack_auc", group=one.groups[group]))
        return np.asarray(np.round(auc - CHANCE, NO_ROUNDING))

    def attack_disparity(self, one: Configuration, epsilon: float) -> FloatArray:
        """Mean PCER disparity, the attack's advantage being the cost."""
        return self.drawn(key_at(one, epsilon, "pcer_disparity_auc"))

    def gap_disparity(self, one: Configuration, epsilon: float) -> FloatArray:
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


class Paper(View):
    """What the paper printed, with the noise level of its gaps.

    A printed number errs by its printed interval or deviation, and by half its last
    digit. Where neither is printed, the error of the same number in our run stands for
    it.
    """

    n_seeds = len(SEEDS)

    def __init__(
        self, gaps: tuple[PrintedGap, ...], study: Study | None = None
    ) -> None:
        self._study = study
        self._drawn: dict[FigureKey, FloatArray] = {}
        self._gaps = {(gap.configuration, gap.epsilon, gap.group): gap for gap in gaps}
        settings = [
            (one, epsilon)
            for one, epsilon in dict.fromkeys(
                (gap.configuration, gap.epsilon) for gap in gaps
            )
            if all((one, epsilon, name) in self._gaps for name in one.groups)
        ]
        p = [difference_p(self._gap(*at, 0), self._gap(*at, 1)) for at in settings]
        adjusted = holm(np.array(p)).tolist()
        self._difference_p = dict(zip(settings, adjusted, strict=True))

    @classmethod
    def beside(cls, study: Study) -> Paper:
        """The paper's figures, their noise levels by the study's group sizes."""
        return cls(published_gaps(study), study)

    def drawn(self, key: FigureKey) -> FloatArray:
        """As printed, then normal draws with its error."""
        if key not in self._drawn:
            figure = self.printed_in_full(key)
            value = known(figure.value, "the number", key.configuration)
            named = (key.quantity, *_words(key))
            self._drawn[key] = self._spread_out(value, self._error(figure), named)
        return self._drawn[key]

    def printed_in_full(self, key: FigureKey) -> PrintedFigure:
        """The first place that prints it, with an error of another place where it has none."""
        places = figures_at(key) or (self.number(key),)
        told = next(
            (p for p in places if p.std is not None or p.ci is not None), places[0]
        )
        return replace(places[0], std=told.std, ci=told.ci)

    def spread(
        self,
        one: Configuration,
        epsilon: float,
        quantity: str = "pcer_disparity",
        floor: float = DEFAULT_FLOOR,
    ) -> FloatArray:
        """As printed; a deviation over n seeds errs by about 1 part in the root of 2(n - 1)."""
        key = key_at(one, epsilon, quantity, floor=floor)
        std = known(self.printed_in_full(key).std, "a deviation over seeds", one)
        return self._spread_out(
            std, std / math.sqrt(2 * (self.n_seeds - 1)), ("std", *_words(key))
        )

    def interval(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> tuple[float, float]:
        """As printed."""
        key = key_at(one, epsilon, "pcer_disparity", floor=floor)
        return known(self.printed_in_full(key).ci, "an interval", one)

    def _spread_out(
        self, value: float, error: float, name: tuple[str, ...]
    ) -> FloatArray:
        rng = np.random.default_rng([STREAM, crc32("|".join(name).encode())])
        return np.concatenate([[value], value + error * rng.standard_normal(N_DRAWS)])

    def _error(self, figure: PrintedFigure) -> float:
        return math.hypot(
            self._sampling_error(figure), figure.half_digit / math.sqrt(3)
        )

    def _sampling_error(self, figure: PrintedFigure) -> float:
        key = figure.key
        if figure.ci is not None:
            return error_of_interval(figure.ci)
        if figure.std is not None:
            return figure.std / math.sqrt(self.n_seeds)
        if key.quantity in COUNTED and figure.value is not None:
            return error_of_count(figure.value, self.n_seeds)
        if key.quantity == "overfitting_gap":
            for gap in self._gaps.values():
                if (gap.configuration, gap.epsilon, gap.group) == _place(key):
                    return gap.error
        return self._our_error(key)

    def _our_error(self, key: FigureKey) -> float:
        """Of the same number in our run; 0 where that has none either."""
        if self._study is None:
            return 0.0
        with suppress(InputError):
            return our_number(self._study, key).standard_error or 0.0
        return 0.0

    def number(self, key: FigureKey) -> PrintedFigure:
        """As printed: in the configuration's own table, else in another, else in the text."""
        if found := figures_at(key):
            return found[0]
        name = "the study" if key.configuration is None else key.configuration.name
        what = key.quantity.replace("_", " ")
        raise NotThere(f"{what} of {name} at {_budget(key.budgets[0])} is not printed")

    def n_negative(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """All seeds that are not printed as positive: the paper mentions no ties."""
        return np.asarray(self.n_seeds - self.n_positive(one, epsilon, floor))

    def gap_disparity(self, one: Configuration, epsilon: float) -> FloatArray:
        """As printed in Tables S5 and S6, with a digit more."""
        whole = self.disparity(one, epsilon)
        for figure in figures_at(key_at(one, epsilon, "pcer_disparity")):
            if figure.name in FULL_PRECISION:
                return np.asarray(
                    whole + (known(figure.value, "the disparity", one) - whole[0])
                )
        raise NotThere(f"Tables S5 and S6 have no disparity of {one.name}")

    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """By group sizes."""
        return self._gap(one, epsilon, group).noise_level

    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """By the test of ``published_gaps``: Holm over all printed gaps."""
        return self._gap(one, epsilon, group).stands_out

    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """What printed figures can say: the gap of the group with the lower ratio stands out."""
        lower = 1 if self.disparity(one, epsilon)[0] > 0 else 0
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

    def drawn(self, key: FigureKey) -> FloatArray:
        """Mean over the seeds, then over seeds drawn with replacement."""
        return self.study.keep(("drawn", key), lambda: self._drawn(key))

    def _drawn(self, key: FigureKey) -> FloatArray:
        if key.quantity in COUNTED:
            sign = 1.0 if key.quantity == "n_positive_seeds" else -1.0
            found = sign * self.of_seeds(replace(key, quantity="pcer_disparity")) > 0
            return self._resampled(key, found.astype(np.float64)) * len(found)
        return self._resampled(key, self.of_seeds(key))

    def spread(
        self,
        one: Configuration,
        epsilon: float,
        quantity: str = "pcer_disparity",
        floor: float = DEFAULT_FLOOR,
    ) -> FloatArray:
        """Over the same draws of seeds."""
        key = key_at(one, epsilon, quantity, floor=floor)
        values = self.of_seeds(key)
        square = (
            self._resampled(key, np.square(values)) - self._resampled(key, values) ** 2
        )
        return np.asarray(
            np.sqrt(np.maximum(square, 0) * len(values) / (len(values) - 1))
        )

    def interval(
        self, one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> tuple[float, float]:
        """By the audit's bootstrap over seeds."""
        self.budget(one, epsilon)
        key = key_at(one, epsilon, "pcer_disparity", floor=floor)
        return known(our_number(self.study, key).ci, "an interval", one)

    def of_seeds(self, key: FigureKey) -> FloatArray:
        """(seed,) what single models give."""
        one = known(key.configuration, "a configuration", None)
        self.budget(one, key.budgets[0])
        floor = DEFAULT_FLOOR if key.floor is None else key.floor
        try:
            values = study_seeds(
                self.study,
                one,
                key.budgets[0],
                key.quantity,
                group=key.group,
                floor=floor,
            )
        except InputError as error:
            raise NotThere(str(error)) from None
        if len(values) < LEAST_SEEDS:
            raise NotThere(f"an error (one seed) of {one.name} is not there")
        if not np.isfinite(values).all():
            raise NotThere(
                f"the {key.quantity.replace('_', ' ')} of {one.name} is not there"
            )
        return values

    def _resampled(self, key: FigureKey, values: FloatArray) -> FloatArray:
        one = known(key.configuration, "a configuration", None)
        weights = self.study.keep(
            ("weights", one.dataset, len(values)),
            lambda: _weights(one.dataset, len(values)),
        )
        return np.concatenate([[values.mean()], weights @ values])

    def noise_level(self, one: Configuration, epsilon: float, group: int) -> float:
        """Mean of the gaps that splits like ours would give without memorisation."""
        picture = self.group(one, epsilon, group).null_gap
        return known(None if picture is None else picture.mean, "the noise level", one)

    def base_rate(self, one: Configuration, epsilon: float, group: int) -> FloatArray:
        """(1 + draws,) share of positive labels among a group's test records."""
        panel = self.panel(one, epsilon)
        if panel.test is None:
            raise NotThere(f"our release of {one.title} has no labels")
        shares = np.asarray(
            (panel.test.tp + panel.test.fn) / panel.n_test, dtype=np.float64
        )
        return self._resampled(key_at(one, epsilon, "accuracy"), shares[:, group])

    def steadiness(
        self, one: Configuration, epsilon: float, group: int, quantity: str
    ) -> FloatArray:
        """(1 + draws,) a group's mean cost over its deviation over seeds."""
        key = key_at(one, epsilon, quantity, group=one.groups[group])
        values = self.of_seeds(key)
        mean = self._resampled(key, values)
        square = self._resampled(key, values**2) - mean**2
        return np.asarray(mean / np.sqrt(np.maximum(square, 1e-18)))

    def release(self, one: Configuration) -> Release:
        """The release of a configuration."""
        if not self.study.has(one.dataset, one.attribute):
            raise NotThere(f"the study has no {one.name}")
        return self.study.release(one.dataset, one.attribute)

    def measured(
        self, one: Configuration, epsilon: float, group: int, cost: str
    ) -> FloatArray:
        """(1 + draws,) what the audit makes of a group's cost, with its error."""
        found = self.group(one, epsilon, group, cost).cost
        value = known(found.value, f"the {cost.replace('_', ' ')}", one)
        error = known(
            found.standard_error, f"the error of {cost.replace('_', ' ')}", one
        )
        name = f"{cost}|{one.name}|{epsilon}|{group}"
        rng = np.random.default_rng([STREAM, crc32(name.encode())])
        return np.concatenate([[value], value + error * rng.standard_normal(N_DRAWS)])

    def stands_out(self, one: Configuration, epsilon: float, group: int) -> bool:
        """Resolved by the audit."""
        return self.group(one, epsilon, group).resolved

    def disparity_is_evidence(self, one: Configuration, epsilon: float) -> bool:
        """The audit finds that the ratio differs, with the disparity's sign."""
        pair = self.pair(one, epsilon)
        lower = pair.groups[1 if self.disparity(one, epsilon)[0] > 0 else 0]
        return pair.ratio.answer == "differs" and pair.ratio.group == lower

    def costs_differ(self, one: Configuration, epsilon: float) -> bool:
        """Equal costs are refuted by the audit, in the direction of the mean gaps."""
        claims = comparisons(self.audit(one))[0].equal_gap_claims
        at_budget = (
            c for c in claims if c.epsilon == self.budget(one, epsilon).epsilon
        )
        claim = known(next(at_budget, None), "a test of equal costs", one)
        gaps = float((self.gap(one, epsilon, 0) - self.gap(one, epsilon, 1))[0])
        return claim.refuted and claim.cost_difference * gaps > 0

    def audit(self, one: Configuration, cost: str = GAP) -> Audit:
        """The audit of a configuration."""
        if not self.study.has(one.dataset, one.attribute):
            raise NotThere(f"the study has no {one.name}")
        if cost != GAP and cost not in _costs(self.study, one):
            raise NotThere(
                f"our release of {one.name} carries no {cost.replace('_', ' ')}"
            )
        return self.study.audit(one.dataset, one.attribute, cost=cost)

    def carries(self, one: Configuration, cost: str) -> bool:
        """Whether the release of a configuration carries this cost."""
        return self.study.has(one.dataset, one.attribute) and cost in _costs(
            self.study, one
        )

    def budget(
        self, one: Configuration, epsilon: float, cost: str = GAP
    ) -> BudgetResult:
        """One budget of it."""
        for budget in self.audit(one, cost).budgets:
            if budget.budget == epsilon:
                return budget
        raise NotThere(f"our release of {one.name} has no models at {_budget(epsilon)}")

    def group(
        self, one: Configuration, epsilon: float, group: int, cost: str = GAP
    ) -> GroupResult:
        """One group at a budget."""
        return self.budget(one, epsilon, cost).groups[one.groups[group]]

    def pair(self, one: Configuration, epsilon: float, cost: str = GAP) -> PairResult:
        """The two groups at a budget."""
        return self.budget(one, epsilon, cost).pairs[0]

    def panel(self, one: Configuration, epsilon: float) -> Panel:
        """All models of a budget as arrays."""
        self.budget(one, epsilon)
        return self.study.panel(one.dataset, one.attribute, epsilon)


def known(value: Known | None, what: str, one: Configuration | None) -> Known:
    """The value; NotThere where there is none."""
    if value is None:
        raise NotThere(f"{what} of {one.name if one else 'the study'} is not there")
    return value


def _weights(dataset: str, n: int) -> FloatArray:
    """(draws, seed) shares of seeds drawn with replacement; attributes and budgets share them."""
    rng = np.random.default_rng([STREAM, crc32(dataset.encode())])
    return np.asarray(rng.multinomial(n, np.full(n, 1 / n), size=N_DRAWS) / n)


def _place(key: FigureKey) -> tuple[Configuration | None, float, str | None]:
    return key.configuration, key.budgets[0], key.group


def _words(key: FigureKey) -> tuple[str, ...]:
    one = "" if key.configuration is None else key.configuration.name
    return one, *map(str, key.budgets), str(key.group), str(key.floor), key.over


def _costs(study: Study, one: Configuration) -> set[str]:
    release = study.release(one.dataset, one.attribute)
    pooled = {row.proxy for row in release.pooled_exposure}
    return pooled | {
        name for cell in release.runs[0].groups.values() for name in cell.exposure
    }


def _budget(epsilon: float) -> str:
    return budget_name(None if epsilon == NO_DP else epsilon)


def exactly(value: float) -> FloatArray:
    """(1 + draws,) a number that is read off the page."""
    return np.full(1 + N_DRAWS, value)
