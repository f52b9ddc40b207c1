"""Benchmark tasks and users' tables: records, labels and protected attributes."""

from __future__ import annotations

from pcer.data.benchmarks import describe_datasets, load
from pcer.data.dataset import (
    GroupedDataset,
    ProtectedAttribute,
    Split,
    split,
    standardise,
)
from pcer.data.own_table import OwnTable, TablePlan, read_table
from pcer.data.task import DatasetTask

__all__ = [
    "DatasetTask",
    "GroupedDataset",
    "OwnTable",
    "ProtectedAttribute",
    "Split",
    "TablePlan",
    "describe_datasets",
    "load",
    "read_table",
    "split",
    "standardise",
]
