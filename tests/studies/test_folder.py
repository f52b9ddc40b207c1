"""A study's folder: what is read of it, and the tables, figure and pages that it gives."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import pcer
from pcer.cli.app import app
from pcer_studies import BUDGETS, CONFIGURATIONS, Study
from pcer_studies.__main__ import main
from pcer_studies.tables.figure import figure_spec
from pcer_studies.tables.folder import study_files
from pcer_studies.tables.layout import paper_tables
from tests.worlds.studies import SHIPPED, shipped_study, study_of, tree_of, write_study

COMPAS, BIOS = CONFIGURATIONS[2], CONFIGURATIONS[5]
TEXTS = ("README.md", "cells.csv", "cells.md", "tables.md", "tables.tex")


def tables_only(folder, *options: str) -> str:
    """What ``pcer reproduce --tables-only`` says against a folder."""
    run = CliRunner().invoke(app, ["reproduce", "--tables-only", *options, "-o", str(folder)])
    assert isinstance(run.exception, pcer.InputError)
    return str(run.exception)


# What is read.


def test_a_complete_study_is_read_in_the_papers_order_and_audited_once(study):
    assert study.is_complete
    assert study.configurations == CONFIGURATIONS
    assert study.settings["format"] == "pcer-study"
    release = pcer.read_release(study.folder / "compas.race.release.json")
    assert study.audit("compas", "race") == pcer.audit(release, cost="overfitting_gap")
    assert study.audit("compas", "race") is study.audit("compas", "race")
    other = study.audit("compas", "race", cost="auc_advantage")
    assert other == pcer.audit(release, pcer.Plan(cost="auc_advantage"))


def test_what_a_study_lacks_is_named(part):
    assert not part.is_complete
    assert part.settings is None
    assert part.has("compas", "race")
    assert not part.has("acs", "sex")
    with pytest.raises(pcer.InputError, match=r"no release of acs \(sex\).*--dataset acs"):
        part.audit("acs", "sex")
    with pytest.raises(pcer.InputError, match="no models of epsilon 3"):
        part.panel("compas", "race", 3.0)


def turned(where: str, name: str, value) -> dict:
    """A release that says something else."""
    tree = tree_of(COMPAS, n_seeds=2)
    return tree | {where: tree[where] | {name: value}}


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "holds no release of the study"),
        ({COMPAS.file_name: None}, "not complete JSON"),
        ({"adult.race.release.json": tree_of(COMPAS)}, r"adult\.race\.release\.json: subject must"),
        (
            {COMPAS.file_name: turned("subject", "groups", [*COMPAS.groups[::-1]])},
            "Other, African-American in this order",
        ),
        ({COMPAS.file_name: tree_of(COMPAS), "study.json": []}, r"study\.json must hold one obj"),
        ({COMPAS.file_name: tree_of(COMPAS), "study.json": {"datasets": []}}, "must be an object"),
        *(
            (
                {COMPAS.file_name: turned("training", "split_kind", kind)},
                r"compas\.race.*split_kind must be 'random'",
            )
            for kind in ("other", None)
        ),
    ],
)
def test_files_that_are_no_study_are_refused_in_one_sentence(tmp_path, files, sentence, capsys):
    for name, tree in files.items():
        (tmp_path / name).write_text("{" if tree is None else json.dumps(tree))
    with pytest.raises(pcer.InputError, match=sentence):
        Study.read(tmp_path)
    assert main([str(tmp_path), str(tmp_path / "pages")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert re.search(sentence, tables_only(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    with pytest.raises(pcer.InputError, match="is not a folder"):
        Study.read(tmp_path / "nowhere")
    assert "leave --dataset out" in tables_only(tmp_path, "--dataset", "acs")


def test_whose_data_differ_from_the_papers(study, tmp_path):
    assert study.data_note("adult", "sex") is study.data_note("compas", "race") is None
    assert "its draw of 50,000 is not published" in str(study.data_note("acs", "race"))
    assert "cleared of the pronouns" in str(study.data_note("bios", "gender"))
    tree = tree_of(BIOS, n_seeds=1)
    tree["subject"]["n_records"] = 38_018
    assert study_of(tmp_path, tree).data_note("bios", "gender") is None


# What is written: the same releases, the same bytes.


@pytest.fixture(scope="module")
def part(tmp_path_factory) -> Study:
    folder = tmp_path_factory.mktemp("part")
    return Study.read(write_study(folder, n_seeds=1, configurations=[COMPAS]))


def test_the_latex_document_is_well_formed(study):
    text = study_files(study, report=False)["tables.tex"]
    assert text.isascii()
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert re.findall(r"\\begin\{(\w+)\}", text)[0] == "document"
    assert text.endswith("\\end{document}\n")
    for name in ("table", "tabular", "figure", "document"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")
    assert text.count(r"\begin{table}") == 9
    for align, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.S):
        for line in (line for line in body.splitlines() if line.endswith(r"\\")):
            spanned = sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d)\}", line))
            assert len(re.findall(r"(?<!\\)&", line)) + 1 + spanned == len(align), line
    assert text.count("$") % 2 == 0
    assert all(r"\thetable}{" + k + "}" in text for k in ("1", "3", "S1", "S6"))


def test_figure_one_draws_the_audits_numbers(study):
    spec = figure_spec(study)
    titles = [panel["title"] for panel in spec["hconcat"]]
    assert titles == ["(a) Adult (race)", "(b) COMPAS (race)"]
    rows = spec["datasets"]["panel-b"]
    assert len(rows) == 2 * len(BUDGETS)
    assert [row["budget"] for row in rows[::2]] == ["0.1", "0.5", "1", "5", "10", "no-DP"]
    budget = study.audit("compas", "race").budgets[0]
    assert rows[0]["mean"] == budget.demographic_parity_gap.mean
    assert (rows[1]["low"], rows[1]["high"]) == budget.pairs[0].pcer_disparity.ci
    resolved = budget.verdict is not pcer.Verdict.NOT_RESOLVED
    assert (rows[1]["series"] == "PCER disparity (right axis)") is resolved


def test_a_part_of_the_study_with_one_seed(part):
    files = study_files(part)
    assert sorted(files) == sorted([*TEXTS, "figure1.svg", "figure1.png", "report.html"])
    names = [table.name for table in paper_tables(part)]
    assert names == ["Table 1", "Table S1", "Table S2", "Table S5"]
    assert "1 of the paper's 6 configurations, 6 budgets and 1 seed: 6 models" in files["README.md"]
    assert "--dataset compas --seeds 1" in files["README.md"]
    assert "Versions: not recorded." in files["README.md"]
    assert "no interval" in files["tables.md"]
    assert figure_spec(part)["hconcat"][0]["title"] == "(b) COMPAS (race)"
    lines = csv.DictReader(io.StringIO(files["cells.csv"]))
    assert {line["within"] for line in lines} <= {"", "yes", "no"}


def test_no_figure_without_its_data(tmp_path):
    files = study_files(study_of(tmp_path, tree_of(BIOS, n_seeds=2)), report=False)
    assert sorted(files) == sorted(TEXTS)
    assert "figure1" not in files["tables.tex"].partition("\\begin{document}")[2]


WITHOUT_TRAINERS = """
import sys
for name in ("torch", "opacus", "sklearn", "pandas", "polars", "pyarrow", "dp_accounting"):
    sys.modules[name] = None
from pcer.cli import main
sys.argv = ["pcer", "reproduce", "--tables-only", "--no-report", "-o", sys.argv[1]]
main()
trainers = ("pcer.data", "pcer.train", "pcer.sweep")
loaded = [name for name in sys.modules if name.startswith(trainers)]
assert not loaded, loaded
"""


def test_tables_need_nothing_of_the_trainer(part):
    command = [sys.executable, "-c", WITHOUT_TRAINERS, str(part.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all((part.folder / name).stat().st_size for name in TEXTS)


@pytest.mark.slow
def test_the_shipped_study_is_what_its_releases_give():
    """So that ``pcer reproduce --tables-only -o studies/paper`` would change no text."""
    files = study_files(shipped_study(), report=False)
    for name in TEXTS:
        assert (SHIPPED / name).read_text(encoding="utf-8") == files[name], name
