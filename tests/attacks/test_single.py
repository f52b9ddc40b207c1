"""Attacks on single models: other programs, hand-made cases, closed forms, coverage.

Ranks: one packed sort against stable sorts of groups, and pairs counted one by one.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from pcer.attacks import single
from pcer.attacks.single import rank
from pcer.attacks.sums import Groups
from tests import reference_attacks as slow
from tests.attacks.one_group import ranked

SCORES = st.lists(
    st.tuples(st.integers(0, 6).map(lambda k: k / 4), st.booleans()),
    min_size=4,
    max_size=40,
).filter(lambda rows: 2 <= sum(m for _, m in rows) <= len(rows) - 2)


def auc(score, member):
    return single.auc_advantage(ranked(score, member))


def threshold(loss, member):
    order = ranked(-loss, member)
    return single.loss_threshold(order, loss[order.order])


@given(SCORES)
def test_auc_and_delong_against_the_textbook(rows):
    score, member = (np.array(column) for column in zip(*rows, strict=True))
    found = auc(score, member)
    assert found.value + 0.5 == pytest.approx(roc_auc_score(member, score), abs=1e-12)
    expected = slow.auc_parts(score, member)
    smaller = min(found.n_members, found.n_nonmembers)
    delong = math.sqrt(sum(part**2 for part in expected))
    least = abs(found.value) / smaller
    assert found.standard_error == pytest.approx(max(delong, least), abs=1e-12)
    parts = np.zeros(len(score))
    parts[ranked(score, member).order] = found.parts
    assert parts == pytest.approx(expected, abs=1e-12)
    assert math.sqrt(found.variance) == pytest.approx(delong, abs=1e-12)


@given(SCORES)
def test_the_threshold_is_the_mean_training_loss_and_not_the_best(rows):
    loss, member = (np.array(column) for column in zip(*rows, strict=True))
    found = threshold(loss, member)
    mean = math.fsum(loss[member]) / member.sum()
    caught = sum(x <= mean + 1e-9 for x in loss[member]) / member.sum()
    false = sum(x <= mean + 1e-9 for x in loss[~member]) / (~member).sum()
    assert found.value == pytest.approx((caught - false) / 2, abs=1e-12)


def test_proposition_1_does_not_hold():
    """All right, confident on members only: gap 0, but the attack finds everybody."""
    member = np.arange(100) < 70
    loss = single.loss_of(np.where(member, 5.3, 0.1))
    found = threshold(loss, member)
    assert found.value == auc(-loss, member).value == 0.5
    assert 0 < found.standard_error < 0.02


def test_attacks_at_chance_are_centred_and_their_errors_honest():
    rng = np.random.default_rng(2)
    member = np.arange(2_400) < 1_400
    found = [
        threshold(rng.exponential(size=300), rng.permutation(300) < 210)
        for _ in range(800)
    ]
    z = np.array([one.value / one.standard_error for one in found])
    assert abs(z.mean()) < 3 / math.sqrt(800)
    assert 0.925 <= np.mean(np.abs(z) < 1.96) <= 0.975
    drawn = (ranked(rng.normal(size=2_400), member) for _ in range(500))
    found = [single.tpr_excess(one, fpr=0.01) for one in drawn]
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 3 * values.std() / math.sqrt(len(values))
    covered = [abs(one.value) <= 1.96 * one.standard_error for one in found]
    assert 0.92 <= np.mean(covered) <= 0.995


def test_losses_and_confidences_are_those_of_the_true_label():
    logits = np.array([-2.0, 0.3, 40.0, -750.0])
    labels = np.array([1, 0, 1, 0])
    logit = single.true_label_logit(logits, labels)
    chance = 1 / (1 + np.exp(-logits[:3]))
    expected = [
        log_loss([y], [p], labels=[0, 1]) for y, p in zip(labels, chance, strict=False)
    ]
    assert single.loss_of(logit)[:2] == pytest.approx(expected[:2], rel=1e-9)
    assert single.confidence_of(logit)[:2] == pytest.approx(
        np.exp(-np.array(expected[:2]))
    )
    assert np.isfinite(single.loss_of(-logit)).all()


def hand_made(n_nonmembers, moved=0.0):
    """Non-members score 1 to n; of ten members three lie above, one at ``moved``."""
    rest = [moved, *[0.0] * 6, *[1e9] * 3]
    score = np.concatenate([np.arange(1.0, n_nonmembers + 1), rest])
    return ranked(score, np.arange(len(score)) >= n_nonmembers)


def test_tpr_excess_by_hand():
    """Above the 990th of 1,000 counts, level with it does not: ten others lie above."""
    for moved, caught in ((0.0, 0.3), (990.5, 0.4), (990.0, 0.3)):
        found = single.tpr_excess(hand_made(1_000, moved), fpr=0.01)
        assert found.value == pytest.approx(caught - 11 / 1_001)
    assert single.tpr_excess(hand_made(1_000), fpr=0.001) is None
    assert single.tpr_excess(hand_made(999), fpr=0.01) is None
    assert (
        single.tpr_excess(ranked(np.ones(3), np.ones(3, dtype=bool)), fpr=0.5) is None
    )


def test_a_side_without_records_has_no_value():
    everyone = np.ones(3, dtype=bool)
    assert math.isnan(auc(np.arange(3.0), everyone).value)
    assert math.isnan(threshold(np.ones(3), ~everyone).value)
    one_member = auc(np.arange(3.0), np.arange(3) == 2)
    assert (one_member.value, one_member.standard_error) == (0.5, None)


# Ranks

NEAR_ONE = st.integers(0, 6).map(lambda k: 1.0 + k * 2.0**-52)
"""Scores that differ in their last digits only, which do not fit into a key."""
FLOATS = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([-1.0, -0.0, 0.0, 1.0, 1e300, -1e-300, np.inf, -np.inf]),
    NEAR_ONE,
)
ROW = st.tuples(st.one_of(FLOATS, st.just(np.nan)), st.booleans(), st.integers(-1, 2))


@settings(max_examples=200)
@given(st.lists(ROW, min_size=1, max_size=40))
def test_ranks_are_those_of_a_stable_sort_within_groups(rows):
    score, member, group = (np.array(column) for column in zip(*rows, strict=True))
    divisions = [Groups(group, 3), Groups(0 * group, 1)]
    found = rank(score.astype(float), member, divisions)
    for groups in divisions:
        for k, ranks in enumerate(found[groups]):
            mine = np.flatnonzero((groups.codes == k) & ~np.isnan(score))
            order = mine[np.argsort(score[mine], kind="stable")]
            np.testing.assert_array_equal(ranks.order, order)
            np.testing.assert_array_equal(ranks.member, member[order])
            check_counts(ranks, score[order], member[order])


def check_counts(ranked, score, member):
    n = len(score)
    assert (ranked.n_members, ranked.n_nonmembers) == (member.sum(), n - member.sum())
    for place in range(n + 1):
        assert ranked.above(place) == (member[place:].sum(), (~member[place:]).sum())
    for number, threshold in enumerate(score[~member]):
        assert ranked.end_of_tie(number) == (score <= threshold).sum()
    assert ranked.is_onesided == (member.all() or not member.any())
    if not ranked.is_onesided:
        assert ranked.auc == pytest.approx(slow.auc(score, member), abs=1e-14)
        placements = [
            np.mean(
                [slow.beats(*((s, t) if m else (t, s))) for t in score[member != m]]
            )
            for s, m in zip(score, member, strict=True)
        ]
        sides = np.where(member, ranked.n_members, ranked.n_nonmembers)
        expected = (np.array(placements) - ranked.auc) / sides
        np.testing.assert_allclose(ranked.parts(), expected, atol=1e-14)


def test_many_groups_and_records_leave_the_order_exact():
    """Keys keep fewer digits of a score the more records and groups there are."""
    rng = np.random.default_rng(0)
    n, n_groups = 70_000, 200
    score = 1 + rng.integers(0, 2**30, n) * 2.0**-52
    member = rng.random(n) < 0.7
    group = rng.integers(-1, n_groups, n)
    (found,) = rank(score, member, [Groups(group, n_groups)]).values()
    for k in (0, 77, 199):
        mine = np.flatnonzero(group == k)
        order = mine[np.argsort(score[mine], kind="stable")]
        np.testing.assert_array_equal(found[k].order, order)
        np.testing.assert_array_equal(found[k].member, member[order])
