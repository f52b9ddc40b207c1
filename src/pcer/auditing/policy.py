"""What an organisation tolerates: rules that an audit holds or breaks, fixed before looking.

A policy is part of the plan, so that its results are part of the audit: every output prints them,
the exit code follows from them, and ``pcer verify`` recomputes them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from pcer.auditing.file import BrokenRule, BudgetResult, DeclarationFinding
from pcer.auditing.plan import Policy
from pcer.auditing.words import listed, setting_name
from pcer.errors import InputError
from pcer.files import parse_record, read_text
from pcer.release.format import Release
from pcer.release.panel import carried_costs, panels
from pcer.release.proxies import proxy_named

STRICT_SPLITS: Final = 8
"""Splits that strictness asks for where the policy names no number: what LiRA needs."""
MOST_NAMED: Final = 3
"""Of settings and groups that break one rule, in a sentence."""


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy file (TOML).

    Raises:
        InputError: one sentence with the file, the key and the remedy.
    """
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{os.fspath(path)} is not TOML: {error}; see docs/policy.md.") from None
    return parse_record(Policy, data, file=os.fspath(path), hints=HINTS)


HINTS = {
    "fail_on": 'name verdicts, such as "disparity_shown"',
    "required_costs": 'name costs, such as "lira_advantage"',
    "min_splits": "write a whole number from 1",
}


def broken_rules(
    policy: Policy | None,
    release: Release,
    budgets: Sequence[BudgetResult],
    findings: Sequence[DeclarationFinding],
    outcomes: set[str],
) -> list[BrokenRule]:
    """Every rule that the audit breaks, each in one sentence; none without a policy."""
    if policy is None:
        return []
    found = [
        *(_strict(release, findings) if policy.strict else ()),
        *_few_splits(policy, budgets),
        *_missing_costs(policy, release),
        *_limits(policy, budgets),
    ]
    for verdict in policy.fail_on:
        if verdict in outcomes:
            found.append(_rule("fail_on", f"{_having(budgets, verdict)}, on which it fails"))
    return found


def _strict(release: Release, findings: Sequence[DeclarationFinding]) -> Iterator[BrokenRule]:
    """What a careful reader needs to know, whatever the numbers say."""
    kind = release.training.split_kind
    if kind != "random":
        said = "does not say how its records were split" if kind is None else 'says "other"'
        yield _rule("split_kind", f"it asks for random splits, and the release {said}")
    unnamed = sum(run.split is None for run in release.runs)
    if unnamed:
        yield _rule(
            "split_ids",
            f"it asks for the name of every run's split, and {unnamed:,} of {len(release.runs):,} "
            "runs name none",
        )
    without = sum(
        table.n is None
        for run in release.runs
        for tables in run.groups.values()
        for table in (tables.train, tables.test)
    )
    if without:
        yield _rule(
            "sizes", f"it asks for the number of records of every rate, and {without:,} have none"
        )
    for one in findings:
        if one.caps_verdict:
            yield _rule(
                "contradiction",
                f"it asks for words that agree with the numbers, and {one.sentence[0].lower()}"
                f"{one.sentence[1:].rstrip('.')}",
            )


def _few_splits(policy: Policy, budgets: Sequence[BudgetResult]) -> Iterator[BrokenRule]:
    least = policy.min_splits or (STRICT_SPLITS if policy.strict else 1)
    few = [f"{_name(one)} has {one.n_splits}" for one in budgets if one.n_splits < least]
    if few:
        yield _rule("min_splits", f"it asks for {least} splits, and {_some(few)}")


def _missing_costs(policy: Policy, release: Release) -> Iterator[BrokenRule]:
    by_setting = panels(release)
    carried = {"overfitting_gap", *carried_costs(by_setting)}
    for cost in policy.required_costs:
        if cost not in carried:
            yield _rule(
                "required_costs",
                f"it asks for {proxy_named(cost).phrase}, which the release does not carry",
            )


class _Limit(NamedTuple):
    """One number that must be known and at most so large."""

    rule: Literal["largest_exposure", "largest_difference", "largest_detectable"]
    tolerated: float
    words: str
    verb: str
    values: list[tuple[str, float | None]]


def _limits(policy: Policy, budgets: Sequence[BudgetResult]) -> Iterator[BrokenRule]:
    for one in _asked(policy, budgets):
        unknown = [where for where, value in one.values if value is None]
        above = [(w, v) for w, v in one.values if v is not None and v > one.tolerated]
        if above:
            above.sort(key=lambda pair: -pair[1])
            told = [f"{where} it {one.verb} {value:.3g}" for where, value in above]
            yield _rule(
                one.rule, f"it tolerates {one.words} of {one.tolerated:g}, and {_some(told)}"
            )
        elif unknown:
            told = [f"{where} it cannot be told" for where in unknown]
            yield _rule(
                one.rule, f"it tolerates {one.words} of {one.tolerated:g}, and {_some(told)}"
            )


def _asked(policy: Policy, budgets: Sequence[BudgetResult]) -> Iterator[_Limit]:
    if policy.largest_exposure is not None:
        values = [
            (f"for {name} at {_name(one)}", group.cost.upper_limit_together)
            for one in budgets
            for name, group in one.groups.items()
        ]
        yield _Limit(
            "largest_exposure", policy.largest_exposure, "a privacy cost", "may be", values
        )
    if policy.largest_difference is not None:
        values = [
            (f"between {listed(pair.groups)} at {_name(one)}", pair.exposure.upper_limit_together)
            for one in budgets
            for pair in one.pairs
        ]
        words = "a difference of costs"
        yield _Limit("largest_difference", policy.largest_difference, words, "may be", values)
    if policy.largest_detectable is not None:
        values = [
            (f"for {name} at {_name(one)}", group.detectable_cost)
            for one in budgets
            for name, group in one.groups.items()
        ]
        words = "a smallest detectable cost"
        yield _Limit("largest_detectable", policy.largest_detectable, words, "is", values)


def _having(budgets: Sequence[BudgetResult], verdict: str) -> str:
    named = [_name(one) for one in budgets if one.verdict.value == verdict]
    words = verdict.replace("_", " ")
    if not named:
        return f'Algorithm 1 over the floor grid is "{words}"'
    return f'the verdict "{words}" is given to {_some(named)}'


def _rule(rule: str, sentence: str) -> BrokenRule:
    return BrokenRule(rule=rule, sentence=f"{sentence[0].upper()}{sentence[1:]}.")


def _some(told: Sequence[str]) -> str:
    more = len(told) - MOST_NAMED
    return listed(told[:MOST_NAMED]) + (f" (and {more} more)" if more > 0 else "")


def _name(one: BudgetResult) -> str:
    return setting_name(one.model, one.epsilon)
