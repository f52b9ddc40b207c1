"""How is every group's exposure drawn?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pcer.auditing.record import Audit, BudgetResult, GroupResult
from pcer.release.attack_kinds import Proxy
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
    axis_ends,
    axis_ticks,
    drawn_groups,
    exposure_amount,
    fill_template,
    further_note,
    look,
    placing_of,
    plain_number,
    room_for,
    short_name,
    text_lines,
)
from pcer.report.table import isolated
from pcer.report.tables import background
from pcer.wording import budget_name, say


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
    called = [f"version {n}" for n, _ in enumerate(versions, 1)] or row_names(settings)
    scale = audit.proxy.scale
    left = room_for(called)
    ends = axis_ends(audit.proxy, [b.groups[name] for b in settings for name in names])
    place = placing_of(ends, left, width)
    ticks = axis_ticks(audit.proxy, ends, left, width)
    title = say(
        "chart", "versions" if versions else "title" if len(settings) > 1 else "one"
    )
    keys = _keys(audit, names, title, width)
    counted = scale.counted.format(label=audit.proxy.label)
    lines = say("chart", "lines", level=f"{100 * audit.plan.confidence_level:g}%")
    note = f"{counted}. {lines} {_zoom(audit, ticks)}".strip()
    notes = text_lines(note, keys[-1]["y"] + 19, TEXT_SIZE, width)
    top = notes[-1]["y"] + 8
    places = list[Drawn]()
    for budget, row_name in zip(settings, called, strict=True):
        ys = [round(top + 8 + MARK_ROW * k, 1) for k in range(len(names))]
        setting = isolated(background.setting_of(budget))
        marks = []
        for name, y in zip(names, ys, strict=True):
            group = budget.groups[name]
            title_of = (
                f"{setting}, {short_name(name)}: {exposure_words(audit.proxy, group)}"
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
    further = further_note(len(audit.subject.groups) - len(names), "groups")
    further += (
        "" if versions else further_note(len(audit.budgets) - len(settings), "settings")
    )
    return fill_template(
        "finding.svg",
        text_lines(further.strip(), top + (30 if further else 12), NOTE_SIZE, width),
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
    low, high = (plain_number(value + base) for value in (values[0], values[-1]))
    return say("chart", form, low=low, high=high, most=f"{whole + base:g}")


def exposure_words(proxy: Proxy, group: GroupResult) -> str:
    """A group's exposure in few words: its value and interval."""
    cost = group.cost
    if group.too_few or cost.value is None:
        return say("chart", "too_few" if group.too_few else "not_known")
    ends = [exposure_amount(proxy, end) for end in cost.interval or ()]
    between = " to " if "−" in "".join(ends) else "–"
    return exposure_amount(proxy, cost.value) + (
        f" ({between.join(ends)})" if ends else ""
    )


def drawn_settings(audit: Audit) -> list[BudgetResult]:
    """All settings; of too many those of the model that the headline is about, and not too many."""
    settings = background.least_private_first(audit)
    if len(settings) <= MOST_SETTINGS:
        return settings
    same = [budget for budget in settings if budget.model == audit.told.model]
    at = same.index(audit.told)
    start = max(0, min(at - MOST_SETTINGS // 2, len(same) - MOST_SETTINGS))
    return same[start : start + MOST_SETTINGS]


def row_names(settings: Sequence[BudgetResult]) -> list[str]:
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


def _keys(audit: Audit, names: Sequence[str], title: str, width: int) -> list[Drawn]:
    """Behind the title: names beside their shapes, what hollow means; in lines as they need."""
    hollow = {"colour": "currentColor", "shape": CIRCLE, "is_hollow": True}
    keys = [
        {"text": short_name(name), "is_hollow": False, **look(audit, name)}
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
