"""From the scores of a sweep, or of any attack tool, to the exposure rows of a release.

The trainer's side: nothing that audits imports this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks import (
    Advantage,
    BoolArray,
    PooledAdvantage,
    auc_advantage,
    clustered_auc,
    confidence_of,
    loss_of,
    loss_threshold_attack,
    tpr_excess,
    true_label_logit,
)
from pcer.columns import column_of, named_columns, numbers_of, required_column
from pcer.empirical_epsilon import EpsilonBound, audit_guesses, bound_epsilon
from pcer.errors import InputError
from pcer.lira import LEAST_MODELS, Form, lira_scores, rmia_scores
from pcer.metrics import FloatArray
from pcer.paired import paired_cost
from pcer.release import Exposure, PooledExposure

IntArray = npt.NDArray[np.int64]

SMALL_RATES = {"tpr_excess_at_1_percent": 0.01, "tpr_excess_at_0.1_percent": 0.001}
"""Proxies of the low end of the ROC curve, by false positive rate."""

Pooled = Callable[[FloatArray, BoolArray], PooledAdvantage]

PAIRED: dict[str, Pooled] = {
    "paired_gap": lambda logit, member: paired_cost((logit > 0).astype(np.float64), member),
    "paired_confidence": lambda logit, member: paired_cost(confidence_of(logit), member),
}
"""Pooled proxies that any two models give."""

CALIBRATED: dict[str, Pooled] = {
    "lira_advantage": lambda logit, member: clustered_auc(lira_scores(logit, member), member),
    "lira_offline_advantage": lambda logit, member: clustered_auc(
        lira_scores(logit, member, form=Form.OFFLINE), member
    ),
    "rmia_advantage": lambda logit, member: clustered_auc(
        rmia_scores(confidence_of(logit), member), member
    ),
}
"""Pooled proxies in which the models are each other's shadow models."""


@dataclass(frozen=True, kw_only=True)
class BudgetScores:
    """What all models of one budget say about every record, checked once.

    Attributes:
        logits: (seed, record) log odds of label 1; label 1 is predicted above 0.
        labels: (record,) 0 or 1.
        member: (seed, record) whether the seed's model was trained on the record.
        group: (record,) position in ``group_names``; -1 where the group is not known.
        group_names: the groups, in the order of the release.
    """

    logits: npt.NDArray[np.floating[Any]]
    labels: IntArray
    member: BoolArray
    group: IntArray
    group_names: tuple[str, ...]

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise ValueError(fault)

    def of_group(self, k: int) -> tuple[FloatArray, BoolArray]:
        """Log odds of the true label and membership, (seed, record of the group)."""
        rows = np.flatnonzero(self.group == k)
        return true_label_logit(self.logits[:, rows], self.labels[rows]), self.member[:, rows]


class _Rows(NamedTuple):
    """A table of scores, checked; groups as positions in their names, -1 where missing."""

    record: IntArray
    group: IntArray
    group_names: list[str]
    member: BoolArray
    score: FloatArray


def run_exposures(scores: BudgetScores) -> list[dict[str, dict[str, Exposure]]]:
    """For every seed and group name, the proxies of single models: ``exposure`` of a release."""
    runs: list[dict[str, dict[str, Exposure]]] = [{} for _ in scores.logits]
    for k, name in enumerate(scores.group_names):
        logit, member = scores.of_group(k)
        for run, row, inside in zip(runs, logit, member, strict=True):
            run[name] = _exposures_of_model(row, inside)
    return runs


def pooled_exposures(scores: BudgetScores, *, epsilon: float) -> list[PooledExposure]:
    """For every group, the proxies over all seeds: rows of ``pooled_exposure``.

    With fewer than 8 seeds only the paired costs; ``pooled_notes`` says so in words.

    Args:
        scores: all models of the budget.
        epsilon: the budget; infinite without differential privacy.
    """
    proxies = PAIRED if len(scores.logits) < LEAST_MODELS else {**PAIRED, **CALIBRATED}
    rows = []
    for k, name in enumerate(scores.group_names):
        logit, member = scores.of_group(k)
        for proxy, pooled in proxies.items():
            found = pooled(logit, member)
            if math.isfinite(found.value):
                rows.append(_pooled_row(epsilon, name, proxy, found))
    return rows


def pooled_notes(n_seeds: int) -> list[str]:
    """What a release of so few seeds must tell its reader; empty if there are enough."""
    if n_seeds >= LEAST_MODELS:
        return []
    return [
        f"LiRA and RMIA need at least {LEAST_MODELS} seeds per budget and there are {n_seeds}; "
        "they were not run."
    ]


def epsilon_bounds(scores: BudgetScores, *, epsilon: float, dp_delta: float) -> list[EpsilonBound]:
    """The one-run lower bound on epsilon of every group; ``empirical_epsilon.weigh`` them all."""
    inclusion = float(scores.member.mean())
    return [
        bound_epsilon(
            audit_guesses(*scores.of_group(k)),
            inclusion=inclusion,
            dp_delta=dp_delta,
            epsilon=epsilon,
            group=name,
        )
        for k, name in enumerate(scores.group_names)
    ]


def exposure_from_scores(table: Any) -> dict[str, Exposure]:
    """Bring your own scores: one model's table of (record, group, member, score), per group.

    The value is AUC minus 1/2 with DeLong's error. Put it into a run's ``exposure`` under a name
    that says which attack it was.

    Args:
        table: a dataframe of any library, or a dict of columns, with the columns ``record`` (each
            once), ``group`` (records without one are left out), ``member`` (True or 1 for those
            the model was trained on) and ``score`` (higher means more likely a member).

    >>> found = exposure_from_scores(
    ...     {"record": "abcd", "group": "xxyy", "member": [1, 0, 1, 0], "score": [3, 1, 2, 1]}
    ... )
    >>> found["x"].value
    0.5
    """
    rows = _read(table)
    if len(np.unique(rows.record)) < len(rows.record):
        raise InputError(
            "record must name each record once, but one stands twice; give one model at a time, "
            "or several with a column model to pooled_exposure_from_scores."
        )
    found = {
        name: auc_advantage(rows.score[rows.group == k], rows.member[rows.group == k])
        for k, name in enumerate(rows.group_names)
    }
    return {name: _exposure(one) for name, one in found.items() if math.isfinite(one.value)}


def pooled_exposure_from_scores(table: Any, *, epsilon: float, proxy: str) -> list[PooledExposure]:
    """The same for several models of one budget, with an error clustered by record.

    Args:
        table: as for ``exposure_from_scores``, with a column ``model``; a record has one row for
            each model that scored it.
        epsilon: the budget; infinite without differential privacy.
        proxy: the name that the attack gets in the release.
    """
    rows = _read(table)
    model = required_column(_column(table, "model"), name="model").codes
    _require_lengths(record=rows.record, model=model)
    found = []
    for k, name in enumerate(rows.group_names):
        pooled = clustered_auc(*_spread_out(rows, model, rows.group == k))
        if math.isfinite(pooled.value):
            found.append(_pooled_row(epsilon, name, proxy, pooled))
    return found


def _exposures_of_model(logit: FloatArray, member: BoolArray) -> dict[str, Exposure]:
    loss = loss_of(logit)
    found: dict[str, Advantage | None] = {
        "attack_advantage": loss_threshold_attack(loss, member),
        "auc_advantage": auc_advantage(-loss, member),
        **{name: tpr_excess(-loss, member, fpr=fpr) for name, fpr in SMALL_RATES.items()},
    }
    return {
        name: _exposure(one)
        for name, one in found.items()
        if one is not None and math.isfinite(one.value)
    }


def _exposure(found: Advantage) -> Exposure:
    return Exposure(
        value=found.value,
        standard_error=found.standard_error,
        n_members=found.n_members,
        n_nonmembers=found.n_nonmembers,
    )


def _pooled_row(epsilon: float, group: str, proxy: str, found: PooledAdvantage) -> PooledExposure:
    return PooledExposure(
        epsilon=None if math.isinf(epsilon) else epsilon,
        group=group,
        proxy=proxy,
        value=found.value,
        standard_error=found.standard_error,
        n_records=found.n_records,
        n_excluded=found.n_excluded,
    )


def _read(table: Any) -> _Rows:
    """The columns of a table, checked."""
    record = required_column(_column(table, "record"), name="record").codes
    group = column_of(_column(table, "group"), "group")
    score = numbers_of(_column(table, "score"), len(record), name="score")
    member = numbers_of(_column(table, "member"), len(record), name="member")
    _require_lengths(record=record, group=group.codes, member=member, score=score)
    if not np.isfinite(score).all():
        raise InputError("score must be finite, but some are not; leave those records out.")
    if not np.isin(member, (0, 1)).all():
        raise InputError("member must be True or False (1 or 0) for every record; recode it.")
    return _Rows(record, group.codes, group.names, member == 1, score)


def _column(table: Any, name: str) -> Any:
    columns = named_columns(table, None)
    if name not in columns:
        raise InputError(
            f"The table of scores has no column {name!r}; it has {', '.join(columns)}: rename it."
        )
    return columns[name]


def _spread_out(rows: _Rows, model: IntArray, chosen: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Chosen rows as arrays (model, record); NaN where a model has no score for a record."""
    models, row = np.unique(model[chosen], return_inverse=True)
    records, column = np.unique(rows.record[chosen], return_inverse=True)
    scores = np.full((len(models), len(records)), np.nan)
    member = np.zeros(scores.shape, dtype=bool)
    scores[row, column], member[row, column] = rows.score[chosen], rows.member[chosen]
    if int(np.isfinite(scores).sum()) < int(chosen.sum()):
        raise InputError("A record stands twice for one model; give every model its own name.")
    return scores, member


def _require_lengths(**columns: npt.NDArray[Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"All columns must have one length, but they have {lengths}.")


def _faults(scores: BudgetScores) -> Sequence[str]:
    shape, n = scores.logits.shape, scores.labels.size
    if scores.logits.ndim != 2 or shape[1] != n or scores.member.shape != shape:
        return [
            f"logits and member must both be (seed, record) over the {n} records of labels, but "
            f"their shapes are {shape} and {scores.member.shape}; transpose or select them."
        ]
    if scores.group.shape != (n,) or scores.group.max(initial=-1) >= len(scores.group_names):
        return ["group must hold a position in group_names, or -1, for each record."]
    if not np.isin(scores.labels, (0, 1)).all():
        return ["labels must be 0 and 1; compare them with the positive label first."]
    if not np.isfinite(scores.logits).all():
        return ["logits must be finite; a probability of exactly 0 or 1 has no log odds."]
    if scores.member.dtype != np.bool_:
        return ["member must be boolean; convert it with member == 1."]
    return []
