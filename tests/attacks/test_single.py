"""Attacks on single models: independent oracles, hand-made cases, closed forms, coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import log_loss, roc_auc_score

from pcer.attacks import single as attacks
from tests import reference_attacks as slow
from tests.attacks.one_group import tpr_excess

SCORES = st.lists(
    st.tuples(st.integers(0, 6).map(lambda k: k / 4), st.booleans()), min_size=4, max_size=40
).filter(lambda rows: 2 <= sum(m for _, m in rows) <= len(rows) - 2)


def columns(rows):
    return np.array([s for s, _ in rows]), np.array([m for _, m in rows])


@given(SCORES)
def test_auc_with_ties_is_that_of_scikit_learn(rows):
    score, member = columns(rows)
    ours = attacks.attack_auc(score, member)
    assert ours == pytest.approx(roc_auc_score(member, score), abs=1e-12)
    assert ours == pytest.approx(slow.auc(score, member), abs=1e-12)


def test_auc_of_many_scores_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    member = rng.random(20_000) < 0.7
    for score in (rng.normal(size=20_000) + member, rng.integers(0, 50, 20_000) + member):
        expected = roc_auc_score(member, score)
        assert attacks.attack_auc(score.astype(float), member) == pytest.approx(expected, abs=1e-12)


@given(SCORES)
def test_delong_against_the_textbook_form(rows):
    score, member = columns(rows)
    found = attacks.auc_advantage(score, member)
    smaller = min(found.n_members, found.n_nonmembers)
    expected = max(slow.delong_error(score, member), abs(found.value) / smaller)
    assert found.standard_error == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.5])
def test_delong_intervals_cover_the_closed_form(shift):
    """Scores N(shift, 1) against N(0, 1): the AUC is Phi(shift / sqrt 2)."""
    rng = np.random.default_rng(1)
    truth = norm.cdf(shift / math.sqrt(2)) - 0.5
    member = np.arange(200) < 120
    covered = 0
    for _ in range(1_000):
        found = attacks.auc_advantage(rng.normal(size=200) + shift * member, member)
        covered += abs(found.value - truth) <= 1.96 * found.standard_error
    assert 0.93 <= covered / 1_000 <= 0.97


def test_auc_at_quantiles_is_the_closed_form():
    quantiles = norm.ppf((np.arange(4_000) + 0.5) / 4_000)
    score, member = np.concatenate([quantiles + 0.7, quantiles]), np.arange(8_000) < 4_000
    assert attacks.attack_auc(score, member) == pytest.approx(
        norm.cdf(0.7 / math.sqrt(2)), abs=1e-5
    )


def test_proposition_1_does_not_hold():
    """All correct, confident on members only: gap 0, and the threshold attack finds everybody."""
    member = np.arange(100) < 70
    logit = np.where(member, 5.3, 0.1)
    loss = attacks.loss_of(logit)
    assert attacks.gap_attack(logit > 0, member).value == 0.0
    found = attacks.loss_threshold_attack(loss, member)
    assert found.value == 0.5
    assert attacks.auc_advantage(-loss, member).value == 0.5
    assert 0 < found.standard_error < 0.02
    assert attacks.gap_attack(logit > 0, member).standard_error == 0.0


@given(SCORES)
def test_the_gap_attack_is_half_the_accuracy_difference(rows):
    score, member = columns(rows)
    correct = score > 0.5
    difference = correct[member].mean() - correct[~member].mean()
    assert attacks.gap_attack(correct, member).value == pytest.approx(difference / 2, abs=1e-15)


@given(SCORES)
def test_the_threshold_is_the_mean_training_loss_and_not_the_best(rows):
    loss, member = columns(rows)
    found = attacks.loss_threshold_attack(loss, member)
    mean = math.fsum(loss[member]) / member.sum()
    caught = sum(x <= mean + 1e-9 for x in loss[member]) / member.sum()
    false = sum(x <= mean + 1e-9 for x in loss[~member]) / (~member).sum()
    assert found.value == pytest.approx((caught - false) / 2, abs=1e-12)


def test_the_threshold_attack_is_centred_and_its_error_honest():
    rng = np.random.default_rng(2)
    values = []
    for _ in range(2_000):
        loss, member = rng.exponential(size=300), rng.permutation(300) < 210
        found = attacks.loss_threshold_attack(loss, member)
        values.append(found.value / found.standard_error)
    assert abs(np.mean(values)) < 3 / math.sqrt(2_000)
    assert 0.93 <= np.mean(np.abs(values) < 1.96) <= 0.97


def test_losses_and_confidences_are_those_of_the_true_label():
    logits, labels = np.array([-2.0, 0.3, 40.0, -750.0]), np.array([1, 0, 1, 0])
    logit = attacks.true_label_logit(logits, labels)
    chance = 1 / (1 + np.exp(-logits[:3]))
    expected = [log_loss([y], [p], labels=[0, 1]) for y, p in zip(labels, chance, strict=False)]
    assert attacks.loss_of(logit)[:2] == pytest.approx(expected[:2], rel=1e-9)
    assert attacks.confidence_of(logit)[:2] == pytest.approx(np.exp(-np.array(expected[:2])))
    assert np.isfinite(attacks.loss_of(-logit)).all()


def hand_made(n_nonmembers):
    """Non-members score 1 to n; of ten members three lie above all of them."""
    score = np.concatenate([np.arange(1.0, n_nonmembers + 1), np.full(7, 0.0), np.full(3, 1e9)])
    return score, np.arange(len(score)) >= n_nonmembers


def test_tpr_at_fpr_by_hand():
    score, member = hand_made(1_000)
    assert attacks.tpr_at_fpr(score, member, fpr=0.01) == 0.3
    score[1_000] = 990.5  # a member just above the 990th of 1,000: ten non-members above it
    assert attacks.tpr_at_fpr(score, member, fpr=0.01) == 0.4
    score[1_000] = 990.0  # level with the threshold is not above it
    assert attacks.tpr_at_fpr(score, member, fpr=0.01) == 0.3
    assert attacks.tpr_at_fpr(score, member, fpr=0.001) is None
    assert attacks.tpr_at_fpr(*hand_made(999), fpr=0.01) is None
    assert attacks.tpr_at_fpr(*hand_made(10_000), fpr=0.001) == 0.3
    found = tpr_excess(*hand_made(1_000), fpr=0.01)
    assert found.value == pytest.approx(0.3 - 11 / 1_001)


def test_tpr_excess_is_centred_at_chance():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(1_500):
        member = rng.permutation(2_400) < 1_400
        found.append(tpr_excess(rng.normal(size=2_400), member, fpr=0.01))
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 3 * values.std() / math.sqrt(len(values))
    covered = [abs(one.value) <= 1.96 * one.standard_error for one in found]
    assert 0.92 <= np.mean(covered) <= 0.995


def test_a_side_without_records_has_no_value():
    everyone = np.ones(3, dtype=bool)
    assert math.isnan(attacks.attack_auc(np.arange(3.0), everyone))
    assert math.isnan(attacks.gap_attack(everyone, everyone).value)
    assert math.isnan(attacks.loss_threshold_attack(np.ones(3), ~everyone).value)
    assert attacks.tpr_at_fpr(np.ones(3), everyone, fpr=0.5) is None
    one_member = attacks.auc_advantage(np.arange(3.0), np.arange(3) == 2)
    assert one_member.value == 0.5
    assert one_member.standard_error is None


def test_a_rate_must_lie_between_0_and_1():
    with pytest.raises(ValueError, match="fpr must lie strictly between 0 and 1"):
        attacks.tpr_at_fpr(np.ones(3), np.array([True, False, False]), fpr=1.0)
