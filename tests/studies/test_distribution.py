"""Two distributions: the library carries no paper, the study carries no results."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import pcer
import pcer_studies

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies" / "src" / "pcer_studies"
OF_THE_STUDY = (b"pcer_studies", b"studies/paper", b"published.csv", b"text_figures.csv")


def named(content: bytes) -> list[bytes]:
    return [word for word in OF_THE_STUDY if word in content]


def test_the_study_has_the_librarys_version_and_exports_what_it_names():
    project = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text())["project"]
    assert project["version"] == pcer.__version__
    assert project["dependencies"] == [f"pcer[figures,train]=={pcer.__version__}"]
    assert all(getattr(pcer_studies, name) is not None for name in pcer_studies.__all__)


def test_the_librarys_code_names_no_study():
    """It knows the verb and how to install what brings it, and no file of it."""
    for path in (ROOT / "src" / "pcer").rglob("*"):
        if path.is_file() and path.suffix not in (".pyc", ".nbc", ".nbi"):
            assert not named(path.read_bytes()), path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, zipfile.ZipFile]:
    """Both wheels, by the first part of their name."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    command = [folder / "venv" / "bin" / "python", "-m", "pip", "wheel", "--quiet", "--no-deps"]
    made = subprocess.run(
        [*command, "--wheel-dir", folder, ROOT, ROOT / "studies"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {made.stderr[-200:]}")
    assert made.returncode == 0, made.stderr
    return {path.name.partition("-")[0]: zipfile.ZipFile(path) for path in folder.glob("*.whl")}


@pytest.mark.slow
@pytest.mark.network
def test_one_wheel_carries_no_study_and_the_other_no_results(wheels):
    held, studys = (
        {name for name in wheels[of].namelist() if "dist-info" not in name}
        for of in ("pcer", "pcer_studies")
    )
    assert "pcer/auditing/verdict.py" in held
    assert all(name.startswith("pcer/") for name in held)
    assert not [name for name in held if named(wheels["pcer"].read(name)) or "stud" in name]
    code = {path.relative_to(STUDIES.parent).as_posix() for path in STUDIES.rglob("*.py")}
    data = ("published.csv", "text_figures.csv", "claims/claims.toml", "claims/thresholds.csv")
    assert studys == {*code, *(f"pcer_studies/{name}" for name in data)}
    points = f"pcer_studies-{pcer.__version__}.dist-info/entry_points.txt"
    verbs = b"[pcer.verbs]\nreproduce = pcer_studies.command:register"
    assert verbs in wheels["pcer_studies"].read(points)
