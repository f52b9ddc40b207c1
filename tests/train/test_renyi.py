import math

import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.special import ndtr

from pcer.train.renyi import ORDERS, conversion, epsilon_of, step_costs
from pcer.train.rules import N_BINS
from tests import reference_receipts as reference

WHOLE = np.floor(ORDERS) == ORDERS
DELTA = 1e-5
SETTINGS = [(4.654, 1 / 17), (0.909, 1 / 17), (1.829, 1 / 126), (0.3, 0.2), (2.0, 1.0)]


def test_orders_are_those_of_dp_accounting():
    assert RdpAccountant().orders.tolist() == ORDERS.tolist()


@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
@pytest.mark.parametrize("position", [1, 37, 200])
def test_a_step_costs_what_dp_accounting_says(noise, rate, position):
    """At broken orders dp-accounting drops the signs of a series, and is a little above."""
    steps = np.eye(N_BINS + 1, dtype=int)[position]
    theirs, ours = reference.renyi(steps, noise, rate).rdp, step_costs(noise, rate)[position]
    assert ours[WHOLE] == pytest.approx(theirs[WHOLE], rel=1e-9, abs=1e-12)
    assert (ours <= theirs * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(("noise", "rate"), SETTINGS[:4])
@pytest.mark.parametrize("order", [1.1, 1.9, 2.5, 6.3, 10.9])
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


def test_conversion_adds_less_at_higher_orders():
    assert (np.diff(conversion(DELTA)) < 0).all()


@pytest.mark.parametrize(("noise", "rate"), [(0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, 1.5)])
def test_noise_and_rate_are_checked(noise, rate):
    with pytest.raises(ValueError, match=r"must"):
        step_costs(noise, rate)
