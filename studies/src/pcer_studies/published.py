"""Which figures does the paper print, and which of our numbers answers each?

Every figure carries a ``FigureKey``; ``numbers`` finds our number under the same key.
``published.csv`` holds the 448 cells of Tables 1-3, S1 and S3-S6; ``text_figures.csv``
the figures that stand only in the text or in Table S2. Numbers are kept as printed:
their last digit says how far they were rounded. The paper is cited in ``protocol``.

To add a published figure: a line of one of the two files; a new quantity also needs a
row of ``numbers._QUANTITIES``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

from pcer.errors import InputError
from pcer_studies import protocol
from pcer_studies.protocol import DEFAULT_FLOOR, Configuration

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
"""Printed number of every table by its label, in the paper's order."""


FLOORED = {
    "pcer",
    "pcer_disparity",
    "pcer_disparity_auc",
    "n_positive_seeds",
    "n_negative_seeds",
    "sign_test_p",
}
"""Quantities at one budget that depend on the floor."""


class NotThere(InputError):
    """A figure that was not printed, or that a study does not have; says which."""


@dataclass(frozen=True, kw_only=True)
class FigureKey:
    """Which number: a published figure and ours are comparable because they share it.

    Attributes:
        configuration: dataset and attribute; None for all six.
        quantity: what it is, by the name pcer uses.
        budgets: the budgets it is about; infinity without differential privacy.
        group: of which group, or None.
        floor: of PCER, or None where no floor is in it.
        over: how the budgets become one number: ``each`` (there is one), ``smallest``,
            ``largest``, ``mean``, or ``all`` (the quantity is about all of them).
    """

    configuration: Configuration | None
    quantity: str
    budgets: tuple[float, ...]
    group: str | None = None
    floor: float | None = None
    over: str = "each"

    @property
    def dataset(self) -> str | None:
        """Name of the dataset, or None for all."""
        return None if self.configuration is None else self.configuration.dataset

    @property
    def attribute(self) -> str | None:
        """Protected attribute, or None for all."""
        return None if self.configuration is None else self.configuration.attribute


def key_at(
    configuration: Configuration,
    epsilon: float,
    quantity: str,
    *,
    group: str | None = None,
    floor: float = DEFAULT_FLOOR,
) -> FigureKey:
    """A quantity of a configuration at a budget; at a floor if it depends on one."""
    return FigureKey(
        configuration=configuration,
        quantity=quantity,
        budgets=(epsilon,),
        group=group,
        floor=floor if quantity in FLOORED else None,
    )


@dataclass(frozen=True, kw_only=True)
class PrintedFigure:
    """One figure of the paper: a number, or the words that stand in place of one.

    Attributes:
        name: label of the table it stands in, or our name of a figure outside the
            tables.
        place: the table as printed, such as ``Table S1``; else section label or title.
        key: which number it is.
        printed: as printed.
        value: the number, or None for words.
        std: standard deviation over seeds, where printed.
        ci: 95 % interval, where printed.
        digits: decimals that were printed.
    """

    name: str
    place: str
    key: FigureKey
    printed: str
    value: float | None
    std: float | None
    ci: tuple[float, float] | None
    digits: int

    @property
    def in_table(self) -> bool:
        """Whether it is a cell of a table of numbers."""
        return self.name in TABLE_NAMES

    @property
    def half_digit(self) -> float:
        """Half a unit of the last printed digit."""
        return 0.5 * 10.0**-self.digits


def published_figures(**wanted: Any) -> tuple[PrintedFigure, ...]:
    """The figures whose fields, or whose key's fields, equal what is asked for.

    In the paper's order: cells by table, then the figures outside the tables.

    >>> len(published_figures(in_table=True))
    448
    >>> wanted = {"name": "tab:acs", "quantity": "pcer_disparity", "budgets": (0.5,)}
    >>> [figure.value for figure in published_figures(**wanted)]
    [14.0, 33.0]
    """
    for name in wanted:
        if name not in _FIGURE_FIELDS | _KEY_FIELDS:
            known = sorted(_FIGURE_FIELDS | _KEY_FIELDS)
            raise TypeError(f"PrintedFigure has no field {name!r}; it has {known}.")
    return tuple(figure for figure in _figures() if _has_fields(figure, wanted))


def figures_at(key: FigureKey) -> tuple[PrintedFigure, ...]:
    """Every place that prints this number.

    The configuration's own table comes first, then other tables, then the text.
    """
    return _by_key().get(key, ())


def own_cell(key: FigureKey) -> PrintedFigure | None:
    """The cell of the configuration's own table, or None."""
    for figure in figures_at(key):
        if _is_own_cell(figure):
            return figure
    return None


def text_figure(name: str) -> PrintedFigure:
    """The figure of this name outside the tables.

    >>> text_figure("sign_agreements").value
    32.0
    """
    (figure,) = published_figures(name=name, in_table=False)
    return figure


def decimals_of(printed: str) -> int:
    """How many decimals a number was printed with.

    >>> decimals_of("-19.9"), decimals_of("+65"), decimals_of(".0084")
    (1, 0, 4)
    """
    return len(printed.partition(".")[2])


_FIGURE_FIELDS = {"in_table", *(field.name for field in fields(PrintedFigure))}
_KEY_FIELDS = {"dataset", "attribute", *(field.name for field in fields(FigureKey))}


def _has_fields(figure: PrintedFigure, wanted: Mapping[str, Any]) -> bool:
    """Whether a figure, or its key, has these values of its fields."""
    for name, value in wanted.items():
        holder = figure if name in _FIGURE_FIELDS else figure.key
        if getattr(holder, name) != value:
            return False
    return True


@cache
def _figures() -> tuple[PrintedFigure, ...]:
    """Every published figure, in the paper's order."""
    order = list(TABLE_NAMES)
    cells = sorted(_rows("published.csv"), key=lambda row: order.index(row["table"]))
    return (*map(_table_cell, cells), *map(_text_figure, _rows("text_figures.csv")))


@cache
def _by_key() -> dict[FigureKey, tuple[PrintedFigure, ...]]:
    """The figures that print the same number, its own table first."""
    groups: dict[FigureKey, list[PrintedFigure]] = {}
    for figure in _figures():
        groups.setdefault(figure.key, []).append(figure)
    return {key: tuple(sorted(group, key=_rank)) for key, group in groups.items()}


def _rank(figure: PrintedFigure) -> tuple[bool, bool]:
    """Sorts a configuration's own table before other tables, and these before text."""
    return not _is_own_cell(figure), not figure.in_table


def _is_own_cell(figure: PrintedFigure) -> bool:
    """Whether it stands in the main table of its configuration."""
    configuration = figure.key.configuration
    return configuration is not None and figure.name == configuration.table


def _table_cell(row: dict[str, str]) -> PrintedFigure:
    return _figure(
        row,
        name=row["table"],
        place=TABLE_NAMES[row["table"]],
        budgets=row["epsilon"],
        printed=row["value"],
        over="each",
    )


def _text_figure(row: dict[str, str]) -> PrintedFigure:
    return _figure(
        row,
        name=row["key"],
        place=TABLE_NAMES.get(row["place"], row["place"]),
        budgets=row["budgets"],
        printed=row["printed"],
        over=row["over"],
    )


def _figure(
    row: dict[str, str], *, name: str, place: str, budgets: str, printed: str, over: str
) -> PrintedFigure:
    configuration = None
    if row["dataset"]:
        configuration = protocol.configuration(row["dataset"], row["attribute"])
    key = FigureKey(
        configuration=configuration,
        quantity=row["quantity"],
        budgets=tuple(_budget(word) for word in budgets.split()),
        group=row["group"] or None,
        floor=_number(row["floor"]),
        over=over,
    )
    low = _number(row["ci_low"])
    high = _number(row["ci_high"])
    return PrintedFigure(
        name=name,
        place=place,
        key=key,
        printed=printed,
        value=_number(row["value"]),
        std=_number(row["std"]),
        ci=None if low is None or high is None else (low, high),
        digits=decimals_of(row["value"]),
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = resources.files("pcer_studies").joinpath(name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _budget(word: str) -> float:
    return math.inf if word == "no-DP" else float(word)


def _number(word: str) -> float | None:
    return float(word) if word else None
