"""How large is what was found: a level of exposure, and sizes of differences?

A difference can be certain and small, so every answer has its size, by its printed
interval and against a margin that the plan names beforehand. ``auditing.settings`` asks
for the size of each difference, ``auditing.six`` for the level of a setting; the one
alarm colour follows from both. Numbers are points of 100. To add a size or a level: a
member in its place, and its line in ``size_of`` or ``level_of``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from pcer.statistics import SIGNIFICANCE

COIN: Final = 50.0  # right answers of 100 of an attacker who guesses
# Right answers of 100 from which on exposure has the next level.
SOMEWHAT_FROM: Final = 55.0
OFTEN_FROM: Final = 60.0
ALMOST_ALWAYS_FROM: Final = 90.0
# Above it, both groups are spotted nearly for certain, and a difference has no size.
NEAR_CERTAINTY_FROM: Final = 95.0


class Level(StrEnum):
    """Can an attacker tell who was in the training data? Lowest first."""

    CANNOT_TELL = "cannot_tell"
    NOT_DETECTED = "not_detected"
    BARELY = "barely"
    SOMEWHAT = "somewhat"
    OFTEN = "often"
    ALMOST_ALWAYS = "almost_always"

    @property
    def is_alarm(self) -> bool:
        """Whether its row may have the alarm colour."""
        return self in (Level.OFTEN, Level.ALMOST_ALWAYS)


class Size(StrEnum):
    """How large is a difference that is shown? Smallest first."""

    NEAR_CERTAINTY = "near_certainty"  # of both groups, so that no size is told
    SLIGHT = "slight"
    OPEN = "open"  # its interval bears no other word
    CLEAR = "clear"
    FAR = "far"

    @property
    def is_clear(self) -> bool:
        """Whether it is at least the margin."""
        return self in (Size.CLEAR, Size.FAR)

    @property
    def rank(self) -> int:
        """Its place, the smallest first."""
        return [*Size].index(self)


class Spotted(NamedTuple):
    """One group's printed interval, in an attacker's right answers of 100."""

    is_detected: bool
    low: float  # NaN: not known
    high: float


def tail_of(confidence_level: float, n_printed: int, *, share: float = 1.0) -> float:
    """The chance with which either end of a printed interval may fail.

    share (1 - level) / (2 K), for K intervals of one family, whose tests have this
    share of the level. Never more than a test has, so that an interval without 0
    implies that its test rejects.
    """
    level = min(1 - confidence_level, SIGNIFICANCE)
    return share * level / (2 * max(n_printed, 1))


def size_of(low: float, high: float, *, margin: float) -> Size:
    """The size of a difference that is shown, of the group that it names.

    ``low`` and ``high`` are the ends of its printed interval, above 0 where the named
    group has more; NaN: not known. With u the larger end in absolute value, and l the
    lower end or 0:

        slight where u <= margin, far where l >= 2 margins, clear where l >= margin
    """
    if math.isnan(low) or math.isnan(high):
        return Size.OPEN
    if max(abs(low), abs(high)) <= margin:
        return Size.SLIGHT
    if low >= 2 * margin:
        return Size.FAR
    return Size.CLEAR if low >= margin else Size.OPEN


def level_of(groups: Sequence[Spotted], *, is_weak: bool) -> Level:
    """The level of exposure, by the printed intervals of all groups.

    Where nobody is detected, nothing can be told if a stronger attack is missing
    (``is_weak``), or if some group's exposure may be above 55 of 100.
    """
    detected = [group for group in groups if group.is_detected]
    if not detected:
        highs = [group.high for group in groups if not math.isnan(group.high)]
        is_open = is_weak or not highs or max(highs) > SOMEWHAT_FROM
        return Level.CANNOT_TELL if is_open else Level.NOT_DETECTED
    low = max((group.low for group in detected if not math.isnan(group.low)), default=0)
    if low >= ALMOST_ALWAYS_FROM:
        return Level.ALMOST_ALWAYS
    if low >= OFTEN_FROM:
        return Level.OFTEN
    may_be_more = any(not group.high <= SOMEWHAT_FROM for group in detected)
    return Level.SOMEWHAT if may_be_more else Level.BARELY
