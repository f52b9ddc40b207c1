"""How likely is it that random splits cut groups and labels like this? Exactly.

Called by the checks of declarations (``checks.chance``, ``checks.arrays``).

A split that draws its training records at random gives every cell (group by label) a
hypergeometric share of them; balanced on something, within each stratum of that. Given
the totals, splits are independent; the folds of a cross-validation are not, so what
needs independence leaves them out. Tables are (split, group, label); a *stratum* is
what a split is balanced on, its *cells* what chance divides the stratum among. To add a
chance: a function of ``SplitCounts``, asked by a check.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.measuring import exact
from pcer.measuring.exact import SMALLEST_P, Strata
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
    """Records of every split, (split, group, label); one label for all if unknown."""

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
    n_splits = len(table)
    n_cells = table[0].size
    if strata == "group":
        return table
    if strata == "label":
        return table.swapaxes(1, 2)
    if strata == "nothing":
        return table.reshape(n_splits, 1, n_cells)
    return table.reshape(n_splits, n_cells, 1)


def n_fold_sets(counts: SplitCounts) -> int:
    """How many complete sets of folds the splits are.

    0 unless the test parts tile the data: every record is tested equally often.
    """
    total = counts.total
    if len(total) < 2 or (total != total[0]).any():
        return 0
    tested = counts.test.sum(axis=0)
    n_sets = tested.sum() / total[0].sum()
    is_tiled = n_sets == int(n_sets) and (tested == n_sets * total[0]).all()
    return int(n_sets) if is_tiled else 0


# One count, and the mix of labels and groups


def upper_tails(strata: Strata, variance_inflation: FloatArray) -> FloatArray:
    """Chance (group,) of so many hits, or more; NaN where nothing can vary.

    Exact; of clumps by a normal, half a count off for continuity.
    """
    memorised = exact.memorised(strata)
    error = np.sqrt(memorised.variance * variance_inflation)
    clumped = upper_p(memorised.excess - 0.5, error)
    is_clumped = (variance_inflation > 1) & (memorised.variance > 0)
    return np.where(is_clumped, clumped, memorised.p_value)


def lower_tails(strata: Strata, variance_inflation: FloatArray) -> FloatArray:
    """Chance (group,) of so few hits: of so many correct records out of training."""
    total, trained, correct, hits = strata
    out_of_training = Strata(total, total - trained, correct, correct - hits)
    return upper_tails(out_of_training, variance_inflation)


def label_chances(
    counts: SplitCounts, strata: StratifiedBy, variance_inflation: FloatArray
) -> list[FloatArray]:
    """Per group the chances of its label mix in every split; 1 where nothing can vary.

    Two-sided: twice the smaller tail. Balanced by label, a group's share of each label
    is tested instead; a third group is then needed to tell one group from the other, so
    of two only the first is tested. That is also the test of groups in all records, as
    of one label.
    """
    by_label = strata == "label"
    axis = 1 if by_label else 2
    clumps = variance_inflation.max() if by_label else variance_inflation[:, None]
    cells = np.broadcast_arrays(
        counts.total.sum(axis=axis, keepdims=True),
        counts.train.sum(axis=axis, keepdims=True),
        counts.total,
        counts.train,
        clumps,
    )
    # Every cell is a "group" of its own, of one label and one split.
    *parts, flat_clumps = [part.reshape(1, 1, -1) for part in cells]
    upper = upper_tails(Strata(*parts), flat_clumps[0, 0])
    lower = lower_tails(Strata(*parts), flat_clumps[0, 0])
    both = np.clip(2 * np.minimum(upper, lower), SMALLEST_P, 1.0)
    p = np.nan_to_num(both, nan=1.0).reshape(counts.total.shape)

    n_groups = p.shape[1]
    tested = range(1 if by_label and n_groups == 2 else n_groups)
    first_label = 0 if by_label else -1
    return [p[:, group, first_label:].ravel() for group in tested]


def combine(chances: FloatArray, *, independent: bool) -> float:
    """One p-value of several: n times the smallest (Bonferroni).

    If they are independent, twice the smaller of that and Fisher's, of their product.
    """
    from scipy.special import gammaincc

    n = len(chances)
    bonferroni = min(1.0, n * float(chances.min()))
    if n == 1 or not independent:
        return bonferroni
    fisher = float(gammaincc(n, -np.log(chances).sum()))
    return min(1.0, 2 * min(bonferroni, fisher))


# Clumps


def little_spread_chances(
    counts: SplitCounts, strata: StratifiedBy, variance_inflation: FloatArray
) -> FloatArray:
    """Chance (group,) that groups in training vary so little; at most about this.

    A split that takes clumps of records apart as wholes draws each group's records in
    clumps, which spread. Of group g let D be its training records less its share of all
    that a split trains on, per stratum, summed over strata. With f the share trained
    on, w = N_g/N and c_h records in a clump (``variance_inflation``), units having
    records of one group,

        Var D = f(1 - f) ((1 - w)^2 N_g c_g + w^2 sum over other h of N_h c_h),

    and Q = sum over splits of (D^2 + c_g^2/4)/Var D is chi-square, if many clumps are
    alike; c^2/4 is for counts that come in steps of c. One clump may be as large as all
    spread beyond that of records, and be trained on in most splits: the larger of both
    chances counts.
    """
    several = _clump_spread(counts, strata, variance_inflation)
    alone = _clump_spread(counts, strata, np.ones_like(variance_inflation))
    n_splits = len(counts.train)
    n_free = n_splits - n_fold_sets(counts)
    squares = several.moved**2 + variance_inflation**2 / 4
    statistic = (squares / several.variance).sum(axis=0) * (n_free / n_splits)
    share = several.share.mean()
    excess = np.maximum(1 - (alone.variance / several.variance).mean(axis=0), 0.0)
    return np.asarray(
        np.maximum(
            _chi_square_cdf(statistic, n_free),
            _one_large_clump_cdf(statistic, excess, share, n_free),
        )
    )


class _ClumpSpread(NamedTuple):
    """What clumps move, (split, group); and the share of each split trained on."""

    moved: FloatArray
    variance: FloatArray
    share: FloatArray


def _clump_spread(
    counts: SplitCounts, strata: StratifiedBy, clump: FloatArray
) -> _ClumpSpread:
    """D and Var D of every split and group; labels are strata of splits by label."""
    by_label = strata == "label"
    train, total = (
        part if by_label else part.sum(axis=2, keepdims=True)
        for part in (counts.train, counts.total)
    )
    n = np.maximum(total.sum(axis=1, keepdims=True), 1)
    share = train.sum(axis=1, keepdims=True) / n
    weight = total / n
    squares = total * clump[:, None]
    others = squares.sum(axis=1, keepdims=True) - squares
    spread = (1 - weight) ** 2 * squares + weight**2 * others
    return _ClumpSpread(
        moved=(train - share * total).sum(axis=2),
        variance=np.maximum((share * (1 - share) * spread).sum(axis=2), SMALLEST_P),
        share=counts.train.sum(axis=(1, 2)) / counts.total.sum(axis=(1, 2)),
    )


def _chi_square_cdf(statistic: FloatArray, n_free: int) -> FloatArray:
    from scipy.special import gammainc

    return np.asarray(gammainc(n_free / 2, statistic / 2))


def _one_large_clump_cdf(
    statistic: FloatArray, excess: FloatArray, share: float, n_free: int
) -> FloatArray:
    """P(Q <= statistic) where one clump is a share ``excess`` (group,) of the variance.

    In k of the splits it is trained on, binomially; that moves D by (1 - f) times its
    size, else by f, and the others make a noncentral chi-square of it.
    """
    from scipy.special import bdtr, chndtr

    rest = np.maximum(1 - excess, SMALLEST_P)
    chance = np.zeros_like(statistic)
    below = 0.0
    for k in range(n_free + 1):
        up_to = float(bdtr(k, n_free, share))
        moved = k * (1 - share) ** 2 + (n_free - k) * share**2
        shift = excess * moved / (share * (1 - share)) / rest
        chance += (up_to - below) * chndtr(statistic / rest, n_free, shift)
        below = up_to
    return chance


# Balance


def _drawn_of(counts: SplitCounts, strata: StratifiedBy) -> tuple[FloatArray, ...]:
    """Records (split, stratum) and those in training; the same of all strata."""
    size = by_stratum(counts.total, strata).sum(axis=2)
    drawn = by_stratum(counts.train, strata).sum(axis=2)
    n = size.sum(axis=1, keepdims=True)
    return size, drawn, n, drawn.sum(axis=1, keepdims=True)


def misses(counts: SplitCounts, strata: StratifiedBy) -> tuple[FloatArray, FloatArray]:
    """By how much each stratum (split, stratum) misses balance, and what is allowed.

    The training share of all asks for trained size / n records of a stratum; allowed is
    a rounding, or ``CLEARLY_FREE`` of a random split's deviation.
    """
    size, drawn, n, trained = _drawn_of(counts, strata)
    share = size / n
    spread = np.sqrt(
        trained * share * (1 - share) * (n - trained) / np.maximum(n - 1, 1)
    )
    allowed = np.maximum(ROUNDING, CLEARLY_FREE * spread)
    return np.abs(drawn - trained * share), allowed


def is_rounded(counts: SplitCounts, strata: StratifiedBy) -> bool:
    """Whether every stratum of every split is balanced but for rounding."""
    missed, _ = misses(counts, strata)
    return bool((missed <= ROUNDING).all())


def chance_rounded(counts: SplitCounts, strata: StratifiedBy) -> float:
    """Chance that random splits balance every stratum but for rounding; at most this.

    In each split the least likely stratum bounds it; the last of a set of folds follows
    from the others.
    """
    size, _, n, trained = _drawn_of(counts, strata)
    mean = trained * size / n
    too_many = np.floor(mean + ROUNDING) + 1
    too_few = np.ceil(mean - ROUNDING) - 1
    within = np.ones(size.size)
    for tails, hits in ((upper_tails, too_many), (lower_tails, too_few)):
        parts = np.broadcast_arrays(n, trained, size, hits)
        flat = Strata(*[part.reshape(1, 1, -1) for part in parts])
        within -= np.nan_to_num(tails(flat, np.ones(1)))
    per_split = within.reshape(size.shape).min(axis=1)
    independent = per_split[n_fold_sets(counts) :]
    return float(np.clip(independent, SMALLEST_P, 1.0).prod())


# Splits that are alike


def repeats(counts: SplitCounts) -> dict[int, int]:
    """Splits that cut all groups and labels as an earlier one does, and that one."""
    first: dict[bytes, int] = {}
    repeated = {}
    for split, cut in enumerate(np.stack(counts, axis=1)):
        earlier = first.setdefault(cut.tobytes(), split)
        if earlier != split:
            repeated[split] = earlier
    return repeated


def chance_of_repeats(
    counts: SplitCounts, strata: StratifiedBy, variance_inflation: FloatArray
) -> float:
    """Chance of so many repeats among different random splits; at most this.

    The smaller of two bounds counts: that of any pair alike, and that of a chain, in
    which a split meets the likeliest table. Clumps that fall together leave fewer ways
    to cut a group: its numbers are divided by ``variance_inflation``. Folds follow from
    each other, so of these any repeat is likely.
    """
    n_repeats = len(repeats(counts))
    if not n_repeats or n_fold_sets(counts):
        return 1.0
    parts = [np.rint(part / variance_inflation[None, :, None]) for part in counts]
    clumps = SplitCounts(*parts)
    several = _comparable(counts, strata)
    likeliest = 0.0
    pairs = 0.0
    for splits in several:
        largest, alike = table_chances(
            clumps.only(splits), strata, most=MOST_CONVOLVED // len(several)
        )
        likeliest = max(likeliest, largest)
        pairs = pairs + math.comb(len(splits), 2) * alike
    by_chain = chain(likeliest, n=len(counts.train), repeats=n_repeats)
    return min(1.0, pairs, by_chain)


def _comparable(counts: SplitCounts, strata: StratifiedBy) -> list[list[int]]:
    """Splits that can be alike, because they draw as many; alone ones are left out."""
    drawn = by_stratum(counts.train, strata).sum(axis=2)
    splits_by_size = dict[bytes, list[int]]()
    for split, total in enumerate(counts.total):
        size = total.tobytes() + drawn[split].tobytes()
        splits_by_size.setdefault(size, []).append(split)
    return [splits for splits in splits_by_size.values() if len(splits) > 1]


class TableChances(NamedTuple):
    """Chances of a random way to cut all cells."""

    likeliest: float  # of the likeliest way
    alike: float  # that two splits cut them alike


def table_chances(
    counts: SplitCounts, strata: StratifiedBy, *, most: int = MOST_CONVOLVED
) -> TableChances:
    """Chances of a table whose splits all draw as the first does.

    Of more than ``most`` records times cells, the first chance bounds the second.
    """
    size = by_stratum(counts.total, strata)[0]  # (stratum, cell)
    drawn = by_stratum(counts.train, strata)[0].sum(axis=1)
    rows = [*zip(size, drawn, strict=True)]
    likeliest = math.prod(_largest_chance(*row) for row in rows)
    if size.sum() * size.shape[1] > most:
        return TableChances(likeliest, likeliest)
    return TableChances(likeliest, math.prod(_twice(*row) for row in rows))


def chain(likeliest: float, *, n: int, repeats: int) -> float:
    """Chance of at least ``repeats`` among n draws; at most this.

    No value is likelier than ``likeliest``. ``state[r]`` is the chance of r repeats so
    far; a draw repeats one of the d - r different values before it with chance at most
    (d - r) likeliest.
    """
    state = np.zeros(repeats + 1)
    state[0] = 1.0
    for drawn in range(1, n):
        different = np.maximum(drawn - np.arange(repeats), 0)
        moved = state[:-1] * np.minimum(1.0, different * likeliest)
        state[:-1] -= moved
        state[1:] += moved
    return float(state[-1])


def _largest_chance(size: FloatArray, drawn: float) -> float:
    """Probability prod choose(size_i, c_i) / choose(n, drawn) of the likeliest cells c.

    They have at least their share of the draws, one record added to every cell; each
    further draw goes where it adds most (the logarithm is concave in each cell).
    """
    cells = np.floor((size + 1) * (drawn / (size.sum() + len(size))))
    for _ in range(int(drawn - cells.sum())):
        cells[np.argmax((size - cells) / (cells + 1))] += 1
    log = _log_choose(size, cells).sum() - _log_choose(size.sum(), drawn)
    return math.exp(min(0.0, float(log)))


def _twice(size: FloatArray, drawn: float) -> float:
    """Chance that two draws of so many have the same cells: every table's own, squared.

    Binomial counts with any odds are hypergeometric given their sum, so the squared
    chances of cells are convolved (by their transforms) and divided by the sum's.
    """
    n = int(size.sum())
    if not 0 < drawn < n:
        return 1.0
    log_odds = math.log(drawn / (n - drawn))

    def log_chance(cell: float, count: FloatArray | float) -> FloatArray:
        binomial = _log_choose(cell, count) + count * log_odds
        return binomial + cell * math.log1p(-drawn / n)

    product = np.ones(n // 2 + 1, dtype=np.complex128)
    for cell in size:
        squared = np.exp(2 * log_chance(cell, np.arange(cell + 1)))
        product *= np.fft.rfft(squared, n)
    of_sum = np.exp(2 * log_chance(n, drawn))
    alike = np.fft.irfft(product, n)[int(drawn)] / of_sum
    return min(1.0, float(alike))


def _log_choose(n: FloatArray | float, k: FloatArray | float) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
