"""Every table of an audit, once for all formats, and the lines that stand beside them.

The floor table and the intervals are always among them. Names in cells are other people's words;
the renderers escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pcer.auditing.algorithm1 import Comparison, ProxyAgreement, agreement, comparisons
from pcer.auditing.file import (
    AsPublished,
    Audit,
    BudgetResult,
    FloorRow,
    GroupDifference,
    GroupResult,
    PairResult,
    PublishedPair,
    Summary,
)
from pcer.auditing.measure import measure_costs
from pcer.auditing.verdict import Verdict
from pcer.auditing.words import (
    NOTHING,
    both_p,
    bounds,
    budget_list,
    decimals,
    number_range,
    p_value,
    plus_minus,
    rate_bounds,
    rate_plus_minus,
    setting_name,
    short_budget,
    short_setting,
    signed,
    yes_no,
)
from pcer.release import Release, panels, proxies
from pcer.release.proxies import GAP, Proxy, proxy_named
from pcer.report.table import MAY_BREAK, SOFT_HYPHEN, Table, isolated, pair_name
from pcer.statistics import interval_quantile

MOST_ROWS = 24
"""In a table that is read without asking for everything."""
MOST_GAP_COLUMNS = 2
MOST_PAIRS = 5
"""Pairs that charts show; more would not be told apart, and the tables have all."""
LONGEST_HEADER = 12
HUNDREDTHS = 100.0
PUBLISHED_FLOORS = f"Floor sensitivity as published, by {GAP.label}"
DIFFERENCES = "By how much do the groups differ?"
UNSURE = (Verdict.NOT_RESOLVED, Verdict.INSUFFICIENT_DATA)
"""Where nothing is said about anyone's exposure."""
P_BOTH = "p\n(alone)"
"""Heads a column of adjusted p-values with those of single tests in brackets."""
RECEIVED = {
    "positive_rate": "predicted\npositive,\nof 100",
    "true_positive_rate": "predicted\npositive, of 100\nwho qualify",
    "precision": "qualify, of 100\npredicted\npositive",
}


def subject_name(audit: Audit) -> str:
    """Dataset and attribute."""
    return f"{audit.subject.dataset} ({audit.subject.attribute})"


def facts(audit: Audit) -> list[str]:
    """What a reader must know to read the numbers: outcome, split, sizes, notes."""
    subject, first = audit.subject, audit.budgets[0]
    weight = "helps" if subject.outcome == "benefit" else "harms"
    split = f"split {subject.split_kind}" if subject.split_kind else "split not said to be random"
    seeds = sorted({budget.n_seeds for budget in audit.budgets})
    splits = sorted({budget.n_splits for budget in audit.budgets})
    sizes = []
    for name, group in first.groups.items():
        is_known = group.n_train is not None and group.n_test is not None
        size = f"{group.n_train:,.0f} + {group.n_test:,.0f}" if is_known else "not said"
        sizes.append(f"{name} {size}")
    lines = [
        f"A positive prediction {weight} the person. Mechanism: {subject.mechanism}. "
        f"{split[0].upper() + split[1:]}.",
        f"Records per run, train + test: {', '.join(sizes)}.",
        f"Budgets: {len(audit.budgets)}; seeds per budget: {number_range(seeds)}; "
        f"distinct splits per budget: {number_range(splits)}.",
    ]
    if subject.n_missing_group:
        lines.append(f"{subject.n_missing_group:,} records have no known group and are left out.")
    return [*lines, *subject.notes]


def advice(audit: Audit) -> list[str]:
    """The advice of every verdict that occurs, strongest first, with reasons."""
    budgets = sorted(audit.budgets, key=lambda budget: budget.verdict is not audit.verdict)
    by_text: dict[str, list[str]] = {}
    for budget in budgets:
        reason = f" Reason: {budget.reason}." if budget.reason else ""
        text = f"{budget.verdict.words}: {budget.advice}{reason}"
        by_text.setdefault(text, []).append(setting_name(budget.model, budget.epsilon))
    return [f"{', '.join(names)} — {text}" for text, names in by_text.items()]


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    return {
        "Every test": [resolution_table(audit), pairs_table(audit), differences_table(audit)],
        "Every cost": [
            *([costs_table(audit)] if len(audit.costs) > 1 else []),
            *([agreement_table(found)] if (found := agreement(audit)) else []),
        ],
        "The floor": [floors_table(audit)],
        "As published": [
            published_table(audit),
            *([] if audit.cost == GAP.name else [_floors_table(audit, PUBLISHED_FLOORS, 1)]),
            *(_algorithm_table(audit, one) for one in audit.published),
            *(_rankings_table(audit, one) for one in comparisons(audit)),
        ],
    }


def tables(audit: Audit) -> list[Table]:
    """All tables of an audit, in reading order."""
    return [table for group in table_groups(audit).values() for table in group]


def finding_table(audit: Audit, *, most_rows: int | None = None) -> Table:
    """Per setting and group what it receives and how exposed it is, in people out of 100.

    Args:
        audit: whose numbers are shown.
        most_rows: where there would be more, only the setting that the headline is about, and of
            its groups first those that are worse off or most exposed.
    """
    names = audit.subject.groups
    n_all = len(audit.budgets) * len(names)
    settings = audit.budgets if most_rows is None or n_all <= most_rows else [audit.told]
    several, rows = len(settings) > 1, []
    for budget in settings:
        cost = {name: budget.groups[name].cost.value or 0.0 for name in names}
        first = sorted(names, key=lambda name: (name not in budget.worse_off, -cost[name]))
        for name in (name for name in names if name in first[:most_rows]):
            at = (_setting(budget),) if several else ()
            rows.append(at + _finding_row(audit, budget, name))
    level = f"{100 * audit.plan.confidence_level:g}"
    weight = "a benefit" if audit.subject.outcome == "benefit" else "a harm"
    chance = "; guessing gives 50" if audit.proxy.scale.is_advantage else ""
    left_out = n_all - len(rows)
    return Table(
        "Who receives what, and who is exposed" + ("" if several else f": {_setting(settings[0])}"),
        (
            *(("setting",) if several else ()),
            "group",
            RECEIVED[audit.plan.benefit],
            f"{audit.proxy.scale.column}\n[{level} % interval]",
            "at\nmost",
            "shown?",
        ),
        tuple(rows),
        n_labels=1 + several,
        note=(
            f"A positive prediction is {weight}. Exposure: {audit.proxy.label}{chance}. Shown: "
            "beyond chance. At most: with 95 % confidence, each alone."
            + (f" {left_out} further rows are in the full table." if left_out else "")
        ),
    )


def _finding_row(audit: Audit, budget: BudgetResult, name: str) -> tuple[str, ...]:
    group = budget.groups[name]
    received, cost = group.benefit.mean, group.cost
    ends = ", ".join(_exposure(audit, end) for end in cost.interval or ())
    if group.too_few:
        shown = "too few"
    elif not group.resolved or budget.verdict in UNSURE:
        shown = "no"
    elif name not in budget.worse_off:
        shown = "yes"
    else:
        is_double = budget.verdict is Verdict.DOUBLE_DISADVANTAGE
        shown = "yes, doubly disadvantaged" if is_double else "yes, worse off"
    return (
        name,
        NOTHING if received is None else f"{round(100 * received)}",
        _exposure(audit, cost.value) + (f" [{ends}]" if ends else ""),
        _exposure(audit, cost.upper_limit),
        shown,
    )


def _exposure(audit: Audit, cost: float | None) -> str:
    """A cost in people out of 100 or its own unit, all of one audit with the same decimals."""
    if cost is None:
        return NOTHING
    scale = audit.proxy.scale
    costs = [group.cost.value or 0.0 for one in audit.budgets for group in one.groups.values()]
    is_coarse = scale.is_advantage or scale.per_unit * max(map(abs, costs)) >= 1
    return decimals(50 * scale.is_advantage + scale.per_unit * cost, 1 if is_coarse else 2)


def numbers_table(audit: Audit) -> Table:
    """The numbers behind the pictures, in people of 100, with more digits than they print."""
    scale = audit.proxy.scale
    base = 50 if scale.is_advantage else 0
    rows = []
    for one in audit.budgets:
        for name, group in one.groups.items():
            low, high = group.cost.interval or (None, None)
            costs = (group.cost.value, low, high, group.cost.upper_limit_together)
            numbers = [None if cost is None else base + scale.per_unit * cost for cost in costs]
            received = group.benefit.mean
            numbers.insert(0, None if received is None else HUNDREDTHS * received)
            shown = ["" if number is None else f"{number:z.4f}" for number in numbers]
            rows.append((_setting(one), name, *shown, yes_no(group.resolved)))
    columns = ("receives, of 100", "exposure, in 100", "low", "high", "at most", "shown")
    return Table("Numbers of the pictures", ("setting", "group", *columns), tuple(rows), 2)


def resolution_table(audit: Audit) -> Table:
    """Per setting and group: is the cost signal, or chance? People of 100, costs in hundredths."""
    scale = audit.proxy.scale
    rows = [
        (
            _short(budget),
            name,
            _amount(proxies.ACCURACY, group.benefit.mean, 1),
            _amount(proxies.ACCURACY, group.overfitting_gap.mean),
            _with_error(scale, group),
            _amount(scale, group.noise_level),
            _amount(scale, group.cost.upper_limit),
            _amount(scale, group.detectable_cost),
            both_p(group.p_value, group.p_value_alone),
            "yes" if group.resolved else "no",
        )
        for budget in audit.budgets
        for name, group in budget.groups.items()
    ]
    return Table(
        "Is it signal?",
        (
            "ε",
            "group",
            audit.plan.benefit.replace("_", "\n", 1).replace("_", " "),
            "gap",
            f"cost ± error\n[{100 * audit.plan.confidence_level:g} % interval]",
            "noise\nlevel",
            "at\nmost",
            f"detect{SOFT_HYPHEN}able",
            P_BOTH,
            "resolved",
        ),
        tuple(rows),
        n_labels=2,
        note=(
            f"Rate and gap: of 100 people. Cost: {audit.proxy.label}, in {_unit(scale)}, 0 at "
            "chance. Noise level: its mean if nothing is memorised, below 0 taken as 0. p: "
            "one-sided, Holm-adjusted, in brackets of this test alone, about these records; the "
            "interval and the most it can be are for people like these."
        ),
    )


PairCells = Callable[[BudgetResult, PairResult, PublishedPair], tuple[str, ...]]


def _pair_rows_table(
    audit: Audit, title: str, columns: Sequence[str], cells: PairCells, note: str
) -> Table:
    """A row for every setting and pair; beside disparities stands the setting's verdict."""
    several, judged = len(audit.subject.groups) > 2, title != DIFFERENCES
    rows = [
        (
            _short(budget),
            *((pair_name(pair.groups),) if several else ()),
            *((budget.verdict.words,) if judged else ()),
            *cells(budget, pair, published),
        )
        for budget, pair, published in setting_pairs(audit)
    ]
    verdict = "verdict of\nthe setting" if several else "verdict"
    labels = ("ε", *(("groups",) if several else ()), *((verdict,) if judged else ()))
    return Table(title, (*labels, *columns), tuple(rows), len(labels), note)


def setting_pairs(audit: Audit) -> Iterator[tuple[BudgetResult, PairResult, PublishedPair]]:
    """Every setting with each of its pairs, and the paper's numbers of that pair."""
    published = {
        (one.model, budget.epsilon): budget.pairs
        for one in audit.published
        for budget in one.budgets
    }
    for budget in audit.budgets:
        found = published[budget.model, budget.epsilon]
        yield from ((budget, *pairs) for pairs in zip(budget.pairs, found, strict=True))


def pairs_table(audit: Audit) -> Table:
    """Per setting and pair: is a disparity shown, who is worse off, the pooled estimate."""

    def cells(budget: BudgetResult, pair: PairResult, _: PublishedPair) -> tuple[str, ...]:
        cross = pair.cross_product
        double = both_p(pair.double_disadvantage_p, pair.double_disadvantage_p_alone)
        label = "" if pair.pooled.costs_resolved else " (n.r.)"
        return (
            signed(cross.value),
            both_p(cross.p_value, cross.p_value_alone),
            pair.lower_ratio or NOTHING,
            f"{pair.double_disadvantage or NOTHING}\n{double}",
            NOTHING
            if pair.pooled.disparity is None
            else f"{signed(pair.pooled.disparity)}{label}\n{bounds(pair.pooled.ci)}",
            bounds(pair.pcer_disparity.null_interval),
            decimals(pair.sign_holds_below_floor, 4),
        )

    columns = (
        "cross\nproduct",
        P_BOTH,
        "lower\nratio",
        f"doubly dis{SOFT_HYPHEN}advantaged,\n{P_BOTH}",
        "pooled\ndisparity",
        "disparity if\nnothing memorised",
        "sign holds\nbelow floor",
    )
    note = (
        "Cross product: rate of the first times cost of the second, minus the reverse; 0 "
        "without memorisation. n.r.: costs not resolved, the pooled number means nothing. "
        "p: Holm-adjusted, in brackets of this test alone; of double disadvantage the larger of "
        "its two tests."
    )
    return _pair_rows_table(audit, "Is there a disparity?", columns, cells, note)


def differences_table(audit: Audit) -> Table:
    """Per setting and pair: by how much exposures and benefits differ, for people like these."""
    scale = audit.proxy.scale

    def cells(budget: BudgetResult, pair: PairResult, _: PublishedPair) -> tuple[str, ...]:
        return (
            _difference(scale, pair.exposure),
            _amount(scale, pair.exposure.upper_limit),
            both_p(pair.exposure.p_value, pair.exposure.p_value_alone),
            _difference(proxies.ACCURACY, pair.benefit),
            both_p(pair.benefit.p_value, pair.benefit.p_value_alone),
            pair.driven_by or NOTHING,
        )

    columns = (
        "cost, first\nminus second",
        "at most,\neither way",
        P_BOTH,
        f"{audit.plan.benefit.replace('_', ' ')},\nfirst minus second",
        P_BOTH,
        "driven by",
    )
    pairs = audit.budgets[0].pairs
    only = f"{pair_name(pairs[0].groups)}. " if len(pairs) == 1 else ""
    note = (
        f"{only}Costs in {_unit(scale)}, rates of 100 people. For people like "
        f"these, with {100 * audit.plan.confidence_level:g} % intervals; p adjusted over "
        "settings and pairs, in brackets of this test alone; at most: with 95 % confidence, "
        "each alone."
    )
    return _pair_rows_table(audit, DIFFERENCES, columns, cells, note)


def floors_table(audit: Audit) -> Table:
    """The disparity at every floor of the grid and at the plan's: part of every output."""
    pooled = any(
        row.mean is not None and row.n_positive_seeds is None
        for row in audit.budgets[0].pairs[0].floors
    )
    more = " This attack is one number for all seeds: it has no spread over them." * pooled
    return _floors_table(audit, f"Floor sensitivity, by {audit.proxy.label}", 0, more)


def _floors_table(audit: Audit, title: str, which: int, more: str = "") -> Table:
    """Floors of the audit's pairs (0), or of the paper's (1)."""

    def cells(budget: BudgetResult, *pairs: Any) -> tuple[str, ...]:
        found = []
        for _, row in floor_rows(audit, pairs[which]):
            above = share = None
            if isinstance(row, FloorRow):
                above, share = row.n_positive_seeds, row.floor_dominated_share
            counts = NOTHING if above is None else f"{above}/{budget.n_seeds}"
            floored = NOTHING if share is None else f"{100 * share:.0f} %"
            found.append(f"{plus_minus(row)}\n{bounds(row.ci)}\n{counts}; {floored}")
        return (*found, decimals(pairs[which].floor_slope, 2))

    columns = (*(f"floor {floor:g}" for floor in audit_floors(audit)), "slope")
    note = (
        "Mean ± standard deviation; interval; seeds above 0; share of seeds floored, in which "
        "every cost is below the floor, so that the disparity is only the rate difference "
        f"divided by the floor. A slope of −1 is all floor.{more}"
    )
    return _pair_rows_table(audit, title, columns, cells, note)


def audit_floors(audit: Audit) -> list[float]:
    """The floors at which an audit has intervals, ascending."""
    return sorted({*audit.plan.floors, audit.plan.floor})


def floor_rows(audit: Audit, pair: PairResult | PublishedPair) -> list[tuple[float, Summary]]:
    """A pair's disparity at every floor of the grid, and at the plan's where that is another."""
    rows: dict[float, Summary] = {row.floor: row for row in pair.floors}
    rows.setdefault(audit.plan.floor, pair.pcer_disparity)
    return sorted(rows.items())


def published_table(audit: Audit) -> Table:
    """The paper's columns for every setting and pair, the gap being the cost."""
    names = audit.subject.groups if len(audit.subject.groups) <= MOST_GAP_COLUMNS else []

    def cells(budget: BudgetResult, _: PairResult, pair: PublishedPair) -> tuple[str, ...]:
        gaps = [budget.groups[name].overfitting_gap for name in names]
        rates = (budget.accuracy, budget.demographic_parity_gap, budget.equalized_odds_gap)
        return (
            *(_rate(found, 3) for found in rates),
            *(_rate(found, 4) for found in gaps),
            f"{plus_minus(pair.pcer_disparity)}\n{bounds(pair.pcer_disparity.ci)}",
        )

    gaps = (f"gap\n{_broken(name)}" for name in names)
    columns = ("accuracy", "DP gap", "EO gap", *gaps, "PCER\ndisparity")
    note = (
        f"Mean ± standard deviation over seeds, and the {100 * audit.plan.confidence_level:g} % "
        f"interval of the mean; floor {audit.plan.floor:g}; the cost is the {GAP.label}. DP gap: "
        "demographic parity; EO gap: equalized odds. Read a disparity only with its verdict."
    )
    return _pair_rows_table(audit, "As published", columns, cells, note)


def costs_table(audit: Audit) -> Table:
    """What every carried cost says, the audit's own first."""
    rows = [
        (
            proxy_named(one.cost).label,
            f"{one.n_resolved} of {one.n_cells}",
            ", ".join(one.more_exposed) or NOTHING,
            ", ".join(one.lower_ratio) or NOTHING,
            ", ".join(one.double_disadvantage) or NOTHING,
            p_value(one.p_value),
            p_value(one.p_value_over_costs),
        )
        for one in audit.costs
    ]
    double = f"doubly dis{SOFT_HYPHEN}advantaged"
    return Table(
        "What every cost says",
        ("cost", "resolved", "more\nexposed", "lower\nratio", double, "p", "p over\ncosts"),
        tuple(rows),
        note="Each cost put to the same tests. The first is the one that the verdict rests on.",
    )


Estimate = tuple[str, Proxy, str, float | None, tuple[float, float] | None]
"""Setting, attack, group, and what the attack finds in it, with a normal interval."""


def cost_estimates(audit: Audit, release: Release) -> Iterator[Estimate]:
    """Estimates of every cost that the release carries, of the groups that charts show."""
    measured = measure_costs(panels(release), audit.plan)
    reach = interval_quantile(audit.plan.confidence_level)
    for k, label in enumerate(setting_labels(audit)):
        for name, by_setting in measured.items():
            if (exposed := by_setting[k].exposed) is None:
                continue
            for g in shown_groups(audit):
                cost, error = float(exposed.value[g]), float(np.sqrt(exposed.alone[g]))
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
    return Table(
        "Cost by every proxy",
        ("ε", "proxy", f"cost [{100 * audit.plan.confidence_level:g} % interval]"),
        tuple((*key, "\n".join(lines)) for key, lines in rows.items()),
        3,
        "Each proxy measures another side of exposure, on its own scale, in hundredths; the spent "
        "epsilon as it is. Intervals do not tell who is more exposed: the tests above do.",
    )


def agreement_table(attacks: Sequence[ProxyAgreement]) -> Table:
    """Each attack beside the gap."""
    rows = []
    for row in attacks:
        cells, n = row.exceeding, row.n_settings
        rows.append(
            (
                proxy_named(row.proxy).label,
                decimals(row.correlation, 2),
                f"{row.n_same_sign}/{n}" if n else NOTHING,
                f"{row.n_larger_disparity}/{n}" if n else NOTHING,
                decimals(row.disparity_correlation, 2),
                NOTHING if cells is None else f"{cells[0]}/{cells[2]} ({cells[1]})",
            )
        )
    return Table(
        f"Do the attacks agree? Each beside {GAP.phrase}",
        (
            "attack",
            "r of\ncosts",
            "same sign of\ndisparity",
            "larger\ndisparity",
            "r of dis-\nparities",
            "exceeds gap\n(beyond error)",
        ),
        tuple(rows),
        note=(
            "Correlations over budgets and groups, counts over budgets and pairs: descriptive, as "
            "they share records. An attack that is one number for all seeds has no disparities "
            "over them. Last column: cells (budget, group) whose advantage is above the "
            "overfitting gap, which Proposition 1 claims never to happen; beyond error in brackets."
        ),
    )


def _algorithm_table(audit: Audit, published: AsPublished) -> Table:
    """Algorithm 1 of one model: which budget has the smallest disparity at each floor."""
    found = published.algorithm1
    rows = []
    for row in found.equitable_budget:
        word = "yes" if row.floor in found.informative_floors else "no: not below a resolved cost"
        if row.repeats_demographic_parity:
            word = "no: above every cost, so it repeats demographic parity"
        rows.append((f"{row.floor:g}", budget_list(row.budgets), word))
    informative = (
        f"over the informative floors: {found.informative_verdict.words}"
        if found.informative_verdict
        else "no floor is informative, since no cost is resolved"
    )
    return Table(
        f"Algorithm 1: budget of smallest disparity{_of_model(audit, published.model)}",
        ("floor", "budget", "informative?"),
        tuple(rows),
        n_labels=3,
        note=f"{found.verdict.words} ({found.label}); {informative}.",
    )


def _rankings_table(audit: Audit, compared: Comparison) -> Table:
    """Budgets of one model by each measure, and where PCER and the others part ways."""
    rows = [
        (
            row.measure.replace("_", " "),
            " < ".join(short_budget(epsilon) for epsilon in row.budgets) or NOTHING,
            yes_no(compared.ranking_disagreement.get(row.measure)),
        )
        for row in compared.rankings
    ]
    turned = [short_budget(epsilon) for epsilon, _ in compared.opposite]
    refuted = [short_budget(row.epsilon) for row in compared.equal_gap_claims if row.refuted]
    correlations = ", ".join(
        f"{r:+z.2f} ({pair_name(groups)})"
        for groups, r in compared.correlations.items()
        if r is not None
    )
    descriptive = "Correlation of disparity and rate difference over budgets, descriptive only:"
    return Table(
        f"Comparison with outcome-only measures{_of_model(audit, compared.model)}",
        ("measure", "budgets, smallest first", "other best budget\nthan PCER"),
        tuple(rows),
        n_labels=3,
        note=(
            f"Opposite direction to the rate difference at: {', '.join(turned) or 'no budget'}. "
            "Passing both audits would claim equal costs (Proposition 3), which is refuted at: "
            f"{', '.join(refuted) or 'no budget'}. "
            + (f"{descriptive} {correlations}." if correlations else "")
        ),
    )


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        others: dict[str, list[str]] = {}
        for one in audit.budgets:
            if one.verdict is not audit.verdict:
                others.setdefault(one.verdict.words, []).append(_short(one))
        told = "; ".join(f"{words}: {', '.join(names)}" for words, names in others.items())
        worse = ", ".join(audit.worse_off)
        subject = audit.subject
        row = (subject.dataset, subject.attribute, audit.verdict.words, worse, told)
        rows.append(tuple(cell or NOTHING for cell in row))
    heads = ("dataset", "attribute", "verdict", "worse off", "other settings")
    return Table("All releases", heads, tuple(rows), n_labels=len(heads))


def shown_pairs(audit: Audit) -> list[tuple[int, int]]:
    """The pairs of groups that charts show, as positions in the subject's list of groups."""
    groups = audit.subject.groups
    pairs = audit.budgets[0].pairs[:MOST_PAIRS]
    return [(groups.index(pair.groups[0]), groups.index(pair.groups[1])) for pair in pairs]


def shown_groups(audit: Audit) -> list[int]:
    """The groups that charts show, in the subject's order."""
    return sorted({group for pair in shown_pairs(audit) for group in pair})


def setting_labels(audit: Audit) -> list[str]:
    """What settings are called on an axis: short, and distinct even where they nearly agree."""
    short = [_short(one) for one in audit.budgets]
    if len(set(short)) == len(short):
        return [isolated(label) for label in short]
    return ["no-DP" if budget.epsilon is None else repr(budget.epsilon) for budget in audit.budgets]


def _of_model(audit: Audit, model: str | None) -> str:
    """What tells the tables of several models apart."""
    return f", {model}" if len(audit.models) > 1 else ""


def _setting(budget: BudgetResult) -> str:
    return setting_name(budget.model, budget.epsilon)


def _short(budget: BudgetResult) -> str:
    return short_setting(budget.model, budget.epsilon)


def _broken(name: str) -> str:
    """A long name may break after its hyphens, where a terminal would cut anywhere."""
    return name.replace("-", f"-{MAY_BREAK}") if len(name) > LONGEST_HEADER else name


def _rate(found: Summary, digits: int) -> str:
    return f"{rate_plus_minus(found, digits)}\n{rate_bounds(found.ci, digits)}"


def _amount(scale: proxies.Scale, cost: float | None, digits: int = 2) -> str:
    """A cost or a difference of two in hundredths, or in its own unit."""
    if cost is None or scale.per_unit != HUNDREDTHS:
        return decimals(cost, 4)
    return decimals(HUNDREDTHS * cost, digits)


def _amounts(scale: proxies.Scale, ci: tuple[float, float] | None) -> str:
    return f"[{_amount(scale, ci[0])}, {_amount(scale, ci[1])}]" if ci else "[no interval]"


def _with_error(scale: proxies.Scale, group: GroupResult) -> str:
    cost = group.cost
    error = "" if cost.value is None else f" ± {_amount(scale, cost.standard_error)}"
    return f"{_amount(scale, cost.value)}{error}\n{_amounts(scale, cost.interval)}"


def _unit(scale: proxies.Scale) -> str:
    return "hundredths" if scale.per_unit == HUNDREDTHS else f"units of {scale.unit}"


def _difference(scale: proxies.Scale, found: GroupDifference) -> str:
    sign = "+" if found.value is not None and found.value > 0 else ""
    return f"{sign}{_amount(scale, found.value)}\n{_amounts(scale, found.interval)}"
