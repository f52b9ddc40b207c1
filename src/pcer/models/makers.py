"""What is asked of a synthetic table: signals, copies, and what a model learns from it?

``synthetic`` has makers called on the real half of every split, as ``fits`` has
training functions called. Only a row of numbers for each real record remains; the
table itself is dropped. To add a question about a table: a field of ``fits.Answers``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcer.attacks.synthetic import Neighbourhood, Space, copied_rows, table_columns
from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.models.fits import Answers, Unusable, seeded, taken
from pcer.models.training import Candidate, Trainer, budget_of
from pcer.release import columns as convert

Make = Callable[[Any, int], Any]
REAL = "real"  # the setting of a model that is trained on the real half itself


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """What a model is to learn from a table, and from the real half of it."""

    model: Any  # an estimator
    target: str  # a column of X
    positive: str  # the value that is predicted or not


@dataclass(frozen=True, kw_only=True, eq=False)
class RealTable:
    """The audited people: where they lie, and how dense they are there."""

    X: Any  # everybody, as given
    n_people: int
    space: Space  # of everybody
    scored: IntArray  # rows of X that are scored
    neighbours: Neighbourhood  # of those rows
    task: Task | None = None

    @classmethod
    def of(cls, X: Any, scored: IntArray, task: Task | None) -> RealTable:
        """The table of everybody, of whom some are scored."""
        space = Space.from_people(X)
        encoded = space.encode(X, "X")[scored]
        neighbours = Neighbourhood.of(encoded)
        return cls(
            X=X,
            n_people=len(X),
            space=space,
            scored=scored,
            neighbours=neighbours,
            task=task,
        )

    def signals_of(self, table: Any) -> tuple[Any, BoolArray]:
        """(record,) the signals of a synthetic table, and whether it has the record."""
        try:
            synthetic = self.space.encode(table)
        except InputError as error:
            raise Unusable(str(error).rstrip(".")) from None
        signals = self.neighbours.signals(synthetic)
        copied = copied_rows(self.neighbours.real, synthetic)
        return signals, copied

    def predicted_after(self, table: Any, seed: int) -> BoolArray:
        """(record,) what a model that was trained on the table predicts of the scored.

        Without a task nothing is predicted.
        """
        if self.task is None:
            return np.zeros(len(self.scored), dtype=bool)
        features = self._features(self.X, table)
        labels = table_columns(table, "the synthetic table")[self.task.target]
        column = convert.column_of(labels, self.task.target)
        is_positive = convert.is_named(column, self.task.positive)
        n_positive = int(is_positive.sum())
        if n_positive in (0, len(is_positive)):
            raise Unusable(
                f"the synthetic table has one value of {self.task.target!r} only, and "
                "a classifier needs both"
            )
        model = seeded(self.task.model, seed)
        model.fit(features, is_positive.astype(np.int64))
        answers = model.predict(taken(self._features(self.X, self.X), self.scored))
        predicted: BoolArray = np.asarray(answers) == 1
        return predicted

    def _features(self, X: Any, table: Any) -> Any:
        """A table's columns but the target, in the order and the kind of the real X."""
        import narwhals as nw

        target = "" if self.task is None else self.task.target
        named = table_columns(table, "the synthetic table")
        wanted = [name for name in table_columns(X, "X") if name != target]
        columns = {name: named[name] for name in wanted}
        if not nw.dependencies.is_into_dataframe(X):
            return np.column_stack([*columns.values()])
        values = {}
        for name, column in columns.items():
            values[name] = convert.values_of(column, name=name)[0]
        backend = nw.from_native(X, eager_only=True).implementation
        return nw.from_dict(values, backend=backend).to_native()


class Maker(Trainer):
    """A function that makes synthetic tables, with the protocol of what trains."""

    n_answers = 3  # numbers of each record that a table gives

    def __init__(self, make: Make, real: RealTable, *, is_real: bool = False) -> None:
        self.make = make
        self.real = real
        self.is_real = is_real  # whether the table is the real half itself
        self.version = f"{_source(make)}\n{real.task}"  # for a store
        self.__name__ = getattr(make, "__name__", type(make).__name__)

    def __sklearn_clone__(self) -> Maker:
        return Maker(self.make, self.real, is_real=self.is_real)

    def fit(self, X: Any, y: Any) -> Answers:
        """Make a table from part of the people, and ask it about all who are scored."""
        table = self.make(X, self.random_state)
        scored = self.real.scored
        signals = np.zeros(self.real.n_people, dtype=np.float32)
        predicted, copied = np.zeros((2, self.real.n_people), dtype=bool)
        if not self.is_real:
            signals[scored], copied[scored] = self.real.signals_of(table)
        predicted[scored] = self.real.predicted_after(table, self.random_state)
        return Answers(signals, predicted, math.nan, copied)


def _source(make: Make) -> str:
    """The text of a function, by which a store knows it again; else its name."""
    try:
        return inspect.getsource(make)
    except (OSError, TypeError):
        return getattr(make, "__qualname__", type(make).__qualname__)


def the_real_half(part: Any, seed: int) -> Any:
    """The "table" of the setting ``REAL``."""
    return part


def makers_of(make: Any, real: RealTable) -> list[Candidate]:
    """Every setting, in the order given; with a task the real half comes last.

    Makers may be named by texts, or by numbers: these are budgets, and None is none.
    """
    named = dict(make) if isinstance(make, Mapping) else {None: make}
    if not named:
        raise InputError("make is an empty dict; name at least one.", field="make")
    candidates = []
    for name, function in named.items():
        _require_maker(function)
        is_budget = isinstance(name, int | float)
        candidates.append(
            Candidate(
                None if is_budget else name,
                budget_of(name) if is_budget else math.inf,
                Maker(function, real),
            )
        )
    if real.task is not None:
        if REAL in named:
            raise InputError(
                f"make must not be called {REAL!r}: that names the real half; give it "
                "another name.",
                field="make",
            )
        candidates.append(
            Candidate(REAL, math.inf, Maker(the_real_half, real, is_real=True))
        )
    return candidates


def _require_maker(make: Any) -> None:
    is_function = callable(make) and not isinstance(make, type)
    try:
        if is_function:
            inspect.signature(make).bind(1, 2)
    except TypeError:
        is_function = False
    except ValueError:  # a callable that tells nothing of its arguments
        pass
    if not is_function:
        raise InputError(
            "make must be a function make(real_part, seed) that returns a table, or a "
            "dict of such functions by name; for one finished table, "
            "release_from_synthetic.",
            field="make",
        )
