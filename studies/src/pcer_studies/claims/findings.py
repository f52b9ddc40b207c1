"""What does a study find? ``findings.md``: people first, then advice, then method.

Every number is computed from a study, and every sentence that depends on a result is
chosen by it. A sentence about a group stands with its verdict, its made-up groups and
its bounds. Called by ``python -m pcer_studies``.

To add a section: a function from ``Background`` to paragraphs, here or in ``people`` or
``method``, and its line in ``write_findings``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from pcer.errors import InputError
from pcer.measuring.plan import SETTING_VERDICTS
from pcer.release import attack_kinds
from pcer.report.formats.markdown import markdown_text
from pcer.wording import listed
from pcer_studies.claims.charts import FIGURES, finding_figures
from pcer_studies.claims.facts import Background, SettingRow, background_of
from pcer_studies.claims.judgement import Judgement
from pcer_studies.claims.ledger import COMMAND, judge_all
from pcer_studies.claims.method import method_section
from pcer_studies.claims.people import (
    HUNDRED,
    allowed_section,
    both_answers,
    budgets_of,
    by_answers,
    largest_difference,
    people_section,
    placebo_range,
)
from pcer_studies.protocol import PAPER
from pcer_studies.results import Study, data_notes, origin
from pcer_studies.tables.cells import n_agreeing
from pcer_studies.tables.comparison import Comparison, compare

TOO_MANY = 19
"""Made-up groups of 200 from which an alarm is downgraded (docs/reports.md)."""
ANSWERS = {
    "exposure_differs": "Exposure differs",
    "outcomes_differ": "outcomes differ",
    "ratio_differs": "the ratio differs",
}
"""Statements of the audit that the opening counts, as it names them."""


def write_findings(study: Study) -> tuple[str, dict[str, bytes]]:
    """The page and its figures by file name: the same study gives the same bytes."""
    judged = [*chain.from_iterable(judge_all(study).values())]
    background = background_of(study, judged)
    if not background.gaps:
        raise InputError(
            f"{study.folder}: no release holds group sizes (n), without which no gap "
            "can be told from chance; put releases there that pcer reproduce trained."
        )
    parts = [
        *opening(background),
        *people_section(background),
        *allowed_section(background),
        *_advice(),
        *method_section(background),
        *_ending(background),
    ]
    page = "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    return page, finding_figures(background.gaps, background.settings)


def opening(background: Background) -> list[str]:
    """The matrix, and what it says in four lines."""
    sentences = (
        _verdicts_sentence(background),
        _alarm_sentences(background),
        placebo_sentences(background),
        _claims_sentence(background),
        _cells_sentence(background),
    )
    lines = [f"- {sentence}" for sentence in sentences]
    notes = [
        f"<sub>{markdown_text(note)}</sub><br>" for note in data_notes(background.study)
    ]
    return [
        "# Findings: who is easier to spot, who is worse served?",
        f"![The verdict in every setting]({FIGURES}/findings-verdicts.svg)",
        "*Every setting of the study with the audit's verdict and both answers. ▲: "
        "which group is easier to spot. ▼: which group is worse served (fewer "
        "helpful or more harmful predictions). Each stands only where the groups "
        "differ beyond chance (M, F: male, female; W, NW: White, Non-White; AA, Ot: "
        "African-American, other). The audit is `pcer audit` with its defaults: the "
        f"strongest attack in the releases ({_attack_names(background)}), Holm over "
        "settings, attributes of the same people as one family.*",
        "\n".join(lines),
        "\n".join(notes),
    ]


def _attack_names(background: Background) -> str:
    names = {attack_kinds.ATTACK_KINDS[row.attack].short for row in background.settings}
    return listed(sorted(names))


def _verdicts_sentence(background: Background) -> str:
    settings = background.settings
    counts = Counter(row.verdict for row in settings)
    verdicts = [
        f"{counts[verdict]} {verdict.words}"
        for verdict in SETTING_VERDICTS
        if counts[verdict] > 0
    ]
    answers = []
    for statement, words in ANSWERS.items():
        n_settings = sum(statement in row.statements for row in settings)
        answers.append(f"{words} in {n_settings}")
    return f"**{len(settings)} settings**: {', '.join(verdicts)}. {listed(answers)}."


def _alarm_sentences(background: Background) -> str:
    """Whom an alarm names, where, with made-up groups."""
    lines = []
    for title in background.titles:
        rows = [
            row
            for row in background.settings
            if row.title == title and row.verdict.is_alarm
        ]
        for alike in by_answers(rows):
            lines.append(_alarm_line(background, alike))
    if not lines:
        return "**No alarm holds** in any setting."
    return "\n  - ".join(["**Alarms that hold:**", *lines])


def _alarm_line(background: Background, rows: Sequence[SettingRow]) -> str:
    """One alarm, with its made-up groups and the difference that the data allow."""
    first = rows[0]
    bound = largest_difference(rows)
    exposures = "may differ by any amount"
    if bound is not None:
        exposures = f"differ by at most {bound:.1f} points"
    return (
        f"{background.title_of(first)} at {budgets_of(rows)}: {first.verdict.words}; "
        f"{both_answers(first)}. Made-up groups with an alarm: {placebo_range(rows)}. "
        f"Exposures {exposures}."
    )


def placebo_sentences(background: Background) -> str:
    """In how many settings made-up groups raise an alarm."""
    settings = background.settings
    checks = [row.placebo for row in settings if row.placebo is not None]
    if not checks:
        return "**Made-up groups**: these releases lack this check."
    most_drawn = max(n_draws for _, n_draws in checks)
    n_drawn = sum(n_draws for _, n_draws in checks)
    share = HUNDRED * sum(n_alarms for n_alarms, _ in checks) / n_drawn
    n_any = sum(n_alarms > 0 for n_alarms, _ in checks)
    n_often = sum(n_alarms * 200 >= TOO_MANY * n_draws for n_alarms, n_draws in checks)
    n_downgraded = sum(row.downgraded is not None for row in settings)
    return (
        f"**Made-up groups.** In every setting {most_drawn} groups were drawn at "
        f"random and audited like the real ones. In {n_any} of {len(checks)} settings "
        f"at least one of them raised an alarm, {share:.1f}% of all draws; in "
        f"{n_often} at least {TOO_MANY} of 200, which downgrade an alarm. Alarms that "
        f"were downgraded, for this or another reason: {n_downgraded}."
    )


def _cells_sentence(background: Background) -> str:
    """How many printed cells agree: by the joint rule, and plainly."""
    cells = [one for one in compare(background.study) if one.published.in_table]
    compas = [one for one in cells if one.published.key.dataset == "compas"]
    return (
        f"**The cells.** Within the joint errors of both studies are {_agreeing(cells)}"
        f"; of COMPAS, whose records are the paper's, {_agreeing(compas)}. The joint "
        "rule is no agreement of intervals."
    )


def _agreeing(cells: Sequence[Comparison]) -> str:
    plain = n_agreeing([one.within for one in cells])
    deviation = n_agreeing([one.within_deviation for one in cells])
    interval = n_agreeing([one.inside_interval for one in cells])
    return (
        f"{plain} cells ({deviation} within the published standard deviation, "
        f"{interval} inside the published interval)"
    )


def _claims_sentence(background: Background) -> str:
    claims = [entry for entry in background.judged if entry.claim.text.is_counted]
    n_held = sum(entry.is_by_all(Judgement.HOLDS) for entry in claims)
    n_refuted = sum(entry.is_by_all(Judgement.FAILS) for entry in claims)
    return (
        f"**The paper.** Of {len(claims)} claims of {markdown_text(PAPER)}, {n_held} "
        f"hold, and {n_refuted} fail, in both the paper's figures and our rerun. For "
        "the rest the data cannot tell, or are not the paper's: "
        "[claims.md](claims.md)."
    )


def _advice() -> list[str]:
    lines = [
        "- **Audit with an attack that can see.** Train several seeds, each with "
        "another split (two for paired attacks, eight for LiRA; the paper has fifty), "
        "as `pcer train` does, and run `pcer audit`.",
        "- **Read a difference of PCER only with its verdict**, its made-up groups and "
        "its bound. `none detected` means that the number is no evidence; the bound "
        "says how much could still be there.",
        "- **Ask for receipts** (`--receipts`) where the budget is small: there "
        "attacks fall silent, and what training allows is the better answer.",
        "- **Choose a budget by a ranking only** if exposure is detected at the "
        "budgets compared.",
        "- **Report outcomes and exposures per group**, not the ratio alone. Where "
        "predictions harm, look for double disadvantage itself, which the ratio hides.",
    ]
    return ["## What to do", "\n".join(lines)]


def _ending(background: Background) -> list[str]:
    limits = (
        "One network, four datasets, one training recipe. Seeds of one dataset measure "
        "splits and training, not a new population; budgets share splits, so agreement "
        "across budgets is no replication. Exposure that is not detected may still be "
        "there, and a stronger attack may find more. A positive rate reflects base "
        "rates as well as the model. "
    )
    if background.study.closest is not None:
        limits += (
            "Adult stands here twice, since the paper says only in part how its "
            "columns became features ([sensitivity.md](sensitivity.md))."
        )
    return [
        "## Limits",
        limits,
        "## Where this comes from, and how to cite it",
        f"{origin(background.study)} Page and figures are made from its releases with "
        f"`{COMMAND}`; the same releases give the same bytes.",
        "Cite the software by [CITATION.cff](../../CITATION.cff) with the commit "
        "above, and the paper whose method it examines. Claim by claim: "
        "[claims.md](claims.md).",
    ]
