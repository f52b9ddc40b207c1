"""What exact counts give away about one person, and what is done about it before a file is written.

Two leaks, at any privacy budget, because counts of training records stand outside it:

* **Small cells.** Whoever knows a person's group, label and prediction guesses membership well
  where few people share them. Groups with fewer than ``LEAST_PEOPLE`` of one label in one part are
  joined, or withheld, before anything is counted or attacked.
* **Certain cells.** A cell of a confusion table that is empty in one part and not in the other
  tells the membership of everybody in it, however many they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np

from pcer.errors import InputError, require_at_least
from pcer.metrics import BoolArray, IntArray

LEAST_PEOPLE = 10
"""Of one group, one label and one part, as in disclosure-control practice."""
NOBODY = -1
"""Where a group goes that is withheld."""
LONGEST_NAME = 80
"""Characters of a joined group's name; a longer one says how many it joins."""
PARTS, LABELS = ("training", "test"), ("negative", "positive")


class SmallGroups(StrEnum):
    """What becomes of a group that is too small to be released."""

    JOIN = "join"
    WITHHOLD = "withhold"


@dataclass(frozen=True, kw_only=True)
class DisclosureRule:
    """What a writer of releases lets out.

    Args:
        public: whether anybody may have the records: then exact cells of any size are released,
            and digests and split names need no key.
        least_people: of one group, label and part; a group with fewer is joined or withheld.
        small_groups: which of the two.
        certain_cells: whether cells that tell a membership with certainty are released. Without
            them those tables are coarser, which costs power.
    """

    public: bool = False
    least_people: int = LEAST_PEOPLE
    small_groups: SmallGroups = SmallGroups.JOIN
    certain_cells: bool = True

    def __post_init__(self) -> None:
        require_at_least(1, least_people=self.least_people)


@dataclass(frozen=True, kw_only=True)
class Regrouping:
    """Which groups are released, and where each group of the records goes.

    Attributes:
        names: the groups of the release.
        place: (group,) position in ``names``, or NOBODY.
        note: a sentence for the release; empty where nothing was changed.
    """

    names: tuple[str, ...]
    place: IntArray
    note: str = ""

    @property
    def changes(self) -> bool:
        """Whether any group is not released as it is."""
        return bool(self.note)

    def apply(self, codes: IntArray) -> IntArray:
        """Codes of records, recoded; NOBODY stays NOBODY."""
        return np.append(self.place, NOBODY)[codes]


def regroup(
    people: IntArray,
    names: tuple[str, ...],
    *,
    attribute: str,
    least: int = LEAST_PEOPLE,
    rule: SmallGroups = SmallGroups.JOIN,
) -> Regrouping:
    """Join or withhold groups until nothing released rests on fewer than ``least`` people.

    The rule: small groups are taken together; while they are too few even so, or one group stands
    alone and could be had by subtraction, the next smallest group is taken too.

    Args:
        people: (split, part, group, label), how many people; parts are training and test.
        names: of the groups.
        attribute: what divides the people, for errors.
        least: people of one group, label and part; 1 changes nothing but empty cells.
        rule: join the small groups into one, or withhold them.

    Raises:
        InputError: fewer than two groups would be left.
    """
    require_at_least(1, least=least)
    fewest = people.min(axis=(0, 1, 3))
    small = [g for g in range(len(names)) if fewest[g] < least]
    if not small:
        return Regrouping(names=names, place=np.arange(len(names), dtype=np.int64))
    taken = _complemented(people, small, least=least, rule=rule)
    n_left = len(names) - len(taken) + (rule is SmallGroups.JOIN)
    if len(taken) == len(names) or n_left < 2:
        raise InputError(_too_few(people, names, attribute, least))
    return _without(taken, names, least=least, rule=rule)


def allowed_groups(
    rule: DisclosureRule, people: IntArray, names: tuple[str, ...], *, attribute: str
) -> Regrouping:
    """The groups that a rule lets out; of public records all, as they are."""
    if rule.public:
        return Regrouping(names=names, place=np.arange(len(names), dtype=np.int64))
    return regroup(
        people, names, attribute=attribute, least=rule.least_people, rule=rule.small_groups
    )


def _complemented(
    people: IntArray, small: list[int], *, least: int, rule: SmallGroups
) -> list[int]:
    """The small groups, and as many of the next larger ones as hide them."""
    order = sorted(range(people.shape[2]), key=lambda g: (int(people[:, :, g].sum()), g))
    others = [g for g in order if g not in small]
    taken = list(small)
    while others and (
        people[:, :, taken].sum(axis=2).min() < least
        or (rule is SmallGroups.JOIN and len(taken) == 1)
    ):
        taken.append(others.pop(0))
    return sorted(taken)


def _without(
    taken: list[int], names: tuple[str, ...], *, least: int, rule: SmallGroups
) -> Regrouping:
    kept = [g for g in range(len(names)) if g not in taken]
    place = np.full(len(names), NOBODY, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    told = " and ".join([", ".join(names[g] for g in taken[:-1]), names[taken[-1]]][-2:])
    told = told.removeprefix(" and ")
    fewer = f"fewer than {least} people of one label are in training or in test"
    left = tuple(names[g] for g in kept)
    if rule is SmallGroups.WITHHOLD:
        note = f"{told}: withheld and in no group's table, because {fewer}."
        return Regrouping(names=left, place=place, note=note)
    place[taken] = len(kept)
    return Regrouping(
        names=(*left, _joined_name(taken, names)),
        place=place,
        note=f"{told}: joined into one group, because {fewer}.",
    )


def _joined_name(taken: list[int], names: tuple[str, ...]) -> str:
    name = " + ".join(names[g] for g in taken)
    short = f"{len(taken)} small groups"
    return name if len(name) <= LONGEST_NAME and name not in names else short


def _too_few(people: IntArray, names: tuple[str, ...], attribute: str, least: int) -> str:
    fewest = people.min(axis=0)
    part, group, label = np.unravel_index(int(fewest.argmin()), fewest.shape)
    return (
        f"attribute {attribute!r}: group {names[group]!r} has fewer than {least} people with a "
        f"{LABELS[label]} label in the {PARTS[part]} part, and without it fewer than two groups "
        "are left; add people, join groups, or say that the data are public."
    )


class Detail(IntEnum):
    """How much of one group's table in one model is released, most first."""

    COUNTS = 0
    """All four cells of both parts."""
    ACCURACY = 1
    """Right and wrong in both parts, and the positive rate of the test part."""
    POSITIVE_RATE = 2
    """Sizes, and the positive rate of the test part."""
    SIZES = 3
    """How many people there are, and nothing else."""


class GivenAway(NamedTuple):
    """Memberships that a release tells with certainty to someone who knows the prediction."""

    memberships: int
    """Over all models: a person counts once for each model that tells theirs."""
    most_in_one_model: int
    """People of the model that tells most."""
    n_cells: int
    """Cells of group, label and prediction that tell it."""


def given_away(tables: IntArray, detail: IntArray | None = None) -> GivenAway:
    """How many people's membership exact tables give away.

    The attacker knows that a person is among the records, their group, label and prediction, and
    reads the release. Membership is certain where the release leaves no room for such a person in
    one of the two parts.

    Args:
        tables: (model, part, group, label, predicted) counts.
        detail: (model, group) how much of each table is released; all counts if None.

    >>> one = np.array([[[[0, 3], [4, 5]]], [[[2, 2], [1, 6]]]])[None]
    >>> given_away(one).memberships
    2
    """
    shape = (tables.shape[0], tables.shape[2])
    chosen = np.zeros(shape, dtype=np.int64) if detail is None else detail
    possible = np.stack([_possible(tables, level) for level in Detail])
    room = np.take_along_axis(possible, chosen[None, :, None, :, None, None], axis=0)[0]
    certain = room[:, 0] != room[:, 1]
    people = np.where(certain, tables.sum(axis=1), 0)
    per_model = people.sum(axis=(1, 2, 3))
    return GivenAway(
        memberships=int(per_model.sum()),
        most_in_one_model=int(per_model.max(initial=0)),
        n_cells=int((people > 0).sum()),
    )


def coarsened(tables: IntArray) -> IntArray:
    """(model, group) the most detail that tells nobody's membership with certainty."""
    found = np.full((tables.shape[0], tables.shape[2]), int(Detail.SIZES))
    for level in reversed(Detail):
        room = _possible(tables, level)
        told = (room[:, 0] != room[:, 1]) & (tables.sum(axis=1) > 0)
        found = np.where(told.any(axis=(2, 3)), found, int(level))
    return found


def coarsening_note(detail: IntArray, names: tuple[str, ...]) -> str:
    """What was coarsened and what it costs, in a sentence or two; empty where nothing was."""
    n_models = len(detail)
    parts = []
    for g, name in enumerate(names):
        merged = int((detail[:, g] == Detail.ACCURACY).sum())
        hidden = int((detail[:, g] > Detail.ACCURACY).sum())
        if merged:
            parts.append(f"{name}: right and wrong only in {merged} of {n_models} models")
        if hidden:
            parts.append(
                f"{name}: no accuracy in {hidden} of {n_models} models{_loss(hidden, n_models)}"
            )
    if not parts:
        return ""
    return (
        "So that nobody's membership is told with certainty, tables are coarser here: "
        f"{'; '.join(parts)}."
    )


def _loss(hidden: int, n_models: int) -> str:
    if hidden == n_models:
        return " (its gap cannot be audited)"
    factor = math.sqrt(n_models / (n_models - hidden))
    return f" (the smallest gap that would show grows by a factor of {factor:.2f})"


def _possible(tables: IntArray, level: Detail) -> BoolArray:
    """(model, part, group, label, predicted) whether the release leaves room for such a person."""
    if level is Detail.COUNTS:
        return tables > 0
    right = tables[..., 0, 0] + tables[..., 1, 1]
    wrong = tables[..., 0, 1] + tables[..., 1, 0]
    positive = tables[:, 1, :, :, 1].sum(axis=-1)
    negative = tables[:, 1, :, :, 0].sum(axis=-1)
    room = np.ones(tables.shape, dtype=bool)
    if level is Detail.ACCURACY:
        room &= _by_answer(right > 0, wrong > 0)
    if level is not Detail.SIZES:
        room[:, 1] &= np.stack([negative > 0, positive > 0], axis=-1)[:, :, None, :]
    return room


def _by_answer(right: BoolArray, wrong: BoolArray) -> BoolArray:
    """Spread (...,) over label and prediction: right where the two are equal."""
    same = np.eye(2, dtype=bool)
    return np.where(same, right[..., None, None], wrong[..., None, None])
