"""What does one attack find over all models of a setting, and with which errors?

``attack`` fills a pool for every attack. A pooled exposure is about people like these.
A record is in all models, so its influence is summed over them before it is squared;
what models vary beyond their records is added, never subtracted (two-way clusters,
after Cameron, Gelbach and Miller; ``people_variance``). If nothing is memorised, only
records count (``null_error``). Training on one record changes predictions for others,
which no error here contains; whether groups share that is measured (``separation``),
and how much of what records differ by other models would show again (``reliability``).

Placebo groups are not attacked one by one: every number is (nearly) a sum over a
group's records, and sums over many groups are one product (``Divisions``). Paired
attacks are exact. Attacks that rank records are taken to first order: influences among
everybody are summed over the group, off by about 1 over its size. To add a kind of
pool: a subclass of ``Pool``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from pcer.attacks.rates import Rate
from pcer.attacks.single import Advantage, Attack, Ranked
from pcer.attacks.sums import Divisions, Groups
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient
from pcer.release.panel import PooledExposures
from pcer.statistics import SIGNIFICANCE, interval_quantile

# Fewer models are compared two by two; more are compared with their mean. Fewer are
# also too few to measure what groups share.
FEW_MODELS = 5
UNMEASURED = 0.4  # separation where models say too little to measure it
ROUNDED = 1e-12  # of a mean square, below which a variance is rounding
# Groups of one division, or of many placebo groupings in sequence.
Sets = Groups | Divisions


class Variances(NamedTuple):
    """(set,) variances of values, from differences between models."""

    of_models: FloatArray
    of_both: FloatArray  # what both models and records count
    n_models: IntArray | int  # models behind them


# A benefit without a known covariance.
NO_RATE = Rate(np.full((1, 1), np.nan), np.zeros(1))


class Moments(NamedTuple):
    """(set,) what the influences of a set's records say of its value."""

    n: FloatArray  # records
    mean: FloatArray  # influence
    of_records: FloatArray  # variance of the value
    covariance: FloatArray  # of the value with the benefit


class Pool(ABC):
    """Collects one attack over all models of a setting."""

    is_scored: BoolArray  # (record,) whether some model scores it
    is_complete: BoolArray  # (record,) whether every model does

    @abstractmethod
    def numbers(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """(group,) values, NaN where unknown; (record,) influences on them."""

    @abstractmethod
    def _model_rows(self, sets: Sets) -> list[npt.NDArray[Any]]:
        """Blocks of rows (row, record) whose sums over sets ``_of_models`` needs."""

    @abstractmethod
    def _of_models(
        self, sets: Sets, sums: FloatArray, n: FloatArray, value: FloatArray
    ) -> Variances:
        """Variances of values of sets of ``n`` records, from differences of models.

        ``sums`` (row, set) are those of ``_model_rows``.
        """

    def n_scored(self, groups: Groups) -> FloatArray:
        """(group,) records that some model scores."""
        return np.asarray(groups.sums(self.is_scored[None])[0])

    def n_excluded(self, groups: Groups) -> FloatArray:
        """(group,) records that some model could not score."""
        return np.asarray(groups.sums(~self.is_complete[None])[0])

    def by_record(self, groups: Groups) -> FloatArray:
        """(record,) numbers with the groups' values as means."""
        value, influence = self.numbers(groups)
        scale = quotient(groups.sizes, self.n_scored(groups))
        return groups.by_record(value, influence * scale[groups.codes])

    def exposures(self, sets: Sets, benefit: Rate = NO_RATE) -> PooledExposures:
        """The exposure of every set, with errors for normal intervals."""
        return exposures_together([self], sets, benefit)[0]

    def _rows(self, sets: Sets, benefit: Rate) -> list[npt.NDArray[Any]]:
        """Blocks of rows whose sums ``_exposures`` needs: moments, then models."""
        _, influence = self.numbers(sets.whole)
        is_known = self.is_scored & sets.inside
        moments = np.stack(
            [
                is_known,
                influence,
                influence**2,
                influence * benefit.own,
                is_known * benefit.own,
            ]
        )
        return [moments, *self._model_rows(sets)]

    def _exposures(
        self, sets: Sets, sums: FloatArray, benefit: Rate
    ) -> PooledExposures:
        """The exposure of every set, from the sums of ``_rows``.

        With n records whose influences are x, and influences y on the benefit (that of
        ``sets.whole``), the variance by records is (mean(x^2) - mean(x)^2)/(n - 1), and
        the covariance with the benefit (sum(x y) - mean(x) sum(y))/size/(n - 1). No
        error is below that of one record at chance, |value|/n; a single one has none.
        """
        base, _ = self.numbers(sets.whole)
        n, mean, of_records, covariance = _moments(sets, sums[:5], benefit)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = base if sets is sets.whole else base + mean
            of_models = self._of_models(sets, sums[5:], n, value)
            people = people_variance(of_records, *of_models)
            least = np.abs(value) / n
            error = np.maximum(np.sqrt(people), least)
            null_error = np.maximum(np.sqrt(of_records), least)
        has_error = (n > 1) & ~np.isnan(value)
        return PooledExposures(
            value=value,
            standard_error=np.where(has_error, error, np.nan),
            null_error=np.where(has_error, null_error, np.nan),
            benefit_covariance=np.where(has_error, covariance, np.nan),
            n_records=n,
        )


def exposures_together(
    pools: Sequence[Pool], sets: Sets, benefit: Rate
) -> list[PooledExposures]:
    """Every pool's exposures: hundreds of placebo groups are gone through once."""
    if not pools:
        return []
    rows = [pool._rows(sets, benefit) for pool in pools]
    sums = sets.sums(*chain(*rows))
    n_rows = [sum(map(len, blocks)) for blocks in rows]
    parts = np.split(sums, np.cumsum(n_rows)[:-1])
    found = []
    for pool, part in zip(pools, parts, strict=True):
        found.append(pool._exposures(sets, part, benefit))
    return found


def _moments(sets: Sets, sums: FloatArray, benefit: Rate) -> Moments:
    n, total, squares, products, of_benefit = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        of_records = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
        covariance = (products - mean * of_benefit) / sets.sizes / (n - 1)
        covariance = np.where(np.isnan(benefit.value), np.nan, covariance)
    return Moments(n, mean, of_records, covariance)


def people_variance(
    of_records: FloatArray,
    of_models: FloatArray,
    of_both: FloatArray,
    n_models: IntArray | int,
) -> FloatArray:
    """Variance by records and models, less what both count: max(r, r - b + w m).

    The models' part comes from few models, so its weight w is the square of Student's
    quantile over the normal one: intervals then cover as they claim (Banerjee 1960).
    """
    several = np.atleast_1d(n_models)
    normal = interval_quantile(1 - SIGNIFICANCE)
    student = scipy.special.stdtrit(np.maximum(several - 1, 1), 1 - SIGNIFICANCE / 2)
    weight = np.where(several > 1, np.float_power(student / normal, 2), 0.0)
    return np.maximum(of_records, of_records - of_both + weight * of_models)


class RankedPool(Pool):
    """An attack that ranks records within each model."""

    def __init__(
        self, divisions: Sequence[Groups], n_models: int, whole: Sequence[Groups] = ()
    ) -> None:
        """Divisions to attack, and everybody in placebo groupings as one group."""
        n = len(divisions[0].codes)
        # By division, values and variances (2, model, group).
        self.found: dict[Groups, FloatArray] = {}
        for groups in (*divisions, *whole):
            self.found[groups] = np.full((2, n_models, groups.n), np.nan)
        # Influences of records: summed over all models, and for placebos of each model.
        self._parts: dict[Groups, npt.NDArray[Any]] = {}
        for groups in divisions:
            self._parts[groups] = np.zeros((1, n))
        for groups in whole:
            self._parts[groups] = np.zeros((n_models, n), dtype=np.float32)
        self.is_scored = np.zeros(n, dtype=bool)
        self.is_complete = np.ones(n, dtype=bool)

    @property
    def has_values(self) -> bool:
        """Whether any model gives a value for any group."""
        return any(bool(np.isfinite(found).any()) for found in self.found.values())

    def add(
        self,
        model: int,
        ranked: dict[Groups, list[Ranked]],
        statistic: Attack,
        score: FloatArray,
    ) -> dict[Groups, list[Advantage | None]]:
        """Add one model's ranks of this pool's divisions; returns results by group.

        They are without the records' influences, which take memory.
        """
        is_scored = ~np.isnan(score)
        self.is_scored |= is_scored
        self.is_complete &= is_scored
        results = {}
        for groups in self.found:
            advantages = [statistic(ranks, score) for ranks in ranked[groups]]
            results[groups] = [_without_parts(found) for found in advantages]
            parts = self._parts[groups][model % len(self._parts[groups])]
            for k, advantage in enumerate(advantages):
                if advantage is not None and advantage.parts is not None:
                    numbers = (advantage.value, advantage.variance)
                    self.found[groups][:, model, k] = numbers
                    parts[ranked[groups][k].order] += advantage.parts
        return results

    def numbers(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """Means over the models that give a value."""
        values = self.found[groups][0]
        parts = self._parts[groups].sum(axis=0, dtype=np.float64)
        n_models = np.isfinite(values).sum(axis=0)
        scale = self.n_scored(groups) / np.maximum(n_models, 1)
        mean = quotient(np.nansum(values, axis=0), n_models)
        return mean, scale[groups.codes] * parts

    def _model_rows(self, sets: Sets) -> list[npt.NDArray[Any]]:
        return [self._parts[sets.whole]] if isinstance(sets, Divisions) else []

    def _of_models(
        self, sets: Sets, sums: FloatArray, n: FloatArray, value: FloatArray
    ) -> Variances:
        by_model, variances = self.found[sets.whole]
        n_models = np.isfinite(by_model).sum(axis=0)
        share = self.n_scored(sets.whole) / n
        if isinstance(sets, Divisions):
            by_model = by_model + sums * share
        spread = (by_model - np.nansum(by_model, axis=0) / n_models) ** 2
        of_models = np.nansum(spread, axis=0) / (n_models - 1) / n_models
        of_both = np.nansum(variances, axis=0) * share / n_models**2
        return Variances(
            of_models=np.where(n_models > 1, of_models, 0.0),
            of_both=np.where(n_models > 1, of_both, 0.0),
            n_models=n_models,
        )


def _without_parts(found: Advantage | None) -> Advantage | None:
    return None if found is None else found._replace(parts=None)


class Sides:
    """Which models trained on each record and which did not, for a few records."""

    def __init__(self, member: BoolArray) -> None:
        n_in = member.sum(axis=0)
        n_out = len(member) - n_in
        self.member = member
        self.are_both = (n_in > 0) & (n_out > 0)
        self.n_in = np.maximum(n_in, 1)
        self.n_out = np.maximum(n_out, 1)
        of_members = self.are_both / self.n_in
        of_others = self.are_both / -self.n_out
        self.weights = np.where(member, of_members, of_others)
        self.moved = self.weights * (member - n_in / len(member))


class PairedPool(Pool):
    """Paired attacks: each record in models with it, minus in models without it.

    A model's part in a difference is measured from the record's mean over all models:
    a shift of all its scores does not count. Records always in, or never, have none.
    """

    def __init__(self, moved: FloatArray) -> None:
        """``moved`` (model, record) are the ``Sides``' of all records, for all pools.

        They may be filled in later.
        """
        n_models, n_records = moved.shape
        n_pairs = math.comb(n_models, 2) if n_models < FEW_MODELS else 0
        self.is_scored = self.is_complete = np.zeros(n_records, dtype=bool)
        self._differences = np.zeros(n_records)
        # Squares of the models' parts and shifts; the share of models trained on it.
        self._squares = np.zeros((3, n_records))
        self._added = np.empty((n_models, n_records))  # each model's part
        self._moved = moved  # and its shift
        self._contrasts = np.zeros((12 * n_pairs, n_records))

    def add(self, block: slice, values: FloatArray | BoolArray, sides: Sides) -> None:
        """Add some records; ``values`` are (model, record)."""
        total_in = (values * sides.member).sum(axis=0)
        total_out = (values * ~sides.member).sum(axis=0)
        self.is_scored[block] = sides.are_both
        self._differences[block] = total_in / sides.n_in - total_out / sides.n_out

        added = self._added[:, block]
        np.subtract(values, (total_in + total_out) / len(values), out=added)
        added *= sides.weights
        self._squares[0, block] = _sums_of_squares(added)
        self._squares[1, block] = _sums_of_squares(sides.moved)
        self._squares[2, block] = sides.are_both * sides.n_in / len(values)
        if len(self._contrasts):
            contrasts = contrast_moments(values, sides.member)
            self._contrasts[:, block] = contrasts.reshape(-1, len(total_in))

    def numbers(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """Mean differences."""
        is_known = self.is_scored & groups.inside
        n, total = groups.sums(np.stack([is_known, is_known * self._differences]))
        value = quotient(total, n)
        distances = self._differences - value[groups.codes]
        return value, np.where(is_known, distances, 0.0)

    def _model_rows(self, sets: Sets) -> list[npt.NDArray[Any]]:
        if len(self._contrasts):
            return [self._contrasts]
        _, influence = self.numbers(sets.whole)
        rows = np.stack([*self._squares, self._squares[1] * influence])
        return [rows, self._added, self._moved]

    def _of_models(
        self, sets: Sets, sums: FloatArray, n: FloatArray, value: FloatArray
    ) -> Variances:
        n_models = len(self._added)
        if len(self._contrasts):
            contrasts = sums.reshape(3, 4, -1, len(n))
            return Variances(*of_few(contrasts, n_models), n_models)
        base, _ = self.numbers(sets.whole)
        return self._of_many(sums, n, base, value)

    def _of_many(
        self, sums: FloatArray, n: FloatArray, base: FloatArray, value: FloatArray
    ) -> Variances:
        """(set,) variances where there are enough models to compare with their mean.

        For a set of n records with value v, a (``added``) and b (``moved``) of model m
        and record r, both 0 for records without a difference:

            of_models = w/n^2 sum over m of (sum over r of (a - v b))^2
            of_both = w/n^2 sum over m and r of (a - v b)^2

        w is ``_weight``. Summed over the models, a b is b^2 times r's difference, which
        is the value of everybody (``base``) plus r's distance from it (``influence``).
        """
        n_models = len(self._added)
        squares, moved_squares, share_in, moved_distances = sums[:4]
        added, moved = np.split(sums[4:], 2)
        of_models = ((added - value * moved) ** 2).sum(axis=0)
        moved_differences = moved_distances + base * moved_squares
        of_both = squares + value**2 * moved_squares - 2 * value * moved_differences
        weight = _weight(share_in / n, n_models) / n**2
        return Variances(weight * of_models, weight * of_both, n_models)


def _weight(share_in: FloatArray, n_models: int) -> FloatArray:
    """What squares of models' parts in a mean are multiplied by; see ``share_in``.

    A model is part of the means that it is measured from: one that adds x to all its
    records stands out by x (1 - (1 + share_in)/n_models) only, with one degree of
    freedom less. Both are corrected. ``share_in`` of the models train on a record.
    """
    visible = 1 - (1 + share_in) / n_models
    return np.asarray(n_models / (n_models - 1) / visible**2)


def _sums_of_squares(values: FloatArray) -> FloatArray:
    """(record,) sums of squares over the models."""
    return np.asarray(np.einsum("mr,mr->r", values, values))


def contrast_moments(values: FloatArray | BoolArray, member: BoolArray) -> FloatArray:
    """(moment, kind, two models, record) counts, differences and their squares.

    The kind is 0 where neither model trained on the record, 1 or 2 where only the first
    or the second did, 3 where both.
    """
    first, second = np.triu_indices(len(values), 1)
    contrast = values[first].astype(np.float64) - values[second]
    kind = member[first] + 2 * member[second]
    chosen = np.equal(kind, np.arange(4)[:, None, None])
    return np.stack([chosen, chosen * contrast, chosen * contrast**2])


def of_few(contrasts: FloatArray, n_models: int) -> tuple[FloatArray, FloatArray]:
    """Variance of a mean paired difference from few models: by models, and by both.

    Of two models the one that memorises more scores records that both trained on
    higher, and no higher those that neither did. Where there are not two of each kind,
    records of one model are compared with those of the other, which counts shifts of
    all scores as well. ``contrasts`` are sets' sums of ``contrast_moments``.
    """
    n, total, squares = contrasts
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
    apart = np.minimum(n[0], n[3]) >= 2
    is_measured = apart | (np.minimum(n[1], n[2]) >= 2)
    contrast = np.where(apart, mean[3] - mean[0], mean[1] + mean[2])
    noise = np.where(apart, variance[3] + variance[0], variance[1] + variance[2])
    both = np.where(is_measured, [contrast**2, noise], 0.0).mean(axis=1)
    of_models, of_both = both / (2 * n_models)
    return of_models, of_both


def separation(luck: FloatArray, groups: Groups) -> FloatArray:
    """(group,) from 0 (luck is shared) to 1 (it stays in groups); NaN if not measured.

    A training record changes predictions for its neighbours, which cancels in a
    difference of groups only as far as both share it. Every group is compared with the
    largest, l, which gets the highest value. With ``luck`` of ``luck_of``, B[g, h] and
    m_g of ``_shared_luck``, W = (m_g B[g, g] + m_l B[l, l])/(m_g + m_l) is the mean
    within both, and v = 8/(m_g + m_l)^2 + 2/(m_g m_l) the variance of W - B[l, g]. The
    separation is (W (W - B[l, g]) + UNMEASURED v)/(W^2 + v), cut to [0, 1]: sampling
    error shrinks it to ``UNMEASURED``.
    """
    if len(luck) < FEW_MODELS or groups.n < 2:
        return np.full(groups.n, np.nan)
    largest = int(np.argmax(groups.sizes))
    beyond, size = _shared_luck(luck, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        both = size + size[largest]
        within = size * np.diag(beyond) + size[largest] * beyond[largest, largest]
        within = np.maximum(within / both, 0.0)
        noise = 8 / both**2 + 2 / (size * size[largest])
        apart = within * (within - beyond[largest]) + UNMEASURED * noise
        shares = np.asarray(np.clip(apart / (within**2 + noise), 0.0, 1.0))
    shares[largest] = np.nan
    shares[largest] = np.fmax.reduce(shares)
    return shares


def _shared_luck(luck: FloatArray, groups: Groups) -> tuple[FloatArray, FloatArray]:
    """B and m of ``separation``.

    B (group, group) is the mean squared covariance of two records, beyond that of
    independent ones and relative to it; m (group,) the effective number of records.
    """
    members = [luck[:, groups.codes == k] for k in range(groups.n)]
    products = np.array([of_group @ of_group.T for of_group in members])
    of_records = _sums_of_squares(luck)
    variances, squares = groups.sums(np.stack([of_records, of_records**2]))
    same = np.diag(squares)
    pairs = np.einsum("gst,hst->gh", products, products) - same
    with np.errstate(divide="ignore", invalid="ignore"):
        independent = (np.outer(variances, variances) - same) / (len(luck) - 1)
        return pairs / independent - 1, variances**2 / squares


def luck_of(values: FloatArray, sides: Sides) -> FloatArray:
    """(model, record) scores minus their mean over the models on the same side."""
    total_in = (values * sides.member).sum(axis=0)
    total_out = values.sum(axis=0) - total_in
    means = np.where(sides.member, total_in / sides.n_in, total_out / sides.n_out)
    return np.asarray(values - means)


class Differences(NamedTuple):
    """Scores of records with them in training, minus scores without them."""

    value: FloatArray  # (record,) NaN with fewer than two models on a side
    noise: FloatArray  # (record,) variance of the value over other such models


def differences_of(values: FloatArray, luck: FloatArray, sides: Sides) -> Differences:
    """Differences of some records, from (model, record) scores and their luck.

    The noise is s_in^2/n_in + s_out^2/n_out, with s^2 the variance over the models on
    one side.
    """
    is_known = np.minimum(sides.n_in, sides.n_out) > 1
    squares = luck**2
    squares_in = (squares * sides.member).sum(axis=0)
    squares_out = (squares * ~sides.member).sum(axis=0)
    noise = quotient(squares_in, sides.n_in * (sides.n_in - 1.0))
    noise += quotient(squares_out, sides.n_out * (sides.n_out - 1.0))
    value = (values * sides.weights).sum(axis=0)
    return Differences(
        value=np.where(is_known, value, np.nan),
        noise=np.where(is_known, noise, np.nan),
    )


def reliability(
    differences: Differences, groups: Groups, *, n_models: int
) -> FloatArray:
    """(group,) share of what records differ by that is no luck of models, from 0 to 1.

    1 - mean(noise) / Var(difference) over a group's records: what as many other models
    of the same records would show again. NaN where it is not measured.
    """
    is_known = groups.inside & ~np.isnan(differences.value)
    value = np.where(is_known, differences.value, 0.0)
    noise = np.where(is_known, differences.noise, 0.0)
    n, total, squares, noises = groups.sums(
        np.stack([is_known, value, value**2, noise])
    )
    if n_models < FEW_MODELS:
        return np.full(groups.n, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (squares - total**2 / n) / (n - 1)
        shares = np.clip(1 - noises / n / variance, 0.0, 1.0)
        do_differ = variance > ROUNDED * squares / n
    return np.asarray(np.where(do_differ, shares, np.nan))
