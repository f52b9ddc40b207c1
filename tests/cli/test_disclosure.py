"""Nothing about one person leaves: an outsider attacks what the commands write."""

import json
import random
import re
import stat
from pathlib import Path

import pcer
from pcer.sweep.receipts import read_receipts
from tests.commands import (
    JOBS,
    NAMES,
    config,
    passed,
    refusal,
    write_people,
    write_rows,
)

SAID = (
    "--label",
    "approved",
    "--positive",
    "yes",
    "--outcome",
    "benefit",
    "--attribute",
    "sex",
)
QUICK = ("--seeds", "2", "--epochs", "1", "--batch", "64", "--budgets")


def train(
    folder: Path, *more: str, code=0, n=400, small=0, disclosure=(), **columns: object
) -> str:
    """What a sweep of a table with names says; its release is in an own folder."""
    table = write_people(folder / "people.csv", n, small=small, named=True)
    flags = {"train": {"accountant": "rdp"}, "engine": {"jobs": 1}, "table": columns}
    run_file = config(**flags, disclosure=dict(disclosure))
    out = folder / "out"
    options = (*QUICK, *(more or ["none"]), *run_file, "-o", out)
    done = passed("train", table, *SAID, *options, code=code)
    return done.stdout + done.stderr


def made(folder: Path, name: str = "people") -> pcer.Release:
    return pcer.read_release(folder / "out" / f"{name}.sex.release.json")


def test_no_name_and_no_value_of_a_category_is_in_any_output(tmp_path):
    """All that is written by a sweep that learns from names, against all advice."""
    out = tmp_path / "out"
    told = train(tmp_path, identifiers=["name"], max_categories=500)
    page = passed(
        "audit", out, "--html", out / "report.html", "--json", out / "audit.json"
    )
    files = [
        path.read_text(errors="replace") for path in out.rglob("*") if path.is_file()
    ]
    text = "\n".join([*files, told, page.stdout, page.stderr])
    assert not [word for word in (*NAMES, *JOBS, "Person") if word in text]
    made_with = made(tmp_path).training.config
    assert made_with["columns"] == {"name": 400, "age": 2, "job": 3, "race": 1}
    assert "features" not in made_with


def test_a_question_names_no_value_of_a_label_that_few_records_have(tmp_path):
    rows = [
        ["ab"[i % 2], i % 7, "own words" if i == 3 else "AB"[i % 3 % 2]]
        for i in range(40)
    ]
    told = refusal(
        "train", write_rows(tmp_path / "t.csv", "sex age grade", rows), *SAID[-4:]
    )
    assert "(--positive): B or A?" in told
    told = refusal(
        "train", write_rows(tmp_path / "t.csv", "sex age grade", rows[:9]), *SAID[-4:]
    )
    assert "own words" not in told


def test_a_column_of_names_and_a_small_group_are_one_sentence_each(tmp_path):
    told = train(tmp_path, code=2)
    assert "column 'name' has 400 different texts in 400 records" in told
    assert "fewer than 10 people of one" in train(
        tmp_path, n=100, code=2, drop=["name"]
    )
    assert not list((tmp_path / "out").glob("*.release.json"))


def test_a_group_of_three_people_is_joined_and_told_unless_they_are_public(tmp_path):
    train(tmp_path, small=3, drop=["name"])
    subject = made(tmp_path).subject
    assert len(subject.groups) == 2
    assert any(" + 1 small group" in name for name in subject.groups)
    assert any("Small groups were joined" in note for note in subject.notes)
    (public := tmp_path / "public").mkdir()
    train(public, small=16, disclosure={"public_data": True}, drop=["name"])
    release = made(public)
    assert release.subject.groups == ["first", "second", "third"]
    assert release.disclosure.public_data
    assert any(note.startswith("Public data") for note in release.subject.notes)
    assert release.provenance.data_digest.startswith("sha256:")


def certain_memberships(release: pcer.Release) -> int:
    """Slow and obvious: over every model, group, label and prediction of the file."""
    told = 0
    for one in json.loads(release.to_json())["runs"]:
        for tables in one["groups"].values():
            for cell in ("tp", "fp", "tn", "fn") if "tp" in tables["train"] else ():
                train = tables["train"][cell]
                test = tables["test"][cell]
                told += train + test if (train == 0) != (test == 0) else 0
    return told


def release_of(folder: Path, *options: object) -> pcer.Release:
    """Of an overfitted model: nearly no error among the records it was trained on."""
    rng = random.Random(4)
    rows = []
    people = [(i, rng.choice("ab"), int(rng.random() < 0.5)) for i in range(400)]
    for seed in range(9):
        for i, sex, truth in people:
            split = "train" if rng.random() < 0.7 else "test"
            right = rng.random() < (0.99 if split == "train" else 0.7)
            score = abs((truth if right else 1 - truth) - rng.random() * 0.4)
            rows.append([seed, i, split, sex, truth, f"{score:.4f}"])
    table = write_rows(folder / "p.csv", "seed id split sex y_true y_score", rows)
    said = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random")
    scored = ("--score", "y_score", "--record-id", "id", "--out", folder / "out")
    passed("release", table, *said, *scored, *options)
    return made(folder, "p")


def test_a_release_says_how_many_memberships_it_tells_and_is_not_believed(tmp_path):
    release = release_of(tmp_path)
    assert release.disclosure.memberships == certain_memberships(release) > 0
    told = " ".join(pcer.audit(release).account)
    assert f"{release.disclosure.memberships:,} times over all models" in told
    nothing = release.disclosure.model_copy(update={"memberships": 0})
    account = pcer.audit(release.model_copy(update={"disclosure": nothing})).account
    assert "The file declares only 0 such memberships." in account


def test_without_certain_cells_nobody_is_given_away(tmp_path):
    release = release_of(tmp_path, "--no-certain-cells")
    assert release.disclosure.memberships == certain_memberships(release) == 0
    assert release.disclosure.n_coarse_tables > 0
    assert any(
        note.startswith("To reveal no membership") for note in release.subject.notes
    )
    assert not [
        line for line in pcer.audit(release).account if "with certainty" in line
    ]
    sharper = pcer.audit(release, pcer.Plan(attack="paired_confidence"))
    assert sharper.settings[0].groups["a"].detected


def test_split_names_of_private_tables_need_the_secret(tmp_path, monkeypatch):
    names = []
    for state in ("one", "one", "two"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / state))
        runs = release_of(tmp_path, "--replace").runs
        names.append([one.split for one in runs])
    assert all(name.startswith("hmac-sha256:") for name in names[0])
    assert names[0] == names[1]
    assert not {*names[0]} & {*names[2]}
    mode = (tmp_path / "one" / "pcer" / "tables.secret").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_sweep_finds_its_secret_again_or_says_so(tmp_path, monkeypatch):
    state = tmp_path / "state"
    out = tmp_path / "out"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    state.touch()  # no room for a secret
    assert "a secret cannot be kept in" in train(tmp_path, code=2, drop=["name"])
    assert not out.exists()
    state.unlink()
    private = ("none,2", "--receipts", "held")
    texts = []
    for expected in (("job", "made a secret", f"pcer receipt {out} --record ID"), ()):
        told = train(tmp_path, *private, drop=["name"])
        assert [words for words in expected if words not in told] == []
        assert all(len(line) <= 80 for line in told.splitlines() if "private" in line)
        texts.append((out / "people.sex.release.json").read_bytes())
    release = made(tmp_path)
    own = {path.name: path for path in (state / "pcer").iterdir()}
    del own["tables.secret"]  # which names people, so that updates are found
    (secret,) = own.values()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert release.training.config["noise_from_secret"] is True
    assert (len(release.runs), bool(release.bounds)) == (4, True)
    log = (out / "run.log").read_text()
    assert re.search(
        r"Z train people: 4 models, 0 of them found trained, in [\d.]+ s; local", log
    )
    passed("audit", out)
    passed(
        "receipt",
        out,
        "--record",
        read_receipts(out / "people.receipts")[0].record_ids[0],
    )
    secret.unlink()
    told = train(tmp_path, *private, code=2, drop=["name"])
    assert "was begun with a secret that is not in" in told
    assert {(out / "people.sex.release.json").read_bytes()} == {*texts}
