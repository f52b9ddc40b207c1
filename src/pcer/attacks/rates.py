"""What each record adds to its group's rates: the benefit, and the gap that counts give.

A release holds the rates themselves. Whoever has the records can say as well who is behind them,
which is what a covariance with an exposure and a permutation of groups need. Within one model a
record's part depends on its group, its label, its side of the split and its prediction alone: it
is looked up in a table of those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcer.attacks.pooled import Shares
from pcer.metrics import BoolArray, FloatArray, IntArray

LABEL, SIDE, PREDICTION = 1, 2, 3
"""Axes of counts after the group's: label 0 and 1, held out and trained on, negative, positive."""

RIGHT = np.array([[True, False], [False, True]])
"""By label and prediction, whether the prediction is right."""


class RecordRates(NamedTuple):
    """Two rates of every group, averaged over models, and who is behind them.

    Attributes:
        benefit: positive rate on test records; NaN for a group that a model held nobody out of.
            Held out, a record adds (its prediction minus the rate) over the number held out.
        gap: accuracy in training minus in test, less what the mix of labels in the two parts
            makes of it, as in an audit.
    """

    benefit: Shares
    gap: Shares


def record_rates(
    predicted: BoolArray, labels: IntArray, member: BoolArray, codes: IntArray, *, n_groups: int
) -> RecordRates:
    """The rates of every group and each record's part in them.

    Args:
        predicted: (model, record) whether the positive label is predicted.
        labels: (record,) 0 or 1.
        member: (model, record).
        codes: (record,) a group's number, -1 for none.
        n_groups: how many groups.

    >>> predicted, member = np.array([[True, False, True]]), np.array([[False, False, True]])
    >>> found = record_rates(predicted, np.ones(3, int), member, np.zeros(3, int), n_groups=1)
    >>> found.benefit.value, found.gap.value
    (array([0.5]), array([0.5]))
    """
    place = np.where(codes < 0, n_groups, codes)  # the last is for records of no group
    cells = 4 * (2 * place + labels)
    value, parts = np.zeros((2, n_groups + 1)), np.zeros((2, len(codes)))
    for positive, inside in zip(predicted, member, strict=True):
        cell = cells + (2 * inside + positive)
        counts = np.bincount(cell, minlength=8 * (n_groups + 1)).reshape(-1, 2, 2, 2)
        for k, rate in enumerate((_benefit, _gap)):
            found, table = rate(counts.astype(np.float64))
            value[k] += found
            parts[k] += table.ravel()[cell]
    benefit, gap = (_shares(value[k], parts[k], place, n_models=len(member)) for k in range(2))
    return RecordRates(benefit, gap)


def everybodys_benefit(predicted: BoolArray, member: BoolArray, codes: IntArray) -> Shares:
    """The positive rate on test records of everybody in one group, and who is behind it.

    Args:
        predicted: (model, record) whether the positive label is predicted.
        member: (model, record).
        codes: (record,) 0, or -1 for none.
    """
    tested = ~member & (codes >= 0)
    n = tested.sum(axis=1, keepdims=True).astype(np.float64)
    rate = _rate((predicted & tested).sum(axis=1, keepdims=True), n)
    own = np.where(tested, (predicted - rate) * _rate(_freedom(n), n), 0.0)
    return Shares(rate.mean(axis=0), own.mean(axis=0))


def _benefit(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) positive rate on test records, and what a record of each cell adds to it."""
    held_out = counts[:, :, 0].sum(axis=LABEL)
    n = held_out.sum(axis=1)
    rate = _rate(held_out[:, 1], n)
    table = np.zeros(counts.shape)
    own = (np.arange(2) - rate[:, None]) * _freedom(n)[:, None]
    table[:, :, 0] = _rate(own, n[:, None])[:, None]
    return rate, table


def _gap(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(group,) accuracy difference less the luck of labels, and what each cell adds to it.

    That is U (1/n_train + 1/n_test), where U counts who is right in training beyond what the
    accuracy of their label would give; what a record adds is its derivative by the record's weight.
    """
    n = counts.sum(axis=PREDICTION)
    right = (counts * RIGHT[:, None]).sum(axis=PREDICTION)
    accuracy = np.nan_to_num(_rate(right.sum(axis=SIDE), n.sum(axis=SIDE)))
    surplus = (right[:, :, 1] - accuracy * n[:, :, 1]).sum(axis=LABEL)
    sizes = n.sum(axis=LABEL)
    over = _rate(np.ones(2), sizes)
    both = over.sum(axis=1)
    other_side = _rate(n[:, :, ::-1] * np.array([-1, 1]), n.sum(axis=SIDE)[..., None])
    cell = np.nan_to_num(_rate(right, n))
    own = (RIGHT[:, None] - cell[..., None]) * _freedom(n)[..., None]
    own += (cell - accuracy[..., None])[..., None]
    own *= (other_side * both[:, None, None])[..., None]
    return surplus * both, own - (surplus[:, None] * over**2)[:, None, :, None]


def _shares(value: FloatArray, parts: FloatArray, place: IntArray, *, n_models: int) -> Shares:
    """Averages over models."""
    own = np.where(place < len(value) - 1, parts, 0.0)
    return Shares(value[:-1] / n_models, own / n_models)


def _freedom(n: FloatArray) -> FloatArray:
    """Makes good the degree of freedom that a mean takes from ``n`` distances from it."""
    return np.sqrt(n / np.maximum(n - 1, 1))


def _rate(part: FloatArray, whole: FloatArray) -> FloatArray:
    """NaN where there is nobody."""
    out = np.full(np.broadcast_shapes(part.shape, whole.shape), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out
