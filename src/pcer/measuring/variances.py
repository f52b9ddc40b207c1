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

from dataclasses import dataclass
from typing import Final, NamedTuple

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


# What training records move: counts of random splits show it. On each split stand the
# rate in the test part and the rate over all of a group's records, test and training
# part together; who fell into which part cancels from the second, and what training
# moves remains.
#
#     w           weights of group rates: (1, -1) a difference, (1,) one rate,
#                 (c_j, -c_i) the cross product of ratios
#     d_s, D_s    the weighted test rates, and rates over everybody, on split s
#     f           share of everybody that is trained on
#     a, b        what one record adds through the test part, and through training
#
# Var_s(D) is (1 - f)/f Var(b)/N, and Var_s(D) - Cov_s(d, D) is Cov(a, b)/N. For people
# like these the variance of a + b is wanted, so that beside Var(a)/N stands
#
#     V_train = f/(1 - f) Var_s(D) + 2 max(0, Var_s(D) - Cov_s(d, D))
#
# Training noise (start values, batches, privacy) is in Var_s(D) and is no part of
# people: where splits were trained on more than once, the variance within splits is
# taken out. Audits do not use this part yet; ``benchmarks/mirror.py`` counts what it
# mends.

# From so many splits on their spread is an estimate; below, an answer is about these
# models alone.
LEAST_SPLITS = 3
# ln(p / 2) between which p-values are sought, and in how many halvings: the rest is
# below a float's precision.
SMALLEST_LOG_TAIL = -600.0
HALVINGS = 64


class SplitRates(NamedTuple):
    """One rate of every group in every run: arrays (run, group), NaN where unknown."""

    tested: FloatArray  # among test records
    everybody: FloatArray  # over test and training records together


class Spread(NamedTuple):
    """Covariances between groups of one source of luck: arrays (group, group)."""

    everybody: FloatArray  # of D_i and D_j
    crossed: FloatArray  # of d_i and D_j


@dataclass(frozen=True, kw_only=True)
class TrainingPart:
    """Spread of rates over splits, from which every combination takes its V_train."""

    over_splits: Spread  # of means over the runs of a split
    noise: Spread  # how much of it training noise makes
    share_trained: float  # f
    n_splits: int  # S
    is_noise_known: bool  # False: training noise is counted as people

    @property
    def degrees_of_freedom(self) -> int:
        """S - 1, of Student's distribution."""
        return self.n_splits - 1

    def variance(self, weights: FloatArray) -> FloatArray:
        """V_train of weighted rates; weights (group, combination)."""
        spread = _quadratic(self.over_splits.everybody, weights)
        shared = _quadratic(self.over_splits.crossed, weights)
        noise = _quadratic(self.noise.everybody, weights)
        shared_noise = _quadratic(self.noise.crossed, weights)
        of_training = np.maximum(spread - noise, 0.0)
        together = np.maximum(of_training - (shared - shared_noise), 0.0)
        odds = self.share_trained / (1 - self.share_trained)
        return np.asarray(odds * of_training + 2 * together)


def _quadratic(matrix: FloatArray, weights: FloatArray) -> FloatArray:
    """The number w' M w for each combination w, a column of the weights."""
    return np.asarray(np.einsum("gk,gh,hk->k", weights, matrix, weights))


def training_part(
    rates: SplitRates, split: IntArray, *, share_trained: float
) -> TrainingPart | None:
    """The spread of rates over splits; None below ``LEAST_SPLITS`` of them.

    Args:
        rates: of every run and group.
        split: (run,) which split each run used, from 0.
        share_trained: f, of the records that the rate is a share of.
    """
    n_splits = int(split.max()) + 1
    if n_splits < LEAST_SPLITS:
        return None
    n_runs = np.bincount(split)
    tested = by_split(rates.tested, split)
    everybody = by_split(rates.everybody, split)
    over_splits = _spread(
        tested - tested.mean(axis=0),
        everybody - everybody.mean(axis=0),
        degrees_of_freedom=n_splits - 1,
    )
    n_repeats = len(split) - n_splits
    noise = _nothing(rates.tested.shape[1])
    if n_repeats:
        within = _spread(
            rates.tested - tested[split],
            rates.everybody - everybody[split],
            degrees_of_freedom=n_repeats,
        )
        per_mean = float((1 / n_runs).mean())  # of one run's noise in a split's mean
        noise = Spread(per_mean * within.everybody, per_mean * within.crossed)
    return TrainingPart(
        over_splits=over_splits,
        noise=noise,
        share_trained=share_trained,
        n_splits=n_splits,
        is_noise_known=n_repeats > 0,
    )


def _spread(
    tested: FloatArray, everybody: FloatArray, *, degrees_of_freedom: int
) -> Spread:
    """Covariances of deviations; of d and D the part that w' M w sees."""
    crossed = tested.T @ everybody
    return Spread(
        everybody=np.asarray(everybody.T @ everybody / degrees_of_freedom),
        crossed=np.asarray((crossed + crossed.T) / 2 / degrees_of_freedom),
    )


def _nothing(n_groups: int) -> Spread:
    return Spread(np.zeros((n_groups, n_groups)), np.zeros((n_groups, n_groups)))


def half_width(
    v_now: FloatArray, v_train: FloatArray, *, tail: float, degrees_of_freedom: int
) -> FloatArray:
    """Half of an interval: sqrt(z^2 V_now + t^2 V_train), each tail having ``tail``."""
    from scipy.special import ndtri, stdtrit

    z = float(-ndtri(tail))
    t = float(-stdtrit(degrees_of_freedom, tail))
    return np.asarray(np.sqrt(z**2 * v_now + t**2 * v_train))


def two_part_p(
    value: FloatArray,
    v_now: FloatArray,
    v_train: FloatArray,
    *,
    degrees_of_freedom: int,
) -> FloatArray:
    """The p at which value^2 = z_p^2 V_now + t_p^2 V_train; 1 where the value is 0.

    The right side falls as p rises, so ln(p / 2) is halved in on. A p below e^-600 is
    given as that; NaN where value or variance is NaN, 1 where all three are 0.
    """
    from scipy.special import ndtri_exp, stdtrit

    square, v_now, v_train = np.broadcast_arrays(np.square(value), v_now, v_train)
    low = np.full(square.shape, SMALLEST_LOG_TAIL)
    high = np.full(square.shape, np.log(0.5))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        z = ndtri_exp(middle)
        t = stdtrit(degrees_of_freedom, np.exp(middle))
        is_smaller = z**2 * v_now + t**2 * v_train < square
        high = np.where(is_smaller, middle, high)
        low = np.where(is_smaller, low, middle)
    p = np.minimum(2 * np.exp(high), 1.0)
    return np.where(np.isnan(square + v_now + v_train), np.nan, p)
