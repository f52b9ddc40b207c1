"""What can sentences about one answer name?"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal

from pcer.auditing.record import Audit, BudgetResult, CostStory, PairResult
from pcer.release import attack_kinds
from pcer.release.attack_kinds import proxy_named
from pcer.wording import (
    NOTHING,
    budget_name,
    decimals,
    largest,
    listed,
    of_100,
    p_words,
    points,
    say,
)

MOST_GROUPS_IN_A_SENTENCE = 4
WEAK = (
    5.0  # right answers of 100 beyond a coin that a file must exclude to clear a model
)
# a difference of outcomes is "far" more where its interval's nearer end is this large
FAR = 0.1
NOUNS = ("women", "men", "girls", "boys")  # names that are no adjectives of people
Axis = Literal["exposure", "outcomes"]
# What pairs can answer on either axis, strongest first.
ANSWERS = (
    "differs",
    "differ",
    "no_difference_shown",
    "none_detected",
    "cannot_tell",
    "not_given",
)


def setting_title(setting: BudgetResult) -> str:
    """A setting in a menu: its model, and whether it was trained with differential privacy."""
    epsilon = "" if setting.epsilon is None else f", {budget_name(setting.epsilon)}"
    model = "" if setting.model is None else f"{setting.model}, "
    return (
        f"{model}trained with{'' if epsilon else 'out'} differential privacy{epsilon}"
    )


def subject_line(audit: Audit, setting: BudgetResult) -> list[str]:
    """What the audit is about, in parts: data, attribute, people, splits."""
    subject = audit.subject
    n = setting.n_splits
    people = (
        [f"{subject.n_records:,} {subject.people or 'people'}"]
        if subject.n_records
        else []
    )
    random = "random " if subject.split_kind == "random" else ""
    return [
        subject.dataset,
        subject.attribute,
        *people,
        f"{n} {random}split{'s' * (n > 1)}",
    ]


def answer_of(setting: BudgetResult, axis: Axis) -> str:
    """One of the two answers: the strongest of the pairs; equality only where all have it."""
    answers = {getattr(pair, axis).answer for pair in setting.pairs}
    answer = next(each for each in ANSWERS if each in answers)
    are_equal = all(
        p.equivalence is not None and p.equivalence.shown for p in setting.pairs
    )
    is_open = axis == "exposure" and answer in ("no_difference_shown", "none_detected")
    return "equal_within_margin" if are_equal and is_open else answer


def is_weak(audit: Audit, setting: BudgetResult) -> bool:
    """Whether a setting that shows nothing is too weak to clear the model.

    It is where a stronger attack was possible and is absent without a reason, or where
    exposure may exceed 55 of 100, which is a gap of 10 points. Where some exposure is
    detected but no difference is, the same bound is held against the difference.
    """
    answer = answer_of(setting, "exposure")
    per_success = audit.proxy.scale.per_success or 0.0
    if answer not in ("none_detected", "no_difference_shown"):
        return False
    bound = (
        largest_bound(setting)
        if answer == "none_detected"
        else largest_difference(setting, "exposure")
    )
    return (
        audit.stronger_attack is not None or bound is None or per_success * bound > WEAK
    )


def largest_bound(setting: BudgetResult) -> float | None:
    """The largest exposure that the data allow in groups of eligible size."""
    groups = setting.groups.values()
    return largest([group.cost.upper_bound for group in groups if not group.too_few])


def largest_difference(setting: BudgetResult, axis: Axis) -> float | None:
    """The largest difference that the data allow between groups that are compared."""
    compared = [getattr(pair, axis) for pair in setting.pairs]
    return largest(
        [each.difference.upper_bound for each in compared if each.p_value is not None]
    )


def facts_of(
    audit: Audit, setting: BudgetResult, axis: Axis, *, plain: bool = False
) -> dict[str, str]:
    """What sentences are filled with: the widest of the pairs that they are about.

    ``plain`` leaves out what the release calls people and outcomes.
    """
    differing = [
        pair for pair in setting.pairs if getattr(pair, axis).group is not None
    ]
    pair = widest_pair(setting, axis)
    answer = getattr(pair, axis)
    subject = audit.subject
    several = len(setting.pairs) > 1
    name, other = in_order(setting, axis)[:2]
    groups = [setting.groups[name], setting.groups[other]]
    n_more = max(0, len(differing) - 1)
    scale = audit.proxy.scale
    bound = largest_bound(setting)
    apart = largest_difference(setting, axis)
    if axis == "exposure":
        costs = [group.cost.value for group in groups]
        high, low = (
            NOTHING if cost is None else scale.hundredths(cost) for cost in costs
        )
        amount: Callable[[float], str] = scale.difference
    else:
        scale = attack_kinds.ACCURACY
        rates = [group.benefit.mean or 0.0 for group in groups]
        high, low = of_100(*rates)
        amount = tenths
    value = answer.difference.value or 0.0
    ends = answer.difference.interval or (0.0, 0.0)
    start, end = sorted(math.copysign(1.0, value) * each for each in ends)
    size = f"{amount(abs(value))} {scale.points}"
    outcome = audit.plan.outcome_of(subject.outcome)
    often = f"{'far ' * (start >= FAR)}{'more' if outcome == 'harm' else 'less'} often"
    more = f", and {n_more} more pair{'s differ' if n_more > 1 else ' differs'}" * (
        n_more > 0
    )
    known = [group.benefit.mean for group in setting.groups.values()]
    rates = [rate for rate in known if rate is not None] or [0.0]
    people, means = (None, None) if plain else (subject.people, subject.positive_means)
    facts = {"name": name, "other": other, "high": high, "low": low, "unit": scale.said}
    facts |= {
        "who": people_of(people, name),
        "people": people or "people",
        "coin": scale.coin,
    }
    facts |= {"reference": f" in {other}" * several, "beside": f" ({other})" * several}
    facts |= {"more": more, "difference": size, "p": p_words(answer.p_value)}
    facts |= {"start": amount(start), "end": amount(end)}
    facts |= {"they": listed(pair.groups) if several else "They"}
    facts |= {"between": f" between {listed(pair.groups)}" * several}
    facts |= {
        "level": f"{100 * audit.plan.confidence_level:g}%",
        "named": named_groups(setting, axis),
    }
    facts |= {
        "apart": NOTHING
        if apart is None
        else f"{scale.difference(apart)} {scale.points}"
    }
    facts |= {"means": means or say("outcomes", subject.outcome), "often": often}
    facts |= {"range": " to ".join(dict.fromkeys(of_100(min(rates), max(rates))))}
    facts |= {"margin": points(audit.plan.margin or 0.0), "main": audit.proxy.phrase}
    facts |= {"at_most": NOTHING if bound is None else scale.hundredths(bound)}
    most = scale.most.format(amount=facts["at_most"])
    facts |= {"bounded": "no bound is known" if bound is None else most}
    by = proxy_named(pair.exposure.attack)
    facts |= {"whose": f" by {by.phrase}" * (by.name != audit.cost)}
    size = by.scale.difference(abs(pair.exposure.attack_difference or 0.0))
    return facts | {"attack": by.phrase, "by_attack": f"{size} {by.scale.points}"}


def tenths(rate: float) -> str:
    """A difference of outcomes in points, to a tenth: rates that are printed whole hide as much."""
    return decimals(100 * rate, 1)


def widest_pair(setting: BudgetResult, axis: Axis) -> PairResult:
    """The widest pair of those shown to differ, or of all; exposures of the doubly worse first."""
    doubled = [
        p for p in setting.pairs if axis == "exposure" and p.double_disadvantage.group
    ]
    differing = [
        pair for pair in setting.pairs if getattr(pair, axis).group is not None
    ]
    pairs = doubled or differing or setting.pairs
    return max(pairs, key=lambda each: abs(getattr(each, axis).difference.value or 0.0))


def in_order(setting: BudgetResult, axis: Axis) -> list[str]:
    """Groups as an answer names them: the pair that it is about, then the others."""
    pair = widest_pair(setting, axis)
    first = (
        pair.groups[::-1]
        if getattr(pair, axis).group == pair.groups[1]
        else pair.groups
    )
    return list(dict.fromkeys([*first, *setting.groups]))


def people_of(people: str | None, name: str) -> str:
    """A group's people as a sentence names them: "White defendants", "people in group 2"."""
    if name.lower() in NOUNS:
        return name
    is_adjective = people is not None and not re.search(r"\d", name)
    return (
        f"{name} {people}" if is_adjective else f"{people or 'people'} in group {name}"
    )


def named_groups(setting: BudgetResult, what: str) -> str:
    """The groups that an answer names in any pair; of many, how many."""
    names = setting.named_by(what)
    return (
        listed(names)
        if len(names) <= MOST_GROUPS_IN_A_SENTENCE
        else f"{len(names)} groups"
    )


def other_attacks(audit: Audit, setting: BudgetResult) -> dict[str, str]:
    """Attacks that show what the answer does not: somebody detected, or a difference.

    The attack whose numbers people see is none of them. Empty where there are none.
    """
    answer = answer_of(setting, "exposure")
    k = audit.budgets.index(setting)
    what = {"none_detected": "detected_in", "no_difference_shown": "differs_in"}.get(
        answer
    )
    found = [
        each.cost for each in attacks_run(audit) if what and k in getattr(each, what)
    ]
    names = [proxy_named(cost).phrase for cost in found if cost != audit.cost]
    named = listed(names) if len(names) < 3 else f"{len(names)} other attacks"
    return {"others": named, "do": "does" if len(names) == 1 else "do"} if names else {}


def attacks_run(audit: Audit) -> list[CostStory]:
    """Every attack that was run; what training spent is none."""
    return [story for story in audit.costs if story.cost != attack_kinds.SPENT.name]
