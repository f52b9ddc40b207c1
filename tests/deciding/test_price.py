"""What choosing costs: by the published formulas, and what an accountant adds up."""

import math

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    dp_event,
)
from dp_accounting.rdp import RdpAccountant
from scipy import optimize

import pcer
from pcer.deciding.price import selection_epsilon
from pcer.renyi import ORDERS, sampled_gaussian
from tests.deciding.grid import GRID, SPLITS, STEPS, TRAINING, released, tree


def independent(
    divergence: np.ndarray, mean: float, delta: float, eta: float | None
) -> float:
    """Theorems 6 and 2 of Papernot and Steinke (2022), order by order, as epsilon."""
    found = []
    orders = [*map(float, ORDERS)]
    if eta is None:
        for order, own in zip(orders, divergence, strict=True):
            hat = math.log(1 + 1 / (order - 1))
            tails = [
                min(
                    math.exp((a - 1) * (d - hat)) / a * (1 - 1 / a) ** (a - 1),
                    math.sqrt(1 - math.exp(-d)),
                )
                if (a - 1) * (d - hat) < 300
                else 1.0
                for a, d in zip(orders, divergence, strict=True)
            ]
            found.append(own + mean * min(1.0, *tails) + math.log(mean) / (order - 1))
    else:

        def runs(gamma: float) -> float:
            """E[K] by its series."""
            k = np.arange(1, 20_000)
            log = k * math.log1p(-gamma) - np.log(k)
            if eta > 0:
                rising = np.cumsum(np.log((k - 1 + eta) / k))
                log = k * math.log1p(-gamma) + rising
            weights = np.exp(log)
            return float((k * weights).sum() / weights.sum())

        gamma = optimize.brentq(lambda g: runs(g) - mean, 1e-3, 1 - 1e-9, xtol=1e-13)
        pairs = [*zip(orders, divergence, strict=True)]
        more = min((1 - 1 / a) * d + math.log(1 / gamma) / a for a, d in pairs)
        found = [d + (1 + eta) * more + math.log(mean) / (a - 1) for a, d in pairs]
    return min(
        e + math.log(1 - 1 / a) - math.log(delta * a) / (a - 1)
        for a, e in zip(orders, found, strict=True)
    )


@pytest.mark.parametrize("mean", [3, 14])
def test_the_price_of_a_fresh_selection_is_that_of_the_published_theorems(mean):
    one = 425 * sampled_gaussian(np.array([4.654]), 1 / 17)[0]
    found, law, eta = selection_epsilon(one, mean=mean, dp_delta=1e-5)
    each = {
        eta: independent(one, mean, 1e-5, eta) for eta in (None, *np.arange(11) / 10)
    }
    assert found == pytest.approx(min(each.values()), rel=1e-6)
    assert found == pytest.approx(each[eta], rel=1e-6)
    assert law == ("poisson" if mean == 3 else "negative_binomial")
    # dp-accounting has both laws, and divergences that are a little larger at broken
    # orders
    step = PoissonSampledDpEvent(1 / 17, GaussianDpEvent(4.654))
    shape = math.inf if eta is None else eta
    event = dp_event.RepeatAndSelectDpEvent(SelfComposedDpEvent(step, 425), mean, shape)
    theirs = RdpAccountant().compose(event).get_epsilon(1e-5)
    assert found <= theirs * (1 + 1e-9) <= found * 1.05


def test_reading_all_models_costs_what_one_accountant_adds_up():
    price = pcer.recommend(released(), largest_exposure=53).price
    accountant = RdpAccountant()
    for _, noise, *_ in GRID.values():
        step = PoissonSampledDpEvent(1 / 17, GaussianDpEvent(noise))
        accountant.compose(SelfComposedDpEvent(step, 425 * SPLITS))
    theirs = accountant.get_epsilon(1e-5)
    assert price.together <= theirs <= 1.03 * price.together
    assert (price.n_models, price.n_without, price.mean_runs) == (4 * SPLITS, 0, 4)
    stated = tree()
    stated["training"]["joint_privacy"] = TRAINING | {
        "epsilon_of_the_private_models": 25.7
    }
    assert pcer.recommend(released(stated), largest_exposure=53).price.together == 25.7
    for claim in (-5, 1e-9, "25.7", [25.7]):  # less than its noise allows, or no number
        stated["training"]["joint_privacy"] = TRAINING | {
            "epsilon_of_the_private_models": claim
        }
        assert pcer.recommend(released(stated), largest_exposure=53).price == price
    public = pcer.recommend(
        released(tree(c=(None, None, 246, 3, (0.05, 0.045), 0.004))),
        largest_exposure=53,
    ).price
    assert (public.together, public.n_without, public.mean_runs) == (None, SPLITS, 3)
    assert public.fresh < price.fresh  # the largest epsilon of the grid counts
    silent = tree()
    del silent["training"]["joint_privacy"]
    unknown(silent)


def unknown(made: dict) -> None:
    price = pcer.recommend(released(made), largest_exposure=53).price
    assert (price.together, price.fresh, len(price.sentences)) == (None, None, 1)


@pytest.mark.parametrize(
    ("steps", "delta", "noise"),
    [
        *((STEPS | {"sample_rate": rate}, 1e-5, 3.0) for rate in (0, 2, "x", [1])),
        *((STEPS | {"n_steps": n}, 1e-5, 3.0) for n in (-3, 0, 1e300, "425")),
        *((STEPS, delta, 3.0) for delta in (0, -1, 2, "1e-5", [1])),
        *((STEPS, 1e-5, noise) for noise in (0, 1e-9, 1e300, None)),
    ],
)
def test_a_price_of_numbers_that_no_training_has_is_not_known(steps, delta, noise):
    made = tree()
    made["training"]["joint_privacy"] = {
        "dp_delta": delta,
        "trainings": dict.fromkeys("abcd", steps),
    }
    for r in made["runs"]:
        r["noise_multiplier"] = noise
    unknown(made)
