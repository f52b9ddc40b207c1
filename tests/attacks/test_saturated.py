"""LiRA where probabilities reach 0 or 1: trees, nearest neighbours and lookup tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.worlds.coins import count_alarms
from scipy.stats import binomtest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from pcer.attacks import log_odds
from tests import reference_attacks as slow
from tests.attacks.one_group import rows_of
from tests.models.worlds import LookupTable
from tests.worlds.copies import count_named
from tests.worlds.fleets import Fleet, fleet, people, scores_of

LIRA = "lira_advantage"


MODELS = {
    "smooth": LogisticRegression(C=10),
    "forest": RandomForestClassifier(n_estimators=10),
    "15 nearest": KNeighborsClassifier(15),
    "1 nearest": KNeighborsClassifier(1),
    "lookup table": LookupTable(),
}


def small_fleet(name, *, n=90, n_models=10, seed=0) -> Fleet:
    rng = np.random.default_rng(seed)
    found = fleet(MODELS[name], people(rng, n, flipped=(0.05, 0.25)), n_models, rng)
    found.member[:, 0] = True  # never out
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_lira_equals_the_form_in_the_docs(name, dtype):
    """Values and errors of both groups; scores are made without looking at the groups."""
    made = small_fleet(name)
    scores = scores_of(made, dtype=dtype)
    found = rows_of(scores)
    sign = np.where(made.labels == 1, 1, -1)
    score = slow.shrunk_lira(slow.cut_log_odds(made.probability) * sign, made.member)
    assert np.isinf(score).any() or name in ("smooth", "15 nearest")
    for k, group in enumerate(scores.group_names):
        own = made.group == k
        member, row, value = made.member[:, own], found[LIRA, group], advantage(score, made, k)
        assert row.value == pytest.approx(value, abs=1e-6)
        error = max(slow.clustered_error(score[:, own], member), abs(value) / own.sum())
        assert row.standard_error == pytest.approx(error, rel=1e-6)
        assert row.n_records == own.sum()
        assert row.n_excluded == n_unknown(member)


def advantage(score, made, k) -> float:
    """Mean over models of the AUC of one group, minus 1/2."""
    both = score[:, made.group == k], made.member[:, made.group == k]
    return np.mean([slow.auc(*one) for one in zip(*both, strict=True)]) - 0.5


def n_unknown(member) -> int:
    """Records that, for some model, all others had in or all had out."""
    n_others = len(member) - 1
    return sum(any(row.sum() - one in (0, n_others) for one in row) for row in member.T)


def test_log_odds_that_models_give_themselves_are_never_cut():
    """A network may be as sure as it likes; only probabilities are cut, and only LiRA's."""
    made = small_fleet("forest")
    as_logits, as_probabilities = (
        rows_of(scores_of(made, from_probabilities=known)) for known in (False, True)
    )
    assert as_logits[LIRA, "a"].value != as_probabilities[LIRA, "a"].value
    for (cost, group), row in as_logits.items():
        if not cost.startswith("lira"):
            assert row == as_probabilities[cost, group]
    sign = np.where(made.labels == 1, 1, -1)
    score = slow.shrunk_lira(log_odds(made.probability) * sign, made.member)
    assert as_logits[LIRA, "a"].value == pytest.approx(advantage(score, made, 0), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forest", "15 nearest", "1 nearest"])
def test_lira_is_not_below_the_loss_attack(name):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        made = fleet(MODELS[name], people(rng, 300, flipped=(0.02, 0.15)), 16, rng)
        found = rows_of(scores_of(made))
        for group in "ab":
            lira, loss = found[LIRA, group], found["auc_advantage", group]
            error = math.hypot(lira.standard_error, loss.standard_error)
            assert lira.value > loss.value - 3 * error


@pytest.mark.slow
def test_groups_by_coin_are_seldom_called_unequal():
    """Short for ``python -m benchmarks.alarms coins``: 15 nearest neighbours, attacked exactly."""
    counted = count_alarms("15nn", 2_000, 40, seed=0)
    for kind, n in counted.items():
        assert binomtest(n, 40, 0.05, alternative="greater").pvalue > 0.01, kind


@pytest.mark.slow
def test_people_with_three_records_are_called_the_more_exposed():
    """Forests of people who stand there three times."""
    for attack, counted in count_named(500, 2, seed=0).items():
        assert counted == {"copies": 2}, attack
