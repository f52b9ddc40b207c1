"""The package itself: what it exports, who imports whom, what it does without."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import pcer
from pcer.auditing.file import audit_schema
from pcer_studies.protocol import CONFIGURATIONS
from tests.worlds.studies import write_study

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pcer"
STUDIES = ROOT / "studies" / "src" / "pcer_studies"

ROOMS = [
    "release",
    "auditing",
    "report",
    "attacks",
    "store",
    "models",
    "data",
    "tables",
    "train",
    "sweep",
    "cli",
]
"""A room imports only rooms above it, and the modules that stand before all rooms."""
MODULES = ["_version", "errors", "metrics", "files", "statistics"]
"""The same for these; ``__init__`` is the front of the whole, ``__main__`` runs the last room."""
AUDITORS = ROOMS[: ROOMS.index("attacks")]
"""The auditor's rooms: nothing there sees a record or a model."""

BARE = ("torch", "sklearn", "pandas", "polars", "pyarrow", "opacus", "ray", "numba")


def imported(path: Path) -> set[str]:
    """Modules of pcer that a file imports, wherever it does so."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module == "pcer":
            names |= {f"pcer.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name for name in names if name.split(".")[0] in ("pcer", "pcer_studies")}


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


def test_the_folder_shows_the_rooms():
    files = {path.stem for path in SOURCE.glob("*.py")}
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert files == {*MODULES, "__init__", "__main__"}
    assert rooms == set(ROOMS)
    assert len(files) <= 8
    assert len(rooms) <= 11


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_above_it(room):
    above = {*MODULES, *ROOMS[: ROOMS.index(room)]}
    for path in (SOURCE / room).rglob("*.py"):
        outside = {n for n in imported(path) if not f"{n}.".startswith(f"pcer.{room}.")}
        assert rooms_of(outside) <= above, path


def rooms_of(modules: set[str]) -> set[str]:
    """Rooms of modules by their names, or modules before all rooms; nothing private."""
    assert not [n for n in modules if "._" in n and n != "pcer._version"]
    return {name.split(".")[1] for name in modules}


def files_imported(path: Path) -> set[str]:
    """Files of its own room that a file imports, wherever it does so; the front is one of them."""
    room, found = f"pcer.{path.parent.name}", set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == room:
            names = {alias.name for alias in node.names}
            files = {name for name in names if (path.parent / f"{name}.py").exists()}
            found |= {f"{room}.{name}" for name in files} | ({room} if names - files else set())
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if f"{name}.".startswith(f"{room}.")}


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_of_a_room_comes_back_to_itself_by_its_imports(room):
    graph = {f"pcer.{room}.{p.stem}": files_imported(p) for p in (SOURCE / room).glob("*.py")}
    graph[f"pcer.{room}"] = graph.pop(f"pcer.{room}.__init__")
    assert tuple(TopologicalSorter(graph).static_order())


def test_the_modules_before_all_rooms_import_only_each_other_in_order():
    for index, name in enumerate(MODULES):
        above = {f"pcer.{one}" for one in MODULES[:index]}
        assert imported(SOURCE / f"{name}.py") <= above, name


@pytest.mark.parametrize("room", ROOMS)
def test_a_front_exports_what_it_names_and_hides_no_file_of_the_room(room):
    front = importlib.import_module(f"pcer.{room}")
    assert front.__all__ == sorted(front.__all__, key=_isort_order)
    assert all(getattr(front, name) is not None for name in front.__all__)
    files = {path.stem for path in (SOURCE / room).glob("*.py")}
    hidden = [
        n for n in files & set(front.__all__) if not isinstance(getattr(front, n), ModuleType)
    ]
    assert not hidden


def _isort_order(name: str) -> tuple[int, str]:
    """Constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_the_study_imports_nothing_private():
    for path in STUDIES.rglob("*.py"):
        outside = {n for n in imported(path) if n.startswith("pcer.")}
        assert rooms_of(outside) <= {*MODULES, *ROOMS}, path


def test_ray_is_imported_in_one_file_and_only_when_asked_for():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "import ray\n" not in text or path.name == "ray.py", path
        assert "from ray" not in text or path.name == "ray.py", path
    code = "import sys, pcer.sweep, pcer.train.ray\nassert 'ray' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_needs_nothing_of_the_trainer():
    names = (*BARE, "scipy.stats", "altair", "vl_convert", "jinja2")
    blocked = ", ".join(repr(name) for name in (*names, "pcer.attacks", "pcer.data", "pcer.train"))
    code = (
        "import sys, pcer, pcer.cli\n"
        f"loaded = [name for name in ({blocked}) if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


SKLEARN_LACKS = (
    *("torch", "numba", "opacus", "dp_accounting", "ibis", "duckdb", "pyarrow", "pooch", "ray"),
    *("pandas", "polars"),
)
"""What ``pip install ".[sklearn]"`` does not bring."""


def test_estimators_need_no_more_than_their_extra(tmp_path):
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {SKLEARN_LACKS!r}:\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import numpy as np, pcer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "X = np.random.default_rng(0).normal(size=(300, 2))\n"
        "release = pcer.release_from_estimator(\n"
        "    LogisticRegression(), X, X[:, 0] > 0, sensitive_features={'s': X[:, 1] > 0},\n"
        f"    outcome='benefit', n_splits=8, store={str(tmp_path / 's')!r},\n"
        ")\n"
        "assert len(release.pooled_exposure) == 14\n"
        "assert pcer.audit(release).budgets\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("missing", ["sklearn", "joblib"])
def test_without_scikit_learn_a_sentence_says_what_to_install(missing):
    code = (
        "import importlib.util, pcer\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name: None if name == {missing!r} else find(name)\n"
        "try:\n"
        "    pcer.release_from_estimator(\n"
        "        None, None, None, sensitive_features=None, outcome='harm'\n"
        "    )\n"
        "except pcer.InputError as error:\n"
        "    assert 'run: pip install \".[sklearn]\"' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('not refused')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.network
def test_audit_runs_in_a_bare_environment(tmp_path):
    """Install the core alone into a new venv, and audit there without the trainer's packages."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    pip = [python, "-m", "pip", "install", "--quiet"]
    install = subprocess.run(
        [*pip, "--require-hashes", "-r", ROOT / "auditor.lock"],
        capture_output=True,
        text=True,
        check=False,
    )
    if install.returncode and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {install.stderr[-200:]}")
    assert install.returncode == 0, install.stderr
    subprocess.run([*pip, "--no-deps", ROOT], check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    weight = sum(path.stat().st_size for path in (tmp_path / "venv" / "lib").rglob("*.*"))
    assert weight <= 300e6
    for name in (*BARE, "altair", "vl_convert"):
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
    drawing = [tmp_path / "venv" / "bin" / "pcer", "audit", release, "--figures", tmp_path / "f"]
    refused = subprocess.run(drawing, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == (
        "pcer: --figures needs altair, which is not installed; in a clone of pcer run: pip "
        'install ".[figures]"\n'
    )
    assert not (tmp_path / "f").exists()
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", f"{ROOT}[figures]"], check=True)
    subprocess.run(drawing, capture_output=True, check=True)
    write_study(tmp_path / "study", n_seeds=2, configurations=CONFIGURATIONS[2:3])
    command = [
        tmp_path / "venv" / "bin" / "pcer",
        *("reproduce", "--tables-only", "--no-report", "-o", "study"),
    ]
    alone = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert alone.returncode == 2
    assert 'pip install ".[train]" ./studies' in alone.stderr
    studies = ["install", "--quiet", "--no-deps", ROOT / "studies"]
    subprocess.run([python, "-m", "pip", *studies], check=True)
    subprocess.run(command, check=True, cwd=tmp_path)
    assert "| compas |" in (tmp_path / "study" / "cells.md").read_text(encoding="utf-8")


def core_needs() -> set[str]:
    """Names of all packages that the core needs here, and those need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed, texts = set[str](), list(project["dependencies"])
    while texts:
        found = Requirement(texts.pop())
        name = canonicalize_name(found.name)
        wanted = found.marker is None or found.marker.evaluate({"extra": ""})
        if wanted and name not in needed:
            needed.add(name)
            texts += metadata.requires(name) or []
    return needed


def test_the_auditors_lock_is_the_core_at_the_versions_that_were_tested():
    lines = (ROOT / "auditor.lock").read_text().replace("\\\n", " ").splitlines()
    locked = {line.split("==")[0]: line for line in lines if line and not line.startswith("#")}
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    versions = dict(pin.split("==") for pin in pins if not pin.startswith("#"))
    tested = {canonicalize_name(name): version for name, version in versions.items()}
    assert set(locked) == core_needs()
    for name, line in locked.items():
        version, *digests = line.split("==", 1)[1].split()
        assert version == tested[name]
        assert len(digests) >= 2
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", one) for one in digests)


def test_drawing_packages_come_with_their_extra_only():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = " ".join(project["optional-dependencies"]["figures"])
    for name in ("altair", "vl-convert"):
        assert not [one for one in project["dependencies"] if name in one]
        assert name in extra
    assert "figures" in project["optional-dependencies"]["dev"][0]


def kinds(path: Path) -> list[str]:
    """Names of classes, aliases and type variables that a file defines at its top."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = [one.id for target in targets for one in ast.walk(target) if is_name(one)]
            names += [name for name in found if name[0].isupper() and not name.isupper()]
    return names


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def test_a_class_or_alias_has_a_name_of_its_own():
    places: dict[str, list[str]] = {}
    for path in (*SOURCE.rglob("*.py"), *STUDIES.rglob("*.py")):
        for name in kinds(path):
            places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_published_schemas_are_current():
    path = ROOT / "docs" / "schemas" / "audit.schema.json"
    assert json.loads(path.read_text()) == audit_schema()


def test_functions_and_files_stay_small():
    for path in (*SOURCE.rglob("*.py"), *STUDIES.rglob("*.py")):
        text = path.read_text()
        assert len(text.splitlines()) <= 900, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = (body[-1].end_lineno - body[0].lineno + 1) if body else 0
                assert length <= 60, (path, node.name, length)
