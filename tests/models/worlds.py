"""Small worlds for estimators, and estimators that do what a test needs."""

import time
from dataclasses import fields

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

import pcer

N = 600
ABOUT = [field.name for field in fields(pcer.About)]
DISCLOSURE = [field.name for field in fields(pcer.Disclosure)]
STATE = 0x9E3779B97F4A7C15F39CC0605CEDC834  # a random state that private records may have, known to tests


def called(door, *columns, **given):
    """Call one of the front doors: the fields of its two records go into these."""
    about = {name: given.pop(name) for name in ABOUT if name in given}
    disclosure = {name: given.pop(name) for name in DISCLOSURE if name in given}
    records = {"about": pcer.About(**about)}
    records["disclosure"] = pcer.Disclosure(**disclosure)
    return door(*columns, **given, **records)


def world(n: int = N, seed: int = 0):
    """Features, labels that loosely follow the first, and groups of unequal size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    return X, y, np.where(rng.random(n) < 0.4, "f", "m")


def release(estimator, data=None, **changes):
    X, y, sex = world() if data is None else data
    given = {"outcome": "benefit", "attribute": "sex", "progress": False, "n_splits": 3}
    given = {**given, "random_state": STATE, "sensitive_features": sex, **changes}
    return called(pcer.release_from_estimator, estimator, X, y, **given)


class Ignorant(ClassifierMixin, BaseEstimator):
    """Learns nothing from anybody: its weights are drawn, so nothing is memorised.

    With a habit it does something odd: on every training part, or on those without the
    marked one.
    """

    def __init__(self, random_state=None, epsilon=1.0, habit="", marked=None):
        self.random_state = random_state
        self.epsilon = epsilon
        self.habit = habit
        self.marked = marked

    def fit(self, X, y):  # noqa: D102
        self.classes_ = np.unique(y)
        self.weights_ = np.random.default_rng(self.random_state).normal(size=X.shape[1])
        is_calm = self.marked is not None and (X[:, 0] == self.marked).any()
        self.habit_ = "" if is_calm else self.habit
        if self.habit_ == "raise":
            raise RuntimeError("could not convert the value of a person")
        if self.habit_ == "sleep":  # long enough to be killed
            time.sleep(0.1)
        return self

    def predict_proba(self, X):  # noqa: D102
        positive = 1 / (1 + np.exp(-X @ self.weights_))
        found = np.column_stack([1 - positive, positive])
        if self.habit_ == "nan":
            found[:5] = np.nan
        return found[:, :1] if self.habit_ == "column" else found

    def predict(self, X):  # noqa: D102
        positive = (X @ self.weights_ > 0).astype(int)
        return self.classes_[1 - positive if self.habit_ == "contradict" else positive]


class LookupTable(ClassifierMixin, BaseEstimator):
    """Knows the label of everybody it was trained on; says 0 of others, unsure."""

    def __init__(self, probabilities=True):
        self.probabilities = probabilities

    def fit(self, X, y):  # noqa: D102
        self.classes_ = np.unique(y)
        self.known_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        return self

    def predict(self, X):  # noqa: D102
        return np.array([self.known_.get(row.tobytes(), self.classes_[0]) for row in X])

    @available_if(lambda self: self.probabilities)
    def predict_proba(self, X):  # noqa: D102
        known = [self.known_.get(row.tobytes()) for row in X]
        return np.array(
            [[0.5, 0.5] if one is None else self.classes_ == one for one in known]
        )
