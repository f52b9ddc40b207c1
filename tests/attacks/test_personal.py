"""A threshold for each person: against a loop, at known rates, beside one threshold for all."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from benchmarks.fleet_bias import above, above_own, kinds, known_rates, seen_rates
from benchmarks.lira import lira_scores
from scipy.stats import norm, t

from pcer.attacks import BudgetScores, personal_alarms, personal_exposures
from pcer.attacks.lira import offline_ratio, other_models
from pcer.attacks.personal import personal_tpr_excess
from tests.attacks.one_group import paired_cost
from tests.worlds.sweeps import scaled_logits, splits


def sweep(*, shift=0.0, n_models=20, n_records=600, seed=0, wander=0.0):
    rng = np.random.default_rng(seed)
    member = splits(np.zeros(n_records, dtype=int), n_models, rng)
    return scaled_logits(member, rng, shift=shift, wander=wander), member


def excess(values, member, *, fpr):
    """Of everybody as one group."""
    n = values.shape[1]
    labels, whole = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    scores = BudgetScores(
        logits=values, labels=labels, member=member, group=whole, group_names=("all",)
    )
    return personal_tpr_excess(scores, fpr=fpr)[0]


def looped_alarms(values, member, fpr):
    """Record by record: each model without it is left out in turn, the others set a threshold."""
    raised = np.zeros(values.shape)
    for record in range(values.shape[1]):
        out = [s for s in range(len(values)) if not member[s, record]]
        if len(out) < 3:
            continue
        thresholds = {}
        for left_out in out:
            rest = [values[s, record] for s in out if s != left_out]
            deviation = statistics.stdev(rest) * math.sqrt(1 + 1 / len(rest))
            thresholds[left_out] = statistics.fmean(rest) + t.isf(fpr, len(rest) - 1) * deviation
        for model in range(len(values)):
            met = [thresholds[model]] if model in thresholds else list(thresholds.values())
            raised[model, record] = statistics.fmean(values[model, record] > x for x in met)
    return raised


@pytest.mark.parametrize("fpr", [0.01, 0.1])
def test_alarms_against_a_loop(fpr):
    values, member = sweep(shift=2.0, n_models=9, n_records=200)
    member[:, 0], member[:, 1], member[:2, 1] = True, True, False
    found = personal_alarms(values, member, fpr=fpr)
    np.testing.assert_allclose(found.raised, looped_alarms(values, member, fpr), atol=1e-12)
    assert 0 < found.raised[~member].sum() < found.raised[member].sum()
    np.testing.assert_array_equal(found.known, (~member).sum(axis=0) >= 3)


@pytest.mark.parametrize("n_models", [10, 30])
def test_everybody_has_the_rate_of_false_alarms_that_was_asked_for(n_models):
    """Student's threshold holds with any number of models; a Gaussian's would not."""
    values, member = sweep(n_models=n_models, n_records=20_000)
    raised, known = personal_alarms(values, member, fpr=0.05)
    out = ~member & known
    error = math.sqrt(0.05 / out.sum()) * 2  # alarms of one record share its scores
    assert raised[out].mean() == pytest.approx(0.05, abs=4 * error)
    gaussian = offline_ratio(values, other_models(values, member)) > norm.isf(0.05)
    assert gaussian[out].mean() > 0.05 + 10 * error


def test_the_excess_is_that_of_a_known_shift():
    """Of 400 models 120 are without a record, so the threshold is nearly the true one."""
    values, member = sweep(shift=1.5, n_models=400, n_records=300)
    found = excess(values, member, fpr=0.05)
    truth = norm.sf(norm.isf(0.05) - 1.5) - 0.05
    assert abs(found.value - truth) < 0.01 + 4 * found.standard_error
    assert found.n_records == 300
    assert found.n_excluded == 0


def test_the_error_is_honest_where_nothing_is_memorised():
    ratios = []
    for seed in range(60):
        found = excess(*sweep(seed=seed, n_models=16, n_records=200), fpr=0.05)
        ratios.append(found.value / found.standard_error)
    assert abs(statistics.fmean(ratios)) < 4 / math.sqrt(60)
    assert 0.75 < statistics.stdev(ratios) < 1.3


def skewed_excess(seed, *, all_models):
    """Nothing is memorised, scores are far from Gaussian, 12 models."""
    rng = np.random.default_rng(seed)
    member = splits(np.zeros(2000, dtype=int), 12, rng)
    values = rng.exponential(size=member.shape)
    if not all_models:
        return excess(values, member, fpr=0.01).value
    others = other_models(values, member)  # models with the record meet all those without it
    n = np.maximum(others.n_out, 2)
    raised = offline_ratio(values, others) > t.isf(0.01, n - 1) * np.sqrt(1 + 1 / n)
    known = (~member).sum(axis=0) >= 3
    return paired_cost(raised[:, known].astype(float), member[:, known]).value


def test_models_with_and_without_the_record_meet_the_same_thresholds():
    """Else those with it are named too often where nothing is memorised."""
    for all_models in (False, True):
        found = [skewed_excess(seed, all_models=all_models) for seed in range(20)]
        z = statistics.fmean(found) / statistics.stdev(found) * math.sqrt(20)
        assert (z > 6) if all_models else (abs(z) < 3.5)


def test_records_without_enough_models_are_left_out_and_counted():
    values, member = sweep(shift=2.0, n_models=12, n_records=50)
    member[:, :5] = True
    member[:2, :5] = False
    found = excess(values, member, fpr=0.05)
    few = int(((~member).sum(axis=0) < 3).sum())
    assert few >= 5
    assert (found.n_records, found.n_excluded) == (50 - few, few)


def test_rows_for_a_release():
    values, member = sweep(shift=1.5, n_models=30, n_records=200)
    labels = np.arange(200) % 2
    group = np.where(np.arange(200) < 80, 0, 1)
    group[-3:] = -1
    scores = BudgetScores(
        logits=values * (2 * labels - 1),
        labels=labels,
        member=member,
        group=group,
        group_names=("a", "b", "nobody"),
    )
    rows = personal_exposures(scores, epsilon=math.inf, fpr=0.02)
    assert [(row.group, row.epsilon) for row in rows] == [("a", None), ("b", None)]
    assert {row.proxy for row in rows} == {"personal_tpr_excess_at_2_percent"}
    raised = looped_alarms(values, member, 0.02)
    known = (~member).sum(axis=0) >= 3
    for k, row in enumerate(rows):
        chosen = (group == k) & known
        found = paired_cost(raised[:, chosen], member[:, chosen])
        assert (row.value, row.standard_error) == pytest.approx((found.value, found.standard_error))
        assert row.benefit_covariance is not None
        assert row.n_records + row.n_excluded == (group == k).sum()
    with pytest.raises(ValueError, match="fpr"):
        personal_exposures(scores, epsilon=1.0, fpr=0.0)


KINDS = kinds(np.random.default_rng(7))


@pytest.mark.parametrize("name", KINDS)
def test_one_threshold_on_true_ratios_finds_at_least_as_many_as_own_thresholds(name):
    """Neyman and Pearson: of all ways to spend the same false alarms the ratio's is the best."""
    known = known_rates(KINDS[name])
    assert known["one threshold, LiRA"] >= known["own thresholds"] - 1e-12


def test_one_threshold_is_not_the_mean_over_people_unless_they_are_alike():
    alike, easier = (known_rates(KINDS[name]) for name in ("all alike", "some easier"))
    assert alike["one threshold, loss"] == pytest.approx(alike["own thresholds"])
    assert easier["one threshold, distance"] == pytest.approx(easier["own thresholds"])
    assert easier["one threshold, loss"] < 0.5 * easier["own thresholds"]
    few, easy = (known_rates(KINDS[f"few exposed{more}"]) for more in ("", ", and easy"))
    assert few["one threshold, LiRA"] > 1.05 * few["own thresholds"]
    assert few["one threshold, loss"] < 0.5 * few["own thresholds"]
    assert easy["one threshold, loss"] > easy["own thresholds"]


def test_worked_out_rates_are_those_of_draws():
    kind, rng = KINDS["few exposed"], np.random.default_rng(3)
    member = rng.random((60, len(kind.level))) < 0.5
    values = kind.level + rng.normal(size=member.shape) + kind.shift * member
    known = known_rates(kind, rate=0.05)
    ratio = kind.shift * (values - kind.level) - kind.shift**2 / 2
    for key, score in (
        ("one threshold, loss", values),
        ("one threshold, LiRA", ratio),
        ("one threshold, distance", values - kind.level),
    ):
        assert above(score, member, 0.05) == pytest.approx(known[key], abs=0.003), key
    own = values > kind.level + norm.isf(0.05)
    assert own[member].mean() == pytest.approx(known["own thresholds"], abs=0.003)


def test_a_fleet_comes_near_from_below():
    kind = KINDS["some easier"]
    known, seen = known_rates(kind), seen_rates(kind, 100, np.random.default_rng(2))
    assert seen["own thresholds, false alarms"] == pytest.approx(0.01, abs=0.001)
    for key in ("own thresholds", "one threshold, LiRA"):
        assert 0.8 * known[key] < seen[key] < known[key], key


def test_the_distribution_free_truth_is_that_of_a_known_shift():
    """The threshold is a rank among 120; its own noise costs a little of what is found."""
    values, member = sweep(shift=1.0, n_models=400, n_records=800)
    truth = norm.sf(norm.isf(0.1) - 1.0)
    assert truth - 0.015 < above_own(values, member, 0.1) < truth + 0.005
    nothing = above_own(*sweep(n_models=400, n_records=800, seed=1), 0.1)
    assert nothing == pytest.approx(0.1, abs=0.004)


def test_ratios_pooled_over_people_do_not_depend_on_how_easy_they_are():
    values, member = sweep(shift=1.0, n_models=60, n_records=2000)
    ratio = above(lira_scores(values, member), member, 0.01)
    moved = values + np.random.default_rng(1).normal(0, 5, values.shape[1])
    assert above(lira_scores(moved, member), member, 0.01) == pytest.approx(ratio, abs=1e-9)
    assert above(moved, member, 0.01) < 0.5 * above(values - values.mean(axis=0), member, 0.01)
