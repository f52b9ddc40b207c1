"""From an estimator to a release: what is in it, and that nothing else decides what is in it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.attacks import BudgetScores, log_odds, pooled_attacks_of, run_attacks_of

N = 600
SAID = {"outcome": "benefit", "attribute": "sex", "progress": False}


def world(n: int = N, seed: int = 0):
    """Features, labels that follow the first of them loosely, and groups of unequal size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    return X, y, np.where(rng.random(n) < 0.4, "f", "m")


def release(estimator, data=None, **changes):
    X, y, sex = world() if data is None else data
    options = {**SAID, "sensitive_features": sex, "n_splits": 3, **changes}
    return pcer.release_from_estimator(estimator, X, y, **options)


def by_hand(estimator, data, found, random_state=0):
    """The same models, fitted in a loop on the splits that the release's own sizes name."""
    X, y, _ = data
    rows, answers, member = [], [], []
    for split in range(len(found.runs)):
        seed = np.random.SeedSequence(random_state, spawn_key=(1, split))
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(y))
        inside = np.ones(len(y), dtype=bool)
        inside[order[: math.ceil(0.3 * len(y))]] = False
        fitted = estimator.fit(X[inside], y[inside])
        chance = fitted.predict_proba(X)[np.arange(len(y)), y]
        rows.append(log_odds(chance).astype(np.float32) * (2 * y - 1))
        answers.append(fitted.predict(X) == 1)
        member.append(inside)
    return np.array(rows, dtype=np.float32), np.array(answers), np.array(member)


@pytest.mark.parametrize("estimator", [GaussianNB(), DecisionTreeClassifier(random_state=3)])
def test_counts_and_costs_are_those_of_a_loop(estimator):
    data = world()
    found = release(estimator, data, n_splits=9)
    logits, answers, member = by_hand(estimator, data, found)
    _, y, sex = data
    for run, answer, inside in zip(found.runs, answers, member, strict=True):
        for name, tables in run.groups.items():
            for table, part in ((tables.train, inside), (tables.test, ~inside)):
                rows = np.flatnonzero((sex == name) & part)
                cells = {"tp": 0, "fp": 0, "tn": 0, "fn": 0}
                for r in rows:
                    cells[("t" if answer[r] == y[r] else "f") + ("p" if answer[r] else "n")] += 1
                assert table.model_dump() == cells
    scores = BudgetScores(
        logits=logits,
        labels=y,
        member=member,
        group=(sex == "m").astype(int),
        group_names=("f", "m"),
        predicted=answers,
    )
    wanted = [
        *run_attacks_of([scores], epsilon=math.inf)[0].rows,
        *pooled_attacks_of([scores], epsilon=math.inf)[0].rows,
    ]
    carried = {(row.group, row.proxy): row for row in found.pooled_exposure}
    assert len(carried) == len(wanted) == 14
    for row in wanted:
        assert carried[row.group, row.proxy].value == pytest.approx(row.value, abs=1e-12)
        error = carried[row.group, row.proxy].standard_error
        assert error == pytest.approx(row.standard_error, abs=1e-12)
    assert found.not_computed == {}


def test_the_paired_gap_is_a_difference_of_means_over_the_estimators_own_answers():
    data = world()
    model = DecisionTreeClassifier(max_depth=4, random_state=0)
    found = release(model, data, n_splits=5, threshold=0.3)
    logits, _, member = by_hand(model, data, found)
    right = (logits >= math.log(0.3 / 0.7)) == (data[1] == 1)
    gaps = [
        right[inside, r].mean() - right[~inside, r].mean()
        for r, inside in enumerate(member.T)
        if 0 < inside.sum() < len(inside) and data[2][r] == "f"
    ]
    (row,) = (row for row in found.pooled_exposure if (row.group, row.proxy) == ("f", "paired_gap"))
    assert row.value == pytest.approx(np.mean(gaps), abs=1e-12)


def test_three_lines_from_a_pipeline_to_a_planted_memorisation():
    X, y, sex = world(2000)
    noisy = np.where(sex == "f", np.random.default_rng(1).integers(0, 2, len(y)), X[:, 0] > 0)
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0))
    made = pcer.release_from_estimator(
        model, X, noisy.astype(int), sensitive_features={"sex": sex}, outcome="harm", progress=False
    )
    found = pcer.audit(made, pcer.Plan(cost="paired_confidence")).budgets[0]
    assert found.groups["f"].resolved
    assert found.groups["f"].cost.value > 0.3
    assert found.pairs[0].disparity_shown


def test_only_the_random_state_decides():
    forest = RandomForestClassifier(n_estimators=5, max_depth=4)
    first = release(forest)
    assert release(forest).to_json() == first.to_json()
    assert release(forest, random_state=1).to_json() != first.to_json()
    longer = release(forest, n_splits=5)
    assert longer.runs[:3] == first.runs


def test_splits_are_called_by_their_number():
    found = release(GaussianNB())
    assert [run.split for run in found.runs] == ["split 1", "split 2", "split 3"]
    assert [run.seed for run in found.runs] == [0, 1, 2]
    assert found.training.split_kind == "random"
    assert found.training.stratified_by == "nothing"
    assert "random_state" not in found.training.config
    assert release(GaussianNB(), public_data=True).training.config["random_state"] == 0
