"""What every output format shows: an audit as a headline, paragraphs and tables.

The floor table, the intervals and the account are always part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.auditing import (
    NOTHING,
    Agreement,
    AsPublished,
    Audit,
    BoundCheck,
    BudgetResult,
    Comparison,
    FloorRow,
    GroupDifference,
    GroupResult,
    PairResult,
    PublishedPair,
    both_p,
    bounds,
    budget_list,
    decimals,
    number_range,
    p_value,
    plus_minus,
    rate_plus_minus,
    setting_name,
    short_budget,
    short_setting,
    signed,
    yes_no,
)
from pcer.release import GAP, proxies, proxy_named
from pcer.report.table import MAY_BREAK, SOFT_HYPHEN, Table

MOST_GAP_COLUMNS = 2
LONGEST_HEADER = 12
HUNDREDTHS = 100.0

P_BOTH = "p\n(alone)"
"""Heads a column of adjusted p-values with those of single tests in brackets."""


def headline(audit: Audit) -> str:
    """The verdict in one line, naming the data."""
    return audit.title


def subject_name(audit: Audit) -> str:
    """Dataset and attribute.

    They are other people's words: escape them in the target format.
    """
    return f"{audit.subject.dataset} ({audit.subject.attribute})"


def facts(audit: Audit) -> list[str]:
    """What a reader must know to read the numbers: outcome, split, sizes, notes."""
    subject, first = audit.subject, audit.budgets[0]
    weight = "helps" if subject.outcome == "benefit" else "harms"
    split = f"split {subject.split_kind}" if subject.split_kind else "split not said to be random"
    seeds = sorted({budget.n_seeds for budget in audit.budgets})
    splits = sorted({budget.n_splits for budget in audit.budgets})
    sizes = ", ".join(f"{name} {_size(group)}" for name, group in first.groups.items())
    lines = [
        f"A positive prediction {weight} the person. Mechanism: {subject.mechanism}. "
        f"{split[0].upper() + split[1:]}.",
        f"Records per run, train + test: {sizes}.",
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


def tables(audit: Audit) -> list[Table]:
    """All tables of an audit, in reading order."""
    return [
        resolution_table(audit),
        pairs_table(audit),
        differences_table(audit),
        *([costs_table(audit)] if len(audit.costs) > 1 else []),
        published_table(audit),
        floors_table(audit),
        *published_floors_tables(audit),
        *algorithm_tables(audit),
        *norms_tables(audit),
        *rankings_tables(audit),
        *([agreement_table(audit.agreement)] if audit.agreement else []),
    ]


def published_table(audit: Audit) -> Table:
    """The paper's columns for every budget and pair, the gap being the cost; the verdict beside."""
    names = audit.subject.groups if len(audit.subject.groups) <= MOST_GAP_COLUMNS else []
    gaps = tuple(f"gap\n{_broken(name)}" for name in names)
    rows = [
        (
            *_row_label(audit, budget, pair),
            rate_plus_minus(budget.accuracy, 3),
            rate_plus_minus(budget.demographic_parity_gap, 3),
            rate_plus_minus(budget.equalized_odds_gap, 3),
            *(rate_plus_minus(budget.groups[name].overfitting_gap, 4) for name in names),
            f"{plus_minus(found.pcer_disparity)}\n{bounds(found.pcer_disparity.ci)}",
            budget.verdict.words,
        )
        for (budget, pair), found in zip(budget_pairs(audit), published_pairs(audit), strict=True)
    ]
    level = f"{100 * audit.plan.confidence_level:g}"
    return Table(
        "As published",
        (
            *_label_columns(audit),
            "accuracy",
            "DP gap",
            "EO gap",
            *gaps,
            f"PCER disparity\n[{level} % interval]",
            "verdict",
        ),
        tuple(rows),
        n_labels=len(_label_columns(audit)),
        note=(
            f"Mean ± standard deviation over seeds; floor {audit.plan.floor:g}; the cost is the "
            "overfitting gap. DP gap: demographic parity; EO gap: equalized odds. Read a disparity "
            "only with its verdict."
        ),
    )


def resolution_table(audit: Audit) -> Table:
    """Per budget and group: is the cost signal, or chance? People of 100, costs in hundredths."""
    scale = audit.proxy.scale
    rows = [
        (
            _budget(budget),
            name,
            decimals(_of_100(group.benefit.mean), 1),
            amount(proxies.ACCURACY, group.overfitting_gap.mean),
            f"{with_error(scale, group)}\n{amounts(scale, group.cost.interval)}",
            amount(scale, group.noise_level),
            amount(scale, group.cost.upper_limit),
            amount(scale, group.detectable_cost),
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


def pairs_table(audit: Audit) -> Table:
    """Per budget and pair: is a disparity shown, who is worse off, the pooled estimate."""
    rows = [
        (
            *_row_label(audit, budget, pair),
            signed(pair.cross_product.value),
            both_p(pair.cross_product.p_value, pair.cross_product.p_value_alone),
            pair.lower_ratio or NOTHING,
            pair.double_disadvantage or NOTHING,
            _pooled(pair),
            bounds(pair.pcer_disparity.null_interval),
            decimals(pair.sign_holds_below_floor, 4),
        )
        for budget, pair in budget_pairs(audit)
    ]
    return Table(
        "Is there a disparity?",
        (
            *_label_columns(audit),
            "cross\nproduct",
            P_BOTH,
            "lower\nratio",
            f"doubly dis{SOFT_HYPHEN}advantaged",
            "pooled\ndisparity",
            "disparity if\nnothing memorised",
            "sign holds\nbelow floor",
        ),
        tuple(rows),
        n_labels=len(_label_columns(audit)),
        note=(
            "Cross product: rate of the first times cost of the second, minus the reverse; 0 "
            "without memorisation. n.r.: costs not resolved, the pooled number means nothing. "
            "p: Holm-adjusted, in brackets of this test alone."
        ),
    )


def differences_table(audit: Audit) -> Table:
    """Per budget and pair: by how much exposures and benefits differ, for people like these."""
    scale = audit.proxy.scale
    rows = [
        (
            *_row_label(audit, budget, pair),
            _difference(scale, pair.exposure),
            amount(scale, pair.exposure.upper_limit),
            both_p(pair.exposure.p_value, pair.exposure.p_value_alone),
            _difference(proxies.ACCURACY, pair.benefit),
            both_p(pair.benefit.p_value, pair.benefit.p_value_alone),
            pair.driven_by or NOTHING,
        )
        for budget, pair in budget_pairs(audit)
    ]
    return Table(
        "By how much do the groups differ?",
        (
            *_label_columns(audit),
            "cost, first\nminus second",
            "at most,\neither way",
            P_BOTH,
            f"{audit.plan.benefit.replace('_', ' ')},\nfirst minus second",
            P_BOTH,
            "driven by",
        ),
        tuple(rows),
        n_labels=len(_label_columns(audit)),
        note=(
            f"{_only_pair(audit)}Costs in {_unit(scale)}, rates of 100 people. For people like "
            f"these, with {100 * audit.plan.confidence_level:g} % intervals; p adjusted over "
            "settings and pairs, in brackets of this test alone; at most: with 95 % confidence, "
            "each alone."
        ),
    )


def floors_table(audit: Audit) -> Table:
    """The disparity at every floor of the grid: part of every output."""
    rows = [(one.floors, one.floor_slope) for _, one in budget_pairs(audit)]
    return _floors_table(audit, f"Floor sensitivity, by {audit.proxy.label}", rows)


def published_floors_tables(audit: Audit) -> list[Table]:
    """The same for the paper's number, where the audit's cost is another than the gap."""
    rows = [(one.floors, one.floor_slope) for one in published_pairs(audit)]
    title = f"Floor sensitivity as published, by {GAP.label}"
    return [] if audit.cost == GAP.name else [_floors_table(audit, title, rows)]


def _floors_table(
    audit: Audit, title: str, found: Sequence[tuple[Sequence[FloorRow], float | None]]
) -> Table:
    pooled = any(row.mean is not None and row.n_positive_seeds is None for row in found[0][0])
    rows = [
        (
            *_row_label(audit, budget, pair),
            *(_floor_cell(row, budget) for row in floors),
            decimals(slope, 2),
        )
        for (budget, pair), (floors, slope) in zip(budget_pairs(audit), found, strict=True)
    ]
    return Table(
        title,
        (*_label_columns(audit), *(f"floor {floor:g}" for floor in audit.plan.floors), "slope"),
        tuple(rows),
        n_labels=len(_label_columns(audit)),
        note=(
            "Mean ± standard deviation; interval; seeds above 0; share of seeds floored, in which "
            "every cost is below the floor, so that the disparity is only the rate difference "
            "divided by the floor. A slope of −1 is all floor."
            + (" This attack is one number for all seeds: it has no spread over them." * pooled)
        ),
    )


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
    return Table(
        "What every cost says",
        (
            "cost",
            "resolved",
            "more\nexposed",
            "lower\nratio",
            f"doubly dis{SOFT_HYPHEN}advantaged",
            "p",
            "p over\ncosts",
        ),
        tuple(rows),
        n_labels=1,
        note="Each cost put to the same tests. The first is the one that the verdict rests on.",
    )


def algorithm_tables(audit: Audit) -> list[Table]:
    """Algorithm 1 for each model."""
    return [_algorithm_table(one, _of_model(audit, one.model)) for one in audit.published]


def _of_model(audit: Audit, model: str | None) -> str:
    """What tells the tables of several models apart."""
    return f", {model}" if len(audit.models) > 1 else ""


def _algorithm_table(published: AsPublished, of_model: str) -> Table:
    """Algorithm 1: which budget has the smallest disparity at each floor."""
    found = published.algorithm1
    rows = [
        (
            f"{row.floor:g}",
            budget_list(row.budgets),
            _informative(row.floor in found.informative_floors, row.repeats_demographic_parity),
        )
        for row in found.equitable_budget
    ]
    informative = (
        f"over the informative floors: {found.informative_verdict.words}"
        if found.informative_verdict
        else "no floor is informative, since no cost is resolved"
    )
    return Table(
        f"Algorithm 1: budget of smallest disparity{of_model}",
        ("floor", "budget", "informative?"),
        tuple(rows),
        n_labels=3,
        note=f"{found.verdict.words} ({found.label}); {informative}.",
    )


def norms_tables(audit: Audit) -> list[Table]:
    """Which budget each norm would pick, for each model."""
    return [_norms_table(one, _of_model(audit, one.model)) for one in audit.comparisons]


def _norms_table(compared: Comparison, of_model: str) -> Table:
    """Which budget each norm would pick; the norm is the reader's choice."""
    rows = [
        (row.norm, row.rule, budget_list(row.budgets), yes_no(row.costs_resolved))
        for row in compared.norms
    ]
    return Table(
        f"Which budget would each norm pick?{of_model}",
        ("norm", "rule", "budget", "costs resolved"),
        tuple(rows),
        n_labels=4,
        note="The norm is the reader's choice; a choice by unresolved costs is a choice by chance.",
    )


def rankings_tables(audit: Audit) -> list[Table]:
    """PCER beside the outcome-only measures, for each model."""
    return [_rankings_table(one, _of_model(audit, one.model)) for one in audit.comparisons]


def _rankings_table(compared: Comparison, of_model: str) -> Table:
    """Budgets ordered by each measure, and where PCER and the others part ways."""
    rows = [
        (
            row.measure.replace("_", " "),
            " < ".join(short_budget(epsilon) for epsilon in row.budgets) or NOTHING,
            yes_no(compared.ranking_disagreement.get(row.measure)),
        )
        for row in compared.rankings
    ]
    turned = [short_budget(row.epsilon) for row in compared.direction_disagreement]
    refuted = [short_budget(row.epsilon) for row in compared.equal_gap_claims if row.refuted]
    return Table(
        f"Comparison with outcome-only measures{of_model}",
        ("measure", "budgets, smallest first", "other best budget\nthan PCER"),
        tuple(rows),
        n_labels=3,
        note=(
            f"Opposite direction to the rate difference at: {', '.join(turned) or 'no budget'}. "
            "Passing both audits would claim equal costs (Proposition 3), which is refuted at: "
            f"{', '.join(refuted) or 'no budget'}. {_correlations(compared)}"
        ),
    )


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = [
        (
            audit.subject.dataset,
            audit.subject.attribute,
            audit.verdict.words,
            ", ".join(audit.worse_off) or NOTHING,
            _other_settings(audit) or NOTHING,
        )
        for audit in audits
    ]
    heads = ("dataset", "attribute", "verdict", "worse off", "other settings")
    return Table("All releases", heads, tuple(rows), n_labels=len(heads))


def _other_settings(audit: Audit) -> str:
    """The settings whose verdict is another than the strongest, by their verdict."""
    others: dict[str, list[str]] = {}
    for one in audit.budgets:
        if one.verdict is not audit.verdict:
            others.setdefault(one.verdict.words, []).append(_budget(one))
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in others.items())


def budget_pairs(audit: Audit) -> list[tuple[BudgetResult, PairResult]]:
    """Every budget with each of its pairs, in the order of the tables."""
    return [(budget, pair) for budget in audit.budgets for pair in budget.pairs]


def published_pairs(audit: Audit) -> list[PublishedPair]:
    """The paper's numbers in the order of ``budget_pairs``."""
    by_setting = {
        (one.model, budget.epsilon): budget.pairs
        for one in audit.published
        for budget in one.budgets
    }
    return [pair for one in audit.budgets for pair in by_setting[one.model, one.epsilon]]


def _label_columns(audit: Audit) -> tuple[str, ...]:
    return ("ε",) if len(audit.subject.groups) == 2 else ("ε", "groups")


def _row_label(audit: Audit, budget: BudgetResult, pair: PairResult) -> tuple[str, ...]:
    label = (_budget(budget), " − ".join(pair.groups))
    return label[: len(_label_columns(audit))]


def _broken(name: str) -> str:
    """A long name may break after its hyphens, where a terminal would cut anywhere."""
    return name.replace("-", f"-{MAY_BREAK}") if len(name) > LONGEST_HEADER else name


def _pooled(pair: PairResult) -> str:
    if pair.pooled.disparity is None:
        return NOTHING
    label = "" if pair.pooled.costs_resolved else " (n.r.)"
    return f"{signed(pair.pooled.disparity)}{label}\n{bounds(pair.pooled.ci)}"


def _floor_cell(row: FloorRow, budget: BudgetResult) -> str:
    share = row.floor_dominated_share
    floored = NOTHING if share is None else f"{100 * share:.0f} %"
    n_above = row.n_positive_seeds
    above = NOTHING if n_above is None else f"{n_above}/{budget.n_seeds}"
    counts = f"{above}; {floored}"
    return f"{plus_minus(row)}\n{bounds(row.ci)}\n{counts}"


def amount(scale: proxies.Scale, cost: float | None) -> str:
    """A cost or a difference of two in hundredths, or in its own unit.

    >>> amount(proxies.AUC, -0.01234), amount(proxies.EPSILON, 0.01234)
    ('−1.23', '0.0123')
    """
    if scale.per_unit == HUNDREDTHS:
        return decimals(_of_100(cost), 2)
    return decimals(cost, 4)


def _of_100(share: float | None) -> float | None:
    """A share as so many of 100."""
    return None if share is None else HUNDREDTHS * share


def with_error(scale: proxies.Scale, group: GroupResult) -> str:
    """A group's cost estimate and its standard error."""
    if group.cost.value is None:
        return NOTHING
    return f"{amount(scale, group.cost.value)} ± {amount(scale, group.cost.standard_error)}"


def _unit(scale: proxies.Scale) -> str:
    return "hundredths" if scale.per_unit == HUNDREDTHS else f"units of {scale.unit}"


def _only_pair(audit: Audit) -> str:
    """What is subtracted, where the rows do not say it."""
    pairs = audit.budgets[0].pairs
    return f"{' − '.join(pairs[0].groups)}. " if len(pairs) == 1 else ""


def _difference(scale: proxies.Scale, found: GroupDifference) -> str:
    sign = "+" if found.value is not None and found.value > 0 else ""
    return f"{sign}{amount(scale, found.value)}\n{amounts(scale, found.interval)}"


def amounts(scale: proxies.Scale, ci: tuple[float, float] | None) -> str:
    """Both ends of an interval."""
    return f"[{amount(scale, ci[0])}, {amount(scale, ci[1])}]" if ci else "[no interval]"


def _informative(informative: bool, repeats: bool) -> str:
    if repeats:
        return "no: above every cost, so it repeats demographic parity"
    return "yes" if informative else "no: not below a resolved cost"


def _correlations(compared: Comparison) -> str:
    known = [row for row in compared.correlations if row.r is not None]
    if not known:
        return ""
    told = ", ".join(f"{row.r:+z.2f} ({' − '.join(row.groups)})" for row in known)
    return f"Correlation of disparity and rate difference over budgets, descriptive only: {told}."


def _size(group: GroupResult) -> str:
    if group.n_train is None or group.n_test is None:
        return "not said"
    return f"{group.n_train:,.0f} + {group.n_test:,.0f}"


def _budget(budget: BudgetResult) -> str:
    return short_setting(budget.model, budget.epsilon)


def agreement_table(found: Agreement) -> Table:
    """Each attack beside the gap."""
    rows = [
        (
            proxy_named(row.proxy).label,
            decimals(row.correlation, 2),
            _share(row.n_same_sign, row.n_settings),
            _share(row.n_larger_disparity, row.n_settings),
            decimals(row.disparity_correlation, 2),
            _bound(row.bound),
        )
        for row in found.proxies
    ]
    return Table(
        f"Do the attacks agree? Each beside {proxy_named(found.baseline).phrase}",
        (
            "attack",
            "r of\ncosts",
            "same sign of\ndisparity",
            "larger\ndisparity",
            "r of dis-\nparities",
            "exceeds gap\n(beyond error)",
        ),
        tuple(rows),
        n_labels=1,
        note=(
            "Correlations over budgets and groups, counts over budgets and pairs: descriptive, as "
            "they share records. An attack that is one number for all seeds has no disparities "
            "over them. Last column: cells (budget, group) whose advantage is above the "
            "overfitting gap, which Proposition 1 claims never to happen; beyond error in brackets."
        ),
    )


def _share(n: int, total: int) -> str:
    return f"{n}/{total}" if total else NOTHING


def _bound(bound: BoundCheck | None) -> str:
    if bound is None:
        return NOTHING
    return f"{bound.n_cells_exceeding}/{bound.n_cells} ({bound.n_cells_refuting})"
