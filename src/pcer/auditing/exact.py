"""Is anything memorised about these records? The exact Mantel-Haenszel test.

If nothing was memorised and the split was random, membership is exchangeable among a group's
records of one label. Given the totals of each split, the correct ones in training are then
hypergeometric, independent over labels and splits. Their sum U is the statistic; p = P(U >= u).

A hypergeometric count is a sum of independent yes-or-no draws (its generating function has
real roots only), and so is U. Three facts used here follow: Bernstein's bound for its tails with
the variance it has, and no third or fourth cumulant above the variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.errors import require_open_unit
from pcer.metrics import Counts, FloatArray

SMALLEST_P = 1e-12
"""No p-value is given below this one, which is to be read and printed as "at most 1e-12"."""
P_DECIMALS = 13
"""Exact p-values are rounded to so many decimals: the transform's own error is below 1e-15, and
what is left of it must not differ between machines."""
EXACT_LIMIT = 100.0
"""Largest standard deviation of U for which its whole distribution is computed."""
TAIL_EXPONENT = 50.0
"""Counts whose probability Bernstein bounds by e^-50 are cut off; about 10 deviations each side."""
CONTRADICTION = 0.001
"""A spread over splits with a smaller p-value contradicts what is said about the splits."""
PLAIN_MEAN = 0.01
"""A mean with a smaller p-value is plain whatever the spread."""
BATCH_ENTRIES = 250_000
"""Probabilities of single counts that are held at once."""
LARGEST_Z = 40.0
"""Beyond this normal quantile no probability is left in double precision."""


class Strata(NamedTuple):
    """Records counted by label, split and group: four arrays (label, split, group).

    Whole numbers, exact up to 2^53. Without labels the first axis has length 1.
    """

    total: FloatArray
    trained: FloatArray
    correct: FloatArray
    hits: FloatArray
    """Both trained on and classified correctly."""

    @property
    def excess(self) -> FloatArray:
        """Hits beyond their mean if membership is exchangeable."""
        misses, spared = self.trained - self.hits, self.correct - self.hits
        rest = self.total - self.trained - spared
        return _ratio(self.hits * rest - misses * spared, self.total)

    @property
    def variance(self) -> FloatArray:
        """Hypergeometric variance of the hits."""
        right = _ratio(self.correct, self.total)
        wrong = _ratio(self.total - self.correct, self.total)
        spread = self.trained * right * wrong * (self.total - self.trained)
        return _ratio(spread, self.total - 1)


class Memorised(NamedTuple):
    """The test of each group; arrays over the group."""

    p_value: FloatArray
    """P(U >= u); NaN where U cannot vary, so that nothing can be resolved."""
    excess: FloatArray
    """Correct training records beyond what the split alone would give, over all splits."""
    variance: FloatArray


class Dispersion(NamedTuple):
    """Spread of the accuracy difference over splits against what random splits give, by group."""

    statistic: FloatArray
    """Near one less than the number of splits where the splits are what they are said to be."""
    p_value: FloatArray
    """Of so large a spread; NaN for one split, and where nothing can vary."""
    mean_p_value: FloatArray
    """Of so large a mean, one-sided, by Student's t from the spread itself."""

    @property
    def contradicts(self) -> npt.NDArray[np.bool_]:
        """Whether the units of the splits cannot be the records.

        Models that memorise unequally much spread too. Where the mean stands out from the spread
        anyway, that is the plainer explanation, and the finding does not rest on the units.
        """
        return (self.p_value < CONTRADICTION) & ~(self.mean_p_value < PLAIN_MEAN)


def lowest_seeds(split: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The run that speaks for each split: its first, where runs are ordered by seed.

    Runs of one split share its luck, and how many records are right in several of them is not
    in the counts; so a test takes one run a split, chosen before the values are seen.

    >>> lowest_seeds(np.array([0, 0, 1, 0, 2]))
    array([0, 2, 4])
    """
    return np.asarray(np.unique(split, return_index=True)[1], dtype=np.int64)


def strata_of_counts(train: Counts, test: Counts) -> Strata:
    """Strata by label from confusion tables whose arrays are (split, group)."""
    hits = np.stack([train.tp, train.tn])
    trained = hits + np.stack([train.fn, train.fp])
    spared = np.stack([test.tp, test.tn])
    return Strata(
        total=trained + spared + np.stack([test.fn, test.fp]),
        trained=trained,
        correct=hits + spared,
        hits=hits,
    )


def strata_of_rates(
    train_accuracy: FloatArray, test_accuracy: FloatArray, n_train: FloatArray, n_test: FloatArray
) -> Strata:
    """One stratum from accuracies without labels, (split, group), as the nearest whole counts."""
    hits, spared = np.rint(train_accuracy * n_train), np.rint(test_accuracy * n_test)
    parts = (n_train + n_test, n_train, hits + spared, hits)
    return Strata(*(np.asarray(part, dtype=np.float64)[None] for part in parts))


def memorised(strata: Strata) -> Memorised:
    """Test each group for any memorisation: one-sided, exact given every split's totals.

    ==================================  ========================================================
    U                                   p
    ==================================  ========================================================
    deviation of at most 100            exact, by Fourier transform; error below 1e-13
    larger                              normal, corrected for continuity and skewness
    cannot vary                         NaN: nobody or everybody wrong in every stratum
    ==================================  ========================================================

    A group of 100 whose one error fell among the 10 test records: that has chance 1 in 10.

    >>> one = Strata(*(np.full((1, 1, 1), value) for value in (100.0, 90.0, 99.0, 90.0)))
    >>> memorised(one).p_value
    array([0.1])
    """
    flat = Strata(*(part.reshape(-1, part.shape[-1]) for part in strata))
    excess, variance = flat.excess.sum(axis=0), flat.variance.sum(axis=0)
    p = _normal_tails(excess, variance, _third_cumulant(flat).sum(axis=0))
    for groups in _batches(variance, n_strata=len(flat.total)):
        p[groups] = _exact_tails(Strata(*(part[:, groups] for part in flat)))
    p = np.where(variance > 0, np.clip(p, SMALLEST_P, 1.0), np.nan)
    return Memorised(p_value=p, excess=excess, variance=variance)


def hidden_cost_limit(strata: Strata, *, confidence_level: float = 0.95) -> FloatArray:
    """Largest cost (group,) that could hide where U cannot vary; NaN where it can.

    Where all records of a label are right, a cost needs wrong ones out of training; where all
    are wrong, right ones in training. None was seen among n. With m the smallest over splits
    and labels of n over the label's share of the group, the weighted mean of both is at most
    1 - (1 - level)^(1/m), about 3/m: the product of (1 - rate)^n is then at least 1 - level, and
    a geometric mean never exceeds the arithmetic one. Proved for independent people.

    >>> right = Strata(*(np.full((1, 1, 1), value) for value in (100.0, 70.0, 100.0, 70.0)))
    >>> hidden_cost_limit(right).round(3)
    array([0.095])
    """
    require_open_unit(confidence_level=confidence_level)
    all_right, all_wrong = strata.correct == strata.total, strata.correct == 0
    unseen_among = np.where(
        all_right, strata.total - strata.trained, np.where(all_wrong, strata.trained, 0.0)
    )
    share = _ratio(strata.total, strata.total.sum(axis=0, keepdims=True))
    n = np.full(share.shape, np.inf)
    np.divide(unseen_among, share, out=n, where=share > 0)
    n = np.where(strata.total.any(axis=(0, 1)), n.min(axis=(0, 1)), 0.0)
    per_person = np.divide(1.0, n, out=np.full(n.shape, np.inf), where=n > 0)
    limit = 1 - (1 - confidence_level) ** per_person
    return np.where(strata.variance.sum(axis=(0, 1)) > 0, np.nan, limit)


def dispersion(strata: Strata, *, inflation: FloatArray | float = 1.0) -> Dispersion:
    """Does the accuracy difference vary more over splits than random splits of records allow?

    Of each split x = accuracy difference less what its mix of labels explains, with variance v
    given its totals. The statistic is the sum of (x - mean x)^2 over max(mean v, mean u): with
    memorisation the variance of x may exceed v, but not u, Neyman's bound for a random split.
    Its mean is at most the number of splits less 1. Its own variance follows from the v and from
    the fourth cumulants, which few errors make large (each at most the variance of the hits); a
    stretched chi-square with these two moments gives p. Each bound errs towards no contradiction.

    Args:
        strata: counts of several splits.
        inflation: by how much records that are kept together multiply the variance, (group,).
    """
    n_rest = (strata.total - strata.trained).sum(axis=0)
    scale = _ratio(1.0, strata.trained.sum(axis=0)) + _ratio(1.0, n_rest)
    x, v = strata.excess.sum(axis=0) * scale, strata.variance.sum(axis=0) * scale**2
    unit = np.maximum(v.mean(axis=0), _neyman_variance(strata, scale).mean(axis=0))
    statistic = _ratio(((x - x.mean(axis=0)) ** 2).sum(axis=0), unit * inflation)
    p = _stretched_chi_square(statistic, len(x) - 1, _spread_of_spread(v, v * scale**2))
    varies = v.any(axis=0)
    return Dispersion(
        statistic=statistic,
        p_value=np.where(varies, p, np.nan),
        mean_p_value=np.where(varies, _student_p(x), np.nan),
    )


def _student_p(x: FloatArray) -> FloatArray:
    """One-sided p-value of a mean over the first axis above 0; NaN for one number."""
    from scipy.special import stdtr

    if len(x) < 2:
        return np.full(x.shape[1:], np.nan)
    error = x.std(axis=0, ddof=1) / np.sqrt(len(x))
    return np.asarray(stdtr(len(x) - 1, -_ratio(x.mean(axis=0), error)))


def _spread_of_spread(v: FloatArray, fourth: FloatArray) -> FloatArray:
    """Variance of the sum of squares about the mean, in units of the mean variance.

    Args:
        v: (split, group) variances of independent numbers.
        fourth: their fourth cumulants, or bounds.
    """
    n, kept = len(v), 1 - 1 / len(v)
    squares = (1 - 2 / n) * (v**2).sum(axis=0) + v.mean(axis=0) ** 2
    return _ratio(2 * squares + kept**2 * fourth.sum(axis=0), v.mean(axis=0) ** 2)


def _stretched_chi_square(statistic: FloatArray, mean: int, variance: FloatArray) -> FloatArray:
    """Upper tail of a multiple of a chi-square with this mean and variance; NaN for mean 0."""
    from scipy.special import gammaincc

    if mean == 0:
        return np.full(np.shape(statistic), np.nan)
    stretch = variance / (2 * mean)
    half = np.divide(0.5, stretch, out=np.full(stretch.shape, 0.5), where=stretch > 0)
    return np.asarray(gammaincc(mean * half, statistic * half))


def _neyman_variance(strata: Strata, scale: FloatArray) -> FloatArray:
    """Neyman's bound (split, group) for the variance of x, whatever was memorised about whom."""
    rest, spared = strata.total - strata.trained, strata.correct - strata.hits
    weight = _ratio(strata.trained * rest, strata.total) * scale
    parts = _mean_variance(strata.hits, strata.trained) + _mean_variance(spared, rest)
    return np.asarray((weight**2 * parts).sum(axis=0))


def _mean_variance(right: FloatArray, n: FloatArray) -> FloatArray:
    share = _ratio(right, n)
    return _ratio(share * (1 - share), n - 1)


def _third_cumulant(strata: Strata) -> FloatArray:
    lean = (strata.total - 2 * strata.correct) * _ratio(
        strata.total - 2 * strata.trained, strata.total
    )
    return strata.variance * _ratio(lean, strata.total - 2)


def _normal_tails(excess: FloatArray, variance: FloatArray, third: FloatArray) -> FloatArray:
    """P(U >= u) by the normal, half a count off for continuity, skewness taken out.

    The first Cornish-Fisher term. Skewness is at most 1/deviation, so that beyond a deviation
    of 100 it is right to 1 % down to 1e-9.
    """
    from scipy.special import ndtr

    deviation = np.sqrt(variance)
    z = np.clip(_ratio(excess - 0.5, deviation), -LARGEST_Z, LARGEST_Z)
    skewness = _ratio(third, deviation**3)
    return np.asarray(ndtr(-(z - skewness / 6 * (z**2 - 1))))


def _batches(variance: FloatArray, *, n_strata: int) -> Iterator[npt.NDArray[np.int64]]:
    """Groups whose distribution is computed, in lots of similar width and bounded size."""
    chosen = np.flatnonzero((variance > 0) & (variance <= EXACT_LIMIT**2))
    width = np.frexp(_reach(variance[chosen]))[1]
    for exponent in np.unique(width):
        lot = chosen[width == exponent]
        most = max(1, BATCH_ENTRIES // (n_strata * 2 ** (int(exponent) + 1)))
        yield from np.split(lot, range(most, len(lot), most))


def _exact_tails(strata: Strata) -> FloatArray:
    """P(U >= u) of each group from the transforms of its strata, arrays (stratum, group).

    Counts are kept relative to each stratum's mode, so that large ones lose no digit. The grid
    is circular and as wide as the widest U's own distribution; what lies outside, what was cut
    from the strata, and the frequencies left out are added to p.
    """
    mode, variance = _modes(strata), strata.variance.sum(axis=0)
    above = (strata.hits - mode).sum(axis=0)
    reach = int(_reach(variance.max()))
    n_points = 2 * reach + 2
    n_frequencies = _n_frequencies(float(variance.min()), n_points)
    transform = _transforms(strata, mode, n_points, n_frequencies).prod(axis=0)
    mass = np.fft.irfft(transform, n_points)
    start = np.floor(above - strata.excess.sum(axis=0)) - reach
    counts = start[:, None] + np.arange(n_points)
    mass = np.take_along_axis(mass, counts.astype(np.int64) % n_points, axis=1)
    lost = np.exp(-TAIL_EXPONENT) * (2 * len(mode) + 2 + n_points)
    tail = np.where(counts >= above[:, None], mass, 0.0).sum(axis=1)
    return np.asarray(np.round(tail + lost, P_DECIMALS))


def _modes(strata: Strata) -> FloatArray:
    """A count near the most likely one of each stratum, and possible."""
    likely = np.floor((strata.correct + 1) * ((strata.trained + 1) / (strata.total + 2)))
    fewest = np.maximum(0.0, strata.trained + strata.correct - strata.total)
    return np.clip(likely, fewest, np.minimum(strata.correct, strata.trained))


def _reach(variance: FloatArray) -> FloatArray:
    """How far from its mean such a sum gets with probability above e^-50, by Bernstein."""
    linear = TAIL_EXPONENT / 3
    return np.asarray(np.ceil(linear + np.sqrt(linear**2 + 2 * TAIL_EXPONENT * variance)))


def _n_frequencies(variance: float, n_points: int) -> int:
    """How many frequencies matter: at angle t, U has at most e^(-variance (1 - cos t))."""
    if variance <= TAIL_EXPONENT / 2:
        return n_points // 2 + 1
    angle = np.arccos(1 - TAIL_EXPONENT / variance)
    return min(n_points // 2, int(np.ceil(angle / (2 * np.pi) * n_points))) + 1


def _transforms(
    strata: Strata, mode: FloatArray, n_points: int, n_frequencies: int
) -> npt.NDArray[np.complex128]:
    """Fourier transform of each stratum's hits less its mode, (stratum, group, frequency)."""
    mass = _mass_functions(strata, mode)
    reach = mass.shape[-1] // 2
    turns = np.outer(np.arange(-reach, reach + 1), np.arange(n_frequencies)) % n_points
    angles = 2 * np.pi / n_points * np.arange(n_points)
    waves = np.concatenate([np.cos(angles)[turns], -np.sin(angles)[turns]], axis=1)
    parts = (mass @ waves).reshape(*mode.shape, 2, n_frequencies)
    return np.asarray(parts[..., 0, :] + 1j * parts[..., 1, :])


def _mass_functions(strata: Strata, mode: FloatArray) -> FloatArray:
    """Probabilities of mode - reach to mode + reach, (stratum, group, count).

    By the ratio of neighbours, outwards from the mode; it is 0 at the ends of the support.
    """
    total, trained, correct, _ = strata
    rest = total - correct - trained + mode  # wrong records that were not trained on
    steps = np.arange(int(_reach(strata.variance.max())) + 2, dtype=np.float64)
    rise = _ratios(steps, (correct - mode, trained - mode), (mode + 1, rest + 1))
    fall = _ratios(steps, (mode, rest), (correct - mode + 1, trained - mode + 1))
    mass = np.ones((*mode.shape, 2 * len(steps) + 1))
    np.cumprod(rise, axis=-1, out=mass[..., len(steps) + 1 :])
    mass[..., : len(steps)] = np.cumprod(fall, axis=-1)[..., ::-1]
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


def _ratios(
    steps: FloatArray, falling: tuple[FloatArray, FloatArray], rising: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """(a - t)(b - t) / ((c + t)(d + t)) for every step t, on a new last axis."""
    first, second = (one[..., None] - steps for one in falling)
    third, fourth = (one[..., None] + steps for one in rising)
    first *= second
    third *= fourth
    first /= third
    return first


def _ratio(numerator: npt.ArrayLike, denominator: FloatArray) -> FloatArray:
    """Quotient, 0 where the denominator is not above 0: an empty stratum adds nothing."""
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    out = np.zeros(shape)
    np.divide(numerator, denominator, out=out, where=np.broadcast_to(denominator > 0, shape))
    return out
