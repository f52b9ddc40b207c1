"""Would a coin flip have been found guilty? Groups drawn anew among the same records.

If an attribute has nothing to do with what the models remember, or with whom they favour, then any
other division of the same records into groups of these sizes was as likely as the real one. Two
tests follow, for whoever has the records. The permutation test asks how often a division drawn
anew sets two groups further apart than the real one does. Placebos are such divisions put through
the whole audit: how often does it raise an alarm?

A record stands for itself with one number per setting and cost, whose mean over a group is the
cost that is audited (``Shares.by_record``), and one for the benefit. Differences are studentised,
so that for large groups the test holds for groups that differ in everything but what is compared;
of groups that differ in nothing it is exact up to the numbers' own second order (a record's number
is taken from its real group). What all models share (luck of training, the sample as a whole) is
in both groups alike and drops out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.attacks.moments import GroupMeans, Moments
from pcer.attacks.wheels import turned_sums
from pcer.errors import require_at_least
from pcer.metrics import BoolArray, FloatArray, IntArray

DRAWS = 9_999
"""Divisions drawn for a permutation test."""

PLACEBOS = 200
"""Coin-flip attributes that are put through an audit."""

BLOCK = 1_024
"""Draws that are held against their errors at once."""

SHUFFLED = 1_000
"""Records up to which groups are drawn by shuffling; more are laid on wheels."""

TIE = 1e-4
"""Distances this close (as a share) are equal: numbers are rounded, see ``Moments``."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """What every record stands for; checked when made.

    Attributes:
        exposure: (setting, cost, record) means over a group are its costs; a cost that a setting
            does not have is NaN throughout.
        benefit: (setting, record) means over a group are its benefits.
        group: (record,) a group's number, -1 for none.
    """

    exposure: FloatArray
    benefit: FloatArray
    group: IntArray

    def __post_init__(self) -> None:
        settings, _, n = self.exposure.shape
        if self.benefit.shape != (settings, n) or self.group.shape != (n,):
            raise ValueError(
                "exposure must be (setting, cost, record), benefit (setting, record) and group "
                f"(record,), but their shapes are {self.exposure.shape}, {self.benefit.shape} and "
                f"{self.group.shape}; stack them in that order."
            )

    @classmethod
    def stacked(
        cls,
        exposures: Sequence[Mapping[str, FloatArray]],
        benefits: Sequence[FloatArray],
        group: IntArray,
        costs: Sequence[str],
    ) -> Records:
        """From the record shares of each setting, in the order of ``costs``."""
        nothing = np.full(len(group), np.nan)
        stacked = [[one.get(cost, nothing) for cost in costs] for one in exposures]
        return cls(exposure=np.array(stacked), benefit=np.array(benefits), group=group)


class PermutationTest(NamedTuple):
    """p-values of one statistic, arrays (setting, cost, pair); NaN where it cannot be made.

    Attributes:
        p_value: share of divisions, the real one included, that are at least as far apart.
        adjusted: over the settings of one cost (Westfall and Young, step-down).
        adjusted_over_costs: over all settings and costs.
    """

    p_value: FloatArray
    adjusted: FloatArray
    adjusted_over_costs: FloatArray


class Permutations(NamedTuple):
    """Tests of a pair (i, j): c_i - c_j, and R_i c_j - R_j c_i, of costs c and benefits R."""

    exposure: PermutationTest
    cross_product: PermutationTest


def permutation_tests(
    records: Records,
    pairs: Sequence[tuple[int, int]],
    *,
    seed: int,
    n_draws: int = DRAWS,
    strata: IntArray | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Permutations:
    """Do groups differ by more than two groups drawn from the same records?

    A pair's records are divided anew among its two groups, and the same division serves all
    settings and costs, so that adjusted p-values know how these depend on each other. A pair's
    result depends on no other pair.

    Args:
        records: what every record stands for.
        pairs: groups to compare.
        seed: of the draws.
        n_draws: divisions drawn for each pair.
        strata: (record,) such as the label: then groups are drawn within each, and numbers are
            taken from their stratum's mean: is there a difference beyond the mix of labels?
        on_progress: called with (draws made, draws in all).
    """
    require_at_least(1, n_draws=n_draws, n_pairs=len(pairs))
    total, tests = len(pairs) * n_draws, []
    for k, pair in enumerate(pairs):
        if min(int((records.group == group).sum()) for group in pair) < 2:
            tests.append((_untold(records),) * 2)
        else:
            one = _PairRecords(records, pair, strata)
            sums = [one.real_sums, *_blocks(one.drawn_sums(n_draws, _generator(seed, pair)))]
            tests.append(one.tests(np.concatenate([*map(one.distances, sums)])))
        on_progress((k + 1) * n_draws, total)
    return Permutations(*(_stack(parts) for parts in zip(*tests, strict=True)))


def placebo_groupings(
    codes: IntArray, n: int, rng: np.random.Generator, *, strata: IntArray | None = None
) -> Iterator[IntArray]:
    """Coin-flip attributes with groups of the same sizes; records of no group stay without.

    Args:
        codes: (record,) a group's number, -1 for none.
        n: how many.
        rng: where they are drawn from.
        strata: (record,) such as the label: then sizes are kept within each.

    >>> codes = np.array([0, 0, 1, -1])
    >>> [one.tolist() for one in placebo_groupings(codes, 2, np.random.default_rng(4))]
    [[0, 0, 1, -1], [1, 0, 0, -1]]
    """
    for order in record_orders(codes, n, rng, strata=strata):
        yield codes[order]


def record_orders(
    codes: IntArray, n: int, rng: np.random.Generator, *, strata: IntArray | None = None
) -> Iterator[IntArray]:
    """Orders of the records that shuffle those of a group; the others keep their place.

    ``exposure[..., order]`` beside the benefits and groups as they are is a world in which what
    is remembered of people has nothing to do with their group, and benefits differ as they do.
    """
    parts = [part for part in _strata(codes, strata) if len(part) > 1]
    for _ in range(n):
        order = np.arange(len(codes))
        for part in parts:
            order[part] = rng.permutation(part)
        yield order


def group_means(records: Records, groupings: IntArray, *, n_groups: int) -> GroupMeans:
    """What an audit would see of divisions of the records, arrays (division, group, ...).

    Args:
        records: what every record stands for; their own groups do not matter, but records of no
            group are left out.
        groupings: (division, record) such as ``placebo_groupings`` gives.
        n_groups: how many groups.
    """
    inside = records.group >= 0
    moments = Moments(records.exposure[..., inside], records.benefit[..., inside])
    chosen = np.equal(groupings[:, None, inside], np.arange(n_groups)[:, None])
    flat = chosen.reshape(-1, chosen.shape[-1])
    found = moments.means(moments.sums(flat), flat.sum(axis=1))
    return GroupMeans(*(one.reshape(-1, n_groups, *one.shape[1:]) for one in found))


class _PairRecords:
    """The records of two groups; those of one stratum stand together."""

    def __init__(self, records: Records, pair: tuple[int, int], strata: IntArray | None) -> None:
        either = np.where(np.isin(records.group, pair), 0, -1)
        parts = _strata(either, strata)
        rows = np.concatenate(parts)
        self._real = np.equal(records.group[rows], pair[0])
        ends = np.cumsum([len(part) for part in parts])
        self._parts = [slice(end - len(part), end) for end, part in zip(ends, parts, strict=True)]
        exposure, benefit = records.exposure[..., rows], records.benefit[..., rows]
        good = np.asarray(np.isfinite(exposure + benefit[:, None]).all(axis=-1))
        self._told = good
        self._moments = Moments(
            self._levelled(np.where(good[..., None], exposure, 0.0)),
            self._levelled(np.nan_to_num(benefit)),
        )

    def _levelled(self, values: FloatArray) -> FloatArray:
        """Bring every stratum to the mean of all."""
        if len(self._parts) == 1:
            return values
        out, mean = values.copy(), values.mean(axis=-1, keepdims=True)
        for part in self._parts:
            out[..., part] += mean - values[..., part].mean(axis=-1, keepdims=True)
        return out

    @property
    def real_sums(self) -> FloatArray:
        """(1, column) sums over the first group as it is."""
        return self.sums(self._real[None])

    def sums(self, chosen: BoolArray) -> FloatArray:
        """(draw, column) sums over first groups; ``chosen`` is (draw, record)."""
        return self._moments.sums(chosen)

    def drawn_sums(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """(draw, column) sums over first groups drawn anew, the sizes in each stratum kept."""
        drawn, exact = np.zeros((n_draws, len(self._moments.total))), self._moments.exact
        for part in self._parts:
            inside = self._real[part]
            if len(inside) > SHUFFLED:
                drawn += turned_sums(exact.columns[part], inside, n_draws, rng)
            else:
                drawn += exact.raw_among(part, subsets(inside, n_draws, rng))
        return drawn

    def distances(self, sums: FloatArray) -> FloatArray:
        """(draw, statistic, setting, cost) how far apart the two groups are, in errors."""
        n = np.array([self._real.sum()])
        one = self._moments.means(sums, n)
        other = self._moments.means(self._moments.total - sums, len(self._real) - n)
        return np.stack([_exposure_distance(one, other), _cross_distance(one, other)], axis=1)

    def tests(self, distances: FloatArray) -> tuple[PermutationTest, PermutationTest]:
        """p-values of both statistics; the first distance is the real one."""
        found = (_test(distances[:, k], self._told) for k in range(2))
        return next(found), next(found)


def _exposure_distance(one: GroupMeans, other: GroupMeans) -> FloatArray:
    variance = one.exposure_variance + other.exposure_variance
    return _in_errors(one.exposure - other.exposure, variance)


def _cross_distance(one: GroupMeans, other: GroupMeans) -> FloatArray:
    """R_i c_j - R_j c_i over its error, covariances included."""
    c = one.exposure, other.exposure
    r = one.benefit[..., None], other.benefit[..., None]
    variance = np.zeros(c[0].shape)
    for part, cost, benefit in ((one, c[1], r[1]), (other, c[0], r[0])):
        variance += cost**2 * part.benefit_variance[..., None]
        variance += benefit**2 * part.exposure_variance
        variance -= 2 * cost * benefit * part.covariance
    return _in_errors(r[0] * c[1] - r[1] * c[0], variance)


def _in_errors(difference: FloatArray, variance: FloatArray) -> FloatArray:
    """Without sign; 0 where nothing differs, infinite where something does and nothing varies."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.abs(difference) / np.sqrt(np.maximum(variance, 0.0))
    return np.where(difference == 0, 0.0, found)


def _test(distances: FloatArray, told: BoolArray) -> PermutationTest:
    by_cost = [step_down(distances[:, :, k], told[:, k]) for k in range(told.shape[1])]
    flat = distances.reshape(len(distances), -1)
    return PermutationTest(
        p_value=np.where(told, _share_beyond(distances, distances[0]), np.nan),
        adjusted=np.stack(by_cost, axis=1),
        adjusted_over_costs=step_down(flat, told.ravel()).reshape(told.shape),
    )


def _untold(records: Records) -> PermutationTest:
    return PermutationTest(*(np.full(records.exposure.shape[:2], np.nan) for _ in range(3)))


def step_down(distances: FloatArray, told: BoolArray) -> FloatArray:
    """Adjusted p-values of a family by the step-down maximum of Westfall and Young.

    Args:
        distances: (draw, hypothesis) without sign, on one scale; the first draw is the real one.
        told: (hypothesis,) which belong to the family; the others get NaN.

    >>> real, drawn = [3.0, 1.0], [[1.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    >>> step_down(np.array([real, *drawn]), np.array([True, True]))
    array([0.25, 0.75])
    """
    adjusted = np.full(len(told), np.nan)
    family = np.flatnonzero(told)
    order = family[np.argsort(distances[0, family], kind="stable")]  # the nearest first
    largest = np.maximum.accumulate(distances[:, order], axis=1)
    p = _share_beyond(largest, distances[0, order])
    adjusted[order] = np.maximum.accumulate(p[::-1])[::-1]
    return adjusted


def _share_beyond(distances: FloatArray, real: FloatArray) -> FloatArray:
    return np.asarray((distances >= real * (1 - TIE)).mean(axis=0))


def subsets(inside: BoolArray, n_draws: int, rng: np.random.Generator) -> BoolArray:
    """(draw, record) subsets of one size, all equally likely."""
    return rng.permuted(np.tile(inside, (n_draws, 1)), axis=1)


def _strata(codes: IntArray, strata: IntArray | None) -> list[IntArray]:
    """Positions of the records that have a group, stratum by stratum."""
    rows = np.flatnonzero(codes >= 0)
    if strata is None:
        return [rows]
    return [rows[strata[rows] == one] for one in np.unique(strata[rows])]


def _blocks(draws: FloatArray) -> list[FloatArray]:
    """Some draws at a time."""
    return [draws[first : first + BLOCK] for first in range(0, len(draws), BLOCK)]


def _generator(seed: int, pair: tuple[int, int]) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=pair)))


def _stack(tests: Sequence[PermutationTest]) -> PermutationTest:
    """One test of all pairs."""
    return PermutationTest(*(np.stack(parts, axis=-1) for parts in zip(*tests, strict=True)))
