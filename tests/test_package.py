"""The package itself: what it exports, who imports whom, what it does without."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pcer
from pcer.audit_file import audit_schema
from pcer.study.protocol import CONFIGURATIONS
from tests.study_folder import write_study

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pcer"

LAYERS = [
    "_version",
    "errors",
    "memory",
    "cache",
    "jsonfile",
    "metrics",
    "release",
    "columns",
    "predictions",
    "panel",
    "resampling",
    "null",
    "resolution",
    "ranking",
    "attacks",
    "paired",
    "lira",
    "empirical_epsilon",
    "group_attacks",
    "exposure",
    "verdict",
    "audit_file",
    "measure",
    "evidence",
    "notation",
    "account",
    "comparison",
    "agreement",
    "audit",
    "table",
    "agreement_table",
    "summary",
    "pages",
    "answers",
    "chart_data",
    "chart_parts",
    "chart",
    "figures",
    "page",
    "report",
    "verify",
    "junit",
    "table_release",
    "sweep_release",
    "sweep",
    "cli_data",
    "cli_train",
    "cli_study",
    "cli",
    "__main__",
]
"""A file may import only files above it; ``__init__`` is the front."""

STUDY = [
    "protocol",
    "published",
    "results",
    "quantities",
    "attack_agreement",
    "compare",
    "limits",
    "cells",
    "tables",
    "typeset",
    "figure",
    "readme",
    "noise",
    "views",
    "judgement",
    "rules",
    "about_whole",
    "about_adult_race",
    "about_adult_sex",
    "about_compas",
    "about_compas_strong",
    "about_floors",
    "about_acs",
    "about_bios",
    "about_attack",
    "about_agreement",
    "origin",
    "claims",
    "evidence_table",
    "facts",
    "findings_chart",
    "findings_noise",
    "findings_costs",
    "findings",
    "__main__",
    "files",
    "run",
    "variants",
    "sensitivity_file",
    "sensitivity_values",
    "sensitivity",
    "sensitivity_cells",
    "sensitivity_page",
    "sensitivity_run",
]
"""The same within the study's room, which reads releases and stands below the report."""

STUDY_TRAINERS = ("run", "sensitivity_run")
"""The files of the study that train."""

TRAINERS = ("table_release", "sweep_release", "sweep", "cli_data", "cli_train")
"""The files that join the trainer's rooms to the release."""

ATTACKS = (
    "ranking",
    "attacks",
    "paired",
    "lira",
    "empirical_epsilon",
    "group_attacks",
    "exposure",
)
"""The trainer's side: the auditor never has the records that these need."""

BARE = ("torch", "sklearn", "pandas", "polars", "pyarrow", "opacus", "ray", "numba")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pcer":
            inner = (node.module or "").split(".")[1:]
            names |= {inner[0]} if inner else {alias.name for alias in node.names}
    return names


def imported_of_study(path: Path) -> set[str]:
    return {
        (node.module or "").split(".")[2]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pcer.study.")
    }


def test_exports():
    assert pcer.__all__ == sorted(pcer.__all__)
    for name in pcer.__all__:
        assert getattr(pcer, name) is not None


def test_the_data_room_is_there_when_asked_for():
    code = (
        "import sys, pcer\n"
        "assert 'pcer.data' not in sys.modules\n"
        "assert pcer.data.load('compas').n_records == 6172\n"
        "assert not hasattr(pcer, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_file_is_in_the_layers():
    assert sorted(LAYERS) == sorted(
        path.stem for path in SOURCE.glob("*.py") if path.stem != "__init__"
    )


@pytest.mark.parametrize("name", LAYERS)
def test_a_file_imports_only_files_above_it(name):
    above = set(LAYERS[: LAYERS.index(name)])
    above |= {"data", "train"} if name in TRAINERS else set()
    above |= {"study", "train"} if name == "cli_study" else set()
    assert imported(SOURCE / f"{name}.py") <= above


def test_the_data_room_needs_no_room_below_it():
    for path in (SOURCE / "data").glob("*.py"):
        assert imported(path) <= {"data", "errors", "cache", "columns"}, path


def test_training_needs_no_room_below_it():
    for path in (SOURCE / "train").glob("*.py"):
        assert imported(path) <= {"train", "errors", "cache", "jsonfile", "_version"}, path


def test_every_file_of_the_study_is_in_its_layers():
    assert sorted(STUDY) == sorted(
        path.stem for path in (SOURCE / "study").glob("*.py") if path.stem != "__init__"
    )


@pytest.mark.parametrize("name", STUDY)
def test_a_file_of_the_study_imports_only_the_auditors_half(name):
    path = SOURCE / "study" / f"{name}.py"
    allowed = set(LAYERS[: LAYERS.index("table_release")]) - set(ATTACKS)
    trainers = {"data", "train", "sweep_release", "sweep"}
    allowed |= trainers if name in STUDY_TRAINERS else set()
    assert imported(path) - {"study"} <= allowed
    assert imported_of_study(path) <= set(STUDY[: STUDY.index(name)])


def test_ray_is_imported_in_one_file_and_only_when_asked_for():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "import ray\n" not in text or path.name == "ray_path.py", path
        assert "from ray" not in text or path.name == "ray_path.py", path
    code = "import sys, pcer.sweep, pcer.train.ray_path\nassert 'ray' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in (*ATTACKS, *TRAINERS)])
def test_the_auditors_half_imports_no_attack(name):
    assert imported(SOURCE / f"{name}.py").isdisjoint(ATTACKS)


def test_import_needs_nothing_of_the_trainer():
    names = (*BARE, "scipy.stats", "altair", "vl_convert", "jinja2")
    blocked = ", ".join(repr(name) for name in (*names, *(f"pcer.{name}" for name in ATTACKS)))
    code = (
        "import sys, pcer, pcer.cli\n"
        f"loaded = [name for name in ({blocked}) if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.network
def test_audit_runs_in_a_bare_environment(tmp_path):
    """Install the core alone into a new venv, and audit there without the trainer's packages."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    install = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    if install.returncode and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {install.stderr[-200:]}")
    assert install.returncode == 0, install.stderr
    for name in BARE:
        gone = subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False)
        assert gone.returncode == 1, name
    release = ROOT / "tests" / "releases" / "counts.release.json"
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "pcer", "audit", release, "--json", "-", "--html", "r.html"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert (tmp_path / "r.html").read_text(encoding="utf-8").endswith("</html>\n")
    assert json.loads(done.stdout) == pcer.audit(pcer.read_release(release)).to_tree()
    write_study(tmp_path / "study", n_seeds=2, configurations=CONFIGURATIONS[2:3])
    command = ["pcer", "reproduce", "--tables-only", "--no-report", "-o", "study"]
    subprocess.run([tmp_path / "venv" / "bin" / command[0], *command[1:]], check=True, cwd=tmp_path)
    assert "| compas |" in (tmp_path / "study" / "cells.md").read_text(encoding="utf-8")


def test_published_schemas_are_current():
    path = ROOT / "docs" / "schemas" / "audit.schema.json"
    assert json.loads(path.read_text()) == audit_schema()


def test_functions_and_files_stay_small():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = (body[-1].end_lineno - body[0].lineno + 1) if body else 0
                assert length <= 60, (path, node.name, length)
