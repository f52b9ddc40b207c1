"""Chances of random splits, against scipy and against counting every table."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pcer.measuring.exact import SMALLEST_P
from pcer.measuring.hypergeometric import (
    SplitCounts,
    chain,
    chance_of_repeats,
    chance_rounded,
    combine,
    label_chances,
    little_spread_chances,
    n_fold_sets,
    table_chances,
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
            ways = math.prod(
                math.comb(int(n), k) for n, k in zip(cells, cut, strict=True)
            )
            yield cut, ways / whole


def sum_of_squares(chances) -> float:
    return sum(p**2 for p in chances)


def beyond(observed, total, good, sampled, variance_inflation=1.0) -> np.ndarray:
    """Chances of so many positive labels in a group, one split for each number."""
    k, total, good, sampled = np.broadcast_arrays(observed, total, good, sampled)
    train = np.stack([sampled - k, k], axis=1)[:, None].astype(float)
    one = SplitCounts(train, np.stack([total - good, good], axis=1)[:, None] - train)
    return label_chances(one, "nothing", np.array([variance_inflation]))[0]


def slow_beyond(observed, total, good, sampled) -> float:
    exact = stats.hypergeom(int(total), int(good), int(sampled))
    return min(1.0, 2 * min(exact.cdf(observed), exact.sf(observed - 1)))


@pytest.mark.parametrize(
    ("total", "good", "sampled", "rel"),
    [
        (60, 7, 54, 1e-6),
        (200, 90, 100, 1e-6),
        (50, 1, 45, 1e-6),
        (40_000, 12_000, 28_000, 0.01),
    ],
)
def test_chances_are_scipys_and_never_too_small(total, good, sampled, rel):
    exact = stats.hypergeom(total, good, sampled)
    count = (
        np.arange(*exact.support()) if total < 1_000 else np.arange(8_200, 8_601, 25)
    )
    p = beyond(count, total, good, sampled)
    expected = [max(SMALLEST_P, slow_beyond(k, total, good, sampled)) for k in count]
    assert p == pytest.approx(expected, rel=rel, abs=2e-12)
    for level in (0.001, 0.01, 0.05, 0.3):
        assert exact.pmf(count[p <= level]).sum() <= level * (1 + 1e-9)


def test_nothing_is_unlikely_where_nothing_varies_and_clumps_widen_what_chance_allows():
    assert beyond([0, 5, 0], [10, 10, 0], [0, 10, 0], [5, 5, 0]).tolist() == [1, 1, 1]
    (alone,) = beyond([380], 1000, 500, 700)
    (clumped,) = beyond([380], 1000, 500, 700, variance_inflation=4.0)
    spread = 2 * stats.hypergeom(1000, 500, 700).std()
    assert clumped == pytest.approx(2 * stats.norm.sf(29.5 / spread))
    assert clumped > 100 * alone


def test_several_chances_make_one():
    p = np.array([0.2, 0.03, 0.5])
    fisher = stats.combine_pvalues(p, method="fisher").pvalue
    assert combine(p, independent=True) == pytest.approx(2 * min(0.09, fisher))
    assert combine(p, independent=False) == pytest.approx(0.09)
    assert combine(np.array([0.9, 0.9]), independent=True) == 1.0


def test_the_likeliest_table_and_two_that_are_alike_whatever_is_drawn():
    rng = np.random.default_rng(2)
    for total in rng.integers(0, 5, (40, 2, 2)):
        for n_train in range(int(total.sum()) + 1):
            trained = draw_split(total, n_train, "nothing", rng)
            for strata, parts in (
                ("nothing", [(total, trained)]),
                ("label", zip(total.T, trained.T, strict=True)),
                ("group", zip(total, trained, strict=True)),
            ):
                chances = []
                for n, drawn in parts:
                    chances.append([p for _, p in every_table(n, int(drawn.sum()))])
                most = math.prod(map(max, chances))
                alike = math.prod(map(sum_of_squares, chances))
                found = table_chances(counts(total, trained), strata)
                assert found == pytest.approx((most, alike))
    assert table_chances(counts(total, trained), "group", most=0) == pytest.approx(
        (most, most)
    )


def test_a_chain_of_equal_chances_is_the_birthday_problem():
    apart = math.prod(1 - day / 365 for day in range(23))
    assert chain(1 / 365, n=23, repeats=1) == pytest.approx(1 - apart)
    # Three draws of a coin: two repeats mean all three alike.
    assert chain(0.5, n=3, repeats=2) == pytest.approx(1 / 4)


def test_repeats_have_at_most_the_bounded_chance():
    # Three splits of one group pair: count over all triples how many repeats there are.
    total = [[3, 2], [2, 2]]
    n_train = 5
    p = [chance for _, chance in every_table(total, n_train)]
    once = sum(a**2 * 3 * (1 - a) for a in p)
    thrice = sum(a**3 for a in p)
    tables = [np.reshape(cut, (2, 2)) for cut, _ in every_table(total, n_train)]
    for cuts, chance, slack in (
        ((3, 3, 4), once + thrice, 2.5),
        ((3, 3, 3), thrice, 4),
    ):
        repeated = counts(total, *(tables[k] for k in cuts))
        assert (
            chance
            <= chance_of_repeats(repeated, "nothing", NO_CLUMPS)
            <= slack * chance
        )
    assert chance_of_repeats(counts(total, *tables[3:6]), "nothing", NO_CLUMPS) == 1
    # Two that draw other numbers cannot be alike: only one pair can.
    pair = counts(total, tables[3], tables[3], np.array([[3, 2], [2, 1]]))
    assert chance_of_repeats(pair, "nothing", NO_CLUMPS) == pytest.approx(
        sum_of_squares(p)
    )


def test_clumps_leave_fewer_ways_to_cut():
    total = np.full((2, 2), 400)
    split = draw_split(total, 1120, "nothing", np.random.default_rng(3))
    same = counts(total, split, split)
    alone, clumped = (
        chance_of_repeats(same, "nothing", np.full(2, n)) for n in (1.0, 4.0)
    )
    assert clumped / alone == pytest.approx(4**1.5, rel=0.02)


def test_folds_are_known_by_tiling_the_data_and_may_be_alike():
    rng = np.random.default_rng(1)
    total = np.array([[300, 200], [90, 30]])
    folds = [draw_folds(total, 5, "nothing", rng) for _ in range(2)]
    assert n_fold_sets(counts(total, *folds[0])) == 1
    assert n_fold_sets(counts(total, *folds[0], *folds[1])) == 2
    assert n_fold_sets(counts(total, *folds[0][:4])) == 0
    alone = [draw_split(total, 496, "nothing", rng) for _ in range(5)]
    assert (
        n_fold_sets(counts(total, *alone))
        == n_fold_sets(counts(total, total // 2))
        == 0
    )
    assert (
        chance_of_repeats(counts(total, *folds[0], *folds[0]), "nothing", NO_CLUMPS)
        == 1
    )
    assert chance_of_repeats(counts(total, *alone, *alone), "nothing", NO_CLUMPS) < 1e-6


def test_the_chance_of_balance_is_that_of_its_least_likely_stratum_in_every_split():
    total = np.array([[60, 40], [80, 20], [5, 5]])
    twice = counts(total, *[np.array([[42, 28], [56, 14], [4, 3]])] * 2)

    def within(good: int) -> float:
        count = np.arange(math.ceil(0.7 * good - 1), math.floor(0.7 * good + 1) + 1)
        return float(stats.hypergeom(210, good, 147).pmf(count).sum())

    assert chance_rounded(twice, "label") == pytest.approx(within(65) ** 2)
    assert chance_rounded(twice, "group") == pytest.approx(
        min(map(within, (100, 10))) ** 2
    )
    folds = counts(
        np.full((2, 1), 30), *[np.full((2, 1), 20)] * 3
    )  # the last one follows
    exact = stats.hypergeom(60, 30, 40).pmf([19, 20, 21]).sum()
    assert chance_rounded(folds, "group") == pytest.approx(exact**2)


def test_the_label_mix_is_that_of_each_group_and_the_group_mix_that_of_all():
    total = np.array([[60, 40], [30, 70], [50, 50]])
    trained = np.array([[40, 30], [25, 45], [36, 34]])
    one = counts(total, trained)
    in_all = SplitCounts(*(part.sum(axis=2, keepdims=True) for part in one))
    tested = (one, "nothing"), (in_all, "label")
    labels, groups = (
        label_chances(cuts, strata, np.ones(3)) for cuts, strata in tested
    )
    for g in range(3):
        drawn = trained[g].sum()
        assert labels[g] == pytest.approx(
            [slow_beyond(trained[g, 1], 100, total[g, 1], drawn)]
        )
        assert groups[g] == pytest.approx([slow_beyond(drawn, 300, 100, trained.sum())])
    by_label = label_chances(one, "label", np.ones(3))
    assert by_label[0] == pytest.approx(
        [slow_beyond(40, 140, 60, 101), slow_beyond(30, 160, 40, 109)]
    )
    assert len(label_chances(counts(total[:2], trained[:2]), "label", NO_CLUMPS)) == 1


# Clumps


def in_clumps(
    rng: np.random.Generator, clump: int, n_units: tuple[int, int], n_splits: int
) -> SplitCounts:
    """Splits of units of two groups, each of so many records, 60 % of them trained on."""
    group = np.repeat([0, 1], n_units)
    n_train = round(0.6 * len(group))
    total = clump * np.bincount(group)
    train = []
    for _ in range(n_splits):
        inside = rng.permutation(len(group))[:n_train]
        train.append(clump * np.bincount(group[inside], minlength=2))
    trained = np.array(train, dtype=float)[:, :, None]
    return SplitCounts(trained, total[None, :, None] - trained)


def little_spread_twin(counts: SplitCounts, clump: np.ndarray) -> list[float]:
    """By loops, with scipy's distributions; without strata."""
    train = counts.train.sum(axis=2)
    total = counts.total.sum(axis=2)
    n_splits, n_groups = train.shape
    chances = []
    for g in range(n_groups):
        statistic = alone = 0.0
        for s in range(n_splits):
            n = total[s].sum()
            f, w = train[s].sum() / n, total[s, g] / n
            others = [h for h in range(n_groups) if h != g]
            of_clumps = (1 - w) ** 2 * total[s, g] * clump[g]
            of_clumps += w**2 * sum(total[s, h] * clump[h] for h in others)
            of_records = (1 - w) ** 2 * total[s, g]
            of_records += w**2 * sum(total[s, h] for h in others)
            moved = train[s, g] - f * total[s, g]
            statistic += (moved**2 + clump[g] ** 2 / 4) / (f * (1 - f) * of_clumps)
            alone += of_records / of_clumps / n_splits
        f = float(np.mean(train.sum(axis=1) / total.sum(axis=1)))
        large = 0.0
        for k in range(n_splits + 1):
            shift = k * (1 - f) ** 2 + (n_splits - k) * f**2
            shift *= (1 - alone) / (f * (1 - f)) / alone
            tail = stats.ncx2.cdf(statistic / alone, n_splits, max(shift, 1e-12))
            large += stats.binom.pmf(k, n_splits, f) * tail
        chances.append(max(large, stats.chi2.cdf(statistic, n_splits)))
    return chances


def test_little_spread_agrees_with_loops():
    rng = np.random.default_rng(1)
    for claimed in ([1.0, 1.0], [4.0, 2.5], [9.0, 1.0]):
        counts = in_clumps(rng, 1, (120, 300), 6)
        found = little_spread_chances(counts, "nothing", np.array(claimed))
        twin = little_spread_twin(counts, np.array(claimed))
        np.testing.assert_allclose(found, twin, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("clump", [1, 3, 10])
def test_true_clumps_are_rarely_called_little_spread(clump):
    rng = np.random.default_rng(clump)
    claimed = np.full(2, float(clump))
    found = [
        little_spread_chances(
            in_clumps(rng, clump, (40, 80), n_splits), "nothing", claimed
        )[0]
        for n_splits in (2, 5, 10)
        for _ in range(200)
    ]
    for level in (0.01, 0.05):
        n = sum(p <= level for p in found)
        assert stats.binom.sf(n - 1, len(found), level) > 0.001


def test_clumps_of_ten_that_are_not_there_are_found():
    rng = np.random.default_rng(7)
    claimed = np.full(2, 10.0)
    found = [
        little_spread_chances(in_clumps(rng, 1, (3_000, 3_000), 20), "nothing", claimed)
        for _ in range(50)
    ]
    assert sum(p[0] < 0.001 for p in found) >= 49
