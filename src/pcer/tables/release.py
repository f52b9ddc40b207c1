"""From a table of predictions of any size to releases.

A table that fits in memory is read whole. A larger one is counted by its database,
which returns its distinct rows with their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pcer.data.readers import executed, require_columns
from pcer.errors import InputError
from pcer.models import Options, arrays
from pcer.release.attack_kinds import AUC_ADVANTAGE
from pcer.release.build import ReleaseFacts
from pcer.release.columns import Coded, attribute_views, numbers_of, required_column
from pcer.release.file import Release
from pcer.release.small_groups import same_people
from pcer.tables.source import PredictionColumns, coded, open_predictions

if TYPE_CHECKING:
    import ibis.expr.types as ir

# rows of a table that is read whole; a larger one is counted by its database
IN_MEMORY = 1_000_000
# Rows of a table whose records are compared, which needs them whole: about 150 bytes
# each.
MOST_RECORDS = 20_000_000
MAX_GROUPS = 200  # of one attribute; the release format has the same bound
N = "pcer_n"  # the column with the number of records of a row


def releases_from_table(
    source: Any,
    columns: PredictionColumns,
    facts: ReleaseFacts,
    *,
    backend: Any = None,
    beside: Sequence[Release] = (),
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """One release per protected attribute, or crossing of several such as "sex & race".

    The same as ``releases_from_predictions`` of the same rows, whatever the backend.

    Args:
        source: path or pattern of CSV or Parquet files, a table's name, or a table.
        columns: which column holds what.
        facts: what the table cannot say about itself.
        backend: None for DuckDB; "pyspark", an Ibis connection or address.
        beside: existing releases; those of the same people take precedence.
        on_step: called with the name of each step after the attacks.

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    table, file = open_predictions(source, backend=backend)
    unnamed = (
        name
        for name in ("epsilon", "seed", "split_id")
        if getattr(columns, name) is None
    )
    usual: Any = {name: name for name in unnamed if name in table.columns}
    columns = replace(columns, **usual)
    views = attribute_views(columns.attributes, table.columns)
    if facts.groups is not None and len(views) > 1:
        raise InputError(
            "the order of groups can be given for one attribute only.", field="groups"
        )
    try:
        rows = _read(table, columns, views, facts, file=file)
        digest = rows.digest(facts)
        beside = same_people(beside, facts.dataset, digest)
        there = attribute_views(
            [each.subject.attribute for each in beside], table.columns
        )
        for name, own in there.items():
            if not set(own) <= set(table.columns):
                raise InputError(
                    f"a release of the same people by {name!r} exists already, and the table has "
                    "no such column; choose another folder.",
                    field="out",
                )
        if beside:
            rows = _read(table, columns, views | there, facts, file=file)
        facts = replace(facts, data_digest=digest)
        return arrays.releases_of(
            rows, views, facts, file=file, beside=beside, on_step=on_step
        )
    except InputError as error:
        column = getattr(
            columns, error.field or "", None
        )  # what the user calls that argument
        where = f"{file}, column {column!r}" if isinstance(column, str) else file
        sentence = str(error) if str(error).startswith(file) else f"{where}: {error}"
        raise InputError(sentence, field=error.field) from None


def _read(
    table: ir.Table,
    columns: PredictionColumns,
    views: dict[str, list[str]],
    facts: ReleaseFacts,
    *,
    file: str,
) -> arrays.Rows:
    """The rows with these attributes: whole, or counted where they lie."""
    parts = dict.fromkeys(part for own in views.values() for part in own)
    columns = replace(columns, attributes=tuple(parts))
    require_columns(columns.names, list(table.columns), file=file)
    wholes = ("record_id", "membership_score", "loss")  # what needs every row
    compared = next((name for name in wholes if getattr(columns, name)), None)
    most = IN_MEMORY if compared is None else MOST_RECORDS
    content = executed(
        table.select(*dict.fromkeys(columns.names)).limit(most + 1), file=file
    )
    if len(content) > most and compared is not None:
        raise InputError(
            f"records can be compared in tables of up to {most:,} rows, and there are more; "
            f"take fewer seeds or budgets, or leave {compared} out.",
            field=compared,
        )
    if len(content) > most:
        content = _distinct_rows(table, columns, file=file)
    return _rows(content, columns, facts)


def _rows(content: Any, columns: PredictionColumns, facts: ReleaseFacts) -> arrays.Rows:
    """The rows of an arrow table, checked; with how many records each stands for, if it says so."""

    def names(name: str | None) -> Any:
        return None if name is None else coded(content[name])

    def numbers(name: str | None, default: Any = None) -> Any:
        return default if name is None else content[name]

    membership = None
    own = columns.membership_score
    if own is not None:
        membership = {own: content[own]}
    elif columns.loss is not None:  # which is what our own attack uses
        loss = numbers_of(content[columns.loss], len(content), name="loss")
        membership = {AUC_ADVANTAGE.name: -loss}
    attributes = {name: _few_values(name, content[name]) for name in columns.attributes}
    options = Options(
        epsilon=numbers(columns.epsilon),
        split_id=names(columns.split_id),
        threshold=columns.threshold,
        positive_label=facts.positive_label,
        membership_score=membership,
        secret=facts.secret,
    )
    rows = arrays.rows_of(
        (names(columns.y_true), names(columns.y_pred), numbers(columns.y_score)),
        names(columns.split),
        attributes,
        record_id=names(columns.record_id),
        seed=numbers(columns.seed, 0),
        options=options,
    )
    n = content[N].to_numpy() if N in content.column_names else None
    return replace(rows, entries=replace(rows.entries, n=n))


def _distinct_rows(table: ir.Table, columns: PredictionColumns, *, file: str) -> Any:
    """Rows by model, split, groups, label and answer, with their number, as an arrow table."""
    # Labels are grouped, not compared, so that a third value or a gap becomes a
    # separate row without a second pass. A score counts by its side of the threshold.
    for name in filter(None, (columns.y_true, columns.y_pred, *columns.attributes)):
        few = table.select(name).limit(10_000).distinct().limit(MAX_GROUPS + 2)
        _few_values(name, executed(few, file=file)[name])
    keys = (
        *columns.runs,
        columns.split,
        *columns.attributes,
        columns.y_true,
        columns.y_pred,
    )
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
        if (name := getattr(columns, argument)) is not None:
            required_column(coded(rows[name]), name=argument, n=rows[N].to_numpy())
    return rows


def _few_values(name: str, values: Any) -> Coded:
    """Labels or groups as codes; many values are refused, before a database sorts them all."""
    column = coded(values)
    if len(column.names) > MAX_GROUPS:
        raise InputError(
            f"column {name!r} has more than {MAX_GROUPS} values; join them into groups first, or "
            "give probabilities as the score.",
            field=name,
        )
    return column
