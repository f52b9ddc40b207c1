"""Counts of a membership score per model and group, gathered where the table lies.

A model with up to 5 million scored rows is counted by distinct score, which is exact. A larger one
is counted in 65,536 bins: first 4,096 cells of equal width, then every cell divided in proportion
to its rows, so that scores crowded near one value are still told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.errors import InputError
from pcer.release.build import RunKey
from pcer.release.columns import SPLITS
from pcer.tables.auc import ScoreCounts
from pcer.tables.count import group_key, run_key
from pcer.tables.source import PredictionColumns, executed

if TYPE_CHECKING:
    import ibis.expr.types as ir

Groups = tuple[str | None, ...]
RunScores = dict[Groups, ScoreCounts]

EXACT_ROWS = 5_000_000
N_BINS = 65_536
N_CELLS = 4_096
_SCORE, _BIN, _CELL, _PLACE = "pcer_score", "pcer_bin", "pcer_cell", "pcer_place"
_BUDGET, RUN_SEED = "pcer_budget", "pcer_seed"
_NO_BUDGET = -1.0  # no budget is negative
_COUNTED = ("low", "high", "members", "nonmembers")


def membership_scores(
    table: ir.Table,
    columns: PredictionColumns,
    rows: Mapping[RunKey, int],
    *,
    file: str = "the table",
    exact_rows: int = EXACT_ROWS,
) -> Iterator[tuple[RunKey, RunScores]]:
    """Every model's score counts by group, in batches that fit in memory.

    Args:
        table: any Ibis table.
        columns: which column holds what; names a membership score or a loss.
        rows: how many rows each model has.
        file: the name that errors call the table by.
        exact_rows: models with more rows are binned.
    """
    scored = _scored(table, columns, file)
    for batch in _batches(rows, exact_rows):
        part = scored if len(batch) == len(rows) else of_runs(scored, columns, batch)
        if max(rows[run] for run in batch) <= exact_rows:
            counted = _counted(part, columns, _SCORE)
        else:
            counted = _binned(part, columns, file)
        yield from _by_run(executed(counted, file=file), columns, file).items()


def _scored(table: ir.Table, columns: PredictionColumns, file: str) -> ir.Table:
    """The needed columns and the score, higher for members; rows without a score are left out."""
    name = columns.membership_score or str(columns.loss)
    if not table[name].type().is_numeric():
        raise InputError(f"{file}: column {name!r} must hold numbers.")
    score = table[name].cast("float64")
    score = score if columns.loss is None else -score
    keys = dict.fromkeys((*columns.runs, *columns.attributes, columns.split))
    chosen = table.select(**{key: table[key] for key in keys}, **{_SCORE: score})
    return chosen.filter(chosen[_SCORE].notnull() & ~chosen[_SCORE].isnan())


def _counted(scored: ir.Table, columns: PredictionColumns, by: str) -> ir.Table:
    """The one expression: members and non-members by model, groups and score (or bin)."""
    keys = list(dict.fromkeys((*columns.runs, *columns.attributes)))
    train, test = (scored[columns.split] == split for split in SPLITS)
    score = scored[_SCORE]
    return scored.group_by([*keys, by]).aggregate(
        low=score.min(), high=score.max(), members=train.sum(), nonmembers=test.sum()
    )


def _binned(scored: ir.Table, columns: PredictionColumns, file: str) -> ir.Table:
    """``_counted`` by bin: two small passes find the bins, the third counts."""
    import ibis
    import pyarrow as pa

    finite = scored.filter(~scored[_SCORE].isinf())
    ends = executed(
        finite.aggregate(low=finite[_SCORE].min(), high=finite[_SCORE].max()), file=file
    )
    low, high = ends["low"][0].as_py(), ends["high"][0].as_py()
    if low is None or low == high:
        return _counted(scored, columns, _SCORE)
    placed = _placed(scored, low, high)
    cells = executed(placed.group_by(_CELL).aggregate(n=placed.count()), file=file)
    first, size = _bins_per_cell(cells[_CELL].to_numpy(), cells["n"].to_numpy())
    sizes = ibis.memtable(pa.table({_CELL: np.arange(N_CELLS), "first": first, "size": size}))
    joined = placed.join(sizes, _CELL)
    inside = (joined[_PLACE] * joined["size"]).floor().cast("int64")
    inside = ibis.least(ibis.greatest(inside, 0), joined["size"] - 1)
    return _counted(joined.mutate(**{_BIN: joined["first"] + inside}), columns, _BIN)


def _placed(scored: ir.Table, low: float, high: float) -> ir.Table:
    """Each row's cell, and its place in it from 0 to 1; infinite scores go to the outer cells."""
    import ibis

    inner = ibis.least(ibis.greatest(scored[_SCORE], low), high)
    place = (inner - low) / (high - low) * N_CELLS
    cell = ibis.least(place.floor().cast("int64"), N_CELLS - 1)
    return scored.mutate(**{_CELL: cell, _PLACE: place - cell})


def _bins_per_cell(cells: Any, counts: Any) -> tuple[Any, Any]:
    """First bin and number of bins of every cell: one each, the others in proportion to rows."""
    rows = np.zeros(N_CELLS, dtype=np.int64)
    rows[cells] = counts
    size = 1 + (N_BINS - N_CELLS) * rows // max(int(rows.sum()), 1)
    return np.cumsum(size) - size, size


def _batches(rows: Mapping[RunKey, int], limit: int) -> Iterator[list[RunKey]]:
    """Models together as long as their rows stay within the limit."""
    batch: list[RunKey] = []
    total = 0
    for run, n in rows.items():
        if batch and total + n > limit:
            yield batch
            batch, total = [], 0
        batch, total = [*batch, run], total + n
    yield batch


def of_runs(scored: ir.Table, columns: PredictionColumns, runs: list[RunKey]) -> ir.Table:
    """The rows of the named models: a join, which stays fast where many models are asked for."""
    import ibis
    import pyarrow as pa

    budgets = [_NO_BUDGET if run.epsilon is None else run.epsilon for run in runs]
    wanted = pa.table({_BUDGET: budgets, RUN_SEED: [run.seed for run in runs]})
    keyed = scored.mutate(**{_BUDGET: _budget(scored, columns), RUN_SEED: _seed(scored, columns)})
    return keyed.semi_join(ibis.memtable(wanted), [_BUDGET, RUN_SEED])


def _budget(scored: ir.Table, columns: PredictionColumns) -> ir.Value:
    import ibis

    if columns.epsilon is None:
        return ibis.literal(_NO_BUDGET)
    budget = scored[columns.epsilon].cast("float64")
    without = budget.isnull() | budget.isnan() | budget.isinf()
    return ibis.ifelse(without, _NO_BUDGET, budget)


def _seed(scored: ir.Table, columns: PredictionColumns) -> ir.Value:
    import ibis

    return ibis.literal(0, "int64") if columns.seed is None else scored[columns.seed].cast("int64")


def _by_run(counted: Any, columns: PredictionColumns, file: str) -> dict[RunKey, RunScores]:
    """Arrow rows sorted into models and groups."""
    keys = [name for name in counted.column_names if name not in (*_COUNTED, _SCORE, _BIN)]
    codes = np.zeros(counted.num_rows, dtype=np.int64)
    for name in keys:
        encoded = counted[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
    _, first, position = np.unique(codes, return_index=True, return_inverse=True)
    numbers = {name: counted[name].to_numpy() for name in _COUNTED}
    found: dict[RunKey, dict[Groups, list[Any]]] = {}
    order = np.argsort(position, kind="stable")
    for one, rows in zip(
        first, np.split(order, np.cumsum(np.bincount(position))[:-1]), strict=True
    ):
        row = {name: counted[name][int(one)].as_py() for name in keys}
        groups = found.setdefault(run_key(row, columns, file), {})
        groups.setdefault(group_key(row, columns), []).append(rows)
    return {run: _as_counts(groups, numbers) for run, groups in found.items()}


def _as_counts(groups: dict[Groups, list[Any]], numbers: dict[str, Any]) -> RunScores:
    whole = {name: np.concatenate(parts) for name, parts in groups.items()}
    return {
        name: ScoreCounts(**{field: values[rows] for field, values in numbers.items()})
        for name, rows in whole.items()
    }
