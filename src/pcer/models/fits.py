"""Estimators fitted on many splits, in as many processes as wanted.

A model says two things of every record: its log odds of the true class, and whether the answer is
the positive label. A split alone decides them, not how many run at once. With a store each finished
model's answers are a file, so a killed call goes on where it was.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer._version import __version__
from pcer.attacks import log_odds
from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.models.labels import is_named
from pcer.models.splits import TRAINING_STREAM, Splits, stream
from pcer.release.columns import Coded, column_of, text_of
from pcer.store import blocks
from pcer.store.processes import die_with

FloatRow = npt.NDArray[np.float32]
OnProgress = Callable[[int, int], None]

LARGEST_SEED = 2**31


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
        amounts = epsilon if isinstance(epsilon, Mapping) else dict.fromkeys(named, epsilon)
        if absent := [name for name in named if name not in amounts]:
            raise InputError(
                f"epsilon names no budget for {absent[0]!r}; add it, None without privacy.",
                field="epsilon",
            )
        return [Candidate(name, _budget(amounts[name]), own) for name, own in named.items()]
    ((parameter, values),) = budgets.items()
    wanted = [_budget(value) for value in values]
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
    """For ``training.config``: the class of every model and those of its settings that are numbers.

    Texts and objects are left out: a category's name may be among them.
    """
    found = {}
    for candidate in candidates:
        kind, (_, *inside) = type(candidate.estimator), _parts(candidate.estimator)
        steps = dict.fromkeys(type(p).__name__ for p in inside if not isinstance(p, type))
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
    packages = {"numpy", "sklearn", *(type(part).__module__.partition(".")[0] for part in every)}
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in sorted(packages)}
    return {
        "python": platform.python_version(),
        "pcer": __version__,
        **{name: version for name, version in found.items() if isinstance(version, str)},
    }


def _parts(estimator: Any) -> list[Any]:
    """An estimator and those inside it."""
    inside = estimator.get_params(deep=True).values()
    return [estimator, *(part for part in inside if hasattr(part, "get_params"))]


def _budget(value: float | None) -> float:
    budget = math.inf if value is None else float(value)
    if not budget > 0:
        raise InputError(
            f"epsilon must be above 0, not {value!r}; None means without privacy.", field="epsilon"
        )
    return budget


def _require_estimator(estimator: Any, where: str) -> None:
    from sklearn.base import clone, is_regressor

    kind = getattr(estimator, "__name__", type(estimator).__name__)
    methods = ("fit", "predict", "get_params", "set_params")
    if isinstance(estimator, type):
        fault = f"is the class {kind}; give an object: {kind}()"
    elif absent := [name for name in methods if not hasattr(estimator, name)]:
        fault = f"({kind}) has no {absent[0]}, and it has to be fitted anew on every split; give "
        fault += "an estimator with scikit-learn's protocol, or score the records yourself and use "
        fault += "release_from_predictions"
    elif kind == "FrozenEstimator":
        fault = "is frozen and cannot be fitted anew; give the estimator inside it"
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
    """What estimators are fitted to, what is asked of them, and who the records are of."""

    X: Any  # features as given: an array, a frame, a sparse matrix, a list
    y: npt.NDArray[Any]  # (record,) labels as given
    classes: Coded  # the labels by name
    positive: str  # the name of the positive one
    persons: IntArray | None  # (record,) who has it, from 0; None where nobody has several
    group: Coded
    attribute: str  # what divides the records into groups

    @property
    def is_positive(self) -> BoolArray:
        """(record,) whether the label is the positive one."""
        return is_named(self.classes, self.positive)


# What one model says, by record: log odds of the true class (without probabilities +1 where it is
# right and -1 where not); and whether the answer is the positive label.
Answers = tuple[FloatRow, BoolArray]
Key = tuple[int, int]  # a model: the position of its setting, and its split


class _Failure(NamedTuple):
    """Why a model could not be had: a sentence's middle, and the traceback."""

    fault: str
    trace: str = ""


def fit_all(
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    *,
    random_state: int,
    n_jobs: int | None,
    store: Path | None,
    on_progress: OnProgress,
) -> list[Answers]:
    """What each setting's models say on every split: arrays (split, record).

    Args:
        candidates: the settings.
        records: what their models are fitted to, and asked about.
        splits: who is trained on.
        random_state: of what estimators leave to chance.
        n_jobs: as for joblib.
        store: folder that keeps finished models; None for none.
        on_progress: called with (models done, models in all).

    Raises:
        InputError: a split and a model, what went wrong there, and what is kept.
    """
    keys = [(at, s) for s in range(len(splits.train)) for at in range(len(candidates))]
    with _opened(store, candidates, records, splits, random_state) as (found, keep):
        missing = [key for key in keys if key not in found]
        on_progress(len(keys) - len(missing), len(keys))
        calls = [
            ((at, s), candidates[at], records, splits.train[s], random_state) for at, s in missing
        ]
        finished = _fitted(calls, n_jobs)
        try:
            for done, (key, answers) in enumerate(finished, start=len(keys) - len(missing) + 1):
                if isinstance(answers, _Failure):
                    n_kept = f"{len(found)} finished model{'' if len(found) == 1 else 's'}"
                    kept = f"the {n_kept} are kept in {store}"
                    kept = "store=DIR would keep finished splits" if store is None else kept
                    model = f"split {key[1] + 1}, {candidates[key[0]].name}:"
                    cause = RuntimeError(answers.trace) if answers.trace else None
                    raise _unfit(model, f"{answers.fault}; {kept}") from cause
                found[key] = answers
                keep(key, answers)
                on_progress(done, len(keys))
        finally:
            with warnings.catch_warnings():  # joblib remarks on tasks that are given up
                warnings.simplefilter("ignore", UserWarning)
                finished.close()
    rows = [[found[at, s] for s in range(len(splits.train))] for at in range(len(candidates))]
    return [(np.array([a for a, _ in own]), np.array([b for _, b in own])) for own in rows]


@contextmanager
def _opened(
    store: Path | None,
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
) -> Iterator[tuple[dict[Key, Answers], Callable[[Key, Answers], None]]]:
    """What a store has already, and what keeps more in it, which is ours meanwhile.

    Warns where what was found there does not count.
    """
    found: dict[Key, Answers] = {}
    if store is None:
        yield found, lambda key, answers: None
        return
    import joblib

    names, n = [_fingerprint(candidate) for candidate in candidates], len(records.y)
    identity: blocks.Settings = {  # what all models of a store depend on
        "kind": "estimator",
        "records": joblib.hash((records.X, records.y, records.persons), "sha1"),
        **splits.identity,
        "random_state": random_state,
        "positive_label": records.positive,
    }

    def keep(key: Key, answers: Answers) -> None:
        blocks.save_block(
            store,
            [(names[key[0]], key[1])],
            np.concatenate(answers, dtype=np.float32)[None],
            made_with=versions(candidates),
            settings=blocks.settings_digest(identity, added={}),
        )

    with blocks.owned(store):
        for note in blocks.resume_folder(store, identity, added={}, n_columns=2 * n):
            warnings.warn(note, stacklevel=5)
        for block in blocks.finished_blocks(store):
            rows = blocks.load_block(block, 2 * n)
            for (name, split), row in zip(block.keys, rows, strict=True):
                if name in names:
                    found[names.index(name), split] = np.array(row[:n]), row[n:] == 1
        yield found, keep


def _fitted(
    calls: Sequence[Any], n_jobs: int | None
) -> Generator[tuple[Key, Answers | _Failure], None, None]:
    """What every model says as soon as it is there, by whatever joblib is told to use."""
    from joblib import Parallel, delayed
    from joblib.parallel import LokyBackend, get_active_backend

    backend, n_active = get_active_backend()
    options: dict[str, Any] = {"return_as": "generator_unordered"}
    step = max(len(calls), 1)
    if isinstance(backend, LokyBackend):  # our own processes end with us, a cluster's do not
        is_main = threading.current_thread() is threading.main_thread()
        options.update(initializer=die_with, initargs=(os.getpid(), is_main))
    if not backend.supports_return_generator:  # then a few at a time, to keep what is finished
        options, step = {"return_as": "list"}, max(1, n_jobs or n_active)
    for first in range(0, len(calls), step):
        pool = Parallel(n_jobs=n_jobs, batch_size=1, **options)
        yield from pool(delayed(_fit)(*call) for call in calls[first : first + step])


def _fingerprint(candidate: Candidate) -> str:
    """What an estimator's rows are called in a store: by its class, settings and versions."""
    import joblib
    from sklearn.base import clone

    try:
        digest = joblib.hash(clone(candidate.estimator), hash_name="sha1")
    except Exception as error:  # pickling raises whatever it meets
        raise InputError(
            f"store= needs an estimator that can be told from others, but {candidate.name} holds "
            f"what cannot be pickled ({type(error).__name__}), such as a lambda; define it in a "
            "module, or leave store out.",
            field="store",
        ) from None
    return str(joblib.hash((digest, versions([candidate])), hash_name="sha1"))


def _fit(
    key: Key, candidate: Candidate, records: Records, rows: IntArray, random_state: int
) -> tuple[Key, Answers | _Failure]:
    """One model, from the estimator to its answers; what goes wrong is given back, not raised."""
    from sklearn.base import clone

    seed = int(stream(random_state, TRAINING_STREAM, key[1]).integers(LARGEST_SEED))
    try:
        with _alone(seed):
            fresh = clone(candidate.estimator)
            unset = {  # random states that are not fixed numbers are this split's
                name: seed
                for name, value in fresh.get_params(deep=True).items()
                if name.rpartition("__")[2] == "random_state" and not isinstance(value, Integral)
            }
            fresh.set_params(**unset)
            fitted = fresh.fit(_taken(records.X, rows), records.y[rows])
            return key, _asked(fitted, records, candidate.has_probabilities)
    except Exception as error:  # whatever an estimator may raise
        fault = f"{type(error).__name__} was raised; mend the estimator or its data and call again"
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
    """Nothing from outside gets into a fit, nor out of it.

    Matrix products run on one core, because their rounding depends on how many there are; and
    whatever draws from the global streams of Python, numpy or torch draws this split's numbers.
    """
    from threadpoolctl import threadpool_limits

    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
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


def _asked(fitted: Any, records: Records, has_probabilities: bool) -> Answers | _Failure:
    """What a fitted model says of every record."""
    probability = None
    if has_probabilities:
        probability = np.asarray(fitted.predict_proba(records.X), dtype=np.float64)
    answers = column_of(np.ravel(fitted.predict(records.X)), "predict")
    predicted = is_named(answers, records.positive)
    if probability is None:
        return np.where(predicted == records.is_positive, 1, -1).astype(np.float32), predicted
    labels, classes = getattr(fitted, "classes_", None), records.classes
    names = classes.names if labels is None else [text_of(c) for c in np.asarray(labels).tolist()]
    if probability.shape != (len(records.y), len(names)):
        return _Failure(
            f"predict_proba gave shape {probability.shape} for {len(records.y):,} records and "
            f"{len(names)} classes; let it give a column for each class"
        )
    if n_bad := int((~((probability >= 0) & (probability <= 1))).sum()):
        return _Failure(
            f"predict_proba gave {n_bad:,} values that are not between 0 and 1; scale the "
            "features, fill in what is missing, or choose a model that converges"
        )
    column = np.array([names.index(name) if name in names else -1 for name in classes.names])
    at = column[classes.codes]  # a class that the model has never seen has probability 0
    of_truth = np.where(at >= 0, probability[np.arange(len(at)), at], 0.0)
    return log_odds(of_truth).astype(np.float32), predicted
