"""``pcer release`` and ``pcer datasets`` as a user meets them."""

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest

from pcer import read_release
from pcer.cli.release import account_table
from pcer.data import TablePlan, read_table
from pcer.errors import printable
from pcer.report.formats.terminal import terminal_text
from tests.commands import passed, refusal

REQUEST = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random")


def people(n=400, **changes):
    rng = np.random.default_rng(5)
    table = {name: rng.integers(0, 2, n) for name in ("y_true", "y_pred")}
    table["split"] = np.where(rng.random(n) < 0.7, "train", "test")
    return pd.DataFrame({**table, "sex": rng.choice(["F", "M"], n), **changes})


def test_every_format_gives_the_same_release_and_stdout_holds_it_alone(tmp_path):
    frame = people()
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "b.csv", index=False)
    frame.to_csv(tmp_path / "c.csv", index=False, sep=";", encoding="utf-8-sig")
    for name in ("a.parquet", "b.csv", "c.csv"):
        out = tmp_path / f"{name}.release.json"
        done = passed(
            "release", tmp_path / name, *REQUEST, "--dataset", "x", "--out", out
        )
        first, *leaving = done.stderr.splitlines()
        assert first == f"{out}: x (sex), 1 model."
        assert leaving[0] == "  Written by sex: 2 tables of F, M."
        assert len(leaving) <= 6
    texts = {path.read_text() for path in tmp_path.glob("*.release.json")}
    assert len(texts) == 1
    done = passed(
        "release", tmp_path / "b.csv", *REQUEST, "--out", "-", "--groups", "M,F"
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["subject"]["groups"] == ["M", "F"]


def test_several_attributes_give_several_files(tmp_path):
    race = np.random.default_rng(0).choice(["x", "y"], 1_000)
    people(1_000, race=race, seed=7, epsilon=2.0).to_parquet(tmp_path / "p.parquet")
    more = ("--attribute", "race", "--attribute", "sex & race", "--dp-delta", "1e-5")
    more += ("--note", "A note.")
    request = ("release", tmp_path / "p.parquet", *REQUEST, *more, "--out")
    passed(*request, tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new").glob("*.json"))
    assert names == [
        "p.race.release.json",
        "p.sex-race.release.json",
        "p.sex.release.json",
    ]
    release = read_release(tmp_path / "new" / "p.sex-race.release.json")
    assert release.subject.groups == ["F & x", "F & y", "M & x", "M & y"]
    assert release.subject.notes == ["A note."]
    run = release.runs[0]
    assert (run.epsilon, run.seed, run.dp_delta) == (2.0, 7, 1e-5)
    (tmp_path / "file").touch()
    assert "give --out a folder" in refusal(*request, "-")
    assert "cannot be written" in refusal(*request, tmp_path / "file/x")


def test_nobody_is_found_by_subtracting_files_of_a_folder(tmp_path):
    rng = np.random.default_rng(1)
    race = rng.choice(["x", "y"], 2_000).astype(object)
    frame = people(2_000, race=race, own=np.where(race == "x", "in my own words", race))
    frame.loc[frame.index[frame["own"] == "in my own words"][1:], "own"] = "z"
    frame["race"] = np.where(frame["sex"] == "F", race, "z")  # men have no other
    frame.loc[frame.index[frame["sex"] == "M"][:3], "race"] = "y"
    frame.to_csv(tmp_path / "p.csv", index=False)
    request = ("release", tmp_path / "p.csv", *REQUEST, "--out", tmp_path / "out")
    both = passed(*request, "--attribute", "race")
    assert "not written: attribute 'race'" in both.stderr  # men less z are three people
    assert [path.name for path in (tmp_path / "out").glob("*.json")] == [
        "p.sex.release.json"
    ]
    release = read_release(tmp_path / "out" / "p.sex.release.json")
    assert "fewer than two groups" in release.disclosure.not_written["race"]
    alone = (
        "release",
        tmp_path / "p.csv",
        *REQUEST[2:],
        "--out",
        tmp_path / "out",
        "--attribute",
    )
    assert "attribute 'race': fewer than two groups" in refusal(*alone, "race")
    frame.assign(id=range(len(frame))).to_csv(tmp_path / "p.csv", index=False)
    assert "cannot be checked with" in refusal(*alone, "race", "--record-id", "id")
    file = tmp_path / "out" / "p.sex.release.json"  # of any other name
    file = file.rename(file.with_name("sex.json"))
    assert "attribute 'race': fewer than two groups" in refusal(*alone, "race")
    file.rename(file.with_name("p.sex.release.json"))
    passed(*alone, "own")  # which tells nothing beside the other
    text = (tmp_path / "out" / "p.own.release.json").read_text()
    assert "1 small group" in text
    assert "my own words" not in text
    frame.drop(columns="sex").assign(own=1).to_csv(tmp_path / "p.csv", index=False)
    assert "'sex' exists already, and the table has no such column" in refusal(
        *alone, "race"
    )


def test_a_release_that_is_there_already_may_have_names_for_readers(tmp_path):
    race = np.random.default_rng(0).choice([1, 2], 2_000)
    people(2_000, race=race).to_csv(tmp_path / "p.csv", index=False)
    request = ("release", tmp_path / "p.csv", *REQUEST[2:], "--out", tmp_path / "out")
    names = ("--group-names", "F=Women,M=Men")
    passed(*request, "--attribute", "sex", *names, "--people", "clerks")
    found = read_release(tmp_path / "out" / "p.sex.release.json")
    assert (found.subject.groups, found.subject.people) == (["Women", "Men"], "clerks")
    assert "not with the groups that these records give" in refusal(
        *request, "--attribute", "race"
    )
    passed(*request, "--attribute", "race", "--group-names", "1=White,F=Women,M=Men")
    assert read_release(tmp_path / "out" / "p.race.release.json").subject.groups == [
        "White",
        "2",
    ]


@pytest.mark.parametrize("name", ["--attribute", "--outcome", "--split-kind"])
def test_what_must_be_said_is_asked_for(name, tmp_path):
    table = tmp_path / "p.csv"
    table.write_text("sex,y_true,y_pred,split\n1,1,1,train\n")
    at = REQUEST.index(name)
    assert name in refusal("release", table, *REQUEST[:at], *REQUEST[at + 2 :])
    if name != "--attribute":
        assert (
            "maybe"
            in passed("release", "p.csv", *REQUEST, name, "maybe", code=2).stderr
        )


def test_without_the_trainers_packages_one_sentence_says_what_to_install(monkeypatch):
    find = importlib.util.find_spec
    told = "this verb needs ibis, which is not installed"
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *_: None if n == "ibis" else find(n)
    )
    for verb in (("datasets",), ("release", "p.parquet", *REQUEST)):
        how = 'in a clone of pcer run: pip install ".[train]"'
        assert refusal(*verb) == f"pcer: {told}; {how}\n"


def test_an_own_table_is_shown_column_by_column_and_names_are_spelt():
    evil = {"x\x1b[31m\u202e": np.arange(400) % 7}
    frame = people().drop(columns="split").assign(**evil, where="here")
    plan = TablePlan(
        label="y_true", positive="1", attributes=("sex",), outcome="benefit"
    )
    table = account_table(read_table(frame, plan, name="mine"))
    assert table.title == "Columns of mine"
    assert table.rows == (
        ("y_true", "label", "2", "0", "positive is 1"),
        ("y_pred", "number", "2", "0", ""),
        ("sex", "protected attribute", "2", "0", "not used as a feature"),
        (*evil, "number", "7", "0", ""),
        ("where", "left out", "1", "0", "constant"),
    )
    told = terminal_text([table])
    assert r"x\u001b[31m\u202e" in told
    assert told == printable(told, keep="\n")


def test_datasets_are_listed_with_sizes_licences_and_a_warning():
    done = passed("datasets")
    for part in (
        "46,033",
        "6,172",
        "50,000",
        "CC BY 4.0",
        "bundled",
        "did not consent",
        "harm",
    ):
        assert part in done.stdout
    rows = {
        row["name"]: row for row in json.loads(passed("datasets", "--json", "-").stdout)
    }
    assert rows["compas"]["attributes"]["race"] == ["Other", "African-American"]
    assert rows["compas"]["outcome"] == "harm"
