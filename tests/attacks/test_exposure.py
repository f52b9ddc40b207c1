"""From a sweep's scores, or anybody's, to a release that the audit can use as it is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pcer.attacks.exposure import (
    ExposedSetting,
    pooled_attacks_of,
    pooled_exposure_from_scores,
    pooled_exposures,
    pooled_notes,
    run_attacks_of,
    run_exposures,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import pcer
from pcer.attacks.attack import BudgetScores
from pcer.attacks.costs import exposure_from_scores, weaker_notes
from pcer.auditing.algorithm1 import agreement
from pcer.errors import InputError
from pcer.release.format import Confusion, GroupTables, Release, Run, Subject, Training
from pcer.release.proxies import PROXIES, Basis
from pcer.report.figures import chart_spec
from pcer.report.tables import resolution_table
from tests.worlds.sweeps import scaled_logits, splits

NAMES = ("a", "b")
PER_RUN = ["attack_advantage", "auc_advantage"]
PAIRED = ["paired_gap", "paired_confidence"]
CALIBRATED = ["lira_advantage", "lira_offline_advantage", "rmia_advantage"]


def sweep(*, shifts=(0.0, 1.0), n_models=12, n_records=400, seed=0) -> BudgetScores:
    """Group b's records are remembered; the last record has no known group."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_records) // 2 % 2
    group = np.arange(n_records) % 2
    member = splits(labels, n_models, rng)
    logit = scaled_logits(member, rng, shift=np.array(shifts)[group], labels=labels)
    group[-1] = -1
    return BudgetScores(
        logits=logit * (2 * labels - 1),
        labels=labels,
        member=member,
        group=group,
        group_names=NAMES,
    )


def release_of(sweeps: dict[float, BudgetScores]) -> Release:
    """What a trainer writes: tables, exposures and pooled exposures of every budget."""
    runs, pooled = [], []
    for epsilon, scores in sweeps.items():
        pooled += pooled_exposures(scores, epsilon=epsilon)
        for seed, exposure in enumerate(run_exposures(scores)):
            tables = {
                name: GroupTables(
                    train=confusion(scores, seed, k, trained=True),
                    test=confusion(scores, seed, k, trained=False),
                    exposure=exposure[name],
                )
                for k, name in enumerate(scores.group_names)
            }
            on_disk = None if math.isinf(epsilon) else epsilon
            runs.append(Run(epsilon=on_disk, seed=seed, split=f"{epsilon} {seed}", groups=tables))
    return Release(
        subject=Subject(dataset="made", attribute="x", groups=list(NAMES), outcome="benefit"),
        training=Training(mechanism="none", split_kind="random"),
        runs=runs,
        pooled_exposure=pooled,
    )


def confusion(scores, seed, k, *, trained):
    chosen = (scores.group == k) & (scores.member[seed] == trained)
    truth, guess = scores.labels[chosen] == 1, scores.logits[seed, chosen] > 0
    return Confusion(
        tp=int((truth & guess).sum()),
        fp=int((~truth & guess).sum()),
        tn=int((~truth & ~guess).sum()),
        fn=int((truth & ~guess).sum()),
    )


@pytest.fixture(scope="module")
def scores():
    return sweep()


def test_run_exposures_are_those_of_the_groups_records(scores):
    found = run_exposures(scores)
    assert len(found) == 12
    assert list(found[0]["a"]) == PER_RUN  # 60 non-members: no rate of 1 % can be had
    chosen = scores.group == 1
    confidence = scores.logits[3, chosen] * (2 * scores.labels[chosen] - 1)
    expected = roc_auc_score(scores.member[3, chosen], confidence) - 0.5
    row = found[3]["b"]["auc_advantage"]
    assert row.value == pytest.approx(expected, abs=1e-12)
    assert row.n_members == int(scores.member[3, chosen].sum())
    assert row.n_members + row.n_nonmembers == 199


def test_small_rates_come_with_enough_nonmembers():
    found = run_exposures(sweep(n_models=2, n_records=7_000))
    assert list(found[0]["a"]) == [*PER_RUN, "tpr_excess_at_1_percent"]
    assert found[0]["b"]["tpr_excess_at_1_percent"].value > 0


def test_pooled_rows_in_order(scores):
    rows = pooled_exposures(scores, epsilon=math.inf)
    assert [row.proxy for row in rows] == (PAIRED + CALIBRATED) * 2
    assert {row.epsilon for row in rows} == {None}
    assert {row.n_records + row.n_excluded for row in rows if row.proxy in PAIRED} == {200, 199}


def test_rows_that_are_means_over_the_models(scores):
    """Beside the exposures of the runs, from one pass; for one seed as well."""
    (found,) = run_attacks_of([scores], epsilon=1.0)
    assert found.runs == run_exposures(scores)
    assert [row.proxy for row in found.rows] == PER_RUN * 2
    assert {row.epsilon for row in found.rows} == {1.0}
    for row in found.rows:
        values = [run[row.group][row.proxy].value for run in found.runs]
        assert row.value == pytest.approx(np.mean(values), abs=1e-12)
        assert row.n_records == (scores.group == NAMES.index(row.group)).sum()
    (alone,) = run_attacks_of([sweep(n_models=1)], epsilon=1.0)
    for row in alone.rows:
        one = alone.runs[0][row.group][row.proxy]
        assert row.value == pytest.approx(one.value, abs=1e-15)
        assert row.standard_error >= 0.95 * one.standard_error


def test_who_is_behind_the_rows(scores):
    (found,) = pooled_attacks_of([scores], epsilon=1.0)
    assert found.rows == pooled_exposures(scores, epsilon=1.0)
    assert set(found.records.exposure) == {"overfitting_gap", *PAIRED, *CALIBRATED}
    for row in found.rows:
        own = found.records.exposure[row.proxy][scores.group == NAMES.index(row.group)]
        assert own.mean() == pytest.approx(row.value, abs=1e-12)
    assert np.isnan(found.records.benefit[-1])


def test_few_seeds_give_paired_costs_and_say_why():
    rows = pooled_exposures(sweep(n_models=7), epsilon=1.0)
    assert [row.proxy for row in rows] == PAIRED * 2
    assert "at least 8 seeds per budget and there are 7" in pooled_notes(7)[0]
    assert pooled_notes(8) == []


@pytest.mark.parametrize("cost", PER_RUN + PAIRED + CALIBRATED)
def test_the_audit_takes_every_proxy_as_the_cost(scores, cost):
    release = release_of({1.0: sweep(shifts=(0.0, 0.0), seed=5), math.inf: scores})
    audit = pcer.audit(release, pcer.Plan(cost=cost, resamples=50, null_draws=20))
    quiet, loud = audit.budgets
    assert not any(group.resolved for group in quiet.groups.values())
    assert loud.groups["b"].resolved
    assert not loud.groups["a"].resolved
    assert loud.groups["b"].cost.value > loud.groups["a"].cost.value
    assert {row.proxy for row in agreement(audit)} == {*PER_RUN, *PAIRED, *CALIBRATED}


@pytest.mark.parametrize(
    ("cost", "resolved", "unresolved"),
    [
        ("paired_gap", "makes the model right for about", "more of them in 100"),
        ("paired_confidence", "raises the model's confidence", "hundredths"),
        ("attack_advantage", "asked whether a person was in", "times in 100"),
        ("lira_advantage", "asked which of two people was in", "times in 100"),
    ],
)
def test_the_account_speaks_of_the_cost_that_was_chosen(scores, cost, resolved, unresolved):
    plan = pcer.Plan(cost=cost, resamples=10, null_draws=10)
    loud = pcer.audit(release_of({math.inf: scores}), plan)
    assert resolved in loud.account[1]
    if cost.endswith("_advantage"):
        told = f"{50 + 100 * loud.budgets[0].groups['b'].cost.value:.1f} (b)"
        assert told in loud.account[1]
    quiet = pcer.audit(release_of({math.inf: sweep(shifts=(0.0, 0.0), seed=5)}), plan)
    assert unresolved in quiet.account[1]
    assert "stronger attacks" in quiet.account[-1]


def test_the_noise_level_is_that_of_the_cost_that_was_chosen(scores):
    release = release_of({math.inf: scores})
    pooled = {row.group: row for row in release.pooled_exposure if row.proxy == "lira_advantage"}
    audit = pcer.audit(release, pcer.Plan(cost="lira_advantage", resamples=10, null_draws=10))
    for name, group in audit.budgets[0].groups.items():
        # The mean of max(0, x) of a normal x with the error that LiRA has without memorisation.
        expected = pooled[name].null_error / math.sqrt(2 * math.pi)
        assert group.noise_level == pytest.approx(expected)
    for cost, words in (("overfitting_gap", "overfitting gap"), ("lira_advantage", "LiRA")):
        audit = pcer.audit(release, pcer.Plan(cost=cost, resamples=10, null_draws=10))
        assert f"Cost: {words}, in hundredths" in resolution_table(audit).note
        rows = chart_spec(audit, release, "gaps")["datasets"]["rows"]
        # The chart of the gap shows the gap's noise and no other.
        assert [row["noise"] is None for row in rows] == [cost != "overfitting_gap"] * 2


def test_what_is_measured_is_what_the_registry_lists():
    found = release_of({math.inf: sweep(n_models=8, n_records=70_000)})
    per_run = {name for cell in found.runs[0].groups.values() for name in cell.exposure}
    pooled = {row.proxy for row in found.pooled_exposure}
    assert per_run == {name for name, one in PROXIES.items() if one.basis is Basis.MODEL}
    assert pooled == {name for name, one in PROXIES.items() if one.basis is Basis.MODELS}


def test_a_release_with_exposures_survives_writing(scores, tmp_path):
    release = release_of({math.inf: scores})
    pcer.write_release(release, tmp_path / "r.json")
    assert pcer.read_release(tmp_path / "r.json") == release


@pytest.mark.parametrize("noisy", [False, True])
def test_planted_truth(noisy):
    """200 random features, few records, group b's labels shuffled: real models memorise b more.

    The noisy models keep a hundredth of what they learned: nothing may be resolved there.
    """
    rng = np.random.default_rng(21)
    n, group = 240, np.arange(240) % 2
    features = rng.normal(size=(n, 200))
    labels = (features[:, 0] > 0).astype(int)
    labels[group == 1] = rng.permutation(labels[group == 1])
    features[:, 0] *= 5
    member = splits(labels, 24, rng)
    logits = np.empty(member.shape)
    for s, row in enumerate(member):
        model = LogisticRegression(C=0.01, max_iter=500).fit(features[row], labels[row])
        weights = model.coef_[0] * (0.01 if noisy else 1.0)
        noise = rng.normal(size=200) * (0.3 if noisy else 0.0)
        logits[s] = features @ (weights + noise)
    scores = BudgetScores(
        logits=logits, labels=labels, member=member, group=group, group_names=NAMES
    )
    release = release_of({math.inf: scores})
    for cost in ("overfitting_gap", *PER_RUN, *PAIRED, *CALIBRATED):
        (budget,) = pcer.audit(release, pcer.Plan(cost=cost, resamples=10, null_draws=10)).budgets
        assert budget.groups["b"].resolved is not noisy, cost
        if noisy:
            assert not budget.groups["a"].resolved, cost
        else:
            assert budget.groups["b"].cost.value > budget.groups["a"].cost.value, cost


TABLE = {
    "score": [0.9, 0.2, 0.7, 0.4, 0.8, 0.1, 0.3],
    "record": [11, 12, 13, 14, 15, 16, 17],
    "group": ["x", "x", "x", "x", "y", "y", None],
    "member": [True, False, True, False, True, False, True],
}


@pytest.mark.parametrize("library", [dict, pd.DataFrame, pl.DataFrame])
def test_bring_your_own_scores(library):
    found = exposure_from_scores(library(TABLE))
    assert list(found) == ["x", "y"]
    assert found["x"].value == 0.5
    assert (found["x"].n_members, found["x"].n_nonmembers) == (2, 2)
    assert found["y"].standard_error is None


def test_bring_your_own_scores_of_many_models(scores):
    """A long table of every model's scores gives the clustered numbers of the sweep itself."""
    logit = scores.logits * (2 * scores.labels - 1)
    model, record = np.indices(logit.shape)
    names = np.array([*NAMES, None], dtype=object)[scores.group]
    table = {
        "score": logit.ravel(),
        "record": record.ravel(),
        "group": names[record.ravel()],
        "member": scores.member.ravel(),
        "model": model.ravel(),
    }
    found = pooled_exposure_from_scores(table, epsilon=2.0, proxy="my_attack")
    assert [(row.group, row.proxy, row.epsilon) for row in found] == [
        ("a", "my_attack", 2.0),
        ("b", "my_attack", 2.0),
    ]
    runs = run_exposures(scores)
    mean = np.mean([run["b"]["auc_advantage"].value for run in runs])
    assert found[1].value == pytest.approx(mean, abs=1e-12)
    assert found[1].standard_error > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record": [1, 1, 2, 3, 4, 5, 6]}, "record must name each record once"),
        ({"score": [np.nan, *TABLE["score"][1:]]}, "score must be finite"),
        ({"member": [2, *TABLE["member"][1:]]}, "member must be True or False"),
        ({"group": ["x"]}, "All columns must have one length"),
        ({"score": ["high"] * 7}, "score must hold numbers"),
        ({"record": [None, *TABLE["record"][1:]]}, "record is missing in 1 records"),
    ],
)
def test_bad_tables_get_one_clear_sentence(change, message):
    with pytest.raises(InputError, match=message):
        exposure_from_scores({**TABLE, **change})


def test_a_missing_column_is_named():
    table = {key: TABLE[key] for key in ("score", "record", "member")}
    with pytest.raises(InputError, match="no column 'group'; it has score, record, member"):
        exposure_from_scores(table)
    with pytest.raises(InputError, match="no column 'model'"):
        pooled_exposure_from_scores(TABLE, epsilon=1.0, proxy="p")


def test_a_record_twice_in_one_model_is_refused():
    table = {"score": [1, 2], "record": [1, 1], "group": "xx", "member": [0, 1], "model": "mm"}
    with pytest.raises(InputError, match="appears twice for one model"):
        pooled_exposure_from_scores(table, epsilon=1.0, proxy="p")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member": np.ones((3, 4), dtype=bool)}, "must both be"),
        ({"group": np.array([0, 1, 2, 0])}, "group must hold a position"),
        ({"labels": np.array([0, 1, 2, 1])}, "labels must be 0 and 1"),
        ({"logits": np.array([[np.inf, 0, 0, 0]] * 2)}, "logits must be finite"),
        ({"member": np.ones((2, 4))}, "member must be boolean"),
    ],
)
def test_bad_scores_get_one_clear_sentence(change, message):
    good = {
        "logits": np.zeros((2, 4)),
        "labels": np.array([0, 1, 0, 1]),
        "member": np.ones((2, 4), dtype=bool),
        "group": np.array([0, 1, 0, -1]),
        "group_names": NAMES,
    }
    BudgetScores(**good)
    with pytest.raises(ValueError, match=message):
        BudgetScores(**{**good, **change})


def exposed(scores):
    (single,), (pooled,) = (
        attacks([scores], epsilon=0.5) for attacks in (run_attacks_of, pooled_attacks_of)
    )
    exposure = single.records.exposure | pooled.records.exposure
    return ExposedSetting(epsilon=0.5, scores=scores, exposure=exposure, benefit=np.empty(0))


def test_where_lira_finds_less_than_the_loss_attack_is_said():
    """Nobody's difference can be seen in the noise of one group, and everybody's loss can."""
    rng = np.random.default_rng(5)
    scores = sweep(shifts=(0.5, 0.5), n_records=800)
    assert weaker_notes([exposed(scores)]) == []
    own, ones = scores.group == 1, 2 * scores.labels - 1
    fixed = 3.0 * scores.member + rng.normal(0, 0.1, scores.member.shape)
    noise = rng.normal(0, 200, scores.member.shape) * (rng.random(scores.member.shape) < 0.2)
    logits = np.where(own, (fixed + noise) * ones, scores.logits)
    (note,) = weaker_notes([exposed(replace(scores, logits=logits))])
    assert note.startswith(
        "LiRA finds less than the plain loss attack and understates exposure of 'b' at ε = 0.5 (by "
    )
