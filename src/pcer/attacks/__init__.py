"""Attacks: exposure per group, from the scores of models."""

from __future__ import annotations

from pcer.attacks.attack import attack_models
from pcer.attacks.exposure_rows import add_exposures, answered_by, count_models
from pcer.attacks.permutation import permutation_tests
from pcer.attacks.placebo import check_with_coins, draw_coins, placebo_groupings
from pcer.attacks.scorers import SettingScores
from pcer.attacks.single import beyond_reference, log_odds
from pcer.attacks.sums import Divisions

__all__ = [
    "Divisions",
    "SettingScores",
    "add_exposures",
    "answered_by",
    "attack_models",
    "beyond_reference",
    "check_with_coins",
    "count_models",
    "draw_coins",
    "log_odds",
    "permutation_tests",
    "placebo_groupings",
]
