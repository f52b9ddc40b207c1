"""From a table of predictions of any size to releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.attacks.single import Advantage
from pcer.errors import InputError
from pcer.models import Options, arrays
from pcer.release.build import Counted, Entries, ReleaseFacts, build_release
from pcer.release.columns import attribute_views, cross
from pcer.release.format import Exposure, Release
from pcer.tables import count
from pcer.tables.source import (
    PredictionColumns,
    coded,
    executed,
    open_predictions,
    require_prediction_columns,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

IN_MEMORY = 1_000_000
"""Rows of a table that is read whole; a larger one is counted where it lies."""
MOST_RECORDS = 20_000_000
"""Rows of a table whose records are compared, which needs them whole: about 150 bytes each."""


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
    require_prediction_columns(table, columns, file=file)
    views = attribute_views(columns.attributes)
    if facts.groups is not None and len(views) > 1:
        raise InputError("the order of groups can be given for one attribute only.", field="groups")
    names = {name: [columns.attributes[k] for k in where] for name, where in views.items()}
    most = MOST_RECORDS if columns.record_id else IN_MEMORY
    content = executed(table.select(*dict.fromkeys(columns.names)).limit(most + 1), file=file)
    try:
        if len(content) <= most:
            rows = _rows(content, columns, facts)
            return arrays.releases_of(rows, names, facts, file=file, on_step=on_step)
        if columns.record_id:
            raise InputError(
                f"records can be compared in tables of up to {most:,} rows, and there are more; "
                "take fewer seeds or budgets, or leave record_id out.",
                field="record_id",
            )
        return _counted_releases(table, columns, facts, names, file)
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

    score = columns.membership_score or columns.loss
    counted = count.N in content.column_names  # then scores are counted in the database, too
    membership = None if score is None or counted else content[score].to_numpy().astype(np.float64)
    attributes = {name: coded(content[name]) for name in columns.attributes}
    for name, column in attributes.items():
        count.require_few_values(name, column)
    options = Options(
        epsilon=numbers(columns.epsilon),
        split_id=names(columns.split_id),
        threshold=columns.threshold,
        positive_label=facts.positive_label,
        membership_score=membership if columns.loss is None or membership is None else -membership,
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
    n = content[count.N].to_numpy() if counted else None
    return replace(rows, entries=replace(rows.entries, n=n))


def _counted_releases(
    table: ir.Table,
    columns: PredictionColumns,
    facts: ReleaseFacts,
    names: Mapping[str, list[str]],
    file: str,
) -> dict[str, Release]:
    """Releases of a table that does not fit in memory."""
    rows = _rows(count.distinct_rows(table, columns, file=file), columns, facts)
    views = {
        name: arrays.in_groups(rows, own, facts, attribute=name) for name, own in names.items()
    }
    counts = {name: counted for name, (_, counted) in views.items()}
    if columns.membership_score or columns.loss:
        found: dict[str, list[dict[str, Exposure]]] = {n: [{} for _ in rows.keys] for n in names}
        bounds = dict.fromkeys(names, 0.0)
        n_rows = np.bincount(rows.entries.run, rows.entries.n).astype(np.int64).tolist()
        for content in count.score_counts(table, columns, rows.keys, n_rows, file=file):
            for name, own in names.items():
                for k, group, auc, bound in _aucs(content, columns, own, rows, *views[name]):
                    bounds[name] = max(bounds[name], bound)
                    found[name][k][group] = arrays.own_exposure(counts[name], k, group, auc)
        for name, counted in counts.items():
            notes = [*counted.notes]
            if bounds[name]:
                notes.append(
                    f"{arrays.OWN_ATTACK} comes from a histogram of {count.N_BINS:,} bins; each "
                    f"value is within {bounds[name]:.2g} of the exact one."
                )
            counts[name] = arrays.with_own_attack(replace(counted, notes=notes), found[name])
    return {name: build_release(facts, counted, file=file) for name, counted in counts.items()}


def _aucs(
    content: Any,
    columns: PredictionColumns,
    own: list[str],
    rows: arrays.Rows,
    entries: Entries,
    counted: Counted,
) -> Iterator[tuple[int, str, Advantage, float]]:
    """Every model and group in some score counts, with its AUC and the AUC's bound."""
    whole = cross([rows.attributes[name] for name in own])
    place = {whole.names[c]: g for c, g in zip(whole.codes, entries.group, strict=True) if c >= 0}
    group = cross([coded(content[name]) for name in own])
    group_at = np.array([*(place.get(name, -1) for name in group.names), -1])[group.codes]
    epsilon = None if columns.epsilon is None else content[columns.epsilon]
    seed = 0 if columns.seed is None else content[columns.seed]
    run, keys = arrays.models_of(epsilon, seed, len(content))
    run_at = {(key.epsilon, key.seed): k for k, key in enumerate(rows.keys)}
    code = (run * (1 + len(counted.groups)) + 1 + group_at).astype(np.int64)
    counts = [content[name].to_numpy() for name in count.COUNTED]
    for at in arrays.rows_by_model(code, len(keys) * (1 + len(counted.groups))):
        if len(at) and group_at[at[0]] >= 0:
            auc = count.auc_from_counts(*(column[at] for column in counts))
            if auc is not None:
                key = keys[run[at[0]]]
                yield run_at[key.epsilon, key.seed], counted.groups[group_at[at[0]]], *auc
