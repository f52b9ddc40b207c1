"""The headline analysis, ``docs/findings.md``: what the gap can show, what sharper costs show.

Every number is computed from a study, and every sentence that depends on a result is chosen by
it. The text is Markdown; names in it are the paper's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pcer.auditing import Verdict
from pcer.errors import InputError
from pcer.report import markdown_text
from pcer_studies.claims import COMMAND, judge_all
from pcer_studies.evidence_table import (
    COSTS,
    CostRow,
    GapRow,
    cost_rows,
    gap_rows,
    n_standing_out,
    standing_out_from,
)
from pcer_studies.findings_chart import EXPOSURE_COST, finding_figures
from pcer_studies.judgement import Judged, Judgement
from pcer_studies.noise import CLIPPED_MEAN, CLIPPED_STD, SpreadSource, published_gaps
from pcer_studies.origin import OTHER_DATA, OTHER_FEATURES, data_notes, origin
from pcer_studies.protocol import BUDGETS, OUR_READING, PAPER, SEEDS, Configuration
from pcer_studies.results import GAP, Study
from pcer_studies.rules import COMPAS, SHARPER, budget_words, gap_words, range_words

FIGURES = "figures"
"""Folder of the figures, beside the page."""


@dataclass(frozen=True)
class Facts:
    """What the page is written from."""

    study: Study
    gaps: Sequence[GapRow]
    costs: Sequence[CostRow]
    judged: Sequence[Judged]

    def of(self, cost: str) -> list[CostRow]:
        """The settings by one cost."""
        return [row for row in self.costs if row.cost == cost]

    @property
    def sharper(self) -> dict[str, str]:
        """The sharper costs that the study carries, with their names in print."""
        carried = {row.cost for row in self.costs}
        return {cost: name for cost, name in SHARPER.items() if cost in carried}


def write_findings(study: Study) -> tuple[str, dict[str, bytes]]:
    """The page and its figures by file name: the same study gives the same bytes."""
    judged = [one for rows in judge_all(study).values() for one in rows]
    facts = Facts(study, gap_rows(study), cost_rows(study), judged)
    if not facts.gaps:
        raise InputError(
            f"{study.folder}: no release holds group sizes (n), without which no gap can be told "
            "from luck; put releases there that pcer reproduce trained."
        )
    parts = [
        *_opening(facts),
        *noise_section(facts),
        *costs_section(facts),
        *_meaning(facts),
        *_ending(facts),
    ]
    page = "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    return page, finding_figures(facts.gaps, facts.costs)


def _opening(facts: Facts) -> list[str]:
    n = len(facts.gaps)
    published = [row.published.stands_out for row in facts.gaps]
    ours = [row.resolved for row in facts.gaps]
    private = [row for row in facts.gaps if row.private]
    best = max(facts.sharper, key=lambda cost: n_resolved(facts.of(cost)), default=None)
    return [
        "# Findings: whose privacy cost is visible?",
        f"The paper ({markdown_text(PAPER)}) divides what a group receives from a model by what "
        "it pays, its privacy cost, and takes the group's overfitting gap for that cost. We ran "
        "the paper's protocol and asked of every gap, published and our own, whether it is more "
        "than the luck of who was put into training; then we asked the same models with sharper "
        "costs.",
        f"- **The gap.** Of the {n} published mean gaps **{sum(published)}** can be told from "
        f"split luck, {count(private, stands_out)} with differential privacy{_silent(facts)}; of "
        f"ours {sum(ours)}, {count(private, lambda row: row.resolved)} with privacy.",
        (
            f"- **Sharper costs.** From the same models, without training another, "
            f"{SHARPER[best]} tells {n_resolved(facts.of(best))} of {2 * len(facts.of(best))} "
            f"costs from chance. {disparity_told(facts)}"
        )
        if best
        else "",
        "- **Double disadvantage** (a higher cost and worse predictions, both beyond chance): "
        f"{double_told(facts)}",
        "\n".join(f"<sub>{markdown_text(note)}</sub><br>" for note in data_notes(facts.study)),
    ]


def _silent(facts: Facts) -> str:
    """Configurations whose published gaps, with privacy, are all within split luck."""
    loud = {row.configuration for row in facts.gaps if row.private and stands_out(row)}
    names = [one.name for one in facts.study.configurations if one not in loud]
    return f" (none in {', '.join(names)})" if names else ""


def noise_section(facts: Facts) -> list[str]:
    """The noise level, the tests, and how many gaps stand out."""
    levels = [row.published.noise_level for row in facts.gaps]
    below = [row for row in facts.gaps if row.published.value <= row.published.noise_level]
    limit = standing_out_from(len(facts.gaps))
    return [
        "## What a gap is when nothing is memorised",
        "A gap is max(0, training accuracy − test accuracy). Without memorisation the difference X "
        "is the luck of the split: mean 0, nearly normal, with a standard deviation s that group "
        "size and accuracy fix (s² = p(1−p)(1/n_train + 1/n_test); with known labels, the "
        "hypergeometric form of [method.md](method.md)). Clipping at 0 turns luck into a positive "
        f"number: E max(0, X) = s/√(2π) = {CLIPPED_MEAN:.3f} s, the **noise level**, with standard "
        f"deviation {CLIPPED_STD:.3f} s. For the paper's groups it is "
        f"{range_words(levels, gap_words)}; the smaller group tends to have the larger one, which "
        "by itself looks like a disparity.",
        f"**The test of a published gap.** The mean over {len(SEEDS)} splits against the exact "
        "distribution of such a mean if nothing is memorised, one-sided, Holm over all "
        f"{len(facts.gaps)}. Splits share records, but given the records they are drawn "
        f"independently, so the mean's error is 1/√{len(SEEDS)} of one gap's; budgets and "
        "attributes share splits, which Holm allows for. The first to stand out must be "
        f"{limit:.2f} times its noise level. Group sizes, labels and correct counts are those of "
        "our run where the records are as many as the paper's, else the paper's number in our "
        "shares and the accuracy it prints.",
        "**The test of ours** is the audit's: the signed difference, split luck taken off, over "
        "its error, Holm over the 12 of a configuration. It is sharper than a test of the "
        "clipped gap.",
        f"![Mean gaps over noise level]({FIGURES}/findings-gaps.svg)",
        "*Figure 1. Every mean gap divided by its noise level, published and ours. Grey: where "
        "95 % of means lie if nothing is memorised. Dashed: where the first of all published "
        "gaps stands out.*",
        _by_dataset(facts),
        f"{len(below)} published gaps are not even above their noise level. {_readings(facts)}",
        _own_by_same_test(facts),
        "A gap that does not stand out is not proof that nothing is memorised. At these sizes the "
        "gap is too blunt to tell: " + _detectable(facts),
    ]


def _by_dataset(facts: Facts) -> str:
    lines = [
        "| stands out from split luck | published, no-DP | published, with privacy | ours, no-DP | "
        "ours, with privacy |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in facts.study.configurations:
        rows = [row for row in facts.gaps if row.configuration == one]
        parts = [[row for row in rows if row.private is private] for private in (False, True)]
        cells = [
            *(count(part, stands_out) for part in parts),
            *(count(part, lambda row: row.resolved) for part in parts),
        ]
        lines.append(f"| {title(facts, one)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _readings(facts: Facts) -> str:
    """How far the count depends on what was assumed."""
    counts = {
        source: [published_gaps(facts.study, source, rounding=way) for way in (-1, 0, 1)]
        for source in SpreadSource
    }
    first = [sum(gap.stands_out for gap in gaps) for gaps in counts[SpreadSource.COUNTS]]
    rounding = f"between {min(first)} and {max(first)}" if min(first) < max(first) else "the same"
    others = "; ".join(
        f"{sum(gap.stands_out for gap in gaps[1])} of {len(gaps[1])} by {source.value}"
        for source, gaps in counts.items()
        if source is not SpreadSource.COUNTS
    )
    raw = sum(gap.p_value <= 0.05 for gap in counts[SpreadSource.COUNTS][1])
    return (
        f"The count of {first[1]} is {rounding} whichever way the last printed digits were "
        f"rounded. With other readings of the spread: {others}. Without the correction for so "
        f"many looks {raw} gaps have p ≤ 0.05."
    )


def _own_by_same_test(facts: Facts) -> str:
    same = n_standing_out([row.gap_p for row in facts.gaps])
    signed = n_standing_out([row.p_value for row in facts.gaps])
    return (
        f"Of our gaps {same} stand out by the test that is put to the published ones, {signed} by "
        f"the audit's test with Holm over all {len(facts.gaps)}, "
        f"{sum(row.resolved for row in facts.gaps)} as the audit makes it."
    )


def _detectable(facts: Facts) -> str:
    parts = []
    for one in facts.study.configurations:
        budgets = facts.study.audit(one.dataset, one.attribute).budgets
        limits = [
            group.detectable_cost
            for budget in budgets
            if budget.epsilon is not None
            for group in budget.groups.values()
            if group.detectable_cost is not None
        ]
        if limits:
            parts.append(f"{one.name} {range_words(limits, gap_words)}")
    return f"a cost that 4 of 5 such studies would see, with privacy: {'; '.join(parts)}."


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


def _meaning(facts: Facts) -> list[str]:
    plain = [
        one
        for one in facts.judged
        if {one.paper.judgement, one.run.judgement} == {Judgement.HOLDS} and not one.claim.slip
    ]
    sharp = [row for cost in facts.sharper for row in facts.of(cost)]
    unequal = count(sharp, lambda row: row.more_exposed is not None)
    return [
        "## What the paper gets right, and what the gap cannot show",
        "**Right.** Who pays for privacy is a question of its own, and outcome gaps do not "
        "answer it. The ratio, its floor, and their algebra (Propositions 2, 3, S1, S2) hold; "
        "the release of per-group counts is a sound contract between trainer and auditor; the "
        "warning about ε = 0.1, the null result on ACS and the remark that the Adult (sex) "
        f"disparity comes from rates are the paper's own. {len(plain)} of the claims in "
        "[claims.md](claims.md) are borne out by the paper's figures and by our run alike. "
        + (
            f"And costs do differ between groups: equal costs are refuted in {unequal} audits of "
            "settings by sharper costs."
            if any(row.more_exposed for row in sharp)
            else "That costs differ between groups is not shown here by any sharper cost."
        ),
        f"**Not shown by the gap.** {_unsure(facts)} Where a gap is at its noise level, its ratio "
        "has split luck below the line, and the disparity is the difference of positive rates "
        "divided by noise. Then its bootstrap interval can exclude 0 because the rates differ, its "
        "sign be stable over floors because the rates have a sign, and it can agree with the "
        "threshold attack's because both have the same rates on top. None of this needs "
        "memorisation.",
    ]


def _unsure(facts: Facts) -> str:
    n = sum(not stands_out(row) for row in facts.gaps)
    return f"{n} of {len(facts.gaps)} published gaps cannot be told from split luck."


def _ending(facts: Facts) -> list[str]:
    return [
        "## What to do",
        "Audit with a cost that can be seen. Train several seeds with splits of their own (two "
        "for paired costs, eight for LiRA; the paper has fifty), as `pcer train` does, and run "
        "`pcer audit RELEASE --cost paired_confidence` and `--cost lira_advantage`. Read a "
        "disparity only with its verdict; `not resolved` means that this number is no evidence, "
        "and the detectable cost beside it says how much could have gone unseen. Choose a budget "
        "by a ranking only if the costs at the chosen budgets are resolved. Report rates and "
        "costs per group, not the ratio alone; for harmful outcomes look for double disadvantage "
        "itself, which the ratio hides. To check a paper's gaps, you need only group sizes, "
        "accuracies and the formula above.",
        "## Limits",
        "One network, four datasets, one training recipe. Splits and seeds of one dataset measure "
        "split and training luck, not a new population; budgets share splits, so agreement across "
        "budgets is no replication. A cost that is not resolved may still be there, and a stronger "
        "attack may find more. A positive rate reflects base rates as well as the model.",
        "## Where this comes from, and how to cite it",
        f"{origin(facts.study)} Page and figures are made from its releases with `{COMMAND}`; the "
        "same releases give the same bytes.",
        "Cite the software by [CITATION.cff](../CITATION.cff) with the commit above, and the paper "
        "whose method it examines. Claim by claim: [claims.md](claims.md).",
    ]


def title(facts: Facts, one: Configuration) -> str:
    """A configuration's name with the mark of data that may not be the paper's."""
    if facts.study.data_note(one.dataset, one.attribute):
        return f"{one.name} {OTHER_DATA}"
    return f"{one.name} {OTHER_FEATURES}" if one.dataset in OUR_READING else one.name


def stands_out(row: GapRow) -> bool:
    """Whether a published gap can be told from split luck."""
    return row.published.stands_out


def n_resolved(rows: Iterable[CostRow]) -> int:
    """How many costs are told from chance; each setting has two."""
    return sum(sum(row.resolved) for row in rows)


def count(rows: Sequence[GapRow] | Sequence[CostRow], test: Callable[..., bool]) -> str:
    """How many rows pass a test, of how many.

    >>> count([], bool)
    '0/0'
    """
    return f"{sum(test(row) for row in rows)}/{len(rows)}"
