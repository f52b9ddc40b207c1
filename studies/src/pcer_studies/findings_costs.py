"""Second part of the findings: the same models by sharper costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pcer.auditing import Verdict
from pcer_studies.evidence_table import COSTS, CostRow
from pcer_studies.facts import FIGURES, Facts, count, n_resolved, stands_out, title
from pcer_studies.findings_chart import EXPOSURE_COST
from pcer_studies.protocol import BUDGETS, Configuration
from pcer_studies.results import GAP
from pcer_studies.rules import COMPAS, budget_words


def costs_section(facts: Facts) -> list[str]:
    """Who is more exposed, is there a disparity, is anyone doubly disadvantaged."""
    if not facts.sharper:
        return ["## Sharper costs", "The releases of this study carry none."]
    return [
        "## The same question, asked with sharper costs",
        "Each record was in about 70 % of the training sets. **Paired** costs compare a record "
        "with itself: its mean correctness (paired gap) or the probability of its true label "
        "(paired confidence) over models that trained on it, minus the mean over those that did "
        "not. **LiRA** is the attack of Carlini et al., the sweep's models being each other's "
        "shadow models; its cost is AUC − ½. All come from the models that gave the gaps; errors "
        "are over records, and each audit corrects over its own configuration's budgets and "
        "groups ([attacks.md](attacks.md)).",
        _cost_table(facts),
        f"![Exposure of each group]({FIGURES}/findings-exposure.svg)"
        if EXPOSURE_COST in facts.sharper
        else "",
        "*Figure 2. Exposure by paired confidence: how much more probable the true label of a "
        "record is to a model that trained on it, with 95 % intervals.*"
        if EXPOSURE_COST in facts.sharper
        else "",
        "**Which group is more exposed?** Where the audit refutes equal costs, the group with the "
        "higher one, and the budgets:",
        _who(facts, lambda row: row.more_exposed),
        _who_told(facts),
        f"**Is there a disparity then?** {disparity_told(facts)} {_disparity_by_budget(facts)}",
        f"![Verdicts by cost]({FIGURES}/findings-verdicts.svg)",
        "*Figure 3. The audit's verdict in every setting by each cost. Letters: the group found "
        "the more exposed (M, F: male, female; W, NW: White, Non-White; Ot, AA: Other, "
        "African-American). ●: doubly disadvantaged.*",
        "**And a double disadvantage?** Where the audit finds one, the group and the budgets:",
        _who(facts, lambda row: row.double),
        _compas_told(facts),
    ]


def _cost_table(facts: Facts) -> str:
    lines = [
        "| cost | costs told from chance | with privacy | unequal between groups | disparity "
        "shown | double disadvantage |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for cost in (GAP, *facts.sharper):
        rows = facts.of(cost)
        private = [row for row in rows if row.private]
        cells = (
            f"{n_resolved(rows)}/{2 * len(rows)}",
            f"{n_resolved(private)}/{2 * len(private)}",
            count(rows, lambda row: row.more_exposed is not None),
            count(rows, lambda row: row.verdict is Verdict.DISPARITY_SHOWN),
            count(rows, lambda row: row.double is not None),
        )
        lines.append(f"| {COSTS[cost]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _who(facts: Facts, group: Callable[[CostRow], str | None]) -> str:
    costs = (GAP, *facts.sharper)
    lines = [
        f"| | {' | '.join(COSTS[cost] for cost in costs)} |",
        f"|---|{'---|' * len(costs)}",
    ]
    for one in facts.study.configurations:
        cells = [_named([r for r in facts.of(c) if r.configuration == one], group) for c in costs]
        lines.append(f"| {title(facts, one)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(rows: Iterable[CostRow], group: Callable[[CostRow], str | None]) -> str:
    """Groups with the budgets at which they are named."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if (name := group(row)) is not None:
            found.setdefault(name, []).append(row.epsilon)
    return "; ".join(f"{name}: {budget_words(sorted(e))}" for name, e in found.items()) or "–"


def _who_told(facts: Facts) -> str:
    """In which configurations sharper costs agree on a group, disagree, or name nobody."""
    named = {one: _exposed_groups(facts, one) for one in facts.study.configurations}
    agreed = {one: groups[0] for one, groups in named.items() if len(groups) == 1}
    split = [one.name for one, groups in named.items() if len(groups) > 1]
    silent = [one.name for one, groups in named.items() if not groups]
    told = ", ".join(f"{one.name}: {group}" for one, group in agreed.items())
    smaller = sum(_smaller_group(facts, one) == group for one, group in agreed.items())
    parts = [
        f"Sharper costs that name a group name the same one ({told}); it is the smaller group in "
        f"{smaller} of {len(agreed)}, although the smaller group tends to have the larger noise."
        if agreed
        else "",
        f"They name different groups in {', '.join(split)}." if split else "",
        f"They name nobody in {', '.join(silent)}." if silent else "",
    ]
    return " ".join(filter(None, parts))


def _smaller_group(facts: Facts, one: Configuration) -> str:
    panel = facts.study.panel(one.dataset, one.attribute, BUDGETS[0])
    return one.groups[int((panel.n_train + panel.n_test).mean(axis=0).argmin())]


def _exposed_groups(facts: Facts, one: Configuration) -> list[str]:
    rows = [row for c in facts.sharper for row in facts.of(c) if row.configuration == one]
    return list(dict.fromkeys(row.more_exposed for row in rows if row.more_exposed))


def disparity_told(facts: Facts) -> str:
    """In how many settings each cost shows a disparity, in a sentence."""
    counts = [
        f"{name} in {count(facts.of(cost), _is_shown)}" for cost, name in facts.sharper.items()
    ]
    if not counts:
        return ""
    return (
        f"A disparity is shown by {', by '.join(counts)} settings, by the gap in "
        f"{count(facts.of(GAP), _is_shown)}."
    )


def _disparity_by_budget(facts: Facts) -> str:
    rows = [row for cost in facts.sharper for row in facts.of(cost)]
    private = [row for row in rows if row.private and _is_shown(row)]
    where = sorted({row.epsilon for row in private})
    if not private:
        return "With privacy no sharper cost shows one."
    lower = sorted({f"{r.configuration.name}: {r.lower_ratio}" for r in private if r.lower_ratio})
    return (
        f"With privacy sharper costs show one from {budget_words(where[:1])} on; the group with "
        f"the lower ratio is, in {'; '.join(lower)}. Where a positive prediction harms (COMPAS), "
        "a lower ratio is no disadvantage by itself."
    )


def _is_shown(row: CostRow) -> bool:
    return row.verdict is Verdict.DISPARITY_SHOWN


def double_told(facts: Facts) -> str:
    """Group by group: at which budgets some cost finds it doubly disadvantaged, and which do."""
    found: dict[tuple[Configuration, str], list[CostRow]] = {}
    for row in facts.costs:
        if row.double:
            found.setdefault((row.configuration, row.double), []).append(row)
    parts = []
    for (one, group), rows in found.items():
        costs = ", ".join(dict.fromkeys(COSTS[row.cost] for row in rows))
        budgets = sorted({row.epsilon for row in rows})
        parts.append(f"{group}, {title(facts, one)}, at {budget_words(budgets)} (by {costs})")
    return f"{'; '.join(parts) or 'by no cost in any setting'}."


def _compas_told(facts: Facts) -> str:
    """The paper's case: African-Americans on COMPAS."""
    rows = [r for c in facts.sharper for r in facts.of(c) if r.configuration == COMPAS and r.double]
    if not any(row.configuration == COMPAS for row in facts.costs):
        return ""
    group = COMPAS.groups[1]
    private = sorted({row.epsilon for row in rows if row.private and row.double == group})
    if private:
        return (
            f"On COMPAS the double disadvantage of {group}s that the paper reports is borne out "
            f"with privacy, at {budget_words(private)}."
        )
    if any(row.double == group for row in rows):
        return (
            f"On COMPAS the double disadvantage of {group}s is real without privacy, but at no "
            "budget with privacy do these models show it. There the paper's claim remains open: "
            f"{_compas_gaps(facts)}."
        )
    return (
        f"On COMPAS no cost shows the double disadvantage of {group}s that the paper reports; "
        f"{_compas_gaps(facts)}."
    )


def _compas_gaps(facts: Facts) -> str:
    rows = [row for row in facts.gaps if row.configuration == COMPAS and row.private]
    return f"{count(rows, stands_out)} of the published gaps with privacy stand out from luck"
