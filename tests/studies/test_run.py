"""Running the study: it goes on where it was killed, and overwrites nothing."""

import dataclasses
import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pcer
import pcer_studies.run as study_run
from pcer.cli.app import app
from pcer.data import load, split
from pcer.data.benchmarks import FOLDER_VARIABLE
from pcer.release.file import read_release
from pcer.train import Accountant, EngineFlags, TrainConfig
from pcer_studies import BUDGETS, Study
from pcer_studies.protocol import CLOSEST, CLOSEST_READING
from pcer_studies.run import (
    Progress,
    StudyPlan,
    environment,
    require_ready,
    train_study,
)
from pcer_studies.sensitivity import run as variants_run
from pcer_studies.sensitivity.records import read_sensitivity
from pcer_studies.sensitivity.variants import COMPAS, variant
from tests.worlds.studies import SHIPPED

QUICK = TrainConfig(
    hidden=(4,), epochs=1, expected_batch=1_024, accountant=Accountant.RDP
)
FLAGS = EngineFlags(jobs=1, block_size=4)
PLAN = StudyPlan(datasets=("compas",), named=True, n_seeds=2, config=QUICK)
NAMES = ["compas.race.release.json", "study.json"]

pytestmark = pytest.mark.slow  # it trains a study


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file()
    }


def command(*arguments: str):
    return CliRunner().invoke(app, ["reproduce", *arguments])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A small study."""
    folder = tmp_path_factory.mktemp("whole") / "new" / "study"
    train_study(PLAN, folder, flags=FLAGS)
    return folder


def test_a_study_is_trained_into_releases_and_a_record(whole):
    study = Study.read(whole)
    release = study.release("compas", "race")
    models = set(product(BUDGETS, range(2)))
    assert {(run.budget, run.seed) for run in release.runs} == models
    assert sorted(contents(whole)) == NAMES
    assert study.settings["protocol"] == json.loads(json.dumps(PLAN.protocol))
    compas = study.settings["datasets"]["compas"]
    assert compas["data_digest"] == release.provenance.data_digest
    assert compas["made_with"] == [environment(FLAGS)]


def test_a_release_has_made_up_groups_and_bounds_and_nothing_of_one_person(tmp_path):
    config = dataclasses.replace(QUICK, receipts="exact")
    train_study(dataclasses.replace(PLAN, config=config), tmp_path, flags=FLAGS)
    release = Study.read(tmp_path).release("compas", "race")
    private = {epsilon for epsilon in BUDGETS if epsilon != float("inf")}
    expected = set(product(private, release.subject.groups))
    for kind in ("receipt", "realised"):
        rows = [row for row in release.bounds if row.kind == kind and row.label is None]
        assert {(row.epsilon, row.group) for row in rows} == expected
    n_draws = {row.epsilon: row.n_draws for row in release.placebo}
    assert n_draws == dict.fromkeys((None, *private), 200)
    tree = json.loads((tmp_path / NAMES[0]).read_text())
    assert longest(tree) < load("compas").n_records / 10


def longest(part) -> int:
    """Entries of the longest list inside."""
    if isinstance(part, dict):
        return max(map(longest, part.values()), default=0)
    if isinstance(part, list):
        return max(len(part), *map(longest, part), 0)
    return 0


def test_a_second_reading_of_adult_is_the_closest_or_is_left_out_unless_named(
    monkeypatch,
):
    assert (
        read_sensitivity(SHIPPED / "sensitivity.json").closest.name == CLOSEST_READING
    )
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    told: list[str] = []
    plan = StudyPlan(datasets=("compas", CLOSEST))
    assert study_run.plan_with_data(plan, told.append).datasets == ("compas",)
    assert re.search("adult-closest is left out.*PCER_DATA", told[0])
    named = dataclasses.replace(plan, named=True)
    assert study_run.plan_with_data(named, told.append) == named


def test_a_killed_study_goes_on_to_the_same_bytes(whole, tmp_path):
    class Killed(Exception):
        pass

    def kill(now: Progress) -> None:
        if now.done >= 4:
            raise Killed

    with pytest.raises(Killed):
        train_study(PLAN, tmp_path, flags=FLAGS, on_progress=kill)
    assert not (tmp_path / NAMES[0]).exists()
    assert train_study(PLAN, tmp_path, flags=FLAGS).found == 4
    assert contents(tmp_path) == contents(whole)


def test_a_study_of_other_settings_or_with_a_bad_record_is_left_alone(whole, tmp_path):
    before = contents(whole)
    for change, said in (
        ({"n_seeds": 3}, "with seeds 2, but 3 is asked for"),
        ({"config": TrainConfig(epochs=2)}, "with training"),
    ):
        with pytest.raises(pcer.InputError, match=said):
            train_study(dataclasses.replace(PLAN, **change), whole, flags=FLAGS)
    assert contents(whole) == before
    for record, said in (
        ("[]", "must be an object"),
        ('{"format": "pcer-study", "version": 9}', "upgrade pcer"),
        ('{"format": "pcer-study", "version": 1}', "is of a study with budgets None"),
    ):
        (tmp_path / "study.json").write_text(record)
        with pytest.raises(pcer.InputError, match=said):
            require_ready(PLAN, tmp_path)


def test_missing_data_are_named_before_anything_is_trained(monkeypatch, tmp_path):
    """With only the bundled data here; what is asked for by name may be fetched."""
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr("pcer.data.benchmarks.cache_folder", lambda: tmp_path)
    said = str(command("-o", str(tmp_path / "study")).exception)
    assert said.startswith("acs and bios are not on this machine")
    assert "PCER_DATA" in said
    assert said.endswith("run what is here with --dataset adult --dataset compas.")
    assert not (tmp_path / "study").exists()
    require_ready(StudyPlan(datasets=("acs",), named=True), tmp_path)
    with pytest.raises(
        pcer.InputError, match="no dataset 'mnist'; choose from adult, compas"
    ):
        StudyPlan(datasets=("mnist",))
    (tmp_path / "file").write_text("")
    with pytest.raises(pcer.OutputError, match="cannot be made"):
        train_study(PLAN, tmp_path / "file" / "study", flags=FLAGS)


def test_the_command_from_nothing_to_every_file(tmp_path):
    words = ("--dataset", "compas", "--seeds", "3", "-o", str(tmp_path))
    done = command(*words)
    assert done.exit_code == 0, done.output
    before = contents(tmp_path)
    assert {
        "README.md",
        "cells.csv",
        "tables.tex",
        "figure1.svg",
        "report.html",
    } <= set(before)
    line = before.pop("run.log").decode()
    assert re.search(
        r"compas: 66 models, 0 of them found trained, in [\d.]+ s; local, cpu", line
    )
    again = command(*words)
    assert again.exit_code == 0, again.output
    assert {name: contents(tmp_path)[name] for name in before} == before


SMALL = tuple(
    dataclasses.replace(variant(name), budgets=(0.1,))
    for name in (COMPAS, "compas-prv", "compas-opacus", "compas-outside")
)
PLD = dataclasses.replace(QUICK, accountant=TrainConfig().accountant)


def run_variants(folder: Path, variants=SMALL, n_seeds: int = 2, **rest):
    rest = {"flags": FLAGS, "config": PLD} | rest
    return variants_run.run_sensitivity(
        folder, n_seeds=n_seeds, variants=variants, **rest
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The four COMPAS variants at one budget."""
    folder = tmp_path_factory.mktemp("study") / "new"
    return folder, run_variants(folder)[0]


def release_of(folder: Path, name: str):
    return read_release(
        folder / variants_run.FOLDER / name / f"{name}.race.release.json"
    )


def test_variants_share_their_splits_and_differ_in_noise_and_standardisation(trained):
    """More noise by PRV than by PLD, and most by Opacus' search, at what it spends."""
    folder, found = trained
    names = [one.name for one in SMALL]
    folders = [path.name for path in (folder / variants_run.FOLDER).iterdir()]
    assert sorted(folders) == sorted(names)
    assert read_sensitivity(folder / "sensitivity.json") == found
    assert found.made_with == [environment(FLAGS)]
    expected = [split(load("compas"), seed=seed).id for seed in range(2)]
    assert [one.name for one in found.results] == names
    assert all(one.splits == expected for one in found.results)
    row = found.result("compas-opacus").rows[0]
    n_train = len(split(load("compas"), seed=0).train)
    assert row.noise_multiplier == variants_run.opacus_noise(
        0.1, n_train=n_train, config=PLD
    )
    assert row.trained_epsilon == pytest.approx(row.epsilon_spent)
    assert row.trained_epsilon < 0.1 == row.epsilon
    assert not found.result("compas-opacus").same_streams
    noise = {one.name: one.rows[0].noise_multiplier for one in found.results}
    assert noise[COMPAS] <= noise["compas-prv"] < noise["compas-opacus"]
    config = {name: release_of(folder, name).training.config for name in noise}
    assert config["compas-prv"]["accountant"] == Accountant.PRV
    assert (
        config["compas-outside"]["standardise"] is False
    )  # done over all records, not again
    features = variants_run.variant_dataset(variant("compas-outside")).features
    np.testing.assert_allclose(features.mean(axis=0, dtype=np.float64), 0, atol=1e-4)
    np.testing.assert_allclose(features.std(axis=0, dtype=np.float64), 1, atol=1e-4)


def test_a_second_run_trains_nothing_and_what_is_not_here_is_skipped(
    trained, monkeypatch, tmp_path
):
    folder, found = trained
    before = contents(folder)
    again, ended = run_variants(folder)
    assert ended.found == ended.total == 8
    assert again == found
    assert contents(folder) == before
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    found, _ = run_variants(folder, (SMALL[0], variant("adult-all-numbers")))
    assert [one.name for one in found.results] == [COMPAS]
    assert [one.name for one in found.skipped] == ["adult-all-numbers"]


def test_the_command_of_variants_trains_tells_and_logs_and_takes_no_dataset(
    tmp_path, monkeypatch
):
    done = command("--sensitivity", "--dataset", "adult", "-o", str(tmp_path / "x"))
    assert done.exit_code != 0
    assert not (tmp_path / "x").exists()
    assert "--sensitivity trains its own variants" in str(done.exception or done.output)
    run = variants_run.run_sensitivity
    quick = {"variants": SMALL[:1], "config": PLD}
    monkeypatch.setattr(
        variants_run, "run_sensitivity", lambda *a, **k: run(*a, **(k | quick))
    )
    done = command("--sensitivity", "--seeds", "1", "--jobs", "1", "-o", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'sensitivity.md'}" in done.output
    assert "reproduce --sensitivity: 1 models" in (tmp_path / "run.log").read_text()
