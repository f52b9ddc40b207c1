"""Chances of random splits, against scipy and against counting every table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pcer.auditing.hypergeometric import (
    EXACT_DEVIATION,
    SplitCounts,
    chain,
    chance_beyond,
    chance_of_repeats,
    chance_rounded,
    chance_within,
    distribution,
    group_chances,
    label_chances,
    likeliest_table,
    n_fold_sets,
    pair_chance,
)
from tests.worlds.splits import draw_folds, draw_split

NO_CLUMPS = np.ones(2)


def counts(total, *trained) -> SplitCounts:
    train = np.array(trained, dtype=float)
    return SplitCounts(train, np.array(total, dtype=float) - train)


def every_table(total, n_train):
    """Every way to train on so many records, with its chance: the slow twin."""
    cells = np.array(total).ravel()
    whole = math.comb(int(cells.sum()), n_train)
    for cut in itertools.product(*(range(n + 1) for n in cells)):
        if sum(cut) == n_train:
            ways = math.prod(math.comb(int(n), k) for n, k in zip(cells, cut, strict=True))
            yield cut, ways / whole


@pytest.mark.parametrize(
    ("total", "good", "sampled"), [(10, 4, 7), (10, 9, 9), (1000, 3, 900), (40_000, 12_000, 28_000)]
)
def test_the_distribution_is_scipys(total, good, sampled):
    count, chance = distribution(total, good, sampled)
    expected = stats.hypergeom(total, good, sampled).pmf(count)
    assert chance == pytest.approx(expected, rel=1e-8, abs=1e-16)
    assert chance.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("total", "good", "sampled"), [(60, 7, 54), (200, 90, 100), (50, 1, 45)])
def test_no_chance_is_too_small(total, good, sampled):
    count, mass = distribution(total, good, sampled)
    p = [chance_beyond(k, total=total, good=good, sampled=sampled) for k in count]
    for level in (0.001, 0.01, 0.05, 0.3):
        assert mass[np.array(p) <= level].sum() <= level * (1 + 1e-9)


def test_large_counts_go_over_into_the_normal():
    total, good, sampled = 20_000_000, 10_000_000, 14_000_000
    exact = stats.hypergeom(total, good, sampled)
    assert exact.std() > EXACT_DEVIATION
    for deviations in (0.5, 2.0, 4.0):
        observed = sampled // 2 + round(deviations * exact.std())
        ours = chance_beyond(observed, total=total, good=good, sampled=sampled)
        assert ours == pytest.approx(2 * exact.sf(observed - 1), rel=0.01)
    within = chance_within(1, total=total, good=good, sampled=sampled)
    assert within == pytest.approx(exact.pmf(sampled // 2 + np.arange(-1, 2)).sum(), rel=1e-3)


def test_clumps_widen_what_chance_allows():
    alone = chance_beyond(380, total=1000, good=500, sampled=700)
    clumped = chance_beyond(380, total=1000, good=500, sampled=700, inflation=4.0)
    spread = 2 * stats.hypergeom(1000, 500, 700).std()
    assert clumped == pytest.approx(2 * stats.norm.sf(29.5 / spread))
    assert clumped > 100 * alone


def test_folds_are_known_by_tiling_the_data():
    rng = np.random.default_rng(1)
    total = np.array([[300, 200], [90, 30]])
    folds = [draw_folds(total, 5, "nothing", rng) for _ in range(2)]
    assert n_fold_sets(counts(total, *folds[0])) == 1
    assert n_fold_sets(counts(total, *folds[0], *folds[1])) == 2
    assert n_fold_sets(counts(total, *folds[0][:4])) == 0
    alone = [draw_split(total, 496, "nothing", rng) for _ in range(5)]
    assert n_fold_sets(counts(total, *alone)) == 0
    assert n_fold_sets(counts(total, total // 2)) == 0


@pytest.mark.parametrize("strata", ["nothing", "label", "group"])
def test_the_likeliest_table_and_the_chance_of_two_alike_are_counted(strata):
    total, trained = np.array([[4, 3], [6, 2], [1, 5]]), np.array([[3, 2], [3, 1], [1, 3]])
    one = counts(total, trained)
    parts = {
        "nothing": [(total, trained)],
        "label": [(total[:, y], trained[:, y]) for y in range(2)],
        "group": [(total[g], trained[g]) for g in range(3)],
    }[strata]
    tables = [[p for _, p in every_table(n, int(t.sum()))] for n, t in parts]
    assert likeliest_table(one, strata) == pytest.approx(math.prod(max(p) for p in tables))
    alike = math.prod(sum(p**2 for p in table) for table in tables)
    assert pair_chance(one, strata) == pytest.approx(alike)


def test_a_chain_of_equal_chances_is_the_birthday_problem():
    apart = math.prod(1 - day / 365 for day in range(23))
    assert chain(1 / 365, n=23, repeats=1) == pytest.approx(1 - apart)
    # Three draws of a coin: two repeats mean all three alike.
    assert chain(0.5, n=3, repeats=2) == pytest.approx(1 / 4)


def test_repeats_have_at_most_the_bounded_chance():
    # Three splits of one group pair: count over all triples how many repeats there are.
    total, n_train = [[3, 2], [2, 2]], 5
    p = [chance for _, chance in every_table(total, n_train)]
    once = sum(a**2 * 3 * (1 - a) for a in p)
    thrice = sum(a**3 for a in p)
    tables = [np.reshape(cut, (2, 2)) for cut, _ in every_table(total, n_train)]
    one_repeat = counts(total, tables[3], tables[3], tables[4])
    two_repeats = counts(total, tables[3], tables[3], tables[3])
    bound = chance_of_repeats(one_repeat, "nothing", NO_CLUMPS)
    assert once + thrice <= bound <= 1.5 * (once + thrice)
    bound = chance_of_repeats(two_repeats, "nothing", NO_CLUMPS)
    assert thrice <= bound <= 4 * thrice
    different = counts(total, tables[3], tables[4], tables[5])
    assert chance_of_repeats(different, "nothing", NO_CLUMPS) == 1


def test_clumps_leave_fewer_ways_to_cut():
    total = np.full((2, 2), 400)
    split = draw_split(total, 1120, "nothing", np.random.default_rng(3))
    same = counts(total, split, split)
    alone = chance_of_repeats(same, "nothing", np.ones(2))
    clumped = chance_of_repeats(same, "nothing", np.full(2, 4.0))
    assert clumped / alone == pytest.approx(4**1.5, rel=0.02)


def test_repeated_folds_are_found_and_new_ones_are_not():
    rng = np.random.default_rng(4)
    total = np.array([[700, 400], [500, 300]])
    folds, others = (draw_folds(total, 5, "nothing", rng) for _ in range(2))
    twice = counts(total, *folds, *folds)
    assert chance_of_repeats(twice, "nothing", NO_CLUMPS) < 1e-6
    apart = counts(total, *folds, *others)
    assert chance_of_repeats(apart, "nothing", NO_CLUMPS) == 1
    balanced = counts(total, *[total * 4 // 5] * 5)
    expected = likeliest_table(balanced, "nothing")
    assert chance_of_repeats(balanced, "nothing", NO_CLUMPS) == expected


def test_the_chance_of_balance_is_that_of_its_least_likely_stratum_in_every_split():
    total = np.array([[60, 40], [80, 20], [5, 5]])
    trained = np.array([[42, 28], [56, 14], [4, 3]])
    twice = counts(total, trained, trained)
    label = chance_within(1, total=210, good=65, sampled=147)
    assert chance_rounded(twice, "label") == pytest.approx(label**2)
    sizes = total.sum(axis=1)
    group = min(chance_within(1, total=210, good=n, sampled=147) for n in sizes)
    assert chance_rounded(twice, "group") == pytest.approx(group**2)


def test_the_label_mix_is_that_of_each_group_and_the_group_mix_that_of_all():
    total = np.array([[60, 40], [30, 70], [50, 50]])
    trained = np.array([[40, 30], [25, 45], [36, 34]])
    one = counts(total, trained)
    labels = label_chances(one, "nothing", np.ones(3))
    groups = group_chances(one, 1.0)
    for g in range(3):
        n, positive, drawn = 100, total[g, 1], trained[g].sum()
        expected = chance_beyond(trained[g, 1], total=n, good=positive, sampled=drawn)
        assert labels[g] == pytest.approx([expected])
        expected = chance_beyond(drawn, total=300, good=100, sampled=trained.sum())
        assert groups[g] == pytest.approx([expected])
    by_label = label_chances(one, "label", np.ones(3))
    expected = chance_beyond(30, total=160, good=40, sampled=109)
    assert by_label[0][1] == pytest.approx(expected)
    assert len(label_chances(counts(total[:2], trained[:2]), "label", NO_CLUMPS)) == 1
