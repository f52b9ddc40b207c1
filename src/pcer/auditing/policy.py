"""What an organisation tolerates: rules that an audit holds or breaks, fixed before looking.

A policy is part of the plan, so that its results are part of the audit: every output
prints them, the exit code follows from them, and ``pcer verify`` recomputes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations
from typing import Final

import numpy as np

from pcer.auditing.record import Audit, BrokenRule, BudgetResult
from pcer.errors import InputError
from pcer.files import parse_record, read_toml
from pcer.measuring.checks.table import DeclarationFinding
from pcer.measuring.evidence import Tested
from pcer.measuring.pair_tests import compare_pairs
from pcer.measuring.plan import Policy
from pcer.measuring.variances import limit_quantile
from pcer.release.attack_kinds import attack_named, proxy_named
from pcer.wording import listed, setting_name, some_of

# Splits that strictness asks for where the policy names no number: what LiRA needs.
STRICT_SPLITS: Final = 8
STRICT_RULES: Final = (
    "split_kind",
    "split_ids",
    "sizes",
    "contradiction",
    "min_splits",
)
MOST_NAMED: Final = 3  # settings and groups that break one rule, in a sentence
# Checks that also find what is unsaid, or about placebos, and then cap nothing.
OMISSIONS: Final = ("split_names", "stratified_by", "placebo_exact")
Cell = tuple[str, str, float]  # a group, or two; the setting and attack; the number


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy file (TOML).

    Raises:
        InputError: one sentence with the file, the key and the remedy.
    """
    file = os.fspath(path)
    policy = parse_record(Policy, read_toml(path, see="docs/reports.md"), file=file)
    if policy == Policy():
        raise InputError(
            f"{file} asks for nothing; name a rule of docs/reports.md, or no policy."
        )
    return policy


def broken_rules(audit: Audit, tested: Tested) -> list[BrokenRule]:
    """Every rule of the plan that the audit breaks, each in one sentence; none without a policy."""
    if (policy := audit.plan.policy) is None:
        return []
    return [
        BrokenRule(rule=rule, sentence=f"{rule}: {sentence}.")
        for rule, sentence in _broken(policy, audit, tested)
    ]


def is_contradiction(finding: DeclarationFinding) -> bool:
    """Whether what a release says is false by its own numbers, and not only unsaid."""
    return finding.caps_verdict or finding.check not in OMISSIONS


def _broken(policy: Policy, audit: Audit, tested: Tested) -> Iterator[tuple[str, str]]:
    kind = tested.release.training.split_kind
    runs = tested.release.runs
    if policy.strict:  # what a careful reader needs to know, whatever the numbers say
        if kind != "random":
            stated = (
                "does not say how its records were split"
                if kind is None
                else 'says "other"'
            )
            yield "split_kind", f"random splits are required; the release {stated}"
        if unnamed := sum(run.split is None for run in runs):
            none = f"{unnamed:,} of {len(runs):,} have none"
            yield "split_ids", f"every run needs the name of its split; {none}"
        parts = [
            part
            for run in runs
            for t in run.groups.values()
            for part in (t.train, t.test)
        ]
        if n := sum(part.n is None for part in parts):
            yield "sizes", f"every rate needs its number of records; {n:,} lack it"
        for finding in filter(is_contradiction, audit.declarations):
            sentence = (
                f"{finding.sentence[0].lower()}{finding.sentence[1:].rstrip('.')}"
            )
            yield (
                "contradiction",
                f"a release must agree with its own numbers; {sentence}",
            )
    least = policy.min_splits or (STRICT_SPLITS if policy.strict else 1)
    if few := [
        f"{_name(b)} has {b.n_splits}" for b in audit.budgets if b.n_splits < least
    ]:
        yield "min_splits", f"limit {least}; {some_of(few, MOST_NAMED)}"
    for cost in policy.required_costs:
        cost = attack_named(cost, tested.measured)
        phrase = proxy_named(cost).phrase
        measured = tested.measured.get(cost, ())
        if not measured or any(each.exposed is None for each in measured):
            lacks = "lacks some value or error" if measured else "is not released"
            yield "required_costs", f"{phrase} {lacks}"
    yield from _limits(policy, audit, tested)
    for statement in policy.fail_on:
        if met := statement_met(audit, statement):
            yield "fail_on", met


def statement_met(audit: Audit, statement: str) -> str | None:
    """Where a statement holds, with the headline of the first such setting; None: nowhere."""
    if (places := audit.statements().get(statement)) is None:
        return None
    settings = [
        audit.budgets[at] for at in dict.fromkeys(places) if isinstance(at, int)
    ]
    named = [_name(each) for each in settings]
    named += [
        f"by {proxy_named(at).phrase}"
        for at in dict.fromkeys(places)
        if isinstance(at, str)
    ]
    where = some_of(named, MOST_NAMED) if named else "Algorithm 1 over the floor grid"
    said = "".join(
        f": {each.headline.rstrip('.')}" for each in settings[:1] if each.headline
    )
    return f'"{statement.replace("_", " ")}" holds ({where}){said}'


def _limits(policy: Policy, audit: Audit, tested: Tested) -> Iterator[tuple[str, str]]:
    """Numbers that must be known and at most so large: those of all attacks in a known unit."""
    costs = list[Cell]()
    differences = list[Cell]()
    names = audit.subject.groups
    cells = [
        (cost, k, measured)
        for cost, by_setting in tested.measured.items()
        if cost == audit.cost or proxy_named(cost).scale.per_success is not None
        for k, measured in enumerate(by_setting)
        # values without an error are not known; those that some run lacks are not there
        if cost == audit.cost
        or measured.exposed is not None
        or np.isfinite(measured.cost).all()
    ]
    pairs = tuple(combinations(range(len(names)), 2))
    between = [listed(pair) for pair in combinations(names, 2)]
    level = audit.plan.confidence_level
    n = len(cells) * len(names)
    n_attacks = len({cost for cost, *_ in cells})
    by_attack = [costs, differences] if n_attacks > 1 else []
    z = limit_quantile(n_limits=len(cells) * len(between), confidence_level=level)
    for cost, k, measured in cells:
        at = _name(audit.budgets[k])
        (value, error, *_) = compare_pairs(measured, pairs).exposure
        at += "" if cost == audit.cost else f", by {measured.proxy.phrase}"
        bounds = np.where(
            measured.enough, measured.upper_limit(level=level, n_limits=n), np.nan
        )
        reach = np.minimum(
            np.abs(value) + z * error, max(1.0, measured.proxy.scale.largest)
        )
        points = measured.proxy.scale.per_success or np.nan
        costs += [
            (name, at, 50 + points * x) for name, x in zip(names, bounds, strict=True)
        ]
        differences += [
            (b, at, points * x) for b, x in zip(between, reach, strict=True)
        ]
    detectable = [
        (
            name,
            _name(budget),
            50 + (audit.proxy.scale.per_success or np.nan) * (cost or np.nan),
        )
        for budget in audit.budgets
        for name, cost in (
            (name, group.detectable_cost) for name, group in budget.groups.items()
        )
    ]
    for rule, unit, found, values in (
        ("largest_exposure", "of 100", "may be as high as", costs),
        ("largest_difference", "points", "may differ by as much as", differences),
        ("largest_detectable", "of 100", "is detected only from", detectable),
        ("largest_outcome_gap", "points", "may differ by as much as", None),
        ("most_spent", "of epsilon", "may have spent", None),
        ("least_accuracy", "of 100", "may be as low as", None),
    ):
        if (most := getattr(policy, rule)) is None:
            continue
        values = _other_bounds(audit, tested)[rule] if values is None else values
        sign = -1 if rule == "least_accuracy" else 1
        outside = [cell for cell in values if sign * cell[2] > sign * most]
        above = sorted(outside, key=lambda cell: -sign * cell[2])
        broken = [f"{who} {found} {value:.1f} ({at})" for who, at, value in above]
        unknown = [
            f"{who} is not known ({at})" for who, at, value in values if np.isnan(value)
        ]
        if named := broken or unknown:
            unit = unit.removesuffix("s" * (most == 1))
            together = (
                f"; bounds of {n_attacks} attacks together"
                if values in by_attack
                else ""
            )
            yield rule, f"limit {most:g} {unit}; {some_of(named, MOST_NAMED)}{together}"


def _other_bounds(audit: Audit, tested: Tested) -> dict[str, list[Cell]]:
    """Bounds of outcome gaps, of what was spent, and of accuracy (of these records), by rule."""
    from scipy.special import stdtrit

    cells: dict[str, list[Cell]] = {"largest_outcome_gap": [], "most_spent": []}
    cells["least_accuracy"] = []
    fails = 1 - audit.plan.confidence_level
    n = len(audit.budgets)
    z = limit_quantile(
        n_limits=n * len(audit.subject.groups), confidence_level=1 - fails
    )
    pairs = tuple(combinations(range(len(audit.subject.groups)), 2))
    of_pairs = limit_quantile(n_limits=n * len(pairs), confidence_level=1 - fails)
    for k, budget in enumerate(audit.budgets):
        at = _name(budget)
        measured = tested.measured[audit.cost][k]
        value, error, *_ = compare_pairs(measured, pairs).benefit
        reach = 100 * np.minimum(np.abs(value) + of_pairs * error, 1.0)
        between = map(listed, combinations(audit.subject.groups, 2))
        cells["largest_outcome_gap"] += [
            (b, at, x) for b, x in zip(between, reach, strict=True)
        ]
        for (
            name,
            group,
        ) in budget.groups.items():  # a promise, too, bounds what is spent
            own = group.allowed
            most = budget.epsilon or np.nan
            if own is not None and own.spent is not None and own.mode != "refreshed":
                most = float(np.fmin(most, own.spent + z * (own.standard_error or 0.0)))
            cells["most_spent"].append((name, at, most))
        right = budget.accuracy
        splits = max(budget.n_splits, 1)
        below = (
            np.nan if right.std is None else stdtrit(splits - 1, fails / n) * right.std
        )
        least = 100 * (
            np.nan if right.mean is None else right.mean + below / np.sqrt(splits)
        )
        cells["least_accuracy"].append(("accuracy", at, float(least)))
    return cells


def _name(budget: BudgetResult) -> str:
    return setting_name(budget.model, budget.epsilon)
