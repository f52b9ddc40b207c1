"""How is a chart of panels drawn: axes, intervals, curves, shading and a key?

The charts beside this file, and those of the study, say as a ``Chart`` what they show,
in the numbers of their axes; ``chart_svg`` places it by ``templates/chart.svg``. To add
a kind of mark: a record, a field of ``Panel``, and a place in ``_drawn_panel`` and in
the template.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pcer.report.pictures import looks
from pcer.report.pictures.looks import Drawn, text_lines

INK = "currentColor"
CROSS = "M-1.6-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z"
PANEL_HEIGHT = 190  # of the part that marks stand in
N_TICKS = 5
CLOSEST_NAMES = 12  # pixels between names that are turned
# Pixels between and around panels.
COLUMN_GAP = 22
ROW_GAP = 18
LINE_HEIGHT = 17
TICK = 5  # from an axis to its numbers
NOTE_GAP = 22
SIDE_GAP = 11  # from the title of an axis to the highest number
KEY_GAP = 21  # from a key's text to the next key
# Half of what stands before a key's text: a mark, or a mark on a piece of its line.
MARK_REACH = looks.MARK_MARGIN
LINE_REACH = 14

Ends = tuple[float, float]
Bend = Callable[[float], float]


def straight(value: float) -> float:
    """Equal steps are equally long."""
    return value


@dataclass(frozen=True)
class NumberAxis:
    """Numbers from ``low`` to ``high``; ``bend`` says how they are spaced."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]
    bend: Bend = straight
    colour: str = INK

    def share(self, value: float) -> float:
        """Where a number lies, from 0 to 1; beyond an end it lies at that end."""
        start = self.bend(self.low)
        length = self.bend(self.high) - start
        return min(max((self.bend(value) - start) / length, 0.0), 1.0)

    def names(self) -> list[tuple[float, str]]:
        """The places of its ticks, and what stands there."""
        return [(tick, looks.plain_number(tick)) for tick in self.ticks]


@dataclass(frozen=True)
class NameAxis:
    """Names side by side; the place of a name is its number, from 0."""

    title: str
    labels: tuple[str, ...]
    colour: str = INK

    def share(self, value: float) -> float:
        """Where a name lies, from 0 to 1, or a place beside it."""
        return (value + 0.5) / len(self.labels)

    def names(self) -> list[tuple[float, str]]:
        """The places of its names."""
        return [(float(place), name) for place, name in enumerate(self.labels)]


Axis = NumberAxis | NameAxis


def number_axis(
    title: str,
    values: Iterable[float],
    *,
    base: float = 0.0,
    colour: str = INK,
    n_steps: int = N_TICKS,
) -> NumberAxis:
    """An axis from one round number to another that holds ``base`` and all values.

    >>> number_axis("points", [0.3, 1.7]).ticks
    (0.0, 0.5, 1.0, 1.5, 2.0)
    """
    known = [base, *values]
    low = min(known)
    high = max(known)
    if high == low:
        high = low + 1.0
    step = looks.round_step((high - low) / n_steps)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return NumberAxis(title, ticks[0], ticks[-1], ticks, colour=colour)


def log_axis(title: str, values: Sequence[float]) -> NumberAxis:
    """An axis that holds all values, above 0, with 1, 2 and 5 of every power of ten.

    >>> log_axis("splits", [3, 40]).ticks
    (2.0, 5.0, 10.0, 20.0, 50.0)
    """
    first = math.floor(math.log10(min(values)))
    last = math.ceil(math.log10(max(values))) + 1
    round_numbers: list[float] = []
    for power in range(first, last):
        round_numbers += [float(f"{factor}e{power}") for factor in (1, 2, 5)]
    low = max(number for number in round_numbers if number <= min(values))
    high = min(number for number in round_numbers if number >= max(values))
    if high == low:
        high = 10 * low
    ticks = tuple(number for number in round_numbers if low <= number <= high)
    return NumberAxis(title, low, high, ticks, bend=math.log10)


def beside(n: int, spread: float = 0.25) -> list[float]:
    """How far from the place of a name each of ``n`` marks stands.

    >>> beside(3), beside(1)
    ([-0.125, 0.0, 0.125], [0.0])
    """
    if n == 1:
        return [0.0]
    return [spread * (k / (n - 1) - 0.5) for k in range(n)]


class Mark(NamedTuple):
    """A point, with its interval where it has one."""

    x: float
    y: float
    colour: str
    shape: str = looks.CIRCLE
    ends: Ends | None = None
    is_filled: bool = True
    is_right: bool = False  # whether y is a number of the right axis
    title: str = ""


class Curve(NamedTuple):
    """Points that are joined by a line."""

    points: Sequence[tuple[float, float]]
    colour: str
    dash: str = ""
    is_right: bool = False


def joined(marks: Sequence[Mark]) -> Curve:
    """The line from mark to mark, which are at least one."""
    points = [(mark.x, mark.y) for mark in marks]
    return Curve(points, marks[0].colour, is_right=marks[0].is_right)


def extent(marks: Iterable[Mark]) -> list[float]:
    """Every number that an axis of some marks must hold."""
    values: list[float] = []
    for mark in marks:
        values += [mark.y, *(mark.ends or ())]
    return values


class Rule(NamedTuple):
    """A straight line through the panel, at ``x`` or at ``y``."""

    x: float | None = None
    y: float | None = None
    colour: str = INK
    dash: str = ""
    is_right: bool = False


class Shade(NamedTuple):
    """A shaded rectangle, and a text in it; None reaches from end to end."""

    x: Ends | None = None
    y: Ends | None = None
    colour: str = INK
    opacity: float = 0.13
    text: str = ""
    ink: str = INK  # of the text
    title: str = ""


class Key(NamedTuple):
    """What a colour and a shape stand for; with a dash also a piece of the line."""

    text: str
    colour: str
    shape: str = looks.CIRCLE
    is_filled: bool = True
    dash: str | None = None


@dataclass(frozen=True)
class Panel:
    """Marks over one axis to the side, and one or two upwards."""

    across: Axis
    up: Axis
    right: NumberAxis | None = None
    title: str = ""
    shades: Sequence[Shade] = ()
    rules: Sequence[Rule] = ()
    curves: Sequence[Curve] = ()
    marks: Sequence[Mark] = ()
    has_grid: bool = True

    def upwards(self, *, is_right: bool) -> Axis:
        """The axis that a mark's y is a number of."""
        return self.right if is_right and self.right is not None else self.up


@dataclass(frozen=True)
class Chart:
    """A title, a key, panels in rows, and what a reader must know below them."""

    title: str
    panels: Sequence[Panel]
    keys: Sequence[Key] = ()
    note: str = ""
    columns: int = 1
    width: int = looks.NARROW
    height: int = PANEL_HEIGHT


class Frame(NamedTuple):
    """Where the marks of a panel stand, in pixels."""

    left: float
    top: float
    width: float
    height: float

    def x(self, share: float) -> float:
        """From a share of the width to pixels."""
        return round(self.left + self.width * share, 1)

    def y(self, share: float) -> float:
        """From a share of the height, from below, to pixels."""
        return round(self.top + self.height * (1 - share), 1)


class Margins(NamedTuple):
    """Room around the marks of every panel, for numbers, names and titles."""

    left: float
    right: float
    above: float
    below: float
    is_turned: bool  # whether names below are written upwards


def chart_svg(chart: Chart) -> str:
    """A chart as SVG text, as wide as it says and as high as it needs."""
    title = text_lines(chart.title, looks.CLAIM_SIZE, looks.CLAIM_SIZE, chart.width)
    keys = _placed_keys(chart.keys, title[-1]["y"] + 20, chart.width)
    start = keys[-1]["y"] if keys else title[-1]["y"]
    cell = (chart.width - COLUMN_GAP * (chart.columns - 1)) / chart.columns
    margins = _margins(chart, cell)

    panels = []
    bottom = start + ROW_GAP
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, chart.columns)
        height = margins.above + chart.height + margins.below
        top = start + ROW_GAP + row * (height + ROW_GAP)
        frame = Frame(
            left=column * (cell + COLUMN_GAP) + margins.left,
            top=top + margins.above,
            width=cell - margins.left - margins.right,
            height=chart.height,
        )
        panels.append(_drawn_panel(panel, frame, margins))
        bottom = top + height

    note_y = bottom + (NOTE_GAP if chart.note else 0)
    return looks.fill_template(
        "chart.svg",
        text_lines(chart.note, note_y, looks.NOTE_SIZE, chart.width),
        width=chart.width,
        title=title,
        keys=keys,
        panels=panels,
    )


def _placed_keys(keys: Sequence[Key], top: float, width: int) -> list[Drawn]:
    placed = []
    x = 0.0
    y = top
    for key in keys:
        reach = MARK_REACH if key.dash is None else LINE_REACH
        text_x = x + 2 * reach + 4
        end = text_x + looks.LETTER_WIDTH * len(key.text)
        if end > width and x > 0:
            text_x -= x
            end -= x
            x = 0.0
            y += 18
        place = {"start": x, "x": x + reach, "text_x": text_x, "y": round(y, 1)}
        placed.append({**key._asdict(), **place})
        x = end + KEY_GAP
    return placed


def _margins(chart: Chart, cell: float) -> Margins:
    left = max(_longest(panel.up) for panel in chart.panels) + TICK + 3
    rights = [_longest(one.right) for one in chart.panels if one.right is not None]
    across = chart.panels[0].across
    right = max(rights) + TICK + 3 if rights else float(looks.MARK_MARGIN)
    if isinstance(across, NumberAxis):  # its last number stands at the end
        right = max(right, _length(across.names()[-1][1]) / 2)
    above = 0.0
    if any(panel.title for panel in chart.panels):
        above += LINE_HEIGHT
    if any(panel.up.title for panel in chart.panels):
        above += LINE_HEIGHT + 4
    is_turned = isinstance(across, NameAxis) and _collide(across, cell - left - right)
    below = TICK + (_longest(across) if is_turned else looks.NOTE_SIZE)
    if across.title:
        below += LINE_HEIGHT
    return Margins(left, right, above, below, is_turned)


def _longest(axis: Axis) -> float:
    """Pixels of the longest of an axis' numbers or names."""
    return max(_length(name) for _, name in axis.names())


def _length(text: str) -> float:
    return (len(text) + 0.5) * looks.LETTER * looks.NOTE_SIZE


def _collide(axis: NameAxis, width: float) -> bool:
    """Whether neighbouring names need more room than there is."""
    lengths = [_length(name) for _, name in axis.names()]
    step = width / len(lengths)
    needed = [(first + second) / 2 for first, second in pairwise(lengths)]
    return max(needed, default=0.0) > step


def _drawn_panel(panel: Panel, frame: Frame, margins: Margins) -> Drawn:
    across = panel.across
    title_y = frame.top - margins.above + looks.NOTE_SIZE
    foot = frame.y(0) + margins.below
    return {
        "left": round(frame.left, 1),
        "end": frame.x(1),
        "top": frame.y(1),
        "bottom": frame.y(0),
        "middle": frame.x(0.5),
        "edge": round(frame.left - margins.left, 1),
        "right_edge": round(frame.x(1) + margins.right, 1),
        "title": panel.title,
        "title_y": round(title_y, 1),
        "side_y": round(frame.top - SIDE_GAP, 1),
        "foot_y": round(foot, 1),
        "across": across,
        "up": panel.up,
        "right": panel.right,
        "has_grid": panel.has_grid,
        "is_turned": margins.is_turned,
        "names": _names_below(across, frame, is_turned=margins.is_turned),
        "numbers": _numbers(panel.up, frame),
        "right_numbers": [] if panel.right is None else _numbers(panel.right, frame),
        "shades": [_drawn_shade(shade, panel, frame) for shade in panel.shades],
        "rules": [_drawn_rule(rule, panel, frame) for rule in panel.rules],
        "curves": [_drawn_curve(curve, panel, frame) for curve in panel.curves],
        "marks": [_drawn_mark(mark, panel, frame) for mark in panel.marks],
    }


def _names_below(across: Axis, frame: Frame, *, is_turned: bool) -> list[Drawn]:
    """What stands below a panel; of too many names every second, or fewer."""
    names = across.names()
    every = 1
    if is_turned:
        every = math.ceil(CLOSEST_NAMES * len(names) / frame.width)
    below = []
    for place, text in names[::every]:
        below.append({"x": frame.x(across.share(place)), "text": text})
    return below


def _numbers(axis: Axis, frame: Frame) -> list[Drawn]:
    numbers = []
    for place, text in axis.names():
        numbers.append({"y": frame.y(axis.share(place)), "text": text})
    return numbers


def _drawn_shade(shade: Shade, panel: Panel, frame: Frame) -> Drawn:
    left, right = 0.0, 1.0
    if shade.x is not None:
        left, right = (panel.across.share(end) for end in shade.x)
    low, high = 0.0, 1.0
    if shade.y is not None:
        low, high = (panel.up.share(end) for end in shade.y)
    return {
        **shade._asdict(),
        "x": frame.x(left),
        "y": frame.y(high),
        "width": round(frame.width * (right - left), 1),
        "height": round(frame.height * (high - low), 1),
        "middle": frame.x((left + right) / 2),
        "base": round(frame.y((low + high) / 2) + 4, 1),
    }


def _drawn_rule(rule: Rule, panel: Panel, frame: Frame) -> Drawn:
    if rule.x is not None:
        x = frame.x(panel.across.share(rule.x))
        path = f"M{x} {frame.y(1)}V{frame.y(0)}"
    else:
        axis = panel.upwards(is_right=rule.is_right)
        y = frame.y(axis.share(rule.y or 0.0))
        path = f"M{frame.x(0)} {y}H{frame.x(1)}"
    return {"path": path, "colour": rule.colour, "dash": rule.dash}


def _drawn_curve(curve: Curve, panel: Panel, frame: Frame) -> Drawn:
    axis = panel.upwards(is_right=curve.is_right)
    steps = []
    for x, y in curve.points:
        steps.append(f"{frame.x(panel.across.share(x))} {frame.y(axis.share(y))}")
    return {"path": "M" + "L".join(steps), "colour": curve.colour, "dash": curve.dash}


def _drawn_mark(mark: Mark, panel: Panel, frame: Frame) -> Drawn:
    axis = panel.upwards(is_right=mark.is_right)
    span = None
    if mark.ends is not None:
        span = [frame.y(axis.share(end)) for end in mark.ends]
    return {
        **mark._asdict(),
        "x": frame.x(panel.across.share(mark.x)),
        "y": frame.y(axis.share(mark.y)),
        "span": span,
    }
