"""What may a release say of people whom an attacker spots almost surely?

``exposure_rows`` calls ``picked_in`` once a setting, since nobody is picked by group,
and ``tail_rows`` for every attribute: shares by group, rounded so that one person
changes none of them visibly, and tests of a difference between groups. What cannot be
said has a reason. To add a number by group: a field of ``TailRow`` (release/records).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pcer.attacks.permutation import DRAWS
from pcer.attacks.placebo import pairs_of_groups
from pcer.attacks.scorers import SettingScores, true_label_logits
from pcer.attacks.sums import Divisions
from pcer.attacks.tail import (
    LEAST_SPLITS,
    THRESHOLD,
    GroupTail,
    Tail,
    p_of_draws,
    tail,
    tail_alarms,
    tail_draws,
    tail_of_groups,
)
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import PAIRED_CONFIDENCE
from pcer.release.records import PooledExposure, TailRow
from pcer.statistics import finite_or_none

TAIL = "tail"  # its name in ``not_computed``
MANY_PEOPLE = 1_000  # from so many on shares are told to .1 of 100, else to 1
FINE = 1_000  # steps of a share of 1
COARSE = 100
MOST = 0.99  # "99 or more"


class Picked(NamedTuple):
    """Who was picked in one setting, or None and the reason."""

    found: Tail | None
    reason: str


def picked_in(models: SettingScores) -> Picked:
    """Pick and verify people by what the models of one setting give the true label."""
    if models.of_tables and not models.has_probabilities:
        return Picked(None, "")  # outcomes alone
    if not models.has_probabilities:
        return Picked(None, "the models give no probabilities to order them by")
    if models.n_splits < LEAST_SPLITS:
        return Picked(
            None,
            f"it needs at least {LEAST_SPLITS} different splits, and there are "
            f"{models.n_splits}",
        )
    return Picked(tail(true_label_logits(models), models.member, models.split), "")


def tail_rows(
    models: SettingScores,
    found: Tail,
    pooled: Sequence[PooledExposure],
    coins: Divisions | None,
    n_draws: int = DRAWS,
) -> list[TailRow]:
    """Rows of one setting and attribute: of each group, and beside which other.

    Args:
        models: the groups, labels and people.
        found: of ``picked_in``.
        pooled: the setting's rows, which say how far groups' luck is separate.
        coins: placebo groupings to test as well.
        n_draws: permutations of every pair.
    """
    n_groups = len(models.group_names)
    separation = _separation(models, pooled)
    groups = tail_of_groups(
        found, models.group, n_groups, separation=separation, person=models.person
    )
    tests: dict[int, dict[str, Any]] = {}
    for pair in pairs_of_groups(models.group, n_groups):
        if groups.is_enough[[*pair]].all():
            rho = float(np.nanmax([0.0, *separation[[*pair]]]))
            tests[pair[1]] = _tests(models, found, pair, rho, coins, n_draws)

    rows = []
    for group, name in enumerate(models.group_names):
        numbers: dict[str, Any] = {}  # too few of this group
        if groups.is_enough[group]:
            n_people = _n_people(models, group)
            numbers = _rounded(groups, group, n_people) | tests.get(group, {})
        row = TailRow(
            model=models.model,
            epsilon=models.released_epsilon,
            group=name,
            n_models=found.n_models,
            threshold=THRESHOLD,
            **numbers,
        )
        rows.append(row)
    return rows


def _separation(models: SettingScores, pooled: Sequence[PooledExposure]) -> FloatArray:
    """(group,) of the rows of paired confidence; NaN where it is not known."""
    by_group = {}
    for row in pooled:
        if row.attack == PAIRED_CONFIDENCE.name and row.separation is not None:
            by_group[row.group] = row.separation
    return np.array([by_group.get(name, np.nan) for name in models.group_names])


def _tests(
    models: SettingScores,
    found: Tail,
    pair: tuple[int, int],
    separation: float,
    coins: Divisions | None,
    n_draws: int,
) -> dict[str, Any]:
    """p-values of a difference of two groups, and how many made-up groups alarm."""
    codes = models.group
    person = models.person
    among = tail_draws(found, codes, pair, person=person, n_draws=n_draws)
    within = tail_draws(
        found, codes, pair, person=person, strata=models.labels, n_draws=n_draws
    )
    numbers: dict[str, Any] = {
        "against": models.group_names[pair[0]],
        "p_value": finite_or_none(p_of_draws(among, separation)),
        "p_value_within_labels": finite_or_none(p_of_draws(within, separation)),
        "n_permutations": n_draws,
    }
    if coins is not None and person is None:
        numbers["n_draws"] = len(coins)
        numbers["n_alarms"] = tail_alarms(found, coins, pair, among, separation)
    return numbers


def _n_people(models: SettingScores, group: int) -> int:
    is_inside = models.group == group
    if models.person is None:
        return int(is_inside.sum())
    return len(np.unique(models.person[is_inside]))


def _rounded(groups: GroupTail, group: int, n_people: int) -> dict[str, Any]:
    """Shares of one group as they may leave; errors are rounded up."""
    steps = FINE if n_people >= MANY_PEOPLE else COARSE
    numbers: dict[str, Any] = {}
    for name in ("picked", "by_chance", "right"):
        share = float(getattr(groups, name)[group])
        numbers[name] = min(round(steps * share) / steps, MOST)
    for name in ("picked_error", "right_error"):
        error = float(getattr(groups, name)[group])
        numbers[name] = math.ceil(steps * error) / steps
    return numbers
