"""What split luck alone gives, and which printed gaps exceed it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from pcer.release.panel import panels
from pcer_studies import CONFIGURATIONS
from pcer_studies.claims import noise
from pcer_studies.claims.noise import CLIPPED_MEAN, split_spread, spread_of_accuracy
from tests.worlds.releases import World, simulate

COMPAS = CONFIGURATIONS[2]


@pytest.mark.parametrize(("n", "mean"), [(1, 0.9), (2, 0.5), (10, 0.55), (50, 0.5), (50, 0.65)])
def test_the_tail_of_a_mean_gap_is_that_of_simulated_ones(n, mean):
    """The slow twin: draw the seeds' gaps and count."""
    rng = np.random.default_rng(n)
    found = np.mean(
        [np.maximum(0, rng.normal(size=(20_000, n))).mean(axis=1) >= mean for _ in range(20)]
    )
    exact = noise.tail_of_mean(mean, spread=1.0, n=n)
    assert exact == pytest.approx(found, abs=4 * math.sqrt(found / 400_000) + 1e-6)


def drawn(**fields):
    """A panel of 900 and 300 records that nothing is remembered of."""
    (panel,) = panels(
        simulate(World(sizes=(900, 300), gaps=(0, 0), **fields), np.random.default_rng(4))
    )
    return panel


@pytest.mark.slow
def test_the_spread_is_that_of_splits_without_memorisation():
    """The slow twin: many random splits of the same records, stratified by label alone."""
    panel = drawn(label_shares=[0.3, 0.6], right=[(0.95, 0.4), (0.8, 0.7)], n_seeds=3_000)
    difference = panel.train_accuracy - panel.test_accuracy
    assert split_spread(panel) == pytest.approx(difference.std(axis=0), rel=0.04)
    gap = np.maximum(0, difference).mean(axis=0)
    assert CLIPPED_MEAN * split_spread(panel) == pytest.approx(gap, rel=0.05)


def test_rates_alone_give_one_stratum():
    """By hand: COMPAS, Other, p = .678, 2,997 records: the level of docs/method.md, .0074."""
    assert CLIPPED_MEAN * spread_of_accuracy(0.678, 2_997) == pytest.approx(0.0074, abs=5e-5)
    panel = drawn(label_shares=[0.3] * 2, right=[(0.8, 0.8)] * 2, n_seeds=2)
    right = panel.train_accuracy * panel.n_train + panel.test_accuracy * panel.n_test
    accuracy = right.sum(axis=0) / (panel.n_train + panel.n_test).sum(axis=0)
    expected = [spread_of_accuracy(p, n) for p, n in zip(accuracy, (900, 300), strict=True)]
    bare = dataclasses.replace(panel, train=None, test=None)
    assert split_spread(bare) == pytest.approx(expected, rel=0.02)


def test_rounding_moves_gaps_by_half_a_digit_and_sizes_are_the_papers_in_our_shares(study):
    low, middle, high = (noise.published_gaps(study, rounding=way) for way in (-1, 0, 1))
    for a, b, c in zip(low, middle, high, strict=True):
        assert (b.value - a.value, c.value - b.value) == pytest.approx((0.00005, 0.00005))
        assert a.p_value >= b.p_value >= c.p_value
    sizes = noise.papers_group_sizes(study, COMPAS)
    assert sum(sizes) == pytest.approx(6_172)
    assert sizes[0] / sizes[1] == pytest.approx(2.0)  # the simulated groups have 3,000 and 1,500


def test_gaps_differ_beyond_their_noise_levels():
    """.0045 and .0062 with noise levels .0017 and .0036: the first has the larger excess."""
    where = {"configuration": COMPAS, "epsilon": 1.0, "group": "Other"}

    def made(value: float, spread: float) -> noise.PrintedGap:
        return noise.PrintedGap(**where, value=value, spread=spread, p_value=1.0, adjusted_p=1.0)

    white, other = made(0.0045, 0.0017 / CLIPPED_MEAN), made(0.0062, 0.0036 / CLIPPED_MEAN)
    assert noise.difference_p(white, other) == noise.difference_p(other, white) == 1.0
    assert noise.difference_p(made(0.0292, 0.004), made(0.0446, 0.003)) < 1e-10
