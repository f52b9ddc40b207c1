"""Several attributes at once against each group's records alone, with the plain functions."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.lira import Form, lira_scores, rmia_scores
from pcer.attacks.groups import (
    SMALL_RATES,
    Views,
    pooled_attacks,
    single_model_attacks,
)

from pcer.attacks import lira
from pcer.attacks.attack import BudgetScores
from pcer.attacks.pooled import clustered_auc
from pcer.attacks.single import (
    auc_advantage,
    confidence_of,
    loss_of,
    loss_threshold_attack,
    true_label_logit,
)
from pcer.data import GroupedDataset, ProtectedAttribute, split
from pcer.release.disclosure import DisclosureRule
from pcer.store import run_tasks
from pcer.sweep.releases import build_releases
from pcer.train import Predictions, TrainConfig
from pcer.train.accounting import Budget
from tests.attacks.one_group import paired_cost, tpr_excess
from tests.worlds.sweeps import scaled_logits, splits

N_RECORDS, N_MODELS = 5_000, 10


@pytest.fixture(scope="module")
def views() -> list[BudgetScores]:
    """Two attributes; a few records are in no group, some always train, logits have ties."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, N_RECORDS)
    member = splits(labels, N_MODELS, rng)
    member[:, :20] = True
    logit = scaled_logits(member, rng, shift=0.3, labels=labels).round(2)
    shared = {
        "logits": (logit * (2 * labels - 1)).astype(np.float32),
        "labels": labels,
        "member": member,
    }
    codes = (rng.integers(-1, 2, N_RECORDS), np.minimum(rng.integers(0, 40, N_RECORDS), 2))
    return [
        BudgetScores(**shared, group=group, group_names=names)
        for group, names in zip(codes, (("a", "b"), ("x", "y", "z")), strict=True)
    ]


def groups(views):
    """Each group's position, scaled logits and membership."""
    for v, one in enumerate(views):
        for g in range(len(one.group_names)):
            rows = np.flatnonzero(one.group == g)
            yield v, g, true_label_logit(one.logits[:, rows], one.labels[rows]), one.member[:, rows]


def alone(found):
    """Without the covariance and the separation, which a single group's scores cannot give."""
    return found._replace(benefit_covariance=0.0, separation=0.0)


def test_a_log_odds_of_0_predicts_the_positive_label(views):
    """As in the counts of a release, and whatever the label is."""
    found = pooled_attacks(Views(views))
    for v, one in enumerate(views):
        correct = (one.logits >= 0) == (one.labels == 1)
        assert (one.logits == 0).any()
        for g in range(len(one.group_names)):
            rows = one.group == g
            expected = paired_cost(correct[:, rows].astype(float), one.member[:, rows])
            assert alone(found[v].groups[g]["paired_gap"]) == pytest.approx(alone(expected))


def test_single_models(views):
    found = single_model_attacks(Views(views))
    for v, g, logit, member in groups(views):
        for s in (0, 7):
            score, inside = -loss_of(logit[s]), member[s]
            expected = {
                "attack_advantage": loss_threshold_attack(-score, inside),
                "auc_advantage": auc_advantage(score, inside),
                **{name: tpr_excess(score, inside, fpr=r) for name, r in SMALL_RATES.items()},
            }
            expected = {name: one for name, one in expected.items() if one is not None}
            models = found[v].models
            assert models[s][g].keys() == expected.keys()
            for name, one in expected.items():
                assert models[s][g][name] == pytest.approx(one, abs=1e-14), (name, v, g)
    assert "tpr_excess_at_1_percent" in found[1].models[0][2]


@pytest.mark.parametrize("block", [2048, 999])
def test_pooled(views, block, monkeypatch):
    monkeypatch.setattr(lira, "BLOCK", block)
    found = pooled_attacks(Views(views))
    assert found[0].groups[0]["lira_advantage"].n_excluded > 0
    one = views[0]
    everybodys = lira_scores(true_label_logit(one.logits, one.labels), one.member)
    for v, g, logit, member in groups(views):
        confidence, own = confidence_of(logit), everybodys[:, views[v].group == g]
        n_others = member.sum(axis=0) - member
        unknown = ((n_others == 0) | (n_others == N_MODELS - 1)).any(axis=0)
        offline = lira_scores(logit, member, form=Form.OFFLINE)
        expected = {
            "paired_confidence": paired_cost(confidence, member),
            "lira_advantage": clustered_auc(own, member)._replace(n_excluded=int(unknown.sum())),
            "lira_offline_advantage": clustered_auc(offline, member),
            "rmia_advantage": clustered_auc(rmia_scores(confidence, member), member),
        }
        assert list(found[v].groups[g]) == ["paired_gap", *expected]
        for name, one in expected.items():
            pooled = alone(found[v].groups[g][name])
            assert pooled == pytest.approx(alone(one), rel=1e-11), (name, v, g)


def test_views_of_different_models_are_refused(views):
    other = BudgetScores(
        logits=views[0].logits.copy(),
        labels=views[0].labels,
        member=views[0].member,
        group=views[0].group,
        group_names=views[0].group_names,
    )
    with pytest.raises(ValueError, match="must share their logits, labels and membership"):
        Views([views[0], other])


def made_sweep(views, attributes):
    """A sweep of two budgets whose models need no training."""
    one = views[0]
    dataset = GroupedDataset(
        public=True,
        name="made",
        features=np.zeros((N_RECORDS, 1), dtype=np.float32),
        feature_names=("nothing",),
        labels=one.labels,
        attributes=tuple(
            ProtectedAttribute(name=name, group_names=view.group_names, codes=view.group)
            for name, view in zip("pq", views, strict=True)
        ),
        outcome="benefit",
        positive_label=1,
        record_ids=np.arange(N_RECORDS),
    )
    budgets = (
        Budget(epsilon=1.0, noise_multiplier=1.0, epsilon_by_accountant={}),
        Budget(epsilon=math.inf, noise_multiplier=0.0, epsilon_by_accountant={}),
    )
    scores = Predictions(
        budgets=budgets,
        seeds=tuple(range(N_MODELS)),
        logits=np.stack([one.logits, 2 * one.logits]),
        member=one.member,
    )
    sweep = SimpleNamespace(
        dataset=dataset,
        attributes=attributes,
        config=TrainConfig(),
        module_settings={},
        secret=b"",
        disclosure=DisclosureRule(),
    )
    return sweep, scores, {seed: split(dataset, seed=seed) for seed in range(N_MODELS)}


def test_processes_and_other_attributes_change_no_byte(views):
    together = build_releases(*made_sweep(views, ("p", "q")))
    shared = build_releases(*made_sweep(views, ("p", "q")), n_processes=2)
    for name, release in together.items():
        assert shared[name].to_json() == release.to_json()
        alone = build_releases(*made_sweep(views, (name,)))
        assert alone[name].to_json() == release.to_json()


def test_an_attack_that_fails_in_a_process_is_not_swallowed():
    with pytest.raises(ValueError, match="invalid literal"):
        list(run_tasks([(int, ("1",)), (int, ("no bound today",))], n_processes=2))
