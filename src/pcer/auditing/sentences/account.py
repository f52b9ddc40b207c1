"""What do the people affected read?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from pcer.auditing.record import Audit
from pcer.auditing.sentences.advice import choosing_command, what_would_change
from pcer.auditing.sentences.cards import exposure_card
from pcer.auditing.sentences.certainty import trust_sentences
from pcer.auditing.sentences.headline import headline
from pcer.auditing.sentences.telling import (
    MOST_GROUPS_IN_A_SENTENCE,
    facts_of,
    named_groups,
)
from pcer.measuring.checks.arrays import Facts
from pcer.measuring.verdict import Verdict
from pcer.release import Release
from pcer.release.disclosure import LEAST_PEOPLE, given_away
from pcer.wording import capital, in_setting, listed, of_100, say


def conclude(audit: Audit, *, disclosed: Sequence[str], more: str | None) -> Audit:
    """The audit with its words, among them what is disclosed and what more data would show."""
    budgets = [
        b.model_copy(update={"headline": headline(audit, b)}) for b in audit.budgets
    ]
    steps = [
        *what_would_change(audit, audit.told),
        *([more] if more is not None else []),
    ]
    steps += choosing_command(audit)
    first = budgets[audit.telling].headline
    account = [*_account(audit), *disclosed]
    trust = [*trust_sentences(audit)]
    words = {"account": account, "trust": trust, "next_steps": steps}
    return audit.model_copy(update=words | {"budgets": budgets, "headline": first})


def _account(audit: Audit) -> Iterator[str]:
    """For the people affected: what was found, and what was not looked at."""
    subject = audit.subject
    setting = audit.told
    scale = audit.proxy.scale
    known = [(name, setting.groups[name].benefit.mean) for name in subject.groups]
    rates = [f"{of_100(rate)[0]} in {name}" for name, rate in known if rate is not None]
    facts = facts_of(audit, setting, "outcomes")
    n_more = len(rates) - MOST_GROUPS_IN_A_SENTENCE
    if rates:
        more = f" (and {n_more} further groups)" * (n_more > 0)
        facts["rates"] = listed(rates[:MOST_GROUPS_IN_A_SENTENCE]) + more
        facts["here"] = f" (here a {subject.outcome})" if subject.positive_means else ""
        yield say("account", audit.plan.benefit, **facts)
    costs = [
        (name, group.cost.value)
        for name, group in setting.groups.items()
        if group.resolved
    ]
    found = [
        f"{scale.hundredths(cost)} ({name})" for name, cost in costs if cost is not None
    ]
    if found:
        amounts = listed(found[:MOST_GROUPS_IN_A_SENTENCE])
        yield f"{capital(scale.full.format(label=audit.proxy.label, found=amounts))}."
    yield from exposure_card(audit, setting).sentences
    if setting.verdict is Verdict.NO_DIFFERENCE_SHOWN:
        yield say("account", "no_difference", **facts_of(audit, setting, "exposure"))
    if double := named_groups(setting, "double_disadvantage"):
        yield say("account", "double", double=double)
    drivers = dict.fromkeys(
        pair.ratio.driven_by for pair in setting.pairs if pair.ratio.group
    )
    yield from (say("account", f"ratio_{driver}") for driver in drivers)
    yield from _allowed(audit)
    yield say("account", "not_measured")


def _allowed(audit: Audit) -> Iterator[str]:
    """What training allows, where it kept receipts: in the told setting, or the least private."""
    bounded = [b for b in audit.budgets if any(g.allowed for g in b.groups.values())]
    if not bounded:
        return
    budget = (
        audit.told if audit.told in bounded else max(bounded, key=lambda b: b.budget)
    )
    bounds = [
        (name, g.allowed) for name, g in budget.groups.items() if g.allowed is not None
    ]
    bounds = bounds[:MOST_GROUPS_IN_A_SENTENCE]
    right = [
        f"{50 + 100 * b.advantage:.1f} ({n})"
        for n, b in bounds
        if b.advantage is not None
    ]
    facts = {
        "where": capital(in_setting(budget.model, budget.epsilon)),
        "right": listed(right),
    }
    facts |= {
        "estimate": " (an estimate)" * any(b.mode == "refreshed" for _, b in bounds)
    }
    if own := [f"{b.promised:.3g} ({n})" for n, b in bounds if b.promised is not None]:
        yield say("account", "promised", **facts, promised=listed(own))
    if own := [f"{b.spent:.2g} ({n})" for n, b in bounds if b.spent is not None]:
        yield say(
            "account",
            "allowed_right" if right else "allowed",
            **facts,
            spent=listed(own),
        )


MOST_GROUPS: Final = 3  # small groups that are named in a sentence


def disclosed(release: Release) -> Iterator[str]:
    """Sentences about small cells and certain memberships; none for public or coarse records."""
    cells = release.kept(Facts).cells
    stated = release.disclosure
    if cells is None or (stated is not None and stated.public_data):
        return
    few = (cells.sum(axis=2) < LEAST_PEOPLE).any(axis=(0, 1, 2))
    if small := [release.subject.groups[g] for g in np.flatnonzero(few)]:
        more = (
            f" and {len(small) - MOST_GROUPS} more" if len(small) > MOST_GROUPS else ""
        )
        groups = ", ".join(small[:MOST_GROUPS]) + more
        yield say("checks", "few_people", least=LEAST_PEOPLE, groups=groups)
    known = np.where(np.isnan(cells).any(axis=(0, 1, 2)), 0, cells).astype(np.int64)
    given = given_away(known.transpose(3, 0, 4, 1, 2))
    if given.any():
        yield say("checks", "given_away", most=given.max(), n=given.sum())
    # The file's own count of certain memberships is checked.
    if (
        stated is not None
        and stated.memberships is not None
        and stated.memberships < given.sum()
    ):
        yield say("checks", "fewer_declared", n=stated.memberships)
