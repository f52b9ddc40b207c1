"""What an organisation tolerates: rules that an audit holds or breaks, fixed before looking.

A policy is part of the plan, so that its results are part of the audit: every output prints them,
the exit code follows from them, and ``pcer verify`` recomputes them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from typing import Final

from pcer.auditing.checks import some_of
from pcer.auditing.file import Audit, BrokenRule, BudgetResult
from pcer.auditing.plan import Policy
from pcer.auditing.words import capital, listed, setting_name
from pcer.errors import InputError
from pcer.files import parse_record, read_text
from pcer.release.format import Release
from pcer.release.panel import carried_costs, panels
from pcer.release.proxies import GAP, proxy_named

# Splits that strictness asks for where the policy names no number: what LiRA needs.
STRICT_SPLITS: Final = 8
MOST_NAMED: Final = 3  # settings and groups that break one rule, in a sentence


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy file (TOML).

    Raises:
        InputError: one sentence with the file, the key and the remedy.
    """
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{os.fspath(path)} is not TOML: {error}; see docs/reports.md.") from None
    return parse_record(Policy, data, file=os.fspath(path))


def broken_rules(audit: Audit, release: Release) -> list[BrokenRule]:
    """Every rule of the plan that the audit breaks, each in one sentence; none without a policy."""
    if (policy := audit.plan.policy) is None:
        return []
    return [
        BrokenRule(rule=rule, sentence=f"{capital(sentence)}.")
        for rule, sentence in _broken(policy, audit, release)
    ]


def _broken(policy: Policy, audit: Audit, release: Release) -> Iterator[tuple[str, str]]:
    kind, runs, budgets = release.training.split_kind, release.runs, audit.budgets
    if policy.strict:  # what a careful reader needs to know, whatever the numbers say
        if kind != "random":
            stated = "does not say how its records were split" if kind is None else 'says "other"'
            yield "split_kind", f"it asks for random splits, and the release {stated}"
        if unnamed := sum(run.split is None for run in runs):
            none = f"{unnamed:,} of {len(runs):,} runs name none"
            yield "split_ids", f"it asks for the name of every run's split, and {none}"
        parts = [part for run in runs for t in run.groups.values() for part in (t.train, t.test)]
        if n := sum(part.n is None for part in parts):
            yield "sizes", f"it asks for the number of records of every rate, and {n:,} have none"
        for finding in (finding for finding in audit.declarations if finding.caps_verdict):
            sentence = f"{finding.sentence[0].lower()}{finding.sentence[1:].rstrip('.')}"
            yield "contradiction", f"it asks for words that agree with the numbers, and {sentence}"
    least = policy.min_splits or (STRICT_SPLITS if policy.strict else 1)
    few = [f"{_name(b)} has {b.n_splits}" for b in budgets if b.n_splits < least]
    if few:
        yield "min_splits", f"it asks for {least} splits, and {some_of(few, MOST_NAMED)}"
    carried = {GAP.name, *carried_costs(panels(release))}
    for cost in (cost for cost in policy.required_costs if cost not in carried):
        phrase = proxy_named(cost).phrase
        yield "required_costs", f"it asks for {phrase}, which the release does not carry"
    yield from _limits(policy, budgets)
    for verdict in (verdict for verdict in policy.fail_on if verdict in audit.outcomes()):
        named = [_name(budget) for budget in budgets if budget.verdict.value == verdict]
        words = verdict.replace("_", " ")
        met = f'Algorithm 1 over the floor grid is "{words}"'
        if named:
            met = f'the verdict "{words}" is given to {some_of(named, MOST_NAMED)}'
        yield "fail_on", f"{met}, on which it fails"


def _limits(policy: Policy, budgets: Sequence[BudgetResult]) -> Iterator[tuple[str, str]]:
    """Numbers that must be known and at most so large."""
    groups = [
        (f"for {name} at {_name(budget)}", group)
        for budget in budgets
        for name, group in budget.groups.items()
    ]
    costs = [(where, group.cost.upper_limit_together) for where, group in groups]
    differences = [
        (f"between {listed(pair.groups)} at {_name(budget)}", pair.exposure.upper_limit_together)
        for budget in budgets
        for pair in budget.pairs
    ]
    detectable = [(where, group.detectable_cost) for where, group in groups]
    for rule, what, verb, values in (
        ("largest_exposure", "a privacy cost", "may be", costs),
        ("largest_difference", "a difference of costs", "may be", differences),
        ("largest_detectable", "a smallest detectable cost", "is", detectable),
    ):
        if (most := getattr(policy, rule)) is None:
            continue
        above = [(where, value) for where, value in values if value is not None and value > most]
        above.sort(key=lambda cell: -cell[1])
        broken = [f"{where} it {verb} {value:.3g}" for where, value in above]
        unknown = [f"{where} it cannot be told" for where, value in values if value is None]
        if named := broken or unknown:
            yield rule, f"it tolerates {what} of {most:g}, and {some_of(named, MOST_NAMED)}"


def _name(budget: BudgetResult) -> str:
    return setting_name(budget.model, budget.epsilon)
