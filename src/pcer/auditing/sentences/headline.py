"""How are both answers said in at most 30 words, and the verdict in a few?

``headline`` is the sentence that every output begins with: exposure first, then
outcomes. ``badge`` stands beside it. To add a form: a line of ``words.toml``, sections
``exposure``, ``outcomes`` (or the benefit's own) or ``badge``, and its branch here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.telling import (
    Telling,
    answer_of,
    is_weak,
    lacks_sizes,
    named_groups,
    other_attacks,
)
from pcer.measuring.plan import POSITIVE_RATE, Verdict
from pcer.wording import capital

MOST_WORDS = 30  # of a headline, a group's name counting as one


def headline(audit: Audit, setting: SettingResult) -> str:
    """Both answers in the longest form of 30 words; exposure is shortened first."""
    exposures = exposure_sentences(audit, setting)
    for outcome in outcome_sentences(audit, setting):
        for exposure in exposures:
            sentences = f"{exposure} {outcome}"
            if n_words(sentences, audit.subject.groups) <= MOST_WORDS:
                return sentences
    return sentences


def n_words(text: str, names: Sequence[str]) -> int:
    """Words of a text, a group's name counting as one.

    >>> n_words("Old men get less: 9 of 100.", ["old men"])
    6
    """
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), "X", text, flags=re.IGNORECASE)
    return len(text.split())


def exposure_sentences(audit: Audit, setting: SettingResult) -> list[str]:
    """The exposure half of the headline, the longest form first."""
    answer = answer_of(setting, "exposure")
    telling = Telling(audit, setting, "exposure")
    if answer == "differs":
        # Where only the other attack shows it, the printed numbers need not differ.
        is_printed = audit.attack in telling.pair.exposure.shown_by
        forms = ["differs", "differs_brief"] if is_printed else ["differs_by"]
        sentences = [telling.say("exposure", form) for form in [*forms, "differs_bare"]]
        plain = replace(telling, is_plain=True)
        sentences.append(plain.say("exposure", "differs_bare"))
        return [capital(sentence) for sentence in sentences]

    if answer == "cannot_tell" and _only_lacks_sizes(audit, setting):
        return [telling.say("exposure", "no_sizes")]
    others = other_attacks(audit, setting)
    is_too_weak = is_weak(audit, setting)
    if others:
        kind = "others_detect" if answer == "none_detected" else "others_differ"
        forms = [kind, f"{kind}_bare"]
    elif answer != "none_detected" or is_too_weak:
        forms = [answer]
    elif telling.scale.coin:
        forms = ["none_detected", "none_detected_bare"]
    else:
        forms = ["none_detected_bare"]
    if is_too_weak:
        forms = [f"weak_{form}" for form in forms]
    return [capital(telling.say("exposure", form, **others)) for form in forms]


def outcome_sentences(audit: Audit, setting: SettingResult) -> list[str]:
    """The outcome half of the headline, the longest form first."""
    answer = answer_of(setting, "outcomes")
    telling = Telling(audit, setting, "outcomes")
    if answer == "cannot_tell" and _only_lacks_sizes(audit, setting):
        return [telling.say("outcomes", "no_sizes")]
    if answer != "differ":
        return [telling.say("outcomes", answer)]

    benefit = audit.plan.benefit_kind
    # The exposure sentence that stands before it may have named the same people.
    is_named = named_groups(setting, "exposure") == telling.names[0]
    sentences = []
    for form in (telling, replace(telling, is_plain=True)):
        if is_named and benefit.name == POSITIVE_RATE:
            also = re.sub(r"^(are )?", r"\1also ", form.means)
            sentence = form.fill(benefit.differ, who="They", means=also)
        else:
            sentence = form.fill(benefit.differ)
        sentences.append(capital(sentence))
    return [*sentences, telling.say("outcomes", "differ_bare")]


def _only_lacks_sizes(audit: Audit, setting: SettingResult) -> bool:
    """Whether sizes are all that is missing: nothing in the file contradicts itself."""
    contradictions = [finding for finding in audit.declarations if finding.caps_verdict]
    return lacks_sizes(setting) and not contradictions


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
