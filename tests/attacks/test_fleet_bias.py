"""Short forms of ``benchmarks.fleet_bias``: the population is known."""

import math

import numpy as np
import pytest
from benchmarks import fleet_bias

SIZE = fleet_bias.Size(160, 60, (10, 60))
N_DRAWS = 4


@pytest.fixture(scope="module", params=["logistic", "noisy logistic"])
def world(request):
    draws = [
        fleet_bias.measure(request.param, True, draw, SIZE) for draw in range(N_DRAWS)
    ]
    return request.param, fleet_bias.summary(draws, SIZE)


@pytest.mark.slow
def test_who_does_not_know_the_others_finds_less_but_not_below_the_bound(world):
    """The lead is at least sqrt(1 - share in training) of the fleet's.

    Training noise closes it.
    """
    name, told = world
    bound = math.sqrt(1 - fleet_bias.SHARE)
    for group in ("a", "b"):
        ratio, error = told["same over other"]["own auc"][group]
        assert ratio < 1 / bound + 4 * error
        spread = told["exposures"]["deviation"][group][0]
        if name == "logistic":
            assert spread == pytest.approx(bound, abs=0.06)
            assert ratio > 1.3
        else:
            assert spread > 0.8
            assert ratio < 1.3


@pytest.mark.slow
def test_the_person_who_looks_worst_looks_worse_than_in_truth(world):
    few = world[1]["people"]["10"]
    many = world[1]["people"]["60"]
    assert few["largest"][0] > few["largest, in truth"][0] + 0.05
    gaps = [one["largest"][0] - one["largest, in truth"][0] for one in (few, many)]
    assert gaps[1] < gaps[0]
    assert (
        few["spread"][0]
        > 1.5 * world[1]["people"]["same people"]["spread beyond noise"][0]
    )


def test_one_threshold_is_not_the_mean_over_people_unless_they_are_alike():
    kinds = fleet_bias.kinds(np.random.default_rng(7))
    alike, easier = (
        fleet_bias.known_rates(kinds[name]) for name in ("all alike", "some easier")
    )
    assert alike["one threshold, loss"] == pytest.approx(alike["own thresholds"])
    assert easier["one threshold, distance"] == pytest.approx(easier["own thresholds"])
    assert easier["one threshold, loss"] < 0.5 * easier["own thresholds"]
    few, easy = (
        fleet_bias.known_rates(kinds[f"few exposed{more}"])
        for more in ("", ", and easy")
    )
    assert few["one threshold, LiRA"] > 1.05 * few["own thresholds"]
    assert few["one threshold, loss"] < 0.5 * few["own thresholds"]
    assert easy["one threshold, loss"] > easy["own thresholds"]
