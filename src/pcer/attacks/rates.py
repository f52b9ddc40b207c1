"""Which outcome rate and which accuracy gap have groups, and what does a record add?

``attack`` and ``placebo`` ask for the rates of groups over all models of a setting;
``pooled`` takes the influences of records, for covariances. To add a rate: a function
like ``_benefit``, called by ``record_rates``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcer.attacks.sums import Groups
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient

# Axes of counts after the group's: label 0 and 1, held out and trained on, negative,
# positive.
LABEL, SIDE, PREDICTION = 1, 2, 3
# By label and prediction, whether the prediction is correct.
RIGHT = np.array([[True, False], [False, True]])


class Rate(NamedTuple):
    """Rates of groups, and what records do to them."""

    by_model: FloatArray  # (model, group) rates, NaN where unknown
    own: FloatArray  # (record,) influence on its group's mean over the models

    @property
    def value(self) -> FloatArray:
        """(group,) mean over the models."""
        return np.asarray(self.by_model.mean(axis=0))


def record_rates(
    predicted: BoolArray, labels: IntArray, member: BoolArray, groups: Groups
) -> tuple[Rate, Rate]:
    """Benefit (positive rate on test records) and gap of groups, with influences.

    Within a model a record's influence depends on its group, label, side and prediction
    only: on its cell.
    """
    n_models = len(member)
    cells = 4 * (2 * groups.places.astype(np.int64) + labels)
    values = np.zeros((2, n_models, groups.n + 1))
    parts = np.zeros((2, len(labels)))
    for model, (positive, trained) in enumerate(zip(predicted, member, strict=True)):
        cell = cells + (2 * trained + positive)
        counts = np.bincount(cell, minlength=8 * (groups.n + 1)).reshape(-1, 2, 2, 2)
        for k, rate in enumerate((_benefit, _gap)):
            values[k, model], table = rate(counts.astype(np.float64))
            parts[k] += table.ravel()[cell]
    scale = groups.sizes[groups.codes] / n_models
    of_benefit, of_gap = np.where(groups.inside, parts * scale, 0.0)
    benefit, gap = values[:, :, :-1]
    return Rate(benefit, of_benefit), Rate(gap, of_gap)


def _benefit(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) test records' positive rate p, and each cell's influence.

    A record's influence is (prediction - p)/n, times ``_freedom``.
    """
    held_out = counts[:, :, 0].sum(axis=LABEL)
    n = held_out.sum(axis=1)
    rate = quotient(held_out[:, 1], n)
    influence = (np.arange(2) - rate[:, None]) * _freedom(n)[:, None]
    table = np.zeros(counts.shape)
    table[:, :, 0] = quotient(influence, n[:, None])[:, None]
    return rate, table


def _gap(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) accuracy difference less the luck of labels, and each cell's influence.

    The value is U (1/n_train + 1/n_test), where U counts correct training records
    beyond what the accuracy of their label gives; influence: its derivative by weight.
    """
    n = counts.sum(axis=PREDICTION)
    right = (counts * RIGHT[:, None]).sum(axis=PREDICTION)
    accuracy = np.nan_to_num(quotient(right.sum(axis=SIDE), n.sum(axis=SIDE)))
    surplus = (right[:, :, 1] - accuracy * n[:, :, 1]).sum(axis=LABEL)
    sizes = n.sum(axis=LABEL)
    over = quotient(np.ones(2), sizes)
    both = over.sum(axis=1)

    other_n = n[:, :, ::-1] * np.array([-1, 1])
    other_side = quotient(other_n, n.sum(axis=SIDE)[..., None])
    cell = np.nan_to_num(quotient(right, n))
    influence = (RIGHT[:, None] - cell[..., None]) * _freedom(n)[..., None]
    influence += (cell - accuracy[..., None])[..., None]
    influence *= (other_side * both[:, None, None])[..., None]
    of_sizes = (surplus[:, None] * over**2)[:, None, :, None]
    return surplus * both, influence - of_sizes


def _freedom(n: FloatArray) -> FloatArray:
    """Root of n/(n - 1): a mean takes a degree of freedom from ``n`` deviations."""
    return np.sqrt(n / np.maximum(n - 1, 1))
