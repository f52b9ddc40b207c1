"""Reading a study's folder."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import pcer
from pcer.cli.app import app
from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.__main__ import main
from tests.worlds.studies import simulated, write_study

COMPAS = CONFIGURATIONS[2]


def test_a_complete_study_is_read_in_the_papers_order(study):
    assert study.is_complete
    assert study.configurations == CONFIGURATIONS
    assert study.settings["format"] == "pcer-study"


def test_an_audit_is_the_default_plans_and_made_once(study):
    release = pcer.read_release(study.folder / "compas.race.release.json")
    assert study.audit("compas", "race") == pcer.audit(release, cost="overfitting_gap")
    assert study.audit("compas", "race") is study.audit("compas", "race")
    other = study.audit("compas", "race", cost="auc_advantage")
    assert other == pcer.audit(release, pcer.Plan(cost="auc_advantage"))


def test_what_a_study_lacks_is_named(tmp_path):
    study = Study.read(write_study(tmp_path, n_seeds=2, configurations=[COMPAS]))
    assert not study.is_complete
    assert study.settings is None
    assert study.has("compas", "race")
    assert not study.has("acs", "sex")
    with pytest.raises(pcer.InputError, match=r"no release of acs \(sex\).*--dataset acs"):
        study.audit("acs", "sex")
    with pytest.raises(pcer.InputError, match="no models of epsilon 3"):
        study.panel("compas", "race", 3.0)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(pcer.InputError, match="is not a folder"):
        Study.read(tmp_path / "nowhere")


TREE = json.loads(simulated(COMPAS, n_seeds=1).to_json())
TURNED = {**TREE, "subject": TREE["subject"] | {"groups": TREE["subject"]["groups"][::-1]}}


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "holds no release of the study"),
        ({"adult.race.release.json": TREE}, r"adult\.race\.release\.json: subject must be adult"),
        ({COMPAS.file_name: TURNED}, "Other, African-American in this order"),
        ({COMPAS.file_name: TREE, "study.json": []}, r"study\.json must hold one object"),
        ({COMPAS.file_name: TREE, "study.json": {"datasets": []}}, "datasets must be an object"),
    ],
)
def test_files_that_are_no_study_are_refused(tmp_path, files, sentence):
    for name, tree in files.items():
        (tmp_path / name).write_text(json.dumps(tree))
    with pytest.raises(pcer.InputError, match=sentence):
        Study.read(tmp_path)


@pytest.mark.parametrize("kind", ["other", None])
def test_a_study_whose_split_is_not_random_is_refused_in_one_sentence(tmp_path, kind, capsys):
    tree = json.loads(simulated(COMPAS, n_seeds=2).to_json())
    tree["training"]["split_kind"] = kind
    (tmp_path / COMPAS.file_name).write_text(json.dumps(tree))
    with pytest.raises(pcer.InputError, match=r"compas\.race.*split_kind must be 'random'"):
        Study.read(tmp_path)
    assert main([str(tmp_path), str(tmp_path / "pages")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    run = CliRunner().invoke(app, ["reproduce", "--tables-only", "-o", str(tmp_path)])
    assert isinstance(run.exception, pcer.InputError)


def test_whose_data_differ_from_the_papers(study, tmp_path):
    assert study.data_note("adult", "sex") is None
    assert study.data_note("compas", "race") is None
    assert "its draw of 50,000 is not published" in str(study.data_note("acs", "race"))
    assert "cleared of the pronouns" in str(study.data_note("bios", "gender"))
    tree = json.loads(simulated(CONFIGURATIONS[5], n_seeds=1).to_json())
    tree["subject"]["n_records"] = 38_018
    (tmp_path / "bios.gender.release.json").write_text(json.dumps(tree))
    assert Study.read(tmp_path).data_note("bios", "gender") is None
