"""How is it drawn what every attack finds, beside each other?"""

from __future__ import annotations

from pcer.auditing.record import Audit
from pcer.release.attack_kinds import AttackKind
from pcer.release.file import Release
from pcer.report.pictures.axis import exposure_amount, look, short_name
from pcer.report.pictures.figure1 import settings_axis
from pcer.report.pictures.panels import (
    Chart,
    Key,
    Mark,
    Panel,
    Rule,
    beside,
    extent,
    number_axis,
)
from pcer.report.tables import background
from pcer.report.tables.attacks import AttackEstimate, cost_estimates

TITLE = "Exposure by every attack"
NOTE = "Lines: {level} intervals."
PANEL_HEIGHT = 110
# How far apart the marks of a setting stand, as shares of its room.
MARK_STEP = 0.4
MOST_SPREAD = 0.7
ROOM_FOR_TWO = 16  # marks that fit beside each other where two panels stand in a row


def costs(audit: Audit, release: Release) -> Chart | None:
    """Exposure with intervals, a panel for every attack that the release carries."""
    estimates = list(cost_estimates(audit, release))
    if not estimates:
        return None
    by_attack: dict[AttackKind, list[AttackEstimate]] = {}
    for estimate in estimates:
        by_attack.setdefault(estimate.attack, []).append(estimate)
    names = _shown_names(audit)
    keys = []
    for name in names:
        style = look(audit, name)
        keys.append(Key(short_name(name), style["colour"], style["shape"]))
    n_marks = len(names) * len(audit.budgets)
    level = f"{100 * audit.plan.confidence_level:g}%"
    return Chart(
        TITLE,
        [_attack_panel(audit, *item) for item in by_attack.items()],
        keys,
        NOTE.format(level=level),
        columns=2 if len(by_attack) > 1 and n_marks <= ROOM_FOR_TWO else 1,
        height=PANEL_HEIGHT,
    )


def _shown_names(audit: Audit) -> list[str]:
    names = audit.subject.groups
    return [names[place] for place in background.shown_groups(audit)]


def _attack_panel(
    audit: Audit, attack: AttackKind, estimates: list[AttackEstimate]
) -> Panel:
    """What one attack finds in every setting and group, in the unit of its tables."""
    settings = background.setting_labels(audit)
    names = _shown_names(audit)
    spread = min(MARK_STEP * (len(names) - 1), MOST_SPREAD)
    shifts = dict(zip(names, beside(len(names), spread), strict=True))
    marks = []
    for estimate in estimates:
        if estimate.value is not None:
            x = settings.index(estimate.setting) + shifts[estimate.group]
            marks.append(_mark(audit, estimate, estimate.value, x))
    title = attack.scale.column.replace("\n", " ")
    chance = _written(attack, 0.0)
    return Panel(
        across=settings_axis(audit),
        up=number_axis(title, extent(marks), base=chance),
        title=attack.label,
        rules=[Rule(y=chance)],
        marks=marks,
    )


def _mark(audit: Audit, estimate: AttackEstimate, value: float, x: float) -> Mark:
    attack = estimate.attack
    style = look(audit, estimate.group)
    ends = None
    if estimate.interval is not None:
        low, high = estimate.interval
        ends = (_written(attack, low), _written(attack, high))
    subject = f"{estimate.setting}, {short_name(estimate.group)}"
    return Mark(
        x=x,
        y=_written(attack, value),
        colour=style["colour"],
        shape=style["shape"],
        ends=ends,
        title=f"{subject}: {exposure_amount(attack, value)}",
    )


def _written(attack: AttackKind, exposure: float) -> float:
    """An exposure as tables write it: an advantage as right answers of 100."""
    coin = 50.0 if attack.scale.is_advantage else 0.0
    return coin + attack.scale.per_unit * exposure
