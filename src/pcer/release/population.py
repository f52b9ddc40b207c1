"""Who is in the tables of a command, and why are others in none of them?

Attributes divide people into groups. Those who lack one of the attributes of a command
are in none of its tables, so that no two tables differ by them (``of_one_population``);
models are still trained on them. ``small_groups`` then joins groups within this
population, unless totals of the splits tell of those outside (``totals_tell``). To add
a reason why somebody is in no table: a value of ``Why``, and its words in
``left_out`` of ``auditing/words.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from pcer.errors import InputError, normalised
from pcer.metrics import BoolArray, IntArray
from pcer.release.columns import (
    CROSSING,
    Coded,
    column_of,
    cross,
    named_columns,
    text_of,
)
from pcer.release.disclosure import LEAST_ROOM
from pcer.release.records import LeftOutPeople, Why, require_phrases
from pcer.wording import say

Missing = Literal["leave_out", "group"]  # what becomes of people without a value

NOBODY = -1  # the group of records that are in none
NOT_RECORDED = "not recorded"  # the group of people without a value
# Shares of a training part that people choose: whoever knows the number of records
# knows its size.
USUAL_SHARES = np.array([*np.arange(1, 20) / 20, 1 / 3, 2 / 3])


class LeftOut(NamedTuple):
    """Records that are in no table, and why."""

    why: Why
    attribute: str  # which they lack, or whose groups are too small
    chosen: BoolArray  # (record,)


class Attribute(NamedTuple):
    """An attribute to be released, and who is in which of its groups."""

    name: str
    groups: tuple[str, ...]
    codes: IntArray  # (record,) NOBODY for those in none
    note: str = ""  # which small groups were joined; empty where none
    # Groups whose names their owner has given, so that they are no person's words.
    declared: frozenset[str] = frozenset()
    left_out: tuple[LeftOut, ...] = ()  # the first reason of a record counts
    joined: Mapping[str, int] = MappingProxyType({})  # of how many groups, by name

    def at(self, rows: IntArray) -> Attribute:
        """The attribute of these records alone."""
        left_out = [one._replace(chosen=one.chosen[rows]) for one in self.left_out]
        return self._replace(codes=self.codes[rows], left_out=tuple(left_out))


def recorded(
    name: str,
    groups: tuple[str, ...],
    codes: IntArray,
    declared: frozenset[str] = frozenset(),
) -> Attribute:
    """An attribute in which NOBODY is the group of those without a value."""
    missing = LeftOut("missing", name, codes == NOBODY)
    return Attribute(name, groups, codes, declared=declared, left_out=(missing,))


def attribute_of(
    name: str,
    columns: list[Coded],
    wanted: Sequence[Any] | None,
    missing: Missing = "leave_out",
) -> Attribute:
    """Groups of one column, or of several crossed: those wanted, in order, or all.

    People without a value are one more group, the last, if ``missing`` says so.
    """
    crossed = cross(columns)
    groups = tuple(sorted(crossed.names) if wanted is None else map(text_of, wanted))
    declared = frozenset(() if wanted is None else groups)
    position = {group: index for index, group in enumerate(groups)}
    code_of_name = [position.get(value, NOBODY) for value in crossed.names]
    is_missing = crossed.codes < 0
    codes = np.array([*code_of_name, NOBODY], dtype=np.int64)[crossed.codes]
    is_other = (codes == NOBODY) & ~is_missing
    if missing == "group" and is_missing.any():
        codes[is_missing] = len(groups)
        groups = (*groups, NOT_RECORDED)
        declared |= {NOT_RECORDED}
    left_out = (
        LeftOut("missing", name, is_missing),
        LeftOut("other", name, is_other),
    )
    return Attribute(name, groups, codes, declared=declared, left_out=left_out)


def named_attribute(
    features: Any,
    name: str | None,
    wanted: Sequence[Any] | None,
    missing: Missing = "leave_out",
) -> Attribute:
    """The attribute of a user's columns: of one, or of several crossed."""
    columns = named_columns(features, name)
    coded = [column_of(values, column) for column, values in columns.items()]
    return attribute_of(name or CROSSING.join(columns), coded, wanted, missing)


def renamed(
    attributes: Sequence[Attribute], names: Mapping[Any, str]
) -> list[Attribute]:
    """Attributes with readers' names, by group or ``attribute:group``; others stay."""
    by_key = {text_of(key): name for key, name in names.items()}
    for key, name in by_key.items():
        require_phrases(group_names=name)
        _require_one_group(key, attributes)
    return [_renamed(attribute, by_key) for attribute in attributes]


def _require_one_group(key: str, attributes: Sequence[Attribute]) -> None:
    """Raise InputError unless a key (``group``, ``attribute:group``) is one group."""
    meant: set[tuple[str, str]] = set()
    for attribute in attributes:
        for group in attribute.groups:
            if key in (group, f"{attribute.name}:{group}"):
                meant.add((attribute.name, group))
    if len(meant) == 1:
        return
    fault = "there is not"
    if meant:
        fault = "several attributes have; write ATTRIBUTE:GROUP"
    raise InputError(
        f"group_names has a group {key!r} that {fault}.", field="group_names"
    )


def _renamed(attribute: Attribute, names: Mapping[str, str]) -> Attribute:
    """One attribute with readers' names; the key with the attribute goes first."""
    groups = []
    declared = set[str]()
    for group in attribute.groups:
        name = names.get(f"{attribute.name}:{group}", names.get(group))
        groups.append(group if name is None else name)
        if name is not None or group in attribute.declared:
            declared.add(groups[-1])
    if names and len({*map(normalised, groups)}) < len(groups):
        raise InputError(
            f"group_names gives two groups of {attribute.name!r} one name; name them "
            "apart.",
            field="group_names",
        )
    return attribute._replace(groups=tuple(groups), declared=frozenset(declared))


def without_unrecorded(attribute: Attribute) -> Attribute:
    """The attribute; people without a value are in no group."""
    place = attribute.groups.index(NOT_RECORDED)
    return attribute._replace(
        groups=tuple(name for name in attribute.groups if name != NOT_RECORDED),
        codes=np.where(attribute.codes == place, NOBODY, attribute.codes),
    )


def are_enough(positive: BoolArray, least: int, share: float) -> bool:
    """Whether of either label some ``least`` fall to a part with that share of all."""
    n_positive = int(positive.sum())
    return min(n_positive, len(positive) - n_positive) * share >= least


def is_outside(attributes: Sequence[Attribute]) -> BoolArray:
    """(record,) whether a record lacks one of the attributes."""
    lacks = [attribute.codes == NOBODY for attribute in attributes]
    return np.asarray(np.any(lacks, axis=0))


def of_one_population(attributes: Sequence[Attribute]) -> list[Attribute]:
    """The attributes of those who have all of them; others are in none of the tables.

    Otherwise the difference of two tables would be about those who lack one of them.
    """
    outside = is_outside(attributes)
    within = []
    for attribute in attributes:
        codes = np.where(outside, NOBODY, attribute.codes)
        reasons = [*attribute.left_out]
        for other in attributes:
            if other is not attribute:
                reasons += other.left_out
        within.append(attribute._replace(codes=codes, left_out=tuple(reasons)))
    return within


def left_out_sentence(
    left_out: Sequence[LeftOutPeople], n_missing_group: int | None
) -> str:
    """Who is in no table and why; their number if only that is known; "" if nobody."""
    if not n_missing_group:
        return ""
    if not left_out:
        return say("how_sure", "missing", n=f"{n_missing_group:,}")
    parts: list[str] = []
    for row in left_out:
        is_one = row.n_people == 1
        part = say(
            "left_out",
            row.why,
            n=f"{row.n_people:,}",
            more="more " if parts and row.why != "too_few" else "",
            have="has" if is_one else "have",
            are="is" if is_one else "are",
            attribute=row.attribute,
        )
        parts.append(part)
    return say("left_out", "whole", parts="; ".join(parts))


def totals_tell(people: IntArray, outside: BoolArray, least: int) -> bool:
    """Whether totals over everybody give away few people who are in no table.

    A split that is exact over everybody, such as 70/30, has totals that follow from the
    number of records. Less the sums of the tables they are the people outside. Exact is
    what is the same in different splits, or a usual share up to rounding. Sizes without
    labels tell of somebody only where fewer than ``LEAST_ROOM`` are in one part.

    Args:
        people: (model, part, atom, label) how many there are.
        outside: (atom,) who is in no table.
        least: fewer people are too few.
    """
    if not people[:, :, outside].any():
        return False
    n_splits = len(np.unique(people.reshape(len(people), -1), axis=0))
    everybody = people.sum(axis=2)
    few = people[:, :, outside].sum(axis=2)
    if few.min() < least and _are_exact(everybody, n_splits):
        return True
    sizes = everybody.sum(axis=2, keepdims=True)
    return bool(few.sum(axis=2).min() < LEAST_ROOM and _are_exact(sizes, n_splits))


def _are_exact(totals: IntArray, n_splits: int) -> bool:
    """Whether (model, part, label) totals follow from the number of records."""
    if n_splits > 1 and (totals == totals[0]).all():
        return True
    n = totals.sum(axis=1)
    expected = USUAL_SHARES[:, None, None] * n
    is_near = np.abs(totals[:, 0] - expected) < 1  # (share, model, label)
    return bool(is_near.all(axis=(1, 2)).any())
