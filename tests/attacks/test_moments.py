"""Sums over sets of records: right, and the same bits in whatever order they are taken."""

from __future__ import annotations

import numpy as np
import pytest

from pcer.attacks import moments
from pcer.attacks.moments import Moments
from tests import reference_attacks as slow


@pytest.mark.parametrize("n_records", [7, 500, 20_001])
def test_against_plain_statistics(n_records):
    rng = np.random.default_rng(0)
    exposure = 3 + rng.normal(size=(2, 3, n_records)) ** 3
    benefit = rng.random((2, n_records))
    sets = rng.random((40, n_records)) < 0.4
    sets[:, :2] = True
    found = Moments(exposure, benefit)
    summary = found.means(found.sums(sets), sets.sum(axis=1))
    for which in (0, 39):
        for s, c in ((0, 0), (1, 2)):
            expected = slow.group_summary(exposure[s, c, sets[which]], benefit[s, sets[which]])
            got = [one[which, s, c] for one in summary[:2]]
            got += [one[which, s] for one in summary[2:4]]
            assert got == pytest.approx(expected[:4], rel=1e-4)
            scale = (expected[1] * expected[3]) ** 0.5
            assert abs(summary.covariance[which, s, c] - expected[4]) < 1e-4 * scale


def test_the_order_of_adding_changes_no_bit(monkeypatch):
    rng = np.random.default_rng(1)
    exposure, benefit = rng.normal(size=(1, 2, 3_000)), rng.normal(size=(1, 3_000))
    sets = rng.random((70, 3_000)) < 0.3
    whole = Moments(exposure, benefit)
    expected = whole.sums(sets)
    assert (whole.sums(sets) + whole.sums(~sets) == whole.total).all()
    monkeypatch.setattr(moments, "SETS", 7)
    monkeypatch.setattr(moments, "TILES", 3)
    assert (whole.sums(sets) == expected).all()
    order = rng.permutation(3_000)
    assert (whole.sums(sets[::-1])[::-1] == expected).all()
    moved = Moments(exposure[..., order], benefit[..., order])
    assert moved.sums(sets[:, order]) == pytest.approx(expected, rel=1e-9, abs=1e-2)


def test_sums_among_some_records_are_those_of_all_without_the_others():
    rng = np.random.default_rng(2)
    whole = Moments(rng.normal(size=(1, 2, 500)), rng.normal(size=(1, 500)))
    some = slice(70, 313)
    sets = np.zeros((9, 500), dtype=bool)
    sets[:, some] = rng.random((9, 243)) < 0.4
    assert (whole.exact.raw_among(some, sets[:, some]) == whole.sums(sets)).all()


def test_sums_of_the_largest_numbers_are_exact():
    """All records at the largest value: nothing is lost up to 2 to the 24 in a tile."""
    exposure = np.where(np.arange(1_000) % 2 == 0, 1.0, -1.0)[None, None]
    found = Moments(exposure, np.zeros((1, 1_000)))
    sets = np.array([np.arange(1_000) % 2 == 0])
    summary = found.means(found.sums(sets), sets.sum(axis=1))
    assert summary.exposure == 1.0
    assert summary.exposure_variance == 0.0


def test_what_does_not_vary_has_no_variance():
    exposure = np.full((1, 1, 50), 1 / 3)
    found = Moments(exposure, np.full((1, 50), 0.1))
    sets = np.arange(50)[None] < 20
    summary = found.means(found.sums(sets), sets.sum(axis=1))
    assert summary.exposure_variance == 0
    assert summary.exposure == pytest.approx(1 / 3)
    assert summary.benefit_variance == 0
