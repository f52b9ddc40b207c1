"""Which groups are too small to be released, alone or by subtracting tables?

``models`` and ``sweep`` ask ``allowed_groups`` before anything is counted. Groups with
few people of one label in one part are joined (``disclosure`` says why). Tables of
several attributes are about the same people (``population``) and can be subtracted from
each other, so the rule covers all tables of a command at once. An atom is a combination
of attribute values that occurs; whatever is a linear combination of released groups is
revealed of the atoms in it. People without a group count as a group that is not written
where a total tells of them. To add a reason against a group: what ``Allowed`` says of
it, found in ``allowed_groups``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release, read_release
from pcer.release.population import (
    NOBODY,
    NOT_RECORDED,
    Attribute,
    LeftOut,
    of_one_population,
    renamed,
    totals_tell,
    without_unrecorded,
)
from pcer.wording import listed

# Characters of a joined group's name; in place of a longer one stands how many it
# joins.
LONGEST_NAME = 80
# Of an atom in a combination, if the smallest has 1; more takes minutes.
LARGEST_SHARE = 3
TOO_SMALL = "joined: too small alone"  # of groups with declared names
ZERO = 1e-6  # what is smaller is rounding: sums of groups are whole numbers
SECONDS = 20.0  # for one search; what takes longer is refused
INFEASIBLE = 2  # the solver's status if there is no such set
REMEDY = "add people, join groups, release fewer attributes, or declare public_data"
HIDDEN = (
    "attribute {!r} beside others shows what coarse tables hide; release one, or a "
    "crossing."
)


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
    beside: list[Attribute]  # those of the existing releases


def allowed_groups(
    rule: Disclosure,
    attributes: Sequence[Attribute],
    models: Iterable[Model],
    beside: Sequence[Release] = (),
    *,
    names: Mapping[Any, str] | None = None,
    are_apart: bool = False,
) -> Allowed:
    """The groups of each attribute that may be released, by readers' names.

    ``attributes`` are first those of the existing releases ``beside``, which stay as
    they are, then new ones, which are all about the same people. ``are_apart``: those
    in no table were divided apart from others, so that no total tells of them; who of
    them is a group is then settled.
    InputError if no new one may be released.
    """
    # Where tables are coarse, only one attribute is safe: others show what they hide.
    disclosed = [release.disclosure for release in beside]
    are_coarse = [bool(one is not None and one.n_coarse_tables) for one in disclosed]
    is_one = not rule.certain_cells or any(are_coarse)
    n = max(1, len(beside)) if is_one else len(attributes)
    n_old = len(beside)
    asked = renamed(attributes, names or {})[:n]
    if not rule.public_data:
        if not are_apart and any(NOT_RECORDED in one.groups for one in asked):
            models = [*models]
            asked = [_with_enough(one, models, rule.least_people) for one in asked]
        asked = [*asked[:n_old], *of_one_population(asked)[n_old:]]
    regroupings = regroup(rule, asked, models, are_apart=are_apart)
    for release, old in zip(beside, regroupings, strict=False):
        _require_same_groups(release, old)

    new = regroupings[n_old:]
    left_out = {one.attribute.name: one.note for one in new if not one.is_written}
    for attribute in attributes[n:]:
        left_out[attribute.name] = HIDDEN.format(attribute.name)
    if len(left_out) == len(attributes) - n_old:
        reason, *_ = left_out.values()
        raise InputError(reason, field="least_people" if new else "certain_cells")
    return Allowed(
        [one.released for one in new if one.is_written],
        left_out,
        [one.released for one in regroupings[: len(beside)]],
    )


def _with_enough(
    attribute: Attribute, models: Iterable[Model], least: int
) -> Attribute:
    """The attribute; people without a value are no group of it if they are too few."""
    if NOT_RECORDED not in attribute.groups:
        return attribute
    people, (codes,) = _by_atom([attribute], models)
    place = attribute.groups.index(NOT_RECORDED)
    if people[:, :, codes == place].sum(axis=2).min() >= least:
        return attribute
    return without_unrecorded(attribute)


def _require_same_groups(release: Release, regrouping: Regrouping) -> None:
    if set(regrouping.names) == set(release.subject.groups):
        return
    raise InputError(
        f"a release by {regrouping.attribute.name!r} of the same people is there, not "
        "with the groups that these records give; write both by one command, or to "
        "another folder.",
        field="out",
    )


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
                f"the folder holds a release of {dataset!r} by "
                f"{release.subject.attribute!r} that this one cannot be checked with, "
                "and tables of both may reveal few people; name all attributes in one "
                "command, or choose another folder for other people.",
                field="out",
            )
    return same


def require_no_others(paths: Collection[Path], dataset: str) -> None:
    """Raise InputError if a folder holds other releases of the same private data."""
    same_people(releases_beside(paths), dataset, None)


def regroup(
    rule: Disclosure,
    attributes: Sequence[Attribute],
    models: Iterable[Model],
    *,
    are_apart: bool = False,
) -> list[Regrouping]:
    """Join groups until no table, and no combination of tables, is about few people.

    In each attribute small groups are joined, with the next smallest while they are too
    few. Then, while a combination of tables is about too few people, its smallest group
    is joined with the next smallest of the last attribute that it needs. People in no
    table count where a total tells of them, unless they ``are_apart``: groups joined
    with them are not written. Those of public records stay. InputError if fewer than
    two groups of the first attribute are left.
    """
    has_one_group = any(len(attribute.groups) < 2 for attribute in attributes)
    if rule.public_data or has_one_group:  # the builder refuses one group
        nobody = np.zeros((1, 2, 0, 2), dtype=np.int64)
        return [Regrouping(one, one.codes[:0], nobody, 0) for one in attributes]

    people, codes = _by_atom(attributes, models)
    least = rule.least_people
    outside = np.all([of_atoms == NOBODY for of_atoms in codes], axis=0)
    if are_apart or not totals_tell(people, outside, least):
        people = people[:, :, ~outside]
        codes = [of_atoms[~outside] for of_atoms in codes]
    regroupings = []
    for attribute, of_atoms in zip(attributes, codes, strict=True):
        regroupings.append(Regrouping(attribute, of_atoms, people, least))

    is_joining = True
    while is_joining:
        written = [one for one in regroupings if one.is_written]
        is_joining = _join_small_combination(written, people, least)
    if not regroupings[0].is_written:
        raise InputError(regroupings[0].note, field="least_people")
    return regroupings


def _by_atom(
    attributes: Sequence[Attribute], models: Iterable[Model]
) -> tuple[IntArray, list[IntArray]]:
    """(model, part, atom, label) people; and of each attribute, the atoms' groups."""
    shape = [1 + len(attribute.groups) for attribute in attributes]
    places = [attribute.codes + 1 for attribute in attributes]
    atoms, atom = np.unique(np.ravel_multi_index(places, shape), return_inverse=True)
    n = len(atoms)
    counts = []
    for model in models:
        cell = (model.part * n + atom[model.rows]) * 2 + model.positive
        counts.append(np.bincount(cell, model.n, minlength=4 * n))
    people = np.array(counts, dtype=np.int64).reshape(-1, 2, n, 2)
    return people, [place - 1 for place in np.unravel_index(atoms, shape)]


class Regrouping:
    """An attribute whose small groups are joined into blocks."""

    def __init__(
        self, attribute: Attribute, codes: IntArray, people: IntArray, least: int
    ) -> None:
        """``codes`` are the groups of atoms, ``people`` (model, part, atom, label)."""
        self.attribute = attribute
        self.codes = codes
        self.least = least  # people of one label in one part; 0 joins no block
        n = len(attribute.groups)
        self.n_groups = n
        of_groups = [people[:, :, codes == g].sum(axis=2) for g in (*range(n), NOBODY)]
        # (model, part, group, label), and (group,) in all; last those in no group.
        self.people = np.stack(of_groups, axis=2)
        self.size = self.people.sum(axis=(0, 1, 3))
        self.is_small = self.people.min(axis=(0, 1, 3)) < least
        self.is_small[n] &= self.size[n] > 0
        # (group,) the block of each, numbered by one of its groups. That of people in
        # no group is hidden: it is not written.
        self.block = np.arange(n + 1)
        self._join_small()

    def _join_small(self) -> None:
        """Join all small groups, with the next smallest while they are too few."""
        joined = np.flatnonzero(self.is_small).tolist()
        others = [group for group in self._by_size() if group not in joined]
        while joined and others:
            together = self.people[:, :, joined].sum(axis=2)
            if together.min() >= self.least:
                break
            joined.append(others.pop(0))
        self.block[joined] = max(joined, default=0)

    def _by_size(self) -> list[int]:
        """Blocks with the fewest people first; that of nobody is no block.

        Those without a recorded value come last: they are joined if nobody else is.
        """
        blocks = np.unique(self.block if self.size[-1] else self.block[:-1]).tolist()

        def order(block: int) -> tuple[bool, int]:
            members = np.flatnonzero(self.block == block)
            names = [self.attribute.groups[g] for g in members[members < self.n_groups]]
            return NOT_RECORDED in names, int(self.size[members].sum())

        return sorted(blocks, key=order)

    def join(self, atoms: BoolArray) -> None:
        """Join the smallest block with people in ``atoms`` with the next smallest."""
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
        return sorted(members, key=lambda groups: (len(groups) > 1, groups))

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
        if self.is_written:
            for position, groups in enumerate(self.members):
                place[groups] = position
        return place

    @property
    def released(self) -> Attribute:
        """The attribute in the groups that are written; people in none stay in none."""
        codes = np.append(self.place, NOBODY)[self.attribute.codes]
        is_new = (self.attribute.codes != NOBODY) & (codes == NOBODY)
        too_few = LeftOut("too_few", self.attribute.name, is_new)
        return self.attribute._replace(
            groups=self.names,
            codes=codes,
            note=self.note,
            left_out=(*self.attribute.left_out, too_few),
            joined=self._joined,
        )

    @property
    def _joined(self) -> dict[str, int]:
        """The names of joined blocks, and of how many groups they are."""
        sizes = map(len, self.members)
        return {name: n for name, n in zip(self.names, sizes, strict=False) if n > 1}

    @property
    def note(self) -> str:
        """What was joined and why, without a value of the column; else empty."""
        few = f"fewer than {self.least} people of one label in training or in test"
        if not self.is_written:
            remedy = REMEDY
            if self.is_small[-1]:
                remedy = f"leave out the records that have no value of it, {REMEDY}"
            return (
                f"attribute {self.attribute.name!r}: fewer than two groups are left "
                "when no table or combination of tables may be about "
                f"{few}; {remedy}."
            )
        if len(self.members) == len(self.attribute.groups):
            return ""
        joined = "joined or left out" if NOBODY in self.place else "joined"
        return (
            f"Small groups were {joined}, so that neither this table nor several "
            f"together are about {few}."
        )

    def _name(self, members: list[int]) -> str:
        """The name of a written block: its groups, without names of small ones.

        Names that their owner has declared are no person's words, so they stay.
        """
        groups = self.attribute.groups
        if len(members) == 1:
            return groups[members[0]]
        declared = self.attribute.declared
        parts = []
        for group in members:
            if not self.is_small[group] or groups[group] in declared:
                parts.append(groups[group])
        n_small = len(members) - len(parts)
        if n_small == 1:
            parts.append("1 small group")
        elif n_small > 1:
            parts.append(f"{n_small} small groups")
        name = " + ".join(parts)
        if any(groups[group] in declared for group in members):
            name = f"{listed(parts)}, {TOO_SMALL}"
        if len(name) > LONGEST_NAME:
            name = f"{len(members)} groups together"
        return f"{name} (joined)" if name in groups else name


def _join_small_combination(
    tables: Sequence[Regrouping], people: IntArray, least: int
) -> bool:
    """Join two blocks if some model's tables combine to too few people of one label."""
    if len(tables) < 2:
        return False
    # Atoms that are in the same blocks of every attribute count as one.
    blocks = np.array([table.block[table.codes] for table in tables])
    blocks, kind = np.unique(blocks, axis=1, return_inverse=True)
    kind = kind.ravel()
    spaces = _spaces(blocks)
    by_cell = np.moveaxis(people, 2, 3).reshape(-1, people.shape[2])
    by_cell = np.unique(by_cell, axis=0)
    counts = np.array([np.bincount(kind, of_atoms) for of_atoms in by_cell])

    space = contracted(spaces[-1], counts.min(axis=0), least)
    if not len(space):
        return False
    for n in counts:
        small = combination(space, n, least)
        if small is not None:
            last = _first_that_spans(spaces, small)
            tables[last].join(np.abs(small[kind]) > ZERO)
            return True
    return False


def _spaces(blocks: IntArray) -> list[FloatArray]:
    """For the first attributes, one more each: a basis (rank, atom) of their tables."""
    from scipy.linalg import orth

    tables = []
    spaces = []
    for of_attribute in blocks:
        tables.append(1.0 * (np.unique(of_attribute)[:, None] == of_attribute))
        spaces.append(orth(np.concatenate(tables).T).T)
    return spaces


def _first_that_spans(spaces: list[FloatArray], combined: FloatArray) -> int:
    """Position of the first space that contains the combination; the last one does."""
    for position, space in enumerate(spaces):
        if np.allclose(combined @ space.T @ space, combined):
            return position
    raise ValueError("the combination is of none of the spaces")


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
            there = np.flatnonzero(left)
            if not len(there):
                break
            # The most people first, since all that is left over counts.
            sizes, order = qr(space[:, there] * left[there], mode="r", pivoting=True)
            rank = (np.abs(np.diagonal(sizes)) > ZERO).sum()
            left[there[order[:rank]]] -= 1
        if not left.any():
            break
        space = _without(space, left > 0)
    return space


def combination(space: FloatArray, people: IntArray, least: int) -> FloatArray | None:
    """A combination (atom,) of groups about fewer than ``least`` people, or None.

    It is about all in atoms where it is not 0, on either side: "these less those"
    reveals one of few people as a sum does. One about nobody counts: its people are
    then known to be elsewhere. ``space`` (rank, atom) is a basis of all combinations,
    ``people`` (atom,) how many there are.
    """
    space = contracted(space, people, least)
    some = people > 0
    about_nobody = _without(space, some)
    if len(about_nobody):
        return np.asarray(about_nobody[0])
    if not len(space):
        return None
    if len(space) == 1:
        is_small = people[np.abs(space[0]) > ZERO].sum() < least
        return np.asarray(space[0]) if is_small else None

    some &= np.abs(space).max(axis=0) > ZERO
    is_inside = _searched(space[:, some], people[some], least)
    if is_inside is None:
        return None
    some[some] = ~is_inside
    return np.asarray(_without(space, some)[0])


def _searched(space: FloatArray, people: IntArray, least: int) -> BoolArray | None:
    """(atom,) whom a combination about fewer than ``least`` people is about, or None.

    An integer program searches the combinations y = x space: on each atom y is 0, or 1
    to M = ``LARGEST_SHARE`` with either sign. For two attributes, whose matrix is
    totally unimodular, -1, 0 and 1 suffice. Of three tables or more one may be
    overlooked if some atom counts more than three times as much as another.

    The variables are, by atom, whether it is in the combination with a positive sign
    (p) and with a negative one (q), both 0 or 1, and the coefficients x. What must hold
    is M p - q >= y, M q - p >= -y, p + q <= 1; at least one atom in all; and fewer than
    ``least`` people, as few as possible.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    rank, n = space.shape
    shares = space.T
    one = np.eye(n)
    none = np.zeros_like(shares)
    most = LARGEST_SHARE * np.eye(n)
    signs = np.block([[most, -one, -shares], [-one, most, shares], [-one, -one, none]])
    is_atom = np.repeat([1, 0], [2 * n, rank])
    counted = np.concatenate([people, people, none[0]])
    few = LinearConstraint(np.stack([is_atom, counted]), [1, 0], [np.inf, least - 1])
    answer = milp(
        counted,
        integrality=is_atom,
        bounds=Bounds(np.where(is_atom, 0, -np.inf), np.where(is_atom, 1, np.inf)),
        constraints=[LinearConstraint(signs, np.repeat([0, 0, -1], n), np.inf), few],
        options={"time_limit": SECONDS},
    )
    if answer.x is not None:
        return np.asarray(answer.x[: 2 * n].reshape(2, n).sum(axis=0) >= 0.5)
    if answer.status == INFEASIBLE:
        return None
    raise InputError(f"too many groups to check what subtraction reveals; {REMEDY}.")
