"""What does ``sensitivity.json`` hold, and how is it read?

``analysis.analyse`` makes a ``Sensitivity``; ``page.to_page`` writes it for people. To
add a number: a field of the record that it is about.
"""

from __future__ import annotations

import os
import re
from typing import Any

from pcer.errors import InputError
from pcer.files import Record, canonical_json, parse_record, read_json, require_format
from pcer_studies.protocol import NO_DP
from pcer_studies.sensitivity.variants import VARIANTS

FORMAT, VERSION = "pcer-sensitivity", 1
_NUMBERS = re.compile(r"\[\n[-+.\de,\s]+\]")  # no string of JSON holds a line break


class Paired(Record):
    """Variant minus baseline over the same seeds.

    The p-value is adjusted over all numbers of the variant; None: too few seeds.
    """

    difference: float
    standard_error: float | None
    p_value: float | None


class VariantNumber(Record):
    """One quantity with what is published and what the baseline has."""

    quantity: str
    group: str | None
    mean: float
    standard_error: float | None
    interval: list[float] | None
    published: float | None
    published_std: float | None
    paired: Paired | None
    values: list[float]


class VariantRow(Record):
    """One attribute and budget of a variant; no ``epsilon``: trained without DP."""

    attribute: str
    epsilon: float | None
    trained_epsilon: float | None
    noise_multiplier: float | None
    epsilon_spent: float | None
    numbers: list[VariantNumber]

    @property
    def budget(self) -> float:
        """The paper's budget that it stands for."""
        return NO_DP if self.epsilon is None else self.epsilon

    def number(self, quantity: str, group: str | None = None) -> VariantNumber | None:
        """One of its numbers, or None."""
        for number in self.numbers:
            if (number.quantity, number.group) == (quantity, group):
                return number
        return None


class VariantResult(Record):
    """One variant, with everything that was measured of it."""

    name: str
    question: str
    dataset: str
    baseline: str | None
    change: str
    support: str
    contradicts: list[str]
    n_features: int
    seeds: list[int]
    splits: list[str]
    same_splits: bool | None
    same_streams: bool | None
    distance: float | None
    n_cells: int
    rows: list[VariantRow]

    def has_budget(self, epsilon: float) -> bool:
        """Whether it was trained at this budget of the paper."""
        return any(row.budget == epsilon for row in self.rows)

    def row(self, attribute: str, epsilon: float) -> VariantRow | None:
        """Its models of one budget, seen by one attribute; None if not trained."""
        for row in self.rows:
            if (row.attribute, row.budget) == (attribute, epsilon):
                return row
        return None

    def number(
        self, attribute: str, epsilon: float, quantity: str, group: str | None = None
    ) -> VariantNumber | None:
        """One number of one of its rows, or None."""
        row = self.row(attribute, epsilon)
        return None if row is None else row.number(quantity, group)


class Closest(Record):
    """The reading of Adult with the smallest distance, and how sure that is."""

    name: str
    distance: float
    share_of_resamples: float


class Skipped(Record):
    """A variant that was not trained, and why."""

    name: str
    reason: str


class Sensitivity(Record):
    """The whole file."""

    format: str
    version: int
    made_with: list[dict[str, Any]]
    skipped: list[Skipped]
    closest: Closest | None
    closest_uncontradicted: Closest | None
    results: list[VariantResult]

    def to_json(self) -> str:
        """Canonical text, with a list of numbers on one line."""
        return _NUMBERS.sub(_one_line, canonical_json(self.model_dump()))

    def result(self, name: str) -> VariantResult | None:
        """A variant by name; None where it was skipped."""
        for result in self.results:
            if result.name == name:
                return result
        return None


def _one_line(match: re.Match[str]) -> str:
    return "[" + " ".join(match.group()[1:-1].split()) + "]"


def read_sensitivity(path: str | os.PathLike[str]) -> Sensitivity:
    """Read ``sensitivity.json``, strictly."""
    tree = read_json(path)
    require_format(tree, file=str(path), name=FORMAT, version=VERSION)
    sensitivity = parse_record(Sensitivity, tree, file=str(path))
    known = {variant.name for variant in VARIANTS}
    for result in sensitivity.results:
        if result.name not in known:
            raise InputError(
                f"{path}: there is no variant {result.name!r}; run it again."
            )
    return sensitivity
