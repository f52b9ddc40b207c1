"""The headline analysis, ``findings.md``: people first, then advice, then method.

Every number is computed from a study, and every sentence that depends on a result is chosen by
it. A sentence about a group stands with its verdict, its coin flips and its limits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pcer.auditing.verdict import BUDGET_VERDICTS, Verdict
from pcer.auditing.words import listed
from pcer.errors import InputError
from pcer.release import proxies
from pcer.report.table import markdown_text
from pcer_studies.claims.charts import NORMAL_95, finding_figures, has_allowed
from pcer_studies.claims.evidence import SHARPER
from pcer_studies.claims.facts import (
    COSTS,
    CostRow,
    GapRow,
    GroupCell,
    SettingRow,
    cost_rows,
    gap_rows,
    setting_rows,
    standing_out_from,
)
from pcer_studies.claims.judgement import Judged, Judgement
from pcer_studies.claims.ledger import COMMAND, judge_all
from pcer_studies.claims.noise import CLIPPED_MEAN, CLIPPED_STD, SpreadSource, published_gaps
from pcer_studies.claims.rules import budget_words, gap_words, range_words
from pcer_studies.protocol import OUR_READING, PAPER, SEEDS, Configuration
from pcer_studies.results import GAP, OTHER_DATA, OTHER_FEATURES, Study, data_notes, origin

FIGURES = "figures"
"""Folder of the figures, beside the page."""
TOO_MANY = 19
"""Coin flips of 200 from which an alarm is taken back (docs/reports.md)."""
HUNDRED = 100


@dataclass(frozen=True)
class Facts:
    """What the page is written from."""

    study: Study
    settings: Sequence[SettingRow]
    gaps: Sequence[GapRow]
    costs: Sequence[CostRow]
    judged: Sequence[Judged]

    def of(self, cost: str) -> list[CostRow]:
        """The settings by one cost."""
        return [row for row in self.costs if row.cost == cost]

    @property
    def titles(self) -> list[str]:
        """Configurations, and second readings, in order."""
        return list(dict.fromkeys(row.title for row in self.settings))

    def titled(self, title: str) -> list[SettingRow]:
        """The settings of one of them, from no privacy to the strongest."""
        rows = [row for row in self.settings if row.title == title]
        return sorted(rows, key=lambda row: -row.epsilon)


def write_findings(study: Study) -> tuple[str, dict[str, bytes]]:
    """The page and its figures by file name: the same study gives the same bytes."""
    judged = [one for rows in judge_all(study).values() for one in rows]
    facts = Facts(study, setting_rows(study), gap_rows(study), cost_rows(study), judged)
    if not facts.gaps:
        raise InputError(
            f"{study.folder}: no release holds group sizes (n), without which no gap can be told "
            "from chance; put releases there that pcer reproduce trained."
        )
    parts = [
        *opening(facts),
        *people_section(facts),
        *allowed_section(facts),
        *_advice(),
        *method_section(facts),
        *_ending(facts),
    ]
    page = "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    return page, finding_figures(facts.gaps, facts.settings)


# People first.


def opening(facts: Facts) -> list[str]:
    """The matrix, and what it says in four lines."""
    return [
        "# Findings: who pays for privacy here?",
        f"![The verdict in every setting]({FIGURES}/findings-verdicts.svg)",
        "*Every setting of the study with the audit's verdict. ▼: whom the verdict names as worse "
        "off. A letter without it: who is the more exposed, beyond chance (M, F: male, female; W, "
        "NW: White, Non-White). The audit is `pcer audit` as it comes: the "
        f"sharpest cost that the releases carry ({_cost_names(facts)}), Holm over budgets, all "
        "attributes of the same people judged together.*",
        "\n".join(
            [
                f"- {_verdicts_told(facts)}",
                f"- {_alarms_told(facts)}",
                f"- {coins_told(facts)}",
                f"- {_claims_told(facts)}",
            ]
        ),
        "\n".join(f"<sub>{markdown_text(note)}</sub><br>" for note in data_notes(facts.study)),
    ]


def _cost_names(facts: Facts) -> str:
    names = {proxies.PROXIES[row.cost].short for row in facts.settings}
    return listed(sorted(names))


def _verdicts_told(facts: Facts) -> str:
    counts = Counter(row.verdict for row in facts.settings)
    told = [f"{counts[v]} {v.words}" for v in BUDGET_VERDICTS if counts[v]]
    return f"**{len(facts.settings)} settings**: {', '.join(told)}."


def _alarms_told(facts: Facts) -> str:
    """Whom an alarm names, where, with coin flips."""
    found = [row for row in facts.settings if row.verdict.is_alarm]
    if not found:
        return "**No alarm holds** in any setting."
    by_title: dict[tuple[str, Verdict, tuple[str, ...]], list[SettingRow]] = {}
    for row in found:
        by_title.setdefault((row.title, row.verdict, row.worse_off), []).append(row)
    told = []
    for (title, verdict, worse_off), rows in by_title.items():
        who = f"{listed(worse_off)} worse off" if worse_off else "nobody is worse off by that alone"
        where = budget_words(sorted(row.epsilon for row in rows))
        told.append(
            f"{_marked(facts, rows[0], title)} at {where}: {verdict.words}, {who}. {_trust(rows)}"
        )
    return "\n  - ".join(["**Alarms that hold:**", *told])


def _trust(rows: Sequence[SettingRow]) -> str:
    """Coin flips, and the largest difference of exposures that the data allow."""
    coins = [row.coins for row in rows if row.coins is not None]
    limits = [row.difference for row in rows if row.difference is not None]
    flips = (
        f"{_coin_range(coins)} coin flips alarm as well" if coins else "Coin flips are not given"
    )
    apart = f"differ by at most {hundred(max(limits))}" if limits else "may differ by any amount"
    return f"{flips}; exposures {apart}."


def coins_told(facts: Facts) -> str:
    """In how many settings coin flips alarm, by the audit's cost."""
    tried = [row for row in facts.settings if row.coins is not None]
    if not tried:
        return "**Coin flips**: these releases carry none."
    n_alarms = sum(row.coins[0] for row in tried if row.coins)
    n_draws = sum(row.coins[1] for row in tried if row.coins)
    often = [row for row in tried if row.coins and row.coins[0] * 200 >= TOO_MANY * row.coins[1]]
    some = sum(bool(row.coins and row.coins[0]) for row in tried)
    capped = [row for row in facts.settings if row.capped]
    return (
        f"**Coin flips.** In every setting {max(row.coins[1] for row in tried if row.coins)} "
        "attributes were drawn by lot and audited like the real one. In "
        f"{some} of {len(tried)} settings at least one of them alarms, "
        f"{HUNDRED * n_alarms / n_draws:.1f} % of all draws; so often that an alarm would be taken "
        f"back ({TOO_MANY} of 200) in {len(often)}. Alarms that were taken back, for this or "
        f"another reason: {len(capped)}."
    )


def _claims_told(facts: Facts) -> str:
    claims = [one for one in facts.judged if not one.claim.text.slip]
    held, refuted = (
        [one for one in claims if {side.judgement for side in one.sides} == {wanted}]
        for wanted in (Judgement.HOLDS, Judgement.FAILS)
    )
    return (
        f"**The paper.** Of {len(claims)} claims of {markdown_text(PAPER)}, {len(held)} hold "
        f"before every witness, and {len(refuted)} are refuted by every one. For the rest the data "
        "cannot tell, or are not the paper's: [claims.md](claims.md)."
    )


def people_section(facts: Facts) -> list[str]:
    """One paragraph for each attribute, and the table that it rests on."""
    return [
        "## Who, attribute by attribute",
        "Found: how much better than a coin an attacker ranks people who were trained on above "
        "people who were not, in 100 pairs (LiRA; 0 is chance, 50 is always). At most: what the "
        "data still allow, with 95 % for all numbers of an audit at once. Coin flips: how many of "
        "200 attributes drawn by lot alarm.",
        *(_about(facts, title) for title in facts.titles),
        "### The numbers",
        setting_table(facts),
    ]


def _about(facts: Facts, title: str) -> str:
    rows = facts.titled(title)
    parts = [
        f"**{_marked(facts, rows[0], title)}.** {_outcome(rows[0])}",
        *(_verdict_sentence(group) for group in _by_verdict(rows)),
        _unseen(rows),
    ]
    return " ".join(part for part in parts if part)


def _outcome(row: SettingRow) -> str:
    harm = row.configuration.outcome == "harm"
    return "A positive prediction harms." if harm else "A positive prediction helps."


def _by_verdict(rows: Sequence[SettingRow]) -> list[list[SettingRow]]:
    """Settings that have the same verdict and name the same groups, strongest first."""
    found: dict[tuple[object, ...], list[SettingRow]] = {}
    for row in rows:
        found.setdefault((row.verdict, row.worse_off, row.more_exposed), []).append(row)
    return sorted(found.values(), key=lambda group: BUDGET_VERDICTS.index(group[0].verdict))


def _verdict_sentence(rows: Sequence[SettingRow]) -> str:
    """What the audit says at some budgets, with coin flips."""
    first, where = rows[0], budget_words(sorted(row.epsilon for row in rows))
    who = f", {listed(first.worse_off)}" if first.worse_off else ""
    driven = f" (driven by {_drivers(rows)})" if first.verdict is Verdict.DISPARITY_SHOWN else ""
    exposed = f"; {first.more_exposed} the more exposed" if first.more_exposed else ""
    coins = [row.coins for row in rows if row.coins is not None]
    flips = f"; coin flips {_coin_range(coins)}" if coins else "; coin flips not given"
    return f"At {where}: {first.verdict.words}{who}{driven}{exposed}{flips}."


def _drivers(rows: Sequence[SettingRow]) -> str:
    return listed(list(dict.fromkeys(row.driven_by for row in rows if row.driven_by)))


def _coin_range(coins: Sequence[tuple[int, int]]) -> str:
    counts = sorted({n for n, _ in coins})
    told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{told} of {coins[0][1]}"


def _unseen(rows: Sequence[SettingRow]) -> str:
    """The largest difference that could have gone unseen, with privacy and without."""
    told = []
    for private in (True, False):
        limits = [r.difference for r in rows if r.private is private and r.difference is not None]
        if limits:
            told.append(f"{hundred(max(limits))} {'with' if private else 'without'} privacy")
    return f"The two groups' exposures differ by at most {' and '.join(told)}." if told else ""


def hundred(value: float) -> str:
    """A share of one half as "x in 100".

    >>> hundred(0.0234)
    '2.3 in 100'
    """
    return f"{HUNDRED * value:.1f} in 100"


def setting_table(facts: Facts) -> str:
    """Every setting: verdict, what was found, what is allowed, coin flips."""
    lines = [
        "| | ε | verdict | worse off | found | at most | difference at most | allowed | spent, of "
        "promised ε | coin flips |",
        "|---|--:|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for title in facts.titles:
        for row in facts.titled(title):
            lines.append(f"| {' | '.join(_cells(facts, row, title))} |")
    return "\n".join(lines)


def _cells(facts: Facts, row: SettingRow, title: str) -> tuple[str, ...]:
    pair = row.groups
    return (
        _marked(facts, row, title),
        budget_words((row.epsilon,)).removeprefix("ε "),
        row.verdict.words + (" (an alarm was taken back)" if row.capped else ""),
        listed(row.worse_off) if row.worse_off else "–",
        " / ".join(f"{_percent(g.found)} ± {_percent(g.error)}" for g in pair),
        _two(pair[0].at_most, pair[1].at_most),
        "–" if row.difference is None else f"{HUNDRED * row.difference:.1f}",
        _two(pair[0].allowed, pair[1].allowed),
        _spent(row),
        "–" if row.coins is None else f"{row.coins[0]} of {row.coins[1]}",
    )


def _percent(value: float) -> str:
    """In hundredths, without a negative nought."""
    return f"{HUNDRED * value:z.1f}".replace("-", "−")


def _two(first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return "–"
    return f"{HUNDRED * first:.1f} / {HUNDRED * second:.1f}"


def _spent(row: SettingRow) -> str:
    first, second = row.groups
    if first.spent is None or second.spent is None or first.promised is None:
        return "–"
    return f"{first.spent:.2f} / {second.spent:.2f} of {first.promised:.2f}"


def _marked(facts: Facts, row: SettingRow, title: str) -> str:
    return (
        title
        if row.closest
        else title.replace(row.configuration.name, named(facts, row.configuration))
    )


# What was found, and what training allows.


def allowed_section(facts: Facts) -> list[str]:
    """Found and allowed on one axis, for all private settings."""
    rows = [row for row in facts.settings if has_allowed(row)]
    if not rows:
        return ["## Found and allowed", "These releases carry no receipts."]
    cells = [(row, group) for row in rows for group in row.groups]
    above = [(r, g) for r, g in cells if g.allowed is not None and g.found > g.allowed]
    sure = [
        (r, g)
        for r, g in above
        if g.allowed is not None and g.found - NORMAL_95 * g.error > g.allowed
    ]
    apart = [r for r in rows if _spends_apart(facts.study, r)]
    return [
        "## Found and allowed",
        "An attack is a lower limit: a better one may find more. Training with privacy gives the "
        "other side: how much each person's own gradients let through "
        "([receipts.md](../../docs/training.md#receipts-the-privacy-that-each-person-spent)).",
        f"![Found and allowed in every private setting]({FIGURES}/findings-allowed.svg)",
        "*What LiRA finds (circles, with 95 % intervals) and what the training allows an attacker "
        "who sees every step (triangles), on one axis, for every group and private setting.*",
        f"Found is below allowed in {len(cells) - len(above)} of {len(cells)} groups and settings"
        + (f"; in {len(sure)} it is above beyond its error." if above else ".")
        + f" {_ratio_told(cells)}",
        f"What the two groups spent on average differs beyond its error in {len(apart)} of "
        f"{len(rows)} private settings, where the audit finds unequal exposures in "
        f"{sum(row.more_exposed is not None for row in rows)}. Receipts see small differences "
        "that no attack shows; they are estimates here (norms computed now and then), and no "
        "verdict rests on them.",
    ]


def _ratio_told(cells: Iterable[tuple[SettingRow, GroupCell]]) -> str:
    """Budget by budget, the largest share of what is allowed that was found."""
    shares: dict[float, list[float]] = {}
    for row, group in cells:
        if group.allowed:
            shares.setdefault(row.epsilon, []).append(group.found / group.allowed)
    told = [
        f"{HUNDRED * max(found):.0f} % at {budget_words((e,))}"
        for e, found in sorted(shares.items())
    ]
    return f"Of what is allowed, at most this share is found: {', '.join(told)}."


def _spends_apart(study: Study, row: SettingRow) -> bool:
    """Whether the groups' mean receipts differ by more than 1.96 of their errors."""
    source = study.closest if row.closest and study.closest is not None else study
    bounds = {
        bound.group: bound
        for bound in source.release(*_key(row.configuration)).bounds
        if bound.kind == "receipt" and bound.label is None and bound.epsilon == row.epsilon
    }
    first, second = (bounds.get(name) for name in row.configuration.groups)
    if first is None or second is None:
        return False
    error = math.hypot(first.standard_error or 0.0, second.standard_error or 0.0)
    return abs(first.mean - second.mean) > NORMAL_95 * error


def _key(one: Configuration) -> tuple[str, str]:
    return one.dataset, one.attribute


# Then advice.


def _advice() -> list[str]:
    return [
        "## What to do",
        "- **Audit with a cost that can be seen.** Train several seeds with splits of their own "
        "(two for paired costs, eight for LiRA; the paper has fifty), as `pcer train` does, and "
        "run `pcer audit`.\n"
        "- **Read a disparity only with its verdict**, its coin flips and its limit. `not "
        "resolved` means that this number is no evidence; the limit says how much could still be "
        "there.\n"
        "- **Ask for receipts** (`--receipts`) where the budget is small: there attacks fall "
        "silent, and what training allows is the better answer.\n"
        "- **Choose a budget by a ranking only** if the costs at the chosen budgets are resolved.\n"
        "- **Report rates and costs per group**, not the ratio alone. Where predictions harm, look "
        "for double disadvantage itself, which the ratio hides.",
    ]


# Then method.


def method_section(facts: Facts) -> list[str]:
    """What the gap can show, published and ours, and the other costs beside it."""
    levels = [row.published.noise_level for row in facts.gaps]
    below = [row for row in facts.gaps if row.published.value <= row.published.noise_level]
    return [
        "## How we know: what a gap is when nothing is memorised",
        "The paper takes a group's overfitting gap, max(0, training accuracy − test accuracy), for "
        "its privacy cost. Without memory the difference X is chance: mean 0, nearly normal, with "
        "a standard deviation s that group size and accuracy fix (s² = p(1−p)(1/n_train + "
        "1/n_test)). Cut at 0 it becomes a positive number: E max(0, X) = s/√(2π) = "
        f"{CLIPPED_MEAN:.3f} s, the **noise level**, with standard deviation {CLIPPED_STD:.3f} s. "
        f"For the paper's groups it is {range_words(levels, gap_words)}; the smaller group tends "
        "to have the larger one, which by itself looks like a disparity.",
        f"**Published gaps** are tested as means over {len(SEEDS)} splits against the exact "
        f"distribution without memory, one-sided, Holm over all {len(facts.gaps)}; the first to "
        f"stand out must be {standing_out_from(len(facts.gaps)):.2f} times its noise level. "
        "**Ours** are tested by the audit: exact over random splits, Holm over a configuration "
        "([method.md](../../docs/method.md)).",
        f"![Mean gaps over noise level]({FIGURES}/findings-gaps.svg)",
        "*Every mean gap divided by its noise level, published and ours. Grey: where 95 % of means "
        "lie if nothing is memorised. Dashed: where the first published gap stands out.*",
        _by_dataset(facts),
        f"{_gaps_told(facts)} {len(below)} published gaps are not even above their noise level. "
        f"{_readings(facts)}",
        "A gap at its noise level makes the disparity the difference of positive rates divided by "
        "noise. Its bootstrap interval can then exclude 0 because the rates differ, its sign be "
        "stable over floors because the rates have a sign, and it can agree with a threshold "
        "attack's because both have the same rates on top. None of this needs memory.",
        "## The same models by every cost",
        "Paired costs compare a record with itself, over models that trained on it and models that "
        "did not; LiRA is the attack of Carlini et al. with the sweep's models as each other's "
        "shadow models ([attacks.md](../../docs/attacks.md)). Each cost is audited alone, as if it "
        "were the only one; the page's verdicts are by the sharpest.",
        cost_table(facts),
    ]


def _gaps_told(facts: Facts) -> str:
    private = [row for row in facts.gaps if row.private]
    published = sum(row.published.stands_out for row in facts.gaps)
    return (
        f"Of the {len(facts.gaps)} published mean gaps {published} can be told from chance, "
        f"{count(private, stands_out)} with privacy{_silent(facts)}; of ours "
        f"{sum(row.resolved for row in facts.gaps)}, {count(private, lambda r: r.resolved)} with "
        "privacy."
    )


def _silent(facts: Facts) -> str:
    """Configurations whose published gaps, with privacy, are all within chance."""
    loud = {row.configuration for row in facts.gaps if row.private and stands_out(row)}
    names = [one.name for one in facts.study.configurations if one not in loud]
    return f" (none in {', '.join(names)})" if names else ""


def _by_dataset(facts: Facts) -> str:
    lines = [
        "| told from chance | published, no-DP | published, with privacy | ours, no-DP | ours, "
        "with privacy |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in facts.study.configurations:
        rows = [row for row in facts.gaps if row.configuration == one]
        parts = [[row for row in rows if row.private is private] for private in (False, True)]
        cells = [
            *(count(part, stands_out) for part in parts),
            *(count(part, lambda row: row.resolved) for part in parts),
        ]
        lines.append(f"| {named(facts, one)} | {' | '.join(cells)} |")
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
    return (
        f"The count of {first[1]} is {rounding} whichever way the last printed digits were "
        f"rounded. With other readings of the spread: {others}."
    )


def cost_table(facts: Facts) -> str:
    """What each cost would say alone."""
    carried = {row.cost for row in facts.costs}
    lines = [
        "| cost | costs told from chance | with privacy | unequal between groups | disparity "
        "shown | double disadvantage |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for cost in (GAP, *(cost for cost in SHARPER if cost in carried)):
        rows = facts.of(cost)
        private = [row for row in rows if row.private]
        cells = (
            f"{n_resolved(rows)}/{2 * len(rows)}",
            f"{n_resolved(private)}/{2 * len(private)}",
            count(rows, lambda row: row.more_exposed is not None),
            count(rows, lambda row: row.verdict is Verdict.DISPARITY_SHOWN),
            count(rows, lambda row: row.verdict is Verdict.DOUBLE_DISADVANTAGE),
        )
        lines.append(f"| {COSTS[cost]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ending(facts: Facts) -> list[str]:
    return [
        "## Limits",
        "One network, four datasets, one training recipe. Seeds of one dataset measure splits and "
        "training, not a new population; budgets share splits, so agreement across budgets is no "
        "replication. A cost that is not resolved may still be there, and a stronger attack may "
        "find more. A positive rate reflects base rates as well as the model. "
        + _second_reading(facts),
        "## Where this comes from, and how to cite it",
        f"{origin(facts.study)} Page and figures are made from its releases with `{COMMAND}`; the "
        "same releases give the same bytes.",
        "Cite the software by [CITATION.cff](../../CITATION.cff) with the commit above, and the "
        "paper whose method it examines. Claim by claim: [claims.md](claims.md).",
    ]


def _second_reading(facts: Facts) -> str:
    if facts.study.closest is None:
        return ""
    return (
        "Adult stands here twice, since the paper says only in part how its columns became "
        "features ([sensitivity.md](sensitivity.md))."
    )


def named(facts: Facts, one: Configuration) -> str:
    """A configuration's name with the mark of data that may not be the paper's."""
    if facts.study.data_note(one.dataset, one.attribute):
        return f"{one.name} {OTHER_DATA}"
    return f"{one.name} {OTHER_FEATURES}" if one.dataset in OUR_READING else one.name


def stands_out(row: GapRow) -> bool:
    """Whether a published gap can be told from chance."""
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
