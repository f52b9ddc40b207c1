"""Is anything memorised about these records? The exact Mantel-Haenszel test.

If nothing was memorised and the split was random, membership is exchangeable among a
group's records of one label. Given the totals of each split, the correct ones in
training are then hypergeometric, independent over labels and splits. Their sum U is the
statistic; p = P(U >= u).

A hypergeometric count is a sum of independent yes-or-no draws (its generating function
has real roots only), and so is U. Two facts used here follow: Bernstein's bound for its
tails with the variance it has, and no third or fourth cumulant above the variance.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.metrics import Counts, FloatArray, quotient

# Smallest p-value, to be read as "at most 1e-12".
SMALLEST_P = 1e-12
# Exact p-values are rounded to so many decimals: the transform's error is below 1e-15,
# and results must not differ between machines.
P_DECIMALS = 13
# largest standard deviation of U for which its whole distribution is computed
EXACT_LIMIT = 100.0
# Counts whose probability Bernstein bounds by e^-50 are cut off; about 10 deviations
# each side.
TAIL_EXPONENT = 50.0
PLAIN_MEAN = 0.01  # a mean with a smaller p-value counts whatever the spread
BATCH_ENTRIES = 250_000  # probabilities of single counts that are held at once
LARGEST_Z = (
    40.0  # beyond this normal quantile no probability is left in double precision
)
_ratio = partial(quotient, otherwise=0.0)  # an empty stratum adds nothing


class Strata(NamedTuple):
    """Records counted by (label, split, group); without labels the first axis has length 1."""

    total: FloatArray
    trained: FloatArray
    correct: FloatArray
    hits: FloatArray  # both trained on and classified correctly

    @property
    def excess(self) -> FloatArray:
        """Hits beyond their mean if membership is exchangeable."""
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


class Memorised(NamedTuple):
    """The test of each group; arrays over the group."""

    # P(U >= u); NaN where U cannot vary, so that nothing can be resolved
    p_value: FloatArray
    excess: (
        FloatArray  # correct training records beyond what the splits alone would give
    )
    variance: FloatArray


class Dispersion(NamedTuple):
    """Spread of the accuracy difference over splits against what random splits give, by group."""

    statistic: (
        FloatArray  # near one less than the number of splits where these are random
    )
    p_value: FloatArray  # of so large a spread; NaN where nothing can vary
    mean_p_value: (
        FloatArray  # of so large a mean, one-sided, by Student's t from the spread
    )


def lowest_seeds(split: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The run that represents each split, whose luck all its runs share: the first by seed.

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
    """Test each group for any memorisation: one-sided, exact given every split's totals.

    NaN where U cannot vary: nobody, or everybody, is wrong in every stratum.
    """
    from scipy.special import ndtr

    flat = Strata(*(part.reshape(-1, part.shape[-1]) for part in strata))
    excess = flat.excess.sum(axis=0)
    variance = flat.variance.sum(axis=0)
    # Normal, half a count off for continuity, skewness taken out by the first
    # Cornish-Fisher term. Skewness is at most 1/deviation: beyond a deviation of 100 it
    # is right to 1 % down to 1e-9.
    lean = (flat.total - 2 * flat.correct) * _ratio(
        flat.total - 2 * flat.trained, flat.total
    )
    third = (flat.variance * _ratio(lean, flat.total - 2)).sum(axis=0)
    deviation = np.sqrt(variance)
    z = np.clip(_ratio(excess - 0.5, deviation), -LARGEST_Z, LARGEST_Z)
    p = np.asarray(ndtr(-(z - _ratio(third, deviation**3) / 6 * (z**2 - 1))))
    # Groups whose distribution is computed, in lots of similar width and bounded size.
    chosen = np.flatnonzero((variance > 0) & (variance <= EXACT_LIMIT**2))
    width = np.frexp(_reach(variance[chosen]))[1]
    for exponent in np.unique(width):
        lot = chosen[width == exponent]
        most = max(1, BATCH_ENTRIES // (len(flat.total) * 2 ** (int(exponent) + 1)))
        for groups in np.split(lot, range(most, len(lot), most)):
            p[groups] = _exact_tails(Strata(*(part[:, groups] for part in flat)))
    p = np.where(variance > 0, np.clip(p, SMALLEST_P, 1.0), np.nan)
    return Memorised(p_value=p, excess=excess, variance=variance)


def hidden_cost_limit(strata: Strata, *, confidence_level: float = 0.95) -> FloatArray:
    """Upper bound of the exposure (group,) where U cannot vary; NaN where it can."""
    # Where all records of a label are right, exposure needs wrong ones out of training;
    # where all are wrong, right ones in training. None was seen among n. With m the
    # smallest over splits and labels of n over the label's share of the group, the
    # weighted mean of both is at most 1 - (1 - level)^(1/m), about 3/m: the product of
    # (1 - rate)^n is then at least 1 - level, and a geometric mean never exceeds the
    # arithmetic one. Proved for independent people.
    all_right = strata.correct == strata.total
    all_wrong = strata.correct == 0
    rest = strata.total - strata.trained
    unseen_among = np.select([all_right, all_wrong], [rest, strata.trained])  # else 0
    share = _ratio(strata.total, strata.total.sum(axis=0, keepdims=True))
    n = np.where(share > 0, _ratio(unseen_among, share), np.inf)
    n = np.where(strata.total.any(axis=(0, 1)), n.min(axis=(0, 1)), 0.0)
    limit = 1 - (1 - confidence_level) ** np.where(n > 0, _ratio(1.0, n), np.inf)
    return np.where(strata.variance.sum(axis=(0, 1)) > 0, np.nan, limit)


def dispersion(strata: Strata, *, inflation: FloatArray | float = 1.0) -> Dispersion:
    """Does the accuracy difference vary more over splits than random splits of records allow?"""
    from scipy.special import gammaincc, stdtr

    # Of each split x = accuracy difference less what its mix of labels explains, with
    # variance v given its totals. The statistic is the sum of (x - mean x)^2 over
    # max(mean v, mean u): with memorisation the variance of x may exceed v, but not u,
    # Neyman's bound for a random split. Its mean is at most the number of splits less
    # 1. Its own variance follows from the v and from the fourth cumulants, which few
    # errors make large (each at most the variance of the hits); a stretched chi-square
    # with these two moments gives p. Each bound errs towards no contradiction.
    rest = strata.total - strata.trained
    spared = strata.correct - strata.hits
    scale = _ratio(1.0, strata.trained.sum(axis=0)) + _ratio(1.0, rest.sum(axis=0))
    x = strata.excess.sum(axis=0) * scale
    v = strata.variance.sum(axis=0) * scale**2
    n = len(x)
    varies = v.any(axis=0)
    weight = _ratio(strata.trained * rest, strata.total) * scale
    shares = _ratio(strata.hits, strata.trained), _ratio(spared, rest)
    parts = _ratio(shares[0] * (1 - shares[0]), strata.trained - 1)
    parts = parts + _ratio(shares[1] * (1 - shares[1]), rest - 1)
    neyman = (weight**2 * parts).sum(axis=0)
    unit = np.maximum(v.mean(axis=0), neyman.mean(axis=0))
    about_mean = (x - x.mean(axis=0)) ** 2
    statistic = _ratio(about_mean.sum(axis=0), unit * inflation)
    # variance of the sum of squares about the mean, in units of the mean variance
    squares = (1 - 2 / n) * (v**2).sum(axis=0) + v.mean(axis=0) ** 2
    fourth = (1 - 1 / n) ** 2 * (v * scale**2).sum(axis=0)
    stretch = _ratio(2 * squares + fourth, v.mean(axis=0) ** 2) / (2 * (n - 1))
    half = quotient(0.5, stretch, otherwise=0.5)
    error = x.std(axis=0, ddof=1) / np.sqrt(n)
    return Dispersion(
        statistic=statistic,
        p_value=np.where(varies, gammaincc((n - 1) * half, statistic * half), np.nan),
        mean_p_value=np.where(
            varies, stdtr(n - 1, -_ratio(x.mean(axis=0), error)), np.nan
        ),
    )


def _reach(variance: FloatArray) -> FloatArray:
    """Distance from the mean that such a sum exceeds with probability below e^-50 (Bernstein)."""
    linear = TAIL_EXPONENT / 3
    return np.asarray(
        np.ceil(linear + np.sqrt(linear**2 + 2 * TAIL_EXPONENT * variance))
    )


def _exact_tails(strata: Strata) -> FloatArray:
    """P(U >= u) of each group from the transforms of its strata, arrays (stratum, group)."""
    # Counts are relative to each stratum's mode, so that large ones lose no digit. The
    # grid is circular and as wide as the widest U's distribution; all that is cut off
    # is added to p.
    total, trained, correct, hits = strata
    likely = np.floor((correct + 1) * ((trained + 1) / (total + 2)))
    fewest = np.maximum(0.0, trained + correct - total)
    mode = np.clip(likely, fewest, np.minimum(correct, trained))
    variance = strata.variance.sum(axis=0)
    above = (hits - mode).sum(axis=0)
    reach = int(_reach(variance.max()))
    n_points = 2 * reach + 2
    # Only frequencies that matter: at angle t, U has at most e^(-variance (1 - cos t)).
    n_frequencies = n_points // 2 + 1
    smallest = float(variance.min())
    if smallest > TAIL_EXPONENT / 2:
        angle = np.arccos(1 - TAIL_EXPONENT / smallest)
        n_frequencies = (
            min(n_points // 2, int(np.ceil(angle / (2 * np.pi) * n_points))) + 1
        )
    parts = _mass_functions(strata, mode)
    width = parts.shape[-1] // 2
    turns = np.outer(np.arange(-width, width + 1), np.arange(n_frequencies)) % n_points
    angles = 2 * np.pi / n_points * np.arange(n_points)
    waves = np.concatenate([np.cos(angles)[turns], -np.sin(angles)[turns]], axis=1)
    parts = (parts @ waves).reshape(*mode.shape, 2, n_frequencies)
    transform = (parts[..., 0, :] + 1j * parts[..., 1, :]).prod(axis=0)
    mass = np.fft.irfft(transform, n_points)
    start = np.floor(above - strata.excess.sum(axis=0)) - reach
    counts = start[:, None] + np.arange(n_points)
    mass = np.take_along_axis(mass, counts.astype(np.int64) % n_points, axis=1)
    lost = np.exp(-TAIL_EXPONENT) * (2 * len(mode) + 2 + n_points)
    tail = np.where(counts >= above[:, None], mass, 0.0).sum(axis=1)
    return np.asarray(np.round(tail + lost, P_DECIMALS))


def _mass_functions(strata: Strata, mode: FloatArray) -> FloatArray:
    """Probabilities of mode - reach to mode + reach, (stratum, group, count)."""
    # By the ratio of neighbours, outwards from the mode; it is 0 at the ends of the
    # support.
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
