"""Which tables tell the paper's numbers?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from pcer import wording
from pcer.auditing.record import Audit, BudgetResult, PairResult
from pcer.auditing.sentences import certainty
from pcer.paper import records
from pcer.paper.comparisons import Comparison, agreement, comparisons
from pcer.paper.records import PublishedPair, Summary
from pcer.release.attack_kinds import GAP
from pcer.report.table import MAY_BREAK, Table, pair_name
from pcer.report.tables.attacks import agreement_table
from pcer.report.tables.background import (
    LONGEST_HEADER,
    Column,
    further_rows,
    least_private_first,
    titled_table,
)
from pcer.report.tables.tests import table_of_pairs
from pcer.wording import no_zero, signed


def plus_minus(summary: Summary, digits: int | None = None) -> str:
    """Mean ± standard deviation, or the mean alone; of a rate, with digits, as the paper does.

    >>> plus_minus(Summary(mean=0.6821, std=0.0081, ci=None), 3)
    '.682±.008'
    """
    mean = summary.mean
    std = summary.std
    if digits is None:
        return signed(mean) + ("" if std is None else f" ± {signed(std).lstrip('+')}")
    return no_zero(mean, digits) + ("" if std is None else f"±{no_zero(std, digits)}")


MOST_STRIP_ROWS = 12  # of the paper's numbers, likewise
MOST_GAP_COLUMNS = 2
SYMBOLS = ("R", "δ", "PCER")  # of the paper, by group
MEASURES = {
    "pcer_disparity": "Δ PCER",
    "pcer_disparity_null": "Δ PCER if nothing memorised",
    "demographic_parity_gap": "parity gap",
    "equalized_odds_gap": "odds gap",
}


def paper_tables(audit: Audit) -> list[Table]:
    """The paper's view, the gap being the exposure: its numbers come first."""
    return [
        paper_numbers(audit),
        published_table(audit),
        floors_table(audit, as_published=True),
        *(_algorithm_table(audit, published) for published in audit.published),
        *(_rankings_table(audit, compared) for compared in comparisons(audit)),
        *([agreement_table(audit, found)] if (found := agreement(audit)) else []),
    ]


def floors_table(audit: Audit, *, as_published: bool = False) -> Table:
    """The disparity at every floor of the grid and at the plan's, or the paper's, by the gap."""
    by = (
        f" as published, by {GAP.label}"
        if as_published
        else f", by {audit.proxy.label}"
    )
    pooled = not as_published and any(
        row.mean is not None and row.n_positive_seeds is None
        for row in audit.budgets[0].pairs[0].floors
    )
    more = (
        " This attack is one number for all seeds: it has no spread over them." * pooled
    )

    def cell(k: int, budget: BudgetResult, *pairs: Any) -> str:
        _, row = floor_rows(audit, pairs[as_published])[k]
        above = share = null = None
        if isinstance(row, records.FloorRow):
            above = row.n_positive_seeds
            share = row.floor_dominated_share
            null = row.null_mean
        counts = wording.NOTHING if above is None else f"{above}/{budget.n_seeds}"
        floored = wording.NOTHING if share is None else f"{100 * share:.0f}%"
        nothing = "" if null is None else f"\n({wording.signed(null)})"
        return (
            f"{plus_minus(row)}\n{wording.bounds(row.ci)}\n{counts}; {floored}{nothing}"
        )

    floors = enumerate(audit_floors(audit))
    columns: list[Column] = [
        (f"floor {floor:g}", partial(cell, k)) for k, floor in floors
    ]
    columns.append(
        (
            "slope",
            lambda _, *pairs: wording.decimals(pairs[as_published].floor_slope, 2),
        )
    )
    return table_of_pairs(
        audit, "floors", columns, by_gap=as_published, by=by, more=more
    )


def audit_floors(audit: Audit) -> list[float]:
    """The floors at which an audit has intervals, ascending."""
    return sorted({*audit.plan.floors, audit.plan.floor})


def floor_rows(
    audit: Audit, pair: PairResult | PublishedPair
) -> list[tuple[float, Summary]]:
    """A pair's disparity at every floor of the grid, and at the plan's where that is another."""
    rows: dict[float, Summary] = {row.floor: row for row in pair.floors}
    rows.setdefault(audit.plan.floor, pair.pcer_disparity)
    return sorted(rows.items())


def paper_numbers(audit: Audit, *, brief: bool = False) -> Table:
    """The paper's numbers, its gap being the exposure: a row for every setting.

    More than two groups: a row for every setting and group, compared with the reference
    group. ``brief`` is for 80 columns: both groups in one cell, fewer digits, the
    null's mean alone.
    """
    names = audit.subject.groups
    rows = list[tuple[str, ...]]()
    published = {
        (m.model, budget.epsilon): budget
        for m in audit.published
        for budget in m.budgets
    }
    every = list(published.values())
    disparities = (pair.pcer_disparity for budget in every for pair in budget.pairs)
    nulls = [end for found in disparities for end in found.null_interval or ()]
    digits = _digits([found.mean for budget in every for found in budget.pcer.values()])
    digits = max(0, digits - brief)
    pair = audit.budgets[0].pairs[0].groups
    shown = [pair] if len(names) == 2 else [(name,) for name in names]
    for budget in least_private_first(audit):
        found = published[budget.model, budget.epsilon]
        epsilon = (
            "none" if budget.epsilon is None else wording.short_budget(budget.epsilon)
        )
        setting = epsilon if budget.model is None else f"{budget.model}, {epsilon}"
        pairs = {pair.groups[1]: pair.pcer_disparity for pair in found.pairs}
        for group in shown:
            at = [budget.groups[name] for name in group]
            disparity = pairs.get(group[-1])
            numbers = [
                [wording.no_zero(each.benefit.mean, 2 if brief else 3) for each in at],
                [wording.no_zero(each.overfitting_gap.mean, 4) for each in at],
                [wording.decimals(found.pcer[name].mean, digits) for name in group],
            ]
            gaps = (budget.demographic_parity_gap, budget.equalized_odds_gap)
            rows.append(
                (
                    *(setting, *(() if len(names) == 2 else group)),
                    *(
                        [" ".join(cells) for cells in numbers]
                        if brief
                        else chain(*numbers)
                    ),
                    *_with_null(disparity, (digits, _digits(nulls)), brief=brief),
                    *(
                        wording.no_zero(gap.mean, 3) if group == shown[0] else ""
                        for gap in gaps
                    ),
                )
            )
    broken = [name.replace("-", f"-{MAY_BREAK}") for name in shown[0]]
    per_group = [
        [s] if brief or len(names) > 2 else [f"{s}\n{n}" for n in broken]
        for s in SYMBOLS
    ]
    level = f"[{100 * audit.plan.confidence_level:g}%]"
    last = (f"Δ PCER\n{level}", "if nothing\nmemorised", "parity\ngap", "odds\ngap")
    heads = ("ε", *(() if len(names) == 2 else ("group",)), *chain(*per_group), *last)
    title = "The paper's numbers"
    n_labels = 1 + (len(names) > 2)
    return Table(title, heads, tuple(rows), n_labels, certainty.paper_note(audit))


def paper_strip(audit: Audit, *, most_rows: int | None) -> Table:
    """The paper's numbers for 80 columns, under them whether they are evidence.

    Of more than ``most_rows`` only those of the setting that the headline is about are
    shown.
    """
    table = paper_numbers(audit, brief=True)
    rows = table.rows
    n_all = len(table.rows)
    if most_rows is not None and n_all > most_rows:
        n = n_all // len(audit.budgets)
        start = n * least_private_first(audit).index(audit.told)
        rows = rows[start : start + min(n, most_rows)]
    title = certainty.paper_note(audit, "strip")
    note = certainty.paper_words(audit)
    return replace(
        table, title=title, rows=rows, note=note + further_rows(n_all - len(rows))
    )


def _digits(values: Iterable[float | None]) -> int:
    """Decimals that give the largest of some numbers three digits."""
    largest = max([1.0, *(abs(v) for v in values if v is not None)])
    return max(0, 2 - math.floor(math.log10(largest)))


def _with_null(
    found: records.Disparity | None, digits: tuple[int, int], *, brief: bool
) -> tuple[str, str]:
    """A disparity with its interval, and what it would be if nothing were memorised."""
    if found is None:
        return "reference", ""
    cells = list[str]()
    rows = ((found.mean, found.ci), (found.null_mean, found.null_interval))
    for (mean, ends), n in zip(rows, digits, strict=True):
        texts = [
            f"{v:+z.{n}f}".replace("-", "−")
            for v in (mean, *(ends or ()))
            if v is not None
        ]
        is_short = len(texts) < 3 or (brief and bool(cells))
        cells.append(
            (texts or [wording.NOTHING])[0]
            if is_short
            else "{} [{}, {}]".format(*texts)
        )
    return cells[0], cells[1]


def published_table(audit: Audit) -> Table:
    """The paper's columns for every setting and pair, the gap being its privacy cost."""

    def rate(found: Summary, digits: int) -> str:
        return f"{plus_minus(found, digits)}\n{wording.bounds(found.ci, digits)}"

    def gap(name: str, budget: BudgetResult, *_: Any) -> str:
        found = budget.groups[name]
        null = (
            ""
            if found.null_gap is None
            else f"\n({wording.no_zero(found.null_gap.mean, 4)})"
        )
        return rate(found.overfitting_gap, 4) + null

    def disparity(_: BudgetResult, __: PairResult, published: PublishedPair) -> str:
        found = published.pcer_disparity
        return f"{plus_minus(found)}\n{wording.bounds(found.ci)}"

    def null(_: BudgetResult, __: PairResult, published: PublishedPair) -> str:
        found = published.pcer_disparity
        return (
            f"{wording.signed(found.null_mean)}\n{wording.bounds(found.null_interval)}"
        )

    columns: list[Column] = [
        ("accuracy", lambda budget, *_: rate(budget.accuracy, 3)),
        ("parity\ngap", lambda budget, *_: rate(budget.demographic_parity_gap, 3)),
        ("odds\ngap", lambda budget, *_: rate(budget.equalized_odds_gap, 3)),
    ]
    for name in (
        audit.subject.groups if len(audit.subject.groups) <= MOST_GAP_COLUMNS else ()
    ):
        # A long name may break after its hyphens, where a terminal would cut anywhere.
        head = (
            name.replace("-", f"-{MAY_BREAK}") if len(name) > LONGEST_HEADER else name
        )
        columns.append((f"δ\n{head}", partial(gap, name)))
    columns += [("Δ PCER", disparity), ("if nothing\nmemorised", null)]
    return table_of_pairs(audit, "published", columns, by_gap=True)


def _algorithm_table(audit: Audit, published: records.AsPublished) -> Table:
    """Algorithm 1 of one model, by the gap: which budget has the smallest disparity per floor."""
    found = published.algorithm1
    rows = []
    for row in found.equitable_budget:
        word = (
            "yes"
            if row.floor in found.informative_floors
            else "no: not below a detected gap"
        )
        if row.repeats_demographic_parity:
            word = "no: above every gap, so it repeats the parity gap"
        rows.append((f"{row.floor:g}", wording.budget_list(row.budgets), word))
    informative = "no floor is informative, since no gap is detected"
    if found.informative_verdict:
        informative = f"over the informative floors: {found.informative_verdict.words}"
    heads = ("floor", "budget", "informative?")
    model = _of_model(audit, published.model)
    verdict = "No disparity is known" if found.verdict is None else found.verdict.words
    values = {
        "model": model,
        "found": found,
        "verdict": verdict,
        "informative": informative,
    }
    return titled_table(audit, "algorithm", heads, rows, 3, **values)


def _rankings_table(audit: Audit, compared: Comparison) -> Table:
    """Budgets of one model by each measure, and where PCER and the others part ways."""
    rows = [
        (
            MEASURES[row.measure],
            " < ".join(wording.short_budget(epsilon) for epsilon in row.budgets)
            or wording.NOTHING,
            wording.yes_no(compared.ranking_disagreement.get(row.measure)),
        )
        for row in compared.rankings
    ]
    turned = [wording.short_budget(epsilon) for epsilon, _ in compared.opposite]
    refuted = [
        wording.short_budget(row.epsilon)
        for row in compared.equal_gap_claims
        if row.refuted
    ]
    given = ((pair, r) for pair, r in compared.correlations.items() if r is not None)
    correlations = ", ".join(
        f"{wording.signed(r)} ({pair_name(pair)})" for pair, r in given
    )
    descriptive = (
        "Correlation of Δ PCER and rate difference over budgets, descriptive only:"
    )
    values = {
        "model": _of_model(audit, compared.model),
        "turned": ", ".join(dict.fromkeys(turned)) or "no budget",
        "refuted": ", ".join(dict.fromkeys(refuted)) or "no budget",
        "more": f"{descriptive} {correlations}." if correlations else "",
    }
    heads = ("measure", "budgets, smallest first", "other best budget\nthan Δ PCER")
    return titled_table(audit, "rankings", heads, rows, 3, **values)


def _of_model(audit: Audit, model: str | None) -> str:
    """What tells the tables of several models apart."""
    return f", {model}" if len(audit.models) > 1 else ""
