"""Which setting is advised: a loop in plain Python says the same."""

import math
import statistics

import pytest
from scipy import stats

import pcer
from pcer.measuring.next_setting import next_setting
from pcer.measuring.tested import run_tests
from tests.pages import QUICK, ROOT

STUDY = ROOT / "studies" / "paper"
NAMES = ("compas.race", "adult.sex", "bios.gender")


@pytest.fixture(scope="module", params=NAMES)
def tested(request):
    release = pcer.read_release(STUDY / f"{request.param}.release.json")
    return run_tests(release, QUICK)


def accuracies(release, epsilon):
    """Of 100, by seed, from the counts of the file; every seed is a split."""
    by_seed = {}
    for run in release.runs:
        if run.epsilon == epsilon:
            tables = [group.test for group in run.groups.values()]
            right = sum(table.tp + table.tn for table in tables)
            n = sum(table.tp + table.tn + table.fp + table.fn for table in tables)
            by_seed[run.seed] = 100 * right / n
    return by_seed


def mean_and_error(values):
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def highest(measured):
    """The value and the variance of the most exposed group with enough records."""
    best = (-math.inf, math.nan)
    for is_enough, value, variance in zip(
        measured.has_enough_records,
        measured.exposed.value,
        measured.exposed.interval_variance,
        strict=True,
    ):
        if is_enough and value > best[0]:
            best = (float(value), float(variance))
    return best


def slow_next(tested, main, majority, margin):
    """The place that is advised, and the interval of what accuracy loses."""
    by_setting = tested.measured[tested.attack]
    epsilons = [
        None if math.isinf(one.panel.epsilon) else one.panel.epsilon
        for one in by_setting
    ]
    right = [accuracies(tested.release, epsilon) for epsilon in epsilons]
    value, variance = highest(by_setting[main])
    z = stats.norm.isf(0.05 / (len(by_setting) - 1))
    good = []
    for place, measured in enumerate(by_setting):
        other, other_variance = highest(measured)
        is_lower = value - other > z * math.sqrt(variance + other_variance)
        mean, error = mean_and_error([*right[place].values()])
        least = mean - stats.t.isf(0.025, len(right[place]) - 1) * error
        if place != main and is_lower and least >= majority + margin:
            good.append((mean, place))
    if not good:
        return None
    _, best = max(good)
    alike = []
    for _, place in good:
        lost = [right[best][seed] - right[place][seed] for seed in right[best]]
        mean, error = mean_and_error(lost)
        if place == best or mean < 1.64 * error:
            alike.append((by_setting[place].panel.epsilon, place))
    _, place = min(alike)
    mean, error = mean_and_error(
        [right[main][seed] - right[place][seed] for seed in right[main]]
    )
    half = stats.t.isf(0.025, len(right[main]) - 1) * error
    return place, (mean - half, mean + half)


@pytest.mark.parametrize("majority", [0.0, 55.0, 75.0, 99.0])
def test_the_advised_setting_is_that_of_a_plain_loop(tested, majority):
    by_setting = tested.measured[tested.attack]
    for main in range(len(by_setting)):
        found = next_setting(by_setting, main, majority=majority, margin=5.0)
        expected = slow_next(tested, main, majority, 5.0)
        if expected is None:
            assert found is None
        else:
            assert found.place == expected[0]
            assert found.accuracy_lost == pytest.approx(expected[1])


def test_the_choice_depends_on_majority_and_on_the_setting(tested):
    """So that the loop above is not met by one answer."""
    by_setting = tested.measured[tested.attack]
    places = range(len(by_setting))
    found = [next_setting(by_setting, k, majority=0.0, margin=5.0) for k in places]
    assert any(one is None for one in found)
    assert any(one is not None for one in found)
    assert all(
        next_setting(by_setting, k, majority=99.0, margin=5.0) is None for k in places
    )
    assert next_setting(by_setting[:1], 0, majority=0.0, margin=0.0) is None
