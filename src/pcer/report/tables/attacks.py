"""Which tables tell what each attack says?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pcer import wording
from pcer.auditing.record import Audit
from pcer.measuring.measure import measure_costs
from pcer.paper.comparisons import ProxyAgreement
from pcer.release import Release, panels
from pcer.release.attack_kinds import Proxy, proxy_named
from pcer.report.table import SOFT_HYPHEN, Table, isolated
from pcer.report.tables.background import (
    Column,
    Ends,
    amount_text,
    amount_texts,
    setting_labels,
    shown_groups,
    table_of,
    titled_table,
)
from pcer.report.tables.finding import interval_head
from pcer.statistics import interval_quantile


def costs_table(audit: Audit) -> Table:
    """What every carried attack says, the audit's own first."""

    def names(groups: Sequence[str]) -> str:
        return ", ".join(groups) or wording.NOTHING

    columns: list[Column] = [
        ("attack", lambda story: proxy_named(story.cost).label),
        ("detected", lambda story: f"{story.n_resolved} of {story.n_cells}"),
        ("more\nexposed", lambda story: names(story.more_exposed)),
        ("lower\nratio", lambda story: names(story.lower_ratio)),
        (
            f"doubly dis{SOFT_HYPHEN}advantaged",
            lambda story: names(story.double_disadvantage),
        ),
        ("p", lambda story: wording.p_value(story.p_value)),
        ("p over\nattacks", lambda story: wording.p_value(story.p_value_over_costs)),
    ]
    return table_of(audit, "costs", columns, zip(audit.costs, strict=True), 1)


def cost_estimates(
    audit: Audit, release: Release
) -> Iterator[tuple[str, Proxy, str, float | None, Ends | None]]:
    """By setting, attack and group that charts show: the estimate, with a normal interval."""
    measured = measure_costs(panels(release), audit.plan)
    reach = interval_quantile(audit.plan.confidence_level)
    for k, label in enumerate(setting_labels(audit)):
        for name, by_setting in measured.items():
            if (exposed := by_setting[k].exposed) is None:
                continue
            for g in shown_groups(audit):
                cost = float(exposed.value[g])
                error = float(np.sqrt(exposed.alone[g]))
                ends = (cost - reach * error, cost + reach * error)
                value = cost if np.isfinite(cost) else None
                interval = ends if np.isfinite(ends[0]) else None
                yield label, proxy_named(name), audit.subject.groups[g], value, interval


def estimates_table(audit: Audit, release: Release) -> Table:
    """What each attack finds in every group, at every setting."""
    rows: dict[tuple[str, str], list[str]] = {}
    for setting, proxy, group, value, interval in cost_estimates(audit, release):
        ends = amount_texts(proxy.scale, interval) if interval else ""
        line = f"{isolated(group)}: {amount_text(proxy.scale, value)} {ends}"
        rows.setdefault((setting, proxy.label), []).append(line)
    heads = ("ε", "attack", f"exposure {interval_head(audit)}")
    cells = ((*key, "\n".join(lines)) for key, lines in rows.items())
    return titled_table(audit, "estimates", heads, cells, 3)


def agreement_table(audit: Audit, attacks: Sequence[ProxyAgreement]) -> Table:
    """Each attack beside the gap."""

    def share(count: int, row: ProxyAgreement) -> str:
        return f"{count}/{row.n_settings}" if row.n_settings else wording.NOTHING

    def exceeding(row: ProxyAgreement) -> str:
        cells = row.exceeding
        return (
            wording.NOTHING if cells is None else f"{cells[0]}/{cells[2]} ({cells[1]})"
        )

    columns: list[Column] = [
        ("attack", lambda row: proxy_named(row.proxy).label),
        ("r of\nexposures", lambda row: wording.decimals(row.correlation, 2)),
        ("same sign of\ndisparity", lambda row: share(row.n_same_sign, row)),
        ("larger\ndisparity", lambda row: share(row.n_larger_disparity, row)),
        (
            "r of dis-\nparities",
            lambda row: wording.decimals(row.disparity_correlation, 2),
        ),
        ("exceeds gap\n(beyond error)", exceeding),
    ]
    return table_of(audit, "agreement", columns, zip(attacks, strict=True), 1)
