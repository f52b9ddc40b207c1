"""Running the study: resumable, one display, nothing overwritten, data missed before training."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pcer
import pcer_studies.run as study_run
from pcer.cli.app import app
from pcer.data import load
from pcer.data.fetch import FOLDER_VARIABLE
from pcer.errors import InputError
from pcer.store.blocks import SEAL, sealed
from pcer.sweep import Sweep, run_sweep
from pcer.train import Accountant, EngineFlags, TrainConfig
from pcer.train.config import ADDED_SETTINGS
from pcer_studies import BUDGETS, Study
from pcer_studies.protocol import CLOSEST, CLOSEST_READING
from pcer_studies.run import Progress, StudyPlan, environment, require_ready, train_study
from pcer_studies.sensitivity.analysis import read_sensitivity
from pcer_studies.sensitivity.readings import missing_files

ROOT = Path(__file__).parents[2]
QUICK = TrainConfig(hidden=(4,), epochs=1, expected_batch=1_024, accountant=Accountant.RDP)
FLAGS = EngineFlags(jobs=1, block_size=4)
PLAN = StudyPlan(datasets=("compas",), named=True, n_seeds=2, config=QUICK)

pytestmark = pytest.mark.slow  # it trains a study


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small study and what it told on the way."""
    folder = tmp_path_factory.mktemp("whole") / "new" / "study"
    told: list[Progress] = []
    train_study(PLAN, folder, flags=FLAGS, on_progress=told.append)
    return folder, told


def test_releases_hold_coin_flips_and_bounds_and_no_person_is_kept(tmp_path):
    with_receipts = dataclasses.replace(PLAN, config=dataclasses.replace(QUICK, receipts="exact"))
    train_study(with_receipts, tmp_path, flags=FLAGS)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "compas.race.release.json",
        "study.json",
    ]
    release = Study.read(tmp_path).release("compas", "race")
    private = {epsilon for epsilon in BUDGETS if epsilon != float("inf")}
    for kind in ("receipt", "realised"):
        rows = [row for row in release.bounds if row.kind == kind and row.label is None]
        assert {(row.epsilon, row.group) for row in rows} == {
            (epsilon, group) for epsilon in private for group in release.subject.groups
        }
    assert {row.epsilon for row in release.placebo} == {None, *private}
    assert {row.n_draws for row in release.placebo} == {200}
    trained_again = train_study(with_receipts, tmp_path, flags=FLAGS)
    assert trained_again.found == 12


def test_the_second_reading_of_adult_is_the_closest_of_all():
    found = read_sensitivity(ROOT / "studies" / "paper" / "sensitivity.json")
    assert found.closest.name == CLOSEST_READING


def test_the_second_reading_has_the_records_of_the_first(monkeypatch):
    if missing_files(CLOSEST_READING) is not None:
        pytest.skip("needs UCI's whole table")
    one, other = load("adult"), study_run._dataset(CLOSEST)
    assert other.name == CLOSEST
    assert (one.labels == other.labels).all()
    assert (one.record_ids == other.record_ids).all()
    assert one.feature_names != other.feature_names
    assert any("closest" in note for note in other.notes)
    assert study_run._sweep(StudyPlan(), other).attributes == ("sex", "race")


def test_a_second_reading_that_is_not_here_is_left_out_unless_it_was_named(monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    told: list[str] = []
    plan = StudyPlan(datasets=("compas", CLOSEST))
    assert study_run._with_data(plan, told.append).datasets == ("compas",)
    assert "adult-closest is left out" in told[0]
    assert "PCER_DATA" in told[0]
    named = dataclasses.replace(plan, named=True)
    assert study_run._with_data(named, told.append) == named
    with pytest.raises(InputError, match="PCER_DATA"):
        study_run._dataset(CLOSEST)


def test_a_study_is_trained_into_releases_and_a_record(whole):
    folder, _ = whole
    study = Study.read(folder)
    release = study.release("compas", "race")
    assert {(run.budget, run.seed) for run in release.runs} == {
        (epsilon, seed) for epsilon in BUDGETS for seed in range(2)
    }
    assert sorted(path.name for path in folder.iterdir()) == [
        "compas.race.release.json",
        "study.json",
    ]
    assert study.settings["protocol"] == json.loads(json.dumps(PLAN.protocol))
    compas = study.settings["datasets"]["compas"]
    assert compas["data_digest"] == release.provenance.data_digest
    assert compas["made_with"] == [environment(FLAGS)]


def test_a_finished_study_is_not_trained_again(whole, monkeypatch):
    folder, _ = whole
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr("pcer.sweep.run.run_blocks", lambda *a, **k: pytest.fail("trains"))
    ended = train_study(PLAN, folder, flags=FLAGS)
    assert (ended.done, ended.found) == (12, 12)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_killed_study_goes_on_to_the_same_bytes(whole, tmp_path):
    class Killed(Exception):
        pass

    def kill(now: Progress) -> None:
        if now.done >= 4:
            raise Killed

    with pytest.raises(Killed):
        train_study(PLAN, tmp_path, flags=FLAGS, on_progress=kill)
    assert not (tmp_path / "compas.race.release.json").exists()
    ended = train_study(PLAN, tmp_path, flags=FLAGS)
    assert ended.found == 4
    for name in ("compas.race.release.json", "study.json"):
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes()


def test_a_study_says_that_another_version_trained_some_models(tmp_path):
    what = {"attributes": ("race",), "budgets": BUDGETS, "seeds": (0,), "config": QUICK}
    half = Sweep(dataset=load("compas"), **what)
    release = run_sweep(half, tmp_path, flags=FLAGS, keep_scores=True)["race"]
    release.unlink()
    for block in (tmp_path / "compas.scores").glob("block-*.json"):
        record = json.loads(block.read_text())
        record.pop(SEAL)
        record["made_with"]["numba"] = "0.1"
        block.write_text(json.dumps(sealed(record)))
    told: list[str] = []
    train_study(PLAN, tmp_path, flags=FLAGS, on_note=told.append)
    assert len(told) == 1
    assert "release: 6 by numba 0.1, 6 by numba " in told[0]
    assert told[0] in json.loads(release.read_text())["subject"]["notes"]


def test_an_interrupted_study_keeps_every_environment_it_was_trained_in(tmp_path, monkeypatch):
    old = {"format": "pcer-study", "version": 1, "protocol": PLAN.protocol}
    made = {"pcer": "0.0.9"}
    old["datasets"] = {"compas": {"made_with": [made]}}
    (tmp_path / "study.json").write_text(json.dumps(old))
    train_study(PLAN, tmp_path, flags=FLAGS)
    found = json.loads((tmp_path / "study.json").read_text())["datasets"]["compas"]["made_with"]
    assert found == [made, environment(FLAGS)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_seeds": 3}, "with seeds 2, but 3 is asked for"),
        ({"config": TrainConfig(epochs=2)}, "with training"),
    ],
)
def test_a_study_of_other_settings_is_left_alone(whole, change, said):
    folder, _ = whole
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    plan = StudyPlan(**{"datasets": ("compas",), "n_seeds": 2, "config": QUICK, **change})
    with pytest.raises(pcer.InputError, match=said):
        train_study(plan, folder, flags=FLAGS)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_study_of_an_older_version_goes_on_although_a_setting_was_added(whole, monkeypatch):
    monkeypatch.setitem(ADDED_SETTINGS, "dropout", 0.0)

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Tomorrow(TrainConfig):
        dropout: float = 0.0

    later = Tomorrow(**dataclasses.asdict(PLAN.config))
    require_ready(dataclasses.replace(PLAN, config=later), whole[0])
    changed = dataclasses.replace(later, dropout=0.5)
    with pytest.raises(
        pcer.InputError, match=r"'dropout': 0\.0.*but .*'dropout': 0\.5.* is asked for"
    ):
        require_ready(dataclasses.replace(PLAN, config=changed), whole[0])


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("[]", "must be an object"),
        ('{"format": "pcer-study", "version": 9}', "upgrade pcer"),
        ('{"format": "pcer-study", "version": 1}', "is of a study with budgets None"),
    ],
)
def test_a_bad_record_is_named(tmp_path, record, said):
    (tmp_path / "study.json").write_text(record)
    with pytest.raises(pcer.InputError, match=said):
        require_ready(PLAN, tmp_path)


def test_an_unknown_dataset_is_named():
    with pytest.raises(pcer.InputError, match="no dataset 'mnist'; choose from adult, compas"):
        StudyPlan(datasets=("mnist",))


@pytest.fixture
def nothing_fetched(monkeypatch, tmp_path_factory):
    """A machine with only the bundled data."""
    empty = tmp_path_factory.mktemp("cache")
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr("pcer.data.fetch.cache_folder", lambda: empty)


def test_missing_data_are_named_before_anything_is_trained(nothing_fetched, tmp_path):
    folder = tmp_path / "study"
    run = CliRunner().invoke(app, ["reproduce", "-o", str(folder)])
    assert isinstance(run.exception, pcer.InputError)
    said = str(run.exception)
    assert said.startswith("acs and bios are not on this machine")
    assert "PCER_DATA" in said
    assert said.endswith("run what is here with --dataset adult --dataset compas.")
    assert not folder.exists()


def test_data_asked_for_by_name_may_be_fetched(nothing_fetched, tmp_path):
    require_ready(StudyPlan(datasets=("acs",), named=True), tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pcer.OutputError, match="cannot be made"):
        train_study(PLAN, tmp_path / "file" / "study", flags=FLAGS)


def test_the_command_from_nothing_to_every_file(tmp_path):
    command = ["reproduce", "--dataset", "compas", "--seeds", "3", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    names = {path.name for path in tmp_path.iterdir()}
    assert {"README.md", "cells.csv", "tables.tex", "figure1.svg", "report.html"} <= names
    line = (tmp_path / "run.log").read_text()
    assert re.search(r"compas: 18 models, 0 of them found trained, in [\d.]+ s; local, cpu", line)
    before = {name: (tmp_path / name).read_bytes() for name in names - {"run.log"}}
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_what_is_written_is_about_no_person(whole):
    """Statistics only: nothing in the folder has as many entries as there are records."""
    n = load("compas").n_records
    tree = json.loads((whole[0] / "compas.race.release.json").read_text())

    def longest(part) -> int:
        if isinstance(part, dict):
            return max((longest(value) for value in part.values()), default=0)
        if isinstance(part, list):
            return max(len(part), *(longest(value) for value in part), 0)
        return 0

    assert longest(tree) < n / 10
