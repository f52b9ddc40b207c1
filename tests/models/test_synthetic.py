"""Releases of synthetic tables: what is said, what is refused, and the numbers in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pcer
from pcer.attacks.accuracy_loss import accuracy_losses
from pcer.attacks.attack import attack_models
from pcer.attacks.scorers import SettingScores
from pcer.attacks.synthetic import own_auc
from pcer.auditing import sentences
from pcer.models.synthetic import release_from_synthesizer, release_from_synthetic

pandas = pytest.importorskip("pandas")
linear_model = pytest.importorskip("sklearn.linear_model")

N = 300


def people(seed: int = 0, n: int = N) -> Any:
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"age": rng.normal(size=n), "pay": rng.normal(size=n)})
    frame["job"] = rng.choice(["cook", "nurse", "smith"], size=n)
    frame["is_paid"] = (frame.pay + rng.normal(size=n) > 0).astype(int)
    return frame


def groups(seed: int = 1, n: int = N) -> dict[str, Any]:
    return {"side": np.where(np.random.default_rng(seed).random(n) < 0.4, "l", "r")}


def blurred(part: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    table = part.iloc[rng.integers(len(part), size=len(part))].reset_index(drop=True)
    for name in ("age", "pay"):
        table[name] += 0.3 * rng.normal(size=len(table))
    return table


def copied(part: Any, seed: int) -> Any:
    return part


def released(make: Any = blurred, X: Any = None, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "sensitive_features": groups(),
        "n_splits": 8,
        "random_state": 0,
        "progress": False,
        "disclosure": {"public_data": True},
    }
    X = people() if X is None else X
    return release_from_synthesizer(make, X, **(arguments | changes))


@pytest.fixture(scope="module")
def of_copies() -> Any:
    return released({"copied": copied, "blurred": blurred})


def values(release: Any, attack: str, model: str | None = None) -> list[float]:
    return [
        row.value
        for row in release.pooled_exposure
        if row.attack == attack and row.model == model
    ]


def test_a_full_copy_is_found_and_its_copies_are_counted(of_copies: Any) -> None:
    for attack in ("own_auc_advantage", "rmia_advantage"):
        assert min(values(of_copies, attack, "copied")) > 0.35
        assert 0.02 < min(values(of_copies, attack, "blurred")) < 0.35
    shares = {
        (row.model, row.part): row.share for row in of_copies.copies if row.group == "l"
    }
    assert shares["copied", "train"] == 1
    assert shares["copied", "test"] == 0
    assert shares["blurred", "train"] == 0


def test_a_table_has_its_own_attack_and_neither_gap_nor_ratio(of_copies: Any) -> None:
    attacks = {row.attack for row in of_copies.pooled_exposure}
    assert {"own_auc_advantage", "rmia_advantage", "lira_advantage"} < attacks
    assert not attacks & {"paired_confidence", "paired_gap", "overfitting_gap"}
    assert of_copies.subject.outcome is None
    assert of_copies.subject.published == "synthetic_table"
    found = pcer.audit(of_copies)
    assert [one.attack for one in found.attacks][:2] == [
        "rmia_advantage",
        "own_auc_advantage",
    ]
    assert found.stronger_attack is None
    assert {pair.ratio.answer for one in found.settings for pair in one.pairs} <= {
        "not_given",
        "cannot_tell",
        "no_difference_shown",
    }


def test_the_page_of_a_table_has_no_numbers_of_the_paper(
    of_copies: Any, tmp_path: Any
) -> None:
    pcer.audit(of_copies).save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "the table was made from" in page
    assert 'class="paper"' not in page
    assert "-floors" not in page
    assert "Do the ratios differ?" not in page
    assert "PCER; up to" not in page


def test_six_answers_are_about_a_table(of_copies: Any) -> None:
    found = pcer.audit(of_copies)
    rows = sentences.of(found, found.told).rows
    assert "the table was made from" in rows[0].question
    assert "Verbatim in the table" in rows[0].text
    assert "100.0 (l)" in rows[0].text
    assert "own AUC" in rows[1].text
    assert "no model was trained on the table" in rows[2].answer
    assert "no model was trained on the table" in rows[3].answer
    assert "there are no predictions" in rows[4].answer
    said = " ".join([found.headline, *(row.text for row in rows)])
    assert "training data" not in said
    assert "behind the table" in said or "with the table" in said


def test_models_keep_paired_confidence() -> None:
    release = pcer.release_from_estimator(
        linear_model.LogisticRegression(),
        people()[["age", "pay"]],
        people().is_paid,
        sensitive_features=groups(),
        outcome="benefit",
        n_splits=8,
        progress=False,
        disclosure={"public_data": True},
    )
    attacks = {row.attack for row in release.pooled_exposure}
    assert "paired_confidence" in attacks
    assert "own_auc_advantage" not in attacks
    assert "own_auc_advantage" not in release.not_computed


def test_own_auc_of_a_group_is_its_peoples_mean() -> None:
    rng = np.random.default_rng(3)
    member = rng.random((9, 60)) < 0.5
    member[:, 0] = True
    signals = rng.normal(size=(9, 60)) + member
    group = np.arange(60) % 2
    for labels in (np.ones(60, dtype=np.int64), rng.integers(2, size=60)):
        setting = SettingScores(
            logits=np.where(labels == 1, signals, -signals),
            labels=labels,
            member=member,
            group=group,
            group_names=("l", "r"),
            of_tables=True,
        )
        (found,) = attack_models([setting])
        rows = [row for row in found.rows if row.attack == "own_auc_advantage"]
        each = own_auc(signals, member)
        for place, row in enumerate(rows):
            of_group = each[group == place]
            assert row.value == pytest.approx(np.nanmean(of_group))
            known = of_group[~np.isnan(of_group)]
            error = known.std(ddof=1) / math.sqrt(len(known))
            assert row.null_error == pytest.approx(error)
            assert row.standard_error is not None
            assert row.standard_error >= error * (1 - 1e-12)
            assert row.n_excluded == int(np.isnan(of_group).sum())


@pytest.fixture(scope="module")
def of_task() -> Any:
    model = linear_model.LogisticRegression()
    return released(
        {"copied": copied, "blurred": blurred},
        people()[["age", "pay", "is_paid"]],
        target="is_paid",
        outcome="benefit",
        model=model,
    )


def test_the_real_half_has_outcomes_alone(of_task: Any) -> None:
    assert {run.model for run in of_task.runs} == {"copied", "blurred", "real"}
    assert {row.model for row in of_task.pooled_exposure} == {"copied", "blurred"}
    runs = [run for run in of_task.runs if run.model in ("copied", "real")]
    tables = {(run.seed, run.model): run.groups for run in runs}
    for seed in range(8):
        assert tables[seed, "copied"]["l"].test == tables[seed, "real"]["l"].test
    found = pcer.audit(of_task)
    assert found.attack == "rmia_advantage"
    assert {setting.model for setting in found.settings} == {
        "copied",
        "blurred",
        "real",
    }
    (real,) = [one for one in found.settings if one.model == "real"]
    assert "outcomes alone" in sentences.of(found, real).rows[0].text
    (other,) = [one for one in found.settings if one.model == "blurred"]
    assert "right less often" in sentences.of(found, other).rows[2].text


def test_a_copy_loses_no_accuracy(of_task: Any) -> None:
    loss = {(row.model, row.group): row.value for row in of_task.accuracy_loss}
    assert loss["copied", "l"] == loss["copied", "r"] == 0
    assert abs(loss["blurred", "l"]) < 0.1


def test_losses_are_those_of_loops() -> None:
    rng = np.random.default_rng(5)
    right, real, member = rng.random((3, 6, 40)) < 0.6
    chosen = np.arange(40) < 25
    found = accuracy_losses(right, real, member).of_group(chosen)
    lost = []
    for split in range(6):
        for person in range(25):
            if not member[split, person]:
                lost.append(int(real[split, person]) - int(right[split, person]))
    assert found.value == pytest.approx(np.mean(lost))
    by_person = np.zeros(25)
    for split in range(6):
        for person in range(25):
            if not member[split, person]:
                difference = int(real[split, person]) - int(right[split, person])
                by_person[person] += difference - found.value
    of_people = math.sqrt((by_person**2).sum()) / len(lost)
    assert found.standard_error >= of_people * (1 - 1e-12)
    assert found.standard_error < 3 * of_people


def test_duplicates_constants_and_a_level_of_one_half_only() -> None:
    X = people()
    X = pandas.concat([X.iloc[:60]] * 5, ignore_index=True)
    X["one"] = 7
    X["none"] = None
    X.loc[3, "job"] = "pilot"
    X.loc[5, "age"] = None
    release = released(copied, X)
    rows = [row for row in release.pooled_exposure if row.attack == "own_auc_advantage"]
    assert len(rows) == 2
    assert all(np.isfinite(row.value) for row in rows)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "numpy"])
def test_tables_of_other_libraries_give_the_same(library: str) -> None:
    X = people()[["age", "pay"]]

    def shifted(part: Any, seed: int) -> Any:
        return {"age": column(part, 0) + 0.1, "pay": column(part, 1)}

    def column(part: Any, place: int) -> Any:
        if isinstance(part, np.ndarray):
            return part[:, place]
        return np.asarray(part["age" if place == 0 else "pay"])

    expected = values(released(shifted, X, n_splits=2), "own_auc_advantage")
    if library == "numpy":
        other = X.to_numpy()
    elif library == "polars":
        other = pytest.importorskip("polars").from_pandas(X)
    else:
        other = pytest.importorskip("pyarrow").Table.from_pandas(X)
    assert values(released(shifted, other, n_splits=2), "own_auc_advantage") == expected


def test_names_that_are_numbers_are_budgets() -> None:
    release = released({0.5: blurred, None: copied}, n_splits=2)
    assert {(run.model, run.epsilon) for run in release.runs} == {
        (None, 0.5),
        (None, None),
    }


def test_a_store_keeps_finished_tables(tmp_path: Any) -> None:
    calls = []

    def counted(part: Any, seed: int) -> Any:
        calls.append(seed)
        return copied(part, seed)

    first = released(counted, n_splits=2, store=tmp_path)
    again = released(counted, n_splits=2, store=tmp_path)
    assert len(calls) == 2
    assert again.to_json() == first.to_json()
    task = {
        "target": "is_paid",
        "outcome": "benefit",
        "model": linear_model.LogisticRegression(),
    }
    X = people()[["age", "pay", "is_paid"]]
    for strength in (1.0, 0.001):
        task["model"] = linear_model.LogisticRegression(C=strength)
        kept = released(blurred, X, n_splits=2, store=tmp_path / "task", **task)
        assert kept.to_json() == released(blurred, X, n_splits=2, **task).to_json()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda part, seed: part.iloc[:0], "failed in split 1.*is empty"),
        (lambda part, seed: part.drop(columns="age"), "lacks age"),
        (lambda part, seed: None, "must be a table"),
        (lambda part, seed: part.assign(age="old"), "age.*must hold numbers"),
        (lambda part, seed: 1 / 0, "division by zero"),
        (lambda part: part, "make must be a function"),
        (dict, "make must be a function"),
        ({}, "empty dict"),
    ],
)
def test_a_wrong_maker_is_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(pcer.InputError, match=sentence) as caught:
        released(make, n_splits=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"target": "is_paid"}, "outcome is missing"),
        ({"outcome": "benefit"}, "target is missing"),
        (
            {"target": "wage", "outcome": "harm", "model": object()},
            "target names 'wage'",
        ),
        ({"sensitive_features": "colour"}, "sensitive_features names 'colour'"),
        ({"X": {"age": [1, 2]}}, "X must be a table"),
        ({"test_size": 2}, "test_size"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(pcer.InputError, match=sentence):
        released(**changes)


def test_a_table_with_one_label_teaches_nothing() -> None:
    def one_label(part: Any, seed: int) -> Any:
        return part.assign(is_paid=1)

    with pytest.raises(pcer.InputError, match="one value of 'is_paid' only"):
        released(
            one_label,
            people()[["age", "pay", "is_paid"]],
            target="is_paid",
            outcome="benefit",
            model=linear_model.LogisticRegression(),
            n_splits=1,
        )


def test_copies_of_private_people_are_counted_in_steps() -> None:
    release = released(
        copied,
        people(n=400),
        sensitive_features=groups(n=400),
        n_splits=2,
        disclosure={},
        random_state=None,
    )
    assert {row.share for row in release.copies if row.part == "train"} == {1.0}


def one_table(X: Any, member: Any, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "member": member,
        "split_kind": "random",
        "sensitive_features": groups(),
        "disclosure": {"public_data": True},
    }
    table = changes.pop("table", None)
    if table is None:
        table = X[member].assign(age=lambda part: part.age + 0.02)
    return release_from_synthetic(table, X, **(arguments | changes))


def half(seed: int = 4, n: int = N) -> Any:
    return np.random.default_rng(seed).permutation(n) < n // 2


def test_one_finished_table_tells_who_it_was_made_from() -> None:
    X = people()
    release = one_table(X, half())
    assert {row.attack for row in release.pooled_exposure} == {"auc_advantage"}
    assert min(row.value for row in release.pooled_exposure) > 0.2
    assert {row.share for row in release.copies} == {0.0}
    found = pcer.audit(release)
    assert found.told.is_detected
    assert "has the table" in sentences.of(found, found.told).rows[0].text
    of_others = one_table(X, half(), table=people(seed=9))
    assert max(abs(row.value) for row in of_others.pooled_exposure) < 0.15
    given = one_table(X, half(), split_kind="other")
    assert pcer.audit(given).told.level.value == "cannot_tell"


def test_copies_in_a_finished_table_are_counted() -> None:
    X = people()
    member = half()
    release = one_table(X, member, table=X[member])
    shares = {(row.group, row.part): row.share for row in release.copies}
    assert shares == {
        ("l", "train"): 1.0,
        ("r", "train"): 1.0,
        ("l", "test"): 0.0,
        ("r", "test"): 0.0,
    }


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (None, "live closest together"),
        (np.ones(N, dtype=bool), "live closest together"),
        (np.array(["in", "out"] * (N // 2)), "member must hold True"),
        (half()[:-1], "one length"),
    ],
)
def test_without_held_out_people_nothing_is_said(member: Any, sentence: str) -> None:
    with pytest.raises(pcer.InputError, match=sentence):
        one_table(people(), member, table=people(seed=9))


def test_of_very_many_people_a_random_part_is_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pcer.models.synthetic.MOST_SCORED", 200)
    monkeypatch.setattr("pcer.models.synthetic.N_SCORED", 150)
    release = released(blurred, n_splits=2)
    assert release.subject.n_records == 150
    assert any("random 150 were scored" in note for note in release.subject.notes)
    other = one_table(people(), half())
    assert other.subject.n_records == 150
