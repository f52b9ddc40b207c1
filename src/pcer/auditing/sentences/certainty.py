"""How sure is a finding, and what speaks against it?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from pcer.auditing.record import Audit, BudgetResult, CostStory, PairResult
from pcer.auditing.sentences.telling import answer_of, attacks_run, facts_of
from pcer.measuring.verdict import Verdict
from pcer.release.attack_kinds import proxy_named
from pcer.statistics import SIGNIFICANCE
from pcer.wording import capital, in_setting, listed, number_range, p_words, say

ALARMING = (
    "exposure",
    "double_disadvantage",
)  # answers whose doubts stand beside the finding
# Which count of placebo groups decides about an alarm.
ALARMS = {
    Verdict.DOUBLE_DISADVANTAGE: "double",
    Verdict.EXPOSURE_DIFFERS: "exposure",
    Verdict.RATIO_DIFFERS: "ratio",
}


def how_sure(audit: Audit, setting: BudgetResult) -> list[str]:
    """Sentences of certainty: alarms, outcomes, splits; then what speaks against a finding."""
    facts = false_alarms(setting)
    outcomes = answer_of(setting, "outcomes")
    n = setting.n_splits
    is_random = audit.subject.split_kind == "random"
    sentences = [say("how_sure", facts.get("kind", "lacking"), **facts)]
    if outcomes in ("differ", "no_difference_shown"):
        facts = facts_of(audit, setting, "outcomes")
        sentences.append(say("how_sure", f"outcomes_{outcomes}", **facts))
    form = "splits" if is_random else "splits_not_random"
    sentences.append(say("how_sure", form, n=n, s="s" * (n > 1)))
    return [
        *sentences,
        *(each for pair in setting.pairs for each in doubts_about(audit, pair)),
    ]


def false_alarms(setting: BudgetResult) -> dict[str, str]:
    """The count of placebo groups that decides about the verdict; empty where it is not known."""
    kind = ALARMS.get(setting.verdict, "any")
    statement = "double_disadvantage" if kind == "double" else kind
    rows = [
        (pair.ratio if kind == "ratio" else pair.exposure).placebo
        for pair in setting.pairs
        if kind == "any" or getattr(pair, statement).group is not None
    ]
    counts = [
        (getattr(row, f"n_{kind}"), row.n_draws) for row in rows if row is not None
    ]
    if not (known := [(n, n_draws) for n, n_draws in counts if n is not None]):
        return {}
    n, n_draws = max(known)
    facts = {"kind": kind, "n": str(n), "s": "s" * (n != 1), "n_draws": str(n_draws)}
    most = math.ceil(SIGNIFICANCE * n_draws)
    return facts | {"times": "once" if n == 1 else f"{n} times", "most": str(most)}


def doubts_about(
    audit: Audit,
    pair: PairResult,
    what_of: Sequence[str] = (*ALARMING, "ratio", "outcomes"),
) -> Iterator[str]:
    """What speaks against a difference: a check, people with the same label, another attack."""
    facts = {
        "pair": listed(pair.groups),
        "one": proxy_named(pair.exposure.attack).phrase,
    }
    for what in what_of:
        answer = getattr(pair, what)
        said = say("how_sure", f"the_{what}")
        if answer.downgraded is not None:
            reason = answer.downgraded.rstrip(".")
            yield capital(
                say("how_sure", "downgraded", **facts, what=said, reason=reason)
            )
        p = getattr(getattr(answer, "placebo", None), f"{what}_p_within_labels", None)
        if answer.group is not None and p is not None:
            form = "not_within" if p > SIGNIFICANCE else "also_within"
            if form == "not_within" or what_of != ALARMING:  # a card has doubts only
                yield say("how_sure", form, **facts, what=said, p=p_words(p))
    exposure = pair.exposure
    p = pair.exposure.p_value
    is_open = exposure.answer in ("no_difference_shown", "none_detected")
    if is_open and exposure.downgraded is None and p is not None and p <= SIGNIFICANCE:
        yield say("how_sure", "undetected", **facts, p=p_words(p))
    if (
        pair.exposure.contradicted
    ):  # of two deciding attacks, which come first among the costs
        others = [
            cost.cost for cost in audit.costs[:2] if cost.cost != pair.exposure.attack
        ]
        other = listed([proxy_named(name).phrase for name in others])
        yield say("how_sure", "contradicted", **facts, other=other)


def trust_sentences(audit: Audit) -> Iterator[str]:
    """How sure the audit is: of the setting that it opens with, then of the whole release."""
    yield from how_sure(audit, audit.told)
    has_counts = any(group.n_test is not None for group in audit.told.groups.values())
    agrees = say("how_sure", "consistent" if has_counts else "no_counts")
    yield from [each.sentence for each in audit.declarations] or [agrees]
    stories = attacks_run(audit)
    n = len(stories)
    k = sum(bool(story.detected_in) for story in stories)
    if n > 1 and (
        k or audit.verdict is not Verdict.INSUFFICIENT_DATA
    ):  # else nothing is tested
        form = "attacks_all" if k == n else "attacks_some" if k else "attacks_none"
        yield say("how_sure", form, n=n, k=k, s="s" * (k == 1))
        yield from _differences(audit, stories)
    if audit.family_p is not None:
        p = p_words(audit.family_p)
        of_outcomes = p_words(audit.family_p_outcomes)
        yield say("how_sure", "family", p=p, of_outcomes=of_outcomes)
    if few := [name for name, group in audit.told.groups.items() if group.too_few]:
        yield say("how_sure", "too_few", names=listed(few))
    if audit.subject.n_missing_group:
        yield say("how_sure", "missing", n=f"{audit.subject.n_missing_group:,}")


def _differences(audit: Audit, stories: Sequence[CostStory]) -> Iterator[str]:
    """Which attacks find whom easier to recognise, corrected for their number."""
    found = dict[tuple[str, ...], list[str]]()
    n = len(stories)
    for story in stories:
        if "exposure_differs" in story.statements:
            found.setdefault(tuple(story.more_exposed), []).append(
                proxy_named(story.cost).short
            )
    said = list[str]()
    for of, by in found.items():
        form = "attacks_find_others" if said else "attacks_find"
        facts = {"attacks": listed(by), "s": "s" * (len(by) == 1), "names": listed(of)}
        said.append(say("how_sure", form, **facts))
    if said:
        is_both = len(audit.subject.groups) == len({*chain(*found)}) == 2 <= len(found)
        more = say("how_sure", "attacks_contradict") if is_both else ""
        yield say("how_sure", "attacks_differ", n=n, found="; ".join(said) + more)
        return
    by_ratio = [each for each in stories if "ratio_differs" in each.statements]
    ratios = [proxy_named(each.cost).short for each in by_ratio]
    form = "attacks_ratio" if ratios else "attacks_same"
    yield say("how_sure", form, n=n, attacks=listed(ratios))


def paper_words(audit: Audit) -> str:
    """Above the table: whether its difference of ratios is evidence, and what its sign means."""
    found = {
        (published.model, budget.epsilon): [
            pair.pcer_disparity.is_beyond_null for pair in budget.pairs
        ]
        for published in audit.published
        for budget in published.budgets
    }
    detected = {
        (setting.model, setting.epsilon)
        for setting in audit.budgets
        if any(group.resolved for group in setting.groups.values())
    }
    beyond = [setting for setting, marks in found.items() if True in marks]
    shown = [setting for setting in beyond if setting in detected]
    form = "some_evidence" if shown else "undetected" if beyond else "no_evidence"
    if all(mark is None for marks in found.values() for mark in marks):
        form = "unknown"
    elif audit.verdict is Verdict.INSUFFICIENT_DATA:
        form = "contradicted"
    elif len(shown) == len(found):
        form = "evidence"
    first, second = audit.told.pairs[0].groups
    sign = say(
        "paper",
        "sign" if len(audit.told.pairs) == 1 else "signs",
        one=first,
        two=second,
    )
    return f"{say('paper', form, settings=_in_settings(shown))} {sign}"


def _in_settings(settings: Sequence[tuple[str | None, float | None]]) -> str:
    """Settings as part of a sentence: "at ε = 1 and 5 and without privacy"."""
    if any(model is not None for model, _ in settings):
        return listed([in_setting(*setting) for setting in settings])
    private = [f"{epsilon:g}" for _, epsilon in settings if epsilon is not None]
    parts = [f"at ε = {listed(private)}"] if private else []
    return listed(
        [*parts, *(["without privacy"] if len(private) < len(settings) else [])]
    )


def paper_note(audit: Audit, which: str = "note") -> str:
    """Below the table: its symbols; in the title of a ``strip`` the shortest of them."""
    seeds = sorted({setting.n_seeds for setting in audit.budgets})
    n = f"{number_range(seeds)} seed{'s' * (seeds != [1])}"
    level = audit.plan.confidence_level
    facts = {
        "floor": f"{audit.plan.floor:g}".lstrip("0"),
        "seeds": n,
        "level": f"{100 * level:g}%",
    }
    facts["received"] = say(audit.plan.benefit, "share")
    pair = f": {', '.join(audit.told.pairs[0].groups)}" * (len(audit.told.pairs) == 1)
    return say("paper", which, **facts, pair=pair)
