"""Bootstrap and sign test against scipy."""

import numpy as np
import pytest
from scipy import stats

from pcer import statistics
from pcer.statistics import bootstrap_sums, generator, percentile_interval, sign_test


def test_bootstrap_distribution_is_scipys():
    values = np.random.default_rng(1).normal(size=23)
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=999,
        method="percentile",
        rng=np.random.default_rng(7),
    )
    ours = bootstrap_sums(values, resamples=999, rng=np.random.default_rng(7)) / 23
    assert np.sort(ours) == pytest.approx(
        np.sort(theirs.bootstrap_distribution), abs=1e-12
    )
    interval = percentile_interval(ours, confidence_level=0.95)
    assert interval == pytest.approx(tuple(theirs.confidence_interval), abs=1e-12)


def test_resampled_sums_against_a_loop_in_blocks_of_any_size(monkeypatch):
    values = np.random.default_rng(2).normal(size=(7, 2, 3))
    index = np.random.default_rng(3).integers(0, 7, (50, 7))
    whole = bootstrap_sums(values, resamples=50, rng=np.random.default_rng(3))
    assert whole == pytest.approx(np.array([values[row].sum(axis=0) for row in index]))
    for entries in (1, 30, 70):
        monkeypatch.setattr(statistics, "BLOCK_ENTRIES", entries)
        again = bootstrap_sums(values, resamples=50, rng=np.random.default_rng(3))
        assert np.array_equal(again, whole)


@pytest.mark.parametrize(
    ("positive", "negative"), [(0, 0), (5, 0), (28, 22), (25, 25), (3, 17)]
)
def test_sign_test_is_the_exact_binomial_test(positive, negative):
    n = positive + negative
    expected = stats.binomtest(positive, n).pvalue if n else 1.0
    assert sign_test(positive, negative) == pytest.approx(expected, abs=1e-12)


def test_streams_are_keyed_by_budget_and_purpose():
    draws = {
        (purpose, epsilon): generator(0, purpose=purpose, epsilon=epsilon).random()
        for purpose in range(3)
        for epsilon in (0.1, 1.0, np.inf)
    }
    assert len(set(draws.values())) == 9
    assert generator(0, purpose=1, epsilon=1.0).random() == draws[1, 1.0]
    assert generator(1, purpose=1, epsilon=1.0).random() != draws[1, 1.0]
