"""Which cost an audit rests on, and what the others say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pcer.auditing.caps import Capped
from pcer.auditing.file import CostStory
from pcer.auditing.measure import Measured, Pair, measure_panel
from pcer.auditing.plan import SHARPEST, Plan
from pcer.metrics import IntArray
from pcer.release import Panel, Proxy, Release, proxies, proxy_named
from pcer.statistics import holm

SHARPNESS = (
    proxies.LIRA,
    proxies.PAIRED_CONFIDENCE,
    proxies.PAIRED_GAP,
    proxies.REFERENCE,
    proxies.AUC_ADVANTAGE,
    proxies.GAP,
)
"""Costs that an audit may choose by itself, the sharpest first."""


def choose_cost(panels: Sequence[Panel], plan: Plan) -> Proxy:
    """The plan's cost, or the sharpest that is there for every setting and every large group.

    Which fields are there decides, never their values.
    """
    if plan.cost != SHARPEST:
        return proxy_named(plan.cost)
    return next((one for one in SHARPNESS if is_carried(panels, plan, one)), proxies.GAP)


def why(release: Release, panels: Sequence[Panel], plan: Plan, cost: Proxy) -> str:
    """One or two sentences: how the cost was chosen, and which sharper one is missing."""
    if plan.cost != SHARPEST:
        return f"Exposure is measured by {cost.phrase}, as the plan says."
    chosen = f"Exposure is measured by {cost.phrase}, the sharpest cost here that covers everyone."
    missing = [
        one
        for one in SHARPNESS[: SHARPNESS.index(cost)]
        if min(panel.n_splits for panel in panels) >= one.least_models
        and one is not proxies.REFERENCE  # it needs models trained on other people
    ]
    reasons = [
        f"{one.short} was not computed: {release.not_computed[one.name].rstrip('.')}."
        for one in missing
        if one.name in release.not_computed
    ]
    silent = [one for one in missing if one.name not in release.not_computed]
    if silent:
        reasons.append(
            f"It has splits enough for {silent[0].short}, which would see more; so what is not "
            "shown here says little."
        )
    return " ".join([chosen, *reasons])


def cost_stories(
    measured: Mapping[str, Sequence[Measured]],
    found: Mapping[str, Capped],
    pairs: tuple[Pair, ...],
    main: str,
) -> list[CostStory]:
    """Every carried cost, the main one first and then by name."""
    names = sorted(found, key=lambda name: (name != main, name))
    alone = np.array([found[name].evidence.smallest_alarm_p for name in names])
    together = holm(np.where(_tested(names, found), alone, np.nan))
    return [
        _story(measured[name], found[name], pairs, name, (p, q), is_main=name == main)
        for name, p, q in zip(names, alone.tolist(), together.tolist(), strict=True)
    ]


def _tested(names: Sequence[str], found: Mapping[str, Capped]) -> list[bool]:
    return [bool(np.isfinite(found[name].evidence.cross_p).any()) for name in names]


def _story(
    measured: Sequence[Measured],
    found: Capped,
    pairs: tuple[Pair, ...],
    cost: str,
    p: tuple[float, float],
    *,
    is_main: bool,
) -> CostStory:
    names, evidence = measured[0].panel.group_names, found.evidence
    first, second = np.array(pairs, dtype=np.int64).T
    higher = np.where(evidence.exposure > 0, second, first)
    lower = np.where(evidence.cross > 0, second, first)
    is_known = bool(np.isfinite(p[1]))
    return CostStory(
        cost=cost,
        is_main=is_main,
        n_cells=evidence.n_cost_tests,
        n_resolved=int(evidence.resolved.sum()),
        more_exposed=_named(names, higher[found.exposures_differ]),
        lower_ratio=_named(names, lower[found.shown]),
        double_disadvantage=_named(names, found.double[found.double >= 0]),
        p_value=p[0] if is_known else None,
        p_value_over_costs=p[1] if is_known else None,
    )


def _named(names: Sequence[str], groups: IntArray) -> list[str]:
    return [names[group] for group in np.unique(groups).tolist()]


def is_carried(panels: Sequence[Panel], plan: Plan, cost: Proxy) -> bool:
    """Whether every setting has it, with errors, for every group that is large enough."""
    if cost is proxies.GAP:
        return True
    found = [measure_panel(panel, plan, cost.name) for panel in panels]
    return all(one.exposed is not None and bool(one.told.any()) for one in found)
