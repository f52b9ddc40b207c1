"""What are the paper's quantities? Pure functions of arrays, groups on the last axis.

Every room uses them. Two ways in:

* **Arrays** with any leading axes (usually budget, seed) and the group last:
  ``positive_rate``, ``accuracy``, ``overfitting_gap``, ``pcer``, ``pcer_disparity``,
  ...
* **Records**, in fairlearn's argument order: ``group_counts(y_true, y_pred, *,
  sensitive_features)`` tabulates one model's predictions;
  ``demographic_parity_difference`` and ``equalized_odds_difference`` go straight to the
  gap.

A rate whose denominator is 0 (nobody in the group qualifies) is NaN, never 0: "nobody
was asked" is not "nobody was accepted". fairlearn returns 0 there. To add a quantity: a
function of arrays, with its formula and an example.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError, require_positive

BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = FloatArray | IntArray | float

DEFAULT_FLOOR = 1e-3
FLOOR_GRID = (1e-4, 1e-3, 1e-2, 1e-1)
# The budget of a model trained without differential privacy; null in files.
NO_DP = math.inf
# The paper's, in the order of its rows.
DEFAULT_BUDGETS = (NO_DP, 0.1, 0.5, 1.0, 5.0, 10.0)
DEFAULT_SEEDS = 50  # the paper's number of splits, and of models per budget
DEFAULT_SPLITS = 20  # random splits that an estimator is fitted on


class Counts(NamedTuple):
    """A confusion table: four arrays of one shape, the group on the last axis."""

    tp: FloatArray
    fp: FloatArray
    tn: FloatArray
    fn: FloatArray

    @property
    def n(self) -> FloatArray:
        """Number of records."""
        return self.tp + self.fp + self.tn + self.fn


def positive_rate(counts: Counts) -> FloatArray:
    """Share predicted positive (Definition 1): (tp + fp) / n.

    >>> n = np.array([1.0])
    >>> positive_rate(Counts(tp=n, fp=n, tn=n, fn=n))
    array([0.5])
    """
    return quotient(counts.tp + counts.fp, counts.n)


def true_positive_rate(counts: Counts) -> FloatArray:
    """Share predicted positive among those whose label is positive: tp / (tp + fn)."""
    return quotient(counts.tp, counts.tp + counts.fn)


def false_positive_rate(counts: Counts) -> FloatArray:
    """Share predicted positive among those whose label is negative: fp / (fp + tn)."""
    return quotient(counts.fp, counts.fp + counts.tn)


def false_negative_rate(counts: Counts) -> FloatArray:
    """Share predicted negative among those whose label is positive: fn / (tp + fn)."""
    return quotient(counts.fn, counts.tp + counts.fn)


def precision(counts: Counts) -> FloatArray:
    """Share truly positive among those predicted positive: tp / (tp + fp)."""
    return quotient(counts.tp, counts.tp + counts.fp)


def accuracy(counts: Counts) -> FloatArray:
    """Share predicted correctly: (tp + tn) / n."""
    return quotient(counts.tp + counts.tn, counts.n)


def accuracy_difference(
    train_accuracy: FloatArray, test_accuracy: FloatArray
) -> FloatArray:
    """Training minus test accuracy, signed: what the overfitting gap clips."""
    return np.asarray(train_accuracy - test_accuracy)


def overfitting_gap(
    train_accuracy: FloatArray, test_accuracy: FloatArray
) -> FloatArray:
    """How much better the model does on training records (Definition 2).

    max(0, training accuracy - test accuracy), so never negative. Clipping makes its
    mean positive even where nothing is memorised; see ``measuring.variances``.

    >>> overfitting_gap(np.array([0.9, 0.7]), np.array([0.8, 0.75])).round(12)
    array([0.1, 0. ])
    """
    return np.maximum(accuracy_difference(train_accuracy, test_accuracy), 0.0)


def pcer(
    benefit: FloatArray, privacy_cost: FloatArray, *, floor: float = DEFAULT_FLOOR
) -> FloatArray:
    """PCER: benefit divided by exposure, for each group (Definition 3).

    benefit / max(exposure, floor): an exposure below ``floor``, or a negative one,
    counts as ``floor``. Where every group is below it, the result is only the benefit
    rescaled (Proposition 2): check ``floor_dominated`` first.

    Args:
        benefit: usually the positive rate; last axis is the group, in [0, 1].
        privacy_cost: overfitting gap or attack advantage, same shape.
        floor: smallest exposure that counts, above 0.

    >>> pcer(np.array([0.5, 0.3]), np.array([0.01, 0.0]), floor=0.001)
    array([ 50., 300.])
    """
    require_positive(floor=floor)
    return np.asarray(benefit / np.maximum(privacy_cost, floor))


def floor_dominated(privacy_cost: FloatArray, *, floor: float) -> BoolArray:
    """Whether every group's exposure is below the floor.

    PCER then only repeats the benefit (Proposition 2).

    >>> floor_dominated(np.array([[0.0005, 0.0], [0.002, 0.0]]), floor=0.001)
    array([ True, False])
    """
    require_positive(floor=floor)
    return np.asarray(np.all(privacy_cost < floor, axis=-1))


def pcer_disparity(ratio: FloatArray, *, reference: int = 0) -> FloatArray:
    """PCER of the reference group minus that of each other group (Definition 4).

    The last axis becomes the other groups, in their order. With two groups and the
    default reference it holds the paper's single number: group 0 minus group 1.

    >>> pcer_disparity(np.array([50.0, 300.0]))
    array([-250.])
    """
    others = [group for group in range(ratio.shape[-1]) if group != reference]
    return np.asarray(ratio[..., [reference]] - ratio[..., others])


def pcer_spread(ratio: FloatArray) -> FloatArray:
    """Largest pairwise difference of PCER between groups.

    Descriptive: it is never below 0.

    >>> float(pcer_spread(np.array([50.0, 300.0, 120.0])))
    250.0
    """
    return np.asarray(ratio.max(axis=-1) - ratio.min(axis=-1))


def normalised_disparity(ratio: FloatArray, *, reference: int = 0) -> FloatArray:
    """Disparity divided by the pair's mean PCER, in [-2, 2]; NaN where both are 0.

    >>> normalised_disparity(np.array([100.0, 300.0]))
    array([-1.])
    """
    others = [group for group in range(ratio.shape[-1]) if group != reference]
    mean = (ratio[..., [reference]] + ratio[..., others]) / 2
    return quotient(pcer_disparity(ratio, reference=reference), mean)


def demographic_parity_gap(positive_rate: FloatArray) -> FloatArray:
    """Largest difference in positive rate between groups.

    >>> round(float(demographic_parity_gap(np.array([0.5, 0.3, 0.4]))), 12)
    0.2
    """
    return np.asarray(positive_rate.max(axis=-1) - positive_rate.min(axis=-1))


def equalized_odds_gap(
    true_positive_rate: FloatArray, false_positive_rate: FloatArray
) -> FloatArray:
    """The larger of the gaps in true and false positive rate.

    NaN where some rate is undefined.
    """
    true_positive_gap = demographic_parity_gap(true_positive_rate)
    false_positive_gap = demographic_parity_gap(false_positive_rate)
    return np.maximum(true_positive_gap, false_positive_gap)


def group_counts(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sensitive_features: npt.ArrayLike
) -> tuple[tuple[str, ...], Counts]:
    """Names of the groups and one model's counts in them.

    Args:
        y_true: labels, 0 or 1 (False or True).
        y_pred: predictions, 0 or 1.
        sensitive_features: the group of each record; the sorted values name the groups.

    >>> groups = ["a", "a", "b"]
    >>> names, counts = group_counts([1, 0, 1], [1, 1, 0], sensitive_features=groups)
    >>> names, positive_rate(counts)
    (('a', 'b'), array([1., 0.]))
    """
    labels = _binary(y_true, name="y_true")
    predictions = _binary(y_pred, name="y_pred")
    names, group = np.unique(
        np.asarray(sensitive_features).astype(str), return_inverse=True
    )
    lengths = {
        "y_true": len(labels),
        "y_pred": len(predictions),
        "sensitive_features": len(group),
    }
    if len(set(lengths.values())) > 1:
        sentence = f"All columns must have one length, but they have {lengths}."
        raise InputError(sentence, field="y_true")
    cell = group * 4 + labels * 2 + predictions
    cells = np.bincount(cell, minlength=4 * len(names))
    tn, fp, fn, tp = cells.reshape(len(names), 4).T.astype(np.float64)
    return tuple(names.tolist()), Counts(tp=tp, fp=fp, tn=tn, fn=fn)


def demographic_parity_difference(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sensitive_features: npt.ArrayLike
) -> float:
    """Demographic parity gap of one model's predictions, called as fairlearn's.

    >>> groups = ["a", "a", "b"]
    >>> demographic_parity_difference([1, 0, 1], [1, 1, 0], sensitive_features=groups)
    1.0
    """
    _, counts = group_counts(y_true, y_pred, sensitive_features=sensitive_features)
    return float(demographic_parity_gap(positive_rate(counts)))


def equalized_odds_difference(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, sensitive_features: npt.ArrayLike
) -> float:
    """Equalized odds gap of one model's predictions, called as fairlearn's."""
    _, counts = group_counts(y_true, y_pred, sensitive_features=sensitive_features)
    return float(
        equalized_odds_gap(true_positive_rate(counts), false_positive_rate(counts))
    )


def quotient(
    numerator: Numbers, denominator: Numbers, *, otherwise: Numbers = np.nan
) -> FloatArray:
    """Numerator over denominator; ``otherwise`` where the denominator is not above 0.

    >>> quotient(1.0, np.array([2.0, 0.0]), otherwise=0.0)
    array([0.5, 0. ])
    """
    with np.errstate(all="ignore"):
        ratio = np.asarray(numerator / denominator)
    is_positive = np.greater(denominator, 0)
    return ratio if is_positive.all() else np.where(is_positive, ratio, otherwise)


def _binary(values: npt.ArrayLike, *, name: str) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or not np.isin(array, (0, 1)).all():
        raise InputError(
            f"{name} must be one column of 0 and 1; recode it, for example with "
            f"{name} == 'yes'.",
            field=name,
        )
    return array.astype(np.int64)
