"""The paper's published figures, each with its place.

``published.csv`` holds the 448 cells of Tables 1-3, S1 and S3-S6; ``text_figures.csv`` the
figures that stand only in the text or in Table S2. Numbers are kept as printed: their last
digit says how far they were rounded. The paper is cited in ``pcer_studies.protocol``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

TABLE_NAMES = {
    "tab:compas-race": "Table 1",
    "tab:acs": "Table 2",
    "tab:bios-gender": "Table 3",
    "tab:floor-sensitivity": "Table S1",
    "tab:summary": "Table S2",
    "tab:adult-sex": "Table S3",
    "tab:adult-race": "Table S4",
    "tab:mia-full": "Table S5",
    "tab:mia-full-b": "Table S6",
}
"""Printed number of every table by its label."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of one of the paper's tables.

    Attributes:
        table: label of the table.
        dataset: name of the dataset.
        attribute: protected attribute.
        epsilon: the budget; infinity without differential privacy.
        quantity: what it is, by the name pcer uses.
        group: of which group, or None.
        floor: of PCER, or None where no floor is in it.
        value: the number.
        std: standard deviation over seeds, where printed.
        ci_low: lower end of the 95 % interval, where printed.
        ci_high: upper end.
        digits: decimals that were printed.
    """

    table: str
    dataset: str
    attribute: str
    epsilon: float
    quantity: str
    group: str | None
    floor: float | None
    value: float
    std: float | None
    ci_low: float | None
    ci_high: float | None
    digits: int

    @property
    def table_name(self) -> str:
        """As printed, such as ``Table S1``."""
        return TABLE_NAMES[self.table]


@dataclass(frozen=True, kw_only=True)
class TextFigure:
    """One figure that stands only in the text or in Table S2.

    Attributes:
        key: our name of it.
        place: where it stands: section label or title.
        dataset: name of the dataset, or None for all six configurations.
        attribute: protected attribute, or None.
        budgets: the budgets it is about.
        quantity: what it is.
        group: of which group, or None.
        floor: of PCER, or None.
        over: how the budgets become one number: ``each`` (there is one), ``smallest``,
            ``largest``, ``mean``, or ``all`` (the quantity is about all of them).
        printed: as printed.
        value: the number, or None for words.
        std: standard deviation, where printed.
        ci_low: lower end of the interval, where printed.
        ci_high: upper end.
        digits: decimals that were printed.
    """

    key: str
    place: str
    dataset: str | None
    attribute: str | None
    budgets: tuple[float, ...]
    quantity: str
    group: str | None
    floor: float | None
    over: str
    printed: str
    value: float | None
    std: float | None
    ci_low: float | None
    ci_high: float | None
    digits: int


def published_cells(**wanted: Any) -> tuple[Cell, ...]:
    """The cells whose fields equal what is asked for, in the paper's order.

    >>> len(published_cells())
    448
    >>> published_cells(table="tab:acs", quantity="pcer_disparity", epsilon=0.5)[0].value
    14.0
    """
    return tuple(cell for cell in _cells() if _has(cell, wanted))


def text_figures(**wanted: Any) -> tuple[TextFigure, ...]:
    """The figures outside the tables whose fields equal what is asked for.

    >>> text_figures(key="sign_agreements")[0].value
    32.0
    """
    return tuple(figure for figure in TEXT_FIGURES if _has(figure, wanted))


def decimals_of(printed: str) -> int:
    """How many decimals a number was printed with.

    >>> decimals_of("-19.9"), decimals_of("+65"), decimals_of(".0084")
    (1, 0, 4)
    """
    return len(printed.partition(".")[2])


def _has(one: Cell | TextFigure, wanted: dict[str, Any]) -> bool:
    known = {field.name for field in fields(one)}
    for name in wanted:
        if name not in known:
            raise TypeError(f"{type(one).__name__} has no field {name!r}; it has {sorted(known)}.")
    return all(getattr(one, name) == value for name, value in wanted.items())


@cache
def _cells() -> tuple[Cell, ...]:
    return tuple(
        Cell(
            table=row["table"],
            dataset=row["dataset"],
            attribute=row["attribute"],
            epsilon=_budget(row["epsilon"]),
            quantity=row["quantity"],
            group=row["group"] or None,
            floor=_number(row["floor"]),
            value=float(row["value"]),
            std=_number(row["std"]),
            ci_low=_number(row["ci_low"]),
            ci_high=_number(row["ci_high"]),
            digits=decimals_of(row["value"]),
        )
        for row in _rows("published.csv")
    )


def _figures() -> tuple[TextFigure, ...]:
    return tuple(
        TextFigure(
            key=row["key"],
            place=row["place"],
            dataset=row["dataset"] or None,
            attribute=row["attribute"] or None,
            budgets=tuple(_budget(word) for word in row["budgets"].split()),
            quantity=row["quantity"],
            group=row["group"] or None,
            floor=_number(row["floor"]),
            over=row["over"],
            printed=row["printed"],
            value=_number(row["value"]),
            std=_number(row["std"]),
            ci_low=_number(row["ci_low"]),
            ci_high=_number(row["ci_high"]),
            digits=decimals_of(row["value"]),
        )
        for row in _rows("text_figures.csv")
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = resources.files("pcer_studies").joinpath(name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _budget(word: str) -> float:
    return math.inf if word == "no-DP" else float(word)


def _number(word: str) -> float | None:
    return float(word) if word else None


TEXT_FIGURES = _figures()
"""Every figure that stands only in the text or in Table S2."""
