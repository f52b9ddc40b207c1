"""The data room: four benchmark tasks, and anyone's own table."""

from __future__ import annotations

from pcer.data import acs, adult, bios, compas
from pcer.data.benchmarks import SOURCES, TASKS, load, task_at_hand
from pcer.data.dataset import (
    GroupedDataset,
    ProtectedAttribute,
    Split,
    column_widths,
    split,
    standardise,
)
from pcer.data.fetch import DataFile, locate
from pcer.data.listing import describe_datasets
from pcer.data.own_table import OwnTable, TablePlan, read_table
from pcer.data.table_file import (
    as_pattern,
    is_csv,
    require_columns,
    require_readable,
    unreadable,
)
from pcer.data.task import Category, Columns, DatasetTask, Encoded, FeatureRule, Number, build

__all__ = [
    "SOURCES",
    "TASKS",
    "Category",
    "Columns",
    "DataFile",
    "DatasetTask",
    "Encoded",
    "FeatureRule",
    "GroupedDataset",
    "Number",
    "OwnTable",
    "ProtectedAttribute",
    "Split",
    "TablePlan",
    "acs",
    "adult",
    "as_pattern",
    "bios",
    "build",
    "column_widths",
    "compas",
    "describe_datasets",
    "is_csv",
    "load",
    "locate",
    "read_table",
    "require_columns",
    "require_readable",
    "split",
    "standardise",
    "task_at_hand",
    "unreadable",
]
