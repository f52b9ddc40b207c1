"""Synthetic tables of real people: generators that remember, and worlds to draw from.

Tests and ``benchmarks/synthetic.py`` share them. A generator makes a table of as many
rows from one half of the people; who it must remember better is told by ``planted``.
The people are of UCI Adult: 11 columns from the folder that ``PCER_DATA`` names, or the
9 of the extract in the package.
"""

import gzip
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import pcer.data

WHOLE = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status"),
    *("occupation", "relationship", "race", "sex", "capital_gain", "capital_loss"),
    *("hours_per_week", "native_country", "income"),
)
LEFT_OUT = ["fnlwgt", "education", "relationship", "native_country"]
NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
N_NEIGHBOURS, N_BINS, LEAF = 5, 20, 5
CLOSE = 0.05  # share of all people who count as close to a synthetic record


class People(NamedTuple):
    """Numbers (person, column) and categories (person, column) by their places."""

    numbers: np.ndarray
    codes: np.ndarray
    levels: tuple[tuple[str, ...], ...]

    def at(self, rows: np.ndarray) -> "People":
        """Some of them, or some of them twice."""
        return People(self.numbers[rows], self.codes[rows], self.levels)

    @property
    def n(self) -> int:
        """How many."""
        return len(self.numbers)

    def columns(self) -> list[np.ndarray]:
        """(person, place) blocks: numbers as they are, categories as indicators."""
        numbers = [column[:, None] for column in self.numbers.T]
        sizes = [len(names) for names in self.levels]
        kinds = zip(self.codes.T, sizes, strict=True)
        return [*numbers, *(np.eye(size)[codes] for codes, size in kinds)]

    def frame(self) -> pd.DataFrame:
        """As a user's table."""
        table = dict(zip(NUMBERS, self.numbers.T, strict=True))
        for k, names in enumerate(self.levels):
            table[f"category {k}"] = np.array(names, dtype=object)[self.codes[:, k]]
        return pd.DataFrame(table)


Planted = np.ndarray  # (person of the half,) whom a generator remembers better
Generator = Callable[[People, Planted, np.random.Generator], People]


# Who is audited.


@cache
def adult() -> tuple[People, np.ndarray]:
    """All of Adult without an unknown occupation, and who is recorded as White."""
    folder = Path(os.environ.get("PCER_DATA", ""))
    if (folder / "adult.data.gz").is_file():
        table = _whole_adult(folder)
    else:
        path = Path(pcer.data.__file__).parent / "files" / "adult.csv.gz"
        table = pd.read_csv(path, keep_default_na=False)
    table = table[table["occupation"] != "?"].reset_index(drop=True)
    names = [name for name in table.columns if name not in NUMBERS]
    factors = [pd.factorize(table[name], sort=True) for name in names]
    codes = np.column_stack([one[0] for one in factors])
    levels = tuple(tuple(map(str, one[1])) for one in factors)
    numbers = table[NUMBERS].to_numpy(dtype=np.float64)
    return People(numbers, codes, levels), (table["race"] == "White").to_numpy()


def _whole_adult(folder: Path) -> pd.DataFrame:
    tables = []
    for name, n_skipped in (("adult.data.gz", 0), ("adult.test.gz", 1)):
        with gzip.open(folder / name, "rt", encoding="ascii") as lines:
            table = pd.read_csv(
                lines,
                names=WHOLE,
                skiprows=n_skipped,
                skipinitialspace=True,
                keep_default_na=False,
            )
        tables.append(table)
    whole = pd.concat(tables, ignore_index=True).drop(columns=LEFT_OUT)
    whole["income"] = whole["income"].str.rstrip(".")
    return whole


def mirrored(people: People, group: np.ndarray) -> People:
    """Group 1 as the mirror image of group 0 in every number: apart, and alike.

    Whoever swaps the groups and mirrors the numbers has the same world again: a
    generator that treats a mirrored column alike exposes both groups alike.
    """
    numbers = people.numbers.copy()
    numbers[group == 1] = -numbers[group == 1]
    return people._replace(numbers=numbers)


def spread_twice(people: People, group: np.ndarray) -> People:
    """Numbers of group 1 lie twice as far from the mean: a thinner neighbourhood."""
    centre = people.numbers.mean(axis=0)
    factor = np.where(group == 1, 2.0, 1.0)[:, None]
    return people._replace(numbers=centre + factor * (people.numbers - centre))


# Generators.


def blur(width: float, redrawn: float, *, factor: float = 1.0) -> Generator:
    """Rows of the half with noise of ``width`` deviations and categories redrawn.

    Both are ``factor`` times as large for the planted.
    """

    def make(half: People, planted: Planted, rng: np.random.Generator) -> People:
        rows = rng.integers(0, half.n, half.n)
        times = np.where(planted, factor, 1.0)[rows, None]
        noise = rng.normal(size=half.numbers.shape) * half.numbers.std(axis=0)
        others = [rng.choice(column, half.n) for column in half.codes.T]
        is_redrawn = rng.random(half.codes.shape) < redrawn * times
        codes = np.where(is_redrawn, np.column_stack(others), half.codes[rows])
        return People(half.numbers[rows] + width * times * noise, codes, half.levels)

    return make


def twice(generator: Generator) -> Generator:
    """The planted stand twice in the half that is fitted."""

    def make(half: People, planted: Planted, rng: np.random.Generator) -> People:
        rows = np.append(np.arange(half.n), np.flatnonzero(planted))
        return generator(half.at(rows), planted[rows], rng)

    return make


def by_trees(half: People, planted: Planted, rng: np.random.Generator) -> People:
    """Each column by a tree on those before it; values are drawn from the leaf."""
    n_numbers = half.numbers.shape[1]
    values = [*half.numbers.T, *half.codes.T]
    real = half.columns()
    n_levels = [len(names) for names in half.levels]
    made = [rng.choice(values[0], half.n)]
    blocks = [made[0][:, None]]
    for k in range(1, len(values)):
        kind = DecisionTreeRegressor if k < n_numbers else DecisionTreeClassifier
        tree = kind(min_samples_leaf=LEAF, random_state=int(rng.integers(2**31)))
        before = np.hstack(real[:k])
        tree.fit(before, values[k])
        leaves = (tree.apply(before), tree.apply(np.hstack(blocks)))
        drawn = _drawn_from_leaf(values[k], *leaves, rng)
        made.append(drawn)
        is_number = k < n_numbers
        blocks.append(
            drawn[:, None] if is_number else np.eye(n_levels[k - n_numbers])[drawn]
        )
    numbers = np.column_stack(made[:n_numbers])
    return People(numbers, np.column_stack(made[n_numbers:]), half.levels)


def _drawn_from_leaf(
    values: np.ndarray, real: np.ndarray, made: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """For each made row the value of a random real row in its leaf."""
    order = np.argsort(real, kind="stable")
    first = np.searchsorted(real[order], made, side="left")
    last = np.searchsorted(real[order], made, side="right")
    return values[order[rng.integers(first, last)]]


def gaussian(half: People, planted: Planted, rng: np.random.Generator) -> People:
    """Means and covariances of numbers and indicators; the largest is the category."""
    blocks = half.columns()
    table = np.hstack(blocks)
    roots, axes = np.linalg.eigh(np.cov(table, rowvar=False))
    spread = axes * np.sqrt(np.clip(roots, 0, None))
    drawn = table.mean(axis=0) + rng.normal(size=table.shape) @ spread.T
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    parts = np.split(drawn, ends, axis=1)
    n_numbers = half.numbers.shape[1]
    codes = [part.argmax(axis=1) for part in parts[n_numbers:]]
    return People(drawn[:, :n_numbers], np.column_stack(codes), half.levels)


def smote(half: People, planted: Planted, rng: np.random.Generator) -> People:
    """From a person a random share of the way to one of the five nearest."""
    table = standardised(half, half)
    near = np.argsort(cdist(table, table), axis=1)[:, 1 : N_NEIGHBOURS + 1]
    rows = rng.integers(0, half.n, half.n)
    other = near[rows, rng.integers(0, N_NEIGHBOURS, half.n)]
    share = rng.random(half.n)[:, None]
    start = half.numbers[rows]
    numbers = start + share * (half.numbers[other] - start)
    is_other = rng.random(half.codes.shape) < share
    codes = np.where(is_other, half.codes[other], half.codes[rows])
    return People(numbers, codes, half.levels)


def private_marginals(epsilon: float, low: np.ndarray, high: np.ndarray) -> Generator:
    """Columns by themselves: counts in 20 public bins, with Laplace noise d/epsilon."""

    def make(half: People, planted: Planted, rng: np.random.Generator) -> People:
        scale = (half.numbers.shape[1] + half.codes.shape[1]) / epsilon
        numbers = []
        for column, start, stop in zip(half.numbers.T, low, high, strict=True):
            counts, edges = np.histogram(column, N_BINS, (start, stop))
            bins = _drawn_by_noisy(counts, half.n, scale, rng)
            numbers.append(rng.uniform(edges[bins], edges[bins + 1]))
        codes = []
        for column, names in zip(half.codes.T, half.levels, strict=True):
            counts = np.bincount(column, minlength=len(names))
            codes.append(_drawn_by_noisy(counts, half.n, scale, rng))
        return People(np.column_stack(numbers), np.column_stack(codes), half.levels)

    return make


def _drawn_by_noisy(
    counts: np.ndarray, n: int, scale: float, rng: np.random.Generator
) -> np.ndarray:
    noisy = np.clip(counts + rng.laplace(scale=scale, size=len(counts)), 0, None)
    if noisy.sum() == 0:
        noisy = np.ones(len(counts))
    return rng.choice(len(counts), n, p=noisy / noisy.sum())


BLUR = blur(0.5, 0.2)
QUARTER = blur(1.0, 0.5, factor=0.25)
HALF_OF_WIDE = blur(2.0, 0.8, factor=0.5)


def random_halves(n: int, n_splits: int, rng: np.random.Generator) -> np.ndarray:
    """(split, person) who is in the half that is fitted."""
    member = np.zeros((n_splits, n), dtype=bool)
    for inside in member:
        inside[rng.permutation(n)[: n // 2]] = True
    return member


# The usual measure.


def standardised(people: People, scales: People) -> np.ndarray:
    """(person, place) numbers over their deviation, indicators over root 2."""
    deviation = scales.numbers.std(axis=0)
    numbers = people.numbers / np.where(deviation > 0, deviation, 1.0)
    n_numbers = people.numbers.shape[1]
    indicators = [block / np.sqrt(2) for block in people.columns()[n_numbers:]]
    return np.hstack([numbers, *indicators])


class Difference(NamedTuple):
    """Of two groups, the first minus the second."""

    value: float
    z: float


def closest_record_difference(
    people: People, synthetic: People, group: np.ndarray
) -> Difference:
    """How much more often group 1 is close to a synthetic record than group 0.

    The distance to the closest record (DCR): a person is close if it is among the
    smallest twentieth of everybody's. The error is that of two shares.
    """
    tables = standardised(people, people), standardised(synthetic, people)
    distance = cdist(*tables).min(axis=1)
    is_close = distance <= np.quantile(distance, CLOSE)
    shares = np.array([is_close[group == k].mean() for k in (0, 1)])
    sizes = np.array([(group == k).sum() for k in (0, 1)])
    error = np.sqrt((shares * (1 - shares) / sizes).sum())
    value = float(shares[1] - shares[0])
    return Difference(value, value / error if error else 0.0)
