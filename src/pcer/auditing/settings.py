"""What does an audit say of one setting, and of each group in it?

``audit`` asks ``setting_result`` once a setting. Numbers come ready from ``judge``
(measuring/judged.py) and from the room paper; here they fill records, of pairs in
``pairs``.

To add a verdict: a member of ``Verdict`` (measuring/plan.py), a line of
``PairResult.statements`` (record.py), and a badge in ``words.toml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from pcer import metrics
from pcer.auditing import answers, record
from pcer.auditing.pairs import (
    ComparedPair,
    InSetting,
    estimate_fields,
    pair_result,
)
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.exposure import LEAST_RECORDS, Measured
from pcer.measuring.judged import Judged
from pcer.measuring.outcomes import benefit_of
from pcer.measuring.plan import Plan
from pcer.measuring.sizes import Level
from pcer.measuring.tested import Tested
from pcer.measuring.variances import by_split
from pcer.metrics import FloatArray
from pcer.paper.numbers import OVER_SPLITS, SettingNumbers
from pcer.release.panel import Panel
from pcer.release.records import AccuracyLoss, Copies
from pcer.statistics import (
    bootstrap_sums,
    finite_or_none,
    generator,
)
from pcer.wording import say

Row = TypeVar("Row", Copies, AccuracyLoss)


def setting_result(
    tested: Tested, judged: Judged, paper: SettingNumbers, index: int
) -> record.SettingResult:
    """One setting by the deciding attacks, beside the paper's numbers."""
    measured = tested.measured[tested.attack][index]
    here = InSetting(tested, judged, judged.evidence, measured, index)
    pooled_ratio = _pooled_ratios(measured, tested.plan)
    pairs = []
    for pair_index, (first, second) in enumerate(tested.pairs):
        compared = ComparedPair(here, (index, pair_index), first, second)
        pairs.append(pair_result(compared, pooled_ratio, paper.pairs[pair_index]))

    panel = measured.panel
    summaries = paper.summaries
    return record.SettingResult(
        model=panel.model,
        epsilon=stated_epsilon(panel),
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=summaries.accuracy,
        majority=_majority(panel),
        demographic_parity_gap=summaries.demographic_parity_gap,
        equalized_odds_gap=summaries.equalized_odds_gap,
        groups=_group_results(here, paper),
        pairs=pairs,
        pcer_spread=summaries.attacks[tested.attack].spread,
        verdict=record.strongest(pair.verdict for pair in pairs),
        level=Level.CANNOT_TELL,  # follows with the six answers
        answers=None,
        tail=None,  # follows, by ``tails``
        reason=_reason(here),
        copies=_of_setting(tested.release.copies, panel),
        accuracy_loss=_of_setting(tested.release.accuracy_loss, panel),
        headline="",  # follows, by ``conclude``
    )


def _of_setting(rows: Sequence[Row], panel: Panel) -> list[Row]:
    """Those rows of a release that are about this setting."""
    setting = (panel.model, stated_epsilon(panel))
    return [row for row in rows if (row.model, row.epsilon) == setting]


def _majority(panel: Panel) -> float | None:
    """The share of the commoner true outcome among all test records."""
    if panel.test is None:
        return None
    share = float((panel.test.tp + panel.test.fn).sum() / panel.test.n.sum())
    return finite_or_none(max(share, 1 - share))


def _reason(here: InSetting) -> str | None:
    """Why nothing can be told, or else why the first alarm was downgraded."""
    reason = _cannot_tell(here)
    if reason is not None:
        return reason
    for (setting_index, _, _), downgraded in here.evidence.reasons.items():
        if setting_index == here.setting_index:
            return downgraded
    return None


def _cannot_tell(here: InSetting) -> str | None:
    """Why exposures of a setting cannot be told; None where some pair's can."""
    measured = here.measured
    if measured.exposed is None:
        return measured.reason
    if here.tested.release.training.split_kind != "random":
        return say("reason", "not_random")
    contradiction = here.tested.contradiction
    if contradiction is not None:
        return f"{contradiction[0].lower()}{contradiction[1:].rstrip('.')}"

    has_group = np.isfinite(here.evidence.detection_p_alone[here.setting_index]).any()
    has_pair = np.isfinite(here.evidence.exposure.p_value[here.setting_index]).any()
    if has_group and has_pair:
        return None
    names = measured.panel.group_names
    few = [names[group] for group in np.flatnonzero(~measured.has_enough_records)]
    if not few:
        return say("reason", "nothing_varies")
    return say("reason", "too_few", names=", ".join(few), least=LEAST_RECORDS)


# Groups


def _group_results(
    here: InSetting, paper: SettingNumbers
) -> dict[str, record.GroupResult]:
    """Every group's numbers, by name."""
    tested = here.tested
    evidence = here.evidence
    exposures = here.judged.exposures
    panel = here.measured.panel
    summaries = paper.summaries
    groups = {}
    for group, name in enumerate(panel.group_names):
        place = here.setting_index, group
        detected_by = None
        if np.isfinite(evidence.detection_p_alone[place]):
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
            accuracy=finite_or_none(panel.test_accuracy[:, group].mean()),
            exposure=answers.Estimate(
                **estimate_fields(exposures, place, exposures.high)
            ),
            noise_level=finite_or_none(here.judged.noise_level[place]),
            detectable=finite_or_none(exposures.detectable[place]),
            p_value=finite_or_none(evidence.detection_p[place]),
            p_value_alone=finite_or_none(evidence.detection_p_alone[place]),
            detected_by=detected_by,
            detected=bool(evidence.detected[place]),
            too_few=not bool(here.measured.has_enough_records[group]),
            null_gap=None if paper.null is None else paper.null.gaps[group],
            pcer=summaries.pcer[tested.attack][group],
            allowed=_allowed(here, name),
        )
    return groups


def _allowed(here: InSetting, group: str) -> record.GroupBound | None:
    """What training allows; None without receipts and promises to groups."""
    panel = here.measured.panel
    place = (panel.model, stated_epsilon(panel), group)
    rows = [
        row
        for row in here.tested.release.bounds
        if (row.model, row.epsilon, row.group) == place and row.label is None
    ]
    by_kind = {row.kind: row for row in rows}
    promise = by_kind.get("promise")
    receipt = by_kind.get("receipt")
    main = receipt or promise
    if main is None:
        return None
    # The advantage that goes with a receipt may stand in the row of what was realised.
    advantages = [row.allowed_advantage for row in (main, *rows)]
    known = [advantage for advantage in advantages if advantage is not None]
    advantage = known[0] if known else None
    copied = {"mode", "accountant", "nominal", "standard_error", "quantiles"}
    return record.GroupBound(
        **main.model_dump(include=copied),
        promised=None if promise is None else promise.mean,
        spent=None if receipt is None else receipt.mean,
        advantage=advantage,
    )


# Pooled ratios


def _pooled_ratios(measured: Measured, plan: Plan) -> FloatArray | None:
    """Pooled rate over pooled exposure (draw, group).

    The first row is as observed, the others are bootstrap draws of splits; there are
    none with one split. None where a rate or an exposure is not given.
    """
    exposed = measured.exposed
    if exposed is None or np.isnan(measured.received.value).any():
        return None
    n_records = benefit_of(measured.panel, plan).n_test
    parts = np.stack([measured.benefit * n_records, n_records])  # (part, seed, group)
    shares = by_split(parts.swapaxes(0, 1), measured.panel.split)
    if exposed.n_splits != len(shares):  # an exposure over all models
        shares = shares.mean(axis=0, keepdims=True)
    parts = np.stack([shares[:, 0], shares[:, 1], exposed.per_split], axis=1)

    sums = parts.sum(axis=0, keepdims=True)
    if exposed.n_splits > 1:
        panel = measured.panel
        rng = generator(
            plan.rng, purpose=OVER_SPLITS, epsilon=panel.epsilon, model=panel.model
        )
        draws = bootstrap_sums(parts, resamples=plan.resamples, rng=rng)
        sums = np.concatenate([sums, draws])
    received = sums[:, 0]
    exposure = sums[:, 2]
    rate = received / sums[:, 1]
    return metrics.pcer(rate, exposure / exposed.n_splits, floor=measured.floor)
