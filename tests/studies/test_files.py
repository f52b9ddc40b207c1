"""What a study's folder holds: tables, figure, pages; the same releases, the same bytes."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import pcer
from pcer.cli.app import app
from pcer_studies import BUDGETS, CONFIGURATIONS, Study
from pcer_studies.tables.figure import figure_spec
from pcer_studies.tables.folder import study_files
from pcer_studies.tables.layout import paper_tables
from tests.worlds.studies import SHIPPED, shipped_study, write_study

COMPAS = CONFIGURATIONS[2]
TEXTS = ("README.md", "cells.csv", "cells.md", "tables.md", "tables.tex")


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    folder = tmp_path_factory.mktemp("part")
    return Study.read(write_study(folder, n_seeds=1, configurations=[COMPAS]))


def lines_of(files):
    return list(csv.DictReader(io.StringIO(files["cells.csv"])))


@pytest.fixture(scope="module")
def files(study):
    return study_files(study, report=False)


def test_the_latex_document_is_well_formed(files):
    text = files["tables.tex"]
    assert text.isascii()
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert re.findall(r"\\begin\{(\w+)\}", text)[0] == "document"
    assert text.endswith("\\end{document}\n")
    for name in ("table", "tabular", "figure", "document"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")
    assert text.count(r"\begin{table}") == 9
    for align, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.S):
        for line in body.splitlines():
            if line.endswith(r"\\"):
                spanned = sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d)\}", line))
                cells = len(re.findall(r"(?<!\\)&", line)) + 1
                assert cells + spanned == len(align), line
    assert text.count("$") % 2 == 0
    assert [r"\thetable}{" + k + "}" in text for k in ("1", "3", "S1", "S6")] == [True] * 4


def test_figure_one_draws_the_audits_numbers(study):
    spec = figure_spec(study)
    assert [panel["title"] for panel in spec["hconcat"]] == [
        "(a) Adult (race)",
        "(b) COMPAS (race)",
    ]
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
    assert all(line["within"] in ("", "yes", "no") for line in lines_of(files))


def test_no_figure_without_its_data(tmp_path):
    bios = CONFIGURATIONS[5]
    files = study_files(
        Study.read(write_study(tmp_path, n_seeds=2, configurations=[bios])), report=False
    )
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


def test_tables_need_nothing_of_the_trainer(tmp_path):
    write_study(tmp_path, n_seeds=1, configurations=[COMPAS])
    command = [sys.executable, "-c", WITHOUT_TRAINERS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all((tmp_path / name).stat().st_size for name in TEXTS)


def test_bad_input_writes_nothing(tmp_path):
    run = CliRunner().invoke(app, ["reproduce", "--tables-only", "-o", str(tmp_path)])
    assert isinstance(run.exception, pcer.InputError)
    assert "holds no release of the study" in str(run.exception)
    write_study(tmp_path, n_seeds=1, configurations=[COMPAS])
    (tmp_path / COMPAS.file_name).write_text("{")
    run = CliRunner().invoke(app, ["reproduce", "--tables-only", "-o", str(tmp_path)])
    assert "not complete JSON" in str(run.exception)
    assert [path.name for path in tmp_path.iterdir()] == [COMPAS.file_name]
    run = CliRunner().invoke(
        app, ["reproduce", "--tables-only", "--dataset", "acs", "-o", str(tmp_path)]
    )
    assert "leave --dataset out" in str(run.exception)


@pytest.mark.slow
def test_the_shipped_study_is_what_its_releases_give():
    """So that ``pcer reproduce --tables-only -o studies/paper`` would change no text."""
    files = study_files(shipped_study(), report=False)
    for name in TEXTS:
        assert (SHIPPED / name).read_text(encoding="utf-8") == files[name], name
