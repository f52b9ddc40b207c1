"""How are both answers said in at most 30 words, and the verdict in a few?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcer.auditing.record import Audit, BudgetResult
from pcer.auditing.sentences.telling import (
    answer_of,
    facts_of,
    is_weak,
    named_groups,
    other_attacks,
    widest_pair,
)
from pcer.measuring.verdict import Verdict
from pcer.wording import capital, say

MOST_WORDS = 30  # of a headline, a group's name counting as one


def headline(audit: Audit, setting: BudgetResult) -> str:
    """Both answers of a setting: the longest form that keeps to 30 words."""
    exposure = _exposure_forms(audit, setting)
    names = audit.subject.groups
    forms = [
        f"{first} {then}"
        for then in _outcome_forms(audit, setting)
        for first in exposure
    ]
    return next(
        (form for form in forms if n_words(form, names) <= MOST_WORDS), forms[-1]
    )


def n_words(text: str, names: Sequence[str]) -> int:
    """Words of a text, a group's name counting as one.

    >>> n_words("Old men get less: 9 of 100.", ["old men"])
    6
    """
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), "X" * len(name), text, flags=re.IGNORECASE)
    return len(text.split())


def _exposure_forms(audit: Audit, setting: BudgetResult) -> list[str]:
    """The exposure sentence, longest form first."""
    answer = answer_of(setting, "exposure")
    facts = facts_of(audit, setting, "exposure")
    others = other_attacks(audit, setting)
    forms = [answer]
    if answer == "differs":
        # where only the other attack shows it, the numbers that people see need not
        # differ
        shown_by = widest_pair(setting, "exposure").exposure.shown_by
        forms = (
            ["differs", "differs_brief"] if audit.cost in shown_by else ["differs_by"]
        )
        bare = facts_of(audit, setting, "exposure", plain=True)
        sentences = [
            say("exposure", form, **facts) for form in [*forms, "differs_bare"]
        ]
        return [*map(capital, [*sentences, say("exposure", "differs_bare", **bare)])]
    if answer == "none_detected":
        forms = (
            [answer, "none_detected_bare"] if facts["coin"] else ["none_detected_bare"]
        )
    if others:
        kind = "others_detect" if answer == "none_detected" else "others_differ"
        forms = [kind, f"{kind}_bare"]
    if is_weak(audit, setting):
        forms = [f"weak_{form}" for form in (forms if others else [answer])]
    return [capital(say("exposure", form, **facts, **others)) for form in forms]


def _outcome_forms(audit: Audit, setting: BudgetResult) -> list[str]:
    """The outcome sentence, longest form first."""
    answer = answer_of(setting, "outcomes")
    benefit = audit.plan.benefit
    forms = [
        facts_of(audit, setting, "outcomes", plain=plain) for plain in (False, True)
    ]
    if answer != "differ":
        return [say("outcomes", answer, **forms[0])]
    is_said = (
        named_groups(setting, "exposure") == forms[0]["name"]
    )  # by the sentence before
    for form in forms if is_said and benefit == "positive_rate" else []:
        form |= {"who": "They", "means": re.sub(r"^(are )?", r"\1also ", form["means"])}
    sentences = [capital(say(benefit, "differ", **form)) for form in forms]
    return [*sentences, say("outcomes", "differ_bare", **forms[0])]


def badge(audit: Audit, setting: BudgetResult) -> str:
    """The verdict in a few words, with the groups that it names."""
    verdict = setting.verdict
    form = setting.verdict.value
    drivers = {
        pair.ratio.driven_by for pair in setting.pairs if pair.ratio.group is not None
    }
    if verdict is Verdict.RATIO_DIFFERS and drivers == {"outcomes"}:
        form = "ratio_differs_outcomes"
    elif not verdict.is_alarm and is_weak(audit, setting):
        form = "weak"
    if verdict is Verdict.NO_DIFFERENCE_SHOWN and other_attacks(audit, setting):
        form = "others"
    double = named_groups(setting, "double_disadvantage")
    return say("badge", form, **facts_of(audit, setting, "exposure"), double=double)
