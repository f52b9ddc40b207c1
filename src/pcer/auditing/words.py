"""The words of an audit: how numbers are written for people, and the sentences of the finding.

One headline, an account for the people affected, how sure it is, what to do. Every output prints
these sentences; none makes its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pcer.auditing.file import Audit, BudgetResult, PairResult, Summary
from pcer.auditing.measure import ADVANTAGES, PAIRED
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.tests import share_level
from pcer.auditing.verdict import Verdict
from pcer.metrics import FloatArray
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.panel import Panel, carried_costs
from pcer.release.proxies import proxy_named
from pcer.statistics import SIGNIFICANCE, holm

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
    """Names or amounts as a sentence lists them; at least one."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


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
        names = [proxy.name for proxy in kinds]
        stronger = next((k for k, name in enumerate(names) if name in attacks), 2)
        for proxy in kinds[: min(stronger, 2)]:
            if n_splits < proxy.least_models:
                continue
            reason = release.not_computed.get(proxy.name)
            if reason is None:
                silent.append(proxy)
            else:
                label = f"{proxy.label[0].upper()}{proxy.label[1:]}"
                text.append(f"{label} was not computed: {reason.rstrip('.')}.")
    if silent:
        text.append(
            f"There are splits enough for {silent[0].short}, a stronger attack; so what is not "
            "detected here says little."
        )
    # records that attacks could not score in some model, in the setting where they are most
    excluded = Counter[tuple[str, str | None, float | None]]()
    for row in release.pooled_exposure:
        excluded[row.proxy, row.model, row.epsilon] += row.n_excluded or 0
    most = {
        attack: max(n for key, n in excluded.items() if key[0] == attack)
        for attack in attacks
        if attack in panels[0].pooled
    }
    left_out = [f"{proxy_named(attack).phrase} {n:,}" for attack, n in most.items() if n]
    if left_out:
        text.append(
            "Records left out for want of other models trained with or without them: "
            f"{listed(left_out)}."
        )
    if release.version < 3 and proxies.LIRA.name in carried_costs(panels):
        text.append("LiRA was computed by the rule of version 0.2.0.dev0.")
    return " ".join(text)


def conclude(audit: Audit, *, disclosed: Sequence[str], more: str | None) -> Audit:
    """The audit with its words, among them what is disclosed and what more data would show."""
    return audit.model_copy(
        update={
            "headline": _headline(audit),
            "account": [*_account(audit), *disclosed],
            "trust": [*_trust(audit)],
            "next_steps": [
                step for step in (audit.told.advice, more, _less_exposed(audit)) if step is not None
            ],
        }
    )


# The headline


def _headline(audit: Audit) -> str:
    told = audit.told
    opening = _opening(told)
    match told.verdict:
        case Verdict.DOUBLE_DISADVANTAGE:
            names = told.worse_off
            groups = _groups_of([pair for pair in told.pairs if pair.double_disadvantage])
            harm = "" if audit.subject.outcome == "benefit" else ", which is a harm here"
            return (
                f"{opening}, {_so_many(names, 'is', 'are').lower()} doubly disadvantaged"
                f"{_decider(audit)} ({listed(names)}): {_exposures(audit, groups)}; and "
                f"{_received(audit, groups)}{harm}."
            )
        case Verdict.DISPARITY_SHOWN:
            return f"{opening}, {_disparity(audit)}."
        case Verdict.EQUAL_WITHIN_MARGIN:
            margin = 100 * (audit.plan.margin or math.nan)
            return (
                f"{opening}, the groups' privacy costs are equal within {margin:g} hundredths, the "
                "margin of the plan."
            )
        case Verdict.NO_DISPARITY_SHOWN:
            reason = f": {told.reason}" if told.reason else ""
            exposed = list(dict.fromkeys(p.more_exposed for p in told.pairs if p.more_exposed))
            though = ""
            if exposed:
                though = f", though one is more exposed{_decider(audit)} ({listed(exposed)})"
            return (
                f"{opening}, the model remembers people's records: {_resolved(audit)}; no group is "
                f"shown to pay more for what it receives{though}{reason}."
            )
        case Verdict.FLOOR_DOMINATED:
            return (
                f"{opening}, the model remembers people's records, but so little that it lies "
                f"below the floor of the plan: {_resolved(audit)}."
            )
        case Verdict.NOT_RESOLVED if told.reason is None:
            return f"The model is not shown to remember anyone's record{_at_most(audit)}."
        case Verdict.NOT_RESOLVED:
            return f"Nothing can be concluded from this release: {told.reason}."
    return f"This release cannot tell who pays what: {told.reason}{_at_most(audit)}."


def _disparity(audit: Audit) -> str:
    names = audit.told.worse_off
    groups = _groups_of([pair for pair in audit.told.pairs if pair.disparity_shown])
    facts = f"{_received(audit, groups)}, while {_exposures(audit, groups)}"
    if not names:
        text = "positive predictions (a harm here) and privacy costs are shared unequally"
        return f"{text}: {facts}; this alone puts nobody at a disadvantage"
    who, whose = _so_many(names, "receives", "receive"), "its" if len(names) == 1 else "their"
    return f"{who.lower()} less for {whose} privacy cost ({listed(names)}): {facts}"


def _opening(budget: BudgetResult) -> str:
    """A setting at the head of a sentence."""
    where = in_setting(budget.model, budget.epsilon)
    return where[0].upper() + where[1:]


def _so_many(names: Sequence[str], singular: str, plural: str) -> str:
    """How many groups do something; their names may be anything, so they are no subject."""
    return f"One group {singular}" if len(names) == 1 else f"{len(names)} groups {plural}"


def _decider(audit: Audit) -> str:
    """The attack that told who is more exposed, where it is not the one whose numbers are shown."""
    deciders = (p.exposure_answer.attack for p in audit.told.pairs if p.more_exposed)
    others = dict.fromkeys(name for name in deciders if name != audit.cost)
    return f", by {listed([proxy_named(name).phrase for name in others])}" if others else ""


def _exposures(audit: Audit, names: Sequence[str]) -> str:
    """Exposures of some groups."""
    scale, groups = audit.proxy.scale, audit.told.groups
    costs = [(name, groups[name].cost.value) for name in names]
    amounts = [f"{scale.hundredths(cost)} ({name})" for name, cost in costs if cost is not None]
    return scale.short.format(found=listed(amounts))


def _received(audit: Audit, names: Sequence[str]) -> str:
    """Benefits of some groups."""
    parts = [f"{_out_of_100([audit.told], name)} of 100 in {name}" for name in names]
    return f"{listed(parts)} {RECEIVE[audit.plan.benefit]}"


def _groups_of(pairs: Sequence[PairResult]) -> list[str]:
    """Groups of some pairs, the worse off first."""
    worse = [pair.double_disadvantage or pair.lower_ratio for pair in pairs]
    names = [name for name in worse if name is not None] + [n for p in pairs for n in p.groups]
    return list(dict.fromkeys(names))[:MOST_GROUPS_IN_A_SENTENCE]


def _resolved(audit: Audit) -> str:
    """What every resolved group's exposure is."""
    names = [name for name, group in audit.told.groups.items() if group.resolved]
    return _exposures(audit, names[:MOST_GROUPS_IN_A_SENTENCE])


def _at_most(audit: Audit) -> str:
    """The largest exposure that all limits together allow, over all settings."""
    limits = [
        group.cost.upper_limit_together
        for budget in audit.budgets
        for group in budget.groups.values()
        if not group.too_few
    ]
    known = [limit for limit in limits if limit is not None]
    if not known or len(known) < len(limits):
        return ""
    return f"; {audit.proxy.scale.at_most(max(known))}"


RECEIVE = {
    "positive_rate": "receive a positive prediction",
    "true_positive_rate": "are predicted positive, counted among those who qualify",
    "precision": "are rightly predicted positive, counted among all so predicted",
}


def _out_of_100(budgets: Sequence[BudgetResult], name: str) -> str:
    means = [budget.groups[name].benefit.mean for budget in budgets]
    counts = [round(100 * mean) for mean in means if mean is not None]
    if not counts:
        return "an unknown number"
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


# The account


def _account(audit: Audit) -> Iterator[str]:
    """Tell what was found, for whom, and what was not looked at."""
    subject = audit.subject
    weight = "a benefit" if subject.outcome == "benefit" else "a harm"
    names = subject.groups[:MOST_GROUPS_IN_A_SENTENCE]
    parts = [f"{_out_of_100(audit.budgets, name)} in {name}" for name in names]
    more = len(subject.groups) - MOST_GROUPS_IN_A_SENTENCE
    rest = f" (and {more} further groups)" if more > 0 else ""
    receive = RECEIVE[audit.plan.benefit]
    yield f"Out of 100 people, about {listed(parts)}{rest} {receive} (here {weight})."
    yield _privacy(audit)
    if audit.told.verdict in (
        Verdict.DOUBLE_DISADVANTAGE,
        Verdict.DISPARITY_SHOWN,
        Verdict.EQUAL_WITHIN_MARGIN,
        Verdict.NO_DISPARITY_SHOWN,
    ):
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


def _privacy(audit: Audit) -> str:
    told, scale = audit.told, audit.proxy.scale
    if not any(group.resolved for group in told.groups.values()):
        text = "Whether the model remembers anyone's record cannot be told"
        return f"{text}{f': {told.reason}' if told.reason else ''}{_at_most(audit)}."
    amounts = [
        f"{scale.hundredths(group.cost.value)} ({name})"
        for name, group in told.groups.items()
        if group.resolved and group.cost.value is not None
    ]
    unclear = "; for the other groups this could not be told"
    words = scale.told.format(label=audit.proxy.label, found=listed(amounts))
    return f"{_opening(told)}, {words}{unclear if len(amounts) < len(told.groups) else ''}."


def _balance(audit: Audit) -> str:
    """Who receives less for their privacy cost, why, and by how much exposures can differ."""
    told, outcome = audit.told, audit.subject.outcome
    lower = list(dict.fromkeys(pair.lower_ratio for pair in told.pairs if pair.lower_ratio))
    text = "It is not shown that any group receives fewer positive predictions for its privacy cost"
    if lower:
        text = f"{_so_many(lower, 'receives', 'receive')} fewer positive predictions for "
        text += f"{'its' if len(lower) == 1 else 'their'} privacy cost ({listed(lower)})"
        if outcome == "harm":
            text += ", which here are a harm, so that this alone is no disadvantage"
        drivers = dict.fromkeys(pair.driven_by for pair in told.pairs if pair.driven_by)
        text += f"; {listed([DRIVEN[driver] for driver in drivers])}"
    doubled = sorted({name for budget in audit.budgets for name in budget.double_disadvantage})
    if doubled:
        worse = "fewer positive" if outcome == "benefit" else "more harmful"
        text += f"; {_so_many(doubled, 'bears', 'bear').lower()} both a higher cost and {worse} "
        text += f"predictions ({listed(doubled)})"
    limits = [pair.exposure.upper_limit_together for pair in told.pairs]
    known = [limit for limit in limits if limit is not None]
    if known and len(known) == len(limits):
        text += f"; the groups' exposures differ by at most {in_100(max(known))}"
    return text + "."


DRIVEN = {
    "benefits": "the predictions drive it, at exposures that cannot be told apart",
    "exposures": "the exposures drive it, at similar predictions",
    "both": "both the exposures and the predictions differ",
    "together": "neither the exposures nor the predictions differ by themselves",
}


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
    known = [(name, g.allowed) for name, g in budget.groups.items() if g.allowed is not None]
    known = known[:MOST_GROUPS_IN_A_SENTENCE]
    spent = listed([f"{bound.spent:.2g} ({name})" for name, bound in known])
    text = f"{_opening(budget)}, training spent on average an epsilon of {spent}"
    right = [f"{50 + 100 * b.advantage:.1f} ({n})" for n, b in known if b.advantage is not None]
    if right:
        text += f", which allows an attacker who sees every step about {listed(right)} right "
        text += "guesses in 100"
    is_estimate = any(bound.mode == "refreshed" for _, bound in known)
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
    if not any(finding.caps_verdict for finding in audit.declarations):
        yield from _diluted(audit)
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
    placebos = [pair.exposure_answer.placebo for pair in pairs]
    is_exposure = not verdict.is_alarm and any(pair.more_exposed for pair in pairs)
    if verdict is Verdict.DOUBLE_DISADVANTAGE:
        counts = [(row.n_double, row.n_draws) for row in placebos if row]
    elif is_exposure:
        known = [row for row in placebos if row and row.n_exposure is not None]
        counts = [(row.n_exposure or 0, row.n_draws) for row in known]
    else:
        flips = [pair.coin_flips for pair in pairs]
        counts = [(row.n_shown, row.n_draws) for row in flips if row]
    if not counts:
        return "This release lacks the made-up-groups check."
    n, n_draws = max(counts)
    times = "once" if n == 1 else f"{n} times"
    sound = f"(a sound test: up to about {math.ceil(SIGNIFICANCE * n_draws)})"
    if not verdict.is_alarm and not is_exposure:
        return f"{n_draws} made-up groups: {n} raised an alarm."
    did = "found exposures to differ" if is_exposure else "raised this alarm"
    return f"The same audit on {n_draws} made-up groups {did} {times} {sound}."


def _diluted(audit: Audit) -> Iterator[str]:
    """What its own setting alone would show, and all settings together do not."""
    budgets = audit.budgets

    def p_values(which: str) -> list[FloatArray]:
        """For groups, exposures and ratios, arrays (setting, group or pair)."""
        rows = [
            [[getattr(group, which) for group in budget.groups.values()] for budget in budgets],
            [[getattr(pair.exposure, which) for pair in budget.pairs] for budget in budgets],
            [[getattr(pair.cross_product, which) for pair in budget.pairs] for budget in budgets],
        ]
        return [np.array(kind, dtype=np.float64) for kind in rows]

    if len(budgets) < 2:
        return
    memory, *pairs = p_values("p_value")
    memory_alone, *pairs_alone = p_values("p_value_alone")
    by_setting = [np.concatenate(share_level(*rows)) for rows in zip(*pairs_alone, strict=True)]
    memory_alone = np.stack([holm(row) for row in memory_alone])
    for shown, together, alone in (
        ("memory of someone's record would be shown", memory, memory_alone),
        (
            "a comparison of its groups would be beyond chance",
            np.hstack(pairs),
            np.stack(by_setting),
        ),
    ):
        if (together <= SIGNIFICANCE).any() or not (alone <= SIGNIFICANCE).any():
            continue
        k = int(np.nanargmin(alone)) // alone.shape[1]
        yield (
            f"If {setting_name(budgets[k].model, budgets[k].epsilon)} were the only setting, "
            f"{shown} (p = {np.nanmin(alone[k]):.2g}); among the {len(alone)} settings of this "
            f"release it is not (p = {np.nanmin(together[k]):.2g})."
        )


def _less_exposed(audit: Audit) -> str | None:
    """What the budget of least exposure would change, where the told one exposes people."""
    told, scale = audit.told, audit.proxy.scale
    others = [b for b in audit.budgets if b.model == told.model and b.budget < told.budget]
    if not any(group.resolved for group in told.groups.values()) or not others:
        return None
    best = min(others, key=lambda budget: budget.largest_cost)
    before, after = told.largest_cost, best.largest_cost
    accuracies = told.accuracy.mean, best.accuracy.mean
    if not after < before or accuracies[0] is None or accuracies[1] is None:
        return None
    exposure = scale.short.format(
        found=f"{scale.hundredths(max(after, 0.0))} instead of {scale.hundredths(before)}"
    )
    return (
        f"{_opening(best)}, {exposure}, in the most exposed group; the model is right "
        f"{100 * accuracies[1]:.1f} instead of {100 * accuracies[0]:.1f} times in 100."
    )
