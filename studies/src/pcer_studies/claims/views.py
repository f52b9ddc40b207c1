"""What can a claim ask the paper's figures (``Paper``) and our run (``OurRun``)?

Both are a ``View`` and answer the same questions, so that the same code asks whether a
claim follows from the paper's own figures and whether it holds in our run. What a view
cannot answer raises ``NotThere``. Called by all modules of claims. To add a question
that a printed or measured number answers: a method of ``View``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar
from zlib import crc32

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import budget_name
from pcer_studies.numbers import CHANCE
from pcer_studies.protocol import DEFAULT_FLOOR, NO_DP, Configuration
from pcer_studies.published import FigureKey, NotThere, key_at

NO_ROUNDING = 12
"""Decimals within which a difference of two decimals is theirs, not the machine's."""
COUNTED = ("n_positive_seeds", "n_negative_seeds")
N_DRAWS = 1_000
STREAM = 17
"""First word of the seed of every stream here."""

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
        configuration: Configuration,
        epsilon: float,
        quantity: str = "pcer_disparity",
        floor: float = DEFAULT_FLOOR,
    ) -> FloatArray:
        """(1 + draws,) standard deviation over seeds."""

    @abstractmethod
    def interval(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> tuple[float, float]:
        """95 % interval of the mean disparity, as the tables have it."""

    def accuracy(self, configuration: Configuration, epsilon: float) -> FloatArray:
        """Mean test accuracy."""
        return self.drawn(key_at(configuration, epsilon, "accuracy"))

    def parity(self, configuration: Configuration, epsilon: float) -> FloatArray:
        """Mean demographic parity gap."""
        return self.drawn(key_at(configuration, epsilon, "demographic_parity_gap"))

    def odds(self, configuration: Configuration, epsilon: float) -> FloatArray:
        """Mean equalized odds gap."""
        return self.drawn(key_at(configuration, epsilon, "equalized_odds_gap"))

    def rate(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> FloatArray:
        """Mean positive rate."""
        return self.drawn(
            key_at(
                configuration,
                epsilon,
                "positive_rate",
                group=configuration.groups[group],
            )
        )

    def gap(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> FloatArray:
        """Mean overfitting gap."""
        return self.drawn(
            key_at(
                configuration,
                epsilon,
                "overfitting_gap",
                group=configuration.groups[group],
            )
        )

    def disparity(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """Mean PCER disparity, the gap being the cost."""
        return self.drawn(key_at(configuration, epsilon, "pcer_disparity", floor=floor))

    def n_positive(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """Seeds whose disparity is above 0."""
        return self.drawn(
            key_at(configuration, epsilon, "n_positive_seeds", floor=floor)
        )

    def n_negative(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> FloatArray:
        """Seeds whose disparity is below 0."""
        return self.drawn(
            key_at(configuration, epsilon, "n_negative_seeds", floor=floor)
        )

    def advantage(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> FloatArray:
        """Mean AUC of the threshold attack, minus one half."""
        auc = self.drawn(
            key_at(
                configuration, epsilon, "attack_auc", group=configuration.groups[group]
            )
        )
        return np.asarray(np.round(auc - CHANCE, NO_ROUNDING))

    def attack_disparity(
        self, configuration: Configuration, epsilon: float
    ) -> FloatArray:
        """Mean PCER disparity, the attack's advantage being the cost."""
        return self.drawn(key_at(configuration, epsilon, "pcer_disparity_auc"))

    def gap_disparity(self, configuration: Configuration, epsilon: float) -> FloatArray:
        """Mean PCER disparity as it stands beside the attack's."""
        return self.disparity(configuration, epsilon)

    @abstractmethod
    def noise_level(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> float:
        """The mean gap that no memorisation would give."""

    @abstractmethod
    def stands_out(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> bool:
        """Whether the group's gap can be told from the luck of the split."""

    @abstractmethod
    def disparity_is_evidence(
        self, configuration: Configuration, epsilon: float
    ) -> bool:
        """Whether the disparity, with its sign, is more than rates over split luck."""

    @abstractmethod
    def exposures_differ(self, configuration: Configuration, epsilon: float) -> bool:
        """Whether exposures differ beyond split luck, in the direction of the gaps."""


def known(value: Known | None, what: str, configuration: Configuration | None) -> Known:
    """The value; NotThere where there is none."""
    if value is None:
        owner = "the study" if configuration is None else configuration.name
        raise NotThere(f"{what} of {owner} is not there")
    return value


def exactly(value: float) -> FloatArray:
    """(1 + draws,) a number that is read off the page."""
    return np.full(1 + N_DRAWS, value)


def normal_draws(value: float, error: float, stream: str) -> FloatArray:
    """(1 + draws,) a number, then normal draws around it; the stream names the seed."""
    luck = stream_of(stream).standard_normal(N_DRAWS)
    return np.concatenate([[value], value + error * luck])


def stream_of(name: str) -> np.random.Generator:
    """The random numbers that belong to a name."""
    return np.random.default_rng([STREAM, crc32(name.encode())])


def budget_in_error(epsilon: float) -> str:
    """A budget as messages name it."""
    return budget_name(None if epsilon == NO_DP else epsilon)
