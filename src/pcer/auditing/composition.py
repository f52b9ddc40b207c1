"""How random splits cut groups and labels: the chance of what was counted, exactly.

A split that draws its training records at random gives every cell (group by label) a
hypergeometric share of them; balanced on something, it does so within each stratum. Splits
of one data set share its records, but each is drawn anew: given the totals they are independent.
The folds of a cross-validation are not, so what needs independence leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pcer.metrics import FloatArray
from pcer.release.format import StratifiedBy

"""What a split was balanced on."""

REACH = 10.0
"""Deviations each side of the mean that a count can reach; beyond lies less than 1e-22."""
SMALLEST_CHANCE = 1e-22
"""No chance is taken to be smaller: that is what REACH cuts off."""
TIE = 1e-12
"""Relative difference of numbers that are equal but for rounding errors."""
EXACT_DEVIATION = 1_000.0
"""Above this deviation of a count its distribution is the normal one for every purpose here."""
CONVOLVED_DEVIATION = 20.0
"""The same for a cell of a table: beyond, two draws are alike as two normal ones are."""
ROUNDING = 1 + 1e-9
"""Records by which dividing whole numbers in one proportion can miss it, and a rounding error."""
CLEARLY_FREE = 0.5
"""A balanced count is off by less than this share of a random one's deviation. Strata finer than
the declared ones (label by sex by race) add up their roundings, which stays far below it."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Records of every split by group and label: two arrays (split, group, label).

    Without labels the last axis has length 1.
    """

    train: FloatArray
    test: FloatArray

    @property
    def total(self) -> FloatArray:
        """Records of both parts, (split, group, label)."""
        return self.train + self.test

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.train)

    @property
    def has_labels(self) -> bool:
        """Whether records are counted by label."""
        return int(self.train.shape[2]) > 1

    def only(self, splits: list[int]) -> Composition:
        """The same of some of the splits."""
        return Composition(train=self.train[splits], test=self.test[splits])


def by_stratum(table: FloatArray, strata: StratifiedBy) -> FloatArray:
    """Cells (split, group, label) as (split, stratum, cell)."""
    if strata == "group":
        return table
    if strata == "label":
        return table.swapaxes(1, 2)
    n_splits, cells = len(table), table[0].size
    return table.reshape((n_splits, 1, cells) if strata == "nothing" else (n_splits, cells, 1))


def n_fold_sets(composition: Composition) -> int:
    """How many complete sets of folds the splits are: 0 unless their test parts tile the data.

    Tiling to the last record in every cell does not happen by chance to splits drawn one by one.
    """
    total, tested = composition.total, composition.test.sum(axis=0)
    if composition.n_splits < 2 or (total != total[0]).any():
        return 0
    sets = tested.sum() / total[0].sum()
    return int(sets) if sets == int(sets) and (tested == sets * total[0]).all() else 0


def distribution(*, total: float, good: float, sampled: float) -> tuple[int, FloatArray]:
    """Hypergeometric probabilities of a run of whole numbers, and the first of them.

    >>> distribution(total=4, good=2, sampled=2)[1].round(12).tolist()
    [0.166666666667, 0.666666666667, 0.166666666667]
    """
    mean, width = sampled * good / total, REACH * deviation(total, good, sampled) + 1
    low = max(0.0, sampled + good - total, math.floor(mean - width))
    high = min(good, sampled, math.ceil(mean + width))
    k = np.arange(low, high)
    steps = (good - k) * (sampled - k) / ((k + 1) * (total - good - sampled + k + 1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(steps))])
    weights = np.exp(logs - logs.max())
    return int(low), weights / weights.sum()


def deviation(total: float, good: float, sampled: float) -> float:
    """Standard deviation of the good ones among those sampled without replacement."""
    if total < 2:
        return 0.0
    share = good / total
    return math.sqrt(sampled * share * (1 - share) * (total - sampled) / (total - 1))


def two_sided_chance(
    observed: float, *, total: float, good: float, sampled: float, inflation: float = 1.0
) -> float:
    """Chance that a random split misses the expected number by at least as much.

    Args:
        observed: good ones that were sampled.
        inflation: by how much clumps of records that fall together multiply the variance;
            above 1 the normal stands in for the exact distribution.

    >>> round(two_sided_chance(2, total=4, good=2, sampled=2), 12)
    0.333333333333
    """
    spread = deviation(total, good, sampled) * math.sqrt(inflation)
    if spread == 0:
        return 1.0
    miss = abs(observed - sampled * good / total)
    if inflation > 1 or spread > EXACT_DEVIATION:
        return max(SMALLEST_CHANCE, math.erfc(max(0.0, miss - 0.5) / spread / math.sqrt(2)))
    low, chance = distribution(total=total, good=good, sampled=sampled)
    off = np.abs(low + np.arange(len(chance)) - sampled * good / total)
    return float(min(1.0, max(SMALLEST_CHANCE, chance[off >= miss * (1 - TIE)].sum())))


def chance_within(allowed: float, *, total: float, good: float, sampled: float) -> float:
    """Chance that a random split misses the expected number by at most ``allowed``.

    >>> round(chance_within(0.5, total=4, good=2, sampled=2), 12)
    0.666666666667
    """
    if deviation(total, good, sampled) > EXACT_DEVIATION:
        return math.erf((allowed + 0.5) / deviation(total, good, sampled) / math.sqrt(2))
    low, chance = distribution(total=total, good=good, sampled=sampled)
    off = np.abs(low + np.arange(len(chance)) - sampled * good / total)
    return float(min(1.0, chance[off <= allowed].sum()))


def combine(chances: FloatArray, *, independent: bool) -> float:
    """One p-value of several: of the smallest (Bonferroni), if independent also of all (Fisher).

    Exact chances of counts are never too small, so both are valid however small the groups.

    >>> combine(np.array([0.02]), independent=True)
    0.02
    """
    from scipy.special import gammaincc

    n = len(chances)
    smallest = min(1.0, n * float(chances.min()))
    if n == 1 or not independent:
        return smallest
    product = float(gammaincc(n, -np.log(chances).sum()))
    return min(1.0, 2 * min(smallest, product))


def label_chances(
    composition: Composition, strata: StratifiedBy, *, inflation: FloatArray
) -> list[FloatArray]:
    """Per group the chances of its label mix in every split; independent draws over splits.

    Balanced by label, a group's share of each label is tested instead; a third group is then
    needed to tell one group from the other, so of two only the first is tested.
    """
    train, total = composition.train, composition.total
    n_splits, n_groups, n_labels = train.shape

    def one(s: int, g: int, label: int) -> float:
        stratum = (s, slice(None), label) if strata == "label" else (s, g)
        return two_sided_chance(
            train[s, g, label],
            total=total[stratum].sum(),
            good=total[s, g, label],
            sampled=train[stratum].sum(),
            inflation=float(inflation.max() if strata == "label" else inflation[g]),
        )

    labels = range(n_labels) if strata == "label" else (n_labels - 1,)
    groups = _distinct(n_groups) if strata == "label" else range(n_groups)
    return [np.array([one(s, g, y) for s in range(n_splits) for y in labels]) for g in groups]


def group_chances(composition: Composition, *, inflation: float) -> list[FloatArray]:
    """Per group the chances of its share of the training records, in every split."""
    trained, total = composition.train.sum(axis=2), composition.total.sum(axis=2)
    return [
        np.array(
            [
                two_sided_chance(
                    trained[s, g],
                    total=total[s].sum(),
                    good=total[s, g],
                    sampled=trained[s].sum(),
                    inflation=inflation,
                )
                for s in range(composition.n_splits)
            ]
        )
        for g in _distinct(trained.shape[1])
    ]


def misses(composition: Composition, strata: StratifiedBy) -> tuple[FloatArray, FloatArray]:
    """By how many records each stratum misses the training share of all, and what is allowed.

    Both (split, stratum). A stratum counts as balanced within ROUNDING, or CLEARLY_FREE of the
    deviation that a random split would give it.
    """
    drawn = by_stratum(composition.train, strata).sum(axis=2)
    size = by_stratum(composition.total, strata).sum(axis=2)
    n, trained = size.sum(axis=1, keepdims=True), drawn.sum(axis=1, keepdims=True)
    share = size / n
    spread = np.sqrt(trained * share * (1 - share) * (n - trained) / np.maximum(n - 1, 1))
    return np.abs(drawn - trained * share), np.maximum(ROUNDING, CLEARLY_FREE * spread)


def is_rounded(composition: Composition, strata: StratifiedBy) -> bool:
    """Whether every stratum of every split has the training share of all, but for rounding."""
    return bool((misses(composition, strata)[0] <= ROUNDING).all())


def chance_rounded(composition: Composition, strata: StratifiedBy) -> float:
    """Chance that random splits balance every stratum but for rounding; at most this.

    A split's least likely stratum bounds it. Of a set of folds the last one follows.
    """
    drawn = by_stratum(composition.train, strata).sum(axis=2)
    size = by_stratum(composition.total, strata).sum(axis=2)
    per_split = [
        min(chance_within(ROUNDING, total=n.sum(), good=part, sampled=t.sum()) for part in n)
        for n, t in zip(size, drawn, strict=True)
    ]
    return math.prod(per_split[n_fold_sets(composition) :])


def first_alike(composition: Composition) -> list[int]:
    """Of every split, the first that cuts all groups and labels as it does: itself, or earlier."""
    cuts = np.stack([composition.train, composition.test], axis=1)
    first: dict[bytes, int] = {}
    return [first.setdefault(cut.tobytes(), s) for s, cut in enumerate(cuts)]


def n_repeats(composition: Composition) -> int:
    """How many splits cut all groups and labels just as an earlier one does."""
    return composition.n_splits - len(set(first_alike(composition)))


def chance_of_repeats(
    composition: Composition, strata: StratifiedBy, *, inflation: FloatArray
) -> float:
    """Chance of so many repeats among different random splits; at most this.

    Two bounds of the same chance, the smaller counts: that of any pair alike, and that of a
    chain in which every split meets the likeliest table of each before it. Clumps that fall
    together leave fewer ways to cut a group: its numbers are divided by their inflation.
    """
    repeats = n_repeats(composition)
    if not repeats:
        return 1.0
    classes = [
        _shrunk(composition.only(splits), inflation) for splits in _comparable(composition, strata)
    ]
    likeliest = max(likeliest_table(one, strata) for one in classes)
    if n_fold_sets(composition):
        return _chance_of_repeated_folds(composition, strata, likeliest)
    pairs = sum(math.comb(one.n_splits, 2) * pair_chance(one, strata) for one in classes)
    return min(1.0, pairs, _chain(likeliest, n=composition.n_splits, repeats=repeats))


def _chance_of_repeated_folds(
    composition: Composition, strata: StratifiedBy, likeliest: float
) -> float:
    """The same of complete sets of folds.

    All alike: each is the exact share of every cell, which is one table. Else the last of each
    set follows from the others, and the one before it halves what is left: its likeliest table
    has a chance larger by the root of 2 for every cell that is free.
    """
    sets, repeats = n_fold_sets(composition), n_repeats(composition)
    if repeats == composition.n_splits - 1:
        return likeliest
    if repeats <= sets:
        return 1.0
    free = sum(len(size) - 1 for size, _ in _first_strata(composition, strata))
    worst = likeliest * 2 ** (free / 2)
    return _chain(min(1.0, worst), n=composition.n_splits - sets, repeats=repeats - sets)


def likeliest_table(composition: Composition, strata: StratifiedBy) -> float:
    """Chance of the likeliest way to cut all cells, where all splits draw as the first does."""
    parts = _first_strata(composition, strata)
    return math.prod(math.exp(_log_chance(_mode(n, t), n, t)) for n, t in parts)


def pair_chance(composition: Composition, strata: StratifiedBy) -> float:
    """Chance that two random splits cut all cells alike, where both draw as the first does.

    >>> table = np.full((2, 2, 1), 2.0)
    >>> round(pair_chance(Composition(train=table / 2, test=table / 2), "nothing"), 12)
    0.5
    """
    return math.prod(_alike(n, t) for n, t in _first_strata(composition, strata))


def _shrunk(composition: Composition, inflation: FloatArray) -> Composition:
    clumps = inflation[None, :, None]
    return Composition(
        train=np.rint(composition.train / clumps), test=np.rint(composition.test / clumps)
    )


def _distinct(n_groups: int) -> range:
    """Of two groups one follows from the other."""
    return range(1 if n_groups == 2 else n_groups)


def _comparable(composition: Composition, strata: StratifiedBy) -> list[list[int]]:
    """Splits that draw as many from each stratum of the same totals: only those can be alike."""
    drawn = by_stratum(composition.train, strata).sum(axis=2)
    classes: dict[bytes, list[int]] = {}
    for s, total in enumerate(composition.total):
        classes.setdefault(total.tobytes() + drawn[s].tobytes(), []).append(s)
    return [splits for splits in classes.values() if len(splits) > 1]


def _first_strata(
    composition: Composition, strata: StratifiedBy
) -> Iterator[tuple[FloatArray, float]]:
    """Cells and draws of the first split's strata, without those that leave nothing to chance."""
    cells = by_stratum(composition.total, strata)[0]
    drawn = by_stratum(composition.train, strata)[0].sum(axis=1)
    for size, trained in zip(cells, drawn, strict=True):
        if 0 < trained < size.sum():
            yield size[size > 0], float(trained)


def _mode(size: FloatArray, drawn: float) -> FloatArray:
    """The likeliest cells: from the rounded shares uphill, which has one top."""
    cells: FloatArray = np.floor(size * drawn / size.sum())
    for _ in range(int(drawn - cells.sum())):
        cells[np.argmax((size - cells) / (cells + 1))] += 1
    while True:
        give, take = cells / (size - cells + 1), (size - cells) / (cells + 1)
        a, b = int(np.argmax(give)), int(np.argmax(take))
        if a == b or give[a] * take[b] <= 1 + TIE:
            return cells
        cells[a], cells[b] = cells[a] - 1, cells[b] + 1


def _log_chance(cells: FloatArray, size: FloatArray, drawn: float) -> float:
    """Log of the multivariate hypergeometric probability."""
    chosen = _log_choose(size, cells).sum() - _log_choose(size.sum(), np.float64(drawn))
    return float(min(0.0, chosen))


def _log_choose(n: FloatArray | np.float64, k: FloatArray | np.float64) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _alike(size: FloatArray, drawn: float) -> float:
    """Chance that two draws are alike, which is the sum of squared probabilities.

    Cells drawn one by one with a common chance are independent; given their sum they are what is
    wanted. So their squares are convolved, and the sum's own square divides.
    """
    share = drawn / size.sum()
    if share * (1 - share) * size.max() > CONVOLVED_DEVIATION**2:
        likeliest = math.exp(_log_chance(_mode(size, drawn), size, drawn))
        return float(likeliest * 2 ** (-(len(size) - 1) / 2))
    start, squares = 0, np.ones(1)
    for n in size:
        low, chance = _binomial(n, share)
        start, squares = start + low, np.convolve(squares, chance**2)
    whole = math.exp(_log_choose(size.sum(), np.float64(drawn)) + _log_odds(share, drawn, size))
    return float(squares[int(drawn) - start] / whole**2)


def _log_odds(share: float, drawn: float, size: FloatArray) -> float:
    return float(drawn * math.log(share) + (size.sum() - drawn) * math.log1p(-share))


def _binomial(n: float, share: float) -> tuple[int, FloatArray]:
    width = REACH * math.sqrt(n * share * (1 - share)) + 1
    low, high = max(0, math.floor(n * share - width)), min(n, math.ceil(n * share + width))
    k = np.arange(low, high + 1, dtype=np.float64)
    logs = _log_choose(np.full(len(k), n), k) + k * math.log(share) + (n - k) * math.log1p(-share)
    return low, np.exp(logs)


def _chain(likeliest: float, *, n: int, repeats: int) -> float:
    """Chance of at least ``repeats`` among n draws whose every value has at most that chance.

    With d different values so far, the next is one of them with chance at most d times that.
    """
    state = np.zeros(repeats + 1)
    state[0] = 1.0
    for drawn in range(1, n):
        different = np.maximum(drawn - np.arange(repeats), 0)
        moved = state[:-1] * np.minimum(1.0, different * likeliest)
        state[:-1] -= moved
        state[1:] += moved
    return float(state[-1])
