"""From a table of predictions of any size to releases: counted where it lies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import ValidationError

from pcer._version import __version__
from pcer.attacks import BudgetScores, log_odds, pooled_exposures_of, pooled_notes
from pcer.errors import InputError
from pcer.files import explain
from pcer.release import (
    HINTS,
    Confusion,
    Exposure,
    GroupTables,
    Outcome,
    PooledExposure,
    Provenance,
    Release,
    Run,
    SplitKind,
    Subject,
    Training,
    cross,
    recode,
    text_of,
)
from pcer.tables.auc import Auc, auc_from_counts
from pcer.tables.count import Cell, RunKey, count_cells
from pcer.tables.membership import EXACT_ROWS, Groups, RunScores, membership_scores
from pcer.tables.records import BudgetRecords, records_by_budget
from pcer.tables.source import PredictionColumns, open_predictions

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
    rows, exposed = _rows_per_run(cells), {name: _Exposed() for name in views}
    if columns.membership_score or columns.loss:
        for run, scores in membership_scores(
            table, columns, rows, file=file, exact_rows=exact_rows
        ):
            for name, view in views.items():
                exposed[name].aucs.update(_aucs(run, scores, view))
    if columns.record_id:
        names = {name: _group_names(cells, view, facts.groups) for name, view in views.items()}
        for budget in records_by_budget(
            table, columns, rows, positive=facts.positive_label, file=file
        ):
            _compare_records(budget, views, names, exposed)
    return {
        name: _release(name, view, cells, exposed[name], facts, file)
        for name, view in views.items()
    }


@dataclass(frozen=True)
class _Exposed:
    """What attacks found for one release, and the splits that record ids gave away."""

    aucs: dict[tuple[RunKey, str], Auc] = field(default_factory=dict)
    pooled: list[PooledExposure] = field(default_factory=list)
    splits: dict[RunKey, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _compare_records(
    budget: BudgetRecords,
    views: Mapping[str, tuple[int, ...]],
    names: Mapping[str, list[str]],
    exposed: Mapping[str, _Exposed],
) -> None:
    """Each record with itself over the models of one budget, for the groups of every view."""
    logits, labels = log_odds(budget.probability), budget.positive.astype(np.int64)
    scores = [
        BudgetScores(
            logits=logits,
            labels=labels,
            member=budget.member,
            group=recode(cross([budget.groups[i] for i in view]), names[name]),
            group_names=tuple(names[name]),
        )
        for name, view in views.items()
    ]
    epsilon = budget.runs[0].epsilon
    found = pooled_exposures_of(scores, epsilon=math.inf if epsilon is None else epsilon)
    for one, pooled in zip(exposed.values(), found, strict=True):
        one.pooled.extend(pooled)
        one.splits.update(zip(budget.runs, budget.splits, strict=True))
        one.notes.extend(n for n in pooled_notes(len(budget.runs)) if n not in one.notes)


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


def _group_names(
    cells: list[Cell], view: tuple[int, ...], groups: Sequence[Any] | None
) -> list[str]:
    """The groups of a release: as given, or all that occur, sorted."""
    if groups is not None:
        return [text_of(group) for group in groups]
    return sorted({name for cell in cells if (name := _group(cell.groups, view)) is not None})


def _release(
    attribute: str,
    view: tuple[int, ...],
    cells: list[Cell],
    exposed: _Exposed,
    facts: ReleaseFacts,
    file: str,
) -> Release:
    counts, left_out = _tables(cells, view, facts.groups)
    names = _group_names(cells, view, facts.groups)
    if len({group for _, _, group, _, _ in counts}) < 2:
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
                notes=[
                    *facts.notes,
                    *_notes(attribute, left_out, exposed.aucs.values()),
                    *exposed.notes,
                ],
            ),
            training=Training(mechanism=facts.mechanism, split_kind=facts.split_kind),
            runs=[_run(run, names, counts, exposed, facts.dp_delta) for run in runs],
            pooled_exposure=exposed.pooled,
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
    exposed: _Exposed,
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
        auc = exposed.aucs.get((run, name))
        exposure = {} if auc is None else {PROXY: _exposure(auc, train.n + test.n)}
        groups[name] = GroupTables(train=train, test=test, exposure=exposure)
    return Run(
        epsilon=run.epsilon,
        dp_delta=None if run.epsilon is None else dp_delta,
        seed=run.seed,
        split=run.split_id or exposed.splits.get(run),
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
