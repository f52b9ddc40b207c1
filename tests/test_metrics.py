"""Every quantity of the design's table: by hand, as laws, and against fairlearn."""

import fairlearn
import fairlearn.metrics as oracle
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pcer import metrics
from pcer.errors import InputError
from pcer.metrics import Counts
from tests.strategies import arrays, exposures, floors, rates


def table(*cells: tuple[int, int, int, int]) -> Counts:
    return Counts(
        *(np.array(column, dtype=float) for column in zip(*cells, strict=True))
    )


def test_rates_are_those_by_hand():
    counts = table((3, 1, 4, 2), (1, 1, 1, 1))
    rates = {
        "positive_rate": 4 / 10,
        "true_positive_rate": 3 / 5,
        "false_positive_rate": 1 / 5,
    }
    for name, rate in {
        **rates,
        "false_negative_rate": 2 / 5,
        "precision": 3 / 4,
        "accuracy": 7 / 10,
    }.items():
        assert getattr(metrics, name)(counts).tolist() == [rate, 1 / 2]


def test_a_rate_nobody_qualifies_for_is_not_a_number():
    counts = table((0, 0, 5, 0))
    assert np.isnan(metrics.true_positive_rate(counts)).all()
    assert np.isnan(metrics.precision(counts)).all()
    assert np.isnan(metrics.normalised_disparity(np.zeros(2))).all()
    assert np.isnan(
        metrics.equalized_odds_gap(np.array([np.nan, 0.5]), np.array([0.1, 0.1]))
    )


def test_disparity_of_more_groups_is_against_the_reference():
    ratio = np.array([[10.0, 30.0, 60.0]])
    assert metrics.pcer_disparity(ratio, reference=1).tolist() == [[20.0, -30.0]]
    assert metrics.pcer_spread(ratio).tolist() == [50.0]
    normalised = metrics.normalised_disparity(ratio, reference=1)
    assert normalised == pytest.approx(np.array([[20 / 20, -30 / 45]]))
    train = np.array([0.9, 0.7])
    test = np.array([0.75, 0.75])
    assert metrics.accuracy_difference(train, test) == pytest.approx([0.15, -0.05])
    assert metrics.overfitting_gap(train, test) == pytest.approx([0.15, 0.0])


@given(arrays(rates, n_groups=2), arrays(exposures, n_groups=2), floors)
def test_floor_degeneracy_is_exact(rate, exposure, floor):
    """Proposition 2: all costs below the floor leave only the rate difference."""
    exposure = exposure * floor
    ratio = metrics.pcer(rate, exposure, floor=floor)
    assert metrics.floor_dominated(exposure, floor=floor)
    assert metrics.pcer_disparity(ratio)[0] == rate[0] / floor - rate[1] / floor
    assert np.sign(metrics.pcer_disparity(ratio)[0]) in (
        0.0,
        np.sign(rate[0] - rate[1]),
    )


@given(st.floats(0.01, 1), arrays(st.floats(0.001, 0.5), n_groups=2))
def test_incompatibility_with_demographic_parity(rate, exposure):
    """Proposition 3: with equal rates, PCER is equal if and only if the costs are."""
    assume(exposure[0] == exposure[1] or abs(exposure[0] / exposure[1] - 1) > 1e-12)
    ratio = metrics.pcer(np.full(2, rate), exposure, floor=0.001)
    assert (metrics.pcer_disparity(ratio)[0] == 0) == (exposure[0] == exposure[1])
    assert metrics.demographic_parity_gap(np.full(2, rate)) == 0


@given(arrays(rates, n_groups=2), arrays(st.floats(0.001, 0.5), n_groups=2))
def test_the_disparity_has_the_sign_of_the_cross_product(rate, exposure):
    """Proposition S2: the sign is that of the cross product, whatever the rates say."""
    cross = rate[0] * exposure[1] - rate[1] * exposure[0]
    assume(abs(cross) > 1e-12)
    disparity = metrics.pcer_disparity(metrics.pcer(rate, exposure, floor=0.0001))[0]
    assert np.sign(disparity) == np.sign(cross)
    if rate[0] > rate[1] and exposure[0] / exposure[1] > rate[0] / rate[1] * (1 + 1e-9):
        assert disparity < 0


@given(rates, st.floats(0.01, 0.5), st.floats(0.1, 10))
def test_the_ratio_is_linear_in_benefit_and_inverse_in_cost(rate, exposure, factor):
    """Proposition S1: linear in benefit, inverse in cost, F(1, 1) = 1."""
    floor = 1e-6
    value = metrics.pcer(np.array([rate]), np.array([exposure]), floor=floor)
    scaled = metrics.pcer(np.array([factor * rate]), np.array([exposure]), floor=floor)
    dearer = metrics.pcer(np.array([rate]), np.array([factor * exposure]), floor=floor)
    assert scaled == pytest.approx(factor * value, rel=1e-12)
    assert dearer == pytest.approx(value / factor, rel=1e-12)
    assert metrics.pcer(np.ones(1), np.ones(1), floor=floor) == 1


@pytest.mark.parametrize("n_groups", [2, 5])
def test_gaps_are_those_of_fairlearn(n_groups):
    assert fairlearn.__version__ == "0.15.0"
    rng = np.random.default_rng(n_groups)
    each = np.arange(4 * n_groups)  # every cell has someone
    truth, guess = (np.append(each // k % 2, rng.integers(0, 2, 500)) for k in (2, 1))
    named = {
        "sensitive_features": np.append(
            each // 4, rng.integers(0, n_groups, 500)
        ).astype(str)
    }
    names, counts = metrics.group_counts(truth, guess, **named)
    frame = oracle.MetricFrame(
        metrics=oracle.selection_rate, y_true=truth, y_pred=guess, **named
    )
    assert list(names) == list(frame.by_group.index)
    assert metrics.positive_rate(counts) == pytest.approx(
        frame.by_group.to_numpy(), abs=1e-12
    )
    for name in ("demographic_parity_difference", "equalized_odds_difference"):
        ours, theirs = (
            getattr(room, name)(truth, guess, **named) for room in (metrics, oracle)
        )
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_bad_records_are_refused():
    with pytest.raises(InputError) as caught:
        metrics.pcer(np.ones(2), np.ones(2), floor=0.0)
    assert caught.value.field == "floor"
    for y_pred, groups, field in (
        ([0, 2], ["a", "b"], "y_pred"),
        ([0, 1], ["a"], "y_true"),
    ):
        with pytest.raises(InputError) as caught:
            metrics.group_counts([0, 1], y_pred, sensitive_features=groups)
        assert caught.value.field == field
