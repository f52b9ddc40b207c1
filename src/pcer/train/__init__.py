"""Train many small models at once with DP-SGD, and keep their scores of all records."""

from __future__ import annotations

from pcer.train.accounting import Budget, calibrate, epsilon_spent
from pcer.train.config import (
    NO_DP,
    Accountant,
    EngineFlags,
    ReceiptMode,
    TrainConfig,
    parse_budgets,
    parse_hidden,
)
from pcer.train.fleet import Predictions, TrainingData
from pcer.train.opacus import NamedModule
from pcer.train.rules import RULES, DpSgd
from pcer.train.run import train_seeds

__all__ = [
    "NO_DP",
    "RULES",
    "Accountant",
    "Budget",
    "DpSgd",
    "EngineFlags",
    "NamedModule",
    "Predictions",
    "ReceiptMode",
    "TrainConfig",
    "TrainingData",
    "calibrate",
    "epsilon_spent",
    "parse_budgets",
    "parse_hidden",
    "train_seeds",
]
