"""What do exact counts reveal about one person, and which rules prevent it?

``build`` applies the rules to every release, and ``auditing`` reports what a file
discloses. Two leaks exist at any epsilon, because counts of training records are
outside it:

* **Small cells.** Who knows a person's group, label and prediction guesses membership
  well where few people share them: ``small_groups`` joins groups before anything is
  counted.
* **Certain cells.** A cell of a confusion table that is empty in one part and not in
  the other reveals the membership of everybody in it, however many they are.

What the tables of several models give away together is the matter of ``joint``. To add
a rule: a field of ``Disclosure``, which ``build`` heeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, get_args

import numpy as np

from pcer.errors import InputError, require_at_least
from pcer.metrics import BoolArray, IntArray

# People of one group, one label and one part, as in disclosure-control practice.
LEAST_PEOPLE = 10
# People of a kind in either part; with 1 a coarser table would reveal an empty cell.
LEAST_ROOM = 2
WARNING = "Warning:"  # begins notes that are printed with a release
# From as many models on, answers and counts find more labels than guessing does.
PEOPLE_PER_MODEL = 4
# What becomes of tables that only together give somebody away.
Joint = Literal["refuse", "coarsen"]


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """What may leave with a release: how much about few people, or about one.

    Args:
        public_data: anybody may have the records; then groups of any size are released,
            and splits are named by digests.
        least_people: of one group, label and part; groups with fewer are joined into
            one.
        certain_cells: release cells that reveal a membership with certainty, and count
            them; False coarsens those tables, at a loss of power that a note states.
        joint: what becomes of tables that together, over all models of a split, give
            somebody away with certainty: "refuse" them, or "coarsen" those of the last
            settings.
        secret: 16 to 64 random bytes that key the names of splits (predictions with
            ``record_id``) and of records (estimators), and draw estimators' splits. It
            is never written.

    Raises:
        InputError: ``least_people`` is below 1; ``joint`` is neither word.

    >>> Disclosure(least_people=20).public_data
    False
    """

    public_data: bool = False
    least_people: int = LEAST_PEOPLE
    certain_cells: bool = True
    joint: Joint = "refuse"
    secret: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        require_at_least(1, least_people=self.least_people)
        if self.joint not in get_args(Joint):
            raise InputError(
                f"joint must be 'refuse' or 'coarsen', not {self.joint!r}.",
                field="joint",
            )


class Detail(IntEnum):
    """How much of one group's table in one model is released, most first."""

    COUNTS = 0  # all four cells of both parts
    ACCURACY = 1  # right and wrong in both parts; the positive rate of the test part
    POSITIVE_RATE = 2  # sizes, and the positive rate of the test part
    SIZES = 3  # how many people there are, and nothing else


def given_away(tables: IntArray) -> IntArray:
    """(model,) how many memberships exact tables reveal with certainty.

    The attacker knows that a person is among the records, their group, label and
    prediction. Membership is certain where the release leaves no room for such a person
    in one part. Tables are (model, part, group, label, predicted) counts.
    """
    is_certain = (tables[:, 0] > 0) != (tables[:, 1] > 0)
    people = np.where(is_certain, tables.sum(axis=1), 0)
    return np.asarray(people.sum(axis=(1, 2, 3)))


def coarsened(tables: IntArray) -> IntArray:
    """(model, group) the most detail that reveals no membership, even by its choice."""
    chosen = np.full((tables.shape[0], tables.shape[2]), int(Detail.SIZES))
    for level in reversed(Detail):
        room = _most_room(tables, level)
        is_revealed: BoolArray = np.any(room < LEAST_ROOM, axis=1)
        if level is Detail.COUNTS:  # an empty cell in both parts reveals nobody
            is_revealed &= tables.sum(axis=1) > 0
        chosen = np.where(is_revealed.any(axis=(2, 3)), chosen, int(level))
    return chosen


def coarsening_note(detail: IntArray, names: tuple[str, ...]) -> str:
    """Which tables were coarsened, and the consequence; empty where none was."""
    n_coarse = (detail > Detail.COUNTS).sum(axis=0).tolist()
    where = []
    for name, n in zip(names, n_coarse, strict=True):
        if n:
            where.append(f"{name} in {n} of {len(detail)} models")
    if not where:
        return ""
    return (
        "To reveal no membership with certainty, tables are coarser here: "
        f"{'; '.join(where)}. Without accuracies no gap is audited; such tables have "
        "no exposures, and exposures over several models are rounded, with wider "
        "errors."
    )


def rebuilding_note(n_models: int, n_people: int) -> str:
    """A warning where models are so many that answers give labels away; else empty."""
    if n_models * PEOPLE_PER_MODEL < n_people:
        return ""
    return (
        f"{WARNING} {n_models:,} models of {n_people:,} people: who knows all answers "
        "can work out labels and groups of many of them from the counts, even where "
        "splits are secret; release fewer models."
    )


def _most_room(tables: IntArray, level: Detail) -> IntArray:
    """(model, part, group, label, predicted) the most people there is room for.

    Labels of either part count as known: exact tables of other models reveal them.
    """
    if level is Detail.COUNTS:
        return tables
    most = np.broadcast_to(tables.sum(axis=-1, keepdims=True), tables.shape).copy()
    if level is Detail.ACCURACY:  # with labels and answers it is all of the test part
        right = tables[:, 0].trace(axis1=-2, axis2=-1)[..., None, None]
        wrong = tables[:, 0].sum(axis=(-2, -1), keepdims=True) - right
        most[:, 0] = np.minimum(most[:, 0], np.where(np.eye(2), right, wrong))
        most[:, 1] = tables[:, 1]
    elif level is Detail.POSITIVE_RATE:
        most[:, 1] = np.minimum(most[:, 1], tables[:, 1].sum(axis=2, keepdims=True))
    return most
