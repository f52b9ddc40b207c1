"""The page's three pictures: the finding, exposure over settings, the floors. SVG, no script.

They are the same in the page, in a notebook and beside Markdown: same audit, same bytes. They can
be read without colour, as every mark has its name and its value in words. Ink is ``currentColor``
and group colours are CSS variables with a fallback, so they follow light and dark.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from pcer.auditing.file import Audit, BudgetResult, FloorRow, GroupResult, PairResult
from pcer.auditing.verdict import Verdict
from pcer.auditing.words import bounds, listed, setting_name, signed
from pcer.errors import clipped
from pcer.release.proxies import Proxy
from pcer.report import tables
from pcer.report.table import isolated, pair_name

if TYPE_CHECKING:
    import jinja2

WIDTH = 440  # in pixels that text is laid out for: a telephone's, enlarged elsewhere
CLAIM_SIZE, TEXT_SIZE, NOTE_SIZE = 15, 12, 11
# Average width of a letter in a wide font, and height of a line, as shares of the font's size.
LETTER, BOLD_LETTER, LINE = 0.55, 0.6, 1.32
LETTER_WIDTH, LONGEST_NAME = 7, 26
MARK_MARGIN = 7  # room for half a point at both ends of an axis
MOST_GROUPS, MOST_SETTINGS = 5, 12
# Heights in the finding: from group to group, and from a group's name to its mark.
ROW, TEXT_TO_MARK = 36, 13
MARK_ROW, SETTING_GAP, FLOOR_ROW = 14, 9, 30
NARROWEST, WIDEST = 62, 170  # room for the names of settings
# Colours by role, for light and for dark; told apart with any colour vision.
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


def finding_svg(audit: Audit, *, setting: int | None = None) -> str:
    """Draw what each group receives in one setting, and how exposed it is.

    Args:
        audit: whose words and numbers are drawn, and what its training allows where it knows.
        setting: position in ``audit.budgets``; the one that the headline is about if None.
    """
    budget = audit.told if setting is None else audit.budgets[setting]
    names, allowed = _drawn_groups(audit, budget), _allowed(audit, budget)
    received, proxy = tables.wording()[audit.plan.benefit]["who"], audit.proxy
    groups, rows = [budget.groups[name] for name in names], []
    for name in names:
        mean = budget.groups[name].benefit.mean
        value = "not known" if mean is None else f"{round(100 * mean)} of 100"
        row = _group_row(audit, budget, name, value, f"{value} {received}")
        rows.append(row | {"bar": None if mean is None else round(mean * WIDTH, 1)})
    counted = f"People of 100 {received} (a {audit.subject.outcome})"
    first = _panel(0, benefit_claim(audit, budget), counted, rows)
    ends = _ends([*allowed.values(), *(g.cost.upper_limit_together for g in groups)], groups)
    place = _placing(ends, 0)
    second = _panel(
        first["bottom"] + 22,
        exposure_claim(budget),
        proxy.scale.counted.format(label=proxy.label),
        [_exposed_row(audit, budget, name, place, allowed.get(name)) for name in names],
        _ticks(proxy, ends, 0),
    )
    notes = [f"Line: {100 * audit.plan.confidence_level:g} % interval, for people like these."]
    if not all(group.resolved for group in groups):
        notes.append("Open point: not shown. Tick: the most it can be.")
    if allowed:
        notes.append("Bracket: what the training allows, an estimate.")
    further = _further(len(audit.subject.groups) - len(names), "groups")
    other = f"{tables.setting_of(budget)}: {budget.verdict.words}. {exposure_claim(budget)}"
    return _drawn(
        "finding.svg",
        _lines(" ".join(notes) + further, second["axis_y"] + 18, NOTE_SIZE),
        title=audit.headline if budget is audit.told else other,
        titles=" ".join(row["title"] + "." for row in (*first["rows"], *second["rows"])),
        panels=[first, second],
    )


def benefit_claim(audit: Audit, budget: BudgetResult) -> str:
    """Who receives less, or is harmed more, beyond chance."""
    helps = audit.subject.outcome == "benefit"
    less = f"{'fewer' if helps else 'more'} {tables.wording()[audit.plan.benefit]['unequal']}"
    worse = [
        next(name for name in pair.groups if name != pair.better_off)
        for pair in budget.pairs
        if pair.better_off is not None
    ]
    return f"{_few(worse)}: {less}" if worse else f"No group is shown to get {less}"


def exposure_claim(budget: BudgetResult) -> str:
    """Who is more exposed beyond chance, after every downgrade."""
    is_shown = any(group.resolved for group in budget.groups.values())
    if budget.verdict is Verdict.INSUFFICIENT_DATA or not is_shown:
        return "Nobody is shown to be recognised"
    if budget.verdict is Verdict.NOT_RESOLVED:
        return "Nothing can be concluded about who is more exposed"
    higher = [pair.more_exposed for pair in budget.pairs if pair.more_exposed]
    if not higher:
        return "No group is shown to be easier to recognise"
    return f"{_few(higher)}: easier to recognise"


def _panel(
    top: float, claim: str, counted: str, rows: list[Drawn], ticks: Sequence[Drawn] = ()
) -> Drawn:
    """A claim, what is counted, rows below each other, and an axis where there are ticks."""
    claims = _lines(claim, top + CLAIM_SIZE, CLAIM_SIZE)
    words = _lines(counted, claims[-1]["y"] + 18, TEXT_SIZE)
    top = words[-1]["y"] + 8
    for k, row in enumerate(rows):
        text_y = top + ROW * k + 12
        row |= {"text_y": text_y, "y": text_y + TEXT_TO_MARK}
    bottom = top + ROW * len(rows)
    panel = {"claim": claims, "words": words, "ticks": ticks, "rows": rows}
    return panel | {"bottom": bottom, "axis_y": bottom + 14}


def _exposed_row(
    audit: Audit, budget: BudgetResult, name: str, place: Placing, allowed: float | None
) -> Drawn:
    group = budget.groups[name]
    is_shown = group.resolved and budget.verdict not in tables.UNSURE
    mark = _mark(audit, group, place, is_shown=is_shown)
    limit, title = None if is_shown else place(group.cost.upper_limit_together), mark["words"]
    if allowed is not None:
        title += f"; the training allows about {_amount(audit.proxy, allowed)}"
    row = _group_row(audit, budget, name, mark["words"], title)
    return row | mark | {"limit": limit, "allowed": place(allowed)}


def _group_row(audit: Audit, budget: BudgetResult, name: str, value: str, title: str) -> Drawn:
    """A group's name and value, without marks yet."""
    is_worse = name in budget.worse_off
    doubled = budget.verdict is Verdict.DOUBLE_DISADVANTAGE
    # A lower ratio of harms is no disadvantage by itself.
    worse = "worse off" if doubled or audit.subject.outcome == "benefit" else "lower ratio"
    short = _short_name(name)
    words = {"value": value, "title": f"{short}: {title}", "is_worse": is_worse}
    return {"name": short + (f" ({worse})" if is_worse else ""), **words, **_look(audit, name)}


def _mark(audit: Audit, group: GroupResult, place: Placing, *, is_shown: bool) -> Drawn:
    """A group's exposure: its point, its interval, and both in words."""
    ends = group.cost.interval
    return {
        "x": place(group.cost.value),
        "span": None if ends is None else [place(end) for end in ends],
        "words": exposure_words(audit.proxy, group, is_shown=is_shown),
        "is_shown": is_shown,
    }


def exposure_words(proxy: Proxy, group: GroupResult, *, is_shown: bool) -> str:
    """A group's exposure in few words: its value and interval, or the most it can be."""
    cost = group.cost
    if group.too_few:
        return "too few people to tell"
    if cost.value is None:
        return "not known"
    if not is_shown:
        limit = cost.upper_limit_together
        return "not shown" + ("" if limit is None else f"; at most {_amount(proxy, limit)}")
    if cost.interval is None:
        return _amount(proxy, cost.value)
    low, high = (_amount(proxy, end) for end in cost.interval)
    return f"{_amount(proxy, cost.value)} ({low} to {high})"


def _allowed(audit: Audit, budget: BudgetResult) -> dict[str, float]:
    """By group, the exposure that the training itself allows, where the audit knows it.

    It stands on the scale of an attacker who compares two people; on others there is none.
    """
    if not audit.proxy.scale.unit.startswith("AUC"):
        return {}
    bounds = {name: group.allowed for name, group in budget.groups.items() if group.allowed}
    return {name: b.advantage for name, b in bounds.items() if b.advantage is not None}


def exposures_svg(audit: Audit) -> str:
    """Draw every group's exposure in every setting; empty where there is one setting only."""
    if len(audit.budgets) < 2:
        return ""
    names, settings = _drawn_groups(audit, audit.told), drawn_settings(audit)
    called = _row_names(settings)
    left = _room(called)
    claim = _lines(spread_claim(audit), CLAIM_SIZE, CLAIM_SIZE)
    keys = _keys(audit, names, claim[-1]["y"] + 20)
    ends = _ends([], [budget.groups[name] for budget in settings for name in names])
    place = _placing(ends, left)
    top, places = keys[-1]["y"] + 12, []
    for budget, row_name in zip(settings, called, strict=True):
        ys = [round(top + 8 + MARK_ROW * k, 1) for k in range(len(names))]
        setting = isolated(tables.setting_of(budget))
        marks = []
        for name, y in zip(names, ys, strict=True):
            group = budget.groups[name]
            mark = _mark(audit, group, place, is_shown=group.resolved)
            title = f"{setting}, {_short_name(name)}: {mark['words']}"
            marks.append(mark | {"y": y, "title": title} | _look(audit, name))
        places.append({"name": row_name, "y": round((ys[0] + ys[-1]) / 2 + 4, 1), "marks": marks})
        top += MARK_ROW * len(names) + SETTING_GAP
    bottom = ys[-1] + 10
    words = f"{100 * audit.plan.confidence_level:g} % intervals, for people like these. "
    words += "Open: not shown." + _further(len(audit.subject.groups) - len(names), "groups")
    words += _further(len(audit.budgets) - len(settings), "settings")
    return _drawn(
        "exposures.svg",
        _lines(words, bottom + 32, NOTE_SIZE),
        left=left,
        claim=claim,
        keys=keys,
        places=places,
        ticks=_ticks(audit.proxy, ends, left),
        axis_y=round(bottom + 14, 1),
    )


def drawn_settings(audit: Audit) -> list[BudgetResult]:
    """All settings; of too many those of the model that the headline is about, and not too many."""
    if len(audit.budgets) <= MOST_SETTINGS:
        return list(audit.budgets)
    same = [budget for budget in audit.budgets if budget.model == audit.told.model]
    at = same.index(audit.told)
    start = max(0, min(at - MOST_SETTINGS // 2, len(same) - MOST_SETTINGS))
    return same[start : start + MOST_SETTINGS]


def spread_claim(audit: Audit) -> str:
    """From the smallest to the largest exposure that a setting has, where any is shown."""
    settings = drawn_settings(audit)
    if not any(group.resolved for budget in settings for group in budget.groups.values()):
        return "No exposure is shown in any setting"
    finite = [budget for budget in settings if math.isfinite(budget.largest_cost)]
    ends = []
    for pick in (min, max):
        budget = pick(finite, key=lambda budget: budget.largest_cost)
        cost = _amount(audit.proxy, max(budget.largest_cost, 0.0))
        ends.append(f"{cost} at {isolated(tables.setting_of(budget))}")
    return f"Largest exposure: {', '.join(ends)}"


def _row_names(settings: Sequence[BudgetResult]) -> list[str]:
    """Names as rows have room for them; a single model is named by the claim alone."""
    if len({budget.model for budget in settings}) == 1:
        return [setting_name(None, budget.epsilon) for budget in settings]
    names = map(tables.setting_of, settings)
    return [isolated(n if len(n) <= LONGEST_NAME else "…" + n[-LONGEST_NAME:]) for n in names]


def _room(names: Sequence[str]) -> int:
    return min(WIDEST, max(NARROWEST, LETTER_WIDTH * max(map(len, names)) + 8))


def _keys(audit: Audit, names: Sequence[str], y: float) -> list[Drawn]:
    """Names beside their shapes, in as many lines as they need."""
    keys: list[Drawn] = []
    x = float(MARK_MARGIN)
    for name in names:
        text = _short_name(name)
        room = 24.0 + LETTER_WIDTH * len(text)
        if x + room > WIDTH and x > MARK_MARGIN:
            x, y = float(MARK_MARGIN), y + 18
        keys.append({"x": x, "y": y, "text": text, **_look(audit, name)})
        x += room
    return keys


def floors_svg(audit: Audit) -> str:
    """Draw who is ahead at every floor: a row for each setting, or for each pair of many groups."""
    several = len(audit.budgets[0].pairs) > 1
    settings = [audit.told] if several else drawn_settings(audit)
    found = [(budget, pair) for budget in settings for pair in budget.pairs[: tables.MOST_PAIRS]]
    pairs = [f"{_short_name(p.groups[0])} − {_short_name(p.groups[1])}" for _, p in found]
    names = pairs if several else _row_names(settings)
    left, floors = _room(names), tables.audit_floors(audit)
    claim = _lines(floor_claim(audit), CLAIM_SIZE, CLAIM_SIZE)
    at = f" ({tables.setting_of(audit.told)})" if several else ""
    shapes = (
        f"Triangle up: the first group of {'the pair' if several else pairs[0]} has the higher "
        f"ratio{at}; down: the second"
    )
    words = _lines(shapes, claim[-1]["y"] + 18, TEXT_SIZE)
    step, top = (WIDTH - left) / len(floors), words[-1]["y"] + 42
    rows = [
        {"name": name, "y": round(top + FLOOR_ROW * k, 1), "marks": _floor_marks(audit, *found[k])}
        for k, name in enumerate(names)
    ]
    note = "Open: no disparity is shown in this setting, or the interval holds 0. "
    note += "Shaded: every cost is below the floor, only the rate difference is left."
    every = len(audit.budgets[0].pairs if several else audit.budgets)
    note += _further(every - len(rows), "pairs" if several else "settings")
    return _drawn(
        "floors.svg",
        _lines(note, top + FLOOR_ROW * len(rows) + 6, NOTE_SIZE),
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
        signs = ({row.mean > 0 for row in pair.floors if row.mean} for pair in budget.pairs)
        turned += any(len(both) == 2 for both in signs)
    return f"The floor decides who is ahead in {turned} of {len(audit.budgets)} settings"


def _floor_marks(audit: Audit, budget: BudgetResult, pair: PairResult) -> list[Drawn]:
    """Filled only where the audit shows a disparity, and the interval at this floor too."""
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
                "colour": _look(audit, ahead)["colour"],
                "shape": (UP if row.mean > 0 else DOWN) if row.mean else None,
                "is_shown": pair.disparity_shown and not holds_zero,
                "is_floored": share == 1,
            }
        )
    return marks


def _drawn_groups(audit: Audit, budget: BudgetResult) -> list[str]:
    """Groups in the subject's order; of too many those that the verdict names, then the first."""
    names = audit.subject.groups
    first = sorted(names, key=lambda name: name not in budget.worse_off)[:MOST_GROUPS]
    return [name for name in names if name in first]


def _lines(text: str, y: float, size: int) -> list[Drawn]:
    """A text broken into lines, the first at ``y``."""
    letters = int(WIDTH / ((BOLD_LETTER if size == CLAIM_SIZE else LETTER) * size))
    parts = textwrap.wrap(text, letters, break_on_hyphens=False) or [""]
    return [{"y": round(y + k * LINE * size, 1), "text": part} for k, part in enumerate(parts)]


def _further(n: int, what: str) -> str:
    return f" {n} further {what} are in the tables." if n else ""


def _ends(marks: Iterable[float | None], groups: Iterable[GroupResult]) -> tables.Ends:
    """Both ends of an axis: 0, every mark, and every group's exposure with its interval."""
    costs = ((group.cost.value, *(group.cost.interval or ())) for group in groups)
    values = [0.0, *(mark for mark in chain(marks, *costs) if mark is not None)]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low, low + 0.01)


def _placing(ends: tables.Ends, left: float) -> Placing:
    """Where a value lies on an axis from a place to the right end."""
    (low, high), start = ends, left + MARK_MARGIN
    room = WIDTH - left - 2 * MARK_MARGIN
    return lambda v: None if v is None else round(start + room * (v - low) / (high - low), 1)


def _ticks(proxy: Proxy, ends: tables.Ends, left: float) -> list[Drawn]:
    """About four round numbers, of people in 100 or of the cost's own unit, and the base's name."""
    unit, is_advantage = proxy.scale.per_unit, proxy.scale.is_advantage
    low, high = (unit * end for end in ends)
    step, place, ticks = round_step((high - low) / 4), _placing(ends, left), []
    for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        x = place(k * step / unit) or 0.0
        text = f"{k * step + (50 if is_advantage else 0):g}".replace("-", "−")
        text += (" = guessing" if is_advantage else " = nothing") if k == 0 else ""
        anchor = "start" if x < left + 20 else "end" if x > WIDTH - 20 else "middle"
        ticks.append({"x": x, "text": text, "anchor": anchor, "is_base": k == 0})
    return ticks


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


def _look(audit: Audit, name: str) -> Drawn:
    """A group's colour and shape."""
    position = audit.subject.groups.index(name)
    colour = f"series-{position % N_SERIES}"
    shape = SHAPES[position % len(SHAPES)]
    return {"colour": f"var(--{colour}, {LIGHT[colour]})", "shape": shape}


def _short_name(name: str) -> str:
    """A name as a picture has room for it."""
    return isolated(clipped(name, LONGEST_NAME))


def _few(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    short = list(dict.fromkeys(_short_name(name) for name in names))
    more = [f"{len(short) - 2} more"] if len(short) > 3 else []
    return listed([*(short[:2] if more else short), *more])


def _drawn(template: str, notes: list[Drawn], **marks: Any) -> str:
    """A template with its marks, as high as its last line of notes needs."""
    height, form = round(notes[-1]["y"] + 6), environment().get_template(template)
    return form.render(width=WIDTH, height=height, notes=notes, **marks)


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
