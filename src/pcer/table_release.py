"""From a table of predictions of any size to releases: counted where it lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from pcer._version import __version__
from pcer.columns import text_of
from pcer.data.auc import Auc, auc_from_counts
from pcer.data.count import Cell, RunKey, count_cells
from pcer.data.membership import EXACT_ROWS, Groups, RunScores, membership_scores
from pcer.data.prediction_table import PredictionColumns, open_predictions
from pcer.errors import InputError
from pcer.jsonfile import explain
from pcer.release import (
    HINTS,
    Confusion,
    Exposure,
    GroupTables,
    Outcome,
    Provenance,
    Release,
    Run,
    SplitKind,
    Subject,
    Training,
)

PROXY = "auc_advantage"
_CROSSING = " & "


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """What a table of predictions cannot say about itself.

    Args:
        dataset: a name for the data.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        split_kind: "random" if the split was drawn at random, else "other"; every test of the
            audit rests on it.
        positive_label: which label is positive; needed unless labels are 0 and 1, or booleans.
        groups: the groups of the only attribute in the order wanted; sorted names by default.
        mechanism: how the models were trained, such as "dp-sgd".
        dp_delta: the delta of every model with a budget.
        notes: sentences to travel with the release.
    """

    dataset: str
    outcome: Outcome
    split_kind: SplitKind
    positive_label: str | int | float | bool | None = None
    groups: Sequence[Any] | None = None
    mechanism: str = "unknown"
    dp_delta: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value, known in (
            ("split_kind", self.split_kind, ("random", "other")),
            ("outcome", self.outcome, ("benefit", "harm")),
        ):
            if value not in known:
                raise InputError(f"{name} must be {known[0]!r} or {known[1]!r}, not {value!r}.")


def releases_from_table(
    source: Any,
    columns: PredictionColumns,
    facts: ReleaseFacts,
    *,
    backend: Any = None,
    exact_rows: int = EXACT_ROWS,
) -> dict[str, Release]:
    """One release per protected attribute and, if there are several, one for their crossing.

    The same integers as ``release_from_predictions`` on the same rows, whatever the backend.

    Args:
        source: path or pattern of CSV or Parquet files, a table's name, or a table.
        columns: which column holds what.
        facts: what the table cannot say about itself.
        backend: None for DuckDB; "pyspark", an Ibis connection or address.
        exact_rows: models with more rows get their AUC from a histogram with an error bound.

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    table, file = open_predictions(source, backend=backend)
    columns = columns.completed(table.columns)
    cells = count_cells(table, columns, positive=facts.positive_label, file=file)
    views = _views(columns.attributes)
    if facts.groups is not None and len(views) > 1:
        raise InputError("the order of groups can be given for one attribute only.")
    aucs: dict[str, dict[tuple[RunKey, str], Auc]] = {name: {} for name in views}
    if columns.membership_score or columns.loss:
        rows = _rows_per_run(cells)
        for run, scores in membership_scores(
            table, columns, rows, file=file, exact_rows=exact_rows
        ):
            for name, view in views.items():
                aucs[name].update(_aucs(run, scores, view))
    return {
        name: _release(name, view, cells, aucs[name], facts, file) for name, view in views.items()
    }


def _views(attributes: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Which positions of a row's groups make up each release's groups."""
    views: dict[str, tuple[int, ...]] = {name: (i,) for i, name in enumerate(attributes)}
    if len(attributes) > 1:
        views[_CROSSING.join(attributes)] = tuple(range(len(attributes)))
    return views


def _group(groups: Groups, view: tuple[int, ...]) -> str | None:
    """The group's name in a view; None where any part of it is not known."""
    parts = [groups[i] for i in view]
    return None if None in parts else _CROSSING.join(map(str, parts))


def _aucs(
    run: RunKey, scores: RunScores, view: tuple[int, ...]
) -> Iterable[tuple[tuple[RunKey, str], Auc]]:
    for name in sorted({_group(groups, view) for groups in scores} - {None}, key=str):
        auc = auc_from_counts(
            [part for groups, part in scores.items() if _group(groups, view) == name]
        )
        if auc is not None:
            yield (run, str(name)), auc


def _release(
    attribute: str,
    view: tuple[int, ...],
    cells: list[Cell],
    aucs: Mapping[tuple[RunKey, str], Auc],
    facts: ReleaseFacts,
    file: str,
) -> Release:
    counts, left_out = _tables(cells, view, facts.groups)
    found = sorted({group for _, _, group, _, _ in counts})
    names = found if facts.groups is None else [text_of(group) for group in facts.groups]
    if len(found) < 2:
        raise InputError(f"{file}: attribute {attribute!r} has one group only; an audit needs two.")
    runs = sorted({cell.run for cell in cells}, key=lambda run: run.order)
    try:
        return Release(
            subject=Subject(
                dataset=facts.dataset,
                attribute=attribute,
                groups=names,
                outcome=facts.outcome,
                positive_label=facts.positive_label,
                n_records=max(_rows_per_run(cells).values()),
                n_missing_group=max(left_out.values(), default=0),
                notes=[*facts.notes, *_notes(attribute, left_out, aucs.values())],
            ),
            training=Training(mechanism=facts.mechanism, split_kind=facts.split_kind),
            runs=[_run(run, names, counts, aucs, facts.dp_delta) for run in runs],
            provenance=Provenance(pcer_version=__version__),
        )
    except ValidationError as error:
        raise InputError(explain(error, file=file, hints=HINTS)) from None


def _tables(
    cells: list[Cell], view: tuple[int, ...], groups: Sequence[Any] | None
) -> tuple[Counter[tuple[RunKey, str, str, bool, bool]], Counter[RunKey]]:
    """Counts by (run, split, group, label, answer), and the records per run in no group."""
    wanted = None if groups is None else {text_of(group) for group in groups}
    counts: Counter[tuple[RunKey, str, str, bool, bool]] = Counter()
    left_out: Counter[RunKey] = Counter()
    for cell in cells:
        group = _group(cell.groups, view)
        if group is None or (wanted is not None and group not in wanted):
            left_out[cell.run] += cell.n
        else:
            counts[cell.run, cell.split, group, cell.positive, cell.predicted] += cell.n
    return counts, left_out


def _run(
    run: RunKey,
    names: list[str],
    counts: Counter[tuple[RunKey, str, str, bool, bool]],
    aucs: Mapping[tuple[RunKey, str], Auc],
    dp_delta: float | None,
) -> Run:
    def confusion(split: str, group: str) -> Confusion:
        return Confusion(
            tp=counts[run, split, group, True, True],
            fp=counts[run, split, group, False, True],
            tn=counts[run, split, group, False, False],
            fn=counts[run, split, group, True, False],
        )

    groups = {}
    for name in names:
        train, test = confusion("train", name), confusion("test", name)
        auc = aucs.get((run, name))
        exposure = {} if auc is None else {PROXY: _exposure(auc, train.n + test.n)}
        groups[name] = GroupTables(train=train, test=test, exposure=exposure)
    return Run(
        epsilon=run.epsilon,
        dp_delta=None if run.epsilon is None else dp_delta,
        seed=run.seed,
        split=run.split_id,
        groups=groups,
    )


def _exposure(auc: Auc, n_records: int) -> Exposure:
    return Exposure(
        value=auc.value - 0.5,
        standard_error=auc.standard_error,
        n_members=auc.n_members,
        n_nonmembers=auc.n_nonmembers,
        n_excluded=n_records - auc.n_members - auc.n_nonmembers,
    )


def _notes(attribute: str, left_out: Counter[RunKey], aucs: Iterable[Auc]) -> list[str]:
    notes = []
    if left_out:
        notes.append(
            f"{max(left_out.values()):,} records with a missing or unlisted {attribute} are in no "
            "group's table."
        )
    bound = max((auc.bound for auc in aucs), default=0.0)
    if bound:
        notes.append(
            f"{PROXY} comes from a histogram of 65,536 bins; each value is within {bound:.2g} of "
            "the exact one."
        )
    return notes


def _rows_per_run(cells: list[Cell]) -> Counter[RunKey]:
    rows: Counter[RunKey] = Counter()
    for cell in cells:
        rows[cell.run] += cell.n
    return rows
