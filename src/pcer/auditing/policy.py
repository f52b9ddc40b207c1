"""Which rules of its plan's policy does an audit break?

A policy is what an organisation tolerates, fixed before looking. It is part of the
plan, so that its results are part of the audit: every output prints them, the exit
code follows from them, and ``pcer verify`` recomputes them. ``audit`` calls
``broken_rules``, the verbs call ``read_policy``, JUnit files call ``statement_met``.

To add a numeric limit: a field of ``Policy`` (measuring/plan.py) and a row of
``LIMITS``. To add a rule of another kind: a field, and a generator that
``broken_rules`` asks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from pcer.auditing.record import Audit, BrokenRule, BudgetResult, GroupResult
from pcer.errors import InputError
from pcer.files import parse_record, read_toml
from pcer.measuring.checks import DeclarationFinding
from pcer.measuring.evidence import compare_pairs
from pcer.measuring.exposure import Measured
from pcer.measuring.plan import Policy
from pcer.measuring.tested import Tested
from pcer.measuring.variances import bonferroni_z
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import attack_kind, attack_named
from pcer.release.records import Run, TestTable, TrainTable
from pcer.wording import listed, some_of

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
    """Every rule of the plan's policy that the audit breaks, a sentence for each."""
    policy = audit.plan.policy
    if policy is None:
        return []

    rules = [
        *(broken_strictness(audit, tested) if policy.strict else ()),
        *_too_few_splits(policy, audit),
        *_missing_attacks(policy, tested),
        *broken_limits(policy, audit, tested),
        *_statements_met(policy, audit),
    ]
    return [
        BrokenRule(rule=rule, sentence=f"{rule}: {sentence}.")
        for rule, sentence in rules
    ]


def broken_strictness(audit: Audit, tested: Tested) -> Iterator[tuple[str, str]]:
    """What a careful reader must know and is not told, whatever the numbers say."""
    runs = tested.release.runs

    split_kind = tested.release.training.split_kind
    if split_kind != "random":
        stated = 'says "other"'
        if split_kind is None:
            stated = "does not say how its records were split"
        yield "split_kind", f"random splits are required; the release {stated}"

    n_unnamed = sum(run.split is None for run in runs)
    if n_unnamed:
        none = f"{n_unnamed:,} of {len(runs):,} have none"
        yield "split_ids", f"every run needs the name of its split; {none}"

    n_unsized = sum(part.n is None for part in _parts(runs))
    if n_unsized:
        lack = f"{n_unsized:,} lack it"
        yield "sizes", f"every rate needs its number of records; {lack}"

    for finding in filter(is_contradiction, audit.declarations):
        sentence = f"{finding.sentence[0].lower()}{finding.sentence[1:].rstrip('.')}"
        rule = "a release must agree with its own numbers"
        yield "contradiction", f"{rule}; {sentence}"


def _parts(runs: Sequence[Run]) -> Iterator[TrainTable | TestTable]:
    """The training and test part of every group in every run."""
    for run in runs:
        for group in run.groups.values():
            yield group.train
            yield group.test


def is_contradiction(finding: DeclarationFinding) -> bool:
    """Whether what a release says is false by its own numbers, and not only unsaid."""
    return finding.caps_verdict or finding.check not in OMISSIONS


def _too_few_splits(policy: Policy, audit: Audit) -> Iterator[tuple[str, str]]:
    """Settings with fewer splits than the policy, or strictness, asks for."""
    min_splits = STRICT_SPLITS if policy.strict else 1
    if policy.min_splits is not None:
        min_splits = policy.min_splits
    few = [
        f"{setting.name.full} has {setting.n_splits}"
        for setting in audit.budgets
        if setting.n_splits < min_splits
    ]
    if few:
        yield "min_splits", f"limit {min_splits}; {some_of(few, MOST_NAMED)}"


def _missing_attacks(policy: Policy, tested: Tested) -> Iterator[tuple[str, str]]:
    """Required attacks that are not released, or not with all their errors."""
    for name in policy.required_costs:
        attack = attack_named(name, tested.measured)
        phrase = attack_kind(attack).phrase
        by_setting = tested.measured.get(attack, ())
        if not by_setting:
            yield "required_costs", f"{phrase} is not released"
        elif any(measured.exposed is None for measured in by_setting):
            yield "required_costs", f"{phrase} lacks some value or error"


def _statements_met(policy: Policy, audit: Audit) -> Iterator[tuple[str, str]]:
    """Statements that must not hold, and do."""
    for statement in policy.fail_on:
        sentence = statement_met(audit, statement)
        if sentence is not None:
            yield "fail_on", sentence


def statement_met(audit: Audit, statement: str) -> str | None:
    """Where a statement holds, with the first headline; None if it holds nowhere."""
    places = audit.statements().get(statement)
    if places is None:
        return None

    places = list(dict.fromkeys(places))
    settings = [audit.budgets[place] for place in places if isinstance(place, int)]
    attacks = [attack_kind(place) for place in places if isinstance(place, str)]
    named = [setting.name.full for setting in settings]
    named += [f"by {attack.phrase}" for attack in attacks]
    where = some_of(named, MOST_NAMED) if named else "Algorithm 1 over the floor grid"

    sentence = f'"{statement.replace("_", " ")}" holds ({where})'
    if settings and settings[0].headline:
        sentence += f": {settings[0].headline.rstrip('.')}"
    return sentence


# Numeric limits


class Bound(NamedTuple):
    """One number of an audit, as large as it may be (of accuracy: as small)."""

    subject: str  # a group, or two
    place: str  # the setting; and the attack, where it does not decide
    value: float  # in the limit's unit; NaN: not known


class Limit(NamedTuple):
    """A numeric limit: a row of ``LIMITS``, at the end of this file."""

    rule: str  # the field of Policy
    unit: str
    claim: str  # stands between a bound's subject and its value
    bounds: Callable[[Audit, Tested], list[Bound]]
    is_minimum: bool = False
    counts_attacks: bool = False  # one bound for each attack


def broken_limits(
    policy: Policy, audit: Audit, tested: Tested
) -> Iterator[tuple[str, str]]:
    """Numbers that must be known, and inside their limit."""
    n_attacks = len({measured.proxy.name for _, measured in _bounded(audit, tested)})
    for limit in LIMITS:
        allowed = getattr(policy, limit.rule)
        if allowed is None:
            continue
        sentence = _breach(limit, allowed, limit.bounds(audit, tested))
        if sentence is None:
            continue
        if limit.counts_attacks and n_attacks > 1:
            sentence += f"; bounds of {n_attacks} attacks together"
        yield limit.rule, sentence


def _breach(limit: Limit, allowed: float, bounds: list[Bound]) -> str | None:
    """What is outside, farthest first; else what is not known; None if it holds."""
    sign = -1 if limit.is_minimum else 1
    outside = [bound for bound in bounds if sign * bound.value > sign * allowed]
    outside.sort(key=lambda bound: -sign * bound.value)
    named = [f"{b.subject} {limit.claim} {b.value:.1f} ({b.place})" for b in outside]
    if not named:
        unknown = [bound for bound in bounds if np.isnan(bound.value)]
        named = [f"{bound.subject} is not known ({bound.place})" for bound in unknown]
    if not named:
        return None
    unit = limit.unit.removesuffix("s") if allowed == 1 else limit.unit
    return f"limit {allowed:g} {unit}; {some_of(named, MOST_NAMED)}"


def _bounded(audit: Audit, tested: Tested) -> list[tuple[BudgetResult, Measured]]:
    """By setting, the deciding attack and those that say how often it is right."""
    bounded = []
    for attack, by_setting in tested.measured.items():
        decides = attack == audit.cost
        if not decides and attack_kind(attack).scale.per_success is None:
            continue
        for setting, measured in zip(audit.budgets, by_setting, strict=True):
            # A value without its error is not known; one that some run lacks, absent.
            is_there = measured.exposed is not None or np.isfinite(measured.cost).all()
            if decides or is_there:
                bounded.append((setting, measured))
    return bounded


def exposure_bounds(audit: Audit, tested: Tested) -> list[Bound]:
    """An attacker's right answers of 100, by group, all limits together."""
    names = audit.subject.groups
    bounded = _bounded(audit, tested)
    level = audit.plan.confidence_level
    n_limits = len(bounded) * len(names)

    bounds = []
    for setting, measured in bounded:
        largest = measured.upper_limit(level=level, n_limits=n_limits)
        known = np.where(measured.has_enough_records, largest, np.nan)
        points = _points_of(measured)
        place = _place(setting, measured, audit)
        for name, exposure in zip(names, known, strict=True):
            bounds.append(Bound(name, place, 50 + points * exposure))
    return bounds


def difference_bounds(audit: Audit, tested: Tested) -> list[Bound]:
    """By how many right answers of 100 the exposures of each pair may differ."""
    pairs = _all_pairs(audit)
    names = _pair_names(audit)
    bounded = _bounded(audit, tested)
    z = bonferroni_z(
        n_limits=len(bounded) * len(pairs),
        confidence_level=audit.plan.confidence_level,
    )

    bounds = []
    for setting, measured in bounded:
        difference = compare_pairs(measured, pairs).exposure
        most = np.minimum(
            np.abs(difference.value) + z * difference.error,
            max(1.0, measured.proxy.scale.largest),
        )
        points = _points_of(measured)
        place = _place(setting, measured, audit)
        for name, most_apart in zip(names, most, strict=True):
            bounds.append(Bound(name, place, points * most_apart))
    return bounds


def detectable_bounds(audit: Audit, _: Tested) -> list[Bound]:
    """The smallest exposure of each group that would have been detected."""
    per_success = audit.proxy.scale.per_success
    points = math.nan if per_success is None else per_success

    bounds = []
    for setting in audit.budgets:
        for name, group in setting.groups.items():
            smallest = group.detectable_cost
            exposure = math.nan if smallest is None else 50 + points * smallest
            bounds.append(Bound(name, setting.name.full, exposure))
    return bounds


def outcome_bounds(audit: Audit, tested: Tested) -> list[Bound]:
    """By how many of 100 the outcomes of each pair may differ."""
    pairs = _all_pairs(audit)
    names = _pair_names(audit)
    z = bonferroni_z(
        n_limits=len(audit.budgets) * len(pairs),
        confidence_level=audit.plan.confidence_level,
    )

    bounds = []
    by_setting = tested.measured[audit.cost]
    for setting, measured in zip(audit.budgets, by_setting, strict=True):
        difference = compare_pairs(measured, pairs).benefit
        most: FloatArray = 100 * np.minimum(
            np.abs(difference.value) + z * difference.error, 1.0
        )
        for name, most_apart in zip(names, most, strict=True):
            bounds.append(Bound(name, setting.name.full, most_apart))
    return bounds


def spent_bounds(audit: Audit, _: Tested) -> list[Bound]:
    """The mean epsilon of each group's receipts, at most what was promised."""
    z = bonferroni_z(
        n_limits=len(audit.budgets) * len(audit.subject.groups),
        confidence_level=audit.plan.confidence_level,
    )
    bounds = []
    for setting in audit.budgets:
        for name, group in setting.groups.items():
            most = _most_spent(setting, group, z)
            bounds.append(Bound(name, setting.name.full, most))
    return bounds


def _most_spent(setting: BudgetResult, group: GroupResult, z: float) -> float:
    """The setting's promise, or the upper limit of receipts where that is smaller."""
    promised = math.nan if setting.epsilon is None else setting.epsilon
    allowed = group.allowed
    # Refreshed norms are an estimate, which bounds nothing.
    if allowed is None or allowed.spent is None or allowed.mode == "refreshed":
        return promised
    error = 0.0 if allowed.standard_error is None else allowed.standard_error
    return float(np.fmin(promised, allowed.spent + z * error))


def accuracy_bounds(audit: Audit, _: Tested) -> list[Bound]:
    """The accuracy of each setting on these records, by Student's t over splits."""
    from scipy.special import stdtrit

    tail = (1 - audit.plan.confidence_level) / len(audit.budgets)
    bounds = []
    for setting in audit.budgets:
        least = math.nan
        accuracy = setting.accuracy
        if accuracy.mean is not None and accuracy.std is not None:
            n_splits = max(setting.n_splits, 1)
            t = stdtrit(n_splits - 1, tail)
            least = float(100 * (accuracy.mean + t * accuracy.std / np.sqrt(n_splits)))
        bounds.append(Bound("accuracy", setting.name.full, least))
    return bounds


def _points_of(measured: Measured) -> float:
    """Right answers of 100 that an exposure of 1 adds; NaN where that is not known."""
    per_success = measured.proxy.scale.per_success
    return math.nan if per_success is None else per_success


def _all_pairs(audit: Audit) -> tuple[tuple[int, int], ...]:
    """Every two groups, by their positions: not only those that the plan compares."""
    return tuple(combinations(range(len(audit.subject.groups)), 2))


def _pair_names(audit: Audit) -> list[str]:
    return [listed(names) for names in combinations(audit.subject.groups, 2)]


def _place(setting: BudgetResult, measured: Measured, audit: Audit) -> str:
    """The setting; and the attack, where it is not the one whose numbers people see."""
    if measured.proxy.name == audit.cost:
        return setting.name.full
    return f"{setting.name.full}, by {measured.proxy.phrase}"


LIMITS: Final = (
    Limit(
        rule="largest_exposure",
        unit="of 100",
        claim="may be as high as",
        bounds=exposure_bounds,
        counts_attacks=True,
    ),
    Limit(
        rule="largest_difference",
        unit="points",
        claim="may differ by as much as",
        bounds=difference_bounds,
        counts_attacks=True,
    ),
    Limit(
        rule="largest_detectable",
        unit="of 100",
        claim="is detected only from",
        bounds=detectable_bounds,
    ),
    Limit(
        rule="largest_outcome_gap",
        unit="points",
        claim="may differ by as much as",
        bounds=outcome_bounds,
    ),
    Limit(
        rule="most_spent",
        unit="of epsilon",
        claim="may have spent",
        bounds=spent_bounds,
    ),
    Limit(
        rule="least_accuracy",
        unit="of 100",
        claim="may be as low as",
        bounds=accuracy_bounds,
        is_minimum=True,
    ),
)
