"""Which tables tell the tests: of groups, of pairs, of differences?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pcer import wording
from pcer.auditing.record import Audit
from pcer.release import attack_kinds
from pcer.report.table import SOFT_HYPHEN, Table, pair_name
from pcer.report.tables.background import (
    Column,
    GroupRow,
    PairRow,
    amount_text,
    difference_text,
    group_rows,
    pair_rows,
    short_name_of,
    table_of,
)
from pcer.report.tables.finding import detected_text, exposure_text, interval_head

EVIDENCE = {True: "beyond\nthe null", False: "none", None: wording.NOTHING}
# Heads a column of adjusted p-values with those of single tests in brackets.
P_BOTH = "p\n(alone)"


def resolution_table(audit: Audit) -> Table:
    """Per setting and group: is its exposure detected?"""
    scale = audit.proxy.scale
    rates = wording.templates()[audit.plan.benefit]["head"]
    exposures = f"{scale.column}\n± error\n{interval_head(audit)}"

    def exposure(value: float | None) -> str:
        return exposure_text(audit, value, 2)

    columns: list[Column] = [
        ("ε", lambda row: short_name_of(row.setting)),
        ("group", lambda row: row.name),
        (rates, lambda row: _rate(row.group.benefit.mean, 1)),
        ("gap,\nof 100", lambda row: _rate(row.group.overfitting_gap.mean, 2)),
        (exposures, lambda row: _exposure_with_error(audit, row)),
        ("noise\nlevel", lambda row: exposure(row.group.noise_level)),
        ("at\nmost", lambda row: exposure(row.group.cost.upper_bound)),
        (
            f"detect{SOFT_HYPHEN}able",
            lambda row: exposure(row.group.detectable_cost),
        ),
        (f"detection,\n{P_BOTH}", lambda row: _both_p(row.group)),
        ("detected", lambda row: detected_text(row.setting, row.group)),
    ]
    return table_of(audit, "signal", columns, group_rows(audit), 2, chance=scale.coin)


def _rate(value: float | None, digits: int) -> str:
    return amount_text(attack_kinds.ACCURACY, value, digits)


def _exposure_with_error(audit: Audit, row: GroupRow) -> str:
    """The exposure with its error, above its interval."""
    found = row.group.cost
    value = exposure_text(audit, found.value, 2)
    if found.value is not None:
        value += f" ± {amount_text(audit.proxy.scale, found.standard_error)}"
    if found.interval is None:
        return f"{value}\n[no interval]"
    ends = [exposure_text(audit, end, 2) for end in found.interval]
    return f"{value}\n[{', '.join(ends)}]"


def table_of_pairs(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    *,
    by_gap: bool = False,
    **values: str,
) -> Table:
    """A row for every setting and pair; beside disparities stands what they are worth.

    That is the setting's verdict, and of the paper's numbers whether they are beyond
    their null.
    """
    has_many = len(audit.subject.groups) > 2
    labels: list[Column] = [("ε", lambda row: short_name_of(row.setting))]
    if has_many:
        labels.append(("groups", lambda row: pair_name(row.pair.groups)))
    if by_gap:
        labels.append(("evidence", _evidence))
    elif name != "differences":
        head = "verdict of\nthe setting" if has_many else "verdict"
        labels.append((head, lambda row: row.setting.verdict.words))
    n_labels = len(labels)
    every = [*labels, *columns]
    return table_of(audit, name, every, pair_rows(audit), n_labels, **values)


def _evidence(row: PairRow) -> str:
    return EVIDENCE[row.published.pcer_disparity.is_beyond_null]


def pairs_table(audit: Audit) -> Table:
    """Per setting and pair: do the ratios differ, and whose is lower?"""
    columns: list[Column] = [
        ("cross\nproduct", lambda row: wording.signed(row.pair.ratio.cross_product)),
        (f"ratio,\n{P_BOTH}", lambda row: _both_p(row.pair.ratio)),
        ("lower\nratio", lambda row: row.pair.ratio.group or wording.NOTHING),
        (f"doubly dis{SOFT_HYPHEN}advantaged,\n{P_BOTH}", _double),
        ("pooled\ndisparity", _pooled),
        ("disparity if\nnothing memorised", _null_interval),
        (
            "sign holds\nbelow floor",
            lambda row: wording.decimals(row.pair.sign_holds_below_floor, 4),
        ),
    ]
    return table_of_pairs(audit, "pairs", columns)


def _double(row: PairRow) -> str:
    double = row.pair.double_disadvantage
    return f"{double.group or wording.NOTHING}\n{_both_p(double)}"


def _pooled(row: PairRow) -> str:
    pooled = row.pair.pooled
    if pooled.disparity is None:
        return wording.NOTHING
    label = "" if pooled.costs_resolved else " (n.d.)"
    interval = wording.bounds(pooled.ci)
    return f"{wording.signed(pooled.disparity)}{label}\n{interval}"


def _null_interval(row: PairRow) -> str:
    return wording.bounds(row.pair.pcer_disparity.null_interval)


def differences_table(audit: Audit) -> Table:
    """Per setting and pair: by how much do exposures and outcomes differ?"""
    scale = audit.proxy.scale
    benefit = audit.plan.benefit.replace("_", " ")

    def at_most(row: PairRow) -> str:
        return amount_text(scale, row.pair.exposure.difference.upper_bound)

    def exposures(row: PairRow) -> str:
        return difference_text(scale, row.pair.exposure.difference)

    def outcomes(row: PairRow) -> str:
        return difference_text(attack_kinds.ACCURACY, row.pair.outcomes.difference)

    columns: list[Column] = [
        ("exposure, first\nminus second", exposures),
        ("at most,\neither way", at_most),
        (f"exposure,\n{P_BOTH}", lambda row: _both_p(row.pair.exposure)),
        (f"{benefit},\nfirst minus second", outcomes),
        (f"outcomes,\n{P_BOTH}", lambda row: _both_p(row.pair.outcomes)),
        ("driven by", lambda row: row.pair.ratio.driven_by or wording.NOTHING),
    ]
    pairs = audit.budgets[0].pairs
    only = f"{pair_name(pairs[0].groups)}. " if len(pairs) == 1 else ""
    return table_of_pairs(audit, "differences", columns, only=only)


def _both_p(test: Any) -> str:
    return wording.both_p(test.p_value, test.p_value_alone)
