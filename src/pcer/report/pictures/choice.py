"""How are accuracy and exposure of settings drawn, for a recommendation?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pcer.deciding.candidates import ACCURACY, EXPOSURE
from pcer.deciding.recommend import Recommendation, largest_number
from pcer.report.pictures.axis import Drawn, environment, ink, round_step
from pcer.report.table import isolated
from pcer.report.tables.decisions import LOOKS, value_and_error
from pcer.statistics import interval_quantile
from pcer.wording import templates

# Of a panel of the chart, in pixels.
LEFT = 46
WIDTH = 300
GAP = 40
TOP = 70
HEIGHT = 250
CONFIDENCE = 0.95  # of the lines


class Axis(NamedTuple):
    """From values to pixels."""

    low: float
    high: float
    start: float
    length: float

    @classmethod
    def of(cls, values: Sequence[float], start: float, length: float) -> Axis:
        """An axis that holds all values."""
        low = min(values)
        high = max(values)
        spare = 0.06 * (high - low) or 0.5
        return cls(low - spare, high + spare, start, length)

    def at(self, value: float) -> float:
        """Where a value lies."""
        share = self.length * (value - self.low) / (self.high - self.low)
        return round(self.start + share, 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """A few round numbers with their places."""
        step = round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [(self.at(k * step), f"{k * step:g}") for k in range(first, last + 1)]


class Panel(NamedTuple):
    """One part of the chart: accuracy against one kind of exposure."""

    kind: str  # "found" or "allowed"
    across: Axis
    marks: list[Drawn]


def choice_svg(found: Recommendation) -> str:
    """Accuracy against exposure found, and allowed where receipts say it."""
    z = interval_quantile(CONFIDENCE)
    limits = {"found": found.limits.get(EXPOSURE), "y": found.limits.get(ACCURACY)}
    marks_by_kind = _marks_by_kind(found)
    width = WIDTH if len(marks_by_kind) > 1 else 2 * WIDTH + GAP

    panels: list[Panel] = []
    every: list[Drawn] = []
    for kind, marks in marks_by_kind.items():
        left = LEFT + len(panels) * (width + GAP)
        values = _values(marks, "x", z, limits.get(kind))
        panels.append(Panel(kind, Axis.of(values, left, width), marks))
        every += marks
    up = None
    if every:
        up = Axis.of(_values(every, "y", z, limits["y"]), TOP + HEIGHT, -HEIGHT)

    picture = environment().get_template("choice.svg")
    return picture.render(
        panels=panels,
        up=up,
        limits=limits,
        z=z,
        keys=[(name, shape, ink(colour)) for name, (shape, colour) in LOOKS.items()],
        size=(width, HEIGHT, TOP),
        width=LEFT + 2 * (WIDTH + GAP),
        words=templates()["recommend"],
    )


def _marks_by_kind(found: Recommendation) -> dict[str, list[Drawn]]:
    """A mark for every setting whose exposure of that kind is known."""
    kinds: dict[str, list[Drawn]] = {}
    for number, setting in enumerate(found.settings, 1):
        shape, colour = LOOKS[setting.answer]
        mark: Drawn = {
            "number": number,
            "name": f"{isolated(setting.name)}, {setting.answer}",
            "shape": shape,
            "y": value_and_error(setting.numbers[-1]),
            "colour": ink(colour),
        }
        largest = largest_number(setting.numbers, EXPOSURE, found.cost)
        exposed = value_and_error(largest)
        if exposed:
            kinds.setdefault("found", []).append(mark | {"x": exposed})
        if setting.allowed is not None:
            allowed = mark | {"x": [setting.allowed, 0.0]}
            kinds.setdefault("allowed", []).append(allowed)
    return kinds


def _values(
    marks: Sequence[Drawn], way: str, z: float, limit: float | None
) -> list[float]:
    """Everything that an axis must hold: ends of intervals, and the limit."""
    values = []
    for mark in marks:
        value, error = mark[way]
        values += [value - z * error, value + z * error]
    if limit is not None:
        values.append(limit)
    return values
