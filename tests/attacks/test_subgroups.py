"""The worst subgroup: a search that knows how much it looked at."""

import itertools
import math

import numpy as np
import pytest

from pcer.attacks import subgroups
from pcer.errors import InputError


def people(n, seed=0, related=0.0):
    """Three attributes of 2, 3 and 4 values; some people have them alike."""
    rng = np.random.default_rng(seed)
    same = rng.random(n)
    drawn = {}
    for name, size in (("sex", 2), ("race", 3), ("age", 4)):
        mixed = np.where(rng.random(n) < related, same, rng.random(n))
        drawn[name] = np.array([f"{name} {k}" for k in range(size)])[
            (mixed * size).astype(int)
        ]
    return drawn


def of(attributes, conditions):
    inside = np.ones(len(attributes["sex"]), dtype=bool)
    for name, value in conditions:
        inside &= attributes[name] == value
    return inside


def slow_t(values, inside):
    one, other = values[inside], values[~inside]
    error = math.sqrt(one.var() / (len(one) - 1) + other.var() / (len(other) - 1))
    return (one.mean() - other.mean()) / error


def slow_candidates(attributes, depth, least):
    n = len(attributes["sex"])
    found = []
    for length in range(1, depth + 1):
        for names in itertools.combinations(attributes, length):
            levels = [sorted(set(attributes[name])) for name in names]
            for values in itertools.product(*levels):
                conditions = tuple(zip(names, values, strict=True))
                if least <= of(attributes, conditions).sum() <= n - least:
                    found.append(conditions)
    return found


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_conjunction_with_people_enough_is_a_candidate(depth):
    attributes = people(900, seed=1)
    found = subgroups.candidates(attributes, depth=depth, least=100)
    assert list(found.conditions) == slow_candidates(attributes, depth, 100)
    for conditions, atoms in zip(found.conditions, found.atoms, strict=True):
        assert (atoms[found.atom] == of(attributes, conditions)).all()


def test_statistics_are_those_of_a_loop():
    attributes = people(700, seed=2)
    values = np.random.default_rng(3).exponential(size=700)
    found = subgroups.candidates(attributes, depth=2, least=50)
    t = subgroups._studentised(subgroups._by_atom(values, found), found.atoms)
    slow = [slow_t(values, of(attributes, each)) for each in found.conditions]
    assert t == pytest.approx(slow)


def test_a_planted_subgroup_is_named_with_a_bound_below_its_truth():
    attributes = people(5_000, seed=4)
    planted = (("race", "race 1"), ("age", "age 3"))
    inside = of(attributes, planted)
    values = np.random.default_rng(5).normal(size=5_000) + 0.6 * inside
    found = subgroups.worst_subgroup(values, attributes)
    assert found.conditions == planted
    assert found.n_people == inside.sum()
    assert found.p_value == 0.001
    truth = 0.6
    assert 0 < found.lower_bound < truth < found.difference + 2 * found.standard_error
    expected = found.difference - found.critical_value * found.standard_error
    assert found.lower_bound == pytest.approx(expected)


def test_a_condition_that_adds_nothing_is_dropped():
    """All of one race are hit, whatever their age: age is not named."""
    named = []
    for seed in range(10):
        attributes = people(3_000, seed=seed)
        inside = attributes["race"] == "race 2"
        values = np.random.default_rng(seed).normal(size=3_000) + 0.5 * inside
        named.append(subgroups.worst_subgroup(values, attributes, draws=199).conditions)
    assert named.count((("race", "race 2"),)) >= 9


@pytest.mark.parametrize("kind", ["normal", "skewed", "binary"])
@pytest.mark.parametrize("depth", [2, 3])
def test_chance_is_named_in_one_of_forty(kind, depth):
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, depth])
        attributes = people(800, seed=seed, related=0.5)
        values = {
            "normal": rng.normal(size=800),
            "skewed": rng.exponential(size=800) ** 2,
            "binary": (rng.random(800) < 0.2).astype(float),
        }[kind]
        found = subgroups.worst_subgroup(
            values, attributes, depth=depth, factor=1.0, draws=199, level=0.05
        )
        alarms += found.p_value <= 0.05
    assert alarms <= 8  # of 60 at 5 %: 9 or more have chance .004


def test_what_labels_explain_is_no_finding_within_labels():
    """Race goes with the label, and the label alone drives exposure."""
    rng = np.random.default_rng(6)
    attributes = people(3_000, seed=6)
    labels = (rng.random(3_000) < 0.2 + 0.6 * (attributes["race"] == "race 0")) * 1
    values = rng.normal(size=3_000) + labels
    plain = subgroups.worst_subgroup(values, attributes)
    within = subgroups.worst_subgroup(values, attributes, strata=labels)
    assert plain.conditions == (("race", "race 0"),)
    assert plain.p_value == 0.001
    assert within.p_value > 0.05


def test_one_person_with_many_records_is_one_person():
    rng = np.random.default_rng(7)
    alarms = {"person": 0, "record": 0}
    for seed in range(20):
        attributes = {name: np.repeat(v, 6) for name, v in people(400, seed).items()}
        values = np.repeat(rng.normal(size=400), 6)
        person = np.repeat(np.arange(400), 6)
        for kind, ids in (("person", person), ("record", None)):
            found = subgroups.worst_subgroup(
                values, attributes, factor=1.0, draws=99, person=ids, level=0.05
            )
            alarms[kind] += found.p_value <= 0.05
    assert alarms["person"] <= 4
    assert alarms["record"] >= 10


def test_people_without_a_number_are_left_out_and_nobody_is_named_from_few():
    attributes = people(300, seed=8)
    values = np.full(300, np.nan)
    values[:150] = 1.0
    found = subgroups.worst_subgroup(values, attributes)
    assert found.n_candidates == 0
    assert found.p_value == 1.0
    assert found.conditions == ()


def test_constant_numbers_name_nobody():
    attributes = people(600, seed=9)
    found = subgroups.worst_subgroup(np.ones(600), attributes, draws=99)
    assert found.conditions == ()
    assert found.p_value == 1.0


def test_the_difference_said_to_be_detectable_is_found_in_eight_of_ten():
    named = 0
    detectable = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        group = np.full(2_000, "others")
        group[rng.permutation(2_000)[:100]] = "few"
        attributes = people(2_000, seed=seed) | {"sex": group}
        values = rng.normal(size=2_000)
        first = subgroups.worst_subgroup(values, attributes, draws=199)
        detectable.append(first.detectable)
        lifted = values + first.detectable * (group == "few")
        found = subgroups.worst_subgroup(lifted, attributes, draws=199)
        named += ("sex", "few") in found.conditions
    assert 26 <= named <= 38
    assert np.std(detectable) < 0.2 * np.mean(detectable)


def test_wrong_input_is_one_sentence():
    attributes = people(300)
    with pytest.raises(InputError, match="depth is 4; choose 1, 2 or 3"):
        subgroups.worst_subgroup(np.ones(300), attributes, depth=4)
    with pytest.raises(InputError, match="'sex' has 300 values for 299 records"):
        subgroups.worst_subgroup(np.ones(299), attributes)
    person = np.arange(300) // 2
    with pytest.raises(InputError, match="has two values for one person"):
        subgroups.worst_subgroup(np.ones(300), attributes, person=person)


@pytest.mark.parametrize("n_strata", [1, 3])
def test_turned_wheels_are_permutations(n_strata):
    """Sums of atoms are those of some order, and as wide as those of shuffled ones."""
    rng = np.random.default_rng(4)
    n = 1_200
    attributes = {"a": rng.integers(0, 3, n).astype(str)}
    found = subgroups.candidates(attributes, depth=1, least=100)
    strata = rng.integers(0, n_strata, n)
    values = rng.exponential(size=n) + strata
    turned = list(subgroups._drawn(values, strata, found, 2_000, rng))
    shuffled = []
    for permuted in subgroups._permuted(values, strata, 2_000, rng):
        shuffled.append(subgroups._by_atom(permuted, found))
    assert len(turned) == 2_000
    for one in (turned[0], turned[-1]):
        assert one.total.sum() == pytest.approx(values.sum())
        assert one.squares.sum() == pytest.approx((values**2).sum())
    for column in ("total", "squares"):
        ours = np.array([getattr(one, column) for one in turned])
        theirs = np.array([getattr(one, column) for one in shuffled])
        assert ours.mean(axis=0) == pytest.approx(theirs.mean(axis=0), rel=0.01)
        assert ours.std(axis=0) == pytest.approx(theirs.std(axis=0), rel=0.1)


def test_a_stretch_of_a_wheel_is_summed_as_a_loop_does():
    rng = np.random.default_rng(0)
    wheel = rng.normal(size=12)
    sizes = np.array([5, 0, 7])
    starts = np.random.default_rng(1).integers(0, 12, 4)
    found = subgroups._turned(wheel, sizes, 4, np.random.default_rng(1))
    for turn, start in enumerate(starts):
        order = [wheel[(start + k) % 12] for k in range(12)]
        expected = [sum(order[:5]), 0.0, sum(order[5:])]
        assert found[0, turn] == pytest.approx(expected)
        squares = [sum(x * x for x in order[:5]), 0.0, sum(x * x for x in order[5:])]
        assert found[1, turn] == pytest.approx(squares)
