"""How is it drawn what more splits would show? The curve of ``pcer plan``."""

from __future__ import annotations

from pcer.deciding.planner import Outlook, OutlookPoint
from pcer.report.pictures.axis import N_SERIES, SHAPES, ink, short_name
from pcer.report.pictures.panels import Chart, Curve, Key, Mark, Panel, Rule, log_axis
from pcer.report.tables.decisions import hardest
from pcer.wording import listed, two_digits

TITLE = "What more splits would show"
UP = "smallest that would be shown, in 100"
NOTE = (
    "Whole lines: exposures. Broken lines: differences. Upright: the planned number "
    "of splits, {n:,}."
)
EVERY = "exposure, in every group"
ANY = "difference, between any two"
MOST_LINES = 6  # with more groups, one line stands for all
HEIGHT = 220
DIFFERENCE_DASH = "5 3"
CHOSEN_DASH = "2 2"

Line = list[tuple[float, float]]


def outlook_chart(outlook: Outlook) -> Chart:
    """The smallest exposure and difference that would be shown, over splits."""
    curves = []
    marks = []
    keys = []
    for number, (name, steps) in enumerate(_lines(outlook).items()):
        key = _key(number, name)
        keys.append(key)
        curves.append(Curve(steps, key.colour, key.dash or ""))
        marks += _marks(key, steps)

    splits = [point.n_splits for point in outlook.over_splits]
    panel = Panel(
        across=log_axis("splits", splits),
        up=log_axis(UP, [mark.y for mark in marks] or [1.0]),
        rules=[Rule(x=outlook.n_splits, dash=CHOSEN_DASH)],
        curves=curves,
        marks=marks,
    )
    note = NOTE.format(n=outlook.n_splits)
    return Chart(TITLE, [panel], keys, note, height=HEIGHT)


def _key(number: int, name: str) -> Key:
    """How a line looks; a difference is broken, so that no colour is needed."""
    return Key(
        name,
        ink(f"series-{number % N_SERIES}"),
        SHAPES[number % len(SHAPES)],
        dash=DIFFERENCE_DASH if name.startswith("difference") else "",
    )


def _marks(key: Key, steps: Line) -> list[Mark]:
    marks = []
    for n_splits, amount in steps:
        title = f"{n_splits:,.0f} splits, {key.text}: {two_digits(amount)}"
        marks.append(Mark(n_splits, amount, key.colour, key.shape, title=title))
    return marks


def _lines(outlook: Outlook) -> dict[str, Line]:
    """By name the splits and amounts of every line, in hundredths."""
    lines: dict[str, Line] = {}
    for point in outlook.over_splits:
        for name, amount in _amounts(outlook, point):
            if amount is not None:
                line = lines.setdefault(name, [])
                line.append((float(point.n_splits), 100 * amount))
    return lines


def _amounts(outlook: Outlook, point: OutlookPoint) -> list[tuple[str, float | None]]:
    """By line what so many splits would show; None: not even the largest."""
    if len(outlook.groups) + len(outlook.pairs) > MOST_LINES:
        return list(zip((EVERY, ANY), hardest(point), strict=True))
    amounts: list[tuple[str, float | None]] = []
    for name, exposure in point.exposure.items():
        amounts.append((f"exposure, {short_name(name)}", exposure))
    for pair, difference in zip(outlook.pairs, point.difference, strict=True):
        names = listed([short_name(name) for name in pair.groups])
        amounts.append((f"difference, {names}", difference))
    return amounts
