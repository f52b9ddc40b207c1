"""From a table of predictions of any size to releases: counted where it lies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcer.attacks import BudgetScores, log_odds, with_costs
from pcer.attacks.costs import PLACEBO
from pcer.errors import InputError
from pcer.metrics import IntArray
from pcer.release import proxies
from pcer.release.build import (
    Counted,
    CountedRun,
    Entries,
    ReleaseFacts,
    RunKey,
    build_release,
    count_entries,
    published_splits,
    regrouping_of,
)
from pcer.release.columns import CROSSING, SPLITS, attribute_views, cross, recode
from pcer.release.disclosure import Regrouping
from pcer.release.format import Exposure, Release
from pcer.tables.auc import Auc, auc_from_counts
from pcer.tables.count import Cell, count_cells
from pcer.tables.membership import EXACT_ROWS, Groups, RunScores, membership_scores
from pcer.tables.records import MOST_ROWS, BudgetRecords, records_by_budget
from pcer.tables.source import PredictionColumns, open_predictions

PROXY = proxies.AUC_ADVANTAGE.name


def releases_from_table(
    source: Any,
    columns: PredictionColumns,
    facts: ReleaseFacts,
    *,
    backend: Any = None,
    exact_rows: int = EXACT_ROWS,
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """One release per protected attribute and, if there are several, one for their crossing.

    The same integers as ``release_from_predictions`` on the same rows, whatever the backend.

    Args:
        source: path or pattern of CSV or Parquet files, a table's name, or a table.
        columns: which column holds what.
        facts: what the table cannot say about itself.
        backend: None for DuckDB; "pyspark", an Ibis connection or address.
        exact_rows: models with more rows get their AUC from a histogram with an error bound.
        on_step: called with what is done next, after the counting.

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    table, file = open_predictions(source, backend=backend)
    columns = columns.completed(table.columns)
    cells = count_cells(table, columns, positive=facts.positive_label, file=file)
    positions = attribute_views(columns.attributes)
    if facts.groups is not None and len(positions) > 1:
        raise InputError("the order of groups can be given for one attribute only.")
    views = {name: _view(name, where, cells, facts, file) for name, where in positions.items()}
    rows = _rows_per_run(cells)
    aucs: dict[str, dict[tuple[RunKey, str], Auc]] = {name: {} for name in views}
    if columns.membership_score or columns.loss:
        for run, scores in membership_scores(
            table, columns, rows, file=file, exact_rows=exact_rows
        ):
            for name, view in views.items():
                aucs[name].update(_aucs(run, scores, view))
    budgets: list[BudgetRecords] = []
    if columns.record_id:
        where = {"positive": facts.positive_label, "secret": facts.secret, "file": file}
        budgets = list(records_by_budget(table, columns, rows, **where))
    counted = [_counted(*one, cells, budgets, aucs[one[0]], facts) for one in views.items()]
    if budgets:
        # somebody's own attack goes by the name of the AUC, so ours is left out
        without = {PROXY} if columns.membership_score else ()
        settings = [_settings(budget, [*views.values()]) for budget in budgets]
        how = {"no_coin": _no_coin(budgets), "without": without, "on_step": on_step}
        attacked = with_costs(counted, settings, facts, **how)
        # runs have the AUC of their own scores, and no reasons by cost
        counted = [
            replace(
                new,
                runs=old.runs,
                not_computed={k: v for k, v in new.not_computed.items() if k == PLACEBO},
            )
            for old, new in zip(counted, attacked, strict=True)
        ]
    return {one.attribute: build_release(facts, one, file=file) for one in counted}


@dataclass(frozen=True)
class _View:
    """The groups of one release: which columns make them up, and which may be released."""

    where: tuple[int, ...]
    found: tuple[str, ...]
    """Names as the table has them."""
    allowed: Regrouping

    @property
    def names(self) -> tuple[str, ...]:
        """The groups that are released."""
        return self.allowed.names

    def position(self, groups: Groups) -> int:
        """Of a row's group among those released; -1 where it is in none."""
        name = _group(groups, self.where)
        at = self.found.index(name) if name in self.found else -1
        return int(self.allowed.apply(np.array([at]))[0])


def _view(
    attribute: str, where: tuple[int, ...], cells: list[Cell], facts: ReleaseFacts, file: str
) -> _View:
    names = {_group(cell.groups, where) for cell in cells} - {None}
    found = facts.group_names(str(name) for name in names)
    whole = Regrouping(names=found, place=np.arange(len(found), dtype=np.int64))
    view = _View(where, found, whole)
    if len(found) < 2:
        return view  # the builder says what is wrong with it
    runs = _ordered_runs(cells)
    counted = count_entries(_entries(cells, runs, view), runs, attribute=attribute, groups=found)
    try:
        return _View(where, found, regrouping_of(facts, counted))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _settings(budget: BudgetRecords, views: Sequence[_View]) -> list[BudgetScores]:
    """The models of one budget beside the groups of every view."""
    logits, labels = log_odds(budget.probability), budget.positive.astype(np.int64)
    return [
        BudgetScores(
            logits=logits,
            labels=labels,
            member=budget.member,
            group=view.allowed.apply(
                recode(cross([budget.groups[i] for i in view.where]), view.found)
            ),
            group_names=view.names,
            from_probabilities=True,
            epsilon=math.inf if budget.runs[0].epsilon is None else budget.runs[0].epsilon,
        )
        for view in views
    ]


def _no_coin(budgets: Sequence[BudgetRecords]) -> str:
    """Why no coin can be flipped for the records; empty where one can."""
    if len({budget.people for budget in budgets}) > 1:
        return "the budgets were scored on different records"
    rows = sum(budget.member.size for budget in budgets)
    return f"coin flips are checked for up to {MOST_ROWS:,} rows, not {rows:,}" * (rows > MOST_ROWS)


def _group(groups: Groups, view: tuple[int, ...]) -> str | None:
    """The group's name in a view; None where any part of it is not known."""
    parts = [groups[i] for i in view]
    return None if None in parts else CROSSING.join(map(str, parts))


def _aucs(run: RunKey, scores: RunScores, view: _View) -> Iterable[tuple[tuple[RunKey, str], Auc]]:
    for at, name in enumerate(view.names):
        parts = [part for groups, part in scores.items() if view.position(groups) == at]
        auc = auc_from_counts(parts) if parts else None
        if auc is not None:
            yield (run, name), auc


def _ordered_runs(cells: Sequence[Cell]) -> list[RunKey]:
    return sorted({cell.run for cell in cells}, key=lambda run: run.order)


def _counted(
    attribute: str,
    view: _View,
    cells: list[Cell],
    budgets: Sequence[BudgetRecords],
    aucs: Mapping[tuple[RunKey, str], Auc],
    facts: ReleaseFacts,
) -> Counted:
    names, runs = view.names, _ordered_runs(cells)
    digests = {
        run: split for one in budgets for run, split in zip(one.runs, one.splits, strict=True)
    }
    keys = _named_splits(runs, digests, facts)
    found = [[aucs.get((run, name)) for name in names] for run in runs]
    counted = count_entries(_entries(cells, runs, view), keys, attribute=attribute, groups=names)
    note = [view.allowed.note] if view.allowed.changes else []
    return replace(
        counted,
        runs=tuple(
            replace(run, exposure=_exposures(run, names, of_run))
            for run, of_run in zip(counted.runs, found, strict=True)
        ),
        notes=[*counted.notes, *note, *_bin_note(aucs.values())],
    )


def _named_splits(
    runs: Sequence[RunKey], digests: Mapping[RunKey, str], facts: ReleaseFacts
) -> list[RunKey]:
    """The models with their splits' names: the table's own, or those that record ids give."""
    known = [run for run in runs if run.split is None and run in digests]
    names = published_splits([digests[run] for run in known], facts)
    named = dict(zip(known, names, strict=True))
    return [run._replace(split=run.split or named.get(run)) for run in runs]


def _entries(cells: Sequence[Cell], runs: Sequence[RunKey], view: _View) -> Entries:
    run_at = {run: position for position, run in enumerate(runs)}
    group_at = {groups: view.position(groups) for groups in {cell.groups for cell in cells}}
    return Entries(
        run=_whole(run_at[cell.run] for cell in cells),
        split=_whole(SPLITS.index(cell.split) for cell in cells),
        group=_whole(group_at[cell.groups] for cell in cells),
        positive=np.array([cell.positive for cell in cells]),
        predicted=np.array([cell.predicted for cell in cells]),
        n=_whole(cell.n for cell in cells),
    )


def _whole(values: Iterable[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)


def _exposures(
    run: CountedRun, names: Sequence[str], aucs: Sequence[Auc | None]
) -> dict[str, dict[str, Exposure]]:
    """By group and proxy; groups without members, or without others, have none."""
    n_records = run.cells.sum(axis=(0, 2)).tolist()
    return {
        name: {PROXY: _exposure(auc, n)}
        for name, auc, n in zip(names, aucs, n_records, strict=True)
        if auc is not None
    }


def _exposure(auc: Auc, n_records: int) -> Exposure:
    return Exposure(
        value=auc.value - 0.5,
        standard_error=auc.standard_error,
        n_members=auc.n_members,
        n_nonmembers=auc.n_nonmembers,
        n_excluded=n_records - auc.n_members - auc.n_nonmembers,
    )


def _bin_note(aucs: Iterable[Auc]) -> list[str]:
    bound = max((auc.bound for auc in aucs), default=0.0)
    if not bound:
        return []
    return [
        f"{PROXY} comes from a histogram of 65,536 bins; each value is within {bound:.2g} of the "
        "exact one."
    ]


def _rows_per_run(cells: list[Cell]) -> Counter[RunKey]:
    rows: Counter[RunKey] = Counter()
    for cell in cells:
        rows[cell.run] += cell.n
    return rows
