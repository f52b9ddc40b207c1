"""Counts of a table that does not fit in memory, made where it lies.

Predictions come back as distinct rows, each with the number of records that it stands for. A
membership score comes back as members and others per score and model: by distinct score, which is
exact, up to 5 million scored rows of a model; beyond that in 65,536 bins (4,096 cells of equal
width, each divided in proportion to its rows, so that crowded scores are still told apart).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.attacks.single import Advantage, least_error
from pcer.errors import InputError
from pcer.metrics import FloatArray, IntArray
from pcer.release.build import RunKey
from pcer.release.columns import SPLITS, Coded
from pcer.tables.source import PredictionColumns, coded, executed

if TYPE_CHECKING:
    import ibis.expr.types as ir

COUNTED = ("low", "high", "members", "nonmembers")  # the columns of score counts
N = "pcer_n"
"""The column of how many records a row stands for."""
MAX_GROUPS = 200  # of one attribute; the release format has the same bound
EXACT_ROWS = 5_000_000
N_BINS = 65_536
N_CELLS = 4_096
_NO_BUDGET = -1.0  # no budget is negative


def distinct_rows(table: ir.Table, columns: PredictionColumns, *, file: str) -> Any:
    """Rows by model, split, groups, label and answer, with their number, as an arrow table.

    Labels are grouped by, not compared, so that a third value or a gap shows as a row of its own
    and costs no second pass. A score is one of those on its side of the threshold.
    """
    for name in filter(None, (columns.y_true, columns.y_pred, *columns.attributes)):
        few = table.select(name).limit(10_000).distinct().limit(MAX_GROUPS + 2)
        require_few_values(name, coded(executed(few, file=file)[name]))
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


def require_few_values(name: str, column: Coded) -> None:
    """Refuse labels and groups with many values, before a database sorts them all."""
    if len(column.names) > MAX_GROUPS:
        raise InputError(
            f"column {name!r} has more than {MAX_GROUPS} values; join them into groups first, or "
            "give probabilities as the score.",
            field=name,
        )


def auc_from_counts(
    low: FloatArray, high: FloatArray, members: IntArray, nonmembers: IntArray
) -> tuple[Advantage, float] | None:
    """AUC less 1/2 of scores, or of bins from ``low`` to ``high``, and a bound of its bins.

    The pairs of a member above a non-member are counted in whole numbers. Pairs within one bin
    could fall either way; counting them half is off by at most half of them, and that share is
    the bound. It is a bound, not an estimate: no distribution of scores breaks it. A score or bin
    may have several rows; bins must not overlap. None without members, or without non-members.

    >>> scores = np.array([0.1, 0.5, 0.7])
    >>> auc_from_counts(scores, scores, np.array([0, 1, 2]), np.array([2, 1, 0]))[0].value
    0.4444444444444444
    """
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    first = np.flatnonzero(np.r_[True, low[1:] > np.maximum.accumulate(high)[:-1]])
    members, nonmembers = (np.add.reduceat(side[order], first) for side in (members, nonmembers))
    n_members, n_nonmembers = int(members.sum()), int(nonmembers.sum())
    pairs = n_members * n_nonmembers
    if pairs == 0:
        return None
    kind = np.int64 if pairs < 2**61 else object  # beyond, twice the pairs need more than 64 bits
    members, nonmembers = members.astype(kind), nonmembers.astype(kind)
    beaten_twice = 2 * np.cumsum(nonmembers) - nonmembers
    won_twice = 2 * (n_members - np.cumsum(members)) + members
    value = int((members * beaten_twice).sum()) / (2 * pairs)
    unsure = (members * nonmembers)[low[first] < np.maximum.reduceat(high, first)].sum()
    variance = _delong(members, beaten_twice / (2 * n_nonmembers), value)
    variance += _delong(nonmembers, won_twice / (2 * n_members), value)
    error, smaller = None, min(n_members, n_nonmembers)
    if smaller > 1:
        error = least_error(math.sqrt(variance), value - 0.5, smaller)
    auc = Advantage(value - 0.5, error, n_members, n_nonmembers)
    return auc, int(unsure) / (2 * pairs)


def _delong(counts: Any, placements: Any, value: float) -> float:
    """Variance of one side's mean placement."""
    weights, places = counts.astype(np.float64), placements.astype(np.float64)
    n = weights.sum()
    return float((weights * (places - value) ** 2).sum() / max(n - 1, 1) / n)


def score_counts(
    table: ir.Table,
    columns: PredictionColumns,
    models: Sequence[RunKey],
    n_rows: Sequence[int],
    *,
    file: str,
) -> Iterator[Any]:
    """Members and non-members by model, groups and score: arrow tables that fit in memory.

    Args:
        table: any Ibis table.
        columns: which column holds what; names a membership score or a loss.
        models: all of them; ``n_rows`` is how many rows each has.
        file: the name that errors call the table by.
    """
    name = columns.membership_score or str(columns.loss)
    score = table[name].cast("float64")
    keys = list(dict.fromkeys((*columns.runs, *columns.attributes)))
    scored = table.select(
        **{key: table[key] for key in (*keys, columns.split)},
        pcer_score=score if columns.loss is None else -score,
    )
    scored = scored.filter(scored["pcer_score"].notnull() & ~scored["pcer_score"].isnan())
    for batch in _batches(n_rows):
        part, by = scored, "pcer_score"
        if len(batch) < len(models):
            part = _of_models(scored, columns, [models[k] for k in batch])
        if sum(n_rows[k] for k in batch) > EXACT_ROWS:
            part, by = _binned(part, file)
        train, test = (part[columns.split] == split for split in SPLITS)
        counted = part.group_by([*keys, by]).aggregate(
            low=part["pcer_score"].min(),
            high=part["pcer_score"].max(),
            members=train.sum(),
            nonmembers=test.sum(),
        )
        yield executed(counted, file=file)


def _batches(n_rows: Sequence[int]) -> Iterator[list[int]]:
    """Positions of models together as long as their rows can be counted exactly."""
    batch: list[int] = []
    for k, n in enumerate(n_rows):
        if batch and sum(n_rows[j] for j in batch) + n > EXACT_ROWS:
            yield batch
            batch = []
        batch.append(k)
    yield batch


def _of_models(scored: ir.Table, columns: PredictionColumns, models: Sequence[RunKey]) -> ir.Table:
    """The rows of the named models: a join, which stays fast where many models are asked for."""
    import ibis
    import pyarrow as pa

    budget, seed = ibis.literal(_NO_BUDGET), ibis.literal(0, "int64")
    if columns.epsilon is not None:
        budget = scored[columns.epsilon].cast("float64")
        without = budget.isnull() | budget.isnan() | budget.isinf()
        budget = ibis.ifelse(without, _NO_BUDGET, budget)
    if columns.seed is not None:
        seed = scored[columns.seed].cast("int64")
    budgets = [_NO_BUDGET if key.epsilon is None else key.epsilon for key in models]
    wanted = pa.table({"pcer_budget": budgets, "pcer_seed": [key.seed for key in models]})
    keyed = scored.mutate(pcer_budget=budget, pcer_seed=seed)
    return keyed.semi_join(ibis.memtable(wanted), ["pcer_budget", "pcer_seed"])


def _binned(scored: ir.Table, file: str) -> tuple[ir.Table, str]:
    """The rows with their bins, and the column to count them by: two small passes find the bins."""
    import ibis
    import pyarrow as pa

    score = scored["pcer_score"]
    finite = score.isinf().ifelse(None, score)
    ends = executed(scored.aggregate(low=finite.min(), high=finite.max()), file=file)
    low, high = ends["low"][0].as_py(), ends["high"][0].as_py()
    if low is None or low == high:
        return scored, "pcer_score"
    inner = ibis.least(ibis.greatest(score, low), high)  # infinite ones go to the outer cells
    place = (inner - low) / (high - low) * N_CELLS
    cell = ibis.least(place.floor().cast("int64"), N_CELLS - 1)
    placed = scored.mutate(pcer_cell=cell, pcer_place=place - cell)
    cells = executed(placed.group_by("pcer_cell").aggregate(n=placed.count()), file=file)
    rows = np.zeros(N_CELLS, dtype=np.int64)
    rows[cells["pcer_cell"].to_numpy()] = cells["n"].to_numpy()
    size = 1 + (N_BINS - N_CELLS) * rows // max(int(rows.sum()), 1)  # one each, others by rows
    first = np.cumsum(size) - size
    sizes = ibis.memtable(pa.table({"pcer_cell": np.arange(N_CELLS), "first": first, "size": size}))
    joined = placed.join(sizes, "pcer_cell")
    inside = (joined["pcer_place"] * joined["size"]).floor().cast("int64")
    inside = ibis.least(ibis.greatest(inside, 0), joined["size"] - 1)
    return joined.mutate(pcer_bin=joined["first"] + inside), "pcer_bin"
