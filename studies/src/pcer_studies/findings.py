"""The headline analysis, ``docs/findings.md``: what the gap can show, what sharper costs show.

Every number is computed from a study, and every sentence that depends on a result is chosen by
it. The text is Markdown; names in it are the paper's own.
"""

from __future__ import annotations

from pcer.report import markdown_text
from pcer_studies.claims import COMMAND, judge_all
from pcer_studies.evidence_table import cost_rows, gap_rows
from pcer_studies.facts import Facts, count, n_resolved, stands_out
from pcer_studies.findings_chart import finding_figures
from pcer_studies.findings_costs import costs_section, disparity_told, double_told
from pcer_studies.findings_noise import noise_section
from pcer_studies.judgement import Judgement
from pcer_studies.origin import data_notes, origin
from pcer_studies.protocol import PAPER
from pcer_studies.results import Study
from pcer_studies.rules import SHARPER


def write_findings(study: Study) -> tuple[str, dict[str, bytes]]:
    """The page and its figures by file name: the same study gives the same bytes."""
    judged = [one for rows in judge_all(study).values() for one in rows]
    facts = Facts(study, gap_rows(study), cost_rows(study), judged)
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
