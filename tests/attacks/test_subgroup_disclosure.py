"""No file with a tail and searches gives anybody's label, group or part away.

An integer program looks for tables of people that fit all that leaves: exact tables of
the groups, and the rounded numbers of subgroups. Whoever has a rule may have either
label, and be in either part of every split.
"""

import itertools

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, milp

from pcer.attacks import subgroup_rows
from pcer.attacks.attack import attack_models
from pcer.attacks.scorers import SettingScores
from pcer.attacks.subgroup_rows import STEP

N_MODELS = 4


def world(rng):
    """People whose labels hang on a rule, some of which nearly decides them."""
    n = int(rng.integers(400, 700))
    group = rng.integers(0, 2, n)
    band = rng.integers(0, 3, n)
    inside = (group == 1) & (band == 2)
    share = rng.choice([0.02, 0.1, 0.5, 0.98])
    labels = (rng.random(n) < np.where(inside, share, 0.5)).astype(int)
    member = rng.random((N_MODELS, n)) < rng.choice([0.3, 0.5, 0.9])
    shift = rng.normal(size=2) * 3
    of_truth = rng.normal(size=member.shape) + shift[0] * inside
    of_truth += np.abs(shift[1]) * member * inside
    return SettingScores(
        logits=np.where(labels == 1, of_truth, -of_truth),
        labels=labels,
        member=member,
        group=group,
        group_names=("a", "b"),
        traits={"group": np.array(["a", "b"])[group], "band": band.astype(str)},
    )


def searched(models):
    everybody = subgroup_rows.as_one_group(models)
    return subgroup_rows.subgroup_rows([everybody], attack_models([everybody]), "harm")


def constraints_of(models, searches, split):
    """All that leaves about tables (group, band, label, part) of one split's people."""
    part = (~models.member[split]).astype(int)
    band = models.traits["band"].astype(int)
    shape = (2, 3, 2, 2)
    rows, low, high = [], [], []
    for g, label, p in itertools.product(range(2), range(2), range(2)):
        cell = np.zeros(shape)
        cell[g, :, label, p] = 1
        told = (models.group == g) & (models.labels == label) & (part == p)
        rows.append(cell.ravel())
        low.append(told.sum())
        high.append(told.sum())
    for search in searches:
        if search.worst is None:
            continue
        cell = cell_of(search.worst, shape)
        if search.about == "wrongly":
            cell[:, :, 1] = 0  # of those who can be wrongly predicted
        rows.append(cell.ravel())
        low.append(search.worst.n_people - STEP // 2)
        high.append(search.worst.n_people + STEP // 2)
    truth = np.zeros(shape)
    np.add.at(truth, (models.group, band, models.labels, part), 1)
    return LinearConstraint(np.array(rows), low, high), truth


def cell_of(worst, shape):
    """Who has a rule, among (group, band, label, part)."""
    cell = np.ones(shape)
    for condition in worst.rule:
        if condition.attribute == "group":
            cell[1 - "ab".index(condition.value)] = 0
        else:
            others = [k for k in range(3) if k != int(condition.value)]
            cell[:, others] = 0
    return cell


def can_be(constraint, cell):
    """Whether anybody may be in a cell, by tables that fit."""
    answer = milp(-cell.ravel(), constraints=constraint, integrality=np.ones(cell.size))
    assert answer.success  # the truth itself fits
    return -answer.fun > 0.5


@pytest.mark.slow
def test_whoever_has_a_rule_may_have_either_label_and_be_in_either_part(monkeypatch):
    monkeypatch.setattr(subgroup_rows, "DRAWS", 39)
    n_named, n_withheld = 0, 0
    for seed in range(200):
        models = world(np.random.default_rng(seed))
        searches = searched(models)
        n_withheld += sum(search.withheld is not None for search in searches)
        for split in range(N_MODELS):
            constraint, truth = constraints_of(models, searches, split)
            sums = constraint.A @ truth.ravel()
            assert (sums >= constraint.lb).all()
            assert (sums <= constraint.ub).all()
            for search in searches:
                if search.worst is None:
                    continue
                n_named += 1
                inside = cell_of(search.worst, truth.shape)
                for axis, level in itertools.product((2, 3), range(2)):
                    cell = inside.copy()
                    cell[(slice(None),) * axis + (1 - level,)] = 0
                    assert can_be(constraint, cell), (seed, search.about)
    assert n_named > 200
    assert n_withheld > 10
