"""Are two groups further apart than groups drawn anew among the same records?

If an attribute has nothing to do with what the models remember, or with whom they favour, then any
other division of the same records into groups of these sizes was as likely as the real one.

A record stands for itself with one number per setting and cost, whose mean over a group is the
cost that is audited (``Groups.by_record``), and one for the benefit. Differences are studentised,
so that for large groups the test holds for groups that differ in everything but what is compared;
of groups that differ in nothing it is exact up to the numbers' own second order (a record's number
is taken from its real group). What all models share (luck of training, the sample as a whole) is
in both groups alike and drops out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcer.attacks.sums import ExactSums, turned_sums
from pcer.metrics import BoolArray, FloatArray, IntArray

SEED = 0  # fixed for all draws: whoever has the records can make them again

DRAWS = 9_999  # divisions drawn for a permutation test

BLOCK = 1_024  # draws that are held against their errors at once

SHUFFLED = 1_000  # records up to which groups are drawn by shuffling; more are laid on wheels

TIE = 1e-4  # distances this close (as a share) are equal: numbers are rounded, see ``ExactSums``

ROUNDING = 1e-12  # numbers that vary by less than this share of their size do not vary


class Permutations(NamedTuple):
    """p-values (setting, cost) of a pair (i, j); NaN where a test cannot be made.

    Shares of divisions, the real one included, that are at least as far apart; adjusted over all
    settings and costs by the step-down maximum of Westfall and Young.
    """

    exposure: FloatArray
    cross_product: FloatArray


def permutation_tests(
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

    The pair's records are divided anew among its two groups, and the same division serves all
    settings and costs, so that adjusted p-values know how these depend on each other.

    Args:
        exposure: (setting, cost, record) means over a group are its costs; a cost that a setting
            does not have is NaN throughout.
        benefit: (setting, record) means over a group are its benefits.
        group: (record,) a group's number, -1 for none.
        pair: groups to compare.
        n_draws: divisions drawn.
        strata: (record,) such as the label: then groups are drawn within each, and numbers are
            taken from their stratum's mean: is there a difference beyond the mix of labels?
        seed: of the draws.
    """
    if min(int((group == side).sum()) for side in pair) < 2:
        return Permutations(*np.full((2, *exposure.shape[:2]), np.nan))
    rows = np.flatnonzero(np.isin(group, pair))
    levels = np.zeros(len(rows), dtype=np.int64) if strata is None else strata[rows]
    order = np.argsort(levels, kind="stable")  # the records of one stratum stand together
    rows, levels = rows[order], levels[order]
    ends = np.append(np.flatnonzero(np.diff(levels)) + 1, len(rows))
    parts = [slice(*both) for both in zip([0, *ends[:-1]], ends, strict=True)]
    first = np.equal(group[rows], pair[0])
    exposure, benefit = exposure[..., rows], benefit[..., rows]
    is_given = np.asarray(np.isfinite(exposure + benefit[:, None]).all(axis=-1))
    exposure = _levelled(np.where(is_given[..., None], exposure, 0.0), parts)
    benefit = _levelled(np.nan_to_num(benefit), parts)
    centre = exposure.mean(axis=-1), benefit.mean(axis=-1)
    e, b = _centred(exposure, centre[0]).reshape(-1, len(rows)), _centred(benefit, centre[1])
    exact = ExactSums(e, e**2, e * np.repeat(b, exposure.shape[1], axis=0), b, b**2)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=pair)))
    sums = np.zeros((1 + n_draws, len(exact.total)))
    sums[0] = exact.raw(first[None])[0]
    for part in parts:
        inside = first[part]
        if len(inside) > SHUFFLED:
            sums[1:] += turned_sums(exact.columns[part], inside, n_draws, rng)
        else:
            subsets = rng.permuted(np.tile(inside, (n_draws, 1)), axis=1)
            sums[1:] += exact.raw(subsets, part)
    blocks = (sums[at : at + BLOCK] for at in range(0, len(sums), BLOCK))
    n = int(first.sum())
    distances = np.concatenate([_distances(exact, centre, block, n) for block in blocks])
    flat = distances.reshape(len(distances), 2, -1)
    adjusted = (step_down(flat[:, k], is_given.ravel()) for k in range(2))
    return Permutations(*(p.reshape(is_given.shape) for p in adjusted))


def _levelled(values: FloatArray, parts: list[slice]) -> FloatArray:
    """Bring every stratum to the mean of all."""
    if len(parts) == 1:
        return values
    out, mean = values.copy(), values.mean(axis=-1, keepdims=True)
    for part in parts:
        out[..., part] += mean - values[..., part].mean(axis=-1, keepdims=True)
    return out


def _distances(
    exact: ExactSums, centre: tuple[FloatArray, FloatArray], sums: FloatArray, n: int
) -> FloatArray:
    """(draw, statistic, setting, cost) how far ``n`` records are from the others, in errors."""
    sides = (sums, n), (exact.total - sums, len(exact.columns) - n)
    both = (_means(exact.scaled(part) / size, size, *centre) for part, size in sides)
    c, c_variance, r, r_variance, covariance = zip(*both, strict=True)
    variance = np.zeros(c[0].shape)  # of R_i c_j - R_j c_i
    for own, other in ((0, 1), (1, 0)):
        variance += c[other] ** 2 * r_variance[own]
        variance += r[other] ** 2 * c_variance[own]
        variance -= 2 * c[other] * r[other] * covariance[own]
    pairs = (c[0] - c[1], c_variance[0] + c_variance[1]), (r[0] * c[1] - r[1] * c[0], variance)
    return np.stack([_in_errors(*pair) for pair in pairs], axis=1)


def _means(
    means: FloatArray, n: int, exposure: FloatArray, benefit: FloatArray
) -> tuple[FloatArray, ...]:
    """Mean exposure and its variance, mean benefit and its variance, covariance of both.

    Arrays (draw, setting, cost); those of the benefit are the same for all costs. ``means`` are
    those of distances from the centres ``exposure`` and ``benefit``, and of their products.
    """
    ends = np.cumsum([exposure.size] * 3 + [len(benefit)])
    *of_costs, b, b2 = np.split(means, ends, axis=1)
    e, e2, eb = (part.reshape(-1, *exposure.shape) for part in of_costs)
    b, b2 = b[..., None], b2[..., None]
    return (
        exposure + e,
        np.maximum(e2 - e**2, 0.0) / (n - 1),
        benefit[:, None] + b,
        np.maximum(b2 - b**2, 0.0) / (n - 1),
        (eb - e * b) / (n - 1),
    )


def _centred(values: FloatArray, mean: FloatArray) -> FloatArray:
    """Distances from the mean; exactly 0 throughout where they are only rounding."""
    out = values - mean[..., None]
    varies = np.abs(out).max(axis=-1) > ROUNDING * np.abs(values).max(axis=-1)
    return np.where(varies[..., None], out, 0.0)


def _in_errors(difference: FloatArray, variance: FloatArray) -> FloatArray:
    """Size over error; 0 where nothing differs, infinite where only the error is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(difference) / np.sqrt(np.maximum(variance, 0.0))
    return np.where(difference == 0, 0.0, distance)


def step_down(distances: FloatArray, is_given: BoolArray) -> FloatArray:
    """Adjusted p-values of a family by the step-down maximum of Westfall and Young.

    >>> real, drawn = [3.0, 1.0], [[1.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    >>> step_down(np.array([real, *drawn]), np.array([True, True]))
    array([0.25, 0.75])
    """
    adjusted = np.full(len(is_given), np.nan)
    family = np.flatnonzero(is_given)
    order = family[np.argsort(distances[0, family], kind="stable")]  # the nearest first
    largest = np.maximum.accumulate(distances[:, order], axis=1)
    p = (largest >= distances[0, order] * (1 - TIE)).mean(axis=0)
    adjusted[order] = np.maximum.accumulate(p[::-1])[::-1]
    return adjusted
