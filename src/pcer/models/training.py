"""From any way to train to a release: a function that trains, called on many splits.

The function is wrapped with scikit-learn's protocol and handed to ``estimator``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from inspect import signature
from types import SimpleNamespace
from typing import Any

from pcer.errors import InputError
from pcer.metrics import DEFAULT_SPLITS
from pcer.models.about import About
from pcer.models.candidates import rounded_up
from pcer.models.estimator import release_from_estimator
from pcer.models.fits import EPSILON_DIGITS, OnProgress
from pcer.models.splits import TEST_SIZE
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.records import Outcome

Train = Callable[[Any, Any, int], Any]


def release_from_training(  # noqa: PLR0913 # a front door
    train: Train | Mapping[str, Train],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    outcome: Outcome,
    n_splits: int = DEFAULT_SPLITS,
    positive_label: str | int | float | bool | None = None,
    test_size: float = TEST_SIZE,
    cv: Any = None,
    person_id: Any = None,
    drop_sensitive: bool = False,
    epsilon: Any = None,
    dp_delta: float | None = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | OnProgress = True,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
    version: str | int | float | None = None,
) -> Release:
    """Train by your own function on many random splits: Opacus, Keras, a service.

    The arguments that are not named here are those of ``release_from_estimator``. One
    model is trained after another unless ``n_jobs`` is set.

    Args:
        train: called as ``train(X_train, y_train, seed)``; returns what has
            ``predict_proba``, or a function of records to probabilities: of the
            positive label, or a column for each label in sorted order. Several by name
            become the models of one release.
        X: features of all records.
        y: labels.
        sensitive_features: the group of each record.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        epsilon: the budget; or a function that gives what the model that ``train``
            returned has spent: the largest then counts, rounded up to two digits, and
            ``training.config`` has all. Of several functions a dict by name.
        store: folder that keeps every finished model; it needs a ``version``.
        version: what you call the present state of the function, since nobody sees
            whether it has changed: change it with the function.

    Raises:
        InputError: one sentence that names the argument or the split, and the remedy.
    """
    if store is not None and version is None:
        raise InputError(
            "a store needs the version of your function, which only you know: "
            "store=..., version=1; change it when the function changes.",
            field="version",
        )
    functions = dict(train) if isinstance(train, Mapping) else {None: train}
    budgets = epsilon
    if not isinstance(epsilon, Mapping):
        budgets = dict.fromkeys(functions, epsilon)
    trainers = {
        name: _Trainer(function, budgets.get(name), version)
        for name, function in functions.items()
    }
    return release_from_estimator(
        trainers if isinstance(train, Mapping) else trainers[None],
        X,
        y,
        sensitive_features=sensitive_features,
        outcome=outcome,
        n_splits=n_splits,
        positive_label=positive_label,
        test_size=test_size,
        cv=cv,
        person_id=person_id,
        drop_sensitive=drop_sensitive,
        epsilon=epsilon,
        dp_delta=dp_delta,
        random_state=random_state,
        n_jobs=n_jobs,
        store=store,
        progress=progress,
        about=about,
        disclosure=disclosure,
    )


class _Trainer:
    """A training function with scikit-learn's protocol; see ``Candidate``."""

    predict = predict_proba = None  # those of what it returns
    random_state: Any = None
    spent = math.nan  # the epsilon of the model, where a function tells it

    def __init__(self, train: Train, epsilon: Any, version: Any) -> None:
        if not _is_training_function(train):
            raise InputError(
                "train must be a function: train(X_train, y_train, seed); for what has "
                "fit, release_from_estimator.",
                field="train",
            )
        self.train = train
        self.epsilon = epsilon
        self.version = version
        self.__name__ = getattr(train, "__name__", type(train).__name__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"random_state": self.random_state, "version": self.version}

    def set_params(self, **params: Any) -> None:
        self.__dict__ |= params

    def __sklearn_clone__(self) -> _Trainer:
        return _Trainer(self.train, self.epsilon, self.version)

    def fit(self, X: Any, y: Any) -> Any:
        model = self.train(X, y, self.random_state)
        has_method = hasattr(model, "predict_proba")
        if not has_method and not callable(model):
            raise InputError(
                f"it returned {type(model).__name__}; return a model with "
                "predict_proba, or a function of records to probabilities"
            )
        if callable(self.epsilon):
            stated = self.epsilon(model)
            spent = math.inf if stated is None else float(stated)
            self.spent = rounded_up(spent, EPSILON_DIGITS)
            if not self.spent > 0:
                raise InputError(f"epsilon gave {stated!r}, which must be above 0")
        return model if has_method else SimpleNamespace(predict_proba=model)


def _is_training_function(train: Any) -> bool:
    if not callable(train) or isinstance(train, type) or hasattr(train, "fit"):
        return False
    try:
        signature(train).bind(1, 2, 3)
    except TypeError:
        return False
    except ValueError:  # a callable that tells nothing of its arguments
        return True
    return True
