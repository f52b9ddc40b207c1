"""What does an audit say of one setting?

``audit_tested`` (audit.py) asks ``setting_result`` once a setting: its groups, its
pairs, what keeps it from telling anything, and beside them the paper's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pcer.auditing import record
from pcer.auditing.pairs import (
    ComparedPair,
    estimate_fields,
    pair_result,
    pooled_disparities,
)
from pcer.measuring import exposure
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.evidence import Evidence
from pcer.measuring.tested import Judged, Tested
from pcer.paper.numbers import SettingNumbers
from pcer.release.panel import Panel
from pcer.release.records import Bound
from pcer.statistics import finite_or_none
from pcer.wording import say


def setting_result(
    tested: Tested, judged: Judged, paper: SettingNumbers, setting_index: int
) -> record.BudgetResult:
    """One setting by the deciding attacks, with the paper's numbers of it."""
    evidence = judged.evidence
    summaries = paper.summaries
    pooled = pooled_disparities(tested, evidence, setting_index)
    pairs = []
    for index in range(len(tested.pairs)):
        compared = ComparedPair(tested, judged, setting_index, index)
        pairs.append(pair_result(compared, pooled[index], paper.pairs[index]))

    panel = tested.panels[setting_index]
    return record.BudgetResult(
        model=panel.model,
        epsilon=stated_epsilon(panel),
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=summaries.accuracy,
        demographic_parity_gap=summaries.demographic_parity_gap,
        equalized_odds_gap=summaries.equalized_odds_gap,
        groups=group_results(tested, judged, paper, setting_index),
        pairs=pairs,
        pcer_spread=summaries.attacks[tested.cost].spread,
        verdict=record.strongest(pair.verdict for pair in pairs),
        reason=_reason(tested, evidence, setting_index),
        headline="",  # follows, by ``conclude``
    )


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
    return say("reason", "too_few", names=", ".join(few), least=exposure.LEAST_RECORDS)


def group_results(
    tested: Tested, judged: Judged, paper: SettingNumbers, setting_index: int
) -> dict[str, record.GroupResult]:
    """Every group's numbers in one setting, by name."""
    evidence = judged.evidence
    summaries = paper.summaries
    measured = tested.measured[tested.cost][setting_index]
    panel = measured.panel
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
            cost=record.Estimate(**estimate_fields(judged.exposures, place)),
            noise_level=finite_or_none(judged.noise_level[place]),
            detectable_cost=finite_or_none(judged.exposures.detectable[place]),
            p_value=finite_or_none(evidence.cost_p[place]),
            p_value_alone=finite_or_none(evidence.cost_p_alone[place]),
            detected_by=detected_by,
            resolved=bool(evidence.resolved[place]),
            too_few=not bool(measured.has_enough_records[group]),
            null_gap=None if paper.null is None else paper.null.gaps[group],
            pcer=summaries.pcer[tested.cost][group],
            allowed=_allowed(bounds[name]),
        )
    return groups


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
