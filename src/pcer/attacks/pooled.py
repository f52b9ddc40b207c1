"""One attack over all models of a budget: its value for a group, its error, who is behind it.

Every pooled number is about people like these, so two kinds of luck are in its error. Records: a
record is in all models, so what it adds is summed over them before it is squared. Models: one that
remembers more exposes all of its records, and so few models may have been lucky; what the models'
numbers vary beyond what their records explain is added (clustering both ways, after Cameron,
Gelbach and Miller), never subtracted, and few models count as the few that they are
(``people_variance``). If nothing is remembered no model can remember more: then records are all
there is (``null_error``). What a record adds to the number and to its group's benefit gives the
covariance of both. What records change about each other is in no error; whether two groups share
it is measured (``SharedLuck``).
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
from pcer.statistics import student_weight

AUC_CHANCE = 0.5

FEW_MODELS = 5
"""Fewer models are compared two by two to see how much more one remembers than another; of more,
each is better told from all. Too few, also, to measure what groups share."""

UNMEASURED = 0.4
"""Separation of groups of which models say too little to measure it."""


class PooledAdvantage(NamedTuple):
    """One attack on one group over all models of a budget.

    ``standard_error`` is about people like these. ``null_error`` is what the error would be if
    nothing was remembered: of records alone. ``benefit_covariance`` is the covariance of the value
    with the group's benefit (mean over the models of the positive rate on test records) when
    records are drawn anew; None where the benefit was not given or is not defined. ``separation``
    is that of the group (``SharedLuck``); None where it was not measured.
    """

    value: float
    standard_error: float | None
    n_records: int
    n_excluded: int
    benefit_covariance: float | None = None
    null_error: float | None = None
    separation: float | None = None


class Variation(NamedTuple):
    """The variance of a mean over models as its records make it, as its models do, and as both."""

    of_records: FloatArray | float
    of_models: FloatArray | float
    of_both: FloatArray | float


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
        self,
        ranked: Sequence[Ranked],
        found: Sequence[Influence | None],
        known: BoolArray,
        told: BoolArray | None = None,
    ) -> None:
        """Take in one model.

        Args:
            ranked: for each group, its records in the order of the parts.
            found: for each group, its number; None if there is none.
            known: (record,) whether the record was ranked.
            told: (record,) whether anything could be said of it; as ``known`` if None.
        """
        self._ever |= known
        self._always &= known if told is None else told
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
        of_records = float((parts**2).sum()) * n_records / (n_records - 1)
        values = np.array(self._values[k])
        found = Variation(of_records, *of_values(values, float(np.nansum(self._variances[k]))))
        covariance = _covariance(parts, benefit, k, chosen, n_records)
        return _advantage(value, found, len(values), (n_records, n_excluded), covariance)


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
        self,
        ranked: Sequence[Ranked],
        found: Sequence[Influence | None],
        known: BoolArray,
        told: BoolArray | None = None,
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


def of_values(
    values: FloatArray, variances: FloatArray | float
) -> tuple[FloatArray | float, FloatArray | float]:
    """What models, and what both, make of the variance of a mean over models.

    Args:
        values: (model, ...) one number of each model.
        variances: what its records alone make of each, summed over the models.

    >>> [float(part) for part in of_values(np.array([0.25, 0.75]), 0.125)]
    [0.0625, 0.03125]
    """
    n = len(values)
    if n < 2:
        return 0.0, 0.0
    return values.var(axis=0, ddof=1) / n, variances / n**2


def people_variance(found: Variation, n_models: int) -> FloatArray:
    """Variance of a mean over models, records and models being drawn anew; for normal intervals.

    Records and models, less what both count twice; never below that of records. The models' part
    is estimated from few models, so that it counts by the square of Student's quantile over the
    normal one: intervals of such sums hold at least as often as they say (Banerjee 1960).
    """
    weight = student_weight(n_models - 1) if n_models > 1 else 0.0
    both = found.of_records - found.of_both + weight * found.of_models
    return np.maximum(found.of_records, both)


def _advantage(
    value: float,
    found: Variation,
    n_models: int,
    counts: tuple[int, int],
    covariance: float | None,
) -> PooledAdvantage:
    variances = people_variance(found, n_models), found.of_records
    error, null = (least_error(math.sqrt(one), value, counts[0]) for one in variances)
    return PooledAdvantage(value, error, *counts, covariance, null)


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


def add_auc(
    pool: Pool, score: FloatArray, ranked: Sequence[Ranked], told: BoolArray | None = None
) -> None:
    """Give a pool the AUC of one model: its scores and their ranks within each group.

    Args:
        pool: of one attack.
        score: (record,) NaN where the record is left out; infinite ones are ranked.
        ranked: for each group, the ranks.
        told: (record,) whether the score says anything; where it is not NaN if None.
    """
    found = [None if one.is_onesided else auc_influence(one) for one in ranked]
    pool.add(ranked, found, ~np.isnan(score), told)


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
        values: (model, record) the quantity.
    """

    differences: FloatArray
    added: FloatArray
    sides: Sides
    values: FloatArray | BoolArray


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
    return PairedRecords(np.where(sides.known, differences, np.nan), added, sides, values)


class PairedPool:
    """Collects the paired differences of a few records after the other.

    Args:
        codes: (record,) a group's number, -1 for none.
        n_groups: how many groups.
        n_models: how many models.
    """

    def __init__(self, codes: IntArray, n_groups: int, *, n_models: int) -> None:
        self._codes, self.is_few = codes, n_models < FEW_MODELS
        self._differences = np.full(len(codes), np.nan)
        self._squares, self._moved_squares = np.zeros(len(codes)), np.zeros(len(codes))
        self._inside = np.zeros(len(codes))
        self._by_model, self._moved = np.zeros((2, n_models, n_groups))
        self._contrasts = np.zeros((3, 4, math.comb(n_models, 2) * self.is_few, n_groups))

    def add(self, block: slice, found: PairedRecords) -> FloatArray:
        """Take in the records of a block; their contrasts are given back."""
        self._differences[block] = found.differences
        self._squares[block] = np.einsum("mr,mr->r", found.added, found.added)
        self._moved_squares[block] = found.sides.squares
        self._inside[block] = found.sides.n_in / len(found.added)
        contrasts = self._contrasted(found)
        for k in range(self._by_model.shape[1]):
            chosen = np.flatnonzero(self._codes[block] == k)
            self._by_model[:, k] += found.added[:, chosen].sum(axis=1)
            self._moved[:, k] += found.sides.moved[:, chosen].sum(axis=1)
            self._contrasts[..., k] += contrasts[..., chosen].sum(axis=-1)
        return contrasts

    def _contrasted(self, found: PairedRecords) -> FloatArray:
        """Of few models, see ``contrast_moments``; of more nothing."""
        n_models = len(found.values) if self.is_few else 1
        return contrast_moments(found.values[:n_models], found.sides.member[:n_models])

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
        of_records = float(self._differences[chosen].var(ddof=1)) / n
        found = Variation(of_records, *self._of_models(k, value))
        covariance = _covariance(shares.parts[chosen], benefit, k, chosen, n)
        return _advantage(value, found, len(self._by_model), (n, n_excluded), covariance)

    def _of_models(self, k: int, value: float) -> tuple[FloatArray | float, FloatArray | float]:
        """What models, and what both, make of the variance of the mean difference."""
        if self.is_few:
            return of_few(self._contrasts[..., k], len(self._by_model))
        chosen = self._known(k)
        differences, moved = self._differences[chosen], self._moved_squares[chosen]
        of_models = self._by_model[:, k] - value * self._moved[:, k]
        of_both = self._squares[chosen] + (value**2 - 2 * value * differences) * moved
        weight = own_weight(len(self._by_model), self._inside[chosen].mean()) / len(chosen) ** 2
        return float(weight * (of_models**2).sum()), float(weight * of_both.sum())


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

    Args:
        codes: (record,) a group's number, -1 for none.
        n_groups: how many groups.
        n_models: how many models.
    """

    def __init__(self, codes: IntArray, n_groups: int, *, n_models: int) -> None:
        self._codes, self._n_models = codes, n_models
        self._products = np.zeros((n_groups, n_models, n_models))
        self._variances, self._squares = np.zeros((2, n_groups))

    def add(self, block: slice, values: FloatArray, sides: Sides) -> None:
        """Take in the records of a block; ``values`` are (model, record)."""
        total_in = (values * sides.member).sum(axis=0)
        total_out = values.sum(axis=0) - total_in
        luck = values - np.where(sides.member, total_in / sides.n_in, total_out / sides.n_out)
        for k in range(len(self._products)):
            own = luck[:, self._codes[block] == k]
            variances = np.einsum("mr,mr->r", own, own)
            self._products[k] += own @ own.T
            self._variances[k] += variances.sum()
            self._squares[k] += (variances**2).sum()

    def separation(self) -> FloatArray:
        """(group,) from 0, luck is shared, to 1, it stays within groups; NaN if not measured.

        Of every group beside the largest; the largest has the highest of those. What cannot be
        told from sampling error counts as ``UNMEASURED``: the mean of the share given what was
        found, if before that it had this mean and a standard deviation of 1.
        """
        n = np.bincount(self._codes[self._codes >= 0], minlength=len(self._products))
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


class PairedInfluences(NamedTuple):
    """What every record and every model adds to the paired differences; arrays over the record.

    Attributes:
        differences: NaN for a record that was always in, or never.
        squares: sum over the models of ``added`` squared.
        moved_squares: the same of ``moved``.
        inside: share of the models that trained on the record.
        added: (model, record) see ``PairedRecords``.
        moved: (model, record) see ``Sides``.
        contrasts: (moment, kind, two models, record) see ``contrast_moments``; of few models.
    """

    differences: FloatArray
    squares: FloatArray
    moved_squares: FloatArray
    inside: FloatArray
    added: npt.NDArray[np.float32]
    moved: npt.NDArray[np.float32]
    contrasts: FloatArray


class KeptPairedPool(PairedPool):
    """A pool of paired differences that keeps what every model adds to every record's."""

    def __init__(self, codes: IntArray, n_groups: int, *, n_models: int) -> None:
        super().__init__(codes, n_groups, n_models=n_models)
        self._kept = np.zeros((2, n_models, len(codes)), dtype=np.float32)
        self._kept_contrasts = np.zeros((*self._contrasts.shape[:-1], len(codes)))

    def add(self, block: slice, found: PairedRecords) -> FloatArray:
        """Take in the records of a block."""
        contrasts = super().add(block, found)
        self._kept[:, :, block] = found.added, found.sides.moved
        self._kept_contrasts[..., block] = contrasts
        return contrasts

    def influences(self) -> PairedInfluences:
        """Of all records of the group."""
        return PairedInfluences(
            np.where(self._codes >= 0, self._differences, np.nan),
            self._squares,
            self._moved_squares,
            self._inside,
            self._kept[0],
            self._kept[1],
            self._kept_contrasts,
        )


def contrast_moments(values: FloatArray | BoolArray, member: BoolArray) -> FloatArray:
    """Of every two models, what the first says of a record less what the second says.

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

    Args:
        contrasts: (moment, kind, two models, ...) sums over records, see ``contrast_moments``.
        n_models: how many models.
    """
    n, total, squares = contrasts
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
    apart = np.minimum(n[0], n[3]) >= 2
    told = apart | (np.minimum(n[1], n[2]) >= 2)
    contrast = np.where(apart, mean[3] - mean[0], mean[1] + mean[2])
    noise = np.where(apart, variance[3] + variance[0], variance[1] + variance[2])
    both = np.where(told, [contrast**2, noise], 0.0).mean(axis=1) / (2 * n_models)
    return both[0], both[1]


def own_weight(n_models: int, inside: FloatArray) -> FloatArray:
    """Makes good that a model's own number is in the means that it is measured from.

    A model that adds x to all its records and nothing to the others then stands out by
    x (1 - (1 + share trained on)/models), and by as many degrees of freedom less one.
    """
    return np.asarray(n_models / (n_models - 1) / (1 - (1 + inside) / n_models) ** 2)


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
