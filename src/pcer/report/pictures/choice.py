"""How are accuracy and exposure of settings drawn?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pcer.deciding.candidates import ACCURACY, EXPOSURE
from pcer.deciding.recommend import Recommendation, largest_number
from pcer.report.pictures.axis import LIGHT, environment, round_step
from pcer.report.table import isolated
from pcer.report.tables.decisions import LOOKS, value_and_error
from pcer.statistics import interval_quantile
from pcer.wording import templates

LEFT, WIDTH, GAP, TOP, HEIGHT = (
    46,
    300,
    40,
    70,
    250,
)  # of a panel of the chart, in pixels


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
        return round(
            self.start + self.length * (value - self.low) / (self.high - self.low), 1
        )

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """A few round numbers with their places."""
        step = round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [(self.at(k * step), f"{k * step:g}") for k in range(first, last + 1)]


def choice_svg(found: Recommendation) -> str:
    """Accuracy against exposure found, and against exposure allowed where receipts say it."""
    z = interval_quantile(0.95)
    kinds = dict[str, list[dict[str, Any]]]()
    for k, setting in enumerate(found.settings, 1):
        shape, colour = LOOKS[setting.answer]
        mark = {
            "number": k,
            "name": f"{isolated(setting.name)}, {setting.answer}",
            "shape": shape,
        }
        mark |= {
            "y": value_and_error(setting.numbers[-1]),
            "colour": f"var(--{colour}, {LIGHT[colour]})",
        }
        if exposed := value_and_error(
            largest_number(setting.numbers, EXPOSURE, found.cost)
        ):
            kinds.setdefault("found", []).append(mark | {"x": exposed})
        if setting.allowed is not None:
            kinds.setdefault("allowed", []).append(mark | {"x": [setting.allowed, 0.0]})
    limits = {"found": found.limits.get(EXPOSURE), "y": found.limits.get(ACCURACY)}
    wide = WIDTH if len(kinds) > 1 else 2 * WIDTH + GAP

    def axis(
        marks: Sequence[dict[str, Any]], way: str, *place: float, limit: float | None
    ) -> Axis:
        ends = [m[way][0] + side * z * m[way][1] for m in marks for side in (-1, 1)]
        return Axis.of([*ends, *([] if limit is None else [limit])], *place)

    panels = [
        (
            kind,
            axis(own, "x", LEFT + k * (wide + GAP), wide, limit=limits.get(kind)),
            own,
        )
        for k, (kind, own) in enumerate(kinds.items())
    ]
    every = [mark for own in kinds.values() for mark in own]
    picture = environment().get_template("choice.svg")
    return picture.render(
        panels=panels,
        up=axis(every, "y", TOP + HEIGHT, -HEIGHT, limit=limits["y"])
        if every
        else None,
        limits=limits,
        z=z,
        keys=[
            (name, shape, f"var(--{c}, {LIGHT[c]})")
            for name, (shape, c) in LOOKS.items()
        ],
        size=(wide, HEIGHT, TOP),
        width=LEFT + 2 * (WIDTH + GAP),
        words=templates()["recommend"],
    )
