"""What the split alone gives, drawn: against scipy's quantiles and closed moments."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pcer.measuring.exact import strata_of_counts
from pcer.measuring.variances import split_luck
from pcer.metrics import Counts
from pcer.paper.null import LARGEST_SPREAD, draw_differences, hypergeometric


@given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.data(),
    st.lists(st.floats(0, 0.999999), min_size=1),
)
def test_draws_by_inversion_are_scipys_quantiles(good, bad, data, uniforms):
    assume(good + bad > 0)
    sampled = data.draw(st.integers(0, good + bad))
    ours = hypergeometric(
        good=good, bad=bad, sampled=sampled, uniforms=np.array(uniforms)
    )
    law = stats.hypergeom(good + bad, good, sampled)
    assert (law.cdf(ours - 1) <= np.array(uniforms) + 1e-9).all()
    assert (np.array(uniforms) <= law.cdf(ours) + 1e-9).all()


@pytest.mark.parametrize(
    "thousands",
    [
        (90, 90, 90),
        (50, 3_000, 1_500),
        (3_000, 50, 1_500),
        (2_000, 1_000, 60),
        (4_000, 1_000, 3_000),
    ],
)
def test_the_closed_form_of_large_draws_is_scipys_quantile(thousands):
    """To a hundredth of a deviation, skewed or not."""
    good, bad, sampled = (1_000 * n for n in thousands)
    uniforms = np.array([1e-6, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-4, 1 - 1e-6])
    law = stats.hypergeom(good + bad, good, sampled)
    assert law.std() > LARGEST_SPREAD
    ours = hypergeometric(good=good, bad=bad, sampled=sampled, uniforms=uniforms)
    assert ours == pytest.approx(law.ppf(uniforms), abs=0.01 * law.std())


def test_a_law_is_written_down_up_to_a_deviation_of_100():
    """Told by where it ends: the closed form ends ten deviations from the mean."""
    ends = (
        hypergeometric(good=n, bad=n, sampled=n, uniforms=np.zeros(1))
        for n in (79_999, 80_000)
    )
    assert np.ravel([*ends]).tolist() == [38_999, 39_000]


def test_draws_of_any_size_stay_within_what_is_possible():
    uniforms = np.array([0.0, 1e-300, 0.5, 1 - 1e-16])
    ours = hypergeometric(
        good=10**15, bad=7 * 10**15, sampled=10**15, uniforms=uniforms
    )
    assert np.isfinite(ours).all()
    assert (np.diff(ours) >= 0).all()
    assert ours[2] == pytest.approx(10**15 / 8, rel=1e-6)
    few = hypergeometric(good=10**15, bad=50_000, sampled=10**15, uniforms=uniforms)
    assert few.min() >= 10**15 - 50_000
    assert few.max() <= 10**15


def test_drawn_differences_have_the_closed_form_moments():
    parts = ((300, 100, 500, 100), (140, 90, 210, 60))  # tp, fp, tn, fn
    train, test = [Counts(*np.array(cells, dtype=float)[:, None]) for cells in parts]
    run = strata_of_counts(train, test)
    mean, variance = np.ravel(split_luck(run))
    uniforms = np.random.default_rng(0).random((2, 20_000, 1))
    drawn = draw_differences(run, uniforms=uniforms)[:, 0]
    assert drawn.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / 20_000))
    assert drawn.var() == pytest.approx(variance, rel=0.05)
