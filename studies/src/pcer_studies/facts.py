"""The facts that the findings are written from, and how they are counted and named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pcer_studies.evidence_table import CostRow, GapRow
from pcer_studies.judgement import Judged
from pcer_studies.origin import OTHER_DATA, OTHER_FEATURES
from pcer_studies.protocol import OUR_READING, Configuration
from pcer_studies.results import Study
from pcer_studies.rules import SHARPER

FIGURES = "figures"
"""Folder of the figures, beside the page."""


@dataclass(frozen=True)
class Facts:
    """What the page is written from."""

    study: Study
    gaps: Sequence[GapRow]
    costs: Sequence[CostRow]
    judged: Sequence[Judged]

    def of(self, cost: str) -> list[CostRow]:
        """The settings by one cost."""
        return [row for row in self.costs if row.cost == cost]

    @property
    def sharper(self) -> dict[str, str]:
        """The sharper costs that the study carries, with their names in print."""
        carried = {row.cost for row in self.costs}
        return {cost: name for cost, name in SHARPER.items() if cost in carried}


def title(facts: Facts, one: Configuration) -> str:
    """A configuration's name with the mark of data that may not be the paper's."""
    if facts.study.data_note(one.dataset, one.attribute):
        return f"{one.name} {OTHER_DATA}"
    return f"{one.name} {OTHER_FEATURES}" if one.dataset in OUR_READING else one.name


def stands_out(row: GapRow) -> bool:
    """Whether a published gap can be told from split luck."""
    return row.published.stands_out


def n_resolved(rows: Iterable[CostRow]) -> int:
    """How many costs are told from chance; each setting has two."""
    return sum(sum(row.resolved) for row in rows)


def count(rows: Sequence[GapRow] | Sequence[CostRow], test: Callable[..., bool]) -> str:
    """How many rows pass a test, of how many.

    >>> count([], bool)
    '0/0'
    """
    return f"{sum(test(row) for row in rows)}/{len(rows)}"
