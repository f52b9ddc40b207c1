"""Slow, obvious twins of the accounting of records: one record, one order, one pair at a time."""

import itertools
import math

import dp_accounting as dpa
import numpy as np
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad

N_BINS = 200


def divergence(noise: float, rate: float, order: float, *, above: bool) -> float:
    """Renyi divergence of one step by adaptive integration, in either direction."""
    weights = [math.log1p(-rate), math.log(rate)]

    def log_ratio(
        x: float,
    ) -> float:  # of the mixture to the plain noise, x in its deviations
        return float(
            np.logaddexp(weights[0], weights[1] + x / noise - 1 / (2 * noise**2))
        )

    def integrand(x: float) -> float:
        power = order if above else 1 - order
        return math.exp(power * log_ratio(x) - x * x / 2) / math.sqrt(2 * math.pi)

    ends = [-14, *sorted({0, order / noise, (1 - order) / noise}), 14 + order / noise]
    ends = [x for x in ends if x >= -14]
    parts = itertools.pairwise(ends)
    total = sum(
        quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12, limit=400)[0]
        for a, b in parts
    )
    return math.log(total) / (order - 1)


def renyi(steps: np.ndarray, noise: float, rate: float) -> RdpAccountant:
    """dp-accounting's own composition of the steps of one record, bin by bin."""
    accountant = RdpAccountant()
    for position in np.flatnonzero(steps):
        if position:
            step = dpa.GaussianDpEvent(noise * N_BINS / position)
            event = dpa.PoissonSampledDpEvent(rate, step)
            accountant.compose(dpa.SelfComposedDpEvent(event, int(steps[position])))
    return accountant


def receipt(
    steps: np.ndarray, costs: np.ndarray, orders: np.ndarray, levels, nominal: float
):
    """The lowest level that a record has kept, looking at one level after the other."""
    if all(count == 0 for count in steps[1:]):
        return 0.0
    for level in sorted(levels):
        column = list(orders).index(level.order)
        spent = sum(
            float(costs[b, column]) * int(count) for b, count in enumerate(steps)
        )
        if spent <= level.divergence and level.epsilon < nominal:
            return level.epsilon
    return nominal


def allowed_advantage(mu: np.ndarray) -> float:
    """Mean over all pairs, a pair at a time."""
    chances = [
        0.5 * math.erfc(-math.sqrt(a * a + b * b) / 2 / math.sqrt(2))
        for a in mu
        for b in mu
    ]
    return sum(chances) / len(chances) - 0.5


def two_way_error(values: list[dict[int, float]]) -> float:
    """Standard error of the mean over people and seeds; a dictionary per seed: record to value.

    Clusters of one person over all seeds, plus what seeds add beyond their own people.
    """
    every = [v for seed in values for v in seed.values()]
    mean, n = sum(every) / len(every), len(every)
    people = sorted({record for seed in values for record in seed})
    by_person = [sum(s[p] - mean for s in values if p in s) for p in people]
    v_people = sum(x * x for x in by_person) / n**2 * len(people) / (len(people) - 1)
    if len(values) < 2:
        return math.sqrt(v_people)
    by_seed = [sum(v - mean for v in s.values()) for s in values]
    v_seed = sum(x * x for x in by_seed) / n**2 * len(values) / (len(values) - 1)
    v_cell = sum((v - mean) ** 2 for v in every) / n**2
    return math.sqrt(v_people + max(0.0, v_seed - v_cell))
