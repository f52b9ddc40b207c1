"""Every table of an audit, once for all formats, and the lines that stand beside them.

The floor table and the intervals are always among them. Names in cells are other
people's words; the renderers escape them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pcer.auditing import file, words
from pcer.auditing.algorithm1 import Comparison, ProxyAgreement, agreement, comparisons
from pcer.auditing.file import (
    Audit,
    BudgetResult,
    GroupResult,
    PairResult,
    PublishedPair,
    Summary,
)
from pcer.auditing.measure import measure_costs
from pcer.release import Release, panels, proxies
from pcer.release.proxies import GAP, Proxy, proxy_named
from pcer.report.table import MAY_BREAK, SOFT_HYPHEN, Table, isolated, pair_name
from pcer.statistics import interval_quantile

MOST_ROWS = 24  # in a table that is read without asking for everything
MOST_STRIP_ROWS = 12  # of the paper's numbers, likewise
FEW_ROWS = 4  # where words are counted
BAR = "█"  # a tenth of a group
MOST_GAP_COLUMNS = 2
MOST_PAIRS = 5  # pairs that charts show; the tables have all
LONGEST_HEADER = 12
HUNDREDTHS = 100.0
SYMBOLS = ("R", "δ", "PCER")  # of the paper, by group
MEASURES = {
    "pcer_disparity": "Δ PCER",
    "pcer_disparity_null": "Δ PCER if nothing memorised",
    "demographic_parity_gap": "parity gap",
    "equalized_odds_gap": "odds gap",
}
EVIDENCE = {True: "beyond\nthe null", False: "none", None: words.NOTHING}
# heads a column of adjusted p-values with those of single tests in brackets
P_BOTH = "p\n(alone)"


def subject_name(audit: Audit) -> str:
    """Dataset and attribute."""
    return f"{audit.subject.dataset} ({audit.subject.attribute})"


def isolate_names(text: str, audit: Audit) -> str:
    """A sentence that names which run from right to left do not turn around."""
    subject = audit.subject
    for name in sorted({*subject.groups, subject.dataset, subject.attribute}, key=len):
        text = text.replace(name, isolated(name))
    return text


def facts(audit: Audit) -> list[str]:
    """What a reader must know to read the numbers: outcome, split, sizes, notes."""
    subject = audit.subject
    weight = "helps" if subject.outcome == "benefit" else "harms"
    seeds = sorted({budget.n_seeds for budget in audit.budgets})
    splits = sorted({budget.n_splits for budget in audit.budgets})
    sizes = []
    for name, group in audit.budgets[0].groups.items():
        is_known = group.n_train is not None and group.n_test is not None
        size = f"{group.n_train:,.0f} + {group.n_test:,.0f}" if is_known else "not said"
        sizes.append(f"{name} {size}")
    lines = [
        f"A positive prediction {weight} the person. Mechanism: {subject.mechanism}. "
        f"Split {subject.split_kind or 'not said to be random'}.",
        f"Records per run, train + test: {', '.join(sizes)}.",
        f"Settings: {len(audit.budgets)}; seeds of each: {words.number_range(seeds)}; "
        f"distinct splits of each: {words.number_range(splits)}.",
    ]
    return [*lines, *left_out(audit), *subject.notes]


def left_out(audit: Audit) -> list[str]:
    """How many people have no group and are in no number; nothing where everybody has one."""
    n = audit.subject.n_missing_group
    return [words.say("how_sure", "missing", n=f"{n:,}")] if n else []


def advice(audit: Audit) -> list[str]:
    """The advice of every verdict that occurs, strongest first, with reasons."""
    budgets = sorted(
        audit.budgets, key=lambda budget: budget.verdict is not audit.verdict
    )
    by_text: dict[str, list[str]] = {}
    for budget in budgets:
        text = budget.verdict.words + (
            f". Reason: {budget.reason}." if budget.reason else "."
        )
        by_text.setdefault(text, []).append(setting_of(budget))
    return [f"{', '.join(names)} — {text}" for text, names in by_text.items()]


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    return {
        "Every test": [
            resolution_table(audit),
            pairs_table(audit),
            differences_table(audit),
        ],
        "Every attack": [costs_table(audit)] if len(audit.costs) > 1 else [],
        "The floor": [] if audit.cost == GAP.name else [floors_table(audit)],
        "As published": paper_tables(audit),
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


def tables(audit: Audit) -> list[Table]:
    """All tables of an audit, in reading order."""
    return [table for group in table_groups(audit).values() for table in group]


def finding_table(
    audit: Audit, *, most_rows: int | None = None, bars: bool = False
) -> Table:
    """Per setting and group the outcome rate and the exposure, in people out of 100.

    Of more than ``most_rows`` only those of the setting that the headline is about are
    shown, and of its groups first those that it names and the most exposed. ``bars``
    draw outcome rates.
    """
    names = audit.subject.groups
    n_all = len(audit.budgets) * len(names)
    received = words.templates()[audit.plan.benefit]["head"]
    is_whole = most_rows is None or n_all <= most_rows
    settings = least_private_first(audit) if is_whole else [audit.told]
    several = len(settings) > 1
    items = list[tuple[BudgetResult, str, GroupResult]]()
    for budget in settings:
        cost = {name: group.cost.value or 0.0 for name, group in budget.groups.items()}
        first = sorted(names, key=lambda name: (name not in budget.named, -cost[name]))
        shown = (name for name in names if name in first[:most_rows])
        items += [(budget, name, budget.groups[name]) for name in shown]

    def outcome(_: BudgetResult, __: str, group: GroupResult) -> str:
        rate = group.benefit.mean
        bar = "" if rate is None or not bars else f"{BAR * round(10 * rate)} "
        return bar + _amount(proxies.ACCURACY, rate, 0)

    def exposure(_: BudgetResult, __: str, group: GroupResult) -> str:
        ends = ", ".join(_exposure(audit, end) for end in group.cost.interval or ())
        return _exposure(audit, group.cost.value) + (f" [{ends}]" if ends else "")

    columns: list[Column] = [
        ("setting", lambda budget, *_: setting_of(budget)),
        ("group", lambda _, name, group: name),
        (received, outcome),
        (f"{audit.proxy.scale.column}\n{_interval_head(audit)}", exposure),
        ("at\nmost", lambda *at: _exposure(audit, at[2].cost.upper_bound)),
        ("detected", _is_detected),
    ]
    values = {
        "at": "" if several else f": {setting_of(settings[0])}",
        "chance": audit.proxy.scale.coin,
        "more": f" {words.say('paper', 'detected')}{_further(n_all - len(items))}",
    }
    return _made(audit, "finding", columns[not several :], items, 1 + several, **values)


def _interval_head(audit: Audit) -> str:
    return f"[{100 * audit.plan.confidence_level:g}% interval]"


def _is_detected(budget: BudgetResult, _: str, group: GroupResult) -> str:
    if words.answer_of(budget, "exposure") == "cannot_tell":
        return "cannot tell"
    return "too few" if group.too_few else words.yes_no(group.resolved)


def _exposure(audit: Audit, cost: float | None, digits: int | None = None) -> str:
    """An exposure in people out of 100 or its own unit, all of one audit with the same decimals."""
    if cost is None:
        return words.NOTHING
    scale = audit.proxy.scale
    if digits is None:
        costs = (
            g.cost.value or 0.0
            for budget in audit.budgets
            for g in budget.groups.values()
        )
        is_coarse = scale.is_advantage or scale.per_unit * max(map(abs, costs)) >= 1
        digits = 1 if is_coarse else 2
    return words.decimals(50 * scale.is_advantage + scale.per_unit * cost, digits)


def numbers_table(audit: Audit) -> Table:
    """The numbers behind the pictures, in people of 100, with more digits than they print."""
    rows = []
    for budget in audit.budgets:
        for name, group in budget.groups.items():
            ends = group.cost.interval or (None, None)
            received = group.benefit.mean
            costs = (group.cost.value, *ends, group.cost.upper_bound)
            cells = [
                _amount(proxies.ACCURACY, received, 4),
                *(_exposure(audit, c, 4) for c in costs),
            ]
            plain = (
                cell.replace("−", "-") for cell in cells
            )  # as other programs read them
            rows.append(
                (setting_of(budget), name, *plain, words.yes_no(group.resolved))
            )
    columns = (
        "outcome, of 100",
        "exposure, of 100",
        "low",
        "high",
        "at most",
        "detected",
    )
    return Table(
        "Numbers of the pictures", ("setting", "group", *columns), tuple(rows), 2
    )


Column = tuple[
    str, Callable[..., str]
]  # its head, and what makes a cell of what a row is about


def _made(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    items: Iterable[Any],
    n: int,
    **values: str,
) -> Table:
    """A row for every item, the first ``n`` columns being labels."""
    rows = [tuple(cell(*item) for _, cell in columns) for item in items]
    return _titled(audit, name, [head for head, _ in columns], rows, n, **values)


def _titled(
    audit: Audit,
    name: str,
    heads: Sequence[str],
    rows: Iterable[Any],
    n: int,
    **values: Any,
) -> Table:
    """Cells under the title and over the note that they have in ``words.toml``."""
    level = f"{100 * audit.plan.confidence_level:g}"
    unit = audit.proxy.scale.points
    found = {"audit": audit, "gap": GAP, "level": level, "unit": unit}
    title, note = (
        text.format(**found, **values) for text in words.templates()[name].values()
    )
    return Table(title, tuple(heads), tuple(rows), n, note)


def resolution_table(audit: Audit) -> Table:
    """Per setting and group: is its exposure detected? In the units of ``finding_table``."""
    received = words.templates()[audit.plan.benefit]["head"]
    scale = audit.proxy.scale

    def cost(_: BudgetResult, __: str, group: GroupResult) -> str:
        found = group.cost
        error = (
            "" if found.value is None else f" ± {_amount(scale, found.standard_error)}"
        )
        ends = ", ".join(_exposure(audit, end, 2) for end in found.interval or ())
        return f"{_exposure(audit, found.value, 2)}{error}\n[{ends or 'no interval'}]"

    columns: list[Column] = [
        ("ε", lambda budget, *_: _short(budget)),
        ("group", lambda _, name, group: name),
        (received, lambda *at: _amount(proxies.ACCURACY, at[2].benefit.mean, 1)),
        (
            "gap,\nof 100",
            lambda *at: _amount(proxies.ACCURACY, at[2].overfitting_gap.mean),
        ),
        (f"{scale.column}\n± error\n{_interval_head(audit)}", cost),
        ("noise\nlevel", lambda *at: _exposure(audit, at[2].noise_level, 2)),
        ("at\nmost", lambda *at: _exposure(audit, at[2].cost.upper_bound, 2)),
        (
            f"detect{SOFT_HYPHEN}able",
            lambda *at: _exposure(audit, at[2].detectable_cost, 2),
        ),
        (f"detection,\n{P_BOTH}", lambda *at: _both_p(at[2])),
        ("detected", _is_detected),
    ]
    groups = (
        (budget, *group) for budget in audit.budgets for group in budget.groups.items()
    )
    return _made(audit, "signal", columns, groups, 2, chance=scale.coin)


def _pairs_table(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    *,
    by_gap: bool = False,
    **values: str,
) -> Table:
    """A row for every setting and pair; beside disparities stands what they are worth.

    That is the setting's verdict, and of the paper's numbers whether they are beyond
    their null. Cells are made of the setting, the pair, and the paper's numbers of the
    pair.
    """
    several = len(audit.subject.groups) > 2
    labels: list[Column] = [("ε", lambda budget, *_: _short(budget))]
    if several:
        labels.append(("groups", lambda _, pair, __: pair_name(pair.groups)))
    if by_gap:
        labels.append(
            ("evidence", lambda *at: EVIDENCE[at[2].pcer_disparity.is_beyond_null])
        )
    elif name != "differences":
        verdict = "verdict of\nthe setting" if several else "verdict"
        labels.append((verdict, lambda budget, *_: budget.verdict.words))
    return _made(
        audit, name, [*labels, *columns], setting_pairs(audit), len(labels), **values
    )


def setting_pairs(
    audit: Audit,
) -> Iterator[tuple[BudgetResult, PairResult, PublishedPair]]:
    """Every setting with each of its pairs, and the paper's numbers of that pair."""
    published = {
        (m.model, b.epsilon): b.pairs for m in audit.published for b in m.budgets
    }
    for budget in audit.budgets:
        found = published[budget.model, budget.epsilon]
        yield from ((budget, *pairs) for pairs in zip(budget.pairs, found, strict=True))


def pairs_table(audit: Audit) -> Table:
    """Per setting and pair: do the ratios differ, who has the lower one, the pooled estimate."""

    def double(_: BudgetResult, pair: PairResult, __: PublishedPair) -> str:
        double = pair.double_disadvantage
        return f"{double.group or words.NOTHING}\n{_both_p(double)}"

    def pooled(_: BudgetResult, pair: PairResult, __: PublishedPair) -> str:
        if pair.pooled.disparity is None:
            return words.NOTHING
        label = "" if pair.pooled.costs_resolved else " (n.d.)"
        return f"{words.signed(pair.pooled.disparity)}{label}\n{words.bounds(pair.pooled.ci)}"

    columns: list[Column] = [
        ("cross\nproduct", lambda _, pair, __: words.signed(pair.ratio.cross_product)),
        (f"ratio,\n{P_BOTH}", lambda _, pair, __: _both_p(pair.ratio)),
        ("lower\nratio", lambda _, pair, __: pair.ratio.group or words.NOTHING),
        (f"doubly dis{SOFT_HYPHEN}advantaged,\n{P_BOTH}", double),
        ("pooled\ndisparity", pooled),
        (
            "disparity if\nnothing memorised",
            lambda *at: words.bounds(at[1].pcer_disparity.null_interval),
        ),
        (
            "sign holds\nbelow floor",
            lambda *at: words.decimals(at[1].sign_holds_below_floor, 4),
        ),
    ]
    return _pairs_table(audit, "pairs", columns)


def differences_table(audit: Audit) -> Table:
    """Per setting and pair: by how much exposures and outcomes differ, for people like these."""
    scale = audit.proxy.scale
    rates = proxies.ACCURACY
    received = audit.plan.benefit.replace("_", " ")
    columns: list[Column] = [
        (
            "exposure, first\nminus second",
            lambda _, pair, __: _difference(scale, pair.exposure.difference),
        ),
        (
            "at most,\neither way",
            lambda _, pair, __: _amount(scale, pair.exposure.difference.upper_bound),
        ),
        (f"exposure,\n{P_BOTH}", lambda _, pair, __: _both_p(pair.exposure)),
        (
            f"{received},\nfirst minus second",
            lambda *at: _difference(rates, at[1].outcomes.difference),
        ),
        (f"outcomes,\n{P_BOTH}", lambda _, pair, __: _both_p(pair.outcomes)),
        ("driven by", lambda _, pair, __: pair.ratio.driven_by or words.NOTHING),
    ]
    pairs = audit.budgets[0].pairs
    only = f"{pair_name(pairs[0].groups)}. " if len(pairs) == 1 else ""
    return _pairs_table(audit, "differences", columns, only=only)


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
        if isinstance(row, file.FloorRow):
            above = row.n_positive_seeds
            share = row.floor_dominated_share
            null = row.null_mean
        counts = words.NOTHING if above is None else f"{above}/{budget.n_seeds}"
        floored = words.NOTHING if share is None else f"{100 * share:.0f}%"
        nothing = "" if null is None else f"\n({words.signed(null)})"
        return f"{words.plus_minus(row)}\n{words.bounds(row.ci)}\n{counts}; {floored}{nothing}"

    floors = enumerate(audit_floors(audit))
    columns: list[Column] = [
        (f"floor {floor:g}", partial(cell, k)) for k, floor in floors
    ]
    columns.append(
        ("slope", lambda _, *pairs: words.decimals(pairs[as_published].floor_slope, 2))
    )
    return _pairs_table(audit, "floors", columns, by_gap=as_published, by=by, more=more)


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
            "none" if budget.epsilon is None else words.short_budget(budget.epsilon)
        )
        setting = epsilon if budget.model is None else f"{budget.model}, {epsilon}"
        pairs = {pair.groups[1]: pair.pcer_disparity for pair in found.pairs}
        for group in shown:
            at = [budget.groups[name] for name in group]
            disparity = pairs.get(group[-1])
            numbers = [
                [words.no_zero(each.benefit.mean, 2 if brief else 3) for each in at],
                [words.no_zero(each.overfitting_gap.mean, 4) for each in at],
                [words.decimals(found.pcer[name].mean, digits) for name in group],
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
                        words.no_zero(gap.mean, 3) if group == shown[0] else ""
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
    return Table(title, heads, tuple(rows), n_labels, words.paper_note(audit))


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
    title = words.paper_note(audit, "strip")
    note = words.paper_words(audit)
    return replace(
        table, title=title, rows=rows, note=note + _further(n_all - len(rows))
    )


def _further(n: int) -> str:
    return f" {n} more rows: full table." if n else ""


def _digits(values: Iterable[float | None]) -> int:
    """Decimals that give the largest of some numbers three digits."""
    largest = max([1.0, *(abs(v) for v in values if v is not None)])
    return max(0, 2 - math.floor(math.log10(largest)))


def _with_null(
    found: file.Disparity | None, digits: tuple[int, int], *, brief: bool
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
            (texts or [words.NOTHING])[0] if is_short else "{} [{}, {}]".format(*texts)
        )
    return cells[0], cells[1]


def published_table(audit: Audit) -> Table:
    """The paper's columns for every setting and pair, the gap being its privacy cost."""

    def rate(found: Summary, digits: int) -> str:
        return f"{words.plus_minus(found, digits)}\n{words.bounds(found.ci, digits)}"

    def gap(name: str, budget: BudgetResult, *_: Any) -> str:
        found = budget.groups[name]
        null = (
            ""
            if found.null_gap is None
            else f"\n({words.no_zero(found.null_gap.mean, 4)})"
        )
        return rate(found.overfitting_gap, 4) + null

    def disparity(_: BudgetResult, __: PairResult, published: PublishedPair) -> str:
        found = published.pcer_disparity
        return f"{words.plus_minus(found)}\n{words.bounds(found.ci)}"

    def null(_: BudgetResult, __: PairResult, published: PublishedPair) -> str:
        found = published.pcer_disparity
        return f"{words.signed(found.null_mean)}\n{words.bounds(found.null_interval)}"

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
    return _pairs_table(audit, "published", columns, by_gap=True)


def costs_table(audit: Audit) -> Table:
    """What every carried attack says, the audit's own first."""

    def names(groups: Sequence[str]) -> str:
        return ", ".join(groups) or words.NOTHING

    columns: list[Column] = [
        ("attack", lambda story: proxy_named(story.cost).label),
        ("detected", lambda story: f"{story.n_resolved} of {story.n_cells}"),
        ("more\nexposed", lambda story: names(story.more_exposed)),
        ("lower\nratio", lambda story: names(story.lower_ratio)),
        (
            f"doubly dis{SOFT_HYPHEN}advantaged",
            lambda story: names(story.double_disadvantage),
        ),
        ("p", lambda story: words.p_value(story.p_value)),
        ("p over\nattacks", lambda story: words.p_value(story.p_value_over_costs)),
    ]
    return _made(audit, "costs", columns, zip(audit.costs, strict=True), 1)


Ends = tuple[float, float]


def cost_estimates(
    audit: Audit, release: Release
) -> Iterator[tuple[str, Proxy, str, float | None, Ends | None]]:
    """By setting, attack and group that charts show: the estimate, with a normal interval."""
    measured = measure_costs(panels(release), audit.plan)
    reach = interval_quantile(audit.plan.confidence_level)
    for k, label in enumerate(setting_labels(audit)):
        for name, by_setting in measured.items():
            if (exposed := by_setting[k].exposed) is None:
                continue
            for g in shown_groups(audit):
                cost = float(exposed.value[g])
                error = float(np.sqrt(exposed.alone[g]))
                ends = (cost - reach * error, cost + reach * error)
                value = cost if np.isfinite(cost) else None
                interval = ends if np.isfinite(ends[0]) else None
                yield label, proxy_named(name), audit.subject.groups[g], value, interval


def estimates_table(audit: Audit, release: Release) -> Table:
    """What each attack finds in every group, at every setting."""
    rows: dict[tuple[str, str], list[str]] = {}
    for setting, proxy, group, value, interval in cost_estimates(audit, release):
        ends = _amounts(proxy.scale, interval) if interval else ""
        line = f"{isolated(group)}: {_amount(proxy.scale, value)} {ends}"
        rows.setdefault((setting, proxy.label), []).append(line)
    heads = ("ε", "attack", f"exposure {_interval_head(audit)}")
    cells = ((*key, "\n".join(lines)) for key, lines in rows.items())
    return _titled(audit, "estimates", heads, cells, 3)


def agreement_table(audit: Audit, attacks: Sequence[ProxyAgreement]) -> Table:
    """Each attack beside the gap."""

    def share(count: int, row: ProxyAgreement) -> str:
        return f"{count}/{row.n_settings}" if row.n_settings else words.NOTHING

    def exceeding(row: ProxyAgreement) -> str:
        cells = row.exceeding
        return words.NOTHING if cells is None else f"{cells[0]}/{cells[2]} ({cells[1]})"

    columns: list[Column] = [
        ("attack", lambda row: proxy_named(row.proxy).label),
        ("r of\nexposures", lambda row: words.decimals(row.correlation, 2)),
        ("same sign of\ndisparity", lambda row: share(row.n_same_sign, row)),
        ("larger\ndisparity", lambda row: share(row.n_larger_disparity, row)),
        (
            "r of dis-\nparities",
            lambda row: words.decimals(row.disparity_correlation, 2),
        ),
        ("exceeds gap\n(beyond error)", exceeding),
    ]
    return _made(audit, "agreement", columns, zip(attacks, strict=True), 1)


def _algorithm_table(audit: Audit, published: file.AsPublished) -> Table:
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
        rows.append((f"{row.floor:g}", words.budget_list(row.budgets), word))
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
    return _titled(audit, "algorithm", heads, rows, 3, **values)


def _rankings_table(audit: Audit, compared: Comparison) -> Table:
    """Budgets of one model by each measure, and where PCER and the others part ways."""
    rows = [
        (
            MEASURES[row.measure],
            " < ".join(words.short_budget(epsilon) for epsilon in row.budgets)
            or words.NOTHING,
            words.yes_no(compared.ranking_disagreement.get(row.measure)),
        )
        for row in compared.rankings
    ]
    turned = [words.short_budget(epsilon) for epsilon, _ in compared.opposite]
    refuted = [
        words.short_budget(row.epsilon)
        for row in compared.equal_gap_claims
        if row.refuted
    ]
    given = ((pair, r) for pair, r in compared.correlations.items() if r is not None)
    correlations = ", ".join(
        f"{words.signed(r)} ({pair_name(pair)})" for pair, r in given
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
    return _titled(audit, "rankings", heads, rows, 3, **values)


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        cards = (words.exposure_card, words.outcomes_card)
        answers = [card(audit, audit.told).answer for card in cards]
        rows.append((subject_name(audit), *answers, audit.verdict.words))
    heads = ("release", "exposure", "outcomes", "verdict")
    return Table("All releases", heads, tuple(rows), len(heads))


def least_private_first(audit: Audit) -> list[BudgetResult]:
    """Settings in the order in which people read them, model by model."""
    return sorted(audit.budgets, key=lambda b: (audit.models.index(b.model), -b.budget))


def shown_groups(audit: Audit) -> list[int]:
    """Positions of the groups that charts show: those of the first few pairs."""
    shown = {
        name for pair in audit.budgets[0].pairs[:MOST_PAIRS] for name in pair.groups
    }
    return [g for g, name in enumerate(audit.subject.groups) if name in shown]


def setting_labels(audit: Audit) -> list[str]:
    """What settings are called on an axis: short, and distinct even where they nearly agree."""
    short = [_short(budget) for budget in audit.budgets]
    if len(set(short)) == len(short):
        return [isolated(label) for label in short]
    return [
        "no-DP" if budget.epsilon is None else repr(budget.epsilon)
        for budget in audit.budgets
    ]


def _of_model(audit: Audit, model: str | None) -> str:
    """What tells the tables of several models apart."""
    return f", {model}" if len(audit.models) > 1 else ""


def setting_of(budget: BudgetResult) -> str:
    """The name of a setting."""
    return words.setting_name(budget.model, budget.epsilon)


def _short(budget: BudgetResult) -> str:
    return words.short_setting(budget.model, budget.epsilon)


def _both_p(test: Any) -> str:
    return words.both_p(test.p_value, test.p_value_alone)


def _amount(scale: proxies.Scale, cost: float | None, digits: int = 2) -> str:
    """A cost or a difference of two in hundredths, or in its own unit."""
    if cost is None or scale.per_unit != HUNDREDTHS:
        return words.decimals(cost, 4)
    return words.decimals(HUNDREDTHS * cost, digits)


def _amounts(scale: proxies.Scale, ci: Ends | None) -> str:
    return (
        f"[{_amount(scale, ci[0])}, {_amount(scale, ci[1])}]" if ci else "[no interval]"
    )


def _difference(scale: proxies.Scale, found: file.Difference) -> str:
    sign = "+" if found.value is not None and found.value > 0 else ""
    return f"{sign}{_amount(scale, found.value)}\n{_amounts(scale, found.interval)}"
