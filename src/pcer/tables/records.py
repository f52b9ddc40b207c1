"""Every record beside itself: what each model of one budget said of it, and who was trained on.

Unlike counts, this needs the rows of one budget in memory, and an id that names a record in every
model. Errors tell how many rows are wrong, never which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray
from pcer.release.build import RunKey, split_digest
from pcer.release.columns import SPLITS, Coded, positive_name, text_of
from pcer.tables.membership import RUN_SEED, of_runs
from pcer.tables.source import PredictionColumns, executed

if TYPE_CHECKING:
    import ibis.expr.types as ir

MOST_ROWS = 20_000_000
"""Rows of one budget; about 60 bytes each are needed."""


@dataclass(frozen=True)
class BudgetRecords:
    """The models of one budget on the same records.

    Attributes:
        runs: the models, by seed.
        probability: (model, record) of the positive label.
        positive: (record,) whether the label is the positive one.
        member: (model, record) whether it was trained on.
        groups: for every attribute, each record's group.
        splits: for every model, a digest of who was trained on.
        people: a digest of all ids, in the order of the records.
    """

    runs: tuple[RunKey, ...]
    probability: FloatArray
    positive: BoolArray
    member: BoolArray
    groups: tuple[Coded, ...]
    splits: tuple[str, ...]
    people: str


def records_by_budget(
    table: ir.Table,
    columns: PredictionColumns,
    rows: Mapping[RunKey, int],
    *,
    positive: Any = None,
    secret: bytes = b"",
    file: str = "the table",
) -> Iterator[BudgetRecords]:
    """Budget by budget, ascending, every record of every model.

    Args:
        table: any Ibis table, counted before, so that labels, splits and scores are good.
        columns: which column holds what; names a record id and a score.
        rows: how many rows each model has.
        positive: which label is positive; needed unless labels are 0 and 1, or booleans.
        secret: keys the names of splits.
        file: the name that errors call the table by.

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    budgets: dict[float | None, list[RunKey]] = {}
    for run in sorted(rows, key=lambda run: run.order):
        budgets.setdefault(run.epsilon, []).append(run)
    for epsilon, runs in budgets.items():
        _require_alike(epsilon, [rows[run] for run in runs], file)
        part = of_runs(_named(table, columns), columns, runs)
        ordered = part.order_by([RUN_SEED, str(columns.record_id)])
        found = executed(ordered, file=file)
        yield _records(found, columns, runs, positive, secret, file)


def _records(
    found: Any,
    columns: PredictionColumns,
    runs: list[RunKey],
    positive: Any,
    secret: bytes,
    file: str,
) -> BudgetRecords:
    def same(name: str) -> Coded:
        return _same(found, name, len(runs), file)

    ids, truth = _ids(found, columns, runs, file), same(columns.y_true)
    label = positive_name(truth.names, positive, where=f"{file}: labels")
    trained = _coded(found[columns.split])
    member = np.array([name == SPLITS[0] for name in trained.names])[trained.codes]
    member = member.reshape(len(runs), -1)
    score = found[columns.y_score].to_numpy().astype(np.float64)
    return BudgetRecords(
        runs=tuple(runs),
        probability=score.reshape(member.shape),
        positive=np.array([name == label for name in truth.names])[truth.codes],
        member=member,
        groups=tuple(same(name) for name in columns.attributes),
        splits=tuple(
            split_digest((ids.names[code] for code in ids.codes[inside]), secret=secret)
            for inside in member
        ),
        people=split_digest((ids.names[code] for code in ids.codes), secret=secret),
    )


def _ids(found: Any, columns: PredictionColumns, runs: list[RunKey], file: str) -> Coded:
    """The records' ids, which every model has once."""
    name = str(columns.record_id)
    ids = _coded(found[name])
    if gaps := int((ids.codes < 0).sum()):
        raise InputError(f"{file}: column {name!r} is missing in {gaps:,} rows; fill it in.")
    codes = ids.codes.reshape(len(runs), -1)
    if twice := max(codes.shape[1] - len(np.unique(row)) for row in codes):
        raise InputError(
            f"{file}: column {name!r} names {twice:,} records more than once in one model; give "
            "every model its own epsilon and seed."
        )
    if strangers := int((codes != codes[0]).any(axis=0).sum()):
        raise InputError(
            f"{file}: models of {_budget_name(runs[0].epsilon)} differ in {strangers:,} of their "
            f"records by column {name!r}; let all score the same records, or leave record_id out."
        )
    return Coded(ids.names, codes[0])


def _same(found: Any, name: str, n_models: int, file: str) -> Coded:
    """A column that says the same of a record in every model, once."""
    column = _coded(found[name])
    codes = column.codes.reshape(n_models, -1)
    if changed := int((codes != codes[0]).any(axis=0).sum()):
        raise InputError(
            f"{file}: column {name!r} changes from model to model in {changed:,} records; it must "
            "say the same of a record everywhere."
        )
    return Coded(column.names, codes[0])


def _coded(values: Any) -> Coded:
    """An arrow column as codes into its sorted names; -1 where a value is missing."""
    encoded = values.combine_chunks().dictionary_encode()
    texts = [text_of(value) for value in encoded.dictionary.to_pylist()]
    names = sorted(texts)
    position = {name: index for index, name in enumerate(names)}
    lookup = np.array([*(position[text] for text in texts), -1], dtype=np.int64)
    return Coded(names, lookup[encoded.indices.fill_null(-1).to_numpy()])


def _named(table: ir.Table, columns: PredictionColumns) -> ir.Table:
    given = (columns.record_id, columns.y_true, columns.y_score, columns.split)
    return table.select(*dict.fromkeys([*columns.runs, *columns.attributes, *map(str, given)]))


def _require_alike(epsilon: float | None, rows: Sequence[int], file: str) -> None:
    name = _budget_name(epsilon)
    if sum(rows) > MOST_ROWS:
        raise InputError(
            f"{file}: {name} has {sum(rows):,} rows, and records can be compared in up to "
            f"{MOST_ROWS:,}; take fewer seeds, or leave record_id out."
        )
    if len(set(rows)) > 1:
        raise InputError(
            f"{file}: every model of a budget must have scored the same records, but models of "
            f"{name} have {min(rows):,} to {max(rows):,} rows; leave out records that not all "
            "have, or leave record_id out."
        )


def _budget_name(epsilon: float | None) -> str:
    return "the budget without privacy" if epsilon is None else f"epsilon {epsilon:g}"
