"""What can be done: other settings, more splits, more people?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from pcer.auditing.record import Audit, BudgetResult
from pcer.auditing.sentences.telling import (
    MOST_GROUPS_IN_A_SENTENCE,
    answer_of,
    facts_of,
    in_order,
    largest_bound,
    people_of,
    tenths,
)
from pcer.measuring.evidence import Evidence, Tested
from pcer.measuring.power import (
    MOST_SPLITS,
    Design,
    Question,
    design_of_measured,
    people_for,
    smallest,
    splits_for,
)
from pcer.measuring.verdict import Verdict
from pcer.wording import budget_name, capital, listed, of_100, points, say


def what_would_change(audit: Audit, setting: BudgetResult) -> list[str]:
    """Exposure of each group, accuracy and outcomes in the setting of least exposure.

    Empty where nothing is detected, or no setting of the same model with more privacy
    exposes less.
    """
    others = [
        b
        for b in audit.budgets
        if b.model == setting.model and b.budget < setting.budget
    ]
    if not any(group.resolved for group in setting.groups.values()) or not others:
        return []
    best = min(others, key=lambda budget: budget.largest_cost)
    scale = audit.proxy.scale
    before = setting.accuracy.mean
    after = best.accuracy.mean
    exposures = [scale.hundredths(each.largest_cost) for each in (best, setting)]
    is_less = best.largest_cost < setting.largest_cost and len(set(exposures)) > 1
    if not is_less or before is None or after is None:
        return []
    changes = []
    cut = "cut"
    for name in in_order(setting, "exposure")[:MOST_GROUPS_IN_A_SENTENCE]:
        old = setting.groups[name].cost.value
        new = best.groups[name].cost.value
        if old is not None and new is not None:
            cut = "change" if new > max(old, 0.0) else cut
            found = [scale.hundredths(max(cost, 0.0)) for cost in (old, new)]
            changes.append(f"{' to '.join(found)} ({name})")
    facts = {
        "budget": budget_name(best.epsilon),
        "cut": cut,
        "exposures": listed(changes),
    }
    facts |= {"measure": "the attacker's success" if scale.coin else "exposure"}
    facts |= {"unit": "" if scale.coin else f" ({scale.said})"}
    facts |= {"before": f"{100 * before:.0f}%", "after": f"{100 * after:.0f}%"}
    return [say("advice", "less_exposed", **facts), *_levelling(audit, setting, best)]


def _levelling(
    audit: Audit, setting: BudgetResult, best: BudgetResult
) -> Iterator[str]:
    """What becomes of the outcome gap, and whose outcomes would change most."""
    facts = facts_of(audit, setting, "outcomes")
    names = facts["name"], facts["other"]
    rates = [at.groups[name].benefit.mean for at in (setting, best) for name in names]
    known = [rate for rate in rates if rate is not None]
    if answer_of(setting, "outcomes") != "differ" or len(known) < len(rates):
        return
    old = known[:2]
    new = known[2:]
    before = tenths(abs(old[0] - old[1]))
    after = tenths(abs(new[0] - new[1]))
    is_less = float(after) < float(before)
    form = "stays" if before == after else "shrinks" if is_less else "grows"
    # the group whose rate moves further towards the other's
    closer = [
        (new[k] - old[k]) * math.copysign(1.0, old[1 - k] - old[k]) for k in (0, 1)
    ]
    k = closer.index(max(closer))
    facts |= {"pair": listed(names), "before": before, "after": after}
    facts |= dict(zip(("old", "new"), of_100(old[k], new[k]), strict=True))
    facts |= {"who": people_of(audit.subject.people, names[k])}
    yield say("advice", form, **facts, count="more" if new[k] > old[k] else "fewer")


def choosing_command(audit: Audit) -> Iterator[str]:
    """The command that answers which setting to train, for half of the exposure found or more."""
    per = audit.proxy.scale.per_success
    half = audit.told.largest_cost / 2
    large = [
        s
        for s in audit.budgets
        if not any(group.too_few for group in s.groups.values())
    ]
    known = [bound for bound in map(largest_bound, large) if bound is not None]
    if len(audit.budgets) > 1 and audit.told.accuracy.mean is not None and known:
        # some setting is shown to hold it; the next half point
        exposure = math.ceil(100 + 2 * (per or 1.0) * max(half, min(known))) / 2
        yield say(
            "advice", "recommend", exposure=f"{max(exposure, 50.5):g}" if per else "52"
        )


# Where a difference may be there.
OPEN: Final = (Verdict.NO_DIFFERENCE_SHOWN, Verdict.FLOOR_DOMINATED)


def more_would_show(
    tested: Tested, evidence: Evidence, k: int, budget: BudgetResult
) -> str | None:
    """How many more splits or people would show how much in setting k; None where unknown."""
    measured = tested.measured[tested.cost][k]
    difference = np.abs(evidence.exposure.value[k])
    exposed = measured.exposed
    n_tests = (evidence.n_cost_tests, evidence.n_pair_tests)
    if exposed is None or budget.reason is not None:
        return None
    if budget.verdict is Verdict.NONE_DETECTED:
        question = Question(groups=(int(np.argmax(exposed.null_variance)),))
    elif budget.verdict in OPEN and np.isfinite(difference).any():
        pair = tested.pairs[int(np.nanargmax(difference))]
        lower, higher = sorted(pair, key=lambda g: float(exposed.value[g]))
        question = Question(
            groups=(lower, higher), base=max(0.0, float(exposed.value[lower]))
        )
    else:
        return None
    design = design_of_measured(measured, [len(tested.attacks) * n for n in n_tests])
    return None if design is None else advice(design, question)


def advice(design: Design, question: Question, *, target: float | None = None) -> str:
    """What it would take to show the target; by default half of what shows now."""
    now = smallest(design, question)
    most = question.largest(design)
    if math.isnan(now) and (target is None or target > most):
        return say("plan", "impossible", what=question.words(design, most))
    wanted = now / 2 if target is None else target
    what = question.words(design, wanted)
    if wanted >= now:
        return say("plan", "already", what=capital(what))
    if (n_splits := splits_for(design, question, wanted)) is not None:
        more = int(n_splits - design.n_splits)
        at = "" if math.isnan(now) else say("plan", "now", points=points(now))
        return say(
            "plan", "splits", n=f"{more:,}", s="s" * (more > 1), what=what, now=at
        )
    g = min(question.groups, key=lambda g: float(design.people[g]))
    who = {"group": design.group_names[g], "people": f"{design.people[g]:,.0f}"}
    limit = smallest(replace(design, n_splits=math.inf), question)
    hidden = "hidden" if limit >= wanted else "hopeless"
    things = "exposures" if len(question.groups) == 1 else "differences"
    first = say(
        "plan", hidden, things=things, limit=points(limit), n=f"{MOST_SPLITS:,}", **who
    )
    people = people_for(design, question, wanted)
    needed = "stronger"
    if people is not None:
        unit = 10.0 ** max(
            0, math.floor(math.log10(people[g])) - 1
        )  # two digits, upwards
        needed = "people"
        who["people"] = f"{math.ceil(people[g] / unit) * unit:,.0f}"
    return f"{first} {say('plan', needed, what=what, points=points(wanted), **who)}"
