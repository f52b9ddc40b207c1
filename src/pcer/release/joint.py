"""What do all tables of a split give away together?

Every count is a sum over people. Who knows everybody's groups, label and answers has,
of each split, an equation for each cell of each model's table: more models, more
equations, until nobody's membership is left open. ``models`` and ``sweep`` call
``guarded`` with the counts, before anything is attacked. What one cell gives away
alone is the matter of ``disclosure``.

People of a class are alike in groups, label and all answers. ``solving`` finds which
classes are certain.

To add a released number that is a sum over people trained on: its rows in
``_equations``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.release import disclosure
from pcer.release.build import Counted, tables_of
from pcer.release.disclosure import Detail, Disclosure
from pcer.release.population import Attribute
from pcer.release.solving import Equations, certain, is_nobody_certain
from pcer.wording import plural

ABSENT = 2  # the part and the answer of people whom a model did not score
MOST_TRIED = 12  # models of a split whose tables are made coarser one by one
MOST_DENSE = 2**21  # entries of a matrix that is no sparse one
LARGEST_CODE = 2**40  # of a class, before codes are numbered anew


class Answered(NamedTuple):
    """Who was in which part of every model, and what it answered them."""

    positive: BoolArray  # (record,) whether the label is
    part: IntArray  # (model, record) 0 for training, 1 for test, or ABSENT
    predicted: BoolArray  # (model, record) whether the answer is positive
    persons: IntArray | None = None  # (record,) whose it is, where people have several


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
        """The counts with coarser tables, by which nobody is given away.

        Of few models each table is as fine as it can be after those before it. Of many
        all but the first models have sizes, and positive rates if that is safe.
        """
        if self.n_models <= MOST_TRIED:
            details = self._one_by_one()
        else:
            rest = Detail.POSITIVE_RATE
            if not all(self._is_safe(models, n_safe, rest) for models in self.splits):
                rest = Detail.SIZES
            last = (models[n_safe:] for models in self.splits)
            others = [*chain.from_iterable(last)]
            details = self._no_finer(others, rest)
        made = [
            replace(counts, detail=detail, n_together=0, n_unproved=0)
            for counts, detail in zip(self.counted, details, strict=True)
        ]
        return made[self.n_beside :]

    def _one_by_one(self) -> list[IntArray]:
        """Details of all tables: the finest by which nobody is given away, in order.

        A group has the same detail in the same place of each split.
        """
        everybody = [*chain.from_iterable(self.splits)]
        details = self._no_finer(everybody, Detail.SIZES)
        for place in range(self.n_models):
            models = [own[place] for own in self.splits if place < len(own)]
            whole = [detail.copy() for detail in details]
            for detail, finest in zip(whole, self.details, strict=True):
                detail[models] = finest[models]
            if self._are_safe(whole, place + 1):
                details = whole
                continue
            for attribute in range(self.n_beside, len(details)):
                for group in range(details[attribute].shape[1]):
                    details = self._finer(details, models, attribute, group, place + 1)
        return details

    def _finer(
        self,
        details: list[IntArray],
        models: Sequence[int],
        attribute: int,
        group: int,
        n_models: int,
    ) -> list[IntArray]:
        """The details, with finer tables of one group in some models if that is safe.

        ``n_models``: only so many of a split show more than sizes.
        """
        for level in (Detail.COUNTS, Detail.POSITIVE_RATE):
            finer = [detail.copy() for detail in details]
            finest = self.details[attribute][models, group]
            finer[attribute][models, group] = np.maximum(finest, level)
            if self._are_safe(finer, n_models):
                return finer
        return details

    def _are_safe(self, details: Sequence[IntArray], n_models: int) -> bool:
        """Whether nobody is given away by the first models of a split, with details."""
        return all(
            is_nobody_certain(_equations(self, models[:n_models], details))
            for models in self.splits
        )


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
    found = Equations(rows.matrix, people, trained, rows.is_shown, who, kind)
    if tables.answered.persons is not None:
        found = _of_persons(found, tables.answered.persons[who], is_trained)
    is_alone = tables.alone[models][:, who].any(axis=0)
    found.is_shown[found.kind[is_alone]] = True
    return found


def _of_persons(
    of_records: Equations, persons: IntArray, is_trained: BoolArray
) -> Equations:
    """Equations of people, from those of records, where each one's are in one part.

    ``persons`` and ``is_trained`` are by record of a table. People are alike who have
    as many records of each class.
    """
    import scipy.sparse as sp

    _, first, owner = np.unique(persons, return_index=True, return_inverse=True)
    if (is_trained != is_trained[first][owner]).any():
        return of_records
    n_kinds = len(of_records.people)
    ones = np.ones(len(owner), dtype=np.int64)
    shape = (len(first), n_kinds)
    records: Any = sp.csr_array((ones, (owner, of_records.kind)), shape=shape)
    # Equal sums of random numbers are of equal rows.
    numbers = np.random.default_rng(0).integers(2**62, size=n_kinds)
    _, alike, kind = np.unique(
        records @ numbers, return_index=True, return_inverse=True
    )
    records = records[alike]
    return Equations(
        matrix=of_records.matrix @ records.T,
        people=np.bincount(kind),
        trained=np.bincount(kind[is_trained[first]], minlength=len(alike)),
        is_shown=records @ of_records.is_shown.astype(np.int64) > 0,
        who=of_records.who,
        kind=kind[owner],
    )


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
        """(equation, class) 1 where counted; equations that others repeat are left out.

        Large ones are sparse.
        """
        classes = np.concatenate(self._classes)
        equations = np.concatenate(self._equations)
        shape = (self._n, len(self.people))
        if self._n * len(self.people) <= MOST_DENSE:
            matrix: Any = np.zeros(shape, dtype=np.int64)
            matrix[equations, classes] = 1
        else:
            import scipy.sparse as sp

            ones = np.ones(len(classes), dtype=np.int64)
            matrix = sp.csr_array((ones, (equations, classes)), shape=shape)
        # Equal sums of random numbers are of equal rows.
        numbers = np.random.default_rng(0).integers(2**62, size=len(self.people))
        _, first = np.unique(matrix @ numbers, return_index=True)
        return matrix[np.sort(first)]
