"""Fit an estimator on every split, in as many processes as wanted, and keep what it says.

A split's row holds what its model says of every record: the log odds of the true class (float32),
then the model's answers, one bit each. A row depends on the estimator, the data, the split and the
random state alone: not on the other splits, nor on how many run at once. With a store each finished
row is a file, so a killed call goes on where it was.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks import log_odds
from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.candidates import Candidate, versions
from pcer.models.labels import is_named
from pcer.models.splits import TRAINING_STREAM, Splits, stream
from pcer.release.columns import Coded, column_of, text_of
from pcer.store import (
    Settings,
    die_with,
    finished_blocks,
    load_block,
    owned,
    resume_folder,
    save_block,
    settings_digest,
)

FloatRow = npt.NDArray[np.float32]
OnProgress = Callable[[int, int], None]

BITS = 32
"""Answers that one float32 of a row holds."""
LARGEST_SEED = 2**31


@dataclass(frozen=True, kw_only=True, eq=False)
class FitData:
    """What estimators are fitted to, and what is asked of them.

    Attributes:
        X: features as given: an array, a frame, a sparse matrix, a list.
        y: (record,) labels as given.
        classes: the labels by name.
        positive: the name of the positive one.
        threshold: positive from this probability on; None where the estimator decides.
    """

    X: Any
    y: npt.NDArray[Any]
    classes: Coded
    positive: str
    threshold: float | None

    @property
    def n_records(self) -> int:
        """How many records."""
        return len(self.y)

    @property
    def is_positive(self) -> BoolArray:
        """(record,) whether the label is the positive one."""
        return is_named(self.classes, self.positive)


@dataclass(frozen=True, kw_only=True, eq=False)
class Said:
    """What the models of one setting say: arrays (split, record).

    Attributes:
        logits: log odds of the true class, with a minus where that is a negative one; without
            probabilities +1 and -1 as the model answers.
        predicted: whether the positive label is the answer.
        has_probabilities: whether the estimator gives any.
    """

    logits: FloatRow
    predicted: BoolArray
    has_probabilities: bool


class _Failed(NamedTuple):
    """A split whose model could not be had: a sentence's middle, and all that is known."""

    fault: str
    trace: str = ""


class _Task(NamedTuple):
    """One model: which, and what it is fitted to."""

    at: int
    split: int
    candidate: Candidate
    rows: IntArray
    seed: int


@dataclass(kw_only=True, eq=False)
class Fits:
    """The models of some settings on splits of the same records; fits what is missing.

    Args:
        data: the records.
        splits: who is trained on.
        candidates: the settings.
        random_state: of what estimators leave to chance.
        n_jobs: as for joblib.
        store: folder that keeps finished splits; None for none.
        identity: what the rows in that folder depend on, besides the candidate.
        names: by candidate, what its rows in that folder are called.
        on_progress: called with (models done, models in all).
    """

    data: FitData
    splits: Splits
    candidates: Sequence[Candidate]
    random_state: int
    n_jobs: int | None = None
    store: Path | None = None
    identity: Settings = field(default_factory=dict)
    names: Sequence[str] = ()
    on_progress: OnProgress = lambda done, total: None
    _rows: dict[tuple[int, int], FloatRow] = field(default_factory=dict)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Own the store meanwhile; warns where what was found there does not count."""
        with ExitStack() as held:
            if self.store is not None:
                held.enter_context(owned(self.store))
                for note in resume_folder(
                    self.store, self.identity, added={}, n_columns=self._width
                ):
                    warnings.warn(note, stacklevel=4)
                self._find(self.store)
            yield

    def up_to(self, n_splits: int) -> list[Said]:
        """What all settings say on the first so many splits.

        Raises:
            InputError: a split's model cannot be had; the sentence names it.
        """
        wanted = [(at, s) for s in range(n_splits) for at in range(len(self.candidates))]
        missing = [one for one in wanted if one not in self._rows]
        done, total = len(wanted) - len(missing), len(wanted)
        self.on_progress(done, total)
        tasks = [self._task(at, split) for at, split in missing]
        finished = _run(self.data, tasks, n_jobs=self.n_jobs)
        try:
            for at, split, found in finished:
                if isinstance(found, _Failed):
                    raise self._error(at, split, found)
                self._keep(at, split, found)
                done += 1
                self.on_progress(done, total)
        finally:
            with warnings.catch_warnings():  # joblib remarks on tasks that are given up
                warnings.simplefilter("ignore", UserWarning)
                finished.close()
        return [self._said(at, n_splits) for at in range(len(self.candidates))]

    @property
    def _width(self) -> int:
        return self.data.n_records + -(-self.data.n_records // BITS)

    def _task(self, at: int, split: int) -> _Task:
        seed = int(stream(self.random_state, TRAINING_STREAM, split).integers(LARGEST_SEED))
        return _Task(at, split, self.candidates[at], self.splits.train(split), seed)

    def _find(self, store: Path) -> None:
        """Take up the rows that the store holds already."""
        position = {name: at for at, name in enumerate(self.names)}
        for block in finished_blocks(store):
            rows = load_block(block, self._width)
            for (name, split), row in zip(block.keys, rows, strict=True):
                if name in position:
                    self._rows[position[name], split] = np.array(row)

    def _keep(self, at: int, split: int, row: FloatRow) -> None:
        self._rows[at, split] = row
        if self.store is not None:
            save_block(
                self.store,
                [(self.names[at], split)],
                row[None],
                made_with=versions(self.candidates),
                settings=settings_digest(self.identity, added={}),
            )

    def _said(self, at: int, n_splits: int) -> Said:
        n, sign = self.data.n_records, np.where(self.data.is_positive, 1, -1).astype(np.float32)
        logits = np.empty((n_splits, n), dtype=np.float32)
        predicted = np.empty((n_splits, n), dtype=bool)
        for split in range(n_splits):
            of_truth, predicted[split] = _unpacked(self._rows[at, split], n)
            logits[split] = sign * of_truth
        return Said(
            logits=logits,
            predicted=predicted,
            has_probabilities=self.candidates[at].has_probabilities,
        )

    def _error(self, at: int, split: int, found: _Failed) -> InputError:
        n_kept = len(self._rows)
        kept = f"{n_kept} finished model{'' if n_kept == 1 else 's'}"
        where = (
            f"the {kept} are kept in {self.store}"
            if self.store is not None
            else "store=DIR would keep finished splits"
        )
        error = InputError(
            f"split {split + 1}, {self.candidates[at].name}: {found.fault}; {where}."
        )
        error.__cause__ = RuntimeError(found.trace) if found.trace else None
        return error


def rows_of(X: Any, rows: IntArray) -> Any:
    """Some rows of features of any kind, in the same kind."""
    import narwhals as nw

    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    return (X.tocsr() if hasattr(X, "tocsr") else X)[rows]


def n_rows(X: Any) -> int:
    """How many records features of any kind are of."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _run(
    data: FitData, tasks: Sequence[_Task], *, n_jobs: int | None
) -> Generator[tuple[int, int, FloatRow | _Failed], None, None]:
    """Every task's result as soon as it is there, by whatever joblib is told to use."""
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    backend, n_active = get_active_backend()
    options, step = _options(backend), len(tasks)
    if not backend.supports_return_generator:  # then a few at a time, to keep what is finished
        options, step = {"return_as": "list"}, max(1, n_jobs or n_active)
    for first in range(0, len(tasks), max(step, 1)):
        pool = Parallel(n_jobs=n_jobs, batch_size=1, **options)
        yield from pool(delayed(_fit)(data, one) for one in tasks[first : first + step])


def _options(backend: Any) -> dict[str, Any]:
    """Processes of our own end with us; those of a cluster are the cluster's."""
    from joblib.parallel import LokyBackend

    options: dict[str, Any] = {"return_as": "generator_unordered"}
    if isinstance(backend, LokyBackend):
        is_main = threading.current_thread() is threading.main_thread()
        options.update(initializer=die_with, initargs=(os.getpid(), is_main))
    return options


def _fit(data: FitData, task: _Task) -> tuple[int, int, FloatRow | _Failed]:
    """One model, from the estimator to its row; what goes wrong is told, not raised."""
    try:
        with _alone(task.seed):
            fresh = _seeded(task.candidate.estimator, task.seed)
            fitted = fresh.fit(rows_of(data.X, task.rows), data.y[task.rows])
            found: FloatRow | _Failed = _row(fitted, data, task.candidate.has_probabilities)
    except Exception as error:  # whatever an estimator may raise
        found = _Failed(
            f"{type(error).__name__} was raised; mend the estimator or its data and call again",
            traceback.format_exc(),
        )
    return task.at, task.split, found


def _seeded(estimator: Any, seed: int) -> Any:
    """A fresh copy whose random states, as far as they are not fixed numbers, are this split's."""
    from sklearn.base import clone

    fresh = clone(estimator)
    open_ones = {
        name: seed
        for name, value in fresh.get_params(deep=True).items()
        if name.rpartition("__")[2] == "random_state" and not isinstance(value, Integral)
    }
    return fresh.set_params(**open_ones)


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Nothing from outside gets into a fit, nor out of it.

    Matrix products run on one core, because their rounding depends on how many there are; and
    whatever draws from the global streams of Python, numpy or torch draws this split's numbers.
    """
    from threadpoolctl import threadpool_limits

    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with threadpool_limits(1, user_api="blas"), _torch_stream(seed):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 (the stream of estimators that know no other)
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def _torch_stream(seed: int) -> Iterator[None]:
    """The same for torch, if somebody has loaded it."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _row(fitted: Any, data: FitData, has_some: bool) -> FloatRow | _Failed:
    """What a fitted model says of every record, packed."""
    if not has_some:
        predicted = _own_answers(fitted, None, data)
        return _packed(np.where(predicted == data.is_positive, 1.0, -1.0), predicted)
    probability = np.asarray(fitted.predict_proba(data.X), dtype=np.float64)
    names = _class_names(fitted, data)
    if fault := _fault(probability, names, data):
        return _Failed(fault)
    if data.threshold is None:
        predicted = _own_answers(fitted, probability, data)
    else:
        predicted = probability[:, names.index(data.positive)] >= data.threshold
    return _packed(log_odds(_of_true_class(probability, names, data.classes)), predicted)


def _fault(probability: FloatArray, names: list[str], data: FitData) -> str:
    """What is wrong with probabilities; empty if nothing is."""
    if probability.shape != (data.n_records, len(names)):
        return (
            f"predict_proba gave shape {probability.shape} for {data.n_records:,} records and "
            f"{len(names)} classes; let it give a column for each class"
        )
    if n_bad := int((~((probability >= 0) & (probability <= 1))).sum()):
        return (
            f"predict_proba gave {n_bad:,} values that are not between 0 and 1; scale the "
            "features, fill in what is missing, or choose a model that converges"
        )
    return ""


def _class_names(fitted: Any, data: FitData) -> list[str]:
    found = getattr(fitted, "classes_", None)
    return data.classes.names if found is None else [text_of(c) for c in np.asarray(found).tolist()]


def _of_true_class(probability: FloatArray, names: list[str], classes: Coded) -> FloatArray:
    """(record,) probability of the true class; 0 of one that the model has never seen."""
    column = np.array([names.index(name) if name in names else -1 for name in classes.names])
    at = column[classes.codes]
    return np.where(at >= 0, probability[np.arange(len(at)), at], 0.0)


def _own_answers(fitted: Any, probability: FloatArray | None, data: FitData) -> BoolArray:
    """What the estimator's own ``predict`` says; probabilities that it asks for are at hand."""
    if probability is not None and hasattr(fitted, "__dict__"):
        ask = fitted.predict_proba

        def known(*given: Any, **named: Any) -> Any:
            is_same = len(given) == 1 and given[0] is data.X and not named
            return probability if is_same else ask(*given, **named)

        fitted.predict_proba = known
    answers = np.ravel(fitted.predict(data.X))
    return is_named(column_of(answers, "predict"), data.positive)


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
