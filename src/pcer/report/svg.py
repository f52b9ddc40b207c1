"""What small pictures are made of: lines of text, an axis, names and numbers, the templates.

Pictures are SVG of our own, without script: the same in a page, in a notebook and in a file.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pcer.auditing import listed
from pcer.release import Proxy
from pcer.report.rows import isolated

if TYPE_CHECKING:
    import jinja2

WIDTH = 440
"""In pixels that text is laid out for: a telephone's, enlarged elsewhere."""
LONGEST_NAME = 26
CLAIM_SIZE, TEXT_SIZE, NOTE_SIZE = 15, 12, 11
LETTER, BOLD_LETTER = 0.55, 0.6
"""Width of a letter as a share of the font's size, on average, in a wide font."""
LINE = 1.32
"""From one line to the next, as a share of the font's size."""
MARK_MARGIN = 7
"""Room for half a point at both ends of an axis."""
SERIES = ("#0072b2", "#c14f00", "#00805d", "#a8497e", "#6f6100", "#5d4fb3")
"""Of the groups in their order, where no page sets its own."""

Ends = tuple[float, float]


class Line(NamedTuple):
    """A line of text at its height."""

    y: float
    text: str


class Tick(NamedTuple):
    """A place on an axis; the base is where nobody is exposed."""

    x: float
    text: str
    anchor: str
    is_base: bool


def lines(text: str, y: float, size: int, width: float) -> list[Line]:
    """A text broken into lines, the first at ``y``."""
    letters = int(width / ((BOLD_LETTER if size == CLAIM_SIZE else LETTER) * size))
    parts: Sequence[str] = textwrap.wrap(text, letters, break_on_hyphens=False) or [""]
    return [Line(round(y + k * LINE * size, 1), part) for k, part in enumerate(parts)]


def ends(marks: Iterable[float | None]) -> Ends:
    """Both ends of an axis: 0, and every mark."""
    known = [0.0, *(mark for mark in marks if mark is not None)]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low, low + 0.01)


def placing(ends: Ends, left: float, right: float) -> Callable[[float], float]:
    """Where a value lies on an axis between two places."""
    (low, high), start = ends, left + MARK_MARGIN
    room = right - left - 2 * MARK_MARGIN
    return lambda value: round(start + room * (value - low) / (high - low), 1)


def exposure_ticks(proxy: Proxy, ends: Ends, left: float, right: float) -> list[Tick]:
    """About four round numbers, of people in 100 or of the cost's own unit, and the base's name."""
    unit = proxy.scale.per_unit
    low, high = (unit * end for end in ends)
    step = round_step((high - low) / 4)
    x = placing(ends, left, right)
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [_tick(proxy, k * step, x(k * step / unit), left, right) for k in places]


def _tick(proxy: Proxy, place: float, x: float, left: float, right: float) -> Tick:
    is_base = place == 0
    shown = f"{place + (50 if proxy.scale.is_advantage else 0):g}".replace("-", "−")
    base = "guessing" if proxy.scale.is_advantage else "nothing"
    anchor = "start" if x < left + 20 else "end" if x > right - 20 else "middle"
    return Tick(x, f"{shown} = {base}" if is_base else shown, anchor, is_base)


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``.

    >>> round_step(0.3), round_step(2.0), round_step(7)
    (0.5, 2.0, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def amount(proxy: Proxy, cost: float) -> str:
    """A cost in people of 100, as the audit's sentences have it."""
    return proxy.scale.hundredths(cost).replace("-", "−")


def colour(position: int) -> str:
    """Of the group at a position among all."""
    k = position % len(SERIES)
    return f"var(--series-{k}, {SERIES[k]})"


def short_name(name: str) -> str:
    """A name as a picture has room for it."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return isolated(short)


def few(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    known = list(dict.fromkeys(short_name(name) for name in names))
    more = [f"{len(known) - 2} more"] if len(known) > 3 else []
    return listed([*(known[:2] if more else known), *more])


@cache
def template(name: str) -> jinja2.Template:
    """A picture's template; what it is filled with is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pcer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
