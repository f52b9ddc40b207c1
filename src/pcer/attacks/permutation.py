"""Permutation tests: do two groups differ by more than randomly drawn groups of the same records?

If an attribute has nothing to do with memorisation or outcomes, every division of the
same records into groups of these sizes is as likely as the real one.

Each record has one number per setting and attack, whose group mean is the exposure that
is audited (``Groups.by_record``), and one for the benefit. Differences are studentised,
so that for large groups the test is valid even if they differ in spread; it is exact up
to second order, since a record's number is taken within its real group. Luck that all
models share cancels.
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
    """Adjusted p-values (setting, cost) of a pair (i, j); NaN where a test cannot be made."""

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
        return Permutations(*np.full((2, *exposure.shape[:2]), np.nan))
    rows = np.flatnonzero(np.isin(group, pair))
    levels = np.zeros(len(rows), dtype=np.int64) if strata is None else strata[rows]
    order = np.argsort(levels, kind="stable")  # records of one stratum are adjacent
    rows = rows[order]
    levels = levels[order]
    ends = np.append(np.flatnonzero(np.diff(levels)) + 1, len(rows))
    parts = [slice(*both) for both in zip([0, *ends[:-1]], ends, strict=True)]
    first = np.equal(group[rows], pair[0])
    exposure = exposure[..., rows]
    benefit = benefit[..., rows]
    is_given = np.asarray(np.isfinite(exposure + benefit[:, None]).all(axis=-1))
    exposure = _levelled(np.where(is_given[..., None], exposure, 0.0), parts)
    benefit = _levelled(np.nan_to_num(benefit), parts)
    centre = exposure.mean(axis=-1), benefit.mean(axis=-1)
    e = _centred(exposure, centre[0]).reshape(-1, len(rows))
    b = _centred(benefit, centre[1])
    exact = ExactSums(e, e**2, e * np.repeat(b, exposure.shape[1], axis=0), b, b**2)
    rng = np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=pair))
    )
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
    distances = np.concatenate(
        [_distances(exact, centre, block, n) for block in blocks]
    )
    flat = distances.reshape(len(distances), 2, -1)
    adjusted = (step_down(flat[:, k], is_given.ravel()) for k in range(2))
    return Permutations(*(p.reshape(is_given.shape) for p in adjusted))


def _levelled(values: FloatArray, parts: list[slice]) -> FloatArray:
    """Shift every stratum to the overall mean."""
    if len(parts) == 1:
        return values
    out = values.copy()
    mean = values.mean(axis=-1, keepdims=True)
    for part in parts:
        out[..., part] += mean - values[..., part].mean(axis=-1, keepdims=True)
    return out


def _distances(
    exact: ExactSums, centre: tuple[FloatArray, FloatArray], sums: FloatArray, n: int
) -> FloatArray:
    """(draw, statistic, setting, attack) studentised difference of ``n`` records from the rest."""
    sides = (sums, n), (exact.total - sums, len(exact.columns) - n)
    both = (_means(exact.scaled(part) / size, size, *centre) for part, size in sides)
    c, c_variance, r, r_variance, covariance = zip(*both, strict=True)
    variance = np.zeros(c[0].shape)  # of R_i c_j - R_j c_i
    for own, other in ((0, 1), (1, 0)):
        variance += c[other] ** 2 * r_variance[own]
        variance += r[other] ** 2 * c_variance[own]
        variance -= 2 * c[other] * r[other] * covariance[own]
    pairs = (
        (c[0] - c[1], c_variance[0] + c_variance[1]),
        (r[0] * c[1] - r[1] * c[0], variance),
    )
    return np.stack([_in_errors(*pair) for pair in pairs], axis=1)


def _means(
    means: FloatArray, n: int, exposure: FloatArray, benefit: FloatArray
) -> tuple[FloatArray, ...]:
    """Mean exposure and its variance, mean benefit and its variance, covariance of both."""
    # ``means`` are those of distances from the centres ``exposure`` and ``benefit``,
    # and of their products; results are (draw, setting, cost), those of the benefit the
    # same for all costs.
    ends = np.cumsum([exposure.size] * 3 + [len(benefit)])
    *of_costs, b, b2 = np.split(means, ends, axis=1)
    e, e2, eb = (part.reshape(-1, *exposure.shape) for part in of_costs)
    b = b[..., None]
    b2 = b2[..., None]
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
    """Absolute difference over its error; 0 where both are 0, infinite where only the error is."""
    distance = quotient(
        np.abs(difference), np.sqrt(np.maximum(variance, 0.0)), otherwise=np.inf
    )
    return np.where(difference == 0, 0.0, distance)


def step_down(distances: FloatArray, is_given: BoolArray) -> FloatArray:
    """Adjusted p-values of a family by the step-down maximum of Westfall and Young."""
    adjusted = np.full(len(is_given), np.nan)
    family = np.flatnonzero(is_given)
    order = family[np.argsort(distances[0, family], kind="stable")]  # the nearest first
    largest = np.maximum.accumulate(distances[:, order], axis=1)
    p = (largest >= distances[0, order] * (1 - TIE)).mean(axis=0)
    adjusted[order] = np.maximum.accumulate(p[::-1])[::-1]
    return adjusted
