"""Many divisions of the same records into groups: what an audit would see of each of them.

Two hundred attributes drawn by coin flip cannot each be attacked anew, but every number that an
audit starts from is a sum over a group's records, or nearly so, and sums over many groups are one
product. Counts and paired costs are exactly those of the division alone. Attacks that rank records
within a model (AUC, threshold, LiRA, RMIA) are taken to first order: what each record adds to
everybody's number, once, summed over the group. Groups that a coin flip made hold the same kind of
people, so that ranks within a group and among everybody differ by as little as 1 over its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.attacks.groups import KeptParts, Views
from pcer.attacks.moments import ExactSums
from pcer.attacks.pooled import (
    Influences,
    PairedInfluences,
    Variation,
    of_few,
    of_values,
    own_weight,
    people_variance,
)
from pcer.metrics import BoolArray, Counts, FloatArray, IntArray, accuracy, positive_rate
from pcer.release.panel import Panel, PooledExposures

BLOCK_MODELS = 16
"""Models whose predictions are counted at once."""


class Divisions:
    """Several divisions of the same records, their groups numbered through as sets of records.

    Args:
        codes: (division, record) a group's number, -1 for none.
        n_groups: how many groups each has; group g of division d is set d x n_groups + g.
        n_exact: how many, from the first, are to be attacked exactly, too.

    Attributes:
        sizes: (set,) records in each.
    """

    def __init__(
        self, codes: npt.NDArray[np.integer[Any]], n_groups: int, n_exact: int = 0
    ) -> None:
        self.codes, self.n_groups, self.n_exact = codes, n_groups, n_exact
        self._inside = codes[0] >= 0
        chosen = np.equal(codes[:, None], np.arange(n_groups - 1, dtype=codes.dtype)[:, None])
        self._chosen: BoolArray = chosen.reshape(-1, codes.shape[1])
        self.sizes = self.sums(self._inside[None])[0]

    @property
    def exact(self) -> list[tuple[IntArray, int]]:
        """Those to be attacked exactly, as views of the records."""
        return [(one.astype(np.int64), self.n_groups) for one in self.codes[: self.n_exact]]

    @property
    def n_records(self) -> int:
        """Records in the groups of one division."""
        return int(self._inside.sum())

    @property
    def n_sets(self) -> int:
        """Groups of all divisions."""
        return len(self.codes) * self.n_groups

    def sums(self, *rows: npt.NDArray[Any]) -> FloatArray:
        """(row, set) sums over the records of every set; see ``ExactSums``."""
        exact = ExactSums(*(_within(one, self._inside) for one in rows))
        raw = exact.raw(self._chosen).reshape(len(self.codes), self.n_groups - 1, -1)
        last = exact.total - raw.sum(axis=1)  # whole numbers: exact as well
        every = np.concatenate([raw, last[:, None]], axis=1)
        return np.asarray(exact.scaled(every.reshape(self.n_sets, -1)).T)


def _within(rows: npt.NDArray[Any], inside: BoolArray) -> npt.NDArray[Any]:
    """Nothing for records of no group."""
    return rows if inside.all() else rows * inside


def divided_panel(views: Views, divisions: Divisions, *, epsilon: float) -> Panel:
    """What a release of the divisions' groups would count of the models of one setting.

    Args:
        views: the models.
        divisions: of the same records.
        epsilon: of the setting.
    """
    train, test = counts_of(views, divisions)
    return Panel(
        epsilon=epsilon,
        seeds=tuple(range(views.n_models)),
        group_names=tuple(map(str, range(divisions.n_sets))),
        split=_splits(views.member),
        train=train,
        test=test,
        train_accuracy=accuracy(train),
        test_accuracy=accuracy(test),
        positive_rate=positive_rate(test),
        n_train=train.n,
        n_test=test.n,
        exposure={},
        pooled={},
    )


def divided_costs(kept: KeptParts, divisions: Divisions) -> dict[str, PooledExposures]:
    """By cost, the rows that a release of the divisions' groups would have."""
    benefit = kept.benefit.parts * divisions.n_records
    found = {name: _ranked(one, benefit, divisions) for name, one in kept.ranked.items()}
    found |= {name: _paired(one, benefit, divisions) for name, one in kept.paired.items()}
    return {name: one for name, one in found.items() if np.isfinite(one.value).any()}


def counts_of(views: Views, divisions: Divisions) -> tuple[Counts, Counts]:
    """Confusion tables (model, set) of training and of test."""
    positive = views.labels == 1
    n_positive = divisions.sums(positive[None])
    found = []
    for first in range(0, views.n_models, BLOCK_MODELS):
        some = slice(first, first + BLOCK_MODELS)
        member, predicted = views.member[some], views.predicted[some]
        sides = [member & positive, member & ~positive]
        rows = [*sides, *(side & predicted for side in sides)]
        rows += [predicted & ~member & positive, predicted & ~member & ~positive]
        found.append(divisions.sums(*rows).reshape(len(rows), -1, divisions.n_sets))
    yes, no, tp, fp, test_tp, test_fp = np.concatenate(found, axis=1)
    train = Counts(tp=tp, fp=fp, tn=no - fp, fn=yes - tp)
    left = n_positive - yes, divisions.sizes - n_positive - no
    return train, Counts(tp=test_tp, fp=test_fp, tn=left[1] - test_fp, fn=left[0] - test_tp)


def _ranked(found: Influences, benefit: FloatArray, divisions: Divisions) -> PooledExposures:
    """To first order: everybody's number, and the mean of what the group's records add."""
    known, n_models = found.known, len(found.values)
    if not n_models:
        return _nothing(divisions)
    own = known.sum() * found.parts.mean(axis=0, dtype=np.float64)
    by_record = np.stack([known, own, own**2, own * benefit, known * benefit])
    sums = divisions.sums(by_record, found.parts)
    n, total, squares, products, of_benefit = sums[:5]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = (squares / n - mean**2) / (n - 1)
        values = found.values[:, None] + sums[5:] * (known.sum() / n)
        of_models = of_values(values, np.nansum(found.variances) * known.sum() / n)
        variation = Variation(np.maximum(variance, 0.0), *of_models)
        value = found.values.mean() + mean
        covariance = (products - mean * of_benefit) / divisions.sizes / (n - 1)
        return _exposures(value, variation, n_models, covariance, n)


def _paired(found: PairedInfluences, benefit: FloatArray, divisions: Divisions) -> PooledExposures:
    """Exactly what ``PairedPool`` gives, but for the benefit, which is taken to first order."""
    known = np.isfinite(found.differences)
    if not known.any():
        return _nothing(divisions)
    centre = found.differences[known].mean()
    own = np.where(known, found.differences - centre, 0.0)
    moved, weight = found.moved_squares * known, known.astype(np.float64)
    rows = [weight, own, own**2, own * benefit, known * benefit, found.squares * known]
    rows += [moved, moved * own, found.inside * known]
    contrasts, n_models = found.contrasts.reshape(-1, len(known)), len(found.added)
    sums = divisions.sums(np.stack(rows), found.added, found.moved, contrasts)
    n, total, squares, products, of_benefit, added, moved, moved_own, inside = sums[:9]
    by_model, by_moved = sums[9 : 9 + n_models], sums[9 + n_models : 9 + 2 * n_models]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        value = centre + mean
        if len(contrasts):
            of_models = of_few(sums[9 + 2 * n_models :].reshape(3, 4, -1, len(n)), n_models)
        else:
            of_both = added + value**2 * moved - 2 * value * (moved_own + centre * moved)
            weight = own_weight(n_models, inside / n) / n**2
            beyond = ((by_model - value * by_moved) ** 2).sum(axis=0)
            of_models = weight * beyond, weight * of_both
        of_records = np.maximum(squares / n - mean**2, 0.0) / (n - 1)
        covariance = (products - mean * of_benefit) / divisions.sizes / (n - 1)
        return _exposures(value, Variation(of_records, *of_models), n_models, covariance, n)


def _exposures(
    value: FloatArray, found: Variation, n_models: int, covariance: FloatArray, n: FloatArray
) -> PooledExposures:
    """No error is below what one record at chance would have made of it; none of one record."""
    told, least = n > 1, np.abs(value) / n
    errors = [np.sqrt(people_variance(found, n_models)), np.sqrt(found.of_records)]
    error, null = (np.where(told, np.maximum(one, least), np.nan) for one in errors)
    return PooledExposures(
        value=value,
        standard_error=error,
        null_error=null,
        benefit_covariance=np.where(told, covariance, np.nan),
        n_records=n,
    )


def _nothing(divisions: Divisions) -> PooledExposures:
    unknown = np.full(divisions.n_sets, np.nan)
    return PooledExposures(
        value=unknown,
        standard_error=unknown,
        null_error=unknown,
        benefit_covariance=unknown,
        n_records=unknown,
    )


def _splits(member: BoolArray) -> IntArray:
    """(model,) which of the distinct splits each model had, from 0."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known)) for row in member], dtype=np.int64)
