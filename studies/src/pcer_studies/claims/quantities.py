"""Which numbers are claims about, and in which settings of the study?

A ``ClaimNumber`` has a name, its draws in a view, and its print. The modules of claims
make numbers here, and ``rules`` turns them into answers. To add a number: a function
that returns ``number_at(...)``, or ``computed(...)`` if it is of several settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import decimals, signed
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import (
    Writer,
    budget_words,
    gap_words,
    rate_words,
    share_words,
)
from pcer_studies.numbers import INTERVAL_WIDTH
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    DEFAULT_FLOOR,
    NO_DP,
    Configuration,
    configuration,
)
from pcer_studies.published import NotThere, text_figure

COMPAS = configuration("compas", "race")
ADULT_SEX = configuration("adult", "sex")
ADULT_RACE = configuration("adult", "race")
ACS_RACE = configuration("acs", "race")
ACS_SEX = configuration("acs", "sex")
BIOS = configuration("bios", "gender")

PRIVATE = tuple(epsilon for epsilon in BUDGETS if epsilon != NO_DP)
FROM_HALF = (0.5, 1.0, 5.0, 10.0)
FROM_1 = (1.0, 5.0, 10.0)
STRONGEST = 0.1
"""The smallest budget, which the paper calls floor-dominated."""
INFORMATIVE = tuple(epsilon for epsilon in BUDGETS if epsilon != STRONGEST)
"""The budgets that the paper ranks by disparity: it leaves the strongest out."""
GROUPS = (0, 1)
"""Places of the two groups of a configuration."""


class StudySetting(NamedTuple):
    """A configuration at one budget."""

    configuration: Configuration
    epsilon: float


class StudyCell(NamedTuple):
    """One group of a setting."""

    configuration: Configuration
    epsilon: float
    group: int


def cells_of(
    configurations: Iterable[Configuration], budgets: Iterable[float]
) -> tuple[StudyCell, ...]:
    """Both groups of every one of these settings."""
    cells = product(configurations, budgets, GROUPS)
    return tuple(StudyCell(*cell) for cell in cells)


SETTINGS = tuple(StudySetting(*pair) for pair in product(CONFIGURATIONS, BUDGETS))
CELLS = cells_of(CONFIGURATIONS, BUDGETS)

Draws = Callable[[View], FloatArray]
"""What a view has for a number: (1 + draws,), first as it is, then on other splits."""


@dataclass(frozen=True, eq=False)
class ClaimNumber:
    """A number that a claim is about.

    Attributes:
        name: what it is called in print.
        draws: its value and its draws, asked of a view.
        write: how it is printed.
        about: the configurations it is from.
        interval: the 95 % interval that the tables have of it, asked of a view.
    """

    name: str
    draws: Draws
    write: Writer
    about: tuple[Configuration, ...]
    interval: Callable[[View], tuple[float, float]] | None = None

    def value(self, view: View) -> float:
        """The number as it is."""
        return float(self.draws(view)[0])

    def as_text(self, view: View) -> str:
        """Name and value."""
        return f"{self.name} {self.write(self.value(view))}"

    def as_text_with_interval(self, view: View) -> str:
        """Name, value and interval."""
        low, high = self.interval_ends(view)
        return f"{self.as_text(view)} [{self.write(low)}, {self.write(high)}]"

    def interval_ends(self, view: View) -> tuple[float, float]:
        """Its 95 % interval: that of the tables, else by its error."""
        if self.interval is not None:
            return self.interval(view)
        draws = self.draws(view)
        half_width = INTERVAL_WIDTH / 2 * float(draws[1:].std(ddof=1))
        return float(draws[0]) - half_width, float(draws[0]) + half_width

    def is_available(self, view: View) -> bool:
        """Whether a view has the number."""
        try:
            self.draws(view)
        except NotThere:
            return False
        return True


NumberPair = tuple[ClaimNumber, ClaimNumber]


def computed(
    name: str, draws: Draws, write: Writer, *about: Configuration
) -> ClaimNumber:
    """A number that is computed from others."""
    return ClaimNumber(name, draws, write, about)


def number_at(
    configuration: Configuration,
    epsilon: float,
    draws: Draws,
    write: Writer,
    suffix: str = "",
) -> ClaimNumber:
    """A number of one setting, named by it; the suffix says more."""
    name = f"{configuration.name}, {budget_words((epsilon,))}{suffix}"
    return ClaimNumber(name, draws, write, (configuration,))


def gap_of(configuration: Configuration, epsilon: float, group: int) -> ClaimNumber:
    """A group's mean gap."""
    return number_at(
        configuration,
        epsilon,
        lambda view: view.gap(configuration, epsilon, group),
        gap_words,
        f", {configuration.groups[group]}",
    )


def gap_difference(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """How far the gaps of the two groups are apart."""

    def draws(view: View) -> FloatArray:
        first = view.gap(configuration, epsilon, 0)
        second = view.gap(configuration, epsilon, 1)
        return size(first - second)

    return number_at(configuration, epsilon, draws, gap_words)


def disparity_of(
    configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
) -> ClaimNumber:
    """A mean disparity."""
    disparity = number_at(
        configuration,
        epsilon,
        lambda view: view.disparity(configuration, epsilon, floor),
        signed,
        "" if floor == DEFAULT_FLOOR else f", floor {floor:g}",
    )
    return replace(
        disparity, interval=lambda view: view.interval(configuration, epsilon, floor)
    )


def disparity_size(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """The size of a mean disparity."""
    return number_at(
        configuration,
        epsilon,
        lambda view: size(view.disparity(configuration, epsilon)),
        lambda value: decimals(value, 1),
    )


def size(draws: FloatArray) -> FloatArray:
    """A number without its sign.

    Draws keep theirs: folded at 0 their error would be too small.
    """
    return np.asarray(draws * np.sign(draws[0]))


def parity_of(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """A mean demographic parity gap."""
    return number_at(
        configuration,
        epsilon,
        lambda view: view.parity(configuration, epsilon),
        rate_words,
    )


def odds_of(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """A mean equalized odds gap."""
    return number_at(
        configuration,
        epsilon,
        lambda view: view.odds(configuration, epsilon),
        rate_words,
    )


def rate_of(configuration: Configuration, epsilon: float, group: int) -> ClaimNumber:
    """A group's mean positive rate."""
    return number_at(
        configuration,
        epsilon,
        lambda view: view.rate(configuration, epsilon, group),
        rate_words,
        f", {configuration.groups[group]}",
    )


def negative_share(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """Share of seeds below 0, minus one half.

    Half a seed nearer to it, since seeds are whole.
    """

    def draws(view: View) -> FloatArray:
        excess = view.n_negative(configuration, epsilon) - view.n_seeds / 2
        return np.asarray((excess - 0.5 * np.sign(excess[0])) / view.n_seeds)

    return number_at(configuration, epsilon, draws, share_words, ", negative seeds − ½")


def extreme(numbers: Sequence[ClaimNumber], end: str, what: str) -> ClaimNumber:
    """The smallest (``low``) or largest (``high``) of several."""
    choose = np.min if end == "low" else np.max
    word = "smallest" if end == "low" else "largest"

    def draws(view: View) -> FloatArray:
        return np.asarray(choose([number.draws(view) for number in numbers], axis=0))

    return computed(
        f"{word} {what}", draws, numbers[0].write, *configurations_of(numbers)
    )


def configurations_of(numbers: Iterable[ClaimNumber]) -> tuple[Configuration, ...]:
    """The configurations that numbers are from, each once."""
    about = chain.from_iterable(number.about for number in numbers)
    return tuple(dict.fromkeys(about))


# The same number at several budgets.


def gaps(configuration: Configuration, budgets: Iterable[float]) -> list[ClaimNumber]:
    """Both groups' gaps at these budgets."""
    return [gap_of(*cell) for cell in cells_of([configuration], budgets)]


def disparities(
    configuration: Configuration,
    budgets: Iterable[float],
    floor: float = DEFAULT_FLOOR,
) -> list[ClaimNumber]:
    """The disparities at these budgets."""
    return [disparity_of(configuration, epsilon, floor) for epsilon in budgets]


def disparity_sizes(
    configuration: Configuration, budgets: Iterable[float]
) -> list[ClaimNumber]:
    """The sizes of the disparities at these budgets."""
    return [disparity_size(configuration, epsilon) for epsilon in budgets]


def parities(
    configuration: Configuration, budgets: Iterable[float]
) -> list[ClaimNumber]:
    """The demographic parity gaps at these budgets."""
    return [parity_of(configuration, epsilon) for epsilon in budgets]


def odds_gaps(
    configuration: Configuration, budgets: Iterable[float]
) -> list[ClaimNumber]:
    """The equalized odds gaps at these budgets."""
    return [odds_of(configuration, epsilon) for epsilon in budgets]


# Numbers of the paper's text, and numbers of many settings.


def printed(name: str) -> float:
    """A number of the paper's text, by its name.

    >>> printed("sign_agreements")
    32.0
    """
    value = text_figure(name).value
    if value is None:
        raise NotThere(f"{name} is not a number")
    return value


def half_digit(name: str) -> float:
    """How far rounding may have moved a number of the paper's text.

    >>> half_digit("advantage_mean")
    5e-05
    """
    return text_figure(name).half_digit


def are_available(numbers: Iterable[ClaimNumber], view: View) -> bool:
    """Whether a view has all of the numbers."""
    return all(number.is_available(view) for number in numbers)


def correlation(points: Sequence[NumberPair], view: View) -> FloatArray:
    """Pearson's r of the points that a view has, draw by draw.

    r = Σ dx dy / √(Σ dx² · Σ dy²), where dx and dy (point, 1 + draws) are the distances
    from the mean over points.

    Returns:
        (1 + draws,)

    Raises:
        NotThere: fewer than three points, or one side does not vary.
    """
    available = [pair for pair in points if are_available(pair, view)]
    x = np.array([first.draws(view) for first, _ in available])
    y = np.array([second.draws(view) for _, second in available])
    if len(available) < 3 or not (np.ptp(x[:, 0]) and np.ptp(y[:, 0])):
        raise NotThere("a correlation needs three points, and variation on both sides")
    dx = x - x.mean(axis=0)
    dy = y - y.mean(axis=0)
    return np.asarray((dx * dy).sum(0) / np.sqrt((dx * dx).sum(0) * (dy * dy).sum(0)))
