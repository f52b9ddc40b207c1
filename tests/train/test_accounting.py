import math

import pytest

from pcer.errors import InputError
from pcer.train.accounting import calibrate, epsilon_spent
from pcer.train.config import Accountant, TrainConfig

ADULT, COMPAS = 32_223, 4_320

REFERENCE = [
    *((ADULT, *pair) for pair in ((0.1, 13.776), (0.5, 3.239), (1, 1.829), (5, 0.748))),
    (ADULT, 10, 0.596),
    *((COMPAS, *pair) for pair in ((0.1, 37.377), (0.5, 8.632), (1, 4.654), (5, 1.333))),
    (COMPAS, 10, 0.909),
]
"""PLD noise multipliers at batch 256, 25 epochs, delta 1e-5, to the nearest thousandth, from
dp-accounting 0.6.0 (value_discretization_interval=1e-4) by bisection."""


@pytest.mark.parametrize(("n_train", "epsilon", "noise"), REFERENCE)
def test_noise_keeps_the_budget_and_is_near_the_reference(n_train, epsilon, noise):
    budget = calibrate(epsilon, n_train=n_train, config=TrainConfig())
    assert noise <= budget.noise_multiplier <= noise + 0.002
    assert budget.epsilon_by_accountant["pld"] <= epsilon
    assert budget.epsilon_by_accountant["rdp"] > budget.epsilon_by_accountant["pld"]


@pytest.mark.parametrize(("accountant", "second"), [("pld", "rdp"), ("prv", "pld"), ("rdp", "pld")])
def test_every_accountant_gives_the_least_noise_that_keeps_the_budget(accountant, second):
    config = TrainConfig(accountant=accountant, epochs=2)
    budget = calibrate(2.0, n_train=2_000, config=config)
    assert list(budget.epsilon_by_accountant) == [accountant, second]
    assert budget.epsilon_by_accountant[accountant] <= 2.0
    less = budget.noise_multiplier - 0.001
    spent = epsilon_spent(less, n_train=2_000, config=config, accountant=Accountant(accountant))
    assert spent > 2.0


def test_three_accountants_agree_on_what_is_spent():
    def spent(accountant):
        config = TrainConfig(epochs=4)
        return epsilon_spent(1.1, n_train=4_320, config=config, accountant=accountant)

    pld, prv, rdp = (spent(a) for a in (Accountant.PLD, Accountant.PRV, Accountant.RDP))
    assert abs(pld - prv) < 0.02  # Opacus adds its error bound of 0.01
    assert pld < rdp < 1.2 * pld


def test_one_full_batch_step_is_the_gaussian_mechanism():
    """Without sampling and with one step the exact answer is known (Balle and Wang 2018)."""
    config = TrainConfig(epochs=1, expected_batch=50)
    spent = epsilon_spent(2.0, n_train=50, config=config, accountant=Accountant.PLD)

    def delta(epsilon):
        def tail(x):
            return math.erfc(x / math.sqrt(2)) / 2

        return tail(epsilon * 2 - 1 / 4) - math.exp(epsilon) * tail(epsilon * 2 + 1 / 4)

    assert delta(spent) <= config.dp_delta <= delta(spent - 0.001)


def test_no_privacy_needs_no_noise():
    budget = calibrate(math.inf, n_train=COMPAS, config=TrainConfig())
    assert (budget.noise_multiplier, budget.epsilon_by_accountant) == (0.0, {})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_budget_must_be_above_zero(epsilon):
    with pytest.raises(InputError, match=f"an epsilon above 0 or 'none', but {epsilon!r} was"):
        calibrate(epsilon, n_train=COMPAS, config=TrainConfig())


def test_a_generous_budget_still_gets_noise_that_keeps_it():
    budget = calibrate(200.0, n_train=1_000, config=TrainConfig(epochs=1))
    assert budget.noise_multiplier > 0
    assert budget.epsilon_by_accountant["pld"] <= 200.0
