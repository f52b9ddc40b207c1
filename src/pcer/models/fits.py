"""Estimators fitted on many splits, in as many processes as wanted.

A model gives two things for every record: its log odds of the true class, and whether
it predicts the positive label. Both depend on the split only, not on how many fits run
at once. With a store each finished model is a file, so that an interrupted call
resumes.
"""

from __future__ import annotations

import math
import os
import platform
import random
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer._version import __version__
from pcer.attacks import log_odds
from pcer.errors import InputError, as_code, clipped
from pcer.metrics import BoolArray, IntArray
from pcer.models.labels import is_named
from pcer.models.options import Options
from pcer.models.splits import LEAST_SECRET, TRAINING_STREAM, Splits, stream
from pcer.release.columns import Coded, column_of, text_of
from pcer.store import blocks
from pcer.store.processes import die_with

FloatRow = npt.NDArray[np.float32]
OnProgress = Callable[[int, int], None]

LARGEST_SEED = 2**31
EPSILON_DIGITS = 6  # of what one model spent: as many as 32 bits keep
LONGEST_FAULT = 300  # characters of an error that is not ours
CERTAIN = 36.0  # log odds beyond it are of a probability that is 0 or 1 in 64 bits
ALL_CERTAIN = (
    "Every probability of {} is 0 or 1: attacks by confidence see its answers alone."
)


class Candidate(NamedTuple):
    """One setting: the name of its model (None if there is only one), its budget, its estimator."""

    model: str | None
    epsilon: float
    estimator: Any

    @property
    def name(self) -> str:
        """For sentences: the model's name or that of its class, and its budget."""
        budget = f", epsilon {self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        kind = getattr(self.estimator, "__name__", type(self.estimator).__name__)
        return f"{self.model or kind}{budget}"

    @property
    def has_probabilities(self) -> bool:
        """Whether it will give probabilities once it is fitted."""
        return hasattr(self.estimator, "predict_proba")


def candidates_of(
    estimator: Any, epsilon: Any, budgets: Mapping[str, Sequence[float | None]] | None
) -> list[Candidate]:
    """Every setting, in the order given, checked before anything is fitted."""
    from sklearn.base import clone

    named = dict(estimator) if isinstance(estimator, Mapping) else {None: estimator}
    if not named:
        raise _unfit("estimator", "is an empty dict; name at least one estimator")
    for name, own in named.items():
        _require_estimator(own, "estimator" if name is None else f"estimator {name!r}")
    if budgets is None:
        amounts = (
            epsilon if isinstance(epsilon, Mapping) else dict.fromkeys(named, epsilon)
        )
        if absent := [name for name in named if name not in amounts]:
            raise InputError(
                f"epsilon names no budget for {absent[0]!r}; add it, None without privacy.",
                field="epsilon",
            )
        return [
            Candidate(name, budget_of(amounts[name]), own)
            for name, own in named.items()
        ]
    ((parameter, values),) = budgets.items()
    wanted = [budget_of(value) for value in values]
    has_it = all(parameter in own.get_params() for own in named.values())
    if not wanted or len(set(wanted)) < len(wanted) or not has_it:
        raise InputError(
            "budgets must give at least one epsilon, and none twice, for a parameter that the "
            f'estimator has, not {parameter!r}; in a pipeline it is called like "step__epsilon".',
            field="budgets",
        )
    return [
        Candidate(name, amount, clone(own).set_params(**{parameter: amount}))
        for name, own in named.items()
        for amount in wanted
    ]


def described(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """For ``training.config``: classes and settings that are numbers; texts may name a category."""
    found = {}
    for candidate in candidates:
        kind = type(candidate.estimator)
        (_, *inside) = _parts(candidate.estimator)
        steps = dict.fromkeys(
            type(p).__name__ for p in inside if not isinstance(p, type)
        )
        within = f" ({', '.join(steps)})" if steps else ""
        numbers = {
            name: value
            for name, value in sorted(candidate.estimator.get_params(deep=True).items())
            if isinstance(value, bool | int | float) and math.isfinite(value)
        }
        name = f"{kind.__module__}.{kind.__qualname__}{within}"
        found[candidate.name] = {"class": name, **numbers}
    return found


def versions(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Versions of Python, pcer and the packages that the estimators come from."""
    every = [part for candidate in candidates for part in _parts(candidate.estimator)]
    packages = {
        "numpy",
        "sklearn",
        *(type(part).__module__.partition(".")[0] for part in every),
    }
    found = {
        name: getattr(sys.modules.get(name), "__version__", None)
        for name in sorted(packages)
    }
    return {
        "python": platform.python_version(),
        "pcer": __version__,
        **{
            name: version for name, version in found.items() if isinstance(version, str)
        },
    }


def _parts(estimator: Any) -> list[Any]:
    """An estimator and those inside it."""
    inside = estimator.get_params(deep=True).values()
    return [estimator, *(part for part in inside if hasattr(part, "get_params"))]


def rounded_up(number: float, digits: int) -> float:
    """The number with so many significant digits, never less than it was.

    >>> rounded_up(0.56, 2), rounded_up(1.961, 2), rounded_up(12.01, 2)
    (0.56, 2.0, 13.0)
    """
    return float(
        Context(prec=digits, rounding=ROUND_CEILING).create_decimal(str(number))
    )


def budget_of(value: Any) -> float:
    """A budget that a user gives: infinite for None, NaN for a function of models."""
    if callable(value):
        return math.nan  # known of every model once it is trained
    with suppress(TypeError, ValueError):
        if (budget := math.inf if value is None else float(value)) > 0:
            return budget
    raise InputError(
        f"epsilon must be one number above 0, not {as_code(value)}; None means without privacy.",
        field="epsilon",
    )


def _require_estimator(estimator: Any, where: str) -> None:
    from sklearn.base import clone, is_regressor

    kind = getattr(estimator, "__name__", type(estimator).__name__)
    methods = ("fit", "predict", "get_params", "set_params")
    if isinstance(estimator, type):
        fault = f"is the class {kind}; give an object: {kind}()"
    elif absent := [name for name in methods if not hasattr(estimator, name)]:
        fault = (
            f"({kind}) has no {absent[0]}, and it must be fitted on every split; give "
        )
        fault += "an estimator with scikit-learn's protocol, several as a dict by name, or what "
        fault += "trains any other model to release_from_training"
    elif kind == "FrozenEstimator":
        fault = "is frozen and cannot be fitted again; give the estimator inside it"
    elif hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
        fault = f"({kind}) is a regressor; give a classifier"
    else:
        try:
            clone(estimator)
            return
        except (TypeError, RuntimeError):
            fault = f"({kind}) cannot be cloned; let its __init__ keep every argument unchanged "
            fault += "under its own name, as scikit-learn asks"
    raise _unfit(where, fault)


def _unfit(where: str, reason: str) -> InputError:
    return InputError(f"{where} {reason}.", field="estimator")


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Features, labels and owners of the records that estimators are fitted to."""

    X: Any  # features as given: an array, a frame, a sparse matrix, a list
    y: npt.NDArray[Any]  # (record,) labels as given
    classes: Coded  # the labels by name
    positive: str  # the name of the positive one
    persons: (
        IntArray | None
    )  # (record,) who has it, from 0; None where nobody has several

    @property
    def is_positive(self) -> BoolArray:
        """(record,) whether the label is the positive one."""
        return is_named(self.classes, self.positive)


# One model's answers by record: log odds of the true class (without probabilities +1
# where correct and -1 where not), and whether it predicts the positive label; and the
# epsilon that it spent, NaN where nothing says so.
Answers = tuple[FloatRow, BoolArray, Any]
Key = tuple[int, int]  # a model: the position of its setting, and its split


class _Failure(NamedTuple):
    """Why a model failed: part of a sentence, and the traceback."""

    fault: str
    trace: str = ""


def fit_all(
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
    options: Options,
    on_progress: OnProgress,
) -> list[Answers]:
    """What each setting's models say on every split: arrays (split, record), and (split,) epsilons.

    InputError says of which split and model, what went wrong there, and what is kept.
    """
    store = None if options.store is None else Path(options.store)
    keys = [(at, s) for s in range(len(splits.train)) for at in range(len(candidates))]
    with _opened(store, candidates, records, splits, random_state) as (found, keep):
        missing = [key for key in keys if key not in found]
        on_progress(len(keys) - len(missing), len(keys))
        calls = [
            ((at, s), candidates[at], records, splits.train[s], random_state)
            for at, s in missing
        ]
        finished = _fitted(calls, options.n_jobs)
        try:
            for done, (key, answers) in enumerate(
                finished, start=len(keys) - len(missing) + 1
            ):
                if isinstance(answers, _Failure):
                    kept = f"finished models are kept in {store} ({len(found)})"
                    if store is None:
                        version = ", version=1" * hasattr(
                            candidates[key[0]].estimator, "spent"
                        )
                        kept = f"options=pcer.Options(store='kept'{version}) keeps finished splits"
                    model = f"{candidates[key[0]].name} failed in split {key[1] + 1}:"
                    cause = RuntimeError(answers.trace) if answers.trace else None
                    raise _unfit(model, f"{answers.fault}; {kept}") from cause
                found[key] = answers
                keep(key, answers)
                on_progress(done, len(keys))
        finally:
            with warnings.catch_warnings():  # joblib warns about abandoned tasks
                warnings.simplefilter("ignore", UserWarning)
                finished.close()
    rows = [
        [found[at, s] for s in range(len(splits.train))]
        for at in range(len(candidates))
    ]
    whole = ((np.array(part) for part in zip(*own, strict=True)) for own in rows)
    return [(of_truth, predicted, spent) for of_truth, predicted, spent in whole]


@contextmanager
def _opened(
    store: Path | None,
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
) -> Iterator[tuple[dict[Key, Answers], Callable[[Key, Answers], None]]]:
    """What a store has already, and what keeps more in it; warns of what does not count."""
    found: dict[Key, Answers] = {}
    if store is None:
        yield found, lambda key, answers: None
        return
    import joblib

    names = [_fingerprint(candidate) for candidate in candidates]
    n = len(records.y)
    identity: blocks.Settings = {  # what all models of a store depend on
        "kind": "estimator",
        "records": joblib.hash((records.X, records.y, records.persons), "sha1"),
        **splits.identity,
        # in sentences, too: a secret one goes by its digest
        "random_state": random_state
        if random_state < LEAST_SECRET
        else blocks.record_digest({"random_state": random_state}),
        "positive_label": records.positive,
    }

    def keep(key: Key, answers: Answers) -> None:
        blocks.save_block(
            store,
            [(names[key[0]], key[1])],
            np.hstack(answers, dtype=np.float32)[None],
            made_with=versions(candidates),
            settings=blocks.settings_digest(identity, added={}),
        )

    with blocks.owned(store):
        for note in blocks.resume_folder(
            store, identity, added={}, n_columns=2 * n + 1
        ):
            warnings.warn(note, stacklevel=5)
        for block in blocks.finished_blocks(store):
            rows = blocks.load_block(block, 2 * n + 1)
            for (name, split), row in zip(block.keys, rows, strict=True):
                if name in names:
                    spent = float(f"{row[-1]:.{EPSILON_DIGITS}g}")
                    found[names.index(name), split] = (
                        np.array(row[:n]),
                        row[n:-1] == 1,
                        spent,
                    )
        yield found, keep


def _fitted(
    calls: Sequence[Any], n_jobs: int | None
) -> Generator[tuple[Key, Answers | _Failure], None, None]:
    """Every model's answers as soon as they are ready, by any joblib backend."""
    from joblib import Parallel, delayed
    from joblib.parallel import LokyBackend, get_active_backend

    backend, n_active = get_active_backend()
    options: dict[str, Any] = {"return_as": "generator_unordered"}
    step = max(len(calls), 1)
    if isinstance(
        backend, LokyBackend
    ):  # local processes must end with us; a cluster's cannot
        is_main = threading.current_thread() is threading.main_thread()
        options.update(initializer=die_with, initargs=(os.getpid(), is_main))
    if (
        not backend.supports_return_generator
    ):  # then in batches, to keep finished models
        options = {"return_as": "list"}
        step = max(1, n_jobs or n_active)
    for first in range(0, len(calls), step):
        pool = Parallel(n_jobs=n_jobs, batch_size=1, **options)
        yield from pool(delayed(_fit)(*call) for call in calls[first : first + step])


def _fingerprint(candidate: Candidate) -> str:
    """Name of an estimator's rows in a store, from its class, settings and versions."""
    import joblib
    from sklearn.base import clone

    own = candidate.estimator
    try:  # of a training function only its name and version are known
        kept = (candidate.name, own.version) if hasattr(own, "spent") else clone(own)
        digest = joblib.hash(kept, hash_name="sha1")
    except Exception as error:  # pickling raises whatever it meets
        raise InputError(
            f"store= needs an estimator that can be pickled, but {candidate.name} cannot "
            f"({type(error).__name__}); define lambdas in a module, or leave store out.",
            field="store",
        ) from None
    return str(joblib.hash((digest, versions([candidate])), hash_name="sha1"))


def _fit(
    key: Key, candidate: Candidate, records: Records, rows: IntArray, random_state: int
) -> tuple[Key, Answers | _Failure]:
    """Fit one model and return its answers; failures are returned, not raised."""
    from sklearn.base import clone

    # Training functions draw noise from it, which no two models may share.
    drawn = stream(random_state, TRAINING_STREAM, key[1]).integers(
        LARGEST_SEED, size=1 + key[0]
    )
    seed = int(drawn[key[0] if hasattr(candidate.estimator, "spent") else 0])
    try:
        with _alone(seed):
            fresh = clone(candidate.estimator)
            unset = {  # open random states get this split's seed
                name: seed
                for name, value in fresh.get_params(deep=True).items()
                if name.rpartition("__")[2] == "random_state"
                and not isinstance(value, Integral)
            }
            fresh.set_params(**unset)
            fitted = fresh.fit(_taken(records.X, rows), records.y[rows])
            answers = _asked(fitted, records, candidate.has_probabilities)
            if isinstance(answers, _Failure):
                return key, answers
            return key, (*answers, getattr(fresh, "spent", math.nan))
    except Exception as error:  # an estimator may raise anything
        words = clipped(" ".join(str(error).split()), LONGEST_FAULT)
        fault = (
            f'"{words}" ({type(error).__name__}, traceback above); fix it and run again'
        )
        if "string to float" in words:
            fault += " (Options(drop_sensitive=True) leaves out what sensitive_features names)"
        return key, _Failure(fault, traceback.format_exc())


def _taken(X: Any, rows: IntArray) -> Any:
    """Some rows of features of any kind, in the same kind."""
    import narwhals as nw

    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    return (X.tocsr() if hasattr(X, "tocsr") else X)[rows]


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Seed the global random streams for a fit, on one core: rounding depends on their number."""
    from threadpoolctl import threadpool_limits

    plain = random.getstate()
    legacy = np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")  # if somebody has loaded it
    try:
        with ExitStack() as held:
            held.enter_context(threadpool_limits(1, user_api="blas"))
            if torch is not None:
                held.enter_context(torch.random.fork_rng(devices=[]))
                torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 (the stream of estimators that know no other)
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002


def _asked(
    fitted: Any, records: Records, has_probabilities: bool
) -> tuple[FloatRow, BoolArray] | _Failure:
    """A fitted model's answers for every record; a function gives probabilities only."""
    predicted = None
    positive = records.is_positive
    probability: npt.NDArray[np.float64] = np.empty(0)
    if has_probabilities:
        given = fitted.predict_proba(records.X)
        given = given.detach().cpu() if hasattr(given, "detach") else given  # torch
        probability = np.asarray(given, dtype=np.float64)
    if hasattr(fitted, "predict"):
        answers = column_of(np.ravel(fitted.predict(records.X)), "predict")
        predicted = is_named(answers, records.positive)
    if not has_probabilities:
        return np.where(predicted == positive, 1, -1).astype(np.float32), np.asarray(
            predicted
        )
    if n_bad := int((~((probability >= 0) & (probability <= 1))).sum()):
        return _Failure(
            f"predict_proba gave {n_bad:,} values that are not between 0 and 1; apply the sigmoid "
            "or softmax to logits, scale the features, or choose a model that converges"
        )
    is_label = (
        getattr(fitted.predict_proba, "__name__", "") == "predict"
    )  # or that of Keras
    if is_label and np.isin(probability, (0, 1)).all():
        return _Failure(
            "predict gave labels, not probabilities; return the model's predict_proba"
        )
    labels = getattr(fitted, "classes_", None)
    classes = records.classes
    names = (
        classes.names
        if labels is None
        else [text_of(c) for c in np.asarray(labels).tolist()]
    )
    if predicted is None and probability.size == len(
        positive
    ):  # of the positive label alone
        one = probability.reshape(-1, 1)
        probability = np.where(np.array(names) == records.positive, one, 1 - one)
    if probability.shape != (len(records.y), len(names)):
        return _Failure(
            f"predict_proba gave shape {probability.shape} for {len(records.y):,} records and "
            f"{len(names)} classes; let it give a column for each class"
        )
    if predicted is None:
        predicted = probability.argmax(axis=1) == names.index(records.positive)
        if len(names) == 2 and not np.allclose(probability.sum(axis=1), 1, atol=1e-3):
            return _Failure(
                "the two columns do not add up to 1; apply the softmax to logits"
            )
    column = np.array(
        [names.index(name) if name in names else -1 for name in classes.names]
    )
    at = column[
        classes.codes
    ]  # a class that the model has never seen has probability 0
    of_truth = np.where(at >= 0, probability[np.arange(len(at)), at], 0.0)
    return log_odds(of_truth).astype(np.float32), predicted
