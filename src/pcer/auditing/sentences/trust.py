"""How far can a setting's answers be trusted?

``less_evidence`` stands before all else: what the file lacks although its splits allow
it. ``trust_row`` is the last row of every screen: what chance alone would give, by
made-up groups; what was withdrawn; what rests on the trainer's word. To add a sentence:
a line of ``words.toml``, section ``trust``, and where it is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcer.auditing.answers import TrustAnswer
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.rows import Row
from pcer.auditing.sentences.telling import answers_of
from pcer.release.attack_kinds import attack_kind
from pcer.wording import capital, listed, say

# Findings that undermine no test, and leave less to test.
LESS: Final = ("missing_runs", "split_names", "attack_rows", "same_tables")
MOST_REASONS = 2  # of withdrawn findings and contradictions, in a row


def less_evidence(audit: Audit) -> list[str]:
    """One sentence of all that the file lacks, or []."""
    what = []
    if audit.stronger_attack is not None:
        attack = attack_kind(audit.stronger_attack).phrase
        what.append(say("trust", "less_attack", attack=attack))
    found = {one.check for one in audit.declarations if not one.caps_verdict}
    what += [say("trust", f"less_{check}") for check in LESS if check in found]
    return [say("trust", "less", what=listed(what))] if what else []


def trust_row(audit: Audit, setting: SettingResult) -> Row:
    """How likely chance is, and what nobody but the trainer can know."""
    answer = answers_of(setting).trust
    figures = [*_made_up(setting, answer), *_withdrawn(answer)]
    on_splits = "not_checked" if _is_random(audit) else "not_checked_splits"
    figures.append(say("trust", on_splits))
    return Row(say("question", "trust"), _answer_words(audit, answer), figures)


def _is_random(audit: Audit) -> bool:
    return audit.subject.split_kind == "random"


def _answer_words(audit: Audit, answer: TrustAnswer) -> str:
    if answer.answer == "contradicted":
        return say("trust", "contradicted")
    if not _is_random(audit):
        return say("trust", "not_random")
    made_up = answer.made_up
    if answer.answer == "chance_unlikely":
        is_usual = made_up is None or made_up.n <= made_up.n_expected
        return say("trust", "chance_unlikely" if is_usual else "chance_possible")
    return say("trust", answer.answer)


def _made_up(setting: SettingResult, answer: TrustAnswer) -> Iterator[str]:
    """How many made-up groups raise the finding, and how many may."""
    made_up = answer.made_up
    if made_up is None:
        yield say("trust", "lacking")
        return
    counts = {"n": made_up.n, "n_draws": made_up.n_draws, "most": made_up.n_expected}
    if made_up.finding == "any":
        yield say("trust", "any_alarm", **counts)
        return
    what = say("trust", f"the_{made_up.finding}")
    if made_up.attack is not None:
        what += f" ({attack_kind(made_up.attack).label})"
    ending = "s" if made_up.n == 1 else ""  # of the verb
    yield say("trust", "finding", what=what, s=ending, **counts)


def _withdrawn(answer: TrustAnswer) -> Iterator[str]:
    """Contradictions, and findings that do not count, with their reasons."""
    yield from answer.contradictions[:MOST_REASONS]
    for one in answer.withdrawn[:MOST_REASONS]:
        what = capital(say("trust", f"the_{one.finding}"))
        groups = listed(one.groups)
        reason = one.reason.rstrip(".")
        yield say("trust", "withdrawn", what=what, groups=groups, reason=reason)
