"""What does an audit say of one setting?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pcer import statistics
from pcer.auditing import record
from pcer.auditing.pairs import estimate_fields, pair_result, pooled_disparities
from pcer.measuring import measure
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.evidence import Evidence, Tested
from pcer.measuring.measure import number
from pcer.measuring.verdict import strongest
from pcer.paper import records
from pcer.paper.null import Null
from pcer.paper.numbers import Summaries, published_pair, seed_columns, summarise
from pcer.release.attack_kinds import GAP
from pcer.release.records import Bound
from pcer.wording import say


def setting_result(
    tested: Tested, evidence: Evidence, k: int
) -> tuple[record.BudgetResult, records.PublishedBudget]:
    """Setting ``k`` by the deciding attacks, and the paper's numbers, the gap being the cost."""
    main = tested.measured[tested.cost][k]
    gap = tested.measured[GAP.name][k]
    panel = main.panel
    names = main.panel.group_names
    n_pairs = range(len(tested.pairs))
    epsilon = stated_epsilon(panel)
    columns = seed_columns(main, gap, tested.pairs, tested.plan)
    summaries = summarise(columns, main, gap, tested.plan)
    null: Null | None = tested.chance(k)
    by_main, by_gap = (
        [
            published_pair(measured, tested, pair, columns, summaries, null)
            for pair in n_pairs
        ]
        for measured in (main, gap)
    )
    parts = zip(n_pairs, by_main, pooled_disparities(tested, evidence, k), strict=True)
    pairs = [
        pair_result(tested, evidence, k, at, **paper, pooled=pooled)
        for at, paper, pooled in parts
    ]
    verdict = strongest(pair.verdict for pair in pairs)
    downgraded = (
        reason for (setting, *_), reason in evidence.reasons.items() if setting == k
    )
    result = record.BudgetResult(
        model=panel.model,
        epsilon=epsilon,
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=summaries["accuracy",],
        demographic_parity_gap=summaries["parity",],
        equalized_odds_gap=summaries["odds",],
        groups=group_results(tested, evidence, k, summaries, null),
        pairs=pairs,
        pcer_spread=summaries["spread", tested.cost],
        verdict=verdict,
        reason=_cannot_tell(tested, evidence, k) or next(downgraded, None),
        headline="",
    )
    return result, records.PublishedBudget(
        epsilon=epsilon,
        pcer={name: summaries["pcer", GAP.name, g] for g, name in enumerate(names)},
        pairs=[records.PublishedPair(**paper) for paper in by_gap],
    )


def _cannot_tell(tested: Tested, evidence: Evidence, k: int) -> str | None:
    """Why exposures of a setting cannot be told; None where some pair's can."""
    measured = tested.measured[tested.cost][k]
    contradiction = tested.contradiction
    if measured.exposed is None:
        return measured.reason
    if tested.release.training.split_kind != "random":
        return say("reason", "not_random")
    if contradiction is not None:
        return f"{contradiction[0].lower()}{contradiction[1:].rstrip('.')}"
    if all(
        np.isfinite(p[k]).any()
        for p in (evidence.cost_p_alone, evidence.exposure.p_value)
    ):
        return None
    few = [measured.panel.group_names[g] for g in np.flatnonzero(~measured.enough)]
    form = "too_few" if few else "nothing_varies"
    least = measure.LEAST_RECORDS
    return say("reason", form, names=", ".join(few), least=least)


def group_results(
    tested: Tested, evidence: Evidence, k: int, summaries: Summaries, null: Null | None
) -> dict[str, record.GroupResult]:
    """Every group's numbers in one setting, by name."""
    measured = tested.measured[tested.cost][k]
    plan = tested.plan
    attacks = tested.attacks
    exposed = measured.exposed
    panel = measured.panel
    level = plan.confidence_level
    groups = {}
    values = errors = np.full(len(measured.enough), np.nan)
    if exposed is not None:
        is_known = measured.enough & np.isfinite(exposed.variance)
        values = exposed.value
        errors = np.where(is_known, np.sqrt(exposed.alone), np.nan)
    n_limits = max(1, evidence.cost_p_alone.size)
    limits = [measured.upper_limit(level=level, n_limits=n) for n in (1, n_limits)]
    setting = panel.model, stated_epsilon(panel)
    bounds = [
        row for row in tested.release.bounds if (row.model, row.epsilon) == setting
    ]
    for g, name in enumerate(panel.group_names):
        noise, smallest = None, None
        if exposed is not None and measured.enough[g] and exposed.null_variance[g] > 0:
            variance = exposed.null_variance[g]
            # the mean of max(0, noise): the "gap" of a model that memorises nothing
            noise = math.sqrt(variance * exposed.n_splits / (2 * math.pi))
            n_tests = len(attacks) * evidence.n_cost_tests
            smallest = number(statistics.detectable(np.sqrt(variance), n_tests=n_tests))
        is_tested = np.isfinite(evidence.cost_p_alone[k, g])
        largest = measured.proxy.scale.largest
        own_limits = [limit[g] for limit in limits]
        groups[name] = record.GroupResult(
            n_train=number(panel.n_train[:, g].mean()),
            n_test=number(panel.n_test[:, g].mean()),
            positive_rate=summaries["rate", g],
            true_rate=summaries["true", g],
            true_positive_rate=summaries["tpr", g],
            false_positive_rate=summaries["fpr", g],
            benefit=summaries["benefit", g],
            overfitting_gap=summaries["gap", g],
            accuracy_difference=summaries["difference", g],
            cost=record.Estimate(
                **estimate_fields(values[g], errors[g], own_limits, largest, level)
            ),
            noise_level=noise,
            detectable_cost=smallest,
            p_value=number(evidence.cost_p[k, g]),
            p_value_alone=number(evidence.cost_p_alone[k, g]),
            detected_by=attacks[evidence.detected_by[k, g]] if is_tested else None,
            resolved=bool(evidence.resolved[k, g]),
            too_few=not bool(measured.enough[g]),
            null_gap=null[0][g] if null is not None else None,
            pcer=summaries["pcer", tested.cost, g],
            allowed=_bound([row for row in bounds if row.group == name]),
        )
    return groups


def _bound(rows: Sequence[Bound]) -> record.GroupBound | None:
    """What training allows about one group; None without receipts and promises to groups."""
    whole = {row.kind: row for row in rows if row.label is None}
    promise = whole.get("promise")
    receipt = whole.get("receipt")
    first = receipt or promise
    if first is None:
        return None
    # the advantage that goes with a receipt may stand in the row of what was realised
    beside = [row.allowed_advantage for row in (first, *rows) if row.label is None]
    copied = {"mode", "accountant", "nominal", "standard_error", "quantiles"}
    return record.GroupBound(
        **first.model_dump(include=copied),
        promised=None if promise is None else promise.mean,
        spent=None if receipt is None else receipt.mean,
        advantage=next((value for value in beside if value is not None), None),
    )
