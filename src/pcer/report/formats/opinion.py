"""What would an auditor write: scope, checks, findings, bounds, limits, questions?

``pcer audit --opinion`` and ``Audit.opinion`` call this file. The opinion is plain
Markdown with headings, paragraphs and simple tables, which word processors take as it
is (``pandoc opinion.md -o opinion.docx``). Every sentence and number comes from the
audit, so that both answers are those of every other output.

``templates/opinion.md`` says what stands where, the section ``opinion`` of
``words.toml`` has the sentences. To add a part: a field of ``Opinion``, and its place
in the template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple

from pcer import wording
from pcer.auditing import sentences
from pcer.auditing.record import Audit, BudgetResult, Difference
from pcer.auditing.sentences import Sentences, telling
from pcer.auditing.sentences.cards import Card
from pcer.files import as_shown
from pcer.release.attack_kinds import ACCURACY, Scale, attack_kind
from pcer.report.formats.markdown import markdown_text, pipe_table
from pcer.report.pictures.axis import environment
from pcer.report.table import Table
from pcer.report.tables import background, finding

MOST_SETTINGS: Final = 12  # with a row of findings each
SPLIT_NOTE: Final = "train/test split"  # stands among the limits, not the findings
ENTITIES: Final = {"&lt;": "\\<", "&gt;": "\\>", "&amp;": "\\&"}

_say = partial(wording.say, "opinion")


class Answers(NamedTuple):
    """Both answers in a setting, and its verdict."""

    setting: str
    exposure: str
    outcomes: str
    verdict: str


class Bounds(NamedTuple):
    """The most by which two groups may differ."""

    groups: str
    exposure: str
    outcomes: str


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """The parts of an opinion, in their order: sentences, and rows of its tables."""

    title: str
    scope: list[str]
    release_sha256: str
    beside: list[str]
    plan_sha256: str
    checked: list[str]
    taken_on_trust: list[str]
    answers: list[Answers]
    numbers: str
    findings: list[str]
    bounds: list[Bounds]
    bound_note: str
    limits: list[str]
    to_ask: list[str]


def to_opinion(audits: Sequence[Audit]) -> str:
    """The opinion on each release, one after the other; some 500 words at most each."""
    page = environment().get_template("opinion.md")
    parts = []
    for audit in map(as_shown, audits):
        parts.append(page.render(opinion=_opinion(audit), say=_say, text=markdown_text))
    text = "\n".join(parts)
    for entity, escaped in ENTITIES.items():  # no HTML, which Word would show
        text = text.replace(entity, escaped)
    return text


def _opinion(audit: Audit) -> Opinion:
    settings = background.least_private_first(audit)
    caps_verdict = any(declaration.caps_verdict for declaration in audit.declarations)
    said = sentences.of(audit, audit.told)
    return Opinion(
        title=_say("title", subject=background.subject_name(audit)),
        scope=_scope(audit),
        release_sha256=audit.release_sha256,
        beside=_beside(audit),
        plan_sha256=audit.plan_sha256,
        checked=[_say("computed"), *(_contradictions(audit) or _agreements(audit))],
        taken_on_trust=_taken_on_trust(audit, said.how_sure),
        answers=list(map(_answers, settings[:MOST_SETTINGS])),
        numbers=pipe_table(_numbers_table(audit)).strip(),
        findings=_findings(audit, said),
        bounds=list(_bounds(audit)),
        bound_note=_say("no_bounds" if caps_verdict else "bound_note"),
        limits=_limits(audit, said),
        to_ask=_to_ask(audit, said.how_sure) or [_say("ask_nothing")],
    )


def _beside(audit: Audit) -> list[str]:
    """Digests of the releases that the audit was judged together with."""
    return [digest for digest in audit.family if digest != audit.release_sha256]


def _scope(audit: Audit) -> list[str]:
    subject = audit.subject
    groups = wording.listed(subject.groups)
    sentences = [_say("subject", about=subject, groups=groups)]
    if subject.n_records is not None:
        who = subject.people or "people"
        sentences.append(_say("people", n=f"{subject.n_records:,}", who=who))
    settings = ", ".join(background.setting_labels(audit))
    return [*sentences, _say("settings", settings=settings)]


def _contradictions(audit: Audit) -> list[str]:
    return [declaration.sentence for declaration in audit.declarations]


def _agreements(audit: Audit) -> list[str]:
    """What the audit says of counts that agree, or that are not there."""
    names = ("consistent", "no_counts")
    sentences = [wording.say("how_sure", name) for name in names]
    return [sentence for sentence in sentences if sentence in audit.trust]


def _taken_on_trust(audit: Audit, how_sure: Card) -> list[str]:
    """What only the trainer knows."""
    sentences = [_say("counts"), _say("random" if _is_random(audit) else "not_random")]
    if any(setting.epsilon is not None for setting in audit.budgets):
        sentences.append(_say("epsilon"))
    if _has_placebo(how_sure):
        sentences.append(_say("placebo", checked=how_sure.answer))
    return sentences


def _is_random(audit: Audit) -> bool:
    return audit.subject.split_kind == "random"


def _has_placebo(how_sure: Card) -> bool:
    """Whether the finding was checked with made-up groups."""
    return how_sure.answer != wording.say("how_sure_card", "unchecked")


def _answers(setting: BudgetResult) -> Answers:
    return Answers(
        setting=background.setting_of(setting),
        exposure=_answer(setting, "exposure"),
        outcomes=_answer(setting, "outcomes"),
        verdict=setting.verdict.words,
    )


def _answer(setting: BudgetResult, axis: Literal["exposure", "outcomes"]) -> str:
    """An answer, with the groups that it is about, as Markdown."""
    answer = telling.answer_of(setting, axis).replace("_", " ")
    groups = setting.named_by(axis)
    if not groups:
        return answer
    return f"{answer}: {markdown_text(wording.listed(groups))}".strip()


def _numbers_table(audit: Audit) -> Table:
    scale = audit.proxy.scale
    note = _say("table", attack=audit.proxy.label, coin=scale.coin)
    return replace(finding.finding_table(audit, most_rows=finding.FEW_ROWS), note=note)


def _findings(audit: Audit, said: Sentences) -> list[str]:
    """What the cards say beside their answers and what stands elsewhere."""
    setting = audit.told
    exposure = said.exposure.sentences
    is_detected = any(group.resolved for group in setting.groups.values())
    if is_detected and telling.answer_of(setting, "exposure") != "cannot_tell":
        exposure = exposure[1:]
    elsewhere = _contradictions(audit)
    return [
        sentence
        for sentence in (*exposure, *said.how_sure.sentences[1:])
        if sentence not in elsewhere and SPLIT_NOTE not in sentence
    ]


def _bounds(audit: Audit) -> Iterator[Bounds]:
    for pair in audit.told.pairs[: finding.FEW_ROWS]:
        yield Bounds(
            groups=wording.listed(pair.groups),
            exposure=_bound(pair.exposure.difference, audit.proxy.scale),
            outcomes=_bound(pair.outcomes.difference, ACCURACY),
        )


def _bound(difference: Difference, scale: Scale) -> str:
    bound = difference.upper_bound
    if bound is None:
        return wording.NOTHING
    return f"{scale.difference(bound)} {scale.points}"


def _limits(audit: Audit, said: Sentences) -> list[str]:
    return [
        *(sentence for sentence in said.certainty if SPLIT_NOTE in sentence),
        audit.choice,
        *background.left_out(audit),
        wording.say("account", "not_measured"),
    ]


def _to_ask(audit: Audit, how_sure: Card) -> list[str]:
    """What the reader should ask the trainer for."""
    questions = []
    if audit.declarations:
        questions.append(_say("ask_contradiction"))
    if not _is_random(audit):
        questions.append(_say("ask_random"))
    if not _has_placebo(how_sure):
        questions.append(_say("ask_placebo"))
    if audit.stronger_attack is not None:
        attack = attack_kind(audit.stronger_attack)
        questions.append(_say("ask_attack", attack=attack.label))
    return [*questions, *audit.next_steps]
