"""A release of pcer itself: what the workflow does for a tag, done here."""

import hashlib
import json
import os
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import pcer
from tests.pages import ROOT

WORKFLOW = yaml.safe_load(
    (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
)
SCRIPT = ROOT / "scripts" / "release"


def test_the_version_is_one_everywhere():
    studies = tomllib.loads((ROOT / "studies/pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert studies["version"] == citation["version"] == pcer.__version__
    assert f"pcer[figures,train]=={pcer.__version__}" in studies["dependencies"]


def test_a_tag_runs_the_script_and_attests_what_it_built():
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads "on" so
    job, tests = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["test"]
    assert (job["needs"], tests["steps"][-1]["run"]) == ("test", "make test")
    first, *_ = [step["run"] for step in job["steps"] if "run" in step]
    assert first == 'scripts/release dist "$GITHUB_REF_NAME"'
    (attested,) = [s["with"] for s in job["steps"] if "attest" in s.get("uses", "")]
    assert attested == {"subject-path": "dist/*"}
    assert {"attestations", "id-token"} <= job["permissions"].keys()
    pythons = WORKFLOW["jobs"]["pythons"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]


def test_another_tag_and_a_folder_in_use_are_refused(tmp_path):
    (tmp_path / "old.whl").touch()
    for arguments in ((tmp_path / "new", "v0.0.1"), (tmp_path,)):
        done = subprocess.run(
            [SCRIPT, *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert [*tmp_path.iterdir()] == [tmp_path / "old.whl"]


@pytest.mark.slow
@pytest.mark.network
def test_the_steps_of_a_release(tmp_path):
    out, version = tmp_path / "dist", pcer.__version__
    command = [SCRIPT, out, f"v{version}"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if "No matching distribution" in done.stderr and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("PASSED") == 4
    )  # by twine: wheel and sdist, of pcer and of the study
    assert "Of African-American defendants who were not charged again" in " ".join(
        done.stdout.split()
    )  # the audit of the examples
    digests = dict(
        line.split()[::-1] for line in (out / "SHA256SUMS").read_text().splitlines()
    )
    found = {
        f"./{p.name}": hashlib.sha256(p.read_bytes()).hexdigest()
        for p in out.glob("pcer*")
    }
    assert digests == found
    bill = json.loads((out / f"pcer-{version}.cdx.json").read_text(encoding="utf-8"))
    parts = {part["name"].lower(): part["version"] for part in bill["components"]}
    pins = dict(line.lower().split("==") for line in read_pins())
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("pcer", version)
    assert not {"pcer", "pip", "setuptools"} & parts.keys()
    assert "file://" not in json.dumps(bill)
    assert {
        name: pins[name] for name in ("numpy", "pydantic", "scipy")
    }.items() <= parts.items()
    assert not {"torch", "pandas", "scikit-learn"} & parts.keys()
    wheel = zipfile.ZipFile(out / f"pcer-{version}-py3-none-any.whl").namelist()
    assert {name.split("/")[0] for name in wheel} == {
        "pcer",
        f"pcer-{version}.dist-info",
    }
    with tarfile.open(out / f"pcer-{version}.tar.gz") as sdist:
        names = {
            Path(name).relative_to(f"pcer-{version}").as_posix()
            for name in sdist.getnames()
        }
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("docs", "tests"))]


def read_pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]
