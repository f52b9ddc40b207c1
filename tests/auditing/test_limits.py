"""The most that a cost can be: a limit with the error that the limit itself would have."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from benchmarks.coverage import KINDS, TINY, measured, usable
from scipy.optimize import brentq

from pcer.auditing.measure import Exposed
from pcer.auditing.variances import limit_quantile
from tests.worlds.people import certain, draw_people, draw_tables

DOZEN = 12
CORNERS = [
    ("accuracy .99", 0.1, 300, 1),
    ("accuracy .7", 0.1, 100, 20),
    ("accuracy .97", 0.1, 1_000, 1),
]


def held(rate: float, n: float) -> float:
    """Variance of a rate of n people, two right and two wrong ones added."""
    rate = min(max(rate, 0.0), 1.0)
    seen = (rate * n + 2) / (n + 4)
    return seen * (1 - seen) / n


def beyond(cost: float, exposed: Exposed, g: int, z: float) -> float:
    """How far a cost lies above the value and z of its own errors, one number at a time."""
    value, n, n_test = (float(part[g]) for part in (exposed.value, exposed.n, exposed.n_test))
    xs, people = exposed.per_split[:, g], held(cost, n)
    one = exposed.one_split[g] + max(0.0, held(cost, n_test) - held(value, n_test))
    variance = one / len(xs) + (1 - 1 / len(xs)) * people
    if len(xs) > 1:
        variance = max(variance, statistics.variance(xs.tolist()) / len(xs) + people)
    return cost - max(value, 0.0) - z * math.sqrt(variance)


@pytest.mark.parametrize("n_splits", [1, 5])
@pytest.mark.parametrize("n_limits", [1, DOZEN])
def test_a_limit_is_where_its_own_error_puts_it(n_splits, n_limits):
    rng, z = np.random.default_rng(3), limit_quantile(n_limits=n_limits)
    population = certain(0.1)
    drawn = draw_people(population, [400], 5, rng)
    exposed = measured(draw_tables(population, drawn, n_splits=n_splits, rng=rng)).exposed
    assert exposed is not None
    expected = [brentq(beyond, 0.0, 1.0, args=(exposed, g, z)) for g in range(5)]
    assert exposed.limit(z=z) == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cost", "people", "n_splits"), CORNERS)
def test_limits_hold_together_where_few_people_are_wrong(kind, cost, people, n_splits):
    rng, population = np.random.default_rng(4), KINDS[kind](cost)
    drawn = draw_people(population, [people], 2_000, rng)
    found = measured(usable(draw_tables(population, drawn, n_splits=n_splits, rng=rng))).exposed
    assert found is not None
    for n_limits in (1, DOZEN):
        misses = found.limit(z=limit_quantile(n_limits=n_limits)) < population.cost - TINY
        assert n_limits * misses.mean() <= 0.065
