"""Do two groups differ by more than randomly drawn groups of the same records?

``placebo`` calls ``permutation_tests`` for every pair of groups. If an attribute has
nothing to do with memorisation or outcomes, every division of the same records into
groups of these sizes is as likely as the real one. Differences are studentised, so that
for large groups the test is valid even if they differ in spread; it is exact up to
second order, since a record's number is taken within its real group. To add a tested
number: a field of ``Permutations``, from draws as the other two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcer.attacks.sums import ExactSums, turned_sums
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient

SEED = 0  # fixed, so that the owner of the records can repeat all draws
DRAWS = 9_999  # divisions drawn for a permutation test
BLOCK = 1_024  # draws that are studentised at once
SHUFFLED = 1_000  # up to so many records are shuffled; more are rotated on wheels
# relative distance that counts as a tie: numbers are rounded, see ``ExactSums``
TIE = 1e-4
ROUNDING = 1e-12  # relative spread below which numbers count as constant


class Permutations(NamedTuple):
    """Adjusted p-values (setting, attack) of a pair of groups; NaN without a test."""

    exposure: FloatArray
    cross_product: FloatArray


def permutation_tests(  # noqa: PLR0913 # a front door
    exposure: FloatArray,
    benefit: FloatArray,
    group: IntArray,
    pair: tuple[int, int],
    n_draws: int = DRAWS,
    strata: IntArray | None = None,
    *,
    seed: int = SEED,
) -> Permutations:
    """Do two groups differ by more than two groups drawn from the same records?

    Every random division of the pair's records serves all settings and attacks, so that
    adjusted p-values account for their dependence.

    Args:
        exposure: (setting, attack, record) numbers whose group means are the exposures;
            all NaN for an attack that a setting lacks.
        benefit: (setting, record) numbers whose group means are the benefits.
        group: (record,) a group's number, -1 for none.
        pair: groups to compare.
        n_draws: divisions drawn.
        strata: (record,) such as the label: groups are then drawn within each stratum,
            which asks for a difference beyond the mix of labels.
        seed: of the draws.
    """
    if min(int((group == side).sum()) for side in pair) < 2:
        nothing = np.full(exposure.shape[:2], np.nan)
        return Permutations(nothing, nothing)
    records = _pair_of(group, pair, strata)
    exposure = exposure[..., records.rows]
    benefit = benefit[..., records.rows]
    is_given = np.asarray(np.isfinite(exposure + benefit[:, None]).all(axis=-1))
    exposure = _levelled(np.where(is_given[..., None], exposure, 0.0), records.strata)
    benefit = _levelled(np.nan_to_num(benefit), records.strata)
    centre = Centre(exposure.mean(axis=-1), benefit.mean(axis=-1))
    exact = _exact_sums(exposure, benefit, centre)

    entropy = np.random.SeedSequence(seed, spawn_key=pair)
    rng = np.random.Generator(np.random.PCG64(entropy))
    sums = _drawn_sums(exact, records, n_draws, rng)
    n = int(records.is_first.sum())
    distances = []
    for start in range(0, len(sums), BLOCK):
        distances.append(_distances(exact, centre, sums[start : start + BLOCK], n))
    by_statistic = np.concatenate(distances).reshape(len(sums), 2, -1)

    shape = is_given.shape
    family = is_given.ravel()
    return Permutations(
        exposure=step_down(by_statistic[:, 0], family).reshape(shape),
        cross_product=step_down(by_statistic[:, 1], family).reshape(shape),
    )


def studentised_draws(
    values: FloatArray,
    group: IntArray,
    pair: tuple[int, int],
    strata: IntArray | None = None,
    *,
    n_draws: int = DRAWS,
    seed: int = SEED,
) -> FloatArray:
    """(draw,) |t| of a difference of two groups' means, the real division first.

    For tests of one number (record,), whose threshold is the caller's; groups, pair and
    strata are as in ``permutation_tests``, and so are the draws.
    """
    records = _pair_of(group, pair, strata)
    rows = _levelled(values[None, None, records.rows], records.strata)
    nothing = np.zeros((1, len(records.rows)))
    centre = Centre(rows.mean(axis=-1), np.zeros(1))
    exact = _exact_sums(rows, nothing, centre)
    entropy = np.random.SeedSequence(seed, spawn_key=pair)
    rng = np.random.Generator(np.random.PCG64(entropy))
    sums = _drawn_sums(exact, records, n_draws, rng)
    distances = _distances(exact, centre, sums, int(records.is_first.sum()))
    return np.asarray(distances[:, 0, 0, 0])


class PairRecords(NamedTuple):
    """The records of two groups; those of one stratum are adjacent."""

    rows: IntArray  # which of all records
    is_first: BoolArray  # whether it is in the first group
    strata: list[slice]


class Centre(NamedTuple):
    """Mean numbers of all records of a pair."""

    exposure: FloatArray  # (setting, attack)
    benefit: FloatArray  # (setting,)


def _pair_of(
    group: IntArray, pair: tuple[int, int], strata: IntArray | None
) -> PairRecords:
    rows = np.flatnonzero(np.isin(group, pair))
    levels = np.zeros(len(rows), dtype=np.int64) if strata is None else strata[rows]
    order = np.argsort(levels, kind="stable")
    rows = rows[order]
    levels = levels[order]
    ends = np.append(np.flatnonzero(np.diff(levels)) + 1, len(rows)).tolist()
    parts = [slice(*ends_of) for ends_of in zip([0, *ends[:-1]], ends, strict=True)]
    return PairRecords(rows, np.equal(group[rows], pair[0]), parts)


def _levelled(values: FloatArray, strata: list[slice]) -> FloatArray:
    """Shift every stratum to the overall mean."""
    if len(strata) == 1:
        return values
    shifted = values.copy()
    mean = values.mean(axis=-1, keepdims=True)
    for part in strata:
        shifted[..., part] += mean - values[..., part].mean(axis=-1, keepdims=True)
    return shifted


def _exact_sums(exposure: FloatArray, benefit: FloatArray, centre: Centre) -> ExactSums:
    """Sums of e, e^2, e b, b and b^2, distances from the centre, over any records."""
    n_attacks = exposure.shape[1]
    e = _centred(exposure, centre.exposure).reshape(-1, exposure.shape[-1])
    b = _centred(benefit, centre.benefit)
    return ExactSums(e, e**2, e * np.repeat(b, n_attacks, axis=0), b, b**2)


def _centred(values: FloatArray, mean: FloatArray) -> FloatArray:
    """Distances from the mean; exactly 0 throughout where they are only rounding."""
    distances = values - mean[..., None]
    varies = np.abs(distances).max(axis=-1) > ROUNDING * np.abs(values).max(axis=-1)
    return np.where(varies[..., None], distances, 0.0)


def _drawn_sums(
    exact: ExactSums, records: PairRecords, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """(draw, column) sums over the first group: the real one, then those drawn.

    Within each stratum records are drawn for the first group: one by one, or in large
    strata by turning a random order (``turned_sums``), which takes less time.
    """
    sums = np.zeros((1 + n_draws, len(exact.total)))
    sums[0] = exact.raw(records.is_first[None])[0]
    for part in records.strata:
        is_first = records.is_first[part]
        if len(is_first) > SHUFFLED:
            sums[1:] += turned_sums(exact.columns[part], is_first, n_draws, rng)
        else:
            subsets = rng.permuted(np.tile(is_first, (n_draws, 1)), axis=1)
            sums[1:] += exact.raw(subsets, part)
    return sums


class Means(NamedTuple):
    """One side's means (draw, setting, attack; or alike for all attacks)."""

    exposure: FloatArray
    exposure_variance: FloatArray
    benefit: FloatArray
    benefit_variance: FloatArray
    covariance: FloatArray


def _distances(
    exact: ExactSums, centre: Centre, sums: FloatArray, n: int
) -> FloatArray:
    """(draw, statistic, setting, attack) studentised differences of two groups.

    ``sums`` are those of ``n`` records, which are compared with the rest. With mean
    exposures c and mean benefits r of the two sides, the statistics are c_0 - c_1 and
    r_0 c_1 - r_1 c_0, over the roots of their variances. To first order the variance of
    the second is, summed over the sides i with the other side j, c_j^2 var(r_i) + r_j^2
    var(c_i) - 2 c_j r_j cov(r_i, c_i).
    """
    n_rest = len(exact.columns) - n
    of_rest = exact.total - sums
    first = _means(exact.scaled(sums) / n, n, centre)
    second = _means(exact.scaled(of_rest) / n_rest, n_rest, centre)

    variance = np.zeros(first.exposure.shape)
    for side, other in ((first, second), (second, first)):
        variance += other.exposure**2 * side.benefit_variance
        variance += other.benefit**2 * side.exposure_variance
        variance -= 2 * other.exposure * other.benefit * side.covariance
    difference = _in_errors(
        first.exposure - second.exposure,
        first.exposure_variance + second.exposure_variance,
    )
    cross_product = _in_errors(
        first.benefit * second.exposure - second.benefit * first.exposure, variance
    )
    return np.stack([difference, cross_product], axis=1)


def _means(means: FloatArray, n: int, centre: Centre) -> Means:
    """Means and variances from (draw, column) means of what ``_exact_sums`` sums."""
    ends = np.cumsum([centre.exposure.size] * 3 + [len(centre.benefit)])
    *of_attacks, b, b_squared = np.split(means, ends, axis=1)
    shape = (-1, *centre.exposure.shape)
    e, e_squared, product = (part.reshape(shape) for part in of_attacks)
    b = b[..., None]
    b_squared = b_squared[..., None]
    return Means(
        exposure=centre.exposure + e,
        exposure_variance=np.maximum(e_squared - e**2, 0.0) / (n - 1),
        benefit=centre.benefit[:, None] + b,
        benefit_variance=np.maximum(b_squared - b**2, 0.0) / (n - 1),
        covariance=(product - e * b) / (n - 1),
    )


def _in_errors(difference: FloatArray, variance: FloatArray) -> FloatArray:
    """Absolute difference over its error; 0 over 0 is 0, others over 0 infinite."""
    error = np.sqrt(np.maximum(variance, 0.0))
    distance = quotient(np.abs(difference), error, otherwise=np.inf)
    return np.where(difference == 0, 0.0, distance)


def step_down(distances: FloatArray, is_given: BoolArray) -> FloatArray:
    """Adjusted p-values of a family by the step-down maximum of Westfall and Young.

    ``distances`` are (draw, test) statistics, the first draw being the real one;
    ``is_given`` (test,) says which tests there are. Others get NaN.
    """
    adjusted = np.full(len(is_given), np.nan)
    family = np.flatnonzero(is_given)
    order = family[np.argsort(distances[0, family], kind="stable")]  # the nearest first
    largest = np.maximum.accumulate(distances[:, order], axis=1)
    p = (largest >= distances[0, order] * (1 - TIE)).mean(axis=0)
    adjusted[order] = np.maximum.accumulate(p[::-1])[::-1]
    return adjusted
