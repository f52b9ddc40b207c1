"""The second picture: every group's exposure in every setting, on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pcer.auditing import Audit, BudgetResult, setting_name
from pcer.report.hero import drawn_groups, exposure_words
from pcer.report.rows import isolated
from pcer.report.svg import (
    CLAIM_SIZE,
    LONGEST_NAME,
    NOTE_SIZE,
    WIDTH,
    Ends,
    Line,
    amount,
    colour,
    ends,
    exposure_ticks,
    lines,
    placing,
    short_name,
    template,
)

SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M-4.5-4.5h9v9h-9z",
    "M0-6L5.5 4.5h-11z",
    "M0-6L6 0L0 6L-6 0z",
    "M0 6L5.5-4.5h-11z",
)
"""Of the groups in their order, so that colour is not needed: drawn around 0."""
MARK_ROW, SETTING_GAP = 14, 9
MOST_SETTINGS = 12
LETTER_WIDTH, NARROWEST, WIDEST = 7, 62, 170


class Mark(NamedTuple):
    """A group in a setting."""

    y: float
    x: float | None
    span: tuple[float, float] | None
    told: str
    colour: str
    shape: str
    is_shown: bool


class Place(NamedTuple):
    """A setting: its name and its marks."""

    name: str
    y: float
    marks: list[Mark]


class GroupKey(NamedTuple):
    """A group's name beside its shape."""

    x: float
    y: float
    text: str
    colour: str
    shape: str


def exposures_svg(audit: Audit, *, width: int = WIDTH) -> str:
    """Draw every setting's exposures; empty where there is one setting only."""
    if len(audit.budgets) < 2:
        return ""
    names, settings = drawn_groups(audit, audit.told), drawn_settings(audit)
    left = _room(settings)
    claim = lines(spread_claim(audit), CLAIM_SIZE, CLAIM_SIZE, width)
    keys = _keys(audit, names, claim[-1].y + 20, width)
    reach = _reach(settings, names)
    places = _places(audit, names, keys[-1].y + 12, (reach, left, width))
    bottom = places[-1].marks[-1].y + 10
    notes = _notes(audit, names, bottom + 32, width)
    return template("exposures.svg").render(
        width=width,
        height=round(notes[-1].y + 6),
        left=left,
        claim=claim,
        keys=keys,
        places=places,
        ticks=exposure_ticks(audit.proxy, reach, left, width),
        axis_y=round(bottom + 14, 1),
        notes=notes,
    )


def drawn_settings(audit: Audit) -> list[BudgetResult]:
    """All settings; of too many those of the model that the headline is about, and not too many."""
    if len(audit.budgets) <= MOST_SETTINGS:
        return list(audit.budgets)
    same = [one for one in audit.budgets if one.model == audit.told.model]
    at = same.index(audit.told)
    start = max(0, min(at - MOST_SETTINGS // 2, len(same) - MOST_SETTINGS))
    return same[start : start + MOST_SETTINGS]


def spread_claim(audit: Audit) -> str:
    """From the smallest to the largest exposure that a setting has, where any is shown."""
    settings = drawn_settings(audit)
    known = [(max(costs), one) for one in settings if (costs := _costs(one))]
    if not any(group.resolved for one in settings for group in one.groups.values()):
        return "No exposure is shown in any setting"
    (low, least), (high, most) = min(known, key=_first), max(known, key=_first)
    return (
        f"Largest exposure: {amount(audit.proxy, max(low, 0.0))} at {_called(least)}, "
        f"{amount(audit.proxy, high)} at {_called(most)}"
    )


def _first(pair: tuple[float, BudgetResult]) -> float:
    return pair[0]


def _costs(budget: BudgetResult) -> list[float]:
    costs = [group.cost.value for group in budget.groups.values()]
    return [cost for cost in costs if cost is not None]


def _called(budget: BudgetResult) -> str:
    return isolated(setting_name(budget.model, budget.epsilon))


def _row_names(settings: Sequence[BudgetResult]) -> list[str]:
    """Names as rows have room for them; one model is named by the claim alone."""
    if len({one.model for one in settings}) == 1:
        return [setting_name(None, one.epsilon) for one in settings]
    names = [setting_name(one.model, one.epsilon) for one in settings]
    return [isolated(n if len(n) <= LONGEST_NAME else "…" + n[-LONGEST_NAME:]) for n in names]


def _room(settings: Sequence[BudgetResult]) -> int:
    """Width of the settings' names."""
    longest = max(len(name) for name in _row_names(settings))
    return min(WIDEST, max(NARROWEST, LETTER_WIDTH * longest + 8))


def _reach(settings: Sequence[BudgetResult], names: Sequence[str]) -> Ends:
    groups = [one.groups[name] for one in settings for name in names]
    return ends([mark for g in groups for mark in (g.cost.value, *(g.cost.interval or ()))])


def _keys(audit: Audit, names: Sequence[str], y: float, width: int) -> list[GroupKey]:
    """Names beside their shapes, in as many lines as they need."""
    keys, x = [], 7.0
    for name in names:
        k = audit.subject.groups.index(name)
        text = short_name(name)
        room = 24.0 + LETTER_WIDTH * len(text)
        if x + room > width and x > 7:
            x, y = 7.0, y + 18
        keys.append(GroupKey(x, y, text, colour(k), SHAPES[k % len(SHAPES)]))
        x += room
    return keys


def _places(
    audit: Audit, names: Sequence[str], top: float, axis: tuple[Ends, float, float]
) -> list[Place]:
    places, settings = [], drawn_settings(audit)
    for one, called in zip(settings, _row_names(settings), strict=True):
        ys = [round(top + 8 + MARK_ROW * k, 1) for k in range(len(names))]
        marks = [_mark(audit, one, name, y, axis) for name, y in zip(names, ys, strict=True)]
        places.append(Place(called, round((ys[0] + ys[-1]) / 2 + 4, 1), marks))
        top += MARK_ROW * len(names) + SETTING_GAP
    return places


def _mark(
    audit: Audit, one: BudgetResult, name: str, y: float, axis: tuple[Ends, float, float]
) -> Mark:
    group, k = one.groups[name], audit.subject.groups.index(name)
    x, cost = placing(*axis), group.cost
    words = exposure_words(audit.proxy, group, is_shown=group.resolved)
    return Mark(
        y=y,
        x=None if cost.value is None else x(cost.value),
        span=None if cost.interval is None else (x(cost.interval[0]), x(cost.interval[1])),
        told=f"{_called(one)}, {short_name(name)}: {words}",
        colour=colour(k),
        shape=SHAPES[k % len(SHAPES)],
        is_shown=group.resolved,
    )


def _notes(audit: Audit, names: Sequence[str], y: float, width: int) -> list[Line]:
    hidden = len(audit.subject.groups) - len(names)
    text = f"{100 * audit.plan.confidence_level:g} % intervals, for people like these. "
    text += "Open: not shown."
    text += f" {hidden} further groups are in the tables." if hidden else ""
    left_out = len(audit.budgets) - len(drawn_settings(audit))
    text += f" {left_out} further settings are in the tables." if left_out else ""
    return lines(text, y, NOTE_SIZE, width)
