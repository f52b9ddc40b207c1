"""What an attacker learns: exposure per group, from the scores of models."""

from __future__ import annotations

from pcer.attacks.coins import (
    CHECKING,
    CheckedCoins,
    CoinDraws,
    check_with_coins,
    coin_panel,
    draw_coins,
    no_coins,
)
from pcer.attacks.divisions import Divisions
from pcer.attacks.epsilon import EpsilonBound, alarm_notes, bound_epsilon, weigh
from pcer.attacks.exposure import (
    BudgetScores,
    ExposedSetting,
    PooledAttacks,
    RecordShares,
    RunAttacks,
    epsilon_bounds,
    epsilon_bounds_of,
    exposure_from_scores,
    pooled_attacks_of,
    pooled_exposure_from_scores,
    pooled_exposures,
    pooled_exposures_of,
    pooled_notes,
    run_attacks_of,
    run_exposures,
    run_exposures_of,
    weaker_notes,
)
from pcer.attacks.lira import LEAST_MODELS
from pcer.attacks.moments import GroupMeans
from pcer.attacks.personal import PersonalAlarms, personal_alarms, personal_exposures
from pcer.attacks.placebo import (
    DRAWS,
    PLACEBOS,
    Permutations,
    PermutationTest,
    Records,
    group_means,
    permutation_tests,
    placebo_groupings,
    record_orders,
)
from pcer.attacks.single import beyond_reference, log_odds

__all__ = [
    "CHECKING",
    "DRAWS",
    "LEAST_MODELS",
    "PLACEBOS",
    "BudgetScores",
    "CheckedCoins",
    "CoinDraws",
    "Divisions",
    "EpsilonBound",
    "ExposedSetting",
    "GroupMeans",
    "PermutationTest",
    "Permutations",
    "PersonalAlarms",
    "PooledAttacks",
    "RecordShares",
    "Records",
    "RunAttacks",
    "alarm_notes",
    "beyond_reference",
    "bound_epsilon",
    "check_with_coins",
    "coin_panel",
    "draw_coins",
    "epsilon_bounds",
    "epsilon_bounds_of",
    "exposure_from_scores",
    "group_means",
    "log_odds",
    "no_coins",
    "permutation_tests",
    "personal_alarms",
    "personal_exposures",
    "placebo_groupings",
    "pooled_attacks_of",
    "pooled_exposure_from_scores",
    "pooled_exposures",
    "pooled_exposures_of",
    "pooled_notes",
    "record_orders",
    "run_attacks_of",
    "run_exposures",
    "run_exposures_of",
    "weaker_notes",
    "weigh",
]
