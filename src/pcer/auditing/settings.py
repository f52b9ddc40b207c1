"""What does an audit say of one setting?

``audit_tested`` (audit.py) asks ``setting_result`` once a setting: its groups, its
pairs, what keeps it from telling anything, and beside them the paper's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcer import statistics
from pcer.auditing import record
from pcer.auditing.pairs import (
    ComparedPair,
    Limits,
    estimate_fields,
    pair_result,
    pooled_disparities,
)
from pcer.measuring import measure
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.evidence import Evidence, Tested
from pcer.measuring.measure import Measured, finite_or_none
from pcer.measuring.verdict import strongest
from pcer.paper import records
from pcer.paper.null import Null
from pcer.paper.numbers import (
    Columns,
    Summaries,
    published_pair,
    seed_columns,
    summarise,
)
from pcer.release.attack_kinds import GAP
from pcer.release.panel import Panel
from pcer.release.records import Bound
from pcer.wording import say


def setting_result(
    tested: Tested, evidence: Evidence, setting_index: int
) -> tuple[record.BudgetResult, records.PublishedBudget]:
    """One setting by the deciding attacks, and the paper's numbers by the gap."""
    main = tested.measured[tested.cost][setting_index]
    gap = tested.measured[GAP.name][setting_index]
    columns = seed_columns(main, gap, tested.pairs, tested.plan)
    summaries = summarise(columns, main, gap, tested.plan)
    null: Null | None = tested.draw_null(setting_index)
    pooled = pooled_disparities(tested, evidence, setting_index)

    pairs = []
    for index in range(len(tested.pairs)):
        paper = published_pair(main, tested, index, columns, summaries, null)
        compared = ComparedPair(tested, evidence, setting_index, index)
        pairs.append(pair_result(compared, pooled[index], paper))

    panel = main.panel
    result = record.BudgetResult(
        model=panel.model,
        epsilon=stated_epsilon(panel),
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=summaries.accuracy,
        demographic_parity_gap=summaries.demographic_parity_gap,
        equalized_odds_gap=summaries.equalized_odds_gap,
        groups=group_results(tested, evidence, setting_index, summaries, null),
        pairs=pairs,
        pcer_spread=summaries.attacks[tested.cost].spread,
        verdict=strongest(pair.verdict for pair in pairs),
        reason=_reason(tested, evidence, setting_index),
        headline="",  # follows, by ``conclude``
    )
    return result, _published(tested, gap, columns, summaries, null)


def _published(
    tested: Tested,
    gap: Measured,
    columns: Columns,
    summaries: Summaries,
    null: Null | None,
) -> records.PublishedBudget:
    """The paper's numbers of one setting, the gap being the exposure."""
    pairs = []
    for index in range(len(tested.pairs)):
        pairs.append(published_pair(gap, tested, index, columns, summaries, null))
    ratios = {
        name: summaries.pcer[GAP.name][group]
        for group, name in enumerate(gap.panel.group_names)
    }
    epsilon = stated_epsilon(gap.panel)
    return records.PublishedBudget(epsilon=epsilon, pcer=ratios, pairs=pairs)


def _reason(tested: Tested, evidence: Evidence, setting_index: int) -> str | None:
    """Why nothing can be told, or else why the first alarm was downgraded."""
    reason = _cannot_tell(tested, evidence, setting_index)
    if reason is not None:
        return reason
    for (of_setting, _, _), downgraded in evidence.reasons.items():
        if of_setting == setting_index:
            return downgraded
    return None


def _cannot_tell(tested: Tested, evidence: Evidence, setting_index: int) -> str | None:
    """Why exposures of a setting cannot be told; None where some pair's can."""
    measured = tested.measured[tested.cost][setting_index]
    if measured.exposed is None:
        return measured.reason
    if tested.release.training.split_kind != "random":
        return say("reason", "not_random")
    contradiction = tested.contradiction
    if contradiction is not None:
        return f"{contradiction[0].lower()}{contradiction[1:].rstrip('.')}"

    has_group = np.isfinite(evidence.cost_p_alone[setting_index]).any()
    has_pair = np.isfinite(evidence.exposure.p_value[setting_index]).any()
    if has_group and has_pair:
        return None
    names = measured.panel.group_names
    few = [names[group] for group in np.flatnonzero(~measured.has_enough_records)]
    if not few:
        return say("reason", "nothing_varies")
    return say("reason", "too_few", names=", ".join(few), least=measure.LEAST_RECORDS)


def group_results(
    tested: Tested,
    evidence: Evidence,
    setting_index: int,
    summaries: Summaries,
    null: Null | None,
) -> dict[str, record.GroupResult]:
    """Every group's numbers in one setting, by name."""
    measured = tested.measured[tested.cost][setting_index]
    panel = measured.panel
    costs = _costs(tested, evidence, measured)
    noise = _noise(tested, evidence, measured)
    bounds = _bounds_by_group(tested, panel)

    groups = {}
    for group, name in enumerate(panel.group_names):
        place = setting_index, group
        detected_by = None
        if np.isfinite(evidence.cost_p_alone[place]):
            detected_by = tested.attacks[evidence.detected_by[place]]
        groups[name] = record.GroupResult(
            n_train=finite_or_none(panel.n_train[:, group].mean()),
            n_test=finite_or_none(panel.n_test[:, group].mean()),
            positive_rate=summaries.positive_rate[group],
            true_rate=summaries.true_rate[group],
            true_positive_rate=summaries.true_positive_rate[group],
            false_positive_rate=summaries.false_positive_rate[group],
            benefit=summaries.benefit[group],
            overfitting_gap=summaries.overfitting_gap[group],
            accuracy_difference=summaries.accuracy_difference[group],
            cost=costs[group],
            noise_level=noise[group].level,
            detectable_cost=noise[group].detectable,
            p_value=finite_or_none(evidence.cost_p[place]),
            p_value_alone=finite_or_none(evidence.cost_p_alone[place]),
            detected_by=detected_by,
            resolved=bool(evidence.resolved[place]),
            too_few=not bool(measured.has_enough_records[group]),
            null_gap=None if null is None else null.gaps[group],
            pcer=summaries.pcer[tested.cost][group],
            allowed=_allowed(bounds[name]),
        )
    return groups


def _costs(
    tested: Tested, evidence: Evidence, measured: Measured
) -> list[record.Estimate]:
    """Every group's exposure, with its error, interval and bounds."""
    n_groups = len(measured.has_enough_records)
    values = np.full(n_groups, np.nan)
    errors = np.full(n_groups, np.nan)
    exposed = measured.exposed
    if exposed is not None:
        is_known = measured.has_enough_records & np.isfinite(exposed.variance)
        values = exposed.value
        errors = np.where(is_known, np.sqrt(exposed.interval_variance), np.nan)

    level = tested.plan.confidence_level
    largest = measured.proxy.scale.largest
    n_limits = max(1, evidence.cost_p_alone.size)  # all groups of all settings
    pointwise = measured.upper_limit(level=level, n_limits=1)
    simultaneous = measured.upper_limit(level=level, n_limits=n_limits)
    estimates = []
    for group in range(n_groups):
        limits = Limits(pointwise[group], simultaneous[group])
        fields = estimate_fields(values[group], errors[group], limits, largest, level)
        estimates.append(record.Estimate(**fields))
    return estimates


@dataclass(frozen=True)
class Noise:
    """What an exposure would be if nothing were memorised; None where unknown."""

    level: float | None = None  # the mean of max(0, noise): its "gap"
    detectable: float | None = None  # the smallest that 80% of such releases detect


def _noise(tested: Tested, evidence: Evidence, measured: Measured) -> list[Noise]:
    """Every group's noise, and what can be detected in spite of it.

    If V is the null variance of the mean over n splits, the noise of one split is
    normal with variance n V, and the mean of max(0, noise) is sqrt(n V / (2 pi)).
    """
    exposed = measured.exposed
    if exposed is None:
        return [Noise() for _ in measured.has_enough_records]
    n_tests = len(tested.attacks) * evidence.n_cost_tests
    noise = []
    for has_enough, variance in zip(
        measured.has_enough_records, exposed.null_variance, strict=True
    ):
        if not has_enough or not variance > 0:
            noise.append(Noise())
            continue
        level = math.sqrt(variance * exposed.n_splits / (2 * math.pi))
        smallest = statistics.detectable(np.sqrt(variance), n_tests=n_tests)
        noise.append(Noise(level, finite_or_none(smallest)))
    return noise


def _bounds_by_group(tested: Tested, panel: Panel) -> dict[str, list[Bound]]:
    """The release's bounds for one setting, by group."""
    setting = panel.model, stated_epsilon(panel)
    bounds: dict[str, list[Bound]] = {name: [] for name in panel.group_names}
    for row in tested.release.bounds:
        if (row.model, row.epsilon) == setting and row.group in bounds:
            bounds[row.group].append(row)
    return bounds


def _allowed(rows: Sequence[Bound]) -> record.GroupBound | None:
    """What training allows about one group.

    None without receipts and promises to groups.
    """
    whole = [row for row in rows if row.label is None]  # not of one label's people
    by_kind = {row.kind: row for row in whole}
    promise = by_kind.get("promise")
    receipt = by_kind.get("receipt")
    main = receipt or promise
    if main is None:
        return None
    # The advantage that goes with a receipt may stand in the row of what was realised.
    advantages = [row.allowed_advantage for row in (main, *whole)]
    known = [advantage for advantage in advantages if advantage is not None]
    advantage = known[0] if known else None
    copied = {"mode", "accountant", "nominal", "standard_error", "quantiles"}
    return record.GroupBound(
        **main.model_dump(include=copied),
        promised=None if promise is None else promise.mean,
        spent=None if receipt is None else receipt.mean,
        advantage=advantage,
    )
