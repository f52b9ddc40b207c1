"""The words of an audit: how numbers are written for people, and the sentences of the finding.

One headline, an account for the people affected, how sure it is, what to do. Every output prints
these sentences; none makes its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from pcer.auditing.file import Audit, BudgetResult, Summary
from pcer.auditing.measure import ADVANTAGES, PAIRED
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.verdict import Verdict
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.panel import Panel, carried_costs
from pcer.release.proxies import proxy_named
from pcer.statistics import SIGNIFICANCE

MOST_GROUPS_IN_A_SENTENCE = 4
NOTHING = "–"


def budget_name(epsilon: float | None) -> str:
    """How a budget is called in print.

    >>> budget_name(0.5), budget_name(None)
    ('ε = 0.5', 'no-DP')
    """
    return "no-DP" if epsilon is None else f"ε = {epsilon:g}"


def setting_name(model: str | None, epsilon: float | None) -> str:
    """How a setting is called in print: its model, where it has a name, and its budget.

    >>> setting_name(None, 0.5), setting_name("forest", None)
    ('ε = 0.5', 'forest, no-DP')
    """
    return budget_name(epsilon) if model is None else f"{model}, {budget_name(epsilon)}"


def in_setting(model: str | None, epsilon: float | None) -> str:
    """A setting as part of a sentence.

    >>> in_setting(None, 0.5), in_setting("forest", None)
    ('at ε = 0.5', 'in forest without differential privacy')
    """
    budget = "without differential privacy" if epsilon is None else f"at {budget_name(epsilon)}"
    return budget if model is None else f"in {model} {budget}"


def short_setting(model: str | None, epsilon: float | None) -> str:
    """A setting in a table."""
    return short_budget(epsilon) if model is None else f"{model}, {short_budget(epsilon)}"


def plus_minus(summary: Summary) -> str:
    """Mean ± standard deviation of a disparity; without one the mean alone."""
    spread = "" if summary.std is None else f" ± {signed(summary.std).lstrip('+')}"
    return signed(summary.mean) + spread


def rate_plus_minus(summary: Summary, digits: int) -> str:
    """Mean ± standard deviation of a rate as the paper writes it: .682±.008.

    >>> rate_plus_minus(Summary(mean=0.6821, std=0.0081, ci=None), 3)
    '.682±.008'
    """
    if summary.mean is None:
        return NOTHING
    spread = "" if summary.std is None else f"±{_no_zero(summary.std, digits)}"
    return _no_zero(summary.mean, digits) + spread


def bounds(ci: tuple[float, float] | None) -> str:
    """An interval, or what stands for none."""
    return f"[{signed(ci[0])}, {signed(ci[1])}]" if ci else "[no interval]"


def rate_bounds(ci: tuple[float, float] | None, digits: int) -> str:
    """The interval of a rate, in the spelling of ``rate_plus_minus``.

    >>> rate_bounds((0.6801, 0.6842), 3)
    '[.680, .684]'
    """
    if ci is None:
        return "[no interval]"
    return f"[{_no_zero(ci[0], digits)}, {_no_zero(ci[1], digits)}]"


def decimals(value: float | None, digits: int) -> str:
    """A number with fixed decimals and a true minus sign; what rounds to 0 has none.

    >>> decimals(-0.01234, 3), decimals(-0.0000123, 4)
    ('−0.012', '0.0000')
    """
    return NOTHING if value is None else f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float | None) -> str:
    """A number with its sign and about three significant digits.

    >>> signed(-169.2), signed(0.0234), signed(-0.0), signed(None)
    ('−169', '+0.0234', '+0', '–')
    """
    if value is None:
        return NOTHING
    text = f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+z.3g}"
    return text.replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value as it is printed."""
    if value is None:
        return NOTHING
    return "<.001" if value < 0.001 else f"{value:.3f}"


def both_p(adjusted: float | None, alone: float | None) -> str:
    """A p-value adjusted over all tests, and the test's own in brackets where it prints otherwise.

    >>> both_p(0.2, 0.004), both_p(0.0001, 0.00001)
    ('0.200 (0.004)', '<.001')
    """
    first, second = p_value(adjusted), p_value(alone)
    return first if first == second or alone is None else f"{first} ({second})"


def _no_zero(value: float, digits: int) -> str:
    return re.sub(r"^(−?)0\.", r"\1.", decimals(value, digits))


def short_budget(epsilon: float | None) -> str:
    """A budget in a table."""
    return "no-DP" if epsilon is None else f"{epsilon:g}"


def budget_list(budgets: Sequence[float | None]) -> str:
    """Budgets tied for a choice."""
    tie = " (tie)" if len(budgets) > 1 else ""
    return (", ".join(short_budget(epsilon) for epsilon in budgets) or NOTHING) + tie


def yes_no(value: bool | None) -> str:
    """A truth value, or what stands for none."""
    return NOTHING if value is None else "yes" if value else "no"


def number_range(values: list[int]) -> str:
    """Sorted whole numbers as one of them or a range."""
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def listed(parts: Sequence[str]) -> str:
    """Names or amounts as a sentence lists them."""
    return " and ".join([", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts)


def capital(text: str) -> str:
    """A text at the head of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def in_100(amount: float) -> str:
    """A share in hundredths, with two digits.

    >>> in_100(0.0123), in_100(0.9999)
    ('1.2 in 100', '100 in 100')
    """
    hundredths = 100 * amount
    return f"{hundredths:z.2g} in 100" if abs(hundredths) < 10 else f"{hundredths:z.0f} in 100"


def choice_words(
    release: Release, panels: Sequence[Panel], plan: Plan, attacks: Sequence[str]
) -> str:
    """How the attacks were chosen, and which stronger one is missing."""
    chosen = listed([proxy_named(attack).phrase for attack in attacks])
    if plan.cost != SHARPEST:
        return f"Exposure is measured by {chosen}, as the plan says."
    kind = "attacks" if len(attacks) > 1 else "attack"
    text = [f"Exposure is measured by {chosen}, the strongest {kind} available for every group."]
    n_splits, silent = min(panel.n_splits for panel in panels), []
    for kinds in (ADVANTAGES, PAIRED):
        used = next((k for k, proxy in enumerate(kinds) if proxy.name in attacks), 2)
        for proxy in (each for each in kinds[: min(used, 2)] if n_splits >= each.least_models):
            reason = release.not_computed.get(proxy.name)
            if reason is None:
                silent.append(proxy.short)
            else:
                text.append(f"{capital(proxy.label)} was not computed: {reason.rstrip('.')}.")
    if silent:
        text.append(
            f"There are splits enough for {silent[0]}, a stronger attack; so what is not detected "
            "here says little."
        )
    # records that attacks could not score in some model, in the setting where they are most
    excluded = Counter[tuple[str, str | None, float | None]]()
    for row in release.pooled_exposure:
        excluded[row.proxy, row.model, row.epsilon] += row.n_excluded or 0
    most = {a: max((n for key, n in excluded.items() if key[0] == a), default=0) for a in attacks}
    if left_out := [f"{proxy_named(attack).phrase} {n:,}" for attack, n in most.items() if n]:
        text.append(
            "Records left out for want of other models trained with or without them: "
            f"{listed(left_out)}."
        )
    if release.version < 3 and proxies.LIRA.name in carried_costs(panels):
        text.append("LiRA was computed by the rule of version 0.2.0.dev0.")
    return " ".join(text)


def conclude(audit: Audit, *, disclosed: Sequence[str], more: str | None) -> Audit:
    """The audit with its words, among them what is disclosed and what more data would show."""
    steps = audit.told.advice, more, _less_exposed(audit)
    words = {
        "headline": _headline(audit),
        "account": [*_account(audit), *disclosed],
        "trust": [*_trust(audit)],
        "next_steps": [step for step in steps if step is not None],
    }
    return audit.model_copy(update=words)


# The headline

UNEQUAL_HARM = (
    "{where}, positive predictions (a harm here) and privacy costs are shared unequally: "
    "{received}, while {exposures}; this alone puts nobody at a disadvantage."
)
NO_GROUND = "Nothing can be concluded from this release{reason}."
HEADLINES = {
    Verdict.DOUBLE_DISADVANTAGE: (
        "{where}, {are} doubly disadvantaged{decider} ({names}): {exposures}; and {received}{harm}."
    ),
    Verdict.DISPARITY_SHOWN: (
        "{where}, {receive} less for {their} privacy cost ({names}): {received}, while {exposures}."
    ),
    Verdict.EQUAL_WITHIN_MARGIN: (
        "{where}, the groups' privacy costs are equal within {margin:g} hundredths, the margin of "
        "the plan."
    ),
    Verdict.NO_DISPARITY_SHOWN: (
        "{where}, the model remembers people's records: {exposures}; no group is shown to pay more "
        "for what it receives{though}{reason}."
    ),
    Verdict.FLOOR_DOMINATED: (
        "{where}, the model remembers people's records, but so little that it lies below the floor "
        "of the plan: {exposures}."
    ),
    Verdict.NOT_RESOLVED: "The model is not shown to remember anyone's record{at_most}.",
    Verdict.INSUFFICIENT_DATA: "This release cannot tell who pays what{reason}{at_most}.",
}
RECEIVE = {
    "positive_rate": "receive a positive prediction",
    "true_positive_rate": "are predicted positive, counted among those who qualify",
    "precision": "are rightly predicted positive, counted among all so predicted",
}


def _headline(audit: Audit) -> str:
    setting, names, verdict = audit.told, audit.told.worse_off, audit.told.verdict
    template, is_double = HEADLINES[verdict], verdict is Verdict.DOUBLE_DISADVANTAGE
    if verdict is Verdict.DISPARITY_SHOWN and not names:
        template = UNEQUAL_HARM
    if verdict is Verdict.NOT_RESOLVED and setting.reason is not None:
        template = NO_GROUND
    groups = [name for name, group in setting.groups.items() if group.resolved]
    if verdict.is_alarm:  # the groups of the pairs that it is about, the worse off first
        field = "double_disadvantage" if is_double else "lower_ratio"
        pairs = [pair for pair in setting.pairs if getattr(pair, field)]
        worse = [p.double_disadvantage or p.lower_ratio or "" for p in pairs]
        groups = list(dict.fromkeys([*worse, *(name for p in pairs for name in p.groups)]))
    groups = groups[:MOST_GROUPS_IN_A_SENTENCE]
    received = [f"{_out_of_100([setting], name)} of 100 in {name}" for name in groups]
    # the attack that told who is more exposed, where it is not the one whose numbers are shown
    deciders = (pair.exposure_answer.attack for pair in setting.pairs if pair.more_exposed)
    others = dict.fromkeys(proxy_named(a).phrase for a in deciders if a != audit.cost)
    decider = f", by {listed([*others])}" if others else ""
    exposed = dict.fromkeys(pair.more_exposed for pair in setting.pairs if pair.more_exposed)
    though = f", though one is more exposed{decider} ({listed([*exposed])})" if exposed else ""
    return template.format(
        where=capital(in_setting(setting.model, setting.epsilon)),
        are=_so_many(names, "is", "are"),
        receive=_so_many(names, "receives", "receive"),
        their="its" if len(names) == 1 else "their",
        names=listed(names),
        exposures=audit.proxy.scale.short.format(found=_amounts(audit, groups)),
        received=f"{listed(received)} {RECEIVE[audit.plan.benefit]}",
        harm="" if audit.subject.outcome == "benefit" else ", which is a harm here",
        margin=100 * (audit.plan.margin or math.nan),
        decider=decider,
        though=though,
        reason=f": {setting.reason}" if setting.reason else "",
        at_most=_at_most(audit),
    )


def _so_many(names: Sequence[str], singular: str, plural: str) -> str:
    """How many groups do something; their names may be anything, so they are no subject."""
    return f"one group {singular}" if len(names) == 1 else f"{len(names)} groups {plural}"


def _amounts(audit: Audit, names: Sequence[str]) -> str:
    """The known exposures of some groups."""
    amount, groups = audit.proxy.scale.hundredths, audit.told.groups
    costs = [(name, groups[name].cost.value) for name in names]
    return listed([f"{amount(cost)} ({name})" for name, cost in costs if cost is not None])


def _at_most(audit: Audit) -> str:
    """The largest exposure that all limits together allow, over all settings."""
    groups = [group for budget in audit.budgets for group in budget.groups.values()]
    limit = largest([group.cost.upper_limit_together for group in groups if not group.too_few])
    return "" if limit is None else f"; {audit.proxy.scale.at_most(limit)}"


def largest(limits: Sequence[float | None]) -> float | None:
    """The largest of some amounts; None where one of them is not known, or there is none."""
    given = [limit for limit in limits if limit is not None]
    return max(given) if given and len(given) == len(limits) else None


def _out_of_100(budgets: Sequence[BudgetResult], name: str) -> str:
    means = [budget.groups[name].benefit.mean for budget in budgets]
    counts = sorted({round(100 * mean) for mean in means if mean is not None})
    return number_range(counts) if counts else "an unknown number"


# The account


def _account(audit: Audit) -> Iterator[str]:
    """Tell what was found, for whom, and what was not looked at."""
    subject, setting, scale = audit.subject, audit.told, audit.proxy.scale
    weight = "a benefit" if subject.outcome == "benefit" else "a harm"
    names = subject.groups[:MOST_GROUPS_IN_A_SENTENCE]
    parts = [f"{_out_of_100(audit.budgets, name)} in {name}" for name in names]
    more = len(subject.groups) - MOST_GROUPS_IN_A_SENTENCE
    rest = f" (and {more} further groups)" if more > 0 else ""
    receive = RECEIVE[audit.plan.benefit]
    yield f"Out of 100 people, about {listed(parts)}{rest} {receive} (here {weight})."
    resolved = [name for name, group in setting.groups.items() if group.resolved]
    if resolved:
        found = scale.full.format(label=audit.proxy.label, found=_amounts(audit, resolved))
        unclear = "; for the other groups this could not be told"
        where = capital(in_setting(setting.model, setting.epsilon))
        yield f"{where}, {found}{unclear if len(resolved) < len(setting.groups) else ''}."
    else:
        reason = f": {setting.reason}" if setting.reason else ""
        text = f"Whether the model remembers anyone's record cannot be told{reason}"
        yield f"{text}{_at_most(audit)}."
    if not setting.verdict.voids:
        yield _balance(audit)
        yield from _of_pairs(audit)
    yield from _allowed(audit)
    missing = subject.n_missing_group
    people = f"the {missing:,} people whose group is not recorded, " if missing else ""
    yield (
        "Not measured: stronger attacks than this proxy, what follows for a person whose "
        f"record is recognised, whether a prediction is right for an individual, {people}and "
        "whether those affected find the trade acceptable."
    )


DRIVEN = {
    "benefits": "the predictions drive it, at exposures that cannot be told apart",
    "exposures": "the exposures drive it, at similar predictions",
    "both": "both the exposures and the predictions differ",
    "together": "neither the exposures nor the predictions differ by themselves",
}


def _balance(audit: Audit) -> str:
    """Who receives less for their privacy cost, why, and by how much exposures can differ."""
    pairs, is_harm = audit.told.pairs, audit.subject.outcome == "harm"
    lower = list(dict.fromkeys(pair.lower_ratio for pair in pairs if pair.lower_ratio))
    text = "It is not shown that any group receives fewer positive predictions for its privacy cost"
    parts = [text]
    if lower:
        who, whose = _so_many(lower, "receives", "receive"), "its" if len(lower) == 1 else "their"
        harm = ", which here are a harm, so that this alone is no disadvantage" if is_harm else ""
        fewer = f"fewer positive predictions for {whose} privacy cost ({listed(lower)}){harm}"
        drivers = dict.fromkeys(DRIVEN[pair.driven_by] for pair in pairs if pair.driven_by)
        parts = [f"{capital(who)} {fewer}", listed([*drivers])]
    doubled = sorted({name for budget in audit.budgets for name in budget.double_disadvantage})
    if doubled:
        worse = "more harmful" if is_harm else "fewer positive"
        who = f"{_so_many(doubled, 'bears', 'bear')} both a higher cost and {worse} predictions"
        parts.append(f"{who} ({listed(doubled)})")
    limit = largest([pair.exposure.upper_limit_together for pair in pairs])
    if limit is not None:
        parts.append(f"the groups' exposures differ by at most {in_100(limit)}")
    return "; ".join(parts) + "."


def _of_pairs(audit: Audit) -> Iterator[str]:
    """Whether what differs also differs within labels, and attacks that name different groups."""
    for pair in audit.told.pairs:
        placebo, flips = pair.exposure_answer.placebo, pair.coin_flips
        for differs, what, p in (
            (pair.more_exposed, "exposures", getattr(placebo, "exposure_p_within_labels", None)),
            (pair.lower_ratio, "ratios", getattr(flips, "permutation_p_within_labels", None)),
        ):
            if differs is None or p is None:
                continue
            between = f"{what} of {listed(pair.groups)}"
            text = f"The {between} also differ among people with the same label (p = {p:.2g})."
            if p > SIGNIFICANCE:
                text = f"Among people with the same label, no difference between the {between} is "
                text += f"shown (p = {p:.2g}); the mix of labels may be the reason."
            yield text
    for pair in audit.told.pairs:
        answer = pair.exposure_answer
        if answer.contradicted:  # of two deciding attacks, which come first among the costs
            others = [cost.cost for cost in audit.costs[:2] if cost.cost != answer.attack]
            yield (
                f"The attacks contradict each other about {listed(pair.groups)}: "
                f"{proxy_named(answer.attack).phrase} finds one more exposed, and "
                f"{listed([proxy_named(name).phrase for name in others])} the other, each beyond "
                "its error."
            )


def _allowed(audit: Audit) -> Iterator[str]:
    """What training allows, where it kept receipts: in the told setting, or the least private."""
    bounded = [b for b in audit.budgets if any(g.allowed for g in b.groups.values())]
    if not bounded:
        return
    budget = audit.told if audit.told in bounded else max(bounded, key=lambda b: b.budget)
    bounds = [(name, g.allowed) for name, g in budget.groups.items() if g.allowed is not None]
    bounds = bounds[:MOST_GROUPS_IN_A_SENTENCE]
    spent = listed([f"{bound.spent:.2g} ({name})" for name, bound in bounds])
    where = capital(in_setting(budget.model, budget.epsilon))
    text = f"{where}, training spent on average an epsilon of {spent}"
    right = [f"{50 + 100 * b.advantage:.1f} ({n})" for n, b in bounds if b.advantage is not None]
    if right:
        text += f", which allows an attacker who sees every step about {listed(right)} right "
        text += "guesses in 100"
    is_estimate = any(bound.mode == "refreshed" for _, bound in bounds)
    yield text + (" (an estimate)." if is_estimate else ".")


# How sure it is, and what to do


def _trust(audit: Audit) -> Iterator[str]:
    splits = audit.told.n_splits
    yield (
        f"{splits} random split{'s' if splits > 1 else ''} of the records; intervals and "
        "comparisons are about people like these, not about these records alone."
    )
    yield _coin_flips(audit)
    yield from (finding.sentence for finding in audit.declarations)
    if not audit.declarations:
        yield "What the release says about its splits agrees with its own counts."
    if len(audit.costs) > 1:
        measured = [cost for cost in audit.costs if cost.cost != proxies.SPENT.name]
        n_resolved = sum(cost.n_resolved > 0 for cost in measured)
        alarms = [
            proxy_named(cost.cost).short
            for cost in audit.costs
            if cost.p_value_over_costs is not None
            and cost.p_value_over_costs <= SIGNIFICANCE
            and (cost.lower_ratio or cost.double_disadvantage)
        ]
        yield (
            f"{n_resolved} of {len(measured)} costs {'shows' if n_resolved == 1 else 'show'} "
            "memory of someone's record; judged together, these show unequal ratios or a double "
            f"disadvantage: {listed(alarms or ['none'])}."
        )
    if audit.family_p is not None:
        yield (
            "Judged together with the other attributes of the same records, its strongest "
            f"comparison has p = {audit.family_p:.2g}."
        )
    few = [name for name, group in audit.told.groups.items() if group.too_few]
    if few:
        yield f"Too few people to tell anything by this cost: {listed(few)}."


def _coin_flips(audit: Audit) -> str:
    """How often placebo groups raise the alarm, from the count that decides."""
    verdict, pairs = audit.told.verdict, audit.told.pairs
    rows, count = [pair.exposure_answer.placebo for pair in pairs], "n_exposure"
    is_exposure = not verdict.is_alarm and any(pair.more_exposed for pair in pairs)
    if verdict is Verdict.DOUBLE_DISADVANTAGE:
        count = "n_double"
    elif not is_exposure:
        rows, count = [pair.coin_flips for pair in pairs], "n_shown"
    counts = [(getattr(row, count), row.n_draws) for row in rows if row is not None]
    counts = [(n, n_draws) for n, n_draws in counts if n is not None]
    if not counts:
        return "This release lacks the made-up-groups check."
    n, n_draws = max(counts)
    if not verdict.is_alarm and not is_exposure:
        return f"{n_draws} made-up groups: {n} raised an alarm."
    did = "found exposures to differ" if is_exposure else "raised this alarm"
    times, most = "once" if n == 1 else f"{n} times", math.ceil(SIGNIFICANCE * n_draws)
    return (
        f"The same audit on {n_draws} made-up groups {did} {times} (a sound test: up to about "
        f"{most})."
    )


def _less_exposed(audit: Audit) -> str | None:
    """What the budget of least exposure would change, where the told one exposes people."""
    setting, scale = audit.told, audit.proxy.scale
    others = [b for b in audit.budgets if b.model == setting.model and b.budget < setting.budget]
    if not any(group.resolved for group in setting.groups.values()) or not others:
        return None
    best = min(others, key=lambda budget: budget.largest_cost)
    before, after = setting.largest_cost, best.largest_cost
    accuracies = setting.accuracy.mean, best.accuracy.mean
    if not after < before or accuracies[0] is None or accuracies[1] is None:
        return None
    found = f"{scale.hundredths(max(after, 0.0))} instead of {scale.hundredths(before)}"
    where = capital(in_setting(best.model, best.epsilon))
    return (
        f"{where}, {scale.short.format(found=found)}, in the most exposed group; the model is "
        f"right {100 * accuracies[1]:.1f} instead of {100 * accuracies[0]:.1f} times in 100."
    )
