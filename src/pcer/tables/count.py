"""Count predictions where they lie: one Ibis expression, a handful of integers back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pcer.errors import InputError
from pcer.release.build import RunKey
from pcer.release.columns import positive_name, require_splits, seed_of, text_of
from pcer.tables.source import PredictionColumns, executed, require_prediction_columns

if TYPE_CHECKING:
    import ibis.expr.types as ir

MAX_GROUPS = 200  # of one attribute; the release format has the same bound
_PEEK_ROWS = 10_000
_TRUTH, _GUESS, _COUNT = "pcer_truth", "pcer_guess", "pcer_n"
_OUTSIDE = -1  # how the expression marks a probability outside [0, 1]


class Cell(NamedTuple):
    """How many records of one model, one split and one combination of groups got which answer."""

    run: RunKey
    split: str
    groups: tuple[str | None, ...]
    positive: bool
    predicted: bool
    n: int


def counting_expression(table: ir.Table, columns: PredictionColumns) -> ir.Table:
    """The one expression: rows by model, split, groups, label and answer.

    Labels are grouped by, not compared, so that a third value or a gap shows as a row of its own
    and costs no second pass.
    """
    keys = (*columns.runs, columns.split, *columns.attributes)
    named = {name: table[name] for name in dict.fromkeys(keys)}
    whole = table.select(**named, **{_TRUTH: table[columns.y_true], _GUESS: _guess(table, columns)})
    return whole.group_by(list(whole.columns)).aggregate(**{_COUNT: whole.count()})


def count_cells(
    table: ir.Table, columns: PredictionColumns, *, positive: Any = None, file: str = "the table"
) -> list[Cell]:
    """Run the expression and check what came back.

    Args:
        table: any Ibis table.
        columns: which column holds what.
        positive: which label is positive; needed unless labels are 0 and 1, or booleans.
        file: the name that errors call the table by.

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    require_prediction_columns(table, columns, file=file)
    _require_few_values(table, columns, file)
    rows = executed(counting_expression(table, columns), file=file).to_pylist()
    if not rows:
        raise InputError(f"{file} has no records; give at least one per group and split.")
    _require_complete(rows, columns, file)
    name = _positive_name(rows, columns, positive, file)
    return [_cell(row, columns, name, file) for row in rows]


def run_key(row: dict[str, Any], columns: PredictionColumns, file: str) -> RunKey:
    """The model that a row of any expression grouped by ``columns.runs`` belongs to."""
    return RunKey(
        _epsilon(row[columns.epsilon], file) if columns.epsilon else None,
        seed_of(row[columns.seed], where=f"{file}: seed") if columns.seed else 0,
        _text(row[columns.split_id]) if columns.split_id else None,
    )


def group_key(row: dict[str, Any], columns: PredictionColumns) -> tuple[str | None, ...]:
    """The groups that a row belongs to, one per attribute; None where it is not known."""
    return tuple(_text(row[name]) for name in columns.attributes)


def _guess(table: ir.Table, columns: PredictionColumns) -> ir.Value:
    import ibis

    if columns.y_pred is not None:
        return table[columns.y_pred]
    score = table[columns.y_score].cast("float64")
    return ibis.cases(
        (score.isnull() | score.isnan(), ibis.null("int8")),
        ((score < 0) | (score > 1), ibis.literal(_OUTSIDE, "int8")),
        (score >= columns.threshold, ibis.literal(1, "int8")),
        else_=ibis.literal(0, "int8"),
    )


def _require_few_values(table: ir.Table, columns: PredictionColumns, file: str) -> None:
    """Refuse labels and groups with many values before a database sorts them all."""
    bounds = {columns.y_true: 2, **dict.fromkeys(columns.attributes, MAX_GROUPS)}
    if columns.y_pred is not None:
        bounds[columns.y_pred] = 2
    for name, bound in bounds.items():
        few = table.select(name).limit(_PEEK_ROWS).distinct().limit(bound + 2)
        values = {_text(row[name]) for row in executed(few, file=file).to_pylist()} - {None}
        if len(values) > bound:
            raise InputError(_too_many(name, bound, file))


def _too_many(name: str, bound: int, file: str) -> str:
    if bound == 2:
        return (
            f"{file}: column {name!r} must have two values, but has more; give predicted labels, "
            "or name a column of probabilities (y_score)."
        )
    return f"{file}: attribute {name!r} has more than {bound} values; join them into groups first."


def _require_complete(rows: list[dict[str, Any]], columns: PredictionColumns, file: str) -> None:
    guess = columns.y_pred or columns.y_score
    for key, name in ((_TRUTH, columns.y_true), (_GUESS, guess), (columns.split, columns.split)):
        gaps = sum(row[_COUNT] for row in rows if _text(row[key]) is None)
        if gaps:
            raise InputError(
                f"{file}: column {name!r} is missing in {gaps:,} records; leave them out or fill "
                "them in."
            )
    require_splits(
        {str(row[columns.split]) for row in rows}, where=f"{file}: column {columns.split!r}"
    )
    if columns.y_score and any(row[_GUESS] == _OUTSIDE for row in rows):
        raise InputError(
            f"{file}: column {columns.y_score!r} must be probabilities in [0, 1]; apply the "
            "sigmoid to logits, or give predicted labels."
        )


def _positive_name(
    rows: list[dict[str, Any]], columns: PredictionColumns, positive: Any, file: str
) -> str:
    keys = (_TRUTH,) if columns.y_pred is None else (_TRUTH, _GUESS)
    values = sorted({text_of(row[key]) for row in rows for key in keys})
    return positive_name(values, positive, where=f"{file}: labels and predictions")


def _cell(row: dict[str, Any], columns: PredictionColumns, positive: str, file: str) -> Cell:
    scored = columns.y_pred is None
    return Cell(
        run=run_key(row, columns, file),
        split=str(row[columns.split]),
        groups=group_key(row, columns),
        positive=text_of(row[_TRUTH]) == positive,
        predicted=row[_GUESS] == 1 if scored else text_of(row[_GUESS]) == positive,
        n=int(row[_COUNT]),
    )


def _epsilon(value: Any, file: str) -> float | None:
    try:
        number = math.inf if value is None else float(value)
    except (TypeError, ValueError):
        raise InputError(f"{file}: epsilon must hold numbers, not {value!r}.") from None
    if math.isnan(number) or number == math.inf:
        return None
    if number <= 0:
        raise InputError(f"{file}: epsilon must be above 0; leave it empty without privacy.")
    return number


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return text_of(value)
