"""Which subgroup that nobody thought of is hit hardest, and by how much at least?

``worst_subgroup`` looks at every conjunction of up to two (or three) attribute values,
such as women of 45 and over, compares each with everybody else, and says of the one
that stands out most how far it does so at least. Searching through many finds something
by chance, so that the largest of all candidates is compared with the largest of all
candidates after persons' numbers were permuted against whole rows of attributes: the
candidates overlap in every draw as they do in truth.

The numbers are exposures by person (advantage or paired confidence), outcomes or
errors; all that counts is that group means are means of them. Variance is multiplied by
``factor``, since what training records change about each other is in no permutation:
where attributes are features of a local model the plain test alarms in 50 of 200. To
add what is said of a winner: a field of ``Worst``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient
from pcer.statistics import POWER_QUANTILE

LEAST_PEOPLE = 100  # inside a candidate, and outside
DEPTH = 2  # attribute values in a conjunction, at most
FACTOR = 2.0  # of the variance
DRAWS = 999
SHUFFLED = 1_000  # people who are permuted one by one; more are turned on wheels
TURNS = 10  # permutations that one wheel gives
# Two attacks are searched, each at half of 5 %: an advantage near its ceiling is blind.
LEVEL = 0.025
NOT_APART = 1.645  # normal quantile: a child that is nearer to its parent is no finding
TIE = 1e-9  # relative distance of statistics that count as equal

Conditions = tuple[tuple[str, str], ...]
Choice = tuple[tuple[int, int], ...]  # attributes and their levels, by position


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The subgroup that stands out most, and what the search was."""

    n_candidates: int
    p_value: float  # that the most extreme candidate stands out this far by chance
    critical_value: float  # of the largest t over the root of the factor
    detectable: float  # difference that ``LEAST_PEOPLE`` show in 8 of 10 cases
    conditions: Conditions = ()  # none: nobody stands out
    n_people: int = 0
    difference: float = math.nan  # its mean, minus that of everybody else
    standard_error: float = math.nan  # with the factor
    lower_bound: float = math.nan  # simultaneous over all candidates


class Candidates(NamedTuple):
    """Conjunctions, and which rows of attributes have them."""

    conditions: Sequence[Conditions]
    atoms: BoolArray  # (candidate, atom) whether people of this row of values are in it
    atom: IntArray  # (person,) which row of values they have


class _Numbers(NamedTuple):
    """Persons' numbers by atom: arrays (atom,)."""

    n: FloatArray
    total: FloatArray
    squares: FloatArray


def worst_subgroup(  # noqa: PLR0913 # a front door
    exposure: FloatArray,
    attributes: Mapping[str, Sequence[Any] | npt.NDArray[Any]],
    *,
    depth: int = DEPTH,
    least: int = LEAST_PEOPLE,
    strata: IntArray | None = None,
    factor: float = FACTOR,
    draws: int = DRAWS,
    seed: int = 0,
    person: IntArray | None = None,
    level: float = LEVEL,
) -> Worst:
    """Search all conjunctions of attribute values for the highest mean.

    With t the studentised difference of a candidate from the rest, F the factor and c
    the critical value of the largest t* over D permutations:

        p = (1 + #{max t* >= max t / sqrt(F)}) / (D + 1)
        lower bound = difference - c sqrt(F) error

    Conditions are dropped from a significant winner while a shorter conjunction is
    significant as well and the winner does not differ from the rest of it.

    Args:
        exposure: (record,) numbers whose group means are compared; people without a
            number (NaN) are left out.
        attributes: (record,) values by name; None or NaN count as a value.
        depth: values in a conjunction, at most 3.
        least: people inside a candidate, and outside.
        strata: (record,) such as the label: numbers are then permuted within each.
        factor: what the variance is multiplied by.
        draws: permutations.
        seed: of the permutations.
        person: (record,) the same number for records of one person.
        level: of the search.
    """
    if not 1 <= depth <= 3:
        raise InputError(f"depth is {depth}; choose 1, 2 or 3 attribute values.")
    if level * (draws + 1) < 1:
        raise InputError(f"draws is {draws}, too few for this level; use 999.")
    people = _people(exposure, attributes, strata, person)
    found = candidates(people.attributes, depth=depth, least=least)
    if not found.conditions:
        return Worst(
            n_candidates=0, p_value=1.0, critical_value=math.nan, detectable=math.nan
        )
    values = _levelled(people.values, people.strata)
    numbers = _by_atom(values, found)
    t = _studentised(numbers, found.atoms)
    largest = np.empty(draws)
    rng = np.random.default_rng(seed)
    for draw, permuted in enumerate(_drawn(values, people.strata, found, draws, rng)):
        largest[draw] = _studentised(permuted, found.atoms).max()

    scaled = t / math.sqrt(factor)
    most = float(scaled.max()) * (1 - TIE)
    n_beyond = int((largest >= most).sum())
    critical = float(np.sort(largest)[-int(level * (draws + 1))])
    search = Worst(
        n_candidates=len(found.conditions),
        p_value=(1 + n_beyond) / (draws + 1),
        critical_value=critical,
        detectable=_detectable(values, least, critical, factor),
    )
    if most <= critical:
        return search
    winner = int(np.argmax(scaled))
    winner = _shortened(found, numbers, scaled, critical, winner, factor)
    return _with_winner(search, found, numbers, winner, factor)


class _People(NamedTuple):
    values: FloatArray
    attributes: Mapping[str, npt.NDArray[Any]]
    strata: IntArray


def _people(
    exposure: FloatArray,
    attributes: Mapping[str, Sequence[Any] | npt.NDArray[Any]],
    strata: IntArray | None,
    person: IntArray | None,
) -> _People:
    """One row a person: the mean of their numbers, and the values of their records."""
    named = {name: np.asarray(values) for name, values in attributes.items()}
    levels = np.zeros(len(exposure), dtype=np.int64) if strata is None else strata
    for name, values in named.items():
        if len(values) != len(exposure):
            raise InputError(
                f"attributes: {name!r} has {len(values)} values for {len(exposure)} "
                "records; give one a record."
            )
    is_known = np.isfinite(exposure)
    rows = np.flatnonzero(is_known)
    numbers = exposure[rows]
    if person is not None:
        _, first, places, counts = np.unique(
            person[rows], return_index=True, return_inverse=True, return_counts=True
        )
        _require_one_row_a_person(named, rows, first, places)
        numbers = np.bincount(places, weights=numbers) / counts
        rows = rows[first]
    of_people = {name: values[rows] for name, values in named.items()}
    return _People(numbers, of_people, levels[rows])


def _require_one_row_a_person(
    attributes: Mapping[str, npt.NDArray[Any]],
    rows: IntArray,
    first: IntArray,
    places: IntArray,
) -> None:
    for name, values in attributes.items():
        text = values[rows].astype(str)
        if (text != text[first][places]).any():
            raise InputError(
                f"attributes: {name!r} has two values for one person; subgroups are of "
                "people, so give every record of a person the same."
            )


class _Rows(NamedTuple):
    """The different rows of attribute values."""

    names: Sequence[str]
    levels: Sequence[Sequence[str]]  # of each attribute
    codes: IntArray  # (attribute, atom) positions in its levels
    n: IntArray  # (atom,) people
    atom: IntArray  # (person,)

    def conditions(self, chosen: Choice) -> Conditions:
        """Names and values of a choice."""
        return tuple((self.names[a], self.levels[a][level]) for a, level in chosen)

    def are_inside(self, chosen: Choice) -> BoolArray:
        """(atom,) which rows have all values of a choice."""
        chosen_codes = [self.codes[a] == level for a, level in chosen]
        return np.asarray(np.all(chosen_codes, axis=0))


def _rows(attributes: Mapping[str, npt.NDArray[Any]]) -> _Rows:
    codes = []
    levels = []
    for values in attributes.values():
        unique, of_people = np.unique(values.astype(str), return_inverse=True)
        codes.append(of_people)
        levels.append(unique.tolist())
    rows, atom, counts = np.unique(
        np.stack(codes), axis=1, return_inverse=True, return_counts=True
    )
    return _Rows(list(attributes), levels, rows, counts, atom.ravel())


def candidates(
    attributes: Mapping[str, npt.NDArray[Any]], *, depth: int, least: int
) -> Candidates:
    """All conjunctions with people enough inside and outside, the shortest first.

    Conjunctions of the same people count once, by the shortest.
    """
    rows = _rows(attributes)
    atoms: dict[bytes, BoolArray] = {}
    conditions: list[Conditions] = []
    for chosen in _choices([len(levels) for levels in rows.levels], depth):
        is_inside = rows.are_inside(chosen)
        n = int(rows.n[is_inside].sum())
        is_new = is_inside.tobytes() not in atoms
        if is_new and min(n, len(rows.atom) - n) >= least:
            atoms[is_inside.tobytes()] = is_inside
            conditions.append(rows.conditions(chosen))
    every = np.array(list(atoms.values()), dtype=bool)
    return Candidates(conditions, every.reshape(len(atoms), len(rows.n)), rows.atom)


def _choices(sizes: Sequence[int], depth: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Attributes and their levels, of up to ``depth`` different attributes."""
    for length in range(1, depth + 1):
        for chosen in combinations(range(len(sizes)), length):
            levels = np.ndindex(*[sizes[attribute] for attribute in chosen])
            for level in levels:
                yield tuple(zip(chosen, level, strict=True))


def _by_atom(values: FloatArray, found: Candidates) -> _Numbers:
    """People, sums and sums of squares of each row of values."""
    n_atoms = found.atoms.shape[1]

    def sums(weights: FloatArray) -> FloatArray:
        return np.asarray(
            np.bincount(found.atom, weights=weights, minlength=n_atoms),
            dtype=np.float64,
        )

    return _Numbers(sums(np.ones(len(values))), sums(values), sums(values**2))


class _Gap(NamedTuple):
    """Differences of candidates from the rest: arrays (candidate,)."""

    difference: FloatArray
    error: FloatArray


def _gap(inside: _Numbers, outside: _Numbers) -> _Gap:
    """Difference of two means, and sqrt(v_1/(n_1 - 1) + v_0/(n_0 - 1))."""
    means = []
    variance: FloatArray = np.zeros(np.shape(inside.n))
    for side in (inside, outside):
        mean = quotient(side.total, side.n)
        spread = np.maximum(quotient(side.squares, side.n) - mean**2, 0.0)
        variance = variance + quotient(spread, side.n - 1)
        means.append(mean)
    return _Gap(means[0] - means[1], np.sqrt(variance))


def _sums(numbers: _Numbers, atoms: BoolArray) -> _Numbers:
    return _Numbers(*(atoms @ column for column in numbers))


def _against_rest(numbers: _Numbers, atoms: BoolArray) -> _Gap:
    return _gap(_sums(numbers, atoms), _sums(numbers, ~atoms))


def _studentised(numbers: _Numbers, atoms: BoolArray) -> FloatArray:
    """(candidate,) t; 0 where nothing varies."""
    gap = _against_rest(numbers, atoms)
    return np.asarray(quotient(gap.difference, gap.error, otherwise=0.0))


def _levelled(values: FloatArray, strata: IntArray) -> FloatArray:
    """Shift every stratum to the overall mean, which a permutation cannot change."""
    _, places, counts = np.unique(strata, return_inverse=True, return_counts=True)
    means = np.bincount(places, weights=values) / counts
    return np.asarray(values - means[places] + values.mean())


def _drawn(
    values: FloatArray,
    strata: IntArray,
    found: Candidates,
    draws: int,
    rng: np.random.Generator,
) -> Iterator[_Numbers]:
    """Numbers by atom of permuted people: one by one, or where they are many, turned.

    Each stratum of many people lies on a wheel in random order, of which every turn is
    a random permutation; sums of the atoms are then differences of one running sum.
    """
    if len(values) <= SHUFFLED:
        for permuted in _permuted(values, strata, draws, rng):
            yield _by_atom(permuted, found)
        return
    n = _by_atom(values, found).n
    parts = [np.flatnonzero(strata == level) for level in np.unique(strata)]
    for start in range(0, draws, TURNS):
        n_turns = min(TURNS, draws - start)
        sums = np.zeros((2, n_turns, len(n)))
        for part in parts:
            sizes = np.bincount(found.atom[part], minlength=len(n))
            sums += _turned(rng.permutation(values[part]), sizes, n_turns, rng)
        for total, squares in zip(*sums, strict=True):
            yield _Numbers(n, total, squares)


def _turned(
    wheel: FloatArray, sizes: IntArray, n_turns: int, rng: np.random.Generator
) -> FloatArray:
    """(2, turn, atom) sums and sums of squares of stretches of these sizes."""
    starts = rng.integers(0, len(wheel), n_turns)
    ends = starts[:, None] + np.append(0, np.cumsum(sizes))
    twice = np.concatenate([wheel, wheel])
    sums = []
    for column in (twice, twice**2):
        running = np.append(0.0, np.cumsum(column))
        sums.append(np.diff(running[ends], axis=1))
    return np.stack(sums)


def _permuted(
    values: FloatArray, strata: IntArray, draws: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Persons' numbers in random order, within each stratum."""
    parts = [np.flatnonzero(strata == level) for level in np.unique(strata)]
    permuted = values.copy()
    for _ in range(draws):
        for part in parts:
            permuted[part] = values[rng.permutation(part)]
        yield permuted


def _shortened(
    found: Candidates,
    numbers: _Numbers,
    scaled: FloatArray,
    critical: float,
    winner: int,
    factor: float,
) -> int:
    """Drop conditions that add nothing; returns the candidate that is left."""
    while True:
        parents = []
        for place in _parents(found, winner):
            if scaled[place] >= critical:
                gap = _from_rest_of(found, numbers, winner, place)
                if gap < NOT_APART * math.sqrt(factor):
                    parents.append(place)
        if not parents:
            return winner
        winner = max(parents, key=lambda place: float(scaled[place]))


def _parents(found: Candidates, winner: int) -> list[int]:
    """Candidates with one condition less."""
    conditions = found.conditions[winner]
    shorter = set(combinations(conditions, len(conditions) - 1))
    return [place for place, others in enumerate(found.conditions) if others in shorter]


def _from_rest_of(
    found: Candidates, numbers: _Numbers, child: int, parent: int
) -> float:
    """Studentised difference of a conjunction from the rest of a shorter one."""
    inside = found.atoms[[child]]
    rest = found.atoms[[parent]] & ~inside
    gap = _gap(_sums(numbers, inside), _sums(numbers, rest))
    return float(quotient(gap.difference, gap.error, otherwise=0.0)[0])


def _with_winner(
    search: Worst, found: Candidates, numbers: _Numbers, winner: int, factor: float
) -> Worst:
    """The search with what is said of its winner."""
    atoms = found.atoms[[winner]]
    gap = _against_rest(numbers, atoms)
    difference = float(gap.difference[0])
    error = float(gap.error[0]) * math.sqrt(factor)
    return replace(
        search,
        conditions=found.conditions[winner],
        n_people=int(_sums(numbers, atoms).n[0]),
        difference=difference,
        standard_error=error,
        lower_bound=difference - search.critical_value * error,
    )


def _detectable(
    values: FloatArray, least: int, critical: float, factor: float
) -> float:
    """Difference that the smallest candidate would show in 8 of 10 cases.

    (c + z) sqrt(F) s sqrt(1/m + 1/(n - m)), with m people inside of n, s the deviation
    of persons' numbers and z the normal quantile of 80 %.
    """
    n = len(values)
    error = float(values.std()) * math.sqrt(1 / least + 1 / max(n - least, 1))
    return (critical + POWER_QUANTILE) * math.sqrt(factor) * error
