"""How are answers drawn: who is easier to spot, worse served, spotted almost surely?

``row_drawing`` draws what a row carries: groups as points with one bar of their
difference, rates as bars, or people as dots. The page, notebooks and the card show it,
by ``templates/drawing.svg``. To add a picture: what it shows as a field of ``Row``, and
its function here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pcer.auditing import sentences
from pcer.auditing.record import Audit
from pcer.auditing.sentences.predicted import predicted_in
from pcer.auditing.sentences.rows import Bar, Bars, Dots, Points, Row
from pcer.files import as_shown
from pcer.measuring.sizes import COIN
from pcer.report.pictures import looks, panels
from pcer.report.pictures.looks import NOTE_SIZE, Drawn, text_lines
from pcer.wording import decimals, of_100, say

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
DOTS_IN_A_ROW = 25
DOT = 3  # radius of the dot of somebody who is singled out
LIGHT_DOT = 1
DOT_STEP = 11  # from dot to dot
DOT_MARGIN = 5


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


def drawing_svg(drawing: Drawing, *, is_alone: bool = True) -> str:
    """A drawing as SVG text; in a page of ours it takes the page's font."""
    form = looks.environment().get_template("drawing.svg")
    return form.render(
        drawing=drawing,
        is_alone=is_alone,
        font=looks.FONT if is_alone else "inherit",
        colour=looks.COLOUR_OF["group"],
    )


def row_drawing(row: Row, audit: Audit, width: int = WIDTH) -> Drawing | None:
    """What a row's picture shows; None for a row without one."""
    groups = looks.marked_groups(audit)
    if row.points is not None:
        return spotting(row.points, groups, width)
    if row.bars:
        return served(row.bars, groups, predicted_in(audit).truth, width)
    if row.dots:
        return singled_out(row.dots, width)
    return None


def pictures_svg(audit: Audit) -> str:
    """The pictures of all rows about the main setting; empty where no row has one."""
    shown = as_shown(audit)
    drawing: Drawing | None = None
    for row in sentences.of(shown, shown.told).rows:
        of_row = row_drawing(row, shown)
        if of_row is not None:
            drawing = of_row if drawing is None else drawing.below(of_row, 2 * PART_GAP)
    return "" if drawing is None else drawing_svg(drawing)


# Who is easier to spot?


def spotting(points: Points, groups: Sequence[str], width: int = WIDTH) -> Drawing:
    """Groups' successes on one line, and below it the bar of the difference."""
    shown = _drawn_groups(points)
    axis = panels.number_axis("", shown.values(), base=COIN, n_steps=N_STEPS)
    title = say("chart", "success", attack=points.attack)
    drawing, middle = _axis(title, axis, COIN, say("chart", "coin"), width)
    said = []
    for name, success in shown.items():
        x = _place(axis, success, width)
        mark = looks.group_mark(groups.index(name))
        drawing.marks.append({"x": x, "y": middle, **mark})
        said.append(f"{looks.short_name(name)}: {decimals(success, 1)}")
    drawing = replace(drawing, says=f"{title}. {'; '.join(said)}.")
    if points.difference is None:
        return drawing
    return drawing.below(_difference(points, points.difference, width), PART_GAP)


def _drawn_groups(points: Points) -> dict[str, float]:
    """The two that are compared, the lowest and the highest where they are many."""
    names = [*points.success]
    important = [*points.groups, *names[:1], *names[-1:], *names]
    first = list(dict.fromkeys(important))[: looks.MOST_GROUPS]
    return {name: value for name, value in points.success.items() if name in first}


def _difference(points: Points, ends: tuple[float, float], width: int) -> Drawing:
    """The interval of a difference as one bar, over an axis with 0."""
    first, second = map(looks.short_name, points.groups)
    title = say("chart", "difference", first=first, second=second, attack=points.attack)
    axis = panels.number_axis("", ends, n_steps=N_STEPS)
    drawing, middle = _axis(title, axis, 0.0, "", width)
    left, right = (_place(axis, end, width) for end in ends)
    step = f"h{round(right - left, 1)}"
    drawing.lines.append({"x": left, "y": middle, "step": step, "size": BAR_SIZE})
    low, high = (decimals(end, 1) for end in ends)
    return replace(drawing, says=f"{title}: {low} to {high}.")


def _axis(
    title: str, axis: panels.NumberAxis, base: float, base_name: str, width: int
) -> tuple[Drawing, float]:
    """A title and an axis, its ends and the coin or 0 named; how high marks stand."""
    texts = _titled(title, width)
    middle = round(texts[-1]["y"] + 6 + MARKS_HEIGHT / 2, 1)
    foot = round(middle + MARKS_HEIGHT / 2 + NOTE_SIZE, 1)
    drawing = Drawing("", width, foot + 3, texts=texts)
    for tick in axis.ticks:
        x = _place(axis, tick, width)
        reach = REACH if tick == base else TICK
        step = f"v{2 * reach}"
        drawing.lines.append({"x": x, "y": middle - reach, "step": step, "size": 1})
        if tick in (axis.low, base, axis.high):
            name = looks.plain_number(tick)
            if tick == base:
                name = f"{name} {base_name}".strip()
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


# Who is singled out?


def singled_out(groups: Sequence[Dots], width: int = WIDTH) -> Drawing:
    """100 dots a group, one for a person of 100; those singled out are dark."""
    drawing = Drawing("", width)
    for group in groups:
        gap = PART_GAP if drawing.height else 0.0
        drawing = drawing.below(_dots(group, width), gap)
    return drawing


def _dots(group: Dots, width: int) -> Drawing:
    n_dark = round(min(group.of_100, WHOLE))
    name = looks.short_name(group.group)
    number = decimals(group.of_100, 0 if group.of_100 >= DOTS_IN_A_ROW / 2 else 1)
    title = say("chart", "dots", group=name, n=number)
    drawing = Drawing(f"{title}.", width, texts=_titled(title, width))
    top = round(drawing.texts[-1]["y"] + PART_GAP + DOT, 1)
    for first, end, is_dark in ((0, n_dark, True), (n_dark, int(WHOLE), False)):
        radius = DOT if is_dark else LIGHT_DOT
        shape = "".join(_dot(place, radius) for place in range(first, end))
        if shape:
            mark = {"shape": shape, "is_filled": is_dark, "x": DOT_MARGIN, "y": top}
            drawing.marks.append(mark)
    n_rows = int(WHOLE) // DOTS_IN_A_ROW
    return replace(drawing, height=top + DOT_STEP * n_rows)


def _dot(place: int, radius: int) -> str:
    """One of 100 dots as a part of a path."""
    row, column = divmod(place, DOTS_IN_A_ROW)
    x = DOT_STEP * column - radius
    arc = f"a{radius} {radius} 0 1 0"
    return f"M{x} {DOT_STEP * row}{arc} {2 * radius} 0{arc}-{2 * radius} 0z"


# Who is worse served?


def served(
    parts: Sequence[Bars], groups: Sequence[str], truth: str, width: int = WIDTH
) -> Drawing:
    """Rates as bars from 0 to 100, their numbers at the end, a line at what was."""
    numbers = [_numbers(part.bars, truth) for part in parts]
    longest = max(len(text) for texts in numbers for text in texts)
    length = round(width - MARK_ROOM - TEXT_GAP - NUMBER_ROOM * longest, 1)
    drawing = Drawing("", width)
    for part, texts in zip(parts, numbers, strict=True):
        gap = PART_GAP if drawing.height else 0.0
        drawing = drawing.below(_bars(part, texts, groups, length, width), gap)
    return drawing


def _numbers(bars: Sequence[Bar], truth: str) -> list[str]:
    """What stands at the end of each bar."""
    rates = of_100(*[bar.of_100 / WHOLE for bar in bars])
    texts = []
    for bar, rate in zip(bars, rates, strict=True):
        was = "" if bar.was is None else f"; {truth} {decimals(bar.was, 0)}"
        texts.append(f"{rate}{was}")
    return texts


def _bars(
    part: Bars, texts: Sequence[str], groups: Sequence[str], length: float, width: int
) -> Drawing:
    drawing = Drawing("", width, texts=_titled(part.title, width))
    top = drawing.texts[-1]["y"] + PART_GAP
    said = []
    for bar, text in zip(part.bars, texts, strict=True):
        mark = looks.group_mark(groups.index(bar.group))
        _add_bar(drawing, bar, mark, round(top, 1), length)
        x = round(MARK_ROOM + length + TEXT_GAP, 1)
        drawing.texts.append(_text(text, x, round(top + BAR - 1, 1)))
        said.append(f"{looks.short_name(bar.group)}: {text}")
        top += BAR_ROW
    return replace(drawing, says=f"{part.title}: {'. '.join(said)}.", height=top)


def _add_bar(
    drawing: Drawing, bar: Bar, mark: Drawn, top: float, length: float
) -> None:
    """A bar after its group's mark, and a line at what was."""
    middle = {"x": looks.MARK_MARGIN, "y": round(top + BAR / 2, 1)}
    drawing.marks.append({**mark, **middle})
    size = {"width": _length(bar.of_100, length), "room": length}
    drawing.bars.append({**mark, **size, "x": MARK_ROOM, "y": top})
    if bar.was is not None:
        x = round(MARK_ROOM + _length(bar.was, length), 1)
        step = f"v{BAR + 4}"
        drawing.lines.append({"x": x, "y": top - 2, "step": step, "size": 2})


def _length(of_100: float, whole: float) -> float:
    return round(whole * min(max(of_100, 0.0), WHOLE) / WHOLE, 1)
