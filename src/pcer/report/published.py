"""The paper's own numbers, as it prints them: the gap is the cost, whatever the plan says."""

from __future__ import annotations

from collections.abc import Iterator

from pcer.auditing import (
    AsPublished,
    Audit,
    BudgetResult,
    FloorRow,
    PublishedPair,
    Summary,
    bounds,
    decimals,
    plus_minus,
    rate_bounds,
    rate_plus_minus,
    short_setting,
)
from pcer.release import GAP
from pcer.report.rows import pair_name
from pcer.report.table import Table
from pcer.report.tables import MOST_GAP_COLUMNS

Published = tuple[BudgetResult, PublishedPair]


def published_tables(audit: Audit) -> list[Table]:
    """The paper's table of results, and its table over the floor grid."""
    return [_results(audit), _floors(audit)]


def _pairs(audit: Audit) -> Iterator[Published]:
    """Every setting with the paper's numbers of each of its pairs, in the order of the audit."""
    for one in audit.published:
        yield from _of_model(audit, one)


def _of_model(audit: Audit, one: AsPublished) -> Iterator[Published]:
    settings = [budget for budget in audit.budgets if budget.model == one.model]
    for budget, found in zip(settings, one.budgets, strict=True):
        for pair in found.pairs:
            yield budget, pair


def _results(audit: Audit) -> Table:
    names = audit.subject.groups if len(audit.subject.groups) <= MOST_GAP_COLUMNS else []
    rows = [
        (
            *_label(audit, budget, pair),
            budget.verdict.words,
            _rate(budget.accuracy, 3),
            _rate(budget.demographic_parity_gap, 3),
            _rate(budget.equalized_odds_gap, 3),
            *(_rate(budget.groups[name].overfitting_gap, 4) for name in names),
            f"{plus_minus(pair.pcer_disparity)}\n{bounds(pair.pcer_disparity.ci)}",
        )
        for budget, pair in _pairs(audit)
    ]
    columns = (
        *_label_columns(audit),
        verdict_header(audit),
        "accuracy",
        "DP gap",
        "EO gap",
        *(f"gap\n{name}" for name in names),
        "PCER\ndisparity",
    )
    note = (
        f"Mean ± standard deviation over seeds, and the {100 * audit.plan.confidence_level:g} % "
        f"interval of the mean; floor {audit.plan.floor:g}; cost: the {GAP.label}. DP gap: "
        "demographic parity; EO gap: equalized odds. Read a disparity only with its verdict."
    )
    return Table("The paper's table", columns, tuple(rows), len(_label_columns(audit)) + 1, note)


def _floors(audit: Audit) -> Table:
    rows = [
        (
            *_label(audit, budget, pair),
            budget.verdict.words,
            *(_floor(row) for row in pair.floors),
            decimals(pair.floor_slope, 2),
        )
        for budget, pair in _pairs(audit)
    ]
    floors = (f"floor {floor:g}" for floor in audit.plan.floors)
    columns = (*_label_columns(audit), verdict_header(audit), *floors, "slope")
    note = f"Mean ± standard deviation, and its interval; cost: the {GAP.label}."
    n_labels = len(_label_columns(audit)) + 1
    return Table("The paper's disparity by floor", columns, tuple(rows), n_labels, note)


def verdict_header(audit: Audit) -> str:
    """Of several pairs, the verdict is the setting's and not each pair's."""
    return "verdict" if len(audit.subject.groups) == 2 else "verdict of\nthe setting"


def _floor(row: FloorRow) -> str:
    return f"{plus_minus(row)}\n{bounds(row.ci)}"


def _rate(found: Summary, digits: int) -> str:
    return f"{rate_plus_minus(found, digits)}\n{rate_bounds(found.ci, digits)}"


def _label_columns(audit: Audit) -> tuple[str, ...]:
    return ("ε",) if len(audit.subject.groups) == 2 else ("ε", "groups")


def _label(audit: Audit, budget: BudgetResult, pair: PublishedPair) -> tuple[str, ...]:
    label = (short_setting(budget.model, budget.epsilon), pair_name(pair.groups))
    return label[: len(_label_columns(audit))]
