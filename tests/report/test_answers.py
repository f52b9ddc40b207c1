"""The two pictures of rows: numbers in places, no whisker, nothing cut, escaped."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer.errors import printable
from pcer.report.pictures import answers, looks
from pcer.report.pictures.answers import (
    WIDTH,
    Drawing,
    GroupPoint,
    GroupShare,
    Shares,
    Spotting,
    drawing_svg,
    served,
    spotting,
)

SVG = "{http://www.w3.org/2000/svg}"
WIDEST_LETTER = 6.7  # pixels of a digit or small letter of 11 pixels in a wide font
NAMES = st.text(min_size=1, max_size=40).map(printable)
RATES = st.floats(0, 100)


def shown(values, difference, base=50.0) -> Spotting:
    points = [GroupPoint(f"group {k}", k, value) for k, value in enumerate(values)]
    return Spotting(
        title="attacker right, of 100 (RMIA)",
        points=points,
        base=base,
        base_name="= coin",
        difference_title="group 0 − group 1, in points (0: none)",
        difference=difference,
    )


def numbers_below(drawing: Drawing, bar: bool) -> list[tuple[float, float]]:
    """Numbers of an axis, of the difference or of the points, and where they stand."""
    found = []
    heights = sorted({text["y"] for text in drawing.texts if is_number(text["text"])})
    for text in drawing.texts:
        if text["y"] == heights[-1 if bar else 0] and is_number(text["text"]):
            value = float(text["text"].split(" ")[0].replace("−", "-"))
            found.append((value, text["x"]))
    return sorted(found)


def is_number(text: str) -> bool:
    return re.fullmatch(r"−?[\d.e-]+( = coin)?", text) is not None


@given(
    st.lists(st.floats(40, 100), min_size=2, max_size=6),
    st.tuples(st.floats(-20, 20), st.floats(0.1, 20)),
)
def test_marks_and_the_bar_lie_where_their_numbers_are(values, start_and_length):
    low = start_and_length[0]
    high = low + start_and_length[1]
    drawing = spotting(shown(values, (low, high)))
    axis = numbers_below(drawing, bar=False)
    for value, mark in zip(values, drawing.marks, strict=True):
        assert mark["x"] == pytest.approx(between(axis, value), abs=0.2)
    axis = numbers_below(drawing, bar=True)
    assert 0.0 in [value for value, _ in axis]
    (bar,) = [line for line in drawing.lines if line["size"] == answers.BAR_SIZE]
    end = bar["x"] + float(bar["step"][1:])
    assert bar["x"] == pytest.approx(between(axis, low), abs=0.2)
    assert end == pytest.approx(between(axis, high), abs=0.3)
    assert bar["x"] >= 0
    assert end <= WIDTH


def between(axis: list[tuple[float, float]], value: float) -> float:
    """Where a value lies, by the numbers that the axis prints."""
    (low, left), *_, (high, right) = axis
    assert [x for _, x in axis] == sorted(x for _, x in axis)
    return left + (value - low) * (right - left) / (high - low)


def test_the_coin_is_on_the_axis_and_no_group_has_a_whisker():
    drawing = spotting(shown([52.8, 52.2], (-0.1, 1.4)))
    assert "50 = coin" in [text["text"] for text in drawing.texts]
    across = [line for line in drawing.lines if line["step"].startswith("h")]
    assert len(across) == 1
    assert across[0]["y"] not in {mark["y"] for mark in drawing.marks}
    assert len(spotting(shown([52.8, 52.2], None)).texts) < len(drawing.texts)


@given(st.floats(0.001, 100), st.floats(0.001, 100))
def test_numbers_of_an_axis_do_not_collide(low, length):
    """Neither with each other nor with the ends of the picture."""
    drawing = spotting(shown([low, low + length], (-length, low)))
    rows: dict[float, list[tuple[float, float]]] = {}
    for text in drawing.texts:
        if not is_number(text["text"]):
            continue
        width = WIDEST_LETTER * len(text["text"].removesuffix(" = coin"))
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
    bars = []
    for k, (rate, was) in enumerate(rates):
        text = f"{rate:.0f}; were {was:.0f}"
        bars.append(GroupShare(f"group {k}", k, rate, text, was))
    drawing = served([Shares("predicted, of 100 (line: were)", bars)])
    for bar, drawn, line in zip(bars, drawing.bars, drawing.lines, strict=True):
        whole = drawn["room"]
        assert drawn["width"] == pytest.approx(whole * bar.of_100 / 100, abs=0.1)
        assert line["x"] - drawn["x"] == pytest.approx(whole * bar.was / 100, abs=0.2)
    for text in drawing.texts:
        assert text["x"] + WIDEST_LETTER * len(text["text"]) <= WIDTH or text["x"] == 0


@given(st.lists(NAMES, min_size=2, max_size=5))
def test_whatever_groups_are_called_the_picture_is_text_and_marks(names):
    bars = [GroupShare(name, k, 20.0, "20") for k, name in enumerate(names)]
    points = [GroupPoint(name, k, 51.0) for k, name in enumerate(names)]
    picture = shown([51.0], (0.0, 1.0))
    picture = Spotting(**{**vars(picture), "points": points, "title": names[0]})
    for drawing in (spotting(picture), served([Shares(names[0], bars)])):
        allowed = {"svg", "title", "style", "text", "path", "rect"}
        elements = ElementTree.fromstring(drawing_svg(drawing)).iter()
        tags = {element.tag.removeprefix(SVG) for element in elements}
        assert tags <= allowed


def test_groups_are_told_apart_by_their_marks_in_one_colour():
    marks = [looks.group_mark(position) for position in range(10)]
    assert len({(mark["shape"], mark["is_filled"]) for mark in marks}) == 10
    assert {mark["colour"] for mark in marks} == {looks.COLOUR_OF["group"]}
    assert marks[0]["is_filled"]
    assert not marks[1]["is_filled"]
