"""Studies with a planted exposure, drawn record by record, to hold the planner to.

A record is right anyway, right only when trained on (memorised), or wrong. A random split decides
who is trained on. What is then found is up to the audit's own tests.
"""

from __future__ import annotations

import numpy as np

from pcer.auditing.exact import Strata, memorised
from pcer.auditing.measure import measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.planner import CountsError, Design
from pcer.auditing.tests import PairDifference, alarms, compare_pairs
from pcer.metrics import Counts
from pcer.release.panel import Panel
from pcer.release.proxies import GAP
from pcer.statistics import holm
from tests.worlds.releases import panel_of

LEVEL = 0.05


def planted(design: Design, group: int, cost: float) -> float:
    """The exposure nearest to ``cost`` that so many people can have."""
    kinds = _kinds(design, group, cost)
    return float(kinds[:, 1].sum() / kinds.sum())


def resolved_share(
    design: Design, group: int, cost: float, *, n: int, rng: np.random.Generator
) -> float:
    """How often an exposure of these very records is resolved, in n studies."""
    kinds = _kinds(design, group, cost)
    p = memorised(_strata(design, np.broadcast_to(kinds, (n, *kinds.shape)), rng)).p_value
    return float((p * design.n_cost_tests <= LEVEL).mean())


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
    return float(((test.value > 0) & (test.p_value * design.n_pair_tests <= LEVEL)).mean())


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
    return float(((p[:, 0] <= LEVEL) & second).mean()), float((found.shown[0] & second).mean())


def _pairs(n: int) -> tuple[tuple[int, int], ...]:
    return tuple((2 * k, 2 * k + 1) for k in range(n))


def _compared(panel: Panel, n: int) -> PairDifference:
    return compare_pairs(measure_panel(panel, Plan(), GAP.name), _pairs(n)).exposure


def _panel(
    design: Design, costs: dict[int, float], setting: int, n: int, rng: np.random.Generator
) -> Panel:
    """Studies of two groups each, n of them, as one setting of 2n groups."""
    people = (_people(design, g, cost, n, rng) for g, cost in costs.items())
    drawn = zip(*(_strata(design, kinds, rng) for kinds in people), strict=True)
    cells = (np.stack(both, axis=-1) for both in drawn)
    total, trained, correct, hits = (  # without labels everybody has the first
        np.concatenate([one, 0 * one])[:2].reshape(2, -1, 2 * n) for one in cells
    )
    parts = ((trained, hits), (total - trained, correct - hits))
    train, test = (
        Counts(tp=hit[1], fn=size[1] - hit[1], tn=hit[0], fp=size[0] - hit[0])
        for size, hit in parts
    )
    return panel_of(train, test, epsilon=1.0 + setting)


def _error(design: Design) -> CountsError:
    assert isinstance(design.error, CountsError)
    return design.error


def _shares(design: Design, group: int, cost: float) -> np.ndarray:
    """(label, kind) shares of those right anyway, memorised, and wrong."""
    error = _error(design)
    right, label = error.accuracy[group], error.label_share[group]
    memorised_ones = (1 - right) * cost / (label * (1 - right)).sum()
    return label[:, None] * np.stack([right, memorised_ones, 1 - right - memorised_ones], axis=1)


def _kinds(design: Design, group: int, cost: float) -> np.ndarray:
    return np.rint(design.people[group] * _shares(design, group, cost)).astype(int)


def _people(
    design: Design, group: int, cost: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """(design, label, kind) people drawn from a population with that exposure."""
    shares = _shares(design, group, cost)
    drawn = rng.multinomial(int(design.people[group]), shares.ravel(), size=n)
    return drawn.reshape(n, *shares.shape)


def _strata(design: Design, kinds: np.ndarray, rng: np.random.Generator) -> Strata:
    """Counts of every split, balanced by label, of n studies (design, label, kind) as n groups."""
    n_splits, total = int(design.n_splits), kinds.sum(axis=2).T[:, None, :]
    right, known = (kinds[:, :, kind].T[:, None, :] for kind in (0, 1))
    trained = np.rint(_error(design).train_share * total).astype(int)
    shape = (len(total), n_splits, len(kinds))
    trained = np.broadcast_to(trained, shape)
    right_in = rng.hypergeometric(right, total - right, trained, size=shape)
    known_in = rng.hypergeometric(known, total - right - known, trained - right_in, size=shape)
    parts = (np.broadcast_to(total, shape), trained, right + known_in, right_in + known_in)
    return Strata(*(np.asarray(part, dtype=float) for part in parts))
