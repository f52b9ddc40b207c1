"""Estimators fitted on many splits, in as many processes as wanted.

One model's answers are one row: its log odds of the true class for every record, and a bit for
every record it calls positive. A split alone decides its row, not how many run at once. With a
store each finished row is a file, so a killed call goes on where it was.
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
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer._version import __version__
from pcer.attacks import log_odds
from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.labels import is_named
from pcer.models.splits import TRAINING_STREAM, Splits, stream
from pcer.release.columns import Coded, column_of, text_of
from pcer.store.blocks import (
    Settings,
    finished_blocks,
    load_block,
    owned,
    resume_folder,
    save_block,
    settings_digest,
)
from pcer.store.processes import die_with

FloatRow = npt.NDArray[np.float32]
OnProgress = Callable[[int, int], None]

BITS = 32
"""Answers that one float32 of a row holds."""
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
        for name in named:
            if name not in amounts:
                raise InputError(
                    f"epsilon names no budget for {name!r}; add it, None without privacy.",
                    field="epsilon",
                )
        return [Candidate(name, _budget(amounts[name]), own) for name, own in named.items()]
    ((parameter, values),) = budgets.items()
    wanted = [_budget(value) for value in values]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError("budgets must give at least one epsilon, and none twice.", field="budgets")
    for own in named.values():
        if parameter not in own.get_params():
            raise InputError(
                f"budgets names the parameter {parameter!r}, which {type(own).__name__} does not "
                'have; in a pipeline it is called like "step__epsilon".',
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
    if isinstance(estimator, type):
        raise _unfit(where, f"is the class {kind}; give an object: {kind}()")
    for method in ("fit", "predict", "get_params", "set_params"):
        if not hasattr(estimator, method):
            reason = f"({kind}) has no {method}, and it has to be fitted anew on every split; give "
            reason += "an estimator with scikit-learn's protocol, or score the records yourself "
            raise _unfit(where, f"{reason}and use release_from_predictions")
    if kind == "FrozenEstimator":
        reason = "is frozen and cannot be fitted anew; give the estimator inside it"
        raise _unfit(where, reason)
    try:
        clone(estimator)
    except (TypeError, RuntimeError):
        reason = f"({kind}) cannot be cloned; let its __init__ keep every argument unchanged under "
        raise _unfit(where, f"{reason}its own name, as scikit-learn asks") from None
    if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
        raise _unfit(where, f"({kind}) is a regressor; give a classifier")


def _unfit(where: str, reason: str) -> InputError:
    return InputError(f"{where} {reason}.", field="estimator")


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """What estimators are fitted to, what is asked of them, and who the records are of."""

    X: Any  # features as given: an array, a frame, a sparse matrix, a list
    y: npt.NDArray[Any]  # (record,) labels as given
    classes: Coded  # the labels by name
    positive: str  # the name of the positive one
    threshold: float | None  # positive from this probability on; None: the estimator decides
    persons: IntArray | None  # (record,) who has it, from 0; None where nobody has several
    group: Coded
    attribute: str  # what divides the records into groups

    @property
    def is_positive(self) -> BoolArray:
        """(record,) whether the label is the positive one."""
        return is_named(self.classes, self.positive)


class _Failure(NamedTuple):
    """Why a model could not be had: a sentence's middle, and the traceback."""

    fault: str
    trace: str = ""


@dataclass(kw_only=True, eq=False)
class Fits:
    """The models of some settings on splits of the same records; fits what is missing."""

    records: Records
    splits: Splits
    candidates: Sequence[Candidate]
    random_state: int  # of what estimators leave to chance
    n_jobs: int | None  # as for joblib
    store: Path | None  # folder that keeps finished splits; None for none
    on_progress: OnProgress  # called with (models done, models in all)
    _identity: Settings = field(default_factory=dict)  # what all rows of a store depend on
    _names: Sequence[str] = ()
    _rows: dict[tuple[int, int], FloatRow] = field(default_factory=dict)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Own the store meanwhile; warns where what was found there does not count."""
        import joblib

        records = self.records
        with ExitStack() as held:
            if self.store is not None:
                self._names = [_fingerprint(candidate) for candidate in self.candidates]
                self._identity = {
                    "kind": "estimator",
                    "records": joblib.hash((records.X, records.y, records.persons), "sha1"),
                    **self.splits.identity,
                    "random_state": self.random_state,
                    "positive_label": records.positive,
                    "threshold": records.threshold,
                }
                width = len(_packed(np.zeros(len(records.y)), records.is_positive))
                held.enter_context(owned(self.store))
                for note in resume_folder(self.store, self._identity, added={}, n_columns=width):
                    warnings.warn(note, stacklevel=4)
                for block in finished_blocks(self.store):
                    rows = load_block(block, width)
                    for (name, split), row in zip(block.keys, rows, strict=True):
                        if name in self._names:
                            self._rows[self._names.index(name), split] = np.array(row)
            yield

    def up_to(self, n_splits: int) -> list[tuple[FloatRow, BoolArray]]:
        """What each setting's models say on the first so many splits: arrays (split, record).

        Log odds of the true class, with a minus where that is a negative one (without
        probabilities +1 and -1 as the model answers); and whether the answer is the positive label.
        """
        wanted = [(at, s) for s in range(n_splits) for at in range(len(self.candidates))]
        missing = [key for key in wanted if key not in self._rows]
        done, total = len(wanted) - len(missing), len(wanted)
        self.on_progress(done, total)
        finished = self._fit(missing)
        try:
            for (at, split), found in finished:
                if isinstance(found, _Failure):
                    raise self._error(at, split, found)
                self._rows[at, split] = found
                if self.store is not None:
                    save_block(
                        self.store,
                        [(self._names[at], split)],
                        found[None],
                        made_with=versions(self.candidates),
                        settings=settings_digest(self._identity, added={}),
                    )
                done += 1
                self.on_progress(done, total)
        finally:
            with warnings.catch_warnings():  # joblib remarks on tasks that are given up
                warnings.simplefilter("ignore", UserWarning)
                finished.close()
        return [self._answers(at, n_splits) for at in range(len(self.candidates))]

    def _fit(
        self, wanted: Sequence[tuple[int, int]]
    ) -> Generator[tuple[tuple[int, int], FloatRow | _Failure], None, None]:
        """Every model's row as soon as it is there, by whatever joblib is told to use."""
        from joblib import Parallel, delayed
        from joblib.parallel import LokyBackend, get_active_backend

        def call(at: int, split: int) -> Any:
            seed = int(stream(self.random_state, TRAINING_STREAM, split).integers(LARGEST_SEED))
            rows = self.splits.train(split)
            return delayed(_fit)((at, split), self.candidates[at], self.records, rows, seed)

        backend, n_active = get_active_backend()
        options: dict[str, Any] = {"return_as": "generator_unordered"}
        step = max(len(wanted), 1)
        if isinstance(backend, LokyBackend):  # our own processes end with us, a cluster's do not
            is_main = threading.current_thread() is threading.main_thread()
            options.update(initializer=die_with, initargs=(os.getpid(), is_main))
        if not backend.supports_return_generator:  # then a few at a time, to keep what is finished
            options, step = {"return_as": "list"}, max(1, self.n_jobs or n_active)
        for first in range(0, len(wanted), step):
            pool = Parallel(n_jobs=self.n_jobs, batch_size=1, **options)
            yield from pool(call(*key) for key in wanted[first : first + step])

    def _answers(self, at: int, n_splits: int) -> tuple[FloatRow, BoolArray]:
        n, sign = len(self.records.y), np.where(self.records.is_positive, 1, -1).astype(np.float32)
        logits = np.empty((n_splits, n), dtype=np.float32)
        predicted = np.empty((n_splits, n), dtype=bool)
        for split in range(n_splits):
            of_truth, predicted[split] = _unpacked(self._rows[at, split], n)
            logits[split] = sign * of_truth
        return logits, predicted

    def _error(self, at: int, split: int, failure: _Failure) -> InputError:
        where = "store=DIR would keep finished splits"
        if self.store is not None:
            n_kept = len(self._rows)
            models = f"{n_kept} finished model{'' if n_kept == 1 else 's'}"
            where = f"the {models} are kept in {self.store}"
        model = f"split {split + 1}, {self.candidates[at].name}:"
        error = _unfit(model, f"{failure.fault}; {where}")
        error.__cause__ = RuntimeError(failure.trace) if failure.trace else None
        return error


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
    key: tuple[int, int], candidate: Candidate, records: Records, rows: IntArray, seed: int
) -> tuple[tuple[int, int], FloatRow | _Failure]:
    """One model, from the estimator to its row; what goes wrong is given back, not raised."""
    from sklearn.base import clone

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
            return key, _row(fitted, records, candidate.has_probabilities)
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


def _row(fitted: Any, records: Records, has_probabilities: bool) -> FloatRow | _Failure:
    """What a fitted model says of every record, packed."""
    if not has_probabilities:
        predicted = _own_answers(fitted, None, records)
        return _packed(np.where(predicted == records.is_positive, 1.0, -1.0), predicted)
    probability = np.asarray(fitted.predict_proba(records.X), dtype=np.float64)
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
    if records.threshold is None:
        predicted = _own_answers(fitted, probability, records)
    else:
        predicted = probability[:, names.index(records.positive)] >= records.threshold
    column = np.array([names.index(name) if name in names else -1 for name in classes.names])
    at = column[classes.codes]  # a class that the model has never seen has probability 0
    of_truth = np.where(at >= 0, probability[np.arange(len(at)), at], 0.0)
    return _packed(log_odds(of_truth), predicted)


def _own_answers(fitted: Any, probability: FloatArray | None, records: Records) -> BoolArray:
    """What the estimator's own ``predict`` says; probabilities that it asks for are at hand."""
    if probability is not None and hasattr(fitted, "__dict__"):
        ask = fitted.predict_proba

        def at_hand(*given: Any, **named: Any) -> Any:
            is_same = len(given) == 1 and given[0] is records.X and not named
            return probability if is_same else ask(*given, **named)

        fitted.predict_proba = at_hand
    answers = np.ravel(fitted.predict(records.X))
    return is_named(column_of(answers, "predict"), records.positive)


def _packed(logits: FloatArray, predicted: BoolArray) -> FloatRow:
    n = len(predicted)
    row = np.zeros(n + -(-n // BITS), dtype=np.float32)
    row[:n] = logits
    bits = np.packbits(predicted)
    row[n:].view(np.uint8)[: len(bits)] = bits
    return row


def _unpacked(row: FloatRow, n: int) -> tuple[FloatRow, BoolArray]:
    bits = np.ascontiguousarray(row[n:]).view(np.uint8)
    return row[:n], np.unpackbits(bits, count=n).astype(bool)
