"""The paired cost against a loop, its exact centre, and its errors under known truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer.attacks.pooled import Sides, paired
from pcer.attacks.single import confidence_of
from pcer.statistics import student_weight
from tests import reference_attacks as slow
from tests.attacks.one_group import paired_cost
from tests.worlds.sweeps import scaled_logits, splits


@pytest.mark.parametrize("n_models", [2, 3, 4, 5, 8])
@given(seed=st.integers(0, 10_000))
def test_against_a_loop(n_models, seed):
    rng = np.random.default_rng(seed)
    member = rng.random((n_models, 20)) < 0.6
    member[0, :3] = [True, False, True]
    member[1, :3] = [False, True, False]
    values = rng.normal(size=member.shape) + rng.normal(size=(n_models, 1)) * member
    value, error, null, excluded = slow.paired(values, member)
    found = paired_cost(values, member)
    least = abs(value) / found.n_records
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.standard_error == pytest.approx(max(error, least))
    assert found.null_error == pytest.approx(max(null, least))
    assert (found.n_excluded, found.n_records) == (excluded, 20 - excluded)


def test_two_models_whose_records_nobody_shares():
    """Both sides of each record are there, but nothing tells a model's memory from its mood."""
    rng = np.random.default_rng(3)
    member = np.array([[True, False] * 10, [False, True] * 10])
    values = rng.normal(size=member.shape)
    assert paired_cost(values, member).standard_error == pytest.approx(
        slow.paired(values, member)[1]
    )
    mood = paired_cost(values + np.array([[3.0], [0.0]]), member)
    assert mood.standard_error > 3 * paired_cost(values, member).null_error


def test_a_mood_that_both_share_the_records_of_adds_no_luck():
    """One of two models is surer of everybody, whoever trained on whom: it remembers no more."""
    rng = np.random.default_rng(4)
    member = splits(np.zeros(4_000, dtype=int), 2, rng)
    mood = np.array([[1.0], [0.0]]) + 0.01 * rng.normal(size=member.shape)
    memory = np.array([[1.0], [0.0]]) * member + 0.01 * rng.normal(size=member.shape)
    assert paired_cost(mood, member).standard_error < 0.05
    by_theory = math.sqrt(student_weight(1)) / 2  # half of what one remembers more, at t
    assert paired_cost(memory, member).standard_error == pytest.approx(by_theory, rel=0.01)


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
    assert found.null_error == found.standard_error == 1 / 20


@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_intervals_cover_the_truth(shift):
    """Splits of fixed size within labels, models with moods, half of the records in the group."""
    rng = np.random.default_rng(7)
    labels = np.arange(240) % 2
    inside = np.arange(240) < 120
    z, null = [], []
    for _ in range(400):
        member = splits(labels, 12, rng)[:, inside]
        logit = scaled_logits(member, rng, shift=shift, labels=labels[inside])
        found = paired_cost(logit, member)
        z.append((found.value - shift) / found.standard_error)
        null.append((found.value - shift) / found.null_error)  # all models remember alike
    assert 0.92 <= np.mean(np.abs(z) <= 1.96) <= 0.995
    assert 0.90 <= np.mean(np.abs(null) <= 1.96) <= 0.99
    assert abs(np.mean(z)) < 0.2


@pytest.mark.parametrize("n_models", [2, 3, 5])
def test_intervals_hold_where_few_models_remember_unequally(n_models):
    """Without the models' luck, and without Student's quantile, far fewer would."""
    rng = np.random.default_rng(9)
    held, of_records = [], []
    for _ in range(300):
        member = splits(np.zeros(600, dtype=int), n_models, rng)
        memory = (1 + 0.5 * rng.normal(size=(n_models, 1))) * member
        found = paired_cost(memory + rng.normal(size=member.shape), member)
        held.append(abs(found.value - 1) <= 1.96 * found.standard_error)
        of_records.append(abs(found.value - 1) <= 1.96 * found.null_error)
    assert np.mean(of_records) < 0.6
    assert np.mean(held) >= 0.91  # 95 % less three standard errors


def test_confidence_and_correctness_see_memorisation():
    rng = np.random.default_rng(8)
    member = splits(np.zeros(2_000, dtype=int), 20, rng)
    logit = scaled_logits(member, rng, shift=0.3)
    for values in (confidence_of(logit), (logit > 0).astype(float)):
        found = paired_cost(values, member)
        assert found.value > 5 * found.standard_error
