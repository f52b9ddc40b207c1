"""From a table of predictions of any size to releases.

A table that fits in memory is read whole. A larger one is counted where it lies: its distinct rows
come back, each with the number of records that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pcer.data.readers import executed, require_columns
from pcer.errors import InputError
from pcer.models import Options, arrays
from pcer.release.build import ReleaseFacts
from pcer.release.columns import Coded, attribute_views, numbers_of
from pcer.release.format import Release
from pcer.tables.source import PredictionColumns, coded, open_predictions

if TYPE_CHECKING:
    import ibis.expr.types as ir

IN_MEMORY = 1_000_000  # rows of a table that is read whole; a larger one is counted where it lies
# Rows of a table whose records are compared, which needs them whole: about 150 bytes each.
MOST_RECORDS = 20_000_000
MAX_GROUPS = 200  # of one attribute; the release format has the same bound
N = "pcer_n"  # the column of how many records a row stands for


def releases_from_table(
    source: Any,
    columns: PredictionColumns,
    facts: ReleaseFacts,
    *,
    backend: Any = None,
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """One release per protected attribute and, if there are several, one for their crossing.

    The same as ``release_from_predictions`` of the same rows, whatever the backend.

    Args:
        source: path or pattern of CSV or Parquet files, a table's name, or a table.
        columns: which column holds what.
        facts: what the table cannot say about itself.
        backend: None for DuckDB; "pyspark", an Ibis connection or address.
        on_step: called with what is done next, after the attacks.

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    table, file = open_predictions(source, backend=backend)
    columns = columns.completed(table.columns)
    require_columns(columns.names, list(table.columns), file=file)
    views = attribute_views(columns.attributes)
    if facts.groups is not None and len(views) > 1:
        raise InputError("the order of groups can be given for one attribute only.", field="groups")
    names = {name: [columns.attributes[k] for k in where] for name, where in views.items()}
    wholes = ("record_id", "membership_score", "loss")  # what needs every row
    compared = next((name for name in wholes if getattr(columns, name)), None)
    most = IN_MEMORY if compared is None else MOST_RECORDS
    content = executed(table.select(*dict.fromkeys(columns.names)).limit(most + 1), file=file)
    try:
        if len(content) > most and compared is not None:
            raise InputError(
                f"records can be compared in tables of up to {most:,} rows, and there are more; "
                f"take fewer seeds or budgets, or leave {compared} out.",
                field=compared,
            )
        if len(content) > most:
            content = _distinct_rows(table, columns, file=file)
        rows = _rows(content, columns, facts)
        return arrays.releases_of(rows, names, facts, file=file, on_step=on_step)
    except InputError as error:
        column = getattr(columns, error.field or "", None)  # what the user calls that argument
        where = f"{file}, column {column!r}" if isinstance(column, str) else file
        sentence = str(error) if str(error).startswith(file) else f"{where}: {error}"
        raise InputError(sentence, field=error.field) from None


def _rows(content: Any, columns: PredictionColumns, facts: ReleaseFacts) -> arrays.Rows:
    """The rows of an arrow table, checked; with how many records each stands for, if it says so."""

    def names(name: str | None) -> Any:
        return None if name is None else coded(content[name])

    def numbers(name: str | None, default: Any = None) -> Any:
        return default if name is None else content[name]

    membership = numbers(columns.membership_score)
    if columns.loss is not None:
        membership = -numbers_of(content[columns.loss], len(content), name="loss")
    attributes = {name: coded(content[name]) for name in columns.attributes}
    for name, column in attributes.items():
        _require_few_values(name, column)
    options = Options(
        epsilon=numbers(columns.epsilon),
        split_id=names(columns.split_id),
        threshold=columns.threshold,
        positive_label=facts.positive_label,
        membership_score=membership,
        secret=facts.secret,
    )
    rows = arrays.rows_of(
        names(columns.y_true),
        names(columns.y_pred),
        numbers(columns.y_score),
        split=names(columns.split),
        attributes=attributes,
        record_id=names(columns.record_id),
        seed=numbers(columns.seed, 0),
        options=options,
    )
    n = content[N].to_numpy() if N in content.column_names else None
    return replace(rows, entries=replace(rows.entries, n=n))


def _distinct_rows(table: ir.Table, columns: PredictionColumns, *, file: str) -> Any:
    """Rows by model, split, groups, label and answer, with their number, as an arrow table.

    Labels are grouped by, not compared, so that a third value or a gap shows as a row of its own
    and costs no second pass. A score is one of those on its side of the threshold.
    """
    for name in filter(None, (columns.y_true, columns.y_pred, *columns.attributes)):
        few = table.select(name).limit(10_000).distinct().limit(MAX_GROUPS + 2)
        _require_few_values(name, coded(executed(few, file=file)[name]))
    keys = (*columns.runs, columns.split, *columns.attributes, columns.y_true, columns.y_pred)
    named = {name: table[name] for name in dict.fromkeys(keys) if name is not None}
    if columns.y_score is None:
        whole = table.select(**named)
        found = whole.group_by(list(named)).aggregate(**{N: whole.count()})
    else:
        score = table[columns.y_score].cast("float64")
        wrong = score.isnull() | score.isnan() | (score < 0) | (score > 1)
        side = wrong.ifelse(-1, (score >= columns.threshold).cast("int8"))
        whole = table.select(**named, pcer_guess=side, pcer_score=score)
        found = whole.group_by([*named, "pcer_guess"]).aggregate(
            **{N: whole.count(), columns.y_score: whole["pcer_score"].max()}
        )
    rows = executed(found, file=file)
    for argument in ("y_true", "y_pred", "split"):
        name = getattr(columns, argument)
        gaps = 0 if name is None else rows[N].to_numpy()[coded(rows[name]).codes < 0].sum()
        if gaps:
            raise InputError(
                f"{argument} is missing in {gaps:,} records; leave them out or fill them in.",
                field=argument,
            )
    return rows


def _require_few_values(name: str, column: Coded) -> None:
    """Refuse labels and groups with many values, before a database sorts them all."""
    if len(column.names) > MAX_GROUPS:
        raise InputError(
            f"column {name!r} has more than {MAX_GROUPS} values; join them into groups first, or "
            "give probabilities as the score.",
            field=name,
        )
