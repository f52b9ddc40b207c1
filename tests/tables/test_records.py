"""Records compared with themselves from a table of many models: what a sweep would have found."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import pcer
from pcer.attacks import BudgetScores, attack_models
from pcer.attacks.single import log_odds
from pcer.cli import app as cli
from pcer.errors import InputError
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import DisclosureRule
from pcer.tables import records, release
from pcer.tables.release import releases_from_table
from pcer.tables.source import PredictionColumns
from tests.worlds.sweeps import scaled_logits, splits

N_RECORDS, N_MODELS = 240, 9
COLUMNS = PredictionColumns(
    attributes=("sex", "age"),
    y_pred=None,
    y_score="p",
    seed="seed",
    epsilon="epsilon",
    record_id="id",
)
FACTS = ReleaseFacts(
    disclosure=DisclosureRule(public=True),
    dataset="made",
    outcome="harm",
    split_kind="random",
    positive_label="yes",
)
SEXES, AGES = ("f", "m"), ("old", "young", None)


def people(rng):
    """Labels, and groups as positions; every tenth person's age is not known."""
    sex, age = rng.integers(0, 2, N_RECORDS), rng.integers(0, 2, N_RECORDS)
    age[::10] = 2
    return np.arange(N_RECORDS) // 3 % 2, sex, age


def table(n_models=N_MODELS, *, budgets=(1.0, math.inf), seed=0):
    """Rows in no order; ids are texts that sort otherwise than the records do."""
    rng = np.random.default_rng(seed)
    labels, sex, age = people(rng)
    parts = []
    for epsilon in budgets:
        member = splits(labels, n_models, rng)
        shift = 0.8 if math.isinf(epsilon) else 0.0
        logit = scaled_logits(member, rng, shift=shift, labels=labels) * (2 * labels - 1)
        for s in range(n_models):
            parts.append(
                pd.DataFrame(
                    {
                        "id": [f"person {k}" for k in range(N_RECORDS)],
                        "epsilon": epsilon,
                        "seed": s + 5,
                        "split": np.where(member[s], "train", "test"),
                        "y_true": np.where(labels == 1, "yes", "no"),
                        "p": expit(logit[s]),
                        "sex": np.array(SEXES)[sex],
                        "age": np.array(AGES, dtype=object)[age],
                    }
                )
            )
    return pd.concat(parts).sample(frac=1, random_state=1)


@pytest.fixture(scope="module")
def frame():
    return table()


def expected(frame, epsilon, codes, names):
    """The same through arrays: a pivot of the table."""
    part = frame[frame.epsilon == epsilon]
    wide = part.pivot_table(index="seed", columns="id", values="p")
    inside = part.assign(m=part.split == "train").pivot_table(
        index="seed", columns="id", values="m", aggfunc="first"
    )
    person = part.drop_duplicates("id").set_index("id").loc[wide.columns]
    scores = BudgetScores(
        logits=log_odds(wide.to_numpy()),
        labels=(person.y_true == "yes").to_numpy().astype(np.int64),
        member=inside.to_numpy().astype(bool),
        group=codes(person),
        group_names=names,
        epsilon=epsilon,
    )
    return attack_models([scores])[0].rows


def codes_of(column, names):
    return lambda person: np.array([names.index(v) if v in names else -1 for v in person[column]])


def test_pooled_exposures_are_those_of_the_arrays(frame):
    found = releases_from_table(frame, COLUMNS, FACTS)
    for attribute, names in (("sex", SEXES), ("age", AGES[:2])):
        rows = [
            row
            for epsilon in (1.0, math.inf)
            for row in expected(frame, epsilon, codes_of(attribute, names), names)
        ]
        assert len(rows) == 2 * 2 * 7
        for one, other in zip(found[attribute].pooled_exposure, rows, strict=True):
            assert (one.epsilon, one.group, one.proxy) == (other.epsilon, other.group, other.proxy)
            assert one.value == pytest.approx(other.value, abs=1e-12)
            assert one.standard_error == pytest.approx(other.standard_error, abs=1e-12)
            assert one.benefit_covariance == pytest.approx(other.benefit_covariance, abs=1e-12)
            assert (one.n_records, one.n_excluded) == (other.n_records, other.n_excluded)
    crossed = found["sex & age"]
    assert {row.group for row in crossed.pooled_exposure} == set(crossed.subject.groups)
    assert crossed.subject.groups == ["f & old", "f & young", "m & old", "m & young"]


def test_the_audit_takes_such_a_cost(frame):
    release = releases_from_table(frame, COLUMNS, FACTS)["sex"]
    plan = pcer.Plan(cost="paired_confidence", resamples=20, null_draws=10)
    quiet, loud = pcer.audit(release, plan).budgets
    assert not any(group.resolved for group in quiet.groups.values())
    assert all(group.resolved for group in loud.groups.values())
    assert loud.n_splits == N_MODELS


def test_splits_are_named_by_who_was_trained_on(frame):
    release = releases_from_table(frame, replace(COLUMNS, attributes=("sex",)), FACTS)["sex"]
    other = pcer.release_from_predictions(
        frame["y_true"],
        y_score=frame["p"],
        sensitive_features=frame["sex"],
        attribute="sex",
        split=frame["split"],
        split_kind="random",
        dataset="made",
        outcome="harm",
        positive_label="yes",
        epsilon=frame["epsilon"],
        seed=frame["seed"],
        record_id=frame["id"],
        public_data=True,
    )
    assert [run.split for run in release.runs] == [run.split for run in other.runs]
    assert len({run.split for run in release.runs}) == 2 * N_MODELS
    given = frame.assign(split_id=frame["epsilon"].astype(str) + " " + frame["seed"].astype(str))
    named = releases_from_table(given, COLUMNS, FACTS)["sex"]
    assert named.runs[0].split == "1.0 5"


def test_few_models_give_paired_costs_and_say_why():
    found = releases_from_table(table(3), COLUMNS, FACTS)["sex"]
    single = {"attack_advantage", "auc_advantage"}
    proxies = {row.proxy for row in found.pooled_exposure}
    assert proxies == {*single, "paired_gap", "paired_confidence"}
    assert [
        "at least 8 seeds per budget and there are 3" in note for note in found.subject.notes
    ].count(True) == 1
    alone = releases_from_table(table(1), COLUMNS, FACTS)["sex"]
    assert {row.proxy for row in alone.pooled_exposure} == single


def test_coin_flips_are_those_of_the_arrays(frame):
    """Rows for every budget, cost and pair; attributes and their crossing alike."""
    said = []
    found = releases_from_table(frame, COLUMNS, FACTS, on_step=said.append)
    assert said == ["checking with coin flips"]
    for name, n_pairs in (("sex", 1), ("age", 1), ("sex & age", 3)):
        assert len(found[name].placebo) == 2 * 8 * n_pairs
        assert {row.n_draws for row in found[name].placebo} == {200}
        assert found[name].not_computed == {}
    again = releases_from_table(frame.iloc[::-1], COLUMNS, FACTS)
    assert again["sex"].placebo == found["sex"].placebo


def test_coin_flips_need_one_set_of_records_and_a_random_split(frame, monkeypatch):
    other = frame.copy()
    other.loc[other["epsilon"] == 1.0, "id"] += " elsewhere"
    mixed = releases_from_table(other, COLUMNS, FACTS)["sex"]
    assert mixed.placebo == []
    assert mixed.not_computed == {"placebo": "the budgets were scored on different records"}
    chosen = releases_from_table(frame, COLUMNS, replace(FACTS, split_kind="other"))["sex"]
    assert (chosen.placebo, chosen.not_computed) == ([], {})
    monkeypatch.setattr(release, "MOST_ROWS", 4_000)
    large = releases_from_table(frame, COLUMNS, FACTS)["sex"]
    assert "up to 4,000 rows, not 4,320" in large.not_computed["placebo"]


def test_somebody_elses_score_keeps_its_name(frame):
    """A membership score is an AUC of its own: no row of ours stands beside it by that name."""
    given = replace(COLUMNS, membership_score="guess")
    one = frame.assign(guess=np.arange(len(frame)) % 17)
    found = releases_from_table(one, given, FACTS)["sex"]
    pooled = {row.proxy for row in found.pooled_exposure}
    assert "auc_advantage" not in pooled
    assert "attack_advantage" in pooled
    assert {row.proxy for row in found.placebo} == {*pooled, "overfitting_gap"}
    assert "auc_advantage" in found.runs[0].groups["f"].exposure


def test_probabilities_of_0_and_1_have_log_odds():
    odds = log_odds(np.array([0.0, 1.0, 0.5, 1 - 2.0**-53]))
    assert np.isfinite(odds).all()
    assert odds[0] == pytest.approx(-odds[1])
    assert odds[2] == 0
    assert odds[1] == odds[3] > 36
    frame = table(4)
    frame["p"] = frame["p"].round(1)
    assert ((frame["p"] == 0) | (frame["p"] == 1)).any()
    assert releases_from_table(frame, COLUMNS, FACTS)["sex"].pooled_exposure


def changed(frame, **columns):
    """The table with the first rows of one model changed."""
    frame = frame.sort_values(["epsilon", "seed", "id"]).reset_index(drop=True)
    for name, values in columns.items():
        frame.loc[: len(values) - 1, name] = values
    return frame


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.iloc[1:], "models of epsilon 1 have 239 to 240 rows; leave out records"),
        (lambda f: changed(f, id=[None]), "column 'id' is missing in 1 rows; fill it in"),
        (lambda f: changed(f, id=["person 1"]), "names 1 records more than once in one model"),
        (lambda f: changed(f, id=["somebody"]), "models of epsilon 1 differ in "),
        (lambda f: changed(f, y_true=["yes", "yes", "yes"]), "column 'y_true' changes from model"),
        (lambda f: changed(f, sex=["m", "m", "m", "m"]), "column 'sex' changes from model to"),
        (lambda f: f.drop(columns="id"), "no column 'id'"),
    ],
)
def test_bad_tables_are_explained(frame, change, sentence):
    whole = frame.sort_values(["epsilon", "seed", "id"]).reset_index(drop=True)
    with pytest.raises(InputError) as caught:
        releases_from_table(change(whole), COLUMNS, FACTS)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "somebody" not in str(caught.value)  # an error is not about a person


def test_bad_requests_are_explained(frame, monkeypatch):
    for wrong in ({"y_pred": "y_pred", "y_score": None}, {"threshold": 0.3}):
        with pytest.raises(InputError, match=r"needs probabilities \(y_score\), cut at a"):
            replace(COLUMNS, **wrong)
    monkeypatch.setattr(records, "MOST_ROWS", 100)
    with pytest.raises(InputError, match=r"epsilon 1 has 2,160 rows, .* take fewer seeds"):
        releases_from_table(frame, COLUMNS, FACTS)


def test_from_the_command_line(frame, tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["pcer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, capsys.readouterr().err

    frame.assign(epsilon=frame["epsilon"].replace(math.inf, np.nan)).to_csv(
        tmp_path / "p.csv", index=False
    )
    request = ["release", tmp_path / "p.csv", "--attribute", "sex", "--outcome", "harm"]
    request += ["--split-kind", "random", "--positive", "yes", "--score", "p"]
    out = tmp_path / "p.release.json"
    code, told = run(*request, "--record-id", "nobody", "--out", out)
    assert code == 2
    assert "p.csv has no column 'nobody'" in told
    assert not out.exists()
    code, told = run(*request, "--record-id", "id", "--out", out)
    assert code == 0, told
    written = pcer.read_release(out)
    assert len(written.pooled_exposure) == 2 * 2 * 7
    assert len(written.placebo) == 2 * 8
