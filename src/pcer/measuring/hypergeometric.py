"""Exact probabilities of how random splits cut groups and labels.

A split that draws its training records at random gives every cell (group by label) a
hypergeometric share of them; balanced on something, it does so within each stratum.
Splits of one data set share its records, but are drawn separately: given the totals
they are independent. The folds of a cross-validation are not, so what needs
independence leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.measuring.exact import SMALLEST_P, Strata, memorised
from pcer.metrics import FloatArray
from pcer.release.records import StratifiedBy
from pcer.statistics import upper_p

# Records by which dividing integers in one proportion can miss it, and a rounding
# error.
ROUNDING = 1 + 1e-9
# A balanced count is off by less than this share of a random one's deviation. Strata
# finer than the declared ones (label by sex by race) add up their roundings, which
# stays far below it.
CLEARLY_FREE = 0.5
# Records times cells, of all tables, up to which the probability of two equal ones is
# exact.
MOST_CONVOLVED = 1_000_000


class SplitCounts(NamedTuple):
    """Records of every split: arrays (split, group, label); one label for all if unknown."""

    train: FloatArray
    test: FloatArray

    @property
    def total(self) -> FloatArray:
        """Records of both parts."""
        return self.train + self.test

    @property
    def has_labels(self) -> bool:
        """Whether records are counted by label."""
        return int(self.train.shape[2]) > 1

    def only(self, splits: Sequence[int]) -> SplitCounts:
        """Some of the splits."""
        return SplitCounts(self.train[[*splits]], self.test[[*splits]])


def by_stratum(table: FloatArray, strata: StratifiedBy) -> FloatArray:
    """Cells (split, group, label) as (split, stratum, cell)."""
    if strata == "group":
        return table
    if strata == "label":
        return table.swapaxes(1, 2)
    n_splits = len(table)
    cells = table[0].size
    return table.reshape(
        (n_splits, 1, cells) if strata == "nothing" else (n_splits, cells, 1)
    )


def n_fold_sets(counts: SplitCounts) -> int:
    """How many complete sets of folds the splits are: 0 unless their test parts tile the data."""
    total = counts.total
    tested = counts.test.sum(axis=0)
    if len(counts.train) < 2 or (total != total[0]).any():
        return 0
    sets = tested.sum() / total[0].sum()
    return int(sets) if sets == int(sets) and (tested == sets * total[0]).all() else 0


# One count, and the mix of labels and groups


def upper_tails(strata: Strata, inflation: FloatArray) -> FloatArray:
    """Chance (group,) of so many hits, or more, by a random split; NaN where nothing can vary."""
    p, excess, variance = memorised(strata)
    clumped = upper_p(excess - 0.5, np.sqrt(variance * inflation))  # normal
    return np.where((inflation > 1) & (variance > 0), clumped, p)


def lower_tails(strata: Strata, inflation: FloatArray) -> FloatArray:
    """Chance (group,) of so few hits, or fewer."""
    total, trained, correct, hits = strata
    return upper_tails(
        Strata(total, total - trained, correct, correct - hits), inflation
    )


def label_chances(
    counts: SplitCounts, strata: StratifiedBy, inflation: FloatArray
) -> list[FloatArray]:
    """Per group the chances of its label mix in every split; 1 where nothing can vary."""
    # Balanced by label, a group's share of each label is tested instead; a third group
    # is then needed to tell one group from the other, so of two only the first is
    # tested. That is also the test of groups in all records, as of one label.
    by_label = strata == "label"
    n_groups = counts.train.shape[1]
    total = counts.total
    axis = 1 if by_label else 2
    drawn_from, drawn = (
        part.sum(axis=axis, keepdims=True) for part in (total, counts.train)
    )
    clumps = inflation.max() if by_label else inflation[:, None]
    arrays = np.broadcast_arrays(drawn_from, drawn, total, counts.train, clumps)
    *parts, clumped = (part.reshape(1, 1, -1) for part in arrays)
    tails = [tail(Strata(*parts), clumped[0, 0]) for tail in (upper_tails, lower_tails)]
    p = np.nan_to_num(np.clip(2 * np.minimum(*tails), SMALLEST_P, 1.0), nan=1.0)
    p = p.reshape(total.shape)
    groups = range(1 if by_label and n_groups == 2 else n_groups)
    return [p[:, g, 0 if by_label else -1 :].ravel() for g in groups]


def combine(chances: FloatArray, *, independent: bool) -> float:
    """One p-value of several: of the smallest (Bonferroni), if independent also of all (Fisher)."""
    from scipy.special import gammaincc

    # Exact chances of counts are never too small, so both are valid however small the
    # groups.
    n = len(chances)
    smallest = min(1.0, n * float(chances.min()))
    if n == 1 or not independent:
        return smallest
    product = float(gammaincc(n, -np.log(chances).sum()))
    return min(1.0, 2 * min(smallest, product))


# Balance


def misses(counts: SplitCounts, strata: StratifiedBy) -> tuple[FloatArray, FloatArray]:
    """Records by which each (split, stratum) misses the training share of all; what is allowed."""
    drawn, size = (
        by_stratum(part, strata).sum(axis=2) for part in (counts.train, counts.total)
    )
    n = size.sum(axis=1, keepdims=True)
    trained = drawn.sum(axis=1, keepdims=True)
    share = size / n
    spread = np.sqrt(
        trained * share * (1 - share) * (n - trained) / np.maximum(n - 1, 1)
    )
    return np.abs(drawn - trained * share), np.maximum(ROUNDING, CLEARLY_FREE * spread)


def is_rounded(counts: SplitCounts, strata: StratifiedBy) -> bool:
    """Whether every stratum of every split has the training share of all, but for rounding."""
    return bool((misses(counts, strata)[0] <= ROUNDING).all())


def chance_rounded(counts: SplitCounts, strata: StratifiedBy) -> float:
    """Chance that random splits balance every stratum but for rounding; at most this."""
    drawn, size = (
        by_stratum(part, strata).sum(axis=2) for part in (counts.train, counts.total)
    )
    n = size.sum(axis=1, keepdims=True)
    trained = drawn.sum(axis=1, keepdims=True)
    mean = trained * size / n
    within = np.ones(size.size)
    outside = np.floor(mean + ROUNDING) + 1, np.ceil(mean - ROUNDING) - 1
    for tails, hits in zip((upper_tails, lower_tails), outside, strict=True):
        parts = np.broadcast_arrays(n, trained, size, hits)
        strata_of_all = Strata(*(part.reshape(1, 1, -1) for part in parts))
        within -= np.nan_to_num(tails(strata_of_all, np.ones(1)))
    per_split = within.reshape(size.shape).min(
        axis=1
    )  # the least likely stratum bounds it
    # Of a set of folds the last one follows.
    return float(np.clip(per_split[n_fold_sets(counts) :], SMALLEST_P, 1.0).prod())


# Splits that are alike


def repeats(counts: SplitCounts) -> dict[int, int]:
    """Splits that cut all groups and labels as an earlier one does, and the first to do so."""
    seen: dict[bytes, int] = {}
    cuts = enumerate(np.stack(counts, axis=1))
    return {
        s: first for s, cut in cuts if (first := seen.setdefault(cut.tobytes(), s)) != s
    }


def chance_of_repeats(
    counts: SplitCounts, strata: StratifiedBy, inflation: FloatArray
) -> float:
    """Chance of so many repeats among different random splits; at most this."""
    # The smaller of two bounds counts: that of any pair alike, and that of a chain, in
    # which a split meets the likeliest table. Clumps that fall together leave fewer
    # ways to cut a group: its numbers are divided by their inflation.
    n = len(counts.train)
    n_repeats = len(repeats(counts))
    if not n_repeats or n_fold_sets(counts):  # folds follow from each other
        return 1.0
    drawn = by_stratum(counts.train, strata).sum(axis=2)
    comparable = dict[bytes, list[int]]()
    for s, total in enumerate(
        counts.total
    ):  # only splits that draw as many can be alike
        comparable.setdefault(total.tobytes() + drawn[s].tobytes(), []).append(s)
    clumps = SplitCounts(*(np.rint(part / inflation[None, :, None]) for part in counts))
    several = [splits for splits in comparable.values() if len(splits) > 1]
    likeliest, pairs = 0.0, 0.0
    for splits in several:
        most = MOST_CONVOLVED // len(several)
        largest, alike = table_chances(clumps.only(splits), strata, most=most)
        likeliest = max(likeliest, largest)
        pairs = pairs + math.comb(len(splits), 2) * alike
    return min(1.0, pairs, chain(likeliest, n=n, repeats=n_repeats))


def table_chances(
    counts: SplitCounts, strata: StratifiedBy, *, most: int = MOST_CONVOLVED
) -> tuple[float, float]:
    """Chance of the likeliest way to cut all cells, and that two splits cut them alike."""
    # All draw as the first does. Of more than ``most`` records times cells, the first
    # chance bounds the second.
    size, drawn = (by_stratum(part, strata)[0] for part in (counts.total, counts.train))
    rows = [*zip(size, drawn.sum(axis=1), strict=True)]
    largest = math.prod(_largest_chance(*row) for row in rows)
    is_small = size.sum() * size.shape[1] <= most
    return largest, math.prod(_twice(*row) for row in rows) if is_small else largest


def chain(likeliest: float, *, n: int, repeats: int) -> float:
    """Chance of at least ``repeats`` among n draws whose every value has at most that chance."""
    state = np.zeros(repeats + 1)
    state[0] = 1.0
    for drawn in range(1, n):
        different = np.maximum(drawn - np.arange(repeats), 0)
        moved = state[:-1] * np.minimum(1.0, different * likeliest)
        state[:-1] -= moved
        state[1:] += moved
    return float(state[-1])


def _largest_chance(size: FloatArray, drawn: float) -> float:
    """Multivariate hypergeometric probability of the likeliest cells."""
    # They have at least their share of the draws, one record added to every cell; each
    # further draw goes where it adds most, which is the top since the logarithm is
    # concave in each cell.
    cells = np.floor((size + 1) * (drawn / (size.sum() + len(size))))
    for _ in range(int(drawn - cells.sum())):
        cells[np.argmax((size - cells) / (cells + 1))] += 1
    log = _log_choose(size, cells).sum() - _log_choose(size.sum(), drawn)
    return math.exp(min(0.0, float(log)))


def _twice(size: FloatArray, drawn: float) -> float:
    """Chance that two draws of so many have the same cells: every table's own chance, squared."""
    # Binomial counts are hypergeometric given their sum, so squared chances are
    # convolved.
    n = int(size.sum())
    if not 0 < drawn < n:
        return 1.0
    odds = math.log(drawn / (n - drawn))
    product = np.ones(n // 2 + 1, dtype=np.complex128)

    def log_chance(
        cell: float, k: FloatArray | float
    ) -> FloatArray:  # of k in such a cell
        return _log_choose(cell, k) + k * odds + cell * math.log1p(-drawn / n)

    for cell in size:
        product *= np.fft.rfft(np.exp(2 * log_chance(cell, np.arange(cell + 1))), n)
    alike = np.fft.irfft(product, n)[int(drawn)] / np.exp(2 * log_chance(n, drawn))
    return min(1.0, float(alike))


def _log_choose(n: FloatArray | float, k: FloatArray | float) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
