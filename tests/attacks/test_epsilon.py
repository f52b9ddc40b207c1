"""The epsilon alarm: exact laws, coverage under a mechanism of known epsilon, Holm, the words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import binom

from pcer.attacks.epsilon import (
    BROKEN,
    EpsilonBound,
    Guesses,
    alarm_notes,
    audit_guesses,
    bound_epsilon,
    weigh,
    worst_case_p,
)
from tests.worlds.sweeps import scaled_logits, splits


def test_the_law_by_hand():
    """Two guesses "in", one "out", p = 0.7, epsilon = ln 2: odds 14/3 and 6/7."""
    right_in, right_out = 14 / 17, 6 / 13
    chances = {
        3: right_in**2 * right_out,
        1: 1 - (1 - right_in) ** 2 * (1 - right_out),
    }
    for n_right, expected in chances.items():
        found = worst_case_p(
            Guesses(n_in=2, n_out=1, n_right=n_right, n_candidates=30),
            epsilon=math.log(2),
            inclusion=0.7,
            dp_delta=0.0,
        )
        assert found == pytest.approx(expected, abs=1e-12)


def test_delta_adds_the_published_term():
    guesses = Guesses(n_in=50, n_out=0, n_right=45, n_candidates=1_000)
    rate = 0.7 * math.e / (0.3 + 0.7 * math.e)

    def tail(v):
        return float(binom.sf(v - 1, 50, rate))

    rise = max((tail(45 - i) - tail(45)) / i for i in range(1, 46))
    expected = tail(45) + 2 * 1_000 * 1e-5 * rise
    found = worst_case_p(guesses, epsilon=1.0, inclusion=0.7, dp_delta=1e-5)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n_right", [1, 20_000, 27_700, 28_000, 28_500, 40_000])
def test_many_guesses_against_the_whole_law(n_right):
    """The law is only evaluated where it can be told from 0; here it is summed everywhere."""
    guesses = Guesses(n_in=20_000, n_out=20_000, n_right=n_right, n_candidates=400_000)
    odds = np.exp(0.5) * np.array([0.7 / 0.3, 0.3 / 0.7])
    laws = [binom.pmf(np.arange(20_001), 20_000, p) for p in odds / (1 + odds)]
    law = fftconvolve(*laws)
    tail = np.append(np.minimum(np.cumsum(np.maximum(law, 0)[::-1])[::-1], 1.0), 0.0)
    steps = np.arange(1, n_right + 1)
    rise = ((tail[n_right - steps] - tail[n_right]) / steps).max()
    expected = min(1.0, tail[n_right] + 2 * 400_000 * 1e-5 * rise)
    found = worst_case_p(guesses, epsilon=0.5, inclusion=0.7, dp_delta=1e-5)
    assert found == pytest.approx(expected, abs=1e-11)


def test_chance_guesses_bound_nothing_and_perfect_ones_a_lot():
    chance = Guesses(n_in=500, n_out=500, n_right=500, n_candidates=10_000)
    perfect = chance._replace(n_right=1_000)
    claim = {"inclusion": 0.7, "dp_delta": 1e-5, "epsilon": 1.0, "group": "a"}
    assert bound_epsilon(chance, **claim).lower_bound == 0.0
    found = bound_epsilon(perfect, **claim)
    assert found.lower_bound > 4
    assert found.p_value < 1e-3  # not less: delta alone could have done it
    again = worst_case_p(perfect, epsilon=found.lower_bound, inclusion=0.7, dp_delta=1e-5)
    assert again == pytest.approx(0.05, rel=1e-3)


def randomised_response(epsilon, rng, *, n_models=20, n_records=400):
    """A mechanism whose epsilon is known exactly: each record's membership told with noise."""
    labels = np.zeros(n_records, dtype=int)
    member = splits(labels, n_models, rng)
    honest = rng.random(member.shape) < math.exp(epsilon) / (1 + math.exp(epsilon))
    told = member == honest
    return told + 1e-3 * rng.normal(size=member.shape), member


def test_the_bound_stays_below_the_truth_and_comes_near():
    rng = np.random.default_rng(0)
    bounds = []
    for _ in range(100):
        guesses = audit_guesses(*randomised_response(1.0, rng))
        bounds.append(
            bound_epsilon(guesses, inclusion=0.7, dp_delta=0.0, epsilon=1.0, group="a").lower_bound
        )
    assert np.mean(np.array(bounds) > 1.0) <= 0.05
    assert np.mean(bounds) > 0.5


def test_a_false_claim_raises_the_alarm():
    rng = np.random.default_rng(1)
    guesses = audit_guesses(*randomised_response(2.0, rng))
    false, true = (
        bound_epsilon(guesses, inclusion=0.7, dp_delta=1e-5, epsilon=claim, group="women")
        for claim in (0.5, 2.0)
    )
    weighed = weigh([false, true])
    assert [bound.alarm for bound in weighed] == [True, False]
    (note,) = alarm_notes(weighed)
    assert "women" in note
    assert "epsilon = 0.5" in note
    assert BROKEN in note
    assert "approximate" in note


def test_guesses_on_nothing_memorised_raise_no_alarm_at_a_tiny_epsilon():
    """Also the check that the halves are apart: clustered guesses would raise it."""
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(200):
        member = splits(np.zeros(200, dtype=int), 16, rng)
        guesses = audit_guesses(scaled_logits(member, rng, shift=0.0), member)
        bound = bound_epsilon(guesses, inclusion=0.7, dp_delta=0.0, epsilon=1e-6, group="a")
        alarms += bound.p_value <= 0.05
    assert alarms / 200 <= 0.085


def test_holm_counts_only_claims():
    guesses = Guesses(n_in=1, n_out=1, n_right=1, n_candidates=2)
    bounds = [
        EpsilonBound(epsilon=e, group="a", p_value=p, guesses=guesses, inclusion=0.7, dp_delta=0.0)
        for e, p in ((0.1, 0.02), (1.0, 0.04), (math.inf, math.nan))
    ]
    found = weigh(bounds)
    assert [bound.p_value for bound in found[:2]] == [0.04, 0.04]
    assert math.isnan(found[2].p_value)
    assert [bound.alarm for bound in found] == [True, True, False]


def test_bad_arguments():
    guesses = Guesses(n_in=1, n_out=1, n_right=1, n_candidates=2)
    with pytest.raises(ValueError, match="inclusion must lie strictly between 0 and 1"):
        bound_epsilon(guesses, inclusion=1.0, dp_delta=0.0, epsilon=1.0, group="a")
    with pytest.raises(ValueError, match="dp_delta must lie in"):
        bound_epsilon(guesses, inclusion=0.5, dp_delta=-1.0, epsilon=1.0, group="a")
    with pytest.raises(ValueError, match="at least 8 models"):
        audit_guesses(np.zeros((7, 3)), np.zeros((7, 3), dtype=bool))
