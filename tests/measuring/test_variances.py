"""Errors for people like these: slow twins, and coverage in a known population."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcer.measuring import variances
from pcer.measuring.exact import Strata, strata_of_counts
from pcer.measuring.exposure import PEOPLE_PARTS
from pcer.measuring.plan import BENEFIT_KINDS
from pcer.measuring.variances import cross_variance, split_luck
from pcer.metrics import Counts
from pcer.release import attack_kinds
from pcer.release.records import Confusion
from tests import reference
from tests.strategies import confusions
from tests.worlds import people as worlds
from tests.worlds.people import certain, certain_positives, soft

rates = st.floats(0, 1)
sizes = st.floats(5, 1e6)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(14)


def array(value: float) -> np.ndarray:
    return np.array([value])


# Against slow twins


@given(st.floats(-0.5, 1), sizes)
def test_people_parts_are_the_designs_with_four_people_more(exposure, n):
    expected = reference.rate_variance(exposure, n)
    assert variances.rate_variance(array(exposure), array(n)) == pytest.approx(
        [expected], rel=1e-12
    )
    for scale, value, part in (
        (attack_kinds.ACCURACY, exposure, expected),
        (attack_kinds.AUC, exposure / 2, expected),
        (attack_kinds.BALANCED, exposure / 2, expected / 4),
    ):
        assert PEOPLE_PARTS[scale](array(value), array(n)) == pytest.approx(
            [part], rel=1e-9
        )


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=6),
    rates,
    rates,
    sizes,
    st.floats(0.05, 1),
)
def test_variances_over_splits_are_their_slow_twins(xs, rate, people, n, share):
    parts = {"one_split": array(rate), "people": array(people)}
    expected = reference.exposure_variance(xs, rate, people)
    ours = variances.exposure_variance(np.array(xs)[:, None], **parts)
    assert ours == pytest.approx([expected], rel=1e-9, abs=1e-12)
    seen = {"n": array(n), "n_test": array(share * n), "n_splits": len(xs)}
    effective = 1 / (1 / n + (1 / (share * n) - 1 / n) / len(xs))
    expected = reference.rate_variance(rate, effective)
    assert variances.benefit_variance(array(rate), **seen) == pytest.approx(
        [expected], rel=1e-9
    )


spreads = dict.fromkeys(("benefit", "benefit_variance", "exposure_variance"), rates)
side = st.fixed_dictionaries(
    {**spreads, "exposure": st.floats(-0.3, 1), "covariance": st.floats(-0.5, 0.5)}
)


@given(side, side)
def test_cross_variance_is_gradient_through_covariance(first, second):
    """An unknown covariance counts as the worst that is possible."""

    def ours(*sides: dict[str, float]) -> np.ndarray:
        arrays = {}
        for name in first:
            arrays[name] = np.array([[side[name]] for side in sides])
        return cross_variance(**arrays)

    expected = reference.cross_variance(first, second)
    assert ours(first, second) == pytest.approx([expected], rel=1e-9, abs=1e-9)
    most = np.sqrt(first["benefit_variance"] * first["exposure_variance"])
    worst = max(
        reference.cross_variance({**first, "covariance": sign * most}, second)
        for sign in (-1, 1)
    )
    unknown = {**first, "covariance": np.nan}
    assert ours(unknown, second) == pytest.approx([worst], rel=1e-9, abs=1e-9)


def test_spreads_pooled_exposures_and_limits_by_hand():
    closed = array(1.0)
    people = array(0.5)
    for xs, expected in (([7.0], 1.0), ([0.0, 0.0], 1.0), ([0.0, 4.0], 4.5)):
        spread = variances.at_least_spread(closed, np.array(xs)[:, None], people)
        assert spread.tolist() == [expected]
    pooled = variances.weighted_exposure(
        np.array([[0.1], [-0.05]]), np.array([[100.0], [300.0]])
    )
    assert pooled == pytest.approx([-0.0125])
    for own, together, expected in (
        (0.1, pooled, 0.1),
        (-0.05, pooled, 0.0),
        (0.1, 0.3, 0.3),
    ):
        assert variances.exposure_in_tests(array(own), np.ravel(together)).tolist() == [
            expected
        ]
    assert variances.bonferroni_z() == pytest.approx(stats.norm.ppf(0.95))
    ten = variances.bonferroni_z(n_limits=10, confidence_level=0.9)
    assert ten == pytest.approx(stats.norm.ppf(0.99))


# In a known population


def test_covariances_of_one_split_by_hand():
    """100 people, 30 of 40 qualified and 10 others accepted, 80 right."""
    test = Counts(*map(array, (30.0, 10.0, 50.0, 10.0)))
    by_hand = {
        "positive_rate": (0.4, -(0.3 - 0.4 * 0.8)),
        "true_positive_rate": (0.75, -0.75 * 0.25),
        "precision": (0.75, -0.75 * 0.25),
        # 10 of 60 without the label are accepted, which lowers the accuracy.
        "false_positive_rate": (1 / 6, 1 / 6 * 5 / 6),
        "false_negative_rate": (0.25, 0.25 * 0.75),
    }
    for name, (rate, expected) in by_hand.items():
        found = variances.split_covariance(test, array(rate), BENEFIT_KINDS[name])
        assert found == pytest.approx([expected / 100])


def test_the_covariance_of_a_rate_with_right_and_wrong_cells_is_that_of_splits(rng):
    """The right among those predicted negative or wrongly positive, of 100 people."""
    cells = rng.multinomial(100, (0.3, 0.1, 0.5, 0.1), 200_000).T
    right_of_some = cells[2] / (cells[1] + cells[2] + cells[3])
    minus_accuracy = -(cells[0] + cells[2]) / 100
    kind = BENEFIT_KINDS["precision"]._replace(
        counted=("tn", "fn"), among=("fp", "tn", "fn", "tp")
    )
    predicted_negative = (cells[2] + cells[3]) / 100
    test = Counts(*map(array, (30.0, 10.0, 50.0, 10.0)))
    found = variances.split_covariance(test, array(0.6), kind)
    simulated = np.cov(predicted_negative, minus_accuracy)[0, 1]
    assert simulated == pytest.approx(found[0], rel=0.05)
    some = kind._replace(counted=("tn",), among=("fp", "tn", "fn"))
    found = variances.split_covariance(test, array(5 / 7), some)
    simulated = np.cov(right_of_some, minus_accuracy)[0, 1]
    assert simulated == pytest.approx(found[0], rel=0.05)


def test_the_covariance_of_an_error_rate_is_that_of_simulated_splits(rng):
    """60 of 100 without the label, each wrong in 1 of 6; 40 with it, in 1 of 4."""
    false_positives = rng.binomial(60, 1 / 6, 200_000)
    false_negatives = rng.binomial(40, 1 / 4, 200_000)
    rate = false_positives / 60
    minus_accuracy = (false_positives + false_negatives) / 100
    test = Counts(*map(array, (30.0, 10.0, 50.0, 10.0)))
    found = variances.split_covariance(
        test, array(1 / 6), BENEFIT_KINDS["false_positive_rate"]
    )
    assert np.cov(rate, minus_accuracy)[0, 1] == pytest.approx(found[0], rel=0.05)


def test_people_alone_cause_no_lower_covariance(rng):
    """Only those are memorised who lack the benefit: the bound is reached."""
    population = certain_positives(0.2)
    people = worlds.draw_people(population, [500], 40_000, rng)[:, 0]
    out = np.array(population.right_out)
    into = np.array(population.right_in)
    benefit = people @ np.where(population.label, out, 1 - out) / 500
    exposure = people @ (into - out) / 500
    rate = array(population.benefit)
    planted = array(population.exposure)
    bound = variances.people_covariance(rate, planted, array(500.0))
    assert np.cov(benefit, exposure)[0, 1] == pytest.approx(bound[0], rel=0.05)


CORNERS = {
    "nothing memorised": (certain(0.0), 1_000, 5),
    "everything memorised": (certain(0.26, accuracy=0.74), 300, 20),
    "few people, few memorised": (certain(0.03, accuracy=0.95), 300, 20),
    "nobody wrong once trained on": (certain(0.01, accuracy=0.99), 300, 1),
    "the same in a tiny group": (certain(0.1, accuracy=0.9), 20, 20),
    "large and soft": (soft(0.2), 10_000, 2),
    "only positives": (certain_positives(0.2), 1_000, 1),
}
"""A population, and how many people and splits of it are seen."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "size", "n_splits"), CORNERS.values(), ids=CORNERS
)
def test_intervals_of_exposures_cover(population, size, n_splits, rng):
    """93 % of 95 % intervals hold the cost: 4,000 releases, 4 deviations."""
    people = worlds.draw_people(population, [size], 4_000, rng)
    tables = worlds.draw_tables(population, people, n_splits=n_splits, rng=rng)
    found = worlds.measured(tables).exposed
    held = np.abs(found.value - population.exposure) <= 1.96 * np.sqrt(found.variance)
    assert held.mean() >= 0.93 - 4 * np.sqrt(0.93 * 0.07 / 4_000)


# What split luck alone gives


def strata(train: dict[str, int], test: dict[str, int]) -> Strata:
    """Confusion tables of one group."""

    def counts(cells: dict[str, int]) -> Counts:
        return Counts(**{name: array(float(n)) for name, n in cells.items()})

    return strata_of_counts(counts(train), counts(test))


@given(confusions(), confusions())
def test_moments_are_the_hypergeometric_ones(train, test):
    expected = reference.split_luck(Confusion(**train), Confusion(**test))
    assert np.ravel(split_luck(strata(train, test))) == pytest.approx(
        expected, abs=1e-12
    )
