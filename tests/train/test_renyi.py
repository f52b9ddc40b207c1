import math

import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.special import ndtr

from pcer.train.renyi import ORDERS, allowed_advantage, epsilon_of, mu_of, step_costs
from pcer.train.rules import N_BINS
from tests import reference_receipts as reference

WHOLE = np.floor(ORDERS) == ORDERS
DELTA = 1e-5
SETTINGS = [(4.654, 1 / 17), (0.909, 1 / 17), (1.829, 1 / 126), (0.3, 0.2), (2.0, 1.0)]


@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
@pytest.mark.parametrize("position", [1, 200])
def test_a_step_costs_what_dp_accounting_says(noise, rate, position):
    """At broken orders dp-accounting drops the signs of a series, and is a little above."""
    steps = np.eye(N_BINS + 1, dtype=int)[position]
    theirs, ours = reference.renyi(steps, noise, rate).rdp, step_costs(noise, rate)[position]
    assert ours[WHOLE] == pytest.approx(theirs[WHOLE], rel=1e-9, abs=1e-12)
    assert (ours <= theirs * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(("noise", "rate"), SETTINGS[:4])
@pytest.mark.parametrize("order", [1.1, 2.5, 10.9])
def test_a_step_costs_what_integration_gives_and_the_record_above_is_the_dearer_side(
    noise, rate, order
):
    column = int(np.flatnonzero(order == ORDERS)[0])
    for position in (20, 200):
        own = noise * N_BINS / position
        above, below = (reference.divergence(own, rate, order, above=a) for a in (True, False))
        assert step_costs(noise, rate)[position, column] == pytest.approx(
            above, rel=1e-8, abs=1e-13
        )
        assert below <= above * (1 + 1e-9) + 1e-13


def test_costs_grow_with_the_norm_and_nothing_costs_nothing():
    for noise, rate in SETTINGS:
        costs = step_costs(noise, rate)
        assert costs.shape == (N_BINS + 1, len(ORDERS))
        assert (costs[0] == 0).all()
        assert (np.diff(costs, axis=0) >= -1e-14).all()
        assert np.isfinite(costs).all()


def test_without_sampling_a_step_is_a_gaussian_mechanism():
    costs = step_costs(2.0, 1.0)
    for position in (1, 100, 200):
        own = 2.0 * N_BINS / position
        assert costs[position] == pytest.approx(ORDERS / (2 * own**2), rel=1e-8, abs=1e-14)


def test_epsilon_is_dp_accountings_own_conversion():
    rng = np.random.default_rng(1)
    for scale in (1e-13, 1e-4, 0.01, 1.0, 30.0):
        divergence = scale * ORDERS * rng.uniform(0.5, 1.5, len(ORDERS))
        accountant = RdpAccountant()
        accountant._rdp = divergence
        expected = accountant.get_epsilon(DELTA)
        assert epsilon_of(divergence, dp_delta=DELTA) == pytest.approx(expected, rel=1e-12)


def test_an_epsilon_bounds_the_exact_delta_of_the_gaussian_mechanism():
    for mu in (0.05, 0.3, 1.0, 3.0):
        epsilon = float(epsilon_of(mu**2 * ORDERS / 2, dp_delta=DELTA))
        exact = ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)
        assert exact <= DELTA


@pytest.mark.parametrize(("noise", "rate"), [(0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, 1.5)])
def test_noise_and_rate_are_checked(noise, rate):
    with pytest.raises(ValueError, match=r"must"):
        step_costs(noise, rate)


def test_mu_is_that_of_the_gaussian_mechanism_with_the_same_accounted_epsilon():
    def accounted(mu: float) -> float:
        return float(epsilon_of(mu**2 * ORDERS / 2, dp_delta=DELTA))

    for epsilon in (0.004, 0.02, 0.1, 1.0, 5.0, 20.0):
        exact = brentq(lambda mu, e=epsilon: accounted(mu) - e, 1e-5, 50, xtol=1e-12)
        assert mu_of(np.array([epsilon]), dp_delta=DELTA)[0] == pytest.approx(exact, rel=1e-4)
    edges = mu_of(np.array([0.0, np.nan]), dp_delta=DELTA)
    assert edges[0] == 0
    assert np.isnan(edges[1])


def test_mu_of_a_training_run_is_near_its_limit():
    """Bu, Dong, Long and Su 2020: mu = rate x sqrt(steps (exp(1/noise^2) - 1)) for many steps."""
    nominal = epsilon_of(425 * step_costs(4.654, 1 / 17)[N_BINS], dp_delta=DELTA)
    limit = 1 / 17 * np.sqrt(425 * np.expm1(1 / 4.654**2))
    assert mu_of(nominal[None], dp_delta=DELTA)[0] == pytest.approx(limit, rel=0.02)


def test_what_is_allowed_is_the_mean_over_all_pairs():
    rng = np.random.default_rng(0)
    for mu in (np.array([0.7]), np.zeros(3), rng.gamma(1.0, 0.3, 150)):
        expected = reference.allowed_advantage(mu)
        assert allowed_advantage(mu) == pytest.approx(expected, abs=1e-12)


def test_many_records_are_condensed_without_loss_that_matters(monkeypatch):
    mu = np.random.default_rng(1).gamma(0.5, 0.5, 1_500)
    condensed = allowed_advantage(mu)
    monkeypatch.setattr("pcer.train.renyi.MOST_QUANTILES", 1_500)
    assert condensed == pytest.approx(allowed_advantage(mu), abs=1e-4)
