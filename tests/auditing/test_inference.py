"""Estimates, tests and Holm against obvious twins and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcer.auditing.inference import cross_product
from pcer.auditing.measure import SplitMeans, by_split, cost_estimate
from pcer.statistics import detectable, holm, two_sided_p, upper_p
from tests import reference


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_definition(p_values):
    ours = holm(np.array(p_values))
    assert ours == pytest.approx(reference.holm(p_values), abs=1e-12)


def test_holm_leaves_out_what_was_not_tested():
    ours = holm(np.array([[0.01, np.nan], [0.04, 0.03]]))
    assert np.isnan(ours[0, 1])
    assert ours[[0, 1, 1], [0, 0, 1]] == pytest.approx([0.03, 0.06, 0.06])


def test_p_values_are_normal_tails():
    value, error = np.array([0.02, -0.02]), np.array([0.01, 0.01])
    assert upper_p(value, error) == pytest.approx(stats.norm.sf([2, -2]), rel=1e-12)
    assert two_sided_p(value, error) == pytest.approx(2 * stats.norm.sf([2, 2]), rel=1e-12)


def test_no_spread_is_no_evidence():
    """An error of 0 means that nothing could vary: every record right, or none."""
    assert upper_p(np.array([0.0, 0.1]), np.zeros(2)).tolist() == [1.0, 1.0]
    assert two_sided_p(np.array([0.1]), np.zeros(1)).tolist() == [1.0]


def test_detectable_cost_is_the_designs_formula():
    expected = (stats.norm.isf(0.05 / 12) + 0.84) * 0.01
    assert detectable(np.array(0.01), n_tests=12) == pytest.approx(expected, rel=1e-12)


def test_runs_of_one_split_are_averaged_first():
    values = np.array([[1.0], [3.0], [10.0]])
    assert by_split(values, np.array([0, 0, 1])).tolist() == [[2.0], [10.0]]


def test_error_is_the_larger_of_closed_form_and_spread():
    cost = np.array([[0.1, 0.1], [0.3, 0.1]])
    means = SplitMeans(cost=cost, variance=np.array([0.001, 0.004]), benefit=np.ones((2, 2)))
    estimate = cost_estimate(means)
    assert estimate.value == pytest.approx([0.2, 0.1])
    assert estimate.standard_error == pytest.approx([np.sqrt(0.02 / 2), np.sqrt(0.004 / 2)])


def test_cross_product_by_hand():
    means = SplitMeans(
        cost=np.array([[0.01, 0.03]]),
        variance=np.array([0.0004, 0.0009]),
        benefit=np.array([[0.5, 0.2]]),
    )
    value, error = cross_product(means, 0, 1)
    assert value == pytest.approx(0.5 * 0.03 - 0.2 * 0.01)
    assert error == pytest.approx(np.sqrt(0.25 * 0.0009 + 0.04 * 0.0004))


def test_unequal_rates_alone_make_no_cross_product():
    means = SplitMeans(
        cost=np.zeros((3, 2)), variance=np.full(2, 1e-4), benefit=np.tile([0.9, 0.1], (3, 1))
    )
    assert cross_product(means, 0, 1)[0] == 0
