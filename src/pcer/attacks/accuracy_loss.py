"""Who loses accuracy where a model is trained on a synthetic table?

The same model is trained on a table and on the real half that the table was made from,
and tested on real people who were held out. ``models/synthetic`` asks for the loss of
every group. To add another loss: its differences in ``accuracy_losses``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pcer.attacks.pooled import people_variance
from pcer.metrics import BoolArray, FloatArray


class GroupLoss(NamedTuple):
    """Share less of a group's people who are judged right."""

    value: float
    standard_error: float
    n_records: int


class Losses(NamedTuple):
    """Arrays (split, record)."""

    difference: FloatArray  # 1 where only the real half's model is right, -1 only other
    held_out: BoolArray

    def of_group(self, chosen: BoolArray) -> GroupLoss:
        """The mean loss v of some records, with an error by people and splits.

        With d the differences of held-out records, N of them, and e = d - v:

            of_records = sum over records of (sum over splits of e)^2 / N^2,
            of_models  = S/(S - 1) sum over splits of (sum over records of e)^2 / N^2,
            of_both    = sum of e^2 / N^2.

        What both count is taken off once; the error is never below that by records.
        """
        held_out = self.held_out[:, chosen]
        n = int(held_out.sum())
        n_splits = len(held_out)
        differences = np.where(held_out, self.difference[:, chosen], 0.0)
        value = float(differences.sum() / n)
        rest = np.where(held_out, differences - value, 0.0)
        of_records = (rest.sum(axis=0) ** 2).sum() / n**2
        of_models = (rest.sum(axis=1) ** 2).sum() / n**2
        of_models *= n_splits / max(n_splits - 1, 1)
        of_both = (rest**2).sum() / n**2
        variance = people_variance(of_records, of_models, of_both, n_splits)
        n_records = int(held_out.any(axis=0).sum())
        return GroupLoss(value, math.sqrt(float(variance[0])), n_records)


def accuracy_losses(
    right: BoolArray, right_of_real: BoolArray, member: BoolArray
) -> Losses:
    """Losses of every held-out record, from (split, record) what was judged right.

    Args:
        right: by the model that was trained on the table.
        right_of_real: by the model that was trained on the real half.
        member: whether the record was in that half.
    """
    difference = right_of_real.astype(np.float64) - right
    return Losses(difference, ~member)
