"""Studies with a known exposure, to hold the planner to; what is found is up to the audit's tests.

Planted: a record is right anyway, right only when trained on (memorised), or wrong. A random split
decides who is trained on. Drawn, for attacks over all models: the log odds of a record's true label
are its own, what a model remembers of it if it was trained on it, and luck. How much there is to
remember varies within each group, and is more on average in the second. Each drawn study is also a
pilot from which the others are planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pcer.attacks import BudgetScores, attack_models
from pcer.auditing.exact import Strata, memorised
from pcer.auditing.measure import measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.planner import Design, Question, design_of_measured
from pcer.auditing.tests import PairDifference, alarms, compare_pairs
from pcer.metrics import Counts
from pcer.release.panel import Panel, PooledExposures
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
    design: Design, costs: tuple[float, float], *, n: int, rng: np.random.Generator
) -> float:
    """How often two exposures are told apart, people drawn anew in each of n studies."""
    test = _compared(_panel(design, costs, 0, n, rng), n)
    return float(((test.value > 0) & (test.p_value * design.n_pair_tests <= SHOWN)).mean())


def audited_shares(
    design: Design, costs: tuple[float, float], *, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    """How often an audit says that the second of two groups is more exposed, in n studies.

    And how often its verdict names that group, which needs a ratio of benefit to cost that differs.
    Nothing of the audit is written again: counts go through its measurements, its tests and its
    families. In all settings but the first nothing is memorised.
    """
    seen = [costs] + [(0.0, 0.0)] * (design.n_cost_tests // 2 - 1)
    panels = [_panel(design, one, k, n, rng) for k, one in enumerate(seen)]
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
    design: Design, costs: tuple[float, float], setting: int, n: int, rng: np.random.Generator
) -> Panel:
    """Studies of two groups each, n of them, as one setting of 2n groups; people drawn anew."""
    people = (
        rng.multinomial(int(design.people[g]), _shares(design, g, cost), size=n)
        for g, cost in enumerate(costs)
    )
    drawn = zip(*(_strata(design, kinds, rng) for kinds in people), strict=True)
    total, trained, correct, hits = (np.stack(both, axis=-1).reshape(-1, 2 * n) for both in drawn)
    train, test = _tables(trained, hits), _tables(total - trained, correct - hits)
    return panel_of(train, test, epsilon=1.0 + setting)


def _tables(n: np.ndarray, right: np.ndarray) -> Counts:
    """Everybody has a positive label."""
    return Counts(tp=right, fn=n - right, tn=0 * right, fp=0 * right)


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


# Attacks over all models

ATTACKS = ("paired_gap", "paired_confidence", "lira_advantage")
FIELDS = ("value", "standard_error", "null_error", "benefit_covariance", "n_records")


class DrawnWorld(NamedTuple):
    """Two groups, and how much there is to remember of their people: means, in log odds."""

    people: tuple[int, int]
    n_splits: int
    memory: tuple[float, float]


DRAWN = (
    DrawnWorld((600, 900), 20, (0.05, 0.13)),
    DrawnWorld((1_500, 400), 20, (0.04, 0.14)),
    DrawnWorld((400, 500), 12, (0.08, 0.24)),
    DrawnWorld((2_000, 1_500), 8, (0.06, 0.17)),
    DrawnWorld((800, 800), 50, (0.03, 0.08)),
)


class Answer(NamedTuple):
    """An amount, the power that pilots predict for it, and how often it was found."""

    amount: float
    predicted: float
    found: float


def drawn_study(world: DrawnWorld, rng: np.random.Generator) -> Panel:
    """New people, new splits, new models."""
    n, group = sum(world.people), np.repeat([0, 1], world.people)
    own, memory = rng.normal(1.0, 1.5, n), rng.exponential(np.array(world.memory)[group])
    member = np.array([rng.permutation(n) < round(0.7 * n) for _ in range(world.n_splits)])
    logits = own + memory * member + rng.normal(size=member.shape)
    parts = [
        [np.stack([x[:, group == g].sum(axis=1) for g in (0, 1)], axis=1) for x in (side, right)]
        for side, right in ((m, m & (logits > 0)) for m in (member, ~member))
    ]
    panel = panel_of(*(_tables(*map(np.float64, part)) for part in parts), epsilon=math.inf)
    labels = np.ones(n, dtype=np.int64)
    scores = BudgetScores(
        logits=logits, labels=labels, member=member, group=group, group_names=panel.group_names
    )
    rows = attack_models([scores])[0].rows
    pooled = {}
    for name in ATTACKS:
        own_rows = [row for row in rows if row.proxy == name]
        columns = {field: np.array([getattr(row, field) for row in own_rows]) for field in FIELDS}
        pooled[name] = PooledExposures(**columns)
    return replace(panel, pooled=pooled)


def answers(studies: Sequence[Panel], attack: str, *, n_attacks: int = 1) -> tuple[Answer, Answer]:
    """Of the first group's exposure and of the difference, each as large as it is on average.

    Tests are the audit's own, at the first step of Holm over two groups, or one pair, and so many
    attacks that decide together.
    """
    measured = [measure_panel(one, Plan(), attack) for one in studies]
    low, high = np.mean([one.exposed.value for one in measured], axis=0).tolist()
    group, pair = Question(groups=(0,)), Question(groups=(0, 1), base=low)
    power, found = np.zeros((2, len(measured))), np.zeros((2, len(measured)))
    for k, one in enumerate(measured):
        test = compare_pairs(one, ((0, 1),)).exposure
        design = design_of_measured(one, (2, 1), n_attacks=n_attacks)
        power[:, k] = group.power(design, low), pair.power(design, high - low)
        p = 2 * one.memorised_p()[0], test.p_value[0] if test.value[0] > 0 else 1.0
        found[:, k] = np.array(p) * n_attacks <= SIGNIFICANCE
    exposure, difference = zip(power.mean(axis=1), found.mean(axis=1), strict=True)
    return Answer(low, *exposure), Answer(high - low, *difference)
