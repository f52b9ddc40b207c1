"""What did the paper print, and how far may a printed number err?

The view of the paper that claims are put to; made by ``ledger``, beside a study. To add
a question: a method of ``View`` (views.py), answered here.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.statistics import SIGNIFICANCE, holm
from pcer_studies.claims.noise import PrintedGap, difference_p, published_gaps
from pcer_studies.claims.views import (
    COUNTED,
    View,
    budget_in_error,
    known,
    normal_draws,
)
from pcer_studies.numbers import error_of_count, error_of_interval, our_number
from pcer_studies.protocol import DEFAULT_FLOOR, SEEDS, Configuration
from pcer_studies.published import (
    FigureKey,
    NotThere,
    PrintedFigure,
    figures_at,
    key_at,
)
from pcer_studies.results import Study

FULL_PRECISION = ("tab:mia-full", "tab:mia-full-b")
"""Tables that repeat gaps and disparities, the disparities with a digit more."""

_GapKey = tuple[Configuration | None, float, str | None]


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
        self._gaps: dict[_GapKey, PrintedGap] = {}
        for gap in gaps:
            self._gaps[gap.configuration, gap.epsilon, gap.group] = gap
        self._difference_p = self._adjusted_difference_p()

    def _adjusted_difference_p(self) -> dict[tuple[Configuration, float], float]:
        """How surely gaps differ, by setting with both of them; Holm over settings."""
        settings = dict.fromkeys(
            (gap.configuration, gap.epsilon) for gap in self._gaps.values()
        )
        p = {}
        for configuration, epsilon in settings:
            first, second = (
                self._gaps.get((configuration, epsilon, name))
                for name in configuration.groups
            )
            if first is not None and second is not None:
                p[configuration, epsilon] = difference_p(first, second)
        adjusted = holm(np.array([*p.values()])).tolist()
        return dict(zip(p, adjusted, strict=True))

    @classmethod
    def beside(cls, study: Study) -> Paper:
        """The paper's figures, their noise levels by the study's group sizes."""
        return cls(published_gaps(study), study)

    def drawn(self, key: FigureKey) -> FloatArray:
        """As printed, then normal draws with its error."""
        if key not in self._drawn:
            figure = self.printed_in_full(key)
            value = known(figure.value, "the number", key.configuration)
            stream = f"{key.quantity}|{_key_words(key)}"
            self._drawn[key] = normal_draws(value, self._error(figure), stream)
        return self._drawn[key]

    def printed_in_full(self, key: FigureKey) -> PrintedFigure:
        """The first place that prints it, with the first error that a place prints."""
        first = self.number(key)
        for place in figures_at(key):
            if place.std is not None or place.ci is not None:
                return replace(first, std=place.std, ci=place.ci)
        return first

    def spread(
        self,
        configuration: Configuration,
        epsilon: float,
        quantity: str = "pcer_disparity",
        floor: float = DEFAULT_FLOOR,
    ) -> FloatArray:
        """As printed.

        A deviation over n seeds errs by about one part in sqrt(2 (n - 1)).
        """
        key = key_at(configuration, epsilon, quantity, floor=floor)
        figure = self.printed_in_full(key)
        std = known(figure.std, "a deviation over seeds", configuration)
        error = std / math.sqrt(2 * (self.n_seeds - 1))
        return normal_draws(std, error, f"std|{_key_words(key)}")

    def interval(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> tuple[float, float]:
        """As printed."""
        key = key_at(configuration, epsilon, "pcer_disparity", floor=floor)
        return known(self.printed_in_full(key).ci, "an interval", configuration)

    def _error(self, figure: PrintedFigure) -> float:
        """Of sampling and of rounding, which is uniform within half a digit."""
        rounding = figure.half_digit / math.sqrt(3)
        return math.hypot(self._sampling_error(figure), rounding)

    def _sampling_error(self, figure: PrintedFigure) -> float:
        key = figure.key
        if figure.ci is not None:
            return error_of_interval(figure.ci)
        if figure.std is not None:
            return figure.std / math.sqrt(self.n_seeds)
        if key.quantity in COUNTED and figure.value is not None:
            return error_of_count(figure.value, self.n_seeds)
        if key.quantity == "overfitting_gap":
            gap = self._gaps.get((key.configuration, key.budgets[0], key.group))
            if gap is not None:
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
        """As printed: in the configuration's own table, else elsewhere in the paper."""
        figures = figures_at(key)
        if figures:
            return figures[0]
        name = "the study" if key.configuration is None else key.configuration.name
        what = key.quantity.replace("_", " ")
        budget = budget_in_error(key.budgets[0])
        raise NotThere(f"{what} of {name} at {budget} is not printed")

    def n_negative(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """All seeds that are not printed as positive: the paper mentions no ties."""
        return np.asarray(self.n_seeds - self.n_positive(configuration, epsilon, floor))

    def gap_disparity(self, configuration: Configuration, epsilon: float) -> FloatArray:
        """As printed in Tables S5 and S6, with a digit more."""
        draws = self.disparity(configuration, epsilon)
        for figure in figures_at(key_at(configuration, epsilon, "pcer_disparity")):
            if figure.name in FULL_PRECISION:
                value = known(figure.value, "the disparity", configuration)
                return np.asarray(draws + (value - draws[0]))
        raise NotThere(f"Tables S5 and S6 have no disparity of {configuration.name}")

    def noise_level(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> float:
        """By group sizes."""
        return self._gap(configuration, epsilon, group).noise_level

    def stands_out(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> bool:
        """By the test of ``published_gaps``: Holm over all printed gaps."""
        return self._gap(configuration, epsilon, group).stands_out

    def disparity_is_evidence(
        self, configuration: Configuration, epsilon: float
    ) -> bool:
        """Whether the gap of the group with the lower ratio stands out."""
        lower = 1 if self.disparity(configuration, epsilon)[0] > 0 else 0
        return self.stands_out(configuration, epsilon, lower)

    def exposures_differ(self, configuration: Configuration, epsilon: float) -> bool:
        """Each group's noise level taken off; Holm over all settings."""
        for group in (0, 1):
            self._gap(configuration, epsilon, group)
        return self._difference_p[configuration, epsilon] <= SIGNIFICANCE

    def _gap(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> PrintedGap:
        try:
            return self._gaps[configuration, epsilon, configuration.groups[group]]
        except KeyError:
            raise NotThere(
                f"the study has no group sizes of {configuration.name}"
            ) from None


def _key_words(key: FigureKey) -> str:
    """A key as text, without its quantity: it names a stream of draws."""
    name = "" if key.configuration is None else key.configuration.name
    words = (name, *map(str, key.budgets), str(key.group), str(key.floor), key.over)
    return "|".join(words)
