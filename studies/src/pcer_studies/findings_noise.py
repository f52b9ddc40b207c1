"""First part of the findings: how large gaps are when nothing is memorised."""

from __future__ import annotations

from pcer_studies.evidence_table import n_standing_out, standing_out_from
from pcer_studies.facts import FIGURES, Facts, count, stands_out, title
from pcer_studies.noise import CLIPPED_MEAN, CLIPPED_STD, SpreadSource, published_gaps
from pcer_studies.protocol import SEEDS
from pcer_studies.rules import gap_words, range_words


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
