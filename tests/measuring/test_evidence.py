"""Estimates, tests and Holm against obvious twins and scipy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from pcer.measuring.evidence import alarms, decide
from pcer.measuring.exposure import Exposed, measure_panel
from pcer.measuring.group_differences import attack_tests, compare_pairs
from pcer.measuring.plan import Plan
from pcer.measuring.variances import bonferroni_z, by_split
from pcer.metrics import Counts
from pcer.release.panel import PooledExposures
from pcer.statistics import holm, two_sided_p, upper_p
from tests import reference
from tests.worlds.people import certain, draw_people, draw_tables
from tests.worlds.people import measured as measured_tables
from tests.worlds.releases import panel_of


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_definition(p_values):
    ours = holm(np.array(p_values))
    assert ours == pytest.approx(reference.holm(p_values), abs=1e-12)


def test_holms_weighted_steps_are_those_by_hand():
    """.001/.1 = .01 comes first, then .03 gets .6/.9 of the level, .04 all of it."""
    p = np.array([0.03, 0.001, 0.04])
    weights = np.array([0.6, 0.1, 0.3])
    assert holm(p, weights=weights) == pytest.approx([0.045, 0.01, 0.045])
    # An error of 0 means that nothing could vary: every record right, or none.
    assert upper_p(np.array([0.0, 0.1]), np.zeros(2)).tolist() == [1.0, 1.0]
    assert two_sided_p(np.array([0.1]), np.zeros(1)).tolist() == [1.0]
    values = np.array([[1.0], [3.0], [10.0]])
    assert by_split(values, np.array([0, 0, 1])).tolist() == [[2.0], [10.0]]


def measured(
    exposure, variance, benefit, covariance=np.nan, null_error=np.nan, **shares
):
    """A pooled cost of groups of 10,000 records, and ten splits' benefit."""
    alike = {
        "null_error": null_error,
        "benefit_covariance": covariance,
        **shares,
    }
    pooled = PooledExposures(
        value=np.array(exposure),
        standard_error=np.sqrt(variance),
        n_records=np.full(len(exposure), 10_000.0),
        **{name: np.full(len(exposure), value) for name, value in alike.items()},
    )
    counts = Counts(*np.full((4, 10, len(exposure)), 1_250.0))
    rates = {
        "positive_rate": np.tile(benefit, (10, 1)),
        "pooled": {"paired_gap": pooled},
    }
    panel = replace(
        panel_of(counts, counts, epsilon=np.inf), train=None, test=None, **rates
    )
    return measure_panel(panel, Plan(), "paired_gap")


@pytest.mark.parametrize(
    ("separation", "expected"), [(0.0, 5e-4), (0.5, 5.5e-4), (1.0, 6e-4)]
)
def test_each_question_about_an_attack_over_all_models_has_its_own_error(
    separation, expected
):
    """Is anything remembered: records alone. One group's interval: the widest.

    Groups: variances .0004 and .0001, and of records alone .0001 each, as far as it is
    not shared; the first is wide enough anyhow.
    """
    exposures = [0.02, 0.05]
    rates = [0.5, 0.2]
    one = measured(
        exposures, [0.0004, 0.0001], rates, 0.0, null_error=0.01, separation=separation
    )
    assert one.exposed is not None
    assert one.memorised_p() == pytest.approx(stats.norm.sf([2.0, 5.0]))
    assert compare_pairs(one, ((0, 1),)).exposure.error ** 2 == pytest.approx(expected)
    assert one.exposed.interval_variance == pytest.approx([0.0004, 2 * 0.01**2])
    by_hand = [0.02 + 1.644854 * 0.02, 0.05 + 1.644854 * 0.01 * np.sqrt(2)]
    assert one.exposed.limit(z=1.644854) == pytest.approx(by_hand)


def test_records_of_reliable_differences_count_as_pairs():
    """1 + 3 r^3 where that is above 2; without the field the factor is 2."""
    null = {"null_error": 0.01, "separation": 0.5}
    steady = measured([0.02, 0.05], [0.0001] * 2, [0.5, 0.2], **null, reliability=0.9)
    older = measured([0.02, 0.05], [0.0001] * 2, [0.5, 0.2], **null)
    factor = 1 + 3 * 0.9**3
    for one, by_hand in ((steady, factor), (older, 2.0)):
        alone = [by_hand * 0.01**2] * 2
        assert one.exposed.interval_variance == pytest.approx(alone)
        of_both = 2 * (1 + 0.5 + (by_hand - 2) * 0.25) * 0.01**2
        error = compare_pairs(one, ((0, 1),)).exposure.error
        assert error**2 == pytest.approx(of_both)


@pytest.mark.parametrize("covariance", [0.0, -1e-6])
def test_cross_product_by_hand(covariance):
    one = measured([0.01, 0.03], [0.0004, 0.0009], [0.5, 0.2], covariance)
    found = compare_pairs(one, ((0, 1),)).cross
    received = [
        reference.rate_variance(r, 1 / (1 / 1e4 + 1e-4 / 10)) for r in (0.5, 0.2)
    ]
    names = ("benefit", "exposure", "benefit_variance", "exposure_variance")
    rows = zip((0.5, 0.2), (0.01, 0.03), received, (0.0004, 0.0009), strict=True)
    sides = [
        dict(zip(names, row, strict=True)) | {"covariance": covariance} for row in rows
    ]
    assert found.value == pytest.approx(0.5 * 0.03 - 0.2 * 0.01)
    assert found.error**2 == pytest.approx(reference.cross_variance(*sides))


def test_unequal_rates_alone_make_no_cross_product():
    one = measured([0.0, 0.0], [1e-4, 1e-4], [0.9, 0.1], 0.0)
    found = compare_pairs(one, ((0, 1),))
    assert found.cross.value == 0
    assert found.benefit.p_value < 1e-12


def evidence(*attacks, margin=None):
    """Of attacks on one setting with two groups."""
    tests = [attack_tests([one], ((0, 1),), random=True) for one in attacks]
    return decide(tests, ((0, 1),), outcome="benefit", margin=margin)


@given(st.floats(-0.2, 0.2), st.floats(0.01, 0.2), st.floats(0.01, 0.2))
def test_equivalence_is_the_larger_of_two_one_sided_tests(difference, error, margin):
    one = measured([0.1, 0.1 + difference], [error**2 / 2] * 2, [0.5, 0.5])
    below = stats.norm.sf((difference + margin) / error)
    above = stats.norm.cdf((difference - margin) / error)
    assert evidence(one, margin=margin).equal_p.item() == pytest.approx(
        max(below, above), rel=1e-6
    )
    assert np.isnan(evidence(one).equal_p.item())


def test_both_disadvantages_must_be_the_same_groups():
    """The more exposed group is the better off: no double disadvantage."""
    for rates, double, least, most in (
        ([0.5, 0.2], 1, 0, 1e-6),
        ([0.2, 0.5], -1, 1, 1),
    ):
        found = evidence(measured([0.01, 0.09], [1e-6, 1e-6], rates))
        assert found.double_disadvantage.item() == double
        assert least <= found.double_p.item() <= most


def test_exposures_get_four_fifths_of_the_level_and_ratios_one_fifth():
    found = evidence(measured([0.01, 0.02], [1e-5, 1e-5], [0.5, 0.2]))
    exposure = found.exposure.p_alone.item()
    ratio = found.cross.p_alone.item()
    assert (
        ratio / 0.2 < exposure / 0.8
    )  # the exposure's turn comes last, with all the level
    assert found.cross.p_value.item() == pytest.approx(ratio / 0.2)
    assert found.exposure.p_value.item() == pytest.approx(exposure)
    assert found.double_p == np.maximum(found.exposure.p_value, found.benefit.p_value)


def two_attacks(first, second, *, variance=1e-5):
    """Evidence of two attacks where rates are equal."""
    return evidence(
        *(
            measured(exposures, [variance] * 2, [0.4, 0.4])
            for exposures in (first, second)
        )
    )


def test_two_attacks_decide_by_holm_over_both():
    """The second attack alone sees that the second group is the more exposed."""
    found = two_attacks([0.02, 0.02], [0.02, 0.04])
    z = 0.02 / np.sqrt(2e-5)
    assert found.exposure.p_value.item() == pytest.approx(
        2 * stats.norm.sf(z) * 2 / 0.8
    )
    assert found.exposure.p_alone.item() == pytest.approx(2 * stats.norm.sf(z) * 2)
    assert (found.decided_by.item(), found.more_exposed.item()) == (1, 1)
    assert found.exposures_differ.item()
    assert (
        found.exposure.value.item() == 0.0
    )  # the number people see is the first attack's
    assert not found.contradicted.item()


def test_attacks_that_contradict_each_other_and_what_must_be_detected():
    found = two_attacks([0.04, 0.02], [0.02, 0.05])
    assert (found.decided_by.item(), found.more_exposed.item()) == (1, 1)
    assert found.contradicted.item()
    assert not two_attacks([0.0201, 0.02], [0.02, 0.05]).contradicted.item()
    either = two_attacks([0.0, 0.0], [0.0, 0.05])
    assert either.detected.tolist() == [[False, True]]
    assert either.detected_by[0, 1] == 1
    # A difference beyond chance between two groups of which neither is detected says
    # nothing.
    assert not two_attacks([-0.05, 0.0], [-0.05, 0.0]).exposures_differ.any()


def test_alarms_are_those_of_the_audit():
    """Families of pairs among pseudo-groups: what each would be told alone."""
    rng = np.random.default_rng(7)
    exposures = rng.normal(0.03, 0.02, 40)
    rates = rng.uniform(0.2, 0.6, 40)
    many = measured(exposures, np.full(40, 1e-4), rates, 0.0).panel
    pairs = tuple((2 * k, 2 * k + 1) for k in range(20))
    found = alarms(
        [many], pairs, Plan(), attack="paired_gap", outcome="benefit", n_families=20
    )
    for k, pair in enumerate(pairs):
        own = evidence(
            measured(exposures[[*pair]], np.full(2, 1e-4), rates[[*pair]], 0.0)
        )
        for name in ("exposures_differ", "benefits_differ", "ratios_differ"):
            assert getattr(found, name)[0, k] == getattr(own, name).item()
        assert found.double_disadvantage[0, k] == (
            -1
            if own.double_disadvantage.item() < 0
            else pair[own.double_disadvantage.item()]
        )
        more_exposed = own.detected[0, int(own.exposure.value.item() > 0)]
        assert more_exposed or not own.exposures_differ.item()
    assert all(part.any() for part in (*found[:3], found.double_disadvantage >= 0))


# The most that a cost can be: a limit with the error that the limit itself would have


def beyond(exposure: float, exposed: Exposed, g: int, z: float) -> float:
    """How far a cost lies above the value and z of its own errors: one number."""
    value, n, n_test = (
        float(part[g]) for part in (exposed.value, exposed.n, exposed.n_test)
    )
    xs = exposed.per_split[:, g]
    people = reference.rate_variance(exposure, n)
    wrong = [reference.rate_variance(c, n_test) for c in (exposure, value)]
    one = exposed.one_split[g] + max(0.0, wrong[0] - wrong[1])
    variance = reference.exposure_variance(xs.tolist(), one, people)
    return exposure - max(value, 0.0) - z * np.sqrt(variance)


@pytest.mark.parametrize("n_splits", [1, 5])
@pytest.mark.parametrize("n_limits", [1, 12])
def test_a_limit_is_where_its_own_error_puts_it(n_splits, n_limits):
    rng = np.random.default_rng(3)
    z = bonferroni_z(n_limits=n_limits)
    population = certain(0.1)
    drawn = draw_people(population, [400], 5, rng)
    exposed = measured_tables(
        draw_tables(population, drawn, n_splits=n_splits, rng=rng)
    ).exposed
    expected = [brentq(beyond, 0.0, 1.0, args=(exposed, g, z)) for g in range(5)]
    assert exposed.limit(z=z) == pytest.approx(expected, rel=1e-3)
