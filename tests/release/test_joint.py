"""Twin of the joint search: every way in which people can have been trained on."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import pcer
from pcer.errors import InputError
from pcer.release import joint, solving
from pcer.release.disclosure import Detail, Disclosure
from pcer.release.joint import ABSENT, Answered, splits_of
from pcer.release.solving import Equations, certain
from tests.release.test_people_worked_out import People, n_certain, people, release


def fixed(equations: Equations) -> np.ndarray:
    """(class,) all or nobody trained on, by every solution: tried one by one."""
    truth = equations.matrix @ equations.trained
    ranges = [range(n + 1) for n in equations.people]
    fitting = [
        numbers
        for numbers in map(np.array, itertools.product(*ranges))
        if np.array_equal(equations.matrix @ numbers, truth)
    ]
    is_fixed = (np.array(fitting) == equations.trained).all(axis=0)
    is_extreme = np.isin(equations.trained, 0)
    is_extreme |= equations.trained == equations.people
    return is_fixed & is_extreme


def of_classes(matrix, people, trained, is_shown) -> Equations:
    """Equations whose classes are of no known records."""
    nobody = np.zeros(0, dtype=int)
    return Equations(
        sp.csr_array(np.array(matrix)),
        np.array(people),
        np.array(trained),
        np.array(is_shown),
        nobody,
        nobody,
    )


def drawn(rng: np.random.Generator) -> Equations:
    n_classes = int(rng.integers(3, 8))
    matrix = rng.integers(0, 2, (int(rng.integers(1, 6)), n_classes))
    people = rng.integers(1, 4, n_classes)
    trained = rng.integers(0, people + 1)
    none = np.zeros(n_classes, dtype=bool)
    return of_classes(matrix, people, trained, none)


def test_certain_are_those_who_are_alike_in_every_solution():
    rng = np.random.default_rng(0)
    n_fixed = 0
    for _ in range(60):
        equations = drawn(rng)
        found = certain(equations)
        expected = fixed(equations)
        np.testing.assert_array_equal(found.is_proved | found.is_open, expected)
        n_fixed += int(expected.sum())
        assert solving.is_nobody_certain(equations) == (not expected.any())
    assert n_fixed > 20


def test_an_odd_cycle_is_decided_by_whole_numbers_alone():
    """Halves solve it, whole numbers do not: x1 + x2 = x2 + x3 = x1 + x3 + 2 x4 = 2.

    The linear program moves everybody, and the only whole solution is the truth.
    """
    matrix = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 2]]
    equations = of_classes(matrix, [1] * 4, [1, 0, 1, 0], [False] * 4)
    found = certain(equations)
    np.testing.assert_array_equal(found.is_proved | found.is_open, fixed(equations))


def test_whom_a_cell_alone_gives_away_is_not_counted_again():
    equations = of_classes([[1, 0], [1, 1]], [3, 1], [0, 1], [True, True])
    assert not certain(equations).is_proved.any()
    shown = np.array([True, False])
    assert certain(equations._replace(is_shown=shown)).is_proved.tolist() == [
        False,
        True,
    ]


def test_models_share_a_split_where_they_agree_on_all_that_both_scored():
    part = np.array([[0, 0, 1, 1], [0, 0, 1, ABSENT], [0, 1, 1, 0], [ABSENT, 1, 1, 0]])
    assert splits_of(part) == [[0, 1], [2, 3]]
    assert splits_of(part[[0, 2]]) == [[0], [1]]


def test_people_whom_no_table_counts_have_no_equations():
    known = people(400, 2)
    answered = Answered(
        known.label == 1,
        np.tile(np.where(known.member, 0, 1), (2, 1)),
        known.answers == 1,
    )
    codes = known.group.copy()
    codes[:50] = -1
    attribute = pcer.release.population.Attribute("group", ("0", "1"), codes)
    counted = tables(known, attribute)
    made = joint.Tables([counted], [attribute], answered, Disclosure())
    equations = joint._equations(made, [0, 1], made.details)
    assert equations.people.sum() == 350
    assert made.n_models == 2


def tables(known, attribute):
    """The counts of all models, by the builder."""
    n_models, n = known.answers.shape
    entries = pcer.release.build.Entries(
        run=np.repeat(np.arange(n_models), n),
        split=np.tile(np.where(known.member, 0, 1), n_models),
        positive=np.tile(known.label == 1, n_models),
        predicted=known.answers.ravel() == 1,
    )
    keys = [pcer.release.build.RunKey(1.0 + k, 0) for k in range(n_models)]
    every = attribute._replace(codes=np.tile(attribute.codes, n_models))
    return pcer.release.build.count_entries(entries, keys, every)


# People with several records


def of_persons(rng: np.random.Generator):
    """Nine people with one to three records each, and three models' answers."""
    persons = np.repeat(np.arange(9), rng.integers(1, 4, 9))
    n = len(persons)
    member = (rng.random(9) < 0.6)[persons]
    answers = rng.integers(0, 2, (3, n))
    known = People(rng.integers(0, 2, n), rng.integers(0, 2, n), member, answers)
    return persons, known


def tables_of_parts(known: People, member: np.ndarray) -> list:
    """By model the cells of the training part, if these records were in it."""
    kind = 2 * known.group + known.label
    return [
        np.bincount((2 * kind + answers)[member], minlength=8).tolist()
        for answers in known.answers
    ]


def certain_persons(persons: np.ndarray, known: People) -> np.ndarray:
    """(person,) who is trained on, or not, in all ways: tried one by one."""
    told = tables_of_parts(known, known.member)
    ways = []
    for way in itertools.product([False, True], repeat=9):
        if tables_of_parts(known, np.array(way)[persons]) == told:
            ways.append(way)
    return (np.array(ways) == ways[0]).all(axis=0)


def test_people_with_several_records_are_found_as_if_tried_one_by_one():
    rng = np.random.default_rng(11)
    n_certain_persons = 0
    n_more = 0
    for _ in range(25):
        persons, known = of_persons(rng)
        part = np.tile(np.where(known.member, 0, 1), (3, 1))
        answered = Answered(known.label == 1, part, known.answers == 1, persons)
        attribute = pcer.release.population.Attribute("group", ("0", "1"), known.group)
        counted = tables(known, attribute)
        made = joint.Tables([counted], [attribute], answered, Disclosure())
        equations = joint._equations(made, [0, 1, 2], made.details)
        found = certain(equations)
        is_certain = found.is_proved | found.is_open | equations.is_shown
        expected = certain_persons(persons, known)
        np.testing.assert_array_equal(is_certain[equations.kind], expected[persons])
        n_certain_persons += int(expected.sum())
        n_more += not equations.is_shown[equations.kind[expected[persons]]].all()
    assert n_certain_persons > 20
    assert n_more > 2  # whom no cell alone gives away


def test_records_of_one_person_tell_more_than_those_of_several():
    persons = np.arange(200) // 4  # four records each, all in one part
    known = people(200, 4)
    known = known._replace(member=known.member[4 * persons])
    of_records = release(known, public_data=True).disclosure
    of_people = release(known, person_id=persons, public_data=True).disclosure
    assert of_records.only_together == 0
    assert of_people.only_together > 20


# What a release does


def test_more_settings_than_are_safe_are_refused_with_the_number_that_is():
    known = people(200, 24)
    rule = {"certain_cells": False}
    with pytest.raises(InputError, match=r"release at most (\d+) settings") as caught:
        release(known, **rule)
    assert caught.value.field == "joint"
    n_safe = int(str(caught.value).split("at most ")[1].split()[0])
    fewer = known._replace(answers=known.answers[:n_safe])
    made = release(fewer, **rule)
    assert made.disclosure.only_together == 0
    assert n_certain(made, fewer) == 0
    more = known._replace(answers=known.answers[: n_safe + 1])
    with pytest.raises(InputError, match=f"at most {n_safe} settings"):
        release(more, **rule)


def test_coarser_tables_of_the_last_settings_give_nobody_away():
    known = people(200, 24)
    made = release(known, joint="coarsen", certain_cells=False)
    assert n_certain(made, known) == 0
    assert any(hasattr(run.groups["0"].train, "tp") for run in made.runs)
    last = made.runs[-1]
    assert last.groups["0"].train.accuracy is None
    assert 0 < made.disclosure.n_coarse_tables < 48
    assert "tables are coarser here" in str(made.subject.notes)


def test_a_model_that_hardly_differs_has_coarser_tables_and_others_keep_theirs():
    """The second answers two people as the first does not: each table has them."""
    known = people(400, 4)
    answers = known.answers.copy()
    answers[1] = answers[0]
    answers[1, :2] = 1 - answers[0, :2]
    nearly = known._replace(answers=answers)
    with pytest.raises(InputError, match="at most 1 setting,"):
        release(nearly)
    made = release(nearly, joint="coarsen")
    assert n_certain(made, nearly) == 0
    assert made.disclosure.n_coarse_tables == 2
    assert made.runs[1].groups["0"].train.accuracy is None
    assert hasattr(made.runs[3].groups["0"].train, "tp")


def test_public_data_count_whom_only_several_tables_give_away():
    known = people(60, 10)
    made = release(known, public_data=True)
    told = made.disclosure
    assert told.only_together >= n_certain(made, known) - told.memberships
    assert told.memberships >= told.only_together >= told.unproved


def test_what_joint_may_be():
    with pytest.raises(InputError, match="'refuse' or 'coarsen'"):
        pcer.Disclosure(joint="hide")


def test_positive_rates_of_coarse_tables_are_equations_too():
    known = people(200, 3)
    attribute = pcer.release.population.Attribute("group", ("0", "1"), known.group)
    counted = tables(known, attribute)
    answered = Answered(
        known.label == 1,
        np.tile(np.where(known.member, 0, 1), (3, 1)),
        known.answers == 1,
    )
    made = joint.Tables([counted], [attribute], answered, Disclosure())
    ranks = {}
    for level in (Detail.COUNTS, Detail.POSITIVE_RATE, Detail.SIZES):
        details = [np.full((3, 2), int(level))]
        matrix = joint._equations(made, [0, 1, 2], details).matrix
        ranks[level] = np.linalg.matrix_rank(matrix)
    # Sizes by group and label; and of each model and group one or two more.
    assert ranks == {Detail.COUNTS: 16, Detail.POSITIVE_RATE: 10, Detail.SIZES: 4}
    assert replace(counted, n_together=1).n_together == 1
