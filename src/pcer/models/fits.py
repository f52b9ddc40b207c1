"""How are estimators fitted on many splits, in as many processes as wanted?

A model gives two things for every record: its log odds of the true class, and whether
it predicts the positive label. Both depend on the split only, not on how many fits run
at once. With a store each finished model is a file, so that an interrupted call
resumes. ``estimator`` calls ``fit_all``. To add what a model says: a field of
``Answers``.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks import log_odds
from pcer.errors import InputError, clipped, not_installed
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.splits import LEAST_SECRET, TRAINING_STREAM, Splits, stream
from pcer.models.training import EPSILON_DIGITS, Candidate, unfit, versions
from pcer.release.columns import Coded, column_of, is_named, text_of
from pcer.store import blocks
from pcer.store.processes import die_with

FloatRow = npt.NDArray[np.float32]
OnProgress = Callable[[int, int], None]

LARGEST_SEED = 2**31
LONGEST_FAULT = 300  # characters of an error that is not ours
NOT_PROBABILITIES = (
    "predict_proba gave {:,} values that are not between 0 and 1; apply the sigmoid "
    "or softmax to logits, scale the features, or choose a model that converges"
)
LABELS_GIVEN = (
    "predict gave labels, not probabilities; return the model's predict_proba"
)
WRONG_SHAPE = (
    "predict_proba gave shape {} for {:,} records and {} classes; let it give a column "
    "for each class"
)
NOT_NORMALISED = "the two columns do not add up to 1; apply the softmax to logits"


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Features, labels and owners of the records that estimators are fitted to."""

    X: Any  # features as given: an array, a frame, a sparse matrix, a list
    y: npt.NDArray[Any]  # (record,) labels as given
    classes: Coded  # the labels by name
    positive: str  # the name of the positive one
    is_positive: BoolArray  # (record,) whether the label is that one
    # (record,) who has it, from 0; None where nobody has several
    persons: IntArray | None
    # (record,) values of attributes by name, whose subgroups are searched
    traits: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)


NOTHING: BoolArray = np.zeros(0, dtype=bool)


class Answers(NamedTuple):
    """What one model says: arrays (record,); or many: arrays (split, record)."""

    # Log odds of the true class; without probabilities 1 where right, -1 where wrong.
    # Of a synthetic table its signal.
    of_truth: FloatRow
    predicted: BoolArray  # whether the positive label is predicted
    spent: Any  # one number a model: its epsilon, NaN where nothing says so
    # Whether a synthetic table has the record verbatim; of a model nothing.
    copied: BoolArray = NOTHING


class Key(NamedTuple):
    """One model: the position of its setting, and its split."""

    candidate: int
    split: int


class Unusable(Exception):
    """What a fitted model answers cannot be used; why, as part of a sentence."""


class _Failure(NamedTuple):
    """Why a model failed: part of a sentence, and what holds the traceback."""

    fault: str
    cause: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class Running:
    """How models are fitted; nothing in a release follows from it."""

    n_jobs: int | None = None  # how many at once, as for joblib
    store: Path | None = None  # the folder that keeps finished ones
    progress: bool | OnProgress = True  # a bar; or a function to be told


def require_installed() -> None:
    """Raise InputError where a package is missing that fitting needs."""
    for module, package in (("sklearn", "scikit-learn"), ("joblib", "joblib")):
        if importlib.util.find_spec(module) is None:
            raise not_installed(package, extra="sklearn", needed_by="fitting")


def fit_all(
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
    running: Running,
) -> list[Answers]:
    """What each setting's models say on every split.

    InputError says of which split and model, what went wrong there, and what is kept.
    """
    pairs = product(range(len(splits.train)), range(len(candidates)))
    keys = [Key(candidate, split) for split, candidate in pairs]
    with (
        _shown(running.progress) as on_progress,
        _opened(running.store, candidates, records, splits, random_state) as kept,
    ):
        missing = [key for key in keys if key not in kept.answers]
        n_done = len(keys) - len(missing)
        on_progress(n_done, len(keys))
        results = _fitted(
            missing, candidates, records, splits, random_state, running.n_jobs
        )
        try:
            for key, answers in results:
                if isinstance(answers, _Failure):
                    where = f"{candidates[key.candidate].name} failed in split"
                    remedy = _remedy(candidates[key.candidate], running, kept)
                    fault = f"{answers.fault}; {remedy}"
                    raise unfit(f"{where} {key.split + 1}:", fault) from answers.cause
                kept.answers[key] = answers
                kept.save(key, answers)
                n_done += 1
                on_progress(n_done, len(keys))
        finally:
            with warnings.catch_warnings():  # joblib warns about abandoned tasks
                warnings.simplefilter("ignore", UserWarning)
                results.close()
    return _by_setting(kept.answers, keys)


def _by_setting(answers: Mapping[Key, Answers], keys: Sequence[Key]) -> list[Answers]:
    by_setting: dict[int, list[Answers]] = {}
    for key in keys:
        by_setting.setdefault(key.candidate, []).append(answers[key])
    return [
        Answers(*map(np.array, zip(*of_splits, strict=True)))
        for of_splits in by_setting.values()
    ]


@contextmanager
def _shown(progress: bool | OnProgress) -> Iterator[OnProgress]:
    """A bar on stderr where somebody may see it; or the caller's own."""
    if callable(progress):
        yield progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    hidden = not progress or not (console.is_terminal or console.is_jupyter)
    with Bar(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("Fitting", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Kept(NamedTuple):
    """Finished models, and what keeps one more in a store."""

    answers: dict[Key, Answers]
    save: Callable[[Key, Answers], None]


@contextmanager
def _opened(
    store: Path | None,
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
) -> Iterator[_Kept]:
    """What a store has already, without one nothing; warns of what does not count."""
    if store is None:
        yield _Kept({}, lambda key, answers: None)
        return
    import joblib

    state: int | str = random_state
    if random_state >= LEAST_SECRET:  # sentences name it, so it goes by its digest
        state = blocks.record_digest({"random_state": random_state})
    identity: blocks.Settings = {
        "kind": "estimator",
        "records": joblib.hash((records.X, records.y, records.persons), "sha1"),
        **splits.identity,
        "random_state": state,
        "positive_label": records.positive,
    }
    names = [_fingerprint(candidate) for candidate in candidates]
    n_rows = getattr(candidates[0].estimator, "n_answers", 2)
    n_columns = n_rows * len(records.y) + 1

    def save(key: Key, answers: Answers) -> None:
        blocks.save_block(
            store,
            [(names[key.candidate], key.split)],
            np.hstack(answers, dtype=np.float32)[None],
            made_with=versions(candidates),
            settings=blocks.record_digest(identity),
        )

    with blocks.owned(store):
        notes = blocks.resume_folder(store, identity, n_columns=n_columns)
        for note in notes:
            warnings.warn(note, stacklevel=5)
        yield _Kept(_loaded(store, names, n_columns, len(records.y)), save)


def _loaded(
    store: Path, names: list[str], n_columns: int, n: int
) -> dict[Key, Answers]:
    """The finished models of these settings, for ``n`` records."""
    answers = {}
    for block in blocks.finished_blocks(store):
        rows = blocks.load_block(block, n_columns)
        for (name, split), row in zip(block.keys, rows, strict=True):
            if name in names:
                spent = float(f"{row[2 * n]:.{EPSILON_DIGITS}g}")
                key = Key(names.index(name), split)
                answers[key] = Answers(
                    of_truth=np.array(row[:n]),
                    predicted=row[n : 2 * n] == 1,
                    spent=spent,
                    copied=row[2 * n + 1 :] == 1,
                )
    return answers


def _remedy(candidate: Candidate, running: Running, kept: _Kept) -> str:
    """What is kept of a call that failed, or how to keep it."""
    if running.store is not None:
        return f"finished models are kept in {running.store} ({len(kept.answers)})"
    version = ", version=1" if candidate.is_function else ""
    return f"store='kept'{version} keeps finished splits"


def _fingerprint(candidate: Candidate) -> str:
    """Name of an estimator's rows in a store, from its class, settings and versions."""
    import joblib
    from sklearn.base import clone

    estimator = candidate.estimator
    try:
        if candidate.is_function:  # only its name and version are known
            content = (candidate.name, estimator.version)
        else:
            content = clone(estimator)
        digest = joblib.hash(content, hash_name="sha1")
    except Exception as error:  # pickling raises whatever it meets
        raise InputError(
            f"store= needs an estimator that can be pickled, but {candidate.name} "
            f"cannot ({type(error).__name__}); define lambdas in a module, or leave "
            "store out.",
            field="store",
        ) from None
    return str(joblib.hash((digest, versions([candidate])), hash_name="sha1"))


def _fitted(
    keys: Sequence[Key],
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
    n_jobs: int | None,
) -> Generator[tuple[Key, Answers | _Failure], None, None]:
    """Every model's answers as soon as they are ready, by any joblib backend."""
    from joblib import Parallel, delayed
    from joblib.parallel import LokyBackend, get_active_backend

    backend, n_active = get_active_backend()
    options: dict[str, Any] = {"return_as": "generator_unordered"}
    n_at_once = max(len(keys), 1)
    if isinstance(backend, LokyBackend):
        # Local processes must end with us; a cluster's cannot.
        is_main = threading.current_thread() is threading.main_thread()
        options.update(initializer=die_with, initargs=(os.getpid(), is_main))
    if not backend.supports_return_generator:
        # Then in batches, to keep finished models.
        options = {"return_as": "list"}
        n_at_once = max(1, n_jobs or n_active)

    def call(key: Key) -> Any:
        candidate = candidates[key.candidate]
        inside = splits.train[key.split]
        return delayed(_fit)(key, candidate, records, inside, random_state)

    for first in range(0, len(keys), n_at_once):
        pool = Parallel(n_jobs=n_jobs, batch_size=1, **options)
        yield from pool(map(call, keys[first : first + n_at_once]))


def _fit(
    key: Key, candidate: Candidate, records: Records, inside: IntArray, state: int
) -> tuple[Key, Answers | _Failure]:
    """Fit one model and return its answers; failures are returned, not raised."""
    # Training functions draw noise from their seed, which no two models may share.
    place = key.candidate if candidate.is_function else 0
    seeds = stream(state, TRAINING_STREAM, key.split)
    seed = int(seeds.integers(LARGEST_SEED, size=1 + key.candidate)[place])
    try:
        with _alone(seed):
            fresh = seeded(candidate.estimator, seed)
            fitted = fresh.fit(taken(records.X, inside), records.y[inside])
            if isinstance(fitted, Answers):  # of what was made of a synthetic table
                return key, fitted
            of_truth, predicted = _asked(fitted, records, candidate.has_probabilities)
            spent = getattr(fresh, "spent", math.nan)
            return key, Answers(of_truth, predicted, spent)
    except Unusable as error:
        return key, _Failure(str(error))
    except Exception as error:  # an estimator may raise anything
        words = clipped(" ".join(str(error).split()), LONGEST_FAULT)
        kind = type(error).__name__
        fault = f'"{words}" ({kind}, traceback above); fix it and run again'
        if "string to float" in words:
            fault += " (drop_sensitive=True leaves out what sensitive_features names)"
        return key, _Failure(fault, RuntimeError(traceback.format_exc()))


def seeded(estimator: Any, seed: int) -> Any:
    """A clone of an estimator whose random states are set where they were open."""
    from sklearn.base import clone

    fresh = clone(estimator)
    open_states = {}
    for name, value in fresh.get_params(deep=True).items():
        is_state = name.rpartition("__")[2] == "random_state"
        if is_state and not isinstance(value, Integral):
            open_states[name] = seed
    fresh.set_params(**open_states)
    return fresh


def taken(X: Any, rows: IntArray) -> Any:
    """Some rows of features of any kind, in the same kind."""
    import narwhals as nw

    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    return (X.tocsr() if hasattr(X, "tocsr") else X)[rows]


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Seed the global random streams for a fit, and use one core.

    Rounding depends on the number of cores.
    """
    of_python = random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")  # if somebody has loaded it
    try:
        with ExitStack() as held:
            libraries = _libraries(len(sys.modules))
            held.enter_context(libraries.limit(limits=1, user_api="blas"))
            if torch is not None:
                held.enter_context(torch.random.fork_rng(devices=[]))
                torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 (of estimators that know no other)
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """What limits threads; found again, which takes long, where modules were loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _asked(
    fitted: Any, records: Records, has_probabilities: bool
) -> tuple[FloatRow, BoolArray]:
    """A fitted model's log odds of the truth, and its predictions.

    What a training function returned may give probabilities only.
    """
    probability = _probabilities(fitted, records) if has_probabilities else None
    predicted = None
    if hasattr(fitted, "predict"):
        answers = column_of(np.ravel(fitted.predict(records.X)), "predict")
        predicted = is_named(answers, records.positive)
    if probability is None:
        right_or_wrong = np.where(predicted == records.is_positive, 1, -1)
        return right_or_wrong.astype(np.float32), np.asarray(predicted)

    names = records.classes.names  # the labels that the columns stand for
    labels = getattr(fitted, "classes_", None)
    if labels is not None:
        names = [text_of(label) for label in np.asarray(labels).tolist()]
    if predicted is None and probability.size == len(records.y):
        # Those of the positive label alone: the others share the rest.
        one = probability.reshape(-1, 1)
        probability = np.where(np.array(names) == records.positive, one, 1 - one)
    if probability.shape != (len(records.y), len(names)):
        fault = WRONG_SHAPE.format(probability.shape, len(records.y), len(names))
        raise Unusable(fault)
    if predicted is None:
        is_off = ~np.isclose(probability.sum(axis=1), 1, atol=1e-3)
        if len(names) == 2 and is_off.any():
            raise Unusable(NOT_NORMALISED)
        likeliest = probability.argmax(axis=1)
        predicted = np.asarray(likeliest == names.index(records.positive))
    of_truth = _of_truth(probability, names, records.classes)
    return log_odds(of_truth).astype(np.float32), predicted


def _of_truth(probability: FloatArray, names: list[str], classes: Coded) -> FloatArray:
    """(record,) the probability of the true class; 0 where the model never saw it."""
    column_of_class = np.array(
        [names.index(name) if name in names else -1 for name in classes.names]
    )
    column = column_of_class[classes.codes]
    of_truth = probability[np.arange(len(column)), column]
    return np.where(column >= 0, of_truth, 0.0)


def _probabilities(fitted: Any, records: Records) -> FloatArray:
    """What ``predict_proba`` gives, checked but for its shape."""
    answers = fitted.predict_proba(records.X)
    if hasattr(answers, "detach"):  # torch
        answers = answers.detach().cpu()
    values = np.asarray(answers, dtype=np.float64)
    n_bad = int((~((values >= 0) & (values <= 1))).sum())
    if n_bad:
        raise Unusable(NOT_PROBABILITIES.format(n_bad))
    # A function's name tells labels from probabilities; that of Keras is predict, too.
    is_predict = getattr(fitted.predict_proba, "__name__", "") == "predict"
    if is_predict and np.isin(values, (0, 1)).all():
        raise Unusable(LABELS_GIVEN)
    return values
