"""How is each question answered in a card?

There are three: who is easier to recognise, who is worse served, and how sure is that?
The page shows them beside each other for every setting; model cards, opinions and
tables take single answers. To add a sentence: a line of ``words.toml``, sections
``exposure_card``, ``outcomes_card`` and ``how_sure_card``, and where it is said here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from pcer.auditing.record import Audit, GroupResult, SettingResult
from pcer.auditing.sentences.certainty import doubts_about, false_alarms, how_sure
from pcer.auditing.sentences.telling import (
    MOST_GROUPS_IN_A_SENTENCE,
    WEAK,
    Telling,
    answer_of,
    attacks_run,
    is_weak,
    largest_difference,
    named_groups,
    other_attacks,
)
from pcer.measuring.plan import Verdict
from pcer.release.attack_kinds import attack_kind
from pcer.wording import capital, listed, of_100, plural_ending, say

MOST_DOUBTS = 2  # of a finding, in a card


class Card(NamedTuple):
    """A question, its answer in a few words, and sentences."""

    question: str
    answer: str
    sentences: list[str]


def exposure_card(audit: Audit, setting: SettingResult) -> Card:
    """Who is easier to recognise, and by how much."""
    answer = answer_of(setting, "exposure")
    telling = Telling(audit, setting, "exposure")
    others = other_attacks(audit, setting)

    sentences = []
    if answer == "cannot_tell":
        reason = capital(setting.reason or "no test could be made").rstrip(".")
        sentences.append(telling.say("exposure_card", "reason", reason=reason))
    else:
        sentences += _detected_sentences(telling)
    if others:
        form = "others_detect" if answer == "none_detected" else "others_differ"
        n_attacks = str(len(attacks_run(audit)))
        sentences.append(telling.say("exposure_card", form, n=n_attacks, **others))

    if answer == "differs":
        # The attack that decided need not be the one whose numbers people see.
        is_printed = audit.attack in telling.pair.exposure.shown_by
        form = "difference" if is_printed else "decided_by"
        sentences.append(telling.say("exposure_card", form))
    elif _detected(setting) and largest_difference(setting, "exposure") is not None:
        sentences.append(telling.say("exposure_card", "if_they_differ"))
    if audit.stronger_attack is not None and answer != "differs":
        stronger = attack_kind(audit.stronger_attack).phrase
        sentences.append(telling.say("exposure_card", "stronger", stronger=stronger))

    return Card(
        question=say("exposure_card", "question"),
        answer=telling.say("exposure_card", answer),
        sentences=[capital(sentence) for sentence in sentences],
    )


def _detected(setting: SettingResult) -> dict[str, GroupResult]:
    return {name: group for name, group in setting.groups.items() if group.detected}


def _detected_sentences(telling: Telling) -> Iterator[str]:
    """Who is recognised better than by a coin, and by which attack alone."""
    detected = _detected(telling.setting)
    if not detected:
        yield telling.say("exposure_card", "none")
        return

    per_success = telling.audit.attack_kind.scale.per_success or math.inf
    largest = max(group.exposure.value or 0.0 for group in detected.values())
    better = "slightly better" if per_success * largest <= WEAK else "better"
    n_groups = len(telling.setting.groups)
    if len(detected) == n_groups:
        everybody = "Both" if n_groups == 2 else f"All {n_groups} groups"
        yield telling.say("exposure_card", "all", all=everybody, better=better)
    else:
        some = listed(list(detected)[:MOST_GROUPS_IN_A_SENTENCE])
        yield telling.say("exposure_card", "some", detected=some, better=better)

    # The attack whose numbers people see may be no better than a coin for some that
    # are detected.
    attacks = {
        name: attack_kind(group.detected_by).phrase
        for name, group in detected.items()
        if not group.is_clear
        and group.detected_by is not None
        and group.detected_by != telling.audit.attack
    }
    if attacks:
        names = listed(list(attacks))
        by = listed(list(dict.fromkeys(attacks.values())))
        yield telling.say("exposure_card", "detected_by", beside=names, by=by)


def outcomes_card(audit: Audit, setting: SettingResult) -> Card:
    """Who is worse served, what was true, and who was wrongly given or denied it."""
    answer = answer_of(setting, "outcomes")
    telling = Telling(audit, setting, "outcomes")
    sentences = _truth_sentences(telling)
    if sentences and (answer != "differ" or len(setting.pairs) > 1):
        sentences.append(telling.say("outcomes_card", "order"))
    return Card(
        question=say("outcomes_card", "question"),
        answer=telling.say("outcomes_card", answer),
        sentences=sentences,
    )


def _truth_sentences(telling: Telling) -> list[str]:
    """What was true of both groups, and who was wrongly flagged or passed over."""
    outcome = telling.audit.subject.outcome
    groups = [telling.setting.groups[name] for name in telling.names]
    if outcome == "harm":
        wrong = [group.false_positive_rate.mean for group in groups]
    else:
        right = [group.true_positive_rate.mean for group in groups]
        wrong = [None if rate is None else 1 - rate for rate in right]
    true = [group.true_rate.mean for group in groups]

    truth, verb = _truth_words(telling.audit.subject.positive_means)
    sentences = []
    if None not in true:
        numbers = _against(true)
        sentences.append(
            telling.say("outcomes_card", "truth", truth=truth, numbers=numbers)
        )
    if None not in wrong:
        numbers = _against(wrong)
        sentences.append(
            telling.say("outcomes_card", outcome, verb=verb, numbers=numbers)
        )
    return sentences


def _truth_words(positive_means: str | None) -> tuple[str, str]:
    """What was true of those who are predicted so, and the verb that goes with it.

    >>> _truth_words("are predicted to be charged again")
    ('charged again', 'were')
    >>> _truth_words("are predicted to earn much"), _truth_words(None)
    (('earn much', 'do'), ('positive', 'are'))
    """
    predicted = re.match(r"are predicted to (be )?(.+)", positive_means or "")
    if predicted is None:
        return "positive", "are"
    return predicted[2], "were" if predicted[1] else "do"


def _against(rates: list[float | None]) -> str:
    return " against ".join(of_100(*(rate or 0.0 for rate in rates)))


def how_sure_card(audit: Audit, setting: SettingResult) -> Card:
    """How often made-up groups raise the alarm, and what else the finding rests on."""
    alarms = false_alarms(setting)
    if alarms is None:
        answer = say("how_sure_card", "unchecked")
    else:
        ending = plural_ending(alarms.n)
        answer = say(
            "how_sure_card", "checked", n=alarms.n, s=ending, n_draws=alarms.n_draws
        )

    doubts = []
    for pair in setting.pairs:
        doubts += doubts_about(audit, pair)
    sentences = [*how_sure(audit, setting)[:2], *doubts[:MOST_DOUBTS]]
    if len(doubts) > MOST_DOUBTS:
        sentences.append(say("how_sure_card", "more"))
    return Card(say("how_sure_card", "question"), answer, sentences)


def badge(audit: Audit, setting: SettingResult) -> str:
    """The verdict in a few words, with the groups that it names."""
    double = named_groups(setting, "double_disadvantage")
    telling = Telling(audit, setting, "exposure")
    return telling.say("badge", _badge_form(audit, setting), double=double)


def _badge_form(audit: Audit, setting: SettingResult) -> str:
    verdict = setting.verdict
    if verdict is Verdict.RATIO_DIFFERS:
        ratios = [pair.ratio for pair in setting.pairs if pair.ratio.group is not None]
        if {ratio.driven_by for ratio in ratios} == {"outcomes"}:
            return "ratio_differs_outcomes"
    if verdict is Verdict.NO_DIFFERENCE_SHOWN and other_attacks(audit, setting):
        return "others"
    if not verdict.is_alarm and is_weak(audit, setting):
        return "weak"
    return verdict.value
