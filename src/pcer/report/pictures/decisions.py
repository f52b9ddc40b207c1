"""How are recommendations, outlooks and trends drawn?

``choice_svg`` stands on the page of a recommendation and in notebooks, and
``outlook_chart`` is the curve of ``pcer plan`` over numbers of splits; ``versions_svg``
has the versions of a trend. To add such a picture: a function here, and the result in
``show.DISPLAYS``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pcer.auditing.record import SettingResult
from pcer.deciding.candidates import ACCURACY, EXPOSURE
from pcer.deciding.planner import Outlook, OutlookPoint
from pcer.deciding.recommend import Recommendation, largest_number
from pcer.deciding.trend import Trend
from pcer.files import as_shown
from pcer.report.pictures import looks
from pcer.report.pictures.looks import COLOUR_OF, Drawn
from pcer.report.pictures.panels import (
    Chart,
    Curve,
    Key,
    Mark,
    NameAxis,
    Panel,
    Rule,
    beside,
    chart_svg,
    extent,
    log_axis,
    number_axis,
)
from pcer.report.table import isolated
from pcer.report.tables.decisions import LOOKS, hardest, value_and_error
from pcer.statistics import interval_quantile
from pcer.wording import listed, say, templates, two_digits

# Of a panel of a recommendation, in pixels.
LEFT = 46
WIDTH = 300
GAP = 40
TOP = 70
HEIGHT = 250
CONFIDENCE = 0.95  # of the lines

OUTLOOK_NOTE = (
    "Whole lines: exposures. Broken lines: differences. Upright: the planned number "
    "of splits, {n:,}."
)
MOST_LINES = 6  # with more groups, one line stands for all
OUTLOOK_HEIGHT = 220
DIFFERENCE_DASH = "5 3"
CHOSEN_DASH = "2 2"


class ChoiceAxis(NamedTuple):
    """From values to pixels."""

    low: float
    high: float
    start: float
    length: float

    @classmethod
    def of(cls, values: Sequence[float], start: float, length: float) -> ChoiceAxis:
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
        step = looks.round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [(self.at(k * step), f"{k * step:g}") for k in range(first, last + 1)]


def choice_svg(found: Recommendation) -> str:
    """Accuracy against exposure found, and allowed where receipts say it."""
    z = interval_quantile(CONFIDENCE)
    limits = {"found": found.limits.get(EXPOSURE), "y": found.limits.get(ACCURACY)}
    marks_by_kind = _marks_by_kind(found)
    width = WIDTH if len(marks_by_kind) > 1 else 2 * WIDTH + GAP

    panels: list[tuple[str, ChoiceAxis, list[Drawn]]] = []
    every: list[Drawn] = []
    for kind, marks in marks_by_kind.items():
        left = LEFT + len(panels) * (width + GAP)
        values = _values(marks, "x", z, limits.get(kind))
        across = ChoiceAxis.of(values, left, width)
        panels.append((kind, across, marks))
        every += marks
    up = None
    if every:
        up = ChoiceAxis.of(_values(every, "y", z, limits["y"]), TOP + HEIGHT, -HEIGHT)

    picture = looks.environment().get_template("choice.svg")
    return picture.render(
        panels=panels,
        up=up,
        limits=limits,
        z=z,
        keys=[(name, shape, COLOUR_OF[role]) for name, (shape, role) in LOOKS.items()],
        size=(width, HEIGHT, TOP),
        width=LEFT + 2 * (WIDTH + GAP),
        words=templates()["recommend"],
    )


def _marks_by_kind(found: Recommendation) -> dict[str, list[Drawn]]:
    """By "found" and "allowed" a mark for every setting whose exposure is known."""
    kinds: dict[str, list[Drawn]] = {}
    for number, setting in enumerate(found.settings, 1):
        shape, colour = LOOKS[setting.answer]
        mark: Drawn = {
            "number": number,
            "name": f"{isolated(setting.name)}, {setting.answer}",
            "shape": shape,
            "y": value_and_error(setting.numbers[-1]),
            "colour": COLOUR_OF[colour],
        }
        largest = largest_number(setting.numbers, EXPOSURE, found.attack)
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


def outlook_svg(outlook: Outlook) -> str:
    """The curve over splits, names made safe to display."""
    return chart_svg(outlook_chart(as_shown(outlook)))


def outlook_chart(outlook: Outlook) -> Chart:
    """The smallest exposure and difference that would be shown, over splits."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in outlook.over_splits:
        for name, amount in _amounts(outlook, point):
            if amount is not None:
                line = lines.setdefault(name, [])
                line.append((float(point.n_splits), 100 * amount))
    curves = []
    marks = []
    keys = []
    for number, (name, steps) in enumerate(lines.items()):
        # A difference is broken, so that no colour is needed.
        dash = DIFFERENCE_DASH if name.startswith("difference") else ""
        colour = COLOUR_OF[f"series-{number % looks.N_SERIES}"]
        shape = looks.SHAPES[number % len(looks.SHAPES)]
        keys.append(Key(name, colour, shape, dash=dash))
        curves.append(Curve(steps, colour, dash))
        for n_splits, amount in steps:
            title = f"{n_splits:,.0f} splits, {name}: {two_digits(amount)}"
            marks.append(Mark(n_splits, amount, colour, shape, title=title))

    up = "smallest that would be shown, in 100"
    panel = Panel(
        across=log_axis("splits", [point.n_splits for point in outlook.over_splits]),
        up=log_axis(up, [mark.y for mark in marks] or [1.0]),
        rules=[Rule(x=outlook.n_splits, dash=CHOSEN_DASH)],
        curves=curves,
        marks=marks,
    )
    note = OUTLOOK_NOTE.format(n=outlook.n_splits)
    title = "What more splits would show"
    return Chart(title, [panel], keys, note, height=OUTLOOK_HEIGHT)


def versions_svg(trend: Trend) -> str:
    """Every group's exposure in every version, with its interval."""
    return chart_svg(versions_chart(as_shown(trend)))


def versions_chart(trend: Trend) -> Chart:
    """Versions side by side; groups stand beside each other in each."""
    audit = trend.versions[-1]
    scale = trend.attack_kind.scale
    names = looks.drawn_groups(audit, trend.settings[-1])
    marks = []
    keys = []
    for name, shift in zip(names, beside(len(names)), strict=True):
        keys.append(Key(looks.short_name(name), **looks.look(audit, name)))
        for place, setting in enumerate(trend.settings):
            mark = _version_mark(trend, setting, name, place + shift)
            if mark is not None:
                marks.append(mark)
    base = scale.written(0.0)
    labels = tuple(str(number + 1) for number in range(len(trend.settings)))
    panel = Panel(
        across=NameAxis("version", labels),
        up=number_axis(scale.column.replace("\n", " "), extent(marks), base=base),
        rules=[Rule(y=base)],
        marks=marks,
    )
    return Chart(say("chart", "versions"), [panel], keys, say("chart", "lines"))


def _version_mark(
    trend: Trend, setting: SettingResult, name: str, x: float
) -> Mark | None:
    exposure = setting.groups[name].exposure
    if exposure.value is None:
        return None
    kind = trend.attack_kind
    ends = None
    if exposure.interval is not None:
        low, high = exposure.interval
        ends = (kind.scale.written(low), kind.scale.written(high))
    amount = looks.exposure_amount(kind, exposure.value)
    return Mark(
        x=x,
        y=kind.scale.written(exposure.value),
        ends=ends,
        title=f"{looks.short_name(name)}: {amount}",
        **looks.look(trend.versions[-1], name),
    )


def _amounts(outlook: Outlook, point: OutlookPoint) -> list[tuple[str, float | None]]:
    """By line what so many splits would show; None: not even the largest."""
    if len(outlook.groups) + len(outlook.pairs) > MOST_LINES:
        names = ("exposure, in every group", "difference, between any two")
        return list(zip(names, hardest(point), strict=True))
    amounts: list[tuple[str, float | None]] = []
    for name, exposure in point.exposure.items():
        amounts.append((f"exposure, {looks.short_name(name)}", exposure))
    for pair, difference in zip(outlook.pairs, point.difference, strict=True):
        names_of_pair = listed([looks.short_name(name) for name in pair.groups])
        amounts.append((f"difference, {names_of_pair}", difference))
    return amounts
