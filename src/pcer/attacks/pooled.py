"""One cost over all models of a setting: its value for a group, its error, who is behind it.

Every pooled number is about people like these, so two kinds of luck are in its error. Records: a
record is in all models, so what it adds is summed over them before it is squared. Models: one that
remembers more exposes all of its records, and so few models may have been lucky; what the models'
numbers vary beyond what their records explain is added (clustering both ways, after Cameron,
Gelbach and Miller), never subtracted, and few models count as the few that they are
(``exposures_of``). If nothing is remembered no model can remember more: then records are all
there is (``null_error``). What a record adds to the number and to its group's benefit gives the
covariance of both. What records change about each other is in no error; whether two groups share
it is measured (``SharedLuck``).

Groups that a coin flip made are not attacked one by one: every number is a sum over a group's
records, or nearly so, and sums over many groups are one product (``divided``). Paired costs are
exactly those of the division alone. Attacks that rank records within a model are taken to first
order: what each record adds to everybody's number, once, summed over the group. Groups that a coin
flip made hold the same kind of people, so that ranks within a group and among everybody differ by
as little as 1 over its size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.ranking import Ranked, Ranker
from pcer.attacks.single import Advantage, auc_advantage
from pcer.attacks.sums import Divisions
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.panel import PooledExposures
from pcer.statistics import student_weight

FEW_MODELS = 5
"""Fewer models are compared two by two to see how much more one remembers than another; of more,
each is better told from all. Too few, also, to measure what groups share."""

UNMEASURED = 0.4
"""Separation of groups of which models say too little to measure it."""

LABEL, SIDE, PREDICTION = 1, 2, 3
"""Axes of counts after the group's: label 0 and 1, held out and trained on, negative, positive."""

RIGHT = np.array([[True, False], [False, True]])
"""By label and prediction, whether the prediction is right."""


class Groups(NamedTuple):
    """A division of the records: (record,) a group's number, -1 for none; and how many groups."""

    codes: IntArray
    n: int

    def sums(self, values: FloatArray | BoolArray) -> FloatArray:
        """(group,) sums over the records of each; ``values`` are (record,)."""
        inside = self.codes >= 0
        return np.asarray(np.bincount(self.codes[inside], values[inside], self.n), np.float64)

    def by_record(self, value: FloatArray, parts: FloatArray) -> FloatArray:
        """(record,) numbers with the groups' values as means; NaN for records of no group.

        Their standard deviation over the root of the group's size is the value's error as far
        as it comes from records, and so with covariances: group means of such numbers can stand
        for what an audit sees.

        >>> Groups(np.array([0, 0]), 1).by_record(np.array([0.3]), np.array([0.1, -0.1]))
        array([0.5, 0.1])
        """
        sizes = self.sums(np.ones(len(parts)))
        numbers = value[self.codes] + sizes[self.codes] * parts
        return np.where(self.codes >= 0, numbers, np.nan)


class Rate(NamedTuple):
    """(model, group) rates, NaN where nobody tells one; and what each record adds to the mean."""

    by_model: FloatArray
    parts: FloatArray

    @property
    def value(self) -> FloatArray:
        """(group,) mean over the models."""
        return np.asarray(self.by_model.mean(axis=0))


class Pool(ABC):
    """Collects one cost over all models of a setting, for several divisions of the records.

    Attributes:
        divisions: of the records into groups.
        is_scored: (record,) whether any model says anything of it.
        is_complete: (record,) whether every model could.
    """

    divisions: Sequence[Groups]
    is_scored: BoolArray
    is_complete: BoolArray

    @abstractmethod
    def shares(self, v: int) -> tuple[FloatArray, FloatArray]:
        """(group,) values of a division, NaN where no model tells it; (record,) parts in them."""

    @abstractmethod
    def _of_models(self, v: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """(group,) what models, and what both make of variances; how many models tell them."""

    @abstractmethod
    def divided(self, coins: Divisions, benefit: FloatArray) -> PooledExposures | None:
        """The groups of coin flips one after the other; None where nothing can be told."""

    def by_record(self, v: int) -> FloatArray:
        """(record,) numbers with the groups' values as means."""
        return self.divisions[v].by_record(*self.shares(v))

    def n_excluded(self, v: int) -> FloatArray:
        """(group,) records of which some model could not tell anything."""
        return self.divisions[v].sums(~self.is_complete)

    def exposures(self, v: int, benefit: Rate | None = None) -> PooledExposures:
        """The cost of every group of a division, and its covariance with the benefit."""
        groups, (value, parts) = self.divisions[v], self.shares(v)
        n, covariance = groups.sums(self.is_scored), np.full(groups.n, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_records = groups.sums(parts**2) * (n / (n - 1))
            if benefit is not None:
                products = groups.sums(parts * benefit.parts) * (n / (n - 1))
                covariance = np.where(np.isnan(benefit.value), np.nan, products)
            of_models, of_both, n_models = self._of_models(v)
        return exposures_of(value, n, (of_records, of_models, of_both), n_models, covariance)


def exposures_of(
    value: FloatArray,
    n: FloatArray,
    variances: tuple[FloatArray, FloatArray | float, FloatArray | float],
    n_models: IntArray | int,
    covariance: FloatArray,
) -> PooledExposures:
    """Values of groups with their errors, for normal intervals; none of a single record.

    Records and models, less what both count twice; never below that of records. The models' part
    is estimated from few models, so that it counts by the square of Student's quantile over the
    normal one: intervals of such sums hold at least as often as they say (Banerjee 1960). No error
    is below what one record at chance would have made of it.

    Args:
        value: (group,).
        n: (group,) records.
        variances: (group,) as records make them, as models do, and as both do.
        n_models: how many models, one number or (group,).
        covariance: (group,) with the benefit.
    """
    of_records, of_models, of_both = variances
    several = np.atleast_1d(n_models)
    weight = np.array([student_weight(int(m) - 1) if m > 1 else 0.0 for m in several])
    with np.errstate(divide="ignore", invalid="ignore"):
        people = np.maximum(of_records, of_records - of_both + weight * of_models)
        least, is_told = np.abs(value) / n, (n > 1) & ~np.isnan(value)
    errors = (np.maximum(np.sqrt(part), least) for part in (people, of_records))
    error, null, both = (np.where(is_told, x, np.nan) for x in (*errors, covariance))
    return PooledExposures(
        value=value,
        standard_error=error,
        null_error=null,
        benefit_covariance=both,
        n_records=n,
    )


class RankedPool(Pool):
    """An attack that ranks records within each model, collected one model after the other.

    Args:
        divisions: of the records into groups.
        whole: everybody, or all but some, as one group: what every record adds there in every
            model is kept, for ``divided``.
        exact: further divisions.
    """

    def __init__(
        self,
        divisions: Sequence[Groups],
        whole: Sequence[Groups] = (),
        exact: Sequence[Groups] = (),
    ) -> None:
        self.divisions = [*divisions, *whole, *exact]
        n, kept = len(divisions[0].codes), range(len(divisions), len(divisions) + len(whole))
        # (value, variance) by division, group and model
        self._numbers: list[list[list[tuple[float, float]]]] = [
            [[] for _ in range(groups.n)] for groups in self.divisions
        ]
        self._parts = np.zeros((len(self.divisions), n))
        self._by_model: dict[int, list[npt.NDArray[np.float32]]] = {v: [] for v in kept}
        self.is_scored, self.is_complete = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)

    @property
    def ranker(self) -> Ranker:
        """Ranks scores within the groups of every division."""
        return Ranker([one.codes for one in self.divisions], [one.n for one in self.divisions])

    def add(
        self,
        ranked: Sequence[Sequence[Ranked]],
        advantages: Sequence[Sequence[Advantage | None]],
        is_scored: BoolArray,
        is_told: BoolArray | None = None,
    ) -> None:
        """Take in one model."""
        self.is_scored |= is_scored
        self.is_complete &= is_scored if is_told is None else is_told
        for v, (orders, of_groups) in enumerate(zip(ranked, advantages, strict=True)):
            added = np.zeros(len(is_scored))
            for k, (order, advantage) in enumerate(zip(orders, of_groups, strict=True)):
                if advantage is not None and advantage.parts is not None:
                    self._numbers[v][k].append((advantage.value, advantage.variance))
                    added[order.order] = advantage.parts
            if v not in self._by_model:
                self._parts[v] += added
            elif len(self._numbers[v][0]) > len(self._by_model[v]):
                self._by_model[v].append(added.astype(np.float32))

    def add_auc(
        self, ranker: Ranker, score: FloatArray, member: BoolArray, is_told: BoolArray | None = None
    ) -> None:
        """Take in one model by the AUC of its scores, NaN where a record is left out."""
        ranked = ranker.rank(score, member)
        advantages = [[auc_advantage(group) for group in of_groups] for of_groups in ranked]
        self.add(ranked, advantages, ~np.isnan(score), is_told)

    def shares(self, v: int) -> tuple[FloatArray, FloatArray]:
        """Means over the models that tell a value."""
        values = [[value for value, _ in pairs] for pairs in self._numbers[v]]
        n_models = np.array([max(len(own), 1) for own in values])
        means = np.array([math.fsum(own) / len(own) if own else math.nan for own in values])
        return means, self._parts[v] / n_models[self.divisions[v].codes]

    def _of_models(self, v: int) -> tuple[FloatArray, FloatArray, IntArray]:
        numbers = [np.reshape(pairs, (-1, 2)) for pairs in self._numbers[v]]
        both = np.array([_over_models(own[:, 0], np.nansum(own[:, 1])) for own in numbers])
        return both[:, 0], both[:, 1], np.array([len(own) for own in numbers])

    def divided(self, coins: Divisions, benefit: FloatArray) -> PooledExposures | None:
        """To first order: everybody's number, and the mean of what a set's records add."""
        masks = ((v, self.divisions[v].codes >= 0) for v in self._by_model)
        whole, inside = next((v, mask) for v, mask in masks if np.array_equal(mask, coins.inside))
        if not self._by_model[whole]:
            return None
        known, parts = self.is_scored & inside, np.array(self._by_model[whole])
        values, variances = np.array(self._numbers[whole][0]).T
        own = known.sum() * parts.mean(axis=0, dtype=np.float64)
        sums = coins.sums(_moments(known, own, benefit), parts)
        n, mean, of_records, covariance = _divided(sums, coins)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_model = values[:, None] + sums[5:] * (known.sum() / n)
            of_models = _over_models(by_model, np.nansum(variances) * known.sum() / n)
        variation = of_records, *of_models
        return exposures_of(values.mean() + mean, n, variation, len(values), covariance)


def _over_models(
    values: FloatArray, variances: FloatArray | float
) -> tuple[FloatArray | float, FloatArray | float]:
    """What models, and what both, make of the variance of a mean over models."""
    n = len(values)
    return (0.0, 0.0) if n < 2 else (values.var(axis=0, ddof=1) / n, variances / n**2)


def _moments(known: BoolArray, own: FloatArray, benefit: FloatArray) -> FloatArray:
    return np.stack([known, own, own**2, own * benefit, known * benefit])


def _divided(sums: FloatArray, coins: Divisions) -> tuple[FloatArray, ...]:
    """Number, mean, variance and covariance over sets of records, from sums of ``_moments``."""
    n, total, squares, products, of_benefit = sums[:5]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
        return n, mean, variance, (products - mean * of_benefit) / coins.sizes / (n - 1)


def clustered_auc(scores: FloatArray, member: BoolArray) -> RankedPool:
    """AUC minus 1/2 of one group, averaged over models, with an error clustered by record."""
    pool = RankedPool([Groups(np.zeros(scores.shape[1], dtype=np.int64), 1)])
    ranker = pool.ranker
    for score, inside in zip(scores, member, strict=True):
        pool.add_auc(ranker, score, inside)
    return pool


class Sides:
    """Which models trained on each record and which did not, for a few records.

    Attributes:
        weights: (model, record) how values are weighed in a difference; 0 where there is none.
        moved: (model, record) what each model would add to a difference of 1.
    """

    def __init__(self, member: BoolArray) -> None:
        n_in = member.sum(axis=0)
        n_out = len(member) - n_in
        self.member, self.are_both = member, (n_in > 0) & (n_out > 0)
        self.n_in, self.n_out = np.maximum(n_in, 1), np.maximum(n_out, 1)
        self.weights = np.where(member, self.are_both / self.n_in, self.are_both / -self.n_out)
        self.moved = self.weights * (member - n_in / len(member))


class PairedPool(Pool):
    """A quantity of records, each beside itself in the models without it, a few at a time.

    A record's difference is the mean over the models that trained on it minus the mean over the
    others. What a model adds to that is measured from the record's mean over all models, so that
    what a model says alike of all records does not count. A record that was always in, or never,
    has no difference.

    Args:
        divisions: of the records into groups.
        n_models: how many models, at least two.
        keeps_models: whether to keep what every model adds to every record's, for ``divided``.
    """

    def __init__(
        self, divisions: Sequence[Groups], *, n_models: int, keeps_models: bool = False
    ) -> None:
        self.divisions, self._n_models = divisions, n_models
        n_pairs = math.comb(n_models, 2) if n_models < FEW_MODELS else 0
        n_rows, n = 2 * n_models + 12 * n_pairs, len(divisions[0].codes)
        self.is_scored = self.is_complete = np.zeros(n, dtype=bool)
        self._differences = np.zeros(n)
        self._squares, self._moved_squares, self._share_in = np.zeros((3, n))
        # what models add, what they move, and contrasts of two each; summed over the groups of
        # each division for itself, so that no division changes a bit of another
        self._sums = [np.zeros((n_rows, groups.n)) for groups in divisions]
        self._inside = [
            np.equal(groups.codes[:, None], np.arange(groups.n)).astype(np.float64)
            for groups in divisions
        ]
        self._kept = np.zeros((2 * n_models, n if keeps_models else 0), dtype=np.float32)
        self._kept_contrasts = np.zeros((12 * n_pairs, n if keeps_models else 0))

    def add(self, block: slice, values: FloatArray | BoolArray, sides: Sides) -> None:
        """Take in some records; ``values`` are (model, record)."""
        total_in = (values * sides.member).sum(axis=0)
        total_out = (values * ~sides.member).sum(axis=0)
        differences = total_in / sides.n_in - total_out / sides.n_out
        added = values - (total_in + total_out) / len(values)
        added *= sides.weights
        self.is_scored[block], self._differences[block] = sides.are_both, differences
        self._squares[block] = np.einsum("mr,mr->r", added, added)
        self._moved_squares[block] = np.einsum("mr,mr->r", sides.moved, sides.moved)
        self._share_in[block] = sides.n_in / len(values)
        rows = np.concatenate([added, sides.moved])
        contrasts = np.zeros((0, len(total_in)))
        if self._n_models < FEW_MODELS:
            contrasts = contrast_moments(values, sides.member).reshape(-1, len(total_in))
        if self._kept.size:
            self._kept[:, block], self._kept_contrasts[:, block] = rows, contrasts
        rows = np.concatenate([rows, contrasts])
        for sums, inside in zip(self._sums, self._inside, strict=True):
            sums += rows @ inside[block]

    def shares(self, v: int) -> tuple[FloatArray, FloatArray]:
        """Mean differences."""
        groups, known = self.divisions[v], self.is_scored
        n, differences = groups.sums(known), self._differences * known
        with np.errstate(divide="ignore", invalid="ignore"):
            value = groups.sums(differences) / n
            parts = (differences - value[groups.codes]) / n[groups.codes]
        return value, np.where(known & (groups.codes >= 0), parts, 0.0)

    def _of_models(self, v: int) -> tuple[FloatArray, FloatArray, IntArray]:
        groups, rows = self.divisions[v], self._rows(self.is_scored, self._differences)
        n, *sums = (groups.sums(row) for row in (self.is_scored, *rows))
        both = self._variances(n, self.shares(v)[0], np.stack(sums), self._sums[v])
        return *both, np.full(groups.n, self._n_models)

    def _rows(self, known: BoolArray, differences: FloatArray) -> FloatArray:
        """(row, record) what ``_variances`` needs to have summed."""
        moved = self._moved_squares * known
        return np.stack([self._squares * known, moved, moved * differences, self._share_in * known])

    def divided(self, coins: Divisions, benefit: FloatArray) -> PooledExposures | None:
        """Exactly as of real groups, but for the benefit, which is taken to first order."""
        known = self.is_scored & coins.inside
        if not known.any():
            return None
        centre = self._differences[known].mean()
        own = np.where(known, self._differences - centre, 0.0)
        blocks = self._rows(known, own), self._kept, self._kept_contrasts
        sums = coins.sums(_moments(known, own, benefit), *blocks)
        n, mean, of_records, covariance = _divided(sums, coins)
        rows, value = sums[5:9], centre + mean
        rows[2] += centre * rows[1]
        both = self._variances(n, value, rows, sums[9:])
        return exposures_of(value, n, (of_records, *both), self._n_models, covariance)

    def _variances(
        self, n: FloatArray, value: FloatArray, rows: FloatArray, sums: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """What models, and what both, make of the variance of mean differences of groups.

        A model's own number is in the means that it is measured from: one that adds x to all its
        records and nothing to the others stands out by x (1 - (1 + share trained on)/models), and
        by as many degrees of freedom less one. That is made good.
        """
        n_models = self._n_models
        added, moved, contrasts = np.split(sums, [n_models, 2 * n_models])
        if len(contrasts):
            return of_few(contrasts.reshape(3, 4, -1, len(n)), n_models)
        squares, moved_squares, moved_differences, share_in = rows
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = n_models / (n_models - 1) / (1 - (1 + share_in / n) / n_models) ** 2 / n**2
        of_both = squares + value**2 * moved_squares - 2 * value * moved_differences
        return weight * ((added - value * moved) ** 2).sum(axis=0), weight * of_both


def contrast_moments(values: FloatArray | BoolArray, member: BoolArray) -> FloatArray:
    """What the first of two models says of a record less what the second says, for every two.

    Args:
        values: (model, record).
        member: (model, record).

    Returns:
        (moment, kind, two models, record) for numbers, sums and sums of squares; the kind of a
        record is 0 if neither trained on it, 1 or 2 if the first or the second did, 3 if both.
    """
    first, second = np.triu_indices(len(values), 1)
    contrast = values[first].astype(np.float64) - values[second]
    kind = member[first] + 2 * member[second]
    chosen = np.equal(kind, np.arange(4)[:, None, None])
    return np.stack([chosen, chosen * contrast, chosen * contrast**2])


def of_few(contrasts: FloatArray, n_models: int) -> tuple[FloatArray, FloatArray]:
    """What few models, and what both, make of the variance of a mean paired difference.

    What a model says is in few differences, and in those of two models it cannot be told from what
    the other says. But where one remembers more, it says more than the other of records that both
    trained on, and no more of records that neither did. Where there are not two of each, records of
    one model stand against those of the other, which counts the models' moods as well.
    """
    n, total, squares = contrasts
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
    apart = np.minimum(n[0], n[3]) >= 2
    is_told = apart | (np.minimum(n[1], n[2]) >= 2)
    contrast = np.where(apart, mean[3] - mean[0], mean[1] + mean[2])
    noise = np.where(apart, variance[3] + variance[0], variance[1] + variance[2])
    both = np.where(is_told, [contrast**2, noise], 0.0).mean(axis=1) / (2 * n_models)
    return both[0], both[1]


class SharedLuck:
    """Collects how far groups share the luck of their training records, a few records at a time.

    A record changes what models say of its neighbours. That moves all exposures of one group alike,
    and cancels in a difference of groups only as far as the groups share it: wholly where they
    are mixed or the model is one for all, not at all where they live apart and the model is local.
    What a model says of a record beyond the mean over the models on the same side (those that
    trained on the record, or the others) is such luck. Two records that share it go up and down
    together, so the mean squared covariance of records, beyond that of independent ones, is
    compared within and between groups. It averages over all pairs of records, so that a few
    models are enough.
    """

    def __init__(self, groups: Groups, *, n_models: int) -> None:
        self._groups, self._n_models = groups, n_models
        self._products = np.zeros((groups.n, n_models, n_models))
        self._variances, self._squares = np.zeros((2, groups.n))

    def add(self, block: slice, luck: FloatArray) -> None:
        """Take in some records; ``luck`` is (model, record)."""
        for k in range(self._groups.n):
            own = luck[:, self._groups.codes[block] == k]
            variances = np.einsum("mr,mr->r", own, own)
            self._products[k] += own @ own.T
            self._variances[k] += variances.sum()
            self._squares[k] += (variances**2).sum()

    def separation(self) -> FloatArray:
        """(group,) from 0, luck is shared, to 1, it stays within groups; NaN if not measured.

        Every group is put beside the largest; the largest has the highest of those. What cannot be
        told from sampling error counts as ``UNMEASURED``: the mean of the share given what was
        found, if before that it had this mean and a standard deviation of 1.
        """
        n = self._groups.sums(np.ones(len(self._groups.codes)))
        if self._n_models < FEW_MODELS or len(n) < 2:
            return np.full(len(n), np.nan)
        largest, own = int(np.argmax(n)), np.diag(self._squares)  # no pairs of one record
        pairs = np.einsum("gst,hst->gh", self._products, self._products) - own
        with np.errstate(divide="ignore", invalid="ignore"):
            independent = (np.outer(self._variances, self._variances) - own) / (self._n_models - 1)
            beyond = pairs / independent - 1
            # as many records of equal variance as these are worth
            worth = self._variances**2 / self._squares
            both = worth + worth[largest]
            within = worth * np.diag(beyond) + worth[largest] * beyond[largest, largest]
            within = np.maximum(within / both, 0.0)
            noise = 8 / both**2 + 2 / (worth * worth[largest])  # variance of within - between
            apart = within * (within - beyond[largest]) + UNMEASURED * noise
            found = np.asarray(np.clip(apart / (within**2 + noise), 0.0, 1.0))
        found[largest] = np.nan
        found[largest] = np.fmax.reduce(found)
        return found


def luck_of(values: FloatArray, sides: Sides) -> FloatArray:
    """(model, record) what models say beyond the mean over those on the same side."""
    total_in = (values * sides.member).sum(axis=0)
    total_out = values.sum(axis=0) - total_in
    means = np.where(sides.member, total_in / sides.n_in, total_out / sides.n_out)
    return np.asarray(values - means)


def record_rates(
    predicted: BoolArray, labels: IntArray, member: BoolArray, groups: Groups
) -> tuple[Rate, Rate]:
    """Benefit and gap of every group, and each record's part in them.

    The benefit is the positive rate on test records; held out, a record adds (its prediction minus
    the rate) over the number held out. The gap is accuracy in training minus in test, less what the
    mix of labels in the two parts makes of it, as in an audit. Within one model a record's part
    depends on its group, its label, its side of the split and its prediction alone: it is looked
    up in a table of those.

    Args:
        predicted: (model, record) whether the positive label is predicted.
        labels: (record,) 0 or 1.
        member: (model, record).
        groups: the division of the records.

    >>> predicted, member = np.array([[True, False, True]]), np.array([[False, False, True]])
    >>> whole = Groups(np.zeros(3, int), 1)
    >>> benefit, gap = record_rates(predicted, np.ones(3, int), member, whole)
    >>> benefit.value, gap.value
    (array([0.5]), array([0.5]))
    """
    inside = groups.codes >= 0
    place = np.where(inside, groups.codes, groups.n)  # the last is for records of no group
    cells, n_models = 4 * (2 * place + labels), len(member)
    values, parts = np.zeros((2, n_models, groups.n + 1)), np.zeros((2, len(labels)))
    for model, (positive, trained) in enumerate(zip(predicted, member, strict=True)):
        cell = cells + (2 * trained + positive)
        counts = np.bincount(cell, minlength=8 * (groups.n + 1)).reshape(-1, 2, 2, 2)
        for k, rate in enumerate((_benefit, _gap)):
            values[k, model], table = rate(counts.astype(np.float64))
            parts[k] += table.ravel()[cell]
    both = zip(values, np.where(inside, parts, 0.0) / n_models, strict=True)
    benefit, gap = (Rate(value[:, :-1], added) for value, added in both)
    return benefit, gap


def _benefit(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) positive rate on test records, and what a record of each cell adds to it."""
    held_out = counts[:, :, 0].sum(axis=LABEL)
    n = held_out.sum(axis=1)
    rate = _quotient(held_out[:, 1], n)
    table = np.zeros(counts.shape)
    own = (np.arange(2) - rate[:, None]) * _freedom(n)[:, None]
    table[:, :, 0] = _quotient(own, n[:, None])[:, None]
    return rate, table


def _gap(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) accuracy difference less the luck of labels, and what each cell adds to it.

    That is U (1/n_train + 1/n_test), where U counts who is right in training beyond what the
    accuracy of their label would give; what a record adds is its derivative by the record's weight.
    """
    n = counts.sum(axis=PREDICTION)
    right = (counts * RIGHT[:, None]).sum(axis=PREDICTION)
    accuracy = np.nan_to_num(_quotient(right.sum(axis=SIDE), n.sum(axis=SIDE)))
    surplus = (right[:, :, 1] - accuracy * n[:, :, 1]).sum(axis=LABEL)
    sizes = n.sum(axis=LABEL)
    over = _quotient(np.ones(2), sizes)
    both = over.sum(axis=1)
    other_side = _quotient(n[:, :, ::-1] * np.array([-1, 1]), n.sum(axis=SIDE)[..., None])
    cell = np.nan_to_num(_quotient(right, n))
    own = (RIGHT[:, None] - cell[..., None]) * _freedom(n)[..., None]
    own += (cell - accuracy[..., None])[..., None]
    own *= (other_side * both[:, None, None])[..., None]
    return surplus * both, own - (surplus[:, None] * over**2)[:, None, :, None]


def _freedom(n: FloatArray) -> FloatArray:
    """Makes good the degree of freedom that a mean takes from ``n`` distances from it."""
    return np.sqrt(n / np.maximum(n - 1, 1))


def _quotient(part: FloatArray, whole: FloatArray) -> FloatArray:
    """NaN where there is nobody."""
    out = np.full(np.broadcast_shapes(part.shape, whole.shape), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out
