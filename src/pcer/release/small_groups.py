"""Groups that are too small to be released, alone or by subtracting one table from another.

Anyone who knows a person's group, label and prediction can guess membership well where
few people share them. So groups with few people of one label in one part are joined
before anything is counted or attacked. Tables of several attributes are about the same
people and can be subtracted from each other, so the rule covers all tables of a command
at once. An atom is a combination of attribute values that occurs; whatever is a linear
combination of released groups is revealed of the atoms in it. People without a group
are a group that is not written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.errors import InputError, alike
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.columns import Coded, cross, text_of
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.reading import read_release
from pcer.release.records import require_phrases

NOBODY = -1  # the group of records that are in none
LONGEST_NAME = (
    80  # characters of a joined group's name; a longer one says how many it joins
)
LARGEST_SHARE = (
    3  # of an atom in a combination, if the smallest has 1; more takes minutes
)
ZERO = 1e-6  # what is smaller is rounding: sums of groups are whole numbers
SECONDS = 20.0  # for one search; what takes longer is refused
INFEASIBLE = 2  # the solver's status if there is no such set
REMEDY = "add people, join groups, release fewer attributes, or declare public_data"
HIDDEN = "attribute {!r} beside others shows what coarse tables hide; release one, or a crossing."


class Attribute(NamedTuple):
    """An attribute to be released, and who is in which of its groups."""

    name: str
    groups: tuple[str, ...]
    codes: IntArray  # (record,) NOBODY for those in none
    note: str = ""  # which small groups were joined; empty where none


def attribute_of(
    name: str, columns: list[Coded], wanted: Sequence[Any] | None
) -> Attribute:
    """Groups of one column, or of several crossed: those wanted, in their order, or all."""
    crossed = cross(columns)
    groups = tuple(sorted(crossed.names) if wanted is None else map(text_of, wanted))
    position = {group: index for index, group in enumerate(groups)}
    codes = [*(position.get(value, NOBODY) for value in crossed.names), NOBODY]
    return Attribute(name, groups, np.array(codes, dtype=np.int64)[crossed.codes])


def renamed(
    attributes: Sequence[Attribute], names: Mapping[Any, str]
) -> list[Attribute]:
    """Attributes with readers' names of groups, by group or ``attribute:group``; others stay.

    Raises:
        InputError: a key that is no group, or one of several; two groups that would
            read alike.
    """
    given = {text_of(group): name for group, name in names.items()}
    made = []
    used = {(own.name, group) for own in attributes for group in own.groups}
    for key, name in given.items():
        require_phrases(group_names=name)
        if (n := sum(key in (group, f"{own}:{group}") for own, group in used)) != 1:
            fault = (
                "several attributes have; write ATTRIBUTE:GROUP"
                if n
                else "there is not"
            )
            raise InputError(
                f"group_names has a group {key!r} that {fault}.", field="group_names"
            )
    for own in attributes:
        groups = tuple(
            given.get(f"{own.name}:{g}", given.get(g, g)) for g in own.groups
        )
        if given and len({*map(alike, groups)}) < len(groups):
            fault = f"gives two groups of {own.name!r} one name; name them apart"
            raise InputError(f"group_names {fault}.", field="group_names")
        made.append(own._replace(groups=groups))
    return made


class Model(NamedTuple):
    """Records, parts and labels of one model: arrays of one length."""

    rows: Any  # which records
    part: IntArray  # 0 for training, 1 for test
    positive: BoolArray
    n: IntArray | None = None  # how many people a record counts


class Allowed(NamedTuple):
    """The attributes that may be released, and why others may not."""

    attributes: list[Attribute]  # with their remaining groups
    not_written: dict[str, str]  # why not, by attribute


def allowed_groups(
    rule: Disclosure,
    attributes: Sequence[Attribute],
    models: Iterable[Model],
    beside: Sequence[Release] = (),
    *,
    names: Mapping[Any, str] | None = None,
) -> Allowed:
    """The groups of each attribute that may be released, by readers' names; InputError: of none.

    ``beside`` are existing releases of the same records, whose attributes take
    precedence.
    """
    coarse = [
        r for r in beside if r.disclosure is not None and r.disclosure.n_coarse_tables
    ]
    n = len(attributes) if rule.certain_cells and not coarse else max(1, len(beside))
    found = regroup(rule, renamed(attributes, names or {})[:n], models)
    for release, own in zip(beside, found, strict=False):
        if set(own.names) != set(release.subject.groups):
            raise InputError(
                f"a release by {own.attribute.name!r} of the same people is there, not with the "
                "groups that these records give; write both by one command, or to another folder.",
                field="out",
            )
    new = found[len(beside) :]
    left_out = {own.attribute.name: own.note for own in new if not own.is_written}
    left_out |= {own.name: HIDDEN.format(own.name) for own in attributes[n:]}
    if len(left_out) == len(attributes) - len(beside):
        reason, *_ = left_out.values()
        raise InputError(reason, field="least_people" if new else "certain_cells")
    return Allowed([own.released for own in new if own.is_written], left_out)


def releases_beside(paths: Collection[Path]) -> list[Release]:
    """Releases of private records in the folder of ``paths``, besides those there."""
    found = []
    folder = next(iter(paths)).parent
    for path in sorted(set(folder.glob("*.json")) - set(paths)):
        with suppress(InputError):  # what is no release reveals nothing
            release = read_release(path, limits=None)
            if release.disclosure is None or not release.disclosure.public_data:
                found.append(release)
    return found


def same_people(
    beside: Iterable[Release], dataset: str, digest: str | None
) -> list[Release]:
    """The releases of the records with this digest.

    Raises:
        InputError: another of this dataset, perhaps of the same people with other
            record ids.
    """
    same = []
    for release in beside:
        if digest and release.provenance.data_digest == digest:
            same.append(release)
        elif release.subject.dataset == dataset:
            raise InputError(
                f"the folder holds a release of {dataset!r} by {release.subject.attribute!r} that "
                "this one cannot be checked with, and tables of both may reveal few people; name "
                "all attributes in one command, or choose another folder for other people.",
                field="out",
            )
    return same


def require_no_others(paths: Collection[Path], dataset: str) -> None:
    """Raise InputError if a folder holds releases of the same private data at other paths."""
    same_people(releases_beside(paths), dataset, None)


def regroup(
    rule: Disclosure, attributes: Sequence[Attribute], models: Iterable[Model]
) -> list[Regrouping]:
    """Join groups until no released table, and no combination of them, is about few people.

    In each attribute small groups are joined, with the next smallest while they are too
    few. Then, while a combination of tables is about too few people, its smallest group
    is joined with the next smallest of the last attribute that it needs. Groups joined
    with people without a group are not written. Those of public records stay.

    Raises:
        InputError: fewer than two groups of the first attribute are left; others have a
            note.
    """
    if rule.public_data or any(
        len(a.groups) < 2 for a in attributes
    ):  # the builder refuses these
        nobody = np.zeros((1, 2, 0, 2), dtype=np.int64)
        return [Regrouping(a, a.codes[:0], nobody, 0) for a in attributes]
    shape = [1 + len(a.groups) for a in attributes]
    whole = np.ravel_multi_index([a.codes + 1 for a in attributes], shape)
    atoms, atom = np.unique(whole, return_inverse=True)
    n = len(atoms)
    least = rule.least_people
    cells = (
        (model, (model.part * n + atom[model.rows]) * 2 + model.positive)
        for model in models
    )
    counts = [np.bincount(cell, model.n, minlength=4 * n) for model, cell in cells]
    people = np.array(counts, dtype=np.int64).reshape(
        -1, 2, n, 2
    )  # (model, part, atom, label)
    codes = [own - 1 for own in np.unravel_index(atoms, shape)]
    tables = [
        Regrouping(*own, people, least) for own in zip(attributes, codes, strict=True)
    ]
    while found := _found([t for t in tables if t.is_written], people, least):
        table, inside = found
        table.join(inside)
    if not tables[0].is_written:
        raise InputError(tables[0].note, field="least_people")
    return tables


class Regrouping:
    """An attribute whose groups are joined into blocks; that of people in no group is hidden.

    ``codes`` and ``people`` are by atom. Where ``least`` is 0 no block is joined.
    """

    def __init__(
        self, attribute: Attribute, codes: IntArray, people: IntArray, least: int
    ) -> None:
        self.attribute = attribute
        self.codes = codes
        self.least = least
        n = len(attribute.groups)
        groups = (*range(n), NOBODY)
        self.people = np.stack(
            [people[:, :, codes == g].sum(axis=2) for g in groups], axis=2
        )
        self.size = self.people.sum(axis=(0, 1, 3))
        self.is_small = self.people.min(axis=(0, 1, 3)) < least
        self.is_small[n] &= self.size[n] > 0
        self.block = np.arange(
            n + 1
        )  # (group,) the last for people in none; n is hidden
        taken = np.flatnonzero(self.is_small).tolist()
        others = [g for g in self._by_size() if g not in taken]
        while taken and others and self.people[:, :, taken].sum(axis=2).min() < least:
            taken.append(others.pop(0))
        self.block[taken] = max(taken, default=0)

    def _by_size(self) -> list[int]:
        blocks = np.unique(self.block if self.size[-1] else self.block[:-1]).tolist()
        return sorted(blocks, key=lambda block: self.size[self.block == block].sum())

    def join(self, atoms: BoolArray) -> None:
        """Join the smallest block with people in ``atoms`` with the next smallest of all."""
        order = self._by_size()
        concerned = self.block[self.codes[atoms]]
        first = next(block for block in order if block in concerned)
        second = next(block for block in order if block != first)
        self.block[np.isin(self.block, (first, second))] = max(first, second)

    @property
    def members(self) -> list[list[int]]:
        """Groups of every block that is written; joined ones come last."""
        blocks = [b for b in np.unique(self.block) if b != len(self.attribute.groups)]
        members = [np.flatnonzero(self.block == block).tolist() for block in blocks]
        return sorted(members, key=lambda own: (len(own) > 1, own))

    @property
    def is_written(self) -> bool:
        """Whether there are two groups to compare, or nothing was changed."""
        return len(self.members) > 1 or not self.least

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the released groups, without names of small ones; or none."""
        return tuple(map(self._name, self.members)) if self.is_written else ()

    @property
    def place(self) -> IntArray:
        """(group,) position in the names; NOBODY for groups that are not written."""
        place = np.full(len(self.attribute.groups), NOBODY)
        for position, own in enumerate(self.members if self.is_written else ()):
            place[own] = position
        return place

    @property
    def released(self) -> Attribute:
        """The attribute in the groups that are written; people in none stay in none."""
        codes = np.append(self.place, NOBODY)[self.attribute.codes]
        return Attribute(self.attribute.name, self.names, codes, self.note)

    @property
    def note(self) -> str:
        """What was joined and why, without a value of the column; empty where nothing was."""
        few = f"fewer than {self.least} people of one label in training or in test"
        if not self.is_written:
            without = "leave out the records that have no value of it, " * bool(
                self.is_small[-1]
            )
            return (
                f"attribute {self.attribute.name!r}: fewer than two groups are left when no table "
                f"or combination of tables may be about {few}; {without}{REMEDY}."
            )
        if len(self.members) == len(self.attribute.groups):
            return ""
        left_out = " or left out" if NOBODY in self.place else ""
        return (
            f"Small groups were joined{left_out}, so that neither this table nor several together "
            f"are about {few}."
        )

    def _name(self, members: list[int]) -> str:
        groups = self.attribute.groups
        if len(members) == 1:
            return groups[members[0]]
        large = [groups[g] for g in members if not self.is_small[g]]
        small = (
            [f"{n} small group{'s' * (n > 1)}"]
            if (n := len(members) - len(large))
            else []
        )
        name = " + ".join([*large, *small])
        if len(name) > LONGEST_NAME:
            name = f"{len(members)} groups together"
        return f"{name} (joined)" if name in groups else name


def _found(
    tables: Sequence[Regrouping], people: IntArray, least: int
) -> tuple[Regrouping, BoolArray] | None:
    """Atoms (atom,) that a combination of tables is about, and the last attribute it needs."""
    from scipy.linalg import orth

    if len(tables) < 2:
        return None
    own = np.array([table.block[table.codes] for table in tables])
    own, place = np.unique(
        own, axis=1, return_inverse=True
    )  # atoms that are now alike are one
    inside = [1.0 * (np.unique(blocks)[:, None] == blocks) for blocks in own]
    spaces = [
        orth(np.concatenate(inside[: k + 1]).T).T for k in range(len(own))
    ]  # of the first
    cells = np.moveaxis(people, 2, 3).reshape(-1, people.shape[2])
    cells = np.array([np.bincount(place.ravel(), n) for n in np.unique(cells, axis=0)])
    space = contracted(spaces[-1], cells.min(axis=0), least)
    for n in cells if len(space) else ():
        if (found := combination(space, n, least)) is not None:
            needed = (np.allclose(found @ each.T @ each, found) for each in spaces)
            return tables[[*needed].index(True)], np.abs(found[place.ravel()]) > ZERO
    return None


def _without(space: FloatArray, atoms: BoolArray) -> FloatArray:
    """The combinations that are 0 on these atoms."""
    values, vectors = np.linalg.eigh(space[:, atoms] @ space[:, atoms].T)
    return np.asarray(vectors[:, values < ZERO**2].T @ space)


def contracted(space: FloatArray, people: IntArray, least: int) -> FloatArray:
    """The combinations that are 0 on every atom that none about few people can have.

    Proved, whatever the coefficients: in each round every atom of a basis, of those
    with people left, loses one person. A combination that is not 0 on an atom with
    people left after ``least - 1`` rounds is not 0 on an atom of each round's basis,
    which spans that atom: it is about a person of every round, and one more.
    """
    from scipy.linalg import qr

    while len(space):
        left = np.where(np.abs(space).max(axis=0) > ZERO, np.minimum(people, least), 0)
        for _ in range(least - 1):
            if not len(there := np.flatnonzero(left)):
                break
            # the most people first, since all that is left over counts
            sizes, order = qr(space[:, there] * left[there], mode="r", pivoting=True)
            rank = (np.abs(np.diagonal(sizes)) > ZERO).sum()
            left[there[order[:rank]]] -= 1
        if not left.any():
            break
        space = _without(space, left > 0)
    return space


def combination(space: FloatArray, people: IntArray, least: int) -> FloatArray | None:
    """A combination (atom,) of groups about fewer than ``least`` people; None if there is none.

    It is about all in atoms where it is not 0, on either side: "these less those"
    reveals one of few people as a sum does. One about nobody counts: its people are
    then known to be elsewhere.

    An integer program searches what ``contracted`` leaves of the space (rank, atom): on
    each atom 0, or 1 to ``LARGEST_SHARE`` with either sign. For two attributes, whose
    matrix is totally unimodular, -1, 0 and 1 suffice; where one combination is left, or
    none, its coefficients do not matter. Else one of three tables or more may be
    overlooked if some atom counts more than three times as much as another.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    space = contracted(space, people, least)
    some = people > 0
    found = _without(space, some)  # about nobody
    if len(space) == 1 and people[np.abs(space[0]) > ZERO].sum() < least:
        found = space
    if len(found) or len(space) < 2:
        return np.asarray(found[0]) if len(found) else None
    some &= np.abs(space).max(axis=0) > ZERO
    shares = space[:, some].T
    n = int(some.sum())
    one = np.eye(n)
    none = np.zeros_like(shares)
    most = LARGEST_SHARE * np.eye(n)
    is_atom = np.repeat(
        [1, 0], [2 * n, len(space)]
    )  # in it with one sign, and with the other
    counted = np.concatenate([people[some], people[some], none[0]])
    signs = np.block([[most, -one, -shares], [-one, most, shares], [-one, -one, none]])
    few = LinearConstraint(np.stack([is_atom, counted]), [1, 0], [np.inf, least - 1])
    answer = milp(
        counted,
        integrality=is_atom,
        bounds=Bounds(np.where(is_atom, 0, -np.inf), np.where(is_atom, 1, np.inf)),
        constraints=[LinearConstraint(signs, np.repeat([0, 0, -1], n), np.inf), few],
        options={"time_limit": SECONDS},
    )
    if answer.x is None and answer.status == INFEASIBLE:
        return None
    if answer.x is None:  # out of time
        raise InputError(
            f"too many groups to check what subtraction reveals; {REMEDY}."
        )
    some[some] = answer.x[: 2 * n].reshape(2, n).sum(axis=0) < 0.5
    return np.asarray(_without(space, some)[0])
