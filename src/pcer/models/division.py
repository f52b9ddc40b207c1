"""Records as a release sees them: in groups that may leave, counted split by split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.attacks import BudgetScores, with_costs
from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.candidates import Candidate
from pcer.models.fits import Said
from pcer.models.labels import is_named
from pcer.models.precision import smallest_gap
from pcer.models.splits import effective_units
from pcer.release.build import Counted, Entries, ReleaseFacts, RunKey, build_release, count_entries
from pcer.release.columns import SPLITS, Coded, recode
from pcer.release.disclosure import allowed_groups
from pcer.release.format import Release


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRecords:
    """Records, checked.

    Attributes:
        y: (record,) labels as given.
        classes: the same by name.
        positive: the name of the positive one.
        attribute: what divides the records into groups.
        group: the groups by name.
        persons: (record,) who has the record, numbered from 0; None where nobody has several.
    """

    y: npt.NDArray[Any]
    classes: Coded
    positive: str
    attribute: str
    group: Coded
    persons: IntArray | None

    @property
    def is_positive(self) -> BoolArray:
        """(record,) whether the label is the positive one."""
        return is_named(self.classes, self.positive)


@dataclass(frozen=True, kw_only=True, eq=False)
class Division:
    """Records in groups that may be released, on some splits.

    Attributes:
        records: the records.
        member: (split, record) who is trained on.
        names: the groups.
        group: (record,) position in ``names``; -1 for records in none.
        note: what became of small groups; empty where nothing did.
    """

    records: LabelledRecords
    member: BoolArray
    names: tuple[str, ...]
    group: IntArray
    note: str

    @property
    def units(self) -> dict[str, float] | None:
        """By group how many people its records are worth; None where each is one."""
        persons = self.records.persons
        return None if persons is None else effective_units(persons, self.group, self.names)

    @property
    def inflation(self) -> FloatArray:
        """(group,) by how much people with several records multiply a variance."""
        units, ones = self.units, np.ones(len(self.names))
        if units is None:
            return ones
        sizes = np.bincount(self.group[self.group >= 0], minlength=len(self.names))
        return np.asarray(sizes / np.array([units[name] for name in self.names]))

    @property
    def no_coin(self) -> str:
        """Why no coin can be flipped for single records; empty where one can."""
        if self.records.persons is None:
            return ""
        return "people may have several records, and coins are flipped for single ones"

    def smallest_gap(self, said: Sequence[Said]) -> float:
        """The smallest gap that these splits would show in every group of every setting."""
        truth = self.records.is_positive
        right = [one.predicted == truth for one in said]
        cells = np.where(self.group >= 0, 2 * self.group + truth, -1)
        return smallest_gap(right, self.member, cells, inflation=self.inflation)

    def people(self) -> IntArray:
        """(split, part, group, label) numbers of people; one with several records counts once."""
        cells = 2 * self.group + self.records.is_positive
        shape = (len(SPLITS), len(self.names), 2)
        rows = np.flatnonzero(self.group >= 0)
        if self.records.persons is not None:
            pairs = self.records.persons[rows] * cells.size + cells[rows]
            rows = rows[np.unique(pairs, return_index=True)[1]]
        places = [np.where(inside[rows], 0, 2 * len(self.names)) for inside in self.member]
        counts = [np.bincount(one + cells[rows], minlength=math.prod(shape)) for one in places]
        return np.array(counts, dtype=np.int64).reshape(len(counts), *shape)

    def counted(self, predicted: BoolArray, keys: Sequence[RunKey]) -> Counted:
        """Confusion counts of one setting, split by split."""
        parts = [
            count_entries(
                self._entries(answer, inside),
                [key],
                attribute=self.records.attribute,
                groups=self.names,
            )
            for answer, inside, key in zip(predicted, self.member, keys, strict=True)
        ]
        return replace(parts[0], runs=tuple(run for part in parts for run in part.runs))

    def _entries(self, predicted: BoolArray, inside: BoolArray) -> Entries:
        return Entries(
            run=np.zeros(len(inside), dtype=np.int64),
            split=np.where(inside, 0, 1),
            group=self.group,
            positive=self.records.is_positive,
            predicted=predicted,
        )


def divided(records: LabelledRecords, facts: ReleaseFacts, member: BoolArray) -> Division:
    """The groups that may be released, and no split that nothing can be learnt from.

    Raises:
        InputError: a sentence that names the split.
    """
    _require_labels(records.is_positive, member)
    names = facts.group_names(records.group.names)
    found = Division(
        records=records, member=member, names=names, group=recode(records.group, names), note=""
    )
    if len(names) < 2:
        raise InputError(
            f"attribute {records.attribute!r} has {len(names)} group; an audit needs at least two."
        )
    people, attribute = found.people(), records.attribute
    allowed = allowed_groups(facts.disclosure, people, names, attribute=attribute)
    found = replace(found, names=allowed.names, group=allowed.apply(found.group), note=allowed.note)
    _require_groups(found)
    return found


def release_of(
    facts: ReleaseFacts, division: Division, candidates: Sequence[Candidate], said: Sequence[Said]
) -> Release:
    """Counts and costs of every setting, in one release."""
    pairs = list(zip(candidates, said, strict=True))
    parts = [
        division.counted(what.predicted, _keys(*one[:2], len(what.predicted)))
        for one, what in pairs
    ]
    counted = replace(
        parts[0],
        runs=tuple(run for part in parts for run in part.runs),
        notes=[*parts[0].notes, *([division.note] if division.note else [])],
    )
    settings = [[_scored(division, *both)] for both in pairs]
    (counted,) = with_costs([counted], settings, facts, no_coin=division.no_coin)
    facts = replace(facts, effective_units=division.units)
    return build_release(facts, counted, file=facts.dataset)


def _scored(division: Division, candidate: Candidate, said: Said) -> BudgetScores:
    return BudgetScores(
        logits=said.logits,
        labels=division.records.is_positive.astype(np.int64),
        member=division.member,
        group=division.group,
        group_names=division.names,
        predicted=said.predicted,
        from_probabilities=said.has_probabilities,
        has_probabilities=said.has_probabilities,
        epsilon=candidate.epsilon,
        model=candidate.model,
    )


def _keys(model: str | None, epsilon: float, n_splits: int) -> list[RunKey]:
    """Splits are called by their number, which tells nothing about rows."""
    budget = None if math.isinf(epsilon) else epsilon
    return [RunKey(budget, split, f"split {split + 1}", model) for split in range(n_splits)]


def _require_labels(positive: BoolArray, member: BoolArray) -> None:
    for number, inside in enumerate(member, start=1):
        n_positive = int(positive[inside].sum())
        if n_positive in (0, int(inside.sum())):
            which = "negative" if n_positive == 0 else "positive"
            raise InputError(
                f"split {number}: everybody in the training part has a {which} label, and nothing "
                "can be learnt from one label; balance the splits with "
                "cv=StratifiedShuffleSplit(n_splits=20, test_size=0.3)."
            )


def _require_groups(division: Division) -> None:
    """Of public records small groups are not joined, so one may be missing in some split."""
    for number, inside in enumerate(division.member, start=1):
        for part, rows in zip(SPLITS, (inside, ~inside), strict=True):
            present = np.unique(division.group[rows])
            for code, name in enumerate(division.names):
                if code not in present:
                    raise InputError(
                        f"split {number}: group {name!r} has nobody in the {part} part; join it "
                        "with another group, leave it out with groups=[...], or change test_size."
                    )
