"""What is fitted: estimators by name and budget, checked before anything is, and told apart."""

from __future__ import annotations

import importlib.util
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pcer._version import __version__
from pcer.errors import InputError, not_installed

BudgetParameter = Mapping[str, Sequence[float | None]]


class Candidate(NamedTuple):
    """One setting: the name of its model (None if there is but one), its budget, what is fitted."""

    model: str | None
    epsilon: float
    estimator: Any

    @property
    def name(self) -> str:
        """For sentences: the model's own name or that of its class, and its budget."""
        budget = "" if math.isinf(self.epsilon) else f", epsilon {self.epsilon:g}"
        return f"{self.model or type(self.estimator).__name__}{budget}"

    @property
    def has_probabilities(self) -> bool:
        """Whether it will give probabilities once it is fitted."""
        return hasattr(self.estimator, "predict_proba")


def require_sklearn() -> None:
    """Raise InputError, with the command to type, unless scikit-learn is installed."""
    for module, package in (("sklearn", "scikit-learn"), ("joblib", "joblib")):
        if importlib.util.find_spec(module) is None:
            raise not_installed(package, extra="sklearn", needed_by="release_from_estimator")


def candidates_of(estimator: Any, epsilon: Any, budgets: BudgetParameter | None) -> list[Candidate]:
    """Every setting, in the order given."""
    named = dict(estimator) if isinstance(estimator, Mapping) else {None: estimator}
    if not named:
        raise InputError("estimator is an empty dict; name at least one estimator.")
    for name, one in named.items():
        _require_estimator(one, "estimator" if name is None else f"estimator {name!r}")
    if budgets is not None:
        return [
            one for name, own in named.items() for one in _budgeted(name, own, epsilon, budgets)
        ]
    return [
        Candidate(name, _budget(_epsilon_of(epsilon, name)), one) for name, one in named.items()
    ]


def described(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """For ``training.config``: the class of every model and those of its settings that are numbers.

    Texts and objects are left out: a category's name may be among them.
    """
    return {
        one.name: {"class": _class_name(one.estimator), **_numbers(one.estimator)}
        for one in candidates
    }


def versions(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Versions of Python, pcer and the packages that the estimators come from."""
    every = [part for one in candidates for part in _parts(one.estimator)]
    packages = {"numpy", "sklearn", *(type(part).__module__.partition(".")[0] for part in every)}
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in sorted(packages)}
    return {
        "python": platform.python_version(),
        "pcer": __version__,
        **{name: one for name, one in found.items() if isinstance(one, str)},
    }


def fingerprint(candidate: Candidate) -> str:
    """What an estimator's rows are called in a store: by its class, settings and versions."""
    import joblib
    from sklearn.base import clone

    try:
        digest = joblib.hash(clone(candidate.estimator), hash_name="sha1")
    except Exception as error:  # pickling raises whatever it meets
        raise InputError(
            f"store= needs an estimator that can be told from others, but {candidate.name} holds "
            f"what cannot be pickled ({type(error).__name__}), such as a lambda; define it in a "
            "module, or leave store out."
        ) from None
    return str(joblib.hash((digest, versions([candidate])), hash_name="sha1"))


def _require_estimator(estimator: Any, where: str) -> None:
    from sklearn.base import clone, is_regressor

    kind = getattr(estimator, "__name__", type(estimator).__name__)
    if isinstance(estimator, type):
        raise InputError(f"{where} is the class {kind}; give an object: {kind}().")
    for method in ("fit", "predict", "get_params", "set_params"):
        if not hasattr(estimator, method):
            raise InputError(
                f"{where} ({kind}) has no {method}, and it has to be fitted anew on every split; "
                "give an estimator with scikit-learn's protocol, or score the records yourself and "
                "use release_from_predictions."
            )
    if kind == "FrozenEstimator":
        raise InputError(
            f"{where} is frozen and cannot be fitted anew; give the estimator inside it."
        )
    try:
        clone(estimator)
    except (TypeError, RuntimeError):
        raise InputError(
            f"{where} ({kind}) cannot be cloned; let its __init__ keep every argument unchanged "
            "under its own name, as scikit-learn asks."
        ) from None
    if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
        raise InputError(f"{where} ({kind}) is a regressor; give a classifier.")


def _epsilon_of(epsilon: Any, name: str | None) -> float | None:
    if not isinstance(epsilon, Mapping):
        return None if epsilon is None else float(epsilon)
    if name not in epsilon:
        raise InputError(f"epsilon names no budget for {name!r}; add it, None without privacy.")
    return None if epsilon[name] is None else float(epsilon[name])


def _budgeted(
    name: str | None, estimator: Any, epsilon: Any, budgets: BudgetParameter
) -> list[Candidate]:
    from sklearn.base import clone

    if epsilon is not None or len(budgets) != 1:
        raise InputError(
            'give either epsilon or budgets, and as budgets one parameter: {"epsilon": [1, 10]}.'
        )
    ((parameter, values),) = budgets.items()
    if parameter not in estimator.get_params():
        kind = type(estimator).__name__
        raise InputError(
            f"budgets names the parameter {parameter!r}, which {kind} does not have; in a pipeline "
            'it is called like "step__epsilon".'
        )
    amounts = [_budget(value) for value in values]
    if not amounts or len(set(amounts)) < len(amounts):
        raise InputError("budgets must give at least one epsilon, and none twice.")
    made = [clone(estimator).set_params(**{parameter: amount}) for amount in amounts]
    return [Candidate(name, *both) for both in zip(amounts, made, strict=True)]


def _budget(value: float | None) -> float:
    budget = math.inf if value is None else float(value)
    if not budget > 0:
        raise InputError(f"epsilon must be above 0, not {value!r}; None means without privacy.")
    return budget


def _parts(estimator: Any) -> list[Any]:
    """An estimator and those inside it."""
    inside = estimator.get_params(deep=True).values()
    return [estimator, *(one for one in inside if hasattr(one, "get_params"))]


def _class_name(estimator: Any) -> str:
    kind = type(estimator)
    steps = [type(part).__name__ for part in _parts(estimator)[1:] if not isinstance(part, type)]
    within = f" ({', '.join(dict.fromkeys(steps))})" if steps else ""
    return f"{kind.__module__}.{kind.__qualname__}{within}"


def _numbers(estimator: Any) -> dict[str, float]:
    """Settings that are finite numbers, or yes and no."""
    return {
        name: value
        for name, value in sorted(estimator.get_params(deep=True).items())
        if isinstance(value, bool | int | float) and math.isfinite(value)
    }
