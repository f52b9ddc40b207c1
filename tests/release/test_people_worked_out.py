"""An attacker who has the whole release, and knows much, works out nobody.

The attacker solves equations: every count is a sum over people.
"""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import pcer
from pcer.errors import InputError
from tests.models.worlds import release as release_of_estimator
from tests.models.worlds import world

CELLS = {"tn": (0, 0), "fp": (0, 1), "fn": (1, 0), "tp": (1, 1)}  # label and answer


class People(NamedTuple):
    """People of two groups, and the answers that several models give them."""

    label: np.ndarray
    group: np.ndarray
    member: np.ndarray  # of the training part, which all models share
    answers: np.ndarray  # (model, person)


def people(n: int, n_models: int, *, accuracy: float = 0.8) -> People:
    """Answers are right by chance, so that no two people get the same ones."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, n)
    group = rng.integers(0, 2, n)
    member = rng.permutation(n) < 0.7 * n
    is_right = rng.random((n_models, n)) < accuracy
    return People(label, group, member, np.where(is_right, label, 1 - label))


def release(
    known: People, *, person_id: np.ndarray | None = None, **disclosure: object
) -> pcer.Release:
    """The release of all models, one setting each, on one split that is secret."""
    n_models, n = known.answers.shape
    if person_id is not None:
        person_id = np.tile(person_id, n_models)
    return pcer.release_from_predictions(
        np.tile(known.label, n_models),
        known.answers.ravel(),
        sensitive_features={"group": np.tile(known.group, n_models)},
        split=np.tile(known.member, n_models),
        split_kind="random",
        outcome="benefit",
        split_id="a secret one",
        person_id=person_id,
        epsilon=np.repeat(1.0 + np.arange(n_models), n),
        dp_delta=1e-5,
        disclosure=disclosure,
    )


def made_or_refused(known: People, **disclosure: object) -> pcer.Release | str:
    """The same release, or the sentence that refuses it."""
    try:
        return release(known, **disclosure)
    except InputError as refused:
        return str(refused)


# Many settings on one split


def equations(made: pcer.Release, known: People) -> tuple[sp.csr_array, np.ndarray]:
    """For each count of training: who is counted if they were in it, and how many."""
    counted = []
    totals = []
    for run, answers in zip(made.runs, known.answers, strict=True):
        for name, tables in run.groups.items():
            in_group = known.group == int(name)
            table = tables.train
            if hasattr(table, "tp"):
                for cell, (label, answer) in CELLS.items():
                    in_cell = (known.label == label) & (answers == answer)
                    counted.append(in_group & in_cell)
                    totals.append(getattr(table, cell))
            else:
                counted.append(in_group)
                totals.append(table.n)
                if table.accuracy is not None:
                    counted.append(in_group & (known.label == answers))
                    totals.append(round(table.accuracy * table.n))
                rate = getattr(tables.test, "positive_rate", None)
                if rate is not None:  # others with this answer were trained on
                    is_positive = in_group & (answers == 1)
                    counted.append(is_positive)
                    totals.append(is_positive.sum() - round(rate * tables.test.n))
    return sp.csr_array(np.array(counted, dtype=float)), np.array(totals)


def n_certain(made: pcer.Release, known: People) -> int:
    """How many memberships follow from the equations, by linear programs.

    Each program moves as many people as it can from the part that they are in. Who was
    moved is not certain; if nobody can be moved, those left are.
    """
    counted, totals = equations(made, known)
    perhaps_certain = np.ones(len(known.label), dtype=bool)
    while perhaps_certain.any():
        price = np.where(known.member, 1.0, -1.0) * perhaps_certain
        solved = linprog(price, A_eq=counted, b_eq=totals, bounds=(0, 1))
        is_moved = perhaps_certain & (np.abs(solved.x - known.member) > 1e-6)
        if not is_moved.any():
            break
        perhaps_certain &= ~is_moved
    return int(perhaps_certain.sum())


@pytest.mark.parametrize("certain_cells", [True, False])
@pytest.mark.parametrize("n_models", [6, 12])
def test_few_settings_on_one_split_are_released_and_give_nobody_away(
    n_models, certain_cells
):
    known = people(400, n_models)
    assert n_certain(release(known, certain_cells=certain_cells), known) == 0


@pytest.mark.slow
@pytest.mark.parametrize("joint", ["refuse", "coarsen"])
@pytest.mark.parametrize("certain_cells", [True, False])
@pytest.mark.parametrize("n_models", [20, 30, 60, 120])
def test_many_settings_on_one_split_are_refused_or_give_nobody_away(
    n_models, certain_cells, joint
):
    known = people(400, n_models)
    made = made_or_refused(known, certain_cells=certain_cells, joint=joint)
    is_refused = isinstance(made, str) and "settings" in made
    assert is_refused == (joint == "refuse")
    assert is_refused or n_certain(made, known) == 0


def test_a_file_counts_the_memberships_that_its_models_give_away_together():
    known = people(200, 40)
    made = release(
        known, public_data=True
    )  # which may give everybody away, and says so
    assert made.disclosure.memberships >= n_certain(made, known)


def of_nobody_known(n_models: int) -> pcer.Release:
    """Of models whose rows are in orders of their own, and have no names."""
    known = people(400, n_models)
    order = [np.random.default_rng(k).permutation(400) for k in range(n_models)]
    person = np.concatenate(order)
    model = np.repeat(np.arange(n_models), 400)
    return pcer.release_from_predictions(
        known.label[person],
        known.answers[model, person],
        sensitive_features={"group": known.group[person]},
        split=known.member[person],
        split_kind="random",
        outcome="benefit",
        epsilon=1.0 + model,
        dp_delta=1e-5,
    )


def test_where_nothing_says_who_is_who_few_models_may_share_a_split():
    """Fewer than a tenth of the people of any group and label in training."""
    known = people(400, 1)
    kind = 2 * known.group + known.label
    n_safe = np.bincount(kind[known.member]).min() // 10
    made = of_nobody_known(n_safe)
    assert made.disclosure.only_together is None
    with pytest.raises(InputError, match=f"release at most {n_safe} settings"):
        of_nobody_known(n_safe + 1)


# Answers alone


def n_rebuilt(made: pcer.Release, known: People) -> int:
    """Whose label and group an attacker finds who knows answers, but not who trained.

    A linear program: everybody's shares in the four kinds of people, such that each
    model gives each answer to as many of each kind as the release says.
    """
    n = len(known.label)
    counted = []
    totals = []
    for run, answers in zip(made.runs, known.answers, strict=True):
        for cell, (label, answer) in CELLS.items():
            for name, tables in run.groups.items():
                of_kind = np.zeros(4)
                of_kind[2 * int(name) + label] = 1
                counted.append(sp.csr_array(np.kron(answers == answer, of_kind)[None]))
                both = getattr(tables.train, cell) + getattr(tables.test, cell)
                totals.append(both)
    counted.append(sp.kron(sp.eye(n), np.ones((1, 4))))  # everybody is of one kind
    price = np.random.default_rng(0).random(4 * n)
    all_totals = np.append(totals, np.ones(n))
    solved = linprog(price, A_eq=sp.vstack(counted), b_eq=all_totals, bounds=(0, 1))
    found = solved.x.reshape(n, 4).argmax(axis=1)
    return int((found == 2 * known.group + known.label).sum())


def release_of_splits(known: People) -> pcer.Release:
    """The release of all models, each with a split of its own that is secret."""
    n_models, n = known.answers.shape
    member = np.random.default_rng(1).permuted([known.member] * n_models, axis=1)
    return pcer.release_from_predictions(
        np.tile(known.label, n_models),
        known.answers.ravel(),
        sensitive_features={"group": np.tile(known.group, n_models)},
        split=member.ravel(),
        split_kind="random",
        outcome="benefit",
        split_id=np.repeat([f"secret {k}" for k in range(n_models)], n),
        seed=np.repeat(np.arange(n_models), n),
    )


def test_answers_and_counts_rebuild_labels_though_splits_are_secret():
    """Nothing prevents this: it can only be said."""
    known = people(400, 100, accuracy=0.5)
    made = release_of_splits(known)
    assert n_rebuilt(made, known) > 200  # guessing finds about 108


def test_a_release_of_many_models_warns_that_answers_rebuild_labels():
    known = people(400, 100, accuracy=0.5)
    assert "labels" in str(release_of_splits(known))


def test_splits_that_anybody_can_draw_again_are_warned_of():
    from sklearn.model_selection import train_test_split

    known = people(400, 20)
    split = np.full((20, 400), "train")
    for state in range(20):
        _, test = train_test_split(np.arange(400), test_size=0.3, random_state=state)
        split[state, test] = "test"
    made = pcer.release_from_predictions(
        np.tile(known.label, 20),
        known.answers.ravel(),
        sensitive_features={"group": np.tile(known.group, 20)},
        split=split.ravel(),
        split_kind="random",
        outcome="benefit",
        seed=np.repeat(np.arange(20), 400),
        record_id=np.tile(np.arange(400), 20),
    )
    assert "random_state" in str(made)


# One of the people, who knows of their own membership


def trainings(tables: object, n_of_kind: np.ndarray) -> np.ndarray:
    """(way, label, answer) how many of each kind can have been trained on."""
    ranges = [np.arange(n + 1) for n in n_of_kind.ravel()]
    every = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 2, 2)
    fits = every.sum(axis=(1, 2)) == tables.train.n
    if hasattr(tables.train, "tp"):
        for cell, (label, answer) in CELLS.items():
            fits &= every[:, label, answer] == getattr(tables.train, cell)
    elif tables.train.accuracy is not None:
        right = every.trace(axis1=1, axis2=2)
        fits &= right == round(tables.train.accuracy * tables.train.n)
    if tables.test.positive_rate is not None:
        positive = (n_of_kind - every)[:, :, 1].sum(axis=1)
        fits &= positive == round(tables.test.positive_rate * tables.test.n)
    return every[fits]


@pytest.mark.parametrize("n", [120, 240])
def test_who_knows_of_themselves_by_a_receipt_learns_of_nobody_else(n):
    """A receipt tells its owner who was trained on: of a kind one person is known."""
    known = people(n, 1)
    made = release(known, certain_cells=False, least_people=5)
    for name, tables in made.runs[0].groups.items():
        kinds = 2 * known.label + known.answers[0]
        in_group = known.group == int(name)
        n_of_kind = np.bincount(kinds[in_group], minlength=4).reshape(2, 2)
        ways = trainings(tables, n_of_kind)
        for n_trained, n_others in zip(
            ways.reshape(-1, 4).T, n_of_kind.ravel() - 1, strict=True
        ):
            others_if_in = n_trained[n_trained >= 1] - 1
            others_if_out = n_trained[n_trained <= n_others]
            for others in (others_if_in, others_if_out):
                assert others.min() < n_others
                assert others.max() > 0


# One person in a difference


def release_without(
    n_missing: int, split_id: object, **disclosure: object
) -> pcer.Release:
    """Of two models; the second did not score a few people of one group and label."""
    known = people(400, 2)
    alike = np.flatnonzero((known.label == 1) & (known.group == 0))
    is_scored = np.ones((2, 400), dtype=bool)
    is_scored[1, alike[:n_missing]] = False
    model, person = np.nonzero(is_scored)
    return pcer.release_from_predictions(
        known.label[person],
        known.answers[model, person],
        sensitive_features={"group": known.group[person]},
        split=known.member[person],
        split_kind="random",
        outcome="benefit",
        split_id=None if split_id is None else np.array(split_id)[model],
        epsilon=1.0 + model,
        dp_delta=1e-5,
        disclosure=disclosure,
    )


@pytest.mark.parametrize("split_id", [None, ("one", "other")])
@pytest.mark.parametrize("n_missing", [1, 9])
def test_two_models_that_scored_different_people_are_refused(n_missing, split_id):
    with pytest.raises(InputError):
        release_without(n_missing, split_id)


def test_two_models_may_differ_where_anybody_has_the_records_or_many_are_missing():
    assert len(release_without(1, None, public_data=True).runs) == 2
    assert len(release_without(30, None).runs) == 2


def test_two_models_of_one_split_scored_the_same_people():
    with pytest.raises(InputError, match="name splits apart"):
        release_without(1, ("one", "one"))


def test_a_group_of_one_person_is_not_released_from_signals():
    rng = np.random.default_rng(0)
    person = np.arange(400)
    is_member = rng.random(400) < 0.5
    person[300:] = 300  # one person, with 100 records in both parts
    with pytest.raises(InputError, match="fewer than 10 people"):
        pcer.release_from_signals(
            rng.normal(size=400) - 2 * is_member,
            rng.normal(size=400),
            kind="loss",
            sensitive_features={"group": np.where(person == 300, "alone", "others")},
            member=is_member,
            split_kind="random",
            person_id=person,
        )


def test_the_effective_number_of_people_is_rounded():
    from sklearn.naive_bayes import GaussianNB

    person = np.arange(600)
    person[:37] = 0  # one person has 37 records
    made = release_of_estimator(GaussianNB(), world(600), person_id=person)
    assert made.training.unit_of_split == "person"
    for units in made.training.effective_units.values():
        assert units == round(units)


@pytest.mark.parametrize("random_state", [2**64, 2**64 + 1])
def test_a_random_state_that_anybody_would_try_is_refused(random_state):
    from sklearn.naive_bayes import GaussianNB

    with pytest.raises(InputError, match="can be guessed"):
        release_of_estimator(GaussianNB(), world(600), random_state=random_state)
