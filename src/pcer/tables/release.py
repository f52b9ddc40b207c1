"""From a table of predictions of any size to releases: counted where it lies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pcer.attacks import (
    CHECKING,
    BudgetScores,
    CheckedCoins,
    ExposedSetting,
    PooledAttacks,
    RunAttacks,
    check_with_coins,
    log_odds,
    no_coins,
    pooled_attacks_of,
    pooled_notes,
    run_attacks_of,
    weaker_notes,
)
from pcer.errors import InputError
from pcer.metrics import IntArray
from pcer.release import proxies
from pcer.release.build import (
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
from pcer.release.format import Exposure, PooledExposure, Release
from pcer.release.proxies import GAP
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
    rows, exposed = _rows_per_run(cells), {name: _Exposed() for name in views}
    if columns.membership_score or columns.loss:
        for run, scores in membership_scores(
            table, columns, rows, file=file, exact_rows=exact_rows
        ):
            for name, view in views.items():
                exposed[name].aucs.update(_aucs(run, scores, view))
    if columns.record_id:
        for budget in records_by_budget(
            table, columns, rows, positive=facts.positive_label, secret=facts.secret, file=file
        ):
            _compare_records(
                budget, views, exposed, own_scores=columns.membership_score is not None
            )
        on_step(CHECKING)
    return {
        name: _release(name, view, cells, exposed[name], facts, file)
        for name, view in views.items()
    }


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


@dataclass(frozen=True)
class _Exposed:
    """What attacks found for one release, and the splits that record ids gave away."""

    aucs: dict[tuple[RunKey, str], Auc] = field(default_factory=dict)
    pooled: list[PooledExposure] = field(default_factory=list)
    splits: dict[RunKey, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    settings: list[ExposedSetting] = field(default_factory=list)
    people: set[str] = field(default_factory=set)
    """Names of the sets of records that budgets were scored on."""

    def check(self, facts: ReleaseFacts) -> CheckedCoins:
        """Coin flips through the audit, where all budgets are about the same records."""
        if not self.settings or facts.split_kind != "random":
            return CheckedCoins([], {})
        if len(self.people) > 1:
            return no_coins("the budgets were scored on different records")
        rows = sum(one.scores.member.size for one in self.settings)
        if rows > MOST_ROWS:
            return no_coins(f"coin flips are checked for up to {MOST_ROWS:,} rows, not {rows:,}")
        return check_with_coins(self.settings, outcome=facts.outcome)


def _compare_records(
    budget: BudgetRecords,
    views: Mapping[str, _View],
    exposed: Mapping[str, _Exposed],
    *,
    own_scores: bool,
) -> None:
    """Each record with itself over the models of one budget, for the groups of every view."""
    logits, labels = log_odds(budget.probability), budget.positive.astype(np.int64)
    scores = [
        BudgetScores(
            logits=logits,
            labels=labels,
            member=budget.member,
            group=view.allowed.apply(
                recode(cross([budget.groups[i] for i in view.where]), view.found)
            ),
            group_names=view.names,
            from_probabilities=True,
        )
        for view in views.values()
    ]
    epsilon = math.inf if budget.runs[0].epsilon is None else budget.runs[0].epsilon
    single = run_attacks_of(scores, epsilon=epsilon)
    pooled = pooled_attacks_of(scores, epsilon=epsilon)
    for one, own, a, b in zip(exposed.values(), scores, single, pooled, strict=True):
        rows, setting = _costs(own, a, b, epsilon=epsilon, own_scores=own_scores)
        one.pooled.extend(rows)
        one.settings.append(setting)
        one.people.add(budget.people)
        one.splits.update(zip(budget.runs, budget.splits, strict=True))
        one.notes.extend(n for n in pooled_notes(len(budget.runs)) if n not in one.notes)


def _costs(
    scores: BudgetScores,
    single: RunAttacks,
    pooled: PooledAttacks,
    *,
    epsilon: float,
    own_scores: bool,
) -> tuple[list[PooledExposure], ExposedSetting]:
    """Rows of every cost; where somebody's own attack goes by the name of the AUC, not of ours."""
    rows = [row for row in (*single.rows, *pooled.rows) if not (own_scores and row.proxy == PROXY)]
    carried = {GAP.name, *(row.proxy for row in rows)}
    exposure = single.records.exposure | pooled.records.exposure
    return rows, ExposedSetting(
        epsilon=epsilon,
        scores=scores,
        exposure={name: one for name, one in exposure.items() if name in carried},
        benefit=pooled.records.benefit,
    )


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


def _release(
    attribute: str,
    view: _View,
    cells: list[Cell],
    exposed: _Exposed,
    facts: ReleaseFacts,
    file: str,
) -> Release:
    names, runs, coins = view.names, _ordered_runs(cells), exposed.check(facts)
    keys = _named_splits(runs, exposed.splits, facts)
    found = [[exposed.aucs.get((run, name)) for name in names] for run in runs]
    counted = count_entries(_entries(cells, runs, view), keys, attribute=attribute, groups=names)
    counted = replace(
        counted,
        runs=tuple(
            replace(run, exposure=_exposures(run, names, aucs))
            for run, aucs in zip(counted.runs, found, strict=True)
        ),
        placebo=coins.rows,
        pooled=exposed.pooled,
        not_computed=coins.not_computed,
        notes=[
            *counted.notes,
            *([view.allowed.note] if view.allowed.changes else []),
            *_bin_note(exposed.aucs.values()),
            *exposed.notes,
            *weaker_notes(exposed.settings),
        ],
    )
    return build_release(facts, counted, file=file)


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
