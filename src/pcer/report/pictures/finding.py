"""How is the finding drawn: every group's exposure, and who is ahead at every floor?

``finding_svg`` is the picture of the page, of notebooks and of ``Audit.plot``; a trend
draws one setting over versions with it. ``floors_svg`` stands in the page's appendix.
``templates/finding.svg`` and ``templates/floors.svg`` place the marks. To add a mark:
its coordinates in ``_drawn_setting``, and its place in the template.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pcer.auditing.record import Audit, GroupResult, PairResult, SettingResult
from pcer.paper.records import FloorRow
from pcer.release.attack_kinds import AttackKind
from pcer.report.pictures import looks
from pcer.report.pictures.looks import MARK_MARGIN, NOTE_SIZE, Drawn, text_lines
from pcer.report.table import isolated, pair_name
from pcer.report.tables import background, paper
from pcer.wording import SettingName, bounds, say, signed

# Heights of rows.
MARK_ROW = 11
SETTING_GAP = 4
FLOOR_ROW = 30
BOLD_WIDTH = 8  # pixels of a letter in bold names
MOST_SETTINGS = 12
# Room for the names of settings.
NARROWEST = 62
WIDEST = 170
BELOW_KEYS = 19  # pixels from the last line of keys to the note
BELOW_NOTE = 8
BELOW_ROWS = 12  # to the numbers of the axis
BELOW_AXIS = 18  # and from there to what stands below
FLOORS_NOTE = (
    "Hollow: the ratios are not shown to differ in this setting, or the interval holds "
    "0. Shaded: every exposure is below the floor, only the rate difference is left."
)


class SettingRow(NamedTuple):
    """A setting in a picture: its name there, and its place in the page's menu."""

    setting: SettingResult
    name: str
    place: int


def setting_rows(audit: Audit) -> list[SettingRow]:
    """All settings; of too many some of the model that the headline is about."""
    settings = background.least_private_first(audit)
    if len(settings) > MOST_SETTINGS:
        settings = [one for one in settings if one.model == audit.told.model]
        told_at = settings.index(audit.told)
        last_start = len(settings) - MOST_SETTINGS
        start = max(0, min(told_at - MOST_SETTINGS // 2, last_start))
        settings = settings[start : start + MOST_SETTINGS]
    # A single model goes without saying.
    has_several_models = len({setting.model for setting in settings}) > 1
    rows = []
    for setting in settings:
        name = "without privacy"
        if setting.epsilon is not None:
            name = SettingName(None, setting.epsilon).full
        if has_several_models:
            name = f"{setting.model}, {name}"
        if len(name) > looks.LONGEST_NAME:
            name = f"…{name[-looks.LONGEST_NAME :]}"
        rows.append(SettingRow(setting, isolated(name), audit.settings.index(setting)))
    return rows


def _room_for(names: Sequence[str]) -> int:
    """Pixels that the longest of some names needs."""
    return min(WIDEST, max(NARROWEST, looks.LETTER_WIDTH * max(map(len, names)) + 8))


def _further_note(n: int, what: str) -> str:
    """How many things a picture leaves to the tables; empty for none."""
    return f" {n} further {what} are in the tables." if n else ""


# Exposures


@dataclass(frozen=True)
class ExposureAxis:
    """From exposures to pixels: between two ends, from a place to the right."""

    attack_kind: AttackKind
    low: float
    high: float
    left: float  # pixels to its start
    width: int  # pixels to its end

    @property
    def step(self) -> float:
        """From tick to tick, as it is written."""
        return looks.round_step(
            self.attack_kind.scale.per_unit * (self.high - self.low) / 5
        )

    def place(self, value: float | None) -> float | None:
        """Where an exposure lies; None where it is not known."""
        if value is None:
            return None
        start = self.left + MARK_MARGIN
        room = self.width - self.left - 2 * MARK_MARGIN
        return round(start + room * (value - self.low) / (self.high - self.low), 1)

    def ticks(self) -> list[Drawn]:
        """About four round numbers, in the exposure's own unit; 0 has a name."""
        unit = self.attack_kind.scale.per_unit
        step = self.step
        first = math.ceil(unit * self.low / step - 1e-9)
        last = math.floor(unit * self.high / step + 1e-9)
        return [self._tick(number, step) for number in range(first, last + 1)]

    def _tick(self, number: int, step: float) -> Drawn:
        scale = self.attack_kind.scale
        x = self.place(number * step / scale.per_unit) or 0.0
        text = looks.plain_number(number * step + (50 if scale.is_advantage else 0))
        if number == 0:
            text += " = coin" if scale.is_advantage else " = nothing"
        anchor = "middle"
        if x < self.left + 20:
            anchor = "start"
        elif x > self.width - 20:
            anchor = "end"
        return {
            "x": x,
            "text": text,
            "anchor": anchor,
            "is_base": number == 0,
            "value": number * step,
        }


def finding_svg(
    audit: Audit, *, width: int = looks.NARROW, versions: Sequence[SettingResult] = ()
) -> str:
    """Every group's exposure in every setting, or ``versions`` of one, on one scale."""
    names = looks.drawn_groups(audit, audit.told)
    further = _further_note(len(audit.subject.groups) - len(names), "groups")
    if versions:
        rows = [
            SettingRow(one, f"version {k + 1}", k) for k, one in enumerate(versions)
        ]
        title = say("chart", "versions")
    else:
        rows = setting_rows(audit)
        title = say("chart", "title" if len(rows) > 1 else "one")
        further += _further_note(len(audit.settings) - len(rows), "settings")
    axis = _exposure_axis(audit, rows, names, width)
    keys = _keys(audit, names, title, width)
    notes = text_lines(
        _note(audit, axis), keys[-1]["y"] + BELOW_KEYS, looks.TEXT_SIZE, width
    )

    top = notes[-1]["y"] + BELOW_NOTE
    places: list[Drawn] = []
    for row in rows:
        places.append(_drawn_setting(audit, row, names, axis, top))
        top += MARK_ROW * len(names) + SETTING_GAP

    below = top + BELOW_ROWS + (BELOW_AXIS if further else 0)
    return looks.fill_template(
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


def _exposure_axis(
    audit: Audit, rows: Sequence[SettingRow], names: Sequence[str], width: int
) -> ExposureAxis:
    """From 0, or the smallest end of an interval, to a round number beyond all."""
    values = [0.0]
    for row in rows:
        for name in names:
            exposure = row.setting.groups[name].exposure
            if exposure.value is not None:
                values.append(exposure.value)
            values += exposure.interval or ()
    low = min(values)
    largest = max(values)
    left = _room_for([row.name for row in rows])
    axis = ExposureAxis(audit.attack_kind, low, max(largest, low + 0.01), left, width)
    for _ in range(2):  # an axis to a round number may take a wider step
        step = axis.step / audit.attack_kind.scale.per_unit
        n_steps = max(1, math.ceil(largest / step - 1e-9))
        axis = replace(axis, high=step * n_steps)
    return axis


def _keys(audit: Audit, names: Sequence[str], title: str, width: int) -> list[Drawn]:
    keys = []
    for name in names:
        text = looks.short_name(name)
        keys.append({"text": text, "is_hollow": False, **looks.look(audit, name)})
    hollow = say("chart", "hollow" if audit.attack_kind.scale.coin else "hollow_gain")
    style = {"colour": "currentColor", "shape": looks.CIRCLE}
    keys.append({"text": hollow, "is_hollow": True, **style})

    x = looks.BOLD_LETTER * looks.CLAIM_SIZE * len(title) + 30
    y = float(looks.CLAIM_SIZE)
    for key in keys:
        letter = looks.LETTER_WIDTH if key["is_hollow"] else BOLD_WIDTH
        room = 28.0 + letter * len(key["text"])
        if x + room > width and x > MARK_MARGIN:
            x = float(MARK_MARGIN)
            y = y + 18
        key["x"] = round(x, 1)
        key["y"] = y
        x += room
    return keys


def _note(audit: Audit, axis: ExposureAxis) -> str:
    """What is counted, what lines are, and which part of the scale is drawn."""
    scale = audit.attack_kind.scale
    counted = scale.counted.format(label=audit.attack_kind.label)
    lines = say("chart", "lines", level=f"{100 * audit.plan.confidence_level:g}%")
    note = f"{counted}. {lines}"
    values = [tick["value"] for tick in axis.ticks()]
    whole = scale.largest * scale.per_unit
    if not values or not values[-1] - values[0] < whole < math.inf:
        return note
    base = 50.0 if scale.is_advantage else 0.0
    form = "zoomed_coin" if scale.is_advantage else "zoomed"
    low = looks.plain_number(values[0] + base)
    high = looks.plain_number(values[-1] + base)
    return f"{note} {say('chart', form, low=low, high=high, most=f'{whole + base:g}')}"


def _drawn_setting(
    audit: Audit, row: SettingRow, names: Sequence[str], axis: ExposureAxis, top: float
) -> Drawn:
    heights = [round(top + 8 + MARK_ROW * k, 1) for k in range(len(names))]
    setting = isolated(row.setting.name.full)
    marks = []
    for name, y in zip(names, heights, strict=True):
        group = row.setting.groups[name]
        said = exposure_words(audit.attack_kind, group)
        mark: Drawn = {
            "x": axis.place(group.exposure.value),
            "span": None,
            "is_clear": group.is_clear,
            "y": y,
            "title": f"{setting}, {looks.short_name(name)}: {said}",
        }
        if group.exposure.interval is not None:
            mark["span"] = [axis.place(end) for end in group.exposure.interval]
        marks.append(mark | looks.look(audit, name))
    middle = round((heights[0] + heights[-1]) / 2 + 4, 1)
    return {"name": row.name, "y": middle, "marks": marks, "setting": row.place}


def exposure_words(kind: AttackKind, group: GroupResult) -> str:
    """A group's exposure in few words: its value and interval."""
    exposure = group.exposure
    if group.too_few:
        return say("chart", "too_few")
    if exposure.value is None:
        return say("chart", "not_known")
    value = looks.exposure_amount(kind, exposure.value)
    if exposure.interval is None:
        return value
    ends = [looks.exposure_amount(kind, end) for end in exposure.interval]
    has_minus = any("−" in end for end in ends)
    between = " to " if has_minus else "–"
    return f"{value} ({between.join(ends)})"


# Floors


def floors_svg(audit: Audit) -> str:
    """Draw who is ahead at every floor: a row a setting, or a pair of many groups."""
    all_pairs = audit.told.pairs
    rows: list[tuple[SettingRow, PairResult]] = []
    if len(all_pairs) > 1:
        for pair in all_pairs[: background.MOST_PAIRS]:
            row = SettingRow(audit.told, _pair_words(pair), audit.main_setting)
            rows.append((row, pair))
        subject = "the pair"
        where = f" ({audit.told.name.full})"
        further = _further_note(len(all_pairs) - len(rows), "pairs")
    else:
        rows += [(row, row.setting.pairs[0]) for row in setting_rows(audit)]
        subject = _pair_words(all_pairs[0])
        where = ""
        further = _further_note(len(audit.settings) - len(rows), "settings")

    claim = text_lines(_floors_claim(audit), looks.CLAIM_SIZE, looks.CLAIM_SIZE)
    up = f"Triangle up: the first group of {subject} has the higher ratio{where}"
    words = text_lines(f"{up}; down: the second", claim[-1]["y"] + 18, looks.TEXT_SIZE)
    top = words[-1]["y"] + 42
    floors = paper.audit_floors(audit)
    left = _room_for([row.name for row, _ in rows])
    step = (looks.NARROW - left) / len(floors)
    columns = [round(left + step * (k + 0.5), 1) for k in range(len(floors))]
    drawn_rows = [_drawn_floors(audit, *row, k, top) for k, row in enumerate(rows)]
    return looks.fill_template(
        "floors.svg",
        text_lines(FLOORS_NOTE + further, top + FLOOR_ROW * len(rows) + 6, NOTE_SIZE),
        width=looks.NARROW,
        step=round(step - 4, 1),
        xs=columns,
        floors=[f"{floor:g}" for floor in floors],
        head_y=round(top - 20, 1),
        claim=claim,
        words=words,
        rows=drawn_rows,
    )


def _pair_words(pair: PairResult) -> str:
    first, second = pair.groups
    return f"{looks.short_name(first)} − {looks.short_name(second)}"


def _floors_claim(audit: Audit) -> str:
    """In how many settings some disparity has both signs over the floors."""
    n_turned = 0
    for setting in audit.settings:
        signs = []
        for pair in setting.pairs:
            signs.append({row.mean > 0 for row in pair.floors if row.mean})
        n_turned += any(len(of_pair) == 2 for of_pair in signs)
    n_settings = len(audit.settings)
    return f"The floor decides who is ahead in {n_turned} of {n_settings} settings"


def _drawn_floors(
    audit: Audit, row: SettingRow, pair: PairResult, number: int, top: float
) -> Drawn:
    """Filled only where the ratios differ, and the interval at this floor has no 0."""
    where = isolated(row.setting.name.full)
    marks = []
    for floor, found in paper.floor_rows(audit, pair):
        mean = found.mean or 0.0
        ahead = pair.groups[0 if mean > 0 else 1]
        holds_zero = found.ci is not None and found.ci[0] <= 0 <= found.ci[1]
        share = found.floor_dominated_share if isinstance(found, FloorRow) else None
        numbers = f"{pair_name(pair.groups)}: {signed(found.mean)} {bounds(found.ci)}"
        mark: Drawn = {
            "text": signed(found.mean),
            "title": f"{where}, floor {floor:g}, {numbers}",
            "colour": looks.look(audit, ahead)["colour"],
            "shape": None,
            "is_shown": pair.ratio.answer == "differs" and not holds_zero,
            "is_floored": share == 1,
        }
        if mean:
            mark["shape"] = looks.UP if mean > 0 else looks.DOWN
        marks.append(mark)
    return {"name": row.name, "y": round(top + FLOOR_ROW * number, 1), "marks": marks}
