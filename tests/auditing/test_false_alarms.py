"""Simulated truth: alarms without memorisation are rare, and real disparities are found.

Small, seeded versions; ``benchmarks/alarms.py`` runs thousands and prints the rates. More
kinds of releases without any disparity are in ``test_nulls.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import pcer
from pcer.auditing.measure import pairs_of
from pcer.auditing.tests import alarms
from pcer.release.panel import panels
from pcer.release.proxies import GAP
from tests.worlds.releases import World, null_world, simulate

PLAN = pcer.Plan(resamples=1, null_draws=1)
SIX = (0.1, 0.5, 1.0, 5.0, 10.0, None)


def has_alarm(world: World, rng: np.random.Generator) -> bool:
    """Whether an audit's tests show a disparity or a double disadvantage in any setting."""
    by_setting = panels(simulate(world, rng))
    pairs = pairs_of(by_setting, PLAN)
    found = alarms(by_setting, pairs, PLAN, cost=GAP.name, outcome=world.outcome)
    return bool(found.shown.any() or (found.double >= 0).any())


def at_most(level: float, n: int) -> float:
    """The level plus two standard errors of a simulation of n releases."""
    return level + 2 * math.sqrt(level * (1 - level) / n)


@pytest.mark.slow
@pytest.mark.parametrize("one_split", [False, True])
def test_no_memorisation_rarely_raises_an_alarm(one_split):
    rng = np.random.default_rng(20)
    worlds = [
        null_world(rng, one_split=one_split, n_seeds=int(rng.choice([1, 2, 3, 5, 10, 20])))
        for _ in range(200)
    ]
    assert np.mean([has_alarm(world, rng) for world in worlds]) <= at_most(0.05, 200)


@pytest.mark.slow
def test_equal_ratios_rarely_raise_an_alarm():
    world = World(
        sizes=(39_000, 6_500),
        label_shares=(0.25, 0.25),
        right=[(0.9, 0.6)] * 2,
        gaps=(0.02, 0.02),
        n_seeds=50,
    )
    rng = np.random.default_rng(21)
    assert np.mean([has_alarm(world, rng) for _ in range(100)]) <= at_most(0.05, 100)


@pytest.mark.slow
def test_unequal_ratios_are_shown_and_so_is_whom_they_hurt_twice():
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
    settings = [budget for audit in audits for budget in audit.budgets]
    assert np.mean([one.pairs[0].lower_ratio == "g1" for one in settings]) >= 0.95
    assert np.mean([one.double_disadvantage == ["g1"] for one in settings]) >= 0.9
    assert all(audit.verdict is pcer.Verdict.DOUBLE_DISADVANTAGE for audit in audits)
