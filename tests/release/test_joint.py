"""Twin of the joint search: every way in which people can have been trained on."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import pcer
from pcer.errors import InputError
from pcer.release import joint
from pcer.release.disclosure import Detail, Disclosure
from pcer.release.joint import ABSENT, Answered, Equations, certain, splits_of
from tests.release.test_people_worked_out import n_certain, people, release


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
        assert joint.is_nobody_certain(equations) == (not expected.any())
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
        matrix = joint._equations(made, [0, 1, 2], details).matrix.toarray()
        ranks[level] = np.linalg.matrix_rank(matrix)
    # Sizes by group and label; and of each model and group one or two more.
    assert ranks == {Detail.COUNTS: 16, Detail.POSITIVE_RATE: 10, Detail.SIZES: 4}
    assert replace(counted, n_together=1).n_together == 1
