"""How is each question answered in a card?"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from pcer.auditing.record import Audit, BudgetResult
from pcer.auditing.sentences.certainty import (
    ALARMING,
    doubts_about,
    false_alarms,
    how_sure,
)
from pcer.auditing.sentences.telling import (
    MOST_GROUPS_IN_A_SENTENCE,
    WEAK,
    answer_of,
    attacks_run,
    facts_of,
    other_attacks,
    widest_pair,
)
from pcer.release.attack_kinds import proxy_named
from pcer.wording import NOTHING, capital, listed, of_100, say

MOST_DOUBTS = 2  # of a finding, in a card


class Card(NamedTuple):
    """A question, its answer in a few words, and sentences."""

    question: str
    answer: str
    sentences: list[str]


def exposure_card(audit: Audit, setting: BudgetResult) -> Card:
    """Who is easier to recognise, and by how much."""
    answer = answer_of(setting, "exposure")
    facts = facts_of(audit, setting, "exposure")
    detected = [name for name, group in setting.groups.items() if group.resolved]
    n = len(setting.groups)
    per_success = audit.proxy.scale.per_success or math.inf
    costs = [setting.groups[name].cost.value or 0.0 for name in detected]
    is_slight = per_success * max(costs, default=0.0) <= WEAK
    others = other_attacks(audit, setting)
    facts |= {
        "all": "Both" if n == 2 else f"All {n} groups",
        "n": str(len(attacks_run(audit))),
    }
    facts |= {"detected": listed(detected[:MOST_GROUPS_IN_A_SENTENCE]), **others}
    facts |= {"better": "slightly better" if is_slight else "better"}
    facts |= {"reason": capital(setting.reason or "no test could be made").rstrip(".")}
    # the attack whose numbers people see may be no better than a coin for some that are
    # detected
    beside = {
        name: proxy_named(group.detected_by).phrase
        for name, group in setting.groups.items()
        if group.resolved
        and group.detected_by not in (None, audit.cost)
        and not group.is_clear
    }
    facts |= {
        "beside": listed([*beside]),
        "by": listed([*dict.fromkeys(beside.values())]),
    }
    forms = ["all" if len(detected) == n else "some" if detected else "none"]
    forms += ["detected_by"] if beside else []
    forms = ["reason"] if answer == "cannot_tell" else forms
    if others:
        forms.append("others_detect" if answer == "none_detected" else "others_differ")
    if answer == "differs":
        shown = audit.cost in widest_pair(setting, "exposure").exposure.shown_by
        forms.append("difference" if shown else "decided_by")
    elif detected and facts["apart"] != NOTHING:
        forms.append("if_they_differ")
    if audit.stronger_attack is not None and answer != "differs":
        forms = [*forms, "stronger"]
        facts["stronger"] = proxy_named(audit.stronger_attack).phrase
    sentences = [capital(say("exposure_card", form, **facts)) for form in forms]
    return Card(
        say("exposure_card", "question"),
        say("exposure_card", answer, **facts),
        sentences,
    )


def outcomes_card(audit: Audit, setting: BudgetResult) -> Card:
    """Who is worse served, what was true, and who was wrongly given or denied it."""
    answer = answer_of(setting, "outcomes")
    facts = facts_of(audit, setting, "outcomes")
    groups = [setting.groups[facts[each]] for each in ("name", "other")]
    found = re.match(r"are predicted to (be )?(.+)", audit.subject.positive_means or "")
    truth, verb = (
        (found[2], "were" if found[1] else "do") if found else ("positive", "are")
    )
    denied = [group.true_positive_rate.mean for group in groups]
    numbers = {
        "truth": [group.true_rate.mean for group in groups],
        "harm": [group.false_positive_rate.mean for group in groups],
        "benefit": [None if rate is None else 1 - rate for rate in denied],
    }
    facts = facts | {"truth": truth, "verb": verb}
    sentences = []
    for form in ("truth", audit.subject.outcome):
        if None not in numbers[form]:
            rates = " against ".join(of_100(*(rate or 0.0 for rate in numbers[form])))
            sentences.append(say("outcomes_card", form, **facts, numbers=rates))
    if sentences and (answer != "differ" or len(setting.pairs) > 1):
        sentences.append(say("outcomes_card", "order", **facts))
    return Card(
        say("outcomes_card", "question"),
        say("outcomes_card", answer, **facts),
        sentences,
    )


def how_sure_card(audit: Audit, setting: BudgetResult) -> Card:
    """How often made-up groups raise the alarm, how sure the outcomes are, and what it rests on."""
    facts = false_alarms(setting)
    short = say("how_sure_card", "checked" if facts else "unchecked", **facts)
    against = [
        each for pair in setting.pairs for each in doubts_about(audit, pair, ALARMING)
    ]
    more = [say("how_sure_card", "more")] * (len(against) > MOST_DOUBTS)
    sentences = [*how_sure(audit, setting)[:2], *against[:MOST_DOUBTS], *more]
    return Card(say("how_sure_card", "question"), short, sentences)
