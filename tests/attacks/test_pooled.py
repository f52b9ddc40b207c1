"""Costs over all models against loops and derivatives, and their errors under known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.lira import lira_scores, rmia_scores
from hypothesis import given
from hypothesis import strategies as st
from pcer.attacks.groups import Views, pooled_attacks, single_model_attacks

from pcer.attacks import single
from pcer.attacks.attack import BudgetScores
from pcer.attacks.pooled import (
    UNMEASURED,
    Pool,
    SharedLuck,
    Sides,
    Variation,
    clustered_auc,
    of_values,
    people_variance,
)
from pcer.attacks.ranking import Ranker
from tests import reference_attacks as slow
from tests.attacks.one_group import paired_cost
from tests.worlds.sweeps import scaled_logits, splits

COSTS = (
    "overfitting_gap",
    "attack_advantage",
    "auc_advantage",
    "paired_gap",
    "paired_confidence",
    "lira_advantage",
    "lira_offline_advantage",
    "rmia_advantage",
)


@given(st.integers(0, 10_000))
def test_clustered_error_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    member = rng.permuted(np.tile(np.arange(25) < 15, (6, 1)), axis=1)
    scores = np.round(rng.normal(size=member.shape) + rng.normal(size=(6, 1)) * member, 1)
    scores[rng.random(member.shape) < 0.1] = np.nan
    found = clustered_auc(scores, member)
    values = [
        slow.auc(row[np.isfinite(row)], inside[np.isfinite(row)])
        for row, inside in zip(scores, member, strict=True)
    ]
    assert found.value == pytest.approx(np.mean(values) - 0.5, abs=1e-12)
    assert found.standard_error == pytest.approx(slow.clustered_error(scores, member), abs=1e-12)
    assert found.n_records == 25
    assert found.n_excluded == int(np.isnan(scores).any(axis=0).sum())


@given(st.integers(0, 10_000))
def test_pooled_threshold_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    member = rng.permuted(np.tile(np.arange(20) < 12, (4, 1)), axis=1)
    loss = np.round(rng.exponential(size=member.shape) * (1 - 0.5 * member), 2) + 0.01
    whole = np.zeros(20, dtype=np.int64)
    pool, ranker = Pool(whole, 1), Ranker([whole], [1])
    for row, inside in zip(loss, member, strict=True):
        (ranked,) = ranker.rank(-row, inside)
        pool.add(ranked, [single.threshold_influence(ranked[0], row)], np.ones(20, dtype=bool))
    both = [slow.threshold_parts(*one) for one in zip(loss, member, strict=True)]
    values, parts = zip(*both, strict=True)
    (found,) = pool.results()
    assert found.value == pytest.approx(np.mean(values), abs=1e-12)
    expected = max(slow.two_way_error(values, parts, 20), abs(found.value) / 20)
    assert found.standard_error == pytest.approx(expected, abs=1e-12)


def test_one_model_has_the_error_of_delong():
    rng = np.random.default_rng(4)
    member = rng.random(300) < 0.7
    score = rng.normal(size=300) + member
    alone, pooled = single.auc_advantage(score, member), clustered_auc(score[None], member[None])
    assert pooled.value == alone.value
    assert pooled.standard_error == pytest.approx(alone.standard_error * math.sqrt(300 / 299))
    assert pooled.null_error == pooled.standard_error


def test_models_that_agree_less_than_records_explain_add_nothing():
    agree = Variation(1.0, *of_values(np.array([0.1, 0.1, 0.1]), 0.03))
    assert people_variance(agree, 3) == 1.0
    assert people_variance(Variation(1.0, *of_values(np.array([0.1]), 0.0)), 1) == 1.0
    assert of_values(np.array([0.0, 0.5]), 0.0) == (0.0625, 0.0)
    t_of_1 = (12.706204736 / 1.959963985) ** 2
    assert people_variance(Variation(1.0, 0.0625, 0.5), 2) == pytest.approx(0.5 + 0.0625 * t_of_1)


def test_a_model_without_both_sides_is_left_out():
    member = np.array([[True] * 4, [True, False, True, False]])
    found = clustered_auc(np.tile([4.0, 1.0, 3.0, 2.0], (2, 1)), member)
    assert found.value == 0.5
    everyone = np.ones((2, 3), dtype=bool)
    assert math.isnan(clustered_auc(np.ones((2, 3)), everyone).value)


def weighted_auc(score, member, weight):
    inside, outside = weight * member, weight * ~member
    above = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    return inside @ above @ outside / (inside.sum() * outside.sum())


def test_parts_of_an_auc_are_derivatives():
    """But for the degree of freedom of each side."""
    rng = np.random.default_rng(5)
    member = rng.random(40) < 0.6
    score = np.round(rng.normal(size=40) + member, 1)
    found = slow.auc_parts(score, member)
    for r in range(40):
        expected = slow.derivative(lambda w: weighted_auc(score, member, w), 40, r)
        side = int((member == member[r]).sum())
        assert found[r] == pytest.approx(expected * slow.freedom(side), abs=1e-8)


def test_an_error_of_paired_costs_knows_that_a_model_may_remember_more():
    """Every model adds the same to all its records, each model another amount."""
    rng = np.random.default_rng(6)
    member = splits(np.zeros(2_000, dtype=int), 10, rng)
    luck = np.linspace(0.5, 1.5, 10)[:, None]
    found = paired_cost(luck * member + 0.01 * rng.normal(size=member.shape), member)
    by_theory = np.std(luck, ddof=1) / math.sqrt(10) * math.sqrt(slow.few_models(10))
    assert found.standard_error == pytest.approx(by_theory, rel=0.15)
    mood = paired_cost(luck + 0.01 * rng.normal(size=member.shape), member)
    spread = np.sqrt(luck.var() / (0.21 * 10 * 2_000))  # a mood moves whoever is in, and out, alike
    assert mood.standard_error == pytest.approx(spread, rel=0.5)


def sweep(rng, *, n_models=10, n_records=300, luck=0.3, stable=False):
    """Records drawn anew: those of label 1 are remembered ten times as well as the others.

    Stable: every model is right about everyone, so that who is predicted positive never changes.
    """
    labels = (rng.random(n_records) < 0.4).astype(np.int64)
    member = splits(labels, n_models, rng)
    own = np.where(labels == 1, 2.0, 0.2) * np.exp(luck * rng.normal(size=(n_models, 1)))
    logit = scaled_logits(member, rng, shift=own, labels=labels, wander=0.0 if stable else 0.5)
    logit = np.log1p(np.exp(logit)) if stable else logit
    return BudgetScores(
        logits=logit * (2 * labels - 1) - 1e-9 * (labels == 0),
        labels=labels,
        member=member,
        group=(np.arange(n_records) % 3 > 0).astype(np.int64),
        group_names=("a", "b"),
    )


def all_costs(scores):
    views = Views([scores])
    single_runs, pooled = single_model_attacks(views)[0].pooled, pooled_attacks(views)[0]
    groups = [{**a, **b} for a, b in zip(single_runs.groups, pooled.groups, strict=True)]
    return groups, single_runs.exposure | pooled.exposure, pooled.benefit


def test_numbers_of_records_give_value_error_and_covariance_back():
    groups, exposure, benefit = all_costs(sweep(np.random.default_rng(7), luck=0.0))
    codes = np.arange(300) % 3 > 0
    assert set(exposure) == set(COSTS)
    for k, group in enumerate(groups):
        chosen = codes == k
        for name, found in group.items():
            own = exposure[name][chosen]
            assert own.mean() == pytest.approx(found.value, abs=1e-12)
            assert own.std(ddof=1) / math.sqrt(len(own)) <= found.standard_error * (1 + 1e-12)
            covariance = np.cov(own, benefit[chosen])[0, 1] / len(own)
            covariance *= (1 - 1 / len(own)) / (1 - 1 / found.n_records)  # some are left out
            assert covariance == pytest.approx(found.benefit_covariance, rel=1e-9)


def test_records_of_no_group_stand_for_nothing():
    rng = np.random.default_rng(8)
    scores = sweep(rng)
    codes = scores.group.copy()
    codes[:5] = -1
    scores = BudgetScores(**{**vars(scores), "group": codes})
    _, exposure, benefit = all_costs(scores)
    for numbers in (*exposure.values(), benefit):
        assert np.isnan(numbers[:5]).all()
        assert np.isfinite(numbers[5:]).all()


def test_benefit_covariance_is_that_of_records_drawn_anew():
    """Who is predicted positive is remembered more: with more of them cost and benefit rise."""
    rng = np.random.default_rng(9)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(250):
        groups, _, benefit = all_costs(sweep(rng, luck=0.0, stable=True, n_models=8))
        inside = np.arange(300) % 3 > 0
        for name, one in groups[1].items():
            rate = benefit[inside].mean()
            found.setdefault(name, []).append((one.value, rate, one.benefit_covariance))
    seen = {}
    for name, rows in found.items():
        value, rate, claimed = np.array(rows).T
        drawn = (value - value.mean()) * (rate - rate.mean())
        error = drawn.std() / math.sqrt(len(drawn))
        assert abs(drawn.mean() - claimed.mean()) <= 3.5 * error, name
        seen[name] = drawn.mean() / max(error, 1e-12)
    assert seen["paired_gap"] == 0  # nobody's prediction ever changes
    assert seen["paired_confidence"] > 5  # there was something to be seen
    assert seen["auc_advantage"] > 2


@pytest.mark.parametrize("n_models", [2, 5, 20])
def test_intervals_are_about_people_like_these(n_models):
    """Records and models drawn anew; some models remember more than others."""
    rng = np.random.default_rng(10)
    rows: dict[str, list[tuple[float, float]]] = {}
    for _ in range(200):
        for name, one in all_costs(sweep(rng, n_models=n_models, luck=0.2))[0][1].items():
            rows.setdefault(name, []).append((one.value, one.standard_error))
    assert ("lira_advantage" in rows) == (n_models == 20)
    for name, found in rows.items():
        value, error = np.array(found).T
        covered = (np.abs(value - value.mean()) <= 1.96 * error).mean()
        assert 0.9 <= covered <= (0.995 if n_models > 2 else 1.0), (name, covered)


def test_without_the_models_luck_intervals_would_be_too_short():
    rng = np.random.default_rng(11)
    values, errors, of_records = [], [], []
    for _ in range(120):
        scores = sweep(rng, n_models=8, luck=0.5, n_records=600)
        groups, exposure, _ = all_costs(scores)
        own = exposure["rmia_advantage"][scores.group == 1]
        values.append(groups[1]["rmia_advantage"].value)
        errors.append(groups[1]["rmia_advantage"].standard_error)
        of_records.append(own.std(ddof=1) / math.sqrt(len(own)))
    distance = np.abs(np.array(values) - np.mean(values))
    assert (distance <= 1.96 * np.array(of_records)).mean() < 0.85
    assert (distance <= 1.96 * np.array(errors)).mean() > 0.88


def test_scores_of_lira_and_rmia_keep_their_values():
    """The error changed; the value is the mean of the models' AUCs, to the last bit."""
    rng = np.random.default_rng(12)
    member = splits(np.zeros(200, dtype=int), 9, rng)
    logit = scaled_logits(member, rng, shift=0.4)
    for scores in (lira_scores(logit, member), rmia_scores(single.confidence_of(logit), member)):
        aucs = [
            single.attack_auc(row[np.isfinite(row)], inside[np.isfinite(row)])
            for row, inside in zip(scores, member, strict=True)
        ]
        assert clustered_auc(scores, member).value == math.fsum(aucs) / 9 - 0.5


def separation(values, member, group, n_groups=2) -> list[float]:
    luck = SharedLuck(group, n_groups, n_models=len(values))
    half = values.shape[1] // 2
    for block in (slice(0, half), slice(half, None)):
        luck.add(block, values[:, block], Sides(member[:, block]))
    return luck.separation().tolist()


@given(st.integers(0, 10_000))
def test_separation_against_a_loop(seed):
    """Three groups, of which the second is the largest, and records of none."""
    rng = np.random.default_rng(seed)
    group = rng.permutation([0] * 5 + [1] * 8 + [2] * 4 + [-1] * 3)
    member = rng.random((6, 20)) < 0.6
    member[:, 0] = True
    shared = rng.normal(size=(6, 3))[:, group]
    values = rng.normal(size=(6, 20)) + rng.integers(0, 2) * shared + member
    found = separation(values, member, group, 3)
    expected = [slow.separation(values, member, group, 1, k) for k in (0, 2)]
    assert [found[0], found[2]] == pytest.approx(expected, abs=1e-9)
    assert found[1] == max(found[0], found[2])


@pytest.mark.parametrize(("shared", "least", "most"), [("group", 0.98, 1.0), ("all", 0.0, 0.02)])
def test_separation_says_who_shares_the_luck_of_a_model(shared, least, most):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, 500)
    member = rng.random((20, 500)) < 0.7
    moods = rng.normal(size=(20, 2))[:, group if shared == "group" else 0 * group]
    sign = rng.choice([-1, 1], 500)  # of two neighbours one may gain what the other loses
    found = separation(moods * sign + rng.normal(size=member.shape) + 2 * member, member, group)
    assert found[0] == found[1]
    assert least <= found[0] <= most


def test_separation_of_which_models_say_nothing_has_a_value_of_its_own():
    rng, group = np.random.default_rng(2), np.arange(400) % 2
    found = [
        separation(rng.normal(size=(20, 400)), rng.random((20, 400)) < 0.7, group)[0]
        for _ in range(60)
    ]
    assert np.mean(found) == pytest.approx(UNMEASURED, abs=4 * np.std(found) / math.sqrt(60))


@pytest.mark.parametrize("n_models", [4, 20])
def test_separation_is_not_measured_of_few_models_nor_of_what_never_varies(n_models):
    """Training on a record itself is no luck: it is what exposure measures."""
    rng = np.random.default_rng(3)
    member = rng.random((n_models, 60)) < 0.5
    values = rng.normal(size=member.shape) if n_models < 5 else 0.25 * member
    assert np.isnan(separation(values, member, np.arange(60) % 2)).all()


def test_every_row_over_all_models_carries_the_separation_of_its_group():
    rng = np.random.default_rng(5)
    labels, group = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    member = splits(labels, 10, rng)
    logits = scaled_logits(member, rng, shift=1.0) * (2 * labels - 1)
    scores = BudgetScores(
        logits=logits, labels=labels, member=member, group=group, group_names=("a", "b")
    )
    views = Views([scores])
    confidence = single.confidence_of(single.true_label_logit(logits, labels))
    expected = slow.separation(confidence, member, group, 0, 1)
    for found in (single_model_attacks(views)[0].pooled, pooled_attacks(views)[0]):
        for of_group in found.groups:
            carried = [one.separation for one in of_group.values()]
            assert carried == pytest.approx([expected] * len(carried))
