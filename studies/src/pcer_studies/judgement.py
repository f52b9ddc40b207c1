"""A claim, the questions that decide it, and the judgement that follows from the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pcer_studies.protocol import Configuration
from pcer_studies.published import NotThere
from pcer_studies.views import OurRun, Paper, View


class Judgement(StrEnum):
    """What becomes of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_EVIDENCE = "holds but is not evidence (not resolved)"
    UNTESTABLE = "cannot be tested with this data"


@dataclass(frozen=True)
class Reply:
    """What a view says to a claim: the figures, whether they bear it out, and why."""

    figure: str
    holds: bool
    why: str = ""


@dataclass(frozen=True)
class Support:
    """Whether figures that bear a claim out are more than the luck of the split."""

    enough: bool
    why: str


Test = Callable[[View], Reply]
RunTest = Callable[[OurRun], Reply]
LuckTest = Callable[[View], Support]
Remark = Callable[[OurRun], str]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One empirical claim of the paper.

    Attributes:
        key: short name, such as ``C3``.
        place: where the paper makes it.
        words: the claim in our words.
        test: the question that decides it, asked of the paper's figures and of our run.
        paper: another question for the paper, or why it cannot be asked there.
        run: another question for our run, or why it cannot be asked here.
        evidence: what it needs to be more than split luck; None where it is about outcomes or
            about the numbers themselves.
        caveat: what the paper itself says against reading too much into it.
        about: the configurations it is about.
        also: what sharper costs of the same run say.
        slip: it is about a figure that nothing depends on.
    """

    key: str
    place: str
    words: str
    test: Test | None = None
    paper: Test | str | None = None
    run: RunTest | str | None = None
    evidence: LuckTest | None = None
    caveat: str = ""
    about: tuple[Configuration, ...] = ()
    also: Remark | None = None
    slip: bool = False


@dataclass(frozen=True)
class Side:
    """A claim in one view."""

    judgement: Judgement
    figure: str
    why: str


@dataclass(frozen=True)
class Judged:
    """A claim, judged by the paper's own figures and by our run.

    Attributes:
        claim: what was judged.
        paper: by the paper's own figures.
        run: by our run.
        notes: what sharper costs of our run say.
        other_data: titles of the datasets it is about whose records are not the paper's.
    """

    claim: Claim
    paper: Side
    run: Side
    notes: tuple[str, ...] = ()
    other_data: tuple[str, ...] = ()


def judge(claim: Claim, paper: Paper, run: OurRun) -> Judged:
    """Put the claim's questions to both views."""
    return Judged(
        claim,
        paper=_side(claim, claim.paper or claim.test, paper),
        run=_side(claim, claim.run or claim.test, run),
        notes=tuple(_notes(claim, run)),
        other_data=_other_data(claim, run),
    )


def _other_data(claim: Claim, run: OurRun) -> tuple[str, ...]:
    there = [one for one in claim.about if run.study.has(one.dataset, one.attribute)]
    noted = [one for one in there if run.study.data_note(one.dataset, one.attribute)]
    return tuple(dict.fromkeys(one.title for one in noted))


def _side(claim: Claim, question: Callable[..., Reply] | str | None, view: Paper | OurRun) -> Side:
    if question is None or isinstance(question, str):
        return Side(Judgement.UNTESTABLE, "", question or "")
    try:
        reply = question(view)
        if not reply.holds:
            return Side(Judgement.FAILS, reply.figure, reply.why)
        support = claim.evidence(view) if claim.evidence else None
    except NotThere as missing:
        return Side(Judgement.UNTESTABLE, "", str(missing))
    except ZeroDivisionError:
        return Side(Judgement.UNTESTABLE, "", "it divides by a figure that is 0")
    if support is None:
        return Side(Judgement.HOLDS, reply.figure, reply.why)
    judgement = Judgement.HOLDS if support.enough else Judgement.NOT_EVIDENCE
    return Side(judgement, reply.figure, " ".join(filter(None, (reply.why, support.why))))


def _notes(claim: Claim, run: OurRun) -> list[str]:
    """What sharper costs say."""
    if claim.also is None:
        return []
    try:
        return [claim.also(run)]
    except NotThere as missing:
        return [f"Not measured by a sharper cost: {missing}."]
