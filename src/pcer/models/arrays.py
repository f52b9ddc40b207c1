"""From a table of predictions to a release: for any model, in any dataframe library.

Columns may be numpy arrays, lists, or Series of pandas, polars or pyarrow (through narwhals).
One table can hold many models: give ``epsilon`` and ``seed`` as columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from pcer._version import __version__
from pcer.errors import InputError
from pcer.files import explain
from pcer.metrics import IntArray
from pcer.release import (
    HINTS,
    Coded,
    Confusion,
    GroupTables,
    Outcome,
    Provenance,
    Release,
    Run,
    SplitKind,
    Subject,
    Training,
    column_of,
    cross,
    named_columns,
    numbers_of,
    recode,
    required_column,
    spread,
    text_of,
    values_of,
)

SPLITS = ("train", "test")


def release_from_predictions(
    y_true: Any,
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    split: Any,
    split_kind: SplitKind,
    dataset: str,
    outcome: Outcome,
    y_score: Any = None,
    threshold: float = 0.5,
    positive_label: str | int | float | bool | None = None,
    attribute: str | None = None,
    groups: Sequence[Any] | None = None,
    epsilon: Any = None,
    seed: Any = 0,
    split_id: Any = None,
    record_id: Any = None,
    training: Training | None = None,
    notes: Sequence[str] = (),
) -> Release:
    """Count predictions into a release.

    Args:
        y_true: labels with two values.
        y_pred: predicted labels; or leave it out and give ``y_score``.
        sensitive_features: the group of each record; several named columns (a dataframe or a
            dict) are crossed, as in fairlearn.
        split: "train" or "test" for each record.
        split_kind: "random" if the split was drawn at random, else "other". Must be said,
            because every test of the audit rests on it.
        dataset: a name for the data.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        y_score: probabilities in [0, 1]; positive from ``threshold`` on.
        threshold: used with ``y_score`` only.
        positive_label: which label is positive; needed unless labels are 0 and 1.
        attribute: name of the protected attribute; taken from named columns if not given.
        groups: the groups in the order wanted (group 0 minus group 1 is the disparity's sign);
            sorted names by default. Records of other groups are counted as left out.
        epsilon: one number or a column; None, NaN or infinity is a model without DP.
        seed: one number or a column.
        split_id: one name or a column: which runs used the same split.
        record_id: one column; the split's id is then derived from who is in training.
        training: what else is known of the training; its ``split_kind`` is replaced.
        notes: sentences to travel with the release.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> release = release_from_predictions(
    ...     [1, 0, 1, 0], [1, 1, 0, 0], sensitive_features=["a", "b", "a", "b"],
    ...     split=["train", "train", "test", "test"], split_kind="random",
    ...     dataset="toy", attribute="letter", outcome="benefit",
    ... )
    >>> release.runs[0].groups["a"].train.n
    1
    """
    columns = named_columns(sensitive_features, attribute)
    if attribute is None:
        attribute = " & ".join(columns)
    truth, guess = _labels(y_true, y_pred, y_score, threshold, positive_label)
    table = _Table(
        truth=truth,
        guess=guess,
        split=_split(split),
        group=cross([column_of(values, name) for name, values in columns.items()]),
        runs=_runs(len(truth), epsilon, seed, split_id, record_id),
    )
    table.check_lengths()
    names = table.group.names if groups is None else [text_of(group) for group in groups]
    subject = {
        "dataset": dataset,
        "attribute": attribute,
        "outcome": outcome,
        "positive_label": positive_label,
    }
    training = Training() if training is None else training
    training = training.model_copy(update={"split_kind": _checked_kind(split_kind)})
    return _release(table, names, subject, training, notes)


def releases_from_predictions(
    y_true: Any, y_pred: Any = None, *, sensitive_features: Any, **options: Any
) -> dict[str, Release]:
    """One release per protected attribute and, if there are several, one for their crossing.

    Takes what ``release_from_predictions`` takes, with ``sensitive_features`` as named columns.
    """
    columns = named_columns(sensitive_features, None)
    choices = {name: {name: values} for name, values in columns.items()}
    if len(columns) > 1:
        choices[" & ".join(columns)] = columns
    return {
        name: release_from_predictions(y_true, y_pred, sensitive_features=chosen, **options)
        for name, chosen in choices.items()
    }


@dataclass(frozen=True)
class _RunColumn:
    """Which run each record belongs to, and what each run is."""

    codes: IntArray
    epsilon: list[float | None]
    seed: list[int]
    split_ids: IntArray | None
    split_names: list[str]
    records: Coded | None


@dataclass(frozen=True)
class _Table:
    truth: IntArray
    guess: IntArray
    split: IntArray
    group: Coded
    runs: _RunColumn

    def check_lengths(self) -> None:
        """Refuse columns of different length."""
        lengths = {
            "y_true": len(self.truth),
            "y_pred": len(self.guess),
            "split": len(self.split),
            "sensitive_features": len(self.group.codes),
            "epsilon and seed": len(self.runs.codes),
        }
        if self.runs.split_ids is not None:
            lengths["split_id"] = len(self.runs.split_ids)
        if self.runs.records is not None:
            lengths["record_id"] = len(self.runs.records.codes)
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
            raise InputError(f"All columns must have one length, but they have: {told}.")
        if not len(self.truth):
            raise InputError("The table is empty; give at least one record per group and split.")


def _release(
    table: _Table,
    names: list[str],
    subject: dict[str, Any],
    training: Training,
    notes: Sequence[str],
) -> Release:
    group = recode(table.group, names)
    n_runs = len(table.runs.seed)
    left_out = np.bincount(table.runs.codes[group < 0], minlength=n_runs)
    cells = _count(table, group, n_groups=len(names))
    if left_out.max():
        notes = [
            *notes,
            f"{int(left_out.max()):,} records with a missing or unlisted {subject['attribute']} "
            "are in no group's table.",
        ]
    try:
        return Release(
            subject=Subject(
                **subject,
                groups=names,
                n_records=int(np.bincount(table.runs.codes).max()),
                n_missing_group=int(left_out.max()),
                notes=list(notes),
            ),
            training=training,
            runs=[_run(table, names, cells[run], run) for run in range(n_runs)],
            provenance=Provenance(pcer_version=__version__),
        )
    except ValidationError as error:
        raise InputError(explain(error, file="predictions", hints=HINTS)) from None


def _run(table: _Table, names: list[str], cells: IntArray, run: int) -> Run:
    tables = {
        name: GroupTables(train=_confusion(cells[0, group]), test=_confusion(cells[1, group]))
        for group, name in enumerate(names)
    }
    return Run(
        epsilon=table.runs.epsilon[run],
        seed=table.runs.seed[run],
        split=_split_name(table, run),
        groups=tables,
    )


def _confusion(cells: IntArray) -> Confusion:
    tn, fp, fn, tp = (int(count) for count in cells)
    return Confusion(tp=tp, fp=fp, tn=tn, fn=fn)


def _count(table: _Table, group: IntArray, *, n_groups: int) -> IntArray:
    """(run, split, group, 4) counts in the order tn, fp, fn, tp."""
    shape = (len(table.runs.seed), len(SPLITS), n_groups, 4)
    kept = group >= 0
    cell = table.truth * 2 + table.guess
    index = np.ravel_multi_index(
        (table.runs.codes[kept], table.split[kept], group[kept], cell[kept]), shape
    )
    return np.bincount(index, minlength=math.prod(shape)).reshape(shape).astype(np.int64)


def _split_name(table: _Table, run: int) -> str | None:
    """The split's name as given, or a digest of who is in its training part."""
    rows, runs = table.runs.codes == run, table.runs
    if runs.records is not None:
        ids = runs.records.codes[rows]
        if len(np.unique(ids)) < len(ids):
            raise InputError(
                f"record_id: a record stands twice in the run with epsilon {runs.epsilon[run]} "
                f"and seed {runs.seed[run]}; give every model its own epsilon and seed."
            )
        trained = np.unique(runs.records.codes[rows & (table.split == 0)])
        text = "\n".join(runs.records.names[code] for code in trained)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]
    if runs.split_ids is None:
        return None
    used = np.unique(runs.split_ids[rows])
    if len(used) > 1:
        raise InputError(
            f"split_id must be one value within a run, but the run with seed {runs.seed[run]} "
            f"has {len(used)}."
        )
    return runs.split_names[int(used[0])]


def _runs(n: int, epsilon: Any, seed: Any, split_id: Any, record_id: Any) -> _RunColumn:
    budgets = numbers_of(epsilon, n, name="epsilon")
    budgets[np.isnan(budgets)] = np.inf
    if (budgets <= 0).any():
        raise InputError("epsilon must be above 0; None means a model without privacy.")
    seeds = numbers_of(seed, n, name="seed")
    if not np.array_equal(seeds, np.floor(seeds)):
        raise InputError("seed must be whole numbers, none missing; number the models.")
    if len(budgets) != len(seeds):
        raise InputError(f"epsilon has {len(budgets):,} rows and seed has {len(seeds):,}.")
    keys, codes = np.unique(np.stack([budgets, seeds]), axis=1, return_inverse=True)
    splits = None if split_id is None else required_column(spread(split_id, n), name="split_id")
    return _RunColumn(
        codes=codes.ravel().astype(np.int64),
        epsilon=[None if math.isinf(value) else value for value in keys[0].tolist()],
        seed=[int(value) for value in keys[1]],
        split_ids=None if splits is None else splits.codes,
        split_names=[] if splits is None else splits.names,
        records=None if record_id is None else required_column(record_id, name="record_id"),
    )


def _labels(
    y_true: Any, y_pred: Any, y_score: Any, threshold: float, positive: Any
) -> tuple[IntArray, IntArray]:
    if (y_pred is None) == (y_score is None):
        raise InputError("Give either y_pred (labels) or y_score (probabilities), not both.")
    truth = required_column(y_true, name="y_true")
    guess = truth if y_pred is None else required_column(y_pred, name="y_pred")
    values = sorted({*truth.names, *guess.names})
    if len(values) > 2:
        shown = ", ".join(repr(value) for value in values[:5])
        raise InputError(
            f"y_true and y_pred must have two values between them, but have {len(values)} "
            f"({shown}{', ...' if len(values) > 5 else ''}); compare with the positive one first."
        )
    name = _positive_name(values, positive)
    scored = None if y_score is None else _scores(y_score, threshold)
    return _is(truth, name), _is(guess, name) if scored is None else scored


def _positive_name(values: list[str], positive: Any) -> str:
    if positive is not None:
        name = text_of(positive)
        if name not in values and len(values) == 2:
            raise InputError(f"positive_label {positive!r} is not among the labels {values}.")
        return name
    for zero, one in (("0", "1"), ("False", "True")):
        if set(values) <= {zero, one}:
            return one
    raise InputError(f"Say which of the labels {values} is positive: positive_label=...")


def _scores(y_score: Any, threshold: float) -> IntArray:
    values, missing = values_of(y_score, name="y_score")
    try:
        scores = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("y_score must hold numbers; give predicted labels as y_pred.") from None
    if missing.any() or not ((scores >= 0) & (scores <= 1)).all():
        raise InputError(
            "y_score must be probabilities in [0, 1] without gaps; apply the sigmoid to logits, or "
            "give predicted labels as y_pred."
        )
    return (scores >= threshold).astype(np.int64)


def _split(split: Any) -> IntArray:
    column = required_column(split, name="split")
    unknown = [name for name in column.names if name not in SPLITS]
    if unknown:
        raise InputError(f"split must be 'train' or 'test', but holds {unknown[0]!r}; recode it.")
    if len(column.names) < 2:
        raise InputError(
            f"split holds only {column.names}, and the privacy cost needs both; predict the "
            "training records and the test records with the same model."
        )
    return np.array([SPLITS.index(name) for name in column.names])[column.codes]


def _checked_kind(split_kind: str) -> str:
    if split_kind not in ("random", "other"):
        raise InputError(f"split_kind must be 'random' or 'other', but is {split_kind!r}.")
    return split_kind


def _is(column: Coded, name: str) -> IntArray:
    return np.array([text == name for text in column.names], dtype=np.int64)[column.codes]
