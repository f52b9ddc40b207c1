"""Predictions of several models about the same records: each record beside itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcer.attacks import BudgetScores
from pcer.errors import InputError
from pcer.metrics import FloatArray, IntArray
from pcer.release.build import Counted, Entries


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordRows:
    """Rows of a table of predictions, arrays of one length.

    Attributes:
        entries: what was counted; groups as they are released.
        record: a number for each record, the same in all models.
        logits: log odds of the positive label; None where only answers are known.
        reference: log odds of the true label beyond those of reference models, if there are some.
    """

    entries: Entries
    record: IntArray
    logits: FloatArray | None
    reference: FloatArray | None = None


def no_coin(counted: Counted, rows: RecordRows) -> str:
    """Why no coin can be flipped for the records; empty where all budgets are about the same."""
    first = {run.key.epsilon: at for at, run in reversed([*enumerate(counted.runs)])}
    scored = [np.sort(rows.record[rows.entries.run == at]) for at in first.values()]
    if all(np.array_equal(one, scored[0]) for one in scored):
        return ""
    return "the budgets were scored on different records"


def settings_of(counted: Counted, rows: RecordRows) -> list[BudgetScores]:
    """The models of every budget beside each other, in the order of the counts.

    Raises:
        InputError: the models of a budget did not score the same records alike.
    """
    budgets: dict[float | None, list[int]] = {}
    for position, run in enumerate(counted.runs):
        budgets.setdefault(run.key.epsilon, []).append(position)
    return [_setting(rows, counted, *budget) for budget in budgets.items()]


def _setting(
    rows: RecordRows, counted: Counted, epsilon: float | None, runs: Sequence[int]
) -> BudgetScores:
    at = _aligned(rows, epsilon, runs)
    entries, predicted = rows.entries, rows.entries.predicted[at]
    signs = np.where(predicted, 1.0, -1.0)
    return BudgetScores(
        logits=signs if rows.logits is None else rows.logits[at],
        labels=entries.positive[at[0]].astype(np.int64),
        member=entries.split[at] == 0,
        group=entries.group[at[0]],
        group_names=counted.groups,
        predicted=predicted,
        reference=None if rows.reference is None else rows.reference[at],
        from_probabilities=rows.logits is not None,
        has_probabilities=rows.logits is not None,
        epsilon=math.inf if epsilon is None else epsilon,
    )


def _aligned(rows: RecordRows, epsilon: float | None, runs: Sequence[int]) -> IntArray:
    """(model, record) where each record stands, which all models have, with one label and group."""
    places = []
    for run in runs:
        own = np.flatnonzero(rows.entries.run == run)
        places.append(own[np.argsort(rows.record[own], kind="stable")])
    first = rows.record[places[0]]
    strangers = max(len(np.setxor1d(rows.record[one], first)) for one in places)
    name = "the budget without privacy" if epsilon is None else f"epsilon {epsilon:g}"
    if strangers:
        raise InputError(
            f"record_id: every model of a budget must have scored the same records, but models of "
            f"{name} differ in {strangers:,}; leave out records that not all have, or leave "
            "record_id out."
        )
    at = np.array(places)
    for field, said in (("positive", "y_true"), ("group", "sensitive_features")):
        values = getattr(rows.entries, field)[at]
        if changed := int((values != values[0]).any(axis=0).sum()):
            raise InputError(
                f"{said} changes from model to model in {changed:,} records of one record_id; it "
                "must say the same of a record everywhere."
            )
    return at
