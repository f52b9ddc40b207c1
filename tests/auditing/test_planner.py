"""What could be shown: the formulas by hand, the searches against each other, power simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from pcer.auditing.people import people_part
from pcer.auditing.planner import (
    POWER,
    CountsError,
    Design,
    DifferenceBetween,
    ExposureOf,
    MeasuredError,
    advice,
    people_for,
    power_resolved,
    power_shown,
    smallest,
    splits_for,
)
from pcer.release import Panel
from tests.simulate_power import planted, resolved_share, shown_share
from tests.worlds.pilots import DRAWN, answers, drawn_study

FIRST = ExposureOf(group=0)
PAIR = DifferenceBetween(lower=0, higher=1)


def study(
    *,
    people=(10_000, 10_000),
    accuracy=(0.8, 0.8),
    train_share=0.7,
    n_splits=1,
    n_settings=6,
    label_share=None,
) -> Design:
    error = CountsError(
        accuracy=np.array(accuracy, dtype=float),
        train_share=train_share,
        label_share=None if label_share is None else np.array(label_share, dtype=float),
    )
    return Design(
        group_names=("a", "b"),
        people=np.array(people, dtype=float),
        n_splits=n_splits,
        n_cost_tests=2 * n_settings,
        n_pair_tests=n_settings,
        error=error,
    )


def measured(*, standard_error, n_splits=10, people=10_000.0, bound=people_part) -> Design:
    error = MeasuredError(
        exposure=np.full(2, standard_error**2),
        difference=np.full((2, 2), 2 * standard_error**2),
        people=bound,
        largest=np.ones(2),
        n_people=np.full(2, 10_000.0),
        n_splits=10,
    )
    return replace(study(n_splits=n_splits, people=(people, people)), error=error)


def test_variances_of_one_person_in_one_split():
    error = CountsError(accuracy=np.array([0.8]), train_share=0.7)
    none, some = np.zeros(1), np.array([0.1])
    assert error.null(none) == pytest.approx(0.8 * 0.2 / 0.21)
    assert error.actual(none) == pytest.approx(0.8 * 0.2 / 0.7 + 0.8 * 0.2 / 0.3)
    # 90 in 100 right in training, 80 in test: 87 in 100 over both.
    assert error.null(some) == pytest.approx(0.87 * 0.13 / 0.21)
    assert error.actual(some) == pytest.approx(0.9 * 0.1 / 0.7 + 0.8 * 0.2 / 0.3)
    assert error.people(some) == pytest.approx(0.09)
    assert error.largest == pytest.approx(0.2)


def test_labels_that_differ_leave_less_to_chance():
    by_label = CountsError(
        accuracy=np.array([[0.9, 0.6]]), train_share=0.7, label_share=np.array([[0.6, 0.4]])
    )
    mixed = CountsError(accuracy=np.array([0.78]), train_share=0.7)
    none, some = np.zeros(1), np.array([0.11])
    within = 0.6 * 0.09 + 0.4 * 0.24
    assert by_label.null(none) == pytest.approx(within / 0.21)
    assert mixed.null(none) == pytest.approx(0.78 * 0.22 / 0.21)
    assert by_label.largest == pytest.approx(0.22)
    assert mixed.largest == pytest.approx(0.22)
    # Half of the wrong ones are memorised: 95 and 80 in 100 are right in training.
    train = 0.6 * 0.95 * 0.05 + 0.4 * 0.8 * 0.2
    assert by_label.actual(some) == pytest.approx(train / 0.7 + within / 0.3)


def test_the_smallest_exposure_is_the_textbooks_where_counts_are_many():
    one = study(people=(10**7, 10**7), n_splits=4)
    z = -ndtri(0.05 / 12) + ndtri(0.8)
    expected = z * math.sqrt(0.16 / (0.21 * 4e7))
    assert smallest(one, FIRST) == pytest.approx(expected, rel=2e-3)


def test_the_skewness_is_that_of_the_hypergeometric():
    error = CountsError(accuracy=np.array([0.97]), train_share=0.9)
    total, correct, trained = 10_000, 9_700, 9_000
    exact = float(stats.hypergeom.stats(total, correct, trained, moments="s"))
    assert error.skewness()[0] / math.sqrt(total) == pytest.approx(exact, rel=1e-3)


def test_the_bars_of_the_method_are_within_reach():
    assert power_resolved(study(), np.full(2, 0.03))[0] >= 0.80
    assert power_resolved(study(n_splits=50), np.full(2, 0.005))[0] >= 0.85


def test_power_at_the_smallest_is_the_power_asked_for():
    for one in (study(), study(n_splits=20, people=(900, 4000)), study(train_share=0.9)):
        for question in (FIRST, ExposureOf(group=1), PAIR, replace(PAIR, base=0.02)):
            assert question.power(one, smallest(one, question)) == pytest.approx(POWER)


def test_split_error_falls_with_splits_and_people_error_does_not():
    one, many = (study(n_splits=n, people=(2_000, 2_000)) for n in (1, 10_000))
    exposures = smallest(one, FIRST) / smallest(many, FIRST)
    assert exposures == pytest.approx(100, rel=0.1)
    endless = smallest(replace(many, n_splits=math.inf), PAIR)
    assert smallest(many, PAIR) == pytest.approx(endless, rel=0.1)
    assert smallest(one, PAIR) / endless < 20
    assert smallest(replace(many, n_splits=math.inf), FIRST) == pytest.approx(0, abs=1e-9)


def test_the_limit_of_a_difference_is_that_of_counting_people():
    # Nobody in a, a share d in b, all of it seen: d is told from 0 by its own binomial error,
    # and the test grants a the pooled share d/2.
    endless = study(n_splits=math.inf, n_settings=1)
    d = smallest(endless, PAIR)
    z = -ndtri(0.04 / 2)  # exposures get .04 of the level
    threshold = d
    for _ in range(100):
        variances = people_part(np.array([threshold / 2, threshold]), np.full(2, 10_000.0))
        threshold = z * math.sqrt(variances.sum())
    power = ndtr((d - threshold) / math.sqrt(d * (1 - d) / 10_000))
    assert power == pytest.approx(0.8, abs=1e-4)


def test_the_fewest_splits_are_enough_and_one_less_is_not():
    one = study(people=(3_000, 5_000))
    for question, target in ((FIRST, 0.01), (PAIR, 0.03)):
        n = splits_for(one, question, target)
        assert question.power(replace(one, n_splits=n), target) >= POWER
        assert question.power(replace(one, n_splits=n - 1), target) < POWER
    assert splits_for(one, FIRST, 0.15) == 1


def test_the_fewest_people_are_enough_and_fewer_are_not():
    one = study(people=(3_000, 6_000), n_splits=20)
    for question, target in ((FIRST, 0.002), (PAIR, 0.004)):
        people = people_for(one, question, target)
        assert people[1] / people[0] == pytest.approx(2, rel=1e-3)
        assert question.power(replace(one, people=people), target) >= POWER
        assert question.power(replace(one, people=people * 0.99), target) < POWER


def test_advice_counts_splits():
    one = study(n_splits=20)
    target = 0.004
    more = splits_for(one, FIRST, target) - 20
    assert advice(one, FIRST, target=target) == (
        f"{more} more splits would show an exposure of 0.4 in 100 in a (now 0.68 in 100)."
    )
    assert advice(one, FIRST, target=0.05) == (
        "An exposure of 5 in 100 in a would show already, 4 times in 5."
    )
    # Half the exposure takes four times the splits, and one to spare for memorising itself.
    assert advice(study(), FIRST) == (
        "4 more splits would show an exposure of 1.5 in 100 in a (now 3 in 100)."
    )


def test_advice_says_where_only_people_help():
    one = study(people=(20_000, 1_500), n_splits=50)
    sentence = advice(one, PAIR, target=0.005)
    assert sentence.startswith(
        "No number of splits would show a difference of 0.5 in 100 between a and b (their limit "
        "is 0.79 in 100); about "
    )
    assert sentence.endswith(" people in b would (now 1,500).")
    named = float(sentence.split("about ")[1].split(" people")[0].replace(",", ""))
    needed = people_for(one, PAIR, 0.005)[1]
    assert needed <= named <= 1.1 * needed
    assert splits_for(one, PAIR, 0.005) is None


def test_a_model_that_is_never_wrong_can_show_nothing_in_its_counts():
    perfect = study(accuracy=(1.0, 1.0))
    assert math.isnan(smallest(perfect, FIRST))
    assert advice(perfect, FIRST) == (
        "Not even an exposure of 0 in 100 in a, the largest there can be, would show; use more "
        "people, or a sharper cost (paired confidence or LiRA)."
    )
    few = study(people=(30, 30), accuracy=(0.95, 0.95))
    assert math.isnan(smallest(few, PAIR))
    assert "the largest there can be, would show; use more people" in advice(few, PAIR)


def test_an_error_of_an_earlier_release_is_scaled_by_people():
    now, later = (measured(standard_error=0.002, people=n) for n in (10_000.0, 40_000.0))
    for error, n in ((0.002, now), (0.001, later)):
        # Whatever the amount: the audit's test over the error that the release has.
        for cost in (0.001, 0.005, 0.2):
            z = cost / error
            found = power_resolved(n, np.full(2, cost))
            assert found == pytest.approx(ndtr(z + ndtri(0.05 / 12)))
            difference = power_shown(n, (0, 1), (0.1, 0.1 + cost))
            assert difference == pytest.approx(ndtr(z / math.sqrt(2) + ndtri(0.04 / 12)))


def test_the_peoples_part_of_an_earlier_error_does_not_fall_with_splits():
    # A share of .02 memorised, and noise of .3 per person and split, seen with 10 splits.
    noise, cost, at = 0.3, 0.02, np.full(2, 0.02)
    people = cost * (1 - cost)
    then = math.sqrt((people + noise / 10) / 10_000)
    for n_splits, variance in (
        (10, people + noise / 10),
        (40, people + noise / 40),
        (math.inf, people),
        # With fewer splits all of it might have been noise.
        (5, 2 * (people + noise / 10)),
    ):
        one = measured(standard_error=then, n_splits=n_splits, bound=lambda c, n: c * (1 - c) / n)
        found = one.error.of_exposure(at, one)
        assert found == pytest.approx(variance / 10_000)
        both = one.error.of_difference((0, 1), (cost, cost), one)
        assert both == pytest.approx(2 * variance / 10_000)


def test_attacks_that_decide_together_are_one_family():
    for one in (study(), measured(standard_error=0.002)):
        two = replace(one, n_attacks=2)
        doubled = replace(one, n_cost_tests=24, n_pair_tests=12)
        for question in (FIRST, PAIR):
            assert smallest(two, question) == smallest(doubled, question) > smallest(one, question)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(ValueError, match="n_splits must be at least 1"):
        study(n_splits=0)
    with pytest.raises(ValueError, match=r"people\['b'\] must be a finite number above 0"):
        study(people=(100, 0))
    with pytest.raises(ValueError, match="train_share must lie strictly between 0 and 1"):
        study(train_share=1.0)
    with pytest.raises(ValueError, match="label_share"):
        study(accuracy=((0.9, 0.8), (0.9, 0.8)))


WORLDS = [
    study(people=(300, 4_000), accuracy=(0.9, 0.7), n_splits=5, n_settings=1, train_share=0.8),
    study(people=(2_000, 2_000), accuracy=(0.7, 0.7), n_splits=2, train_share=0.5),
    study(people=(5_000, 1_000), n_splits=20, n_settings=2),
    study(
        people=(8_000, 8_000),
        accuracy=((0.9, 0.6), (0.9, 0.6)),
        label_share=((0.6, 0.4), (0.6, 0.4)),
        n_settings=3,
    ),
]
N_STUDIES = 1_500
N_PILOTS = 80


@cache
def pilots() -> list[Panel]:
    rng = np.random.default_rng(5)
    return [drawn_study(DRAWN[0], rng) for _ in range(N_PILOTS)]


def agrees(predicted: float, found: float) -> bool:
    """Within 5 points, but for the luck of so many simulated studies."""
    luck = 2.6 * math.sqrt(predicted * (1 - predicted) / N_STUDIES)
    return abs(predicted - found) <= 0.05 + luck


@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_exposures_are_resolved_as_often_as_predicted(world):
    one = WORLDS[world]
    cost = planted(one, 0, 0.9 * smallest(one, FIRST))
    rng = np.random.default_rng([1, world])
    found = resolved_share(one, 0, cost, n=N_STUDIES, rng=rng)
    assert agrees(FIRST.power(one, cost), found)


@pytest.mark.parametrize("world", range(len(WORLDS)))
@pytest.mark.parametrize("base", [0.0, 0.01])
def test_differences_are_shown_as_often_as_predicted(world, base):
    one = WORLDS[world]
    costs = (base, base + 0.9 * smallest(one, replace(PAIR, base=base)))
    rng = np.random.default_rng([2, world])
    found = shown_share(one, (0, 1), costs, n=N_STUDIES, rng=rng)
    assert agrees(power_shown(one, (0, 1), costs), found)


@pytest.mark.parametrize("attack", ["paired_confidence", "lira_advantage"])
@pytest.mark.parametrize("n_attacks", [1, 2])
def test_attacks_over_all_models_find_as_often_as_pilots_predict(attack, n_attacks):
    for found in answers(pilots(), attack, n_attacks=n_attacks):
        luck = 2.6 * math.sqrt(found.predicted * (1 - found.predicted) / N_PILOTS)
        assert abs(found.predicted - found.found) <= 0.04 + luck
