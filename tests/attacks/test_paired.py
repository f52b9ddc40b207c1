"""The paired cost against a loop, its exact centre, and its errors under known truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer.attacks.pooled import Sides, paired, paired_cost
from pcer.attacks.single import confidence_of
from tests import reference_attacks as slow
from tests.simulate_sweep import scaled_logits, splits


@given(st.integers(0, 10_000))
def test_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    member = rng.random((5, 12)) < 0.6
    values = rng.normal(size=member.shape)
    value, error, excluded = slow.paired(values, member)
    found = paired_cost(values, member)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.standard_error == pytest.approx(max(error, abs(value) / found.n_records))
    assert (found.n_excluded, found.n_records) == (excluded, 12 - excluded)


def test_every_split_of_a_record_averages_to_exactly_nothing():
    """All ways to train on 3 of 5 models: the mean difference is 0 whatever the values."""
    values = np.array([0.2, 0.9, 0.4, 0.7, 0.1])
    found = []
    for chosen in itertools.combinations(range(5), 3):
        member = np.isin(np.arange(5), chosen)[:, None]
        found.append(paired(values[:, None], Sides(member)).differences[0])
    assert math.fsum(found) == pytest.approx(0, abs=1e-12)


def test_records_never_in_or_never_out_are_counted_and_not_guessed():
    member = np.array([[True, True, False], [True, False, False]])
    found = paired_cost(np.ones((2, 3)), member)
    assert (found.n_records, found.n_excluded) == (1, 2)
    assert found.standard_error is None
    nobody = paired_cost(np.ones((2, 1)), np.ones((2, 1), dtype=bool))
    assert math.isnan(nobody.value)
    assert (nobody.n_records, nobody.n_excluded) == (0, 1)


def test_a_fully_memorised_group_has_an_error():
    member = np.array([[True, False] * 10, [False, True] * 10])
    found = paired_cost(member.astype(float), member)
    assert found.value == 1.0
    assert found.standard_error == 1 / 20


@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_intervals_cover_the_truth(shift):
    """Splits of fixed size within labels, models with moods, half of the records in the group."""
    rng = np.random.default_rng(7)
    labels = np.arange(240) % 2
    inside = np.arange(240) < 120
    z = []
    for _ in range(400):
        member = splits(labels, 12, rng)[:, inside]
        logit = scaled_logits(member, rng, shift=shift, labels=labels[inside])
        found = paired_cost(logit, member)
        z.append((found.value - shift) / found.standard_error)
    assert 0.90 <= np.mean(np.abs(z) <= 1.96) <= 0.99
    assert abs(np.mean(z)) < 0.2


def test_confidence_and_correctness_see_memorisation():
    rng = np.random.default_rng(8)
    member = splits(np.zeros(2_000, dtype=int), 20, rng)
    logit = scaled_logits(member, rng, shift=0.3)
    for values in (confidence_of(logit), (logit > 0).astype(float)):
        found = paired_cost(values, member)
        assert found.value > 5 * found.standard_error
