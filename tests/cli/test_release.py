"""``pcer release`` and ``pcer datasets`` as a user meets them."""

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest

from pcer import read_release
from pcer.cli import train as cli_train
from pcer.data import TablePlan, read_table
from tests.commands import passed, refusal

REQUEST = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random")


def people(n=400, **changes):
    rng = np.random.default_rng(5)
    table = {
        "y_true": rng.integers(0, 2, n),
        "y_pred": rng.integers(0, 2, n),
        "split": np.where(rng.random(n) < 0.7, "train", "test"),
        "sex": rng.choice(["F", "M"], n),
    }
    return pd.DataFrame({**table, **changes})


def test_every_format_gives_the_same_release_and_stdout_holds_it_alone(tmp_path):
    frame = people()
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "b.csv", index=False)
    frame.to_csv(tmp_path / "c.csv", index=False, sep=";", encoding="utf-8-sig")
    for name in ("a.parquet", "b.csv", "c.csv"):
        out = tmp_path / f"{name}.release.json"
        done = passed("release", tmp_path / name, *REQUEST, "--dataset", "x", "--out", out)
        assert done.stderr == f"{out}: x (sex), 1 model, groups F, M.\n"
    texts = {path.read_text() for path in tmp_path.glob("*.release.json")}
    assert len(texts) == 1
    done = passed("release", tmp_path / "b.csv", *REQUEST, "--out", "-", "--groups", "M,F")
    assert done.stderr == ""
    assert json.loads(done.stdout)["subject"]["groups"] == ["M", "F"]


def test_several_attributes_give_several_files(tmp_path):
    race = np.random.default_rng(0).choice(["x", "y"], 1_000)
    people(1_000, race=race, seed=7, epsilon=2.0).to_parquet(tmp_path / "p.parquet")
    more = ("--attribute", "race", "--dp-delta", "1e-5", "--note", "A note.")
    request = ("release", tmp_path / "p.parquet", *REQUEST, *more, "--out")
    passed(*request, tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["p.race.release.json", "p.sex-race.release.json", "p.sex.release.json"]
    release = read_release(tmp_path / "new" / "p.sex-race.release.json")
    assert release.subject.groups == ["F & x", "F & y", "M & x", "M & y"]
    assert release.subject.notes == ["A note."]
    run = release.runs[0]
    assert (run.epsilon, run.seed, run.dp_delta) == (2.0, 7, 1e-5)
    (tmp_path / "file").touch()
    assert "give --out a folder" in refusal(*request, "-")
    assert "cannot be written" in refusal(*request, tmp_path / "file/x")


MANY = people(sex=[f"g{i}" for i in range(400)])
BAD = {
    "empty": ("", (), "is empty; a table needs a header"),
    "header": ("y_true,y_pred,split,sex\n", (), "is empty; give at least one record"),
    "one-group": (people(sex="F"), (), "attribute 'sex' has one group only"),
    "three-labels": (people(y_true=[0, 1, 2, 1] * 100), (), "must have two values between them"),
    "many-groups": (MANY, (), "'sex' has more than 200 values"),
    "mixed": (people(y_true=[0, "one"] * 200), (), "must have two values between them"),
    "no-column": (people().drop(columns="sex"), (), "has no column 'sex'; it has: y_true, y_pred"),
    "logits": (people(p=[-3.0, 3.0] * 200), ("--score", "p"), "must be probabilities in [0, 1]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_one_sentence_and_exit_2(tmp_path, name):
    content, more, sentence = BAD[name]
    path = tmp_path / f"{name}.csv"
    path.write_text(content if isinstance(content, str) else content.to_csv(index=False))
    told = refusal("release", path, *REQUEST, *more, "--out", tmp_path)
    assert sentence in told
    assert str(path) in told
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["--attribute", "--outcome", "--split-kind"])
def test_what_must_be_said_is_asked_for(name):
    at = REQUEST.index(name)
    assert name in passed("release", "p.csv", *REQUEST[:at], *REQUEST[at + 2 :], code=2).stderr
    if name != "--attribute":
        assert "maybe" in passed("release", "p.csv", *REQUEST, name, "maybe", code=2).stderr


def test_without_the_trainers_packages_one_sentence_says_what_to_install(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "ibis" else find(name)
    )
    for verb in (("datasets",), ("release", "p.parquet", *REQUEST)):
        assert refusal(*verb) == (
            "pcer: this verb needs ibis, which is not installed; in a clone of pcer run: "
            'pip install ".[train]"\n'
        )


def test_an_own_table_is_shown_column_by_column():
    frame = people().drop(columns="split").assign(x=np.arange(400) % 7, where="here")
    plan = TablePlan(label="y_true", positive="1", attributes=("sex",), outcome="benefit")
    table = cli_train.account_table(read_table(frame, plan, name="mine"))
    assert table.title == "Columns of mine"
    assert table.rows == (
        ("y_true", "label", "2", "0", "positive is 1"),
        ("y_pred", "number", "2", "0", ""),
        ("sex", "protected attribute", "2", "0", "not used as a feature"),
        ("x", "number", "7", "0", ""),
        ("where", "left out", "1", "0", "constant"),
    )


def test_datasets_are_listed_with_sizes_licences_and_a_warning():
    done = passed("datasets")
    for part in ("46,033", "6,172", "50,000", "CC BY 4.0", "bundled", "did not consent", "harm"):
        assert part in done.stdout
    rows = {row["name"]: row for row in json.loads(passed("datasets", "--json", "-").stdout)}
    assert rows["compas"]["attributes"]["race"] == ["Other", "African-American"]
    assert rows["compas"]["outcome"] == "harm"
