"""Nothing about one person leaves: the attacks of an outsider on what the commands write."""

from __future__ import annotations

import csv
import json
import os
import random
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pcer
from pcer.cli.app import app
from tests.commands import config

SAID = ("--label", "approved", "--positive", "yes", "--outcome", "benefit", "--attribute", "sex")
QUICK = ("--budgets", "none", "--seeds", "2", "--epochs", "1", "--batch", "64")
NAMES = [f"Alexandra Q{i:03}" for i in range(400)]
JOBS = ("falconer", "lamplighter", "cooper")


def write_people(path: Path, n: int = 400, *, small: int = 0) -> Path:
    """People with names and jobs; the first ``small`` are a group of their own."""
    rng = random.Random(3)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "age", "job", "sex", "approved"])
        for i in range(n):
            sex = "third" if i < small else rng.choice(["first", "second"])
            age = rng.randint(18, 80)
            approved = "yes" if rng.random() < age / 100 else "no"
            writer.writerow([NAMES[i], age, rng.choice(JOBS), sex, approved])
    return path


def own(disclosure: dict[str, object] | None = None, **table: object) -> tuple[str, str]:
    return config(engine={"jobs": 1}, table=table, disclosure=disclosure or {})


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def everything(folder: Path, *results) -> str:
    """All that was written or said."""
    files = [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]
    return "\n".join([*files, *(str(r.output) + str(r.exception) for r in results)])


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """A sweep that learns from a column of names, against all advice, and its report."""
    folder = tmp_path_factory.mktemp("own")
    table = write_people(folder / "people.csv")
    insist = own(identifiers=["name"], max_categories=500)
    out = folder / "out"
    done = run("train", table, *SAID, *QUICK, *insist, "-o", out)
    assert done.exit_code == 0, done.output
    page = run("audit", out, "--html", out / "report.html", "--json", out / "audit.json")
    assert page.exit_code == 0
    return out, everything(out, done, page)


def test_no_name_and_no_value_of_a_category_is_in_any_output(trained):
    text = trained[1]
    assert not [word for word in (*NAMES, *JOBS) if word in text]
    assert "Person" not in text


def test_the_release_names_columns_and_widths_only(trained):
    release = pcer.read_release(trained[0] / "people.sex.release.json")
    assert release.training.config["columns"] == {"name": 400, "age": 1, "job": 3}
    assert "features" not in release.training.config


def test_a_column_of_names_and_a_small_group_are_one_sentence_each(tmp_path):
    table = write_people(tmp_path / "people.csv")
    told = run("train", table, *SAID, *QUICK, *own(), "-o", tmp_path / "out")
    assert "column 'name' has 400 different texts in 400 records" in str(told.exception)
    table = write_people(tmp_path / "few.csv", n=100)
    told = run("train", table, *SAID, *QUICK, *own(drop=["name"]), "-o", tmp_path / "few")
    assert "fewer than 10 people with a" in str(told.exception)
    assert not list((tmp_path / "few").glob("*.release.json"))


def test_a_group_of_three_people_is_joined_and_told(tmp_path):
    table = write_people(tmp_path / "people.csv", small=3)
    train = ("train", table, *SAID, *QUICK, *own(drop=["name"]))
    done = run(*train, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.exception
    release = pcer.read_release(tmp_path / "out" / "people.sex.release.json")
    assert len(release.subject.groups) == 2
    assert any("third" in name and " + " in name for name in release.subject.groups)
    assert any("joined into one group" in note for note in release.subject.notes)


def test_public_records_are_released_as_they_are_and_say_so(tmp_path):
    table = write_people(tmp_path / "people.csv", small=16)
    train = ("train", table, *SAID, *QUICK, *own(disclosure={"public_data": True}, drop=["name"]))
    done = run(*train, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.exception
    release = pcer.read_release(tmp_path / "out" / "people.sex.release.json")
    assert release.subject.groups == ["first", "second", "third"]
    assert release.disclosure.public_data
    assert any(note.startswith("Public data") for note in release.subject.notes)
    assert release.provenance.data_digest.startswith("sha256:")


def certain_memberships(path: Path) -> int:
    """Slow and obvious: over every model, group, label and prediction of the file."""
    told = 0
    for one in json.loads(path.read_text())["runs"]:
        for tables in one["groups"].values():
            if not {"tp", "fp"} <= tables["train"].keys():
                continue
            for cell in ("tp", "fp", "tn", "fn"):
                train, test = tables["train"][cell], tables["test"][cell]
                if (train == 0) != (test == 0):
                    told += train + test
    return told


def write_predictions(path: Path) -> Path:
    """An overfitted model: nearly no error among the records it was trained on."""
    rng = random.Random(4)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["seed", "id", "split", "sex", "y_true", "y_score"])
        people = [(i, rng.choice("ab"), int(rng.random() < 0.5)) for i in range(400)]
        for seed in range(9):
            for i, sex, truth in people:
                split = "train" if rng.random() < 0.7 else "test"
                right = rng.random() < (0.99 if split == "train" else 0.7)
                score = abs((truth if right else 1 - truth) - rng.random() * 0.4)
                writer.writerow([seed, i, split, sex, truth, f"{score:.4f}"])
    return path


SCORED = ("--score", "y_score", "--record-id", "id")
COUNTED = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random", *SCORED)


def release_of(folder: Path, *options: object) -> Path:
    table = write_predictions(folder / "p.csv")
    done = run("release", table, *COUNTED, "--out", folder / "out", *options)
    assert done.exit_code == 0, done.exception
    return folder / "out" / "p.sex.release.json"


def test_a_release_says_how_many_memberships_it_tells_and_is_not_believed(tmp_path):
    path = release_of(tmp_path)
    release = pcer.read_release(path)
    assert release.disclosure.memberships == certain_memberships(path) > 0
    told = " ".join(pcer.audit(release).account)
    assert f"{release.disclosure.memberships:,} times over all models" in told
    tree = json.loads(path.read_text())
    tree["disclosure"]["memberships"] = 0
    (tmp_path / "lie.release.json").write_text(json.dumps(tree))
    account = pcer.audit(pcer.read_release(tmp_path / "lie.release.json")).account
    assert "The file says that it tells 0 such memberships, which is too few." in account


def test_without_certain_cells_nobody_is_given_away(tmp_path):
    path = release_of(tmp_path, "--no-certain-cells")
    release = pcer.read_release(path)
    assert release.disclosure.memberships == certain_memberships(path) == 0
    assert release.disclosure.n_coarse_tables > 0
    assert any(note.startswith("So that nobody's membership") for note in release.subject.notes)
    audit = pcer.audit(release)
    assert not [line for line in audit.account if "with certainty" in line]
    sharper = pcer.audit(release, pcer.Plan(cost="paired_confidence"))
    assert sharper.budgets[0].groups["a"].resolved


def test_split_names_of_private_tables_need_the_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "one"))
    first = [one.split for one in pcer.read_release(release_of(tmp_path)).runs]
    assert all(name.startswith("hmac-sha256:") for name in first)
    assert [one.split for one in pcer.read_release(release_of(tmp_path)).runs] == first
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "two"))
    assert not {one.split for one in pcer.read_release(release_of(tmp_path)).runs} & set(first)
    mode = (tmp_path / "one" / "pcer" / "tables.secret").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_place_without_room_for_the_secret_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    table = write_people(tmp_path / "people.csv")
    told = run("train", table, *SAID, *QUICK, *own(drop=["name"]), "-o", tmp_path / "out")
    assert isinstance(told.exception, pcer.OutputError)
    assert "a secret cannot be kept in" in str(told.exception)
    assert not (tmp_path / "out").exists()


def test_a_sweep_finds_its_secret_again_or_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table, out = write_people(tmp_path / "people.csv"), tmp_path / "out"
    train = ("train", table, *SAID, *QUICK, *own(drop=["name"]), "-o", out)
    assert run(*train).exit_code == 0
    before = (out / "people.sex.release.json").read_bytes()
    assert run(*train).exit_code == 0
    assert (out / "people.sex.release.json").read_bytes() == before
    secrets = os.listdir(tmp_path / "state" / "pcer")
    assert len(secrets) == 1
    (tmp_path / "state" / "pcer" / secrets[0]).unlink()
    told = run(*train)
    assert "was begun with a secret that is not in" in str(told.exception)
    assert (out / "people.sex.release.json").read_bytes() == before
