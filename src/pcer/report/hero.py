"""The picture of a finding: what each group receives, and how exposed it is. One SVG, no script.

The same in the page, in a notebook and beside Markdown. It can be read without colour: every
mark has its name and its value in words. Ink is ``currentColor`` and group colours are CSS
variables with a fallback, so it follows light and dark.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pcer.auditing import (
    Audit,
    BudgetResult,
    GroupResult,
    PairResult,
    Verdict,
    listed,
    setting_name,
)
from pcer.release import Proxy, Release
from pcer.report.rows import isolated

if TYPE_CHECKING:
    import jinja2

WIDTH = 440
MOST_GROUPS = 5
LONGEST_NAME = 26
CLAIM_SIZE, TEXT_SIZE, NOTE_SIZE = 15, 12, 11
LETTER, BOLD_LETTER = 0.55, 0.6
"""Width of a letter as a share of the font's size, on average, in a wide font."""
LINE = 1.32
"""From one line to the next, as a share of the font's size."""
ROW, TEXT_TO_MARK = 36, 13
MARK_MARGIN = 7
"""Room for half a point at both ends of the exposures' axis."""
SERIES = ("#0072b2", "#c14f00", "#00805d", "#a8497e", "#6f6100", "#5d4fb3")
"""Of the groups in their order, where no page sets its own."""

RECEIVED = {
    "positive_rate": "who receive a positive prediction",
    "true_positive_rate": "who qualify and are predicted positive",
    "precision": "who are predicted positive and qualify",
}
UNEQUAL = {
    "positive_rate": "positive predictions",
    "true_positive_rate": "positive predictions for those who qualify",
    "precision": "right ones among positive predictions",
}


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


class Row(NamedTuple):
    """One group: its words, and where its marks lie."""

    name: str
    value: str
    told: str
    text_y: float
    y: float
    colour: str
    is_worse: bool
    is_shown: bool
    bar: float | None = None
    point: float | None = None
    span: tuple[float, float] | None = None
    limit: float | None = None
    allowed: float | None = None


class Panel(NamedTuple):
    """A claim, what is measured, an axis and a row for each group."""

    claim: list[Line]
    words: list[Line]
    ticks: list[Tick]
    rows: list[Row]
    bottom: float
    axis_y: float


class Seen(NamedTuple):
    """One setting of an audit as the picture sees it."""

    audit: Audit
    told: BudgetResult
    allowed: dict[str, float]
    width: int

    @property
    def proxy(self) -> Proxy:
        """The cost."""
        return self.audit.proxy

    @property
    def names(self) -> list[str]:
        """Groups that are drawn, in the subject's order; of too many, those worse off first."""
        names = self.audit.subject.groups
        first = sorted(names, key=lambda name: name not in self.told.worse_off)[:MOST_GROUPS]
        return [name for name in names if name in first]

    @property
    def concludes(self) -> bool:
        """Whether anything is said about who is more exposed."""
        return self.told.verdict not in (Verdict.NOT_RESOLVED, Verdict.INSUFFICIENT_DATA)


def hero_svg(
    audit: Audit,
    release: Release | None = None,
    *,
    setting: int | None = None,
    width: int = WIDTH,
) -> str:
    """Draw one setting: same audit, same bytes.

    Args:
        audit: whose words and numbers are drawn.
        release: what it audited; with it, what the training allows is drawn where it says so.
        setting: position in ``audit.budgets``; the one that the headline is about if None.
        width: in pixels that text is laid out for; the picture may be shown at any size.
    """
    told = audit.told if setting is None else audit.budgets[setting]
    seen = Seen(audit, told, allowed(release, told) if release else {}, width)
    first = _received(seen)
    second = _exposed(seen, first.bottom + 22)
    notes = _lines(_notes(seen), second.axis_y + 18, NOTE_SIZE, width)
    bottom = notes[-1].y if notes else second.axis_y
    return _template().render(
        width=width,
        height=round(bottom + 6),
        title=isolated_title(audit, told),
        told=" ".join(row.told + "." for panel in (first, second) for row in panel.rows),
        panels=[first, second],
        notes=notes,
    )


def isolated_title(audit: Audit, told: BudgetResult) -> str:
    """What the picture shows, in one sentence: the headline where it is about this setting."""
    if told is audit.told:
        return audit.headline
    return f"{setting_name(told.model, told.epsilon)}: {told.verdict.words}. {exposure_claim(told)}"


def benefit_claim(audit: Audit, told: BudgetResult) -> str:
    """Who receives less, or is harmed more, beyond chance."""
    helps = audit.subject.outcome == "benefit"
    what = UNEQUAL[audit.plan.benefit]
    less = f"fewer {what}" if helps else f"more {what}"
    pairs = [pair for pair in told.pairs if pair.better_off is not None]
    worse = [_other(pair, pair.better_off) for pair in pairs]
    if not worse:
        return f"No group is shown to get {less}"
    return f"{_few(worse)}: {less}"


def exposure_claim(told: BudgetResult) -> str:
    """Who is more exposed beyond chance, after every cap."""
    if told.verdict is Verdict.INSUFFICIENT_DATA or not any(
        group.resolved for group in told.groups.values()
    ):
        return "Nobody is shown to be recognised"
    if told.verdict is Verdict.NOT_RESOLVED:
        return "Nothing can be concluded about who is more exposed"
    higher = [pair.more_exposed for pair in told.pairs if pair.more_exposed and not pair.capped]
    if not higher:
        return "No group is shown to be easier to recognise"
    return f"{_few(higher)}: easier to recognise"


def allowed(release: Release, told: BudgetResult) -> dict[str, float]:
    """By group, the exposure that the training itself allows, where the release has it."""
    found: dict[str, float] = {}
    for bound in release.bounds:
        value = getattr(bound, "allowed_advantage", None)
        here = (bound.model, bound.epsilon) == (told.model, told.epsilon)
        if here and bound.label is None and value is not None:
            found[bound.group] = min(value, found.get(bound.group, math.inf))
    return found


def _received(seen: Seen) -> Panel:
    audit = seen.audit
    claim = _lines(benefit_claim(audit, seen.told), CLAIM_SIZE, CLAIM_SIZE, seen.width)
    words = f"People of 100 {RECEIVED[audit.plan.benefit]} (a {audit.subject.outcome})"
    lines = _lines(words, claim[-1].y + 18, TEXT_SIZE, seen.width)
    top = lines[-1].y + 8
    rows = [_received_row(seen, name, top + k * ROW) for k, name in enumerate(seen.names)]
    bottom = top + ROW * len(rows)
    return Panel(claim, lines, [], rows, bottom, bottom)


def _received_row(seen: Seen, name: str, top: float) -> Row:
    mean = seen.told.groups[name].benefit.mean
    value = "not known" if mean is None else f"{round(100 * mean)} of 100"
    said = f"{_call(name)}: {value} {RECEIVED[seen.audit.plan.benefit]}"
    bar = None if mean is None else round(mean * seen.width, 1)
    return _row(seen, name, top)._replace(value=value, told=said, bar=bar, is_shown=True)


def _exposed(seen: Seen, top: float) -> Panel:
    claim = _lines(exposure_claim(seen.told), top + CLAIM_SIZE, CLAIM_SIZE, seen.width)
    words = _lines(_measured(seen), claim[-1].y + 18, TEXT_SIZE, seen.width)
    top = words[-1].y + 8
    ends = _ends(seen)
    rows = [_exposed_row(seen, name, top + k * ROW, ends) for k, name in enumerate(seen.names)]
    bottom = top + ROW * len(rows)
    return Panel(claim, words, _ticks(seen, ends), rows, bottom, bottom + 14)


def _exposed_row(seen: Seen, name: str, top: float, ends: tuple[float, float]) -> Row:
    group = seen.told.groups[name]
    x = _placing(ends, seen.width)
    cost, limit = group.cost, group.cost.upper_limit_together
    is_shown = group.resolved and seen.concludes
    value = exposure_words(seen.proxy, group, is_shown=is_shown)
    at_most = seen.allowed.get(name)
    told = f"{_call(name)}: {value}" + (
        "" if at_most is None else f"; the training allows {_number(seen.proxy, at_most)} at most"
    )
    return _row(seen, name, top)._replace(
        value=value,
        told=told,
        is_shown=is_shown,
        point=None if cost.value is None else x(cost.value),
        span=None if cost.interval is None else (x(cost.interval[0]), x(cost.interval[1])),
        limit=None if is_shown or limit is None else x(limit),
        allowed=None if at_most is None else x(at_most),
    )


def _row(seen: Seen, name: str, top: float) -> Row:
    k = seen.audit.subject.groups.index(name) % len(SERIES)
    is_worse = name in seen.told.worse_off
    return Row(
        name=_call(name) + (" (worse off)" if is_worse else ""),
        value="",
        told="",
        text_y=top + 12,
        y=top + 12 + TEXT_TO_MARK,
        colour=f"var(--series-{k}, {SERIES[k]})",
        is_worse=is_worse,
        is_shown=False,
    )


def exposure_words(proxy: Proxy, group: GroupResult, *, is_shown: bool) -> str:
    """A group's exposure in few words: its value and interval, or the most it can be."""
    cost = group.cost
    if group.too_few:
        return "too few people to tell"
    if cost.value is None:
        return "not known"
    if not is_shown:
        limit = cost.upper_limit_together
        return "not shown" + ("" if limit is None else f"; at most {_number(proxy, limit)}")
    if cost.interval is None:
        return _number(proxy, cost.value)
    low, high = (_number(proxy, end) for end in cost.interval)
    return f"{_number(proxy, cost.value)} ({low} to {high})"


def _measured(seen: Seen) -> str:
    """What the exposures count, from the scale's own words."""
    told = seen.proxy.scale.told.format(label=seen.proxy.label, found="").rstrip(" :,")
    return told[:1].upper() + told[1:]


def _notes(seen: Seen) -> str:
    hidden = len(seen.audit.subject.groups) - len(seen.names)
    level = f"{100 * seen.audit.plan.confidence_level:g}"
    parts = [f"Line: {level} % interval, for people like these."]
    hollow = [name for name in seen.names if not seen.told.groups[name].resolved]
    parts += ["Open point: not shown. Tick: the most it can be."] if hollow else []
    parts += ["Bracket: what the training allows at most."] if seen.allowed else []
    parts += [f"{hidden} further groups are in the tables."] if hidden else []
    return " ".join(parts)


def _ends(seen: Seen) -> tuple[float, float]:
    """Both ends of the exposures' axis: the base, and every mark."""
    costs = [seen.told.groups[name].cost for name in seen.names]
    marks: list[float | None] = [0.0, *seen.allowed.values()]
    for cost in costs:
        marks += [cost.value, cost.upper_limit_together, *(cost.interval or ())]
    known = [mark for mark in marks if mark is not None]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low, low + 0.01)


def _placing(ends: tuple[float, float], width: int) -> Callable[[float], float]:
    low, high = ends
    room = width - 2 * MARK_MARGIN
    return lambda value: round(MARK_MARGIN + room * (value - low) / (high - low), 1)


def _ticks(seen: Seen, ends: tuple[float, float]) -> list[Tick]:
    """About four round numbers, the base among them with its name."""
    low, high = (100 * end for end in ends)
    step = _round_step((high - low) / 4)
    x = _placing(ends, seen.width)
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [_tick(seen, k * step, x(k * step / 100)) for k in places]


def _tick(seen: Seen, place: float, x: float) -> Tick:
    is_base = place == 0
    shown = f"{place + (50 if seen.proxy.scale.is_advantage else 0):g}".replace("-", "−")
    base = "guessing" if seen.proxy.scale.is_advantage else "nothing"
    anchor = "start" if x < 20 else "end" if x > seen.width - 20 else "middle"
    return Tick(x, f"{shown} = {base}" if is_base else shown, anchor, is_base)


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _number(proxy: Proxy, cost: float) -> str:
    return proxy.scale.hundredths(cost).replace("-", "−")


def _other(pair: PairResult, name: str | None) -> str:
    first, second = pair.groups
    return second if name == first else first


def _few(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    known = list(dict.fromkeys(_call(name) for name in names))
    more = [f"{len(known) - 2} more"] if len(known) > 3 else []
    return listed([*(known[:2] if more else known), *more])


def _call(name: str) -> str:
    """A name as the picture has room for it."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return isolated(short)


def _lines(text: str, y: float, size: int, width: int) -> list[Line]:
    """A text broken into lines, the first at ``y``."""
    letters = int(width / ((BOLD_LETTER if size == CLAIM_SIZE else LETTER) * size))
    parts: Sequence[str] = textwrap.wrap(text, letters, break_on_hyphens=False) or [""]
    return [Line(round(y + k * LINE * size, 1), part) for k, part in enumerate(parts)]


@cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pcer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("hero.svg")
