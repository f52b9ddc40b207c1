"""What may a table of predictions be: files, a database's table, a data frame?

``pcer.tables.release`` and ``pcer release`` open them here. To add a backend whose CSV
reader guesses types: a row of ``_CSV_OPTIONS``.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.data.readers import frame_content, open_file
from pcer.errors import InputError, confusable
from pcer.release.columns import Coded, column_of

if TYPE_CHECKING:
    import ibis.expr.types as ir

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
        records = (self.membership_score, self.loss, self.record_id)
        named = (name for name in (*answers, *records) if name is not None)
        return (*self.runs, self.split, *self.attributes, *named)


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
