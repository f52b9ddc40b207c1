"""The pictures of two answers: numbers in places, no whisker, nothing cut, escaped."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer.auditing import sentences
from pcer.auditing.sentences.rows import Bar, Bars, Points
from pcer.errors import printable
from pcer.report.pictures import answers, looks
from pcer.report.pictures.answers import (
    WIDTH,
    Drawing,
    drawing_svg,
    row_drawing,
    served,
    spotting,
)
from tests.pages import hostile_audit, mixed_audit

SVG = "{http://www.w3.org/2000/svg}"
WIDEST_LETTER = 6.7  # pixels of a digit or small letter of 11 pixels in a wide font
GROUPS = [f"group {k}" for k in range(6)]
NAMES = st.text(min_size=1, max_size=40).map(printable)
RATES = st.floats(0, 100)


def points_of(values, difference) -> Points:
    names = GROUPS[: len(values)]
    success = dict(zip(names, sorted(values), strict=True))
    return Points("RMIA", success, (GROUPS[0], GROUPS[1]), difference)


def numbers_of(drawing: Drawing, row: int) -> list[tuple[float, float]]:
    """Numbers of an axis (0: of the points, -1: of the bar), and where they stand."""
    numbers = [text for text in drawing.texts if is_number(text["text"])]
    height = sorted({text["y"] for text in numbers})[row]
    found = []
    for text in numbers:
        if text["y"] == height:
            value = float(text["text"].split(" ")[0].replace("−", "-"))
            found.append((value, text["x"]))
    return sorted(found)


def is_number(text: str) -> bool:
    return re.fullmatch(r"−?[\d.e+-]+( coin)?", text.replace("e−", "e-")) is not None


def between(axis: list[tuple[float, float]], value: float) -> float:
    """Where a value lies, by the numbers that the axis prints."""
    (low, left), *_, (high, right) = axis
    return left + (value - low) * (right - left) / (high - low)


@given(
    st.lists(st.floats(40, 100), min_size=2, max_size=5),
    st.floats(-20, 20),
    st.floats(0.1, 20),
)
def test_marks_and_the_bar_lie_where_their_numbers_are(values, low, length):
    high = low + length
    drawing = spotting(points_of(values, (low, high)), GROUPS)
    axis = numbers_of(drawing, 0)
    for value, mark in zip(sorted(values), drawing.marks, strict=True):
        assert mark["x"] == pytest.approx(between(axis, value), abs=0.2)
    axis = numbers_of(drawing, -1)
    assert 0.0 in [value for value, _ in axis]
    (bar,) = [line for line in drawing.lines if line["size"] == answers.BAR_SIZE]
    end = bar["x"] + float(bar["step"][1:])
    assert bar["x"] == pytest.approx(between(axis, low), abs=0.3)
    assert end == pytest.approx(between(axis, high), abs=0.4)
    assert bar["x"] >= 0
    assert end <= WIDTH


def test_the_coin_is_on_the_axis_and_no_group_has_a_whisker():
    drawing = spotting(points_of([52.8, 52.2], (-0.1, 1.4)), GROUPS)
    assert "50 coin" in [text["text"] for text in drawing.texts]
    across = [line for line in drawing.lines if line["step"].startswith("h")]
    assert len(across) == 1
    assert across[0]["y"] not in {mark["y"] for mark in drawing.marks}
    without = spotting(points_of([52.8, 52.2], None), GROUPS)
    assert len(without.texts) < len(drawing.texts)


def test_of_many_groups_the_compared_and_the_extremes_are_drawn():
    names = [f"group {k}" for k in range(9)]
    success = {name: 50.0 + k for k, name in enumerate(names)}
    drawing = spotting(Points("RMIA", success, (names[4], names[3]), None), names)
    drawn = re.findall(r"group \d", drawing.says)
    assert drawn == [names[0], names[1], names[3], names[4], names[8]]


@given(st.floats(0.001, 50), st.floats(0.001, 50))
def test_numbers_of_an_axis_neither_collide_nor_leave_the_picture(low, length):
    values = [50 + low, min(50 + low + length, 100)]
    drawing = spotting(points_of(values, (-length, low)), GROUPS)
    rows: dict[float, list[tuple[float, float]]] = {}
    for text in drawing.texts:
        if is_number(text["text"]):
            # The coin's name stands after its number, at the left end of the axis.
            width = WIDEST_LETTER * len(text["text"].removesuffix(" coin"))
            shift = {"start": 0.0, "middle": width / 2, "end": width}[text["anchor"]]
            start = text["x"] - shift
            rows.setdefault(text["y"], []).append((start, start + width))
    for ends in rows.values():
        assert min(ends)[0] >= 0
        assert max(end for _, end in ends) <= WIDTH
        for (_, end), (start, _) in pairwise(sorted(ends)):
            assert end <= start


@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=6))
def test_bars_are_as_long_as_their_rates_and_their_numbers_are_not_cut(rates):
    bars = [Bar(GROUPS[k], *both) for k, both in enumerate(rates)]
    drawing = served([Bars("predicted, of all 100; mark: were", bars)], GROUPS, "were")
    for bar, drawn, line in zip(bars, drawing.bars, drawing.lines, strict=True):
        whole = drawn["room"]
        assert drawn["width"] == pytest.approx(whole * bar.of_100 / 100, abs=0.1)
        assert line["x"] - drawn["x"] == pytest.approx(whole * bar.was / 100, abs=0.2)
    for text in drawing.texts:
        assert text["x"] + WIDEST_LETTER * len(text["text"]) <= WIDTH or text["x"] == 0


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_whatever_groups_are_called_the_picture_is_text_and_marks(names):
    bars = [Bar(name, 20.0) for name in names]
    points = Points(names[0], dict.fromkeys(names, 51.0), (names[1], names[0]), (0, 1))
    drawings = (spotting(points, names), served([Bars(names[0], bars)], names, "were"))
    for drawing in drawings:
        allowed = {"svg", "title", "style", "text", "path", "rect", "g"}
        elements = ElementTree.fromstring(drawing_svg(drawing)).iter()
        assert {element.tag.removeprefix(SVG) for element in elements} <= allowed


def test_groups_have_marks_of_their_own_in_one_colour():
    marks = [looks.group_mark(position) for position in range(10)]
    assert len({(mark["shape"], mark["is_filled"]) for mark in marks}) == 10
    assert {mark["colour"] for mark in marks} == {looks.COLOUR_OF["group"]}
    audit = mixed_audit()
    first, second = (looks.look(audit, name) for name in looks.marked_groups(audit))
    assert first["is_filled"]
    assert not second["is_filled"]


def test_two_rows_have_a_picture_and_no_picture_has_the_alarm_colour():
    for audit in (mixed_audit(), hostile_audit()):
        rows = sentences.of(audit, audit.told).rows
        drawings = [row_drawing(row, audit) for row in rows]
        assert [drawing is not None for drawing in drawings][2:] == [True, *[False] * 3]
        for drawing in drawings:
            if drawing is not None:
                assert "alarm" not in drawing_svg(drawing)
