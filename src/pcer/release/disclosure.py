"""What exact counts give away about one person, and what is done about it before a file is written.

Two leaks, at any privacy budget, because counts of training records stand outside it:

* **Small cells.** Whoever knows a person's group, label and prediction guesses membership well
  where few people share them. Groups with fewer than ``LEAST_PEOPLE`` of one label in one part are
  joined before anything is counted or attacked.
* **Certain cells.** A cell of a confusion table that is empty in one part and not in the other
  tells the membership of everybody in it, however many they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from pcer.errors import InputError, require_at_least
from pcer.metrics import BoolArray, IntArray

LEAST_PEOPLE = 10  # of one group, one label and one part, as in disclosure-control practice
NOBODY = -1  # the group of records that are in none
LONGEST_NAME = 80  # characters of a joined group's name; a longer one says how many it joins


@dataclass(frozen=True, kw_only=True)
class DisclosureRule:
    """What a writer of releases lets out."""

    public: bool = False  # anybody may have the records: cells of any size, names without a key
    least_people: int = LEAST_PEOPLE  # of one group, label and part; smaller groups are joined
    certain_cells: bool = True  # release those that tell a membership; else coarser tables

    def __post_init__(self) -> None:
        require_at_least(1, least_people=self.least_people)


@dataclass(frozen=True, kw_only=True)
class Regrouping:
    """Which groups are released, and where each group of the records goes."""

    names: tuple[str, ...]
    place: IntArray  # (group,) position in names
    note: str = ""  # a sentence for the release; empty where nothing was changed

    def apply(self, codes: IntArray) -> IntArray:
        """Codes of records, recoded; NOBODY stays NOBODY."""
        return np.append(self.place, NOBODY)[codes]


def allowed_groups(
    rule: DisclosureRule, people: IntArray, names: tuple[str, ...], *, attribute: str
) -> Regrouping:
    """Join groups until nothing released rests on fewer people than a rule wants.

    Small groups are taken together; while they are too few even so, or one group stands alone and
    could be had by subtraction, the next smallest group is taken too. Groups of public records
    stay as they are. ``people`` are counted by (split, part, group, label); fewer than two groups
    left are an InputError.
    """
    least = rule.least_people
    fewest = people.min(axis=(0, 1, 3))
    taken = [g for g in range(len(names)) if fewest[g] < least]
    if rule.public or not taken:
        return Regrouping(names=names, place=np.arange(len(names), dtype=np.int64))
    others = [g for g in range(len(names)) if g not in taken]
    others.sort(key=lambda g: (int(people[:, :, g].sum()), g))
    while others and (people[:, :, taken].sum(axis=2).min() < least or len(taken) == 1):
        taken.append(others.pop(0))
    if not others:
        part, group, label = np.argwhere(people.min(axis=0) == fewest.min())[0]
        raise InputError(
            f"attribute {attribute!r}: group {names[group]!r} has fewer than {least} people with a "
            f"{('negative', 'positive')[label]} label in the {('training', 'test')[part]} part, "
            "and without it fewer than two groups are left; add people, join groups, or say that "
            "the data are public.",
            field="least_people",
        )
    taken, kept = sorted(taken), sorted(others)
    place = np.full(len(names), len(kept), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    small = [names[g] for g in taken]
    joined = " + ".join(small)
    if len(joined) > LONGEST_NAME or joined in names:
        joined = f"{len(small)} small groups"
    note = (
        f"{', '.join(small[:-1])} and {small[-1]}: joined into one group, because fewer than "
        f"{least} people of one label are in training or in test."
    )
    return Regrouping(names=(*(names[g] for g in kept), joined), place=place, note=note)


class Detail(IntEnum):
    """How much of one group's table in one model is released, most first."""

    COUNTS = 0  # all four cells of both parts
    ACCURACY = 1  # right and wrong in both parts, and the positive rate of the test part
    POSITIVE_RATE = 2  # sizes, and the positive rate of the test part
    SIZES = 3  # how many people there are, and nothing else


class GivenAway(NamedTuple):
    """Memberships that a release tells with certainty to someone who knows the prediction."""

    memberships: int  # over all models: a person counts once for each model that tells theirs
    most_in_one_model: int


def given_away(tables: IntArray, detail: IntArray | None = None) -> GivenAway:
    """How many people's membership exact tables give away.

    The attacker knows that a person is among the records, their group, label and prediction, and
    reads the release. Membership is certain where the release leaves no room for such a person in
    one of the two parts. Tables are (model, part, group, label, predicted) counts; the detail is
    (model, group) how much of each is released, all counts if None.

    >>> tables = np.array([[[[0, 3], [4, 5]]], [[[2, 2], [1, 6]]]])[None]
    >>> given_away(tables).memberships
    2
    """
    if detail is None:
        detail = np.zeros((tables.shape[0], tables.shape[2]), dtype=np.int64)
    possible = np.stack([_possible(tables, level) for level in Detail])
    room = np.take_along_axis(possible, detail[None, :, None, :, None, None], axis=0)[0]
    people = np.where(room[:, 0] != room[:, 1], tables.sum(axis=1), 0)
    per_model = people.sum(axis=(1, 2, 3))
    return GivenAway(int(per_model.sum()), int(per_model.max(initial=0)))


def coarsened(tables: IntArray) -> IntArray:
    """(model, group) the most detail that tells nobody's membership with certainty."""
    most = np.full((tables.shape[0], tables.shape[2]), int(Detail.SIZES))
    for level in reversed(Detail):
        room = _possible(tables, level)
        is_certain = (room[:, 0] != room[:, 1]) & (tables.sum(axis=1) > 0)
        most = np.where(is_certain.any(axis=(2, 3)), most, int(level))
    return most


def coarsening_note(detail: IntArray, names: tuple[str, ...]) -> str:
    """What was coarsened and what it costs, in a sentence or two; empty where nothing was."""
    n_models, parts = len(detail), []
    for g, name in enumerate(names):
        merged = int((detail[:, g] == Detail.ACCURACY).sum())
        hidden = int((detail[:, g] > Detail.ACCURACY).sum())
        if merged:
            parts.append(f"{name}: right and wrong only in {merged} of {n_models} models")
        if hidden:
            loss = "its gap cannot be audited"
            if hidden < n_models:
                factor = math.sqrt(n_models / (n_models - hidden))
                loss = f"the smallest gap that would show grows by a factor of {factor:.2f}"
            parts.append(f"{name}: no accuracy in {hidden} of {n_models} models ({loss})")
    start = "So that nobody's membership is told with certainty, tables are coarser here: "
    return f"{start}{'; '.join(parts)}." if parts else ""


def _possible(tables: IntArray, level: Detail) -> BoolArray:
    """(model, part, group, label, predicted) whether the release leaves room for such a person."""
    if level is Detail.COUNTS:
        return tables > 0
    room = np.ones(tables.shape, dtype=bool)
    if level is Detail.ACCURACY:
        right = (tables[..., 0, 0] + tables[..., 1, 1])[..., None, None]
        wrong = (tables[..., 0, 1] + tables[..., 1, 0])[..., None, None]
        room &= np.where(np.eye(2, dtype=bool), right, wrong) > 0
    if level is not Detail.SIZES:
        room[:, 1] &= tables[:, 1].sum(axis=2, keepdims=True) > 0  # of each answer
    return room
