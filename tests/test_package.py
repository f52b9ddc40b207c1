"""The package itself: how large it is, what it exports, who imports whom, what it does without."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import pcer
from pcer.auditing.record import Audit
from pcer_studies.protocol import CONFIGURATIONS
from tests.worlds.studies import write_study

ROOT = Path(__file__).parents[1]
SOURCE, STUDIES = ROOT / "src" / "pcer", ROOT / "studies" / "src" / "pcer_studies"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MOST_LINES_OF_A_FILE = 600

# A room imports only rooms above it, and the modules that stand before all rooms: in the
# order of the picture in docs/architecture.md.
PICTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FIRST, *LINES = PICTURE.partition("```text\n")[2].partition("```")[0].splitlines()
MODULES = ["_version", *FIRST.partition("  ")[0].split()]
ROOMS = [line.split()[0] for line in LINES]

BARE = ("torch", "sklearn", "pandas", "polars", "pyarrow", "opacus", "ray", "numba")


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Those of modules, classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            constant = first.value if isinstance(first, ast.Expr) else None
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                yield constant


def test_a_file_holds_one_idea():
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    assert max(len(text.splitlines()) for text in texts) <= MOST_LINES_OF_A_FILE


def test_functions_stay_small():
    for path in (*SOURCE.rglob("*.py"), *STUDIES.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = (body[-1].end_lineno - body[0].lineno + 1) if body else 0
                assert length <= 100, (path, node.name, length)


VAGUE = r"(ahead|caps|changed|shifts|stated|promises|evenness|spent|shown|told)\.py"


def test_names_and_docstrings_are_read_without_their_neighbours():
    paths = list(SOURCE.rglob("*.py"))
    assert [path for path in paths if re.fullmatch(VAGUE, path.name)] == []
    docs = [
        (path, doc) for path in paths for doc in docstrings(ast.parse(path.read_text()))
    ]
    needy = r"\s*(The same|Of)\b"
    assert [(p.name, doc.lineno) for p, doc in docs if re.match(needy, doc.value)] == []


def run_nodes(tree: ast.AST, *, at_once: bool) -> Iterator[ast.AST]:
    """What can run, or runs at once: nothing that is for type checkers alone."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if at_once and isinstance(child, ast.FunctionDef):
            continue
        yield child
        yield from run_nodes(child, at_once=at_once)


def imported(path: Path, *, at_once: bool = False) -> set[str]:
    """Modules of ours that a file imports, wherever it does so."""
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in run_nodes(tree, at_once=at_once):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                place = ROOT / "src" / whole.replace(".", "/")
                is_module = place.is_dir() or place.with_suffix(".py").exists()
                names.add(whole if is_module else node.module or "")
    return {name for name in names if name.split(".")[0] in ("pcer", "pcer_studies")}


def rooms_of(modules: set[str]) -> set[str]:
    """Rooms of modules by their names, or modules before all rooms; nothing private."""
    assert not [n for n in modules if "._" in n and n != "pcer._version"]
    return {f"{name}.".split(".")[1] for name in modules}


def test_the_folder_shows_the_rooms():
    assert {path.stem for path in SOURCE.glob("*.py")} == {
        *MODULES,
        "__init__",
        "__main__",
    }
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_above_it_and_no_file_comes_back_to_itself(room):
    above, graph = {*MODULES, *ROOMS[: ROOMS.index(room)]}, {}
    for path in (SOURCE / room).rglob("*.py"):
        inside = {
            name for name in imported(path) if f"{name}.".startswith(f"pcer.{room}.")
        }
        assert rooms_of(imported(path) - inside) <= above, path
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        graph[name.removesuffix(".__init__")] = inside
    assert tuple(TopologicalSorter(graph).static_order())


def test_the_modules_before_all_rooms_import_only_each_other_in_order():
    for index, name in enumerate(MODULES):
        above = {f"pcer.{module}" for module in MODULES[:index]}
        # display alone imports rooms below, and only inside its methods
        at_once = imported(SOURCE / f"{name}.py", at_once=name == "display")
        assert at_once <= above, name


def test_the_study_imports_nothing_private():
    for path in STUDIES.rglob("*.py"):
        ours = {name for name in imported(path) if name.startswith("pcer.")}
        assert rooms_of(ours) <= {*MODULES, *ROOMS}, path


def test_the_front_exports_what_it_names_in_order():
    assert pcer.__all__ == sorted(pcer.__all__)
    assert all(getattr(pcer, name) is not None for name in pcer.__all__)


def test_the_front_loads_a_name_when_it_is_used():
    """Every public name has a home, and ``import pcer`` loads neither it nor numpy."""
    assert {*pcer.HOMES, "__version__", "metrics"} == {*pcer.__all__}
    run_python(
        "import sys, pcer\n"
        "loaded = {name for name in sys.modules if name.startswith('pcer.')}\n"
        "assert loaded == {'pcer._version'} and 'numpy' not in sys.modules, loaded\n"
        "from pcer import Plan, metrics\n"
        "assert pcer.Plan is Plan and pcer.release.LIMITS and metrics.pcer\n"
    )


@pytest.mark.parametrize("room", ROOMS)
def test_a_front_exports_what_it_names_and_hides_no_file_of_the_room(room):
    front = importlib.import_module(f"pcer.{room}")
    order = {
        name: (not name.isupper(), not name[0].isupper(), name)
        for name in front.__all__
    }
    assert front.__all__ == sorted(
        front.__all__, key=order.get
    )  # constants, classes, functions
    assert all(getattr(front, name) is not None for name in front.__all__)
    files = {path.stem for path in (SOURCE / room).glob("*.py")} & set(front.__all__)
    assert all(isinstance(getattr(front, name), ModuleType) for name in files)


def run_python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_data_room_is_there_when_asked_for():
    run_python(
        "import sys, pcer\n"
        "assert 'pcer.data' not in sys.modules\n"
        "assert pcer.data.load('compas').n_records == 6172\n"
        "assert not hasattr(pcer, 'nothing')\n"
    )


def test_ray_is_imported_in_one_file_and_only_when_asked_for():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert path.name == "ray.py" or not re.search("import ray\n|from ray", text), (
            path
        )
    run_python(
        "import sys, pcer.sweep, pcer.train.ray\nassert 'ray' not in sys.modules\n"
    )


def test_import_needs_nothing_of_the_trainer():
    names = (*BARE, "scipy.stats", "vl_convert", "jinja2")
    blocked = (*names, "pcer.attacks", "pcer.data", "pcer.train")
    run_python(
        "import sys, pcer, pcer.cli\n"
        f"loaded = [name for name in {blocked!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )


OF_PROCESSES = ("ctypes", "signal", "subprocess", "threading")


def test_an_auditor_needs_no_processes_no_signals_and_no_threads(tmp_path):
    """Other packages may import them; no module of ours does, from file to page."""
    release = ROOT / "tests" / "releases" / "counts.release.json"
    run_python(
        "import builtins\n"
        "asked, load = [], builtins.__import__\n"
        "def noted(name, globals=None, *rest, **named):\n"
        "    importer = (globals or {}).get('__name__', '')\n"
        "    is_ours = importer.split('.')[0] == 'pcer'\n"
        f"    if is_ours and name.split('.')[0] in {OF_PROCESSES!r}:\n"
        "        asked.append((importer, name))\n"
        "    return load(name, globals, *rest, **named)\n"
        "builtins.__import__ = noted\n"
        "import pcer\n"
        f"audit = pcer.audit(pcer.read_release({str(release)!r}))\n"
        f"audit.save_html({str(tmp_path / 'page.html')!r})\n"
        "assert not asked, asked\n"
    )


# What ``pip install ".[sklearn]"`` does not bring.
SKLEARN_LACKS = (
    *(
        "torch",
        "numba",
        "opacus",
        "dp_accounting",
        "ibis",
        "duckdb",
        "pyarrow",
        "pooch",
        "ray",
    ),
    *("pandas", "polars"),
)


def test_estimators_need_no_more_than_their_extra(tmp_path):
    run_python(
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
        "carried = {row.attack for row in release.pooled_exposure}\n"
        "assert {'lira_advantage', 'paired_gap', 'rmia_advantage'} <= carried\n"
        "assert pcer.audit(release).settings\n"
    )


@pytest.mark.parametrize("missing", ["sklearn", "joblib"])
def test_without_scikit_learn_a_sentence_says_what_to_install(missing):
    run_python(
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
    weight = sum(
        path.stat().st_size for path in (tmp_path / "venv" / "lib").rglob("*.*")
    )
    assert weight <= 300e6
    for name in (*BARE, "vl_convert"):
        gone = subprocess.run(
            [python, "-c", f"import {name}"], capture_output=True, check=False
        )
        assert gone.returncode == 1, name
    release = ROOT / "tests" / "releases" / "counts.release.json"
    done = subprocess.run(
        [
            tmp_path / "venv" / "bin" / "pcer",
            "audit",
            release,
            "--json",
            "-",
            "--html",
            "r.html",
        ],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert (tmp_path / "r.html").read_text(encoding="utf-8").endswith("</html>\n")
    assert json.loads(done.stdout) == pcer.audit(pcer.read_release(release)).to_tree()
    drawing = [
        tmp_path / "venv" / "bin" / "pcer",
        "audit",
        release,
        "--figures",
        tmp_path / "f",
    ]
    refused = subprocess.run(drawing, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == (
        "pcer: --figures needs vl_convert, which is not installed; in a clone of pcer run: pip "
        'install ".[figures]"\n'
    )
    assert not (tmp_path / "f").exists()
    subprocess.run(
        [*pip, "-c", ROOT / "constraints.txt", f"{ROOT}[figures]"], check=True
    )
    subprocess.run(drawing, capture_output=True, check=True)
    write_study(tmp_path / "study", n_seeds=2, configurations=CONFIGURATIONS[2:3])
    command = [
        tmp_path / "venv" / "bin" / "pcer",
        *("reproduce", "--tables-only", "--no-report", "-o", "study"),
    ]
    alone = subprocess.run(
        command, check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert alone.returncode == 2
    assert 'pip install ".[train]" ./studies' in alone.stderr
    studies = ["install", "--quiet", "--no-deps", ROOT / "studies"]
    subprocess.run([python, "-m", "pip", *studies], check=True)
    subprocess.run(command, check=True, cwd=tmp_path)
    assert "| compas |" in (tmp_path / "study" / "cells.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.network
def test_a_wheelhouse_alone_installs_what_audits_the_examples(tmp_path):
    """Made with a network, used without: for stewards and research environments."""
    house = tmp_path / "house"
    made = subprocess.run(
        [ROOT / "scripts" / "wheels", house, "sklearn"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )
    if made.returncode and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {made.stderr[-200:]}")
    assert made.returncode == 0, made.stderr
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    binary = tmp_path / "venv" / "bin"
    alone = {"PATH": str(binary), "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    pip = [binary / "python", "-m", "pip", "install", "--quiet", "--no-index"]
    for wanted, is_there in (("pcer", False), ("pcer[sklearn]", True)):
        install = [*pip, "--find-links", house, wanted]
        subprocess.run(install, check=True, env=alone)
        found = subprocess.run(
            [binary / "python", "-c", "import sklearn"],
            capture_output=True,
            check=False,
        )
        assert (found.returncode == 0) is is_there
        command = [binary / "pcer", "audit", ROOT / "examples"]
        subprocess.run(command, check=True, capture_output=True, env=alone)


def core_needs() -> set[str]:
    """Names of all packages that the core needs here, and those need."""
    needed, texts = set[str](), list(PROJECT["dependencies"])
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
    locked = {
        line.split("==")[0]: line for line in lines if line and not line.startswith("#")
    }
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    versions = dict(pin.split("==") for pin in pins if not pin.startswith("#"))
    tested = {canonicalize_name(name): version for name, version in versions.items()}
    assert set(locked) == core_needs()
    for name, line in locked.items():
        version, *digests = line.split("==", 1)[1].split()
        assert version == tested[name]
        assert len(digests) >= 2
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", each) for each in digests)


def test_what_draws_png_and_pdf_comes_with_its_extra_only():
    (extra,) = PROJECT["optional-dependencies"]["figures"]
    assert extra.startswith("vl-convert-python>=")
    assert not [need for need in PROJECT["dependencies"] if "vl-convert" in need]
    assert "figures" in PROJECT["optional-dependencies"]["dev"][0]


def test_published_schemas_are_current():
    path = ROOT / "docs" / "schemas" / "audit.schema.json"
    assert json.loads(path.read_text()) == Audit.file_schema()


@pytest.mark.parametrize("name", pcer.__all__)
def test_what_is_public_has_the_signature_of_its_arguments(name):
    public = getattr(pcer, name)
    if not callable(public) or isinstance(public, type(pcer.Verdict)):
        return
    if isinstance(public, type) and issubclass(public, Exception):
        return
    parameters = inspect.signature(public).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    if isinstance(public, type):
        assert inspect.Parameter.VAR_POSITIONAL not in kinds


def test_a_wrong_argument_is_pythons_own_error_and_a_wrong_value_is_ours():
    for wrong in ({"floors_": [0.1]}, {"policy": None, "no_such": 1}):
        with pytest.raises(TypeError, match=r"Plan\(\) got an unexpected keyword"):
            pcer.Plan(**wrong)
    with pytest.raises(pcer.InputError, match="field floor") as caught:
        pcer.Plan(floor=-1)
    assert caught.value.field == "floor"
