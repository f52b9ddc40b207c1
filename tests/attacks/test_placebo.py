"""Permutations against all divisions of few records, their size, their power; placebos."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from pcer.attacks.groups import Views, single_model_attacks

from pcer.attacks import placebo
from pcer.attacks.attack import BudgetScores
from pcer.attacks.permutation import step_down
from pcer.attacks.placebo import (
    Records,
    group_means,
    permutation_tests,
    placebo_groupings,
    record_orders,
    subsets,
)
from tests import reference_attacks as slow
from tests.attacks.test_pooled import all_costs, sweep
from tests.worlds.sweeps import scaled_logits, splits


def records(seed, *, n=6, n_settings=2, n_costs=2, size=3):
    rng = np.random.default_rng(seed)
    return Records(
        exposure=np.round(rng.normal(size=(n_settings, n_costs, n)), 1),
        benefit=np.round(rng.random((n_settings, n)), 1),
        group=(np.arange(n) >= size).astype(np.int64),
    )


def enumerated(given):
    """(division, statistic, setting, cost) distances of all divisions; the real one first."""
    n = len(given.group)
    real = tuple(np.flatnonzero(given.group == 0))
    divisions = [real, *(d for d in itertools.combinations(range(n), len(real)) if d != real)]
    found = []
    for first in divisions:
        cells = [
            [slow.distances(one, benefit, first) for one in costs]
            for costs, benefit in zip(given.exposure, given.benefit, strict=True)
        ]
        found.append(np.moveaxis(np.array(cells), -1, 0))
    chosen = np.array([[r in first for r in range(n)] for first in divisions])
    return np.array(found), chosen


@pytest.mark.parametrize("seed", range(8))
def test_all_divisions_of_six_records(seed):
    given = records(seed)
    expected, chosen = enumerated(given)
    pair = placebo._PairRecords(given, (0, 1), None)
    found = pair.distances(pair.sums(chosen))
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)
    for k, test in enumerate(pair.tests(found)):
        real, drawn = expected[0, k], expected[:, k]
        share = (drawn >= real * (1 - 1e-6)).mean(axis=0)
        assert test.p_value == pytest.approx(share)
        for c in range(2):
            assert test.adjusted[:, c] == pytest.approx(slow.step_down(real[:, c], drawn[:, :, c]))
        together = slow.step_down(real.ravel(), drawn.reshape(len(drawn), -1))
        assert test.adjusted_over_costs.ravel() == pytest.approx(together)


def test_draws_come_near_all_divisions():
    given = records(3, n=9, size=4)
    expected, _ = enumerated(given)
    found = permutation_tests(given, [(0, 1)], seed=1, n_draws=4_000)
    for k, test in enumerate(found):
        share = (expected[:, k] >= expected[0, k] * (1 - 1e-6)).mean(axis=0)
        luck = 4 * np.sqrt(share * (1 - share) / 4_000) + 1e-3
        assert (np.abs(test.p_value[..., 0] - share) <= luck).all()


@pytest.mark.parametrize(("n", "size"), [(6, 2), (5, 4), (7, 1)])
def test_every_subset_is_equally_likely(n, size):
    drawn = subsets(np.arange(n) < size, 30_000, np.random.default_rng(2))
    assert (drawn.sum(axis=1) == size).all()
    _, counts = np.unique(drawn @ 2 ** np.arange(n), return_counts=True)
    expected = 30_000 / math.comb(n, size)
    assert len(counts) == math.comb(n, size)
    squares = ((counts - expected) ** 2 / expected).sum()
    assert squares < len(counts) - 1 + 4 * math.sqrt(2 * (len(counts) - 1))


@pytest.mark.parametrize("within", [False, True])
def test_wheels_and_shuffles_give_the_same_p(within, monkeypatch):
    """Both count draws of the same divisions: their shares differ by luck alone."""
    rng = np.random.default_rng(14)
    given = Records(
        exposure=rng.exponential(size=(2, 2, 1_500)),
        benefit=(rng.random((2, 1_500)) < 0.4).astype(float),
        group=(rng.random(1_500) < 0.3).astype(np.int64),
    )
    strata, p = rng.integers(0, 2, 1_500) if within else None, []
    for shuffled in (0, 1_500):
        monkeypatch.setattr(placebo, "SHUFFLED", shuffled)
        found = permutation_tests(given, [(0, 1)], seed=0, n_draws=4_999, strata=strata)
        p.append(np.array([one for test in found for one in test]))
    luck = 4 * np.sqrt(2 * p[1] * (1 - p[1]) / 4_999) + 1e-3
    assert (p[0] != p[1]).any()
    assert (np.abs(p[0] - p[1]) <= luck).all()


@pytest.mark.parametrize("shuffled", [0, 1_000])
def test_p_values_of_a_coin_flip_are_uniform(shuffled, monkeypatch):
    """Skewed exposures, a small group, 4 settings that hang together: at most 5 % are found."""
    monkeypatch.setattr(placebo, "SHUFFLED", shuffled)
    rng = np.random.default_rng(3)
    alone, family = [], []
    for seed in range(400):
        shared = rng.exponential(size=60)
        exposure = shared + 0.5 * rng.exponential(size=(4, 1, 60))
        given = Records(
            exposure=exposure,
            benefit=(rng.random((4, 60)) < 0.4).astype(float),
            group=(rng.permutation(60) < 15).astype(np.int64),
        )
        found = permutation_tests(given, [(0, 1)], seed=seed, n_draws=99)
        alone.append([one.p_value[0, 0, 0] for one in found])
        family.append([one.adjusted.min() for one in found])
    for level in (0.05, 0.2, 0.5):
        luck = 3 * math.sqrt(level * (1 - level) / 400)
        assert (np.abs((np.array(alone) <= level).mean(axis=0) - level) < luck).all()
    assert ((np.array(family) <= 0.05).mean(axis=0) <= 0.05 + 0.033).all()


def test_coin_flips_among_the_records_of_a_sweep():
    """Numbers of records come from their real group: with 40 in it the size still holds."""
    rng = np.random.default_rng(4)
    found: dict[str, list[list[float]]] = {}
    for seed in range(100):
        scores = sweep(rng, n_records=240, n_models=8)
        flipped = type(scores)(**{**vars(scores), "group": (rng.permutation(240) < 40) * 1})
        _, exposure, benefit = all_costs(flipped)
        given = Records.stacked([exposure], [benefit], flipped.group, list(exposure))
        tests = permutation_tests(given, [(0, 1)], seed=seed, n_draws=199)
        for k, cost in enumerate(exposure):
            found.setdefault(cost, []).append([one.p_value[0, k, 0] for one in tests])
    for cost, p in found.items():
        assert ((np.array(p) <= 0.05).mean(axis=0) <= 0.05 + 0.075).all(), cost


def test_groups_that_differ_in_all_but_the_mean():
    """Studentised: a small group that varies much is not taken for one that is remembered more."""
    rng = np.random.default_rng(5)
    p = []
    for seed in range(300):
        group = (np.arange(400) < 60).astype(np.int64)
        exposure = np.where(group == 1, 4.0, 1.0) * rng.normal(size=400) + 0.5
        given = Records(exposure=exposure[None, None], benefit=np.ones((1, 400)), group=group)
        p.append(permutation_tests(given, [(0, 1)], seed=seed, n_draws=99).exposure.p_value.item())
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 0.04


def test_what_is_planted_is_found():
    rng = np.random.default_rng(6)
    group = (np.arange(600) % 3 > 0).astype(np.int64)
    planted = np.array([0.0, 0.0, 0.5])[:, None, None] * group
    given = Records(
        exposure=0.5 + planted + rng.normal(size=(3, 2, 600)),
        benefit=(rng.random((3, 600)) < 0.5).astype(float),
        group=group,
    )
    found = permutation_tests(given, [(0, 1)], seed=0, n_draws=999)
    for test in found:
        assert (test.adjusted[2] <= 0.01).all()
        assert (test.adjusted_over_costs[2] <= 0.01).all()
        assert (test.adjusted[:2] > 0.05).all()
        assert (test.p_value <= test.adjusted).all()
        assert (test.adjusted <= test.adjusted_over_costs).all()


def mixed(rng, *, planted=0.0):
    """Exposure and benefit follow the label alone, and the groups differ in their labels."""
    group = np.repeat([0, 1], 100)
    labels = (rng.random(200) < np.where(group == 1, 0.8, 0.2)).astype(np.int64)
    exposure = labels + planted * group + 0.3 * rng.normal(size=200)
    benefit = 0.2 + 0.5 * labels + 0.1 * rng.random(200)
    return Records(exposure=exposure[None, None], benefit=benefit[None], group=group), labels


def test_a_mix_of_labels_is_not_a_difference_beyond_it():
    rng = np.random.default_rng(7)
    found = []
    for seed in range(200):
        given, labels = mixed(rng)
        found.append(permutation_tests(given, [(0, 1)], seed=seed, n_draws=99, strata=labels))
    for name in ("exposure", "cross_product"):
        p = np.array([getattr(one, name).p_value.item() for one in found])
        assert abs((p <= 0.05).mean() - 0.05) < 0.045, name
        assert abs((p <= 0.5).mean() - 0.5) < 0.11, name
    plain = permutation_tests(given, [(0, 1)], seed=0, n_draws=99)
    assert plain.exposure.p_value.item() == 1 / 100
    given, labels = mixed(rng, planted=0.3)
    beyond = permutation_tests(given, [(0, 1)], seed=0, n_draws=99, strata=labels)
    assert beyond.exposure.p_value.item() == 1 / 100


def test_a_pair_does_not_depend_on_other_pairs():
    rng = np.random.default_rng(8)
    given = Records(
        exposure=rng.normal(size=(2, 2, 90)),
        benefit=rng.random((2, 90)),
        group=np.arange(90) % 4 - 1,
    )
    told = []
    both = permutation_tests(
        given, [(0, 1), (0, 2)], seed=5, n_draws=300, on_progress=lambda *one: told.append(one)
    )
    alone = permutation_tests(given, [(0, 2)], seed=5, n_draws=300)
    assert (both.exposure.adjusted[..., 1] == alone.exposure.adjusted[..., 0]).all()
    assert told[-1] == (600, 600)
    other = permutation_tests(given, [(0, 2)], seed=6, n_draws=300)
    assert (other.exposure.p_value != alone.exposure.p_value).any()


def test_what_cannot_be_told():
    rng = np.random.default_rng(9)
    exposure = rng.normal(size=(2, 2, 30))
    exposure[1, 0] = np.nan
    given = Records(exposure=exposure, benefit=rng.random((2, 30)), group=np.arange(30) // 29)
    tiny = permutation_tests(given, [(0, 1)], seed=0, n_draws=9)
    assert np.isnan(tiny.exposure.p_value).all()
    given = Records(exposure=exposure, benefit=given.benefit, group=np.arange(30) % 2)
    found = permutation_tests(given, [(0, 1)], seed=0, n_draws=99)
    for test in found:
        for p in test:
            assert np.isnan(p[1, 0, 0])
            assert np.isfinite(p).sum() == 3


def test_exposures_that_never_vary_are_no_finding():
    given = Records(
        exposure=np.full((1, 1, 20), 1 / 3), benefit=np.full((1, 20), 0.1), group=np.arange(20) % 2
    )
    found = permutation_tests(given, [(0, 1)], seed=0, n_draws=99)
    assert found.exposure.p_value == 1.0
    assert found.cross_product.p_value == 1.0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="stack them in that order"):
        Records(exposure=np.zeros((1, 1, 3)), benefit=np.zeros((2, 3)), group=np.zeros(3, int))
    with pytest.raises(ValueError, match="n_draws"):
        permutation_tests(records(0), [(0, 1)], seed=0, n_draws=0)


def test_step_down_by_hand():
    """The furthest is held against the largest of both, the other against itself."""
    drawn = np.array([[3.0, 1.0], [1.0, 4.0], [0.0, 0.0], [1.0, 1.0]])
    both = step_down(drawn, np.array([True, True]))
    assert both.tolist() == [0.5, 0.75]
    assert np.isnan(step_down(drawn, np.array([False, True]))[0])


def test_placebos_keep_sizes_and_those_without_a_group():
    rng = np.random.default_rng(10)
    codes = rng.integers(-1, 3, 200)
    labels = rng.integers(0, 2, 200)
    for strata in (None, labels):
        groupings = list(placebo_groupings(codes, 20, rng, strata=strata))
        assert len({one.tobytes() for one in groupings}) == 20
        for one in groupings:
            assert ((one == -1) == (codes == -1)).all()
            assert (np.bincount(one + 1) == np.bincount(codes + 1)).all()
            if strata is not None:
                assert (
                    np.bincount(2 * one + 2 + labels) == np.bincount(2 * codes + 2 + labels)
                ).all()


def test_orders_shuffle_exposure_alone():
    codes = np.array([0, 1, -1, 0, 1, 1])
    (order,) = record_orders(codes, 1, np.random.default_rng(1))
    assert sorted(order) == list(range(6))
    assert order[2] == 2
    assert (order != np.arange(6)).any()


def test_summaries_of_the_real_groups_are_what_the_release_says():
    scores = sweep(np.random.default_rng(11), luck=0.0, n_models=30)
    groups, exposure, benefit = all_costs(scores)
    costs = list(groups[0])
    given = Records.stacked([exposure], [benefit], scores.group, costs)
    found = group_means(given, scores.group[None], n_groups=2)
    for k, group in enumerate(groups):
        for c, one in enumerate(group.values()):
            assert found.exposure[0, k, 0, c] == pytest.approx(one.value, abs=1e-6)
            assert math.sqrt(found.exposure_variance[0, k, 0, c]) <= one.standard_error * 1.001
            assert found.covariance[0, k, 0, c] == pytest.approx(
                one.benefit_covariance, rel=2e-3, abs=1e-7
            )


def test_summaries_of_placebos_against_a_loop():
    given = records(12, n=40, size=15)
    groupings = np.array(list(placebo_groupings(given.group, 3, np.random.default_rng(0))))
    found = group_means(given, groupings, n_groups=2)
    for d, g in itertools.product(range(3), range(2)):
        rows = groupings[d] == g
        expected = slow.group_summary(given.exposure[1, 0, rows], given.benefit[1, rows])
        got = [found.exposure[d, g, 1, 0], found.exposure_variance[d, g, 1, 0]]
        got += [
            found.benefit[d, g, 1],
            found.benefit_variance[d, g, 1],
            found.covariance[d, g, 1, 0],
        ]
        assert got == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_numbers_come_from_the_real_group_because_that_is_what_is_audited():
    """Two groups whose losses lie far apart, remembered alike, one of them five times as large.

    Ranked among everybody, each group would be judged by its share of the others.
    """
    rng = np.random.default_rng(13)
    n, labels = 1_200, np.ones(1_200, dtype=np.int64)
    group = (np.arange(n) % 6 == 0).astype(np.int64)
    member = splits(labels, 6, rng)
    logits = scaled_logits(member, rng, shift=3.0, wander=0.0) + 30.0 * group
    p = {}
    for name, codes in (("own", group), ("everybody", np.zeros(n, dtype=np.int64))):
        one = BudgetScores(
            logits=logits, labels=labels, member=member, group=codes, group_names=("a", "b")
        )
        pooled = single_model_attacks(Views([one]))[0].pooled
        given = Records.stacked([pooled.exposure], [pooled.benefit], group, ["auc_advantage"])
        p[name] = permutation_tests(given, [(0, 1)], seed=0, n_draws=199).exposure.p_value.item()
    assert p["own"] > 0.05
    assert p["everybody"] == 1 / 200
