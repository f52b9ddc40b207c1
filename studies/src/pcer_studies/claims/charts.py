"""How are the findings drawn? Every verdict, found beside allowed, gaps over noise.

Called by ``findings``. To add a figure: a function that returns its chart, or None
where there is nothing to draw, and a row in ``finding_figures``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from pcer.measuring.plan import Verdict
from pcer.report.pictures.charts import printable_svg
from pcer.report.pictures.looks import CIRCLE, COLOUR_OF, DOWN, LIGHT, N_SERIES, SQUARE
from pcer.report.pictures.panels import (
    CROSS,
    INK,
    Bend,
    Chart,
    Key,
    Mark,
    NameAxis,
    NumberAxis,
    Panel,
    Rule,
    Shade,
    beside,
    chart_svg,
)
from pcer.wording import decimals
from pcer_studies.claims.facts import (
    GapRow,
    GroupCell,
    SettingRow,
    standing_out_from,
)
from pcer_studies.claims.noise import CLIPPED_MEAN, CLIPPED_STD
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, SEEDS, budget_label

FIGURES = "figures"
"""Folder of the figures, beside the page."""
NORMAL_95 = 1.96
TITLE = "AUC − ½"
BUDGET_LABELS = [budget_label(epsilon) for epsilon in sorted(BUDGETS)]
BUDGETS_TITLE = "privacy budget ε"
COLUMNS = 2
PANEL_HEIGHT = 110
MATRIX_WIDTH = 620
ROW_HEIGHT = 26
CELL_GAP = 0.02
"""Between the cells of the matrix, as a share of a cell."""
GAP_TICKS = (0.5, 1, 2, 5, 10, 20, 40)
LOWEST_RATIO = 0.5
"""Where the axis of gaps begins, at least."""
HEADROOM = 1.2
"""Where that axis ends, as a multiple of the largest."""
EXPOSURE_TICKS = (0, 0.01, 0.03, 0.1, 0.3)
LOWEST_EXPOSURE = -0.01
HIGHEST_EXPOSURE = 0.5
CHOSEN_DASH = "2 2"
# How far apart the two marks of a budget stand, as a share of its room.
SPREAD = 0.44
PUBLISHED = "published"
OURS = "ours"
SOURCE_INKS = {PUBLISHED: COLOUR_OF["series-0"], OURS: COLOUR_OF["series-1"]}
VERDICT_COLOURS = {
    Verdict.DOUBLE_DISADVANTAGE: "#7a1f3d",
    Verdict.EXPOSURE_DIFFERS: "#b3475f",
    Verdict.RATIO_DIFFERS: LIGHT["series-1"],
    Verdict.EQUAL_WITHIN_MARGIN: LIGHT["series-3"],
    Verdict.NO_DIFFERENCE_SHOWN: LIGHT["band"],
    Verdict.FLOOR_DOMINATED: LIGHT["series-4"],
    Verdict.NONE_DETECTED: LIGHT["shade"],
    Verdict.INSUFFICIENT_DATA: "#ffffff",
}
GROUPS = [*dict.fromkeys(chain.from_iterable(one.groups for one in CONFIGURATIONS))]
EASIER = "▲"
WORSE_SERVED = "▼"
FOUND = "found by LiRA"
ALLOWED = "allowed by training"


def finding_figures(
    gaps: Sequence[GapRow], settings: Sequence[SettingRow]
) -> dict[str, bytes]:
    """SVG files by name; a figure without rows is left out."""
    charts = {
        "findings-verdicts.svg": _verdict_chart(settings),
        "findings-allowed.svg": _allowed_chart(settings),
        "findings-gaps.svg": _gap_chart(gaps),
    }
    drawings = {}
    for name, chart in charts.items():
        if chart is not None:
            drawings[name] = printable_svg(chart_svg(chart)).encode()
    return drawings


def has_allowed(row: SettingRow) -> bool:
    """Whether found and allowed stand on one scale for both groups of a setting."""
    if not row.private or not row.on_attack_scale:
        return False
    return all(
        group.allowed is not None and math.isfinite(group.found + group.error)
        for group in row.groups
    )


def _verdict_chart(rows: Sequence[SettingRow]) -> Chart | None:
    """A cell for every setting: its verdict, and who is easier and worse served."""
    if not rows:
        return None
    titles = list(dict.fromkeys(row.title for row in rows))
    cells = []
    for row in rows:
        across = BUDGET_LABELS.index(budget_label(row.epsilon))
        up = len(titles) - 1 - titles.index(row.title)
        half = 0.5 - CELL_GAP
        cell = Shade(
            x=(across - half, across + half),
            y=(up - half, up + half),
            colour=VERDICT_COLOURS[row.verdict],
            opacity=1,
            text=_answers(row),
            ink="#ffffff" if row.verdict.is_alarm else LIGHT["ink"],
            title=f"{row.title}, {budget_label(row.epsilon)}: {row.verdict.words}",
        )
        cells.append(cell)
    panel = Panel(
        across=NameAxis(BUDGETS_TITLE, tuple(BUDGET_LABELS)),
        up=NameAxis("", tuple(reversed(titles))),
        shades=cells,
        has_grid=False,
    )
    occurring = {row.verdict for row in rows}
    keys = []
    for verdict, colour in VERDICT_COLOURS.items():
        if verdict in occurring:
            keys.append(Key(verdict.words, colour, SQUARE))
    height = ROW_HEIGHT * len(titles)
    return Chart(
        "The verdict in every setting", [panel], keys, width=MATRIX_WIDTH, height=height
    )


def _answers(row: SettingRow) -> str:
    """Who is easier to spot, and who is worse served, each behind its triangle."""
    configuration = row.configuration
    short = dict(zip(configuration.groups, configuration.short, strict=True))
    if row.easier and row.easier == row.worse_served:
        return f"{EASIER}{WORSE_SERVED}{short[row.easier]}"
    answers = []
    if row.easier:
        answers.append(f"{EASIER}{short[row.easier]}")
    if row.worse_served:
        answers.append(f"{WORSE_SERVED}{short[row.worse_served]}")
    return " ".join(answers)


def _allowed_chart(settings: Sequence[SettingRow]) -> Chart | None:
    """A panel for each attribute: what was found in each group, and what is allowed."""
    rows = [row for row in settings if has_allowed(row)]
    if not rows:
        return None
    panels = []
    for title in dict.fromkeys(row.title for row in rows):
        of_title = [row for row in rows if row.title == title]
        panels.append(_allowed_panel(title, of_title))
    names = set()
    for row in rows:
        names |= {group.name for group in row.groups}
    keys = [Key(name, _group_ink(name)) for name in GROUPS if name in names]
    keys += [Key(FOUND, INK, CIRCLE), Key(ALLOWED, INK, DOWN)]
    return Chart(
        "Exposure found and allowed", panels, keys, columns=COLUMNS, height=PANEL_HEIGHT
    )


def bent_around_zero(constant: float) -> Bend:
    """Nearly straight up to ``constant`` on both sides of 0, logarithmic beyond."""

    def bend(value: float) -> float:
        return math.copysign(math.log1p(abs(value) / constant), value)

    return bend


def _allowed_panel(title: str, rows: Sequence[SettingRow]) -> Panel:
    labels = [label for label in BUDGET_LABELS if label != budget_label(math.inf)]
    marks = []
    for row in rows:
        place = labels.index(budget_label(row.epsilon))
        for group, shift in zip(row.groups, beside(2, SPREAD), strict=True):
            marks += _allowed_marks(row, group, place + shift)
    return Panel(
        across=NameAxis(BUDGETS_TITLE, tuple(labels)),
        up=NumberAxis(
            TITLE,
            LOWEST_EXPOSURE,
            HIGHEST_EXPOSURE,
            EXPOSURE_TICKS,
            bend=bent_around_zero(0.01),
        ),
        title=title,
        rules=[Rule(y=0)],
        marks=marks,
    )


def _allowed_marks(row: SettingRow, group: GroupCell, x: float) -> list[Mark]:
    """What LiRA finds in a group, and what the training allows."""
    where = f"{budget_label(row.epsilon)}, {group.name}"
    colour = _group_ink(group.name)
    half_width = NORMAL_95 * group.error
    found = Mark(
        x,
        group.found,
        colour,
        ends=(group.found - half_width, group.found + half_width),
        title=f"{where}, {FOUND}: {decimals(group.found, 4)}",
    )
    allowed = group.allowed or 0.0
    title = f"{where}, {ALLOWED}: {decimals(allowed, 4)}"
    return [found, Mark(x, allowed, colour, DOWN, title=title)]


def _group_ink(name: str) -> str:
    return COLOUR_OF[f"series-{GROUPS.index(name) % N_SERIES}"]


def _gap_chart(rows: Sequence[GapRow]) -> Chart | None:
    """A panel for each group: every gap over its noise level, published and ours."""
    marks_by_panel = _gap_marks(rows)
    ratios = [mark.y for mark in chain.from_iterable(marks_by_panel.values())]
    if not ratios:
        return None
    high = HEADROOM * max(ratios)
    ticks = tuple(tick for tick in GAP_TICKS if tick <= high)
    up = NumberAxis(
        "mean gap ÷ noise level", LOWEST_RATIO, high, ticks, bend=math.log10
    )
    stands_out = standing_out_from(len(ratios) // 2)
    panels = []
    for title, marks in marks_by_panel.items():
        panels.append(_gap_panel(title, up, marks, stands_out))
    keys = [
        Key(f"{PUBLISHED} (left)", SOURCE_INKS[PUBLISHED]),
        Key(f"{OURS} (right)", SOURCE_INKS[OURS]),
        Key("told from chance", INK, CIRCLE),
        Key("within chance", INK, CROSS),
    ]
    return Chart(
        "Mean gaps over their noise level",
        panels,
        keys,
        columns=COLUMNS,
        height=PANEL_HEIGHT,
    )


def _gap_marks(rows: Sequence[GapRow]) -> dict[str, list[Mark]]:
    """By panel two marks a gap, of those that have a noise level."""
    left, right = beside(2, SPREAD)
    marks: dict[str, list[Mark]] = {}
    for row in rows:
        panel = marks.setdefault(f"{row.configuration.name}: {row.group}", [])
        printed = row.published
        if printed.noise_level:
            ratio = printed.value / printed.noise_level
            panel.append(_gap_mark(row, PUBLISHED, ratio, left, printed.stands_out))
        if row.noise_level:
            ratio = row.gap / row.noise_level
            panel.append(_gap_mark(row, OURS, ratio, right, row.detected))
    return marks


def _gap_mark(
    row: GapRow, source: str, ratio: float, shift: float, is_signal: bool
) -> Mark:
    """One gap; a ratio below the axis lies at its lower end."""
    budget = budget_label(row.epsilon)
    return Mark(
        x=BUDGET_LABELS.index(budget) + shift,
        y=max(ratio, LOWEST_RATIO),
        colour=SOURCE_INKS[source],
        shape=CIRCLE if is_signal else CROSS,
        title=f"{budget}, {source}: {decimals(ratio, 2)}",
    )


def _gap_panel(
    title: str, up: NumberAxis, marks: Sequence[Mark], stands_out: float
) -> Panel:
    """Where means lie if nothing is memorised, and from where a gap stands out."""
    half_width = NORMAL_95 * CLIPPED_STD / CLIPPED_MEAN / len(SEEDS) ** 0.5
    return Panel(
        across=NameAxis(BUDGETS_TITLE, tuple(BUDGET_LABELS)),
        up=up,
        title=title,
        shades=[Shade(y=(1 - half_width, 1 + half_width))],
        rules=[Rule(y=1), Rule(y=stands_out, dash=CHOSEN_DASH)],
        marks=marks,
        has_grid=False,
    )
