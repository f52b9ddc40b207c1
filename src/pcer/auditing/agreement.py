"""Do the attacks of a release agree with the gap? The paper's validation, for any release.

Each attack stands beside the overfitting gap, all other things equal. Descriptive: seeds and
budgets share records, so counts over settings are no independent votes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pcer import metrics
from pcer.auditing.checks import variance_inflation
from pcer.auditing.comparison import pearson
from pcer.auditing.file import Audit
from pcer.auditing.measure import Measured, Pair, measure_costs, pairs_of
from pcer.auditing.plan import Plan
from pcer.files import Record
from pcer.metrics import FloatArray
from pcer.release import panels
from pcer.release.panel import Panel
from pcer.release.proxies import GAP, proxy_named
from pcer.statistics import SIGNIFICANCE, holm, upper_p


class BoundCheck(Record):
    """How often an attack does better than the overfitting gap, which the paper says bounds it."""

    n_runs: int
    n_runs_exceeding: int
    n_cells: int
    n_cells_exceeding: int
    n_cells_refuting: int


class ProxyAgreement(Record):
    """One attack beside the gap: over (budget, group) cells and (budget, pair) settings."""

    proxy: str
    n_cells: int
    correlation: float | None
    n_settings: int
    n_same_sign: int
    n_larger_disparity: int
    median_ratio: float | None
    disparity_correlation: float | None
    bound: BoundCheck | None


class Agreement(Record):
    """Whether the attacks that a release carries agree with the gap. Descriptive."""

    baseline: str
    proxies: list[ProxyAgreement]


@dataclass(frozen=True, kw_only=True)
class _Story:
    """What one proxy says, over the budgets that carry it; NaN where it says nothing."""

    cost: FloatArray
    """(budget, group) mean over seeds; the gap clipped as published, all else signed."""
    error: FloatArray
    """(budget, group) standard error of the cost estimate."""
    disparity: FloatArray
    """(budget, pair) mean over seeds at the plan's floor; NaN of a cost that has none of seeds."""


def agreement(audit: Audit) -> Agreement | None:
    """Every attack that the audited release has beside the gap; None if it has none."""
    release, plan = audit.sources[0], audit.plan
    by_setting = panels(release)
    by_cost = measure_costs(by_setting, plan, inflation=variance_inflation(release))
    pairs = pairs_of(by_setting, plan)
    proxies = sorted(by_cost.keys() - {GAP.name})
    if not proxies:
        return None
    stories = {name: _story(measured, pairs, plan, name) for name, measured in by_cost.items()}
    gap = stories[GAP.name]
    return Agreement(
        baseline=GAP.name,
        proxies=[
            _beside(gap, stories[name], proxy=name, bound=_bound(by_setting, stories, name))
            for name in proxies
        ],
    )


def _story(measured: Sequence[Measured], pairs: tuple[Pair, ...], plan: Plan, proxy: str) -> _Story:
    return _Story(
        cost=np.stack([_published_cost(one, proxy).mean(axis=0) for one in measured]),
        error=np.stack([_error(one) for one in measured]),
        disparity=np.stack([_disparities(one, pairs, plan) for one in measured]),
    )


def _published_cost(one: Measured, proxy: str) -> FloatArray:
    return np.maximum(one.cost, 0.0) if proxy == GAP.name else one.cost


def _error(one: Measured) -> FloatArray:
    if one.exposed is None:
        return np.full(one.cost.shape[1], np.nan)
    return np.sqrt(one.exposed.variance)


def _disparities(one: Measured, pairs: tuple[Pair, ...], plan: Plan) -> FloatArray:
    if one.is_pooled:
        return np.full(len(pairs), np.nan)
    ratio = metrics.pcer(one.benefit, one.cost, floor=plan.floor).mean(axis=0)
    return np.array([ratio[i] - ratio[j] for i, j in pairs])


def _beside(
    ours: _Story, theirs: _Story, *, proxy: str, bound: BoundCheck | None
) -> ProxyAgreement:
    costs = _both(ours.cost, theirs.cost)
    disparities = _both(ours.disparity, theirs.disparity)
    mine, other = np.array(disparities).reshape(-1, 2).T
    ratios = np.abs(other[mine != 0]) / np.abs(mine[mine != 0])
    return ProxyAgreement(
        proxy=proxy,
        n_cells=len(costs),
        correlation=pearson(costs),
        n_settings=len(disparities),
        n_same_sign=int((mine * other > 0).sum()),
        n_larger_disparity=int((np.abs(other) >= np.abs(mine)).sum()),
        median_ratio=float(np.median(ratios)) if len(ratios) else None,
        disparity_correlation=pearson(disparities),
        bound=bound,
    )


def _both(first: FloatArray, second: FloatArray) -> list[tuple[float, float]]:
    """Where both are known, as pairs of numbers."""
    known = np.isfinite(first) & np.isfinite(second)
    return list(zip(first[known].tolist(), second[known].tolist(), strict=True))


def _bound(
    by_setting: Sequence[Panel], stories: Mapping[str, _Story], name: str
) -> BoundCheck | None:
    """Proposition 1 as a measurement: is the advantage at most the gap?

    A cell refutes the bound if its mean advantage exceeds its mean gap beyond the errors of
    both, one-sided, Holm-adjusted over cells.
    """
    if not proxy_named(name).scale.is_advantage:
        return None
    attack, gap = stories[name], stories[GAP.name]
    excess = attack.cost - gap.cost
    p = holm(upper_p(excess, np.hypot(attack.error, gap.error)))
    runs = np.concatenate([_excess_of_runs(panel, name) for panel in by_setting])
    return BoundCheck(
        n_runs=int(np.isfinite(runs).sum()),
        n_runs_exceeding=int((runs > 0).sum()),
        n_cells=int(np.isfinite(excess).sum()),
        n_cells_exceeding=int((excess > 0).sum()),
        n_cells_refuting=int((p <= SIGNIFICANCE).sum()),
    )


def _excess_of_runs(panel: Panel, name: str) -> FloatArray:
    """Advantage minus gap of single models and groups; empty for a pooled proxy."""
    if name not in panel.exposure:
        return np.empty(0)
    gap = metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)
    return np.asarray(panel.exposure[name].value - gap).ravel()
