"""The claims ledger: every empirical claim of the paper, judged. ``docs/claims.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pcer.report import markdown_text
from pcer_studies.about_acs import CLAIMS as ACS
from pcer_studies.about_adult_race import CLAIMS as ADULT_RACE
from pcer_studies.about_adult_sex import CLAIMS as ADULT_SEX
from pcer_studies.about_agreement import CLAIMS as AGREEMENT
from pcer_studies.about_attack import CLAIMS as ATTACK
from pcer_studies.about_bios import CLAIMS as BIOS
from pcer_studies.about_compas import CLAIMS as COMPAS
from pcer_studies.about_compas_strong import CLAIMS as COMPAS_STRONG
from pcer_studies.about_floors import CLAIMS as FLOORS
from pcer_studies.about_whole import CLAIMS as WHOLE
from pcer_studies.judgement import Claim, Judged, Judgement, judge
from pcer_studies.origin import OTHER_DATA, OTHER_FEATURES, data_notes, origin
from pcer_studies.protocol import OUR_READING, PAPER
from pcer_studies.results import Study
from pcer_studies.views import OurRun, Paper

COMMAND = "python -m pcer_studies studies/paper docs"
NOTHING = "–"


@dataclass(frozen=True)
class LedgerSection:
    """Claims that stand in one table of the ledger."""

    title: str
    claims: tuple[Claim, ...]


SECTIONS = (
    LedgerSection("The whole: introduction, method, set-up, discussion", WHOLE),
    LedgerSection("Adult, race (Figure 1a, Table S4)", ADULT_RACE),
    LedgerSection("Adult, sex (Table S3)", ADULT_SEX),
    LedgerSection("COMPAS (Figure 1b, Table 1)", COMPAS),
    LedgerSection("COMPAS at ε = 0.1 (Table 1)", COMPAS_STRONG),
    LedgerSection("The floor (Table S1)", FLOORS),
    LedgerSection("ACS Income (Table 2)", ACS),
    LedgerSection("Bias in Bios (Table 3)", BIOS),
    LedgerSection("The direct attack (Tables S5 and S6)", ATTACK),
    LedgerSection("Agreement of gap and attack (Tables S5 and S6)", AGREEMENT),
)

CLAIMS = tuple(claim for section in SECTIONS for claim in section.claims)

RULES = {
    Judgement.HOLDS: "the figures are as claimed and, where the claim is about privacy cost, that "
    "cost is more than the luck of the split.",
    Judgement.FAILS: "the figures are not as claimed.",
    Judgement.NOT_EVIDENCE: "the figures are as claimed, but a model that remembers nobody would "
    "show such figures too: privacy costs that the claim rests on cannot be told from the luck of "
    "the split.",
    Judgement.UNTESTABLE: "the figures it needs are not there; the reason is given.",
}


def judge_all(study: Study) -> dict[str, list[Judged]]:
    """Every claim, judged, by the title of its section."""
    paper, run = Paper.beside(study), OurRun(study)
    return {
        section.title: [judge(claim, paper, run) for claim in section.claims]
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
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _preface(study: Study) -> list[str]:
    rules = "\n".join(f"- **{name.value}**: {text}" for name, text in RULES.items())
    return [
        "# Claims ledger",
        f"Every empirical claim of {markdown_text(PAPER)}, in our words, put to two witnesses: "
        "**the paper's own figures** (do the printed numbers bear it out?) and **our run** of its "
        "protocol. Claims that are definitions, proofs or norms are not here. Each judgement and "
        "each number is computed; the rule of a claim is code, and the reason says which. A "
        "judgement of a claim is no judgement of the method: see [findings.md](findings.md).",
        rules,
        "“More than the luck of the split” means, in our run, the audit's tests "
        "([method.md](method.md), section 5) with the overfitting gap as cost; of a printed gap, "
        "that the mean over 50 splits exceeds what group sizes alone give, one-sided, Holm over "
        "all 72, and of a printed disparity that the gap of the group with the lower ratio does. "
        "The paper's bootstrap intervals ask another question: they can exclude 0 whenever "
        "positive rates differ enough, with or without memorisation.",
        "\n".join([f"{origin(study)} Made with `{COMMAND}`.", *map(_line, data_notes(study))]),
    ]


def _line(note: str) -> str:
    return f"<br>{markdown_text(note)}"


def _summary(judged: Sequence[Judged]) -> list[str]:
    claims = [one for one in judged if not one.claim.slip]
    slips = [one for one in judged if one.claim.slip]
    same = [one for one in claims if not one.other_data]
    others = [one for one in claims if one.other_data]
    columns = (
        Counter(one.paper.judgement for one in claims),
        Counter(one.run.judgement for one in same),
        Counter(one.run.judgement for one in others),
    )
    rows = [
        f"| {name.value} | {' | '.join(str(column[name]) for column in columns)} |"
        for name in Judgement
    ]
    heads = ("the paper's own figures", "our run, the paper's records", f"our run {OTHER_DATA}")
    table = [f"| {len(claims)} claims | {' | '.join(heads)} |", "|---|--:|--:|--:|", *rows]
    wrong = sum(one.paper.judgement is Judgement.FAILS for one in slips)
    plain = [one for one in claims if {one.paper.judgement, one.run.judgement} == {Judgement.HOLDS}]
    return [
        "\n".join(table),
        f"Held by both witnesses without reserve: {_keys(plain)}.",
        f"Left out of the count: {len(slips)} claims about a printed figure on which nothing "
        f"depends ({_keys(slips)}); {wrong} of them are slips.",
    ]


def _keys(judged: Iterable[Judged]) -> str:
    return ", ".join(one.claim.key for one in judged) or "none"


def _section(title: str, rows: Sequence[Judged]) -> list[str]:
    head = ["| | claim | published | ours | judgement | why |", "|---|---|---|---|---|---|"]
    return [f"## {title}", "\n".join([*head, *map(_row, rows)])]


def _row(one: Judged) -> str:
    cells = (
        one.claim.key,
        _claim(one.claim),
        markdown_text(one.paper.figure) or NOTHING,
        markdown_text(one.run.figure) or NOTHING,
        _judgement(one),
        _why(one),
    )
    return f"| {' | '.join(cells)} |"


def _claim(claim: Claim) -> str:
    caveat = f"<br><sub>Caveat: {markdown_text(claim.caveat)}</sub>" if claim.caveat else ""
    return f"{markdown_text(claim.words)}<br><sub>{markdown_text(claim.place)}</sub>{caveat}"


def _judgement(one: Judged) -> str:
    mark = _mark(one)
    if one.paper.judgement is one.run.judgement:
        return f"**{one.run.judgement.value}**{mark}"
    return f"paper: **{one.paper.judgement.value}**<br>our run{mark}: **{one.run.judgement.value}**"


def _mark(one: Judged) -> str:
    read = any(part.dataset in OUR_READING for part in one.claim.about)
    marks = (OTHER_DATA if one.other_data else "") + (OTHER_FEATURES if read else "")
    return f" {marks}" if marks else ""


def _why(one: Judged) -> str:
    if one.paper.why == one.run.why:
        reasons = [one.run.why]
    else:
        reasons = [
            f"{name}: {side.why}"
            for name, side in (("Paper", one.paper), ("Run", one.run))
            if side.why
        ]
    told = [markdown_text(_sentence(text)) for text in (*reasons, *one.notes) if text]
    return "<br>".join(told) or NOTHING


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _contradictions(judged: Sequence[Judged]) -> list[str]:
    """Claims that the paper's own figures do not bear out: matters first, then slips."""
    found = [one for one in judged if one.paper.judgement is Judgement.FAILS]
    matters = [one for one in found if not one.claim.slip]
    slips = [one for one in found if one.claim.slip]
    return [
        "## Where the paper's figures do not bear out its text",
        "Computed from the printed figures alone; our run has no part in it, except that group "
        "sizes give the noise levels. Some are matters of wording, and the finding survives in a "
        "weaker form; the tables above say which.",
        "\n".join(_contradiction(one) for one in matters) or "None.",
        "Slips in figures on which nothing depends:",
        "\n".join(_contradiction(one) for one in slips) or "None.",
    ]


def _contradiction(one: Judged) -> str:
    told = f"{_stop(one.paper.figure)} {one.paper.why}".strip()
    return (
        f"- **{one.claim.key}** ({markdown_text(one.claim.place)}): "
        f"{markdown_text(one.claim.words)} *Printed:* {markdown_text(told)}"
    )


def _stop(text: str) -> str:
    return f"{text}." if text and not text.endswith(".") else text
