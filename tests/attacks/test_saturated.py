"""LiRA where probabilities reach 0 or 1: trees, nearest neighbours, lookup tables."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from pcer.attacks import log_odds
from pcer.measuring.evidence import alarms
from pcer.measuring.plan import Plan
from tests import reference_attacks as slow
from tests.attacks.one_group import rows_of
from tests.models.worlds import LookupTable
from tests.worlds.fleets import Fleet, People, exact_panel, fleet, people, scores_of

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
    """Values and errors of both groups; scores are made without looking at groups."""
    made = small_fleet(name)
    scores = scores_of(made, dtype=dtype)
    found = rows_of(scores)
    sign = np.where(made.labels == 1, 1, -1)
    score = slow.shrunk_lira(slow.cut_log_odds(made.probability) * sign, made.member)
    assert np.isinf(score).any() or name in ("smooth", "15 nearest")
    for k, group in enumerate(scores.group_names):
        own = made.group == k
        member = made.member[:, own]
        row = found[LIRA, group]
        value = advantage(score, made, k)
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
    """Networks may be as sure as they like: only LiRA's probabilities are cut."""
    made = small_fleet("forest")
    as_logits, as_probabilities = (
        rows_of(scores_of(made, from_probabilities=known)) for known in (False, True)
    )
    assert as_logits[LIRA, "a"].value != as_probabilities[LIRA, "a"].value
    for (attack, group), row in as_logits.items():
        if not attack.startswith("lira"):
            assert row == as_probabilities[attack, group]
    sign = np.where(made.labels == 1, 1, -1)
    score = slow.shrunk_lira(log_odds(made.probability) * sign, made.member)
    assert as_logits[LIRA, "a"].value == pytest.approx(
        advantage(score, made, 0), abs=1e-6
    )


@pytest.mark.slow
def test_people_with_three_records_are_called_the_more_exposed():
    """All records of a person are in training, or none is, and the audit is told so."""
    rng = np.random.default_rng(0)
    clumps = np.array([1.0, 3.0])
    for _ in range(2):
        drawn = people(rng, 500, apart=0.5, n_features=5)
        copied = People(
            *(np.repeat(part, 1 + 2 * drawn.group, axis=0) for part in drawn)
        )
        scores = scores_of(
            fleet(RandomForestClassifier(n_estimators=30), copied, 20, rng)
        )
        panel = exact_panel(scores, scores.group[None])
        for attack in ("auc_advantage", "rmia_advantage", "paired_confidence", LIRA):
            how = {"attack": attack, "outcome": "harm", "variance_inflation": clumps}
            assert alarms([panel], ((0, 1),), Plan(), **how).exposures_differ[0, 0], (
                attack
            )
            assert panel.pooled[attack].value[1] > panel.pooled[attack].value[0], attack
