"""The claims ledger: every empirical claim of the paper, judged. ``claims.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pcer.report.formats.markdown import markdown_text
from pcer_studies.claims.attack import AGREEMENT_CLAIMS, ATTACK_CLAIMS
from pcer_studies.claims.datasets import (
    ACS_CLAIMS,
    BIOS_CLAIMS,
    COMPAS_CLAIMS,
    RACE_CLAIMS,
    SEX_CLAIMS,
    STRONG_CLAIMS,
)
from pcer_studies.claims.floors import CLAIMS as FLOORS
from pcer_studies.claims.judgement import Claim, Judged, Judgement, Side, judge
from pcer_studies.claims.rules import threshold_meanings
from pcer_studies.claims.views import OurRun, Paper
from pcer_studies.claims.whole import CLAIMS as WHOLE
from pcer_studies.protocol import OUR_READING, PAPER
from pcer_studies.results import OTHER_DATA, OTHER_FEATURES, Study, data_notes, origin

COMMAND = "python -m pcer_studies studies/paper studies/docs"
NOTHING = "–"


@dataclass(frozen=True)
class LedgerSection:
    """Claims that stand in one table of the ledger."""

    title: str
    claims: tuple[Claim, ...]


SECTIONS = (
    LedgerSection("The whole: introduction, method, set-up, discussion", WHOLE),
    LedgerSection("Adult, race (Figure 1a, Table S4)", RACE_CLAIMS),
    LedgerSection("Adult, sex (Table S3)", SEX_CLAIMS),
    LedgerSection("COMPAS (Figure 1b, Table 1)", COMPAS_CLAIMS),
    LedgerSection("COMPAS at ε = 0.1 (Table 1)", STRONG_CLAIMS),
    LedgerSection("The floor (Table S1)", FLOORS),
    LedgerSection("ACS Income (Table 2)", ACS_CLAIMS),
    LedgerSection("Bias in Bios (Table 3)", BIOS_CLAIMS),
    LedgerSection("The direct attack (Tables S5 and S6)", ATTACK_CLAIMS),
    LedgerSection("Agreement of gap and attack (Tables S5 and S6)", AGREEMENT_CLAIMS),
)

CLAIMS = tuple(claim for section in SECTIONS for claim in section.claims)

EXCEPTIONS = (
    "Table S2 names no best budget by PCER for COMPAS and ACS (N/A), and gives the reason",
    "ε = 0.1 is left out of every ranking by disparity, since the paper calls it floor-dominated",
)
"""What the paper prints as an exception, and does not claim."""

MEANING = {
    Judgement.HOLDS: "every number is as claimed, each beyond its error; and where the claim is "
    "about exposure, that exposure is more than a model that memorises nothing would show.",
    Judgement.FAILS: "a number lies on the other side, beyond its error: two-sided, Bonferroni "
    "over all numbers of the claim and all that it was picked from.",
    Judgement.NOT_EVIDENCE: "the numbers are as claimed, but within the error, or a model that "
    "memorises nothing would show them too, or the claim is that nothing differs from 0, which no "
    "test bears out.",
    Judgement.UNDECIDED: "some numbers are not as claimed, or an interval does not exclude 0 as "
    "claimed, but chance alone could do that.",
    Judgement.UNTESTABLE: "the numbers are not there, or our records or features are not the "
    "paper's and so cannot refute it; the reason is given.",
}
SOURCES = ("paper", "run", "closest")


def judge_all(study: Study) -> dict[str, list[Judged]]:
    """Every claim, judged, by the title of its section."""
    return study.keep("judged", lambda: _judge_all(study))


def _judge_all(study: Study) -> dict[str, list[Judged]]:
    paper = Paper.beside(study)
    run = OurRun(study)
    closest = None if study.closest is None else OurRun(study.closest)
    return {
        section.title: [judge(claim, paper, run, closest) for claim in section.claims]
        for section in SECTIONS
    }


def write_claims(study: Study) -> str:
    """The ledger as a Markdown page: the same study gives the same bytes."""
    ledger = judge_all(study)
    judged = [one for rows in ledger.values() for one in rows]
    parts = [
        *_preface(study),
        "## Summary",
        *_summary(judged),
        *(part for title, rows in ledger.items() for part in _section(title, rows)),
        *_contradictions(judged),
        *_words(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _preface(study: Study) -> list[str]:
    rules = "\n".join(f"- **{name.value}**: {text}" for name, text in MEANING.items())
    return [
        "# Claims ledger",
        f"Every empirical claim of {markdown_text(PAPER)}, in our words, put to two sources by "
        "one question: **the paper** (its printed numbers) and **our run** of its protocol. Claims "
        "about Adult have a third: **closest**, our run with Adult's features read so that its "
        "figures come closest to the paper's. Definitions, proofs and norms are not here. A "
        "judgement of a claim is no judgement of the method: see [findings.md](findings.md).",
        rules,
        "**How a claim is decided.** One of nine rules turns it into numbers that lie above 0 if "
        "it is as claimed. A number that the paper prints is asked to its last digit, a word by a "
        "threshold, an interval by its ends. Each has an error: in our run from the seeds (drawn "
        "again 1,000 times, all budgets of a dataset together), in the paper from its printed "
        "interval or deviation and its last digit, and where it prints neither, that of the same "
        "number in our run. The table shows the number that speaks most clearly against the claim "
        "(or least clearly for it), its error, and the size that 4 of 5 such studies would have "
        "seen.",
        "**Whose data.** Only the paper's own records can refute a claim: other records can bear "
        "it out, and where they do not it cannot be tested here. A claim about Adult is refuted "
        "only where both readings of its features refute it.",
        "**More than a model that memorises nothing would show** means, in our run, the audit's "
        "tests ([method.md](../../docs/method.md)) with the gap as attack; where a claim says who "
        "is the more exposed, LiRA must not have the other sign. Of a printed gap it means that "
        "the mean over 50 splits exceeds what group sizes alone give, one-sided, Holm over all 72, "
        "and of a printed disparity that the gap of the group with the lower ratio does.",
        f"**Printed exceptions are no claims**: {'; '.join(EXCEPTIONS)}.",
        "\n".join(
            [f"{origin(study)} Made with `{COMMAND}`.", *map(_line, data_notes(study))]
        ),
    ]


def _line(note: str) -> str:
    return f"<br>{markdown_text(note)}"


def _summary(judged: Sequence[Judged]) -> list[str]:
    claims = [one for one in judged if not one.claim.text.slip]
    slips = [one for one in judged if one.claim.text.slip]
    columns = (
        Counter(one.paper.judgement for one in claims),
        Counter(one.run.judgement for one in claims),
        Counter(one.closest.judgement for one in claims if one.closest is not None),
    )
    rows = [
        f"| {name.value} | {' | '.join(str(column[name]) for column in columns)} |"
        for name in Judgement
    ]
    n_read = sum(columns[2].values())
    heads = ("the paper", "our run", f"closest ({n_read} about Adult)")
    table = [
        f"| {len(claims)} claims | {' | '.join(heads)} |",
        "|---|--:|--:|--:|",
        *rows,
    ]
    wrong = sum(one.paper.judgement is Judgement.FAILS for one in slips)
    return [
        "\n".join(table),
        f"Held by every source: {_keys(_by_all(claims, Judgement.HOLDS))}. Refuted by every "
        f"source: {_keys(_by_all(claims, Judgement.FAILS))}.",
        f"Left out of the count: {len(slips)} claims about a printed figure on which nothing "
        f"depends ({_keys(slips)}); {wrong} of them are slips.",
    ]


def _by_all(judged: Iterable[Judged], wanted: Judgement) -> list[Judged]:
    return [one for one in judged if {side.judgement for side in one.sides} == {wanted}]


def _keys(judged: Iterable[Judged]) -> str:
    return ", ".join(one.claim.key for one in judged) or "none"


def _section(title: str, rows: Sequence[Judged]) -> list[str]:
    head = [
        "| | claim | source | numbers | decided by | judgement |",
        "|---|---|---|---|---|---|",
    ]
    return [
        f"## {title}",
        "\n".join([*head, *(line for one in rows for line in _rows(one))]),
    ]


def _rows(one: Judged) -> list[str]:
    """One line for every source; the first names the claim."""
    lines = []
    for k, (source, side) in enumerate(zip(SOURCES, one.sides, strict=False)):
        first = (one.claim.key, _claim(one)) if k == 0 else ("", "")
        mark = _mark(one) if source == "run" else ""
        cells = (
            *first,
            f"{source}{mark}",
            markdown_text(side.figure) or NOTHING,
            _decided(side),
            _judgement(side),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _claim(one: Judged) -> str:
    text = one.claim.text
    caveat = (
        f"<br><sub>Caveat: {markdown_text(text.caveat)}</sub>" if text.caveat else ""
    )
    also = "".join(f"<br><sub>{markdown_text(note)}</sub>" for note in one.notes)
    return f"{markdown_text(text.words)}<br><sub>{markdown_text(text.place)}</sub>{caveat}{also}"


def _decided(side: Side) -> str:
    """The decisive number with its error and the size that would have been seen."""
    part = side.decisive
    if part is None:
        return NOTHING
    if part.error == 0:
        told = f"{part.write(part.estimate)}, exact"
    else:
        told = (
            f"{part.write(part.estimate)} ± {part.write(part.error).lstrip('+')}, seen from "
            f"{part.write(part.seen_from(side.n_parts)).lstrip('+')}"
        )
    of = f" (1 of {side.n_parts})" if side.n_parts > 1 else ""
    return f"{markdown_text(told)}<br><sub>{markdown_text(part.name)}{of}</sub>"


def _judgement(side: Side) -> str:
    why = f"<br><sub>{markdown_text(_sentence(side.why))}</sub>" if side.why else ""
    return f"**{side.judgement.value}**{why}"


def _mark(one: Judged) -> str:
    read = any(part.dataset in OUR_READING for part in one.claim.about)
    marks = (OTHER_DATA if one.other_data else "") + (OTHER_FEATURES if read else "")
    return f" {marks}" if marks else ""


def _words() -> list[str]:
    lines = [
        f"| {name.replace('_', ' ')} | {value:g} | {markdown_text(meaning)} |"
        for name, (value, meaning) in threshold_meanings().items()
    ]
    return [
        "## Where words had to become numbers",
        "\n".join(["| word | number | meaning |", "|---|--:|---|", *lines]),
    ]


def _sentence(text: str) -> str:
    started = f"{text[:1].upper()}{text[1:]}"
    return started if started.endswith(".") else f"{started}."


def _contradictions(judged: Sequence[Judged]) -> list[str]:
    """Claims that the paper's own figures do not bear out: matters first, then slips."""
    found = [one for one in judged if one.paper.judgement is Judgement.FAILS]
    matters = [one for one in found if not one.claim.text.slip]
    slips = [one for one in found if one.claim.text.slip]
    return [
        "## Where the paper's figures do not bear out its text",
        "Beyond the errors of the printed figures. Some are matters of wording, and the finding "
        "survives in a weaker form; the tables above say which.",
        "\n".join(_contradiction(one) for one in matters) or "None.",
        "Slips in figures on which nothing depends:",
        "\n".join(_contradiction(one) for one in slips) or "None.",
    ]


def _contradiction(one: Judged) -> str:
    told = f"{_stop(one.paper.figure)} {one.paper.why}".strip()
    return (
        f"- **{one.claim.key}** ({markdown_text(one.claim.text.place)}): "
        f"{markdown_text(one.claim.text.words)} *Printed:* {markdown_text(told)}"
    )


def _stop(text: str) -> str:
    return f"{text}." if text and not text.endswith(".") else text
