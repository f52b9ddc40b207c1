"""Which subgroup is hit hardest, and what would have been found where none is?

One more row where a release has searched: the rule of the subgroup that is easiest
to spot, wrongly judged most, or predicted most often, with the least by which it stands
apart from everybody else; where none does, which difference would have been found. No
verdict rests on it. To add a sentence: a line of ``words.toml``, section ``subgroup``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcer.auditing.record import Audit
from pcer.auditing.sentences.rows import Row
from pcer.release.attack_kinds import attack_kind
from pcer.release.records import SubgroupSearch, SubgroupTest, WorstSubgroup
from pcer.wording import capital, in_setting, listed, p_words, say, two_digits

HUNDRED: Final = 100.0
ORDER: Final = ("exposure", "wrongly", "outcomes")


def subgroup_row(audit: Audit) -> Row | None:
    """The row of an audit; None where the release has searched nothing."""
    searches = sorted(audit.subgroups, key=lambda search: ORDER.index(search.about))
    if not searches:
        return None
    figures = [*_rules_are(searches[0])]
    for search in searches:
        figures += _figures(audit, search)
    figures.append(say("subgroup", "beside"))
    return Row(
        question=say("question", "subgroup"),
        answer=_answer_words(audit, searches),
        figures=figures[1:] + figures[:1],
        n_open=1,
    )


def _rules_are(search: SubgroupSearch) -> Iterator[str]:
    names = listed(search.attributes)
    yield say("subgroup", "searched", names=names, depth=search.depth)


def _answer_words(audit: Audit, searches: list[SubgroupSearch]) -> str:
    parts = []
    for search in searches:
        if search.worst is not None:
            rule = rule_words(search.worst)
            parts.append(say("subgroup", _form(audit, search), rule=rule))
        elif search.withheld is not None:
            parts.append(say("subgroup", "withheld"))
    if not parts:
        n = max(search.n_candidates for search in searches)
        return say("subgroup", "none", n=n)
    return capital("; ".join(dict.fromkeys(parts)))


def _form(audit: Audit, search: SubgroupSearch) -> str:
    """What stands out, in the words of harms or of benefits."""
    if search.about == "exposure":
        return "exposure"
    return f"{search.about}_{audit.subject.outcome}"


def rule_words(worst: WorstSubgroup) -> str:
    """A rule as people read it: "race = African-American and age_band = 45+"."""
    return listed([f"{one.attribute} = {one.value}" for one in worst.rule])


def _figures(audit: Audit, search: SubgroupSearch) -> Iterator[str]:
    """What one search found, or would have found."""
    if search.withheld is not None:
        what = say("subgroup", f"what_{_form(audit, search)}")
        yield say("subgroup", "not_named", what=what, reason=search.withheld)
    elif search.worst is not None:
        yield _found(audit, search, search.worst)
        yield _within_labels(search, search.worst)
    elif search.tests:
        yield _would_have_been(audit, search)


def _found(audit: Audit, search: SubgroupSearch, worst: WorstSubgroup) -> str:
    return say(
        "subgroup",
        "found",
        n=search.n_candidates,
        rule=rule_words(worst),
        people=f"{worst.n_people:,}",
        what=say("subgroup", f"what_{_form(audit, search)}"),
        least=two_digits(_points(worst.attack, max(worst.lower_bound, 0.0))),
        unit=_unit(worst.attack),
        where=_where(audit, worst),
    )


def _within_labels(search: SubgroupSearch, worst: WorstSubgroup) -> str:
    """Whether somebody stands out beyond the mix of labels, by the same test."""
    made = (worst.model, worst.epsilon, worst.attack)
    test = next(
        one for one in search.tests if (one.model, one.epsilon, one.attack) == made
    )
    p_value = test.p_value_within_labels
    form = "within" if p_value <= search.level else "not_within"
    if search.about == "wrongly":
        form = "one_label"
    return say("subgroup", form, p=p_words(p_value))


def _would_have_been(audit: Audit, search: SubgroupSearch) -> str:
    """With "none" the power is said, by the search that would have seen least."""
    test = max(search.tests, key=_least_seen)
    detectable = test.detectable
    if detectable is None:
        return say("subgroup", "no_candidate", least=search.least)
    return say(
        "subgroup",
        "none_found",
        n=search.n_candidates,
        what=say("subgroup", f"what_{_form(audit, search)}"),
        least=search.least,
        points=two_digits(_points(test.attack, detectable)),
        unit=_unit(test.attack),
    )


def _least_seen(test: SubgroupTest) -> bool:
    """The advantage, whose unit people know, comes before paired confidence."""
    return test.attack is None or attack_kind(test.attack).scale.is_advantage


def _points(attack: str | None, amount: float) -> float:
    return HUNDRED * amount


def _unit(attack: str | None) -> str:
    if attack is None:
        return say("subgroup", "of_people")
    kind = attack_kind(attack)
    form = "of_success" if kind.scale.is_advantage else "of_confidence"
    return say("subgroup", form, attack=kind.label)


def _where(audit: Audit, worst: WorstSubgroup) -> str:
    if len(audit.settings) == 1:
        return ""
    return f", {in_setting(worst.model, worst.epsilon)}"
