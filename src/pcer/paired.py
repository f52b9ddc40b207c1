"""The paired cost: what training on a record changed about that same record.

Every model of a sweep has its own random split, so each record was trained on by some models and
not by the others. The difference of the two means, record by record, is memorisation in the sense
of Feldman and Zhang. It compares a record with itself, and is therefore far sharper than the gap,
which compares the training records with other people.
"""

from __future__ import annotations

import math

import numpy as np

from pcer.attacks import PooledAdvantage, least_error
from pcer.metrics import FloatArray
from pcer.ranking import BoolArray


def paired_differences(values: FloatArray | BoolArray, member: BoolArray) -> FloatArray:
    """Per record, the mean over models that trained on it minus the mean over the others.

    NaN for a record that was always in, or never.

    Args:
        values: (model, record), such as correctness or the probability of the true label.
        member: (model, record).

    >>> always = np.array([[True, True], [False, True]])
    >>> paired_differences(np.array([[1.0, 1.0], [0.0, 1.0]]), always)
    array([ 1., nan])
    """
    n_in = member.sum(axis=0)
    n_out = len(member) - n_in
    total_in = (values * member).sum(axis=0)
    total_out = (values * ~member).sum(axis=0)
    out = np.full(values.shape[1], np.nan)
    known = (n_in > 0) & (n_out > 0)
    out[known] = total_in[known] / n_in[known] - total_out[known] / n_out[known]
    return out


def paired_cost(values: FloatArray, member: BoolArray) -> PooledAdvantage:
    """Mean of the paired differences of a group, with an error from their spread over records.

    If nothing was memorised every record's difference has mean exactly 0, because its splits
    were drawn without looking: the estimate is centred at 0 with no correction.
    """
    return mean_difference(paired_differences(values, member))


def mean_difference(differences: FloatArray) -> PooledAdvantage:
    """The paired cost of a group from its records' differences, NaN where there is none."""
    known = differences[np.isfinite(differences)]
    n, n_excluded = len(known), len(differences) - len(known)
    if n == 0:
        return PooledAdvantage(math.nan, None, 0, n_excluded)
    value, error = float(known.mean()), None
    if n > 1:
        error = least_error(float(known.std(ddof=1)) / math.sqrt(n), value, n)
    return PooledAdvantage(value, error, n, n_excluded)
