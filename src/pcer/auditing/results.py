"""One setting on its way into the audit file: groups, pairs, and the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pcer import metrics
from pcer.auditing.caps import STATEMENTS, Capped, Placebos
from pcer.auditing.file import (
    Answer,
    CoinFlips,
    CostValue,
    CrossProduct,
    Disparity,
    Driver,
    Equivalence,
    ExposureAnswer,
    FloorRow,
    GroupBound,
    GroupDifference,
    GroupResult,
    PairResult,
    PooledDisparity,
    PublishedBudget,
    PublishedPair,
    Summary,
)
from pcer.auditing.measure import Measured, Pair, number
from pcer.auditing.plan import Plan
from pcer.auditing.summaries import ColumnKey, NullDraws, PooledSums, pooled_disparity
from pcer.auditing.tests import Evidence
from pcer.auditing.variances import difference_limit, equivalence_p, limit_quantile, noise_level
from pcer.metrics import FloatArray
from pcer.release.format import Bound, Outcome, Release
from pcer.release.panel import Panel
from pcer.release.proxies import GAP
from pcer.statistics import (
    EXPOSURE_SHARE,
    SIGNIFICANCE,
    detectable,
    holm,
    interval_quantile,
    sign_test,
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting with everything that was found about it."""

    index: int
    measured: Measured
    gap: Measured
    pairs: tuple[Pair, ...]
    plan: Plan
    outcome: Outcome
    found: Capped
    bounds: Mapping[str, GroupBound]
    """What training allows, by group."""
    evidence: Evidence
    """Of this setting alone."""
    whole: Evidence
    """Of all settings, whose sizes the limits that hold together need."""
    attacks: tuple[str, ...]
    """Those that decide."""
    placebos: Placebos
    summaries: dict[ColumnKey, Summary]
    null: NullDraws | None
    pooled: PooledSums | None
    """What pooled disparities are made of."""
    equivalence: FloatArray | None
    """(pair,) adjusted p-values of "equal within the margin"."""

    @property
    def cost(self) -> str:
        """Name of the cost."""
        return self.measured.proxy.name

    @cached_property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """Most that each group's cost can be: of one alone, and of all of the audit at once."""
        level, n = self.plan.confidence_level, max(1, self.whole.cost_p_alone.size)
        return _limits(self.measured, level, 1), _limits(self.measured, level, n)


def columns_of(one: Measured, pairs: tuple[Pair, ...], plan: Plan) -> dict[ColumnKey, FloatArray]:
    """Every quantity of one cost that is summarised over seeds, by name."""
    cost, main = one.proxy.name, floor_of(one, plan)
    ratio = metrics.pcer(one.benefit, one.cost, floor=main)
    columns: dict[ColumnKey, FloatArray] = {("spread", cost): metrics.pcer_spread(ratio)}
    for g in range(ratio.shape[1]):
        columns["pcer", cost, g] = ratio[:, g]
    for k, pair in enumerate(pairs):
        columns["disparity", cost, k] = _disparity(one, pair, main)
        columns["normalised", cost, k] = metrics.normalised_disparity(ratio[:, pair])[:, 0]
        for floor in plan.floors:
            columns["disparity", cost, k, floor] = _disparity(one, pair, floor)
    return columns


def shared_columns(one: Measured) -> dict[ColumnKey, FloatArray]:
    """The same of what no cost enters into."""
    panel = one.panel
    gap = metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)
    difference = metrics.accuracy_difference(panel.train_accuracy, panel.test_accuracy)
    columns: dict[ColumnKey, FloatArray] = {
        ("accuracy",): (panel.test_accuracy * panel.n_test).sum(axis=1) / panel.n_test.sum(axis=1),
        ("parity",): metrics.demographic_parity_gap(panel.positive_rate),
        ("odds",): _odds_gap(one),
    }
    for g in range(len(panel.group_names)):
        columns["rate", g] = panel.positive_rate[:, g]
        columns["benefit", g] = one.benefit[:, g]
        columns["gap", g] = gap[:, g]
        columns["difference", g] = difference[:, g]
    return columns


def group_result(setting: Setting, g: int) -> GroupResult:
    """One group in one setting."""
    one, evidence, summaries = setting.measured, setting.evidence, setting.summaries
    counted = one.exposed is not None and one.exposed.is_counted
    null = setting.null if counted else None
    return GroupResult(
        n_train=number(one.panel.n_train[:, g].mean()),
        n_test=number(one.panel.n_test[:, g].mean()),
        positive_rate=summaries["rate", g],
        benefit=summaries["benefit", g],
        overfitting_gap=summaries["gap", g],
        accuracy_difference=summaries["difference", g],
        cost=_cost(setting, g),
        noise_level=_noise_level(setting, g),
        detectable_cost=_detectable_cost(setting, g),
        p_value=number(evidence.cost_p[g]),
        p_value_alone=number(evidence.cost_p_alone[g]),
        detected_by=_detector(setting, g),
        resolved=bool(evidence.resolved[g]),
        too_few=not bool(one.told[g]),
        null_gap=None if null is None else null.gap_picture(g, setting.plan),
        pcer=summaries["pcer", setting.cost, g],
        allowed=setting.bounds.get(one.panel.group_names[g]),
    )


def bounds_of(release: Release, panel: Panel) -> dict[str, GroupBound]:
    """What training allows in one setting, by group; nothing without receipts."""
    epsilon = on_disk(panel.epsilon)
    rows = [
        row
        for row in release.bounds
        if (row.model, row.epsilon, row.kind) == (panel.model, epsilon, "receipt")
    ]
    return {
        row.group: GroupBound(
            mode=row.mode,
            accountant=row.accountant,
            nominal=row.nominal,
            spent=row.mean,
            standard_error=row.standard_error,
            quantiles=row.quantiles,
            by_label={
                str(one.label): one.mean
                for one in rows
                if one.group == row.group and one.label is not None
            },
            advantage=_advantage(release, row),
        )
        for row in rows
        if row.label is None
    }


def _advantage(release: Release, receipt: Bound) -> float | None:
    """The advantage that goes with a receipt; it may stand in the row of what was realised."""
    same = (receipt.model, receipt.epsilon, receipt.group, None)
    known = (
        row.allowed_advantage
        for row in (receipt, *release.bounds)
        if (row.model, row.epsilon, row.group, row.label) == same
    )
    return next((value for value in known if value is not None), None)


def pair_result(setting: Setting, k: int) -> PairResult:
    """Two groups in one setting."""
    one, evidence, plan = setting.measured, setting.evidence, setting.plan
    i, j = setting.pairs[k]
    names = one.panel.group_names
    value, ci = pooled_disparity(setting.pooled, (i, j), plan)
    shown = bool(setting.found.shown[setting.index, k])
    doubled = int(setting.found.double[setting.index, k])
    flips, answer = _flips(setting, setting.attacks[0], k), _exposure_answer(setting, k)
    return PairResult(
        groups=(names[i], names[j]),
        pcer_disparity=_published(setting, one, k),
        normalised_disparity=setting.summaries["normalised", setting.cost, k],
        pooled=PooledDisparity(
            disparity=value, ci=ci, costs_resolved=bool(evidence.resolved[[i, j]].all())
        ),
        exposure=_difference(setting, "exposure", k),
        benefit=_difference(setting, "benefit", k),
        cross_product=CrossProduct(
            value=number(evidence.cross[k]),
            standard_error=number(evidence.cross_error[k]),
            p_value=number(evidence.cross_p[k]),
            p_value_alone=number(evidence.cross_p_alone[k]),
        ),
        disparity_shown=shown,
        lower_ratio=names[j if evidence.cross[k] > 0 else i] if shown else None,
        more_exposed=answer.group,
        exposure_answer=answer,
        better_off=_side(setting, k, _better(setting, k), evidence.benefits_differ[k]),
        driven_by=_driver(setting, k) if shown else None,
        floors=[_floor_row(setting, one, k, floor) for floor in plan.floors],
        floor_slope=_slope(setting, one, k),
        double_disadvantage=names[doubled] if doubled >= 0 else None,
        double_disadvantage_p=number(evidence.double_p[k]),
        double_disadvantage_p_alone=number(evidence.double_p_alone[k]),
        equivalence=_equivalence(setting, k),
        coin_flips=flips,
        capped=_capped(setting, k),
        sign_holds_below_floor=_sign_limit(setting, k, (i, j)),
    )


def published_budget(setting: Setting) -> PublishedBudget:
    """The paper's numbers, the gap being the cost."""
    one, names = setting.gap, setting.gap.panel.group_names
    return PublishedBudget(
        epsilon=on_disk(one.panel.epsilon),
        pcer={name: setting.summaries["pcer", GAP.name, g] for g, name in enumerate(names)},
        pairs=[
            PublishedPair(
                groups=(names[i], names[j]),
                pcer_disparity=_published(setting, one, k),
                normalised_disparity=setting.summaries["normalised", GAP.name, k],
                floors=[_floor_row(setting, one, k, floor) for floor in setting.plan.floors],
                floor_slope=_slope(setting, one, k),
            )
            for k, (i, j) in enumerate(setting.pairs)
        ],
    )


def adjusted_equivalence(whole: Evidence, plan: Plan) -> FloatArray | None:
    """(setting, pair) adjusted p-values of "equal within the margin"; None without a margin."""
    if plan.margin is None:
        return None
    p = equivalence_p(whole.exposure, whole.exposure_error, margin=plan.margin)
    return holm(np.where(np.isfinite(whole.exposure_p_alone), p, np.nan))


def floor_of(one: Measured, plan: Plan) -> float:
    """The plan's floor, or the cost's own where that is larger."""
    return max(plan.floor, one.proxy.floor)


def on_disk(epsilon: float) -> float | None:
    """A budget as files have it."""
    return None if math.isinf(epsilon) else epsilon


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


def _cost(setting: Setting, g: int) -> CostValue:
    one, level = setting.measured, setting.plan.confidence_level
    known = one.exposed is not None and one.told[g] and np.isfinite(one.exposed.variance[g])
    if one.exposed is None or not known:
        value = None if one.exposed is None else number(one.exposed.value[g])
        return CostValue(
            value=value,
            standard_error=None,
            interval=None,
            upper_limit=None,
            upper_limit_together=None,
        )
    value, error = float(one.exposed.value[g]), float(np.sqrt(one.exposed.alone[g]))
    reach = interval_quantile(level) * error
    alone, together = setting.limits
    return CostValue(
        value=value,
        standard_error=error,
        interval=(value - reach, value + reach),
        upper_limit=number(alone[g]),
        upper_limit_together=number(together[g]),
    )


def _limits(one: Measured, level: float, n: int) -> FloatArray:
    """Most that costs can be; where nothing can vary, not less than what could hide."""
    if one.exposed is None:
        return np.full(len(one.told), np.nan)
    limit = one.exposed.limit(z=limit_quantile(n_limits=n, confidence_level=level))
    hidden = one.hidden_limit(1 - (1 - level) / n)
    return np.minimum(np.fmax(limit, hidden), one.proxy.scale.largest)


def _noise_level(setting: Setting, g: int) -> float | None:
    """What the cost, no less than 0, is on average if nothing is memorised; None if unknown."""
    exposed = setting.measured.exposed
    if exposed is None or not setting.measured.told[g] or not exposed.null_variance[g] > 0:
        return None
    return number(noise_level(exposed.null_variance[g] * exposed.n_splits))


def _detectable_cost(setting: Setting, g: int) -> float | None:
    exposed = setting.measured.exposed
    if exposed is None or not setting.measured.told[g] or not exposed.null_variance[g] > 0:
        return None
    error = np.sqrt(exposed.null_variance[g])
    n_tests = len(setting.attacks) * setting.whole.n_cost_tests
    return number(detectable(error, n_tests=n_tests))


def _difference(setting: Setting, what: str, k: int) -> GroupDifference:
    """Exposures or benefits, first minus second."""
    evidence, level = setting.evidence, setting.plan.confidence_level
    value, error = -getattr(evidence, what)[k] + 0.0, getattr(evidence, f"{what}_error")[k]
    n = max(1, setting.whole.n_pair_tests)
    n_tests, level_of_tests = n, SIGNIFICANCE
    if what == "exposure":
        n_tests, level_of_tests = n * len(setting.attacks), SIGNIFICANCE * EXPOSURE_SHARE
    reach, known = interval_quantile(level) * error, bool(np.isfinite(value + error))
    limits = [
        number(difference_limit(value, error, z=limit_quantile(n_limits=m, confidence_level=level)))
        for m in (1, n)
    ]
    return GroupDifference(
        value=number(value),
        standard_error=number(error),
        interval=(float(value - reach), float(value + reach)) if known else None,
        upper_limit=limits[0],
        upper_limit_together=limits[1],
        detectable=number(detectable(error, n_tests=2 * n_tests, level=level_of_tests)),
        p_value=number(getattr(evidence, f"{what}_p")[k]),
        p_value_alone=number(getattr(evidence, f"{what}_p_alone")[k]),
    )


def _side(setting: Setting, k: int, second_minus_first: float, differ: bool) -> str | None:
    """The group on the higher side of a difference that is beyond chance."""
    names, (i, j) = setting.measured.panel.group_names, setting.pairs[k]
    return names[j if second_minus_first > 0 else i] if differ else None


def _better(setting: Setting, k: int) -> float:
    sign = 1.0 if setting.outcome == "benefit" else -1.0
    return sign * float(setting.evidence.benefit[k])


def _driver(setting: Setting, k: int) -> Driver:
    """What makes the ratios unequal, each by its own test and after every cap."""
    exposures = setting.found.exposures_differ[setting.index, k]
    benefits = setting.evidence.benefits_differ[k]
    if exposures and benefits:
        return "both"
    return "exposures" if exposures else "benefits" if benefits else "together"


def _equivalence(setting: Setting, k: int) -> Equivalence | None:
    if setting.equivalence is None or setting.plan.margin is None:
        return None
    p = setting.equivalence[k]
    return Equivalence(margin=setting.plan.margin, p_value=number(p), shown=bool(p <= SIGNIFICANCE))


def _detector(setting: Setting, g: int) -> str | None:
    known = np.isfinite(setting.evidence.cost_p_alone[g])
    return setting.attacks[setting.evidence.detected_by[g]] if known else None


def _exposure_answer(setting: Setting, k: int) -> ExposureAnswer:
    evidence, at, pair = setting.evidence, setting.index, setting.pairs[k]
    attack = setting.attacks[evidence.decided_by[k]]
    differs = bool(setting.found.exposures_differ[at, k])
    rest: Answer = "cannot_tell"
    if np.isfinite(evidence.exposure_p[k]):
        is_detected = evidence.resolved[list(pair)].any()
        rest = "no_difference_shown" if is_detected else "none_detected"
    group = setting.measured.panel.group_names[evidence.more_exposed[k]]
    return ExposureAnswer(
        answer="differs" if differs else rest,
        group=group if differs else None,
        attack=attack,
        p_value=number(evidence.exposure_p[k]),
        p_value_alone=number(evidence.exposure_p_alone[k]),
        contradicted=bool(evidence.contradicted[k]),
        downgraded=setting.found.reasons.get((at, k, "exposure")),
        placebo=_flips(setting, attack, k),
    )


def _capped(setting: Setting, k: int) -> str | None:
    """Why an alarm does not hold; of several reasons the first."""
    found = (setting.found.reasons.get((setting.index, k, what)) for what in STATEMENTS)
    return next((reason for reason in found if reason is not None), None)


def _flips(setting: Setting, attack: str, k: int) -> CoinFlips | None:
    row = setting.placebos.row(setting.index, attack, k)
    if row is None:
        return None
    return CoinFlips(
        n_draws=row.n_draws,
        n_shown=row.n_shown,
        n_double=row.n_double,
        n_exposure=row.n_exposure,
        permutation_p=row.p_value,
        permutation_p_within_labels=row.p_value_within_labels,
        exposure_p=row.exposure_p_value,
        exposure_p_within_labels=row.exposure_p_value_within_labels,
    )


def _published(setting: Setting, one: Measured, k: int) -> Disparity:
    """The paper's number, at the plan's floor."""
    values = _disparity(one, setting.pairs[k], floor_of(one, setting.plan))
    n_positive, n_negative = int((values > 0).sum()), int((values < 0).sum())
    known = bool(np.isfinite(values).all()) and not one.is_pooled
    drawn = setting.null if one.proxy.is_from_counts else None
    null = None if drawn is None else drawn.disparity_picture(k, setting.plan)
    return Disparity(
        **dict(setting.summaries["disparity", one.proxy.name, k]),
        n_positive_seeds=n_positive if known else None,
        sign_test_p=sign_test(n_positive, n_negative) if known else None,
        null_mean=None if null is None else null.mean,
        null_interval=None if null is None else null.interval,
    )


def _floor_row(setting: Setting, one: Measured, k: int, floor: float) -> FloorRow:
    pair = setting.pairs[k]
    cost, values = one.cost[:, pair], _disparity(one, pair, floor)
    dominated = metrics.floor_dominated(cost, floor=floor).mean()
    known = bool(np.isfinite(values).all()) and not one.is_pooled
    return FloorRow(
        **dict(setting.summaries["disparity", one.proxy.name, k, floor]),
        floor=floor,
        n_positive_seeds=int((values > 0).sum()) if known else None,
        floor_dominated_share=float(dominated) if np.isfinite(cost).all() else None,
    )


def _slope(setting: Setting, one: Measured, k: int) -> float | None:
    """Least-squares slope of log |mean disparity| against log floor; -1 is all floor."""
    floors, name = setting.plan.floors, one.proxy.name
    means = [setting.summaries["disparity", name, k, floor].mean for floor in floors]
    known = [abs(mean) for mean in means if mean]
    if len(known) < len(floors) or len(floors) < 2:
        return None
    x, y = np.log(floors), np.log(known)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def _sign_limit(setting: Setting, k: int, pair: Pair) -> float | None:
    """Floor above which the sign turns, where the worse-off group has the higher rate."""
    one, evidence = setting.measured, setting.evidence
    if one.received is None or one.exposed is None:
        return None
    better, worse = pair if evidence.cross[k] > 0 else pair[::-1]
    rate = one.received.value
    if not evidence.resolved[worse] or rate[worse] <= rate[better]:
        return None
    return float(one.exposed.value[worse] * rate[better] / rate[worse])
