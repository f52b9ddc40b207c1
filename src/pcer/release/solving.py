"""Who is alike in every solution of the equations that tables are?

``joint`` makes the equations of a split and asks ``is_nobody_certain`` before a
release, and ``certain`` of public data. The unknowns are how many people of each class
were trained on; those of a class are alike in groups, label and all answers. Nobody of
a class is certain where some of it were trained on and some were not. Else:

* two people trained on, exchanged for two others with the same sums, make it not
  certain: most classes are settled by this;
* a linear program bounds the class; a bound below one person, checked in exact
  arithmetic, makes it certain;
* a solution in whole numbers with another number in the class makes it not certain;
* a class with none, after ``MOST_NODES`` or where equations are too many to search,
  counts as certain.

To add a way of settling a class: a step of ``_Search.found``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pcer.metrics import BoolArray, FloatArray, IntArray

MOST_NODES = 50  # of one search for whole numbers; then a class counts as certain
# More equations than this, for a quarter as many classes, and no search ends in time.
MANY_EQUATIONS = 24
MOST_EXCHANGED = 500  # classes whose pairs are tried, since pairs go by the square
MOVED = 1e-6  # what a linear program changes by less is rounding
SCALE = 2**20  # duals are rounded to whole numbers of its inverse, which are exact


class Equations(NamedTuple):
    """What the tables of one split say of the people in it."""

    # (equation, class) how many records of one person are counted: an array, or sparse
    matrix: Any
    people: IntArray  # (class,) how many there are
    trained: IntArray  # (class,) how many of them were trained on; not released
    is_shown: BoolArray  # (class,) whether a cell alone gives them away
    who: IntArray  # the records that are in a table
    kind: IntArray  # (who,) the class of each


class Certain(NamedTuple):
    """(class,) Who is given away."""

    is_proved: BoolArray
    is_open: BoolArray  # neither proved nor disproved; counts as certain


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
    left = np.flatnonzero(~equations.is_shown)
    matrix = equations.matrix[:, left]
    lot = _linked(matrix)
    people = equations.people[left]
    trained = equations.trained[left]
    at_stake = (trained == 0) | (trained == people)
    for number in np.unique(lot[at_stake]):
        chosen = np.flatnonzero(lot == number)
        rows = matrix[:, chosen]
        if not isinstance(rows, np.ndarray):
            rows = rows.toarray()
        rows = rows[rows.any(axis=1)]
        search = _Search(rows, people[chosen], trained[chosen])
        yield left[chosen], search.found(is_quick=is_quick)


def _linked(matrix: Any) -> IntArray:
    """(class,) the first of the classes that equations link it with, near or far."""
    equation, member = matrix.nonzero()
    first = np.arange(matrix.shape[1])
    while True:
        of_equation = np.full(matrix.shape[0], matrix.shape[1])
        np.minimum.at(of_equation, equation, first[member])
        linked = first.copy()
        np.minimum.at(linked, member, of_equation[equation])
        if np.array_equal(linked, first):
            return first
        first = linked


class _Search:
    """Which classes could have another number of people trained on?

    With x the number of each class and t the true one, matrix x = matrix t, and
    0 <= x <= people.
    """

    def __init__(self, matrix: IntArray, people: IntArray, trained: IntArray) -> None:
        self.matrix = matrix
        self.people = people
        self.trained = trained
        self.total: IntArray = matrix @ trained
        self.at_stake = (trained == 0) | (trained == people)
        self.away = np.where(trained == 0, 1, -1)  # the side on which there is room

    def found(self, *, is_quick: bool) -> Certain:
        """Who is certain: proved, or open."""
        is_open = self.at_stake & ~self._exchanged(self.at_stake)
        if not is_open.any():
            return Certain(is_open, is_open.copy())
        is_proved = self._bounded(is_open)
        is_open &= ~is_proved
        n_equations = self.matrix.shape[0]
        is_hopeless = n_equations > max(MANY_EQUATIONS, len(self.people) / 4)
        is_settled = is_quick and is_proved.any()
        if not is_hopeless and not is_settled:
            is_open &= ~self._moved(is_open)
        return Certain(is_proved, is_open)

    def _exchanged(self, wanted: BoolArray) -> BoolArray:
        """(class,) which of them gain or lose one in an exchange of two for two.

        Trained on are two of the classes c and d instead of two of a and b. With the
        columns A of the matrix, A_a + A_b = A_c + A_d: equal sums of random numbers are
        found first, and then checked.
        """
        numbers = np.random.default_rng(0).integers(2**62, size=len(self.matrix))
        column = numbers @ self.matrix
        untrained = self.people - self.trained
        is_moved = np.zeros_like(wanted)
        for gains, loses in ((untrained, self.trained), (self.trained, untrained)):
            at_stake = np.flatnonzero(wanted & (loses == 0))
            if len(at_stake):
                gaining = _pairs(at_stake, gains)
                losing = _pairs(_largest(loses), loses)
                found = _alike(column, gaining, losing)
                is_moved[_checked(self.matrix, found)] = True
        return is_moved

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


def _largest(n: IntArray) -> IntArray:
    """The classes of most people, and no empty one."""
    order = np.argsort(-n, kind="stable")[:MOST_EXCHANGED]
    return order[n[order] > 0]


def _pairs(first: IntArray, n: IntArray) -> IntArray:
    """(2, pair) Two people each: one of the first classes and one of any.

    ``n`` is how many people each class has.
    """
    second = _largest(n)
    one = np.repeat(first, len(second))
    other = np.tile(second, len(first))
    is_there = (one != other) | (n[one] > 1)
    return np.stack([one, other])[:, is_there]


def _alike(column: IntArray, gaining: IntArray, losing: IntArray) -> IntArray:
    """(4, exchange) The gaining pairs whose sum a losing one has, with one such."""
    sums = column[losing].sum(axis=0)
    sought = column[gaining].sum(axis=0)
    order = np.argsort(sums)
    place = np.searchsorted(sums, sought, sorter=order)
    is_inside = place < len(sums)
    near = order[place[is_inside]]
    gaining = gaining[:, is_inside]
    is_equal = sums[near] == sought[is_inside]
    return np.concatenate([gaining[:, is_equal], losing[:, near[is_equal]]])


def _checked(matrix: IntArray, exchanges: IntArray) -> IntArray:
    """First classes of (4, exchange) classes that leave all sums as they are."""
    first, place = np.unique(exchanges[0], return_index=True)
    one, other, *losing = exchanges[:, place]
    change = matrix[:, one] + matrix[:, other]
    for lost in losing:
        change -= matrix[:, lost]
    return first[~change.any(axis=0)]
