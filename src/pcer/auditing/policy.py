"""Which rules of its plan's policy does an audit break?

A policy is what an organisation tolerates, fixed before looking. It is part of the
plan, so that its results are part of the audit: every output prints them, the exit
code follows from them, and ``pcer verify`` recomputes them. ``audit`` calls
``broken_rules``, the verbs ``read_policy`` and ``read_plan``, JUnit files
``statement_met``.

To add a numeric limit: a field of ``Policy`` (measuring/plan.py) and a row of
``LIMITS``. To add a rule of another kind: a field, and a generator that
``broken_rules`` asks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from pcer.auditing.record import Audit, BrokenRule, SettingResult
from pcer.errors import InputError
from pcer.files import Record, RecordT, field_path, parse_record, read_toml
from pcer.measuring import bounds
from pcer.measuring.bounds import Tails
from pcer.measuring.checks import DeclarationFinding
from pcer.measuring.exposure import Measured
from pcer.measuring.group_differences import rate_differences
from pcer.measuring.judged import printed_tails
from pcer.measuring.plan import NO_MARGIN, Plan, Policy
from pcer.measuring.tested import Tested
from pcer.metrics import FloatArray
from pcer.paper.disparity import disparity_bounds
from pcer.release.attack_kinds import GAP, SHADOWS, Basis, attack_kind, attack_named
from pcer.release.records import Run, TestTable, TrainTable
from pcer.wording import listed, some_of

# Splits that strictness asks for where the policy names no number: what LiRA needs.
STRICT_SPLITS: Final = SHADOWS
STRICT_RULES: Final = (
    "split_kind",
    "split_ids",
    "sizes",
    "contradiction",
    "stronger_attack",
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
    policy = _read(Policy, path)
    if policy == Policy():
        raise InputError(
            f"{os.fspath(path)} asks for nothing; name a rule of docs/reports.md, or "
            "no policy."
        )
    return policy


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan file (TOML): fields of ``Plan``, its policy as a table.

    Raises:
        InputError: one sentence with the file, the key and the remedy.
    """
    plan = _read(Plan, path)
    if not plan.model_fields_set:
        raise InputError(
            f"{os.fspath(path)} says nothing; name a field of docs/reports.md, or no "
            "plan."
        )
    return plan


def _read(kind: type[RecordT], path: str | os.PathLike[str]) -> RecordT:
    file = os.fspath(path)
    tree = read_toml(path, see="docs/reports.md")
    _require_known(kind, tree, file)
    policy = tree.get("policy")
    if isinstance(policy, dict):
        _require_known(Policy, policy, file, "policy")
    return parse_record(kind, tree, file=file)


def _require_known(
    kind: type[Record], tree: Mapping[str, Any], file: str, *within: str
) -> None:
    """Raise InputError for a key that is no field, with the one nearest to it."""
    known = [*kind.model_fields]
    for key in tree:
        if key == "margin" and kind is Plan:
            raise InputError(f"{file}: field margin: {NO_MARGIN}.", field=key)
        if key not in known:
            (nearest,) = get_close_matches(key, known, n=1, cutoff=0.0)
            field = field_path((*within, key))
            raise InputError(
                f"{file}: field {field}: is not a field of a {kind.__name__.lower()}; "
                f"the nearest is {nearest}.",
                field=field,
            )


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

    if audit.stronger_attack is not None:
        phrase = attack_kind(audit.stronger_attack).phrase
        rule = "what the splits allow must be released, or its lack be explained"
        yield "stronger_attack", f"{rule}; {phrase} is absent"


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
        f"{setting.name.in_brackets} has {setting.n_splits}"
        for setting in audit.settings
        if setting.n_splits < min_splits
    ]
    if few:
        yield "min_splits", f"limit {min_splits}; {some_of(few, MOST_NAMED)}"


def _missing_attacks(policy: Policy, tested: Tested) -> Iterator[tuple[str, str]]:
    """Required attacks that are not released, or not with all their errors."""
    for name in policy.required_attacks:
        attack = attack_named(name, tested.measured)
        phrase = attack_kind(attack).phrase
        by_setting = tested.measured.get(attack, ())
        if not by_setting:
            yield "required_attacks", f"{phrase} is not released"
        elif any(measured.exposed is None for measured in by_setting):
            yield "required_attacks", f"{phrase} lacks some value or error"
        elif any(_lacks_all_models(measured) for measured in by_setting):
            yield "required_attacks", f"{phrase} lacks its number over all models"


def _lacks_all_models(measured: Measured) -> bool:
    """Whether an attack over several models is there for single ones only."""
    panel = measured.panel
    kind = measured.attack_kind
    is_over_models = kind.basis is Basis.MODELS and panel.n_splits >= SHADOWS
    return is_over_models and kind.name not in panel.pooled


def _statements_met(policy: Policy, audit: Audit) -> Iterator[tuple[str, str]]:
    """Statements that must not hold, and do."""
    for statement in policy.fail_on:
        sentence = statement_met(audit, statement)
        if sentence is not None:
            yield "fail_on", sentence


def statement_met(audit: Audit, statement: str) -> str | None:
    """Where a statement holds: settings and attacks; None if it holds nowhere."""
    places = audit.statements().get(statement)
    if places is None:
        return None

    places = list(dict.fromkeys(places))
    settings = [
        audit.settings[place].name.in_brackets
        for place in places
        if isinstance(place, int)
    ]
    attacks = [attack_kind(place).phrase for place in places if isinstance(place, str)]
    where = []
    if settings:
        where.append(some_of(settings, MOST_NAMED))
    if attacks:
        where.append(attacks[0] if len(attacks) == 1 else f"{len(attacks)} attacks")
    place_words = "; ".join(where) or "Algorithm 1 over the floor grid"
    return f"{statement.replace('_', ' ')} found ({place_words})"


# Numeric limits


class Bound(NamedTuple):
    """One number of an audit, as large as it may be (of accuracy: as small)."""

    subject: str  # a group, or two
    setting: str
    value: float  # in the limit's unit; NaN: not known
    by: str = ""  # ", by" and the attack, where it is not the one people see

    @property
    def place(self) -> str:
        """The setting, and the attack."""
        return f"{self.setting}{self.by}"


class Limit(NamedTuple):
    """A numeric limit: a row of ``LIMITS``, at the end of this file."""

    rule: str  # the field of Policy
    unit: str
    claim: str  # stands between a bound's subject and its value
    bounds: Callable[[Audit, Tested], list[Bound]]
    is_minimum: bool = False


def broken_limits(
    policy: Policy, audit: Audit, tested: Tested
) -> Iterator[tuple[str, str]]:
    """Numbers that must be known, and inside their limit."""
    for limit in LIMITS:
        allowed = getattr(policy, limit.rule)
        if allowed is None:
            continue
        sentence = _breach(limit, allowed, limit.bounds(audit, tested))
        if sentence is not None:
            yield limit.rule, sentence


def _breach(limit: Limit, allowed: float, found: list[Bound]) -> str | None:
    """What is outside, farthest first; else what is not known; None if it holds.

    Of a group in one setting the farthest bound alone is named, whatever the attack.
    """
    sign = -1 if limit.is_minimum else 1
    outside = [bound for bound in found if sign * bound.value > sign * allowed]
    outside.sort(key=lambda bound: -sign * bound.value)
    farthest = dict[tuple[str, str], Bound]()
    for bound in outside:
        farthest.setdefault((bound.subject, bound.setting), bound)
    named = [
        f"{bound.subject} {limit.claim} {bound.value:.1f} ({bound.place})"
        for bound in farthest.values()
    ]
    if not named:
        unknown = [bound for bound in found if np.isnan(bound.value)]
        named = [f"{bound.subject} is not known ({bound.place})" for bound in unknown]
    if not named:
        return None
    unit = limit.unit.removesuffix("s") if allowed == 1 else limit.unit
    return f"limit {allowed:g} {unit}; {some_of(named, MOST_NAMED)}"


def _bounded(audit: Audit, tested: Tested) -> list[tuple[SettingResult, Measured]]:
    """By setting, the deciding attack and those that say how often it is right."""
    bounded = []
    for attack, by_setting in tested.measured.items():
        decides = attack == audit.attack
        if not decides and attack_kind(attack).scale.per_success is None:
            continue
        for setting, measured in zip(audit.settings, by_setting, strict=True):
            # A value without its error is not known; one that some run lacks, absent.
            is_there = (
                measured.exposed is not None or np.isfinite(measured.exposure).all()
            )
            if decides or is_there:
                bounded.append((setting, measured))
    return bounded


def _exposures(audit: Audit, tested: Tested) -> list[Bound]:
    """An attacker's right answers of 100, by group: the ends that tables print.

    All of them must hold, so that they need no correction for the number of attacks.
    """
    names = audit.subject.groups
    bounded = _bounded(audit, tested)
    tails = _tails(printed_tails(tested).exposure)
    found = []
    for setting, measured in bounded:
        upper = bounds.exposure_bounds(measured, tails).upper
        found += _bounds_at(setting, names, upper, _by(measured, audit))
    return found


def _exposure_differences(audit: Audit, tested: Tested) -> list[Bound]:
    """By how many right answers of 100 the exposures of each pair may differ."""
    pairs = _all_pairs(audit)
    bounded = _bounded(audit, tested)
    tails = _tails(printed_tails(tested).exposure_difference)
    found = []
    for setting, measured in bounded:
        upper = bounds.difference_bounds(measured, pairs, tails).upper
        by = _by(measured, audit)
        found += _bounds_at(setting, _pair_names(audit), upper, by)
    return found


def _detectable(audit: Audit, _: Tested) -> list[Bound]:
    """The smallest exposure of each group that would have been detected."""
    per_success = audit.attack_kind.scale.per_success
    points = math.nan if per_success is None else per_success

    found = []
    for setting in audit.settings:
        for name, group in setting.groups.items():
            smallest = group.detectable
            exposure = math.nan if smallest is None else 50 + points * smallest
            found.append(Bound(name, setting.name.in_brackets, exposure))
    return found


def _outcome_gaps(audit: Audit, tested: Tested) -> list[Bound]:
    """By how many of 100 the outcomes of each pair may differ."""
    pairs = _all_pairs(audit)
    tails = _tails(printed_tails(tested).outcomes)
    found = []
    for setting, measured in _by_main_attack(audit, tested):
        upper = bounds.outcome_bounds(measured, pairs, tails).upper
        found += _bounds_at(setting, _pair_names(audit), upper)
    return found


def _odds_gaps(audit: Audit, tested: Tested) -> list[Bound]:
    """By how many of 100 each pair may differ among people with one true outcome."""
    pairs = _all_pairs(audit)
    tails = _tails(_tail_among(audit, len(pairs)))
    found = []
    for setting, measured in _by_main_attack(audit, tested):
        upper = bounds.odds_bounds(
            measured.panel, pairs, tails, measured.variance_inflation
        ).upper
        found += _bounds_at(setting, _pair_names(audit), upper)
    return found


def _disparities(audit: Audit, tested: Tested) -> list[Bound]:
    """How large Delta PCER of each pair may be, by the gap."""
    pairs = _all_pairs(audit)
    tails = _tails(_tail_among(audit, len(pairs)))
    found = []
    for setting, gap in zip(audit.settings, tested.measured[GAP.name], strict=True):
        upper = disparity_bounds(gap, pairs, tails).upper
        found += _bounds_at(setting, _pair_names(audit), upper)
    return found


def _wrongly_gaps(audit: Audit, tested: Tested) -> list[Bound]:
    """By how many of 100 the wrong judgements of each pair may differ."""
    pairs = _all_pairs(audit)
    tails = _tails(printed_tails(tested).wrongly)
    wrongly = tested.wrongly
    difference = rate_differences(wrongly.received, pairs, among=wrongly.has_enough)
    upper = bounds.apart(difference, 100.0, 1.0, tails).upper
    found = []
    for setting, of_setting in zip(audit.settings, upper, strict=True):
        found += _bounds_at(setting, _pair_names(audit), of_setting)
    return found


def _spent(audit: Audit, tested: Tested) -> list[Bound]:
    """The mean epsilon of each group's receipts, at most what was promised to it."""
    names = audit.subject.groups
    tails = _tails(_tail_among(audit, len(names)))
    found = []
    for setting, measured in _by_main_attack(audit, tested):
        upper = bounds.spent_bounds(tested.release, measured.panel, tails).upper
        known = np.where(np.isfinite(upper), upper, np.nan)
        found += _bounds_at(setting, names, known)
    return found


def _accuracies(audit: Audit, tested: Tested) -> list[Bound]:
    """The accuracy of each setting on these records."""
    tails = _tails(_tail_among(audit, 1))
    found = []
    for setting, measured in _by_main_attack(audit, tested):
        lower = bounds.accuracy_bounds(measured.panel, tails).lower
        found += _bounds_at(setting, ["accuracy"], lower)
    return found


def _by_main_attack(
    audit: Audit, tested: Tested
) -> Iterator[tuple[SettingResult, Measured]]:
    """Every setting beside its arrays, by the attack whose numbers people see."""
    yield from zip(audit.settings, tested.measured[audit.attack], strict=True)


def _tails(tail: float) -> Tails:
    """The chance with which a bound may fail, at either end."""
    return Tails(upper=tail, lower=tail)


def _tail_among(audit: Audit, n_bounds: int) -> float:
    """That of so many bounds in each setting, of which one end is held."""
    tail = 1 - audit.plan.confidence_level
    return tail / (n_bounds * len(audit.settings))


def _bounds_at(
    setting: SettingResult, names: Sequence[str], values: FloatArray, by: str = ""
) -> list[Bound]:
    """The bounds of every group, or pair, in one setting."""
    place = setting.name.in_brackets
    return [
        Bound(name, place, value, by) for name, value in zip(names, values, strict=True)
    ]


def _all_pairs(audit: Audit) -> tuple[tuple[int, int], ...]:
    """Every two groups, by their positions: not only those that the plan compares."""
    return tuple(combinations(range(len(audit.subject.groups)), 2))


def _pair_names(audit: Audit) -> list[str]:
    return [listed(names) for names in combinations(audit.subject.groups, 2)]


def _by(measured: Measured, audit: Audit) -> str:
    """The attack, where it is not the one whose numbers people see."""
    kind = measured.attack_kind
    return "" if kind.name == audit.attack else f", by {kind.phrase}"


LIMITS: Final = (
    Limit(
        rule="largest_exposure",
        unit="of 100",
        claim="may be as high as",
        bounds=_exposures,
    ),
    Limit(
        rule="largest_difference",
        unit="points",
        claim="may differ by as much as",
        bounds=_exposure_differences,
    ),
    Limit(
        rule="largest_detectable",
        unit="of 100",
        claim="is detected only from",
        bounds=_detectable,
    ),
    Limit(
        rule="largest_outcome_gap",
        unit="points",
        claim="may differ by as much as",
        bounds=_outcome_gaps,
    ),
    Limit(
        rule="largest_odds_gap",
        unit="points",
        claim="may differ by as much as",
        bounds=_odds_gaps,
    ),
    Limit(
        rule="largest_disparity",
        unit="of PCER",
        claim="may differ by as much as",
        bounds=_disparities,
    ),
    Limit(
        rule="largest_wrongly_gap",
        unit="points",
        claim="may be wrongly judged at rates apart by as much as",
        bounds=_wrongly_gaps,
    ),
    Limit(
        rule="most_spent",
        unit="of epsilon",
        claim="may have spent",
        bounds=_spent,
    ),
    Limit(
        rule="least_accuracy",
        unit="of 100",
        claim="may be as low as",
        bounds=_accuracies,
        is_minimum=True,
    ),
)
