"""Is anything memorised about these records? The exact Mantel-Haenszel test.

Called by ``exposure`` (p-values of the gap), by ``hypergeometric`` (chances of counts)
and by the checks (``dispersion``).

If nothing was memorised and the split was random, membership is exchangeable among a
group's records of one label. Given the totals of each split, the correct ones in
training are then hypergeometric, independent over labels and splits. Their sum U is the
statistic; p = P(U >= u).

A hypergeometric count is a sum of independent yes-or-no draws (its generating function
has real roots only), and so is U. Two facts used here follow: Bernstein's bound for its
tails with the variance it has, and no third or fourth cumulant above the variance.

Symbols, of one stratum (a label of a split) and one group: n records (``total``), t of
them trained on, k classified correctly, h hits (trained on and correct). If membership
is exchangeable, h has mean t k / n and variance t k (n - k) (n - t) / (n^2 (n - 1)). To
add a statistic of these draws: a function of ``Strata``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.metrics import Counts, FloatArray, IntArray, quotient

# Smallest p-value, to be read as "at most 1e-12".
SMALLEST_P = 1e-12
# Exact p-values are rounded to so many decimals: the transform's error is below 1e-15,
# and results must not differ between machines.
P_DECIMALS = 13
# Largest standard deviation of U for which its whole distribution is computed.
EXACT_LIMIT = 100.0
# Counts whose probability Bernstein bounds by e^-50 are cut off; about 10 deviations
# each side.
TAIL_EXPONENT = 50.0
PLAIN_MEAN = 0.01  # a mean with a smaller p-value counts whatever the spread
BATCH_ENTRIES = 250_000  # probabilities of single counts that are held at once
# Beyond this normal quantile no probability is left in double precision.
LARGEST_Z = 40.0
_ratio = partial(quotient, otherwise=0.0)  # an empty stratum adds nothing


class Strata(NamedTuple):
    """Records by (label, split, group); without labels the first axis has length 1."""

    total: FloatArray  # n
    trained: FloatArray  # t
    correct: FloatArray  # k
    hits: FloatArray  # h: both trained on and classified correctly

    @property
    def excess(self) -> FloatArray:
        """Hits beyond their mean: h - t k / n, as (h rest - misses spared) / n."""
        misses = self.trained - self.hits
        spared = self.correct - self.hits
        rest = self.total - self.trained - spared
        return _ratio(self.hits * rest - misses * spared, self.total)

    @property
    def variance(self) -> FloatArray:
        """Hypergeometric variance of the hits."""
        right = _ratio(self.correct, self.total)
        wrong = _ratio(self.total - self.correct, self.total)
        spread = self.trained * right * wrong * (self.total - self.trained)
        return _ratio(spread, self.total - 1)

    @property
    def third_cumulant(self) -> FloatArray:
        """What skews the hits: (n - 2k) (n - 2t) / (n (n - 2))."""
        share = _ratio(self.total - 2 * self.trained, self.total)
        lean = (self.total - 2 * self.correct) * share
        return self.variance * _ratio(lean, self.total - 2)


class Memorised(NamedTuple):
    """The test of each group; arrays over the group."""

    p_value: FloatArray  # P(U >= u); NaN where U cannot vary
    excess: FloatArray  # hits beyond what the splits alone would give
    variance: FloatArray  # of U


class Dispersion(NamedTuple):
    """Spread (group,) of the accuracy difference over splits; p is NaN without any."""

    statistic: FloatArray  # near S - 1 where S splits are random
    p_value: FloatArray  # of so large a spread
    mean_p_value: FloatArray  # of so large a mean, one-sided, by Student's t


def lowest_seeds(split: IntArray) -> IntArray:
    """The run that represents each split, whose luck all of its runs share: the first.

    >>> lowest_seeds(np.array([0, 0, 1, 0, 2]))
    array([0, 2, 4])
    """
    return np.asarray(np.unique(split, return_index=True)[1], dtype=np.int64)


def strata_of_counts(train: Counts, test: Counts) -> Strata:
    """Strata by label from confusion tables whose arrays are (split, group)."""
    hits = np.stack([train.tp, train.tn])
    trained = hits + np.stack([train.fn, train.fp])
    spared = np.stack([test.tp, test.tn])
    total = trained + spared + np.stack([test.fn, test.fp])
    return Strata(total, trained, hits + spared, hits)


def memorised(strata: Strata) -> Memorised:
    """Test each group for any memorisation: one-sided, given every split's totals.

    NaN where U cannot vary: nobody, or everybody, is wrong in every stratum. Exact up
    to a standard deviation of ``EXACT_LIMIT``; beyond by a normal.
    """
    flat = Strata(*[part.reshape(-1, part.shape[-1]) for part in strata])
    excess = flat.excess.sum(axis=0)
    variance = flat.variance.sum(axis=0)
    p = _normal_tails(excess, variance, flat.third_cumulant.sum(axis=0))
    for groups in _lots(variance, n_strata=len(flat.total)):
        p[groups] = _exact_tails(Strata(*[part[:, groups] for part in flat]))
    p = np.where(variance > 0, np.clip(p, SMALLEST_P, 1.0), np.nan)
    return Memorised(p_value=p, excess=excess, variance=variance)


def _normal_tails(
    excess: FloatArray, variance: FloatArray, third: FloatArray
) -> FloatArray:
    """P(U >= u) by a normal, half a count off, less its skewness (Cornish-Fisher).

    Skewness is at most 1/deviation: from 100 on the tail is right to 1 % down to 1e-9.
    """
    from scipy.special import ndtr

    deviation = np.sqrt(variance)
    z = np.clip(_ratio(excess - 0.5, deviation), -LARGEST_Z, LARGEST_Z)
    skewness = _ratio(third, deviation**3)
    return np.asarray(ndtr(-(z - skewness / 6 * (z**2 - 1))))


def _lots(variance: FloatArray, *, n_strata: int) -> Iterator[IntArray]:
    """Groups whose distribution is computed, in lots of like width and bounded size."""
    chosen = np.flatnonzero((variance > 0) & (variance <= EXACT_LIMIT**2))
    width = np.frexp(_reach(variance[chosen]))[1]
    for exponent in np.unique(width):
        lot = chosen[width == exponent]
        n_entries = n_strata * 2 ** (int(exponent) + 1)  # of one group
        most = max(1, BATCH_ENTRIES // n_entries)
        yield from np.split(lot, range(most, len(lot), most))


def _reach(variance: FloatArray) -> FloatArray:
    """Distance from the mean that such a sum exceeds with probability below e^-x.

    By Bernstein: x/3 + sqrt((x/3)^2 + 2 x variance), x being ``TAIL_EXPONENT``.
    """
    linear = TAIL_EXPONENT / 3
    root = np.sqrt(linear**2 + 2 * TAIL_EXPONENT * variance)
    return np.asarray(np.ceil(linear + root))


def _exact_tails(strata: Strata) -> FloatArray:
    """P(U >= u) of each group from its strata, arrays (stratum, group).

    The transform of a sum is the product of transforms (characteristic functions); the
    inverse gives its probabilities. Counts are relative to each stratum's mode, so that
    large ones lose no digit. The grid is circular and as wide as the widest U's
    distribution; all that is cut off is added to p.
    """
    mode = _modes(strata)
    variance = strata.variance.sum(axis=0)
    reach = int(_reach(variance.max()))
    n_points = 2 * reach + 2
    transform = _transform(
        _mass_functions(strata, mode),
        n_points=n_points,
        n_frequencies=_n_frequencies(float(variance.min()), n_points),
    )
    mass = np.fft.irfft(transform, n_points)  # (group, U less the modes, circular)

    above = (strata.hits - mode).sum(axis=0)  # u less the modes
    start = np.floor(above - strata.excess.sum(axis=0)) - reach
    counts = start[:, None] + np.arange(n_points)
    mass = np.take_along_axis(mass, counts.astype(np.int64) % n_points, axis=1)
    tail = np.where(counts >= above[:, None], mass, 0.0).sum(axis=1)
    lost = np.exp(-TAIL_EXPONENT) * (2 * len(mode) + 2 + n_points)
    return np.asarray(np.round(tail + lost, P_DECIMALS))


def _modes(strata: Strata) -> FloatArray:
    """The likeliest hits of every stratum: floor((k + 1) (t + 1) / (n + 2))."""
    total, trained, correct, _ = strata
    likely = np.floor((correct + 1) * ((trained + 1) / (total + 2)))
    fewest = np.maximum(0.0, trained + correct - total)
    return np.clip(likely, fewest, np.minimum(correct, trained))


def _n_frequencies(smallest_variance: float, n_points: int) -> int:
    """At angle a, U has at most e^(-variance (1 - cos a)): how many angles count."""
    half = n_points // 2
    if smallest_variance <= TAIL_EXPONENT / 2:
        return half + 1
    angle = np.arccos(1 - TAIL_EXPONENT / smallest_variance)
    return min(half, int(np.ceil(angle / (2 * np.pi) * n_points))) + 1


def _transform(
    mass: FloatArray, *, n_points: int, n_frequencies: int
) -> npt.NDArray[np.complex128]:
    """Transform of U: sum over j of mass(j) e^(-2 pi i j f / n_points).

    (group, frequency), multiplied over strata. ``mass`` is (stratum, group, count),
    modes in the middle.
    """
    width = mass.shape[-1] // 2
    turns = np.outer(np.arange(-width, width + 1), np.arange(n_frequencies)) % n_points
    angles = 2 * np.pi / n_points * np.arange(n_points)
    waves = np.concatenate([np.cos(angles)[turns], -np.sin(angles)[turns]], axis=1)
    parts = (mass @ waves).reshape(*mass.shape[:-1], 2, n_frequencies)
    return np.asarray((parts[..., 0, :] + 1j * parts[..., 1, :]).prod(axis=0))


def _mass_functions(strata: Strata, mode: FloatArray) -> FloatArray:
    """Probabilities (stratum, group, count) of the hits, mode - reach to mode + reach.

    By the ratio of neighbours, outwards from the mode,

        p(h + 1) / p(h) = (k - h) (t - h) / ((h + 1) (n - k - t + h + 1)).
    """
    total, trained, correct, _ = strata
    rest = total - correct - trained + mode  # wrong records that were not trained on
    steps = np.arange(int(_reach(strata.variance.max())) + 2, dtype=np.float64)

    def ratios(*parts: FloatArray) -> FloatArray:
        a, b, c, d = (part[..., None] for part in parts)
        return np.asarray((a - steps) * (b - steps) / ((c + steps) * (d + steps)))

    rise = ratios(correct - mode, trained - mode, mode + 1, rest + 1)
    fall = ratios(mode, rest, correct - mode + 1, trained - mode + 1)
    mass = np.ones((*mode.shape, 2 * len(steps) + 1))
    np.cumprod(rise, axis=-1, out=mass[..., len(steps) + 1 :])
    mass[..., : len(steps)] = np.cumprod(fall, axis=-1)[..., ::-1]
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


# Where nothing can vary


def hidden_exposure_limit(
    strata: Strata, *, confidence_level: float = 0.95
) -> FloatArray:
    """Upper bound of the exposure (group,) where U cannot vary; NaN where it can.

    Where all records of a label are right, exposure needs wrong ones out of training;
    where all are wrong, right ones in training. None was seen among n' such records.
    With m the smallest over splits and labels of n' over the label's share of the
    group, the weighted mean of both is at most 1 - (1 - level)^(1/m), about 3/m. Proved
    for independent people: the product of (1 - rate)^n' is at least 1 - level, and a
    geometric mean never exceeds the arithmetic one.
    """
    all_right = strata.correct == strata.total
    all_wrong = strata.correct == 0
    rest = strata.total - strata.trained
    # 0 where some are right and some are wrong.
    unseen_among = np.select([all_right, all_wrong], [rest, strata.trained])
    share = _ratio(strata.total, strata.total.sum(axis=0, keepdims=True))
    among = np.where(share > 0, _ratio(unseen_among, share), np.inf)
    is_empty = ~strata.total.any(axis=(0, 1))
    m = np.where(is_empty, 0.0, among.min(axis=(0, 1)))
    exponent = np.where(m > 0, _ratio(1.0, m), np.inf)
    limit = 1 - (1 - confidence_level) ** exponent
    can_vary = strata.variance.sum(axis=(0, 1)) > 0
    return np.where(can_vary, np.nan, limit)


# Spread over splits


def dispersion(
    strata: Strata, *, variance_inflation: FloatArray | float = 1.0
) -> Dispersion:
    """Does the accuracy difference vary more over S splits than random ones allow?

    Of each split x = accuracy difference less what its mix of labels explains, with
    variance v given its totals (``_differences``). The statistic is

        T = sum (x - mean x)^2 / (variance_inflation max(mean v, mean u)):

    with memorisation the variance of x may exceed v, but not u, Neyman's bound for a
    random split. Its mean is at most S - 1. A chi-square stretched by ``_stretch``,
    with these two moments, gives p. Each bound errs towards no contradiction.

    ``mean_p_value`` is Student's t of mean x over its error from the spread.
    """
    from scipy.special import gammaincc, stdtr

    differences = _differences(strata)
    x = differences.x
    n_splits = len(x)
    unit = np.maximum(differences.v.mean(axis=0), differences.u.mean(axis=0))
    squares = ((x - x.mean(axis=0)) ** 2).sum(axis=0)
    statistic = _ratio(squares, unit * variance_inflation)
    half = quotient(0.5, _stretch(differences), otherwise=0.5)
    p = gammaincc((n_splits - 1) * half, statistic * half)
    error = x.std(axis=0, ddof=1) / np.sqrt(n_splits)
    mean_p = stdtr(n_splits - 1, -_ratio(x.mean(axis=0), error))
    varies = differences.v.any(axis=0)
    return Dispersion(
        statistic=statistic,
        p_value=np.where(varies, p, np.nan),
        mean_p_value=np.where(varies, mean_p, np.nan),
    )


class _Differences(NamedTuple):
    """Accuracy differences of random splits, (split, group)."""

    x: FloatArray  # excess hits, each worth ``per_hit``
    v: FloatArray  # variance of x given the totals
    u: FloatArray  # Neyman's bound of it
    per_hit: FloatArray  # 1 / trained + 1 / rest


def _differences(strata: Strata) -> _Differences:
    """The difference x of every split with its variances.

    With t trained and r others of a label, a share a of those and b of these correct,
    and w = t r / n per_hit its weight,

        u = sum over labels of w^2 (a (1 - a) / (t - 1) + b (1 - b) / (r - 1)).
    """
    rest = strata.total - strata.trained
    spared = strata.correct - strata.hits
    per_hit = _ratio(1.0, strata.trained.sum(axis=0)) + _ratio(1.0, rest.sum(axis=0))
    weight = _ratio(strata.trained * rest, strata.total) * per_hit
    a = _ratio(strata.hits, strata.trained)
    b = _ratio(spared, rest)
    trained_part = _ratio(a * (1 - a), strata.trained - 1)
    rest_part = _ratio(b * (1 - b), rest - 1)
    return _Differences(
        x=strata.excess.sum(axis=0) * per_hit,
        v=strata.variance.sum(axis=0) * per_hit**2,
        u=(weight**2 * (trained_part + rest_part)).sum(axis=0),
        per_hit=per_hit,
    )


def _stretch(differences: _Differences) -> FloatArray:
    """Variance of the sum of squares about the mean, over that of S - 1 normal ones.

    In units of mean v: 2 [(1 - 2/S) sum v^2 + (mean v)^2] plus (1 - 1/S)^2 sum k4, with
    the fourth cumulant k4 <= v per_hit^2, which few errors make large; over 2 (S - 1).
    """
    v = differences.v
    n_splits = len(v)
    squares = (1 - 2 / n_splits) * (v**2).sum(axis=0) + v.mean(axis=0) ** 2
    fourth = (1 - 1 / n_splits) ** 2 * (v * differences.per_hit**2).sum(axis=0)
    return _ratio(2 * squares + fourth, v.mean(axis=0) ** 2) / (2 * (n_splits - 1))
