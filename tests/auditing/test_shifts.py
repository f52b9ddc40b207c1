"""Errors of changes: by hand and by loops, then alarms and finds over drawn releases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.auditing.measure import Exposed
from pcer.auditing.people import people_part
from pcer.auditing.shifts import BothExposed, Contrast, PairShifts, group_shifts, pair_shifts
from tests.simulate_changes import TwoModels, draw_both

N_DRAWS = 200


def exposed(per_split, n=(400.0, 900.0)) -> Exposed:
    per_split = np.array(per_split, dtype=float)
    return Exposed(
        per_split=per_split,
        null_variance=np.full(2, 1e-4),
        one_split=np.array([4e-4, 2e-4]),
        n=np.array(n),
        n_test=np.array(n) * 0.3,
        people=people_part,
        covariance=np.full(2, np.nan),
        is_counted=True,
        of_records=np.full(2, np.nan),
    )


RNG = np.random.default_rng(5)
OLD = RNG.normal((0.05, 0.02), 0.01, (10, 2))
NEW = OLD + RNG.normal((0.03, 0.0), 0.004, (10, 2))


def both(*, same_people=True, paired=True) -> BothExposed:
    every = np.arange(10)
    return BothExposed(
        old=exposed(OLD),
        new=exposed(NEW),
        same_people=same_people,
        largest=1.0,
        matched=(every, every) if paired else None,
    )


def binomial(cost: float, n: float) -> float:
    """Variance of a share of n people, two added on either side."""
    share = (max(cost, 0.0) * n + 2) / (n + 4)
    return share * (1 - share) / n


def slow_group(g: int) -> tuple[float, float, float]:
    """Change, variance and degrees of freedom of one group, step by step."""
    n = (400.0, 900.0)[g]
    changes = [NEW[s, g] - OLD[s, g] for s in range(10)]
    change = sum(changes) / 10
    luck = sum((one - change) ** 2 for one in changes) / 9 / 10
    old, new = OLD[:, g].mean(), NEW[:, g].mean()
    middle = (old + new) / 2
    s, t = max(old, middle, 0.0), max(new, middle, 0.0)
    p, q = binomial(s, n), binomial(t, n)
    others = 2 * math.sqrt(s * t / ((1 - s) * (1 - t))) * math.sqrt(p * q)
    variance = luck + p + q + others
    return change, variance, 9 * (variance / luck) ** 2


def test_paired_changes_are_the_slow_ones():
    found = group_shifts(both())
    for g in (0, 1):
        change, variance, freedom = slow_group(g)
        assert found.change.value[g] == pytest.approx(change, rel=1e-12)
        assert found.change.variance[g] == pytest.approx(variance, rel=1e-12)
        assert found.change.freedom[g] == pytest.approx(freedom, rel=1e-12)
        p = stats.t.sf(change / math.sqrt(variance), freedom)
        assert found.p_worse[g] == pytest.approx(p, rel=1e-9)
        assert found.p_improved[g] == pytest.approx(1 - p, rel=1e-9)
        most = change + stats.t.isf(0.025, freedom) * math.sqrt(variance)
        assert found.most(0.025)[g] == pytest.approx(max(most, 0.0), rel=1e-9)


def test_the_part_of_others_is_that_of_disjoint_sets():
    """Where nobody is remembered twice, the variance of a change is (s + t - (s - t)^2) / N."""
    s, t, n = 0.2, 0.3, 1_000_000.0
    kinds = np.array([-1.0, 1.0, 0.0])
    shares = np.array([s, t, 1 - s - t])
    exact = float((shares * kinds**2).sum() - (shares * kinds).sum() ** 2) / n
    p, q = s * (1 - s) / n, t * (1 - t) / n
    worst = p + q + 2 * math.sqrt(s * t / ((1 - s) * (1 - t))) * math.sqrt(p * q)
    assert worst == pytest.approx(exact, rel=1e-12)


def test_without_pairing_the_errors_add_and_are_normal():
    one = both(same_people=False, paired=False)
    found = group_shifts(one)
    middle = (OLD.mean(axis=0) + NEW.mean(axis=0)) / 2
    sides = ((one.old, OLD), (one.new, NEW))
    added = sum(side.variance_at(np.maximum(x.mean(axis=0), middle)) for side, x in sides)
    assert found.change.variance == pytest.approx(added, rel=1e-12)
    assert np.isinf(found.change.freedom).all()
    z = found.change.value / np.sqrt(added)
    assert found.p_worse == pytest.approx(stats.norm.sf(z), rel=1e-9)
    shared = group_shifts(both(paired=False))
    assert (shared.change.variance > found.change.variance).all()


def test_what_records_change_about_each_other_counts_in_groups_and_not_in_pairs():
    plain = both(paired=False)
    known = np.full(2, 1e-2)
    mutual = replace(plain, **{k: replace(getattr(plain, k), of_records=known) for k in WHICH})
    assert group_shifts(mutual).change.variance == pytest.approx(2 * (known + known))
    sides = [[one.only(np.array([g])) for g in (0, 1)] for one in (plain, mutual)]
    first, second = (pair_shifts(*one).change.variance for one in sides)
    assert first == second


WHICH = ("old", "new")


def test_a_pair_takes_what_its_splits_share_only_once():
    first, second = (both().only(np.array([g])) for g in (0, 1))
    found = pair_shifts(first, second)
    apart = (NEW[:, 0] - OLD[:, 0]) - (NEW[:, 1] - OLD[:, 1])
    assert found.change.value == pytest.approx([apart.mean()])
    luck = apart.var(ddof=1) / 10
    assert found.change.freedom[0] == pytest.approx(
        9 * (found.change.variance[0] / luck) ** 2, rel=1e-9
    )
    total = (NEW[:, 0] + OLD[:, 0]) - (NEW[:, 1] + OLD[:, 1])
    assert found.total.value == pytest.approx([total.mean()])
    assert found.total.variance > found.change.variance


def contrast(value: float) -> Contrast:
    return Contrast(np.array([value]), np.ones(1), np.array([np.inf]))


def shifts(old: float, new: float) -> PairShifts:
    return PairShifts(np.array([old]), np.array([new]), contrast(new - old), contrast(new + old))


@pytest.mark.parametrize(
    ("old", "new", "worse", "improved"),
    [
        (0.0, 5.0, True, False),
        (0.0, -5.0, True, False),
        (5.0, 0.0, False, True),
        (5.0, 5.0, False, False),
        (5.0, -5.0, False, False),
        (5.0, -10.0, True, False),
        (-3.0, -9.0, True, False),
        (-9.0, 3.0, False, True),
        (0.0, 0.0, False, False),
    ],
)
def test_a_difference_is_worse_by_its_size_whoever_is_more_exposed(old, new, worse, improved):
    found = shifts(old, new)
    assert (found.p_worse[0] <= 0.01) == worse
    assert (found.p_improved[0] <= 0.01) == improved


def drawn(old: float, new: float) -> PairShifts:
    """Many estimates of the same two differences, each with an error of 1."""
    n = 40_000
    before, after = np.random.default_rng(7).normal([[old], [new]], 1.0, (2, n))
    return PairShifts(
        before,
        after,
        *(
            Contrast(value, np.full(n, 2.0), np.full(n, np.inf))
            for value in (after - before, after + before)
        ),
    )


@pytest.mark.parametrize("old", [0.0, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_a_difference_of_the_same_size_alarms_seldom_and_its_limit_holds(old, turn):
    same = drawn(old, turn * old)
    assert (same.p_worse <= 0.05).mean() <= 0.053
    assert (same.p_improved <= 0.05).mean() <= 0.053
    for growth in (0.5, 2.0):
        grown = drawn(old, turn * (old + growth))
        assert (grown.most(0.05) < growth).mean() <= 0.053


def n_alarms(world: TwoModels, seed: int) -> int:
    alarms = 0
    for draw in range(N_DRAWS):
        old, new = draw_both(world, np.random.default_rng([seed, draw]))
        try:
            alarms += pcer.compare(old, new).verdict.value == "worse"
        except pcer.InputError:
            continue  # counts that happen to contradict a random split, one in a hundred
    return alarms


WORLD = TwoModels(people=(250, 450), old=(0.06, 0.06), new=(0.06, 0.06), n_splits=10)


@pytest.mark.parametrize(
    "world",
    [
        replace(WORLD, remembered="anew"),
        replace(WORLD, remembered="others"),
        replace(WORLD, same_people=False, same_splits=False),
    ],
    ids=["anew", "others", "other people"],
)
def test_where_nothing_got_worse_little_is_called_worse(world):
    """By exact binomial: benchmarks/comparisons.py has 1,000 of each of 12 worlds."""
    alarms = n_alarms(world, seed=11)
    assert stats.binomtest(alarms, N_DRAWS, 0.05, alternative="greater").pvalue > 0.01


def test_a_model_that_remembers_more_is_found():
    worse = replace(WORLD, new=(0.06, 0.2))
    assert n_alarms(worse, seed=12) >= 0.8 * N_DRAWS
