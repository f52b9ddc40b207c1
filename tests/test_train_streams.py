import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pcer.train.config import TrainConfig
from pcer.train.schedule import Widths, sampled_positions
from pcer.train.streams import Purpose, initial_weights, poisson_positions, stream
from tests import reference_train as slow


def test_streams_of_different_names_have_different_keys():
    names = itertools.product((0, 1, 2**40), (0.1, 1.0, math.inf), Purpose, (b"", b"s"))
    keys = [
        tuple(stream(seed=s, epsilon=e, purpose=p, secret=x).state["state"]["key"])
        for s, e, p, x in names
    ]
    assert len(set(keys)) == len(keys) == 54


def test_a_stream_is_named_by_its_values_only():
    one = stream(seed=3, epsilon=1, purpose=Purpose.NOISE)
    same = stream(seed=3, epsilon=1.0, purpose=Purpose.NOISE)
    assert (one.random_raw(9) == same.random_raw(9)).all()


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, but -1"):
        stream(seed=-1, epsilon=1.0, purpose=Purpose.NOISE)


def test_stream_is_philox_4x64_by_counter():
    generator = stream(seed=5, epsilon=0.5, purpose=Purpose.NOISE)
    key = tuple(int(word) for word in generator.state["state"]["key"])
    blocks = [slow.philox_4x64(key, counter) for counter in range(1, 26)]
    assert generator.random_raw(100).tolist() == [word for block in blocks for word in block]


@pytest.mark.parametrize("sample_rate", [0.5, 0.01, 1e-4])
def test_positions_follow_the_gaps_one_by_one(sample_rate):
    n_trials = int(50 / sample_rate)
    waits = np.random.Generator(np.random.PCG64(1)).standard_exponential(10_000)
    fast = poisson_positions(np.random.PCG64(1), sample_rate=sample_rate, n_trials=n_trials)
    first = int(50 + 5 * math.sqrt(50)) - 1  # later draws start a new part
    assert fast.tolist()[:first] == slow.geometric_positions(waits, sample_rate, n_trials)[:first]


def test_positions_are_ascending_and_reach_the_end():
    found = [
        poisson_positions(np.random.PCG64(s), sample_rate=0.3, n_trials=40) for s in range(4000)
    ]
    assert all((np.diff(p) > 0).all() and p.max(initial=0) < 40 for p in found)
    counts = np.bincount(np.concatenate(found), minlength=40)
    spread = math.sqrt(4000 * 0.3 * 0.7)
    assert np.abs(counts - 1200).max() < 4.5 * spread  # the first and the last trial included


def test_sample_rate_one_takes_everything():
    assert poisson_positions(np.random.PCG64(0), sample_rate=1.0, n_trials=7).tolist() == [
        *range(7)
    ]


def _sample(seed, epsilon=1.0, n_train=600, epochs=400):
    sampling = TrainConfig(expected_batch=60, epochs=epochs).sampling(n_train)
    positions = sampled_positions(seed, epsilon, sampling, b"")
    hits = np.zeros((sampling.n_steps, n_train), dtype=bool)
    hits[positions // n_train, positions % n_train] = True
    return sampling, hits


def test_every_record_is_drawn_at_the_sample_rate():
    sampling, hits = _sample(0)
    expected = sampling.n_steps * sampling.sample_rate
    frequency = hits.sum(axis=0)
    statistic = ((frequency - expected) ** 2).sum() / (expected * (1 - sampling.sample_rate))
    assert 1e-4 < stats.chi2(sampling.n_train).sf(statistic) < 1 - 1e-4


def test_batch_sizes_are_binomial():
    sampling, hits = _sample(1)
    law = stats.binom(sampling.n_train, sampling.sample_rate)
    sizes = hits.sum(axis=1)
    edges = np.array([0, *law.ppf(np.linspace(0.05, 0.95, 19)), sampling.n_train]) + 0.5
    edges[0] = -0.5
    expected = np.diff(law.cdf(edges)) * len(sizes)
    observed = np.histogram(sizes, edges)[0]
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_draws_are_independent_between_records_steps_and_models():
    _, hits = _sample(2)
    _, other_seed = _sample(3)
    _, other_budget = _sample(2, epsilon=2.0)
    pairs = {
        "neighbouring records": (hits[:, :-1], hits[:, 1:]),
        "neighbouring steps": (hits[:-1], hits[1:]),
        "seeds": (hits, other_seed),
        "budgets": (hits, other_budget),
    }
    for name, (a, b) in pairs.items():
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 4.5 / math.sqrt(a.size), name


def test_padding_is_wide_enough_for_any_training():
    sampling = TrainConfig().sampling(32_223)
    widths = Widths.of(sampling, "cpu")
    law = stats.binom(sampling.n_train, sampling.sample_rate)
    assert law.sf(widths.full) * sampling.n_steps <= 1e-12
    assert law.sf(widths.usual) <= 0.03
    assert law.sf(Widths.of(sampling, "cuda").usual) <= 1e-4
    assert widths.usual % 32 == widths.full % 32 == 0
    assert widths.full == Widths.of(sampling, "cuda").full


def test_initial_weights_are_those_of_a_torch_linear_layer_in_law():
    first, last = initial_weights(np.random.PCG64(0), sizes=(100, 300, 1))
    assert (first.shape, last.shape, first.dtype) == ((101, 300), (301, 1), np.float32)
    for values in (first[:-1].ravel(), first[-1]):
        assert stats.kstest(values, stats.uniform(-0.1, 0.2).cdf).pvalue > 1e-4
