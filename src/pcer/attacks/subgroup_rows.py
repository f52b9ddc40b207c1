"""Which subgroup does a release name, and what leaves of the search for it?

The trainer names attributes before looking (``SettingScores.traits``).
``exposure_rows`` has everybody attacked as one group and calls ``subgroup_rows``, which
searches exposures by two attacks, rates of predictions, and wrong judgements. Of each
search leave p-values, thresholds and at most one subgroup: its rule, how many people to
10, difference and bound. A rule that tables beside it would turn into few people, or
into everybody's outcome, is not named. To add a search: its numbers in
``subgroup_rows``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from pcer.attacks.attack import Attacked
from pcer.attacks.rates import record_rates
from pcer.attacks.scorers import SettingScores
from pcer.attacks.subgroups import (
    DEPTH,
    DRAWS,
    FACTOR,
    LEAST_PEOPLE,
    Worst,
    worst_subgroup,
)
from pcer.attacks.sums import Groups
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.attack_kinds import (
    AUC_ADVANTAGE,
    LIRA,
    PAIRED_CONFIDENCE,
    REFERENCE,
    RMIA,
)
from pcer.release.records import (
    Condition,
    Outcome,
    SubgroupSearch,
    SubgroupTest,
    WorstSubgroup,
)
from pcer.statistics import SIGNIFICANCE, finite_or_none

SEED = 0  # fixed, so that the owner of the records can repeat the search
EVERYBODY = "everybody"
# The first that there is is searched beside paired confidence.
ADVANTAGES = (RMIA.name, LIRA.name, REFERENCE.name, AUC_ADVANTAGE.name)
LEAST_REST = 50  # people of a shorter rule whom a longer one leaves
LEAST_CELL = 10  # people of a subgroup with a prediction, and without it
STEP = 10  # numbers of people are told to so many
DIGITS = 3
About = Literal["exposure", "outcomes", "wrongly"]


class Numbers(NamedTuple):
    """One setting's numbers of one kind, (record,), NaN where there is none."""

    setting: SettingScores
    attack: str | None  # None: no attack, a rate
    values: FloatArray


class Found(NamedTuple):
    """A search among everybody, and the same within labels."""

    numbers: Numbers
    plain: Worst
    within: Worst


def as_one_group(models: SettingScores) -> SettingScores:
    """Models whose people are all in one group."""
    nobody_apart = np.zeros_like(models.group)
    return replace(models, group=nobody_apart, group_names=(EVERYBODY,))


def subgroup_rows(
    settings: Sequence[SettingScores],
    attacked: Sequence[Attacked],
    outcome: Outcome,
) -> list[SubgroupSearch]:
    """All searches of a file: one of exposure, of outcomes and of errors.

    Args:
        settings: everybody ``as_one_group``, in every setting.
        attacked: their results.
        outcome: whether a positive prediction helps or harms.
    """
    searches: list[tuple[About, list[Numbers]]] = [
        ("exposure", list(_exposures(settings, attacked))),
        ("outcomes", list(_outcomes(settings, attacked, outcome))),
        ("wrongly", list(_wrongly(settings, outcome))),
    ]
    rows = []
    for about, numbers in searches:
        if numbers:
            rows.append(_search(about, numbers))
    return rows


# The numbers that are searched


def _exposures(
    settings: Sequence[SettingScores], attacked: Sequence[Attacked]
) -> Iterator[Numbers]:
    """By an advantage and by paired confidence, as far as a setting has them."""
    for setting, result in zip(settings, attacked, strict=True):
        named = [name for name in ADVANTAGES if name in result.exposure][:1]
        for name in (*named, PAIRED_CONFIDENCE.name):
            if name in result.exposure:
                yield Numbers(setting, name, result.exposure[name])


def _outcomes(
    settings: Sequence[SettingScores], attacked: Sequence[Attacked], outcome: Outcome
) -> Iterator[Numbers]:
    """Rates of harmful predictions, or of withheld benefits."""
    for setting, result in zip(settings, attacked, strict=True):
        rate = result.benefit
        yield Numbers(setting, None, rate if outcome == "harm" else 1 - rate)


def _wrongly(settings: Sequence[SettingScores], outcome: Outcome) -> Iterator[Numbers]:
    """Rates of wrong judgements, of those who can meet them."""
    for setting in settings:
        can_meet = setting.labels == (0 if outcome == "harm" else 1)
        groups = Groups(np.where(can_meet, 0, -1), 1)
        answers = setting.answers
        rate, _ = record_rates(answers, setting.labels, setting.member, groups)
        errors = groups.by_record(rate.value, rate.own)
        if outcome == "benefit":
            errors = 1 - errors
        yield Numbers(setting, None, np.where(can_meet, errors, np.nan))


# The search


def _search(about: About, numbers: Sequence[Numbers]) -> SubgroupSearch:
    """One search over settings and attacks, each at its share of the level."""
    level = SIGNIFICANCE / len(numbers)
    draws = max(DRAWS, math.ceil(1 / level) - 1)
    found = [_found(about, one, level, draws) for one in numbers]
    tests = [_test(one) for one in found]
    first = min(found, key=lambda one: one.plain.p_value)
    winner, withheld = _winner(about, first)
    return SubgroupSearch(
        about=about,
        attributes=list(numbers[0].setting.traits),
        depth=DEPTH,
        least=LEAST_PEOPLE,
        factor=FACTOR,
        level=level,
        n_candidates=max(one.plain.n_candidates for one in found),
        n_permutations=draws,
        seed=SEED,
        tests=tests,
        worst=winner,
        withheld=withheld,
    )


def _found(about: About, numbers: Numbers, level: float, draws: int) -> Found:
    setting = numbers.setting
    by_label = None if about == "wrongly" else setting.labels
    searches = []
    for strata in (None, by_label):
        search = worst_subgroup(
            numbers.values,
            setting.traits,
            depth=DEPTH,
            least=LEAST_PEOPLE,
            strata=strata,
            draws=draws,
            seed=SEED,
            person=setting.person,
            level=level,
        )
        searches.append(search)
    return Found(numbers, *searches)


def _test(found: Found) -> SubgroupTest:
    setting = found.numbers.setting
    return SubgroupTest(
        model=setting.model,
        epsilon=setting.released_epsilon,
        attack=found.numbers.attack,
        p_value=found.plain.p_value,
        p_value_within_labels=found.within.p_value,
        critical_value=finite_or_none(_rounded_up(found.plain.critical_value)),
        detectable=finite_or_none(_rounded_up(found.plain.detectable)),
    )


def _winner(about: About, found: Found) -> tuple[WorstSubgroup | None, str | None]:
    """The subgroup that stands out, or why one that does is not named."""
    worst = found.plain
    if not worst.conditions:
        return None, None
    reason = _reason(about, found)
    if reason is not None:
        return None, reason
    setting = found.numbers.setting
    error = _rounded_up(worst.standard_error)
    difference = float(f"{worst.difference:.{DIGITS}g}")
    bound = difference - _rounded_up(worst.critical_value) * error
    rule = [Condition(attribute=name, value=value) for name, value in worst.conditions]
    winner = WorstSubgroup(
        model=setting.model,
        epsilon=setting.released_epsilon,
        attack=found.numbers.attack,
        rule=rule,
        n_people=STEP * round(worst.n_people / STEP),
        difference=difference,
        standard_error=error,
        lower_bound=bound,
    )
    return winner, None


def _reason(about: About, found: Found) -> str | None:
    """Why a subgroup that stands out is not named; None if it may be."""
    values = found.numbers.values
    setting = found.numbers.setting
    person = setting.person
    is_known = np.isfinite(values)
    inside = _are_inside(setting, found.plain.conditions)
    parents = []
    rule = found.plain.conditions
    for shorter in combinations(rule, len(rule) - 1):
        parents.append(_are_inside(setting, shorter))
    for parent in parents:
        if _n_people(is_known & parent & ~inside, person) < LEAST_REST:
            return f"fewer than {LEAST_REST} people have a shorter rule and not this"
    if about == "exposure":
        return None
    for part in (inside, *(parent & ~inside for parent in parents)):
        chosen = is_known & part
        n_people = _n_people(chosen, person)
        n_met = n_people * float(values[chosen].mean())
        if min(n_met, n_people - n_met) < LEAST_CELL:
            return f"fewer than {LEAST_CELL} people of it have one of the two outcomes"
    return None


def _are_inside(
    setting: SettingScores, conditions: Sequence[tuple[str, str]]
) -> BoolArray:
    """(record,) who has all values; everybody where there are no conditions."""
    inside = np.ones(len(setting.labels), dtype=bool)
    for name, value in conditions:
        inside &= setting.traits[name] == value
    return inside


def _n_people(chosen: BoolArray, person: IntArray | None) -> int:
    return int(chosen.sum()) if person is None else len(np.unique(person[chosen]))


def _rounded_up(number: float) -> float:
    """A number above 0 with three digits, never less than it was."""
    if number <= 0 or not math.isfinite(number):
        return number
    unit = 10.0 ** (math.floor(math.log10(number)) - DIGITS + 1)
    return float(f"{math.ceil(number / unit) * unit:.{DIGITS}g}")
