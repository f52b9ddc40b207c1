"""An attack is two rows, whatever it scores by: nothing else has to know of it."""

from dataclasses import replace

import numpy as np
import pytest

from pcer.attacks import attack_models, draw_coins, exposure_rows, scorers
from pcer.attacks.scorers import Scorer, SettingScores
from pcer.attacks.single import Advantage, auc_advantage, true_label_logit
from pcer.release import attack_kinds
from pcer.release.attack_kinds import ATTACK_KINDS, AUC, AttackKind, Basis
from tests.attacks.one_group import sweep

PLAIN = AttackKind("plain_advantage", "plain", AUC, Basis.MODEL)
CALIBRATED = AttackKind(
    "calibrated_advantage",
    "calibrated",
    AUC,
    Basis.MODELS,
    attack_kinds.SHADOWS,
    is_calibrated=True,
    is_tried_exactly=True,
)


def plain_scores(setting: SettingScores):
    """The log odds of the true label, in single precision."""
    return true_label_logit(setting.logits, setting.labels).astype(np.float32)


def calibrated_scores(setting: SettingScores):
    """The same, beyond the average of the other models."""
    own = plain_scores(setting)
    others = (own.sum(axis=0) - own) / np.float32(len(own) - 1)
    return own - others


def own_statistic(ranked, score) -> Advantage:
    """An AUC in single precision, from the scores that it is given."""
    assert score.dtype == np.float32
    found = auc_advantage(ranked, score)
    return found._replace(
        value=np.float32(found.value), parts=found.parts.astype(np.float32)
    )


@pytest.mark.parametrize(
    ("kind", "scores_of"),
    [(PLAIN, plain_scores), (CALIBRATED, calibrated_scores)],
    ids=["plain", "calibrated"],
)
def test_an_attack_is_two_rows_and_works_in_single_precision(
    kind, scores_of, monkeypatch
):
    row = Scorer(kind=kind, scores=scores_of, statistic=own_statistic)
    monkeypatch.setitem(ATTACK_KINDS, kind.name, kind)
    monkeypatch.setattr(scorers, "ATTACKS", (*scorers.ATTACKS, row))
    setting = sweep(np.random.default_rng(0), n_models=8, n_records=300)
    coins, _ = draw_coins([setting])

    (attacked,) = attack_models([setting], [coins])

    assert {"a", "b"} == {row.group for row in attacked.rows if row.attack == kind.name}
    assert attacked.runs[3]["a"][kind.name].value > 0
    assert np.isfinite(attacked.exposure[kind.name]).all()
    of_placebos = attacked.coins.pooled[kind.name]
    assert np.isfinite(of_placebos.value).all()
    assert np.isfinite(of_placebos.standard_error).all()
    assert (kind.name in attacked.exact) == kind.is_tried_exactly
    assert kind.name not in exposure_rows.not_computed([setting], [attacked])


def test_an_attack_with_the_statistic_of_another_gives_its_numbers(monkeypatch):
    of_logits = {"scores": plain_scores, "statistic": auc_advantage}
    row = Scorer(kind=PLAIN, **of_logits)
    monkeypatch.setitem(ATTACK_KINDS, PLAIN.name, PLAIN)
    monkeypatch.setattr(scorers, "ATTACKS", (*scorers.ATTACKS, row))
    setting = sweep(np.random.default_rng(0), n_models=2, n_records=60)

    (attacked,) = attack_models([setting])

    values = {(row.attack, row.group): row.value for row in attacked.rows}
    assert values[PLAIN.name, "a"] == values["auc_advantage", "a"]


def test_an_attack_whose_models_are_too_few_is_not_run(monkeypatch):
    row = Scorer(kind=CALIBRATED, scores=calibrated_scores, statistic=own_statistic)
    monkeypatch.setitem(ATTACK_KINDS, CALIBRATED.name, CALIBRATED)
    monkeypatch.setattr(scorers, "ATTACKS", (*scorers.ATTACKS, row))
    setting = sweep(np.random.default_rng(0), n_models=7, n_records=60)

    (attacked,) = attack_models([setting])

    assert CALIBRATED.name not in attacked.exposure
    missing = exposure_rows.not_computed([setting], [attacked])
    assert missing[CALIBRATED.name].startswith("it needs at least 8 splits")


def test_a_users_own_attack_gets_the_same_tests_and_may_replace_ours():
    setting = sweep(np.random.default_rng(0), n_models=3, n_records=80)
    scores = true_label_logit(setting.logits, setting.labels)
    scores[:, :4] = np.nan
    coins, _ = draw_coins([setting])

    (ours,) = attack_models([setting], [coins])
    named = replace(setting, own={"mine_auc_advantage": scores})
    (mine,) = attack_models([named], [coins])
    (replaced,) = attack_models([replace(setting, own={"auc_advantage": scores})])

    def rows(attacked, name):
        return [row.value for row in attacked.rows if row.attack == name]

    assert rows(mine, "auc_advantage") == rows(ours, "auc_advantage")
    assert rows(replaced, "auc_advantage") == rows(mine, "mine_auc_advantage")
    assert "mine_auc_advantage" in mine.coins.pooled
    n_excluded = [one["mine_auc_advantage"].n_excluded for one in mine.runs[0].values()]
    assert sum(n_excluded) == 4
    bare = replace(named, has_probabilities=False)
    assert attack_models([bare])[0].runs[0] == {
        group: {"mine_auc_advantage": found["mine_auc_advantage"]}
        for group, found in mine.runs[0].items()
    }
