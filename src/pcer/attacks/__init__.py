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
from pcer.attacks.exposure import (
    BudgetScores,
    ExposedSetting,
    PooledAttacks,
    RecordShares,
    RunAttacks,
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
    "ExposedSetting",
    "GroupMeans",
    "PermutationTest",
    "Permutations",
    "PooledAttacks",
    "RecordShares",
    "Records",
    "RunAttacks",
    "beyond_reference",
    "check_with_coins",
    "coin_panel",
    "draw_coins",
    "exposure_from_scores",
    "group_means",
    "log_odds",
    "no_coins",
    "permutation_tests",
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
]
