"""A claim, the parts that decide it, and the judgement that follows from parts and errors.

Whatever a claim says, its rule (``rules``) turns it into parts: numbers that lie above
0 if it is as claimed. Each comes with draws of what it would have been on other splits,
and so with an error. A claim is refuted only by a part that lies below 0 beyond that
error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from pcer.metrics import FloatArray
from pcer.statistics import POWER_QUANTILE, SIGNIFICANCE, two_sided_p
from pcer_studies.claims.views import OurRun, Paper, View
from pcer_studies.protocol import OUR_READING, Configuration
from pcer_studies.published import NotThere


class Judgement(StrEnum):
    """What becomes of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_EVIDENCE = "as claimed, but no evidence"
    UNDECIDED = "not as claimed, but within the error"
    UNTESTABLE = "cannot be tested here"


Writer = Callable[[float], str]
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
        """Two-sided, of the margin being 0, Bonferroni over those it was picked from."""
        if self.error == 0:
            return 1.0 if self.estimate == 0 else 0.0
        p = float(two_sided_p(np.array(self.estimate), np.array(self.error)))
        return min(1.0, self.n_tries * p)

    @property
    def support(self) -> float:
        """Errors from 0 on the claimed side; of what should be 0, minus those on either."""
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
        """Whether it lies there beyond its error; not being told from 0 bears out nothing."""
        if self.is_zero or not self.is_as_claimed:
            return False
        by_interval = self.interval is not None and self.n_tries == 1
        return by_interval or self.p_value <= SIGNIFICANCE

    @property
    def is_against(self) -> bool:
        """Whether, if it is beyond its error, it speaks against the claim."""
        return self.is_zero or self.estimate < 0

    def seen_from(self, n_parts: int) -> float:
        """The size that 4 of 5 such studies would have told from 0, among so many parts."""
        from scipy.special import ndtri

        limit = SIGNIFICANCE / (2 * n_parts * self.n_tries)
        return float((-ndtri(limit) + POWER_QUANTILE) * self.error)


@dataclass(frozen=True)
class Reply:
    """What a view says to a claim: the figures, and the parts that decide it."""

    figure: str
    parts: tuple[ClaimPart, ...]
    why: str = ""


@dataclass(frozen=True)
class Support:
    """Whether figures that bear a claim out are beyond what nothing memorised would show."""

    enough: bool
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
    """

    place: str
    words: str
    caveat: str = ""
    slip: bool = False


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
    """A claim by one source."""

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
        return (self.paper, self.run, *([self.closest] if self.closest else []))


def judge(
    claim: Claim, paper: Paper, run: OurRun, closest: OurRun | None = None
) -> Judged:
    """Put the claim's question to every source."""
    ours = _by_run(claim, run)
    second = None
    if is_read(claim):
        second = None if closest is None else _by_run(claim, closest)
        ours, second = both_readings(ours, second)
    return Judged(
        claim,
        paper=by_paper(claim, paper),
        run=ours,
        closest=second,
        notes=tuple(_notes(claim, run)),
        other_data=tuple(dict.fromkeys(one.title for one in _others(claim.about, run))),
    )


def is_read(claim: Claim) -> bool:
    """Whether it depends on how Adult is read."""
    return any(one.dataset in OUR_READING for one in claim.about)


def by_paper(claim: Claim, paper: Paper) -> Side:
    """By the printed figures."""
    return _answered(claim, claim.paper or claim.rule, paper, weigh)


def _by_run(claim: Claim, run: OurRun) -> Side:
    """By a run: only the paper's own records refute; others can bear a claim out."""

    def weighed(parts: Sequence[ClaimPart]) -> Judgement:
        found = weigh(parts)
        if found is Judgement.FAILS and not _refuted_by(parts, run, readings=True):
            return Judgement.UNTESTABLE
        return found

    side = _answered(claim, claim.run or claim.rule, run, weighed)
    if side.judgement is Judgement.FAILS and side.decisive is not None:
        return replace(
            side, by_reading=not _refuted_by(_asked(claim, run), run, readings=False)
        )
    others = _others(claim.about, run)
    only_others = bool(claim.about) and set(others) == set(claim.about)
    if side.decisive is None or side.judgement is Judgement.HOLDS:
        return side
    if side.judgement is Judgement.UNTESTABLE or only_others:
        told = (
            Judgement.FAILS
            if side.judgement is Judgement.UNTESTABLE
            else side.judgement
        )
        from_parts = [one for part in _asked(claim, run) for one in part.about]
        return _untestable(side, told, _sizes(others or _others(from_parts, run), run))
    return side


def _asked(claim: Claim, run: OurRun) -> Sequence[ClaimPart]:
    question = claim.run or claim.rule
    return () if question is None or isinstance(question, str) else question(run).parts


def _refuted_by(parts: Sequence[ClaimPart], run: OurRun, *, readings: bool) -> bool:
    """Whether parts from the paper's own records refute."""
    return any(_is_papers(part, run, readings=readings) for part in _refuting(parts))


def _is_papers(part: ClaimPart, run: OurRun, *, readings: bool) -> bool:
    read = any(one.dataset in OUR_READING for one in part.about)
    return not _others(part.about, run) and (readings or not read)


def _untestable(side: Side, told: Judgement, because: str) -> Side:
    words = f"{because[:1].upper()}{because[1:]}. On ours: {told.value}."
    return replace(
        side,
        judgement=Judgement.UNTESTABLE,
        why=" ".join(filter(None, (words, side.why))),
    )


def both_readings(ours: Side, second: Side | None) -> tuple[Side, Side | None]:
    """A claim about Adult is refuted where both readings refute it, and by neither alone."""
    fails = [side is not None and side.by_reading for side in (ours, second)]
    if fails[0] and not fails[1]:
        ours = _untestable(
            ours, ours.judgement, READ if second is None else f"{READ}; {OTHER}"
        )
    if second is not None and fails[1] and not fails[0]:
        second = _untestable(second, second.judgement, f"{READ}; {OTHER}")
    return ours, second


READ = "how Adult's columns became features the paper says only in part"
OTHER = "in another reading it is not refuted"


def _others(about: Iterable[Configuration], run: OurRun) -> tuple[Configuration, ...]:
    """Configurations whose records are not the paper's."""
    there = [
        one for one in dict.fromkeys(about) if run.study.has(one.dataset, one.attribute)
    ]
    return tuple(
        one for one in there if run.study.data_note(one.dataset, one.attribute)
    )


def _sizes(others: Sequence[Configuration], run: OurRun) -> str:
    """How our records differ from the paper's, with their numbers."""
    told = dict.fromkeys(
        run.study.size_note(one.dataset, one.attribute) for one in others
    )
    return "; ".join(told)


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
        support = claim.evidence(view) if claim.evidence else None
    except NotThere as missing:
        return Side(Judgement.UNTESTABLE, "", str(missing))
    if not all(np.isfinite(part.margin).all() for part in reply.parts):
        return Side(
            Judgement.UNTESTABLE, reply.figure, "it divides by a figure that is 0"
        )
    found = weighed(reply.parts)
    if found is Judgement.HOLDS and support is not None and not support.enough:
        found = Judgement.NOT_EVIDENCE
    why = " ".join(filter(None, (reply.why, support.why if support else "")))
    weakest = min(reply.parts, key=lambda part: strength([part]), default=None)
    return Side(found, reply.figure, why, weakest, len(reply.parts))


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
    limit = SIGNIFICANCE / max(len(parts), 1)
    return [part for part in parts if part.is_against and part.p_value <= limit]


def strength(parts: Iterable[ClaimPart]) -> tuple[bool, float]:
    """How clearly parts are as claimed: that of the weakest."""
    return min((part.is_as_claimed, part.support) for part in parts)


def _notes(claim: Claim, run: OurRun) -> list[str]:
    """What sharper costs say."""
    if claim.also is None:
        return []
    try:
        return [claim.also(run)]
    except NotThere as missing:
        return [f"Not measured by a sharper cost: {missing}."]
