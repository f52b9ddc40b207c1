"""What split luck alone gives: against enumeration, scipy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pcer.auditing.exact import Strata, strata_of_counts, strata_of_rates
from pcer.auditing.variances import (
    LARGEST_SPREAD,
    _n_at_most,
    draw_differences,
    hypergeometric,
    noise_level,
    split_luck,
)
from pcer.metrics import Counts
from pcer.release.format import Confusion
from tests import reference
from tests.strategies import confusions


def strata(train: dict[str, int], test: dict[str, int]) -> Strata:
    """Confusion tables of one group."""
    parts = (
        Counts(**{name: np.array([float(value)]) for name, value in cells.items()})
        for cells in (train, test)
    )
    return strata_of_counts(*parts)


@given(confusions(), confusions())
def test_moments_are_the_hypergeometric_ones(train, test):
    ours = split_luck(strata(train, test))
    mean, variance = reference.split_luck(Confusion(**train), Confusion(**test))
    assert ours.mean[0] == pytest.approx(mean, abs=1e-12)
    assert ours.variance[0] == pytest.approx(variance, abs=1e-12)


def test_moments_by_listing_every_split():
    """Six records of one label, three right, four trained on: all 15 splits."""
    train = {"tp": 2, "fn": 2, "fp": 0, "tn": 0}
    test = {"tp": 1, "fn": 1, "fp": 0, "tn": 0}
    law = reference.exact_law(correct=3, total=6, trained=4)
    difference = {hits: hits / 4 - (3 - hits) / 2 for hits in law}
    mean = sum(law[hits] * difference[hits] for hits in law)
    variance = sum(law[hits] * (difference[hits] - mean) ** 2 for hits in law)
    ours = split_luck(strata(train, test))
    assert ours.mean[0] == pytest.approx(mean, abs=1e-14)
    assert ours.variance[0] == pytest.approx(variance, abs=1e-14)


def test_rates_with_sizes_are_one_stratum():
    rates = strata_of_rates(np.array([0.5]), np.array([0.5]), np.array([4.0]), np.array([2.0]))
    ours = split_luck(rates)
    law = stats.hypergeom(6, 3, 4)
    assert ours.mean[0] == 0
    assert ours.variance[0] == pytest.approx(law.var() * (1 / 4 + 1 / 2) ** 2, abs=1e-14)


def test_noise_level_is_the_mean_of_clipped_noise():
    quantiles = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, scale=0.01)
    assert noise_level(np.array(0.01**2)) == pytest.approx(
        np.maximum(quantiles, 0).mean(), rel=1e-3
    )


@given(
    st.integers(0, 60), st.integers(0, 60), st.data(), st.lists(st.floats(0, 0.999999), min_size=1)
)
def test_draws_by_inversion_are_scipys_quantiles(good, bad, data, uniforms):
    assume(good + bad > 0)
    sampled = data.draw(st.integers(0, good + bad))
    ours = hypergeometric(good=good, bad=bad, sampled=sampled, uniforms=np.array(uniforms))
    law = stats.hypergeom(good + bad, good, sampled)
    below, at = law.cdf(ours - 1), law.cdf(ours)
    assert (below <= np.array(uniforms) + 1e-9).all()
    assert (np.array(uniforms) <= at + 1e-9).all()


def test_large_draws_have_the_right_moments():
    uniforms = (np.arange(4_000) + 0.5) / 4_000
    ours = hypergeometric(good=20_000, bad=5_000, sampled=17_000, uniforms=uniforms)
    law = stats.hypergeom(25_000, 20_000, 17_000)
    assert ours.mean() == pytest.approx(law.mean(), rel=1e-5)
    assert ours.var() == pytest.approx(law.var(), rel=1e-2)


@pytest.mark.parametrize(
    ("good", "bad", "sampled"),
    [
        (90_000, 90_000, 90_000),
        (50_000, 3_000_000, 1_500_000),
        (3_000_000, 50_000, 1_500_000),
        (2_000_000, 1_000_000, 60_000),
        (4 * 10**6, 10**6, 3 * 10**6),
    ],
)
def test_the_closed_form_of_large_draws_is_scipys_quantile(good, bad, sampled):
    """To a hundredth of a deviation, skewed or not."""
    uniforms = np.array([1e-6, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-4, 1 - 1e-6])
    law = stats.hypergeom(good + bad, good, sampled)
    assert law.std() > LARGEST_SPREAD
    ours = hypergeometric(good=good, bad=bad, sampled=sampled, uniforms=uniforms)
    assert ours == pytest.approx(law.ppf(uniforms), abs=0.01 * law.std())


def test_draws_of_any_size_stay_within_what_is_possible():
    uniforms = np.array([0.0, 1e-300, 0.5, 1 - 1e-16])
    ours = hypergeometric(good=10**15, bad=7 * 10**15, sampled=10**15, uniforms=uniforms)
    assert np.isfinite(ours).all()
    assert (np.diff(ours) >= 0).all()
    assert ours[2] == pytest.approx(10**15 / 8, rel=1e-6)
    few = hypergeometric(good=10**15, bad=50_000, sampled=10**15, uniforms=uniforms)
    assert (few >= 10**15 - 50_000).all()
    assert (few <= 10**15).all()


def test_drawn_differences_have_the_closed_form_moments():
    run = strata(
        {"tp": 300, "fn": 100, "tn": 500, "fp": 100}, {"tp": 140, "fn": 60, "tn": 210, "fp": 90}
    )
    luck = split_luck(run)
    uniforms = np.random.default_rng(0).random((2, 20_000, 1))
    drawn = draw_differences(run, uniforms=uniforms)[:, 0]
    error = np.sqrt(luck.variance[0] / 20_000)
    assert drawn.mean() == pytest.approx(luck.mean[0], abs=4 * error)
    assert drawn.var() == pytest.approx(luck.variance[0], rel=0.05)


@pytest.mark.parametrize("n_sums", [1, 2, 5, 300, 3_000])
def test_sums_at_most_are_counted_as_searchsorted_counts_them(n_sums):
    rng = np.random.default_rng(n_sums)
    weights = rng.random(n_sums) ** 9 + 1e-300
    cumulative, uniforms = np.cumsum(weights), rng.random(4_000)
    on_sums = np.clip(cumulative / cumulative[-1], 0, np.nextafter(1, 0))
    for one in (uniforms, on_sums, np.array([0.0, np.nextafter(1, 0)])):
        share = np.minimum(one * cumulative[-1], np.nextafter(cumulative[-1], 0))
        slow = [(cumulative <= x).sum() for x in share]
        assert _n_at_most(cumulative, one).tolist() == slow
