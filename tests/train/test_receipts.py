"""What a step costs a record, and what follows: receipts, filters, attacks."""

import itertools
import math

import numpy as np
import pytest
import torch
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from scipy.optimize import brentq
from scipy.special import ndtr

from pcer.errors import InputError
from pcer.renyi import ORDERS, epsilon_of
from pcer.train import receipts
from pcer.train.receipts import Terms, allowed_advantage, mu_of, step_costs
from pcer.train.rules import N_BINS
from tests import reference_receipts as reference

WHOLE = np.floor(ORDERS) == ORDERS
DELTA = 1e-5
STEPS = [(4.654, 1 / 17), (0.909, 1 / 17), (1.829, 1 / 126), (0.3, 0.2), (2.0, 1.0)]
# COMPAS at epsilon 0.1, 1 and 10, Adult at epsilon 1: noise and steps of an epoch.
SETTINGS = [(37.377, 17), (4.654, 17), (0.909, 17), (1.829, 126)]
EPOCHS, PERIODS = 25, 5
COMPAS_AT_1 = Terms(4.654, 1 / 17, 425, DELTA)


@pytest.mark.parametrize(("noise", "rate"), STEPS)
def test_a_step_costs_what_dp_accounting_says_and_what_integration_gives(noise, rate):
    """At broken orders dp-accounting drops a series' signs, and is a little above."""
    costs = step_costs(noise, rate)
    for position in (1, 200):
        steps = np.eye(N_BINS + 1, dtype=int)[position]
        theirs = reference.renyi(steps, noise, rate).rdp
        ours = costs[position]
        assert ours[WHOLE] == pytest.approx(theirs[WHOLE], rel=1e-9, abs=1e-12)
        assert (ours <= theirs * (1 + 1e-9) + 1e-12).all()
    orders = (1.1, 2.5, 10.9) if rate < 1 else ()
    for position, order in itertools.product((20, 200), orders):
        per_norm = noise * N_BINS / position
        above = reference.divergence(per_norm, rate, order, above=True)
        below = reference.divergence(per_norm, rate, order, above=False)
        found = float(costs[position, order == ORDERS][0])
        assert found == pytest.approx(above, rel=1e-8, abs=1e-13)
        # The record above is the dearer side.
        assert below <= above * (1 + 1e-9) + 1e-13


def test_epsilon_is_dp_accountings_own_conversion():
    rng = np.random.default_rng(1)
    for scale in (1e-13, 1e-4, 0.01, 1.0, 30.0):
        divergence = scale * ORDERS * rng.uniform(0.5, 1.5, len(ORDERS))
        accountant = RdpAccountant()
        accountant._rdp = divergence
        expected = accountant.get_epsilon(DELTA)
        found = epsilon_of(divergence, dp_delta=DELTA)
        assert found == pytest.approx(expected, rel=1e-12)


def accounted(mu: float) -> float:
    """Epsilon of the Gaussian mechanism, by the accountant."""
    return float(epsilon_of(mu**2 * ORDERS / 2, dp_delta=DELTA))


def test_an_epsilon_bounds_the_gaussian_mechanism_s_exact_delta_and_gives_its_mu_back():
    for mu in (0.05, 0.3, 1.0, 3.0):
        epsilon = accounted(mu)
        without = math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)
        assert ndtr(-epsilon / mu + mu / 2) - without <= DELTA
    for epsilon in (0.004, 0.02, 0.1, 1.0, 5.0, 20.0):
        exact = brentq(lambda mu, e=epsilon: accounted(mu) - e, 1e-5, 50, xtol=1e-12)
        found = mu_of(np.array([epsilon]), dp_delta=DELTA)[0]
        assert found == pytest.approx(exact, rel=1e-4)
    edges = mu_of(np.array([0.0, np.nan]), dp_delta=DELTA)
    assert edges[0] == 0
    assert np.isnan(edges[1])


def test_what_is_allowed_is_the_mean_over_all_pairs_also_of_condensed_records(
    monkeypatch,
):
    rng = np.random.default_rng(0)
    for mu in (np.array([0.7]), np.zeros(3), rng.gamma(1.0, 0.3, 150)):
        expected = reference.allowed_advantage(mu)
        assert allowed_advantage(mu) == pytest.approx(expected, abs=1e-12)
    many = np.random.default_rng(1).gamma(0.5, 0.5, 1_500)
    condensed = allowed_advantage(many)
    monkeypatch.setattr("pcer.train.receipts.MOST_QUANTILES", 1_500)
    assert condensed == pytest.approx(allowed_advantage(many), abs=1e-4)


def some_records(n: int, steps_per_epoch: int, *, seed: int = 0) -> np.ndarray:
    """Records whose norm drifts; the first is always clipped, the second always 0."""
    rng = np.random.default_rng(seed)
    steps = np.zeros((n, N_BINS + 1), dtype=np.uint16)
    for row in steps:
        norm = np.exp(rng.uniform(np.log(0.01), 0.3))
        drift = np.exp(0.5 * rng.standard_normal(PERIODS))
        for share in np.minimum(1, norm * drift):
            row[int(np.ceil(N_BINS * share))] += EPOCHS // PERIODS * steps_per_epoch
    steps[:2] = 0
    steps[0, N_BINS] = steps[1, 0] = EPOCHS * steps_per_epoch
    return steps


def folded(steps: np.ndarray, noise: float, rate: float, *, on_host: bool = True):
    terms = Terms(noise, rate, int(steps[0].sum()), DELTA)
    counts = torch.from_numpy(steps.astype(np.int32 if on_host else np.float64))
    kept = receipts.fold(counts, terms, on_host=on_host)
    assert (kept.dtype, kept.shape) == (torch.float32, (len(steps),))
    assert np.array_equal(counts.numpy(), steps)  # they are left alone
    return terms, *receipts.unfolded(kept.numpy(), terms.ladder)


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_realised_is_the_least_epsilon_and_a_receipt_the_lowest_level_kept(
    noise, per_epoch
):
    """Rounded up in the sixth digit."""
    rate = 1 / per_epoch
    steps = some_records(200, per_epoch, seed=2)
    terms, realised, receipt = folded(steps, noise, rate)
    exact = epsilon_of(steps @ step_costs(noise, rate), dp_delta=DELTA)
    assert (realised >= exact * (1 - 1e-14)).all()
    assert realised == pytest.approx(exact, rel=1e-5)
    theirs = [reference.renyi(row, noise, rate).get_epsilon(DELTA) for row in steps[:5]]
    assert realised[:5] == pytest.approx(theirs, rel=4e-3)  # see the broken orders
    assert terms.nominal <= theirs[0] * (1 + 1e-9)
    assert realised[0] == receipt[0] == terms.nominal
    assert realised[1] == receipt[1] == 0
    assert (realised <= receipt).all()
    promise = (terms.costs, ORDERS, terms.levels, terms.nominal)
    assert receipt.tolist() == [reference.receipt(row, *promise) for row in steps]
    assert len(set(receipt)) > 8


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_levels_rise_to_the_promise_and_are_worth_what_dp_accounting_says(
    noise, per_epoch
):
    """They share delta."""
    terms = Terms(noise, 1 / per_epoch, EPOCHS * per_epoch, DELTA)
    assert 10 < len(terms.levels) <= receipts.N_LEVELS
    highest = terms.levels[-1].epsilon
    assert highest == pytest.approx(receipts.LEVEL_RATIO * terms.nominal)
    assert (np.diff([level.epsilon for level in terms.levels]) > 0).all()
    delta = DELTA / receipts.N_LEVELS
    for level in terms.levels:
        worth, _ = compute_epsilon([level.order], [level.divergence], delta)
        assert worth == pytest.approx(level.epsilon, rel=1e-9)


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_folded_on_a_device_no_number_is_below_the_host_s_and_hardly_any_above(
    noise, per_epoch
):
    steps = some_records(3000, per_epoch, seed=4)
    steps[2, :] = 0
    # Hidden by delta alone, where noise is large.
    steps[2, [0, 1]] = (EPOCHS * per_epoch - 1, 1)
    terms, realised, receipt = folded(steps, noise, 1 / per_epoch)
    _, *ours = folded(steps, noise, 1 / per_epoch, on_host=False)
    for found, expected in zip(ours, (realised, receipt), strict=True):
        assert (found >= expected).all()
        assert (found == expected).mean() > 0.999
        assert found[0] == terms.nominal
        assert found[1] == 0
    assert ours[0] == pytest.approx(realised, rel=2e-5)


def test_every_step_of_every_record_must_be_counted_and_other_records_have_none():
    missing = some_records(3, 17)
    terms = Terms(1.0, 0.1, int(missing[0].sum()), DELTA)
    missing[2, 0] += 1
    for counts in (np.zeros((3, 200)), np.zeros((0, 201)), missing):
        with pytest.raises(ValueError, match="steps_per_bin must"):
            receipts.fold(torch.from_numpy(counts.astype(np.int16)), terms)
    not_trained_on = np.array([np.nan], dtype=np.float32)
    assert np.isnan(receipts.unfolded(not_trained_on, terms.ladder)).all()


def test_a_filter_keeps_the_budget_that_dp_accounting_accounts():
    cost, budget = receipts.allowance(0.5, COMPAS_AT_1)
    assert cost[0] == 0
    for position in (200, 120, 40):
        steps = np.zeros(N_BINS + 1, dtype=int)
        spent = 0.0
        n_taken = 0
        while n_taken < 425 and spent + cost[position] <= budget:
            spent += cost[position]
            n_taken += 1
        steps[position] = n_taken
        accounted = reference.renyi(steps, 4.654, 1 / 17).get_epsilon(DELTA)
        assert accounted <= 0.5 * (1 + 1e-9)
        assert (n_taken == 425) == (position == 40)
    # The order suits the norm that would just spend the budget.
    steps[:] = 0
    steps[97] = 425
    accounted = reference.renyi(steps, 4.654, 1 / 17).get_epsilon(DELTA)
    assert accounted == pytest.approx(0.5, rel=0.03)
    assert budget == pytest.approx(425 * cost[97], rel=0.05)
    with pytest.raises(InputError, match="budget_per_person must be above"):
        receipts.allowance(1e-3, COMPAS_AT_1)  # no order can hold it
