"""Exposures over all models against loops and derivatives; errors under known truth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer.attacks import attack_models
from pcer.attacks import pooled as pools
from pcer.attacks.pooled import (
    RankedPool,
    differences_of,
    luck_of,
    people_variance,
    reliability,
    separation,
)
from pcer.attacks.rates import record_rates
from pcer.attacks.single import auc_advantage, confidence_of, loss_threshold
from pcer.attacks.sums import Groups
from pcer.measuring.exact import strata_of_counts
from pcer.measuring.variances import split_luck
from pcer.metrics import Counts, accuracy, positive_rate
from tests import reference_attacks as slow
from tests.attacks.one_group import (
    one_group,
    paired_exposure,
    pooled_auc,
    ranked,
    rows_of,
    sweep,
)

ATTACKS = (
    *("attack_advantage", "auc_advantage", "paired_gap", "paired_confidence"),
    *("lira_advantage", "lira_offline_advantage", "rmia_advantage"),
)


@given(st.integers(0, 10_000))
def test_clustered_error_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    member = rng.permuted(np.tile(np.arange(25) < 15, (6, 1)), axis=1)
    scores = np.round(
        rng.normal(size=member.shape) + rng.normal(size=(6, 1)) * member, 1
    )
    scores[rng.random(member.shape) < 0.1] = np.nan
    found = pooled_auc(scores, member)
    values = [
        slow.auc(row[np.isfinite(row)], inside[np.isfinite(row)])
        for row, inside in zip(scores, member, strict=True)
    ]
    assert found.value == pytest.approx(np.mean(values) - 0.5, abs=1e-12)
    assert found.standard_error == pytest.approx(
        slow.clustered_error(scores, member), abs=1e-12
    )
    assert (found.n_records, found.n_excluded) == (
        25,
        int(np.isnan(scores).any(axis=0).sum()),
    )


@given(st.integers(0, 10_000))
def test_pooled_threshold_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    member = rng.permuted(np.tile(np.arange(20) < 12, (4, 1)), axis=1)
    loss = np.round(rng.exponential(size=member.shape) * (1 - 0.5 * member), 2) + 0.01
    whole = one_group(20)
    pool = RankedPool([whole], 4)

    def threshold(ranks, losses):
        return loss_threshold(ranks, losses[ranks.order])

    for model, (row, inside) in enumerate(zip(loss, member, strict=True)):
        order = ranked(-row, inside)
        pool.add(model, {whole: [order]}, threshold, row)
    both = [slow.threshold_parts(*one) for one in zip(loss, member, strict=True)]
    values, parts = zip(*both, strict=True)
    found = pool.exposures(whole)
    assert found.value[0] == pytest.approx(np.mean(values), abs=1e-12)
    expected = max(slow.two_way_error(values, parts, 20), abs(found.value[0]) / 20)
    assert found.standard_error[0] == pytest.approx(expected, abs=1e-12)


def test_one_model_has_the_error_of_delong():
    rng = np.random.default_rng(4)
    member = rng.random(300) < 0.7
    score = rng.normal(size=300) + member
    alone = auc_advantage(ranked(score, member))
    pooled = pooled_auc(score[None], member[None])
    assert pooled.value == alone.value
    assert pooled.standard_error == pytest.approx(
        alone.standard_error * math.sqrt(300 / 299)
    )
    assert pooled.null_error == pooled.standard_error


def test_models_that_agree_less_than_records_explain_add_nothing():
    assert (
        people_variance(1.0, 0.0, 0.03, 3) == people_variance(1.0, 0.0, 0.0, 1) == 1.0
    )
    t_of_1 = (12.706204736 / 1.959963985) ** 2
    assert people_variance(1.0, 0.0625, 0.5, 2) == pytest.approx(0.5 + 0.0625 * t_of_1)


def test_a_model_without_both_sides_is_left_out():
    member = np.array([[True] * 4, [True, False, True, False]])
    assert pooled_auc(np.tile([4.0, 1.0, 3.0, 2.0], (2, 1)), member).value == 0.5
    everyone = np.ones((2, 3), dtype=bool)
    assert math.isnan(pooled_auc(np.ones((2, 3)), everyone).value)


@pytest.mark.parametrize("n_models", [2, 3, 4, 5, 8])
@given(seed=st.integers(0, 10_000))
def test_paired_exposures_against_a_loop(n_models, seed):
    rng = np.random.default_rng(seed)
    member = rng.random((n_models, 20)) < 0.6
    member[0, :3] = [True, False, True]
    member[1, :3] = [False, True, False]
    values = rng.normal(size=member.shape) + rng.normal(size=(n_models, 1)) * member
    value, error, null, excluded = slow.paired(values, member)
    found = paired_exposure(values, member)
    least = abs(value) / found.n_records
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.standard_error == pytest.approx(max(error, least))
    assert found.null_error == pytest.approx(max(null, least))
    assert (found.n_excluded, found.n_records) == (excluded, 20 - excluded)


def test_paired_exposures_of_nobody_of_one_and_of_all():
    """Records never in or out are counted, not guessed; certainty has an error."""
    found = paired_exposure(
        np.ones((2, 3)), np.array([[True, True, False], [True, False, False]])
    )
    assert (found.n_records, found.n_excluded) == (1, 2)
    assert math.isnan(found.standard_error)
    nobody = paired_exposure(np.ones((2, 1)), np.ones((2, 1), dtype=bool))
    assert math.isnan(nobody.value)
    assert (nobody.n_records, nobody.n_excluded) == (0, 1)
    member = np.array([[True, False] * 10, [False, True] * 10])
    found = paired_exposure(member.astype(float), member)
    assert (found.value, found.null_error, found.standard_error) == (
        1.0,
        1 / 20,
        1 / 20,
    )


def test_numbers_of_records_give_value_error_and_covariance_back():
    """Records of no group stand for nothing."""
    scores = sweep(np.random.default_rng(7), shift=(0.2, 2.0))
    scores.group[:5] = -1
    (found,) = attack_models([scores])
    assert {*found.exposure} >= {"overfitting_gap", *ATTACKS}
    for numbers in (*found.exposure.values(), found.benefit):
        assert np.isnan(numbers[:5]).all()
        assert np.isfinite(numbers[5:]).all()
    for row in (row for row in found.rows if row.attack in ATTACKS):
        chosen = scores.group == scores.group_names.index(row.group)
        own = found.exposure[row.attack][chosen]
        assert own.mean() == pytest.approx(row.value, abs=1e-12)
        assert own.std(ddof=1) / math.sqrt(len(own)) <= row.standard_error * (1 + 1e-12)
        covariance = np.cov(own, found.benefit[chosen])[0, 1] / len(own)
        covariance *= (1 - 1 / len(own)) / (1 - 1 / row.n_records)  # some are left out
        assert covariance == pytest.approx(row.benefit_covariance, rel=1e-9)


def separated(values, member, group, n_groups=2) -> list[float]:
    return separation(
        luck_of(values, pools.Sides(member)), Groups(group, n_groups)
    ).tolist()


@given(st.integers(0, 10_000))
def test_separation_against_a_loop(seed):
    """Three groups, of which the second is the largest, and records of none."""
    rng = np.random.default_rng(seed)
    group = rng.permutation([0] * 5 + [1] * 8 + [2] * 4 + [-1] * 3)
    member = rng.random((6, 20)) < 0.6
    member[:, 0] = True
    shared = rng.normal(size=(6, 3))[:, group]
    values = rng.normal(size=(6, 20)) + rng.integers(0, 2) * shared + member
    found = separated(values, member, group, 3)
    expected = [slow.separation(values, member, group, 1, k) for k in (0, 2)]
    assert [found[0], found[2]] == pytest.approx(expected, abs=1e-9)
    assert found[1] == max(found[0], found[2])


def test_separation_is_not_measured_of_few_models_nor_of_what_never_varies():
    """Training on a record itself is no luck: it is what exposure measures."""
    rng = np.random.default_rng(3)
    group = np.arange(60) % 2
    member = rng.random((20, 60)) < 0.5
    values = rng.normal(size=member.shape)
    assert np.isnan(separated(values[:4], member[:4], group)).all()
    assert np.isfinite(separated(values[:5], member[:5], group)).all()
    assert np.isnan(separated(0.25 * member, member, group)).all()


def repeated(values, member, group, n_groups=2) -> list[float]:
    sides = pools.Sides(member)
    differences = differences_of(values, luck_of(values, sides), sides)
    found = reliability(differences, Groups(group, n_groups), n_models=len(values))
    return found.tolist()


@given(st.integers(0, 10_000))
def test_reliability_against_a_loop(seed):
    """Two groups, records of none, and one that is always in."""
    rng = np.random.default_rng(seed)
    group = rng.permutation([0] * 9 + [1] * 8 + [-1] * 3)
    member = rng.permuted(np.tile(np.arange(7) < 4, (20, 1)), axis=1).T
    member[:, 0] = True
    values = rng.normal(size=(7, 20)) + rng.normal(0, 2, 20) * member
    expected = [slow.reliability(values, member, group, k) for k in (0, 1)]
    assert repeated(values, member, group) == pytest.approx(expected, abs=1e-9)


def test_reliability_is_that_of_other_models_of_the_same_records():
    """The correlation of differences between two halves of the models."""
    rng = np.random.default_rng(4)
    member = rng.permuted(np.tile(np.arange(40) < 20, (4_000, 1)), axis=1).T
    memory = rng.normal(0, 0.4, 4_000)
    values = rng.normal(size=member.shape) + memory * member
    noise = 1 / 20 + 1 / 20
    (found,) = repeated(values, member, np.zeros(4_000, int), 1)
    assert found == pytest.approx(0.16 / (0.16 + noise), abs=0.02)


def test_reliability_is_not_measured_of_few_models_nor_of_what_never_varies():
    rng = np.random.default_rng(3)
    group = np.arange(60) % 2
    member = np.arange(20)[:, None] % 2 == np.arange(60) % 2
    values = rng.normal(size=member.shape)
    assert np.isnan(repeated(values[:4], member[:4], group)).all()
    assert np.isfinite(repeated(values[:5], member[:5], group)).all()
    assert np.isnan(repeated(0.25 * member, member, group)).all()


N_RECORDS, N_MODELS = 60, 3


def predictions(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, N_RECORDS)
    member = rng.random((N_MODELS, N_RECORDS)) < 0.6
    predicted = rng.random(member.shape) < 0.3 + 0.3 * labels + 0.1 * member
    return predicted, labels, member, rng.integers(-1, 2, N_RECORDS)


def audited_rates(weight, predicted, labels, member, chosen):
    """Means over models of the positive rate and of what audits compute from counts."""
    both = []
    for one, inside in zip(predicted, member, strict=True):
        cells = [
            (one == p) & (labels == y) for p, y in [(1, 1), (1, 0), (0, 0), (0, 1)]
        ]
        train, test = (
            Counts(
                *(np.array([(weight * chosen * side * cell).sum()]) for cell in cells)
            )
            for side in (inside, ~inside)
        )
        luck, _ = split_luck(strata_of_counts(train, test))
        both.append(
            (positive_rate(test)[0], (accuracy(train) - accuracy(test) - luck)[0])
        )
    return np.mean(both, axis=0)


@given(st.integers(0, 1_000))
def test_rates_are_those_of_an_audit(seed):
    predicted, labels, member, codes = predictions(seed)
    found = record_rates(predicted, labels, member, Groups(codes, 2))
    for k in range(2):
        expected = audited_rates(
            np.ones(N_RECORDS), predicted, labels, member, codes == k
        )
        assert [rate.value[k] for rate in found] == pytest.approx(expected, abs=1e-12)
        for rate in found:
            assert rate.own[codes == k].sum() == pytest.approx(0, abs=1e-12)
            assert not rate.own[codes < 0].any()


def test_parts_of_rates_are_derivatives_up_to_degrees_of_freedom():
    """With many records the degrees of freedom make no difference."""
    *given, codes = (np.repeat(one, 30, axis=-1) for one in predictions(3))
    found = record_rates(*given, Groups(codes, 2))
    chosen = codes == 1
    for r in np.flatnonzero(chosen)[::197]:
        for which, rate in enumerate(found):
            expected = slow.derivative(
                lambda w, which=which: audited_rates(w, *given, chosen)[which],
                len(codes),
                r,
            )
            own = rate.own[r] / chosen.sum()
            assert own == pytest.approx(expected, rel=0.02, abs=1e-8)


def test_a_group_that_nobody_was_held_out_of_has_no_rates():
    member = np.array([[True, True, False, True]])
    predicted = np.array([[True, False, True, False]])
    groups = Groups(np.array([0, 0, 1, 1]), 2)
    benefit, gap = record_rates(predicted, np.ones(4, int), member, groups)
    assert np.isnan([benefit.value[0], gap.value[0]]).all()
    assert benefit.value[1] == 1.0


def test_every_row_over_all_models_says_what_its_groups_records_share():
    scores = sweep(np.random.default_rng(5), n_records=120)
    sign = 2 * scores.labels - 1
    confidence = confidence_of(scores.logits * sign)
    expected = slow.separation(confidence, scores.member, scores.group, 0, 1)
    rows = attack_models([scores])[0].rows
    assert [row.separation for row in rows] == pytest.approx([expected] * len(rows))
    of_group = [
        slow.reliability(confidence, scores.member, scores.group, k) for k in (0, 1)
    ]
    for row in rows:
        assert row.reliability == pytest.approx(of_group["ab".index(row.group)])


def test_what_one_model_with_references_folds_and_bare_answers_can_tell():
    rng = np.random.default_rng(6)
    one, many = (sweep(rng, n_models=n, n_records=64, shift=0.0) for n in (1, 8))
    beyond = rng.normal(size=one.logits.shape)
    found = rows_of(replace(one, reference=beyond))
    for k, name in enumerate("ab"):
        own = one.group == k
        row = found["reference_advantage", name]
        n_in = one.member[0, own].sum()
        n_out = (~one.member[0, own]).sum()
        chance = math.sqrt((n_in + n_out + 1) / (12 * n_in * n_out))
        plain = pooled_auc(beyond[:, own], one.member[:, own])
        assert row.value == plain.value
        assert row.standard_error == row.null_error == max(chance, plain.standard_error)
    folds = replace(many, member=np.arange(64) % 8 != np.arange(8)[:, None])
    of_folds = {name for name, _ in rows_of(folds)}
    assert of_folds >= {*ATTACKS[:4]}
    assert not of_folds & {*ATTACKS[4:]}
    bare = replace(many, has_probabilities=False, reference=many.logits)
    assert {name for name, _ in rows_of(bare)} == {"paired_gap"}
    assert attack_models([bare])[0].runs == [{"a": {}, "b": {}}] * 8
