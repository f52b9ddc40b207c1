"""Part II of Algorithm 1: from released statistics to verdicts. ``audit(release, plan)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcer import metrics
from pcer.auditing.agreement import agreement
from pcer.auditing.comparison import algorithm1, compare
from pcer.auditing.disclosed import disclosed
from pcer.auditing.file import (
    Audit,
    AuditSubject,
    BudgetResult,
    CostValue,
    CrossProduct,
    Disparity,
    EqualGapClaim,
    FloorRow,
    GroupResult,
    PairResult,
    Plan,
    PooledDisparity,
    Summary,
)
from pcer.auditing.inference import Evidence, make_tests
from pcer.auditing.measure import (
    ColumnKey,
    Measured,
    NullDraws,
    Pair,
    draw_null,
    measure_costs,
    number,
    pairs_of,
    pooled_disparity,
    require_available,
    summarise,
)
from pcer.auditing.null import noise_level
from pcer.auditing.verdict import BudgetVerdict, Verdict, strongest
from pcer.auditing.words import account
from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.release import Release, panels
from pcer.statistics import SIGNIFICANCE, detectable, sign_test

NOT_RANDOM = "the release does not say that the split was random, which every test here needs"


def audit(release: Release, plan: Plan | None = None) -> Audit:
    """Audit a release: all seven parts of the method, deterministic for a release and a plan.

    Guarantees: the order of runs in the release changes nothing; a budget's intervals do not
    depend on which other budgets there are; what cannot be computed is None.

    Args:
        release: checked statistics, from ``read_release`` or ``release_from_predictions``.
        plan: what was fixed before looking; the design's defaults if None.

    Raises:
        PlanError: the plan names a cost, benefit or group that the release does not carry.
    """
    plan = Plan() if plan is None else plan
    _require_one_model(release)
    by_budget = panels(release)
    require_available(by_budget, plan)
    pairs = pairs_of(by_budget, plan)
    by_cost = measure_costs(by_budget, plan)
    measured = by_cost[plan.cost]
    random = release.training.split_kind == "random"
    evidence = make_tests(measured, pairs, outcome=release.subject.outcome, random=random)
    budgets = [
        _budget(one, pairs, plan, evidence.of_budget(k), release) for k, one in enumerate(measured)
    ]
    subject = _subject(release)
    return Audit(
        release_sha256=release.sha256,
        plan_sha256=plan.sha256,
        subject=subject,
        plan=plan,
        budgets=budgets,
        algorithm1=algorithm1(budgets, plan),
        comparison=compare(
            budgets, _claims(measured, pairs, evidence), plan, release.subject.outcome
        ),
        agreement=agreement(by_cost, pairs, plan),
        verdict=strongest(budget.verdict for budget in budgets),
        account=[*account(budgets, subject, plan), *disclosed(release)],
    )


def _require_one_model(release: Release) -> None:
    models = sorted({run.model or "(no name)" for run in release.runs})
    if len(models) > 1:
        raise InputError(
            f"runs[].model: the release holds {len(models)} models ({', '.join(models[:3])}...), "
            "and this version of pcer audits one; write a release for each."
        )


@dataclass(frozen=True, kw_only=True)
class _Context:
    """One budget on its way into the audit file."""

    measured: Measured
    pairs: tuple[Pair, ...]
    plan: Plan
    evidence: Evidence
    summaries: dict[ColumnKey, Summary]
    null: NullDraws | None


def _budget(
    measured: Measured,
    pairs: tuple[Pair, ...],
    plan: Plan,
    evidence: Evidence,
    release: Release,
) -> BudgetResult:
    panel = measured.panel
    context = _Context(
        measured=measured,
        pairs=pairs,
        plan=plan,
        evidence=evidence,
        summaries=summarise(_columns(measured, pairs, plan), plan, epsilon=panel.epsilon),
        null=draw_null(measured, pairs, plan),
    )
    random = release.training.split_kind == "random"
    verdict, reason = _verdict(measured, plan, evidence, random=random)
    doubled = sorted({group for group in evidence.double.tolist() if group >= 0})
    return BudgetResult(
        epsilon=_on_disk(panel.epsilon),
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=context.summaries["accuracy",],
        demographic_parity_gap=context.summaries["parity",],
        equalized_odds_gap=context.summaries["odds",],
        groups={name: _group(context, g) for g, name in enumerate(panel.group_names)},
        pairs=[_pair(context, k) for k in range(len(pairs))],
        pcer_spread=context.summaries["spread",],
        verdict=verdict,
        reason=reason,
        advice=verdict.advice(release.subject.outcome),
        double_disadvantage=[panel.group_names[group] for group in doubled],
    )


def _columns(one: Measured, pairs: tuple[Pair, ...], plan: Plan) -> dict[ColumnKey, FloatArray]:
    """Every quantity that is summarised over seeds, by name."""
    panel = one.panel
    ratio = metrics.pcer(one.benefit, one.cost, floor=plan.floor)
    gap = metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)
    difference = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
    columns: dict[ColumnKey, FloatArray] = {
        ("accuracy",): (panel.test_accuracy * panel.n_test).sum(axis=1) / panel.n_test.sum(axis=1),
        ("parity",): metrics.demographic_parity_gap(panel.positive_rate),
        ("odds",): _odds_gap(one),
        ("spread",): metrics.pcer_spread(ratio),
    }
    for g in range(len(panel.group_names)):
        columns["rate", g] = panel.positive_rate[:, g]
        columns["benefit", g] = one.benefit[:, g]
        columns["gap", g] = gap[:, g]
        columns["difference", g] = difference[:, g]
        columns["pcer", g] = ratio[:, g]
    for k, pair in enumerate(pairs):
        columns["disparity", k] = _disparity(one, pair, plan.floor)
        columns["normalised", k] = metrics.normalised_disparity(ratio[:, pair])[:, 0]
        for floor in plan.floors:
            columns["disparity", k, floor] = _disparity(one, pair, floor)
    return columns


def _odds_gap(one: Measured) -> FloatArray:
    if one.panel.test is None:
        return np.full(len(one.panel.seeds), np.nan)
    return metrics.equalized_odds_gap(
        metrics.true_positive_rate(one.panel.test), metrics.false_positive_rate(one.panel.test)
    )


def _disparity(one: Measured, pair: Pair, floor: float) -> FloatArray:
    """Disparity of one pair in every run, first minus second."""
    ratio = metrics.pcer(one.benefit[:, pair], one.cost[:, pair], floor=floor)
    return metrics.pcer_disparity(ratio)[:, 0]


def _group(context: _Context, g: int) -> GroupResult:
    one, evidence, summaries = context.measured, context.evidence, context.summaries
    estimate, null = one.estimate, context.null
    return GroupResult(
        n_train=number(one.panel.n_train[:, g].mean()),
        n_test=number(one.panel.n_test[:, g].mean()),
        positive_rate=summaries["rate", g],
        benefit=summaries["benefit", g],
        overfitting_gap=summaries["gap", g],
        accuracy_difference=summaries["difference", g],
        cost=CostValue(
            value=None if estimate is None else number(estimate.value[g]),
            standard_error=None if estimate is None else number(estimate.standard_error[g]),
        ),
        noise_level=None if one.means is None else number(noise_level(one.means.variance[g])),
        detectable_cost=(
            None
            if estimate is None
            else number(detectable(estimate.standard_error[g], n_tests=evidence.n_tests))
        ),
        p_value=number(evidence.cost_p[g]),
        resolved=bool(evidence.resolved[g]),
        null_gap=None if null is None else null.gap_picture(g, context.plan),
        pcer=summaries["pcer", g],
    )


def _pair(context: _Context, k: int) -> PairResult:
    one, evidence, plan = context.measured, context.evidence, context.plan
    i, j = context.pairs[k]
    names = one.panel.group_names
    value, ci = pooled_disparity(one, (i, j), plan)
    shown = bool(evidence.shown[k])
    doubled = int(evidence.double[k])
    return PairResult(
        groups=(names[i], names[j]),
        pcer_disparity=_published(context, k),
        normalised_disparity=context.summaries["normalised", k],
        pooled=PooledDisparity(
            disparity=value, ci=ci, costs_resolved=bool(evidence.resolved[[i, j]].all())
        ),
        cross_product=CrossProduct(
            value=number(evidence.cross[k]),
            standard_error=number(evidence.cross_error[k]),
            p_value=number(evidence.cross_p[k]),
        ),
        disparity_shown=shown,
        lower_ratio=names[j if evidence.cross[k] > 0 else i] if shown else None,
        floors=[_floor_row(context, k, floor) for floor in plan.floors],
        floor_slope=_slope(context, k),
        double_disadvantage=names[doubled] if doubled >= 0 else None,
        double_disadvantage_p=number(evidence.double_p[k]),
        sign_holds_below_floor=_sign_limit(one, evidence, k, (i, j)),
    )


def _published(context: _Context, k: int) -> Disparity:
    """The paper's number, at the plan's floor."""
    values = _disparity(context.measured, context.pairs[k], context.plan.floor)
    n_positive, n_negative = int((values > 0).sum()), int((values < 0).sum())
    null = None if context.null is None else context.null.disparity_picture(k, context.plan)
    return Disparity(
        **dict(context.summaries["disparity", k]),
        n_positive_seeds=n_positive,
        sign_test_p=sign_test(n_positive, n_negative),
        null_mean=None if null is None else null.mean,
        null_interval=None if null is None else null.interval,
    )


def _floor_row(context: _Context, k: int, floor: float) -> FloorRow:
    pair = context.pairs[k]
    cost = context.measured.cost[:, pair]
    dominated = metrics.floor_dominated(cost, floor=floor).mean()
    values = _disparity(context.measured, pair, floor)
    return FloorRow(
        **dict(context.summaries["disparity", k, floor]),
        floor=floor,
        n_positive_seeds=int((values > 0).sum()),
        floor_dominated_share=float(dominated) if np.isfinite(cost).all() else None,
    )


def _slope(context: _Context, k: int) -> float | None:
    """Least-squares slope of log |mean disparity| against log floor; -1 is all floor."""
    floors = context.plan.floors
    means = [context.summaries["disparity", k, floor].mean for floor in floors]
    known = [abs(mean) for mean in means if mean]
    if len(known) < len(floors) or len(floors) < 2:
        return None
    x, y = np.log(floors), np.log(known)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def _sign_limit(one: Measured, evidence: Evidence, k: int, pair: Pair) -> float | None:
    """Floor above which the sign turns, where the worse-off group has the higher rate."""
    if one.means is None or one.estimate is None:
        return None
    better, worse = pair if evidence.cross[k] > 0 else pair[::-1]
    rate = one.means.benefit.mean(axis=0)
    if not evidence.resolved[worse] or rate[worse] <= rate[better]:
        return None
    return float(one.estimate.value[worse] * rate[better] / rate[worse])


def _verdict(
    one: Measured, plan: Plan, evidence: Evidence, *, random: bool
) -> tuple[BudgetVerdict, str | None]:
    """The first verdict that applies, and the reason where something is missing."""
    if one.estimate is None:
        return Verdict.INSUFFICIENT_DATA, one.reason
    if not random:
        return Verdict.NOT_RESOLVED, NOT_RANDOM
    if not evidence.resolved.any():
        return Verdict.NOT_RESOLVED, None
    if one.estimate.value.max() < plan.floor:
        return Verdict.FLOOR_DOMINATED, None
    if evidence.shown.any():
        return Verdict.DISPARITY_SHOWN, None
    return Verdict.NO_DISPARITY_SHOWN, None


def _claims(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], evidence: Evidence
) -> list[EqualGapClaim]:
    """Proposition 3: passing both audits claims equal costs; these are the tests of it."""
    return [
        EqualGapClaim(
            epsilon=_on_disk(one.panel.epsilon),
            groups=(one.panel.group_names[i], one.panel.group_names[j]),
            cost_difference=-float(evidence.claim[b, k]),
            standard_error=float(evidence.claim_error[b, k]),
            p_value=float(evidence.claim_p[b, k]),
            refuted=bool(evidence.claim_p[b, k] <= SIGNIFICANCE),
        )
        for b, one in enumerate(measured)
        for k, (i, j) in enumerate(pairs)
        if np.isfinite(evidence.claim_p[b, k])
    ]


def _on_disk(epsilon: float) -> float | None:
    return None if math.isinf(epsilon) else epsilon


def _subject(release: Release) -> AuditSubject:
    subject = release.subject
    return AuditSubject(
        dataset=subject.dataset,
        attribute=subject.attribute,
        groups=subject.groups,
        outcome=subject.outcome,
        mechanism=release.training.mechanism,
        split_kind=release.training.split_kind,
        n_records=subject.n_records,
        n_missing_group=subject.n_missing_group,
        notes=subject.notes,
    )
