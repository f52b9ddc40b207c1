"""How is every group's exposure drawn, in every setting, on one scale?

``finding_svg`` is the picture of the page, of notebooks and of ``Audit.plot``; a trend
draws one setting over versions with it. ``templates/finding.svg`` places the marks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pcer.auditing.record import Audit, BudgetResult, GroupResult
from pcer.release.attack_kinds import AttackKind
from pcer.report.pictures.axis import (
    BOLD_LETTER,
    BOLD_WIDTH,
    CIRCLE,
    CLAIM_SIZE,
    LETTER_WIDTH,
    LONGEST_NAME,
    MARK_MARGIN,
    MARK_ROW,
    MOST_SETTINGS,
    NARROW,
    NOTE_SIZE,
    SETTING_GAP,
    TEXT_SIZE,
    Drawn,
    ExposureAxis,
    drawn_groups,
    exposure_amount,
    fill_template,
    further_note,
    look,
    plain_number,
    room_for,
    short_name,
    text_lines,
)
from pcer.report.table import isolated
from pcer.report.tables import background
from pcer.wording import SettingName, say

BELOW_KEYS = 19  # pixels from the last line of keys to the note
BELOW_NOTE = 8
BELOW_ROWS = 12  # to the numbers of the axis
BELOW_AXIS = 18  # and from there to what stands below


class SettingRow(NamedTuple):
    """A setting in the picture: its name there, and its place in the page's menu."""

    setting: BudgetResult
    name: str
    place: int


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
    rows = _version_rows(versions) if versions else _setting_rows(audit)
    groups = _drawn_groups(rows, names)
    left = room_for([row.name for row in rows])
    axis = ExposureAxis.of(audit.proxy, groups, left=left, width=width)

    title = _title(len(rows), is_trend=bool(versions))
    keys = _keys(audit, names, title, width)
    note = _note(audit, axis)
    notes = text_lines(note, keys[-1]["y"] + BELOW_KEYS, TEXT_SIZE, width)

    row_height = MARK_ROW * len(names) + SETTING_GAP
    first = notes[-1]["y"] + BELOW_NOTE
    places: list[Drawn] = []
    top = first
    for row in rows:
        places.append(_drawn_row(audit, row, names, axis, top))
        top += row_height

    further = _left_out(audit, names, rows, is_trend=bool(versions))
    below = top + BELOW_ROWS + (BELOW_AXIS if further else 0)
    return fill_template(
        "finding.svg",
        text_lines(further.strip(), below, NOTE_SIZE, width),
        width=width,
        claim=title,
        keys=keys,
        words=notes,
        places=places,
        ticks=axis.ticks(),
        axis_y=round(top + BELOW_ROWS, 1),
    )


def _drawn_groups(
    rows: Sequence[SettingRow], names: Sequence[str]
) -> list[GroupResult]:
    groups: list[GroupResult] = []
    for row in rows:
        groups += [row.setting.groups[name] for name in names]
    return groups


def _setting_rows(audit: Audit) -> list[SettingRow]:
    settings = drawn_settings(audit)
    rows = []
    for setting, name in zip(settings, row_names(settings), strict=True):
        rows.append(SettingRow(setting, name, audit.budgets.index(setting)))
    return rows


def _version_rows(versions: Sequence[BudgetResult]) -> list[SettingRow]:
    rows = []
    for place, setting in enumerate(versions):
        rows.append(SettingRow(setting, f"version {place + 1}", place))
    return rows


def _title(n_rows: int, *, is_trend: bool) -> str:
    if is_trend:
        return say("chart", "versions")
    return say("chart", "title" if n_rows > 1 else "one")


def _note(audit: Audit, axis: ExposureAxis) -> str:
    """What is counted, what lines are, and whether a part of the scale is drawn."""
    counted = audit.proxy.scale.counted.format(label=audit.proxy.label)
    lines = say("chart", "lines", level=f"{100 * audit.plan.confidence_level:g}%")
    return f"{counted}. {lines} {_zoom(axis)}".strip()


def _drawn_row(
    audit: Audit,
    row: SettingRow,
    names: Sequence[str],
    axis: ExposureAxis,
    top: float,
) -> Drawn:
    """A setting's name, and below each other the marks of its groups."""
    heights = [round(top + 8 + MARK_ROW * k, 1) for k in range(len(names))]
    setting = isolated(background.setting_of(row.setting))
    marks = []
    for name, y in zip(names, heights, strict=True):
        group = row.setting.groups[name]
        said = exposure_words(audit.proxy, group)
        mark: Drawn = {
            "x": axis.place(group.cost.value),
            "span": None,
            "is_clear": group.is_clear,
            "y": y,
            "title": f"{setting}, {short_name(name)}: {said}",
        }
        if group.cost.interval is not None:
            mark["span"] = [axis.place(end) for end in group.cost.interval]
        marks.append(mark | look(audit, name))
    middle = round((heights[0] + heights[-1]) / 2 + 4, 1)
    return {"name": row.name, "y": middle, "marks": marks, "setting": row.place}


def _left_out(
    audit: Audit, names: Sequence[str], rows: Sequence[SettingRow], *, is_trend: bool
) -> str:
    """Which groups and settings are in the tables only."""
    text = further_note(len(audit.subject.groups) - len(names), "groups")
    if not is_trend:
        text += further_note(len(audit.budgets) - len(rows), "settings")
    return text


def _zoom(axis: ExposureAxis) -> str:
    """Which part of the scale is drawn, where it is not all of it; else nothing."""
    scale = axis.proxy.scale
    values = [tick["value"] for tick in axis.ticks()]
    whole = scale.largest * scale.per_unit
    if not values or not values[-1] - values[0] < whole < math.inf:
        return ""
    base = 50.0 if scale.is_advantage else 0.0
    form = "zoomed_coin" if scale.is_advantage else "zoomed"
    low = plain_number(values[0] + base)
    high = plain_number(values[-1] + base)
    return say("chart", form, low=low, high=high, most=f"{whole + base:g}")


def exposure_words(proxy: AttackKind, group: GroupResult) -> str:
    """A group's exposure in few words: its value and interval."""
    cost = group.cost
    if group.too_few:
        return say("chart", "too_few")
    if cost.value is None:
        return say("chart", "not_known")
    value = exposure_amount(proxy, cost.value)
    if cost.interval is None:
        return value
    ends = [exposure_amount(proxy, end) for end in cost.interval]
    has_minus = any("−" in end for end in ends)
    between = " to " if has_minus else "–"
    return f"{value} ({between.join(ends)})"


def drawn_settings(audit: Audit) -> list[BudgetResult]:
    """All settings; of too many some of the model that the headline is about."""
    settings = background.least_private_first(audit)
    if len(settings) <= MOST_SETTINGS:
        return settings
    same = [budget for budget in settings if budget.model == audit.told.model]
    told_at = same.index(audit.told)
    last_start = len(same) - MOST_SETTINGS
    start = max(0, min(told_at - MOST_SETTINGS // 2, last_start))
    return same[start : start + MOST_SETTINGS]


def row_names(settings: Sequence[BudgetResult]) -> list[str]:
    """Names as rows have room for them; a single model goes without saying."""
    has_several_models = len({setting.model for setting in settings}) > 1
    return [
        isolated(_row_name(setting, with_model=has_several_models))
        for setting in settings
    ]


def _row_name(setting: BudgetResult, *, with_model: bool) -> str:
    name = "without privacy"
    if setting.epsilon is not None:
        name = SettingName(None, setting.epsilon).full
    if with_model:
        name = f"{setting.model}, {name}"
    return name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME:]}"


def _keys(audit: Audit, names: Sequence[str], title: str, width: int) -> list[Drawn]:
    """Behind the title: names beside their shapes, and what hollow means."""
    keys = list(_key_entries(audit, names))
    x = BOLD_LETTER * CLAIM_SIZE * len(title) + 30
    y = float(CLAIM_SIZE)
    for key in keys:
        letter = LETTER_WIDTH if key["is_hollow"] else BOLD_WIDTH
        room = 28.0 + letter * len(key["text"])
        if x + room > width and x > MARK_MARGIN:
            x = float(MARK_MARGIN)
            y = y + 18
        key["x"] = round(x, 1)
        key["y"] = y
        x += room
    return keys


def _key_entries(audit: Audit, names: Sequence[str]) -> Iterator[Drawn]:
    for name in names:
        yield {"text": short_name(name), "is_hollow": False, **look(audit, name)}
    form = "hollow" if audit.proxy.scale.coin else "hollow_gain"
    yield {
        "text": say("chart", form),
        "colour": "currentColor",
        "shape": CIRCLE,
        "is_hollow": True,
    }
