"""Every table of an audit, once for all formats, and the lines that stand beside them.

The floor table and the intervals are always among them. Names in cells are other people's words;
the renderers escape them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from pcer.auditing import file, words
from pcer.auditing.algorithm1 import Comparison, ProxyAgreement, agreement, comparisons
from pcer.auditing.file import Audit, BudgetResult, GroupResult, PairResult, PublishedPair, Summary
from pcer.auditing.measure import measure_costs
from pcer.auditing.verdict import Verdict
from pcer.release import Release, panels, proxies
from pcer.release.proxies import GAP, Proxy, proxy_named
from pcer.report.table import MAY_BREAK, SOFT_HYPHEN, Table, isolated, pair_name, template
from pcer.statistics import interval_quantile

MOST_ROWS = 24  # in a table that is read without asking for everything
MOST_GAP_COLUMNS = 2
MOST_PAIRS = 5  # pairs that charts show; more would not be told apart, and the tables have all
LONGEST_HEADER = 12
HUNDREDTHS = 100.0
# Where nothing is said about anyone's exposure.
UNSURE = (Verdict.NOT_RESOLVED, Verdict.INSUFFICIENT_DATA)
P_BOTH = "p\n(alone)"  # heads a column of adjusted p-values with those of single tests in brackets


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
        f"Budgets: {len(audit.budgets)}; seeds per budget: {words.number_range(seeds)}; "
        f"distinct splits per budget: {words.number_range(splits)}.",
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
        by_text.setdefault(text, []).append(setting_of(budget))
    return [f"{', '.join(names)} — {text}" for text, names in by_text.items()]


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    return {
        "Every test": [resolution_table(audit), pairs_table(audit), differences_table(audit)],
        "Every cost": [
            *([costs_table(audit)] if len(audit.costs) > 1 else []),
            *([agreement_table(audit, found)] if (found := agreement(audit)) else []),
        ],
        "The floor": [floors_table(audit)],
        "As published": [
            published_table(audit),
            *([] if audit.cost == GAP.name else [floors_table(audit, as_published=True)]),
            *(_algorithm_table(audit, published) for published in audit.published),
            *(_rankings_table(audit, compared) for compared in comparisons(audit)),
        ],
    }


def tables(audit: Audit) -> list[Table]:
    """All tables of an audit, in reading order."""
    return [table for group in table_groups(audit).values() for table in group]


def finding_table(audit: Audit, *, most_rows: int | None = None) -> Table:
    """Per setting and group what it receives and how exposed it is, in people out of 100.

    Of more than ``most_rows`` only those of the setting that the headline is about are shown, and
    of its groups first those that are worse off or most exposed.
    """
    names = audit.subject.groups
    n_all, received = len(audit.budgets) * len(names), wording()[audit.plan.benefit]["head"]
    settings = audit.budgets if most_rows is None or n_all <= most_rows else [audit.told]
    several, items = len(settings) > 1, list[tuple[BudgetResult, str, GroupResult]]()
    for budget in settings:
        cost = {name: group.cost.value or 0.0 for name, group in budget.groups.items()}
        first = sorted(names, key=lambda name: (name not in budget.worse_off, -cost[name]))
        shown = (name for name in names if name in first[:most_rows])
        items += [(budget, name, budget.groups[name]) for name in shown]

    def exposure(_: BudgetResult, __: str, group: GroupResult) -> str:
        ends = ", ".join(_exposure(audit, end) for end in group.cost.interval or ())
        return _exposure(audit, group.cost.value) + (f" [{ends}]" if ends else "")

    columns: list[Column] = [
        ("setting", lambda budget, *_: setting_of(budget)),
        ("group", lambda _, name, group: name),
        (received, lambda *at: _amount(proxies.ACCURACY, at[2].benefit.mean, 0)),
        (f"{audit.proxy.scale.column}\n{_interval_head(audit)}", exposure),
        ("at\nmost", lambda *at: _exposure(audit, at[2].cost.upper_limit)),
        ("shown?", _is_shown),
    ]
    n_left, is_advantage = n_all - len(items), audit.proxy.scale.is_advantage
    values = {
        "at": "" if several else f": {setting_of(settings[0])}",
        "chance": "; guessing gives 50" if is_advantage else "",
        "more": f" {n_left} further rows are in the full table." if n_left else "",
    }
    return _made(audit, "finding", columns[not several :], items, 1 + several, **values)


def _interval_head(audit: Audit) -> str:
    return f"[{100 * audit.plan.confidence_level:g} % interval]"


def _is_shown(budget: BudgetResult, name: str, group: GroupResult) -> str:
    if group.too_few:
        return "too few"
    if not group.resolved or budget.verdict in UNSURE:
        return "no"
    is_double = budget.verdict is Verdict.DOUBLE_DISADVANTAGE
    worse = ", doubly disadvantaged" if is_double else ", worse off"
    return "yes" + worse * (name in budget.worse_off)


def _exposure(audit: Audit, cost: float | None) -> str:
    """A cost in people out of 100 or its own unit, all of one audit with the same decimals."""
    if cost is None:
        return words.NOTHING
    scale = audit.proxy.scale
    costs = (g.cost.value or 0.0 for budget in audit.budgets for g in budget.groups.values())
    is_coarse = scale.is_advantage or scale.per_unit * max(map(abs, costs)) >= 1
    return words.decimals(50 * scale.is_advantage + scale.per_unit * cost, 1 if is_coarse else 2)


def numbers_table(audit: Audit) -> Table:
    """The numbers behind the pictures, in people of 100, with more digits than they print."""
    scale = audit.proxy.scale
    base = 50 if scale.is_advantage else 0
    rows = []
    for budget in audit.budgets:
        for name, group in budget.groups.items():
            ends, received = group.cost.interval or (None, None), group.benefit.mean
            costs = (group.cost.value, *ends, group.cost.upper_limit_together)
            numbers = [
                None if received is None else HUNDREDTHS * received,
                *(None if cost is None else base + scale.per_unit * cost for cost in costs),
            ]
            cells = ("" if number is None else f"{number:z.4f}" for number in numbers)
            rows.append((setting_of(budget), name, *cells, words.yes_no(group.resolved)))
    columns = ("receives, of 100", "exposure, in 100", "low", "high", "at most", "shown")
    return Table("Numbers of the pictures", ("setting", "group", *columns), tuple(rows), 2)


Column = tuple[str, Callable[..., str]]  # its head, and what makes a cell of what a row is about


def _made(
    audit: Audit, name: str, columns: Sequence[Column], items: Iterable[Any], n: int, **values: str
) -> Table:
    """A row for every item, the first ``n`` columns being labels."""
    rows = [tuple(cell(*item) for _, cell in columns) for item in items]
    return _titled(audit, name, [head for head, _ in columns], rows, n, **values)


def _titled(
    audit: Audit, name: str, heads: Sequence[str], rows: Iterable[Any], n: int, **values: Any
) -> Table:
    """Cells under the title and over the note that they have in ``words.toml``."""
    scale, level = audit.proxy.scale, f"{100 * audit.plan.confidence_level:g}"
    unit = "hundredths" if scale.per_unit == HUNDREDTHS else f"units of {scale.unit}"
    found = {"audit": audit, "gap": GAP, "level": level, "unit": unit}
    title, note = (text.format(**found, **values) for text in wording()[name].values())
    return Table(title, tuple(heads), tuple(rows), n, note)


@cache
def wording() -> dict[str, dict[str, str]]:
    """Titles and notes of tables, and what benefits are called."""
    return tomllib.loads(template("words.toml"))


def resolution_table(audit: Audit) -> Table:
    """Per setting and group: is the cost signal, or chance? People of 100, costs in hundredths."""
    scale = audit.proxy.scale
    received = audit.plan.benefit.replace("_", "\n", 1).replace("_", " ")

    def cost(_: BudgetResult, __: str, group: GroupResult) -> str:
        found = group.cost
        error = "" if found.value is None else f" ± {_amount(scale, found.standard_error)}"
        return f"{_amount(scale, found.value)}{error}\n{_amounts(scale, found.interval)}"

    columns: list[Column] = [
        ("ε", lambda budget, *_: _short(budget)),
        ("group", lambda _, name, group: name),
        (received, lambda *at: _amount(proxies.ACCURACY, at[2].benefit.mean, 1)),
        ("gap", lambda *at: _amount(proxies.ACCURACY, at[2].overfitting_gap.mean)),
        (f"cost ± error\n{_interval_head(audit)}", cost),
        ("noise\nlevel", lambda *at: _amount(scale, at[2].noise_level)),
        ("at\nmost", lambda *at: _amount(scale, at[2].cost.upper_limit)),
        (f"detect{SOFT_HYPHEN}able", lambda *at: _amount(scale, at[2].detectable_cost)),
        (P_BOTH, lambda *at: _both_p(at[2])),
        ("resolved", lambda *at: words.yes_no(at[2].resolved)),
    ]
    groups = ((budget, *group) for budget in audit.budgets for group in budget.groups.items())
    return _made(audit, "signal", columns, groups, 2)


def _pairs_table(audit: Audit, name: str, columns: Sequence[Column], **values: str) -> Table:
    """A row for every setting and pair; beside disparities stands the setting's verdict.

    Cells are made of the setting, the pair, and the paper's numbers of the pair.
    """
    several = len(audit.subject.groups) > 2
    labels: list[Column] = [("ε", lambda budget, *_: _short(budget))]
    if several:
        labels.append(("groups", lambda _, pair, __: pair_name(pair.groups)))
    if name != "differences":
        verdict = "verdict of\nthe setting" if several else "verdict"
        labels.append((verdict, lambda budget, *_: budget.verdict.words))
    return _made(audit, name, [*labels, *columns], setting_pairs(audit), len(labels), **values)


def setting_pairs(audit: Audit) -> Iterator[tuple[BudgetResult, PairResult, PublishedPair]]:
    """Every setting with each of its pairs, and the paper's numbers of that pair."""
    published = {
        (model.model, budget.epsilon): budget.pairs
        for model in audit.published
        for budget in model.budgets
    }
    for budget in audit.budgets:
        found = published[budget.model, budget.epsilon]
        yield from ((budget, *pairs) for pairs in zip(budget.pairs, found, strict=True))


def pairs_table(audit: Audit) -> Table:
    """Per setting and pair: is a disparity shown, who is worse off, the pooled estimate."""

    def double(_: BudgetResult, pair: PairResult, __: PublishedPair) -> str:
        p = words.both_p(pair.double_disadvantage_p, pair.double_disadvantage_p_alone)
        return f"{pair.double_disadvantage or words.NOTHING}\n{p}"

    def pooled(_: BudgetResult, pair: PairResult, __: PublishedPair) -> str:
        if pair.pooled.disparity is None:
            return words.NOTHING
        label = "" if pair.pooled.costs_resolved else " (n.r.)"
        return f"{words.signed(pair.pooled.disparity)}{label}\n{words.bounds(pair.pooled.ci)}"

    columns: list[Column] = [
        ("cross\nproduct", lambda _, pair, __: words.signed(pair.cross_product.value)),
        (P_BOTH, lambda _, pair, __: _both_p(pair.cross_product)),
        ("lower\nratio", lambda _, pair, __: pair.lower_ratio or words.NOTHING),
        (f"doubly dis{SOFT_HYPHEN}advantaged,\n{P_BOTH}", double),
        ("pooled\ndisparity", pooled),
        (
            "disparity if\nnothing memorised",
            lambda *at: words.bounds(at[1].pcer_disparity.null_interval),
        ),
        ("sign holds\nbelow floor", lambda *at: words.decimals(at[1].sign_holds_below_floor, 4)),
    ]
    return _pairs_table(audit, "pairs", columns)


def differences_table(audit: Audit) -> Table:
    """Per setting and pair: by how much exposures and benefits differ, for people like these."""
    scale, rates = audit.proxy.scale, proxies.ACCURACY
    received = audit.plan.benefit.replace("_", " ")
    columns: list[Column] = [
        ("cost, first\nminus second", lambda _, pair, __: _difference(scale, pair.exposure)),
        ("at most,\neither way", lambda _, pair, __: _amount(scale, pair.exposure.upper_limit)),
        (P_BOTH, lambda _, pair, __: _both_p(pair.exposure)),
        (f"{received},\nfirst minus second", lambda *at: _difference(rates, at[1].benefit)),
        (P_BOTH, lambda _, pair, __: _both_p(pair.benefit)),
        ("driven by", lambda _, pair, __: pair.driven_by or words.NOTHING),
    ]
    pairs = audit.budgets[0].pairs
    only = f"{pair_name(pairs[0].groups)}. " if len(pairs) == 1 else ""
    return _pairs_table(audit, "differences", columns, only=only)


def floors_table(audit: Audit, *, as_published: bool = False) -> Table:
    """The disparity at every floor of the grid and at the plan's, or the paper's, by the gap."""
    by = f" as published, by {GAP.label}" if as_published else f", by {audit.proxy.label}"
    pooled = not as_published and any(
        row.mean is not None and row.n_positive_seeds is None
        for row in audit.budgets[0].pairs[0].floors
    )
    more = " This attack is one number for all seeds: it has no spread over them." * pooled

    def cell(k: int, budget: BudgetResult, *pairs: Any) -> str:
        _, row = floor_rows(audit, pairs[as_published])[k]
        above = share = None
        if isinstance(row, file.FloorRow):
            above, share = row.n_positive_seeds, row.floor_dominated_share
        counts = words.NOTHING if above is None else f"{above}/{budget.n_seeds}"
        floored = words.NOTHING if share is None else f"{100 * share:.0f} %"
        return f"{words.plus_minus(row)}\n{words.bounds(row.ci)}\n{counts}; {floored}"

    floors = enumerate(audit_floors(audit))
    columns: list[Column] = [(f"floor {floor:g}", partial(cell, k)) for k, floor in floors]
    columns.append(("slope", lambda _, *pairs: words.decimals(pairs[as_published].floor_slope, 2)))
    return _pairs_table(audit, "floors", columns, by=by, more=more)


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

    def rate(found: Summary, digits: int) -> str:
        return f"{words.rate_plus_minus(found, digits)}\n{words.rate_bounds(found.ci, digits)}"

    def gap(name: str, budget: BudgetResult, *_: Any) -> str:
        return rate(budget.groups[name].overfitting_gap, 4)

    def disparity(_: BudgetResult, __: PairResult, published: PublishedPair) -> str:
        found = published.pcer_disparity
        return f"{words.plus_minus(found)}\n{words.bounds(found.ci)}"

    columns: list[Column] = [
        ("accuracy", lambda budget, *_: rate(budget.accuracy, 3)),
        ("DP gap", lambda budget, *_: rate(budget.demographic_parity_gap, 3)),
        ("EO gap", lambda budget, *_: rate(budget.equalized_odds_gap, 3)),
    ]
    for name in audit.subject.groups if len(audit.subject.groups) <= MOST_GAP_COLUMNS else ():
        # A long name may break after its hyphens, where a terminal would cut anywhere.
        head = name.replace("-", f"-{MAY_BREAK}") if len(name) > LONGEST_HEADER else name
        columns.append((f"gap\n{head}", partial(gap, name)))
    columns.append(("PCER\ndisparity", disparity))
    return _pairs_table(audit, "published", columns)


def costs_table(audit: Audit) -> Table:
    """What every carried cost says, the audit's own first."""

    def names(groups: Sequence[str]) -> str:
        return ", ".join(groups) or words.NOTHING

    columns: list[Column] = [
        ("cost", lambda story: proxy_named(story.cost).label),
        ("resolved", lambda story: f"{story.n_resolved} of {story.n_cells}"),
        ("more\nexposed", lambda story: names(story.more_exposed)),
        ("lower\nratio", lambda story: names(story.lower_ratio)),
        (f"doubly dis{SOFT_HYPHEN}advantaged", lambda story: names(story.double_disadvantage)),
        ("p", lambda story: words.p_value(story.p_value)),
        ("p over\ncosts", lambda story: words.p_value(story.p_value_over_costs)),
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
    heads = ("ε", "proxy", f"cost {_interval_head(audit)}")
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
        ("r of\ncosts", lambda row: words.decimals(row.correlation, 2)),
        ("same sign of\ndisparity", lambda row: share(row.n_same_sign, row)),
        ("larger\ndisparity", lambda row: share(row.n_larger_disparity, row)),
        ("r of dis-\nparities", lambda row: words.decimals(row.disparity_correlation, 2)),
        ("exceeds gap\n(beyond error)", exceeding),
    ]
    return _made(audit, "agreement", columns, zip(attacks, strict=True), 1)


def _algorithm_table(audit: Audit, published: file.AsPublished) -> Table:
    """Algorithm 1 of one model: which budget has the smallest disparity at each floor."""
    found = published.algorithm1
    rows = []
    for row in found.equitable_budget:
        word = "yes" if row.floor in found.informative_floors else "no: not below a resolved cost"
        if row.repeats_demographic_parity:
            word = "no: above every cost, so it repeats demographic parity"
        rows.append((f"{row.floor:g}", words.budget_list(row.budgets), word))
    informative = "no floor is informative, since no cost is resolved"
    if found.informative_verdict:
        informative = f"over the informative floors: {found.informative_verdict.words}"
    heads, model = ("floor", "budget", "informative?"), _of_model(audit, published.model)
    values = {"model": model, "found": found, "informative": informative}
    return _titled(audit, "algorithm", heads, rows, 3, **values)


def _rankings_table(audit: Audit, compared: Comparison) -> Table:
    """Budgets of one model by each measure, and where PCER and the others part ways."""
    rows = [
        (
            row.measure.replace("_", " "),
            " < ".join(words.short_budget(epsilon) for epsilon in row.budgets) or words.NOTHING,
            words.yes_no(compared.ranking_disagreement.get(row.measure)),
        )
        for row in compared.rankings
    ]
    turned = [words.short_budget(epsilon) for epsilon, _ in compared.opposite]
    refuted = [words.short_budget(row.epsilon) for row in compared.equal_gap_claims if row.refuted]
    given = ((pair, r) for pair, r in compared.correlations.items() if r is not None)
    correlations = ", ".join(f"{r:+z.2f} ({pair_name(pair)})" for pair, r in given)
    descriptive = "Correlation of disparity and rate difference over budgets, descriptive only:"
    values = {
        "model": _of_model(audit, compared.model),
        "turned": ", ".join(turned) or "no budget",
        "refuted": ", ".join(refuted) or "no budget",
        "more": f"{descriptive} {correlations}." if correlations else "",
    }
    heads = ("measure", "budgets, smallest first", "other best budget\nthan PCER")
    return _titled(audit, "rankings", heads, rows, 3, **values)


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        others: dict[str, list[str]] = {}
        for budget in audit.budgets:
            if budget.verdict is not audit.verdict:
                others.setdefault(budget.verdict.words, []).append(_short(budget))
        settings = "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in others.items())
        subject, worse = audit.subject, ", ".join(audit.worse_off)
        found = (audit.verdict.words, worse or words.NOTHING, settings or words.NOTHING)
        rows.append((subject.dataset, subject.attribute, *found))
    heads = ("dataset", "attribute", "verdict", "worse off", "other settings")
    return Table("All releases", heads, tuple(rows), len(heads))


def shown_groups(audit: Audit) -> list[int]:
    """Positions of the groups that charts show: those of the first few pairs."""
    shown = {name for pair in audit.budgets[0].pairs[:MOST_PAIRS] for name in pair.groups}
    return [g for g, name in enumerate(audit.subject.groups) if name in shown]


def setting_labels(audit: Audit) -> list[str]:
    """What settings are called on an axis: short, and distinct even where they nearly agree."""
    short = [_short(budget) for budget in audit.budgets]
    if len(set(short)) == len(short):
        return [isolated(label) for label in short]
    return ["no-DP" if budget.epsilon is None else repr(budget.epsilon) for budget in audit.budgets]


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
    return f"[{_amount(scale, ci[0])}, {_amount(scale, ci[1])}]" if ci else "[no interval]"


def _difference(scale: proxies.Scale, found: file.GroupDifference) -> str:
    sign = "+" if found.value is not None and found.value > 0 else ""
    return f"{sign}{_amount(scale, found.value)}\n{_amounts(scale, found.interval)}"
