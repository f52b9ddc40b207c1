"""LiRA in four forms, and RMIA, for all records of a group at once: what the forms are compared by.

The library attacks the groups of a release with the shrunk and the offline form and with RMIA
(``pcer.attacks.groups``), record block by record block; the tests hold it against these.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

import numpy as np

from pcer.attacks.lira import (
    Others,
    blocks,
    offline_ratio,
    other_models,
    quotient,
    ratio_parts,
    require_enough_models,
    rmia_ratio,
    shrunk_ratio,
    surplus_of,
    typical_difference,
    variance_of,
)
from pcer.metrics import BoolArray, FloatArray

Ratio = Callable[[FloatArray, Others], FloatArray]
"""The score of a block of records, (target, record), from what the other models say."""


class Form(StrEnum):
    """Which likelihood ratio is taken; all are LiRA."""

    SHRUNK = "shrunk"
    """In and out Gaussians whose difference is shrunk to the size seen over records (default)."""
    PLAIN = "plain"
    """In and out Gaussians exactly as each record's other models give them (Carlini et al.)."""
    FIXED = "fixed"
    """The same with one variance in and one out for all records, as they advise for few models."""
    OFFLINE = "offline"
    """Only the out Gaussian: how far above it the target lies."""


def lira_scores(
    scaled_logit: FloatArray, member: BoolArray, *, form: Form = Form.SHRUNK
) -> FloatArray:
    """Log likelihood ratio of "was trained on" for every (target model, record).

    NaN marks a pair that is left out: a record that the other models all had in training, or all
    had not, or on which they do not differ at all. The shrunk form has a score for those, too.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
        form: which ratio.

    Raises:
        ValueError: fewer than 8 models.
    """
    require_enough_models(len(member))
    ratio = _ratio(scaled_logit, member, form)
    scores = np.empty(scaled_logit.shape)
    for block, values, inside in blocks(scaled_logit, member):
        scores[:, block] = ratio(values, other_models(values, inside))
    return scores


def rmia_scores(confidence: FloatArray, member: BoolArray) -> FloatArray:
    """``rmia_ratio`` of all records.

    Args:
        confidence: (model, record) probability of the true label.
        member: (model, record).
    """
    require_enough_models(len(member))
    scores = np.empty(confidence.shape)
    for block, values, inside in blocks(confidence, member):
        scores[:, block] = rmia_ratio(values, inside)
    return scores


def _ratio(values: FloatArray, member: BoolArray, form: Form) -> Ratio:
    """How one form scores a block; what it shares over all records is taken beforehand."""
    if form is Form.SHRUNK:
        every = blocks(values, member)
        found = (ratio_parts(part, other_models(part, inside)) for _, part, inside in every)
        size = typical_difference(np.hstack([*map(surplus_of, found)]))[:, None]
        return lambda part, others: shrunk_ratio(ratio_parts(part, others), size)
    if form is Form.FIXED:
        spread_in, spread_out = _common_variances(values, member)
        return partial(_fixed_ratio, spread_in=spread_in, spread_out=spread_out)
    return _plain_ratio if form is Form.PLAIN else offline_ratio


def _common_variances(values: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """(target, 1) variances of the other models around each record's mean, in and out."""
    squares, freedom = np.zeros((2, len(values))), np.zeros((2, len(values)))
    for _, part, inside in blocks(values, member):
        others = other_models(part, inside)
        for side, (square, n) in enumerate(
            ((others.squares_in, others.n_in), (others.squares_out, others.n_out))
        ):
            squares[side] += square.sum(axis=1)
            freedom[side] += np.maximum(n - 1, 0).sum(axis=1)
    variance = quotient(squares, np.where(squares > 0, freedom, 0))
    return variance[0][:, None], variance[1][:, None]


def _plain_ratio(values: FloatArray, others: Others) -> FloatArray:
    spread_in = variance_of(others.squares_in, others.n_in)
    spread_out = variance_of(others.squares_out, others.n_out)
    inside = _log_density(values, others.mean_in, spread_in)
    return inside - _log_density(values, others.mean_out, spread_out)


def _fixed_ratio(
    values: FloatArray, others: Others, spread_in: FloatArray, spread_out: FloatArray
) -> FloatArray:
    inside = _log_density(values, others.mean_in, spread_in)
    ratio = inside - _log_density(values, others.mean_out, spread_out)
    return np.where(others.squares_in + others.squares_out > 0, ratio, np.nan)


def _log_density(values: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (np.log(variance) + (values - mean) ** 2 / variance))
