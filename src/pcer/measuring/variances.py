"""Errors of exposure and benefit for people like these, and the luck of a split.

"Do the groups differ?" is about other people of the same kind, not about these records
alone: the error has the part that random splits cause, which goes to 0 with more
splits, and the part of the people, which does not.

Symbols, and what they are called here:

    c, R     exposure (``cost``) and benefit of a group, means over splits
    N, n     people of a group, and those of one training or test part
    S        splits (``n_splits``)
    V(x)     variance of x for people like these
    P        the people's part of V(c) (``people_part``)
    w        variance of one split's exposure (``one_split``): max(v, u) of counts, the
             squared error of an attack on every run
    v        its variance if nothing was memorised (``split_luck``)
    u        its variance for independent records (``record_variance``)
    s^2      sample variance of the exposure over splits

Arrays are over the group or over pairs; ``per_split`` has the splits on its first axis.
Called by ``exposure``, ``measure``, ``pair_tests``, ``contrasts`` and ``power``.

Where a rate p of n people enters an error, it does so as p(1-p)/n with two right and
two wrong people added (Agresti and Coull): the plain formula has error 0 where nobody
was wrong, and its intervals then hardly ever cover. `python -m benchmarks.coverage
counts` has the figures.

The second half is the null distribution: what the split alone gives if nothing was
memorised (``split_luck``, ``draw_differences``).
"""

from __future__ import annotations

import math

import numpy as np

from pcer.measuring.exact import Strata
from pcer.metrics import Counts, FloatArray, IntArray, accuracy

ADDED = 2.0  # people added on either side of a rate before its variance is taken


def rate_variance(rate: FloatArray, n: FloatArray) -> FloatArray:
    """Variance p (1 - p) / n of a rate of n people.

    Two people are added on either side before p is taken: p = (rate n + 2) / (n + 4).
    """
    p = (np.clip(rate, 0.0, 1.0) * n + ADDED) / (n + 2 * ADDED)
    return np.asarray(p * (1 - p) / n)


def people_part(cost: FloatArray, n: FloatArray) -> FloatArray:
    """P = c (1 - c) / N: an upper bound of the people's part in the variance of a gap.

    It holds where no record's expected memorisation is negative, and is reached where
    each person is memorised wholly or not at all. An exposure below 0 counts as 0.
    """
    return rate_variance(cost, n)


def record_variance(
    train_accuracy: FloatArray,
    test_accuracy: FloatArray,
    n_train: FloatArray,
    n_test: FloatArray,
) -> FloatArray:
    """Variance of one split of new people.

    u = p_train (1 - p_train) / n_train + p_test (1 - p_test) / n_test.
    """
    return rate_variance(train_accuracy, n_train) + rate_variance(test_accuracy, n_test)


def pooled_cost(cost: FloatArray, n: FloatArray) -> FloatArray:
    """Mean exposure of a pair, by records; arrays (side, ...)."""
    return np.asarray((cost * n).sum(axis=0) / n.sum(axis=0))


def cost_in_tests(own: FloatArray, pooled: FloatArray) -> FloatArray:
    """The exposure at which a test takes P: the largest of own, the pair's, and 0.

    Otherwise, of two equal groups the one with the lower estimate would have the
    smaller error.
    """
    return np.maximum(np.maximum(own, pooled), 0.0)


def cost_variance(
    per_split: FloatArray, *, one_split: FloatArray, people: FloatArray
) -> FloatArray:
    """V(c) = max(w/S + (1 - 1/S) P, s^2/S + P) of the mean exposure over S splits.

    The first is for independent records: w contains the people's part P already. The
    second contains what the records of one model share. One split: w.
    """
    n_splits = len(per_split)
    closed = one_split / n_splits + (1 - 1 / n_splits) * people
    return at_least_spread(closed, per_split, people)


def at_least_spread(
    closed: FloatArray, per_split: FloatArray, people: FloatArray
) -> FloatArray:
    """max(closed, s^2/S + people); the closed form alone where there is one split."""
    n_splits = len(per_split)
    if n_splits < 2:
        return np.asarray(closed)
    spread = per_split.var(axis=0, ddof=1) / n_splits
    return np.asarray(np.maximum(closed, spread + people))


def benefit_variance(
    benefit: FloatArray, *, n: FloatArray, n_test: FloatArray, n_splits: int
) -> FloatArray:
    """V(R) = R (1 - R) [1/N + (1/n_test - 1/N)/S] of a mean rate R over S test parts.

    N people are in its denominator, n_test of them in one test part.
    """
    per_person = 1 / n + (1 / n_test - 1 / n) / n_splits
    return rate_variance(benefit, 1 / per_person)


def split_covariance(
    test: Counts, benefit: FloatArray, *, is_rate: bool, is_error: bool = False
) -> FloatArray:
    """Cov(R, c) of benefit and gap in one split: accuracy enters the gap with a minus.

    For the positive rate both are means over one test part: -(tp/n - R acc) / n. Else R
    is the accuracy among some of its records, the qualified or the accepted:
    -R (1 - R) / n. The error among some of them has the other sign.
    """
    if is_rate:
        joint = test.tp / test.n - benefit * accuracy(test)
    else:
        joint = benefit * (1 - benefit)
    if is_error:
        joint = -joint
    return np.asarray(-joint / test.n)


def people_covariance(
    benefit: FloatArray, cost: FloatArray, n: FloatArray
) -> FloatArray:
    """Lowest covariance -R c / N that people can cause between benefit and exposure.

    It is reached where only people without the benefit are memorised: nobody's benefit
    or memorisation is below 0.
    """
    return np.asarray(-benefit * np.maximum(cost, 0.0) / n)


def cross_variance(
    benefit: FloatArray,
    cost: FloatArray,
    benefit_variance: FloatArray,
    cost_variance: FloatArray,
    covariance: FloatArray,
) -> FloatArray:
    """Variance of L = R_i c_j - R_j c_i to first order.

    Arrays are (side, pair), i being side 0.

    R_i^2 V(c_j) + R_j^2 V(c_i) + c_j^2 V(R_i) + c_i^2 V(R_j)
    - 2 c_j R_j Cov(R_i, c_i) - 2 R_i c_i Cov(R_j, c_j).

    The groups are independent. Where a covariance is NaN, the worst possible one
    counts. With the parts of the people alone as variances and covariance it is the
    people's part of L, which ``at_least_spread`` adds to the spread of L over splits.
    """
    other_benefit = benefit[::-1]
    other_cost = cost[::-1]
    weight = other_cost * other_benefit
    worst = np.abs(weight) * np.sqrt(benefit_variance * cost_variance)
    known = -weight * np.nan_to_num(covariance)
    mixed = np.where(np.isnan(covariance), worst, known)
    plain = other_benefit**2 * cost_variance + other_cost**2 * benefit_variance
    return np.asarray((plain + 2 * mixed).sum(axis=0))


def bonferroni_z(*, n_limits: int = 1, confidence_level: float = 0.95) -> float:
    """Quantile z of one-sided bounds that hold together (Bonferroni).

    The normal quantile at 1 - (1 - confidence_level) / n_limits.
    """
    from scipy.special import ndtri

    tail = (1 - confidence_level) / n_limits
    return float(-ndtri(tail))


# The null distribution, if nothing were memorised. Membership is then exchangeable
# among a group's records of one label: which of the correct ones fell into the training
# part is a draw without replacement, so the accuracy difference has a known mean and
# variance, and the clipped gap a positive mean: the noise level. All of it is
# conditional on the released totals.

# Standard deviations each side of the mode that are computed; beyond, less than 1e-22
# remains.
SUPPORT_WIDTH = 10.0
# Standard deviation up to which the whole distribution is computed. Beyond it the
# normal quantile with a skewness term is within a hundredth of a deviation, at a cost
# that does not grow.
LARGEST_SPREAD = 100.0


def split_luck(strata: Strata) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the accuracy difference where only the split is random.

    Exact, given the totals of each label. Strata are (label, run, group), and the
    results (run, group). The difference is x = h/t - (k - h)/(n - t), with n records, t
    trained, k correct and h hits (correct and trained); its hits vary by label as
    ``Strata.variance`` says, and 1/t + 1/(n - t) is what one more hit adds.
    """
    trained = strata.trained.sum(axis=0)
    tested = (strata.total - strata.trained).sum(axis=0)
    per_hit = 1 / trained + 1 / tested
    hits = strata.hits.sum(axis=0)
    spared = (strata.correct - strata.hits).sum(axis=0)
    difference = hits / trained - spared / tested
    mean = difference - strata.excess.sum(axis=0) * per_hit
    variance = strata.variance.sum(axis=0) * per_hit**2
    return np.asarray(mean), np.asarray(variance)


def draw_differences(strata: Strata, *, uniforms: FloatArray) -> FloatArray:
    """Accuracy differences (draw, group) that random splits of the records would show.

    Strata are of one run, (label, group); uniforms in [0, 1), (label, draw, group).
    """
    hits = np.zeros_like(uniforms[0])
    for label, group in np.ndindex(strata.total.shape):
        n = int(strata.total[label, group])
        good = int(strata.correct[label, group])
        hits[:, group] += hypergeometric(
            good=good,
            bad=n - good,
            sampled=int(strata.trained[label, group]),
            uniforms=uniforms[label, :, group],
        )
    total = strata.total.sum(axis=0)
    trained = strata.trained.sum(axis=0)
    correct = strata.correct.sum(axis=0)
    return np.asarray(hits / trained - (correct - hits) / (total - trained))


def hypergeometric(
    *, good: int, bad: int, sampled: int, uniforms: FloatArray
) -> FloatArray:
    """Hypergeometric draws by inversion: how many good ones are among ``sampled``.

    Up to a deviation of ``LARGEST_SPREAD`` by the whole distribution, beyond by a
    normal quantile. numpy's and scipy's own samplers are slower at the sizes of a
    sweep, and their streams may change between releases; this one uses only products
    and sums, so a seed gives the same draws everywhere.
    """
    total = good + bad
    fewest = max(0, sampled - bad)
    highest = min(good, sampled)
    if fewest == highest:
        return np.full(len(uniforms), float(fewest))
    deviation = math.sqrt(
        sampled * good * bad * (total - sampled) / (total**2 * (total - 1))
    )
    if deviation > LARGEST_SPREAD:
        skewness = (
            (bad - good) * (total - 2 * sampled) / (total * (total - 2)) / deviation
        )
        mean = good * sampled / total
        drawn = mean + deviation * _skewed_quantiles(uniforms, skewness)
        return np.clip(np.rint(drawn), fewest, highest)

    mode = (good + 1) * (sampled + 1) // (total + 2)
    width = math.ceil(SUPPORT_WIDTH * deviation + 1)
    low = max(fewest, mode - width)
    high = min(highest, mode + width)

    def ratio(k: FloatArray) -> FloatArray:  # probability of k + 1 over that of k
        return (good - k) * (sampled - k) / ((k + 1) * (bad - sampled + k + 1))

    # Probabilities over that of the mode, by ratios of neighbours outwards from it.
    below = np.arange(low, mode, dtype=np.float64)
    above = np.arange(mode, high, dtype=np.float64)
    down = np.cumprod(1 / ratio(below[::-1]))[::-1]
    weights = np.concatenate([down, [1.0], np.cumprod(ratio(above))])
    return np.asarray(low + _inverted(weights, uniforms), dtype=np.float64)


def _skewed_quantiles(uniforms: FloatArray, skewness: float) -> FloatArray:
    """Normal quantiles with the first Cornish-Fisher term: z + skewness/6 (z^2 - 1)."""
    from scipy.special import ndtri

    z = np.clip(ndtri(uniforms), -SUPPORT_WIDTH, SUPPORT_WIDTH)
    return np.asarray(z + skewness / 6 * (z**2 - 1))


def _inverted(weights: FloatArray, uniforms: FloatArray) -> IntArray:
    """The place of each uniform among cumulated weights, as whole numbers from 0."""
    cumulative = np.cumsum(weights)
    share = np.minimum(uniforms * cumulative[-1], np.nextafter(cumulative[-1], 0))
    places = np.searchsorted(cumulative, share, side="right")
    return np.asarray(places, dtype=np.int64)
