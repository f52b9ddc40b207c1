"""Studies by attacks over all models; each is also a pilot from which the others are planned.

Drawn worlds have no models: the log odds of a record's true label are the record's own, what a
model remembers of it if it was trained on it, and luck. How much there is to remember varies within
each group, and is more on average in the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.attacks import BudgetScores, attack_models
from pcer.auditing.measure import measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.planner import Question, design_of_measured
from pcer.auditing.tests import compare_pairs
from pcer.release.panel import Panel, PooledExposures
from pcer.statistics import SIGNIFICANCE

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
    """New people, new splits, new models; only attacks and sizes are known."""
    n, group = sum(world.people), np.repeat([0, 1], world.people)
    own, memory = rng.normal(1.0, 1.5, n), rng.exponential(np.array(world.memory)[group])
    member = np.array([rng.permutation(n) < round(0.7 * n) for _ in range(world.n_splits)])
    scores = BudgetScores(
        logits=own + memory * member + rng.normal(size=member.shape),
        labels=np.ones(n, dtype=np.int64),
        member=member,
        group=group,
        group_names=("first", "second"),
    )
    rows = attack_models([scores])[0].rows
    n_train = np.stack([member[:, group == g].sum(axis=1) for g in (0, 1)], axis=1).astype(float)
    unknown = np.full(n_train.shape, np.nan)
    by_attack = {name: [row for row in rows if row.proxy == name] for name in ATTACKS}
    return Panel(
        epsilon=math.inf,
        seeds=tuple(range(world.n_splits)),
        group_names=scores.group_names,
        split=np.arange(world.n_splits),
        train=None,
        test=None,
        train_accuracy=unknown,
        test_accuracy=unknown,
        positive_rate=unknown,
        n_train=n_train,
        n_test=np.array(world.people) - n_train,
        exposure={},
        pooled={
            name: PooledExposures(
                **{field: np.array([getattr(row, field) for row in own]) for field in FIELDS}
            )
            for name, own in by_attack.items()
        },
    )


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
