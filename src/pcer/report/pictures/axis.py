"""How are axes, marks and names of pictures placed?"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from pcer.auditing.record import Audit, BudgetResult, GroupResult
from pcer.errors import clipped
from pcer.release.attack_kinds import Proxy
from pcer.report.table import isolated
from pcer.report.tables import background

if TYPE_CHECKING:
    import jinja2


NARROW, WIDE = (
    440,
    1160,
)  # in pixels that text is laid out for: a telephone's, a screen's
CLAIM_SIZE, TEXT_SIZE, NOTE_SIZE = 15, 12, 11
# Average width of a letter in a wide font, and height of a line, as shares of the
# font's size.
LETTER, BOLD_LETTER, LINE = 0.55, 0.6, 1.32
LETTER_WIDTH, BOLD_WIDTH, LONGEST_NAME = 7, 8, 26
MARK_MARGIN = 7  # room for half a point at both ends of an axis
MOST_GROUPS, MOST_SETTINGS = 5, 12
MARK_ROW, SETTING_GAP, FLOOR_ROW = 11, 4, 30
NARROWEST, WIDEST = 62, 170  # room for the names of settings
# Colours by role, for light and dark; distinct with any colour vision.
PALETTE = {
    "ink": ("#1f2933", "#e6e9ec"),
    "muted": ("#52606d", "#a9b4c0"),
    "line": ("#c9d1d9", "#3e4c59"),
    "shade": ("#eceff2", "#232d37"),
    "band": ("#c3ccd5", "#46545f"),
    "series-0": ("#0072b2", "#56b4e9"),
    "series-1": ("#c14f00", "#f0a860"),
    "series-2": ("#00805d", "#3fcf9f"),
    "series-3": ("#a8497e", "#eda3cb"),
    "series-4": ("#6f6100", "#e3d34a"),
    "series-5": ("#5d4fb3", "#b3a8f5"),
}
LIGHT = {name: light for name, (light, _) in PALETTE.items()}
N_SERIES = 6
CIRCLE, SQUARE = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z", "M-4.5-4.5h9v9h-9z"
UP, DOWN = "M0-6L5.5 4.5h-11z", "M0 6L5.5-4.5h-11z"
# Marks of the groups in their order, drawn around 0, so that colour is not needed.
SHAPES = (CIRCLE, SQUARE, UP, "M0-6L6 0L0 6L-6 0z", DOWN)
Drawn = dict[str, Any]  # what a template places: words, coordinates, looks
Placing = Callable[[float | None], float | None]  # where a value lies on an axis


def room_for(names: Sequence[str]) -> int:
    """Pixels that the longest of some names needs."""
    return min(WIDEST, max(NARROWEST, LETTER_WIDTH * max(map(len, names)) + 8))


def drawn_groups(audit: Audit, budget: BudgetResult) -> list[str]:
    """Groups in the subject's order; of too many those that the verdict names, then the first."""
    names = audit.subject.groups
    first = sorted(names, key=lambda name: name not in budget.named)[:MOST_GROUPS]
    return [name for name in names if name in first]


def text_lines(text: str, y: float, size: int, width: int = NARROW) -> list[Drawn]:
    """A text broken into lines, the first at ``y``."""
    letters = int(width / ((BOLD_LETTER if size == CLAIM_SIZE else LETTER) * size))
    parts = textwrap.wrap(text, letters, break_on_hyphens=False) or [""]
    return [
        {"y": round(y + k * LINE * size, 1), "text": part}
        for k, part in enumerate(parts)
    ]


def further_note(n: int, what: str) -> str:
    """How many things a picture leaves to the tables; empty for none."""
    return f" {n} further {what} are in the tables." if n else ""


def axis_ends(proxy: Proxy, groups: Iterable[GroupResult]) -> background.Ends:
    """Both ends of an axis: 0, every group's exposure with its interval, then a round number."""
    costs = ((group.cost.value, *(group.cost.interval or ())) for group in groups)
    values = [0.0, *(value for value in chain(*costs) if value is not None)]
    low = min(values)
    high = max(values)
    ends = low, max(high, low + 0.01)
    for _ in range(2):  # an axis that ends at a round number may take a wider step
        step = _step(proxy, ends) / proxy.scale.per_unit
        ends = low, step * max(1, math.ceil(high / step - 1e-9))
    return ends


def _step(proxy: Proxy, ends: background.Ends) -> float:
    """From tick to tick of an axis, as it is written."""
    return round_step(proxy.scale.per_unit * (ends[1] - ends[0]) / 5)


def placing_of(ends: background.Ends, left: float, width: int) -> Placing:
    """Where a value lies on an axis from a place to the right end."""
    (low, high) = ends
    start = left + MARK_MARGIN
    room = width - left - 2 * MARK_MARGIN
    return lambda v: (
        None if v is None else round(start + room * (v - low) / (high - low), 1)
    )


def axis_ticks(
    proxy: Proxy, ends: background.Ends, left: float, width: int
) -> list[Drawn]:
    """About four round numbers, of people in 100 or of the exposure's own unit; 0 has a name."""
    unit = proxy.scale.per_unit
    is_advantage = proxy.scale.is_advantage
    low, high = (unit * end for end in ends)
    step = _step(proxy, ends)
    place = placing_of(ends, left, width)
    ticks = []
    for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        x = place(k * step / unit) or 0.0
        text = plain_number(k * step + (50 if is_advantage else 0))
        text += (" = coin" if is_advantage else " = nothing") if k == 0 else ""
        anchor = "start" if x < left + 20 else "end" if x > width - 20 else "middle"
        tick = {"x": x, "text": text, "anchor": anchor, "is_base": k == 0}
        ticks.append(tick | {"value": k * step})
    return ticks


def plain_number(value: float) -> str:
    """A number of an axis with a true minus sign."""
    return f"{value:g}".replace("-", "−")


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``.

    >>> round_step(0.3), round_step(2.0), round_step(7)
    (0.5, 2.0, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def exposure_amount(proxy: Proxy, cost: float) -> str:
    """A cost in people of 100, as the audit's sentences have it."""
    return proxy.scale.hundredths(cost).replace("-", "−")


def look(audit: Audit, name: str) -> Drawn:
    """A group's colour and shape, in every picture, card and notebook."""
    position = audit.subject.groups.index(name)
    colour = f"series-{position % N_SERIES}"
    shape = SHAPES[position % len(SHAPES)]
    return {"colour": f"var(--{colour}, {LIGHT[colour]})", "shape": shape}


def short_name(name: str) -> str:
    """A name as a picture has room for it."""
    return isolated(clipped(name, LONGEST_NAME))


def fill_template(template: str, notes: list[Drawn], **marks: Any) -> str:
    """A template with its marks, as high as its last line of notes needs."""
    height = round(notes[-1]["y"] + 6)
    form = environment().get_template(template)
    return form.render(height=height, notes=notes, **marks)


@cache
def environment() -> jinja2.Environment:
    """The templates of the room; what they are filled with is escaped."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("pcer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
