"""Honest releases of a few splits of small scikit-learn models: how many do the checks accuse?"""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pcer import Options, release_from_estimator
from pcer.auditing.checks import check_release
from pcer.release import Release

MODELS = (
    LogisticRegression(),
    DecisionTreeClassifier(max_depth=6, random_state=0),
    KNeighborsClassifier(15),
)


def fitted_release(
    model: ClassifierMixin, *data: np.ndarray, group: np.ndarray, n_splits: int, draw: int
) -> Release:
    """A release of one model of people of two groups, a and b."""
    return release_from_estimator(
        model,
        *data,
        sensitive_features=np.array(["a", "b"])[group],
        outcome="benefit",
        positive_label=1,
        n_splits=n_splits,
        random_state=draw,
        progress=False,
        options=Options(dataset="drawn", attribute="group", public_data=True, n_jobs=1),
    )


def honest_release(n_splits: int, draw: int) -> Release:
    """A release of one of the models, fitted on 200 to 800 people of two groups."""
    rng = np.random.default_rng([24, n_splits, draw])
    people = int(rng.integers(200, 800))
    x, group = rng.normal(size=(people, 4)), rng.integers(0, 2, people)
    y = (x[:, 0] + 0.5 * group + rng.normal(size=people) > 0).astype(int)
    return fitted_release(MODELS[draw % 3], x, y, group=group, n_splits=n_splits, draw=draw)


def n_accused(n_splits: int, draws: int) -> int:
    """How many of so many honest releases some check accuses."""
    return sum(bool(check_release(honest_release(n_splits, draw))) for draw in range(draws))
