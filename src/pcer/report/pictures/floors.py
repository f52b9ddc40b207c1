"""How is it drawn who is ahead at every floor?

``floors_svg`` stands in the page's appendix; ``templates/floors.svg`` places the marks.
"""

from __future__ import annotations

from typing import NamedTuple

from pcer.auditing.record import Audit, BudgetResult, PairResult
from pcer.paper.records import FloorRow
from pcer.report.pictures.axis import (
    CLAIM_SIZE,
    DOWN,
    FLOOR_ROW,
    NARROW,
    NOTE_SIZE,
    TEXT_SIZE,
    UP,
    Drawn,
    fill_template,
    further_note,
    look,
    room_for,
    short_name,
    text_lines,
)
from pcer.report.pictures.exposure import drawn_settings, row_names
from pcer.report.table import isolated, pair_name
from pcer.report.tables import background, paper
from pcer.wording import bounds, signed

NOTE = (
    "Hollow: the ratios are not shown to differ in this setting, or the interval holds "
    "0. Shaded: every exposure is below the floor, only the rate difference is left."
)


class FloorsRow(NamedTuple):
    """A row of the picture: a setting, or one of many pairs in one setting."""

    name: str
    setting: BudgetResult
    pair: PairResult


def floors_svg(audit: Audit) -> str:
    """Draw who is ahead at every floor: a row a setting, or a pair of many groups."""
    has_many_pairs = len(audit.budgets[0].pairs) > 1
    rows = _pair_rows(audit) if has_many_pairs else _setting_rows(audit)
    left = room_for([row.name for row in rows])
    floors = paper.audit_floors(audit)
    step = (NARROW - left) / len(floors)

    claim = text_lines(floor_claim(audit), CLAIM_SIZE, CLAIM_SIZE)
    shapes = _shapes_note(audit, rows[0].pair, has_many_pairs=has_many_pairs)
    words = text_lines(shapes, claim[-1]["y"] + 18, TEXT_SIZE)
    top = words[-1]["y"] + 42

    columns = [round(left + step * (k + 0.5), 1) for k in range(len(floors))]
    drawn_rows = [_drawn_row(audit, row, k, top) for k, row in enumerate(rows)]

    note = NOTE
    if has_many_pairs:
        note += further_note(len(audit.budgets[0].pairs) - len(rows), "pairs")
    else:
        note += further_note(len(audit.budgets) - len(rows), "settings")
    return fill_template(
        "floors.svg",
        text_lines(note, top + FLOOR_ROW * len(rows) + 6, NOTE_SIZE),
        width=NARROW,
        step=round(step - 4, 1),
        xs=columns,
        floors=[f"{floor:g}" for floor in floors],
        head_y=round(top - 20, 1),
        claim=claim,
        words=words,
        rows=drawn_rows,
    )


def _setting_rows(audit: Audit) -> list[FloorsRow]:
    settings = drawn_settings(audit)
    rows = []
    for setting, name in zip(settings, row_names(settings), strict=True):
        rows.append(FloorsRow(name, setting, setting.pairs[0]))
    return rows


def _pair_rows(audit: Audit) -> list[FloorsRow]:
    pairs = audit.told.pairs[: background.MOST_PAIRS]
    return [FloorsRow(_pair_words(pair), audit.told, pair) for pair in pairs]


def _pair_words(pair: PairResult) -> str:
    first, second = pair.groups
    return f"{short_name(first)} − {short_name(second)}"


def _shapes_note(audit: Audit, pair: PairResult, *, has_many_pairs: bool) -> str:
    """What the triangles mean."""
    subject = _pair_words(pair)
    where = ""
    if has_many_pairs:
        subject = "the pair"
        where = f" ({background.setting_of(audit.told)})"
    up = f"Triangle up: the first group of {subject} has the higher ratio{where}"
    return f"{up}; down: the second"


def _drawn_row(audit: Audit, row: FloorsRow, number: int, top: float) -> Drawn:
    marks = _floor_marks(audit, row.setting, row.pair)
    return {"name": row.name, "y": round(top + FLOOR_ROW * number, 1), "marks": marks}


def floor_claim(audit: Audit) -> str:
    """In how many settings the choice of the floor decides who is ahead."""
    n_turned = sum(_is_turned(setting) for setting in audit.budgets)
    n_settings = len(audit.budgets)
    return f"The floor decides who is ahead in {n_turned} of {n_settings} settings"


def _is_turned(setting: BudgetResult) -> bool:
    """Whether some pair's disparity has both signs over the floors."""
    for pair in setting.pairs:
        signs = {row.mean > 0 for row in pair.floors if row.mean}
        if len(signs) == 2:
            return True
    return False


def _floor_marks(audit: Audit, setting: BudgetResult, pair: PairResult) -> list[Drawn]:
    """Filled only where the ratios differ, and the interval at this floor has no 0."""
    where = isolated(background.setting_of(setting))
    marks = []
    for floor, row in paper.floor_rows(audit, pair):
        mean = row.mean or 0.0
        ahead = pair.groups[0 if mean > 0 else 1]
        holds_zero = row.ci is not None and row.ci[0] <= 0 <= row.ci[1]
        share = row.floor_dominated_share if isinstance(row, FloorRow) else None
        numbers = f"{pair_name(pair.groups)}: {signed(row.mean)} {bounds(row.ci)}"
        mark: Drawn = {
            "text": signed(row.mean),
            "title": f"{where}, floor {floor:g}, {numbers}",
            "colour": look(audit, ahead)["colour"],
            "shape": None,
            "is_shown": pair.ratio.answer == "differs" and not holds_zero,
            "is_floored": share == 1,
        }
        if mean:
            mark["shape"] = UP if mean > 0 else DOWN
        marks.append(mark)
    return marks
