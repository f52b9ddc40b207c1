"""Wheels against plain sums over the records that a turn puts into the first group."""

from __future__ import annotations

import numpy as np
import pytest

from pcer.attacks.sums import all_turns, turned_sums, wheel_sizes


@pytest.mark.parametrize("n", [1, 2, 7, 90, 1_009])
def test_every_turn_against_a_loop(n):
    rng = np.random.default_rng(n)
    columns = rng.integers(-(2**18), 2**18, (n, 3)).astype(np.float32)
    inside = rng.random(n) < 0.3
    found = all_turns(columns, inside)
    for turn in range(n):
        expected = columns[np.roll(inside, -turn)].sum(axis=0, dtype=np.float64)
        assert (found[turn] == expected).all()


def test_the_largest_numbers_of_many_records_are_exact():
    rng = np.random.default_rng(0)
    n, far = 400_000, 123_456
    columns = np.where(rng.random((n, 1)) < 0.5, 2.0**18, 2.0**18 - 1).astype(np.float32)
    inside = rng.random(n) < 0.9
    expected = columns[np.roll(inside, -far)].sum(axis=0, dtype=np.float64)
    assert all_turns(columns, inside)[far] == expected


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1_009, 46_033])
def test_wheels_hold_everybody(n):
    sizes = list(wheel_sizes(n))
    assert sum(sizes) == n
    assert sizes[0] > 0.9 * n
    assert sizes == sorted(sizes, reverse=True)


def drawn(inside, n_draws, rng):
    """(draw, record) who was in the first group: sums of records that each stand for themselves."""
    return turned_sums(np.eye(len(inside), dtype=np.float32), inside, n_draws, rng)


def test_draws_are_divisions_of_the_same_size():
    rng = np.random.default_rng(2)
    inside = rng.random(400) < 0.3
    found = drawn(inside, 500, rng)
    assert np.isin(found, (0, 1)).all()
    assert (found.sum(axis=1) == inside.sum()).all()
    assert len(np.unique(found, axis=0)) > 490


def test_the_real_division_is_not_drawn_again():
    """As good as never among shuffles: a difference that none has gets the smallest p there is."""
    rng = np.random.default_rng(6)
    inside = np.arange(1_001) < 300
    columns = inside[:, None].astype(np.float32)
    assert turned_sums(columns, inside, 9_999, rng).max() < 150


def test_every_record_and_every_two_are_drawn_as_often():
    """As often as among all subsets of that size, whoever is in the group in truth."""
    rng = np.random.default_rng(3)
    inside, n_times = np.arange(40) < 12, 40_000
    found = drawn(inside, n_times, rng)
    together = (found.T @ found / n_times)[np.triu_indices(40, 1)]
    for seen, chance in ((found.mean(axis=0), 12 / 40), (together, 12 / 40 * 11 / 39)):
        luck = 5 * np.sqrt(chance * (1 - chance) / n_times)
        assert (np.abs(seen - chance) < luck + 0.01).all()


@pytest.mark.parametrize("n_draws", [9, 2_000])
def test_sums_spread_as_those_of_shuffles_do(n_draws):
    """Variance and tails over all layouts: skewed numbers, a small group."""
    rng = np.random.default_rng(4)
    values, inside = np.rint(100 * rng.exponential(size=600)), np.arange(600) < 60
    columns, n_times = values[:, None].astype(np.float32), 20_000 // n_draws
    turned = np.concatenate([turned_sums(columns, inside, n_draws, rng) for _ in range(n_times)])
    shuffled = rng.permuted(np.tile(values, (20_000, 1)), axis=1)[:, :60].sum(axis=1)
    assert turned.mean() == pytest.approx(shuffled.mean(), rel=0.005)
    assert turned.std() == pytest.approx(shuffled.std(), rel=0.04)
    for level in (0.01, 0.05, 0.95, 0.99):
        share = (turned <= np.quantile(shuffled, level)).mean()
        assert share == pytest.approx(level, abs=0.006), level


def test_what_is_drawn_follows_from_the_seed():
    inside = np.arange(300) < 100
    columns = np.arange(600, dtype=np.float32).reshape(300, 2)
    first, again = (turned_sums(columns, inside, 400, np.random.default_rng(5)) for _ in range(2))
    assert (first == again).all()
    assert len(np.unique(first[:, 0])) > 300
