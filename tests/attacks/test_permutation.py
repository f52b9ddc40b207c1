"""Permutations against all divisions of few records, their size and their power."""

import itertools

import numpy as np
import pytest

from pcer.attacks import permutation, permutation_tests
from tests import reference_attacks as slow


def records(seed, *, n=6, size=3):
    """Exposures (setting, attack, record), benefits and groups of few records."""
    rng = np.random.default_rng(seed)
    exposure = np.round(rng.normal(size=(2, 2, n)), 1)
    return (
        exposure,
        np.round(rng.random((2, n)), 1),
        (np.arange(n) >= size).astype(np.int64),
    )


def enumerated(exposure, benefit, group):
    """(division, setting and attack, statistic) distances; the real division first."""
    real = tuple(np.flatnonzero(group == 0))
    divisions = itertools.combinations(range(len(group)), len(real))
    distances = []
    for first in (real, *(d for d in divisions if d != real)):
        pairs = (
            (one, own)
            for of_setting, own in zip(exposure, benefit, strict=True)
            for one in of_setting
        )
        distances.append([slow.distances(*pair, first) for pair in pairs])
    return np.array(distances)


@pytest.mark.parametrize("seed", range(4))
def test_draws_come_near_all_divisions(seed):
    given = records(seed, n=9, size=4)
    expected = enumerated(*given)
    found = permutation_tests(*given, (0, 1), seed=1, n_draws=4_000)
    for k, test in enumerate(found):
        exact = np.array(slow.step_down(expected[0, :, k], expected[:, :, k]))
        luck = 4 * np.sqrt(exact * (1 - exact) / 4_000) + 1e-3
        assert (np.abs(test.ravel() - exact) <= luck).all()


@pytest.mark.parametrize("within", [False, True])
def test_wheels_and_shuffles_give_the_same_p(within, monkeypatch):
    """Both count draws of the same divisions: their shares differ by luck alone."""
    rng = np.random.default_rng(14)
    exposure = rng.exponential(size=(2, 2, 1_500))
    group = (rng.random(1_500) < 0.3) * 1
    benefit = (rng.random((2, 1_500)) < 0.4).astype(float)
    strata = rng.integers(0, 2, 1_500) if within else None
    p = []
    for shuffled in (0, 1_500):
        monkeypatch.setattr(permutation, "SHUFFLED", shuffled)
        how = {"n_draws": 1_999, "strata": strata}
        p.append(np.array(permutation_tests(exposure, benefit, group, (0, 1), **how)))
    luck = 4 * np.sqrt(2 * p[1] * (1 - p[1]) / 1_999) + 1e-3
    assert (p[0] != p[1]).any()
    assert (np.abs(p[0] - p[1]) <= luck).all()


def mixed(rng, *, planted=0.0):
    """Exposure and benefit follow the label alone, and groups differ in labels."""
    group = np.repeat([0, 1], 100)
    labels = (rng.random(200) < np.where(group == 1, 0.8, 0.2)).astype(np.int64)
    exposure = labels + planted * group + 0.3 * rng.normal(size=200)
    benefit = 0.2 + 0.5 * labels + 0.1 * rng.random(200)
    return (exposure[None, None], benefit[None], group, (0, 1)), labels


def test_a_mix_of_labels_is_not_a_difference_beyond_it():
    rng = np.random.default_rng(7)
    p = []
    for seed in range(150):
        given, labels = mixed(rng)
        tests = permutation_tests(*given, seed=seed, n_draws=99, strata=labels)
        p.append(np.ravel(tests))
    assert (np.abs((np.array(p) <= 0.05).mean(axis=0) - 0.05) < 0.05).all()
    assert (np.abs((np.array(p) <= 0.5).mean(axis=0) - 0.5) < 0.125).all()
    assert permutation_tests(*given, n_draws=99).exposure.item() == 1 / 100
    given, labels = mixed(rng, planted=0.3)
    beyond = permutation_tests(*given, n_draws=99, strata=labels)
    assert beyond.exposure.item() == 1 / 100


def test_what_cannot_be_told():
    rng = np.random.default_rng(9)
    exposure = rng.normal(size=(2, 2, 30))
    benefit = rng.random((2, 30))
    exposure[1, 0] = np.nan
    tiny = permutation_tests(exposure, benefit, np.arange(30) // 29, (0, 1), n_draws=9)
    assert np.isnan(tiny.exposure).all()
    for test in permutation_tests(
        exposure, benefit, np.arange(30) % 2, (0, 1), n_draws=99
    ):
        assert np.isnan(test[1, 0])
        assert np.isfinite(test).sum() == 3
    constant = np.full((1, 1, 20), 1 / 3), np.full((1, 20), 0.1), np.arange(20) % 2
    for test in permutation_tests(*constant, (0, 1), n_draws=99):
        assert test == 1.0
