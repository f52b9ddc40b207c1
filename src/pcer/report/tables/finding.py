"""Which tables tell the numbers behind the finding, and what was tested?

They stand under "Every test" and "Every attack" of the full view and the page's
appendix. To add a column: a pair of its list ``columns``, the head and what makes a
cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pcer import wording
from pcer.auditing.answers import Estimate
from pcer.auditing.record import (
    AttackStory,
    Audit,
    GroupResult,
    SettingResult,
)
from pcer.auditing.sentences import telling
from pcer.measuring.exposure import measure_attacks
from pcer.release import Release, panels
from pcer.release.attack_kinds import ACCURACY, AttackKind, attack_kind
from pcer.report.table import SOFT_HYPHEN, Table, isolated, pair_name
from pcer.report.tables import background
from pcer.report.tables.background import (
    Column,
    GroupRow,
    PairRow,
    amount_text,
    group_rows,
    table_of,
)
from pcer.statistics import interval_quantile

MOST_ROWS = 24  # in a table that is read without asking for everything
FEW_ROWS = 4  # where words are counted
# By whether a difference of ratios is beyond its null, and anything is detected.
EVIDENCE = {
    (True, True): "memorised,\nnot whose",
    (True, False): "nothing\ndetected",
    (False, True): "none",
    (False, False): "none",
}
# Heads a column of adjusted p-values with those of single tests in brackets.
P_BOTH = "p\n(alone)"


def _exposure_interval(
    audit: Audit, exposure: Estimate, digits: int | None = None
) -> str:
    if exposure.interval is None:
        return "[no interval]"
    ends = [exposure_text(audit, end, digits) for end in exposure.interval]
    return f"[{', '.join(ends)}]"


def interval_head(audit: Audit) -> str:
    """The head of a column of intervals."""
    return f"[{100 * audit.plan.confidence_level:g}% interval]"


def detected_text(setting: SettingResult, group: GroupResult) -> str:
    """Whether a group is detected, in a table's words."""
    if telling.answer_of(setting, "exposure") == "cannot_tell":
        return "cannot tell"
    return "too few" if group.too_few else wording.yes_no(group.detected)


def exposure_text(
    audit: Audit, exposure: float | None, digits: int | None = None
) -> str:
    """An exposure of 100 or in its own unit; one number of digits fits all of them."""
    if exposure is None:
        return wording.NOTHING
    scale = audit.attack_kind.scale
    if digits is None:
        largest = max(abs(row.group.exposure.value or 0.0) for row in group_rows(audit))
        is_coarse = scale.is_advantage or scale.per_unit * largest >= 1
        digits = 1 if is_coarse else 2
    coin = 50 if scale.is_advantage else 0
    return wording.decimals(coin + scale.per_unit * exposure, digits)


def numbers_table(audit: Audit) -> Table:
    """The numbers behind the pictures, with more digits than they print."""
    rows = []
    for row in group_rows(audit):
        exposure = row.group.exposure
        low, high = exposure.interval or (None, None)
        cells = [amount_text(ACCURACY, row.group.benefit.mean, 4)]
        for value in (exposure.value, low, high, exposure.upper_bound):
            cells.append(exposure_text(audit, value, 4))
        # with the minus sign that other programs read
        plain = [cell.replace("−", "-") for cell in cells]
        detected = wording.yes_no(row.group.detected)
        rows.append((row.setting.name.full, row.name, *plain, detected))
    heads = ("setting", "group", "outcome, of 100", "exposure, of 100")
    more = ("low", "high", "at most", "detected")
    return Table("Numbers of the pictures", (*heads, *more), tuple(rows), 2)


# Every test


def resolution_table(audit: Audit) -> Table:
    """Per setting and group: is its exposure detected?"""
    scale = audit.attack_kind.scale
    rates = audit.plan.benefit_kind.head
    exposures = f"{scale.column}\n± error\n{interval_head(audit)}"

    def rate(value: float | None, digits: int) -> str:
        return amount_text(ACCURACY, value, digits)

    def exposure(value: float | None) -> str:
        return exposure_text(audit, value, 2)

    columns: list[Column] = [
        ("ε", lambda row: row.setting.name.short),
        ("group", lambda row: row.name),
        (rates, lambda row: rate(row.group.benefit.mean, 1)),
        ("gap,\nof 100", lambda row: rate(row.group.overfitting_gap.mean, 2)),
        (exposures, partial(_exposure_with_error, audit)),
        ("noise\nlevel", lambda row: exposure(row.group.noise_level)),
        ("at\nmost", lambda row: exposure(row.group.exposure.upper_bound)),
        (f"detect{SOFT_HYPHEN}able", lambda row: exposure(row.group.detectable)),
        (f"detection,\n{P_BOTH}", lambda row: _both_p(row.group)),
        ("detected", lambda row: detected_text(row.setting, row.group)),
    ]
    return table_of(audit, "signal", columns, group_rows(audit), 2, chance=scale.coin)


def _exposure_with_error(audit: Audit, row: GroupRow) -> str:
    exposure = row.group.exposure
    value = exposure_text(audit, exposure.value, 2)
    if exposure.value is not None:
        value += f" ± {amount_text(audit.attack_kind.scale, exposure.standard_error)}"
    return f"{value}\n{_exposure_interval(audit, exposure, 2)}"


def table_of_pairs(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    *,
    by_gap: bool = False,
    **values: str,
) -> Table:
    """A row for every setting and pair; a disparity stands beside what it is worth."""
    has_many = len(audit.subject.groups) > 2
    labels: list[Column] = [("ε", lambda row: row.setting.name.short)]
    if has_many:
        labels.append(("groups", lambda row: pair_name(row.pair.groups)))
    if by_gap:
        labels.append(("evidence", _evidence))
    elif name != "differences":
        head = "verdict of\nthe setting" if has_many else "verdict"
        labels.append((head, lambda row: row.setting.verdict.words))
    n_labels = len(labels)
    every = [*labels, *columns]
    return table_of(audit, name, every, background.pair_rows(audit), n_labels, **values)


def _evidence(row: PairRow) -> str:
    is_beyond = row.published.pcer_disparity.is_beyond_null
    if is_beyond is None:
        return wording.NOTHING
    return EVIDENCE[is_beyond, row.setting.is_detected]


def pairs_table(audit: Audit) -> Table:
    """Per setting and pair: do the ratios differ, and whose is lower?"""
    columns: list[Column] = [
        ("cross\nproduct", lambda row: wording.signed(row.pair.ratio.cross_product)),
        (f"ratio,\n{P_BOTH}", lambda row: _both_p(row.pair.ratio)),
        ("lower\nratio", lambda row: row.pair.ratio.group or wording.NOTHING),
        (f"doubly dis{SOFT_HYPHEN}advantaged,\n{P_BOTH}", _double),
        ("pooled\ndisparity", _pooled),
        (
            "disparity if\nnothing memorised",
            lambda row: wording.bounds(row.pair.pcer_disparity.null_interval),
        ),
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
    label = "" if pooled.exposures_detected else " (n.d.)"
    interval = wording.bounds(pooled.ci)
    return f"{wording.signed(pooled.disparity)}{label}\n{interval}"


def differences_table(audit: Audit) -> Table:
    """Per setting and pair: by how much do exposures and outcomes differ?"""
    scale = audit.attack_kind.scale
    benefit = audit.plan.benefit.replace("_", " ")

    def at_most(row: PairRow) -> str:
        return amount_text(scale, row.pair.exposure.difference.upper_bound)

    def exposures(row: PairRow) -> str:
        return background.difference_text(scale, row.pair.exposure.difference)

    def outcomes(row: PairRow) -> str:
        return background.difference_text(ACCURACY, row.pair.outcomes.difference)

    columns: list[Column] = [
        ("exposure, first\nminus second", exposures),
        ("at most,\neither way", at_most),
        (f"exposure,\n{P_BOTH}", lambda row: _both_p(row.pair.exposure)),
        (f"{benefit},\nfirst minus second", outcomes),
        (f"outcomes,\n{P_BOTH}", lambda row: _both_p(row.pair.outcomes)),
        ("driven by", lambda row: row.pair.ratio.driven_by or wording.NOTHING),
    ]
    pairs = audit.settings[0].pairs
    only = f"{pair_name(pairs[0].groups)}. " if len(pairs) == 1 else ""
    return table_of_pairs(audit, "differences", columns, only=only)


def _both_p(test: Any) -> str:
    return wording.both_p(test.p_value, test.p_value_alone)


# Every attack


def attacks_table(audit: Audit) -> Table:
    """What every carried attack says, the audit's own first."""

    def names(groups: Sequence[str]) -> str:
        return ", ".join(groups) or wording.NOTHING

    def doubly(story: AttackStory) -> str:
        return names(story.double_disadvantage)

    columns: list[Column] = [
        ("attack", lambda story: attack_kind(story.attack).label),
        ("detected", lambda story: f"{story.n_detected} of {story.n_cells}"),
        ("more\nexposed", lambda story: names(story.more_exposed)),
        ("lower\nratio", lambda story: names(story.lower_ratio)),
        (f"doubly dis{SOFT_HYPHEN}advantaged", doubly),
        ("p", lambda story: wording.p_value(story.p_value)),
        ("p over\nattacks", lambda story: wording.p_value(story.p_value_over_attacks)),
    ]
    return table_of(audit, "attacks", columns, audit.attacks, 1)


class AttackEstimate(NamedTuple):
    """What one attack finds in one group in one setting, with a normal interval."""

    setting: str
    attack: AttackKind
    group: str
    value: float | None
    interval: background.Ends | None


def attack_estimates(audit: Audit, release: Release) -> Iterator[AttackEstimate]:
    """By setting, attack and group that charts show."""
    measured = measure_attacks(panels(release), audit.plan)
    z = interval_quantile(audit.plan.confidence_level)
    for setting_index, label in enumerate(background.setting_labels(audit)):
        for name, by_setting in measured.items():
            exposed = by_setting[setting_index].exposed
            if exposed is None:
                continue
            for group_index in background.shown_groups(audit):
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
    for found in attack_estimates(audit, release):
        scale = found.attack.scale
        ends = background.interval_text(scale, found.interval) if found.interval else ""
        line = f"{isolated(found.group)}: {amount_text(scale, found.value)} {ends}"
        lines_by_row.setdefault((found.setting, found.attack.label), []).append(line)
    heads = ("ε", "attack", f"exposure {interval_head(audit)}")
    rows = []
    for (setting, attack), lines in lines_by_row.items():
        rows.append((setting, attack, "\n".join(lines)))
    return background.titled_table(audit, "estimates", heads, rows, 3)
