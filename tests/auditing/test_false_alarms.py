"""Simulated truth: alarms without memorisation are rare, and real memorisation is found.

Small, seeded versions; ``benchmarks/false_alarms.py`` runs thousands and prints the rates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import pcer
from tests.simulate import World, null_world, simulate

PLAN = pcer.Plan(resamples=20, null_draws=1)
ALARMS = {"disparity_shown", "double_disadvantage"}
SIX = (0.1, 0.5, 1.0, 5.0, 10.0, None)


def alarm_rate(worlds, rng) -> float:
    return float(
        np.mean([bool(ALARMS & pcer.audit(simulate(w, rng), PLAN).outcomes()) for w in worlds])
    )


def at_most(level: float, n: int) -> float:
    """The level plus two standard errors of a simulation of n releases."""
    return level + 2 * math.sqrt(level * (1 - level) / n)


@pytest.mark.parametrize("one_split", [False, True])
def test_no_memorisation_rarely_raises_an_alarm(one_split):
    rng = np.random.default_rng(20)
    worlds = [
        null_world(rng, one_split=one_split, n_seeds=int(rng.choice([1, 2, 3, 5, 10, 20])))
        for _ in range(200)
    ]
    assert alarm_rate(worlds, rng) <= at_most(0.05, 200)


def test_equal_ratios_rarely_raise_an_alarm():
    world = World(
        sizes=(39_000, 6_500),
        label_shares=(0.25, 0.25),
        right=[(0.9, 0.6)] * 2,
        gaps=(0.02, 0.02),
        n_seeds=50,
    )
    rng = np.random.default_rng(21)
    shown = [
        "disparity_shown" in pcer.audit(simulate(world, rng), PLAN).outcomes() for _ in range(100)
    ]
    assert np.mean(shown) <= at_most(0.05, 100)


@pytest.mark.parametrize(
    ("gap", "n_seeds", "n_releases", "power"), [(0.005, 50, 25, 0.90), (0.03, 1, 60, 0.75)]
)
def test_a_memorising_group_is_resolved(gap, n_seeds, n_releases, power):
    world = World(
        sizes=(10_000, 10_000),
        label_shares=(0.4, 0.4),
        right=[(0.8, 0.8)] * 2,
        gaps=(gap, 0.0),
        n_seeds=n_seeds,
        budgets=SIX,
    )
    rng = np.random.default_rng(22)
    resolved = [
        budget.groups["g0"].resolved
        for _ in range(n_releases)
        for budget in pcer.audit(simulate(world, rng), PLAN).budgets
    ]
    assert np.mean(resolved) >= power


def test_unequal_ratios_are_shown():
    world = World(
        sizes=(10_000, 10_000),
        label_shares=(0.527, 0.2),
        right=[(0.95, 0.6)] * 2,
        gaps=(0.005, 0.03),
        n_seeds=10,
        budgets=SIX,
    )
    rng = np.random.default_rng(23)
    audits = [pcer.audit(simulate(world, rng), PLAN) for _ in range(20)]
    first = audits[0].budgets[0].groups
    assert [first[name].positive_rate.mean for name in first] == pytest.approx(
        [0.34, 0.16], abs=0.01
    )
    shown = [b.pairs[0].lower_ratio == "g1" for audit in audits for b in audit.budgets]
    assert np.mean(shown) >= 0.95
