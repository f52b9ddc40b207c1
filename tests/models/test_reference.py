"""One model beside reference models: the attack by loops, alarms, and what they add."""

import math

import numpy as np
import pandas as pd
import pytest

import pcer
from pcer.attacks import beyond_reference
from pcer.statistics import holm, upper_p
from tests.models.worlds import called
from tests.worlds.references import GROUPS, OneModel, draw_model


def release_of(drawn, **changed) -> pcer.Release:
    given = {
        "y_score": drawn.score,
        "reference": drawn.reference,
        "sensitive_features": np.array(GROUPS)[drawn.group],
        "split": drawn.member,
        "split_kind": "random",
        "attribute": "sex",
        "outcome": "benefit",
        **changed,
    }
    return called(pcer.release_from_predictions, drawn.label.astype(int), **given)


@pytest.fixture(scope="module")
def drawn():
    return draw_model(OneModel(n=400, remembered=(0.0, 1.5)), np.random.default_rng(2))


@pytest.fixture(scope="module")
def release(drawn) -> pcer.Release:
    return release_of(drawn)


def slow_auc(score: np.ndarray, member: np.ndarray) -> tuple[float, float]:
    """AUC - 1/2 by comparing every member with every other, and DeLong's error."""
    inside = score[member]
    outside = score[~member]
    wins = np.array([(a > outside) + 0.5 * (a == outside) for a in inside])
    n, m = wins.shape
    variance = wins.mean(axis=1).var(ddof=1) / n + wins.mean(axis=0).var(ddof=1) / m
    return float(wins.mean()) - 0.5, max(
        math.sqrt(variance), math.sqrt((n + m + 1) / 12 / n / m)
    )


def test_the_attack_is_the_slow_one(drawn, release):
    # log odds of the true label by the model, less those of the mean reference
    score = []
    for own, references, positive in zip(
        drawn.score, drawn.reference, drawn.label, strict=True
    ):
        usual = sum(references) / len(references)
        own, usual = (own, usual) if positive else (1 - own, 1 - usual)
        score.append(math.log(own / (1 - own)) - math.log(usual / (1 - usual)))
    rows = {
        x.group: x for x in release.pooled_exposure if x.attack == "reference_advantage"
    }
    for g, name in enumerate(GROUPS):
        chosen = drawn.group == g
        value, error = slow_auc(np.array(score)[chosen], drawn.member[chosen])
        found = release.runs[0].groups[name].exposure["reference_advantage"]
        row = rows[name]
        assert found.value == row.value == pytest.approx(value, rel=1e-9)
        assert found.standard_error == pytest.approx(error, rel=1e-9)
        assert row.null_error == row.standard_error == pytest.approx(error, rel=0.01)
        assert row.n_records == chosen.sum()
    certain = beyond_reference(
        np.array([0.0, 1.0]), np.array([[1.0], [0.0]]), np.ones(2, bool)
    )
    assert np.isfinite(certain).all()
    assert certain[0] < -30 < 30 < certain[1]


def test_an_audit_rests_on_it_and_says_so(release):
    audit = pcer.audit(release)
    assert audit.attack == "reference_advantage"
    assert [story.attack for story in audit.attacks[:2]] == [
        "reference_advantage",
        "overfitting_gap",
    ]
    assert "reference attack and the overfitting gap, the file's" in audit.choice
    women = audit.settings[0].groups["women"]
    assert women.detected
    rows = [
        one for one in release.pooled_exposure if one.attack == "reference_advantage"
    ]
    exposures = np.array([row.value for row in rows])
    errors = np.array([row.null_error for row in rows])
    gap = pcer.audit(release, attack="overfitting_gap").settings[0].groups
    of_gap = [gap[one.group].p_value_alone for one in rows]
    p = holm(np.stack([upper_p(exposures, errors), of_gap])).min(axis=0)
    found = [audit.settings[0].groups[one.group].p_value for one in rows]
    assert found == pytest.approx(p, abs=1e-11)
    assert any(one.attack == "reference_advantage" for one in release.placebo)
    assert any("4 reference models" in note for note in release.subject.notes)
    assert pcer.audit(release, attack="auc_advantage").choice.endswith(
        "as the plan says."
    )


def test_frames_dicts_arrays_and_several_models_give_the_same(
    drawn, release, few_permutations
):
    frame = pd.DataFrame(drawn.reference)
    n = len(drawn.label)
    for given in (frame, {"a": frame[0], "b": frame[1], "c": frame[2], "d": frame[3]}):
        again = release_of(drawn, reference=given)
        assert again.pooled_exposure == release.pooled_exposure
    alone = release_of(drawn, reference=drawn.reference[:, 0])
    assert any("one reference model" in note for note in alone.subject.notes)
    plain = release_of(drawn, reference=None, record_id=np.arange(n))
    assert "reference_advantage" not in {row.attack for row in plain.pooled_exposure}
    assert not any("reference" in note for note in plain.subject.notes)
    twice = release_of(
        type(drawn)(*(np.concatenate([part, part]) for part in drawn)),
        seed=np.repeat([0, 1], n),
        record_id=np.tile(np.arange(n), 2),
        split_id="one",
    )
    first, second = (
        run.groups["men"].exposure["reference_advantage"] for run in twice.runs
    )
    assert (
        first == second == release.runs[0].groups["men"].exposure["reference_advantage"]
    )


def test_bad_references_are_one_sentence(drawn):
    wrong = [np.full((400, 2), 1.5), np.full((400, 2), np.nan), np.full((399, 2), 0.5)]
    wrong += [{}, {"a": [0.5] * 400, "b": [0.5]}, ["x"] * 400]
    cases = [{"reference": given} for given in wrong]
    cases += [
        {"seed": np.arange(400) % 2},
        {"y_score": None, "y_pred": np.arange(400) % 2},
    ]
    for changed in cases:
        with pytest.raises(pcer.InputError, match="reference") as caught:
            release_of(drawn, **changed)
        assert "\n" not in str(caught.value)
