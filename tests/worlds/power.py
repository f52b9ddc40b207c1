"""Studies with a planted exposure, drawn record by record, to hold the planner to.

A record is right anyway, right only when trained on (memorised), or wrong. A random split decides
who is trained on. What is then found is up to the audit's own tests.
"""

from __future__ import annotations

import numpy as np

from pcer.auditing.exact import Strata, memorised
from pcer.auditing.measure import measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.planner import Design
from pcer.auditing.tests import PairDifference, alarms, compare_pairs
from pcer.metrics import Counts
from pcer.release.panel import Panel
from pcer.release.proxies import GAP
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE, holm
from tests.worlds.releases import panel_of

SHOWN = SIGNIFICANCE * EXPOSURE_SHARE
"""Level of all differences of exposures together."""


def planted(design: Design, group: int, cost: float) -> float:
    """The exposure nearest to ``cost`` that so many people can have."""
    kinds = _kinds(design, group, cost)
    return float(kinds[1] / kinds.sum())


def resolved_share(
    design: Design, group: int, cost: float, *, n: int, rng: np.random.Generator
) -> float:
    """How often an exposure of these very records is resolved, in n studies."""
    p = memorised(_strata(design, np.tile(_kinds(design, group, cost), (n, 1)), rng)).p_value
    return float((p * design.n_cost_tests <= SIGNIFICANCE).mean())


def shown_share(
    design: Design,
    pair: tuple[int, int],
    costs: tuple[float, float],
    *,
    n: int,
    rng: np.random.Generator,
) -> float:
    """How often two exposures are told apart, people drawn anew in each of n studies."""
    panel = _panel(design, dict(zip(pair, costs, strict=True)), 0, n, rng)
    test = _compared(panel, n)
    return float(((test.value > 0) & (test.p_value * design.n_pair_tests <= SHOWN)).mean())


def audited_shares(
    design: Design,
    costs: tuple[float, float],
    *,
    n: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """How often an audit says that the second of two groups is more exposed, in n studies.

    And how often its verdict names that group, which needs a ratio of benefit to cost that differs.

    Nothing of the audit is written again: counts go through its measurements, its tests and its
    families. In all settings but the first nothing is memorised.
    """
    n_settings = design.n_cost_tests // 2
    seen = [costs] + [(0.0, 0.0)] * (n_settings - 1)
    panels = [_panel(design, dict(enumerate(one)), k, n, rng) for k, one in enumerate(seen)]
    found = alarms(panels, _pairs(n), Plan(), cost=GAP.name, outcome="benefit", n_families=n)
    tests = [_compared(panel, n) for panel in panels]
    p = np.stack([holm(alone) for alone in np.stack([one.p_value for one in tests]).T])
    second = tests[0].value > 0
    return float(((p[:, 0] <= SHOWN) & second).mean()), float((found.shown[0] & second).mean())


def _pairs(n: int) -> tuple[tuple[int, int], ...]:
    return tuple((2 * k, 2 * k + 1) for k in range(n))


def _compared(panel: Panel, n: int) -> PairDifference:
    return compare_pairs(measure_panel(panel, Plan(), GAP.name), _pairs(n)).exposure


def _panel(
    design: Design, costs: dict[int, float], setting: int, n: int, rng: np.random.Generator
) -> Panel:
    """Studies of two groups each, n of them, as one setting of 2n groups; people drawn anew."""
    people = (
        rng.multinomial(int(design.people[g]), _shares(design, g, cost), size=n)
        for g, cost in costs.items()
    )
    drawn = zip(*(_strata(design, kinds, rng) for kinds in people), strict=True)
    total, trained, correct, hits = (np.stack(both, axis=-1).reshape(-1, 2 * n) for both in drawn)
    parts = (trained, hits), (total - trained, correct - hits)
    train, test = (Counts(tp=hit, fn=size - hit, tn=0 * hit, fp=0 * hit) for size, hit in parts)
    return panel_of(train, test, epsilon=1.0 + setting)


def _shares(design: Design, group: int, cost: float) -> np.ndarray:
    """Shares of those right anyway, memorised, and wrong."""
    right = design.error.accuracy[group]
    return np.array([right, cost, 1 - right - cost])


def _kinds(design: Design, group: int, cost: float) -> np.ndarray:
    return np.rint(design.people[group] * _shares(design, group, cost)).astype(int)


def _strata(design: Design, kinds: np.ndarray, rng: np.random.Generator) -> Strata:
    """Counts of every split of n studies (study, kind) as n groups; everybody has one label."""
    (right, known, _), total = kinds.T, kinds.sum(axis=1)
    shape = (1, int(design.n_splits), len(kinds))
    trained = np.broadcast_to(np.rint(design.error.train_share * total).astype(int), shape)
    right_in = rng.hypergeometric(right, total - right, trained, size=shape)
    known_in = rng.hypergeometric(known, total - right - known, trained - right_in, size=shape)
    parts = (np.broadcast_to(total, shape), trained, right + known_in, right_in + known_in)
    return Strata(*(np.asarray(part, dtype=float) for part in parts))
