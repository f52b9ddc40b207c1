"""How are the largest answers said in at most 40 words?

``headline`` is the sentence that every output begins with: exposure and errors, the
larger finding first. Quoted alone it misleads nobody: an error rate begins with its
denominator, no rate stands without what was true, no success without the coin, and a
file that is too weak says so first. To add a form: a line of ``words.toml``, section
``head``, and its branch here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from pcer.auditing.answers import EasierPair, Served, ServedPair
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.predicted import means, predicted_in
from pcer.auditing.sentences.rows import adverb
from pcer.auditing.sentences.serving import rate_phrase
from pcer.auditing.sentences.spotting import is_by_one, success_range
from pcer.auditing.sentences.subject import others_of, people_of
from pcer.auditing.sentences.telling import (
    answers_of,
    lacks_sizes,
    other_attacks,
)
from pcer.measuring.plan import POSITIVE_RATE
from pcer.measuring.sizes import Level
from pcer.wording import capital, decimals, of_100, plural_ending, say

MOST_WORDS = 40  # of a headline, a group's name counting as one


def headline(audit: Audit, setting: SettingResult) -> str:
    """The answers in the order of their size, in the longest form of 40 words."""
    exposures = exposure_sentences(audit, setting)
    served = serving_sentences(audit, setting)
    sentences = ""
    for serving, exposure in product(served, exposures):
        parts = [serving, exposure]
        if _begins_with_exposure(setting):
            parts.reverse()
        sentences = capital(" ".join(parts))
        if n_words(sentences, audit.subject.groups) <= MOST_WORDS:
            break
    return sentences


def n_words(text: str, names: Sequence[str]) -> int:
    """Words of a text, a group's name counting as one.

    >>> n_words("Old men get less: 9 of 100.", ["old men"])
    6
    """
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), "X", text, flags=re.IGNORECASE)
    return len(text.split())


def _begins_with_exposure(setting: SettingResult) -> bool:
    """Whether exposure has the larger finding, or the file cannot tell about it."""
    answer = answers_of(setting)
    if answer.spotting.answer is Level.CANNOT_TELL or not answer.found:
        return True
    return answer.found[0].finding in ("spotting", "exposure")


# Exposure


def exposure_sentences(audit: Audit, setting: SettingResult) -> list[str]:
    """How well anybody is spotted, who is easier to spot; the longest form first."""
    level = answers_of(setting).spotting.answer
    if level is Level.CANNOT_TELL:
        return [_cannot_tell(audit, setting)]
    if level is Level.NOT_DETECTED:
        return _not_detected(audit, setting)
    how_well = _how_well(setting)
    clauses = [*_difference_clauses(audit, setting)]
    return [f"{how_well}{clause}." for clause in clauses]


def _cannot_tell(audit: Audit, setting: SettingResult) -> str:
    spotting = answers_of(setting).spotting
    if _only_lacks_sizes(audit, setting):
        return say("head", "no_sizes")
    if other_attacks(audit, setting):
        return say("head", "others_detect")
    if spotting.why == "stronger_attack":
        return say("head", "weak")
    highs = [group.interval[1] for group in spotting.groups if group.interval]
    if spotting.why == "bound" and highs:
        return say("head", "may_be_high", at_most=decimals(max(highs), 1))
    return say("head", "cannot_tell")


def _only_lacks_sizes(audit: Audit, setting: SettingResult) -> bool:
    """Whether sizes are all that is missing: nothing in the file contradicts itself."""
    contradictions = [finding for finding in audit.declarations if finding.caps_verdict]
    return lacks_sizes(setting) and not contradictions


def _not_detected(audit: Audit, setting: SettingResult) -> list[str]:
    groups = answers_of(setting).spotting.groups
    brief = say("head", "not_detected_brief")
    if other_attacks(audit, setting):
        return [say("head", "others_detect")]
    highs = [group.interval[1] for group in groups if group.interval]
    if not highs:
        return [brief]
    at_most = decimals(max(highs), 1)
    return [say("head", "not_detected", at_most=at_most), brief]


def _how_well(setting: SettingResult) -> str:
    """How often an attacker is right; barely is said without a number."""
    spotting = answers_of(setting).spotting
    known = [group for group in spotting.groups if group.success is not None]
    if spotting.answer is Level.BARELY or not known:
        return say("head", "barely")
    words = success_range(known, is_ranked=spotting.is_ranked)
    return say("head", "picks", range=words)


def _difference_clauses(audit: Audit, setting: SettingResult) -> Iterator[str]:
    """Who is easier to spot, in the clause that names the group; shorter ones last."""
    answer = answers_of(setting).easier
    if answer.answer != "yes":
        if other_attacks(audit, setting):
            yield say("head", "others_differ")
        elif answer.why is not None:
            yield say("head", "weak_difference")
        yield say("head", "no_difference")
        yield ""
        return
    pair = answer.pairs[0]
    differing = [one for one in answer.pairs if one.answer == "differs"]
    n_more = len(differing) - 1
    if n_more:
        more = say("head", "more", n=n_more, s=plural_ending(n_more))
        yield _easier(pair, people_of(audit.subject.people, pair.groups[0])) + more
    yield _easier(pair, people_of(audit.subject.people, pair.groups[0]))
    yield _easier(pair, pair.groups[0])
    if answers_of(setting).spotting.answer is not Level.BARELY:
        yield ""  # the groups are named in their order already


def _easier(pair: EasierPair, who: str) -> str:
    form = "differs_by_one" if is_by_one(pair) else "differs"
    return say("head", form, who=who, size=adverb(pair.size))


# Errors and rates


def serving_sentences(audit: Audit, setting: SettingResult) -> list[str]:
    """Who is wrongly judged more often, or else who gets the prediction more often."""
    answer = answers_of(setting).served
    groups = {group.group: group for group in answer.groups}
    errors = answer.wrongly[0]
    rates = answer.rates[0]
    if errors.answer == "differ":
        return [*_error_sentences(audit, errors, groups)]
    if rates.answer == "differ":
        return [*_rate_sentences(audit, rates, groups)]
    if _only_lacks_sizes(audit, setting):
        known = [group.rate for group in answer.groups if group.rate is not None]
        ends = of_100(min(known), max(known))
        return [say("head", "rates_without_sizes", range=" to ".join(ends))]
    if "cannot_tell" in (errors.answer, rates.answer):
        return [say("head", "serving_cannot_tell")]
    if rates.answer == "not_given":
        return [say("head", "not_given")]
    return [say("head", "not_shown")]


def _error_sentences(
    audit: Audit, pair: ServedPair, groups: dict[str, Served]
) -> Iterator[str]:
    """An error rate begins with its denominator."""
    said = predicted_in(audit)
    is_harm = audit.subject.prediction_is == "harm"
    first, second = (groups[name] for name in pair.groups)
    one, two = of_100(first.wrongly or 0.0, second.wrongly or 0.0)
    for people in (audit.subject.people, None):
        yield say(
            "head",
            "wrongly",
            who=people_of(people, first.group),
            others=others_of(people, second.group),
            of_whom=said.those_who_were_not if is_harm else said.those_who_were,
            what=said.wrongly if is_harm else said.missed,
            one=one,
            two=two,
        )
    phrase = say(
        "serving", f"wrongly_{audit.subject.prediction_is}", size=adverb(pair.size)
    )
    yield say("head", "without_numbers", who=first.group, phrase=phrase)


def _rate_sentences(
    audit: Audit, pair: ServedPair, groups: dict[str, Served]
) -> Iterator[str]:
    """A rate stands beside what was true."""
    first, second = (groups[name] for name in pair.groups)
    one, two = of_100(first.rate or 0.0, second.rate or 0.0)
    said = predicted_in(audit)
    kind = audit.plan.benefit_kind
    for people in (audit.subject.people, None):
        words = {
            "who": people_of(people, first.group),
            "others": others_of(people, second.group),
            "one": one,
            "two": two,
        }
        if kind.name != POSITIVE_RATE:
            yield capital(say("head", "rate_of", share=kind.share, **words))
        elif first.were is None or second.were is None:
            yield say("head", "rate_alone", means=means(audit), **words)
        else:
            was_one, was_two = of_100(first.were, second.were)
            truth = {"truth": said.truth, "was_one": was_one, "was_two": was_two}
            yield capital(
                say("head", "rate", predicted=said.positive, **truth, **words)
            )
    phrase = rate_phrase(audit).format(size=adverb(pair.size))
    yield say("head", "without_numbers", who=first.group, phrase=phrase)
