"""The finding in words: one headline, an account for the people affected, how sure, what to do.

Every output prints these sentences; none makes its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pcer.auditing.checks import disclosed
from pcer.auditing.file import (
    AuditSubject,
    BudgetResult,
    CostStory,
    DeclarationFinding,
    PairResult,
)
from pcer.auditing.planner import more_would_show
from pcer.auditing.results import Setting
from pcer.auditing.tests import share_level
from pcer.auditing.verdict import Verdict, strongest
from pcer.auditing.words import in_setting, listed, setting_name
from pcer.metrics import FloatArray
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.proxies import Proxy, proxy_named
from pcer.statistics import SIGNIFICANCE, holm

MOST_GROUPS_IN_A_SENTENCE = 4


class Conclusion(NamedTuple):
    """The verdict of an audit and its words; ``telling`` is the setting that they are about."""

    verdict: Verdict
    telling: int
    headline: str
    account: list[str]
    trust: list[str]
    next_steps: list[str]


class _Told(NamedTuple):
    """What the sentences are made of."""

    settings: Sequence[Setting]
    budgets: Sequence[BudgetResult]
    subject: AuditSubject
    told: BudgetResult
    telling: int

    @property
    def verdict(self) -> Verdict:
        return self.told.verdict

    @property
    def proxy(self) -> Proxy:
        return self.settings[0].measured.proxy

    @property
    def where(self) -> str:
        return in_setting(self.told.model, self.told.epsilon)

    @property
    def opening(self) -> str:
        """The setting at the head of a sentence."""
        return self.where[0].upper() + self.where[1:]


def conclude(
    settings: Sequence[Setting],
    budgets: Sequence[BudgetResult],
    costs: Sequence[CostStory],
    subject: AuditSubject,
    release: Release,
    findings: Sequence[DeclarationFinding],
    *,
    family_p: float | None,
) -> Conclusion:
    """The strongest verdict over settings, and everything that is said about it."""
    verdict = strongest(budget.verdict for budget in budgets)
    telling = max(
        (k for k, budget in enumerate(budgets) if budget.verdict is verdict),
        key=lambda k: _largest_cost(budgets[k]),
    )
    story = _Told(settings, budgets, subject, budgets[telling], telling)
    return Conclusion(
        verdict=verdict,
        telling=telling,
        headline=_headline(story),
        account=[*_account(story), *disclosed(release)],
        trust=[*_trust(story, costs, findings, family_p)],
        next_steps=[*_next_steps(story)],
    )


def _headline(story: _Told) -> str:
    told = story.told
    match told.verdict:
        case Verdict.DOUBLE_DISADVANTAGE:
            return _double(story)
        case Verdict.DISPARITY_SHOWN:
            return _shown(story)
        case Verdict.EQUAL_WITHIN_MARGIN:
            return (
                f"{story.opening}, the groups' privacy costs are equal within {_margin(story)} "
                "hundredths, the margin of the plan."
            )
        case Verdict.NO_DISPARITY_SHOWN:
            capped = f": {told.reason}" if told.reason else ""
            return (
                f"{story.opening}, the model remembers people's records: {_found(story)}; no group "
                f"is shown to pay more for what it receives{_though(story)}{capped}."
            )
        case Verdict.FLOOR_DOMINATED:
            return (
                f"{story.opening}, the model remembers people's records, but so little that it "
                f"lies below the floor of the plan: {_found(story)}."
            )
        case Verdict.NOT_RESOLVED if told.reason is None:
            return f"The model is not shown to remember anyone's record{_at_most(story)}."
        case Verdict.NOT_RESOLVED:
            return f"Nothing can be concluded from this release: {told.reason}."
    return f"This release cannot tell who pays what: {told.reason}{_at_most(story)}."


def _double(story: _Told) -> str:
    names = story.told.worse_off
    pairs = [pair for pair in story.told.pairs if pair.double_disadvantage is not None]
    harm = "" if story.subject.outcome == "benefit" else ", which is a harm here"
    return (
        f"{story.opening}, {_groups(names, 'is', 'are').lower()} doubly disadvantaged"
        f"{_decider(story)} ({listed(names)}): "
        f"{_compared(story, _of_pairs(pairs))}; and {_received(story, _of_pairs(pairs))}{harm}."
    )


def _shown(story: _Told) -> str:
    pairs = [pair for pair in story.told.pairs if pair.disparity_shown]
    facts = f"{_received(story, _of_pairs(pairs))}, while {_compared(story, _of_pairs(pairs))}"
    names = story.told.worse_off
    if not names:
        return (
            f"{story.opening}, positive predictions (a harm here) and privacy costs are shared "
            f"unequally: {facts}; this alone puts nobody at a disadvantage."
        )
    return (
        f"{story.opening}, {_groups(names, 'receives', 'receive').lower()} less for "
        f"{_verb(names, 'its', 'their')} privacy cost ({listed(names)}): {facts}."
    )


def _groups(names: Sequence[str], one: str, many: str) -> str:
    """How many groups do something; their names may be anything, so they are no subject."""
    return f"One group {one}" if len(names) == 1 else f"{len(names)} groups {many}"


def _though(story: _Told) -> str:
    """Who is more exposed, where that alone is beyond chance."""
    names = list(dict.fromkeys(p.more_exposed for p in story.told.pairs if p.more_exposed))
    return f", though one is more exposed{_decider(story)} ({listed(names)})" if names else ""


def _decider(story: _Told) -> str:
    """The attack that told who is more exposed, where it is not the one whose numbers are shown."""
    answers = [p.exposure_answer for p in story.told.pairs if p.more_exposed]
    others = dict.fromkeys(one.attack for one in answers if one.attack != story.proxy.name)
    return f", by {listed([proxy_named(name).phrase for name in others])}" if others else ""


def _compared(story: _Told, names: Sequence[str]) -> str:
    """Exposures of some groups."""
    groups = [(name, story.told.groups[name].cost.value) for name in names]
    hundredths = story.proxy.scale.hundredths
    amounts = [f"{hundredths(cost)} ({name})" for name, cost in groups if cost is not None]
    return story.proxy.scale.short.format(found=listed(amounts))


def _received(story: _Told, names: Sequence[str]) -> str:
    """Benefits of some groups."""
    parts = [f"{_out_of_100([story.told], name)} of 100 in {name}" for name in names]
    return f"{listed(parts)} {_receive(story)}"


def _of_pairs(pairs: Sequence[PairResult]) -> list[str]:
    """Groups of some pairs, the worse off first."""
    worse = [pair.double_disadvantage or pair.lower_ratio for pair in pairs]
    names = [name for name in worse if name is not None] + [n for p in pairs for n in p.groups]
    return list(dict.fromkeys(names))[:MOST_GROUPS_IN_A_SENTENCE]


def _found(story: _Told) -> str:
    """What every resolved group's exposure is."""
    resolved = [name for name, group in story.told.groups.items() if group.resolved]
    return _compared(story, resolved[:MOST_GROUPS_IN_A_SENTENCE])


def _at_most(story: _Told) -> str:
    """The largest exposure that all limits together allow, over all settings."""
    limits = [
        group.cost.upper_limit_together
        for budget in story.budgets
        for group in budget.groups.values()
        if not group.too_few
    ]
    known = [limit for limit in limits if limit is not None]
    if not known or len(known) < len(limits):
        return ""
    return f"; {story.proxy.scale.at_most(max(known))}"


def _margin(story: _Told) -> str:
    return f"{100 * (story.settings[0].plan.margin or math.nan):g}"


def _account(story: _Told) -> Iterator[str]:
    """Tell what was found, for whom, and what was not looked at."""
    yield _outcomes(story)
    yield _privacy(story)
    if story.verdict in (
        Verdict.DOUBLE_DISADVANTAGE,
        Verdict.DISPARITY_SHOWN,
        Verdict.EQUAL_WITHIN_MARGIN,
        Verdict.NO_DISPARITY_SHOWN,
    ):
        yield _balance(story)
        yield from _within_labels(story)
        yield from _contradictions(story)
    yield from _allowed(story)
    yield _not_measured(story.subject)


def _within_labels(story: _Told) -> Iterator[str]:
    """Whether what differs also differs among people with the same label."""
    for pair in story.told.pairs:
        answer = pair.exposure_answer
        for differs, what, flips, p in (
            (pair.more_exposed, "exposures", answer.placebo, "exposure_p_within_labels"),
            (pair.lower_ratio, "ratios", pair.coin_flips, "permutation_p_within_labels"),
        ):
            found = None if flips is None else getattr(flips, p)
            if differs is None or found is None:
                continue
            between = f"{what} of {listed(pair.groups)}"
            if found > SIGNIFICANCE:
                yield (
                    f"Among people with the same label, no difference between the {between} is "
                    f"shown (p = {found:.2g}); the mix of labels may be the reason."
                )
            else:
                yield (
                    f"The {between} also differ among people with the same label (p = {found:.2g})."
                )


def _contradictions(story: _Told) -> Iterator[str]:
    """Deciding attacks that name different groups."""
    for pair in story.told.pairs:
        answer = pair.exposure_answer
        if answer.contradicted:
            others = [name for name in story.settings[0].attacks if name != answer.attack]
            yield (
                f"The attacks contradict each other about {listed(pair.groups)}: "
                f"{proxy_named(answer.attack).phrase} finds one more exposed, and "
                f"{listed([proxy_named(name).phrase for name in others])} the other, each beyond "
                "its error."
            )


def _allowed(story: _Told) -> Iterator[str]:
    """What training allows, where it kept receipts: in the told setting, or the least private."""
    bounded = [one for one in story.budgets if any(g.allowed for g in one.groups.values())]
    if not bounded:
        return
    one = story.told if story.told in bounded else max(bounded, key=lambda b: b.budget)
    known = [(name, g.allowed) for name, g in one.groups.items() if g.allowed is not None]
    known = known[:MOST_GROUPS_IN_A_SENTENCE]
    spent = listed([f"{bound.spent:.2g} ({name})" for name, bound in known])
    where = in_setting(one.model, one.epsilon)
    text = f"{where[0].upper()}{where[1:]}, training spent on average an epsilon of {spent}"
    found = [f"{50 + 100 * b.advantage:.1f} ({n})" for n, b in known if b.advantage is not None]
    if found:
        text += f", which allows an attacker who sees every step about {listed(found)} right "
        text += "guesses in 100"
    estimate = any(bound.mode == "refreshed" for _, bound in known)
    yield text + (" (an estimate)." if estimate else ".")


def _outcomes(story: _Told) -> str:
    subject = story.subject
    weight = "a benefit" if subject.outcome == "benefit" else "a harm"
    names = subject.groups[:MOST_GROUPS_IN_A_SENTENCE]
    parts = [f"{_out_of_100(story.budgets, name)} in {name}" for name in names]
    more = len(subject.groups) - MOST_GROUPS_IN_A_SENTENCE
    rest = f" (and {more} further groups)" if more > 0 else ""
    return f"Out of 100 people, about {listed(parts)}{rest} {_receive(story)} (here {weight})."


def _receive(story: _Told) -> str:
    return {
        "positive_rate": "receive a positive prediction",
        "true_positive_rate": "are predicted positive, counted among those who qualify",
        "precision": "are rightly predicted positive, counted among all so predicted",
    }[story.settings[0].plan.benefit]


def _privacy(story: _Told) -> str:
    told, scale = story.told, story.proxy.scale
    if not any(group.resolved for group in told.groups.values()):
        reason = f": {told.reason}" if told.reason else ""
        return (
            f"Whether the model remembers anyone's record cannot be told{reason}{_at_most(story)}."
        )
    found = [
        f"{scale.hundredths(group.cost.value)} ({name})"
        for name, group in told.groups.items()
        if group.resolved and group.cost.value is not None
    ]
    unclear = "; for the other groups this could not be told"
    words = scale.told.format(label=story.proxy.label, found=listed(found))
    return f"{story.opening}, {words}{unclear if len(found) < len(told.groups) else ''}."


def _balance(story: _Told) -> str:
    told, subject = story.told, story.subject
    lower = list(dict.fromkeys(p.lower_ratio for p in told.pairs if p.lower_ratio))
    good = "positive predictions"
    text = f"It is not shown that any group receives fewer {good} for its privacy cost"
    if lower:
        text = f"{_groups(lower, 'receives', 'receive')} fewer {good} for "
        text += f"{_verb(lower, 'its', 'their')} privacy cost ({listed(lower)})"
        if subject.outcome == "harm":
            text += ", which here are a harm, so that this alone is no disadvantage"
        text += f"; {_driven(told)}"
    doubled = sorted({name for one in story.budgets for name in one.double_disadvantage})
    if doubled:
        worse = "fewer positive" if subject.outcome == "benefit" else "more harmful"
        text += f"; {_groups(doubled, 'bears', 'bear').lower()} both a higher cost and {worse} "
        text += f"predictions ({listed(doubled)})"
    return text + f"{_difference_limit(story)}."


def _driven(told: BudgetResult) -> str:
    words = {
        "benefits": "the predictions drive it, at exposures that cannot be told apart",
        "exposures": "the exposures drive it, at similar predictions",
        "both": "both the exposures and the predictions differ",
        "together": "neither the exposures nor the predictions differ by themselves",
    }
    drivers = dict.fromkeys(pair.driven_by for pair in told.pairs if pair.driven_by)
    return listed([words[driver] for driver in drivers])


def _difference_limit(story: _Told) -> str:
    """The most by which exposures can differ, over the pairs of the setting."""
    limits = [pair.exposure.upper_limit_together for pair in story.told.pairs]
    known = [limit for limit in limits if limit is not None]
    if not known or len(known) < len(limits):
        return ""
    return f"; the groups' exposures differ by at most {100 * max(known):z.2g} in 100"


def _not_measured(subject: AuditSubject) -> str:
    missing = subject.n_missing_group
    people = f"the {missing:,} people whose group is not recorded, " if missing else ""
    return (
        "Not measured: stronger attacks than this proxy, what follows for a person whose "
        f"record is recognised, whether a prediction is right for an individual, {people}and "
        "whether those affected find the trade acceptable."
    )


def _trust(
    story: _Told,
    costs: Sequence[CostStory],
    findings: Sequence[DeclarationFinding],
    family_p: float | None,
) -> Iterator[str]:
    splits = story.told.n_splits
    yield (
        f"{splits} random split{'s' if splits > 1 else ''} of the records; intervals and "
        "comparisons are about people like these, not about these records alone."
    )
    yield _coin_flips(story)
    yield from (finding.sentence for finding in findings)
    if not findings:
        yield "What the release says about its splits agrees with its own counts."
    if not any(finding.caps_verdict for finding in findings):
        yield from _diluted(story)
    if len(costs) > 1:
        yield _other_costs(costs)
    if family_p is not None:
        yield (
            "Judged together with the other attributes of the same records, its strongest "
            f"comparison has p = {family_p:.2g}."
        )
    if any(group.too_few for group in story.told.groups.values()):
        few = [name for name, group in story.told.groups.items() if group.too_few]
        yield f"Too few people to tell anything by this cost: {listed(few)}."


def _diluted(story: _Told) -> Iterator[str]:
    """What its own setting alone would show, and all settings together do not."""
    whole = story.settings[0].whole
    memory = (whole.cost_p, whole.cost_p_alone)
    alarms = (
        np.concatenate([whole.exposure_p, whole.cross_p], axis=1),
        np.stack(
            [
                np.concatenate(share_level(*rows))
                for rows in zip(whole.exposure_p_alone, whole.cross_p_alone, strict=True)
            ]
        ),
    )
    alone = np.stack([holm(row) for row in memory[1]])
    yield from _lost(story, memory[0], alone, "memory of someone's record would be shown")
    yield from _lost(story, *alarms, "a comparison of its groups would be beyond chance")


def _lost(story: _Told, together: FloatArray, alone: FloatArray, shown: str) -> Iterator[str]:
    if len(alone) < 2 or (together <= SIGNIFICANCE).any() or not (alone <= SIGNIFICANCE).any():
        return
    k = int(np.nanargmin(alone)) // alone.shape[1]
    budget = story.budgets[k]
    yield (
        f"If {setting_name(budget.model, budget.epsilon)} were the only setting, {shown} (p = "
        f"{np.nanmin(alone[k]):.2g}); among the {len(alone)} settings of this release it is not "
        f"(p = {np.nanmin(together[k]):.2g})."
    )


def _coin_flips(story: _Told) -> str:
    """How often placebo groups raise the alarm, from the count that decides."""
    pairs, field = story.told.pairs, "n_shown"
    flips = [pair.coin_flips for pair in pairs]
    if story.verdict is Verdict.DOUBLE_DISADVANTAGE:
        flips, field = [pair.exposure_answer.placebo for pair in pairs], "n_double"
    elif story.verdict is not Verdict.DISPARITY_SHOWN and any(p.more_exposed for p in pairs):
        flips, field = [pair.exposure_answer.placebo for pair in pairs], "n_exposure"
    counts = [(getattr(one, field), one.n_draws) for one in flips if one is not None]
    known = [count for count in counts if count[0] is not None]
    if not known:
        return "This release lacks the made-up-groups check."
    n, n_draws = max(known)
    is_alarm = story.verdict.is_alarm or field == "n_exposure"
    times = "once" if n == 1 else f"{n} times"
    return (
        f"The same audit on {n_draws} made-up groups raised this alarm {times} (a sound test: up "
        f"to about {math.ceil(SIGNIFICANCE * n_draws)})."
        if is_alarm
        else f"{n_draws} made-up groups: {n} raised an alarm."
    )


def _other_costs(costs: Sequence[CostStory]) -> str:
    measured = [one for one in costs if proxy_named(one.cost) is not proxies.SPENT]
    resolved = [one for one in measured if one.n_resolved]
    alarms = [one for one in costs if _alarms(one)]
    named = listed([proxy_named(one.cost).short for one in alarms]) if alarms else "none"
    return (
        f"{len(resolved)} of {len(measured)} costs {'shows' if len(resolved) == 1 else 'show'} "
        "memory of someone's record; judged together, these show unequal ratios or a double "
        f"disadvantage: {named}."
    )


def _alarms(cost: CostStory) -> bool:
    p = cost.p_value_over_costs
    is_beyond = p is not None and p <= SIGNIFICANCE
    return is_beyond and bool(cost.lower_ratio or cost.double_disadvantage)


def _next_steps(story: _Told) -> Iterator[str]:
    yield story.told.advice
    more = more_would_show(story.settings[story.telling], story.told)
    if more is not None:
        yield more
    private = _less_exposed(story)
    if private is not None:
        yield private


def _less_exposed(story: _Told) -> str | None:
    """What the budget of least exposure would change, where the told one exposes people."""
    told, scale = story.told, story.proxy.scale
    others = [one for one in story.budgets if one.model == told.model and one.budget < told.budget]
    if not any(group.resolved for group in told.groups.values()) or not others:
        return None
    best = min(others, key=_largest_cost)
    before, after = _largest_cost(told), _largest_cost(best)
    accuracies = told.accuracy.mean, best.accuracy.mean
    if not after < before or accuracies[0] is None or accuracies[1] is None:
        return None
    where = in_setting(best.model, best.epsilon)
    exposure = scale.short.format(
        found=f"{scale.hundredths(max(after, 0.0))} instead of {scale.hundredths(before)}"
    )
    return (
        f"{where[0].upper()}{where[1:]}, {exposure}, in the most exposed group; the model is right "
        f"{100 * accuracies[1]:.1f} instead of {100 * accuracies[0]:.1f} times in 100."
    )


def _largest_cost(budget: BudgetResult) -> float:
    costs = [group.cost.value for group in budget.groups.values()]
    return max((cost for cost in costs if cost is not None), default=-math.inf)


def _out_of_100(budgets: Sequence[BudgetResult], name: str) -> str:
    means = [budget.groups[name].benefit.mean for budget in budgets]
    counts = [round(100 * mean) for mean in means if mean is not None]
    if not counts:
        return "an unknown number"
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _verb(names: Sequence[str], one: str = "receives", many: str = "receive") -> str:
    return one if len(names) == 1 else many
