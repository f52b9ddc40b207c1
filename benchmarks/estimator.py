"""Estimators fitted anew: what pcer adds to fitting them by hand, and whether stopping is honest.

    python -m benchmarks.estimator overhead [SPLITS] [JOBS]  # a forest on Adult, both ways
    python -m benchmarks.estimator stopping [WORLDS]         # alarms about models that know nobody

By hand: the same splits, seeds and processes with joblib alone, fitting and asking every model for
its probabilities. Both in one run, alternately, after the processes have started. With one job the
processor's time is counted too, which other work on the machine does not change.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier

import pcer
from pcer.data import load
from pcer.models.splits import random_splits

ROUNDS = 1
NULL_COSTS = ("overfitting_gap", "paired_gap", "paired_confidence", "lira_advantage")


def fit_by_hand(estimator, X, y, rows, seed):
    model = clone(estimator).set_params(random_state=seed).fit(X[rows], y[rows])
    return model.predict_proba(X)[:, 1].astype(np.float32)


def overhead(n_splits: int = 20, n_jobs: int = 2) -> None:
    adult = load("adult")
    X, y = np.asarray(adult.features), np.asarray(adult.labels)
    sex = adult.attribute("sex")
    groups = np.array([*sex.group_names, ""], dtype=object)[sex.codes]
    forest = RandomForestClassifier()
    splits = random_splits(len(y), None, test_size=0.3, random_state=0)
    calls = [(splits.train(k), k) for k in range(n_splits)]

    def by_hand() -> None:
        Parallel(n_jobs)(delayed(fit_by_hand)(forest, X, y, *call) for call in calls)

    def by_pcer() -> None:
        pcer.release_from_estimator(
            forest,
            X,
            y,
            sensitive_features={"sex": groups},
            outcome="benefit",
            n_splits=n_splits,
            n_jobs=n_jobs,
            public_data=True,
            progress=False,
        )

    seconds: dict[str, list[float]] = {"by hand": [], "by pcer": []}
    Parallel(n_jobs)(delayed(fit_by_hand)(forest, X, y, *call) for call in calls[:n_jobs])
    clocks = {"on the wall": time.perf_counter, "of the processor": time.process_time}
    for number in range(ROUNDS):
        for name, run in (("by hand", by_hand), ("by pcer", by_pcer)):
            began = [clock() for clock in clocks.values()]
            run()
            seconds[name] = [
                clock() - then for clock, then in zip(clocks.values(), began, strict=True)
            ]
        for k, clock in enumerate([*clocks][: 2 if n_jobs == 1 else 1]):
            hand, ours = (found[k] for found in seconds.values())
            print(
                f"round {number + 1}, seconds {clock}: by hand {hand:.1f}, by pcer {ours:.1f}, "
                f"ratio {ours / hand:.3f}",
                flush=True,
            )


class Ignorant(ClassifierMixin, BaseEstimator):
    """Learns nothing from anybody: its weights are drawn."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        """Look at nothing but how many features there are."""
        self.classes_ = np.unique(y)
        self.weights_ = np.random.default_rng(self.random_state).normal(size=X.shape[1])
        return self

    def predict_proba(self, X):
        """Chances from the weights."""
        positive = 1 / (1 + np.exp(-X @ self.weights_))
        return np.column_stack([1 - positive, positive])

    def predict(self, X):
        """The likelier label."""
        return self.classes_[(X @ self.weights_ > 0).astype(int)]


def stopping(n_worlds: int = 1_000) -> None:
    alarms, n_splits = dict.fromkeys(NULL_COSTS, 0), []
    for seed in range(n_worlds):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 3))
        y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
        made = pcer.release_from_estimator(
            Ignorant(),
            X,
            y,
            sensitive_features={"side": np.where(rng.random(200) < 0.4, "f", "m")},
            outcome="benefit",
            n_splits=8,
            until_detectable=0.085,
            max_splits=40,
            random_state=seed,
            public_data=True,
            progress=False,
        )
        n_splits.append(len(made.runs))
        for cost in NULL_COSTS:
            plan = pcer.Plan(cost=cost, resamples=2, null_draws=2)
            groups = pcer.audit(made, plan).budgets[0].groups.values()
            alarms[cost] += any(group.resolved for group in groups)
    spread = np.quantile(n_splits, [0, 0.25, 0.5, 0.75, 1]).tolist()
    print(f"{n_worlds} worlds, splits (quartiles): {spread}")
    for cost, n in alarms.items():
        print(f"{cost}: {n} alarms, {100 * n / n_worlds:.1f} %")


if __name__ == "__main__":
    verbs = {"overhead": overhead, "stopping": stopping}
    verbs[sys.argv[1]](*map(int, sys.argv[2:]))
