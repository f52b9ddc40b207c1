"""The headline analysis, ``findings.md``: people first, then advice, then method.

Every number is computed from a study, and every sentence that depends on a result is
chosen by it. A sentence about a group stands with its verdict, its made-up groups and
its bounds.
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
from pcer_studies.claims.noise import (
    CLIPPED_MEAN,
    CLIPPED_STD,
    SpreadSource,
    published_gaps,
)
from pcer_studies.claims.wording import budget_words, gap_words, range_words
from pcer_studies.protocol import OUR_READING, PAPER, SEEDS, Configuration
from pcer_studies.results import (
    GAP,
    OTHER_DATA,
    OTHER_FEATURES,
    Study,
    data_notes,
    origin,
)

FIGURES = "figures"
"""Folder of the figures, beside the page."""
TOO_MANY = 19
"""Made-up groups of 200 from which an alarm is downgraded (docs/reports.md)."""
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
        """The settings by one attack."""
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
        "# Findings: who is easier to recognise, who is worse served?",
        f"![The verdict in every setting]({FIGURES}/findings-verdicts.svg)",
        "*Every setting of the study with the audit's verdict and both answers. ▲: which group is "
        "easier to recognise. ▼: which group is worse served (fewer helpful or more harmful "
        "predictions). Each stands only where the groups differ beyond chance (M, F: male, female; "
        "W, NW: White, Non-White; AA, Ot: African-American, other). The audit is `pcer audit` with "
        f"its defaults: the strongest attack in the releases ({_cost_names(facts)}), Holm over "
        "settings, attributes of the same people as one family.*",
        "\n".join(
            [
                f"- {_verdicts_told(facts)}",
                f"- {_alarms_told(facts)}",
                f"- {placebos_told(facts)}",
                f"- {_claims_told(facts)}",
            ]
        ),
        "\n".join(
            f"<sub>{markdown_text(note)}</sub><br>" for note in data_notes(facts.study)
        ),
    ]


def _cost_names(facts: Facts) -> str:
    names = {proxies.PROXIES[row.cost].short for row in facts.settings}
    return listed(sorted(names))


def _verdicts_told(facts: Facts) -> str:
    counts = Counter(row.verdict for row in facts.settings)
    told = [f"{counts[v]} {v.words}" for v in BUDGET_VERDICTS if counts[v]]
    answers = [
        f"{what} in {sum(one in row.statements for row in facts.settings)}"
        for one, what in (
            ("exposure_differs", "Exposure differs"),
            ("outcomes_differ", "outcomes differ"),
            ("ratio_differs", "the ratio differs"),
        )
    ]
    return f"**{len(facts.settings)} settings**: {', '.join(told)}. {listed(answers)}."


def _alarms_told(facts: Facts) -> str:
    """Whom an alarm names, where, with made-up groups."""
    found = [row for row in facts.settings if row.verdict.is_alarm]
    if not found:
        return "**No alarm holds** in any setting."
    told = []
    for title in facts.titles:
        for rows in _by_answers([row for row in found if row.title == title]):
            first = rows[0]
            where = budget_words(sorted(row.epsilon for row in rows))
            said = f"{first.verdict.words}; {_answers(first)}. {_trust(rows)}"
            told.append(f"{_marked(facts, first, title)} at {where}: {said}")
    return "\n  - ".join(["**Alarms that hold:**", *told])


def _answers(row: SettingRow) -> str:
    """Both answers about a setting, in one clause."""
    if row.easier and row.easier == row.worse_served:
        return f"{row.easier} is easier to recognise and worse served"
    easier, worse = (
        f"{name} is" if name else "no group is shown to be"
        for name in (row.easier, row.worse_served)
    )
    return f"{easier} easier to recognise, and {worse} worse served"


def _trust(rows: Sequence[SettingRow]) -> str:
    """Made-up groups, and the largest difference of exposures that the data allow."""
    bounds = [points(row, row.difference) for row in rows if row.difference is not None]
    apart = (
        f"differ by at most {max(bounds):.1f} points"
        if bounds
        else "may differ by any amount"
    )
    return f"Made-up groups with an alarm: {_placebo_range(rows)}. Exposures {apart}."


def placebos_told(facts: Facts) -> str:
    """In how many settings made-up groups raise an alarm."""
    tried = [row.placebo for row in facts.settings if row.placebo is not None]
    if not tried:
        return "**Made-up groups**: these releases lack this check."
    share = HUNDRED * sum(n for n, _ in tried) / sum(n_draws for _, n_draws in tried)
    often = sum(n * 200 >= TOO_MANY * n_draws for n, n_draws in tried)
    return (
        f"**Made-up groups.** In every setting {max(n for _, n in tried)} groups were drawn at "
        f"random and audited like the real ones. In {sum(n > 0 for n, _ in tried)} of {len(tried)} "
        f"settings at least one of them raised an alarm, {share:.1f}% of all draws; in {often} at "
        f"least {TOO_MANY} of 200, which downgrade an alarm. Alarms that were downgraded, for this "
        f"or another reason: {sum(row.downgraded is not None for row in facts.settings)}."
    )


def _claims_told(facts: Facts) -> str:
    claims = [one for one in facts.judged if not one.claim.text.slip]
    held, refuted = (
        [one for one in claims if {side.judgement for side in one.sides} == {wanted}]
        for wanted in (Judgement.HOLDS, Judgement.FAILS)
    )
    return (
        f"**The paper.** Of {len(claims)} claims of {markdown_text(PAPER)}, {len(held)} hold, "
        f"and {len(refuted)} fail, in both the paper's figures and our rerun. For the rest the "
        "data cannot tell, or are not the paper's: [claims.md](claims.md)."
    )


def people_section(facts: Facts) -> list[str]:
    """One paragraph for each attribute, and the table that it rests on."""
    return [
        "## Who, attribute by attribute",
        "Exposure: of 100 pairs of a person who was trained on and one who was not, how many an "
        "attacker ranks right (coin: 50). At most: its upper bound, 95% for all numbers of an "
        "audit together. Made-up groups: how many of 200 groups drawn at random raised an alarm.",
        *(_about(facts, title) for title in facts.titles),
        "### The numbers",
        setting_table(facts),
    ]


def _about(facts: Facts, title: str) -> str:
    rows = facts.titled(title)
    parts = [
        f"**{_marked(facts, rows[0], title)}.** {rows[0].predicted}",
        *(_verdict_sentence(group) for group in _by_answers(rows)),
        _unseen(rows),
    ]
    return " ".join(part for part in parts if part)


def _by_answers(rows: Sequence[SettingRow]) -> list[list[SettingRow]]:
    """Settings that have the same verdict and name the same groups, strongest first."""
    found: dict[tuple[object, ...], list[SettingRow]] = {}
    for row in rows:
        found.setdefault((row.verdict, row.easier, row.worse_served), []).append(row)
    return sorted(
        found.values(), key=lambda group: BUDGET_VERDICTS.index(group[0].verdict)
    )


def _verdict_sentence(rows: Sequence[SettingRow]) -> str:
    """What the audit says at some budgets, with made-up groups."""
    first = rows[0]
    where = budget_words(sorted(row.epsilon for row in rows))
    driven = (
        f" (driven by {_drivers(rows)})"
        if first.verdict is Verdict.RATIO_DIFFERS
        else ""
    )
    said = f"{first.verdict.words}{driven}; {_answers(first)}"
    return f"At {where}: {said}; made-up groups with an alarm: {_placebo_range(rows)}."


def _drivers(rows: Sequence[SettingRow]) -> str:
    return listed(list(dict.fromkeys(row.driven_by for row in rows if row.driven_by)))


def _placebo_range(rows: Sequence[SettingRow]) -> str:
    found = sorted(row.placebo for row in rows if row.placebo is not None)
    if not found:
        return "not given"
    (least, n_draws) = found[0]
    (most, _) = found[-1]
    return (
        f"{least} of {n_draws}" if least == most else f"{least} to {most} of {n_draws}"
    )


def _unseen(rows: Sequence[SettingRow]) -> str:
    """The largest difference that could have gone unseen, with privacy and without."""
    told = []
    for private in (True, False):
        own = [row for row in rows if row.private is private]
        bounds = [
            points(row, row.difference) for row in own if row.difference is not None
        ]
        if bounds:
            told.append(
                f"{max(bounds):.1f} points {'with' if private else 'without'} privacy"
            )
    return (
        f"The two groups' exposures differ by at most {' and '.join(told)}."
        if told
        else ""
    )


def points(row: SettingRow, value: float) -> float:
    """An exposure, or a difference of two, in right answers of 100; 0 is a coin's."""
    return (proxies.proxy_named(row.cost).scale.per_success or HUNDRED) * value


def setting_table(facts: Facts) -> str:
    """Every setting: both answers, what was found, what is allowed, made-up groups."""
    lines = [
        "| | ε | verdict | easier to recognise | worse served | outcome, of 100 | exposure, of 100 "
        "(coin: 50) | at most | difference at most, points | allowed, of 100 | spent, of promised "
        "ε | made-up groups with an alarm |",
        "|---|--:|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
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
        row.verdict.words + (" (an alarm was downgraded)" if row.downgraded else ""),
        row.easier or "–",
        row.worse_served or "–",
        " / ".join(f"{HUNDRED * g.outcome:.0f}" for g in pair),
        " / ".join(
            f"{50 + points(row, g.found):.1f} ± {points(row, g.error):.1f}"
            for g in pair
        ),
        _two(row, pair[0].at_most, pair[1].at_most),
        "–" if row.difference is None else f"{points(row, row.difference):.1f}",
        _two(row, pair[0].allowed, pair[1].allowed),
        _spent(row),
        _placebo_range([row]).replace("not given", "–"),
    )


def _two(row: SettingRow, first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return "–"
    return f"{50 + points(row, first):.1f} / {50 + points(row, second):.1f}"


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
        "An attack gives a lower bound: a better one may find more. Training with privacy gives "
        "the other side: how much each person's own gradients let through "
        "([receipts.md](../../docs/training.md#receipts-the-privacy-that-each-person-spent)).",
        f"![Found and allowed in every private setting]({FIGURES}/findings-allowed.svg)",
        "*What LiRA finds (circles, with 95% intervals) and what the training allows an attacker "
        "who sees every step (triangles), on one axis, for every group and private setting.*",
        f"Found is below allowed in {len(cells) - len(above)} of {len(cells)} groups and settings"
        + (f"; in {len(sure)} it is above beyond its error." if above else ".")
        + f" {_ratio_told(cells)}",
        f"What the two groups spent on average differs beyond its error in {len(apart)} of "
        f"{len(rows)} private settings, where the audit finds unequal exposures in "
        f"{sum(row.easier is not None for row in rows)}. Receipts see small differences "
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
        f"{HUNDRED * max(found):.0f}% at {budget_words((e,))}"
        for e, found in sorted(shares.items())
    ]
    return f"Of what is allowed, at most this share is found: {', '.join(told)}."


def _spends_apart(study: Study, row: SettingRow) -> bool:
    """Whether the groups' mean receipts differ by more than 1.96 of their errors."""
    source = study.closest if row.closest and study.closest is not None else study
    bounds = {
        bound.group: bound
        for bound in source.release(*_key(row.configuration)).bounds
        if bound.kind == "receipt"
        and bound.label is None
        and bound.epsilon == row.epsilon
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
        "- **Audit with an attack that can see.** Train several seeds, each with another split "
        "(two for paired attacks, eight for LiRA; the paper has fifty), as `pcer train` does, and "
        "run `pcer audit`.\n"
        "- **Read a difference of PCER only with its verdict**, its made-up groups and its bound. "
        "`none detected` means that the number is no evidence; the bound says how much could still "
        "be there.\n"
        "- **Ask for receipts** (`--receipts`) where the budget is small: there attacks fall "
        "silent, and what training allows is the better answer.\n"
        "- **Choose a budget by a ranking only** if exposure is detected at the budgets compared.\n"
        "- **Report outcomes and exposures per group**, not the ratio alone. Where predictions "
        "harm, look for double disadvantage itself, which the ratio hides.",
    ]


# Then method.


def method_section(facts: Facts) -> list[str]:
    """What the gap can show, published and ours, and the other attacks beside it."""
    levels = [row.published.noise_level for row in facts.gaps]
    below = [
        row for row in facts.gaps if row.published.value <= row.published.noise_level
    ]
    return [
        "## How we know: what a gap is when nothing is memorised",
        "The paper takes a group's overfitting gap, max(0, training accuracy − test accuracy), for "
        "its privacy cost. If nothing is memorised, the difference X is chance: mean 0, nearly "
        "normal, with a standard deviation s that group size and accuracy fix (s² = p(1−p)"
        "(1/n_train + 1/n_test)). Cut at 0 it becomes a positive number: E max(0, X) = s/√(2π) = "
        f"{CLIPPED_MEAN:.3f} s, the **noise level**, with standard deviation {CLIPPED_STD:.3f} s. "
        f"For the paper's groups it is {range_words(levels, gap_words)}; the smaller group tends "
        "to have the larger one, which by itself looks like a disparity.",
        f"**Published gaps** are tested as means over {len(SEEDS)} splits against the exact "
        f"distribution if nothing is memorised, one-sided, Holm over all {len(facts.gaps)}; the "
        f"first to stand out must be {standing_out_from(len(facts.gaps)):.2f} times its noise "
        "level. **Ours** are tested by the audit: exact over random splits, Holm over a "
        "configuration ([method.md](../../docs/method.md)).",
        f"![Mean gaps over noise level]({FIGURES}/findings-gaps.svg)",
        "*Every mean gap divided by its noise level, published and ours. Grey: where 95% of means "
        "lie if nothing is memorised. Dashed: where the first published gap stands out.*",
        _by_dataset(facts),
        f"{_gaps_told(facts)} {len(below)} published gaps are not even above their noise level. "
        f"{_readings(facts)}",
        "A gap at its noise level makes the disparity the difference of positive rates divided by "
        "noise. Its bootstrap interval can then exclude 0 because the rates differ, its sign be "
        "stable over floors because the rates have a sign, and it can agree with a threshold "
        "attack's because both have the same rates on top. None of this needs memorisation.",
        "## The same models by every attack",
        "Paired attacks compare a record with itself, over models that trained on it and models "
        "that did not; LiRA is the attack of Carlini et al. with the sweep's models as each "
        "other's shadow models ([attacks.md](../../docs/attacks.md)). Each attack is "
        "audited alone, as if it were the only one; the page's verdicts are by the strongest.",
        cost_table(facts),
    ]


def _gaps_told(facts: Facts) -> str:
    private = [row for row in facts.gaps if row.private]
    published = sum(row.published.stands_out for row in facts.gaps)
    return (
        f"Of the {len(facts.gaps)} published mean gaps {published} differ from chance, "
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
        "| beyond chance | published, no-DP | published, with privacy | ours, no-DP | ours, "
        "with privacy |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in facts.study.configurations:
        rows = [row for row in facts.gaps if row.configuration == one]
        parts = [
            [row for row in rows if row.private is private] for private in (False, True)
        ]
        cells = [
            *(count(part, stands_out) for part in parts),
            *(count(part, lambda row: row.resolved) for part in parts),
        ]
        lines.append(f"| {named(facts, one)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _readings(facts: Facts) -> str:
    """How far the count depends on what was assumed."""
    counts = {
        source: [
            published_gaps(facts.study, source, rounding=way) for way in (-1, 0, 1)
        ]
        for source in SpreadSource
    }
    first = [
        sum(gap.stands_out for gap in gaps) for gaps in counts[SpreadSource.COUNTS]
    ]
    rounding = (
        f"between {min(first)} and {max(first)}"
        if min(first) < max(first)
        else "the same"
    )
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
    """What each attack would say alone."""
    carried = {row.cost for row in facts.costs}
    lines = [
        "| attack | groups detected | with privacy | exposures differ | ratio differs | double "
        "disadvantage |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for cost in (GAP, *(cost for cost in SHARPER if cost in carried)):
        rows = facts.of(cost)
        private = [row for row in rows if row.private]
        cells = (
            f"{n_resolved(rows)}/{2 * len(rows)}",
            f"{n_resolved(private)}/{2 * len(private)}",
            count(rows, lambda row: row.more_exposed is not None),
            count(rows, lambda row: "ratio_differs" in row.statements),
            count(rows, lambda row: "double_disadvantage" in row.statements),
        )
        lines.append(f"| {COSTS[cost]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ending(facts: Facts) -> list[str]:
    return [
        "## Limits",
        "One network, four datasets, one training recipe. Seeds of one dataset measure splits and "
        "training, not a new population; budgets share splits, so agreement across budgets is no "
        "replication. Exposure that is not detected may still be there, and a stronger attack may "
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
    """Whether a published gap is beyond chance."""
    return row.published.stands_out


def n_resolved(rows: Iterable[CostRow]) -> int:
    """In how many groups exposure is detected; each setting has two."""
    return sum(sum(row.resolved) for row in rows)


def count(rows: Sequence[GapRow] | Sequence[CostRow], test: Callable[..., bool]) -> str:
    """How many rows pass a test, of how many.

    >>> count([], bool)
    '0/0'
    """
    return f"{sum(test(row) for row in rows)}/{len(rows)}"
