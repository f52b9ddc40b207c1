"""What counts give away, against an attacker who tries every table that fits the release."""

import itertools

import numpy as np
import pytest

from pcer.errors import InputError
from pcer.release.disclosure import (
    NOBODY,
    Detail,
    DisclosureRule,
    Regrouping,
    allowed_groups,
    coarsened,
    coarsening_note,
    given_away,
)


def people(*groups: tuple[int, int, int, int]) -> np.ndarray:
    """One split; each group as negative and positive in training, then in test."""
    return np.array(groups).reshape(len(groups), 2, 2).transpose(1, 0, 2)[None]


def released(table: np.ndarray, detail: Detail) -> tuple[int, ...]:
    """What a reader sees of one group in one model: (part, label, predicted) counts."""
    n, right = table.sum(axis=(1, 2)).tolist(), (table[:, 0, 0] + table[:, 1, 1]).tolist()
    positive = int(table[1, :, 1].sum())
    return {
        Detail.COUNTS: tuple(table.ravel().tolist()),
        Detail.ACCURACY: (*n, *right, positive),
        Detail.POSITIVE_RATE: (*n, positive),
        Detail.SIZES: tuple(n),
    }[detail]


def certain_people(table: np.ndarray, detail: Detail) -> int:
    """Slow and obvious: every pair of tables that would look the same to the reader."""
    seen, room = released(table, detail), np.zeros((2, 2, 2), dtype=bool)
    cells = np.array([*itertools.product(range(4), repeat=4)]).reshape(-1, 2, 2)
    parts = [cells[cells.sum(axis=(1, 2)) == n] for n in table.sum(axis=(1, 2))]
    for pair in map(np.stack, itertools.product(*parts)):
        room |= pair > 0 if released(pair, detail) == seen else False
    return int(table.sum(axis=0)[room[0] != room[1]].sum())


@pytest.mark.parametrize("detail", list(Detail))
def test_the_number_given_away_is_what_an_attacker_is_certain_of(detail):
    rng = np.random.default_rng(0)
    for _ in range(12):
        table = rng.multinomial(3, rng.dirichlet(np.ones(4)), size=2).reshape(2, 2, 2)
        found = given_away(table[None, :, None], np.array([[int(detail)]]))
        assert found.memberships == certain_people(table, detail)


def test_an_empty_cell_that_faces_a_full_one_gives_everybody_in_it_away():
    tables = np.full((2, 2, 1, 2, 2), 50)
    tables[0, 0, 0, 1, 0] = 0  # model 0: nobody positive was answered wrongly in training
    tables[1, 1, 0, 0, 1] = 0
    tables[1, 0, 0, 0, 1] = 7
    assert given_away(tables) == (57, 50)
    tables[0, 1, 0, 1, 0] = 0  # empty in both parts: there is nobody to tell about
    assert given_away(tables).memberships == 7


def test_coarsening_keeps_the_most_that_tells_nothing():
    tables = np.full((4, 2, 1, 2, 2), 50)
    tables[1, 0, 0, 1, 0] = 0  # one kind of error is missing: right and wrong still say nothing
    tables[2, 0, 0, 1, 0] = tables[2, 0, 0, 0, 1] = 0  # no error at all in training
    tables[3, 0, 0, 1, 0] = tables[3, 0, 0, 0, 1] = 0
    tables[3, 1, 0, :, 1] = 0  # and nobody in test is predicted positive
    detail = coarsened(tables)
    assert detail[:, 0].tolist() == list(Detail)
    assert given_away(tables).memberships > 0
    assert given_away(tables, detail).memberships == 0
    assert coarsening_note(detail, ("A",)) == (
        "So that nobody's membership is told with certainty, tables are coarser here: A: right and "
        "wrong only in 1 of 4 models; A: no accuracy in 2 of 4 models (the smallest gap that would "
        "show grows by a factor of 1.41)."
    )


def test_coarsened_tables_never_give_anybody_away():
    tables = np.random.default_rng(1).poisson(1.5, size=(200, 2, 3, 2, 2))
    tables[:, :, :, 0, 0] += 1
    detail = coarsened(tables)
    assert given_away(tables, detail).memberships == 0
    finer = np.maximum(detail - 1, 0)
    for model, group in np.argwhere(detail > 0):
        one = tables[model : model + 1, :, group : group + 1]
        assert given_away(one, finer[model : model + 1, group : group + 1]).memberships > 0


def regroup(sizes: np.ndarray, **rule: bool) -> Regrouping:
    names = tuple("ABCDEFG"[: sizes.shape[2]])
    return allowed_groups(DisclosureRule(**rule), sizes, names, attribute="letter")


LARGE, SMALL = (90, 90, 40, 40), (3, 3, 3, 3)
MIDDLE, NEXT = (80, 70, 30, 30), (50, 50, 20, 20)


@pytest.mark.parametrize(
    ("sizes", "names", "place"),
    [
        ([(20, 20, 10, 10), (30, 30, 30, 30)], ("A", "B"), [0, 1]),
        ([LARGE, (6, 9, 5, 5), MIDDLE, (9,) * 4], ("A", "C", "B + D"), [0, 2, 1, 2]),
        ([LARGE, SMALL, MIDDLE, NEXT], ("A", "C", "B + D"), [0, 2, 1, 2]),
    ],
)
def test_a_small_group_never_stands_alone_nor_can_it_be_subtracted(sizes, names, place):
    found = regroup(people(*sizes))
    assert (found.names, found.place.tolist()) == (names, place)
    assert found.note.startswith("B and D: joined into" if len(sizes) > 2 else "")
    assert bool(found.note) == (len(sizes) > 2)
    assert found.apply(np.array([1, 0, NOBODY])).tolist() == [place[1], place[0], NOBODY]
    assert regroup(people(*sizes), public=True).names == tuple("ABCD"[: len(sizes)])


def test_every_split_counts_and_a_note_says_why():
    sizes = np.concatenate([people(*[(20, 20, 20, 20)] * 3)] * 2)
    sizes[1, 1, 2, 1] = 9
    found = regroup(sizes)
    assert found.names == ("B", "A + C")
    assert found.note == (
        "A and C: joined into one group, because fewer than 10 people of one label are in training "
        "or in test."
    )
    with pytest.raises(InputError) as caught:
        regroup(people((90, 90, 40, 40), (2, 1, 1, 0)))
    assert caught.value.field == "least_people"


def test_what_is_released_rests_on_enough_people():
    rng = np.random.default_rng(2)
    for _ in range(100):
        sizes = rng.geometric(0.02, size=(3, 2, 7, 2)) * rng.integers(0, 2, (7, 1))
        try:
            found = regroup(sizes)
        except InputError:
            continue
        for place in range(len(found.names)):
            assert sizes[:, :, found.place == place].sum(axis=2).min() >= 10
