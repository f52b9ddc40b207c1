"""Training functions: fitted like estimators, whatever they return."""

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.errors import InputError
from tests.models.worlds import world

X, Y, SEX = world()


class Spent(GaussianNB):
    """A model that knows what it spent."""

    epsilon = 1.0


def train(features, labels, seed):
    model = Spent().fit(features, labels)
    model.epsilon = 1.9 + seed % 100 / 1000  # 1.9 to 1.999
    return model


def one_column(features, labels, seed):
    model = train(features, labels, seed)
    return lambda records: model.predict_proba(records)[:, 1]


def of_torch(features, labels, seed):
    model = train(np.asarray(features), labels, seed)
    return lambda records: torch.tensor(
        model.predict_proba(np.asarray(records)), requires_grad=True
    )


def release(function, features=X, **changes):
    given = {"sensitive_features": SEX, "outcome": "benefit", "n_splits": 3, **changes}
    given["disclosure"] = pcer.Disclosure(public_data=True)
    return pcer.release_from_training(function, features, Y, **given)


def test_whatever_is_returned_gives_the_estimators_release():
    estimated = pcer.release_from_estimator(
        GaussianNB(),
        X,
        Y,
        sensitive_features=SEX,
        outcome="benefit",
        n_splits=3,
        disclosure=pcer.Disclosure(public_data=True),
    )
    tensor = torch.tensor(X)
    for function, features in ((train, X), (one_column, X), (of_torch, tensor)):
        made = release(function, features)
        assert made.runs == estimated.runs
        assert made.pooled_exposure == estimated.pooled_exposure
    words = np.where(Y == 1, "yes", "no")
    given = {
        "sensitive_features": SEX,
        "outcome": "benefit",
        "positive_label": "no",
        "n_splits": 2,
    }
    given["disclosure"] = pcer.Disclosure(public_data=True)
    named = pcer.release_from_estimator(GaussianNB(), X, words, **given)

    def of_no(features, labels, seed):  # one column is that of the positive label
        model = train(features, labels, seed)
        return lambda records: model.predict_proba(records)[:, 0]

    assert pcer.release_from_training(of_no, X, words, **given).runs == named.runs


def test_epsilon_is_the_largest_rounded_up_and_every_models_is_kept():
    made = release(train, epsilon=lambda model: model.epsilon)
    spent = made.training.config["epsilon_of_models"]["train"]
    assert len(set(spent)) > 1
    assert all(1.9 <= x < 2 for x in spent)
    assert {run.epsilon for run in made.runs} == {np.ceil(10 * max(spent)) / 10}
    stated = release(train, epsilon=0.5)
    assert {run.epsilon for run in stated.runs} == {0.5}
    bare = release(train, epsilon=lambda model: None)
    assert {run.epsilon for run in bare.runs} == {None}
    both = release(
        {"a": train, "b": train}, epsilon={"a": 1, "b": lambda model: model.epsilon}
    )
    assert {run.model: run.epsilon for run in both.runs} == {"a": 1.0, "b": 2.0}


def test_no_two_models_share_a_seed_and_a_store_resumes_to_the_same_bytes(tmp_path):
    seeds = []

    def noting(features, labels, seed):
        seeds.append(seed)
        assert torch.initial_seed() == seed  # what unseeded layers and noise draw from
        return train(features, labels, seed)

    how = {"store": tmp_path / "s", "version": "1"}
    how["epsilon"] = lambda model: model.epsilon
    first = release({"a": noting, "b": noting}, **how)
    assert len(set(seeds)) == 6
    assert release({"a": noting, "b": noting}, **how).to_json() == first.to_json()
    assert len(seeds) == 6
    release({"a": noting}, store=tmp_path / "s", version=2)
    assert len(seeds) == 9


def test_models_that_only_answer_are_noted():
    for depth, is_noted in ((None, True), (2, False)):

        def tree(features, labels, seed, depth=depth):
            return DecisionTreeClassifier(max_depth=depth).fit(features, labels)

        notes = " ".join(release(tree).subject.notes)
        assert ("Every probability of tree is 0 or 1" in notes) == is_noted


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"store": "s"}, "version"),
        ({"function": GaussianNB()}, "train"),
        ({"function": GaussianNB}, "train"),
        ({"function": 3}, "train"),
        ({"function": {"a": train}, "epsilon": {"b": 1}}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": lambda model: -1.0}, "estimator"),
        ({"function": lambda *given: None}, "estimator"),
        ({"function": lambda *given: lambda records: 5 * records[:, 0]}, "estimator"),
        (
            {"function": lambda *given: lambda records: records[:, :2] * 0 + 0.7},
            "estimator",
        ),
        (
            {"function": lambda *given: lambda records: np.full((7, 2), 0.5)},
            "estimator",
        ),
        ({"function": lambda features: None}, "train"),
        ({"epsilon": [1, 2]}, "epsilon"),
        ({"epsilon": "one"}, "epsilon"),
        (
            {"function": lambda *given: GaussianNB().fit(*given[:2]).predict},
            "estimator",
        ),
    ],
)
def test_bad_functions_get_one_clear_sentence(changes, field):
    given = {"function": train, **changes}
    with pytest.raises(InputError) as caught:
        release(given.pop("function"), **given)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)
