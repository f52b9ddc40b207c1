"""How is it drawn who is ahead at every floor?

``floors_svg`` stands in the page's details; ``templates/floors.svg`` places the marks.
To add a mark: its coordinates in ``_drawn_floors``, and its place in the template.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pcer.auditing.record import Audit, PairResult, SettingResult
from pcer.paper.records import FloorRow
from pcer.report.pictures import looks
from pcer.report.pictures.looks import NOTE_SIZE, Drawn, text_lines
from pcer.report.table import isolated, pair_name
from pcer.report.tables import background, paper
from pcer.wording import bounds, signed

FLOOR_ROW = 30  # height of a row
MOST_SETTINGS = 12
# Room for the names of settings.
NARROWEST = 62
WIDEST = 170
FLOORS_NOTE = (
    "Hollow: the ratios are not shown to differ in this setting, or the interval holds "
    "0. Shaded: every exposure is below the floor, only the rate difference is left."
)


class SettingRow(NamedTuple):
    """A setting in the picture, and what stands before its marks."""

    setting: SettingResult
    name: str


def setting_rows(audit: Audit) -> list[SettingRow]:
    """All settings; of too many some of the model that the headline is about."""
    settings = background.least_private_first(audit)
    if len(settings) > MOST_SETTINGS:
        settings = [one for one in settings if one.model == audit.told.model]
        told_at = settings.index(audit.told)
        last_start = len(settings) - MOST_SETTINGS
        start = max(0, min(told_at - MOST_SETTINGS // 2, last_start))
        settings = settings[start : start + MOST_SETTINGS]
    rows = []
    for setting in settings:
        name = setting.name.full
        if len(name) > looks.LONGEST_NAME:
            name = f"…{name[-looks.LONGEST_NAME :]}"
        rows.append(SettingRow(setting, isolated(name)))
    return rows


def _room_for(names: Sequence[str]) -> int:
    """Pixels that the longest of some names needs."""
    return min(WIDEST, max(NARROWEST, looks.LETTER_WIDTH * max(map(len, names)) + 8))


def _further_note(n: int, what: str) -> str:
    """How many things a picture leaves to the tables; empty for none."""
    return f" {n} further {what} are in the tables." if n else ""


def floors_svg(audit: Audit) -> str:
    """Draw who is ahead at every floor: a row a setting, or a pair of many groups."""
    all_pairs = audit.told.pairs
    rows: list[tuple[SettingRow, PairResult]] = []
    if len(all_pairs) > 1:
        for pair in all_pairs[: background.MOST_PAIRS]:
            row = SettingRow(audit.told, _pair_words(pair))
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
