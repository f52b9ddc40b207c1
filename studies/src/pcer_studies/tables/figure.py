"""How is the paper's Figure 1 drawn from the study?

Two panels show the outcome gap (the paper's blue) and the disparity (red) against the
budget, no-DP at the right, with the paper's yellow band at the floor-dominated one.
``tables.folder`` writes it as SVG and PNG. To add a panel: a row of PANELS.
"""

from __future__ import annotations

import math

from pcer.measuring.plan import Verdict
from pcer.report.pictures.charts import files_of
from pcer.report.pictures.looks import CIRCLE, COLOUR_OF, SQUARE
from pcer.report.pictures.panels import (
    CROSS,
    Chart,
    Key,
    Mark,
    NameAxis,
    Panel,
    Rule,
    Shade,
    beside,
    chart_svg,
    extent,
    joined,
    number_axis,
)
from pcer.wording import signed
from pcer_studies import protocol
from pcer_studies.numbers import our_number
from pcer_studies.protocol import BUDGETS, Configuration, budget_label
from pcer_studies.published import key_at
from pcer_studies.results import Study

PANELS = (("a", "adult", "race"), ("b", "compas", "race"))
TITLE = "The paper's Figure 1, from our runs"
WIDTH = 880
HEIGHT = 230
SHADED = 0.1
"""The budget that the paper shades as floor-dominated."""

ORDER = (*sorted(epsilon for epsilon in BUDGETS if not math.isinf(epsilon)), math.inf)
LABELS = tuple(budget_label(epsilon) for epsilon in ORDER)
BLUE = COLOUR_OF["series-0"]
RED = "var(--paper-disparity, #c62828)"
YELLOW = "var(--paper-band, #f2c200)"
PARITY = Key("DP-Gap (left axis)", BLUE, CIRCLE)
DISPARITY = Key("PCER disparity (right axis)", RED, SQUARE)
NONE_DETECTED = Key("PCER disparity, nothing detected", RED, CROSS)
ROOM = 0.04
"""Share of an axis that stays free beyond the ends of intervals."""
ZERO_DASH = "3 3"


def figure1(study: Study) -> dict[str, bytes]:
    """``figure1.svg`` and ``figure1.png``; nothing if neither panel's data were run."""
    chart = figure_chart(study)
    if chart is None:
        return {}
    files = files_of("figure1", chart_svg(chart))
    return {name: files[name] for name in ("figure1.svg", "figure1.png")}


def figure_chart(study: Study) -> Chart | None:
    """A panel for each of the two datasets that was run; None where neither was."""
    panels = []
    for letter, dataset, attribute in PANELS:
        if study.has(dataset, attribute):
            configuration = protocol.configuration(dataset, attribute)
            title = f"({letter}) {configuration.name}"
            panels.append(_panel(study, title, configuration))
    if not panels:
        return None
    keys = (PARITY, DISPARITY, NONE_DETECTED)
    return Chart(TITLE, panels, keys, columns=len(PANELS), width=WIDTH, height=HEIGHT)


def _panel(study: Study, title: str, configuration: Configuration) -> Panel:
    """Two axes upwards over one of budgets; the two curves stand a little apart."""
    left, right = beside(2)
    parity = _marks(study, configuration, "demographic_parity_gap", left)
    disparity = _marks(study, configuration, "pcer_disparity", right)
    shaded = ORDER.index(SHADED)
    return Panel(
        across=NameAxis("ε", LABELS),
        up=number_axis("DP-Gap", _with_room(parity), colour=PARITY.colour),
        right=number_axis(
            "PCER disparity", _with_room(disparity), colour=DISPARITY.colour
        ),
        title=title,
        shades=[Shade(x=(shaded - 0.5, shaded + 0.5), colour=YELLOW, opacity=0.25)],
        rules=[Rule(y=0, colour=DISPARITY.colour, dash=ZERO_DASH, is_right=True)],
        curves=[joined(marks) for marks in (parity, disparity) if marks],
        marks=[*parity, *disparity],
        has_grid=False,
    )


def _with_room(marks: list[Mark]) -> list[float]:
    """What an axis must hold: no end of an interval lies on the frame."""
    held = [0.0, *extent(marks)]
    room = ROOM * (max(held) - min(held))
    below = min(held) - room if min(held) < 0 else 0.0
    return [*held, below, max(held) + room]


def _marks(
    study: Study, configuration: Configuration, quantity: str, shift: float
) -> list[Mark]:
    """A mark for every budget, with its interval."""
    marks = []
    for place, epsilon in enumerate(ORDER):
        number = our_number(study, key_at(configuration, epsilon, quantity))
        if number.value is None:
            continue
        verdict = study.setting(*configuration.key, epsilon).verdict
        key = PARITY
        if quantity == "pcer_disparity":
            key = NONE_DETECTED if verdict is Verdict.NONE_DETECTED else DISPARITY
        mark = Mark(
            x=place + shift,
            y=number.value,
            colour=key.colour,
            shape=key.shape,
            ends=number.ci,
            is_right=key is not PARITY,
            title=f"{LABELS[place]}, {key.text}: {signed(number.value)}",
        )
        marks.append(mark)
    return marks
