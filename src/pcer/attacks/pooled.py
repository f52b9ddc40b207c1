"""One cost over all models of a setting: its value for a group, its error, who is behind it.

Every pooled number is about people like these, so two kinds of luck are in its error. Records: a
record is in all models, so what it adds is summed over them before it is squared. Models: one that
remembers more exposes all of its records, and so few models may have been lucky; what the models'
numbers vary beyond what their records explain is added (clustering both ways, after Cameron,
Gelbach and Miller), never subtracted, and few models count as the few that they are
(``people_variance``). If nothing is remembered no model can remember more: then records are all
there is (``null_error``). What a record adds to the number and to its group's benefit gives the
covariance of both. What records change about each other is in no error; whether two groups share
it is measured (``separation``).

Groups that a coin flip made are not attacked one by one: every number is a sum over a group's
records, or nearly so, and sums over many groups are one product (``Divisions``). Paired costs are
exactly those of the division alone. Attacks that rank records within a model are taken to first
order: what each record adds to everybody's number, once, summed over the group. Groups that a coin
flip made hold the same kind of people, so that ranks within a group and among everybody differ by
as little as 1 over its size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.ranking import Ranked, rank
from pcer.attacks.single import Advantage, Attack, auc_advantage
from pcer.attacks.sums import Divisions, Groups
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient
from pcer.release.panel import PooledExposures
from pcer.statistics import student_weight

# Fewer models are compared two by two to see how much more one remembers than another; of more,
# each is better told from all. Too few, also, to measure what groups share.
FEW_MODELS = 5

UNMEASURED = 0.4  # separation of groups of which models say too little to measure it

# Axes of counts after the group's: label 0 and 1, held out and trained on, negative, positive.
LABEL, SIDE, PREDICTION = 1, 2, 3

# By label and prediction, whether the prediction is right.
RIGHT = np.array([[True, False], [False, True]])

Sets = Groups | Divisions  # groups of one division, or those of many coin flips one after the other

# (set,) what models, and what both, make of variances; how many models tell them.
Variances = tuple[FloatArray, FloatArray, IntArray | int]


class Rate(NamedTuple):
    """(model, group) rates, NaN where nobody tells one; each record's distance from the mean."""

    by_model: FloatArray
    own: FloatArray

    @property
    def value(self) -> FloatArray:
        """(group,) mean over the models."""
        return np.asarray(self.by_model.mean(axis=0))


NO_RATE = Rate(np.full((1, 1), np.nan), np.zeros(1))  # a benefit of which no covariance is known


class Pool(ABC):
    """Collects one cost over all models of a setting."""

    is_scored: BoolArray
    is_complete: BoolArray

    @abstractmethod
    def numbers(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """(group,) values, NaN where no model tells one; (record,) distances from them."""

    @abstractmethod
    def _of_models(self, sets: Sets, n: FloatArray, value: FloatArray) -> Variances:
        """Variances of values of sets with so many records, from the luck of models."""

    def n_scored(self, groups: Groups) -> FloatArray:
        """(group,) records of which some model says something."""
        return np.asarray(groups.sums(self.is_scored[None])[0])

    def n_excluded(self, groups: Groups) -> FloatArray:
        """(group,) records of which some model could not tell anything."""
        return np.asarray(groups.sums(~self.is_complete[None])[0])

    def by_record(self, groups: Groups) -> FloatArray:
        """(record,) numbers with the groups' values as means."""
        value, own = self.numbers(groups)
        return groups.by_record(
            value, own * quotient(groups.sizes, self.n_scored(groups))[groups.codes]
        )

    def exposures(self, sets: Sets, benefit: Rate = NO_RATE) -> PooledExposures:
        """The cost of every set, with errors for normal intervals; none of a single record.

        No error is below that of one record at chance. ``benefit`` is that of ``sets.whole``.
        """
        (base, own), is_known = self.numbers(sets.whole), self.is_scored & sets.inside
        moments = np.stack([is_known, own, own**2, own * benefit.own, is_known * benefit.own])
        n, total, squares, products, of_benefit = sets.sums(moments)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / n
            value = base if sets is sets.whole else base + mean
            has_error = (n > 1) & ~np.isnan(value)
            of_records = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
            covariance = (products - mean * of_benefit) / sets.sizes / (n - 1)
            covariance = np.where(np.isnan(benefit.value), np.nan, covariance)
            people = people_variance(of_records, *self._of_models(sets, n, value))
            errors = (np.maximum(np.sqrt(x), np.abs(value) / n) for x in (people, of_records))
        error, null, both = (np.where(has_error, x, np.nan) for x in (*errors, covariance))
        beside = {"null_error": null, "benefit_covariance": both, "n_records": n}
        return PooledExposures(value=value, standard_error=error, **beside)


def people_variance(
    of_records: FloatArray, of_models: FloatArray, of_both: FloatArray, n_models: IntArray | int
) -> FloatArray:
    """Variance by records and models, less what both count twice; never below that of records.

    The models' part is estimated from few models, so that it counts by the square of Student's
    quantile over the normal one: intervals of such sums hold at least as often as they say
    (Banerjee 1960).
    """
    several = np.atleast_1d(n_models)
    weight = np.array([student_weight(int(m) - 1) if m > 1 else 0.0 for m in several])
    return np.maximum(of_records, of_records - of_both + weight * of_models)


class RankedPool(Pool):
    """An attack that ranks records within each model, collected one model after the other.

    ``whole`` are everybody, or all but some, as one group: what every record adds there in every
    model is kept, for coin flips.
    """

    def __init__(
        self, divisions: Sequence[Groups], n_models: int, whole: Sequence[Groups] = ()
    ) -> None:
        n = len(divisions[0].codes)
        # by division, value and variance by model and group; what records add, over all models
        self.found = {sets: np.full((2, n_models, sets.n), np.nan) for sets in (*divisions, *whole)}
        self._parts: dict[Groups, npt.NDArray[Any]] = {sets: np.zeros((1, n)) for sets in divisions}
        self._parts |= {sets: np.zeros((n_models, n), dtype=np.float32) for sets in whole}
        self.is_scored, self.is_complete = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)

    @property
    def has_values(self) -> bool:
        """Whether any model tells anything of any group."""
        return any(bool(np.isfinite(found).any()) for found in self.found.values())

    def add(
        self, model: int, ranked: dict[Groups, list[Ranked]], attack: Attack, score: FloatArray
    ) -> dict[Groups, list[Advantage | None]]:
        """Take in one model's ranks; what the attack finds in each group."""
        is_scored = ~np.isnan(score)
        self.is_scored |= is_scored
        self.is_complete &= is_scored
        found = {groups: [attack(ranks, score) for ranks in own] for groups, own in ranked.items()}
        for groups, advantages in found.items():
            parts = self._parts[groups][model % len(self._parts[groups])]
            for k, advantage in enumerate(advantages):
                if advantage is not None and advantage.parts is not None:
                    self.found[groups][:, model, k] = advantage.value, advantage.variance
                    parts[ranked[groups][k].order] += advantage.parts
        return found

    def numbers(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """Means over the models that tell a value."""
        values, parts = self.found[groups][0], self._parts[groups].sum(axis=0, dtype=np.float64)
        n_models = np.isfinite(values).sum(axis=0)
        scale = self.n_scored(groups) / np.maximum(n_models, 1)
        return quotient(np.nansum(values, axis=0), n_models), scale[groups.codes] * parts

    def _of_models(self, sets: Sets, n: FloatArray, value: FloatArray) -> Variances:
        by_model, variances = self.found[sets.whole]
        n_models, share = np.isfinite(by_model).sum(axis=0), self.n_scored(sets.whole) / n
        if isinstance(sets, Divisions):
            by_model = by_model + sets.sums(self._parts[sets.whole]) * share
        spread = (by_model - np.nansum(by_model, axis=0) / n_models) ** 2
        of_models = np.nansum(spread, axis=0) / (n_models - 1) / n_models
        of_both = np.nansum(variances, axis=0) * share / n_models**2
        both = (np.where(n_models > 1, x, 0.0) for x in (of_models, of_both))
        return *both, n_models


def clustered_auc(scores: FloatArray, member: BoolArray) -> PooledExposures:
    """AUC minus 1/2 of one group, averaged over models, with an error clustered by record."""
    everybody = Groups(np.zeros(scores.shape[1], dtype=np.int64), 1)
    pool = RankedPool([everybody], len(scores))
    for model, (score, inside) in enumerate(zip(scores, member, strict=True)):
        pool.add(model, rank(score, inside, [everybody]), auc_advantage, score)
    return pool.exposures(everybody)


class Sides:
    """Which models trained on each record and which did not, for a few records."""

    def __init__(self, member: BoolArray) -> None:
        n_in = member.sum(axis=0)
        n_out = len(member) - n_in
        self.member, self.are_both = member, (n_in > 0) & (n_out > 0)
        self.n_in, self.n_out = np.maximum(n_in, 1), np.maximum(n_out, 1)
        self.weights = np.where(member, self.are_both / self.n_in, self.are_both / -self.n_out)
        self.moved = self.weights * (member - n_in / len(member))


class PairedPool(Pool):
    """A quantity of records, each beside itself in the models without it, a few at a time.

    What a model adds to a difference is measured from the record's mean over all models, so that
    what it says alike of all records does not count. Always in, or never, is no difference.
    """

    def __init__(self, n_models: int, n_records: int) -> None:
        n_pairs = math.comb(n_models, 2) if n_models < FEW_MODELS else 0
        self.is_scored = self.is_complete = np.zeros(n_records, dtype=bool)
        self._differences = np.zeros(n_records)
        # squares of what models add, and move; the share trained on
        self._squares = np.zeros((3, n_records))
        self._models = np.empty((2, n_models, n_records))  # what each adds, and moves
        self._contrasts = np.zeros((12 * n_pairs, n_records))

    def add(self, block: slice, values: FloatArray | BoolArray, sides: Sides) -> None:
        """Take in some records; ``values`` are (model, record)."""
        total_in = (values * sides.member).sum(axis=0)
        total_out = (values * ~sides.member).sum(axis=0)
        added, self._models[1, :, block] = self._models[0, :, block], sides.moved
        np.subtract(values, (total_in + total_out) / len(values), out=added)
        added *= sides.weights
        squares = (np.einsum("mr,mr->r", x, x) for x in (added, sides.moved))
        self.is_scored[block] = sides.are_both
        self._differences[block] = total_in / sides.n_in - total_out / sides.n_out
        self._squares[:, block] = *squares, sides.are_both * sides.n_in / len(values)
        if len(self._contrasts):
            contrasts = contrast_moments(values, sides.member)
            self._contrasts[:, block] = contrasts.reshape(-1, len(total_in))

    def numbers(self, groups: Groups) -> tuple[FloatArray, FloatArray]:
        """Mean differences."""
        is_known = self.is_scored & groups.inside
        n, total = groups.sums(np.stack([is_known, is_known * self._differences]))
        value = quotient(total, n)
        return value, np.where(is_known, self._differences - value[groups.codes], 0.0)

    def _of_models(self, sets: Sets, n: FloatArray, value: FloatArray) -> Variances:
        """Variances of mean differences, from the luck of models.

        A model's own number is in the means that it is measured from: one that adds x to all its
        records and nothing to the others stands out by x (1 - (1 + share trained on)/models), and
        by as many degrees of freedom less one. That is made good.
        """
        n_models = self._models.shape[1]
        if len(self._contrasts):
            contrasts = sets.sums(self._contrasts).reshape(3, 4, -1, len(n))
            return *of_few(contrasts, n_models), n_models
        base, own = self.numbers(sets.whole)
        rows = np.stack([*self._squares, self._squares[1] * own])
        kind = np.float32 if isinstance(sets, Divisions) else np.float64
        sums = sets.sums(rows, *self._models.astype(kind, copy=False))
        squares, moved_squares, share_in, moved_distances = sums[:4]
        added, moved = np.split(sums[4:], 2)
        moved_differences = moved_distances + base * moved_squares
        weight = n_models / (n_models - 1) / (1 - (1 + share_in / n) / n_models) ** 2 / n**2
        of_both = squares + value**2 * moved_squares - 2 * value * moved_differences
        return weight * ((added - value * moved) ** 2).sum(axis=0), weight * of_both, n_models


def contrast_moments(values: FloatArray | BoolArray, member: BoolArray) -> FloatArray:
    """(moment, kind, two models, record) numbers, sums and squares of what two models say apart.

    A record's kind is 0 if neither trained on it, 1 or 2 if the first or the second did, 3 if both.
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
    is_measured = apart | (np.minimum(n[1], n[2]) >= 2)
    contrast = np.where(apart, mean[3] - mean[0], mean[1] + mean[2])
    noise = np.where(apart, variance[3] + variance[0], variance[1] + variance[2])
    both = np.where(is_measured, [contrast**2, noise], 0.0).mean(axis=1) / (2 * n_models)
    return both[0], both[1]


def separation(luck: FloatArray, groups: Groups) -> FloatArray:
    """(group,) from 0, luck is shared, to 1, it stays within groups; NaN if not measured.

    A record changes what models say of its neighbours. That moves all exposures of one group alike,
    and cancels in a difference of groups only as far as the groups share it: wholly where they
    are mixed or the model is one for all, not at all where they live apart and the model is local.
    Two records that share luck (``luck_of``, (model, record)) go up and down together, so the mean
    squared covariance of records, beyond that of independent ones, is compared within and between
    groups; over all pairs of records, a few models are enough. Every group is put beside the
    largest, which has the highest of those. What cannot be told from sampling error counts as
    ``UNMEASURED``: the mean of the share given what was found, with a prior spread of 1.
    """
    n_models = len(luck)
    if n_models < FEW_MODELS or groups.n < 2:
        return np.full(groups.n, np.nan)
    members = [luck[:, groups.codes == k] for k in range(groups.n)]
    products = np.array([own @ own.T for own in members])
    of_records = np.einsum("mr,mr->r", luck, luck)
    variances, squares = groups.sums(np.stack([of_records, of_records**2]))
    largest, same = int(np.argmax(groups.sizes)), np.diag(squares)  # no pairs of one record
    pairs = np.einsum("gst,hst->gh", products, products) - same
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = pairs / ((np.outer(variances, variances) - same) / (n_models - 1)) - 1
        worth = variances**2 / squares  # as many records of equal variance as these are
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
    depends on its group, its label, its side of the split and its prediction alone.

    >>> predicted, member = np.array([[True, False, True]]), np.array([[False, False, True]])
    >>> whole = Groups(np.zeros(3, int), 1)
    >>> benefit, gap = record_rates(predicted, np.ones(3, int), member, whole)
    >>> benefit.value, gap.value
    (array([0.5]), array([0.5]))
    """
    cells = 4 * (2 * groups.places.astype(np.int64) + labels)
    values, parts = np.zeros((2, len(member), groups.n + 1)), np.zeros((2, len(labels)))
    for model, (positive, trained) in enumerate(zip(predicted, member, strict=True)):
        cell = cells + (2 * trained + positive)
        counts = np.bincount(cell, minlength=8 * (groups.n + 1)).reshape(-1, 2, 2, 2)
        for k, rate in enumerate((_benefit, _gap)):
            values[k, model], table = rate(counts.astype(np.float64))
            parts[k] += table.ravel()[cell]
    own = np.where(groups.inside, parts * (groups.sizes[groups.codes] / len(member)), 0.0)
    benefit, gap = (Rate(value[:, :-1], part) for value, part in zip(values, own, strict=True))
    return benefit, gap


def _benefit(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) positive rate on test records, and what a record of each cell adds to it."""
    held_out = counts[:, :, 0].sum(axis=LABEL)
    n = held_out.sum(axis=1)
    rate = quotient(held_out[:, 1], n)
    table = np.zeros(counts.shape)
    own = (np.arange(2) - rate[:, None]) * _freedom(n)[:, None]
    table[:, :, 0] = quotient(own, n[:, None])[:, None]
    return rate, table


def _gap(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) accuracy difference less the luck of labels, and what each cell adds to it.

    That is U (1/n_train + 1/n_test), where U counts who is right in training beyond what the
    accuracy of their label would give; what a record adds is its derivative by the record's weight.
    """
    n = counts.sum(axis=PREDICTION)
    right = (counts * RIGHT[:, None]).sum(axis=PREDICTION)
    accuracy = np.nan_to_num(quotient(right.sum(axis=SIDE), n.sum(axis=SIDE)))
    surplus = (right[:, :, 1] - accuracy * n[:, :, 1]).sum(axis=LABEL)
    sizes = n.sum(axis=LABEL)
    over = quotient(np.ones(2), sizes)
    both = over.sum(axis=1)
    other_side = quotient(n[:, :, ::-1] * np.array([-1, 1]), n.sum(axis=SIDE)[..., None])
    cell = np.nan_to_num(quotient(right, n))
    own = (RIGHT[:, None] - cell[..., None]) * _freedom(n)[..., None]
    own += (cell - accuracy[..., None])[..., None]
    own *= (other_side * both[:, None, None])[..., None]
    return surplus * both, own - (surplus[:, None] * over**2)[:, None, :, None]


def _freedom(n: FloatArray) -> FloatArray:
    """Makes good the degree of freedom that a mean takes from ``n`` distances from it."""
    return np.sqrt(n / np.maximum(n - 1, 1))
