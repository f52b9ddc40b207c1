"""How does a table of predictions of any size become releases?

``pcer release TABLE`` calls ``releases_from_table``. A table that fits in memory is
read whole. A larger one is counted by its database, which returns its distinct rows
with their numbers. Either way ``pcer.models.arrays`` makes the releases. To add an
argument: a field of ``PredictionColumns``, heeded in ``_read``; a backend whose CSV
reader guesses types: a row of ``_CSV_OPTIONS``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.data.readers import executed, frame_content, open_file, require_columns
from pcer.errors import InputError, confusable
from pcer.models.arrays import other_attributes, releases_of, with_traits
from pcer.models.rows import Predictions, Rows, rows_of
from pcer.release.attack_kinds import AUC_ADVANTAGE
from pcer.release.build import ReleaseFacts
from pcer.release.columns import (
    Coded,
    attribute_views,
    column_of,
    numbers_of,
    required_column,
)
from pcer.release.file import Release
from pcer.release.small_groups import same_people

if TYPE_CHECKING:
    import ibis.expr.types as ir

# What a table may be: files, a database's table, a data frame

# Backends guess the types of a CSV file differently; "yes" must stay a text.
_CSV_OPTIONS: dict[str, dict[str, Any]] = {
    "duckdb": {"header": True, "auto_type_candidates": ["BIGINT", "DOUBLE", "VARCHAR"]},
    "pyspark": {"header": True, "inferSchema": True},
}


@dataclass(frozen=True, kw_only=True)
class PredictionColumns:
    """Which column of a prediction table holds what. One table can hold many models.

    Where ``epsilon``, ``seed`` or ``split_id`` is None, a column of that name is used
    if the table has one (rows of different models must never be counted together);
    without it there is no DP, one model per budget, and nothing known of the split.

    Args:
        attributes: the protected attributes, at least one.
        y_true: labels with two values.
        y_pred: predicted labels; None where ``y_score`` is given instead.
        y_score: probabilities in [0, 1], positive from ``threshold`` on.
        threshold: used with ``y_score`` only.
        split: "train" or "test".
        epsilon: the model's budget, missing or infinite without DP.
        seed: the model's number within its budget.
        split_id: which models used the same split.
        membership_score: an attacker's score, higher where a record seems a member.
        loss: the model's loss, lower where a record seems a member; instead of a score.
        record_id: names a record in every model, so that it can be compared with
            itself.
        person_id: who has the record, where people have several.
        subgroups: attributes whose combinations are searched for the subgroup that is
            hit hardest; they need ``record_id``.
    """

    attributes: tuple[str, ...]
    y_true: str = "y_true"
    y_pred: str | None = "y_pred"
    y_score: str | None = None
    threshold: float = 0.5
    split: str = "split"
    epsilon: str | None = None
    seed: str | None = None
    split_id: str | None = None
    membership_score: str | None = None
    loss: str | None = None
    record_id: str | None = None
    person_id: str | None = None
    subgroups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.attributes:
            raise InputError(
                "name at least one column in attributes.", field="attributes"
            )
        if not 0 <= self.threshold <= 1:
            raise InputError(
                f"threshold must be a probability, not {self.threshold!r}.",
                field="threshold",
            )
        two = confusable(self.attributes)
        if two is not None:
            raise InputError(
                f"attributes {two[0]!r} and {two[1]!r} read alike; rename a column.",
                field="attributes",
            )
        if self.membership_score is not None and self.loss is not None:
            raise InputError(
                "give either a membership score or a loss, not both.",
                field="membership_score",
            )

    @property
    def runs(self) -> tuple[str, ...]:
        """The columns that identify a model."""
        columns = (self.epsilon, self.seed, self.split_id)
        return tuple(name for name in columns if name is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read."""
        answers = (self.y_true, self.y_pred, self.y_score)
        records = (
            self.membership_score,
            self.loss,
            self.record_id,
            self.person_id,
        )
        named = (name for name in (*answers, *records) if name is not None)
        return (*self.runs, self.split, *self.attributes, *named, *self.subgroups)


def open_predictions(source: Any, *, backend: Any = None) -> tuple[ir.Table, str]:
    """An Ibis table, nothing of it read yet, and the name that errors call it by."""
    import ibis

    if isinstance(source, ibis.expr.types.Table):
        return source, "the table"
    if not isinstance(source, str | os.PathLike):
        return ibis.memtable(frame_content(source)), "the table"
    connection = connect(backend)
    if isinstance(backend, str) and "://" in backend:
        present = connection.list_tables()
        if source not in present:
            listed = ", ".join(present[:10]) or "none"
            raise InputError(f"the backend has no table {source!r}; it has: {listed}.")
        return connection.table(source), str(source)
    return open_file(source, connection, _CSV_OPTIONS.get(connection.name, {}))


def connect(backend: Any) -> Any:
    """An Ibis connection: DuckDB by default."""
    import ibis

    if backend is None or backend == "duckdb":
        return ibis.duckdb.connect(temp_directory=tempfile.gettempdir())
    if not isinstance(backend, str):
        return backend
    try:
        if "://" in backend:
            return ibis.connect(backend)
        return getattr(ibis, backend).connect()
    except Exception:  # every driver has other errors, and they quote addresses
        name = backend.split("://")[0]
        needs = " (Spark also needs Java)" if name == "pyspark" else ""
        raise InputError(
            f"the backend {name!r} cannot be used here; check its address, install "
            f'its driver with pip install "ibis-framework[{name}]"{needs}, or leave '
            "backend out.",
            field="backend",
        ) from None


def coded(values: Any) -> Coded:
    """An arrow column as codes into its sorted names; -1 where a value is missing."""
    encoded = values.combine_chunks().dictionary_encode()
    distinct = column_of(encoded.dictionary.to_pylist(), "")
    codes = np.append(distinct.codes, -1)[encoded.indices.fill_null(-1).to_numpy()]
    return Coded(distinct.names, codes)


# Counting it

# Rows of a table that is read whole; a larger one is counted by its database.
IN_MEMORY = 1_000_000
# Rows of a table whose records are compared, which needs them whole: about 150 bytes
# each.
MOST_RECORDS = 20_000_000
MAX_GROUPS = 200  # of one attribute; the release format has the same bound
N = "pcer_n"  # the column with the number of records of a row


def releases_from_table(  # noqa: PLR0913 # front door of the room
    source: Any,
    columns: PredictionColumns,
    facts: ReleaseFacts,
    *,
    backend: Any = None,
    beside: Sequence[Release] = (),
    on_step: Callable[[str], None] = lambda doing: None,
    on_rows: Callable[[Rows, dict[str, list[str]]], None] = lambda rows, views: None,
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
        on_rows: called with the rows, and the columns of each attribute, before they
            are counted; may refuse them.

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
        on_rows(rows, views)
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
    attributes: list[str] = []
    for release in releases:
        attributes += [release.subject.attribute, *other_attributes(release)]
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
    _require_plain(chosen, file=file)
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


def _require_plain(chosen: Any, *, file: str) -> None:
    """Raise InputError for a column whose values are lists or records."""
    for name, kind in chosen.schema().items():
        if kind.is_nested():
            raise InputError(
                f"{file}: column {name!r} holds lists or records; give it one value a "
                "row."
            )


def _compared(columns: PredictionColumns) -> str | None:
    """The argument that needs every row of the table; None if counts suffice."""
    if columns.record_id is not None:
        return "record_id"
    if columns.person_id is not None:
        return "person_id"
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
        person_id=_names(content, columns.person_id),
        membership_score=membership,
        positive_label=facts.positive_label,
        threshold=columns.threshold,
    )
    rows = rows_of(given, attributes)
    n = content[N].to_numpy() if N in content.column_names else None
    rows = replace(rows, entries=replace(rows.entries, n=n))
    traits = {name: _few_values(name, content[name]) for name in columns.subgroups}
    return with_traits(rows, traits or None, traits)


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
