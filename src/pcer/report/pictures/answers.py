"""How are two of the six answers drawn: who is easier to spot, and who is worse served?

``spotting`` places both groups' exposures and one bar of their difference, ``served``
rates as bars. They know numbers and words only; the page, notebooks and the card say
which. ``drawing_svg`` writes a drawing by ``templates/drawing.svg``. To add a mark: a
record that says it in numbers, and what places it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pcer.report.pictures import looks, panels
from pcer.report.pictures.looks import NOTE_SIZE, Drawn, text_lines

WIDTH = 300  # of a picture beside its answer, in pixels
MARKS_HEIGHT = 18  # of a row of marks, or of the bar of a difference
# How far an upright reaches up and down, at the coin or at 0, and at other numbers.
REACH = 9
TICK = 3
N_STEPS = 3  # about so many on an axis
END_ROOM = 17  # pixels from an end of an axis within which its numbers are not centred
BAR_SIZE = 5  # of a difference
BAR = 11  # height of a bar of a rate
BAR_ROW = 16
PART_GAP = 5
MARK_ROOM = 17  # of a group's mark before its bar
TEXT_GAP = 6  # between a bar and its number
NUMBER_ROOM = 7.0  # pixels of a letter beside a bar, wide enough for any font
WHOLE = 100.0

Ends = tuple[float, float]


class GroupPoint(NamedTuple):
    """A group's exposure in the unit that is printed."""

    group: str
    position: int  # of the group in its release
    value: float


@dataclass(frozen=True, kw_only=True)
class Spotting:
    """What the picture of "is one group easier to spot?" shows, by one attack."""

    title: str  # what the points are, and by which attack
    points: Sequence[GroupPoint]
    base: float  # what guessing gives
    base_name: str
    difference_title: str
    difference: Ends | None


class GroupShare(NamedTuple):
    """A group's rate of 100, and what stands beside its bar."""

    group: str
    position: int
    of_100: float
    text: str
    was: float | None = None  # what was true, of 100


class Shares(NamedTuple):
    """Rates that have one title."""

    title: str
    bars: Sequence[GroupShare]


@dataclass(frozen=True)
class Drawing:
    """Marks and words where they stand, in pixels; ``says`` is for those who hear."""

    says: str
    width: int
    height: float = 0.0
    texts: list[Drawn] = field(default_factory=list)
    lines: list[Drawn] = field(default_factory=list)
    bars: list[Drawn] = field(default_factory=list)
    marks: list[Drawn] = field(default_factory=list)

    def below(self, other: Drawing, gap: float) -> Drawing:
        """This drawing with another one below it."""
        y = self.height + gap
        return Drawing(
            says=f"{self.says} {other.says}".strip(),
            width=self.width,
            height=y + other.height,
            texts=self.texts + _lowered(other.texts, y),
            lines=self.lines + _lowered(other.lines, y),
            bars=self.bars + _lowered(other.bars, y),
            marks=self.marks + _lowered(other.marks, y),
        )


def _lowered(drawn: Sequence[Drawn], y: float) -> list[Drawn]:
    return [{**one, "y": round(one["y"] + y, 1)} for one in drawn]


def drawing_svg(drawing: Drawing) -> str:
    """A drawing as SVG text."""
    form = looks.environment().get_template("drawing.svg")
    return form.render(drawing=drawing)


# Who is easier to spot?


def spotting(shown: Spotting, width: int = WIDTH) -> Drawing:
    """Every group's exposure on one line, and below it the bar of the difference."""
    values = [point.value for point in shown.points]
    axis = panels.number_axis("", values, base=shown.base, n_steps=N_STEPS)
    drawing, middle = _axis(shown.title, axis, shown.base, shown.base_name, width)
    said = []
    for point in shown.points:
        x = _place(axis, point.value, width)
        mark = looks.group_mark(point.position)
        drawing.marks.append({"x": x, "y": middle, **mark})
        said.append(f"{point.group}: {looks.plain_number(point.value)}")
    drawing = replace(drawing, says=f"{shown.title}. {'; '.join(said)}.")
    if shown.difference is None:
        return drawing
    difference = _difference(shown.difference_title, shown.difference, width)
    return drawing.below(difference, PART_GAP)


def _difference(title: str, ends: Ends, width: int) -> Drawing:
    """The interval of a difference as one bar, over an axis with 0."""
    axis = panels.number_axis("", ends, n_steps=N_STEPS)
    drawing, middle = _axis(title, axis, 0.0, "", width)
    left, right = (_place(axis, end, width) for end in ends)
    step = f"h{round(right - left, 1)}"
    drawing.lines.append({"x": left, "y": middle, "step": step, "size": BAR_SIZE})
    low, high = map(looks.plain_number, ends)
    return replace(drawing, says=f"{title}: {low} to {high}.")


def _axis(
    title: str, axis: panels.NumberAxis, base: float, base_name: str, width: int
) -> tuple[Drawing, float]:
    """A title and an axis that marks the coin, or 0; and how high marks stand."""
    texts = _titled(title, width)
    middle = round(texts[-1]["y"] + 6 + MARKS_HEIGHT / 2, 1)
    foot = round(middle + MARKS_HEIGHT / 2 + NOTE_SIZE, 1)
    drawing = Drawing("", width, foot + 3, texts=texts)
    for tick in axis.ticks:
        x = _place(axis, tick, width)
        name = looks.plain_number(tick)
        reach = TICK
        if tick == base:
            name = f"{name} {base_name}".strip()
            reach = REACH
        step = f"v{2 * reach}"
        drawing.lines.append({"x": x, "y": middle - reach, "step": step, "size": 1})
        drawing.texts.append(_text(name, x, foot, _anchor(x, width)))
    return drawing, middle


def _place(axis: panels.NumberAxis, value: float, width: int) -> float:
    room = width - 2 * looks.MARK_MARGIN
    return round(looks.MARK_MARGIN + room * axis.share(value), 1)


def _anchor(x: float, width: int) -> str:
    """So that a number at an end of the axis is not cut."""
    if x < END_ROOM:
        return "start"
    return "end" if x > width - END_ROOM else "middle"


def _titled(title: str, width: int) -> list[Drawn]:
    lines = text_lines(title, NOTE_SIZE, NOTE_SIZE, width)
    return [_text(line["text"], 0.0, line["y"]) for line in lines]


def _text(text: str, x: float, y: float, anchor: str = "start") -> Drawn:
    return {"text": text, "x": x, "y": y, "anchor": anchor}


# Who is worse served?


def served(parts: Sequence[Shares], width: int = WIDTH) -> Drawing:
    """Rates as bars from 0 to 100, their numbers at the end, a line at what was."""
    bars = [bar for part in parts for bar in part.bars]
    longest = max((len(bar.text) for bar in bars), default=0)
    length = width - MARK_ROOM - TEXT_GAP - NUMBER_ROOM * longest
    drawing = Drawing("", width)
    for part in parts:
        gap = PART_GAP if drawing.height else 0.0
        drawing = drawing.below(_bars(part, length, width), gap)
    return drawing


def _bars(part: Shares, length: float, width: int) -> Drawing:
    drawing = Drawing("", width, texts=_titled(part.title, width))
    top = drawing.texts[-1]["y"] + PART_GAP
    said = []
    for bar in part.bars:
        _add_bar(drawing, bar, round(top, 1), round(length, 1))
        said.append(f"{bar.group}: {bar.text}")
        top += BAR_ROW
    return replace(drawing, says=f"{part.title}: {'; '.join(said)}.", height=top)


def _add_bar(drawing: Drawing, bar: GroupShare, top: float, length: float) -> None:
    """A bar with its group's mark, its number, and a line at what was."""
    mark = looks.group_mark(bar.position)
    drawing.marks.append({"x": looks.MARK_MARGIN, "y": top + BAR / 2, **mark})
    size = {"width": _length(bar.of_100, length), "room": length}
    drawing.bars.append({"x": MARK_ROOM, "y": top, **size, **mark})
    if bar.was is not None:
        x = round(MARK_ROOM + _length(bar.was, length), 1)
        step = f"v{BAR + 4}"
        drawing.lines.append({"x": x, "y": top - 2, "step": step, "size": 2})
    x = round(MARK_ROOM + length + TEXT_GAP, 1)
    drawing.texts.append(_text(bar.text, x, top + BAR - 1))


def _length(of_100: float, whole: float) -> float:
    return round(whole * min(max(of_100, 0.0), WHOLE) / WHOLE, 1)
