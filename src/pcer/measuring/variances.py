"""How far may exposure and benefit err, for people like these, and by a split?

"Do the groups differ?" is about other people of the same kind, not about these records
alone: the error has the part that random splits cause, which goes to 0 with more
splits, and the part of the people, which does not.

Symbols, and what they are called here:

    c, R     exposure and benefit of a group, means over splits
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
Called by ``exposure``, ``evidence``, ``release_changes`` and ``power``.

Where a rate p of n people enters an error, it does so as p(1-p)/n with two right and
two wrong people added (Agresti and Coull): the plain formula has error 0 where nobody
was wrong, and its intervals then hardly ever cover. `python -m benchmarks.coverage
counts` has the figures.

What the split alone gives if nothing was memorised is ``split_luck``. To add an error:
a function here, with its formula in these symbols.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcer.measuring.exact import Strata
from pcer.measuring.plan import BenefitKind
from pcer.metrics import Counts, FloatArray, IntArray, quotient

RIGHT: Final = ("tp", "tn")  # cells of right predictions

ADDED = 2.0  # people added on either side of a rate before its variance is taken


def by_split(values: FloatArray, split: IntArray) -> FloatArray:
    """Average the runs of each split: (seed, ...) -> (split, ...)."""
    sums = np.zeros((int(split.max()) + 1, *values.shape[1:]))
    np.add.at(sums, split, values)
    runs = np.bincount(split).reshape(-1, *([1] * (values.ndim - 1)))
    return np.asarray(sums / runs)


def rate_variance(rate: FloatArray, n: FloatArray) -> FloatArray:
    """Variance p (1 - p) / n of a rate of n people, with p = (rate n + 2) / (n + 4)."""
    p = (np.clip(rate, 0.0, 1.0) * n + ADDED) / (n + 2 * ADDED)
    return np.asarray(p * (1 - p) / n)


def people_part(exposure: FloatArray, n: FloatArray) -> FloatArray:
    """P = c (1 - c) / N: an upper bound of the people's part in the variance of a gap.

    It holds where no record's expected memorisation is negative, and is reached where
    each person is memorised wholly or not at all. An exposure below 0 counts as 0.
    """
    return rate_variance(exposure, n)


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


def weighted_exposure(exposure: FloatArray, n: FloatArray) -> FloatArray:
    """Mean exposure of a pair, by records; arrays (side, ...)."""
    return np.asarray((exposure * n).sum(axis=0) / n.sum(axis=0))


def exposure_in_tests(own: FloatArray, pooled: FloatArray) -> FloatArray:
    """The exposure at which a test takes P: the largest of own, the pair's, and 0.

    Of two equal groups the one with the lower estimate must not have the smaller error.
    """
    return np.maximum(np.maximum(own, pooled), 0.0)


def exposure_variance(
    per_split: FloatArray, *, one_split: FloatArray, people: FloatArray
) -> FloatArray:
    """V(c) = max(w/S + (1 - 1/S) P, s^2/S + P) of the mean exposure over S splits.

    ``per_split`` has the exposures c_s, s^2 is their sample variance, ``one_split`` is
    w and ``people`` is P. The first term is for independent records: w contains P
    already. The second contains what the records of one model share
    (``at_least_spread``). One split: w.
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
    """V(R) = R (1 - R) [1/N + (1/n_test - 1/N)/S] of a rate R, a mean over S splits."""
    per_person = 1 / n + (1 / n_test - 1 / n) / n_splits
    return rate_variance(benefit, 1 / per_person)


def split_covariance(
    test: Counts, benefit: FloatArray, kind: BenefitKind
) -> FloatArray:
    """Cov(R, c) of benefit and gap in one split: accuracy enters the gap with a minus.

    Both are means over the n records of one test part: -(k - R m) / n, where of those
    that R is a share of, k is the share both counted and right, and m the share right:
    for the positive rate -(tp/n - R acc) / n. An R that is the accuracy among some
    records, the qualified or the accepted, has k = m = R: -R (1 - R) / n; the error
    among some has the other sign.
    """
    is_right = {cell for cell in kind.among if cell in RIGHT}
    if is_right == {*kind.counted}:
        joint = benefit * (1 - benefit)
    elif is_right == {*kind.among} - {*kind.counted}:
        joint = -(benefit * (1 - benefit))
    else:
        right = test._replace(fp=np.zeros_like(test.fp), fn=np.zeros_like(test.fn))
        among = kind.among_in(test)
        counted_and_right = kind.counted_in(right) / among
        joint = counted_and_right - benefit * quotient(kind.among_in(right), among)
    return np.asarray(-joint / test.n)


def people_covariance(
    benefit: FloatArray, exposure: FloatArray, n: FloatArray
) -> FloatArray:
    """Lowest covariance -R c / N that people can cause between benefit and exposure.

    It is reached where only people without the benefit are memorised.
    """
    return np.asarray(-benefit * np.maximum(exposure, 0.0) / n)


def cross_variance(
    benefit: FloatArray,
    exposure: FloatArray,
    benefit_variance: FloatArray,
    exposure_variance: FloatArray,
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
    other_exposure = exposure[::-1]
    weight = other_exposure * other_benefit
    worst = np.abs(weight) * np.sqrt(benefit_variance * exposure_variance)
    known = -weight * np.nan_to_num(covariance)
    mixed = np.where(np.isnan(covariance), worst, known)
    plain = other_benefit**2 * exposure_variance + other_exposure**2 * benefit_variance
    return np.asarray((plain + 2 * mixed).sum(axis=0))


def bonferroni_z(*, n_limits: int = 1, confidence_level: float = 0.95) -> float:
    """Quantile z at 1 - (1 - level) / n_limits, of bounds that hold together."""
    from scipy.special import ndtri

    tail = (1 - confidence_level) / n_limits
    return float(-ndtri(tail))


def split_luck(strata: Strata) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the accuracy difference where only the split is random.

    Exact, given the totals of each label: which of the correct records fell into the
    training part is a draw without replacement. Strata are (label, run, group), and the
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
