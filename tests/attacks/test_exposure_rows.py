"""From a sweep's scores, or anybody's, to a release that the audit can use as it is."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from benchmarks.lira import Form, lira_scores, rmia_scores
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

import pcer
from pcer.attacks import (
    SettingScores,
    attack_models,
    exposure_rows,
    scorers,
)
from pcer.attacks.exposure_rows import add_exposures, weaker_notes
from pcer.attacks.single import auc_advantage, confidence_of
from pcer.auditing import sentences
from pcer.release.attack_kinds import ATTACK_KINDS, Basis
from pcer.release.build import Counted, CountedRun, ReleaseFacts, RunKey, build_release
from pcer.release.file import Release
from pcer.report.tables.finding import resolution_table
from pcer.store.processes import run_tasks
from tests.attacks.one_group import paired_exposure, pooled_auc, ranked, sweep

MADE = {
    "dataset": "made",
    "outcome": "benefit",
    "split_kind": "random",
    "stratified_by": "label",
}
FACTS = ReleaseFacts(**MADE, data_digest="0" * 64)


def counted(settings, attribute="x") -> Counted:
    """Confusion counts of all models of all settings."""
    runs = []
    first = settings[0]
    for one in settings:
        rows = one.group >= 0
        for seed, (answer, inside) in enumerate(
            zip(one.answers, one.member, strict=True)
        ):
            cells = np.zeros((2, len(one.group_names), 4), dtype=np.int64)
            place = np.where(inside, 0, 1), one.group, 2 * one.labels + answer
            np.add.at(cells, tuple(part[rows] for part in place), 1)
            runs.append(
                CountedRun(
                    key=RunKey(one.released_epsilon, seed, f"s{seed}"), cells=cells
                )
            )
    sizes = {
        "n_records": len(first.group),
        "n_missing_group": int((first.group < 0).sum()),
    }
    return Counted(
        attribute=attribute, groups=first.group_names, runs=tuple(runs), **sizes
    )


def release_of(*settings: SettingScores, **how) -> Release:
    (found,) = add_exposures(
        [counted(settings)], [[one] for one in settings], FACTS, **how
    )
    return build_release(FACTS, found, file="made")


def remembered(*, shift=(0.0, 1.0), seed=0, **changes) -> SettingScores:
    """Group b's records are remembered; one record has no known group."""
    scores = sweep(
        np.random.default_rng(seed), n_models=12, n_records=400, shift=shift, **changes
    )
    scores.group[-1] = -1
    return scores


@pytest.fixture(scope="module")
def views() -> list[SettingScores]:
    """Two attributes; few records have no group, some always train; with ties."""
    rng = np.random.default_rng(0)
    first = sweep(rng, n_models=10, n_records=5_000, shift=0.3, missing=0.3)
    first.member[:, :20] = True
    logits = first.logits.round(2).astype(np.float32)
    first = replace(first, logits=logits, group_names=("a", "b"))
    codes = np.minimum(rng.integers(0, 40, 5_000), 2)
    return [first, replace(first, group=codes, group_names=("x", "y", "z"))]


def test_runs_are_those_of_each_groups_records_alone(views):
    """LiRA's and RMIA's scores are made of everybody and of all models."""
    found = attack_models(views)
    for one, attacked in zip(views, found, strict=True):
        logit = (one.logits * (2.0 * one.labels - 1)).astype(np.float64)
        everybodys = {
            "lira_advantage": lira_scores(logit, one.member),
            "lira_offline_advantage": lira_scores(logit, one.member, form=Form.OFFLINE),
            "rmia_advantage": rmia_scores(confidence_of(logit), one.member),
        }
        for (g, name), s in itertools.product(enumerate(one.group_names), (0, 7)):
            own = one.group == g
            rows = attacked.runs[s][name]
            inside = one.member[s, own]
            order = ranked(logit[s, own], inside)
            expected = {}
            for scorer in scorers.ATTACKS:
                if scorer.scores is scorers.true_label_logits:
                    result = scorer.statistic(order, logit[s, own])
                    expected[scorer.kind.name] = result
            for attack, scores in everybodys.items():
                expected[attack] = auc_advantage(
                    ranked(scores[s, own], inside), scores[s]
                )
            known = [attack for attack, row in expected.items() if row is not None]
            assert [attack for attack in rows if attack in expected] == known
            for attack in known:
                row = rows[attack]
                assert row.value == pytest.approx(expected[attack].value, abs=1e-14)
                error = expected[attack].standard_error
                assert row.standard_error == pytest.approx(error, abs=1e-14)
            for attack, scores in (("auc_advantage", logit), *everybodys.items()):
                is_known = ~np.isnan(scores[s, own])
                places = rankdata(scores[s, own][is_known])  # some scores are infinite
                auc = roc_auc_score(inside[is_known], places) - 0.5
                assert rows[attack].value == pytest.approx(auc, abs=1e-12)
    assert "tpr_excess_at_1_percent" in found[1].runs[0]["z"]


def several_seeds(n_seeds, rng, *, n_splits=8, n=600) -> SettingScores:
    """Models of one split resemble each other; membership plays no part in any."""
    labels = rng.integers(0, 2, n)
    group = np.arange(n) % 2
    split = np.repeat(np.arange(n_splits), n_seeds)
    inside = np.array([rng.permutation(n) < 0.7 * n for _ in range(n_splits)])
    luck = rng.normal(size=(n_splits, n)) + rng.normal(size=n)
    scores = luck[split] + 0.3 * rng.normal(size=(len(split), n))
    return SettingScores(
        logits=scores * (2 * labels - 1),
        labels=labels,
        member=inside[split],
        group=group,
        group_names=("a", "b"),
    )


def test_models_of_the_targets_own_split_are_no_shadow_models():
    """Each target is scored as if it were alone in its split, and nothing is found."""
    made = several_seeds(3, np.random.default_rng(9))
    assert (made.n_splits, len(made.member)) == (8, 24)
    (found,) = attack_models([made])
    logit = made.logits * (2.0 * made.labels - 1)
    rows = {(row.attack, row.group): row for row in found.rows}
    for target in (0, 10):
        kept = np.flatnonzero(
            (made.split != made.split[target]) | (np.arange(24) == target)
        )
        own = int(np.searchsorted(kept, target))
        alone = {
            "lira_advantage": lira_scores(logit[kept], made.member[kept])[own],
            "lira_offline_advantage": lira_scores(
                logit[kept], made.member[kept], form=Form.OFFLINE
            )[own],
            "rmia_advantage": rmia_scores(
                confidence_of(logit[kept]), made.member[kept]
            )[own],
        }
        for (name, scores), (g, group) in itertools.product(
            alone.items(), enumerate("ab")
        ):
            of_group = (made.group == g) & ~np.isnan(scores)
            auc = (
                roc_auc_score(made.member[target, of_group], rankdata(scores[of_group]))
                - 0.5
            )
            assert found.runs[target][group][name].value == pytest.approx(
                auc, abs=1e-12
            )
            assert abs(rows[name, group].value) < 4 * rows[name, group].null_error
    (few,) = attack_models([several_seeds(3, np.random.default_rng(9), n_splits=7)])
    assert "lira_advantage" not in {
        row.attack for row in few.rows
    }  # 21 models, but 7 splits


@pytest.mark.parametrize("block", [2048, 999])
def test_pooled_rows_are_those_of_each_groups_records_alone(views, block, monkeypatch):
    """Log odds of 0 predict the positive label; LiRA's scores are everybody's."""
    monkeypatch.setattr(scorers, "BLOCK", block)
    logit = (views[0].logits * (2.0 * views[0].labels - 1)).astype(np.float64)
    everybodys = lira_scores(logit, views[0].member)
    for one, attacked in zip(views, attack_models(views), strict=True):
        rows = {(row.attack, row.group): row for row in attacked.rows}
        assert (one.logits == 0).any()
        for g, name in enumerate(one.group_names):
            own = one.group == g
            member = one.member[:, own]
            confidence = confidence_of(logit[:, own])
            is_right = (one.logits >= 0) == (one.labels == 1)
            offline = lira_scores(logit[:, own], member, form=Form.OFFLINE)
            expected = {
                "paired_gap": paired_exposure(is_right[:, own].astype(float), member),
                "paired_confidence": paired_exposure(confidence, member),
                "lira_advantage": pooled_auc(everybodys[:, own], member),
                "lira_offline_advantage": pooled_auc(offline, member),
                "rmia_advantage": pooled_auc(rmia_scores(confidence, member), member),
            }
            n_others = member.sum(axis=0) - member
            unknown = ((n_others == 0) | (n_others == 9)).any(axis=0)
            expected["lira_advantage"].n_excluded = int(unknown.sum())
            for attack, wanted in expected.items():
                row = rows[attack, name]
                got = {field: getattr(row, field) for field in vars(wanted)}
                assert got == pytest.approx(vars(wanted), rel=1e-11), (attack, name)


def test_views_of_different_models_are_refused(views):
    other = replace(views[1], logits=views[0].logits.copy())
    with pytest.raises(ValueError, match="must share"):
        attack_models([views[0], other])


def test_processes_and_other_attributes_change_no_row(monkeypatch):
    few = partial(
        exposure_rows.check_with_coins, n_permutations=19
    )  # they take most of the time
    monkeypatch.setattr(exposure_rows, "check_with_coins", few)
    rng = np.random.default_rng(3)
    first = sweep(rng, n_models=8, n_records=300, missing=0.1)
    views = [
        first,
        replace(first, group=rng.integers(0, 3, 300), group_names=("x", "y", "z")),
    ]
    settings = [views, [replace(one, epsilon=1.0) for one in views]]
    tables = [
        counted([own[a] for own in settings], name) for a, name in enumerate("pq")
    ]
    together = add_exposures(tables, settings, FACTS)
    shared = add_exposures(
        tables,
        settings,
        FACTS,
        run=lambda tasks: run_tasks(tasks, n_processes=2, in_order=True),
    )
    for a, table in enumerate(tables):
        (alone,) = add_exposures([table], [[own[a]] for own in settings], FACTS)
        for other in (shared[a], alone):
            for name in ("pooled", "placebo", "not_computed", "notes", "runs"):
                found = getattr(other, name)
                expected = getattr(together[a], name)
                if name == "runs":
                    found, expected = (
                        [run.exposure for run in runs] for runs in (found, expected)
                    )
                assert found == expected


def test_an_attack_that_too_few_splits_allow_is_called_missing():
    scores = sweep(np.random.default_rng(0), n_models=2, n_records=60)
    missing = exposure_rows.not_computed([scores], attack_models([scores]))
    assert missing["lira_advantage"] == "it needs at least 8 splits, and there are 2"


def test_no_coin_and_attacks_from_elsewhere():
    scores = sweep(np.random.default_rng(1), n_models=9)
    found = release_of(scores, no_coin="people move", without={"auc_advantage"})
    assert found.not_computed.pop("tail").endswith("and there are 9")
    assert found.not_computed == {"placebo": "people move"}
    assert "auc_advantage" not in {row.attack for row in found.pooled_exposure}
    steps = []
    assert release_of(scores, on_step=steps.append).placebo
    assert steps == ["checking with made-up groups"]


def test_the_account_and_the_noise_are_of_the_attack_that_was_chosen():
    release = release_of(remembered(), no_coin="slow")
    for attack, words in (
        ("paired_gap", "paired gap"),
        ("paired_confidence", "paired confidence"),
        ("attack_advantage", "of 100 times"),
        ("lira_advantage", "of 100 times"),
    ):
        audit = pcer.audit(
            release, pcer.Plan(attack=attack, resamples=10, null_draws=10)
        )
        spotting = sentences.of(audit, audit.settings[0]).rows[0]
        assert words in " ".join(spotting.figures)
        rows = {
            row.group: row for row in release.pooled_exposure if row.attack == attack
        }
        for name, group in audit.settings[0].groups.items():
            # the mean of max(0, x) of a normal x with the error of the cost without
            # memorisation
            error = rows[name].null_error
            assert group.noise_level == pytest.approx(error / math.sqrt(2 * math.pi))
        assert f"Exposure: {ATTACK_KINDS[attack].label}" in resolution_table(audit).note


def test_what_is_measured_is_what_the_registry_lists():
    scores = sweep(np.random.default_rng(0), n_models=8, n_records=70_000)
    (found,) = attack_models([scores])
    per_run = {name for rows in found.runs[0].values() for name in rows}
    of_one, of_several = (
        {name for name, one in ATTACK_KINDS.items() if one.basis is basis}
        for basis in (Basis.MODEL, Basis.MODELS)
    )
    calibrated = {name for name, one in ATTACK_KINDS.items() if one.is_calibrated}
    assert per_run == of_one | calibrated
    assert {row.attack for row in found.rows} - of_one == of_several


def test_where_lira_finds_less_than_the_loss_attack_is_said():
    """In one group's noise no difference can be seen, and everybody's loss can."""
    rng = np.random.default_rng(5)
    scores = sweep(rng, n_models=12, n_records=800, shift=0.5, epsilon=0.5)
    assert weaker_notes([scores], attack_models([scores])) == []
    fixed = 3.0 * scores.member + rng.normal(0, 0.1, scores.member.shape)
    noise = rng.normal(0, 200, scores.member.shape) * (
        rng.random(scores.member.shape) < 0.2
    )
    logits = np.where(
        scores.group == 1, (fixed + noise) * (2 * scores.labels - 1), scores.logits
    )
    scores = replace(scores, logits=logits)
    (note,) = weaker_notes([scores], attack_models([scores]))
    assert note.startswith(
        "LiRA finds less than the plain loss attack and understates exposure of 'b' at "
        "ε = 0.5 (by "
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member": np.ones((3, 4), dtype=bool)}, "must both be"),
        ({"group": np.array([0, 1, 2, 0])}, "group must hold a position"),
        ({"labels": np.array([0, 1, 2, 1])}, "labels must be 0 and 1"),
        ({"logits": np.array([[np.inf, 0, 0, 0]] * 2)}, "logits must be finite"),
        ({"member": np.ones((2, 4))}, "member must be boolean"),
        ({"reference": np.zeros((1, 4))}, "reference must be finite"),
        ({"predicted": np.zeros((2, 4))}, "predicted must be boolean"),
        ({"own": {"mine": np.zeros((1, 4))}}, "mine must be"),
    ],
)
def test_bad_scores_get_one_clear_sentence(change, message):
    good = {
        "logits": np.zeros((2, 4)),
        "labels": np.array([0, 1, 0, 1]),
        "member": np.ones((2, 4), dtype=bool),
        "group": np.array([0, 1, 0, -1]),
        "group_names": ("a", "b"),
    }
    SettingScores(**good)
    with pytest.raises(ValueError, match=message):
        SettingScores(**{**good, **change})
