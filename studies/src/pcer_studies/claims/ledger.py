"""The claims ledger, ``claims.md``: does each empirical claim of the paper hold?

Called by ``python -m pcer_studies`` and by ``findings``, which counts the judgements.
To add a claim: see ``judgement``; to add a table of claims: a row of SECTIONS.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from pcer.report.formats.markdown import markdown_text
from pcer.wording import no_zero
from pcer_studies.claims.acs import ACS_CLAIMS
from pcer_studies.claims.adult import RACE_CLAIMS, SEX_CLAIMS
from pcer_studies.claims.attack import AGREEMENT_CLAIMS, ATTACK_CLAIMS
from pcer_studies.claims.bios import BIOS_CLAIMS
from pcer_studies.claims.compas import COMPAS_CLAIMS, STRONG_CLAIMS
from pcer_studies.claims.floors import FLOOR_CLAIMS
from pcer_studies.claims.judgement import (
    Claim,
    Judged,
    Judgement,
    Side,
    depends_on_reading,
    judge,
)
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.quantities import ACS_RACE
from pcer_studies.claims.whole import WHOLE_CLAIMS
from pcer_studies.claims.wording import threshold_meanings
from pcer_studies.numbers import our_number
from pcer_studies.protocol import (
    ACS_RATE,
    ACS_STATED,
    ACS_TASK,
    NO_DP,
    PAPER,
    PAPER_RECORDS,
)
from pcer_studies.published import key_at, published_figures
from pcer_studies.results import OTHER_DATA, OTHER_FEATURES, Study, data_notes, origin

COMMAND = "python -m pcer_studies studies/paper studies/docs"
NOTHING = "–"


@dataclass(frozen=True)
class LedgerSection:
    """Claims that stand in one table of the ledger."""

    title: str
    claims: tuple[Claim, ...]


SECTIONS = (
    LedgerSection("The whole: introduction, method, set-up, discussion", WHOLE_CLAIMS),
    LedgerSection("Adult, race (Figure 1a, Table S4)", RACE_CLAIMS),
    LedgerSection("Adult, sex (Table S3)", SEX_CLAIMS),
    LedgerSection("COMPAS (Figure 1b, Table 1)", COMPAS_CLAIMS),
    LedgerSection("COMPAS at ε = 0.1 (Table 1)", STRONG_CLAIMS),
    LedgerSection("The floor (Table S1)", FLOOR_CLAIMS),
    LedgerSection("ACS Income (Table 2)", ACS_CLAIMS),
    LedgerSection("Bias in Bios (Table 3)", BIOS_CLAIMS),
    LedgerSection("The direct attack (Tables S5 and S6)", ATTACK_CLAIMS),
    LedgerSection("Agreement of gap and attack (Tables S5 and S6)", AGREEMENT_CLAIMS),
)

CLAIMS = tuple(chain.from_iterable(section.claims for section in SECTIONS))

EXCEPTIONS = (
    "Table S2 names no best budget by PCER for COMPAS and ACS (N/A), and gives the "
    "reason",
    "ε = 0.1 is left out of every ranking by disparity, since the paper calls it "
    "floor-dominated",
)
"""What the paper prints as an exception, and does not claim."""

MEANING = {
    Judgement.HOLDS: (
        "every number is as claimed, each beyond its error; and where the claim is "
        "about exposure, that exposure is more than a model that memorises nothing "
        "would show."
    ),
    Judgement.FAILS: (
        "a number lies on the other side, beyond its error: two-sided, Bonferroni "
        "over all numbers of the claim and all that it was picked from."
    ),
    Judgement.NOT_EVIDENCE: (
        "the numbers are as claimed, but within the error, or a model that "
        "memorises nothing would show them too, or the claim is that nothing differs "
        "from 0, which no test bears out."
    ),
    Judgement.UNDECIDED: (
        "some numbers are not as claimed, or an interval does not exclude 0 as "
        "claimed, but chance alone could do that."
    ),
    Judgement.UNTESTABLE: (
        "the numbers are not there, or our records or features are not the "
        "paper's and so cannot refute it; the reason is given."
    ),
}
SOURCES = ("paper", "run", "closest")


def judge_all(study: Study) -> dict[str, list[Judged]]:
    """Every claim, judged, by the title of its section."""
    return study.keep("judged", lambda: _judge_all(study))


def _judge_all(study: Study) -> dict[str, list[Judged]]:
    paper = Paper.beside(study)
    run = OurRun(study)
    closest = None if study.closest is None else OurRun(study.closest)
    ledger = {}
    for section in SECTIONS:
        judged = [judge(claim, paper, run, closest) for claim in section.claims]
        ledger[section.title] = judged
    return ledger


def write_claims(study: Study) -> str:
    """The ledger as a Markdown page: the same study gives the same bytes."""
    ledger = judge_all(study)
    all_judged = [*chain.from_iterable(ledger.values())]
    parts = [*_preface(study), "## Summary", *_summary(all_judged)]
    for title, judged in ledger.items():
        parts += [f"## {title}", _table(judged)]
    parts += _contradictions(all_judged)
    parts += _thresholds()
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _preface(study: Study) -> list[str]:
    meanings = [f"- **{name.value}**: {text}" for name, text in MEANING.items()]
    notes = [f"<br>{markdown_text(note)}" for note in data_notes(study)]
    return [
        "# Claims ledger",
        f"Every empirical claim of {markdown_text(PAPER)}, in our words, put to two "
        "sources by one question: **the paper** (its printed numbers) and **our run** "
        "of its protocol. Claims about Adult have a third: **closest**, our run with "
        "Adult's features read so that its figures come closest to the paper's. "
        "Definitions, proofs and norms are not here. A judgement of a claim is no "
        "judgement of the method: see [findings.md](findings.md).",
        "\n".join(meanings),
        "**How a claim is decided.** One of nine rules turns it into numbers that lie "
        "above 0 if it is as claimed. A number that the paper prints is asked to its "
        "last digit, a word by a threshold, an interval by its ends. Each has an "
        "error: in our run from the seeds (drawn again 1,000 times, all budgets of a "
        "dataset together), in the paper from its printed interval or deviation and "
        "its last digit, and where it prints neither, that of the same number in our "
        "run. The table shows the number that speaks most clearly against the claim "
        "(or least clearly for it), its error, and the size that 4 of 5 such studies "
        "would have seen.",
        "**Whose data.** Only the paper's own records can refute a claim: other "
        "records can bear it out, and where they do not it cannot be tested here. A "
        "claim about Adult is refuted only where both readings of its features refute "
        "it.",
        "**More than a model that memorises nothing would show** means, in our run, "
        "the audit's tests ([method.md](../../docs/method.md)) with the gap as attack; "
        "where a claim says who is the more exposed, LiRA must not have the other "
        "sign. Of a printed gap it means that the mean over 50 splits exceeds what "
        "group sizes alone give, one-sided, Holm over all 72, and of a printed "
        "disparity that the gap of the group with the lower ratio does.",
        *_acs_account(study),
        f"**Printed exceptions are no claims**: {'; '.join(EXCEPTIONS)}.",
        "\n".join([f"{origin(study)} Made with `{COMMAND}`.", *notes]),
    ]


def _acs_account(study: Study) -> list[str]:
    """Why ACS cannot be compared: two counts, and what follows for a rate."""
    if not study.has(*ACS_RACE.key):
        return []
    key = key_at(ACS_RACE, NO_DP, "demographic_parity_gap")
    (printed,) = [f.printed for f in published_figures(name="tab:acs") if f.key == key]
    ours = our_number(study, key).value
    error = math.sqrt(ACS_RATE * (1 - ACS_RATE) / (PAPER_RECORDS["acs"] / 2))
    return [
        f"**ACS is probably another task.** The paper counts about {ACS_STATED:,} "
        f"records of three states; the task ACSIncome has {ACS_TASK:,} there, and "
        "the other number is near that of all persons in the states' files (a "
        "hypothesis: those files are not at hand). If nobody was filtered out, "
        "children and people without work are in its data, whom a model rejects in "
        f"every group; that could explain a parity gap of {printed} (race, no-DP) "
        f"where the task has {no_zero(ours, 3)}. Chance cannot: in a draw of "
        f"{PAPER_RECORDS['acs']:,} a group's rate has an error of about "
        f"{no_zero(error, 3)}. So no cell of ACS speaks for or against the rest."
    ]


def _summary(judged: Sequence[Judged]) -> list[str]:
    claims = [entry for entry in judged if entry.claim.text.is_counted]
    defined = [entry for entry in judged if entry.claim.text.definition]
    slips = [entry for entry in judged if entry.claim.text.slip]
    n_wrong = sum(entry.paper.judgement is Judgement.FAILS for entry in slips)
    held = [entry for entry in claims if entry.is_by_all(Judgement.HOLDS)]
    refuted = [entry for entry in claims if entry.is_by_all(Judgement.FAILS)]
    return [
        _count_table(claims),
        f"Held by every source: {_keys(held)}. Refuted by every source: "
        f"{_keys(refuted)}.",
        f"Left out of the count: {len(slips)} claims about a printed figure on which "
        f"nothing depends ({_keys(slips)}), of which the paper's figures refute "
        f"{n_wrong}; and what is true by definition ({_keys(defined)}).",
    ]


def _count_table(claims: Sequence[Judged]) -> str:
    """How many claims come to each judgement, source by source."""
    by_paper = Counter(entry.paper.judgement for entry in claims)
    by_run = Counter(entry.run.judgement for entry in claims)
    read_twice = [entry.closest for entry in claims if entry.closest is not None]
    by_closest = Counter(side.judgement for side in read_twice)
    closest = f"closest ({len(read_twice)} about Adult)"
    lines = [
        f"| {len(claims)} claims | the paper | our run | {closest} |",
        "|---|--:|--:|--:|",
    ]
    for name in Judgement:
        counts = f"{by_paper[name]} | {by_run[name]} | {by_closest[name]}"
        lines.append(f"| {name.value} | {counts} |")
    return "\n".join(lines)


def _keys(judged: Iterable[Judged]) -> str:
    return ", ".join(entry.claim.key for entry in judged) or "none"


def _table(judged: Sequence[Judged]) -> str:
    lines = [
        "| | claim | source | numbers | decided by | judgement |",
        "|---|---|---|---|---|---|",
    ]
    for entry in judged:
        lines += _rows(entry)
    return "\n".join(lines)


def _rows(entry: Judged) -> list[str]:
    """One line for every source; the first names the claim."""
    lines = []
    key = entry.claim.key
    words = _claim(entry)
    for source, side in zip(SOURCES, entry.sides, strict=False):
        marks = _marks(entry) if source == "run" else ""
        figure = markdown_text(side.figure) or NOTHING
        cells = (key, words, source + marks, figure, _decided(side), _judgement(side))
        lines.append(f"| {' | '.join(cells)} |")
        key = ""
        words = ""
    return lines


def _claim(entry: Judged) -> str:
    """The claim in our words, and below it its place, its caveat and notes."""
    text = entry.claim.text
    small_print = [text.place]
    if text.caveat:
        small_print.append(f"Caveat: {text.caveat}")
    small_print += entry.notes
    return markdown_text(text.words) + "".join(map(_small, small_print))


def _small(text: str) -> str:
    return f"<br><sub>{markdown_text(text)}</sub>"


def _decided(side: Side) -> str:
    """The decisive number with its error and the size that would have been seen."""
    part = side.decisive
    if part is None:
        return NOTHING
    number = part.write(part.estimate)
    if part.error == 0:
        number += ", exact"
    else:
        error = part.write(part.error).lstrip("+")
        size = part.write(part.seen_from(side.n_parts)).lstrip("+")
        number += f" ± {error}, seen from {size}"
    name = markdown_text(part.name)
    if side.n_parts > 1:
        name += f" (1 of {side.n_parts})"
    return f"{markdown_text(number)}<br><sub>{name}</sub>"


def _judgement(side: Side) -> str:
    judgement = f"**{side.judgement.value}**"
    if not side.why:
        return judgement
    sentence = _with_full_stop(f"{side.why[:1].upper()}{side.why[1:]}")
    return judgement + _small(sentence)


def _marks(entry: Judged) -> str:
    """The marks of data that may not be the paper's, behind a space."""
    marks = OTHER_DATA if entry.other_data else ""
    if depends_on_reading(entry.claim.about):
        marks += OTHER_FEATURES
    return f" {marks}" if marks else ""


def _contradictions(judged: Sequence[Judged]) -> list[str]:
    """Claims that the paper's own figures refute: matters first, then slips."""
    matters: list[str] = []
    slips: list[str] = []
    for entry in judged:
        if entry.paper.judgement is Judgement.FAILS:
            lines = slips if entry.claim.text.slip else matters
            lines.append(_contradiction(entry))
    return [
        "## Where the paper's figures do not bear out its text",
        "Beyond the errors of the printed figures. Some are matters of wording, and "
        "the finding survives in a weaker form; the tables above say which.",
        "\n".join(matters) or "None.",
        "Slips in figures on which nothing depends:",
        "\n".join(slips) or "None.",
    ]


def _contradiction(entry: Judged) -> str:
    text = entry.claim.text
    figure = _with_full_stop(entry.paper.figure)
    printed = f"{figure} {entry.paper.why}".strip()
    return (
        f"- **{entry.claim.key}** ({markdown_text(text.place)}): "
        f"{markdown_text(text.words)} *Printed:* {markdown_text(printed)}"
    )


def _with_full_stop(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text}."


def _thresholds() -> list[str]:
    lines = ["| word | number | meaning |", "|---|--:|---|"]
    for name, threshold in threshold_meanings().items():
        word = name.replace("_", " ")
        meaning = markdown_text(threshold.meaning)
        lines.append(f"| {word} | {threshold.value:g} | {meaning} |")
    return ["## Where words had to become numbers", "\n".join(lines)]
