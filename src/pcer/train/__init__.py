"""Train many small models at once with DP-SGD, and keep what they say about every record."""

from __future__ import annotations

from pcer.train.accounting import NOISE_STEPS, Budget, calibrate, epsilon_spent, joint_epsilon
from pcer.train.config import (
    ADDED_SETTINGS,
    NO_DP,
    Accountant,
    Adjacency,
    Engine,
    EngineFlags,
    ReceiptMode,
    TrainConfig,
    parse_budgets,
)
from pcer.train.fleet import (
    BlockResult,
    Model,
    Predictions,
    StepCounts,
    TrainingData,
    cut_blocks,
    gather_predictions,
    plan_models,
)
from pcer.train.modules import NamedModule
from pcer.train.receipts import Terms, fold, realised_of, receipt_of
from pcer.train.renyi import allowed_advantage, mu_of
from pcer.train.rules import N_BINS, RULES, TrainingRule
from pcer.train.run import installed_versions, prepare, require_engine, run_blocks, train_seeds

__all__ = [
    "ADDED_SETTINGS",
    "NOISE_STEPS",
    "NO_DP",
    "N_BINS",
    "RULES",
    "Accountant",
    "Adjacency",
    "BlockResult",
    "Budget",
    "Engine",
    "EngineFlags",
    "Model",
    "NamedModule",
    "Predictions",
    "ReceiptMode",
    "StepCounts",
    "Terms",
    "TrainConfig",
    "TrainingData",
    "TrainingRule",
    "allowed_advantage",
    "calibrate",
    "cut_blocks",
    "epsilon_spent",
    "fold",
    "gather_predictions",
    "installed_versions",
    "joint_epsilon",
    "mu_of",
    "parse_budgets",
    "plan_models",
    "prepare",
    "realised_of",
    "receipt_of",
    "require_engine",
    "run_blocks",
    "train_seeds",
]
