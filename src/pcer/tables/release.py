"""How does a table of predictions of any size become releases?

``pcer release TABLE`` calls ``releases_from_table``. A table that fits in memory is
read whole. A larger one is counted by its database, which returns its distinct rows
with their numbers. Either way ``pcer.models.arrays`` makes the releases. To add an
argument: a field of ``PredictionColumns``, heeded in ``_read``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pcer.data.readers import executed, require_columns
from pcer.errors import InputError
from pcer.models.arrays import releases_of
from pcer.models.rows import Predictions, Rows, rows_of
from pcer.release.attack_kinds import AUC_ADVANTAGE
from pcer.release.build import ReleaseFacts
from pcer.release.columns import Coded, attribute_views, numbers_of, required_column
from pcer.release.file import Release
from pcer.release.small_groups import same_people
from pcer.tables.source import PredictionColumns, coded, open_predictions

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Rows of a table that is read whole; a larger one is counted by its database.
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
    columns = _with_usual_names(columns, table.columns)
    views = attribute_views(columns.attributes, table.columns)
    if facts.groups is not None and len(views) > 1:
        raise InputError(
            "the order of groups can be given for one attribute only.", field="groups"
        )
    try:
        rows = _read(table, columns, views, file=file, facts=facts)
        facts = replace(facts, data_digest=rows.digest(facts))
        beside = same_people(beside, facts.dataset, facts.data_digest)
        if beside:
            existing = _views_of_releases(beside, table.columns)
            rows = _read(table, columns, views | existing, file=file, facts=facts)
        return releases_of(
            rows, views, facts, file=file, beside=beside, on_step=on_step
        )
    except InputError as error:
        raise _with_place(error, columns, file) from None


def _with_usual_names(
    columns: PredictionColumns, present: Sequence[str]
) -> PredictionColumns:
    """What identifies a model, by the columns' usual names unless others are given."""
    if columns.epsilon is None and "epsilon" in present:
        columns = replace(columns, epsilon="epsilon")
    if columns.seed is None and "seed" in present:
        columns = replace(columns, seed="seed")
    if columns.split_id is None and "split_id" in present:
        columns = replace(columns, split_id="split_id")
    return columns


def _views_of_releases(
    releases: Sequence[Release], present: Sequence[str]
) -> dict[str, list[str]]:
    """The columns of the attributes of existing releases; InputError if one is gone."""
    attributes = [release.subject.attribute for release in releases]
    views = attribute_views(attributes, present)
    for name, parts in views.items():
        if not set(parts) <= set(present):
            raise InputError(
                f"a release of the same people by {name!r} exists already, and the "
                "table has no such column; choose another folder.",
                field="out",
            )
    return views


def _with_place(error: InputError, columns: PredictionColumns, file: str) -> InputError:
    """The error with the file, and with what the user calls the column."""
    sentence = str(error)
    if not sentence.startswith(file):
        column = asdict(columns).get(error.field or "")
        where = f"{file}, column {column!r}" if isinstance(column, str) else file
        sentence = f"{where}: {sentence}"
    return InputError(sentence, field=error.field)


def _read(
    table: ir.Table,
    columns: PredictionColumns,
    views: dict[str, list[str]],
    *,
    file: str,
    facts: ReleaseFacts,
) -> Rows:
    """The rows with these attributes: whole, or counted where they lie."""
    attributes: dict[str, None] = {}
    for parts in views.values():
        attributes |= dict.fromkeys(parts)
    columns = replace(columns, attributes=tuple(attributes))
    require_columns(columns.names, list(table.columns), file=file)
    compared = _compared(columns)
    most = IN_MEMORY if compared is None else MOST_RECORDS
    chosen = table.select(*dict.fromkeys(columns.names))
    content = executed(chosen.limit(most + 1), file=file)
    if len(content) > most:
        if compared is not None:
            raise InputError(
                f"records can be compared in tables of up to {most:,} rows, and there "
                f"are more; take fewer seeds or budgets, or leave {compared} out.",
                field=compared,
            )
        content = _distinct_rows(table, columns, file=file)
    return _rows(content, columns, facts)


def _compared(columns: PredictionColumns) -> str | None:
    """The argument that needs every row of the table; None if counts suffice."""
    if columns.record_id is not None:
        return "record_id"
    if columns.membership_score is not None:
        return "membership_score"
    return None if columns.loss is None else "loss"


def _distinct_rows(table: ir.Table, columns: PredictionColumns, *, file: str) -> Any:
    """An arrow table of rows that differ, and how many records each stands for.

    Rows differ in model, split, groups, label or answer.
    """
    for name in (columns.y_true, columns.y_pred, *columns.attributes):
        if name is not None:  # refuse many, before a database sorts them all
            few = table.select(name).limit(10_000).distinct().limit(MAX_GROUPS + 2)
            _few_values(name, executed(few, file=file)[name])

    # Labels are grouped, not compared, so that a third value or a gap becomes a
    # separate row without a second pass.
    by = (*columns.runs, columns.split, *columns.attributes, columns.y_true)
    named = {name: table[name] for name in by}
    if columns.y_pred is not None:
        named[columns.y_pred] = table[columns.y_pred]
    if columns.y_score is None:
        whole = table.select(**named)
        counted = whole.group_by(list(named)).aggregate(**{N: whole.count()})
    else:
        # A score counts by its side of the threshold.
        score = table[columns.y_score].cast("float64")
        is_wrong = score.isnull() | score.isnan() | (score < 0) | (score > 1)
        side = is_wrong.ifelse(-1, (score >= columns.threshold).cast("int8"))
        whole = table.select(**named, pcer_guess=side, pcer_score=score)
        counted = whole.group_by([*named, "pcer_guess"]).aggregate(
            **{N: whole.count(), columns.y_score: whole["pcer_score"].max()}
        )
    rows = executed(counted, file=file)
    answers = {"y_true": columns.y_true, "y_pred": columns.y_pred}
    for name, column in {**answers, "split": columns.split}.items():
        if column is not None:
            required_column(coded(rows[column]), name=name, n=rows[N].to_numpy())
    return rows


def _rows(content: Any, columns: PredictionColumns, facts: ReleaseFacts) -> Rows:
    """The rows of an arrow table, checked; each may stand for many records."""
    membership = _membership(content, columns)
    attributes = {name: _few_values(name, content[name]) for name in columns.attributes}
    given = Predictions(
        y_true=_names(content, columns.y_true),
        y_pred=_names(content, columns.y_pred),
        y_score=_numbers(content, columns.y_score),
        split=_names(content, columns.split),
        seed=_numbers(content, columns.seed),
        epsilon=_numbers(content, columns.epsilon),
        split_id=_names(content, columns.split_id),
        record_id=_names(content, columns.record_id),
        membership_score=membership,
        positive_label=facts.positive_label,
        threshold=columns.threshold,
    )
    rows = rows_of(given, attributes)
    n = content[N].to_numpy() if N in content.column_names else None
    return replace(rows, entries=replace(rows.entries, n=n))


def _membership(content: Any, columns: PredictionColumns) -> dict[str, Any] | None:
    """An attacker's score by its name; a loss is the score of our own attack."""
    name = columns.membership_score
    if name is not None:
        return {name: content[name]}
    if columns.loss is None:
        return None
    loss = numbers_of(content[columns.loss], len(content), name="loss")
    return {AUC_ADVANTAGE.name: -loss}


def _names(content: Any, column: str | None) -> Coded | None:
    return None if column is None else coded(content[column])


def _numbers(content: Any, column: str | None) -> Any:
    return None if column is None else content[column]


def _few_values(name: str, values: Any) -> Coded:
    """Labels or groups as codes; InputError where there are many."""
    column = coded(values)
    if len(column.names) > MAX_GROUPS:
        raise InputError(
            f"column {name!r} has more than {MAX_GROUPS} values; join them into groups "
            "first, or give probabilities as the score.",
            field=name,
        )
    return column
