"""Sums over sets of records: right, and the same bits in whatever order."""

import numpy as np
import pytest

from pcer.attacks import placebo_groupings, sums
from pcer.attacks.sums import Divisions, ExactSums, all_turns, turned_sums, wheel_sizes


@pytest.mark.parametrize("n_records", [7, 500, 20_001])
def test_sums_against_plain_ones(n_records):
    rng = np.random.default_rng(0)
    rows = 3 + rng.normal(size=(4, n_records)) ** 3
    sets = rng.random((40, n_records)) < 0.4
    exact = ExactSums(rows, rows[:1].astype(np.float32), rows > 3)
    expected = np.concatenate([rows, rows[:1], rows > 3]) @ sets.T
    assert (
        pytest.approx(expected, rel=1e-4, abs=1e-3) == exact.scaled(exact.raw(sets)).T
    )


def test_the_order_of_adding_changes_no_bit(monkeypatch):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3, 3_000))
    sets = rng.random((70, 3_000)) < 0.3
    exact = ExactSums(rows)
    expected = exact.raw(sets)
    assert (expected + exact.raw(~sets) == exact.total).all()
    some = slice(70, 313)
    inside = np.zeros_like(sets)
    inside[:, some] = sets[:, some]
    assert (exact.raw(sets[:, some], some) == exact.raw(inside)).all()
    monkeypatch.setattr(sums, "SETS", 7)
    monkeypatch.setattr(sums, "TILES", 3)
    assert (exact.raw(sets) == expected).all()
    order = rng.permutation(3_000)
    assert (ExactSums(rows[:, order]).raw(sets[:, order]) == expected).all()


def test_divisions_against_a_loop():
    rng = np.random.default_rng(0)
    codes = placebo_groupings(rng.integers(-1, 3, 200), 4, rng)
    divisions = Divisions(codes, 3)
    numbers = rng.normal(size=(2, 200))
    flags = rng.random((3, 200)) < 0.5
    found = divisions.sums(numbers, flags)
    for d, g in np.ndindex(4, 3):
        chosen = codes[d] == g
        assert divisions.sizes[3 * d + g] == chosen.sum()
        expected = [*numbers[:, chosen].sum(axis=1), *flags[:, chosen].sum(axis=1)]
        assert found[:, 3 * d + g] == pytest.approx(expected, abs=1e-3)
        assert (found[2:, 3 * d + g] == flags[:, chosen].sum(axis=1)).all()


@pytest.mark.parametrize("n", [1, 2, 90, 1_009])
def test_every_turn_against_a_loop(n):
    rng = np.random.default_rng(n)
    columns = rng.integers(-(2**18), 2**18, (n, 3)).astype(np.float32)
    inside = rng.random(n) < 0.3
    found = all_turns(columns, inside)
    for turn in range(0, n, 1 + n // 100):
        expected = columns[np.roll(inside, -turn)].sum(axis=0, dtype=np.float64)
        assert (found[turn] == expected).all()
    sizes = wheel_sizes(n)
    assert sum(sizes) == n
    assert sizes == sorted(sizes, reverse=True)


def test_the_largest_numbers_of_many_records_are_exact():
    rng = np.random.default_rng(0)
    n, far = 400_000, 123_456
    columns = np.where(rng.random((n, 1)) < 0.5, 2.0**18, 2.0**18 - 1).astype(
        np.float32
    )
    inside = rng.random(n) < 0.9
    expected = columns[np.roll(inside, -far)].sum(axis=0, dtype=np.float64)
    assert all_turns(columns, inside)[far] == expected


def test_draws_are_divisions_of_the_same_size_and_never_the_real_one(monkeypatch):
    """A difference that no shuffle has gets the smallest p-value there is."""
    rng = np.random.default_rng(2)
    inside = rng.random(400) < 0.3
    found = turned_sums(np.eye(400, dtype=np.float32), inside, 500, rng)
    assert np.isin(found, (0, 1)).all()
    assert (found.sum(axis=1) == inside.sum()).all()
    assert len(np.unique(found, axis=0)) > 490
    inside = np.arange(1_001) < 300
    sizes = set[int]()
    monkeypatch.setattr(
        sums, "all_turns", lambda *one: sizes.add(len(one[1])) or all_turns(*one)
    )
    assert (
        turned_sums(inside[:, None].astype(np.float32), inside, 9_999, rng).max() < 150
    )
    assert sizes == {*wheel_sizes(1_001)} == {1_000, 1}


def test_every_record_and_every_two_are_drawn_as_often():
    """As often as among all subsets of that size, whoever is in the group in truth."""
    rng = np.random.default_rng(3)
    inside = np.arange(40) < 12
    n_times = 40_000
    found = turned_sums(np.eye(40, dtype=np.float32), inside, n_times, rng)
    together = (found.T @ found / n_times)[np.triu_indices(40, 1)]
    for seen, chance in ((found.mean(axis=0), 12 / 40), (together, 12 / 40 * 11 / 39)):
        luck = 5 * np.sqrt(chance * (1 - chance) / n_times)
        assert (np.abs(seen - chance) < luck + 0.01).all()
