"""Where words of the paper had to become numbers: ``thresholds.csv``, each with its meaning."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


def threshold(name: str) -> float:
    """A number that stands for a word such as "flat"; KeyError for a name that is not there.

    >>> threshold("flat")
    0.1
    """
    return _thresholds()[name][0]


def threshold_meanings() -> dict[str, tuple[float, str]]:
    """Every threshold with its meaning, in the file's order."""
    return dict(_thresholds())


@cache
def _thresholds() -> dict[str, tuple[float, str]]:
    text = resources.files("pcer_studies").joinpath("thresholds.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["name"]: (float(row["value"]), row["meaning"]) for row in rows}
