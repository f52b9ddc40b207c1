"""How is it drawn who is ahead at every floor?"""

from __future__ import annotations

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


def floors_svg(audit: Audit) -> str:
    """Draw who is ahead at every floor: a row for each setting, or for each pair of many groups."""
    several = len(audit.budgets[0].pairs) > 1
    settings = [audit.told] if several else drawn_settings(audit)
    found = [
        (budget, pair)
        for budget in settings
        for pair in budget.pairs[: background.MOST_PAIRS]
    ]
    pairs = [f"{short_name(p.groups[0])} − {short_name(p.groups[1])}" for _, p in found]
    names = pairs if several else row_names(settings)
    left = room_for(names)
    floors = paper.audit_floors(audit)
    claim = text_lines(floor_claim(audit), CLAIM_SIZE, CLAIM_SIZE)
    at = f" ({background.setting_of(audit.told)})" if several else ""
    shapes = (
        f"Triangle up: the first group of {'the pair' if several else pairs[0]} has the higher "
        f"ratio{at}; down: the second"
    )
    words = text_lines(shapes, claim[-1]["y"] + 18, TEXT_SIZE)
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
    note += further_note(every - len(rows), "pairs" if several else "settings")
    return fill_template(
        "floors.svg",
        text_lines(note, top + FLOOR_ROW * len(rows) + 6, NOTE_SIZE),
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
    for floor, row in paper.floor_rows(audit, pair):
        ahead = pair.groups[0 if (row.mean or 0) > 0 else 1]
        holds_zero = row.ci is not None and row.ci[0] <= 0 <= row.ci[1]
        setting = isolated(background.setting_of(budget))
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
