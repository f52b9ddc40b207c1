"""Which rows of several models are about the same people?

``arrays`` asks before it releases tables of several models: those of different people
can be subtracted (``require_no_few``), and those of one split add up to everybody's
membership (``aligned``, for ``release.joint``). Record ids say who is who; without them
rows stand for the same people in the same order if labels and groups agree. To add a
way of telling who is who: a case of ``_places``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.rows import Rows
from pcer.release.disclosure import WARNING
from pcer.release.joint import ABSENT, Answered
from pcer.release.population import Attribute

# People of one group and label for each model of a split, where nobody can say who is
# who: with fewer, tables would add up to memberships if answers differ enough.
PEOPLE_PER_MODEL = 10
MOST_STATES = 100  # random states that are tried
FIRST_LOOK = 8  # people of the test part who are looked at before the others


class Aligned(NamedTuple):
    """Everybody, under one number in all models, and their groups."""

    answered: Answered
    attributes: list[Attribute]  # whose codes are by person


def aligned(rows: Rows, attributes: Sequence[Attribute]) -> Aligned | None:
    """Who is who in all models; None where nothing says so."""
    place = _places(rows, attributes)
    if place is None:
        return None
    entries = rows.entries
    n_models = len(rows.keys)
    n = int(place.max()) + 1
    first = np.unique(place, return_index=True)[1]
    part: IntArray = np.full((n_models, n), ABSENT)
    part[entries.run, place] = entries.split
    predicted = np.zeros((n_models, n), dtype=bool)
    predicted[entries.run, place] = entries.predicted
    persons = None if rows.persons is None else rows.persons[first]
    answered = Answered(entries.positive[first], part, predicted, persons)
    by_person = [own.at(first) for own in attributes]
    return Aligned(answered, by_person)


def known_draw(part: IntArray) -> list[str]:
    """A warning where anybody can draw a split again, by a small random state.

    Tried are splits of all records in their order, as scikit-learn's
    ``train_test_split`` draws them.
    """
    n = part.shape[1]
    whole = part[(part != ABSENT).all(axis=1)]
    distinct = {row.tobytes(): row == 1 for row in whole}
    is_test = np.array([*distinct.values()]).reshape(len(distinct), n)
    n_test = is_test.sum(axis=1)
    for state in range(MOST_STATES):
        order = np.random.RandomState(state).permutation(n)
        is_like = is_test[:, order[:FIRST_LOOK]].all(axis=1)  # few others are
        for own, n_own in zip(is_test[is_like], n_test[is_like], strict=True):
            if own[order[:n_own]].all():
                return [
                    f"{WARNING} the split of a model is that of random_state={state}, "
                    "which anybody can draw again and solve for the records; draw "
                    "splits by a long random state that you keep."
                ]
    return []


def _places(rows: Rows, attributes: Sequence[Attribute]) -> IntArray | None:
    """(row,) the number of the person; None where nothing says who is who."""
    entries = rows.entries
    if rows.record is not None:
        codes = rows.record.codes
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        # Numbered as they first stand, since splits are often drawn by row.
        number: IntArray = np.argsort(np.argsort(first))[place]
        return number
    n_models = len(rows.keys)
    sizes = np.bincount(entries.run)
    if entries.n is not None or (sizes != sizes[0]).any():
        return None
    order = np.argsort(entries.run, kind="stable").reshape(n_models, -1)
    columns = [entries.positive, *(own.codes for own in attributes)]
    if rows.persons is not None:
        columns.append(rows.persons)
    for column in columns:
        by_model = column[order]
        if (by_model != by_model[0]).any():
            return None
    place = np.empty(len(entries.run), dtype=np.int64)
    place[order] = np.arange(sizes[0])
    return place


def require_no_few(rows: Rows, attributes: Sequence[Attribute], least: int) -> None:
    """Raise InputError where models differ in few people of one group and label.

    One table less the other would be theirs. Without record ids models are taken to be
    of the same people but for few where their numbers differ by few in every group and
    label. Models of one named split are refused as such when the file is read.
    """
    if len(rows.keys) < 2:
        return
    names = np.array([key.split or f"\0{n}" for n, key in enumerate(rows.keys)])
    is_other = names[:, None] != names
    for attribute in attributes:
        chosen = _by_label(rows, attribute)
        n_differ = np.array([_numbers_that_differ(rows, codes) for codes in chosen])
        is_few = ((n_differ > 0) & (n_differ < least)).any(axis=0)
        if rows.record is None:
            is_few &= (n_differ < least).all(axis=0)
        if (is_other & is_few).any():
            raise InputError(
                "models scored different people, and tables less each other would be "
                f"about fewer than {least} of one group and label; score the same "
                "people with every model, or say that the data are public.",
                field="least_people",
            )


def _by_label(rows: Rows, attribute: Attribute) -> list[BoolArray]:
    """(row,) who is of one group and label, of each."""
    return [
        (attribute.codes == group) & (rows.entries.positive == label)
        for group in range(len(attribute.groups))
        for label in (False, True)
    ]


def _numbers_that_differ(rows: Rows, chosen: BoolArray) -> FloatArray:
    """(model, model) how many of the chosen the first scored and the second did not."""
    model = rows.entries.run[chosen]
    n_models = len(rows.keys)
    if rows.record is None:
        n = None if rows.entries.n is None else rows.entries.n[chosen]
        sizes = np.bincount(model, n, minlength=n_models)
        return np.abs(np.subtract.outer(sizes, sizes)).astype(np.float64)
    person = np.unique(rows.record.codes[chosen], return_inverse=True)[1]
    is_there = np.zeros((n_models, int(person.max(initial=-1)) + 1), dtype=np.float32)
    is_there[model, person] = 1
    kinds, kind = np.unique(is_there, axis=0, return_inverse=True)
    both = kinds @ kinds.T
    differ = np.diagonal(both)[:, None] - both
    return np.asarray(differ[np.ix_(kind.ravel(), kind.ravel())], dtype=np.float64)


def require_few_models(rows: Rows, attributes: Sequence[Attribute]) -> None:
    """Raise InputError where models of a split are many and nobody can say who is who.

    Models may share a split where as many people of each group and label are in
    training.
    """
    for attribute in attributes:
        trained = _trained(rows, attribute)
        _, n_models = np.unique(trained, axis=0, return_counts=True)
        most = int(trained.min()) // PEOPLE_PER_MODEL
        if n_models.max() > max(1, most):
            raise InputError(
                f"nothing says who is who in {n_models.max()} models that may share a "
                "split, so that what their tables reveal together cannot be found out; "
                "name the records by record_id, or release at most "
                f"{max(1, most)} settings.",
                field="record_id",
            )


def _trained(rows: Rows, attribute: Attribute) -> IntArray:
    """(model, group and label) how many people were trained on."""
    entries = rows.entries
    is_counted = (entries.split == 0) & (attribute.codes >= 0)
    shape = (len(rows.keys), len(attribute.groups), 2)
    where = (entries.run, attribute.codes, entries.positive.astype(np.int64))
    cell = np.ravel_multi_index([of[is_counted] for of in where], shape)
    n = None if entries.n is None else entries.n[is_counted]
    counts = np.bincount(cell, n, minlength=int(np.prod(shape)))
    return counts.astype(np.int64).reshape(len(rows.keys), -1)
