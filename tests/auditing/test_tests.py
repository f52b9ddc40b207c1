"""Estimates, tests and Holm against obvious twins and scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcer.auditing.file import Plan
from pcer.auditing.measure import by_split, measure_panel
from pcer.auditing.tests import alarms, attack_tests, compare_pairs, decide
from pcer.release.panel import Panel, PooledExposures
from pcer.statistics import holm, two_sided_p, upper_p
from tests import reference


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_definition(p_values):
    ours = holm(np.array(p_values))
    assert ours == pytest.approx(reference.holm(p_values), abs=1e-12)


def test_no_spread_is_no_evidence():
    """An error of 0 means that nothing could vary: every record right, or none."""
    assert upper_p(np.array([0.0, 0.1]), np.zeros(2)).tolist() == [1.0, 1.0]
    assert two_sided_p(np.array([0.1]), np.zeros(1)).tolist() == [1.0]


def test_runs_of_one_split_are_averaged_first():
    values = np.array([[1.0], [3.0], [10.0]])
    assert by_split(values, np.array([0, 0, 1])).tolist() == [[2.0], [10.0]]


def measured(cost, variance, benefit, covariance=np.nan, null_error=np.nan):
    """A pooled cost of two groups of 10,000 records with these errors, and ten splits' benefit."""
    n = np.full((10, 2), 5_000.0)
    pooled = PooledExposures(
        value=np.array(cost),
        standard_error=np.sqrt(variance),
        null_error=np.full(2, null_error),
        benefit_covariance=np.full(2, covariance),
        n_records=np.full(2, 10_000.0),
    )
    panel = Panel(
        epsilon=np.inf,
        seeds=tuple(range(10)),
        group_names=("a", "b"),
        split=np.arange(10),
        train=None,
        test=None,
        train_accuracy=np.full((10, 2), 0.8),
        test_accuracy=np.full((10, 2), 0.8),
        positive_rate=np.tile(benefit, (10, 1)),
        n_train=n,
        n_test=n,
        exposure={},
        pooled={"paired_gap": pooled},
    )
    return measure_panel(panel, Plan(), "paired_gap")


def test_each_question_about_a_cost_over_all_models_has_its_own_error():
    """Is anything remembered: records alone. Groups: as given. One group's interval: the widest."""
    one = measured([0.02, 0.05], [0.0004, 0.0001], [0.5, 0.2], 0.0, null_error=0.01)
    assert one.exposed is not None
    assert one.memorised_p() == pytest.approx(stats.norm.sf([2.0, 5.0]))
    assert compare_pairs(one, ((0, 1),)).exposure.error ** 2 == pytest.approx(0.0005)
    assert one.exposed.alone == pytest.approx([0.0004, 2 * 0.01**2])
    by_hand = [0.02 + 1.644854 * 0.02, 0.05 + 1.644854 * 0.01 * np.sqrt(2)]
    assert one.exposed.limit(z=1.644854) == pytest.approx(by_hand)


@pytest.mark.parametrize(("separation", "expected"), [(0.0, 5e-4), (0.5, 5.5e-4), (1.0, 6e-4)])
def test_a_difference_counts_what_groups_do_not_share(separation, expected):
    """Variances .0004 and .0001, of records alone .0001 each; the first is wide enough anyhow."""
    one = measured([0.02, 0.05], [0.0004, 0.0001], [0.5, 0.2], 0.0, null_error=0.01)
    pooled = replace(one.panel.pooled["paired_gap"], separation=np.full(2, separation))
    panel = replace(one.panel, pooled={"paired_gap": pooled})
    found = measure_panel(panel, Plan(), "paired_gap")
    assert compare_pairs(found, ((0, 1),)).exposure.error ** 2 == pytest.approx(expected)
    assert found.memorised_p() == pytest.approx(one.memorised_p())
    assert found.exposed is not None
    assert found.exposed.alone == pytest.approx([0.0004, 2 * 0.01**2])


@pytest.mark.parametrize("covariance", [0.0, -1e-6])
def test_cross_product_by_hand(covariance):
    one = measured([0.01, 0.03], [0.0004, 0.0009], [0.5, 0.2], covariance)
    found = compare_pairs(one, ((0, 1),)).cross
    received = [reference.rate_variance(r, 1 / (1 / 1e4 + 1e-4 / 10)) for r in (0.5, 0.2)]
    sides = [
        {
            "benefit": r,
            "cost": c,
            "benefit_variance": v,
            "cost_variance": w,
            "covariance": covariance,
        }
        for r, c, v, w in zip((0.5, 0.2), (0.01, 0.03), received, (0.0004, 0.0009), strict=True)
    ]
    assert found.value == pytest.approx(0.5 * 0.03 - 0.2 * 0.01)
    assert found.error**2 == pytest.approx(reference.cross_variance(*sides))


def test_unequal_rates_alone_make_no_cross_product():
    one = measured([0.0, 0.0], [1e-4, 1e-4], [0.9, 0.1], 0.0)
    found = compare_pairs(one, ((0, 1),))
    assert found.cross.value == 0
    assert found.benefit.p_value < 1e-12


def evidence(one, pairs=((0, 1),)):
    return decide([attack_tests([one], pairs, random=True)], pairs, outcome="benefit")


def test_both_disadvantages_must_be_the_same_groups():
    """The more exposed group is the better off: no double disadvantage, however sure both are."""
    worse = evidence(measured([0.01, 0.09], [1e-6, 1e-6], [0.5, 0.2]))
    better = evidence(measured([0.01, 0.09], [1e-6, 1e-6], [0.2, 0.5]))
    assert (worse.double.tolist(), better.double.tolist()) == ([[1]], [[-1]])
    assert worse.double_p < 1e-6
    assert better.double_p == 1.0


def test_exposures_get_four_fifths_of_the_level_and_ratios_one_fifth():
    found = evidence(measured([0.01, 0.02], [1e-5, 1e-5], [0.5, 0.2]))
    exposure, ratio = found.exposure.p_alone.item(), found.cross.p_alone.item()
    assert ratio / 0.2 < exposure / 0.8  # the exposure's turn comes last, with all the level
    assert found.cross.p_value.item() == pytest.approx(ratio / 0.2)
    assert found.exposure.p_value.item() == pytest.approx(exposure)
    assert found.double_p == np.maximum(found.exposure.p_value, found.benefit.p_value)


def two_attacks(first, second, *, variance=1e-5):
    """Evidence of two attacks on one setting with two groups whose rates are equal."""
    tests = [
        attack_tests([measured(costs, [variance] * 2, [0.4, 0.4])], ((0, 1),), random=True)
        for costs in (first, second)
    ]
    return decide(tests, ((0, 1),), outcome="benefit")


def test_two_attacks_decide_by_holm_over_both():
    """The second attack alone sees that the second group is the more exposed."""
    found = two_attacks([0.02, 0.02], [0.02, 0.04])
    z = 0.02 / np.sqrt(2e-5)
    assert found.exposure.p_value.item() == pytest.approx(2 * stats.norm.sf(z) * 2 / 0.8)
    assert found.exposure.p_alone.item() == pytest.approx(2 * stats.norm.sf(z) * 2)
    assert (found.decided_by.item(), found.more_exposed.item()) == (1, 1)
    assert found.exposures_differ.item()
    assert found.exposure.value.item() == 0.0  # the number people see is the first attack's
    assert not found.contradicted.item()


def test_attacks_that_name_different_groups_are_said_to():
    found = two_attacks([0.04, 0.02], [0.02, 0.05])
    assert (found.decided_by.item(), found.more_exposed.item()) == (1, 1)
    assert found.contradicted.item()
    assert not two_attacks([0.0201, 0.02], [0.02, 0.05]).contradicted.item()


def test_a_group_is_detected_by_either_attack():
    found = two_attacks([0.0, 0.0], [0.0, 0.05])
    assert found.resolved.tolist() == [[False, True]]
    assert found.detected_by[0, 1] == 1


def test_who_is_more_exposed_must_be_detected():
    """A difference beyond chance between two groups of which neither is detected says nothing."""
    assert not two_attacks([-0.05, 0.0], [-0.05, 0.0]).exposures_differ.any()


def test_weighted_holm_step_by_step():
    """By hand: .001/.1 = .01 comes first, then .03 gets .6/.9 of the level, then .04 all of it."""
    p, weights = np.array([0.03, 0.001, 0.04]), np.array([0.6, 0.1, 0.3])
    assert holm(p, weights=weights) == pytest.approx([0.045, 0.01, 0.045])


def test_alarms_are_those_of_the_audit():
    """Families of pairs among pseudo-groups: what each would be told alone."""
    rng = np.random.default_rng(7)
    costs, rates = rng.normal(0.03, 0.02, 40), rng.uniform(0.2, 0.6, 40)
    one = measured(costs[:2], np.full(2, 1e-4), rates[:2])
    panel = one.panel
    n = np.full((10, 40), 5_000.0)
    many = replace(
        panel,
        group_names=tuple(f"g{k}" for k in range(40)),
        train_accuracy=np.full((10, 40), 0.8),
        test_accuracy=np.full((10, 40), 0.8),
        positive_rate=np.tile(rates, (10, 1)),
        n_train=n,
        n_test=n,
        pooled={
            "paired_gap": PooledExposures(
                value=costs,
                standard_error=np.full(40, 0.01),
                null_error=np.full(40, np.nan),
                benefit_covariance=np.zeros(40),
                n_records=np.full(40, 10_000.0),
            )
        },
    )
    pairs = tuple((2 * k, 2 * k + 1) for k in range(20))
    found = alarms([many], pairs, Plan(), cost="paired_gap", outcome="benefit", n_families=20)
    for k, (i, j) in enumerate(pairs):
        alone = evidence(measured(costs[[i, j]], np.full(2, 1e-4), rates[[i, j]], 0.0))
        assert found.shown[0, k] == alone.shown[0, 0]
        who = alone.double[0, 0]
        assert found.double[0, k] == (who if who < 0 else pairs[k][who])
        more_exposed = alone.resolved[0, int(alone.exposure.value[0, 0] > 0)]
        assert found.differ[0, k] == (alone.exposures_differ[0, 0] and more_exposed)
    assert found.shown.any()
    assert (found.double >= 0).any()
    assert found.differ.any()
