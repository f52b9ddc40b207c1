"""Two pictures: exposure in every setting, and what floors do to the ratio.

SVG, no script.

They are the same in the page, in a notebook and beside Markdown: same audit, same
bytes. They can be read without colour, as every mark has its name and its value in
words. Ink is ``currentColor`` and group colours are CSS variables with a fallback, so
they follow light and dark.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from pcer.auditing.file import Audit, BudgetResult, FloorRow, GroupResult, PairResult
from pcer.auditing.words import bounds, budget_name, say, signed
from pcer.errors import clipped
from pcer.release.proxies import Proxy
from pcer.report import tables
from pcer.report.table import isolated, pair_name

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


def finding_svg(
    audit: Audit, *, width: int = NARROW, versions: Sequence[BudgetResult] = ()
) -> str:
    """Draw every group's exposure in every setting, all on one scale, with a key.

    Args:
        audit: whose numbers are drawn.
        width: in pixels that text is laid out for.
        versions: one setting over versions, to be drawn instead.
    """
    names = drawn_groups(audit, audit.told)
    settings = [*versions] or drawn_settings(audit)
    called = [f"version {n}" for n, _ in enumerate(versions, 1)] or _row_names(settings)
    scale = audit.proxy.scale
    left = _room(called)
    ends = _ends(audit.proxy, [b.groups[name] for b in settings for name in names])
    place = _placing(ends, left, width)
    ticks = _ticks(audit.proxy, ends, left, width)
    title = say(
        "chart", "versions" if versions else "title" if len(settings) > 1 else "one"
    )
    keys = _keys(audit, names, title, width)
    counted = scale.counted.format(label=audit.proxy.label)
    lines = say("chart", "lines", level=f"{100 * audit.plan.confidence_level:g}%")
    note = f"{counted}. {lines} {_zoom(audit, ticks)}".strip()
    notes = _lines(note, keys[-1]["y"] + 19, TEXT_SIZE, width)
    top = notes[-1]["y"] + 8
    places = list[Drawn]()
    for budget, row_name in zip(settings, called, strict=True):
        ys = [round(top + 8 + MARK_ROW * k, 1) for k in range(len(names))]
        setting = isolated(tables.setting_of(budget))
        marks = []
        for name, y in zip(names, ys, strict=True):
            group = budget.groups[name]
            title_of = (
                f"{setting}, {_short_name(name)}: {exposure_words(audit.proxy, group)}"
            )
            span = (
                None
                if group.cost.interval is None
                else [*map(place, group.cost.interval)]
            )
            mark = {
                "x": place(group.cost.value),
                "span": span,
                "is_clear": group.is_clear,
            }
            marks.append(mark | {"y": y, "title": title_of} | look(audit, name))
        middle = round((ys[0] + ys[-1]) / 2 + 4, 1)
        setting_at = len(places) if versions else audit.budgets.index(budget)
        places.append(
            {"name": row_name, "y": middle, "marks": marks, "setting": setting_at}
        )
        top += MARK_ROW * len(names) + SETTING_GAP
    further = _further(len(audit.subject.groups) - len(names), "groups")
    further += (
        "" if versions else _further(len(audit.budgets) - len(settings), "settings")
    )
    return _drawn(
        "finding.svg",
        _lines(further.strip(), top + (30 if further else 12), NOTE_SIZE, width),
        width=width,
        claim=title,
        keys=keys,
        words=notes,
        places=places,
        ticks=ticks,
        axis_y=round(top + 12, 1),
    )


def _zoom(audit: Audit, ticks: Sequence[Drawn]) -> str:
    """Which part of the whole scale is drawn, where it is not all of it; else nothing."""
    scale = audit.proxy.scale
    values = [tick["value"] for tick in ticks]
    whole = scale.largest * scale.per_unit
    if not values or not values[-1] - values[0] < whole < math.inf:
        return ""
    base = 50.0 if scale.is_advantage else 0.0
    form = "zoomed_coin" if scale.is_advantage else "zoomed"
    low, high = (_number(value + base) for value in (values[0], values[-1]))
    return say("chart", form, low=low, high=high, most=f"{whole + base:g}")


def exposure_words(proxy: Proxy, group: GroupResult) -> str:
    """A group's exposure in few words: its value and interval."""
    cost = group.cost
    if group.too_few or cost.value is None:
        return say("chart", "too_few" if group.too_few else "not_known")
    ends = [_amount(proxy, end) for end in cost.interval or ()]
    between = " to " if "−" in "".join(ends) else "–"
    return _amount(proxy, cost.value) + (f" ({between.join(ends)})" if ends else "")


def drawn_settings(audit: Audit) -> list[BudgetResult]:
    """All settings; of too many those of the model that the headline is about, and not too many."""
    settings = tables.least_private_first(audit)
    if len(settings) <= MOST_SETTINGS:
        return settings
    same = [budget for budget in settings if budget.model == audit.told.model]
    at = same.index(audit.told)
    start = max(0, min(at - MOST_SETTINGS // 2, len(same) - MOST_SETTINGS))
    return same[start : start + MOST_SETTINGS]


def _row_names(settings: Sequence[BudgetResult]) -> list[str]:
    """Names as rows have room for them; a single model goes without saying."""
    several = len({budget.model for budget in settings}) > 1
    names = []
    for budget in settings:
        privacy = (
            "without privacy" if budget.epsilon is None else budget_name(budget.epsilon)
        )
        name = f"{budget.model}, {privacy}" if several else privacy
        names.append(
            isolated(name if len(name) <= LONGEST_NAME else "…" + name[-LONGEST_NAME:])
        )
    return names


def _room(names: Sequence[str]) -> int:
    return min(WIDEST, max(NARROWEST, LETTER_WIDTH * max(map(len, names)) + 8))


def _keys(audit: Audit, names: Sequence[str], title: str, width: int) -> list[Drawn]:
    """Behind the title: names beside their shapes, what hollow means; in lines as they need."""
    hollow = {"colour": "currentColor", "shape": CIRCLE, "is_hollow": True}
    keys = [
        {"text": _short_name(name), "is_hollow": False, **look(audit, name)}
        for name in names
    ]
    form = "hollow" if audit.proxy.scale.coin else "hollow_gain"
    keys.append({"text": say("chart", form), **hollow})
    x = BOLD_LETTER * CLAIM_SIZE * len(title) + 30
    y = float(CLAIM_SIZE)
    for key in keys:
        room = 28.0 + (LETTER_WIDTH if key["is_hollow"] else BOLD_WIDTH) * len(
            key["text"]
        )
        if x + room > width and x > MARK_MARGIN:
            x = float(MARK_MARGIN)
            y = y + 18
        key |= {"x": round(x, 1), "y": y}
        x += room
    return keys


def floors_svg(audit: Audit) -> str:
    """Draw who is ahead at every floor: a row for each setting, or for each pair of many groups."""
    several = len(audit.budgets[0].pairs) > 1
    settings = [audit.told] if several else drawn_settings(audit)
    found = [
        (budget, pair)
        for budget in settings
        for pair in budget.pairs[: tables.MOST_PAIRS]
    ]
    pairs = [
        f"{_short_name(p.groups[0])} − {_short_name(p.groups[1])}" for _, p in found
    ]
    names = pairs if several else _row_names(settings)
    left = _room(names)
    floors = tables.audit_floors(audit)
    claim = _lines(floor_claim(audit), CLAIM_SIZE, CLAIM_SIZE)
    at = f" ({tables.setting_of(audit.told)})" if several else ""
    shapes = (
        f"Triangle up: the first group of {'the pair' if several else pairs[0]} has the higher "
        f"ratio{at}; down: the second"
    )
    words = _lines(shapes, claim[-1]["y"] + 18, TEXT_SIZE)
    step = (NARROW - left) / len(floors)
    top = words[-1]["y"] + 42
    rows = [
        {
            "name": name,
            "y": round(top + FLOOR_ROW * k, 1),
            "marks": _floor_marks(audit, *found[k]),
        }
        for k, name in enumerate(names)
    ]
    note = "Hollow: the ratios are not shown to differ in this setting, or the interval holds 0. "
    note += (
        "Shaded: every exposure is below the floor, only the rate difference is left."
    )
    every = len(audit.budgets[0].pairs if several else audit.budgets)
    note += _further(every - len(rows), "pairs" if several else "settings")
    return _drawn(
        "floors.svg",
        _lines(note, top + FLOOR_ROW * len(rows) + 6, NOTE_SIZE),
        width=NARROW,
        step=round(step - 4, 1),
        xs=[round(left + step * (k + 0.5), 1) for k in range(len(floors))],
        floors=[f"{floor:g}" for floor in floors],
        head_y=round(top - 20, 1),
        claim=claim,
        words=words,
        rows=rows,
    )


def floor_claim(audit: Audit) -> str:
    """In how many settings the choice of the floor decides who is ahead."""
    turned = 0
    for budget in audit.budgets:
        signs = (
            {row.mean > 0 for row in pair.floors if row.mean} for pair in budget.pairs
        )
        turned += any(len(both) == 2 for both in signs)
    return (
        f"The floor decides who is ahead in {turned} of {len(audit.budgets)} settings"
    )


def _floor_marks(audit: Audit, budget: BudgetResult, pair: PairResult) -> list[Drawn]:
    """Filled only where the ratios differ, and the interval at this floor has no 0."""
    marks = []
    for floor, row in tables.floor_rows(audit, pair):
        ahead = pair.groups[0 if (row.mean or 0) > 0 else 1]
        holds_zero = row.ci is not None and row.ci[0] <= 0 <= row.ci[1]
        setting = isolated(tables.setting_of(budget))
        numbers = f"{signed(row.mean)} {bounds(row.ci)}"
        share = row.floor_dominated_share if isinstance(row, FloorRow) else None
        marks.append(
            {
                "text": signed(row.mean),
                "title": f"{setting}, floor {floor:g}, {pair_name(pair.groups)}: {numbers}",
                "colour": look(audit, ahead)["colour"],
                "shape": (UP if row.mean > 0 else DOWN) if row.mean else None,
                "is_shown": pair.ratio.answer == "differs" and not holds_zero,
                "is_floored": share == 1,
            }
        )
    return marks


def drawn_groups(audit: Audit, budget: BudgetResult) -> list[str]:
    """Groups in the subject's order; of too many those that the verdict names, then the first."""
    names = audit.subject.groups
    first = sorted(names, key=lambda name: name not in budget.named)[:MOST_GROUPS]
    return [name for name in names if name in first]


def _lines(text: str, y: float, size: int, width: int = NARROW) -> list[Drawn]:
    """A text broken into lines, the first at ``y``."""
    letters = int(width / ((BOLD_LETTER if size == CLAIM_SIZE else LETTER) * size))
    parts = textwrap.wrap(text, letters, break_on_hyphens=False) or [""]
    return [
        {"y": round(y + k * LINE * size, 1), "text": part}
        for k, part in enumerate(parts)
    ]


def _further(n: int, what: str) -> str:
    return f" {n} further {what} are in the tables." if n else ""


def _ends(proxy: Proxy, groups: Iterable[GroupResult]) -> tables.Ends:
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


def _step(proxy: Proxy, ends: tables.Ends) -> float:
    """From tick to tick of an axis, as it is written."""
    return round_step(proxy.scale.per_unit * (ends[1] - ends[0]) / 5)


def _placing(ends: tables.Ends, left: float, width: int) -> Placing:
    """Where a value lies on an axis from a place to the right end."""
    (low, high) = ends
    start = left + MARK_MARGIN
    room = width - left - 2 * MARK_MARGIN
    return lambda v: (
        None if v is None else round(start + room * (v - low) / (high - low), 1)
    )


def _ticks(proxy: Proxy, ends: tables.Ends, left: float, width: int) -> list[Drawn]:
    """About four round numbers, of people in 100 or of the exposure's own unit; 0 has a name."""
    unit = proxy.scale.per_unit
    is_advantage = proxy.scale.is_advantage
    low, high = (unit * end for end in ends)
    step = _step(proxy, ends)
    place = _placing(ends, left, width)
    ticks = []
    for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        x = place(k * step / unit) or 0.0
        text = _number(k * step + (50 if is_advantage else 0))
        text += (" = coin" if is_advantage else " = nothing") if k == 0 else ""
        anchor = "start" if x < left + 20 else "end" if x > width - 20 else "middle"
        tick = {"x": x, "text": text, "anchor": anchor, "is_base": k == 0}
        ticks.append(tick | {"value": k * step})
    return ticks


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``.

    >>> round_step(0.3), round_step(2.0), round_step(7)
    (0.5, 2.0, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _amount(proxy: Proxy, cost: float) -> str:
    """A cost in people of 100, as the audit's sentences have it."""
    return proxy.scale.hundredths(cost).replace("-", "−")


def look(audit: Audit, name: str) -> Drawn:
    """A group's colour and shape, in every picture, card and notebook."""
    position = audit.subject.groups.index(name)
    colour = f"series-{position % N_SERIES}"
    shape = SHAPES[position % len(SHAPES)]
    return {"colour": f"var(--{colour}, {LIGHT[colour]})", "shape": shape}


def _short_name(name: str) -> str:
    """A name as a picture has room for it."""
    return isolated(clipped(name, LONGEST_NAME))


def _drawn(template: str, notes: list[Drawn], **marks: Any) -> str:
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
