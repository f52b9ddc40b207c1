import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from pcer.errors import InputError
from pcer.train.receipts import (
    LEVEL_RATIO,
    N_LEVELS,
    Terms,
    allowance,
    fold,
    fold_on_device,
)
from pcer.train.renyi import ORDERS, allowed_advantage, epsilon_of, mu_of, step_costs
from pcer.train.rules import N_BINS
from tests import reference_receipts as reference

WHOLE = np.floor(ORDERS) == ORDERS
DELTA = 1e-5
SETTINGS = [(37.377, 17), (4.654, 17), (0.909, 17), (1.829, 126)]
"""COMPAS at epsilon 0.1, 1 and 10, Adult at epsilon 1: noise and steps of an epoch."""
EPOCHS, PERIODS = 25, 5
COMPAS_AT_1 = {
    "noise_multiplier": 4.654,
    "sampling_rate": 1 / 17,
    "n_steps": 425,
    "dp_delta": DELTA,
}


def some_records(n: int, steps_per_epoch: int, *, seed: int = 0) -> np.ndarray:
    """Records whose norm drifts; the first is always clipped, the second never has a gradient."""
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


def folded(steps: np.ndarray, noise: float, rate: float) -> tuple[Terms, np.ndarray, np.ndarray]:
    kept = fold(steps, noise_multiplier=noise, sampling_rate=rate, dp_delta=DELTA)
    assert kept.dtype == np.float32
    assert kept.shape == (len(steps),)
    terms = Terms(noise, rate, int(steps[0].sum()), DELTA)
    return terms, terms.realised(kept), terms.receipt(kept)


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS[1:3])
def test_twenty_records_are_composed_as_dp_accounting_composes_them(noise, per_epoch):
    steps = some_records(20, per_epoch)
    found = steps @ step_costs(noise, 1 / per_epoch)
    for own, row in zip(found, steps, strict=True):
        theirs = reference.renyi(row, noise, 1 / per_epoch).rdp
        assert own[WHOLE] == pytest.approx(theirs[WHOLE], rel=1e-9, abs=1e-9)
        assert (own <= theirs * (1 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_realised_is_the_least_epsilon_over_orders_and_rounded_up_in_the_sixth_digit(
    noise, per_epoch
):
    steps = some_records(60, per_epoch)
    terms, realised, _ = folded(steps, noise, 1 / per_epoch)
    spent = steps @ step_costs(noise, 1 / per_epoch)
    exact = epsilon_of(spent, dp_delta=DELTA)
    assert (realised >= exact * (1 - 1e-14)).all()
    assert realised == pytest.approx(exact, rel=1e-5)
    theirs = [reference.renyi(row, noise, 1 / per_epoch).get_epsilon(DELTA) for row in steps[:5]]
    assert realised[:5] == pytest.approx(theirs, rel=4e-3)  # see the broken orders
    assert terms.nominal <= theirs[0] * (1 + 1e-9)


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_folded_on_a_device_no_number_is_below_the_host_s_and_hardly_any_above(noise, per_epoch):
    steps = some_records(3000, per_epoch, seed=4)
    steps[2, :] = 0
    steps[2, [0, 1]] = EPOCHS * per_epoch - 1, 1  # hidden by delta alone, where noise is large
    terms, realised, receipt = folded(steps, noise, 1 / per_epoch)
    counts = torch.from_numpy(steps.astype(np.float64))
    kept = fold_on_device(
        counts, noise_multiplier=noise, sampling_rate=1 / per_epoch, dp_delta=DELTA
    )
    assert kept.dtype == torch.float32
    ours = terms.realised(kept.numpy()), terms.receipt(kept.numpy())
    for found, expected in zip(ours, (realised, receipt), strict=True):
        assert (found >= expected).all()
        assert (found == expected).mean() > 0.999
        assert found[0] == terms.nominal
        assert found[1] == 0
    assert ours[0] == pytest.approx(realised, rel=2e-5)
    assert (torch.from_numpy(steps.astype(np.float64)) == counts).all()  # they are left alone


def test_on_a_device_too_every_step_of_every_record_must_be_counted():
    terms = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "dp_delta": DELTA}
    counts = torch.zeros(3, N_BINS + 1, dtype=torch.float64)
    counts[:, 5] = torch.tensor([4.0, 4.0, 3.0])
    with pytest.raises(ValueError, match="rows add up to 3 to 4"):
        fold_on_device(counts, **terms)
    with pytest.raises(ValueError, match="must have shape"):
        fold_on_device(counts[:, 1:], **terms)


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_clipped_at_every_step_is_the_promise_and_no_gradient_is_nothing(noise, per_epoch):
    terms, realised, receipt = folded(some_records(40, per_epoch), noise, 1 / per_epoch)
    assert realised[0] == receipt[0] == terms.nominal
    assert realised[1] == receipt[1] == 0
    assert (receipt <= terms.nominal).all()
    assert (realised <= receipt).all()


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_a_receipt_is_the_lowest_level_that_was_kept(noise, per_epoch):
    steps = some_records(200, per_epoch, seed=2)
    terms, _, receipt = folded(steps, noise, 1 / per_epoch)
    for own, row in zip(receipt, steps, strict=True):
        expected = reference.receipt(row, terms.costs, ORDERS, terms.levels, terms.nominal)
        assert own == expected
    assert len(set(receipt)) > 8


@pytest.mark.parametrize(("noise", "per_epoch"), SETTINGS)
def test_levels_share_delta_and_are_worth_what_dp_accounting_says_of_their_order(noise, per_epoch):
    terms = Terms(noise, 1 / per_epoch, EPOCHS * per_epoch, DELTA)
    assert 10 < len(terms.levels) <= N_LEVELS
    assert terms.levels[-1].epsilon == pytest.approx(LEVEL_RATIO * terms.nominal)
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    for level in terms.levels:
        worth, _ = compute_epsilon([level.order], [level.divergence], DELTA / N_LEVELS)
        assert worth == pytest.approx(level.epsilon, rel=1e-9)
    assert (np.diff([level.epsilon for level in terms.levels]) > 0).all()


def test_levels_are_settled_by_the_settings_alone():
    assert Terms(1.0, 0.1, 50, DELTA).levels == Terms(1.0, 0.1, 50, DELTA).levels
    assert Terms(1.0, 0.1, 50, DELTA).levels != Terms(1.1, 0.1, 50, DELTA).levels


def test_a_larger_norm_never_lowers_either_number():
    rising = np.zeros((N_BINS + 1, N_BINS + 1), dtype=np.uint32)
    np.fill_diagonal(rising, 425)
    _, realised, receipt = folded(rising, 4.654, 1 / 17)
    assert (np.diff(realised) >= 0).all()
    assert (np.diff(receipt) >= 0).all()


def test_a_third_of_the_clip_is_hidden_about_three_times_better():
    steps = np.zeros((2, N_BINS + 1), dtype=np.uint16)
    steps[0, N_BINS] = steps[1, 66] = 425
    _, realised, _ = folded(steps, 37.377, 1 / 17)
    assert realised[0] / realised[1] == pytest.approx(3, rel=0.1)


def test_who_was_not_trained_on_has_neither():
    terms = Terms(1.0, 0.1, 50, DELTA)
    nobody = np.array([np.nan], dtype=np.float32)
    assert np.isnan(terms.realised(nobody)).all()
    assert np.isnan(terms.receipt(nobody)).all()


def test_the_kept_number_is_the_realised_epsilon_to_any_reader():
    steps = some_records(100, 17)
    kept = fold(steps, noise_multiplier=4.654, sampling_rate=1 / 17, dp_delta=DELTA)
    terms = Terms(4.654, 1 / 17, 425, DELTA)
    assert kept.nbytes == 4 * len(steps)
    assert kept == pytest.approx(terms.realised(kept), rel=1e-5, abs=1e-40)


def test_lots_do_not_matter(monkeypatch):
    steps = some_records(50, 17)
    settings = {"noise_multiplier": 4.654, "sampling_rate": 1 / 17, "dp_delta": DELTA}
    whole = fold(steps, **settings)
    monkeypatch.setattr("pcer.train.receipts.LOT", 7)
    assert fold(steps, **settings) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize(
    ("shape", "fault"), [((3, 200), "must have shape"), ((0, 201), "must have shape")]
)
def test_bins_of_another_shape_are_refused(shape, fault):
    with pytest.raises(ValueError, match=fault):
        fold(np.zeros(shape, np.uint16), noise_multiplier=1.0, sampling_rate=0.1, dp_delta=DELTA)


def test_a_record_that_misses_steps_is_refused():
    steps = some_records(3, 17)
    steps[2] = 0
    with pytest.raises(ValueError, match="rows add up to 0 to 425"):
        fold(steps, noise_multiplier=1.0, sampling_rate=0.1, dp_delta=DELTA)


def test_a_filter_keeps_the_budget_that_dp_accounting_accounts():
    own = allowance(0.5, **COMPAS_AT_1)
    assert own.cost[0] == 0
    for position in (200, 120, 40):
        steps = np.zeros(N_BINS + 1, dtype=int)
        spent, taken = 0.0, 0
        while taken < 425 and spent + own.cost[position] <= own.budget:
            spent, taken = spent + own.cost[position], taken + 1
        steps[position] = taken
        assert reference.renyi(steps, 4.654, 1 / 17).get_epsilon(DELTA) <= 0.5 * (1 + 1e-9)
        assert (taken == 425) == (position == 40)
    steps[:], steps[97] = 0, 425  # the order suits the norm that would just spend the budget
    assert reference.renyi(steps, 4.654, 1 / 17).get_epsilon(DELTA) == pytest.approx(0.5, rel=0.03)
    assert own.budget == pytest.approx(425 * own.cost[97], rel=0.05)


def test_a_filter_cannot_hold_what_no_order_can():
    with pytest.raises(InputError, match="budget_per_person must be above"):
        allowance(1e-3, **COMPAS_AT_1)


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
    terms = Terms(4.654, 1 / 17, 425, DELTA)
    limit = 1 / 17 * np.sqrt(425 * np.expm1(1 / 4.654**2))
    assert mu_of(np.array([terms.nominal]), dp_delta=DELTA)[0] == pytest.approx(limit, rel=0.02)


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


def test_nobody_allows_nothing():
    with pytest.raises(ValueError, match="at least one record"):
        allowed_advantage(np.array([]))
