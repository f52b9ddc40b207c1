"""What becomes of a claim, given the parts that decide it and their errors?

Whatever a claim says, its rule (``rules``) turns it into parts: numbers that lie above
0 if it is as claimed. Each comes with draws of what it would have been on other splits,
and so with an error. A claim is refuted only by a part that lies below 0 beyond that
error. Called by ``ledger``, for every claim and every source.

To add a claim: a ``Claim`` in the module of its dataset (or ``whole``, ``floors``,
``attack``), and its words in ``claims.toml`` under the same key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from functools import cache, cached_property, partial
from importlib import resources
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pcer.metrics import FloatArray
from pcer.statistics import POWER_QUANTILE, SIGNIFICANCE, two_sided_p
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import Writer
from pcer_studies.protocol import OUR_READING, Configuration
from pcer_studies.published import NotThere


class Judgement(StrEnum):
    """What becomes of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_EVIDENCE = "as claimed, but no evidence"
    UNDECIDED = "not as claimed, but within the error"
    UNTESTABLE = "cannot be tested here"


ROUNDING = 1e-12
"""An error below this share of its number is the machine's."""


@dataclass(frozen=True, eq=False)
class ClaimPart:
    """One number that a claim stands or falls with.

    Attributes:
        name: which number.
        margin: (1 + draws,) how far it lies on the claimed side: as it is, then on
            other splits.
        write: the margin in print.
        about: the configurations it is from.
        is_zero: the claim is that it cannot be told from 0, which no study can bear
            out.
        interval: its own, where the claim is that this excludes 0 (or, with
            ``is_zero``, holds it).
        n_tries: of how many it was picked, which multiplies its p-value.
    """

    name: str
    margin: FloatArray
    write: Writer
    about: tuple[Configuration, ...]
    is_zero: bool = False
    interval: tuple[float, float] | None = None
    n_tries: int = 1

    @property
    def estimate(self) -> float:
        """The margin as it is."""
        return float(self.margin[0])

    @cached_property
    def error(self) -> float:
        """Its standard error; 0 where it is exact."""
        if len(self.margin) <= 2:
            return 0.0
        error = float(self.margin[1:].std(ddof=1))
        return 0.0 if error <= ROUNDING * abs(self.estimate) else error

    @cached_property
    def p_value(self) -> float:
        """Two-sided, of a margin of 0, Bonferroni over those it was picked from."""
        if self.error == 0:
            return 1.0 if self.estimate == 0 else 0.0
        p = float(two_sided_p(np.array(self.estimate), np.array(self.error)))
        return min(1.0, self.n_tries * p)

    @property
    def support(self) -> float:
        """How many errors it lies from 0 on the claimed side.

        Of what should be 0: minus those on either side.
        """
        if self.error == 0:
            return float(np.sign(self.estimate)) * np.inf if self.estimate else 0.0
        z = self.estimate / self.error
        return -abs(z) if self.is_zero else z

    @property
    def is_as_claimed(self) -> bool:
        """Whether the number (or its interval) lies where the claim says."""
        if self.interval is not None:
            low, high = self.interval
            return low <= 0 <= high if self.is_zero else low > 0
        return self.p_value > SIGNIFICANCE if self.is_zero else self.estimate > 0

    @property
    def is_borne_out(self) -> bool:
        """Whether it lies there beyond its error.

        Not being told from 0 bears out nothing.
        """
        if self.is_zero or not self.is_as_claimed:
            return False
        by_interval = self.interval is not None and self.n_tries == 1
        return by_interval or self.p_value <= SIGNIFICANCE

    @property
    def is_against(self) -> bool:
        """Whether, if it is beyond its error, it speaks against the claim."""
        return self.is_zero or self.estimate < 0

    def seen_from(self, n_parts: int) -> float:
        """The size that 4 of 5 such studies would tell from 0, among so many parts.

        (z + q) e, where z is the normal quantile that a two-sided test needs at the
        level of SIGNIFICANCE over all parts and tries, q that of the power, and e the
        error.
        """
        from scipy.special import ndtri

        tail = SIGNIFICANCE / (2 * n_parts * self.n_tries)
        z = -ndtri(tail)
        return float((z + POWER_QUANTILE) * self.error)


@dataclass(frozen=True)
class Reply:
    """What a view says to a claim: the figures, and the parts that decide it."""

    figure: str
    parts: tuple[ClaimPart, ...]
    why: str = ""


@dataclass(frozen=True)
class Support:
    """Whether the figures are more than a model that memorises nothing would show."""

    is_enough: bool
    why: str


ClaimQuestion = Callable[[View], Reply]
LuckTest = Callable[[View], Support]
Remark = Callable[[OurRun], str]


class ClaimText(NamedTuple):
    """How ``claims.toml`` puts a claim.

    Attributes:
        place: where the paper makes it.
        words: the claim in our words.
        caveat: what the paper itself says against reading too much into it.
        slip: it is about a figure that nothing depends on.
        definition: it is true by definition, and so no number can judge it.
    """

    place: str
    words: str
    caveat: str = ""
    slip: bool = False
    definition: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether it is one of the claims that are counted."""
        return not (self.slip or self.definition)


@dataclass(frozen=True)
class Claim:
    """One empirical claim of the paper.

    Attributes:
        key: short name, such as ``C3``.
        rule: the question that decides it, put to every source.
        paper: another question for the paper, or why it cannot be asked there.
        run: another question for our run, or why it cannot be asked here.
        evidence: what it needs to be more than chance; None where it is about outcomes
            or about the numbers themselves.
        about: the configurations it is about.
        also: what sharper attacks on the same models say.
    """

    key: str
    rule: ClaimQuestion | None = None
    _: KW_ONLY
    paper: ClaimQuestion | str | None = None
    run: ClaimQuestion | str | None = None
    evidence: LuckTest | None = None
    about: tuple[Configuration, ...] = ()
    also: Remark | None = None

    @property
    def text(self) -> ClaimText:
        """Words and place."""
        return ClaimText(**_texts()[self.key])


@cache
def _texts() -> dict[str, Any]:
    file = resources.files("pcer_studies.claims").joinpath("claims.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Side:
    """A claim by one source.

    Attributes:
        judgement: what becomes of it.
        figure: the numbers it was asked about, in words.
        why: what decided, in sentences.
        decisive: the part that speaks most clearly against the claim.
        n_parts: of how many parts this is one.
        by_reading: only parts about Adult, whose features had to be read, refute it.
    """

    judgement: Judgement
    figure: str
    why: str
    decisive: ClaimPart | None = None
    n_parts: int = 0
    by_reading: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim, judged by the paper's own figures and by our run."""

    claim: Claim
    paper: Side
    run: Side
    closest: Side | None = None
    notes: tuple[str, ...] = ()
    other_data: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[Side, ...]:
        """Every source that was asked."""
        if self.closest is None:
            return (self.paper, self.run)
        return (self.paper, self.run, self.closest)

    def is_by_all(self, wanted: Judgement) -> bool:
        """Whether every source that was asked comes to this judgement."""
        return all(side.judgement is wanted for side in self.sides)


HOW_READ = "how Adult's columns became features the paper says only in part"
OTHER_READING = "in another reading it is not refuted"


def judge(
    claim: Claim, paper: Paper, run: OurRun, closest: OurRun | None = None
) -> Judged:
    """Put the claim's question to every source."""
    ours = _by_run(claim, run)
    second = None
    if depends_on_reading(claim.about):
        second = None if closest is None else _by_run(claim, closest)
        ours, second = both_readings(ours, second)
    titles = (other.title for other in _other_data(claim.about, run))
    return Judged(
        claim,
        paper=by_paper(claim, paper),
        run=ours,
        closest=second,
        notes=tuple(_notes(claim, run)),
        other_data=tuple(dict.fromkeys(titles)),
    )


def depends_on_reading(about: Iterable[Configuration]) -> bool:
    """Whether any of the configurations depends on how Adult is read."""
    return any(configuration.dataset in OUR_READING for configuration in about)


def by_paper(claim: Claim, paper: Paper) -> Side:
    """By the printed figures."""
    return _answered(claim, claim.paper or claim.rule, paper, weigh)


def _by_run(claim: Claim, run: OurRun) -> Side:
    """By a run: only the paper's own records refute; others can bear a claim out."""
    question = claim.run or claim.rule
    side = _answered(claim, question, run, partial(_weigh_run, run=run))
    if side.decisive is None or side.judgement is Judgement.HOLDS:
        return side
    if side.judgement is Judgement.FAILS:
        parts = _parts(question, run)
        is_by_reading = not _refuted_by(parts, run, readings=False)
        return replace(side, by_reading=is_by_reading)

    others = _other_data(claim.about, run)
    if side.judgement is Judgement.UNTESTABLE:  # refuted, but by other records
        others = others or _other_data(_configurations(_parts(question, run)), run)
        return _untestable(side, Judgement.FAILS, _sizes(others, run))
    if others and set(others) == set(claim.about):
        return _untestable(side, side.judgement, _sizes(others, run))
    return side


def _weigh_run(parts: Sequence[ClaimPart], run: OurRun) -> Judgement:
    """What parts say together, where other records than the paper's cannot refute."""
    judgement = weigh(parts)
    if judgement is not Judgement.FAILS or _refuted_by(parts, run, readings=True):
        return judgement
    return Judgement.UNTESTABLE


def _parts(question: ClaimQuestion | str | None, run: OurRun) -> tuple[ClaimPart, ...]:
    if question is None or isinstance(question, str):
        return ()
    return question(run).parts


def _configurations(parts: Iterable[ClaimPart]) -> Iterable[Configuration]:
    return chain.from_iterable(part.about for part in parts)


def _refuted_by(parts: Sequence[ClaimPart], run: OurRun, *, readings: bool) -> bool:
    """Whether parts from the paper's own records refute.

    With ``readings`` those about Adult count, whose features had to be read.
    """
    for part in _refuting(parts):
        has_papers_data = not _other_data(part.about, run)
        if has_papers_data and (readings or not depends_on_reading(part.about)):
            return True
    return False


def _untestable(side: Side, by_ours: Judgement, because: str) -> Side:
    """The same side, which cannot be judged; its own judgement is said in words."""
    words = f"{because[:1].upper()}{because[1:]}. On ours: {by_ours.value}."
    why = f"{words} {side.why}" if side.why else words
    return replace(side, judgement=Judgement.UNTESTABLE, why=why)


def both_readings(ours: Side, second: Side | None) -> tuple[Side, Side | None]:
    """A claim about Adult is refuted only if both readings refute it."""
    if second is None:
        if ours.by_reading:
            ours = _untestable(ours, ours.judgement, HOW_READ)
        return ours, second
    because = f"{HOW_READ}; {OTHER_READING}"
    if ours.by_reading and not second.by_reading:
        return _untestable(ours, ours.judgement, because), second
    if second.by_reading and not ours.by_reading:
        return ours, _untestable(second, second.judgement, because)
    return ours, second


def _other_data(
    about: Iterable[Configuration], run: OurRun
) -> tuple[Configuration, ...]:
    """Configurations that the study has, but whose records are not the paper's."""
    others = []
    for configuration in dict.fromkeys(about):
        key = (configuration.dataset, configuration.attribute)
        if run.study.has(*key) and run.study.data_note(*key):
            others.append(configuration)
    return tuple(others)


def _sizes(others: Sequence[Configuration], run: OurRun) -> str:
    """How our records differ from the paper's, with their numbers."""
    notes = (run.study.size_note(other.dataset, other.attribute) for other in others)
    return "; ".join(dict.fromkeys(notes))


def _answered(
    claim: Claim,
    question: ClaimQuestion | str | None,
    view: View,
    weighed: Callable[[Sequence[ClaimPart]], Judgement],
) -> Side:
    """What one source says, and what follows."""
    if question is None or isinstance(question, str):
        return Side(Judgement.UNTESTABLE, "", question or "")
    try:
        reply = question(view)
        support = None if claim.evidence is None else claim.evidence(view)
    except NotThere as missing:
        return Side(Judgement.UNTESTABLE, "", str(missing))
    if not all(np.isfinite(part.margin).all() for part in reply.parts):
        why = "it divides by a figure that is 0"
        return Side(Judgement.UNTESTABLE, reply.figure, why)

    judgement = weighed(reply.parts)
    reasons = [reply.why]
    if support is not None:
        reasons.append(support.why)
        if judgement is Judgement.HOLDS and not support.is_enough:
            judgement = Judgement.NOT_EVIDENCE
    why = " ".join(filter(None, reasons))
    weakest = min(reply.parts, key=lambda part: strength([part]), default=None)
    return Side(judgement, reply.figure, why, weakest, len(reply.parts))


def weigh(parts: Sequence[ClaimPart]) -> Judgement:
    """What parts say together.

    Refuted: one lies on the other side, two-sided, Bonferroni over all. Borne out: all
    lie on the claimed side, each beyond its own error.
    """
    if _refuting(parts):
        return Judgement.FAILS
    if not all(part.is_as_claimed for part in parts):
        return Judgement.UNDECIDED
    borne_out = all(part.is_borne_out for part in parts)
    return Judgement.HOLDS if borne_out else Judgement.NOT_EVIDENCE


def _refuting(parts: Sequence[ClaimPart]) -> list[ClaimPart]:
    """Parts that lie on the other side, beyond their errors among so many."""
    limit = SIGNIFICANCE / max(len(parts), 1)
    return [part for part in parts if part.is_against and part.p_value <= limit]


def strength(parts: Iterable[ClaimPart]) -> tuple[bool, float]:
    """How clearly parts are as claimed: that of the weakest."""
    return min((part.is_as_claimed, part.support) for part in parts)


def _notes(claim: Claim, run: OurRun) -> list[str]:
    """What sharper attacks say."""
    if claim.also is None:
        return []
    try:
        return [claim.also(run)]
    except NotThere as missing:
        return [f"Not measured by a sharper attack: {missing}."]
