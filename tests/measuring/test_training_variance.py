"""What training records move: against slow twins, and in a world with a known answer."""

import numpy as np
import pytest
from benchmarks import mirror
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from pcer.measuring import training_variance as part
from pcer.measuring.training_variance import Combination, SplitRates, training_part


def slow_variance(rates, split, weights, share):
    """V_train of one combination, runs and splits one by one."""
    d, everybody = {}, {}
    for run, s in enumerate(split):
        d.setdefault(s, []).append(float(weights @ rates.tested[run]))
        everybody.setdefault(s, []).append(float(weights @ rates.everybody[run]))
    d_means = [np.mean(d[s]) for s in sorted(d)]
    all_means = [np.mean(everybody[s]) for s in sorted(d)]
    spread = np.var(all_means, ddof=1)
    shared = np.cov(d_means, all_means)[0, 1]
    n_repeats = len(split) - len(d)
    if n_repeats:
        noise = shared_noise = 0.0
        for s in d:
            for one, other in zip(d[s], everybody[s], strict=True):
                deviation = other - np.mean(everybody[s])
                noise += deviation**2
                shared_noise += (one - np.mean(d[s])) * deviation
        per_mean = np.mean([1 / len(d[s]) for s in d]) / n_repeats
        spread = max(spread - per_mean * noise, 0)
        shared -= per_mean * shared_noise
    return share / (1 - share) * spread + 2 * max(spread - shared, 0)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(3, 8),
    st.integers(1, 3),
    st.integers(2, 4),
    st.floats(0.1, 0.9),
)
def test_the_training_part_is_its_slow_twin(seed, n_splits, n_repeats, n_groups, share):
    rng = np.random.default_rng(seed)
    split = np.repeat(np.arange(n_splits), n_repeats)
    shape = (len(split), n_groups)
    rates = SplitRates(rng.random(shape), rng.random(shape))
    found = training_part(rates, split, share_trained=share)
    weights = rng.normal(size=(n_groups, 5))
    expected = [slow_variance(rates, split, w, share) for w in weights.T]
    combinations = of_all_groups(weights)
    np.testing.assert_allclose(
        found.variance(combinations), expected, rtol=1e-9, atol=1e-12
    )
    assert found.is_noise_known == (n_repeats > 1)
    assert found.degrees_of_freedom == n_splits - 1


def of_all_groups(weights):
    """Combinations of all groups; weights (group, combination)."""
    n_groups, n_combinations = weights.shape
    groups = np.repeat(np.arange(n_groups)[:, None], n_combinations, axis=1)
    return Combination(groups, weights)


def test_two_splits_show_no_spread():
    rates = SplitRates(np.ones((4, 2)), np.ones((4, 2)))
    assert training_part(rates, np.array([0, 0, 1, 1]), share_trained=0.7) is None


@given(
    st.floats(-3, 3),
    st.floats(0.01, 1),
    st.floats(0, 1),
    st.integers(2, 40),
)
def test_the_p_value_solves_its_equation(value, v_now, v_train, freedom):
    def excess(log_tail):
        tail = np.exp(log_tail)
        z = stats.norm.isf(tail)
        t = stats.t.isf(tail, freedom)
        return z**2 * v_now + t**2 * v_train - value**2

    found = part.two_part_p(
        np.array([value]), v_now, v_train, degrees_of_freedom=freedom
    )
    if abs(value) < 1e-9:
        assert found == pytest.approx(1)
        return
    expected = 2 * np.exp(optimize.brentq(excess, -500, np.log(0.5), xtol=1e-13))
    assert found == pytest.approx(expected, rel=1e-8)


def test_without_a_training_part_the_p_value_is_the_normal_one():
    value = np.array([0.0, 0.5, -2.0, 30.0])
    found = part.two_part_p(value, 1.0, 0.0, degrees_of_freedom=19)
    np.testing.assert_allclose(found, 2 * stats.norm.sf(np.abs(value)), rtol=1e-9)
    unknown = part.two_part_p(np.array([np.nan]), 1.0, 0.0, degrees_of_freedom=2)
    assert np.isnan(unknown).all()
    nothing = part.two_part_p(np.array([0.0]), 0.0, 0.0, degrees_of_freedom=2)
    assert nothing == 1


def test_an_interval_ends_where_its_p_value_is_the_level():
    half = part.half_width(
        np.array([0.02]), np.array([0.01]), tail=0.025, degrees_of_freedom=4
    )
    p = part.two_part_p(half, 0.02, 0.01, degrees_of_freedom=4)
    assert p == pytest.approx(0.05)
    assert half == pytest.approx(
        np.sqrt(stats.norm.isf(0.025) ** 2 * 0.02 + stats.t.isf(0.025, 4) ** 2 * 0.01)
    )


def test_records_that_act_through_training_alone_give_a_known_variance():
    """Each record adds b to everybody's rate if it is trained on, and nothing else.

    Over splits D = sum of b over the trained, less its mean, so that f/(1-f) Var(D) is
    sum(b^2) f^2 in expectation: what new records would add, since each is trained on
    with chance f and the model scales b by 1 / f for its size.
    """
    rng = np.random.default_rng(5)
    n, share, n_splits = 400, 0.7, 4_000
    influence = rng.normal(size=n) / n
    trained = rng.permuted(np.tile(np.arange(n) < share * n, (n_splits, 1)), axis=1)
    moved = (trained @ influence)[:, None]
    rates = SplitRates(moved, moved)
    found = training_part(rates, np.arange(n_splits), share_trained=share)
    centred = influence - influence.mean()
    expected = share**2 * np.sum(centred**2)
    assert found.variance(of_all_groups(np.ones((1, 1)))) == pytest.approx(
        [expected], rel=0.1
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", ["logistic", "15nn"])
def test_groups_of_one_truth_that_live_apart_rarely_differ(model):
    """A tenth of `python -m benchmarks.mirror outcomes`, with other people."""
    n_draws = 20
    rng = np.random.default_rng(4_000)
    alarms = dict.fromkeys(mirror.N_SPLITS, 0)
    without = 0
    for _ in range(n_draws):
        people = mirror.drawn_people(rng, apart=mirror.APART)
        rates, n_test = mirror.drawn_rates(model, people, rng)
        for n_splits in mirror.N_SPLITS:
            found = mirror.found_at(rates, n_test, n_splits)
            alarms[n_splits] += found.differs
            without += found.differs_now
    most = stats.binom.isf(0.01 / len(alarms), n_draws, 0.05)
    assert max(alarms.values()) <= most
    assert without > sum(alarms.values())  # otherwise this world tries nothing
