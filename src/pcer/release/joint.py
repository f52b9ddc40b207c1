"""What do all tables of a split give away together?

Every count is a sum over people. Who knows everybody's groups, label and answers has,
of each split, an equation for each cell of each model's table: more models, more
equations, until nobody's membership is left open. ``models`` and ``sweep`` call
``guarded`` with the counts, before anything is attacked. What one cell gives away
alone is the matter of ``disclosure``.

The unknowns of a split are how many people of each class were trained on: those of a
class are alike in groups, label and all answers. Nobody of a class is certain where
some of it were trained on and some were not. Else:

* a linear program bounds the class; a bound below one person, checked in exact
  arithmetic, makes it certain;
* a solution in whole numbers with another number in the class makes it not certain;
* a class with neither, after ``MOST_NODES`` or where equations are too many to search,
  counts as certain.

To add a released number that is a sum over people trained on: its rows in
``_equations``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import disclosure
from pcer.release.build import Counted, tables_of
from pcer.release.disclosure import Detail, Disclosure
from pcer.release.population import Attribute
from pcer.wording import plural

ABSENT = 2  # the part and the answer of people whom a model did not score
MOST_NODES = 50  # of one search for whole numbers; then a class counts as certain
# More equations than this, for a quarter as many classes, and no search ends in time.
MANY_EQUATIONS = 24
MOVED = 1e-6  # what a linear program changes by less is rounding
SCALE = 2**20  # duals are rounded to whole numbers of its inverse, which are exact
LARGEST_CODE = 2**40  # of a class, before codes are numbered anew


class Answered(NamedTuple):
    """Who was in which part of every model, and what it answered them."""

    positive: BoolArray  # (record,) whether the label is
    part: IntArray  # (model, record) 0 for training, 1 for test, or ABSENT
    predicted: BoolArray  # (model, record) whether the answer is positive


class Equations(NamedTuple):
    """What the tables of one split say of the people in it."""

    matrix: Any  # (equation, class) sparse, 1 where the class is counted
    people: IntArray  # (class,) how many there are
    trained: IntArray  # (class,) how many of them were trained on; not released
    is_shown: BoolArray  # (class,) whether a cell alone gives them away
    who: IntArray  # the records that are in a table
    kind: IntArray  # (who,) the class of each


class Certain(NamedTuple):
    """(class,) Who is given away."""

    is_proved: BoolArray
    is_open: BoolArray  # neither proved nor disproved; counts as certain


def guarded(
    counted: Sequence[Counted],
    attributes: Sequence[Attribute],
    answered: Answered,
    rule: Disclosure,
    *,
    n_beside: int = 0,
) -> list[Counted]:
    """The counts, if nobody is given away by all tables of a split together.

    ``counted`` and ``attributes`` are by attribute, first ``n_beside`` of releases that
    are there already and stay as they are; models are in the order of the runs. Of
    public data those who are given away are counted. With ``joint`` "coarsen" tables
    are made coarser until nobody is.

    Raises:
        InputError: together the tables give somebody away; says how many models of a
            split do not.
    """
    tables = Tables(counted, attributes, answered, rule, n_beside)
    new = counted[n_beside:]
    if rule.public_data:
        n_proved, n_open = tables.given_away()
        n = n_proved + n_open
        return [replace(counts, n_together=n, n_unproved=n_open) for counts in new]
    n_safe = tables.most_safe(tables.n_models, rest=Detail.SIZES)
    if n_safe == tables.n_models:
        return [replace(counts, n_together=0, n_unproved=0) for counts in new]
    if rule.joint == "refuse":
        raise InputError(_refusal(tables.n_models, n_safe), field="joint")
    return tables.coarsened(n_safe)


def _refusal(n_models: int, n_safe: int) -> str:
    few = "release fewer attributes"
    if n_safe:
        few = f"release at most {plural(n_safe, 'setting')}"
    return (
        f"the tables of {plural(n_models, 'setting')} on one split may together give "
        f"away with certainty who was trained on; {few}, or coarser tables with joint "
        '"coarsen".'
    )


class Tables:
    """The tables of all models, split by split."""

    def __init__(
        self,
        counted: Sequence[Counted],
        attributes: Sequence[Attribute],
        answered: Answered,
        rule: Disclosure,
        n_beside: int = 0,
    ) -> None:
        """``n_beside`` of the attributes are written already and get no coarser."""
        self.counted = counted
        self.n_beside = n_beside
        self.codes = [attribute.codes for attribute in attributes]
        self.answered = answered
        self.details = [_detail(counts, rule) for counts in counted]
        self.splits = splits_of(answered.part)
        self.alone = np.zeros(answered.part.shape, dtype=bool)
        if not rule.certain_cells and not rule.public_data:
            self.alone = _certain_alone(self)
        self.n_models = max(map(len, self.splits))  # the most on one split

    def given_away(self) -> tuple[int, int]:
        """People whom only several tables give away, once a split: proved, and open."""
        n_proved = 0
        n_open = 0
        for models in self.splits:
            equations = _equations(self, models, self.details)
            found = certain(equations)
            n_proved += int(equations.people[found.is_proved].sum())
            n_open += int(equations.people[found.is_open].sum())
        return n_proved, n_open

    def most_safe(self, n_models: int, *, rest: Detail) -> int:
        """How many models of a split, of the first, may have the tables that they have.

        Those of the others show no more than ``rest``. More tables say more, so that
        halving finds it.
        """
        n_safe = n_models
        for models in self.splits:
            if self._is_safe(models, n_safe, rest):
                continue
            least = 0
            most = n_safe - 1
            while least < most:
                middle = (least + most + 1) // 2
                if self._is_safe(models, middle, rest):
                    least = middle
                else:
                    most = middle - 1
            n_safe = least
        return n_safe

    def _is_safe(self, models: Sequence[int], n_exact: int, rest: Detail) -> bool:
        """Whether nobody of a split is given away if other tables are no finer."""
        details = self._no_finer(models[n_exact:], rest)
        if rest is Detail.SIZES:  # which tell nothing of answers
            models = models[:n_exact]
        if not models:
            return True
        return is_nobody_certain(_equations(self, models, details))

    def _no_finer(self, models: Sequence[int], rest: Detail) -> list[IntArray]:
        """The details, with those of some models at most ``rest``."""
        details = [detail.copy() for detail in self.details]
        for detail in details[self.n_beside :]:
            detail[models] = np.maximum(detail[models], rest)
        return details

    def coarsened(self, n_safe: int) -> list[Counted]:
        """The counts with coarser tables of all but the first models of a split.

        They keep the positive rates of the test part if that is safe, too.
        """
        rest = Detail.POSITIVE_RATE
        if not all(self._is_safe(models, n_safe, rest) for models in self.splits):
            rest = Detail.SIZES
        others = [model for models in self.splits for model in models[n_safe:]]
        coarse = zip(self.counted, self._no_finer(others, rest), strict=True)
        made = [
            replace(counts, detail=detail, n_together=0, n_unproved=0)
            for counts, detail in coarse
        ]
        return made[self.n_beside :]


def _detail(counts: Counted, rule: Disclosure) -> IntArray:
    """(model, group) the detail that each table alone allows."""
    if rule.certain_cells or rule.public_data:
        return np.zeros((len(counts.runs), len(counts.groups)), dtype=np.int64)
    return disclosure.coarsened(tables_of(counts))


def _certain_alone(tables: Tables) -> BoolArray:
    """(model, record) whom a model's coarse tables give away without the others'.

    ``certain_cells`` promises less: nobody by the answer to one person.
    """
    alone = np.zeros(tables.answered.part.shape, dtype=bool)
    for model in range(len(alone)):
        equations = _equations(tables, [model], tables.details)
        found = certain(equations)
        is_certain = found.is_proved | found.is_open
        alone[model, equations.who] = is_certain[equations.kind]
    return alone


def splits_of(part: IntArray) -> list[list[int]]:
    """The models of each split: those that agree who was trained on, where both know.

    They are found by whom they were trained on, whatever their splits are called.
    """
    splits: list[list[int]] = []
    known: list[IntArray] = []  # of each split so far, everybody's part
    for model, own in enumerate(part):
        for models, parts in zip(splits, known, strict=True):
            is_other = (own != parts) & (own != ABSENT) & (parts != ABSENT)
            if not is_other.any():
                models.append(model)
                parts[:] = np.minimum(parts, own)
                break
        else:
            splits.append([model])
            known.append(own.copy())
    return splits


def _equations(
    tables: Tables, models: Sequence[int], details: Sequence[IntArray]
) -> Equations:
    """What the tables of some models of one split say of its people."""
    part = tables.answered.part[models]
    is_there = (part != ABSENT).any(axis=0)
    is_there &= np.any([codes >= 0 for codes in tables.codes], axis=0)
    groups = [codes[is_there] for codes in tables.codes]
    label = tables.answered.positive[is_there].astype(np.int64)
    answers = np.where(part == ABSENT, ABSENT, tables.answered.predicted[models])
    answers = answers[:, is_there]
    is_trained = (part[:, is_there] == 0).any(axis=0)

    kind = _numbered([*(codes + 1 for codes in groups), label, *answers])
    first, kind = _classes(kind)
    people = np.bincount(kind)
    trained = np.bincount(kind[is_trained], minlength=len(people))
    rows = _Rows(people, trained)
    for codes, detail in zip(groups, details, strict=True):
        for answer, of_groups in zip(answers, detail[models], strict=True):
            rows.add_table(codes[first], label[first], answer[first], of_groups)
    who = np.flatnonzero(is_there)
    is_shown = rows.is_shown
    is_shown[kind[tables.alone[models][:, who].any(axis=0)]] = True
    return Equations(rows.matrix, people, trained, is_shown, who, kind)


def _classes(code: IntArray) -> tuple[IntArray, IntArray]:
    """(class,) the first record of each code, and (record,) its class, by the code."""
    n_codes = int(code.max(initial=-1)) + 1
    if n_codes > len(code):
        _, first, kind = np.unique(code, return_index=True, return_inverse=True)
        return first, kind
    # Few codes are counted, which takes less time than sorting the records.
    used = np.flatnonzero(np.bincount(code, minlength=n_codes))
    numbers = np.zeros(n_codes, dtype=np.int64)
    numbers[used] = np.arange(len(used))
    first = np.zeros(n_codes, dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return first[used], numbers[code]


def _numbered(columns: Sequence[IntArray]) -> IntArray:
    """(record,) one whole number for each combination of values from 0."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    n_codes = 1
    for column in columns:
        n_values = int(column.max(initial=0)) + 1
        if n_codes * n_values > LARGEST_CODE:
            used, code = np.unique(code, return_inverse=True)
            n_codes = len(used)
        code = code * n_values + column
        n_codes *= n_values
    return code


class _Rows:
    """The equations of a split, as they are collected table by table."""

    def __init__(self, people: IntArray, trained: IntArray) -> None:
        self.people = people
        self.trained = trained
        self.is_shown = np.zeros(len(people), dtype=bool)
        # Of every entry of the matrix its class and its equation, by what it counts.
        self._classes: list[IntArray] = []
        self._equations: list[IntArray] = []
        self._n = 0

    def add_table(
        self, codes: IntArray, label: IntArray, answer: IntArray, detail: IntArray
    ) -> None:
        """One model's table of one attribute; arguments but the last are by class."""
        classes = np.flatnonzero((codes >= 0) & (answer != ABSENT))
        group = codes[classes]
        level = detail[group]
        kind = 2 * group + label[classes]
        self._add(classes, kind)  # labels of either part count as known
        # Negative answers are the others. An accuracy, with labels and answers, is all
        # of the table.
        is_positive = answer[classes] == 1
        is_whole = is_positive & (level <= Detail.ACCURACY)
        self._add(classes[is_whole], kind[is_whole])
        is_rate = is_positive & (level == Detail.POSITIVE_RATE)
        self._add(classes[is_rate], group[is_rate])
        is_exact = level == Detail.COUNTS
        self._show(classes[is_exact], (2 * kind + is_positive)[is_exact])

    def _add(self, classes: IntArray, counted_in: IntArray) -> None:
        """Equations: how many of the classes that are counted together trained."""
        if len(classes):
            self._classes.append(classes)
            self._equations.append(counted_in + self._n)
            self._n += int(counted_in.max()) + 1

    def _show(self, classes: IntArray, cell: IntArray) -> None:
        """Cells that give away everybody in them."""
        n_trained = np.bincount(cell, self.trained[classes])
        n_people = np.bincount(cell, self.people[classes])
        is_certain = (n_trained == 0) | (n_trained == n_people)
        self.is_shown[classes] |= is_certain[cell]

    @property
    def matrix(self) -> Any:
        """(equation, class) sparse; equations that others repeat are left out."""
        import scipy.sparse as sp

        classes = np.concatenate(self._classes)
        equations = np.concatenate(self._equations)
        ones = np.ones(len(classes), dtype=np.int64)
        shape = (self._n, len(self.people))
        matrix: Any = sp.csr_array((ones, (equations, classes)), shape=shape)
        # Equal sums of random numbers are of equal rows.
        numbers = np.random.default_rng(0).integers(2**62, size=len(self.people))
        _, first = np.unique(matrix @ numbers, return_index=True)
        return matrix[np.sort(first)]


def is_nobody_certain(equations: Equations) -> bool:
    """Whether only those whom a cell alone gives away are, as far as can be decided."""
    return all(
        not (found.is_proved | found.is_open).any()
        for _, found in _searched(equations, is_quick=True)
    )


def certain(equations: Equations) -> Certain:
    """Who is given away, beyond those whom a cell alone gives away."""
    none = np.zeros(len(equations.people), dtype=bool)
    together = Certain(none, none.copy())
    for classes, found in _searched(equations, is_quick=False):
        together.is_proved[classes] = found.is_proved
        together.is_open[classes] = found.is_open
    return together


def _searched(
    equations: Equations, *, is_quick: bool
) -> Iterator[tuple[IntArray, Certain]]:
    """Classes that equations link, one lot after another, and who of them is certain.

    A quick search looks for whole numbers only where nobody is proved to be certain.
    """
    from scipy.sparse.csgraph import connected_components

    left = np.flatnonzero(~equations.is_shown)
    matrix = equations.matrix[:, left]
    _, lot = connected_components(matrix.T @ matrix, directed=False)
    for number in range(int(lot.max(initial=-1)) + 1):
        chosen = np.flatnonzero(lot == number)
        rows = matrix[:, chosen]
        rows = rows[np.flatnonzero(rows.sum(axis=1))]
        classes = left[chosen]
        search = _Search(rows, equations.people[classes], equations.trained[classes])
        yield classes, search.found(is_quick=is_quick)


class _Search:
    """Which classes could have another number of people trained on?

    With x the number of each class and t the true one, matrix x = matrix t, and
    0 <= x <= people.
    """

    def __init__(self, matrix: Any, people: IntArray, trained: IntArray) -> None:
        self.matrix = matrix
        self.people = people
        self.trained = trained
        self.total: IntArray = matrix @ trained
        self.at_stake = (trained == 0) | (trained == people)
        self.away = np.where(trained == 0, 1, -1)  # the side on which there is room

    def found(self, *, is_quick: bool) -> Certain:
        """Who is certain: proved, or open."""
        n_equations = self.matrix.shape[0]
        is_easy = n_equations <= MANY_EQUATIONS
        is_hopeless = not is_easy and n_equations > len(self.people) / 4
        is_open = self.at_stake.copy()
        if is_easy:  # mostly one solution in whole numbers is another for everybody
            is_open &= ~self._moved(is_open)
        is_proved = self._bounded(is_open)
        is_open &= ~is_proved
        is_settled = is_quick and is_proved.any()
        if not is_easy and not is_hopeless and not is_settled:
            is_open &= ~self._moved(is_open)
        return Certain(is_proved, is_open)

    def _bounded(self, wanted: BoolArray) -> BoolArray:
        """(class,) which of them have a number that follows, by linear programs.

        Each moves as many people as it can. Those moved do not follow; where all others
        together can be moved by less than one person, they do.
        """
        from scipy.optimize import linprog

        waiting: BoolArray = wanted.copy()
        bounds = [(0, n) for n in self.people.tolist()]
        while waiting.any():
            price: IntArray = -self.away * waiting
            solved: Any = linprog(
                price, A_eq=self.matrix, b_eq=self.total, bounds=bounds
            )
            if solved.x is None:
                return np.zeros_like(waiting)
            if self._is_less_than_one(price, solved.eqlin.marginals):
                return waiting
            is_moved = waiting & (np.abs(solved.x - self.trained) > MOVED)
            if not is_moved.any():
                return np.zeros_like(waiting)
            waiting &= ~is_moved
        return waiting

    def _is_less_than_one(self, price: IntArray, duals: FloatArray) -> bool:
        """Whether no solution is cheaper than the truth by a whole person, exactly.

        For any y:  price x >= y total + sum_j min(0, (price - y matrix)_j) people_j.
        """
        y = np.rint(duals * SCALE).astype(np.int64)
        reduced = price * SCALE - self.matrix.T @ y
        least = y @ self.total + np.minimum(reduced, 0) @ self.people
        return bool(least > (price @ self.trained - 1) * SCALE)

    def _moved(self, wanted: BoolArray) -> BoolArray:
        """(class,) which of them have another number in a solution in whole numbers."""
        moved = np.zeros_like(wanted)
        while (wanted & ~moved).any():
            waiting = wanted & ~moved
            found = self._whole_numbers(-self.away * waiting)
            if found is None:
                break
            is_new = waiting & (found != self.trained)
            if not is_new.any():
                break
            moved |= is_new
        return moved

    def _whole_numbers(self, price: IntArray) -> IntArray | None:
        """A solution in whole numbers of a low price, checked; None if not found."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        solved: Any = milp(
            price,
            integrality=np.ones_like(price),
            bounds=Bounds(0, self.people),
            constraints=LinearConstraint(self.matrix, self.total, self.total),
            options={"node_limit": MOST_NODES},
        )
        if solved.x is None:
            return None
        found = np.rint(solved.x).astype(np.int64)
        is_one = np.array_equal(self.matrix @ found, self.total)
        is_inside = (found >= 0) & (found <= self.people)
        return found if is_one and is_inside.all() else None
