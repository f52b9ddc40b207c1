"""What counts reveal, against an attacker who tries every table that fits."""

import itertools

import numpy as np

from pcer.release.disclosure import (
    Detail,
    coarsened,
    coarsening_note,
    given_away,
)


def released(table: np.ndarray, detail: Detail) -> tuple[int, ...]:
    """What readers know of one group's (part, label, predicted) counts, and its labels.

    Those are in the exact tables of other models of the split.
    """
    labels = table.sum(axis=2).ravel().tolist()
    right = table.trace(axis1=1, axis2=2).tolist()
    positive = int(table[1, :, 1].sum())
    return {
        Detail.COUNTS: tuple(table.ravel().tolist()),
        Detail.ACCURACY: (*labels, *right, positive),
        Detail.POSITIVE_RATE: (*labels, positive),
        Detail.SIZES: tuple(labels),
    }[detail]


def test_a_reader_who_knows_the_rule_is_certain_of_nobody():
    """Slow and obvious: all pairs of tables with the same detail that look the same."""
    parts = [[[4 - fp, fp], [fn, 5 - fn]] for fp in range(5) for fn in range(6)]
    pairs = np.array([*itertools.product(parts, parts)])
    detail = [Detail(level) for level in coarsened(pairs[:, :, None])[:, 0]]
    seen = {}
    for pair, level in zip(pairs, detail, strict=True):
        if level > Detail.COUNTS:
            seen.setdefault((level, released(pair, level)), []).append(pair > 0)
    assert {level for level, _ in seen} == {
        Detail.ACCURACY,
        Detail.POSITIVE_RATE,
        Detail.SIZES,
    }
    for alike in seen.values():
        room = np.any(alike, axis=0)
        assert (room[0] == room[1]).all()


def test_an_empty_cell_that_faces_a_full_one_gives_everybody_in_it_away():
    tables = np.full((2, 2, 1, 2, 2), 50)
    tables[0, 0, 0, 1, 0] = (
        0  # model 0: nobody positive was answered wrongly in training
    )
    tables[1, 1, 0, 0, 1] = 0
    tables[1, 0, 0, 0, 1] = 7
    assert given_away(tables).tolist() == [50, 7]
    tables[0, 1, 0, 1, 0] = 0  # empty in both parts: there is nobody to tell about
    assert given_away(tables).tolist() == [0, 7]


def test_coarsening_keeps_the_most_that_tells_nothing():
    tables = np.full((5, 2, 1, 2, 2), 50)
    tables[1, 0, 0, 1, 0] = (
        0  # one kind of error is missing: right and wrong still say nothing
    )
    tables[2, 0, 0, 1, 0] = tables[2, 0, 0, 0, 1] = 0  # no error at all in training
    tables[3:, 0, 0, 1, 0] = tables[3:, 0, 0, 0, 1] = 0
    tables[3, 1, 0, :, 1] = 0  # and nobody in test is predicted positive
    tables[4, 0, 0, 1, 0] = (
        1  # or all but one: as coarse as with none, or that would tell of none
    )
    detail = coarsened(tables)
    assert detail[:, 0].tolist() == [*Detail, Detail.POSITIVE_RATE]
    note = coarsening_note(detail, ("A",))
    assert note.startswith("To reveal no membership with certainty, tables are coarser")
    assert "A in 4 of 5 models." in note
    assert coarsening_note(detail[:1], ("A",)) == ""
