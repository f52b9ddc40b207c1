"""How is the paper's Figure 1 drawn for an audit?

A panel for each pair of groups: the parity gap (left) and Δ PCER (right) over the
settings. Beside Δ PCER stands what it would be if nothing were memorised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pcer.auditing.record import Audit
from pcer.release.file import Release
from pcer.report.pictures.axis import CIRCLE, DIAMOND, SQUARE, ink, short_name
from pcer.report.pictures.panels import (
    Chart,
    Ends,
    Key,
    Mark,
    NameAxis,
    Panel,
    Rule,
    Shade,
    beside,
    extent,
    joined,
    number_axis,
)
from pcer.report.tables import background
from pcer.report.tables.background import PairRow
from pcer.wording import bounds, signed

TITLE = "Parity gap and Δ PCER in every setting"
NOTE = (
    "Hollow: no evidence, within what it would be if nothing were memorised. "
    "Shaded: floor-dominated in most seeds. Lines: {level} intervals."
)
ZERO_DASH = "3 3"


class Series(NamedTuple):
    """One of the three curves; its colour is none of the first groups'."""

    name: str
    role: str
    shape: str
    is_right: bool

    @property
    def colour(self) -> str:
        """As the page has it, light or dark."""
        return ink(self.role)


class Point(NamedTuple):
    """What one curve shows in one setting."""

    mean: float | None
    ends: Ends | None
    is_filled: bool


PARITY = Series("DP-Gap (left)", "series-5", CIRCLE, is_right=False)
DISPARITY = Series("Δ PCER (right)", "series-4", SQUARE, is_right=True)
NULL = Series("if nothing memorised (right)", "muted", DIAMOND, is_right=True)
SERIES = (PARITY, DISPARITY, NULL)


def figure1(audit: Audit, release: Release) -> Chart:
    """The paper's Figure 1: parity gap and Δ PCER by the gap, a panel for each pair.

    Settings whose gaps are below the floor in most seeds are shaded, as in the paper. A
    mark of Δ PCER is filled only where it is beyond what it would be if nothing were
    memorised.
    """
    pairs = audit.budgets[0].pairs[: background.MOST_PAIRS]
    rows = list(background.pair_rows(audit))
    panels = []
    for pair in pairs:
        of_pair = [row for row in rows if row.pair.groups == pair.groups]
        panels.append(_pair_panel(audit, of_pair))
    keys = [Key(one.name, one.colour, one.shape, dash="") for one in SERIES]
    level = f"{100 * audit.plan.confidence_level:g}%"
    return Chart(TITLE, panels, keys, NOTE.format(level=level))


def _pair_panel(audit: Audit, rows: list[PairRow]) -> Panel:
    """One pair of groups: a row of numbers for every setting."""
    across = settings_axis(audit)
    shifts = beside(len(SERIES))
    marks: dict[Series, list[Mark]] = {}
    for series, shift in zip(SERIES, shifts, strict=True):
        marks[series] = _marks(series, rows, across.labels, shift)
    left = extent(marks[PARITY])
    right = extent([*marks[DISPARITY], *marks[NULL]])
    first, second = (short_name(name) for name in rows[0].pair.groups)
    return Panel(
        across=across,
        up=number_axis(PARITY.name, left, colour=PARITY.colour),
        right=number_axis(DISPARITY.name, right, colour=DISPARITY.colour),
        title=f"{first} − {second}",
        shades=_floored(audit, rows),
        rules=[Rule(y=0, colour=DISPARITY.colour, dash=ZERO_DASH, is_right=True)],
        curves=[
            joined(series_marks) for series_marks in marks.values() if series_marks
        ],
        marks=[*marks[PARITY], *marks[DISPARITY], *marks[NULL]],
        has_grid=False,
    )


def settings_axis(audit: Audit) -> NameAxis:
    """Settings side by side in ascending order, no-DP last."""
    has_models = any(setting.model is not None for setting in audit.budgets)
    title = "model and privacy budget ε" if has_models else "privacy budget ε"
    labels = background.setting_labels(audit)
    return NameAxis(title, tuple(short_name(label) for label in labels))


def _marks(
    series: Series, rows: list[PairRow], settings: Sequence[str], shift: float
) -> list[Mark]:
    """The marks of one curve; a setting whose number is not known has none."""
    marks = []
    for place, row in enumerate(rows):
        point = _point(series, row)
        if point.mean is None:
            continue
        name = series.name.rpartition(" (")[0]
        numbers = f"{signed(point.mean)} {bounds(point.ends)}"
        mark = Mark(
            x=place + shift,
            y=point.mean,
            colour=series.colour,
            shape=series.shape,
            ends=point.ends,
            is_filled=point.is_filled,
            is_right=series.is_right,
            title=f"{settings[place]}, {name}: {numbers}",
        )
        marks.append(mark)
    return marks


def _point(series: Series, row: PairRow) -> Point:
    if series is PARITY:
        gap = row.setting.demographic_parity_gap
        return Point(gap.mean, gap.ci, is_filled=True)
    disparity = row.published.pcer_disparity
    if series is DISPARITY:
        is_evidence = disparity.is_beyond_null is True
        return Point(disparity.mean, disparity.ci, is_filled=is_evidence)
    return Point(disparity.null_mean, disparity.null_interval, is_filled=False)


def _floored(audit: Audit, rows: list[PairRow]) -> list[Shade]:
    """Settings whose gaps are below the plan's floor in most seeds."""
    shades = []
    for place, row in enumerate(rows):
        for floor in row.published.floors:
            share = floor.floor_dominated_share or 0.0
            if floor.floor == audit.plan.floor and share > 0.5:
                shades.append(Shade(x=(place - 0.5, place + 0.5)))
    return shades
