"""A study's folder: what is read of it, and the tables and figure that it gives."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pcer
import pcer_studies
from pcer.cli.app import app
from pcer_studies import BUDGETS, CONFIGURATIONS, Study
from pcer_studies.__main__ import main
from pcer_studies.tables.cells import n_agreeing
from pcer_studies.tables.comparison import compare
from pcer_studies.tables.figure import DISPARITY, figure_chart
from pcer_studies.tables.folder import study_files
from pcer_studies.tables.layout import paper_tables
from tests.worlds.studies import SHIPPED, shipped_study, study_of, tree_of, write_study

COMPAS = CONFIGURATIONS[2]
BIOS = CONFIGURATIONS[5]
TEXTS = ("README.md", "cells.csv", "cells.md", "tables.md", "tables.tex")


def tables_only(folder, *options: str) -> str:
    """What ``pcer reproduce --tables-only`` says against a folder."""
    run = CliRunner().invoke(
        app, ["reproduce", "--tables-only", *options, "-o", str(folder)]
    )
    assert isinstance(run.exception, pcer.InputError)
    return str(run.exception)


def test_a_complete_study_is_read_in_the_papers_order_and_figure_one_draws_its_audits(
    study,
):
    assert study.is_complete
    assert study.configurations == CONFIGURATIONS
    release = pcer.read_release(study.folder / "compas.race.release.json")
    assert study.audit("compas", "race") == pcer.audit(
        release, attack="overfitting_gap"
    )
    other = study.audit("compas", "race", attack="auc_advantage")
    assert other == pcer.audit(release, pcer.Plan(attack="auc_advantage"))
    panels = figure_chart(study).panels
    assert [panel.title for panel in panels] == [
        "(a) Adult (race)",
        "(b) COMPAS (race)",
    ]
    marks = panels[1].marks
    assert len(marks) == 2 * len(BUDGETS)
    parity, disparity = marks[0], marks[len(BUDGETS)]
    setting = study.audit("compas", "race").settings[0]
    assert panels[1].across.labels[0] == "0.1"
    assert parity.y == setting.demographic_parity_gap.mean
    assert disparity.ends == setting.pairs[0].pcer_disparity.ci
    detected = setting.verdict is not pcer.Verdict.NONE_DETECTED
    assert (disparity.shape == DISPARITY.shape) is detected


def turned(where: str, name: str, value) -> dict:
    """A release that says something else."""
    tree = tree_of(COMPAS, n_seeds=2)
    return tree | {where: tree[where] | {name: value}}


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "holds no release of the study"),
        ({COMPAS.file_name: None}, "not complete JSON"),
        (
            {"adult.race.release.json": tree_of(COMPAS)},
            r"adult\.race\.release\.json: subject must",
        ),
        (
            {COMPAS.file_name: turned("subject", "groups", [*COMPAS.groups[::-1]])},
            "Other, African-American in this order",
        ),
        (
            {COMPAS.file_name: tree_of(COMPAS), "study.json": []},
            r"study\.json must hold one obj",
        ),
        (
            {COMPAS.file_name: tree_of(COMPAS), "study.json": {"datasets": []}},
            "must be an object",
        ),
        *(
            (
                {COMPAS.file_name: turned("training", "split_kind", kind)},
                r"compas\.race.*split_kind must be 'random'",
            )
            for kind in ("other", None)
        ),
    ],
)
def test_files_that_are_no_study_are_refused_in_one_sentence(
    tmp_path, files, sentence, capsys
):
    for name, tree in files.items():
        (tmp_path / name).write_text("{" if tree is None else json.dumps(tree))
    assert main([str(tmp_path), str(tmp_path / "pages")]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    for found in (told, tables_only(tmp_path)):
        assert re.search(sentence, found)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    assert "is not a folder" in tables_only(tmp_path / "nowhere")
    assert "leave --dataset out" in tables_only(tmp_path, "--dataset", "acs")


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Study:
    folder = tmp_path_factory.mktemp("part")
    return Study.read(write_study(folder, n_seeds=1, configurations=[COMPAS]))


def test_a_part_of_the_study_says_what_it_lacks(part, study, tmp_path):
    assert not part.is_complete
    assert part.settings is None
    with pytest.raises(
        pcer.InputError, match=r"no release of acs \(sex\).*--dataset acs"
    ):
        part.audit("acs", "sex")
    with pytest.raises(pcer.InputError, match="no models of epsilon 3"):
        part.panel("compas", "race", 3.0)
    files = study_files(part)
    assert sorted(files) == sorted(
        [*TEXTS, "figure1.svg", "figure1.png", "report.html"]
    )
    names = [table.name for table in paper_tables(part)]
    assert names == ["Table 1", "Table S1", "Table S2", "Table S5"]
    assert (
        "1 of the paper's 6 configurations, 6 budgets and 1 seed: 6 models"
        in files["README.md"]
    )
    assert "no interval" in files["tables.md"]
    tree = tree_of(BIOS, n_seeds=2)
    tree["subject"]["n_records"] = 38_018
    papers_own = study_of(tmp_path, tree)
    assert sorted(study_files(papers_own, report=False)) == sorted(
        TEXTS
    )  # no figure of Bios
    assert (
        papers_own.data_note("bios", "gender")
        is study.data_note("adult", "sex")
        is None
    )
    assert "cleared of the pronouns" in str(study.data_note("bios", "gender"))


ROOT = Path(__file__).parents[2]
OF_THE_STUDY = (
    b"pcer_studies",
    b"studies/paper",
    b"published.csv",
    b"text_figures.csv",
)


def test_the_library_names_no_study_and_the_study_has_its_version():
    """It knows the verb and how to install what brings it, and no file of it."""
    for path in (ROOT / "src" / "pcer").rglob("*"):
        if path.is_file() and path.suffix not in (".pyc", ".nbc", ".nbi"):
            content = path.read_bytes()
            assert not [word for word in OF_THE_STUDY if word in content], path
    project = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text())[
        "project"
    ]
    assert project["version"] == pcer.__version__
    assert project["dependencies"] == [f"pcer[figures,train]=={pcer.__version__}"]
    assert all(getattr(pcer_studies, name) is not None for name in pcer_studies.__all__)


@pytest.mark.slow
def test_the_shipped_study_is_what_its_releases_give():
    """``pcer reproduce --tables-only -o studies/paper`` would change no text."""
    files = study_files(shipped_study(), report=False)
    for name in TEXTS:
        assert (SHIPPED / name).read_text(encoding="utf-8") == files[name], name


def test_no_interval_of_figure_one_ends_on_the_frame(study):
    for panel in figure_chart(study).panels:
        for axis, is_right in ((panel.up, False), (panel.right, True)):
            ends = [
                end
                for mark in panel.marks
                if mark.is_right is is_right
                for end in mark.ends or ()
            ]
            assert axis.low < min(ends) or min(ends) >= 0 == axis.low
            assert max(ends) < axis.high or max(ends) <= 0 == axis.high


def test_table_s2_says_not_applicable_where_the_paper_does_and_why(study):
    (table,) = [one for one in paper_tables(study) if one.label == "tab:summary"]
    cells = {row[:2]: row[3] for block in table.blocks for row in block}
    named = {key: not cell.startswith("N/A (") for key, cell in cells.items()}
    assert [key for key, is_named in named.items() if not is_named] == [
        ("COMPAS", "race"),
        ("ACS", "race"),
        ("ACS", "sex"),
    ]
    assert "COMPAS (race): intervals contain 0 at" in table.caption
    notes = {
        c.published.key.dataset: c.note
        for c in compare(study)
        if c.published.printed == "N/A"
    }
    assert notes.keys() == {"compas", "acs"}
    assert all(note.startswith("N/A: ") for note in notes.values())


def test_plain_counts_use_no_error_of_ours():
    found = compare(shipped_study())
    cells = [one for one in found if one.published.in_table]
    compas = [one for one in cells if one.published.key.dataset == "compas"]
    assert n_agreeing([one.within_deviation for one in compas]) == "44 of 44"
    assert n_agreeing([one.inside_interval for one in compas]) == "4 of 6"
    assert n_agreeing([one.within_deviation for one in cells]) == "123 of 192"
    assert n_agreeing([one.inside_interval for one in cells]) == "18 of 36"
    assert n_agreeing([one.within for one in cells]) == "264 of 448"
