"""Which tables tell what each attack says?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pcer import wording
from pcer.auditing.record import Audit, CostStory
from pcer.measuring.exposure import measure_costs
from pcer.paper.rankings import ProxyAgreement
from pcer.release import Release, panels
from pcer.release.attack_kinds import AttackKind, attack_kind
from pcer.report.table import SOFT_HYPHEN, Table, isolated
from pcer.report.tables.background import (
    Column,
    Ends,
    amount_text,
    interval_text,
    setting_labels,
    shown_groups,
    table_of,
    titled_table,
)
from pcer.report.tables.finding import interval_head
from pcer.statistics import interval_quantile


class AttackEstimate(NamedTuple):
    """What one attack finds in one group in one setting, with a normal interval."""

    setting: str
    attack: AttackKind
    group: str
    value: float | None
    interval: Ends | None


def costs_table(audit: Audit) -> Table:
    """What every carried attack says, the audit's own first."""
    columns: list[Column] = [
        ("attack", lambda story: attack_kind(story.cost).label),
        ("detected", lambda story: f"{story.n_resolved} of {story.n_cells}"),
        ("more\nexposed", lambda story: _names(story.more_exposed)),
        ("lower\nratio", lambda story: _names(story.lower_ratio)),
        (f"doubly dis{SOFT_HYPHEN}advantaged", _doubly),
        ("p", lambda story: wording.p_value(story.p_value)),
        ("p over\nattacks", lambda story: wording.p_value(story.p_value_over_costs)),
    ]
    return table_of(audit, "costs", columns, audit.costs, 1)


def _names(groups: Sequence[str]) -> str:
    return ", ".join(groups) or wording.NOTHING


def _doubly(story: CostStory) -> str:
    return _names(story.double_disadvantage)


def cost_estimates(audit: Audit, release: Release) -> Iterator[AttackEstimate]:
    """By setting, attack and group that charts show."""
    measured = measure_costs(panels(release), audit.plan)
    z = interval_quantile(audit.plan.confidence_level)
    for setting_index, label in enumerate(setting_labels(audit)):
        for name, by_setting in measured.items():
            exposed = by_setting[setting_index].exposed
            if exposed is None:
                continue
            for group_index in shown_groups(audit):
                value = float(exposed.value[group_index])
                half_width = z * float(np.sqrt(exposed.interval_variance[group_index]))
                ends = (value - half_width, value + half_width)
                yield AttackEstimate(
                    setting=label,
                    attack=attack_kind(name),
                    group=audit.subject.groups[group_index],
                    value=value if np.isfinite(value) else None,
                    interval=ends if np.isfinite(ends[0]) else None,
                )


def estimates_table(audit: Audit, release: Release) -> Table:
    """What each attack finds in every group, at every setting."""
    lines_by_row: dict[tuple[str, str], list[str]] = {}
    for found in cost_estimates(audit, release):
        scale = found.attack.scale
        ends = interval_text(scale, found.interval) if found.interval else ""
        line = f"{isolated(found.group)}: {amount_text(scale, found.value)} {ends}"
        lines_by_row.setdefault((found.setting, found.attack.label), []).append(line)
    heads = ("ε", "attack", f"exposure {interval_head(audit)}")
    rows = []
    for (setting, attack), lines in lines_by_row.items():
        rows.append((setting, attack, "\n".join(lines)))
    return titled_table(audit, "estimates", heads, rows, 3)


def agreement_table(audit: Audit, attacks: Sequence[ProxyAgreement]) -> Table:
    """Each attack beside the gap."""
    columns: list[Column] = [
        ("attack", lambda row: attack_kind(row.proxy).label),
        ("r of\nexposures", lambda row: wording.decimals(row.correlation, 2)),
        ("same sign of\ndisparity", lambda row: _share(row.n_same_sign, row)),
        ("larger\ndisparity", lambda row: _share(row.n_larger_disparity, row)),
        (
            "r of dis-\nparities",
            lambda row: wording.decimals(row.disparity_correlation, 2),
        ),
        ("exceeds gap\n(beyond error)", _exceeding),
    ]
    return table_of(audit, "agreement", columns, attacks, 1)


def _share(count: int, row: ProxyAgreement) -> str:
    return f"{count}/{row.n_settings}" if row.n_settings else wording.NOTHING


def _exceeding(row: ProxyAgreement) -> str:
    """Cells in which the attack exceeds the gap; in brackets those beyond its error."""
    if row.exceeding is None:
        return wording.NOTHING
    n_above, n_beyond_error, n_cells = row.exceeding
    return f"{n_above}/{n_cells} ({n_beyond_error})"
