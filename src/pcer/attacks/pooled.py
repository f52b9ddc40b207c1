"""One attack over all models of a budget: its value for a group, its error, who is behind it.

Every pooled number is about people like these, so two kinds of luck are in its error. Records: a
record is in all models, so what it adds is summed over them before it is squared. Models: one that
remembers more exposes all of its records, and so few models may have been lucky; what the models'
numbers vary beyond what their records explain is added (clustering both ways, after Cameron,
Gelbach and Miller), never subtracted. What a record adds to the number and to its group's benefit
gives the covariance of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.ranking import Ranked, Ranker
from pcer.attacks.single import Influence, auc_influence, least_error
from pcer.metrics import BoolArray, FloatArray, IntArray

AUC_CHANCE = 0.5


class PooledAdvantage(NamedTuple):
    """One attack on one group over all models of a budget.

    ``benefit_covariance`` is the covariance of the value with the group's benefit (mean over the
    models of the positive rate on test records) when records are drawn anew; None where the
    benefit was not given or is not defined.
    """

    value: float
    standard_error: float | None
    n_records: int
    n_excluded: int
    benefit_covariance: float | None = None


class Shares(NamedTuple):
    """A number of every group, and what each record adds to that of its own.

    Attributes:
        value: (group,) NaN where it is not defined.
        parts: (record,) they sum to 0 over a group, and their squares to the variance of its
            value; 0 for records of no group.
    """

    value: FloatArray
    parts: FloatArray

    def by_record(self, codes: IntArray) -> FloatArray:
        """(record,) numbers with the groups' values as means; NaN for records of no group.

        Their standard deviation over the root of the group's size is the value's error as far
        as it comes from records, and so with covariances: group means of such numbers can stand
        for what an audit sees.

        >>> Shares(np.array([0.3]), np.array([0.1, -0.1])).by_record(np.array([0, 0]))
        array([0.5, 0.1])
        """
        sizes = np.bincount(codes[codes >= 0], minlength=len(self.value))
        numbers = self.value[codes] + sizes[codes] * self.parts
        return np.where(codes >= 0, numbers, np.nan)


class Pool:
    """Collects one model's numbers after the other, group by group.

    Args:
        codes: (record,) a group's number, -1 for none.
        n_groups: how many groups.
        chance: what the number is where nothing can be told; taken off at the end.
    """

    def __init__(self, codes: IntArray, n_groups: int, *, chance: float = 0.0) -> None:
        self._codes, self._chance = codes, chance
        self._parts = np.zeros(len(codes))
        self._values: list[list[float]] = [[] for _ in range(n_groups)]
        self._variances: list[list[float]] = [[] for _ in range(n_groups)]
        self._ever = np.zeros(len(codes), dtype=bool)
        self._always = np.ones(len(codes), dtype=bool)

    def add(
        self, ranked: Sequence[Ranked], found: Sequence[Influence | None], known: BoolArray
    ) -> None:
        """Take in one model.

        Args:
            ranked: for each group, its records in the order of the parts.
            found: for each group, its number; None if there is none.
            known: (record,) whether the record was scored.
        """
        self._ever |= known
        self._always &= known
        parts = np.zeros(len(known))
        for k, (order, one) in enumerate(zip(ranked, found, strict=True)):
            if one is not None:
                self._values[k].append(one.value)
                self._variances[k].append(one.variance)
                parts[order.order] = one.parts
        self._parts += parts

    def shares(self) -> Shares:
        """Every group's number, and what each record adds to it."""
        values = [math.fsum(one) / len(one) if one else math.nan for one in self._values]
        n_models = np.array([max(len(one), 1) for one in self._values] + [1])
        return Shares(np.array(values) - self._chance, self._parts / n_models[self._codes])

    def results(self, benefit: Shares | None = None) -> list[PooledAdvantage]:
        """What was found for every group; NaN where no model had both sides."""
        shares = self.shares()
        return [self._result(k, shares, benefit) for k in range(len(self._values))]

    def _result(self, k: int, shares: Shares, benefit: Shares | None) -> PooledAdvantage:
        chosen, value = self._codes == k, float(shares.value[k])
        n_records = int((self._ever & chosen).sum())
        n_excluded = int((~self._always & chosen).sum())
        if math.isnan(value) or n_records < 2:
            return PooledAdvantage(value, None, n_records, n_excluded)
        parts = shares.parts[chosen]
        variance = float((parts**2).sum()) * n_records / (n_records - 1)
        variance += model_luck(self._values[k], self._variances[k])
        error = least_error(math.sqrt(variance), value, n_records)
        covariance = _covariance(parts, benefit, k, chosen, n_records)
        return PooledAdvantage(value, error, n_records, n_excluded, covariance)


class Influences(NamedTuple):
    """What every record adds to everybody's number, model by model.

    Attributes:
        values: (model,) everybody's number, chance taken off.
        variances: (model,) what records alone make of each.
        parts: (model, record) see ``Influence``.
        known: (record,) whether any model scored it.
    """

    values: FloatArray
    variances: FloatArray
    parts: npt.NDArray[np.float32]
    known: BoolArray


class KeptPool(Pool):
    """A pool of one group, everybody, that keeps what every record adds in every model."""

    def __init__(self, codes: IntArray, n_groups: int, *, chance: float = 0.0) -> None:
        super().__init__(codes, n_groups, chance=chance)
        self._by_model: list[npt.NDArray[np.float32]] = []

    def add(
        self, ranked: Sequence[Ranked], found: Sequence[Influence | None], known: BoolArray
    ) -> None:
        """Take in one model."""
        self._ever |= known
        if found[0] is not None:
            self._values[0].append(found[0].value)
            self._variances[0].append(found[0].variance)
            parts = np.zeros(len(known), dtype=np.float32)
            parts[ranked[0].order] = found[0].parts
            self._by_model.append(parts)

    def influences(self) -> Influences:
        """Of the models that had both sides."""
        return Influences(
            values=np.array(self._values[0]) - self._chance,
            variances=np.array(self._variances[0]),
            parts=np.array(self._by_model).reshape(-1, len(self._codes)),
            known=self._ever & (self._codes >= 0),
        )


def model_luck(values: Sequence[float], variances: Sequence[float]) -> float:
    """Variance of a mean over models beyond what the models' records explain; at least 0.

    Args:
        values: one number of each model.
        variances: what its records alone make of each; NaN counts as nothing.

    >>> model_luck([0.25, 0.75], [0.0625, 0.0625])
    0.03125
    """
    n = len(values)
    if n < 2:
        return 0.0
    beyond = float(np.var(values, ddof=1)) - float(np.nansum(variances)) / n
    return max(0.0, beyond / n)


def clustered_auc(scores: FloatArray, member: BoolArray) -> PooledAdvantage:
    """AUC minus 1/2 averaged over models, with an error that knows that models share records.

    A record's parts are summed over the models before they are squared: its scores in different
    models depend on each other, because each is measured against the others, and treating the
    models as independent gives an error that is much too small.

    Args:
        scores: (model, record); NaN where a record could not be scored for that model.
        member: (model, record).
    """
    whole = np.zeros(scores.shape[1], dtype=np.int64)
    pool, ranker = Pool(whole, 1, chance=AUC_CHANCE), Ranker([whole], [1])
    for score, inside in zip(scores, member, strict=True):
        add_auc(pool, score, ranker.rank(score, inside)[0])
    return pool.results()[0]


def add_auc(pool: Pool, score: FloatArray, ranked: Sequence[Ranked]) -> None:
    """Give a pool the AUC of one model: its scores and their ranks within each group."""
    found = [None if one.is_onesided else auc_influence(one) for one in ranked]
    pool.add(ranked, found, np.isfinite(score))


class Sides:
    """Which models trained on each record and which did not, for a few records.

    Args:
        member: (model, record).

    Attributes:
        weights: (model, record) how values are weighed in a difference; 0 where there is none.
        moved: (model, record) what each model would add to a difference of 1.
        squares: (record,) sum of the squares of those.
    """

    def __init__(self, member: BoolArray) -> None:
        n_in = member.sum(axis=0)
        n_out = len(member) - n_in
        self.member, self.known = member, (n_in > 0) & (n_out > 0)
        self.n_in, self.n_out = np.maximum(n_in, 1), np.maximum(n_out, 1)
        self.weights = np.where(member, self.known / self.n_in, self.known / -self.n_out)
        self.moved = self.weights * (member - n_in / len(member))
        self.squares = np.einsum("mr,mr->r", self.moved, self.moved)


class PairedRecords(NamedTuple):
    """One quantity of a few records, each beside itself in the models without it.

    Attributes:
        differences: (record,) mean over the models that trained on it minus the mean over the
            others; NaN for a record that was always in, or never.
        added: (model, record) what each model adds to that, measured from the record's mean over
            all models, so that what a model says alike of all records does not count.
        sides: which models trained on the records.
    """

    differences: FloatArray
    added: FloatArray
    sides: Sides


def paired(values: FloatArray | BoolArray, sides: Sides) -> PairedRecords:
    """Compare every record with itself.

    Args:
        values: (model, record), such as correctness or the probability of the true label.
        sides: of the same models and records.

    >>> always = Sides(np.array([[True, True], [False, True]]))
    >>> paired(np.array([[1.0, 1.0], [0.0, 1.0]]), always).differences
    array([ 1., nan])
    """
    total_in = (values * sides.member).sum(axis=0)
    total_out = (values * ~sides.member).sum(axis=0)
    differences = total_in / sides.n_in - total_out / sides.n_out
    added = values - (total_in + total_out) / len(values)
    added *= sides.weights
    return PairedRecords(np.where(sides.known, differences, np.nan), added, sides)


class PairedPool:
    """Collects the paired differences of a few records after the other.

    Args:
        codes: (record,) a group's number, -1 for none.
        n_groups: how many groups.
        n_models: how many models.
    """

    def __init__(self, codes: IntArray, n_groups: int, *, n_models: int) -> None:
        self._codes = codes
        self._differences = np.full(len(codes), np.nan)
        self._squares, self._moved_squares = np.zeros(len(codes)), np.zeros(len(codes))
        self._inside = np.zeros(len(codes))
        self._by_model, self._moved = np.zeros((2, n_models, n_groups))

    def add(self, block: slice, found: PairedRecords) -> None:
        """Take in the records of a block."""
        self._differences[block] = found.differences
        self._squares[block] = np.einsum("mr,mr->r", found.added, found.added)
        self._moved_squares[block] = found.sides.squares
        self._inside[block] = found.sides.n_in / len(found.added)
        for k in range(self._by_model.shape[1]):
            chosen = np.flatnonzero(self._codes[block] == k)
            self._by_model[:, k] += found.added[:, chosen].sum(axis=1)
            self._moved[:, k] += found.sides.moved[:, chosen].sum(axis=1)

    def shares(self) -> Shares:
        """Every group's mean difference, and what each record adds to it."""
        values = np.full(self._by_model.shape[1], np.nan)
        parts = np.zeros(len(self._codes))
        for k in range(len(values)):
            chosen = self._known(k)
            if chosen.size:
                found = self._differences[chosen]
                values[k] = found.mean()
                parts[chosen] = (found - values[k]) / len(found)
        return Shares(values, parts)

    def results(self, benefit: Shares | None = None) -> list[PooledAdvantage]:
        """The paired cost of every group."""
        shares = self.shares()
        return [self._result(k, shares, benefit) for k in range(len(shares.value))]

    def _known(self, k: int) -> IntArray:
        return np.flatnonzero((self._codes == k) & np.isfinite(self._differences))

    def _result(self, k: int, shares: Shares, benefit: Shares | None) -> PooledAdvantage:
        chosen, value = self._known(k), float(shares.value[k])
        n = len(chosen)
        n_excluded = int((self._codes == k).sum()) - n
        if n < 2:
            return PooledAdvantage(value, None, n, n_excluded)
        error = float(self._differences[chosen].std(ddof=1)) / math.sqrt(n)
        error = math.hypot(error, math.sqrt(self._luck(k, value)) / n)
        covariance = _covariance(shares.parts[chosen], benefit, k, chosen, n)
        return PooledAdvantage(value, least_error(error, value, n), n, n_excluded, covariance)

    def _luck(self, k: int, value: float) -> float:
        """What models add to the sum of differences beyond what its records explain."""
        chosen = self._known(k)
        differences, moved = self._differences[chosen], self._moved_squares[chosen]
        of_models = self._by_model[:, k] - value * self._moved[:, k]
        of_records = self._squares[chosen] + (value**2 - 2 * value * differences) * moved
        beyond = float((of_models**2).sum()) - float(of_records.sum())
        share = self._inside[chosen].mean()
        return max(0.0, beyond) * float(own_weight(len(self._by_model), share))


class PairedInfluences(NamedTuple):
    """What every record and every model adds to the paired differences; arrays over the record.

    Attributes:
        differences: NaN for a record that was always in, or never.
        squares: sum over the models of ``added`` squared.
        moved_squares: the same of ``moved``.
        inside: share of the models that trained on the record.
        added: (model, record) see ``PairedRecords``.
        moved: (model, record) see ``Sides``.
    """

    differences: FloatArray
    squares: FloatArray
    moved_squares: FloatArray
    inside: FloatArray
    added: npt.NDArray[np.float32]
    moved: npt.NDArray[np.float32]


class KeptPairedPool(PairedPool):
    """A pool of paired differences that keeps what every model adds to every record's."""

    def __init__(self, codes: IntArray, n_groups: int, *, n_models: int) -> None:
        super().__init__(codes, n_groups, n_models=n_models)
        self._kept = np.zeros((2, n_models, len(codes)), dtype=np.float32)

    def add(self, block: slice, found: PairedRecords) -> None:
        """Take in the records of a block."""
        super().add(block, found)
        self._kept[:, :, block] = found.added, found.sides.moved

    def influences(self) -> PairedInfluences:
        """Of all records of the group."""
        return PairedInfluences(
            np.where(self._codes >= 0, self._differences, np.nan),
            self._squares,
            self._moved_squares,
            self._inside,
            *self._kept,
        )


def own_weight(n_models: int, inside: FloatArray) -> FloatArray:
    """Makes good that a model's own number is in the means that it is measured from.

    A model that adds x to all its records and nothing to the others then stands out by
    x (1 - (1 + share trained on)/models), and by as many degrees of freedom less one.
    """
    return np.asarray(n_models / (n_models - 1) / (1 - (1 + inside) / n_models) ** 2)


def paired_cost(values: FloatArray, member: BoolArray) -> PooledAdvantage:
    """Mean of the paired differences of a group.

    If nothing was memorised every record's difference has mean exactly 0, because its splits
    were drawn without looking: the estimate is centred at 0 with no correction.

    Args:
        values: (model, record).
        member: (model, record).
    """
    n_models, n_records = values.shape
    pool = PairedPool(np.zeros(n_records, dtype=np.int64), 1, n_models=n_models)
    pool.add(slice(None), paired(values, Sides(member)))
    return pool.results()[0]


def _covariance(
    parts: FloatArray,
    benefit: Shares | None,
    k: int,
    chosen: BoolArray | IntArray,
    n_records: int,
) -> float | None:
    if benefit is None or math.isnan(benefit.value[k]):
        return None
    return float((parts * benefit.parts[chosen]).sum()) * n_records / (n_records - 1)
