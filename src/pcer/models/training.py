"""What is trained? Estimators and training functions, each in all its settings.

A setting is a model and a budget. ``estimator`` calls ``candidates_of`` before anything
is fitted, and writes ``described`` and ``versions`` into the release; ``fits`` trains
the candidates. ``cli`` and ``train`` find by ``object_named`` what users call
``package.module:Name``. To add what can be trained: a case of ``candidates_of`` and
``unfit``.
"""

from __future__ import annotations

import importlib
import math
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import ROUND_CEILING, Context
from inspect import signature
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pcer._version import __version__
from pcer.errors import InputError, as_code, clipped

Train = Callable[[Any, Any, int], Any]

EPSILON_DIGITS = 6  # of what one model spent: as many as 32 bits keep
PROTOCOL = ("fit", "predict", "get_params", "set_params")


class Candidate(NamedTuple):
    """One setting: a model, its budget and its estimator."""

    model: str | None  # None if there is only one
    epsilon: float  # infinite without privacy, NaN if only a trained model knows it
    estimator: Any

    @property
    def name(self) -> str:
        """For sentences: the model's name or that of its class, and its budget."""
        budget = f", epsilon {self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        return f"{self.model or _kind(self.estimator)}{budget}"

    @property
    def has_probabilities(self) -> bool:
        """Whether it will give probabilities once it is fitted."""
        return hasattr(self.estimator, "predict_proba")

    @property
    def is_function(self) -> bool:
        """Whether it is a training function."""
        return isinstance(self.estimator, Trainer)


def candidates_of(
    estimator: Any, epsilon: Any, budgets: Mapping[str, Sequence[float | None]] | None
) -> list[Candidate]:
    """Every setting, in the order given, checked before anything is fitted."""
    is_one = isinstance(budgets, Mapping) and len(budgets) == 1
    if budgets is not None and (epsilon is not None or not is_one):
        raise InputError(
            "give either epsilon or budgets, and as budgets one parameter: "
            '{"epsilon": [1]}.',
            field="budgets",
        )
    named = dict(estimator) if isinstance(estimator, Mapping) else {None: estimator}
    if not named:
        raise unfit("estimator", "is an empty dict; name at least one estimator")
    for name, model in named.items():
        where = "estimator" if name is None else f"estimator {name!r}"
        _require_estimator(model, where)
    if budgets is not None:
        return _with_each_budget(named, budgets)

    if not isinstance(epsilon, Mapping):
        epsilon = dict.fromkeys(named, epsilon)
    candidates = []
    for name, model in named.items():
        if name not in epsilon:
            raise InputError(
                f"epsilon names no budget for {name!r}; add it, None without privacy.",
                field="epsilon",
            )
        candidates.append(Candidate(name, budget_of(epsilon[name]), model))
    return candidates


def _with_each_budget(
    named: Mapping[Any, Any], budgets: Mapping[str, Sequence[float | None]]
) -> list[Candidate]:
    from sklearn.base import clone

    ((parameter, values),) = budgets.items()
    wanted = list(map(budget_of, values))
    is_double = len(set(wanted)) < len(wanted)
    has_it = all(parameter in model.get_params() for model in named.values())
    if not wanted or is_double or not has_it:
        raise InputError(
            "budgets must give at least one epsilon, and none twice, for a parameter "
            f"that the estimator has, not {parameter!r}; in a pipeline it is called "
            'like "step__epsilon".',
            field="budgets",
        )
    candidates = []
    for (name, model), budget in product(named.items(), wanted):
        with_budget = clone(model).set_params(**{parameter: budget})
        candidates.append(Candidate(name, budget, with_budget))
    return candidates


def _require_estimator(estimator: Any, where: str) -> None:
    """Raise InputError unless it is a classifier that can be fitted again and again."""
    from sklearn.base import clone, is_regressor

    kind = _kind(estimator)
    if isinstance(estimator, type):
        raise unfit(where, f"is the class {kind}; give an object: {kind}()")
    for method in PROTOCOL:
        if not hasattr(estimator, method):
            raise unfit(
                where,
                f"({kind}) has no {method}, and it must be fitted on every split; give "
                "an estimator with scikit-learn's protocol, several as a dict by name, "
                "or what trains any other model to release_from_training",
            )
    if kind == "FrozenEstimator":
        raise unfit(
            where, "is frozen and cannot be fitted again; give the estimator inside it"
        )
    if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
        raise unfit(where, f"({kind}) is a regressor; give a classifier")
    try:
        clone(estimator)
    except (TypeError, RuntimeError):
        raise unfit(
            where,
            f"({kind}) cannot be cloned; let its __init__ keep every argument "
            "unchanged under its own name, as scikit-learn asks",
        ) from None


def _kind(estimator: Any) -> str:
    return getattr(estimator, "__name__", type(estimator).__name__)


def unfit(where: str, reason: str) -> InputError:
    """What is wrong with an estimator."""
    return InputError(f"{where} {reason}.", field="estimator")


def budget_of(value: Any) -> float:
    """A budget that a user gives: infinite for None, NaN for a function of models."""
    if callable(value):
        return math.nan  # known of every model once it is trained
    with suppress(TypeError, ValueError):
        budget = math.inf if value is None else float(value)
        if budget > 0:
            return budget
    raise InputError(
        f"epsilon must be one number above 0, not {as_code(value)}; None means without "
        "privacy.",
        field="epsilon",
    )


def rounded_up(number: float, digits: int) -> float:
    """The number with so many significant digits, never less than it was.

    >>> rounded_up(0.56, 2), rounded_up(1.961, 2), rounded_up(12.01, 2)
    (0.56, 2.0, 13.0)
    """
    upwards = Context(prec=digits, rounding=ROUND_CEILING)
    return float(upwards.create_decimal(str(number)))


def described(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """For ``training.config``: by setting its classes, and parameters that are numbers.

    Texts may name a category of the data, so they are left out.
    """
    described = {}
    for candidate in candidates:
        estimator, *inside = _parts(candidate.estimator)
        kind = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
        steps = dict.fromkeys(
            type(part).__name__ for part in inside if not isinstance(part, type)
        )
        if steps:
            kind += f" ({', '.join(steps)})"
        parameters = estimator.get_params(deep=True)
        numbers = {
            parameter: value
            for parameter, value in sorted(parameters.items())
            if isinstance(value, bool | int | float) and math.isfinite(value)
        }
        described[candidate.name] = {"class": kind, **numbers}
    return described


def versions(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Versions of Python, pcer and the packages that the estimators come from."""
    packages = {"numpy", "sklearn"}
    for candidate in candidates:
        for part in _parts(candidate.estimator):
            packages.add(type(part).__module__.partition(".")[0])
    found = {"python": platform.python_version(), "pcer": __version__}
    for name in sorted(packages):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def _parts(estimator: Any) -> list[Any]:
    """An estimator and those inside it."""
    inside = estimator.get_params(deep=True).values()
    return [estimator, *(part for part in inside if hasattr(part, "get_params"))]


def trainers_of(train: Train | Mapping[str, Train], epsilon: Any, version: Any) -> Any:
    """A training function as an estimator, or several by name."""
    if not isinstance(train, Mapping):
        return Trainer(train, epsilon, version)
    if not isinstance(epsilon, Mapping):
        epsilon = dict.fromkeys(train, epsilon)
    return {
        name: Trainer(function, epsilon.get(name), version)
        for name, function in train.items()
    }


class Trainer:
    """A training function with scikit-learn's protocol; ``makers`` has another kind."""

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
        """What is set, by name; a function has no parameters that are known."""
        return {"random_state": self.random_state, "version": self.version}

    def set_params(self, **params: Any) -> None:
        """Set the random state, which is the seed that the function gets."""
        self.__dict__ |= params

    def __sklearn_clone__(self) -> Trainer:
        return Trainer(self.train, self.epsilon, self.version)

    def fit(self, X: Any, y: Any) -> Any:
        """What the function trained, as a model with ``predict_proba``."""
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


@contextmanager
def folder_first(folder: Path) -> Iterator[None]:
    """Import from a folder before all others, as ``python -m`` does with its own."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def object_named(name: str, *, folder: Path, example: str) -> Any:
    """The callable that ``package.module:Name`` names, installed or in the folder.

    >>> object_named("math:sqrt", folder=Path(), example="a:b")(9.0)
    3.0
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(
            f"the name must be package.module:Name, such as {example}, not {name!r}."
        )
    importlib.invalidate_caches()  # the folder may have changed just now
    try:
        with folder_first(folder):
            named = getattr(importlib.import_module(module), attribute, None)
    except (Exception, SystemExit) as error:  # user code may fail in any way
        fault = clipped(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{module} cannot be imported ({fault}); install it, or go to its folder, "
            "and check that it can be imported in Python."
        ) from error
    if named is None:
        raise InputError(
            f"{module} has no {attribute}; check the name after the colon."
        )
    if not callable(named):
        raise InputError(
            f"{name} is {type(named).__name__} and cannot be called; name a class or a "
            "function."
        )
    return named
